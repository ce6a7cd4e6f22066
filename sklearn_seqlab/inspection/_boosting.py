"""Pictures of boosted models: what each round did, and which features were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._arguments import positive
from sklearn_seqlab.inspection._weights import unwrapped
from sklearn_seqlab.metrics import micro_accuracy_score

__all__ = ["BoostingDisplay", "SelectedFeaturesDisplay"]

_BLUE, _VERMILION, _GREEN = "#0072B2", "#D55E00", "#009E73"


class BoostingDisplay:
    """Loss and accuracy by round.

    Use :meth:`from_estimator`, or the constructor, which only stores, and :meth:`plot`.

    Parameters
    ----------
    loss : array-like of shape (n_rounds + 1,)
        Objective at the start and after each round, in nats.
    accuracy : dict of str to array-like of shape (n_rounds,), default=None
        Micro accuracy after each round, by the name of the data.
    kept : int, default=None
        Round whose model was kept.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Of the loss.
    accuracy_ax_ : matplotlib Axes or None
    figure_ : matplotlib Figure
    """

    def __init__(
        self, loss: ArrayLike, accuracy: dict[str, ArrayLike] | None = None, *, kept: int | None = None
    ):
        self.loss = loss
        self.accuracy = accuracy
        self.kept = kept

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, name: str = "held out", ax: Any = None
    ) -> BoostingDisplay:
        """Draw the rounds of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator, pipeline or search
            With ``loss_curve_``, and ``staged_predict`` if there are sequences.
        X, y : lists, default=None
            Sequences that were not learnt from, and their labels.
        name : str, default="held out"
            What the legend calls them.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : BoostingDisplay
        """
        pipeline, model = unwrapped(estimator)
        check_is_fitted(model)
        accuracy: dict[str, ArrayLike] = {}
        if X is not None:
            # what comes before the last step of a pipeline is done here, since stages belong to the last
            inputs = X if pipeline is model else pipeline[:-1].transform(X)
            accuracy[name] = [micro_accuracy_score(y, labels) for labels in model.staged_predict(inputs)]
        return cls(model.loss_curve_, accuracy, kept=int(model.n_iter_)).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> BoostingDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        self : BoostingDisplay
        """
        import matplotlib.pyplot as plt  # optional dependency, needed only here

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
        loss = np.asarray(self.loss, dtype=np.float64)
        lines = ax.plot(np.arange(len(loss)), loss, color=_BLUE, label="loss")
        ax.set(xlabel="round", ylabel="loss, nats", xlim=(0, max(1, len(loss) - 1)))
        ax.yaxis.label.set_color(_BLUE)
        self.accuracy_ax_ = None
        if self.accuracy:
            self.accuracy_ax_ = ax.twinx()
            colors = [_VERMILION, _GREEN, "black"]
            for k, (name, values) in enumerate(self.accuracy.items()):
                shown = 100 * np.asarray(values, dtype=np.float64)
                rounds = np.arange(1, len(shown) + 1)
                color = colors[k % len(colors)]
                lines += self.accuracy_ax_.plot(rounds, shown, color=color, label=f"accuracy, {name}")
            self.accuracy_ax_.set(ylabel="right steps, %")
        if self.kept is not None and self.kept < len(loss) - 1:
            lines.append(ax.axvline(self.kept, color="gray", linestyle=":", label="kept"))
        ax.legend(handles=lines, loc="center right", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class SelectedFeaturesDisplay:
    """The features that lowered the loss most, as bars.

    Parameters
    ----------
    names : sequence of str
    importances : array-like of shape (n_features,)
        Decrease of the loss on account of each, in nats, or its share.
    weights : array-like of shape (n_features,), default=None
        Signed weights: bars of negative ones are vermilion, and the values are written beside.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
        From the largest to the smallest.
    """

    def __init__(self, names: Sequence[str], importances: ArrayLike, weights: ArrayLike | None = None):
        self.names = names
        self.importances = importances
        self.weights = weights

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, top: int | None = 15, ax: Any = None
    ) -> SelectedFeaturesDisplay:
        """Draw the features of a fitted :class:`BoostedCRF`.

        Parameters
        ----------
        estimator : fitted estimator, pipeline or search
            With ``feature_importances_`` and ``feature_names``; ``steps_`` give the weights where there are any.
        top : int or None, default=15
            How many to draw; None for all that were chosen.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : SelectedFeaturesDisplay
        """
        model = unwrapped(estimator)[1]
        check_is_fitted(model)
        top = None if top is None else positive(top, "top")
        importances = np.asarray(model.feature_importances_)
        order = np.argsort(-importances, kind="stable")
        order = order[importances[order] > 0][:top]
        weights = None
        if hasattr(model, "steps_"):
            weights = np.zeros(len(importances))
            np.add.at(weights, model.steps_["feature"], model.steps_["amount"])
            weights = weights[order]
        return cls(model.feature_names(order).tolist(), importances[order], weights).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> SelectedFeaturesDisplay:
        """Draw the bars, the first feature on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        self : SelectedFeaturesDisplay
        """
        import matplotlib.pyplot as plt  # optional dependency, needed only here

        names = [str(name).replace("$", r"\$") for name in self.names]
        sizes = np.asarray(self.importances, dtype=np.float64)
        if len(names) != len(sizes):
            raise ValueError(f"names has {len(names)} entries, but importances has {len(sizes)}.")
        weights = None if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 0.6 + 0.28 * max(1, len(names))), layout="constrained")
        colors = [_BLUE if weights is None or weights[k] >= 0 else _VERMILION for k in range(len(names))]
        places = np.arange(len(names))
        self.bars_ = ax.barh(places, sizes, color=colors)
        if weights is not None:
            ax.bar_label(self.bars_, labels=[f"{weight:+.2f}" for weight in weights], padding=3, fontsize=8)
        ax.set(yticks=places, yticklabels=names, xlabel="decrease of the loss")
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.margins(x=0.18)
        self.ax_, self.figure_ = ax, ax.figure
        return self
