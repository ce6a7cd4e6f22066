"""Lists of sequences in, one packed batch out: the only place where inputs are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "PackedBatch",
    "as_csr",
    "as_matrix",
    "blocks",
    "check_finite",
    "check_sparse",
    "pack",
    "rows_of_csr",
    "unpack",
]

# Values looked at in one go, so that what is made of them for a moment stays small.
_BLOCK_SIZE = 2**20


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """Sequences laid end to end; below this line arrays are trusted.

    Attributes
    ----------
    values : ndarray or csr_array of shape (n_total, n_features), dtype=float64 or float32
        The rows of all sequences; dense values are C-contiguous.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
        Sequence ``s`` occupies rows ``offsets[s]:offsets[s + 1]``, as in ``indptr`` of a CSR matrix.
    feature_names : ndarray of shape (n_features,), dtype=object, or None
        Column names, where every sequence was a data frame.
    is_mapped : bool
        Whether the values lie in files: what needs all of them should look at them block by block.
    """

    values: Any
    offsets: np.ndarray
    feature_names: np.ndarray | None = None
    is_mapped: bool = False

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_total(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        return self.values.shape[1]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def is_sparse(self) -> bool:
        return sparse.issparse(self.values)

    def take(self, sequences: np.ndarray) -> PackedBatch:
        """Some of the sequences, in the order given, as a batch of their own."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths[sequences])]).astype(np.intp)
        return PackedBatch(self.values[rows_of(self.offsets, sequences)], offsets, self.feature_names)

    def unpack(self, rows: np.ndarray) -> np.ndarray:
        """Cut packed rows into an object array of ``n_sequences`` arrays."""
        return unpack(rows, self.offsets)


def rows_of(offsets: np.ndarray, sequences: np.ndarray) -> np.ndarray:
    """The rows of some sequences, one sequence after the other."""
    lengths = np.diff(offsets)[sequences]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(offsets[:-1][sequences], lengths) + within


