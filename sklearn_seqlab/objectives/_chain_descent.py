"""A run of stochastic steps on the likelihood of chains: the iterate, and the arrays that its kernel works in."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_seqlab.objectives import _chain_steps
from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood
from sklearn_seqlab.objectives._linear import RestrictedFeatures, SparseFeatures
from sklearn_seqlab.sequences import step_costs

__all__ = ["ChainDescent"]

# Steps on a stream have half their length after three times so many.
_STREAM_SCALE = 300


class ChainDescent:
    """Steps on single sequences of ``objective / C``, from ``coef`` on.

    The length of step ``k`` is ``eta / (1 + k * eta / (C * n_sequences))``, in scaled variables: of the gradient of one
    sequence's loss, and of its share of the penalty. In a stream, whose end nobody knows, it is
    ``eta / sqrt(1 + k / 300)``.

    Parameters
    ----------
    objective : ChainLogLikelihood
        Without features on moves and without absolute values.
    coef : ndarray of shape (n_coef,)
        Where the run starts; copied.
    eta : float
    n_before : int, default=None
        In a stream, the sequences that came before; all that have come share the penalty.

    Notes
    -----
    A sweep takes the time of O(stored features * n_labels + n_total * n_labels**2) without any work per coefficient.
    Bottou, "Large-scale machine learning with stochastic gradient descent", 2010; spec "chain models" 3.4.
    """

    def __init__(
        self,
        objective: ChainLogLikelihood,
        coef: np.ndarray,
        eta: float,
        n_before: int | None = None,
    ):
        if objective.layout.n_edge or objective.l1 is not None:
            raise ValueError("Steps are for a squared penalty, without features on moves.")
        self.objective, self.eta = objective, eta
        layout, labels = objective.layout, objective.labels
        n_labels, longest = objective.n_labels, int(objective.batch.lengths.max())
        coef = coef.copy()
        node, moves, _, self.start, self.end, self.intercept = np.split(coef, layout.cuts)
        self.node = np.ascontiguousarray(node)
        self.transition = np.full((n_labels, n_labels), -np.inf)
        self.transition[layout.allowed_transitions] = moves
        self.n_steps, self._length = n_before or 0, np.zeros(1)
        self._rate = 1.0 / (objective.C * (self.n_steps + objective.batch.n_sequences))
        self._decay = (self._rate * eta, 1.0) if n_before is None else (1 / _STREAM_SCALE, 0.5)
        self._inputs = _rows_of(layout.features)
        scale, _, _, _, _, intercept_scale = np.split(objective.scale, layout.cuts)
        self._pairs, self._n_pairs, self._unit = _pairs_of(layout.features, scale)
        others = objective.scale[layout.cuts[0] : layout.cuts[1]]
        self._move_unit = float(others[0] ** -2.0) if len(others) else 1.0
        self._intercept_unit = float(intercept_scale[0] ** -2.0) if len(intercept_scale) else 1.0
        self._seen = np.zeros(len(self._unit))
        known = (labels.codes >= 0).all()
        nothing = np.empty((0, n_labels))
        self._fits = nothing.astype(np.uint8) if known else labels.allowed().astype(np.uint8)
        self._cost = nothing
        if objective.cost is not None:
            self._cost = step_costs(labels, objective.cost, 0, objective.batch.n_total)
        square = (1, n_labels, n_labels)
        self._work = [
            *(np.empty((longest, n_labels)) for _ in range(5)),
            np.empty(square),
            np.empty(square[1:]),
            *(np.empty(square) for _ in range(2)),
            np.empty(1),
            np.empty(3 * n_labels),
        ]

    def sweep(self, order: np.ndarray) -> float:
        """A step on each of some sequences; the sum of their losses, each before its step (NaN if one is lost)."""
        objective = self.objective
        loss = _chain_steps.sweep(
            order, objective.batch.offsets, objective.weight, *self._inputs, objective.labels.codes, self._fits,
            self._cost, *self._pairs, self._unit, self._move_unit, self._intercept_unit, self._rate, self.eta,
            *self._decay, self.n_steps, self._length, self._seen, self.node, self.transition, self.start,
            self.end, self.intercept, *self._work,
        )  # fmt: skip
        self.n_steps += len(order)
        return loss

    def coef(self) -> np.ndarray:
        """The iterate, (n_coef,), with the penalty worked in everywhere."""
        kept = 1.0 / (1.0 + self._rate * self._unit * (self._length[0] - self._seen))
        layout = self.objective.layout
        moves = self.transition[layout.allowed_transitions]
        node = self.node * np.repeat(kept, self._n_pairs)
        return np.concatenate([node, moves, self.start, self.end, self.intercept])


def _rows_of(features: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, column numbers and row starts, as the kernel reads them."""
    if isinstance(features, RestrictedFeatures):
        return features.operands
    values = features.values
    if isinstance(features, SparseFeatures):
        binary = (values.data == 1).all()
        return values.data[:0] if binary else values.data, values.indices, values.indptr
    n_rows, n_features = values.shape
    starts = np.arange(n_rows + 1, dtype=np.int64) * n_features
    return np.ascontiguousarray(values).ravel(), np.empty(0, dtype=np.int64), starts


def _pairs_of(features: Any, scale: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], Any, np.ndarray]:
    """Which pairs have a weight (empty: all), how many of each feature, and the inverse square of its typical size."""
    if isinstance(features, RestrictedFeatures):
        n_pairs = np.diff(features.indptr)
        unit = np.ones(len(n_pairs))
        unit[n_pairs > 0] = scale[features.indptr[:-1][n_pairs > 0]] ** -2.0
        return (features.indptr, features.label), n_pairs, unit
    nothing = np.empty(0, dtype=np.intc)
    return (nothing, nothing), features.shape[1], scale[:: features.shape[1]] ** -2.0
