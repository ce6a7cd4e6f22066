"""The prediction half of models whose scores are normal, and lean on the labels around a step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab import _parallel
from sklearn_seqlab._arguments import one_of
from sklearn_seqlab.base import SequenceLabeler
from sklearn_seqlab.gaussian_process._couplings import neighbour_rows
from sklearn_seqlab.gaussian_process._decoding import (
    StepScores,
    averaged_softmax,
    normal_draws,
    probit_softmax,
)
from sklearn_seqlab.gaussian_process._latent_models import (
    FeatureModel,
    LatentModel,
    MeanFieldModel,
    RowModel,
)
from sklearn_seqlab.gaussian_process._softmax_bounds import SoftmaxBound
from sklearn_seqlab.sequences import UNSEEN, LabelCodes, PackedBatch, encode_labels

__all__ = ["NeighbourLabeler", "RelaxationReport"]


class RelaxationReport(NamedTuple):
    """How relaxed decoding went, for each sequence.

    Attributes
    ----------
    n_iter : ndarray of int of shape (n_sequences,)
        Rounds.
    converged : ndarray of bool of shape (n_sequences,)
    change : ndarray of shape (n_sequences,)
        Largest change of a probability that the last round would have made without damping.
    """

    n_iter: np.ndarray
    converged: np.ndarray
    change: np.ndarray


class NeighbourLabeler(SequenceLabeler):
    """Decodes scores of steps that depend on the labels around them; a subclass learns them.

    A subclass has the parameters ``decode``, ``update_order``, ``variance_weight``, ``damping``, ``max_iter_predict``,
    ``tol_predict``, ``n_samples``, ``random_state``, ``bound`` and ``n_jobs``, and sets ``classes_``,
    ``dependencies_``, ``dependency_mean_``, ``dependency_var_``, ``kernel_``, ``scale_`` and what one of the latent
    models names.
    """

    def _pack(self, X: Any) -> PackedBatch:
        check_is_fitted(self)
        self._validate_params()  # a warning says to change some of them after fit
        return super()._pack(X)

    def predict(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Label every time step.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y_observed : list of array-like of shape (n_timesteps,) or None, default=None
            What is known already: labels with None at free steps, or sets of candidates; None in place of a whole
            sequence if nothing is. Known labels come back exactly, and count for the steps around them.

        Returns
        -------
        y : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps,) per sequence.

        Warns
        -----
        ConvergenceWarning
            If relaxation has not converged in some sequence.
        """
        batch, known = self._pack_known(X, y_observed)
        one_of(self.decode, ("rns", "chain", "viterbi", "viterbi_mrf"), "decode")
        self._check_decoder(self.decode, self.dependencies_)
        if self.decode in ("viterbi", "viterbi_mrf"):
            local, weight = self.decode == "viterbi", float(self.variance_weight)
            codes = self._map(batch, known, lambda scores: scores.best_path(weight, local=local))
            return batch.unpack(self.classes_[np.concatenate(codes)])
        proba = self._probabilities(batch, known, "chain" if self.decode == "chain" else "rns")
        return batch.unpack(self.classes_[proba.argmax(axis=1)])

    def predict_proba(self, X: Any, y_observed: Any = None, *, method: str | None = None) -> np.ndarray:
        """Probability of each label at each step.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.
        method : {"rns", "mc", "probit", "chain"}, default=None
            "rns": the fixed point of relaxation, a normalised score, in which variances that all labels share cancel.
            "mc": the softmax averaged over ``n_samples`` draws of the latent functions and couplings, with the labels
            around a step distributed as at that fixed point; it flattens where little is known. "probit": an analytic
            approximation of "mc". "chain": see ``decode``. None takes that of ``decode``, "rns" for the Viterbi kinds.

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps, n_labels) per sequence, columns in the order of ``classes_``.
        """
        if method is None:
            method = "chain" if self.decode == "chain" else "rns"
        batch, known = self._pack_known(X, y_observed)
        if one_of(method, ("rns", "mc", "probit", "chain"), "method") == "chain":
            self._check_decoder("chain", self.dependencies_)
        return batch.unpack(self._probabilities(batch, known, method))

    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means and variances of the latent functions, without the couplings.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)

        Returns
        -------
        mean, variance : object ndarrays of shape (n_sequences,)
            Arrays of shape (n_timesteps, n_labels).
        """
        batch = self._pack(X)
        parts = self._map(batch, None, lambda scores: (scores.mean, scores.variance))
        mean, variance = (np.concatenate([part[k] for part in parts]) for k in range(2))
        return batch.unpack(mean), batch.unpack(variance)

    def predict_information(self, X: Any, y_observed: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """How uncertain each step is, and how much of that a label there would teach the model.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        entropy, information : object ndarrays of shape (n_sequences,)
            Arrays of shape (n_timesteps,), in nats: the entropy of ``predict_proba(method="mc")``, and the mutual
            information of the label and the scores ("BALD": that entropy less the mean entropy of the draws). 0 at
            known steps.
        """
        batch, known = self._pack_known(X, y_observed)
        draws = self._draws()

        def finish(scores: StepScores, around: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, inner = averaged_softmax(*scores.given(around), scores.allowed, draws)
            entropy = entr(mean).sum(axis=1)
            return entropy, np.maximum(entropy - inner, 0.0)

        parts = self._with_neighbours(batch, known, finish)
        entropy, information = (np.concatenate([part[k] for part in parts]) for k in range(2))
        return batch.unpack(entropy), batch.unpack(information)

    def relaxation_report(self, X: Any, y_observed: Any = None) -> RelaxationReport:
        """How many rounds relaxed decoding takes, and whether it converges.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        report : RelaxationReport
            Of the single pass of stacked neighbours, one round without a change.
        """
        batch, known = self._pack_known(X, y_observed)
        if hasattr(self, "base_labeler_"):
            ones = np.ones(batch.n_sequences)
            return RelaxationReport(ones.astype(np.intc), ones.astype(bool), 0.0 * ones)
        parts = self._map(batch, known, lambda scores: scores.relaxed(**self._relaxation_options()))
        return RelaxationReport(
            np.concatenate([part.n_rounds for part in parts]),
            np.concatenate([part.converged for part in parts]),
            np.concatenate([part.change for part in parts]),
        )

    def log_lower_bound(self, X: Any = None, y: Any = None) -> Any:
        """The lower bound of training, or one of the expected log pseudo-likelihood of other sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features), default=None
            None returns ``lower_bound_``.
        y : list of array-like of shape (n_timesteps,), default=None
            Labels; steps without one count neither by themselves nor for others.

        Returns
        -------
        bound : float or ndarray of shape (n_sequences,)
            In nats; minus infinity where a label was not seen in ``fit``.
        """
        if X is None:
            return self.lower_bound_
        batch = self._pack(X)
        labels = encode_labels(y, batch.offsets, classes=self.classes_, unseen="mark")
        n_labels = len(self.classes_)
        around = neighbour_rows(labels.codes, batch.offsets, self.dependencies_, n_labels)
        bound = SoftmaxBound(self.bound)

        def work(scores: StepScores) -> np.ndarray:
            start = int(batch.offsets[scores.first])
            rows = slice(start, start + len(scores.mean))
            mean = scores.mean + around[rows] @ scores.coupling_mean.reshape(-1, n_labels)
            variance = scores.variance + around[rows].power(2) @ scores.coupling_var.reshape(-1, n_labels)
            codes = labels.codes[rows]
            own = mean[np.arange(len(codes)), np.maximum(codes, 0)]
            gain = np.where(codes >= 0, own - bound(mean, variance).value, 0.0)
            gain[codes == UNSEEN] = -np.inf
            return np.add.reduceat(gain, scores.offsets[:-1])

        return np.concatenate(self._map(batch, None, work, n_jobs=1))

    @property
    def coef_(self) -> np.ndarray:
        """Mean weights of a linear kernel, (n_labels, n_features)."""
        model = self._model() if hasattr(self, "inference_") else None
        if model is None or model.kernels is not None:
            raise AttributeError("coef_ is there after a fit with kernel='linear'.")
        if isinstance(model, RowModel):
            return np.ascontiguousarray(self.scale_ * (model.rows.T @ model.dual).T)
        if isinstance(model, MeanFieldModel):
            sums = model.mean
        else:
            sums = model.weights * np.sqrt(self.scale_ * np.bincount(model.group))[:, None]
        return np.ascontiguousarray((sums / np.bincount(model.group)[:, None])[model.group].T)

    @property
    def coef_var_(self) -> np.ndarray:
        """Variances of the weights by mean field, (n_labels, n_features)."""
        model = self._model() if hasattr(self, "inference_") else None
        if not isinstance(model, MeanFieldModel):
            raise AttributeError("coef_var_ is there after a fit with inference='meanfield'.")
        size = np.bincount(model.group)[:, None].astype(float)
        spread = model.variance / size**2 + self.scale_ * (1.0 - 1.0 / size)
        return np.ascontiguousarray(spread[model.group].T)

    @staticmethod
    def _check_decoder(decode: str, lags: tuple[int, ...]) -> None:
        if decode == "chain" and not {-1, 1} & set(lags):
            raise ValueError(f"decode='chain' needs -1 or 1 among the dependencies, which are {lags}.")
        if decode in ("viterbi", "viterbi_mrf") and lags != (-1,):
            raise ValueError(f"decode={decode!r} needs dependencies=(-1,), but they are {lags}.")

    def _model(self) -> LatentModel:
        """What predicts, from the fitted attributes."""
        kind: type[RowModel] | type[MeanFieldModel] | type[FeatureModel] = FeatureModel
        if hasattr(self, "dual_coef_"):
            kind = RowModel
        elif hasattr(self, "group_mean_"):
            kind = MeanFieldModel
        kernels = None if isinstance(self.kernel_, str) else self.kernel_
        return kind(
            kernels, self.scale_, **{field: getattr(self, name) for field, name in kind.names.items()}
        )

    def _map(
        self,
        batch: PackedBatch,
        known: LabelCodes | None,
        work: Callable[[StepScores], Any],
        n_jobs: int | None = None,
    ) -> list[Any]:
        """``work`` on the scores of each chunk of sequences, on ``n_jobs`` threads."""
        allowed = (
            np.ones((batch.n_total, len(self.classes_)), dtype=bool) if known is None else known.allowed()
        )
        couplings = self.dependency_mean_, self.dependency_var_
        model, lags = self._model(), self.dependencies_

        def task(bound: tuple[int, int]) -> Any:
            scores = _step_scores(model, couplings, lags, batch, allowed, *bound)
            scores.raise_if_overflown()
            return work(scores)

        doubles = max(len(self.classes_), model.doubles_per_step())
        bounds = _parallel.chunk_bounds(batch.offsets, doubles)
        with _parallel.one_blas_thread(), np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return _parallel.run(task, bounds, self.n_jobs if n_jobs is None else n_jobs)

    def _relaxed_training(
        self,
        model: LatentModel,
        couplings: tuple[np.ndarray, np.ndarray],
        lags: tuple[int, ...],
        batch: PackedBatch,
        allowed: np.ndarray,
    ) -> np.ndarray:
        """Relaxed probabilities of all steps of training sequences, known labels held."""
        bounds = _parallel.chunk_bounds(batch.offsets, max(allowed.shape[1], model.doubles_per_step()))

        def task(bound: tuple[int, int]) -> np.ndarray:
            scores = _step_scores(model, couplings, lags, batch, allowed, *bound)
            return scores.relaxed(**self._relaxation_options()).proba

        return np.concatenate(_parallel.run(task, bounds, self.n_jobs))

    def _relaxation_options(self) -> dict[str, Any]:
        return {
            "variance_weight": float(self.variance_weight),
            "sequential": one_of(self.update_order, ("synchronous", "sequential"), "update_order")
            == "sequential",
            "damping": float(self.damping),
            "tol": float(self.tol_predict),
            "max_rounds": int(self.max_iter_predict),
        }

    def _probabilities(self, batch: PackedBatch, known: LabelCodes | None, method: str) -> np.ndarray:
        """Of all steps of a batch, (n_total, n_labels)."""
        if method == "chain":
            return np.concatenate(self._map(batch, known, StepScores.chain_marginals))
        draws = self._draws() if method == "mc" else np.empty((0, 0))
        stacked, weight = hasattr(self, "base_labeler_"), float(self.variance_weight)

        def finish(scores: StepScores, around: np.ndarray) -> np.ndarray:
            if method == "rns" and not stacked:
                return around  # a fixed point: what it gives is what it is given
            mean, variance = scores.given(around)
            if method == "rns":
                return softmax(np.where(scores.allowed, mean + weight * variance, -np.inf), axis=1)
            if method == "probit":
                return probit_softmax(mean, variance, scores.allowed)
            return averaged_softmax(mean, variance, scores.allowed, draws)[0]

        return np.concatenate(self._with_neighbours(batch, known, finish))

    def _with_neighbours(
        self,
        batch: PackedBatch,
        known: LabelCodes | None,
        finish: Callable[[StepScores, np.ndarray], Any],
    ) -> list[Any]:
        """``finish`` on the scores of each chunk and the probabilities of the labels that stand around its steps."""
        if hasattr(self, "base_labeler_"):
            around = self.base_labeler_._probabilities(batch, known, "rns")

            def one_pass(scores: StepScores) -> Any:
                start = int(batch.offsets[scores.first])
                return finish(scores, around[start : start + len(scores.mean)])

            return self._map(batch, known, one_pass)

        def relaxed(scores: StepScores) -> tuple[Any, bool]:
            outcome = scores.relaxed(**self._relaxation_options())
            return finish(scores, outcome.proba), bool(outcome.converged.all())

        parts = self._map(batch, known, relaxed)
        self._warn_unless_converged([part[1] for part in parts])
        return [part[0] for part in parts]

    def _draws(self) -> np.ndarray:
        seed = self.random_state if isinstance(self.random_state, Integral) else 0
        return normal_draws(int(self.n_samples), len(self.classes_), np.random.RandomState(int(seed)))

    @staticmethod
    def _warn_unless_converged(converged: list[bool]) -> None:
        if not all(converged):
            warnings.warn(
                "Relaxation has not converged in some sequences (see relaxation_report). Raise damping or "
                "max_iter_predict, or use decode='chain'.",
                ConvergenceWarning,
                stacklevel=5,
            )


def _step_scores(
    model: LatentModel,
    couplings: tuple[np.ndarray, np.ndarray],
    lags: tuple[int, ...],
    batch: PackedBatch,
    allowed: np.ndarray,
    first: int,
    last: int,
) -> StepScores:
    """Scores of sequences ``first:last``."""
    start, stop = int(batch.offsets[first]), int(batch.offsets[last])
    mean, variance = model.latent(batch.values[start:stop])
    offsets = batch.offsets[first : last + 1] - start
    return StepScores(
        np.ascontiguousarray(mean),
        np.ascontiguousarray(variance),
        *couplings,
        lags,
        offsets,
        first,
        allowed[start:stop],
    )
