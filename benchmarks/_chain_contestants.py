"""Data and contestants of ``chain_peers.py``; every run of a contestant is a fresh process.

    python benchmarks/_chain_contestants.py CONTESTANT DATA OPTIONS

DATA is a pickle of lists of lists of lists of str (features of steps) and lists of lists of str (labels), OPTIONS is
JSON. Its last line of output is JSON as well. Modules are imported inside functions, so that no contestant carries
the libraries of another; those it needs itself are there before memory is first read.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import pickle
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Data = dict[str, Any]
Options = dict[str, Any]


# Data in plain Python form


def conll2000(n_sequences: int | None = None) -> Data:
    """The features that the 19 templates of CRF++ make, as a user of CRFsuite has them."""
    from sklearn_seqlab.datasets import fetch_conll2000, fetch_crfpp
    from sklearn_seqlab.feature_extraction import FeatureTemplates

    train, test = fetch_conll2000(subset="train"), fetch_conll2000(subset="test")
    tokens = train.data[:n_sequences] + test.data[:n_sequences]
    templates = FeatureTemplates(fetch_crfpp("chunking").template).fit(tokens)
    names = templates.get_feature_names_out().tolist()
    data = {}
    for suffix, part in (("", train), ("_test", test)):
        rows = templates.transform(part.data[:n_sequences])
        data["X" + suffix] = [as_names(x, names) for x in rows]
        data["y" + suffix] = [list(tags) for tags in part.target[:n_sequences]]
    return data


def as_names(x: Any, names: list[str]) -> list[list[str]]:
    """Steps of a CSR matrix as lists of str, each a str of its own."""
    cuts = x.indptr.tolist()
    found = ["".join([names[j], "\0"])[:-1] for j in x.indices.tolist()]
    return [found[a:b] for a, b in itertools.pairwise(cuts)]


def _held_out(rows: list, labels: list, is_test: list[bool]) -> Data:
    data: Data = {"X": [], "y": [], "X_test": [], "y_test": []}
    for x, y, late in zip(rows, labels, is_test, strict=True):
        data["X_test" if late else "X"].append([["bias", *(f"{j}" for j in row.nonzero()[0])] for row in x])
        data["y_test" if late else "y"].append([str(label) for label in y])
    return data


def kasteren(n_sequences: int | None = None) -> Data:
    """House A, every fourth day held out: names of the sensors that changed or were the last to."""
    from sklearn_seqlab.datasets import fetch_kasteren

    X, y = fetch_kasteren(house="A", encoding=("change", "last"), return_X_y=True)
    X, y = X[:n_sequences], y[:n_sequences]
    return _held_out(X, y, [day % 4 == 0 for day in range(len(X))]) | {"codes": True}


def ocr_letters(n_sequences: int | None = None) -> Data:
    """Handwritten words, fold 0 held out: names of the pixels that are set."""
    from sklearn_seqlab.datasets import fetch_ocr_letters

    words = fetch_ocr_letters()
    keep = range(0, len(words.data), max(1, len(words.data) // (n_sequences or len(words.data))))
    return _held_out(
        [words.data[i] for i in keep],
        [words.target[i] for i in keep],
        [bool(words.groups[i] == 0) for i in keep],
    ) | {"codes": False}


def synthetic(
    n_tokens: int, n_labels: int, n_features: int, length: int = 25, active: int = 10, seed: int = 0
) -> Data:
    """A Markov chain of labels that are often kept; half of the features belong to the label's own share."""
    import numpy as np

    random = np.random.default_rng(seed)
    n_sequences = max(1, n_tokens // length)
    labels = np.empty((n_sequences, length), dtype=np.int64)
    labels[:, 0] = random.integers(n_labels, size=n_sequences)
    for t in range(1, length):
        jump = random.random(n_sequences) < 0.4
        labels[:, t] = np.where(jump, (labels[:, t - 1] * 3 + random.integers(4, size=n_sequences)) % n_labels,
                                labels[:, t - 1])  # fmt: skip
    share = max(active, n_features // n_labels)
    own = (labels[..., None] * share + random.integers(share, size=(*labels.shape, active))) % n_features
    any_ = random.integers(n_features, size=own.shape)
    columns = np.where(random.random(own.shape) < 0.5, own, any_)
    names = [f"f{j}" for j in range(n_features)]
    return {
        "X": [[[names[j] for j in step] for step in x] for x in columns.tolist()],
        "y": [[f"L{k}" for k in y] for y in labels.tolist()],
    }


def as_dicts(data: Data) -> Data:
    """Steps as chaine takes them."""
    return {
        name: [[dict.fromkeys(step, 1.0) for step in x] for x in part] if name.startswith("X") else part
        for name, part in data.items()
    }


DATA: dict[str, Callable[..., Data]] = {
    "conll2000": conll2000,
    "kasteren": kasteren,
    "ocr_letters": ocr_letters,
    "synthetic": synthetic,
}


# Measures


class Meter:
    """Wall and CPU seconds, and peak memory in MiB, in all and above what there was at the start."""

    def __init__(self) -> None:
        gc.collect()
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        self.resident = _status("VmRSS")
        self.laps: dict[str, tuple[float, float]] = {}
        self.trace: list[tuple[float, float, float, int]] = []
        self.start = self.last = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> None:
        """Give the time since the last mark a name."""
        now = time.perf_counter(), time.process_time()
        self.laps[name] = now[0] - self.last[0], now[1] - self.last[1]
        self.last = now

    def record(self, objective: float, n_evaluations: int) -> None:
        """An iterate: seconds since the last mark, the objective as CRFsuite has it, evaluations so far."""
        wall, cpu = time.perf_counter() - self.last[0], time.process_time() - self.last[1]
        self.trace.append((wall, cpu, objective, n_evaluations))

    def result(self, **more: Any) -> dict[str, Any]:
        """To be called before anything that does not count."""
        total = (time.perf_counter() - self.start[0], time.process_time() - self.start[1])
        peak = _peak()
        return {
            "laps": self.laps | {"total": total},
            "trace": self.trace,
            "peak": peak,
            "rise": peak - self.resident,
        } | more


def _status(name: str) -> float:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {name}.")


def _peak() -> float:
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _seconds_of(function: Any, passes: int) -> tuple[float, float]:
    """Median wall and CPU seconds of a call."""
    found = []
    for _ in range(passes):
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return statistics.median(a for a, _ in found), statistics.median(b for _, b in found)


def _scored(result: dict[str, Any], data: Data, y_pred: Any, o: Options) -> dict[str, Any]:
    from sklearn_seqlab.metrics import micro_accuracy_score, segment_f1_score

    labels = [[str(label) for label in y] for y in y_pred]
    if o.get("score") == "f1":
        result["score"] = 100 * segment_f1_score(data["y_test"], labels, scheme="conll")
    elif o.get("score") == "accuracy":
        result["score"] = 100 * micro_accuracy_score(data["y_test"], labels)
    return result


# Contestants: fits


def _our_crf(meter: Meter, o: Options) -> Any:
    from sklearn_seqlab import LinearChainCRF

    class TimedCRF(LinearChainCRF):
        """Says when packing was done, and what the objective was when."""

        def _solve(self, objective: Any, start: Any, callback: Any, watch: Any) -> Any:
            meter.lap("pack")
            n_evaluations, evaluate = 0, objective.value_and_gradient

            def counted(coef: Any) -> Any:
                nonlocal n_evaluations
                n_evaluations += 1
                return evaluate(coef)

            def record(iteration: int, value: float) -> None:
                meter.record(value / self.C, n_evaluations)
                callback(iteration, value)

            objective.value_and_gradient = counted
            observer: Any = record  # only called
            return super()._solve(objective, start, observer, watch)

    # CRFsuite has no intercepts, no starts and no ends
    options = {"restrict_features": True, "C": 0.5, "fit_intercept": False, "start_end": False}
    return TimedCRF(**options | o.get("parameters", {}))


def ours(data: Data, meter: Meter, o: Options) -> dict[str, Any]:
    from sklearn_seqlab.feature_extraction import SequenceDictVectorizer

    vectorizer = SequenceDictVectorizer()
    X = vectorizer.fit_transform(data["X"])
    meter.lap("vectorise")
    model = _our_crf(meter, o).fit(X, data["y"])
    meter.lap("solve")
    result = meter.result(n_iter=int(model.n_iter_))
    if "predict" in o:
        result["n_tokens"] = sum(map(len, data["X_test"]))
        rows = vectorizer.transform(data["X_test"])
        result["ready"] = _seconds_of(lambda: model.predict(rows), o["predict"])
        result["from strings"] = _seconds_of(
            lambda: model.predict(vectorizer.transform(data["X_test"])), o["predict"]
        )
    if "score" in o:
        _scored(result, data, model.predict(vectorizer.transform(data["X_test"])), o)
    return result


def crfsuite(data: Data, meter: Meter, o: Options) -> dict[str, Any]:
    import pycrfsuite

    n_evaluations = 0

    class Recorder(pycrfsuite.Trainer):
        def on_featgen_end(self, log: str) -> None:
            meter.lap("pack")

        def on_iteration(self, log: str, info: dict) -> None:
            nonlocal n_evaluations
            n_evaluations += info.get("linesearch_trials", 0)
            meter.record(info.get("loss", 0.0), n_evaluations)

        def ignore(self, *args: Any) -> None:
            pass

        on_start = on_featgen_progress = on_prepared = on_prepare_error = ignore
        on_optimization_end = on_end = ignore

    trainer = Recorder(o.get("algorithm", "lbfgs"), {"feature.possible_transitions": True}, verbose=True)
    trainer.set_params(o.get("parameters", {}))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        for x, y in zip(data["X"], data["y"], strict=True):
            trainer.append(x, y)
        trainer.train(path)
        meter.lap("solve")
        result = meter.result(n_iter=len(meter.trace))
        if "predict" in o or "score" in o:
            del trainer
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
        if "predict" in o:
            result["n_tokens"] = sum(map(len, data["X_test"]))
            ready = [pycrfsuite.ItemSequence(x) for x in data["X_test"]]
            result["ready"] = _seconds_of(lambda: [tagger.tag(x) for x in ready], o["predict"])
            result["from strings"] = _seconds_of(
                lambda: [tagger.tag(x) for x in data["X_test"]], o["predict"]
            )
        if "score" in o:
            _scored(result, data, [tagger.tag(x) for x in data["X_test"]], o)
    return result


def sklearn_crfsuite(data: Data, meter: Meter, o: Options) -> dict[str, Any]:
    import sklearn_crfsuite

    model = sklearn_crfsuite.CRF(algorithm="lbfgs", c2=1.0, all_possible_transitions=True)
    model.fit(data["X"], data["y"])
    result = meter.result()
    return _scored(result, data, model.predict(data["X_test"]), o)


def chaine(data: Data, meter: Meter, o: Options) -> dict[str, Any]:
    """Its steps are dicts."""
    import chaine

    with tempfile.TemporaryDirectory() as folder:
        model = chaine.train(
            data["X"], data["y"], algorithm="lbfgs", c2=1.0, all_possible_transitions=True, verbose=0,
            model_filepath=Path(folder) / "model",
        )  # fmt: skip
        result = meter.result()
        return _scored(result, data, model.predict(data["X_test"]), o)


def evaluation(data: Data, meter: Meter, o: Options) -> dict[str, Any]:
    """Both sides in one process, by ``conll2000.py cost``: CPU seconds of each repeat."""
    from conll2000 import evaluation_costs

    from sklearn_seqlab.feature_extraction import SequenceDictVectorizer

    _, ours, theirs = evaluation_costs(
        SequenceDictVectorizer().fit_transform(data["X"]), data["y"], o["repeats"]
    )
    return {"ours": ours, "theirs": theirs}


# Contestants: decoding of hidden Markov models


def _hmm_inputs(data: Data) -> tuple[Any, list, Any]:
    """All sequences as channels: pixels, or one code for each set of names; with the model ours learns."""
    import numpy as np

    from sklearn_seqlab import HMMClassifier
    from sklearn_seqlab.feature_extraction import SequenceDictVectorizer

    X, y = data["X"] + data["X_test"], data["y"] + data["y_test"]
    rows = [x.toarray() for x in SequenceDictVectorizer().fit_transform(X)]
    if data["codes"]:
        lengths = [len(x) for x in rows]
        codes = np.unique(np.concatenate(rows), axis=0, return_inverse=True)[1].reshape(-1, 1)
        rows = np.split(codes, np.cumsum(lengths)[:-1])
        return rows, y, HMMClassifier(emission="categorical").fit(rows, y)
    return rows, y, HMMClassifier(emission="gaussian", var_floor=0.01).fit(rows, y)


def our_hmm(data: Data, meter: Meter, o: Options) -> dict[str, Any]:
    X, _, model = _hmm_inputs(data)
    seconds = _seconds_of(lambda: model.predict(X), o["predict"])
    score = float(model.joint_log_likelihood(X, model.predict(X)).sum())
    return {"ready": seconds, "path score": score, "n_tokens": sum(map(len, X))}


def hmmlearn(data: Data, meter: Meter, o: Options) -> dict[str, Any]:
    import numpy as np
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM

    X, _, learnt = _hmm_inputs(data)
    n_labels = len(learnt.classes_)
    peer: Any
    if data["codes"]:
        peer = CategoricalHMM(n_labels)
        peer.emissionprob_ = learnt.emission_["categorical"]["probability"][0]
    else:
        peer = GaussianHMM(n_labels, "diag")
        peer.means_ = learnt.emission_["gaussian"]["mean"]
        peer.n_features = peer.means_.shape[1]
        peer.covars_ = learnt.emission_["gaussian"]["variance"]
    peer.startprob_, peer.transmat_ = learnt.start_prob_, learnt.transition_prob_
    rows, lengths = np.concatenate(X), [len(x) for x in X]
    seconds = _seconds_of(lambda: peer.decode(rows, lengths), o["predict"])
    return {"ready": seconds, "path score": float(peer.decode(rows, lengths)[0]), "n_tokens": len(rows)}


# Contestant -> the function, and what is loaded before its memory is first read.
CONTESTANTS: dict[str, tuple[Any, list[str]]] = {
    "ours": (ours, ["sklearn_seqlab", "sklearn_seqlab.feature_extraction"]),
    "crfsuite": (crfsuite, ["pycrfsuite"]),
    "sklearn-crfsuite": (sklearn_crfsuite, ["sklearn_crfsuite"]),
    "chaine": (chaine, ["chaine"]),
    "evaluation": (evaluation, []),
    "our_hmm": (our_hmm, []),
    "hmmlearn": (hmmlearn, []),
}


def main() -> None:
    warnings.simplefilter("ignore")  # fits are cut short on purpose
    name, path, options = sys.argv[1:]
    function, modules = CONTESTANTS[name]
    for module in modules:
        importlib.import_module(module)
    gc.disable()
    with open(path, "rb") as file:
        data = pickle.load(file)
    gc.enable()
    result = function(data, Meter(), json.loads(options))
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main()
