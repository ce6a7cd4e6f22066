"""Scores that look at every time step by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.metrics import f1_score, precision_score, recall_score

from sklearn_seqlab.metrics._alignment import AlignedLabels, align, label_positions, undefined

__all__ = [
    "confusion_matrix",
    "hamming_loss",
    "macro_accuracy_score",
    "micro_accuracy_score",
    "step_f1_score",
    "step_precision_score",
    "step_recall_score",
]


def micro_accuracy_score(
    y_true: Iterable[Any], y_pred: Iterable[Any], *, level: int | None = None, sample_weight: Any = None
) -> float:
    """Share of time steps that are labelled right ("time-slice accuracy").

    Parameters
    ----------
    y_true : list of array-like of shape (n_timesteps,) or (n_timesteps, n_levels)
        True labels. Steps whose label is missing, or known only as a set of candidates, are left out.
    y_pred : list of array-like, of the shapes of ``y_true``
        Predicted labels.
    level : int, default=None
        The column to score of labels on several levels. None pools all levels: every (time step, level) is a
        step of its own. One-dimensional labels have one level, 0.
    sample_weight : array-like of shape (n_sequences,), default=None
        Every step bears the weight of its sequence.

    Returns
    -------
    score : float
        Between 0 and 1; nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError
        If numbers or lengths of sequences differ, ``level`` does not exist, or ``y_pred`` misses a label at a
        labelled step.
    TypeError
        If labels are neither str, int nor bool, or of different types in ``y_true`` and ``y_pred``.

    Examples
    --------
    >>> micro_accuracy_score([["a", "b", None], ["a"]], [["a", "a", "b"], ["a"]])
    0.6666666666666666
    """
    aligned = align(y_true, y_pred, level=level, sample_weight=sample_weight)
    return _share(aligned, is_right=True, metric="Micro accuracy")


def macro_accuracy_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    labels: Any = None,
    level: int | None = None,
    sample_weight: Any = None,
) -> float:
    """Mean over the classes of the share of a class's time steps that are labelled right ("class accuracy").

    Parameters
    ----------
    y_true, y_pred, level, sample_weight
        As in :func:`micro_accuracy_score`.
    labels : array-like of shape (n_labels,), default=None
        The classes to average over; None takes all. Those without a step in ``y_true`` are left out.

    Returns
    -------
    score : float
        Between 0 and 1; nan, with an ``UndefinedMetricWarning``, if no step of these classes is labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`micro_accuracy_score`.

    Examples
    --------
    >>> macro_accuracy_score([["a", "a", "a", "b"]], [["a", "a", "b", "b"]])
    0.8333333333333333
    """
    aligned = align(y_true, y_pred, level=level, sample_weight=sample_weight)
    counts = _count_pairs(aligned)
    n_true = counts.sum(axis=1)
    # the diagonal is bounded by the row sum in exact arithmetic; rounding of weights must not break that
    n_right = np.minimum(np.diagonal(counts), n_true)
    taken = n_true > 0
    if labels is not None:
        positions = label_positions(labels, aligned.classes)
        taken &= np.isin(np.arange(len(taken)), positions)
    if not taken.any():
        return undefined("Macro accuracy")
    return float(np.mean(n_right[taken] / n_true[taken]))


def hamming_loss(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    average: str = "step",
    level: int | None = None,
    sample_weight: Any = None,
) -> float:
    """Share of time steps that are labelled wrong.

    Parameters
    ----------
    y_true, y_pred, level, sample_weight
        As in :func:`micro_accuracy_score`.
    average : {"step", "sequence"}, default="step"
        "step" takes the share over all steps, so that long sequences count for more; "sequence" takes the
        mean over sequences of the share within each, leaving out sequences without a labelled step. The two
        differ unless all sequences have as many labelled steps.

    Returns
    -------
    loss : float
        Between 0 and 1, the smaller the better; nan, with an ``UndefinedMetricWarning``, if no step is
        labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`micro_accuracy_score`.

    Examples
    --------
    >>> y_true, y_pred = [["a"] * 4, ["b"]], [["a"] * 4, ["a"]]
    >>> hamming_loss(y_true, y_pred), hamming_loss(y_true, y_pred, average="sequence")
    (0.2, 0.5)
    """
    if average not in ("step", "sequence"):
        raise ValueError(f"average is {average!r}; expected 'step' or 'sequence'.")
    aligned = align(y_true, y_pred, level=level, sample_weight=sample_weight)
    if average == "step":
        return _share(aligned, is_right=False, metric="Hamming loss")
    scored = aligned.is_scored
    sequence = aligned.sequence_of_row[scored]
    n_sequences = int(aligned.sequence.max()) + 1
    is_wrong = aligned.true[scored] != aligned.pred[scored]
    n_scored = np.bincount(sequence, minlength=n_sequences)
    n_wrong = np.bincount(sequence[is_wrong], minlength=n_sequences)
    taken = n_scored > 0
    weight = None if aligned.weight is None else aligned.weight[taken]
    if not aligned.has_weight:
        return undefined("Hamming loss")
    return float(np.average(n_wrong[taken] / n_scored[taken], weights=weight))


def step_precision_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    labels: Any = None,
    pos_label: Any = 1,
    average: str | None = "macro",
    level: int | None = None,
    sample_weight: Any = None,
    zero_division: float | str = 0.0,
) -> float | np.ndarray:
    """Precision over time steps: of those given a label, the share that bears it.

    Parameters
    ----------
    y_true, y_pred, level, sample_weight
        As in :func:`micro_accuracy_score`.
    labels, pos_label, average, zero_division
        As in :func:`sklearn.metrics.precision_score`, which gets the labelled steps of all sequences in one
        array; only the defaults of ``average`` ("macro") and ``zero_division`` (0.0) differ, and ``labels``
        must hold at least one label and none twice.

    Returns
    -------
    score : float, or ndarray of shape (n_labels,) if ``average`` is None
        nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`micro_accuracy_score`; TypeError also where pooled levels have labels of different types.

    Examples
    --------
    >>> step_precision_score([["a", "a", "b"]], [["a", "b", "b"]], average=None).tolist()
    [1.0, 0.5]
    """
    aligned = align(y_true, y_pred, level=level, sample_weight=sample_weight)
    return _delegate(precision_score, "Step precision", aligned, labels, pos_label, average, zero_division)


def step_recall_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    labels: Any = None,
    pos_label: Any = 1,
    average: str | None = "macro",
    level: int | None = None,
    sample_weight: Any = None,
    zero_division: float | str = 0.0,
) -> float | np.ndarray:
    """Recall over time steps: of those that bear a label, the share that is given it.

    Parameters
    ----------
    y_true, y_pred, labels, pos_label, average, level, sample_weight, zero_division
        As in :func:`step_precision_score`, for :func:`sklearn.metrics.recall_score`.

    Returns
    -------
    score : float, or ndarray of shape (n_labels,) if ``average`` is None
        nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`step_precision_score`.

    Examples
    --------
    >>> step_recall_score([["a", "a", "b"]], [["a", "b", "b"]], average=None).tolist()
    [0.5, 1.0]
    """
    aligned = align(y_true, y_pred, level=level, sample_weight=sample_weight)
    return _delegate(recall_score, "Step recall", aligned, labels, pos_label, average, zero_division)


def step_f1_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    labels: Any = None,
    pos_label: Any = 1,
    average: str | None = "macro",
    level: int | None = None,
    sample_weight: Any = None,
    zero_division: float | str = 0.0,
) -> float | np.ndarray:
    """Harmonic mean of precision and recall over time steps.

    Parameters
    ----------
    y_true, y_pred, labels, pos_label, average, level, sample_weight, zero_division
        As in :func:`step_precision_score`, for :func:`sklearn.metrics.f1_score`.

    Returns
    -------
    score : float, or ndarray of shape (n_labels,) if ``average`` is None
        nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`step_precision_score`.

    Examples
    --------
    >>> step_f1_score([["a", "a", "b"]], [["a", "b", "b"]])
    0.6666666666666666
    """
    aligned = align(y_true, y_pred, level=level, sample_weight=sample_weight)
    return _delegate(f1_score, "Step F1", aligned, labels, pos_label, average, zero_division)


def confusion_matrix(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    labels: Any = None,
    level: int | None = None,
    sample_weight: Any = None,
    normalize: str | None = None,
) -> np.ndarray:
    """Count how often each true label was given each label.

    Parameters
    ----------
    y_true, y_pred, level, sample_weight
        As in :func:`micro_accuracy_score`.
    labels : array-like of shape (n_labels,), default=None
        Labels of the rows and columns; None takes the sorted labels found at the labelled steps. Steps whose
        true or predicted label is not among them are not counted.
    normalize : {None, "true", "pred", "all"}, default=None
        Divide by the sum of the row, of the column, or of all; an empty one stays at 0.

    Returns
    -------
    counts : ndarray of shape (n_labels, n_labels)
        From true label (row) to predicted label (column), in steps; int unless weighted or normalised.

    Raises
    ------
    ValueError, TypeError
        As :func:`micro_accuracy_score`; also for an unknown ``normalize``.

    Examples
    --------
    >>> confusion_matrix([["a", "a", "b"]], [["a", "b", "b"]]).tolist()
    [[1, 1], [0, 1]]
    """
    if normalize not in (None, "true", "pred", "all"):
        raise ValueError(f"normalize is {normalize!r}; expected None, 'true', 'pred' or 'all'.")
    aligned = align(y_true, y_pred, level=level, sample_weight=sample_weight)
    counts = _count_pairs(aligned)
    if labels is None:
        scored = aligned.is_scored
        positions = np.unique(np.concatenate([aligned.true[scored], aligned.pred[scored]]))
    else:
        positions = label_positions(labels, aligned.classes)
    # one empty row and column stands for the labels that do not occur
    counts = np.pad(counts, (0, 1))[np.ix_(positions, positions)]
    if normalize is None:
        return counts
    axis = {"true": 1, "pred": 0, "all": (0, 1)}[normalize]
    total = counts.sum(axis=axis, keepdims=True)
    return counts / np.where(total > 0, total, 1)


def _share(aligned: AlignedLabels, *, is_right: bool, metric: str) -> float:
    if not aligned.has_weight:
        return undefined(metric)
    scored = aligned.is_scored
    hit = (aligned.true[scored] == aligned.pred[scored]) == is_right
    weight = aligned.row_weight
    return float(np.average(hit, weights=None if weight is None else weight[scored]))


def _count_pairs(aligned: AlignedLabels) -> np.ndarray:
    """Confusion counts over all classes, shape (n_labels, n_labels)."""
    n_labels = len(aligned.classes)
    scored = aligned.is_scored
    pair = aligned.true[scored] * n_labels + aligned.pred[scored]
    weight = aligned.row_weight
    weight = None if weight is None else weight[scored]
    return np.bincount(pair, weights=weight, minlength=n_labels**2).reshape(n_labels, n_labels)


def _delegate(
    score: Callable[..., Any],
    metric: str,
    aligned: AlignedLabels,
    labels: Any,
    pos_label: Any,
    average: str | None,
    zero_division: float | str,
) -> float | np.ndarray:
    """scikit-learn's score over the labelled steps of all sequences in one array."""
    if aligned.classes.dtype == object:
        raise TypeError("The levels have labels of different types; choose one with level=.")
    if labels is not None:
        label_positions(labels, aligned.classes)  # scikit-learn takes empty and doubled ones
    if not aligned.has_weight:
        value = undefined(metric)
        n_labels = len(aligned.classes) if labels is None else len(label_positions(labels, aligned.classes))
        return np.full(n_labels, value) if average is None else value
    scored = aligned.is_scored
    weight = aligned.row_weight
    value = score(
        aligned.classes[aligned.true[scored]],
        aligned.classes[aligned.pred[scored]],
        labels=labels,
        pos_label=pos_label,
        average=average,
        sample_weight=None if weight is None else weight[scored],
        zero_division=zero_division,
    )
    # weighted sums may exceed one another by rounding
    return np.minimum(value, 1.0) if average is None else min(float(value), 1.0)
