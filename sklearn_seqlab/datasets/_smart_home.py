"""Simulated days in a home with binary sensors, activities over sub-activities, and planted rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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

__all__ = ["make_smart_home"]

DAY = 1440
# Minutes simulated beyond the last midnight, so that nothing in a day depends on where the stream is cut.
MARGIN = 60

ROOMS = np.array(["bedroom", "bathroom", "kitchen", "living", "hall", "outside"], dtype=object)
BEDROOM, BATHROOM, KITCHEN, LIVING, HALL, OUTSIDE = range(6)

# label -> (room, sub-activities as (name, shape of the gamma duration, its mean in minutes)).
ACTIVITIES = {
    "idle": (None, (("wander", 2, 9),)),
    "sleep": (BEDROOM, (("settle", 3, 10), ("asleep", 12, 150))),
    "toilet": (BATHROOM, (("use", 6, 5), ("wash_hands", 4, 3))),
    "shower": (BATHROOM, (("wash", 6, 7), ("dry", 4, 4))),
    "breakfast": (KITCHEN, (("prepare", 6, 12), ("eat", 8, 16), ("tidy", 4, 6))),
    "dinner": (KITCHEN, (("prepare", 6, 15), ("eat", 8, 18), ("tidy", 4, 6))),
    "relax": (LIVING, (("watch", 4, 35), ("rest", 4, 20))),
    "study": (LIVING, (("read", 4, 35), ("write", 4, 20))),
    "leave": (OUTSIDE, (("away", 3, 120),)),
}
LABELS = np.array(list(ACTIVITIES), dtype=object)
IDLE, SLEEP, TOILET, SHOWER, BREAKFAST, DINNER, RELAX, STUDY, LEAVE = range(9)
SUB_NAMES = np.full((len(ACTIVITIES), 3), None, dtype=object)
for _label, (_, _subs) in enumerate(ACTIVITIES.values()):
    SUB_NAMES[_label, : len(_subs)] = [_name for _name, _, _ in _subs]
IDLE_ROOMS = cumulative([0.2, 0.05, 0.3, 0.35, 0.1])

BASE = np.array(
    [
        [0, 3, 5, 3, 3, 3, 5, 5, 4],
        [3, 0, 8, 3, 2, 1, 0, 0, 0],
        [6, 2, 0, 3, 3, 3, 3, 3, 1],
        [5, 1, 0, 0, 3, 3, 3, 3, 2],
        [5, 0, 2, 2, 0, 0, 3, 3, 4],
        [5, 0, 2, 2, 0, 0, 4, 3, 2],
        [5, 2, 4, 2, 3, 3, 0, 1, 2],
        [5, 1, 4, 2, 3, 3, 1, 0, 2],
        [6, 0, 4, 2, 2, 3, 4, 4, 0],
    ]
)
PERIOD_STARTS = [0, 360, 600, 1020, 1320]
PERIODS = np.array(
    [
        [0.3, 12, 1, 0.05, 0.05, 0.02, 0.1, 0.05, 0.02],
        [1, 0.3, 1, 2, 4, 0.3, 0.5, 0.6, 1],
        [1, 0.05, 1, 0.3, 0.8, 1.5, 1.2, 1.5, 1.6],
        [1, 0.1, 1, 0.6, 0.3, 4, 2, 1.5, 0.5],
        [1, 6, 1, 0.6, 0.05, 0.3, 1, 0.5, 0.1],
    ]
)
NEXT = [[cumulative(base * factor / (base * factor).sum()) for factor in PERIODS] for base in BASE]
PERIOD_OF_MINUTE = (np.searchsorted(PERIOD_STARTS, np.arange(DAY), side="right") - 1).tolist()

SENSORS = [f"motion_{room}" for room in ROOMS[:OUTSIDE]]
SENSORS += ["door_bedroom", "door_bathroom", "door_front", "bed", "chair", "tv"]
SENSORS += ["fridge", "plates", "groceries", "pan", "flush", "tap", "lamp", "remote", "radio"]
SENSORS += ["kettle", "cup", "drawer", "desk"]
N_HOUSE = len(SENSORS)
DOORS = {5: BEDROOM, 6: BATHROOM, 7: OUTSIDE}
BED, CHAIR, TV, FIRST_OBJECT = 8, 9, 10, 11
DISTRACTOR_RATE = 0.02

DEFAULT_RULES = (
    ("breakfast", ("fridge", "plates"), None, "dinner"),
    ("dinner", ("groceries", "pan"), None, "breakfast"),
    ("toilet", ("flush", "tap"), None, "shower"),
    ("relax", ("lamp", "remote", "radio"), None, "study"),
    ("breakfast", ("kettle", "cup"), (1, 3), "dinner"),
    ("study", ("drawer", "desk"), (1, 3), "relax"),
)
EVENT_RATE = 0.12
# Which inputs (places in the rule's body) are on at which step of an event, for two and three inputs. Joint
# and split events switch every input, and every pair of three, equally often: only the whole body tells.
JOINT = {2: ((0, 0), (0, 1)), 3: ((0, 0), (0, 1), (0, 2), (1, 0), (2, 1), (3, 2))}
SPLIT = {2: ((0, 0), (1, 1)), 3: ((0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 2))}

SEGMENT_DTYPE = [("home", "i8"), ("label", "i8"), ("room", "i8"), ("start", "i8"), ("stop", "i8")]
EVENT_DTYPE = [("rule", "i8"), ("home", "i8"), ("step", "i8"), ("label", "i8"), ("joint", "?")]


class _Rule(NamedTuple):
    label: int
    sensors: tuple[int, ...]
    lag: tuple[int, int] | None
    rival: int


class _Home(NamedTuple):
    """One home's whole stream, margin included, before labels are spoilt."""

    segments: np.ndarray  # structured, SEGMENT_DTYPE; the last may reach beyond the stream
    label: np.ndarray  # (n_minutes,)
    sub: np.ndarray  # (n_minutes,), place of the sub-activity in its activity
    room: np.ndarray  # (n_minutes,)
    sensor_factor: np.ndarray  # (11,)


