"""True and predicted label sequences side by side: the only place where metrics check their inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_seqlab.sequences import (
    CANDIDATES,
    MISSING,
    LabelCodes,
    encode_labels,
    pick_level,
    read_weights,
    split_both,
)

__all__ = ["AlignedLabels", "align", "check_weights", "label_positions", "undefined"]


@dataclass(frozen=True, eq=False)
class AlignedLabels:
    """Packed true and predicted labels, as positions in the same classes.

    With several levels pooled, every level of a sequence is a stretch of rows of its own: ``n_stretches`` is
    the number of sequences times the number of levels.

    Attributes
    ----------
    true, pred : ndarray of shape (n_total,), dtype=intp
        Positions in ``classes``; negative where there is no label.
    offsets : ndarray of shape (n_stretches + 1,), dtype=intp
    sequence : ndarray of shape (n_stretches,), dtype=intp
        The sequence to which a stretch belongs.
    weight : ndarray of shape (n_sequences,) or None
    classes : ndarray of shape (n_labels,)
        Sorted; object dtype only if pooled levels have labels of different types.
    """

    true: np.ndarray
    pred: np.ndarray
    offsets: np.ndarray
    sequence: np.ndarray
    weight: np.ndarray | None
    classes: np.ndarray

    @property
    def is_scored(self) -> np.ndarray:
        """Whether the true label of a row is known; bool of shape (n_total,)."""
        return self.true >= 0

    @property
    def sequence_of_row(self) -> np.ndarray:
        return np.repeat(self.sequence, np.diff(self.offsets))

    @property
    def row_weight(self) -> np.ndarray | None:
        """Every row bears the weight of its sequence; None for equal weights."""
        return None if self.weight is None else self.weight[self.sequence_of_row]

    @property
    def has_weight(self) -> bool:
        """Whether at least one scored row has a weight above zero."""
        scored, weight = self.is_scored, self.row_weight
        return bool(scored.any()) if weight is None else bool((weight[scored] > 0).any())


def align(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    level: int | None = None,
    sample_weight: Any = None,
) -> AlignedLabels:
    """Check true and predicted label sequences and lay them side by side.

    ``y_true`` may have all forms that ``fit`` takes: where it says nothing of a sequence (None), or says it by
    segments, ``y_pred`` tells how many time steps and levels there are.

    Raises
    ------
    ValueError
        If numbers or lengths differ, if ``level`` does not exist, or if ``y_pred`` misses a label at a step
        whose true label is known.
    TypeError
        If labels of different types are compared.
    """
    true_levels, pred_levels = split_both(y_true, y_pred)
    true_levels, pred_levels = (
        pick_level(true_levels, level, "y_true"),
        pick_level(pred_levels, level, "y_pred"),
    )
    if len(pred_levels) != len(true_levels):
        raise ValueError(f"y_pred has {len(pred_levels)} level(s), but y_true has {len(true_levels)}.")
    pairs = [
        _align_level(true, pred, level if level is not None else d, len(true_levels) > 1)
        for d, (true, pred) in enumerate(zip(true_levels, pred_levels, strict=True))
    ]
    n_sequences = len(pairs[0][2]) - 1
    classes, true, pred = _merge([pair[3] for pair in pairs], [p[0] for p in pairs], [p[1] for p in pairs])
    lengths = np.concatenate([np.diff(pair[2]) for pair in pairs])
    return AlignedLabels(
        true=true,
        pred=pred,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp),
        sequence=np.tile(np.arange(n_sequences), len(pairs)),
        weight=check_weights(sample_weight, n_sequences),
        classes=classes,
    )


def _align_level(
    y_true: list[Any], y_pred: list[Any], level: int, several: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(true codes, predicted codes, offsets, classes) of one level."""
    true = encode_labels(y_true, name="y_true")
    true_classes = true.classes
    pred = encode_labels(y_pred, name="y_pred")
    pred_classes = pred.classes
    lengths = np.diff(true.offsets), np.diff(pred.offsets)
    if not np.array_equal(*lengths):
        s = int(np.argmax(lengths[0] != lengths[1]))
        raise ValueError(f"y_pred[{s}] has {lengths[1][s]} labels, but y_true[{s}] has {lengths[0][s]}.")
    _check_predicted(true, pred, true_classes, f", level {level}" if several else "")
    if len(true_classes) and len(pred_classes) and true_classes.dtype.kind != pred_classes.dtype.kind:
        a, b = true_classes.tolist()[0], pred_classes.tolist()[0]
        raise TypeError(
            f"y_true holds {type(a).__name__} labels ({a!r}), "
            f"but y_pred holds {type(b).__name__} ones ({b!r})."
        )
    classes, (true_codes, pred_codes) = _union([true_classes, pred_classes], [true.codes, pred.codes])
    return true_codes, pred_codes, true.offsets, classes


