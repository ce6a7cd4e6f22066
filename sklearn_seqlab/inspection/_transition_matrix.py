"""Which label follows which: the weights of moves as a matrix, beside the moves that are possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab.inspection._weights import unwrapped

__all__ = ["TransitionMatrixDisplay"]


class TransitionMatrixDisplay:
    """Weights of moves from row to column, positive ones blue and negative ones red; dots mark possible moves.

    Parameters
    ----------
    labels : sequence of n_labels labels
    weights : array-like of shape (n_labels, n_labels)
        In nats. Minus infinity, like NaN, is left white.
    truth : array-like of shape (n_labels, n_labels), dtype=bool, default=None
        Moves that are possible.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
    """

    def __init__(self, labels: Sequence[Any], weights: ArrayLike, *, truth: ArrayLike | None = None):
        self.labels = labels
        self.weights = weights
        self.truth = truth

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, truth: ArrayLike | None = None, ax: Any = None
    ) -> TransitionMatrixDisplay:
        """Draw the transition weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator, pipeline or search
            With ``classes_`` and ``transition_coef_`` of shape (n_labels, n_labels).
        truth : array-like of shape (n_labels, n_labels), dtype=bool, default=None
            Moves that are possible, in the order of ``classes_``.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : TransitionMatrixDisplay
        """
        model = unwrapped(estimator)[1]
        check_is_fitted(model)
        return cls(np.asarray(model.classes_).tolist(), model.transition_coef_, truth=truth).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> TransitionMatrixDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        self : TransitionMatrixDisplay
        """
        import matplotlib.pyplot as plt  # optional dependency, needed only here

        weights, n_labels = np.asarray(self.weights, dtype=np.float64), len(self.labels)
        if weights.shape != (n_labels, n_labels):
            raise ValueError(f"weights has shape {weights.shape}; expected {(n_labels, n_labels)}.")
        if ax is None:
            size = 2.2 + 0.36 * n_labels
            _, ax = plt.subplots(figsize=(size + 1, size), layout="constrained")
        shown = np.where(np.isfinite(weights), weights, np.nan)
        largest = float(np.nanmax(np.abs(shown), initial=1e-12))
        self.image_ = ax.imshow(shown, cmap="RdBu", vmin=-largest, vmax=largest)
        ax.figure.colorbar(self.image_, ax=ax, label="weight, nats", shrink=0.8)
        if self.truth is not None:
            truth = np.asarray(self.truth, dtype=bool)
            if truth.shape != weights.shape:
                raise ValueError(f"truth has shape {truth.shape}; expected {weights.shape}.")
            to, start = np.nonzero(truth.T)
            ax.plot(to, start, "o", color="black", markersize=3.5, label="possible")
        names = [str(label).replace("$", r"\$") for label in self.labels]
        ax.set(xticks=range(n_labels), yticks=range(n_labels), yticklabels=names, xlabel="to", ylabel="from")
        ax.set_xticklabels(names, rotation=45, ha="right", rotation_mode="anchor")
        self.ax_, self.figure_ = ax, ax.figure
        return self
