"""SemiCRF: every verb against enumeration, reductions, forms of labels, solvers, and what goes wrong."""

import pickle
import warnings

import numpy as np
import pytest
from fitted_hierarchies import enumerated, labels_of, objective, segments_of, shaken, slopes
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import LinearChainCRF, SemiCRF
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.metrics import log_likelihood, segment_f1
from sklearn_seqlab.preprocessing import make_sequence_pipeline

TIGHT = {"tol": 1e-8, "max_iter": 10_000}


def make_data(rng, n_sequences=12, n_steps=9, labels=("a", "b", "c")):
    """Noisy sequences whose labels last one to four steps, and change at every border."""
    X, y = [], []
    for _ in range(n_sequences):
        codes, last = [], -1
        while len(codes) < n_steps:
            last = rng.choice([k for k in range(len(labels)) if k != last])
            codes += [last] * rng.integers(1, 5)
        codes = np.array(codes[:n_steps])
        X.append(rng.normal(size=(n_steps, 3)).round(2) + np.eye(len(labels), 3)[codes])
        y.append(np.array(labels)[codes])
    return X, y


def as_segments(labels):
    stops = [*(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist(), len(labels)]
    return [(start, stop, labels[start].item()) for start, stop in zip([0, *stops], stops, strict=False)]


def as_ends(labels):
    return np.append(labels[1:] != labels[:-1], True).astype(int)


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
    with pytest.raises(InfeasibleSequenceError, match="Sequence 0"):
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
    assert_array_equal(model.transition_mask_[0][0], np.isfinite(model.transition_coef_))
    words = {"".join(dict.fromkeys("".join(draw[0]))) for draw in model.sample(X[:1], 200, random_state=0)}
    assert not any("ac" in word or "cb" in word for word in words if len(word) == 2)


# what goes wrong

ONES = [1] * 9
ERRORS = {
    "no sequences": (lambda X, y: ([], []), "X"),
    "no labels": (lambda X, y: (X, None), "y"),
    "a sequence too few": (lambda X, y: (X, y[:-1]), r"y has 11 label sequences, but X has 12"),
    "other features": (lambda X, y: ([*X[:3], X[3][:, :2], *X[4:]], y), r"X\[3\] has 2 features"),
    "infinite values": (lambda X, y: ([*X[:3], X[3] / 0.0, *X[4:]], y), r"X\[3\].*(infinity|NaN).*time step 0"),
    "no time steps": (lambda X, y: ([X[0][:0], *X[1:]], y), r"X\[0\].*0 time steps"),
    "a label too few": (lambda X, y: (X, [*y[:3], y[3][:-1], *y[4:]]), r"y\[3\] has 8 labels, but X\[3\] has 9"),
    "two levels": (lambda X, y: (X, [np.column_stack([v, v]) for v in y]), r"y\[0\] has 2 level"),
    "nothing known": (lambda X, y: (X, [None] * 12), "every step of every sequence is missing"),
    "an end of 2": (lambda X, y: (X, [(y[0], [2, *ONES[1:]]), *y[1:]]), r"y\[0\], level 0, time step 0.*2"),
    "no last end": (lambda X, y: (X, [(y[0], [*ONES[:-1], 0]), *y[1:]]), r"y\[0\], level 0, time step 8"),
    "a change without end": (
        lambda X, y: (X, [*y[:2], (list("aabbbcccc"), [0, 0, 0, 0, 1, 0, 0, 0, 1]), *y[3:]]),
        r"y\[2\], level 0, time step 2: the label is 'b', but at time step 1 it is 'a'",
    ),
    "ends too short": (lambda X, y: (X, [(y[0], ONES[1:]), *y[1:]]), r"y\[0\] has 9 labels, but 8 end"),
    "crossing segments": (lambda X, y: (X, [[(0, 4, "a"), (3, 9, "b")], *y[1:]]), r"y\[0\]\[0\].*overlap"),
    "a segment beyond the end": (lambda X, y: (X, [[(0, 10, "a")], *y[1:]]), r"y\[0\]\[0\] covers 0:10"),
    "a segment of no steps": (lambda X, y: (X, [[(4, 4, "a")], *y[1:]]), r"y\[0\]\[0\] covers 4:4"),
    "a segment of level 1": (lambda X, y: (X, [[(1, 0, 3, "a")], *y[1:]]), r"y\[0\]\[0\].*level 1"),
    "mixed labels": (lambda X, y: (X, [[1] * 9, *y[1:]]), "(str.*int|int.*str)"),
    "real labels": (lambda X, y: (X, [np.linspace(0, 1, 9) for _ in y]), r"y\[0\]"),
    "junk labels": (lambda X, y: (X, [[object()] * 9, *y[1:]]), r"y\[0\]"),
    "a number for labels": (lambda X, y: (X, [7, *y[1:]]), r"y\[0\]"),
    "a dict for labels": (lambda X, y: (X, [{0: "a"}, *y[1:]]), r"y\[0\]"),
    "text for labels": (lambda X, y: (X, ["aaabbbccc", *y[1:]]), r"y\[0\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_bad_input_is_named_and_changes_nothing(case, rng):
    X, y = make_data(rng)
    fitted, fresh = SemiCRF(max_iter=2), SemiCRF()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted.fit(X, y)
    change, match = ERRORS[case]
    for model in (fitted, fresh):
        before = pickle.dumps(model)
        with (
            np.errstate(divide="ignore", invalid="ignore"),
            pytest.raises((ValueError, TypeError), match=match),
        ):
            model.fit(*change(X, y))
        assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("params", "labels", "match"),
    [
        (
            {"max_duration": 3},
            "aabbbbbcc",
            r"y\[1\].*level 0, time step 2: the segment .* 5 steps .* max_duration is 3",
        ),
        (
            {"max_duration": 3},
            [None, "b", "b", "b", "b", None, None, None, None],
            r"y\[1\].*level 0, time step 1: the segment .* 4 steps",
        ),
        (
            {"allowed_transitions": {"a": ["b"], "b": ["a"], "c": ["a"]}},
            "aaaabbbcc",
            r"y\[1\].*time step 7: 'c' may not follow 'b'",
        ),
        ({"self_transitions": False}, (["a"] * 9, [1] * 9), r"y\[1\].*time step 1: 'a' may not follow 'a'"),
        ({"max_duration": 3}, [(0, 2, "a"), (2, 7, None)], r"y\[1\].*time step 2: the segment .* 5 steps"),
        (
            {"allowed_transitions": {"a": ["b"], "b": ["a"], "c": ["a"]}},
            ["a", None, None, "c"] + [None] * 5,
            r"y\[1\] fit no segmentation: .* time step 3",
        ),
    ],
)
def test_labels_that_fit_nothing_name_sequence_and_step(params, labels, match, rng):
    X, y = make_data(rng, n_sequences=6)
    y = [np.array(list("aabbbaabb"))] * 6
    y[2] = np.array(list("aabbcaabb")) if "allowed_transitions" not in params else y[2]
    model = SemiCRF()
    y[1] = list(labels) if isinstance(labels, str) else labels
    before = pickle.dumps(model.set_params(**params))
    with pytest.raises(InfeasibleSequenceError, match=match):
        model.fit(X, y)
    assert pickle.dumps(model) == before


BAD_PARAMETERS = [
    ("max_duration", 0), ("max_duration", 2.5), ("max_duration", "longest"), ("max_duration", [3]),
    ("duration", "weibull"), ("segment_features", ()), ("segment_features", ("sum", "sum")),
    ("segment_features", ("sums",)), ("segment_features", [1, 2]), ("segment_features", None),
    ("edge_features", ("middle",)), ("self_transitions", "yes"), ("allowed_transitions", "all"),
    ("allowed_transitions", np.ones((2, 2), dtype=bool)), ("allowed_transitions", {0: ["a"]}),
    verbs = "predict", "predict_proba", "predict_segments", "predict_marginals", "predict_boundary_proba", "sample"
    for verb in verbs:
    ("batch_size", 0), ("average", "often"), ("numerics", "exact"), ("decoding", "viterbi"), ("n_jobs", "all"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_refused(name, value, rng):
    model = SemiCRF(**{name: value})
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=name), warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*make_data(rng))
    assert pickle.dumps(model) == before


def test_bad_known_labels_are_named(rng):
    X, y = make_data(rng)
    model = SemiCRF().fit(X, y)
    before = pickle.dumps(model)
    cases = {
        r"y_observed\[1\]\[0\] is z": [None, ["z"] * 9, *y[2:]],
        r"y_observed\[1\].*9 time steps": [None, ["a"], *y[2:]],
        "y_observed has 2": y[:2],
        r"y_observed\[0\].*overlap": [[(0, 3, "a"), (2, 4, "b")], *y[1:]],
        r"y_observed\[0\].*level": [np.column_stack([v, v]) for v in y],
    }
    for match, known in cases.items():
        for verb in (
            model.predict,
            model.predict_proba,
            model.predict_segments,
            model.predict_boundary_proba,
        ):
            with pytest.raises(ValueError, match=match):
                verb(X, y_observed=known)
    assert model.log_likelihood(X, [["z"] * 9, *y[1:]])[0] == -np.inf
    contradiction = [None, (["a", "b"] + [None] * 7, [0] + [None] * 8), *y[2:]]
    with pytest.raises(ValueError, match=r"y_observed\[1\], level 0, time step 1"):
        model.predict(X, y_observed=contradiction)
    capped = SemiCRF(max_duration=5).fit(X, y)
    with pytest.raises(InfeasibleSequenceError, match="Sequence 1"):
        capped.predict(X, y_observed=[None, ["a"] * 9, *y[2:]])
    assert capped.log_likelihood(X, [None, ["a"] * 9, *y[2:]])[1] == -np.inf
    assert pickle.dumps(model) == before


def test_nothing_works_before_fit(rng):
    X, y = make_data(rng)
    model = SemiCRF()
    for verb in (
        "predict",
        "predict_proba",
        "predict_segments",
        "predict_marginals",
        "predict_boundary_proba",
        "sample",
    ):
        with pytest.raises(NotFittedError):
            getattr(model, verb)(X)
    for verb in (model.log_likelihood, model.score):
        with pytest.raises(NotFittedError):
            verb(X, y)


# learning


@pytest.mark.parametrize("solver", ["sgd", "adagrad"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_stochastic_solvers_come_near_the_optimum(solver, batch_size, rng):
    X, y = make_data(rng, n_sequences=16)
    exact = SemiCRF(duration="gamma", tol=1e-8).fit(X, y)
    model = SemiCRF(
        duration="gamma", solver=solver, batch_size=batch_size, max_iter=40, tol=1e-4, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
        again = SemiCRF(**model.get_params()).fit(X, y)
    optimum = exact.loss_curve_[-1]
    assert objective(model, X, y) <= optimum + 0.01 * (exact.loss_curve_[0] - optimum)
    assert_array_equal(again.coef_["unary"][0], model.coef_["unary"][0])


@pytest.mark.parametrize("solver", ["lbfgs", "sgd", "adagrad"])
def test_too_few_iterations_warn(solver, rng):
    X, y = make_data(rng)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations.*max_iter"):
        model = SemiCRF(solver=solver, max_iter=2, tol=0.0, random_state=0).fit(X, y)
    assert model.n_iter_ == 2
    assert len(model.loss_curve_) == 3 or solver != "lbfgs"


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
def test_an_interrupted_fit_keeps_the_best_iterate(solver, rng, monkeypatch):
    from sklearn_seqlab.objectives import HierarchyLogLikelihood

    X, y = make_data(rng)
    evaluate, calls = HierarchyLogLikelihood.value_and_gradient, []

    def interrupted(self, coef):
        calls.append(coef)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return evaluate(self, coef)

    monkeypatch.setattr(HierarchyLogLikelihood, "value_and_gradient", interrupted)
    model = SemiCRF(solver=solver, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.n_iter_ >= 1
    assert objective(model, X, y) < model.loss_curve_[0]
    assert_allclose(objective(model, X, y), min(model.loss_curve_), rtol=1e-9)


def test_warm_start_goes_on(rng):
    X, y = make_data(rng)
    model = SemiCRF(warm_start=True, C=3.0).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= 1 < first
    assert_allclose(model.loss_curve_[0], SemiCRF(C=3.0).fit(X, y).loss_curve_[-1], rtol=1e-6)
    model.set_params(duration="gamma").fit(X, y)  # other blocks: from the start
    assert_array_equal(
        model.coef_["duration"][0], SemiCRF(duration="gamma", C=3.0).fit(X, y).coef_["duration"][0]
    )
    model.fit([x[:, :2] for x in X], y)
    assert model.n_features_in_ == 2


def test_weights_are_repetitions_and_zero_is_absence(rng):
    X, y = make_data(rng)
    y[3] = [None, *y[3][1:].tolist()]
    # the sequence of weight zero has nothing that others lack
    weighted = SemiCRF(max_duration=5, **TIGHT).fit(
        X + X[:1], y + y[:1], sample_weight=[3, 2, 1] + [1] * 9 + [0]
    )
    repeated = SemiCRF(max_duration=5, **TIGHT).fit(X + X[:2] + X[:1], y + y[:2] + y[:1])
    for a, b in zip(weighted.predict_proba(X), repeated.predict_proba(X), strict=True):
        assert_allclose(a, b, atol=1e-4)
    assert_allclose(weighted.loss_curve_[-1], repeated.loss_curve_[-1], rtol=1e-8)


def test_jobs_change_no_bit(rng, monkeypatch):
    from sklearn_seqlab import _parallel

    monkeypatch.setattr(_parallel, "_CHUNK_SIZE", 500)
    X, y = make_data(rng)
    X = [x[: 2 + s % 8] for s, x in enumerate(X)]
    y = [labels[: len(x)] for x, labels in zip(X, y, strict=True)]
    for options in (
        {},
        {"segment_features": ("mean", "any")},
        {"solver": "adagrad", "max_iter": 5, "random_state": 1},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models = [SemiCRF(n_jobs=n, **options).fit(X, y) for n in (1, 2, 4)]
        answers = []
        for model in models:
            answers.append(
                pickle.dumps([list(model.predict_proba(X)), model.predict_segments(X), model.sample(X, 2, 0)])
            )
            model.n_jobs = None
        assert len({pickle.dumps(model) for model in models}) == 1
        assert len(set(answers)) == 1


def test_sparse_input_is_learnt_like_dense(rng):
    X, y = make_data(rng)
    X = [np.where(np.abs(x) < 0.5, 0.0, x) for x in X]
    options = {
        "segment_features": ("sum", "mean", "any"),
        "edge_features": ("start", "end", "transition"),
        **TIGHT,
    }
    dense = SemiCRF(**options).fit(X, y)
    thin = SemiCRF(**options).fit([sparse.csr_array(x) for x in X], y)
    assert_allclose(thin.loss_curve_[-1], dense.loss_curve_[-1], rtol=1e-8)
    for a, b in zip(
        dense.predict_proba([sparse.csr_matrix(x) for x in X]), dense.predict_proba(X), strict=True
    ):
        assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"duration": "gamma"}, {"segment_features": ("mean", "any")}])
def test_small_worlds(options, rng):
    single = SemiCRF(**options).fit([np.ones((1, 2))] * 3, [["a"], ["b"], ["a"]])
    assert single.predict([np.ones((1, 2))])[0].tolist() == ["a"]
    assert single.predict_segments([np.ones((4, 2))])[0][-1][1] == 4
    one = SemiCRF(**options).fit([np.ones((4, 2)), np.ones((1, 2))], [["a"] * 4, ["a"]])
    assert one.predict_segments([np.ones((9, 2))]) == [[(0, 9, "a")]]
    assert_allclose(one.predict_proba([np.ones((3, 2))])[0], 1)
    assert_allclose(one.log_likelihood([np.ones((3, 2))], [["a"] * 3]), 0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("options", [{}, {"segment_features": ("mean",), "edge_features": ("start", "end")}])
def test_units_of_features_matter_little(scale, options, rng):
    X, y = make_data(rng, n_sequences=30)
    plain = SemiCRF(C=1e6, **options).fit(X, y)  # hardly a penalty: the optimum has no unit
    scaled = SemiCRF(C=1e6, **options).fit([scale * x for x in X], y)
    gap = plain.score(X, y) - scaled.score([scale * x for x in X], y)
    assert abs(gap) < 0.05
    constant = SemiCRF(**options).fit([np.column_stack([x, np.full(len(x), 7.0)]) for x in X], y)
    assert np.isfinite(constant.loss_curve_).all()
    assert constant.score([np.column_stack([x, np.full(len(x), 7.0)]) for x in X], y) > 0.6


# with scikit-learn's tools


def test_search_and_pipeline(rng):
    X, y = make_data(rng, n_sequences=16)
    pipeline = make_sequence_pipeline(StandardScaler(), SemiCRF(max_iter=30))
    grid = {"semicrf__C": [0.1, 10.0], "semicrf__duration": ["gamma", "table"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(pipeline, grid, cv=2, scoring=log_likelihood, error_score="raise").fit(X, y)
        assert np.isfinite(cross_val_score(pipeline, X, y, cv=2, scoring=segment_f1)).all()
    best, inner = search.best_estimator_, search.best_estimator_["semicrf"]
    scaled = [best["standardscaler"].transform(x) for x in X]
    known = [[(1, 3, "b")]] * len(X)
    for verb in (
        "predict_segments",
        "predict_marginals",
        "predict_boundary_proba",
        "predict_proba",
        "predict",
    ):
        for a, b in zip(
            getattr(best, verb)(X, y_observed=known),
            getattr(inner, verb)(scaled, y_observed=known),
            strict=True,
        ):
            assert_array_equal(np.array(a, dtype=object), np.array(b, dtype=object))
    assert_allclose(best.log_likelihood(X, y), inner.log_likelihood(scaled, y))
    assert best.score(X, y) == inner.score(scaled, y)


def test_score_takes_every_form(rng):
    X, y = make_data(rng)
    model = SemiCRF().fit(X, y)
    expected = np.mean(np.concatenate(model.predict(X)) == np.concatenate(y))
    assert model.score(X, y) == expected
    assert model.score(X, [as_segments(labels) for labels in y]) == expected
    assert model.score(X, [(labels, as_ends(labels)) for labels in y]) == expected
    first = model.score(X, [[labels[0].item()] + [None] * 8 for labels in y])
    assert first == np.mean([a[0] == b[0] for a, b in zip(model.predict(X), y, strict=True)])
    assert model.score(X, [["z"] * 9] * 12) == 0


# hostile use


def test_other_parameters_after_fit_change_no_prediction(rng):
    X, y = make_data(rng)
    model = SemiCRF(edge_features=("start",)).fit(X, y)
    before = pickle.dumps([list(model.predict_proba(X)), model.predict_segments(X)])
    model.set_params(
        duration="gamma",
        edge_features=(),
        segment_features=("mean",),
        max_duration=1,
        self_transitions=True,
        C=9.0,
    )
    assert pickle.dumps([list(model.predict_proba(X)), model.predict_segments(X)]) == before
    for name, value in {"decoding": "viterbi", "numerics": "exact"}.items():
        with pytest.raises(ValueError, match=name):
            SemiCRF().fit(X, y).set_params(**{name: value}).predict(X)


def test_damaged_models_raise(rng):
    X, y = make_data(rng)
    model = SemiCRF(edge_features=("start",)).fit(X, y)

    def damage(change):
        copy = pickle.loads(pickle.dumps(model))
        change(copy)
        for verb in (
            copy.predict,
            copy.predict_proba,
            copy.predict_segments,
            copy.predict_boundary_proba,
            copy.sample,
        ):
            with pytest.raises((ValueError, TypeError, KeyError, AttributeError, IndexError)):
                verb(X)
        with pytest.raises((ValueError, TypeError, KeyError, AttributeError, IndexError)):
            copy.log_likelihood(X, y)

    for name in model.coef_:
        damage(lambda copy, name=name: copy.coef_.pop(name))
        damage(lambda copy, name=name: copy.coef_.update({name: [copy.coef_[name][0][..., :-1]]}))
        damage(lambda copy, name=name: copy.coef_.update({name: []}))
        damage(lambda copy, name=name: copy.coef_.update({name: [np.array("text")]}))
        damage(
            lambda copy, name=name: copy.coef_.update({name: [np.full(copy.coef_[name][0].shape, np.nan)]})
        )
        damage(
            lambda copy, name=name: copy.coef_.update({name: [np.full(copy.coef_[name][0].shape, np.inf)]})
        )
    damage(lambda copy: setattr(copy, "classes_", copy.classes_[:-1]))
    damage(lambda copy: setattr(copy, "classes_", None))
    damage(lambda copy: setattr(copy, "coef_", None))
    damage(lambda copy: setattr(copy, "n_features_in_", 2))
    damage(lambda copy: setattr(copy, "transition_mask_", [copy.transition_mask_[0][:, :-1]]))
    damage(lambda copy: setattr(copy, "transition_mask_", []))
    damage(lambda copy: setattr(copy, "_structure", {}))
    damage(lambda copy: copy._structure["levels"][0].update(n_states=2))
    damage(lambda copy: copy._structure["levels"][0].update(max_duration=10**9))
    damage(lambda copy: copy._structure["levels"][0].update(max_duration=-3))
    damage(lambda copy: copy._structure["levels"][0].update(max_duration=0))
    damage(lambda copy: setattr(copy, "transition_mask_", [1.0 * copy.transition_mask_[0]]))
    damage(lambda copy: setattr(copy, "transition_mask_", [np.ones((1, 5, 5), dtype=bool)]))
    for entry in (
        {"unit": "long"}, {"unit": 0.0}, {"unit": np.nan}, {"duration": "weibull"}, {"duration": "none"},
        {"segment_features": ["sums"]}, {"edge_features": []}, {"edge_features": ["end"]}, {"is_step": True},
        {"max_duration": True}, {"max_duration": 2.5}, {"has_tail": "yes"},
    ):  # fmt: skip
        damage(lambda copy, entry=entry: copy._structure["levels"][0].update(entry))
    damage(lambda copy: copy._structure.update(levels=[]))
    damage(lambda copy: copy._structure.update(engine="steam"))
    damage(lambda copy: copy._structure.update(engine="chain"))
    damage(lambda copy: copy._structure.update(persists=False))
    damage(lambda copy: copy._structure.update(has_root=True))


def test_scores_beyond_double_precision_are_named(rng):
    X, y = make_data(rng)
    model = SemiCRF(C=100.0).fit(X, y)
    large = [x.copy() for x in X]
    large[4][5] = 1.5e308
    for verb in (model.predict, model.predict_proba, model.predict_segments, model.predict_boundary_proba):
        with pytest.raises(ValueError, match="sequence 4"):
            verb(large)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="not finite"):
        model.fit(large, y)
    assert pickle.dumps(model) == before
    assert SemiCRF().fit([x * 5e-324 for x in X], y).predict(X)[0].shape == (9,)


def test_long_sequences_are_no_trouble(rng):
    codes = np.repeat(np.arange(25_000) % 2, rng.integers(1, 10, 25_000))[:100_000]
    X, y = [codes[:, None] + rng.normal(size=(len(codes), 1))], [codes]
    model = SemiCRF(duration="gamma", max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    (segments,) = model.predict_segments(X)
    assert segments[0][0] == 0 and segments[-1][1] == 100_000
    assert np.isfinite(model.log_likelihood(X, y)).all() and model.score(X, y) > 0.6
    one = SemiCRF(max_duration=50).fit([x[:20] for x in X], [labels[:20] for labels in y])
    assert one.predict([X[0][:7]])[0].shape == (7,)  # shorter than max_duration
