"""Sequences in files: written one by one, read where they are used, so that a corpus may be larger than the memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from operator import index
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.sequences._batch import PackedBatch, as_matrix, blocks, check_finite, rows_of_csr

__all__ = ["StoredSequences", "write_sequences"]

_VERSION = 1
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_PARTS = {"dense": ("values", "offsets"), "csr": ("data", "indices", "indptr", "offsets")}

# Column numbers are stored in 32 bits where every number of a stored value fits.
_LARGEST_INDEX = np.iinfo(np.int32).max


class StoredSequences(Sequence):
    """A list of sequences that lies in files, as :func:`write_sequences` has written them.

    Parameters
    ----------
    folder : str or path-like

    Attributes
    ----------
    folder : Path
    n_features : int
    is_sparse : bool

    Raises
    ------
    ValueError, OSError
        If the folder does not hold such files, or they contradict each other.

    Notes
    -----
    ``X[s]`` is the array or CSR matrix of a sequence, mapped from its file. Estimators take the object in place of a
    list. :class:`~sklearn_seqlab.LinearChainCRF` reads it piece by piece, in ``fit`` as in ``predict``, and keeps
    labels, weights and offsets alone in memory; others, transformers and splits of a cross-validation copy what they
    use. With ``restrict_features`` weights are looked up one by one, and dense values are copied. Sequences that
    ``fit`` leaves out (of weight zero, without labels, held out) make it copy the rest.

    The files must not change while the object is used. A pickle holds the name of the folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn_seqlab import LinearChainCRF
    >>> from sklearn_seqlab.sequences import write_sequences
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     X = write_sequences(folder, (np.eye(3)[[k, 2 - k]] for k in range(3)))
    ...     LinearChainCRF().fit(X, [["a", "b"]] * 3).predict(X)[0]
    array(['a', 'b'], dtype='<U1')
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        try:
            about = json.loads((self.folder / "sequences.json").read_text(encoding="utf-8"))
            version, kind, self.n_features = about["version"], about["kind"], int(about["n_features"])
            names = _PARTS[kind]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.folder / 'sequences.json'} does not describe sequences.") from error
        if version != _VERSION:
            raise ValueError(f"{self.folder} was written in format {version}; this version reads {_VERSION}.")
        parts = {name: np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in names}
        self.is_sparse = kind == "csr"
        offsets = parts.pop("offsets")
        if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind != "i":
            raise ValueError(f"{self.folder / 'offsets.npy'} does not hold where sequences begin.")
        self._offsets = np.array(offsets, dtype=np.intp)
        self._values = self._joined(parts)

    def _joined(self, parts: dict[str, np.ndarray]) -> Any:
        """The values as one matrix; refused where a compiled routine would read beside the files."""
        offsets, shape = self._offsets, (int(self._offsets[-1]), self.n_features)
        sound = (
            offsets.ndim == 1 and len(offsets) > 1 and offsets[0] == 0 and bool((np.diff(offsets) > 0).all())
        )
        if not self.is_sparse:
            sound = sound and parts["values"].shape == shape and parts["values"].dtype in _REAL
        else:
            indices, indptr = parts["indices"], parts["indptr"]
            sound = (
                sound
                and indptr.shape == (shape[0] + 1,)
                and indptr.dtype == indices.dtype
                and indptr.dtype.kind == "i"
                and parts["data"].dtype in _REAL
                and indptr[0] == 0
                and bool((np.diff(indptr) >= 0).all())
                and parts["data"].shape == indices.shape == (int(indptr[-1]),)
                and all(0 <= indices[b].min() and indices[b].max() < shape[1] for b in blocks(len(indices)))
            )
        if not sound:
            raise ValueError(f"The files in {self.folder} contradict each other.")
        if not self.is_sparse:
            return parts["values"]
        matrix = sparse.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=shape, copy=False)
        matrix.has_canonical_format = True
        return matrix

    def packed(self) -> PackedBatch:
        """The batch, whose values stay in the files."""
        return PackedBatch(self._values, self._offsets, is_mapped=True)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self._one(s) for s in range(*key.indices(len(self)))]
        s = index(key)
        if not -len(self) <= s < len(self):
            raise IndexError(f"{s} is no number of {len(self)} sequences.")
        return self._one(s % len(self))

    def __iter__(self) -> Iterator[Any]:
        return (self._one(s) for s in range(len(self)))

    def _one(self, s: int) -> Any:
        start, stop = self._offsets[s : s + 2]
        return rows_of_csr(self._values, start, stop) if self.is_sparse else self._values[start:stop]

    def __repr__(self) -> str:
        return f"StoredSequences({str(self.folder)!r}): {len(self)} sequences, {self.n_features} features"

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredSequences, (str(self.folder.resolve()),)


