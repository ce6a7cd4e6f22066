"""Margin solvers on a problem of their own: the quadratic programme, averages, and one optimum for all."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from sklearn_seqlab.objectives import Planes
from sklearn_seqlab.solvers import frank_wolfe, one_slack, simplex_qp, subgradient, working_set
from sklearn_seqlab.solvers._averaging import Average


def worst_violation(gram, linear, group, caps, a):
    """How far a point is from the Karush-Kuhn-Tucker conditions."""
    gain = linear - gram @ a
    worst = max(0.0, -a.min(), (np.bincount(group, weights=a, minlength=len(caps)) - caps).max())
    for g, cap in enumerate(caps):
        inside = group == g
        price = max(0.0, gain[inside].max(initial=0.0))
        # what the group's cap could earn less what it does
        worst = max(worst, cap * price - a[inside] @ gain[inside])
    return worst


@pytest.mark.parametrize("rank", [2, 5, 40])
def test_simplex_qp_meets_the_optimality_conditions(rank, rng):
    for _ in range(10):
        n, n_groups = 25, int(rng.integers(1, 6))
        planes = rng.normal(size=(n, rank)) * 10.0 ** rng.uniform(-1, 3)
        group, caps = rng.integers(0, n_groups, n), rng.uniform(0.1, 3, n_groups)
        gram, linear = planes @ planes.T, rng.normal(size=n) + 0.5
        a = simplex_qp(gram, linear, group, caps)
        assert worst_violation(gram, linear, group, caps, a) < 1e-5
        again = simplex_qp(gram, linear, group, caps, a)
        assert_allclose(
            again @ linear - 0.5 * again @ gram @ again, a @ linear - 0.5 * a @ gram @ a, atol=1e-7
        )


def test_simplex_qp_takes_twin_planes_and_planes_of_zeros():
    planes = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    linear = np.array([1.0, 1.0, 0.0, 3.0])
    a = simplex_qp(planes @ planes.T, linear, np.array([0, 0, 0, 1]), np.array([0.5, 2.0]))
    assert_allclose([a[:2].sum(), a[3]], [0.5, 0.75], atol=1e-6)


def test_simplex_qp_leaves_a_cap_that_does_not_pay():
    a = simplex_qp(np.array([[4.0]]), np.ones(1), np.zeros(1, dtype=int), np.ones(1), np.ones(1))
    assert_allclose(a, 0.25)


class Hinges:
    """Blocks with three random planes each, dense."""

    def __init__(self, rng, n_blocks=8, n_coef=4):
        self.rows = rng.normal(size=(n_blocks, 3, n_coef))
        self.offsets = rng.uniform(0.5, 1.5, size=(n_blocks, 3))
        self.n_coef, self.caps = n_coef, rng.uniform(0.1, 2.0, n_blocks)
        self.runs = [(s, s + 1) for s in range(n_blocks)]

    def violations(self, coef):
        return self.offsets - self.rows @ coef

    def slacks(self, coef):
        return np.maximum(self.violations(coef).max(axis=1), 0.0)

    def planes(self, coef, first, last, scale=1.0):
        found = self.violations(scale * coef)[first:last]
        at = found.argmax(axis=1)
        rows = np.arange(last - first)
        return Planes(
            np.arange(last - first + 1) * self.n_coef,
            np.tile(np.arange(self.n_coef), last - first),
            self.rows[first:last][rows, at].ravel(),
            self.offsets[first:last][rows, at],
            found[rows, at],
        )

    def all_planes(self, coef):
        return [self.planes(coef, *run) for run in self.runs], self.slacks(coef)

    def optimum(self):
        """By a general solver, with the slacks as variables."""
        n, m = self.n_coef, len(self.caps)
        constraint = {
            "type": "ineq",
            "fun": lambda z: (z[n:, None] - self.violations(z[:n])).ravel(),
        }
        start = np.r_[np.zeros(n), self.slacks(np.zeros(n))]
        found = minimize(
            lambda z: 0.5 * z[:n] @ z[:n] + self.caps @ z[n:],
            start,
            jac=lambda z: np.r_[z[:n], self.caps],
            bounds=[(None, None)] * n + [(0, None)] * m,
            constraints=[constraint],
            options={"ftol": 1e-13, "maxiter": 500},
        )
        return found.fun


def test_all_solvers_reach_one_optimum(rng):
    problem = Hinges(rng)
    expected = problem.optimum()
    C = problem.caps.sum()
    outcomes = {
        "working_set": working_set(problem, tol=1e-9, max_iter=500, random_state=0),
        "one_slack": one_slack(problem, tol=1e-9, max_iter=500),
        "frank_wolfe": frank_wolfe(problem, tol=1e-3, max_iter=3000, random_state=0),
        "subgradient": subgradient(problem, C=C, tol=2e-2, max_iter=3000, random_state=0),
    }
    for name, outcome in outcomes.items():
        assert outcome.converged, name
        assert outcome.dual <= expected * (1 + 1e-7) and outcome.value >= expected * (1 - 1e-7), name
        assert outcome.gap >= 0
    for name in ("working_set", "one_slack"):
        assert_allclose(outcomes[name].value, expected, rtol=1e-6)


@pytest.mark.parametrize("solve", [working_set, frank_wolfe])
def test_a_start_is_where_the_last_run_ended(solve, rng):
    problem = Hinges(rng)
    first = solve(problem, tol=1e-3, max_iter=2000, random_state=0)
    second = solve(problem, tol=1e-3, max_iter=2000, random_state=0, start=first.solution)
    assert second.n_iter <= 2 and second.dual_history[1] >= first.dual * (1 - 1e-9)
    coef = first.solution.coef(problem.n_coef)
    dual = first.solution.multiplier @ first.solution.offset - 0.5 * coef @ coef
    assert_allclose(dual, first.dual_history[-1], rtol=1e-9)


@pytest.mark.parametrize("increasing", [True, False])
def test_lazy_averages_are_averages(increasing, rng):
    mean, coef, iterates = Average(3, increasing), np.zeros(3), []
    for _ in range(7):
        for _ in range(rng.integers(0, 3)):
            index, value = np.array([rng.integers(3)]), rng.normal(size=1)
            mean.moved(index, value, 2.0)
            coef[index] += 2.0 * value
        mean.step()
        iterates.append(coef.copy())
    weight = np.arange(1, 8) if increasing else np.ones(7)
    assert_allclose(mean.of(coef), weight @ np.array(iterates) / weight.sum(), atol=1e-12)
