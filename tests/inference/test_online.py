"""Streams: filtering and fixed-lag smoothing against enumeration, and streams that would leave the double range."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import EnumeratedChain

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import OnlineChain, PackedChains


@pytest.fixture(params=[1.0, 900.0], ids=["plain", "beyond exp"])
def chain(request, rng):
    """unary (6, 3), moves per step (6, 3, 3), initial, final; some moves and labels forbidden."""
    unary, moves = request.param * rng.normal(size=(6, 3)), request.param * rng.normal(size=(6, 3, 3))
    unary[2, 0] = moves[:, 1, 2] = -np.inf
    return unary, moves, rng.normal(size=3), rng.normal(size=3)


@pytest.mark.parametrize("vary", [False, True])
@pytest.mark.parametrize("lag", [0, 1, 3, 5, 6, 9])
def test_a_stream_is_the_enumerated_chain(chain, lag, vary):
    unary, moves, initial, final = chain
    if not vary:
        moves = np.ascontiguousarray(moves[1])
    stream = OnlineChain(np.zeros((3, 3)) if vary else moves, initial, final, lag, vary)
    for t in range(6):
        found = stream.step(unary[t], moves[t] if vary else None)
        if t < lag:
            assert found is None
            continue
        # nothing but the steps so far, and no score for ending
        seen = EnumeratedChain(unary[: t + 1], moves[: t + 1] if vary else moves, initial)
        assert_allclose(found, seen.node_marginals()[t - lag], atol=1e-12)
    whole = EnumeratedChain(unary, moves, initial, final).node_marginals()
    assert_allclose(stream.finish(), whole[6 - min(lag, 6) :], atol=1e-12)


def test_filtering_is_the_forward_pass(rng):
    unary, moves = rng.normal(size=(300, 4)), rng.normal(size=(4, 4))
    stream = OnlineChain(moves, np.zeros(4), np.zeros(4), 0)
    found = np.array([stream.step(row) for row in unary])
    for t in (0, 1, 57, 299):
        node = PackedChains(unary[: t + 1], moves, np.array([0, t + 1])).forward_backward()[1]
        assert_allclose(found[t], node[-1], rtol=1e-10)


def test_scores_of_a_long_stream_do_not_add_up(rng):
    """A label that falls behind by 3 nats a step for 100,000 steps must still be there when it is the only one."""
    unary = np.tile([0.0, -3.0], (100_001, 1))
    unary[-1] = -np.inf, 5.0
    moves = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    for lag in (0, 3):
        stream = OnlineChain(moves, np.zeros(2), np.zeros(2), lag)
        for row in unary:
            found = stream.step(row)
        assert_allclose(found, [0.0, 1.0])
    heavy = OnlineChain(np.zeros((2, 2)), np.zeros(2), np.zeros(2), 2)
    for _ in range(1000):
        found = heavy.step(np.array([1e300, 1e300]))
    assert_allclose(found, [0.5, 0.5])


def test_an_impossible_step_is_named():
    moves = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    stream = OnlineChain(moves, np.zeros(2), np.zeros(2), 0)
    stream.step(np.array([0.0, -np.inf]))
    with pytest.raises(InfeasibleSequenceError, match="at time step 1"):
        stream.step(np.array([-np.inf, 0.0]))
    for value in (np.nan, np.inf):
        stream = OnlineChain(moves, np.zeros(2), np.zeros(2), 1)
        with pytest.raises(ValueError, match="time step 0 are beyond double precision"):
            stream.step(np.array([0.0, value]))
