"""What every hidden Markov model of this library is: starts, moves, and channels that depend on the label alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_seqlab._chain_labeler import ChainSource, OnlineChainLabeler, OnlineScores
from sklearn_seqlab._progress import Progress
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.hmm import _emission
from sklearn_seqlab.hmm._learning import LearningTask, Learnt, chains_of
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, encode_labels
from sklearn_seqlab.solvers import SolverOutcome, report

__all__ = ["BaseHMM", "of_positive_weight"]


def of_positive_weight(
    batch: PackedBatch, labels: LabelCodes, weight: np.ndarray
) -> tuple[PackedBatch, LabelCodes, np.ndarray, np.ndarray]:
    """What counts: the sequences of positive weight (all, if none has any), and their numbers."""
    numbers = np.flatnonzero(weight > 0)
    if len(numbers) in (0, len(weight)):
        return batch, labels, weight, np.arange(len(weight))
    return batch.take(numbers), labels.take(numbers), weight[numbers], numbers


class BaseHMM(OnlineChainLabeler):
    """Predicts by ``start_prob_``, ``transition_prob_``, ``end_prob_`` and ``emission_``; a subclass learns them.

    A subclass has the parameters ``alpha``, ``decoding`` and ``n_jobs``, and may turn inputs into channels of
    its own.
    """

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.regularisation = "alpha"
        return tags

    @property
    def transition_coef_(self) -> np.ndarray:
        """Log-probabilities of moves from row to column, (n_labels, n_labels) in nats."""
        with np.errstate(divide="ignore"):
            return np.log(self.transition_prob_)

    def joint_log_likelihood(self, X: Any, y: Any = None) -> np.ndarray:
        """Log-probability (or density) of the inputs, together with the labels if they are given.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,), default=None
            Where labels are missing, or only sets of candidates are known, the probabilities of all
            labellings that fit are summed. None: nothing is known, which gives the likelihood of ``X``.

        Returns
        -------
        joint_log_likelihood : ndarray of shape (n_sequences,)
            In nats; minus infinity where labels or inputs are impossible.
        """
        batch = self._pack(X)
        labels = None
        if y is not None:
            labels = encode_labels(y, batch.offsets, classes=self.classes_, unseen="mark")

        def work(chains: PackedChains) -> np.ndarray:
            if labels is not None:
                start = batch.offsets[chains.first]
                chains = chains.narrowed(labels.allowed(start, start + len(chains.unary)))
            return chains.log_partition()

        return np.concatenate(self._map_chunks(batch, None, work))

    def _channels(self, batch: PackedBatch) -> PackedBatch:
        """The channels of inputs; the inputs themselves unless a subclass says otherwise."""
        return batch

    def _parameters(self) -> dict[str, Any]:
        return {
            "start": self.start_prob_,
            "transition": self.transition_prob_,
            "end": self.end_prob_,
            "emission": self.emission_,
        }

    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        return chains_of(self._channels(batch), self._parameters())

    def _online_scores(self) -> OnlineScores:
        with np.errstate(divide="ignore"):
            start, moves, end = (
                np.log(part) for part in (self.start_prob_, self.transition_prob_, self.end_prob_)
            )
        return OnlineScores(self._row_scorer(), None, np.ascontiguousarray(moves), start, end)

    def _row_scorer(self) -> Callable[[np.ndarray], np.ndarray]:
        """Scores (n_labels,) of the inputs (n_features,) of one step of a new stream."""
        return _emission.row_scorer(self.emission_, self.n_features_in_, len(self.classes_))

    def _learn(
        self, channels: PackedBatch, labels: LabelCodes, weight: np.ndarray, kinds: np.ndarray, **options: Any
    ) -> Learnt:
        """Counts, or EM where labels are hidden; ``options`` are those of the task and of its run."""
        if not labels.n_labels:
            raise ValueError("y holds no label at all: every step of every sequence is missing.")
        if not (weight > 0).any():
            raise ValueError("sample_weight is zero for every sequence: nothing to learn from.")
        earlier, max_iter, tol = options.pop("earlier", None), options.pop("max_iter"), options.pop("tol")
        verbose = options.pop("verbose", 0)
        columns = _emission.columns_of(kinds)
        task = LearningTask(channels, labels, weight, columns, self.alpha, n_jobs=self.n_jobs, **options)
        with Progress(verbose, type(self).__name__, max_iter) as progress:
            return task.run(earlier, max_iter, tol, progress)

    def _adopt(self, learnt: Learnt, classes: np.ndarray) -> None:
        """Assign what was learnt."""
        self.classes_ = classes
        self.start_prob_, self.transition_prob_ = learnt.parameters["start"], learnt.parameters["transition"]
        self.end_prob_, self.emission_ = learnt.parameters["end"], learnt.parameters["emission"]
        self.n_iter_, self.loss_curve_ = learnt.n_iter, np.array(learnt.history)
        if learnt.interrupted:
            raise KeyboardInterrupt
        outcome = SolverOutcome(
            np.empty(0), learnt.history[-1], learnt.n_iter, learnt.converged, "max_iter was reached"
        )
        report(outcome, "Raise max_iter, or loosen tol.")
