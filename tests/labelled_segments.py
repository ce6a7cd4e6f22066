"""Sequences of segments: data and the forms of their labels."""

import numpy as np

TIGHT = {"tol": 1e-8, "max_iter": 10_000}


def make_data(rng, n_sequences=12, n_steps=9, labels=("a", "b", "c")):
    """Noisy sequences whose labels last one to four steps, and change at every border."""
    X, y = [], []
    for _ in range(n_sequences):
        codes, last = [], -1
        while len(codes) < n_steps:
            last = rng.choice([k for k in range(len(labels)) if k != last])
            codes += [last] * rng.integers(1, 5)
        codes = np.array(codes[:n_steps])
        X.append(rng.normal(size=(n_steps, 3)).round(2) + np.eye(len(labels), 3)[codes])
        y.append(np.array(labels)[codes])
    return X, y


def as_segments(labels):
    stops = [*(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist(), len(labels)]
    return [(start, stop, labels[start].item()) for start, stop in zip([0, *stops], stops, strict=False)]


def as_ends(labels):
    return np.append(labels[1:] != labels[:-1], True).astype(int)
