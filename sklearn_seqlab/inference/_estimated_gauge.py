"""The gauge of nested segments from their scores: what keeps their masses in range."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.inference._nested_gauge import growth

# Starts whose segments tell how a score grows with the duration.
_N_SAMPLED_STARTS = 16


def estimated_gauge(
    bands: list[np.ndarray], durations: list[tuple[np.ndarray, np.ndarray]], factors: list[list[np.ndarray]]
) -> np.ndarray:
    """Nats per step to take off the persistence of each level: growth of the mass, if every level were Markov.

    A level that is not the bottom takes the part that its own scores have in the growth, so that neither its
    weights nor the masses inside its segments drift.

    Parameters
    ----------
    bands : list of n_levels ndarrays of shape (n_starts, max_duration[d], n_states[d])
        Persistence, in nats; that of the root is not looked at.
    durations : list of n_levels pairs of ndarrays of shape (n_starts, n_states[d])
        Shortest and longest duration of finite score by start, 0 where none starts.
    factors : three lists of n_levels - 1 ndarrays
        Exponentiated initialisation, transition and ending, in the shapes of ``NestedSegments``.

    Returns
    -------
    gauge : ndarray of shape (n_levels, n_total)
    """
    sizes, n_levels, n_total = [band.shape[2] for band in bands], len(bands), len(factors[0][0])
    bounds = np.cumsum([0, *sizes])
    begin, stay = np.ones((2, n_total, bounds[-1]))  # the root's score belongs to no step
    for d in range(1, n_levels):
        columns = slice(bounds[d], bounds[d + 1])
        begin[:, columns], stay[:, columns] = _per_step(bands[d], *durations[d])
    flat = [np.concatenate([a.reshape(n_total, -1) for a in part], axis=1) for part in factors]
    gauge, forward = np.zeros((n_levels, n_total)), np.zeros_like(begin)
    work = np.zeros((5, bounds[-1])), np.zeros((2, flat[0].shape[1]))
    growth(begin, stay, *flat, np.array(sizes, dtype=np.intp), *work, forward, gauge[-1])
    part = np.where(forward > 0, forward * np.log(np.maximum(begin, stay)), 0.0)
    for d in range(1, n_levels - 1):
        gauge[d] = part[:, bounds[d] : bounds[d + 1]].sum(axis=1)
        gauge[-1] -= gauge[d]
    return gauge


def _per_step(band: np.ndarray, briefest: np.ndarray, longest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors (n_total, n_states) of a segment that begins at a step and of one that goes on there.

    The score of the shortest segment from each start, per step; plus, for each state, what a segment of the best
    duration scores per step beyond the sum of those. So scores that are sums over steps are taken as they are,
    and scores of durations are spread over the steps of a typical one.
    """
    n_total, n_durations, n_states = band.shape
    starts, states = np.arange(n_total)[:, None], np.arange(n_states)
    startable = longest > 0
    shortest = np.maximum(briefest, 1)
    base = np.where(startable, band[starts, shortest - 1, states], 0.0) / shortest
    base = base[np.maximum.accumulate(np.where(startable, starts, 0), axis=0), states]
    total = np.concatenate([np.zeros((1, n_states)), np.cumsum(base, axis=0)])
    sampled = np.unique(np.linspace(0, n_total - 1, min(n_total, _N_SAMPLED_STARTS)).astype(np.intp))
    n = np.arange(1, n_durations + 1)
    stop = np.minimum(sampled[:, None] + n, n_total)
    excess = band[sampled] - (total[stop] - total[sampled][:, None])
    seen = excess > -np.inf
    count = seen.sum(axis=0)
    mean = np.where(seen, excess, 0.0).sum(axis=0) / np.maximum(count, 1) / n[:, None]
    extra = np.where(count > 0, mean, -np.inf).max(axis=0)
    factor = np.exp(base + np.where(extra > -np.inf, extra, 0.0))
    covered = np.maximum.accumulate(np.where(startable, starts + longest, 0), axis=0)
    goes_on = np.zeros((n_total, n_states), dtype=bool)
    goes_on[1:] = covered[:-1] > starts[1:]
    return np.where(startable, factor, 0.0), np.where(goes_on, factor, 0.0)
