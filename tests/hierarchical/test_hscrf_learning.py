"""HSCRFClassifier: solvers, weights, threads, kinds of input, and scikit-learn's tools."""

import pickle
import warnings

import numpy as np
import pytest
from fitted_hierarchies import objective
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler
from two_levels import (
    ALL_EDGES,
    MODELS,
    TIGHT,
    as_segments,
    data_for,
    make_data,
    quiet,
)

from sklearn_seqlab import HSCRFClassifier, _parallel
from sklearn_seqlab.metrics import (
    make_sequence_scorer,
    micro_accuracy,
    micro_accuracy_score,
    segment_f1_score,
)
from sklearn_seqlab.preprocessing import make_sequence_pipeline


@pytest.mark.parametrize("solver", ["sgd", "adagrad"])
def test_stochastic_solvers_come_near_the_optimum(solver, rng):
    X, y = make_data(rng, n_sequences=20)
    exact = HSCRFClassifier(tol=1e-8).fit(X, y)
    found = quiet(HSCRFClassifier(solver=solver, max_iter=40, batch_size=2, random_state=0), X, y)
    optimum = exact.loss_curve_[-1]
    assert objective(found, X, y) <= optimum + 0.01 * (exact.loss_curve_[0] - optimum)


def test_too_few_iterations_warn_and_warm_start_goes_on(rng):
    X, y = make_data(rng)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations.*max_iter"):
        model = HSCRFClassifier(max_iter=2, warm_start=True).fit(X, y)
    model.set_params(max_iter=1000).fit(X, y)
    n_iter = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 1 < n_iter
    one = HSCRFClassifier().fit(X, [table[:, 1] for table in y])
    assert_array_equal(model.fit(X, [table[:, 1] for table in y]).coef_["unary"][0], one.coef_["unary"][0])
    again = HSCRFClassifier(warm_start=True).fit(X, y)
    again.set_params(children="full", bottom_persist=True).fit(X, y)
    assert again.predict(X)[0].shape == (8, 2)


