"""Transition graphs: which moves are drawn, and how heavy."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.inspection import TransitionGraphDisplay
from sklearn_seqlab.preprocessing import make_sequence_pipeline

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


WEIGHTS = np.array([[2.0, 1.0, 0.0], [-1.0, np.nan, 0.5], [0.1, -np.inf, -4.0]])


def test_a_move_has_an_arrow_if_its_weight_is_finite_and_not_zero():
    display = TransitionGraphDisplay(["a", "b", "c"], WEIGHTS).plot()
    assert set(display.arrows_) == {(0, 0), (0, 1), (1, 0), (1, 2), (2, 0), (2, 2)}
    width = {move: arrow.get_linewidth() for move, arrow in display.arrows_.items()}
    assert sorted(width, key=width.get)[-2:] == [(0, 0), (2, 2)] and width[0, 1] == width[1, 0]
    alpha = {move: arrow.get_alpha() for move, arrow in display.arrows_.items()}
    assert max(alpha.values()) <= 1 and alpha[2, 2] == max(alpha.values())
    color = {move: arrow.get_facecolor()[:3] for move, arrow in display.arrows_.items()}
    assert color[0, 0] == color[1, 2] != color[1, 0] == color[2, 2]
    assert {text.get_text() for text in display.ax_.texts} == {"a", "b", "c"}


def test_arrows_point_from_row_to_column():
    display = TransitionGraphDisplay(["top", "bottom"], [[0, 1], [0, 0]]).plot()
    (arrow,) = display.arrows_.values()
    path = arrow.get_path().vertices
    (tail, head) = arrow._posA_posB
    assert tail[1] > head[1] and path[0, 1] > path[-1, 1]
    # on the rims of the two circles
    radius = display.ax_.patches[-1].radius
    assert np.hypot(tail[0], tail[1] - 1) == pytest.approx(radius)
    assert np.hypot(head[0], head[1] + 1) == pytest.approx(radius)


def test_mask_and_top_leave_out_arrows():
    mask = np.ones((3, 3), dtype=bool)
    mask[2, 2] = False
    display = TransitionGraphDisplay(["a", "b", "c"], WEIGHTS, mask=mask).plot(top=1)
    assert set(display.arrows_) == {(0, 0)}
    assert display.arrows_[0, 0].get_linewidth() > 4  # widths are relative to what may be drawn
    nothing = TransitionGraphDisplay(["a"], [[0.0]]).plot()
    assert nothing.arrows_ == {}


def test_from_estimator_and_pipeline(rng):
    X = [rng.normal(size=(30, 2)) for _ in range(3)]
    y = [np.where(np.cumsum(x[:, 0]) > 0, "on", "$off$") for x in X]
    model = LinearChainCRF().fit(X, y)
    _, ax = plt.subplots()
    display = TransitionGraphDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax and display.figure_ is ax.figure
    assert display.labels == ["$off$", "on"] and display.weights is model.transition_coef_
    display.figure_.canvas.draw()
    pipe = make_sequence_pipeline(LinearChainCRF()).fit(X, y)
    assert TransitionGraphDisplay.from_estimator(pipe, level=0).labels == ["$off$", "on"]
    with pytest.raises(ValueError, match=r"level is 1, but the estimator has 1 level\(s\)"):
        TransitionGraphDisplay.from_estimator(model, level=1)


class Levels(BaseEstimator):
    """The fitted attributes of a model with two levels, the lower one's weights by parent."""

    def __init__(self):
        self.classes_ = [np.array(["day", "night"]), np.array(["a", "b", "c"])]
        self.transition_coef_ = [np.ones((1, 2, 2)), np.stack([WEIGHTS, -WEIGHTS])]
        self.transition_mask_ = [None, np.stack([np.eye(3, dtype=bool), np.ones((3, 3), dtype=bool)])]

    def fit(self, X, y):
        raise NotImplementedError


def test_levels_and_parents_are_chosen():
    top = TransitionGraphDisplay.from_estimator(Levels(), level=0)
    assert top.labels == ["day", "night"] and np.shape(top.weights) == (2, 2) and len(top.arrows_) == 4
    day = TransitionGraphDisplay.from_estimator(Levels(), level=1, parent="day")
    assert set(day.arrows_) == {(0, 0), (2, 2)}
    night = TransitionGraphDisplay.from_estimator(Levels(), level=1, parent="night")
    assert len(night.arrows_) == 6
    with pytest.raises(ValueError, match="the estimator has 2 levels: choose one with level="):
        TransitionGraphDisplay.from_estimator(Levels())
    with pytest.raises(ValueError, match="parent is None, but weights depend on it: choose one of"):
        TransitionGraphDisplay.from_estimator(Levels(), level=1)


def test_refusals():
    with pytest.raises(ValueError, match=r"weights has shape \(3, 3\); expected \(2, 2\)"):
        TransitionGraphDisplay(["a", "b"], WEIGHTS).plot()
    with pytest.raises(ValueError, match=r"mask has shape \(1, 1\); expected \(3, 3\)"):
        TransitionGraphDisplay(["a", "b", "c"], WEIGHTS, mask=[[True]]).plot()
    with pytest.raises((AttributeError, TypeError)):
        TransitionGraphDisplay.from_estimator(SimpleNamespace(classes_=["a"]))
