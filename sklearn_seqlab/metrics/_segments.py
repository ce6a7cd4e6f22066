"""Scores that count whole segments: right only if start, stop and label are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_seqlab.metrics._alignment import AlignedLabels, align, label_positions, undefined
from sklearn_seqlab.sequences._bio import find_bio_segments, split_tags
from sklearn_seqlab.sequences._segments import find_runs

__all__ = [
    "segment_classification_report",
    "segment_f1_score",
    "segment_precision_score",
    "segment_recall_score",
]


@dataclass(frozen=True, eq=False)
class _SegmentCounts:
    """Weighted numbers of segments by label, each of shape (n_labels,)."""

    labels: list[Any]
    right: np.ndarray
    pred: np.ndarray
    true: np.ndarray
    is_defined: bool


def segment_f1_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str | None = None,
    labels: Any = None,
    average: str | None = "micro",
    level: int | None = None,
    sample_weight: Any = None,
    zero_division: float = 0.0,
) -> float | np.ndarray:
    """Harmonic mean of precision and recall over segments.

    Parameters
    ----------
    y_true : list of array-like of shape (n_timesteps,) or (n_timesteps, n_levels)
        True labels. A step whose label is missing, or known only as a set of candidates, ends the segment
        before it; what is predicted there is left out, in the sense that both sides are cut at the same
        steps: ``["a", None, "a"]`` against ``["a", "a", "a"]`` are two right segments.
    y_pred : list of array-like, of the shapes of ``y_true``
        Predicted labels.
    scheme : {None, "IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU", "conll"}, default=None
        None takes every run of equal labels as a segment, those of a background label too (leave it out with
        ``labels``). Else labels are tags such as "B-NP", read as
        :func:`~sklearn_seqlab.sequences.bio_to_segments` does: strictly, or with "conll" as the ``conlleval``
        script does.
    labels : array-like of shape (n_labels,), default=None
        The labels to count, under a scheme those behind the prefix ("NP"); None takes all that some segment
        bears. Sets the order for ``average=None``.
    average : {"micro", "macro", "weighted", None}, default="micro"
        "micro" counts the segments of all labels together; "macro" is the mean over labels; "weighted" the
        mean weighted by the number of true segments; None returns one score per label.
    level : int, default=None
        The column to score of labels on several levels; None counts the segments of all levels.
    sample_weight : array-like of shape (n_sequences,), default=None
        Every segment bears the weight of its sequence.
    zero_division : float, default=0.0
        The score of a label without true and predicted segments (precision: without predicted ones; recall:
        without true ones); with nan it is left out of "macro" and "weighted".

    Returns
    -------
    score : float, or ndarray of shape (n_labels,) if ``average`` is None
        Between 0 and 1; nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError
        As :func:`micro_accuracy_score`; also for an unknown ``scheme`` or ``average``, and for a label that
        is no tag of the scheme.
    TypeError
        As :func:`micro_accuracy_score`; also for tags that are not str.

    Notes
    -----
    The measure of the CoNLL-2000 shared task (Tjong Kim Sang and Buchholz, 2000); the strict schemes follow
    the ``seqeval`` package. Linear in the number of steps.

    Examples
    --------
    >>> segment_f1_score([["a", "a", "b", "b"]], [["a", "b", "b", "b"]])
    0.0
    >>> y_true, y_pred = [["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "O", "O"]]
    >>> segment_f1_score(y_true, y_pred, scheme="IOB2")
    0.6666666666666666
    """
    counts = _count(y_true, y_pred, scheme, labels, level, sample_weight)
    return _score(counts, "f1-score", average, zero_division)


def segment_precision_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str | None = None,
    labels: Any = None,
    average: str | None = "micro",
    level: int | None = None,
    sample_weight: Any = None,
    zero_division: float = 0.0,
) -> float | np.ndarray:
    """Share of the predicted segments that are right.

    Parameters
    ----------
    y_true, y_pred, scheme, labels, average, level, sample_weight, zero_division
        As in :func:`segment_f1_score`.

    Returns
    -------
    score : float, or ndarray of shape (n_labels,) if ``average`` is None
        Between 0 and 1; nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`segment_f1_score`.

    Examples
    --------
    >>> segment_precision_score([["a", "a", "b", "c"]], [["a", "a", "b", "b"]])
    0.5
    """
    counts = _count(y_true, y_pred, scheme, labels, level, sample_weight)
    return _score(counts, "precision", average, zero_division)


def segment_recall_score(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str | None = None,
    labels: Any = None,
    average: str | None = "micro",
    level: int | None = None,
    sample_weight: Any = None,
    zero_division: float = 0.0,
) -> float | np.ndarray:
    """Share of the true segments that were predicted.

    Parameters
    ----------
    y_true, y_pred, scheme, labels, average, level, sample_weight, zero_division
        As in :func:`segment_f1_score`.

    Returns
    -------
    score : float, or ndarray of shape (n_labels,) if ``average`` is None
        Between 0 and 1; nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`segment_f1_score`.

    Examples
    --------
    >>> segment_recall_score([["a", "a", "b", "c"]], [["a", "a", "b", "b"]])
    0.3333333333333333
    """
    counts = _count(y_true, y_pred, scheme, labels, level, sample_weight)
    return _score(counts, "recall", average, zero_division)


def segment_classification_report(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    *,
    scheme: str | None = None,
    labels: Any = None,
    level: int | None = None,
    sample_weight: Any = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: float = 0.0,
) -> str | dict[Any, dict[str, float]]:
    """Precision, recall, F1 and number of true segments, by label and on average.

    Parameters
    ----------
    y_true, y_pred, scheme, labels, level, sample_weight, zero_division
        As in :func:`segment_f1_score`.
    digits : int, default=2
        Decimals of the text.
    output_dict : bool, default=False
        Whether to return a dict instead of text.

    Returns
    -------
    report : str or dict
        As :func:`sklearn.metrics.classification_report`: under every label, and under "micro avg",
        "macro avg" and "weighted avg", the entries "precision", "recall", "f1-score" and "support". The keys
        are the labels themselves (not their text, as in scikit-learn), so that 1 and "1" stay apart.
        All are nan, with an ``UndefinedMetricWarning``, if no step is labelled.

    Raises
    ------
    ValueError, TypeError
        As :func:`segment_f1_score`.

    Examples
    --------
    >>> print(segment_classification_report([["a", "a", "b"]], [["a", "a", "a"]]))
                  precision    recall  f1-score   support
    <BLANKLINE>
               a       0.00      0.00      0.00         1
               b       0.00      0.00      0.00         1
    <BLANKLINE>
       micro avg       0.00      0.00      0.00         2
       macro avg       0.00      0.00      0.00         2
    weighted avg       0.00      0.00      0.00         2
    <BLANKLINE>
    """
    counts = _count(y_true, y_pred, scheme, labels, level, sample_weight)
    if not counts.is_defined:
        zero_division = undefined("Segment report")
    measures = ("precision", "recall", "f1-score")
    by_label = {measure: np.asarray(_average(counts, measure, None, zero_division)) for measure in measures}
    support = counts.true.tolist()
    rows: dict[Any, dict[str, float]] = {
        label: {**{measure: float(by_label[measure][k]) for measure in measures}, "support": support[k]}
        for k, label in enumerate(counts.labels)
    }
    averages = {
        f"{average} avg": {
            **{measure: _average(counts, measure, average, zero_division) for measure in measures},
            "support": sum(support),
        }
        for average in ("micro", "macro", "weighted")
    }
    return {**rows, **averages} if output_dict else _as_text(rows, averages, digits)


def _as_text(rows: dict[Any, dict[str, float]], averages: dict[str, dict[str, float]], digits: int) -> str:
    width = max(len(str(name)) for name in [*rows, *averages])
    lines = [
        " " * (width + 1)
        + "".join(f" {title:>9}" for title in ("precision", "recall", "f1-score", "support"))
    ]
    for block in (rows, averages):
        lines.append("")
        for name, entry in block.items():
            numbers = "".join(f" {entry[key]:>9.{digits}f}" for key in ("precision", "recall", "f1-score"))
            support = entry["support"]
            shown = f"{support:>9.{digits}f}" if isinstance(support, float) else f"{support:>9}"
            lines.append(f"{name!s:>{width}} {numbers} {shown}")
    return "\n".join(lines) + "\n"


def _count(
    y_true: Iterable[Any],
    y_pred: Iterable[Any],
    scheme: str | None,
    labels: Any,
    level: int | None,
    weight: Any,
) -> _SegmentCounts:
    """Numbers of segments by label."""
    aligned = align(y_true, y_pred, level=level, sample_weight=weight)
    if scheme is None:
        classes, true, pred = _runs(aligned)
    else:
        classes, true, pred = _tagged(aligned, scheme)
    n_total, n_labels = len(aligned.true), len(classes)
    # at most one segment of each side starts at a row
    stop_of, label_of = np.full(n_total, -1), np.full(n_total, -1)
    stop_of[true[0]], label_of[true[0]] = true[1], true[2]
    is_right = (stop_of[pred[0]] == pred[1]) & (label_of[pred[0]] == pred[2])
    row_weight = aligned.row_weight

    def count(starts: np.ndarray, found: np.ndarray) -> np.ndarray:
        weights = None if row_weight is None else row_weight[starts]
        return np.bincount(found, weights=weights, minlength=n_labels + 1)

    counts = [count(pred[0][is_right], pred[2][is_right]), count(pred[0], pred[2]), count(true[0], true[2])]
    if labels is None:
        taken = np.flatnonzero((counts[1] > 0) | (counts[2] > 0))
        names = classes[taken].tolist()
    else:
        # position -1, a label that does not occur, is the last entry, which counts nothing
        taken = label_positions(labels, classes)
        names = list(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    right, n_pred, n_true = (c[taken] for c in counts)
    return _SegmentCounts(names, right, n_pred, n_true, aligned.has_weight)


_Segments = tuple[np.ndarray, np.ndarray, np.ndarray]


def _runs(aligned: AlignedLabels) -> tuple[np.ndarray, _Segments, _Segments]:
    """Runs of equal labels, (starts, stops, labels) of either side, cut where the true label is missing."""
    sides = []
    for codes in (aligned.true, np.where(aligned.is_scored, aligned.pred, -1)):
        starts, stops = find_runs(codes, aligned.offsets)
        sides.append((starts, stops, codes[starts]))
    return aligned.classes, sides[0], sides[1]


def _tagged(aligned: AlignedLabels, scheme: str) -> tuple[np.ndarray, _Segments, _Segments]:
    """Segments that tags spell; a step whose true label is missing counts as "O" on either side."""
    prefix_of, label_of, labels = split_tags(aligned.classes, scheme, name="y_true or y_pred")
    sides = []
    for codes in (aligned.true, np.where(aligned.is_scored, aligned.pred, -1)):
        sides.append(find_bio_segments(codes, aligned.offsets, prefix_of, label_of, scheme))
    return np.array(labels, dtype=object), sides[0], sides[1]


def _score(
    counts: _SegmentCounts, measure: str, average: str | None, zero_division: float
) -> float | np.ndarray:
    score = _average(counts, measure, average, zero_division)
    if counts.is_defined:
        return score
    value = undefined(f"Segment {measure}")
    return np.full(len(counts.labels), value) if average is None else value


def _average(
    counts: _SegmentCounts, measure: str, average: str | None, zero_division: float
) -> float | np.ndarray:
    if average not in ("micro", "macro", "weighted", None):
        raise ValueError(f"average is {average!r}; expected 'micro', 'macro', 'weighted' or None.")
    if isinstance(zero_division, str) or not (np.isnan(zero_division) or zero_division in (0.0, 1.0)):
        raise ValueError(f"zero_division is {zero_division!r}; expected 0.0, 1.0 or nan.")
    right, pred, true = counts.right, counts.pred, counts.true
    if average == "micro":
        right, pred, true = (np.array([part.sum()]) for part in (right, pred, true))
    above, below = {
        "precision": (right, pred),
        "recall": (right, true),
        "f1-score": (2 * right, pred + true),
    }[measure]
    scores = np.full(len(above), float(zero_division))
    np.divide(above, below, out=scores, where=below > 0)
    # weighted sums may exceed one another by rounding
    scores = np.minimum(scores, 1.0)
    if average is None:
        return scores
    if average == "micro":
        return float(scores[0])
    weights = true if average == "weighted" else np.ones(len(scores))
    weights = np.where(np.isnan(scores), 0, weights)
    if weights.sum() == 0:
        return float(zero_division)
    return min(float(np.average(np.nan_to_num(scores), weights=weights)), 1.0)
