"""Variational inference in weight space with independent normal weights: the form that reaches wide sparse data.

The lower bound is a function of the means and the log-variances of all weights and couplings, and is maximised by
L-BFGS. An evaluation takes four products with the features, which are two where all values are 0 or 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab import _parallel
from sklearn_seqlab.gaussian_process._couplings import CouplingForm
from sklearn_seqlab.gaussian_process._fixed_point import LabelledSteps
from sklearn_seqlab.gaussian_process._full_covariance import Scales
from sklearn_seqlab.gaussian_process._latent_models import MeanFieldModel
from sklearn_seqlab.gaussian_process._softmax_bounds import SoftmaxBound
from sklearn_seqlab.objectives import make_features
from sklearn_seqlab.solvers import SolverOutcome, lbfgs

__all__ = ["MeanField", "MeanFieldBound", "WeightMoments"]

_ROWS_AT_ONCE = 8192


class WeightMoments:
    """Means and variances of weights (n_features, n_labels) and of free couplings."""

    def __init__(self, mean: np.ndarray, variance: np.ndarray, coupling_mean: Any, coupling_variance: Any):
        self.mean, self.variance = mean, variance
        self.coupling_mean, self.coupling_variance = coupling_mean, coupling_variance


class MeanFieldBound:
    """Minus the lower bound, for the solvers.

    Parameters
    ----------
    values : ndarray or csr_array of shape (n_steps, n_features)
    prior : ndarray of shape (n_features,)
        Prior variance of the weights of each feature.
    steps : LabelledSteps
    form : CouplingForm
    coupling_prior : float
    bound : str
        See :class:`SoftmaxBound`.
    n_jobs : int or None

    Notes
    -----
    Coefficients are the means, then the logarithms of the variances over ``start_variance``: at zero is where a fit
    starts, with the variances that the curvature there gives.
    """

    l1: np.ndarray | None = None

    def __init__(
        self,
        values: Any,
        prior: np.ndarray,
        steps: LabelledSteps,
        form: CouplingForm,
        coupling_prior: float,
        bound: str,
        n_jobs: int | None = None,
    ):
        self.steps, self.form, self.n_jobs = steps, form, n_jobs
        n_labels = steps.n_labels
        squares = values.power(2) if sparse.issparse(values) else np.square(values)
        # where squares are the values themselves, means and variances go through one product side by side
        stored = values.data if sparse.issparse(values) else values
        self._binary = bool(np.isin(stored, (0.0, 1.0)).all())
        width = 2 * n_labels if self._binary else n_labels
        self._features = make_features(values, width)
        self._square_features = None if self._binary else make_features(squares, n_labels)
        self._squared_neighbours = steps.neighbours.power(2)
        edges = [*range(0, len(steps.codes), _ROWS_AT_ONCE), len(steps.codes)]
        self._pieces = [(k, *piece) for k, piece in enumerate(pairwise(edges))]
        self._bounds = [SoftmaxBound(bound) for _ in self._pieces]

        shape = values.shape[1], n_labels
        self._shapes = [shape, form.shape]
        self._sizes = [shape[0] * shape[1], int(np.prod(form.shape))]
        self.prior = np.concatenate([np.repeat(prior, n_labels), np.full(self._sizes[1], coupling_prior)])
        self.n_moments = len(self.prior)
        self.n_coef = 2 * self.n_moments
        curvature = (1.0 - 1.0 / n_labels) / n_labels
        weight = np.repeat(steps.weight[:, None], n_labels, axis=1)
        seen = np.asarray(squares.T @ steps.weight).ravel()
        tables = form.collect(self._squared_neighbours.T @ weight)
        precision = np.concatenate([np.repeat(seen, n_labels), tables.ravel()]) * curvature
        self.start_variance = 1.0 / (1.0 / self.prior + precision)
        # both kinds of coefficients then have a curvature near one along each axis
        self.scale = np.concatenate(
            [1.0 / np.sqrt(self.start_variance), np.full(self.n_moments, np.sqrt(0.5))]
        )
        self.size = float(steps.weight.sum())

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the bound, in nats, and its gradient."""
        mean, log_ratio = coef[: self.n_moments], coef[self.n_moments :]
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            variance = self.start_variance * np.exp(log_ratio)
            moments = self._split(mean, variance)
            n_labels = self.steps.n_labels
            residual = np.empty((len(self.steps.codes), 2 * n_labels))
            both = np.empty(0)
            if self._square_features is None:
                both = np.hstack([moments.mean, moments.variance]).ravel()
            losses = _parallel.run(
                lambda piece: self._piece(moments, both, residual, *piece), self._pieces, self.n_jobs
            )
            pulled, widened = residual[:, :n_labels], residual[:, n_labels:]
            gradient = np.empty(self.n_coef)
            by_mean, by_variance = gradient[: self.n_moments], gradient[self.n_moments :]
            n_weights = self._sizes[0]
            if self._square_features is None:
                both = self._features.gradient(residual, self._run).reshape(-1, 2 * n_labels)
                by_mean[:n_weights] = both[:, :n_labels].ravel()
                by_variance[:n_weights] = both[:, n_labels:].ravel()
            else:
                by_mean[:n_weights] = self._features.gradient(np.ascontiguousarray(pulled), self._run)
                by_variance[:n_weights] = self._square_features.gradient(
                    np.ascontiguousarray(widened), self._run
                )
            by_mean[n_weights:] = self.form.collect(self.steps.neighbours.T @ pulled).ravel()
            by_variance[n_weights:] = self.form.collect(self._squared_neighbours.T @ widened).ravel()

            ratio = variance / self.prior
            shrunk = mean / self.prior
            by_mean += shrunk
            by_variance *= variance
            by_variance += 0.5 * (ratio - 1.0)
            divergence = 0.5 * float((ratio + shrunk * mean - 1.0).sum())
            divergence -= 0.5 * float(log_ratio.sum() + np.log(self.start_variance / self.prior).sum())
            return sum(losses) + divergence, gradient

    def moments(self, coef: np.ndarray) -> WeightMoments:
        """What the coefficients stand for."""
        variance = self.start_variance * np.exp(coef[self.n_moments :])
        return self._split(coef[: self.n_moments], variance)

    def coef(self, moments: WeightMoments) -> np.ndarray:
        """The inverse of ``moments``."""
        mean = np.concatenate([moments.mean.ravel(), moments.coupling_mean.ravel()])
        variance = np.concatenate([moments.variance.ravel(), moments.coupling_variance.ravel()])
        return np.concatenate([mean, np.log(variance / self.start_variance)])

    def learnt_scales(self, moments: WeightMoments) -> tuple[float, float]:
        """By how much MacKay's rule multiplies the prior variances of weights and of couplings."""
        sizes, counts = self._evidence_parts(moments)
        ratios = [size / count if count > 0 else 1.0 for size, count in zip(sizes, counts, strict=True)]
        return ratios[0], ratios[1]

    def gradient_by_scales(self, moments: WeightMoments) -> np.ndarray:
        """Derivatives of the bound by the logarithms of these two prior variances."""
        sizes, counts = self._evidence_parts(moments)
        return 0.5 * (np.array(sizes) - np.array(counts))

    def _evidence_parts(self, moments: WeightMoments) -> tuple[list[float], list[float]]:
        """Squared size in units of the prior, and how many parameters the data fixes."""
        parts = (moments.mean, moments.variance), (moments.coupling_mean, moments.coupling_variance)
        priors = np.split(self.prior, [self._sizes[0]])
        sizes = [
            float((mean.ravel() ** 2 / prior).sum()) for (mean, _), prior in zip(parts, priors, strict=True)
        ]
        counts = [
            float((1.0 - variance.ravel() / prior).sum())
            for (_, variance), prior in zip(parts, priors, strict=True)
        ]
        return sizes, counts

    def _split(self, mean: np.ndarray, variance: np.ndarray) -> WeightMoments:
        n_weights = self._sizes[0]
        arrays = [
            part.reshape(shape)
            for flat in (mean, variance)
            for part, shape in zip(np.split(flat, [n_weights]), self._shapes, strict=True)
        ]
        return WeightMoments(arrays[0], arrays[2], arrays[1], arrays[3])

    def _piece(
        self,
        moments: WeightMoments,
        both: np.ndarray,
        residual: np.ndarray,
        number: int,
        start: int,
        stop: int,
    ) -> float:
        """Minus the expected log-likelihood of some rows; writes their residuals."""
        n_labels, codes = self.steps.n_labels, self.steps.codes[start:stop]
        if self._square_features is None:
            scores = self._features.scores(both, start, stop)
            mu, nu = scores[:, :n_labels], scores[:, n_labels:]
        else:
            mu = self._features.scores(moments.mean.ravel(), start, stop)
            nu = self._square_features.scores(moments.variance.ravel(), start, stop)
        if self.form.lags:
            mu = mu + self.steps.neighbours[start:stop] @ self.form.expand(moments.coupling_mean)
            nu = nu + self._squared_neighbours[start:stop] @ self.form.expand(moments.coupling_variance)
        values = self._bounds[number](mu, nu)
        weight = self.steps.weight[start:stop]
        place = np.arange(len(codes))
        residual[start:stop, :n_labels] = weight[:, None] * values.by_mean
        residual[start + place, codes] -= weight
        residual[start:stop, n_labels:] = weight[:, None] * values.by_variance
        return float(weight @ (values.value - mu[place, codes]))

    def _run(self, function: Any, tasks: Any) -> list[Any]:
        return _parallel.run(function, tasks, self.n_jobs)


