"""Variational inference with a full covariance per label: the natural-gradient fixed point.

The scores of a label are normal, ``q(f) = N(K @ al, (K**-1 + diag(lam))**-1)``, so ``(al, lam)``, two numbers per row
and label, are the whole state. A sweep sets ``lam`` to the curvature of the bound and solves for ``al`` (a natural
gradient step of length one) for all labels side by side. Where the lower bound would fall, means and precisions step
by themselves, and steps are halved; since ``V * V`` is positive semidefinite, the directions always ascend. Couplings
are part of the prior ("joint"), or normal factors of their own beside it ("factored", the published form).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab import _parallel
from sklearn_seqlab.gaussian_process._ascent import ascend
from sklearn_seqlab.gaussian_process._couplings import CouplingForm
from sklearn_seqlab.gaussian_process._priors import FeaturePrior, GramPrior
from sklearn_seqlab.gaussian_process._softmax_bounds import SoftmaxBound
from sklearn_seqlab.solvers import SolverOutcome

__all__ = ["CouplingFactor", "FixedPoint", "LabelledSteps", "ScoreState"]

_MAX_HALVINGS, _COUPLING_ROUNDS = 12, 4
_TINY = 1e-300
# A bound that falls by no more than this share has not fallen.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class LabelledSteps:
    """The time steps to learn from.

    Attributes
    ----------
    codes : ndarray of shape (n_steps,)
        Labels, at least 0.
    weight : ndarray of shape (n_steps,)
        Above 0.
    neighbours : csr_array of shape (n_steps, n_lags * n_labels)
        Which labels stand around a step, or how probable they are.
    n_labels : int
    """

    codes: np.ndarray
    weight: np.ndarray
    neighbours: sparse.csr_array
    n_labels: int

    def indicators(self) -> np.ndarray:
        """(n_steps, n_labels)"""
        return np.eye(self.n_labels)[self.codes]


@dataclass(frozen=True, eq=False)
class ScoreState:
    """``q`` of the scores of rows: duals and precisions, and what follows from them."""

    dual: np.ndarray
    lam: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_det: np.ndarray

    def evidence(self) -> float:
        """Minus the divergence from the prior, in nats."""
        by_label = (self.lam * self.variance).sum(axis=0) - (self.dual * self.mean).sum(axis=0) + self.log_det
        return 0.5 * float(by_label.sum())


@dataclass(frozen=True, eq=False)
class CouplingFactor:
    """``q`` of the free entries of the coupling tables: independent normals."""

    form: CouplingForm
    prior: float
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def at_prior(cls, form: CouplingForm, prior: float) -> CouplingFactor:
        return cls(form, prior, np.zeros(form.shape), np.full(form.shape, prior))

    def evidence(self) -> float:
        ratio = self.variance / self.prior
        return 0.5 * float((np.log(ratio) - ratio - self.mean**2 / self.prior + 1.0).sum())


class FixedPoint:
    """Ascent of the lower bound of one model.

    Parameters
    ----------
    prior : GramPrior or FeaturePrior
    steps : LabelledSteps
    bound : str
        See :class:`SoftmaxBound`.
    index : ndarray of shape (n_steps,)
        The row of the prior that each step has; steps with equal scores share one.
    couplings : CouplingFactor or None
        Where to start from; None if they are part of the prior.
    residual : ndarray of shape (n_rows, 1) or (n_rows, n_labels), default=0.0
        Prior variance that the prior's features leave out.
    n_jobs : int or None
        Threads over labels.

    Attributes
    ----------
    state : ScoreState
    couplings : CouplingFactor or None
    value : float
        The lower bound, in nats, constants included.
    history : list of float
    """

    def __init__(
        self,
        prior: GramPrior | FeaturePrior,
        steps: LabelledSteps,
        bound: str,
        *,
        index: np.ndarray,
        couplings: CouplingFactor | None = None,
        residual: Any = 0.0,
        start: tuple[np.ndarray, np.ndarray] | None = None,
        n_jobs: int | None = None,
    ):
        self.prior, self.steps, self.bound = prior, steps, SoftmaxBound(bound)
        self.index, self.couplings, self.residual, self.n_jobs = index, couplings, residual, n_jobs
        self._squares = steps.neighbours.power(2)
        self._indicators = steps.indicators()
        shape = (len(index), prior.n_rows)
        of_row = (np.ones(len(index)), (np.arange(len(index)), index))
        identity = len(index) == prior.n_rows and np.array_equal(index, np.arange(len(index)))
        self._gather = None if identity else sparse.csr_array(sparse.csr_array(of_row, shape=shape).T)
        if start is None:
            lam = np.repeat(self._by_row(steps.weight)[:, None], steps.n_labels, axis=1) / steps.n_labels
            start = np.zeros((prior.n_rows, steps.n_labels)), lam
        self.state = self.at(*start)
        self._evaluate()
        self.history = [self.value]

    def at(self, dual: np.ndarray, lam: np.ndarray) -> ScoreState:
        """The state of given duals and precisions, (n_rows, n_labels) each."""
        found = self._run(lambda j: self.prior.posterior(j, lam[:, j]))
        return self._state(dual, lam, found)

    def run(self, max_iter: int, tol: float, callback: Any = None) -> SolverOutcome:
        """Sweep until the bound has less than ``tol`` of itself left to rise."""
        outcome = SolverOutcome(np.zeros(0), -self.value, 0, False, "max_iter was reached", self.history)
        outcome = ascend(self, outcome, max_iter, tol, callback)
        outcome.value = -self.value
        return outcome

    @property
    def lower_bound(self) -> float:
        return self.value

    def point(self) -> np.ndarray:
        parts = [self.state.dual, np.log(np.maximum(self.state.lam, _TINY))]
        if self.couplings is not None:
            parts += [self.couplings.mean, np.log(self.couplings.variance)]
        return np.concatenate([part.ravel() for part in parts])

    def try_point(self, point: np.ndarray) -> bool:
        old = self.state, self.couplings, self.value
        shape, size = self.state.dual.shape, self.state.dual.size
        dual, log_lam, rest = np.split(point, [size, 2 * size])
        with np.errstate(over="ignore"):
            lam = np.exp(log_lam)
        if not np.isfinite(lam).all():
            return False
        try:
            self.state = self.at(dual.reshape(shape), lam.reshape(shape))
        except np.linalg.LinAlgError:
            return False
        if self.couplings is not None:
            mean, log_variance = np.split(rest, 2)
            form, prior = self.couplings.form, self.couplings.prior
            with np.errstate(over="ignore"):
                variance = np.exp(log_variance).reshape(form.shape)
            self.couplings = CouplingFactor(form, prior, mean.reshape(form.shape), variance)
        with np.errstate(over="ignore", invalid="ignore"):
            self._evaluate()
        if self.value > old[2]:
            return True
        self.state, self.couplings = old[:2]
        self._evaluate()
        return False

    def settles(self, tol: float) -> bool:
        """Whether steps by the variances that there are promise little."""
        variance = self.state.variance
        pull = self._by_row(self.pull) - self.state.dual
        stretch = (self._by_row(2.0 * self.values.by_variance) - self.state.lam) * variance
        promise = 0.5 * float((pull**2 * variance).sum()) + 0.25 * float((stretch**2).sum())
        return promise <= 10 * max(tol, 1e-12) * abs(self.value)

    def sweep(self) -> bool:
        """One step of all labels, then a few of the couplings; whether a step of the labels was found."""
        old, values, value = self.state, self.values, self.value
        lam = self._by_row(2.0 * values.by_variance)
        b = lam * old.mean + self._by_row(self.pull)
        found = self._run(lambda j: self.prior.posterior(j, lam[:, j], b[:, j]))
        dual = np.column_stack([part.dual for part in found])
        self.state = self._state(dual, lam, found)
        self._evaluate()
        moved = True
        if not self.value >= value - _ROUNDING * abs(value):
            # too far: the means by themselves, then the precisions
            self.state = old
            self._evaluate()
            moved = self._move_means()
            moved = self._move_precisions() or moved
        if self.couplings is not None:
            for _ in range(_COUPLING_ROUNDS):
                self._update_couplings()
        return moved

    def _move_means(self) -> bool:
        """A step of the means alone by the curvature of the bound, halved while it would fall."""
        old = self.state
        weight = self.steps.weight[:, None]
        unweighted = self.values._replace(by_variance=self.values.by_variance / weight)
        lam = self._by_row(weight * self.bound.curvature(unweighted, self._variances)[0])
        b = lam * old.mean + self._by_row(self.pull)
        found = self._run(lambda j: self.prior.posterior(j, lam[:, j], b[:, j]).dual)
        change = np.column_stack(found) - old.dual

        def moved(length: float) -> ScoreState:
            dual = old.dual + length * change
            return ScoreState(dual, old.lam, self.prior.mean(dual), old.variance, old.log_det)

        return self._rises_at(moved)

    def _move_precisions(self) -> bool:
        """Precisions to the curvature of the bound, or part of the way; the means stay."""
        dual, log_old = self.state.dual, np.log(np.maximum(self.state.lam, _TINY))
        change = np.log(np.maximum(self._by_row(2.0 * self.values.by_variance), _TINY)) - log_old
        return self._rises_at(lambda length: self.at(dual, np.exp(log_old + length * change)))

    def _rises_at(self, moved: Callable[[float], ScoreState]) -> bool:
        """Move as far as ``moved(1)``, or half of it again and again until the bound is higher; whether it is."""
        old, value, length = self.state, self.value, 1.0
        for _ in range(_MAX_HALVINGS):
            self.state = moved(length)
            self._evaluate()
            if self.value > value:
                return True
            length *= 0.5
        self.state = old
        self._evaluate()
        return False

    def _update_couplings(self) -> None:
        factor, value = self.couplings, self.value
        assert factor is not None
        precision = 1.0 / factor.prior + factor.form.collect(
            self._squares.T @ (2.0 * self.values.by_variance)
        )
        gradient = factor.form.collect(self.steps.neighbours.T @ self.pull) - factor.mean / factor.prior
        log_old, length = np.log(factor.variance), 1.0
        for _ in range(_MAX_HALVINGS):
            variance = np.exp(log_old + length * (-np.log(precision) - log_old))
            mean = factor.mean + length * gradient * variance
            self.couplings = CouplingFactor(factor.form, factor.prior, mean, variance)
            self._evaluate()
            if self.value >= value - _ROUNDING * abs(value):
                return
            length *= 0.5
        self.couplings = factor
        self._evaluate()

    def _evaluate(self) -> None:
        """The bound at the current state, and how the data pulls at it."""
        mean, variance = self.state.mean[self.index], self.state.variance + self.residual
        variance = variance[self.index]
        evidence = self.state.evidence()
        if self.couplings is not None:
            form = self.couplings.form
            mean = mean + self.steps.neighbours @ form.expand(self.couplings.mean)
            variance = variance + self._squares @ form.expand(self.couplings.variance)
            evidence += self.couplings.evidence()
        weight, self._variances = self.steps.weight, variance
        values = self.bound(mean, variance)
        own = mean[np.arange(len(mean)), self.steps.codes]
        self.value = float(weight @ (own - values.value)) + evidence
        self.pull = weight[:, None] * (self._indicators - values.by_mean)
        self.values = values._replace(by_variance=weight[:, None] * values.by_variance)

    def _state(self, dual: np.ndarray, lam: np.ndarray, found: list[Any]) -> ScoreState:
        variance = np.column_stack([part.variance for part in found])
        log_det = np.array([part.log_det for part in found])
        return ScoreState(dual, lam, self.prior.mean(dual), variance, log_det)

    def _by_row(self, by_step: np.ndarray) -> np.ndarray:
        return by_step if self._gather is None else self._gather @ by_step

    def _run(self, function: Any) -> list[Any]:
        return _parallel.run(function, range(self.steps.n_labels), self.n_jobs)
