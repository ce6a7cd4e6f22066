"""Hierarchies of segments against enumeration, worked numbers, chains and their own certificate."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedHierarchy, all_below, numerical_gradient
from random_hierarchies import additive
from scipy.stats import chisquare
from worked_hierarchies import WORKED_INPUTS, WORKED_RESULTS, worked_potentials

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import ChainScores, HierarchyScores, NestedSegments, chain, hierarchy

PARTS = ("persistence", "initialisation", "transition", "ending")
INF = np.inf


def worked(name):
    """Scores, allowed and ends of a worked model."""
    sizes, n_timesteps, arguments, _ = WORKED_INPUTS[name]
    scores = HierarchyScores(*worked_potentials(sizes, n_timesteps, **arguments))
    if name != "W7":
        return scores, None, None
    allowed = [None, np.ones((5, 2), dtype=bool), np.ones((5, 3), dtype=bool)]
    allowed[1][1], allowed[2][3] = [True, False], [False, True, False]
    ends = np.full((3, 5), -1, dtype=np.int8)
    ends[1, 2] = 1
    return scores, allowed, ends


def assert_same(found, expected, **tolerance):
    for name in PARTS:
        pairs = zip(getattr(found, name), getattr(expected, name), strict=True)
        for d, (actual, desired) in enumerate(pairs):
            assert_allclose(actual, desired, err_msg=f"{name}[{d}]", **tolerance)


def numbers(name, key):
    """The numbers of one entry in the table of a worked model."""
    text = WORKED_RESULTS[name]
    entry = re.search(rf"(?:^|;) *(?:map )?{re.escape(key)} *[:=]([-\d.\s]+)", text, re.MULTILINE)
    return np.array(entry[1].split(), dtype=float)


@pytest.mark.parametrize("numerics", ["scaled", "log"])
@pytest.mark.parametrize("name", WORKED_INPUTS)
def test_worked_numbers(name, numerics):
    scores, allowed, ends = worked(name)
    known = {"allowed": [allowed], "ends": [ends]}
    (log_z,), (found,) = hierarchy.marginals([scores], **known, numerics=numerics)
    tight = {"rtol": 0, "atol": 1e-9}
    assert_allclose(log_z, numbers(name, "log_z")[0], **tight)
    assert_allclose(hierarchy.log_partition([scores], **known, numerics=numerics), log_z, **tight)
    segments = [values.sum() for values in found.persistence]
    assert_allclose(segments, numbers(name, "n_segments"), **tight)
    ((x, e),), (best,) = hierarchy.viterbi([scores], **known)
    assert_allclose(best, numbers(name, "best")[0], **tight)
    packed = NestedSegments(*_banded(scores))
    _, marginals = packed.narrowed(allowed, ends).forward_backward(numerics)
    assert marginals.redone == (numerics == "log")
    for key in re.findall(r"^ *([xe]\[\d\]=\d|(?:A|PI|E)\[\d\]):", WORKED_RESULTS[name], re.MULTILINE):
        kind, d, state = re.match(r"(\w+)\[(\d)\](?:=(\d))?", key).groups()
        d = int(d)
        if kind == "x":
            actual = marginals.state[d][:, int(state)]
        elif kind == "e":
            actual = marginals.ends[d]
        else:
            lists = {"A": (found.transition, d - 1), "PI": (found.initialisation, d), "E": (found.ending, d)}
            part, level = lists[kind]
            actual = part[level].sum(axis=0).ravel()
        assert_allclose(actual, numbers(name, key), err_msg=key, **tight)
    for d in range(scores.n_levels):
        assert_array_equal(x[d], numbers(name, f"x[{d}]"))
        if d:
            assert_array_equal(e[d], numbers(name, f"e[{d}]"))


@pytest.mark.parametrize("name", WORKED_INPUTS)
def test_worked_models_have_the_stated_number_of_configurations(name):
    scores, allowed, ends = worked(name)
    longest = None if name == "W6" else [scores.n_timesteps] * (scores.n_levels - 2) + [1]
    lists = [getattr(scores, part) for part in PARTS]
    truth = EnumeratedHierarchy(*lists, allowed=allowed, ends=ends, longest=longest)
    assert np.isfinite(truth.scores).sum() == WORKED_INPUTS[name][3]
    assert_allclose(truth.log_partition, numbers(name, "log_z")[0], atol=1e-11)


def test_large_scores_are_flagged_and_redone():
    small = worked("W3")[0]
    scores = HierarchyScores(*([1000 * a for a in getattr(small, part)] for part in PARTS))
    assert_allclose(hierarchy.log_partition([scores]), 1819.479808912, rtol=1e-12)
    (log_z,), (found,) = hierarchy.marginals([scores])
    assert_allclose(log_z, 1819.479808912, rtol=1e-12)
    assert_same(found, hierarchy.marginals([scores], numerics="log")[1][0], atol=0)
    ((x, e),), (best,) = hierarchy.viterbi([scores])
    assert_allclose(best, 1819.479808912, rtol=1e-12)
    assert_array_equal(x, hierarchy.viterbi([small])[0][0][0])
    assert_array_equal(e, hierarchy.viterbi([small])[0][0][1])
    for verb in (hierarchy.log_partition, hierarchy.marginals):
        with pytest.raises(FloatingPointError, match="sequence 0 left the range"):
            verb([scores], numerics="scaled")


# sizes, time steps, whether bottom segments may be longer than a step: up to 4,000 configurations
SHAPES = [
    ((2, 3), 4, False), ((1, 4), 5, False), ((2, 2), 1, False), ((1, 2), 5, True), ((1, 1), 3, True),
    ((1, 2, 3), 4, False), ((2, 2, 2), 3, False), ((1, 3, 2), 4, False), ((1, 2, 2), 4, True), ((2, 1, 2), 1, False),
    ((1, 1, 2), 5, False), ((1, 2, 2, 2), 3, False), ((2, 1, 2, 2), 3, False), ((1, 2, 1, 2), 3, True),
    ((1, 1, 1, 1), 4, True), ((1, 2, 2, 2), 2, True),
]  # fmt: skip


@st.composite
def models(draw):
    """Scores of one sequence with ties, forbidden things and what is known; and the oracle's durations."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes, n_timesteps, bottom_persists = draw(st.sampled_from(SHAPES))
    scale = draw(st.sampled_from([1e-3, 1.0, 1.0, 30.0, 100.0, 250.0, 1e3]))
    forbidden = draw(st.sampled_from([0.0, 0.0, 0.1, 0.3]))
    ties = draw(st.booleans())
    longest = [draw(st.sampled_from([n_timesteps, 1, 2, 3])) for _ in sizes[1:]]
    if not bottom_persists:
        longest[-1] = 1

    def values(*shape, forbidden=forbidden):
        drawn = rng.normal(size=shape)
        drawn = (np.round(drawn) if ties else drawn) * scale
        drawn[rng.random(shape) < forbidden] = -INF
        return drawn

    persistence = [values(n_timesteps, n_timesteps + 1, n) for n in sizes]
    i, j = np.arange(n_timesteps)[:, None], np.arange(n_timesteps + 1)
    for d, limit in enumerate(longest, start=1):
        persistence[d][j - i > limit] = -INF
        persistence[d][j <= i] = np.nan  # never read
    persistence[0][0, n_timesteps] = values(sizes[0], forbidden=0.0)
    initialisation, transition, ending = [], [], []
    for n, m in pairwise(sizes):
        children = rng.random((n, m)) < draw(st.sampled_from([1.0, 1.0, 0.7]))  # shared children
        initialisation.append(np.where(children, values(n_timesteps, n, m), -INF))
        ending.append(np.where(children, values(n_timesteps, n, m), -INF))
        both = children[:, :, None] & children[:, None, :]
        transition.append(np.where(both, values(n_timesteps, n, m, m), -INF))
        transition[-1][0] = np.nan  # never read
    allowed = ends = None
    if draw(st.booleans()):
        allowed = [rng.random((n_timesteps, n)) < 0.8 if draw(st.booleans()) else None for n in sizes]
    if draw(st.booleans()):
        shape, share = (len(sizes), n_timesteps), draw(st.sampled_from([0.1, 0.4]))
        ends = np.where(rng.random(shape) < share, rng.integers(0, 2, shape), -1).astype(np.int8)
    scores = HierarchyScores(persistence, initialisation, transition, ending)
    return scores, allowed, ends, longest, scale, ties


