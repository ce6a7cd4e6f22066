import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer

from sklearn_seqlab.feature_extraction import SequenceDictVectorizer

WORDS = [{"word": "the", "length": 3, "upper": True}, {"word": "cat", "length": 3.5, "upper": False}]


def dense(matrices):
    return [matrix.toarray() for matrix in matrices]


def test_numbers_text_and_truth_values():
    vectorizer = SequenceDictVectorizer()
    (matrix,) = vectorizer.fit_transform([WORDS])
    assert vectorizer.get_feature_names_out().tolist() == ["length", "upper", "word=cat", "word=the"]
    assert_array_equal(matrix.toarray(), [[3, 1, 0, 1], [3.5, 0, 1, 0]])
    assert matrix.format == "csr" and matrix.dtype == np.float64


def test_numpy_scalars():
    step = {"a": np.float32(0.5), "b": np.int8(3), "c": np.True_, "d": np.str_("x")}
    vectorizer = SequenceDictVectorizer()
    assert_array_equal(vectorizer.fit_transform([[step]])[0].toarray(), [[0.5, 3, 1, 1]])
    assert vectorizer.get_feature_names_out()[3] == "d=x"


def test_lists_of_names():
    vectorizer = SequenceDictVectorizer()
    (matrix,) = vectorizer.fit_transform([[["b", "a"], ("b",), {"c": 2.0}, []]])
    assert vectorizer.vocabulary_ == {"a": 0, "b": 1, "c": 2}
    assert_array_equal(matrix.toarray(), [[1, 1, 0], [0, 1, 0], [0, 0, 2], [0, 0, 0]])


def test_repeated_names_add_up():
    (matrix,) = SequenceDictVectorizer().fit_transform([[["a", "b", "a"], {"a": 2, "b": ["x", "x"]}]])
    assert_array_equal(matrix.toarray(), [[2, 1, 0], [2, 0, 2]])
    assert matrix.nnz == 4


def test_list_valued_attributes_and_none():
    vectorizer = SequenceDictVectorizer(separator=":")
    (matrix,) = vectorizer.fit_transform([[{"tag": ["NN", "VB"], "gone": None}, {"tag": "NN"}]])
    assert vectorizer.get_feature_names_out().tolist() == ["tag:NN", "tag:VB"]
    assert_array_equal(matrix.toarray(), [[1, 1], [1, 0]])


STEP = st.dictionaries(
    st.sampled_from("abcd"), st.one_of(st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(["x", "y"]))
)


@given(st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_agrees_with_dict_vectorizer(X, sort):
    steps = [step for sequence in X for step in sequence]
    if not any(steps):
        return
    reference = DictVectorizer(sort=sort)
    expected = reference.fit_transform(steps).toarray()
    vectorizer = SequenceDictVectorizer(sort=sort)
    matrices = vectorizer.fit_transform(X)
    assert [matrix.shape[0] for matrix in matrices] == [len(sequence) for sequence in X]
    assert_array_equal(np.vstack(dense(matrices)), expected)
    assert vectorizer.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()
    assert_array_equal(np.vstack(dense(vectorizer.transform(X))), expected)


def test_order_of_first_sight():
    vectorizer = SequenceDictVectorizer(sort=False).fit([[["b"], ["a", "c"]]])
    assert vectorizer.get_feature_names_out().tolist() == ["b", "a", "c"]


def test_unseen_attributes_are_left_out():
    vectorizer = SequenceDictVectorizer().fit([[["a", "c"]]])
    matrices = vectorizer.transform([[["b"], ["c", "b"]], [["z"]]])
    assert_array_equal(matrices[0].toarray(), [[0, 0], [0, 1]])
    assert_array_equal(matrices[1].toarray(), [[0, 0]])


def test_matrices_of_several_sequences_are_valid():
    X = [[["a"], ["b", "a"]], [["c"]], [["b"], [], ["a", "b", "c"]]]
    for matrix in SequenceDictVectorizer().fit_transform(X):
        matrix.check_format(full_check=True)
        assert matrix.has_sorted_indices
    stacked = sparse.vstack(SequenceDictVectorizer().fit_transform(X)).toarray()
    expected = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert_array_equal(stacked, expected)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[{"a": 1}], [{"a": np.nan}]], ValueError, r"X\[1\]\[0\] must have finite values, but 'a' is nan"),
        ([[["a"], {"a": 10**400}]], ValueError, r"X\[0\]\[1\] .* range of float64, but 'a' is beyond it"),
        ([[{"a": np.inf}]], ValueError, "finite values"),
        ([[{1: "a"}]], TypeError, r"X\[0\]\[0\] must have keys that are str, but has the key 1"),
        ([[{"a": {"b": 1}}]], TypeError, r"X\[0\]\[0\]\['a'\] must be a number, a str"),
        ([[{"a": [1]}]], TypeError, r"X\[0\]\[0\]\['a'\] must list str, but holds 1"),
        ([[["a"], ["a", 2]]], TypeError, r"X\[0\]\[1\] must list str, but holds 2"),
        ([["word"]], TypeError, r"X\[0\]\[0\] must be a dict or a list of str, but is 'word'"),
        ([[3.0]], TypeError, r"X\[0\]\[0\] must be a dict or a list of str"),
        ([{"a": 1}], TypeError, r"X\[0\] must be a sequence of time steps, but is a dict"),
        ([[]], ValueError, r"X\[0\] has no time steps"),
        ([], ValueError, "X has no sequences"),
        ([[{}]], ValueError, "X has no attribute"),
    ],
)
def test_bad_input(X, error, message):
    with pytest.raises(error, match=message):
        SequenceDictVectorizer().fit(X)


def test_bad_separator():
    with pytest.raises(TypeError, match="separator must be a str"):
        SequenceDictVectorizer(separator=None).fit([WORDS])


def test_clone_and_unfitted():
    vectorizer = SequenceDictVectorizer(separator="/", sort=False)
    assert clone(vectorizer).get_params() == {"separator": "/", "sort": False}
    with pytest.raises(NotFittedError):
        vectorizer.transform([WORDS])
