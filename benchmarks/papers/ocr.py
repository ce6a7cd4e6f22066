"""Handwritten words: margins against likelihoods, trained on one fold and tested on nine.

The set of Taskar, Guestrin and Koller (6,877 words, 26 letters, 128 pixels a letter, no other features) in its ten
folds. Each fold is the training set once (about 690 words) and all other folds are the test set. The strength of
regularisation is chosen by two-fold cross-validation inside the training words, shuffled: training and test folds
share most of their 55 distinct words, and the words of a fold come in runs. StructuredSVM's C weighs the mean slack:
the value chosen on half of the words is doubled for all of them. It stops at a duality gap of 1 %. Its intercepts are
all but free, as LinearChainCRF's are (their input is 10; on the training words of three folds that was better than 1).
"hamming" is the mean over words of the share of wrong letters.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, mean_and_deviation, versions, write_section
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_seqlab import LinearChainCRF, StructuredPerceptron, StructuredSVM
from sklearn_seqlab.datasets import fetch_ocr_letters
from sklearn_seqlab.metrics import hamming_loss, micro_accuracy, micro_accuracy_score

# Row -> (estimator, grid, decodings to score beside the estimator's own).
ROWS: dict[str, tuple[Any, dict[str, list[Any]], list[str]]] = {
    "LinearChainCRF": (LinearChainCRF(tol=1e-3), {"C": [0.1, 0.2, 0.4, 0.8]}, ["marginal"]),
    "StructuredSVM": (
        StructuredSVM(
            loss="hamming_sum", intercept_scaling=10.0, tol=0.01, max_iter=300, n_inner=5, random_state=0
        ),
        {"C": [10.0, 20.0, 40.0, 80.0]},
        [],
    ),
    "StructuredPerceptron": (StructuredPerceptron(random_state=0), {"max_iter": [10, 30]}, []),
}
BASELINE = "LinearChainCRF"

# Models whose C weighs the mean loss: what half of the words choose is doubled, so that a word weighs the same.
OF_THE_MEAN = {"StructuredSVM"}


def scores() -> FoldScores:
    return FoldScores("ocr", ["row", "fold"], ["accuracy", "hamming", "chosen", "seconds"])


def run(options: Any) -> None:
    store = scores()
    warnings.simplefilter("ignore", ConvergenceWarning)
    words = fetch_ocr_letters()
    for fold in map(int, options.inputs or range(10)):
        train, test = np.flatnonzero(words.groups == fold), np.flatnonzero(words.groups != fold)
        X, y = [words.data[i] for i in train], [words.target[i] for i in train]
        X_test, y_test = [words.data[i] for i in test], [words.target[i] for i in test]
        for row in options.rows or ROWS:
            estimator, grid, decodings = ROWS[row]
            inner = KFold(2, shuffle=True, random_state=0)
            search = GridSearchCV(
                clone(estimator), grid, cv=inner, scoring=micro_accuracy, n_jobs=options.n_jobs, refit=False
            )
            start = time.process_time()
            search.fit(X, y)
            chosen = dict(search.best_params_)
            if row in OF_THE_MEAN:
                chosen["C"] *= 2
            model = clone(estimator).set_params(**chosen).fit(X, y)
            seconds = time.process_time() - start
            for decoding in [None, *decodings]:
                if decoding is not None:
                    model.set_params(decoding=decoding)
                y_pred = model.predict(X_test)
                store.add(
                    row=row if decoding is None else f"{row}, {decoding}",
                    fold=fold,
                    accuracy=round(100 * micro_accuracy_score(y_test, y_pred), 3),
                    hamming=round(100 * hamming_loss(y_test, y_pred, average="sequence"), 3),
                    chosen=" ".join(f"{value:g}" for value in chosen.values()),
                    seconds=round(seconds, 2),
                )
        store.save()
        print(f"fold {fold} done", flush=True)


def write() -> None:
    store = scores()
    baseline = store.select(row=BASELINE)
    lines = []
    names = [name for key, (_, _, more) in ROWS.items() for name in [key, *(f"{key}, {d}" for d in more)]]
    for row in names:
        found = store.select(row=row)
        if not found:
            continue
        accuracy = np.array([float(record["accuracy"]) for record in found])
        hamming = np.array([float(record["hamming"]) for record in found])
        p = ""
        if len(found) == len(baseline) and row != BASELINE:
            p = f"{wilcoxon(accuracy, [float(record['accuracy']) for record in baseline]).pvalue:.1g}"
        chosen = np.median([float(record["chosen"]) for record in found])
        lines.append(
            [
                row,
                mean_and_deviation(accuracy),
                mean_and_deviation(hamming),
                p,
                f"{chosen:g}",
                f"{np.mean([float(record['seconds']) for record in found]):.1f}",
            ]
        )
    dates = sorted({record["date"] for record in store.records.values()})
    header = ["model", "letters right, %", "hamming, %", "p", "C (or passes) chosen", "search, CPU s"]
    write_section(
        "ocr",
        "## Handwritten letters\n\n"
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py ocr --n-jobs 1`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\n"
        f"Mean and standard deviation over {len(baseline)} training folds. p: paired Wilcoxon test of letters right "
        f"against {BASELINE}; test sets overlap, so read it as a scale. `chosen`: median. The linear chain trained by "
        "margins is usually published with 78 to 80 % of letters right on pixels alone.\n\n"
        + markdown_table(header, lines),
    )
