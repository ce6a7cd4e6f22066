"""Cutting planes of groups of sequences that are tables over rows, whatever rows are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sklearn_seqlab.objectives import GroupPlanes
from sklearn_seqlab.solvers._simplex_qp import simplex_qp

__all__ = ["CutSolution", "GroupCuts"]

# Rounds after which a plane without a multiplier is dropped.
_N_IDLE = 8


class CutSolution(NamedTuple):
    """Minimum over the planes that are there, and what is known beyond them.

    Attributes
    ----------
    weights : ndarray of shape (n_weights,)
    transition : ndarray of shape (n_labels, n_labels)
    loss : float
        ``C`` times an upper bound of the mean slack.
    rows : ndarray of shape (n_rows, n_labels)
        Planes times multipliers.
    linear : float
        Offsets times multipliers.
    """

    weights: np.ndarray
    transition: np.ndarray
    loss: float
    rows: np.ndarray
    linear: float


class GroupCuts:
    """Minimises ``1/2 ||weights||**2 + 1/2 ||transition||**2 + C * mean slack`` for weights of features of rows.

    Planes depend on neither the features nor ``C`` and are kept when those change.

    Parameters
    ----------
    margin : RowMargin
        Or what has ``planes``, ``n_groups`` and ``sequences`` like it.
    with_moves : bool, default=True
        Whether moves have weights.
    max_planes : int, default=2000
        When there are more, those without a multiplier go.

    Attributes
    ----------
    n_oracle_calls : int
        Sequences searched.
    """

    def __init__(self, margin: Any, *, with_moves: bool = True, max_planes: int = 2000):
        self.margin, self.with_moves, self.max_planes = margin, with_moves, max_planes
        data = margin.sequences
        self.shape = data.n_rows, data.n_labels
        self.rows = np.empty((0, data.n_rows * data.n_labels))
        self.moves = np.empty((0, data.n_labels**2))
        self.offset, self.multiplier = np.empty(0), np.empty(0)
        self.group, self.idle = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        self.C = 0.0
        self.n_oracle_calls = 0

    @property
    def n_planes(self) -> int:
        return len(self.offset)

    def scale_to(self, C: float) -> None:
        """Make the multipliers those of another ``C``."""
        if self.C:
            self.multiplier *= C / self.C
        self.C = C

    def minimise(
        self,
        lift: Callable[[np.ndarray], np.ndarray],
        emission: Callable[[np.ndarray], np.ndarray],
        allowance: float,
        max_rounds: int = 1000,
        watch: Callable[[CutSolution], bool] | None = None,
    ) -> CutSolution:
        """Find the weights.

        Parameters
        ----------
        lift : callable
            Planes (n_planes, n_rows, n_labels) to (n_planes, n_weights): the features of rows, transposed.
        emission : callable
            Weights to scores (n_rows, n_labels).
        allowance : float
            Stop where no plane that is missing would raise ``C`` times the mean slack by more.
        max_rounds : int, default=1000
        watch : callable, default=None
            Sees the solution of every round, and says whether to stop.

        Notes
        -----
        A round solves the quadratic programme over the planes exactly, asks for the most violated plane of each group
        of sequences and adds those that are violated more than the planes that are there.
        """
        n_labels = self.shape[1]
        lifted = lift(self.rows.reshape(len(self.rows), *self.shape))
        gram = lifted @ lifted.T + self.moves @ self.moves.T
        caps = np.full(self.margin.n_groups, self.C)
        for _ in range(max_rounds):
            if self.n_planes:
                self.multiplier = simplex_qp(gram, self.offset, self.group, caps, self.multiplier)
            a, used = self.multiplier, np.flatnonzero(self.multiplier)
            weights = a[used] @ lifted[used]
            transition = (a[used] @ self.moves[used]).reshape(n_labels, n_labels)
            found: GroupPlanes = self.margin.planes(emission(weights), transition)
            self.n_oracle_calls += self.margin.sequences.n_sequences
            residual = (a[used] @ self.rows[used]).reshape(self.shape)
            linear = float(a[used] @ self.offset[used])
            solution = CutSolution(weights, transition, self.C * found.bound, residual, linear)
            if watch is not None and watch(solution):
                break
            known = np.zeros(len(caps))
            np.maximum.at(known, self.group, self.offset - gram[:, used] @ a[used])
            excess = found.slack - known
            new = np.flatnonzero(excess > 1e-13 * (1.0 + found.slack))
            if self.C * float(np.maximum(excess, 0.0).sum()) <= allowance or not len(new):
                break
            rows, moves = found.rows[new], found.moves[new] * self.with_moves
            more = lift(rows.reshape(len(rows), *self.shape))
            cross = lifted @ more.T + self.moves @ moves.T
            gram = np.block([[gram, cross], [cross.T, more @ more.T + moves @ moves.T]])
            lifted = np.concatenate([lifted, more])
            self._add(rows, moves, found.offset[new], new)
        return solution

    def _add(self, rows: np.ndarray, moves: np.ndarray, offset: np.ndarray, group: np.ndarray) -> None:
        self.rows, self.moves = np.concatenate([self.rows, rows]), np.concatenate([self.moves, moves])
        self.offset = np.concatenate([self.offset, offset])
        self.group = np.concatenate([self.group, group])
        none = np.zeros(len(group))
        self.multiplier = np.concatenate([self.multiplier, none])
        self.idle = np.concatenate([self.idle, none.astype(np.intp)])

    def drop_idle(self) -> None:
        """Forget planes without a multiplier for a while, or all of those if there are too many."""
        self.idle = np.where(self.multiplier > 0, 0, self.idle + 1)
        kept = self.idle < (_N_IDLE if self.n_planes <= self.max_planes else 1)
        self.rows, self.moves, self.offset = self.rows[kept], self.moves[kept], self.offset[kept]
        self.multiplier, self.group, self.idle = self.multiplier[kept], self.group[kept], self.idle[kept]
