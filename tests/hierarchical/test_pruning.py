"""Ends that a cheap model rules out for a dear one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from two_levels import make_data

from sklearn_seqlab import HSCRFClassifier, SemiCRF
from sklearn_seqlab.hierarchical import rule_out_ends


def test_what_is_kept_is_exact_and_what_is_lost_is_bounded(rng):
    X, y = make_data(rng, n_sequences=20, bottom=2)
    X = [3 * x for x in X]
    cheap = HSCRFClassifier(bottom_persist=True).fit(X, y)
    dear = HSCRFClassifier(bottom_persist=True, duration="gamma", max_iter=30, tol=1.0).fit(X, y)
    assert (cheap.engine_, dear.engine_) == ("chain", "aio")
    proba = cheap.predict_boundary_proba(X)
    known, lost = rule_out_ends(proba, 0.05)
    assert any((ends == 0).any() for _, ends in known)
    assert [p.shape for p in proba] == [ends.shape for _, ends in known]
    assert (-np.expm1(cheap.log_likelihood(X, known)) <= lost + 1e-12).all()
    # exact on what is kept: the marginals are those of the distribution given the ends
    kept = dear.log_likelihood(X, known)
    pairs = dear.predict_marginals(X, known)
    for s in range(3):
        joint = [None] * 20
        for t in (0, 3):
            for k, label in enumerate(dear.classes_[1]):
                ends = known[s][1]
                labels = np.full(ends.shape, None, dtype=object)
                labels[t, 1] = label
                joint[s] = (labels, ends)
                together = dear.log_likelihood(X[s : s + 1], [joint[s]])[0]
                assert_allclose(np.exp(together - kept[s]), pairs[s][1][t, k], atol=1e-9)
    nothing, lost = rule_out_ends(proba, 0.0)
    assert not lost.any()
    for a, b in zip(dear.predict_marginals(X, nothing), dear.predict_marginals(X), strict=True):
        assert_allclose(a[0], b[0])


def test_one_level(rng):
    X, y = make_data(rng)
    model = SemiCRF(max_iter=20, tol=1.0).fit(X, [rows[:, 1] for rows in y])
    known, _ = rule_out_ends(model.predict_boundary_proba(X), 0.3)
    for segments, (_, ends) in zip(model.predict_segments(X, known), known, strict=True):
        assert all(ends[stop - 1] is None for _, stop, _ in segments)


@pytest.mark.parametrize("threshold", [-0.1, 1.0, np.nan, "low", True])
def test_thresholds(threshold):
    with pytest.raises(ValueError, match="threshold is"):
        rule_out_ends([[1.0]], threshold)


@pytest.mark.parametrize("proba", [[2.0], [np.nan], 0.5, [], [[[0.5]]]])
def test_no_probabilities(proba):
    with pytest.raises(ValueError, match=r"boundary_proba\[1\] has shape"):
        rule_out_ends([[0.5, 1.0], proba])
