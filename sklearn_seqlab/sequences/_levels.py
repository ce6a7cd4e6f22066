"""Labels of one or several levels in, codes and segment ends out.

A level is cut into segments, and every step of it either ends one or does not. Labels alone say only part of
that: two neighbouring segments may bear the same label. What follows from labels and from the structure is
concluded here, from the top level down, and what does not stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_seqlab.sequences._batch import rows_of
from sklearn_seqlab.sequences._labels import CANDIDATES, MISSING, UNSEEN, LabelCodes, encode_labels
from sklearn_seqlab.sequences._level_forms import UNKNOWN, read_forms

__all__ = ["LevelCodes", "encode_levels", "label_table"]


@dataclass(frozen=True, eq=False)
class LevelCodes:
    """The labels of a packed batch by level, top to bottom, and what is known of the ends of segments.

    Attributes
    ----------
    levels : list of LabelCodes
        One per level, over the same ``offsets``.
    ends : ndarray of shape (n_levels, n_total), dtype=int8
        1 where a segment of the level has its last step, 0 where it goes on, -1 where that is not known.
        An end of a level is one of all deeper levels, so what goes on does so at all higher levels too.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    is_flat : bool
        Whether there is one level and no sequence came as a table of one column.
    explicit_self : ndarray of shape (n_levels,), dtype=bool
        Whether given ends show two neighbouring segments of the level with one label under one parent.
    self_transitions : tuple of bool, one per level
        Whether such neighbours were taken to be possible when ends were concluded from labels. True for a
        bottom of single steps, where they say nothing.
    root : bool
        Whether level 0 is one segment, the label of the whole sequence.
    segment_bottom : bool
        Whether segments of the bottom level may have more than one step.
    """

    levels: list[LabelCodes]
    ends: np.ndarray
    offsets: np.ndarray
    is_flat: bool
    explicit_self: np.ndarray
    self_transitions: tuple[bool, ...]
    root: bool
    segment_bottom: bool

    @property
    def n_levels(self) -> int:
        return len(self.levels)

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def classes(self) -> list[np.ndarray]:
        """Sorted labels of each level."""
        return [level.classes for level in self.levels]

    def take(self, indices: np.ndarray) -> LevelCodes:
        """The labels of some sequences, in the order given; what was decided on all of them stays."""
        levels = [level.take(indices) for level in self.levels]
        ends = np.ascontiguousarray(self.ends[:, rows_of(self.offsets, indices)])
        return replace(self, levels=levels, ends=ends, offsets=levels[0].offsets)

    def is_complete(self) -> np.ndarray:
        """Whether all labels and all ends of a sequence are known; bool of shape (n_sequences,)."""
        known = (self.ends != UNKNOWN).all(axis=0)
        for level in self.levels:
            known &= level.codes >= 0
        return np.logical_and.reduceat(known, self.offsets[:-1])

    def is_informative(self) -> np.ndarray:
        """Whether something is known of a sequence; bool of shape (n_sequences,).

        A label, a set of candidates, or an end (or its absence) that the structure does not imply.
        """
        said = self.ends != UNKNOWN
        said[:, self.offsets[1:] - 1] = False
        if self.root:
            said[0] = False
        if not self.segment_bottom:
            said[-1] = False
        known = said.any(axis=0)
        for level in self.levels:
            known |= level.codes != MISSING
        return np.logical_or.reduceat(known, self.offsets[:-1])


def encode_levels(
    y: Iterable[Any],
    offsets: np.ndarray | None = None,
    *,
    classes: Sequence[np.ndarray] | None = None,
    n_levels: int | None = None,
    unseen: str = "error",
    root: bool = False,
    segment_bottom: bool = False,
    self_transitions: bool | str | Sequence[bool] = "auto",
    flat_segments: bool = False,
    counts: np.ndarray | None = None,
    name: str = "y",
) -> LevelCodes:
    """Read sequences of labels at several levels, and conclude where segments end.

    Parameters
    ----------
    y : sequence of label sequences
        Each in one of these forms, freely mixed:

        1. array-like or data frame of shape (n_timesteps, n_levels), top level first, or (n_timesteps,) for
           one level. ``None``, NaN and ``pandas.NA`` stand for a missing label, a ``set`` or ``frozenset``
           for a set of candidates.
        2. tuple ``(labels, ends)`` of two of those; ``ends`` holds 1 (or True) at the last step of a segment,
           0 elsewhere, a missing value where that is not known. Either of the two may be None.
        3. list of tuples ``(level, start, stop, label)``: segments, half open, in any order, levels counted
           from 0 at the top. Of steps that no segment covers nothing is known, but a segment that starts
           ends the one before it. A label that is None says where a segment lies and no more.

        None in the place of a sequence: nothing is known of it.

        A tuple of two array-likes is always of form 2, so a table of two rows is better given as a list or
        an array. A list is of form 3 if all its items are *tuples* of four whose first three are int; rows of
        a table with four levels of int labels are therefore to be lists or arrays.
    offsets : ndarray of shape (n_sequences + 1,), default=None
        Lengths that ``y`` must have; needed for None and for form 3.
    classes : sequence of n_levels ndarray of shape (n_labels,), default=None
        Sorted labels to encode against, level by level; None takes those that occur in ``y``.
    n_levels : int, default=None
        The number of levels expected; None takes that of ``classes``, or what ``y`` shows.
    unseen : {"error", "mark"}, default="error"
        What to do with a label that is not in ``classes``: raise, or give the code ``UNSEEN``.
    root : bool, default=False
        Whether level 0 is the label of the whole sequence.
    segment_bottom : bool, default=False
        Whether the segments of the bottom level may have more than one step. If not, they all end at once,
        whatever form 2 or 3 says; an absence of an end said there still holds for the levels above.
    self_transitions : "auto", bool or sequence of n_levels bool, default="auto"
        Whether neighbouring segments of a level under one parent may bear one label, in which case equal
        labels do not say that a segment goes on. "auto": where given ends show such neighbours.
    flat_segments : bool, default=False
        Whether form 3 may leave out the level, ``(start, stop, label)``, all of which are then of level 0.
    counts : ndarray of bool of shape (n_sequences,), default=None
        Sequences whose ends decide what "auto" does; None: all.
    name : str, default="y"
        What messages call the argument.

    Returns
    -------
    codes : LevelCodes

    Raises
    ------
    TypeError
        If labels are neither str, int nor bool, or if two of these kinds are mixed at one level.
    ValueError
        If numbers of levels or lengths do not fit, if all labels of a level are missing (unless ``classes``
        are given), if an end indicator is no 0, 1 or missing value, if segments overlap, or if what is said
        contradicts itself: a segment that goes on beyond the last step or beyond the end of its parent, a
        root that ends early, labels that differ within a segment.

    Notes
    -----
    Every level ends at the last step of a sequence. Elsewhere, in this order: what is given holds; where the
    parent ends the level does; where two known labels differ (or two sets of candidates share no member) it
    does; where they are equal, the parent goes on and self transitions are out of the question it does not;
    else it is not known. The parent of the topmost level ends at the last step only. Time is linear in the
    number of time steps (times the number of labels at sets of candidates).
    """
    if n_levels is None and classes is not None:
        n_levels = len(classes)
    forms = read_forms(y, offsets, n_levels, flat_segments, name)
    n_levels = len(forms.columns)
    if root and n_levels < 2:
        raise ValueError(
            f"{name} has 1 level, but root=True needs one below the label of the whole sequence."
        )
    levels = [
        _encode_level(
            column, forms.offsets, None if classes is None else classes[d], unseen, d, n_levels, name
        )
        for d, column in enumerate(forms.columns)
    ]
    wishes = _self_wishes(self_transitions, n_levels)
    where = _Places(name, forms.offsets)
    given = _close(forms.ends, root, where)
    ends = np.empty_like(given)
    explicit_self = np.zeros(n_levels, dtype=bool)
    decided = []
    parent = where.is_last.astype(np.int8)
    for d, level in enumerate(levels):
        if root and d == 0:
            concluded, said, may_repeat = parent, parent, False
        elif d == n_levels - 1 and not segment_bottom:
            concluded, said, may_repeat = np.ones_like(parent), given[d], True
        else:
            differ, same = _neighbours(level)
            goes_on = same & (parent == 0)
            shows = goes_on & (given[d] == 1)
            explicit_self[d] = (shows if counts is None else shows & counts[where.sequence]).any()
            may_repeat = bool(explicit_self[d]) if wishes[d] is None else bool(wishes[d])
            concluded = given[d].copy()
            free = concluded == UNKNOWN
            concluded[free & (differ | (parent == 1))] = 1
            if not may_repeat:
                concluded[free & goes_on] = 0
            said = concluded
        _check_one_label(level, said == 0, d, root and d == 0, where)
        ends[d] = parent = concluded
        decided.append(may_repeat)
    return LevelCodes(
        levels,
        ends,
        forms.offsets,
        forms.is_flat,
        explicit_self,
        tuple(decided),
        root,
        segment_bottom,
    )


def label_table(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Labels of several levels side by side, (n_rows, n_levels); objects where their types differ."""
    if len({column.dtype.kind for column in columns}) == 1:
        return np.column_stack(columns)
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for k, column in enumerate(columns):
        table[:, k] = column.tolist()
    return table


