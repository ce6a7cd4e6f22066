"""LinearChainCRF where numbers are very large or very small, and where little or nothing is known."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataDimensionalityWarning

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.metrics import micro_accuracy_score


@pytest.fixture
def data(rng):
    X = [rng.normal(size=(30, 4)) for _ in range(20)]
    return X, [(x[:, 0] + x[:, 1] > 0).astype(int) for x in X]


@pytest.mark.parametrize("power", [-200, -50, -12, -9, -6, -5, -3, 0, 3, 6, 12])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_the_unit_of_one_column_hides_no_other(data, power, as_sparse):
    X, y = data
    scaled = [x * [1, 1, 1, 10.0**power] for x in X]
    if as_sparse:
        scaled = [sparse.csr_array(x) for x in scaled]
    model = LinearChainCRF(tol=1e-6).fit(scaled, y)
    without = LinearChainCRF(tol=1e-6).fit([x[:, :3] for x in X], y)
    assert model.loss_curve_[-1] <= without.loss_curve_[-1] * (1 + 1e-6)
    if power <= -6:  # too small to pay for a weight
        assert_allclose(model.coef_[:, :3], without.coef_, atol=1e-3)
    assert model.n_iter_ < 60


def test_denormal_columns_are_harmless(data):
    X, y = data
    model = LinearChainCRF().fit([x * [1, 1, 1, 0] + [0, 0, 0, 5e-324] for x in X], y)
    assert model.score(X, y) > 0.97


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_large_features_train_as_well(data, scale):
    X, y = data
    plain = LinearChainCRF().fit(X, y).score(X, y)
    scaled = [scale * x for x in X]
    assert LinearChainCRF().fit(scaled, y).score(scaled, y) >= plain


@pytest.mark.parametrize("factor", [1e-10, 1e-7])
def test_weak_data_still_sets_what_is_not_penalised(factor, rng):
    X = [rng.normal(size=(10, 1)) for _ in range(12)]
    y = [[0] + [1] * 9 for _ in X]
    for options, weight in (({"C": factor}, None), ({}, np.full(12, factor))):
        model = LinearChainCRF(**options).fit(X, y, sample_weight=weight)
        assert model.n_iter_ > 0
        assert set(np.concatenate(model.predict(X))) == {1}
        share = np.concatenate(model.predict_proba(X))[:, 1].mean()
        assert_allclose(share, 0.9, atol=0.01)


def test_overflow_in_fit_is_an_error_that_changes_nothing(data):
    X, y = data
    model = LinearChainCRF().fit(X, y)
    coef = model.coef_.copy()
    for options, scale in (({"C": 1e308}, 1.0), ({"C": 1e300}, 1.0), ({}, 2.5e307)):
        with pytest.raises(ValueError, match="not finite at the starting point"):
            model.set_params(**{"C": 1.0} | options).fit([scale * x for x in X], y)
    assert_array_equal(model.coef_, coef)


@pytest.mark.parametrize(
    "verb", ["predict", "predict_proba", "predict_pairwise", "predict_n_best", "decision_function", "sample"]
)
def test_overflow_in_predict_names_the_step(verb):
    model = LinearChainCRF(C=100).fit([[[0.0], [0.2], [0.9], [1.0]]], [[0, 0, 1, 1]])
    X = np.ones((3, 1))
    X[2] = 1e308
    with pytest.raises(ValueError, match="scores of sequence 1 at time step 2"):
        getattr(model, verb)([np.ones((4, 1)), X])


def test_sums_at_the_end_of_the_double_range():
    model = LinearChainCRF().fit([[[0.0], [1.0]], [[1.0], [0.0]]], [[0, 1], [1, 0]])
    X = [np.full((1000, 1), 1e307 / np.abs(model.coef_).max())]
    best = int(model.coef_[:, 0].argmax())
    # what all labels of a step share is left out, so that the sum over the best ones is small
    assert_array_equal(model.predict(X)[0], np.full(1000, best))
    assert_array_equal(model.predict_proba(X)[0][:, best], 1.0)
    assert_array_equal(model.decision_function(X)[0].argmax(axis=1), np.full(1000, best))
    assert model.log_likelihood(X, [[best] * 1000]).tolist() == [0.0]
    for verb in (model.log_likelihood, model.predict):  # over the others it is -2e310
        with pytest.raises(ValueError, match="double precision"):
            verb(X, [[1 - best] * 1000])


@pytest.mark.parametrize("options", [{"class_weight": {0: 0, 1: 0}}, {}])
def test_nothing_to_learn_from_is_an_error(data, options):
    X, y = data
    weight = None if options else [1.0] + [0.0] * 19
    y = y if options else [[None] * 30, *y[1:]]
    with pytest.raises(ValueError, match="y holds no label where sample_weight"):
        LinearChainCRF(**options).fit(X, y, sample_weight=weight)


def test_names_that_cannot_be_labels_are_an_error(data):
    for options in ({"class_weight": {"a": 2.0}}, {"allowed_transitions": {0: ["a"]}},
                    {"loss": "softmax_margin", "cost": {("a", 1): 2.0}}):  # fmt: skip
        with pytest.raises(TypeError, match="names 'a', but the labels of y are of type int"):
            LinearChainCRF(**options).fit(*data)
    LinearChainCRF(class_weight={7: 2.0}).fit(*data)  # a fold may lack the label


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transition_coef_", np.zeros((1, 1))),
        ("transition_coef_", np.zeros((9, 9))),
        ("classes_", np.array([0])),
        ("classes_", np.arange(4)),
        ("intercept_", np.zeros(1)),
        ("start_coef_", np.zeros(3)),
        ("coef_", np.zeros((2, 3))),
        ("edge_coef_", np.zeros((2, 2, 1))),
    ],
)
def test_damaged_estimators_end_in_an_error(data, name, value):
    X, y = data
    model = LinearChainCRF().fit(X, y)
    setattr(model, name, value)
    for verb in ("predict", "predict_proba", "decision_function", "predict_n_best", "sample"):
        with pytest.raises(ValueError, match="coefficients"):
            getattr(model, verb)(X)


def test_damaged_sparse_coefficients_end_in_an_error(data):
    X, y = data
    model = LinearChainCRF(restrict_features=True).fit([sparse.csr_array(x) for x in X], y)
    model.coef_.indices[:] = 10**6
    for given in (X, [sparse.csr_array(x) for x in X]):
        with pytest.raises(ValueError, match="coef_ is no valid sparse matrix"):
            model.predict(given)


def test_training_that_takes_gigabytes_is_announced(data, monkeypatch):
    monkeypatch.setattr("sklearn_seqlab._chain_labeler._LARGE_GIB", 0.0)
    with pytest.warns(DataDimensionalityWarning, match="restrict_features='auto'"):
        LinearChainCRF().fit(*data)


def test_sequences_that_say_nothing_change_nothing(data):
    X, y = data
    plain = LinearChainCRF().fit(X, y)
    more = LinearChainCRF().fit([X[0], *X, X[1]], [None, *y, [None] * 30])
    assert_array_equal(more.coef_, plain.coef_)
    weighted = LinearChainCRF().fit([X[0], *X], [1 - y[0], *y], sample_weight=[0, *[1] * 20])
    assert_array_equal(weighted.coef_, plain.coef_)


def test_messages_keep_the_numbers_of_the_caller(data):
    X, y = data
    y[5] = [0, 1] * 15
    with pytest.raises(InfeasibleSequenceError, match=r"y\[5\] moves from 0 to 1 at time step 1"):
        LinearChainCRF(allowed_transitions={0: [0], 1: [0, 1]}).fit(X[:6], [None] * 5 + [y[5]])


def test_a_chain_that_no_labelling_can_pass_is_an_error_in_every_verb():
    model = LinearChainCRF(allowed_transitions={}).fit([[[0.0]], [[1.0]]], [[0], [1]])
    assert_allclose(
        np.exp(model.log_likelihood([[[0.5]]], [[0]])) + np.exp(model.log_likelihood([[[0.5]]], [[1]])), 1
    )
    X = [[[0.0]], [[1.0], [2.0]]]
    for verb in ("predict", "predict_proba", "predict_n_best", "decision_function", "sample"):
        with pytest.raises(InfeasibleSequenceError, match=r"Sequence 1 .* time step 1"):
            getattr(model, verb)(X)
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 1 .* time step 1"):
        model.log_likelihood(X, [[0], [0, 1]])


def test_dicts_of_labels_fit_folds_that_lack_one(rng):
    X = [rng.normal(size=(6, 2)) for _ in range(3)]
    y = [list("aabbaa"), list("aaabbb"), list("bbbbcc")]
    options = {
        "allowed_transitions": {"a": {"a", "b"}, "b": {"a", "b", "c"}, "c": {"c"}},
        "loss": "softmax_margin",
        "cost": {("a", "c"): 3.0},
    }
    full = LinearChainCRF(**options).fit(X, y)
    assert (full.transition_coef_ == -np.inf).tolist() == [
        [False, False, True],
        [False] * 3,
        [True, True, False],
    ]
    fold = LinearChainCRF(**options).fit(X[:2], y[:2])
    assert fold.classes_.tolist() == ["a", "b"] and np.isfinite(fold.transition_coef_).all()


def test_no_pair_of_feature_and_label_is_left(data):
    X, y = data
    model = LinearChainCRF(restrict_features=True, min_count=10_000).fit(X, y)
    assert model.coef_.nnz == 0
    assert len(model.predict(X)) == 20


def test_containers_without_positions(data):
    pd = pytest.importorskip("pandas")
    X, y = data
    model = LinearChainCRF().fit(X, y)
    series = pd.Series(X, index=range(5, 25))
    assert_array_equal(np.concatenate(model.predict(series)), np.concatenate(model.predict(X)))
    by_name = dict(enumerate(X)).values()
    assert_array_equal(np.concatenate(model.predict(by_name)), np.concatenate(model.predict(X)))


def test_masked_arrays(data):
    X, y = data
    with pytest.raises(TypeError, match=r"X\[0\] is a masked array"):
        LinearChainCRF().fit([np.ma.masked_array(x, mask=x > 2) for x in X], y)
    masked = [np.ma.masked_array(labels, mask=np.arange(30) < 10) for labels in y]
    hidden = [[None] * 10 + list(labels[10:]) for labels in y]
    assert_array_equal(LinearChainCRF().fit(X, masked).coef_, LinearChainCRF().fit(X, hidden).coef_)


def test_parameters_changed_after_fit_are_checked(data):
    X, y = data
    model = LinearChainCRF().fit(X, y).set_params(decoding="nonsense")
    with pytest.raises(ValueError, match="decoding is 'nonsense'"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"n is 2\.5"):
        model.predict_n_best(X, n=2.5)
    with pytest.raises(ValueError, match="n_samples is -1"):
        model.sample(X, n_samples=-1)


@pytest.mark.parametrize(
    "options", [{"C": 1e12}, {"C": 1e-12}, {"tol": 0.0}, {"max_iter": 1}, {"l1_ratio": 1.0, "C": 1e6}]
)
def test_extreme_parameters_end(data, options):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearChainCRF(**options).fit(X, y)
    assert np.isfinite(model.loss_curve_).all() and (np.diff(model.loss_curve_) <= 0).all()
    assert 0 <= micro_accuracy_score(y, model.predict(X)) <= 1
