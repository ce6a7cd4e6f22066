"""Losses of boosted chains against worked numbers, enumeration and finite differences."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import all_labellings, chain_score
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from worked_numbers import t3, t3_partial

from sklearn_seqlab.objectives import ChainBoosting, HeldOutChains, SequenceLoss
from sklearn_seqlab.sequences import encode_labels, pack
from sklearn_seqlab.solvers import boost

SETS = ["persistence", "bridge", "transition", "context"]


def make(X, y, *, weight=None, temperature=1.0, feature_set="bridge", **params):
    batch = pack(X)
    labels = encode_labels(y, batch.offsets)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
    temperature = None if temperature is None else np.full(len(X), temperature)
    loss = SequenceLoss(weight, temperature)
    return ChainBoosting(batch, labels, loss, feature_set=feature_set, **params)


def three_labels(hidden=0.0, seed=0):
    rng = np.random.RandomState(seed)
    X = [rng.normal(size=(n, 2)) for n in (1, 4, 3, 5)]
    y = [rng.randint(3, size=len(x)).tolist() for x in X]
    y[1][0], y[1][1], y[1][2] = 0, 1, 2
    if hidden:
        y = [[None if rng.uniform() < hidden else label for label in labels] for labels in y]
        y[0], y[1][0], y[2][1] = [{1, 2}], 0, {0, 2}
    return X, y


WORKED = {
    "complete": (
        t3, 14.4280701713, [0.5225022511, 0.4774977489], 15.4791733773,
        [-0.3975884963, -0.2203545926, 0.3975884963, 0.2203545926],
        [0.8958221085, 0.6020698083, 0.8958221085, 0.6020698083],
        [-0.3975884963, -0.2203545926, 0.3975884963, 0.2203545926],
    ),
    "partial": (
        t3_partial, 8.31647731921, [0.4599717267, 0.5400282733], 10.5971047226,
        [-0.1652407791, 0.03981550009, 0.1652407791, -0.03981550009],
        [0.4624988862, 0.471062053, 0.4624988862, 0.471062053],
        [-0.1601738829, 0.01972915304, 0.1601738829, -0.01972915304],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKED)
def test_worked_numbers_at_a_point(name):
    data, loss, weights, round_loss, first, second, exact = WORKED[name]
    objective = make(*data(), surrogate="fixed_h")
    look = objective.look(0.3 * np.cos(np.arange(8)))
    assert_allclose(np.exp(look.value), loss + 2, rtol=1e-10)
    assert_allclose(objective.loss.share(look.nll), weights, rtol=1e-9)
    lines = [objective.line(look, np.array([k]), np.ones(1)) for k in range(8)]
    # the published sum leaves out the visible labels themselves, one per sequence
    assert_allclose(np.exp(lines[5](0.4)[0]), round_loss, rtol=1e-10)
    assert_allclose([line.second_order()[0] for line in lines[:4]], first, rtol=1e-8)
    assert_allclose([line.second_order()[1] for line in lines[:4]], second, rtol=1e-8)
    assert_allclose(objective.gradient_and_curvature(look)[0][:4], first, rtol=1e-8)
    exactly = make(*data())
    assert_allclose(exactly.gradient_and_curvature(exactly.look(look.coef))[0][:4], exact, rtol=1e-8)


def test_worked_bound():
    objective = make(*t3())
    look = objective.look(0.3 * np.cos(np.arange(8)))
    low, high = objective.extent(5)
    assert_allclose([low, high], [-1, 1])
    slope = objective.gradient_and_curvature(look)[0][5]
    share = (high - slope) / (high - low)
    step = np.log(-low * share / (high * (1 - share))) / (high - low)
    assert_allclose(step, 0.2024634278, rtol=1e-8)
    bound = share * np.exp(step * low) + (1 - share) * np.exp(step * high)
    assert_allclose(bound, 0.9798486022, rtol=1e-8)
    assert objective.line(look, np.array([5]), np.ones(1))(step)[0] < look.value + np.log(bound)


PATHS = {
    ("complete", "newton"): (
        [0, 5, 0, 4, 0, 6],
        [3.17805383, 2.854782255, 2.726370713, 2.653137144, 2.622753045, 2.602913648, 2.588439971],
    ),
    ("complete", "line_search"): (
        [0, 4, 5, 0, 6, 0],
        [3.17805383, 2.754918214, 2.63992121, 2.606168916, 2.581154091, 2.561660463, 2.546516731],
    ),
    ("partial", "newton"): (
        [0, 6, 1, 6, 1, 0],
        [2.48490665, 2.224127755, 2.130445139, 2.110975524, 2.035697789, 2.016439356, 1.987268826],
    ),
    ("partial", "line_search"): (
        [0, 1, 6, 1, 6, 1],
        [2.48490665, 2.178101099, 2.147773225, 2.043790065, 2.007563874, 1.90860792, 1.885625942],
    ),
}


@pytest.mark.parametrize(("data", "update"), PATHS)
def test_worked_rounds(data, update):
    selected, path = PATHS[data, update]
    objective = make(*WORKED[data][0](), surrogate="fixed_h")
    outcome = boost(objective, np.zeros(8), n_rounds=6, update=update, n_rescore=8, tol=0.0)
    assert [int(chosen[0]) for _, chosen, _ in outcome.steps] == selected
    assert_allclose(outcome.history, path, atol=1e-8)


@pytest.mark.parametrize(("update", "last"), [("newton", 1.40), ("bound", 1.87), ("line_search", 1.08)])
def test_worked_transition_set(update, last):
    objective = make(*t3(), feature_set="transition")
    outcome = boost(objective, np.zeros(8), n_rounds=12, update=update, n_rescore=8, tol=0.0)
    assert_allclose(outcome.history[-1], last, atol=5e-3)


def enumerate_scores(objective, coef):
    """By sequence: labellings, their scores, and whether they fit what is known."""
    unary, moves = objective.features.scores(coef)
    offsets, allowed = objective.known.offsets, objective.labels.allowed()
    for s in range(len(offsets) - 1):
        rows = slice(offsets[s], offsets[s + 1])
        labellings = all_labellings(offsets[s + 1] - offsets[s], objective.labels.n_labels)
        own = moves[rows] if moves.ndim == 3 else moves
        scores = np.array([chain_score(unary[rows], own, labels) for labels in labellings])
        fits = np.array([allowed[rows][np.arange(len(y)), list(y)].all() for y in labellings])
        yield labellings, scores, fits


@pytest.mark.parametrize("feature_set", SETS)
@pytest.mark.parametrize("hidden", [0.0, 0.5])
def test_losses_are_those_of_enumeration(feature_set, hidden):
    X, y = three_labels(hidden)
    objective = make(X, y, feature_set=feature_set)
    coef = np.random.RandomState(1).normal(size=objective.n_coef)
    look = objective.look(coef)
    expected = [logsumexp(f) - logsumexp(f[fits]) for _, f, fits in enumerate_scores(objective, coef)]
    assert_allclose(look.nll, expected, rtol=1e-11)
    assert_allclose(look.value, logsumexp(expected), rtol=1e-11)
    assert_allclose(objective.known.losses(look.scores), expected, rtol=1e-11)
    held_out = HeldOutChains(pack(X), objective.labels, np.ones(len(X)), feature_set=feature_set, n_jobs=None)
    assert_allclose(held_out(np.arange(len(coef)), coef), np.mean(expected), rtol=1e-11)


@pytest.mark.parametrize("feature_set", ["bridge", "transition"])
def test_held_labels_are_those_of_the_published_sum(feature_set):
    """Equation (7): hidden labels keep their distribution, and are the same in both terms of each difference."""
    X, y = three_labels(0.5)
    y = [[None if isinstance(label, set) else label for label in labels] for labels in y]
    y[0] = [1]
    objective = make(X, y, feature_set=feature_set, surrogate="fixed_h")
    rng = np.random.RandomState(2)
    coef, k, step = rng.normal(size=objective.n_coef), 3, 0.7
    moved = coef.copy()
    moved[k] += step
    total = 0.0
    here, there = enumerate_scores(objective, coef), enumerate_scores(objective, moved)
    for labels, (labellings, f, fits), (_, g, _) in zip(y, here, there, strict=True):
        place = {labelling: n for n, labelling in enumerate(labellings)}
        p_hidden = np.exp(f[fits] - logsumexp(f[fits]))
        observed = [labelling for labelling, fit in zip(labellings, fits, strict=True) if fit]
        seen = [t for t, label in enumerate(labels) if label is not None]
        for p, right in zip(p_hidden, observed, strict=True):
            for visible in product(range(3), repeat=len(seen)):
                other = list(right)
                for t, label in zip(seen, visible, strict=True):
                    other[t] = label
                a, b = place[tuple(other)], place[tuple(right)]
                # dF of the round before, and alpha * df of the feature
                total += p * np.exp((f[a] - f[b]) + ((g[a] - f[a]) - (g[b] - f[b])))
    line = objective.line(objective.look(coef), np.array([k]), np.ones(1))
    assert_allclose(line(step)[0], np.log(total), rtol=1e-10)
    # its slope at zero is the gradient that ranks features
    gradient = objective.gradient_and_curvature(objective.look(coef))[0]
    slopes = [
        objective.line(objective.look(coef), np.array([j]), np.ones(1))(0.0)[1] for j in range(len(coef))
    ]
    assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-12)


PENALTIES = [{}, {"l2": 0.3}, {"sigma": 0.5}]


@pytest.mark.parametrize("feature_set", SETS[:3])
@pytest.mark.parametrize("temperature", [1.0, 0.3, None])
@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_derivatives_by_finite_differences(feature_set, temperature, hidden, penalty):
    objective = make(
        *three_labels(hidden),
        weight=[1, 2, 0.5, 1],
        temperature=temperature,
        feature_set=feature_set,
        **penalty,
    )
    rng = np.random.RandomState(3)
    coef, direction = rng.normal(size=objective.n_coef), rng.normal(size=objective.n_coef)
    value, gradient = objective.value_and_gradient(coef)
    h = 1e-5
    up, down = (objective.value_and_gradient(coef + sign * h * direction)[0] for sign in (1, -1))
    assert_allclose(gradient @ direction, (up - down) / (2 * h), rtol=1e-6, atol=1e-8)
    line = objective.line(objective.look(coef), np.arange(len(coef)), direction)
    here, ahead, behind = line(0.0), line(h), line(-h)
    assert_allclose(here[:2], [value, gradient @ direction], rtol=1e-9, atol=1e-10)
    assert_allclose(here[2], (ahead[1] - behind[1]) / (2 * h), rtol=1e-5, atol=1e-7)
    assert_allclose(line(0.4)[0], objective.value_and_gradient(coef + 0.4 * direction)[0], rtol=1e-10)


def test_curvature_keeps_the_spread_between_sequences():
    """Sequences of one step: time steps are independent, so that the estimate is exact."""
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(1, 2)) for _ in range(6)]
    y = [[0], [1], [0], [1], [1], [0]]
    objective = make(X, y, feature_set="persistence")
    look = objective.look(0.1 * rng.normal(size=objective.n_coef))
    slope, curve = objective.gradient_and_curvature(look)
    expected = [objective.line(look, np.array([k]), np.ones(1)).second_order() for k in range(4)]
    assert_allclose(np.column_stack([slope, curve])[:4], expected, rtol=1e-10)


@pytest.mark.parametrize("feature_set", ["bridge", "context"])
def test_sparse_inputs_give_the_same(feature_set):
    X, y = three_labels(0.3)
    X = [np.where(np.abs(x) < 0.5, 0.0, x) for x in X]
    dense = make(X, y, feature_set=feature_set)
    stored = make([sparse.csr_array(x) for x in X], y, feature_set=feature_set)
    coef = np.random.RandomState(0).normal(size=dense.n_coef)
    for a, b in zip(
        dense.gradient_and_curvature(dense.look(coef)),
        stored.gradient_and_curvature(stored.look(coef)),
        strict=True,
    ):
        assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    chosen, amounts = np.array([0, 3]), np.array([0.5, -1.0])
    assert_allclose(
        dense.after(dense.look(coef), chosen, amounts).value,
        stored.after(stored.look(coef), chosen, amounts).value,
    )
    assert_allclose(dense.scale, stored.scale)


@pytest.mark.parametrize("feature_set", SETS[:3])
@pytest.mark.parametrize("update", ["line_search", "newton", "bound"])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_round_lowers_the_loss(feature_set, update, beam_size):
    for hidden, surrogate in [(0.0, "exact"), (0.6, "exact"), (0.6, "fixed_h")]:
        objective = make(*three_labels(hidden), feature_set=feature_set, surrogate=surrogate, l2=0.01)
        outcome = boost(
            objective, np.zeros(objective.n_coef), n_rounds=8, update=update, beam_size=beam_size, tol=1e-9
        )
        assert len(outcome.history) > 2
        assert (np.diff(outcome.history) < 0).all()
        assert_allclose(outcome.credit.sum(), outcome.history[0] - outcome.history[-1], rtol=1e-9)


@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("temperature", [1.0, None])
def test_a_step_is_that_of_a_brute_force_search(hidden, temperature):
    objective = make(*three_labels(hidden, seed=4), temperature=temperature, l2=0.05)
    coef = 0.3 * np.random.RandomState(1).normal(size=objective.n_coef)
    outcome = boost(objective, coef, n_rounds=1)
    ((_, chosen, amounts),) = outcome.steps

    def loss(step):
        moved = coef.copy()
        moved[chosen] += step
        nll = [logsumexp(f) - logsumexp(f[fits]) for _, f, fits in enumerate_scores(objective, moved)]
        return (logsumexp(nll) if temperature else sum(nll)) + 0.025 * moved @ moved

    found = minimize_scalar(loss, bracket=(0, amounts[0]), options={"xtol": 1e-10})
    assert_allclose(amounts[0], found.x, rtol=1e-6)
    assert_allclose(outcome.value, found.fun, rtol=1e-10)


def test_a_feature_that_separates_stays_finite():
    X, y = [np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]])], [[1, 0], [1, 0]]
    outcome = boost(make(X, y, feature_set="persistence"), np.zeros(4), n_rounds=10)
    assert np.isfinite(outcome.coef).all()
    assert outcome.value < np.log(2) + 1e-6


def test_joint_corrections_reach_the_minimum_of_the_features_in_use():
    objective = make(*three_labels(), l2=0.1)
    outcome = boost(objective, np.zeros(objective.n_coef), n_rounds=4, corrective_every=2)
    used = np.flatnonzero(outcome.coef)
    gradient = objective.value_and_gradient(outcome.coef)[1]
    assert np.abs(gradient[used]).max() < 1e-4
    total = sum(np.bincount(chosen, amounts, objective.n_coef) for _, chosen, amounts in outcome.steps)
    assert_allclose(total, outcome.coef, atol=1e-12)


def test_infinite_losses_are_refused():
    objective = make(*three_labels())
    with pytest.raises(ValueError, match="not finite at the starting point"):
        boost(objective, np.full(objective.n_coef, 1e200))
