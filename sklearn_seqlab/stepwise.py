"""The baseline of all sequence labelling: any classifier of single time steps, blind to their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from sklearn_seqlab import _parallel
from sklearn_seqlab._sklearn_private import HasMethods, _fit_context
from sklearn_seqlab.base import SequenceLabeler, SequenceTags
from sklearn_seqlab.sequences import encode_labels, pack, read_weights

__all__ = ["StepwiseClassifier"]


def _has_proba(self: StepwiseClassifier) -> bool:
    return hasattr(getattr(self, "estimator_", self.estimator), "predict_proba")


class StepwiseClassifier(SequenceLabeler):
    """Labels every time step by itself with a scikit-learn classifier.

    What a sequence model has to beat: the classifier sees the rows of all sequences as one table.

    Parameters
    ----------
    estimator : classifier
        A clone is fitted to the labelled time steps. Its parameters are searched over as ``estimator__C``.

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone.
    classes_ : ndarray of shape (n_labels,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where ``X`` held data frames.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_seqlab.stepwise import StepwiseClassifier
    >>> X, y = [[[0.0], [1.0]], [[0.1], [0.9]]], [["off", "on"], ["off", None]]
    >>> StepwiseClassifier(LogisticRegression(C=100.0)).fit(X, y).predict([[[0.2], [0.8]]])[0]
    array(['off', 'on'], dtype='<U3')
    """

    _parameter_constraints: dict = {"estimator": [HasMethods(["fit", "predict"])]}

    def __init__(self, estimator):
        self.estimator = estimator

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.target_tags.missing_labels = True
        tags.target_tags.candidate_sets = True
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        tags.probabilities = hasattr(self.estimator, "predict_proba")
        tags.regularisation = "estimator__C" if "C" in self.estimator.get_params() else None
        return tags

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> StepwiseClassifier:
        """Fit a clone of the classifier to the labelled time steps.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Steps without a label, or with a set of candidates, are left out.
        sample_weight : array-like of shape (n_sequences,), default=None
            Every step bears the weight of its sequence.

        Returns
        -------
        self : StepwiseClassifier

        Raises
        ------
        ValueError
            If no step is labelled, or weights are given to a classifier that takes none.
        TypeError
            If ``estimator`` is no classifier.
        """
        if not is_classifier(self.estimator):
            raise TypeError(f"estimator is {self.estimator!r:.60}; expected a classifier.")
        batch = pack(X)
        labels = encode_labels(y, batch.offsets)
        weight = read_weights(sample_weight, batch.n_sequences)
        weight = np.repeat(weight, batch.lengths)
        known = np.flatnonzero((labels.codes >= 0) & (weight > 0))
        if not len(known):
            raise ValueError("y holds no known label where sample_weight is positive: nothing to learn from.")
        options = {}
        if sample_weight is not None:
            if not has_fit_parameter(self.estimator, "sample_weight"):
                raise ValueError(f"{type(self.estimator).__name__} takes no sample_weight.")
            options["sample_weight"] = weight[known]
        seen = np.unique(labels.codes[known])
        # many classifiers refuse a single class, which a fold may well hold
        estimator = clone(self.estimator) if len(seen) > 1 else DummyClassifier()
        with _parallel.one_blas_thread():
            estimator.fit(batch.values[known], labels.classes[labels.codes[known]], **options)
        self._set_input_attributes(batch)
        self.estimator_, self.classes_ = estimator, labels.classes[seen]
        return self

    def predict(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Label every time step.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y_observed : list of array-like of shape (n_timesteps,) or None, default=None
            Labels that are known already, with None at free steps, or sets of candidates.

        Returns
        -------
        y : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps,) per sequence.
        """
        batch, known = self._pack_known(X, y_observed)
        if known is None:
            with _parallel.one_blas_thread():
                return batch.unpack(self.estimator_.predict(batch.values))
        with _parallel.one_blas_thread():
            preference = self._proba(batch) if _has_proba(self) else self._votes(batch)
        # a label that is ruled out loses also against labels of probability zero
        return batch.unpack(self.classes_[np.where(known.allowed(), preference, -1.0).argmax(axis=1)])

    @available_if(_has_proba)
    def predict_proba(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Probability of each label at each step.

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
        with _parallel.one_blas_thread():
            proba = self._proba(batch)
        if known is not None:
            allowed = known.allowed()
            proba = np.where(allowed, np.maximum(proba, np.finfo(float).tiny), 0.0)
            proba /= proba.sum(axis=1, keepdims=True)
        return batch.unpack(proba)

    def _proba(self, batch: Any) -> np.ndarray:
        return self.estimator_.predict_proba(batch.values)

    def _votes(self, batch: Any) -> np.ndarray:
        return (self.estimator_.predict(batch.values)[:, None] == self.classes_).astype(float)