def _banded(scores):
    """The arguments of ``NestedSegments``."""
    n_timesteps = scores.n_timesteps
    bands = [scores.persistence[0][0, n_timesteps]]
    for values in scores.persistence[1:]:
        band = np.full((n_timesteps, n_timesteps, values.shape[2]), -INF)
        for i in range(n_timesteps):
            band[i, : n_timesteps - i] = values[i, i + 1 :]
        bands.append(band)
    transition = [values.copy() for values in scores.transition]
    for values in transition:
        values[0] = 0
    return bands, scores.initialisation, transition, scores.ending


@settings(max_examples=150)
@given(models())
def test_every_verb_matches_enumeration(model):
    scores, allowed, ends, longest, scale, ties = model
    lists = [getattr(scores, part) for part in PARTS]
    truth = EnumeratedHierarchy(*lists, allowed=allowed, ends=ends, longest=longest)
    known = {"allowed": [allowed], "ends": [ends]}
    if (truth.scores == -INF).all():
        assert hierarchy.log_partition([scores], **known) == [-INF]
        assert hierarchy.log_partition([scores], **known, numerics="scaled") == [-INF]
        for verb in (hierarchy.marginals, hierarchy.viterbi, hierarchy.sample):
            with pytest.raises(InfeasibleSequenceError, match=r"Sequence 0 .* level \d"):
                verb([scores], **known)
        return
    close = {"rtol": 1e-12, "atol": 1e-12 * max(scale, 1.0) * scores.n_timesteps}
    expected = HierarchyScores(*truth.marginals())
    for numerics in ("auto", "log"):
        (log_z,), (found,) = hierarchy.marginals([scores], **known, numerics=numerics)
        assert_allclose(log_z, truth.log_partition, **close)
        assert_same(found, expected, rtol=0, atol=1e-10)
        assert_allclose(
            hierarchy.log_partition([scores], **known, numerics=numerics), truth.log_partition, **close
        )
    x, e, best = truth.best()
    ((found_x, found_e),), (score,) = hierarchy.viterbi([scores], **known)
    assert_allclose(score, best, **close)
    assert_allclose(hierarchy.score_of([scores], [(found_x, found_e)]), best, **close)
    if not ties or scale == 1.0:  # sums of whole numbers are exact, so that ties are ties
        assert_array_equal(found_x, x)
        assert_array_equal(found_e, e)
    configurations = {(x.tobytes(), e.tobytes()) for x, e in zip(*_feasible(truth), strict=True)}
    for ((x, e),) in hierarchy.sample([scores], 3, 0, **known):
        assert (x.astype(int).tobytes(), e.astype(int).tobytes()) in configurations
        assert np.isfinite(hierarchy.score_of([scores], [(x, e)])).all()


