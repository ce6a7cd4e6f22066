"""encode_labels: read as written, missing and candidate labels apart, every refusal."""

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_seqlab.sequences import CANDIDATES, MISSING, UNSEEN, encode_labels

KINDS = {
    "str": st.text(max_size=4).filter(lambda text: not text.endswith("\0")),
    "int": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
}
MISSING_SPELLINGS = [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT]


@st.composite
def label_lists(draw):
    """Sequences of one kind of label, with missing ones (in every spelling) and sets of candidates."""
    label = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    element = st.one_of(
        label, st.sampled_from(MISSING_SPELLINGS), st.frozensets(label, min_size=1, max_size=3)
    )
    return draw(st.lists(st.lists(element, min_size=1, max_size=6), min_size=1, max_size=4))


@settings(max_examples=200, deadline=None)
@given(label_lists())
def test_codes_spell_the_labels_back(y):
    labels = encode_labels(y)
    classes = labels.classes
    flat = [element for sequence in y for element in sequence]
    assert labels.offsets.tolist() == np.cumsum([0, *map(len, y)]).tolist()
    assert classes.tolist() == sorted(classes.tolist())
    allowed = labels.allowed()
    sets = dict(zip(labels.candidate_rows.tolist(), labels.candidate_masks, strict=True))
    for row, (element, code) in enumerate(zip(flat, labels.codes, strict=True)):
        if isinstance(element, frozenset) and len(element) == 1:
            assert {classes[code].item()} == element  # a label like any other
        elif isinstance(element, frozenset):
            assert code == CANDIDATES
            assert set(classes[sets[row]].tolist()) == element
            assert_array_equal(allowed[row], sets[row])
        elif isinstance(element, str | int):
            assert classes[code].item() == element and type(classes[code].item()) is type(element)
            assert allowed[row].sum() == 1 and allowed[row, code]
        else:
            assert code == MISSING and allowed[row].all()
    for s, sequence in enumerate(y):
        start, stop = labels.offsets[s : s + 2]
        assert_array_equal(labels.allowed(start, stop), allowed[start:stop])
        settled = [isinstance(e, str | int) or (isinstance(e, frozenset) and len(e) == 1) for e in sequence]
        assert labels.is_complete()[s] == all(settled)
        known = [element for element in sequence if isinstance(element, str | int | frozenset)]
        assert labels.is_informative()[s] == bool(known)


@settings(max_examples=60, deadline=None)
@given(label_lists(), label_lists())
def test_encoding_against_known_classes(y, other):
    classes = encode_labels(y).classes
    again = encode_labels(y, classes=classes)
    same = again.classes
    assert same is classes and again.n_labels == len(classes)
    assert not (again.codes == UNSEEN).any()
    assert_array_equal(encode_labels(y).codes, again.codes)


def object_array(items):
    out = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        out[k] = item
    return out


@pytest.mark.parametrize("wrap", [list, tuple, object_array, pd.Series])
@pytest.mark.parametrize(
    "convert",
    [
        list,
        tuple,
        np.array,
        object_array,
        pd.Series,
        pd.Categorical,
        lambda labels: pd.Series(labels, index=range(5, 5 + len(labels))),
        lambda labels: pd.Series(labels, dtype="string"),
        lambda labels: np.array(labels, dtype=np.str_)[::-1][::-1],
    ],
)
def test_containers(wrap, convert):
    labels = encode_labels(wrap([convert(["b", "a"]), convert(["a"])]))
    classes = labels.classes
    assert classes.tolist() == ["a", "b"] and labels.codes.tolist() == [1, 0, 0]
    assert labels.codes.dtype == labels.offsets.dtype == np.intp


def test_equal_lengths_in_one_array():
    labels = encode_labels(np.array([[1, 2], [2, 1]]))
    classes = labels.classes
    assert classes.tolist() == [1, 2] and labels.codes.tolist() == [0, 1, 1, 0]


def test_memory_maps_and_inputs_are_left_alone(tmp_path):
    y = [np.array([3, 1, 2]), np.array([1, 1])]
    joblib.dump(y, tmp_path / "y.joblib")
    mapped = joblib.load(tmp_path / "y.joblib", mmap_mode="r")
    labels = encode_labels(mapped)
    classes = labels.classes
    assert type(classes) is np.ndarray and labels.codes.tolist() == [2, 0, 1, 0, 0]
    frozen = np.array(["a", None, {"b"}], dtype=object)
    frozen.setflags(write=False)
    encode_labels([frozen])
    assert frozen.tolist() == ["a", None, {"b"}]


