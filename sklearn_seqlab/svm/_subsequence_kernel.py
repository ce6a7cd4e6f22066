"""Kernels that count common subsequences of binary inputs around time steps."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sklearn_seqlab import _parallel
from sklearn_seqlab._arguments import one_of, positive
from sklearn_seqlab.inference import subsequence_kernel
from sklearn_seqlab.sequences import PackedBatch, check_binary, pack

__all__ = ["SubsequenceKernel", "Windows"]

# Windows of the first argument that a thread takes at a time.
_ROWS_PER_TASK = 64


class Windows:
    """The distinct windows around the time steps of a batch.

    Parameters
    ----------
    batch : PackedBatch
        Of zeros and ones.
    before, after : int

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_features), dtype=bool
        Distinct rows.
    windows : ndarray of shape (n_windows, before + 1 + after), dtype=intp
        Numbers of rows; -1 outside of the sequence.
    index : ndarray of shape (n_total,), dtype=intp
        Window at each step.
    """

    def __init__(self, batch: PackedBatch, before: int, after: int):
        values = batch.values.toarray() if batch.is_sparse else batch.values
        first_with, number = _distinct(np.packbits(values > 0, axis=1))
        self.rows = values[first_with] > 0
        first = np.repeat(batch.offsets[:-1], batch.lengths)
        last = np.repeat(batch.offsets[1:] - 1, batch.lengths)
        steps = np.arange(batch.n_total)[:, None] + np.arange(-before, after + 1)
        inside = (steps >= first[:, None]) & (steps <= last[:, None])
        # an empty row has nothing in common with any: outside and empty are one
        empty = np.logical_not(self.rows.any(axis=1))
        of_step = np.where(inside, number[np.clip(steps, 0, batch.n_total - 1)], -1)
        of_step = np.where(inside & np.take(empty, of_step), -1, of_step)
        first_with, self.index = _distinct(of_step)
        self.windows = np.ascontiguousarray(of_step[first_with], dtype=np.intp)


def _distinct(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct row stands first, in lexicographic order, and which of them each row is.

    Column by column, rows are numbered by what they have so far: much faster than ``np.unique`` with an axis.
    """
    number = np.zeros(len(table), dtype=np.intp)
    for column in table.T.astype(np.intp):
        lowest = column.min()
        number = number * (int(column.max()) - lowest + 1) + (column - lowest)
        number = np.unique(number, return_inverse=True)[1]
    return np.unique(number, return_index=True)[1], number


