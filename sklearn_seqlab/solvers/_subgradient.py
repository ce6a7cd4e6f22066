"""Stochastic subgradient steps on a margin problem, and the perceptron, which is their unpenalised kin."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.solvers._averaging import Average
from sklearn_seqlab.solvers._margin import Callback, Certificate, MarginOutcome, MarginProblem
from sklearn_seqlab.solvers._plane_kernels import add_scaled

__all__ = ["SubgradientRun", "perceptron", "subgradient"]


class SubgradientRun:
    """Iterates ``coef = C / t * (sum of planes so far)``, ``t`` being the weight of the blocks seen.

    That is the step of length ``C / t`` along the subgradient of ``1/2 ||coef||^2 + C * mean slack``: neither the
    number of blocks nor the end of the stream need be known.

    Parameters
    ----------
    total : ndarray of shape (n_coef,)
        Sum of planes, each times the weight of its block.
    weight : float
        Of the blocks seen.
    C : float
    """

    def __init__(self, total: np.ndarray, weight: float, C: float):
        self.total, self.weight, self.C = total, weight, C
        self.linear = 0.0
        # weighing iterates by t leaves their sums of planes to average, all alike
        self.mean = Average(len(total), increasing=False)

    @property
    def scale(self) -> float:
        return self.C / self.weight if self.weight > 0 else 0.0

    def visit(self, problem: MarginProblem, first: int, last: int, weights: np.ndarray) -> None:
        """One step on a run of blocks."""
        planes = problem.planes(self.total, first, last, self.scale)
        for k, weight in enumerate(weights):
            self.weight += weight
            if planes.violation[k] > 0:
                self.mean.moved(*planes.row(k), weight)
                add_scaled(*planes.row(k), float(weight), self.total)
                self.linear += weight * planes.offset[k]
            self.mean.step()

    @property
    def coef(self) -> np.ndarray:
        return self.scale * self.total

    @property
    def averaged(self) -> np.ndarray:
        """Average of the iterates, weighted by their times."""
        # sum of totals, over the sum of times: close to half the weight a step
        return 2.0 * self.scale * self.mean.of(self.total)


def subgradient(
    problem: MarginProblem,
    *,
    C: float,
    max_iter: int = 100,
    tol: float = 1e-3,
    average: bool = True,
    random_state: Any = None,
    callback: Callback | None = None,
) -> MarginOutcome:
    """Minimise a sum of slacks plus half the squared norm; arguments as in :func:`working_set`.

    Notes
    -----
    With every block visited once a pass, the sum of planes is a dual solution at the end of each pass, so that even
    this solver has a gap. It closes slowly. Shalev-Shwartz, Singer and Srebro, "Pegasos", ICML 2007.
    """
    random = check_random_state(random_state)
    judge = Certificate(problem, tol, callback)
    outcome = judge.outcome
    run = SubgradientRun(np.zeros(problem.n_coef), 0.0, C)
    shares = problem.caps / C  # they sum to one
    try:
        while outcome.n_iter < max_iter and not outcome.converged:
            for r in random.permutation(len(problem.runs)):
                first, last = problem.runs[r]
                run.visit(problem, first, last, shares[first:last])
                outcome.n_oracle_calls += last - first
            coef = run.coef
            judge.offer(coef)
            if average:
                judge.offer(run.averaged)
            judge.end_pass(run.scale * run.linear - 0.5 * float(coef @ coef))
    except KeyboardInterrupt:
        judge.interrupt()
    judge.finish(run.coef)
    return outcome


def perceptron(
    problem: MarginProblem,
    *,
    weights: np.ndarray,
    scale: np.ndarray,
    max_iter: int = 50,
    average: bool = True,
    shuffle: bool = True,
    random_state: Any = None,
    callback: Callback | None = None,
) -> MarginOutcome:
    """Add the plane of every block that is labelled wrongly, pass after pass.

    Parameters
    ----------
    problem : MarginProblem
        Whose planes cost nothing: their violation is the score of the best labelling less that of the true one.
    weights : ndarray of shape (n_blocks,)
    scale : ndarray of shape (n_coef,)
        Typical size of what each coefficient multiplies; the run is that on features divided by it.
    max_iter, random_state, callback
        As in :func:`working_set`; the callback gets the number of mistakes.
    average : bool, default=True
        Whether the average of all iterates is returned, in place of the last.
    shuffle : bool, default=True
        Whether blocks come in random order.

    Returns
    -------
    outcome : MarginOutcome
        ``value`` and ``history`` count the weighted mistakes of each pass; it has converged where there are none.

    Notes
    -----
    Collins, "Discriminative training methods for hidden Markov models", EMNLP 2002.
    """
    random = check_random_state(random_state)
    callback = callback or (lambda iteration, value: None)
    coef, mean = np.zeros(problem.n_coef), Average(problem.n_coef, increasing=False)
    outcome = MarginOutcome(coef, np.inf, 0, False, "max_iter was reached", [])
    order = np.arange(len(problem.runs))
    try:
        while outcome.n_iter < max_iter and not outcome.converged:
            mistakes = 0.0
            for r in random.permutation(order) if shuffle else order:
                first, last = problem.runs[r]
                planes = problem.planes(coef, first, last)
                outcome.n_oracle_calls += last - first
                for k, weight in enumerate(weights[first:last]):
                    indices, values = planes.row(k)
                    if len(indices) and weight > 0:
                        values = values / scale[indices] / scale[indices]  # the square may leave the range
                        mistakes += weight
                        mean.moved(indices, values, weight)
                        add_scaled(indices, values, float(weight), coef)
                    mean.step()
            outcome.n_iter += 1
            outcome.value = mistakes
            outcome.history.append(mistakes)
            callback(outcome.n_iter, mistakes)
            if not mistakes:
                outcome.converged, outcome.message = True, "a pass without a mistake"
                # further passes would change nothing but the average
                mean.weight += (max_iter - outcome.n_iter) * len(problem.caps)
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
    outcome.coef = mean.of(coef) if average else coef
    return outcome
