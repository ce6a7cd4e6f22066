"""Linear-chain CRF on CoNLL-2000 chunking with 19 templates: cost of an evaluation, and accuracy.

    python benchmarks/conll2000.py cost        CPU seconds of one value-and-gradient evaluation, beside
                                               those of one L-BFGS iteration of python-crfsuite
    python benchmarks/conll2000.py accuracy    F1 with weights for observed pairs and for all pairs
    python benchmarks/conll2000.py margins     CPU seconds to an F1 of 93.3 by perceptrons and margins, beside the
                                               averaged perceptron and passive-aggressive updates of CRFsuite
    python benchmarks/conll2000.py gaussian    F1, wall seconds and peak memory of Gaussian processes by mean field,
                                               beside a LinearChainCRF with weights for observed pairs
    python benchmarks/conll2000.py solvers     CPU seconds of the solvers of LinearChainCRF to objectives near the
                                               optimum, on the first 2,000 sentences

Needs the extra `benchmarks`. Data is looked up as the fetchers do.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import GPSequenceLabeler, LinearChainCRF, StructuredPerceptron, StructuredSVM
from sklearn_seqlab._parallel import one_blas_thread
from sklearn_seqlab.datasets import fetch_conll2000, fetch_crfpp
from sklearn_seqlab.feature_extraction import FeatureTemplates
from sklearn_seqlab.metrics import micro_accuracy_score, segment_f1_score
from sklearn_seqlab.objectives import ChainLogLikelihood
from sklearn_seqlab.sequences import encode_labels, pack
from sklearn_seqlab.solvers import lbfgs


def features():
    train, test = fetch_conll2000(subset="train"), fetch_conll2000(subset="test")
    templates = FeatureTemplates(fetch_crfpp("chunking").template).fit(train.data)
    return templates.transform(train.data), train.target, templates.transform(test.data), test.target


def print_versions(*names: str) -> None:
    found = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"CPython {platform.python_version()}, {platform.machine()}, {found}")


def cost(repeats: int) -> None:
    print_versions("sklearn_seqlab", "numpy", "scipy", "python-crfsuite")
    X, y, _, _ = features()
    n_coef, ours, theirs = evaluation_costs(X, y, repeats)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    print(
        f"{sum(map(len, y))} tokens, {n_coef} weights; CPU seconds, median of {repeats}: "
        f"evaluation {statistics.median(ours):.3f}, CRFsuite iteration {statistics.median(theirs):.3f}, "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def evaluation_costs(X: list, y: list, repeats: int) -> tuple[int, list[float], list[float]]:
    """Number of weights, CPU seconds of an evaluation and of an iteration of CRFsuite, repeat by repeat."""
    import pycrfsuite

    batch = pack(X)
    labels = encode_labels(y, batch.offsets)
    classes = labels.classes
    objective = ChainLogLikelihood(
        batch,
        labels,
        weight=np.ones(batch.n_sequences),
        C=0.5,
        allowed_transitions=np.ones((len(classes), len(classes)), dtype=bool),
        pairs=LinearChainCRF(restrict_features=True)._observed_pairs(batch, labels),
    )
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, tags in zip(X, y, strict=True):
        rows = np.split(x.indices, x.indptr[1:-1])
        trainer.append(pycrfsuite.ItemSequence([[str(i) for i in row] for row in rows]), list(tags))
    trainer.select("lbfgs")
    with tempfile.TemporaryDirectory() as folder, one_blas_thread():
        coef = lbfgs(objective, np.zeros(objective.n_coef), max_iter=20).coef
        ours, theirs = [], []
        for repeat in range(repeats):
            ours.append(_cpu_seconds(lambda: [objective.value_and_gradient(coef) for _ in range(10)]) / 10)
            seconds = {}
            for n_iter in (5, 25):
                trainer.set_params(
                    {"c1": 0, "c2": 1, "max_iterations": n_iter, "feature.possible_transitions": True}
                )
                path = str(Path(folder) / "model")
                seconds[n_iter] = _cpu_seconds(lambda path=path: trainer.train(path))
            theirs.append((seconds[25] - seconds[5]) / 20)
            print(
                f"run {repeat}: evaluation {ours[-1]:.3f} s, CRFsuite iteration {theirs[-1]:.3f} s",
                flush=True,
            )
    return objective.n_coef, ours, theirs


def _cpu_seconds(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def accuracy(weights: list[str], n_jobs: int) -> None:
    print_versions("sklearn_seqlab", "numpy", "scipy")
    X, y, X_test, y_test = features()
    # C = 0.5 is CRFsuite's c2 = 1, C = 2 its c2 = 0.25
    settings = {"observed": (0.5, True), "all": (2.0, False)}
    for name in weights:
        C, restrict = settings[name]
        start = time.perf_counter()
        model = LinearChainCRF(C=C, restrict_features=restrict, n_jobs=n_jobs).fit(X, y)
        seconds = time.perf_counter() - start
        y_pred = model.predict(X_test)
        f1 = segment_f1_score(y_test, y_pred, scheme="conll")
        share = micro_accuracy_score(y_test, y_pred)
        print(
            f"weights for {name} pairs, C = {C:g}: F1 {100 * f1:.2f}, "
            f"token accuracy {100 * share:.2f} %, {model.n_iter_} iterations, "
            f"objective {model.loss_curve_[-1]:.2f} nats, fit {seconds:.0f} s wall",
            flush=True,
        )


def gaussian(dependencies: tuple[int, ...], scale: float, max_iter: int, n_jobs: int) -> None:
    import resource

    print_versions("sklearn_seqlab", "numpy", "scipy")
    X, y, X_test, y_test = features()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start, cpu = time.perf_counter(), time.process_time()
    model = GPSequenceLabeler(
        dependencies=dependencies, inference="meanfield", scale=scale, max_iter=max_iter, n_jobs=n_jobs
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    settled = model.relaxation_report(X_test).converged.mean()
    print(
        f"GPSequenceLabeler, dependencies {dependencies}, scale {scale:g}: fit {seconds:.0f} s wall, {cpu:.0f} s CPU, "
        f"{model.n_iter_} iterations, "
        f"bound {model.lower_bound_:.2f} nats, {len(model.group_mean_):,} of {X[0].shape[1]:,} columns differ, peak "
        f"{peak:.1f} GiB ({before:.1f} before), {100 * settled:.1f} % of the test sentences settle",
        flush=True,
    )
    for decode in ("rns", "chain") if {-1, 1} & set(dependencies) else ("rns",):
        y_pred = model.set_params(decode=decode).predict(X_test)
        f1, share = segment_f1_score(y_test, y_pred, scheme="conll"), micro_accuracy_score(y_test, y_pred)
        print(f"  decode={decode}: F1 {100 * f1:.2f}, token accuracy {100 * share:.2f} %", flush=True)
    del model
    start, cpu = time.perf_counter(), time.process_time()
    crf = LinearChainCRF(C=0.5, restrict_features=True, n_jobs=n_jobs).fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    y_pred = crf.predict(X_test)
    f1, share = segment_f1_score(y_test, y_pred, scheme="conll"), micro_accuracy_score(y_test, y_pred)
    print(
        f"LinearChainCRF: fit {seconds:.0f} s wall, {cpu:.0f} s CPU, F1 {100 * f1:.2f}, "
        f"token accuracy {100 * share:.2f} %"
    )


def margins(
    names: list[str] | None, goal: float = 93.3, passes: tuple[int, ...] = (1, 2, 3, 5, 8, 13, 20)
) -> None:
    """More and more passes, each training anew, until the test sentences reach the goal."""
    import pycrfsuite

    print_versions("sklearn_seqlab", "numpy", "scipy", "python-crfsuite")
    X, y, X_test, y_test = features()

    def as_items(rows):
        return pycrfsuite.ItemSequence(
            [[str(i) for i in row] for row in np.split(rows.indices, rows.indptr[1:-1])]
        )

    def crfsuite(algorithm, n_passes):
        trainer = pycrfsuite.Trainer(algorithm, {"max_iterations": n_passes}, verbose=False)
        for x, tags in zip(X, y, strict=True):
            trainer.append(as_items(x), list(tags))
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            seconds = _cpu_seconds(lambda: trainer.train(path))
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            return seconds, [tagger.tag(as_items(x)) for x in X_test]

    def ours(estimator, n_passes):
        model = clone(estimator).set_params(max_iter=n_passes)
        seconds = _cpu_seconds(lambda: model.fit(X, y))
        return seconds, model.predict(X_test)

    options = {"restrict_features": True, "random_state": 0}
    margin = {"C": 2000.0, "loss": "hamming_sum", "tol": 1e-4, **options}
    contestants = {
        "CRFsuite ap": partial(crfsuite, "ap"),
        "CRFsuite pa": partial(crfsuite, "pa"),
        "StructuredPerceptron": partial(ours, StructuredPerceptron(**options)),
        "StructuredSVM, bcfw": partial(ours, StructuredSVM(solver="bcfw", **margin)),
        "StructuredSVM, working_set": partial(ours, StructuredSVM(n_inner=3, **margin)),
    }
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in names or contestants:
        for n_passes in passes:
            seconds, y_pred = contestants[name](n_passes)
            f1 = 100 * segment_f1_score(y_test, y_pred, scheme="conll")
            print(f"{name}, {n_passes} passes: F1 {f1:.2f}, training {seconds:.1f} CPU s", flush=True)
            if f1 >= goal:
                break


def solvers(names: list[str] | None, restrict: bool, shares: tuple[float, ...] = (1e-2, 1e-3, 1e-4)) -> None:
    """All weights are penalised (no intercepts), so that every solver has the same problem."""
    print_versions("sklearn_seqlab", "numpy", "scipy")
    X, y, _, _ = features()
    X, y = X[:2_000], y[:2_000]
    used = np.unique(np.concatenate([x.indices for x in X]))
    X = [x[:, used] for x in X]
    settings = {"C": 0.5, "fit_intercept": False, "restrict_features": restrict, "random_state": 0}
    warnings.simplefilter("ignore", ConvergenceWarning)
    best = LinearChainCRF(tol=1e-7, **settings).fit(X, y)
    optimum = best.loss_curve_[-1]
    print(
        f"{best.coef_.size if not restrict else best.coef_.nnz:,} weights of features, optimum {optimum:.4f} nats"
    )
    print("CPU s to " + ", ".join(f"{100 * share:g} %" for share in shares) + " above the optimum")
    for name in names or ("lbfgs", "auto", "sgd", "sag", "sdca"):
        found = _seconds_to(name, settings, X, y, [optimum * (1 + share) for share in shares])
        columns = [f"{seconds:.1f} ({n_iter})" if np.isfinite(seconds) else "-" for seconds, n_iter in found]
        print(f"{name}: " + ", ".join(columns) + " (iterations)", flush=True)


class _Clock:
    """Looks at every iterate, and takes the time of these looks off."""

    def __init__(self, objective, goals):
        self.objective, self.goals, self.n_iter = objective, goals, 0
        self.found = [(np.inf, 0)] * len(goals)
        self.start = time.process_time()

    def __call__(self, coef) -> bool:
        now = time.process_time()
        value = self.objective.value_and_gradient(coef)[0]
        for k, goal in enumerate(self.goals):
            if value <= goal and not np.isfinite(self.found[k][0]):
                self.found[k] = (now - self.start, self.n_iter)
        self.n_iter += 1
        self.start += time.process_time() - now
        return np.isfinite(self.found[-1][0])


def _seconds_to(solver, settings, X, y, goals, max_iter=200):
    """From the packed objective on, the first passes of "auto" and "sag" included."""
    model = LinearChainCRF(solver=solver, max_iter=max_iter, tol=1e-9, **settings)
    batch = pack(X)
    labels = encode_labels(y, batch.offsets)
    allowed = np.ones((labels.n_labels, labels.n_labels), dtype=bool)
    layout = {"allowed_transitions": allowed, "pairs": model._observed_pairs(batch, labels)}
    objective = model._objective(batch, labels, np.ones(len(X)), **layout)
    start = np.zeros(objective.n_coef)
    with one_blas_thread():
        objective.value_and_gradient(start)  # makes what is made once
        clock = _Clock(objective, goals)
        model._solve(objective, start, lambda iteration, value: None, clock)
    return clock.found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["cost", "accuracy", "margins", "gaussian", "solvers"])
    parser.add_argument("--dependencies", nargs="*", type=int, default=[-1, 1], help="of gaussian")
    parser.add_argument("--scale", type=float, default=1.0, help="prior variance of gaussian's weights")
    parser.add_argument("--max-iter", type=int, default=200, help="of gaussian")
    parser.add_argument("--weights", nargs="+", choices=["observed", "all"], default=["observed", "all"])
    parser.add_argument("--rows", nargs="+", help="rows of margins or of solvers to compute (all)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--n-jobs", type=int, default=1)
    options = parser.parse_args()
    if options.what == "cost":
        cost(options.repeats)
    elif options.what == "gaussian":
        gaussian(tuple(options.dependencies), options.scale, options.max_iter, options.n_jobs)
    elif options.what == "margins":
        margins(options.rows)
    elif options.what == "solvers":
        solvers(options.rows, options.weights == ["observed"])
    else:
        accuracy(options.weights, options.n_jobs)


if __name__ == "__main__":
    main()