def _check_predicted(true: LabelCodes, pred: LabelCodes, classes: np.ndarray, where: str) -> None:
    is_lacking = (true.codes >= 0) & (pred.codes < 0)
    if not is_lacking.any():
        return
    row = int(np.argmax(is_lacking))
    s = int(np.searchsorted(true.offsets, row, side="right")) - 1
    t = row - int(true.offsets[s])
    fact = {MISSING: "missing", CANDIDATES: "a set of candidates"}[int(pred.codes[row])]
    label = classes[true.codes[row]].item()
    raise ValueError(
        f"y_pred[{s}][{t}]{where} is {fact}, but y_true[{s}][{t}] is {label!r}; "
        "a label is needed wherever the true one is known."
    )


def _union(classes: list[np.ndarray], codes: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Common classes, and codes that refer to them; the classes are of one type or empty."""
    filled = [c for c in classes if len(c)]
    union = np.unique(np.concatenate(filled)) if filled else np.empty(0, dtype="U1")
    moved = []
    for own, code in zip(classes, codes, strict=True):
        # negative codes index from the end: the entries appended here keep them as they are
        position = (
            np.append(np.searchsorted(union, own), [-3, -2, -1]) if len(own) else np.array([-3, -2, -1])
        )
        moved.append(position[code].astype(np.intp, copy=False))
    return union, moved


def _merge(
    classes: list[np.ndarray], true: list[np.ndarray], pred: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The levels end to end; equal labels of two levels are one class."""
    kinds = {c.dtype.kind for c in classes if len(c)}
    if len(kinds) <= 1:
        union, moved = _union(classes * 2, true + pred)
    else:
        labels = [label for kind in sorted(kinds) for label in _labels_of_kind(classes, kind)]
        union = np.empty(len(labels), dtype=object)
        union[:] = labels
        place = {(type(label), label): k for k, label in enumerate(labels)}
        moved = []
        for own, code in zip(classes * 2, true + pred, strict=True):
            position = [place[type(label), label] for label in own.tolist()]
            moved.append(np.array([*position, -3, -2, -1], dtype=np.intp)[code])
    return union, np.concatenate(moved[: len(true)]), np.concatenate(moved[len(true) :])


def _labels_of_kind(classes: list[np.ndarray], kind: str) -> list[Any]:
    return np.unique(np.concatenate([c for c in classes if len(c) and c.dtype.kind == kind])).tolist()


def check_weights(sample_weight: Any, n_sequences: int) -> np.ndarray | None:
    """Weights of sequences, or None for equal ones; divided by the largest if their sum is out of range."""
    if sample_weight is None:
        return None
    weight = read_weights(sample_weight, n_sequences)
    return weight if weight.max(initial=0.0) < 1e290 else weight / weight.max()


def label_positions(labels: Any, classes: np.ndarray, *, name: str = "labels") -> np.ndarray:
    """Positions of ``labels`` in ``classes``; -1 for a label that does not occur."""
    wanted = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if isinstance(labels, str | bytes) or not wanted:
        raise ValueError(f"{name} is {labels!r:.60}; expected a list with at least one label.")
    wanted = [label.item() if isinstance(label, np.generic) else label for label in wanted]
    for k, label in enumerate(wanted):
        if not isinstance(label, str | int):
            raise TypeError(f"{name}[{k}] is {label!r:.60}; expected a str, int or bool.")
    place = {(isinstance(label, bool), label): k for k, label in enumerate(classes.tolist())}
    positions = np.array([place.get((isinstance(label, bool), label), -1) for label in wanted], dtype=np.intp)
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"{name} is {labels!r:.60}; a label occurs more than once.")
    return positions


def undefined(metric: str) -> float:
    """NaN, with the warning that says why."""
    warnings.warn(
        f"{metric} is undefined and set to nan: y_true has no labelled step with a weight above zero.",
        UndefinedMetricWarning,
        stacklevel=3,
    )
    return float("nan")
