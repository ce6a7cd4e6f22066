"""The loss of marginals against enumeration and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain, numerical_gradient
from scipy import sparse

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives import ChainMarginalLikelihood
from sklearn_seqlab.sequences import encode_labels, pack


def make_objective(X, y, **options):
    batch = pack(X)
    labels = encode_labels(y, batch.offsets)
    n_labels = labels.n_labels
    options = {
        "weight": np.ones(batch.n_sequences),
        "step_weight": np.ones(batch.n_total),
        "allowed_transitions": np.ones((n_labels, n_labels), dtype=bool),
    } | options
    return ChainMarginalLikelihood(batch, labels, **options)


def make_problem(rng):
    """Three labels, some hidden, some sets; nothing is known of the third sequence."""
    X = [rng.normal(size=(n, 3)) for n in (1, 4, 2, 5)]
    return X, [[2], [1, None, {0, 2}, 0], [None, None], [0, 0, 1, {1, 2}, 2]]


def fitting(labels):
    return np.array(
        [[a is None or b in (a if isinstance(a, set) else {a}) for b in range(3)] for a in labels]
    )


@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize("edge_columns", [None, np.array([1])])
def test_value_matches_enumeration(forbidden, edge_columns, rng):
    X, y = make_problem(rng)
    allowed = np.ones((3, 3), dtype=bool)
    allowed[2, 0] = not forbidden
    weight, step_weight = np.array([1.0, 0.5, 2.0, 1.5]), rng.uniform(0.1, 2, size=12)
    objective = make_objective(
        X, y, weight=weight, step_weight=step_weight, edge_columns=edge_columns, allowed_transitions=allowed, C=0.7
    )  # fmt: skip
    coef = rng.normal(size=objective.n_coef)
    parts = objective.split(coef)
    expected, row = 0.0, 0
    for s, (x, labels) in enumerate(zip(X, y, strict=True)):
        unary = x @ parts.node.T + parts.intercept
        moves = parts.transition
        if edge_columns is not None:
            moves = moves + parts.edge[:, :, 0] * x[:, 1][:, None, None]
        node = EnumeratedChain(unary, moves, parts.start, parts.end).node_marginals()
        share = np.where(fitting(labels), node, 0).sum(axis=1)
        expected -= weight[s] * step_weight[row : row + len(x)] @ np.log(share)
        row += len(x)
    penalised = coef.copy()
    penalised[-3:] = 0
    value = objective.value_and_gradient(coef)[0] - 0.5 * penalised @ penalised
    assert_allclose(value, 0.7 * expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse", "restricted"])
@pytest.mark.parametrize("edge_columns", [None, np.array([2, 0])])
@pytest.mark.parametrize("size", [1.0, 40.0])
def test_gradient_matches_finite_differences(kind, edge_columns, size, rng):
    X, y = make_problem(rng)
    allowed = np.ones((3, 3), dtype=bool)
    allowed[2, 0] = False
    options = {"edge_columns": edge_columns, "allowed_transitions": allowed, "C": 0.7,
               "weight": np.array([1.0, 0.5, 2.0, 1.5]), "step_weight": rng.uniform(0.1, 2, size=12)}  # fmt: skip
    if kind != "dense":
        X = [sparse.csr_array(np.where(x > 0, x, 0)) for x in X]
    if kind == "restricted":
        options["pairs"] = sparse.csr_array(np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]]))
    objective = make_objective(X, y, **options)
    coef = size * rng.normal(size=objective.n_coef)
    value, gradient = objective.value_and_gradient(coef)
    numeric = numerical_gradient(lambda w: objective.value_and_gradient(w)[0], coef)
    assert_allclose(gradient, numeric, atol=2e-7 if size == 1 else 1e-9 * value + 1e-5)


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("size", [1.0, 400.0])
def test_tilted_marginals_match_enumeration(per_step, size, rng):
    offsets = np.array([0, 1, 4, 9])
    unary = size * rng.normal(size=(9, 3))
    moves = size * rng.normal(size=(9, 3, 3) if per_step else (3, 3))
    moves[..., 2, 0] = -np.inf
    gain = rng.normal(size=(9, 3))
    chains = PackedChains(unary, moves, offsets)
    log_z, node, tilted_node, edge, tilted_edge = chains.tilted_marginals(lambda _: gain)
    for s in range(3):
        rows = slice(offsets[s], offsets[s + 1])
        exact = EnumeratedChain(unary[rows], moves[rows] if per_step else moves)
        assert_allclose(log_z[s], exact.log_partition)
        assert_allclose(node[rows], exact.node_marginals(), atol=1e-12)
        expected_node, expected_edge = np.zeros((2, rows.stop - rows.start, 3, 3))
        expected_node = expected_node[:, 0]
        for labels, p in zip(exact.labellings, exact.probability, strict=True):
            total = sum(gain[rows][t, label] for t, label in enumerate(labels))
            for t, label in enumerate(labels):
                expected_node[t, label] += p * total
                if t:
                    expected_edge[t, labels[t - 1], label] += p * total
        assert_allclose(tilted_node[rows], expected_node, atol=1e-10)
        found = (tilted_edge[rows], edge[rows]) if per_step else (tilted_edge[s], edge[s])
        wanted = expected_edge, exact.edge_marginals()
        for one, other in zip(found, wanted, strict=True):
            assert_allclose(one, other if per_step else other.sum(axis=0), atol=1e-10)


def test_single_steps_are_a_softmax_regression(rng):
    """Without neighbours a marginal is all there is: both losses agree."""
    X = [rng.normal(size=(1, 2)) for _ in range(40)]
    y = [[int(x[0, 0] + rng.normal() > 0)] for x in X]
    models = [LinearChainCRF(loss=loss, tol=1e-9).fit(X, y) for loss in ("marginal", "log")]
    assert_allclose(models[0].coef_, models[1].coef_, atol=1e-5)


def test_nearly_certain_marginals_keep_their_digits():
    """-log P of a label with P = 1 - 1e-20."""
    X, y = [np.array([[1.0], [1.0]])], [["a", "a"]]
    batch = pack([*X, np.array([[0.0]])])
    labels = encode_labels([*y, ["b"]], batch.offsets)
    objective = ChainMarginalLikelihood(
        batch, labels, weight=np.array([1.0, 0.0]), step_weight=np.ones(3), fit_intercept=False, start_end=False,
        allowed_transitions=np.ones((2, 2), dtype=bool),
    )  # fmt: skip
    coef = np.array([46.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    value = objective.value_and_gradient(coef)[0] - 0.5 * coef @ coef
    assert_allclose(value, 2 * np.exp(-46.0), rtol=1e-3, atol=1e-12)
    objective.penalty.penalised[:] = 0
    assert_allclose(objective.value_and_gradient(coef)[0], 2 * np.exp(-46.0), rtol=1e-9)


def test_bits_do_not_depend_on_threads(rng, monkeypatch):
    monkeypatch.setattr("sklearn_seqlab._parallel._CHUNK_SIZE", 30)
    X = [rng.normal(size=(n, 4)) for n in rng.integers(1, 30, 40)]
    y = [rng.integers(0, 3, len(x)) for x in X]
    one, two = (make_objective(X, y, n_jobs=n_jobs) for n_jobs in (1, 2))
    coef = rng.normal(size=one.n_coef)
    (value_1, gradient_1), (value_2, gradient_2) = (o.value_and_gradient(coef) for o in (one, two))
    assert value_1 == value_2
    assert_array_equal(gradient_1, gradient_2)


def test_class_weights_are_those_of_steps(rng):
    """A step of weight zero may as well be hidden; weights of two count labels twice."""
    X = [rng.normal(size=(6, 2)) for _ in range(5)]
    y = [["a", "b", "c", "a", "b", "c"] for _ in X]
    options = {"loss": "marginal", "tol": 1e-9}
    weighed = LinearChainCRF(class_weight={"c": 0.0}, **options).fit(X, y)
    hidden = LinearChainCRF(**options).fit(X, [["a", "b", {"a", "b", "c"}, "a", "b", None] for _ in X[:4]] + [y[4]],
                                           sample_weight=None)  # fmt: skip
    assert weighed.classes_.tolist() == hidden.classes_.tolist()
    batch = pack(X)
    labels = encode_labels(y, batch.offsets)
    zero_for_c = np.where(labels.codes == 2, 0.0, 1.0)
    direct = make_objective(X, y, step_weight=zero_for_c)
    coef = direct.join(weighed._coefficients())
    assert np.abs(direct.value_and_gradient(coef)[1]).max() < 1e-4
    twice = [
        make_objective(X, y, step_weight=np.full(30, 2.0)),
        make_objective(X, y, weight=np.full(5, 2.0)),
    ]
    values = [objective.value_and_gradient(coef)[0] for objective in twice]
    assert values[0] == values[1]


def test_labels_that_no_path_reaches_are_named(rng):
    X = [rng.normal(size=(3, 2)), rng.normal(size=(2, 2))]
    y = [["a", None, "b"], ["a", "b"]]
    LinearChainCRF(loss="marginal", allowed_transitions={"a": ["a", "b"], "b": ["b"]}).fit(X, y)
    y = [["b", None, "b"], ["a", "b"]]
    with pytest.raises(InfeasibleSequenceError, match=r"y\[1\]\[0\] fits no labelling"):
        LinearChainCRF(loss="marginal", allowed_transitions={"a": [], "b": ["b", "a"]}).fit(X, y)


def test_what_takes_no_marginals():
    X, y = [[[0.0], [1.0]]], [["a", "b"]]
    with pytest.raises(ValueError, match="sgd' takes no loss='marginal'"):
        LinearChainCRF(loss="marginal", solver="sgd").fit(X, y)
    with pytest.raises(ValueError, match="partial_fit cannot take loss='marginal'"):
        LinearChainCRF(loss="marginal").partial_fit(X, y)
