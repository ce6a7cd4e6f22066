"""What metrics accept, and how they refuse the rest."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_seqlab import metrics
from sklearn_seqlab.metrics import micro_accuracy_score
from sklearn_seqlab.metrics._alignment import align

STEP_SCORES = [
    metrics.micro_accuracy_score,
    metrics.macro_accuracy_score,
    metrics.hamming_loss,
    metrics.step_precision_score,
    metrics.step_recall_score,
    metrics.step_f1_score,
]
SEGMENT_SCORES = [metrics.segment_f1_score, metrics.segment_precision_score, metrics.segment_recall_score]


@pytest.mark.parametrize("score", STEP_SCORES + SEGMENT_SCORES + [metrics.confusion_matrix])
@pytest.mark.parametrize(
    ("y_true", "y_pred", "error", "message"),
    [
        ([["a"], ["b"]], [["a"]], ValueError, "y_pred has 1 label sequences, but y_true has 2"),
        ([["a"], ["b", "a"]], [["a"], ["b"]], ValueError, r"y_pred\[1\] has 1 labels, but y_true\[1\] has 2"),
        (
            [["a", "b"]],
            [["a", None]],
            ValueError,
            r"y_pred\[0\]\[1\] is missing, but y_true\[0\]\[1\] is 'b'",
        ),
        ([["a", "b"]], [["a", {"a", "b"}]], ValueError, r"y_pred\[0\]\[1\] is a set of candidates"),
        ([["a", "b"]], [[0, 1]], TypeError, "y_true holds str labels .'a'., but y_pred holds int ones"),
        ([["a", 1]], [["a", "b"]], TypeError, "y_true mixes str and int"),
        ([], [], ValueError, "y_true holds no sequences"),
        (None, [["a"]], ValueError, "y_true is None"),
        ([["a"]], "a", TypeError, "y_pred is a str"),
        ([[0.5]], [[1]], ValueError, r"y_true\[0\]\[0\] is 0.5"),
        ([[["a", "b"]]], [["a"]], ValueError, r"y_pred has 1 level\(s\), but y_true has 2"),
        ([[["a", "b"], ["a"]]], [["a"]], ValueError, r"y_true\[0\] has rows of \[1, 2\] labels"),
    ],
)
def test_refusals(score, y_true, y_pred, error, message):
    with pytest.raises(error, match=message):
        score(y_true, y_pred)


@pytest.mark.parametrize("score", STEP_SCORES + SEGMENT_SCORES)
@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        ([1.0], ValueError, r"sample_weight has shape \(1,\); expected \(2,\)"),
        ([1.0, -1.0], ValueError, r"sample_weight\[1\] is -1.0"),
        ([np.nan, 1.0], ValueError, r"sample_weight\[0\] is nan"),
        (["a", "b"], TypeError, "sample_weight has dtype"),
    ],
)
def test_bad_weights(score, weight, error, message):
    with pytest.raises(error, match=message):
        score([["a"], ["b"]], [["a"], ["b"]], sample_weight=weight)


@pytest.mark.parametrize("score", STEP_SCORES + SEGMENT_SCORES)
def test_no_labelled_step_is_nan_with_a_warning(score):
    for y_true, y_pred, weight in [
        ([[None, np.nan], [{"a", "b"}]], [["a", "a"], ["b"]], None),
        ([[None], [None]], [["a"], ["b"]], [1.0, 2.0]),
        ([["a", "a"], [None]], [["a", "a"], ["b"]], [0.0, 1.0]),
    ]:
        with pytest.warns(UndefinedMetricWarning, match="no labelled step"):
            assert np.isnan(score(y_true, y_pred, sample_weight=weight))


@pytest.mark.parametrize("score", STEP_SCORES + SEGMENT_SCORES)
@pytest.mark.parametrize("fault", [2, -3, "top", True, 0.0])
def test_level_that_does_not_exist(score, fault):
    y = [np.array([["a", "b"], ["a", "c"]])]
    with pytest.raises((ValueError, TypeError), match="level is"):
        score(y, y, level=fault)


def test_levels_of_sequences_differ():
    y = [np.array([["a", "b"]]), np.array(["a"])]
    for y_true, y_pred, name in ((y, [y[0], y[0]], "y_true"), ([y[0], y[0]], y, "y_pred")):
        with pytest.raises(ValueError, match=rf"{name}\[1\] has 1 level\(s\), but {name}\[0\] has 2"):
            micro_accuracy_score(y_true, y_pred)


def test_level_picks_a_column_of_any_container():
    table = [["a", "x"], ["a", "y"], ["b", "y"]]
    predicted = [["a", "x"], ["b", "x"], ["b", "x"]]
    for wrap in (list, np.array, pd.DataFrame, lambda rows: np.array(rows, dtype=object), tuple):
        y_true, y_pred = [wrap(table)], [wrap(predicted)]
        assert_allclose(micro_accuracy_score(y_true, y_pred, level=0), 2 / 3)
        assert_allclose(micro_accuracy_score(y_true, y_pred, level=1), 1 / 3)
        assert_allclose(micro_accuracy_score(y_true, y_pred, level=-1), 1 / 3)
        assert_allclose(micro_accuracy_score(y_true, y_pred), 3 / 6)


def test_true_labels_may_come_in_every_form_of_fit():
    pair = [(["a", "b"], [1, 1]), (["a", "a"], [0, 1])]
    assert micro_accuracy_score(pair, [["a", "a"], ["a", "a"]]) == 3 / 4
    predicted = [["a", "a", "b"], ["b", "b", "a"]]
    assert micro_accuracy_score([None, ["b", "a", "a"]], predicted) == 2 / 3
    assert micro_accuracy_score([(None, [0, 1, 1]), ["b", "a", "a"]], predicted) == 2 / 3
    for segments in ([(0, 2, "a"), (2, 3, "a")], [(0, 0, 2, "a"), (0, 2, 3, "a")]):
        assert micro_accuracy_score([segments, None], predicted) == 2 / 3
    assert micro_accuracy_score([[(1, 3, "b")], None], predicted) == 1 / 2
    tables = [np.array([["a", "x"], ["b", "y"]])]
    assert micro_accuracy_score([[(1, 0, 2, "x"), (0, 1, 2, "b")]], tables) == 2 / 3
    assert micro_accuracy_score([[(1, 0, 2, "x"), (0, 1, 2, "b")]], tables, level=1) == 1 / 2
    assert micro_accuracy_score([[(0, 1, 5), (1, 2, 6)]], [[(0, 1, 5), (1, 2, 7)]]) == 5 / 6  # three levels
    with pytest.raises(ValueError, match=r"y_true\[0\]\[0\] covers 0:4; expected 0 <= start < stop <= 3"):
        micro_accuracy_score([[(0, 4, "a")], None], predicted)
    with pytest.raises(ValueError, match=r"y_true\[0\]\[0\] is a segment of level 1"):
        micro_accuracy_score([[(1, 0, 2, "a")], None], predicted)


def test_predicted_labels_have_one_per_step():
    with pytest.raises(TypeError, match=r"y_pred\[0\] is None; expected labels"):
        micro_accuracy_score([None], [None])
    with pytest.raises(ValueError, match=r"y_pred\[0\] is a list of segments; expected labels, one per time"):
        micro_accuracy_score([["a", "a"]], [[(0, 0, 2, "a")]])


def test_one_dimensional_labels_are_level_zero():
    y_true, y_pred = [["a", "b"]], [["a", "a"]]
    assert micro_accuracy_score(y_true, y_pred, level=0) == micro_accuracy_score(y_true, y_pred) == 0.5
    column = [np.array([["a"], ["b"]])]
    assert micro_accuracy_score(column, y_pred) == 0.5
    with pytest.raises(ValueError, match=r"level is 1, but y_true has 1 level\(s\)"):
        micro_accuracy_score(y_true, y_pred, level=1)


def test_pooled_levels_may_differ_in_type_and_miss_labels():
    y_true = [[["a", 1], [None, 2]], [["b", None]]]
    y_pred = [[["a", 2], ["a", 2]], [["b", 1]]]
    assert_allclose(micro_accuracy_score(y_true, y_pred), 3 / 4)
    assert_allclose(metrics.macro_accuracy_score(y_true, y_pred), 3 / 4)
    assert_array_equal(metrics.confusion_matrix(y_true, y_pred, labels=[1, 2]), [[0, 1], [0, 1]])
    with pytest.raises(TypeError, match="choose one with level="):
        metrics.step_f1_score(y_true, y_pred)


def test_pooled_levels_belong_to_their_sequence():
    y_true = [[["a", "a"]], [["a", "a"], ["a", "a"]]]
    y_pred = [[["b", "b"]], [["a", "a"], ["a", "b"]]]
    loss = metrics.hamming_loss(y_true, y_pred, average="sequence")
    assert_allclose(loss, (1 + 1 / 4) / 2)
    weighted = metrics.hamming_loss(y_true, y_pred, average="sequence", sample_weight=[3, 1])
    assert_allclose(weighted, (3 + 1 / 4) / 4)


def test_missing_spellings_are_left_out_and_nothing_is_written():
    y_true = [[None, float("nan"), pd.NA, {"a", "b"}, "a", "b"]]
    y_pred = [[None, "b", "b", "b", "a", "a"]]
    frozen_true, frozen_pred = [list(y_true[0])], [list(y_pred[0])]
    assert micro_accuracy_score(y_true, y_pred) == 0.5
    assert list(map(id, y_true[0])) == list(map(id, frozen_true[0])) and y_pred == frozen_pred


def test_integers_beside_nan_are_integers():
    assert micro_accuracy_score([np.array([1.0, np.nan, 2.0])], [np.array([1, 5, 3])]) == 0.5


def test_bool_labels():
    y_true, y_pred = [np.array([True, False, True])], [np.array([True, True, True])]
    assert_allclose(micro_accuracy_score(y_true, y_pred), 2 / 3)
    assert metrics.confusion_matrix(y_true, y_pred, labels=[True, False]).tolist() == [[2, 0], [1, 0]]
    # 1 is no bool
    assert metrics.confusion_matrix(y_true, y_pred, labels=[1]).tolist() == [[0]]


def test_labels_seen_on_one_side_only_keep_their_codes_apart():
    aligned = align([["b", "d", None]], [["a", "c", "e"]])
    assert aligned.classes.tolist() == ["a", "b", "c", "d", "e"]
    assert aligned.true.tolist() == [1, 3, -1] and aligned.pred.tolist() == [0, 2, 4]


@pytest.mark.parametrize("labels", [[], "ab", ["a", "a"]])
def test_bad_labels(labels):
    for score in (metrics.macro_accuracy_score, metrics.confusion_matrix, metrics.segment_f1_score):
        with pytest.raises(ValueError, match="labels is"):
            score([["a"]], [["a"]], labels=labels)
    with pytest.raises(TypeError, match=r"labels\[0\] is 0.5"):
        metrics.segment_f1_score([["a"]], [["a"]], labels=[0.5])
