import io
import pickle
import time
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_seqlab.datasets import fetch_conll2000, fetch_crfpp
from sklearn_seqlab.feature_extraction import FeatureTemplates

TEMPLATE = """# Unigram
U00:%x[-2,0]
U01:%x[0,0]

U02:%x[-1,1]/%x[1,1]
U03
# Bigram
B
"""
SENTENCE = [("the", "DT"), ("cat", "NN"), ("sat", "VB")]


def named(templates, matrix):
    """Names of the attributes of each step."""
    names = templates.get_feature_names_out()
    return [set(names[row.indices]) for row in matrix]


def test_attributes_of_a_sentence():
    templates = FeatureTemplates(TEMPLATE)
    (matrix,) = templates.fit_transform([SENTENCE])
    assert named(templates, matrix) == [
        {"U00:_B-2", "U01:the", "U02:_B-1/NN", "U03"},
        {"U00:_B-1", "U01:cat", "U02:DT/VB", "U03"},
        {"U00:the", "U01:sat", "U02:NN/_B+1", "U03"},
    ]
    assert sparse.issparse(matrix) and matrix.format == "csr" and matrix.dtype == np.float64
    assert_array_equal(matrix.data, 1.0)
    assert templates.bigram_templates_ == ["B"]
    assert len(templates.unigram_templates_) == 4


@given(
    st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(st.integers(-4, 4), min_size=1, max_size=3),
)
def test_against_the_definition(words, rows):
    line = "U:" + "/".join(f"%x[{row},0]" for row in rows)
    templates = FeatureTemplates(line)
    matrices = templates.fit_transform([[(word,) for word in sequence] for sequence in words])

    def value(sequence, t):
        if t < 0:
            return f"_B{t}"
        return sequence[t] if t < len(sequence) else f"_B+{t - len(sequence) + 1}"

    for sequence, matrix in zip(words, matrices, strict=True):
        expected = [{"U:" + "/".join(value(sequence, t + row) for row in rows)} for t in range(len(sequence))]
        assert named(templates, matrix) == expected


def test_unseen_attributes_are_left_out():
    templates = FeatureTemplates("U0:%x[0,0]\nU1:%x[0,1]").fit([SENTENCE])
    (matrix,) = templates.transform([[("dog", "NN"), ("cat", "XX"), ("owl", "YY")]])
    assert named(templates, matrix) == [{"U1:NN"}, {"U0:cat"}, set()]
    assert matrix.shape == (3, 6)


def test_fit_transform_equals_fit_then_transform():
    X = [SENTENCE, SENTENCE[::-1], SENTENCE[:1]]
    templates = FeatureTemplates(TEMPLATE)
    for a, b in zip(templates.fit_transform(X), templates.transform(X), strict=True):
        assert_array_equal(a.toarray(), b.toarray())
        assert a.has_sorted_indices and b.has_sorted_indices
    names = templates.get_feature_names_out()
    assert names.tolist() == sorted(names) and templates.vocabulary_[names[2]] == 2


def test_same_attribute_twice_adds_up():
    (matrix,) = FeatureTemplates("U:%x[0,0]\nU:%x[0,0]").fit_transform([SENTENCE])
    assert_array_equal(matrix.sum(axis=1).A1, 2.0)
    assert matrix.nnz == 3


def test_percent_signs_and_blanks_in_words():
    templates = FeatureTemplates("U 1:%x[0,0]/%x[1,0]")
    (matrix,) = templates.fit_transform([[("%s",), ("100%",)]])
    assert named(templates, matrix) == [{"U 1:%s/100%"}, {"U 1:100%/_B+1"}]


def test_tokens_may_be_plain_str():
    (a,) = FeatureTemplates("U:%x[-1,0]\n").fit_transform([["the", "cat"]])
    (b,) = FeatureTemplates("U:%x[-1,0]\n").fit_transform([[("the",), ("cat",)]])
    assert_array_equal(a.toarray(), b.toarray())


def test_template_as_path_and_file(tmp_path):
    name = tmp_path / "template"
    name.write_text(TEMPLATE, encoding="utf-8")
    expected = FeatureTemplates(TEMPLATE).fit([SENTENCE]).vocabulary_
    file = io.StringIO(TEMPLATE)
    for template in (name, str(name), file, file):
        assert FeatureTemplates(template).fit([SENTENCE]).vocabulary_ == expected


def test_a_fitted_object_needs_the_file_no_more(tmp_path):
    name = tmp_path / "template"
    name.write_text("U:%x[0,0]", encoding="utf-8")
    templates = FeatureTemplates(name).fit([SENTENCE])
    name.unlink()
    again = pickle.loads(pickle.dumps(templates))
    assert_array_equal(again.transform([SENTENCE])[0].toarray(), np.eye(3)[[2, 0, 1]])
    with pytest.raises(FileNotFoundError):
        templates.fit([SENTENCE])


def test_failed_refit_leaves_the_object_as_it_was():
    templates = FeatureTemplates("U:%x[0,0]\n").fit([SENTENCE])
    templates.set_params(template="U:%x[0,5]\n")
    with pytest.raises(ValueError, match="uses column 5"):
        templates.fit([SENTENCE])
    assert templates.unigram_templates_ == ["U:%x[0,0]"]
    assert templates.transform([SENTENCE])[0].shape == (3, 3)


