"""What the tables of seed 001 share: models with their grids, folds, and how rows are computed and written."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
    BoostedCRF,
    CRFFeatureInduction,
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
from sklearn_seqlab.feature_extraction import RelationalPatternMiner
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy, micro_accuracy_score
from sklearn_seqlab.preprocessing import SlidingWindow

WINDOWS = {"plain": 0, "window": 2}
STRENGTHS = [0.1, 1.0, 10.0, 100.0]
SMOOTHING = [0.01, 0.1, 1.0, 10.0]
BASELINE = "per-step logistic regression"
IDLE = "idle"


def margin() -> StructuredSVM:
    # C of the mean slack is that of the summed one times the number of sequences
    return StructuredSVM(loss="hamming_sum", tol=1e-2, max_iter=50, random_state=0)


def patterns() -> RelationalPatternMiner:
    return RelationalPatternMiner(max_literals=2, max_patterns=30)


# Row -> (estimator, grid, decodings to score beside the estimator's own).
ROWS: dict[str, tuple[Any, dict[str, list[Any]], list[str]]] = {
    "majority": (StepwiseClassifier(DummyClassifier()), {}, []),
    BASELINE: (
        StepwiseClassifier(LogisticRegression(max_iter=3000)),
        {"estimator__C": STRENGTHS},
        [],
    ),
    "LinearChainCRF": (LinearChainCRF(), {"C": STRENGTHS}, ["marginal"]),
    "HMMClassifier": (HMMClassifier(emission="bernoulli"), {"alpha": SMOOTHING}, ["marginal"]),
    "HMMClassifier, alpha = 1": (HMMClassifier(emission="bernoulli"), {"alpha": [1.0]}, []),
    "GreedyInductionHMM": (
        GreedyInductionHMM(validation_fraction=3, random_state=0),
        {"alpha": [0.1, 1.0, 10.0]},
        ["marginal"],
    ),
    "RuleHMM": (RuleHMM(), {"alpha": SMOOTHING}, ["marginal"]),
    "RuleHMM with negations": (RuleHMM(negations=True, max_order=3), {"alpha": SMOOTHING}, ["marginal"]),
    "StructuredSVM": (margin(), {"C": STRENGTHS}, []),
    "CRFFeatureInduction": (CRFFeatureInduction(), {"C": STRENGTHS}, []),
    # the role of TildeCRF
    "BoostedCRF, trees of patterns": (
        make_pipeline(patterns(), BoostedCRF(weak_learner="tree", n_rounds=30)),
        {"boostedcrf__leaf_l2": [1.0, 10.0, 100.0]},
        [],
    ),
    # Rules over all conjunctions. C of the mean share of wrong steps is large where a step is a thousandth.
    "RuleEnsembleHKL": (
        StepwiseClassifier(RuleEnsembleHKL(beta=0.5, tol=5e-2)),
        {"estimator__C": [1e1, 1e2, 1e3, 1e4]},
        [],
    ),
    "RuleEnsembleHKL, StructuredSVM": (
        make_pipeline(RuleEnsembleHKL(C=1e4, beta=0.5, tol=5e-2, rule_threshold=1e-2), margin()),
        {"structuredsvm__C": STRENGTHS},
        [],
    ),
    "StructHKLClassifier": (StructHKLClassifier(tol=5e-2), {"C": [1e1, 1e2, 1e3]}, []),
    "StructHKLClassifier, patterns (enumAF)": (
        make_pipeline(patterns(), StructHKLClassifier(tol=5e-2, max_order=2)),
        {"structhklclassifier__C": [1e1, 1e2, 1e3]},
        [],
    ),
    "SubsequenceKernelSVM": (
        SubsequenceKernelSVM(before=3, after=3, tol=5e-2),
        {"C": [1e0, 1e1, 1e2]},
        [],
    ),
}


def without_idle(X: list[np.ndarray], y: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sequences from which steps without an activity are taken out; those of nothing else are left out."""
    kept = [np.asarray(labels) != IDLE for labels in y]
    used = [k for k, steps in enumerate(kept) if steps.any()]
    return [X[k][kept[k]] for k in used], [y[k][kept[k]] for k in used]