def make_smart_home(
    n_days: int = 28,
    n_sensors: int = 26,
    *,
    n_homes: int = 1,
    rules="default",
    noise: float = 0.2,
    idle: str = "class",
    label_noise: float = 0.0,
    boundary_jitter: int = 0,
    missing: float = 0.0,
    return_X_y: bool = False,
    random_state: int | RandomState | Generator | None = None,
):
    """Days of a simulated home: binary sensors, one label a minute, and rules with a known truth.

    A person goes through nine activities, each a chain of sub-activities with gamma distributed durations;
    what comes next depends on the activity and the time of day. Motion, door and furniture sensors follow
    the rooms. Objects (fridge, plates, ...) fire by planted rules: no single one of a rule's objects tells
    its label from the rule's rival, their conjunction does.

    Structure, observations and the spoiling of labels come from separate random streams: label options
    change no sensor, `noise` changes no label, and the first n days do not depend on `n_days`.

    Parameters
    ----------
    n_days : int, default=28
        Days per home. Each day is a sequence of 1,440 one-minute steps from midnight to midnight.
    n_sensors : int, default=26
        At least 24; every further one is a distractor, on in 2 % of all minutes.
    n_homes : int, default=1
        Home 0 has the nominal durations and sensor rates, every other one its own.
    rules : "default" or list of (label, sensors, lag, rival), default="default"
        Labels and sensors by name or number. Two or three sensors that are on in the same minute more
        often under `label` than under `rival` (``lag=None``), or two of which the first was on ``lag[0]``
        to ``lag[1]`` minutes before the second. An empty list plants none.
    noise : float, default=0.2
        Share of planted events that show the rival's pattern.
    idle : {"class", "missing"}, default="class"
        Whether minutes without an activity carry the label "idle" or None.
    label_noise : float, default=0.0
        Share of activities that carry a wrong label.
    boundary_jitter : int, default=0
        Starts of activities are moved by up to this many minutes (at most 60). Every activity keeps a
        minute and none moves past its neighbours.
    missing : float, default=0.0
        Share of activities whose labels are None.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    random_state : int, RandomState, Generator or None, default=None
        Same integer, same home, on any platform.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (1440, n_sensors)
            0 or 1; one array per day, home 0 first.
        target : list of ndarray of shape (1440,), dtype=object
            Labels as an annotator gives them, None where missing.
        target_clean, target_sub, rooms : lists of ndarray of shape (1440,), dtype=object
            The true label, sub-activity (named within its activity) and room ("outside" when away).
        home : ndarray of shape (n_homes * n_days,)
            Home of each sequence.
        segments_ : structured ndarray
            True activities: ``home``, ``label``, ``room``, ``start``, ``stop`` (not included), in minutes
            of the home's stream; they cross midnights.
        rules : list of dict
            ``label``, ``sensors``, ``lag``, ``rival`` by name, and ``support``: in how many minutes the
            rule's body is true under the label, under the rival, and elsewhere.
        events_ : structured ndarray
            Planted events: ``rule``, ``home``, ``step`` (minute of the home's stream), ``label``, ``joint``.
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Examples
    --------
    >>> from sklearn_seqlab.datasets import make_smart_home
    >>> home = make_smart_home(n_days=2, random_state=0)
    >>> len(home.data), home.data[0].shape, home.target[0][0]
    (2, (1440, 26), 'sleep')
    """
    check_count(n_days, "n_days", least=1)
    check_count(n_sensors, "n_sensors", least=N_HOUSE)
    check_count(n_homes, "n_homes", least=1)
    check_count(boundary_jitter, "boundary_jitter", least=0, most=MARGIN)
    if idle not in ("class", "missing"):
        raise ValueError(f"idle must be 'class' or 'missing', but is {idle!r}.")
    noise = check_fraction(noise, "noise")
    label_noise = check_fraction(label_noise, "label_noise")
    missing = check_fraction(missing, "missing")
    sensors = SENSORS + [f"distractor_{i}" for i in range(n_sensors - N_HOUSE)]
    planted = _check_rules(rules, sensors)
    seed = check_seed(random_state)

    n_kept = DAY * n_days
    data: list[np.ndarray] = []
    target: list[np.ndarray] = []
    clean: list[np.ndarray] = []
    subs: list[np.ndarray] = []
    rooms: list[np.ndarray] = []
    segments, events = [], []
    support = np.zeros((len(planted), 3), dtype=np.intp)
    for h in range(n_homes):
        home = _structure(seed, h, n_kept + MARGIN)
        on = _sensors(seed, h, home, n_sensors)
        for k, rule in enumerate(planted):
            events.append(_plant(stream(seed, h, 3, k), on, home, rule, noise, k, h, n_kept))
        on = on[:n_kept]
        for k, rule in enumerate(planted):  # once all are planted: rules may share sensors
            support[k] += _count_body(on, home.label[:n_kept], rule)
        given = _annotate(stream(seed, h, 4), home, label_noise, boundary_jitter, missing)[:n_kept]
        if idle == "missing":
            given[given == "idle"] = None
        for days, stretch in (
            (data, on.astype(np.float64)),
            (target, given),
            (clean, LABELS[home.label[:n_kept]]),
            (subs, SUB_NAMES[home.label[:n_kept], home.sub[:n_kept]]),
            (rooms, ROOMS[home.room[:n_kept]]),
        ):
            days.extend(stretch.reshape(n_days, DAY, *stretch.shape[1:]))
        kept = home.segments[home.segments["start"] < n_kept].copy()
        kept["stop"] = np.minimum(kept["stop"], n_kept)
        segments.append(kept)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_clean=clean,
        target_sub=subs,
        rooms=rooms,
        home=np.repeat(np.arange(n_homes), n_days),
        segments_=np.concatenate(segments),
        rules=[
            {
                "label": LABELS[rule.label],
                "sensors": tuple(sensors[j] for j in rule.sensors),
                "lag": rule.lag,
                "rival": LABELS[rule.rival],
                "support": tuple(counts.tolist()),
            }
            for rule, counts in zip(planted, support, strict=True)
        ],
        events_=np.concatenate(events) if events else np.empty(0, dtype=EVENT_DTYPE),
        feature_names=sensors,
        target_names=LABELS[1:].copy() if idle == "missing" else LABELS.copy(),
        DESCR=make_smart_home.__doc__,
    )


