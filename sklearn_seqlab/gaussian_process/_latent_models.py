"""Means and variances of the latent functions at new time steps, from what a fit leaves behind.

Three forms, one per kind of inference. Each is plain arrays, which the estimator keeps under its own names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sklearn_seqlab.gaussian_process._kernels import Kernels, linear_gram, merge_columns, squared_norms

__all__ = ["FeatureModel", "LatentModel", "MeanFieldModel", "RowModel", "inducing_features"]


@dataclass(frozen=True, eq=False)
class RowModel:
    """Kernels with training rows.

    Attributes
    ----------
    kernels : list of Kernel or None
    scale : float
        What kernels are multiplied by.
    rows : ndarray or csr_array of shape (n_rows, n_features)
    dual : ndarray of shape (n_rows, n_labels)
    whiteners : ndarray of shape (n_labels or 1, n_rows, n_rows)
        ``R`` with the variance ``k(x, x) - ||R k(x)||**2``.
    """

    kernels: Kernels
    scale: float
    rows: Any
    dual: np.ndarray
    whiteners: np.ndarray

    names: ClassVar[dict[str, str]] = {
        "rows": "X_train_",
        "dual": "dual_coef_",
        "whiteners": "dual_whitener_",
    }

    def doubles_per_step(self) -> int:
        return len(self.dual)

    def latent(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (n_steps, n_labels)."""
        n_labels = self.dual.shape[1]
        mean, variance = (np.empty((values.shape[0], n_labels)) for _ in range(2))
        for k in range(1 if self.kernels is None else len(self.kernels)):
            labels = slice(None) if self.kernels is None or len(self.kernels) == 1 else slice(k, k + 1)
            if self.kernels is None:
                gram, own = linear_gram(values, self.rows), squared_norms(values)
            else:
                gram, own = self.kernels[k](values, self.rows), self.kernels[k].diag(values)
            gram, own = self.scale * gram, self.scale * own
            mean[:, labels] = gram @ self.dual[:, labels]
            for j in range(n_labels)[labels]:
                seen = gram @ self.whiteners[j if len(self.whiteners) > 1 else 0].T
                variance[:, j] = own - np.einsum("ik,ik->i", seen, seen)
        return mean, np.maximum(variance, 0.0)


def inducing_features(
    values: np.ndarray, kernel: Any, scale: float, inducing: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Features (n_rows, n_inducing) of which the kernel is nearly a product, and the variance they leave out."""
    features = np.sqrt(scale) * (kernel(values, inducing) @ root.T)
    rest = scale * kernel.diag(values) - np.einsum("ik,ik->i", features, features)
    return features, np.maximum(rest, 0.0)


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """Weights with a full covariance, of linear features or of kernels with inducing rows.

    Attributes
    ----------
    kernels : list of Kernel or None
    scale : float
    group : ndarray of shape (n_features,)
        Of a linear kernel: columns that were equal in training have one weight together.
    inducing : ndarray of shape (n_inducing, n_features)
        Of other kernels.
    roots : ndarray of shape (n_kernels, n_inducing, n_inducing)
        Inverse Cholesky factors of the kernels of the inducing rows.
    weights : ndarray of shape (n_columns, n_labels)
    whiteners : ndarray of shape (n_labels or 1, n_rows, n_columns)
        ``T`` with the covariance ``T.T @ T``.
    """

    kernels: Kernels
    scale: float
    group: np.ndarray
    inducing: np.ndarray
    roots: np.ndarray
    weights: np.ndarray
    whiteners: np.ndarray

    names: ClassVar[dict[str, str]] = {
        "group": "feature_group_",
        "inducing": "inducing_",
        "roots": "inducing_root_",
        "weights": "weight_mean_",
        "whiteners": "weight_whitener_",
    }

    def doubles_per_step(self) -> int:
        return self.weights.shape[0]

    def latent(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        n_labels = self.weights.shape[1]
        mean, variance = (np.empty((values.shape[0], n_labels)) for _ in range(2))
        n_kernels = 1 if self.kernels is None else len(self.kernels)
        for k in range(n_kernels):
            labels = range(n_labels) if n_kernels == 1 else range(k, k + 1)
            features, rest = self._features(values, k)
            for j in labels:
                seen = features @ self.whiteners[j if len(self.whiteners) > 1 else 0].T
                mean[:, j] = features @ self.weights[:, j]
                variance[:, j] = np.einsum("ik,ik->i", seen, seen) + rest
        return mean, variance

    def _features(self, values: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        if self.kernels is not None:
            return inducing_features(values, self.kernels[k], self.scale, self.inducing, self.roots[k])
        features, rest = grouped_features(values, self.group, self.scale)
        return features, rest


def grouped_features(values: Any, group: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Features whose weights are standard normal, and the variance of what they leave out.

    The weights of ``c`` columns that were equal in training are known by their sum alone, of prior variance
    ``c * scale``; a row that differs within a group sees the unknown rest.
    """
    merged = merge_columns(values, group)
    merged = merged.toarray() if hasattr(merged, "toarray") else merged
    size = np.bincount(group)
    rest = scale * (squared_norms(values) - np.square(merged) @ size)
    return merged * np.sqrt(scale * size), np.maximum(rest, 0.0)


@dataclass(frozen=True, eq=False)
class MeanFieldModel:
    """Independent weights.

    Attributes
    ----------
    kernels : None
    scale : float
    group : ndarray of shape (n_features,)
        Columns that were equal in training have one weight, the sum of theirs.
    mean, variance : ndarray of shape (n_groups, n_labels)
        Of those sums.
    """

    kernels: Kernels
    scale: float
    group: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    names: ClassVar[dict[str, str]] = {
        "group": "feature_group_",
        "mean": "group_mean_",
        "variance": "group_var_",
    }

    def doubles_per_step(self) -> int:
        return self.mean.shape[1]

    def latent(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        merged = merge_columns(values, self.group)
        squares = merged.power(2) if hasattr(merged, "power") else np.square(merged)
        size = np.bincount(self.group)
        rest = self.scale * (squared_norms(values) - squares @ size)
        variance = squares @ self.variance + np.maximum(rest, 0.0)[:, None]
        return merged @ self.mean, variance


LatentModel = RowModel | FeatureModel | MeanFieldModel
