"""SemiCRF: solvers, weights, threads, kinds of input, and scikit-learn's tools."""

import pickle
import warnings

import numpy as np
import pytest
from fitted_hierarchies import objective
from labelled_segments import TIGHT, as_ends, as_segments, make_data
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import SemiCRF
from sklearn_seqlab.metrics import log_likelihood, segment_f1
from sklearn_seqlab.preprocessing import make_sequence_pipeline


@pytest.mark.parametrize("solver", ["sgd", "adagrad"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_stochastic_solvers_come_near_the_optimum(solver, batch_size, rng):
    X, y = make_data(rng, n_sequences=16)
    exact = SemiCRF(duration="gamma", tol=1e-8).fit(X, y)
    model = SemiCRF(
        duration="gamma", solver=solver, batch_size=batch_size, max_iter=40, tol=1e-4, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
        again = SemiCRF(**model.get_params()).fit(X, y)
    optimum = exact.loss_curve_[-1]
    # plain steps on batches are few, and the biases, which no penalty pulls, are slow to follow
    share = 0.03 if (solver, batch_size) == ("sgd", 4) else 0.01
    assert objective(model, X, y) <= optimum + share * (exact.loss_curve_[0] - optimum)
    assert_array_equal(again.coef_["unary"][0], model.coef_["unary"][0])


@pytest.mark.parametrize("solver", ["lbfgs", "sgd", "adagrad"])
def test_too_few_iterations_warn(solver, rng):
    X, y = make_data(rng)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations.*max_iter"):
        model = SemiCRF(solver=solver, max_iter=2, tol=0.0, random_state=0).fit(X, y)
    assert model.n_iter_ == 2
    assert len(model.loss_curve_) == 3 or solver != "lbfgs"


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
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
    model = SemiCRF(solver=solver, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.n_iter_ >= 1
    assert objective(model, X, y) < model.loss_curve_[0]
    assert_allclose(objective(model, X, y), min(model.loss_curve_), rtol=1e-9)


def test_warm_start_goes_on(rng):
    X, y = make_data(rng)
    model = SemiCRF(warm_start=True, C=3.0).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 1 < first
    assert_allclose(model.loss_curve_[0], SemiCRF(C=3.0).fit(X, y).loss_curve_[-1], rtol=1e-6)
    model.set_params(duration="gamma").fit(X, y)  # other blocks: from the start
    assert_array_equal(
        model.coef_["duration"][0], SemiCRF(duration="gamma", C=3.0).fit(X, y).coef_["duration"][0]
    )
    model.fit([x[:, :2] for x in X], y)
    assert model.n_features_in_ == 2


def test_weights_are_repetitions_and_zero_is_absence(rng):
    X, y = make_data(rng)
    y[3] = [None, *y[3][1:].tolist()]
    # the sequence of weight zero has nothing that others lack
    weighted = SemiCRF(max_duration=5, **TIGHT).fit(
        X + X[:1], y + y[:1], sample_weight=[3, 2, 1] + [1] * 9 + [0]
    )
    repeated = SemiCRF(max_duration=5, **TIGHT).fit(X + X[:2] + X[:1], y + y[:2] + y[:1])
    for a, b in zip(weighted.predict_proba(X), repeated.predict_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-4)
    assert_allclose(weighted.loss_curve_[-1], repeated.loss_curve_[-1], rtol=1e-8)


def test_jobs_change_no_bit(rng, monkeypatch):
    from sklearn_seqlab import _parallel

    monkeypatch.setattr(_parallel, "_CHUNK_SIZE", 500)
    X, y = make_data(rng)
    X = [x[: 2 + s % 8] for s, x in enumerate(X)]
    y = [labels[: len(x)] for x, labels in zip(X, y, strict=True)]
    for options in (
        {},
        {"segment_features": ("mean", "any")},
        {"solver": "adagrad", "max_iter": 5, "random_state": 1},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models = [SemiCRF(n_jobs=n, **options).fit(X, y) for n in (1, 2, 4)]
        answers = []
        for model in models:
            answers.append(
                pickle.dumps([list(model.predict_proba(X)), model.predict_segments(X), model.sample(X, 2, 0)])
            )
            model.n_jobs = None
        assert len({pickle.dumps(model) for model in models}) == 1
        assert len(set(answers)) == 1


def test_sparse_input_is_learnt_like_dense(rng):
    X, y = make_data(rng)
    X = [np.where(np.abs(x) < 0.5, 0.0, x) for x in X]
    options = {
        "segment_features": ("sum", "mean", "any"),
        "edge_features": ("start", "end", "transition"),
        **TIGHT,
    }
    dense = SemiCRF(**options).fit(X, y)
    thin = SemiCRF(**options).fit([sparse.csr_array(x) for x in X], y)
    assert_allclose(thin.loss_curve_[-1], dense.loss_curve_[-1], rtol=1e-8)
    for a, b in zip(
        dense.predict_proba([sparse.csr_matrix(x) for x in X]), dense.predict_proba(X), strict=True
    ):
        assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"duration": "gamma"}, {"segment_features": ("mean", "any")}])
def test_small_worlds(options, rng):
    single = SemiCRF(**options).fit([np.ones((1, 2))] * 3, [["a"], ["b"], ["a"]])
    assert single.predict([np.ones((1, 2))])[0].tolist() == ["a"]
    assert single.predict_segments([np.ones((4, 2))])[0][-1][1] == 4
    one = SemiCRF(**options).fit([np.ones((4, 2)), np.ones((1, 2))], [["a"] * 4, ["a"]])
    assert one.predict_segments([np.ones((9, 2))]) == [[(0, 9, "a")]]
    assert_allclose(one.predict_proba([np.ones((3, 2))])[0], 1)
    assert_allclose(one.log_likelihood([np.ones((3, 2))], [["a"] * 3]), 0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_whether_an_input_occurs_has_no_unit(scale, rng):
    X, y = make_data(rng)
    X = [np.where(np.abs(x) < 0.7, 0.0, x) for x in X]
    plain, scaled = (
        SemiCRF(segment_features=("any",)).fit([unit * x for x in X], y) for unit in (1.0, scale)
    )
    assert_allclose(scaled.loss_curve_[-1], plain.loss_curve_[-1], rtol=1e-9)
    assert_allclose(scaled.coef_["any"][0], plain.coef_["any"][0], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("options", [{}, {"segment_features": ("mean",), "edge_features": ("start", "end")}])
def test_units_of_features_matter_little(scale, options, rng):
    X, y = make_data(rng, n_sequences=30)
    plain = SemiCRF(C=1e6, **options).fit(X, y)  # hardly a penalty: the optimum has no unit
    scaled = SemiCRF(C=1e6, **options).fit([scale * x for x in X], y)
    gap = plain.score(X, y) - scaled.score([scale * x for x in X], y)
    assert abs(gap) < 0.05
    constant = SemiCRF(**options).fit([np.column_stack([x, np.full(len(x), 7.0)]) for x in X], y)
    assert np.isfinite(constant.loss_curve_).all()
    assert constant.score([np.column_stack([x, np.full(len(x), 7.0)]) for x in X], y) > 0.6


# with scikit-learn's tools


def test_search_and_pipeline(rng):
    X, y = make_data(rng, n_sequences=16)
    pipeline = make_sequence_pipeline(StandardScaler(), SemiCRF(max_iter=30))
    grid = {"semicrf__C": [0.1, 10.0], "semicrf__duration": ["gamma", "table"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(pipeline, grid, cv=2, scoring=log_likelihood, error_score="raise").fit(X, y)
        assert np.isfinite(cross_val_score(pipeline, X, y, cv=2, scoring=segment_f1)).all()
    best, inner = search.best_estimator_, search.best_estimator_["semicrf"]
    scaled = [best["standardscaler"].transform(x) for x in X]
    known = [[(1, 3, "b")]] * len(X)
    for verb in (
        "predict_segments",
        "predict_marginals",
        "predict_boundary_proba",
        "predict_proba",
        "predict",
    ):
        for a, b in zip(
            getattr(best, verb)(X, y_observed=known),
            getattr(inner, verb)(scaled, y_observed=known),
            strict=True,
        ):
            assert_array_equal(np.array(a, dtype=object), np.array(b, dtype=object))
    assert_allclose(best.log_likelihood(X, y), inner.log_likelihood(scaled, y))
    assert best.score(X, y) == inner.score(scaled, y)


def test_score_takes_every_form(rng):
    X, y = make_data(rng)
    model = SemiCRF().fit(X, y)
    expected = np.mean(np.concatenate(model.predict(X)) == np.concatenate(y))
    assert model.score(X, y) == expected
    assert model.score(X, [as_segments(labels) for labels in y]) == expected
    assert model.score(X, [(labels, as_ends(labels)) for labels in y]) == expected
    first = model.score(X, [[labels[0].item()] + [None] * 8 for labels in y])
    assert first == np.mean([a[0] == b[0] for a, b in zip(model.predict(X), y, strict=True)])
    assert model.score(X, [["z"] * 9] * 12) == 0


@pytest.mark.parametrize("self_transitions", [False, True])
def test_observed_durations_reach_the_longest_stretch_of_a_label(self_transitions, rng):
    y = [list("aaabbbccc"), list("abcabcabc")]
    X = [rng.normal(size=(9, 2)) for _ in y]
    model = SemiCRF(self_transitions=self_transitions, tol=1e-2).fit(X, y)
    assert model.max_duration_ == 3
    known = [(labels, [0, 1, 1] * 3) for labels in (list("aaabbbccc"), list("aabbbaccc"))]
    if self_transitions:  # ends that are known part the stretch
        assert SemiCRF(self_transitions=True, tol=1e-2).fit(X, known[:1] * 2).max_duration_ == 2
