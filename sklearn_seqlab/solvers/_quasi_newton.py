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
        Stop when no entry of the scaled gradient exceeds ``tol`` times the largest one at zero, or when ten
        iterations lowered the objective by less than ``tol / 10`` of it and the gradient is small too (a
        thousandth of that at zero, or a hundred times ``tol``).
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
    Wolfe conditions, so the curvature pairs are positive without damping.
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
        slope = self.pseudo_gradient(point, gradient)
        reference = self.steepness_at_zero(point, slope)
        bound = max(self.tol * reference, 1e-14 * self.objective.size)
        near = max(100 * self.tol, 1e-3) * reference
        if not (np.isfinite(value) and np.isfinite(slope).all() and np.isfinite(reference)):
            raise ValueError(
                "The objective is not finite at the starting point: features, weights or C are beyond what "
                "double precision holds. Scale the features (StandardScaler)."
            )
        outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
        stalled_at = 0
        try:
            while True:
                self.callback(outcome.n_iter, value)
                slope = self.pseudo_gradient(point, gradient)
                steepness = np.abs(slope).max()
                stalled = self.has_stalled(outcome.history[stalled_at:])
                if steepness <= bound:
                    outcome.converged, outcome.message = True, "the gradient vanished"
                elif stalled and steepness <= near:
                    outcome.converged, outcome.message = True, "the objective no longer decreased"
                elif stalled and stalled_at:
                    outcome.message = "the objective no longer decreased, but its gradient did not vanish"
                elif outcome.n_iter >= self.max_iter:
                    outcome.message = "max_iter was reached"
                if outcome.message:
                    break
                if stalled:  # far from an optimum: forget the quadratic model, and try once more
                    stalled_at = len(outcome.history) - 1
                    self.pairs.clear()
                direction = self.direction(slope)
                found = self.search(point, value, gradient, slope, direction)
                if found is None and self.pairs:
                    self.pairs.clear()  # the quadratic model misled: once more along the gradient
                    direction = self.direction(slope)
                    found = self.search(point, value, gradient, slope, direction)
                if found is None:
                    # rounding, if what is left of the gradient is
                    outcome.converged = bool(steepness <= 1e-6 * self.objective.size)
                    outcome.message = "no step lowered the objective any further"
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

    def steepness_at_zero(self, point: np.ndarray, slope: np.ndarray) -> float:
        """Largest entry of the gradient at zero, what small is measured against, also for a warm start."""
        if point.any():
            origin = np.zeros_like(point)
            slope = self.pseudo_gradient(origin, self.evaluate(origin)[1])
        return float(np.abs(slope).max())

    def evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.objective.value_and_gradient(point * self.unit)
        return value, gradient * self.unit

    def pseudo_gradient(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The subgradient of least norm of the whole objective."""
        return gradient

    def direction(self, slope: np.ndarray) -> np.ndarray:
        """Two-loop recursion: minus the quasi-Newton inverse Hessian times the gradient."""
        direction = -slope
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

    def search(self, point, value, gradient, slope, direction):
        """A step that satisfies the weak Wolfe conditions, by bisection and interpolation; None if none."""
        decline = direction @ gradient
        if not decline < 0:
            return None
        low, high, step = 0.0, np.inf, self.first_step(slope)
        best = None
        for _ in range(_MAX_SEARCH):
            candidate = point + step * direction
            new_value, new_gradient = self.evaluate(candidate)
            if not new_value <= value + _ARMIJO * step * decline:
                high = step
                # minimum of the parabola through value, decline and the new value, kept off the ends
                curve = new_value - value - step * decline
                guess = -decline * step * step / (2 * curve) if np.isfinite(curve) and curve > 0 else 0.0
                step = np.clip(guess, low + 0.1 * (high - low), low + 0.5 * (high - low))
                continue
            best = candidate, new_value, new_gradient
            if new_gradient @ direction >= _WOLFE * decline:
                return best
            low = step
            step = 2 * step if high == np.inf else 0.5 * (low + high)
        return best

    def first_step(self, slope: np.ndarray) -> float:
        """Length one where the model has curvature pairs, else a step of at most unit norm."""
        return 1.0 if self.pairs else min(1.0, 1.0 / float(np.linalg.norm(slope)))

    def has_stalled(self, history: list[float]) -> bool:
        if len(history) <= _PERIOD:
            return False
        return history[-1 - _PERIOD] - history[-1] <= 0.1 * self.tol * abs(history[-1])


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

    def pseudo_gradient(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(point == 0, at_zero, gradient + self.l1 * np.sign(point))

    def direction(self, slope: np.ndarray) -> np.ndarray:
        direction = super().direction(slope)
        direction[direction * slope >= 0] = 0.0
        return direction

    def search(self, point, value, gradient, slope, direction):
        """Backtracking along the projection of the ray on the orthant of the point."""
        orthant = np.where(point == 0, -np.sign(slope), np.sign(point))
        step = self.first_step(slope)
        if not direction.any():
            return None
        for _ in range(_MAX_SEARCH):
            candidate = point + step * direction
            candidate[candidate * orthant < 0] = 0.0
            new_value, new_gradient = self.evaluate(candidate)
            if new_value <= value + _ARMIJO * (slope @ (candidate - point)) and new_value < value:
                return candidate, new_value, new_gradient
            step *= 0.5
        return None
