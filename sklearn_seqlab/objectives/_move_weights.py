"""Weights of moves, first and last labels, over scores that something else gives."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.objectives._known_chains import KnownChains, Residuals, Scores, SequenceLoss

__all__ = ["MoveWeights", "framed_scores"]


def framed_scores(base: Scores, coef: np.ndarray, offsets: np.ndarray) -> Scores:
    """Scores of steps and moves with the weights of moves, starts and ends added.

    Parameters
    ----------
    base : tuple of ndarray
        Of steps (n_total, n_labels), and of moves: per step, or (n_labels, n_labels).
    coef : ndarray of shape (n_labels * (n_labels + 2),)
        Weights of moves, row by row, of first and of last labels.
    offsets : ndarray of shape (n_sequences + 1,)
    """
    n_labels = base[0].shape[1]
    moves, start, end = np.split(coef, [n_labels**2, n_labels**2 + n_labels])
    unary = base[0].copy()
    unary[offsets[:-1]] += start
    unary[offsets[1:] - 1] += end
    return unary, base[1] + moves.reshape(n_labels, n_labels)


class MoveWeights:
    """Loss as a function of the weights of moves and ends, ``l2 / 2`` times their squared norm added.

    Parameters
    ----------
    known : KnownChains
    loss : SequenceLoss
    base : tuple of ndarray
        The scores that stay; may be assigned anew.
    l2 : float
    """

    l1: np.ndarray | None = None

    def __init__(self, known: KnownChains, loss: SequenceLoss, base: Scores, l2: float):
        self.known, self.loss, self.base, self.l2 = known, loss, base, l2
        self.n_labels = base[0].shape[1]
        self.n_coef = self.n_labels * (self.n_labels + 2)
        self.scale = np.ones(self.n_coef)
        weight = loss.weight if loss.temperature is None else loss.weight / loss.weight.sum()
        self.size = float(weight @ np.diff(known.offsets))

    def scores(self, coef: np.ndarray) -> Scores:
        return framed_scores(self.base, coef, self.known.offsets)

    def value(self, nll: np.ndarray, coef: np.ndarray) -> float:
        """The loss with its penalty, from the losses of the sequences."""
        return self.loss.value(nll) + 0.5 * self.l2 * float(coef @ coef)

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.known.residuals(self.scores(coef))
            return self.value(found.nll, coef), self.gradient(found) + self.l2 * coef

    def gradient(self, found: Residuals) -> np.ndarray:
        """Of the loss alone."""
        share, offsets = self.loss.share(found.nll), self.known.offsets
        per_move = share if len(found.edge) == self.known.n_sequences else share[self.known.sequence]
        moves = per_move @ found.edge.reshape(len(found.edge), -1)
        return np.concatenate([moves, share @ found.node[offsets[:-1]], share @ found.node[offsets[1:] - 1]])
