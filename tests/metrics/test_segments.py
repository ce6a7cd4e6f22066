"""Segment scores against a slow count of segments, and against seqeval."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import UndefinedMetricWarning

from sklearn_seqlab.metrics import (
    segment_classification_report,
    segment_f1_score,
    segment_precision_score,
    segment_recall_score,
)
from sklearn_seqlab.sequences import labels_to_segments

PREFIXES = {"IOB1": "OIB", "IOB2": "OIB", "IOE1": "OIE", "IOE2": "OIE", "IOBES": "OIBES", "BILOU": "OBILU"}


def counts_by_hand(y_true, y_pred, weight):
    """(right, predicted, true) segments by label, cut where the true label is missing."""
    totals = {}
    for true, pred, w in zip(y_true, y_pred, weight, strict=True):
        pred = [b if a is not None else None for a, b in zip(true, pred, strict=True)]
        found_true, found_pred = set(labels_to_segments(true)), set(labels_to_segments(pred))
        for k, found in enumerate((found_true & found_pred, found_pred, found_true)):
            for *_, label in found:
                totals.setdefault(label, [0.0, 0.0, 0.0])[k] += w
    return totals


@st.composite
def label_sequences(draw):
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    y_true = [draw(st.lists(st.sampled_from(["a", "b", None]), min_size=n, max_size=n)) for n in lengths]
    y_true[0][0] = "a"
    y_pred = [draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=n, max_size=n)) for n in lengths]
    weight = draw(st.lists(st.floats(0.1, 1e3), min_size=len(lengths), max_size=len(lengths)))
    return y_true, y_pred, weight


@settings(max_examples=100, deadline=None)
@given(label_sequences())
def test_runs_match_a_slow_count(data):
    y_true, y_pred, weight = data
    totals = counts_by_hand(*data)
    right, pred, true = np.sum(list(totals.values()), axis=0)
    assert_allclose(segment_f1_score(y_true, y_pred, sample_weight=weight), 2 * right / (pred + true))
    assert_allclose(segment_precision_score(y_true, y_pred, sample_weight=weight), right / pred)
    assert_allclose(segment_recall_score(y_true, y_pred, sample_weight=weight), right / true)
    rows = [totals[label] for label in sorted(totals)]
    f1 = [2 * r / (p + t) for r, p, t in rows]
    assert_allclose(segment_f1_score(y_true, y_pred, sample_weight=weight, average=None), f1)
    assert_allclose(segment_f1_score(y_true, y_pred, sample_weight=weight, average="macro"), np.mean(f1))
    weighted = np.average(f1, weights=[t for _, _, t in rows])
    assert_allclose(segment_f1_score(y_true, y_pred, sample_weight=weight, average="weighted"), weighted)


@settings(max_examples=60, deadline=None)
@given(label_sequences())
def test_a_perfect_prediction_scores_one_and_none_exceeds_it(data):
    y_true, y_pred, weight = data
    right = [[label or "a" for label in labels] for labels in y_true]
    for average in ("micro", "macro", "weighted"):
        assert segment_f1_score(y_true, right, average=average, sample_weight=weight) == 1.0
        for score in (segment_f1_score, segment_precision_score, segment_recall_score):
            assert 0.0 <= score(y_true, y_pred, average=average, sample_weight=weight) <= 1.0


def test_sequences_end_segments():
    assert segment_recall_score([["a"], ["a"]], [["a"], ["a"]], average=None).tolist() == [1.0]
    # one long segment in one sequence, two short ones in two: the counts differ
    report = segment_classification_report([["a"], ["a"]], [["a"], ["a"]], output_dict=True)
    assert report["a"]["support"] == 2


def test_missing_steps_cut_both_sides_alike():
    assert segment_f1_score([["a", None, "a"]], [["a", "a", "a"]]) == 1.0
    assert segment_f1_score([["a", "a", None]], [["a", "b", "b"]]) == 0.0
    assert segment_f1_score([["B-X", None, "I-X"]], [["B-X", "I-X", "I-X"]], scheme="IOB2") == 1.0
    assert segment_f1_score([["B-X", None, "I-X"]], [["O", "B-X", "B-X"]], scheme="conll") == 0.5 / 0.75


def test_labels_leave_the_background_out_and_set_the_order():
    y_true, y_pred = [["-", "a", "-", "b", "b"]], [["-", "a", "b", "b", "b"]]
    assert segment_f1_score(y_true, y_pred, labels=["a", "b"]) == 0.5
    assert segment_f1_score(y_true, y_pred, labels=["b", "a", "z"], average=None).tolist() == [0, 1, 0]
    scores = segment_f1_score(y_true, y_pred, labels=np.array(["z"]), average=None, zero_division=1.0)
    assert scores.tolist() == [1.0]


def test_zero_division():
    y_true, y_pred = [["O", "O"]], [["O", "O"]]
    assert segment_f1_score(y_true, y_pred, scheme="IOB2") == 0.0
    assert segment_f1_score(y_true, y_pred, scheme="IOB2", zero_division=1.0) == 1.0
    assert np.isnan(segment_f1_score(y_true, y_pred, scheme="IOB2", zero_division=np.nan))
    assert segment_precision_score([["B-X"]], [["O"]], scheme="IOB2", zero_division=1.0) == 1.0
    assert segment_f1_score([["B-X"]], [["O"]], scheme="IOB2", zero_division=1.0) == 0.0
    macro = segment_precision_score(
        [["B-X", "B-Y"]], [["B-X", "O"]], scheme="IOB2", average="macro", zero_division=np.nan
    )
    assert macro == 1.0
    with pytest.raises(ValueError, match="zero_division is 'warn'"):
        segment_f1_score(y_true, y_pred, zero_division="warn")


def test_refusals_of_segments():
    with pytest.raises(ValueError, match="scheme is 'BIO'; expected one of 'IOB1', 'IOB2'"):
        segment_f1_score([["O"]], [["O"]], scheme="BIO")
    with pytest.raises(ValueError, match="average is 'samples'"):
        segment_f1_score([["a"]], [["a"]], average="samples")
    with pytest.raises(ValueError, match="y_true or y_pred holds 'E-X'; the tags of scheme 'IOB2'"):
        segment_f1_score([["E-X"]], [["O"]], scheme="IOB2")
    with pytest.raises(TypeError, match="the tags of scheme 'IOB2' are str"):
        segment_f1_score([[1]], [[1]], scheme="IOB2")


@pytest.mark.parametrize("scheme", [*PREFIXES, "conll"])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
def test_agrees_with_seqeval(scheme, average):
    seqeval_metrics = pytest.importorskip("seqeval.metrics")
    import seqeval.scheme

    rng = np.random.default_rng(0)
    prefixes = PREFIXES.get(scheme, "OIBES")
    mode = {} if scheme == "conll" else {"mode": "strict", "scheme": getattr(seqeval.scheme, scheme)}
    n_compared = 0
    for _ in range(60):
        sides = []
        for _ in range(2):
            sides.append([tags_at_random(rng, prefixes, n, scheme) for n in (5, 1, 9)])
        if average != "micro" and not any(tag != "O" for tags in sides[0] + sides[1] for tag in tags):
            continue
        n_compared += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for ours, theirs in [
                (segment_f1_score, seqeval_metrics.f1_score),
                (segment_precision_score, seqeval_metrics.precision_score),
                (segment_recall_score, seqeval_metrics.recall_score),
            ]:
                expected = theirs(*sides, average=average, zero_division=0, **mode)
                assert_allclose(ours(*sides, scheme=scheme, average=average), expected)
    assert n_compared > 30


def tags_at_random(rng, prefixes, n, scheme):
    """Mostly broken tags; no E at the start of a segment in IOE1, which seqeval does not read."""
    tags = []
    for _ in range(n):
        prefix, label = rng.choice(list(prefixes)), rng.choice(["X", "Y"])
        if scheme == "IOE1" and prefix == "E" and (not tags or tags[-1] not in (f"I-{label}", f"E-{label}")):
            prefix = "I"
        tags.append("O" if prefix == "O" else f"{prefix}-{label}")
    return tags


def test_report_as_dict_and_text():
    y_true, y_pred = [["a", "a", "b", "c"]], [["a", "a", "b", "b"]]
    report = segment_classification_report(y_true, y_pred, output_dict=True)
    assert list(report) == ["a", "b", "c", "micro avg", "macro avg", "weighted avg"]
    assert report["a"] == {"precision": 1.0, "recall": 1.0, "f1-score": 1.0, "support": 1}
    assert report["micro avg"]["f1-score"] == segment_f1_score(y_true, y_pred) == 0.4
    assert report["macro avg"]["recall"] == segment_recall_score(y_true, y_pred, average="macro")
    text = segment_classification_report(y_true, y_pred, digits=3)
    assert "micro avg      0.500     0.333     0.400         3" in text
    weighted = segment_classification_report(y_true, y_pred, sample_weight=[0.5])
    assert weighted.splitlines()[2].split() == ["a", "1.00", "1.00", "1.00", "0.50"]
    with pytest.warns(UndefinedMetricWarning):
        undefined = segment_classification_report([[None]], [["a"]], labels=["a"], output_dict=True)
    assert np.isnan(undefined["a"]["f1-score"]) and np.isnan(undefined["micro avg"]["precision"])


def test_report_text_agrees_with_scikit_learn_in_layout():
    from sklearn.metrics import classification_report

    ours = segment_classification_report([["a", "b", "a"]], [["a", "b", "a"]]).splitlines()
    theirs = classification_report(["a", "b", "a"], ["a", "b", "a"]).splitlines()
    assert ours[:4] == theirs[:4] and ours[-1] == theirs[-1]


def test_levels_are_counted_together_or_alone():
    y_true = [np.array([["a", "x"], ["a", "y"]])]
    y_pred = [np.array([["a", "x"], ["a", "x"]])]
    assert segment_f1_score(y_true, y_pred, level=0) == 1.0
    assert segment_f1_score(y_true, y_pred, level=1) == 0.0
    assert segment_f1_score(y_true, y_pred) == 2 * 1 / (3 + 2)


def test_hand_count_of_a_chunking_example():
    """He reckons | the current account deficit | will narrow: one boundary wrong."""
    y_true = [["B-NP", "B-VP", "B-NP", "I-NP", "I-NP", "I-NP", "B-VP", "I-VP"]]
    y_pred = [["B-NP", "B-VP", "B-NP", "I-NP", "B-NP", "I-NP", "B-VP", "I-VP"]]
    assert_allclose(segment_precision_score(y_true, y_pred, scheme="conll"), 3 / 5)
    assert_allclose(segment_recall_score(y_true, y_pred, scheme="conll"), 3 / 4)
    assert_allclose(segment_f1_score(y_true, y_pred, scheme="conll", average=None), [2 / 5, 1.0])
