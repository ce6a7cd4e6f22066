"""Solvers on objectives whose minimum is known, and on the worked numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from worked_numbers import t2

from sklearn_seqlab.objectives import ChainLogLikelihood
from sklearn_seqlab.sequences import encode_labels, pack
from sklearn_seqlab.solvers import lbfgs, owlqn, report


class Quadratic:
    """``0.5 * coef' H coef - b' coef`` with a badly scaled H, plus absolute values if asked."""

    def __init__(self, scales, b, l1=None):
        rng = np.random.default_rng(0)
        mix = rng.normal(size=(len(b), len(b)))
        self.hessian = (mix @ mix.T + np.eye(len(b))) * np.outer(scales, scales)
        self.b = b * scales
        self.scale, self.size = scales, 1.0
        self.l1 = l1
        self.n_coef = len(b)
        self.n_calls = 0

    def value_and_gradient(self, coef):
        self.n_calls += 1
        product = self.hessian @ coef
        return 0.5 * coef @ product - self.b @ coef, product - self.b


def t2_objective(**options):
    X, y = t2()
    batch = pack(X)
    labels = encode_labels(y, batch.offsets)
    return ChainLogLikelihood(
        batch,
        labels,
        weight=np.ones(4),
        fit_intercept=False,
        allowed_transitions=np.ones((3, 3), bool),
        **options,
    )


def test_lbfgs_reaches_the_worked_optimum():
    # penalty 0.5 / 2 * ||w||^2 is C = 2 and half the objective
    outcome = lbfgs(t2_objective(C=2.0), np.zeros(21), tol=1e-9)
    assert outcome.converged
    assert_allclose(outcome.value / 2, 15.3891222879, atol=1e-6)
    assert_allclose(outcome.coef @ outcome.coef, 5.24328510528, atol=1e-4)


def test_owlqn_reaches_the_worked_optimum():
    # penalty 0.5 * ||w||_1 is C = 2 and half the objective
    outcome = owlqn(t2_objective(C=2.0, l1_ratio=1.0), np.zeros(21), tol=1e-9)
    assert outcome.converged
    assert_allclose(outcome.value / 2, 17.5674627042, atol=1e-6)
    assert np.count_nonzero(np.abs(outcome.coef) > 1e-5) == 11


@pytest.mark.parametrize("largest", [1.0, 1e3, 1e8])
def test_scales_of_the_variables_do_not_matter(largest):
    scales = np.geomspace(1, largest, 12)
    objective = Quadratic(scales, np.linspace(-1, 2, 12))
    outcome = lbfgs(objective, np.zeros(12), tol=1e-9)
    assert outcome.converged and outcome.n_iter < 60
    exact = (
        np.linalg.solve(Quadratic(np.ones(12), objective.b / scales).hessian, objective.b / scales) / scales
    )
    assert_allclose(outcome.coef * scales, exact * scales, rtol=1e-6)


@pytest.mark.parametrize("largest", [1.0, 1e3])
def test_owlqn_meets_the_optimality_conditions(largest):
    scales = np.geomspace(1, largest, 12)
    l1 = 0.7 * scales
    l1[0] = 0.0
    objective = Quadratic(scales, np.linspace(-1, 2, 12), l1)
    outcome = owlqn(objective, np.zeros(12), tol=1e-9, max_iter=2000)
    _, gradient = objective.value_and_gradient(outcome.coef)
    zero = outcome.coef == 0
    assert 0 < zero.sum() < 12
    assert (np.abs(gradient / scales)[zero] <= l1[zero] / scales[zero] + 1e-7).all()
    assert_allclose((gradient + l1 * np.sign(outcome.coef))[~zero] / scales[~zero], 0, atol=1e-7)


def test_running_out_of_iterations_is_reported():
    outcome = lbfgs(Quadratic(np.ones(12), np.linspace(-1, 2, 12)), np.zeros(12), max_iter=3, tol=1e-12)
    assert not outcome.converged and outcome.n_iter == 3 and len(outcome.history) == 4
    assert all(a > b for a, b in zip(outcome.history, outcome.history[1:], strict=False))
    with pytest.warns(ConvergenceWarning, match="after 3 iterations: max_iter was reached. Do this"):
        report(outcome, "Do this.")


def test_interruption_keeps_the_best_point():
    objective = Quadratic(np.ones(12), np.linspace(-1, 2, 12))
    evaluate = objective.value_and_gradient

    def interrupt(coef):
        if objective.n_calls == 6:
            raise KeyboardInterrupt
        return evaluate(coef)

    objective.value_and_gradient = interrupt
    outcome = lbfgs(objective, np.zeros(12), tol=1e-12)
    assert outcome.interrupted and not outcome.converged
    assert_allclose(evaluate(outcome.coef)[0], outcome.value, rtol=1e-12)
    assert outcome.value == min(outcome.history)


def test_starting_point_is_not_written_to():
    start = np.ones(12)
    for solver, l1 in ((lbfgs, None), (owlqn, np.ones(12))):
        solver(Quadratic(np.ones(12), np.linspace(-1, 2, 12), l1), start)
    assert (start == 1).all()


@pytest.mark.parametrize("value", [(np.nan, np.zeros(2)), (1.0, np.array([0.0, np.inf]))])
def test_an_objective_that_is_not_finite_is_an_error(value):
    objective = Quadratic(np.ones(2), np.ones(2))
    objective.value_and_gradient = lambda coef: value
    with pytest.raises(ValueError, match="not finite at the starting point"):
        lbfgs(objective, np.zeros(2))


def test_a_warm_start_stops_where_a_cold_one_does():
    objective = Quadratic(np.ones(12), np.linspace(-1, 2, 12))
    cold = lbfgs(objective, np.zeros(12), tol=1e-6)
    warm = lbfgs(objective, cold.coef, tol=1e-6)
    assert warm.converged and warm.n_iter == 0


def test_the_whole_objective_may_be_tiny():
    objective = Quadratic(np.ones(12), np.linspace(-1, 2, 12))
    exact = lbfgs(objective, np.zeros(12), tol=1e-9).coef
    evaluate = objective.value_and_gradient
    objective.value_and_gradient = lambda coef: tuple(1e-12 * part for part in evaluate(coef))
    objective.size = 1e-12
    outcome = lbfgs(objective, np.zeros(12), tol=1e-9)
    assert outcome.converged
    assert_allclose(outcome.coef, exact, rtol=1e-6)
