"""The segment core against enumeration, worked numbers and the chain core."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedSegments, numerical_gradient
from scipy.stats import chisquare

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import ChainScores, SegmentScores, chain, segment

MODES = ("auto", "log")


@st.composite
def batches(draw):
    """A few short sequences with ties, forbidden segments and moves, scores from 1e-3 to 1e3, and knowledge."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels, max_duration = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 5 if n_labels < 3 else 4), min_size=1, max_size=3))
    scale = draw(st.sampled_from([1e-3, 1.0, 30.0, 1e3]))
    n_total, varying = sum(lengths), draw(st.booleans())

    def scores(*shape):
        values = scale * rng.normal(size=shape)
        if draw(st.booleans()):
            values = np.round(values / scale) * scale  # ties
        values[rng.random(shape) < draw(st.sampled_from([0.0, 0.0, 0.2]))] = -np.inf
        return values

    offsets = np.concatenate([[0], np.cumsum(lengths)])
    banded = scores(n_total, max_duration, n_labels)
    for stop in offsets[1:]:
        for start in range(stop - min(max_duration, stop), stop):
            banded[start, stop - start :] = np.nan if stop == n_total else 7.0  # they leave their sequence
    transition = scores(n_total, n_labels, n_labels) if varying else scores(n_labels, n_labels)
    if varying:
        transition[offsets[:-1]] = np.nan
    ends = [scores(n_labels) if draw(st.booleans()) else None for _ in range(2)]
    allowed = rng.random((n_total, n_labels)) < 0.8 if draw(st.booleans()) else None
    known = rng.choice([-1, -1, -1, 0, 1], size=n_total).astype(np.int8) if draw(st.booleans()) else None
    return SegmentScores(banded, transition, *ends), offsets, allowed, known


def enumerated(scores, offsets, allowed=None, ends=None):
    for start, stop in pairwise(offsets):
        rows = slice(start, stop)
        yield EnumeratedSegments(
            scores.segment[rows],
            scores.transition[rows] if scores.transition.ndim == 3 else scores.transition,
            scores.initial,
            scores.final,
            None if allowed is None else allowed[rows],
            None if ends is None else ends[rows],
        )


def size_of(scores):
    finite = scores.segment[np.isfinite(scores.segment)]
    return 1 + (np.abs(finite).max() if len(finite) else 0)


@settings(max_examples=100)
@given(batches(), st.sampled_from(MODES))
def test_every_verb_matches_enumeration(batch, mode):
    scores, offsets, *known = batch
    with np.errstate(divide="ignore"):
        truth = list(enumerated(scores, offsets, *known))
        log_z = np.array([one.log_partition for one in truth])
    tolerance = {"rtol": 1e-11, "atol": 1e-12 * size_of(scores)}
    assert_allclose(segment.log_partition(scores, offsets, *known, numerics=mode), log_z, **tolerance)
    if (log_z == -np.inf).any():
        for verb in (segment.marginals, segment.viterbi):
            with pytest.raises(InfeasibleSequenceError, match=f"Sequence {np.argmax(log_z == -np.inf)} "):
                verb(scores, offsets, *known)
        return
    found_log_z, found = segment.marginals(scores, offsets, *known, numerics=mode)
    assert_allclose(found_log_z, log_z, **tolerance)
    segments, moves = (
        np.concatenate(parts) for parts in zip(*(one.marginals() for one in truth), strict=True)
    )
    assert_allclose(found.segment, segments, atol=1e-9)
    assert_allclose(found.transition, moves if scores.transition.ndim == 3 else moves.sum(0), atol=1e-9)
    if scores.initial is not None:
        assert_allclose(found.initial, segments[offsets[:-1]].sum(axis=(0, 1)), atol=1e-9)
    if scores.final is not None:
        n_labels = scores.n_labels
        last = [
            sum(
                p
                for segments, p in zip(one.segmentations, one.probability, strict=True)
                if segments[-1][2] == u
            )
            for one in truth
            for u in range(n_labels)
        ]
        assert_allclose(found.final, np.reshape(last, (-1, n_labels)).sum(axis=0), atol=1e-9)

    codes, best = segment.viterbi(scores, offsets, *known)
    assert_allclose(best, [one.scores.max() for one in truth], **tolerance)
    assert_allclose(segment.score_of(scores, offsets, codes), best, **tolerance)
    ranked = segment.n_best(scores, offsets, 7, *known)
    for ((labels, ends), score), one, s in zip(ranked, truth, range(len(truth)), strict=True):
        expected = one.ranked()[:7]
        assert_allclose(score, [value for _, value in expected], **tolerance)
        given_codes = {(tuple(y), tuple(e)) for y, e in zip(labels.tolist(), ends.tolist(), strict=True)}
        assert len(given_codes) == len(expected)
        stop = np.arange(1, len(labels) + 1) * labels.shape[1]
        rows = slice(offsets[s], offsets[s + 1])
        repeated = SegmentScores(
            np.tile(scores.segment[rows], (len(labels), 1, 1)),
            np.tile(scores.transition[rows], (len(labels), 1, 1))
            if scores.transition.ndim == 3
            else scores.transition,
            scores.initial,
            scores.final,
        )
        of_codes = segment.score_of(repeated, np.append(0, stop), (labels.ravel(), ends.ravel()))
        assert_allclose(of_codes, score, **tolerance)


