"""From labelled sequences to the parameters of a hidden Markov model: counts, and EM where labels are hidden.

What sequences tell is a dict of statistics, ``start``, ``transition``, ``end`` and ``emission``, which adds up over
sequences: over chunks, over calls of ``partial_fit``, and over sequences of known and of hidden labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sklearn_seqlab import _parallel
from sklearn_seqlab._progress import Progress
from sklearn_seqlab.hmm import _emission
from sklearn_seqlab.hmm._gaussian import TooFar
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.sequences import MISSING, LabelCodes, PackedBatch

__all__ = ["LearningTask", "Learnt", "chains_of", "grow_statistics", "visible_mass"]

Statistics = dict[str, Any]
Parameters = dict[str, Any]


@dataclass
class Learnt:
    """What a fit found."""

    parameters: Parameters
    statistics: Statistics
    n_iter: int = 0
    history: list[float] = field(default_factory=list)
    converged: bool = True
    interrupted: bool = False


@dataclass
class LearningTask:
    """Sequences, what is known of their labels, and how counts are smoothed.

    Attributes
    ----------
    batch : PackedBatch
    labels : LabelCodes
    weight : ndarray of shape (n_sequences,)
    columns : dict of str to ndarray
        Columns of each kind of channel.
    alpha, var_floor, use_end
        See ``HMMClassifier``.
    n_jobs : int or None
    """

    batch: PackedBatch
    labels: LabelCodes
    weight: np.ndarray
    columns: dict[str, np.ndarray]
    alpha: float = 1.0
    var_floor: float = 1e-9
    use_end: bool = False
    n_jobs: int | None = None

    def run(self, earlier: Statistics | None, max_iter: int, tol: float, progress: Progress) -> Learnt:
        """Learn from the sequences and from the statistics of earlier ones, if there are any.

        Complete sequences are counted once; iterations are for the others, whose expected counts depend on
        the parameters.
        """
        complete = self.labels.is_complete()
        # sums of hostile inputs may overflow: estimates are checked
        with _parallel.one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            known = self._counts(np.flatnonzero(complete & (self.weight > 0)))
            known = known if earlier is None else _merge(earlier, known)
            hidden = np.flatnonzero(~complete & (self.weight > 0))
            if not len(hidden):
                parameters = self.estimate(known, self.alpha)
                return Learnt(parameters, known, history=[-self._log_posterior(known, parameters)])
            return self._iterate(known, self._part(hidden), hidden, max_iter, tol, progress)

    def _iterate(
        self,
        known: Statistics,
        part: LearningTask,
        numbers: np.ndarray,
        max_iter: int,
        tol: float,
        progress: Progress,
    ) -> Learnt:
        """EM: expected counts of ``part`` under the last parameters, then parameters by all counts."""
        # at the start only the labelled steps speak; smoothed, so that nothing is ruled out for good
        statistics = _merge(known, part.visible_counts())
        parameters = self.estimate(statistics, max(self.alpha, 1.0))
        found, log_z = part._expected_counts(parameters, numbers)
        found_value = -(self._log_posterior(known, parameters) + log_z)
        learnt = Learnt(parameters, _merge(known, found), 0, [found_value], converged=False)
        try:
            for iteration in range(1, max_iter + 1):
                parameters = self.estimate(learnt.statistics, self.alpha)
                found, log_z = part._expected_counts(parameters, numbers)
                value = -(self._log_posterior(known, parameters) + log_z)
                change = abs(learnt.history[-1] - value)
                learnt.parameters, learnt.statistics = parameters, _merge(known, found)
                learnt.n_iter = iteration
                learnt.history.append(value)
                progress(iteration, value)
                if change <= tol * max(1.0, abs(value)):
                    learnt.converged = True
                    break
        except KeyboardInterrupt:
            learnt.interrupted = True
        return learnt

    def estimate(self, statistics: Statistics, alpha: float) -> Parameters:
        """Smoothed shares of starts and moves, and the parameters of the channels."""
        start, moves, end = (statistics[name] for name in ("start", "transition", "end"))
        moves = np.column_stack([moves, end]) if self.use_end else moves
        moves = _shares(moves, alpha)
        return {
            "start": _shares(start[None], alpha)[0],
            "transition": moves[:, : len(start)],
            "end": moves[:, -1] if self.use_end else np.ones(len(start)),
            "emission": _emission.estimate(statistics["emission"], self.columns, alpha, self.var_floor),
        }

    def _part(self, sequences: np.ndarray) -> LearningTask:
        return LearningTask(
            self.batch.take(sequences), self.labels.take(sequences), self.weight[sequences], self.columns,
            self.alpha, self.var_floor, self.use_end, self.n_jobs,
        )  # fmt: skip

    def _bounds(self, batch: PackedBatch) -> list[tuple[int, int]]:
        size = self.labels.n_labels if batch.is_sparse else max(self.labels.n_labels, batch.n_features)
        return _parallel.chunk_bounds(batch.offsets, size)

    def _counts(self, sequences: np.ndarray) -> Statistics:
        """Counts of sequences whose labels are all known."""
        n_labels = self.labels.n_labels
        if not len(sequences):
            return self._gathered(
                self.batch.values[:0], np.zeros((0, n_labels)), np.zeros((n_labels, n_labels))
            )
        part = self if len(sequences) == self.batch.n_sequences else self._part(sequences)
        codes, offsets = part.labels.codes, part.batch.offsets

        def task(bound: tuple[int, int]) -> Statistics:
            first, last = bound
            rows = slice(offsets[first], offsets[last])
            weight = np.repeat(part.weight[first:last], part.batch.lengths[first:last])
            mass = np.zeros((len(weight), n_labels))
            mass[np.arange(len(weight)), codes[rows]] = weight
            starts = offsets[first:last] - offsets[first]
            into = np.delete(np.arange(len(weight)), starts)
            pairs = codes[rows][into - 1] * n_labels + codes[rows][into]
            moves = np.bincount(pairs, weights=weight[into], minlength=n_labels**2)
            ends = offsets[first + 1 : last + 1] - offsets[first] - 1
            return self._gathered(part.batch.values[rows], mass, moves.reshape(n_labels, -1), starts, ends)

        return _sum(_parallel.run(task, part._bounds(part.batch), self.n_jobs))

    def visible_counts(self) -> Statistics:
        """Counts of the labelled steps and of moves between such; sets of candidates are shared out evenly."""

        def task(bound: tuple[int, int]) -> Statistics:
            first, last = bound
            start, stop = self.batch.offsets[first], self.batch.offsets[last]
            mass = visible_mass(self.labels, start, stop)
            weight = np.repeat(self.weight[first:last], self.batch.lengths[first:last])
            starts = self.batch.offsets[first:last] - start
            into = np.delete(np.arange(len(mass)), starts)
            moves = mass[into - 1].T @ (mass[into] * weight[into, None])
            ends = self.batch.offsets[first + 1 : last + 1] - start - 1
            return self._gathered(self.batch.values[start:stop], mass * weight[:, None], moves, starts, ends)

        return _sum(_parallel.run(task, self._bounds(self.batch), self.n_jobs))

    def _expected_counts(self, parameters: Parameters, numbers: np.ndarray) -> tuple[Statistics, float]:
        """Expected counts given what is known of the labels, and the weighted log-likelihood of it."""
        source = chains_of(self.batch, parameters)

        def task(bound: tuple[int, int]) -> tuple[Statistics, float]:
            first, last = bound
            start, stop = self.batch.offsets[first], self.batch.offsets[last]
            chains = source(first, last).narrowed(self.labels.allowed(start, stop))
            weight = self.weight[first:last]
            log_z, node, edge = chains.forward_backward(weight)
            chains = PackedChains(chains.unary, chains.transition, chains.offsets, int(numbers[first]))
            chains.raise_if_infeasible(log_z)
            starts, ends = (
                self.batch.offsets[first:last] - start,
                self.batch.offsets[first + 1 : last + 1] - start - 1,
            )
            found = self._gathered(self.batch.values[start:stop], node, edge, starts, ends)
            return found, float(weight @ log_z)

        parts = _parallel.run(task, self._bounds(self.batch), self.n_jobs)
        return _sum([found for found, _ in parts]), sum(value for _, value in parts)

    def _gathered(
        self, values: Any, mass: np.ndarray, moves: np.ndarray, starts: Any = (), ends: Any = ()
    ) -> Statistics:
        starts, ends = np.asarray(starts, dtype=np.intp), np.asarray(ends, dtype=np.intp)
        return {
            "start": mass[starts].sum(axis=0),
            "transition": moves,
            "end": mass[ends].sum(axis=0),
            "emission": _emission.gather(values, self.columns, mass),
        }

    def _log_posterior(self, statistics: Statistics, parameters: Parameters) -> float:
        """Log-probability of what was counted, and of the parameters where counts are smoothed."""
        total = _emission.log_likelihood(statistics["emission"], parameters["emission"])
        names = ("start", "transition", "end") if self.use_end else ("start", "transition")
        for name in names:
            counts, p = statistics[name], parameters[name]
            total += float((counts * np.log(np.where(counts > 0, p, 1.0))).sum())
        if self.alpha > 0:
            prior = sum(float(np.log(parameters[name]).sum()) for name in names)
            total += self.alpha * (prior + _emission.log_prior(parameters["emission"]))
        return total


def visible_mass(labels: LabelCodes, start: int = 0, stop: int | None = None) -> np.ndarray:
    """What rows ``start:stop`` say of their labels by themselves, (n, n_labels): rows of sum 1, or 0 if missing."""
    mass = labels.allowed(start, stop) * 1.0
    mass /= mass.sum(axis=1, keepdims=True)
    mass[labels.codes[start:stop] == MISSING] = 0.0
    return mass


def chains_of(batch: PackedBatch, parameters: Parameters) -> Any:
    """What gives the chains of sequences ``first:last``: their scores are log-probabilities."""
    with np.errstate(divide="ignore"):
        start, moves, end = (np.log(parameters[name]) for name in ("start", "transition", "end"))
    moves = np.ascontiguousarray(moves)

    def chains(first: int, last: int) -> PackedChains:
        rows = slice(int(batch.offsets[first]), int(batch.offsets[last]))
        offsets = batch.offsets[first : last + 1] - rows.start
        try:
            unary = _emission.scores(batch.values[rows], parameters["emission"], len(start))
        except TooFar as far:
            s = int(np.searchsorted(offsets, far.row, side="right")) - 1
            raise ValueError(f"X[{first + s}], time step {far.row - offsets[s]}: {far}") from None
        unary[offsets[:-1]] += start
        unary[offsets[1:] - 1] += end
        return PackedChains(unary, moves, offsets, first)

    return chains


def grow_statistics(statistics: Statistics, old: np.ndarray, new: np.ndarray) -> Statistics:
    """Statistics by labels ``old`` as statistics by labels ``new``, which contain them."""
    place = np.searchsorted(new, old)
    n_labels = len(new)
    start, moves, end = np.zeros(n_labels), np.zeros((n_labels, n_labels)), np.zeros(n_labels)
    start[place], end[place] = statistics["start"], statistics["end"]
    moves[np.ix_(place, place)] = statistics["transition"]
    emission = _emission.grow(statistics["emission"], place, n_labels)
    return {"start": start, "transition": moves, "end": end, "emission": emission}


def _merge(a: Statistics, b: Statistics) -> Statistics:
    total = {name: a[name] + b[name] for name in ("start", "transition", "end")}
    return total | {"emission": _emission.merge(a["emission"], b["emission"])}


def _sum(parts: list[Statistics]) -> Statistics:
    total = parts[0]
    for part in parts[1:]:
        total = _merge(total, part)
    return total


def _shares(counts: np.ndarray, alpha: float) -> np.ndarray:
    """Smoothed shares by row; a row without any count is uniform."""
    total = counts.sum(axis=1, keepdims=True) + alpha * counts.shape[1]
    shares = (counts + alpha) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, shares, 1.0 / counts.shape[1])
