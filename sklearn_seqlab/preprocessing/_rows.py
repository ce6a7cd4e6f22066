"""The rows of all sequences in one table of any kind, and such a table cut back into sequences.

Unlike :func:`~sklearn_seqlab.sequences.pack` this leaves values as they are: text, NaN and categories are the
business of the transformer that gets them.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.sequences._batch import _shape_message, _stack_sparse, as_csr, as_items

__all__ = ["cut_rows", "join_rows", "stack_rows", "take_rows"]


def stack_rows(X: Iterable[Any], *, name: str = "X") -> tuple[Any, np.ndarray]:
    """Lay sequences end to end.

    Parameters
    ----------
    X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
        Or, for transformers of text and dicts, lists of n_timesteps str or dict.
    name : str, default="X"
        What messages call the argument.

    Returns
    -------
    rows : ndarray, csr_array, data frame or list, with n_total rows
        A frame if all sequences are frames; sparse if one is.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    """
    wish = f"(n_timesteps, n_features) per sequence; wrap a single one as [{name}]"
    items = as_items(X, name=name, wish=wish)
    parts = [_as_part(item, f"{name}[{s}]") for s, item in enumerate(items)]
    kinds = [_kind(part) for part in parts]
    for s, kind in enumerate(kinds):
        if ("list" in (kind, kinds[0]) or "frame" in (kind, kinds[0])) and kind != kinds[0]:
            raise TypeError(f"{name}[{s}] is a {kind} of rows, but {name}[0] is a {kinds[0]}.")
    offsets = np.zeros(len(parts) + 1, dtype=np.intp)
    np.cumsum([_n_rows(part) for part in parts], out=offsets[1:])
    if kinds[0] != "list":
        _check_columns(parts, kinds[0], name)
    return join_rows(parts), offsets


def join_rows(parts: list[Any]) -> Any:
    """Tables of the same columns, one below the other; sparse if one of them is."""
    kinds = {_kind(part) for part in parts}
    if kinds == {"list"}:
        return [row for part in parts for row in part]
    if kinds == {"frame"}:
        import pandas as pd  # optional dependency, here only if the caller has it

        return pd.concat(parts, ignore_index=True)
    if "sparse" in kinds:
        return _stack_sparse([sparse.csr_array(part) for part in parts])
    return np.concatenate(parts, axis=0)


def take_rows(rows: Any, index: np.ndarray) -> Any:
    """The rows of a table at ``index``."""
    if _kind(rows) == "list":
        return [rows[i] for i in index]
    if _kind(rows) == "frame":
        return rows.iloc[index].reset_index(drop=True)
    return rows[index]


def cut_rows(rows: Any, offsets: np.ndarray) -> list[Any]:
    """Cut a table at ``offsets`` into a list of tables of the same kind.

    Frames get a new index from 0. Sparse tables become CSR; dense and sparse ones share memory with ``rows``.
    """
    bounds = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    if _kind(rows) == "frame":
        return [rows.iloc[start:stop].reset_index(drop=True) for start, stop in bounds]
    if not sparse.issparse(rows):
        return [rows[start:stop] for start, stop in bounds]
    # cheaper than slicing the matrix, and nothing is copied but indptr
    rows = rows.tocsr()
    data, indices, indptr, n_columns, kind = rows.data, rows.indices, rows.indptr, rows.shape[1], type(rows)
    starts = indptr[offsets].tolist()
    empty: dict[int, Any] = {}  # the constructor costs ten times as much as a copy
    parts = []
    for (start, stop), first, last in zip(bounds, starts[:-1], starts[1:], strict=True):
        part = data[first:last], indices[first:last], indptr[start : stop + 1] - indptr[start]
        if indptr.dtype != np.int32:  # may be narrowed
            parts.append(kind(part, shape=(stop - start, n_columns)))
            continue
        if stop - start not in empty:
            empty[stop - start] = kind((stop - start, n_columns), dtype=data.dtype)
        matrix = copy(empty[stop - start])
        matrix.data, matrix.indices, matrix.indptr = part
        parts.append(matrix)
    return parts


def _kind(rows: Any) -> str:
    if sparse.issparse(rows):
        return "sparse"
    if hasattr(rows, "iloc"):
        return "frame"
    return "list" if isinstance(rows, list) else "dense"


def _n_rows(rows: Any) -> int:
    return len(rows) if isinstance(rows, list) else rows.shape[0]


def _as_part(item: Any, label: str) -> Any:
    """One sequence as CSR, frame, 2-D array, or list of str or dict."""
    if sparse.issparse(item):
        if item.ndim != 2:
            raise ValueError(_shape_message(item.shape, label))
        part = as_csr(item, label)
    elif hasattr(item, "iloc") and getattr(item, "ndim", 0) == 2:
        part = item
    elif _is_list_of(item, (str, dict)):
        return list(item)
    else:
        if isinstance(item, str | bytes | dict | set | frozenset):
            kind = type(item).__name__
            raise TypeError(f"{label} is a {kind}; expected an array of shape (n_timesteps, n_features).")
        try:
            part = np.asarray(item)
        except ValueError as error:
            raise ValueError(f"{label} is not a rectangular array: {error}") from error
    if part.ndim != 2:
        raise ValueError(_shape_message(part.shape, label))
    if part.shape[0] == 0:
        raise ValueError(f"{label} has 0 time steps (shape {part.shape}); at least one is needed.")
    return part


def _is_list_of(item: Any, types: tuple[type, ...]) -> bool:
    if not isinstance(item, list | tuple):
        is_object_array = isinstance(item, np.ndarray) and item.dtype.kind == "O" and item.ndim == 1
        if not is_object_array:
            return False
    return len(item) > 0 and all(isinstance(row, types) for row in item)


def _check_columns(parts: list[Any], kind: str, name: str) -> None:
    for s, part in enumerate(parts):
        if kind == "frame" and list(part.columns) != list(parts[0].columns):
            raise ValueError(
                f"{name}[{s}] has columns {list(part.columns)}, but {name}[0] has {list(parts[0].columns)}."
            )
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"{name}[{s}] has {part.shape[1]} features, but {name}[0] has {parts[0].shape[1]} features."
            )
        if kind != "frame" and (part.dtype.kind in "US") != (parts[0].dtype.kind in "US"):
            # NumPy would turn the numbers into text without a word
            raise TypeError(f"{name}[{s}] has dtype {part.dtype}, but {name}[0] has dtype {parts[0].dtype}.")
