"""The rows of the neighbours of every time step, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.sequences._batch import PackedBatch

__all__ = ["window_rows"]


def window_rows(batch: PackedBatch, before: int, after: int, fill: float = 0.0) -> Any:
    """Rows ``t - before`` to ``t + after`` of each step ``t`` side by side, earliest first.

    Windows do not reach over the ends of a sequence.

    Parameters
    ----------
    batch : PackedBatch
    before, after : int
        Nonnegative numbers of steps.
    fill : float, default=0.0
        What stands beyond the ends; 0 for sparse batches.

    Returns
    -------
    windows : ndarray or csr_array of shape (n_total, (before + 1 + after) * n_features)
    """
    if before == after == 0:
        return batch.values
    offsets = range(-before, after + 1)
    return _sparse(batch, offsets) if batch.is_sparse else _dense(batch, offsets, fill)


def _neighbours(batch: PackedBatch, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps that have a neighbour at `offset` in their own sequence, and those neighbours."""
    steps = np.arange(batch.n_total)
    first = np.repeat(batch.offsets[:-1], batch.lengths)
    stop = np.repeat(batch.offsets[1:], batch.lengths)
    steps = steps[(steps + offset >= first) & (steps + offset < stop)]
    return steps, steps + offset


def _within(batch: PackedBatch, offsets: range) -> range:
    """The offsets at which some step of the batch has a neighbour."""
    longest = int(batch.lengths.max())
    return range(max(offsets.start, 1 - longest), min(offsets.stop, longest))


def _dense(batch: PackedBatch, offsets: range, fill: float) -> np.ndarray:
    windows = np.full((batch.n_total, len(offsets), batch.n_features), float(fill))
    for offset in _within(batch, offsets):
        steps, neighbours = _neighbours(batch, offset)
        windows[steps, offset - offsets.start] = batch.values[neighbours]
    return windows.reshape(batch.n_total, -1)


def _empty(batch: PackedBatch, n_offsets: int) -> sparse.csr_array:
    return sparse.csr_array((batch.n_total, n_offsets * batch.n_features))


def _sparse(batch: PackedBatch, offsets: range) -> sparse.csr_array:
    near = _within(batch, offsets)
    shifted = [_empty(batch, near.start - offsets.start)]
    for offset in near:
        steps, neighbours = _neighbours(batch, offset)
        choose = sparse.csr_array(
            (np.ones(len(steps)), (steps, neighbours)), shape=(batch.n_total, batch.n_total)
        )
        shifted.append(choose @ batch.values)
    shifted.append(_empty(batch, offsets.stop - near.stop))
    windows = sparse.hstack(shifted, format="csr")
    windows.sort_indices()  # products of sparse matrices are not sorted
    return windows
