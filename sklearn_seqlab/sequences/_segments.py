"""Runs of equal labels as half-open segments, and back."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from sklearn_seqlab.sequences._labels import encode_sequence

__all__ = ["PackedSegments", "cut_rows", "labels_to_segments", "segments_of", "segments_to_labels"]

Segment = tuple[int, int, Any]


def labels_to_segments(labels: Any) -> list[Segment]:
    """Cut one label sequence into runs of equal labels.

    Parameters
    ----------
    labels : array-like of shape (n_timesteps,)
        Labels of type str, int or bool. A step whose label is missing, or known only as a set of candidates,
        belongs to no segment and ends the run before it.

    Returns
    -------
    segments : list of (start, stop, label)
        In order of time; ``start`` and ``stop`` are time steps, half open. Neighbouring segments always
        differ in label unless a step without a label lies between them.

    Raises
    ------
    TypeError, ValueError
        As :func:`encode_labels`: labels of other or of mixed types, no time step at all.

    Examples
    --------
    >>> labels_to_segments(["a", "a", "b", None, "b"])
    [(0, 2, 'a'), (2, 3, 'b'), (4, 5, 'b')]
    """
    codes, classes = encode_sequence(labels, name="labels")
    starts, stops = find_runs(codes, np.array([0, len(codes)]))
    found = classes[codes[starts]].tolist() if len(starts) else []
    return list(zip(starts.tolist(), stops.tolist(), found, strict=True))


def segments_to_labels(segments: Iterable[Segment], n_timesteps: int, fill: Any = None) -> np.ndarray:
    """Write segments into one label sequence.

    Parameters
    ----------
    segments : iterable of (start, stop, label)
        Half open, in any order, without overlap.
    n_timesteps : int
        Length of the result, at least 1.
    fill : str, int, bool or None, default=None
        Label of the steps that no segment covers; None leaves them missing.

    Returns
    -------
    labels : ndarray of shape (n_timesteps,)
        dtype str, int or bool; object, with None at the uncovered steps, if some label is missing.

    Raises
    ------
    ValueError
        If a segment is empty, leaves ``0..n_timesteps`` or overlaps another.
    TypeError
        If a bound is no integer, or if labels (``fill`` among them) are of mixed types.

    Examples
    --------
    >>> segments_to_labels([(0, 2, "a"), (3, 4, "b")], 4, fill="-").tolist()
    ['a', 'a', '-', 'b']
    """
    labels = np.empty(check_n_timesteps(n_timesteps), dtype=object)
    labels[:] = [fill] * n_timesteps
    for start, stop, label in check_segments(segments, n_timesteps):
        labels[start:stop] = [label] * (stop - start)
    codes, classes = encode_sequence(labels, name="labels")
    return classes[codes] if (codes >= 0).all() else labels


def check_n_timesteps(n_timesteps: int) -> int:
    """``n_timesteps`` as a plain int of at least 1."""
    if isinstance(n_timesteps, bool) or not isinstance(n_timesteps, Integral):
        raise TypeError(f"n_timesteps is {n_timesteps!r}; expected an int.")
    if n_timesteps < 1:
        raise ValueError(f"n_timesteps is {n_timesteps}; at least 1 is needed.")
    return int(n_timesteps)


def check_segments(segments: Iterable[Segment], n_timesteps: int) -> list[Segment]:
    """Segments in order of time, or an error that names the one at fault by its place in the argument."""
    checked = []
    for k, segment in enumerate(segments):
        try:
            start, stop, label = segment
        except (TypeError, ValueError) as error:
            raise ValueError(f"segments[{k}] is {segment!r:.60}; expected (start, stop, label).") from error
        for bound in (start, stop):
            if isinstance(bound, bool) or not isinstance(bound, Integral):
                raise TypeError(f"segments[{k}] has the bound {bound!r:.60}; expected an int.")
        if not 0 <= start < stop <= n_timesteps:
            raise ValueError(
                f"segments[{k}] covers {start}:{stop}; expected 0 <= start < stop <= {n_timesteps}."
            )
        checked.append((int(start), int(stop), label, k))
    checked.sort(key=lambda segment: segment[:2])
    for (a, b, _, k), (c, d, _, m) in pairwise(checked):
        if c < b:
            raise ValueError(f"segments[{k}] ({a}:{b}) and segments[{m}] ({c}:{d}) overlap.")
    return [(start, stop, label) for start, stop, label, _ in checked]


def find_runs(codes: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs of equal codes in packed sequences; negative codes (no label) belong to no run.

    Parameters
    ----------
    codes : ndarray of shape (n_total,), dtype=intp
    offsets : ndarray of shape (n_sequences + 1,)

    Returns
    -------
    starts, stops : ndarray of shape (n_runs,)
        Packed rows, half open.
    """
    is_start = np.ones(len(codes), dtype=bool)
    is_start[1:] = codes[1:] != codes[:-1]
    is_start[offsets[:-1]] = True
    starts = np.flatnonzero(is_start)
    stops = np.append(starts[1:], len(codes))
    has_label = codes[starts] >= 0
    return starts[has_label], stops[has_label]


class PackedSegments(NamedTuple):
    """The segments of one level of a packed batch, by sequence and then by time.

    Attributes
    ----------
    sequence : ndarray of shape (n_segments,), dtype=intp
    start, stop : ndarray of shape (n_segments,), dtype=intp
        Time steps within the sequence, half open; ``stop - start`` is the duration.
    code : ndarray of shape (n_segments,), dtype=intp
        Position of the label among the classes.
    """

    sequence: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    code: np.ndarray


def cut_rows(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Packed rows of the stretches that end where ``ends`` is true, and of no other.

    Parameters
    ----------
    ends : ndarray of shape (n_total,), dtype=bool or int8
        True (not 0) at the last step of every sequence. Rows after the last end belong to no stretch.

    Returns
    -------
    starts, stops : ndarray of shape (n_stretches,), dtype=intp
        Half open.
    """
    stops = np.flatnonzero(ends) + 1
    return np.concatenate([[0], stops[:-1]]).astype(np.intp), stops


def segments_of(codes: np.ndarray, ends: np.ndarray, offsets: np.ndarray) -> PackedSegments:
    """Cut packed labels at known ends.

    Parameters
    ----------
    codes : ndarray of shape (n_total,), dtype=intp
        A known label at every step, the same at all steps of a segment.
    ends : ndarray of shape (n_total,), dtype=bool or int8
        Whether a segment has its last step here; true at the last step of every sequence.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp

    Returns
    -------
    segments : PackedSegments

    Raises
    ------
    ValueError
        If a label or an end is not known, or if no segment ends where a sequence does.

    Notes
    -----
    Linear in the number of time steps.
    """
    if (np.asarray(codes) < 0).any() or (np.asarray(ends) < 0).any():
        raise ValueError("segments_of needs every label and every end; some are not known.")
    starts, stops = cut_rows(ends)
    if not np.isin(offsets[1:], stops).all():
        raise ValueError("no segment ends at the last time step of some sequence.")
    sequence = np.searchsorted(offsets, starts, side="right") - 1
    first = np.asarray(offsets)[sequence]
    return PackedSegments(sequence, starts - first, stops - first, np.asarray(codes)[starts])
