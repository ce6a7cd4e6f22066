"""Which features speak for a label: weights as a table and as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._arguments import positive

__all__ = ["label_weights", "label_weights_text"]


INPUT_BLOCKS = ("unary", "mean", "any")
"""Blocks of the weights of inputs of models of segments; those of inputs at edges are called ``edge_...``."""


def label_weights(
    estimator: Any, top: int | None = 5, *, feature_names: Any = None, block: str | None = None
) -> np.ndarray:
    """The largest weights of each label.

    Parameters
    ----------
    estimator : fitted estimator, pipeline or search
        With ``coef_`` of shape (n_labels, n_features), or a dict of blocks of weights as in :class:`SemiCRF` and
        :class:`HSCRFClassifier`.
    top : int or None, default=5
        Features per label, by decreasing weight; None for all. Weights that are not positive are left out.
    feature_names : array-like of shape (n_features,), default=None
        None asks the pipeline or the estimator, and falls back on ``x0``, ``x1``, ...
    block : str, default=None
        Which weights of a model of segments: "unary" of the inputs at each step of a segment, "mean" and "any" of
        those of a whole segment, "edge_start", "edge_end", ... at its edges. None takes the first of "unary", "mean"
        and "any" that the model has.

    Returns
    -------
    table : structured ndarray with fields ``label``, ``feature``, ``weight``
        Weights in nats per unit of the feature. Where ``classes_`` are a list by level there is a field ``level``
        before these, counted from the top; labels of different types are then objects.

    Raises
    ------
    AttributeError
        If the estimator has no ``coef_``.
    TypeError
        If ``coef_`` holds no weight per label and feature.
    ValueError
        If there is no such block, or names do not fit.
    """
    top = None if top is None else positive(top, "top")
    estimator, model = unwrapped(estimator)
    check_is_fitted(model)
    levels, classes = _weights_by_level(model, block), _classes_by_level(model)
    names = _feature_names(estimator, model, next(c.shape[1] for c in levels if c is not None), feature_names)
    rows: list[tuple[Any, ...]] = []
    for d, (coef, own) in enumerate(zip(levels, classes, strict=True)):
        for k, label in enumerate(own.tolist() if coef is not None else []):
            row = coef[[k]].toarray().ravel() if sparse.issparse(coef) else coef[k]
            order = np.argsort(-row, kind="stable")[: len(row) if top is None else top]
            rows += [(d, label, names[p], row[p]) for p in order if row[p] > 0]
    kinds = {own.dtype.kind for own in classes}
    dtype = np.result_type(*classes) if len(kinds) == 1 else np.dtype(object)
    fields = [("level", np.intp), ("label", dtype), ("feature", names.dtype), ("weight", np.float64)]
    if not isinstance(model.classes_, list | tuple):
        rows, fields = [row[1:] for row in rows], fields[1:]
    return np.array(rows, dtype=fields)


def label_weights_text(
    estimator: Any, top: int | None = 5, *, feature_names: Any = None, block: str | None = None
) -> str:
    """The largest weights of each label, a line per label; labels of several levels under a line for each level.

    Parameters
    ----------
    estimator, top, feature_names, block
        As in :func:`label_weights`.

    Returns
    -------
    text : str
    """
    table = label_weights(estimator, top, feature_names=feature_names, block=block)
    _, model = unwrapped(estimator)
    levels, classes = _weights_by_level(model, block), _classes_by_level(model)
    width = max(len(str(label)) for own in classes for label in own.tolist())
    lines = []
    for d, (coef, own) in enumerate(zip(levels, classes, strict=True)):
        if len(classes) > 1:
            lines.append(f"level {d}" if coef is not None else f"level {d}: no weights of inputs")
        for label in own.tolist() if coef is not None else []:
            entries = table[table["label"] == label]
            if isinstance(model.classes_, list | tuple):
                entries = entries[entries["level"] == d]
            pairs = zip(entries["feature"].tolist(), entries["weight"].tolist(), strict=True)
            weights = ", ".join(f"{feature} {weight:+.2f}" for feature, weight in pairs)
            lines.append(f"{label!s:<{width}}  {weights or '(none above zero)'}")
    return "\n".join(lines)


def _classes_by_level(model: Any) -> list[np.ndarray]:
    return list(model.classes_) if isinstance(model.classes_, list | tuple) else [model.classes_]


def _weights_by_level(model: Any, block: str | None) -> list[Any]:
    """Weights (n_labels, n_features) of each level, None where one has none."""
    coef = model.coef_
    if isinstance(coef, Mapping):
        known = [name for name in coef if name in INPUT_BLOCKS or name.startswith("edge_")]
        chosen = next((name for name in INPUT_BLOCKS if name in known), None) if block is None else block
        if chosen not in known:
            raise ValueError(
                f"block is {block!r}, but the blocks of weights of inputs are {', '.join(map(repr, known))}."
            )
        return list(coef[chosen])
    if getattr(coef, "ndim", None) != 2 or coef.shape[0] != len(model.classes_):
        raise TypeError(
            f"coef_ of {type(model).__name__} holds no weight per label and feature, so there is no table to show."
        )
    if block is not None:
        raise ValueError(f"block is {block!r}, but {type(model).__name__} has one table of weights.")
    return [coef]


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