def _check_rules(rules, sensors: list[str]) -> list[_Rule]:
    if isinstance(rules, str) and rules == "default":
        rules = DEFAULT_RULES
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise ValueError(f"rules must be 'default' or a list of rules, but is {rules!r}.")
    checked = []
    for k, rule in enumerate(rules):
        if isinstance(rule, str) or not hasattr(rule, "__len__") or len(rule) != 4:
            raise ValueError(f"rules[{k}] must be (label, sensors, lag, rival), but is {rule!r}.")
        label, body, lag, rival = rule
        label = _number(label, LABELS.tolist(), f"rules[{k}] label")
        rival = _number(rival, LABELS.tolist(), f"rules[{k}] rival")
        if isinstance(body, str) or not isinstance(body, Iterable):
            raise ValueError(f"rules[{k}] needs a tuple of sensors, but has {body!r}.")
        body = tuple(_number(s, sensors, f"rules[{k}] sensor") for s in body)
        if label == rival:
            raise ValueError(
                f"rules[{k}] needs a rival other than its label, but both are {LABELS[label]!r}."
            )
        if len(set(body)) != len(body) or len(body) not in ((2, 3) if lag is None else (2,)):
            wish = "two or three different sensors" if lag is None else "exactly two different sensors"
            raise ValueError(f"rules[{k}] needs {wish}, but has {rule[1]!r}.")
        if lag is not None:
            is_pair = isinstance(lag, Iterable) and len(lag := tuple(lag)) == 2
            lo, hi = lag if is_pair else (0, 0)
            if not all(isinstance(d, int | np.integer) for d in (lo, hi)) or not 1 <= lo <= hi < MARGIN:
                raise ValueError(
                    f"rules[{k}] needs a lag (low, high) with 1 <= low <= high < {MARGIN}, but has {lag!r}."
                )
            lag = (int(lo), int(hi))
        checked.append(_Rule(label, body, lag, rival))
    return checked


