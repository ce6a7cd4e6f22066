"""Splitters for lists of sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.model_selection import KFold

__all__ = ["InverseKFold"]


class InverseKFold(KFold):
    """Train on one fold, test on all the others.

    The usual trial where labelled sequences are few: with days of a home, one fold of days is labelled and
    the model is judged on the rest. Every sequence is in the training set of exactly one split.

    Parameters
    ----------
    n_splits : int, default=4
        Number of folds, at least 2.
    shuffle : bool, default=False
        Whether to shuffle the sequences before they are dealt into folds.
    random_state : int, RandomState or None, default=None
        Order of the shuffled sequences.

    See Also
    --------
    sklearn.model_selection.KFold : Trains on all folds but one.

    Examples
    --------
    >>> from sklearn_seqlab.model_selection import InverseKFold
    >>> for train, test in InverseKFold(n_splits=3).split(range(6)):
    ...     print(train, test)
    [0 1] [2 3 4 5]
    [2 3] [0 1 4 5]
    [4 5] [0 1 2 3]
    """

    def __init__(
        self, n_splits: int = 4, *, shuffle: bool = False, random_state: int | RandomState | None = None
    ):
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices of the sequences to train and to test on.

        Parameters
        ----------
        X : list of n_sequences
            Only its length counts.
        y, groups : ignored

        Yields
        ------
        train, test : ndarray, dtype=int
        """
        for rest, fold in super().split(X, y, groups):
            yield fold, rest
