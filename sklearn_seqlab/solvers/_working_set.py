"""Block ascent on the dual, with a cache of planes for every block."""

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
from sklearn_seqlab.solvers._plane_kernels import add_scaled, ascend_block, products

__all__ = ["PlaneCache", "working_set"]

# Pairwise steps inside a block at a visit, and visits after which a plane without a multiplier is dropped.
_N_STEPS, _N_IDLE = 10, 20


def working_set(
    problem: MarginProblem,
    *,
    max_iter: int = 100,
    tol: float = 1e-3,
    n_inner: int = 10,
    average: bool = False,
    random_state: Any = None,
    start: DualSolution | None = None,
    callback: Callback | None = None,
) -> MarginOutcome:
    """Minimise a sum of slacks plus half the squared norm, a block at a time.

    Parameters
    ----------
    problem : MarginProblem
    max_iter : int, default=100
        Largest number of passes over the blocks.
    tol : float, default=1e-3
        See :class:`Certificate`.
    n_inner : int, default=10
        Passes over the cached planes alone after each pass with new ones.
    average : bool, default=False
        Whether averages of the iterates are tried as well as the last ones.
    random_state : int, RandomState or None
        For the order of blocks.
    start : DualSolution, default=None
    callback : callable, default=None
        Called with the pass and the objective.

    Returns
    -------
    outcome : MarginOutcome

    Notes
    -----
    A pass visits the runs of blocks in random order: it asks for the most violated plane of each block, adds it to
    the block's cache and takes exact pairwise steps on the multipliers of that block. Passes over the caches alone
    follow, which ask for nothing. ``spec`` "chain models" 6; of the family of Shalev-Shwartz and Zhang,
    "Stochastic dual coordinate ascent methods", JMLR 2013.
    """
    random = check_random_state(random_state)
    judge = Certificate(problem, tol, callback)
    outcome = judge.outcome
    coef, caches = _from(start, problem)
    mean = Average(problem.n_coef) if average else None
    work = np.zeros(problem.n_coef)
    try:
        while outcome.n_iter < max_iter and not outcome.converged:
            estimated_gap = 0.0
            for r in random.permutation(len(problem.runs)):
                first, last = problem.runs[r]
                planes = problem.planes(coef, first, last)
                outcome.n_oracle_calls += planes.n_planes
                for k, cache in enumerate(caches[first:last]):
                    cache.add(*planes.row(k), planes.offset[k], coef, work)
                    estimated_gap += cache.ascend(problem.caps[first + k], coef, mean)
            remaining = estimated_gap
            for _ in range(n_inner):
                if remaining <= 0.1 * estimated_gap:
                    break
                remaining = 0.0
                for s in random.permutation(len(caches)):
                    remaining += caches[s].ascend(problem.caps[s], coef, mean)
            for cache in caches:
                cache.drop_idle()
            dual = sum(cache.linear_part for cache in caches) - 0.5 * float(coef @ coef)
            if due(outcome.n_iter + 1, max_iter, estimated_gap, dual, tol):
                judge.offer(coef)
                if mean is not None:
                    judge.offer(mean.of(coef))
            judge.end_pass(dual)
    except KeyboardInterrupt:
        judge.interrupt()
    judge.finish(coef)
    outcome.solution = _solution(caches)
    return outcome


