"""Timelines: the labels of one sequence over time, true above predicted, level by level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab.sequences import encode_labels, labels_to_segments, split_both, split_levels

__all__ = ["TimelineDisplay"]

# The colours of Okabe and Ito, which any colour vision tells apart, then four that stay clear of them; beyond
# twelve labels no set can do that.
_PALETTE = [
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7F7F7F",
    "#332288", "#661100", "#A8DDB5", "#000000",
]  # fmt: skip
_LEGEND_ROWS = 9
_LEVEL_GAP = 0.4
"""Space between the rows of two levels, in heights of a row."""


class TimelineDisplay:
    """Bands of labels of one sequence, one row per source.

    Use :meth:`from_estimator` or :meth:`from_predictions`; the constructor only stores.

    Parameters
    ----------
    rows : dict of str to sequence of labels
        Labels of shape (n_timesteps,) by name of the row, top row first; None where a label is missing,
        which stays white.
    classes : ndarray of shape (n_labels,)
        All labels, in the order of the legend.
    times : ndarray of shape (n_timesteps,), default=None
        Numbers or time stamps of the steps; None counts them.
    row_levels : sequence of int of shape (n_rows,), default=None
        The level of each row; rows of different levels stand apart. None puts all rows together.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(
        self,
        rows: dict[str, Any],
        *,
        classes: np.ndarray,
        times: ArrayLike | None = None,
        row_levels: Sequence[int] | None = None,
    ):
        self.rows = rows
        self.classes = classes
        self.times = times
        self.row_levels = row_levels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y_true: ArrayLike | None = None,
        *,
        times: ArrayLike | None = None,
        level_names: Sequence[str] | None = None,
        colors: dict[Any, Any] | None = None,
        ax: Any = None,
    ) -> TimelineDisplay:
        """Predict one sequence and draw it below its true labels.

        Parameters
        ----------
        estimator : fitted estimator
        X : array-like of shape (n_timesteps, n_features)
            One sequence.
        y_true : array-like of shape (n_timesteps,) or (n_timesteps, n_levels), default=None
        times, level_names, colors, ax
            As in :meth:`from_predictions`.

        Returns
        -------
        display : TimelineDisplay
        """
        (y_pred,) = estimator.predict([X])
        return cls.from_predictions(
            y_true, y_pred, times=times, level_names=level_names, colors=colors, ax=ax
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike | None,
        y_pred: ArrayLike,
        *,
        times: ArrayLike | None = None,
        level_names: Sequence[str] | None = None,
        colors: dict[Any, Any] | None = None,
        ax: Any = None,
    ) -> TimelineDisplay:
        """Draw true and predicted labels of one sequence.

        Parameters
        ----------
        y_true : array-like of shape (n_timesteps,) or (n_timesteps, n_levels), or None
            With several levels every level gets its rows, from top to bottom. None draws the prediction
            alone.
        y_pred : array-like of the shape of ``y_true``
        times : array-like of shape (n_timesteps,), default=None
            Time stamps (datetime64) or numbers; None counts the steps.
        level_names : sequence of n_levels str, default=None
            What rows of several levels are called; None numbers the levels.
        colors : dict of label to color, default=None
            Where a label should have a color of its own choice.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : TimelineDisplay
        """
        if y_true is None:
            levels = {"predicted": split_levels([y_pred], "y_pred")}
        else:
            levels = dict(zip(("true", "predicted"), split_both([y_true], [y_pred]), strict=True))
        n_levels = len(levels["predicted"])
        if len(levels.get("true", levels["predicted"])) != n_levels:
            raise ValueError(f"y_true has {len(levels['true'])} level(s), but y_pred has {n_levels}.")
        if level_names is not None and len(level_names) != n_levels:
            raise ValueError(f"level_names has {len(level_names)} names for {n_levels} level(s).")
        names = [f"level {d}" for d in range(n_levels)] if level_names is None else list(level_names)
        rows, row_levels, classes = {}, [], []
        for d, level in enumerate(names):
            own = {source: found[d][0] for source, found in levels.items()}
            classes.append(_classes_of(own))
            for source, labels in own.items():
                rows[source if n_levels == 1 and level_names is None else f"{level}, {source}"] = labels
                row_levels.append(d)
        display = cls(rows, classes=_joined(classes), times=times, row_levels=row_levels)
        return display.plot(colors=colors, ax=ax)

    def plot(self, *, colors: dict[Any, Any] | None = None, ax: Any = None) -> TimelineDisplay:
        """Draw the rows.

        Parameters
        ----------
        colors : dict of label to color, default=None
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        self : TimelineDisplay
        """
        import matplotlib.pyplot as plt  # optional dependency, needed only here
        from matplotlib.patches import Patch

        bottoms, top = self._bottoms()
        if ax is None:
            _, ax = plt.subplots(figsize=(11, 0.6 * top + 1.4), layout="constrained")
        palette = _palette(self.classes, [plt.get_cmap("tab20")(k) for k in range(20)]) | (colors or {})
        edges = self._edges(len(next(iter(self.rows.values()))))
        names = list(self.rows)
        for k, name in enumerate(names):
            for start, stop, label in labels_to_segments(list(self.rows[name])):
                if label in palette:  # a missing label has no colour
                    band = [(edges[start], edges[stop] - edges[start])]
                    ax.broken_barh(band, (bottoms[k] + 0.1, 0.8), facecolors=palette[label])
        ax.set(
            yticks=[bottom + 0.5 for bottom in bottoms],
            yticklabels=names,
            ylim=(0, top),
            xlim=(edges[0], edges[-1]),
            xlabel="time step" if self.times is None else "time",
        )
        if isinstance(edges, np.ndarray) and edges.dtype.kind == "M":
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator()
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        handles = [
            Patch(color=palette[label], label=str(label).replace("$", r"\$"))
            for label in self.classes.tolist()
        ]
        ax.legend(
            handles=handles,
            ncols=-(-len(handles) // _LEGEND_ROWS),
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            frameon=False,
            fontsize="small",
            handlelength=1.0,
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _bottoms(self) -> tuple[list[float], float]:
        """Where each row begins on the vertical axis, and where the uppermost one ends."""
        levels = [0] * len(self.rows) if self.row_levels is None else list(self.row_levels)
        if len(levels) != len(self.rows):
            raise ValueError(f"row_levels has {len(levels)} entries, but there are {len(self.rows)} rows.")
        steps = [1 + _LEVEL_GAP * (upper != lower) for upper, lower in pairwise(levels)]
        heights = [sum(steps[k:]) for k in range(len(levels))]
        return heights, heights[0] + 1

    def _edges(self, n_timesteps: int) -> np.ndarray:
        """Where each step begins, and where the last one ends."""
        if self.times is None:
            return np.arange(n_timesteps + 1)
        times = np.asarray(self.times)
        if len(times) != n_timesteps:
            raise ValueError(
                f"times has {len(times)} entries, but the sequence has {n_timesteps} time steps."
            )
        if times.dtype.kind not in "iufM":
            raise TypeError(f"times has dtype {times.dtype}; expected numbers or datetime64.")
        one = np.timedelta64(1, "m") if times.dtype.kind == "M" else 1
        step = np.median(np.diff(times)) if n_timesteps > 1 else one
        return np.append(times, times[-1:] + step)


def _palette(classes: Iterable[Any], many: Iterable[Any]) -> dict[Any, Any]:
    labels = np.asarray(classes).tolist()
    colors = _PALETTE if len(labels) <= len(_PALETTE) else list(many)
    return {label: colors[k % len(colors)] for k, label in enumerate(labels)}


def _classes_of(rows: dict[str, Any]) -> np.ndarray:
    """Labels of one level; its rows must be of one length."""
    labels = encode_labels(list(rows.values()), name=" / ".join(f"y_{row[:4]}" for row in rows))
    lengths = np.diff(labels.offsets)
    if lengths.min() < lengths.max():
        raise ValueError(f"y_true has {lengths[0]} labels, but y_pred has {lengths[1]}.")
    return labels.classes


def _joined(classes: list[np.ndarray]) -> np.ndarray:
    """Labels of all levels, level by level; one that occurs at two levels has one colour."""
    if len(classes) == 1:
        return classes[0]
    labels = list(dict.fromkeys(label for own in classes for label in own.tolist()))
    joined = np.empty(len(labels), dtype=object)
    joined[:] = labels
    return joined
