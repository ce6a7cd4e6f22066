"""The chain core against enumeration, worked numbers and its own certificate."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain, numerical_gradient
from scipy.stats import chisquare
from worked_numbers import t1

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import ChainScores, chain


@st.composite
def batches(draw):
    """A few short chains with ties, forbidden moves and scores from 1e-3 to 1e3, and the masks on them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 5 if n_labels < 4 else 4), min_size=1, max_size=3))
    scale = draw(st.sampled_from([1e-3, 1.0, 30.0, 1e3]))
    n_total = sum(lengths)
    varying = draw(st.booleans())

    def scores(*shape):
        values = scale * rng.normal(size=shape)
        if draw(st.booleans()):
            values = np.round(values / scale) * scale  # ties
        values[rng.random(shape) < draw(st.sampled_from([0.0, 0.0, 0.2]))] = -np.inf
        return values

    transition = scores(n_total, n_labels, n_labels) if varying else scores(n_labels, n_labels)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if varying:
        transition[offsets[:-1]] = np.nan  # never read
    ends = [scores(n_labels) if draw(st.booleans()) else None for _ in range(2)]
    allowed = rng.random((n_total, n_labels)) < 0.8 if draw(st.booleans()) else None
    return ChainScores(scores(n_total, n_labels), transition, *ends), offsets, allowed


def enumerated(scores, offsets, allowed):
    for start, stop in itertools.pairwise(offsets):
        varying = scores.transition.ndim == 3
        transition = scores.transition[start:stop] if varying else scores.transition
        mask = None if allowed is None else allowed[start:stop]
        yield EnumeratedChain(scores.unary[start:stop], transition, scores.initial, scores.final, mask)


def close(actual, desired, scores):
    """Equal to rounding of the scores that were added up."""
    finite = scores.unary[np.isfinite(scores.unary)]
    size = 1 + (np.abs(finite).max() if len(finite) else 0)
    assert_allclose(actual, desired, rtol=1e-11, atol=1e-13 * size * 10)


@given(batches())
def test_every_verb_matches_enumeration(batch):
    scores, offsets, allowed = batch
    with np.errstate(divide="ignore"):
        truth = list(enumerated(scores, offsets, allowed))
        log_z = np.array([chain.log_partition for chain in truth])
    close(chain.log_partition(scores, offsets, allowed), log_z, scores)
    if (log_z == -np.inf).any():
        for verb in (chain.marginals, chain.viterbi, chain.max_marginals, chain.entropy):
            with pytest.raises(InfeasibleSequenceError, match=f"Sequence {np.argmax(log_z == -np.inf)} "):
                verb(scores, offsets, allowed)
        return
    found_log_z, marginals = chain.marginals(scores, offsets, allowed)
    close(found_log_z, log_z, scores)
    node = np.concatenate([chain.node_marginals() for chain in truth])
    edge = np.concatenate([chain.edge_marginals() for chain in truth])
    assert_allclose(marginals.unary, node, atol=1e-10)
    assert_allclose(marginals.transition, edge if scores.transition.ndim == 3 else edge.sum(0), atol=1e-10)
    if scores.initial is not None:
        assert_allclose(marginals.initial, node[offsets[:-1]].sum(axis=0), atol=1e-10)
    if scores.final is not None:
        assert_allclose(marginals.final, node[offsets[1:] - 1].sum(axis=0), atol=1e-10)

    codes, best = chain.viterbi(scores, offsets, allowed)
    assert_allclose(best, [chain.scores.max() for chain in truth], rtol=1e-12)
    close(chain.score_of(scores, offsets, codes), best, scores)
    assert_allclose(
        chain.max_marginals(scores, offsets, allowed),
        np.concatenate([chain.max_marginals() for chain in truth]),
        rtol=1e-11,
        atol=1e-11,
    )
    assert_allclose(chain.entropy(scores, offsets, allowed), [c.entropy() for c in truth], atol=1e-9)
    for (codes, found), one in zip(chain.n_best(scores, offsets, 7, allowed), truth, strict=True):
        expected = one.ranked()[:7]
        assert_allclose(found, [score for _, score in expected], rtol=1e-11, atol=1e-11)
        assert len({tuple(labels) for labels in codes}) == len(expected)


