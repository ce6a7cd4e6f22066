"""Runs of equal labels, there and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_seqlab.sequences import labels_to_segments, segments_to_labels
from sklearn_seqlab.sequences._segments import find_runs


def runs_by_hand(labels):
    segments, start = [], 0
    for t in range(1, len(labels) + 1):
        if t == len(labels) or labels[t] != labels[start]:
            if labels[start] is not None:
                segments.append((start, t, labels[start]))
            start = t
    return segments


@given(st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=12))
def test_segments_match_a_slow_loop_and_give_the_labels_back(labels):
    segments = labels_to_segments(labels)
    assert segments == runs_by_hand(labels)
    assert segments_to_labels(segments, len(labels)).tolist() == labels
    assert segments_to_labels(segments[::-1], len(labels)).tolist() == labels


@given(st.lists(st.lists(st.integers(-1, 1), min_size=1, max_size=6), min_size=1, max_size=4))
def test_runs_of_packed_sequences_stay_within_them(sequences):
    codes = np.concatenate([np.array(codes) for codes in sequences])
    offsets = np.cumsum([0, *map(len, sequences)])
    starts, stops = find_runs(codes, offsets)
    expected = []
    for base, own in zip(offsets, sequences, strict=False):
        runs = runs_by_hand([None if code < 0 else code for code in own])
        expected += [(base + start, base + stop) for start, stop, _ in runs]
    assert list(zip(starts, stops, strict=True)) == expected


def test_values_are_plain_python():
    for labels, kind in ((np.array([1, 1]), int), (np.array([True]), bool), (np.array(["a"]), str)):
        ((start, stop, label),) = labels_to_segments(labels)
        assert type(start) is type(stop) is int and type(label) is kind


def test_missing_spellings_and_candidates_end_a_run():
    assert labels_to_segments(["a", float("nan"), "a", {"a", "b"}, "a"]) == [
        (0, 1, "a"),
        (2, 3, "a"),
        (4, 5, "a"),
    ]
    assert labels_to_segments(["a", {"a"}, "a"]) == [(0, 3, "a")]
    assert labels_to_segments([None, None]) == []


def test_fill_and_dtype():
    assert segments_to_labels([(1, 2, "b")], 3, fill="O").tolist() == ["O", "b", "O"]
    assert segments_to_labels([(1, 2, "b")], 3, fill="O").dtype.kind == "U"
    partial = segments_to_labels([(1, 2, 7)], 3)
    assert partial.dtype == object and partial.tolist() == [None, 7, None]
    assert segments_to_labels([(0, 2, 7)], 2).dtype == np.int64
    assert segments_to_labels([(0, 1, 7)], 2, fill=0).tolist() == [7, 0]
    assert segments_to_labels([], 2).tolist() == [None, None]
    assert segments_to_labels([(np.int64(0), np.int32(1), "a")], np.int64(1)).tolist() == ["a"]


@pytest.mark.parametrize(
    ("segments", "n_timesteps", "error", "message"),
    [
        (
            [(0, 2, "a"), (1, 3, "b")],
            3,
            ValueError,
            r"segments\[0\] \(0:2\) and segments\[1\] \(1:3\) overlap",
        ),
        (
            [(4, 5, "a"), (0, 5, "b")],
            5,
            ValueError,
            r"segments\[1\] \(0:5\) and segments\[0\] \(4:5\) overlap",
        ),
        (
            [(0, 1, "a"), (2, 4, "b")],
            3,
            ValueError,
            r"segments\[1\] covers 2:4; expected 0 <= start < stop <= 3",
        ),
        ([(-1, 1, "a")], 3, ValueError, r"segments\[0\] covers -1:1"),
        ([(1, 1, "a")], 3, ValueError, r"segments\[0\] covers 1:1"),
        ([(2, 1, "a")], 3, ValueError, r"segments\[0\] covers 2:1"),
        ([(0, 1)], 3, ValueError, r"segments\[0\] is \(0, 1\); expected \(start, stop, label\)"),
        ([3], 3, ValueError, r"segments\[0\] is 3"),
        ([(0, 1.0, "a")], 3, TypeError, r"segments\[0\] has the bound 1.0; expected an int"),
        ([(False, True, "a")], 3, TypeError, r"segments\[0\] has the bound False"),
        ([], 0, ValueError, "n_timesteps is 0; at least 1 is needed"),
        ([], 2.0, TypeError, "n_timesteps is 2.0; expected an int"),
        ([(0, 1, "a"), (1, 2, 3)], 2, TypeError, r"labels mixes str and int labels: labels\[0\] is 'a'"),
        ([(0, 1, 0.5)], 1, ValueError, r"labels\[0\] is 0.5"),
    ],
)
def test_refusals(segments, n_timesteps, error, message):
    with pytest.raises(error, match=message):
        segments_to_labels(segments, n_timesteps)


def test_refusals_of_labels():
    with pytest.raises(ValueError, match="labels has 0 labels"):
        labels_to_segments([])
    with pytest.raises(TypeError, match="labels is 'abc'"):
        labels_to_segments("abc")
    with pytest.raises(TypeError, match=r"labels mixes str and int labels: labels\[0\] is 'a', labels\[1\]"):
        labels_to_segments(["a", 1])
