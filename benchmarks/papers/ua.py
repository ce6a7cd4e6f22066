"""Seed 001's table of house A ("UA"): 40 blocks of 1,000 minutes, trained on a quarter, tested on the rest.

The 40 blocks are dealt at random into 4 folds; a model is trained on one fold (10 blocks) and tested on the
other three (30 blocks), for each fold and each of several deals. Whatever strength of regularisation a model
has is chosen by grid search inside the training blocks. All models see the same inputs: one encoding of the
sensors, plain or in a window of the steps two before to two after.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, versions, write_section
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from sklearn_seqlab import (
    GreedyInductionHMM,
    HMMClassifier,
    LinearChainCRF,
    RuleEnsembleHKL,
    RuleHMM,
    StepwiseClassifier,
    StructHKLClassifier,
    StructuredSVM,
    SubsequenceKernelSVM,
)
from sklearn_seqlab.datasets import fetch_kasteren
from sklearn_seqlab.feature_extraction import RelationalPatternMiner
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy, micro_accuracy_score
from sklearn_seqlab.model_selection import InverseKFold
from sklearn_seqlab.preprocessing import SlidingWindow

INPUTS = {"raw": "raw", "change": "change", "last": "last", "change+last": ("change", "last")}
WINDOWS = {"plain": 0, "window": 2}
STRENGTHS = [0.1, 1.0, 10.0, 100.0]
SMOOTHING = [0.01, 0.1, 1.0, 10.0]

# Row -> (estimator, grid, decodings to score beside the estimator's own). Later estimators add theirs here.
ROWS: dict[str, tuple[Any, dict[str, list[Any]], list[str]]] = {
    "majority": (StepwiseClassifier(DummyClassifier()), {}, []),
    "per-step logistic regression": (
        StepwiseClassifier(LogisticRegression(max_iter=3000)),
        {"estimator__C": STRENGTHS},
        [],
    ),
    "LinearChainCRF": (LinearChainCRF(), {"C": STRENGTHS}, ["marginal"]),
    "HMMClassifier": (HMMClassifier(emission="bernoulli"), {"alpha": SMOOTHING}, ["marginal"]),
    "GreedyInductionHMM": (
        GreedyInductionHMM(validation_fraction=3, random_state=0),
        {"alpha": [0.1, 1.0, 10.0]},
        ["marginal"],
    ),
    "RuleHMM": (RuleHMM(), {"alpha": SMOOTHING}, ["marginal"]),
    "RuleHMM with negations": (RuleHMM(negations=True, max_order=3), {"alpha": SMOOTHING}, ["marginal"]),
    # with ten training blocks, C of the mean slack is ten times that of the summed one
    "StructuredSVM": (
        StructuredSVM(loss="hamming_sum", tol=1e-2, max_iter=50, random_state=0),
        {"C": STRENGTHS},
        [],
    ),
}

# Rules over all conjunctions. C of the mean share of wrong steps is large where a step is a thousandth.
RULES = {
    "RuleEnsembleHKL": (
        StepwiseClassifier(RuleEnsembleHKL(beta=0.5, tol=5e-2)),
        {"estimator__C": [1e1, 1e2, 1e3, 1e4]},
        [],
    ),
    "RuleEnsembleHKL, StructuredSVM": (
        make_pipeline(
            RuleEnsembleHKL(C=1e4, beta=0.5, tol=5e-2, rule_threshold=1e-2),
            StructuredSVM(loss="hamming_sum", tol=1e-2, max_iter=50, random_state=0),
        ),
        {"structuredsvm__C": STRENGTHS},
        [],
    ),
    "StructHKLClassifier": (StructHKLClassifier(tol=5e-2), {"C": [1e1, 1e2, 1e3]}, []),
    "StructHKLClassifier, patterns (enumAF)": (
        make_pipeline(
            RelationalPatternMiner(max_literals=2, max_patterns=30),
            StructHKLClassifier(tol=5e-2, max_order=2),
        ),
        {"structhklclassifier__C": [1e1, 1e2, 1e3]},
        [],
    ),
    "SubsequenceKernelSVM": (
        SubsequenceKernelSVM(before=3, after=3, tol=5e-2),
        {"C": [1e0, 1e1, 1e2]},
        [],
    ),
}
ROWS.update(RULES)

BASELINE = "per-step logistic regression"


def scores() -> FoldScores:
    return FoldScores(
        "ua", ["input", "window", "row", "deal", "fold"], ["micro", "macro", "chosen", "seconds"]
    )


def run(options: Any) -> None:
    rows, inputs = options.rows or list(ROWS), options.inputs or list(INPUTS)
    windows, n_deals, n_jobs = options.windows or list(WINDOWS), options.deals, options.n_jobs
    store = scores()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="No rule was found|No label has a rule")
    for name in inputs:
        data = fetch_kasteren(house="A", split=1000, encoding=INPUTS[name])
        for window in windows:
            width = WINDOWS[window]
            X = SlidingWindow(before=width, after=width).fit_transform(data.data) if width else data.data
            for deal in range(options.first_deal, n_deals):
                folds = InverseKFold(4, shuffle=True, random_state=deal).split(X)
                for fold, (train, test) in enumerate(folds):
                    for row in rows:
                        place = {"input": name, "window": window, "deal": deal, "fold": fold}
                        _run_fold(store, place, row, X, data.target, train, test, n_jobs)
                store.save()
                print(f"{name}, {window}: deal {deal} done", flush=True)


def _run_fold(store, place, row, X, y, train, test, n_jobs) -> None:
    estimator, grid, decodings = ROWS[row]
    X_train, y_train = [X[i] for i in train], [y[i] for i in train]
    X_test, y_test = [X[i] for i in test], [y[i] for i in test]
    search = GridSearchCV(clone(estimator), grid, cv=KFold(3), scoring=micro_accuracy, n_jobs=n_jobs)
    start = time.perf_counter()
    search.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    chosen = " ".join(f"{value:g}" for value in search.best_params_.values())
    model = search.best_estimator_
    for decoding in [None, *decodings]:
        if decoding is not None:
            model.set_params(decoding=decoding)
        y_pred = model.predict(X_test)
        store.add(
            **place,
            row=row if decoding is None else f"{row}, {decoding}",
            micro=round(100 * micro_accuracy_score(y_test, y_pred), 3),
            macro=round(100 * macro_accuracy_score(y_test, y_pred), 3),
            chosen=chosen,
            seconds=round(seconds, 2),
        )


def write() -> None:
    store = scores()
    names = [name for row, (_, _, more) in ROWS.items() for name in [row, *(f"{row}, {d}" for d in more)]]
    lines = []
    n_folds = len({(r["deal"], r["fold"]) for r in store.records.values()})
    for name in INPUTS:
        for window in WINDOWS:
            baseline = store.select(input=name, window=window, row=BASELINE)
            for row in names:
                found = store.select(input=name, window=window, row=row)
                if found:
                    done = {(record["deal"], record["fold"]) for record in found}
                    pairs = [record for record in baseline if (record["deal"], record["fold"]) in done]
                    label = row if len(found) == n_folds else f"{row} ({len(found)} trainings)"
                    lines.append([name, window, label, *_cells(found, pairs)])
    dates = sorted({record["date"] for record in store.records.values()})
    header = ["input", "window", "model", "micro, %", "macro, %", "p (micro)", "chosen", "search, s"]
    write_section(
        "ua",
        "## House A (seed 001's UA)\n\n"
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py ua`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\n"
        f"Mean and standard deviation over {n_folds} trainings ({n_folds // 4} deals of 4 folds), or as many as a "
        f"row names. p: paired "
        f"Wilcoxon test of micro accuracy against {BASELINE} over these trainings; they share test blocks "
        "and so are not independent: read it as a scale, not as a level. `chosen`: median of `C`, "
        "or of `alpha` in the hidden Markov models. MAP decoding, unless "
        "the row names another. Seconds are those of the whole grid search, on a shared machine.\n\n"
        + markdown_table(header, lines),
    )


def _cells(found: list[dict[str, str]], baseline: list[dict[str, str]]) -> list[str]:
    def column(records, key):
        return np.array([float(record[key]) for record in records])

    micro, macro = column(found, "micro"), column(found, "macro")
    p = ""
    if len(baseline) == len(found) and found[0]["row"] != baseline[0]["row"]:
        p = f"{wilcoxon(micro, column(baseline, 'micro')).pvalue:.1g}"
    chosen = [float(record["chosen"]) for record in found if record["chosen"]]
    return [
        f"{micro.mean():.1f} ± {micro.std(ddof=1):.1f}",
        f"{macro.mean():.1f} ± {macro.std(ddof=1):.1f}",
        p,
        f"{np.median(chosen):g}" if chosen else "",
        f"{column(found, 'seconds').mean():.1f}",
    ]
