"""Elliptical slice sampling of the scores of chains under a Gaussian prior.

Murray, Adams and MacKay, "Elliptical slice sampling", AISTATS 2010: a move turns the state towards a draw from the
prior, by an angle from a bracket that shrinks until the likelihood is above a random level. No step size, no rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sklearn_seqlab.inference import PackedChains

__all__ = ["ChainLikelihood", "SampledChain", "State", "elliptical_move", "sample_chain", "slice_move"]

_STEP_OUT, _MAX_STEPS_OUT = 1.0, 8
# A bracket this small holds nothing but the state that it shrinks to.
_SMALLEST_ANGLE = 1e-12


class State(NamedTuple):
    """Standard normal coordinates, and the scores that they make with a prior variance of one.

    Attributes
    ----------
    white : ndarray of shape (n_coordinates, n_labels)
    unary : ndarray of shape (n_rows, n_labels)
        Linear in ``white``.
    transition : ndarray of shape (n_labels, n_labels)
    """

    white: np.ndarray
    unary: np.ndarray
    transition: np.ndarray


def turned(mine: np.ndarray, theirs: np.ndarray, angle: float) -> np.ndarray:
    """The point of the ellipse through both, centred at zero."""
    return np.cos(angle) * mine + np.sin(angle) * theirs


class ChainLikelihood:
    """Log-likelihood of the labels of packed sequences, those of missing labels summed out.

    Parameters
    ----------
    codes : ndarray of shape (n_total,)
    allowed : ndarray of bool of shape (n_total, n_labels)
        Labels that fit what is known.
    complete : ndarray of bool of shape (n_sequences,)
        Whether all labels of a sequence are known.
    offsets : ndarray of shape (n_sequences + 1,)
    weight : ndarray of shape (n_sequences,)
    index : ndarray of shape (n_total,)
        The row of the scores that each step has.
    """

    def __init__(
        self,
        codes: np.ndarray,
        allowed: np.ndarray,
        complete: np.ndarray,
        offsets: np.ndarray,
        weight: np.ndarray,
        index: np.ndarray,
    ):
        self.allowed, self.offsets, self.weight = allowed, offsets, weight
        self.index = None if np.array_equal(index, np.arange(len(codes))) else index
        n_labels = allowed.shape[1]
        by_step = np.repeat(weight * complete, np.diff(offsets))
        # complete sequences: their score is linear in the scores, with counts that are known beforehand
        self._rows = np.flatnonzero(by_step > 0)
        self._codes, self._row_weight = codes[self._rows], by_step[self._rows]
        into = np.setdiff1d(self._rows, offsets[:-1], assume_unique=True)
        self._counts = np.zeros((n_labels, n_labels))
        np.add.at(self._counts, (codes[into - 1], codes[into]), by_step[into])
        self._partial = np.flatnonzero(~complete)
        self._part_rows = np.flatnonzero(np.repeat(~complete, np.diff(offsets)))
        lengths = np.diff(offsets)[self._partial]
        self._part_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)

    def __call__(self, unary: np.ndarray, transition: np.ndarray) -> float:
        """In nats."""
        scores = np.ascontiguousarray(unary if self.index is None else unary[self.index])
        transition = np.ascontiguousarray(transition)
        log_z = PackedChains(scores, transition, self.offsets).log_partition()
        value = float(self._row_weight @ scores[self._rows, self._codes]) - float(self.weight @ log_z)
        value += float((self._counts * transition).sum())
        if len(self._partial):
            rows = self._part_rows
            fits = np.where(self.allowed[rows], scores[rows], -np.inf)
            part = PackedChains(fits, transition, self._part_offsets).log_partition()
            value += float(self.weight[self._partial] @ part)
        return value


def elliptical_move(
    state: State,
    value: float,
    log_likelihood: Callable[[np.ndarray, np.ndarray], float],
    draw: State,
    random: np.random.RandomState,
) -> tuple[State, float, int]:
    """One move; the new state, its log-likelihood, and how often that was evaluated."""
    level = value + np.log(random.random_sample())
    angle = random.uniform(0.0, 2.0 * np.pi)
    low, high = angle - 2.0 * np.pi, angle
    n_evaluations = 0
    while True:
        # the coordinates follow only where a move ends
        unary = turned(state.unary, draw.unary, angle)
        transition = turned(state.transition, draw.transition, angle)
        found = log_likelihood(unary, transition)
        n_evaluations += 1
        if found > level or high - low < _SMALLEST_ANGLE:
            return State(turned(state.white, draw.white, angle), unary, transition), found, n_evaluations
        if angle < 0:
            low = angle
        else:
            high = angle
        angle = random.uniform(low, high)


def slice_move(
    x: float, value: float, log_density: Callable[[float], float], random: np.random.RandomState
) -> tuple[float, float, int]:
    """One move of a single variable by stepping out and shrinking; as ``elliptical_move``."""
    level = value + np.log(random.random_sample())
    low = x - _STEP_OUT * random.random_sample()
    high = low + _STEP_OUT
    n_evaluations = 0
    for _ in range(_MAX_STEPS_OUT):
        n_evaluations += 1
        if not log_density(low) > level:
            break
        low -= _STEP_OUT
    for _ in range(_MAX_STEPS_OUT):
        n_evaluations += 1
        if not log_density(high) > level:
            break
        high += _STEP_OUT
    while True:
        candidate = random.uniform(low, high)
        found = log_density(candidate)
        n_evaluations += 1
        if found > level or high - low < _SMALLEST_ANGLE:
            return candidate, found, n_evaluations
        if candidate < x:
            low = candidate
        else:
            high = candidate


@dataclass
class SampledChain:
    """What one Markov chain left behind.

    Attributes
    ----------
    white, transition : list of ndarray
        Kept states, the prior variances multiplied in.
    log_likelihood : list of float
        Of every step.
    kept : list of int
        The steps of the kept states.
    log_variances : list of ndarray of shape (2,)
        Logarithms of the prior variances of scores and transitions at the kept states.
    """

    white: list[np.ndarray] = field(default_factory=list)
    transition: list[np.ndarray] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    log_variances: list[np.ndarray] = field(default_factory=list)
    n_evaluations: int = 0
    interrupted: bool = False


def sample_chain(
    draw_prior: Callable[[np.random.RandomState], State],
    likelihood: ChainLikelihood,
    variances: tuple[float, float],
    *,
    n_steps: int,
    first_kept: int,
    thin: int,
    learn_variances: bool,
    random: np.random.RandomState,
    callback: Any = None,
) -> SampledChain:
    """Run a chain from scores of zero.

    Parameters
    ----------
    draw_prior : callable
        Draws a state from the prior of variance one.
    likelihood : ChainLikelihood
    variances : tuple of float
        Prior variances of scores and transitions.
    n_steps, first_kept, thin : int
        Every ``thin``-th state from step ``first_kept`` on is kept.
    learn_variances : bool
        Whether the logarithms of the prior variances are sampled too, by slice moves with the standard normal
        coordinates held, under a normal prior of deviation one around where they start.
    random : RandomState
    """
    centre = np.log(variances)
    logs = centre.copy()
    chain = SampledChain()

    def evaluate(logs: np.ndarray, unary: np.ndarray, transition: np.ndarray) -> float:
        roots = np.exp(0.5 * logs)
        return likelihood(roots[0] * unary, roots[1] * transition)

    try:
        state = State(*(np.zeros_like(part) for part in draw_prior(random)))
        value = evaluate(logs, state.unary, state.transition)
        for step in range(n_steps):
            state, value, count = elliptical_move(
                state, value, partial(evaluate, logs), draw_prior(random), random
            )
            chain.n_evaluations += count
            for k in range(2 if learn_variances else 0):
                here, fixed = logs.copy(), state

                def density(x: float, k: int = k, here: np.ndarray = here, fixed: State = fixed) -> float:
                    moved = here.copy()
                    moved[k] = x
                    return evaluate(moved, fixed.unary, fixed.transition) - 0.5 * (x - centre[k]) ** 2

                start = value - 0.5 * (here[k] - centre[k]) ** 2
                x, found, count = slice_move(float(here[k]), start, density, random)
                logs = here
                logs[k] = x
                value = found + 0.5 * (x - centre[k]) ** 2
                chain.n_evaluations += count
            chain.log_likelihood.append(value)
            if step >= first_kept and (step - first_kept) % thin == 0:
                roots = np.exp(0.5 * logs)
                chain.white.append(roots[0] * state.white)
                chain.transition.append(roots[1] * state.transition)
                chain.log_variances.append(logs.copy())
                chain.kept.append(step)
            if callback is not None:
                callback(step + 1, -value)
    except KeyboardInterrupt:
        chain.interrupted = True
    return chain
