"""HSCRFClassifier: every verb and the objective against enumeration, and reductions to other models."""

import numpy as np
import pytest
from fitted_hierarchies import enumerated, labels_of, objective, segments_of, shaken, slopes
from numpy.testing import assert_allclose, assert_array_equal
from two_levels import MODELS, TIGHT, data_for, make_data, quiet

from sklearn_seqlab import HSCRFClassifier, LinearChainCRF, SemiCRF


@pytest.fixture(params=MODELS)
def model(request, rng):
    """A model with random weights."""
    estimator = MODELS[request.param]
    X, y = data_for(estimator, rng)
    return shaken(quiet(estimator, X, y, max_iter=2), rng)


def answers_of(model, x, found, known=None):
    """Compare what the verbs say of a sequence with an enumeration."""
    labels, ends = labels_of(model, found)
    p, observed = found.probability, None if known is None else [known]
    best = model.set_params(decoding="map").predict([x], y_observed=observed)[0]
    k = int(np.argmax(p))
    assert_allclose(p[k], np.sort(p)[-1])
    segments = model.predict_segments([x], y_observed=observed)[0]
    if np.sort(p)[-2] < p[k] * (1 - 1e-9):
        assert segments == segments_of(labels[k], ends[k])
        assert_array_equal(best.astype(object).reshape(len(x), -1), labels[k].T)
    marginals = model.predict_marginals([x], y_observed=observed)[0]
    decoded = model.set_params(decoding="marginal").predict([x], y_observed=observed)[0].reshape(len(x), -1)
    for d, own in enumerate(model.classes_):
        expected = np.array([[p[labels[:, d, t] == c].sum() for c in own] for t in range(len(x))])
        assert_allclose(marginals[d], expected, atol=1e-9)
        assert_array_equal(decoded[:, d], own[marginals[d].argmax(axis=1)])
    boundary = model.predict_boundary_proba([x], y_observed=observed)[0].reshape(len(x), -1)
    assert_allclose(boundary, np.einsum("n,ndt->td", p, ends), atol=1e-9)


def test_every_verb_matches_enumeration(model, rng):
    x = rng.normal(size=(4, 3)) * (rng.uniform(size=(4, 3)) < 0.6)
    answers_of(model, x, enumerated(model, x))


def test_partial_knowledge_matches_enumeration(model, rng):
    x = rng.normal(size=(4, 3)) * (rng.uniform(size=(4, 3)) < 0.6)
    found = enumerated(model, x)
    labels, ends = labels_of(model, found)
    possible = np.flatnonzero(found.scores > -np.inf)
    for share in (0.0, 0.2, 0.5, 1.0):
        k = rng.choice(possible)
        said = rng.uniform(size=(2, *labels[k].shape)) < share
        table = np.where(said[0], labels[k], None)
        table[0, 1] = frozenset({labels[k][0, 1], model.classes_[0][0].item()})
        table[-1, 2] = {labels[k][-1, 2], model.classes_[-1][0].item()}
        known = (table.T, np.where(said[1], ends[k], np.nan).T)
        fits = np.ones(len(labels), dtype=bool)
        for d, t in np.ndindex(table.shape):
            one = table[d, t]
            if one is not None:
                fits &= np.isin(labels[:, d, t], list(one) if isinstance(one, set | frozenset) else [one])
            if said[1][d, t]:
                fits &= ends[:, d, t] == ends[k][d, t]
        expected = np.log(found.probability[fits].sum())
        assert_allclose(model.log_likelihood([x], [known]), [expected], atol=1e-9)
        scores, found.scores = found.scores, np.where(fits, found.scores, -np.inf)
        answers_of(model, x, found, known)
        found.scores = scores
    assert_allclose(model.log_likelihood([x], [None]), 0, atol=1e-12)


