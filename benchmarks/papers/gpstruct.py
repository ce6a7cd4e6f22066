"""The four CRF++ tasks of seed 002, with the features and the five splits of the authors of GPstruct.

Mean over the splits of the mean over test sequences of the share of wrong steps ("hamming"), and of the share of
wrong steps of all ("steps"). The strength of regularisation, `C` or the prior variance `scale`, is chosen by three-fold
cross-validation inside the training sequences, by the share of right steps. The rare label -1 counts as a label. GPSL0,
1, 2 and 4 have the dependencies (), (-1,), (-1, 1) and (-2, -1, 1, 2), with mean-field inference; nothing is chosen for
GPstruct, which takes 3,000 steps.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, mean_and_deviation, versions, write_section
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_seqlab import (
    GPSequenceLabeler,
    GPStructLabeler,
    LinearChainCRF,
    StructuredPerceptron,
    StructuredSVM,
)
from sklearn_seqlab.datasets import fetch_gpstruct_nlp
from sklearn_seqlab.metrics import hamming_loss, micro_accuracy

TASKS = ["basenp", "chunking", "segmentation", "japanesene"]
SVM_GRID = {"C": [0.5, 1.5, 5.0, 15.0]}
SCALES = {"scale": [0.3, 1.0, 3.0]}


def gaussian(dependencies: tuple[int, ...], **options: Any) -> GPSequenceLabeler:
    return GPSequenceLabeler(dependencies=dependencies, inference="meanfield", **options)


# Row -> (estimator, grid). Later estimators add theirs here.
ROWS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "LinearChainCRF": (LinearChainCRF(), {"C": [0.15, 0.5, 1.5, 5.0, 15.0]}),
    "StructuredSVM": (StructuredSVM(loss="hamming_sum", random_state=0), SVM_GRID),
    "StructuredSVM, slack": (
        StructuredSVM(loss="hamming_sum", rescaling="slack", tol=5e-2, random_state=0),
        {"C": [1.5, 5.0]},
    ),
    "StructuredPerceptron": (StructuredPerceptron(max_iter=50, random_state=0), {"average": [True]}),
    "GPSL0": (gaussian(()), SCALES),
    "GPSL1": (gaussian((-1,)), SCALES),
    "GPSL1, Viterbi": (gaussian((-1,), decode="viterbi_mrf"), SCALES),
    "GPSL2": (gaussian((-1, 1)), SCALES),
    "GPSL2, chain": (gaussian((-1, 1), decode="chain"), SCALES),
    "GPSL4": (gaussian((-2, -1, 1, 2)), SCALES),
    "GPSL4, chain": (gaussian((-2, -1, 1, 2), decode="chain"), SCALES),
    "GPstruct": (GPStructLabeler(n_samples=3000, thin=20, random_state=0), {"scale": [1.0]}),
}
BASELINE = "LinearChainCRF"


def scores() -> FoldScores:
    return FoldScores("gpstruct", ["task", "row", "split"], ["hamming", "steps", "chosen", "seconds"])


def run(options: Any) -> None:
    store = scores()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for task in options.inputs or TASKS:
        data = fetch_gpstruct_nlp(task)
        for split, (train, test) in enumerate(data.splits):
            X, y = [data.data[i] for i in train], [data.target[i] for i in train]
            X_test, y_test = [data.data[i] for i in test], [data.target[i] for i in test]
            for row in options.rows or ROWS:
                estimator, grid = ROWS[row]
                search: Any = GridSearchCV(
                    clone(estimator), grid, cv=KFold(3), scoring=micro_accuracy, n_jobs=options.n_jobs
                )
                if all(len(values) == 1 for values in grid.values()):  # nothing to choose
                    search = clone(estimator).set_params(**{key: values[0] for key, values in grid.items()})
                start = time.process_time()
                y_pred = search.fit(X, y).predict(X_test)
                best = getattr(search, "best_params_", {})
                store.add(
                    task=task,
                    row=row,
                    split=split,
                    hamming=round(100 * hamming_loss(y_test, y_pred, average="sequence"), 3),
                    steps=round(100 * hamming_loss(y_test, y_pred, average="step"), 3),
                    chosen=best.get("C", best.get("scale", "")),
                    seconds=round(time.process_time() - start, 2),
                )
            store.save()
            print(f"{task}: split {split} done", flush=True)


def write() -> None:
    store = scores()
    lines = []
    for task in TASKS:
        baseline = {record["split"]: record for record in store.select(task=task, row=BASELINE)}
        for row in ROWS:
            found = store.select(task=task, row=row)
            if len(found) < 2:
                continue
            hamming = np.array([float(record["hamming"]) for record in found])
            steps = np.array([float(record["steps"]) for record in found])
            paired = p = ""
            if row != BASELINE and all(record["split"] in baseline for record in found):
                less = hamming - [float(baseline[record["split"]]["hamming"]) for record in found]
                paired = f"{mean_and_deviation(less, sign='+')}, better in {(less < 0).sum()} of {len(less)}"
                p = f"{ttest_rel(less, 0 * less).pvalue:.2g}" if less.any() else ""
            chosen = [float(record["chosen"]) for record in found if record["chosen"]]
            lines.append(
                [
                    task,
                    row,
                    mean_and_deviation(hamming),
                    f"{steps.mean():.2f}",
                    paired,
                    p,
                    f"{np.median(chosen):g}" if chosen else "",
                    f"{np.mean([float(record['seconds']) for record in found]):.1f}",
                ]
            )
    dates = sorted({record["date"] for record in store.records.values()})
    header = [
        "task",
        "model",
        "hamming, %",
        "steps, %",
        f"hamming less {BASELINE}'s",
        "p",
        "chosen",
        "search, CPU s",
    ]
    write_section(
        "gpstruct",
        "## The CRF++ tasks (seed 002)\n\n"
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py gpstruct --n-jobs 1`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\n"
        "Standard deviations are over the five splits, whose sequences overlap. p: paired t-test. `chosen`: median.\n\n"
        + markdown_table(header, lines),
    )
