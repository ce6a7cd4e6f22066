"""The prediction half of every estimator whose labels form a chain."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab import _parallel
from sklearn_seqlab.base import SequenceLabeler, SequenceTags
from sklearn_seqlab.inference import ChainScores, chain
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, encode_labels, unpack

__all__ = ["ChainLabeler", "ProbabilisticChainLabeler"]

Problem = tuple[np.ndarray, np.ndarray, np.ndarray]
Scorer = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


class ChainLabeler(SequenceLabeler, metaclass=ABCMeta):
    """Decodes chains of scores; a subclass learns them.

    A subclass has the parameter ``n_jobs``, sets ``classes_`` and defines ``_chain_scorer``.
    """

    @abstractmethod
    def _chain_scorer(self, batch: PackedBatch) -> Scorer:
        """What gives the scores of sequences ``first:last`` of a batch, initial and final ones folded in.

        It returns ``unary`` (n_rows, n_labels), which the caller may write to, and ``transition``
        (n_labels, n_labels) or (n_rows, n_labels, n_labels). Threads call it at the same time.
        """

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
        if getattr(self, "decoding", "map") == "marginal":
            codes = self._map_chunks(batch, known, self._decode_marginal)
        else:
            codes = self._map_chunks(batch, known, lambda first, problem: chain.best_path(*problem, first)[0])
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
        batch, known = self._pack_known(X, y_observed)

        def work(first: int, problem: Problem) -> list[Any]:
            unary, transition, offsets = problem
            chain.raise_if_infeasible(chain.partition(*problem), *problem, first)
            return chain.n_best(ChainScores(unary, transition), offsets, n)

        found = [one for part in self._map_chunks(batch, known, work) for one in part]
        return [
            [(self.classes_[codes], float(score)) for codes, score in zip(*one, strict=True)] for one in found
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
            differences within a row are margins, in nats for probabilistic models.
        """
        batch, known = self._pack_known(X, y_observed)

        def work(first: int, problem: Problem) -> np.ndarray:
            unary, transition, offsets = problem
            chain.raise_if_infeasible(chain.partition(*problem), *problem, first)
            return chain.max_marginals(ChainScores(unary, transition), offsets)

        return batch.unpack(np.concatenate(self._map_chunks(batch, known, work)))

    def _decode_marginal(self, first: int, problem: Problem) -> np.ndarray:
        return self._node_marginals(first, problem).argmax(axis=1)

    def _node_marginals(self, first: int, problem: Problem) -> np.ndarray:
        unary, transition, offsets = problem
        log_z, node, _ = chain.forward_backward(unary, transition, offsets)
        chain.raise_if_infeasible(log_z, unary, transition, offsets, first)
        return node

    def _pack_known(self, X: Any, y_observed: Any) -> tuple[PackedBatch, LabelCodes | None]:
        batch = self._pack(X)
        if y_observed is None:
            return batch, None
        known, _ = encode_labels(
            y_observed, batch.offsets, classes=self.classes_, free="sequence", name="y_observed"
        )
        return batch, known

    def _map_chunks(
        self, batch: PackedBatch, known: LabelCodes | None, work: Callable[[int, Problem], Any]
    ) -> list[Any]:
        """``work(first sequence, (unary, transition, offsets))`` over chunks, on ``n_jobs`` threads."""

        def task(bound: tuple[int, int]) -> Any:
            first, last = bound
            start, stop = batch.offsets[first], batch.offsets[last]
            unary, transition = scorer(first, last)
            if known is not None:
                unary[~known.allowed(start, stop)] = -np.inf
            return work(first, (unary, transition, batch.offsets[first : last + 1] - start))

        bounds = _parallel.chunk_bounds(batch.offsets, self._doubles_per_step())
        with _parallel.one_blas_thread():
            scorer = self._chain_scorer(batch)
            return _parallel.run(task, bounds, self.n_jobs)


class ProbabilisticChainLabeler(ChainLabeler):
    """Adds the verbs of a model in which ``exp(score)`` is proportional to a probability."""

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.probabilities = tags.pairwise = tags.likelihood = tags.sampling = True
        return tags

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

        def work(first: int, problem: Problem) -> np.ndarray:
            unary, transition, offsets = problem
            shape = (len(unary), *transition.shape[-2:])
            moves = np.array(np.broadcast_to(transition, shape), order="C")
            log_z, _, edge = chain.forward_backward(unary, moves, offsets)
            chain.raise_if_infeasible(log_z, unary, transition, offsets, first)
            return edge

        parts = unpack(np.concatenate(self._map_chunks(batch, known, work)), batch.offsets)
        for s in range(len(parts)):
            parts[s] = parts[s][1:]
        return parts

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
        labels, _ = encode_labels(y, batch.offsets, classes=self.classes_, unseen="mark")

        def work(first: int, problem: Problem) -> np.ndarray:
            unary, transition, offsets = problem
            start = batch.offsets[first]
            fits = labels.allowed(start, start + len(unary))
            narrowed = np.where(fits, unary, -np.inf)
            return chain.partition(narrowed, transition, offsets) - chain.partition(
                unary, transition, offsets
            )

        return np.minimum(np.concatenate(self._map_chunks(batch, None, work)), 0.0)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> list[np.ndarray]:
        """Draw labellings from the model's distribution given the inputs.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        draws : list of n_samples object ndarrays of shape (n_sequences,)
            Each as :meth:`predict` returns it.
        """
        batch = self._pack(X)
        random = check_random_state(random_state)
        seeds = random.randint(np.iinfo(np.int32).max, size=batch.n_sequences)

        def work(first: int, problem: Problem) -> list[np.ndarray]:
            unary, transition, offsets = problem
            # a stream per chunk: draws do not depend on the order in which threads take the chunks
            return chain.sample(ChainScores(unary, transition), offsets, n_samples, int(seeds[first]))

        parts = self._map_chunks(batch, None, work)
        draws = [np.concatenate([part[k] for part in parts]) for k in range(n_samples)]
        return [batch.unpack(self.classes_[codes]) for codes in draws]