def test_samples_have_the_frequencies_of_the_model(model, rng):
    x = rng.normal(size=(3, 3))
    found = enumerated(model, x)
    labels, n_samples = labels_of(model, found)[0], 1500
    draws = model.sample([x], n_samples=n_samples, random_state=0)
    counts, p = {}, {}
    for draw in draws:
        word = "".join(draw[0].T.ravel())
        counts[word] = counts.get(word, 0) + 1
    for own, probability in zip(labels, found.probability, strict=True):
        word = "".join(own.ravel())
        p[word] = p.get(word, 0.0) + probability
    for word, count in counts.items():
        deviation = np.sqrt(p[word] * (1 - p[word]) / n_samples)
        assert abs(count / n_samples - p[word]) < 5 * deviation + 2e-3


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    "name", ["chain, edges", "mixed, gamma", "mixed, bottom", "aio, durations", "root, segments"]
)
def test_fit_ends_where_the_stated_objective_is_flat(name, partial, rng):
    X, y = data_for(MODELS[name], rng, n_sequences=6, n_steps=6)
    if partial:
        y = [
            [
                [None if (t + d) % 3 == 1 else v for d, v in enumerate(row)]
                for t, row in enumerate(table.tolist())
            ]
            for table in y
        ]
        y[1] = [
            [row[0], None]
            for row in data_for(MODELS[name], np.random.default_rng(0), n_sequences=6, n_steps=6)[1][1]
        ]
        y[2] = [[None, row[1]] for row in y[2]] if name != "mixed, bottom" else y[2]
    model = quiet(MODELS[name], X, y, C=2.0, tol=1e-8, max_iter=300)
    assert_allclose(objective(model, X, y), model.loss_curve_[-1], rtol=1e-8)
    for block, slope in slopes(model, X, y, rng).items():
        assert abs(slope) < 5e-3, block


# reductions


def test_one_level_is_a_chain(rng):
    X, y = make_data(rng)
    y = [table[:, 1] for table in y]
    for extra in ({}, {"engine": "aio"}):
        chain = LinearChainCRF(fit_intercept=False, **TIGHT).fit(X, y)
        model = HSCRFClassifier(duration="none", **TIGHT, **extra).fit(X, y)
        assert_allclose(model.coef_["unary"][0], chain.coef_, atol=1e-4)
        assert_allclose(model.coef_["transition"][0][0], chain.transition_coef_, atol=1e-4)
        assert_allclose(model.coef_["initialisation"][0][0], chain.start_coef_, atol=1e-4)
        assert_allclose(model.coef_["ending"][0][0], chain.end_coef_, atol=1e-4)
        assert_allclose(model.loss_curve_[-1], chain.loss_curve_[-1], rtol=1e-8)
        for a, b in zip(model.predict_proba(X), chain.predict_proba(X), strict=True):
            assert_allclose(a, b, atol=1e-4)
        for a, b in zip(model.predict(X), chain.predict(X), strict=True):
            assert_array_equal(a, b)
        hidden = [[None if t % 2 else label for t, label in enumerate(labels.tolist())] for labels in y]
        assert_allclose(model.log_likelihood(X, hidden), chain.log_likelihood(X, hidden), atol=1e-4)
    assert model.classes_[0].tolist() == ["a", "b", "c"] and model.n_levels_ == 1


@pytest.mark.parametrize("duration", ["table", "gamma", "geometric"])
def test_one_level_of_segments_is_a_semi_markov_crf(duration, rng):
    X, y = make_data(rng)
    y = [table[:, 0] for table in y]
    options = {
        "duration": duration,
        "max_duration": "observed",
        "edge_features": ("start", "transition"),
        **TIGHT,
    }
    semi = SemiCRF(**options).fit(X, y)
    model = HSCRFClassifier(bottom_persist=True, **options).fit(X, y)
    assert semi.coef_.keys() == model.coef_.keys()
    for name in semi.coef_:
        assert_array_equal(model.coef_[name][0], semi.coef_[name][0])
    for a, b in zip(model.predict_proba(X), semi.predict_proba(X), strict=True):
        assert_array_equal(a, b)
    assert [[s[1:] for s in own] for own in model.predict_segments(X)] == semi.predict_segments(X)


