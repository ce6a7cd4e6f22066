"""The likelihood of chains against worked numbers, enumeration and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain, numerical_gradient
from scipy import sparse
from worked_numbers import t2, t2_partial

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.objectives import ChainCoefficients, ChainLogLikelihood
from sklearn_seqlab.sequences import encode_labels, pack


def make_objective(X, y, **options):
    batch = pack(X)
    labels = encode_labels(y, batch.offsets)
    classes = labels.classes
    options = {
        "weight": np.ones(batch.n_sequences),
        "allowed_transitions": np.ones((len(classes), len(classes)), dtype=bool),
    } | options
    return ChainLogLikelihood(batch, labels, **options)


def worked_coefficients(vector):
    """The order of the worked numbers: coef, transition, start, end."""
    node, transition, start, end = np.split(vector, [6, 15, 18])
    edge = np.zeros((3, 3, 0))
    return ChainCoefficients(node.reshape(3, 2), transition.reshape(3, 3), edge, start, end, np.zeros(3))


def in_worked_order(gradient, objective):
    parts = objective.split(gradient)
    return np.concatenate([parts.node.ravel(), parts.transition.ravel(), parts.start, parts.end])


@pytest.mark.parametrize(
    ("data", "value", "first"),
    [
        (t2, 26.3420933211,
         [1.961158849, 2.452877858, -0.1185169113, -1.734398654, -1.842641937, -0.718479204]),
        (t2_partial, 13.7641931109,
         [0.3765166412, 0.572958717, 1.89397304, -2.355824694, -2.270489681, 1.782865977]),
    ],
)  # fmt: skip
def test_worked_numbers_t2(data, value, first):
    X, y = data()
    objective = make_objective(X, y, fit_intercept=False)
    coef = objective.join(worked_coefficients(np.sin(np.arange(21) + 1)))
    found, gradient = objective.value_and_gradient(coef)
    penalty = 0.5 * coef @ coef
    assert_allclose(found - penalty, value, atol=1e-8)
    assert_allclose(in_worked_order(gradient - coef, objective)[:6], first, atol=1e-8)


def make_problem(kind, rng):
    """Ragged data with three labels (two known transitions forbidden), some hidden, some sets."""
    lengths = [1, 4, 2, 3]
    X = [rng.normal(size=(n, 3)) for n in lengths]
    y = [rng.integers(0, 3, n).tolist() for n in lengths]
    y[0], y[1][0], y[3] = [2], 1, [0, 0, 1]  # every label occurs
    if kind in ("partial", "sets"):
        y[1][1:3] = [None, None]
        y[2] = [None, None]
    if kind == "sets":
        y[3] = [0, {0, 2}, None]
    if kind == "sparse" or kind == "restricted":
        X = [sparse.csr_array(np.where(x > 0, x, 0)) for x in X]
    return X, y


@pytest.mark.parametrize("kind", ["complete", "partial", "sets", "sparse", "restricted"])
@pytest.mark.parametrize("edge_columns", [None, np.array([2, 0])])
@pytest.mark.parametrize("with_cost", [False, True])
def test_gradient_matches_finite_differences(kind, edge_columns, with_cost, rng):
    X, y = make_problem(kind, rng)
    allowed = np.ones((3, 3), dtype=bool)
    options = {
        "C": 0.7,
        "weight": np.array([1.0, 0.5, 2.0, 1.5]),
        "edge_columns": edge_columns,
        "cost": 1.3 * (1 - np.eye(3)) if with_cost else None,
    }
    if kind == "restricted":
        options["pairs"] = sparse.csr_array(np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]]))
    if kind == "partial":
        allowed[2, 0] = False
        options["allowed_transitions"] = allowed
    objective = make_objective(X, y, **options)
    coef = rng.normal(size=objective.n_coef)
    _, gradient = objective.value_and_gradient(coef)
    numeric = numerical_gradient(lambda w: objective.value_and_gradient(w)[0], coef)
    assert_allclose(gradient, numeric, atol=2e-7)


@pytest.mark.parametrize("with_cost", [False, True])
def test_value_matches_enumeration(with_cost, rng):
    X, y = make_problem("sets", rng)
    allowed = np.ones((3, 3), dtype=bool)
    allowed[2, 0] = False
    cost = rng.uniform(size=(3, 3)) * (1 - np.eye(3)) if with_cost else None
    weight = np.array([1.0, 0.5, 2.0, 1.5])
    objective = make_objective(X, y, weight=weight, cost=cost, edge_columns=[1], allowed_transitions=allowed)
    coef = rng.normal(size=objective.n_coef)
    parts = objective.split(coef)
    expected = 0.0
    for s, (x, labels) in enumerate(zip(X, y, strict=True)):
        if all(label is None for label in labels):
            continue
        unary = x @ parts.node.T + parts.intercept
        moves = parts.transition + parts.edge[:, :, 0] * x[:, 1][:, None, None]
        fits = np.array([[True] * 3 if a is None else [b in (a if isinstance(a, set) else {a}) for b in range(3)]
                         for a in labels])  # fmt: skip
        clamped = EnumeratedChain(unary, moves, parts.start, parts.end, fits)
        raised = unary.copy()
        if with_cost:
            for t, label in enumerate(labels):
                if label is not None:
                    raised[t] += cost[list(label) if isinstance(label, set) else [label]].min(axis=0)
        free = EnumeratedChain(raised, moves, parts.start, parts.end)
        expected += weight[s] * (free.log_partition - clamped.log_partition)
    penalised = coef.copy()
    penalised[-3:] = 0
    assert_allclose(objective.value_and_gradient(coef)[0] - 0.5 * penalised @ penalised, expected, rtol=1e-12)


def test_split_and_join_are_inverse(rng):
    X, y = make_problem("restricted", rng)
    pairs = sparse.csr_array(np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]]))
    allowed = np.ones((3, 3), dtype=bool)
    allowed[2, 0] = allowed[1, 1] = False
    y[1] = [1, None, None, None]
    for options in ({"pairs": pairs}, {"edge_columns": np.array([1])}, {"start_end": False}):
        objective = make_objective(X, y, allowed_transitions=allowed, **options)
        coef = rng.normal(size=objective.n_coef)
        assert_array_equal(objective.join(objective.split(coef)), coef)
    assert objective.split(coef).transition[2, 0] == -np.inf


def test_bits_do_not_depend_on_threads(rng, monkeypatch):
    monkeypatch.setattr("sklearn_seqlab._parallel._CHUNK_SIZE", 30)
    X = [rng.normal(size=(n, 4)) for n in rng.integers(1, 30, 40)]
    y = [rng.integers(0, 3, len(x)) for x in X]
    for data in (X, [sparse.csr_array(x) for x in X]):
        one, two = (make_objective(data, y, n_jobs=n_jobs) for n_jobs in (1, 2))
        coef = rng.normal(size=one.n_coef)
        (value_1, gradient_1), (value_2, gradient_2) = (o.value_and_gradient(coef) for o in (one, two))
        assert value_1 == value_2
        assert_array_equal(gradient_1, gradient_2)


def test_forbidden_known_move_is_named(rng):
    X, y = make_problem("complete", rng)
    allowed = np.ones((3, 3), dtype=bool)
    allowed[0, 1] = False
    y[1], y[2] = [1, 2, 2, 2], [2, 2]
    with pytest.raises(InfeasibleSequenceError, match=r"y\[3\] moves .* time step 2"):
        make_objective(X, y, allowed_transitions=allowed)


def test_labels_that_fit_no_labelling_are_named(rng):
    X, y = make_problem("partial", rng)
    allowed = ~np.eye(3, dtype=bool)
    y = [[2], [1, None, None, 0], [0, 1], [0, 1, 0]]
    allowed[1] = False
    y[2], y[3] = [0, 2], [2, 0, 2]
    objective = make_objective(X, y, allowed_transitions=allowed)
    with pytest.raises(InfeasibleSequenceError, match=r"y\[1\] fit no labelling"):
        objective.value_and_gradient(np.zeros(objective.n_coef))


@pytest.mark.parametrize("kind", ["complete", "sparse", "restricted"])
def test_preconditioning_follows_units_and_curvatures(kind, rng):
    X, y = make_problem(kind, rng)
    options = {"C": 0.7, "weight": np.array([1.0, 0.5, 2.0, 1.5])}
    if kind == "restricted":
        options["pairs"] = sparse.csr_array(np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]]))
    objective = make_objective(X, y, **options)
    coef = rng.normal(size=objective.n_coef)
    unit = objective.scale
    objective.precondition(coef)
    h = 1e-4
    curvature = np.array([
        (objective.value_and_gradient(coef + step)[1] - objective.value_and_gradient(coef - step)[1])[k] / (2 * h)
        for k, step in enumerate(h * np.eye(objective.n_coef))
    ])  # fmt: skip
    cuts = objective.layout.cuts
    node, moves, _, start, end, _ = np.split(objective.preconditioner**4 / unit**2 / curvature, cuts)
    # of what several steps share, covariances between these are left out
    for parts in (start, end):
        assert_allclose(parts, 1.0, rtol=1e-6)
    for parts in (node, moves):
        assert (parts > 0.2).all() and (parts < 5).all()
