"""SemiCRF: every verb and the objective against enumeration, reductions, forms of labels."""

import pickle
import warnings

import numpy as np
import pytest
from fitted_hierarchies import enumerated, labels_of, objective, segments_of, shaken, slopes
from labelled_segments import TIGHT, as_ends, as_segments, make_data
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import LinearChainCRF, SemiCRF
from sklearn_seqlab.exceptions import InfeasibleSequenceError

MODELS = {
    "table": SemiCRF(),
    "table, capped": SemiCRF(max_duration=4),
    "gamma with tail": SemiCRF(duration="gamma", self_transitions=True),
    "gamma, unlimited": SemiCRF(duration="gamma", max_duration=None),
    "geometric": SemiCRF(duration="geometric", max_duration=None, self_transitions=True),
    "no durations": SemiCRF(duration="none", max_duration=None),
    "means and any": SemiCRF(segment_features=("mean", "any"), self_transitions=True),
    "edges": SemiCRF(
        segment_features="sum", edge_features=("start", "end", "transition"), self_transitions=True
    ),
    "all in the log domain": SemiCRF(
        segment_features=("sum", "mean", "any"), edge_features=("start",), duration="gamma", numerics="log"
    ),
    "forbidden moves": SemiCRF(allowed_transitions={"a": ["b"], "b": ["a", "c"], "c": ["a", "b"]}),
}


