"""Negative conditional log-likelihood of linear chains: coefficients -> scores -> value and gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_seqlab import _parallel
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives._chain_layout import ChainLayout
from sklearn_seqlab.objectives._chain_scores import ChainCoefficients
from sklearn_seqlab.objectives._penalties import ElasticNet
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, raise_if_forbidden, step_costs

__all__ = ["ChainLogLikelihood"]


@dataclass(frozen=True)
class _Chunk:
    """Whole sequences ``first:last`` at rows ``start:stop``, and what is known of their labels."""

    first: int
    last: int
    start: int
    stop: int
    offsets: np.ndarray
    known_rows: np.ndarray
    """Rows (within the chunk) of sequences whose labels are all known."""
    known_places: np.ndarray
    """Where those labels stand in the chunk's score array, flattened."""
    partial: np.ndarray
    """Sequences (within the chunk) of which something is known, but not every label."""
    partial_rows: np.ndarray
    partial_offsets: np.ndarray


class ChainLogLikelihood:
    """``C * sum_s weight_s * (log Z_s - log Z_s(labels that fit y_s))`` plus an elastic-net penalty.

    Parameters
    ----------
    batch : PackedBatch
    labels : LabelCodes
    weight : ndarray of shape (n_sequences,)
        Nonnegative. Sequences of weight zero, and those of which nothing is known, add nothing and are
        left out.
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
    order : ndarray of shape (n_features,), default=None
        See ``RestrictedFeatures``.
    cost : ndarray of shape (n_labels, n_labels), default=None
        ``cost[true, other]`` in nats is added to the scores inside log Z alone (softmax margin).
    n_jobs : int or None

    Raises
    ------
    ValueError
        If no sequence of positive weight has a label.
    InfeasibleSequenceError
        Also on evaluation, if labels contradict ``allowed_transitions``.

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
        order: np.ndarray | None = None,
        cost: np.ndarray | None = None,
        n_jobs: int | None = None,
    ):
        self._options = {
            "C": C,
            "l1_ratio": l1_ratio,
            "fit_intercept": fit_intercept,
            "start_end": start_end,
            "edge_columns": edge_columns,
            "allowed_transitions": allowed_transitions,
            "pairs": pairs,
            "cost": cost,
        }
        # the caller's numbers of the sequences that count, for messages
        kept = (weight > 0) & labels.is_informative()
        self._numbers, self._kept_rows = np.flatnonzero(kept), np.repeat(kept, batch.lengths)
        if not len(self._numbers):
            raise ValueError(
                "y holds no label where sample_weight (times class_weight) is positive: nothing to learn from."
            )
        if len(self._numbers) < batch.n_sequences:
            batch, labels, weight = (
                batch.take(self._numbers),
                labels.take(self._numbers),
                weight[self._numbers],
            )
        self.batch, self.labels, self.weight, self.C, self.n_jobs = batch, labels, weight, C, n_jobs
        self.n_labels = labels.n_labels
        self.cost = cost
        self.layout = ChainLayout(
            batch,
            self.n_labels,
            fit_intercept=fit_intercept,
            start_end=start_end,
            edge_columns=edge_columns,
            allowed_transitions=allowed_transitions,
            pairs=pairs,
            order=order,
        )
        self.n_coef = self.layout.n_coef
        self.split, self.join = self.layout.split, self.layout.join
        self.is_convex = bool((labels.codes >= 0).all())
        penalised = np.ones(self.n_coef)
        penalised[self.layout.cuts[-1] :] = 0.0
        self.penalty = ElasticNet(penalised, l1_ratio)
        self.l1 = self.penalty.l1

        bounds = _parallel.chunk_bounds(batch.offsets, self.layout.doubles_per_step)
        self.chunks = [self.chunk(*bound) for bound in bounds]
        work = self.layout.features.n_stored + self.batch.n_total * self.layout.doubles_per_step
        self.pieces = _parallel.pieces(self.chunks, work // (4 * max(self.n_coef, 1)))
        self._row_weight = self._weights_of_rows()
        self._known_moves = self._count_known_moves()
        self.size = C * float(self._row_weight.sum())
        self.scale = self._scale(edge_columns)
        self.preconditioner: np.ndarray | None = None

    def restricted_to(self, sequences: np.ndarray) -> ChainLogLikelihood:
        """The same objective over some of the sequences that count, for the same coefficients."""
        part = type(self)(
            self.batch.take(sequences),
            self.labels.take(sequences),
            weight=self.weight[sequences],
            order=self.layout.order,
            **self._options_of(sequences),
        )
        part._numbers = self._numbers[sequences]
        return part

    def first_hidden(self) -> tuple[int, int]:
        """Sequence, as the caller numbers them, and step of the first label that is not known."""
        row = int(np.argmin(self.labels.codes >= 0))
        s = int(np.searchsorted(self.batch.offsets, row, side="right")) - 1
        return int(self._numbers[s]), row - int(self.batch.offsets[s])

    def _options_of(self, sequences: np.ndarray) -> dict[str, Any]:
        return self._options

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of everything but the absolute values."""
        loss, gradient = self.data_value_and_gradient(coef)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.penalty.add_smooth(coef, loss, gradient), gradient

    def data_value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient without the penalty."""
        parts, features = self.layout.parts(coef), self.layout.features
        residual = None if features.by_rows else np.empty((self.batch.n_total, self.n_labels))
        with np.errstate(over="ignore", invalid="ignore"):  # the solver backs off from what is not finite
            results = self._run(lambda piece: self._piece_loss(piece, parts, residual), self.pieces)
            loss, edges, ends, found = results[0]
            for more_loss, more_edges, more_ends, more in results[1:]:
                loss, edges, ends = loss + more_loss, edges + more_edges, ends + more_ends
                if features.by_rows:
                    found += more
            gradient = np.empty(self.n_coef)
            node, moves, edge, start, end, intercept = np.split(gradient, self.layout.cuts)
            node[:] = found if features.by_rows else features.gradient(residual, self._run)
            loss -= float(parts.transition[self.layout.allowed_transitions] @ self._known_moves)
            moves[:] = edges[0] - self._known_moves
            edge[:] = edges[1:].T.ravel()
            for part, its_sum in zip((start, end, intercept), ends, strict=True):
                part[:] = its_sum[: len(part)]
            gradient *= self.C
            return self.C * loss, gradient

    def _piece_loss(
        self, chunks: list[_Chunk], parts: ChainCoefficients, all_residuals: np.ndarray | None
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray | None]:
        """Loss of some chunks, and sums of their residuals: of moves; of first, last and all steps; of features.

        What features weigh is left out where their gradient needs the residuals of all steps, which are then filled.
        """
        features, ends = self.layout.features, np.zeros((3, self.n_labels))
        edges = np.zeros((1 + self.layout.n_edge, self.layout.n_moves))
        loss, total = 0.0, features.new_sum() if features.by_rows else None
        for chunk in chunks:
            if all_residuals is None:
                residual = np.empty((chunk.stop - chunk.start, self.n_labels))
            else:
                residual = all_residuals[chunk.start : chunk.stop]
            more_loss, more_edges = self.chunk_loss(chunk, parts, residual)
            loss, edges = loss + more_loss, edges + more_edges
            ends += (
                residual[chunk.offsets[:-1]].sum(axis=0),
                residual[chunk.offsets[1:] - 1].sum(axis=0),
                residual.sum(axis=0),
            )
            if features.by_rows:
                features.add_rows(residual, chunk.start, total)
        return loss, edges, ends, features.sum_of(total) if features.by_rows else None

    def precondition(self, coef: np.ndarray) -> None:
        """Set ``preconditioner`` to what makes quasi-Newton methods fast near ``coef``.

        It is the geometric mean of the units of the features and of the roots of the curvatures along the axes. Units
        alone leave frequent features much steeper than rare ones, roots of curvatures make a wall of the penalty: on
        the chunks of CoNLL-2000 either takes about twice the iterations.
        """
        parts = self.layout.parts(coef)
        variance = np.empty((self.batch.n_total, self.n_labels))

        def moves_of(chunk: _Chunk) -> np.ndarray:
            chains = self.layout.chains(parts, chunk.first, chunk.last)
            weight = self.weight[chunk.first : chunk.last]
            _, node, edge = chains.forward_backward(weight)
            row_weight = self._row_weight[chunk.start : chunk.stop, None]
            variance[chunk.start : chunk.stop] = node * (1.0 - node / row_weight)
            return edge[self.layout.allowed_transitions]

        curvature = np.empty(self.n_coef)
        node, moves, _, start, end, intercept = np.split(curvature, self.layout.cuts)
        moves[:] = sum(self._run(moves_of, self.chunks))
        node[:] = self.layout.squared_features(self.batch.values).gradient(variance, self._run)
        if len(start):
            start[:] = variance[self.batch.offsets[:-1]].sum(axis=0)
            end[:] = variance[self.batch.offsets[1:] - 1].sum(axis=0)
        if len(intercept):
            intercept[:] = variance.sum(axis=0)
        curvature *= self.C
        curvature += (1.0 - self.penalty.l1_ratio) * self.penalty.penalised
        np.maximum(curvature, 1e-4 * self.scale**2, out=curvature)
        self.preconditioner = np.sqrt(self.scale * np.sqrt(curvature))

    def chunk_loss(
        self, chunk: _Chunk, parts: ChainCoefficients, residual: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Weighted loss of a chunk, and the residuals (model less data) that make its gradient.

        Parameters
        ----------
        chunk : _Chunk
        parts : ChainCoefficients
            As ``layout.parts`` makes them.
        residual : ndarray of shape (n_rows, n_labels)
            Written to: the residual of each label at each step.

        Returns
        -------
        loss : float
            Without the known moves of complete sequences where transitions are shared by all steps: these
            are counted once for all (``_known_moves``).
        edges : ndarray of shape (1 + n_edge_features, n_moves)
            Summed residuals of the allowed moves, and their products with the edge features.
        """
        chains = self.layout.chains(parts, chunk.first, chunk.last)
        weight = self.weight[chunk.first : chunk.last]

        loss, edge = self._free_part(chunk, chains, weight, residual)
        loss -= self._subtract_known(chunk, chains, residual, edge)
        if len(chunk.partial):
            loss -= self._subtract_partial(chunk, chains, weight[chunk.partial], residual, edge)

        if self.layout.edge_inputs is None:
            return loss, edge[self.layout.allowed_transitions][None]
        moves = edge[:, self.layout.allowed_transitions]
        edge_inputs = self.layout.edge_inputs[chunk.start : chunk.stop]
        return loss, np.vstack([moves.sum(axis=0), edge_inputs.T @ moves])

    def chunk(self, first: int, last: int) -> _Chunk:
        """What is known of sequences ``first:last``; any run of sequences can be evaluated by itself."""
        offsets = self.batch.offsets[first : last + 1] - self.batch.offsets[first]
        codes = self.labels.codes[self.batch.offsets[first] : self.batch.offsets[last]]
        complete = np.logical_and.reduceat(codes >= 0, offsets[:-1])
        partial = np.flatnonzero(~complete)
        rows = np.arange(offsets[-1])
        is_complete = np.repeat(complete, np.diff(offsets))
        return _Chunk(
            first=first,
            last=last,
            start=int(self.batch.offsets[first]),
            stop=int(self.batch.offsets[last]),
            offsets=offsets,
            known_rows=rows[is_complete],
            known_places=(rows * self.n_labels + codes)[is_complete],
            partial=partial,
            partial_rows=rows[~is_complete],
            partial_offsets=np.concatenate([[0], np.cumsum(np.diff(offsets)[partial])]).astype(np.intp),
        )

    def _free_part(
        self, chunk: _Chunk, chains: PackedChains, weight: np.ndarray, node: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """log Z over all labellings, with the costs worked in, and its marginals: those of labels in ``node``."""
        if self.cost is not None:
            raised = chains.unary + step_costs(self.labels, self.cost, chunk.start, chunk.stop)
            chains = PackedChains(raised, chains.transition, chains.offsets, chains.first)
        log_z, _, edge = chains.forward_backward(weight, node)
        self._raise_if_infeasible(chunk, log_z)
        return float(weight @ log_z), edge

    def _raise_if_infeasible(self, chunk: _Chunk, log_z: np.ndarray) -> None:
        if log_z.min() == -np.inf:
            s = self._numbers[chunk.first + int(np.argmin(log_z))]
            raise InfeasibleSequenceError(
                f"X[{s}] has no possible labelling: allowed_transitions lets no sequence of its length through."
            )

    def _subtract_known(
        self, chunk: _Chunk, chains: PackedChains, residual: np.ndarray, edge: np.ndarray
    ) -> float:
        """Score of the labels of complete sequences; takes them off the residuals, in place."""
        rows = chunk.known_rows
        weight = self._row_weight[chunk.start : chunk.stop]
        residual.reshape(-1)[chunk.known_places] -= weight[rows]
        score = float(weight[rows] @ chains.unary.reshape(-1)[chunk.known_places])
        if chains.transition.ndim == 3:
            codes = self.labels.codes[chunk.start : chunk.stop]
            into = np.setdiff1d(rows, chunk.offsets[:-1], assume_unique=True)
            moves = into, codes[into - 1], codes[into]
            edge[moves] -= weight[into]
            score += float(weight[into] @ chains.transition[moves])
        return score

    def _subtract_partial(
        self, chunk: _Chunk, chains: PackedChains, weight: np.ndarray, residual: np.ndarray, edge: np.ndarray
    ) -> float:
        """log Z over the labellings that fit partial labels; takes its marginals off, in place."""
        rows = chunk.partial_rows
        fits = self.labels.allowed(chunk.start, chunk.stop)[rows]
        unary = np.where(fits, chains.unary[rows], -np.inf)
        transition = chains.transition[rows] if chains.transition.ndim == 3 else chains.transition
        log_z, node, fit_edge = PackedChains(unary, transition, chunk.partial_offsets).forward_backward(
            weight
        )
        if log_z.min() == -np.inf:
            s = self._numbers[chunk.first + int(chunk.partial[np.argmin(log_z)])]
            raise InfeasibleSequenceError(
                f"The labels of y[{s}] fit no labelling: a move that they need is not in allowed_transitions."
            )
        residual[rows] -= node
        if transition.ndim == 3:
            edge[rows] -= fit_edge
        else:
            edge -= fit_edge
        return float(weight @ log_z)

    def _weights_of_rows(self) -> np.ndarray:
        return np.repeat(self.weight, self.batch.lengths)

    def _count_known_moves(self) -> np.ndarray:
        """Weighted moves of complete sequences; a forbidden one among them is an error of the data."""
        into = raise_if_forbidden(self.labels, self.layout.allowed_transitions, self._numbers)
        codes = self.labels.codes
        counts = np.zeros((self.n_labels, self.n_labels))
        if self.layout.edge_inputs is None:  # else they are counted step by step
            np.add.at(counts, (codes[into - 1], codes[into]), self._row_weight[into])
        return counts[self.layout.allowed_transitions]

    def _scale(self, edge_columns: np.ndarray | None) -> np.ndarray:
        """Unit of each coefficient: the root mean square of the nonzero values of its feature.

        Frequent and rare features get the same unit on purpose: the penalty then keeps its round shape, and
        the solver sees it plus a few directions of large curvature, which it learns fast. A feature of tiny
        values gets a larger unit, in which the curvature of the penalty is at most that of the data: in its
        own the penalty would be a wall that hides all other directions.
        """
        scale = self.layout.typical_sizes(self.batch.values, edge_columns)
        least = np.sqrt((1 - self.penalty.l1_ratio) * self.penalty.penalised / self.size)
        return np.maximum(np.hypot(scale, least), np.finfo(float).tiny ** 0.25)

    def _run(self, function: Any, tasks: Any) -> list[Any]:
        return _parallel.run(function, tasks, self.n_jobs)
