"""Exact inference in segment models: the verbs of the inference core for ``SegmentScores``.

A segmentation cuts a sequence into segments of one label each. It scores the sum of ``segment[i, d - 1, u]`` over
its segments (of ``d`` steps from row ``i`` on, of label ``u``) and of ``transition[u, v]`` over the boundaries
between them (plus ``initial`` and ``final`` for the first and the last label); its probability is
``exp(score - log_partition)``. Scores are in nats, and minus infinity forbids. Whether a segment may follow one of
the same label is said by the diagonal of ``transition``.

Codes are ``(labels, ends)``: the label of every step, and whether a segment ends with it, both of shape (n_total,).
Arguments are checked here; the work is done by ``PackedStacks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab._arguments import check_numerics, positive
from sklearn_seqlab.inference._checks import (
    check_ends_of_sequences,
    check_transition,
    check_values,
    checked_allowed,
    checked_labels,
    checked_offsets,
    store_scores,
)
from sklearn_seqlab.inference.packed_stacks import PackedStacks
from sklearn_seqlab.inference.stack_layout import StackLayout
from sklearn_seqlab.sequences import cut_rows

__all__ = [
    "SegmentScores",
    "log_partition",
    "marginals",
    "n_best",
    "sample",
    "score_of",
    "viterbi",
]

SegmentCodes = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class SegmentScores:
    """Log-potentials of a batch of segmentations, or marginals in the same shapes.

    Parameters
    ----------
    segment : array-like of shape (n_total, max_duration, n_labels)
        Entry ``[i, d - 1, u]`` is the score of the segment of ``d`` time steps and label ``u`` that starts at row
        ``i`` of the packed batch, in nats. Entries of segments that leave their sequence are ignored.
    transition : array-like of shape (n_labels, n_labels) or (n_total, n_labels, n_labels)
        Score of a boundary between segments, from the label of the row to that of the column; entry ``t`` of the
        longer form is for the boundary *before* row ``t``, and that of the first row of a sequence is ignored.
    initial, final : array-like of shape (n_labels,), default=None
        Scores of the label of the first and of the last segment; None counts as zeros.
    """

    segment: np.ndarray
    transition: np.ndarray
    initial: np.ndarray | None = None
    final: np.ndarray | None = None

    def __post_init__(self) -> None:
        store_scores(self, "segment", "transition", "initial", "final")

    @property
    def n_labels(self) -> int:
        return self.segment.shape[2]

    @property
    def max_duration(self) -> int:
        """Longest segment, in time steps."""
        return self.segment.shape[1]


def log_partition(
    scores: SegmentScores,
    offsets: ArrayLike,
    allowed: ArrayLike | None = None,
    ends: ArrayLike | None = None,
    numerics: str = "auto",
) -> np.ndarray:
    """Log of the summed exponentiated scores of all segmentations.

    Parameters
    ----------
    scores : SegmentScores
        In nats.
    offsets : array-like of shape (n_sequences + 1,)
        Sequence ``s`` occupies rows ``offsets[s]:offsets[s + 1]``.
    allowed : array-like of bool of shape (n_total, n_labels), default=None
        Labels that may cover each step; None allows all.
    ends : array-like of int8 of shape (n_total,), default=None
        1 where a segment ends with a step, 0 where none does, -1 where that is unknown; None knows nothing.
    numerics : {"auto", "scaled", "log"}, default="auto"
        "scaled" sums scaled masses and raises where they do not certify their result, "log" sums in the log
        domain, "auto" redoes there what is not certified.

    Returns
    -------
    log_z : ndarray of shape (n_sequences,)
        Minus infinity for a sequence without a feasible segmentation.

    Raises
    ------
    ValueError
        If a shape does not fit, or a score is NaN or plus infinity.
    FloatingPointError
        With ``numerics="scaled"``, if a sequence is not certified.

    Notes
    -----
    Time O(n_total * n_labels * (max_duration + n_labels)), after Sarawagi and Cohen, "Semi-Markov conditional
    random fields for information extraction", NIPS 2004.
    """
    return _checked(scores, offsets, allowed, ends, numerics).log_partition(numerics)


def marginals(
    scores: SegmentScores,
    offsets: ArrayLike,
    allowed: ArrayLike | None = None,
    ends: ArrayLike | None = None,
    numerics: str = "auto",
) -> tuple[np.ndarray, SegmentScores]:
    """Log-partition and the probability of every segment and boundary.

    Parameters
    ----------
    scores, offsets, allowed, ends, numerics
        As in :func:`log_partition`.

    Returns
    -------
    log_z : ndarray of shape (n_sequences,)
    marginals : SegmentScores
        Probabilities in the shapes of ``scores``; what the scores share, the marginals sum. So they are the
        gradient of ``log_z.sum()`` with respect to the scores.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no segmentation of finite score.
    FloatingPointError
        With ``numerics="scaled"``, if a sequence is not certified.
    """
    stacks = _checked(scores, offsets, allowed, ends, numerics)
    log_z, shares, _ = stacks.forward_backward(numerics=numerics)
    stacks.raise_if_infeasible(log_z)
    transition = shares.move.reshape(scores.transition.shape)
    initial = None if scores.initial is None else shares.start[0, 1:]
    final = None if scores.final is None else shares.stop[0, 1:]
    return log_z, SegmentScores(shares.duration, transition, initial, final)


def viterbi(
    scores: SegmentScores, offsets: ArrayLike, allowed: ArrayLike | None = None, ends: ArrayLike | None = None
) -> tuple[SegmentCodes, np.ndarray]:
    """The segmentation of largest score; ties go to the smallest label, then to the longest segment, from the end.

    Parameters
    ----------
    scores, offsets, allowed, ends
        As in :func:`log_partition`.

    Returns
    -------
    codes : tuple (labels, ends)
        Of shape (n_total,), dtype intp and bool.
    best_score : ndarray of shape (n_sequences,)

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no segmentation of finite score.
    """
    labels, highest, best = _checked(scores, offsets, allowed, ends).viterbi()
    return (labels, highest <= 1), best


def score_of(scores: SegmentScores, offsets: ArrayLike, codes: tuple[ArrayLike, ArrayLike]) -> np.ndarray:
    """Score of one segmentation of each sequence.

    Parameters
    ----------
    scores, offsets
        As in :func:`log_partition`.
    codes : tuple (labels, ends)
        Array-likes of shape (n_total,), int and bool: the label of each step, and whether a segment ends with it.

    Returns
    -------
    score : ndarray of shape (n_sequences,)
        In nats; minus infinity for a forbidden segmentation, as one with a segment beyond ``max_duration``.

    Raises
    ------
    ValueError
        If the codes are no segmentation: a sequence does not end with a segment, or a label changes within one.
    """
    stacks = _checked(scores, offsets, None, None)
    labels, ends = _checked_codes(codes, stacks.offsets, scores.n_labels)
    starts, stops = cut_rows(ends)
    length, label = stops - starts, labels[starts]
    gain = np.full(len(starts), -np.inf)
    short = length <= scores.max_duration
    gain[short] = scores.segment[starts[short], length[short] - 1, label[short]]
    first = np.searchsorted(starts, stacks.offsets[:-1])
    after = np.delete(np.arange(len(starts)), first)
    if scores.transition.ndim == 3:
        gain[after] += scores.transition[starts[after], label[after - 1], label[after]]
    else:
        gain[after] += scores.transition[label[after - 1], label[after]]
    if scores.initial is not None:
        gain[first] += scores.initial[label[first]]
    if scores.final is not None:
        last = np.append(first[1:], len(starts)) - 1
        gain[last] += scores.final[label[last]]
    with np.errstate(over="ignore"):
        score = np.add.reduceat(gain, first)
    stacks.raise_if_too_large(score)
    return score


def sample(
    scores: SegmentScores,
    offsets: ArrayLike,
    n_samples: int = 1,
    random_state: Any = None,
    allowed: ArrayLike | None = None,
    ends: ArrayLike | None = None,
) -> list[SegmentCodes]:
    """Independent draws from the distribution of segmentations.

    Parameters
    ----------
    scores, offsets, allowed, ends
        As in :func:`log_partition`.
    n_samples : int, default=1
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    draws : list of n_samples tuples (labels, ends)
        As :func:`viterbi` gives them.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no segmentation of finite score.
    """
    stacks = _checked(scores, offsets, allowed, ends)
    draws = stacks.sample(positive(n_samples, "n_samples"), random_state)
    return [(labels, highest <= 1) for labels, highest in draws]


def n_best(
    scores: SegmentScores,
    offsets: ArrayLike,
    n: int,
    allowed: ArrayLike | None = None,
    ends: ArrayLike | None = None,
) -> list[tuple[SegmentCodes, np.ndarray]]:
    """The n segmentations of largest score of each sequence, best first.

    Parameters
    ----------
    scores, offsets, allowed, ends
        As in :func:`log_partition`.
    n : int
        How many segmentations; at least 1.

    Returns
    -------
    segmentations : list of n_sequences tuples (codes, score)
        ``codes`` are ``(labels, ends)``, both of shape (n_found, n_timesteps), and ``score`` is of shape
        (n_found,), in nats. Fewer than ``n`` are found where fewer are feasible.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no segmentation of finite score.

    Notes
    -----
    Time O(n_total * n_labels * (max_duration + n_labels) * n), memory O(longest sequence * n_labels * n).
    """
    found = _checked(scores, offsets, allowed, ends).n_best(positive(n, "n"))
    return [((labels, ends), score) for labels, ends, score in found]


def _checked(
    scores: SegmentScores,
    offsets: ArrayLike,
    allowed: ArrayLike | None,
    ends: ArrayLike | None,
    numerics: str = "log",
) -> PackedStacks:
    """Checked scores as stacks of a dummy root and a label; levelled if they are summed in scaled masses."""
    if not isinstance(scores, SegmentScores):
        raise TypeError(f"scores is a {type(scores).__name__}; expected SegmentScores(segment, transition).")
    check_numerics(numerics)
    segment, transition = scores.segment, scores.transition
    if segment.ndim != 3 or not segment.size:
        raise ValueError(
            f"segment has shape {segment.shape}; expected (n_total, max_duration, n_labels), all at least 1."
        )
    n_total, max_duration, n_labels = segment.shape
    check_transition(transition, n_total, n_labels)
    bounds = checked_offsets(offsets, n_total)
    if transition.ndim == 3:
        transition = transition.copy()
        transition[bounds[:-1]] = 0.0
    remaining = np.repeat(bounds[1:], np.diff(bounds)) - np.arange(n_total)
    inside = np.arange(1, max_duration + 1) <= remaining[:, None]
    segment = np.where(inside[:, :, None], segment, -np.inf)
    check_values("segment", segment)
    check_values("transition", transition)
    check_ends_of_sequences(n_labels, initial=scores.initial, final=scores.final)
    start, stop = np.zeros((1, n_labels + 1)), np.zeros((1, n_labels + 1))
    for row, values in ((start, scores.initial), (stop, scores.final)):
        if values is not None:
            row[0, 1:] = values
    stacks = PackedStacks(
        StackLayout.of(1, [np.ones((1, n_labels), dtype=bool)]),
        1,
        np.zeros((n_total, n_labels)),
        start,
        stop,
        transition.reshape(-1, n_labels**2),
        segment,
        bounds,
    )
    if allowed is not None or ends is not None:
        stacks = stacks.narrowed(*_checked_knowledge(allowed, ends, stacks))
    return stacks if numerics == "log" else stacks.levelled()


def _checked_knowledge(
    allowed: ArrayLike | None, ends: ArrayLike | None, stacks: PackedStacks
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """What is allowed and which ends are known, in the terms of ``PackedStacks.narrowed``."""
    n_total, n_labels = stacks.step.shape
    mask = None if allowed is None else checked_allowed(allowed, (n_total, n_labels))
    if ends is None:
        return mask, None
    given = np.asarray(ends)
    if given.shape != (n_total,) or given.dtype.kind not in "ib":
        raise ValueError(
            f"ends has shape {given.shape} and dtype {given.dtype}; expected int8, ({n_total},)."
        )
    if not np.isin(given, (-1, 0, 1)).all():
        raise ValueError("ends holds numbers other than 1 (ends), 0 (goes on) and -1 (unknown).")
    levels = np.full((2, n_total), -1, dtype=np.int8)
    levels[1] = given
    # the stacks take for granted that a segment ends with a sequence
    contradicted = stacks.offsets[1:][given[stacks.offsets[1:] - 1] == 0] - 1
    if len(contradicted):
        mask = np.ones((n_total, n_labels), dtype=bool) if mask is None else mask.copy()
        mask[contradicted] = False
    return mask, levels


def _checked_codes(codes: Any, bounds: np.ndarray, n_labels: int) -> SegmentCodes:
    if not isinstance(codes, tuple) or len(codes) != 2:
        raise TypeError("codes must be a tuple (labels, ends).")
    n_total = int(bounds[-1])
    labels = checked_labels(codes[0], n_total, n_labels, name="labels")
    ends = np.asarray(codes[1])
    if ends.shape != (n_total,) or ends.dtype != bool:
        raise ValueError(f"ends has shape {ends.shape} and dtype {ends.dtype}; expected bool, ({n_total},).")
    if not ends[bounds[1:] - 1].all():
        raise ValueError(
            f"No segment ends with the last step of sequence {int(np.argmin(ends[bounds[1:] - 1]))}."
        )
    torn = np.flatnonzero((labels[1:] != labels[:-1]) & ~ends[:-1])
    if len(torn):
        raise ValueError(f"labels changes after row {torn[0]}, but ends[{torn[0]}] is False.")
    return labels, ends
