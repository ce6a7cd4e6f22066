"""Streams of fitted estimators: what a step means, and that streams do not disturb each other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import HMMClassifier, LinearChainCRF
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.preprocessing import make_sequence_pipeline

MODELS = {
    "gaussian": HMMClassifier(emission="gaussian"),
    "mixed": HMMClassifier(emission=["gaussian", "bernoulli", "categorical"], use_end=True),
    "bernoulli": HMMClassifier(emission="bernoulli"),
    "never": HMMClassifier(emission="bernoulli", alpha=0.0),
    "crf": LinearChainCRF(),
    "crf, moves": LinearChainCRF(transition_features=[1, 2]),
    "crf, restricted": LinearChainCRF(restrict_features=True),
}


def data(rng):
    X, y = [], []
    for n in (7, 9, 8, 12, 5):
        codes = np.repeat(rng.integers(0, 3, n), 3)[:n]
        codes[:3] = rng.permutation(3)
        X.append((rng.uniform(size=(n, 3)) < 0.15 + 0.3 * codes[:, None]).astype(float))
        y.append(np.array(["a", "b", "c"])[codes])
    return X, y


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_last_of_the_sequence_cut_off(rng, name):
    X, y = data(rng)
    model = MODELS[name].fit(X, y)
    stream = model.predict_online()
    found = [stream.step(row) for row in X[3]]
    delayed = model.predict_online(lag=2)
    later = [delayed.step(row) for row in X[3]]
    # no weight for ending where it has not ended
    if isinstance(model, HMMClassifier):
        model.end_prob_ = np.ones(3)
    else:
        model.end_coef_ = np.zeros(3)
    for t in range(len(X[3])):
        cut = model.predict_proba([X[3][: t + 1]])[0]
        assert_allclose(found[t], cut[-1], atol=1e-9)
        if t >= 2:
            assert_allclose(later[t], cut[t - 2], atol=1e-9)
    assert later[:2] == [None, None]


def test_missing_channels_in_a_stream(rng):
    X, y = data(rng)
    for emission in ("gaussian", "bernoulli", ["gaussian", "bernoulli", "categorical"]):
        model = HMMClassifier(emission=emission).fit(X, y)
        x = X[0].copy()
        x[1, 0] = x[2, 1] = x[3, 2] = np.nan
        x[4] = np.nan
        stream = model.predict_online(lag=len(x))
        for row in x:
            stream.step(row)
        assert_allclose(stream.finish(), model.predict_proba([x])[0], atol=1e-12)


def test_a_stream_starts_again_and_keeps_its_model(rng):
    X, y = data(rng)
    model = HMMClassifier().fit(X, y)
    one, other = model.predict_online(lag=1), model.predict_online(lag=1)
    expected = [[one.step(row) for row in X[0]], one.finish()]
    for row in X[1]:
        other.step(row)
    assert other.n_steps_ == len(X[1]) and one.n_steps_ == 0
    model.fit(X[2:], y[2:])
    again = [[one.step(row) for row in X[0]], one.finish()]
    assert_allclose(again[0][1:], expected[0][1:])
    assert_allclose(again[1], expected[1])
    with pytest.raises(ValueError, match="x contains infinity at time step 0, column 2"):
        one.step([0, 0, np.inf])
    assert_allclose(one.step(sparse.csr_array(X[0][[0]])) is None, True)
    assert one.finish().shape == (1, 3) and one.finish().shape == (0, 3)


def test_streams_through_a_pipeline(rng):
    X, y = data(rng)
    pipe = make_sequence_pipeline(StandardScaler(), LinearChainCRF()).fit(X, y)
    stream = pipe.predict_online(lag=20)
    known = [None, "b", *[None] * (len(X[1]) - 2)]
    for row, label in zip(X[1], known, strict=True):
        assert stream.step(row, label) is None
    assert_allclose(stream.finish(), pipe.predict_proba([X[1]], y_observed=[known])[0], atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_known_labels_in_a_stream(rng, name):
    X, y = data(rng)
    model = MODELS[name].fit(X, y)
    known = np.full(len(X[3]), None, dtype=object)
    known[2], known[5], known[6] = "a", {"a", "c"}, "b"
    stream = model.predict_online(lag=20)
    for row, label in zip(X[3], known, strict=True):
        with pytest.raises(ValueError, match="y_observed"):
            stream.step(row, "d")
        stream.step(row, label)
    assert_allclose(stream.finish(), model.predict_proba([X[3]], y_observed=[known])[0], atol=1e-9)


def test_a_stream_checks_its_steps_as_predict_does():
    binary = HMMClassifier().fit([[[0, 1], [1, 0], [1, 1], [0, 0]]], [["a", "b", "b", "a"]]).predict_online()
    binary.step([1, np.nan])
    with pytest.raises(ValueError, match="x holds 7 at time step 1, column 1; expected 0 or 1"):
        binary.step([0, 7])
    X, y = [[[0], [1], [2], [0]]], [["a", "b", "b", "a"]]
    coded = HMMClassifier(emission="categorical", handle_unknown="error").fit(X, y).predict_online()
    with pytest.raises(ValueError, match="x holds 9 at time step 0, column 0, a code that fit did not see"):
        coded.step([9])
    with pytest.raises(ValueError, match="expected an integer code"):
        coded.step([0.5])
    with pytest.warns(UserWarning, match="a code that fit did not see"):
        HMMClassifier(emission="categorical").fit(X, y).predict_online().step([9])
    with pytest.raises(ValueError, match="beyond double precision"):
        HMMClassifier(emission="gaussian").fit(X, y).predict_online().step([1e200])


def test_a_stream_outlives_another_fit():
    model = HMMClassifier().fit([[[0], [1], [1]]], [["off", "on", "on"]])
    stream = model.predict_online()
    expected = stream.step([0])
    model.fit([[[0], [1], [1]]], [["a", "b", "c"]])
    stream.finish()
    assert_allclose(stream.step([0]), expected)


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_an_impossible_step_ends_a_stream(lag):
    X, y = [[[0], [1], [1]], [[0], [1]]], [["a", "b", "b"], ["a", "b"]]
    stream = HMMClassifier(alpha=0).fit(X, y).predict_online(lag=lag)
    stream.step([0])
    for row in ([0], [1]):
        with pytest.raises(InfeasibleSequenceError, match="no feasible labelling"):
            stream.step(row)
    with pytest.raises(InfeasibleSequenceError):
        stream.finish()
    stream.step([0])
    assert stream.n_steps_ == 1


def test_an_unknown_label_in_a_stream_is_named_by_its_time_step(rng):
    X = [rng.normal(size=(8, 2)) for _ in range(4)]
    stream = HMMClassifier().fit(X, [list("abababab")] * 4).predict_online()
    stream.step(X[0][0])
    with pytest.raises(ValueError, match="y_observed at time step 1 is 'zz'"):
        stream.step(X[0][1], "zz")
