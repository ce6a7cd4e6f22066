"""Steps along remembered gradients: what is remembered against the objective, and where they end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from random_chains import LAYOUTS, make_objective

from sklearn_seqlab.objectives import ChainAverages, ChainLogLikelihood
from sklearn_seqlab.sequences import encode_training_labels, pack
from sklearn_seqlab.solvers import average_gradient, lbfgs


def solve(objective, start=None, averages=ChainAverages, **options):
    start = np.zeros(objective.n_coef) if start is None else start
    n_sequences = objective.batch.n_sequences
    return average_gradient(
        objective, lambda coef, factor: averages(objective, coef, factor), start, n_sequences, **options
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cost", [False, True])
def test_a_run_starts_from_the_gradient_itself(layout, cost, rng):
    objective = make_objective(rng, layout, cost=cost)
    coef = 0.5 * rng.normal(size=objective.n_coef)
    run = ChainAverages(objective, coef)
    assert_array_equal(run.coef(), coef)
    value, gradient = objective.value_and_gradient(coef)
    seen, remembered = run.value_and_gradient()
    assert_allclose(seen, value, rtol=1e-12)
    assert_allclose(remembered, gradient, atol=1e-11 * np.abs(gradient).max())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_remembered_is_of_the_last_visit(layout, rng):
    """Steps of no length: after them, the sums are still those of all sequences at the iterate."""
    objective = make_objective(rng, layout)
    coef = 0.5 * rng.normal(size=objective.n_coef)
    run = ChainAverages(objective, coef, 0.0)
    run.draw(rng.random(200))
    assert_array_equal(run.coef(), coef)
    gradient = objective.value_and_gradient(coef)[1]
    assert_allclose(run.value_and_gradient()[1], gradient, atol=1e-11 * np.abs(gradient).max())
    # and after real ones, those of every sequence where it was last seen: once all are seen at a standstill, exact
    run.factor = 1.0
    run.draw(rng.random(100))
    run.factor = 0.0
    run.draw(0.5 + (np.arange(40) + 0.5) / 80)
    value, gradient = objective.value_and_gradient(run.coef())
    seen, remembered = run.value_and_gradient()
    assert_allclose(seen, value, rtol=1e-12)
    assert_allclose(remembered, gradient, atol=1e-11 * np.abs(gradient).max())


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"start_end": False}, {"scale": 1e4}])
def test_a_step_is_one_along_the_average(options, rng):
    """A step on each of two visits, against the same steps written out over whole vectors."""
    objective = make_objective(rng, "dense", **options)
    coef = rng.normal(size=objective.n_coef) / objective.scale
    run, n = ChainAverages(objective, coef), 40
    tree = run._memory[3]
    sums, expected = (objective.value_and_gradient(coef)[1] - objective.penalty.penalised * coef), coef
    for s in (3, 7):
        one = objective.restricted_to(np.array([s]))
        # the remembered gradient of the sequence was found at the start
        sums = sums - one.data_value_and_gradient(coef)[1] + one.data_value_and_gradient(expected)[1]
        run._memory[4][:, 0] = 9  # no test of curvatures on the way
        step = 0.5 / tree[len(tree) // 2 :].max() + 0.5 * n / tree[1]
        run.draw(np.array([0.5 + 0.5 * (s + 0.5) / n]))
        unit = objective.scale**-2.0
        rate = objective.penalty.penalised / (objective.C * n)
        expected = (expected - step * unit * sums / (objective.C * n)) / (1 + rate * step * unit)
        assert_allclose(run.coef(), expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


def test_curvatures_bound_the_loss_along_its_gradient(rng):
    objective = make_objective(rng, scale=2.0)
    coef = 0.3 * rng.normal(size=objective.n_coef)
    run = ChainAverages(objective, coef)
    tree = run._memory[3]
    curvature = tree[len(tree) // 2 :][:40]
    for s in range(40):
        one = objective.restricted_to(np.array([s]))

        def loss(c, one=one):
            value, gradient = one.data_value_and_gradient(c)
            return value / objective.C, gradient / objective.C

        value, gradient = loss(coef)
        square = np.sum(np.square(gradient / objective.scale))

        def holds(guess, value=value, gradient=gradient, square=square, loss=loss):
            moved = loss(coef - gradient / objective.scale**2 / guess)[0]
            return moved <= value - 0.5 * square / guess

        assert holds(curvature[s]) and not holds(curvature[s] / 2)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cost", [False, True])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"scale": 1e4}, {"start_end": False}])
def test_averages_lead_to_the_optimum(layout, cost, options, rng):
    objective = make_objective(rng, layout, cost=cost, **options)
    best = lbfgs(objective, np.zeros(objective.n_coef), tol=1e-9, max_iter=3000).value
    outcome = solve(objective, tol=1e-7, random_state=0)
    assert outcome.converged
    assert best * (1 - 1e-9) <= outcome.value <= best * (1 + 1e-6)
    assert_allclose(objective.value_and_gradient(outcome.coef)[0], outcome.value, rtol=1e-12)
    assert_allclose(outcome.history[-1], outcome.value, rtol=1e-4)
    again = solve(objective, tol=1e-7, random_state=0)
    assert_array_equal(again.coef, outcome.coef)


def test_forbidden_moves_stay_forbidden(rng):
    allowed = np.array([[True, True, True], [True, True, True], [False, True, True]])
    X = [rng.normal(size=(6, 2)) for _ in range(10)] + [np.ones((1, 2))]
    y = [[0, 2, 2, 1, 1, 0], [2, 2, 1, 0, 1, 2]] * 5 + [[1]]
    batch = pack(X)
    labels = encode_training_labels(y, batch.offsets)
    objective = ChainLogLikelihood(batch, labels, weight=np.ones(11), allowed_transitions=allowed)
    outcome = solve(objective, tol=1e-7, random_state=0)
    best = lbfgs(objective, np.zeros(objective.n_coef), tol=1e-9).value
    assert outcome.converged and outcome.value <= best * (1 + 1e-6)
    assert np.isfinite(outcome.coef).all()


def test_steps_that_are_lost_start_again_shorter(rng):
    class Astray(ChainAverages):
        def draw(self, draws):
            super().draw(draws)
            self.is_lost = self.factor > 0.3

    objective = make_objective(rng)
    outcome = solve(objective, averages=Astray, tol=1e-5, random_state=0)
    assert outcome.converged
    assert_allclose(outcome.history[1:3], outcome.history[0])
    best = lbfgs(objective, np.zeros(objective.n_coef), tol=1e-9).value
    assert outcome.value <= 1.001 * best


def test_an_interrupted_run_keeps_what_it_has(rng):
    class Interrupted(ChainAverages):
        def draw(self, draws):
            super().draw(draws)
            if self.value_and_gradient()[0] < 380.0:
                raise KeyboardInterrupt

    objective = make_objective(rng)
    outcome = solve(objective, averages=Interrupted, random_state=0)
    assert outcome.interrupted and outcome.value < outcome.history[0]
    assert_allclose(objective.value_and_gradient(outcome.coef)[0], outcome.value)


def test_what_averages_cannot_take_is_refused(rng):
    objective = make_objective(rng, partial=True)
    with pytest.raises(ValueError, match="known labels"):
        ChainAverages(objective, np.zeros(objective.n_coef))
    objective = make_objective(rng, l1_ratio=0.5)
    with pytest.raises(ValueError, match="squared penalty"):
        ChainAverages(objective, np.zeros(objective.n_coef))
