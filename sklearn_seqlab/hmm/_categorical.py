"""Channels of integer codes: a probability for each label and code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from sklearn_seqlab.hmm._gaussian import Parameters, Statistics


def gather(values: np.ndarray, mass: np.ndarray) -> Statistics:
    """By channel the codes that occur, and their weights (n_labels, n_codes)."""
    categories, counts = [], []
    for column in values.T:
        seen = np.flatnonzero(~np.isnan(column))
        codes, position = np.unique(column[seen], return_inverse=True)
        carries = sparse.csr_array(
            (np.ones(len(seen)), (position, np.arange(len(seen)))), shape=(len(codes), len(seen))
        )
        categories.append(codes)
        counts.append(np.ascontiguousarray((carries @ mass[seen]).T))
    return {"categories": categories, "counts": counts}


def merge(a: Statistics, b: Statistics) -> Statistics:
    """Statistics of two sets of steps together; either may know codes that the other does not."""
    categories, counts = [], []
    parts = zip(a["categories"], a["counts"], b["categories"], b["counts"], strict=True)
    for codes_a, counts_a, codes_b, counts_b in parts:
        codes = np.union1d(codes_a, codes_b)
        total = np.zeros((len(counts_a), len(codes)))
        total[:, np.searchsorted(codes, codes_a)] += counts_a
        total[:, np.searchsorted(codes, codes_b)] += counts_b
        categories.append(codes)
        counts.append(total)
    return {"categories": categories, "counts": counts}


def grow(stats: Statistics, place: np.ndarray, n_labels: int) -> Statistics:
    """The same with more labels: old label ``k`` becomes label ``place[k]``."""
    counts = []
    for part in stats["counts"]:
        counts.append(np.zeros((n_labels, part.shape[1])))
        counts[-1][place] = part
    return {"categories": stats["categories"], "counts": counts}


def estimate(stats: Statistics, alpha: float, var_floor: float) -> Parameters:
    """Smoothed shares of the codes; the same for all where nothing was seen."""
    probability = []
    for counts in stats["counts"]:
        n_codes = counts.shape[1]
        total = counts.sum(axis=1, keepdims=True) + n_codes * alpha
        share = (counts + alpha) / np.where(total > 0, total, 1.0)
        probability.append(np.where(total > 0, share, 1.0 / max(n_codes, 1)))
    return {"categories": stats["categories"], "probability": probability}


def scores(values: np.ndarray, params: Parameters) -> np.ndarray:
    """Log-probabilities (n, n_labels), nats; NaN and codes that ``fit`` did not see add nothing."""
    out = 0.0
    for column, codes, table in zip(values.T, params["categories"], _tables(params), strict=True):
        out = out + table[_positions(column, codes)]
    return np.asarray(out)


def row_scorer(params: Parameters) -> Callable[[np.ndarray], np.ndarray]:
    """``scores`` of one step (n_channels,), with as few operations as can be."""
    tables = [
        {code: row for code, row in zip(codes.tolist(), table, strict=False)}
        for codes, table in zip(params["categories"], _tables(params), strict=True)
    ]
    zero = np.zeros(len(_tables(params)[0][0]))

    def row(x: np.ndarray) -> np.ndarray:
        out = zero
        for value, table in zip(x.tolist(), tables, strict=True):
            out = out + table.get(value, zero)
        return out

    return row


def is_unseen(values: np.ndarray, params: Parameters) -> np.ndarray:
    """Which values (n, n_channels) are codes that ``fit`` did not see; NaN is none."""
    unseen = np.empty(values.shape, dtype=bool)
    for k, (column, codes) in enumerate(zip(values.T, params["categories"], strict=True)):
        unseen[:, k] = (_positions(column, codes) == len(codes)) & ~np.isnan(column)
    return unseen


def log_likelihood(stats: Statistics, params: Parameters) -> float:
    """Log-probability of all steps behind the statistics."""
    total = 0.0
    rows = zip(stats["categories"], stats["counts"], params["categories"], params["probability"], strict=True)
    for codes, counts, all_codes, p in rows:
        total += float(xlogy(counts, p[:, np.searchsorted(all_codes, codes)]).sum())
    return total


def log_prior(params: Parameters) -> float:
    """What one smoothing count adds to the log of the objective."""
    return float(sum(np.log(p).sum() for p in params["probability"]))


def _tables(params: Parameters) -> list[np.ndarray]:
    """Log-probabilities (n_codes + 1, n_labels) by channel; the last row, of zeros, is for all else."""
    with np.errstate(divide="ignore"):
        return [np.vstack([np.log(p).T, np.zeros(len(p))]) for p in params["probability"]]


def _positions(column: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Where each value stands among the codes; their number if it is none of them."""
    if not len(codes):
        return np.zeros(len(column), dtype=np.intp)
    position = np.minimum(np.searchsorted(codes, column), len(codes) - 1)
    return np.where(codes[position] == column, position, len(codes))
