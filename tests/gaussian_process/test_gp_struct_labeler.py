"""GPStructLabeler: the likelihood, the sampler against importance sampling, predictions, diagnostics."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import EnumeratedChain
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, DotProduct

from sklearn_seqlab import GPStructLabeler
from sklearn_seqlab.gaussian_process._gp_struct_labeler import _seen_weights
from sklearn_seqlab.gaussian_process._kernels import group_columns, merge_columns
from sklearn_seqlab.gaussian_process._mcmc_diagnostics import effective_sample_size, split_rhat
from sklearn_seqlab.gaussian_process._slice_sampling import (
    ChainLikelihood,
    State,
    sample_chain,
    slice_move,
)
from sklearn_seqlab.utils._check_tools import make_check_data

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def data(n_sequences=15, seed=0):
    return make_check_data(GPStructLabeler(), n_sequences=n_sequences, seed=seed)


def worked_scores():
    t, j = np.arange(3)[:, None], np.arange(2)
    return np.sin(2.0 * t + j), np.cos(2.0 * np.arange(2)[:, None] + j)


def likelihood(codes, n_labels=2, offsets=(0, 3), weight=None):
    codes, offsets = np.asarray(codes), np.asarray(offsets)
    allowed = (codes[:, None] == np.arange(n_labels)) | (codes[:, None] < 0)
    complete = np.logical_and.reduceat(codes >= 0, offsets[:-1])
    weight = np.ones(len(complete)) if weight is None else np.asarray(weight)
    return ChainLikelihood(codes, allowed, complete, offsets, weight, np.arange(len(codes)))


def test_worked_likelihood():
    unary, transition = worked_scores()
    assert_allclose(likelihood([0, 1, 1])(unary, transition), -4.3462722533, atol=1e-8)
    assert_allclose(likelihood([0, -1, 1])(unary, transition), -1.5266237714, atol=1e-8)
    assert_allclose(likelihood([-1, -1, -1])(unary, transition), 0.0, atol=1e-12)
    chain = EnumeratedChain(unary, transition)
    first = [chain.probability[np.array(chain.labellings)[:, t] == 0].sum() for t in range(3)]
    assert_allclose(first, [0.641438, 0.938257, 0.661221], atol=1e-6)


def test_likelihood_of_several_sequences(rng):
    """Complete and partial ones, with weights, are sums over what fits."""
    unary, transition = rng.normal(size=(8, 3)), rng.normal(size=(3, 3))
    codes, offsets = np.array([0, 2, 1, -1, 2, 2, 1, -1]), np.array([0, 3, 6, 8])
    weight = np.array([0.5, 2.0, 1.0])
    expected = 0.0
    for s, (a, b) in enumerate(pairwise(offsets)):
        chain = EnumeratedChain(unary[a:b], transition)
        fits = [
            all(c in (-1, label) for c, label in zip(codes[a:b], y, strict=True)) for y in chain.labellings
        ]
        expected += weight[s] * np.log(chain.probability[fits].sum())
    assert_allclose(likelihood(codes, 3, offsets, weight)(unary, transition), expected, rtol=1e-12)


def test_sampler_against_importance_sampling():
    """Posterior means of scores and transitions on three steps, one label of which is missing."""
    gram = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, 0.5], [0.2, 0.5, 1.0]])
    root, target = np.linalg.cholesky(gram), likelihood([0, -1, 1])
    random = np.random.RandomState(0)

    def draw(random):
        white = random.standard_normal((3, 2))
        return State(white, root @ white, random.standard_normal((2, 2)))

    chain = sample_chain(
        draw, target, (2.0, 1.5), n_steps=5_000, first_kept=500, thin=1, learn_variances=False, random=random
    )
    found = np.concatenate(
        [np.mean([root @ w for w in chain.white], axis=0).ravel(), np.mean(chain.transition, 0).ravel()]
    )

    n_draws = 60_000
    unary = np.sqrt(2.0) * np.einsum("ab,sbj->saj", root, random.standard_normal((n_draws, 3, 2)))
    moves = np.sqrt(1.5) * random.standard_normal((n_draws, 2, 2))
    paths = list(product(range(2), repeat=3))
    scores = np.array(
        [
            sum(unary[:, t, p[t]] for t in range(3)) + moves[:, p[0], p[1]] + moves[:, p[1], p[2]]
            for p in paths
        ]
    )
    fits = [p[0] == 0 and p[2] == 1 for p in paths]
    log_p = logsumexp(scores[fits], axis=0) - logsumexp(scores, axis=0)
    weight = np.exp(log_p - logsumexp(log_p))
    expected = np.concatenate(
        [np.einsum("s,saj->aj", weight, unary).ravel(), np.einsum("s,sab->ab", weight, moves).ravel()]
    )
    assert_allclose(found, expected, atol=0.1)
    # spread as well: the posterior is not a point
    spread = np.einsum("s,sab->ab", weight, moves**2) - expected[6:].reshape(2, 2) ** 2
    assert_allclose(np.var(chain.transition, axis=0), spread, rtol=0.15)


def test_slice_move_draws_from_a_density():
    random = np.random.RandomState(1)

    def log_density(x):
        return float(np.logaddexp(-0.5 * (x + 2) ** 2, -0.5 * (x - 1.0) ** 2 / 0.25))

    x, value, draws = 0.0, log_density(0.0), []
    for _ in range(4000):
        x, value, _ = slice_move(x, value, log_density, random)
        draws.append(x)
    # masses 1 and 1/2 at -2 and 1
    assert abs(np.mean(draws) - (-2 + 0.5) / 1.5) < 0.1
    assert abs(np.mean(np.array(draws) > -0.2) - 1 / 3) < 0.06


def test_weights_and_scores_are_one_model():
    """The linear kernel sampled by weights and by scores gives the same probabilities up to noise."""
    X, y = data(8)
    by_weight = GPStructLabeler(scale=0.5, n_samples=1200, random_state=0).fit(X, y)
    kernel = DotProduct(sigma_0=0.0, sigma_0_bounds="fixed")
    by_score = GPStructLabeler(kernel, scale=0.5, n_samples=1200, random_state=1).fit(X, y)
    one, other = (np.concatenate(list(model.predict_proba(X))) for model in (by_weight, by_score))
    assert np.abs(one - other).mean() < 0.06
    assert by_weight.n_likelihood_evals_ < 20 * 1200


@pytest.mark.parametrize("n_columns", [4, 60])
def test_means_given_the_scores_of_training_steps(n_columns, rng):
    """Conditioning by the definition; inputs that no training step has get no weight."""
    values = rng.normal(size=(12, n_columns))
    values[:, -1] = 0.0
    group = group_columns(values)
    draws = rng.normal(size=(3, group.max() + 1, 2))
    found = _seen_weights(values, group, draws, 1e-8)
    merged, size = merge_columns(values, group), np.bincount(group)
    gram = (merged * size) @ merged.T
    for one, mean in zip(draws, found, strict=True):
        expected = size[:, None] * (merged.T @ np.linalg.lstsq(gram, merged @ one, rcond=1e-12)[0])
        assert_allclose(mean, expected, atol=1e-5)
        assert_allclose(merged @ mean, merged @ one, atol=1e-5)
        assert_allclose(mean[group[-1]], 0.0, atol=1e-12)


def test_predictions_are_averages_over_draws():
    X, y = data()
    model = GPStructLabeler(n_samples=60, thin=10, random_state=0).fit(X, y)
    values = X[1][:3]
    total, fits = np.zeros((3, 3)), np.zeros((3, 3))
    share = []
    for weights, moves in zip(model.weight_samples_, model.transition_samples_, strict=True):
        chain = EnumeratedChain(values @ weights[model.feature_group_], moves)
        labellings = np.array(chain.labellings)
        marginal = np.array(
            [[chain.probability[labellings[:, t] == k].sum() for k in range(3)] for t in range(3)]
        )
        total += marginal / len(model.weight_samples_)
        known = labellings[:, 1] == 2
        share.append(chain.probability[known].sum())
        fits += np.array(
            [[chain.probability[known & (labellings[:, t] == k)].sum() for k in range(3)] for t in range(3)]
        )
    assert_allclose(model.predict_proba([values])[0], total, atol=1e-10)
    assert_allclose(model.log_likelihood([values], [[None, "c", None]]), np.log(np.mean(share)), atol=1e-10)
    # draws that make the known label probable weigh more
    given = model.predict_proba([values], y_observed=[[None, "c", None]])[0]
    assert_allclose(given, fits / np.sum(share), atol=1e-10)


@pytest.mark.parametrize(
    "kernel", ["linear", RBF(2.0), [RBF(1.0), RBF(2.0), RBF(0.5)]], ids=["linear", "rbf", "each"]
)
@pytest.mark.parametrize("latent", ["mean", "sample"])
def test_kernels_learn(kernel, latent):
    X, y = data(20)
    model = GPStructLabeler(kernel, n_samples=400, latent=latent, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.65
    proba = np.concatenate(list(model.predict_proba(X)))
    assert_allclose(proba.sum(axis=1), 1.0)
    entropy, information = model.predict_information(X)
    assert all((0 <= i).all() and (i <= e + 1e-9).all() for e, i in zip(entropy, information, strict=True))


def test_what_a_draw_leaves_open_is_sampled():
    """Far from all training rows a kernel knows nothing: the mean is zero, and draws have the prior's variance."""
    X, y = data()
    far = [X[1] + 100]
    mean = GPStructLabeler(RBF(), n_samples=200, random_state=0).fit(X, y)
    sample = GPStructLabeler(RBF(), scale=9.0, n_samples=600, thin=5, latent="sample", random_state=0).fit(
        X, y
    )
    assert mean.predict_information(far)[1][0].mean() < sample.predict_information(far)[1][0].mean()


