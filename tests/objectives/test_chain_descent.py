"""Steps on single sequences: their losses and directions against the objective that they are to lower."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from random_chains import LAYOUTS, make_objective

from sklearn_seqlab.objectives import ChainDescent, ChainLogLikelihood
from sklearn_seqlab.sequences import encode_training_labels, pack
from sklearn_seqlab.solvers import lbfgs, passes, warm_up


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("cost", [False, True])
def test_losses_and_directions_are_those_of_the_objective(layout, partial, cost, rng):
    objective = make_objective(rng, layout, partial, cost)
    coef = 0.5 * rng.normal(size=objective.n_coef)
    order, penalty = np.arange(40), objective.penalty.add_smooth(coef, 0.0, np.zeros_like(coef))
    value, gradient = objective.value_and_gradient(coef)
    still = ChainDescent(objective, coef, 0.0)
    assert_allclose(objective.C * still.sweep(order) + penalty, value, rtol=1e-12)
    assert_array_equal(still.coef(), coef)
    # a pass of tiny steps goes along the gradient of the whole
    moved = ChainDescent(objective, coef, 1e-8)
    moved.sweep(order)
    found = (coef - moved.coef()) / 1e-8 * objective.scale**2 * objective.C
    assert_allclose(found, gradient, atol=1e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"start_end": False}, {"scale": 1e6}])
def test_features_that_are_not_touched_are_caught_up(options, rng):
    """One long run of steps on one sequence: what it lacks is pulled towards zero all the same."""
    objective = make_objective(rng, **options)
    coef = rng.normal(size=objective.n_coef) / objective.scale
    run = ChainDescent(objective, coef, 0.1)
    run.sweep(np.zeros(1000, dtype=np.intp))
    # the same steps, the penalty worked in everywhere at once
    lengths = 0.1 / (1 + 0.1 / (objective.C * 40) * np.arange(1000))
    empty = np.setdiff1d(
        np.arange(4), np.flatnonzero(objective.batch.values[: objective.batch.lengths[0]].any(axis=0))
    )
    unit = objective.scale.reshape(-1)[: 4 * 3].reshape(4, 3)[empty] ** -2.0
    expected = coef[:12].reshape(4, 3)[empty] / (1 + lengths.sum() * unit / (objective.C * 40))
    assert_allclose(run.coef()[:12].reshape(4, 3)[empty], expected, rtol=1e-12)


def test_runs_in_pieces_are_one_run(rng):
    objective = make_objective(rng)
    order = rng.permutation(40)
    whole, pieces = (ChainDescent(objective, np.zeros(objective.n_coef), 0.1) for _ in range(2))
    loss = whole.sweep(order)
    assert_allclose(pieces.sweep(order[:13]) + pieces.sweep(order[13:]), loss, rtol=1e-14)
    assert_array_equal(whole.coef(), pieces.coef())
    assert pieces.sweep(order[:0]) == 0.0


def test_forbidden_moves_stay_forbidden(rng):
    allowed = np.array([[True, True, True], [True, True, True], [False, True, True]])
    X = [rng.normal(size=(6, 2)) for _ in range(10)]
    y = [[0, 2, 2, 1, None, 0], [2, None, None, 0, 1, 2]] * 5
    batch = pack(X)
    labels = encode_training_labels(y, batch.offsets)
    objective = ChainLogLikelihood(batch, labels, weight=np.ones(10), allowed_transitions=allowed)
    coef = rng.normal(size=objective.n_coef)
    value, gradient = objective.value_and_gradient(coef)
    moved = ChainDescent(objective, coef, 1e-8)
    loss = moved.sweep(np.arange(10))
    assert_allclose(loss + objective.penalty.add_smooth(coef, 0.0, np.zeros_like(coef)), value)
    found = (coef - moved.coef()) / 1e-8 * objective.scale**2
    assert_allclose(found, gradient, atol=1e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_passes_come_near_the_optimum(layout, rng):
    objective = make_objective(rng, layout)
    start = np.zeros(objective.n_coef)
    best = lbfgs(objective, start, tol=1e-8).value
    outcome = passes(
        objective, lambda coef, eta: ChainDescent(objective, coef, eta), start, 40, tol=1e-6, random_state=0
    )
    assert outcome.converged and best <= outcome.value < 1.002 * best
    assert_allclose(objective.value_and_gradient(outcome.coef)[0], outcome.value)
    again = passes(
        objective, lambda coef, eta: ChainDescent(objective, coef, eta), start, 40, tol=1e-6, random_state=0
    )
    assert_array_equal(again.coef, outcome.coef)


def test_steps_that_are_lost_start_again_shorter(rng):
    class Astray(ChainDescent):
        def sweep(self, order):
            return super().sweep(order) if self.eta < 0.05 else np.nan

    objective = make_objective(rng)
    start = np.zeros(objective.n_coef)
    outcome = passes(objective, lambda coef, eta: Astray(objective, coef, eta), start, 40, random_state=0)
    assert outcome.converged and outcome.value < outcome.history[0]
    lost = warm_up(objective, lambda coef, eta: Astray(objective, coef, 1.0), start, 40, 5, 1e-4, 0)
    assert_array_equal(lost, start)


def test_features_of_any_size_are_learnt_alike(rng):
    values = []
    for scale in (1.0, 1e6):
        objective = make_objective(np.random.default_rng(0), scale=scale)
        run = ChainDescent(objective, np.zeros(objective.n_coef), 0.1)
        values.append([run.sweep(np.arange(40)) for _ in range(5)][-1])
    assert_allclose(values[1], values[0], rtol=0.05)


def test_what_steps_cannot_take_is_refused(rng):
    objective = make_objective(rng, l1_ratio=0.5)
    with pytest.raises(ValueError, match="squared penalty"):
        ChainDescent(objective, np.zeros(objective.n_coef), 0.1)
