"""Recordings of homes: sensor firings and activities of one stream, cut into sequences of time slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sklearn_seqlab.preprocessing import EventDiscretizer, label_slices

__all__ = ["HomeStream", "check_home_options", "discretize_home"]

IDLE = "idle"


def check_home_options(idle: Any, split: Any) -> None:
    if idle not in ("class", "missing"):
        raise ValueError(f"idle must be 'class' or 'missing', but is {idle!r}.")
    is_block = isinstance(split, int | np.integer) and not isinstance(split, bool) and split >= 1
    if not is_block and split != "day":
        raise ValueError(f"split must be 'day' or a number of slices >= 1, but is {split!r}.")


@dataclass
class HomeStream:
    """One recording in time slices.

    Parameters
    ----------
    X : ndarray of shape (n_slices, n_features)
    y : ndarray of shape (n_slices,) or (n_slices, n_levels), dtype=object
    slices : ndarray of shape (n_slices,), dtype=datetime64[ns]
        Start of each slice.
    feature_names : list of str
    levels : list of str
        Names of the columns of `y`.
    target_names : list of ndarray, dtype=object
        Labels of each level, sorted, "idle" last.
    """

    X: np.ndarray
    y: np.ndarray
    slices: np.ndarray
    feature_names: list[str]
    levels: list[str]
    target_names: list[np.ndarray]

    def before(self, end) -> HomeStream:
        """Slices that start before the time `end`."""
        keep = self.slices < np.datetime64(end)
        return replace(self, X=self.X[keep], y=self.y[keep], slices=self.slices[keep])

    def pieces(self, split: str | int) -> list[slice]:
        """Days of the calendar, or blocks of `split` slices without what is left over at the end."""
        if split == "day":
            day = self.slices.astype("datetime64[D]")
            starts = np.flatnonzero(np.diff(day, prepend=np.datetime64("NaT")) != np.timedelta64(0, "D"))
            stops = np.append(starts[1:], len(day))
        else:
            size = int(split)
            starts = np.arange(0, len(self.X) - size + 1, size)
            if len(starts) == 0:
                raise ValueError(
                    f"split must be at most {len(self.X)}, the number of slices, but is {split}."
                )
            stops = starts + size
        return [slice(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]

    def bunch(self, *, split, as_frame: bool, return_X_y: bool, description: str | None):
        """What a fetcher returns."""
        pieces = self.pieces(split)
        data: list = [self.X[piece] for piece in pieces]
        target: list = [self.y[piece] for piece in pieces]
        stamps = [self.slices[piece] for piece in pieces]
        if as_frame:
            data, target = self._frames(data, target, stamps)
        if return_X_y:
            return data, target
        return Bunch(
            data=data,
            target=target,
            groups=np.arange(len(pieces)),
            slices=stamps,
            feature_names=self.feature_names,
            target_names=self.target_names[0] if self.y.ndim == 1 else self.target_names,
            DESCR=description,
        )

    def _frames(self, data, target, stamps):
        try:
            import pandas as pd  # optional dependency, needed only here
        except ImportError as error:
            raise ImportError(
                "as_frame=True needs pandas: install the extra with `pip install 'sklearn_seqlab[frames]'`."
            ) from error
        frames = [
            pd.DataFrame(x, index=at, columns=self.feature_names) for x, at in zip(data, stamps, strict=True)
        ]
        if self.y.ndim == 1:
            name = self.levels[0]
            labels = [
                pd.Series(y, index=at, name=name, dtype=object) for y, at in zip(target, stamps, strict=True)
            ]
        else:
            labels = [
                pd.DataFrame(y, index=at, columns=self.levels) for y, at in zip(target, stamps, strict=True)
            ]
        return frames, labels


def discretize_home(
    firings: dict[str, list],
    activities: dict[str, list],
    sensors: list[str],
    span,
    *,
    encoding,
    idle: str,
    slice_length,
    levels: tuple[str, ...] = ("activity",),
) -> HomeStream:
    """Cut a recording into time slices.

    Parameters
    ----------
    firings : dict of lists
        Columns "start", "end", "sensor".
    activities : dict of lists
        Columns "start", "end" and one per level; later rows overwrite earlier ones.
    sensors : list of str
        Columns of X.
    span : tuple of two times
        Ends of the recording.
    encoding, slice_length
        As in `EventDiscretizer`.
    idle : {"class", "missing"}
        Whether slices without an activity carry the label "idle" or None.
    levels : tuple of str, default=("activity",)
        Levels of labels, top first. One level gives a vector of labels, several a column each.

    Returns
    -------
    stream : HomeStream
    """
    discretizer = EventDiscretizer(slice_length=slice_length, encoding=encoding, sensors=sensors, span=span)
    (X,) = discretizer.fit_transform(firings)
    (slices,) = discretizer.slices_
    fill = IDLE if idle == "class" else None
    columns = []
    for level in levels:
        table = {"start": activities["start"], "end": activities["end"], "label": activities[level]}
        columns.append(label_slices(table, slices, slice_length=slice_length, idle=fill))
    return HomeStream(
        X=X,
        y=columns[0] if len(levels) == 1 else np.stack(columns, axis=1),
        slices=slices,
        feature_names=discretizer.get_feature_names_out().tolist(),
        levels=list(levels),
        target_names=[
            np.array(sorted(set(activities[level])) + ([IDLE] if fill else []), dtype=object)
            for level in levels
        ],
    )
