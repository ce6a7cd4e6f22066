"""Homes of van Kasteren et al.: binary sensors and daily activities over weeks."""

from __future__ import annotations

import datetime as dt
import os
import re

from sklearn_seqlab.datasets._cache import read_public_files
from sklearn_seqlab.datasets._homes import check_home_options, discretize_home

__all__ = ["fetch_kasteren"]

MONTHS = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)
}
_ROW = re.compile(
    r"(\d\d)-(\w{3})-(\d{4}) (\d\d:\d\d:\d\d)\t(\d\d)-(\w{3})-(\d{4}) (\d\d:\d\d:\d\d)\t(\d+)(?:\t1?)?"
)
_LEGEND = re.compile(r"\[? ?(\d+)[\]:]\s*'([^']*)'\s*")
_NAME = re.compile(r"(\d+)\t'([^']*)'")


def fetch_kasteren(
    house: str = "A",
    *,
    release: str = "ubicomp2008",
    encoding: str | tuple[str, ...] = "raw",
    idle: str = "class",
    split: str | int = "day",
    slice_length="60s",
    as_frame: bool = False,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
):
    """Homes of van Kasteren et al., cut into time slices: binary sensors, labelled by activity.

    ===========  =====  ==============================  ================  =======  ==========
    release      house  recorded                        slices of 60 s    sensors  activities
    ===========  =====  ==============================  ================  =======  ==========
    ubicomp2008  A      25 February - 23 March 2008     40,006            14       7 and idle
    tl2010       A      25 February - 21 March 2008     37,087            14       8 and idle
    tl2010       B      24 July - 7 August 2009         20,582            23       8 and idle
    tl2010       C      19 November - 8 December 2008   26,487            21       8 and idle
    ===========  =====  ==============================  ================  =======  ==========

    Parameters
    ----------
    house : {"A", "B", "C"}, default="A"
        Houses B and C come with release "tl2010" only.
    release : {"ubicomp2008", "tl2010"}, default="ubicomp2008"
        "ubicomp2008": from the earliest first row to the latest last row of sensors and activities.
        "tl2010": the later release with other rows and one activity more, from the first to the last
        activity (sensors run on without labels).
    encoding : str or tuple of str, default="raw"
        Any encoding of :class:`~sklearn_seqlab.preprocessing.EventDiscretizer`.
    idle : {"class", "missing"}, default="class"
        Whether slices without an activity carry the label "idle" or None.
    split : "day" or int, default="day"
        "day": a sequence per calendar day; the first and the last day are shorter. An int: blocks of that
        many slices; left-over slices at the end are dropped.
    slice_length : str, number or timedelta, default="60s"
        Length of a slice.
    as_frame : bool, default=False
        Return each sequence as a DataFrame, and its labels as a Series, indexed by time (needs pandas).
    data_home : path-like or None, default=None
        Folder that holds the folders ``kasteren_ubicomp2008`` and ``kasteren_tl2010``. None: the folder
        named by the environment variable SKLEARN_SEQLAB_DATA, else the user's cache.
    download_if_missing : bool, default=True
        Whether to download missing files (needs the extra ``data``).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (n_timesteps, n_features)
        target : list of ndarray of shape (n_timesteps,), dtype=object
            Activity of each slice. Where activities overlap, the one that starts later counts.
        groups : ndarray of shape (n_sequences,)
            Number of the day, or of the block.
        slices : list of ndarray of shape (n_timesteps,), dtype=datetime64[ns]
            Start of each slice, local wall clock.
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError, ImportError, OSError
        If a file is missing, cannot be downloaded, or is not the published one.

    Notes
    -----
    The files state no licence; their notes ask users to cite van Kasteren, Noulas, Englebienne and Krose,
    "Accurate activity recognition in a home setting", UbiComp 2008. The later release belongs to van
    Kasteren, Englebienne and Krose, "Transferring knowledge of activity recognition across sensor networks",
    Pervasive 2010. Copies: github.com/tcsvn/pyadlml (ubicomp2008), github.com/agnesvanbelle/TL and
    github.com/CyriacAzefack/Frailty_Box (tl2010).

    Doors that stay open keep their sensor on for hours under encoding "raw". Three absences of house A in
    release "ubicomp2008" last about two days each.
    """
    if release not in ("ubicomp2008", "tl2010"):
        raise ValueError(f"release must be 'ubicomp2008' or 'tl2010', but is {release!r}.")
    houses = ("A",) if release == "ubicomp2008" else ("A", "B", "C")
    if house not in houses:
        raise ValueError(f"house must be one of {houses} for release={release!r}, but is {house!r}.")
    check_home_options(idle, split)
    read = _read_ubicomp2008 if release == "ubicomp2008" else _read_tl2010
    firings, activities, sensors, span = read(house, data_home, download_if_missing)
    stream = discretize_home(
        firings, activities, sensors, span, encoding=encoding, idle=idle, slice_length=slice_length
    )
    return stream.bunch(
        split=split, as_frame=as_frame, return_X_y=return_X_y, description=fetch_kasteren.__doc__
    )


def _read_ubicomp2008(house, data_home, download_if_missing):
    paths = [f"kasteren_ubicomp2008/kasteren{kind}Data.txt" for kind in ("Sense", "Act")]
    contents = read_public_files(paths, data_home=data_home, download_if_missing=download_if_missing)
    texts = [content.decode("ascii") for content in contents]
    sensors = {int(number): name for number, name in _LEGEND.findall(texts[0])}
    activities = {int(number): name for number, name in _LEGEND.findall(texts[1])}
    rows = [_rows(text) for text in texts]
    span = min(r[0][0] for r in rows), max(r[-1][1] for r in rows)
    return (
        _table(rows[0], "sensor", sensors),
        _table(rows[1], "activity", activities),
        _in_order(sensors),
        span,
    )


def _read_tl2010(house, data_home, download_if_missing):
    folder = "kasteren_tl2010"
    paths = [f"{folder}/house{house}-{kind}.txt" for kind in ("ss", "as")]
    paths += [f"{folder}/K{house}_{kind}_labels.csv" for kind in ("sensor", "activity")]
    contents = read_public_files(paths, data_home=data_home, download_if_missing=download_if_missing)
    texts = [content.decode("ascii") for content in contents]
    firings, activities = _rows(texts[0]), _rows(texts[1])
    names = [{int(n): " ".join(name.split()) for n, name in _NAME.findall(text)} for text in texts[2:]]
    # The label tables list dead sensors and leave out one that fires in house B.
    sensors = {number: names[0].get(number, f"sensor {number}") for _, _, number in firings}
    span = min(row[0] for row in activities), max(row[1] for row in activities)
    return (
        _table(firings, "sensor", sensors),
        _table(activities, "activity", names[1]),
        _in_order(sensors),
        span,
    )


def _rows(text: str) -> list[tuple[dt.datetime, dt.datetime, int]]:
    """Start, end and number of each row; legends and notes do not look like rows."""
    return [(_time(*row[:4]), _time(*row[4:8]), int(row[8])) for row in _ROW.findall(text)]


def _time(day: str, month: str, year: str, clock: str) -> dt.datetime:
    # Not strptime: its month names follow the locale.
    hour, minute, second = map(int, clock.split(":"))
    return dt.datetime(int(year), MONTHS[month], int(day), hour, minute, second)


def _table(rows, column: str, names: dict[int, str]) -> dict[str, list]:
    start, end, numbers = zip(*rows, strict=True)
    return {"start": list(start), "end": list(end), column: [names[number] for number in numbers]}


def _in_order(names: dict[int, str]) -> list[str]:
    return [name for _, name in sorted(names.items())]
