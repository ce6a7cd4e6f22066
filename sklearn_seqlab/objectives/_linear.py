"""Scores that are linear in features, and their transposed products; one class per layout.

Every layout holds one coefficient vector and offers the same four methods, so an objective need not know
which it has. Gradients are summed over a fixed cut of the work: the same bits for any number of threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.objectives._restricted import add_gradient, add_scores, pair_numbers
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, blocks, rows_of_csr

__all__ = [
    "DenseFeatures",
    "RestrictedFeatures",
    "SparseFeatures",
    "linear_scores",
    "make_features",
    "observed_pairs",
    "stored_values",
    "typical_sizes",
]

# A transposed product is cut into at most so many pieces (enough for the cores of a large machine, and few
# enough for one partial gradient each), none smaller than so many stored values.
_N_PIECES, _PIECE_SIZE = 8, 2**17

Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def make_features(
    values: Any,
    n_labels: int,
    pairs: sparse.csr_array | None = None,
    order: np.ndarray | None = None,
    is_mapped: bool = False,
) -> Any:
    """The layout for a batch's values; the stored entries of ``pairs`` (n_features, n_labels) restrict it.

    Coefficients of restricted features stand in an order of the features' own, by default by their frequency. Values
    that lie in files (``is_mapped``) stay there: no copy of them is made for speed.
    """
    if pairs is not None:
        return RestrictedFeatures(sparse.csr_array(values), pairs, order, is_mapped)
    if sparse.issparse(values):
        return (MappedFeatures if is_mapped else SparseFeatures)(values, n_labels)
    return DenseFeatures(values, n_labels)


def linear_scores(values: Any, coef: Any, start: int, stop: int) -> np.ndarray:
    """Scores of rows ``start:stop`` for ``coef`` (n_features, n_labels), any mix of dense and CSR.

    For prediction: no layout is worth its making there. Returns a fresh array (n_rows, n_labels).
    """
    if sparse.issparse(values):
        return np.ascontiguousarray(_densified(rows_of_csr(values, start, stop) @ coef))
    return np.ascontiguousarray(_dense_product(values, coef, start, stop))


def observed_pairs(batch: PackedBatch, labels: LabelCodes, min_count: int) -> sparse.csr_array:
    """The (feature, label) pairs that occur together at ``min_count`` steps or more, (n_features, n_labels).

    A step whose label is hidden counts for every label that it may have, unless nothing is known of its
    whole sequence.
    """
    informative = np.repeat(labels.is_informative(), batch.lengths)
    counts = sparse.csr_array((batch.n_features, labels.n_labels))
    for block in _row_blocks(batch.values):
        rows = np.arange(batch.n_total)[block][informative[block]]
        known, hidden = rows[labels.codes[rows] >= 0], rows[labels.codes[rows] < 0]
        step, allowed = np.nonzero(labels.allowed(block.start, block.stop)[hidden - block.start])
        row, column = np.concatenate([known, hidden[step]]), np.concatenate([labels.codes[known], allowed])
        values = batch.values
        values = rows_of_csr(values, block.start, block.stop) if batch.is_sparse else values[block]
        present = sparse.csr_array(values != 0, dtype=np.float64)
        shape = (present.shape[0], labels.n_labels)
        carries = sparse.csr_array((np.ones(len(row)), (row - block.start, column)), shape=shape)
        counts = counts + sparse.csr_array(present.T @ carries)
    counts = sparse.csr_array(counts)
    counts.sort_indices()
    counts.data[counts.data < min_count] = 0.0
    counts.eliminate_zeros()
    if not counts.nnz:
        warnings.warn(
            f"No feature occurs with any label at min_count={min_count} steps or more: no feature gets a weight.",
            UserWarning,
            stacklevel=4,
        )
    return counts


def typical_sizes(values: Any) -> np.ndarray:
    """Root mean square of the nonzero values of each column; 1 for a column of zeros."""
    n_features = values.shape[1]
    squares, count, largest = np.zeros(n_features), np.zeros(n_features), np.zeros(n_features)
    # divided by the largest value first: squares of 1e200 or of 1e-200 would leave the double range
    if sparse.issparse(values):
        entries = list(blocks(values.indptr[-1]))
        for block in entries:
            np.maximum.at(largest, values.indices[block], np.abs(values.data[block]))
        unit = np.where(largest > 0, largest, 1.0)
        for block in entries:
            columns, ratio = values.indices[block], values.data[block] / unit[values.indices[block]]
            count += np.bincount(columns, weights=values.data[block] != 0, minlength=n_features)
            squares += np.bincount(columns, weights=ratio**2, minlength=n_features)
    else:
        rows = _row_blocks(values)
        for block in rows:
            np.maximum(largest, np.abs(values[block]).max(axis=0), out=largest)
            count += np.count_nonzero(values[block], axis=0)
        unit = np.where(largest > 0, largest, 1.0)
        for block in rows:
            squares += np.square(values[block] / unit).sum(axis=0)
    return np.where(largest > 0, unit * np.sqrt(squares / np.maximum(count, 1)), 1.0)


class DenseFeatures:
    """Weights (n_features, n_labels) on dense rows.

    Attributes
    ----------
    shape : tuple
        ``(n_features, n_labels)``.
    n_coef : int
    by_rows : bool
        Whether a gradient is best summed row by row, while residuals are at hand, or needs those of all rows.
    n_stored : int
        Values that a product reads.
    """

    by_rows = True

    def __init__(self, values: np.ndarray, n_labels: int):
        self.values = values
        self.shape = values.shape[1], n_labels
        self.n_coef = values.shape[1] * n_labels
        self.n_stored = values.nnz if sparse.issparse(values) else values.size

    def weights(self, coef: np.ndarray) -> Any:
        """Coefficients as ``scores`` takes them; made once for many calls."""
        return coef.reshape(self.shape)

    def scores(self, weights: Any, start: int, stop: int) -> np.ndarray:
        """Products of rows ``start:stop`` with what ``weights`` gave, (stop - start, n_labels)."""
        return _dense_product(self.values, weights, start, stop)

    def new_sum(self) -> Any:
        """Where ``add_rows`` adds up a gradient."""
        return np.zeros(self.shape)

    def add_rows(self, residual: np.ndarray, start: int, total: Any) -> None:
        """Add the part of the gradient of the rows from ``start`` on whose residuals these are, in place."""
        for first, rows in _as_doubles(self.values, start, start + len(residual)):
            total += rows.T @ residual[first - start : first - start + len(rows)]

    def sum_of(self, total: Any) -> np.ndarray:
        """What was added up, as a vector (n_coef,)."""
        return total.ravel()

    def gradient(self, residual: np.ndarray, run: Runner) -> np.ndarray:
        """The transposed product with the residuals of all rows, (n_coef,)."""

        def part(piece: tuple[int, int]) -> np.ndarray:
            total = self.new_sum()
            self.add_rows(residual[slice(*piece)], piece[0], total)
            return self.sum_of(total)

        parts = run(part, _pieces(len(residual), self.n_stored))
        total = parts[0]
        for part_of_it in parts[1:]:
            total += part_of_it
        return total

    def terms(self, rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What label ``labels[k]`` at row ``rows[k]`` scores, term by term.

        Returns ``(k, coefficient number, value)`` of every stored value of those rows: a sparse column of the
        transposed product for each ``k``.
        """
        entry, feature, value = stored_values(self.values, rows)
        return entry, feature * self.shape[1] + labels[entry], value

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
    """Weights (n_features, n_labels) on CSR rows; a gradient needs a transposed copy of the rows."""

    by_rows = False

    @cached_property
    def transposed(self) -> sparse.csr_array:
        return sparse.csr_array(self.values.T)

    def scores(self, weights: Any, start: int, stop: int) -> np.ndarray:
        return rows_of_csr(self.values, start, stop) @ weights

    def gradient(self, residual: np.ndarray, run: Runner) -> np.ndarray:
        # cut by features: every entry of the gradient is the work of one thread, and no copies are added
        n_stored = self.transposed.indptr[-1]
        shares = [stop for _, stop in _pieces(n_stored, n_stored)][:-1]
        edges = [0, *np.searchsorted(self.transposed.indptr, shares), self.shape[0]]
        pieces = [(a, b) for a, b in pairwise(edges) if b > a]
        parts = run(lambda piece: rows_of_csr(self.transposed, *piece) @ residual, pieces)
        return np.concatenate(parts).ravel()