class _Places:
    """Packed rows as a reader of messages counts them."""

    def __init__(self, name: str, offsets: np.ndarray):
        self.name, self.offsets = name, offsets
        self.is_last = np.zeros(int(offsets[-1]), dtype=bool)
        self.is_last[offsets[1:] - 1] = True

    @property
    def sequence(self) -> np.ndarray:
        """The sequence of each row."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def of(self, row: int) -> tuple[str, int]:
        """The sequence by name, and the time step in it."""
        s = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"{self.name}[{s}]", int(row - self.offsets[s])


def _encode_level(
    column: list[Any],
    offsets: np.ndarray,
    classes: np.ndarray | None,
    unseen: str,
    level: int,
    n_levels: int,
    name: str,
) -> LabelCodes:
    try:
        codes = encode_labels(column, offsets, classes=classes, unseen=unseen, name=name)
    except (TypeError, ValueError) as error:
        if n_levels == 1:
            raise
        raise type(error)(f"{error} (level {level})") from error
    if classes is None and len(codes.classes) == 0:
        what = "no label at all" if n_levels == 1 else f"no label of level {level}"
        raise ValueError(f"{name} holds {what}: every step of every sequence is missing.")
    return codes


def _self_wishes(self_transitions: Any, n_levels: int) -> list[bool | None]:
    """Per level what the caller wants; None leaves it to the data."""
    if isinstance(self_transitions, str) and self_transitions == "auto":
        return [None] * n_levels
    if isinstance(self_transitions, bool | np.bool_):
        return [bool(self_transitions)] * n_levels
    if isinstance(self_transitions, list | tuple | np.ndarray) and len(self_transitions) == n_levels:
        if all(isinstance(one, bool | np.bool_) for one in self_transitions):
            return [bool(one) for one in self_transitions]
    raise ValueError(
        f"self_transitions is {self_transitions!r}; expected 'auto', a bool or one bool per level ({n_levels})."
    )


def _close(said: np.ndarray, root: bool, where: _Places) -> np.ndarray:
    """Given ends with what they imply of other levels, after a check that they do not contradict each other."""
    wrong = np.argwhere((said == 0) & where.is_last)
    if len(wrong):
        d, row = wrong[0].tolist()
        sequence, t = where.of(row)
        raise ValueError(
            f"{sequence}, level {d}, time step {t}: no segment is said to end, but this is the last time step."
        )
    if root and (early := np.flatnonzero((said[0] == 1) & ~where.is_last)).size:
        sequence, t = where.of(early[0])
        raise ValueError(
            f"{sequence}, level 0, time step {t}: the root ends, but it is one segment over the whole sequence."
        )
    ends_above = np.logical_or.accumulate(said == 1, axis=0)
    wrong = np.argwhere((said == 0) & ends_above)
    if len(wrong):
        d, row = wrong[0].tolist()
        sequence, t = where.of(row)
        higher = int(np.argmax(said[:d, row] == 1))
        raise ValueError(
            f"{sequence}, level {d}, time step {t}: no segment is said to end, but one of level {higher} does; "
            "segments of a level lie within those above (they must not cross)."
        )
    goes_on_below = np.logical_or.accumulate(said[::-1] == 0, axis=0)[::-1]
    return np.where(ends_above, 1, np.where(goes_on_below, 0, UNKNOWN)).astype(np.int8)


def _masks(labels: LabelCodes, rows: np.ndarray) -> np.ndarray:
    """Labels that known or set-valued rows allow; bool of shape (len(rows), n_labels).

    A set none of whose members is a known class says nothing that could be compared: it allows everything.
    """
    masks = np.zeros((len(rows), labels.n_labels), dtype=bool)
    codes = labels.codes[rows]
    known = np.flatnonzero(codes >= 0)
    masks[known, codes[known]] = True
    sets = np.flatnonzero(codes == CANDIDATES)
    masks[sets] = labels.candidate_masks[np.searchsorted(labels.candidate_rows, rows[sets])]
    masks[~masks.any(axis=1)] = True
    return masks


def _neighbours(labels: LabelCodes) -> tuple[np.ndarray, np.ndarray]:
    """Whether the labels of a step and of the next are known to differ, and whether they are known and equal.

    Sequences lie end to end, so at the last step of one this is about two of them and means nothing.
    """
    codes = labels.codes
    differ, same = np.zeros(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool)
    stated = (codes >= 0) | (codes == UNSEEN)
    is_equal = codes[:-1] == codes[1:]
    differ[:-1] = stated[:-1] & stated[1:] & ~is_equal
    same[:-1] = (codes[:-1] >= 0) & is_equal
    if len(labels.candidate_rows):
        readable = (codes >= 0) | (codes == CANDIDATES)
        is_set = codes == CANDIDATES
        rows = np.flatnonzero((is_set[:-1] | is_set[1:]) & readable[:-1] & readable[1:])
        differ[rows] = ~(_masks(labels, rows) & _masks(labels, rows + 1)).any(axis=1)
    return differ, same


def _check_one_label(
    labels: LabelCodes, goes_on: np.ndarray, level: int, is_root: bool, where: _Places
) -> None:
    """Refuse labels that differ although no segment ends between them."""
    codes = labels.codes
    starts = np.ones(len(codes), dtype=bool)
    starts[1:] = ~goes_on[:-1]
    segment = np.cumsum(starts) - 1
    rows = np.flatnonzero((codes >= 0) | (codes == UNSEEN))
    wrong = np.flatnonzero((segment[rows[:-1]] == segment[rows[1:]]) & (codes[rows[:-1]] != codes[rows[1:]]))
    if len(wrong):
        first, second = rows[wrong[0]], rows[wrong[0] + 1]
        sequence, t = where.of(second)
        raise ValueError(
            f"{sequence}, level {level}, time step {t}: the label is {_shown(labels, second)}, but at time step "
            f"{where.of(first)[1]} it is {_shown(labels, first)}, and {_reason(is_root)}."
        )
    if not len(labels.candidate_rows):
        return
    has_set = np.zeros(segment[-1] + 1, dtype=bool)
    has_set[segment[labels.candidate_rows]] = True
    rows = np.flatnonzero(has_set[segment] & ((codes >= 0) | (codes == CANDIDATES)))
    first_of = np.flatnonzero(np.diff(segment[rows], prepend=-1))
    agree = np.logical_and.reduceat(_masks(labels, rows), first_of, axis=0).any(axis=1)
    if not agree.all():
        row = rows[first_of[np.argmin(agree)]]
        sequence, t = where.of(row)
        raise ValueError(
            f"{sequence}, level {level}, time step {t}: no label is common to this step and those that follow, "
            f"and {_reason(is_root)}."
        )


def _reason(is_root: bool) -> str:
    return "the root is the label of the whole sequence" if is_root else "no segment ends in between"


def _shown(labels: LabelCodes, row: int) -> str:
    code = labels.codes[row]
    return "one unknown to the estimator" if code == UNSEEN else repr(labels.classes[code].item())