def _number(value, names: list[str], what: str) -> int:
    if isinstance(value, str) and value in names:
        return names.index(value)
    if isinstance(value, int | np.integer) and 0 <= value < len(names):
        return int(value)
    raise ValueError(f"{what} must be one of {names} or its number, but is {value!r}.")


def _structure(seed: int, h: int, n_minutes: int) -> _Home:
    """Activities, sub-activities and rooms of home `h`, minute by minute."""
    rng = stream(seed, h, 0)
    z = normal(rng.random(20))
    if h == 0:
        z = np.zeros(20)
    duration_factor = np.exp(0.15 * z[:9]).tolist()
    parts = [
        [(k, mean * factor) for _, k, mean in subs]
        for (_, subs), factor in zip(ACTIVITIES.values(), duration_factor, strict=True)
    ]
    fixed_room = [room for room, _ in ACTIVITIES.values()]

    segments, sub, sub_duration = [], [], []
    label, time = SLEEP, 0
    while time < n_minutes:
        start = time
        room = pick(rng.random(), IDLE_ROOMS) if label == IDLE else fixed_room[label]
        for place, (k, mean) in enumerate(parts[label]):
            duration = gam(rng.random(), k, mean, lo=1)
            sub.append(place)
            sub_duration.append(duration)
            time += duration
        segments.append((h, label, room, start, time))
        label = pick(rng.random(), NEXT[label][PERIOD_OF_MINUTE[time % DAY]])
    table = np.array(segments, dtype=SEGMENT_DTYPE)
    duration = table["stop"] - table["start"]
    return _Home(
        segments=table,
        label=np.repeat(table["label"], duration)[:n_minutes],
        sub=np.repeat(sub, sub_duration)[:n_minutes],
        room=np.repeat(table["room"], duration)[:n_minutes],
        sensor_factor=np.exp(0.2 * z[9:20]),
    )


def _on_probability(label: int, asleep: bool, room: int) -> np.ndarray:
    p = np.full(N_HOUSE, 0.002)
    p[:OUTSIDE] = 0.01
    p[list(DOORS)] = 0.0  # doors have a process of their own
    if room != OUTSIDE:
        p[room] = 0.02 if asleep else 0.6
    p[BED] = 0.92 if label == SLEEP else 0.05 if room == BEDROOM else 0.002
    p[CHAIR] = 0.7 if label in (RELAX, STUDY) else 0.1 if room == LIVING else 0.002
    p[TV] = 0.5 if label in (RELAX, STUDY) else 0.1 if room == LIVING else 0.002
    return p