def worked():
    """The potentials of M1 to M3: six steps, three labels, segments of up to four steps."""
    i, d, s = np.ogrid[:6, 1:5, :3]
    t, u, v = np.ogrid[:6, :3, :3]
    return 0.6 * np.sin(1 + 2 * i + 3 * (i + d) + 5 * s) + 0.3 * np.log(d), 0.7 * np.sin(
        2 + 5 * t + 11 * u + 13 * v
    )


def no_self_transition(transition):
    changed = transition.copy()
    changed[:, range(3), range(3)] = -np.inf
    return changed


def known_of_m3():
    allowed, ends = np.ones((6, 3), dtype=bool), np.full(6, -1, dtype=np.int8)
    allowed[2] = [True, False, False]
    ends[3], ends[1] = 1, 0
    return allowed, ends


WORKED = {
    "M1": (8.803140119715, 3.572055321184, [(0, 3, 2), (3, 5, 1), (5, 6, 2)], 4.5721720458,
           [0.3791924624, 0.3213536701, 0.2341451038, 0.2901696859, 0.3606191952, 0.2300688511],
           [0.2929599570, 0.2621808681, 0.3251870963, 0.4213632017, 0.4079759672, 0.3507816336],
           [0.3102384564, 0.4014547264, 0.4374225063, 0.3282057668, 0.4187048667, 0.4583732313, 0.3615478546,
            0.4429459484, 0.4132786888]),
    "M2": (7.501706138216, 3.572055321184, [(0, 3, 2), (3, 5, 1), (5, 6, 2)], 4.2129843094,
           [0.3876679804, 0.3261173509, 0.2233585895, 0.3170939285, 0.4527229195, 0.2325593656],
           [0.2889139079, 0.2413088968, 0.2977539899, 0.4336515104, 0.3938048855, 0.3147945416],
           [0, 0.5292975059, 0.5793516275, 0.4690759939, 0, 0.5925677679, 0.4844645246, 0.5582268896, 0]),
    "M3": (5.216857715148, 1.625150879870, [(0, 1, 2), (1, 4, 0), (4, 6, 0)], 3.8921930232,
           [0.5175790700, 1, 1, 0.6775408684, 0.4088078110, 0.2714867789],
           [0.1926471033, 0, 0, 0.1667932155, 0.3639676800, 0.3492035181],
           [0.7504251136, 0.5039620846, 0.3895031051, 0.2907363740, 0.1532777565, 0.1758276141, 0.3566365247,
            0.1191583182, 0.1526661323]),
}  # fmt: skip


@pytest.mark.parametrize("mode", ("auto", "scaled", "log"))
@pytest.mark.parametrize("name", WORKED)
def test_worked_numbers(name, mode):
    log_z, best_score, best_segments, n_segments, zeros, ones, moves = WORKED[name]
    scores, transition = worked()
    scores = SegmentScores(scores, no_self_transition(transition) if name == "M2" else transition)
    known = known_of_m3() if name == "M3" else (None, None)
    assert_allclose(segment.log_partition(scores, [0, 6], *known, numerics=mode), log_z, atol=1e-8)
    found_log_z, found = segment.marginals(scores, [0, 6], *known, numerics=mode)
    assert_allclose(found_log_z, log_z, atol=1e-8)
    assert_allclose(found.segment.sum(), n_segments, atol=1e-8)
    assert_allclose(found.transition.sum(axis=0).ravel(), moves, atol=1e-8)
    covered = np.zeros((6, 3))
    for start in range(6):
        for d in range(4):
            covered[start : start + d + 1] += found.segment[start, d]
    assert_allclose(covered[:, 0], zeros, atol=1e-8)
    assert_allclose(covered[:, 1], ones, atol=1e-8)
    (labels, ends), score = segment.viterbi(scores, [0, 6], *known)
    assert_allclose(score, best_score, atol=1e-8)
    expected = EnumeratedSegments.codes(best_segments)
    assert (tuple(labels), tuple(ends)) == expected