class MeanField:
    """The problem of one data set, solved for any prior variances; see :class:`FullCovariance`.

    Parameters
    ----------
    values : ndarray or csr_array of shape (n_steps, n_features)
    steps : LabelledSteps
    form : CouplingForm
    bound : str
    group : ndarray of shape (n_features,)
        Groups of equal columns, whose weights are known by their sums alone: fewer factors, and a tighter bound.
    n_jobs : int or None
    """

    def __init__(
        self,
        values: Any,
        steps: LabelledSteps,
        form: CouplingForm,
        bound: str,
        *,
        group: np.ndarray,
        n_jobs: int | None = None,
    ):
        self.steps, self.form, self.bound, self.group, self.n_jobs = steps, form, bound, group, n_jobs
        # columns of a group are equal: their mean is each of them, up to rounding
        first = np.full(group.max() + 1, len(group), dtype=np.intp)
        np.minimum.at(first, group, np.arange(len(group)))
        self.values = values[:, first]
        if sparse.issparse(self.values):
            self.values = sparse.csr_array(self.values)
            self.values.sort_indices()
        self.size = np.bincount(group).astype(float)
        self.moments: WeightMoments | None = None
        self.value = -np.inf
        self.history: list[float] = []

    def solve(
        self, kernels: None, scales: Scales, max_iter: int, tol: float, callback: Any = None
    ) -> SolverOutcome:
        """Maximise the bound for these prior variances, from where the last call ended."""
        self.scales = scales
        self.problem = MeanFieldBound(
            self.values,
            scales.kernel * self.size,
            self.steps,
            self.form,
            scales.coupling,
            self.bound,
            self.n_jobs,
        )
        start = np.zeros(self.problem.n_coef)
        if self.moments is not None:
            start = self.problem.coef(self.moments)
        # ten iterations cost no more than a few sweeps: together they count as one
        outcome = lbfgs(self.problem, start, max_iter=max_iter, tol=10 * tol, callback=callback)
        self.moments = self.problem.moments(outcome.coef)
        self.value = -outcome.value
        self.history = [-value for value in outcome.history]
        return outcome

    def model(self) -> MeanFieldModel:
        """What predicts."""
        assert self.moments is not None
        return MeanFieldModel(None, self.scales.kernel, self.group, self.moments.mean, self.moments.variance)

    def couplings(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the tables, (n_lags, n_labels, n_labels)."""
        assert self.moments is not None
        shape = len(self.form.lags), self.steps.n_labels, self.steps.n_labels
        mean = self.form.expand(self.moments.coupling_mean)
        variance = self.form.expand(self.moments.coupling_variance)
        return mean.reshape(shape), variance.reshape(shape)

    def learnt_scales(self) -> tuple[float, float]:
        """By how much MacKay's rule multiplies the prior variances."""
        assert self.moments is not None
        return self.problem.learnt_scales(self.moments)

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the bound by the logarithms of the prior variances."""
        assert self.moments is not None
        return self.problem.gradient_by_scales(self.moments), np.empty(0)
