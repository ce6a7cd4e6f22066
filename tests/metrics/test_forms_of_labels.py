"""Scorers read labels in every form that the estimator's own ``fit`` reads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import HSCRFClassifier, LinearChainCRF, SemiCRF
from sklearn_seqlab.metrics import get_sequence_scorer, get_sequence_scorer_names, micro_accuracy
from sklearn_seqlab.preprocessing import make_sequence_pipeline
from sklearn_seqlab.sequences import labels_to_segments

ALL = {name: get_sequence_scorer(name) for name in get_sequence_scorer_names()}
STEPS = {name: scorer for name, scorer in ALL.items() if name != "log_likelihood"}


def noisy(rng, n_sequences=6):
    """Two levels of int and of str labels over noisy inputs."""
    X, y = [], []
    for _ in range(n_sequences):
        lower = np.repeat(rng.integers(0, 3, size=5), rng.integers(1, 4, size=5))
        upper = lower // 2
        X.append(rng.normal(size=(len(lower), 3)) + 1.2 * np.eye(3)[lower])
        y.append(np.column_stack([np.array(["p", "q"])[upper], np.array(["a", "b", "c"])[lower]]))
    return X, y


def as_segments(labels):
    return labels_to_segments(labels)


def as_level_segments(table):
    return [(d, *segment) for d in range(table.shape[1]) for segment in labels_to_segments(table[:, d])]


def test_segments_score_as_their_labels(rng):
    X, tables = noisy(rng)
    y = [table[:, 1] for table in tables]
    semi = SemiCRF(tol=1e-2).fit(X, y)
    weight = rng.random(len(X))
    for name, scorer in STEPS.items():
        expected = scorer(semi, X, y, sample_weight=weight)
        assert scorer(semi, X, list(map(as_segments, y)), sample_weight=weight) == expected, name
    assert micro_accuracy(semi, X, list(map(as_segments, y))) == semi.score(X, list(map(as_segments, y)))


def test_segments_of_levels_score_as_their_labels(rng):
    X, y = noisy(rng)
    model = HSCRFClassifier(bottom_persist=True, tol=1e-2, self_transitions=False).fit(X, y)
    segments = list(map(as_level_segments, y))
    names = [name for name in ALL if name not in ("macro_accuracy", "step_f1_macro", "segment_f1")]
    for name in (*names, "macro_accuracy", "step_f1_macro", "segment_f1"):
        for level in (None, 0, 1):
            assert_allclose(
                ALL[name](model, X, segments, level=level), ALL[name](model, X, y, level=level), err_msg=name
            )
    lower = [[segment for segment in one if segment[0] == 1] for one in segments]
    assert_allclose(micro_accuracy(model, X, lower), micro_accuracy(model, X, y, level=1))


def test_likelihood_is_a_mean_over_steps_not_segments(rng):
    X, tables = noisy(rng)
    y = [table[:, 1] for table in tables]
    semi = SemiCRF(tol=1e-2, self_transitions=False).fit(X, y)
    expected = semi.log_likelihood(X, y).sum() / sum(map(len, y))
    assert_allclose(ALL["log_likelihood"](semi, X, y), expected)
    assert_allclose(ALL["log_likelihood"](semi, X, list(map(as_segments, y))), expected)
    partly = [as_segments(y[0])[1:], None, *y[2:]]
    n_labelled = sum(stop - start for start, stop, _ in partly[0]) + sum(map(len, y[2:]))
    assert_allclose(ALL["log_likelihood"](semi, X, partly), semi.log_likelihood(X, partly).sum() / n_labelled)


def test_rows_of_three_levels_are_no_segments(rng):
    X = [rng.normal(size=(2, 2)), rng.normal(size=(3, 2))]
    y = [[(0, 1, 5), (1, 2, 6)], [(0, 1, 5), (0, 2, 6), (1, 2, 5)]]
    model = HSCRFClassifier(tol=1e-2).fit(X, y)
    assert_allclose(ALL["log_likelihood"](model, X, y), model.log_likelihood(X, y).sum() / 15)


@pytest.mark.parametrize("estimator", [LinearChainCRF(), SemiCRF(), HSCRFClassifier()])
@pytest.mark.parametrize("name", ALL)
def test_a_sequence_without_labels_is_left_out(estimator, name, rng):
    X, tables = noisy(rng)
    y = [table[:, 1] for table in tables]
    model = estimator.set_params(tol=1e-2).fit(X, y)
    partly = [None, *y[1:]]
    assert_allclose(ALL[name](model, X, partly), ALL[name](model, X[1:], y[1:]), rtol=1e-10)
    assert_allclose(model.score(X, partly), model.score(X[1:], y[1:]))


def test_all_of_scikit_learn_takes_segments(rng):
    X, tables = noisy(rng, 9)
    labels = [table[:, 1] for table in tables]
    y = [None, *map(as_segments, labels[1:])]
    pipe = make_sequence_pipeline(StandardScaler(), SemiCRF(tol=1e-1))
    with_segments = cross_validate(pipe, X, y, scoring=ALL, cv=3, error_score="raise")
    with_labels = cross_validate(pipe, X, [None, *labels[1:]], scoring=ALL, cv=3, error_score="raise")
    for name in STEPS:
        assert np.isfinite(with_segments[f"test_{name}"]).all()
    # in segments two neighbours may share a label, so the two fits need not agree; the units must
    assert_allclose(with_segments["test_log_likelihood"], with_labels["test_log_likelihood"], atol=0.5)
    for scoring in (micro_accuracy, ALL["log_likelihood"]):
        search = GridSearchCV(pipe, {"semicrf__C": [0.1, 1.0]}, scoring=scoring, cv=3, error_score="raise")
        search.fit(X, y)
        assert_allclose(scoring(search, X, y), scoring(search.best_estimator_, X, y))
