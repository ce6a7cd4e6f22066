"""Quasi-Newton steps for objectives with absolute values, one orthant of signs at a time.

After OWL-QN (Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007) with the
direction of Schmidt ("Graphical model structure learning with L1-regularization", thesis, 2010, the
projected scaled sub-gradient of Gafni-Bertsekas type): coefficients that are not zero take the quasi-Newton
step of their own subspace, those at zero a scaled step along the pseudo-gradient, and the sum is projected
on the orthant. OWL-QN takes the quasi-Newton step of all coefficients and drops what disagrees in sign with
the gradient; where coefficients are strongly coupled that is most of the step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sklearn_seqlab.solvers._lbfgs import QuasiNewton
from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome

__all__ = ["owlqn"]

_ARMIJO = 1e-4
_MAX_SEARCH = 40


def owlqn(
    objective: Objective,
    start: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    callback: Callable[[int, float], None] | None = None,
    watch: Callable[[np.ndarray], bool] | None = None,
) -> SolverOutcome:
    """Minimise a smooth objective plus weighted absolute values; arguments as in :func:`lbfgs`.

    The pseudo-gradient, of least norm among the subgradients, takes the place of the gradient in the
    stopping rule: it is zero exactly where the Karush-Kuhn-Tucker conditions hold.
    """
    return _OrthantQuasiNewton(objective).run(start, max_iter, tol, callback, watch)


class _OrthantQuasiNewton(QuasiNewton):
    def __init__(self, objective: Objective):
        super().__init__(objective)
        assert objective.l1 is not None
        self.l1 = objective.l1 * self.unit

    def run(self, *arguments) -> SolverOutcome:
        outcome = super().run(*arguments)
        outcome.coef += 0.0  # -0.0 is not a number to show
        return outcome

    def evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = super().evaluate(point)
        return value + float(self.l1 @ np.abs(point)), gradient

    def slope(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(point == 0, at_zero, gradient + self.l1 * np.sign(point))

    def search(
        self, point: np.ndarray, value: float, gradient: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Backtracking along the projection of a ray on the orthant of the point."""
        slope = self.slope(point, gradient)
        working = (point != 0) | (self.l1 == 0)
        direction = self.direction(slope, working)
        if not direction @ slope < 0:
            return None
        orthant = np.where(point == 0, -np.sign(slope), np.sign(point))
        free = self.l1 == 0
        step = self.first_step(slope)
        for _ in range(_MAX_SEARCH):
            candidate = point + step * direction
            candidate[(candidate * orthant < 0) & ~free] = 0.0
            new_value, new_gradient = self.evaluate(candidate)
            decline = float(slope @ (candidate - point))
            if new_value <= value + _ARMIJO * decline and new_value < value:
                return candidate, new_value, new_gradient
            step *= self.shrinkage(value, decline, new_value)
        return None

    @staticmethod
    def shrinkage(value: float, decline: float, new_value: float) -> float:
        """Minimum of the parabola through value, decline and the new value, as a share of the step."""
        curve = new_value - value - decline
        guess = -decline / (2 * curve) if np.isfinite(curve) and curve > 0 else 0.0
        return float(np.clip(guess, 0.1, 0.5))
