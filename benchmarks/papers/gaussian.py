"""Gaussian-process labelling of the CRF++ tasks (seed 002, Tables 1 to 3 and Figure 2).

Training and test data of a task are pooled and dealt by `RandomState(0..4).permutation`: the first sentences train, the
next are tested (segmentation 20 / 16, chunking and named entities 50 / 50, base noun phrases 150 / 150). Inputs are
indicators of the templates' U macros, as they occur in the training sentences. Nothing is tuned: `scale=1`,
`dependency_variance=1`, the tilted bound; CRFs of two strengths, c2 = 1 and 0.1 in CRFsuite's terms. GPSL0, 1, 2 and 4
have the dependencies (), (-1,), (-1, 1) and (-2, -1, 1, 2), and mean-field inference unless "exact" is said. Rows of
the same model share a fit. GPstruct takes 3,000 steps.

`error`: share of wrong steps; `hamming`: mean over sentences of that share. `rounds` and `settled`: of relaxation
(Algorithm 2), per sentence. Log-loss (nats) and Brier score per step leave out steps whose label did not occur in
training. p: paired t-test over deals against LinearChainCRF, c2 = 1.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, mean_and_deviation, versions, write_section
from scipy.stats import ttest_rel
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import GPSequenceLabeler, GPStructLabeler, LinearChainCRF
from sklearn_seqlab.datasets import fetch_crfpp
from sklearn_seqlab.feature_extraction import FeatureTemplates
from sklearn_seqlab.metrics import hamming_loss

TASKS = {"basenp": (150, 150), "chunking": (50, 50), "JapaneseNE": (50, 50), "seg": (20, 16)}
LAGS = {"GPSL0": (), "GPSL1": (-1,), "GPSL2": (-1, 1), "GPSL4": (-2, -1, 1, 2)}
BASELINE = "LinearChainCRF, c2 = 1"

# Model -> {row: what is set after the fit, how probabilities are asked for}; "-" gives none.
RELAXED: dict[str, tuple[dict[str, Any], str]] = {
    "": ({}, "rns"),
    ", mc": ({}, "mc"),
    ", probit": ({}, "probit"),
}
ORDERS: dict[str, tuple[dict[str, Any], str]] = {
    ", synchronous": ({"damping": 0.0}, "-"),
    ", sequential": ({"damping": 0.0, "update_order": "sequential"}, "-"),
}
CHAIN: dict[str, tuple[dict[str, Any], str]] = {", chain": ({"decode": "chain"}, "chain")}
VITERBI: dict[str, tuple[dict[str, Any], str]] = {
    ", Viterbi, local": ({"decode": "viterbi"}, "-"),
    ", Viterbi": ({"decode": "viterbi_mrf"}, "-"),
}
N_STEPS = 3000
SHARES = (0.0, 0.3, 0.6)


def models() -> dict[str, Any]:
    found: dict[str, Any] = {
        BASELINE: LinearChainCRF(C=0.5, start_end=False, fit_intercept=False, decoding="marginal"),
        "LinearChainCRF, c2 = 0.1": LinearChainCRF(
            C=5.0, start_end=False, fit_intercept=False, decoding="marginal"
        ),
        "CRFsuite, c2 = 1": 1.0,
        "CRFsuite, c2 = 0.1": 0.1,
    }
    for name, lags in LAGS.items():
        found[name] = GPSequenceLabeler(dependencies=lags, inference="meanfield")
    found["GPSL2, tied"] = GPSequenceLabeler(inference="meanfield", tied=True)
    found["GPSL2, stacked"] = GPSequenceLabeler(inference="meanfield", neighbours="stacked")
    for name in ("GPSL1", "GPSL2"):
        found[f"{name}, exact"] = GPSequenceLabeler(dependencies=LAGS[name], inference="exact")
    found["GPstruct"] = GPStructLabeler(n_samples=N_STEPS, thin=20, random_state=0)
    return found


def variants(model: str) -> dict[str, tuple[dict[str, Any], str]]:
    if model not in LAGS:
        return {"": ({}, "proba")}
    rows = dict(RELAXED)
    if model != "GPSL0":
        rows |= ORDERS | CHAIN
    return rows | VITERBI if model == "GPSL1" else rows


def deal(task: str, seed: int) -> tuple[list[Any], ...]:
    """Sparse inputs and labels to train on, then to test on."""
    parts = [fetch_crfpp(task, subset=subset) for subset in ("train", "test")]
    data = [*parts[0].data, *parts[1].data]
    target = [*parts[0].target, *parts[1].target]
    n_train, n_test = TASKS[task]
    order = np.random.RandomState(seed).permutation(len(data))
    train, test = order[:n_train], order[n_train : n_train + n_test]
    templates = FeatureTemplates(parts[0].template).fit([data[i] for i in train])
    return (
        templates.transform([data[i] for i in train]),
        [target[i] for i in train],
        templates.transform([data[i] for i in test]),
        [target[i] for i in test],
    )


def scores() -> FoldScores:
    values = [
        "error",
        "hamming",
        "fit_s",
        "predict_s",
        "rounds",
        "settled",
        "log_loss",
        "brier",
        "n_effective",
    ]
    return FoldScores("gaussian", ["task", "row", "deal"], values)


def missing_scores() -> FoldScores:
    return FoldScores("gaussian_missing", ["task", "row", "share", "missing", "deal"], ["error"])


def run(options: Any) -> None:
    store = scores()
    warnings.simplefilter("ignore", ConvergenceWarning)
    wanted = options.rows or list(models())
    for task in options.inputs or TASKS:
        for seed in range(options.first_deal, options.first_deal + options.deals):
            X, y, X_test, y_test = deal(task, seed)
            for name, model in models().items():
                if name in wanted:
                    for record in _measure(name, model, X, y, X_test, y_test):
                        store.add(task=task, deal=seed, **record)
                    store.save()
            if "missing labels" in (options.rows or ["missing labels"]):
                _measure_missing(task, seed, X, y, X_test, y_test)
            print(f"{task}: deal {seed} done", flush=True)


def _measure(name: str, model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> Any:
    start = time.process_time()
    if isinstance(model, float):
        tagger = _Crfsuite(model, X, y)
        seconds = time.process_time() - start
        start = time.process_time()
        yield _record(name, y_test, tagger.predict(X_test), seconds, time.process_time() - start)
        return
    model.fit(X, y)
    seconds = time.process_time() - start
    defaults = {
        key: model.get_params()[key] for key in ("damping", "update_order", "decode") if hasattr(model, key)
    }
    for suffix, (settings, method) in variants(name).items():
        model.set_params(**defaults | settings)
        start = time.process_time()
        y_pred = model.predict(X_test)
        record = _record(name + suffix, y_test, y_pred, seconds, time.process_time() - start)
        relaxed = (
            isinstance(model, GPSequenceLabeler) and model.decode == "rns" and model.neighbours == "observed"
        )
        if relaxed:
            report = model.relaxation_report(X_test)
            record |= {
                "rounds": round(report.n_iter.mean(), 1),
                "settled": round(100 * report.converged.mean(), 1),
            }
        if isinstance(model, GPStructLabeler):
            record["n_effective"] = round(model.n_effective_, 2)
        if method != "-":
            gaussian = isinstance(model, GPSequenceLabeler) and method != "proba"
            proba = model.predict_proba(X_test, method=method) if gaussian else model.predict_proba(X_test)
            record |= _calibration(proba, y_test, model.classes_)
            if method in ("mc", "probit"):
                best = [model.classes_[part.argmax(axis=1)] for part in proba]
                record |= {key: _errors(y_test, best)[key] for key in ("error", "hamming")}
        yield record


def _errors(y_test: Any, y_pred: Any) -> dict[str, float]:
    return {
        "error": round(100 * hamming_loss(y_test, y_pred, average="step"), 3),
        "hamming": round(100 * hamming_loss(y_test, y_pred, average="sequence"), 3),
    }


def _record(row: str, y_test: Any, y_pred: Any, fit: float, predict: float) -> dict[str, Any]:
    record: dict[str, Any] = {"row": row, "fit_s": round(fit, 3), "predict_s": round(predict, 3)}
    record |= {key: "" for key in ("rounds", "settled", "log_loss", "brier", "n_effective")}
    return record | _errors(y_test, y_pred)


def _calibration(proba: Any, y_test: Any, classes: np.ndarray) -> dict[str, float]:
    p, labels = np.concatenate(list(proba)), np.concatenate([list(part) for part in y_test])
    seen = np.isin(labels, classes)
    p, codes = p[seen], np.searchsorted(classes, labels[seen])
    own = p[np.arange(len(codes)), codes]
    brier = (p**2).sum(axis=1) - 2 * own + 1
    return {
        "log_loss": round(float(-np.log(np.maximum(own, 1e-300)).mean()), 5),
        "brier": round(float(brier.mean()), 5),
    }


class _Crfsuite:
    def __init__(self, c2: float, X: Any, y: Any):
        import tempfile
        from pathlib import Path

        import pycrfsuite

        trainer = pycrfsuite.Trainer(verbose=False)
        for rows, labels in zip(X, y, strict=True):
            trainer.append(self._items(rows), list(labels))
        trainer.set_params({"c1": 0, "c2": c2})
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            trainer.train(path)
            self.tagger = pycrfsuite.Tagger()
            self.tagger.open(path)

    @staticmethod
    def _items(rows: Any) -> Any:
        import pycrfsuite

        cut = np.split(rows.indices, rows.indptr[1:-1])
        return pycrfsuite.ItemSequence([[str(i) for i in row] for row in cut])

    def predict(self, X: Any) -> list[list[str]]:
        return [self.tagger.tag(self._items(rows)) for rows in X]


def _measure_missing(task: str, seed: int, X: Any, y: Any, X_test: Any, y_test: Any) -> None:
    """Labels removed at random from the training sentences (Figure 2 of the paper)."""
    store = missing_scores()
    for share in SHARES:
        random = np.random.RandomState(seed)
        hidden = [[None if random.uniform() < share else label for label in labels] for labels in y]
        for name in ("GPSL1", "GPSL2", "GPSL4"):
            for missing in ("drop", "impute") if share else ("drop",):
                model = GPSequenceLabeler(dependencies=LAGS[name], inference="meanfield", missing=missing)
                y_pred = model.fit(X, hidden).predict(X_test)
                error = round(100 * hamming_loss(y_test, y_pred, average="step"), 3)
                store.add(task=task, row=name, share=share, missing=missing, deal=seed, error=error)
        crf = LinearChainCRF(C=0.5, start_end=False, fit_intercept=False, decoding="marginal")
        error = round(100 * hamming_loss(y_test, crf.fit(X, hidden).predict(X_test), average="step"), 3)
        store.add(task=task, row=BASELINE, share=share, missing="drop", deal=seed, error=error)
    store.save()


def _calibrated(store: FoldScores, rows: list[str]) -> str:
    """On how many tasks each row's probabilities are better than each CRF's, and significantly so."""
    lines = []
    fields = [row for row in rows if row.startswith("LinearChainCRF")]
    for row in rows:
        cells = [row]
        for field in fields:
            for key in ("log_loss", "brier"):
                pairs = []
                for task in TASKS:
                    own = {record["deal"]: record[key] for record in store.select(task=task, row=row)}
                    other = {record["deal"]: record[key] for record in store.select(task=task, row=field)}
                    both = [deal for deal in own if deal in other and own[deal] and other[deal]]
                    if len(both) > 1:
                        pairs.append([[float(part[deal]) for deal in both] for part in (own, other)])
                better = [(np.mean(a) < np.mean(b), ttest_rel(a, b).pvalue < 0.05) for a, b in pairs]
                clear = sum(less and significant for less, significant in better)
                cells.append(f"{sum(less for less, _ in better)} ({clear}) of {len(pairs)}" if pairs else "")
        if row not in fields and any(cells[1:]):
            lines.append(cells)
    header = ["row", *(f"{key} below that of {field}" for field in fields for key in ("log-loss", "Brier"))]
    return markdown_table(header, lines)


def _numbers(found: list[dict[str, str]], key: str) -> np.ndarray:
    return np.array([float(record[key]) for record in found if record.get(key)])


def _sampling(store: FoldScores) -> str:
    """Speed of the slice sampler."""
    lines = []
    for task in TASKS:
        found = store.select(task=task, row="GPstruct")
        if found:
            seconds, worth = _numbers(found, "fit_s"), _numbers(found, "n_effective")
            lines.append([task, f"{seconds.mean() * 1e5 / N_STEPS:.0f}", f"{(worth / seconds).mean():.2g}"])
    return markdown_table(["task", "CPU s per 100,000 steps", "effective draws per CPU s"], lines)


def write() -> None:
    store, lines = scores(), []
    rows = [name + suffix for name in models() for suffix in variants(name)]
    for task in TASKS:
        baseline = {record["deal"]: record for record in store.select(task=task, row=BASELINE)}
        for row in rows:
            found = store.select(task=task, row=row)
            if not found:
                continue
            lines.append([task, row, str(len(found)), mean_and_deviation(_numbers(found, "error"))])
            for key in ("error", "log_loss", "brier"):
                own = _numbers(found, key)
                other = np.array([float(baseline[r["deal"]][key]) for r in found if r["deal"] in baseline])
                cell = f"{own.mean():.3f}" if len(own) and key != "error" else ""
                if row != BASELINE and len(own) > 1 and len(own) == len(other):
                    less = own - other
                    p = ttest_rel(own, other).pvalue if less.any() else 1.0
                    cell = (
                        f"{cell} ({less.mean():+.2f}, p {p:.2g})"
                        if cell
                        else f"{less.mean():+.2f} (p {p:.2g})"
                    )
                lines[-1].append(cell)
            for key, form in (("fit_s", ".2f"), ("predict_s", ".3f"), ("rounds", ".1f"), ("settled", ".1f")):
                values = _numbers(found, key)
                lines[-1].append(f"{values.mean():{form}}" if len(values) else "")
    header = [
        "task", "row", "deals", "error, %", "less the CRF's", "log-loss", "Brier", "fit, CPU s", "predict, CPU s",
        "rounds", "settled, %",
    ]  # fmt: skip
    missing, cells = missing_scores(), []
    for task in TASKS:
        for row in (BASELINE, "GPSL1", "GPSL2", "GPSL4"):
            for kind in ("drop", "impute"):
                parts = [missing.select(task=task, row=row, share=share, missing=kind) for share in SHARES]
                parts[0] = missing.select(task=task, row=row, share=0.0, missing="drop")
                if parts[-1]:
                    means = [f"{_numbers(found, 'error').mean():.2f}" for found in parts]
                    cells.append([task, row, kind, str(len(parts[-1])), *means])
    table = markdown_table(
        ["task", "row", "missing", "deals", *(f"{100 * s:.0f} % hidden" for s in SHARES)], cells
    )
    dates = sorted({record["date"] for record in store.records.values()})
    write_section(
        "gaussian",
        "## Gaussian-process labelling (seed 002)\n\n"
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py gaussian`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\n{markdown_table(header, lines)}\n\n"
        "On how many tasks probabilities are better than those of a CRF (of these, with p < 0.05):\n\n"
        f"{_calibrated(store, rows)}\n\n"
        f"GPstruct, slowest of log-likelihood and transition scores:\n\n{_sampling(store)}\n\n"
        f"Error, %, with labels hidden at random from the training sentences:\n\n{table}",
    )