def test_variances_are_sampled():
    X, y = data(30)
    model = GPStructLabeler(hyper="slice", n_samples=600, random_state=0).fit(X, y)
    assert np.ptp(np.log(model.variance_samples_), axis=0).min() > 0.3
    fixed = GPStructLabeler(n_samples=60, random_state=0).fit(X, y)
    assert (fixed.variance_samples_ == 1.0).all()


def test_chains_are_compared():
    X, y = data()
    model = GPStructLabeler(n_chains=3, n_samples=90, random_state=0).fit(X, y)
    assert model.log_likelihood_trace_.shape == (3, 90)
    assert len(model.transition_samples_) == 3 * 6
    assert model.rhat_ > 1.0 and model.n_effective_ < 19
    with pytest.warns(ConvergenceWarning, match="have not mixed"):
        GPStructLabeler(n_samples=12, thin=1, scale=100.0, random_state=0).fit(X, y)


def test_diagnostics_of_known_chains(rng):
    """Autoregressions are worth n (1 - phi) / (1 + phi) draws; chains at different places have not mixed."""
    n_draws = 20_000
    for phi in (0.0, 0.5, 0.9, -0.3):
        noise = rng.standard_normal((4, n_draws))
        draws = np.empty_like(noise)
        draws[:, 0] = noise[:, 0] / np.sqrt(1 - phi**2)
        for k in range(1, n_draws):
            draws[:, k] = phi * draws[:, k - 1] + noise[:, k]
        found = effective_sample_size(draws[:, :, None])[0]
        assert_allclose(found, 4 * n_draws * (1 - phi) / (1 + phi), rtol=0.1)
        assert abs(split_rhat(draws[:, :, None])[0] - 1) < 0.01
    apart = rng.standard_normal((2, 500, 1)) + np.array([0.0, 5.0])[:, None, None]
    assert split_rhat(apart)[0] > 3 and effective_sample_size(apart)[0] < 10
    trend = np.linspace(0, 5, 500)[None, :, None] + rng.standard_normal((1, 500, 1))
    assert split_rhat(trend)[0] > 1.5
    constant = np.ones((2, 10, 1))
    assert split_rhat(constant)[0] == 1.0 and effective_sample_size(constant)[0] == 20
    assert np.isnan(split_rhat(np.ones((1, 3, 1)))[0])


def test_interrupt_keeps_the_draws(monkeypatch):
    X, y = data()
    calls = []
    call = ChainLikelihood.__call__

    def interrupted(self, unary, transition):
        calls.append(1)
        if len(calls) > 900:
            raise KeyboardInterrupt
        return call(self, unary, transition)

    monkeypatch.setattr(ChainLikelihood, "__call__", interrupted)
    model = GPStructLabeler(n_samples=2000, burn_in=0.0, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert 0 < len(model.transition_samples_) < 200 and len(model.predict(X)) == len(X)
    calls[:] = [1] * 900
    with pytest.raises(KeyboardInterrupt):
        GPStructLabeler(n_samples=2000).fit(X, y)
