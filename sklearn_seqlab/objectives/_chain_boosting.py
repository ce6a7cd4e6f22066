"""Losses that boosting of chains minimises: from the log-likelihood of each sequence to value, gradient, curvature.

With ``nll`` minus the log-probability of what is known of a sequence, the exponential loss is the sum of ``exp(nll)``,
the inverse probability. It is held as its logarithm throughout, since that of 300 steps and 10 labels is past the
double range before the first round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from sklearn_seqlab import _parallel
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives._boosting_features import BoostingFeatures
from sklearn_seqlab.sequences import LabelCodes, PackedBatch

__all__ = ["ChainBoosting", "HeldOutChains", "KnownChains", "Line", "Look", "SequenceLoss"]

Scores = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SequenceLoss:
    """How the losses of sequences make one.

    Attributes
    ----------
    weight : ndarray of shape (n_sequences,)
        Positive.
    temperature : ndarray of shape (n_sequences,) or None
        ``log(sum_s weight_s * exp(temperature_s * nll_s))``; None for ``sum_s weight_s * nll_s``.
    """

    weight: np.ndarray
    temperature: np.ndarray | None

    def value(self, nll: np.ndarray) -> float:
        if self.temperature is None:
            return float(self.weight @ nll)
        return float(logsumexp(self.temperature * nll, b=self.weight))

    def share(self, nll: np.ndarray) -> np.ndarray:
        """Derivative of the value with respect to the loss of each sequence."""
        if self.temperature is None:
            return self.weight
        exponent = self.temperature * nll + np.log(self.weight)
        return self.temperature * np.exp(exponent - logsumexp(exponent))

    def derivatives(
        self, nll: np.ndarray, slope: np.ndarray, curvature: np.ndarray
    ) -> tuple[float, float, float]:
        """Value and its two derivatives, from those of each ``nll`` along a line."""
        share = self.share(nll)
        first, second = float(share @ slope), float(share @ curvature)
        if self.temperature is not None:
            second += float(share @ (self.temperature * slope**2)) - first**2
        return self.value(nll), first, second

    @property
    def spread_factor(self) -> np.ndarray:
        """What the squared slope of a sequence counts in the curvature of the loss itself (not of its log)."""
        return np.zeros_like(self.weight) if self.temperature is None else self.temperature


class KnownChains:
    """Runs of sequences and what is known of their labels: what every evaluation of chains needs.

    Parameters
    ----------
    labels : LabelCodes
    doubles_per_step : int
    n_jobs : int or None
    """

    def __init__(self, labels: LabelCodes, doubles_per_step: int, n_jobs: int | None):
        self.labels, self.n_jobs = labels, n_jobs
        self.offsets = labels.offsets
        self.n_sequences, self.n_total = labels.n_sequences, int(labels.offsets[-1])
        self.complete = labels.is_complete()
        self.bounds = _parallel.chunk_bounds(self.offsets, doubles_per_step)
        # a row's label where its sequence is complete, and the rows of such sequences that are moved into
        self.known_rows = np.flatnonzero(np.repeat(self.complete, np.diff(self.offsets)))
        self.moved_rows = np.setdiff1d(self.known_rows, self.offsets[:-1], assume_unique=True)
        self.sequence = np.repeat(np.arange(self.n_sequences), np.diff(self.offsets))

    def run(self, task: Callable[[tuple[int, int]], Any]) -> list[Any]:
        return _parallel.run(task, self.bounds, self.n_jobs)

    def chains(self, scores: Scores, bound: tuple[int, int]) -> PackedChains:
        """The chains of sequences ``first:last``."""
        first, last = bound
        start, stop = self.offsets[first], self.offsets[last]
        unary, moves = scores
        moves = moves[start:stop] if moves.ndim == 3 else moves
        return PackedChains(unary[start:stop], moves, self.offsets[first : last + 1] - start, first)

    def partial(self, scores: Scores, bound: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, PackedChains]:
        """The incompletely labelled sequences of a run: their numbers, rows, and chains over what fits."""
        numbers = bound[0] + np.flatnonzero(~self.complete[bound[0] : bound[1]])
        start, stop = self.offsets[bound[0]], self.offsets[bound[1]]
        rows = start + np.flatnonzero(~self.complete[self.sequence[start:stop]])
        lengths = np.diff(self.offsets)[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
        fits = self.labels.allowed(start, stop)[rows - start]
        unary, moves = scores
        moves = moves[rows] if moves.ndim == 3 else moves
        return numbers, rows, PackedChains(np.where(fits, unary[rows], -np.inf), moves, offsets)

    def known_score(self, scores: Scores) -> np.ndarray:
        """Score of the labels of complete sequences (n_sequences,); 0 for the others."""
        unary, moves = scores
        codes = self.labels.codes
        gain = np.zeros(self.n_total)
        rows, into = self.known_rows, self.moved_rows
        gain[rows] = unary[rows, codes[rows]]
        where = codes[into - 1], codes[into]
        gain[into] += moves[into, *where] if moves.ndim == 3 else moves[where]
        return np.add.reduceat(gain, self.offsets[:-1])

    def losses(self, scores: Scores) -> np.ndarray:
        """Minus the log-probability of what is known of each sequence, (n_sequences,)."""

        def task(bound: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            numbers, _, fitting = self.partial(scores, bound)
            fits = fitting.log_partition() if len(numbers) else np.empty(0)
            return self.chains(scores, bound).log_partition(), numbers, fits

        known = self.known_score(scores)
        parts = self.run(task)
        for _, numbers, fits in parts:
            known[numbers] = fits
        return np.maximum(np.concatenate([part[0] for part in parts]) - known, 0.0)


@dataclass(frozen=True, eq=False)
class Look:
    """What is known of a loss at one point.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
    scores : tuple of ndarray
        Of steps and of moves.
    known : ndarray of shape (n_sequences,)
        Log of the summed scores of the labellings that fit.
    nll : ndarray of shape (n_sequences,)
    value : float
        Of the loss with its penalty.
    residual : ndarray of shape (n_total, n_columns)
        Marginals of labels (or moves) less those that fit what is known.
    moved, moved_spread : ndarray of shape (n_sequences, n_labels, n_labels)
        Residuals of moves, summed over steps, and the sum of the variances of their indicators; empty where inputs
        weigh moves.
    """

    coef: np.ndarray
    scores: Scores
    known: np.ndarray
    nll: np.ndarray
    value: float
    residual: np.ndarray
    moved: np.ndarray
    moved_spread: np.ndarray


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
        self.labels, self.loss = labels, loss
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

    def look(self, coef: np.ndarray, scores: Scores | None = None) -> Look:
        """Value and residuals at a point; one pass forward and backward over all sequences."""
        with np.errstate(over="ignore", invalid="ignore"):  # callers back off from what is not finite
            return self._look(coef, scores)

    def _look(self, coef: np.ndarray, scores: Scores | None) -> Look:
        scores = self.features.scores(coef) if scores is None else scores
        n_labels, n_sequences = self.labels.n_labels, self.known.n_sequences
        residual = np.empty((self.known.n_total, self.features.shape[0]))
        shape = (0 if self.features.weighs_moves else n_sequences, n_labels, n_labels)
        moved, spread = np.empty(shape), np.empty(shape)
        known, log_z = self.known.known_score(scores), np.empty(n_sequences)

        def task(bound: tuple[int, int]) -> None:
            run = slice(*bound)
            rows = slice(self.known.offsets[bound[0]], self.known.offsets[bound[1]])
            chains = self.known.chains(scores, bound)
            numbers, partial_rows, fitting = self.known.partial(scores, bound)
            if self.features.weighs_moves:
                log_z[run], node, edge = chains.forward_backward()
                residual[rows] = edge.reshape(len(edge), -1)
            else:
                log_z[run], residual[rows], moved[run], squares = chains.forward_backward_by_sequence()
                np.maximum(moved[run] - squares, 0.0, out=spread[run])
            if not len(numbers):
                return
            if self.holds_hidden:
                known[numbers] = fitting.log_partition()
                moves = scores[1][partial_rows] if scores[1].ndim == 3 else scores[1]
                free = PackedChains(scores[0][partial_rows], moves, fitting.offsets).with_moves_per_step()
                _, node, edge = free.forward_backward()
                codes = self.labels.codes[partial_rows]
                node, edge = node - _held_steps(node, codes), edge - _held_moves(node, edge, codes)
                edge[fitting.offsets[:-1]] = 0.0
                if self.features.weighs_moves:
                    residual[partial_rows] = edge.reshape(len(edge), -1)
                else:
                    residual[partial_rows] = node
                    moved[numbers] = np.add.reduceat(edge, fitting.offsets[:-1])
            elif self.features.weighs_moves:
                known[numbers], _, edge = fitting.forward_backward()
                residual[partial_rows] -= edge.reshape(len(edge), -1)
            else:
                known[numbers], node, edge, _ = fitting.forward_backward_by_sequence()
                residual[partial_rows] -= node
                moved[numbers] -= edge

        self.known.run(task)
        self._take_known_off(residual, moved)
        nll = np.maximum(log_z - known, 0.0)
        value = self._penalised(self.loss.value(nll), coef)
        return Look(coef, scores, known, nll, value, residual, moved, spread)

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
        spread = np.abs(look.residual)
        spread *= 1.0 - spread
        per_row = share[self.known.sequence][:, None]
        between = share * self.loss.spread_factor
        gradient = np.empty(self.n_coef)
        curvature = np.empty(self.n_coef)
        n = self.features.n_products
        gradient[:n] = self.features.transposed_product(look.residual * per_row).ravel()
        curvature[:n] = self.features.transposed_product(spread * per_row, squared=True).ravel()
        if between.any():
            curvature[:n] += self.features.squared_sums(look.residual, between).ravel()
        moves = self.features.moves
        if moves.any():
            moved = look.moved[:, moves]
            gradient[n:] = share @ moved
            curvature[n:] = share @ look.moved_spread[:, moves] + between @ moved**2
        relative = self.relative_penalty(look)
        return gradient + relative * look.coef, curvature + relative

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Of the logarithm of the loss with its penalty: what quasi-Newton methods minimise."""
        with np.errstate(over="ignore", invalid="ignore"):
            look = self.look(coef)
            share = self.loss.share(look.nll)
            gradient = np.empty(self.n_coef)
            n, moves = self.features.n_products, self.features.moves
            rows = look.residual * share[self.known.sequence][:, None]
            gradient[:n] = self.features.transposed_product(rows).ravel()
            gradient[n:] = share @ look.moved[:, moves] if moves.any() else 0.0
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
        return step - _held_gains(step, codes), move - _held_move_gains(move, codes)

    def extent(self, chosen: int) -> tuple[float, float]:
        """Smallest and largest difference that one feature makes, over all sequences and labellings."""
        step, move = self.differences(self.features.direction(np.array([chosen]), np.ones(1)))

        def task(bound: tuple[int, int]) -> tuple[float, float]:
            low = self.known.chains((-step, -move), bound).viterbi()[1].max()
            return -float(low), float(self.known.chains((step, move), bound).viterbi()[1].max())

        parts = self.known.run(task)
        return min(low for low, _ in parts), max(high for _, high in parts)

    # ---- inside -----------------------------------------------------------------------------------------------

    def _take_known_off(self, residual: np.ndarray, moved: np.ndarray) -> None:
        codes, n_labels = self.labels.codes, self.labels.n_labels
        into = self.known.moved_rows
        if self.features.weighs_moves:
            residual[into, codes[into - 1] * n_labels + codes[into]] -= 1.0
            return
        residual[self.known.known_rows, codes[self.known.known_rows]] -= 1.0
        np.subtract.at(moved, (self.known.sequence[into], codes[into - 1], codes[into]), 1.0)

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
        self.gain = objective.differences(gain) if objective.holds_hidden else gain
        self.known_gain = np.zeros(len(look.nll))
        if not objective.holds_hidden:
            self.known_gain = objective.known.known_score(gain)
        self.inner, self.square = float(look.coef[chosen] @ amounts), float(amounts @ amounts)

    def loss(self, step: float) -> tuple[float, float, float]:
        """The loss without penalty (its logarithm, if exponential) and its derivatives."""
        objective, look = self.objective, self.look
        unary, moves = look.scores
        scores = unary + step * self.gain[0], moves + step * self.gain[1]
        known_value, known_slope = look.known + step * self.known_gain, self.known_gain.copy()
        known_curve = np.zeros_like(known_slope)

        def task(bound: tuple[int, int]) -> tuple[np.ndarray, ...]:
            rows = slice(objective.known.offsets[bound[0]], objective.known.offsets[bound[1]])
            if not objective.holds_hidden:
                numbers, partial, fitting = objective.known.partial(scores, bound)
                if len(numbers):
                    found = fitting.moments(self.gain[0][partial], _rows_of(self.gain[1], partial))
                    known_value[numbers], known_slope[numbers], known_curve[numbers] = found
            chains = objective.known.chains(scores, bound)
            return chains.moments(self.gain[0][rows], _rows_of(self.gain[1], rows))

        parts = objective.known.run(task)
        log_z, slope, curve = (np.concatenate([part[k] for part in parts]) for k in range(3))
        nll = np.maximum(log_z - known_value, 0.0)
        return objective.loss.derivatives(nll, slope - known_slope, curve - known_curve)

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


