"""Steps on the dual of the likelihood: gaps against enumeration, steps against a grid, and where they end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain
from random_chains import LAYOUTS, make_objective
from scipy import sparse

from sklearn_seqlab.objectives import ChainAscent, ChainLogLikelihood
from sklearn_seqlab.sequences import encode_training_labels, pack
from sklearn_seqlab.solvers import dual_ascent, lbfgs

FORBIDDEN = np.array([[True, True, False], [True, True, True], [False, True, True]])


def tiny_objective(rng, allowed=None, cost=None, scale=1.0):
    """A few chains short enough to enumerate, the first of a single step."""
    allowed = np.ones((3, 3), dtype=bool) if allowed is None else allowed
    X = [scale * rng.normal(size=(n, 2)) for n in (1, 4, 2, 3)]
    y = []
    for x in X:
        codes = [int(rng.integers(3))]
        while len(codes) < len(x):
            codes.append(int(rng.choice(np.flatnonzero(allowed[codes[-1]]))))
        y.append(codes)
    y[1][:3] = [0, 1, 2]
    y[1][3] = 2
    batch = pack(X)
    labels = encode_training_labels(y, batch.offsets)
    weight = rng.random(4) + 0.5
    return ChainLogLikelihood(
        batch, labels, weight=weight, C=1.5, fit_intercept=False, allowed_transitions=allowed, cost=cost
    )


def enumerated(objective, ascent, s):
    """A sequence's chain at the weights of the run, costs added."""
    parts = objective.split(ascent.coef())
    rows = slice(*objective.batch.offsets[s : s + 2])
    unary = objective.batch.values[rows] @ parts.node.T
    if objective.cost is not None:
        unary = unary + objective.cost[objective.labels.codes[rows]]
    return EnumeratedChain(unary, parts.transition, parts.start, parts.end)


def dual_distribution(ascent, labellings, r0):
    """Probabilities of labellings by the chain that has the run's marginals."""
    out = np.empty(len(labellings))
    for m, y in enumerate(labellings):
        p = ascent.dual_node[r0, y[0]]
        for t in range(1, len(y)):
            before = ascent.dual_node[r0 + t - 1, y[t - 1]]
            p *= ascent.dual_edge[r0 + t, y[t - 1], y[t]] / before if before > 0 else 0.0
        out[m] = p
    return out


def divergence(p, q):
    return np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0]))


