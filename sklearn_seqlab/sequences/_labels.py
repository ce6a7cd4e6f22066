"""Label sequences in, integer codes out; missing labels and sets of candidates are kept apart.

Labels are read element by element before NumPy sees them: ``np.asarray(["a", None, nan])`` would turn what
is missing into text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_seqlab.sequences._batch import as_items, rows_of

__all__ = ["LabelCodes", "encode_labels"]

MISSING = -1
"""Code of a step whose label is not known."""
CANDIDATES = -2
"""Code of a step of which only a set of candidate labels is known."""
UNSEEN = -3
"""Code of a step whose label is not among the classes."""
_KNOWN = 0
"""While reading: a step with a label, whose position is found once all labels are read."""

_KIND_OF_DTYPE = {"i": "int", "u": "int", "b": "bool", "U": "str"}


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """The labels of a packed batch as positions in ``classes``.

    Attributes
    ----------
    codes : ndarray of shape (n_total,), dtype=intp
        Position in ``classes``, or one of ``MISSING``, ``CANDIDATES``, ``UNSEEN``.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    candidate_rows : ndarray of shape (n_sets,), dtype=intp
        Increasing rows whose code is ``CANDIDATES``.
    candidate_masks : ndarray of shape (n_sets, n_labels), dtype=bool
        The labels in each of those sets; a set of one label is read as that label.
    classes : ndarray of shape (n_labels,)
        Sorted labels.
    """

    codes: np.ndarray
    offsets: np.ndarray
    candidate_rows: np.ndarray
    candidate_masks: np.ndarray
    classes: np.ndarray

    @property
    def n_labels(self) -> int:
        return self.candidate_masks.shape[1]

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    def is_complete(self) -> np.ndarray:
        """Whether every step of a sequence carries one known label; bool of shape (n_sequences,)."""
        return np.logical_and.reduceat(self.codes >= 0, self.offsets[:-1])

    def says_something(self) -> np.ndarray:
        """Whether a step has a label, or candidates that are not all labels; bool of shape (n_total,)."""
        says = self.codes >= 0
        says[self.candidate_rows] = ~self.candidate_masks.all(axis=1)
        return says

    def is_informative(self) -> np.ndarray:
        """Whether at least one step of a sequence is not missing; bool of shape (n_sequences,)."""
        return np.logical_or.reduceat(self.codes != MISSING, self.offsets[:-1])

    def take(self, sequences: np.ndarray) -> LabelCodes:
        """The labels of some sequences, in the order given."""
        rows = rows_of(self.offsets, sequences)
        place = np.full(len(self.codes), -1, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        moved = place[self.candidate_rows]
        order = np.argsort(moved, kind="stable")
        order = order[moved[order] >= 0]
        return LabelCodes(
            self.codes[rows],
            np.concatenate([[0], np.cumsum(np.diff(self.offsets)[sequences])]).astype(np.intp),
            moved[order],
            self.candidate_masks[order],
            self.classes,
        )

    def allowed(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Labels that fit what is known of rows ``start:stop``; bool of shape (stop - start, n_labels).

        A known label allows itself, a missing one everything, a set its members, an unseen one nothing.
        """
        codes = self.codes[start:stop]
        mask = np.zeros((len(codes), self.n_labels), dtype=bool)
        known = np.flatnonzero(codes >= 0)
        mask[known, codes[known]] = True
        mask[codes == MISSING] = True
        first, last = np.searchsorted(self.candidate_rows, [start, start + len(codes)])
        mask[self.candidate_rows[first:last] - start] = self.candidate_masks[first:last]
        return mask


