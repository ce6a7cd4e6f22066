"""Labels of two levels: data, their forms, and models of every kind."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import HSCRFClassifier

TIGHT = {"tol": 1e-8, "max_iter": 10_000}


CHILDREN = {"p": ["a", "b"], "q": ["b", "c"]}  # "b" is shared


def make_data(rng, n_sequences=12, n_steps=8, bottom=1):
    """Two levels: parents of two to five steps, children of ``bottom`` or more; X (n_steps, 3) follows the children.

    No segment has the label of the one before it, but for children under different parents.
    """
    X, y = [], []
    for s in range(n_sequences):
        rows, parent = [], "pq"[s % 2]
        while len(rows) < n_steps:
            n, child = rng.integers(2, 6), None
            while n > 0:
                child = rng.choice([kid for kid in CHILDREN[parent] if bottom == 1 or kid != child])
                m = min(n, rng.integers(bottom, bottom + 3) if bottom > 1 else 1)
                rows += [(parent, child)] * m
                n -= m
            parent = "q" if parent == "p" else "p"
        table = np.array(rows[:n_steps])
        codes = np.searchsorted(["a", "b", "c"], table[:, 1])
        X.append(
            (rng.normal(size=(n_steps, 3)) * (rng.uniform(size=(n_steps, 3)) < 0.7)).round(2)
            + np.eye(3)[codes]
        )
        y.append(table)
    return X, y


def add_root(y):
    """A label of the whole sequence in front: that of the first step."""
    return [np.column_stack([np.full(len(table), table[0, 0].upper()), table[:, 1:]]) for table in y]


ALL_EDGES = ("start", "end", "initialisation", "transition", "ending")


MODELS = {
    "chain": HSCRFClassifier(),
    "chain, edges": HSCRFClassifier(edge_features=ALL_EDGES, children=CHILDREN, transitions="observed"),
    "chain, self": HSCRFClassifier(children="full", self_transitions=True, duration="none", numerics="log"),
    "mixed, gamma": HSCRFClassifier(duration=["gamma", "geometric"], edge_features=[("start", "ending"), ()]),
    "mixed, bottom": HSCRFClassifier(
        bottom_persist=True, duration=["geometric", "table"], max_duration=[None, 2], children="full",
        self_transitions=True, edge_features=ALL_EDGES,
    ),
    "mixed, top": HSCRFClassifier(
        bottom_persist=True, duration=["gamma", "none"], max_duration=[3, None],
        segment_features=[("mean", "any"), ("sum",)], self_transitions=True,
    ),
    "chain, bottom": HSCRFClassifier(bottom_persist=True, children="full", edge_features=("start", "end")),
    "aio": HSCRFClassifier(engine="aio", edge_features=ALL_EDGES, self_transitions=True),
    "aio, durations": HSCRFClassifier(
        bottom_persist=True, duration=["gamma", "table"], max_duration=[None, "observed"], edge_features=ALL_EDGES,
        segment_features=[("sum", "mean"), ("any",)], self_transitions=True,
    ),
    "aio, capped": HSCRFClassifier(bottom_persist=True, duration="table", max_duration=[4, 2], self_transitions=True),
    "root": HSCRFClassifier(root=True, edge_features=ALL_EDGES, self_transitions=True),
    "root, segments": HSCRFClassifier(
        root=True, bottom_persist=True, duration="gamma", children="full", transitions="observed",
        edge_features=("ending",),
    ),
    "root, aio": HSCRFClassifier(root=True, engine="aio", bottom_persist=True, self_transitions=True),
}  # fmt: skip


def data_for(estimator, rng, **options):
    X, y = make_data(rng, bottom=2 if estimator.bottom_persist else 1, **options)
    if estimator.max_duration == [None, 2] or estimator.max_duration == [4, 2]:
        y = [
            np.array([[p, "abc"[(t // 2 + (p == "q")) % 2 + (p == "q")]] for t, (p, _) in enumerate(table)])
            for table in y
        ]
    if estimator.root:
        y = add_root(y)
    return X, y


def quiet(model, X, y, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return HSCRFClassifier(**{**model.get_params(), **params}).fit(X, y)


def as_segments(table, bottom=True):
    """Segments of both levels of a table."""
    segments = []
    for d in range(2):
        change = (table[1:, : d + 1] != table[:-1, : d + 1]).any(axis=1)
        stops = [*(np.flatnonzero(change) + 1).tolist(), len(table)]
        if d == 0 or bottom:
            segments += [(d, a, b, table[a, d].item()) for a, b in zip([0, *stops], stops, strict=False)]
    return segments


def as_ends(table):
    change = np.append(table[1:] != table[:-1], [[True, True]], axis=0)
    return np.logical_or.accumulate(change, axis=1).astype(int)
