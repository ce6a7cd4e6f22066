"""Grids by factored messages against worked numbers and against chains on tuples of labels."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from worked_numbers import t6

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import PackedGrids
from sklearn_seqlab.inference.packed_grids import _Sweep

SIZES = [(4,), (3, 2), (2, 3, 2), (2, 2, 2, 2)]
LENGTHS = (1, 5, 3, 3, 1, 7)


def random_grids(sizes, scale=1.0, forbid=False, seed=0):
    rng = np.random.RandomState(seed)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    unary = [scale * rng.normal(size=(offsets[-1], size)) for size in sizes]
    moves = [scale * rng.normal(size=(size, size)) for size in sizes]
    coupling = [scale * rng.normal(size=pair) for pair in pairwise(sizes)]
    if forbid:
        unary[0][4, 1] = unary[-1][8, 0] = -np.inf
        moves[-1][0, 1] = -np.inf
    return PackedGrids(unary, moves, coupling, offsets)


def summed(tuples, sizes, kept, first):
    """Sum over all axes of tuples but those of some levels; ``first`` axes before them are kept."""
    gone = tuple(first + d for d in range(len(sizes)) if d not in kept)
    return tuples.sum(axis=gone)


def test_worked_numbers():
    unary, moves, coupling = t6()
    grids = PackedGrids(unary, moves, coupling, np.array([0, 4]))
    found = grids.forward_backward()
    assert_allclose(found.log_z, 8.87406020831, rtol=1e-11)
    assert_allclose(found.nodes[0][1], [0.413756187, 0.1079298099, 0.4783140031], rtol=1e-8)
    assert_allclose(found.nodes[1][1], [0.386192135, 0.613807865], rtol=1e-8)
    codes, _ = grids.viterbi()
    assert_array_equal(np.ravel_multi_index(codes, (3, 2)), [0, 5, 1, 0])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0, 900.0])
@pytest.mark.parametrize("forbid", [False, True])
def test_grids_are_chains_on_tuples(sizes, scale, forbid):
    for seed in range(3):
        grids = random_grids(sizes, scale, forbid, seed)
        chains = grids.collapsed()
        weight = np.random.RandomState(1).uniform(size=len(LENGTHS))
        found = grids.forward_backward(weight)
        log_z, node, edge = chains.forward_backward(weight)
        assert_allclose(found.log_z, log_z, rtol=1e-12)
        assert_allclose(grids.log_partition(), log_z, rtol=1e-12)
        tuples, moves = node.reshape(-1, *sizes), edge.reshape(*sizes, *sizes)
        for d in range(len(sizes)):
            assert_allclose(found.nodes[d], summed(tuples, sizes, [d], 1), atol=1e-10)
            expected = summed(summed(moves, sizes, [d], len(sizes)), sizes, [d], 0)
            assert_allclose(found.edges[d], expected, atol=1e-10)
        for d in range(len(sizes) - 1):
            assert_allclose(found.pairs[d], summed(tuples.sum(axis=0), sizes, [d, d + 1], 0), atol=1e-10)
        codes, best = grids.viterbi()
        expected, expected_best = chains.viterbi()
        assert_array_equal(np.ravel_multi_index(codes, sizes), expected)
        assert_allclose(best, expected_best, rtol=1e-12)
        assert_allclose(grids.score_of(codes), best, rtol=1e-12)


def test_ordinary_grids_are_certified_and_extreme_ones_are_not():
    """A state that is hopeless, then the only one that fits: scaled messages lose it, the certificate says so."""
    with np.errstate(all="ignore"):
        sweep = _Sweep(random_grids((3, 2)))
        sweep.run(np.ones(len(LENGTHS)), True)
        assert not sweep.failed.any()
        unary = [np.zeros((5, 2)), np.zeros((5, 2))]
        unary[0][:, 1] = [-400, -400, 0, 0, 0]
        unary[1][:, 1] = [-400, 0, 0, 0, 0]
        unary[0][4] = [-1600, 0]
        grids = PackedGrids(
            unary, [np.array([[0.0, -np.inf], [-np.inf, 0.0]])] * 2, [np.zeros((2, 2))], np.array([0, 5])
        )
        sweep = _Sweep(grids)
        sweep.run(np.ones(1), True)
        assert sweep.failed.all()
    assert_allclose(grids.log_partition(), grids.collapsed().log_partition(), rtol=1e-13)


def test_ties_go_to_the_smallest_labels():
    grids = PackedGrids([np.zeros((4, 3)), np.zeros((4, 2))], [np.zeros((3, 3)), np.zeros((2, 2))], [np.zeros((3, 2))],
                        np.array([0, 4]))  # fmt: skip
    codes, _ = grids.viterbi()
    assert not np.concatenate(codes).any()


@pytest.mark.parametrize("scale", [1.0, 900.0])
def test_samples_follow_the_distribution(scale):
    grids = random_grids((3, 2), scale)
    draws = grids.sample(200, 0)
    nodes = grids.forward_backward().nodes
    for d in range(2):
        drawn = np.array([codes[d] for codes in draws])
        for label in range(nodes[d].shape[1]):
            assert_allclose((drawn == label).mean(axis=0), nodes[d][:, label], atol=0.13)
    again = grids.sample(2, 0)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(draws, again, strict=False))


def test_infeasible_grids_are_named():
    grids = random_grids((3, 2))
    grids.unary[1][2] = -np.inf
    numbered = PackedGrids(grids.unary, grids.transition, grids.coupling, grids.offsets, first=10)
    log_z = numbered.log_partition()
    assert log_z[1] == -np.inf and np.isfinite(np.delete(log_z, 1)).all()
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 11 .* time step 1"):
        numbered.raise_if_infeasible(log_z)
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 11 .* time step 1"):
        numbered.viterbi()
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 11 .* time step 1"):
        numbered.sample(1, 0)
    found = numbered.forward_backward()
    assert not found.nodes[0][1:6].any() and np.isfinite(found.edges[0]).all()
