"""The linear-time engine of stacks against enumeration, and its certificate against what it should not pass."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedStacks
from scipy.special import logsumexp
from scipy.stats import chisquare

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import PackedStacks, StackLayout

NAMES = ("step", "start", "stop", "move", "enter", "leave", "first_child", "last_child", "duration", "tail")


class Structure(NamedTuple):
    n_states: tuple
    segment_level: int
    max_duration: int
    n_steps: int
    has_tail: bool = False
    persists: bool = False
    sparse: bool = False


STRUCTURES = {
    "chain": Structure((1, 3), 1, 1, 4),
    "chains of two roots": Structure((2, 2), 1, 1, 4),
    "segments": Structure((1, 2), 1, 3, 5),
    "segments with a tail": Structure((1, 2), 1, 2, 5, has_tail=True),
    "segments of two roots": Structure((2, 2), 1, 2, 4, has_tail=True),
    "collapsed": Structure((1, 2, 2), 2, 1, 4),
    "collapsed, sparse": Structure((1, 3, 3), 2, 1, 4, sparse=True),
    "collapsed, persisting": Structure((1, 2, 2), 2, 1, 4, has_tail=True),
    "bottom": Structure((1, 2, 2), 2, 2, 4),
    "middle": Structure((1, 2, 2), 1, 3, 4),
    "middle, sparse": Structure((1, 3, 3), 1, 2, 4, sparse=True),
    "middle with a tail": Structure((1, 2, 2), 1, 2, 5, has_tail=True),
    "middle, persisting": Structure((1, 2, 2), 1, 2, 4, has_tail=True, persists=True),
    "top": Structure((2, 2, 2), 0, 3, 3),
    "top with a tail": Structure((2, 1, 2), 0, 2, 4, has_tail=True, persists=True),
    "four levels": Structure((1, 2, 2, 2), 2, 2, 3, has_tail=True, persists=True),
    "four levels, second": Structure((1, 2, 1, 2), 1, 2, 4, has_tail=True),
}


@cache
def layout_of(structure):
    rng, children = np.random.default_rng(len(structure.n_states)), []
    for above, below in pairwise(structure.n_states):
        mask = np.ones((above, below), dtype=bool)
        if structure.sparse:
            mask = rng.random((above, below)) < 0.6
            mask[np.arange(above), np.arange(above) % below] = True
        children.append(mask)
    return StackLayout.of(structure.n_states[0], children)


@cache
def truth_of(structure, n_steps=None):
    """The enumeration of one sequence, shorter ones too."""
    n_steps = structure.n_steps if n_steps is None else n_steps
    return EnumeratedStacks(
        layout_of(structure), structure.segment_level, n_steps, structure.max_duration, structure.has_tail,
        structure.persists,
    )  # fmt: skip


def random_stacks(structure, rng, lengths=None, scale=1.0, per_row=True, edges=True, forbidden=0.0):
    """Scores of all kinds for a few sequences; those of edges belong to some of the first levels."""
    layout, m = layout_of(structure), structure.segment_level
    lengths = [structure.n_steps] if lengths is None else lengths
    n_rows = sum(lengths)
    some = n_rows if per_row else 1

    def scores(*shape):
        values = scale * rng.normal(size=shape)
        values[rng.random(shape) < forbidden] = -np.inf
        return values

    leaves = layout.level_slice(m)
    cut = rng.choice(layout.cut[1:], size=3)
    by_row = {}
    if edges:
        by_row = {"enter": scores(n_rows, cut[0]), "leave": scores(n_rows, cut[0])}
        by_row |= {"first_child": scores(n_rows, cut[1]), "last_child": scores(n_rows, cut[2])}
    if structure.has_tail:
        by_row["tail"] = scores(leaves.stop - leaves.start)
    return PackedStacks(
        layout,
        m,
        scores(n_rows, layout.n_stacks),
        scores(some, layout.n_prefixes),
        scores(some, layout.n_prefixes),
        scores(some, layout.n_moves),
        scores(some, structure.max_duration, leaves.stop - leaves.start),
        np.concatenate([[0], np.cumsum(lengths)]),
        persists=structure.persists,
        **by_row,
    )


def one(stacks, s):
    """Sequence ``s`` by itself."""
    rows = slice(*stacks.offsets[s : s + 2])
    own = {"offsets": np.array([0, rows.stop - rows.start]), "movers": stacks.movers[:, rows]}
    for name in NAMES[:-1]:
        values = getattr(stacks, name)
        own[name] = values[rows] if len(values) == len(stacks.step) else values
    return replace(stacks, **own)


def true_log_z(structure, stacks):
    with np.errstate(divide="ignore"):
        return np.array([
            logsumexp(truth_of(structure, int(n)).scores(one(stacks, s)))
            for s, n in enumerate(np.diff(stacks.offsets))
        ])  # fmt: skip


def true_shares(structure, stacks, weight):
    parts = [
        truth_of(structure, int(n)).shares(one(stacks, s), weight[s])
        for s, n in enumerate(np.diff(stacks.offsets))
    ]
    total = {}
    for name in NAMES:
        by_row = name != "tail" and len(getattr(stacks, name)) == len(stacks.step)
        values = [part[name] for part in parts]
        total[name] = np.concatenate(values) if by_row else sum(values)
    return total


def assert_right(structure, stacks, weight, numerics, size):
    log_z, shares, _ = stacks.forward_backward(weight, numerics)
    assert_allclose(log_z, true_log_z(structure, stacks), rtol=1e-11, atol=1e-13 * size)
    for name, expected in true_shares(structure, stacks, weight).items():
        assert_allclose(getattr(shares, name), expected, atol=1e-8, err_msg=f"shares of {name} scores")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("name", STRUCTURES)
def test_sums_and_probabilities_match_enumeration(name, scale):
    structure, rng = STRUCTURES[name], np.random.default_rng(len(name))
    lengths = [structure.n_steps, 1, structure.n_steps - 1]
    weight = np.array([1.0, 0.5, 2.0])
    for per_row, edges in ((True, True), (True, False), (False, True), (False, False)):
        stacks = random_stacks(structure, rng, lengths, scale, per_row, edges)
        for numerics in ("auto", "log"):
            assert_right(structure, stacks, weight, numerics, 100 * scale)
            assert_allclose(stacks.log_partition(numerics), true_log_z(structure, stacks), rtol=1e-11)
        try:
            assert_right(structure, stacks, weight, "scaled", 100 * scale)
        except FloatingPointError:
            assert scale > 1.0, "ordinary scores stay in scaled masses"


@st.composite
def problems(draw):
    name = draw(st.sampled_from(sorted(STRUCTURES)))
    structure, rng = STRUCTURES[name], np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1e-3, 1.0, 30.0, 300.0, 1e3]))
    forbidden = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    stacks = random_stacks(structure, rng, None, scale, draw(st.booleans()), draw(st.booleans()), forbidden)
    if draw(st.booleans()):  # what may move at each boundary
        n_levels, n_steps = len(structure.n_states), structure.n_steps
        one_way = rng.integers(1, n_levels + 1, size=n_steps)
        lowest = np.where(rng.random(n_steps) < 0.3, one_way, 1)
        highest = np.where(rng.random(n_steps) < 0.3, np.maximum(one_way, lowest), n_levels)
        stacks = replace(stacks, movers=np.array([lowest, highest], dtype=np.int8))
    return structure, stacks, scale


@settings(max_examples=120)
@given(problems())
def test_every_verb_matches_enumeration(problem):
    structure, stacks, scale = problem
    truth = truth_of(structure)
    scores, weight = truth.scores(stacks), np.ones(1)
    if scores.max() == -np.inf:
        assert_array_equal(stacks.log_partition("auto"), [-np.inf])
        for verb in (stacks.viterbi, lambda: stacks.sample(1, 0)):
            with pytest.raises(InfeasibleSequenceError):
                verb()
        return
    for numerics in ("auto", "log"):
        assert_right(structure, stacks, weight, numerics, 100 * scale)
    codes, ends, best = stacks.viterbi()
    assert_allclose(best, scores.max(), rtol=1e-12, atol=1e-13 * scale)
    found = truth.configurations.index((tuple(codes), tuple(ends)))
    assert_allclose(scores[found], scores.max(), rtol=1e-12, atol=1e-12 * scale)
    assert_allclose(stacks.score_of(codes, ends), best, rtol=1e-12, atol=1e-12 * scale)
    for codes, ends in stacks.sample(3, 0):
        assert scores[truth.configurations.index((tuple(codes), tuple(ends)))] > -np.inf


@pytest.mark.parametrize("name", STRUCTURES)
def test_score_of_any_configuration(name, rng):
    structure = STRUCTURES[name]
    stacks, truth = random_stacks(structure, rng, forbidden=0.05), truth_of(structure)
    scores = truth.scores(stacks)
    for k in rng.integers(len(scores), size=20):
        codes, ends = map(np.array, truth.configurations[k])
        assert_allclose(stacks.score_of(codes, ends), scores[k], rtol=1e-12)


@pytest.mark.parametrize("name", STRUCTURES)
def test_narrowed_sums_what_agrees_with_what_is_known(name, rng):
    structure = STRUCTURES[name]
    n_levels, truth = len(structure.n_states), truth_of(structure)
    configurations = np.array(truth.configurations)
    for _ in range(10):
        stacks = random_stacks(structure, rng)
        allowed = rng.random(stacks.step.shape) < 0.8
        # ends as some configuration has them, and unknown in many places
        highest = configurations[rng.integers(len(configurations)), 1]
        ends = (highest <= np.arange(n_levels)[:, None]).astype(np.int8)
        ends[rng.random(ends.shape) < 0.6] = -1
        fits = allowed[np.arange(structure.n_steps), configurations[:, 0]].all(axis=1)
        of_all = configurations[:, 1, None, :] <= np.arange(n_levels)[:, None]
        fits &= ((ends == -1) | (of_all == ends))[:, :, :-1].all(axis=(1, 2))
        with np.errstate(divide="ignore"):
            expected = logsumexp(np.where(fits, truth.scores(stacks), -np.inf))
        narrow = stacks.narrowed(allowed, ends)
        for numerics in ("auto", "log"):
            assert_allclose(narrow.log_partition(numerics), expected, rtol=1e-11)
        twice = stacks.narrowed(allowed, None).narrowed(None, ends)
        assert_allclose(twice.log_partition("log"), expected, rtol=1e-11)


def test_samples_follow_the_distribution(rng):
    for name in ("segments with a tail", "middle, persisting"):
        structure = STRUCTURES[name]._replace(n_steps=3)
        stacks, truth = random_stacks(structure, rng), truth_of(structure)
        scores = truth.scores(stacks)
        expected = np.exp(scores - logsumexp(scores))
        counts = np.zeros(len(expected))
        for codes, ends in stacks.sample(4000, 0):
            counts[truth.configurations.index((tuple(codes), tuple(ends)))] += 1
        rare = 4000 * expected < 5
        counts, expected = (np.append(v[~rare], v[rare].sum()) for v in (counts, expected))
        assert chisquare(counts, 4000 * expected).pvalue > 1e-3


@pytest.mark.parametrize("name", ["segments", "collapsed", "top with a tail"])
def test_ties_are_broken_in_one_way(name):
    """Of all equal configurations always the same one: the first stack, and the longest segments, from the end."""
    structure = STRUCTURES[name]
    zeros = random_stacks(structure, np.random.default_rng(0), scale=0.0)
    codes, ends, best = zeros.viterbi()
    assert best == 0
    assert codes.tolist() == [0] * structure.n_steps
    segments = np.flatnonzero(ends <= structure.segment_level)
    longest = structure.n_steps if structure.has_tail else structure.max_duration
    assert segments.tolist() == list(range(structure.n_steps - 1, -1, -longest))[::-1]


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("name", ["chain", "segments", "segments with a tail"])
def test_n_best_matches_enumeration(name, distinct, rng):
    structure = STRUCTURES[name]
    truth = truth_of(structure)
    for trial in range(16):
        stacks = random_stacks(structure, rng, per_row=trial % 2 == 0, edges=trial % 3 == 0, forbidden=0.05)
        if trial % 4 == 0:
            ends = np.full((2, structure.n_steps), -1, dtype=np.int8)
            ends[1, rng.integers(structure.n_steps - 1)] = (
                rng.integers(2) if structure.max_duration > 1 else 1
            )
            stacks = stacks.narrowed(rng.random(stacks.step.shape) < 0.9, ends)
        ranked = {}
        scores = truth.scores(stacks)
        for k in np.argsort(-scores, kind="stable"):
            if scores[k] > -np.inf:
                codes, ends = truth.configurations[k]
                ranked.setdefault(codes if distinct else (codes, ends), (codes, ends, scores[k]))
        if not ranked:
            with pytest.raises(InfeasibleSequenceError):
                stacks.n_best(4, distinct)
            continue
        for n in (1, 4, 2000):
            ((labels, ends, found),) = stacks.n_best(n, distinct)
            expected = list(ranked.values())[:n]
            assert_allclose(found, [score for *_, score in expected], rtol=1e-11, atol=1e-12)
            assert len(
                {(tuple(y), () if distinct else tuple(e)) for y, e in zip(labels, ends, strict=True)}
            ) == len(found)
            for y, e, score in zip(labels, ends, found, strict=True):
                highest = np.where(e, 1, 2)
                highest[-1] = 0
                assert_allclose(stacks.score_of(y, highest), score, rtol=1e-11, atol=1e-12)


def test_n_best_of_many_equal_segmentations_finds_distinct_labels():
    """Two hundred steps of one label have 2**199 segmentations: their number must not hide the next labels."""
    structure = Structure((1, 2), 1, 1, 200, has_tail=True)
    stacks = random_stacks(structure, np.random.default_rng(0), scale=0.0)
    stacks = replace(stacks, step=stacks.step - np.arange(2))
    ((labels, _, scores),) = stacks.n_best(3, distinct=True)
    assert scores.tolist() == [0, -1, -1]
    assert labels.sum(axis=1).tolist() == [0, 1, 1]


def test_n_best_takes_one_level(rng):
    with pytest.raises(ValueError, match="one level of segments under one root"):
        random_stacks(STRUCTURES["collapsed"], rng).n_best(2)


@pytest.mark.parametrize(
    "structure",
    [Structure((1, 3), 1, 5, 0, has_tail=True), Structure((1, 2, 3), 2, 1, 0, has_tail=True),
     Structure((1, 2, 2), 1, 3, 0, has_tail=True)],
)  # fmt: skip
def test_long_sequences_stay_in_scaled_masses(structure, rng):
    n_steps = 20_000 if structure.segment_level == len(structure.n_states) - 1 else 3000
    stacks = random_stacks(structure, rng, [n_steps, 50], per_row=False, edges=False)
    log_z, shares, _ = stacks.forward_backward(numerics="scaled")
    exact_log_z, exact, _ = stacks.forward_backward(numerics="log")
    assert_allclose(log_z, exact_log_z, rtol=1e-12)
    for name in NAMES:
        # it is the log domain whose rounding grows with the length
        assert_allclose(getattr(shares, name), getattr(exact, name), rtol=1e-6, atol=1e-6)
    assert_allclose(shares.step.sum(axis=1), 1, rtol=1e-9)


def test_probabilities_of_one_step_keep_their_digits(rng):
    # down to the least mass that is not rounded to nothing; 37 stacks leave a remainder for any vector width
    layout = StackLayout.of(1, [np.ones((1, 37), dtype=bool)])
    scores = rng.uniform(-680, 0, (1, 37))
    model = PackedStacks(
        layout, 1, scores, np.zeros((1, 38)), np.zeros((1, 38)), np.zeros((1, 37 * 37)), np.zeros((1, 1, 37)),
        np.array([0, 1]),
    )  # fmt: skip
    log_z, shares, _ = model.forward_backward(numerics="scaled")
    assert_allclose(log_z, logsumexp(scores), rtol=1e-15)
    masses = np.exp(scores - scores.max())
    assert_allclose(shares.step, masses / masses.sum(), rtol=2e-15)


def test_durations_may_move_to_steps(rng):
    """``levelled`` changes no sum and no probability, exactly."""
    structure = Structure((1, 3), 1, 30, 0)
    stacks = random_stacks(structure, rng, [60, 1, 40])
    far = stacks.duration - 20.0 * np.arange(1, 31)[:, None]
    far[7:9] = -np.inf
    stacks = replace(stacks, duration=far)
    levelled = stacks.levelled()
    assert levelled.step.max() < -10
    log_z, shares, _ = stacks.forward_backward(numerics="log")
    found_log_z, found, _ = levelled.forward_backward(numerics="scaled")
    assert_allclose(found_log_z, log_z, rtol=1e-12)
    for name in NAMES:
        assert_allclose(getattr(found, name), getattr(shares, name), atol=1e-10)


# What scaled masses lose although it matters. Each case is (structure, n_steps, what to change in scores of zeros).


def comes_back(zeros):
    """The second root is hopeless, then so much better that it wins, then as bad again; both ends are lost."""
    step = zeros.step.copy()
    step[1:7, 1] = [-800, 400, 400, 400, 430, -800]
    return replace(zeros, step=step)


def comes_back_slowly(zeros):
    step = zeros.step.copy()
    step[:, 1] = np.repeat([-5.0, 5.0, -5.0], [150, 300, 150])
    return replace(zeros, step=step)


def survives_alone(zeros):
    """300 steps at -5 nats each, then the other root may not go on."""
    step = zeros.step.copy()
    step[:300, 1] = -5
    step[300:, 0] = -np.inf
    return replace(zeros, step=step)


def pays_for_a_move(zeros):
    """Leaving is too small for a double, moving makes up for it."""
    edge = np.zeros((len(zeros.step), 3))
    leave = edge.copy()
    leave[:, 1] = -680
    move, duration = np.full((1, 4), -np.inf), np.zeros((1, 2, 2))
    move[0, 1] = 500
    duration[0, 1] = -310
    return replace(zeros, enter=edge, leave=leave, move=move, duration=duration)


def pays_with_a_duration(zeros):
    step, duration = zeros.step.copy(), np.zeros((1, 2, 2))
    step[0, 1], step[:, 0] = -780, -210
    duration[0, :, 1] = 590
    return replace(zeros, step=step, duration=duration)


def gains_between_two_losses(zeros):
    """Segments of the second label lose 750 nats each, moves between them gain 1500."""
    duration, edge = np.zeros((1, 2, 2)), np.zeros((len(zeros.step), 3))
    duration[0, :, 1] = -750
    move = np.full((1, 4), -np.inf)
    move[0, 3] = 500
    edge[:, 2] = 500
    return replace(zeros, duration=duration, move=move, enter=edge, leave=edge)


def sinks_in_a_move(zeros):
    """The first step is lost forward; what follows the move is lost backward, before the gains in between."""
    step, move, duration = zeros.step.copy(), np.full((1, 4), -np.inf), np.full((2, 2, 2), -np.inf)
    edge = np.zeros((2, 3))
    leave = edge.copy()
    step[0, 0], leave[0, 1], move[0, 1] = -800, 590, -600
    duration[0, 0, 0], duration[1, 0, 1], duration[0, 1, 1] = 590, -200, -500
    return replace(zeros, step=step, enter=edge, leave=leave, move=move, duration=duration)


def cannot_be_reached(zeros):
    """A likely segment into which no move leads, beside an improbable one."""
    move, duration, start = np.full((1, 4), -np.inf), np.zeros((2, 2, 2)), zeros.start.copy()
    move[0, 0], start[0, 2] = -500, -np.inf
    duration[:, :, 1] = 590
    duration[0, 1] = -np.inf
    return replace(zeros, start=start, move=move, duration=duration)


def waits_for_a_minimum(zeros):
    """Segments may not end within 40 steps, and those that will last are hopeless for 30 of them."""
    duration, step = np.zeros((1, 60, 2)), zeros.step.copy()
    duration[0, :40] = -np.inf
    duration[0, 40:, 0] = -np.inf
    step[:30, 1] = -40
    return replace(zeros, step=step, duration=duration)


def one_bad_step(zeros):
    step = zeros.step.copy()
    step[10, 1] = -800
    step[30, 0] = -np.inf
    return replace(zeros, step=step)


def ends_badly(zeros):
    """What is likely until the end may not end there."""
    stop = zeros.stop.copy()
    stop[0, zeros.layout.cut[-2] :: 2] = -np.inf
    step = zeros.step.copy()
    step[:, 1::2] = -100
    return replace(zeros, step=step, stop=stop, move=np.full_like(zeros.move, -600.0))


TRAPS = [
    (comes_back, Structure((2, 1), 1, 1, 8)),
    (comes_back, Structure((2, 1), 0, 8, 8)),
    (comes_back, Structure((2, 1), 0, 2, 8, has_tail=True)),
    (comes_back, Structure((2, 1, 1), 0, 3, 8, has_tail=True, persists=True)),
    (comes_back, Structure((2, 1, 1), 1, 2, 8, has_tail=True)),
    (comes_back_slowly, Structure((2, 1), 1, 1, 600)),
    (comes_back_slowly, Structure((2, 1, 1), 2, 1, 600)),
    (comes_back_slowly, Structure((2, 1), 0, 5, 600, has_tail=True)),
    (survives_alone, Structure((2, 1), 1, 1, 301)),
    (survives_alone, Structure((2, 1), 0, 10, 301, has_tail=True)),
    (survives_alone, Structure((2, 1, 1), 1, 3, 301, has_tail=True)),
    (pays_for_a_move, Structure((1, 2), 1, 2, 2)),
    (pays_with_a_duration, Structure((1, 2), 1, 2, 2)),
    (gains_between_two_losses, Structure((1, 2), 1, 2, 2)),
    (sinks_in_a_move, Structure((1, 2), 1, 2, 2)),
    (cannot_be_reached, Structure((1, 2), 1, 2, 2)),
    (waits_for_a_minimum, Structure((1, 2), 1, 60, 60)),
    (one_bad_step, Structure((2, 1), 1, 1, 40)),
    (one_bad_step, Structure((2, 1), 1, 4, 40, has_tail=True)),
    (ends_badly, Structure((1, 2), 1, 1, 20)),
    (ends_badly, Structure((1, 2, 2), 2, 1, 20)),
    (ends_badly, Structure((1, 2), 1, 4, 20, has_tail=True)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("trap", "structure"), TRAPS, ids=[f"{trap.__name__}-{k}" for k, (trap, _) in enumerate(TRAPS)]
)
def test_certificate_is_not_fooled(trap, structure):
    zeros = random_stacks(structure, np.random.default_rng(0), scale=0.0, per_row=False, edges=False)
    stacks = trap(zeros)
    exact_log_z, exact, _ = stacks.forward_backward(numerics="log")
    assert exact_log_z > -np.inf
    log_z, shares, _ = stacks.forward_backward(numerics="auto")
    assert_allclose(log_z, exact_log_z, rtol=1e-11, atol=1e-9)
    for name in NAMES:
        assert_allclose(getattr(shares, name), getattr(exact, name), atol=1e-8)
    try:
        assert_allclose(stacks.log_partition("scaled"), exact_log_z, rtol=1e-11, atol=1e-9)
    except FloatingPointError as error:
        assert "Sequence 0 leaves the range of scaled masses" in str(error)


def test_certificate_on_random_windows_of_gain_and_loss():
    """No move between the stacks, or dear ones, and each of them far ahead or behind for a while."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        structure = [
            Structure((2, 2), 1, 1, 0), Structure((2, 2), 1, 3, 0, has_tail=True),
            Structure((2, 1), 0, 5, 0, has_tail=True), Structure((2, 2, 2), 2, 1, 0),
            Structure((2, 2, 2), 1, 4, 0, has_tail=True, persists=True), Structure((1, 3), 1, 10, 0),
        ][rng.integers(6)]  # fmt: skip
        n_steps = int(rng.integers(20, 150))
        stacks = random_stacks(structure, rng, [n_steps], per_row=False, edges=False)
        step = stacks.step.copy()
        for _ in range(rng.integers(1, 8)):
            a, b = np.sort(rng.integers(0, n_steps + 1, size=2))
            step[a:b, rng.integers(step.shape[1])] += rng.choice([-1, 1]) * rng.choice([5, 20, 100, 300])
        move = stacks.move - rng.choice([0, 20, 200, 500])
        move[rng.random(move.shape) < rng.choice([0, 0.3, 0.6])] = -np.inf
        stacks = replace(stacks, step=step, move=move)
        exact_log_z, exact, _ = stacks.forward_backward(numerics="log")
        log_z, shares, _ = stacks.forward_backward(numerics="auto")
        assert_allclose(log_z, exact_log_z, rtol=1e-11, atol=1e-9)
        if exact_log_z == -np.inf:
            continue
        for name in NAMES:
            # the log domain itself is right to the rounding of sums of this size
            tolerance = 1e-8 + 1e-15 * n_steps * max(1, abs(exact_log_z[0]))
            assert_allclose(getattr(shares, name), getattr(exact, name), atol=tolerance)


