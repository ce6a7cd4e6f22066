"""Solvers of LinearChainCRF that step on one sequence at a time and go on to the optimum: "sag" and "sdca"."""

import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataDimensionalityWarning

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.crf import _linear_chain

SOLVERS = ["sag", "sdca"]


def sequences(rng, n=60, scale=1.0):
    """Labels that follow the first columns; some sequences have one step, and no "c" comes right after "a"."""
    X, y = [], []
    for _ in range(n):
        codes = np.repeat(rng.integers(0, 3, 3), 2)[: rng.integers(1, 7)]
        for t in range(1, len(codes)):
            if codes[t - 1] == 0 and codes[t] == 2:
                codes[t] = 1
        X.append(scale * np.where(rng.random((len(codes), 3)) < 0.7, rng.normal(size=(len(codes), 3)), 0.0))
        X[-1][np.arange(len(codes)), codes] += scale
        y.append(np.array(["a", "b", "c"])[codes])
    return X, y


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"C": 0.01},
        {"restrict_features": True},
        {"allowed_transitions": "observed"},
        {"start_end": False, "class_weight": "balanced"},
        {"loss": "softmax_margin", "cost": 2.0},
    ],
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_they_learn_what_the_quasi_newton_solver_learns(solver, params, is_sparse, rng):
    X, y = sequences(rng)
    if is_sparse:
        X = [sparse.csr_array(x) for x in X]
    weight = np.round(2 * rng.random(60), 1)  # some are zero
    options = {"fit_intercept": solver == "sag", "random_state": 0} | params
    exact = LinearChainCRF(solver="lbfgs", tol=1e-10, **options).fit(X, y, weight)
    tol = 1e-9 if solver == "sdca" else 1e-7
    model = LinearChainCRF(solver=solver, tol=tol, **options).fit(X, y, weight)
    assert_allclose(model.loss_curve_[-1], exact.loss_curve_[-1], rtol=1e-6)
    assert len(model.loss_curve_) == model.n_iter_ + 1
    parts = zip(
        (exact.coef_, exact.transition_coef_, exact.start_coef_),
        (model.coef_, model.transition_coef_, model.start_coef_),
        strict=True,
    )
    for expected, found in parts:
        if sparse.issparse(expected):
            expected, found = expected.toarray(), found.toarray()
        assert_allclose(found, expected, atol=2e-3)
    if "allowed_transitions" in params:
        assert model.transition_coef_[0, 2] == -np.inf
    assert (solver == "sdca") == hasattr(model, "duality_gap_")
    again = LinearChainCRF(solver=solver, tol=tol, n_jobs=2, **options).fit(X, y, weight)
    for expected, found in ((model.coef_, again.coef_), (model.transition_coef_, again.transition_coef_)):
        if sparse.issparse(expected):
            expected, found = expected.toarray(), found.toarray()
        assert_array_equal(found, expected)


def test_the_gap_certifies_the_fit(rng):
    X, y = sequences(rng)
    options = {"fit_intercept": False, "C": 2.0}
    best = LinearChainCRF(solver="lbfgs", tol=1e-10, **options).fit(X, y).loss_curve_[-1]
    model = LinearChainCRF(solver="sdca", random_state=0, **options)
    for tol in (0.5, 1e-2, 1e-6):
        model.set_params(tol=tol).fit(X, y)
        value = -2.0 * model.log_likelihood(X, y).sum() + 0.5 * sum(
            np.square(part).sum()
            for part in (model.coef_, model.transition_coef_, model.start_coef_, model.end_coef_)
        )
        assert value - best <= model.duality_gap_ * (1 + 1e-9) + 1e-9 <= tol * value + 2e-9
    # another fit leaves none of it
    model.set_params(solver="lbfgs").fit(X, y)
    assert not hasattr(model, "duality_gap_")


def test_the_gap_is_that_of_the_iteration_that_is_kept(rng):
    X, y = sequences(rng)
    X = [np.hstack([x, rng.normal(size=(len(x), 30))]) for x in X]  # noise to overfit
    model = LinearChainCRF(
        solver="sdca",
        fit_intercept=False,
        C=100.0,
        validation_fraction=0.3,
        n_iter_no_change=3,
        random_state=0,
    ).fit(X, y)
    assert model.n_iter_ == np.argmin(model.validation_loss_)
    assert len(model.validation_loss_) == len(model.loss_curve_)
    # kept is an early iteration, far from the optimum of the objective
    assert model.duality_gap_ > 1e-2 * model.loss_curve_.min()
    assert model.duality_gap_ > model.loss_curve_[model.n_iter_] - model.loss_curve_.min()


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_they_cannot_take_is_refused(solver, rng):
    X, y = sequences(rng, 6)
    model = LinearChainCRF(solver=solver, fit_intercept=False)
    name = re.escape(f"solver={solver!r}")
    for params, message in [
        ({"l1_ratio": 0.5}, "cannot take l1_ratio > 0; use solver='owlqn'"),
        ({"transition_features": "all"}, "takes no transition_features; use solver='lbfgs'"),
        ({"loss": "marginal"}, "takes no loss='marginal'; use solver='lbfgs'"),
    ]:
        with pytest.raises(ValueError, match=f"{name} {message}"):
            LinearChainCRF(solver=solver, fit_intercept=False, **params).fit(X, y)
    hidden = [labels.astype(object) for labels in y]
    s = next(s for s in range(1, 6) if len(y[s]) > 2)
    hidden[s][2] = None
    with pytest.raises(
        ValueError, match=rf"{name} needs all labels, but that of y\[{s}\] at step 2 is hidden"
    ):
        model.fit(X, hidden)
    assert not hasattr(model, "coef_")
    # of a sequence that does not count, nothing is needed
    model.fit(X, hidden, np.arange(6) != s)
    hidden[s][:] = None
    model.fit(X, hidden)


