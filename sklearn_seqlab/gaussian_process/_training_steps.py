"""What a fit learns from: the labels that occur, and the steps that carry one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sklearn_seqlab.sequences import CANDIDATES, MISSING, LabelCodes

__all__ = ["known_steps", "only_seen_labels"]


def known_steps(labels: LabelCodes, weight: np.ndarray) -> np.ndarray:
    """Steps with one known label in sequences of positive weight (n_sequences,).

    Raises
    ------
    ValueError
        If there is none.
    """
    steps = np.flatnonzero((labels.codes >= 0) & (np.repeat(weight, np.diff(labels.offsets)) > 0))
    if not len(steps):
        raise ValueError("y holds no known label where sample_weight is positive: nothing to learn from.")
    return steps


def only_seen_labels(labels: LabelCodes, steps: np.ndarray) -> LabelCodes:
    """The same without labels that no step of ``steps`` carries: where they stand, nothing is known."""
    seen = np.unique(labels.codes[steps])
    if len(seen) == labels.n_labels:
        return labels
    place = np.full(labels.n_labels, MISSING, dtype=np.intp)
    place[seen] = np.arange(len(seen))
    codes = labels.codes.copy()
    codes[codes >= 0] = place[codes[codes >= 0]]
    masks = labels.candidate_masks[:, seen]
    # a set of which one label is left had others: what it says is not that this one is true
    kept = masks.sum(axis=1) > 1
    codes[labels.candidate_rows] = np.where(kept, CANDIDATES, MISSING)
    return replace(
        labels,
        codes=codes,
        candidate_rows=labels.candidate_rows[kept],
        candidate_masks=masks[kept],
        classes=labels.classes[seen],
    )
