"""Cutting planes, as an objective hands them to a solver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Planes"]


class Planes(NamedTuple):
    """Cutting planes as sparse rows: ``slack >= offset - values @ coef``.

    Attributes
    ----------
    indptr : ndarray of shape (n_planes + 1,), dtype=intp
    indices : ndarray of shape (n_stored,), dtype=intp
        Increasing within a plane.
    values : ndarray of shape (n_stored,)
    offset : ndarray of shape (n_planes,)
    violation : ndarray of shape (n_planes,)
        ``offset - values @ coef`` at the coefficients for which the planes were asked.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    offset: np.ndarray
    violation: np.ndarray

    def row(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices and values of one plane."""
        part = slice(self.indptr[k], self.indptr[k + 1])
        return self.indices[part], self.values[part]

    @property
    def n_planes(self) -> int:
        return len(self.offset)
