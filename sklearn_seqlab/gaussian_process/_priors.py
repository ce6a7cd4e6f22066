"""Gaussian priors of the scores of rows, and what they become under normal factors on each row.

A posterior of one label is ``m = K @ al`` and ``V = (K**-1 + diag(lam))**-1``, never with an inverse of ``K``, which
may be singular. ``GramPrior`` holds ``K``; ``FeaturePrior`` holds ``F`` with ``K = F @ F.T`` where there are fewer
columns than rows. Both speak in vectors over rows, so that one fixed point serves exact Gaussian processes, linear
models and inducing points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dtrtri

__all__ = ["FeaturePrior", "GramPrior", "RowPosterior"]

# Below this the short formula for a marginal variance loses digits to the division.
_SMALLEST_PRECISION = 1e-6


class RowPosterior(NamedTuple):
    """What factors of precision ``lam`` make of the prior of one label.

    Attributes
    ----------
    variance : ndarray of shape (n_rows,)
        Marginal variances.
    log_det : float
        ``log |V K**-1|``.
    dual : ndarray of shape (n_rows,) or None
        ``al`` of the normal factors ``exp(b * f - lam * f**2 / 2)``, if ``b`` was given.
    """

    variance: np.ndarray
    log_det: float
    dual: np.ndarray | None


def lower_inverse(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """``T`` with ``T @ matrix @ T.T = I``, lower triangular, and ``log |matrix|``; overwrites ``matrix``."""
    factor, info = dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
    if info:
        raise LinAlgError(
            "A precision matrix is not positive definite: the kernel is no covariance (not all are positive "
            "definite), or its values are too large."
        )
    log_det = 2.0 * float(np.log(np.diag(factor)).sum())
    inverse, _ = dtrtri(factor, lower=1, overwrite_c=1)
    return inverse, log_det


class GramPrior:
    """Prior given by Gram matrices; a posterior takes a Cholesky factor of a matrix over all rows.

    Parameters
    ----------
    grams : list of ndarray of shape (n_rows, n_rows)
        One for all labels, or one for each.
    n_labels : int
    """

    def __init__(self, grams: list[np.ndarray], n_labels: int):
        self.grams, self.n_labels = grams, n_labels
        self.n_rows = len(grams[0])
        self._last: tuple[int, np.ndarray, np.ndarray, RowPosterior] | None = None

    def gram(self, j: int) -> np.ndarray:
        return self.grams[j if len(self.grams) > 1 else 0]

    def mean(self, dual: np.ndarray) -> np.ndarray:
        """``K @ al`` for all labels, (n_rows, n_labels)."""
        if len(self.grams) == 1:
            return self.grams[0] @ dual
        return np.column_stack([self.grams[j] @ dual[:, j] for j in range(self.n_labels)])

    def whitener(self, j: int, lam: np.ndarray) -> tuple[np.ndarray, float]:
        """``R`` with ``V = K - K R.T R K`` and ``log |V K**-1|``."""
        root = np.sqrt(lam)
        matrix = root[:, None] * self.gram(j) * root
        matrix[np.diag_indices_from(matrix)] += 1.0
        inverse, log_det = lower_inverse(np.asfortranarray(matrix))
        inverse *= root
        return inverse, -log_det

    def posterior(self, j: int, lam: np.ndarray, b: np.ndarray | None = None) -> RowPosterior:
        """What factors make of label ``j``; O(n_rows**3)."""
        gram, last = self.gram(j), self._last
        # constant precisions (Boehning's bound) over a shared kernel: one factor for all labels and sweeps
        if last is not None and last[0] == id(gram) and np.array_equal(last[1], lam):
            whitener, found = last[2], last[3]
        else:
            whitener, log_det = self.whitener(j, lam)
            found = RowPosterior(self._variance(gram, lam, whitener), log_det, None)
            self._last = id(gram), lam.copy(), whitener, found
        if b is None:
            return found
        dual = b - whitener.T @ (whitener @ (gram @ b))
        return found._replace(dual=dual)

    @staticmethod
    def _variance(gram: np.ndarray, lam: np.ndarray, whitener: np.ndarray) -> np.ndarray:
        diagonal = np.diag(gram)
        # diag(R.T R) / lam is the diagonal of B**-1
        shrunk = np.einsum("ki,ki->i", whitener, whitener)
        safe = np.where(lam >= _SMALLEST_PRECISION, lam, 1.0)
        variance = (1.0 - shrunk / safe) / safe
        rest = np.flatnonzero(lam < _SMALLEST_PRECISION)
        if len(rest):
            seen = whitener @ gram[:, rest]
            variance[rest] = diagonal[rest] - np.einsum("ki,ki->i", seen, seen)
        return np.clip(variance, 0.0, diagonal)


class FeaturePrior:
    """Prior given by features with independent standard normal weights.

    Parameters
    ----------
    features : list of ndarray of shape (n_rows, n_columns)
        One for all labels, or one for each.
    n_labels : int
    """

    def __init__(self, features: list[np.ndarray], n_labels: int):
        self.features, self.n_labels = features, n_labels
        self.n_rows = len(features[0])

    def columns(self, j: int) -> np.ndarray:
        return self.features[j if len(self.features) > 1 else 0]

    def mean(self, dual: np.ndarray) -> np.ndarray:
        if len(self.features) == 1:
            return self.features[0] @ (self.features[0].T @ dual)
        parts = [self.columns(j) @ (self.columns(j).T @ dual[:, j]) for j in range(self.n_labels)]
        return np.column_stack(parts)

    def whitener(self, j: int, lam: np.ndarray) -> tuple[np.ndarray, float]:
        """``T`` with ``T.T @ T`` the covariance of the weights, and ``log |V K**-1|``."""
        features = self.columns(j)
        scaled = np.sqrt(lam)[:, None] * features
        matrix = scaled.T @ scaled
        matrix[np.diag_indices_from(matrix)] += 1.0
        inverse, log_det = lower_inverse(np.asfortranarray(matrix))
        return inverse, -log_det

    def posterior(self, j: int, lam: np.ndarray, b: np.ndarray | None = None) -> RowPosterior:
        """What factors make of label ``j``; O(n_rows * n_columns**2)."""
        features = self.columns(j)
        whitener, log_det = self.whitener(j, lam)
        seen = features @ whitener.T
        dual = None
        if b is not None:
            weights = whitener.T @ (whitener @ (features.T @ b))
            dual = b - lam * (features @ weights)
        return RowPosterior(np.einsum("ik,ik->i", seen, seen), log_det, dual)
