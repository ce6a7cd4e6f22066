"""What every estimator of this library is: tags, checks at predict, score, and the state it pickles."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import Tags, TargetTags
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._sklearn_private import _check_feature_names
from sklearn_seqlab._version import __version__
from sklearn_seqlab.metrics import micro_accuracy_score
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, encode_labels, pack

__all__ = ["SequenceLabeler", "SequenceTags", "SequenceTargetTags", "input_names"]


@dataclass(slots=True)
class SequenceTargetTags(TargetTags):
    """scikit-learn's target tags and what an estimator accepts as labels.

    Attributes
    ----------
    missing_labels : bool
        Steps without a label are accepted by ``fit``, and known labels by ``predict``.
    candidate_sets : bool
        A step may carry a set of candidate labels.
    multi_level : bool
        Labels may have several levels, (n_timesteps, n_levels).
    flat_segments : bool
        Labels may be a list of segments ``(start, stop, label)``, without a level.
    """

    missing_labels: bool = False
    candidate_sets: bool = False
    multi_level: bool = False
    flat_segments: bool = False


@dataclass(slots=True)
class SequenceTags(Tags):
    """scikit-learn's tags and the verbs beyond ``fit``, ``predict`` and ``score``.

    Attributes
    ----------
    regularisation : str or None
        Name of the parameter to search over first.
    probabilities : bool
        ``predict_proba`` and ``decoding="marginal"``.
    pairwise : bool
        ``predict_pairwise``.
    likelihood : bool
        ``log_likelihood``.
    sampling : bool
        ``sample``.
    n_best : bool
        ``predict_n_best``.
    max_marginals : bool
        ``decision_function``.
    segments : bool
        ``predict_segments``.
    boundaries : bool
        ``predict_boundary_proba``.
    level_marginals : bool
        ``predict_marginals``.
    online : bool
        ``predict_online``.
    holds_out : bool
        ``fit`` holds sequences out to judge by, so that it needs two or more.
    keeps_rows : bool
        The fitted estimator holds copies of training rows, as kernel models must.
    fixed_units : bool
        Parameters such as a kernel's length scale are in the units of the inputs: other units are other data.
    """

    regularisation: str | None = None
    probabilities: bool = False
    pairwise: bool = False
    likelihood: bool = False
    sampling: bool = False
    n_best: bool = False
    max_marginals: bool = False
    segments: bool = False
    boundaries: bool = False
    level_marginals: bool = False
    online: bool = False
    holds_out: bool = False
    keeps_rows: bool = False
    fixed_units: bool = False


def input_names(model: Any) -> list[str]:
    """Names of the columns that a fitted ``model`` saw: those of data frames, else ``x0``, ``x1``, ..."""
    return list(getattr(model, "feature_names_in_", [f"x{p}" for p in range(model.n_features_in_)]))


class SequenceLabeler(BaseEstimator):
    """Base class of all estimators: labels every time step of every sequence.

    A subclass defines ``fit`` and ``predict``, sets ``classes_`` and ``n_features_in_``, and says in
    ``__sklearn_tags__`` which further verbs it has.
    """

    # Whether batches may hold 32-bit values, and such as lie in files.
    _reads_stored = False

    def __sklearn_tags__(self) -> SequenceTags:
        inherited = super().__sklearn_tags__()
        # estimator_type stays None: scikit-learn's helpers for classifiers expect y to be one array
        tags = SequenceTags(**{field.name: getattr(inherited, field.name) for field in fields(inherited)})
        target = {field.name: getattr(inherited.target_tags, field.name) for field in fields(TargetTags)}
        tags.target_tags = SequenceTargetTags(**target | {"required": True})
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Micro accuracy: share of the labelled steps that ``predict`` gets right.

        Parameters
        ----------
        X : list of array-like of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Steps without a label are left out.
        sample_weight : array-like of shape (n_sequences,), default=None

        Returns
        -------
        score : float
        """
        return micro_accuracy_score(y, self.predict(X), sample_weight=sample_weight)

    def _pack(self, X: Any) -> PackedBatch:
        """Check and pack sequences for a fitted estimator."""
        check_is_fitted(self)
        tags = self.__sklearn_tags__().input_tags
        batch = pack(
            X,
            n_features=self.n_features_in_,
            allow_nan=tags.allow_nan,
            accept_sparse=tags.sparse,
            as_stored=self._reads_stored,
        )
        _check_feature_names(self, next(iter(X)), reset=False)
        return batch

    def _pack_known(self, X: Any, y_observed: Any) -> tuple[PackedBatch, LabelCodes | None]:
        """Sequences and what is known of their labels, for a fitted estimator with ``classes_``."""
        batch = self._pack(X)
        if y_observed is None:
            return batch, None
        return batch, encode_labels(y_observed, batch.offsets, classes=self.classes_, name="y_observed")

    def _set_input_attributes(self, batch: PackedBatch) -> None:
        """Assign what ``fit`` saw of the features."""
        self.n_features_in_ = batch.n_features
        if batch.feature_names is not None:
            self.feature_names_in_ = batch.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __getstate__(self) -> dict[str, Any]:
        return dict(super().__getstate__(), _sklearn_seqlab_version=__version__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop("_sklearn_seqlab_version", "unknown")
        if version != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=__version__,
                    original_sklearn_version=version,
                ),
                stacklevel=2,
            )
        super().__setstate__(state)