def test_dummies_above_and_below_change_nothing(rng):
    """A level of one label says nothing, be it above or below the segments."""
    X, y = make_data(rng)
    flat = [table[:, 0] for table in y]
    semi = SemiCRF(duration="gamma", max_duration=None, **TIGHT).fit(X, flat)
    with_bottom = [np.column_stack([labels, np.full(len(labels), "z")]) for labels in flat]
    bottom = HSCRFClassifier(duration=["gamma", "none"], segment_features=[("sum",), ("sum",)], **TIGHT).fit(
        X, with_bottom
    )
    with_root = [np.column_stack([np.full(len(labels), "z"), labels]) for labels in flat]
    root = HSCRFClassifier(root=True, bottom_persist=True, duration="gamma", **TIGHT).fit(X, with_root)
    for model, level in ((bottom, 0), (root, 1)):
        copied = {
            name: [None if t is None else np.zeros_like(t) for t in tables]
            for name, tables in model.coef_.items()
        }
        for name in ("unary", "bias", "segment_bias", "duration", "initialisation", "ending", "transition"):
            copied[name][level] = semi.coef_[name][0]
        for name in ("transition",):
            copied[name][1 - level] = None if model is root else np.zeros((2, 1, 1))
        model.coef_ = copied
        for a, b in zip(model.predict_marginals(X), semi.predict_proba(X), strict=True):
            assert_allclose(a[level], b, atol=1e-9)
        for a, b in zip(model.predict(X), semi.predict(X), strict=True):
            assert_array_equal(a[:, level], b)
        for a, b in zip(model.predict_boundary_proba(X), semi.predict_boundary_proba(X), strict=True):
            assert_allclose(a[:, level], b, atol=1e-9)


@pytest.mark.parametrize("name", ["chain, edges", "mixed, gamma", "mixed, top", "root", "root, segments"])
@pytest.mark.parametrize("numerics", ["scaled", "log"])
def test_engines_agree(name, numerics, rng):
    X, y = data_for(MODELS[name], rng)
    if name == "mixed, top":
        X, y = [x[:3] for x in X], [table[:3] for table in y]
    linear = quiet(MODELS[name], X, y, max_iter=20, numerics=numerics)
    general = quiet(MODELS[name], X, y, max_iter=20, engine="aio", numerics=numerics)
    assert (linear.engine_, general.engine_) in {("chain", "aio"), ("mixed", "aio")}
    assert_allclose(general.loss_curve_, linear.loss_curve_, rtol=1e-5)
    general.coef_ = linear.coef_
    for a, b in zip(general.predict_marginals(X), linear.predict_marginals(X), strict=True):
        for one, other in zip(a, b, strict=True):
            assert_allclose(one, other, atol=1e-9)
    assert general.predict_segments(X) == linear.predict_segments(X)
    for a, b in zip(general.predict_boundary_proba(X), linear.predict_boundary_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-9)


def test_engine_follows_from_durations(rng):
    X, y = make_data(rng, n_sequences=4, bottom=2)
    cases = {
        "chain": {},
        "mixed": {"duration": ["geometric", "gamma"]},
        "aio": {"duration": "gamma"},
    }
    for engine, options in cases.items():
        assert quiet(HSCRFClassifier(bottom_persist=True, max_iter=1, **options), X, y).engine_ == engine
    for options, match in (
        ({"engine": "chain", "max_duration": 7}, "engine='chain' needs scores that are sums"),
        ({"engine": "chain", "segment_features": ("mean",)}, "engine='chain'"),
        ({"engine": "mixed", "duration": "table"}, "engine='mixed' takes one level"),
    ):
        with pytest.raises(ValueError, match=match):
            HSCRFClassifier(bottom_persist=True, **options).fit(X, y)
