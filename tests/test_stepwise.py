"""The per-step baseline equals its classifier on stacked rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC

from sklearn_seqlab import StepwiseClassifier
from sklearn_seqlab.metrics import micro_accuracy


@pytest.fixture
def data(rng):
    X = [rng.normal(size=(n, 3)) for n in (5, 1, 8, 8)]
    y = [np.where(x[:, 0] > 0.5, "hi", np.where(x[:, 0] > -0.5, "mid", "lo")) for x in X]
    return X, y


def test_equals_the_classifier_on_stacked_rows(data):
    X, y = data
    plain = LogisticRegression().fit(np.vstack(X), np.concatenate(y))
    model = StepwiseClassifier(LogisticRegression()).fit(X, y)
    assert_array_equal(np.concatenate(model.predict(X)), plain.predict(np.vstack(X)))
    assert_allclose(np.concatenate(model.predict_proba(X)), plain.predict_proba(np.vstack(X)))
    assert [len(labels) for labels in model.predict(X)] == [5, 1, 8, 8]
    assert not hasattr(model.estimator, "coef_")


def test_steps_without_a_label_are_left_out(data):
    X, y = data
    partial = [[None if t % 2 else label for t, label in enumerate(labels)] for labels in y]
    partial[2][0] = {"hi", "lo"}
    rows = [
        x[t]
        for x, labels in zip(X, partial, strict=True)
        for t in range(len(x))
        if isinstance(labels[t], str)
    ]
    labels = [label for labels in partial for label in labels if isinstance(label, str)]
    model = StepwiseClassifier(LogisticRegression()).fit(X, partial)
    assert_allclose(model.estimator_.coef_, LogisticRegression().fit(rows, labels).coef_)
    with pytest.raises(ValueError, match="y holds no known label where sample_weight is positive"):
        StepwiseClassifier(LogisticRegression()).fit(X, [[None] * len(x) for x in X])


@pytest.mark.parametrize("classifier", [LogisticRegression(), LinearSVC(), NearestCentroid()])
def test_known_labels_come_back_and_sets_are_respected(data, classifier):
    X, y = data
    model = StepwiseClassifier(classifier).fit(X, y)
    observed = [None, ["lo"], [{"hi", "lo"}] * 8, ["mid"] + [None] * 7]
    predicted = model.predict(X, y_observed=observed)
    assert_array_equal(predicted[0], model.predict(X)[0])
    assert predicted[1].tolist() == ["lo"] and predicted[3][0] == "mid"
    assert set(predicted[2]) <= {"hi", "lo"}
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(X, y_observed=observed)
        assert_allclose(proba[2][:, list(model.classes_).index("mid")], 0)
        assert_allclose(np.concatenate(proba).sum(axis=1), 1)
    else:
        assert not hasattr(StepwiseClassifier(classifier), "predict_proba")


def test_weights_of_sequences_are_weights_of_rows(data):
    X, y = data
    weight = [1.0, 0.0, 2.0, 0.5]
    rows = np.repeat(weight, [len(x) for x in X])
    plain = LogisticRegression().fit(np.vstack(X), np.concatenate(y), sample_weight=rows)
    model = StepwiseClassifier(LogisticRegression()).fit(X, y, sample_weight=weight)
    assert_allclose(model.estimator_.coef_, plain.coef_)
    with pytest.raises(ValueError, match="NearestCentroid takes no sample_weight"):
        StepwiseClassifier(NearestCentroid()).fit(X, y, sample_weight=weight)


def test_a_single_label_is_legal(data):
    X, _ = data
    model = StepwiseClassifier(LogisticRegression()).fit(X, [["a"] * len(x) for x in X])
    assert set(np.concatenate(model.predict(X))) == {"a"}
    assert_allclose(np.concatenate(model.predict_proba(X)), 1)


def test_search_and_sparse_input(data):
    X, y = data
    grid = GridSearchCV(
        StepwiseClassifier(LogisticRegression()), {"estimator__C": [0.1, 10]}, cv=2, scoring=micro_accuracy
    )
    grid.fit([sparse.csr_array(x) for x in X], y)
    assert 0 <= grid.best_score_ <= 1


def test_errors(data):
    X, y = data
    with pytest.raises(TypeError, match="expected a classifier"):
        StepwiseClassifier(LinearRegression()).fit(X, y)
    with pytest.raises(NotFittedError):
        StepwiseClassifier(LogisticRegression()).predict(X)