def test_what_is_merely_improbable_stays_in_scaled_masses(rng):
    """A label that fits badly for long is no reason for the log domain."""
    structure = Structure((1, 3), 1, 20, 0, has_tail=True)
    stacks = random_stacks(structure, rng, [400], per_row=False, edges=False)
    step = stacks.step.copy()
    step[50:350, 0] -= 40.0
    step[100, 1] -= 1000.0
    stacks = replace(stacks, step=step)
    log_z, _, n_redone = stacks.forward_backward()
    assert n_redone == 0
    assert_allclose(log_z, stacks.log_partition("log"), rtol=1e-12)


@pytest.mark.parametrize("number", [0, 14])
def test_sequences_without_weight_are_certified_too(number):
    trap, structure = TRAPS[number]
    zeros = random_stacks(structure, np.random.default_rng(0), scale=0.0, per_row=False, edges=False)
    stacks = trap(zeros)
    log_z, shares, n_redone = stacks.forward_backward(np.zeros(1))
    assert n_redone == 1
    assert_allclose(log_z, stacks.log_partition("log"), rtol=1e-12)
    assert not shares.step.any()


def test_one_uncertified_sequence_leaves_the_others_alone(rng):
    structure = Structure((2, 1), 1, 1, 8)
    zeros = random_stacks(structure, rng, scale=0.0, per_row=False, edges=False)
    bad = comes_back(zeros).step
    stacks = replace(
        zeros,
        step=np.concatenate([rng.normal(size=(8, 2)), bad, rng.normal(size=(8, 2))]),
        offsets=np.arange(0, 25, 8),
    )
    weight = np.array([1.0, 2.0, 0.5])
    log_z, shares, n_redone = stacks.forward_backward(weight)
    assert n_redone == 1
    assert_allclose(log_z, true_log_z(structure, stacks), rtol=1e-12)
    for name, expected in true_shares(structure, stacks, weight).items():
        assert_allclose(getattr(shares, name), expected, atol=1e-9)


