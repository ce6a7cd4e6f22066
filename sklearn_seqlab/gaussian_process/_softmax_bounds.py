"""Upper bounds on the expected log-sum-exp of independent normal scores.

``bound(mu, nu)`` gives, per row, the bound ``b`` and its derivatives by means and by variances. All of them but "gh",
which is the expectation itself, are jointly convex in ``(mu, nu)``, so that the variational bound of a model stays
jointly concave (for "tilted": substitute ``u = a * nu``; ``u**2 / nu`` is convex, and so is a partial minimum).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, softmax

from sklearn_seqlab.gaussian_process._tilting import tilt

__all__ = ["BOUNDS", "BoundValues", "SoftmaxBound"]

BOUNDS = ("tilted", "jensen", "bohning", "gh")

# Tilts are optimal to this; what is left in the bound is its square. A Newton step more costs little.
_TILT_TOL, _MAX_NEWTON = 1e-10, 60
_N_NODES = 128
# Below this variance the derivative of the quadrature is taken by Stein's identity: no division by a small root.
_SMALL_VARIANCE = 1e-2


class BoundValues(NamedTuple):
    """A bound and its derivatives.

    Attributes
    ----------
    value : ndarray of shape (n_rows,)
        In nats.
    by_mean : ndarray of shape (n_rows, n_labels)
        A distribution over the labels.
    by_variance : ndarray of shape (n_rows, n_labels)
        At least 0.
    """

    value: np.ndarray
    by_mean: np.ndarray
    by_variance: np.ndarray


class SoftmaxBound:
    """One of the bounds, for rows that are evaluated again and again: optimal tilts are remembered.

    Parameters
    ----------
    name : {"tilted", "jensen", "bohning", "gh"}
        Saul, Jaakkola and Jordan's tilted bound; Jensen's inequality, ``logsumexp(mu + nu / 2)``; Boehning's quadratic
        bound around the mean; Gauss-Hermite quadrature of the expectation, for two labels.
    """

    def __init__(self, name: str):
        self.name = name
        self._tilts: np.ndarray | None = None

    def __call__(self, mu: np.ndarray, nu: np.ndarray) -> BoundValues:
        """The bound for means ``mu`` and variances ``nu`` of shape (n_rows, n_labels)."""
        return getattr(self, f"_{self.name}")(mu, nu)

    def curvature(self, values: BoundValues, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Second derivatives: ``(q, c)``, (n_rows, n_labels) each.

        The bound has the curvature of ``diag(q) - outer(q, q) / sum(q)`` along ``d_mu + c * d_nu``. For "gh" that along
        the variances is left out.

        Parameters
        ----------
        values : BoundValues
            The bound there.
        nu : ndarray of shape (n_rows, n_labels)
            The variances there.
        """
        p = values.by_mean
        if self.name == "tilted":  # the best tilt follows the scores, and takes part of the curvature away
            return p / (1.0 + p * nu), 0.5 - p
        if self.name == "gh":
            return 4.0 * values.by_variance, np.zeros_like(p)
        return p.copy(), np.full_like(p, 0.5 if self.name == "jensen" else 0.0)

    def _jensen(self, mu: np.ndarray, nu: np.ndarray) -> BoundValues:
        raised = mu + 0.5 * nu
        p = softmax(raised, axis=1)
        return BoundValues(logsumexp(raised, axis=1), p, 0.5 * p)

    def _bohning(self, mu: np.ndarray, nu: np.ndarray) -> BoundValues:
        curvature = 0.5 * (1.0 - 1.0 / mu.shape[1])
        value = logsumexp(mu, axis=1) + 0.5 * curvature * nu.sum(axis=1)
        return BoundValues(value, softmax(mu, axis=1), np.full(mu.shape, 0.5 * curvature))

    def _tilted(self, mu: np.ndarray, nu: np.ndarray) -> BoundValues:
        if self._tilts is None or self._tilts.shape != mu.shape:
            self._tilts = softmax(mu, axis=1)
        # any tilt bounds the expectation, and a start that is no number would stay none
        a = self._tilts if np.isfinite(self._tilts).all() else softmax(mu, axis=1)
        p, value, work = np.empty_like(a), np.empty(len(a)), np.empty((3, mu.shape[1]))
        mu, nu = np.ascontiguousarray(mu), np.ascontiguousarray(nu)
        tilt(mu, nu, a, p, value, work, _TILT_TOL, _MAX_NEWTON)
        self._tilts = a
        return BoundValues(value, p, np.maximum(0.5 * a * a + (0.5 - a) * p, 0.0))

    def _gh(self, mu: np.ndarray, nu: np.ndarray) -> BoundValues:
        node, weight = np.polynomial.hermite_e.hermegauss(_N_NODES)
        weight = weight / weight.sum()
        root = np.sqrt(nu.sum(axis=1))
        gap = (mu[:, 1] - mu[:, 0])[:, None] + root[:, None] * node
        second = expit(gap)
        p = second @ weight
        stein = 0.5 * ((second * (1.0 - second)) @ weight)
        # the derivative of the sum itself: with large variances, the better it fits the values that a search compares
        own = (second @ (node * weight)) / (2.0 * np.maximum(root, _SMALL_VARIANCE**0.5))
        by_variance = np.where(root**2 > _SMALL_VARIANCE, np.maximum(own, 0.0), stein)
        value = mu[:, 0] + np.logaddexp(0.0, gap) @ weight
        return BoundValues(value, np.column_stack([1.0 - p, p]), np.column_stack([by_variance] * 2))
