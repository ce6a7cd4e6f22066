"""The features that a boosted chain chooses from: where their coefficients stand and what they score."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.objectives._linear import typical_sizes

__all__ = ["FEATURE_SETS", "BoostingFeatures"]

# What inputs weigh, and which moves have a constant weight.
FEATURE_SETS: dict[str, tuple[str, Callable[[int], np.ndarray]]] = {
    "persistence": ("label", lambda n_labels: np.eye(n_labels, dtype=bool)),
    "bridge": ("label", lambda n_labels: np.ones((n_labels, n_labels), dtype=bool)),
    "transition": ("move", lambda n_labels: np.zeros((n_labels, n_labels), dtype=bool)),
    "context": ("move", lambda n_labels: np.zeros((n_labels, n_labels), dtype=bool)),
}


# Squares of features, and of their sums over a sequence, must stay in the range of doubles.
_SMALLEST = 1e-140


class BoostingFeatures:
    """Inputs times indicators of labels (or of moves), and indicators of moves.

    Parameters
    ----------
    values : ndarray or csr_array of shape (n_total, n_inputs)
    offsets : ndarray of shape (n_sequences + 1,)
    n_labels : int
    feature_set : str
        A key of ``FEATURE_SETS``.

    Attributes
    ----------
    weighs_moves : bool
        Whether inputs weigh the move into their step, and not its label.
    shape : tuple of int
        ``(n_columns, n_inputs)``: one column per label, or per move, from-label first.
    moves : ndarray of bool of shape (n_labels, n_labels)
        Moves that have a constant weight.
    n_coef : int
        Coefficients stand column by column, then those of the moves.
    """

    def __init__(self, values: Any, offsets: np.ndarray, n_labels: int, feature_set: str):
        weighed, moves = FEATURE_SETS[feature_set]
        self.values, self.offsets, self.n_labels = values, offsets, n_labels
        self.weighs_moves = weighed == "move"
        self.moves = moves(n_labels)
        self.shape = n_labels**2 if self.weighs_moves else n_labels, values.shape[1]
        self.n_products = self.shape[0] * self.shape[1]
        self.n_coef = self.n_products + int(self.moves.sum())
        sizes = typical_sizes(values)
        extreme = np.flatnonzero((sizes > 1 / _SMALLEST) | (sizes < _SMALLEST))
        if len(extreme):
            raise ValueError(
                f"Column {extreme[0]} of the (windowed) inputs holds values about {sizes[extreme[0]]:.3g}, the squares "
                "of which leave double precision. Scale the features (StandardScaler)."
            )

    @property
    def doubles_per_step(self) -> int:
        """Size of the scores of one step, by which batches are cut into chunks."""
        return self.shape[0]

    def scores(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Unary scores (n_total, n_labels), and those of moves, per step where inputs weigh them."""
        product = self.values @ coef[: self.n_products].reshape(self.shape).T
        return self._as_scores(np.ascontiguousarray(product), coef[self.n_products :])

    def direction(self, chosen: np.ndarray, amounts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What scores change by when the coefficients ``chosen`` change by ``amounts``."""
        if 4 * len(chosen) > self.n_coef:
            coef = np.zeros(self.n_coef)
            coef[chosen] = amounts
            return self.scores(coef)
        is_product = chosen < self.n_products
        column, feature = np.divmod(chosen[is_product], self.shape[1])
        used, place = np.unique(feature, return_inverse=True)
        weights = np.zeros((len(used), self.shape[0]))
        weights[place, column] = amounts[is_product]
        moves = np.zeros(int(self.moves.sum()))
        moves[chosen[~is_product] - self.n_products] = amounts[~is_product]
        return self._as_scores(np.ascontiguousarray(self.values[:, used] @ weights), moves)

    def _as_scores(self, product: np.ndarray, constant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_labels = self.n_labels
        if self.weighs_moves:
            return np.zeros((len(product), n_labels)), product.reshape(-1, n_labels, n_labels)
        moves = np.zeros((n_labels, n_labels))
        moves[self.moves] = constant
        return product, moves

    def transposed_product(self, rows: np.ndarray, *, squared: bool = False) -> np.ndarray:
        """Sum over time of (squared) inputs times ``rows`` (n_total, n_columns), (n_columns, n_inputs)."""
        return ((self._squared if squared else self.values).T @ rows).T

    def squared_sums(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """``sum_s weight[s] * (sum over the steps of s of rows times inputs) ** 2``, (n_columns, n_inputs).

        Parameters
        ----------
        rows : ndarray of shape (n_total, n_columns)
        weight : ndarray of shape (n_sequences,)
        """
        total = np.zeros(self.shape)
        if not sparse.issparse(self.values):
            for s, (start, stop) in enumerate(pairwise(self.offsets)):
                total += weight[s] * np.square(rows[start:stop].T @ self.values[start:stop])
            return total
        n_sequences, counts = len(self.offsets) - 1, np.diff(self.values.indptr)
        of_sequence = np.repeat(np.repeat(np.arange(n_sequences), np.diff(self.offsets)), counts)
        step = np.repeat(np.arange(len(rows)), counts)
        keys, place = np.unique(of_sequence * self.shape[1] + self.values.indices, return_inverse=True)
        sequence, feature = np.divmod(keys, self.shape[1])
        for column in range(self.shape[0]):
            summed = np.bincount(place, self.values.data * rows[step, column], minlength=len(keys))
            total[column] = np.bincount(feature, weight[sequence] * summed**2, minlength=self.shape[1])
        return total

    @cached_property
    def _squared(self) -> Any:
        return self.values.power(2) if sparse.issparse(self.values) else np.square(self.values)

    @cached_property
    def scale(self) -> np.ndarray:
        """Root mean square of the nonzero values of each feature, (n_coef,)."""
        sizes = np.tile(typical_sizes(self.values), self.shape[0])
        return np.concatenate([sizes, np.ones(self.n_coef - self.n_products)])
