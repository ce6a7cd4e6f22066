"""Exact inference in hierarchies of segments: the verbs of the inference core for ``HierarchyScores``.

A configuration of ``n_levels`` levels gives every time step a state on every level, ``x[d, t]``, and says where
segments have their last step, ``e[d, t]``. Level 0 is a single segment over the whole sequence; the segments of
a level tile those of the level above. The score adds up, over all segments of state s,

- ``persistence[d][i, j, s]`` of the segment ``i <= t < j``,
- ``initialisation[d][i, s, u]`` of its first child u, and ``ending[d][j - 1, s, u]`` of its last child u,
- ``transition[d][t, s, u, v]`` of each move from a child u to the next one, v, which starts at t.

The probability of a configuration is ``exp(score - log_partition)``. Scores are in nats, and minus infinity
forbids: children of a state, durations, whatever. Bottom segments of more than one step exist where their
persistence is finite. Arguments are checked here; the work is done by ``NestedSegments``.

References
----------
Truyen, Phung, Bui and Venkatesh, "Hierarchical Semi-Markov Conditional Random Fields for Recursive Sequential
Data", NIPS 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_seqlab._arguments import check_numerics, positive
from sklearn_seqlab.inference.packed_hierarchies import NestedMarginals, NestedSegments, Numerics

__all__ = ["HierarchyScores", "log_partition", "marginals", "sample", "score_of", "viterbi"]

_PARTS = ("persistence", "initialisation", "transition", "ending")


@dataclass(frozen=True, eq=False)
class HierarchyScores:
    """Log-potentials of one sequence, or marginals in the same shapes; lists by level, from the root down.

    Parameters
    ----------
    persistence : list of n_levels array-likes of shape (n_timesteps, n_timesteps + 1, n_states[d])
        Score of the segment ``[i, j)`` at ``[i, j]``, in nats; entries with ``j <= i`` are ignored, and of level 0
        all but ``[0, n_timesteps]``.
    initialisation : list of n_levels - 1 array-likes of shape (n_timesteps, n_states[d], n_states[d + 1])
        Score of a segment that starts at t, by its state and its first child.
    transition : list of n_levels - 1 array-likes
        Of shape (n_timesteps, n_states[d], n_states[d + 1], n_states[d + 1]): score of a move to a child that starts
        at t, by the state of the parent, from row to column; entry 0 is ignored.
    ending : list of n_levels - 1 array-likes of shape (n_timesteps, n_states[d], n_states[d + 1])
        Score of a segment with last step t, by its state and its last child.
    """

    persistence: list[np.ndarray]
    initialisation: list[np.ndarray]
    transition: list[np.ndarray]
    ending: list[np.ndarray]

    def __post_init__(self) -> None:
        for name in _PARTS:
            values = list(getattr(self, name))
            if any(np.iscomplexobj(value) for value in values):
                raise TypeError(f"{name} holds complex numbers; expected real scores.")
            arrays = [np.ascontiguousarray(value, dtype=np.float64) for value in values]
            object.__setattr__(self, name, arrays)

    @property
    def n_levels(self) -> int:
        return len(self.persistence)

    @property
    def n_timesteps(self) -> int:
        return len(self.persistence[0])

    @property
    def n_states(self) -> list[int]:
        """Number of states of each level."""
        return [values.shape[-1] for values in self.persistence]


def log_partition(
    scores: Sequence[HierarchyScores],
    allowed: Sequence | None = None,
    ends: Sequence | None = None,
    numerics: Numerics = "auto",
) -> np.ndarray:
    """Log of the summed exponentiated scores of all configurations.

    Parameters
    ----------
    scores : list of n_sequences HierarchyScores
        In nats.
    allowed : list of n_sequences lists of n_levels array-likes of bool or None, default=None
        States to sum over, of shape (n_timesteps, n_states[d]); None, in any place, stands for all.
    ends : list of n_sequences array-likes of int of shape (n_levels, n_timesteps) or None, default=None
        1 where a segment is known to have its last step, 0 where it is known to go on, -1 where nothing is known.
    numerics : {"auto", "scaled", "log"}, default="auto"
        "scaled" sums plain masses, "log" adds in the log domain, some ten times slower; "auto" does the second
        for sequences in which the first is not certain.

    Returns
    -------
    log_z : ndarray of shape (n_sequences,)
        Minus infinity for a sequence without a feasible configuration.

    Raises
    ------
    ValueError
        If a shape does not fit or a score is NaN or plus infinity.
    FloatingPointError
        If ``numerics="scaled"`` and a sequence is not certain.

    Notes
    -----
    Time, summed over levels d above the bottom, O(n_starts * max_duration[d] * (max_duration[d + 1] * n_states[d] *
    n_states[d + 1] + n_states[d] * n_states[d + 1]**2)); durations end at known ends. The root has one start, the
    other levels n_timesteps.
    """
    return np.array([one.log_partition(numerics) for one in _checked(scores, allowed, ends, numerics)])


def marginals(
    scores: Sequence[HierarchyScores],
    allowed: Sequence | None = None,
    ends: Sequence | None = None,
    numerics: Numerics = "auto",
) -> tuple[np.ndarray, list[HierarchyScores]]:
    """Log-partition and the probability of everything that has a score.

    Parameters
    ----------
    scores, allowed, ends, numerics
        As in :func:`log_partition`.

    Returns
    -------
    log_z : ndarray of shape (n_sequences,)
    marginals : list of HierarchyScores
        Probabilities in the shapes of ``scores``: the gradient of each ``log_z`` with respect to its scores.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no configuration of finite score.
    FloatingPointError
        If ``numerics="scaled"`` and a sequence is not certain.
    """
    results = [one.forward_backward(numerics) for one in _checked(scores, allowed, ends, numerics)]
    return np.array([log_z for log_z, _ in results]), [_unbanded(found) for _, found in results]


def viterbi(
    scores: Sequence[HierarchyScores], allowed: Sequence | None = None, ends: Sequence | None = None
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """The configuration of largest score.

    Of equal scores the smallest root state is taken; then, for every segment from its end backwards, the
    smallest child, and its earliest start.

    Parameters
    ----------
    scores, allowed, ends
        As in :func:`log_partition`.

    Returns
    -------
    codes : list of (x, e)
        Per sequence states (n_levels, n_timesteps) of dtype intp and ends (n_levels, n_timesteps) of dtype int8.
    best_score : ndarray of shape (n_sequences,)

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no configuration of finite score.
    """
    found = [one.viterbi() for one in _checked(scores, allowed, ends)]
    return [(x, e) for x, e, _ in found], np.array([best for _, _, best in found])


def score_of(scores: Sequence[HierarchyScores], codes: Sequence[tuple[ArrayLike, ArrayLike]]) -> np.ndarray:
    """Score of one configuration of each sequence.

    Parameters
    ----------
    scores : list of n_sequences HierarchyScores
    codes : list of n_sequences pairs (x, e)
        States and ends, each of shape (n_levels, n_timesteps), as in :func:`viterbi`.

    Returns
    -------
    score : ndarray of shape (n_sequences,)
        In nats; minus infinity for a forbidden configuration.

    Raises
    ------
    ValueError
        If some ``(x, e)`` is no configuration: a state changes inside its segment, or a segment goes on below one
        that ends.
    """
    hierarchies = _checked(scores, None, None)
    if len(codes) != len(hierarchies):
        raise ValueError(f"codes has {len(codes)} entries, but there are {len(hierarchies)} sequences.")
    pairs = [_checked_codes(*pair, one) for pair, one in zip(codes, hierarchies, strict=True)]
    return np.array([one.score_of(x, e) for (x, e), one in zip(pairs, hierarchies, strict=True)])


def sample(
    scores: Sequence[HierarchyScores],
    n_samples: int = 1,
    random_state: Any = None,
    allowed: Sequence | None = None,
    ends: Sequence | None = None,
) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Independent draws from the distribution of configurations.

    Parameters
    ----------
    scores, allowed, ends
        As in :func:`log_partition`.
    n_samples : int, default=1
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    draws : list of n_samples codes
        Each a list of ``(x, e)`` per sequence, as in :func:`viterbi`.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no configuration of finite score.
    """
    random = check_random_state(random_state)
    hierarchies = _checked(scores, allowed, ends)
    n_samples = positive(n_samples, "n_samples")
    draws = [one.sample(n_samples, random) for one in hierarchies]
    return [list(codes) for codes in zip(*draws, strict=True)]


