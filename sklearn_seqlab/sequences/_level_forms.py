"""The forms in which labels of one or several levels may come, told apart by their types.

A sequence is a table of labels, a pair of labels and end indicators, or a list of segments; nothing here looks
at what a label is, only at how it is wrapped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np

from sklearn_seqlab.sequences._batch import as_items
from sklearn_seqlab.sequences._labels import is_missing

__all__ = ["LevelForms", "pick_level", "read_forms", "shown_offsets", "split_both", "split_levels"]

UNKNOWN = -1
"""Where it is not known whether a segment ends."""
_WISH = "(n_timesteps,) or (n_timesteps, n_levels) of labels per sequence"


@dataclass(frozen=True, eq=False)
class LevelForms:
    """Sequences of any form, brought to one: labels by level and what was said of ends.

    Attributes
    ----------
    columns : list of list
        Per level, one 1-D label sequence per sequence, or None where nothing is known.
    ends : ndarray of shape (n_levels, n_total), dtype=int8
        1 an end, 0 none, -1 not said.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    is_flat : bool
        Whether there is one level and no sequence came as a table of one column.
    """

    columns: list[list[Any]]
    ends: np.ndarray
    offsets: np.ndarray
    is_flat: bool


def read_forms(
    y: Iterable[Any], offsets: np.ndarray | None, n_levels: int | None, flat_segments: bool, name: str
) -> LevelForms:
    """Tell the form of every sequence, and check that levels, lengths and end indicators fit.

    Parameters
    ----------
    y : sequence of label sequences
        As in :func:`sklearn_seqlab.sequences.encode_levels`.
    offsets : ndarray of shape (n_sequences + 1,) or None
        Lengths of the sequences; needed where a sequence is None or a list of segments.
    n_levels : int or None
        None takes what ``y`` shows.
    flat_segments : bool
        Whether segments may come as ``(start, stop, label)``, all of level 0.
    name : str
        What messages call ``y``.

    Returns
    -------
    forms : LevelForms

    Raises
    ------
    ValueError, TypeError
        Naming the sequence, and where it applies level, time step or segment.
    """
    items = as_items(y, name=name, wish=_WISH)
    if offsets is not None and len(items) != len(offsets) - 1:
        raise ValueError(
            f"{name} has {len(items)} label sequences, but X has {len(offsets) - 1} sequences "
            "(inconsistent numbers of samples)."
        )
    parsed = [_parse(item, f"{name}[{s}]", flat_segments) for s, item in enumerate(items)]
    n_levels = _common_levels(parsed, n_levels, name)
    lengths = _lengths(parsed, offsets, name)
    if offsets is None:
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
    ends = np.full((n_levels, int(offsets[-1])), UNKNOWN, dtype=np.int8)
    columns: list[list[Any]] = [[] for _ in range(n_levels)]
    for s, (one, length) in enumerate(zip(parsed, lengths, strict=True)):
        own, own_ends = one.columns, one.ends
        if one.segments is not None:
            own, own_ends = _read_segments(one.segments, n_levels, length, f"{name}[{s}]")
        if own_ends is not None:
            ends[:, offsets[s] : offsets[s + 1]] = own_ends
        for column, level in zip(own or [None] * n_levels, columns, strict=True):
            level.append(column)
    is_flat = n_levels == 1 and not any(one.is_table for one in parsed)
    return LevelForms(columns, ends, offsets, is_flat)


def split_levels(y: Iterable[Any], name: str, *, like: list[list[Any]] | None = None) -> list[list[Any]]:
    """One list of 1-D label sequences per level.

    Of a pair (labels, ends) the labels are taken. Segments, and None for a sequence of which nothing is known,
    do not say how many time steps there are: they are read with ``like``, and refused without.

    Parameters
    ----------
    y : sequence of label sequences
        As in :func:`sklearn_seqlab.sequences.encode_levels`; segments may leave out their level if ``like`` has
        one level.
    name : str
        What messages call ``y``.
    like : list of n_levels lists of n_sequences 1-D label sequences, default=None
        Labels of the same sequences at the same levels, as this function gives them.

    Returns
    -------
    levels : list of n_levels lists of n_sequences 1-D label sequences
    """
    items = as_items(y, name=name, wish=_WISH)
    columns: list[list[Any]] = []
    for s, item in enumerate(items):
        label = f"{name}[{s}]"
        one = _parse(item, label, flat_segments=like is not None and len(like) == 1)
        if one.columns is not None:
            columns.append(one.columns)
        elif like is not None:
            n_timesteps = _n_timesteps(like[0][s], f"y_pred[{s}]")
            columns.append(_read_segments(one.segments or (), len(like), n_timesteps, label)[0])
        elif one.segments is not None:
            raise ValueError(
                f"{label} is a list of segments; expected labels, one per time step (and level)."
            )
        else:
            columns.append([item])
    n_levels = len(columns[0])
    for s, found in enumerate(columns):
        if len(found) != n_levels:
            raise ValueError(f"{name}[{s}] has {len(found)} level(s), but {name}[0] has {n_levels}.")
    return [[found[d] for found in columns] for d in range(n_levels)]


def split_both(y_true: Iterable[Any], y_pred: Iterable[Any]) -> tuple[list[list[Any]], list[list[Any]]]:
    """Labels of the same sequences, level by level; what ``y_true`` leaves open of the shape ``y_pred`` says."""
    items = as_items(y_true, name="y_true", wish=_WISH)
    pred = split_levels(y_pred, "y_pred")
    if len(pred[0]) != len(items):
        raise ValueError(
            f"y_pred has {len(pred[0])} label sequences, but y_true has {len(items)} "
            "(inconsistent numbers of samples)."
        )
    return split_levels(items, "y_true", like=pred), pred


def pick_level(levels: list[list[Any]], level: int | None, name: str) -> list[list[Any]]:
    """All levels, or the one that ``level`` names, counted as an index of a list."""
    if level is None:
        return levels
    if isinstance(level, bool) or not isinstance(level, Integral):
        raise TypeError(f"level is {level!r}; expected an int or None.")
    if not -len(levels) <= level < len(levels):
        raise ValueError(f"level is {level}, but {name} has {len(levels)} level(s).")
    return [levels[level]]


def shown_offsets(y: Iterable[Any], name: str, *, flat_segments: bool = False) -> np.ndarray:
    """The lengths that sequences show of themselves, where X is not at hand.

    Segments reach to their last stop; a sequence of which nothing is known counts as one step.
    """
    lengths: list[int] = []
    for s, item in enumerate(as_items(y, name=name, wish=_WISH)):
        one = _parse(item, f"{name}[{s}]", flat_segments)
        if one.segments is not None:
            lengths.append(max(1, *(int(segment[2]) for segment in one.segments)))
        elif one.columns is None and one.ends is None:
            lengths.append(1)
        else:
            lengths += _lengths([one], None, name)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)


@dataclass
class _Parsed:
    """One sequence; all None where nothing is known of it."""

    columns: list[Any] | None = None
    ends: np.ndarray | None = None
    segments: Any = None
    is_table: bool = False


def _parse(item: Any, label: str, flat_segments: bool = False) -> _Parsed:
    if item is None:
        return _Parsed()
    if _is_pair(item):
        labels, ends = item
        columns = None if labels is None else _columns(labels, label)
        indicators = None if ends is None else _read_ends(ends, label)
        if columns is not None and indicators is not None:
            _check_same_shape(columns, indicators, label)
        return _Parsed(columns, indicators, None, _is_table(ends if labels is None else labels))
    if _is_segments(item, 4):
        return _Parsed(segments=item)
    if flat_segments and _is_segments(item, 3):
        return _Parsed(segments=[(0, *segment) for segment in item])
    return _Parsed(_columns(item, label), is_table=_is_table(item))


def _is_array_like(item: Any) -> bool:
    """Whether this holds several labels, rather than being a label or a set of candidates."""
    if isinstance(item, str | bytes | dict | set | frozenset) or getattr(item, "ndim", 1) == 0:
        return False
    return hasattr(item, "__len__")


def _is_pair(item: Any) -> bool:
    if not isinstance(item, tuple) or len(item) != 2:
        return False
    known = [_is_array_like(part) for part in item if part is not None]
    return bool(known) and all(known)


def _is_segments(item: Any, width: int) -> bool:
    """Whether all items are tuples of ``width`` entries, all but the last of which are int."""
    return (
        isinstance(item, list | tuple)
        and len(item) > 0
        and all(
            isinstance(part, tuple) and len(part) == width and all(map(_is_int, part[:-1])) for part in item
        )
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_table(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return bool(item) and all(isinstance(row, list | tuple | np.ndarray) for row in item)
    return getattr(item, "ndim", 1) == 2 and (isinstance(item, np.ndarray) or hasattr(item, "iloc"))


def _columns(item: Any, label: str) -> list[Any]:
    """The levels of one sequence as 1-D label sequences (a 1-D one is its own only level)."""
    if not _is_table(item):
        return [item]
    if hasattr(item, "iloc"):
        columns = [item.iloc[:, d] for d in range(item.shape[1])]
    elif isinstance(item, np.ndarray):
        columns = [item[:, d] for d in range(item.shape[1])]
    else:
        widths = {len(row) for row in item}
        if len(widths) > 1:
            raise ValueError(
                f"{label} has rows of {sorted(widths)} labels; expected (n_timesteps, n_levels)."
            )
        columns = [[row[d] for row in item] for d in range(widths.pop())]
    if not columns:
        raise ValueError(f"{label} has 0 levels; at least one is needed.")
    return columns


def _read_ends(ends: Any, label: str) -> np.ndarray:
    """End indicators of shape (n_timesteps,) or (n_timesteps, n_levels) as int8 (n_levels, n_timesteps)."""
    columns = _columns(ends, f"{label} (its ends)")
    return np.array([_read_indicators(column, d, label) for d, column in enumerate(columns)])


def _read_indicators(column: Any, level: int, label: str) -> np.ndarray:
    dtype = getattr(column, "dtype", None)
    if getattr(column, "ndim", 1) != 1:
        raise ValueError(
            f"{label} has ends of {column.ndim} dimensions {column.shape}; expected the shape of the labels."
        )
    if isinstance(column, np.ma.MaskedArray):
        pairs = zip(column.data.tolist(), np.ma.getmaskarray(column).tolist(), strict=True)
        column = [None if masked else value for value, masked in pairs]
    elif isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return _as_indicators(np.asarray(column), level, label)
    elements = list(column)
    if set(map(type, elements)) <= {int, bool, float, type(None)}:
        try:
            return _as_indicators(np.array(elements, dtype=np.float64), level, label)  # None becomes NaN
        except OverflowError:
            pass  # an int beyond the doubles, which the loop names
    read = np.full(len(elements), UNKNOWN, dtype=np.int8)
    for t, element in enumerate(elements):
        if isinstance(element, Real | np.bool_) and element in (0, 1):
            read[t] = element == 1
        elif not is_missing(element):
            raise _not_an_indicator(element, level, t, label)
    return read


def _as_indicators(numbers: np.ndarray, level: int, label: str) -> np.ndarray:
    is_missing_one = np.isnan(numbers)
    wrong = np.flatnonzero(~is_missing_one & (numbers != 0) & (numbers != 1))
    if len(wrong):
        raise _not_an_indicator(numbers[wrong[0]].item(), level, int(wrong[0]), label)
    return np.where(is_missing_one, UNKNOWN, numbers == 1).astype(np.int8)


def _not_an_indicator(value: Any, level: int, t: int, label: str) -> ValueError:
    return ValueError(
        f"{label}, level {level}, time step {t}: the end indicator is {value!r:.60}; expected 0, 1 or a "
        "missing value (a tuple of two array-likes is read as labels and ends)."
    )


def _check_same_shape(columns: list[Any], ends: np.ndarray, label: str) -> None:
    if len(columns) != len(ends):
        raise ValueError(f"{label} has labels of {len(columns)} level(s), but ends of {len(ends)}.")
    n_labels = _n_timesteps(columns[0], label)
    if n_labels != ends.shape[1]:
        raise ValueError(f"{label} has {n_labels} labels, but {ends.shape[1]} end indicators.")


def _n_timesteps(column: Any, label: str) -> int:
    if getattr(column, "ndim", 1) != 1:
        shape = f"{column.ndim} dimension(s) {column.shape}"
        raise ValueError(f"{label} has {shape}; expected shape (n_timesteps,) or (n_timesteps, n_levels).")
    if not _is_array_like(column):
        raise TypeError(f"{label} is {column!r:.60}; expected labels, one per time step (and level).")
    return len(column)


def _common_levels(parsed: list[_Parsed], n_levels: int | None, name: str) -> int:
    """The number of levels, which all tables and pairs must share and no segment may exceed."""
    expected = f"{n_levels} level(s) are expected"
    for s, one in enumerate(parsed):
        found = one.columns if one.columns is not None else one.ends
        if found is None:
            continue
        if n_levels is None:
            n_levels, expected = len(found), f"{name}[{s}] has {len(found)}"
        elif len(found) != n_levels:
            hint = (
                ""
                if len(found) not in (3, 4)
                else " Segments are written as tuples: (start, stop, label), or "
                "(level, start, stop, label) of several levels."
            )
            raise ValueError(f"{name}[{s}] has {len(found)} level(s), but {expected}.{hint}")
    if n_levels is None:
        n_levels = 1 + max((int(g[0]) for one in parsed for g in one.segments or ()), default=0)
    return n_levels


def _lengths(parsed: list[_Parsed], offsets: np.ndarray | None, name: str) -> list[int]:
    wanted = [None] * len(parsed) if offsets is None else np.diff(offsets).tolist()
    lengths = []
    for s, (one, length) in enumerate(zip(parsed, wanted, strict=True)):
        label = f"{name}[{s}]"
        if one.columns is None and one.ends is None:
            if length is None:
                what = "None" if one.segments is None else "a list of segments"
                raise ValueError(f"{label} is {what}, and without X its number of time steps is not known.")
            lengths.append(length)
            continue
        what = "labels" if one.columns is not None else "end indicators"
        found = _n_timesteps(one.columns[0], label) if one.columns is not None else len(one.ends[0])  # type: ignore[index]
        if found == 0:
            cure = "" if length is None else "; None stands for a sequence of which nothing is known"
            raise ValueError(f"{label} has 0 {what}; at least one time step is needed{cure}.")
        if length is not None and found != length:
            raise ValueError(f"{label} has {found} {what}, but X[{s}] has {length} time steps.")
        lengths.append(found)
    return lengths


def _read_segments(
    segments: Any, n_levels: int, n_timesteps: int, label: str
) -> tuple[list[Any], np.ndarray]:
    """Labels and ends that segments say; their crossing is seen later, as a contradiction between ends."""
    columns: list[Any] = [[None] * n_timesteps for _ in range(n_levels)]
    ends = np.full((n_levels, n_timesteps), UNKNOWN, dtype=np.int8)
    for k, (level, start, stop, value) in enumerate(segments):
        if not 0 <= level < n_levels:
            raise ValueError(f"{label}[{k}] is a segment of level {level}; expected 0 <= level < {n_levels}.")
        if not 0 <= start < stop <= n_timesteps:
            raise ValueError(
                f"{label}[{k}] covers {start}:{stop}; expected 0 <= start < stop <= {n_timesteps}."
            )
        columns[level][start:stop] = [value] * (stop - start)
        ends[level, start : stop - 1] = 0
        ends[level, stop - 1] = 1
        if start > 0:  # what is before it ends, known or not
            ends[level, start - 1] = 1
    ordered = sorted((int(g[0]), int(g[1]), int(g[2]), k) for k, g in enumerate(segments))
    for (level, a, b, k), (other, c, d, m) in pairwise(ordered):
        if level == other and c < b:
            raise ValueError(f"{label}[{k}] ({a}:{b}) and {label}[{m}] ({c}:{d}) overlap at level {level}.")
    return columns, ends
