"""Quasi-Newton steps for objectives with absolute values, one orthant of signs at a time.

The problem is the one that OWL-QN solves (Andrew and Gao, "Scalable training of L1-regularized log-linear
models", ICML 2007). Each penalised coefficient is written as the difference of two parts that are not
negative, and SciPy's L-BFGS-B minimises over these: it finds which parts are zero together with the step,
where OWL-QN bends its direction afterwards. On van Kasteren's home it takes 250 iterations where OWL-QN has
not converged after 1,000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome
from sklearn_seqlab.solvers._stopping import StoppingRule, check_start, count_pairs

__all__ = ["owlqn"]


def owlqn(
    objective: Objective,
    start: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    callback: Callable[[int, float], None] | None = None,
) -> SolverOutcome:
    """Minimise a smooth objective plus weighted absolute values; arguments as in :func:`lbfgs`.

    The pseudo-gradient, of least norm among the subgradients, takes the place of the gradient in the
    stopping rule: it is zero exactly where the Karush-Kuhn-Tucker conditions hold.

    Notes
    -----
    Memory of about 40 vectors beside the objective's own (more for small problems).
    """
    return _SplitProblem(objective).run(start, max_iter, tol, callback or (lambda iteration, value: None))


class _SplitProblem:
    """The objective over ``parts``: what is positive of each coefficient, then what is negative."""

    def __init__(self, objective: Objective):
        assert objective.l1 is not None
        self.objective = objective
        self.unit = 1 / objective.scale
        self.l1 = objective.l1 * self.unit
        self.penalised = np.flatnonzero(self.l1 > 0)
        self.last: tuple[np.ndarray, float, np.ndarray] | None = None

    def run(self, start: np.ndarray, max_iter: int, tol: float, callback: Any) -> SolverOutcome:
        parts = self.split(start / self.unit)
        value, slope = self.at(parts)
        steepest = np.abs(slope).max()
        if parts.any():
            steepest = np.abs(self.at(np.zeros_like(parts))[1]).max()
        check_start(value, steepest)
        rule = StoppingRule(self.objective, steepest, tol, max_iter)
        outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
        callback(0, value)
        if rule.judge(outcome, np.abs(slope).max()):
            return outcome

        def after_iteration(parts: np.ndarray) -> None:
            value, slope = self.at(parts)
            if value < outcome.value:
                outcome.coef, outcome.value = self.join(parts) * self.unit, value
            outcome.n_iter += 1
            outcome.history.append(outcome.value)
            callback(outcome.n_iter, outcome.value)
            if rule.judge(outcome, np.abs(slope).max()):
                raise StopIteration
            if rule.has_stalled(outcome):
                rule.forgive_stall(outcome)

        n_free = len(self.l1)
        lower = np.where(self.l1 > 0, 0.0, -np.inf)
        bounds = np.column_stack([lower, np.full(n_free, np.inf)])
        bounds = np.vstack([bounds, np.tile([0.0, np.inf], (len(self.penalised), 1))])
        options = {
            "maxcor": count_pairs(len(parts)),
            "maxiter": max_iter + 1,
            "maxfun": 100 * (max_iter + 1),
            "ftol": 0.0,
            "gtol": 0.0,
        }
        try:
            minimize(
                self.value_and_gradient, parts, jac=True, method="L-BFGS-B", bounds=bounds,
                callback=after_iteration, options=options,
            )  # fmt: skip
            if not outcome.message:  # the line search found nothing
                rule.give_up(outcome, np.abs(self.at(self.split(outcome.coef / self.unit))[1]).max())
        except KeyboardInterrupt:
            outcome.interrupted, outcome.message = True, "interrupted"
        return outcome

    def split(self, point: np.ndarray) -> np.ndarray:
        positive = np.where(self.l1 > 0, np.maximum(point, 0.0), point)
        return np.concatenate([positive, np.maximum(-point[self.penalised], 0.0)])

    def join(self, parts: np.ndarray) -> np.ndarray:
        point = parts[: len(self.l1)].copy()
        point[self.penalised] -= parts[len(self.l1) :]
        return point

    def value_and_gradient(self, parts: np.ndarray) -> tuple[float, np.ndarray]:
        """What L-BFGS-B sees: both parts are charged, so that at an optimum one of them is zero."""
        value, gradient = self.objective.value_and_gradient(self.join(parts) * self.unit)
        gradient = gradient * self.unit
        self.last = parts.copy(), value, gradient
        charge = self.l1 @ np.where(self.l1 > 0, parts[: len(self.l1)], 0.0)
        charge += self.l1[self.penalised] @ parts[len(self.l1) :]
        negative = self.l1[self.penalised] - gradient[self.penalised]
        return value + charge, np.concatenate([gradient + self.l1, negative])

    def at(self, parts: np.ndarray) -> tuple[float, np.ndarray]:
        """The true objective of some parts, and its pseudo-gradient."""
        if self.last is None or not np.array_equal(self.last[0], parts):
            self.value_and_gradient(parts)
        assert self.last is not None
        _, value, gradient = self.last
        point = self.join(parts)
        at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        slope = np.where(point == 0, at_zero, gradient + self.l1 * np.sign(point))
        return value + float(self.l1 @ np.abs(point)), slope
