"""One step of huge inputs, which lower or raise all labels alike, costs the other steps none of their digits.

What such a step itself says is lost in the rounding of its own scores, so here it says nothing.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_seqlab import (
    DynamicCRF,
    HMMClassifier,
    LinearChainCRF,
    SemiCRF,
    StructuredPerceptron,
    StructuredSVM,
)


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(3, size=8), 3)[:20] for _ in range(8)]
    X = [np.column_stack([k + random.normal(size=20) / 2, k > 1, np.zeros(20)]) for k in y]
    return X, y


def with_row(x, row):
    x = x.copy()
    x[5] = row
    return x


LINEAR = {
    "chain": LinearChainCRF(fit_intercept=False, tol=1e-3),
    "margin": StructuredSVM(fit_intercept=False, max_iter=3),
    "perceptron": StructuredPerceptron(fit_intercept=False, max_iter=3),
    "grid": DynamicCRF(fit_intercept=False, tol=1e-3),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("size", [-1e18, 1e12, 1e18])
@pytest.mark.parametrize("name", LINEAR)
def test_a_weight_that_all_labels_share(data, name, size):
    X, y = data
    model = LINEAR[name].fit(X, y)
    coef = model.coef_[0] if name == "grid" else model.coef_
    coef[:, 2] = 1.0
    far, X = [with_row(x, [0, 0, size]) for x in X], [with_row(x, 0) for x in X]
    assert_array_equal(np.vstack(model.predict(far)), np.vstack(model.predict(X)))
    if hasattr(model, "log_likelihood"):
        assert_allclose(model.log_likelihood(far, y), model.log_likelihood(X, y), rtol=1e-9)
    if hasattr(model, "decision_function"):
        margins = [np.vstack(model.decision_function(rows)) for rows in (far, X)]
        margins = [scores - scores.max(axis=1, keepdims=True) for scores in margins]
        assert_allclose(*margins, atol=1e-9)
    if hasattr(model, "predict_n_best"):
        ours, theirs = model.predict_n_best(far, 3), model.predict_n_best(X, 3)
        for found, expected in zip(ours, theirs, strict=True):
            assert [labels.tolist() for labels, _ in found] == [labels.tolist() for labels, _ in expected]


@pytest.mark.parametrize("size", [1e6, 1e9, 1e14])
def test_gaussian_channels_of_one_variance(data, size):
    X, y = data
    model = HMMClassifier(emission="gaussian").fit(X, y)
    model.emission_["gaussian"]["mean"][:, 2], model.emission_["gaussian"]["variance"][:, 2] = 0.0, 1.0
    far, X = [with_row(x, [np.nan, np.nan, size]) for x in X], [with_row(x, np.nan) for x in X]
    assert_array_equal(np.vstack(model.predict(far)), np.vstack(model.predict(X)))
    assert_allclose(model.log_likelihood(far, y), model.log_likelihood(X, y), rtol=1e-9)
    for lag in (0, 3):
        streams = [model.predict_online(lag), model.predict_online(lag)]
        for rows in zip(far[0], X[0], strict=True):
            ours, theirs = (stream.step(row) for stream, row in zip(streams, rows, strict=True))
            if ours is not None:
                assert_allclose(ours, theirs, atol=1e-12)


def test_segments_refuse_what_rounding_would_spoil(data):
    X, y = data
    model = SemiCRF(tol=1e-2).fit(X, y)
    with pytest.raises(ValueError, match="sequence 1 are so large that their sums lose their digits"):
        model.predict([X[0], X[1] * 1e18])


def test_far_values_are_named(data):
    X, y = data
    model = HMMClassifier(emission="gaussian").fit(X, y)
    X = [x.copy() for x in X]
    X[3][7, 0] = 1e200
    with pytest.raises(ValueError, match=r"X\[3\], time step 7: The value in column 0 lies so many standard"):
        model.predict(X)
