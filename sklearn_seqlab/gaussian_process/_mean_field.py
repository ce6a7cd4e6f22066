"""Variational inference in weight space with independent normal weights: the form that reaches wide sparse data.

The lower bound is jointly concave in means and variances. They move by Newton steps, whose systems conjugate gradients
solve, and variances besides by the fixed point of their optimality condition, which is a natural gradient step of
length one. All directions ascend, and steps are halved while the bound would fall.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sklearn_seqlab import _parallel
from sklearn_seqlab.gaussian_process._ascent import ascend
from sklearn_seqlab.gaussian_process._couplings import CouplingForm
from sklearn_seqlab.gaussian_process._fixed_point import LabelledSteps
from sklearn_seqlab.gaussian_process._full_covariance import Scales
from sklearn_seqlab.gaussian_process._latent_models import MeanFieldModel
from sklearn_seqlab.gaussian_process._softmax_bounds import BoundValues, SoftmaxBound
from sklearn_seqlab.objectives import make_features
from sklearn_seqlab.solvers import SolverOutcome, check_start

__all__ = ["MeanField", "MeanFieldAscent", "WeightMoments"]

_ROWS_AT_ONCE = 8192
# Conjugate gradients leave this share of a Newton step's residual, at first and where the end seems near.
_FORCING, _FINE_FORCING, _MAX_PRODUCTS = 0.3, 0.03, 60
_ARMIJO, _MAX_HALVINGS = 1e-4, 40
# Sweeps are slow whose rises, shares of the bound below _NEAR, shrink by less than _SLOW.
_SLOW, _NEAR = 0.7, 0.01
# A bound that falls by no more than this share has not fallen.
_ROUNDING = 1e-14


class WeightMoments:
    """Means and variances of weights (n_features, n_labels) and of free couplings."""

    def __init__(self, mean: np.ndarray, variance: np.ndarray, coupling_mean: Any, coupling_variance: Any):
        self.mean, self.variance = mean, variance
        self.coupling_mean, self.coupling_variance = coupling_mean, coupling_variance


class _State(NamedTuple):
    """Moments (n_moments,), the means and variances (n_steps, n_labels) of scores that they give, and the bound."""

    mean: np.ndarray
    variance: np.ndarray
    mu: np.ndarray
    nu: np.ndarray
    values: BoundValues
    value: float


class _Design:
    """Rows of features and of neighbours' labels, times weights and free couplings held in one flat vector."""

    def __init__(
        self, values: Any, neighbours: sparse.csr_array, form: CouplingForm, n_labels: int, n_jobs: int | None
    ):
        self._features = make_features(values, n_labels)
        self._neighbours, self._form, self._n_jobs = neighbours, form, n_jobs
        self.n_weights = self._features.n_coef
        self.n_columns = self.n_weights + int(np.prod(form.shape))

    def scores(self, vector: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Products with some rows, (stop - start, n_labels)."""
        weights = self._features.weights(vector[: self.n_weights])
        scores = self._features.scores(weights, start, stop)
        if self._form.lags:
            tables = self._form.expand(vector[self.n_weights :].reshape(self._form.shape))
            scores = scores + self._neighbours[start:stop] @ tables
        return scores

    def transposed(self, residual: np.ndarray) -> np.ndarray:
        """The transposed product with ``residual`` (n_steps, n_labels), a flat vector."""
        by_weight = self._features.gradient(residual, self._run)
        return np.concatenate([by_weight, self._form.collect(self._neighbours.T @ residual).ravel()])

    def _run(self, function: Any, tasks: Any) -> list[Any]:
        return _parallel.run(function, tasks, self._n_jobs)


class MeanFieldAscent:
    """The lower bound at one pair of means and variances, and the steps that raise it.

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

    Attributes
    ----------
    mean, variance : ndarray of shape (n_moments,)
        Of all weights, then of all free couplings. At first zero, and the variances that the curvature there gives.
    value : float
        Minus the bound, in nats.
    """

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
        stored = values.data if sparse.issparse(values) else values
        squared_neighbours = steps.neighbours.power(2)
        stored_neighbours = steps.neighbours.data
        self._design = _Design(values, steps.neighbours, form, n_labels, n_jobs)
        if all(np.isin(part, (0.0, 1.0)).all() for part in (stored, stored_neighbours)):
            self._squares = self._design
        else:
            self._squares = _Design(squares, squared_neighbours, form, n_labels, n_jobs)
        edges = [*range(0, len(steps.codes), _ROWS_AT_ONCE), len(steps.codes)]
        self._pieces = list(enumerate(pairwise(edges)))
        self._bounds = [SoftmaxBound(bound) for _ in self._pieces]
        self._indicators = steps.indicators()

        n_couplings = self._design.n_columns - self._design.n_weights
        self.prior = np.concatenate([np.repeat(prior, n_labels), np.full(n_couplings, coupling_prior)])
        curvature = (1.0 - 1.0 / n_labels) / n_labels
        weight = np.repeat(steps.weight[:, None], n_labels, axis=1)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            precision = 1.0 / self.prior + curvature * self._squares.transposed(weight)
            self._deviation = 1.0 / np.sqrt(precision)
            self.at(np.zeros(len(self.prior)), 1.0 / precision)
        self.steepness_at_start = self.steepness()
        # how the sweeps go
        self._is_slow, self._last_rise, self._forcing, self._decrement = False, np.inf, _FORCING, np.inf

    def at(self, mean: np.ndarray, variance: np.ndarray) -> None:
        """Move to given moments."""
        mu, nu = self._products(self._design, mean), self._products(self._squares, variance)
        values = self._expected(mu, nu)
        self._state = _State(mean, variance, mu, nu, values, self._value(mean, variance, mu, values))

    @property
    def mean(self) -> np.ndarray:
        return self._state.mean

    @property
    def variance(self) -> np.ndarray:
        return self._state.variance

    @property
    def value(self) -> float:
        return self._state.value

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of ``value`` by means and by the logarithms of variances."""
        return self._gradient_by_mean(), 0.5 * (self.variance * self._fixed_precision() - 1.0)

    def steepness(self) -> float:
        """Largest derivative in units in which curvatures are near one."""
        by_mean, by_variance = self.gradient()
        by_mean *= np.sqrt(self.variance)
        largest = [np.abs(by_mean).max(initial=0.0), np.sqrt(2.0) * np.abs(by_variance).max(initial=0.0)]
        return float(max(largest))

    def run(self, max_iter: int, tol: float, callback: Any = None) -> SolverOutcome:
        """Steps of means and variances until the bound has less than ``tol`` of itself left to rise."""
        check_start(self.value, self.steepness_at_start)
        outcome = SolverOutcome(np.empty(0), self.value, 0, False, "max_iter was reached", [-self.value])
        outcome = ascend(self, outcome, max_iter, tol, callback)
        outcome.value = self.value
        return outcome

    @property
    def lower_bound(self) -> float:
        return -self.value

    def sweep(self) -> bool:
        """A Newton step and one of the variances; whether the bound rose.

        The Newton step is of the means alone, which takes half the products, until sweeps gain too little: where data
        is separable means and variances grow together, and steps in turn crawl along that valley.
        """
        before = self.value
        moved = self.newton_step(joint=self._is_slow)
        moved = self.fix_variances() or moved
        rise = before - self.value
        self._is_slow |= _SLOW * self._last_rise < rise < _NEAR * abs(self.value)
        self._last_rise = rise
        return moved

    def point(self) -> np.ndarray:
        # means in units of the start's deviations, or all but a few would count for nothing
        return np.concatenate([self.mean / self._deviation, np.log(self.variance)])

    def try_point(self, point: np.ndarray) -> bool:
        old = self._state
        mean, log_variance = np.split(point, 2)
        self.at(mean * self._deviation, np.exp(log_variance))
        if self.value < old.value:
            return True
        self._state = old
        return False

    def settles(self, tol: float) -> bool:
        # the decrement of a more exact step: in a valley the first products see little of what there is to gain
        self._is_slow, self._forcing = True, _FINE_FORCING
        self.newton_step(joint=True)
        return self._decrement <= 10 * max(tol, 1e-12) * abs(self.value)

    def newton_step(self, joint: bool = True) -> bool:
        """A Newton step of the means, or of means and variances, shortened while the bound would fall."""
        old = self._state
        gradient = [self._gradient_by_mean()]
        if joint:
            gradient.append(0.5 * (self._fixed_precision() - 1.0 / old.variance))
        step, by_step = self._newton_direction(gradient)
        decline = sum(float(a @ b) for a, b in zip(gradient, step, strict=True))
        self._decrement = -0.5 * decline
        length = 1.0
        if joint:  # variances keep a tenth of themselves
            length = min(1.0, 0.9 / max(float((-step[1] / old.variance).max(initial=0.0)), 1e-300))
        for _ in range(_MAX_HALVINGS):
            mean, mu = old.mean + length * step[0], old.mu + length * by_step[0]
            variance, nu = old.variance, old.nu
            if joint:
                variance, nu = variance + length * step[1], np.maximum(nu + length * by_step[1], 0.0)
            values = self._expected(mu, nu)
            value = self._value(mean, variance, mu, values)
            if value <= old.value + _ARMIJO * length * decline + _ROUNDING * abs(old.value):
                self._state = _State(mean, variance, mu, nu, values, value)
                return value < old.value
            length *= 0.5
        return False

    def fix_variances(self) -> bool:
        """Variances to what the curvature of the bound asks for, or part of the way; whether the bound rose."""
        old, target, length = self._state, self._fixed_precision(), 1.0
        precision = 1.0 / old.variance
        for _ in range(_MAX_HALVINGS):
            variance = 1.0 / (precision + length * (target - precision))
            nu = self._products(self._squares, variance)
            values = self._expected(old.mu, nu)
            value = self._value(old.mean, variance, old.mu, values)
            if value <= old.value + _ROUNDING * abs(old.value):
                self._state = _State(old.mean, variance, old.mu, nu, values, value)
                return value < old.value
            length *= 0.5
        return False

    def moments(self) -> WeightMoments:
        """The state, by its parts."""
        n_weights, n_labels = self._design.n_weights, self.steps.n_labels
        arrays = [
            (flat[:n_weights].reshape(-1, n_labels), flat[n_weights:].reshape(self.form.shape))
            for flat in (self.mean, self.variance)
        ]
        return WeightMoments(arrays[0][0], arrays[1][0], arrays[0][1], arrays[1][1])

    def start_from(self, moments: WeightMoments) -> None:
        """The inverse of ``moments``."""
        mean = np.concatenate([moments.mean.ravel(), moments.coupling_mean.ravel()])
        self.at(mean, np.concatenate([moments.variance.ravel(), moments.coupling_variance.ravel()]))

    def learnt_scales(self) -> tuple[float, float]:
        """By how much MacKay's rule multiplies the prior variances of weights and of couplings."""
        sizes, counts = self._evidence_parts()
        ratios = [size / count if count > 0 else 1.0 for size, count in zip(sizes, counts, strict=True)]
        return ratios[0], ratios[1]

    def gradient_by_scales(self) -> np.ndarray:
        """Derivatives of the bound by the logarithms of these two prior variances."""
        sizes, counts = self._evidence_parts()
        return 0.5 * (np.array(sizes) - np.array(counts))

    def _evidence_parts(self) -> tuple[list[float], list[float]]:
        """Squared size in units of the prior, and how many parameters the data fixes."""
        cut = [self._design.n_weights]
        sizes = [float(part.sum()) for part in np.split(self.mean**2 / self.prior, cut)]
        counts = [float((1.0 - part).sum()) for part in np.split(self.variance / self.prior, cut)]
        return sizes, counts

    def _gradient_by_mean(self) -> np.ndarray:
        weight, values = self.steps.weight[:, None], self._state.values
        gradient = self._design.transposed(weight * (values.by_mean - self._indicators))
        gradient += self.mean / self.prior
        return gradient

    def _fixed_precision(self) -> np.ndarray:
        """The precisions at which the derivatives by variances would vanish, were the bound's to stay."""
        precision = self._squares.transposed(
            2.0 * self.steps.weight[:, None] * self._state.values.by_variance
        )
        precision += 1.0 / self.prior
        return precision

    def _newton_direction(self, gradient: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """An inexact Newton step, and what it adds to the moments of the scores: of means, and maybe of variances.

        By conjugate gradients, preconditioned by the variances for the means, and by the curvature of the divergence
        for the variances.
        """
        variance = self._state.variance
        q, c = self._bounds[0].curvature(self._state.values, self._state.nu)
        q *= self.steps.weight[:, None]
        total = q.sum(axis=1, keepdims=True)
        share = np.divide(q, total, out=np.zeros_like(q), where=total > 0)
        parts = range(len(gradient))
        designs = [self._design, self._squares]
        units = [variance, 2.0 * variance**2 if len(gradient) > 1 else variance]
        curvatures = [self.prior, units[1]]
        step, by_step = [np.zeros_like(part) for part in gradient], [np.zeros_like(q) for _ in parts]
        residual = [-part for part in gradient]
        search = [units[k] * residual[k] for k in parts]
        size = first_size = sum(float(search[k] @ residual[k]) for k in parts)
        for _ in range(_MAX_PRODUCTS):
            seen = [self._products(designs[k], search[k]) for k in parts]
            pulled = seen[0].copy()
            if len(gradient) > 1:
                pulled += c * seen[1]
            pulled *= q
            pulled -= share * pulled.sum(axis=1, keepdims=True)
            image = [designs[k].transposed(c * pulled if k else pulled) for k in parts]
            for k in parts:
                image[k] += search[k] / curvatures[k]
            curvature = sum(float(search[k] @ image[k]) for k in parts)
            if not curvature > 0:
                break
            length = size / curvature
            for k in parts:
                step[k] += length * search[k]
                by_step[k] += length * seen[k]
                residual[k] -= length * image[k]
                np.multiply(units[k], residual[k], out=image[k])
            before, size = size, sum(float(image[k] @ residual[k]) for k in parts)
            if size <= self._forcing**2 * first_size:
                break
            for k in parts:
                search[k] *= size / before
                search[k] += image[k]
        return step, by_step

    def _products(self, design: _Design, vector: np.ndarray) -> np.ndarray:
        found = np.empty((len(self.steps.codes), self.steps.n_labels))

        def one(piece: Any) -> None:
            start, stop = piece[1]
            found[start:stop] = design.scores(vector, start, stop)

        _parallel.run(one, self._pieces, self.n_jobs)
        return found

    def _expected(self, mu: np.ndarray, nu: np.ndarray) -> BoundValues:
        """The bound on the expected log-sum-exp of each row."""

        def one(piece: Any) -> BoundValues:
            number, (start, stop) = piece
            return self._bounds[number](mu[start:stop], nu[start:stop])

        found = _parallel.run(one, self._pieces, self.n_jobs)
        return BoundValues(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _value(self, mean: np.ndarray, variance: np.ndarray, mu: np.ndarray, values: BoundValues) -> float:
        """Minus the expected log-likelihood, plus the divergence of the moments from the prior."""
        own = mu[np.arange(len(mu)), self.steps.codes]
        ratio = variance / self.prior
        divergence = float((ratio - np.log(ratio)).sum()) - len(ratio) + float(mean @ (mean / self.prior))
        return float(self.steps.weight @ (values.value - own)) + 0.5 * divergence


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
        ascent = MeanFieldAscent(
            self.values,
            scales.kernel * self.size,
            self.steps,
            self.form,
            scales.coupling,
            self.bound,
            self.n_jobs,
        )
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if self.moments is not None:
                ascent.start_from(self.moments)
            outcome = ascent.run(max_iter, tol, callback)
        # nothing is replaced before: who stops a solution while it is prepared keeps the one before
        self.scales, self.ascent, self.moments = scales, ascent, ascent.moments()
        self.value = -outcome.value
        self.history = outcome.history
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
        return self.ascent.learnt_scales()

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the bound by the logarithms of the prior variances."""
        return self.ascent.gradient_by_scales(), np.empty(0)