@pytest.mark.parametrize("n_labels", [1, 2, 5])
def test_ties_go_to_the_smallest_label_from_the_end(n_labels):
    rng = np.random.default_rng(n_labels)
    for _ in range(50):
        unary = rng.integers(0, 2, (4, n_labels)).astype(float)
        transition = rng.integers(0, 2, (n_labels, n_labels)).astype(float)
        ranked = EnumeratedChain(unary, transition).ranked()
        codes, _ = chain.viterbi(ChainScores(unary, transition), [0, 4])
        assert tuple(codes) == ranked[0][0]
        (best, _) = chain.n_best(ChainScores(unary, transition), [0, 4], 3)[0]
        assert tuple(best[0]) == ranked[0][0]


@pytest.mark.parametrize("spread", [0.0, 50.0, 800.0, 3000.0])
def test_certificate_sends_what_underflows_to_the_log_domain(spread, rng):
    """Labels that win by thousands of nats and must then be left: scaled sums alone would be wrong."""
    for _ in range(40):
        unary = spread * rng.uniform(-1, 1, (5, 3))
        transition = spread * rng.uniform(-1, 1, (3, 3))
        transition[rng.random((3, 3)) < 0.3] = -np.inf
        truth = EnumeratedChain(unary, transition)
        if truth.scores.max() == -np.inf:
            continue
        log_z, marginals = chain.marginals(ChainScores(unary, transition), [0, 5])
        assert_allclose(log_z, truth.log_partition, rtol=1e-12, atol=1e-12)
        assert_allclose(marginals.unary, truth.node_marginals(), atol=1e-10)
        assert_allclose(marginals.transition, truth.edge_marginals().sum(axis=0), atol=1e-10)
        assert_allclose(chain.log_partition(ChainScores(unary, transition), [0, 5]), log_z, rtol=1e-12)


def test_marginals_are_the_gradient_of_log_partition(rng):
    offsets = [0, 3, 4]
    shapes = [(4, 3), (3, 3), (3,), (3,)]
    splits = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def scores(vector):
        return ChainScores(
            *(part.reshape(s) for part, s in zip(np.split(vector, splits), shapes, strict=True))
        )

    point = rng.normal(size=27)
    _, marginals = chain.marginals(scores(point), offsets)
    numeric = numerical_gradient(lambda v: chain.log_partition(scores(v), offsets).sum(), point)
    parts = (marginals.unary, marginals.transition, marginals.initial, marginals.final)
    assert_allclose(np.concatenate([part.ravel() for part in parts]), numeric, atol=1e-8)


