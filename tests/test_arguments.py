"""Single arguments: what passes, and what the refusal says."""

import numpy as np
import pytest

from sklearn_seqlab import HSCRFClassifier, SemiCRF
from sklearn_seqlab._arguments import check_numerics, one_of, positive
from sklearn_seqlab.inference import HierarchyScores, SegmentScores, hierarchy, segment


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, np.float64(2)])
def test_positive(value):
    assert type(positive(np.int32(3), "n")) is int
    with pytest.raises(ValueError, match=r"^n is .*; expected an integer of at least 1\.$"):
        positive(value, "n")


@pytest.mark.parametrize("value", ["", "AUTO", None, 1, ["auto"], np.array(["auto"])])
def test_one_of(value):
    assert one_of("b", ("a", "b"), "kind") == "b"
    with pytest.raises(ValueError, match=r"^kind is .*; expected 'a', 'b' or 'c'\.$"):
        one_of(value, ("a", "b", "c"), "kind")
    with pytest.raises(ValueError, match=r"^numerics is .*; expected 'auto', 'scaled' or 'log'\.$"):
        check_numerics(value)


def test_all_doors_say_the_same(rng):
    X, y = [rng.normal(size=(4, 2))], [["a", "a", "b", "b"]]
    numerics = r"^numerics is 'fast'; expected 'auto', 'scaled' or 'log'\.$"
    draws = r"^n_samples is 0; expected an integer of at least 1\.$"
    scores = SegmentScores(np.zeros((4, 2, 2)), np.zeros((2, 2)))
    nested = HierarchyScores(
        [np.zeros((2, 3, 1)), np.zeros((2, 3, 2))], [np.zeros((2, 1, 2))], [np.zeros((2, 1, 2, 2))],
        [np.zeros((2, 1, 2))],
    )  # fmt: skip
    calls = {
        numerics: [
            lambda: segment.log_partition(scores, [0, 4], numerics="fast"),
            lambda: hierarchy.log_partition([nested], numerics="fast"),
        ],
        draws: [lambda: segment.sample(scores, [0, 4], 0), lambda: hierarchy.sample([nested], 0)],
    }
    for estimator in (SemiCRF(tol=1e-1), HSCRFClassifier(tol=1e-1)):
        model = estimator.fit(X, y)
        calls[draws].append(lambda model=model: model.sample(X, 0))
        calls[numerics].append(lambda model=model: model.set_params(numerics="fast").predict(X))
    for message, verbs in calls.items():
        for verb in verbs:
            with pytest.raises(ValueError, match=message):
                verb()
