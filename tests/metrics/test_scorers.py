"""Scorers in scikit-learn's searches, and what they say of themselves."""

import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from step_labeller import StepLabeller, make_steps

from sklearn_seqlab import metrics
from sklearn_seqlab.metrics import (
    SequenceScorer,
    get_sequence_scorer,
    get_sequence_scorer_names,
    make_sequence_scorer,
)

NAMES = [
    "log_likelihood",
    "macro_accuracy",
    "micro_accuracy",
    "neg_hamming_loss",
    "neg_sequence_hamming_loss",
    "segment_f1",
    "step_f1_macro",
]


def double(X):
    return [2 * values for values in X]


@pytest.fixture
def data():
    return make_steps(missing=0.2)


@pytest.fixture
def fitted(data):
    return StepLabeller().fit(*data)


def test_names():
    assert get_sequence_scorer_names() == NAMES
    for name in NAMES:
        scorer = get_sequence_scorer(name)
        assert scorer is getattr(metrics, name)
        assert repr(scorer) == f"SequenceScorer({name})"
        assert get_sequence_scorer(scorer) is scorer
    with pytest.raises(ValueError, match=r"name is 'f1'; expected one of 'log_likelihood', "):
        get_sequence_scorer("f1")


@pytest.mark.parametrize("name", NAMES)
def test_value_pickle_and_weights(name, data, fitted):
    X, y = data
    scorer = get_sequence_scorer(name)
    value = scorer(fitted, X, y)
    assert isinstance(value, float)
    assert pickle.loads(pickle.dumps(scorer))(fitted, X, y) == value
    doubled = scorer(fitted, [*X, X[0]], [*y, y[0]])
    weight = np.ones(len(X))
    weight[0] = 2
    assert_allclose(scorer(fitted, X, y, sample_weight=weight), doubled)


def test_values_are_those_of_the_functions(data, fitted):
    X, y = data
    y_pred = fitted.predict(X)
    assert metrics.micro_accuracy(fitted, X, y) == metrics.micro_accuracy_score(y, y_pred)
    assert metrics.macro_accuracy(fitted, X, y) == metrics.macro_accuracy_score(y, y_pred)
    assert metrics.neg_hamming_loss(fitted, X, y) == -metrics.hamming_loss(y, y_pred)
    expected = -metrics.hamming_loss(y, y_pred, average="sequence")
    assert metrics.neg_sequence_hamming_loss(fitted, X, y) == expected
    assert metrics.step_f1_macro(fitted, X, y) == metrics.step_f1_score(y, y_pred, average="macro")
    assert metrics.segment_f1(fitted, X, y) == metrics.segment_f1_score(y, y_pred)


def test_log_likelihood_is_the_mean_over_labelled_steps(data, fitted):
    X, y = data
    by_step = []
    for p, labels in zip(fitted.predict_proba(X), y, strict=True):
        for row, label in zip(p, labels, strict=True):
            if label is not None:
                by_step.append(np.log(row[list(fitted.classes_).index(label)]))
    assert_allclose(metrics.log_likelihood(fitted, X, y), np.mean(by_step))


def test_log_likelihood_of_unseen_labels_weights_and_nothing(data, fitted):
    X, y = data
    strange = [np.full(len(labels), "z") for labels in y[:1]] + y[1:]
    assert metrics.log_likelihood(fitted, X, strange) == -np.inf
    weight = np.ones(len(X))
    weight[0] = 0
    assert np.isfinite(metrics.log_likelihood(fitted, X, strange, sample_weight=weight))
    with pytest.warns(UndefinedMetricWarning, match="Mean log-likelihood"):
        assert np.isnan(metrics.log_likelihood(fitted, X[:1], [[None] * len(y[0])]))


def test_log_likelihood_counts_sets_of_candidates(fitted):
    X = [np.zeros((2, 3))]
    p = fitted.predict_proba(X)[0]
    expected = (np.log(p[0, 0]) + np.log(p[1, :2].sum())) / 2
    assert_allclose(metrics.log_likelihood(fitted, X, [["a", {"a", "b"}]]), expected)


