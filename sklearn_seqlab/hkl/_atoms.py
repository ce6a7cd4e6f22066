"""What conjunctions are made of: binary inputs, their complements, or thresholds on numeric inputs.

An atom says that a column is above a threshold, or that it is not. Atoms may form chains: one that says less comes
first, and those further on hold only where it does, so that a conjunction with one of them has all before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.sequences import PackedBatch

__all__ = ["atom_truth", "binary_atoms", "chains_of", "literals", "threshold_atoms"]

_DTYPE = [("column", np.intp), ("threshold", np.float64), ("negated", np.bool_)]


def binary_atoms(n_features: int, negations: bool) -> np.ndarray:
    """An atom for each binary input, and one for each complement after them.

    Returns
    -------
    atoms : structured ndarray with fields ``column``, ``threshold``, ``negated``
        An atom holds where the column is above the threshold, or not above it if negated.
    """
    signs = (False, True) if negations else (False,)
    return np.array([(column, 0.5, sign) for sign in signs for column in range(n_features)], dtype=_DTYPE)


def threshold_atoms(batch: PackedBatch, n_thresholds: int, negations: bool) -> np.ndarray:
    """Atoms at so many quantiles of the distinct values of each column; fewer where a column has few values.

    Returns
    -------
    atoms : structured ndarray
        Within a column those that say least first: rising thresholds, then falling ones for "not above".
    """
    values = batch.values.toarray() if batch.is_sparse else batch.values
    rows = []
    for column in range(batch.n_features):
        found = np.unique(values[:, column])
        middles = found[:-1] + np.diff(found) / 2
        if len(middles) > n_thresholds:
            middles = middles[np.arange(1, n_thresholds + 1) * len(middles) // (n_thresholds + 1)]
        rows += [(column, middle, False) for middle in middles]
        if negations:
            rows += [(column, middle, True) for middle in middles[::-1]]
    return np.array(rows, dtype=_DTYPE)


def chains_of(atoms: np.ndarray) -> np.ndarray:
    """The atom without which each atom cannot hold, (n_atoms,); -1 where there is none."""
    needed = np.full(len(atoms), -1)
    same = (atoms["column"][1:] == atoms["column"][:-1]) & (atoms["negated"][1:] == atoms["negated"][:-1])
    needed[1:][same] = np.flatnonzero(same)
    return needed


def atom_truth(values: Any, atoms: np.ndarray) -> np.ndarray:
    """Whether each atom holds in each row, bool of shape (n_rows, n_atoms)."""
    if sparse.issparse(values):
        used = np.unique(atoms["column"])
        columns = values[:, used].toarray()[:, np.searchsorted(used, atoms["column"])]
    else:
        columns = values[:, atoms["column"]]
    return (columns > atoms["threshold"]) != atoms["negated"]


def literals(atoms: np.ndarray, names: Sequence[str], binary: bool) -> list[str]:
    """How each atom reads in a clause."""
    texts = []
    for column, threshold, negated in atoms.tolist():
        name = names[column]
        if binary:
            literal = name if "(" in name else f"{name}(T)"  # a pattern is a body by itself
            texts.append(f"not {literal}" if negated else literal)
        else:
            texts.append(f"{name}(T) {'<=' if negated else '>'} {threshold:.6g}")
    return texts