class MappedFeatures(DenseFeatures):
    """Weights (n_features, n_labels) on CSR rows that lie in files: read in their order, never copied."""

    def scores(self, weights: Any, start: int, stop: int) -> np.ndarray:
        return rows_of_csr(self.values, start, stop) @ weights

    def add_rows(self, residual: np.ndarray, start: int, total: Any) -> None:
        nothing = np.zeros(1, dtype=np.intc)
        values = self.values
        add_gradient(
            values.data,
            values.indices,
            values.indptr,
            residual,
            nothing,
            nothing[:0],
            0,
            start,
            total,
            np.empty(0),
        )


class RestrictedFeatures(DenseFeatures):
    """Weights on CSR rows for those (feature, label) pairs alone that are marked.

    Parameters
    ----------
    values : csr_array of shape (n_total, n_features)
    pairs : csr_array of shape (n_features, n_labels)
        Its stored entries are the pairs that have a weight.
    order : ndarray of shape (n_features,), default=None
        Of the coefficients, that of other rows with the same pairs; None for that of these rows.
    is_mapped : bool, default=False
        Whether the rows lie in files; they are then read as they are, and no feature is hot or single.

    Notes
    -----
    Inside, features are numbered anew: first those that occur with a fifth of the labels or more ("hot":
    products use dense rows of their weights), last those that occur with one alone, and among each kind by
    decreasing frequency, which keeps what is read most on few cache lines. There is still one coefficient per pair, in
    that order.
    """

    def __init__(
        self,
        values: sparse.csr_array,
        pairs: sparse.csr_array,
        order: np.ndarray | None = None,
        is_mapped: bool = False,
    ):
        self.shape = pairs.shape
        n_pairs = np.diff(pairs.indptr)
        hot = (n_pairs > 1) & (5 * n_pairs >= self.shape[1])
        single = ~hot & (n_pairs == 1)
        binary = all((values.data[block] == 1).all() for block in blocks(values.indptr[-1]))
        if is_mapped:
            hot[:], single[:], self.order = False, False, np.arange(self.shape[0])
            data, indices, indptr = values.data, values.indices, values.indptr
        else:
            if order is None:
                order = np.lexsort((-np.bincount(values.indices, minlength=self.shape[0]), single, ~hot))
            self.order = order
            rank = np.empty(self.shape[0], dtype=values.indices.dtype)
            rank[self.order] = np.arange(self.shape[0])
            # values of one need no sorting: a byte each stands in for them
            data = np.empty(len(values.data), dtype=np.int8) if binary else values.data.copy()
            ranked = sparse.csr_array((data, rank[values.indices], values.indptr), shape=values.shape)
            ranked.sort_indices()
            data, indices, indptr = ranked.data, ranked.indices, ranked.indptr
        self.operands = values.data[:0] if binary else data, indices, indptr
        self.is_binary, self.n_stored = binary, int(indptr[-1])
        weights = sparse.csr_array(pairs[self.order])
        weights.sort_indices()
        self.n_coef = weights.nnz
        self.feature = np.repeat(self.order, np.diff(weights.indptr))
        self.indptr, self.label = weights.indptr.astype(np.intc), weights.indices.astype(np.intc)
        # the first n_split coefficients are those of hot features; `place` is where they stand in dense rows
        self.n_hot = int(hot.sum())
        self.n_split = int(weights.indptr[self.n_hot])
        self.place = (
            np.repeat(np.arange(self.n_hot), np.diff(weights.indptr[: self.n_hot + 1])),
            self.label[: self.n_split],
        )
        start = (weights.indptr[self.n_hot :] - self.n_split).astype(np.intc)
        n_lists = self.shape[0] - self.n_hot - int(single.sum())
        self.pairs = start, self.label[self.n_split :], n_lists

    def weights(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hot = np.zeros((self.n_hot, self.shape[1]))
        hot[self.place] = coef[: self.n_split]
        return hot, coef[self.n_split :]

    def scores(self, weights: Any, start: int, stop: int) -> np.ndarray:
        scores = np.zeros((stop - start, self.shape[1]))
        hot, others = weights
        add_scores(*self.operands, hot, *self.pairs, others, start, scores)
        return scores

    def new_sum(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((self.n_hot, self.shape[1])), np.zeros(self.n_coef - self.n_split)

    def add_rows(self, residual: np.ndarray, start: int, total: Any) -> None:
        add_gradient(*self.operands, residual, *self.pairs, start, *total)

    def sum_of(self, total: Any) -> np.ndarray:
        hot, others = total
        return np.concatenate([hot[self.place], others])

    def terms(self, rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        data, ranks, indptr = self.operands
        place, entry = _stored_places(indptr, rows)
        number = np.empty(len(place), dtype=np.intp)
        pair_numbers(self.indptr, self.label, ranks[place], labels[entry], number)
        kept = number >= 0
        values = data[place] if len(data) else np.ones(len(place))
        return entry[kept], number[kept], values[kept]

    def repeat(self, per_feature: np.ndarray) -> np.ndarray:
        return per_feature[self.feature]

    def matrix(self, coef: np.ndarray) -> sparse.csc_array:
        # by columns: prediction reads the weights of a feature
        return sparse.csc_array((coef, (self.label, self.feature)), shape=self.shape[::-1])

    def vector(self, matrix: Any) -> np.ndarray:
        if sparse.issparse(matrix) and self.n_coef:
            return np.asarray(sparse.csr_array(matrix)[self.label, self.feature]).ravel()
        return matrix[self.label, self.feature]


def _pieces(n_rows: int, n_stored: int) -> list[tuple[int, int]]:
    """Runs of rows to work on one by one; a cut that depends on the data alone."""
    n_pieces = min(max(1, n_stored // _PIECE_SIZE), _N_PIECES, max(1, n_rows))
    return list(pairwise(np.linspace(0, n_rows, n_pieces + 1).astype(int).tolist()))


def _as_doubles(values: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
    """Rows ``start:stop`` and where they begin; 32-bit values become doubles a million at a time."""
    if values.dtype == np.float64:
        yield start, values[start:stop]
        return
    size = max(1, 2**20 // values.shape[1])
    for first in range(start, stop, size):
        yield first, values[first : min(first + size, stop)].astype(np.float64)


def _dense_product(values: np.ndarray, coef: Any, start: int, stop: int) -> np.ndarray:
    parts = [_densified(rows @ coef) for _, rows in _as_doubles(values, start, stop)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _row_blocks(values: Any) -> list[slice]:
    """Runs of rows with about a million values each."""
    n_rows = values.shape[0]
    n_stored = int(values.indptr[-1]) if sparse.issparse(values) else values.size
    size = max(1, 2**20 * n_rows // max(n_stored, n_rows))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _densified(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def _stored_places(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the stored values of some rows of a CSR matrix stand, and which of ``rows`` each belongs to."""
    counts = (indptr[rows + 1] - indptr[rows]).astype(np.intp)
    entry = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    return indptr[rows].astype(np.intp)[entry] + within, entry


def stored_values(values: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(k, feature, value)`` of every value other than zero of ``values[rows[k]]``."""
    if sparse.issparse(values):
        place, entry = _stored_places(values.indptr, rows)
        return entry, values.indices[place].astype(np.intp), values.data[place]
    chosen = values[rows]
    entry, feature = np.nonzero(chosen)
    return entry, feature, chosen[entry, feature]
