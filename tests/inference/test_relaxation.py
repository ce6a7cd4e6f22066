"""Relaxation of steps given the expected labels around them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from sklearn_seqlab.inference import NeighbourScores


def scores(base, coupling, lags, offsets=None, allowed=None):
    base = np.ascontiguousarray(base, dtype=float)
    offsets = np.array([0, len(base)]) if offsets is None else np.asarray(offsets, dtype=np.intp)
    allowed = np.ones(base.shape, dtype=bool) if allowed is None else allowed
    coupling = np.ascontiguousarray(coupling, dtype=float).reshape(len(lags), *[base.shape[1]] * 2)
    return NeighbourScores(base, coupling, np.asarray(lags, dtype=np.intp), offsets, allowed)


def two_cycle():
    table = [[-3.0, 3.0], [3.0, -3.0]]
    return scores([[0.2, 0.0], [0.2, 0.0]], [table, table], [-1, 1])


def test_worked_two_cycle():
    plain = two_cycle().relax(damping=0.0, max_rounds=201)
    assert not plain.converged[0] and plain.n_rounds[0] == 201
    again = two_cycle().relax(damping=0.0, max_rounds=200)
    assert_allclose(sorted([plain.proba[0, 0], again.proba[0, 0]]), [0.0031, 0.9979], atol=1e-4)
    strong = two_cycle().relax(damping=0.8, tol=1e-6)
    assert strong.converged[0] and abs(strong.n_rounds[0] - 8) <= 3
    assert_allclose(strong.proba, [[0.512499, 0.487501]] * 2, atol=1e-5)
    # damped by a half it still oscillates, also in the rounds that follow; those of 0.8 settle it
    half = two_cycle().relax(damping=0.5, max_rounds=200)
    assert half.converged[0] and 400 < half.n_rounds[0] <= 450
    sequential = two_cycle().relax(sequential=True, damping=0.0)
    assert sequential.converged[0] and sequential.n_rounds[0] <= 5
    assert_allclose(sequential.proba, [[0.0031, 0.9969], [0.9979, 0.0021]], atol=1e-4)


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_rounds_are_those_of_the_definition(sequential, damping, rng):
    lags, n_labels, offsets = [-2, -1, 1], 3, [0, 5, 6, 10]
    base, coupling = rng.normal(size=(10, n_labels)), rng.normal(size=(3, n_labels, n_labels))
    allowed = rng.uniform(size=(10, n_labels)) < 0.8
    allowed[:, 0] = True
    problem = scores(base, coupling, lags, offsets, allowed)
    masked = np.where(allowed, base, -np.inf)
    r = softmax(masked, axis=1)
    for n_rounds in range(4):
        if n_rounds:
            source = r if sequential else r.copy()
            for start, stop in ((0, 5), (5, 6), (6, 10)):
                for t in range(start, stop):
                    score = masked[t].copy()
                    for lag, table in zip(lags, coupling, strict=True):
                        if start <= t + lag < stop:
                            score += source[t + lag] @ table
                    r[t] = damping * r[t] + (1 - damping) * softmax(score)
            found = problem.relax(sequential=sequential, damping=damping, tol=0.0, max_rounds=n_rounds)
            if damping and not sequential:  # rounds of stronger damping would follow
                continue
            assert_allclose(found.proba, r, atol=1e-12)
    assert (found.proba[~allowed] == 0).all()


def test_a_fixed_point_is_one(rng):
    lags = [-1, 1]
    problem = scores(rng.normal(size=(8, 3)), 0.3 * rng.normal(size=(2, 3, 3)), lags)
    found = problem.relax(tol=1e-13, max_rounds=1000)
    assert found.converged.all() and found.change.max() <= 1e-13
    expected = problem.base.copy()
    for lag, table in zip(lags, problem.coupling, strict=True):
        for t in range(8):
            if 0 <= t + lag < 8:
                expected[t] += found.proba[t + lag] @ table
    assert_allclose(found.proba, softmax(expected, axis=1), atol=1e-12)


def test_without_dependencies_one_round_is_enough(rng):
    problem = scores(rng.normal(size=(6, 4)), np.empty((0, 4, 4)), [], [0, 1, 6])
    found = problem.relax()
    assert_allclose(found.proba, softmax(problem.base, axis=1))
    assert found.n_rounds.tolist() == [1, 1] and found.converged.all()


def test_scores_beyond_the_range_of_exp():
    found = scores([[800.0, -800.0], [0.0, 0.0]], [[[900.0, 0.0], [0.0, 900.0]]], [-1])
    assert_allclose(found.relax(damping=0.0).proba, [[1.0, 0.0], [1.0, 0.0]])


def test_shapes_that_do_not_fit_are_refused(rng):
    base = rng.normal(size=(4, 3))
    with pytest.raises(ValueError, match=r"couplings have shape \(1, 3, 3\); expected \(2, 3, 3\)"):
        NeighbourScores(base, np.zeros((1, 3, 3)), np.array([-1, 1]), np.array([0, 4]), np.ones((4, 3), bool))
    with pytest.raises(ValueError, match="4 rows of scores, but 3 of allowed labels"):
        NeighbourScores(base, np.zeros((1, 3, 3)), np.array([-1]), np.array([0, 4]), np.ones((3, 3), bool))
