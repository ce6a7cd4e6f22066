"""L-BFGS, and OWL-QN where absolute values are penalised.

Both work on scaled variables ``u = scale * coef``: features of any unit look alike to the solver.

OWL-QN follows Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007: the same
quasi-Newton model of the smooth part, with the gradient replaced by the pseudo-gradient and steps kept in
one orthant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome

__all__ = ["lbfgs", "owlqn"]

# Pairs kept: as many as 2**20 numbers hold. Small problems with strongly coupled coefficients (long segments
# of one label) need several times fewer iterations with a hundred pairs than with ten.
_FEWEST_PAIRS, _MOST_PAIRS, _PAIR_BUDGET = 10, 100, 2**20
_PERIOD = 10
_ARMIJO = 1e-4
_WOLFE = 0.9
_MAX_SEARCH = 40

Callback = Callable[[int, float], None]


def lbfgs(
    objective: Objective,
    start: np.ndarray,
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    callback: Callback | None = None,
) -> SolverOutcome:
    """Minimise a smooth objective.

    Parameters
    ----------
    objective : Objective
        With ``l1`` None.
    start : ndarray of shape (n_coef,)
    max_iter : int, default=200
    tol : float, default=1e-4
        Stop when no entry of the scaled gradient exceeds ``tol`` times the larger of one and its largest
        entry at the start, or when ten iterations lowered the objective by less than ``tol / 10`` of it.
    callback : callable, default=None
        Called with the iteration and the objective.

    Returns
    -------
    outcome : SolverOutcome

    Notes
    -----
    Memory of 20 vectors beside the objective's own (up to 200 for small problems). Steps satisfy the weak Wolfe conditions, so the
    curvature pairs are positive without damping.
    """
    return _Minimiser(objective, max_iter, tol, callback).run(start)


def owlqn(
    objective: Objective,
    start: np.ndarray,
    *,
    max_iter: int = 200,
    tol: float = 1e-4,
    callback: Callback | None = None,
) -> SolverOutcome:
    """Minimise a smooth objective plus weighted absolute values; arguments as in :func:`lbfgs`.

    The pseudo-gradient, of least norm among the subgradients, takes the place of the gradient in the
    stopping rule: it is zero exactly where the Karush-Kuhn-Tucker conditions hold.
    """
    return _OrthantMinimiser(objective, max_iter, tol, callback).run(start)


class _Minimiser:
    """The loop; what differs between the two solvers is in the small methods below it."""

    def __init__(self, objective: Objective, max_iter: int, tol: float, callback: Callback | None):
        self.objective = objective
        self.max_iter, self.tol = max_iter, tol
        self.callback = callback or (lambda iteration, value: None)
        self.unit = 1 / objective.scale
        n_pairs = min(max(_PAIR_BUDGET // max(1, objective.n_coef), _FEWEST_PAIRS), _MOST_PAIRS)
        self.pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=n_pairs)

    def run(self, start: np.ndarray) -> SolverOutcome:
        point = start / self.unit
        value, gradient = self.evaluate(point)
        outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
        if not np.isfinite(value):
            outcome.message = "the objective is not finite at the starting point"
            return outcome
        bound = self.tol * max(1.0, np.abs(self.steepest(point, gradient)).max())
        try:
            while True:
                self.callback(outcome.n_iter, value)
                descent = self.steepest(point, gradient)
                if np.abs(descent).max() <= bound:
                    outcome.converged, outcome.message = True, "the gradient vanished"
                elif self.has_stalled(outcome.history):
                    outcome.converged, outcome.message = True, "the objective no longer decreased"
                elif outcome.n_iter >= self.max_iter:
                    outcome.message = "max_iter was reached"
                if outcome.message:
                    break
                direction = self.direction(descent)
                found = self.search(point, value, gradient, descent, direction)
                if found is None and self.pairs:
                    self.pairs.clear()  # the quadratic model misled: once more along the gradient
                    direction = self.direction(descent)
                    found = self.search(point, value, gradient, descent, direction)
                if found is None:
                    self.stop_without_decrease(outcome, descent, value)
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

    def steepest(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The direction of steepest ascent."""
        return gradient

    def direction(self, descent: np.ndarray) -> np.ndarray:
        """Two-loop recursion: minus the quasi-Newton inverse Hessian times the gradient."""
        direction = -descent
        steps = []
        for step, change, curvature in reversed(self.pairs):
            share = (step @ direction) / curvature
            direction -= share * change
            steps.append(share)
        if self.pairs:
            _, change, curvature = self.pairs[-1]
            direction *= curvature / (change @ change)
        for (step, change, curvature), share in zip(self.pairs, reversed(steps), strict=True):
            direction += (share - (change @ direction) / curvature) * step
        return direction

    def remember(self, step: np.ndarray, change: np.ndarray) -> None:
        curvature = step @ change
        if curvature > 1e-10 * (change @ change):
            self.pairs.append((step, change, curvature))

    def search(self, point, value, gradient, descent, direction):
        """A step that satisfies the weak Wolfe conditions, by bisection and interpolation; None if none."""
        slope = direction @ gradient
        if not slope < 0:
            return None
        low, high, step = 0.0, np.inf, self.first_step(descent)
        best = None
        for _ in range(_MAX_SEARCH):
            candidate = point + step * direction
            new_value, new_gradient = self.evaluate(candidate)
            if not new_value <= value + _ARMIJO * step * slope:
                high = step
                # minimum of the parabola through value, slope and the new value, kept off the ends
                curve = new_value - value - step * slope
                guess = -slope * step * step / (2 * curve) if np.isfinite(curve) and curve > 0 else 0.0
                step = np.clip(guess, low + 0.1 * (high - low), low + 0.5 * (high - low))
                continue
            best = candidate, new_value, new_gradient
            if new_gradient @ direction >= _WOLFE * slope:
                return best
            low = step
            step = 2 * step if high == np.inf else 0.5 * (low + high)
        return best

    def first_step(self, descent: np.ndarray) -> float:
        """Length one where the model has curvature pairs, else a step of at most unit norm."""
        return 1.0 if self.pairs else min(1.0, 1.0 / np.linalg.norm(descent))

    def has_stalled(self, history: list[float]) -> bool:
        if len(history) <= _PERIOD:
            return False
        return history[-1 - _PERIOD] - history[-1] <= 0.1 * self.tol * abs(history[-1])

    def stop_without_decrease(self, outcome: SolverOutcome, descent: np.ndarray, value: float) -> None:
        """No step lowers the objective: rounding, if the decrease still to be had is below it."""
        possible = 0.5 * (descent @ descent)
        outcome.converged = bool(possible <= 1e-6 * max(1.0, abs(value)))
        outcome.message = "no step lowered the objective any further"


