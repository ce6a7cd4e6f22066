"""What one new weight, on a conjunction and a label, would gain a chain CRF: fixed-marginal gains and their bounds."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import expit, xlogy

__all__ = ["ConjunctionGains"]

# Newton's method works on so many (step, candidate) entries at once.
_ENTRIES_AT_ONCE = 2**20

_MAX_ITER, _PRECISION = 60, 1e-14


class ConjunctionGains:
    """Gains in log-likelihood, in nats, less the penalty of the weight; all else, and the neighbours' marginals, fixed.

    The gain of a weight ``mu`` on steps where a conjunction holds is
    ``sum_t s_t (mu h_t - log(1 + p_t (exp(mu) - 1))) - mu**2 / (2 C)``. Its slope at 0 is that of the likelihood of the
    chain; its curvature leaves out how steps pull each other along.

    Parameters
    ----------
    free : ndarray of shape (n_steps, n_labels)
        Marginals ``p`` of the steps in use.
    known : ndarray of shape (n_steps, n_labels)
        Those given what is known, ``h``: ones and zeros where labels are.
    weight : ndarray of shape (n_steps,)
    C : float
        Variance of the Gaussian prior of a weight.
    """

    def __init__(self, free: np.ndarray, known: np.ndarray, weight: np.ndarray, C: float):
        self.free, self.known, self.weight, self.C = free, known, weight[:, None], C

    def bounds(self, truth: sparse.csc_array) -> np.ndarray:
        """Upper bounds of the gains of conjunctions and of all that contain them, (n_conjunctions, n_labels).

        ``truth`` is (n_steps, n_conjunctions). Hits gain at most ``-log p`` each, and a slope of at most the sum of
        ``1 - p`` over hits, of which the penalty leaves ``C / 2`` times the square; misses likewise for negative
        weights. All four sums only fall when a conjunction grows.
        """
        p, h, s = self.free, self.known, self.weight
        parts = [s * h * (1 - p), s * (1 - h) * p, -s * xlogy(h, p), -s * xlogy(1 - h, 1 - p)]
        u, d, a, b = (truth.T @ part for part in parts)
        with np.errstate(over="ignore"):
            up, down = np.minimum(0.5 * self.C * u**2, a), np.minimum(0.5 * self.C * d**2, b)
        return np.maximum(np.maximum(up, down), 0.0)

    def best(self, truth: sparse.csc_array, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Best weight and its gain for each column of ``truth`` with the label beside it, (n_columns,) each."""
        weights, gains = np.zeros(truth.shape[1]), np.zeros(truth.shape[1])
        counts = np.diff(truth.indptr)
        first = 0
        while first < len(counts):
            filled = np.cumsum(counts[first:])
            last = first + max(1, int(np.searchsorted(filled, _ENTRIES_AT_ONCE, side="right")))
            part = slice(first, last)
            rows = truth.indices[truth.indptr[first] : truth.indptr[last]]
            column = np.repeat(np.arange(last - first), counts[part])
            weights[part], gains[part] = self._newton(rows, column, labels[part])
            first = last
        return weights, gains

    def _newton(
        self, rows: np.ndarray, column: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        own = labels[column]
        p, h, s = self.free[rows, own], self.known[rows, own], self.weight[rows, 0]
        with np.errstate(divide="ignore"):
            log_p, log_rest = np.log(p), np.log1p(-p)

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(column, values, minlength=len(labels))

        weight = np.zeros(len(labels))
        slope = total(s * (h - p))
        # the root lies between 0 and the step that the penalty alone would allow
        low, high = np.minimum(0, self.C * slope), np.maximum(0, self.C * slope)
        for _ in range(_MAX_ITER):
            q = expit(log_p - log_rest + weight[column])
            slope = total(s * (h - q)) - weight / self.C
            curve = total(s * q * (1 - q)) + 1 / self.C
            low, high = np.where(slope > 0, weight, low), np.where(slope < 0, weight, high)
            step = slope / curve
            moved = weight + step
            outside = (moved < low) | (moved > high)
            moved = np.where(outside, 0.5 * (low + high), moved)
            done = np.abs(moved - weight) <= _PRECISION * (1 + np.abs(weight))
            weight = moved
            if done.all():
                break
        gain = total(s * (weight[column] * h - np.logaddexp(log_rest, log_p + weight[column])))
        return weight, gain - weight**2 / (2 * self.C)