def _feasible(truth):
    feasible = truth.scores > -INF
    return truth.x[feasible], truth.e[feasible]


@settings(max_examples=40)
@given(models())
def test_marginals_agree_with_each_other(model):
    scores, allowed, ends, longest, _, _ = model
    packed = NestedSegments(*_banded(scores)).narrowed(allowed, ends)
    if packed.log_partition() == -INF:
        return
    lists = [getattr(scores, part) for part in PARTS]
    truth = EnumeratedHierarchy(*lists, allowed=allowed, ends=ends, longest=longest)
    for numerics in ("auto", "log"):
        _, found = packed.forward_backward(numerics)
        for d, state in enumerate(found.state):
            assert_allclose(state.sum(axis=1), 1, atol=1e-10)
            of_state = truth.x[:, d, :, None] == np.arange(state.shape[1])
            assert_allclose(state, np.tensordot(truth.probability, of_state, 1), atol=1e-10)
            assert_allclose(found.ends[d], truth.probability @ truth.e[:, d], atol=1e-10)
        for d in range(packed.n_levels - 1):
            assert_allclose(found.initialisation[d].sum(), found.persistence[d].sum(), atol=1e-9)
            assert_allclose(found.ending[d].sum(axis=(1, 2)), found.ends[d], atol=1e-10)
            moves = found.transition[d][1:].sum(axis=(1, 2, 3))
            assert_allclose(moves + found.ends[d, :-1], found.ends[d + 1, :-1], atol=1e-10)


