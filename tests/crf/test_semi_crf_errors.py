"""SemiCRF: what goes wrong is named and changes nothing; hostile use."""

import pickle
import warnings

import numpy as np
import pytest
from labelled_segments import make_data
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_seqlab import SemiCRF
from sklearn_seqlab.exceptions import InfeasibleSequenceError

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
    ("C", 0), ("C", -1.0), ("C", np.nan), ("C", np.inf), ("solver", "newton"), ("max_iter", 0), ("tol", -1),
    ("eta0", 0),
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
        r"y_observed\[1\]\[0\] is 'z'": [None, ["z"] * 9, *y[2:]],
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
    with pytest.raises(
        InfeasibleSequenceError, match=r"y_observed\[1\].*9 steps or more, but max_duration is 5"
    ):
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
    damage(lambda copy: setattr(copy, "transition_mask_", copy.transition_mask_[:, :-1]))
    damage(lambda copy: setattr(copy, "transition_mask_", []))
    damage(lambda copy: setattr(copy, "_structure", {}))
    damage(lambda copy: copy._structure["levels"][0].update(n_states=2))
    damage(lambda copy: copy._structure["levels"][0].update(max_duration=10**9))
    damage(lambda copy: copy._structure["levels"][0].update(max_duration=-3))
    damage(lambda copy: copy._structure["levels"][0].update(max_duration=0))
    damage(lambda copy: setattr(copy, "transition_mask_", 1.0 * copy.transition_mask_))
    damage(lambda copy: setattr(copy, "transition_mask_", np.ones((5, 5), dtype=bool)))
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
    large[4][5] = large[4][6] = [1e308, -1e308, 0.0]
    for verb in (model.predict, model.predict_proba, model.predict_segments, model.predict_boundary_proba):
        with pytest.raises(ValueError, match="sequence 4"):
            verb(large)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="not finite"):
        model.fit(large, y)
    assert pickle.dumps(model) == before
    assert SemiCRF().fit([x * 5e-324 for x in X], y).predict(X)[0].shape == (9,)


@pytest.mark.parametrize(
    "kind", [{}, {"segment_features": ("mean", "any")}, {"edge_features": ("start", "end")}]
)
def test_huge_scores_are_summed_right_or_refused(kind, rng):
    X, y = make_data(rng)
    model = SemiCRF(C=100.0, max_iter=10**3, **kind).fit(X, y)
    expected, n_answers = model.predict_proba(X), 0
    for size in (1e3, 1e6, 1e9, 1e12, 1e15, 1e17, 1e100, 1e300, 1e308):
        for direction in ([1, 0, -1], [-1, -1, -1], [1, 1, 1]):
            large = [x.copy() for x in X]
            large[4][5] = large[4][6] = size * np.array(direction)
            try:
                found = model.predict_proba(large)
            except ValueError as error:
                assert "sequence 4" in str(error) and "feasible" not in str(error)
                assert size >= 1e12
                continue
            n_answers += 1
            assert_allclose(found[4].sum(axis=1), 1, atol=1e-5)
            assert_allclose(found[3], expected[3], atol=1e-10)
    assert n_answers >= 9


@pytest.mark.parametrize("solver", ["sgd", "adagrad"])
def test_stochastic_solvers_refuse_what_overflows(solver, rng):
    X, y = make_data(rng)
    with pytest.raises(ValueError, match="not finite at the starting point"):
        SemiCRF(solver=solver, C=100.0).fit([1e307 * x for x in X], y)


def test_long_sequences_are_no_trouble(rng):
    codes = np.repeat(np.arange(12_500) % 2, rng.integers(1, 10, 12_500))[:50_000]
    X, y = [codes[:, None] + rng.normal(size=(len(codes), 1))], [codes]
    model = SemiCRF(duration="gamma", max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    (segments,) = model.predict_segments(X)
    assert segments[0][0] == 0 and segments[-1][1] == 50_000
    assert np.isfinite(model.log_likelihood(X, y)).all() and model.score(X, y) > 0.6
    one = SemiCRF(max_duration=50).fit([x[:20] for x in X], [labels[:20] for labels in y])
    assert one.predict([X[0][:7]])[0].shape == (7,)  # shorter than max_duration
