"""What runs of steps on single sequences have in common: the iterate, and the arrays that kernels read and work in."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood
from sklearn_seqlab.objectives._linear import RestrictedFeatures
from sklearn_seqlab.sequences import blocks, step_costs

__all__ = ["ChainRun"]


class ChainRun:
    """Steps on single sequences of a likelihood, from ``coef`` on.

    Parameters
    ----------
    objective : ChainLogLikelihood
        Without features on moves and without absolute values.
    coef : ndarray of shape (n_coef,)
        Where the run starts; copied.
    """

    def __init__(self, objective: ChainLogLikelihood, coef: np.ndarray):
        if objective.layout.n_edge or objective.l1 is not None:
            raise ValueError("Steps are for a squared penalty, without features on moves.")
        self.objective = objective
        self.n_sequences, self.n_labels = objective.batch.n_sequences, objective.n_labels
        self.longest = int(objective.batch.lengths.max())
        layout = objective.layout
        coef = coef.copy()
        node, moves, _, self.start, self.end, self.intercept = np.split(coef, layout.cuts)
        self.node = np.ascontiguousarray(node)
        self.transition = np.full((self.n_labels, self.n_labels), -np.inf)
        self.transition[layout.allowed_transitions] = moves
        self._inputs = _rows_of(layout.features)
        self._pairs, self._n_pairs = _pairs_of(layout.features)
        self._cost = np.empty((0, self.n_labels))
        if objective.cost is not None:
            self._cost = step_costs(objective.labels, objective.cost, 0, objective.batch.n_total)

    def coef(self) -> np.ndarray:
        """The iterate, (n_coef,)."""
        moves = self.transition[self.objective.layout.allowed_transitions]
        return np.concatenate([self._caught_up(), moves, self.start, self.end, self.intercept])

    def _caught_up(self) -> np.ndarray:
        return self.node

    @property
    def _most_features(self) -> int:
        """Of a sequence, at most: the rows of sums over its features."""
        n_features, starts = self.objective.layout.features.shape[0], self._inputs[2]
        offsets = self.objective.batch.offsets
        return min(n_features, int(np.diff(starts[offsets]).max()))

    def _square(self, *shape: int) -> np.ndarray:
        return np.empty((*shape, self.n_labels, self.n_labels))

    def _rows(self, n: int) -> list[np.ndarray]:
        return [np.empty((self.longest, self.n_labels)) for _ in range(n)]

    def _sums(self) -> list[np.ndarray]:
        """Where kernels sum over the features of a sequence."""
        most = max(self._most_features, 1)
        place = np.full(max(self.objective.layout.features.shape[0], 1), -1, dtype=np.intp)
        return [place, np.empty(most, dtype=np.intp), np.empty((most, self.n_labels))]

    @cached_property
    def _units(self) -> tuple[np.ndarray, float, float]:
        """Inverse squares of typical sizes: of each feature, of moves and ends, of intercepts."""
        node, moves, _, start, _, intercept = np.split(self.objective.scale, self.objective.layout.cuts)
        first, own = np.cumsum(self._n_pairs) - self._n_pairs, self._n_pairs > 0
        unit = np.ones(len(first))
        unit[own] = node[first[own]] ** -2.0
        others = [
            float(part[0] ** -2.0) if len(part) else 1.0 for part in (np.append(moves, start), intercept)
        ]
        return unit, others[0], others[1]


def _rows_of(features: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, column numbers and row starts, as the kernels read them."""
    if isinstance(features, RestrictedFeatures):
        return features.operands
    values = features.values
    if sparse.issparse(values):
        binary = all((values.data[block] == 1).all() for block in blocks(len(values.data)))
        return values.data[:0] if binary else values.data, values.indices, values.indptr
    n_rows, n_features = values.shape
    starts = np.arange(n_rows + 1, dtype=np.int64) * n_features
    return np.ascontiguousarray(values).ravel(), np.empty(0, dtype=np.int64), starts


def _pairs_of(features: Any) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Which pairs have a weight (empty: all), and how many of each feature."""
    if isinstance(features, RestrictedFeatures):
        return (features.indptr, features.label), np.diff(features.indptr)
    nothing = np.empty(0, dtype=np.intc)
    return (nothing, nothing), np.full(features.shape[0], features.shape[1])
