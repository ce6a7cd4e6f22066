"""Segments written as one tag per time step (IOB and its relatives), and read back.

A tag is ``"O"`` (outside) or a prefix, a hyphen and a label: ``"B-NP"``. What a scheme means is a table over
the prefix of the step before, the prefix of the step, and whether their labels agree. One vectorised pass
reads any number of sequences.

References
----------
Ramshaw and Marcus, "Text Chunking using Transformation-Based Learning", 1995 (IOB); Tjong Kim Sang and
Veenstra, "Representing Text Chunks", EACL 1999 (IOB1, IOB2, IOE1, IOE2); Ratinov and Roth, "Design Challenges
and Misconceptions in Named Entity Recognition", CoNLL 2009 (BILOU). The tables are those of the ``seqeval``
package in strict mode; "conll" is the lenient reading of the ``conlleval`` script.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sklearn_seqlab.sequences._labels import encode_sequence
from sklearn_seqlab.sequences._segments import Segment, check_n_timesteps, check_segments

__all__ = ["SCHEMES", "bio_to_segments", "segments_to_bio"]

_PREFIXES = "OIBESUL"
_SAME, _DIFF, _ANY = (1,), (0,), (0, 1)


def _table(*patterns: tuple[str, str, tuple[int, ...]]) -> np.ndarray:
    """Patterns (prefixes before, prefixes now, do the labels agree) as a bool array of shape (7, 7, 2)."""
    table = np.zeros((len(_PREFIXES), len(_PREFIXES), 2), dtype=bool)
    for before, now, agreements in patterns:
        for a in before:
            for b in now:
                table[_PREFIXES.index(a), _PREFIXES.index(b), list(agreements)] = True
    return table


@dataclass(frozen=True, eq=False)
class _Scheme:
    """How to read a scheme (``start``, ``inside``, ``end`` as tables) and how to write it.

    ``end`` says whether a segment that stops before this step was closed as the scheme demands; one that was
    not is no segment. Written are ``first``, ``inner``, ``last`` and, for a single step, ``single``; with
    ``only_between`` the first (last) step bears its own prefix only next to a segment of the same label.
    """

    prefixes: str
    start: np.ndarray
    inside: np.ndarray
    end: np.ndarray
    first: str
    last: str
    single: str
    only_between: bool = False


SCHEMES: dict[str, _Scheme] = {
    "IOB1": _Scheme(
        "OIB",
        start=_table(("O", "I", _ANY), ("I", "I", _DIFF), ("B", "I", _ANY), ("IB", "B", _SAME)),
        inside=_table(("BI", "I", _SAME)),
        end=_table(
            ("I", "I", _DIFF), ("I", "OB", _ANY), ("B", "O", _ANY), ("B", "I", _DIFF), ("B", "B", _SAME)
        ),
        first="B",
        last="I",
        single="B",
        only_between=True,
    ),
    "IOB2": _Scheme(
        "OIB",
        start=_table((_PREFIXES, "B", _ANY)),
        inside=_table(("BI", "I", _SAME)),
        end=_table(("IB", "OB", _ANY), ("IB", "I", _DIFF)),
        first="B",
        last="I",
        single="B",
    ),
    "IOE1": _Scheme(
        "OIE",
        # seqeval lacks E after O and E after another label, which a segment of one step needs before a
        # neighbour of the same label; its source says that IOE1 "hasn't yet been able to handle some cases"
        start=_table(("O", "IE", _ANY), ("I", "IE", _DIFF), ("E", "I", _ANY), ("E", "E", _ANY)),
        inside=_table(("I", "IE", _SAME)),
        end=_table(("I", "IE", _DIFF), ("I", "O", _ANY), ("E", "IE", _SAME)),
        first="I",
        last="E",
        single="E",
        only_between=True,
    ),
    "IOE2": _Scheme(
        "OIE",
        start=_table(("OE", "IE", _ANY), ("I", "IE", _DIFF)),
        inside=_table(("I", "IE", _SAME)),
        end=_table(("E", _PREFIXES, _ANY)),
        first="I",
        last="E",
        single="E",
    ),
    "IOBES": _Scheme(
        "OIBES",
        start=_table((_PREFIXES, "BS", _ANY)),
        inside=_table(("BI", "IE", _SAME)),
        end=_table(("SE", _PREFIXES, _ANY)),
        first="B",
        last="E",
        single="S",
    ),
    "BILOU": _Scheme(
        "OIBLU",
        start=_table((_PREFIXES, "BU", _ANY)),
        inside=_table(("BI", "IL", _SAME)),
        end=_table(("UL", _PREFIXES, _ANY)),
        first="B",
        last="L",
        single="U",
    ),
    # every tag but O is in a segment: a new one wherever the script's start_of_chunk says so
    "conll": _Scheme(
        "OIBES",
        start=_table((_PREFIXES, "BS", _ANY), ("OES", "IE", _ANY), ("IB", "IE", _DIFF)),
        inside=_table(("IB", "IE", _SAME)),
        end=_table((_PREFIXES, _PREFIXES, _ANY)),
        first="B",
        last="I",
        single="B",
    ),
}


def bio_to_segments(tags: Any, scheme: str = "IOB2") -> list[Segment]:
    """Read the segments that one tag sequence spells.

    Parameters
    ----------
    tags : array-like of shape (n_timesteps,), of str
        "O", or a prefix of the scheme, a hyphen and a label: "B-NP". A bare prefix ("B") has the label "_".
        A missing tag counts as "O".
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU", "conll"}, default="IOB2"
        All but "conll" are read strictly: a segment that the scheme does not allow (in IOB2, one that begins
        with "I") is left out. "conll" mends it, as the ``conlleval`` script does, and takes the prefixes of
        IOB1, IOB2, IOE1, IOE2 and IOBES alike; published CoNLL scores are computed with it.

    Returns
    -------
    segments : list of (start, stop, label)
        Half open, in order of time.

    Raises
    ------
    ValueError
        If the scheme is unknown or a tag is none of its tags.
    TypeError
        If a tag is not a str.

    Notes
    -----
    Agrees with ``seqeval`` in strict mode, and with its default mode for "conll", with two exceptions: IOE1
    also reads a segment of one step that begins with E, so that every segmentation can be written; and a
    label keeps the hyphens at its ends. Linear in the number of steps.

    Examples
    --------
    >>> bio_to_segments(["B-NP", "I-NP", "O", "I-VP"])
    [(0, 2, 'NP')]
    >>> bio_to_segments(["B-NP", "I-NP", "O", "I-VP"], scheme="conll")
    [(0, 2, 'NP'), (3, 4, 'VP')]
    """
    check_scheme(scheme)
    codes, classes = encode_sequence(tags, name="tags")
    prefix_of, label_of, labels = split_tags(classes, scheme, name="tags")
    starts, stops, found = find_bio_segments(codes, np.array([0, len(codes)]), prefix_of, label_of, scheme)
    return [
        (int(start), int(stop), labels[label])
        for start, stop, label in zip(starts, stops, found, strict=True)
    ]


def segments_to_bio(segments: Iterable[Segment], n_timesteps: int, scheme: str = "IOB2") -> np.ndarray:
    """Write segments as one tag per time step.

    Parameters
    ----------
    segments : iterable of (start, stop, label)
        Half open, in any order, without overlap; labels are non-empty str.
    n_timesteps : int
        Length of the result, at least 1.
    scheme : {"IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU", "conll"}, default="IOB2"
        "conll" writes IOB2.

    Returns
    -------
    tags : ndarray of shape (n_timesteps,), dtype=str
        ``bio_to_segments(tags, scheme)`` gives the segments back, in order of time.

    Raises
    ------
    ValueError
        If the scheme is unknown, if a segment is empty, leaves ``0..n_timesteps`` or overlaps another, or if
        a label is empty.
    TypeError
        If a bound is no integer or a label is no str.

    Examples
    --------
    >>> segments_to_bio([(0, 2, "NP"), (2, 3, "NP")], 4, scheme="IOBES").tolist()
    ['B-NP', 'E-NP', 'S-NP', 'O']
    """
    rules = check_scheme(scheme)
    ordered = check_segments(segments, check_n_timesteps(n_timesteps))
    tags = ["O"] * n_timesteps
    # whether a segment is followed at once by one of the same label
    touches = [a[1] == b[0] and a[2] == b[2] for a, b in pairwise(ordered)]
    for k, (start, stop, label) in enumerate(ordered):
        if not isinstance(label, str):
            raise TypeError(f"segments hold the label {label!r:.60} at {start}:{stop}; expected a str.")
        if not label or label.endswith("\0"):
            raise ValueError(
                f"segments hold the label {label!r:.60} at {start}:{stop}; a tag cannot spell it."
            )
        prefixes = ["I"] * (stop - start)
        if not rules.only_between:
            prefixes[0], prefixes[-1] = rules.first, rules.last
            if len(prefixes) == 1:
                prefixes[0] = rules.single
        elif rules.first == "B" and k > 0 and touches[k - 1]:
            prefixes[0] = "B"
        elif rules.last == "E" and k < len(touches) and touches[k]:
            prefixes[-1] = "E"
        tags[start:stop] = [f"{prefix}-{label}" for prefix in prefixes]
    return np.array(tags)


def check_scheme(scheme: str) -> _Scheme:
    """The tables of a scheme, or an error that lists the schemes."""
    if not isinstance(scheme, str) or scheme not in SCHEMES:
        raise ValueError(f"scheme is {scheme!r:.60}; expected one of {', '.join(map(repr, SCHEMES))}.")
    return SCHEMES[scheme]


def split_tags(classes: np.ndarray, scheme: str, *, name: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Split every tag of ``classes`` once into prefix and label.

    Returns
    -------
    prefix_of, label_of : ndarray of shape (n_tags,)
        Position of the prefix in the tables, and of the label in ``labels`` (-1 for "O").
    labels : list of str
        Sorted labels of the segments.
    """
    rules = check_scheme(scheme)
    if len(classes) and classes.dtype.kind != "U":
        raise TypeError(f"{name} holds {classes.tolist()[0]!r}; the tags of scheme {scheme!r} are str.")
    split = []
    for tag in classes.tolist():
        prefix, hyphen, label = tag[:1], tag[1:2], tag[2:]
        if prefix not in rules.prefixes or not tag or hyphen not in ("", "-") or (prefix == "O" and hyphen):
            wish = ", ".join(f'"{p}-..."' for p in rules.prefixes[1:])
            raise ValueError(f'{name} holds {tag!r:.60}; the tags of scheme {scheme!r} are "O", {wish}.')
        split.append((_PREFIXES.index(prefix), None if prefix == "O" else label or "_"))
    labels = sorted({label for _, label in split if label is not None})
    position = {label: k for k, label in enumerate(labels)}
    prefix_of = np.array([prefix for prefix, _ in split], dtype=np.intp)
    label_of = np.array([-1 if label is None else position[label] for _, label in split], dtype=np.intp)
    return prefix_of, label_of, labels


