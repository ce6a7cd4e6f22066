"""Passes of stochastic gradient steps, whose loss is told by the steps themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.solvers._outcome import Objective, SolverOutcome
from sklearn_seqlab.solvers._stochastic import best_length
from sklearn_seqlab.solvers._stopping import check_start

__all__ = ["calibrate", "passes", "step_through", "warm_up"]

# Lengths of steps are tried on at most so many sequences.
_N_TRIAL = 300

# How often a stream halves the length of steps that are lost.
_N_HALVINGS = 20

# One pass of small change may be chance: so many in a row are a sign.
_N_CALM = 3

# Sequences between two looks at the keyboard.
_AT_ONCE = 5_000


class Descent(Protocol):
    """A run of steps: the iterate, and how far it has come."""

    def sweep(self, order: np.ndarray) -> float:
        """A step on each of some sequences; the sum of their losses, each before its step (NaN if one is lost)."""
        ...

    def objective_of(self, loss: float, n_sequences: int | None = None) -> float:
        """The objective where the summed loss of some sequences (all) is ``loss``, with their share of the penalty."""
        ...

    def coef(self) -> np.ndarray: ...


MakeDescent = Callable[[np.ndarray, float], Descent]


def passes(
    objective: Objective,
    make_descent: MakeDescent,
    start: np.ndarray,
    n_sequences: int,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
    random_state: Any = None,
    callback: Callable[[int, float], None] | None = None,
    watch: Callable[[np.ndarray], bool] | None = None,
) -> SolverOutcome:
    """Minimise a sum over sequences by steps on one sequence at a time.

    Parameters
    ----------
    objective : Objective
    make_descent : callable
        From coefficients and the length of the first step to a :class:`Descent`.
    start : ndarray of shape (n_coef,)
    n_sequences : int
    max_iter : int, default=1000
        Largest number of passes.
    tol : float, default=1e-4
        Stop where three passes in a row lowered the summed loss of their steps by less than this share each.
    random_state : int, RandomState instance or None
        Draws the order of the sequences in each pass.
    callback : callable, default=None
        Called with the pass and the summed loss of the pass before.
    watch : callable, default=None
        Called with the coefficients at the start and after each pass; ends the run where it returns True.

    Returns
    -------
    outcome : SolverOutcome
        ``history`` holds the objective at the start, then what the losses of each pass (each before its step) and the
        penalty after it add up to; ``value`` is the objective itself.

    Raises
    ------
    ValueError
        If the objective is not finite at the start.
    """
    random = check_random_state(random_state)
    value, gradient = objective.value_and_gradient(start)
    check_start(value, float(np.abs(gradient / objective.scale).max()))
    outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
    try:
        eta = calibrate(make_descent, start, n_sequences, random)
        descent, before, n_calm = make_descent(start, eta), np.inf, 0
        if watch is not None:
            watch(start)
        while outcome.n_iter < max_iter:
            if callback is not None:
                callback(outcome.n_iter, outcome.history[-1])
            loss = _sweep(descent, random.permutation(n_sequences))
            outcome.n_iter += 1
            if not np.isfinite(loss):  # a step too long: from the start, with half of it
                eta /= 2
                descent, before, n_calm = make_descent(start, eta), np.inf, 0
                outcome.history.append(outcome.history[-1])
                if watch is not None:
                    watch(start)
                continue
            loss = descent.objective_of(loss)
            outcome.history.append(loss)
            if watch is not None and watch(descent.coef()):
                outcome.converged, outcome.message = True, "held-out sequences got no better"
                break
            n_calm = n_calm + 1 if before - loss <= tol * abs(loss) else 0
            before = loss
            if n_calm == _N_CALM:
                outcome.converged = True
                outcome.message = f"{_N_CALM} passes lowered the loss by less than tol each"
                break
        else:
            outcome.message = f"the largest number of passes, {max_iter}, was reached"
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
    if outcome.n_iter:
        found = descent.coef()
        value = objective.value_and_gradient(found)[0]
        if value < outcome.value:
            outcome.coef, outcome.value = found, value
    return outcome


def warm_up(
    objective: Objective,
    make_descent: MakeDescent,
    start: np.ndarray,
    n_sequences: int,
    n_passes: int,
    tol: float,
    random_state: Any,
) -> np.ndarray:
    """Coefficients after a few passes, for another solver to start from.

    ``start`` where steps went astray; or where they led to a gradient of ``tol`` times that at the start, which another
    solver would take for the end whatever is left to gain.
    """
    random = check_random_state(random_state)
    descent = make_descent(start, calibrate(make_descent, start, n_sequences, random))
    for _ in range(n_passes):
        if not np.isfinite(_sweep(descent, random.permutation(n_sequences))):
            return start
    found = descent.coef()
    (before, steep), (after, flat) = (objective.value_and_gradient(coef) for coef in (start, found))
    is_flat = np.abs(flat / objective.scale).max() <= tol * np.abs(steep / objective.scale).max()
    return found if after < before and not is_flat else start


def step_through(
    make_descent: MakeDescent, start: np.ndarray, n_sequences: int, eta: float
) -> tuple[np.ndarray, float, float]:
    """One pass in order: coefficients, summed loss, and the length of steps, halved until none was lost."""
    for _ in range(_N_HALVINGS):
        descent = make_descent(start, eta)
        loss = _sweep(descent, np.arange(n_sequences))
        if np.isfinite(loss):
            return descent.coef(), loss, eta
        eta /= 2
    raise ValueError("Steps of any length leave the range of double precision: scale the features.")


def calibrate(make_descent: MakeDescent, start: np.ndarray, n_sequences: int, random_state: Any) -> float:
    """The length, among powers of two times 0.1, with the least loss after a pass over a sample."""
    random = check_random_state(random_state)
    sample = random.permutation(n_sequences)[:_N_TRIAL]

    def loss_after(eta: float) -> float:
        descent = make_descent(start, eta)
        if not np.isfinite(descent.sweep(sample)):
            return np.inf
        after = make_descent(descent.coef(), 0.0)
        loss = after.objective_of(after.sweep(sample), len(sample))  # long steps may trade loss for penalty
        return loss if np.isfinite(loss) else np.inf

    return best_length(loss_after)


def _sweep(descent: Descent, order: np.ndarray) -> float:
    return sum(descent.sweep(order[a : a + _AT_ONCE]) for a in range(0, len(order), _AT_ONCE))