def _rows_of(moves: np.ndarray, rows: Any) -> np.ndarray:
    return moves[rows] if moves.ndim == 3 else moves


def _held_steps(node: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Marginals of labels with visible ones put right and hidden ones left alone; code -1 is hidden."""
    held = node.copy()
    seen = np.flatnonzero(codes >= 0)
    held[seen] = 0.0
    held[seen, codes[seen]] = 1.0
    return held


def _held_moves(node: np.ndarray, edge: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The same for moves: a visible end is put right, a hidden one keeps its distribution."""
    held = edge.copy()
    into = np.arange(1, len(codes))
    seen, seen_before = codes[into] >= 0, codes[into - 1] >= 0
    both, end, begin = into[seen & seen_before], into[seen & ~seen_before], into[~seen & seen_before]
    held[both] = held[end] = held[begin] = 0.0
    held[both, codes[both - 1], codes[both]] = 1.0
    held[end, :, codes[end]] = node[end - 1]
    held[begin, codes[begin - 1], :] = node[begin]
    return held


def _held_gains(step: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """What labels (n_total, n_labels) gain where visible ones are put right and hidden ones left alone."""
    held = step.copy()
    seen = np.flatnonzero(codes >= 0)
    held[seen] = step[seen, codes[seen]][:, None]
    return held


def _held_move_gains(move: np.ndarray, codes: np.ndarray) -> np.ndarray:
    held = move.copy()
    into = np.arange(1, len(codes))
    seen, seen_before = codes[into] >= 0, codes[into - 1] >= 0
    both, end, begin = into[seen & seen_before], into[seen & ~seen_before], into[~seen & seen_before]
    held[both] = move[both, codes[both - 1], codes[both]][:, None, None]
    held[end] = move[end, :, codes[end]][:, :, None]
    held[begin] = move[begin, codes[begin - 1], :][:, None, :]
    return held


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
