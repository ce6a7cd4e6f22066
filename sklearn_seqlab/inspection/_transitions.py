"""Which label follows which: the weights of moves as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab.inspection._weights import unwrapped

__all__ = ["TransitionGraphDisplay"]

_STYLES: dict[bool, dict[str, Any]] = {
    True: {"color": "#0072B2", "linestyle": "-"},
    False: {"color": "#D55E00", "linestyle": "--"},
}
_MAX_WIDTH = 4.0
_BEND = 0.18
"""How far the arrow of a move leaves the straight line, so that the way back does not cover it."""


class TransitionGraphDisplay:
    """Labels on a circle and an arrow for every move; the heavier, the wider and darker.

    Use :meth:`from_estimator`, or the constructor, which only stores, and :meth:`plot`.

    Parameters
    ----------
    labels : sequence of n_labels labels
    weights : array-like of shape (n_labels, n_labels)
        From row to column, in nats or as probabilities. Minus infinity, like NaN, is no arrow.
    mask : array-like of shape (n_labels, n_labels), dtype=bool, default=None
        The moves that exist; None takes all with a finite weight.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    arrows_ : dict of (int, int) to matplotlib patch
        By positions of the two labels.
    """

    def __init__(self, labels: Sequence[Any], weights: ArrayLike, *, mask: ArrayLike | None = None):
        self.labels = labels
        self.weights = weights
        self.mask = mask

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        level: int | None = None,
        parent: Any = None,
        top: int | None = None,
        ax: Any = None,
    ) -> TransitionGraphDisplay:
        """Draw the transition weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator, pipeline or search
            With ``classes_`` and ``transition_coef_`` of shape (n_labels, n_labels), or lists of them by
            level; a level may have weights of shape (n_parents, n_labels, n_labels). ``transition_mask_``
            of the same shape is heeded where there is one.
        level : int, default=None
            Which level to draw; needed if there are several.
        parent : label of the level above, default=None
            Under which parent; needed if weights depend on it and there are several.
        top : int, default=None
            As in :meth:`plot`.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : TransitionGraphDisplay

        Raises
        ------
        AttributeError
            If the estimator has no transition weights.
        ValueError
            If the level or the parent has to be chosen and is not, or does not exist.
        """
        model = unwrapped(estimator)[1]
        check_is_fitted(model)
        classes, weights = model.classes_, model.transition_coef_
        mask = getattr(model, "transition_mask_", None)
        above = None
        if isinstance(weights, list | tuple):
            d = _checked_level(level, len(weights))
            above = classes[d - 1] if d > 0 else None
            classes, weights = classes[d], weights[d]
            mask = mask[d] if isinstance(mask, list | tuple) else mask
        elif level is not None:
            _checked_level(level, 1)
        if np.ndim(weights) == 3:
            p = _position_of_parent(parent, above, len(weights))
            weights = weights[p]
            mask = mask[p] if mask is not None and np.ndim(mask) == 3 else mask
        return cls(np.asarray(classes).tolist(), weights, mask=mask).plot(top=top, ax=ax)

    def plot(self, *, top: int | None = None, ax: Any = None) -> TransitionGraphDisplay:
        """Draw the graph.

        Parameters
        ----------
        top : int, default=None
            How many arrows to draw, the heaviest first; None draws all. Positive weights are blue, negative
            ones vermilion and dashed; a legend tells them apart where there are both.
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        self : TransitionGraphDisplay
        """
        import matplotlib.pyplot as plt  # optional dependency, needed only here
        from matplotlib.lines import Line2D
        from matplotlib.patches import FancyArrowPatch

        weights, exists = self._checked()
        n_labels = len(weights)
        if ax is None:
            _, ax = plt.subplots(figsize=(6.5, 6), layout="constrained")
        # clockwise from the top, as one reads a clock
        angles = np.pi / 2 - 2 * np.pi * np.arange(n_labels) / n_labels
        places = np.column_stack([np.cos(angles), np.sin(angles)])
        size = min(0.09, 2.0 / max(n_labels, 1) ** 1.3)
        moves = np.argwhere(exists & (weights != 0))
        sizes = np.abs(weights[tuple(moves.T)])
        order = np.argsort(-sizes, kind="stable")[:top][::-1]  # the heaviest are drawn last, on top
        self.arrows_ = {}
        for k in order:
            i, j = moves[k].tolist()
            share = sizes[k] / sizes.max()
            tail, head, bend = _ends_of_arrow(places, i, j, size)
            arrow = FancyArrowPatch(
                tail,
                head,
                connectionstyle=f"arc3,rad={bend}",
                arrowstyle="-|>",
                mutation_scale=6 + 8 * share,
                linewidth=0.3 + _MAX_WIDTH * share,
                alpha=0.15 + 0.8 * share,
                **_STYLES[bool(weights[i, j] > 0)],
                shrinkA=0,
                shrinkB=0,
            )
            ax.add_patch(arrow)
            self.arrows_[i, j] = arrow
        for label, (x, y) in zip(self.labels, places, strict=True):
            ax.add_patch(plt.Circle((x, y), size, facecolor="white", edgecolor="black", zorder=3))
            away = 1 + 4.2 * size  # beyond the loop of a label that follows itself
            side = "center" if abs(x) < 0.25 else ("left" if x > 0 else "right")
            text = str(label).replace("$", r"\$")
            ax.text(x * away, y * away, text, ha=side, va="center" if abs(x) >= 0.25 else "baseline")
        signs = {bool(weights[pair] > 0) for pair in self.arrows_}
        if len(signs) > 1:
            names = {True: "raises the score", False: "lowers the score"}
            handles = [Line2D([], [], label=names[sign], **_STYLES[sign]) for sign in (True, False)]
            ax.legend(handles=handles, loc="lower left", frameon=False)
        ax.set(xlim=(-1.75, 1.75), ylim=(-1.55, 1.55), aspect="equal")
        ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _checked(self) -> tuple[np.ndarray, np.ndarray]:
        weights, n_labels = np.asarray(self.weights, dtype=np.float64), len(self.labels)
        if weights.shape != (n_labels, n_labels):
            raise ValueError(f"weights has shape {weights.shape}; expected {(n_labels, n_labels)}.")
        exists = np.isfinite(weights)
        if self.mask is not None:
            mask = np.asarray(self.mask, dtype=bool)
            if mask.shape != weights.shape:
                raise ValueError(f"mask has shape {mask.shape}; expected {weights.shape}.")
            exists &= mask
        return weights, exists


def _ends_of_arrow(places: np.ndarray, i: int, j: int, size: float) -> tuple[Any, Any, float]:
    """Tail, head and curvature of the arrow from label i to label j, on the rims of their circles."""
    if i == j:  # a loop outside of the circle of labels
        outward = places[i]
        across = np.array([-outward[1], outward[0]])
        rim = places[i] + 0.8 * size * outward
        return rim + 0.6 * size * across, rim - 0.6 * size * across, -2.2
    line = places[j] - places[i]
    length = np.hypot(*line)
    direction = line / length
    # the arrow leaves its tail and meets its head at about this angle to the straight line
    turn = np.arctan(2 * _BEND)
    cos, sin = np.cos(turn), np.sin(turn)
    out = np.array([[cos, sin], [-sin, cos]]) @ direction
    back = np.array([[cos, -sin], [sin, cos]]) @ -direction
    return places[i] + size * out, places[j] + size * back, _BEND


def _checked_level(level: int | None, n_levels: int) -> int:
    if level is None and n_levels > 1:
        raise ValueError(f"the estimator has {n_levels} levels: choose one with level=.")
    level = 0 if level is None else level
    if not 0 <= level < n_levels:
        raise ValueError(f"level is {level}, but the estimator has {n_levels} level(s).")
    return level


def _position_of_parent(parent: Any, labels: np.ndarray | None, n_parents: int) -> int:
    if parent is None and n_parents == 1:
        return 0
    known = [] if labels is None else labels.tolist()
    if parent not in known:
        raise ValueError(f"parent is {parent!r}, but weights depend on it: choose one of {known}.")
    return known.index(parent)
