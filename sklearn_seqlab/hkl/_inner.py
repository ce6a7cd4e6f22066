"""The problems at fixed variances: half a weighted sum of squares, and a loss of the scores of distinct rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_seqlab.hkl._lattice import Nodes
from sklearn_seqlab.objectives import RowLikelihood, RowMargin
from sklearn_seqlab.solvers import lbfgs, simplex_qp

__all__ = ["InnerPoint", "LogProblem", "MarginCuts"]

# Rounds after which a plane without a multiplier is dropped.
_N_IDLE = 8


class InnerPoint(NamedTuple):
    """A point, and what its residuals say about the dual.

    Attributes
    ----------
    f : ndarray of shape (n_nodes, n_labels)
    transition : ndarray of shape (n_labels, n_labels)
    loss : float
        ``C`` times the mean loss, or an upper bound of it.
    price_of_moves : float
        Half the squared norm of ``transition``, where it has one.
    rows : ndarray of shape (n_rows, n_labels)
        Residuals: minus a subgradient of the loss with respect to the scores of rows.
    moves : ndarray of shape (n_labels, n_labels)
    linear : float
        The dual objective is this less half the squared dual norms of the residuals.
    may_shrink : bool
        Whether the residuals may be multiplied by a factor below one, and ``linear`` with them.
    """

    f: np.ndarray
    transition: np.ndarray
    loss: float
    price_of_moves: float
    rows: np.ndarray
    moves: np.ndarray
    linear: float
    may_shrink: bool


class MarginCuts:
    """Cutting planes of a mean slack. They depend on neither the norm nor ``C`` and are kept for all of them.

    Parameters
    ----------
    margin : RowMargin
    with_moves : bool
        Whether moves have weights.
    max_planes : int
        When there are more, those without a multiplier go.
    """

    def __init__(self, margin: RowMargin, *, with_moves: bool = True, max_planes: int = 2000):
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

    def solve(
        self, nodes: Nodes, active: np.ndarray, delta: np.ndarray, allowance: float, max_rounds: int = 1000
    ) -> InnerPoint:
        """Minimise ``1/2 sum f**2 / delta + 1/2 ||transition||**2 + C * mean slack``.

        Parameters
        ----------
        nodes : Nodes
        active : ndarray of shape (n_nodes, n_labels), dtype=bool
        delta : ndarray of shape (n_nodes, n_labels)
        allowance : float
            Stop where no plane that is missing would raise ``C`` times the mean slack by more.

        Notes
        -----
        A round solves the quadratic programme over the planes exactly, asks for the most violated plane of each group
        of sequences and adds those that are violated more than the planes that are there.
        """
        node, label = np.nonzero(active & (delta > 0))
        root = np.sqrt(delta[node, label])
        n_labels = self.shape[1]

        def projected(rows: np.ndarray) -> np.ndarray:
            """Planes as weights of the active nodes, times the root of the variance."""
            n_planes, n_rows = len(rows), self.shape[0]
            tables = rows.reshape(n_planes, n_rows, n_labels).transpose(1, 0, 2)
            by_node = nodes.holds @ tables.reshape(n_rows, n_planes * n_labels)
            by_node = by_node.reshape(nodes.n_nodes, n_planes, n_labels)
            return by_node[node, :, label].T * root

        lifted = projected(self.rows)
        gram = lifted @ lifted.T + self.moves @ self.moves.T
        f = np.zeros((nodes.n_nodes, n_labels))
        caps = np.full(self.margin.n_groups, self.C)
        for _ in range(max_rounds):
            a = self.multiplier
            if len(a):
                a = self.multiplier = simplex_qp(gram, self.offset, self.group, caps, a)
            used = np.flatnonzero(a)
            f[node, label] = root * (a[used] @ lifted[used])
            transition = (a[used] @ self.moves[used]).reshape(n_labels, n_labels)
            found = self.margin.planes(nodes.holds.T @ f, transition)
            self.n_oracle_calls += self.margin.sequences.n_sequences
            known = np.zeros(len(caps))
            np.maximum.at(known, self.group, self.offset - gram[:, used] @ a[used])
            excess = found.slack - known
            if self.C * float(np.maximum(excess, 0.0).sum()) <= allowance:
                break
            new = np.flatnonzero(excess > 1e-13 * (1.0 + found.slack))
            if not len(new):
                break
            rows, moves = found.rows[new], found.moves[new] * self.with_moves
            more = projected(rows)
            cross = lifted @ more.T + self.moves @ moves.T
            gram = np.block([[gram, cross], [cross.T, more @ more.T + moves @ moves.T]])
            lifted = np.concatenate([lifted, more])
            self._add(rows, moves, found.offset[new], new)
        residual = (self.multiplier[used] @ self.rows[used]).reshape(self.shape)
        linear = float(a @ self.offset[: len(a)])
        price = 0.5 * float((transition**2).sum())
        return InnerPoint(f, transition, self.C * found.bound, price, residual, transition, linear, True)

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


class LogProblem:
    """The same with a log-likelihood in place of slacks, by L-BFGS on the scaled weights.

    Parameters
    ----------
    likelihood : RowLikelihood
    with_moves : bool
    """

    def __init__(self, likelihood: RowLikelihood, *, with_moves: bool = True):
        self.likelihood, self.with_moves = likelihood, with_moves
        self.C = 0.0
        self.n_planes = self.n_oracle_calls = 0
        self.transition = np.zeros((likelihood.sequences.n_labels,) * 2)
        self.f: np.ndarray | None = None

    def scale_to(self, C: float) -> None:
        self.C = C

    def drop_idle(self) -> None:
        """Nothing is kept."""

    def solve(self, nodes: Nodes, active: np.ndarray, delta: np.ndarray, allowance: float) -> InnerPoint:
        """Minimise ``1/2 sum f**2 / delta + 1/2 ||transition||**2 + C * mean loss``; see :class:`MarginCuts`."""
        objective = _Scaled(self, nodes, active, delta)
        first = np.zeros(objective.n_coef)
        n = len(objective.root)
        if self.f is not None and self.f.shape == delta.shape:
            first[:n] = self.f[objective.node, objective.label] / objective.root
        first[n:] = self.transition.ravel() * self.with_moves
        outcome = lbfgs(objective, first, max_iter=1000, tol=allowance / objective.size)
        if outcome.interrupted:
            raise KeyboardInterrupt
        f, transition = objective.split(outcome.coef)
        value, rows, moves = self.likelihood.value_and_gradient(nodes.holds.T @ f, transition)
        self.n_oracle_calls += objective.n_calls * self.likelihood.sequences.n_sequences
        self.f, self.transition = f, transition
        rows, moves = -self.C * rows, -self.C * moves * self.with_moves
        inner = float((nodes.holds @ rows * f)[active].sum() + (moves * transition).sum())
        price = 0.5 * float((transition**2).sum())
        return InnerPoint(f, transition, self.C * value, price, rows, moves, inner + self.C * value, False)


class _Scaled:
    """Objective of a solver: weights divided by the roots of their variances, then moves."""

    l1: np.ndarray | None = None

    def __init__(self, problem: LogProblem, nodes: Nodes, active: np.ndarray, delta: np.ndarray):
        self.problem, self.nodes, self.shape = problem, nodes, delta.shape
        self.node, self.label = np.nonzero(active & (delta > 0))
        self.root = np.sqrt(delta[self.node, self.label])
        self.n_coef = len(self.root) + delta.shape[1] ** 2
        self.scale = np.ones(self.n_coef)
        self.size = max(problem.C, np.finfo(float).tiny)
        self.n_calls = 0

    def split(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f, n_labels = np.zeros(self.shape), self.shape[1]
        f[self.node, self.label] = self.root * coef[: len(self.root)]
        return f, coef[len(self.root) :].reshape(n_labels, n_labels) * self.problem.with_moves

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        self.n_calls += 1
        f, transition = self.split(coef)
        C = self.problem.C
        value, rows, moves = self.problem.likelihood.value_and_gradient(self.nodes.holds.T @ f, transition)
        slope = (self.nodes.holds @ rows)[self.node, self.label] * self.root
        gradient = coef + C * np.concatenate([slope, moves.ravel() * self.problem.with_moves])
        return 0.5 * float(coef @ coef) + C * value, gradient
