"""RuleEnsembleHKL: worked numbers, the binary problem against a general solver, scikit-learn's checks, sequences."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_seqlab import RuleEnsembleHKL, StructuredSVM
from sklearn_seqlab.preprocessing import make_sequence_pipeline

TIGHT = {"tol": 1e-7, "max_reweight": 500}


@parametrize_with_checks([RuleEnsembleHKL(binarize=0.0), RuleEnsembleHKL(binarize=0.0, multi_class="ovr")])
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def cube():
    X = np.array(list(product([0, 1], repeat=3)))
    return X, X[:, 0] & X[:, 1]


@pytest.mark.parametrize(
    ("rho", "optimum", "bias", "weights"),
    [(2.0, 9.545867, -1.1426, (0.1426, 0.1426, 0.0390)), (1.5, 9.591906, -1.1478, (0.1478, 0.1478, 0.0155))],
)
def test_worked_numbers_of_two_labels(rho, optimum, bias, weights, cube):
    model = RuleEnsembleHKL(C=20, beta=2, rho=rho, multi_class="ovr", **TIGHT).fit(*cube)
    assert_allclose(model.objective_, optimum, atol=1e-6)
    assert 0 <= model.duality_gap_ <= 1e-6 * optimum
    found = dict(zip(model.conjunctions_, model.coef_.toarray()[0].tolist(), strict=True))
    assert_allclose([found[c] for c in ((0,), (1,), (0, 1))], weights, atol=2e-4)
    assert_allclose(model.intercept_, bias, atol=2e-4)
    assert model.rules_["label"].tolist() == [1, 1, 1]
    assert [rule["support"] for rule in model.rules_ if rule["conjunction"] == (0, 1)] == [2]


def test_worked_numbers_of_one_problem(cube):
    model = RuleEnsembleHKL(C=20, beta=2, rho=2.0, **TIGHT).fit(*cube)
    assert_allclose(model.objective_, 10.499795, atol=1e-6)
    found = dict(zip(model.conjunctions_, model.coef_.toarray().T, strict=True))
    assert_allclose(found[()], [0.5016, -0.5016], atol=1e-4)
    for conjunction, size in {(0,): 0.0016, (1,): 0.0016, (0, 1): 0.0004}.items():
        assert_allclose(found[conjunction], [-size, size], atol=6e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("rho", [1.3, 2.0])
def test_two_labels_against_a_general_solver(fit_intercept, rho, rng):
    X = rng.integers(0, 2, size=(20, 2))
    y = np.where(rng.uniform(size=20) < 0.2, 1 - X[:, 0], X[:, 0])
    beta, C = 0.8, 5.0
    model = RuleEnsembleHKL(
        C=C, rho=rho, beta=beta, multi_class="ovr", fit_intercept=fit_intercept, tol=1e-5, max_reweight=300
    ).fit(X, y)
    holds = np.column_stack([np.ones(20), X, X.prod(axis=1)])
    contains = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1.0]])
    price, sign = beta ** np.array([0, 1, 1, 2.0]), 2 * y - 1

    def value(point, temperature=0.0, eps=0.0):
        f, b = point[:4], point[4] * fit_intercept
        omega = price @ (contains @ (f**2 + eps) ** (rho / 2)) ** (1 / rho)
        margin = 1 - sign * (holds @ f + b)
        loss = temperature * np.logaddexp(0, margin / temperature) if temperature else np.maximum(margin, 0)
        return 0.5 * omega**2 + C * loss.mean()

    point = np.zeros(5)
    for temperature, eps in [(0.1, 1e-3), (0.01, 1e-5), (1e-3, 1e-7), (2e-4, 1e-8)]:
        point = minimize(value, point, args=(temperature, eps), method="L-BFGS-B").x
    minimum = value(point)
    assert minimum >= model.objective_ - model.duality_gap_ - 1e-9
    assert minimum <= model.objective_ * 1.005


def test_several_labels_one_against_the_rest(rng):
    X = rng.integers(0, 2, size=(60, 4))
    y = np.array(["a", "b", "c"])[X[:, 0] + X[:, 0] * X[:, 1]]
    for multi_class in ("ovr", "crammer_singer"):
        model = RuleEnsembleHKL(C=100, multi_class=multi_class, beta=0.5).fit(X, y)
        assert model.score(X, y) == 1.0
        assert model.decision_function(X).shape == (60, 3)
        assert_array_equal(model.classes_[model.decision_function(X).argmax(axis=1)], y)
        assert "c(T) :- x0(T), x1(T)." in model.rules_text()


def test_weights_count_like_copies(rng):
    X = rng.integers(0, 2, size=(30, 3))
    y = X[:, 0] ^ (rng.uniform(size=30) < 0.2)
    weight = rng.integers(0, 3, size=30)
    once = RuleEnsembleHKL(**TIGHT).fit(X, y, sample_weight=weight)
    copies = RuleEnsembleHKL(**TIGHT).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(once.objective_, copies.objective_, rtol=1e-6)


def make_sequences(rng):
    X = [rng.integers(0, 2, size=(n, 4)) for n in (9, 12, 1, 14)]
    y = [np.where(x[:, 0] & x[:, 1], "busy", "free").astype(object) for x in X]
    return X, y


def test_sequences_are_their_steps(rng):
    X, y = make_sequences(rng)
    whole = RuleEnsembleHKL(C=50).fit(np.concatenate(X), np.concatenate(y).astype(str))
    model = RuleEnsembleHKL(C=50).fit(X, y)
    assert model.objective_ == whole.objective_
    for as_list in (model.predict(X), model.decision_function(X)):
        assert as_list.dtype == object and [len(part) for part in as_list] == [9, 12, 1, 14]
    assert_array_equal(np.concatenate(model.predict(X)), whole.predict(np.concatenate(X)))
    hidden = [labels.copy() for labels in y]
    hidden[0][:4] = None
    partial = RuleEnsembleHKL(C=50).fit(X, hidden)
    short = RuleEnsembleHKL(C=50).fit([X[0][4:], *X[1:]], [y[0][4:], *y[1:]])
    assert partial.objective_ == short.objective_
    with pytest.raises(ValueError, match=r"no label|no known label"):
        RuleEnsembleHKL().fit(X[:1], [[None] * 9])
    with pytest.raises(ValueError, match="one per sequence"):
        RuleEnsembleHKL().fit(X, y, sample_weight=np.ones(36))


def test_rules_are_inputs_of_a_sequence_labeller(rng):
    X, y = make_sequences(rng)
    y = [labels.astype(str) for labels in y]
    rules = RuleEnsembleHKL(C=100, beta=0.5, rule_threshold=0.01)
    for pipe in (
        make_pipeline(rules, StructuredSVM(C=100, random_state=0)),
        make_sequence_pipeline(rules, StructuredSVM(C=100, random_state=0)),
    ):
        pipe.fit(X, y)
        assert pipe.score(X, y) == 1.0
    model = rules.fit(X, y)
    truth = model.transform(X)
    names = model.get_feature_names_out().tolist()
    assert truth[0].shape == (9, len(names)) and "x0(T), x1(T)" in names
    both = truth[0][:, [names.index("x0(T), x1(T)")]].toarray()[:, 0]
    assert_array_equal(both, X[0][:, 0] & X[0][:, 1])
    assert sparse.issparse(model.transform(X[0]))


def test_grid_search_over_rows(rng):
    X = rng.integers(0, 2, size=(80, 3))
    search = GridSearchCV(RuleEnsembleHKL(), {"C": [10.0, 1000.0], "beta": [0.5, 2.0]}, cv=2)
    assert search.fit(X, X[:, 0] & X[:, 1]).best_score_ > 0.95


def test_grid_search_over_sequences(rng):
    X = [rng.integers(0, 2, size=(20, 3)) for _ in range(4)]
    y = [x[:, 0] & x[:, 1] for x in X]
    search = GridSearchCV(RuleEnsembleHKL(beta=0.5), {"C": [1.0, 1000.0]}, cv=KFold(2)).fit(X, y)
    assert search.best_params_ == {"C": 1000.0} and search.best_score_ > 0.95


def test_other_than_binary_inputs_are_refused():
    X = np.array([[0, 1], [2, 0]])
    with pytest.raises(ValueError, match=r"X\[0\] holds 2 at time step 1, column 0; expected 0 or 1"):
        RuleEnsembleHKL().fit(X, [0, 1])
    assert RuleEnsembleHKL(binarize=0.5).fit(X, [0, 1]).predict(X).tolist() == [0, 1]


def test_sequences_have_names_and_a_score():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(3)
    X = [pd.DataFrame((rng.rand(10, 2) < 0.5).astype(int), columns=["p", "q"]) for _ in range(4)]
    y = [x["p"].tolist() for x in X]
    model = RuleEnsembleHKL(C=100).fit(X, y)
    assert model.score(X, y) == 1.0
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict([x[["q", "p"]] for x in X])


def test_a_refused_table_changes_nothing():
    Z = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
    model = RuleEnsembleHKL().fit(Z, [0, 1, 1, 0])
    with pytest.raises(ValueError, match="holds 5"):
        model.fit(np.c_[Z, 5 * Z[:, 0]], [0, 1, 1, 0])
    assert len(model.predict(Z)) == 4
