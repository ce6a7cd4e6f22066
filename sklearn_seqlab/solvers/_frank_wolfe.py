"""Block-coordinate Frank-Wolfe on the dual of a margin problem."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.solvers._averaging import Average
from sklearn_seqlab.solvers._margin import (
    Callback,
    Certificate,
    DualSolution,
    MarginOutcome,
    MarginProblem,
    due,
)
from sklearn_seqlab.solvers._plane_kernels import add_scaled, weighted_sum

__all__ = ["frank_wolfe"]


def frank_wolfe(
    problem: MarginProblem,
    *,
    max_iter: int = 100,
    tol: float = 1e-3,
    average: bool = True,
    random_state: Any = None,
    start: DualSolution | None = None,
    callback: Callback | None = None,
) -> MarginOutcome:
    """Minimise a sum of slacks plus half the squared norm; arguments as in :func:`working_set`.

    Notes
    -----
    Keeps one combination of planes per block, no cache: memory does not grow with the passes. The average weighs
    iterates by their numbers; its dual value is a bound of its own. Lacoste-Julien, Jaggi, Schmidt and Pletscher,
    "Block-coordinate Frank-Wolfe optimization for structural SVMs", ICML 2013.
    """
    random = check_random_state(random_state)
    judge = Certificate(problem, tol, callback)
    outcome = judge.outcome
    coef = np.zeros(problem.n_coef)
    # of each block: its share of the coefficients as sorted indices and values, and its share of the dual
    shares = [(np.empty(0, dtype=np.intp), np.empty(0)) for _ in problem.caps]
    linear = np.zeros(len(problem.caps))
    if start is not None and (start.block >= 0).all():
        for k, s in enumerate(start.block):
            indices, values = start.row(k)
            known_indices, known_values = shares[s]
            shares[s] = _merged(known_indices, known_values, 1.0, indices, values, float(start.multiplier[k]))
            linear[s] += start.multiplier[k] * start.offset[k]
            add_scaled(indices, values, float(start.multiplier[k]), coef)
    mean = Average(problem.n_coef) if average else None
    try:
        while outcome.n_iter < max_iter and not outcome.converged:
            estimated_gap = 0.0
            for r in random.permutation(len(problem.runs)):
                first, last = problem.runs[r]
                planes = problem.planes(coef, first, last)
                outcome.n_oracle_calls += planes.n_planes
                for k, s in enumerate(range(first, last)):
                    indices, values = planes.row(k)
                    cap, offset = problem.caps[s], planes.offset[k]
                    violation = offset - float(values @ coef[indices])
                    if violation <= 0:  # the block does best without any plane
                        indices, values, offset, violation = indices[:0], values[:0], 0.0, 0.0
                    own_indices, own_values = shares[s]
                    gap = float(own_values @ coef[own_indices]) - linear[s] + cap * violation
                    both, direction = _merged(own_indices, own_values, -1.0, indices, values, cap)
                    length = float(direction @ direction)
                    if not np.isfinite(length):
                        raise ValueError(
                            "Products of features are beyond what double precision holds. "
                            "Scale the features (StandardScaler)."
                        )
                    step = min(1.0, max(0.0, gap) / length) if length > 0 else float(gap > 0)
                    estimated_gap += max(0.0, gap)
                    if step > 0:
                        add_scaled(both, direction, step, coef)
                        shares[s] = _merged(own_indices, own_values, 1.0 - step, indices, values, step * cap)
                        gain = step * (cap * offset - linear[s])
                        linear[s] += gain
                        if mean is not None:
                            mean.moved(both, direction, step, gain)
                    if mean is not None:
                        mean.step()
            dual = float(linear.sum()) - 0.5 * float(coef @ coef)
            if due(outcome.n_iter + 1, max_iter, estimated_gap, dual, tol):
                judge.offer(coef)
                if mean is not None:
                    averaged = mean.of(coef)
                    judge.offer(averaged)
                    of_average = mean.of_number(float(linear.sum())) - 0.5 * float(averaged @ averaged)
                    dual = max(dual, of_average)
            judge.end_pass(dual)
    except KeyboardInterrupt:
        judge.interrupt()
    judge.finish(coef)
    # a share is a mixture of planes times its cap: as a plane it is the mixture, and its multiplier may reach the cap
    caps = problem.caps
    rows = [
        (indices, values / cap, float(part / cap))
        for (indices, values), part, cap in zip(shares, linear, caps, strict=True)
    ]
    outcome.solution = DualSolution.of(rows, caps.tolist(), list(range(len(rows))))
    return outcome


def _merged(
    indices: np.ndarray, values: np.ndarray, factor: float,
    more_indices: np.ndarray, more_values: np.ndarray, more_factor: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """``factor * values + more_factor * more_values`` as sorted indices and values."""
    size = len(indices) + len(more_indices)
    both, total = np.empty(size, dtype=np.intp), np.empty(size)
    n = weighted_sum(indices, values, factor, more_indices, more_values, more_factor, both, total)
    return both[:n], total[:n]