class PlaneCache:
    """The planes found so far for one block, their products and their multipliers."""

    def __init__(self) -> None:
        self.indptr = np.zeros(1, dtype=np.intp)
        self.indices, self.values = np.empty(0, dtype=np.intp), np.empty(0)
        self.offset, self.multiplier, self.gain, self.change = (np.empty(0) for _ in range(4))
        self.gram = np.empty((0, 0))
        self.idle = np.empty(0, dtype=int)

    @property
    def linear_part(self) -> float:
        """Multipliers times offsets: what the block adds to the dual beside the norm."""
        return float(self.multiplier @ self.offset)

    def add(
        self, indices: np.ndarray, values: np.ndarray, offset: float, coef: np.ndarray, work: np.ndarray,
        multiplier: float = 0.0,
    ) -> None:  # fmt: skip
        """Add a plane, unless it is no more violated at ``coef`` than those that are there.

        ``work`` is an array of zeros (n_coef,), and is so again afterwards.
        """
        if multiplier == 0.0:
            violation = offset - float(values @ coef[indices])
            products(self.indptr, self.indices, self.values, coef, self.gain)
            known = max(0.0, float((self.offset - self.gain).max(initial=0.0)))
            if violation <= known + 1e-14 * (1.0 + abs(offset)):
                return
        n = len(self.offset)
        gram = np.empty((n + 1, n + 1))
        gram[:n, :n] = self.gram
        work[indices] = values
        products(self.indptr, self.indices, self.values, work, gram[n, :n])
        work[indices] = 0.0
        gram[:n, n] = gram[n, :n]
        gram[n, n] = values @ values
        if not np.isfinite(gram[n]).all():
            raise ValueError(
                "Products of features are beyond what double precision holds. Scale the features (StandardScaler)."
            )
        self.gram = gram
        self.indptr = np.append(self.indptr, self.indptr[-1] + len(indices))
        self.indices, self.values = np.append(self.indices, indices), np.append(self.values, values)
        self.offset, self.multiplier = np.append(self.offset, offset), np.append(self.multiplier, multiplier)
        self.gain, self.change = np.empty(n + 1), np.zeros(n + 1)
        self.idle = np.append(self.idle, 0)

    def row(self, k: int | np.integer) -> tuple[np.ndarray, np.ndarray]:
        part = slice(self.indptr[k], self.indptr[k + 1])
        return self.indices[part], self.values[part]

    def ascend(self, cap: float, coef: np.ndarray, mean: Average | None = None) -> float:
        """Steps on the multipliers, which move ``coef``; returns the gap of the block before them."""
        if not len(self.offset):
            return 0.0
        gap = ascend_block(
            self.indptr, self.indices, self.values, self.offset, self.gram, cap, _N_STEPS, 0.0,
            self.multiplier, self.gain, self.change, coef,
        )  # fmt: skip
        if mean is not None:
            for k in np.flatnonzero(self.change):
                mean.moved(*self.row(k), self.change[k])
            mean.step()
        return gap

    def drop_idle(self) -> None:
        """Forget planes whose multiplier has been zero for a while."""
        self.idle = np.where(self.multiplier > 0, 0, self.idle + 1)
        kept = self.idle < _N_IDLE
        if kept.all():
            return
        stored = np.repeat(kept, np.diff(self.indptr))
        self.indptr = np.concatenate([[0], np.cumsum(np.diff(self.indptr)[kept])]).astype(np.intp)
        self.indices, self.values = self.indices[stored], self.values[stored]
        self.gram = np.ascontiguousarray(self.gram[np.ix_(kept, kept)])
        self.offset, self.multiplier, self.idle = self.offset[kept], self.multiplier[kept], self.idle[kept]
        self.gain, self.change = np.empty(kept.sum()), np.zeros(kept.sum())


def _from(start: DualSolution | None, problem: MarginProblem) -> tuple[np.ndarray, list[PlaneCache]]:
    caches = [PlaneCache() for _ in range(len(problem.caps))]
    coef, work = np.zeros(problem.n_coef), np.zeros(problem.n_coef)
    if start is None or (start.block < 0).any():
        return coef, caches
    for k, s in enumerate(start.block):
        indices, values = start.row(k)
        caches[s].add(indices, values, float(start.offset[k]), coef, work, float(start.multiplier[k]))
        add_scaled(indices, values, float(start.multiplier[k]), coef)
    return coef, caches


def _solution(caches: list[PlaneCache]) -> DualSolution:
    rows, multiplier, block = [], [], []
    for s, cache in enumerate(caches):
        for k in np.flatnonzero(cache.multiplier > 0):
            rows.append((*cache.row(k), float(cache.offset[k])))
            multiplier.append(float(cache.multiplier[k]))
            block.append(s)
    return DualSolution.of(rows, multiplier, block)
