"""What the checks of estimators share: their register, their data, and comparisons that explain."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags

__all__ = [
    "VERBS",
    "Check",
    "all_checks",
    "assert_close",
    "assert_raises",
    "assert_same",
    "assert_unchanged",
    "check",
    "fitted",
    "fresh",
    "has",
    "has_parameter",
    "has_target",
    "hide",
    "make_check_data",
    "make_level_data",
    "object_array",
    "only_classes",
    "responses",
    "snapshot",
    "tight",
]

VERBS = {
    "probabilities": "predict_proba",
    "pairwise": "predict_pairwise",
    "likelihood": "log_likelihood",
    "sampling": "sample",
    "n_best": "predict_n_best",
    "max_marginals": "decision_function",
    "segments": "predict_segments",
    "boundaries": "predict_boundary_proba",
    "level_marginals": "predict_marginals",
    "online": "predict_online",
}
"""Which tag promises which method."""

Condition = Callable[[Any], bool]


@dataclass(frozen=True)
class Check:
    """One check; called with an unfitted estimator, which it leaves alone."""

    name: str
    function: Callable[[Any], None]
    conditions: tuple[Condition, ...]

    def applies(self, estimator: Any) -> bool:
        """Whether the tags of the estimator promise what this check asks for."""
        return all(condition(estimator) for condition in self.conditions)

    def __call__(self, estimator: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.function(estimator)


all_checks: list[Check] = []
"""Every check of this library; modules of checks register theirs when they are imported."""


def check(*conditions: Condition) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a check that applies to estimators which meet all ``conditions``."""

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        all_checks.append(Check(function.__name__, function, conditions))
        return function

    return register


def has(tag: str) -> Condition:
    """Condition: the estimator's tags promise a verb, such as "probabilities"."""
    return lambda estimator: bool(getattr(get_tags(estimator), tag))


def has_target(tag: str) -> Condition:
    """Condition: the estimator's target tags accept a kind of label, such as "missing_labels"."""
    return lambda estimator: bool(getattr(get_tags(estimator).target_tags, tag))


def has_parameter(name: str) -> Condition:
    """Condition: the estimator has a parameter of this name."""
    return lambda estimator: name in estimator.get_params(deep=False)


