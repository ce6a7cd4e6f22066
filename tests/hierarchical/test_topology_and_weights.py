"""HSCRFClassifier and SemiCRF: what decides the topology, and learning that is stopped or goes astray."""

import numpy as np
import pytest
from labelled_segments import make_data as make_segments
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from two_levels import make_data

from sklearn_seqlab import HSCRFClassifier, SemiCRF
from sklearn_seqlab.objectives import HierarchyLogLikelihood

# topology


def test_pruned_copies_keep_their_topology(rng):
    X, y = make_data(rng, n_sequences=60)
    model = HSCRFClassifier(children="full", C=0.3).fit(X, y)
    pruned = model.prune(X=X, y=y)
    again = clone(pruned).fit(X, y)
    assert_array_equal(again.children_[0], pruned.children_[0])
    for a, b in zip(again.transition_mask_, pruned.transition_mask_, strict=True):
        assert_array_equal(a, b)
    bare = model.prune()
    again = clone(bare).fit(X, bare.predict(X))
    assert_array_equal(again.children_[0], bare.children_[0])
    assert_array_equal(again.transition_mask_[1], bare.transition_mask_[1])
    with pytest.raises(ValueError, match="2 features"):
        model.prune(0.0, [x[:, :2] for x in X], y)


def test_prune_leaves_something_possible(rng):
    X, y = make_data(rng, n_sequences=30)
    for model in (
        HSCRFClassifier(children="full").fit(X, y),
        HSCRFClassifier(children="full", bottom_persist=True).fit(X, y),
        HSCRFClassifier(bottom_persist=True).fit(X, [rows[:, 1] for rows in y]),
    ):
        bare = model.prune(1e9)
        assert len(bare.predict(X)) == 30
        assert_array_equal(bare.transition_mask_[0], model.transition_mask_[0])  # the top has no parent


def test_transitions_by_label_or_mask(rng):
    X, _ = make_data(rng)
    rule = {"p": {"a": ["b"], "b": ["a", "b"]}, "q": {"b": ["c"], "c": ["b", "c", "never seen"]}}
    by_label = HSCRFClassifier(transitions=["all", rule], max_iter=5, tol=1.0)
    steps = [
        np.array([["p", "a"], ["p", "b"], ["p", "b"], ["q", "b"], ["q", "c"], ["q", "c"]], dtype=object)
    ] * 3
    X = [x[:6] for x in X[:3]]
    by_label.fit(X, steps)
    mask = by_label.transition_mask_[1]
    assert mask.shape == (2, 3, 3)
    assert np.argwhere(mask).tolist() == [[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2]]
    by_mask = HSCRFClassifier(transitions=["all", mask], max_iter=5, tol=1.0).fit(X, steps)
    assert_array_equal(by_mask.coef_["unary"][1], by_label.coef_["unary"][1])
    flat = HSCRFClassifier(transitions=[{None: {"a": ["b"], "b": ["b"]}}], max_iter=5, tol=1.0)
    flat.fit(X[:1], [["a", "b", "b", "b", "b", "b"]])
    assert_array_equal(flat.transition_mask_[0][0], [[False, True], [False, True]])
    for wrong, match in (
        ([rule], "1 entries, but there are 2 levels"),
        (["all", {"p": ["a"]}], r"'p' has \['a'\]"),
        (["all", {"p": {"a": "b"}}], "'a' has 'b'"),
        (["all", np.ones((2, 3))], "shape"),
        ([rule, "all"], "the only parent is None"),
    ):
        with pytest.raises(ValueError, match=match):
            HSCRFClassifier(transitions=wrong).fit(X, steps)


def test_sequences_of_no_weight_do_not_shape_the_topology(rng):
    X, y = make_data(rng, n_sequences=8)
    odd = y[7].copy()
    odd[:, 0], odd[:, 1] = "p", "c"
    weight = [1.0] * 7 + [0.0]
    weighed = HSCRFClassifier(transitions="observed").fit(X, [*y[:7], odd], weight)
    without = HSCRFClassifier(transitions="observed").fit(X[:7], y[:7])
    assert_array_equal(weighed.children_[0], without.children_[0])
    for a, b in zip(weighed.transition_mask_, without.transition_mask_, strict=True):
        assert_array_equal(a, b)

    X, y = make_segments(rng)
    ends = (y[-1], [1] * len(y[-1]))
    weight = [1.0] * (len(y) - 1) + [0.0]
    assert not np.isfinite(np.diag(SemiCRF().fit(X, [*y[:-1], ends], weight).transition_coef_)).any()
    assert np.isfinite(np.diag(SemiCRF().fit(X, [*y[:-1], ends]).transition_coef_)).all()


