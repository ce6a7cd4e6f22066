"""Pictures of boosted models show what the models hold."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import BoostedCRF
from sklearn_seqlab.inspection import BoostingDisplay, SelectedFeaturesDisplay, TransitionMatrixDisplay
from sklearn_seqlab.preprocessing import make_sequence_pipeline

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    y = [np.repeat(rng.randint(3, size=6), 4) for _ in range(6)]
    X = [np.column_stack([labels, labels == 1, 0 * labels]) + rng.normal(size=(24, 3)) for labels in y]
    return X, y


def test_rounds(data):
    X, y = data
    model = make_sequence_pipeline(StandardScaler(), BoostedCRF(n_rounds=6)).fit(X, y)
    display = BoostingDisplay.from_estimator(model, X, y, name="training")
    assert_array_equal(display.ax_.lines[0].get_ydata(), model[-1].loss_curve_)
    shown = display.accuracy_ax_.lines[0]
    assert shown.get_label() == "accuracy, training"
    assert_array_equal(shown.get_xdata(), np.arange(1, 7))
    assert_allclose(shown.get_ydata()[-1], 100 * model.score(X, y))
    assert BoostingDisplay.from_estimator(model).accuracy_ax_ is None


def test_the_round_that_was_kept(data):
    X, y = data
    model = BoostedCRF(n_rounds=80, validation_fraction=0.5, n_iter_no_change=3, random_state=0).fit(X, y)
    display = BoostingDisplay.from_estimator(model, X, y)
    assert display.ax_.lines[-1].get_xdata()[0] == model.n_iter_ < len(model.loss_curve_) - 1


def test_selected_features(data):
    X, y = data
    model = BoostedCRF(n_rounds=8).fit(X, y)
    display = SelectedFeaturesDisplay.from_estimator(model, top=4)
    widths = [bar.get_width() for bar in display.bars_]
    assert_allclose(widths, np.sort(model.feature_importances_)[::-1][:4])
    texts = [label.get_text() for label in display.ax_.get_yticklabels()]
    first = int(np.argmax(model.feature_importances_))
    assert texts[0] == model.feature_names([first])[0]
    trees = BoostedCRF(weak_learner="tree", n_rounds=2).fit(X, y)
    display = SelectedFeaturesDisplay.from_estimator(trees)
    assert "x0[t]" in [label.get_text() for label in display.ax_.get_yticklabels()]
    with pytest.raises(ValueError, match="names has 1 entries"):
        SelectedFeaturesDisplay(["a"], [1.0, 2.0]).plot()


def test_matrix_of_moves(data):
    X, y = data
    model = BoostedCRF(n_rounds=8).fit(X, y)
    truth = np.array([[1, 0, 1], [0, 1, 0], [0, 1, 1]], dtype=bool)
    display = TransitionMatrixDisplay.from_estimator(model, truth=truth)
    assert_array_equal(display.image_.get_array(), model.transition_coef_)
    (dots,) = display.ax_.lines
    places = set(zip(dots.get_ydata().tolist(), dots.get_xdata().tolist(), strict=True))
    assert places == set(map(tuple, np.argwhere(truth).tolist()))
    with pytest.raises(ValueError, match="truth has shape"):
        TransitionMatrixDisplay("abc", np.zeros((3, 3)), truth=np.zeros((2, 2))).plot()
    with pytest.raises(ValueError, match="weights has shape"):
        TransitionMatrixDisplay("ab", np.zeros((3, 3))).plot()
