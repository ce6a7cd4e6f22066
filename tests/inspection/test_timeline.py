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