def encode_labels(
    y: Iterable[Any],
    offsets: np.ndarray | None = None,
    *,
    classes: np.ndarray | None = None,
    unseen: str = "error",
    name: str = "y",
) -> LabelCodes:
    """Read label sequences and turn them into codes.

    Parameters
    ----------
    y : sequence of 1-D array-like of str, int or bool
        One label per time step. ``None``, NaN and ``pandas.NA`` stand for a missing label, a ``set`` or
        ``frozenset`` for a set of candidates. Integral floats (as NaN forces on integers) become int.
    offsets : ndarray of shape (n_sequences + 1,), default=None
        Lengths that ``y`` must have; a sequence may then be None, all of whose labels are missing. None takes
        the lengths of ``y``.
    classes : ndarray of shape (n_labels,), default=None
        Sorted labels to encode against; None takes those that occur in ``y``.
    unseen : {"error", "mark"}, default="error"
        What to do with a label that is not in ``classes``: raise, or give the code ``UNSEEN``.
    name : str, default="y"
        What messages call the argument.

    Returns
    -------
    labels : LabelCodes
        Its ``classes`` are of dtype str, int or bool.

    Raises
    ------
    TypeError
        If labels are neither str, int nor bool, or if two of these kinds are mixed.
    ValueError
        If a length does not fit, if a label is not in ``classes``, or if a set of candidates is empty.
    """
    reader = _Reader(name)
    items = as_items(y, name=name, wish="(n_timesteps,) of labels per sequence")
    if offsets is not None and len(items) != len(offsets) - 1:
        raise ValueError(
            f"{name} has {len(items)} label sequences, but X has {len(offsets) - 1} sequences "
            "(inconsistent numbers of samples)."
        )
    lengths = [None] * len(items) if offsets is None else np.diff(offsets).tolist()
    parts = []
    for s, (item, length) in enumerate(zip(items, lengths, strict=True)):
        if item is None and length is not None:
            part = _Part(np.full(length, MISSING, dtype=np.intp), np.empty(0, dtype=np.int64), [])
        else:
            part = reader.read(item, f"{name}[{s}]")
        if length is not None and len(part.codes) != length:
            raise ValueError(f"{name}[{s}] has {len(part.codes)} labels, but X[{s}] has {length} time steps.")
        parts.append(part)
    if offsets is None:
        offsets = np.concatenate([[0], np.cumsum([len(part.codes) for part in parts])]).astype(np.intp)
    return _encode(parts, offsets, classes, unseen, reader)


def encode_training_labels(y: Iterable[Any], offsets: np.ndarray) -> LabelCodes:
    """As :func:`encode_labels`, for what an estimator learns from: ``y`` must hold a label.

    Raises
    ------
    ValueError
        Also if every label is missing.
    """
    labels = encode_labels(y, offsets)
    if not labels.n_labels:
        raise ValueError("y holds no label at all: every step of every sequence is missing.")
    return labels


def encode_sequence(labels: Any, *, name: str = "labels") -> tuple[np.ndarray, np.ndarray]:
    """Read one label sequence: ``(codes, classes)`` as :func:`encode_labels` gives them."""
    reader = _Reader(name)
    part = reader.read(labels, name)
    encoded = _encode([part], np.array([0, len(part.codes)], dtype=np.intp), None, "error", reader)
    return encoded.codes, encoded.classes


@dataclass
class _Part:
    """One sequence as read: rows with a label carry ``_KNOWN`` in ``codes``, and ``labels`` has their labels."""

    codes: np.ndarray
    labels: np.ndarray
    sets: list[tuple[int, list[Any]]]


