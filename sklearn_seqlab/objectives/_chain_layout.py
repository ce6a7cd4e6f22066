"""Where the coefficients of a linear chain stand in one vector, and the chains that they score."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives._chain_scores import ChainCoefficients, assemble_chains
from sklearn_seqlab.objectives._linear import make_features, typical_sizes
from sklearn_seqlab.sequences import PackedBatch, blocks

__all__ = ["ChainLayout"]


class ChainLayout:
    """One coefficient vector for all weights of a linear chain over a batch.

    Parameters
    ----------
    batch : PackedBatch
    n_labels : int
    fit_intercept, start_end : bool
        Whether labels have an intercept, and weights at the first and last step.
    edge_columns : ndarray of int or None
        Columns of the features that also score moves: their value at step ``t`` the move into ``t``.
    allowed_transitions : ndarray of bool of shape (n_labels, n_labels)
        Moves that have a weight; all others are forbidden.
    pairs : csr_array of shape (n_features, n_labels), default=None
        The (feature, label) pairs that have a weight; None for all.
    order : ndarray of shape (n_features,), default=None
        See ``RestrictedFeatures``.
    intercept_scaling : float, default=1.0
        The constant input that an intercept's coefficient multiplies: the larger, the less a penalty on coefficients
        holds the intercept.

    Attributes
    ----------
    n_coef : int
    cuts : ndarray of shape (5,)
        Where the vector is cut into node, transition, edge, start, end and intercept weights.
    """

    def __init__(
        self,
        batch: PackedBatch,
        n_labels: int,
        *,
        fit_intercept: bool,
        start_end: bool,
        edge_columns: np.ndarray | None,
        allowed_transitions: np.ndarray,
        pairs: Any = None,
        order: np.ndarray | None = None,
        intercept_scaling: float = 1.0,
    ):
        self.intercept_scaling = intercept_scaling
        self.offsets, self.n_labels = batch.offsets, n_labels
        self.allowed_transitions = allowed_transitions
        self.features, self._pairs = (
            make_features(batch.values, n_labels, pairs, order, batch.is_mapped),
            pairs,
        )
        self.edge_inputs = None if edge_columns is None else batch.values[:, edge_columns]
        self.n_edge = 0 if edge_columns is None else len(edge_columns)
        self.n_moves = int(allowed_transitions.sum())
        n_ends, n_intercepts = n_labels * start_end, n_labels * fit_intercept
        sizes = [
            self.features.n_coef, self.n_moves, self.n_moves * self.n_edge, n_ends, n_ends, n_intercepts
        ]  # fmt: skip
        self.cuts = np.cumsum(sizes)[:-1]
        self.n_coef = sum(sizes)

    @property
    def order(self) -> np.ndarray | None:
        """In which the features' coefficients stand where only some pairs have one."""
        return None if self._pairs is None else self.features.order

    @property
    def doubles_per_step(self) -> int:
        """Size of the scores of one step, by which batches are cut into chunks."""
        return self.n_labels if self.edge_inputs is None else self.n_labels**2

    def parts(self, coef: np.ndarray) -> ChainCoefficients:
        """The parts of a coefficient vector, ``node`` as the features' ``scores`` takes it."""
        node, moves, edge, start, end, intercept = np.split(coef, self.cuts)
        transition = np.full((self.n_labels, self.n_labels), -np.inf)
        transition[self.allowed_transitions] = moves
        per_move = np.zeros((self.n_labels, self.n_labels, self.n_edge))
        per_move[self.allowed_transitions] = edge.reshape(len(moves), self.n_edge)
        absent = np.zeros(self.n_labels)
        intercept = self.intercept_scaling * intercept
        ends = [part if len(part) else absent for part in (start, end, intercept)]
        return ChainCoefficients(self.features.weights(node), transition, per_move, *ends)

    def split(self, coef: np.ndarray) -> ChainCoefficients:
        """Cut a coefficient vector into the shapes that users see."""
        return self.parts(coef)._replace(node=self.features.matrix(coef[: self.cuts[0]]))

    def join(self, parts: ChainCoefficients) -> np.ndarray:
        """The inverse of ``split``; what this layout has no coefficient for is dropped."""
        _, _, _, start, end, intercept = np.split(np.empty(self.n_coef), self.cuts)
        vector = np.concatenate(
            [
                self.features.vector(parts.node),
                parts.transition[self.allowed_transitions],
                parts.edge[self.allowed_transitions].ravel(),
                parts.start[: len(start)],
                parts.end[: len(end)],
                parts.intercept[: len(intercept)] / self.intercept_scaling,
            ]
        )
        return np.where(np.isfinite(vector), vector, 0.0)

    def squared_features(self, values: Any) -> Any:
        """The layout for the squares of the features."""
        stored = values.data if sparse.issparse(values) else values
        if all((block * block == block).all() for block in map(stored.__getitem__, blocks(len(stored)))):
            return self.features
        squares = values.power(2) if sparse.issparse(values) else np.square(values)
        return make_features(squares, self.n_labels, self._pairs, self.order)

    def typical_sizes(self, values: Any, edge_columns: np.ndarray | None) -> np.ndarray:
        """Root mean square of the nonzero values that each coefficient multiplies; 1 for moves and ends."""
        sizes = typical_sizes(values)
        node, _, edge, _, _, intercept = np.split(scale := np.ones(self.n_coef), self.cuts)
        node[:] = self.features.repeat(sizes)
        if edge_columns is not None:
            edge[:] = np.tile(sizes[edge_columns], self.n_moves)
        intercept[:] = self.intercept_scaling
        return scale

    def chains(self, parts: ChainCoefficients, first: int, last: int) -> PackedChains:
        """The chains of sequences ``first:last``, for coefficients that ``parts`` has made."""
        start, stop = int(self.offsets[first]), int(self.offsets[last])
        edge_inputs = None if self.edge_inputs is None else self.edge_inputs[start:stop]
        unary = self.features.scores(parts.node, start, stop)
        return assemble_chains(unary, edge_inputs, parts, self.offsets[first : last + 1] - start, first)