@pytest.mark.parametrize("allowed", [None, FORBIDDEN])
@pytest.mark.parametrize("cost", [None, 1.0 - np.eye(3)])
def test_the_gap_is_the_summed_divergence_from_the_model(allowed, cost, rng):
    objective = tiny_objective(rng, allowed, cost)
    ascent = ChainAscent(objective)
    for n_steps in (0, 1, 3, 4, 8):
        ascent.draw(rng.random(n_steps))
        value, gap = ascent.measure()
        assert_allclose(value, objective.value_and_gradient(ascent.coef())[0], rtol=1e-12)
        expected, entropy, offsets = [], [], objective.batch.offsets
        for s in range(4):
            chain = enumerated(objective, ascent, s)
            p = dual_distribution(ascent, chain.labellings, offsets[s])
            assert_allclose(p.sum(), 1.0)
            expected.append(objective.C * objective.weight[s] * divergence(p, chain.probability))
            entropy.append(-np.sum(p[p > 0] * np.log(p[p > 0])))
        assert_allclose(ascent.gaps, expected, rtol=1e-9, atol=1e-12)
        assert_allclose(gap, np.sum(expected), rtol=1e-9)
        assert_allclose(ascent.entropy, entropy, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cost", [False, True])
def test_weights_and_marginals_stay_consistent(layout, cost, rng):
    objective = make_objective(rng, layout, cost=cost, fit_intercept=False)
    ascent, offsets = ChainAscent(objective), objective.batch.offsets
    best = lbfgs(objective, np.zeros(objective.n_coef), tol=1e-10).value
    ascent.sweep(rng.permutation(40))
    before = -np.inf
    for _ in range(6):
        value, gap = ascent.measure()
        assert gap >= value - best >= -1e-9 * best and (ascent.gaps >= 0).all()
        assert value - gap >= before - 1e-9 * best  # the dual only rises
        before = value - gap
        node, edge = ascent.dual_node, ascent.dual_edge
        assert_allclose(node.sum(axis=1), 1.0, atol=1e-12)
        inner = np.setdiff1d(np.arange(offsets[-1]), offsets[:-1])
        assert_allclose(edge[inner].sum(axis=1), node[inner], atol=1e-12)
        assert_allclose(edge[inner].sum(axis=2), node[inner - 1], atol=1e-12)
        assert_array_equal(edge[offsets[:-1]], 0.0)
        # the weights are what the marginals stand for: the gradient of the loss with theirs in place of the model's
        known = np.eye(3)[objective.labels.codes]
        weight = np.repeat(objective.weight, objective.batch.lengths)[:, None]
        residual = objective.C * weight * (known - node)
        found = objective.split(ascent.coef())
        expected = residual.T @ objective.batch.values
        if layout == "restricted":
            expected = np.where(found.node.toarray() != 0, expected, 0.0)
        found_node = found.node.toarray() if sparse.issparse(found.node) else found.node
        assert_allclose(found_node, expected, atol=1e-10)
        assert_allclose(found.start, residual[offsets[:-1]].sum(axis=0), atol=1e-10)
        assert_allclose(found.end, residual[offsets[1:] - 1].sum(axis=0), atol=1e-10)
        moves = np.einsum("ti,tj->tij", known[inner - 1], known[inner]) - edge[inner]
        assert_allclose(
            found.transition, objective.C * np.einsum("t,tij->ij", weight[inner, 0], moves), atol=1e-10
        )
        ascent.draw(rng.random(40))


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("cost", [None, 1.0 - np.eye(3)])
def test_a_step_is_as_good_as_the_best_of_a_grid(scale, cost, rng):
    objective = tiny_objective(rng, cost=cost, scale=scale)

    def dual(run):
        value, gap = run.measure()
        return value - gap

    ascent = ChainAscent(objective)
    for s in [0, 1, 2, 3, 1, 3, 2, 1, 0, 1]:
        rows = slice(*objective.batch.offsets[s : s + 2])
        old_node, old_edge, old_coef = (
            ascent.dual_node[rows].copy(), ascent.dual_edge[rows].copy(), ascent.coef(),
        )  # fmt: skip
        before, chain = dual(ascent), enumerated(objective, ascent, s)
        ascent.sweep(np.array([s]))
        gain, coef = dual(ascent) - before, ascent.coef()
        # the whole way, in marginals and in weights: the share that was gone of it is in both
        way = chain.node_marginals() - old_node
        at = np.unravel_index(np.abs(way).argmax(), way.shape)
        gone = (ascent.dual_node[rows] - old_node)[at] / way[at]
        assert 0 <= gone <= 1 + 1e-12
        assert_allclose(ascent.dual_node[rows] - old_node, gone * way, atol=1e-10)
        if gone == 0:
            continue
        weights_way, best = (coef - old_coef) / gone, -np.inf
        edge_way = chain.edge_marginals() - old_edge
        scale_s = objective.C * objective.weight[s]
        costs = 0.0 if cost is None else np.sum(way * cost[objective.labels.codes[rows]])
        run = ChainAscent(objective)
        for gamma in np.linspace(0, 1, 401):
            run.dual_node[rows], run.dual_edge[rows] = old_node + gamma * way, old_edge + gamma * edge_way
            p = dual_distribution(run, chain.labellings, rows.start)
            entropy = -np.sum(p[p > 1e-300] * np.log(p[p > 1e-300]))
            w = old_coef + gamma * weights_way
            total = scale_s * (entropy + gamma * costs) - 0.5 * w @ w
            if gamma == 0:
                at_start = total
            best = max(best, total - at_start)
        assert gain >= best - 0.02 * max(best, 0) - 1e-9 * max(1.0, abs(before))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cost", [False, True])
@pytest.mark.parametrize("options", [{}, {"start_end": False}])
def test_the_dual_leads_to_the_optimum(layout, cost, options, rng):
    objective = make_objective(rng, layout, cost=cost, fit_intercept=False, **options)
    best = lbfgs(objective, np.zeros(objective.n_coef), tol=1e-10, max_iter=3000).value
    ascent = ChainAscent(objective)
    outcome = dual_ascent(objective, ascent, tol=1e-7, random_state=0)
    assert outcome.converged and outcome.message == "the duality gap closed"
    assert 0 <= outcome.gap <= 1e-7 * outcome.value
    assert best * (1 - 1e-9) <= outcome.value <= best + outcome.gap + 1e-9 * best
    assert_allclose(objective.value_and_gradient(outcome.coef)[0], outcome.value, rtol=1e-12)
    again = dual_ascent(objective, ChainAscent(objective), tol=1e-7, random_state=0)
    assert_array_equal(again.coef, outcome.coef)
    assert again.history == outcome.history
    # before it is there, the gap tells the truth too
    early = dual_ascent(objective, ChainAscent(objective), max_iter=2, random_state=0)
    assert early.gap >= early.value - best and "a duality gap of" in early.message


def test_steps_count_the_weights_that_there_are(rng):
    """A feature with a weight for one of two labels is half as stiff as one with a weight for each."""
    batch = pack([sparse.csr_array([[1.0]]), sparse.csr_array([[2.0]])])
    labels = encode_training_labels([[0], [1]], batch.offsets)
    for allowed_pairs in ([[1.0, 0.0]], [[1.0, 1.0]]):
        objective = ChainLogLikelihood(
            batch, labels, weight=np.ones(2), C=3.0, fit_intercept=False, start_end=False,
            allowed_transitions=np.ones((2, 2), dtype=bool), pairs=sparse.csr_array(allowed_pairs),
        )  # fmt: skip
        ascent = ChainAscent(objective)
        ascent.sweep(np.array([0]))
        q = ascent.dual_node[0, 1]
        # along q, the dual is 3 times the entropy of (1 - q, q), less half the squared weights
        n_weights = objective.n_coef - 4
        slope = 3.0 * np.log((1 - q) / q) - 9.0 * n_weights * q
        assert abs(slope) < 0.1


def test_forbidden_moves_have_no_share(rng):
    objective = tiny_objective(rng, FORBIDDEN)
    ascent = ChainAscent(objective)
    outcome = dual_ascent(objective, ascent, tol=1e-8, random_state=0)
    assert outcome.converged
    best = lbfgs(objective, np.zeros(objective.n_coef), tol=1e-10).value
    assert_allclose(outcome.value, best, rtol=1e-7)
    assert_array_equal(ascent.dual_edge[:, ~FORBIDDEN], 0.0)
    assert_array_equal(ascent.transition[~FORBIDDEN], -np.inf)
    assert np.isfinite(ascent.dual_edge).all() and np.isfinite(outcome.coef).all()


@pytest.mark.parametrize("allowed", [None, FORBIDDEN])
def test_scores_in_the_thousands_are_no_trouble(allowed, rng):
    """Weights of one feature put apart what the chain holds together: the log domain has to step in."""
    objective = tiny_objective(rng, allowed, scale=1e4)
    ascent = ChainAscent(objective)
    for _ in range(20):
        ascent.sweep(rng.permutation(4))
        value, gap = ascent.measure()
        assert np.isfinite(value) and 0 <= gap < np.inf
        assert_allclose(value, objective.value_and_gradient(ascent.coef())[0], rtol=1e-9)
        assert np.isfinite(ascent.dual_edge).all() and np.isfinite(ascent.coef()).all()
    assert value - gap <= lbfgs(objective, np.zeros(objective.n_coef), tol=1e-9, max_iter=3000).value + 1e-6


def test_large_gaps_are_picked_more_often(rng):
    objective = make_objective(rng, fit_intercept=False)
    objective.weight[5] = 100.0  # its gap is most of the whole
    ascent = ChainAscent(objective)
    ascent.measure()
    widest = int(np.argmax(ascent.gaps))
    share = np.cumsum(ascent.gaps) / ascent.gaps.sum()
    middle = 0.8 * (share[5] - 0.5 * ascent.gaps[5] / ascent.gaps.sum())
    assert widest == 5 and share[5] > 0.7
    for draw, s in [
        (middle, 5),
        (0.75, int(np.searchsorted(share, 0.75 / 0.8))),
        (0.8 + 0.2 * 17.5 / 40, 17),
        (0.0, 0),
    ]:
        run = ChainAscent(objective)
        run.measure()
        run.draw(np.array([draw]))
        assert_array_equal(np.flatnonzero(run.entropy), [s])


def test_an_interrupted_ascent_keeps_what_it_has(rng):
    class Interrupted(ChainAscent):
        def draw(self, draws):
            super().draw(draws[:10])
            raise KeyboardInterrupt

    objective = make_objective(rng, fit_intercept=False)
    outcome = dual_ascent(objective, Interrupted(objective), random_state=0)
    assert outcome.interrupted and outcome.n_iter == 1 and len(outcome.history) == 2
    best = lbfgs(objective, np.zeros(objective.n_coef), tol=1e-9).value
    assert_allclose(objective.value_and_gradient(outcome.coef)[0], outcome.value)
    assert outcome.gap >= outcome.value - best


def test_one_label_has_nothing_to_learn():
    batch = pack([np.ones((3, 2)), np.ones((1, 2))])
    labels = encode_training_labels([["a"] * 3, ["a"]], batch.offsets)
    objective = ChainLogLikelihood(
        batch, labels, weight=np.ones(2), fit_intercept=False, allowed_transitions=np.ones((1, 1), dtype=bool)
    )
    outcome = dual_ascent(objective, ChainAscent(objective), random_state=0)
    assert outcome.converged and outcome.gap == 0.0
    assert_array_equal(outcome.coef, 0.0)


def test_what_a_dual_cannot_take_is_refused(rng):
    with pytest.raises(ValueError, match="all penalised"):
        ChainAscent(make_objective(rng))
    with pytest.raises(ValueError, match="known labels"):
        ChainAscent(make_objective(rng, partial=True, fit_intercept=False))
    with pytest.raises(ValueError, match="squared penalty"):
        ChainAscent(make_objective(rng, l1_ratio=0.5, fit_intercept=False))
    with pytest.raises(ValueError, match="not finite at the starting point"):
        objective = tiny_objective(rng, scale=1e200)
        objective.weight[:] = 1e200
        dual_ascent(objective, ChainAscent(objective))
