"""Cutting planes of groups of sequences that are tables over rows, whatever rows are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sklearn_seqlab.objectives import GroupPlanes
from sklearn_seqlab.solvers._simplex_qp import simplex_qp

__all__ = ["CutSolution", "GroupCuts"]

# A plane without a multiplier is dropped after so many problems, and within one after so many rounds.
_N_IDLE, _N_ROUNDS = 8, 40


class _Growing:
    """Rows that are appended to and taken out, in memory that grows by doubling."""

    def __init__(self, width: int):
        self.memory, self.n_rows = np.empty((16, width)), 0

    @property
    def rows(self) -> np.ndarray:
        return self.memory[: self.n_rows]

    def append(self, rows: np.ndarray) -> None:
        total = self.n_rows + len(rows)
        if total > len(self.memory):
            memory = np.empty((2 * total, self.memory.shape[1]))
            memory[: self.n_rows] = self.rows
            self.memory = memory
        self.memory[self.n_rows : total] = rows
        self.n_rows = total

    def keep(self, kept: np.ndarray) -> None:
        for place, k in enumerate(np.flatnonzero(kept)):  # in place: a row moves up, if at all
            if place != k:
                self.memory[place] = self.memory[k]
        self.n_rows = int(kept.sum())


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
        Or what has ``planes``, ``may_be_quick``, ``n_groups`` and ``sequences`` like it.
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
        self._rows = _Growing(data.n_rows * data.n_labels)
        self._moves = _Growing(data.n_labels**2)
        self.offset, self.multiplier = np.empty(0), np.empty(0)
        self.group, self.idle = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        self.C = 0.0
        self.n_oracle_calls = 0

    @property
    def n_planes(self) -> int:
        return len(self.offset)

    @property
    def rows(self) -> np.ndarray:
        """Planes as tables over rows, (n_planes, n_rows * n_labels)."""
        return self._rows.rows

    @property
    def moves(self) -> np.ndarray:
        """What planes say of moves, (n_planes, n_labels**2)."""
        return self._moves.rows

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
        of sequences and adds those that are violated more than the planes that are there. Where planes may be had
        quickly, they are, until no more of them are violated; unless someone watches, who judges every round.
        """
        n_labels = self.shape[1]
        first = lift(self.rows.reshape(self.n_planes, *self.shape))
        lifted = _Growing(first.shape[1])
        lifted.append(first)
        gram = first @ first.T + self.moves @ self.moves.T
        caps = np.full(self.margin.n_groups, self.C)
        rest = np.zeros(self.n_planes, dtype=np.intp)  # rounds without a multiplier
        haste = self.margin.may_be_quick and watch is None
        quick = haste
        for _ in range(max_rounds):
            if self.n_planes:
                self.multiplier = simplex_qp(gram, self.offset, self.group, caps, self.multiplier)
            used = np.flatnonzero(self.multiplier)
            a = self.multiplier[used]
            residual = (a @ self.rows[used]).reshape(self.shape)
            weights = lift(residual[None])[0]
            transition = (a @ self.moves[used]).reshape(n_labels, n_labels)
            asked = (emission(weights), transition, True) if quick else (emission(weights), transition)
            found: GroupPlanes = self.margin.planes(*asked)
            self.n_oracle_calls += self.margin.sequences.n_sequences
            linear = float(a @ self.offset[used])
            solution = CutSolution(weights, transition, self.C * found.bound, residual, linear)
            if watch is not None and watch(solution):
                break
            known = np.zeros(len(caps))
            np.maximum.at(known, self.group, self.offset - gram @ self.multiplier)
            excess = found.slack - known
            new = np.flatnonzero(excess > 1e-13 * (1.0 + found.slack))
            if self.C * float(np.maximum(excess, 0.0).sum()) <= allowance or not len(new):
                if not quick:
                    break
                quick = False  # the same problem once more, with care
                continue
            quick = haste
            rest = np.where(self.multiplier > 0, 0, rest + 1)
            if (rest >= 2 * _N_ROUNDS).any():  # many at a time, since what stays has to move
                kept = rest < _N_ROUNDS
                self._keep(kept)
                lifted.keep(kept)
                gram, rest = np.ascontiguousarray(gram[np.ix_(kept, kept)]), rest[kept]
            moves = found.moves[new] * self.with_moves
            more = lift(found.rows[new].reshape(len(new), *self.shape))
            cross = lifted.rows @ more.T + self.moves @ moves.T
            gram = np.block([[gram, cross], [cross.T, more @ more.T + moves @ moves.T]])
            lifted.append(more)
            self._add(found.rows[new], moves, found.offset[new], new)
            rest = np.append(rest, np.zeros(len(new), dtype=np.intp))
        return solution

    def _add(self, rows: np.ndarray, moves: np.ndarray, offset: np.ndarray, group: np.ndarray) -> None:
        self._rows.append(rows)
        self._moves.append(moves)
        self.offset = np.concatenate([self.offset, offset])
        self.group = np.concatenate([self.group, group])
        none = np.zeros(len(group))
        self.multiplier = np.concatenate([self.multiplier, none])
        self.idle = np.concatenate([self.idle, none.astype(np.intp)])

    def _keep(self, kept: np.ndarray) -> None:
        self._rows.keep(kept)
        self._moves.keep(kept)
        self.offset, self.multiplier = self.offset[kept], self.multiplier[kept]
        self.group, self.idle = self.group[kept], self.idle[kept]

    def drop_idle(self) -> None:
        """Forget planes without a multiplier for a while, or all of those if there are too many."""
        self.idle = np.where(self.multiplier > 0, 0, self.idle + 1)
        kept = self.idle < (_N_IDLE if self.n_planes <= self.max_planes else 1)
        if not kept.all():
            self._keep(kept)