def rows_of_csr(matrix: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Rows of a CSR matrix that share its memory; slicing would copy them."""
    first, last = matrix.indptr[start], matrix.indptr[stop]
    parts = matrix.data[first:last], matrix.indices[first:last], matrix.indptr[start : stop + 1] - first
    return sparse.csr_array(parts, shape=(stop - start, matrix.shape[1]))


def blocks(n: int, size: int = _BLOCK_SIZE) -> Iterator[slice]:
    """Slices that cover ``range(n)``."""
    return (slice(start, start + size) for start in range(0, n, size))


def unpack(rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Cut packed rows at ``offsets``; always a 1-D object array, also when all lengths are equal."""
    parts = np.empty(len(offsets) - 1, dtype=object)
    bounds = offsets.tolist()
    for s in range(len(parts)):
        parts[s] = rows[bounds[s] : bounds[s + 1]].copy()
    return parts


def pack(
    X: Iterable[Any],
    *,
    n_features: int | None = None,
    allow_nan: bool = False,
    accept_sparse: bool = True,
    as_stored: bool = False,
    name: str = "X",
) -> PackedBatch:
    """Check a list of sequences and lay it end to end.

    Parameters
    ----------
    X : sequence of array-like, sparse matrix or data frame, each of shape (n_timesteps, n_features)
        Real and finite, with at least one time step and the same features in every sequence. One sparse
        sequence makes the whole batch sparse.
    n_features : int, default=None
        The number of columns expected; None takes that of the first sequence.
    allow_nan : bool, default=False
        Whether NaN stands for a value that was not observed (infinity is refused all the same).
    accept_sparse : bool, default=True
        Whether sparse sequences are welcome.
    as_stored : bool, default=False
        Whether 32-bit values may stay so, if all sequences have them, and those of ``StoredSequences`` in their files.
    name : str, default="X"
        What messages call the argument.

    Returns
    -------
    batch : PackedBatch
        A copy: it never shares memory with ``X``, unless that lies in files.

    Raises
    ------
    ValueError, TypeError
        Naming the sequence, and where it applies the time step and the column.

    Notes
    -----
    Time and memory are linear in the size of ``X``.
    """
    wish = f"(n_timesteps, n_features) per sequence; wrap a single one as [{name}]"
    packed = getattr(X, "packed", None) if as_stored else None
    if packed is not None and n_features in (None, getattr(X, "n_features", None)):
        batch = packed()
        check_finite(batch, allow_nan, name)
        return batch
    items = as_items(X, name=name, wish=wish)
    alike = _pack_alike(items, n_features, accept_sparse, as_stored)
    if alike is not None:
        check_finite(alike, allow_nan, name)
        return alike
    matrices, names = [], []
    for s, item in enumerate(items):
        label = f"{name}[{s}]"
        matrices.append(as_matrix(item, label, accept_sparse, as_stored))
        names.append(_column_names(item, label))
        expected = matrices[0].shape[1] if n_features is None else n_features
        if matrices[s].shape[1] != expected:
            source = f"{name}[0] has" if n_features is None else "the estimator is expecting"
            raise ValueError(
                f"{label} has {matrices[s].shape[1]} features, but {source} {expected} features."
            )
    feature_names = _common_names(names, name)
    offsets = np.zeros(len(matrices) + 1, dtype=np.intp)
    np.cumsum([matrix.shape[0] for matrix in matrices], out=offsets[1:])
    stack = _stack_sparse if any(sparse.issparse(matrix) for matrix in matrices) else _stack_dense
    batch = PackedBatch(stack(matrices), offsets, feature_names)
    check_finite(batch, allow_nan, name)
    return batch


def _pack_alike(
    items: list[Any], n_features: int | None, accept_sparse: bool, as_stored: bool
) -> PackedBatch | None:
    """The batch of matrices that are all CSR or all dense, of one float type, checked together; not yet whether finite.

    None where anything is unusual or wrong: to check them one by one finds out what.
    """
    kinds = set(map(type, items))
    is_sparse = kinds <= {sparse.csr_array, sparse.csr_matrix}
    if not (kinds == {np.ndarray} or (is_sparse and accept_sparse)):
        return None
    parts = [item.data for item in items] if is_sparse else items
    wanted = parts[0].dtype if as_stored and parts[0].dtype == np.float32 else np.dtype(np.float64)
    if any(type(part) is not np.ndarray or part.dtype != wanted for part in parts):
        return None
    shapes = [item.shape for item in items]
    if set(map(len, shapes)) != {2} or len({n_columns for _, n_columns in shapes}) != 1:
        return None
    rows, n_columns = np.array([n_rows for n_rows, _ in shapes], dtype=np.intp), shapes[0][1]
    if n_columns == 0 or n_columns != (n_columns if n_features is None else n_features) or not rows.all():
        return None
    offsets = np.zeros(len(items) + 1, dtype=np.intp)
    np.cumsum(rows, out=offsets[1:])
    values = _join_csr(items, rows, offsets) if is_sparse else _stack_dense(items)
    return None if values is None else PackedBatch(values, offsets)


def _join_csr(items: list[Any], rows: np.ndarray, offsets: np.ndarray) -> sparse.csr_array | None:
    """CSR matrices one below the other, if every one is consistent (see ``_is_consistent``) and of one index type."""
    data, indices, indptr = (
        [item.data for item in items],
        [item.indices for item in items],
        [item.indptr for item in items],
    )
    if {type(part) for part in indices + indptr} != {np.ndarray}:
        return None
    if {(part.dtype.char, part.ndim) for part in indices + indptr} != {(np.dtype(np.int32).char, 1)}:
        return None
    if any(part.ndim != 1 for part in data) or not np.array_equal(list(map(len, indptr)), rows + 1):
        return None
    ends, columns = np.concatenate(indptr), np.concatenate(indices)
    first = offsets[:-1] + np.arange(len(items))  # where each indptr begins in `ends`
    n_stored = ends[first + rows].astype(np.intp)
    starts = np.concatenate([[0], np.cumsum(n_stored)])
    falls = ends[1:] < ends[:-1]
    falls[first[1:] - 1] = False
    if (
        ends[first].any()
        or falls.any()
        or not np.array_equal(n_stored, list(map(len, indices)))
        or not np.array_equal(n_stored, list(map(len, data)))
        or not _is_within(columns, items[0].shape[1])
        or max(starts[-1], offsets[-1], items[0].shape[1]) >= np.iinfo(np.int32).max
    ):
        return None
    joined = np.zeros(offsets[-1] + 1, dtype=np.int32)
    joined[1:] = np.delete(ends, first) + np.repeat(starts[:-1], rows)
    stacked = sparse.csr_array(
        (np.concatenate(data), columns, joined), shape=(offsets[-1], items[0].shape[1])
    )
    stacked.sum_duplicates()
    return stacked


def as_items(collection: Any, *, name: str, wish: str) -> list[Any]:
    """The members of a list-like argument, or an error that says what the argument should have been."""
    if collection is None:
        raise ValueError(f"{name} is None; expected a list with one array of shape {wish}.")
    if isinstance(collection, str | bytes | dict | set | frozenset) or not hasattr(collection, "__len__"):
        kind = type(collection).__name__
        raise TypeError(f"{name} is a {kind}; expected a list with one array of shape {wish}.")
    if sparse.issparse(collection) or hasattr(collection, "columns"):
        raise ValueError(
            f"{name} is one {type(collection).__name__} of shape {collection.shape}; "
            f"expected a list with one array of shape {wish}."
        )
    if isinstance(collection, np.ndarray) and collection.ndim == 0:
        raise ValueError(f"{name} is a scalar array; expected a list with one array of shape {wish}.")
    items = list(collection)
    if not items:
        raise ValueError(f"{name} holds no sequences (n_samples=0); at least one is needed.")
    return items


def as_matrix(item: Any, label: str, accept_sparse: bool, as_stored: bool = False) -> Any:
    """One sequence as a 2-D float64 array or CSR, sharing memory where it can; float32 may stay ``as_stored``."""
    if sparse.issparse(item):
        if not accept_sparse:
            raise TypeError(f"{label} is sparse, but dense data is required; use {label}.toarray().")
        if item.ndim != 2:
            raise ValueError(_shape_message(item.shape, label))
        matrix = as_csr(item, label)
        values = _as_real(matrix.data, label, as_stored)
        matrix = sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
    else:
        if isinstance(item, str | bytes | dict | set | frozenset):
            kind = type(item).__name__
            raise TypeError(f"{label} is a {kind}; expected an array of shape (n_timesteps, n_features).")
        if isinstance(item, np.ma.MaskedArray):
            raise TypeError(f"{label} is a masked array, whose mask would be lost; fill it first.")
        try:
            matrix = np.asarray(item)
        except ValueError as error:
            raise ValueError(f"{label} is not a rectangular array: {error}") from error
        if matrix.ndim != 2:
            raise ValueError(_shape_message(matrix.shape, label))
        matrix = _as_real(matrix, label, as_stored)
    if matrix.shape[0] == 0:
        raise ValueError(f"{label} has 0 time steps (shape {matrix.shape}); at least one is needed.")
    if matrix.shape[1] == 0:
        raise ValueError(f"{label} has 0 feature(s) (shape {matrix.shape}) while a minimum of 1 is required.")
    return matrix


def as_csr(item: Any, label: str) -> sparse.csr_array:
    """A sparse matrix as CSR, sharing memory where it can; one that contradicts itself is refused."""
    check_sparse(item, label)
    matrix = sparse.csr_array(item)
    if item.format != "csr":
        check_sparse(matrix, label)
    return matrix


def check_sparse(item: Any, label: str) -> None:
    """Refuse a sparse matrix that contradicts itself.

    SciPy's compiled routines trust the index arrays: a wrong one would make them read and write elsewhere.
    """
    if item.format in ("csr", "csc", "bsr", "coo") and not _is_consistent(item):
        raise ValueError(f"{label} is no valid sparse matrix: its index arrays contradict its shape.")


def _is_consistent(item: Any) -> bool:
    """Whether every stored entry has its place; SciPy's own check passes a negative count of entries."""
    if item.format == "coo":
        return all(
            len(index) == len(item.data) and _is_within(index, size)
            for index, size in zip((item.row, item.col), item.shape, strict=True)
        )
    n_major, n_minor = item.shape if item.format != "csc" else item.shape[::-1]
    if item.format == "bsr":
        n_major, n_minor = n_major // item.blocksize[0], n_minor // item.blocksize[1]
    indptr = item.indptr
    return (
        len(indptr) == n_major + 1
        and indptr[0] == 0
        and bool((indptr[1:] >= indptr[:-1]).all())
        and indptr[-1] <= min(len(item.indices), len(item.data))
        and _is_within(item.indices[: indptr[-1]], n_minor)
    )


def _is_within(index: np.ndarray, size: int) -> bool:
    return len(index) == 0 or bool(0 <= index.min() and index.max() < size)


def _shape_message(shape: tuple[int, ...], label: str) -> str:
    cure = ""
    if len(shape) == 1:
        cure = f" Reshape {label} with reshape(-1, 1) if it has one feature."
    if len(shape) <= 1:
        cure += " Reshape your data: a single sequence must be wrapped in a list."
    return f"{label} has {len(shape)} dimension(s) {shape}; expected shape (n_timesteps, n_features).{cure}"


def _as_real(values: np.ndarray, label: str, as_stored: bool) -> np.ndarray:
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {label} has dtype {values.dtype}.")
    if as_stored and values.dtype == np.float32:
        return values.astype(np.float32, copy=False)  # in the byte order of the machine
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # a long double beyond the double range becomes inf, refused below
            return values.astype(np.float64, copy=False)
    if values.dtype.kind == "O":
        return _object_as_real(values, label)
    raise ValueError(f"{label} has dtype {values.dtype}; expected numbers.")


def _object_as_real(values: np.ndarray, label: str) -> np.ndarray:
    """Objects read one by one, so that the message can say which of them is not a number."""
    out = np.empty(values.shape)
    for position, value in np.ndenumerate(values):
        where = "".join(f"[{i}]" for i in position)
        if isinstance(value, complex | np.complexfloating):
            raise ValueError(f"Complex data not supported: {label}{where} is {value!r}.")
        if type(value).__name__ == "NAType":
            value = np.nan
        try:
            if isinstance(value, str | bytes):
                raise TypeError("text is not a number")
            out[position] = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            # scikit-learn's checks look for these words in the message
            wish = "argument must be a string or a number"
            raise TypeError(f"{label}{where} is {value!r:.60}; expected a number ({wish}).") from error
    return out


def _column_names(item: Any, label: str) -> np.ndarray | None:
    """Names of a data frame's columns; like scikit-learn, only if all of them are strings."""
    columns = getattr(item, "columns", None)
    if columns is None or sparse.issparse(item):
        return None
    names = np.asarray(list(columns), dtype=object)
    are_str = [isinstance(column, str) for column in names]
    if any(are_str) and not all(are_str):
        raise TypeError("Feature names are only supported if all input features have string names.")
    if len(set(names.tolist())) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{label} has two columns called {twice!r}; column names must differ.")
    return names if len(names) and all(are_str) else None


def _common_names(names: list[np.ndarray | None], name: str) -> np.ndarray | None:
    first = names[0]
    for s, other in enumerate(names[1:], start=1):
        if (first is None) != (other is None):
            raise ValueError(f"{name}[{s}] and {name}[0] differ: one has column names, the other has none.")
        if first is not None and other is not None and not np.array_equal(first, other):
            raise ValueError(f"{name}[{s}] has columns {list(other)}, but {name}[0] has {list(first)}.")
    return first


def _stack_dense(matrices: list[np.ndarray]) -> np.ndarray:
    n_total = sum(matrix.shape[0] for matrix in matrices)
    values = np.empty((n_total, matrices[0].shape[1]), dtype=np.result_type(*{m.dtype for m in matrices}))
    return np.concatenate(matrices, axis=0, out=values)


def _stack_sparse(matrices: list[Any]) -> sparse.csr_array:
    """All sequences as one CSR with sorted, summed entries and the narrowest index type that holds it."""
    parts = [m if sparse.issparse(m) else sparse.csr_array(m) for m in matrices]
    n_stored = sum(part.indptr[-1] for part in parts)
    n_total = sum(part.shape[0] for part in parts)
    n_features = parts[0].shape[1]
    index = np.int32 if max(n_stored, n_total, n_features) < np.iinfo(np.int32).max else np.int64
    indptr = np.zeros(n_total + 1, dtype=index)
    row, start = 0, 0
    for part in parts:
        indptr[row + 1 : row + 1 + part.shape[0]] = part.indptr[1:] + start
        row, start = row + part.shape[0], start + part.indptr[-1]
    data = np.concatenate([part.data[: part.indptr[-1]] for part in parts])
    indices = np.concatenate([part.indices[: part.indptr[-1]] for part in parts]).astype(index, copy=False)
    stacked = sparse.csr_array((data, indices, indptr), shape=(n_total, n_features))
    stacked.sum_duplicates()
    return stacked


def check_finite(batch: PackedBatch, allow_nan: bool, name: str, first: int = 0) -> None:
    """Raise for the first value that is infinite, or NaN, naming its sequence, the batch's being ``first``, ..."""
    data = batch.values.data if batch.is_sparse else batch.values
    is_bad: Callable[[np.ndarray], np.ndarray] = np.isinf if allow_nan else lambda a: ~np.isfinite(a)
    size = _BLOCK_SIZE if batch.is_sparse else max(1, _BLOCK_SIZE // batch.n_features)
    block = next((b for b in blocks(len(data), size) if is_bad(data[b]).any()), None)
    if block is None:
        return
    at = np.argwhere(is_bad(data[block]))[0]
    at[0] += block.start
    value = data[tuple(at)]
    if batch.is_sparse:
        row = int(np.searchsorted(batch.values.indptr, at[0], side="right")) - 1
        column = int(batch.values.indices[at[0]])
    else:
        row, column = at.tolist()
    s = int(np.searchsorted(batch.offsets, row, side="right")) - 1
    title = "" if batch.feature_names is None else f" ({batch.feature_names[column]!r})"
    what = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(
        f"{name}[{first + s}] contains {what} at time step {row - batch.offsets[s]}, column {column}{title}; "
        f"expected finite numbers."
    )