def _checked(
    scores: Sequence[HierarchyScores],
    allowed: Sequence | None,
    ends: Sequence | None,
    numerics: str = "auto",
) -> list[NestedSegments]:
    """Trusted copies, banded, with what is known worked into the persistence."""
    check_numerics(numerics)
    if isinstance(scores, HierarchyScores):
        raise TypeError("scores is one HierarchyScores; expected a list of them, one per sequence.")
    for name, known in (("allowed", allowed), ("ends", ends)):
        if known is not None and len(known) != len(scores):
            raise ValueError(f"{name} has {len(known)} entries, but there are {len(scores)} sequences.")
    hierarchies = []
    for s, one in enumerate(scores):
        if not isinstance(one, HierarchyScores):
            raise TypeError(f"scores[{s}] is a {type(one).__name__}; expected HierarchyScores.")
        mask = None if allowed is None else _checked_allowed(allowed[s], one, s)
        codes = None if ends is None else _checked_ends(ends[s], one, s)
        hierarchy = _banded(one, s)
        hierarchies.append(hierarchy if mask is codes is None else hierarchy.narrowed(mask, codes))
    return hierarchies


def _banded(one: HierarchyScores, s: int) -> NestedSegments:
    """Scores of sequence ``s``, checked; longest durations are those of the segments that are not forbidden."""
    if one.n_levels < 2:
        raise ValueError(f"scores[{s}].persistence has {one.n_levels} levels; expected at least 2.")
    if any(values.ndim != 3 for values in one.persistence) or not one.persistence[0].size:
        raise ValueError(
            f"scores[{s}].persistence has shapes {[values.shape for values in one.persistence]}; expected "
            "(n_timesteps, n_timesteps + 1, n_states[d]), all at least 1."
        )
    n_timesteps, sizes = one.n_timesteps, one.n_states
    pairs = [(n_timesteps, n, m) for n, m in pairwise(sizes)]
    expected = {
        "persistence": [(n_timesteps, n_timesteps + 1, n) for n in sizes],
        "initialisation": pairs,
        "transition": [(*pair, pair[-1]) for pair in pairs],
        "ending": pairs,
    }
    for name, shapes in expected.items():
        found = [values.shape for values in getattr(one, name)]
        if found != shapes or 0 in sizes:
            raise ValueError(f"scores[{s}].{name} has shapes {found}; expected {shapes}, all at least 1.")
    steps = np.arange(n_timesteps)
    persistence = [one.persistence[0][0, n_timesteps].copy()]
    for values in one.persistence[1:]:
        stop = steps[:, None] + steps + 1  # [i, n - 1]
        band = values[steps[:, None], np.minimum(stop, n_timesteps)]
        band[stop > n_timesteps] = -np.inf
        live = np.flatnonzero((band != -np.inf).any(axis=(0, 2)))
        n_durations = int(live[-1]) + 1 if len(live) else 1
        persistence.append(np.ascontiguousarray(band[:, :n_durations]))
    transition = [values.copy() for values in one.transition]
    for values in transition:
        values[0] = 0.0
    checked = (persistence, one.initialisation, transition, one.ending)
    for name, arrays in zip(_PARTS, checked, strict=True):
        for d, values in enumerate(arrays):
            if not values.max() < np.inf:  # NaN too
                place = [int(i) for i in np.argwhere(~(values < np.inf))[0]]
                value = values[tuple(place)]
                if name == "persistence":  # back to where the caller put it
                    place = [place[0], place[0] + place[1] + 1, place[2]] if d else [0, n_timesteps, *place]
                raise ValueError(
                    f"scores[{s}].{name}[{d}]{place} is {value}; expected a number or minus infinity."
                )
    return NestedSegments(persistence, one.initialisation, transition, one.ending, first=s)


