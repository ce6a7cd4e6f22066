"""Names of attributes to columns of CSR matrices, one matrix per sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab.feature_extraction._lookup import AttributeTable, NameTable, tidy_rows
from sklearn_seqlab.preprocessing._rows import cut_rows

# Rows are sorted by insertion where none is longer.
_LONG_ROW = 128

__all__ = ["AttributeVectorizer", "check_sequences", "csr_per_sequence"]


class _Growing(dict):
    """A vocabulary that gives every new name the next column."""

    def __missing__(self, name: str) -> int:
        self[name] = column = len(self)
        return column


class _Closed(dict):
    """A vocabulary in which every unknown name has column -1."""

    def __missing__(self, name: str) -> int:
        return -1


class _Lookup:
    """The table of a vocabulary, made when it is first needed; it is no part of the state of an estimator."""

    def __init__(self) -> None:
        self._made: tuple | None = None

    def __reduce__(self):
        return _Lookup, ()

    def table(self, vocabulary: dict[str, int]):
        """The table of a vocabulary; None for one that is no dict of str to column."""
        made = self._made
        if made is None or made[0] is not vocabulary or made[1] != len(vocabulary):
            try:
                table = NameTable(vocabulary)
            except (TypeError, ValueError, OverflowError):
                table = None
            self._made = made = vocabulary, len(vocabulary), table
        return made[2]


class AttributeVectorizer(ABC, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base of the vectorisers: one vocabulary, one CSR matrix per sequence.

    A subclass says in `_attributes` which names a sequence has; this class learns the vocabulary and builds
    the matrices. The values of a name that occurs several times in one step add up.
    """

    _acts_on_sequences = True
    _reads_names = (
        False  # whether steps are dicts or lists of names, joined by a plan that is their separator
    )
    sort = True  # a parameter of some subclasses

    def fit(self, X, y=None):
        """Learn the vocabulary.

        Parameters
        ----------
        X : list of sequences
            See the class.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        self._learn(X)
        return self

    def fit_transform(self, X, y=None) -> list[csr_matrix]:
        """Learn the vocabulary and return the matrices of the same sequences, in one pass.

        Parameters
        ----------
        X : list of sequences
            See the class.
        y : None
            Ignored.

        Returns
        -------
        matrices : list of csr_matrix of shape (n_timesteps, n_features)
        """
        columns, values, ends, offsets = self._learn(X)
        return csr_per_sequence(columns, values, ends, offsets, len(self.vocabulary_))

    def transform(self, X) -> list[csr_matrix]:
        """Matrices of sequences; attributes unseen in `fit` are left out.

        Parameters
        ----------
        X : list of sequences
            See the class.

        Returns
        -------
        matrices : list of csr_matrix of shape (n_timesteps, n_features)
            dtype float64, indices sorted.
        """
        check_is_fitted(self)
        flat = self._flatten(X, self._plan())
        return csr_per_sequence(*flat, len(self.vocabulary_))

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Names of the attributes, in column order."""
        check_is_fitted(self)
        names = np.empty(len(self.vocabulary_), dtype=object)
        names[:] = list(self.vocabulary_)
        return names

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _plan(self):
        """Check the parameters; what is returned goes to every call of `_attributes`."""

    @abstractmethod
    def _attributes(self, sequence, s: int, plan, vocabulary: dict[str, int]):
        """Columns of all attributes, step by step; their values, None if all are 1; how many per step."""

    def _learn(self, X, plan=None):
        vocabulary = _Growing()
        plan = self._plan() if plan is None else plan
        columns, values, ends, offsets = self._flatten(X, plan, vocabulary)
        if not vocabulary:
            raise ValueError("X has no attribute in any step of any sequence.")
        if self.sort:
            rank = np.empty(len(vocabulary), dtype=np.int32)
            ordered = sorted(vocabulary)
            rank[[vocabulary[name] for name in ordered]] = np.arange(len(ordered), dtype=np.int32)
            columns = rank[columns]
            self.vocabulary_ = {name: j for j, name in enumerate(ordered)}
        else:
            self.vocabulary_ = dict(vocabulary)
        self._lookup = _Lookup()
        return columns, values, ends, offsets

    def _flatten(
        self, X, plan, vocabulary: dict[str, int] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Columns and values of all attributes, where those of each step end, and where sequences start."""
        growing, names = vocabulary is not None, None
        if not growing and self._reads_names and hasattr(self, "_lookup"):
            names = self._lookup.table(self.vocabulary_)
        if not growing and names is None:
            vocabulary = _Closed(self.vocabulary_)
        table = AttributeTable(plan if self._reads_names else "", vocabulary, growing, names)
        offsets = [0]
        for s, sequence in check_sequences(X):
            if not (self._reads_names and table.add(sequence)):
                if vocabulary is None:
                    vocabulary = _Closed(self.vocabulary_)
                cols, vals, per_step = self._attributes(sequence, s, plan, vocabulary)
                if not growing and max(cols, default=-1) >= len(self.vocabulary_):
                    raise ValueError(f"vocabulary_ has column {max(cols)}, which is out of range.")
                columns = np.array(cols, dtype=np.int32)
                values = np.ones(len(cols)) if vals is None else np.array(vals, dtype=np.float64)
                table.extend(columns, values, np.array(per_step, dtype=np.intp))
            offsets.append(table.n_total)
        return *table.arrays(), np.array(offsets)


def check_sequences(X) -> Iterator[tuple[int, Sequence]]:
    """Number and items of every sequence in `X`, after checking that there are any."""
    if isinstance(X, str | dict) or not hasattr(X, "__iter__"):
        raise TypeError(f"X must be a list of sequences, but is a {type(X).__name__}.")
    n_sequences = 0
    for s, sequence in enumerate(X):
        # The items of a data frame would be the names of its columns.
        if isinstance(sequence, str | dict) or not hasattr(sequence, "__len__") or hasattr(sequence, "iloc"):
            raise TypeError(f"X[{s}] must be a sequence of time steps, but is a {type(sequence).__name__}.")
        if len(sequence) == 0:
            raise ValueError(f"X[{s}] has no time steps, but every sequence needs at least one.")
        n_sequences += 1
        yield s, sequence
    if n_sequences == 0:
        raise ValueError("X has no sequences, but at least one is needed.")


def csr_per_sequence(
    columns: np.ndarray, values: np.ndarray, ends: np.ndarray, offsets: np.ndarray, n_features: int
) -> list[csr_matrix]:
    """One CSR matrix per sequence from the attributes of all steps.

    Parameters
    ----------
    columns : ndarray of shape (n_attributes,)
        Column of each attribute, step by step; -1 leaves it out. Overwritten, as are the values.
    values : ndarray of shape (n_attributes,)
        Values of the attributes; those of one step and column add up.
    ends : ndarray of shape (n_total + 1,)
        Step ``t`` has attributes ``ends[t]:ends[t + 1]``.
    offsets : ndarray of shape (n_sequences + 1,)
        Sequence ``s`` occupies steps ``offsets[s]:offsets[s + 1]``.
    n_features : int
        Number of columns.

    Returns
    -------
    matrices : list of csr_matrix of shape (n_timesteps, n_features)
    """
    n_total = len(ends) - 1
    if np.diff(ends).max() <= _LONG_ROW and max(len(columns), n_features) < np.iinfo(np.int32).max:
        indptr = np.empty(n_total + 1, dtype=np.int32)
        n_stored = tidy_rows(columns, values, ends, indptr)
        whole = csr_matrix((values[:n_stored], columns[:n_stored], indptr), shape=(n_total, n_features))
    else:
        known = columns >= 0
        indptr = np.concatenate([[0], np.cumsum(known)])[ends]
        whole = csr_matrix((values[known], columns[known], indptr), shape=(n_total, n_features))
        whole.sum_duplicates()  # sorts as well
    return cut_rows(whole, offsets)
