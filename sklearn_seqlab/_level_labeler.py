"""Verbs of every probabilistic estimator, and of every one whose labels have levels."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from sklearn_seqlab._arguments import positive
from sklearn_seqlab.base import SequenceLabeler, SequenceTags
from sklearn_seqlab.sequences import PackedBatch

__all__ = ["LevelLabeler", "SamplingLabeler"]


class SamplingLabeler(SequenceLabeler, metaclass=ABCMeta):
    """Adds ``sample``."""

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.sampling = True
        return tags

    @abstractmethod
    def _draw(self, batch: PackedBatch, n_samples: int, seeds: np.ndarray) -> list[np.ndarray]:
        """Labellings of all steps of a batch; a chunk of sequences draws with the seed of its first sequence."""

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
        n_samples = positive(n_samples, "n_samples")
        batch = self._pack(X)
        # a stream per chunk: draws do not depend on the order in which threads take the chunks
        seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=batch.n_sequences)
        return [batch.unpack(labels) for labels in self._draw(batch, n_samples, seeds)]


def _has_one_level(estimator: Any) -> bool:
    # an unfitted estimator has the method, which then says that it is not fitted
    n_levels = getattr(estimator, "n_levels_", 1)
    if n_levels > 1:
        raise AttributeError(
            f"predict_proba needs one level of labels, but there are {n_levels}: use predict_marginals."
        )
    return True


class LevelLabeler(SamplingLabeler, metaclass=ABCMeta):
    """Adds probabilities of labels by level."""

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.probabilities = tags.level_marginals = True
        return tags

    @abstractmethod
    def _level_marginals(self, X: Any, y_observed: Any) -> list[np.ndarray]:
        """By level, one array of shape (n_timesteps, n_labels) per sequence."""

    @available_if(_has_one_level)
    def predict_proba(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Probability of each label at each step; only for labels of one level.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps, n_labels) per sequence, columns in the order of the labels of the only
            level in ``classes_``.
        """
        return self._level_marginals(X, y_observed)[0]

    def predict_marginals(self, X: Any, y_observed: Any = None) -> list[list[np.ndarray]]:
        """Probability of each label at each step and level, given the whole sequence.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        marginals : list of n_sequences lists of n_levels ndarrays of shape (n_timesteps, n_labels)
            Columns in the order of the level's ``classes_``.
        """
        return [list(levels) for levels in zip(*self._level_marginals(X, y_observed), strict=True)]
