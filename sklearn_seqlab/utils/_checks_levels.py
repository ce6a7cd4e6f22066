"""Checks of labels of several levels, and of what models of segments say beside labels."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils import get_tags

from sklearn_seqlab import _parallel
from sklearn_seqlab.metrics import log_likelihood, make_sequence_scorer, micro_accuracy, micro_accuracy_score
from sklearn_seqlab.utils._check_tools import (
    assert_close,
    assert_raises,
    assert_same,
    assert_unchanged,
    check,
    first_difference,
    fitted,
    fresh,
    has,
    has_parameter,
    has_target,
    make_check_data,
    make_level_data,
    snapshot,
    tight,
)
from sklearn_seqlab.utils._checks_fit import _takes_weights
from sklearn_seqlab.utils._checks_search import regularisation_grid

_N_STEPS = 2
_LEVELS = has_target("multi_level")


def _fitted_levels(estimator: Any, **params: Any) -> tuple[Any, list[np.ndarray], list[np.ndarray]]:
    """A copy fitted on labels of two levels, and its training data."""
    X, y = make_level_data(estimator)
    return fresh(estimator, **params).fit(X, y), X, y


def _fitted_either(estimator: Any, **params: Any) -> Iterator[tuple[Any, list[np.ndarray]]]:
    """Copies fitted on labels of one level and, if the tags allow it, of two; with their inputs."""
    yield fitted(estimator, **params)[:2]
    if _LEVELS(estimator):
        yield _fitted_levels(estimator, **params)[:2]


def _columns(model: Any, labels: np.ndarray) -> list[np.ndarray]:
    """The labels of a sequence by level."""
    return [labels] if labels.ndim == 1 else list(labels.T)


def _hide(y: list[np.ndarray], every: int = 2) -> list[list[list[Any]]]:
    """Tables with every so many labels replaced by None, at each level elsewhere."""
    return [
        [
            [None if (s + t + d) % every == 0 else label for d, label in enumerate(row)]
            for t, row in enumerate(table.tolist())
        ]
        for s, table in enumerate(y)
    ]


@check(_LEVELS)
def check_labels_of_several_levels(estimator: Any) -> None:
    model, X, y = _fitted_levels(estimator)
    for s, labels in enumerate(model.predict(X)):
        assert labels.shape == y[s].shape, f"predict has shape {labels.shape} after y of two levels."
        assert labels.dtype.kind == "U", f"Two levels of str come back as {labels.dtype}."
    classes = [level.tolist() for level in model.classes_]
    assert classes == [["x", "z"], ["a", "b", "c"]], f"classes_ is {classes}, not the sorted labels by level."
    one = [table[:, 1] for table in y]
    flat = fresh(estimator).fit(X, one).predict(X)
    assert all(labels.ndim == 1 for labels in flat), "predict is not 1-D after y of one level."
    single = fresh(estimator).fit(X, [labels[:, None] for labels in one]).predict(X)
    message = "A table of one column is not labelled like its column."
    assert all(labels.shape == (len(v), 1) for labels, v in zip(single, X, strict=True)), message
    assert_same([labels[:, 0] for labels in single], flat, message)


@check(_LEVELS)
def check_levels_of_other_kinds(estimator: Any) -> None:
    X, y = make_level_data(estimator)
    number = {"a": -1, "b": 2, "c": 5}
    mixed = []
    for table in y:
        own = table.astype(object)
        own[:, 1] = [number[label] for label in table[:, 1]]
        mixed.append(own)
    model = fresh(estimator).fit(X, mixed)
    assert [level.dtype.kind for level in model.classes_] == ["U", "i"], (
        "Levels of str and int lose their kinds."
    )
    found = {type(label) for table in model.predict(X) for label in table[:, 1].tolist()}
    assert found == {int}, f"Labels of int beside a level of str come back as {found}."


@check(_LEVELS)
def check_levels_state(estimator: Any) -> None:
    model, X, y = _fitted_levels(estimator)
    before = snapshot(model)
    again = pickle.loads(pickle.dumps(model))
    assert_unchanged(again, before, "a pickle round trip after labels of two levels")
    assert_same(again.predict(X), model.predict(X), "A pickled estimator of two levels predicts differently.")
    assert_unchanged(model, before, "predict of two levels")
    if "warm_start" not in model.get_params(deep=False) or not model.warm_start:
        assert_unchanged(model.fit(X, y), before, "fit for a second time on labels of two levels")
    names = [name for name in vars(clone(model)) if name.endswith("_")]
    assert not names, f"clone of an estimator fitted on two levels keeps {names}."


@check(_LEVELS)
def check_number_of_levels_may_change(estimator: Any) -> None:
    X, y = make_level_data(estimator)
    flat = [table[:, 1] for table in y]
    model = fresh(estimator, warm_start=False).fit(X, y)
    expected = vars(fresh(estimator, warm_start=False).fit(X, flat))
    assert_unchanged(model.fit(X, flat), expected, "an earlier fit on two levels")


@check(_LEVELS, has_parameter("n_jobs"))
def check_levels_n_jobs(estimator: Any) -> None:
    X, y = make_level_data(estimator, n_sequences=12)
    with mock.patch.object(_parallel, "_CHUNK_SIZE", 30):
        one, two = (fresh(estimator, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
        assert_unchanged(two, snapshot(one) | {"n_jobs": 2}, "n_jobs=2 in place of 1 at fit of two levels")
        assert_same(two.predict(X), one.predict(X), "predict of two levels depends on n_jobs.")


@check(_LEVELS)
def check_bad_levels_are_refused(estimator: Any) -> None:
    model, X, y = _fitted_levels(estimator)
    before = snapshot(model)
    short, narrow, unlike = list(y), list(y), [table.tolist() for table in y]
    short[3], narrow[3] = short[3][:-1], narrow[3][:, :1]
    unlike[3][1][1] = 7
    n = len(X[3])
    cases = {
        "a table too short": (short, rf"y\[3\] has {n - 1} labels, but X\[3\] has {n} time steps"),
        "a level too few": (narrow, r"y\[3\].*level"),
        "labels of mixed kinds at one level": (unlike, "(str.*int|int.*str)"),
        "labels of three dimensions": ([table[:, :, None] for table in y], r"y\[0\]"),
        "a level without any label": ([[[None, label] for label in t[:, 1].tolist()] for t in y], "y"),
        "tables of no columns": ([table[:, :0] for table in y], r"y\[0\]"),
    }
    for case, (bad, match) in cases.items():
        with assert_raises((ValueError, TypeError), match, f"fit with {case}"):
            model.fit(X, bad)
        assert_unchanged(model, before, f"fit with {case}")


@check(_LEVELS, has_target("missing_labels"))
def check_known_labels_of_levels_come_back(estimator: Any) -> None:
    for decoding in ("map", "marginal"):
        model, X, y = _fitted_levels(estimator, decoding=decoding)
        plain = model.predict(X)
        for name, observed in {"some labels": _hide(y), "few labels": _hide(_hide_arrays(y), 3)}.items():
            for s, labels in enumerate(model.predict(X, y_observed=observed)):
                for t, d in product(range(len(labels)), range(2)):
                    known = observed[s][t][d]
                    assert known is None or labels[t, d] == known, (
                        f"y_observed ({name}) has {known!r} in sequence {s}, step {t}, level {d}, but {decoding} "
                        f"decoding gives {labels[t, d]!r}."
                    )
        for d in range(2):
            observed = [
                [[row[0], None] if d == 0 else [None, row[1]] for row in table.tolist()] for table in y
            ]
            found = model.predict(X, y_observed=observed)
            message = f"A wholly known level {d} does not come back from {decoding} decoding."
            assert_same([labels[:, d] for labels in found], [table[:, d] for table in y], message)
        assert_same(model.predict(X, y_observed=y), y, "Wholly known labels of two levels do not come back.")
        assert_same(
            model.predict(X, y_observed=[None] * len(X)), plain, "Knowing nothing changes the prediction."
        )


def _hide_arrays(y: list[np.ndarray]) -> list[np.ndarray]:
    return [np.array(table, dtype=object).reshape(-1, 2) for table in _hide(y)]


@check(_LEVELS, has_target("missing_labels"))
def check_missing_levels_at_fit(estimator: Any) -> None:
    X, y = make_level_data(estimator)
    lower = [[[None, label] for label in table[:, 1].tolist()] for table in y]
    for name, hidden in {"single labels": _hide(y, 3), "a level of whole sequences": lower}.items():
        model = fresh(estimator).fit([*X, *X], [*y, *hidden])
        classes = [level.tolist() for level in model.classes_]
        assert classes == [["x", "z"], ["a", "b", "c"]], f"classes_ is {classes} where {name} are missing."
        expected = micro_accuracy_score(y, model.predict(X))
        assert expected > 0.5, (
            f"Training accuracy is {expected:.2f} where {name} are missing in half of the data."
        )


@check(_LEVELS, has("likelihood"))
def check_likelihood_of_levels(estimator: Any) -> None:
    model, _, _ = _fitted_levels(estimator)
    (x,), _ = make_check_data(estimator, lengths=[_N_STEPS], seed=5)
    rows = list(product(*(level.tolist() for level in model.classes_)))
    tables = [[list(row) for row in table] for table in product(rows, repeat=_N_STEPS)]
    p = np.exp(model.log_likelihood([x] * len(tables), tables))
    assert abs(p.sum() - 1) < 1e-8, f"The probabilities of all labellings of two levels sum to {p.sum()}."
    values = np.array(tables, dtype=object)
    cases: dict[str, Any] = {
        "one known label below": [[None, "a"], [None, None]],
        "one known label above": [[None, None], ["x", None]],
        "labels at different levels": [["x", None], [None, "c"]],
    }
    for case, table in cases.items():
        known = np.array(table, dtype=object)
        fits = ((values == known) | (known == None)).all(axis=(1, 2))  # noqa: E711
        found = float(np.exp(model.log_likelihood([x], [table])[0]))
        assert abs(found - p[fits].sum()) < 1e-8, (
            f"The likelihood with {case} is {found}; its completions sum to {p[fits].sum()}."
        )
    if get_tags(estimator).level_marginals:
        for d, marginal in enumerate(model.predict_marginals([x])[0]):
            expected = [[p[values[:, t, d] == c].sum() for c in model.classes_[d]] for t in range(_N_STEPS)]
            message = f"predict_marginals of level {d} is not the sum of the probabilities of all labellings"
            assert_close([marginal], [np.array(expected)], message)


@check(_LEVELS, _takes_weights)
def check_weights_of_levels_count_like_repetition(estimator: Any) -> None:
    X, y = make_level_data(estimator)
    weight = np.ones(len(X))
    weight[:3] = 2
    model = tight(estimator)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X + X[:3], y + y[:3])
    message = "With two levels, a weight of 2 is not the same as two copies"
    verb = "predict_marginals" if get_tags(estimator).level_marginals else "predict"
    one, other = (getattr(fit, verb)(X) for fit in (weighted, repeated))
    for d in range(2):
        if verb == "predict":
            assert_close([t[:, d] for t in one], [t[:, d] for t in other], message)
        else:
            assert_close([levels[d] for levels in one], [levels[d] for levels in other], message, tol=1e-2)


@check(_LEVELS)
def check_scores_of_levels(estimator: Any) -> None:
    X, y = make_level_data(estimator, n_sequences=12)
    model = fresh(estimator).fit(X, y)
    predicted = model.predict(X)
    assert model.score(X, y) == micro_accuracy_score(y, predicted), (
        "score of two levels is not the share of right labels."
    )
    scoring: dict[str, Any] = {"both": micro_accuracy}
    for level in range(2):
        scoring[f"level {level}"] = make_sequence_scorer(micro_accuracy_score, level=level)
        found = scoring[f"level {level}"](model, X, y)
        expected = np.concatenate(
            [a[:, level] == b[:, level] for a, b in zip(predicted, y, strict=True)]
        ).mean()
        assert abs(found - expected) < 1e-12, f"A scorer of level {level} gives {found}, not {expected}."
    search = GridSearchCV(
        fresh(estimator),
        regularisation_grid(estimator),
        scoring=scoring,
        refit="both",
        cv=KFold(2),
        error_score="raise",
    )
    search.fit(X, y)
    both, *levels = (search.cv_results_[f"mean_test_{name}"] for name in scoring)
    assert np.allclose(both, np.mean(levels, axis=0)), "Scores of the levels do not average to that of both."
    assert search.predict(X)[0].shape == y[0].shape, (
        "A search over models of two levels predicts another shape."
    )


@check(has("level_marginals"))
def check_level_marginals(estimator: Any) -> None:
    for model, X in _fitted_either(estimator, decoding="marginal"):
        classes = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
        predicted = model.predict(X)
        found = model.predict_marginals(X)
        assert len(found) == len(X), f"predict_marginals answers {len(found)} of {len(X)} sequences."
        for s, levels in enumerate(found):
            shapes = [level.shape for level in levels]
            expected = [(len(X[s]), len(own)) for own in classes]
            assert shapes == expected, f"predict_marginals has shapes {shapes}, not {expected}."
            for own, level, labels in zip(classes, levels, _columns(model, predicted[s]), strict=True):
                assert level.min() >= 0 and np.allclose(level.sum(axis=1), 1), "Marginals do not sum to one."
                if "decoding" in model.get_params(deep=False):
                    message = "decoding='marginal' is not the most probable label of each step and level."
                    assert_same([own[level.argmax(axis=1)]], [labels], message)
        if len(classes) == 1 and get_tags(estimator).probabilities:
            message = "predict_marginals of the only level is not predict_proba."
            assert_same([levels[0] for levels in found], model.predict_proba(X), message)


@check(has("segments"))
def check_segments_agree_with_labels(estimator: Any) -> None:
    for model, X in _fitted_either(estimator, decoding="map"):
        predicted, found = model.predict(X), model.predict_segments(X)
        assert len(found) == len(X), f"predict_segments answers {len(found)} of {len(X)} sequences."
        for s, segments in enumerate(found):
            for d, labels in enumerate(_columns(model, predicted[s])):
                own = [part[-3:] for part in segments if len(part) == 3 or part[0] == d]
                covered = [t for start, stop, _ in own for t in range(start, stop)]
                assert covered == list(range(len(X[s]))), (
                    f"Segments of level {d} do not tile the sequence: {own}."
                )
                spelt = [label for start, stop, label in own for _ in range(start, stop)]
                assert spelt == labels.tolist(), f"Segments of level {d} have other labels than predict."
        numbers = {type(value) for segments in found for part in segments for value in part[:-1]}
        assert numbers == {int}, f"Starts and stops of segments are {numbers}, not int."
        if get_tags(estimator).target_tags.missing_labels:
            again = model.predict_segments(X, y_observed=found)
            difference = first_difference(again, found, "[answer]")
            assert difference is None, f"Segments given as y_observed do not come back: {difference}."


@check(has("segments"))
def check_scorers_take_segments(estimator: Any) -> None:
    for model, X in _fitted_either(estimator):
        y = [None, *model.predict_segments(X)[1:]]
        score, own = micro_accuracy(model, X, y), model.score(X, y)
        assert_close([score], [own], "micro_accuracy of segments is not score of the same segments.")
        if get_tags(model).likelihood:
            n_steps = sum(labels.size for labels in model.predict(X)[1:])
            expected = np.sum(model.log_likelihood(X, y)) / n_steps
            found = log_likelihood(model, X, y)
            message = "The scorer log_likelihood of segments is no mean over their steps."
            assert_close([found], [expected], message)


@check(has("boundaries"))
def check_boundary_probabilities(estimator: Any) -> None:
    for model, X in _fitted_either(estimator):
        for s, (proba, labels) in enumerate(
            zip(model.predict_boundary_proba(X), model.predict(X), strict=True)
        ):
            assert proba.shape == labels.shape, (
                f"predict_boundary_proba has shape {proba.shape}, not {labels.shape}."
            )
            assert proba.min() >= 0 and proba.max() <= 1, "The probability of an end is outside [0, 1]."
            assert (proba[-1] == 1).all(), f"No segment surely ends with the last step of sequence {s}."
            if proba.ndim == 2:
                assert (np.diff(proba, axis=1) >= -1e-9).all(), (
                    "A level ends with lower probability than one above it."
                )


@check(has("boundaries"), has("likelihood"), has_target("missing_labels"))
def check_boundaries_are_marginals(estimator: Any) -> None:
    for model, _ in _fitted_either(estimator):
        (x,), _ = make_check_data(estimator, lengths=[4], seed=5)
        (proba,) = model.predict_boundary_proba([x])
        for place in np.ndindex(proba.shape):
            ends = np.full(proba.shape, np.nan)
            ends[place] = 1
            found = float(np.exp(model.log_likelihood([x], [(None, ends)])[0]))
            assert abs(found - proba[place]) < 1e-8, (
                f"predict_boundary_proba is {proba[place]} at {place}, but an end there has likelihood {found}."
            )
