"""Durations that only a shape tells apart (after seed 000; the case is this project's own).

Two states with the same emissions and gamma durations of the same mean, 20 steps, but shapes 16 and 1, parted by
short segments of a third state that the inputs show. With known boundaries and equal priors no threshold on the
duration gets more than the first bound below, and the likelihood ratio gets the second. A geometric duration is a
threshold; the gamma duration has the terms of the ratio.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, versions, write_section
from scipy.stats import gamma

from sklearn_seqlab import LinearChainCRF, SemiCRF

MEAN, SHAPES = 20.0, {"peaked": 16.0, "spread": 1.0}
N_SEGMENTS, N_SEQUENCES, SEEDS = 40, 60, range(5)
LONGEST = 150

ROWS: dict[str, Any] = {
    "LinearChainCRF": LinearChainCRF(),
    "SemiCRF, geometric": SemiCRF(duration="geometric"),
    "SemiCRF, table": SemiCRF(duration="table"),
    "SemiCRF, gamma": SemiCRF(duration="gamma"),
    "SemiCRF, gamma, no limit": SemiCRF(duration="gamma", max_duration=LONGEST),
}


def probabilities(shape: float) -> np.ndarray:
    """Of 1, 2, .. ``LONGEST`` steps: the gamma density in unit cells."""
    edges = np.append(0.0, np.arange(1, LONGEST) + 0.5)
    mass = np.diff(gamma.cdf(edges, shape, scale=MEAN / shape), append=1.0)
    mass[-1] = 1.0 - gamma.cdf(edges[-1], shape, scale=MEAN / shape)
    return mass / mass.sum()


def bounds() -> tuple[float, float]:
    """Best shares of right segments, by any threshold on the duration and by the likelihood ratio."""
    a, b = (probabilities(shape) for shape in SHAPES.values())
    by_threshold = [0.5 * (a[:k].sum() + b[k:].sum()) for k in range(LONGEST + 1)]
    best_threshold = max(max(by_threshold), 1 - min(by_threshold))
    return 100 * best_threshold, 100 * 0.5 * np.maximum(a, b).sum()


def sequences(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(N_SEQUENCES):
        labels: list[str] = []
        for _ in range(N_SEGMENTS // 2):
            name = random.choice(list(SHAPES))
            length = 1 + random.choice(LONGEST, p=probabilities(SHAPES[name]))
            labels += [name] * int(length) + ["gap"] * int(random.integers(2, 5))
        y.append(np.array(labels))
        X.append((y[-1] == "gap")[:, None].astype(float) + 0.05 * random.normal(size=(len(labels), 1)))
    return X, y


def right_segments(y: list[np.ndarray], predicted: Any) -> float:
    """Share of segments of the two states whose middle step is labelled right."""
    n_right = n = 0
    for truth, found in zip(y, predicted, strict=True):
        starts = np.flatnonzero(np.append(True, truth[1:] != truth[:-1]))
        middles = (starts + np.append(starts[1:], len(truth)) - 1) // 2
        middles = middles[truth[middles] != "gap"]
        n_right += int((truth[middles] == found[middles]).sum())
        n += len(middles)
    return 100 * n_right / n


def scores() -> FoldScores:
    return FoldScores("durations", ["row", "seed"], ["segments"])


def run(options: Any) -> None:
    for seed in SEEDS:
        store = scores()
        X, y = sequences(seed)
        half = N_SEQUENCES // 2
        for row in options.rows or list(ROWS):
            model = ROWS[row].fit(X[:half], y[:half])
            store.add(
                row=row, seed=seed, segments=round(right_segments(y[half:], model.predict(X[half:])), 3)
            )
        store.save()
        print(f"random state {seed} done", flush=True)


def write() -> None:
    store = scores()
    lines = []
    for row in ROWS:
        values = np.array([float(record["segments"]) for record in store.select(row=row)])
        if len(values):
            lines.append([row, f"{values.mean():.1f} ± {values.std(ddof=1):.1f}"])
    threshold, ratio = bounds()
    found_dates = sorted({record["date"] for record in store.records.values()})
    write_section(
        "durations",
        "## Durations (seed 000)\n\n"
        f"{found_dates[0]} to {found_dates[-1]}. {versions()}. `python benchmarks/papers/run.py durations`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\nBounds: threshold {threshold:.1f} %, likelihood ratio "
        f"{ratio:.1f} %. {N_SEQUENCES // 2} sequences of about {N_SEGMENTS // 2 * 23} steps to train, as many to test, "
        f"{len(SEEDS)} random states.\n\n" + markdown_table(["model", "segments right, %"], lines),
    )