def find_bio_segments(
    codes: np.ndarray, offsets: np.ndarray, prefix_of: np.ndarray, label_of: np.ndarray, scheme: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Segments of packed tag sequences.

    Parameters
    ----------
    codes : ndarray of shape (n_total,), dtype=intp
        Positions of the tags in ``prefix_of`` and ``label_of``; negative means "O".
    offsets : ndarray of shape (n_sequences + 1,)
    prefix_of, label_of : ndarray of shape (n_tags,)
        From :func:`split_tags`.
    scheme : str

    Returns
    -------
    starts, stops, labels : ndarray of shape (n_segments,)
        Packed rows, half open, and positions in the labels of :func:`split_tags`.
    """
    rules = check_scheme(scheme)
    # one "O" after every sequence closes its last segment and parts it from the next
    n_sequences = len(offsets) - 1
    rows = np.arange(len(codes)) + np.repeat(np.arange(n_sequences), np.diff(offsets))
    prefix = np.zeros(len(codes) + n_sequences + 1, dtype=np.intp)
    label = np.full(len(prefix), -1, dtype=np.intp)
    known = codes >= 0
    prefix[1 + rows[known]] = prefix_of[codes[known]]
    label[1 + rows[known]] = label_of[codes[known]]
    pair = prefix[:-1], prefix[1:], (label[:-1] == label[1:]).astype(np.intp)
    is_start, is_inside, is_end = rules.start[pair], rules.inside[pair], rules.end[pair]
    # A block is a step and those after it that continue it. A segment runs from the first start in a block
    # to the end of the block: the starts between belong to it.
    block = np.cumsum(~is_inside)
    starts = np.flatnonzero(is_start)
    blocks, first = np.unique(block[starts], return_index=True)
    starts = starts[first]
    stops = np.searchsorted(block, blocks, side="right")
    starts, stops = starts[is_end[stops]], stops[is_end[stops]]
    packed = np.append(rows, len(prefix) - 2)  # from a padded row to the packed one
    sequence = np.searchsorted(packed, starts)
    return sequence, sequence + (stops - starts), label[1 + starts]
