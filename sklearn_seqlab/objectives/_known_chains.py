"""What is known of the labels of a batch, and losses of chains of any scores: value, residuals, and along a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from sklearn_seqlab import _parallel
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.sequences import LabelCodes

__all__ = ["KnownChains", "Residuals", "ScoreLine", "Scores", "SequenceLoss", "held_gains", "held_move_gains"]

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

    @property
    def floor(self) -> float:
        """The value where every label has probability one."""
        return 0.0 if self.temperature is None else float(np.log(self.weight.sum()))

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

    def residuals(self, scores: Scores, *, held: bool = False) -> Residuals:
        """One pass forward and backward, free and (for incomplete labels) over what fits.

        Parameters
        ----------
        scores : tuple of ndarray
            Of steps (n_total, n_labels), and of moves: (n_labels, n_labels), or per step.
        held : bool, default=False
            Whether hidden labels are held where they are, and not taken from their distribution given what is known.

        Returns
        -------
        residuals : Residuals
            Infinite scores give infinite or undefined losses: callers back off.
        """
        n_labels, per_step = self.labels.n_labels, scores[1].ndim == 3
        node = np.empty((self.n_total, n_labels))
        edge = np.empty((self.n_total if per_step else self.n_sequences, n_labels, n_labels))
        spread = np.empty((0 if per_step else self.n_sequences, n_labels, n_labels))
        known, log_z = self.known_score(scores), np.empty(self.n_sequences)

        def task(bound: tuple[int, int]) -> None:
            run = slice(*bound)
            rows = slice(self.offsets[bound[0]], self.offsets[bound[1]])
            chains = self.chains(scores, bound)
            numbers, partial, fitting = self.partial(scores, bound)
            if per_step:
                log_z[run], node[rows], edge[rows] = chains.forward_backward()
            else:
                log_z[run], node[rows], edge[run], squares = chains.forward_backward_by_sequence()
                np.maximum(edge[run] - squares, 0.0, out=spread[run])
            if not len(numbers):
                return
            place = partial if per_step else numbers
            if held:
                known[numbers] = fitting.log_partition()
                moves = _rows_of(scores[1], partial)
                free = PackedChains(scores[0][partial], moves, fitting.offsets).with_moves_per_step()
                _, labels, pairs = free.forward_backward()
                codes = self.labels.codes[partial]
                node[partial] = labels - _held_steps(labels, codes)
                pairs -= _held_moves(labels, pairs, codes)
                pairs[fitting.offsets[:-1]] = 0.0
                edge[place] = pairs if per_step else np.add.reduceat(pairs, fitting.offsets[:-1])
                return
            if per_step:
                known[numbers], labels, pairs = fitting.forward_backward()
            else:
                known[numbers], labels, pairs, _ = fitting.forward_backward_by_sequence()
            node[partial] -= labels
            edge[place] -= pairs

        with np.errstate(over="ignore", invalid="ignore"):
            self.run(task)
            codes, into = self.labels.codes, self.moved_rows
            node[self.known_rows, codes[self.known_rows]] -= 1.0
            place = into if per_step else self.sequence[into]
            np.subtract.at(edge, (place, codes[into - 1], codes[into]), 1.0)
            return Residuals(known, np.maximum(log_z - known, 0.0), node, edge, spread)


class Residuals(NamedTuple):
    """Losses of sequences, and what their gradients are made of: model less data.

    Attributes
    ----------
    known : ndarray of shape (n_sequences,)
        Log of the summed scores of the labellings that fit.
    nll : ndarray of shape (n_sequences,)
        Minus the log-probability of what is known.
    node : ndarray of shape (n_total, n_labels)
    edge : ndarray
        Of moves: per step, or summed within each sequence where scores of moves are shared.
    spread : ndarray of shape (n_sequences, n_labels, n_labels)
        Sum of the variances of the indicators of moves; empty where scores of moves are per step.
    """

    known: np.ndarray
    nll: np.ndarray
    node: np.ndarray
    edge: np.ndarray
    spread: np.ndarray


class ScoreLine:
    """The loss of chains along a direction of their scores; one pass forward per call.

    Parameters
    ----------
    known : KnownChains
    loss : SequenceLoss
    scores, gain : tuple of ndarray
        Of steps and of moves: where the line starts, and what a step of length one adds.
    known_value : ndarray of shape (n_sequences,)
        Log of the summed scores of the labellings that fit, at the start.
    held : bool, default=False
        Whether ``gain`` holds differences to the visible labels, so that these gain nothing.
    """

    def __init__(
        self,
        known: KnownChains,
        loss: SequenceLoss,
        scores: Scores,
        known_value: np.ndarray,
        gain: Scores,
        *,
        held: bool = False,
    ):
        self.known, self.loss, self.scores, self.gain, self.held = known, loss, scores, gain, held
        self.known_value = known_value
        self.known_gain = np.zeros(known.n_sequences) if held else known.known_score(gain)

    def __call__(self, step: float) -> tuple[float, float, float]:
        """Value and its first two derivatives with respect to the step."""
        known, gain = self.known, self.gain
        scores = self.scores[0] + step * gain[0], self.scores[1] + step * gain[1]
        value, slope = self.known_value + step * self.known_gain, self.known_gain.copy()
        curve = np.zeros(known.n_sequences)

        def task(bound: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            rows = slice(known.offsets[bound[0]], known.offsets[bound[1]])
            if not self.held:
                numbers, partial, fitting = known.partial(scores, bound)
                if len(numbers):
                    found = fitting.moments(gain[0][partial], _rows_of(gain[1], partial))
                    value[numbers], slope[numbers], curve[numbers] = found
            return known.chains(scores, bound).moments(gain[0][rows], _rows_of(gain[1], rows))

        parts = known.run(task)
        log_z, mean, variance = (np.concatenate([part[k] for part in parts]) for k in range(3))
        nll = np.maximum(log_z - value, 0.0)
        return self.loss.derivatives(nll, mean - slope, variance - curve)


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


def held_gains(step: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """What labels (n_total, n_labels) gain where visible ones are put right and hidden ones left alone."""
    held = step.copy()
    seen = np.flatnonzero(codes >= 0)
    held[seen] = step[seen, codes[seen]][:, None]
    return held


def held_move_gains(move: np.ndarray, codes: np.ndarray) -> np.ndarray:
    held = move.copy()
    into = np.arange(1, len(codes))
    seen, seen_before = codes[into] >= 0, codes[into - 1] >= 0
    both, end, begin = into[seen & seen_before], into[seen & ~seen_before], into[~seen & seen_before]
    held[both] = move[both, codes[both - 1], codes[both]][:, None, None]
    held[end] = move[end, :, codes[end]][:, :, None]
    held[begin] = move[begin, codes[begin - 1], :][:, None, :]
    return held
