"""Passes of steps along an average of remembered gradients, until the gradient vanishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome
from sklearn_seqlab.solvers._stopping import StoppingRule, check_start

__all__ = ["average_gradient"]

# Sequences between two looks at the keyboard.
_AT_ONCE = 5_000


class Averages(Protocol):
    """A run of steps: the iterate, and the gradients that it remembers."""

    is_lost: bool

    def draw(self, draws: np.ndarray) -> None:
        """Steps on sequences picked by numbers from [0, 1)."""
        ...

    def value_and_gradient(self) -> tuple[float, np.ndarray]:
        """Of the objective, as far as it is remembered."""
        ...

    def coef(self) -> np.ndarray: ...


def average_gradient(
    objective: Objective,
    make_averages: Callable[[np.ndarray, float], Averages],
    start: np.ndarray,
    n_sequences: int,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    random_state: Any = None,
    callback: Callable[[int, float], None] | None = None,
    watch: Callable[[np.ndarray], bool] | None = None,
) -> SolverOutcome:
    """Minimise a sum over sequences along the average of gradients that were seen one at a time.

    Parameters
    ----------
    objective : Objective
    make_averages : callable
        From coefficients and a factor of the lengths of steps to :class:`Averages`.
    start : ndarray of shape (n_coef,)
    n_sequences : int
    max_iter : int, default=1000
        Largest number of passes, of ``n_sequences`` steps each.
    tol : float, default=1e-4
        Stop where no entry of the gradient, in scaled variables, exceeds ``tol`` times the largest at zero, and the
        last pass lowered what is remembered of the objective by no more than ``10 * tol`` of it. After each pass the
        remembered gradient is judged, and where it is small enough, the gradient itself.
    random_state : int, RandomState instance or None
        Picks the sequences.
    callback : callable, default=None
        Called with the pass and the last entry of ``history``.
    watch : callable, default=None
        Called with the coefficients at the start and after each pass; ends the run where it returns True.

    Returns
    -------
    outcome : SolverOutcome
        ``history`` holds the objective at the start, then what the penalty and the losses of all sequences, each when
        last seen, add up to after each pass; ``value`` is the objective itself.

    Raises
    ------
    ValueError
        If the objective is not finite at the start.
    """
    random = check_random_state(random_state)
    value, gradient = objective.value_and_gradient(start)
    at_zero = objective.value_and_gradient(np.zeros_like(start))[1] if start.any() else gradient
    check_start(value, steepest := _steepness(objective, at_zero))
    rule = StoppingRule(objective, steepest, tol, max_iter)
    outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
    factor, found = 1.0, start
    try:
        averages = make_averages(start, factor)
        if watch is not None:
            watch(start)
        while not outcome.message:
            if callback is not None:
                callback(outcome.n_iter, outcome.history[-1])
            draws = random.random_sample(n_sequences)
            for a in range(0, n_sequences, _AT_ONCE):
                averages.draw(draws[a : a + _AT_ONCE])
            outcome.n_iter += 1
            seen, gradient = averages.value_and_gradient()
            if averages.is_lost or not np.isfinite(seen) or _has_risen(objective, seen, averages, outcome):
                factor /= 2  # steps too long: from the start, half as long
                averages = make_averages(start, factor)
                seen, gradient = averages.value_and_gradient()
            outcome.history.append(seen)
            found = averages.coef()
            if watch is not None and watch(found):
                outcome.converged, outcome.message = True, "held-out sequences got no better"
            elif (
                _steepness(objective, gradient) <= rule.bound
                and not rule.is_fast(outcome)
                and _steepness(objective, objective.value_and_gradient(found)[1]) <= rule.bound
            ):  # what is remembered is old: the gradient itself has the last word
                outcome.converged, outcome.message = True, "the gradient vanished"
            elif outcome.n_iter >= max_iter:
                outcome.message = "max_iter was reached"
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
        found = averages.coef() if outcome.n_iter else start
    value = objective.value_and_gradient(found)[0]
    if value < outcome.value:
        outcome.coef, outcome.value = found, value
    return outcome


def _has_risen(objective: Objective, seen: float, averages: Averages, outcome: SolverOutcome) -> bool:
    """Whether the objective lies above that at the start; looked at where what is remembered does."""
    return seen > outcome.value and not objective.value_and_gradient(averages.coef())[0] <= outcome.value


def _steepness(objective: Objective, gradient: np.ndarray) -> float:
    return float(np.abs(gradient / objective.scale).max())