@dataclass
class Table:
    """One table: inputs by name, how sequences are dealt, and what is said above it.

    Attributes
    ----------
    name, title, text : str
    inputs : dict of str to callable
        Each gives ``X, y``.
    split : callable
        From ``X`` and the number of the deal to pairs ``(train, test)``.
    published : dict of str to dict
        Input -> row -> what seed 001 printed, micro and macro in percent.
    """

    name: str
    title: str
    text: str
    inputs: dict[str, Callable[[], tuple[list, list]]]
    split: Callable[[list, int], Iterator[tuple[np.ndarray, np.ndarray]]]
    published: dict[str, dict[str, str]] = field(default_factory=dict)
    windows: tuple[str, ...] = ("plain",)

    def scores(self) -> FoldScores:
        keys = ["input", "window", "row", "deal", "fold"]
        return FoldScores(self.name, keys, ["micro", "macro", "chosen", "seconds", "fit", "predict"])

    def run(self, options: Any) -> None:
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="No rule was found|No label has a rule")
        store = self.scores()
        for name in options.inputs or self.inputs:
            X, y = self.inputs[name]()
            for window in options.windows or self.windows:
                width = WINDOWS[window]
                seen = SlidingWindow(before=width, after=width).fit_transform(X) if width else X
                for deal in range(options.first_deal, options.deals):
                    for fold, (train, test) in enumerate(self.split(X, deal)):
                        if fold >= options.folds:
                            break
                        for row in options.rows or ROWS:
                            place = {"input": name, "window": window, "deal": deal, "fold": fold}
                            _run_fold(store, place, row, seen, y, train, test, options.n_jobs)
                            store.save()
                    print(f"{name}, {window}: deal {deal} done", flush=True)

    def write(self) -> None:
        store = self.scores()
        names = [name for row, (_, _, more) in ROWS.items() for name in [row, *(f"{row}, {d}" for d in more)]]
        lines = []
        for name in self.inputs:
            for window in WINDOWS:
                baseline = store.select(input=name, window=window, row=BASELINE)
                for row in names:
                    found = store.select(input=name, window=window, row=row)
                    if found:
                        done = {(record["deal"], record["fold"]) for record in found}
                        pairs = [record for record in baseline if (record["deal"], record["fold"]) in done]
                        published = self.published.get(name, {}).get(row, "") if window == "plain" else ""
                        lines.append([name, window, row, str(len(found)), *_cells(found, pairs), published])
        if not lines:
            return
        dates = sorted({record["date"] for record in store.records.values()})
        header = ["input", "window", "model", "trainings", "micro, %", "macro, %", "p (micro)", "chosen"]
        header += ["search, s", "fit, s", "predict, s", "seed 001, %"]
        write_section(
            self.name,
            f"## {self.title}\n\n"
            f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py {self.name}`\n\n"
            f"{self.text}\n\n"
            "Mean and standard deviation over trainings. p: paired Wilcoxon test of micro accuracy against "
            f"{BASELINE} over the same trainings; they share test sequences and so are not independent: read it as a "
            "scale, not as a level (with four it is never below .125). `chosen`: median of what the grid search inside "
            "the training sequences took, of `C`, or of `alpha` in the hidden Markov models, or of `leaf_l2` of trees. "
            "MAP decoding, unless the row names another. Seconds: the whole grid search, the last fit alone, and "
            "prediction of the test sequences, on a shared machine. Seed 001: micro / macro as printed there, from "
            "another preparation of the data.\n\n" + markdown_table(header, lines),
        )


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
        start = time.perf_counter()
        y_pred = model.predict(X_test)
        predict = time.perf_counter() - start
        store.add(
            **place,
            row=row if decoding is None else f"{row}, {decoding}",
            micro=round(100 * micro_accuracy_score(y_test, y_pred), 3),
            macro=round(100 * macro_accuracy_score(y_test, y_pred), 3),
            chosen=chosen,
            seconds=round(seconds, 2),
            fit=round(search.refit_time_, 2),
            predict=round(predict, 2),
        )


def _cells(found: list[dict[str, str]], baseline: list[dict[str, str]]) -> list[str]:
    def column(records, key):
        return np.array([float(record[key]) for record in records if record.get(key)])

    micro, macro = column(found, "micro"), column(found, "macro")
    p = ""
    if len(baseline) == len(found) > 1 and found[0]["row"] != baseline[0]["row"]:
        difference = micro - column(baseline, "micro")
        p = f"{wilcoxon(difference).pvalue:.1g}" if difference.any() else "1"
    chosen = column(found, "chosen")
    spread = [f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "" for values in (micro, macro)]
    seconds = [column(found, key) for key in ("seconds", "fit", "predict")]
    return [
        f"{micro.mean():.1f}{spread[0]}",
        f"{macro.mean():.1f}{spread[1]}",
        p,
        f"{np.median(chosen):g}" if len(chosen) else "",
        *(f"{values.mean():.1f}" if len(values) else "" for values in seconds),
    ]
