"""The prediction half of every estimator whose labels form a chain."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from copy import copy
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab import _parallel
from sklearn_seqlab._arguments import one_of, positive
from sklearn_seqlab._level_labeler import SamplingLabeler
from sklearn_seqlab._online_labeler import OnlineLabeler, OnlineScores
from sklearn_seqlab._sklearn_private import Interval, StrOptions
from sklearn_seqlab.base import SequenceLabeler, SequenceTags
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives import (
    ChainCoefficients,
    assemble_chains,
    check_coefficients,
    linear_scores,
    observed_pairs,
)
from sklearn_seqlab.objectives._csr_scores import add_csr_scores
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, encode_labels

__all__ = ["ChainLabeler", "LinearChainLabeler", "OnlineChainLabeler", "ProbabilisticChainLabeler"]

# With "auto", weights are restricted to observed pairs where all pairs would be more than this.
_MANY_WEIGHTS = 1_000_000

# L-BFGS holds ten pairs of vectors and a few more.
_VECTORS_IN_TRAINING, _LARGE_GIB = 26, 2.0

# With so many times as many weights as stored values of a batch, those of its features are picked.
_FEW = 16

ChainSource = Callable[[int, int], PackedChains]


class ChainLabeler(SequenceLabeler, metaclass=ABCMeta):
    """Decodes chains of scores; a subclass learns them.

    A subclass has the parameters ``n_jobs`` and, if it is probabilistic, ``decoding``; it sets ``classes_`` and
    defines ``_chain_source``.
    """

    @abstractmethod
    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        """What gives the chains of sequences ``first:last`` of a batch; threads call it at the same time."""

    def _doubles_per_step(self) -> int:
        """Size of the scores of one step, by which batches are cut into chunks."""
        return len(self.classes_)

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.target_tags.missing_labels = True
        tags.target_tags.candidate_sets = True
        tags.n_best = tags.max_marginals = True
        return tags

    def predict(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Label every time step.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y_observed : list of array-like of shape (n_timesteps,) or None, default=None
            What is known already: labels with None at free steps, or sets of candidates; None in place of
            a whole sequence if nothing is. Known labels come back exactly, and the rest is the best
            completion.

        Returns
        -------
        y : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps,) per sequence.

        Raises
        ------
        InfeasibleSequenceError
            If no labelling fits what is known.
        ValueError
            If ``X`` is not as in ``fit``, or ``y_observed`` holds an unknown label.

        Notes
        -----
        Time O(n_total * n_labels**2). ``decoding="marginal"`` takes the most probable label of each step by
        itself, which maximises the expected number of right steps; where transitions are forbidden the
        labels together may then be a sequence of probability zero.
        """
        batch, known = self._pack_known(X, y_observed)
        codes = self._map_chunks(batch, known, self._decode)
        return batch.unpack(self.classes_[np.concatenate(codes)])

    def predict_n_best(
        self, X: Any, n: int = 5, y_observed: Any = None
    ) -> list[list[tuple[np.ndarray, float]]]:
        """The ``n`` labellings of largest score.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.
        n : int, default=5

        Returns
        -------
        labellings : list of n_sequences lists of (labels, score)
            Best first, scores in nats; fewer than ``n`` where fewer are feasible. In a probabilistic model
            ``exp(score - log_partition)`` is the probability of a labelling.
        """
        n = positive(n, "n")
        batch, known = self._pack_known(X, y_observed)
        parts = self._map_chunks(batch, known, lambda chains: chains.n_best(n))
        return [
            [(self.classes_[codes], float(score)) for codes, score in zip(*found, strict=True)]
            for part in parts
            for found in part
        ]

    def decision_function(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Max-marginals: the score of the best labelling through each label of each step.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        scores : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps, n_labels) per sequence, columns in the order of ``classes_``;
            differences within a row are margins, in nats for probabilistic models. What all labels of a step share
            is left out where it is beyond 1e5: it would cost the margins their digits.
        """
        batch, known = self._pack_known(X, y_observed)
        return batch.unpack(np.concatenate(self._map_chunks(batch, known, PackedChains.max_marginals)))

    def _decode(self, chains: PackedChains) -> np.ndarray:
        return chains.viterbi()[0]

    def _map_chunks(
        self,
        batch: PackedBatch,
        known: LabelCodes | None,
        work: Callable[[PackedChains], Any],
        doubles_per_step: int | None = None,
    ) -> list[Any]:
        """``work`` on the chains of each chunk of sequences, on ``n_jobs`` threads."""

        def task(bound: tuple[int, int]) -> Any:
            chains = source(*bound)
            chains.raise_if_overflown()
            chains = chains.levelled()
            if known is not None:
                chains = chains.narrowed(known.allowed(batch.offsets[bound[0]], batch.offsets[bound[1]]))
            return work(chains)

        bounds = _parallel.chunk_bounds(batch.offsets, doubles_per_step or self._doubles_per_step())
        with _parallel.one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            source = self._chain_source(batch)
            return _parallel.run(task, bounds, self.n_jobs)


class LinearChainLabeler(ChainLabeler, metaclass=ABCMeta):
    """A chain labeler whose scores are linear in the features: its coefficients, and what they stand for.

    A subclass has the parameters that are constrained here.
    """

    _parameter_constraints: dict = {
        "fit_intercept": ["boolean"],
        "start_end": ["boolean"],
        "transition_features": [StrOptions({"none", "all"}), "array-like"],
        "allowed_transitions": [None, StrOptions({"observed"}), dict, "array-like"],
        "restrict_features": ["boolean", StrOptions({"auto"})],
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        parts = self._coefficients()
        columns = self.transition_features_
        check_coefficients(parts, batch.n_features, len(columns))
        if len(parts.transition) != len(self.classes_):
            raise ValueError(
                f"classes_ has {len(self.classes_)} labels, but there are coefficients for {len(parts.transition)}."
            )
        edge_inputs = batch.values[:, columns] if len(columns) else None
        score = self._score_source(batch, parts.node)

        def chains(first: int, last: int) -> PackedChains:
            start, stop = int(batch.offsets[first]), int(batch.offsets[last])
            unary = score(start, stop)
            inputs = None if edge_inputs is None else edge_inputs[start:stop]
            return assemble_chains(unary, inputs, parts, batch.offsets[first : last + 1] - start, first)

        return chains

    @staticmethod
    def _score_source(batch: PackedBatch, node: Any) -> Callable[[int, int], np.ndarray]:
        """What gives the products of rows ``start:stop`` with ``node`` (n_labels, n_features)."""
        values = batch.values
        if not (batch.is_sparse and sparse.issparse(node)):
            by_feature = sparse.csr_array(node.T) if sparse.issparse(node) else node.T
            return lambda start, stop: linear_scores(values, by_feature, start, stop)
        by_feature, columns = sparse.csr_array(node.T), values.indices  # shares the memory of CSC weights
        if _FEW * values.nnz < node.nnz:  # a few sequences: the weights of their features alone
            used, columns = np.unique(columns, return_inverse=True)
            by_feature, columns = by_feature[used], columns.astype(values.indices.dtype)
        if not by_feature.has_canonical_format:
            by_feature = by_feature.copy()
            by_feature.sum_duplicates()
        weights = by_feature.data.astype(np.float64, copy=False), by_feature.indices, by_feature.indptr

        def scores(start: int, stop: int) -> np.ndarray:
            out = np.zeros((stop - start, node.shape[0]))
            add_csr_scores(values.data, columns, values.indptr, *weights, start, out)
            return out

        return scores

    def _coefficients(self) -> ChainCoefficients:
        return ChainCoefficients(
            self.coef_,
            self.transition_coef_,
            self.edge_coef_,
            self.start_coef_,
            self.end_coef_,
            self.intercept_,
        )

    def _set_coefficients(self, parts: ChainCoefficients, classes: np.ndarray, columns: np.ndarray) -> None:
        """Assign what ``fit`` learnt, under the names that users see."""
        self.classes_ = classes
        self.coef_, self.intercept_ = parts.node, parts.intercept
        self.transition_coef_, self.edge_coef_ = parts.transition, parts.edge
        self.transition_features_ = columns
        self.start_coef_, self.end_coef_ = parts.start, parts.end

    def _learnt_same_weights(self, classes: np.ndarray, n_features: int, columns: np.ndarray) -> bool:
        """Whether an earlier fit had the same labels and features, so that its coefficients fit."""
        return (
            hasattr(self, "coef_")
            and np.array_equal(self.classes_, classes)
            and self.n_features_in_ == n_features
            and np.array_equal(self.transition_features_, columns)
        )

    def _doubles_per_step(self) -> int:
        n_labels = len(self.classes_)
        return n_labels**2 if len(self.transition_features_) else n_labels

    def _edge_columns(self, batch: PackedBatch) -> np.ndarray:
        if isinstance(self.transition_features, str):
            return np.arange(batch.n_features if self.transition_features == "all" else 0)
        columns = np.asarray(self.transition_features)
        if columns.ndim != 1 or (columns.size and columns.dtype.kind not in "iu"):
            raise ValueError(
                f"transition_features is {self.transition_features!r}; expected column numbers of X."
            )
        if columns.size and not 0 <= columns.min() <= columns.max() < batch.n_features:
            raise ValueError(
                f"transition_features holds {columns.min()}..{columns.max()}, "
                f"but the columns of X are 0..{batch.n_features - 1}."
            )
        return columns.astype(np.intp)

    def _observed_pairs(self, batch: PackedBatch, labels: LabelCodes) -> sparse.csr_array | None:
        """The pairs of feature and label that have a weight; None for all."""
        restrict = self.restrict_features
        if restrict == "auto":
            restrict = batch.is_sparse and batch.n_features * labels.n_labels > _MANY_WEIGHTS
        return observed_pairs(batch, labels, self.min_count) if restrict else None

    def _warn_if_large(self, n_coef: int) -> None:
        size = _VECTORS_IN_TRAINING * 8 * n_coef / 2**30
        if size > _LARGE_GIB:
            warnings.warn(
                f"Training {n_coef:,} weights takes about {size:.1f} GiB. restrict_features='auto' keeps those of "
                "feature and label that occur together; transition_features may be a few columns.",
                DataDimensionalityWarning,
                stacklevel=3,
            )


class ProbabilisticChainLabeler(ChainLabeler, SamplingLabeler):
    """Adds the verbs of a model in which ``exp(score)`` is proportional to a probability."""

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.probabilities = tags.pairwise = tags.likelihood = True
        return tags

    def _decode(self, chains: PackedChains) -> np.ndarray:
        if one_of(self.decoding, ("map", "marginal"), "decoding") == "map":
            return super()._decode(chains)
        return self._node_marginals(chains).argmax(axis=1)

    @staticmethod
    def _node_marginals(chains: PackedChains) -> np.ndarray:
        log_z, node, _ = chains.forward_backward()
        chains.raise_if_infeasible(log_z)
        return node

    def predict_proba(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Probability of each label at each step, given the whole sequence.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps, n_labels) per sequence, columns in the order of ``classes_``.
        """
        batch, known = self._pack_known(X, y_observed)
        return batch.unpack(np.concatenate(self._map_chunks(batch, known, self._node_marginals)))

    def predict_pairwise(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Probability of each pair of neighbouring labels, given the whole sequence.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        pairwise : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps - 1, n_labels, n_labels) per sequence; entry ``[t, i, j]`` is the
            probability of label ``i`` at step ``t`` and ``j`` at step ``t + 1``.
        """
        batch, known = self._pack_known(X, y_observed)

        def work(chains: PackedChains) -> list[np.ndarray]:
            log_z, _, edge = chains.with_moves_per_step().forward_backward()
            chains.raise_if_infeasible(log_z)
            return [edge[a + 1 : b].copy() for a, b in pairwise(chains.offsets)]

        parts = self._map_chunks(batch, known, work, doubles_per_step=len(self.classes_) ** 2)
        matrices = np.empty(batch.n_sequences, dtype=object)
        for s, matrix in enumerate(matrix for part in parts for matrix in part):
            matrices[s] = matrix
        return matrices

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of the labels given the inputs.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Where labels are missing, or only sets of candidates are known, the probabilities of all
            labellings that fit are summed.

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,)
            In nats; minus infinity where a label was not seen in ``fit`` or a move is forbidden, 0 where
            nothing is known.
        """
        batch = self._pack(X)
        labels = encode_labels(y, batch.offsets, classes=self.classes_, unseen="mark")

        def work(chains: PackedChains) -> np.ndarray:
            start = batch.offsets[chains.first]
            log_z = chains.log_partition()
            chains.raise_if_infeasible(log_z)
            return chains.narrowed(labels.allowed(start, start + len(chains.unary))).log_partition() - log_z

        # rounding may leave a difference of equal sums above zero
        return np.minimum(np.concatenate(self._map_chunks(batch, None, work)), 0.0)

    def _draw(self, batch: PackedBatch, n_samples: int, seeds: np.ndarray) -> list[np.ndarray]:
        parts = self._map_chunks(
            batch, None, lambda chains: chains.sample(n_samples, int(seeds[chains.first]))
        )
        draws = [np.concatenate([part[k] for part in parts]) for k in range(n_samples)]
        return [self.classes_[codes] for codes in draws]


