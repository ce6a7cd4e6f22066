"""Step scores against their definitions, written slowly, and against scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_seqlab.metrics import (
    confusion_matrix,
    hamming_loss,
    macro_accuracy_score,
    micro_accuracy_score,
    step_f1_score,
    step_precision_score,
    step_recall_score,
)

LABELS = ["a", "b", "c"]


@st.composite
def scored_sequences(draw):
    """Sequences with missing true labels (at least one known), predictions and weights."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    y_true = [draw(st.lists(st.sampled_from([*LABELS, None]), min_size=n, max_size=n)) for n in lengths]
    y_true[0][0] = "a"
    y_pred = [draw(st.lists(st.sampled_from([*LABELS, "z"]), min_size=n, max_size=n)) for n in lengths]
    weight = draw(st.lists(st.floats(0.1, 1e6), min_size=len(lengths), max_size=len(lengths)))
    return y_true, y_pred, weight


def stack(y_true, y_pred, weight):
    """Labelled steps as (true, predicted, weight), one by one."""
    return [
        (a, b, w)
        for true, pred, w in zip(y_true, y_pred, weight, strict=True)
        for a, b in zip(true, pred, strict=True)
        if a is not None
    ]


@settings(max_examples=60, deadline=None)
@given(scored_sequences())
def test_scores_match_their_definitions(data):
    y_true, y_pred, weight = data
    steps = stack(*data)
    total = sum(w for _, _, w in steps)
    micro = sum(w for a, b, w in steps if a == b) / total
    assert_allclose(micro_accuracy_score(y_true, y_pred, sample_weight=weight), micro)
    assert_allclose(hamming_loss(y_true, y_pred, sample_weight=weight), 1 - micro, atol=1e-12)
    shares = [
        sum(w for a, b, w in steps if a == b == c) / sum(w for a, _, w in steps if a == c)
        for c in sorted({a for a, _, _ in steps})
    ]
    assert_allclose(macro_accuracy_score(y_true, y_pred, sample_weight=weight), np.mean(shares))
    within = [
        (w, np.mean([a != b for a, b in zip(true, pred, strict=True) if a is not None]))
        for true, pred, w in zip(y_true, y_pred, weight, strict=True)
        if any(a is not None for a in true)
    ]
    expected = sum(w * share for w, share in within) / sum(w for w, _ in within)
    loss = hamming_loss(y_true, y_pred, average="sequence", sample_weight=weight)
    assert_allclose(loss, expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
@settings(max_examples=30, deadline=None)
@given(scored_sequences(), st.sampled_from(["micro", "macro", "weighted", None]))
def test_step_scores_are_those_of_scikit_learn(data, average):
    y_true, y_pred, weight = data
    a, b, w = zip(*stack(*data), strict=True)
    for ours, theirs in [
        (step_precision_score, sklearn.metrics.precision_score),
        (step_recall_score, sklearn.metrics.recall_score),
        (step_f1_score, sklearn.metrics.f1_score),
    ]:
        score = ours(y_true, y_pred, average=average, sample_weight=weight)
        assert_allclose(score, theirs(a, b, average=average, sample_weight=w, zero_division=0.0))
        score = ours(y_true, y_pred, average=average, labels=["c", "a"])
        assert_allclose(score, theirs(a, b, average=average, labels=["c", "a"], zero_division=0.0))
    matrix = confusion_matrix(y_true, y_pred)
    known = sorted(set(a) | set(b))
    assert_array_equal(matrix, sklearn.metrics.confusion_matrix(a, b, labels=known))
    for normalize in ("true", "pred", "all"):
        assert_allclose(
            confusion_matrix(y_true, y_pred, labels=["c", "a", "q"], normalize=normalize),
            sklearn.metrics.confusion_matrix(a, b, labels=["c", "a", "q"], normalize=normalize),
        )


@settings(max_examples=60, deadline=None)
@given(scored_sequences())
def test_no_score_exceeds_one(data):
    y_true, _, weight = data
    right = [[label or "a" for label in labels] for labels in y_true]
    for y_pred in (right, data[1]):
        for score in (
            micro_accuracy_score,
            macro_accuracy_score,
            hamming_loss,
            step_precision_score,
            step_recall_score,
            step_f1_score,
        ):
            value = score(y_true, y_pred, sample_weight=weight)
            assert 0.0 <= value <= 1.0
    assert micro_accuracy_score(y_true, right, sample_weight=weight) == 1.0
    assert macro_accuracy_score(y_true, right, sample_weight=weight) == 1.0
    assert hamming_loss(y_true, right, average="sequence", sample_weight=weight) == 0.0


def test_step_and_sequence_hamming_differ_on_unequal_lengths():
    y_true, y_pred = [["a"] * 4, ["b"]], [["a"] * 4, ["a"]]
    assert hamming_loss(y_true, y_pred) == 0.2
    assert hamming_loss(y_true, y_pred, average="sequence") == 0.5
    with pytest.raises(ValueError, match="average is 'macro'"):
        hamming_loss(y_true, y_pred, average="macro")


def test_a_label_that_is_only_predicted_does_not_lower_macro_accuracy():
    assert macro_accuracy_score([["a", "a", "b"]], [["a", "z", "b"]]) == 0.75
    assert macro_accuracy_score([["a", "a", "b"]], [["a", "z", "b"]], labels=["a", "z"]) == 0.5


def test_binary_average_takes_the_positive_label():
    y_true, y_pred = [["n", "y", "y"]], [["y", "y", "n"]]
    assert step_precision_score(y_true, y_pred, average="binary", pos_label="y") == 0.5
    with pytest.raises(ValueError, match="pos_label"):
        step_precision_score(y_true, y_pred, average="binary", pos_label="q")


@pytest.mark.parametrize("score", [step_precision_score, step_recall_score, step_f1_score, confusion_matrix])
def test_labels_that_are_empty_or_double(score):
    for labels, message in (([], "at least one label"), (["a", "a"], "more than once"), ("ab", "a list")):
        with pytest.raises(ValueError, match=message):
            score([["a", "b"]], [["a", "a"]], labels=labels)


def test_confusion_matrix_counts_integers_and_empty_rows():
    matrix = confusion_matrix([["a", "b", None]], [["a", "a", "a"]])
    assert matrix.dtype.kind == "i" and matrix.tolist() == [[1, 0], [1, 0]]
    assert confusion_matrix([["a"]], [["a"]], labels=["b"], normalize="true").tolist() == [[0.0]]
    assert confusion_matrix([[None]], [["a"]]).shape == (0, 0)
    assert confusion_matrix([[None]], [["a"]], labels=["a", "b"]).tolist() == [[0, 0], [0, 0]]
    assert confusion_matrix([["a"], ["b"]], [["a"], ["a"]], sample_weight=[2, 0.5]).tolist() == [
        [2, 0],
        [0.5, 0],
    ]
    with pytest.raises(ValueError, match="normalize is 'rows'"):
        confusion_matrix([["a"]], [["a"]], normalize="rows")
