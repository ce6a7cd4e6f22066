"""Scores that are linear in features, and their transposed products; one class per layout.

Every layout holds one coefficient vector and offers the same four methods, so an objective need not know
which it has. Gradients are summed over a fixed cut of the work: the same bits for any number of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.objectives._restricted import add_gradient, add_scores

__all__ = ["DenseFeatures", "RestrictedFeatures", "SparseFeatures", "linear_scores", "make_features"]

# How many pieces a transposed product is cut into: enough for the cores of a large machine, and few enough
# for one partial gradient each.
_N_PIECES = 8

Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def make_features(values: Any, n_labels: int, pairs: np.ndarray | None) -> Any:
    """The layout for a batch's values; ``pairs`` (n_features, n_labels) sparse bool restricts the weights."""
    if pairs is not None:
        return RestrictedFeatures(values, pairs)
    return (SparseFeatures if sparse.issparse(values) else DenseFeatures)(values, n_labels)


def linear_scores(values: Any, coef: Any, start: int, stop: int) -> np.ndarray:
    """``values[start:stop] @ coef.T`` for any mix of dense and CSR, as a fresh array (n_rows, n_labels)."""
    if not sparse.issparse(coef):
        rows = _csr_rows(values, start, stop) if sparse.issparse(values) else values[start:stop]
        return np.ascontiguousarray(rows @ coef.T)
    if not sparse.issparse(values):
        return np.ascontiguousarray((coef @ values[start:stop].T).T)
    by_feature = sparse.csr_array(coef.T)
    scores = np.zeros((stop - start, coef.shape[0]))
    add_scores(
        values.data, values.indices, values.indptr, by_feature.indptr.astype(np.intp),
        by_feature.indices.astype(np.intc), by_feature.data, start, scores,
    )  # fmt: skip
    return scores


class DenseFeatures:
    """Weights (n_features, n_labels) on dense rows."""

    def __init__(self, values: np.ndarray, n_labels: int):
        self.values = values
        self.shape = values.shape[1], n_labels
        self.n_coef = values.shape[1] * n_labels

    def scores(self, coef: np.ndarray, start: int, stop: int) -> np.ndarray:
        return self.values[start:stop] @ coef.reshape(self.shape)

    def gradient(self, residual: np.ndarray, run: Runner) -> np.ndarray:
        edges = np.linspace(0, len(residual), _N_PIECES + 1).astype(int)
        pieces = [(a, b) for a, b in itertools.pairwise(edges) if b > a]
        parts = run(lambda piece: self.values[slice(*piece)].T @ residual[slice(*piece)], pieces)
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total.ravel()

    def repeat(self, per_feature: np.ndarray) -> np.ndarray:
        """A number per feature as a number per coefficient."""
        return np.repeat(per_feature, self.shape[1])

    def matrix(self, coef: np.ndarray) -> np.ndarray:
        """Coefficients as users see them, (n_labels, n_features)."""
        return coef.reshape(self.shape).T.copy(order="F")

    def vector(self, matrix: Any) -> np.ndarray:
        """The inverse of ``matrix``."""
        return np.ascontiguousarray(_densified(matrix).T).ravel()


class SparseFeatures(DenseFeatures):
    """Weights (n_features, n_labels) on CSR rows; keeps a transposed copy of the rows."""

    def __init__(self, values: sparse.csr_array, n_labels: int):
        super().__init__(values, n_labels)
        self.transposed = sparse.csr_array(values.T)

    def scores(self, coef: np.ndarray, start: int, stop: int) -> np.ndarray:
        return _csr_rows(self.values, start, stop) @ coef.reshape(self.shape)

    def gradient(self, residual: np.ndarray, run: Runner) -> np.ndarray:
        # cut by features: every entry of the gradient is the work of one thread, and no copies are added
        share = np.linspace(0, self.transposed.indptr[-1], _N_PIECES + 1)
        edges = np.searchsorted(self.transposed.indptr, share)
        edges[0], edges[-1] = 0, self.shape[0]
        pieces = [(a, b) for a, b in itertools.pairwise(edges) if b > a]
        parts = run(lambda piece: _csr_rows(self.transposed, *piece) @ residual, pieces)
        return np.concatenate(parts).ravel()


class RestrictedFeatures:
    """Weights on CSR rows for those (feature, label) pairs alone that are marked.

    Parameters
    ----------
    values : csr_array of shape (n_total, n_features)
    pairs : csr_array of shape (n_features, n_labels)
        Its stored entries are the pairs that have a weight.
    """

    def __init__(self, values: sparse.csr_array, pairs: sparse.csr_array):
        self.values = values
        self.shape = pairs.shape
        self.start = pairs.indptr.astype(np.intp)
        self.label = pairs.indices.astype(np.intc)
        self.n_coef = len(self.label)

    def scores(self, coef: np.ndarray, start: int, stop: int) -> np.ndarray:
        scores = np.zeros((stop - start, self.shape[1]))
        add_scores(*self._operands, np.ascontiguousarray(coef), start, scores)
        return scores

    def gradient(self, residual: np.ndarray, run: Runner) -> np.ndarray:
        edges = np.linspace(0, len(residual), _N_PIECES + 1).astype(int)
        pieces = [(a, b) for a, b in itertools.pairwise(edges) if b > a]
        parts = run(lambda piece: self._partial(residual, *piece), pieces)
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total

    def _partial(self, residual: np.ndarray, start: int, stop: int) -> np.ndarray:
        gradient = np.zeros(self.n_coef)
        add_gradient(*self._operands, residual[start:stop], start, gradient)
        return gradient

    @property
    def _operands(self) -> tuple[np.ndarray, ...]:
        return self.values.data, self.values.indices, self.values.indptr, self.start, self.label

    def repeat(self, per_feature: np.ndarray) -> np.ndarray:
        return np.repeat(per_feature, np.diff(self.start))

    def matrix(self, coef: np.ndarray) -> sparse.csr_array:
        by_feature = sparse.csr_array((coef, self.label, self.start), shape=self.shape)
        return sparse.csr_array(by_feature.T)

    def vector(self, matrix: Any) -> np.ndarray:
        feature = np.repeat(np.arange(self.shape[0]), np.diff(self.start))
        if sparse.issparse(matrix):
            return np.asarray(sparse.csr_array(matrix)[self.label, feature]).ravel()
        return matrix[self.label, feature]


def _csr_rows(matrix: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Rows of a CSR matrix that share its memory; slicing would copy them."""
    first, last = matrix.indptr[start], matrix.indptr[stop]
    parts = matrix.data[first:last], matrix.indices[first:last], matrix.indptr[start : stop + 1] - first
    return sparse.csr_array(parts, shape=(stop - start, matrix.shape[1]))


def _densified(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix
