"""Timelines: what is drawn where."""

import numpy as np
import pytest

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.inspection import TimelineDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def bands(display):
    """(left, right, bottom) of every band, in the order in which they were drawn."""
    boxes = [path.get_extents() for c in display.ax_.collections for path in c.get_paths()]
    return [(box.x0, box.x1, round(box.y0, 1)) for box in boxes]


def test_true_above_predicted_with_missing_labels_left_white():
    display = TimelineDisplay.from_predictions(["a", "a", None, "b"], ["a", "b", "b", "b"])
    assert bands(display) == [(0, 2, 1.1), (3, 4, 1.1), (0, 1, 0.1), (1, 4, 0.1)]
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["predicted", "true"][::-1]
    assert display.ax_.get_xlabel() == "time step"
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["a", "b"]


def test_levels_have_pairs_of_rows_that_stand_apart():
    y_true = np.array([["day", 1], ["day", 2], ["night", 2]], dtype=object)
    y_pred = np.array([["day", 1], ["night", 1], ["night", 2]], dtype=object)
    display = TimelineDisplay.from_predictions(y_true, y_pred)
    assert list(display.rows) == [
        "level 0, true",
        "level 0, predicted",
        "level 1, true",
        "level 1, predicted",
    ]
    tops = {name: round(y, 1) for name, y in zip(display.rows, display.ax_.get_yticks(), strict=True)}
    assert list(tops.values()) == [3.9, 2.9, 1.5, 0.5] and display.ax_.get_ylim() == (0, 4.4)
    assert bands(display)[:4] == [(0, 2, 3.5), (2, 3, 3.5), (0, 1, 2.5), (1, 3, 2.5)]
    assert bands(display)[4:] == [(0, 1, 1.1), (1, 3, 1.1), (0, 2, 0.1), (2, 3, 0.1)]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["day", "night", "1", "2"]
    colors = [tuple(c.get_facecolor()[0]) for c in display.ax_.collections]
    assert len(set(colors)) == 4 and colors[0] == colors[2] and colors[4] == colors[6]
    named = TimelineDisplay.from_predictions(None, y_pred, level_names=["part", "number"])
    assert list(named.rows) == ["part, predicted", "number, predicted"]


@pytest.mark.parametrize(
    ("y_true", "options", "message"),
    [
        (["a", "b"], {}, r"y_true has 1 level\(s\), but y_pred has 2"),
        ([["a", 1]], {}, "y_true has 1 labels, but y_pred has 2"),
        ([["a", 1]] * 2, {"level_names": ["only"]}, r"level_names has 1 names for 2 level\(s\)"),
    ],
)
def test_levels_that_do_not_fit(y_true, options, message):
    with pytest.raises(ValueError, match=message):
        TimelineDisplay.from_predictions(y_true, [["a", 1], ["a", 2]], **options)
    with pytest.raises(ValueError, match="row_levels has 1 entries, but there are 2 rows"):
        TimelineDisplay({"p": ["a"], "q": ["a"]}, classes=["a"], row_levels=[0]).plot()


def test_colors_can_be_chosen_and_labels_keep_theirs_in_both_rows():
    display = TimelineDisplay.from_predictions([1, 2], [2, 1], colors={2: "black"})
    colors = [tuple(c.get_facecolor()[0]) for c in display.ax_.collections]
    assert colors[0] == colors[3] and colors[1] == colors[2] == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("n_labels", [1, 12, 25])
def test_many_labels(n_labels):
    display = TimelineDisplay.from_predictions(None, np.arange(n_labels))
    assert len(display.ax_.get_legend().get_texts()) == n_labels


def test_times_on_the_axis():
    times = np.arange("2020-01-01T00:00", "2020-01-01T00:04", dtype="datetime64[m]")
    display = TimelineDisplay.from_predictions(None, ["a", "a", "b", "b"], times=times)
    assert display.ax_.get_xlabel() == "time"
    left, right = display.ax_.get_xlim()
    assert (right - left) * 24 * 60 == pytest.approx(4)
    with pytest.raises(ValueError, match="times has 3 entries, but the sequence has 4"):
        TimelineDisplay.from_predictions(None, ["a", "a", "b", "b"], times=times[:3])


def test_from_estimator_draws_on_given_axes(rng):
    X = [rng.normal(size=(n, 2)) for n in (5, 7)]
    y = [np.where(x[:, 0] > 0, "on", "off") for x in X]
    _, ax = plt.subplots()
    display = TimelineDisplay.from_estimator(LinearChainCRF().fit(X, y), X[0], y[0], ax=ax)
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert set(display.rows) == {"true", "predicted"}


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="y_true has 3 labels, but y_pred has 5"):
        TimelineDisplay.from_predictions(list("aab"), list("aabbb"))


def test_one_step_with_a_time_and_labels_with_dollars():
    display = TimelineDisplay.from_predictions(
        ["$a$"], ["$\\bad$"], times=np.array(["2020-01-01T00:00"], "M8[s]")
    )
    display.figure_.canvas.draw()
    with pytest.raises(TypeError, match="times has dtype"):
        TimelineDisplay.from_predictions(None, ["a"], times=["noon"])
