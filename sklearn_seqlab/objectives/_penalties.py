"""Penalties on coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["ElasticNet"]


@dataclass(frozen=True, eq=False)
class ElasticNet:
    """``(1 - l1_ratio) / 2 * ||coef||^2 + l1_ratio * ||coef||_1`` over the penalised coefficients.

    Parameters
    ----------
    penalised : ndarray of shape (n_coef,), dtype=float64
        1 for a coefficient that is penalised, 0 for one that is free (an intercept).
    l1_ratio : float
    """

    penalised: np.ndarray
    l1_ratio: float

    @property
    def l1(self) -> np.ndarray | None:
        """Weight of each absolute value, for the solver; None without an l1 part."""
        return self.l1_ratio * self.penalised if self.l1_ratio > 0 else None

    def add_smooth(self, coef: np.ndarray, value: float, gradient: np.ndarray) -> float:
        """Add the squared part to ``gradient`` in place and to ``value``."""
        if self.l1_ratio == 1:
            return value
        shrunk = (1 - self.l1_ratio) * coef
        shrunk *= self.penalised
        gradient += shrunk
        return value + 0.5 * float(shrunk @ coef)
