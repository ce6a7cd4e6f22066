"""Kernels of time steps: read, evaluated, and what repeats in the data they are evaluated on."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import kmeans_plusplus
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state

__all__ = [
    "Kernels",
    "distinct_rows",
    "group_columns",
    "inducing_rows",
    "is_linear",
    "linear_gram",
    "merge_columns",
    "read_kernels",
    "squared_norms",
]

# k-means++ sees at most so many rows for each centre.
_ROWS_PER_CENTRE = 40

# Squares of larger values than the first are kept away from; larger square matrices than the second are refused.
_LARGE, _MOST_ROWS = 1e100, 20_000

Kernels = list[Kernel] | None
"""None is the linear kernel; else one for all labels, or one for each."""


def is_linear(kernel: Any) -> bool:
    return isinstance(kernel, str)


def read_kernels(kernel: Any, n_labels: int) -> Kernels:
    """Copies of the kernels that the argument stands for.

    Raises
    ------
    ValueError
        If a list does not have one kernel per label.
    TypeError
        If something is no kernel.
    """
    if is_linear(kernel):
        return None
    kernels = list(kernel) if isinstance(kernel, list | tuple) else [kernel]
    for k, one in enumerate(kernels):
        if not isinstance(one, Kernel):
            place = f"kernel[{k}]" if isinstance(kernel, list | tuple) else "kernel"
            raise TypeError(f"{place} is {one!r:.60}; expected a kernel of sklearn.gaussian_process.kernels.")
    if isinstance(kernel, list | tuple) and len(kernels) != n_labels:
        raise ValueError(f"kernel has {len(kernels)} entries, but y has {n_labels} labels.")
    return [clone(one) for one in kernels]


def linear_gram(rows: Any, others: Any) -> np.ndarray:
    product = rows @ others.T
    return product.toarray() if sparse.issparse(product) else product


def squared_norms(rows: Any) -> np.ndarray:
    if sparse.issparse(rows):
        return np.asarray(rows.power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


def distinct_rows(values: Any) -> tuple[Any, np.ndarray]:
    """The rows that differ, in an order that does not depend on that of ``values``, and which of them each row is."""
    if sparse.issparse(values):
        keys = [
            values.indices[a:b].astype(np.int64).tobytes() + b"|" + values.data[a:b].tobytes()
            for a, b in zip(values.indptr[:-1], values.indptr[1:], strict=True)
        ]
        place = {key: k for k, key in enumerate(sorted(set(keys)))}
        index = np.array([place[key] for key in keys], dtype=np.intp)
        first = np.full(len(place), len(keys), dtype=np.intp)
        np.minimum.at(first, index, np.arange(len(keys)))
        return values[first], index
    rows, index = np.unique(values, axis=0, return_inverse=True)
    return rows, index.ravel().astype(np.intp)


def group_columns(values: Any) -> np.ndarray:
    """Numbers (n_features,) of groups of columns that are equal in all rows.

    Groups of many values come first: weights that are read most then share few cache lines.
    """
    if not sparse.issparse(values):
        _, group = np.unique(values.T, axis=0, return_inverse=True)
        return _numbered(group.ravel(), np.count_nonzero(values, axis=0))[0]
    columns = sparse.csc_array(values)
    columns.sort_indices()
    count = np.bincount(values.indices[values.data != 0], minlength=values.shape[1])
    # equal columns have equal sums of products with anything; equal sums are confirmed below
    probe = np.random.RandomState(0).standard_normal((values.shape[0], 2))
    _, group = np.unique(columns.T @ probe, axis=0, return_inverse=True)
    group, first = _numbered(group.ravel(), count)
    if (columns != columns[:, first[group]]).nnz:
        group, _ = _numbered(np.arange(len(group)), count)
    return group


def _numbered(group: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Groups numbered by decreasing count of their columns, then by their first columns, and these."""
    first = np.full(group.max() + 1, len(group), dtype=np.intp)
    np.minimum.at(first, group, np.arange(len(group)))
    order = np.lexsort((first, -count[first]))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place[group].astype(np.intp), first[order]


def merge_columns(values: Any, group: np.ndarray) -> Any:
    """Mean of the columns of each group, (n_rows, n_groups); of equal columns, that column."""
    size = np.bincount(group)
    places = (1.0 / size[group], (np.arange(len(group)), group))
    merge = sparse.csr_array(places, shape=(len(group), len(size)))
    if sparse.issparse(values):
        merged = sparse.csr_array(values @ merge)
        merged.sort_indices()
        # a sum of c times 1 / c is 1 only up to rounding
        near = np.round(merged.data)
        merged.data = np.where(np.abs(merged.data - near) < 1e-12, near, merged.data)
        return merged
    return np.ascontiguousarray(values @ merge)


def check_memory(what: str, n_rows: int, n_matrices: int, cure: str) -> None:
    """Refuse square matrices over too many rows.

    Raises
    ------
    ValueError
        Naming how much memory they would take.
    """
    if n_rows > _MOST_ROWS:
        needed = 8 * n_matrices * n_rows**2 / 2**30
        raise ValueError(f"{what} over {n_rows:,} distinct time steps takes about {needed:.0f} GiB; {cure}.")


def inducing_rows(rows: np.ndarray, n_inducing: int, random_state: Any) -> np.ndarray:
    """Rows that are spread over the data: k-means++ on a sample; all of them where there are no more."""
    if len(rows) <= n_inducing:
        return rows
    random = check_random_state(random_state)
    if len(rows) > _ROWS_PER_CENTRE * n_inducing:
        chosen = random.choice(len(rows), _ROWS_PER_CENTRE * n_inducing, replace=False)
        rows = rows[np.sort(chosen)]
    # distances of large values would leave the double range
    largest = np.abs(rows).max()
    chosen = kmeans_plusplus(rows / largest if largest > _LARGE else rows, n_inducing, random_state=random)[1]
    return rows[chosen]
