"""Segments against chains on real data.

Chain and segments see the same inputs; segments have gamma durations and, with "edges", weigh the inputs at the
first and last step of a segment once more. Houses B and C: slices of 60 s, encoding last, days in seven folds
(shuffled, random state 0). Gesture phases: velocities, accelerations and coordinates, standardised, one video out.
CAVIAR: speeds and displacements over 1, 5 and 12 frames and the orientation, standardised, scenes in eight folds.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, versions, write_section
from scipy.stats import ttest_rel
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import LinearChainCRF, SemiCRF
from sklearn_seqlab.datasets import fetch_caviar, fetch_gesture_phase, fetch_kasteren
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score, segment_f1_score
from sklearn_seqlab.preprocessing import SequenceTransformer, make_sequence_pipeline

MAX_ITER = 150
DECODINGS = ("map", "marginal")
SCORES = {"micro": micro_accuracy_score, "macro": macro_accuracy_score, "segment F1": segment_f1_score}
ROWS: dict[str, Any] = {
    "chain": lambda: LinearChainCRF(n_jobs=2),
    "segments": lambda: SemiCRF(duration="gamma", max_iter=MAX_ITER, n_jobs=2),
    "segments, edges": lambda: SemiCRF(
        duration="gamma", edge_features=("start", "end"), max_iter=MAX_ITER, n_jobs=2
    ),
}


def house(letter: str) -> tuple[list, list, list]:
    X, y = fetch_kasteren(letter, release="tl2010", encoding="last", return_X_y=True)
    return X, y, list(KFold(7, shuffle=True, random_state=0).split(X))


def gestures() -> tuple[list, list, list]:
    videos = fetch_gesture_phase(inputs="both")
    return videos.data, videos.target, list(LeaveOneGroupOut().split(videos.data, groups=videos.groups))


def tracks() -> tuple[list, list, list]:
    people = fetch_caviar()
    X = [motion(track) for track in people.data]
    return X, people.target, list(GroupKFold(8).split(X, groups=people.groups))


def motion(track: np.ndarray) -> np.ndarray:
    steps, columns = np.arange(len(track)), []
    for reach in (1, 5, 12):
        before, after = np.maximum(steps - reach, 0), np.minimum(steps + reach, len(track) - 1)
        moved = np.hypot(*(track[after, :2] - track[before, :2]).T)
        speed = moved / np.maximum(after - before, 1)
        columns += [speed, np.log1p(speed), speed < 0.1, speed > 2]
    angle = np.deg2rad(track[:, 2])
    return np.column_stack([*columns, np.cos(angle), np.sin(angle)]).astype(float)


SETS: dict[str, Any] = {
    "house B": lambda: house("B"),
    "house C": lambda: house("C"),
    "gesture phases": gestures,
    "CAVIAR": tracks,
}


def scores() -> FoldScores:
    return FoldScores("segments", ["set", "row", "decoding", "fold"], [*SCORES, "seconds"])


def run(options: Any) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.inputs or SETS:
        X, y, folds = SETS[name]()
        for fold, (train, test) in enumerate(folds):
            truth, store = [y[i] for i in test], scores()
            for row in options.rows or ROWS:
                model = ROWS[row]()
                if not name.startswith("house"):
                    model = make_sequence_pipeline(SequenceTransformer(StandardScaler()), model)
                start = time.perf_counter()
                model.fit([X[i] for i in train], [y[i] for i in train])
                seconds = round(time.perf_counter() - start, 1)
                for decoding in DECODINGS:
                    last = model if name.startswith("house") else model[-1]
                    last.set_params(decoding=decoding)
                    found = model.predict([X[i] for i in test])
                    values = {what: round(100 * score(truth, found), 3) for what, score in SCORES.items()}
                    store.add(set=name, row=row, decoding=decoding, fold=fold, **values, seconds=seconds)
            store.save()
            print(f"{name}: fold {fold} done", flush=True)


def write() -> None:
    store, lines = scores(), []
    for name in SETS:
        for decoding in DECODINGS:
            chain = store.select(set=name, row="chain", decoding=decoding)
            for row in ROWS:
                found = store.select(set=name, row=row, decoding=decoding)
                if found:
                    cells = [text for what in SCORES for text in cell(found, chain, what)]
                    seconds = f"{np.mean([float(record['seconds']) for record in found]):.0f}"
                    lines.append([name, decoding, row, *cells, seconds])
    dates = sorted({record["date"] for record in store.records.values()})
    text = [
        "## Segments against chains on real data\n",
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py segments`\n",
        __doc__.split("\n", 1)[1].strip() + "\n",
        f"C = 1, at most {MAX_ITER} iterations for segments. Mean over folds, in percent; segment F1 counts runs with "
        "both edges exact. p: paired t-test over folds against the chain of the same decoding. Seconds of training "
        "a fold on two threads of a shared machine.\n",
        markdown_table(
            ["data", "decoding", "model", *(text for what in SCORES for text in (what, "p")), "s"], lines
        ),
    ]
    write_section("segments", "\n".join(text))


def cell(found: list[dict[str, str]], chain: list[dict[str, str]], what: str) -> tuple[str, str]:
    values, others = (np.array([float(record[what]) for record in records]) for records in (found, chain))
    shown = f"{values.mean():.1f}"
    if len(values) != len(others) or np.array_equal(values, others):
        return shown, ""
    return shown, f"{ttest_rel(values, others).pvalue:.2g}"
