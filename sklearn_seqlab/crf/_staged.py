"""Predictions of a model that grows by rounds, as of each of them."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab.metrics import micro_accuracy_score

__all__ = ["StagedPredictions"]


class StagedPredictions(metaclass=ABCMeta):
    """Adds predictions by round; a subclass defines ``_as_of_each_round``."""

    @abstractmethod
    def _as_of_each_round(self) -> Iterator[Any]:
        """The fitted model before its first round, where it has weights then, and after each round."""

    def staged_predict(self, X: Any, y_observed: Any = None) -> Iterator[np.ndarray]:
        """Labels after each round.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Yields
        ------
        y : object ndarray of shape (n_sequences,)
            The first is that of the model before its first round, where it has weights then.
        """
        check_is_fitted(self)
        for model in self._as_of_each_round():
            yield model.predict(X, y_observed)

    def staged_score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Iterator[float]:
        """Micro accuracy after each round; parameters as in :meth:`score`, stages as in :meth:`staged_predict`."""
        for predicted in self.staged_predict(X):
            yield micro_accuracy_score(y, predicted, sample_weight=sample_weight)
