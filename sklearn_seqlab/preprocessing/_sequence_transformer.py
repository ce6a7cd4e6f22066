"""Any scikit-learn transformer of rows, applied to the time steps of sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_selection import SelectKBest, SelectPercentile
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._sklearn_private import _raise_for_params, _routing_enabled, _safe_set_output
from sklearn_seqlab.preprocessing._rows import cut_rows, join_rows, stack_rows, take_rows
from sklearn_seqlab.sequences import encode_labels

__all__ = ["SequenceTransformer", "acts_on_sequences"]


# their tags say that labels are optional, because a score function without labels can be given to them
_USUALLY_SUPERVISED = (SelectKBest, SelectPercentile)


def acts_on_sequences(step: Any) -> bool:
    """Whether a step takes lists of sequences by itself.

    So does a class with ``_acts_on_sequences = True``, a pipeline with a step that does, and a predictor
    whose tags say that its input is no table (``input_tags.two_d_array`` is False).
    """
    if isinstance(step, Pipeline) and not getattr(step, "_acts_on_sequences", False):
        return any(acts_on_sequences(part) for _, part in step.steps)
    if getattr(step, "_acts_on_sequences", False):
        return True
    return hasattr(step, "predict") and not get_tags(step).input_tags.two_d_array


def _transformer_has(name: str) -> Callable[[Any], bool]:
    def check(self: SequenceTransformer) -> bool:
        getattr(getattr(self, "transformer_", self.transformer), name)  # its own AttributeError
        return True

    return check


class SequenceTransformer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Apply a transformer of rows to every time step of every sequence.

    The time steps of all sequences are laid end to end, given to the transformer as one table, and what comes
    back is cut at the same places. Scalers, imputers, decompositions, feature selection,
    ``ColumnTransformer`` and ``FeatureUnion`` thus work on lists of sequences.
    :func:`make_sequence_pipeline` does this for every step of a pipeline.

    Parameters
    ----------
    transformer : estimator
        A scikit-learn transformer that gives back one row for every row. It is cloned, never fitted itself.

    Attributes
    ----------
    transformer_ : estimator
        The fitted clone.
    n_features_in_ : int
        Number of features, if the transformer knows it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the transformer saw data frames.

    See Also
    --------
    make_sequence_pipeline : A pipeline that wraps its steps by itself.

    Notes
    -----
    Labels reach the transformer as one array. Time steps without a label (missing, or a set of candidates)
    are left out of the fit of a transformer that requires labels, by its tags or those of an estimator within
    it (``SelectKBest`` and ``SelectPercentile`` count as such); all others get ``y=None`` unless every step
    is labelled. ``sample_weight`` counts for every time step of a sequence.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> SequenceTransformer(MinMaxScaler()).fit_transform([[[0.0], [4.0]], [[1.0]]])
    [array([[0.],
           [1.]]), array([[0.25]])]
    """

    _acts_on_sequences = True

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def fit(self, X: Iterable[Any], y: Any = None, **params: Any) -> SequenceTransformer:
        """Fit a clone of the transformer on the time steps of all sequences.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
            Or lists of n_timesteps str or dict, for transformers of such rows.
        y : list of array-like of shape (n_timesteps,), default=None
            Labels, some of which may be missing.
        **params : dict
            Passed to the transformer's ``fit``, by metadata routing where it is enabled. A ``sample_weight``
            has one entry per sequence.

        Returns
        -------
        self : SequenceTransformer

        Raises
        ------
        ValueError
            If there are no sequences or no time steps, if features or lengths do not agree, or if the
            transformer requires labels and there is none.
        TypeError
            If ``transformer`` is no transformer, or if sequences are of kinds that cannot be joined.
        """
        inner = self._cloned()
        rows, offsets = stack_rows(X)
        labelled, labels = self._read_labels(inner, y, offsets)
        routed = self._route("fit", params)
        if labelled is not None:
            rows = take_rows(rows, labelled)
        inner.fit(rows, labels, **_by_row(routed.get("fit", {}), offsets, labelled))
        self.transformer_ = inner
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None, **params: Any) -> list[Any]:
        """Fit a clone of the transformer and transform the same sequences.

        Parameters
        ----------
        X, y, **params
            As in :meth:`fit`.

        Returns
        -------
        Xt : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features_out)
            The time steps that were fitted come from the transformer's own ``fit_transform``.

        Raises
        ------
        ValueError, TypeError
            As :meth:`fit`; ValueError also if the transformer changes the number of rows.
        """
        inner = self._cloned()
        rows, offsets = stack_rows(X)
        labelled, labels = self._read_labels(inner, y, offsets)
        routed = self._route("fit_transform", params)
        known = rows if labelled is None else take_rows(rows, labelled)
        if hasattr(inner, "fit_transform"):
            given = _by_row(routed.get("fit_transform", {}), offsets, labelled)
            out = inner.fit_transform(known, labels, **given)
        else:
            inner.fit(known, labels, **_by_row(routed.get("fit", {}), offsets, labelled))
            out = inner.transform(known, **routed.get("transform", {}))
        n_total = int(offsets[-1])
        if labelled is not None and len(labelled) < n_total:
            _check_n_rows(out, len(labelled), inner)
            free = np.setdiff1d(np.arange(n_total), labelled, assume_unique=True)
            rest = inner.transform(take_rows(rows, free), **routed.get("transform", {}))
            out = take_rows(join_rows([out, rest]), np.argsort(np.concatenate([labelled, free])))
        _check_n_rows(out, n_total, inner)
        self.transformer_ = inner
        return cut_rows(out, offsets)

    def transform(self, X: Iterable[Any], **params: Any) -> list[Any]:
        """Transform every time step.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
        **params : dict
            Passed to the transformer's ``transform``, if metadata routing is enabled.

        Returns
        -------
        Xt : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features_out)
            CSR where the transformer gives sparse output; frames, indexed from 0, where it gives frames.

        Raises
        ------
        NotFittedError
            Before :meth:`fit`.
        ValueError
            If there are no sequences or no time steps, if features do not agree, or if the transformer
            changes the number of rows.
        """
        return self._apply("transform", X, params)

    @available_if(_transformer_has("inverse_transform"))
    def inverse_transform(self, X: Iterable[Any], **params: Any) -> list[Any]:
        """Undo the transformation of every time step, if the transformer can.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features_out)
        **params : dict
            Passed to the transformer's ``inverse_transform``, if metadata routing is enabled.

        Returns
        -------
        X_original : list of array-like or sparse matrix of shape (n_timesteps, n_features)

        Raises
        ------
        NotFittedError, ValueError
            As :meth:`transform`.
        """
        return self._apply("inverse_transform", X, params)

    @available_if(_transformer_has("get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the transformed features, as the transformer gives them.

        Parameters
        ----------
        input_features : array-like of shape (n_features,) of str, default=None

        Returns
        -------
        feature_names_out : ndarray of shape (n_features_out,) of str
        """
        check_is_fitted(self)
        return self._fitted().get_feature_names_out(input_features)

    def set_output(self, *, transform: str | None = None) -> SequenceTransformer:
        """Choose the container of the transformed sequences.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            "pandas" and "polars" give one frame per sequence; None leaves the choice as it was.

        Returns
        -------
        self : SequenceTransformer
        """
        _safe_set_output(self.transformer, transform=transform)
        if hasattr(self, "transformer_"):
            _safe_set_output(self.transformer_, transform=transform)
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of features seen by the transformer."""
        return self._fitted_attribute("n_features_in_")

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Column names seen by the transformer."""
        return self._fitted_attribute("feature_names_in_")

    def get_metadata_routing(self) -> MetadataRouter:
        """What the transformer asks of metadata routing.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping()
        for caller in ("fit", "transform", "inverse_transform"):
            mapping.add(caller=caller, callee=caller)
        if hasattr(self.transformer, "fit_transform"):
            mapping.add(caller="fit_transform", callee="fit_transform")
        else:
            mapping.add(caller="fit_transform", callee="fit")
        mapping.add(caller="fit_transform", callee="transform")
        return MetadataRouter(owner=self).add(transformer=self.transformer, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            inner = get_tags(self.transformer)
        except (AttributeError, TypeError, ValueError):
            return tags  # no estimator: fit says so
        tags.input_tags = deepcopy(inner.input_tags)
        tags.input_tags.two_d_array = False
        tags.target_tags.required = inner.target_tags.required
        tags.requires_fit = inner.requires_fit
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def _cloned(self) -> Any:
        inner = self.transformer
        if isinstance(inner, type) or not (hasattr(inner, "fit") and hasattr(inner, "transform")):
            raise TypeError(f"transformer is {inner!r:.60}; expected a transformer with fit and transform.")
        return clone(inner)

    def _fitted(self) -> Any:
        # a transformer that needs no fit (by its tags) serves as it is
        return getattr(self, "transformer_", self.transformer)

    def _fitted_attribute(self, name: str) -> Any:
        if "transformer_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r} before fit.")
        return getattr(self.transformer_, name)

    def _apply(self, method: str, X: Iterable[Any], params: dict[str, Any]) -> list[Any]:
        check_is_fitted(self)
        _raise_for_params(params, self, method)
        routed = self._route(method, params) if params else {}
        rows, offsets = stack_rows(X)
        inner = self._fitted()
        out = getattr(inner, method)(rows, **routed.get(method, {}))
        _check_n_rows(out, int(offsets[-1]), inner)
        return cut_rows(out, offsets)

    def _route(self, method: str, params: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Parameters for each method of the transformer."""
        if _routing_enabled():
            return process_routing(self, method, **params).transformer
        return {method: params} if hasattr(self.transformer, method) else {"fit": params}

    def _read_labels(
        self, inner: Any, y: Any, offsets: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The rows to fit on (None: all) and their labels (None: without)."""
        if y is None:
            return None, None
        needs_labels = _requires_labels(inner)
        if not needs_labels and _has_levels(y):
            return None, None
        encoded = encode_labels(y, offsets)
        classes = encoded.classes
        if encoded.is_complete().all():
            return None, classes[encoded.codes]
        if not needs_labels:
            return None, None
        labelled = np.flatnonzero(encoded.codes >= 0)
        if not len(labelled):
            raise ValueError(f"y holds no known label, but {type(inner).__name__} requires labels.")
        return labelled, classes[encoded.codes[labelled]]


def _has_levels(y: Any) -> bool:
    """Whether labels come in one of the richer forms of multi-level models, of which nothing is read here."""
    return any(
        getattr(item, "ndim", 1) > 1
        or (
            isinstance(item, list | tuple)
            and any(isinstance(part, list | tuple | np.ndarray) for part in item)
        )
        for item in y
    )


def _requires_labels(estimator: Any) -> bool:
    """By its own tags, or by those of an estimator it is made of (a selector in a union, say)."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    return any(
        get_tags(part).target_tags.required or isinstance(part, _USUALLY_SUPERVISED)
        for part in parts
        if isinstance(part, BaseEstimator) and not isinstance(part, type)
    )


def _by_row(params: dict[str, Any], offsets: np.ndarray, labelled: np.ndarray | None) -> dict[str, Any]:
    """One ``sample_weight`` per sequence becomes one per time step that is fitted."""
    weight = params.get("sample_weight")
    if weight is None:
        return dict(params)
    weight, n_sequences = np.asarray(weight), len(offsets) - 1
    if weight.shape != (n_sequences,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}; expected ({n_sequences},), one per sequence."
        )
    weight = np.repeat(weight, np.diff(offsets))
    return {**params, "sample_weight": weight if labelled is None else weight[labelled]}


def _check_n_rows(rows: Any, n_expected: int, inner: Any) -> None:
    n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    if n_rows != n_expected:
        raise ValueError(
            f"{type(inner).__name__} made {n_rows} rows of {n_expected} time steps; "
            "a transformer of time steps must keep their number."
        )