def test_log_likelihood_sees_through_pipelines_and_searches(data):
    X, y = data
    expected = metrics.log_likelihood(StepLabeller().fit(double(X), y), double(X), y)
    pipe = make_pipeline(FunctionTransformer(double), StepLabeller()).fit(X, y)
    assert not hasattr(pipe, "log_likelihood")
    assert metrics.log_likelihood(pipe, X, y) == expected
    grid = GridSearchCV(pipe, {"steplabeller__C": [1.0]}, scoring=metrics.log_likelihood, cv=3).fit(X, y)
    assert metrics.log_likelihood(grid, X, y) == expected
    assert grid.score(X, y) == expected
    inner = GridSearchCV(StepLabeller(), {"C": [1.0]}, scoring=metrics.log_likelihood, cv=3)
    nested = make_pipeline(FunctionTransformer(double), inner).fit(X, y)
    assert metrics.log_likelihood(nested, X, y) == expected
    alone = Pipeline([("model", StepLabeller())]).fit(double(X), y)
    assert metrics.log_likelihood(alone, double(X), y) == expected
    with pytest.raises(AttributeError, match="needs log_likelihood, which FunctionTransformer does not"):
        metrics.log_likelihood(FunctionTransformer(double), X, y)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_in_searches_and_cross_validation(data, n_jobs):
    X, y = data
    cv = KFold(3)
    grid = GridSearchCV(
        StepLabeller(), {"C": [1e-4, 1.0]}, scoring=metrics.micro_accuracy, cv=cv, n_jobs=n_jobs
    ).fit(X, y)
    assert grid.best_params_ == {"C": 1.0} and 0.5 < grid.best_score_ <= 1
    several = {name: get_sequence_scorer(name) for name in NAMES}
    search = GridSearchCV(
        StepLabeller(), {"C": [1e-4, 1.0]}, scoring=several, refit="log_likelihood", cv=cv, n_jobs=n_jobs
    ).fit(X, y)
    assert_allclose(search.cv_results_["mean_test_micro_accuracy"], grid.cv_results_["mean_test_score"])
    for name in NAMES:
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()
    table = cross_validate(StepLabeller(), X, y, scoring=several, cv=cv, n_jobs=n_jobs)
    folds = cross_val_score(StepLabeller(), X, y, scoring=metrics.segment_f1, cv=cv, n_jobs=n_jobs)
    assert_allclose(table["test_segment_f1"], folds)


def test_clone_of_a_search_keeps_the_scorer():
    grid = GridSearchCV(StepLabeller(), {"C": [1.0]}, scoring=metrics.micro_accuracy)
    assert repr(clone(grid).scoring) == repr(metrics.micro_accuracy)
    assert "SequenceScorer(micro_accuracy)" in repr(grid)


def test_weights_by_metadata_routing(data):
    X, y = data
    weight = np.arange(1.0, len(X) + 1)
    scorer = metrics.micro_accuracy.set_score_request(sample_weight=True)
    assert metrics.micro_accuracy._weight_request is False  # the shared scorer is as it was
    with sklearn.config_context(enable_metadata_routing=True):
        model = StepLabeller().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        for scoring in (scorer, {"one": scorer, "two": metrics.neg_hamming_loss}):
            table = cross_validate(
                model, X, y, scoring=scoring, cv=KFold(3), params={"sample_weight": weight}
            )
            found = table["test_score" if scoring is scorer else "test_one"]
            for (train, test), value in zip(KFold(3).split(X), found, strict=True):
                Xs, ys = [X[i] for i in train], [y[i] for i in train]
                fitted = StepLabeller().fit(Xs, ys, sample_weight=weight[train])
                expected = metrics.micro_accuracy(
                    fitted, [X[i] for i in test], [y[i] for i in test], sample_weight=weight[test]
                )
                assert_allclose(value, expected)
        grid = GridSearchCV(model, {"C": [1.0]}, scoring=scorer, cv=KFold(3))
        grid.fit(X, y, sample_weight=weight)
        with pytest.raises(ValueError, match="sample_weight"):
            loose = metrics.micro_accuracy.set_score_request(sample_weight=None)
            cross_validate(model, X, y, scoring=loose, params={"sample_weight": weight})


def test_make_sequence_scorer():
    scorer = make_sequence_scorer(metrics.micro_accuracy_score, level=1)
    assert repr(scorer) == "make_sequence_scorer(micro_accuracy_score, level=1)"

    class TwoLevels:
        def predict(self, X):
            return [np.array([["a", "x"]] * len(values)) for values in X]

    y = [np.array([["a", "y"], ["a", "x"]])]
    assert scorer(TwoLevels(), [np.zeros((2, 1))], y) == 0.5
    assert scorer(TwoLevels(), [np.zeros((2, 1))], y, level=0) == 1.0
    assert metrics.micro_accuracy(TwoLevels(), [np.zeros((2, 1))], y) == 0.75
    loss = make_sequence_scorer(metrics.hamming_loss, greater_is_better=False)
    assert repr(loss) == "make_sequence_scorer(hamming_loss, greater_is_better=False)"
    assert loss(TwoLevels(), [np.zeros((2, 1))], y) == -0.25
    assert isinstance(loss, SequenceScorer)
    with pytest.raises(TypeError, match="func is 'accuracy'"):
        make_sequence_scorer("accuracy")


def count_rows(y_true, response):
    return float(sum(map(len, response)))


def test_response_method(data, fitted):
    X, y = data
    scorer = make_sequence_scorer(count_rows, response_method=["max_marginals", "predict_proba"])
    assert scorer(fitted, X, y) == sum(map(len, X))
    with pytest.raises(AttributeError, match="needs max_marginals, which StepLabeller does not have"):
        make_sequence_scorer(count_rows, response_method="max_marginals")(fitted, X, y)
