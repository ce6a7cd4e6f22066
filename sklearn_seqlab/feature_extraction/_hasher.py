"""Dictionaries or lists of names per step to hashed CSR matrices."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.feature_extraction import FeatureHasher

from sklearn_seqlab.feature_extraction._dict import name_value_pairs
from sklearn_seqlab.feature_extraction._vocabulary import check_sequences
from sklearn_seqlab.preprocessing._rows import cut_rows

__all__ = ["SequenceHasher"]


class SequenceHasher(  # type: ignore[call-arg]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """Named features of every step to one CSR matrix per sequence, by hashing the names.

    There is no vocabulary: memory does not grow with the data, and `fit` learns nothing. The hash is that of
    :class:`~sklearn.feature_extraction.FeatureHasher`.

    Parameters
    ----------
    n_features : int, default=2**18
        Number of columns. A model holds a weight for every column and label, so the default is a quarter of
        scikit-learn's.
    alternate_sign : bool, default=True
        Whether half of the names count negatively, so that collisions cancel on average.
    separator : str, default="="
        Stands between a feature's name and its text value.

    See Also
    --------
    SequenceDictVectorizer : Keeps the names; describes the input.

    Notes
    -----
    Input as in `SequenceDictVectorizer`; what occurs several times in one step, or collides, adds up.

    Examples
    --------
    >>> from sklearn_seqlab.feature_extraction import SequenceHasher
    >>> (x,) = SequenceHasher(n_features=16).transform([[["the", "DT"], ["cat", "NN"]]])
    >>> x.shape, x.nnz
    ((2, 16), 4)
    """

    _acts_on_sequences = True

    def __init__(self, *, n_features=2**18, alternate_sign=True, separator="="):
        self.n_features = n_features
        self.alternate_sign = alternate_sign
        self.separator = separator

    def fit(self, X=None, y=None) -> SequenceHasher:
        """Check the parameters; nothing is learnt.

        Parameters
        ----------
        X, y : ignored

        Returns
        -------
        self : SequenceHasher
        """
        self._check()
        return self

    def transform(self, X) -> list[csr_matrix]:
        """Hash the attributes of every step.

        Parameters
        ----------
        X : list of sequences
            Lists of steps, a step being a dict or a list of str.

        Returns
        -------
        matrices : list of csr_matrix of shape (n_timesteps, n_features), dtype=float64
        """
        self._check()
        steps: list[list[tuple[str, float]]] = []
        offsets = [0]
        for s, sequence in check_sequences(X):
            steps.extend(
                list(name_value_pairs(step, s, t, self.separator)) for t, step in enumerate(sequence)
            )
            offsets.append(len(steps))
        return cut_rows(self._hasher().transform(steps), np.array(offsets))

    def _check(self) -> None:
        most = np.iinfo(np.int32).max
        n = self.n_features
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or not 1 <= n <= most:
            raise ValueError(f"n_features must be an int from 1 to {most}, but is {n!r}.")
        if not isinstance(self.alternate_sign, bool | np.bool_):
            raise TypeError(f"alternate_sign must be a bool, but is {self.alternate_sign!r}.")
        if not isinstance(self.separator, str):
            raise TypeError(f"separator must be a str, but is {self.separator!r}.")

    def _hasher(self) -> FeatureHasher:
        return FeatureHasher(self.n_features, input_type="pair", alternate_sign=self.alternate_sign)

    @property
    def _n_features_out(self) -> int:
        self._check()
        return self.n_features

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags
