"""Checks of what the verbs beyond ``predict`` mean, against each other and by enumeration."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from sklearn_seqlab.utils._check_tools import (
    assert_close,
    assert_raises,
    assert_same,
    check,
    fitted,
    fresh,
    has,
    has_parameter,
    make_check_data,
    only_classes,
)

_N_STEPS = 3


def _enumerated(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tiny sequence, the codes of all its labellings, and their probabilities under ``log_likelihood``."""
    X, _ = make_check_data(model, lengths=[_N_STEPS], seed=5)
    codes = np.array(list(product(range(len(only_classes(model))), repeat=_N_STEPS)))
    log_p = model.log_likelihood(X * len(codes), list(only_classes(model)[codes]))
    return X[0], codes, np.exp(log_p)


@check(has("probabilities"))
def check_probabilities_are_probabilities(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    for s, proba in enumerate(model.predict_proba(X)):
        shape = (len(X[s]), len(only_classes(model)))
        assert proba.shape == shape, f"predict_proba has shape {proba.shape}, not {shape}."
        assert proba.min() >= 0 and proba.max() <= 1 + 1e-12, "A probability is outside [0, 1]."
        assert np.allclose(proba.sum(axis=1), 1), "The probabilities of a step do not sum to one."
    # columns in the order of classes_: the true label is more probable than chance
    codes = np.searchsorted(only_classes(model), np.concatenate(y))
    proba = np.concatenate(model.predict_proba(X))
    mean = proba[np.arange(len(codes)), codes].mean()
    assert mean > 1 / len(only_classes(model)), (
        f"The mean probability of true training labels is {mean:.2f}, no better than chance: are the columns "
        "of predict_proba in the order of classes_?"
    )


@check(has("probabilities"), has_parameter("decoding"))
def check_marginal_decoding(estimator: Any) -> None:
    model, X, _ = fitted(estimator, decoding="marginal")
    expected = [only_classes(model)[proba.argmax(axis=1)] for proba in model.predict_proba(X)]
    message = "decoding='marginal' is not the most probable label of each step."
    assert_same(model.predict(X), expected, message)


@check(has("pairwise"))
def check_pairwise_probabilities(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    n_labels = len(only_classes(model))
    proba = model.predict_proba(X)
    for s, pairs in enumerate(model.predict_pairwise(X)):
        shape = (len(X[s]) - 1, n_labels, n_labels)
        assert pairs.shape == shape, f"predict_pairwise has shape {pairs.shape}, not {shape}."
        message = "predict_pairwise does not sum to predict_proba of the {} step"
        assert_close([pairs.sum(axis=2)], [proba[s][:-1]], message.format("first"))
        assert_close([pairs.sum(axis=1)], [proba[s][1:]], message.format("second"))


@check(has("likelihood"))
def check_likelihood_is_normalised(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    log_p = model.log_likelihood(X, y)
    assert isinstance(log_p, np.ndarray) and log_p.shape == (len(X),), (
        "log_likelihood is not one per sequence."
    )
    assert (log_p <= 0).all(), f"log_likelihood has a positive value, {log_p.max()}."
    _, _, p = _enumerated(model)
    assert abs(p.sum() - 1) < 1e-8, f"The probabilities of all labellings sum to {p.sum()}, not to one."


@check(has("likelihood"))
def check_partial_likelihood_sums_completions(estimator: Any) -> None:
    model, _, _ = fitted(estimator)
    x, codes, p = _enumerated(model)
    classes = only_classes(model)
    first, second = classes[0].item(), classes[1].item()
    cases: dict[str, tuple[list[Any], np.ndarray]] = {
        "one known label": ([first, None, None], codes[:, 0] == 0),
        "nothing known": ([None] * _N_STEPS, np.ones(len(codes), dtype=bool)),
        "two ends known": ([second, None, first], (codes[:, 0] == 1) & (codes[:, 2] == 0)),
    }
    if get_tags(estimator).target_tags.candidate_sets:
        cases["a set of candidates"] = ([None, {first, second}, None], codes[:, 1] < 2)
    for case, (labels, fits) in cases.items():
        found = float(np.exp(model.log_likelihood([x], [labels])[0]))
        expected = p[fits].sum()
        assert abs(found - expected) < 1e-8, (
            f"The likelihood with {case} is {found}; its completions sum to {expected}."
        )


@check(has("likelihood"), has("probabilities"))
def check_probabilities_are_marginals(estimator: Any) -> None:
    model, _, _ = fitted(estimator)
    x, codes, p = _enumerated(model)
    expected = np.array(
        [[p[codes[:, t] == k].sum() for k in range(len(only_classes(model)))] for t in range(_N_STEPS)]
    )
    message = "predict_proba is not the sum of the probabilities of all labellings"
    assert_close(list(model.predict_proba([x])), [expected], message)


@check(has("likelihood"), has_parameter("decoding"))
def check_map_decoding_is_most_probable(estimator: Any) -> None:
    model, _, _ = fitted(estimator, decoding="map")
    x, codes, p = _enumerated(model)
    found = np.searchsorted(only_classes(model), model.predict([x])[0])
    value = p[(codes == found).all(axis=1)][0]
    assert value >= p.max() - 1e-9, (
        f"predict gives a labelling of probability {value}; the best has {p.max()}."
    )


@check(has("n_best"))
def check_n_best(estimator: Any) -> None:
    model, X, _ = fitted(estimator, decoding="map")
    found = model.predict_n_best(X, 4)
    assert len(found) == len(X), f"predict_n_best answers {len(found)} of {len(X)} sequences."
    predicted = model.predict(X)
    for s, ranked in enumerate(found):
        assert 1 <= len(ranked) <= 4, f"predict_n_best(X, 4) gives {len(ranked)} labellings."
        scores = [score for _, score in ranked]
        assert scores == sorted(scores, reverse=True), f"predict_n_best is not sorted by score: {scores}."
        assert_same(ranked[0][0], predicted[s], "The first of predict_n_best is not what predict gives.")
        distinct = {tuple(labels.tolist()) for labels, _ in ranked}
        assert len(distinct) == len(ranked), "predict_n_best repeats a labelling."


@check(has("n_best"), has("likelihood"))
def check_n_best_finds_the_most_probable(estimator: Any) -> None:
    model, _, _ = fitted(estimator)
    x, _, p = _enumerated(model)
    order = np.sort(p)[::-1]
    ranked = model.predict_n_best([x], 5)[0]
    found = np.exp(model.log_likelihood([x] * len(ranked), [labels for labels, _ in ranked]))
    assert_close([found], [order[: len(ranked)]], "predict_n_best misses a more probable labelling")
    scores = np.array([score for _, score in ranked])
    gaps = np.log(found) - np.log(found[0])
    assert_close(
        [scores - scores[0]], [gaps], "Scores of predict_n_best are no log-probabilities up to a constant"
    )


@check(has("max_marginals"))
def check_decision_function_agrees_with_predict(estimator: Any) -> None:
    model, X, _ = fitted(estimator, decoding="map")
    expected = model.predict(X)
    for s, scores in enumerate(model.decision_function(X)):
        shape = (len(X[s]), len(only_classes(model)))
        assert scores.shape == shape, f"decision_function has shape {scores.shape}, not {shape}."
        best = scores[np.arange(len(scores)), np.searchsorted(only_classes(model), expected[s])]
        assert np.allclose(best, scores.max(axis=1)), (
            "The path of predict is not the best of decision_function."
        )
        assert np.allclose(best, best[0]), "Max-marginals along the best path are not all its score."


@check(has("sampling"))
def check_sampling(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    draws = model.sample(X, n_samples=3, random_state=7)
    assert len(draws) == 3, f"sample(n_samples=3) gives {len(draws)} draws."
    for draw in draws:
        assert [len(labels) for labels in draw] == [len(values) for values in X], (
            "A draw has other lengths than X."
        )
        assert set(np.concatenate(draw).tolist()) <= set(only_classes(model).tolist()), (
            "A draw holds unknown labels."
        )
    again = model.sample(X, n_samples=3, random_state=7)
    assert_same(again, draws, "sample with the same random_state gives other draws.")
    other = [np.concatenate(draw).tolist() for draw in model.sample(X, n_samples=3, random_state=8)]
    assert other != [np.concatenate(draw).tolist() for draw in draws], (
        "sample does not depend on random_state."
    )


@check(has("sampling"), has("probabilities"))
def check_samples_follow_the_probabilities(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    n_samples = 400
    draws = model.sample(X[:4], n_samples=n_samples, random_state=0)
    for s, proba in enumerate(model.predict_proba(X[:4])):
        labels = np.array([draw[s] for draw in draws])
        share = (labels[:, :, None] == only_classes(model)).mean(axis=0)
        gap = np.abs(share - proba).max()
        # five standard deviations of a share
        assert gap < 5 * 0.5 / np.sqrt(n_samples), f"Shares among draws miss the probabilities by {gap:.2f}."


@check(has("online"))
def check_streams(estimator: Any) -> None:
    with assert_raises(NotFittedError, "", "predict_online before fit"):
        fresh(estimator).predict_online()
    model, X, _ = fitted(estimator)
    n_labels = len(only_classes(model))
    for lag in (0, 2, max(len(values) for values in X)):
        stream = model.predict_online(lag=lag)
        for values, expected in zip(X, model.predict_proba(X), strict=True):
            answers = [stream.step(row) for row in values]
            n_due = min(lag, len(values))
            assert all(answer is None for answer in answers[:n_due]), (
                f"A stream of lag {lag} answers before {lag} further steps have come."
            )
            for proba in answers[n_due:]:
                assert proba.shape == (n_labels,), f"A step gives shape {proba.shape}, not ({n_labels},)."
                assert abs(proba.sum() - 1) < 1e-9, "The probabilities of a step do not sum to one."
            rest = stream.finish()
            assert rest.shape == (n_due, n_labels), f"finish gives {rest.shape}, not ({n_due}, {n_labels})."
            message = "What a stream gives at its end is not predict_proba"
            assert_close([rest], [expected[len(values) - n_due :]], message)
    stream = model.predict_online()
    cases = {"a step of other features": (X[0][0, :2], "shape"), "text": (["one", "two", "three"], "dtype")}
    cases["infinity"] = (np.array([0.0, np.inf, 0.0]), "infinity at time step 0, column 1")
    if not get_tags(estimator).input_tags.allow_nan:
        cases["NaN"] = (np.array([0.0, np.nan, 0.0]), "NaN at time step 0, column 1")
    for case, (row, match) in cases.items():
        with assert_raises(ValueError, match, f"step with {case}"):
            stream.step(row)
    bad_lags: tuple[Any, ...] = (-1, 1.5, True)
    for bad in bad_lags:
        with assert_raises(ValueError, "lag", f"predict_online(lag={bad})"):
            model.predict_online(lag=bad)
