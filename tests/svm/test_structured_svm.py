"""StructuredSVM itself: worked numbers, the objective by enumeration, solvers, starts, hidden labels, streams."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from worked_numbers import t2

from sklearn_seqlab import LinearChainCRF, StructuredPerceptron, StructuredSVM
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import PackedChains, margin_violations, slack_violations


def weights_of(model):
    parts = (model.coef_, model.transition_coef_, model.edge_coef_, model.start_coef_, model.end_coef_)
    flat = np.concatenate([p.toarray().ravel() if sparse.issparse(p) else p.ravel() for p in parts])
    return np.concatenate([np.where(np.isfinite(flat), flat, 0.0), model.intercept_])


def slacks_by_enumeration(model, X, y, rescaling, cost):
    """``cost(true, labelling)`` for labellings as codes."""
    slacks = []
    for x, labels in zip(X, y, strict=True):
        codes = np.searchsorted(model.classes_, labels)
        unary = x @ model.coef_.T + model.intercept_
        oracle = EnumeratedChain(unary, model.transition_coef_, model.start_coef_, model.end_coef_)
        true = oracle.scores[oracle.labellings.index(tuple(codes.tolist()))]
        costs = np.array([cost(codes, np.array(other)) for other in oracle.labellings])
        with np.errstate(invalid="ignore"):
            value = (
                costs + oracle.scores - true if rescaling == "margin" else costs * (1 + oracle.scores - true)
            )
        slacks.append(max(0.0, np.nanmax(value)))
    return np.array(slacks)


def share_of_errors(true, other):
    return np.mean(true != other)


@pytest.fixture
def data(rng):
    X, y = [], []
    for _ in range(12):
        n_steps = rng.integers(2, 6)
        codes = np.repeat(rng.integers(0, 3, n_steps), 2)[:n_steps]
        X.append(rng.normal(size=(n_steps, 3)) + np.eye(3)[codes])
        y.append(np.array(["a", "b", "c"])[codes])
    y[0][:2], y[1][:2] = ["a", "b"], ["c", "a"]
    return X, y


# worked numbers


@pytest.mark.parametrize(("rescaling", "optimum"), [("margin", 4.14189752173), ("slack", 4.2161240875)])
@pytest.mark.parametrize("solver", ["working_set", "one_slack"])
def test_worked_optima_t4(rescaling, optimum, solver):
    X, y = t2()
    model = StructuredSVM(
        C=5.0,
        rescaling=rescaling,
        solver=solver,
        fit_intercept=False,
        tol=1e-9,
        max_iter=1000,
        random_state=0,
    ).fit(X, y)
    assert_allclose(model.objective_, optimum, atol=1e-6)
    assert 0 <= model.duality_gap_ <= 1e-9 * model.objective_


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize(("solver", "tol"), [("bcfw", 2e-2), ("subgradient", 3e-2)])
def test_worked_optima_t4_to_the_gap(rescaling, solver, tol):
    optimum = {"margin": 4.14189752173, "slack": 4.2161240875}[rescaling]
    X, y = t2()
    model = StructuredSVM(
        C=5.0, rescaling=rescaling, solver=solver, fit_intercept=False, tol=tol, max_iter=500, random_state=0
    ).fit(X, y)
    assert optimum - 1e-6 <= model.objective_ <= optimum + model.duality_gap_ + 1e-6
    assert model.duality_gap_ <= tol * model.objective_


def test_worked_violations_t4():
    X, y = t2()
    coef, transition, start, end = np.split(np.sin(np.arange(21) + 1), [6, 15, 18])
    unary = X[2] @ coef.reshape(3, 2).T
    unary[0] += start
    unary[-1] += end
    chains = PackedChains(unary, transition.reshape(3, 3), np.array([0, 5]))
    is_error = np.arange(3) != y[2][:, None]
    true_score = chains.score_of(y[2])
    assert_allclose(margin_violations(chains, is_error / 5, true_score).value, 4.5165597207, atol=1e-8)
    found = slack_violations(chains, is_error, np.array([0.2]), true_score)
    assert_allclose(found.value, 3.77324777656, atol=1e-8)
    assert found.codes.tolist() == [0, 2, 2, 2, 2]


# the objective against its definition


COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("rescaling", "loss", "cost"),
    [
        ("margin", "hamming", share_of_errors),
        ("margin", "hamming_sum", lambda true, other: np.sum(true != other)),
        ("margin", COST, lambda true, other: COST[true, other].sum()),
        ("slack", "hamming", share_of_errors),
        ("slack", "hamming_sum", lambda true, other: np.sum(true != other)),
    ],
)
@pytest.mark.parametrize("restrict", [False, True])
def test_objective_is_that_of_the_paper(rescaling, loss, cost, restrict, data):
    X, y = data
    weight = np.linspace(0.5, 2.0, len(X))
    options = {"allowed_transitions": "observed", "restrict_features": restrict}
    model = StructuredSVM(C=3.0, rescaling=rescaling, loss=loss, random_state=0, **options)
    model.fit([sparse.csr_array(x) for x in X] if restrict else X, y, sample_weight=weight)
    if restrict:
        model.coef_ = model.coef_.toarray()
    slacks = slacks_by_enumeration(model, X, y, rescaling, cost)
    expected = 0.5 * (weights_of(model) ** 2).sum() + 3.0 * (weight @ slacks) / weight.sum()
    assert_allclose(model.objective_, expected, rtol=1e-9)
    if rescaling == "slack":
        assert_allclose(model.slack_bounds_, np.stack([slacks, slacks], axis=1), atol=1e-9)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_features_on_moves(as_sparse, data):
    X, y = data
    dense = StructuredSVM(C=10.0, transition_features="all", tol=1e-7, max_iter=1000, random_state=0).fit(
        X, y
    )
    X = [sparse.csr_array(x) for x in X] if as_sparse else X
    other = StructuredSVM(C=10.0, transition_features="all", solver="one_slack", tol=1e-7, max_iter=1000).fit(
        X, y
    )
    assert_allclose(dense.objective_, other.objective_, rtol=1e-6)
    assert_allclose(dense.edge_coef_, other.edge_coef_, atol=2e-3)
    assert np.abs(dense.edge_coef_).max() > 0.01


def test_cost_by_labels_and_the_slacks_they_refuse(data):
    X, y = data
    one = StructuredSVM(loss={("a", "b"): 5.0}, random_state=0).fit(X, y)
    matrix = np.array([[0.0, 5.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    other = StructuredSVM(loss=matrix, random_state=0).fit(X, y)
    assert_array_equal(one.coef_, other.coef_)
    with pytest.raises(ValueError, match="rescaling='slack' needs loss='hamming'"):
        StructuredSVM(loss=matrix, rescaling="slack").fit(X, y)
    with pytest.raises(ValueError, match="loss must be finite and nonnegative"):
        StructuredSVM(loss=matrix + 1).fit(X, y)


def test_long_sequences_are_certified_by_the_upper_bound(data):
    X, y = data
    exact, searched = (
        StructuredSVM(C=20.0, rescaling="slack", exact_length=n, random_state=0, tol=1e-5, max_iter=300)
        for n in (500, 0)
    )
    exact.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # bounds that never meet keep the gap open
        searched.fit(X, y)
    low, high = searched.slack_bounds_.T
    assert (low <= high).all()
    assert searched.objective_ >= exact.objective_ - exact.duality_gap_ - 1e-9
    assert searched.duality_gap_ >= 0


# how it learns


@pytest.mark.parametrize("solver", ["working_set", "bcfw", "one_slack", "subgradient"])
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_curves_bound_each_other(solver, rescaling, data):
    X, y = data
    model = StructuredSVM(C=30.0, solver=solver, rescaling=rescaling, tol=0.2, max_iter=300, random_state=0)
    model.fit(X, y)
    assert model.duality_gap_ >= 0
    assert len(model.loss_curve_) == len(model.dual_curve_) == model.n_iter_ + 1
    assert (np.diff(model.loss_curve_) <= 0).all()
    assert model.dual_curve_.max() <= model.objective_
    assert model.n_oracle_calls_ >= model.n_iter_ * len(X)


@pytest.mark.parametrize("solver", ["working_set", "bcfw", "one_slack"])
def test_warm_start_goes_on(solver, data):
    X, y = data
    options = {"solver": solver, "tol": 2e-2, "max_iter": 500, "random_state": 0}
    model = StructuredSVM(C=2.0, warm_start=True, **options).fit(X, y)
    calls = model.fit(X, y).n_oracle_calls_
    assert calls < StructuredSVM(C=2.0, **options).fit(X, y).n_oracle_calls_
    model.set_params(C=4.0).fit(X, y)
    cold = StructuredSVM(C=4.0, **options).fit(X, y)
    assert model.n_oracle_calls_ <= cold.n_oracle_calls_
    assert abs(model.objective_ - cold.objective_) <= 2e-2 * cold.objective_
    other = [x + 1 for x in X]
    fresh = StructuredSVM(C=4.0, **options).fit(other, y)
    assert_array_equal(model.fit(other, y).coef_, fresh.coef_)  # other data: nothing to go on from


def test_hidden_labels_are_completed(rng):
    X, y, hidden = [], [], []
    for _ in range(30):
        codes = np.repeat(rng.integers(0, 3, 4), 3)
        X.append(rng.normal(size=(12, 3), scale=0.7) + 2 * np.eye(3)[codes])
        y.append(np.array(["a", "b", "c"])[codes])
        hidden.append([label if rng.random() < 0.5 else None for label in y[-1].tolist()])
    model = StructuredSVM(C=10.0, random_state=0).fit(X, hidden)
    full = StructuredSVM(C=10.0, random_state=0).fit(X, y)
    assert model.score(X, y) > full.score(X, y) - 0.03
    assert (np.diff(model.loss_curve_) <= 1e-12).all()  # completing and fitting only lower the objective
    sets = [[{label, "a"} for label in labels.tolist()] for labels in y]
    StructuredSVM(C=10.0, random_state=0).fit([*X, *X[:3]], [*y, *sets[:3]])
    with pytest.raises(ValueError, match=r"y\[0\]\[\d+\] is not one known label. Use partial='latent'"):
        StructuredSVM(partial="error").fit(X, hidden)


def test_hidden_steps_cost_nothing(data):
    X, y = data
    hidden = [
        [label if t % 2 == s % 2 else None for t, label in enumerate(labels.tolist())]
        for s, labels in enumerate(y)
    ]
    hidden[0][0] = {"a", "b"}
    model = StructuredSVM(C=5.0, loss="hamming_sum", random_state=0).fit(X, hidden)
    slacks = []
    for x, labels in zip(X, hidden, strict=True):
        fits = np.array([[known is None or c in known for c in model.classes_] for known in labels])
        oracle = EnumeratedChain(
            x @ model.coef_.T + model.intercept_, model.transition_coef_, model.start_coef_, model.end_coef_
        )
        rows = np.arange(len(labels))
        wrong = np.array([np.sum(~fits[rows, list(other)]) for other in oracle.labellings])
        slacks.append(np.max(wrong + oracle.scores) - oracle.scores[wrong == 0].max())
    value = 0.5 * (weights_of(model) ** 2).sum() + 5.0 * np.mean(slacks)
    # the last completion may not be the best at the last weights, but nearly
    assert value - 1e-9 <= model.objective_ <= 1.002 * value


def test_hidden_labels_that_do_not_matter(data):
    # where the candidates are one label each, nothing is hidden; a sequence of unknowns adds nothing
    X, y = data
    plain = StructuredSVM(random_state=0).fit(X, y)
    more = StructuredSVM(random_state=0).fit([*X, X[0]], [*y, [None] * len(X[0])])
    assert_array_equal(plain.coef_, more.coef_)


def test_errors_name_the_sequence(data):
    X, y = data
    with pytest.raises(InfeasibleSequenceError, match=r"y\[0\] moves from 'a' to 'b' at time step 1"):
        StructuredSVM(allowed_transitions={"a": {"a", "c"}, "b": set("abc"), "c": set("abc")}).fit(X, y)
    partial = [["a", None, "b"], *y]
    allowed = {"a": {"a"}, "b": set("abc"), "c": set("abc")}
    kept = [k for k, labels in enumerate(y) if not any(p == "a" != q for p, q in pairwise(labels))]
    with pytest.raises(InfeasibleSequenceError, match="Sequence 0 has no feasible labelling"):
        StructuredSVM(allowed_transitions=allowed).fit(
            [np.zeros((3, 3)), *(X[k] for k in kept)], [partial[0], *(y[k] for k in kept)]
        )
    huge = [1e200 * x for x in X]
    with pytest.raises(ValueError, match="beyond"):
        StructuredSVM().fit(huge, y)


@pytest.mark.parametrize("solver", ["working_set", "bcfw", "one_slack", "subgradient"])
def test_interrupted_fit_keeps_what_it_has(solver, data, monkeypatch):
    def interrupt(self, iteration, value):
        if iteration == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("sklearn_seqlab._progress.Progress.__call__", interrupt)
    model = StructuredSVM(C=50.0, solver=solver, tol=0.0, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert model.n_iter_ == 3
    # zero has a lower objective than what three passes have found, but it is no answer
    slacks = slacks_by_enumeration(model, *data, "margin", share_of_errors)
    assert_allclose(model.objective_, 0.5 * (weights_of(model) ** 2).sum() + 50.0 * slacks.mean(), rtol=1e-9)
    assert model.coef_.any() and model.score(*data) > 0.4
    assert_allclose(model.duality_gap_, model.objective_ - model.dual_curve_.max(), rtol=1e-6)


# streams and the perceptron


def test_partial_fit_is_the_first_pass_of_the_subgradient_solver(data):
    X, y = data
    stream = StructuredSVM(C=5.0, average=False)
    for x, labels in zip(X, y, strict=True):
        stream.partial_fit([x], [labels], classes=["a", "b", "c"])
    at_once = StructuredSVM(C=5.0, average=False).partial_fit(X, y)
    assert_allclose(stream.coef_, at_once.coef_, atol=1e-12)
    averaged = (
        StructuredSVM(C=5.0).partial_fit(X[:5], y[:5], classes=["a", "b", "c"]).partial_fit(X[5:], y[5:])
    )
    assert_allclose(averaged.coef_, StructuredSVM(C=5.0).partial_fit(X, y).coef_, atol=1e-12)
    for _ in range(300):
        averaged.partial_fit(X, y)
    best = StructuredSVM(C=5.0, random_state=0).fit(X, y)
    slacks = slacks_by_enumeration(averaged, X, y, "margin", share_of_errors)
    value = 0.5 * (weights_of(averaged) ** 2).sum() + 5.0 * slacks.mean()
    assert best.objective_ * 0.999 <= value <= 1.05 * best.objective_
    with pytest.raises(ValueError, match=r"y\[0\]\[0\] is 'z'"):
        averaged.partial_fit([X[0]], [["z"] * len(X[0])])
    with pytest.raises(ValueError, match="restrict_features"):
        StructuredSVM(restrict_features=True).partial_fit(X, y)
    assert averaged.fit(X, y).duality_gap_ >= 0


def test_perceptron_by_hand():
    X, y = [np.array([[1.0], [0.0]])], [["b", "a"]]
    model = StructuredPerceptron(max_iter=1, average=False, fit_intercept=False, start_end=False).fit(X, y)
    # all scores are equal at first, and ties go to the smallest label: a, a is taken off
    assert_array_equal(model.coef_, [[-1.0], [1.0]])
    assert_array_equal(model.transition_coef_, [[-1.0, 0.0], [1.0, 0.0]])
    assert_array_equal(model.loss_curve_, [1.0])
    more = StructuredPerceptron(max_iter=10).fit(X, y)
    assert more.n_iter_ < 10 and more.loss_curve_[-1] == 0 and more.score(X, y) == 1.0


def test_passes_without_a_mistake_count_in_the_average():
    X, y = [np.array([[0.0], [0.2], [0.9]]), np.array([[1.0], [0.8]])], [[0, 0, 1], [1, 1]]
    short, long = (StructuredPerceptron(max_iter=n, random_state=0).fit(X, y) for n in (10, 10**6))
    last = StructuredPerceptron(average=False, random_state=0).fit(X, y)
    assert short.n_iter_ == long.n_iter_ < 10
    assert_allclose(long.coef_, last.coef_, atol=1e-4)
    assert np.abs(short.coef_ - last.coef_).max() > 0.01


def test_perceptron_learns_like_its_peers(rng):
    X, y = [], []
    for _ in range(60):
        codes = np.repeat(rng.integers(0, 3, 4), 3)
        X.append(rng.normal(size=(12, 3)) + 1.5 * np.eye(3)[codes])
        y.append(codes)
    crf = LinearChainCRF().fit(X[:30], y[:30]).score(X[30:], y[30:])
    perceptron = StructuredPerceptron(max_iter=20, random_state=0).fit(X[:30], y[:30])
    assert perceptron.score(X[30:], y[30:]) > crf - 0.05


@pytest.mark.parametrize("solver", ["working_set", "bcfw", "one_slack"])
def test_scaled_intercepts_are_a_constant_column(solver, data):
    """An intercept of input 3 is a feature that is 3 everywhere, and its weight times 3 is the intercept."""
    X, y = data
    options = {"C": 2.0, "solver": solver, "max_iter": 150, "tol": 1e-6, "random_state": 0}
    scaled = StructuredSVM(intercept_scaling=3.0, **options)
    with_column = StructuredSVM(fit_intercept=False, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scaled.fit(X, y)
        with_column.fit([np.hstack([x, np.full((len(x), 1), 3.0)]) for x in X], y)
    assert_allclose(scaled.objective_, with_column.objective_, rtol=1e-3)
    if solver == "working_set":
        assert_allclose(scaled.intercept_, 3 * with_column.coef_[:, -1], atol=1e-2)
        assert_allclose(scaled.coef_, with_column.coef_[:, :-1], atol=1e-2)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_perceptron_takes_features_of_any_size(size, data):
    X, y = data
    plain = StructuredPerceptron(random_state=0).fit(X, y).predict(X)
    scaled = StructuredPerceptron(random_state=0).fit([size * x for x in X], y)
    for found, expected in zip(scaled.predict([size * x for x in X]), plain, strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("first", ["bcfw", "working_set"])
@pytest.mark.parametrize("second", ["bcfw", "working_set"])
def test_solvers_go_on_from_each_other(first, second, data):
    X, y = data
    options = {"tol": 1e-2, "max_iter": 1000, "random_state": 0}
    model = StructuredSVM(C=20.0, solver=first, warm_start=True, **options).fit(X, y)
    model.set_params(solver=second, C=40.0).fit(X, y)
    best = StructuredSVM(C=40.0, solver="one_slack", tol=1e-4, max_iter=1000).fit(X, y).objective_
    assert model.objective_ - model.duality_gap_ <= best * (1 + 1e-9) and model.objective_ <= 1.011 * best


def test_a_warm_start_keeps_no_planes_of_other_completions():
    """The run from C = 1 ends with completions that would change at its last weights."""
    X = [
        [[-0.1, 0.03], [0.21, -0.05]],
        [[-0.9, 0.48], [0.51, -0.04], [-0.44, 0.03], [-1.44, 0.75]],
        [[-0.21, -0.85], [-0.33, 0.04], [0.54, 2.86]],
        [[-0.36, 1.37], [1.64, 0.36], [-0.25, 0.83], [1.61, 0.84]],
    ]
    y = [[None, 2], [0, None, 1, None], [None, 1, 0], [1, None, 0, None]]
    options = {"loss": "hamming_sum", "tol": 0.05, "random_state": 0}
    warm = StructuredSVM(C=1.0, warm_start=True, **options).fit(X, y).set_params(C=2.0).fit(X, y)
    cold = StructuredSVM(C=2.0, **options).fit(X, y)
    assert warm.objective_ - warm.duality_gap_ <= cold.objective_


@pytest.mark.parametrize(
    "change",
    [
        {"allowed_transitions": [[True, True], [True, False]]},
        {"transition_features": [1]},
        {"start_end": False},
        {"fit_intercept": False},
        {"intercept_scaling": 2.0},
    ],
)
def test_a_stream_keeps_its_layout(change):
    X, y = [np.array([[0.0, 1], [1, 0], [1, 1]])], [[0, 1, 1]]
    model = StructuredSVM(allowed_transitions=[[True, True], [False, True]], transition_features=[0])
    model.partial_fit(X, y, classes=[0, 1])
    before = weights_of(model)
    with pytest.raises(ValueError, match=rf"{next(iter(change))} is no longer what it was"):
        model.set_params(**change).partial_fit([X[0][:2]], [[0, 1]])
    assert_array_equal(weights_of(model), before)