def write_sequences(folder: str | os.PathLike, X: Iterable[Any]) -> StoredSequences:
    """Write sequences to files, one at a time.

    Parameters
    ----------
    folder : str or path-like
        Made where it is missing. Files of an earlier call are replaced in the end, if all goes well; ``X`` may be what
        they hold.
    X : iterable of array-like or sparse matrix of shape (n_timesteps, n_features)
        May be a generator. All sparse or all dense, as the first; real and finite. 32-bit values stay so, if all
        sequences have them. Names of columns are not kept.

    Returns
    -------
    stored : StoredSequences

    Raises
    ------
    ValueError, TypeError
        Naming the sequence, as estimators do; the folder is then as it was.

    Notes
    -----
    Memory: one sequence, and 8 bytes a time step.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="writing-") as place:
        _write(Path(place), X)
        # the description goes first and comes last: what is half replaced is not read
        (folder / "sequences.json").unlink(missing_ok=True)
        for file in sorted(Path(place).iterdir(), key=lambda file: file.suffix == ".json"):
            file.replace(folder / file.name)  # who has mapped the old file keeps it
    return StoredSequences(folder)


def _write(folder: Path, X: Iterable[Any]) -> None:
    files: dict[str, _GrowingFile] = {}
    lengths: list[int] = []
    counts: list[np.ndarray] = []
    kind, n_features, dtype = "", 0, np.dtype(np.float64)
    try:
        for s, item in enumerate(X):
            label = f"X[{s}]"
            matrix = as_matrix(item, label, True, as_stored=True)
            is_csr = sparse.issparse(matrix)
            if not files:
                kind, n_features, dtype = "csr" if is_csr else "dense", matrix.shape[1], matrix.dtype
                if is_csr:
                    columns = np.dtype(np.int32 if n_features <= _LARGEST_INDEX else np.int64)
                    files["data"] = _GrowingFile(folder / "data.npy", dtype, ())
                    files["indices"] = _GrowingFile(folder / "indices.npy", columns, ())
                else:
                    files["values"] = _GrowingFile(folder / "values.npy", dtype, (n_features,))
            if is_csr != (kind == "csr"):
                raise TypeError(
                    f"{label} is {'sparse' if is_csr else 'dense'}, but X[0] is not; write all alike."
                )
            if matrix.dtype.itemsize > dtype.itemsize:
                raise TypeError(
                    f"{label} has values of {matrix.dtype}, but X[0] of {dtype}; write all alike."
                )
            if matrix.shape[1] != n_features:
                raise ValueError(
                    f"{label} has {matrix.shape[1]} features, but X[0] has {n_features} features."
                )
            check_finite(PackedBatch(matrix, np.array([0, matrix.shape[0]])), False, "X", first=s)
            lengths.append(matrix.shape[0])
            if is_csr:
                matrix = matrix.copy()
                matrix.sum_duplicates()
                files["data"].append(matrix.data)
                files["indices"].append(matrix.indices)
                counts.append(np.diff(matrix.indptr))
            else:
                files["values"].append(matrix)
        if not lengths:
            raise ValueError("X holds no sequences (n_samples=0); at least one is needed.")
    finally:
        for file in files.values():
            file.close()
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
    if kind == "csr":
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts), dtype=np.int64)])
        narrow = max(int(indptr[-1]), len(indptr), n_features) <= _LARGEST_INDEX
        np.save(folder / "indptr.npy", indptr.astype(np.int32 if narrow else np.int64))
        if not narrow:
            _widen(folder / "indices.npy")
    about = {"version": _VERSION, "kind": kind, "n_features": n_features}
    (folder / "sequences.json").write_text(json.dumps(about), encoding="utf-8")


class _GrowingFile:
    """An ``.npy`` file whose first axis grows; its header has room for the final length."""

    def __init__(self, path: Path, dtype: np.dtype, row: tuple[int, ...]):
        self.dtype, self.row, self.n_rows = dtype, row, 0
        self.file = path.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        shape = (self.n_rows, *self.row)
        about = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, about)

    def append(self, rows: np.ndarray) -> None:
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.n_rows += len(rows)

    def close(self) -> None:
        self.file.seek(0)
        self._write_header()
        self.file.close()


def _widen(path: Path) -> None:
    """Store column numbers in 64 bits, block by block."""
    narrow = np.load(path, mmap_mode="r")
    if narrow.dtype == np.int64:
        return
    wide = _GrowingFile(path.with_suffix(".wide"), np.dtype(np.int64), ())
    for block in blocks(len(narrow)):
        wide.append(narrow[block])
    wide.close()
    path.with_suffix(".wide").replace(path)
