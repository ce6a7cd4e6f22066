"""Scorers for the ``scoring=`` of scikit-learn's searches and cross-validation.

scikit-learn cannot be taught new strings, so these are objects to import.

`log_likelihood` is -inf where the labels hold one that the estimator did not see in `fit`. In a search, one
fold whose training part lacks a label of its test part makes every candidate -inf: use it with folds whose
training parts hold all labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRequest

from sklearn_seqlab.metrics._alignment import check_weights, undefined
from sklearn_seqlab.metrics._segments import segment_f1_score
from sklearn_seqlab.metrics._steps import (
    hamming_loss,
    macro_accuracy_score,
    micro_accuracy_score,
    step_f1_score,
)
from sklearn_seqlab.sequences import MISSING, encode_labels, pick_level, read_forms, shown_offsets

__all__ = [
    "SequenceScorer",
    "get_sequence_scorer",
    "get_sequence_scorer_names",
    "log_likelihood",
    "macro_accuracy",
    "make_sequence_scorer",
    "micro_accuracy",
    "neg_hamming_loss",
    "neg_sequence_hamming_loss",
    "segment_f1",
    "step_f1_macro",
]


class SequenceScorer:
    """A score of a fitted estimator on data: ``scorer(estimator, X, y)``; larger is better.

    Made by :func:`make_sequence_scorer`. Goes wherever scikit-learn takes a callable ``scoring``, also as a
    value of a dict of several, in worker processes and with weights by metadata routing.

    Parameters
    ----------
    func : callable
        ``func(y_true, response, **kwargs)``, ``y_true`` being as the scorer gets it, or
        ``func(estimator, X, y, **kwargs)`` if ``response_method`` is None. It takes ``sample_weight`` if weights
        are to be used.
    sign : {1, -1}
        -1 turns a loss into a score.
    response_method : str, list of str or None
        The method of the estimator whose answer is scored; of several the first that it has.
    kwargs : dict
        Passed to ``func``.
    name : str or None
        What the scorer is called in its repr.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        sign: int = 1,
        response_method: str | Sequence[str] | None = "predict",
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
    ):
        self.func = func
        self.sign = sign
        self.response_method = response_method
        self.kwargs = dict(kwargs or {})
        self.name = name
        self._weight_request: str | bool | None = False

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None, **kwargs: Any) -> float:
        """Score a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted; pipelines and searches are welcome.
        X : list of array-like of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,) or (n_timesteps, n_levels)
            True labels, some of which may be missing, or any other form that the ``fit`` of the estimator takes:
            segments, labels with ends, None for a sequence without labels. ``func`` gets them as they are.
        sample_weight : array-like of shape (n_sequences,), default=None
        **kwargs : dict
            Passed to the score for this call, in place of those given at the making.

        Returns
        -------
        score : float
            The larger the better.

        Raises
        ------
        AttributeError
            If the estimator lacks the method that the scorer asks.
        """
        kwargs = {**self.kwargs, **kwargs}
        if sample_weight is not None:
            kwargs["sample_weight"] = sample_weight
        if self.response_method is None:
            return self.sign * self.func(estimator, X, y, **kwargs)
        return self.sign * self.func(y, self._respond(estimator, X), **kwargs)

    def _respond(self, estimator: Any, X: Any) -> Any:
        asked = self.response_method or ()
        methods = [asked] if isinstance(asked, str) else asked
        for method in methods:
            if hasattr(estimator, method):
                return getattr(estimator, method)(X)
        wish = " or ".join(methods)
        raise AttributeError(f"{self!r} needs {wish}, which {type(estimator).__name__} does not have.")

    def __repr__(self) -> str:
        if self.name is not None:
            return f"SequenceScorer({self.name})"
        parts = [getattr(self.func, "__name__", repr(self.func))]
        if self.sign < 0:
            parts.append("greater_is_better=False")
        if self.response_method != "predict":
            parts.append(f"response_method={self.response_method!r}")
        parts += [f"{key}={value!r}" for key, value in self.kwargs.items()]
        return f"make_sequence_scorer({', '.join(parts)})"

    def set_score_request(self, *, sample_weight: str | bool | None = True) -> SequenceScorer:
        """A copy of this scorer that asks metadata routing for weights.

        Parameters
        ----------
        sample_weight : bool, str or None, default=True
            True asks for ``sample_weight``, a str for the metadata of that name, False for none; with None it
            is an error to pass any.

        Returns
        -------
        scorer : SequenceScorer
            A copy, unlike in scikit-learn: the scorers of this module are shared by all who import them.
        """
        scorer = deepcopy(self)
        scorer._weight_request = sample_weight
        return scorer

    def get_metadata_routing(self) -> MetadataRequest:
        """What this scorer asks of metadata routing.

        Returns
        -------
        routing : MetadataRequest
        """
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._weight_request)
        return request


