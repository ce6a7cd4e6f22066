"""Which sequences to learn from, and which to judge rounds by."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_seqlab.sequences import LabelCodes

__all__ = ["HeldOut", "held_out_split"]


class HeldOut:
    """Watches a solver: keeps the coefficients with the least loss on held-out sequences.

    Parameters
    ----------
    objective : ChainLogLikelihood
        Of the held-out sequences, for the same coefficients.
    n_iter_no_change : int or None
        Stop after so many iterations that were no better.

    Attributes
    ----------
    losses : list of float
        Mean loss per sequence, by weight, in nats: at the start and after each iteration.
    coef : ndarray of shape (n_coef,)
        The best.
    """

    def __init__(self, objective: Any, n_iter_no_change: int | None):
        self.objective, self.n_iter_no_change = objective, n_iter_no_change
        self._unit = objective.C * float(objective.weight.sum())
        self.losses: list[float] = []
        self.coef = np.empty(0)

    @property
    def best(self) -> int:
        """The iteration that is kept."""
        return int(np.argmin(self.losses))

    def __call__(self, coef: np.ndarray) -> bool:
        loss = self.objective.data_value_and_gradient(coef)[0] / self._unit
        self.losses.append(float(loss) if np.isfinite(loss) else np.inf)
        if self.best == len(self.losses) - 1:
            self.coef = coef.copy()
        since = len(self.losses) - 1 - self.best
        return self.n_iter_no_change is not None and since >= self.n_iter_no_change


def held_out_split(
    weight: np.ndarray, labels: LabelCodes, share: float | None, random: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the sequences to learn from, and of those held out: a share of those that count.

    Raises
    ------
    ValueError
        If no sequence of positive weight has a label, or only one and a share is to be held out.
    """
    says_something = np.logical_or.reduceat(labels.says_something(), labels.offsets[:-1])
    usable = np.flatnonzero((weight > 0) & says_something)
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