class _OrthantMinimiser(_Minimiser):
    def __init__(self, objective: Objective, max_iter: int, tol: float, callback: Callback | None):
        super().__init__(objective, max_iter, tol, callback)
        assert objective.l1 is not None
        self.l1 = objective.l1 * self.unit

    def run(self, start: np.ndarray) -> SolverOutcome:
        outcome = super().run(start)
        outcome.coef += 0.0  # -0.0 is not a number to show
        return outcome

    def evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = super().evaluate(point)
        return value + self.l1 @ np.abs(point), gradient

    def steepest(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(point == 0, at_zero, gradient + self.l1 * np.sign(point))

    def direction(self, descent: np.ndarray) -> np.ndarray:
        direction = super().direction(descent)
        direction[direction * descent >= 0] = 0.0
        return direction

    def search(self, point, value, gradient, descent, direction):
        """Backtracking along the projection of the ray on the orthant of the point."""
        orthant = np.where(point == 0, -np.sign(descent), np.sign(point))
        step = self.first_step(descent)
        if not direction.any():
            return None
        for _ in range(_MAX_SEARCH):
            candidate = point + step * direction
            candidate[candidate * orthant < 0] = 0.0
            new_value, new_gradient = self.evaluate(candidate)
            if new_value <= value + _ARMIJO * (descent @ (candidate - point)) and new_value < value:
                return candidate, new_value, new_gradient
            step *= 0.5
        return None