class _Reader:
    """Reads sequences one by one and remembers the first place at which each kind of label was met."""

    def __init__(self, name: str):
        self.name = name
        self.first_seen: dict[str, tuple[str, Any]] = {}

    def read(self, item: Any, label: str) -> _Part:
        if isinstance(item, str | bytes | dict | set | frozenset) or not hasattr(item, "__len__"):
            raise TypeError(f"{label} is {item!r:.60}; expected a 1-D array of labels, one per time step.")
        dtype = getattr(item, "dtype", None)
        if getattr(item, "ndim", 1) != 1:
            shape = f"{item.ndim} dimension(s) {item.shape}"
            raise ValueError(f"{label} has {shape}; expected shape (n_timesteps,).")
        if len(item) == 0:
            raise ValueError(f"{label} has 0 labels; at least one time step is needed.")
        if isinstance(item, np.ma.MaskedArray):
            pairs = zip(item.data.tolist(), np.ma.getmaskarray(item).tolist(), strict=True)
            return self._read_elements([None if masked else value for value, masked in pairs], label)
        if isinstance(dtype, np.dtype) and dtype.kind in _KIND_OF_DTYPE:
            labels = np.asarray(item)
            self._meet(_KIND_OF_DTYPE[dtype.kind], label, 0, labels[0])
            return self._complete(labels, label)
        return self._read_elements(list(item), label)

    def _complete(self, labels: np.ndarray, label: str) -> _Part:
        if labels.dtype == np.uint64 and labels.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{label} holds an integer label beyond the range of int64.")
        if labels.dtype.kind in "iu":
            labels = labels.astype(np.int64, copy=False)  # NumPy joins uint64 and int64 to float64
        return _Part(np.full(len(labels), _KNOWN, dtype=np.intp), labels, [])

    def _read_elements(self, elements: list[Any], label: str) -> _Part:
        types = set(map(type, elements))
        if types == {str}:
            self._meet("str", label, 0, elements[0])
            self._check_text(elements, label)
            return self._complete(np.array(elements), label)
        if types == {int} and -(2**63) <= min(elements) <= max(elements) < 2**63:
            self._meet("int", label, 0, elements[0])
            return self._complete(np.array(elements, dtype=np.int64), label)
        codes = np.full(len(elements), _KNOWN, dtype=np.intp)
        known: list[Any] = []
        sets: list[tuple[int, list[Any]]] = []
        for t, element in enumerate(elements):
            if is_missing(element):
                codes[t] = MISSING
            elif isinstance(element, set | frozenset):
                codes[t] = CANDIDATES
                sets.append((t, self._read_set(element, label, t)))
            else:
                known.append(self._read_one(element, label, t))
        text = [value for value in known if isinstance(value, str)]
        self._check_text(text, label)
        return _Part(codes, self._as_array(known), sets)

    def _read_set(self, candidates: Iterable[Any], label: str, t: int) -> list[Any]:
        members = [self._read_one(member, label, t) for member in candidates]
        if not members:
            raise ValueError(f"{label}[{t}] is an empty set of candidates; at least one label is needed.")
        self._check_text([member for member in members if isinstance(member, str)], label)
        return members

    def _read_one(self, element: Any, label: str, t: int) -> Any:
        """A label as plain str, int or bool."""
        value: Any
        if isinstance(element, str):
            kind, value = "str", str(element)
        elif isinstance(element, bool | np.bool_):
            kind, value = "bool", bool(element)
        elif isinstance(element, int | np.integer):
            kind, value = "int", int(element)
        elif isinstance(element, float | np.floating) and float(element).is_integer():
            kind, value = "int", int(element)
        elif isinstance(element, float | np.floating):
            raise ValueError(
                f"{label}[{t}] is {element!r}: Unknown label type: continuous. Labels are str, int or bool."
            )
        else:
            cure = (
                " A set of candidates must be a set or frozenset."
                if isinstance(element, list | tuple)
                else ""
            )
            raise TypeError(
                f"{label}[{t}] is {element!r:.60} of type {type(element).__name__}; "
                f"labels are str, int or bool, or None where missing.{cure}"
            )
        if kind == "int" and not -(2**63) <= value < 2**63:
            raise ValueError(f"{label}[{t}] is {value}, beyond the range of int64.")
        self._meet(kind, label, t, value)
        return value

    def _meet(self, kind: str, label: str, t: int, value: Any) -> None:
        if kind in self.first_seen:
            return
        self.first_seen[kind] = (f"{label}[{t}]", value)
        if len(self.first_seen) > 1:
            (kind_a, (where_a, a)), (kind_b, (where_b, b)) = list(self.first_seen.items())[:2]
            raise TypeError(
                f"{self.name} mixes {kind_a} and {kind_b} labels: {where_a} is {a!r}, {where_b} is {b!r}."
            )

    @staticmethod
    def _check_text(text: list[str], label: str) -> None:
        if any(value.endswith("\0") for value in text):
            raise ValueError(f"{label} holds a label that ends in a NUL character, which NumPy would drop.")

    def _as_array(self, values: list[Any]) -> np.ndarray:
        kind = next(iter(self.first_seen), "str")
        dtype = {"str": None, "int": np.int64, "bool": np.bool_}[kind]
        return np.array(values, dtype=dtype) if values else np.empty(0, dtype=dtype or "U1")

    @property
    def kind(self) -> str | None:
        return next(iter(self.first_seen), None)


