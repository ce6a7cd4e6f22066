"""Two apartments of Munguia Tapia's study: state-change sensors and activities with headings."""

from __future__ import annotations

import datetime as dt
import os

from sklearn_seqlab.datasets._cache import read_public_files
from sklearn_seqlab.datasets._homes import check_home_options, discretize_home

__all__ = ["fetch_mit_placelab"]

LEVELS = {"activity": ("activity",), "heading": ("heading",), "both": ("heading", "activity")}
DAY = dt.timedelta(days=1)
RECORD = 5  # lines: activity, sensor numbers, their names, times on, times off


def fetch_mit_placelab(
    subject: int = 1,
    *,
    level: str = "activity",
    encoding: str | tuple[str, ...] = "raw",
    idle: str = "class",
    split: str | int = "day",
    slice_length="60s",
    as_frame: bool = False,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
):
    """Two apartments of Munguia Tapia, Intille and Larson, cut into time slices, with two levels of labels.

    =======  ======================  ===============  =======  ==========  ========
    subject  recorded (2003)         slices of 60 s   sensors  activities  headings
    =======  ======================  ===============  =======  ==========  ========
    1        27 March - 11 April     23,040           72       22          7
    2        19 April - 4 May        23,040           68       24          7
    =======  ======================  ===============  =======  ==========  ========

    Parameters
    ----------
    subject : {1, 2}, default=1
    level : {"activity", "heading", "both"}, default="activity"
        Labels: activities ("Toileting"), the headings they stand under ("Personal needs"), or a column of
        each, as the models with several levels read them.
    encoding : str or tuple of str, default="raw"
        Any encoding of :class:`~sklearn_seqlab.preprocessing.EventDiscretizer`.
    idle : {"class", "missing"}, default="class"
        Whether slices without an activity carry the label "idle" or None (at every level).
    split : "day" or int, default="day"
        "day": a sequence per calendar day. An int: blocks of that many slices; left-over slices at the end
        are dropped.
    slice_length : str, number or timedelta, default="60s"
        Length of a slice.
    as_frame : bool, default=False
        Return each sequence as a DataFrame, and its labels as a Series or DataFrame, indexed by time (needs
        pandas).
    data_home : path-like or None, default=None
        Folder that holds the folder ``mit_placelab``. None: the folder named by the environment variable
        SKLEARN_SEQLAB_DATA, else the user's cache.
    download_if_missing : bool, default=True
        Whether to download missing files (needs the extra ``data``).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (n_timesteps, n_features)
        target : list of ndarray of shape (n_timesteps,) or, for ``level="both"``, (n_timesteps, 2)
            dtype=object. Where activities overlap, the one that starts later counts.
        groups : ndarray of shape (n_sequences,)
            Number of the day, or of the block.
        slices : list of ndarray of shape (n_timesteps,), dtype=datetime64[ns]
            Start of each slice, local wall clock.
        feature_names
        target_names : ndarray, or a list of one per level
        DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError, ImportError, OSError
        If a file is missing, cannot be downloaded, or is not the published one.

    Notes
    -----
    The files state no licence; their notes ask users to cite Munguia Tapia, Intille and Larson, "Activity
    recognition in the home using simple and ubiquitous sensors", Pervasive 2004. Copy:
    github.com/agnesvanbelle/TL.

    Firings are listed only inside or near an activity, so that idle slices have few inputs: idle against
    active is easier than it would be in a home. Times that run backwards belong to the next day; ten records of
    subject 2 are dated 31 April and are read as 1 May. About four slices in five are idle.
    """
    if subject not in (1, 2) or isinstance(subject, bool):
        raise ValueError(f"subject must be 1 or 2, but is {subject!r}.")
    if level not in LEVELS:
        raise ValueError(f"level must be one of {sorted(LEVELS)}, but is {level!r}.")
    check_home_options(idle, split)

    paths = [
        f"mit_placelab/subject{subject}/{name}.csv" for name in ("activities_data", "Activities", "sensors")
    ]
    contents = read_public_files(paths, data_home=data_home, download_if_missing=download_if_missing)
    records, codes, places = (content.decode("ascii").splitlines() for content in contents)
    firings, activities = _read_records(records, _headings(codes), _names(places))
    first, midnight = _whole_days(activities)
    stream = discretize_home(
        firings,
        activities,
        [name for name in _names(places).values() if name in set(firings["sensor"])],
        (first, midnight),
        encoding=encoding,
        idle=idle,
        slice_length=slice_length,
        levels=LEVELS[level],
    )
    stream = stream.before(midnight)
    return stream.bunch(
        split=split, as_frame=as_frame, return_X_y=return_X_y, description=fetch_mit_placelab.__doc__
    )


def _headings(codes: list[str]) -> dict[str, str]:
    """Heading of each activity; the columns are heading, category, subcategory and code."""
    rows = [line.split(",") for line in codes[1:] if line]
    return {subcategory: heading for heading, _, subcategory, _ in rows}


def _names(places: list[str]) -> dict[int, str]:
    """Name of each sensor: objects of one kind in one room need their number to differ."""
    rows = [[part.strip() for part in line.split(",")] for line in places if line]
    return {int(number): f"{room} {thing} {number}" for number, room, thing in rows}


def _read_records(records, headings, sensors):
    firings: dict[str, list] = {"start": [], "end": [], "sensor": []}
    rows = []
    lines = [line for line in records if line]
    for k in range(0, len(lines), RECORD):
        activity, date, start, end = lines[k].split(",")
        day = _day(date)
        began, ended = _interval(day, start, end)
        rows.append((began, ended, headings[activity], activity))
        numbers, _, times_on, times_off = (line.split(",") for line in lines[k + 1 : k + RECORD])
        for number, on, off in zip(numbers, times_on, times_off, strict=True):
            fired, released = _interval(day, on, off)
            firings["start"].append(fired)
            firings["end"].append(released)
            firings["sensor"].append(sensors[int(number)])
    rows.sort(key=lambda row: row[0])  # stable: of two that start together the later record counts
    columns = zip(*rows, strict=True)
    return firings, dict(zip(("start", "end", "heading", "activity"), map(list, columns), strict=True))


def _day(date: str) -> dt.datetime:
    month, day, year = map(int, date.split("/"))
    if (month, day) == (4, 31):
        month, day = 5, 1
    return dt.datetime(year, month, day)


def _interval(day: dt.datetime, start: str, end: str) -> tuple[dt.datetime, dt.datetime]:
    began, ended = (
        day + dt.timedelta(hours=h, minutes=m, seconds=s) for h, m, s in map(_clock, (start, end))
    )
    return began, ended if ended >= began else ended + DAY


def _clock(time: str) -> list[int]:
    return [int(part) for part in time.split(":")]


def _whole_days(activities) -> tuple[dt.datetime, dt.datetime]:
    """Midnight before the first and after the last activity."""
    first, last = (
        dt.datetime(*edge.timetuple()[:3]) for edge in (min(activities["start"]), max(activities["end"]))
    )
    return first, last + DAY
