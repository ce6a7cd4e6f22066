"""MIT PlaceLab apartments: headings over activities.

Sixteen days a subject in four folds of days (shuffled, random state 0), slices of 60 s, encodings change and last
together, idle as a class. Labels: 8 headings with idle over 23 or 25 activities with idle; each activity stands
under one heading, so a flat chain on activities tells headings too. "active": accuracy on the steps that are not
idle. "quarter": activities are labelled on every fourth training day only, headings on all; the chain on
activities then sees those days and, elsewhere, which activities the heading allows. "headings given": the true
headings are known at prediction; the chain is told the activities they allow.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, versions, write_section
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from sklearn_seqlab import HSCRFClassifier, LinearChainCRF, StepwiseClassifier
from sklearn_seqlab.datasets import fetch_mit_placelab
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score

SUBJECTS = (1, 2)
N_FOLDS = 4
SCORES = [f"{level} {what}" for level in ("heading", "activity") for what in ("micro", "macro", "active")]
IDLE = "idle"


def hierarchy() -> HSCRFClassifier:
    return HSCRFClassifier(
        bottom_persist=True,
        duration="geometric",
        edge_features=[("start", "end"), ()],
        max_iter=200,
        n_jobs=2,
    )


class Split:
    """One fold: training and test sequences, and the table of headings."""

    def __init__(self, home: Any, train: np.ndarray, test: np.ndarray):
        self.X, self.X_test = [home.data[i] for i in train], [home.data[i] for i in test]
        self.y, self.y_test = [home.target[i] for i in train], [home.target[i] for i in test]
        self.heading = dict(zip(*np.concatenate(home.target).T[::-1], strict=True))
        self.seen = set(np.concatenate(self.y)[:, 1])  # a day of test may hold others

    def quarter(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Both levels, activities missing on three days of four."""
        found = []
        for k, rows in enumerate(self.y):
            activities = rows[:, 1] if k % 4 == 0 else np.full(len(rows), None, dtype=object)
            found.append(np.stack([rows[:, 0], activities], axis=1))
        return found

    def allowed(self, headings: np.ndarray) -> np.ndarray:
        """Sets of the activities that stand under the heading of each step; None where none was trained on."""
        members = {h: frozenset(a for a in self.seen if self.heading[a] == h) or None for h in set(headings)}
        found = np.empty(len(headings), dtype=object)
        found[:] = [members[h] for h in headings]
        return found

    def headings(self, activities: list[np.ndarray]) -> list[np.ndarray]:
        return [np.array([self.heading[a] for a in row], dtype=object) for row in activities]


def level(y: list[np.ndarray], d: int) -> list[np.ndarray]:
    return [rows[:, d] for rows in y]


def activities_and_headings(split: Split, activities: list[np.ndarray]) -> tuple[list, list]:
    return split.headings(activities), activities


def per_step(split: Split, model: Any) -> tuple[list, list]:
    model = StepwiseClassifier(model).fit(split.X, level(split.y, 1))
    return activities_and_headings(split, model.predict(split.X_test))


def flat_activities(split: Split, y: list | None = None, known: list | None = None) -> tuple[list, list]:
    model = LinearChainCRF(n_jobs=2).fit(split.X, level(split.y, 1) if y is None else y)
    return activities_and_headings(split, model.predict(split.X_test, known))


def flat_headings(split: Split) -> tuple[list, None]:
    model = LinearChainCRF(n_jobs=2).fit(split.X, level(split.y, 0))
    return model.predict(split.X_test), None


def flat_quarter(split: Split) -> tuple[list, list]:
    y = [
        split.allowed(rows[:, 0]) if rows[0, 1] is None else rows[:, 1].astype(object)
        for rows in split.quarter()
    ]
    return flat_activities(split, y)


def flat_given(split: Split) -> tuple[None, list]:
    known = [split.allowed(rows[:, 0]) for rows in split.y_test]
    return None, flat_activities(split, known=known)[1]


def nested(split: Split, y: list | None = None, known: list | None = None) -> tuple[list, list]:
    found = hierarchy().fit(split.X, split.y if y is None else y).predict(split.X_test, known)
    return level(found, 0), level(found, 1)


def nested_given(split: Split) -> tuple[None, list]:
    seen = {split.heading[activity] for activity in split.seen}
    known = [
        np.array([(heading if heading in seen else None, None) for heading in rows[:, 0]], dtype=object)
        for rows in split.y_test
    ]
    return None, nested(split, known=known)[1]


ROWS: dict[str, Any] = {
    "most frequent label": lambda split: per_step(split, DummyClassifier()),
    "per step, logistic regression": lambda split: per_step(split, LogisticRegression(max_iter=1000)),
    "flat chain on activities": flat_activities,
    "flat chain on headings": flat_headings,
    "HSCRF": nested,
    "flat chain on activities, quarter": flat_quarter,
    "HSCRF, quarter": lambda split: nested(split, y=split.quarter()),
    "flat chain on activities, headings given": flat_given,
    "HSCRF, headings given": nested_given,
}


def scores() -> FoldScores:
    return FoldScores("placelab", ["subject", "row", "fold"], [*SCORES, "seconds"])


def run(options: Any) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for subject in SUBJECTS:
        home = fetch_mit_placelab(subject, level="both", encoding=("change", "last"))
        folds = KFold(N_FOLDS, shuffle=True, random_state=0).split(home.data)
        splits = [Split(home, train, test) for train, test in folds]
        for row in options.rows or ROWS:
            store = scores()
            for fold, split in enumerate(splits):
                start = time.perf_counter()
                found = ROWS[row](split)
                seconds = round(time.perf_counter() - start, 1)
                store.add(subject=subject, row=row, fold=fold, **measured(split, found), seconds=seconds)
            store.save()
            print(f"subject {subject}: {row} done", flush=True)


def measured(split: Split, found: tuple[list | None, list | None]) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(SCORES, "")
    for d, name in enumerate(("heading", "activity")):
        if found[d] is None:
            continue
        truth, predicted = level(split.y_test, d), found[d]
        active = [np.where(rows == IDLE, None, rows) for rows in truth]
        values[f"{name} micro"] = round(100 * micro_accuracy_score(truth, predicted), 3)
        values[f"{name} macro"] = round(100 * macro_accuracy_score(truth, predicted), 3)
        values[f"{name} active"] = round(100 * micro_accuracy_score(active, predicted), 3)
    return values


def write() -> None:
    store, lines = scores(), []
    for subject in SUBJECTS:
        for row in ROWS:
            found = store.select(subject=subject, row=row)
            if found:
                seconds = f"{np.mean([float(record['seconds']) for record in found]):.0f}"
                lines.append([str(subject), row, *(cell(found, what) for what in SCORES), seconds])
    dates = sorted({record["date"] for record in store.records.values()})
    text = [
        "## MIT PlaceLab: headings over activities\n",
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py placelab`\n",
        __doc__.split("\n", 1)[1].strip() + "\n",
        "C = 1 throughout. Mean over folds, in percent; seconds of training and prediction of a fold on two threads "
        "of a shared machine.\n",
        markdown_table(["subject", "model", *SCORES, "s"], lines),
    ]
    write_section("placelab", "\n".join(text))


def cell(found: list[dict[str, str]], what: str) -> str:
    values = [float(record[what]) for record in found if record[what]]
    return f"{np.mean(values):.1f}" if values else ""
