"""Chains under every kept draw of a sampled model, and what they average to."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.special import entr, softmax

from sklearn_seqlab.gaussian_process._kernels import linear_gram, merge_columns
from sklearn_seqlab.inference import PackedChains

__all__ = ["PosteriorDraws", "averaged_marginals"]

# Doubles in the scores of one block of kept states.
_BLOCK = 2**21


class PosteriorDraws:
    """Chains of some sequences under every kept draw."""

    def __init__(self, model: Any, values: Any, offsets: np.ndarray, first: int, allowed: np.ndarray | None):
        self.offsets, self.first, self.allowed = offsets, first, allowed
        self.model, self.values = model, values
        self.features = self._features(values)
        self.n_kept, _, self.n_labels = model.weight_samples_.shape
        self.index = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

    def chains(self) -> Any:
        """``(number, chains)`` of all draws."""
        n_rows, model = len(self.index), self.model
        size = max(1, _BLOCK // max(1, n_rows * self.n_labels))
        noise = self._noise() if model.latent == "sample" else None
        for start in range(0, self.n_kept, size):
            weights = model.weight_samples_[start : start + size]
            unary = np.empty((len(weights), n_rows, self.n_labels))
            if len(self.features) == 1:
                columns = np.ascontiguousarray(weights.transpose(1, 0, 2)).reshape(weights.shape[1], -1)
                product = (self.features[0] @ columns).reshape(n_rows, len(weights), self.n_labels)
                unary[:] = product.transpose(1, 0, 2)
            else:
                for j, features in enumerate(self.features):
                    unary[:, :, j] = weights[:, :, j] @ features.T
            for k in range(len(weights)):
                number = start + k
                if noise is not None:
                    unary[k] += np.sqrt(model.variance_samples_[number, 0]) * noise(number)
                scores = PackedChains(
                    np.ascontiguousarray(unary[k]),
                    model.transition_samples_[number],
                    self.offsets,
                    self.first,
                )
                scores.raise_if_overflown()
                yield number, scores

    def known_chains(self) -> Any:
        for number, chains in self.chains():
            yield number, chains if self.allowed is None else chains.narrowed(self.allowed)

    def log_fits(self) -> np.ndarray:
        """Log-probability (n_kept, n_sequences) of what is known, under each draw."""
        found = np.zeros((self.n_kept, len(self.offsets) - 1))
        if self.allowed is None:
            return found
        for number, chains in self.chains():
            fits = chains.narrowed(self.allowed).log_partition()
            found[number] = np.minimum(fits - chains.log_partition(), 0.0)
        return found

    def shares(self) -> np.ndarray:
        """Weight (n_kept, n_sequences) of each draw given what is known."""
        return softmax(self.log_fits(), axis=0)

    def _noise(self) -> Callable[[int], np.ndarray]:
        """Draws of what is left open, the same for a sequence whatever stands beside it."""
        roots: list[list[np.ndarray]] = []
        for start, stop in pairwise(self.offsets):
            rows = self.values[start:stop]
            roots.append(
                [self._noise_root(rows, features[start:stop], k) for k, features in enumerate(self.features)]
            )

        def draw(number: int) -> np.ndarray:
            parts = []
            for sequence in roots:
                random = np.random.RandomState((self.model._seed + number) % 2**32)
                white = random.standard_normal((len(sequence[0]), self.n_labels))
                parts.append(
                    sequence[0] @ white
                    if len(sequence) == 1
                    else np.column_stack([root @ white[:, j] for j, root in enumerate(sequence)])
                )
            return np.concatenate(parts)

        return draw

    def _features(self, values: Any) -> list[Any]:
        """What the weights of each kernel multiply at new steps."""
        if isinstance(self.model.kernel_, str):
            return [merge_columns(values, self.model.feature_group_)]
        return [kernel(values, self.model.X_train_) for kernel in self.model.kernel_]

    def _noise_root(self, values: Any, features: Any, k: int) -> np.ndarray:
        """Root of the covariance, for a prior variance of one, of what a draw leaves open at new steps."""
        if isinstance(self.model.kernel_, str):
            merged = features.toarray() if sparse.issparse(features) else features
            open_ = linear_gram(values, values) - (merged * np.bincount(self.model.feature_group_)) @ merged.T
        else:
            seen = solve_triangular(self.model.gram_root_[k], features.T, lower=True)
            open_ = self.model.kernel_[k](values) - seen.T @ seen
        spread, vectors = np.linalg.eigh(open_)
        return vectors * np.sqrt(np.maximum(spread, 0.0))


def averaged_marginals(draws: PosteriorDraws) -> tuple[np.ndarray, np.ndarray]:
    """Averaged marginals (n_rows, n_labels), and the averaged entropy of each step (n_rows,)."""
    share = draws.shares()
    proba = np.zeros((len(draws.index), draws.n_labels))
    entropy = np.zeros(len(proba))
    for k, chains in draws.known_chains():
        log_z, node, _ = chains.forward_backward()
        chains.raise_if_infeasible(log_z)
        weight = share[k][draws.index]
        proba += weight[:, None] * node
        entropy += weight * entr(node).sum(axis=1)
    return np.clip(proba, 0.0, 1.0), entropy
