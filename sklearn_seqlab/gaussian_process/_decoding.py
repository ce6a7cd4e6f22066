"""From normal scores of steps and couplings to labels and probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import entr, logsumexp, softmax

from sklearn_seqlab.gaussian_process._couplings import soft_neighbour_rows
from sklearn_seqlab.inference import NeighbourScores, PackedChains, Relaxation

__all__ = ["StepScores", "averaged_softmax", "normal_draws"]

# Doubles in the draws of one block of rows.
_BLOCK = 2**21


@dataclass(frozen=True, eq=False)
class StepScores:
    """Normal scores of whole sequences.

    Attributes
    ----------
    mean, variance : ndarray of shape (n_total, n_labels)
        Of the latent functions.
    coupling_mean, coupling_var : ndarray of shape (n_lags, n_labels, n_labels)
    lags : tuple of int
    offsets : ndarray of shape (n_sequences + 1,)
    first : int
        Number of the first sequence, for messages.
    allowed : ndarray of bool of shape (n_total, n_labels)
    """

    mean: np.ndarray
    variance: np.ndarray
    coupling_mean: np.ndarray
    coupling_var: np.ndarray
    lags: tuple[int, ...]
    offsets: np.ndarray
    first: int
    allowed: np.ndarray

    def raise_if_overflown(self) -> None:
        """Refuse scores that left the range of doubles, naming sequence and step."""
        fine = np.isfinite(self.mean).all(axis=1) & np.isfinite(self.variance).all(axis=1)
        if fine.all():
            return
        row = int(np.argmin(fine))
        s = int(np.searchsorted(self.offsets, row, side="right")) - 1
        raise ValueError(
            f"The scores of sequence {self.first + s} at time step {row - self.offsets[s]} are beyond double "
            "precision: features are too large."
        )

    def relaxed(
        self, variance_weight: float, *, sequential: bool, damping: float, tol: float, max_rounds: int
    ) -> Relaxation:
        """Relaxed normalised scores."""
        scores = NeighbourScores(
            self.mean + variance_weight * self.variance,
            np.ascontiguousarray(self.coupling_mean + variance_weight * self.coupling_var),
            np.array(self.lags, dtype=np.intp),
            self.offsets,
            self.allowed,
        )
        return scores.relax(sequential=sequential, damping=damping, tol=tol, max_rounds=max_rounds)

    def chains(self) -> PackedChains:
        """Mean scores as a chain; couplings of both neighbours are averaged."""
        tables = [
            self.coupling_mean[d].T if lag > 0 else self.coupling_mean[d]
            for d, lag in enumerate(self.lags)
            if abs(lag) == 1
        ]
        moves = np.ascontiguousarray(sum(tables) / len(tables))
        return PackedChains(self.mean, moves, self.offsets, self.first).narrowed(self.allowed)

    def chain_marginals(self) -> np.ndarray:
        chains = self.chains()
        log_z, node, _ = chains.forward_backward()
        chains.raise_if_infeasible(log_z)
        return node

    def best_path(self, variance_weight: float, *, local: bool) -> np.ndarray:
        """Codes of the best labelling from left to right.

        With ``local``, of the directed model whose every step is normalised given the label before it; else of the
        sum of scores.
        """
        base = self.mean + variance_weight * self.variance
        moves = self.coupling_mean[0] + variance_weight * self.coupling_var[0]
        if not local:
            chains = PackedChains(base, np.ascontiguousarray(moves), self.offsets, self.first)
            return chains.narrowed(self.allowed).viterbi()[0]
        first = self.offsets[:-1]
        step = base[:, None, :] + moves
        step -= logsumexp(step, axis=2, keepdims=True)
        unary = np.zeros_like(base)
        unary[first] = base[first] - logsumexp(base[first], axis=1, keepdims=True)
        return PackedChains(unary, step, self.offsets, self.first).narrowed(self.allowed).viterbi()[0]

    def given(self, proba: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the whole scores where labels around a step have these probabilities."""
        if not self.lags:
            return self.mean, self.variance
        n_labels = proba.shape[1]
        around = soft_neighbour_rows(proba, self.offsets, self.lags)
        mean = self.mean + around @ self.coupling_mean.reshape(-1, n_labels)
        return mean, self.variance + around.power(2) @ self.coupling_var.reshape(-1, n_labels)


def normal_draws(n_samples: int, n_labels: int, random_state: np.random.RandomState) -> np.ndarray:
    """Standard normal draws (n_samples, n_labels), each beside its opposite."""
    half = random_state.standard_normal((-(-n_samples // 2), n_labels))
    return np.concatenate([half, -half])[:n_samples]


def probit_softmax(mean: np.ndarray, variance: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Mean softmax by MacKay's approximation of each score by itself."""
    shrunk = mean / np.sqrt(1.0 + np.pi * variance / 8.0)
    return softmax(np.where(allowed, shrunk, -np.inf), axis=1)


def averaged_softmax(
    mean: np.ndarray, variance: np.ndarray, allowed: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over draws of the softmax, and mean of its entropy.

    Parameters
    ----------
    mean, variance : ndarray of shape (n_rows, n_labels)
    allowed : ndarray of bool of shape (n_rows, n_labels)
    draws : ndarray of shape (n_samples, n_labels)
        The same for all rows: what a row gets does not depend on the others.

    Returns
    -------
    proba : ndarray of shape (n_rows, n_labels)
    entropy : ndarray of shape (n_rows,)
        In nats.
    """
    proba, entropy = np.empty_like(mean), np.empty(len(mean))
    deviation = np.sqrt(variance)
    size = max(1, _BLOCK // draws.size)
    for start in range(0, len(mean), size):
        rows = slice(start, start + size)
        scores = mean[rows, None] + deviation[rows, None] * draws
        scores[np.broadcast_to(~allowed[rows, None], scores.shape)] = -np.inf
        p = softmax(scores, axis=2)
        proba[rows] = p.mean(axis=1)
        entropy[rows] = entr(p).sum(axis=2).mean(axis=1)
    return proba, entropy