def test_clone_and_unfitted():
    templates = FeatureTemplates(TEMPLATE).fit([SENTENCE])
    copy = clone(templates)
    assert copy.template == TEMPLATE
    with pytest.raises(NotFittedError):
        copy.transform([SENTENCE])


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("U:%x[0,0]\nX:%x[0,0]", "template line 2 must start with U, B or #"),
        ("U:%x[0]\n", "template line 1 has a % that begins no"),
        ("U:%y[0,0]\n", "template line 1 has a % that begins no"),
        ("U:%x[0,-1]\n", "template line 1 has a % that begins no"),
        ("U:%x[0,0]\nU:%x[1001,0]\n", r"template line 2 must have rows from -1000 to 1000, but has row 1001"),
        ("U:%x[-99999999,0]\n", "line 1 must have rows from -1000 to 1000, but has row -99999999"),
        ("B:%x[-1001,0]\nU\n", "line 1 must have rows"),
        ("", "template must be a path or text with at least one line, but is ''"),
        ("# none\nB\n", "at least one line that starts with U"),
    ],
)
def test_bad_templates(template, message):
    with pytest.raises(ValueError, match=message):
        FeatureTemplates(template).fit([SENTENCE])


def test_bigram_lines_with_macros_warn():
    with pytest.warns(UserWarning, match=r"bigram lines with macros, which make no input feature: \['B1:%x"):
        templates = FeatureTemplates("U:%x[0,0]\nB\nB1:%x[0,0]\n").fit([SENTENCE])
    assert templates.bigram_templates_ == ["B", "B1:%x[0,0]"]
    assert len(templates.vocabulary_) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureTemplates(TEMPLATE).fit([SENTENCE])


def test_template_that_is_nothing(tmp_path):
    for folder in (tmp_path, str(tmp_path)):
        with pytest.raises(IsADirectoryError, match=r"template must be a file, or text .* is a folder"):
            FeatureTemplates(folder).fit([SENTENCE])
    with pytest.raises(TypeError, match="opened as text, but reads as bytes"):
        FeatureTemplates(io.BytesIO(b"U:%x[0,0]")).fit([SENTENCE])
    with pytest.raises(FileNotFoundError, match="template must be a file, or text"):
        FeatureTemplates("no such file").fit([SENTENCE])
    with pytest.raises(TypeError, match="template must be a str, a path or a text file"):
        FeatureTemplates(3).fit([SENTENCE])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([SENTENCE, [("the", "DT"), ("cat",)]], ValueError, r"X\[1\]\[1\] has 1 columns, but .* column 1"),
        ([[("the", 3)]], TypeError, r"X\[0\]\[0\] must hold str, but column 1 is 3"),
        ([[("the", "DT"), None]], TypeError, r"X\[0\]\[1\] must be a str or a tuple of str, but is None"),
        ([[5]], TypeError, r"X\[0\]\[0\] must be a str or a tuple of str, but is 5"),
        ([[{"w": "a"}]], TypeError, r"X\[0\]\[0\] must be a str or a tuple of str, but is \{'w'"),
        (SENTENCE, ValueError, r"X\[0\]\[0\] has 1 columns.*a single sequence belongs in a list of its own"),
        ([SENTENCE, []], ValueError, r"X\[1\] has no time steps"),
        ([], ValueError, "X has no sequences"),
        (["the cat"], TypeError, r"X\[0\] must be a sequence of time steps, but is a str"),
        ("the cat", TypeError, "X must be a list of sequences, but is a str"),
    ],
)
def test_bad_sequences(X, error, message):
    with pytest.raises(error, match=message):
        FeatureTemplates("U:%x[0,0]/%x[0,1]").fit(X)


def test_a_data_frame_is_no_sequence_of_tokens():
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r"X\[0\] must be a sequence of time steps, but is a DataFrame"):
        FeatureTemplates("U:%x[0,0]").fit([pd.DataFrame({"word": ["the"]})])


@pytest.mark.parametrize(
    ("task", "n_features"), [("basenp", 10987), ("chunking", 10949), ("JapaneseNE", 28834), ("seg", 5543)]
)
def test_number_of_attributes_of_the_small_tasks(data_home, task, n_features):
    found = fetch_crfpp(task, data_home=data_home)
    templates = FeatureTemplates(found.template).fit(found.data)
    assert len(templates.vocabulary_) == n_features
    assert templates.bigram_templates_ == ["B"]


def test_conll2000(data_home):
    template = fetch_crfpp("chunking", data_home=data_home).template
    X, y = fetch_conll2000(data_home=data_home, return_X_y=True)
    templates = FeatureTemplates(template)
    begin = time.process_time()
    matrices = templates.fit_transform(X)
    assert time.process_time() - begin < 30
    assert len(templates.vocabulary_) == 338551
    assert sum(matrix.nnz for matrix in matrices) == 19 * 211727
    assert [matrix.shape for matrix in matrices] == [(len(labels), 338551) for labels in y]


def test_columns_out_of_range():
    templates = FeatureTemplates("U:%x[0,0]\n").fit([["x", "y"]])
    templates.vocabulary_["U:x"] = 50_000_000
    with pytest.raises(ValueError, match="column 50000000, which is out of range"):
        templates.transform([["x"]])
