"""HSCRFClassifier: forms of labels, what is known, and which label may stand below which."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from two_levels import (
    CHILDREN,
    MODELS,
    add_root,
    as_ends,
    as_segments,
    data_for,
    make_data,
    quiet,
)

from sklearn_seqlab import HSCRFClassifier
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.metrics import (
    micro_accuracy_score,
)
from sklearn_seqlab.sequences import labels_to_segments
from sklearn_seqlab.utils._check_tools import first_difference

# forms of labels


@pytest.mark.parametrize("bottom_persist", [False, True])
def test_equivalent_forms_learn_the_same(bottom_persist, rng):
    X, y = make_data(rng, bottom=2)
    estimator = HSCRFClassifier(bottom_persist=bottom_persist)
    expected = vars(estimator.fit(X, y))
    forms = {
        "lists": [table.tolist() for table in y],
        "labels and ends": [(table, as_ends(table)) for table in y],
        "segments": [as_segments(table) for table in y],
        "single candidates": [[[{a}, frozenset({b})] for a, b in table.tolist()] for table in y],
        "mixed": [
            as_segments(v) if s % 3 == 0 else (v, as_ends(v)) if s % 3 == 1 else v for s, v in enumerate(y)
        ],
        "nothing known of one more": [*y, None],
    }
    for form, given in forms.items():
        rows = [*X, X[0]] if len(given) > len(X) else X
        found = vars(HSCRFClassifier(bottom_persist=bottom_persist).fit(rows, given))
        assert first_difference(found, expected, "model") is None, form


@pytest.mark.parametrize("decoding", ["map", "marginal"])
@pytest.mark.parametrize("name", ["chain, self", "mixed, gamma", "aio, durations"])
def test_what_is_known_comes_back(name, decoding, rng):
    X, y = data_for(MODELS[name], rng)
    model = quiet(MODELS[name], X, y, max_iter=10, decoding=decoding, children="full", self_transitions=True)
    wrong = [table[::-1] for table in y]
    upper = [[[row[0], None] for row in table.tolist()] for table in wrong]
    lower = [[[None, row[1]] for row in table.tolist()] for table in wrong]
    middle = [(0, 2, 5, "q"), (1, 3, 4, "b")]
    for known in (upper, lower, [middle] * len(X), [(table, None) for table in upper], [None, *wrong[1:]]):
        labels = model.predict(X, y_observed=known)
        segments = model.predict_segments(X, y_observed=known)
        marginals = model.predict_marginals(X, y_observed=known)
        boundary = model.predict_boundary_proba(X, y_observed=known)
        for s, own in enumerate(known):
            for d in range(2):
                assert_allclose(marginals[s][d].sum(axis=1), 1)
            if own is None:
                continue
            if own is middle:
                assert set(middle) <= set(segments[s])
                assert set(labels[s][2:5, 0]) == {"q"} and labels[s][3, 1] == "b"
                assert_array_equal(boundary[s][[1, 2, 3, 4], 0], [1, 0, 0, 1])
                assert_array_equal(marginals[s][0][2:5, 0], 0)
                continue
            table = own[0] if isinstance(own, tuple) else own
            spelt = [[None, None] for _ in range(len(X[s]))]
            for d, start, stop, label in segments[s]:
                for t in range(start, stop):
                    spelt[t][d] = label
            for t, row in enumerate(table):
                for d, label in enumerate(row):
                    if label is not None:
                        assert labels[s][t, d] == spelt[t][d] == label
                        assert_array_equal(marginals[s][d][t] > 0, model.classes_[d] == label)


def test_levels_missing_in_whole_sequences_are_learnt_from(rng):
    X, y = make_data(rng, n_sequences=40)
    hidden = [[[None, row[1]] for row in t.tolist()] if s % 2 else t for s, t in enumerate(y)]
    more = HSCRFClassifier().fit(X, hidden)
    full = HSCRFClassifier().fit(X, y)
    found, best = (micro_accuracy_score(y, model.predict(X), level=0) for model in (more, full))
    assert found > best - 0.08
    # what is known of one level alone moves its own weights
    less = HSCRFClassifier().fit(X[::2], y[::2])
    assert more.log_likelihood(X, hidden).sum() > less.log_likelihood(X, hidden).sum()


def test_root_is_a_label_of_the_whole_sequence(rng):
    X, y = make_data(rng, n_sequences=30)
    y = add_root(y)
    X = [x + (table[0, 0] == "P") for x, table in zip(X, y, strict=True)]
    model = HSCRFClassifier(root=True).fit(X, y)
    for labels, segments, boundary in zip(
        model.predict(X), model.predict_segments(X), model.predict_boundary_proba(X), strict=True
    ):
        assert len(set(labels[:, 0])) == 1
        assert segments[0] == (0, 0, len(labels), labels[0, 0])
        assert_array_equal(boundary[:, 0], np.arange(len(labels)) == len(labels) - 1)
    assert model.score(X, y) > 0.7
    assert model.classes_[0].tolist() == ["P", "Q"] and model.max_duration_ == [None, None]
    known = [[["Q", None]] + [[None, None]] * 7] * len(X)
    assert all(set(labels[:, 0]) == {"Q"} for labels in model.predict(X, y_observed=known))
    # the root is known from any one step
    partial = [[[v[0, 0], v[0, 1]], *([None, row[1]] for row in v[1:].tolist())] for v in y]
    assert_allclose(model.log_likelihood(X, partial), model.log_likelihood(X, y), atol=1e-9)
    y[2][3, 0] = "Q" if y[2][3, 0] == "P" else "P"
    with pytest.raises(ValueError, match=r"y\[2\], level 0, time step 3.*the root is the label of the whole"):
        HSCRFClassifier(root=True).fit(X, y)
    with pytest.raises(ValueError, match="root=True needs one below"):
        HSCRFClassifier(root=True).fit(X, [table[:, 1] for table in y])


# topology


def test_children_as_dict_mask_names_and_observed(rng):
    X, y = make_data(rng)
    mask = np.array([[True, True, False], [False, True, True]])
    observed = HSCRFClassifier(children="observed").fit(X, y)
    assert_array_equal(observed.children_[0], mask)
    for given in (CHILDREN, mask, [mask], [CHILDREN], mask.tolist(), {"p": {"a", "b"}, "q": ("c", "b")}):
        model = HSCRFClassifier(children=given).fit(X, y)
        assert_array_equal(model.children_[0], mask)
        assert_array_equal(model.coef_["unary"][1], observed.coef_["unary"][1])
    full = HSCRFClassifier(children="full").fit(X, y)
    assert full.children_[0].all()
    pairs = {tuple(row) for draw in observed.sample(X, 20, 0) for labels in draw for row in labels.tolist()}
    assert pairs <= {(p, c) for p in CHILDREN for c in CHILDREN[p]}
    impossible = [[["p", "c"]] + [[None, None]] * 7] * len(X)
    assert (observed.log_likelihood(X, impossible) == -np.inf).all()
    assert (full.log_likelihood(X, impossible) > -np.inf).all()
    with pytest.raises(InfeasibleSequenceError, match=r"y_observed\[0\].*level 1, time step 0"):
        observed.predict(X, y_observed=impossible)
    # a pair that may just be hidden counts as observed
    y[0] = [["p", None], *([None, label] for label in y[0][1:, 1].tolist())]
    assert HSCRFClassifier(children="observed").fit(X, y).children_[0].all()


@pytest.mark.parametrize(
    ("children", "match"),
    [
        ("all", "children"), ({"z": ["a"]}, "no child"), ({"p": "ab", "q": ["c"]}, "collection"),
        ({"p": ["a", "b"], "q": []}, "'q' no child"), ({"p": [0], "q": ["b"]}, "children"),
        (np.ones((2, 2), dtype=bool), "shape"), (np.ones((2, 3)), "bool"), (np.zeros((2, 3), dtype=bool), "no child"),
        ([CHILDREN, CHILDREN], "children has 2 entries"), (5, "children"), ([None], "children"), (object(), "children"),
    ],
)  # fmt: skip
def test_bad_children_are_refused(children, match, rng):
    X, y = make_data(rng, n_sequences=4)
    with pytest.raises((ValueError, TypeError), match=match):
        HSCRFClassifier(children=children).fit(X, y)


def test_observed_transitions(rng):
    X, y = make_data(rng)
    for table in y:  # under "p", "b" never follows "a"
        for t in range(1, len(table)):
            if tuple(table[t]) == ("p", "b") and tuple(table[t - 1]) == ("p", "a"):
                table[t, 1] = "a"
    model = HSCRFClassifier(transitions="observed").fit(X, y)
    assert not model.transition_mask_[1][0, 0, 1] and model.transition_mask_[1][1, 1, 2]
    assert model.coef_["transition"][1][0, 0, 1] == -np.inf
    for draw in model.sample(X, 20, random_state=0):
        for labels, ends in zip(draw, model.predict(X), strict=True):
            assert ends.shape == labels.shape
    known = [[["p", "a"], ["p", "b"]] + [[None, None]] * 6] * len(X)
    segments = [[(0, 0, 2, "p"), (1, 0, 1, "a"), (1, 1, 2, "b")]] * len(X)
    assert (model.log_likelihood(X, segments) == -np.inf).all()
    assert (HSCRFClassifier().fit(X, y).log_likelihood(X, known) > -np.inf).all()


def test_prune_finds_the_planted_topology(rng):
    X, y = make_data(rng, n_sequences=60)
    noisy = [table.copy() for table in y]
    model = HSCRFClassifier(children="full", C=0.3).fit(X, noisy)
    assert model.children_[0].all()
    planted = np.array([[True, True, False], [False, True, True]])
    bare, anew = model.prune(), model.prune(X=X, y=y)
    for pruned in (bare, anew):
        assert_array_equal(pruned.children_[0], planted)
        pairs = {tuple(row) for labels in pruned.predict(X) for row in labels.tolist()}
        assert pairs <= {(p, c) for p in CHILDREN for c in CHILDREN[p]}
        again = pickle.loads(pickle.dumps(pruned))
        assert_allclose(again.log_likelihood(X, [None] * 60), 0, atol=1e-9)
    assert model.children_[0].all()  # as it was
    assert_array_equal(bare.coef_["unary"][1], model.coef_["unary"][1])
    assert bare.coef_["initialisation"][1][0, 2] == -np.inf == bare.coef_["ending"][1][1, 0]
    assert anew.log_likelihood(X, y).sum() > bare.log_likelihood(X, y).sum()
    everything = model.prune(threshold=-np.inf)
    assert everything.children_[0].all()
    for a, b in zip(everything.predict_marginals(X), model.predict_marginals(X), strict=True):
        assert_array_equal(a[1], b[1])
    broken = [table.copy() for table in y]
    broken[5][0] = ["p", "c"]
    kept = model.prune(X=X, y=broken)  # what complete labels show stays, however improbable
    assert_array_equal(kept.children_[0], planted | [[False, False, True], [False, False, False]])
    left = [model.prune(threshold) for threshold in (-np.inf, 0.0, 0.5, 2.0, np.inf)]
    for looser, stricter in pairwise(left):
        assert (stricter.children_[0] <= looser.children_[0]).all()
    assert (left[-1].children_[0].sum(axis=1) == 1).all()  # the likeliest child of each parent
    assert len(left[-1].predict(X)) == 60
    for threshold in (np.nan, "low", None):
        with pytest.raises((ValueError, TypeError), match="threshold"):
            model.prune(threshold)
    with pytest.raises(NotFittedError):
        HSCRFClassifier().prune()


def test_prune_of_other_structures(rng):
    X, y = make_data(rng, n_sequences=20)
    flat = HSCRFClassifier().fit(X, [table[:, 1] for table in y]).prune(-5.0)
    assert flat.predict(X)[0].ndim == 1 and flat.children_ == []
    rooted = HSCRFClassifier(root=True, children="full", C=0.3).fit(X, add_root(y))
    with pytest.raises(ValueError, match="both, or neither"):
        rooted.prune(0.0, X)
    pruned = rooted.prune(-1.0)
    assert pruned.predict(X)[0].shape == (8, 2)
    assert len(pruned.coef_["transition"]) == 2
    expected = pickle.dumps(pruned.predict_segments(X))
    rooted.set_params(root=False, bottom_persist=True)
    assert pickle.dumps(rooted.prune(-1.0).predict_segments(X)) == expected
    assert rooted.prune(-1.0, X, add_root(y)).predict(X)[0].shape == (8, 2)


def test_segments_of_one_level_bear_their_level(rng):
    X, y = make_data(rng, bottom=2)
    legs = [rows[:, 1] for rows in y]
    model = HSCRFClassifier(bottom_persist=True, tol=1e-1).fit(X, legs)
    for segments, labels in zip(model.predict_segments(X), model.predict(X), strict=True):
        assert [(0, *run) for run in labels_to_segments(labels)] == segments
