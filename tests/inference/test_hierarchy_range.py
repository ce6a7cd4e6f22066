"""Hierarchies whose masses leave the range of doubles: gauges, the certificate, and what is done again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_hierarchies import additive

from sklearn_seqlab.inference import NestedSegments

PARTS = ("persistence", "initialisation", "transition", "ending")
INF = np.inf


@pytest.mark.parametrize(
    ("scale", "offset"), [(1.0, 0.0), (5.0, 0.0), (20.0, 0.0), (1.0, 40.0), (1.0, -40.0)]
)
@pytest.mark.parametrize(
    ("sizes", "longest"), [((1, 3, 4), (80, 1)), ((2, 3, 2), (20, 4)), ((1, 2, 2, 3), (30, 10, 1))]
)
def test_long_sequences_stay_in_range(sizes, longest, scale, offset, rng):
    """Masses of exp(+-3000) and more, without help of the log domain."""
    packed = additive(rng, sizes, 120, longest, scale, offset=offset)
    log_z, found = packed.forward_backward("scaled")
    exact, expected = packed.forward_backward("log")
    assert expected.redone and not found.redone
    assert_allclose([log_z, packed.log_partition("scaled")], exact, rtol=1e-12)
    for name in PARTS:
        for actual, desired in zip(getattr(found, name), getattr(expected, name), strict=True):
            assert_allclose(actual, desired, atol=1e-9)


@pytest.mark.parametrize(
    "duration",
    [lambda n: 3 * np.log(n) - n / 5, lambda n: -20.0 * (n < 10), lambda n: -INF if n < 5 else 0.0],
)
def test_scores_of_durations_stay_in_range(duration, rng):
    packed = additive(rng, (1, 3, 2), 100, (30, 1), 1.0, duration)
    log_z, found = packed.forward_backward("scaled")
    assert not found.redone
    assert_allclose(log_z, packed.log_partition("log"), rtol=1e-12)


def test_a_gauge_that_drifts_is_tried_again(rng):
    packed = additive(rng, (1, 3, 2), 240, (30, 1), 4.0, lambda n: -20.0 * (n < 10))
    factors = [
        [np.exp(a) for a in part] for part in (packed.initialisation, packed.transition, packed.ending)
    ]
    assert packed._inside_under(packed._gauges(*factors), factors, 0.0).z < 1e-250
    log_z, found = packed.forward_backward("scaled")
    assert not found.redone
    assert_allclose(log_z, packed.log_partition("log"), rtol=1e-12)


@pytest.mark.parametrize("n_levels", [2, 3])
def test_gauge_of_an_additive_model_is_its_growth(n_levels, rng):
    packed = additive(rng, (1, 3, 4)[:n_levels], 40, (40, 1)[3 - n_levels :], 2.0)
    for values in packed.ending:
        values[-1] = 0  # what only the end of the sequence adds
    masses = packed._scaled_inside()
    assert_allclose(np.log(masses.z), packed.persistence[0][0], atol=1e-9)


def test_any_gauge_gives_the_same(rng):
    plain = additive(rng, (2, 2, 3), 12, (12, 3), 1.0)
    log_z, expected = plain.forward_backward()
    for gauge, redone in (
        (3 * rng.normal(size=12), False),
        (np.full(12, 400.0), True),
        (np.full(12, np.nan), False),
    ):
        packed = NestedSegments(
            plain.persistence, plain.initialisation, plain.transition, plain.ending, gauge=gauge
        )
        found_log_z, found = packed.forward_backward()
        assert found.redone == redone
        assert_allclose([found_log_z, packed.log_partition()], log_z, rtol=1e-12)
        for name in PARTS:
            for actual, desired in zip(getattr(found, name), getattr(expected, name), strict=True):
                assert_allclose(actual, desired, atol=1e-11)


def detour(gain, n_timesteps=4):
    """Two paths of score 0, one of which sinks to ``-2 * gain`` on its way."""
    persistence = [np.zeros(1), np.zeros((n_timesteps, 1, 2))]
    initialisation = [np.zeros((n_timesteps, 1, 2))]
    transition = [np.zeros((n_timesteps, 1, 2, 2))]
    initialisation[0][:, :, 1] = -gain
    transition[0][1, 0, 1, 1] = -gain
    transition[0][2:4, 0, 1, 1] = gain
    transition[0][:, :, 0, 1] = transition[0][:, :, 1, 0] = -INF
    return NestedSegments(
        persistence, initialisation, transition, [np.zeros((n_timesteps, 1, 2))], gauge=np.zeros(n_timesteps)
    )


@pytest.mark.parametrize("gain", [100.0, 300.0, 400.0, 590.0])
def test_masses_that_vanish_on_the_way_are_noticed(gain):
    packed = detour(gain)
    assert_allclose(packed.log_partition(), np.log(2), rtol=1e-12)
    log_z, found = packed.forward_backward()
    assert_allclose(log_z, np.log(2), rtol=1e-12)
    assert_allclose(found.state[1], 0.5)
    assert found.redone == (gain > 350)


def test_masses_that_sink_step_by_step_are_noticed():
    n_timesteps = 12
    packed = detour(0.0, n_timesteps)
    packed.transition[0][1:6, 0, 1, 1], packed.transition[0][6:11, 0, 1, 1] = -200, 200
    assert_allclose(packed.log_partition(), np.log(2), rtol=1e-12)
    assert packed.forward_backward()[1].redone


@pytest.mark.parametrize(("inside", "around"), [(800.0, 0.0), (400.0, 400.0), (0.0, 500.0), (50.0, 50.0)])
def test_weights_that_vanish_are_noticed(inside, around):
    """A segment of hopeless score, but what is inside it and around it makes up for it."""
    n_timesteps = 2
    band = np.full((n_timesteps, 2, 2), -INF)
    band[0, 1] = [0.0, -inside - around]
    persistence = [np.zeros(1), band, np.zeros((n_timesteps, 1, 1))]
    initialisation, ending = (
        [np.zeros((n_timesteps, 1, 2)), np.zeros((n_timesteps, 2, 1))] for _ in range(2)
    )
    initialisation[1][0, 1] = ending[1][1, 1] = inside / 2
    initialisation[0][0, 0, 1] = around
    transition = [np.zeros((n_timesteps, 1, 2, 2)), np.zeros((n_timesteps, 2, 1, 1))]
    packed = NestedSegments(persistence, initialisation, transition, ending, gauge=np.zeros(2))
    assert_allclose(packed.log_partition(), np.log(2), rtol=1e-12)
    _, found = packed.forward_backward()
    assert found.redone == (inside + around > 700)
    assert_allclose(found.state[1], 0.5)
