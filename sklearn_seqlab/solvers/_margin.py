"""What trainers of margins share: planes, the dual solution that they make up, and the duality gap.

The problem is ``min 1/2 ||coef||^2 + sum_i cap_i * slack_i(coef)``, the slack of block ``i`` being the largest of
zero and ``offset - values @ coef`` over its planes. Its dual is ``max a @ offsets - 1/2 ||sum_k a_k plane_k||^2`` over
nonnegative multipliers ``a`` of which those of block ``i`` sum to ``cap_i`` at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from sklearn_seqlab.objectives import Planes
from sklearn_seqlab.solvers._outcome import CertifiedOutcome

__all__ = ["Certificate", "DualSolution", "MarginOutcome", "MarginProblem"]

Callback = Callable[[int, float], None]


class DualSolution(NamedTuple):
    """Planes with positive multipliers: all that a solver needs to go on from.

    Attributes
    ----------
    indptr, indices, values, offset : ndarray
        As in :class:`Planes`.
    multiplier : ndarray of shape (n_planes,)
    block : ndarray of shape (n_planes,), dtype=intp
        The block of each plane; -1 for a plane that sums over all blocks.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    offset: np.ndarray
    multiplier: np.ndarray
    block: np.ndarray

    @classmethod
    def of(
        cls, rows: list[tuple[np.ndarray, np.ndarray, float]], multiplier: list[float], block: list[int]
    ) -> DualSolution:
        """From ``(indices, values, offset)`` of each plane."""
        return cls(
            np.cumsum([0] + [len(indices) for indices, _, _ in rows]).astype(np.intp),
            np.concatenate([np.empty(0, dtype=np.intp)] + [indices for indices, _, _ in rows]),
            np.concatenate([np.empty(0)] + [values for _, values, _ in rows]),
            np.array([offset for _, _, offset in rows], dtype=np.float64),
            np.array(multiplier, dtype=np.float64),
            np.array(block, dtype=np.intp),
        )

    def row(self, k: int | np.integer) -> tuple[np.ndarray, np.ndarray]:
        part = slice(self.indptr[k], self.indptr[k + 1])
        return self.indices[part], self.values[part]

    def coef(self, n_coef: int) -> np.ndarray:
        weight = np.repeat(self.multiplier, np.diff(self.indptr)) * self.values
        return np.bincount(self.indices, weights=weight, minlength=n_coef).astype(np.float64)

    def scaled(self, factor: float) -> DualSolution:
        """For caps that are ``factor`` times as large."""
        return self._replace(multiplier=factor * self.multiplier)

    def without(self, blocks: np.ndarray) -> DualSolution:
        """Without the planes of some blocks."""
        kept = np.flatnonzero(~np.isin(self.block, blocks))
        rows = [(*self.row(k), float(self.offset[k])) for k in kept]
        return DualSolution.of(rows, list(self.multiplier[kept]), list(self.block[kept]))


class MarginProblem(Protocol):
    """What a margin trainer knows of a model.

    Attributes
    ----------
    n_coef : int
    caps : ndarray of shape (n_blocks,)
        Weight of each block's slack.
    runs : list of (first, last)
        Runs of blocks whose planes are asked for together.
    """

    n_coef: int
    caps: np.ndarray
    runs: list[tuple[int, int]]

    def planes(self, coef: np.ndarray, first: int, last: int, scale: float = 1.0) -> Planes:
        """The most violated plane of each of the blocks ``first:last`` at ``scale * coef``."""
        ...

    def all_planes(self, coef: np.ndarray) -> tuple[list[Planes], np.ndarray]:
        """Planes of all blocks, run by run, and upper bounds of the slacks (n_blocks,)."""
        ...

    def slacks(self, coef: np.ndarray) -> np.ndarray:
        """Upper bounds (n_blocks,) of the slacks at ``coef``."""
        ...


@dataclass
class MarginOutcome(CertifiedOutcome):
    """The best point found, with what certifies it.

    Attributes
    ----------
    n_oracle_calls : int
        How many most violated planes were asked for, those for the certificate included.
    dual_history : list of float
        Dual objective after each pass.
    solution : DualSolution or None
    """

    n_oracle_calls: int = 0
    dual_history: list[float] = field(default_factory=list)
    solution: DualSolution | None = None


class Certificate:
    """Keeps the best primal and dual values of a run, and says when to stop.

    Parameters
    ----------
    problem : MarginProblem
    tol : float
        The run has converged where the gap is at most ``tol`` times the primal objective. Relative to it, and not
        to one: with a small weight of the slacks the objective is small from the start.
    callback : callable or None
    """

    def __init__(self, problem: MarginProblem, tol: float, callback: Callback | None):
        self.problem, self.tol = problem, tol
        self.callback = callback or (lambda iteration, value: None)
        coef = np.zeros(problem.n_coef)
        self.outcome = MarginOutcome(coef, np.inf, 0, False, "", [], dual_history=[0.0])
        self.offer(coef)
        self.outcome.history.append(self.outcome.value)

    def offer(self, coef: np.ndarray, slacks: np.ndarray | None = None) -> float:
        """Evaluate the primal objective at ``coef`` and keep it if it is the best so far."""
        if slacks is None:
            slacks = self.problem.slacks(coef)
            self.outcome.n_oracle_calls += len(slacks)
        value = 0.5 * float(coef @ coef) + float(self.problem.caps @ slacks)
        if value < self.outcome.value:
            self.outcome.value, self.outcome.coef = value, coef.copy()
        return value

    def end_pass(self, dual: float) -> bool:
        """Count a pass that reached ``dual``; returns whether the run has converged."""
        outcome = self.outcome
        outcome.n_iter += 1
        outcome.dual = max(outcome.dual, dual)
        outcome.history.append(outcome.value)
        outcome.dual_history.append(dual)
        self.callback(outcome.n_iter, outcome.value)
        outcome.converged = outcome.value - outcome.dual <= self.tol * outcome.value
        outcome.message = "the duality gap closed" if outcome.converged else "max_iter was reached"
        return outcome.converged

    def interrupt(self) -> None:
        self.outcome.interrupted, self.outcome.message = True, "interrupted"

    def finish(self, coef: np.ndarray) -> MarginOutcome:
        """Offer the last iterate of a run that ended early; it also stands where only zero is better.

        Early iterates point the right way and are far too long, so that zero has the lower objective for a while; no
        weights at all would be no answer.
        """
        outcome = self.outcome
        if not outcome.converged:
            value = self.offer(coef)
            if not outcome.coef.any() and coef.any():
                outcome.coef, outcome.value = coef.copy(), value
            outcome.history[-1] = outcome.value
        return outcome


def due(iteration: int, max_iter: int, estimated_gap: float, dual: float, tol: float) -> bool:
    """Whether the primal objective, which takes an oracle pass, is worth its evaluation after this pass."""
    small = estimated_gap <= 2 * tol * (dual + estimated_gap)
    return small or iteration % 10 == 0 or iteration == max_iter