@pytest.fixture(params=MODELS)
def model(request, rng):
    """A model with random weights, whose explicit durations are shorter than its sequences."""
    X, y = make_data(rng)
    if request.param == "forbidden moves":
        y = [np.where((labels == "c") & (np.roll(labels, 1) == "a"), "b", labels) for labels in y]
        y = [labels if "ac" not in "".join(labels) else np.where(labels == "c", "b", labels) for labels in y]
        y[0][:] = ["b", "b", "c", "c", "b", "b", "b", "a", "a"]
    fitted = MODELS[request.param].set_params(max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return shaken(fitted.fit(X, y), rng)


def test_every_verb_matches_enumeration(model, rng):
    x = rng.normal(size=(6, 3)) * (rng.uniform(size=(6, 3)) < 0.6)
    found = enumerated(model, x)
    labels, ends = labels_of(model, found)
    p, (best,) = found.probability, model.predict([x])
    k = int(np.argmax(p))
    assert_array_equal(best, labels[k, 0])
    expected = [segment[1:] for segment in segments_of(labels[k], ends[k])]
    assert model.predict_segments([x]) == [expected]
    marginal = np.array([[p[labels[:, 0, t] == c].sum() for c in model.classes_] for t in range(6)])
    assert_allclose(model.predict_proba([x])[0], marginal, atol=1e-10)
    assert_array_equal(model.predict_marginals([x])[0][0], model.predict_proba([x])[0])
    assert_allclose(model.predict_boundary_proba([x])[0], p @ ends[:, 0], atol=1e-10)
    assert_array_equal(
        model.set_params(decoding="marginal").predict([x])[0], model.classes_[marginal.argmax(1)]
    )


def test_likelihood_sums_what_fits(model, rng):
    x = rng.normal(size=(5, 3)) * (rng.uniform(size=(5, 3)) < 0.6)
    found = enumerated(model, x)
    labels, ends = (part[:, 0] for part in labels_of(model, found))
    may = model._structure["self_transitions"][0]
    cases = {
        "labels": (list("aabba"), (labels == list("aabba")).all(1)),
        "a gap": (["b", None, None, "c", None], (labels[:, 0] == "b") & (labels[:, 3] == "c")),
        "candidates": ([None, {"a", "c"}, None, None, "b"], (labels[:, 1] != "b") & (labels[:, 4] == "b")),
        "ends": ((None, [None, 1, 0, None, 1]), (ends[:, 1] == 1) & (ends[:, 2] == 0)),
        "labels and ends": (
            (["b", "b", None, None, None], [0, None, 1, None, None]),
            (labels[:, 0] == "b") & (labels[:, 1] == "b") & (ends[:, 0] == 0) & (ends[:, 2] == 1),
        ),
        "a segment": (
            [(1, 3, "b")],
            (labels[:, 1] == "b") & (labels[:, 2] == "b")
            & (ends[:, 0] == 1) & (ends[:, 1] == 0) & (ends[:, 2] == 1),
        ),
        "a segment without a label": (
            [(2, 4, None)], (ends[:, 1] == 1) & (ends[:, 2] == 0) & (ends[:, 3] == 1)
        ),
        "nothing": (None, np.ones(len(labels), dtype=bool)),
    }  # fmt: skip
    if not may:  # labels then say all about ends
        assert not found.probability[((labels[:, 1:] == labels[:, :-1]) & (ends[:, :-1] == 1)).any(1)].any()
    given = model.log_likelihood([x] * len(cases), [known for known, _ in cases.values()])
    for (case, (_, fits)), value in zip(cases.items(), given, strict=True):
        with np.errstate(divide="ignore"):
            assert_allclose(value, np.log(found.probability[fits].sum()), atol=1e-9, err_msg=case)


def test_samples_have_the_frequencies_of_the_model(model, rng):
    x = rng.normal(size=(4, 3))
    found = enumerated(model, x)
    labels = labels_of(model, found)[0][:, 0]
    draws = model.sample([x], n_samples=3000, random_state=0)
    words = ["".join(draw[0]) for draw in draws]
    assert set(words) <= {"".join(own) for own in labels[found.probability > 0]}
    for word in set(words):
        p = found.probability[(labels == list(word)).all(1)].sum()
        assert abs(words.count(word) / 3000 - p) < 5 * np.sqrt(p * (1 - p) / 3000) + 1e-3


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("partial", [False, True])
def test_fit_ends_where_the_stated_objective_is_flat(name, partial, rng):
    X, y = make_data(rng, n_sequences=8)
    if name == "forbidden moves":
        y = [np.where(labels == "c", "b", labels) for labels in y]
        y[0][:] = ["b", "b", "c", "c", "b", "b", "b", "a", "a"]
    if partial:
        y = [[None if t % 3 == 1 else label for t, label in enumerate(part.tolist())] for part in y]
        y[0] = (None, [0, 1] * 4 + [1])
        y[1] = [(2, 4, "a"), (6, 9, "b")]
    model = SemiCRF(**MODELS[name].get_params()).set_params(C=2.0, tol=1e-9, max_iter=5000).fit(X, y)
    assert_allclose(objective(model, X, y), model.loss_curve_[-1], rtol=1e-9)
    for block, slope in slopes(model, X, y, rng).items():
        assert abs(slope) < 1e-3, block
    assert (np.diff(model.loss_curve_) <= 1e-9).all()


# reductions


def test_segments_of_one_step_are_a_chain(rng):
    X, y = make_data(rng)
    chain = LinearChainCRF(fit_intercept=False, **TIGHT).fit(X, y)
    semi = SemiCRF(max_duration=1, duration="none", self_transitions=True, **TIGHT).fit(X, y)
    assert_allclose(semi.coef_["unary"][0], chain.coef_, atol=1e-4)
    assert_allclose(semi.transition_coef_, chain.transition_coef_, atol=1e-4)
    assert_allclose(semi.start_coef_, chain.start_coef_, atol=1e-4)
    assert_allclose(semi.end_coef_, chain.end_coef_, atol=1e-4)
    assert_allclose(semi.loss_curve_[-1], chain.loss_curve_[-1], rtol=1e-8)
    for a, b in zip(semi.predict_proba(X), chain.predict_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-4)
    assert_allclose(semi.log_likelihood(X, y), chain.log_likelihood(X, y), atol=1e-3)
    for a, b in zip(semi.predict(X), chain.predict(X), strict=True):
        assert_array_equal(a, b)
    assert {end for s in semi.predict_boundary_proba(X) for end in s.round(12)} == {1.0}


def test_markov_segments_are_a_chain_without_self_moves(rng):
    """Without durations a segment's steps multiply: a chain in which a move to the same label costs nothing."""
    X, y = make_data(rng)
    semi = SemiCRF(max_duration=None, duration="none", **TIGHT).fit(X, y)
    chain = LinearChainCRF(fit_intercept=False).fit(X, y)
    chain.coef_, chain.transition_coef_ = semi.coef_["unary"][0], semi.transition_coef_.copy()
    np.fill_diagonal(chain.transition_coef_, 0.0)
    chain.start_coef_, chain.end_coef_ = semi.start_coef_, semi.end_coef_
    assert_allclose(semi.log_likelihood(X, y), chain.log_likelihood(X, y), atol=1e-9)
    for a, b in zip(semi.predict_proba(X), chain.predict_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-9)


def test_ways_to_the_same_durations_agree(rng):
    """A table long enough has room for every curve; no limit is a limit of the longest sequence."""
    X, y = make_data(rng)
    for duration in ("gamma", "geometric", "none"):
        free = SemiCRF(duration=duration, max_duration=None, **TIGHT).fit(X, y)
        capped = SemiCRF(duration=duration, max_duration=9, **TIGHT).fit(X, y)
        assert_allclose(free.log_likelihood(X, y), capped.log_likelihood(X, y), atol=1e-4)
    gamma = SemiCRF(duration="gamma", max_duration=None, **TIGHT).fit(X, y)
    table = SemiCRF(duration="table", max_duration=9).fit(X, y)
    for name in ("unary", "initialisation", "transition", "ending"):
        table.coef_[name] = gamma.coef_[name]
    table.coef_["duration"] = [gamma.duration_scores_.T.copy()]
    table.coef_["bias"] = table.coef_["segment_bias"] = [np.zeros(len(gamma.classes_))]
    assert_allclose(table.log_likelihood(X, y), gamma.log_likelihood(X, y), atol=1e-9)


@pytest.mark.parametrize("duration", ["table", "gamma", "geometric"])
def test_numerics_agree(duration, rng):
    X, y = make_data(rng)
    scaled, log = (SemiCRF(duration=duration, numerics=n, **TIGHT).fit(X, y) for n in ("scaled", "log"))
    assert_allclose(scaled.log_likelihood(X, y), log.log_likelihood(X, y), atol=1e-4)
    log.set_params(numerics="scaled")
    expected = log.predict_proba(X)
    for a, b in zip(expected, log.set_params(numerics="log").predict_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-10)


# forms of labels


def test_equivalent_forms_learn_the_same(rng):
    X, y = make_data(rng)
    expected = pickle.dumps(SemiCRF(max_duration=5).fit(X, y))
    forms = {
        "lists": [labels.tolist() for labels in y],
        "labels and ends": [(labels, as_ends(labels)) for labels in y],
        "labels and missing ends": [(labels, np.full(len(labels), np.nan)) for labels in y],
        "segments": [as_segments(labels) for labels in y],
        "segments of level 0": [[(0, *segment) for segment in as_segments(labels)] for labels in y],
        "shuffled segments": [as_segments(labels)[::-1] for labels in y],
        "single candidates": [[{label} for label in labels.tolist()] for labels in y],
        "mixed": [
            as_segments(v) if s % 3 == 0 else (v, as_ends(v)) if s % 3 == 1 else v for s, v in enumerate(y)
        ],
    }
    for form, given in forms.items():
        found = SemiCRF(max_duration=5).fit(X, given)
        assert pickle.dumps(found) == expected, form
    nothing = SemiCRF(max_duration=5).fit([*X, X[0]], [*y, None])
    assert pickle.dumps(nothing) == expected
    table = SemiCRF(max_duration=5).fit(X, [labels[:, None] for labels in y])
    assert_array_equal(table.coef_["unary"][0], pickle.loads(expected).coef_["unary"][0])


def test_ends_decide_about_neighbours_of_one_label(rng):
    X, y = make_data(rng)
    plain = SemiCRF().fit(X, y)
    assert not np.isfinite(np.diag(plain.transition_coef_)).any()
    ends = [as_ends(labels) for labels in y]
    twin = next(t for t in range(8) if y[0][t] == y[0][t + 1])
    ends[0][twin] = 1
    split = SemiCRF().fit(X, list(zip(y, ends, strict=True)))
    assert np.isfinite(np.diag(split.transition_coef_)).all()
    segments = split.predict_segments(X[:1], y_observed=[(y[0], ends[0])])[0]
    assert twin + 1 in [stop for _, stop, _ in segments]
    with pytest.raises(InfeasibleSequenceError, match=r"y_observed\[0\].*may not follow"):
        plain.predict(X[:1], y_observed=[(y[0], ends[0])])


@pytest.mark.parametrize("decoding", ["map", "marginal"])
def test_what_is_known_comes_back(decoding, rng):
    X, y = make_data(rng)
    model = SemiCRF(decoding=decoding, self_transitions=True).fit(X, y)
    wrong = [np.roll(labels, 1) for labels in y]  # what the model would not say by itself
    partial = [
        [label if (s + t) % 3 else None for t, label in enumerate(v.tolist())] for s, v in enumerate(wrong)
    ]
    forms = {
        "labels": partial,
        "labels and ends": [(labels, [None, 1] + [None] * 7) for labels in partial],
        "segments": [[(2, 5, "b"), (7, 8, "a")] for _ in X],
        "candidates": [[{label, "a"} for label in labels.tolist()] for labels in wrong],
    }
    for form, known in forms.items():
        labels = model.predict(X, y_observed=known)
        segments = model.predict_segments(X, y_observed=known)
        proba = model.predict_proba(X, y_observed=known)
        boundary = model.predict_boundary_proba(X, y_observed=known)
        assert (model.log_likelihood(X, known) < 0).all()
        for s in range(len(X)):
            assert_allclose(proba[s].sum(axis=1), 1)
            if form == "segments":
                assert {(2, 5, "b"), (7, 8, "a")} <= set(segments[s])
                assert set(labels[s][2:5]) == {"b"} and labels[s][7] == "a"
                assert_allclose(boundary[s][1:8], [1, 0, 0, 1, boundary[s][5], 1, 1], atol=1e-9)
                continue
            given = known[s][0] if form == "labels and ends" else known[s]
            if form == "labels and ends":
                assert 2 in [stop for _, stop, _ in segments[s]] and boundary[s][1] == pytest.approx(1)
            for t, label in enumerate(given):
                fits = (
                    label
                    if isinstance(label, set)
                    else set(model.classes_.tolist())
                    if label is None
                    else {label}
                )
                assert labels[s][t] in fits
                assert next(own for a, b, own in segments[s] if a <= t < b) in fits
                outside = [c not in fits for c in model.classes_.tolist()]
                assert not proba[s][t, outside].any()


def test_observed_moves_are_those_that_labels_may_have_made(rng):
    X, y = make_data(rng)
    y = [np.where(labels == "c", "b", labels) for labels in y]
    y[0][:] = list("aabbbccaa")
    model = SemiCRF(allowed_transitions="observed").fit(X, y)
    assert_array_equal(np.isfinite(model.transition_coef_), [[0, 1, 0], [1, 0, 1], [1, 0, 0]])
    assert_array_equal(model.transition_mask_, np.isfinite(model.transition_coef_))
    words = {"".join(dict.fromkeys("".join(draw[0]))) for draw in model.sample(X[:1], 200, random_state=0)}
    assert not any("ac" in word or "cb" in word for word in words if len(word) == 2)
