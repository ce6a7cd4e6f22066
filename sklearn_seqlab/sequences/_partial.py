"""What margin trainers do about sequences that are not completely labelled."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.sequences._batch import PackedBatch
from sklearn_seqlab.sequences._labels import LabelCodes

__all__ = ["known_runs", "raise_if_partial"]


def raise_if_partial(labels: LabelCodes, cure: str) -> None:
    """Refuse labels that are missing or sets of candidates, naming the first.

    Raises
    ------
    ValueError
    """
    hidden = np.flatnonzero(labels.codes < 0)
    if len(hidden):
        s = int(np.searchsorted(labels.offsets, hidden[0], side="right")) - 1
        raise ValueError(f"y[{s}][{hidden[0] - labels.offsets[s]}] is not one known label. {cure}")


def known_runs(
    batch: PackedBatch, labels: LabelCodes, weight: np.ndarray
) -> tuple[PackedBatch, LabelCodes, np.ndarray] | None:
    """The stretches of steps whose labels are known, as sequences of their own; None if there are none.

    A stretch weighs its share of the steps of its sequence.
    """
    known = labels.codes >= 0
    rows = np.flatnonzero(known)
    is_start = np.zeros(len(known), dtype=bool)
    is_start[labels.offsets[:-1]] = True
    starts = np.flatnonzero(known & (is_start | ~np.roll(known, 1)))
    if not len(rows):
        return None
    of_sequence = np.searchsorted(labels.offsets, starts, side="right") - 1
    offsets = np.append(np.searchsorted(rows, starts), len(rows)).astype(np.intp)
    share = np.diff(offsets) / batch.lengths[of_sequence]
    if not (weight[of_sequence] * share).any():
        return None
    none = np.empty(0, dtype=np.intp)
    pieces = LabelCodes(labels.codes[rows], offsets, none, labels.candidate_masks[:0], labels.classes)
    return PackedBatch(batch.values[rows], offsets), pieces, weight[of_sequence] * share
