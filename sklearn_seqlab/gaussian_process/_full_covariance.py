"""Models with a full covariance per label, for given and for learnt hyper-parameters.

Exact over the distinct time steps (Gram matrices), exact over the distinct features of a linear kernel where those are
fewer, or over inducing rows: three priors of one fixed point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab import _parallel
from sklearn_seqlab.gaussian_process._couplings import CouplingForm
from sklearn_seqlab.gaussian_process._fixed_point import CouplingFactor, FixedPoint, LabelledSteps
from sklearn_seqlab.gaussian_process._kernels import (
    Kernels,
    distinct_rows,
    linear_gram,
)
from sklearn_seqlab.gaussian_process._latent_models import (
    FeatureModel,
    LatentModel,
    RowModel,
    grouped_features,
    inducing_features,
)
from sklearn_seqlab.gaussian_process._priors import FeaturePrior, GramPrior, lower_inverse
from sklearn_seqlab.gaussian_process._stochastic import stochastic_start
from sklearn_seqlab.solvers import SolverOutcome

__all__ = ["FullCovariance", "Scales"]

_JITTER, _DIFFERENCE = 1e-8, 1e-5


class Scales:
    """Prior variances: what kernels are multiplied by, and that of the couplings."""

    def __init__(self, kernel: float, coupling: float):
        self.kernel, self.coupling = kernel, coupling


class FullCovariance:
    """The problem of one data set, solved for any hyper-parameters.

    Parameters
    ----------
    values : ndarray or csr_array of shape (n_steps, n_features)
    steps : LabelledSteps
    form : CouplingForm
    bound : str
    joint : bool
        Whether couplings are part of the prior of the scores; tied ones cannot be.
    group : ndarray of shape (n_features,) or None
        Work with features of a linear kernel: groups of equal columns.
    inducing : ndarray of shape (n_inducing, n_features) or None
        Work with inducing rows.
    batch_size : int or None
        Start with steps on minibatches; features and a joint prior alone.
    seed : int
        Of the minibatches.
    n_jobs : int or None
    """

    def __init__(
        self,
        values: Any,
        steps: LabelledSteps,
        form: CouplingForm,
        bound: str,
        *,
        joint: bool,
        group: np.ndarray | None = None,
        inducing: np.ndarray | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
    ):
        self.steps, self.form, self.bound, self.n_jobs = steps, form, bound, n_jobs
        self.joint = joint and not form.tied and len(form.lags) > 0
        self.group, self.inducing = group, inducing
        self.batch_size, self.seed = batch_size, seed
        self.rows, self.index, self.contexts = self._distinct(values)
        self.point: FixedPoint | None = None
        self.start: tuple[np.ndarray, np.ndarray] | None = None

    def solve(
        self, kernels: Kernels, scales: Scales, max_iter: int, tol: float, callback: Any = None
    ) -> SolverOutcome:
        """Maximise the bound for these hyper-parameters, from where the last call ended."""
        self.kernels, self.scales = kernels, scales
        start = self.start
        couplings = None if self.joint else CouplingFactor.at_prior(self.form, scales.coupling)
        if self.point is not None:
            start = self.point.state.dual, self.point.state.lam
            if self.point.couplings is not None:
                old = self.point.couplings
                couplings = CouplingFactor(self.form, scales.coupling, old.mean, old.variance)
        prior, residual = self._prior()
        if start is None and self.batch_size is not None and isinstance(prior, FeaturePrior):
            start = stochastic_start(
                prior,
                self.steps,
                self.index,
                residual,
                self.bound,
                batch_size=self.batch_size,
                random=np.random.RandomState(self.seed),
                n_jobs=self.n_jobs,
            )
        self.point = FixedPoint(
            prior,
            self.steps,
            self.bound,
            index=self.index,
            couplings=couplings,
            residual=residual,
            start=start,
            n_jobs=self.n_jobs,
        )
        return self.point.run(max_iter, tol, callback)

    @property
    def value(self) -> float:
        """The bound, in nats."""
        return self._solved().value

    @property
    def history(self) -> list[float]:
        """The bound by sweep of the last call of ``solve``."""
        return self._solved().history

    @property
    def precisions(self) -> np.ndarray:
        """Of the normal factors of rows, (n_rows, n_labels); with the duals, a start for another fit."""
        return self._solved().state.lam

    def model(self) -> LatentModel:
        """What predicts."""
        point = self._solved()
        state, prior = point.state, point.prior
        shared = len(np.unique(state.lam, axis=1).T) == 1 and self._n_kernels() == 1
        labels = range(1 if shared else self.steps.n_labels)
        parts = _parallel.run(lambda j: prior.whitener(j, state.lam[:, j])[0], labels, self.n_jobs)
        if isinstance(prior, GramPrior):
            return RowModel(self.kernels, self.scales.kernel, self.rows, state.dual, np.array(parts))
        n_own = self._n_own()
        weights = np.column_stack([prior.columns(j).T @ state.dual[:, j] for j in range(self.steps.n_labels)])
        return FeatureModel(
            self.kernels,
            self.scales.kernel,
            np.empty(0, dtype=np.intp) if self.group is None else self.group,
            np.empty((0, 0)) if self.inducing is None else self.inducing,
            self._roots,
            weights[:n_own],
            np.array([part[:, :n_own] for part in parts]),
        )

    def couplings(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the tables, (n_lags, n_labels, n_labels)."""
        point, shape = self._solved(), (len(self.form.lags), self.steps.n_labels, self.steps.n_labels)
        if point.couplings is not None:
            factor = point.couplings
            mean, variance = self.form.expand(factor.mean), self.form.expand(factor.variance)
            return mean.reshape(shape), variance.reshape(shape)
        prior = self.scales.coupling
        mean = prior * (self.contexts.T @ point.state.dual)
        shrunk = self._run(lambda j: self._seen_contexts(j))
        variance = prior - prior**2 * np.column_stack(shrunk)
        return mean.reshape(shape), np.maximum(variance, 0.0).reshape(shape)

    def learnt_scales(self) -> tuple[float, float]:
        """By how much MacKay's rule multiplies the prior variances of kernels and of couplings."""
        sizes, counts = self._evidence_parts()
        ratios = [size / count if count > 0 else 1.0 for size, count in zip(sizes, counts, strict=True)]
        return ratios[0], ratios[1]

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the bound at its optimum by log hyper-parameters.

        Returns
        -------
        by_scale : ndarray of shape (2,)
            By the logarithms of the prior variances of kernels and of couplings.
        by_theta : ndarray of shape (n_theta,)
            By ``theta`` of all kernels, one after the other.
        """
        sizes, counts = self._evidence_parts()
        by_scale = 0.5 * (np.array(sizes) - np.array(counts))
        if self.inducing is not None:
            by_scale[0] += self._gradient_by_residual()
        if self.kernels is None:
            return by_scale, np.empty(0)
        parts = [
            self._gradient_by_inducing(k) if self.inducing is not None else self._gradient_by_gram(k)
            for k in range(len(self.kernels))
        ]
        return by_scale, np.concatenate(parts)

    def _solved(self) -> FixedPoint:
        assert self.point is not None, "solve comes first"
        return self.point

    def _n_kernels(self) -> int:
        return 1 if self.kernels is None else len(self.kernels)

    def _labels_of(self, k: int) -> range:
        return range(self.steps.n_labels) if self._n_kernels() == 1 else range(k, k + 1)

    def _distinct(self, values: Any) -> tuple[Any, np.ndarray, sparse.csr_array]:
        """Rows that differ in the inputs or, if couplings are in the prior, in the labels around them."""
        rows, index = distinct_rows(values)
        if not self.joint:
            return rows, index, self.steps.neighbours[:0]
        both = np.column_stack([index, self.steps.neighbours.toarray()])
        pairs, index = np.unique(both, axis=0, return_inverse=True)
        return rows[pairs[:, 0].astype(np.intp)], index.ravel(), sparse.csr_array(pairs[:, 1:])

    def _prior(self) -> tuple[GramPrior | FeaturePrior, Any]:
        n_labels, scale = self.steps.n_labels, self.scales.kernel
        context = np.sqrt(self.scales.coupling) * self.contexts
        self._roots = np.empty((0, 0, 0))
        if self.group is None and self.inducing is None:
            if self.kernels is None:
                grams = [linear_gram(self.rows, self.rows)]
            else:
                grams = [kernel(self.rows) for kernel in self.kernels]
            grams = [scale * gram for gram in grams]
            if self.joint:
                shared = (context @ context.T).toarray()
                grams = [gram + shared for gram in grams]
            return GramPrior(grams, n_labels), 0.0
        if self.kernels is None:
            assert self.group is not None
            found = [grouped_features(self.rows, self.group, scale)]
        else:
            assert self.inducing is not None
            self._roots = np.array([self._root(kernel) for kernel in self.kernels])
            found = [
                inducing_features(self.rows, kernel, scale, self.inducing, root)
                for kernel, root in zip(self.kernels, self._roots, strict=True)
            ]
        features = [part for part, _ in found]
        if self.joint:
            features = [np.hstack([part, context.toarray()]) for part in features]
        return FeaturePrior(features, n_labels), np.column_stack([rest for _, rest in found])

    def _root(self, kernel: Any) -> np.ndarray:
        gram = kernel(self.inducing)
        gram[np.diag_indices_from(gram)] += _JITTER * np.diag(gram).mean()
        return lower_inverse(np.asfortranarray(gram))[0]

    def _n_own(self) -> int:
        """Columns of the features that are not couplings."""
        prior = self._solved().prior
        assert isinstance(prior, FeaturePrior)
        return prior.features[0].shape[1] - (self.contexts.shape[1] if self.joint else 0)

    def _seen_contexts(self, j: int) -> np.ndarray:
        """Diagonal of ``H.T W H`` with ``W = R.T R``, what the data knows of each coupling into label ``j``."""
        point = self._solved()
        whitener, _ = point.prior.whitener(j, point.state.lam[:, j])
        if isinstance(point.prior, GramPrior):
            seen = whitener @ self.contexts
            return np.einsum("ki,ki->i", seen, seen)
        last = whitener[:, self._n_own() :]
        return (1.0 - np.einsum("ki,ki->i", last, last)) / self.scales.coupling

    def _evidence_parts(self) -> tuple[list[float], list[float]]:
        """Of kernels and couplings: squared size in units of the prior, and how many parameters the data fixes."""
        point = self._solved()
        state = point.state
        size, count = float((state.dual * state.mean).sum()), float((state.lam * state.variance).sum())
        if point.couplings is not None:
            factor = point.couplings
            ratio = (factor.mean**2).sum() / factor.prior, (1.0 - factor.variance / factor.prior).sum()
            return [size, float(ratio[0])], [count, float(ratio[1])]
        if not self.joint:
            return [size, 0.0], [count, 0.0]
        prior = self.scales.coupling
        own_size = prior * float(((self.contexts.T @ state.dual) ** 2).sum())
        own_count = prior * float(sum(part.sum() for part in self._run(self._seen_contexts)))
        return [size - own_size, own_size], [count - own_count, own_count]

    def _gradient_by_gram(self, k: int) -> np.ndarray:
        assert self.kernels is not None
        _, by_theta = self.kernels[k](self.rows, eval_gradient=True)
        point = self._solved()
        weight = np.zeros((point.prior.n_rows,) * 2)
        for j in self._labels_of(k):
            whitener, _ = point.prior.whitener(j, point.state.lam[:, j])
            dual = point.state.dual[:, j]
            weight += np.outer(dual, dual) - whitener.T @ whitener
        return 0.5 * self.scales.kernel * np.einsum("ab,abp->p", weight, by_theta)

    def _gradient_by_residual(self) -> float:
        """Through the variance that inducing rows leave out, by the logarithm of the scale."""
        point = self._solved()
        curvature = point._by_row(point.values.by_variance)
        return -float((curvature * point.residual).sum())

    def _gradient_by_inducing(self, k: int) -> np.ndarray:
        """Kernels do not tell derivatives between different rows: central differences of those matrices."""
        assert self.kernels is not None and self.inducing is not None
        kernel, inducing, root = self.kernels[k], self.inducing, self._roots[k]
        point, scale = self._solved(), self.scales.kernel
        curvature = point._by_row(point.values.by_variance)
        cross = scale * kernel(self.rows, inducing)
        solved = root.T @ (root @ cross.T) / scale  # K_zz^-1 K_zx
        # dL = sum(by_cross * dK_xz) + sum(by_own * dK_zz) + by_diagonal @ dk_xx
        by_cross, by_own = np.zeros(cross.shape), np.zeros((len(inducing),) * 2)
        by_diagonal = np.zeros(len(cross))
        for j in self._labels_of(k):
            dual, lam = point.state.dual[:, j], point.state.lam[:, j]
            whitener, _ = point.prior.whitener(j, lam)
            features = point.prior.columns(j)  # type: ignore[union-attr]
            # W A.T with W = diag(lam) - diag(lam) F T'T F' diag(lam)
            target = solved.T
            seen = lam[:, None] * target
            seen -= lam[:, None] * (features @ (whitener.T @ (whitener @ (features.T @ seen))))
            weight = np.outer(dual, solved @ dual) - seen
            by_cross += weight
            by_own -= 0.5 * (solved @ weight)
            by_cross += 2.0 * curvature[:, j : j + 1] * target
            by_own -= solved @ (curvature[:, j : j + 1] * target)
            by_diagonal -= curvature[:, j]
        gradient = np.empty(len(kernel.theta))
        for p in range(len(gradient)):
            parts = []
            for sign in (1.0, -1.0):
                theta = kernel.theta.copy()
                theta[p] += sign * _DIFFERENCE
                moved = kernel.clone_with_theta(theta)
                own = moved(inducing)
                own[np.diag_indices_from(own)] += _JITTER * np.diag(own).mean()
                parts.append(
                    float((by_cross * moved(self.rows, inducing)).sum())
                    + float((by_own * own).sum())
                    + float(by_diagonal @ moved.diag(self.rows))
                )
            gradient[p] = scale * (parts[0] - parts[1]) / (2.0 * _DIFFERENCE)
        return gradient

    def _run(self, function: Any) -> list[Any]:
        return _parallel.run(function, range(self.steps.n_labels), self.n_jobs)
