"""Passes of coordinate ascent on a dual, until the duality gap is small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.solvers._outcome import CertifiedOutcome, Objective
from sklearn_seqlab.solvers._stopping import check_start

__all__ = ["dual_ascent"]

# Sequences between two looks at the keyboard.
_AT_ONCE = 1_000

# What the gap of a sum of losses may be by rounding alone, as a share of what is summed.
_ROUNDING = 1e-14


class Ascent(Protocol):
    """A run of steps on the dual: the variables, and the weights that they stand for."""

    n_sequences: int

    def sweep(self, order: np.ndarray) -> float:
        """A step on each of some sequences; NaN if one is lost."""
        ...

    def draw(self, draws: np.ndarray) -> float:
        """Steps on sequences picked by numbers from [0, 1); NaN if one is lost."""
        ...

    def measure(self) -> tuple[float, float]:
        """The objective, and the duality gap."""
        ...

    def coef(self) -> np.ndarray: ...


def dual_ascent(
    objective: Objective,
    ascent: Ascent,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    random_state: Any = None,
    callback: Callable[[int, float], None] | None = None,
    watch: Callable[[np.ndarray], bool] | None = None,
) -> CertifiedOutcome:
    """Minimise a sum over sequences by steps on the dual variables of one sequence at a time.

    Parameters
    ----------
    objective : Objective
    ascent : Ascent
        At its start.
    max_iter : int, default=1000
        Largest number of passes, of as many steps as there are sequences. The first goes through all in random order.
    tol : float, default=1e-4
        Stop where the duality gap is at most ``tol`` times the objective.
    random_state : int, RandomState instance or None
        Picks the sequences.
    callback : callable, default=None
        Called with the pass and the objective.
    watch : callable, default=None
        Called with the coefficients at the start and after each pass; ends the run where it returns True.

    Returns
    -------
    outcome : CertifiedOutcome
        With the best coefficients of all passes, and the dual at the end. Every entry of ``history`` is the objective
        itself, and every gap is found by a look at all sequences after the steps of the pass.

    Raises
    ------
    ValueError
        If the objective is not finite at the start.
    """
    random = check_random_state(random_state)
    value, gap = ascent.measure()
    gradient = objective.value_and_gradient(ascent.coef())[1]
    check_start(value, float(np.abs(gradient / objective.scale).max()))
    outcome = CertifiedOutcome(ascent.coef(), value, 0, False, "", [value], dual=value - gap)
    floor = _ROUNDING * value
    try:
        if watch is not None:
            watch(outcome.coef)
        while not outcome.message:
            if callback is not None:
                callback(outcome.n_iter, outcome.history[-1])
            _pass(ascent, outcome.n_iter == 0, random)
            outcome.n_iter += 1
            value = _settle(ascent, outcome)
            outcome.history.append(value)
            if watch is not None and watch(ascent.coef()):
                outcome.converged, outcome.message = True, "held-out sequences got no better"
            elif outcome.gap <= max(tol * outcome.value, floor):
                outcome.converged, outcome.message = True, "the duality gap closed"
            elif not np.isfinite(value):
                outcome.message = "the objective left the range of double precision"
            elif outcome.n_iter >= max_iter:
                outcome.message = (
                    f"max_iter was reached at a duality gap of {outcome.gap:.3g} nats, "
                    f"{outcome.gap / outcome.value:.2g} of the objective"
                )
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
        _settle(ascent, outcome)
    return outcome


def _pass(ascent: Ascent, is_first: bool, random: np.random.RandomState) -> None:
    n = ascent.n_sequences
    picks = random.permutation(n) if is_first else random.random_sample(n)
    step = ascent.sweep if is_first else ascent.draw
    for a in range(0, n, _AT_ONCE):
        step(picks[a : a + _AT_ONCE])


def _settle(ascent: Ascent, outcome: CertifiedOutcome) -> float:
    """Keep the weights if they are the best so far, and the dual, which only rises but for rounding."""
    value, gap = ascent.measure()
    if value < outcome.value:
        outcome.coef, outcome.value = ascent.coef(), value
    if np.isfinite(value - gap):
        outcome.dual = max(outcome.dual, value - gap)
    return value
