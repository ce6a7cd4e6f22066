"""Greedy rounds over single coefficients: boosting of a loss whose derivatives are cheap along one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sklearn_seqlab.solvers._lbfgs import lbfgs
from sklearn_seqlab.solvers._line_search import minimise_along
from sklearn_seqlab.solvers._outcome import SolverOutcome

__all__ = ["BoostingOutcome", "boost"]

# A step that raises the loss is halved so often; so many features in a row may fail before the fit ends.
_MAX_HALVINGS, _MAX_FAILURES = 30, 25

# A feature that separates has its minimum at infinity: no step may change scores by more nats than this.
_LARGEST_CHANGE = 20.0

# Joint steps of the features in use, between rounds.
_CORRECTIVE_ITERATIONS = 50

# Share of the slope at which a line search ends; the value is then right to its square.
_PRECISION = 1e-9

Callback = Callable[[int, float], None]


@dataclass
class BoostingOutcome(SolverOutcome):
    """The last point, and the way to it.

    Attributes
    ----------
    steps : list of (int, ndarray, ndarray)
        Round, coefficients and amounts by which they changed.
    credit : ndarray of shape (n_coef,)
        How much each coefficient lowered the loss.
    watched : list of float
        What ``watch`` said at the start and after each round.
    """

    steps: list[tuple[int, np.ndarray, np.ndarray]] = field(default_factory=list)
    credit: np.ndarray = field(default_factory=lambda: np.empty(0))
    watched: list[float] = field(default_factory=list)


def boost(
    objective: Any,
    start: np.ndarray,
    *,
    n_rounds: int = 200,
    first_round: int = 0,
    beam_size: int = 1,
    update: str = "line_search",
    n_rescore: int = 0,
    learning_rate: float = 1.0,
    corrective_every: int | None = None,
    tol: float = 1e-6,
    watch: Callable[[np.ndarray, np.ndarray], float] | None = None,
    n_iter_no_change: int | None = None,
    callback: Callback | None = None,
) -> BoostingOutcome:
    """Lower an objective by changing one or a few coefficients a round.

    Parameters
    ----------
    objective : ChainBoosting or alike
        With ``look``, ``after``, ``gradient_and_curvature``, ``line``, ``extent`` and ``restricted``.
    start : ndarray of shape (n_coef,)
    n_rounds : int, default=200
    first_round : int, default=0
        Number of the round to begin with.
    beam_size : int, default=1
        Coefficients that change together: a step of ``1 / beam_size`` of its own for each lowers a convex loss
        whenever one of the single steps would, by Jensen's inequality.
    update : {"line_search", "newton", "bound"}, default="line_search"
    n_rescore : int, default=0
        So many of the largest estimated gains are measured and ranked anew.
    learning_rate : float, default=1.0
    corrective_every : int or None, default=None
        Every so many rounds all coefficients in use are optimised together.
    tol : float, default=1e-6
        A round has to lower the objective by this share of it (of 1 if it is smaller).
    watch : callable, default=None
        Told of every change; gives the loss by which rounds are judged. None of them are undone here.
    n_iter_no_change : int or None, default=None
        Stop after so many rounds without a better ``watch``.
    callback : callable, default=None

    Returns
    -------
    outcome : BoostingOutcome
    """
    callback = callback or (lambda iteration, value: None)
    look = objective.look(start.copy())
    if not np.isfinite(look.value):
        raise ValueError(
            "The objective is not finite at the starting point: features or weights are beyond what double "
            "precision holds. Scale the features (StandardScaler)."
        )
    outcome = BoostingOutcome(look.coef, look.value, first_round, False, "", [look.value])
    outcome.credit = np.zeros(objective.n_coef)
    nothing = np.empty(0, dtype=np.intp), np.empty(0)
    if watch is not None:
        outcome.watched.append(watch(*nothing))
    rounds = _Rounds(objective, beam_size, update, n_rescore, learning_rate, tol)
    try:
        while outcome.n_iter < n_rounds:
            callback(outcome.n_iter, look.value)
            found = rounds.step(look)
            if found is None:
                outcome.converged, outcome.message = True, "no feature lowers the objective any further"
                break
            chosen, amounts, next_look = found
            _give_credit(outcome.credit, rounds.gradient, chosen, amounts, look.value - next_look.value)
            if corrective_every is not None and (outcome.n_iter + 1) % corrective_every == 0:
                chosen, amounts, next_look = _correct(objective, look, next_look, outcome.credit)
            look = next_look
            outcome.n_iter += 1
            outcome.steps.append((outcome.n_iter - 1, chosen, amounts))
            outcome.coef, outcome.value = look.coef, look.value
            outcome.history.append(look.value)
            if watch is None:
                continue
            outcome.watched.append(watch(chosen, amounts))
            since = len(outcome.watched) - 1 - int(np.argmin(outcome.watched))
            if n_iter_no_change is not None and since >= n_iter_no_change:
                outcome.converged, outcome.message = True, "held-out sequences got no better"
                break
        else:
            outcome.converged, outcome.message = True, "n_rounds were made"
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
    return outcome


class _Rounds:
    """One round: rank the features, step along the best, and pass over those whose steps bring nothing."""

    def __init__(
        self, objective: Any, beam_size: int, update: str, n_rescore: int, learning_rate: float, tol: float
    ):
        self.objective, self.update, self.n_rescore = objective, update, n_rescore
        self.beam_size = min(beam_size, objective.n_coef)
        self.learning_rate, self.tol = learning_rate, tol
        self.gradient, self.room = np.empty(0), None
        self.extents: dict[int, tuple[float, float]] = {}

    def step(self, look: Any) -> tuple[np.ndarray, np.ndarray, Any] | None:
        """Coefficients, amounts and the look after the round; None where no round lowers the objective."""
        self.gradient, curvature = self.objective.gradient_and_curvature(look)
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = np.where(curvature > 0, -self.gradient / curvature, 0.0)
            gain = np.where(curvature > 0, -0.5 * self.gradient * guess, 0.0)
        if self.room is None:  # a nat, or what there is to gain if that is less: small weights, say
            self.room = min(1.0, look.value - self.objective.floor)
        least = self.tol * max(self.room, abs(look.value))
        order = _ranked(gain)
        order = order[gain[order] > 0]
        if self.n_rescore:
            head = order[: max(self.n_rescore, self.beam_size)]
            measured = np.array([self._measured_gain(look, k, guess[k]) for k in head])
            order = np.concatenate([head[_ranked(measured)], order[len(head) :]])
        for failure in range(_MAX_FAILURES):
            chosen = order[failure * self.beam_size : (failure + 1) * self.beam_size]
            if not len(chosen):
                break
            amounts = self.learning_rate * self._amounts(look, chosen, guess[chosen])
            after = self._accepted(look, chosen, amounts)
            if after is not None and look.value - after[1].value >= least:
                return chosen, after[0], after[1]
        return None

    def _accepted(self, look: Any, chosen: np.ndarray, amounts: np.ndarray) -> tuple[np.ndarray, Any] | None:
        """The amounts, halved until they do not raise the objective, and the look after them."""
        for _ in range(_MAX_HALVINGS):
            if not amounts.any():
                break
            after = self.objective.after(look, chosen, amounts)
            if after.value <= look.value:
                return amounts, after
            amounts = 0.5 * amounts
        return None

    def _amounts(self, look: Any, chosen: np.ndarray, guess: np.ndarray) -> np.ndarray:
        if self.update == "line_search":
            direction = np.ones(1) if len(chosen) == 1 else self._capped(chosen, guess) / len(chosen)
            line = self.objective.line(look, chosen, direction)
            return direction * self._minimised(line, chosen)[0]
        single = self._bound_step if self.update == "bound" else self._newton_step
        steps = np.array([single(look, k)[0] for k in chosen])
        return self._capped(chosen, steps) / len(chosen)

    def _minimised(self, line: Any, chosen: np.ndarray) -> tuple[float, float]:
        """The best step along a line and how much it lowers the objective."""
        start = line(0.0)
        value, slope, curve = start
        largest = float(self._largest(chosen).min()) if len(chosen) == 1 else 1e3
        guess = -slope / curve if curve > 0 else -np.sign(slope) * largest
        guess = float(np.clip(guess, -largest, largest))
        step, lowest = minimise_along(line, start, guess, rtol=_PRECISION)
        return float(np.clip(step, -largest, largest)), value - lowest

    def _newton_step(self, look: Any, k: int) -> tuple[float, float]:
        """Minimum of the second-order model of the loss itself, and its gain."""
        slope, curve = self.objective.line(look, np.array([k]), np.ones(1)).second_order()
        return (-slope / curve, 0.5 * slope**2 / curve) if curve > 0 else (0.0, 0.0)

    def _bound_step(self, look: Any, k: int) -> tuple[float, float]:
        """Minimum of the convex bound between the extremes of the feature's difference, and its gain."""
        if k not in self.extents:
            self.extents[k] = self.objective.extent(k)
        low, high = self.extents[k]
        share = float(self.objective.loss.share(look.nll).sum())
        relative, coef = self.objective.relative_penalty(look), float(look.coef[k])
        slope = float(self.gradient[k] - relative * coef) / share
        weight = (high - slope) / (high - low) if high > low else 0.5

        def bound(step: float) -> tuple[float, float, float]:
            with np.errstate(over="ignore"):
                left, right = weight * np.exp(step * low), (1 - weight) * np.exp(step * high)
            total = left + right
            first = (left * low + right * high) / total
            second = (left * low**2 + right * high**2) / total - first**2
            penalty = relative * (coef * step + 0.5 * step**2)
            return (
                share * np.log(total) + penalty,
                share * first + relative * (coef + step),
                share * second + relative,
            )

        start = bound(0.0)
        largest = float(self._largest(np.array([k]))[0])
        if low < 0 < high and 0 < weight < 1 and not relative:
            step = float(
                np.clip(np.log(-low * weight / (high * (1 - weight))) / (high - low), -largest, largest)
            )
            return step, start[0] - bound(step)[0]
        guess = -start[1] / start[2] if start[2] > 0 else -np.sign(start[1]) * largest
        step, value = minimise_along(bound, start, float(np.clip(guess, -largest, largest)), rtol=1e-9)
        return float(np.clip(step, -largest, largest)), start[0] - value

    def _measured_gain(self, look: Any, k: int, guess: float) -> float:
        if self.update == "newton":
            return self._newton_step(look, k)[1]
        if self.update == "bound":
            return self._bound_step(look, k)[1]
        chosen = np.array([k])
        return self._minimised(self.objective.line(look, chosen, np.ones(1)), chosen)[1]

    def _largest(self, chosen: np.ndarray) -> np.ndarray:
        return _LARGEST_CHANGE / self.objective.scale[chosen]

    def _capped(self, chosen: np.ndarray, amounts: np.ndarray) -> np.ndarray:
        largest = self._largest(chosen)
        return np.clip(amounts, -largest, largest)


