"""Loss of the marginals of linear chains: minus the log-probability of each known label by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood, _Chunk
from sklearn_seqlab.objectives._chain_scores import ChainCoefficients
from sklearn_seqlab.sequences import LabelCodes, PackedBatch

__all__ = ["ChainMarginalLikelihood"]


class ChainMarginalLikelihood(ChainLogLikelihood):
    """``-C * sum_t weight_t * log P(label of step t fits y | X)`` plus an elastic-net penalty.

    Parameters
    ----------
    batch, labels, weight
        As those of :class:`ChainLogLikelihood`.
    step_weight : ndarray of shape (n_total,)
        Multiplies the weight of the sequence at each step.
    **options
        The others of :class:`ChainLogLikelihood`, but no ``cost``.

    Raises
    ------
    InfeasibleSequenceError
        If ``allowed_transitions`` make a label impossible at its step.

    Notes
    -----
    Not convex. An evaluation takes O(stored features * n_labels + n_total * n_labels**2), about twice the time of the
    likelihood of whole sequences. The derivative of a log-marginal by a score is the expectation of its feature given
    the label less that of the model; summed over steps, the expectation of the feature times a sum over the steps.

    Kakade, Teh and Roweis, "An alternate objective function for Markovian fields", ICML 2002.
    """

    def __init__(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        *,
        weight: np.ndarray,
        step_weight: np.ndarray,
        **options: Any,
    ):
        step_weight = np.where(labels.says_something(), step_weight, 0.0)
        self._step_weight = np.repeat(weight, batch.lengths) * step_weight
        total = np.add.reduceat(self._step_weight, batch.offsets[:-1])
        super().__init__(batch, labels, weight=np.where(total > 0, weight, 0.0), **options)
        self.is_convex = False
        self._raise_if_impossible()

    def _options_of(self, sequences: np.ndarray) -> dict[str, Any]:
        rows = np.isin(np.repeat(np.arange(self.batch.n_sequences), self.batch.lengths), sequences)
        own = self._row_weight[rows] / np.repeat(self.weight[sequences], self.batch.lengths[sequences])
        return {name: value for name, value in self._options.items() if name != "cost"} | {"step_weight": own}

    def _weights_of_rows(self) -> np.ndarray:
        return self._step_weight[self._kept_rows]

    def chunk_loss(
        self, chunk: _Chunk, parts: ChainCoefficients, residual: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Weighted loss of a chunk, and the derivatives by its scores; see the base class."""
        chains = self.layout.chains(parts, chunk.first, chunk.last)
        fits = self.labels.allowed(chunk.start, chunk.stop)
        weight = self._row_weight[chunk.start : chunk.stop]
        found: list[np.ndarray] = []

        def gain_of(node: np.ndarray) -> np.ndarray:
            right, wrong = (np.where(which, node, 0.0).sum(axis=1) for which in (fits, ~fits))
            # a logarithm of nearly one by what is missing
            with np.errstate(divide="ignore"):
                loss = np.where(wrong < 0.5, -np.log1p(-wrong), -np.log(right))
            found.append(np.where(weight > 0, loss, 0.0))
            return fits * np.where(right > 0, weight / np.where(right > 0, right, 1.0), 0.0)[:, None]

        log_z, node, tilted, edge, tilted_edge = chains.tilted_marginals(gain_of)
        self._raise_if_infeasible(chunk, log_z)
        total = np.add.reduceat(weight, chunk.offsets[:-1])
        lengths = np.diff(chunk.offsets)
        residual[:] = np.repeat(total, lengths)[:, None] * node - tilted
        per_step = chains.transition.ndim == 3
        moves = (np.repeat(total, lengths) if per_step else total)[:, None, None] * edge - tilted_edge
        moves = moves[:, self.layout.allowed_transitions]
        edges = moves.sum(axis=0)[None]
        if self.layout.edge_inputs is not None:
            edges = np.vstack([edges, self.layout.edge_inputs[chunk.start : chunk.stop].T @ moves])
        return float(weight @ found[0]), edges

    def _count_known_moves(self) -> np.ndarray:
        return np.zeros(self.layout.n_moves)

    def _raise_if_impossible(self) -> None:
        """Refuse labels that no path reaches, and which no weights could make probable."""
        transition = np.where(self.layout.allowed_transitions, 0.0, -np.inf)
        for chunk in self.chunks:
            unary = np.zeros((chunk.stop - chunk.start, self.n_labels))
            log_z, node, _ = PackedChains(unary, transition, chunk.offsets, chunk.first).forward_backward()
            self._raise_if_infeasible(chunk, log_z)
            possible = (self.labels.allowed(chunk.start, chunk.stop) & (node > 0)).any(axis=1)
            if not possible.all():
                row = int(np.argmin(possible))
                s = int(np.searchsorted(chunk.offsets, row, side="right")) - 1
                raise InfeasibleSequenceError(
                    f"y[{self._numbers[chunk.first + s]}][{row - chunk.offsets[s]}] fits no labelling: "
                    "allowed_transitions lets no path through it."
                )
