"""LinearChainCRF itself: worked numbers, options against their definitions, and reductions."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from worked_numbers import t1, t2, t2_partial

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.crf._held_out import held_out_split
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.objectives import ChainLogLikelihood
from sklearn_seqlab.sequences import encode_labels, pack


def with_coefficients(X, y, *, coef, transition, start, end):
    """A fitted model whose coefficients are then set by hand."""
    model = LinearChainCRF(fit_intercept=False, max_iter=100).fit(X, y)
    model.coef_, model.transition_coef_ = np.array(coef, dtype=float), np.array(transition, dtype=float)
    model.start_coef_, model.end_coef_ = np.array(start, dtype=float), np.array(end, dtype=float)
    return model


def make_data(rng, n_sequences=12, n_features=3, n_labels=3):
    """Noisy sequences whose labels persist and follow the first columns."""
    X, y = [], []
    for _ in range(n_sequences):
        n_steps = rng.integers(2, 8)
        codes = np.repeat(rng.integers(0, n_labels, n_steps), 2)[:n_steps]
        X.append(rng.normal(size=(n_steps, n_features)) + np.eye(n_labels, n_features)[codes])
        y.append(np.array(["a", "b", "c", "d"])[codes])
    y[0][:2], y[1][:2] = ["a", "b"], ["c", "a"]
    return X, y


def all_coefficients(model):
    parts = (model.coef_, model.transition_coef_, model.edge_coef_, model.start_coef_, model.end_coef_)
    flat = np.concatenate(
        [part.toarray().ravel() if sparse.issparse(part) else part.ravel() for part in parts]
    )
    return np.where(np.isfinite(flat), flat, 0.0)


# worked numbers


def test_worked_numbers_t1():
    unary, transition, start, end, _ = t1()
    X, y = [np.eye(3)[[0, 1, 2, 0, 1]]], [[0, 1, 2, 0, 1]]
    model = with_coefficients(X, y, coef=np.eye(3), transition=transition, start=start, end=end)
    proba = model.predict_proba([unary])[0]
    assert_allclose(proba[0], [0.5317008231, 0.155993922, 0.3123052549], atol=1e-8)
    assert_allclose(proba[3], [0.4499029266, 0.3186026173, 0.231494456], atol=1e-8)
    edge = model.predict_pairwise([unary])[0]
    assert_allclose(edge[2, 0], [0.2431118918, 0.1816253664, 0.1132461508], atol=1e-8)
    ranked = model.predict_n_best([unary], 3)[0]
    assert_allclose([s for _, s in ranked], [0.6978446706, 0.5265130333, 0.5008940804], atol=1e-8)
    assert [labels.tolist() for labels, _ in ranked] == [[0] * 5, [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert_allclose(model.log_likelihood([unary], [[0] * 5]), 0.697844670609 - 4.10822851792, atol=1e-8)
    known = [0, None, {1, 2}, None, 2]
    proba = model.predict_proba([unary], y_observed=[known])[0]
    assert_allclose(proba[1], [0.6327019303, 0.149564043, 0.2177340267], atol=1e-8)
    assert_allclose(model.log_likelihood([unary], [known]), 1.58769630395 - 4.10822851792, atol=1e-8)


@pytest.mark.parametrize(("data", "nll"), [(t2, 26.3420933211), (t2_partial, 13.7641931109)])
def test_worked_likelihood_t2(data, nll):
    coef, transition, start, end = np.split(np.sin(np.arange(21) + 1), [6, 15, 18])
    model = with_coefficients(
        *t2(), coef=coef.reshape(3, 2), transition=transition.reshape(3, 3), start=start, end=end
    )
    assert_allclose(-model.log_likelihood(*data()).sum(), nll, atol=1e-8)


def test_worked_optima_t2():
    # the worked penalties are 0.5 / 2 * ||w||^2 and 0.5 * ||w||_1: C = 2, and half the objective
    X, y = t2()
    ridge = LinearChainCRF(C=2.0, fit_intercept=False, tol=1e-9).fit(X, y)
    assert_allclose(ridge.loss_curve_[-1] / 2, 15.3891222879, atol=1e-6)
    assert_allclose((all_coefficients(ridge) ** 2).sum(), 5.24328510528, atol=1e-4)
    lasso = LinearChainCRF(C=2.0, l1_ratio=1.0, fit_intercept=False, tol=1e-9).fit(X, y)
    assert_allclose(lasso.loss_curve_[-1] / 2, 17.5674627042, atol=1e-6)
    assert np.count_nonzero(np.abs(all_coefficients(lasso)) > 1e-5) == 11
    assert len(lasso.loss_curve_) == lasso.n_iter_ + 1


# options against their definitions


def test_l1_makes_weights_zero(rng):
    X, y = make_data(rng, n_features=8)
    counts = [
        np.count_nonzero(all_coefficients(LinearChainCRF(C=0.3, l1_ratio=ratio, tol=1e-6).fit(X, y)))
        for ratio in (0.0, 0.5, 1.0)
    ]
    assert counts[0] > counts[1] > counts[2] > 0
    empty = LinearChainCRF(C=1e-3, l1_ratio=1.0, tol=1e-8).fit(X, y)
    assert not all_coefficients(empty).any()
    share = np.mean(np.concatenate(y)[:, None] == empty.classes_, axis=0)
    assert_allclose(empty.predict_proba(X)[0][0], share, atol=1e-3)  # the intercept is not penalised


def test_solvers_agree(rng):
    X, y = make_data(rng)
    one, other = (LinearChainCRF(solver=solver, tol=1e-9).fit(X, y) for solver in ("lbfgs", "owlqn"))
    assert_allclose(one.coef_, other.coef_, atol=1e-4)
    with pytest.raises(ValueError, match=r"solver='lbfgs' cannot take l1_ratio > 0; use solver='owlqn'"):
        LinearChainCRF(solver="lbfgs", l1_ratio=0.5).fit(X, y)


@pytest.mark.parametrize("C", [0.2, 5.0])
def test_objective_is_penalty_and_c_times_summed_loss(rng, C):
    X, y = make_data(rng)
    model = LinearChainCRF(C=C, l1_ratio=0.25, tol=1e-7).fit(X, y)
    w = all_coefficients(model)
    penalty = 0.25 * np.abs(w).sum() + 0.75 * 0.5 * w @ w
    assert_allclose(model.loss_curve_[-1], penalty - C * model.log_likelihood(X, y).sum(), rtol=1e-10)


@pytest.mark.parametrize("cost", [0.7, np.array([[0, 1, 2], [0.5, 0, 1], [3, 0.1, 0.0]])])
def test_softmax_margin_is_its_definition(rng, cost):
    X, y = make_data(rng)
    X, y = [values[:4] for values in X], [labels[:4] for labels in y]
    model = LinearChainCRF(loss="softmax_margin", cost=cost, tol=1e-8).fit(X, y)
    table = cost * (1 - np.eye(3)) if np.ndim(cost) == 0 else cost
    loss = 0.0
    for values, labels in zip(X, y, strict=True):
        codes = np.searchsorted(model.classes_, labels)
        unary = values @ model.coef_.T + model.intercept_
        rest = (model.transition_coef_, model.start_coef_, model.end_coef_)
        plain, raised = EnumeratedChain(unary, *rest), EnumeratedChain(unary + table[codes], *rest)
        loss += raised.log_partition - plain.scores[plain.labellings.index(tuple(codes))]
    w = all_coefficients(model)
    assert_allclose(model.loss_curve_[-1], loss + 0.5 * w @ w, rtol=1e-9)


def test_softmax_margin_without_cost_is_the_likelihood(rng):
    X, y = make_data(rng)
    plain = LinearChainCRF(tol=1e-9).fit(X, y)
    margin = LinearChainCRF(loss="softmax_margin", cost=0.0, tol=1e-9).fit(X, y)
    assert_allclose(margin.coef_, plain.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (np.ones((2, 2)), r"cost has shape \(2, 2\); expected \(3, 3\)"),
        (np.ones((3, 3)), "zeros on its diagonal"),
        (np.eye(3) - 1, "nonnegative"),
    ],
)
def test_bad_costs(rng, cost, message):
    with pytest.raises(ValueError, match=message):
        LinearChainCRF(loss="softmax_margin", cost=cost).fit(*make_data(rng))


def test_class_weight_is_the_mean_weight_of_a_sequence(rng):
    X, y = make_data(rng)
    per_label = {"a": 3.0, "b": 0.5}
    weight = [np.mean([per_label.get(label, 1.0) for label in labels]) for labels in y]
    found = LinearChainCRF(class_weight=per_label).fit(X, y)
    expected = LinearChainCRF().fit(X, y, sample_weight=weight)
    assert_allclose(found.coef_, expected.coef_, rtol=1e-10)
    labels = np.concatenate(y)
    balanced = {label: len(labels) / (3 * np.sum(labels == label)) for label in "abc"}
    found, expected = (LinearChainCRF(class_weight=w).fit(X, y) for w in ("balanced", balanced))
    assert_allclose(found.coef_, expected.coef_, rtol=1e-10)
    with pytest.raises(ValueError, match=r"class_weight\['a'\] is -1"):
        LinearChainCRF(class_weight={"a": -1}).fit(X, y)


def test_class_weight_and_hidden_labels(rng):
    X, y = make_data(rng)
    per_label = {"a": 3.0, "b": 0.5}
    hidden = [[label if t else None for t, label in enumerate(labels)] for labels in y]
    singles = [[{label} if t % 2 else label for t, label in enumerate(labels)] for labels in y]
    weight = [np.mean([per_label.get(label, 1.0) for label in labels[1:]]) for labels in y]
    found = LinearChainCRF(class_weight=per_label).fit(X, hidden)
    assert_allclose(found.coef_, LinearChainCRF().fit(X, hidden, sample_weight=weight).coef_, atol=1e-6)
    found = LinearChainCRF(class_weight=per_label, tol=1e-9).fit(X, singles)
    expected = LinearChainCRF(class_weight=per_label, tol=1e-9).fit(X, y)
    assert_allclose(found.coef_, expected.coef_, atol=1e-5)


def test_forbidden_transitions_never_happen(rng):
    X, y = make_data(rng)
    allowed = np.ones((3, 3), dtype=bool)
    allowed[2, 1] = False
    y = [np.where((labels == "b") & (np.roll(labels, 1) == "c"), "c", labels) for labels in y]
    y = [labels for labels in y]
    for labels in y:
        for t in range(1, len(labels)):
            if labels[t - 1] == "c" and labels[t] == "b":
                labels[t] = "c"
    model = LinearChainCRF(allowed_transitions=allowed).fit(X, y)
    assert model.transition_coef_[2, 1] == -np.inf
    assert np.isfinite(model.transition_coef_[allowed]).all()
    new = [rng.normal(scale=5, size=(40, 3))]
    (path,) = model.predict(new)
    assert not np.any((path[:-1] == "c") & (path[1:] == "b"))
    assert not model.predict_pairwise(new)[0][:, 2, 1].any()
    assert model.log_likelihood([X[0][:2]], [["c", "b"]])[0] == -np.inf
    with pytest.raises(InfeasibleSequenceError, match="Sequence 0"):
        model.predict([X[0][:2]], y_observed=[["c", "b"]])
    y[3] = np.resize(["c", "b"], len(y[3]))
    with pytest.raises(InfeasibleSequenceError, match=r"y\[3\].*time step 1"):
        model.fit(X, y)


def test_observed_transitions_are_those_of_y():
    X, y = [np.ones((4, 1)), np.ones((2, 1))], [["a", "a", "b", None], ["b", "a"]]
    model = LinearChainCRF(allowed_transitions="observed").fit(X, y)
    assert_array_equal(np.isfinite(model.transition_coef_), [[True, True], [True, False]])
    with pytest.raises(ValueError, match=r"allowed_transitions has shape \(3, 3\).*\(2, 2\)"):
        LinearChainCRF(allowed_transitions=np.ones((3, 3), dtype=bool)).fit(X, y)
    with pytest.raises(ValueError, match="dtype float64; expected bool"):
        LinearChainCRF(allowed_transitions=np.ones((2, 2))).fit(X, y)


def test_restricted_features_and_min_count():
    X = [sparse.csr_array([[1.0, 0, 2], [0, 1, 0]]), sparse.csr_array([[1.0, 0, 0], [0, 0, 3]])]
    y = [["a", "b"], ["a", "a"]]
    model = LinearChainCRF(restrict_features=True).fit(X, y)
    assert sparse.issparse(model.coef_)
    assert_array_equal(model.coef_.toarray() != 0, [[True, False, True], [False, True, False]])
    twice = LinearChainCRF(restrict_features=True, min_count=2).fit(X, y)
    with pytest.warns(UserWarning, match="No feature occurs with any label at min_count=100 steps"):
        LinearChainCRF(restrict_features=True, min_count=100).fit(X, y)
    assert_array_equal(twice.coef_.toarray() != 0, [[True, False, True], [False, False, False]])
    hidden = LinearChainCRF(restrict_features=True).fit(X, [["a", "b"], ["a", None]])
    assert_array_equal(hidden.coef_.toarray()[:, 2] != 0, [True, True])
    assert not sparse.issparse(LinearChainCRF(restrict_features="auto").fit(X, y).coef_)
    assert not sparse.issparse(LinearChainCRF().fit(X, y).coef_)


def test_restricted_to_all_pairs_is_unrestricted(rng):
    X, y = make_data(rng, n_sequences=20)
    dense, restricted = (LinearChainCRF(restrict_features=r, tol=1e-9).fit(X, y) for r in (False, True))
    assert restricted.coef_.nnz == dense.coef_.size
    assert_allclose(restricted.coef_.toarray(), dense.coef_, atol=1e-5)
    for a, b in zip(restricted.predict_proba(X), dense.predict_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-5)


def test_transition_features_learn_what_moves_labels(rng):
    """Planted: the label flips exactly where the first input is 1."""
    X = [np.column_stack([rng.integers(0, 2, 20), rng.normal(size=20)]).astype(float) for _ in range(30)]
    y = [np.cumsum(values[:, 0]) % 2 == 1 for values in X]
    start = [np.where(np.arange(20) == 0, labels, None) for labels in y]
    plain = LinearChainCRF(C=10.0).fit(X, y)
    model = LinearChainCRF(C=10.0, transition_features=[0]).fit(X, y)
    found = [np.concatenate(m.predict(X, y_observed=start)) for m in (plain, model)]
    truth = np.concatenate(y)
    assert np.mean(found[1] == truth) == 1.0 and np.mean(found[0] == truth) < 0.8
    assert model.edge_coef_.shape == (2, 2, 1) and model.transition_features_.tolist() == [0]
    stay, flip = model.edge_coef_[0, 0, 0], model.edge_coef_[0, 1, 0]
    assert flip - stay > 2
    everything = LinearChainCRF(transition_features="all").fit(X, y)
    assert everything.edge_coef_.shape == (2, 2, 2)
    as_csr = LinearChainCRF(C=10.0, transition_features=[0]).fit([sparse.csr_array(v) for v in X], y)
    assert_allclose(as_csr.edge_coef_, model.edge_coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("columns", "message"),
    [([3], r"holds 3\.\.3, but the columns of X are 0\.\.2"), ([-1], "holds -1"), ([0.5], "column numbers")],
)
def test_bad_transition_features(rng, columns, message):
    with pytest.raises(ValueError, match=message):
        LinearChainCRF(transition_features=columns).fit(*make_data(rng))


def test_warm_start_goes_on_from_the_last_solution(rng):
    X, y = make_data(rng)
    for options in ({}, {"restrict_features": True}, {"allowed_transitions": "observed"}, {"l1_ratio": 0.5}):
        model = LinearChainCRF(warm_start=True, **options).fit(X, y)
        first, loss = model.n_iter_, model.loss_curve_[-1]
        model.fit(X, y)
        assert model.n_iter_ < first / 2
        assert_allclose(model.loss_curve_[0], loss, rtol=1e-10)
    cold = LinearChainCRF().fit(X, y)
    n_iter = cold.n_iter_
    assert cold.fit(X, y).n_iter_ == n_iter
    other = [np.where(labels == "a", "z", labels) for labels in y]
    assert_array_equal(model.fit(X, other).classes_, ["b", "c", "z"])
    narrow = [values[:, :2] for values in X]
    assert model.fit(narrow, other).coef_.shape == (3, 2)


# what can go wrong


def test_too_few_iterations_warn(rng):
    X, y = make_data(rng)
    with pytest.warns(
        ConvergenceWarning, match="stopped after 1 iterations: max_iter was reached. Raise max"
    ):
        model = LinearChainCRF(max_iter=1).fit(X, y)
    assert model.n_iter_ == 1 and len(model.predict(X)) == len(X)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_interruption_keeps_the_best_iterate(rng, monkeypatch, l1_ratio):
    X, y = make_data(rng)
    evaluate, calls = ChainLogLikelihood.value_and_gradient, []

    def interrupted(self, coef):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return evaluate(self, coef)

    monkeypatch.setattr(ChainLogLikelihood, "value_and_gradient", interrupted)
    model = LinearChainCRF(C=2.0, l1_ratio=l1_ratio)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert 1 <= model.n_iter_ <= 6 and len(model.loss_curve_) == model.n_iter_ + 1
    assert model.loss_curve_[-1] == model.loss_curve_.min() < model.loss_curve_[0]
    w = all_coefficients(model)
    penalty = l1_ratio * np.abs(w).sum() + (1 - l1_ratio) * 0.5 * w @ w
    assert_allclose(penalty - 2 * model.log_likelihood(X, y).sum(), model.loss_curve_[-1], rtol=1e-10)
    assert len(model.predict(X)) == len(X)


def test_interruption_before_the_first_iterate_leaves_the_estimator_unfitted(rng, monkeypatch):
    def interrupted(self, coef):
        raise KeyboardInterrupt

    monkeypatch.setattr(ChainLogLikelihood, "value_and_gradient", interrupted)
    model = LinearChainCRF()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*make_data(rng))
    assert not hasattr(model, "coef_")


def test_verbose_shows_progress(rng, capsys):
    X, y = make_data(rng)
    LinearChainCRF(verbose=1).fit(X, y)
    printed = capsys.readouterr()
    assert "LinearChainCRF" in printed.out + printed.err


@pytest.mark.parametrize("largest", [1e3, 1e-3])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_features_on_any_scale(rng, largest, l1_ratio):
    X, y = make_data(rng, n_sequences=30)
    C = 1.0 if largest > 1 else 1e6  # small features need large weights
    expected = LinearChainCRF(l1_ratio=l1_ratio).fit(X, y).score(X, y)
    scaled = [values * largest for values in X]
    assert LinearChainCRF(C=C, l1_ratio=l1_ratio).fit(scaled, y).score(scaled, y) >= expected - 0.02
    mixed = [values * [1.0, largest, 1.0] for values in X]
    assert LinearChainCRF(C=C, l1_ratio=l1_ratio).fit(mixed, y).score(mixed, y) >= expected - 0.02


@pytest.mark.parametrize("size", [1e150, 1e300])
def test_huge_values_are_learnt(rng, size):
    X, y = make_data(rng)
    scaled = [values * size for values in X]
    model = LinearChainCRF().fit(scaled, y)
    assert model.score(scaled, y) > 0.8
    assert np.isfinite(np.concatenate(model.predict_proba(scaled))).all()


def test_values_near_underflow_end_in_numbers_or_a_warning(rng):
    X, y = make_data(rng)
    scaled = [values * 1e-300 for values in X]
    with np.errstate(over="ignore"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LinearChainCRF().fit(scaled, y)
    assert caught or model.score(scaled, y) > 0.3
    assert np.isfinite(all_coefficients(model)).all()
    assert np.isfinite(np.concatenate(model.predict_proba(scaled))).all()


# reductions


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_single_steps_are_logistic_regression(rng, C):
    rows = rng.normal(size=(80, 4))
    labels = np.array(["a", "b", "c"])[(rows[:, 0] + rng.normal(size=80) > 0).astype(int) + (rows[:, 1] > 0)]
    X, y = list(rows[:, None, :]), list(labels[:, None])
    model = LinearChainCRF(C=C, start_end=False, tol=1e-10).fit(X, y)
    other = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(rows, labels)
    assert_allclose(model.coef_, other.coef_, atol=1e-5)
    centred = model.intercept_ - model.intercept_.mean()
    assert_allclose(centred, other.intercept_ - other.intercept_.mean(), atol=1e-5)
    assert_allclose(np.concatenate(model.predict_proba(X)), other.predict_proba(rows), atol=1e-5)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("C", [0.5, 4.0])
def test_same_optimum_as_crfsuite(rng, tmp_path, C, l1_ratio):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = make_data(rng, n_sequences=20)
    X = [np.abs(values) for values in X]  # CRFsuite drops features whose values sum to less than zero
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c2": (1 - l1_ratio) / (2 * C),
            "c1": l1_ratio / C,
            "feature.possible_states": True,
            "feature.possible_transitions": True,
            "epsilon": 1e-7,
            "delta": 1e-9,
            "max_iterations": 5000,
        }
    )
    items = [[{f"x{k}": value for k, value in enumerate(row)} for row in values] for values in X]
    for item, labels in zip(items, y, strict=True):
        trainer.append(item, labels.tolist())
    path = str(tmp_path / "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    info = tagger.info()
    coef = [[info.state_features.get((f"x{k}", label), 0.0) for k in range(3)] for label in "abc"]
    transition = [[info.transitions.get((a, b), 0.0) for b in "abc"] for a in "abc"]

    model = LinearChainCRF(C=C, l1_ratio=l1_ratio, fit_intercept=False, start_end=False, tol=1e-9).fit(X, y)
    assert_allclose(model.coef_, coef, atol=2e-3)
    assert_allclose(model.transition_coef_, transition, atol=2e-3)
    for item, labels in zip(items, model.predict(X), strict=True):
        assert tagger.tag(item) == labels.tolist()


# stochastic steps


def many_sequences(rng, n):
    X, y = [], []
    for _ in range(n):
        codes = np.repeat(rng.integers(0, 3, 3), 2)[: rng.integers(1, 7)]
        X.append(rng.normal(size=(len(codes), 3)) + np.eye(3)[codes])
        y.append(np.array(["a", "b", "c"])[codes])
    return X, y


def test_stochastic_steps_learn_what_the_quasi_newton_solver_learns(rng):
    X, y = many_sequences(rng, 300)
    exact = LinearChainCRF(C=0.1, solver="lbfgs", tol=1e-6).fit(X, y)
    model = LinearChainCRF(C=0.1, solver="sgd", tol=1e-6, random_state=0).fit(X, y)
    likelihood = exact.log_likelihood(X, y).sum(), model.log_likelihood(X, y).sum()
    assert abs(likelihood[1] / likelihood[0] - 1) < 0.01
    assert_allclose(model.coef_, exact.coef_, atol=0.1)
    assert len(model.loss_curve_) == model.n_iter_ + 1
    again = LinearChainCRF(C=0.1, solver="sgd", tol=1e-6, random_state=0, n_jobs=2).fit(X, y)
    assert_array_equal(again.coef_, model.coef_)


def test_many_sequences_are_first_gone_through_one_by_one(rng):
    X, y = many_sequences(rng, 1000)
    exact = LinearChainCRF(solver="lbfgs", tol=1e-8).fit(X, y)
    model = LinearChainCRF(tol=1e-8).fit(X, y)
    assert model.loss_curve_[0] < 0.6 * exact.loss_curve_[0]
    assert model.loss_curve_[-1] == pytest.approx(exact.loss_curve_[-1], rel=1e-9)
    assert_allclose(model.coef_, exact.coef_, atol=1e-3)
    assert_array_equal(LinearChainCRF(tol=1e-8, n_jobs=2).fit(X, y).coef_, model.coef_)
    # nothing of the kind where the objective is not convex, or the start is given
    hidden = [[None] * len(y[0]), y[1].astype(object), *y[2:]]
    hidden[1][0] = None
    assert LinearChainCRF().fit(X, hidden).loss_curve_[0] >= 0.9 * exact.loss_curve_[0]
    model.set_params(warm_start=True).fit(X, y)
    assert model.n_iter_ <= 3


def test_stochastic_steps_refuse_what_they_cannot_take(rng):
    X, y = many_sequences(rng, 5)
    with pytest.raises(ValueError, match=r"solver='sgd' cannot take l1_ratio > 0"):
        LinearChainCRF(solver="sgd", l1_ratio=0.5).fit(X, y)
    with pytest.raises(ValueError, match="takes no transition_features"):
        LinearChainCRF(solver="sgd", transition_features="all").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="largest number of passes, 2"):
        LinearChainCRF(solver="sgd", max_iter=2).fit(X, y)


# streams


def test_a_stream_comes_near_the_fit_on_all_of_it(rng):
    X, y = many_sequences(rng, 2000)
    whole = LinearChainCRF(solver="lbfgs").fit(X, y)
    model = LinearChainCRF(random_state=0)
    for first in range(0, 2000, 200):
        model.partial_fit(X[first : first + 200], y[first : first + 200], classes=["a", "b", "c"])
    assert model.n_iter_ == len(model.loss_curve_) == 10
    assert model.loss_curve_[-1] < 1.2 * whole.loss_curve_[-1] / 2000
    assert model.score(X, y) > whole.score(X, y) - 0.03
    assert whole.log_likelihood(X, y).mean() - model.log_likelihood(X, y).mean() < 0.1


def test_a_call_of_one_sequence_is_one_step(rng):
    X, y = many_sequences(rng, 30)
    model = LinearChainCRF(random_state=0).partial_fit(X, y)
    before = model.coef_.copy()
    model.partial_fit(X[:1], y[:1])
    batch = pack(X[:1])
    labels = encode_labels(y[:1], batch.offsets, classes=model.classes_)
    objective = ChainLogLikelihood(
        batch, labels, weight=np.ones(1), allowed_transitions=np.ones((3, 3), dtype=bool)
    )
    eta = model._stream["eta"]
    gradient = objective.value_and_gradient(np.zeros(objective.n_coef))[1]
    assert gradient.shape == (objective.n_coef,) and eta > 0
    assert np.abs(model.coef_ - before).max() < 2 * eta
    assert model._stream["n_steps"] == 31


def test_a_stream_may_lack_labels_and_features_at_first(rng):
    X, y = many_sequences(rng, 60)
    short = [np.where(np.arange(3) < 2, values, 0.0) for values in X[:10]]
    model = LinearChainCRF(random_state=0).partial_fit(
        short, [["a"] * len(labels) for labels in y[:10]], classes=["c", "b", "a"]
    )
    assert model.classes_.tolist() == ["a", "b", "c"]
    for _ in range(10):
        model.partial_fit(X, [[None, *labels[1:]] if len(labels) > 1 else labels for labels in y])
    assert model.score(X, y) > 0.5
    # and a fit, or another stream's first call, begins anew
    fitted = clone(model).fit(X, y)
    assert_array_equal(model.fit(X, y).coef_, fitted.coef_)
    model.partial_fit(X, y)
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l1_ratio": 0.5}, "l1_ratio > 0"),
        ({"class_weight": "balanced"}, "needs all the data"),
        ({"restrict_features": True}, "need all the data"),
        ({"allowed_transitions": "observed"}, "need all the data"),
        ({"transition_features": "all"}, "no transition_features"),
    ],
)
def test_streams_refuse_what_needs_all_the_data(options, message, rng):
    X, y = many_sequences(rng, 5)
    with pytest.raises(ValueError, match=message):
        LinearChainCRF(**options).partial_fit(X, y)


def test_a_bad_part_leaves_a_stream_as_it_was(rng):
    X, y = many_sequences(rng, 30)
    model = LinearChainCRF(random_state=0).partial_fit(X, y)
    before = pickle.dumps(model)
    for bad_X, bad_y, options in (
        (X, [["z"] * len(labels) for labels in y], {}),
        ([values[:, :2] for values in X], y, {}),
        ([np.full_like(values, np.nan) for values in X], y, {}),
        (X, [[None] * len(labels) for labels in y], {}),
        (X, y, {"classes": ["a", "b"]}),
        (X, y, {"sample_weight": np.zeros(30)}),
    ):
        with pytest.raises(ValueError):
            model.partial_fit(bad_X, bad_y, **options)
        assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="start_end is no longer"):
        model.set_params(start_end=False).partial_fit(X, y)


# early stopping


@pytest.mark.parametrize("params", [{}, {"l1_ratio": 0.3}, {"solver": "sgd"}, {"loss": "marginal"}])
def test_the_iteration_with_the_least_held_out_loss_is_kept(params, rng):
    X, y = make_data(rng, 30)
    X = [np.hstack([x, rng.normal(size=(len(x), 40))]) for x in X]  # noise to overfit
    options = {"C": 1e3, "tol": 1e-6, "random_state": 0} | params
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearChainCRF(validation_fraction=0.3, n_iter_no_change=4, max_iter=60, **options).fit(X, y)
        whole = LinearChainCRF(max_iter=60, **options).fit(X, y)
    losses = model.validation_loss_
    assert model.n_iter_ == np.argmin(losses)
    assert len(losses) == len(model.loss_curve_) and len(losses) - 1 - model.n_iter_ <= 4
    assert len(losses) < len(whole.loss_curve_)
    assert not len(whole.validation_loss_)
    # the loss is that of the sequences left out, which a fit on the others tells
    _, held_out = held_out_split(
        np.ones(30), encode_labels(y, pack(X).offsets), 0.3, np.random.RandomState(0)
    )
    held = [X[s] for s in held_out], [y[s] for s in held_out]
    if "loss" not in params:
        assert losses.min() == pytest.approx(-model.log_likelihood(*held).mean())
    kept = sorted(set(range(30)) - set(held_out.tolist()))
    rest = clone(whole).set_params(max_iter=max(1, model.n_iter_))
    if params.get("solver") != "sgd":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rest.fit([X[s] for s in kept], [y[s] for s in kept])
        assert_allclose(rest.coef_, model.coef_, atol=1e-8)


def test_held_out_shares_follow_sparse_and_weighted_data(rng):
    X, y = make_data(rng, 12)
    X = [sparse.csr_array(np.where(x > 0.3, x, 0)) for x in X]
    weight = np.arange(12.0)
    model = LinearChainCRF(restrict_features=True, validation_fraction=0.4, random_state=1).fit(X, y, weight)
    _, held_out = held_out_split(weight, encode_labels(y, pack(X).offsets), 0.4, np.random.RandomState(1))
    loss = -model.log_likelihood([X[s] for s in held_out], [y[s] for s in held_out])
    assert model.validation_loss_.min() == pytest.approx(np.average(loss, weights=weight[held_out]))
    with pytest.raises(ValueError, match="needs at least 2 sequences"):
        LinearChainCRF(validation_fraction=0.5).fit(X[:1], y[:1])


def test_sparse_scores_are_products_for_many_and_for_few_sequences(rng):
    node = sparse.random(5, 400, density=0.3, format="csr", random_state=0)
    node.data[:7] = 0.0
    dense = node.toarray()
    dense[:, 3] = rng.normal(size=5)  # a weight for every label
    node = sparse.csr_array(dense)
    rows = sparse.csr_array(sparse.random(300, 400, density=0.1, format="csr", random_state=1))
    rows.indices[:1] = 3
    for X in ([rows], [rows[:1]], [sparse.csr_array((2, 400))]):
        batch = pack(X)
        score = LinearChainCRF._score_source(batch, node)
        n = batch.n_total
        for start, stop in ((0, n), (n // 2, n), (0, 0)):
            assert_array_equal(score(start, stop), (batch.values[start:stop] @ node.T).toarray())
