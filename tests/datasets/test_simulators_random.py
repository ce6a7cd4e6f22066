import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gamma, norm

from sklearn_seqlab.datasets import _simulators_random as sr


def test_seed_from_every_kind_of_random_state():
    assert sr.check_seed(7) == 7
    assert sr.check_seed(np.int64(7)) == 7
    assert sr.check_seed(np.random.RandomState(3)) == np.random.RandomState(3).randint(2**31 - 1)
    assert sr.check_seed(np.random.default_rng(3)) == np.random.default_rng(3).integers(2**31 - 1)
    assert sr.check_seed(None) != sr.check_seed(None)


@pytest.mark.parametrize("bad", [-1, 1.5, True, "0"])
def test_seed_refuses(bad):
    with pytest.raises(ValueError, match="random_state must be"):
        sr.check_seed(bad)


def test_streams_are_named_and_independent():
    assert_array_equal(sr.stream(5, 0, 1).random(4), sr.stream(5, 0, 1).random(4))
    assert not np.array_equal(sr.stream(5, 0, 1).random(4), sr.stream(5, 1, 0).random(4))
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence(5, spawn_key=(2, 3)))).random(4)
    assert_array_equal(sr.stream(5, 2, 3).random(4), expected)


def test_pick_takes_the_first_index_whose_running_sum_exceeds_u():
    p = sr.cumulative([0.5, 0.0, 0.5])
    assert [sr.pick(u, p) for u in (0.0, 0.49, 0.5, 0.99)] == [0, 0, 2, 2]
    assert sr.pick(0.9999, sr.cumulative([0.3, 0.3])) == 1  # the last if none


def test_gam_is_a_rounded_gamma_quantile():
    for u in (0.01, 0.4, 0.99):
        assert sr.gam(u, 9, 8.0, lo=2) == max(2, int(np.floor(gamma.ppf(u, 9, scale=8 / 9) + 0.5)))
    assert sr.gam(0.0, 2, 4, lo=1) == 1


def test_integer_and_normal():
    assert_array_equal(sr.integer([0.0, 0.24, 0.25, 1.0], 4), [0, 0, 1, 3])
    assert_allclose(sr.normal(np.array([0.1, 0.9])), norm.ppf([0.1, 0.9]))


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan, "much", None])
def test_check_fraction_refuses(bad):
    with pytest.raises(ValueError, match="noise must be a share"):
        sr.check_fraction(bad, "noise")