def test_worked_numbers_t1():
    unary, transition, initial, final, varying = t1()
    scores, offsets = ChainScores(unary, transition, initial, final), [0, 5]
    log_z, marginals = chain.marginals(scores, offsets)
    assert_allclose(log_z, 4.10822851792, atol=1e-8)
    assert_allclose(marginals.unary[0], [0.5317008231, 0.155993922, 0.3123052549], atol=1e-8)
    assert_allclose(marginals.unary[3], [0.4499029266, 0.3186026173, 0.231494456], atol=1e-8)
    constant = ChainScores(unary, np.repeat(transition[None], 5, axis=0), initial, final)
    _, per_step = chain.marginals(constant, offsets)
    assert_allclose(per_step.transition[3].ravel(), [
        0.2431118918, 0.1816253664, 0.1132461508, 0.1437113057, 0.08035916299, 0.05937898951,
        0.0630797291, 0.05661808798, 0.05886931577], atol=1e-8)  # fmt: skip
    codes, best = chain.viterbi(scores, offsets)
    assert codes.tolist() == [0, 0, 0, 0, 0]
    assert_allclose(best, 0.697844670609, atol=1e-8)
    codes, best = chain.n_best(scores, offsets, 3)[0]
    assert_allclose(best, [0.6978446706, 0.5265130333, 0.5008940804], atol=1e-8)
    assert codes.tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    allowed = np.ones((5, 3), dtype=bool)
    allowed[0] = [True, False, False]
    allowed[2] = [False, True, True]
    allowed[4] = [False, False, True]
    log_z, marginals = chain.marginals(scores, offsets, allowed)
    assert_allclose(log_z, 1.58769630395, atol=1e-8)
    assert_allclose(marginals.unary[1], [0.6327019303, 0.149564043, 0.2177340267], atol=1e-8)
    scores = ChainScores(unary, varying, initial, final)
    assert_allclose(chain.log_partition(scores, offsets), 4.20769419765, atol=1e-8)
    scores = ChainScores(1000 * unary, 1000 * transition, initial, final)
    assert_allclose(chain.log_partition(scores, offsets), 822.912322192, atol=1e-8)
    assert_allclose(chain.marginals(scores, offsets)[0], 822.912322192, atol=1e-8)


@pytest.mark.parametrize("varying", [False, True])
def test_samples_follow_the_distribution(varying, rng):
    transition = rng.normal(size=(3, 2, 2) if varying else (2, 2))
    scores = ChainScores(rng.normal(size=(3, 2)), transition, [0.5, 0], [0, 1])
    truth = EnumeratedChain(scores.unary, transition, scores.initial, scores.final)
    draws = chain.sample(scores, [0, 3], n_samples=4000, random_state=0)
    counts = [sum(tuple(d) == y for d in draws) for y in truth.labellings]
    assert chisquare(counts, 4000 * truth.probability).pvalue > 1e-3
    again = chain.sample(scores, [0, 3], n_samples=4000, random_state=0)
    assert_array_equal(draws, again)


def test_long_sequences_keep_their_digits(rng):
    """An error that grew with the length would show against the same chain in long double."""
    n_timesteps, n_labels = 20_000, 3
    unary, transition = 5 * rng.normal(size=(n_timesteps, n_labels)), rng.normal(size=(n_labels, n_labels))
    alpha = unary[0].astype(np.longdouble)
    for t in range(1, n_timesteps):
        paths = alpha[:, None] + transition
        top = paths.max(axis=0)
        alpha = unary[t] + top + np.log(np.exp(paths - top).sum(axis=0))
    exact = alpha.max() + np.log(np.exp(alpha - alpha.max()).sum())
    log_z, marginals = chain.marginals(ChainScores(unary, transition), [0, n_timesteps])
    assert_allclose(float(log_z[0]), float(exact), rtol=1e-14)
    assert_allclose(marginals.unary.sum(axis=1), 1, atol=1e-13)
    assert_allclose(marginals.transition.sum(), n_timesteps - 1, rtol=1e-12)


def test_entropy_of_a_nearly_certain_chain_keeps_its_digits():
    unary = np.array([[0.0, -40.0]])
    expected = 40 * np.exp(-40.0) + np.exp(-40.0)
    assert_allclose(chain.entropy(ChainScores(unary, np.zeros((2, 2))), [0, 1]), expected, rtol=1e-10)