def simple(rng, sizes=(2, 2, 2), n_timesteps=3, scale=1.0):
    """Random scores without anything forbidden but long bottom segments."""
    i, j = np.arange(n_timesteps)[:, None], np.arange(n_timesteps + 1)
    persistence = [scale * rng.normal(size=(n_timesteps, n_timesteps + 1, n)) for n in sizes]
    persistence[-1][j - i > 1] = -INF
    pairs = list(pairwise(sizes))
    initialisation, ending = (
        [scale * rng.normal(size=(n_timesteps, n, m)) for n, m in pairs] for _ in range(2)
    )
    transition = [scale * rng.normal(size=(n_timesteps, n, m, m)) for n, m in pairs]
    return HierarchyScores(persistence, initialisation, transition, ending)


@pytest.mark.parametrize("numerics", ["auto", "log"])
def test_parents_that_start_where_no_child_can(numerics, rng):
    """The bottom has no segment that starts at step 5; such parents have no mass, whatever their own score."""
    scores = simple(rng, sizes=(1, 1, 1), n_timesteps=7)
    scores.persistence[2][:] = rng.normal(size=scores.persistence[2].shape)
    scores.persistence[2][5] = -INF
    lists = [getattr(scores, part) for part in PARTS]
    _, (found,) = hierarchy.marginals([scores], numerics=numerics)
    assert_same(found, HierarchyScores(*EnumeratedHierarchy(*lists).marginals()), atol=1e-12)
    assert not found.initialisation[1][5].any()


def test_ties_go_to_the_last_child_then_its_start():
    n_timesteps, sizes = 4, (2, 2, 2)
    zeros = HierarchyScores(
        [np.zeros((n_timesteps, n_timesteps + 1, n)) for n in sizes],
        [np.zeros((n_timesteps, 2, 2))] * 2,
        [np.zeros((n_timesteps, 2, 2, 2))] * 2,
        [np.zeros((n_timesteps, 2, 2))] * 2,
    )
    ((x, e),), best = hierarchy.viterbi([zeros])
    assert best == [0] and not x.any()
    assert_array_equal(e, [[0, 0, 0, 1]] * 3)  # the earliest start: one segment over everything


def test_probabilities_are_gradients_of_the_log_partition(rng):
    scores = simple(rng)
    _, (found,) = hierarchy.marginals([scores])
    for name in PARTS:
        for d in range(len(getattr(scores, name))):
            point = getattr(scores, name)[d]
            finite = np.isfinite(point)

            def value(flat, name=name, d=d, point=point, finite=finite):
                moved = {part: list(getattr(scores, part)) for part in PARTS}
                moved[name][d] = point.copy()
                moved[name][d][finite] = flat
                return hierarchy.log_partition([HierarchyScores(**moved)])[0]

            gradient = numerical_gradient(value, point[finite])
            assert_allclose(getattr(found, name)[d][finite], gradient, atol=1e-8)


def test_samples_have_the_frequencies_of_the_model(rng):
    scores = simple(rng, sizes=(2, 2, 2), n_timesteps=2)
    lists = [getattr(scores, part) for part in PARTS]
    truth = EnumeratedHierarchy(*lists, longest=(2, 1))
    n_samples = 10000
    draws = hierarchy.sample([scores], n_samples, random_state=1)
    counts = Counter((x.tobytes(), e.astype(np.intp).tobytes()) for ((x, e),) in draws)
    keys = [(x.tobytes(), e.tobytes()) for x, e in zip(truth.x, truth.e, strict=True)]
    observed = np.array([counts[key] for key in keys])
    assert observed.sum() == n_samples
    assert chisquare(observed, n_samples * truth.probability).pvalue > 1e-3
    again = hierarchy.sample([scores], 5, random_state=1)
    for (found,), (first,) in zip(again, draws[:5], strict=True):
        assert_array_equal(found, first)


