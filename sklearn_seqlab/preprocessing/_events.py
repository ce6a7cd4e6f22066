"""Tables of sensor firings and activities, cut into time slices."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

__all__ = ["EventDiscretizer", "label_slices"]

ENCODINGS = ("raw", "change", "last", "last-slice")
MOST_SLICES = 50_000_000
LONGEST_SLICE = 36_500 * 86_400 * 10**9  # nanoseconds
# After the hour any Z, + or - begins a time zone.
_ZONE = re.compile(r"\d[T ]\d.*[Zz+-]")
_UNIT_NANOSECONDS = {"ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}


class EventDiscretizer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Cut tables of sensor firings into time slices: a matrix per table, a column per sensor.

    A recording's clock starts at `span`'s start and has ``ceil((end - start) / slice_length) + 1`` slices.
    A firing covers the slices from ``floor((row start - start) / slice_length)`` to
    ``ceil((row end - start) / slice_length)``, both included; what lies outside the clock is cut off.

    Parameters
    ----------
    slice_length : str, number, timedelta or numpy.timedelta64, default="60s"
        Length of a slice: a number of seconds, or text such as "500ms", "60s", "1min", "2h", "1d".
    encoding : {"raw", "change", "last", "last-slice"} or tuple of them, default="raw"
        - "raw": on in every slice that a firing covers; the row's value if the table has values.
        - "change": 1 in the first and the last slice of each firing only.
        - "last": the sensor that changed last is 1. Change cells are walked in time order, inside a slice
          by column, and each is kept up to and including the slice of the next one.
        - "last-slice": all sensors that changed in the last slice with any change are 1.

        The columns of several encodings stand side by side.
    sensors : sequence or None, default=None
        The sensors, in column order. None: those seen by `fit`, sorted.
    span : pair (start, end) or None, default=None
        First and last moment of the recording, the same for every table. None: from the earliest start to
        the latest end in each table.

    Attributes
    ----------
    sensors_ : list
        Sensors in column order.
    slices_ : list of ndarray of shape (n_timesteps,), dtype=datetime64[ns]
        Start of every slice, for each table seen by `fit`; see `get_slices` for other tables.

    See Also
    --------
    label_slices : Labels of the same slices from a table of activities.

    Notes
    -----
    A table is anything with ``table["start"]``, ``table["end"]`` and ``table["sensor"]``: a dict of arrays, a
    structured array or a DataFrame. A column "value" is optional: rows with value 0 are no firings, and of
    rows that overlap in a cell the later one gives its value. Times are datetimes without a zone (wall
    clock) or text that NumPy reads as such, in the years 1678 to 2262. A list or tuple holds several tables.
    Sensors that `fit` did not see are left out by `transform`. A table of more than 50 million slices is
    refused: most often a time in it is mistyped.

    The rules for the slices and for "raw", "change" and "last" are those described for the recordings of
    van Kasteren, Noulas, Englebienne and Krose, "Accurate activity recognition in a home setting", UbiComp
    2008.

    Examples
    --------
    >>> from sklearn_seqlab.preprocessing import EventDiscretizer
    >>> table = {"start": ["2008-02-25T00:00:00", "2008-02-25T00:03:10"],
    ...          "end": ["2008-02-25T00:01:00", "2008-02-25T00:04:00"], "sensor": ["door", "cup"]}
    >>> (X,) = EventDiscretizer(slice_length="1min").fit_transform(table)
    >>> X.T
    array([[0., 0., 0., 1., 1.],
           [1., 1., 0., 0., 0.]])
    """

    _acts_on_sequences = True

    def __init__(self, slice_length="60s", encoding="raw", *, sensors=None, span=None):
        self.slice_length = slice_length
        self.encoding = encoding
        self.sensors = sensors
        self.span = span

    def fit(self, X, y=None) -> EventDiscretizer:
        """Learn the sensors, and the slices of the tables at hand.

        Parameters
        ----------
        X : table or list of tables
            Columns "start", "end", "sensor" and perhaps "value".
        y : None
            Ignored.

        Returns
        -------
        self : EventDiscretizer

        Raises
        ------
        ValueError
            If a parameter or a table is not as described; a bad row is named.
        """
        self._check_encodings()
        tables = _tables(X)
        read = [self._read(table, where) for where, table in tables]
        if self.sensors is None:
            sensors = _sorted_unique(np.concatenate([firings.sensor for firings in read]))
        else:
            sensors = _check_sensors(self.sensors)
            if len(set(sensors)) != len(sensors):
                raise ValueError(f"sensors must differ from each other, but are {sensors!r}.")
        if not sensors:
            raise ValueError("X holds no firing to learn sensors from; give sensors=... to say which exist.")
        slices = [
            self._clock(firings, where).slices() for firings, (where, _) in zip(read, tables, strict=True)
        ]
        self.sensors_ = sensors
        self.slices_ = slices
        return self

    def transform(self, X) -> list[np.ndarray]:
        """Matrices of the tables in `X`.

        Parameters
        ----------
        X : table or list of tables

        Returns
        -------
        matrices : list of ndarray of shape (n_timesteps, n_encodings * n_sensors)
            One float64 array per table, also for a single table.
        """
        check_is_fitted(self)
        encodings = self._check_encodings()
        column = {sensor: j for j, sensor in enumerate(self.sensors_)}
        matrices = []
        for where, table in _tables(X):
            firings = self._read(table, where)
            clock = self._clock(firings, where)
            known = np.array([sensor in column for sensor in firings.sensor.tolist()], dtype=bool)
            firings = firings.rows(known & clock.touched(firings))
            columns = np.array([column[sensor] for sensor in firings.sensor.tolist()], dtype=np.intp)
            matrices.append(
                np.hstack([_encode(name, firings, columns, len(column), clock) for name in encodings])
            )
        return matrices

    def get_slices(self, X) -> list[np.ndarray]:
        """Start of every slice of the tables in `X`, as datetime64[ns]."""
        return [self._clock(self._read(table, where), where).slices() for where, table in _tables(X)]

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Sensor names; with a tuple of encodings, preceded by the encoding and two underscores."""
        check_is_fitted(self)
        names = [str(sensor) for sensor in self.sensors_]
        if not isinstance(self.encoding, str):
            names = [f"{encoding}__{name}" for encoding in self.encoding for name in names]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _check_encodings(self) -> tuple[str, ...]:
        encodings: tuple[str, ...] = ()
        if isinstance(self.encoding, str):
            encodings = (self.encoding,)
        elif isinstance(self.encoding, Iterable):
            encodings = tuple(self.encoding)
        if not encodings or any(not isinstance(name, str) or name not in ENCODINGS for name in encodings):
            raise ValueError(
                f"encoding must be one of {ENCODINGS} or a tuple of them, but is {self.encoding!r}."
            )
        if len(set(encodings)) != len(encodings):
            raise ValueError(f"encoding must name each encoding once, but is {self.encoding!r}.")
        return encodings

    def _read(self, table, where: str) -> _Intervals:
        firings = _read_intervals(table, "sensor", where)
        for row, sensor in enumerate(firings.sensor.tolist()):
            if not _is_value(sensor):
                raise ValueError(f"{where} row {row} must name a sensor, but has {sensor!r}.")
        value = _column(table, "value", where, optional=True)
        if value is None:
            return firings
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where} has values that are no numbers: {error}.") from error
        if value.shape != firings.start.shape:
            raise ValueError(f"{where} has {len(firings.start)} starts, but {value.size} values.")
        bad = np.flatnonzero(~np.isfinite(value))
        if len(bad):
            raise ValueError(f"{where} row {bad[0]} has the value {value[bad[0]]}; values must be finite.")
        return firings._replace(value=value).rows(value != 0)

    def _clock(self, firings: _Intervals, where: str) -> _Clock:
        step = _nanoseconds(self.slice_length)
        if self.span is not None:
            if isinstance(self.span, str) or not hasattr(self.span, "__len__") or len(self.span) != 2:
                raise ValueError(f"span must be a pair (start, end) or None, but is {self.span!r}.")
            start, end = _times(self.span, "span").tolist()
            first, last = "the start of span", "its end"
            if start > end:
                raise ValueError(f"span must end after it starts, but is {self.span!r}.")
        elif len(firings.start):
            earliest, latest = firings.start.argmin(), firings.end.argmax()
            start, end = int(firings.start[earliest]), int(firings.end[latest])
            first, last = f"the start of row {firings.row[earliest]}", f"the end of row {firings.row[latest]}"
        else:
            raise ValueError(
                f"{where} holds no firing to tell the recording's span from; give span=(start, end)."
            )
        n_slices = -((start - end) // step) + 1
        reach = (
            f"{n_slices:,} slices of {self.slice_length!r} from {first} ({_stamp(start)}) to {last} "
            f"({_stamp(end)})"
        )
        if n_slices > MOST_SLICES:
            raise ValueError(
                f"{where} needs {reach}, but at most {MOST_SLICES:,} are made; check those times and "
                "slice_length."
            )
        if start - step <= -(2**63) or start + step * (n_slices + 1) >= 2**63:
            raise ValueError(f"{where} needs {reach}, which leave the years 1678 to 2262.")
        return _Clock(start, step, n_slices)


def label_slices(table, slices, *, slice_length="60s", idle: str | None = "idle") -> np.ndarray:
    """Labels of time slices from a table of activities.

    Parameters
    ----------
    table : dict of arrays, structured array or DataFrame
        Columns "start", "end" and "label". A row covers slices as a firing does in `EventDiscretizer`; later
        rows overwrite earlier ones, and what lies outside the slices is cut off.
    slices : array-like of shape (n_timesteps,)
        Start of every slice, as in ``EventDiscretizer.slices_``.
    slice_length : str, number, timedelta or numpy.timedelta64, default="60s"
        Length of a slice.
    idle : label or None, default="idle"
        Label of slices without an activity; None makes them missing labels.

    Returns
    -------
    y : ndarray of shape (n_timesteps,), dtype=object

    Raises
    ------
    ValueError
        If a row ends before it starts, the slices do not follow each other at `slice_length`, or `idle` is
        no label.

    Examples
    --------
    >>> from sklearn_seqlab.preprocessing import label_slices
    >>> table = {"start": ["2008-02-25T00:01"], "end": ["2008-02-25T00:02"], "label": ["drink"]}
    >>> slices = ["2008-02-25T00:00", "2008-02-25T00:01", "2008-02-25T00:02", "2008-02-25T00:03"]
    >>> label_slices(table, slices)
    array(['idle', 'drink', 'drink', 'idle'], dtype=object)
    """
    if idle is not None and not isinstance(idle, str | int | np.generic):
        raise ValueError(f"idle must be a label (a str, int or bool) or None, but is {idle!r}.")
    starts = _times(slices, "slices")
    step = _nanoseconds(slice_length)
    if len(starts) == 0 or (np.diff(starts) != step).any():
        raise ValueError(f"slices must be one or more times, each {slice_length} after the one before.")
    clock = _Clock(int(starts[0]), step, len(starts))
    activities = _read_intervals(table, "label", "table")
    activities = activities.rows(clock.touched(activities))
    first, last = clock.covered(activities)
    y = np.full(clock.n_slices, None, dtype=object)
    if idle is not None:
        y[:] = idle
    for a, b, label in zip(first.tolist(), last.tolist(), activities.sensor.tolist(), strict=True):
        y[a : b + 1] = label
    return y


class _Intervals(NamedTuple):
    """Rows of a table; times in nanoseconds since 1970."""

    start: np.ndarray
    end: np.ndarray
    sensor: np.ndarray  # or the labels of activities
    row: np.ndarray  # number in the table
    value: np.ndarray | None = None

    def rows(self, keep) -> _Intervals:
        value = None if self.value is None else self.value[keep]
        return _Intervals(self.start[keep], self.end[keep], self.sensor[keep], self.row[keep], value)


class _Clock(NamedTuple):
    origin: int  # nanoseconds since 1970
    step: int  # nanoseconds
    n_slices: int

    def slices(self) -> np.ndarray:
        return (self.origin + self.step * np.arange(self.n_slices)).astype("datetime64[ns]")

    def touched(self, rows: _Intervals) -> np.ndarray:
        """Which rows overlap the recording."""
        return (rows.end >= self.origin) & (rows.start < self.origin + self.step * self.n_slices)

    def numbers(self, rows: _Intervals) -> tuple[np.ndarray, np.ndarray]:
        """First and last slice of each row, which may lie outside the recording."""
        # Moved up to the slice before or behind the recording: differences of centuries would overflow.
        start = np.maximum(rows.start, self.origin - self.step)
        end = np.minimum(rows.end, self.origin + self.step * self.n_slices)
        return (start - self.origin) // self.step, -((self.origin - end) // self.step)

    def covered(self, rows: _Intervals) -> tuple[np.ndarray, np.ndarray]:
        first, last = self.numbers(rows)
        return np.maximum(first, 0), np.minimum(last, self.n_slices - 1)


def _encode(encoding: str, firings: _Intervals, columns, n_sensors: int, clock: _Clock) -> np.ndarray:
    matrix = np.zeros((clock.n_slices, n_sensors))
    if encoding == "raw":
        first, last = clock.covered(firings)
        values = np.ones(len(columns)) if firings.value is None else firings.value
        for a, b, j, value in zip(first.tolist(), last.tolist(), columns.tolist(), values, strict=True):
            matrix[a : b + 1, j] = value
        return matrix

    # A firing that reaches beyond the recording changes nothing at the cut.
    slices, sensors = np.concatenate(clock.numbers(firings)), np.tile(columns, 2)
    inside = (slices >= 0) & (slices < clock.n_slices)
    matrix[slices[inside], sensors[inside]] = 1.0
    if encoding == "change" or not inside.any():
        return matrix
    slices, sensors = np.nonzero(matrix)  # in time order, inside a slice by column
    if encoding == "last":
        following = np.append(slices[1:], clock.n_slices - 1)
        for a, b, j in zip(slices.tolist(), following.tolist(), sensors.tolist(), strict=True):
            matrix[a : b + 1, j] = 1.0
        return matrix
    latest = np.zeros(clock.n_slices, dtype=np.intp)
    latest[slices] = slices
    # Before the first change the latest one is slice 0, which then holds no change: zeros, as it should be.
    return matrix[np.maximum.accumulate(latest)]


def _tables(X) -> list[tuple[str, object]]:
    """Pairs of (how an error calls the table, table)."""
    if isinstance(X, list | tuple):
        if not X:
            raise ValueError("X must hold at least one table, but is empty.")
        return [(f"X[{i}]", table) for i, table in enumerate(X)]
    return [("X", X)]


def _column(table, name: str, where: str, *, optional: bool = False):
    try:
        column = table[name]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if optional:
            return None
        raise ValueError(f"{where} must be a table with a column {name!r}, but has none.") from error
    if isinstance(column, str) or not hasattr(column, "__len__"):
        raise ValueError(f"{where} column {name!r} must be a list or an array, but is {column!r}.")
    if getattr(column, "ndim", 1) != 1:
        raise ValueError(
            f"{where} column {name!r} must be one column, but has shape {column.shape}: one-dimensional "
            "arrays and frames with one column of that name are read."
        )
    return column


def _read_intervals(table, what: str, where: str) -> _Intervals:
    start = _times(_column(table, "start", where), f"{where} column 'start'")
    end = _times(_column(table, "end", where), f"{where} column 'end'")
    values = _column(table, what, where)
    named = np.empty(len(values), dtype=object)
    named[:] = values.tolist() if hasattr(values, "tolist") else list(values)
    if not len(start) == len(end) == len(named):
        raise ValueError(f"{where} has {len(start)} starts, {len(end)} ends and {len(named)} {what}s.")
    backwards = np.flatnonzero(end < start)
    if len(backwards):
        row = backwards[0]
        times = _stamp(start[row]), _stamp(end[row])
        raise ValueError(f"{where} row {row} ends before it starts: start {times[0]}, end {times[1]}.")
    return _Intervals(start, end, named, np.arange(len(named)))


def _stamp(nanoseconds) -> np.datetime64:
    return np.datetime64(int(nanoseconds), "ns")


def _times(values, what: str) -> np.ndarray:
    """Times as int64 nanoseconds since 1970."""
    wish = "slices are cut by wall clock, so convert to local wall-clock time and drop the zone first"
    zone = getattr(getattr(values, "dtype", None), "tz", None)
    if zone is not None:
        raise ValueError(f"{what} has a time zone ({zone}); {wish}.")
    try:
        array = np.asarray(values)
        if array.dtype.kind == "S":
            array = array.astype(str)
    except ValueError as error:
        raise ValueError(f"{what} must hold dates with times: {error}.") from error
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, but has shape {array.shape}.")
    if array.size and array.dtype.kind not in "MOUT":
        raise ValueError(f"{what} must hold dates with times, but holds {array.dtype}.")
    if array.dtype.kind != "M":
        for row, value in enumerate(array.tolist()):
            if not _is_value(value):
                raise ValueError(f"{what} has no time in row {row}.")
            if not isinstance(value, str | dt.date | np.datetime64):
                raise ValueError(f"{what} must hold dates with times, but row {row} is {value!r}.")
            if getattr(value, "tzinfo", None) or (isinstance(value, str) and _ZONE.search(value)):
                raise ValueError(f"{what} has a time zone in row {row} ({str(value)!r}); {wish}.")
    try:
        times, seconds = array.astype("datetime64[ns]"), array.astype("datetime64[s]")
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{what} must hold dates with times: {error}.") from error
    missing = np.flatnonzero(np.isnat(seconds))
    if len(missing):
        raise ValueError(f"{what} has no time in row {missing[0]}.")
    wrapped = np.flatnonzero(times.astype("datetime64[s]") != seconds)
    if len(wrapped):
        row = wrapped[0]
        raise ValueError(f"{what} must lie in the years 1678 to 2262, but row {row} is {seconds[row]}.")
    return times.astype(np.int64)


def _nanoseconds(slice_length) -> int:
    nanoseconds: float = 0
    if isinstance(slice_length, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)\s*", slice_length.lower())
        if match:
            nanoseconds = float(match[1]) * _UNIT_NANOSECONDS[match[2]]
    elif isinstance(slice_length, dt.timedelta):
        nanoseconds = slice_length // dt.timedelta(microseconds=1) * 1000
    elif isinstance(slice_length, np.timedelta64):
        length = slice_length.astype("timedelta64[ns]")
        if length.astype("timedelta64[s]") == slice_length.astype("timedelta64[s]"):  # else it overflowed
            nanoseconds = int(length.astype(np.int64))
    elif isinstance(slice_length, int | float | np.integer | np.floating):
        number = slice_length.item() if isinstance(slice_length, np.generic) else slice_length
        nanoseconds = 0 if isinstance(number, bool) else number * 10**9
    if not 1 <= nanoseconds <= LONGEST_SLICE:
        raise ValueError(
            "slice_length must be positive and at most 36500 days: seconds, a timedelta, or text such as "
            f"'60s' or '5min', but is {slice_length!r}."
        )
    return round(nanoseconds)


def _check_sensors(sensors) -> list:
    if isinstance(sensors, str | bytes) or not isinstance(sensors, Iterable):
        raise ValueError(f"sensors must be a list of sensors or None, but is {sensors!r}.")
    names = list(sensors.tolist() if isinstance(sensors, np.ndarray) else sensors)
    for i, name in enumerate(names):
        if not _is_value(name):
            raise ValueError(f"sensors[{i}] must be a name or a number, but is {name!r}.")
    return names


def _is_value(value) -> bool:
    """Whether `value` is neither None nor NaN, NaT or the like, and hashable."""
    try:
        hash(value)
        return value is not None and bool(value == value)
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor not
        return False


def _sorted_unique(sensors: np.ndarray) -> list:
    try:
        return sorted(set(sensors.tolist()))
    except TypeError as error:
        raise TypeError(
            f"X must name its sensors by values of one kind that can be sorted: {error}."
        ) from error
