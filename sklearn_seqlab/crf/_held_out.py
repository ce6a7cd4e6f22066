"""Which sequences to learn from, and which to judge rounds by."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.sequences import LabelCodes

__all__ = ["held_out_split"]


def held_out_split(
    weight: np.ndarray, labels: LabelCodes, share: float | None, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the sequences to learn from, and of those held out: a share of those that count.

    Raises
    ------
    ValueError
        If no sequence of positive weight has a label, or only one and a share is to be held out.
    """
    usable = np.flatnonzero((weight > 0) & labels.is_informative())
    if not len(usable):
        raise ValueError("y holds no label where sample_weight is positive: nothing to learn from.")
    if share is None:
        return usable, usable[:0]
    if len(usable) < 2:
        raise ValueError(
            f"validation_fraction={share!r} needs at least 2 sequences with labels, but X has {len(usable)}. "
            "Cut a long stream into several sequences, days for instance."
        )
    order = random.permutation(usable)
    n_held_out = min(max(1, round(share * len(order))), len(order) - 1)
    return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
