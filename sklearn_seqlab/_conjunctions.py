"""Conjunctions of binary inputs: items, their truth at each step, and how they read.

An item is a column of ``X``, at the step itself or some steps before or after it, perhaps negated. It is false outside
the sequence, negated or not. A conjunction is a sorted tuple of item numbers; the empty one is true everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.sequences import PackedBatch, check_binary

__all__ = [
    "Conjunction",
    "clause",
    "complements",
    "conjunction_truth",
    "item_truth",
    "make_items",
    "read_window",
]

Conjunction = tuple[int, ...]


def read_window(window: Any) -> tuple[int, int]:
    """How many steps before and after each step items may look.

    Raises
    ------
    ValueError
        If it is not two integers of at least 0.
    """
    try:
        before, after = window
    except (TypeError, ValueError):
        before = after = None
    for width in (before, after):
        if isinstance(width, bool) or not isinstance(width, Integral) or width < 0:
            raise ValueError(f"window is {window!r}; expected two integers of at least 0, (before, after).")
    return int(before), int(after)


def make_items(n_features: int, window: tuple[int, int], negations: bool) -> np.ndarray:
    """All items, numbered.

    Returns
    -------
    items : structured ndarray with fields ``column``, ``offset``, ``negated``
        The columns at the step itself come first, so that without window and negations an item is a column. A negated
        item follows half the table after its plain one.
    """
    before, after = window
    offsets = sorted(range(-before, after + 1), key=lambda offset: (abs(offset), offset))
    rows = [
        (column, offset, negated)
        for negated in ((False, True) if negations else (False,))
        for offset in offsets
        for column in range(n_features)
    ]
    return np.array(rows, dtype=[("column", np.intp), ("offset", np.intp), ("negated", np.bool_)])


def complements(items: np.ndarray) -> np.ndarray:
    """The item that says the opposite of each item; -1 where there is none."""
    n_items = len(items)
    if not items["negated"].any():
        return np.full(n_items, -1)
    return (np.arange(n_items) + n_items // 2) % n_items


def item_truth(batch: PackedBatch, items: np.ndarray) -> np.ndarray:
    """Whether each item holds at each step, bool of shape (n_total, n_items), in Fortran order.

    Raises
    ------
    ValueError
        If an input is neither 0 nor 1.
    """
    check_binary(batch)
    truth = np.zeros((batch.n_total, len(items)), dtype=bool, order="F")
    within = np.arange(batch.n_total) - np.repeat(batch.offsets[:-1], batch.lengths)
    left = np.repeat(batch.lengths, batch.lengths) - within
    columns = sparse.csc_array(batch.values) if batch.is_sparse else batch.values
    for k, (column, offset, negated) in enumerate(items.tolist()):
        on = columns[:, [column]].toarray()[:, 0] if batch.is_sparse else columns[:, column]
        inside = np.flatnonzero((within + offset >= 0) & (offset < left))
        truth[inside, k] = (on[inside + offset] > 0) != negated
    return truth


def conjunction_truth(
    batch: PackedBatch, items: np.ndarray, conjunctions: Sequence[Conjunction]
) -> np.ndarray:
    """Whether each conjunction holds at each step, bool of shape (n_total, n_conjunctions)."""
    used = sorted({item for conjunction in conjunctions for item in conjunction})
    place = {item: k for k, item in enumerate(used)}
    truth = item_truth(batch, items[used])
    out = np.ones((batch.n_total, len(conjunctions)), dtype=bool)
    for k, conjunction in enumerate(conjunctions):
        for item in conjunction:
            out[:, k] &= truth[:, place[item]]
    return out


def clause(label: Any, conjunction: Conjunction, items: np.ndarray, names: Sequence[str]) -> str:
    """A conjunction as a readable clause, ``label(T) :- this(T), not that(T-1).``"""
    literals = []
    for item in conjunction:
        column, offset, negated = items[item].tolist()
        time = "T" if offset == 0 else f"T{offset:+d}"
        literals.append(f"{'not ' if negated else ''}{names[column]}({time})")
    return f"{label}(T) :- {', '.join(literals) or 'true'}."
