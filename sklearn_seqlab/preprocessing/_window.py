"""Windows over time steps."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab.preprocessing._rows import cut_rows
from sklearn_seqlab.sequences import PackedBatch, pack, window_rows

__all__ = ["SlidingWindow"]


class SlidingWindow(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Give every time step the rows of its neighbours as well.

    Step `t` gets rows ``t - before`` to ``t + after`` side by side, earliest first. Windows do not reach over
    the ends of a sequence.

    Columns of offsets that no sequence is long enough for hold nothing but `fill`. They are kept, so that
    the width depends on the parameters alone; they take memory where sequences are dense, but hardly time.

    Parameters
    ----------
    before : int, default=1
        Number of steps before each step.
    after : int, default=1
        Number of steps after each step; 0 for labels that must not depend on the future.
    fill : float, default=0.0
        What stands beyond the ends of a sequence. Must be 0 for sparse sequences.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of each sequence.
    feature_names_in_ : ndarray of shape (n_features_in_,), dtype=object
        Names of the columns; only where every sequence was a data frame with text as column names.

    Examples
    --------
    >>> from sklearn_seqlab.preprocessing import SlidingWindow
    >>> (x,) = SlidingWindow(before=1, after=0, fill=-1).fit_transform([[[1.0], [2.0], [3.0]]])
    >>> x
    array([[-1.,  1.],
           [ 1.,  2.],
           [ 2.,  3.]])
    """

    _acts_on_sequences = True

    def __init__(self, *, before=1, after=1, fill=0.0):
        self.before = before
        self.after = after
        self.fill = fill

    def fit(self, X: Iterable[Any], y: Any = None) -> SlidingWindow:
        """Check the parameters and learn the number of columns.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : SlidingWindow

        Raises
        ------
        ValueError
            If `before`, `after` or `fill` is not as described, or `X` is no list of finite matrices.
        """
        batch = self._pack(X, None)
        self.n_features_in_ = batch.n_features
        if batch.feature_names is not None:
            self.feature_names_in_ = batch.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Iterable[Any]) -> list[Any]:
        """Windows of every step.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)

        Returns
        -------
        windows : list of ndarray or csr_array of shape (n_timesteps, (before + 1 + after) * n_features)
            float64; sparse if a sequence of `X` is.
        """
        check_is_fitted(self)
        batch = self._pack(X, self.n_features_in_)
        known = getattr(self, "feature_names_in_", None)
        if known is not None and batch.feature_names is not None and list(known) != list(batch.feature_names):
            raise ValueError(f"X has columns {list(batch.feature_names)}, but fit saw {list(known)}.")
        return cut_rows(window_rows(batch, self.before, self.after, self.fill), batch.offsets)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name and offset of each column, such as ``fridge[t-1]``, ``fridge[t]``, ``fridge[t+1]``.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns; None: those seen by `fit`, else x0, x1, ...

        Returns
        -------
        names : ndarray of shape ((before + 1 + after) * n_features_in_,), dtype=object
        """
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        if len(input_features) != self.n_features_in_:
            raise ValueError(
                f"input_features has {len(input_features)} names, but fit saw {self.n_features_in_} columns."
            )
        offsets = range(-self.before, self.after + 1)
        return np.array(
            [f"{name}[t{k:+d}]" if k else f"{name}[t]" for k in offsets for name in input_features],
            dtype=object,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        return tags

    def _pack(self, X: Iterable[Any], n_features: int | None) -> PackedBatch:
        for name in ("before", "after"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be an int >= 0, but is {value!r}.")
        if not isinstance(self.fill, Real) or isinstance(self.fill, bool):
            raise ValueError(f"fill must be a number, but is {self.fill!r}.")
        batch = pack(X, n_features=n_features)
        if batch.is_sparse and self.fill != 0:
            raise ValueError(f"fill must be 0 for sparse sequences, but is {self.fill!r}.")
        return batch
