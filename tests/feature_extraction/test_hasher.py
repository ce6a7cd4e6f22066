import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.feature_extraction import FeatureHasher

from sklearn_seqlab.feature_extraction import SequenceDictVectorizer, SequenceHasher


def test_agrees_with_feature_hasher():
    X = [[{"word": "the", "length": 3}, {"word": "cat", "length": 3}], [{"word": "sat", "length": 3}]]
    expected = FeatureHasher(32).transform([step for sequence in X for step in sequence]).toarray()
    matrices = SequenceHasher(n_features=32).fit(X).transform(X)
    assert [matrix.shape for matrix in matrices] == [(2, 32), (1, 32)]
    assert_array_equal(np.vstack([matrix.toarray() for matrix in matrices]), expected)
    assert matrices[0].dtype == np.float64 and matrices[0].format == "csr"


def test_lists_of_names_agree_with_feature_hasher():
    X = [[["a", "b", "a"], ["c"]]]
    expected = FeatureHasher(32, input_type="string").transform(X[0]).toarray()
    assert_array_equal(SequenceHasher(n_features=32).transform(X)[0].toarray(), expected)
    assert np.abs(expected[0]).max() == 2  # what occurs twice adds up


def test_no_collisions_means_the_vocabulary_permuted():
    X = [[{"w": "the", "n": 2.5}, ["x", "y"]], [{"w": ["a", "b"], "gone": None}]]
    named = SequenceDictVectorizer().fit_transform(X)
    hashed = SequenceHasher(alternate_sign=False).transform(X)
    for a, b in zip(named, hashed, strict=True):
        assert b.shape[1] == 2**18
        for row_a, row_b in zip(a, b, strict=True):
            assert sorted(row_a.data) == sorted(row_b.data)


def test_names_parameters_and_tags():
    hasher = SequenceHasher(n_features=4)
    assert hasher.get_feature_names_out().tolist() == [f"sequencehasher{j}" for j in range(4)]
    assert clone(hasher).get_params() == hasher.get_params()
    assert not hasher.__sklearn_tags__().requires_fit
    with pytest.raises(ValueError, match="n_features"):
        SequenceHasher(n_features=0).fit([[["a"]]])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([["word"]], TypeError, r"X\[0\]\[0\] must be a dict or a list of str"),
        ([[["a"]], []], ValueError, r"X\[1\] has no time steps"),
        ([[{"a": np.nan}]], ValueError, "finite values"),
    ],
)
def test_bad_input(X, error, message):
    with pytest.raises(error, match=message):
        SequenceHasher().transform(X)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"n_features": 2**40},
            ValueError,
            "n_features must be an int from 1 to 2147483647, but is 1099511627776",
        ),
        ({"n_features": True}, ValueError, "n_features must be an int"),
        ({"separator": 5}, TypeError, "separator must be a str, but is 5"),
        ({"alternate_sign": "no"}, TypeError, "alternate_sign must be a bool, but is 'no'"),
    ],
)
def test_bad_parameters_at_fit_and_at_transform(options, error, message):
    hasher = SequenceHasher().fit().set_params(**options)
    for call in (hasher.fit, hasher.transform):
        with pytest.raises(error, match=message):
            call([[{"a": "b"}]])
