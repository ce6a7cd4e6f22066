"""Durations: what is counted, and what is drawn."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from two_levels import make_data

from sklearn_seqlab import HSCRFClassifier, SemiCRF
from sklearn_seqlab.inspection import DurationDisplay
from sklearn_seqlab.metrics import micro_accuracy
from sklearn_seqlab.preprocessing import make_sequence_pipeline

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def counted(y, **options):
    display = DurationDisplay.from_predictions(y, **options)
    return {label: sorted(durations.tolist()) for label, durations in display.durations.items()}


def test_runs_of_labels_are_counted_where_both_ends_are_known():
    assert counted([["a", "a", "b", "a"], ["b", "b", "b"]]) == {"a": [1, 2], "b": [1, 3]}
    # how far the segments beside a missing label reach is not known
    assert counted([["a", "b", "b", None, "b", "a"]]) == {"a": [1, 1], "b": []}


def test_forms_of_labels_and_segments():
    table = [["x", "a"], ["x", "b"], ["y", "b"]]
    assert counted([table]) == {"x": [2], "y": [1]}
    assert counted([table], level=1) == {"a": [1], "b": [1, 1]}
    assert counted([(["a", "a", "a"], [0, 1, 1])]) == {"a": [1, 2]}
    assert counted([[(0, 2, "a"), (2, 3, "a"), (5, 9, "b")]]) == {"a": [1, 2], "b": [4]}
    four = [(0, 0, 6, "x"), (1, 0, 1, "a"), (1, 1, 5, "b"), (1, 5, 6, "a")]
    assert counted([four]) == {"x": [6]} and counted([four], level=1) == {"a": [1, 1], "b": [4]}


def test_a_sequence_of_which_nothing_is_known_counts_nothing():
    assert (
        counted([None, ["a", "a", "b"]])
        == counted([[(0, 2, "a"), (2, 3, "b")], None])
        == {"a": [2], "b": [1]}
    )


def test_rows_of_three_levels_are_no_segments():
    table = [(0, 1, 7), (0, 2, 7), (1, 2, 8)]
    with pytest.raises(ValueError, match="overlap"):
        counted([table])
    assert counted([table], flat_segments=False) == {0: [2], 1: [1]}
    assert counted([table], flat_segments=False, level=2) == {
        7: [1, 1],
        8: [1],
    }  # the level above ends between
    assert counted([[(0, 2, 7), (2, 3, 8)]]) == {7: [2], 8: [1]}


def test_the_estimator_says_what_tuples_of_int_are(rng):
    X = [rng.normal(size=(3, 2)), rng.normal(size=(3, 2))]
    rows = [[(0, 1, 7), (0, 1, 7), (1, 2, 8)]] * 2
    hierarchy = HSCRFClassifier(bottom_persist=True, tol=1e-1).fit(X, rows)
    display = DurationDisplay.from_estimator(hierarchy, X, rows)
    assert {label: d.tolist() for label, d in display.durations.items()} == {0: [2, 2], 1: [1, 1]}
    segments = [[(0, 2, 7), (2, 3, 8)]] * 2
    semi = make_sequence_pipeline(StandardScaler(), SemiCRF(tol=1e-1)).fit(X, segments)
    display = DurationDisplay.from_estimator(semi, X, segments)
    assert {label: d.tolist() for label, d in display.durations.items()} == {7: [2, 2], 8: [1, 1]}


def test_learnt_durations_of_a_hierarchy_are_drawn_by_level(rng):
    X, y = make_data(rng, bottom=2)
    model = HSCRFClassifier(
        bottom_persist=True, duration=["geometric", "gamma"], max_duration=[None, 4], tol=1e-2
    ).fit(X, y)
    upper, lower = model.duration_scores_
    assert upper is None and lower.shape == (4, len(model.classes_[1]))
    display = DurationDisplay.from_estimator(model, X, y, level=1)
    for k, label in enumerate(model.classes_[1].tolist()):
        n = np.arange(1, 5)
        weight = model.coef_["duration"][1][k, 0]
        curve = display.probabilities[label]
        assert_allclose(curve.sum(), 1)
        assert_allclose(np.diff(np.log(curve) - weight * np.log(n), n=2), 0, atol=1e-9)  # bias * n is free
        assert_allclose(curve @ n, np.clip(np.mean(display.predicted[label]), 1.05, 3.95))
        assert display.axes_[k].lines
    assert DurationDisplay.from_estimator(model, X, y, level=0).probabilities is None
    with pytest.raises(ValueError, match=r"level is 2, but y_true has 2 level\(s\)"):
        DurationDisplay.from_estimator(model, X, y, level=2)


def test_one_level_of_a_hierarchy_learns_the_durations_of_segments(rng):
    X, y = make_data(rng, bottom=2)
    legs = [rows[:, 1] for rows in y]
    semi = SemiCRF(tol=1e-6).fit(X, legs)
    model = HSCRFClassifier(bottom_persist=True, duration="table", max_duration="observed", tol=1e-6).fit(
        X, legs
    )
    assert_allclose(model.duration_scores_[0], semi.duration_scores_, atol=1e-8)
    assert HSCRFClassifier(tol=1e-1).fit(X, legs).duration_scores_ == [None]


def test_heights_are_shares_per_time_step():
    display = DurationDisplay.from_predictions(
        [["a", "a", "b", "a"]], [["a", "b", "b", "b"]], probabilities={"a": [0.25, 0.5, 0.25]}
    )
    a, b = display.axes_
    assert [bar.get_height() for bar in a.patches if isinstance(bar, plt.Rectangle)] == [0.5, 0.5]
    (line,) = a.lines
    assert line.get_xdata().tolist() == [1, 2] and line.get_ydata().tolist() == [0.25, 0.5]
    (stairs,) = (patch for patch in b.patches if not isinstance(patch, plt.Rectangle))
    assert stairs.get_data().values.tolist() == [0, 0, 1] and not b.lines
    assert a.get_title() == "a (n = 2)" and b.get_title() == "b (n = 1)"


def test_long_durations_share_bins():
    (ax,) = DurationDisplay({"a": [1, 2, 300]}).plot().axes_
    bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in ax.patches]
    assert len(bars) <= 30 and all(width == 10 for _, width, _ in bars)
    assert_allclose(sum(width * height for _, width, height in bars), 1)


def test_labels_are_chosen_and_one_that_does_not_occur_has_an_empty_panel():
    display = DurationDisplay.from_predictions([["a", "b"]], labels=["c", "a"])
    assert [ax.get_title() for ax in display.axes_] == ["c (n = 0)", "a (n = 1)"]


@pytest.mark.parametrize("by_level", [False, True])
def test_from_estimator_draws_what_was_learnt(by_level):
    scores = np.add(np.log([[0.5, 0.1], [0.5, 0.9]]), [3.0, -700.0])
    model = SimpleNamespace(
        classes_=[np.array(["a", "b"])] if by_level else np.array(["a", "b"]),
        duration_scores_=[scores] if by_level else scores,
        predict_segments=lambda X: [[(0, 1, "a"), (1, 3, "b")]],
    )
    display = DurationDisplay.from_estimator(model, [np.zeros((3, 1))], [["a", "a", "b"]])
    assert_allclose(display.probabilities["a"], [0.95, 0.05])  # all but the mean of the predicted durations
    assert_allclose(display.probabilities["b"], [0.05, 0.95])
    assert {label: d.tolist() for label, d in display.predicted.items()} == {"a": [1], "b": [2]}
    model.predict_segments = lambda X: [[(0, 3, "c")]]
    display = DurationDisplay.from_estimator(model, [np.zeros((3, 1))], [["a", "a", "b"]])
    assert_allclose(display.probabilities["b"], [0.1, 0.9])  # none predicted: as it was learnt
    del model.duration_scores_
    assert DurationDisplay.from_estimator(model, [np.zeros((3, 1))], [["a", "a", "b"]]).probabilities is None


def test_given_axes():
    figure, ax = plt.subplots()
    display = DurationDisplay.from_predictions([["a"]], ax=ax)
    assert display.axes_[0] is ax and display.figure_ is figure
    inside = DurationDisplay.from_predictions([list("abcde")], ax=ax)
    assert len(inside.axes_) == 5 and inside.figure_ is figure
    _, axes = plt.subplots(1, 2)
    assert DurationDisplay.from_predictions([["a", "b"]], ax=axes).axes_.tolist() == axes.tolist()
    with pytest.raises(ValueError, match="ax has 2 Axes, but there are 3 labels"):
        DurationDisplay.from_predictions([["a", "b", "c"]], ax=axes)


def test_refusals():
    with pytest.raises(ValueError, match=r"level is 1, but y_true has 1 level\(s\)"):
        DurationDisplay.from_predictions([["a"]], level=1)
    with pytest.raises(ValueError, match="y_true holds no label at all"):
        DurationDisplay.from_predictions([None])
    with pytest.raises(ValueError, match=r"y_pred\[0\]\[0\] \(0:2\) and y_pred\[0\]\[1\] \(1:3\) overlap"):
        DurationDisplay.from_predictions([["a"]], [[(0, 2, "a"), (1, 3, "a")]])
    with pytest.raises(ValueError, match="durations names no label"):
        DurationDisplay({}).plot()


def test_durations_of_a_search(rng):
    X = [rng.normal(size=(12, 2)) for _ in range(6)]
    y = [np.repeat(["a", "b"], 6) for _ in X]
    search = GridSearchCV(SemiCRF(max_iter=20, tol=1e-2), {"C": [1.0]}, scoring=micro_accuracy, cv=2).fit(
        X, y
    )
    found = DurationDisplay.from_estimator(search, X, y)
    expected = DurationDisplay.from_estimator(search.best_estimator_, X, y)
    for label in ("a", "b"):
        assert_array_equal(found.probabilities[label], expected.probabilities[label])
