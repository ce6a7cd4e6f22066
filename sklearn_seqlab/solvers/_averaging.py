"""Weighted averages of iterates that move along sparse directions, at the cost of the moves."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.solvers._plane_kernels import add_scaled

__all__ = ["Average"]


class Average:
    """The average of iterates 1, 2, ..., weighted by their numbers (or all alike).

    An iterate is told by its moves: with ``S_k`` the weight of the first ``k`` iterates, a move ``d`` made on the way
    to iterate ``k`` is missing in the first ``k - 1``, so the average is the last iterate less the sum of ``S_(k-1) d``
    over ``S`` of the last.
    """

    def __init__(self, n_coef: int, increasing: bool = True):
        self.missing = np.zeros(n_coef)
        self.n_steps, self.weight, self.increasing = 0, 0.0, increasing
        self.lost = 0.0

    def moved(self, indices: np.ndarray, values: np.ndarray, factor: float, offset: float = 0.0) -> None:
        """The next iterate differs from the last by ``factor * values``, a number that goes with it by ``offset``."""
        add_scaled(indices, values, float(factor) * self.weight, self.missing)
        self.lost += self.weight * offset

    def step(self) -> None:
        """The next iterate is complete."""
        self.n_steps += 1
        self.weight += self.n_steps if self.increasing else 1.0

    def of(self, coef: np.ndarray) -> np.ndarray:
        """The average, ``coef`` being the last iterate."""
        return coef - self.missing / self.weight if self.n_steps else coef.copy()

    def of_number(self, number: float) -> float:
        """The average of the number that goes with the iterates."""
        return number - self.lost / self.weight if self.n_steps else number
