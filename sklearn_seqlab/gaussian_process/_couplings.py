"""What the labels around a step add to its scores: tables by offset, and which of their rows a step reads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import sparse

__all__ = ["CouplingForm", "neighbour_codes", "neighbour_rows", "soft_neighbour_rows"]


def neighbour_codes(codes: np.ndarray, offsets: np.ndarray, lags: tuple[int, ...]) -> np.ndarray:
    """Codes (n_total, n_lags) of the labels around each step; -1 outside the sequence and where unknown."""
    found = np.full((len(codes), len(lags)), -1, dtype=np.intp)
    place = np.arange(len(codes))
    of_sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    for d, lag in enumerate(lags):
        other = place + lag
        inside = (other >= offsets[of_sequence]) & (other < offsets[of_sequence + 1])
        found[inside, d] = np.maximum(codes[other[inside]], -1)
    return found


def neighbour_rows(
    codes: np.ndarray, offsets: np.ndarray, lags: tuple[int, ...], n_labels: int
) -> sparse.csr_array:
    """Indicators (n_total, n_lags * n_labels) of the labels around each step; what is unknown has none."""
    found = neighbour_codes(codes, offsets, lags)
    row, lag = np.nonzero(found >= 0)
    column = lag * n_labels + found[row, lag]
    shape = (len(codes), len(lags) * n_labels)
    return sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)


def soft_neighbour_rows(r: np.ndarray, offsets: np.ndarray, lags: tuple[int, ...]) -> sparse.csr_array:
    """The same for distributions ``r`` (n_total, n_labels) over the labels of each step."""
    n_labels = r.shape[1]
    dense = np.zeros((len(r), len(lags) * n_labels))
    for d, lag in enumerate(lags):
        columns = slice(d * n_labels, (d + 1) * n_labels)
        for start, stop in pairwise(offsets):
            first, last = max(start, start - lag), min(stop, stop - lag)
            if first < last:
                dense[first:last, columns] = r[first + lag : last + lag]
    return sparse.csr_array(dense)


class CouplingForm:
    """How free parameters make the tables: one table per offset, or one for both offsets of a pair.

    Parameters
    ----------
    lags : tuple of int
    n_labels : int
    tied : bool
        Whether ``table[+k][a, b] = table[-k][b, a]``, as in a Markov random field.
    """

    def __init__(self, lags: tuple[int, ...], n_labels: int, tied: bool = False):
        self.lags, self.n_labels, self.tied = lags, n_labels, tied
        self.distances = sorted({abs(lag) for lag in lags}) if tied else list(lags)
        self.shape = len(self.distances), n_labels, n_labels

    def expand(self, free: np.ndarray) -> np.ndarray:
        """Tables (n_lags * n_labels, n_labels), from the label there to the label here."""
        if not self.tied:
            return free.reshape(-1, self.n_labels)
        parts = [
            free[self.distances.index(abs(lag))].T if lag > 0 else free[self.distances.index(abs(lag))]
            for lag in self.lags
        ]
        return np.concatenate(parts)

    def collect(self, tables: np.ndarray) -> np.ndarray:
        """The transpose of ``expand``: what derivatives by tables are by free parameters."""
        tables = tables.reshape(len(self.lags), self.n_labels, self.n_labels)
        if not self.tied:
            return tables
        free = np.zeros(self.shape)
        for table, lag in zip(tables, self.lags, strict=True):
            free[self.distances.index(abs(lag))] += table.T if lag > 0 else table
        return free
