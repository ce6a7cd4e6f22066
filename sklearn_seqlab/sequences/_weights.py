"""Weights of sequences and of labels: read and checked here, for estimators and metrics alike."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from sklearn_seqlab.sequences._labels import LabelCodes, check_label_names

__all__ = ["class_weights", "class_weights_of_steps", "read_weights"]


def read_weights(sample_weight: Any, n_sequences: int) -> np.ndarray:
    """One finite weight of at least 0 per sequence.

    Parameters
    ----------
    sample_weight : array-like of shape (n_sequences,), number or None
        A number weighs all sequences alike; None counts as 1.
    n_sequences : int

    Returns
    -------
    weight : ndarray of shape (n_sequences,), dtype=float64

    Raises
    ------
    TypeError, ValueError
        If they are no numbers, not one per sequence, negative or not finite.
    """
    if sample_weight is None:
        return np.ones(n_sequences)
    try:
        weight = np.asarray(sample_weight)
    except ValueError as error:  # rows of unequal length
        raise ValueError(
            f"sample_weight holds lists of different lengths; expected {n_sequences} numbers, one per sequence."
        ) from error
    if weight.dtype.kind not in "biuf":
        raise TypeError(f"sample_weight has dtype {weight.dtype}; expected numbers, one per sequence.")
    if weight.ndim == 0:
        weight = np.full(n_sequences, weight)
    if weight.shape != (n_sequences,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}; expected ({n_sequences},), one per sequence."
        )
    weight = weight.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        raise ValueError(
            f"sample_weight[{wrong[0]}] is {weight[wrong[0]]}; expected a finite number of at least 0."
        )
    return weight


def class_weights(class_weight: str | Mapping | None, labels: LabelCodes) -> np.ndarray:
    """What weights of labels make of each sequence: the mean over its known labels, 1 where none is known.

    Parameters
    ----------
    class_weight : "balanced", mapping of label to number, or None
        "balanced" is inversely proportional to the frequencies of labels; labels that a mapping does not
        name weigh 1, and names that no label bears (as happens in a fold) are passed over.
    labels : LabelCodes

    Returns
    -------
    weight : ndarray of shape (n_sequences,)

    Raises
    ------
    ValueError
        If a weight is no number of at least 0.
    TypeError
        If a mapping names what cannot be a label of ``y``.
    """
    if class_weight is None:
        return np.ones(labels.n_sequences)
    known = labels.codes >= 0
    per_label = _label_weights(class_weight, labels)
    per_step = np.where(known, per_label[np.where(known, labels.codes, 0)], 0.0)
    total = np.add.reduceat(per_step, labels.offsets[:-1])
    count = np.add.reduceat(known.astype(float), labels.offsets[:-1])
    return np.where(count > 0, total / np.maximum(count, 1), 1.0)


def class_weights_of_steps(class_weight: str | Mapping | None, labels: LabelCodes) -> np.ndarray:
    """The weight of each step's label, (n_total,); of a set of candidates the mean. See :func:`class_weights`."""
    if class_weight is None:
        return np.ones(len(labels.codes))
    fits = labels.allowed().astype(np.float64)
    return (fits @ _label_weights(class_weight, labels)) / fits.sum(axis=1)


def _label_weights(class_weight: str | Mapping, labels: LabelCodes) -> np.ndarray:
    known = labels.codes >= 0
    per_label = np.ones(labels.n_labels)
    if isinstance(class_weight, str):
        counts = np.bincount(labels.codes[known], minlength=labels.n_labels)
        per_label = known.sum() / (labels.n_labels * np.maximum(counts, 1))
    else:
        place = {label: k for k, label in enumerate(labels.classes.tolist())}
        check_label_names(class_weight, labels.classes, "class_weight")
        for label, value in class_weight.items():
            if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
                raise ValueError(f"class_weight[{label!r}] is {value!r}; expected a number of at least 0.")
            if label in place:
                per_label[place[label]] = value
    return per_label