class SubsequenceKernel(BaseEstimator):
    """Kernel of windows of binary inputs: common subsequences, which may have gaps.

    A subsequence is a choice of items at increasing positions of the window, and its weight is ``decay`` to the power
    of the positions that it spans, in each of the two windows.

    Parameters
    ----------
    before, after : int, default=5
        The window of a step goes from ``before`` steps before it to ``after`` steps behind it, within the sequence.
    max_length : int, default=2
        Largest number of positions of a subsequence.
    decay : float, default=0.5
        In (0, 1]; 1 does not mind gaps.
    items : {"subsets", "inputs"}, default="subsets"
        What may stand at a position: every set of inputs that are on together, or single inputs (the paper).
    pivot : {"zones", "none"}, default="zones"
        Whether positions before, at and after the step are told apart.
    normalize : bool, default=True
        Whether every window has a kernel of one with itself. A window in which no input is on keeps zero.
    bias : float, default=1.0
        Added at the end: windows in which nothing is on would have no score at all.

    Notes
    -----
    A pair of windows takes O(max_length * (before + 1 + after)**2) time. With ``decay=1``, subsets, zones, and
    ``max_length`` at least the number of variables of a composite feature whose windows are the zones, that feature
    lies in the span of the kernel's features as a count of its groundings; whether it has any is not in the span. With
    single inputs two inputs at one step never are a common pattern. ``spec`` "structhkl" 6.

    References
    ----------
    Lodhi, Saunders, Shawe-Taylor, Cristianini and Watkins, "Text classification using string kernels", JMLR 2002.
    Bunescu and Mooney, "Subsequence kernels for relation extraction", NIPS 2005.

    Examples
    --------
    >>> from sklearn_seqlab.svm import SubsequenceKernel
    >>> kernel = SubsequenceKernel(before=1, after=0)
    >>> kernel.gram([[[1, 0], [0, 1], [0, 0]]]).round(3)
    array([[2., 1., 1.],
           [1., 2., 1.],
           [1., 1., 2.]])
    """

    def __init__(
        self,
        *,
        before=5,
        after=5,
        max_length=2,
        decay=0.5,
        items="subsets",
        pivot="zones",
        normalize=True,
        bias=1.0,
    ):
        self.before = before
        self.after = after
        self.max_length = max_length
        self.decay = decay
        self.items = items
        self.pivot = pivot
        self.normalize = normalize
        self.bias = bias

    def gram(self, X: Any, Y: Any = None) -> np.ndarray:
        """Kernel of the windows of all steps of some sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
            Of zeros and ones.
        Y : list, default=None
            Other sequences; None for those of ``X``.

        Returns
        -------
        gram : ndarray of shape (n_total of X, n_total of Y)

        Raises
        ------
        ValueError
            If inputs are not binary, or a parameter is out of range.
        """
        self.check()
        batch = pack(X)
        check_binary(batch)
        first = self.windows(batch)
        if Y is None:
            return self.between(first)[np.ix_(first.index, first.index)]
        other = pack(Y, n_features=batch.n_features, name="Y")
        check_binary(other)
        second = self.windows(other)
        return self.between(first, second)[np.ix_(first.index, second.index)]

    def check(self) -> None:
        """Raise ValueError for a parameter that is out of range."""
        for name in ("before", "after"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
                raise ValueError(f"{name} is {value!r}; expected an integer of at least 0.")
        positive(self.max_length, "max_length")
        if not isinstance(self.decay, Real) or not 0 < float(self.decay) <= 1:
            raise ValueError(f"decay is {self.decay!r}; expected a number above 0 and up to 1.")
        if not isinstance(self.bias, Real) or not 0 <= float(self.bias) < np.inf:
            raise ValueError(f"bias is {self.bias!r}; expected a number of at least 0.")
        one_of(self.items, ("subsets", "inputs"), "items")
        one_of(self.pivot, ("zones", "none"), "pivot")

    def windows(self, batch: PackedBatch) -> Windows:
        """The distinct windows of a checked batch."""
        return Windows(batch, int(self.before), int(self.after))

    def between(self, first: Windows, second: Windows | None = None, n_jobs: int | None = None) -> np.ndarray:
        """Kernel of distinct windows, (n_windows of first, n_windows of second)."""
        kernel = self._raw(first, first if second is None else second, n_jobs)
        if self.normalize:
            own = self._sizes(first) if second is not None else np.sqrt(np.diag(kernel))
            other = own if second is None else self._sizes(second)
            size = np.outer(own, other)
            kernel = np.divide(kernel, size, out=np.zeros_like(kernel), where=size > 0)
        return kernel + float(self.bias)

    def _sizes(self, windows: Windows) -> np.ndarray:
        """Norm of each window by itself."""
        common, zone = self._common(windows, windows), self._zones()
        kernel, work = np.empty((1, 1)), self._work()
        sizes = np.empty(len(windows.windows))
        for k in range(len(sizes)):
            one = windows.windows[k : k + 1]
            subsequence_kernel(
                one, one, common, zone, float(self.decay), int(self.max_length), False, work, kernel
            )
            sizes[k] = kernel[0, 0]
        return np.sqrt(sizes)

    def _raw(self, first: Windows, second: Windows, n_jobs: int | None) -> np.ndarray:
        common, zone = self._common(first, second), self._zones()
        kernel = np.empty((len(first.windows), len(second.windows)))
        starts = range(0, len(first.windows), _ROWS_PER_TASK)

        def task(start: int) -> None:
            rows = slice(start, start + _ROWS_PER_TASK)
            # of a kernel with itself, the part above the diagonal
            skip = start if first is second else 0
            part = np.empty((len(first.windows[rows]), len(second.windows) - skip))
            subsequence_kernel(
                first.windows[rows],
                second.windows[skip:],
                common,
                zone,
                float(self.decay),
                int(self.max_length),
                False,
                self._work(),
                part,
            )
            kernel[rows, skip:] = part

        _parallel.run(task, list(starts), n_jobs)
        if first is second:
            lower = np.tril_indices(len(kernel), -1)
            kernel[lower] = kernel.T[lower]
        return kernel

    def _common(self, first: Windows, second: Windows) -> np.ndarray:
        both = first.rows.astype(float) @ second.rows.T.astype(float)
        return np.exp2(both) - 1.0 if self.items == "subsets" else both

    def _zones(self) -> np.ndarray:
        position = np.arange(-int(self.before), int(self.after) + 1)
        return np.sign(position).astype(np.intp) if self.pivot == "zones" else np.zeros_like(position)

    def _work(self) -> np.ndarray:
        width = int(self.before) + 1 + int(self.after)
        return np.empty((3, width + 1, width + 1))
