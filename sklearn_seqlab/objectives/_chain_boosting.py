"""Losses that boosting of chains minimises: from the log-likelihood of each sequence to value, gradient, curvature.

With ``nll`` minus the log-probability of what is known of a sequence, the exponential loss is the sum of ``exp(nll)``,
the inverse probability. It is held as its logarithm throughout, since that of 300 steps and 10 labels is past the
double range before the first round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_seqlab.objectives._boosting_features import BoostingFeatures
from sklearn_seqlab.objectives._known_chains import (
    KnownChains,
    Residuals,
    ScoreLine,
    Scores,
    SequenceLoss,
    held_gains,
    held_move_gains,
)
from sklearn_seqlab.sequences import LabelCodes, PackedBatch

__all__ = ["ChainBoosting", "HeldOutChains", "Line", "Look"]


@dataclass(frozen=True, eq=False)
class Look:
    """What is known of a loss at one point.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
    scores : tuple of ndarray
        Of steps and of moves.
    value : float
        Of the loss with its penalty.
    found : Residuals
    """

    coef: np.ndarray
    scores: Scores
    value: float
    found: Residuals

    @property
    def nll(self) -> np.ndarray:
        """Loss of each sequence."""
        return self.found.nll


class ChainBoosting:
    """Exponential or logarithmic loss of chains over a set of features, as boosting and quasi-Newton methods need it.

    Parameters
    ----------
    batch : PackedBatch
        Its values are the inputs of the features.
    labels : LabelCodes
        Something is known of every sequence.
    loss : SequenceLoss
    feature_set : str
    surrogate : {"exact", "fixed_h"}
        How hidden labels enter the gradient: by their distribution given what is known, or held where they are in both
        terms of each difference. A set of candidates counts as hidden.
    l2 : float
        ``l2 / 2 * ||coef||**2`` is added to the (log of the) loss.
    sigma : float or None
        ``||coef||**2 / (2 sigma**2)`` is added to the exponential loss before its logarithm is taken.
    n_jobs : int or None

    Notes
    -----
    Notation of the derivation: ``p`` of a sequence is the probability of its visible labels, its loss ``1 / p``. The
    derivative of ``log sum_s 1 / p_s`` is that of the log-likelihoods, sequence ``s`` weighted by its share of the sum.
    """

    l1: np.ndarray | None = None

    def __init__(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        loss: SequenceLoss,
        *,
        feature_set: str,
        surrogate: str = "exact",
        l2: float = 0.0,
        sigma: float | None = None,
        n_jobs: int | None = None,
    ):
        self.labels, self.loss, self.floor = labels, loss, loss.floor
        self.features = BoostingFeatures(batch.values, batch.offsets, labels.n_labels, feature_set)
        self.n_coef = self.features.n_coef
        self.known = KnownChains(labels, self.features.doubles_per_step, n_jobs)
        is_partial = not self.known.complete.all()
        self.holds_hidden = surrogate == "fixed_h" and is_partial
        self.is_convex = not is_partial
        logarithmic = loss.temperature is None
        weight = loss.weight if logarithmic else loss.weight / loss.weight.sum()
        self.scale = np.maximum(self.features.scale, np.finfo(float).tiny ** 0.25)
        self.size = float(weight @ np.diff(self.known.offsets))
        self.ridge = l2 if sigma is None else 1 / sigma**2 if logarithmic else 0.0
        self.inverse_variance = 0.0 if sigma is None or logarithmic else 1 / sigma**2

    # ---- at a point -------------------------------------------------------------------------------------------

    def look(self, coef: np.ndarray, scores: Scores | None = None, *, exact: bool = False) -> Look:
        """Value and residuals at a point; one pass forward and backward over all sequences."""
        scores = self.features.scores(coef) if scores is None else scores
        found = self.known.residuals(scores, held=self.holds_hidden and not exact)
        with np.errstate(over="ignore", invalid="ignore"):  # callers back off from what is not finite
            value = self._penalised(self.loss.value(found.nll), coef)
        return Look(coef, scores, value, found)

    def after(self, look: Look, chosen: np.ndarray, amounts: np.ndarray) -> Look:
        """The look at a point where some coefficients have changed."""
        coef = look.coef.copy()
        coef[chosen] += amounts
        step, move = self.features.direction(chosen, amounts)
        unary = look.scores[0] if self.features.weighs_moves else look.scores[0] + step
        return self.look(coef, (unary, look.scores[1] + move))

    def gradient_and_curvature(self, look: Look) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the loss with respect to each coefficient, divided by the loss itself where it is exponential.

        The first is exact; the second takes time steps for independent, and ranks features only. It keeps the spread of
        the slopes between sequences: without it the largest loss hides that of all others, and the search jams.
        Penalties included. Time O(n_total * n_inputs * n_columns).
        """
        share = self.loss.share(look.nll)
        residual = self._product_residual(look)
        spread = np.abs(residual)
        spread *= 1.0 - spread
        per_row = share[self.known.sequence][:, None]
        between = share * self.loss.spread_factor
        gradient = np.empty(self.n_coef)
        curvature = np.empty(self.n_coef)
        n = self.features.n_products
        gradient[:n] = self.features.transposed_product(residual * per_row).ravel()
        curvature[:n] = self.features.transposed_product(spread * per_row, squared=True).ravel()
        if between.any():
            curvature[:n] += self.features.squared_sums(residual, between).ravel()
        moves = self.features.moves
        if moves.any():
            moved = look.found.edge[:, moves]
            gradient[n:] = share @ moved
            curvature[n:] = share @ look.found.spread[:, moves] + between @ moved**2
        relative = self.relative_penalty(look)
        return gradient + relative * look.coef, curvature + relative

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Of the logarithm of the loss with its penalty: what quasi-Newton methods minimise, whatever the surrogate."""
        with np.errstate(over="ignore", invalid="ignore"):
            look = self.look(coef, exact=True)
            share = self.loss.share(look.nll)
            gradient = np.empty(self.n_coef)
            n, moves = self.features.n_products, self.features.moves
            rows = self._product_residual(look) * share[self.known.sequence][:, None]
            gradient[:n] = self.features.transposed_product(rows).ravel()
            gradient[n:] = share @ look.found.edge[:, moves] if moves.any() else 0.0
            if self.inverse_variance:
                gradient *= np.exp(self.loss.value(look.nll) - look.value)
                gradient += self.inverse_variance * np.exp(-look.value) * coef
        return look.value, gradient + self.ridge * coef

    def restricted(self, coef: np.ndarray, chosen: np.ndarray) -> _Restricted:
        """The loss as a function of some coefficients alone."""
        return _Restricted(self, coef, chosen)

    # ---- along a line -----------------------------------------------------------------------------------------

    def line(self, look: Look, chosen: np.ndarray, amounts: np.ndarray) -> Line:
        """The loss as a function of a step along a direction."""
        return Line(self, look, chosen, amounts)

    def differences(self, gain: Scores) -> Scores:
        """What a direction gains over the visible labels, clique by clique, with hidden labels held where they are."""
        codes = np.where(self.labels.codes >= 0, self.labels.codes, -1)
        step, move = gain
        shape = (self.known.n_total, self.labels.n_labels, self.labels.n_labels)
        move = np.array(np.broadcast_to(move, shape), order="C")
        return step - held_gains(step, codes), move - held_move_gains(move, codes)

    def extent(self, chosen: int) -> tuple[float, float]:
        """Smallest and largest difference that one feature makes, over all sequences and labellings."""
        step, move = self.differences(self.features.direction(np.array([chosen]), np.ones(1)))

        def task(bound: tuple[int, int]) -> tuple[float, float]:
            low = self.known.chains((-step, -move), bound).viterbi()[1].max()
            return -float(low), float(self.known.chains((step, move), bound).viterbi()[1].max())

        parts = self.known.run(task)
        return min(low for low, _ in parts), max(high for _, high in parts)

    # ---- inside -----------------------------------------------------------------------------------------------

    def _product_residual(self, look: Look) -> np.ndarray:
        """Residuals of the labels or moves that inputs weigh, (n_total, n_columns)."""
        if self.features.weighs_moves:
            return look.found.edge.reshape(self.known.n_total, -1)
        return look.found.node

    def _penalised(self, value: float, coef: np.ndarray) -> float:
        square = float(coef @ coef)
        if self.inverse_variance and square:
            value = float(np.logaddexp(value, np.log(0.5 * self.inverse_variance * square)))
        return value + 0.5 * self.ridge * square

    def relative_penalty(self, look: Look) -> float:
        """Second derivative of the penalty, relative to the loss where both stand inside one logarithm."""
        if not self.inverse_variance:
            return self.ridge
        return float(self.inverse_variance * np.exp(-self.loss.value(look.nll)))


class Line:
    """The loss at ``coef + step * amounts``, with its two derivatives with respect to the step.

    ``line(step)`` is the objective of boosting: the loss and its penalty; with hidden labels held, the surrogate of the
    round. One pass forward per call.
    """

    def __init__(self, objective: ChainBoosting, look: Look, chosen: np.ndarray, amounts: np.ndarray):
        self.objective, self.look = objective, look
        gain = objective.features.direction(chosen, amounts)
        held = objective.holds_hidden
        self.loss = ScoreLine(
            objective.known,
            objective.loss,
            look.scores,
            look.found.known,
            objective.differences(gain) if held else gain,
            held=held,
        )
        self.inner, self.square = float(look.coef[chosen] @ amounts), float(amounts @ amounts)

    def second_order(self) -> tuple[float, float]:
        """Slope and curvature at 0 of the loss itself and its penalty, divided by the loss if it is exponential."""
        objective = self.objective
        _, slope, curve = self.loss(0.0)
        if objective.loss.temperature is not None:
            curve += slope**2
        relative = objective.relative_penalty(self.look)
        return slope + relative * self.inner, curve + relative * self.square

    def __call__(self, step: float) -> tuple[float, float, float]:
        objective = self.objective
        value, first, second = self.loss(step)
        square = float(self.look.coef @ self.look.coef) + step * (2 * self.inner + step * self.square)
        slope, curve = self.inner + step * self.square, self.square
        if objective.inverse_variance:
            penalty = 0.5 * objective.inverse_variance * square
            total = float(np.logaddexp(value, np.log(penalty))) if penalty > 0 else value
            share, unit = np.exp(value - total), objective.inverse_variance * np.exp(-total)
            second = share * (second + first**2) + unit * curve
            first = share * first + unit * slope
            value, second = total, second - first**2
        return (
            value + 0.5 * objective.ridge * square,
            first + objective.ridge * slope,
            second + objective.ridge * curve,
        )


class _Restricted:
    """Some coefficients of a loss, the others held."""

    l1: np.ndarray | None = None

    def __init__(self, objective: ChainBoosting, coef: np.ndarray, chosen: np.ndarray):
        self.objective, self.coef, self.chosen = objective, coef, chosen
        self.n_coef, self.scale, self.size = len(chosen), objective.scale[chosen], objective.size

    def value_and_gradient(self, part: np.ndarray) -> tuple[float, np.ndarray]:
        coef = self.coef.copy()
        coef[self.chosen] = part
        value, gradient = self.objective.value_and_gradient(coef)
        return value, gradient[self.chosen]


class HeldOutChains:
    """Mean loss of sequences that are not learnt from, kept up to date while coefficients change.

    Parameters
    ----------
    batch : PackedBatch
    labels : LabelCodes
    weight : ndarray of shape (n_sequences,)
        Not all zero.
    feature_set : str
    n_jobs : int or None
    """

    def __init__(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        weight: np.ndarray,
        *,
        feature_set: str,
        n_jobs: int | None,
    ):
        self.features = BoostingFeatures(batch.values, batch.offsets, labels.n_labels, feature_set)
        self.known = KnownChains(labels, self.features.doubles_per_step, n_jobs)
        self.weight = weight / weight.sum()
        self.scores = self.features.scores(np.zeros(self.features.n_coef))

    def __call__(self, chosen: np.ndarray, amounts: np.ndarray) -> float:
        """Change coefficients; the mean of minus the log-likelihood of a sequence, in nats."""
        step, move = self.features.direction(chosen, amounts)
        self.scores = self.scores[0] + step, self.scores[1] + move
        return float(self.weight @ self.known.losses(self.scores))