def _checked_allowed(levels: Any, one: HierarchyScores, s: int) -> list[np.ndarray | None] | None:
    if levels is None:
        return None
    if len(levels) != one.n_levels:
        raise ValueError(f"allowed[{s}] has {len(levels)} levels, but scores[{s}] has {one.n_levels}.")
    masks: list[np.ndarray | None] = []
    for d, level in enumerate(levels):
        mask = None if level is None else np.asarray(level)
        wanted = (one.n_timesteps, one.n_states[d])
        if mask is not None and (mask.shape != wanted or mask.dtype != bool):
            raise ValueError(
                f"allowed[{s}][{d}] has shape {mask.shape} and dtype {mask.dtype}; expected bool, {wanted}."
            )
        masks.append(mask)
    return masks


def _checked_ends(values: Any, one: HierarchyScores, s: int) -> np.ndarray | None:
    if values is None:
        return None
    codes, wanted = np.asarray(values), (one.n_levels, one.n_timesteps)
    if codes.shape != wanted or codes.dtype.kind not in "iu":
        raise ValueError(
            f"ends[{s}] has shape {codes.shape} and dtype {codes.dtype}; expected int8, {wanted}."
        )
    if not np.isin(codes, (-1, 0, 1)).all():
        d, t = np.argwhere(~np.isin(codes, (-1, 0, 1)))[0]
        raise ValueError(f"ends[{s}][{d}, {t}] is {codes[d, t]}; expected 1, 0 or -1.")
    return codes.astype(np.int8)


