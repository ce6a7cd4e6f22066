"""When to stop: one rule for all solvers, and the same whatever the units of features, weights and ``C``."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome

__all__ = ["StoppingRule"]

_PERIOD = 10


class StoppingRule:
    """Judges an iterate by its (pseudo-)gradient in scaled variables, and by the progress made.

    Parameters
    ----------
    objective : Objective
    steepness_at_zero : float
        Largest entry of the gradient at zero: what small is measured against, also for a warm start.
    tol : float
        The gradient has vanished where no entry exceeds ``tol`` times that, and the last iteration lowered the
        objective by no more than ``10 * tol`` of it: with a large ``C``, data that can be told apart has a small
        gradient long before the penalty has its say. Or ten iterations lowered the objective by no more than
        ``tol / 10`` of it while the gradient is small too (a thousandth of that at zero, or ``10 * tol``); a stall
        with a larger gradient is no success.
    max_iter : int
    """

    def __init__(self, objective: Objective, steepness_at_zero: float, tol: float, max_iter: int):
        self.tol, self.max_iter = tol, max_iter
        self.bound = max(tol * steepness_at_zero, 1e-14 * objective.size)
        self.near = max(10 * tol, 1e-3) * steepness_at_zero
        self.rounding = 1e-6 * objective.size
        self.stalled_at = 0

    def judge(self, outcome: SolverOutcome, steepness: float) -> bool:
        """Whether to stop; says why in the outcome."""
        if steepness <= self.bound and not self.is_fast(outcome):
            outcome.converged, outcome.message = True, "the gradient vanished"
        elif self.has_stalled(outcome) and steepness <= self.near:
            outcome.converged, outcome.message = True, "the objective no longer decreased"
        elif self.has_stalled(outcome) and self.stalled_at:
            outcome.message = "the objective no longer decreased, but its gradient did not vanish"
        elif outcome.n_iter >= self.max_iter:
            outcome.message = "max_iter was reached"
        return bool(outcome.message)

    def is_fast(self, outcome: SolverOutcome) -> bool:
        """Whether the last iteration still lowered the objective by a share of it."""
        last = outcome.history[-2:]
        return len(last) == 2 and last[0] - last[1] > 10 * self.tol * abs(last[1])

    def has_stalled(self, outcome: SolverOutcome) -> bool:
        history = outcome.history[self.stalled_at :]
        if len(history) <= _PERIOD:
            return False
        return history[-1 - _PERIOD] - history[-1] <= 0.1 * self.tol * abs(history[-1])

    def forgive_stall(self, outcome: SolverOutcome) -> None:
        """Count progress from here: the next stall ends the run."""
        self.stalled_at = len(outcome.history) - 1

    def give_up(self, outcome: SolverOutcome, steepness: float) -> None:
        """No step lowers the objective any further: success if what is left of the gradient is rounding."""
        outcome.converged = bool(steepness <= self.rounding)
        outcome.message = "no step lowered the objective any further"


def check_start(value: float, steepness: float) -> None:
    """Refuse to start where the objective or its gradient is not finite."""
    with np.errstate(over="ignore"):
        square = np.square(steepness) * 1e12  # products of gradients must stay in range as well
    if not (np.isfinite(value) and np.isfinite(square)):
        raise ValueError(
            "The objective is not finite at the starting point: features, weights or the strength of the penalty are "
            "beyond what double precision holds. Scale the features (StandardScaler)."
        )


def count_pairs(n_variables: int) -> int:
    """How many curvature pairs a quasi-Newton method keeps: as many as 2**20 numbers hold, 10 to 100.

    Small problems with strongly coupled coefficients (long segments of one label) need several times fewer
    iterations with a hundred pairs than with ten.
    """
    return min(max(2**20 // max(1, n_variables), 10), 100)