def test_samples_of_several_sequences_belong_together(rng):
    scores = [simple(rng, n_timesteps=2), simple(rng, n_timesteps=4)]
    draws = hierarchy.sample(scores, 3, random_state=0)
    assert [[x.shape[1] for x, _ in codes] for codes in draws] == [[2, 4]] * 3


def test_two_levels_are_a_chain(rng):
    n_timesteps, n_labels = 6, 4
    scores = simple(rng, sizes=(1, n_labels), n_timesteps=n_timesteps, scale=3.0)
    unary = scores.persistence[1][np.arange(n_timesteps), np.arange(n_timesteps) + 1]
    initial, final = scores.initialisation[0][0, 0], scores.ending[0][-1, 0]
    flat = ChainScores(unary, scores.transition[0][:, 0], initial, final)
    offsets, root = [0, n_timesteps], scores.persistence[0][0, n_timesteps, 0]
    log_z, node = chain.marginals(flat, offsets)
    found_log_z, (found,) = hierarchy.marginals([scores])
    assert_allclose(found_log_z, log_z + root, rtol=1e-12)
    assert_allclose(found.transition[0][:, 0], node.transition, atol=1e-12)
    codes, best = chain.viterbi(flat, offsets)
    ((x, _),), found_best = hierarchy.viterbi([scores])
    assert_array_equal(x[1], codes)
    assert_allclose(found_best, best + root)


def test_known_ends_shorten_what_is_stored(rng):
    packed = additive(rng, (1, 3, 2), 60, (60, 1), 1.0)
    ends = np.full((3, 60), -1, dtype=np.int8)
    ends[1] = (np.arange(60) + 1) % 6 == 0
    narrowed = packed.narrowed(None, ends)
    assert [p.shape for p in narrowed.persistence] == [(1,), (60, 6, 3), (60, 1, 2)]
    assert_array_equal(np.flatnonzero(narrowed._spans[1]), np.arange(0, 60, 6))
    ends[1, 7:9] = -1  # inside a segment whose ends are known
    ends[2, 7:9] = 0  # below a non-end nothing is said; above it is one
    assert packed.narrowed(None, ends).log_partition() == -INF  # bottom segments have one step


def test_ends_are_closed_over_levels(rng):
    packed = additive(rng, (1, 2, 2), 6, (6, 3), 1.0)
    ends = np.full((3, 6), -1, dtype=np.int8)
    ends[1, 2], ends[2, 3] = 1, 0
    closed = ends.copy()
    closed[2, 2], closed[:2, 3] = 1, 0
    found, expected = (packed.narrowed(None, e).persistence for e in (ends, closed))
    for first, second in zip(found, expected, strict=True):
        assert_array_equal(first, second)


def test_infeasible_sequences_are_named(rng):
    scores = simple(rng, sizes=(1, 2, 2), n_timesteps=4)
    good, bad = np.ones((4, 2), dtype=bool), np.ones((4, 2), dtype=bool)
    bad[2] = False
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 1 .* level 2 can cover time step 2"):
        hierarchy.viterbi([scores] * 2, [None, [None, good, bad]])
    with pytest.raises(
        InfeasibleSequenceError, match=r"Sequence 1 .* level 1 with .* below it can cover time step 2"
    ):
        hierarchy.marginals([scores] * 2, [None, [None, bad, None]])
    ends = np.full((3, 4), -1)
    ends[0, 1] = 1
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 0 .* level 0: no root state"):
        hierarchy.sample([scores], ends=[ends])
    scores.transition[0][:] = scores.initialisation[0][:] = -INF
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 0 .* level 0: its segments"):
        hierarchy.viterbi([scores])


# -- the log-linear model of the worked numbers ------------------------------------------------------------------