def test_inputs_are_read_only_and_untouched(rng):
    unary, transition = rng.normal(size=(4, 2)), rng.normal(size=(2, 2))
    for array in (unary, transition):
        array.flags.writeable = False
    scores, kept = ChainScores(unary, transition, np.ones(2), np.ones(2)), unary.copy()
    allowed = np.ones((4, 2), dtype=bool)
    for verb in (chain.log_partition, chain.marginals, chain.viterbi, chain.max_marginals, chain.entropy):
        verb(scores, [0, 1, 4], allowed)
    chain.n_best(scores, [0, 1, 4], 2)
    chain.sample(scores, [0, 1, 4])
    assert_array_equal(unary, kept)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unary": np.full((2, 2), np.nan)}, r"unary\[0, 0\] is nan"),
        ({"unary": np.array([[0, 0], [0, np.inf]])}, r"unary\[1, 1\] is inf"),
        ({"transition": np.zeros((2, 3))}, r"transition has shape \(2, 3\); expected \(2, 2\)"),
        ({"initial": np.zeros(3)}, r"initial has shape \(3,\); expected \(2,\)"),
        ({"offsets": [0, 3]}, "run from 0 to 2"),
        ({"offsets": [0, 2, 2]}, "Sequence 1 has no time steps"),
        ({"allowed": np.ones((2, 2))}, "expected bool"),
    ],
)
def test_bad_arguments_are_named(change, message):
    given = {"unary": np.zeros((2, 2)), "transition": np.zeros((2, 2)), "offsets": [0, 2], "allowed": None}
    given |= change
    offsets, allowed = given.pop("offsets"), given.pop("allowed")
    with pytest.raises(ValueError, match=message):
        chain.marginals(ChainScores(**given), offsets, allowed)


def test_infeasible_sequence_names_the_step():
    transition = np.array([[0, -np.inf], [-np.inf, 0]])
    unary = np.array([[0, 0], [0.0, -np.inf], [0, 0], [-np.inf, 0]])
    with pytest.raises(InfeasibleSequenceError, match=r"Sequence 1 .* time step 2"):
        chain.viterbi(ChainScores(unary, transition), [0, 1, 4])


def test_sums_beyond_double_precision_are_no_answer_and_not_infeasible():
    large = ChainScores(np.full((3, 2), 1e308), np.zeros((2, 2)))
    small = ChainScores(np.full((3, 2), -1e308), np.zeros((2, 2)))
    verbs = (chain.log_partition, chain.viterbi, chain.marginals, chain.max_marginals, chain.entropy)
    with np.errstate(over="ignore", invalid="ignore"):
        for verb in verbs:
            with pytest.raises(ValueError, match="sum to more than double precision"):
                verb(large, [0, 3])
        for verb in (chain.viterbi, chain.max_marginals, lambda *a: chain.n_best(*a, 2)):
            with pytest.raises(ValueError, match="sum to more than double precision"):
                verb(small, [0, 3])
        with pytest.raises(ValueError, match="sum to more than double precision"):
            chain.score_of(large, [0, 3], [0, 0, 0])


def test_what_is_no_scores_is_refused():
    with pytest.raises(TypeError, match="scores is a ndarray; expected ChainScores"):
        chain.viterbi(np.zeros((2, 2)), [0, 2])
    with pytest.raises(TypeError, match="unary holds complex numbers"):
        ChainScores(np.zeros((2, 2), dtype=complex), np.zeros((2, 2)))


@pytest.mark.parametrize("numbers", [(150, 300, 150), (160, 330, 160), (400, 500, 300)])
def test_a_label_that_is_hopeless_twice_is_not_lost(numbers):
    """Behind, far ahead, behind again: both passes lose it, and nothing but the interval shows it."""
    unary = np.zeros((sum(numbers), 2))
    unary[:, 1] = np.repeat([-5.0, 6.0, -5.0], numbers)
    apart = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    truth = np.logaddexp(0.0, unary[:, 1].sum())
    scores = ChainScores(unary, apart)
    assert_allclose(chain.log_partition(scores, [0, len(unary)]), [truth], rtol=1e-12, atol=1e-12)
    log_z, marginals = chain.marginals(scores, [0, len(unary)])
    assert_allclose(log_z, [truth], rtol=1e-12, atol=1e-12)
    assert_allclose(marginals.unary[:, 1], np.exp(unary[:, 1].sum() - truth), atol=1e-12)