def make_sequence_scorer(
    func: Callable[..., Any],
    *,
    greater_is_better: bool = True,
    response_method: str | Sequence[str] = "predict",
    **kwargs: Any,
) -> SequenceScorer:
    """Make a scorer from a score or a loss over lists of label sequences.

    Parameters
    ----------
    func : callable
        ``func(y_true, response, **kwargs)``, such as :func:`segment_f1_score`. To run in worker processes it
        must be importable (no lambda).
    greater_is_better : bool, default=True
        False for a loss: the scorer then returns its negative.
    response_method : str or list of str, default="predict"
        The method of the estimator whose answer is scored; of several the first that it has.
    **kwargs : dict
        Passed to ``func``, such as ``level=1`` or ``scheme="IOB2"``.

    Returns
    -------
    scorer : SequenceScorer

    Raises
    ------
    TypeError
        If ``func`` is not callable.

    Examples
    --------
    >>> make_sequence_scorer(micro_accuracy_score, level=1)
    make_sequence_scorer(micro_accuracy_score, level=1)
    """
    if not callable(func):
        raise TypeError(f"func is {func!r:.60}; expected a callable (y_true, y_pred).")
    return SequenceScorer(
        func, sign=1 if greater_is_better else -1, response_method=response_method, kwargs=kwargs
    )


def _mean_log_likelihood(
    estimator: Any, X: Any, y: Any, *, level: int | None = None, sample_weight: Any = None
) -> float:
    """Log-probability of the labels given the inputs, in nats per labelled step.

    A step is labelled if its label is known or if a set of candidates is: both bear on the likelihood. With
    several levels every (time step, level) counts, and a segment counts as many steps as it has.

    A label that the estimator did not see in `fit` has probability 0 and makes the whole score -inf. In a
    search, one fold whose training part lacks a label of its test part does that to every candidate, and
    they can no longer be told apart: use folds whose training parts hold all labels.
    """
    model = _model_of(estimator)
    flat_segments = _takes_flat_segments(model)
    classes = getattr(model, "classes_", None)
    y = y if hasattr(y, "__len__") else list(y)
    offsets = shown_offsets(y, "y", flat_segments=flat_segments)
    forms = read_forms(y, offsets, len(classes) if isinstance(classes, list) else None, flat_segments, "y")
    columns = [encode_labels(column, offsets, name="y") for column in pick_level(forms.columns, level, "y")]
    n_sequences = columns[0].n_sequences
    n_labelled = sum(np.add.reduceat(c.codes != MISSING, c.offsets[:-1], dtype=np.int64) for c in columns)
    weight = check_weights(sample_weight, n_sequences)
    weight = np.ones(n_sequences) if weight is None else weight
    n_steps = float(weight @ n_labelled)
    if n_steps == 0:
        return undefined("Mean log-likelihood")
    values = np.asarray(_ask_log_likelihood(estimator, X, y), dtype=np.float64)
    # 0 * -inf is nan: a sequence of weight 0 has no say
    taken = weight > 0
    return float(weight[taken] @ values[taken]) / n_steps


def _model_of(estimator: Any) -> Any:
    """The estimator proper that a search or a pipeline holds."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline):
            estimator = estimator[-1]
        else:
            return estimator


def _takes_flat_segments(model: Any) -> bool:
    """Whether ``(start, stop, label)`` is a segment to this estimator, and not a row of three levels."""
    if not hasattr(model, "__sklearn_tags__"):
        return False
    return bool(getattr(get_tags(model).target_tags, "flat_segments", False))


def _ask_log_likelihood(estimator: Any, X: Any, y: Any) -> Any:
    """``estimator.log_likelihood(X, y)``, also of what a search or a pipeline holds."""
    if hasattr(estimator, "log_likelihood"):
        return estimator.log_likelihood(X, y)
    if hasattr(estimator, "best_estimator_"):
        return _ask_log_likelihood(estimator.best_estimator_, X, y)
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return _ask_log_likelihood(estimator[-1], X, y)
    raise AttributeError(
        f"{log_likelihood!r} needs log_likelihood, which {type(estimator).__name__} does not have."
    )


micro_accuracy = SequenceScorer(micro_accuracy_score, name="micro_accuracy")
macro_accuracy = SequenceScorer(macro_accuracy_score, name="macro_accuracy")
neg_hamming_loss = SequenceScorer(hamming_loss, sign=-1, name="neg_hamming_loss")
neg_sequence_hamming_loss = SequenceScorer(
    hamming_loss, sign=-1, kwargs={"average": "sequence"}, name="neg_sequence_hamming_loss"
)
step_f1_macro = SequenceScorer(step_f1_score, kwargs={"average": "macro"}, name="step_f1_macro")
segment_f1 = SequenceScorer(segment_f1_score, name="segment_f1")
log_likelihood = SequenceScorer(_mean_log_likelihood, response_method=None, name="log_likelihood")

_SCORERS = {
    str(scorer.name): scorer
    for scorer in (
        micro_accuracy,
        macro_accuracy,
        neg_hamming_loss,
        neg_sequence_hamming_loss,
        step_f1_macro,
        segment_f1,
        log_likelihood,
    )
}


def get_sequence_scorer_names() -> list[str]:
    """Names that :func:`get_sequence_scorer` knows.

    Returns
    -------
    names : list of str
        Sorted.
    """
    return sorted(_SCORERS)


def get_sequence_scorer(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """The scorer of a name.

    Parameters
    ----------
    name : str or callable
        One of :func:`get_sequence_scorer_names`. A callable is returned as it is.

    Returns
    -------
    scorer : SequenceScorer

    Raises
    ------
    ValueError
        If there is no scorer of that name.

    Examples
    --------
    >>> get_sequence_scorer("segment_f1")
    SequenceScorer(segment_f1)
    """
    if callable(name):
        return name
    if not isinstance(name, str) or name not in _SCORERS:
        known = ", ".join(map(repr, get_sequence_scorer_names()))
        raise ValueError(f"name is {name!r:.60}; expected one of {known}.")
    return _SCORERS[name]
