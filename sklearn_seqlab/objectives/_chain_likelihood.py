"""Negative conditional log-likelihood of linear chains: coefficients -> scores -> value and gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sklearn_seqlab import _parallel
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import chain
from sklearn_seqlab.objectives._linear import make_features
from sklearn_seqlab.objectives._penalties import ElasticNet
from sklearn_seqlab.sequences import LabelCodes, PackedBatch

__all__ = ["ChainCoefficients", "ChainLogLikelihood"]


_ROWS_AT_ONCE = 65_536


class ChainCoefficients(NamedTuple):
    """The coefficients of a chain in the shapes that users see.

    Attributes
    ----------
    node : ndarray or csr_array of shape (n_labels, n_features)
    transition : ndarray of shape (n_labels, n_labels)
        From row to column; minus infinity where forbidden.
    edge : ndarray of shape (n_labels, n_labels, n_edge_features)
        What an edge feature at step ``t`` adds to the move into ``t``.
    start, end, intercept : ndarray of shape (n_labels,)
    """

    node: Any
    transition: np.ndarray
    edge: np.ndarray
    start: np.ndarray
    end: np.ndarray
    intercept: np.ndarray


@dataclass(frozen=True)
class _Chunk:
    """Whole sequences ``first:last`` at rows ``start:stop``, and what is known of their labels."""

    first: int
    start: int
    stop: int
    offsets: np.ndarray
    known_rows: np.ndarray
    """Rows (within the chunk) of sequences whose labels are all known."""
    partial: np.ndarray
    """Sequences (within the chunk) with something known, but not every label."""
    partial_rows: np.ndarray
    partial_offsets: np.ndarray


class ChainLogLikelihood:
    """``C * sum_s weight_s * (log Z_s - log Z_s(labels that fit y_s))`` plus an elastic-net penalty.

    Parameters
    ----------
    batch : PackedBatch
    labels : LabelCodes
        Sequences of which nothing is known add nothing and are skipped.
    weight : ndarray of shape (n_sequences,)
        Nonnegative.
    C : float
        Inverse strength of the penalty.
    l1_ratio : float
    fit_intercept, start_end : bool
        Whether labels have a free intercept, and (penalised) weights at the first and last step.
    edge_columns : ndarray of int or None
        Columns of the features that also score moves: their value at step ``t`` the move into ``t``.
    allowed_transitions : ndarray of bool of shape (n_labels, n_labels)
    pairs : csr_array of shape (n_features, n_labels), default=None
        The (feature, label) pairs that have a weight; None for all.
    cost : ndarray of shape (n_labels, n_labels), default=None
        ``cost[true, other]`` in nats is added to the scores inside log Z alone (softmax margin).
    n_jobs : int or None

    Notes
    -----
    An evaluation takes O(stored features * n_labels + n_total * n_labels**2) time, and one array
    (n_total, n_labels) of residuals beside the data. With every label known the objective is convex.

    Derived in ``spec`` "chain models" 3; with a cost, Gimpel and Smith, "Softmax-margin CRFs", NAACL 2010.
    """

    def __init__(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        *,
        weight: np.ndarray,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        start_end: bool = True,
        edge_columns: np.ndarray | None = None,
        allowed_transitions: np.ndarray,
        pairs: Any = None,
        cost: np.ndarray | None = None,
        n_jobs: int | None = None,
    ):
        self.batch, self.labels, self.C, self.n_jobs = batch, labels, C, n_jobs
        self.n_labels = labels.n_labels
        self.allowed_transitions = allowed_transitions
        self.weight = np.where(labels.is_informative(), weight, 0.0)
        self.cost = (
            None if cost is None else np.vstack([cost, np.zeros(self.n_labels)])
        )  # last: no label known
        self.features = make_features(batch.values, self.n_labels, pairs)
        self._edge_columns = edge_columns
        self.edge_features = None if edge_columns is None else batch.values[:, edge_columns]
        n_edge_features = 0 if edge_columns is None else len(edge_columns)

        n_moves = int(allowed_transitions.sum())
        sizes = [
            self.features.n_coef,
            n_moves,
            n_moves * n_edge_features,
            *[self.n_labels if start_end else 0] * 2,
            self.n_labels if fit_intercept else 0,
        ]
        self._cuts = np.cumsum(sizes)[:-1]
        self.n_coef = sum(sizes)
        penalised = np.ones(self.n_coef)
        penalised[self._cuts[-1] :] = 0.0
        self.penalty = ElasticNet(penalised, l1_ratio)
        self.l1 = self.penalty.l1
        per_step = self.n_labels if self.edge_features is None else self.n_labels**2
        self.chunks = [self._chunk(*bound) for bound in _parallel.chunk_bounds(batch.offsets, per_step)]
        self._row_weight = np.repeat(self.weight, batch.lengths)
        self._count_known_moves()
        self.scale = self._scale()
        self._residual = np.empty((batch.n_total, self.n_labels))

    def split(self, coef: np.ndarray) -> ChainCoefficients:
        """Cut a coefficient vector into the shapes that users see."""
        node, moves, edge, start, end, intercept = np.split(coef, self._cuts)
        transition = np.full((self.n_labels, self.n_labels), -np.inf)
        transition[self.allowed_transitions] = moves
        n_edge_features = len(edge) // max(1, len(moves))
        per_move = np.zeros((self.n_labels, self.n_labels, n_edge_features))
        per_move[self.allowed_transitions] = edge.reshape(len(moves), n_edge_features)
        ends = [part if len(part) else np.zeros(self.n_labels) for part in (start, end, intercept)]
        return ChainCoefficients(self.features.matrix(node), transition, per_move, *ends)

    def join(self, parts: ChainCoefficients) -> np.ndarray:
        """The inverse of ``split``; what this objective has no coefficient for is dropped."""
        sizes = np.diff([*self._cuts, self.n_coef])[2:]
        moves = parts.transition[self.allowed_transitions]
        edge = parts.edge[self.allowed_transitions].ravel()
        ends = [part[:size] for part, size in zip(parts[3:], sizes, strict=True)]
        vector = np.concatenate([self.features.vector(parts.node), moves, edge, *ends])
        return np.where(np.isfinite(vector), vector, 0.0)

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of everything but the absolute values."""
        node, moves, edge, start, end, intercept = np.split(coef, self._cuts)
        transition = np.full((self.n_labels, self.n_labels), -np.inf)
        transition[self.allowed_transitions] = moves
        edge = edge.reshape(len(moves), -1) if len(edge) else None

        def work(chunk: _Chunk) -> tuple[float, np.ndarray]:
            scores = self._chunk_scores(chunk, node, start, end, intercept)
            return self._chunk_loss(chunk, scores, self._chunk_transition(chunk, transition, edge))

        parts = self._run(work, self.chunks)
        loss = sum(part[0] for part in parts)
        gradient = np.empty(self.n_coef)
        into = np.split(gradient, self._cuts)
        into[0][:] = self.features.gradient(self._residual, self._run)
        edges = parts[0][1]
        for part in parts[1:]:
            edges += part[1]
        loss -= float(moves @ self._known_moves)
        into[1][:] = edges[0] - self._known_moves
        into[2][:] = edges[1:].T.ravel()
        if len(start):
            into[3][:] = self._residual[self.batch.offsets[:-1]].sum(axis=0)
            into[4][:] = self._residual[self.batch.offsets[1:] - 1].sum(axis=0)
        if len(intercept):
            into[5][:] = self._residual.sum(axis=0)
        gradient *= self.C
        return self.penalty.add_smooth(coef, self.C * loss, gradient), gradient

    def _chunk_scores(self, chunk, node, start, end, intercept) -> np.ndarray:
        scores = self.features.scores(node, chunk.start, chunk.stop)
        if len(intercept):
            scores += intercept
        if len(start):
            chain.fold(scores, chunk.offsets, start, end)
        return scores

    def _chunk_transition(self, chunk, transition, edge) -> np.ndarray:
        """The shared transition scores, or with edge features those of every step of the chunk."""
        if edge is None:
            return transition
        per_step = np.broadcast_to(transition, (chunk.stop - chunk.start, *transition.shape)).copy()
        per_step[:, self.allowed_transitions] += self.edge_features[chunk.start : chunk.stop] @ edge.T
        return per_step

    def _chunk_loss(self, chunk: _Chunk, scores, transition) -> tuple[float, np.ndarray]:
        """Weighted loss of a chunk, without the known moves of complete sequences under shared transitions.

        Writes the residuals (model less data) of its rows. Returns also the edge residuals of the allowed
        moves, (1 + n_edge_features, n_moves): their sum, then their products with the edge features.
        """
        residual = self._residual[chunk.start : chunk.stop]
        weight = self.weight[chunk.first : chunk.first + len(chunk.offsets) - 1]
        row_weight = self._row_weight[chunk.start : chunk.stop]
        codes = self.labels.codes[chunk.start : chunk.stop]
        rows, known = chunk.known_rows, codes[chunk.known_rows]

        augmented = scores if self.cost is None else scores + self._chunk_cost(chunk)
        log_z, residual[:], edge = chain.forward_backward(augmented, transition, chunk.offsets, weight)
        chain.raise_if_infeasible(log_z, augmented, transition, chunk.offsets, chunk.first)
        loss = float(weight @ log_z)

        loss -= float(row_weight[rows] @ scores[rows, known])
        residual[rows, known] -= row_weight[rows]
        if transition.ndim == 3 and len(rows):
            moves = rows[~np.isin(rows, chunk.offsets[:-1])]
            before, after = codes[moves - 1], codes[moves]
            loss -= float(row_weight[moves] @ transition[moves, before, after])
            edge[moves, before, after] -= row_weight[moves]

        if len(chunk.partial):
            at = chunk.partial_rows
            fits = self._chunk_fits(chunk)
            narrowed = np.where(fits, scores[at], -np.inf)
            moves = transition[at] if transition.ndim == 3 else transition
            log_z, node, edge_fit = chain.forward_backward(
                narrowed, moves, chunk.partial_offsets, weight[chunk.partial]
            )
            if log_z.min() == -np.inf:
                failed = chunk.first + int(chunk.partial[np.argmin(log_z)])
                raise InfeasibleSequenceError(
                    f"The labels of y[{failed}] fit no labelling: a transition that they need is not allowed."
                )
            loss -= float(weight[chunk.partial] @ log_z)
            residual[at] -= node
            if transition.ndim == 3:
                edge[at] -= edge_fit
            else:
                edge -= edge_fit
        if transition.ndim == 2:
            return loss, edge[self.allowed_transitions][None]
        moves = edge[:, self.allowed_transitions]
        by_feature = self.edge_features[chunk.start : chunk.stop].T @ moves
        return loss, np.vstack([moves.sum(axis=0), by_feature])

    def _chunk_cost(self, chunk: _Chunk) -> np.ndarray:
        """What is added to each score inside log Z: the least cost over the labels that a step may have."""
        assert self.cost is not None
        codes = self.labels.codes[chunk.start : chunk.stop]
        cost = self.cost[np.where(codes >= 0, codes, -1)]
        rows = self.labels.candidate_rows
        for k in range(*np.searchsorted(rows, [chunk.start, chunk.stop])):
            cost[rows[k] - chunk.start] = self.cost[:-1][self.labels.candidate_masks[k]].min(axis=0)
        return cost

    def _chunk_fits(self, chunk: _Chunk) -> np.ndarray:
        return self.labels.allowed(chunk.start, chunk.stop)[chunk.partial_rows]

    def _chunk(self, first: int, last: int) -> _Chunk:
        offsets = self.batch.offsets[first : last + 1] - self.batch.offsets[first]
        complete = self.labels.is_complete()[first:last]
        partial = np.flatnonzero(self.labels.is_informative()[first:last] & ~complete)
        rows = np.arange(offsets[-1])
        of_sequence = np.repeat(np.arange(last - first), np.diff(offsets))
        return _Chunk(
            first=first,
            start=int(self.batch.offsets[first]),
            stop=int(self.batch.offsets[last]),
            offsets=offsets,
            known_rows=rows[complete[of_sequence]],
            partial=partial,
            partial_rows=rows[np.isin(of_sequence, partial)],
            partial_offsets=np.concatenate([[0], np.cumsum(np.diff(offsets)[partial])]).astype(np.intp),
        )

    def _count_known_moves(self) -> None:
        """Weighted moves of complete sequences; a forbidden one among them is an error of the data."""
        codes, offsets = self.labels.codes, self.batch.offsets
        complete = np.repeat(self.labels.is_complete(), self.batch.lengths)
        into = complete.copy()
        into[offsets[:-1]] = False
        into = np.flatnonzero(into)
        forbidden = ~self.allowed_transitions[codes[into - 1], codes[into]]
        if forbidden.any():
            row = int(into[np.argmax(forbidden)])
            s = int(np.searchsorted(offsets, row, side="right")) - 1
            raise InfeasibleSequenceError(
                f"y[{s}] moves from label {codes[row - 1]} to label {codes[row]} of classes_ at time step "
                f"{row - offsets[s]}, which allowed_transitions forbids."
            )
        counts = np.zeros((self.n_labels, self.n_labels))
        if self.edge_features is None:  # else they are counted step by step
            np.add.at(counts, (codes[into - 1], codes[into]), self._row_weight[into])
        self._known_moves = counts[self.allowed_transitions]

    def _scale(self) -> np.ndarray:
        """Unit of each coefficient: the root mean square of the nonzero values of its feature.

        Frequent and rare features get the same unit on purpose: the penalty then keeps its round shape, and
        the solver sees it plus a few directions of large curvature, which it learns fast.
        """
        feature_scale = _root_mean_squares(self.batch.values)
        node, moves, edge, start, end, intercept = np.split(np.ones(self.n_coef), self._cuts)
        node[:] = self.features.repeat(feature_scale)
        if len(edge):
            edge[:] = np.tile(feature_scale[self._edge_columns], len(moves))
        return np.concatenate([node, moves, edge, start, end, intercept])

    def _run(self, function: Any, tasks: Any) -> list[Any]:
        return _parallel.run(function, tasks, self.n_jobs)


def _root_mean_squares(values: Any) -> np.ndarray:
    """Root mean square of the nonzero values of each column; 1 for a column of zeros."""
    if sparse.issparse(values):
        count = np.bincount(values.indices[values.data != 0], minlength=values.shape[1])
        columns, stored = values.indices, values.data
        largest = np.zeros(values.shape[1])
        np.maximum.at(largest, columns, np.abs(stored))
        largest[largest == 0] = 1.0
        squares = np.bincount(columns, weights=(stored / largest[columns]) ** 2, minlength=values.shape[1])
    else:
        count = np.count_nonzero(values, axis=0)
        largest = np.abs(values).max(axis=0)
        largest[largest == 0] = 1.0
        squares = np.zeros(values.shape[1])
        for start in range(0, len(values), _ROWS_AT_ONCE):
            squares += np.square(values[start : start + _ROWS_AT_ONCE] / largest).sum(axis=0)
    # divided by the largest value first: squares of 1e200 or of 1e-200 would leave the double range
    return np.where(count > 0, largest * np.sqrt(squares / np.maximum(count, 1)), 1.0)
