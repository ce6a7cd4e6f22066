"""Bounds on the expected log-sum-exp: values, derivatives, order, convexity."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from sklearn_seqlab.gaussian_process._softmax_bounds import SoftmaxBound

NAMES = ["tilted", "jensen", "bohning", "gh"]


def one(name, mu, nu):
    return SoftmaxBound(name)(np.array([mu], dtype=float), np.array([nu], dtype=float))


@pytest.mark.parametrize(
    "mu, nu, exact, tilted, bohning, jensen",
    [
        ((0, 0), (10, 10), 1.924, 3.193, 3.193, 5.693),
        ((1, -1), (2, 0.5), 1.270, 1.302, 1.439, 2.062),
    ],
)
def test_worked_values(mu, nu, exact, tilted, bohning, jensen):
    found = {name: one(name, mu, nu).value[0] for name in NAMES}
    expected = {"gh": exact, "tilted": tilted, "bohning": bohning, "jensen": jensen}
    assert_allclose([found[name] for name in NAMES], [expected[name] for name in NAMES], atol=6e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_derivatives_are_differences(name, size, rng):
    n_labels = 2 if name == "gh" else 4
    mu, nu = size * rng.normal(size=(5, n_labels)), size * rng.uniform(0.1, 2, size=(5, n_labels))
    found = SoftmaxBound(name)(mu, nu)
    h = 1e-6 * max(1.0, size)
    for j in range(n_labels):
        step = h * np.eye(n_labels)[j]
        by_mean = (SoftmaxBound(name)(mu + step, nu).value - SoftmaxBound(name)(mu - step, nu).value) / (
            2 * h
        )
        by_variance = (SoftmaxBound(name)(mu, nu + step).value - SoftmaxBound(name)(mu, nu - step).value) / (
            2 * h
        )
        assert_allclose(found.by_mean[:, j], by_mean, atol=1e-6)
        assert_allclose(found.by_variance[:, j], by_variance, atol=2e-6)


def test_all_bound_the_expectation_and_tilting_is_tighter(rng):
    mu, nu = 2 * rng.normal(size=(30, 3)), 4 * rng.uniform(size=(30, 3))
    draws = mu[:, None] + np.sqrt(nu)[:, None] * rng.standard_normal((30, 40_000, 3))
    sample = logsumexp(draws, axis=2)
    least = sample.mean(axis=1) - 5 * sample.std(axis=1) / np.sqrt(40_000)
    values = {name: SoftmaxBound(name)(mu, nu).value for name in NAMES[:3]}
    assert all((value >= least).all() for value in values.values())
    assert (values["tilted"] <= values["jensen"] + 1e-12).all()
    assert (values["tilted"] <= values["bohning"] + 1e-12).all()


@pytest.mark.parametrize("name", NAMES[:3])
def test_joint_convexity(name, rng):
    mu, nu = 3 * rng.normal(size=(2, 20_000, 3)), 6 * rng.uniform(size=(2, 20_000, 3))
    middle = SoftmaxBound(name)(mu.mean(axis=0), nu.mean(axis=0)).value
    ends = [SoftmaxBound(name)(mu[k], nu[k]).value for k in range(2)]
    assert (middle <= np.mean(ends, axis=0) + 1e-9).all()


def test_tilts_are_optimal_for_any_size(rng):
    """Variances over 2, where the plain iteration oscillates, and up to where ``exp`` would overflow."""
    for size in (1e-8, 1.0, 10.0, 1e3, 1e6):
        mu, nu = size * rng.normal(size=(200, 5)), size * rng.uniform(size=(200, 5))
        nu[::7, 2] = 0.0
        bound = SoftmaxBound("tilted")
        found = bound(mu, nu)
        active = nu > 0
        assert np.abs(bound._tilts - found.by_mean)[active].max() <= 1e-7
        assert np.isfinite(found.value).all()
        # a second call starts from the optimum
        assert_allclose(bound(mu, nu).value, found.value, rtol=1e-12)


def test_a_single_label_is_certain():
    for name in NAMES[:3]:
        assert_allclose(one(name, [0.7], [1.5]).by_mean, [[1.0]])
    assert_allclose(one("tilted", [0.7], [1.5]).value, [0.7])