def test_infeasible_sequences_name_the_step(rng):
    structure = STRUCTURES["segments"]
    stacks = random_stacks(structure, rng, [3, 5])
    step = stacks.step.copy()
    step[5] = -np.inf
    broken = replace(stacks, step=step, first=7)
    assert_array_equal(broken.log_partition() == -np.inf, [False, True])
    assert broken.first_unexplained(1) == 2
    for verb in (broken.viterbi, lambda: broken.sample(1, 0), lambda: broken.n_best(2)):
        with pytest.raises(
            InfeasibleSequenceError, match=r"Sequence 8 has no feasible .* covers time step 2\."
        ):
            verb()
    never_ends = replace(stacks, stop=np.full_like(stacks.stop, -np.inf))
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 0 .* covers time step 2\."):
        never_ends.viterbi()


def test_sums_beyond_double_precision_are_refused(rng):
    stacks = random_stacks(STRUCTURES["segments"], rng, [3, 5])
    huge = replace(stacks, step=np.full_like(stacks.step, 1e308))
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match="sum to more than"):
        huge.viterbi()


@pytest.mark.parametrize("name", ["step", "start", "stop", "move", "enter", "leave", "duration", "tail"])
def test_shapes_that_do_not_fit_never_reach_a_kernel(name, rng):
    stacks = random_stacks(STRUCTURES["middle with a tail"], rng)
    with pytest.raises(ValueError, match=r"scores have shape|offsets end at"):
        replace(stacks, **{name: getattr(stacks, name)[..., :-1] if name != "tail" else np.zeros(7)})
