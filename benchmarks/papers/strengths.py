"""How much rules over all conjunctions and plain margins on house A depend on C (seed 001's claim of robustness).

The first deal of the table of house A: 4 folds of 10 blocks of 1,000 minutes to train on, 30 to test. Nothing is
chosen: every column is the accuracy of one C on the test blocks, so the best column is not a result. The cost of a
labelling is the share of its wrong minutes for both models, and both have a bias per label. The span is the largest
mean of a row less the smallest.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import ua
from _store import FoldScores, markdown_table, versions, write_section
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import StructHKLClassifier, StructuredSVM
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score

STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
INPUTS = ("raw", "raw, dropped")
MODELS = {
    "StructHKLClassifier": StructHKLClassifier(tol=5e-2),
    "StructHKLClassifier, beta = 0.5": StructHKLClassifier(beta=0.5, tol=5e-2),
    "StructuredSVM": StructuredSVM(loss="hamming", tol=5e-2, max_iter=50, random_state=0),
}


def scores() -> FoldScores:
    return FoldScores("strengths", ["input", "row", "C", "fold"], ["micro", "macro", "gap", "seconds"])


def run(options: Any) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    store = scores()
    for name in options.inputs or INPUTS:
        X, y = ua.TABLE.inputs[name]()
        for fold, (train, test) in enumerate(ua.TABLE.split(X, 0)):
            if fold >= options.folds:
                break
            data = [[items[i] for i in part] for part in (train, test) for items in (X, y)]
            for row in options.rows or MODELS:
                _run_row(store, {"input": name, "row": row, "fold": fold}, *data)
                store.save()
        print(f"{name} done", flush=True)


def _run_row(store: FoldScores, place: dict[str, Any], X: list, y: list, X_test: list, y_test: list) -> None:
    model, start = MODELS[place["row"]], time.process_time()
    if isinstance(model, StructHKLClassifier):  # one path: later strengths go on from earlier ones
        fitted = model.path(X, y, C=STRENGTHS)
    else:
        fitted = (clone(model).set_params(C=C).fit(X, y) for C in STRENGTHS)
    for C, one in zip(STRENGTHS, fitted, strict=True):
        seconds, found = time.process_time() - start, one.predict(X_test)
        store.add(
            **place,
            C=f"{C:g}",
            micro=round(100 * micro_accuracy_score(y_test, found), 3),
            macro=round(100 * macro_accuracy_score(y_test, found), 3),
            gap=round(one.duality_gap_ / one.objective_, 4),
            seconds=round(seconds, 2),
        )
        start = time.process_time()


def write() -> None:
    store, lines = scores(), []
    if not store.records:
        return
    for name in INPUTS:
        for row in MODELS:
            by_strength = [store.select(input=name, row=row, C=f"{C:g}") for C in STRENGTHS]
            if not all(by_strength):
                continue
            for what in ("micro", "macro"):
                values = np.array([[float(r[what]) for r in records] for records in by_strength])
                mean = values.mean(axis=1)
                spread = values.std(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))
                cells = [f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, spread, strict=True)]
                lines.append([name, row, what, *cells, f"{np.ptp(mean):.1f}"])
            gaps = [max(float(r["gap"]) for r in records) for records in by_strength]
            lines.append([name, row, "largest gap", *(f"{100 * gap:.1f}" for gap in gaps), ""])
    dates = sorted({record["date"] for record in store.records.values()})
    write_section(
        "strengths",
        "## Accuracy against C on house A\n\n"
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py strengths`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\n"
        + markdown_table(
            ["input", "model", "in percent", *(f"C = {C:g}" for C in STRENGTHS), "span"],
            lines,
        ),
    )