def check_label_names(names: Iterable[Any], classes: np.ndarray, argument: str) -> None:
    """Refuse names that cannot be labels of ``y``; names that just do not occur (in a fold, say) are fine."""
    kind = _KIND_OF_DTYPE[classes.dtype.kind]
    for name in names:
        found = {str: "str", bool: "bool", int: "int"}.get(
            type(name.item() if isinstance(name, np.generic) else name)
        )
        if found != kind:
            raise TypeError(f"{argument} names {name!r}, but the labels of y are of type {kind}.")


def is_missing(element: Any) -> bool:
    if element is None or type(element).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(element, float | np.floating) and bool(np.isnan(element))


def _encode(
    parts: list[_Part], offsets: np.ndarray, classes: np.ndarray | None, unseen: str, reader: _Reader
) -> LabelCodes:
    codes = np.concatenate([part.codes for part in parts])
    known_parts = [part.labels for part in parts if len(part.labels)]
    labels = np.concatenate(known_parts) if known_parts else reader._as_array([])
    members = reader._as_array([member for part in parts for _, found in part.sets for member in found])
    if classes is None:
        classes = np.unique(np.concatenate([labels, members])) if reader.kind else np.empty(0, dtype="U1")
    elif reader.kind is not None and _KIND_OF_DTYPE[classes.dtype.kind] != reader.kind:
        where, value = reader.first_seen[reader.kind]
        known = _KIND_OF_DTYPE[classes.dtype.kind]
        raise TypeError(f"{where} is {value!r}, but the known labels are of type {known}.")
    codes[codes == _KNOWN] = _positions(labels, classes)
    n_sets = sum(len(part.sets) for part in parts)
    rows = np.empty(n_sets, dtype=np.intp)
    masks = np.zeros((n_sets, len(classes)), dtype=bool)
    k = 0
    for s, part in enumerate(parts):
        for t, found in part.sets:
            positions = _positions(reader._as_array(found), classes)
            if unseen == "error" and (positions == UNSEEN).any():
                missing = found[int(np.argmax(positions == UNSEEN))]
                raise ValueError(_unseen_message(reader.name, s, t, missing, classes))
            rows[k] = offsets[s] + t
            masks[k, positions[positions >= 0]] = True
            k += 1
    if unseen == "error" and (codes == UNSEEN).any():
        row = int(np.argmax(codes == UNSEEN))
        s = int(np.searchsorted(offsets, row, side="right")) - 1
        value = labels[int(np.count_nonzero((codes[:row] >= 0) | (codes[:row] == UNSEEN)))]
        raise ValueError(_unseen_message(reader.name, s, row - int(offsets[s]), value, classes))
    single = masks.sum(axis=1) == 1
    codes[rows[single]] = np.nonzero(masks[single])[1]
    return LabelCodes(codes, offsets, rows[~single], masks[~single], classes)


def _positions(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    if not len(labels):
        return np.empty(0, dtype=np.intp)
    if not len(classes):
        return np.full(len(labels), UNSEEN, dtype=np.intp)
    positions = np.searchsorted(classes, labels)
    positions[positions == len(classes)] = 0
    return np.where(classes[positions] == labels, positions, UNSEEN)


def _unseen_message(name: str, s: int, t: int, value: Any, classes: np.ndarray) -> str:
    shown = ", ".join(repr(label) for label in classes[:8].tolist()) + (", ..." if len(classes) > 8 else "")
    value = value.item() if isinstance(value, np.generic) else value
    return f"{name}[{s}][{t}] is {value!r:.60}, which is not among the known labels ({shown})."
