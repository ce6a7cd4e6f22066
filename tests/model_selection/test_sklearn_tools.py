"""scikit-learn's searches, curves, folds and pipelines over lists of sequences, with no glue."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    LeaveOneGroupOut,
    RandomizedSearchCV,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.metrics import get_sequence_scorer, macro_accuracy, micro_accuracy, neg_hamming_loss
from sklearn_seqlab.model_selection import InverseKFold
from sklearn_seqlab.preprocessing import SequenceTransformer, make_sequence_pipeline

N_DAYS, PER_DAY = 4, 4
DAYS = np.repeat(np.arange(N_DAYS), PER_DAY)
SCORERS = {
    name: get_sequence_scorer(name)
    for name in (
        "micro_accuracy",
        "macro_accuracy",
        "neg_hamming_loss",
        "neg_sequence_hamming_loss",
        "step_f1_macro",
        "segment_f1",
        "log_likelihood",
    )
}


def object_array(items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def make_data(kind, labels):
    """Sixteen sequences of four days; ``kind`` says in what they come, ``labels`` of what they are."""
    rng = np.random.default_rng(2)
    X, y = [], []
    for s in range(N_DAYS * PER_DAY):
        codes = np.repeat(rng.integers(0, 3, 5), 3)[: rng.integers(6, 13)]
        codes[0], codes[3], codes[5] = s % 3, (s + 1) % 3, (s + 2) % 3  # no fold lacks a label
        X.append(
            np.column_stack(
                [np.eye(3)[codes] + rng.normal(size=(len(codes), 3)), 20 * rng.normal(size=len(codes))]
            )
        )
        y.append(np.array([10, 20, 30] if labels == "int" else ["a", "b", "c"])[codes])
    if labels == "None":
        y = [np.where(np.arange(len(part)) % 4 == 1, None, part) for part in y]
    if kind == "lists of lists":
        return [values.tolist() for values in X], [part.tolist() for part in y]
    if kind == "object arrays":
        return object_array(X), object_array(y)
    return X, y


@pytest.fixture(params=["lists of arrays", "lists of lists", "object arrays"])
def kind(request):
    return request.param


@pytest.fixture(params=["str", "int", "None"])
def data(request, kind):
    return make_data(kind, request.param)


def plain():
    return make_data("lists of arrays", "str")


def assert_finite(table, names):
    for name in names:
        assert np.isfinite(table[name]).all(), name


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search_over_days(data, n_jobs):
    X, y = data
    search = GridSearchCV(
        LinearChainCRF(), {"C": [0.01, 1.0]}, scoring=micro_accuracy, cv=GroupKFold(4), n_jobs=n_jobs
    ).fit(X, y, groups=DAYS)
    assert_finite(search.cv_results_, ["mean_test_score"])
    assert search.best_score_ > 0.5
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    assert (
        len(search.predict(X)) == len(X)
        and search.classes_.tolist() == search.best_estimator_.classes_.tolist()
    )
    again = GridSearchCV(LinearChainCRF(), {"C": [0.01, 1.0]}, cv=GroupKFold(4)).fit(X, y, groups=DAYS)
    assert_array_equal(again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_containers_give_the_same_scores():
    results = []
    for kind in ("lists of arrays", "lists of lists", "object arrays"):
        X, y = make_data(kind, "None")
        results.append(cross_val_score(LinearChainCRF(), X, y, cv=KFold(4), scoring=macro_accuracy))
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


def test_search_with_several_scorers_in_a_pipeline(data):
    X, y = data
    pipeline = make_sequence_pipeline(StandardScaler(), PCA(), LinearChainCRF())
    grid = {"pca__n_components": [2, 4], "linearchaincrf__C": [0.1, 1.0]}
    scoring = {"micro": micro_accuracy, "macro": macro_accuracy, "hamming": neg_hamming_loss}
    search = GridSearchCV(pipeline, grid, scoring=scoring, refit="macro", cv=LeaveOneGroupOut(), n_jobs=2)
    search.fit(X, y, groups=DAYS)
    assert_finite(search.cv_results_, [f"mean_test_{name}" for name in scoring])
    assert_allclose(search.cv_results_["mean_test_micro"], 1 + search.cv_results_["mean_test_hamming"])
    assert search.score(X, y) == macro_accuracy(search.best_estimator_, X, y)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_randomized_search(data, n_jobs):
    X, y = data
    search = RandomizedSearchCV(
        LinearChainCRF(), {"C": loguniform(1e-2, 10)}, n_iter=3, random_state=0, cv=KFold(2), n_jobs=n_jobs
    ).fit(X, y)
    assert_finite(search.cv_results_, ["mean_test_score"])
    assert search.best_params_["C"] == search.best_estimator_.C


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_halving_search(data, n_jobs):
    X, y = data
    search = HalvingGridSearchCV(
        LinearChainCRF(),
        {"C": [0.01, 0.1, 1.0, 10.0]},
        scoring=micro_accuracy,
        cv=KFold(2),
        factor=2,
        min_resources=6,
        random_state=0,
        n_jobs=n_jobs,
    ).fit(X, y)
    assert search.n_resources_ == [6, 12]
    assert search.score(X, y) > 0.5


def test_halving_search_over_iterations():
    X, y = plain()
    search = HalvingGridSearchCV(
        LinearChainCRF(tol=0.1), {"C": [0.1, 1.0]}, resource="max_iter", max_resources=400, min_resources=200,
        factor=2, cv=KFold(2), random_state=0,
    ).fit(X, y)  # fmt: skip
    assert search.best_estimator_.max_iter in (200, 400)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_validate_with_all_scorers(data, n_jobs):
    X, y = data
    table = cross_validate(
        LinearChainCRF(), X, y, groups=DAYS, cv=LeaveOneGroupOut(), scoring=SCORERS, n_jobs=n_jobs,
        return_train_score=True, return_estimator=True,
    )  # fmt: skip
    assert_finite(table, [f"{part}_{name}" for part in ("train", "test") for name in SCORERS])
    assert len(table["estimator"]) == N_DAYS
    assert_allclose(table["test_micro_accuracy"], 1 + table["test_neg_hamming_loss"])


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_val_predict(data, n_jobs):
    X, y = data
    predicted = cross_val_predict(LinearChainCRF(), X, y, groups=DAYS, cv=GroupKFold(4), n_jobs=n_jobs)
    assert [len(part) for part in predicted] == [len(part) for part in X]
    train, test = next(GroupKFold(4).split(X, y, DAYS))
    model = LinearChainCRF().fit([X[s] for s in train], [y[s] for s in train])
    for s, expected in zip(test, model.predict([X[s] for s in test]), strict=True):
        assert_array_equal(predicted[s], expected)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_learning_curve(data, n_jobs):
    X, y = data
    sizes, train, test = learning_curve(
        LinearChainCRF(), X, y, groups=DAYS, cv=GroupKFold(2), train_sizes=[2, 8], n_jobs=n_jobs,
        scoring=micro_accuracy, shuffle=True, random_state=0,
    )  # fmt: skip
    assert sizes.tolist() == [2, 8] and train.shape == test.shape == (2, 2)
    assert np.isfinite(test).all() and test[1].mean() > 0.5


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_validation_curve(data, n_jobs):
    X, y = data
    train, _test = validation_curve(
        LinearChainCRF(), X, y, param_name="C", param_range=[1e-2, 10.0], cv=KFold(2), n_jobs=n_jobs,
        scoring=get_sequence_scorer("log_likelihood"),
    )  # fmt: skip
    assert (train[1] > train[0]).all()


@pytest.mark.parametrize("folds", [KFold(4), ShuffleSplit(3, random_state=0), InverseKFold(4)])
def test_folds_without_groups(data, folds):
    X, y = data
    assert np.isfinite(cross_val_score(LinearChainCRF(), X, y, cv=folds, scoring=micro_accuracy)).all()


def test_days_stay_together():
    X, y = plain()
    for folds in (GroupKFold(2), LeaveOneGroupOut()):
        for train, test in folds.split(X, y, DAYS):
            assert not set(DAYS[train]) & set(DAYS[test])


def test_train_test_split(data):
    X, y = data
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=4, random_state=0)
    assert len(X_train) == len(y_train) == 12 and len(X_test) == len(y_test) == 4
    assert LinearChainCRF().fit(X_train, y_train).score(X_test, y_test) > 0.4


def test_plain_pipeline_with_lifted_transformers(data):
    X, y = data
    pipeline = make_pipeline(SequenceTransformer(StandardScaler()), LinearChainCRF())
    scores = cross_val_score(pipeline, X, y, groups=DAYS, cv=GroupKFold(4), n_jobs=2)
    lifted = cross_val_score(
        make_sequence_pipeline(StandardScaler(), LinearChainCRF()), X, y, groups=DAYS, cv=GroupKFold(4)
    )
    assert_array_equal(scores, lifted)
    fitted = pipeline.fit(X, y)
    assert fitted.classes_.tolist() == fitted[-1].classes_.tolist()


def test_unions_and_columns_inside_a_sequence_transformer(data):
    X, y = data
    union = FeatureUnion([("scaled", StandardScaler()), ("pca", PCA(n_components=2))])
    columns = ColumnTransformer([("a", StandardScaler(), [0, 1, 2]), ("b", MinMaxScaler(), [3])])
    for transformer, width in ((union, 6), (columns, 4)):
        pipeline = Pipeline([("rows", SequenceTransformer(transformer)), ("crf", LinearChainCRF())])
        search = GridSearchCV(pipeline, {"crf__C": [0.1, 1.0]}, cv=GroupKFold(2), n_jobs=2)
        search.fit(X, y, groups=DAYS)
        assert search.best_estimator_["crf"].n_features_in_ == width
        assert_finite(search.cv_results_, ["mean_test_score"])
    nested = Pipeline([("rows", SequenceTransformer(clone(union))), ("crf", LinearChainCRF())])
    nested.set_params(rows__transformer__pca__n_components=1)
    assert nested.fit(X, y)["crf"].n_features_in_ == 5


def test_a_fold_that_lacks_a_label():
    X, y = plain()
    y = [np.where(part == "c", "b", part) for part in y]
    y[0][:] = "c"
    scores = cross_validate(LinearChainCRF(), X, y, cv=KFold(16), scoring=SCORERS)
    assert scores["test_micro_accuracy"][0] == 0.0
    assert scores["test_log_likelihood"][0] == -np.inf


def test_known_labels_go_to_the_best_estimator():
    X, y = plain()
    search = GridSearchCV(LinearChainCRF(), {"C": [0.1, 1.0]}, cv=KFold(2)).fit(X, y)
    observed = [None] * len(X)
    observed[1] = [*y[1][:2], *[None] * (len(y[1]) - 2)]
    found = search.best_estimator_.predict(X, y_observed=observed)
    assert_array_equal(found[1][:2], y[1][:2])


def test_errors_are_told():
    X, y = plain()
    X[3] = X[3].copy()
    X[3][1, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at time step 1, column 2"):
        cross_val_score(LinearChainCRF(), X, y, cv=KFold(2), error_score="raise")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        GridSearchCV(LinearChainCRF(), {"C": [1.0]}, cv=KFold(2)).fit(X, y[:-1])