BLOCKS = {
    "unary1": (2, 2), "mean1": (2, 2), "dur1": (2, 2), "a1": (1, 2, 2), "ax1": (2, 2), "pi0": (1, 2), "pix0": (2, 2),
    "e0": (1, 2), "ex0": (2, 2), "unary2": (3, 2), "a2": (2, 3, 3), "ax2": (3, 2), "pi1": (2, 3), "pix1": (3, 2),
    "e1": (2, 3), "ex1": (3, 2),
}  # fmt: skip


def blocks(weights):
    sizes = [int(np.prod(shape)) for shape in BLOCKS.values()]
    parts = np.split(weights, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(BLOCKS.items(), parts, strict=True)}


def log_linear(weights):
    """Potentials of the model; linear in the weights but for what is forbidden."""
    w, T = blocks(weights), 5
    X = np.sin(1 + np.arange(T)[:, None] + 3 * np.arange(2))
    persistence = [np.full((T, T + 1, n), -INF) for n in (1, 2, 3)]
    persistence[0][0, T] = 0
    for i in range(T):
        persistence[2][i, i + 1] = w["unary2"] @ X[i]
        for j in range(i + 1, T + 1):
            total, n = X[i:j].sum(axis=0), j - i
            persistence[1][i, j] = w["unary1"] @ total + w["mean1"] @ total / n + w["dur1"] @ [n, np.log(n)]
    initialisation = [w["pi0"] + (X @ w["pix0"].T)[:, None], w["pi1"] + (X @ w["pix1"].T)[:, None]]
    ending = [w["e0"] + (X @ w["ex0"].T)[:, None], w["e1"] + (X @ w["ex1"].T)[:, None]]
    transition = [w["a1"] + (X @ w["ax1"].T)[:, None, None], w["a2"] + (X @ w["ax2"].T)[:, None, None]]
    return HierarchyScores(persistence, initialisation, transition, ending)


FULL = {
    "objective": (-11.958881180516, 6.7210969816, -2.3537230113),
    "unary1": [1.8615194941, -1.8779712263, -1.8435318865, 1.9207628446],
    "mean1": [0.6979350713, -0.7137635990, -1.0280696822, 1.0095376732],
    "dur1": [-0.0911339407, 0.8120708594, 0.1274021233, 0.2484676998],
    "a1": [-1.4181531918, 0.4595252105, -0.5653627729, -0.2480613363],
    "e1": [-1.1810987796, 0.0693301381, -0.5865846382, 0.7630437839, -0.2822909250, -0.5754160570],
}
PARTIAL = {
    "objective": (-2.833292093274, 4.9330092738, 0.2306576668),
    "unary1": [1.5130848789, -1.5451586515, -1.4950972713, 1.5879502698],
    "mean1": [1.1885191526, -1.2735164429, -1.1464417512, 1.1246546824],
    "dur1": [0.1399008001, 0.0977264707, -0.1036326176, -0.1287085996],
    "a1": [0.1488364196, 0.5329467887, -0.4919411947, -0.0083672787],
    "e1": [0.1147607764, 0.0382137469, -0.2109166132, -0.0652968421, -0.0410044607, 0.3247537406],
}


