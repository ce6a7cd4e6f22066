"""Moments of path sums, and marginals summed by sequence, against enumeration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import EnumeratedChain, chain_score

from sklearn_seqlab.inference import PackedChains

LENGTHS = (1, 2, 4)


def random_chains(rng, n_labels, scale, varying, forbid):
    n_total = sum(LENGTHS)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    unary = scale * rng.normal(size=(n_total, n_labels))
    moves = scale * rng.normal(size=(n_total, n_labels, n_labels) if varying else (n_labels, n_labels))
    if forbid:
        unary[3, 1] = -np.inf
        moves[..., 0, 2] = -np.inf
    return PackedChains(unary, moves, offsets)


def enumerated(chains):
    for s in range(chains.n_sequences):
        one = chains.one(s)
        yield s, one, EnumeratedChain(one.unary, one.transition)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("gains_vary", [False, True])
@pytest.mark.parametrize(("scale", "forbid"), [(1.0, False), (1.0, True), (400.0, True), (1e-3, False)])
def test_moments(varying, gains_vary, scale, forbid):
    rng = np.random.RandomState(0)
    chains = random_chains(rng, 3, scale, varying, forbid)
    step = rng.normal(size=chains.unary.shape)
    move = rng.normal(size=(len(step), 3, 3) if gains_vary else (3, 3))
    log_z, mean, variance = chains.moments(step, move)
    for s, _, truth in enumerated(chains):
        rows = slice(chains.offsets[s], chains.offsets[s + 1])
        gains = np.array(
            [
                chain_score(step[rows], move[rows] if gains_vary else move, labels)
                for labels in truth.labellings
            ]
        )
        p = truth.probability
        expected = p @ gains
        assert_allclose(log_z[s], truth.log_partition, rtol=1e-12)
        assert_allclose(mean[s], expected, rtol=1e-10, atol=1e-12)
        assert_allclose(variance[s], p @ (gains - expected) ** 2, rtol=1e-9, atol=1e-14)


def test_moments_where_nothing_is_feasible():
    unary = np.zeros((5, 2))
    unary[3] = -np.inf
    found = PackedChains(unary, np.zeros((2, 2)), np.array([0, 2, 5])).moments(
        np.ones((5, 2)), np.zeros((2, 2))
    )
    assert_allclose(found[0], [np.log(4), -np.inf])
    assert_allclose(found[1], [2, 0])
    assert_allclose(found[2], [0, 0], atol=1e-15)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("scale", [1.0, 900.0])
def test_marginals_summed_by_sequence(varying, scale):
    chains = random_chains(np.random.RandomState(1), 3, scale, varying, True)
    log_z, node, edge, squares = chains.forward_backward_by_sequence()
    for s, _, truth in enumerated(chains):
        moves = truth.edge_marginals()
        assert_allclose(log_z[s], truth.log_partition, rtol=1e-12)
        assert_allclose(node[chains.offsets[s] : chains.offsets[s + 1]], truth.node_marginals(), atol=1e-11)
        assert_allclose(edge[s], moves.sum(axis=0), atol=1e-11)
        assert_allclose(squares[s], (moves**2).sum(axis=0), atol=1e-11)