def make_check_data(
    estimator: Any,
    *,
    n_sequences: int = 10,
    lengths: Sequence[int] | None = None,
    labels: Sequence[Any] = ("a", "b", "c"),
    seed: int = 0,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Small noisy sequences ``(X, y)`` of three features that suit the estimator's input tags.

    Labels persist and follow the first two features; the third is noise with many zeros. Under the tag
    ``input_tags.categorical`` all features are 0 or 1, under ``positive_only`` none is negative. This is the
    one place to adapt where an estimator needs other input.
    """
    random = np.random.RandomState(seed)
    tags = get_tags(estimator).input_tags
    if lengths is None:
        lengths = [1, 9, *random.randint(2, 10, size=max(0, n_sequences - 2))][:n_sequences]
    X, y = [], []
    state = 0
    for length in lengths:
        states = np.empty(length, dtype=int)
        for t in range(length):
            if random.uniform() < 0.5:
                state = random.randint(len(labels))
            states[t] = state
        values = random.normal(size=(length, 3))
        values[:, 0] += states
        values[:, 1] -= 1.5 * (states == 1)
        values[random.uniform(size=length) < 0.5, 2] = 0.0
        if tags.categorical:
            values = (values > 0.5).astype(float)
        elif tags.positive_only:
            values = np.abs(values)
        X.append(values)
        y.append(np.asarray(labels)[states])
    # every label occurs, whatever was drawn
    last = y[int(np.argmax(lengths))]
    last[: min(len(labels), len(last))] = np.asarray(labels)[: len(last)]
    return X, y


def make_level_data(estimator: Any, **options: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The same with labels of two levels, (n_timesteps, 2): a parent for each label, one of two for "b".

    ``options`` are those of ``make_check_data``.
    """
    X, y = make_check_data(estimator, **options)
    tables = []
    for labels in y:
        # a "b" belongs to what came before it, so that the two levels are not one
        decided = np.maximum.accumulate(np.where(labels == "b", 0, np.arange(len(labels))))
        parent = np.where(labels[decided] == "c", "z", "x")
        tables.append(np.column_stack([parent, labels]))
    return X, tables


def only_classes(model: Any) -> np.ndarray:
    """``classes_`` of a model fitted on labels of one level, which models of several levels hold in a list."""
    if get_tags(model).target_tags.multi_level and isinstance(model.classes_, list):
        assert len(model.classes_) == 1, f"classes_ has {len(model.classes_)} levels after labels of one."
        return model.classes_[0]
    return model.classes_


def fresh(estimator: Any, **params: Any) -> Any:
    """An unfitted copy with a fixed seed and, of the given parameters, those that the estimator has."""
    known = estimator.get_params(deep=False)
    params = {"random_state": 0, **params}
    return clone(estimator).set_params(**{key: value for key, value in params.items() if key in known})


def fitted(estimator: Any, **params: Any) -> tuple[Any, list[np.ndarray], list[np.ndarray]]:
    """A fitted copy and its training data."""
    X, y = make_check_data(estimator)
    model = fresh(estimator, **params)
    model.fit(X, y)
    return model, X, y


def tight(estimator: Any) -> Any:
    """A copy that comes close to its optimum, to compare two ways there."""
    return fresh(estimator, tol=1e-8, max_iter=10_000)


def hide(y: Iterable[Any], every: int = 2) -> list[list[Any]]:
    """Label sequences with every so many labels replaced by None."""
    return [
        [None if (s + t) % every == 0 else label for t, label in enumerate(labels.tolist())]
        for s, labels in enumerate(y)
    ]


def object_array(items: Sequence[Any]) -> np.ndarray:
    """A 1-D object array, also of items of equal length."""
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array


def responses(estimator: Any, X: Any) -> list[np.ndarray]:
    """The finest answer that a fitted estimator gives: probabilities, else scores, else labels."""
    tags = get_tags(estimator)
    for tag in ("probabilities", "max_marginals"):
        if getattr(tags, tag):
            return list(getattr(estimator, VERBS[tag])(X))
    return list(estimator.predict(X))


def assert_same(found: Iterable[Any], expected: Iterable[Any], message: str) -> None:
    """Sequences of arrays agree bit for bit."""
    difference = first_difference(list(found), list(expected), "[answer]")
    assert difference is None, f"{message} (first difference: {difference})"


def assert_close(found: Sequence[Any], expected: Sequence[Any], message: str, tol: float = 1e-8) -> None:
    """Sequences of arrays agree to ``tol`` of their largest number; labels for 19 steps of 20."""
    assert len(found) == len(expected), f"{message} ({len(found)} sequences instead of {len(expected)})"
    shapes = [(np.shape(a), np.shape(b)) for a, b in zip(found, expected, strict=True)]
    for s, (a, b) in enumerate(shapes):
        assert a == b, f"{message} (shape {a} instead of {b} in sequence {s})"
    one, other = (np.concatenate([np.ravel(part) for part in parts]) for parts in (found, expected))
    if one.dtype.kind != "f":
        share = np.mean(one == other)
        assert share >= 0.95, f"{message} (only {share:.0%} of the labels agree)"
        return
    size = np.abs(other[np.isfinite(other)]).max(initial=1.0)
    with np.errstate(invalid="ignore"):
        gap = np.where(one == other, 0.0, np.abs(one - other)).max(initial=0.0)
    assert gap <= tol * size, f"{message} (largest difference {gap:.3g}, allowed {tol * size:.3g})"


@contextmanager
def assert_raises(kinds: Any, match: str, case: str) -> Iterator[None]:
    """The block raises an error of one of ``kinds`` whose message matches ``match``."""
    try:
        yield
    except kinds as error:
        assert re.search(match, str(error)), (
            f"The error for {case} does not say what is wrong: {str(error)!r} does not match {match!r}."
        )
        return
    except Exception as error:
        raise AssertionError(
            f"{case} raises {type(error).__name__} ({error}), which is not the right kind of error."
        ) from error
    raise AssertionError(f"{case} raises no error.")


def snapshot(estimator: Any) -> dict[str, Any]:
    """A deep copy of everything the estimator holds."""
    return deepcopy(vars(estimator))


def assert_unchanged(estimator: Any, before: dict[str, Any], case: str) -> None:
    """The estimator holds what the snapshot says."""
    difference = first_difference(vars(estimator), before, type(estimator).__name__)
    assert difference is None, f"{case} changes the estimator: {difference}"


def first_difference(a: Any, b: Any, path: str) -> str | None:
    """Where two values first differ, bit for bit, or None."""
    if type(a) is not type(b):
        return f"{path} is a {type(a).__name__} and was a {type(b).__name__}"
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return f"{path} gained or lost {sorted(map(str, a.keys() ^ b.keys()))}"
        pairs = [(f"{path}.{key}", a[key], b[key]) for key in a]
    elif isinstance(a, list | tuple) or (isinstance(a, np.ndarray) and a.dtype.hasobject and a.ndim == 1):
        if len(a) != len(b):
            return f"{path} has length {len(a)} and had {len(b)}"
        pairs = [(f"{path}[{k}]", x, y) for k, (x, y) in enumerate(zip(a, b, strict=True))]
    elif isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape
        same = same and (a.tolist() == b.tolist() if a.dtype.hasobject else a.tobytes() == b.tobytes())
        return None if same else f"{path} differs"
    elif sparse.issparse(a):
        parts = ("shape", "data", "indices", "indptr")
        a, b = a.tocsr(), b.tocsr()
        pairs = [(f"{path}.{part}", getattr(a, part), getattr(b, part)) for part in parts]
    elif isinstance(a, BaseEstimator):
        pairs = [(path, vars(a), vars(b))]
    else:
        return None if a is b or repr(a) == repr(b) else f"{path} is {a!r:.60} and was {b!r:.60}"
    return next((found for found in (first_difference(x, y, p) for p, x, y in pairs) if found), None)