@pytest.mark.parametrize("mode", ("scaled", "log"))
def test_segments_of_one_step_are_a_chain(mode, rng):
    unary, transition = rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    chains = ChainScores(unary, transition, [0.5, 0, 1], [0, 1, -1])
    segments = SegmentScores(unary[:, None], transition, chains.initial, chains.final)
    log_z, expected = chain.marginals(chains, [0, 4, 9])
    found_log_z, found = segment.marginals(segments, [0, 4, 9], numerics=mode)
    assert_allclose(found_log_z, log_z, rtol=1e-12)
    assert_allclose(found.segment[:, 0], expected.unary, atol=1e-12)
    assert_allclose(found.transition, expected.transition, atol=1e-12)
    (labels, ends), best = segment.viterbi(segments, [0, 4, 9])
    codes, best_of_chain = chain.viterbi(chains, [0, 4, 9])
    assert_array_equal(labels, codes)
    assert ends.all()
    assert_allclose(best, best_of_chain)


def test_marginals_are_the_gradient_of_log_partition(rng):
    offsets, shapes = [0, 3, 4], [(4, 2, 3), (3, 3), (3,), (3,)]
    splits = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def scores(vector):
        return SegmentScores(
            *(part.reshape(s) for part, s in zip(np.split(vector, splits), shapes, strict=True))
        )

    point = rng.normal(size=24 + 9 + 6)
    _, found = segment.marginals(scores(point), offsets)
    numeric = numerical_gradient(lambda v: segment.log_partition(scores(v), offsets).sum(), point)
    parts = (found.segment, found.transition, found.initial, found.final)
    assert_allclose(np.concatenate([part.ravel() for part in parts]), numeric, atol=1e-8)


@pytest.mark.parametrize("per_step", [-30.0, 0.3, 30.0])
def test_scores_that_grow_with_the_length_stay_in_scaled_masses(per_step, rng):
    """Log-densities summed over the steps of a segment: thousands of nats, of which only differences matter."""
    n_total, max_duration = 300, 40
    steps = per_step + rng.normal(size=(n_total, 3)) + 5 * np.sin(np.arange(n_total) / 20)[:, None]
    summed = np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])
    stop = np.minimum(np.arange(n_total)[:, None] + np.arange(1, max_duration + 1), n_total)
    scores = SegmentScores(summed[stop] - summed[:-1, None], rng.normal(size=(3, 3)))
    log_z, found = segment.marginals(scores, [0, 120, n_total], numerics="scaled")
    exact_log_z, exact = segment.marginals(scores, [0, 120, n_total], numerics="log")
    assert_allclose(log_z, exact_log_z, rtol=1e-12)
    assert_allclose(found.segment, exact.segment, atol=1e-9)


def test_samples_follow_the_distribution(rng):
    scores = SegmentScores(rng.normal(size=(3, 2, 2)), rng.normal(size=(2, 2)), [0.5, 0], [0, 1])
    (truth,) = enumerated(scores, [0, 3])
    draws = segment.sample(scores, [0, 3], n_samples=4000, random_state=0)
    names = [truth.codes(segments) for segments in truth.segmentations]
    counts = [0] * len(names)
    for labels, ends in draws:
        counts[names.index((tuple(labels), tuple(ends)))] += 1
    assert chisquare(counts, 4000 * truth.probability).pvalue > 1e-3
    allowed = np.array([[True, False], [True, True], [False, True]])
    labels, ends = segment.sample(scores, [0, 3], 1, 0, allowed, np.array([-1, 1, -1]))[0]
    assert (labels[0], labels[2], ends[1]) == (0, 1, True)


def test_ties_go_to_the_smallest_label_and_the_longest_segment_from_the_end():
    zeros = SegmentScores(np.zeros((5, 3, 2)), np.zeros((2, 2)))
    (labels, ends), _ = segment.viterbi(zeros, [0, 5])
    assert labels.tolist() == [0] * 5
    assert np.flatnonzero(ends).tolist() == [1, 4]
    rng = np.random.default_rng(1)
    for _ in range(50):
        scores = SegmentScores(rng.integers(0, 2, (5, 3, 2)), rng.integers(0, 2, (2, 2)))
        (labels, ends), _ = segment.viterbi(scores, [0, 5])
        (found, found_ends), _ = segment.n_best(scores, [0, 5], 3)[0]
        assert_array_equal(found[0], labels)
        assert_array_equal(found_ends[0], ends)


def test_all_segmentations_are_found_and_no_more():
    ((labels, ends), score), *_ = segment.n_best(
        SegmentScores(np.zeros((3, 3, 2)), np.zeros((2, 2))), [0, 3], 10**6
    )
    assert len(labels) == len(ends) == len(score) == 2 * 3**2