def test_labels_of_sequences_without_weight_still_stand_somewhere(rng):
    X, y = make_data(rng, n_sequences=8)
    odd = y[7].copy()
    odd[:, 1] = "z"
    model = HSCRFClassifier().fit(X, [*y[:7], odd], [1.0] * 7 + [0.0])
    assert model.children_[0].any(axis=0).all()
    assert len(model.predict(X)) == 8


def test_observed_transitions_where_labels_are_missing(rng):
    X, y = make_segments(rng)
    hidden = [np.array(labels, dtype=object) for labels in y]
    hidden[0][2] = None
    hidden[1][4] = None
    model = SemiCRF(allowed_transitions="observed").fit(X, hidden)
    assert np.isfinite(model.log_likelihood(X, hidden)).all()


# what cannot be had is refused


@pytest.mark.parametrize(
    "options",
    [
        {"max_duration": [None, 9]},
        {"duration": ["geometric", "gamma"]},
        {"segment_features": [("sum",), ("mean",)]},
        {"edge_features": [(), ("start", "end")]},
    ],
)
def test_single_steps_have_no_durations_of_their_own(options, rng):
    X, y = make_data(rng)
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} of level 1.*bottom_persist=True"):
        HSCRFClassifier(**options).fit(X, y)
    HSCRFClassifier(bottom_persist=True, max_iter=1, tol=1.0, **options).fit(X, y)


def test_small_parameters(rng):
    X, y = make_data(rng, n_sequences=3)
    with pytest.raises(ValueError, match="max_duration holds True"):
        HSCRFClassifier(max_duration=[True, None]).fit(X, y)
    with pytest.raises(ValueError, match="score_level is 2, but the levels are numbered 0 to 1"):
        HSCRFClassifier(score_level=2).fit(X, y)
    with pytest.raises(ValueError, match="n_jobs"):
        HSCRFClassifier(n_jobs=0).fit(X, y)


# learning


def interrupt_at(monkeypatch, call):
    original, n_calls = HierarchyLogLikelihood.value_and_gradient, [0]

    def value_and_gradient(self, coef):
        n_calls[0] += 1
        if n_calls[0] == call:
            raise KeyboardInterrupt
        return original(self, coef)

    monkeypatch.setattr(HierarchyLogLikelihood, "value_and_gradient", value_and_gradient)


@pytest.mark.parametrize("partial", [False, True])
def test_interruption_is_passed_on(partial, monkeypatch, rng):
    X, y = make_segments(rng)
    y = [np.array(labels, dtype=object) for labels in y]
    if partial:
        y[0][1] = y[1][0] = None
    interrupt_at(monkeypatch, 4)
    model = SemiCRF()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.predict(X)) == len(X)  # what was learnt until then is kept


def test_first_fit_shares_the_iterations(rng):
    X, y = make_segments(rng)
    y = [np.array(labels, dtype=object) for labels in y]
    y[0][1] = None
    with pytest.warns(ConvergenceWarning):
        model = SemiCRF(max_iter=6, tol=0.0).fit(X, y)
    assert model.n_iter_ == 6 and len(model.loss_curve_) == 4  # three of the complete sequences, three of all


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("solver", "eta0"), [("sgd", 1e3), ("sgd", 1e5), ("sgd", 1e10), ("adagrad", 1e300)])
def test_steps_too_long_do_not_blame_the_labels(solver, eta0, rng):
    X, y = make_segments(rng)
    with pytest.warns(ConvergenceWarning, match=r"was reached\. Raise"):
        model = SemiCRF(solver=solver, eta0=eta0, max_iter=3, random_state=0).fit(X, y)
    assert model.n_iter_ == 3 and len(model.loss_curve_) == 4
    assert np.isfinite(model.coef_["unary"][0]).all()
