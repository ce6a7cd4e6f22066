"""HSCRFClassifier: what goes wrong is named and changes nothing; hostile use."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from two_levels import (
    CHILDREN,
    MODELS,
    data_for,
    make_data,
    quiet,
)

from sklearn_seqlab import HSCRFClassifier
from sklearn_seqlab.exceptions import InfeasibleSequenceError

ERRORS = {
    "no sequences": (lambda X, y: ([], []), "X"),
    "a sequence too few": (lambda X, y: (X, y[:-1]), "y has 11 label sequences, but X has 12"),
    "other features": (lambda X, y: ([*X[:3], X[3][:, :2], *X[4:]], y), r"X\[3\] has 2 features"),
    "NaN": (lambda X, y: ([*X[:3], X[3] * np.nan, *X[4:]], y), r"X\[3\].*NaN at time step 0"),
    "no time steps": (lambda X, y: ([X[0][:0], *X[1:]], [y[0][:0], *y[1:]]), r"X\[0\].*0 time steps"),
    "a row too few": (lambda X, y: (X, [*y[:3], y[3][:-1], *y[4:]]), r"y\[3\] has 7 labels, but X\[3\] has 8"),
    "a level too few": (lambda X, y: (X, [*y[:3], y[3][:, :1], *y[4:]]), r"y\[3\] has 1 level.*y\[0\] has 2"),
    "flat among tables": (lambda X, y: (X, [*y[:3], y[3][:, 0], *y[4:]]), r"y\[3\] has 1 level"),
    "ragged rows": (lambda X, y: (X, [[*y[0].tolist()[:-1], ["p"]], *y[1:]]), r"y\[0\] has rows of \[1, 2\]"),
    "a level without labels": (
        lambda X, y: (X, [[[None, row[1]] for row in table.tolist()] for table in y]), "no label of level 0",
    ),
    "nothing known": (lambda X, y: (X, [None] * 12), "every step of every sequence is missing"),
    "an end of 2": (lambda X, y: (X, [(y[0], np.full((8, 2), 2)), *y[1:]]), r"y\[0\], level 0, time step 0.*2"),
    "no last end": (lambda X, y: (X, [(y[0], np.zeros((8, 2))), *y[1:]]), r"y\[0\], level 0, time step 7"),
    "a parent that ends before its child": (
        lambda X, y: (X, [(np.full((8, 2), "p"), [[1, 0], *[[None, None]] * 7]), *y[1:]]),
        r"y\[0\], level 1, time step 0.*level 0 does",
    ),
    "a change without end": (
        lambda X, y: (X, [(np.array([["p", "a"]] * 4 + [["q", "b"]] * 4), [[0, 1]] * 7 + [[1, 1]]), *y[1:]]),
        r"y\[0\], level 0, time step 4: the label is 'q', but at time step 3 it is 'p'",
    ),
    "ends of another shape": (lambda X, y: (X, [(y[0], np.ones(8)), *y[1:]]), r"y\[0\].*2 level.*ends of 1"),
    "overlapping segments": (
        lambda X, y: (X, [[(0, 0, 4, "p"), (0, 3, 8, "q")], *y[1:]]), r"y\[0\]\[0\].*overlap at level 0",
    ),
    "crossing segments": (
        lambda X, y: (X, [*y[:1], [(0, 0, 4, "p"), (0, 4, 8, "q"), (1, 2, 6, "b")], *y[2:]]),
        r"y\[1\], level 1, time step 3.*must not cross",
    ),
    "a segment of level 2": (lambda X, y: (X, [[(2, 0, 4, "p")], *y[1:]]), r"y\[0\]\[0\].*level 2"),
    "a segment of level -1": (lambda X, y: (X, [[(-1, 0, 4, "p")], *y[1:]]), r"y\[0\]\[0\].*level -1"),
    "mixed labels": (lambda X, y: (X, [[["p", 3]] * 8, *y[1:]]), "(str.*int|int.*str).*level 1"),
    "junk": (lambda X, y: (X, [object(), *y[1:]]), r"y\[0\]"),
    "junk labels": (lambda X, y: (X, [[[object(), "a"]] * 8, *y[1:]]), r"y\[0\]"),
    "deep nesting": (lambda X, y: (X, [[[["p"], ["a"]]] * 8, *y[1:]]), r"y\[0\]"),
    "an empty table": (lambda X, y: (X, [[], *y[1:]]), r"y\[0\]"),
    "an empty set": (lambda X, y: (X, [[[set(), "a"]] * 8, *y[1:]]), r"y\[0\].*empty set"),
    "three dimensions": (lambda X, y: (X, [table[:, :, None] for table in y]), r"y\[0\]"),
    "weights too few": (lambda X, y: (X, y, [1.0]), "sample_weight"),
    "weights all zero": (lambda X, y: (X, y, np.zeros(12)), "sample_weight"),
    "no weight where labels are": (lambda X, y: (X, [*y[:2], *[None] * 10], [0, 0] + [1] * 10), "nothing to learn"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_bad_input_is_named_and_changes_nothing(case, rng):
    X, y = make_data(rng)
    change, match = ERRORS[case]
    for model in (
        quiet(HSCRFClassifier(bottom_persist=True, children="full", max_iter=1), X, y),
        HSCRFClassifier(),
    ):
        before = pickle.dumps(model)
        persists = {"crossing segments", "a parent that ends before its child"}
        if case in persists and not model.bottom_persist:
            continue
        with pytest.raises((ValueError, TypeError), match=match):
            model.fit(*change(X, y))
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("engine", ["auto", "aio"])
@pytest.mark.parametrize(
    ("params", "table", "match"),
    [
        ({"children": CHILDREN}, "pa pa pc pa qb qc qb qc", "level 1, time step 2: 'c' may not stand under 'p'"),
        ({"max_duration": [3, None]}, "qb pa pa pa pa qb qc qb",
         r"level 0, time step 1: the segment .* 4 steps .* is 3"),
        ({"max_duration": [None, 2]}, "pb pa pa pa pb qb qc qb",
         r"level 1, time step 1: the segment .* 3 steps .* is 2"),
        ({"self_transitions": False}, [(0, 0, 8, "p"), (1, 0, 2, "a"), (1, 2, 8, "a")],
         "level 1, time step 2: 'a' may not follow 'a' under 'p'"),
        ({"self_transitions": False}, [(0, 0, 4, "p"), (0, 4, 8, "p")], "level 0, time step 4: 'p' may not follow 'p'"),
        ({"children": CHILDREN}, "p. .. .. .c .. .. .. .. / 0. 0. 0. 0. .. .. .. ..", ""),
        ({"max_duration": [3, None]}, "p. .. .. .. .. p. .. .. / 0. 0. 1. 0. 0. .. .. ..", ""),
    ],
)  # fmt: skip
def test_labels_that_fit_nothing_name_sequence_level_and_step(params, table, match, engine, rng):
    X, _ = make_data(rng, n_sequences=4)
    plain = np.array([list(row) for row in "pa pb pa qb qc qb pa pb".split()])
    if isinstance(table, str):
        rows, *ends = (
            [[None if v == "." else v for v in row] for row in part.split()] for part in table.split("/")
        )
        table = rows
        if ends:
            table = (rows, [[None if v is None else int(v) for v in row] for row in ends[0]])
    model = HSCRFClassifier(**{"bottom_persist": True, "engine": engine, "children": "full", **params})
    before = pickle.dumps(model)
    with pytest.raises(InfeasibleSequenceError, match=r"The labels of y\[2\] fit no.*" + match):
        model.fit(X, [plain, plain, table, plain])
    assert pickle.dumps(model) == before


BAD_PARAMETERS = [
    ("max_duration", 0), ("max_duration", [3]), ("max_duration", [3, 0]), ("max_duration", [3, 2.5]),
    ("max_duration", "long"),
    ("max_duration", ["long", 3]), ("duration", "weibull"), ("duration", ["gamma"]), ("duration", ["gamma", "weibull"]),
    ("duration", [1, 2]), ("segment_features", ()), ("segment_features", [("sum",)]),
    ("segment_features", [("sum",), ()]),
    ("segment_features", [1, 2]), ("segment_features", ("sum", "sum")), ("edge_features", ("middle",)),
    ("edge_features", [3, 4]),
    ("edge_features", [[["start"]], []]), ("bottom_persist", "yes"), ("root", 2), ("transitions", "some"),
    ("self_transitions", "no"), ("C", 0.0), ("C", np.inf), ("solver", "newton"), ("max_iter", 0), ("tol", -1.0),
    ("engine", "steam"), ("numerics", "exact"), ("decoding", "best"), ("score_level", "top"), ("eta0", -1),
    ("batch_size", 0.5),
    ("n_jobs", "all"), ("warm_start", "maybe"), ("random_state", "seed"), ("verbose", "loud"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_refused(name, value, rng):
    X, y = make_data(rng, n_sequences=4)
    model = HSCRFClassifier(bottom_persist=True).set_params(**{name: value})
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=name):
        model.fit(X, y)
    assert pickle.dumps(model) == before


def test_bad_known_labels_are_named(rng):
    X, y = make_data(rng)
    model = HSCRFClassifier().fit(X, y)
    cases = {
        r"y_observed\[1\]\[0\] is 'z'.*level 1": [None, [["p", "z"]] * 8, *y[2:]],
        r"y_observed\[1\] has 1 level": [None, ["p"] * 8, *y[2:]],
        r"y_observed\[1\] has 7 labels, but X\[1\] has 8": [None, y[1][:-1], *y[2:]],
        r"y_observed\[1\].*contradict|y_observed\[1\], level 0, time step 1": [
            None, ([["p", None], ["q", None], *[[None, None]] * 6], [[0, None], *[[None, None]] * 7]), *y[2:],
        ],
        "y_observed has 3 label sequences": y[:3],
    }  # fmt: skip
    for match, known in cases.items():
        for verb in (
            model.predict,
            model.predict_marginals,
            model.predict_segments,
            model.predict_boundary_proba,
        ):
            with pytest.raises(ValueError, match=match):
                verb(X, y_observed=known)
    assert_array_equal(
        np.isinf(model.log_likelihood(X, [*y[:3], [["p", "z"]] * 8, *y[4:]])), np.arange(12) == 3
    )


def test_proba_is_for_one_level(rng):
    X, y = make_data(rng)
    model = HSCRFClassifier()
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    model.fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as caught:
        model.predict_proba(X)
    assert "predict_marginals" in str(caught.value.__cause__)
    assert hasattr(model.fit(X, [table[:, 1] for table in y]), "predict_proba")
    for verb in ("predict", "predict_segments", "predict_marginals", "predict_boundary_proba", "sample"):
        with pytest.raises(NotFittedError):
            getattr(HSCRFClassifier(), verb)(X)


# hostile use


def test_other_parameters_after_fit_change_no_prediction(rng):
    X, y = make_data(rng, bottom=2)
    model = HSCRFClassifier(
        bottom_persist=True, duration=["gamma", "geometric"], edge_features=("start",)
    ).fit(X, y)
    before = pickle.dumps([model.predict_marginals(X), model.predict_segments(X), model.log_likelihood(X, y)])
    model.set_params(
        duration="none", edge_features=(), segment_features=("any",), max_duration=1, self_transitions=True, root=True,
        bottom_persist=False, children="full", transitions="observed", engine="chain", C=7.0, solver="sgd",
    )  # fmt: skip
    assert (
        pickle.dumps([model.predict_marginals(X), model.predict_segments(X), model.log_likelihood(X, y)])
        == before
    )


def test_damaged_models_raise(rng):
    X, y = make_data(rng, n_sequences=3, bottom=2)
    estimator = HSCRFClassifier(
        bottom_persist=True,
        duration=["gamma", "table"],
        max_duration=[None, "observed"],
        edge_features=("initialisation",),
    )
    model = quiet(estimator, X, y, max_iter=2)
    errors = (ValueError, TypeError, KeyError, AttributeError, IndexError)

    def damage(change):
        copy = pickle.loads(pickle.dumps(model))
        change(copy)
        for verb in ("predict", "predict_marginals", "predict_segments", "predict_boundary_proba", "sample"):
            with pytest.raises(errors):
                getattr(copy, verb)(X)
        with pytest.raises(errors):
            copy.log_likelihood(X, y)

    for name, tables in model.coef_.items():
        for d, table in enumerate(tables):
            for bad in (
                None,
                table[..., :-1],
                np.concatenate([table, table], axis=-1),
                np.full(table.shape, np.nan),
            ):
                damage(lambda copy, name=name, d=d, bad=bad: copy.coef_[name].__setitem__(d, bad))
        damage(lambda copy, name=name: copy.coef_.pop(name))
    damage(lambda copy: copy.coef_.update(mean=copy.coef_["unary"]))
    for name, bad in {
        "classes_": model.classes_[:1], "children_": [], "transition_mask_": model.transition_mask_[:1],
        "n_features_in_": 2, "coef_": None, "_structure": None,
    }.items():  # fmt: skip
        damage(lambda copy, name=name, bad=bad: setattr(copy, name, bad))
    damage(lambda copy: setattr(copy, "classes_", [copy.classes_[0], copy.classes_[1][:-1]]))
    damage(lambda copy: setattr(copy, "children_", [np.full((2, 3), 7)]))
    damage(lambda copy: setattr(copy, "children_", [np.ones((3, 2), dtype=bool)]))
    damage(lambda copy: setattr(copy, "children_", [np.zeros((2, 3), dtype=bool)]))
    for entry in (
        {"engine": "chain"},
        {"engine": "mixed"},
        {"persists": False},
        {"has_root": True},
        {"is_flat": True},
    ):
        damage(lambda copy, entry=entry: copy._structure.update(entry))
    for d in range(2):
        for entry in (
            {"max_duration": 2.5},
            {"max_duration": 0},
            {"is_step": True},
            {"n_states": 10**6},
            {"unit": -1},
        ):
            damage(lambda copy, d=d, entry=entry: copy._structure["levels"][d].update(entry))


@pytest.mark.parametrize("engine", ["auto", "aio"])
def test_scores_beyond_double_precision_are_named(engine, rng):
    X, y = make_data(rng)
    model = quiet(HSCRFClassifier(C=100.0, engine=engine), X, y, max_iter=10)
    large = [x.copy() for x in X]
    large[4][5] = large[4][6] = [1e308, -1e308, 0.0]
    for verb in (
        model.predict,
        model.predict_marginals,
        model.predict_segments,
        model.predict_boundary_proba,
    ):
        with pytest.raises(ValueError, match=r"[Ss]cores of sequence 4"):
            verb(large)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"not finite|double precision"):
        model.fit(large, y)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    "name", ["chain", "chain, edges", "chain, self", "mixed, bottom", "mixed, top", "aio", "root"]
)
def test_huge_scores_are_summed_right_or_refused(name, rng):
    X, y = data_for(MODELS[name], rng)
    model = quiet(MODELS[name], X, y, C=100.0, max_iter=5)
    expected, n_answers = model.predict_marginals(X), 0
    for size in (1e3, 1e6, 1e9, 1e12, 1e15, 1e17, 1e100, 1e300, 1e308):
        for direction in ([1, 0, -1], [-1, -1, -1]):
            large = [x.copy() for x in X]
            large[4][3] = large[4][4] = size * np.array(direction)
            try:
                model.predict_boundary_proba(large)
            except ValueError as error:
                assert "sequence 4" in str(error) and "feasible" not in str(error)
            try:
                found = model.predict_marginals(large)
            except ValueError as error:
                assert "sequence 4" in str(error) and "feasible" not in str(error)
                assert size >= 1e12
                continue
            n_answers += 1
            for level in found[4]:
                assert_allclose(level.sum(axis=1), 1, atol=1e-5)
            for level, own in zip(found[3], expected[3], strict=True):
                assert_allclose(level, own, atol=1e-10)
    assert n_answers >= 6


def test_long_sequences_are_no_trouble(rng):
    parents = np.repeat(np.arange(6000) % 2, rng.integers(5, 15, 6000))[:30_000]
    children = parents + (rng.uniform(size=len(parents)) < 0.5)
    X = [np.eye(3)[children] + rng.normal(size=(len(parents), 3))]
    y = [np.column_stack([parents, children])]
    model = quiet(HSCRFClassifier(max_iter=3), X, y)
    assert model.score(X, y) > 0.6
    boundary = model.predict_boundary_proba(X)[0]
    assert boundary.min() >= 0 and boundary.max() <= 1
    short = quiet(HSCRFClassifier(max_duration=[50, None], max_iter=2), [X[0][:20]], [y[0][:20]])
    assert short.predict([X[0][:3]])[0].shape == (3, 2)
