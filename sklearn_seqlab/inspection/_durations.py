"""How long the segments of each label last: observed durations against what a model makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.utils import get_tags

from sklearn_seqlab.inspection._weights import unwrapped
from sklearn_seqlab.sequences import cut_rows, encode_levels, shown_offsets

__all__ = ["DurationDisplay"]

_MAX_BINS = 30
_COLUMNS = 4
_OBSERVED, _PREDICTED, _LEARNT = "#BBBBBB", "#0072B2", "#D55E00"


class DurationDisplay:
    """Histograms of durations, a panel per label.

    Use :meth:`from_estimator` or :meth:`from_predictions`; the constructor only stores.

    Parameters
    ----------
    durations : dict of label to array-like of int
        Observed durations of the segments of each label, in time steps.
    predicted : dict of label to array-like of int, default=None
        Durations of predicted segments, drawn as a line.
    probabilities : dict of label to array-like of shape (max_duration,), default=None
        Entry d - 1 is the probability of a duration of d time steps.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One per label, in the order of ``durations``.
    figure_ : matplotlib Figure
    """

    def __init__(
        self,
        durations: Mapping[Any, Any],
        *,
        predicted: Mapping[Any, Any] | None = None,
        probabilities: Mapping[Any, Any] | None = None,
    ):
        self.durations = durations
        self.predicted = predicted
        self.probabilities = probabilities

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Iterable[Any],
        y: Iterable[Any],
        *,
        level: int = 0,
        labels: Iterable[Any] | None = None,
        ax: Any = None,
    ) -> DurationDisplay:
        """Draw true durations, those of predicted segments and, where a model has them, the learnt ones.

        Parameters
        ----------
        estimator : fitted estimator, pipeline or search
            With ``predict_segments``. From ``duration_scores_`` of shape (max_duration, n_labels), in nats
            (or a list of those by level, None where a level has none, as in :class:`HSCRFClassifier`), the learnt
            curve is made. A term linear in the duration is as much a matter of the inputs of each step, so it is set
            to where the curve has the mean of the predicted segments: the curve shows the shape that was learnt.
        X, y
            As for ``fit``; a list of tuples ``(int, int, label)`` is read as the ``fit`` of the estimator does.
        level, labels, ax
            As in :meth:`from_predictions`.

        Returns
        -------
        display : DurationDisplay
        """
        estimator, model = unwrapped(estimator)
        flat = _takes_flat_segments(model)
        segments = estimator.predict_segments(X)
        return cls.from_predictions(
            y,
            segments,
            level=level,
            labels=labels,
            probabilities=_learnt(model, level, segments, flat),
            flat_segments=flat,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Iterable[Any],
        y_pred: Iterable[Any] | None = None,
        *,
        level: int = 0,
        labels: Iterable[Any] | None = None,
        probabilities: Mapping[Any, Any] | None = None,
        flat_segments: bool = True,
        ax: Any = None,
    ) -> DurationDisplay:
        """Count durations and draw them.

        Parameters
        ----------
        y_true, y_pred : list of label sequences or of segments
            Labels of shape (n_timesteps,) or (n_timesteps, n_levels), pairs (labels, ends), lists of segments
            ``(start, stop, label)`` or ``(level, start, stop, label)``, None for a sequence of which nothing is
            known. Of labels, runs of equal ones are taken for segments; one whose beginning or end is not known is
            not counted. ``y_pred=None`` draws the true ones alone.
        level : int, default=0
            Which level to count, from the top.
        labels : iterable of labels, default=None
            Which labels to show and in which order; None shows all that occur in ``y_true``, sorted.
        probabilities : dict of label to array-like of shape (max_duration,), default=None
        flat_segments : bool, default=True
            Whether a list of tuples ``(int, int, label)`` holds segments ``(start, stop, label)``. False reads it as
            the rows of a table of three levels.
        ax : matplotlib Axes or array of them, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : DurationDisplay

        Raises
        ------
        ValueError, TypeError
            If labels or segments cannot be read, or if ``level`` does not exist.
        """
        durations = count_durations(y_true, level, "y_true", flat_segments)
        predicted = None if y_pred is None else count_durations(y_pred, level, "y_pred", flat_segments)
        if labels is not None:
            durations = {label: durations.get(label, np.empty(0, dtype=np.intp)) for label in labels}
        return cls(durations, predicted=predicted, probabilities=probabilities).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> DurationDisplay:
        """Draw a panel per label.

        Heights are shares of segments per time step of duration, so bars of any width can be compared with
        probabilities.

        Parameters
        ----------
        ax : matplotlib Axes or array of n_labels of them, default=None
            None makes a new figure. One Axes is used as it is for one label, and otherwise filled with
            panels.

        Returns
        -------
        self : DurationDisplay
        """
        names = list(self.durations)
        if not names:
            raise ValueError("durations names no label; at least one is needed.")
        axes = _panels(ax, len(names))
        for k, (label, panel) in enumerate(zip(names, axes, strict=True)):
            self._draw(label, panel)
            if k % _COLUMNS == 0:
                panel.set_ylabel("share per time step")
        handles = dict(zip(*axes[0].get_legend_handles_labels()[::-1], strict=True))
        for panel in axes[1:]:
            handles |= dict(zip(*panel.get_legend_handles_labels()[::-1], strict=True))
        style = {"frameon": False, "fontsize": "small"}
        if ax is None and len(names) > 1:
            axes[0].figure.legend(
                handles.values(), handles.keys(), loc="outside lower center", ncols=3, **style
            )
        elif handles:
            axes[0].legend(handles.values(), handles.keys(), **style)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _draw(self, label: Any, ax: Any) -> None:
        true = np.asarray(self.durations[label], dtype=np.intp)
        found = np.asarray((self.predicted or {}).get(label, []), dtype=np.intp)
        curve = np.asarray((self.probabilities or {}).get(label, []), dtype=np.float64)
        longest = max([1, *true.tolist(), *found.tolist()])
        if not len(true) and not len(found):
            longest = max(longest, len(curve))
        width = -(-longest // _MAX_BINS)
        edges = np.arange(0, longest + width, width) + 0.5
        if len(true):
            heights = np.histogram(true, edges)[0] / (len(true) * width)
            ax.bar(edges[:-1], heights, width, align="edge", color=_OBSERVED, label="observed")
        if len(found):
            heights = np.histogram(found, edges)[0] / (len(found) * width)
            ax.stairs(heights, edges, color=_PREDICTED, linewidth=1.3, label="predicted")
        if len(curve):
            shown = curve[: int(edges[-1])]
            style = {"marker": "o", "markersize": 3} if len(shown) <= _MAX_BINS else {}
            ax.plot(np.arange(1, len(shown) + 1), shown, color=_LEARNT, label="learnt", **style)
        title = f"{label} (n = {len(true)})".replace("$", r"\$")
        ax.set(title=title, xlim=(edges[0], edges[-1]), xlabel="duration, time steps")
        ax.title.set_fontsize("medium")
        ax.xaxis.get_major_locator().set_params(integer=True)


def count_durations(
    y: Iterable[Any], level: int, name: str, flat_segments: bool = True
) -> dict[Any, np.ndarray]:
    """Durations of the segments of one level by label, where both their ends are known."""
    items = list(y)
    codes = encode_levels(
        items,
        shown_offsets(items, name, flat_segments=flat_segments),
        segment_bottom=True,
        self_transitions=False,
        flat_segments=flat_segments,
        name=name,
    )
    if not 0 <= level < codes.n_levels:
        raise ValueError(f"level is {level}, but {name} has {codes.n_levels} level(s).")
    labels, ends = codes.levels[level], codes.ends[level]
    # stretches between steps at which a segment ends or may end; one is a segment if it ends for certain,
    # begins for certain and has a label
    starts, stops = cut_rows(ends)
    finishes = ends[stops - 1] == 1
    begins = np.concatenate([[True], finishes[:-1]])
    code = np.maximum.reduceat(labels.codes, starts)
    counted = begins & finishes & (code >= 0)
    duration = (stops - starts)[counted]
    return {label: duration[code[counted] == k] for k, label in enumerate(labels.classes.tolist())}


def _takes_flat_segments(model: Any) -> bool:
    """Whether the ``fit`` of an estimator reads ``(int, int, label)`` as a segment; where its tags do not say, yes."""
    if not hasattr(model, "__sklearn_tags__"):
        return True
    return bool(getattr(get_tags(model).target_tags, "flat_segments", True))


def _learnt(model: Any, level: int, segments: Iterable[Any], flat: bool) -> dict[Any, np.ndarray] | None:
    """Probabilities of durations by label, from the scores that a model gives them, with the predicted means."""
    scores = getattr(model, "duration_scores_", None)
    if isinstance(scores, list | tuple):
        scores = (
            scores[level] if 0 <= level < len(scores) else None
        )  # a level that is not there is refused later
    if scores is None:
        return None
    classes = model.classes_[level] if isinstance(model.classes_, list | tuple) else model.classes_
    predicted = count_durations(segments, level, "y_pred", flat)
    return {
        label: _with_mean(np.asarray(curve, dtype=np.float64), predicted.get(label, np.empty(0)))
        for label, curve in zip(classes.tolist(), np.transpose(scores), strict=True)
    }


def _with_mean(scores: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """Probabilities of 1, 2, ... steps from their scores, plus a linear term that gives them the mean of durations."""
    n = np.arange(1.0, len(scores) + 1)

    def gap(slope: float) -> float:
        return float(softmax(scores + slope * n) @ n) - goal

    # within the support: no slope gives a mean at its ends
    goal = float(np.clip(durations.mean(), 1.05, len(n) - 0.05)) if len(durations) and len(n) > 1 else np.nan
    steepest = 60.0 + np.ptp(scores[np.isfinite(scores)])
    if not gap(-steepest) < 0.0 < gap(steepest):  # nothing to go by
        return softmax(scores)
    return softmax(scores + brentq(gap, -steepest, steepest) * n)


def _panels(ax: Any, n_panels: int) -> np.ndarray:
    import matplotlib.pyplot as plt  # optional dependency, needed only here

    if isinstance(ax, np.ndarray | list | tuple):
        axes = np.array(ax, dtype=object).ravel()
        if len(axes) != n_panels:
            raise ValueError(f"ax has {len(axes)} Axes, but there are {n_panels} labels.")
        return axes
    n_columns = min(n_panels, _COLUMNS)
    n_rows = -(-n_panels // n_columns)
    if ax is None:
        size = (3.2 * n_columns, 2.5 * n_rows)
        _, grid = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
        for spare in grid.ravel()[n_panels:]:
            spare.remove()
        return grid.ravel()[:n_panels]
    if n_panels == 1:
        return np.array([ax], dtype=object)
    ax.set_axis_off()
    width, height = 1 / n_columns, 1 / n_rows
    axes = np.empty(n_panels, dtype=object)
    for k in range(n_panels):
        row, column = divmod(k, n_columns)
        box = (column * width, 1 - (row + 1) * height, 0.8 * width, 0.65 * height)
        axes[k] = ax.inset_axes(box)
    return axes