def _ranked(gain: np.ndarray) -> np.ndarray:
    """Positions by decreasing gain; gains that differ by rounding alone count as equal, the first coming first."""
    top = gain.max(initial=0.0)
    return np.argsort(-np.round(gain / top, 11), kind="stable") if top > 0 else np.arange(len(gain))


def _give_credit(
    credit: np.ndarray, gradient: np.ndarray, chosen: np.ndarray, amounts: np.ndarray, decrease: float
) -> None:
    """Share the decrease of a round out by what each coefficient contributed to the first order."""
    part = np.abs(gradient[chosen] * amounts)
    if part.sum() > 0:
        credit[chosen] += decrease * part / part.sum()


def _correct(objective: Any, look: Any, after: Any, credit: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    """Optimise all coefficients in use together; returns their changes since ``look``."""
    chosen = np.flatnonzero(after.coef)
    part = objective.restricted(after.coef, chosen)
    outcome = lbfgs(part, after.coef[chosen], max_iter=_CORRECTIVE_ITERATIONS, tol=1e-6)
    amounts = outcome.coef - after.coef[chosen]
    corrected = objective.after(after, chosen, amounts)
    if corrected.value < after.value:
        gradient = objective.gradient_and_curvature(after)[0]
        _give_credit(credit, gradient, chosen, amounts, after.value - corrected.value)
        after = corrected
    if outcome.interrupted:
        raise KeyboardInterrupt
    changed = np.flatnonzero(after.coef != look.coef)
    return changed, after.coef[changed] - look.coef[changed], after