@pytest.mark.parametrize("solver", ["lbfgs", "sgd"])
def test_an_interrupted_fit_keeps_the_best_iterate(solver, rng, monkeypatch):
    from sklearn_seqlab.objectives import HierarchyLogLikelihood

    X, y = make_data(rng)
    evaluate, calls = HierarchyLogLikelihood.value_and_gradient, []

    def interrupted(self, coef):
        calls.append(coef)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return evaluate(self, coef)

    monkeypatch.setattr(HierarchyLogLikelihood, "value_and_gradient", interrupted)
    model = HSCRFClassifier(solver=solver, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    assert_allclose(objective(model, X, y), min(model.loss_curve_), rtol=1e-9)
    assert objective(model, X, y) < model.loss_curve_[0]


def test_weights_are_repetitions_and_zero_is_absence(rng):
    X, y = make_data(rng)
    y[3] = [[None, row[1]] for row in y[3].tolist()]
    estimator = HSCRFClassifier(children="full", duration=["gamma", "none"], **TIGHT)
    # a parent of eight steps, which weighs nothing
    long = np.array([["p", "ab"[t % 2]] for t in range(8)])
    weighted = estimator.fit([*X, X[0]], [*y, long], sample_weight=[3, 2, 1] + [1] * 9 + [0])
    weighted = pickle.loads(pickle.dumps(weighted))
    repeated = HSCRFClassifier(**estimator.get_params()).fit(X + X[:2] + X[:1], y + y[:2] + y[:1])
    assert_allclose(weighted.loss_curve_[-1], repeated.loss_curve_[-1], rtol=1e-7)
    for a, b in zip(weighted.predict_marginals(X), repeated.predict_marginals(X), strict=True):
        assert_allclose(a[0], b[0], atol=2e-3)
        assert_allclose(a[1], b[1], atol=2e-3)


@pytest.mark.parametrize("name", ["chain, edges", "aio, durations"])
def test_jobs_change_no_bit(name, rng, monkeypatch):
    monkeypatch.setattr(_parallel, "_CHUNK_SIZE", 300)
    X, y = data_for(MODELS[name], rng, n_sequences=8)
    X, y = [x[: 2 + s % 7] for s, x in enumerate(X)], [table[: 2 + s % 7] for s, table in enumerate(y)]
    models = [quiet(MODELS[name], X, y, n_jobs=n, max_iter=8) for n in (1, 2, 4)]
    answers = []
    for model in models:
        found = [
            model.predict_marginals(X),
            model.predict_segments(X),
            model.sample(X, 2, 0),
            model.log_likelihood(X, y),
        ]
        answers.append(pickle.dumps(found))
        model.n_jobs = None
    assert len({pickle.dumps(model) for model in models}) == 1
    assert len(set(answers)) == 1


def test_sparse_input_is_learnt_like_dense(rng):
    X, y = make_data(rng, bottom=2)
    X = [np.where(np.abs(x) < 0.5, 0.0, x) for x in X]
    thin = [sparse.csr_array(x) for x in X]
    estimator = HSCRFClassifier(
        bottom_persist=True,
        segment_features=[("sum",), ("mean", "any")],
        edge_features=ALL_EDGES,
        max_iter=15,
    )
    dense, other = quiet(estimator, X, y), quiet(estimator, thin, y)
    assert_allclose(other.loss_curve_, dense.loss_curve_, rtol=1e-6)
    for a, b in zip(dense.predict_marginals(thin), dense.predict_marginals(X), strict=True):
        assert_allclose(a[1], b[1], atol=1e-10)


@pytest.mark.parametrize("bottom_persist", [False, True])
@pytest.mark.parametrize("duration", ["geometric", "gamma", "table"])
def test_small_worlds(bottom_persist, duration, rng):
    estimator = HSCRFClassifier(bottom_persist=bottom_persist, duration=duration)
    model = estimator.fit([np.ones((1, 2))] * 2, [[["p", 1]], [["q", 2]]])
    assert model.predict([np.ones((1, 2)), np.ones((3, 2))])[1].shape == (3, 2)
    assert model.predict([np.ones((1, 2))])[0].dtype == object  # str beside int
    one = HSCRFClassifier(bottom_persist=bottom_persist, duration=duration).fit(
        [np.ones((4, 2))], [[["p", "a"]] * 4]
    )
    assert one.predict([np.ones((6, 2))])[0].tolist() == [["p", "a"]] * 6
    assert_allclose(one.log_likelihood([np.ones((3, 2))], [[["p", "a"]] * 3]), 0, atol=1e-12)
    assert one.log_likelihood([np.ones((3, 2))], [[["p", "never"]] * 3])[0] == -np.inf
    assert one.score([np.ones((3, 2))], [[["p", "never"]] * 3]) == 0.5


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_of_features_matter_little(scale, rng):
    X, y = make_data(rng, n_sequences=20)
    plain = quiet(HSCRFClassifier(C=1e5), X, y, max_iter=100)
    scaled = quiet(HSCRFClassifier(C=1e5), [scale * x for x in X], y, max_iter=100)
    assert abs(plain.score(X, y) - scaled.score([scale * x for x in X], y)) < 0.05
    constant = [np.column_stack([x, np.full(len(x), 7.0)]) for x in X]
    assert HSCRFClassifier().fit(constant, y).score(constant, y) > 0.7


# with scikit-learn's tools


def test_search_pipeline_and_scorers(rng):
    X, y = make_data(rng, n_sequences=12)
    pipeline = make_sequence_pipeline(StandardScaler(), HSCRFClassifier(max_iter=15))
    scoring = {
        "both": micro_accuracy,
        "lower": make_sequence_scorer(micro_accuracy_score, level=1),
        "upper": make_sequence_scorer(segment_f1_score, level=0),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        grid = {"hscrfclassifier__C": [0.1, 10.0], "hscrfclassifier__bottom_persist": [False, True]}
        search = GridSearchCV(pipeline, grid, cv=2, scoring=scoring, refit="lower", error_score="raise").fit(
            X, y
        )
        assert np.isfinite(cross_val_score(pipeline, X, y, cv=3)).all()
    for name in scoring:
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()
    best, inner = search.best_estimator_, search.best_estimator_["hscrfclassifier"]
    scaled = [best["standardscaler"].transform(x) for x in X]
    known = [[(1, 3, 4, "b")]] * len(X)
    for verb in ("predict_segments", "predict_marginals", "predict_boundary_proba", "predict"):
        one = getattr(best, verb)(X, y_observed=known)
        assert pickle.dumps(list(one)) == pickle.dumps(list(getattr(inner, verb)(scaled, y_observed=known)))
    assert_array_equal(best.log_likelihood(X, y), inner.log_likelihood(scaled, y))
    assert not hasattr(best, "predict_proba")


def test_score_level(rng):
    X, y = make_data(rng)
    model = HSCRFClassifier().fit(X, y)
    predicted = np.concatenate(model.predict(X))
    right = predicted == np.concatenate(y)
    assert model.score(X, y) == right.mean()
    for level in (0, 1, -1):
        assert model.set_params(score_level=level).score(X, y) == right[:, level].mean()
    assert (
        model.set_params(score_level=0).score(X, [as_segments(table, bottom=False) for table in y])
        == right[:, 0].mean()
    )
    with pytest.raises(ValueError, match="level"):
        model.set_params(score_level=2).score(X, y)
    single = HSCRFClassifier().fit(X, [table[:, 1:] for table in y])
    assert single.predict(X)[0].shape == (8, 1)
    assert single.score(X, [table[:, 1] for table in y]) == single.score(X, [table[:, 1:] for table in y])
