"""Cutting planes for one slack: each is a sum over all blocks, and the programme on them stays small."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.objectives import Planes
from sklearn_seqlab.solvers._margin import Callback, Certificate, DualSolution, MarginOutcome, MarginProblem
from sklearn_seqlab.solvers._simplex_qp import simplex_qp
from sklearn_seqlab.solvers._working_set import PlaneCache

__all__ = ["one_slack"]


def one_slack(
    problem: MarginProblem,
    *,
    max_iter: int = 100,
    tol: float = 1e-3,
    start: DualSolution | None = None,
    callback: Callback | None = None,
) -> MarginOutcome:
    """Minimise a sum of slacks plus half the squared norm; arguments as in :func:`working_set`.

    Notes
    -----
    An iteration asks for the planes of all blocks, possibly on several threads, adds their weighted sum as one cut and
    solves the quadratic programme over all cuts exactly. Every oracle pass gives the primal value as well. Joachims,
    Finley and Yu, "Cutting-plane training of structural SVMs", Machine Learning 2009.
    """
    judge = Certificate(problem, tol, callback)
    outcome = judge.outcome
    coef, work = np.zeros(problem.n_coef), np.zeros(problem.n_coef)
    cuts = PlaneCache()
    if start is not None and len(start.offset):
        # any dual solution is one cut, with a multiplier of one
        total = start.coef(problem.n_coef)
        support = np.flatnonzero(total)
        linear = float(start.multiplier @ start.offset)
        cuts.add(support, total[support], linear, coef, work, 1.0)
        coef += total
    one = np.ones(1)
    try:
        while outcome.n_iter < max_iter and not outcome.converged:
            planes, slacks = problem.all_planes(coef)
            outcome.n_oracle_calls += len(slacks)
            judge.offer(coef, slacks)
            indices, values, offset = _summed(planes, problem)
            before = len(cuts.offset)
            cuts.add(indices, values, offset, coef, work)
            group = np.zeros(len(cuts.offset), dtype=np.intp)
            if len(group):
                cuts.multiplier = simplex_qp(cuts.gram, cuts.offset, group, one, cuts.multiplier)
                coef = np.zeros(problem.n_coef)
                for k in np.flatnonzero(cuts.multiplier):
                    support, cut = cuts.row(k)
                    coef[support] += cuts.multiplier[k] * cut
            dual = cuts.linear_part - 0.5 * float(coef @ coef)
            converged = judge.end_pass(dual)
            if not converged and len(cuts.offset) == before and outcome.n_iter > 1:
                outcome.message = "no further plane is violated, to rounding"
                break
            cuts.drop_idle()
    except KeyboardInterrupt:
        judge.interrupt()
    judge.finish(coef)
    rows = [(*cuts.row(k), float(cuts.offset[k])) for k in range(len(cuts.offset))]
    outcome.solution = DualSolution.of(rows, list(cuts.multiplier), [-1] * len(rows))
    return outcome


def _summed(planes: list[Planes], problem: MarginProblem) -> tuple[np.ndarray, np.ndarray, float]:
    """The weighted sum of the violated planes of all blocks."""
    total, offset = np.zeros(problem.n_coef), 0.0
    for (first, last), part in zip(problem.runs, planes, strict=True):
        weight = np.where(part.violation > 0, problem.caps[first:last], 0.0)
        per_value = np.repeat(weight, np.diff(part.indptr)) * part.values
        np.add.at(total, part.indices, per_value)
        offset += float(weight @ part.offset)
    indices = np.flatnonzero(total)
    return indices, total[indices], offset