def _checked_codes(x: ArrayLike, e: ArrayLike, one: NestedSegments) -> tuple[np.ndarray, np.ndarray]:
    s, wanted = one.first, (one.n_levels, one.n_total)
    states, ends = np.asarray(x), np.asarray(e)
    for name, values, kinds in (("x", states, "iu"), ("e", ends, "iub")):
        if values.shape != wanted or values.dtype.kind not in kinds:
            raise ValueError(
                f"{name} of codes[{s}] has shape {values.shape} and dtype {values.dtype}; expected int, {wanted}."
            )
    for d, size in enumerate(one.sizes):
        if states[d].min() < 0 or states[d].max() >= size:
            raise ValueError(f"x of codes[{s}] holds states outside 0..{size - 1} on level {d}.")
    if not np.isin(ends, (0, 1)).all():
        raise ValueError(f"e of codes[{s}] holds values other than 0 and 1.")
    ends = ends.astype(bool)
    changed = np.zeros(wanted, dtype=bool)
    changed[:, :-1] = ~ends[:, :-1] & (states[:, 1:] != states[:, :-1])
    early, unended, open_below = np.zeros((3, *wanted), dtype=bool)
    early[0, :-1], unended[:, -1], open_below[:-1] = ends[0, :-1], ~ends[:, -1], ends[:-1] & ~ends[1:]
    for fault, what in (
        (early, "the root has an end before the last step"),
        (unended, "a segment does not end with the sequence"),
        (open_below, "a segment ends, but its child goes on"),
        (changed, "a segment goes on, but its state changes"),
    ):
        if fault.any():
            d, t = np.argwhere(fault)[0]
            raise ValueError(f"codes[{s}] is no configuration: at level {d}, time step {t}, {what}.")
    return states.astype(np.intp), ends.astype(np.int8)


def _unbanded(found: NestedMarginals) -> HierarchyScores:
    n_timesteps = len(found.initialisation[0])
    steps = np.arange(n_timesteps)
    root = np.zeros((n_timesteps, n_timesteps + 1, len(found.persistence[0])))
    root[0, n_timesteps] = found.persistence[0]
    persistence = [root]
    for band in found.persistence[1:]:
        values = np.zeros((n_timesteps, n_timesteps + 1, band.shape[2]))
        start, index = np.nonzero(steps[:, None] + np.arange(band.shape[1]) < n_timesteps)
        values[start, start + index + 1] = band[start, index]
        persistence.append(values)
    return HierarchyScores(persistence, found.initialisation, found.transition, found.ending)
