"""Which features speak for a label: weights as a table and as text."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

__all__ = ["label_weights", "label_weights_text"]


def label_weights(estimator: Any, top: int | None = 5, *, feature_names: Any = None) -> np.ndarray:
    """The largest weights of each label.

    Parameters
    ----------
    estimator : fitted estimator, pipeline or search
        With ``coef_`` of shape (n_labels, n_features).
    top : int or None, default=5
        Features per label, by decreasing weight; None for all. Weights that are not positive are left out.
    feature_names : array-like of shape (n_features,), default=None
        None asks the pipeline or the estimator, and falls back on ``x0``, ``x1``, ...

    Returns
    -------
    table : structured ndarray with fields ``label``, ``feature``, ``weight``
        Weights in nats per unit of the feature.

    Raises
    ------
    AttributeError
        If the estimator has no ``coef_``.
    """
    if top is not None and (isinstance(top, bool) or not isinstance(top, Integral) or top < 1):
        raise ValueError(f"top is {top!r}; expected an integer of at least 1, or None for all.")
    estimator, model = unwrapped(estimator)
    check_is_fitted(model)
    coef = model.coef_
    names = _feature_names(estimator, model, coef.shape[1], feature_names)
    rows = []
    for k, label in enumerate(model.classes_.tolist()):
        row = coef[[k]].toarray().ravel() if sparse.issparse(coef) else coef[k]
        order = np.argsort(-row, kind="stable")[: len(row) if top is None else top]
        rows += [(label, names[p], row[p]) for p in order if row[p] > 0]
    fields = [("label", model.classes_.dtype), ("feature", names.dtype), ("weight", np.float64)]
    return np.array(rows, dtype=fields)


def label_weights_text(estimator: Any, top: int | None = 5, *, feature_names: Any = None) -> str:
    """The largest weights of each label, a line per label.

    Parameters
    ----------
    estimator, top, feature_names
        As in :func:`label_weights`.

    Returns
    -------
    text : str
    """
    table = label_weights(estimator, top, feature_names=feature_names)
    _, model = unwrapped(estimator)
    width = max(len(str(label)) for label in model.classes_)
    lines = []
    for label in model.classes_:
        entries = table[table["label"] == label]
        weights = ", ".join(f"{feature} {weight:+.2f}" for _, feature, weight in entries.tolist())
        lines.append(f"{label!s:<{width}}  {weights or '(none above zero)'}")
    return "\n".join(lines)


def unwrapped(estimator: Any) -> tuple[Any, Any]:
    """The estimator that a search chose, and the last step of a pipeline."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    return estimator, estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _feature_names(estimator: Any, model: Any, n_features: int, given: Any) -> np.ndarray:
    if given is None and estimator is not model and len(estimator) > 1:
        try:
            given = estimator[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # a step that cannot say
            given = None
    if given is None:
        given = getattr(model, "feature_names_in_", [f"x{p}" for p in range(n_features)])
    names = np.array([str(name) for name in given])
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names, but coef_ has {n_features} columns.")
    return names