def test_the_dual_needs_a_penalty_on_all_weights(rng):
    X, y = sequences(rng, 6)
    with pytest.raises(ValueError, match="set fit_intercept=False, and add a column of ones"):
        LinearChainCRF(solver="sdca").fit(X, y)


@pytest.mark.parametrize("solver", SOLVERS)
def test_few_passes_are_told(solver, rng):
    X, y = sequences(rng)
    what = "a duality gap of .* nats" if solver == "sdca" else "max_iter was reached"
    with pytest.warns(ConvergenceWarning, match=f"after 2 iterations: .*{what}"):
        model = LinearChainCRF(solver=solver, fit_intercept=False, max_iter=2, tol=1e-8).fit(X, y)
    assert model.n_iter_ == 2 and len(model.loss_curve_) == 3


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_features_of_any_size_give_finite_weights(solver, scale, rng):
    X, y = sequences(rng, scale=scale)
    options = {"fit_intercept": False, "max_iter": 300, "random_state": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LinearChainCRF(solver=solver, **options).fit(X, y)
        exact = LinearChainCRF(solver="lbfgs", tol=1e-9, max_iter=3000, fit_intercept=False).fit(X, y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.loss_curve_).all()
    told = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    close = model.loss_curve_[-1] <= 1.001 * exact.loss_curve_[-1]
    assert close or told
    if solver == "sag":
        assert close and not told
    else:
        best = exact.loss_curve_[-1]
        assert model.duality_gap_ >= model.loss_curve_.min() - best - 1e-6 * best


def test_only_averages_start_from_the_last_solution(rng):
    X, y = sequences(rng)
    curves = []
    for solver in SOLVERS:
        model = LinearChainCRF(solver=solver, fit_intercept=False, warm_start=True, random_state=0)
        curves.append([model.fit(X, y).loss_curve_, model.fit(X, y).loss_curve_])
    (first, second), (dual_first, dual_second) = curves
    assert_allclose(second[0], first[-1], rtol=1e-3)
    assert second[0] < first[0] and len(second) < len(first)
    assert_array_equal(dual_second, dual_first)


@pytest.mark.parametrize("solver", SOLVERS)
def test_large_memory_is_told(solver, rng, monkeypatch):
    X, y = sequences(rng)
    monkeypatch.setattr(_linear_chain, "_LARGE_GIB", 1e-6)
    with pytest.warns(DataDimensionalityWarning, match=f"solver='{solver}' remembers about 0.0 GiB"):
        LinearChainCRF(solver=solver, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize("solver", SOLVERS)
def test_progress_is_shown(solver, rng, capsys):
    X, y = sequences(rng, 20)
    LinearChainCRF(solver=solver, fit_intercept=False, verbose=1).fit(X, y)
    assert "LinearChainCRF" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("solver", "C"), [("auto", 1e2), ("auto", 1e4), ("lbfgs", 1e4), ("owlqn", 1e4), ("sag", 1e2)]
)
def test_data_that_can_be_told_apart(solver, C):
    """The gradient is small long before the penalty has its say, and long steps lower the loss for ever."""
    random = np.random.RandomState(0)
    y = [random.randint(0, 3, 4) for _ in range(1000)]
    X = [np.eye(3)[labels] for labels in y]
    best = LinearChainCRF(C=C, solver="lbfgs", tol=1e-9).fit(X, y).loss_curve_[-1]
    model = LinearChainCRF(C=C, solver=solver, random_state=0).fit(X, y)
    assert model.loss_curve_[-1] < 1.05 * best


def test_a_curve_of_passes_has_the_penalty_in_it():
    random = np.random.RandomState(0)
    y = [random.randint(0, 3, 4) for _ in range(50)]
    X = [np.eye(3)[labels] for labels in y]
    with pytest.warns(ConvergenceWarning):
        model = LinearChainCRF(solver="sgd", max_iter=30, tol=0.0, random_state=0).fit(X, y)
    best = LinearChainCRF(solver="lbfgs", tol=1e-9).fit(X, y).loss_curve_[-1]
    assert best < model.loss_curve_[-1] < 1.1 * best
