"""Most violated labellings against enumeration: margin rescaling, slack rescaling, and the bound of its search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import (
    PackedChains,
    best_by_errors,
    margin_violations,
    slack_violations,
    violations,
)


def make_case(rng, scale=1.0, forbidden=False, hidden=False, varying=False):
    """A chain, its labellings with scores, and a feasible true labelling with its errors."""
    n_steps, n_labels = rng.integers(1, 7), rng.integers(1, 4)
    unary = scale * rng.normal(size=(n_steps, n_labels))
    shape = (n_steps, n_labels, n_labels) if varying else (n_labels, n_labels)
    transition = scale * rng.normal(size=shape)
    if forbidden:
        transition[rng.random(shape) < 0.25] = -np.inf
        transition[..., 0, 0] = 0.0
    oracle = EnumeratedChain(unary, transition)
    labellings = np.array(oracle.labellings)
    feasible = np.flatnonzero(oracle.scores > -np.inf)
    k = int(rng.choice(feasible))
    is_error = np.ones((n_steps, n_labels), dtype=bool)
    is_error[np.arange(n_steps), labellings[k]] = False
    if hidden:
        is_error[rng.random(n_steps) < 0.4] = False
    errors = is_error[np.arange(n_steps), labellings].sum(axis=1)
    chains = PackedChains(unary, transition, np.array([0, n_steps]))
    # with hidden steps, the true labelling is the best without errors
    true_score = oracle.scores[errors == 0].max()
    return chains, oracle.scores, errors, is_error, true_score


OPTIONS = [{}, {"forbidden": True}, {"hidden": True}, {"varying": True, "forbidden": True}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("short", [32, 0])
def test_violations_match_enumeration(options, scale, short, rng, monkeypatch):
    # with 0 the recursion comes after the search, and goes as far as that allows
    monkeypatch.setattr(violations, "_SHORT", short)
    for _ in range(20):
        chains, scores, errors, is_error, true_score = make_case(rng, scale, **options)
        unit, feasible = 1 / len(is_error), scores > -np.inf
        best = (unit * errors * (1 + scores - true_score))[feasible].max()
        found = slack_violations(chains, is_error, np.array([unit]), np.array([true_score]))
        assert_allclose([found.value[0], found.bound[0]], best, rtol=1e-9, atol=1e-9)
        n_errors = is_error[np.arange(len(is_error)), found.codes].sum()
        own = unit * n_errors * (1 + chains.score_of(found.codes)[0] - true_score)
        assert_allclose(own, best, rtol=1e-9, atol=1e-9)

        margin = margin_violations(chains, unit * is_error, np.array([true_score]))
        assert_allclose(margin.value, (unit * errors + scores - true_score).max(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_search_is_between_its_bounds(options, rng):
    closed, n_cases = 0, 80
    for _ in range(n_cases):
        chains, scores, errors, is_error, true_score = make_case(rng, 2.0, **options)
        best = (errors * (1 + scores - true_score))[scores > -np.inf].max()
        found = slack_violations(chains, is_error, np.ones(1), np.array([true_score]), exact_length=0)
        slack = 1e-9 * (1 + abs(best))
        assert found.value[0] <= best + slack
        assert found.bound[0] >= best - slack
        closed += found.bound[0] - found.value[0] <= slack
    assert closed > 0.8 * n_cases  # else the test above would hold for any bound


def test_a_gap_of_the_hull_is_reported():
    # one error costs 6 and two cost 8: the best of one error is below the hull of (0, 0) and (2, -8)
    unary = np.array([[0.0, -6.0], [0.0, -6.0]])
    chains = PackedChains(unary, np.array([[0.0, 0.0], [0.0, 4.0]]), np.array([0, 2]))
    is_error = np.array([[False, True], [False, True]])
    far = np.array([-9.0])  # a true labelling that scores less than the best: slack is large
    found = slack_violations(chains, is_error, np.ones(1), far, exact_length=0)
    assert_allclose([found.value[0], found.bound[0]], [4.0, 6.0])
    exact = slack_violations(chains, is_error, np.ones(1), far)
    assert_allclose([exact.value[0], exact.bound[0]], 4.0)


def test_long_chains_close_without_the_recursion(rng):
    n_steps, n_labels = 300, 4
    chains = PackedChains(
        rng.normal(size=(n_steps, n_labels)), rng.normal(size=(n_labels, n_labels)), np.array([0, n_steps])
    )
    codes = rng.integers(0, n_labels, n_steps)
    is_error = np.ones((n_steps, n_labels), dtype=bool)
    is_error[np.arange(n_steps), codes] = False
    arguments = chains, is_error, np.array([1 / n_steps]), chains.score_of(codes)
    search = slack_violations(*arguments, exact_length=0)
    best, _ = best_by_errors(chains, is_error)
    value = np.arange(n_steps + 1) / n_steps * (1 + best - arguments[3])
    assert search.value[0] <= value.max() * (1 + 1e-9) <= search.bound[0] * (1 + 2e-9)
    assert search.bound[0] - search.value[0] < 0.01 * search.bound[0]


def test_best_by_errors_counts(rng):
    chains, scores, errors, is_error, _ = make_case(rng, forbidden=True)
    best, _ = best_by_errors(chains, is_error)
    for d, found in enumerate(best):
        assert_allclose(found, scores[errors == d].max(initial=-np.inf), atol=1e-12)
        assert_array_equal(best_by_errors(chains, is_error, most=d)[0], best[: d + 1])


def test_infeasible_chains_are_named():
    chains = PackedChains(np.zeros((2, 2)), np.full((2, 2), -np.inf), np.array([0, 2]), first=7)
    with pytest.raises(InfeasibleSequenceError, match="Sequence 7"):
        slack_violations(chains, np.ones((2, 2), dtype=bool), np.ones(1), np.zeros(1))
