"""Simulated mornings in a kitchen whose objects carry RFID tags: at most one sensor is on at a time."""

from __future__ import annotations

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
    pick,
    stream,
)

__all__ = ["make_kitchen_rfid"]

OBJECTS = (
    "kettle tap tea_tin teapot mug bread_bin toaster plate knife butter jam fridge milk bowl cereal spoon juice glass "
    "door newspaper phone pan egg_box bin dish_rack"
).split()

# (name, phase, objects with the most likely first, shape of the gamma duration, its mean in steps).
ACTIVITIES = (
    ("enter", 0, "door", 4, 6),
    ("obtain_newspaper", 1, "newspaper door", 5, 10),
    ("boil_water", 2, "kettle tap", 8, 14),
    ("make_tea", 2, "tea_tin teapot mug", 8, 14),
    ("pour_milk", 2, "milk fridge", 5, 8),
    ("toast_bread", 2, "toaster bread_bin", 9, 16),
    ("set_table", 2, "plate knife spoon", 6, 14),
    ("butter_bread", 2, "butter knife", 6, 12),
    ("spread_jam", 2, "jam knife", 6, 10),
    ("prepare_cereal", 2, "cereal bowl milk", 6, 14),
    ("pour_juice", 2, "juice glass", 5, 8),
    ("fry_egg", 2, "pan egg_box", 9, 20),
    ("eat", 3, "plate spoon", 8, 26),
    ("drink", 3, "mug glass", 6, 14),
    ("read_newspaper", 3, "newspaper", 4, 22),
    ("use_phone", 3, "phone", 3, 16),
    ("clear_table", 4, "plate bowl mug", 6, 12),
    ("wash_up", 4, "tap dish_rack", 6, 18),
    ("throw_away", 4, "bin", 4, 6),
)
LABELS = np.array([name for name, *_ in ACTIVITIES], dtype=object)
PHASES = [[a for a, row in enumerate(ACTIVITIES) if row[1] == phase] for phase in range(5)]
KEPT = 0.95
# How likely each of an activity's objects is, by how many it has.
SHARES = {1: cumulative([1.0]), 2: cumulative([0.65, 0.35]), 3: cumulative([0.5, 0.3, 0.2])}
BODIES = [[OBJECTS.index(name) for name in row[2].split()] for row in ACTIVITIES]

SEGMENT_DTYPE = [("label", "i8"), ("start", "i8"), ("stop", "i8")]


def make_kitchen_rfid(
    n_sequences: int = 20,
    *,
    on: float = 0.40,
    wrong: float = 0.06,
    return_X_y: bool = False,
    random_state: int | RandomState | Generator | None = None,
):
    """Mornings in a kitchen, seen by the tagged object that is touched.

    Nineteen activities in five phases, each at most once, in random order within a phase; durations are gamma
    distributed. At every step at most one of 25 sensors is on, so that a conjunction of sensors at one step is never
    true.

    Labels and observations come from separate random streams: `on` and `wrong` change no label, and the first n
    sequences do not depend on `n_sequences`.

    Parameters
    ----------
    n_sequences : int, default=20
    on : float, default=0.40
        Share of steps with a sensor that is on.
    wrong : float, default=0.06
        Share of those at which it is any sensor, instead of one of the activity's objects.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    random_state : int, RandomState, Generator or None, default=None
        Same integer, same mornings, on any platform.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (n_timesteps, 25)
            0 or 1.
        target : list of ndarray of shape (n_timesteps,), dtype=object
            Activities, as str.
        segments_ : list of structured ndarray
            One row per activity: ``label`` (number in ``target_names``), ``start``, ``stop`` (not included).
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Notes
    -----
    In place of recordings of breakfasts by Landwehr, Gutmann, Thon, Philipose and De Raedt, "Relational
    transformation-based tagging for activity recognition", Fundamenta Informaticae 2008, which are not public. Nothing
    of them is used.

    Examples
    --------
    >>> from sklearn_seqlab.datasets import make_kitchen_rfid
    >>> X, y = make_kitchen_rfid(2, random_state=0, return_X_y=True)
    >>> X[0].shape, y[0][0], float(X[0].sum(axis=1).max())
    ((324, 25), 'enter', 1.0)
    """
    check_count(n_sequences, "n_sequences", least=1)
    on, wrong = check_fraction(on, "on"), check_fraction(wrong, "wrong")
    seed = check_seed(random_state)
    segments = [_structure(stream(seed, 0, i)) for i in range(n_sequences)]
    data = [_observe(stream(seed, 1, i), table, on, wrong) for i, table in enumerate(segments)]
    target = [np.repeat(LABELS[table["label"]], table["stop"] - table["start"]) for table in segments]
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        segments_=segments,
        feature_names=list(OBJECTS),
        target_names=LABELS.copy(),
        DESCR=make_kitchen_rfid.__doc__,
    )


def _structure(rng: Generator) -> np.ndarray:
    """The activities of one morning."""
    labels: list[int] = []
    for phase, members in enumerate(PHASES):
        kept = [a for a, u in zip(members, rng.random(len(members)), strict=True) if u < KEPT or phase == 0]
        order = np.argsort(rng.random(len(kept)), kind="stable")
        labels += [kept[k] for k in order]
    durations = [gam(rng.random(), *ACTIVITIES[a][3:], lo=2) for a in labels]
    stop = np.cumsum(durations)
    return np.array(list(zip(labels, stop - durations, stop, strict=True)), dtype=SEGMENT_DTYPE)


def _observe(rng: Generator, segments: np.ndarray, on: float, wrong: float) -> np.ndarray:
    label = np.repeat(segments["label"], segments["stop"] - segments["start"])
    u = rng.random((len(label), 3))
    touched = np.flatnonzero(u[:, 0] < on)
    data = np.zeros((len(label), len(OBJECTS)))
    for t in touched:
        body = BODIES[label[t]]
        is_any = u[t, 1] < wrong
        data[t, integer(u[t, 2], len(OBJECTS)) if is_any else body[pick(u[t, 2], SHARES[len(body)])]] = 1.0
    return data
