"""Seconds, certified gaps and accuracies of rules over all conjunctions.

    python benchmarks/rules.py               all tasks
    python benchmarks/rules.py ua mit        some of them

Planted rules and accuracies on house A, MIT and the like are tables of `benchmarks/papers/run.py`.

Trains on a quarter of the sequences (every fourth) and tests on the others, unless a row says otherwise. CPU seconds
are those of ``fit`` on one thread; the gap is relative to the objective, and holds for all conjunctions of the inputs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline

from sklearn_seqlab import StepwiseClassifier, StructHKLClassifier, SubsequenceKernelSVM
from sklearn_seqlab.datasets import fetch_kasteren, fetch_mit_placelab
from sklearn_seqlab.feature_extraction import RelationalPatternMiner
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score

HEADER = (
    "task",
    "steps x inputs",
    "rows",
    "conjunctions",
    "active",
    "gap",
    "bound",
    "cpu s",
    "wall s",
    "micro",
    "macro",
    "majority",
)


def quarter(X: list, y: list) -> tuple[list, list, list, list]:
    train, test = range(0, len(X), 4), [i for i in range(len(X)) if i % 4]
    return [X[i] for i in train], [y[i] for i in train], [X[i] for i in test], [y[i] for i in test]


def show(cells: Any) -> None:
    widths = (42, 14, 5, 12, 7, 8, 16, 7, 7, 6, 6, 8)
    print("  ".join(str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)), flush=True)


def measure(task: str, model: Any, X: list, y: list, X_test: list, y_test: list) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    last = model[-1] if hasattr(model, "steps") else model
    scores = ["", "", ""]
    if X_test:
        found = model.predict(X_test)
        majority = StepwiseClassifier(DummyClassifier()).fit(X, y).predict(X_test)
        scores = [
            f"{100 * micro_accuracy_score(y_test, found):.1f}",
            f"{100 * macro_accuracy_score(y_test, found):.1f}",
            f"{100 * micro_accuracy_score(y_test, majority):.1f}",
        ]
    n_steps = sum(map(len, X))
    show(
        [
            task,
            f"{n_steps} x {last.n_features_in_}",
            last.n_distinct_rows_,
            last.n_conjunctions_,
            last.active_set_size_,
            f"{last.duality_gap_ / last.objective_:.2%}",
            last.gap_kind_,
            f"{cpu:.1f}",
            f"{wall:.1f}",
            *scores,
        ]
    )


def ua() -> None:
    home = fetch_kasteren(house="A", split=1000, encoding="raw")
    parts = quarter(home.data, home.target)
    for name, options in {
        "UA raw": {},
        "UA raw, beta 0.5": {"beta": 0.5},
        "UA raw, rho 1.1, beta 0.5": {"beta": 0.5, "rho": 1.1},
        "UA raw, slack": {"rescaling": "slack"},
        "UA raw, likelihood": {"loss": "log"},
    }.items():
        measure(f"{name}, C 100, tol 1e-2", StructHKLClassifier(C=100.0, **options), *parts)
    everything = StructHKLClassifier(C=100.0, tol=3e-2, n_slack_groups=4)
    measure("UA raw, all 40 blocks, C 100, tol 3e-2", everything, home.data, home.target, [], [])


def mit() -> None:
    for subject in (1, 2):
        for encoding in ("change", "raw"):
            home = fetch_mit_placelab(subject, level="both", encoding=encoding)
            y = [rows[:, 0] for rows in home.target]
            parts = quarter(home.data, y)
            for loss in ("hinge", "log"):
                model = StructHKLClassifier(C=100.0, tol=5e-2, loss=loss)
                measure(f"MIT {subject} {encoding}, {loss}, C 100, tol 5e-2", model, *parts)
    home = fetch_mit_placelab(1, level="both", encoding="raw")
    model = StructHKLClassifier(C=100.0, tol=5e-2, max_enumerate=0)
    measure("MIT 1 raw, not enumerated", model, *quarter(home.data, [rows[:, 0] for rows in home.target]))


def relational() -> None:
    home = fetch_kasteren(house="A", split=1000, encoding="raw")
    parts = quarter(home.data, home.target)
    miner = RelationalPatternMiner(max_literals=1)
    model = make_pipeline(miner, StructHKLClassifier(C=100.0, max_order=2, tol=3e-2))
    measure("UA raw, enumAF, single inputs, order 2, tol 3e-2", model, *parts)
    miner = RelationalPatternMiner(max_literals=2, max_patterns=30)
    model = make_pipeline(miner, StructHKLClassifier(C=100.0, max_order=2, tol=3e-2))
    measure("UA raw, enumAF, 30 patterns, order 2, tol 3e-2", model, *parts)
    for before, max_length in ((3, 2), (5, 3)):
        for C in (10.0, 100.0):
            machine = SubsequenceKernelSVM(C=C, before=before, after=before, max_length=max_length, tol=2e-2)
            wall, cpu = time.perf_counter(), time.process_time()
            machine.fit(*parts[:2])
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            start, cpu_start = time.perf_counter(), time.process_time()
            found = machine.predict(parts[2])
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
            print(
                f"UA raw, subsequences +-{before} of {max_length}, C {C:g}, tol 2e-2: "
                f"{len(machine.support_windows_)} windows, rank {machine.rank_}, "
                f"gap {machine.duality_gap_ / machine.objective_:.2%}, cpu {cpu:.1f} s, wall {wall:.1f} s, "
                f"prediction of {sum(map(len, parts[2]))} steps cpu {cpu_seconds:.2f} s, wall {seconds:.2f} s, "
                f"micro {100 * micro_accuracy_score(parts[3], found):.1f}, "
                f"macro {100 * macro_accuracy_score(parts[3], found):.1f}",
                flush=True,
            )


TASKS = {"ua": ua, "mit": mit, "relational": relational}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help=f"tasks to run, of {sorted(TASKS)} (all)")
    options = parser.parse_args()
    warnings.simplefilter("always")
    show(HEADER)
    for task in options.tasks or TASKS:
        TASKS[task]()


if __name__ == "__main__":
    main()
