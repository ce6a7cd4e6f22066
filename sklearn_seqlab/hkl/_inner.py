"""The problems at fixed variances: half a weighted sum of squares, and a loss of the scores of distinct rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_seqlab.hkl._lattice import Nodes
from sklearn_seqlab.objectives import RowLikelihood
from sklearn_seqlab.solvers import GroupCuts, lbfgs

__all__ = ["InnerPoint", "LogProblem", "MarginCuts"]

# A search that stalled with a gap left goes on with a smaller tolerance, so often.
_MAX_SEARCHES = 4


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


class MarginCuts(GroupCuts):
    """Cutting planes of a mean slack, kept for all norms and all ``C``; see :class:`GroupCuts` for the parameters."""

    def solve(
        self, nodes: Nodes, active: np.ndarray, delta: np.ndarray, allowance: float, max_rounds: int = 1000
    ) -> InnerPoint:
        """Minimise ``1/2 sum f**2 / delta + 1/2 ||transition||**2 + C * mean slack``.

        Parameters
        ----------
        nodes : Nodes
        active : ndarray of shape (n_nodes, n_labels), dtype=bool
        delta : ndarray of shape (n_nodes, n_labels)
        allowance, max_rounds
            See :meth:`GroupCuts.minimise`.
        """
        node, label = np.nonzero(active & (delta > 0))
        root = np.sqrt(delta[node, label])
        f = np.zeros(active.shape)

        def lift(planes: np.ndarray) -> np.ndarray:
            """Planes as weights of the active nodes, times the root of the variance."""
            n_planes, n_rows, n_labels = planes.shape
            by_node = nodes.holds @ planes.transpose(1, 0, 2).reshape(n_rows, n_planes * n_labels)
            return by_node.reshape(nodes.n_nodes, n_planes, n_labels)[node, :, label].T * root

        def emission(weights: np.ndarray) -> np.ndarray:
            f[node, label] = root * weights
            return nodes.holds.T @ f

        found = self.minimise(lift, emission, allowance, max_rounds)
        f[node, label] = root * found.weights
        price = 0.5 * float((found.transition**2).sum())
        return InnerPoint(
            f, found.transition, found.loss, price, found.rows, found.transition, found.linear, True
        )


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
        if self.f is not None and len(self.f) <= len(delta):  # nodes that have come since stand behind
            before = np.zeros(delta.shape)
            before[: len(self.f)] = self.f
            first[:n] = before[objective.node, objective.label] / objective.root
        first[n:] = self.transition.ravel() * self.with_moves
        steepest = float(np.abs(objective.value_and_gradient(np.zeros(objective.n_coef))[1]).max())
        tol = np.sqrt(2.0 * allowance / objective.n_coef) / max(steepest, np.finfo(float).tiny)
        for _ in range(_MAX_SEARCHES):
            outcome = lbfgs(objective, first, max_iter=1000, tol=min(tol, 1e-2))
            if outcome.interrupted:
                raise KeyboardInterrupt
            first, tol = outcome.coef, 0.1 * tol
            # half the squared gradient is the duality gap of this problem
            if 0.5 * float(np.square(objective.value_and_gradient(first)[1]).sum()) <= allowance:
                break
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