def test_what_numpy_would_garble():
    labels = encode_labels([["a", None, float("nan"), "nan", "None"]])
    classes = labels.classes
    assert classes.tolist() == ["None", "a", "nan"]
    assert labels.codes.tolist() == [1, MISSING, MISSING, 2, 0]


def test_integral_floats_are_integers_and_minus_one_is_a_label():
    labels = encode_labels([np.array([-1.0, np.nan, 2.0]), [np.int8(2), np.float32(-1)]])
    classes = labels.classes
    assert classes.tolist() == [-1, 2] and classes.dtype == np.int64
    assert labels.codes.tolist() == [0, MISSING, 1, 1, 0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_integer_widths(dtype):
    classes = encode_labels([np.array([1, 2], dtype=dtype), [3]]).classes
    assert classes.tolist() == [1, 2, 3] and classes.dtype == np.int64


def test_booleans():
    labels = encode_labels([[True, None, np.False_]])
    classes = labels.classes
    assert classes.dtype == bool and labels.codes.tolist() == [1, MISSING, 0]
    labels = encode_labels([np.array([True, True])], classes=classes)
    assert labels.codes.tolist() == [1, 1]


def test_nothing_known():
    labels = encode_labels([[None, pd.NA]])
    classes = labels.classes
    assert len(classes) == 0 and labels.codes.tolist() == [MISSING, MISSING]
    assert labels.allowed().shape == (2, 0)
    labels = encode_labels([[None]], classes=np.array(["a", "b"]))
    assert labels.allowed().tolist() == [[True, True]]


def test_members_of_sets_are_classes_too():
    labels = encode_labels([["b", {"c", "a"}]])
    classes = labels.classes
    assert classes.tolist() == ["a", "b", "c"]
    assert labels.candidate_masks.tolist() == [[True, False, True]]


def test_whole_sequences_may_be_free():
    offsets = np.array([0, 2, 3])
    labels = encode_labels([None, ["a"]], offsets, classes=np.array(["a"]))
    assert labels.codes.tolist() == [MISSING, MISSING, 0]
    with pytest.raises(TypeError, match=r"y\[0\] is None; expected a 1-D array of labels"):
        encode_labels([None, ["a"]])  # of what length?


def test_labels_unseen_in_training():
    classes = np.array(["a", "b"])
    message = r"y_observed\[1\]\[0\] is 'z', which is not among the known labels \('a', 'b'\)"
    with pytest.raises(ValueError, match=message):
        encode_labels([["a", None], ["z"]], classes=classes, name="y_observed")
    with pytest.raises(ValueError, match=r"y\[0\]\[1\] is 'z'"):
        encode_labels([["a", {"b", "z"}]], classes=classes)
    with pytest.raises(ValueError, match=r"y\[1\]\[2\] is 7, which .*0, 1, 2, 3, 4, 5, 6, 8, \.\.\."):
        encode_labels([[0], [None, 1, 7]], classes=np.array([0, 1, 2, 3, 4, 5, 6, 8, 9]))
    labels = encode_labels([["a", "z", {"b", "z"}, {"z"}]], classes=classes, unseen="mark")
    assert labels.codes.tolist() == [0, UNSEEN, 1, CANDIDATES]
    assert labels.allowed().tolist() == [[True, False], [False, False], [False, True], [False, False]]
    longer = encode_labels([["ab"]], classes=np.array(["a"]), unseen="mark")
    assert longer.codes.tolist() == [UNSEEN]
    nothing = encode_labels([["a"]], classes=np.empty(0, dtype="U1"), unseen="mark")
    assert nothing.codes.tolist() == [UNSEEN]


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (None, ValueError, "y is None"),
        ("abc", TypeError, "y is a str"),
        ({"a"}, TypeError, "y is a set"),
        ((labels for labels in [["a"]]), TypeError, "y is a generator"),
        ([], ValueError, "y holds no sequences"),
        ([["a"], []], ValueError, r"y\[1\] has 0 labels; at least one time step is needed"),
        ([["a"], "b"], TypeError, r"y\[1\] is 'b'; expected a 1-D array of labels"),
        (["abc"], TypeError, r"y\[0\] is 'abc'"),
        ([3], TypeError, r"y\[0\] is 3"),
        (["a", "b"], TypeError, r"y\[0\] is 'a'"),
        ([{"a"}], TypeError, r"y\[0\] is {'a'}"),
        ([np.array([["a", "b"]])], ValueError, r"y\[0\] has 2 dimension\(s\) \(1, 2\); expected shape"),
        ([pd.DataFrame({"a": [1], "b": [2]})], ValueError, r"y\[0\] has 2 dimension\(s\) \(1, 2\)"),
        ([sparse.csr_array(np.eye(2))], ValueError, r"y\[0\] has 2 dimension\(s\)"),
        ([np.array("a")], (TypeError, ValueError), r"y\[0\] has 0 dimension"),
        ([["a", 1]], TypeError, r"y mixes str and int labels: y\[0\]\[0\] is 'a', y\[0\]\[1\] is 1"),
        ([["a"], [None, 2]], TypeError, r"y\[0\]\[0\] is 'a', y\[1\]\[1\] is 2"),
        ([[1], [True]], TypeError, r"y mixes int and bool labels: y\[0\]\[0\] is 1, y\[1\]\[0\] is True"),
        ([np.array(["a"]), np.array([2])], TypeError, "y mixes str and int"),
        ([[1, {"a"}]], TypeError, "y mixes int and str"),
        ([[1, 0.5]], ValueError, r"y\[0\]\[1\] is 0.5: Unknown label type: continuous"),
        ([[np.inf]], ValueError, r"y\[0\]\[0\] is inf"),
        ([["a", set()]], ValueError, r"y\[0\]\[1\] is an empty set of candidates"),
        ([["a", ["b", "c"]]], TypeError, r"y\[0\]\[1\] is \['b', 'c'\].*must be a set or frozenset"),
        ([["a", ("b",)]], TypeError, "must be a set or frozenset"),
        ([[b"a"]], TypeError, r"y\[0\]\[0\] is b'a' of type bytes"),
        ([np.array([b"a"])], TypeError, "of type bytes"),
        ([[1 + 2j]], TypeError, "of type complex"),
        ([np.array(["2020-01-01"], dtype="M8[D]")], TypeError, r"y\[0\]\[0\] is"),
        ([[2**63]], ValueError, r"y\[0\]\[0\] is 9223372036854775808, beyond the range of int64"),
        ([np.array([2**63], dtype=np.uint64)], ValueError, "beyond the range of int64"),
        ([[1e300]], ValueError, "beyond the range of int64"),
        ([["a\0"]], ValueError, "ends in a NUL character"),
        ([[None, "a\0"]], ValueError, "ends in a NUL character"),
        ([[{"a\0"}]], ValueError, "ends in a NUL character"),
    ],
)
def test_refusals(y, error, message):
    with pytest.raises(error, match=message):
        encode_labels(y)


def test_refusals_against_offsets_and_classes():
    with pytest.raises(ValueError, match=r"y\[1\] has 3 labels, but X\[1\] has 2 time steps\."):
        encode_labels([["a"], ["a", "b", "a"]], np.array([0, 1, 3]))
    with pytest.raises(ValueError, match=r"y has 1 label sequences, but X has 2 sequences \(inconsistent"):
        encode_labels([["a"]], np.array([0, 1, 3]))
    with pytest.raises(TypeError, match=r"y\[0\]\[1\] is 1, but the known labels are of type str"):
        encode_labels([[None, 1]], classes=np.array(["a"]))


def test_take_renumbers_rows_and_keeps_sets():
    labels = encode_labels([["a", {"a", "b"}], ["c"], [{"b", "c"}, None, "b"]])
    taken = labels.take(np.array([2, 0]))
    expected = encode_labels([[{"b", "c"}, None, "b"], ["a", {"a", "b"}]], classes=labels.classes)
    for name in ("codes", "offsets", "candidate_rows", "candidate_masks"):
        assert_array_equal(getattr(taken, name), getattr(expected, name))
