"""Distributions of steps given the expected labels around them, relaxed to a fixed point: trusted arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from sklearn_seqlab.inference._relaxation import relax

__all__ = ["NeighbourScores", "Relaxation"]

# Where damped rounds have not converged they may be slow, or swing: so many more, then as many that keep so much of
# what they had.
_MORE_ROUNDS, _MORE_DAMPING = 200, (0.8, 0.95)


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Where a relaxation ended.

    Attributes
    ----------
    proba : ndarray of shape (n_total, n_labels)
    n_rounds : ndarray of int of shape (n_sequences,)
    change : ndarray of shape (n_sequences,)
        Largest change of a probability that the last round would have made without damping.
    converged : ndarray of bool of shape (n_sequences,)
    """

    proba: np.ndarray
    n_rounds: np.ndarray
    change: np.ndarray
    converged: np.ndarray


@dataclass(frozen=True, eq=False)
class NeighbourScores:
    """Scores of the labels of each step, and of pairs of a label and one some steps away; in nats.

    Attributes
    ----------
    base : ndarray of shape (n_total, n_labels)
        Finite.
    coupling : ndarray of shape (n_lags, n_labels, n_labels)
        From the label at the other step to the label here.
    lags : ndarray of int of shape (n_lags,)
        Where the other step is; outside the sequence there is none.
    offsets : ndarray of shape (n_sequences + 1,)
    allowed : ndarray of bool of shape (n_total, n_labels)
        At least one label per step.
    """

    base: np.ndarray
    coupling: np.ndarray
    lags: np.ndarray
    offsets: np.ndarray
    allowed: np.ndarray

    def __post_init__(self) -> None:
        # the kernel trusts these shapes; a damaged estimator must not make it read elsewhere
        n_total, n_labels = self.base.shape
        if self.coupling.shape != (len(self.lags), n_labels, n_labels):
            raise ValueError(
                f"couplings have shape {self.coupling.shape}; expected {(len(self.lags), n_labels, n_labels)}."
            )
        if self.allowed.shape != self.base.shape or self.offsets[-1] != n_total:
            raise ValueError(
                f"There are {n_total} rows of scores, but {len(self.allowed)} of allowed labels, and offsets end at "
                f"{self.offsets[-1]}."
            )

    def relax(
        self, *, sequential: bool = False, damping: float = 0.5, tol: float = 1e-4, max_rounds: int = 100
    ) -> Relaxation:
        """Rounds of ``r_t = softmax(base_t + sum_k r_(t + k) @ coupling_k)``, from the base alone.

        Parameters
        ----------
        sequential : bool, default=False
            Whether steps are visited from left to right and see the new distributions of those before them.
        damping : float, default=0.5
            Share of its old distribution that a step keeps.
        tol : float, default=1e-4
            A sequence has converged when no probability would change by more without damping.
        max_rounds : int, default=100
            If damped synchronous rounds have not converged by then, 200 more follow, then 200 each with a damping of
            0.8 and of 0.95.

        Returns
        -------
        outcome : Relaxation

        Notes
        -----
        A round takes O(n_total * n_lags * n_labels**2). With strong couplings in both directions undamped synchronous
        rounds may alternate for ever between two states; sequential rounds settle, but keep what the first guess from
        the left has decided.
        """
        start = np.where(self.allowed, self.base, -np.inf)
        proba = np.ascontiguousarray(softmax(start, axis=1))
        n_sequences = len(self.offsets) - 1
        n_rounds, change = np.zeros(n_sequences, dtype=np.intc), np.full(n_sequences, np.inf)
        work = np.empty((int(np.diff(self.offsets).max()), self.base.shape[1]))
        allowed = np.ascontiguousarray(self.allowed, dtype=np.uint8)

        def rounds(chosen: np.ndarray, damping: float, most: int) -> None:
            relax(
                self.base, self.coupling, self.lags, allowed, self.offsets, chosen, sequential, damping, tol,
                most, proba, work, n_rounds, change,
            )  # fmt: skip

        rounds(np.arange(n_sequences), damping, max_rounds)
        for more_damping in (damping, *_MORE_DAMPING):
            rest = np.flatnonzero(change > tol)
            if len(rest) and not sequential and 0 < damping <= more_damping:
                rounds(rest, more_damping, _MORE_ROUNDS)
        return Relaxation(proba, n_rounds, change, change <= tol)
