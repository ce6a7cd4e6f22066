"""L-BFGS for smooth objectives, on scaled variables ``u = scale * coef``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome
from sklearn_seqlab.solvers._stopping import StoppingRule, check_start, count_pairs

__all__ = ["lbfgs"]

_ARMIJO = 1e-4
_WOLFE = 0.9
_MAX_SEARCH = 40


def lbfgs(
    objective: Objective,
    start: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    callback: Callable[[int, float], None] | None = None,
) -> SolverOutcome:
    """Minimise a smooth objective.

    Parameters
    ----------
    objective : Objective
        With ``l1`` None.
    start : ndarray of shape (n_coef,)
    max_iter : int, default=1000
    tol : float, default=1e-4
        See :class:`StoppingRule`.
    callback : callable, default=None
        Called with the iteration and the objective.

    Returns
    -------
    outcome : SolverOutcome

    Raises
    ------
    ValueError
        If the objective is not finite at the start.

    Notes
    -----
    Memory of 20 vectors beside the objective's own (up to 200 for small problems). Steps satisfy the weak
    Wolfe conditions, so the curvature pairs are positive without damping. Nocedal and Wright, "Numerical
    Optimization", 2006, chapter 7.
    """
    return _Lbfgs(objective).run(start, max_iter, tol, callback or (lambda iteration, value: None))


class _Lbfgs:
    def __init__(self, objective: Objective):
        self.objective = objective
        self.unit = 1 / objective.scale
        self.pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=count_pairs(objective.n_coef))

    def run(self, start: np.ndarray, max_iter: int, tol: float, callback) -> SolverOutcome:
        point = start / self.unit
        value, gradient = self.evaluate(point)
        steepest = np.abs(gradient).max()
        if point.any():
            steepest = np.abs(self.evaluate(np.zeros_like(point))[1]).max()
        check_start(value, steepest)
        rule = StoppingRule(self.objective, steepest, tol, max_iter)
        outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
        try:
            while True:
                callback(outcome.n_iter, value)
                if rule.judge(outcome, np.abs(gradient).max()):
                    break
                if rule.has_stalled(outcome):  # far from an optimum: forget the quadratic model, try again
                    rule.forgive_stall(outcome)
                    self.pairs.clear()
                found = self.search(point, value, gradient)
                if found is None and self.pairs:
                    self.pairs.clear()  # the quadratic model misled: once more along the gradient
                    found = self.search(point, value, gradient)
                if found is None:
                    rule.give_up(outcome, np.abs(gradient).max())
                    break
                new_point, new_value, new_gradient = found
                self.remember(new_point - point, new_gradient - gradient)
                point, value, gradient = new_point, new_value, new_gradient
                outcome.n_iter += 1
                outcome.coef, outcome.value = point * self.unit, value
                outcome.history.append(value)
        except KeyboardInterrupt:
            outcome.interrupted, outcome.message = True, "interrupted"
        return outcome

    def evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.objective.value_and_gradient(point * self.unit)
        return value, gradient * self.unit

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """Two-loop recursion: minus the quasi-Newton inverse Hessian times the gradient."""
        direction = -gradient
        shares = []
        for step, change, curvature in reversed(self.pairs):
            share = (step @ direction) / curvature
            direction -= share * change
            shares.append(share)
        if self.pairs:
            _, change, curvature = self.pairs[-1]
            direction *= curvature / (change @ change)
        for (step, change, curvature), share in zip(self.pairs, reversed(shares), strict=True):
            direction += (share - (change @ direction) / curvature) * step
        return direction

    def remember(self, step: np.ndarray, change: np.ndarray) -> None:
        curvature = step @ change
        if curvature > 1e-10 * (change @ change):
            self.pairs.append((step, change, curvature))

    def search(
        self, point: np.ndarray, value: float, gradient: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """A step that satisfies the weak Wolfe conditions, by bisection and interpolation; None if none."""
        direction = self.direction(gradient)
        decline = direction @ gradient
        if not decline < 0:
            return None
        # length one where the model has curvature pairs, else a step of at most unit norm
        step = 1.0 if self.pairs else min(1.0, 1.0 / float(np.linalg.norm(gradient)))
        low, high = 0.0, np.inf
        best = None
        for _ in range(_MAX_SEARCH):
            candidate = point + step * direction
            new_value, new_gradient = self.evaluate(candidate)
            if not new_value <= value + _ARMIJO * step * decline:
                high = step
                # minimum of the parabola through value, decline and the new value, kept off the ends
                curve = new_value - value - step * decline
                guess = -decline * step * step / (2 * curve) if np.isfinite(curve) and curve > 0 else 0.0
                step = float(np.clip(guess, low + 0.1 * (high - low), low + 0.5 * (high - low)))
                continue
            best = candidate, new_value, new_gradient
            if new_gradient @ direction >= _WOLFE * decline:
                return best
            low = step
            step = 2 * step if high == np.inf else 0.5 * (low + high)
        return best