def _sensors(seed: int, h: int, home: _Home, n_sensors: int) -> np.ndarray:
    """Sensors of home `h` before rules are planted; bool, (n_minutes, n_sensors)."""
    n_minutes = len(home.label)
    asleep = (home.label == SLEEP) & (home.sub == 1)
    states, state = np.unique(np.stack([home.label, asleep, home.room]), axis=1, return_inverse=True)
    p = np.array([_on_probability(*column) for column in states.T])
    p[:, :FIRST_OBJECT] = np.minimum(p[:, :FIRST_OBJECT] * home.sensor_factor, 0.95)

    on = np.empty((n_minutes, n_sensors), dtype=bool)
    house, distractors = stream(seed, h, 1), stream(seed, h, 5)
    for start in range(0, n_minutes, 16 * DAY):  # by stretches: the uniforms need eight times the memory
        rows = slice(start, min(start + 16 * DAY, n_minutes))
        size = rows.stop - rows.start
        on[rows, :N_HOUSE] = house.random((size, N_HOUSE)) < p[state.ravel()[rows]]
        on[rows, N_HOUSE:] = distractors.random((size, n_sensors - N_HOUSE)) < DISTRACTOR_RATE

    changes = np.flatnonzero(np.diff(home.room, prepend=-1))
    u = stream(seed, h, 2).random((len(changes), len(DOORS), 2))
    for place, (sensor, room) in enumerate(DOORS.items()):
        passed = (home.room[changes] == room) | ((changes > 0) & (home.room[changes - 1] == room))
        opened = passed & (u[:, place, 0] < 0.9)
        for t, v in zip(changes[opened], u[opened, place, 1], strict=True):
            on[t : t + gam(v, 2, 4, lo=1), sensor] = True
    return on


def _plant(rng, on, home: _Home, rule: _Rule, noise: float, k: int, h: int, n_kept: int) -> np.ndarray:
    """Switch on the sensors of one rule's events, in place; return the events of the kept minutes."""
    n_minutes, n_inputs = len(on), len(rule.sensors)
    u = rng.random((n_minutes, 3))
    if rule.lag is None:
        span = busy = {2: 2, 3: 4}[n_inputs]
    else:
        span, busy = rule.lag[1] + 1, 2 * rule.lag[1] + 1
    duration = home.segments["stop"] - home.segments["start"]
    run_stop = np.minimum(np.repeat(home.segments["stop"], duration)[:n_minutes], n_minutes)
    steps = np.arange(n_minutes)
    possible = (home.label == rule.label) | (home.label == rule.rival)
    possible &= (u[:, 0] < EVENT_RATE) & (steps + span <= run_stop)
    events, free = [], 0
    for t in np.flatnonzero(possible).tolist():
        if t < free:
            continue
        free = t + busy
        label = int(home.label[t])
        joint = bool(u[t, 1] >= noise) == (label == rule.label)
        if rule.lag is None:
            pattern = (JOINT if joint else SPLIT)[n_inputs]
        else:
            lag = rule.lag[0] + int(integer(u[t, 2], rule.lag[1] - rule.lag[0] + 1))
            pattern = ((0, 0), (lag, 1)) if joint else ((0, 1), (lag, 0))
        for delay, place in pattern:
            on[t + delay, rule.sensors[place]] = True
        events.append((k, h, t, label, joint))
    table = np.array(events, dtype=EVENT_DTYPE)
    return table[table["step"] < n_kept]


def _count_body(on: np.ndarray, label: np.ndarray, rule: _Rule) -> list[int]:
    """Minutes with a true body under the rule's label, under its rival, and elsewhere."""
    if rule.lag is None:
        body = on[:, rule.sensors].all(axis=1)
    else:
        first, second = rule.sensors
        before = np.zeros(len(on), dtype=bool)
        for lag in range(rule.lag[0], rule.lag[1] + 1):
            before[lag:] |= on[:-lag, first]
        body = before & on[:, second]
    under, rival = label == rule.label, label == rule.rival
    return [(body & under).sum(), (body & rival).sum(), (body & ~under & ~rival).sum()]


def _annotate(rng: Generator, home: _Home, label_noise: float, jitter: int, missing: float) -> np.ndarray:
    """Labels as given: wrong, moved or missing where the options say so."""
    segments = home.segments
    u = rng.random((len(segments), 4))
    given = segments["label"].copy()
    other = integer(u[:, 1], len(LABELS) - 1)
    wrong = u[:, 0] < label_noise
    given[wrong] = (other + (other >= given))[wrong]

    move = integer(u[:, 2], 2 * jitter + 1) - jitter
    start = segments["start"].copy()
    for s in range(1, len(segments)):
        # Inside the two true segments that meet here, and after the start just given to the earlier one:
        # both then keep at least a minute.
        earliest = max(segments["start"][s - 1], start[s - 1]) + 1
        start[s] = np.clip(start[s] + move[s], earliest, segments["stop"][s] - 1)

    names = LABELS[given]
    names[u[:, 3] < missing] = None
    duration = np.diff(start, append=segments["stop"][-1])
    return np.repeat(names, duration)[: len(home.label)]
