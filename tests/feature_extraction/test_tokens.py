import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_seqlab.feature_extraction import SequenceDictVectorizer, TokenFeatures, word_shape


def test_names_of_a_word_and_its_neighbours():
    ((first, second),) = TokenFeatures(window=1, affixes=2).transform([["The", "cats"]])
    assert first == ["w[0]=the", "w[1]=cats", "prefix=t", "prefix=th", "suffix=e", "suffix=he", "shape=Xx"]
    assert second[:2] == ["w[-1]=the", "w[0]=cats"] and "suffix=ts" in second and "shape=x" in second


def test_further_columns_case_and_switches():
    features = TokenFeatures(window=0, affixes=0, shape=False, lowercase=False)
    assert features.transform([[("The", "DT", "I")]]) == [[["w[0]=The", "1[0]=DT", "2[0]=I"]]]


def test_affixes_of_short_words_are_not_repeated():
    ((names,),) = TokenFeatures(window=0, affixes=3, shape=False).transform([["a"]])
    assert names == ["w[0]=a", "prefix=a", "suffix=a"]


@pytest.mark.parametrize(
    ("word", "shape"), [("Model-9", "Xx-d"), ("1,024", "d,d"), ("NASA", "X"), ("", ""), ("漢字", "x")]
)
def test_word_shape(word, shape):
    assert word_shape(word) == shape


def test_in_a_pipeline():
    pipeline = make_pipeline(TokenFeatures(), SequenceDictVectorizer())
    matrices = pipeline.fit_transform([["the", "cat"], ["a", "cat", "sat"]])
    assert [matrix.shape[0] for matrix in matrices] == [2, 3]
    assert "w[-2]=a" in pipeline[1:].get_feature_names_out()
    assert clone(pipeline).get_params()["tokenfeatures__window"] == 2


@pytest.mark.parametrize(
    ("options", "X", "error", "message"),
    [
        ({"window": -1}, [["a"]], ValueError, "window must be an int >= 0"),
        ({"affixes": 1.5}, [["a"]], ValueError, "affixes must be an int >= 0"),
        ({}, [["a", 3]], TypeError, r"X\[0\]\[1\] must be a str or a tuple of str, but is 3"),
        ({}, [[("a", 3)]], TypeError, r"X\[0\]\[0\] must be a str or a tuple"),
        ({}, [["a"], []], ValueError, r"X\[1\] has no time steps"),
    ],
)
def test_bad_input(options, X, error, message):
    with pytest.raises(error, match=message):
        TokenFeatures(**options).transform(X)