class OnlineChainLabeler(ProbabilisticChainLabeler):
    """Adds streams: probabilities of a step before the sequence has ended."""

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.online = True
        return tags

    @abstractmethod
    def _online_scores(self) -> OnlineScores:
        """How a new stream is scored; called once for each, so that scores may remember earlier steps."""

    def predict_online(self, lag: int = 0) -> OnlineLabeler:
        """Label a stream whose steps arrive one by one.

        Parameters
        ----------
        lag : int, default=0
            How many further steps to wait for before a step is labelled. 0 is filtering: the probabilities of a step
            given the inputs up to it. The longer the lag, the closer to :meth:`predict_proba`; with a lag of the
            length of the stream they are the same.

        Returns
        -------
        stream : OnlineLabeler
            ``stream.step(x)`` takes the inputs (n_features,) of one step (and its label, where it is known), and
            returns the probabilities (n_labels,) of the step ``lag`` back, or None while there is none;
            ``stream.finish()`` returns those of the last ``lag`` steps.

        Notes
        -----
        In a hidden Markov model these are probabilities given what was observed so far. A conditional random field
        has no model of its inputs: there they are the probabilities that the field gives to the sequence cut off
        after the last step, with no weight for ending there. They are not the probabilities of the whole sequence
        with later inputs unknown, which a CRF does not define, so weights learnt on whole sequences may lean on
        inputs that are yet to come.

        A step takes O((lag + 1) * n_labels**2) time; memory does not grow. Sums are taken in the log domain, so
        streams of any length keep their digits.
        """
        check_is_fitted(self)
        if isinstance(lag, bool) or not isinstance(lag, Integral) or lag < 0:
            raise ValueError(f"lag is {lag!r}; expected an integer of at least 0.")
        allow_nan = self.__sklearn_tags__().input_tags.allow_nan
        frozen = copy(self)  # a later fit replaces attributes of this one alone
        return OnlineLabeler(frozen._online_scores, self.classes_, self.n_features_in_, int(lag), allow_nan)
