"""The n best labellings of SemiCRF against its own likelihood of every labelling."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import get_tags

from sklearn_seqlab import SemiCRF
from sklearn_seqlab.hierarchical import HSCRFClassifier

OPTIONS = [
    {},
    {"duration": "geometric", "edge_features": ("start", "end", "transition")},
    {"duration": "gamma", "segment_features": ("sum", "mean", "any")},
    {"max_duration": None, "edge_features": ("start",)},
    {"max_duration": 6, "edge_features": ("end",)},
    {"max_duration": 1, "self_transitions": True, "edge_features": ("transition",)},
]


def fitted(rng, **options):
    X = [rng.normal(size=(n, 2)) for n in (5, 7, 4, 6)]
    y = [["a" if v > 0.5 else "b" if v > -0.5 else "c" for v in x[:, 0]] for x in X]
    return SemiCRF(**options).fit(X, y), X


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_n_best_are_the_most_probable(options, rng):
    model, X = fitted(rng, **options)
    x = X[2]
    everything = [np.array(labels) for labels in product(model.classes_, repeat=4)]
    likelihood = model.log_likelihood([x] * len(everything), everything)
    order = np.argsort(-likelihood, kind="stable")
    for n in (1, 6, 200):
        (ranked,) = model.predict_n_best([x], n)
        feasible = [k for k in order if likelihood[k] > -np.inf][:n]
        assert [labels.tolist() for labels, _ in ranked] == [everything[k].tolist() for k in feasible]
        gaps = [score - ranked[0][1] for _, score in ranked]
        assert_allclose(gaps, likelihood[feasible] - likelihood[order[0]], atol=1e-8)


def test_what_is_known_comes_back(rng):
    model, X = fitted(rng)
    known = [[None, "c", None, None, "a"], *[None] * 3]
    ranked = model.predict_n_best(X, 3, y_observed=known)
    assert all((labels[1], labels[4]) == ("c", "a") for labels, _ in ranked[0])
    free = model.predict_n_best(X, 3)
    assert [[y.tolist() for y, _ in one] for one in ranked[1:]] == [
        [y.tolist() for y, _ in one] for one in free[1:]
    ]
    for labels, one in zip(model.predict(X), free, strict=True):
        assert one[0][0].tolist() == labels.tolist()


def test_segmentations_of_the_same_labels_count_once(rng):
    """With boundaries between equal labels, a labelling has the score of its best segmentation."""
    model, X = fitted(rng, self_transitions=True, duration="geometric")
    for ranked in model.predict_n_best(X, 20):
        assert len({tuple(labels) for labels, _ in ranked}) == 20
        scores = [score for _, score in ranked]
        assert scores == sorted(scores, reverse=True)
    # to know the boundaries of the best segmentation leaves its score as the only one
    (segments,) = model.predict_segments(X[:1])
    labels = [label for start, stop, label in segments for _ in range(start, stop)]
    ((best, score), *_) = model.predict_n_best(X[:1], 1)[0]
    assert best.tolist() == labels
    (alone,) = model.predict_n_best(X[:1], 5, y_observed=[segments])
    assert_allclose(alone[0][1], score, rtol=1e-10)


def test_only_one_level_has_n_best(rng):
    model, X = fitted(rng)
    assert get_tags(model).n_best
    assert not get_tags(HSCRFClassifier()).n_best
    assert not hasattr(HSCRFClassifier(), "predict_n_best")
    for n in (0, True, 2.5):
        with pytest.raises(ValueError, match=f"n is {n!r}; expected an integer of at least 1"):
            model.predict_n_best(X, n)
