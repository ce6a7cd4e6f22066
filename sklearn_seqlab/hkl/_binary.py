"""The binary problem: one lattice, a mean hinge loss and a bias that costs nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_seqlab.hkl._inner import InnerPoint, MarginCuts
from sklearn_seqlab.hkl._lattice import Nodes
from sklearn_seqlab.objectives import GroupPlanes

__all__ = ["BinaryCuts", "SignedRows"]

# The bias is a weight of a constant input of this size: its own penalty, a ten-thousandth of its square, is in the
# quadratic programme only, for the sake of a bounded solution, and moves the objective by its square.
_CONSTANT = 100.0


class SignedRows(NamedTuple):
    """Weighted rows with signs.

    Attributes
    ----------
    row : ndarray of shape (n_pairs,), dtype=intp
    sign : ndarray of shape (n_pairs,)
        1 or -1.
    share : ndarray of shape (n_pairs,)
        Weights, which sum to one.
    n_rows : int
    """

    row: np.ndarray
    sign: np.ndarray
    share: np.ndarray
    n_rows: int
    n_labels: int = 1

    @property
    def n_sequences(self) -> int:
        return len(self.row)


class SignedMargin:
    """Mean hinge loss of signed rows; what :class:`MarginCuts` asks for."""

    may_be_quick = False

    def __init__(self, pairs: SignedRows, n_groups: int, fit_intercept: bool):
        self.sequences = pairs
        self.n_groups = min(n_groups, len(pairs.row))
        self.group = np.arange(len(pairs.row)) % self.n_groups
        self.constant = _CONSTANT if fit_intercept else 0.0

    def planes(self, emission: np.ndarray, transition: np.ndarray) -> GroupPlanes:
        """Planes at scores (n_rows, 1) of rows and the weight (1, 1) of the constant."""
        pairs = self.sequences
        score = emission[pairs.row, 0] + self.constant * transition[0, 0]
        slack = np.maximum(1.0 - pairs.sign * score, 0.0)
        weight = np.where(slack > 0, pairs.share, 0.0)
        signed = weight * pairs.sign
        key, size = self.group * pairs.n_rows + pairs.row, self.n_groups * pairs.n_rows
        moves = self.constant * np.bincount(self.group, signed, self.n_groups)
        return GroupPlanes(
            np.bincount(key, signed, size).reshape(self.n_groups, pairs.n_rows),
            moves[:, None],
            np.bincount(self.group, weight, self.n_groups),
            np.bincount(self.group, pairs.share * slack, self.n_groups),
            float(pairs.share @ slack),
        )


class BinaryCuts(MarginCuts):
    """Cutting planes of the hinge loss of signed rows."""

    def solve(
        self, nodes: Nodes, active: np.ndarray, delta: np.ndarray, allowance: float, max_rounds: int = 1000
    ) -> InnerPoint:
        """See :class:`MarginCuts`; ``transition`` is the bias."""
        point = super().solve(nodes, active, delta, allowance, max_rounds)
        if not self.margin.constant:
            return point._replace(price_of_moves=0.0, moves=np.zeros((1, 1)))
        # the residuals of a bias that costs nothing sum to zero: take off what is too much, row by row
        rows, excess = point.rows.copy(), float(point.rows.sum())
        over = rows * np.sign(excess) > 0
        rows[over] *= 1.0 - excess / float(rows[over].sum()) if over.any() else 1.0
        return point._replace(
            transition=self.margin.constant * point.transition,
            price_of_moves=0.0,
            rows=rows,
            moves=np.zeros((1, 1)),
            linear=point.linear - abs(excess),
        )