@pytest.mark.parametrize("numerics", ["scaled", "log"])
@pytest.mark.parametrize("expected", [FULL, PARTIAL], ids=["full", "partial"])
def test_gradient_of_the_log_linear_model(expected, numerics):
    weights = 0.4 * np.cos(1 + np.arange(86))
    scores = log_linear(weights)
    allowed = [None, np.ones((5, 2), dtype=bool), np.ones((5, 3), dtype=bool)]
    ends = np.full((3, 5), -1)
    if expected is FULL:
        allowed[1] = np.eye(2, dtype=bool)[[0, 0, 0, 1, 1]]
        allowed[2] = np.eye(3, dtype=bool)[[0, 1, 1, 2, 0]]
        ends[1] = [0, 0, 1, 0, 1]
    else:
        allowed[1][[0, 1, 4]] = np.eye(2, dtype=bool)[[0, 0, 1]]
        ends[1, 2] = 1
    (clamped,), (inside,) = hierarchy.marginals([scores], [allowed], [ends], numerics=numerics)
    (free,), (outside,) = hierarchy.marginals([scores], numerics=numerics)
    gradient = -0.1 * weights
    for k in range(86):
        feature = log_linear(np.eye(86)[k])
        for name in PARTS:
            lists = (getattr(part, name) for part in (feature, inside, outside))
            for values, p, q in zip(*lists, strict=True):
                finite = np.isfinite(values)
                gradient[k] += values[finite] @ (p - q)[finite]
    objective = clamped - free - 0.05 * weights @ weights
    summary = objective, np.linalg.norm(gradient), gradient.sum()
    assert_allclose(summary, expected["objective"], rtol=0, atol=1e-9)
    for name in ("unary1", "mean1", "dur1", "a1", "e1"):
        assert_allclose(blocks(gradient)[name].ravel(), expected[name], rtol=0, atol=1e-9)


# -- the door ------------------------------------------------------------------------------------------------------


def test_inputs_stay_as_they_were_and_may_be_read_only(rng):
    scores = simple(rng)
    copies = [[a.copy() for a in getattr(scores, part)] for part in PARTS]
    for part in PARTS:
        for values in getattr(scores, part):
            values.flags.writeable = False
    allowed, ends = [np.ones((3, 2), dtype=bool)] * 3, np.full((3, 3), -1, dtype=np.int8)
    hierarchy.marginals([scores], [allowed], [ends], "scaled")
    hierarchy.marginals([scores], [allowed], [ends], "log")
    hierarchy.viterbi([scores])
    for part, before in zip(PARTS, copies, strict=True):
        for values, copy in zip(getattr(scores, part), before, strict=True):
            assert_array_equal(values, copy)


def test_wrong_scores_are_named(rng):
    good = simple(rng)

    def changed(part, d, values):
        lists = {name: list(getattr(good, name)) for name in PARTS}
        lists[part][d] = values
        return [good, HierarchyScores(**lists)]

    with pytest.raises(TypeError, match="one HierarchyScores; expected a list"):
        hierarchy.log_partition(good)
    with pytest.raises(TypeError, match=r"scores\[0\] is a int"):
        hierarchy.log_partition([3])
    with pytest.raises(TypeError, match="persistence holds complex"):
        changed("persistence", 0, good.persistence[0] * 1j)
    with pytest.raises(ValueError, match="numerics is 'fast'"):
        hierarchy.log_partition([good], numerics="fast")
    with pytest.raises(ValueError, match=r"scores\[0\].persistence has 1 levels"):
        hierarchy.log_partition([HierarchyScores(good.persistence[:1], [], [], [])])
    with pytest.raises(ValueError, match=r"scores\[1\].ending has shapes .*\(2, 2, 2\)"):
        hierarchy.log_partition(changed("ending", 1, good.ending[1][:2]))
    with pytest.raises(ValueError, match=r"scores\[1\].persistence has shapes .*expected"):
        hierarchy.log_partition(changed("persistence", 0, good.persistence[0][:, 0]))
    wrong = good.persistence[1].copy()
    wrong[1, 3, 0] = np.nan
    with pytest.raises(ValueError, match=r"scores\[1\].persistence\[1\]\[1, 3, 0\] is nan"):
        hierarchy.log_partition(changed("persistence", 1, wrong))
    wrong = good.persistence[0].copy()
    wrong[0, 3, 1] = INF
    with pytest.raises(ValueError, match=r"scores\[1\].persistence\[0\]\[0, 3, 1\] is inf"):
        hierarchy.log_partition(changed("persistence", 0, wrong))
    wrong = good.transition[1].copy()
    wrong[2, 0, 1, 1] = INF
    with pytest.raises(ValueError, match=r"scores\[1\].transition\[1\]\[2, 0, 1, 1\] is inf"):
        hierarchy.log_partition(changed("transition", 1, wrong))


