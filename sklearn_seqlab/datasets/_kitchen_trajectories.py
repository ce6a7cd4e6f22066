"""Simulated tracks of a person who prepares a meal, with two levels of labels."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.random import Generator, RandomState
from sklearn.utils import Bunch

from sklearn_seqlab.datasets._simulators_random import (
    check_count,
    check_fraction,
    check_seed,
    cumulative,
    gam,
    integer,
    normal,
    pick,
    stream,
)

__all__ = ["make_kitchen_trajectories"]

LANDMARKS = {
    "door": (0.6, 0.6),
    "cupboard": (2.0, 5.2),
    "fridge": (4.0, 5.2),
    "stove": (6.0, 5.2),
    "table": (5.6, 2.4),
    "tv": (2.2, 2.4),
}

# (name, shape of the gamma duration, its mean in steps); a leg's number is its place here plus one.
LEGS = (
    ("door>cupboard", 9, 8),
    ("cupboard>fridge", 12, 9),
    ("fridge>table", 7, 14),
    ("table>door", 9, 8),
    ("door>tv", 9, 8),
    ("tv>cupboard", 9, 9),
    ("fridge>tv", 7, 16),
    ("tv>door", 9, 8),
    ("fridge>stove", 14, 12),
    ("stove>table", 8, 13),
    ("fridge>door", 9, 9),
    ("table>fridge", 8, 9),
)

# activity -> (start legs, leg -> next legs); 0 ends the activity. The order is the one `pick` sees.
ACTIVITIES = {
    "short_meal": (
        {1: 1.0},
        {
            1: {2: 1.0},
            2: {3: 0.9, 11: 0.1},
            3: {4: 0.65, 12: 0.35},
            12: {3: 0.7, 11: 0.3},
            4: {0: 1.0},
            11: {0: 1.0},
        },
    ),
    "have_snack": (
        {5: 0.7, 1: 0.3},
        {
            1: {2: 1.0},
            5: {6: 1.0},
            6: {2: 1.0},
            2: {7: 0.9, 11: 0.1},
            7: {8: 0.7, 6: 0.3},
            8: {0: 1.0},
            11: {0: 1.0},
        },
    ),
    "normal_meal": (
        {1: 1.0},
        {
            1: {2: 1.0},
            2: {9: 1.0},
            9: {10: 1.0},
            10: {4: 0.5, 12: 0.5},
            12: {9: 0.35, 3: 0.45, 11: 0.2},
            3: {4: 0.7, 12: 0.3},
            4: {0: 1.0},
            11: {0: 1.0},
        },
    ),
}

ACTIVITY_NAMES = np.array(list(ACTIVITIES), dtype=object)
LEG_NAMES = np.array([name for name, _, _ in LEGS], dtype=object)
LEG_ENDS = [tuple(np.array(LANDMARKS[place]) for place in name.split(">")) for name in LEG_NAMES]

CHANNELS = ["x", "y", "x_velocity", "y_velocity", "speed"]
N_CELLS = 48
STILL = 8
CELLS = [f"cell_{i:02d}" for i in range(N_CELLS)] + [f"heading_{i}" for i in range(STILL)] + ["heading_still"]
FEATURES = {"channels": CHANNELS, "cells": CELLS, "both": CHANNELS + CELLS, "positions": ["x", "y"]}

SEGMENT_DTYPE = [("activity", "i8"), ("leg", "i8"), ("start", "i8"), ("stop", "i8")]


def _choice(table: dict[int, float]) -> tuple[list[int], list[float]]:
    return list(table), cumulative(list(table.values()))


# The same tables in the form the sampling loop wants.
START = [_choice(start) for start, _ in ACTIVITIES.values()]
NEXT = [{leg: _choice(row) for leg, row in graph.items()} for _, graph in ACTIVITIES.values()]


def make_kitchen_trajectories(
    n_sequences: int = 90,
    *,
    n_activities: tuple[int, int] = (1, 1),
    representation: str = "channels",
    noise: float = 1.0,
    hide_labels: tuple[float, float] = (0, 0),
    hide_ends: tuple[float, float] = (0, 0),
    hide_steps: tuple[float, float] = (0, 0),
    return_X_y: bool = False,
    random_state: int | RandomState | Generator | None = None,
):
    """Tracks of a person in a kitchen, labelled by activity and by leg of the walk.

    A room of 8 by 6 metres holds a door, a cupboard, a fridge, a stove, a table and a television. A leg is
    the walk from one of them to another and the stay at its end; an activity (a short meal, a snack, a
    normal meal) is a random path over legs. Durations of legs are gamma distributed, so neither level is a
    Markov chain over steps. A ceiling camera sees the place with noise and, rarely, somewhere else.

    Labels, observations and hiding come from separate random streams: `noise` and `representation` change
    no label, hiding changes no data, and the first n sequences do not depend on `n_sequences`.

    Parameters
    ----------
    n_sequences : int, default=90
        Number of tracks. Sequence ``i`` begins with activity ``i % 3``.
    n_activities : pair of int, default=(1, 1)
        Smallest and largest number of activities in a track.
    representation : {"channels", "cells", "both", "positions"}, default="channels"
        "channels": place, velocity and speed, centred and scaled (5 columns). "cells": one column per
        square metre and per heading, 0 or 1 (57 columns). "both": the two side by side. "positions": the
        place as seen, in metres.
    noise : float >= 0, default=1.0
        Factor on the camera's error (standard deviation .27 m) and on the share of wild jumps (3 %).
    hide_labels : pair of float, default=(0, 0)
        Share of activities and of legs whose labels are hidden in ``target_partial``.
    hide_ends : pair of float, default=(0, 0)
        Share of activities and of legs whose end indicators are hidden in ``target_partial``.
    hide_steps : pair of float, default=(0, 0)
        Share of single steps whose activity or leg is hidden in ``target_partial``.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    random_state : int, RandomState, Generator or None, default=None
        Same integer, same tracks, on any platform.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (n_timesteps, n_features)
        target : list of ndarray of shape (n_timesteps, 2), dtype=object
            Activity and leg, as str.
        target_partial : list of pairs (labels, ends)
            Both of shape (n_timesteps, 2), dtype=object, None where hidden; ``ends`` is 1 on the last step
            of a segment and 0 elsewhere.
        segments_ : list of structured ndarray
            One row per leg: ``activity`` (0..2), ``leg`` (1..12), ``start``, ``stop`` (not included).
        transitions : ndarray of shape (3, 12, 13)
            Probability that leg ``i + 1`` of an activity is followed by leg ``j``; ``j = 0`` ends it.
        start : ndarray of shape (3, 13)
            Probability that an activity begins with leg ``j``.
        hierarchy : dict of str to list of str
            Legs that may occur in each activity.
        places : list of ndarray of shape (n_timesteps, 2)
            True place, in metres.
        feature_names, target_names, DESCR
            ``target_names`` holds the activities and the legs.
    (data, target) : tuple if `return_X_y` is True

    Notes
    -----
    The scenario (three kinds of meal, legs between landmarks, positions and velocities as inputs) follows
    Nguyen, Phung, Venkatesh and Bui, "Learning and detecting activities from movement trajectories using
    the hierarchical hidden Markov model", CVPR 2005, whose recordings are not public. Nothing of them is
    used.

    Examples
    --------
    >>> from sklearn_seqlab.datasets import make_kitchen_trajectories
    >>> X, y = make_kitchen_trajectories(2, random_state=0, return_X_y=True)
    >>> X[0].shape, tuple(y[0][0])
    ((51, 5), ('short_meal', 'door>cupboard'))
    """
    check_count(n_sequences, "n_sequences", least=1)
    lo, hi = _check_range(n_activities)
    if representation not in FEATURES:
        raise ValueError(f"representation must be one of {sorted(FEATURES)}, but is {representation!r}.")
    if not isinstance(noise, Real) or not 0 <= float(noise) < np.inf:
        raise ValueError(f"noise must be a finite number >= 0, but is {noise!r}.")
    hiding = {
        name: _check_shares(pair, name)
        for name, pair in (("hide_labels", hide_labels), ("hide_ends", hide_ends), ("hide_steps", hide_steps))
    }
    seed = check_seed(random_state)

    data, target, partial, segments, places = [], [], [], [], []
    for i in range(n_sequences):
        legs, walk_shares = _structure(stream(seed, 0, i), i % 3, lo, hi)
        place, seen = _observe(stream(seed, 1, i), legs, walk_shares, noise)
        labels = _labels(legs)
        data.append(_represent(seen, representation))
        target.append(labels)
        partial.append(_hide(seed, i, legs, labels, **hiding))
        segments.append(legs)
        places.append(place)
    if return_X_y:
        return data, target
    transitions, start = _tables()
    return Bunch(
        data=data,
        target=target,
        target_partial=partial,
        segments_=segments,
        transitions=transitions,
        start=start,
        hierarchy={
            name: [LEG_NAMES[leg - 1] for leg in sorted(graph)] for name, (_, graph) in ACTIVITIES.items()
        },
        places=places,
        feature_names=list(FEATURES[representation]),
        target_names=[ACTIVITY_NAMES.copy(), LEG_NAMES.copy()],
        DESCR=make_kitchen_trajectories.__doc__,
    )


def _check_range(pair) -> tuple[int, int]:
    try:
        lo, hi = pair
    except (TypeError, ValueError):
        lo = hi = None
    if not (isinstance(lo, int | np.integer) and isinstance(hi, int | np.integer) and 1 <= lo <= hi):
        raise ValueError(f"n_activities must be a pair of int with 1 <= low <= high, but is {pair!r}.")
    return int(lo), int(hi)


def _check_shares(pair, name: str) -> tuple[float, float]:
    if np.ndim(pair) != 1 or len(pair) != 2:
        raise ValueError(f"{name} must be a pair of shares (activities, legs), but is {pair!r}.")
    return check_fraction(pair[0], f"{name}[0]"), check_fraction(pair[1], f"{name}[1]")


def _structure(rng: Generator, first: int, lo: int, hi: int) -> tuple[np.ndarray, list[float]]:
    """Legs of one sequence as a segment table, and the share of each leg spent walking."""
    n_activities = lo + int(integer(rng.random(), hi - lo + 1))
    rows, walk_shares, time = [], [], 0
    activity = first
    for number in range(n_activities):
        if number > 0:
            others = [a for a in range(3) if a != activity]
            activity = others[pick(rng.random(), [0.5, 1.0])]
        legs, p = START[activity]
        leg = legs[pick(rng.random(), p)]
        while leg != 0:
            _, k, m = LEGS[leg - 1]
            duration = gam(rng.random(), k, m, lo=2)
            walk_shares.append(0.4 + 0.4 * rng.random())
            rows.append((activity, leg, time, time + duration))
            time += duration
            legs, p = NEXT[activity][leg]
            leg = legs[pick(rng.random(), p)]
    return np.array(rows, dtype=SEGMENT_DTYPE), walk_shares


def _observe(rng: Generator, legs, walk_shares, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """True place and place as seen, in metres, of every step."""
    bends = 0.35 * normal(rng.random(len(legs)))
    n_timesteps = int(legs["stop"][-1])
    u = rng.random((n_timesteps, 5))
    place = np.empty((n_timesteps, 2))
    for (_, leg, start, stop), share, bend in zip(legs.tolist(), walk_shares, bends, strict=True):
        begin, end = LEG_ENDS[leg - 1]
        way = end - begin
        across = np.array([-way[1], way[0]]) / np.hypot(*way)
        middle = (begin + end) / 2 + bend * across
        g = np.minimum(1.0, (np.arange(stop - start) + 0.5) / (share * (stop - start)))
        g = (g * g * (3 - 2 * g))[:, None]
        place[start:stop] = (1 - g) ** 2 * begin + 2 * g * (1 - g) * middle + g**2 * end
    seen = place + noise * 0.27 * normal(u[:, :2])
    jumps = u[:, 2] < 0.03 * noise
    seen[jumps] = u[jumps, 3:] * (8, 6)
    return place, np.clip(seen, 0, (7.999, 5.999))


def _represent(seen: np.ndarray, representation: str) -> np.ndarray:
    if representation == "positions":
        return seen
    velocity = np.diff(seen, axis=0, prepend=seen[:1])
    speed = np.hypot(velocity[:, 0], velocity[:, 1])
    parts = []
    if representation in ("channels", "both"):
        parts.append((seen - (4, 3)) / 2)
        parts.append(velocity / 0.8)
        parts.append((speed[:, None] - 0.8) / 0.8)
    if representation in ("cells", "both"):
        cell = np.floor(seen[:, 0]).astype(np.intp) + 8 * np.floor(seen[:, 1]).astype(np.intp)
        angle = np.arctan2(velocity[:, 1], velocity[:, 0])
        heading = np.floor((angle + np.pi) / (np.pi / 4) + 0.5).astype(np.intp) % 8
        heading[speed < 0.5] = STILL
        one_hot = np.zeros((len(seen), len(CELLS)))
        steps = np.arange(len(seen))
        one_hot[steps, cell] = 1.0
        one_hot[steps, N_CELLS + heading] = 1.0
        parts.append(one_hot)
    return np.hstack(parts)


def _labels(legs: np.ndarray) -> np.ndarray:
    duration = legs["stop"] - legs["start"]
    labels = np.empty((int(legs["stop"][-1]), 2), dtype=object)
    labels[:, 0] = np.repeat(ACTIVITY_NAMES[legs["activity"]], duration)
    labels[:, 1] = np.repeat(LEG_NAMES[legs["leg"] - 1], duration)
    return labels


def _hide(seed, i, legs, labels, *, hide_labels, hide_ends, hide_steps) -> tuple[np.ndarray, np.ndarray]:
    """Labels and end indicators of sequence `i`, with None where the options hide them."""
    labels = labels.copy()
    # Two activities of one kind never follow each other, so a change of kind is a change of activity.
    last = np.flatnonzero(np.diff(legs["activity"], append=-1))
    stops = [legs["stop"][last], legs["stop"]]
    ends = np.zeros(labels.shape, dtype=object)
    for level in range(2):
        ends[stops[level] - 1, level] = 1
    if not any(hide_labels + hide_ends + hide_steps):
        return labels, ends
    rng = stream(seed, 2, i)
    u_segments = [rng.random((len(stop), 2)) for stop in stops]
    u_steps = rng.random(labels.shape)
    for level in range(2):
        duration = np.diff(stops[level], prepend=0)
        u = np.repeat(u_segments[level], duration, axis=0)
        labels[u[:, 0] < hide_labels[level], level] = None
        without_end = u[:, 1] < hide_ends[level]
        without_end[-1] = False  # every segment ends where the sequence does: nothing to hide
        ends[without_end, level] = None
        labels[u_steps[:, level] < hide_steps[level], level] = None
    return labels, ends


def _tables() -> tuple[np.ndarray, np.ndarray]:
    transitions = np.zeros((len(ACTIVITIES), len(LEGS), len(LEGS) + 1))
    start = np.zeros((len(ACTIVITIES), len(LEGS) + 1))
    for a, (first, graph) in enumerate(ACTIVITIES.values()):
        start[a, list(first)] = list(first.values())
        for leg, row in graph.items():
            transitions[a, leg - 1, list(row)] = list(row.values())
    return transitions, start
