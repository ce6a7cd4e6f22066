"""Regression trees on windows of inputs: how their inputs are laid out, how they are grown, and what they score.

A grown tree is a structured array, which anything can read and keep; scikit-learn grows it and is then let go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.tree import DecisionTreeRegressor

from sklearn_seqlab.sequences import PackedBatch, window_rows

__all__ = [
    "Bins",
    "all_scores",
    "grow_tree",
    "leaves_of",
    "tree_array",
    "tree_inputs",
    "tree_names",
    "tree_scores",
]


def tree_inputs(batch: PackedBatch, before: int, after: int) -> np.ndarray:
    """Inputs of the window of each step, float32, and for each other step of the window whether it lies outside.

    scikit-learn's trees see float32; so the same numbers are seen when they are grown and when they are used.

    Returns
    -------
    inputs : ndarray of shape (n_total, n_columns), dtype=float32
    """
    values = window_rows(batch, before, after)
    values = values.toarray() if sparse.issparse(values) else values
    inside = window_rows(PackedBatch(np.ones((batch.n_total, 1)), batch.offsets), before, after)
    outside = 1.0 - np.delete(inside, before, axis=1)
    with np.errstate(over="ignore"):
        table = np.hstack([values, outside]).astype(np.float32)
    lost = values.any(axis=0) & ~table[:, : values.shape[1]].any(axis=0)
    if lost.any() or not np.isfinite(table).all():
        raise ValueError(
            "X holds values beyond single precision, in which trees compare; scale the features."
        )
    return table


def tree_names(inputs: Sequence[str], before: int, after: int, previous: Sequence[str] = ()) -> list[str]:
    """Names of the columns of ``tree_inputs``, and of labels of the step before."""
    offsets = [f"[t{offset:+d}]" if offset else "[t]" for offset in range(-before, after + 1)]
    columns = [f"{name}{offset}" for offset in offsets for name in inputs]
    outside = [f"outside{offset}" for offset in offsets if offset != "[t]"]
    return [*columns, *outside, *(f"y[t-1] = {label}" for label in previous)]


class Bins:
    """Columns cut at quantiles, so that a tree tries few thresholds.

    Parameters
    ----------
    inputs : ndarray of shape (n_rows, n_columns), dtype=float32
    max_bins : int or None
        None keeps all values apart.
    """

    def __init__(self, inputs: np.ndarray, max_bins: int | None):
        self.edges: list[np.ndarray] | None = None
        if max_bins is None:
            return
        self.edges = []
        for column in inputs.T:
            values, counts = np.unique(column, return_counts=True)
            if len(values) > max_bins:
                ranks = np.cumsum(counts) / len(column)
                cuts = np.searchsorted(ranks, np.arange(1, max_bins) / max_bins)
                cuts = np.unique(np.minimum(cuts, len(values) - 2))
            else:
                cuts = np.arange(len(values) - 1)
            # half-way, but never rounded up to the value above
            middle = 0.5 * (values[cuts].astype(np.float64) + values[cuts + 1])
            self.edges.append(np.where(middle.astype(np.float32) < values[cuts + 1], middle, values[cuts]))

    def codes(self, inputs: np.ndarray) -> np.ndarray:
        """The inputs with values replaced by the numbers of their bins, float32."""
        if self.edges is None:
            return inputs
        coded = np.empty_like(inputs)
        for p, edges in enumerate(self.edges):
            coded[:, p] = np.searchsorted(edges, inputs[:, p])
        return coded

    def threshold(self, column: int, threshold: float) -> float:
        """A threshold between codes as one between values; columns that were not cut are left alone."""
        if self.edges is None or column >= len(self.edges):
            return threshold
        return float(self.edges[column][int(threshold)])


def grow_tree(
    rows: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    *,
    max_leaf_nodes: int,
    min_samples_leaf: int,
    random_state: int,
) -> DecisionTreeRegressor:
    """A tree of least squared error.

    ``min_samples_leaf`` counts weights: a row of weight two is two rows.
    """
    total = float(weight.sum())
    tree = DecisionTreeRegressor(
        max_leaf_nodes=max_leaf_nodes,
        # a hair less, so that a share of a sum does not round above a whole number of rows
        min_weight_fraction_leaf=min(0.5, min_samples_leaf / total * (1 - 1e-9)),
        random_state=random_state,
    )
    return tree.fit(rows, target, sample_weight=weight)


def tree_array(tree: DecisionTreeRegressor, bins: Bins, values: np.ndarray) -> np.ndarray:
    """A grown tree with its own leaf values (n_nodes, n_outputs).

    Returns
    -------
    nodes : structured ndarray with fields ``feature`` (-1 in a leaf), ``threshold``, ``left``, ``right``, ``value``
        A row goes left where its input is at most the threshold.
    """
    grown = tree.tree_
    kinds = [("feature", np.intp), ("threshold", np.float64), ("left", np.intp), ("right", np.intp)]
    nodes = np.zeros(grown.node_count, dtype=[*kinds, ("value", np.float64, (values.shape[1],))])
    splits = grown.children_left >= 0
    nodes["feature"] = np.where(splits, grown.feature, -1)
    nodes["left"], nodes["right"], nodes["value"] = grown.children_left, grown.children_right, values
    for k in np.flatnonzero(splits):
        nodes["threshold"][k] = bins.threshold(int(grown.feature[k]), float(grown.threshold[k]))
    return nodes


def leaves_of(nodes: np.ndarray, inputs: np.ndarray, previous: int | None = None) -> np.ndarray:
    """The leaf that each row of inputs ends in, (n_rows,).

    Parameters
    ----------
    nodes : structured ndarray
    inputs : ndarray of shape (n_rows, n_columns), dtype=float32
    previous : int or None
        Code of the label of the step before; columns beyond the inputs say which it is. None is the first step.
    """
    n_columns = inputs.shape[1]
    at = np.zeros(len(inputs), dtype=np.intp)
    rows = np.arange(len(inputs)) if nodes["feature"][0] >= 0 else np.empty(0, dtype=np.intp)
    while len(rows):
        node = at[rows]
        feature = nodes["feature"][node]
        seen = inputs[rows, np.minimum(feature, n_columns - 1)]
        is_label = feature >= n_columns
        seen = np.where(is_label, feature - n_columns == (-1 if previous is None else previous), seen)
        at[rows] = np.where(seen <= nodes["threshold"][node], nodes["left"][node], nodes["right"][node])
        rows = rows[nodes["feature"][at[rows]] >= 0]
    return at


def tree_scores(trees: Sequence[np.ndarray], inputs: np.ndarray, previous: int | None = None) -> np.ndarray:
    """What the trees of a round add, (n_rows, n_labels): one with a value per label, or one per label."""
    parts = [nodes["value"][leaves_of(nodes, inputs, previous)] for nodes in trees]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def all_scores(
    rounds: Sequence[Sequence[np.ndarray]],
    inputs: np.ndarray,
    offsets: np.ndarray,
    n_labels: int,
    *,
    edge: bool,
) -> tuple[Any, Any]:
    """Summed scores of all rounds: of steps, and of moves; per step where trees see the label before.

    First steps have no label before them: what trees say of them are scores of the step.
    """
    n_rows = len(inputs)
    unary = np.zeros((n_rows, n_labels))
    if not edge:
        for trees in rounds:
            unary += tree_scores(trees, inputs)
        return unary, np.zeros((n_labels, n_labels))
    moves = np.zeros((n_rows, n_labels, n_labels))
    for trees in rounds:
        unary[offsets[:-1]] += tree_scores(trees, inputs[offsets[:-1]])
        for i in range(n_labels):
            moves[:, i] += tree_scores(trees, inputs, i)
    return unary, moves