def test_inputs_are_read_only_and_untouched(rng):
    banded, transition = rng.normal(size=(4, 2, 2)), rng.normal(size=(4, 2, 2))
    for array in (banded, transition):
        array.flags.writeable = False
    scores, kept = SegmentScores(banded, transition, np.ones(2), np.ones(2)), banded.copy()
    allowed, ends = np.ones((4, 2), dtype=bool), np.full(4, -1, dtype=np.int8)
    for array in (allowed, ends):
        array.flags.writeable = False
    for verb in (segment.log_partition, segment.marginals, segment.viterbi):
        verb(scores, [0, 1, 4], allowed, ends)
    segment.n_best(scores, [0, 1, 4], 2, allowed, ends)
    segment.sample(scores, [0, 1, 4], allowed=allowed, ends=ends)
    assert_array_equal(banded, kept)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"segment": np.full((2, 1, 2), np.nan)}, r"segment\[0, 0, 0\] is nan"),
        (
            {"segment": np.zeros((2, 2))},
            r"segment has shape \(2, 2\); expected \(n_total, max_duration, n_labels\)",
        ),
        ({"transition": np.zeros((2, 3))}, r"transition has shape \(2, 3\); expected \(2, 2\)"),
        ({"transition": np.full((2, 2), np.inf)}, r"transition\[0, 0\] is inf"),
        ({"final": np.zeros(3)}, r"final has shape \(3,\); expected \(2,\)"),
        ({"offsets": [0, 3]}, "run from 0 to 2"),
        ({"offsets": [0, 2, 2]}, "Sequence 1 has no time steps"),
        ({"allowed": np.ones((2, 2))}, "expected bool"),
        ({"ends": np.array([0.0, 1.0])}, "ends has shape .* dtype float64; expected int8"),
        ({"ends": np.array([2, 1])}, "ends holds numbers other than"),
        ({"numerics": "float"}, "numerics is 'float'"),
    ],
)
def test_bad_arguments_are_named(change, message):
    given = {"segment": np.zeros((2, 2, 2)), "transition": np.zeros((2, 2)), "initial": None, "final": None}
    options = {"offsets": [0, 2], "allowed": None, "ends": None, "numerics": "auto"}
    given |= {k: v for k, v in change.items() if k in given}
    options |= {k: v for k, v in change.items() if k in options}
    with pytest.raises(ValueError, match=message):
        segment.marginals(SegmentScores(**given), **options)


@pytest.mark.parametrize(
    ("labels", "ends", "message"),
    [
        ([0, 0, 1], [False, False, True], r"labels changes after row 1, but ends\[1\] is False"),
        ([0, 0, 1], [False, True, False], "No segment ends with the last step of sequence 0"),
        ([0, 0, 2], [False, True, True], r"labels holds labels outside 0\.\.1"),
        ([0, 0, 1], [0, 1, 1], "ends has shape .* expected bool"),
    ],
)
def test_codes_that_are_no_segmentation_are_refused(labels, ends, message):
    with pytest.raises(ValueError, match=message):
        segment.score_of(SegmentScores(np.zeros((3, 2, 2)), np.zeros((2, 2))), [0, 3], (labels, ends))


def test_too_long_segments_score_minus_infinity():
    scores = SegmentScores(np.zeros((3, 2, 1)), np.zeros((1, 1)))
    assert segment.score_of(scores, [0, 3], ([0, 0, 0], np.array([False, False, True]))) == -np.inf


def test_infeasible_sequence_names_the_step():
    scores = SegmentScores(np.zeros((7, 2, 2)), np.full((2, 2), -np.inf))
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 1 .* time step 2"):
        segment.viterbi(scores, [0, 2, 7])
    free = SegmentScores(np.zeros((4, 2, 2)), np.zeros((2, 2)))
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 0 .* time step 3"):
        segment.n_best(free, [0, 4], 2, ends=np.array([-1, -1, -1, 0]))


def test_sums_beyond_double_precision_are_no_answer():
    large = SegmentScores(np.full((3, 1, 2), 1e308), np.zeros((2, 2)))
    with np.errstate(over="ignore", invalid="ignore"):
        for verb in (segment.viterbi, segment.marginals, lambda *a: segment.n_best(*a, 2)):
            with pytest.raises(ValueError, match="sum to more than double precision"):
                verb(large, [0, 3])
        with pytest.raises(ValueError, match="sum to more than double precision"):
            segment.score_of(large, [0, 3], ([0, 0, 0], np.array([True, True, True])))


def test_what_is_no_scores_is_refused():
    with pytest.raises(TypeError, match="scores is a ndarray; expected SegmentScores"):
        segment.viterbi(np.zeros((2, 2)), [0, 2])
    with pytest.raises(TypeError, match="segment holds complex numbers"):
        SegmentScores(np.zeros((2, 1, 2), dtype=complex), np.zeros((2, 2)))
