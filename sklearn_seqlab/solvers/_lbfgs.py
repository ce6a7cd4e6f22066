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

Callback = Callable[[int, float], None]
Watch = Callable[[np.ndarray], bool]


def lbfgs(
    objective: Objective,
    start: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    callback: Callback | None = None,
    watch: Watch | None = None,
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
    watch : callable, default=None
        Called with the coefficients at the start and after each iteration; ends the run where it returns True.

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
    return QuasiNewton(objective).run(start, max_iter, tol, callback, watch)


class QuasiNewton:
    """The loop, and the limited-memory model of the smooth part; ``owlqn`` changes slope and search."""

    def __init__(self, objective: Objective):
        self.objective = objective
        preconditioner = getattr(objective, "preconditioner", None)
        self.unit = 1 / (objective.scale if preconditioner is None else preconditioner)
        # gradients are judged in the objective's own scale, whatever the steps are taken in
        self.judged = 1.0 if preconditioner is None else preconditioner / objective.scale
        self.pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=count_pairs(objective.n_coef))

    def run(
        self,
        start: np.ndarray,
        max_iter: int,
        tol: float,
        callback: Callback | None,
        watch: Watch | None = None,
    ) -> SolverOutcome:
        callback = callback or (lambda iteration, value: None)
        point = start / self.unit
        value, gradient = self.evaluate(point)
        origin = np.zeros_like(point)
        at_origin = self.evaluate(origin)[1] if point.any() else gradient
        steepest = self.steepness(origin, at_origin)
        check_start(value, steepest)
        rule = StoppingRule(self.objective, steepest, tol, max_iter)
        outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
        try:
            while True:
                callback(outcome.n_iter, value)
                if watch is not None and watch(outcome.coef):
                    outcome.converged, outcome.message = True, "held-out sequences got no better"
                    break
                steepness = self.steepness(point, gradient)
                if rule.judge(outcome, steepness):
                    break
                if rule.has_stalled(outcome):  # far from an optimum: forget the quadratic model, try again
                    rule.forgive_stall(outcome)
                    self.pairs.clear()
                found = self.search(point, value, gradient)
                if found is None and self.pairs:
                    self.pairs.clear()  # the quadratic model misled: once more along the gradient
                    found = self.search(point, value, gradient)
                if found is None:
                    rule.give_up(outcome, steepness)
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

    def steepness(self, point: np.ndarray, gradient: np.ndarray) -> float:
        return float(np.abs(self.slope(point, gradient) * self.judged).max())

    def slope(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The subgradient of least norm."""
        return gradient

    def direction(self, slope: np.ndarray, working: np.ndarray | None = None) -> np.ndarray:
        """Two-loop recursion: minus the quasi-Newton inverse Hessian times the slope.

        With ``working``, a bool mask, the model is that of its subspace, and the others get a scaled slope.
        """
        pairs = list(self.pairs)
        if working is not None:
            kept = [(step * working, change * working) for step, change, _ in pairs]
            pairs = [(s, y, s @ y) for s, y in kept if s @ y > 1e-10 * (y @ y)]
        direction = -slope
        if working is not None:
            direction *= working
        shares = []
        for step, change, curvature in reversed(pairs):
            share = (step @ direction) / curvature
            direction -= share * change
            shares.append(share)
        scale = 1.0
        if pairs:
            _, change, curvature = pairs[-1]
            scale = curvature / (change @ change)
        direction *= scale
        for (step, change, curvature), share in zip(pairs, reversed(shares), strict=True):
            direction += (share - (change @ direction) / curvature) * step
        return direction if working is None else np.where(working, direction, -scale * slope)

    def first_step(self, slope: np.ndarray) -> float:
        """Length one where the model has curvature pairs, else a step of at most unit norm."""
        return 1.0 if self.pairs else min(1.0, 1.0 / float(np.linalg.norm(slope)))

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
        step = self.first_step(gradient)
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
