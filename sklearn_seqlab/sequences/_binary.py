"""The check of models whose inputs are 0 and 1."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.sequences._batch import PackedBatch

__all__ = ["check_binary"]


def check_binary(batch: PackedBatch) -> None:
    """Refuse inputs other than 0 and 1.

    Raises
    ------
    ValueError
        Naming the first such value, its sequence, time step and column.
    """
    values = batch.values
    if batch.is_sparse:
        bad = np.flatnonzero((values.data != 0) & (values.data != 1))
        if not len(bad):
            return
        row = int(np.searchsorted(values.indptr, bad[0], side="right")) - 1
        column, value = int(values.indices[bad[0]]), values.data[bad[0]]
    else:
        places = np.flatnonzero(((values != 0) & (values != 1)).ravel())
        if not len(places):
            return
        row, column = (int(k) for k in np.unravel_index(places[0], values.shape))
        value = values[row, column]
    s = int(np.searchsorted(batch.offsets, row, side="right")) - 1
    title = "" if batch.feature_names is None else f" ({batch.feature_names[column]!r})"
    raise ValueError(
        f"X[{s}] holds {value:g} at time step {row - batch.offsets[s]}, column {column}{title}; expected 0 or 1. "
        "Binarise the inputs first, with Binarizer or KBinsDiscretizer in make_sequence_pipeline."
    )