@pytest.mark.parametrize("size", [1.7e308, -1.7e308])
def test_scores_too_large_for_sums_are_refused(size, rng):
    good = simple(rng)
    scores = [HierarchyScores(*([a + size for a in getattr(good, part)] for part in PARTS))]
    for verb in (hierarchy.log_partition, hierarchy.marginals, hierarchy.viterbi, hierarchy.sample):
        with pytest.raises(ValueError, match=r"The scores of sequence 0 run from .* beyond double"):
            verb(scores)
    if size > 0:
        with pytest.raises(ValueError, match="The scores of sequence 0 sum to more than double"):
            hierarchy.score_of(
                scores, [(np.zeros((3, 3), dtype=int), np.array([[0, 0, 1], [1, 1, 1], [1, 1, 1]]))]
            )


def test_wrong_observations_are_named(rng):
    scores = simple(rng)
    with pytest.raises(ValueError, match="allowed has 2 entries, but there are 1 sequences"):
        hierarchy.log_partition([scores], [None, None])
    with pytest.raises(ValueError, match=r"allowed\[0\] has 1 levels"):
        hierarchy.log_partition([scores], [[None]])
    with pytest.raises(ValueError, match=r"allowed\[0\]\[1\] has shape \(2, 2\)"):
        hierarchy.log_partition([scores], [[None, np.ones((2, 2), dtype=bool), None]])
    with pytest.raises(ValueError, match="dtype float64; expected int8"):
        hierarchy.log_partition([scores], ends=[np.zeros((3, 3))])
    with pytest.raises(ValueError, match=r"ends\[0\]\[1, 2\] is 2"):
        hierarchy.log_partition([scores], ends=[np.array([[-1] * 3, [0, 1, 2], [-1] * 3])])
    with pytest.raises(ValueError, match="n_samples is 0"):
        hierarchy.sample([scores], 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, e: (x[:2], e), "x of codes.* has shape"),
        (lambda x, e: (x + 2, e), "states outside 0..1 on level 0"),
        (lambda x, e: (x, e - 1), "values other than 0 and 1"),
        (lambda x, e: (x, np.ones_like(e)), "level 0, time step 0, the root has an end"),
        (lambda x, e: (x, e * [1, 1, 0]), "level 0, time step 2, a segment does not end with"),
        (lambda x, e: (x, e * [[1], [1], [0]] + [[0], [0], [0]]), "level 2, time step 2"),
        (lambda x, e: (x, np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1]])), "level 1, time step 0, .* child"),
        (lambda x, e: (np.array([[0, 0, 1]] + [[0] * 3] * 2), e), "level 0, time step 1, .* state changes"),
    ],
)
def test_what_is_no_configuration_is_refused(change, message, rng):
    x, e = np.zeros((3, 3), dtype=int), np.array([[0, 0, 1], [0, 0, 1], [1, 1, 1]])
    scores = simple(rng)
    assert np.isfinite(hierarchy.score_of([scores], [(x, e)])).all()
    with pytest.raises(ValueError, match=message):
        hierarchy.score_of([scores], [change(x, e)])
    with pytest.raises(ValueError, match="codes has 0 entries"):
        hierarchy.score_of([scores], [])


def test_damaged_shapes_do_not_reach_the_kernels(rng):
    packed = additive(rng, (1, 2, 2), 5, (5, 1), 1.0)
    with pytest.raises(ValueError, match="ending scores have shapes"):
        NestedSegments(packed.persistence, packed.initialisation, packed.transition, packed.ending[:1])
    with pytest.raises(ValueError, match="persistence scores have shapes"):
        persistence = [packed.persistence[0], packed.persistence[1][:3], packed.persistence[2]]
        NestedSegments(persistence, packed.initialisation, packed.transition, packed.ending)
    with pytest.raises(ValueError, match="as many values in its gauge"):
        NestedSegments(
            packed.persistence, packed.initialisation, packed.transition, packed.ending, gauge=np.zeros(4)
        )


def test_oracle_counts_what_arithmetic_counts():
    assert all_below((3,), (1,), 4).shape[1] == 3**4
    assert all_below((2,), (4,), 4).shape[1] == 2 * 3**3  # a cut of two states or none between steps
