"""Greedy search for the set of conjunctions on which a hidden Markov model does best on held-out sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_seqlab import _parallel
from sklearn_seqlab._conjunctions import Conjunction, complements, item_truth
from sklearn_seqlab.hmm._conjunction_hmm import TrainingData
from sklearn_seqlab.hmm._learning import LearningTask, visible_mass
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.sequences import PackedBatch

__all__ = ["SetSearch"]

ConjunctionSet = tuple[Conjunction, ...]


@dataclass
class _Channel:
    """One conjunction: its truth at every step, what makes it the same as others, and its scores by split."""

    truth: np.ndarray
    identity: int
    tables: list[np.ndarray]
    """By split (2, n_labels): log-probability of false and of true given the label."""


class _Split:
    """Counts of some sequences, and others to be judged on."""

    def __init__(self, data: TrainingData, train: np.ndarray, held_out: np.ndarray, alpha: float):
        labels, batch = data.labels, data.batch
        bare = PackedBatch(np.zeros((batch.n_total, 0)), batch.offsets)
        task = LearningTask(bare.take(train), labels.take(train), data.weight[train], {}, alpha)
        parameters = task.estimate(task.visible_counts(), alpha)
        with np.errstate(divide="ignore"):
            self.start = np.log(parameters["start"])
            self.moves = np.ascontiguousarray(np.log(parameters["transition"]))
        numbers = np.arange(batch.n_total)
        self.train_rows = np.concatenate([numbers[batch.offsets[s] : batch.offsets[s + 1]] for s in train])
        self.rows = np.concatenate([numbers[batch.offsets[s] : batch.offsets[s + 1]] for s in held_out])
        self.mass = visible_mass(task.labels) * np.repeat(task.weight, task.batch.lengths)[:, None]
        self.weight = data.weight[held_out]
        known = labels.take(held_out)
        self.offsets, self.codes, self.allowed = known.offsets, known.codes, known.allowed()
        self.complete = bool((known.codes >= 0).all())
        self.alpha = alpha

    def table(self, truth: np.ndarray) -> np.ndarray:
        on, total = truth[self.train_rows] @ self.mass, self.mass.sum(axis=0)
        size = np.where(total + 2 * self.alpha > 0, total + 2 * self.alpha, 1.0)
        p = np.where(total + 2 * self.alpha > 0, (on + self.alpha) / size, 0.5)
        with np.errstate(divide="ignore"):
            return np.log(np.vstack([1.0 - p, p]))

    def chains(self, unary: np.ndarray) -> PackedChains:
        unary = unary.copy()
        unary[self.offsets[:-1]] += self.start
        return PackedChains(unary, self.moves, self.offsets)

    def log_likelihood(self, unary: np.ndarray) -> float:
        """Log-probability of the known labels given the inputs."""
        chains = self.chains(unary)
        log_z = chains.log_partition()
        known = (
            chains.score_of(self.codes) if self.complete else chains.narrowed(self.allowed).log_partition()
        )
        feasible = np.isfinite(log_z)
        return float(self.weight @ np.where(feasible, known - np.where(feasible, log_z, 0.0), -np.inf))

    def hits(self, unary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted numbers of right and of all steps by label."""
        chains = self.chains(unary)
        weight = np.repeat(self.weight, np.diff(self.offsets)) * (self.codes >= 0)
        truth = np.maximum(self.codes, 0)
        n_labels = chains.n_labels
        if not np.isfinite(chains.log_partition()).all():
            right = np.zeros(len(weight))
        else:
            right = weight * (chains.viterbi()[0] == self.codes)
        return np.bincount(truth, right, n_labels), np.bincount(truth, weight, n_labels)


class SetSearch:
    """Steepest ascent over sets of conjunctions.

    Parameters
    ----------
    data : TrainingData
    splits : list of (train, held_out)
        Numbers of sequences; scores are summed over splits.
    scoring, max_order, max_features, max_steps, init, alpha, tol, n_jobs
        See ``GreedyInductionHMM``.

    Attributes
    ----------
    path : list of float
        Score at the start and after each step.
    n_evaluations : int
        Sets that were scored.
    """

    def __init__(
        self,
        data: TrainingData,
        splits: list[tuple[np.ndarray, np.ndarray]],
        *,
        scoring: str,
        max_order: int,
        max_features: int,
        max_steps: int,
        init: str,
        alpha: float,
        tol: float,
        n_jobs: int | None,
    ):
        self.scoring, self.max_order, self.max_features, self.max_steps = (
            scoring,
            max_order,
            max_features,
            max_steps,
        )
        self.tol, self.n_jobs, self.init = tol, n_jobs, init
        self.items = item_truth(data.batch, data.items)
        self.complements = complements(data.items)
        self.splits = [_Split(data, *split, alpha) for split in splits]
        self.channels: dict[Conjunction, _Channel] = {}
        self.identities: dict[bytes, int] = {}
        self.path: list[float] = []
        self.n_evaluations = 0

    def run(self) -> ConjunctionSet:
        """The set at which no neighbour is better by ``tol``."""
        current: ConjunctionSet = ()
        if self.init == "atoms":
            current = self._distinct([(item,) for item in range(self.items.shape[1])])[: self.max_features]
        value = self._score(self._sums(current), self.scoring)
        self.path, self.n_evaluations = [value], 1
        seen = {self._key(current): value}
        for _ in range(self.max_steps):
            neighbours = self._neighbours(current)
            new = {key: pair for key, pair in neighbours.items() if key not in seen}
            bases = {dropped: self._sums(self._without(current, dropped)) for _, _, dropped in new.values()}

            def task(candidate: tuple[ConjunctionSet, Conjunction | None, Conjunction | None]) -> float:
                _, added, dropped = candidate
                return self._score(self._sums_with(bases[dropped], added), self.scoring)  # noqa: B023

            scores = _parallel.run(task, list(new.values()), self.n_jobs)
            seen |= dict(zip(new, scores, strict=True))
            self.n_evaluations += len(new)
            best = max((seen[key] for key in neighbours), default=-np.inf)
            if best == -np.inf or best - value < self.tol:
                break
            tied = [neighbours[key][0] for key in neighbours if seen[key] == best]
            current, value = min(tied, key=self._tie_rank) if len(tied) > 1 else tied[0], best
            self.path.append(value)
        return current

    def _neighbours(
        self, current: ConjunctionSet
    ) -> dict[frozenset[int], tuple[ConjunctionSet, Conjunction | None, Conjunction | None]]:
        """By identity of the truth columns: the set, and what it adds to and drops from the current one."""
        moves: list[tuple[Conjunction | None, Conjunction | None]] = [
            ((item,), None) for item in range(self.items.shape[1])
        ]
        for conjunction in current:
            for longer in self._extensions(conjunction):
                moves += [(longer, None), (longer, conjunction)]
            moves.append((None, conjunction))
        found: dict = {}
        for added, dropped in moves:
            kept = self._without(current, dropped)
            members = tuple(sorted([*kept, added])) if added is not None else kept
            if len(members) > self.max_features or len(self._key(members)) < len(members):
                continue
            key = self._key(members)
            if key not in found or _size_rank(members) < _size_rank(found[key][0]):
                found[key] = members, added, dropped
        found.pop(self._key(current), None)
        return found

    def _extensions(self, conjunction: Conjunction) -> list[Conjunction]:
        if len(conjunction) >= self.max_order:
            return []
        barred = {*conjunction, *self.complements[list(conjunction)].tolist()}
        return [
            tuple(sorted([*conjunction, item])) for item in range(self.items.shape[1]) if item not in barred
        ]

    def _tie_rank(self, members: ConjunctionSet) -> tuple:
        other = "micro_accuracy" if self.scoring == "log_likelihood" else "log_likelihood"
        return -self._score(self._sums(members), other), *_size_rank(members)

    def _score(self, sums: list[np.ndarray], scoring: str) -> float:
        if scoring == "log_likelihood":
            return sum(split.log_likelihood(unary) for split, unary in zip(self.splits, sums, strict=True))
        hits = [split.hits(unary) for split, unary in zip(self.splits, sums, strict=True)]
        right, total = sum(part[0] for part in hits), sum(part[1] for part in hits)
        if not np.any(total):
            return 0.0
        if scoring == "micro_accuracy":
            return float(np.sum(right) / np.sum(total))
        return float(np.mean((right / np.where(total > 0, total, 1.0))[total > 0]))

    def _sums(self, members: ConjunctionSet) -> list[np.ndarray]:
        """By split the log-probabilities (n_rows, n_labels) of the channels at held-out steps."""
        sums = [np.zeros((len(split.rows), len(split.start))) for split in self.splits]
        for conjunction in members:
            sums = self._sums_with(sums, conjunction)
        return sums

    def _sums_with(self, sums: list[np.ndarray], conjunction: Conjunction | None) -> list[np.ndarray]:
        if conjunction is None:
            return sums
        channel = self._channel(conjunction)
        return [
            unary + table[channel.truth[split.rows].astype(np.intp)]
            for split, unary, table in zip(self.splits, sums, channel.tables, strict=True)
        ]

    def _channel(self, conjunction: Conjunction) -> _Channel:
        if conjunction not in self.channels:
            truth: np.ndarray = np.all(self.items[:, list(conjunction)], axis=1)
            identity = self.identities.setdefault(np.packbits(truth).tobytes(), len(self.identities))
            tables = [split.table(truth) for split in self.splits]
            self.channels[conjunction] = _Channel(truth, identity, tables)
        return self.channels[conjunction]

    def _key(self, members: ConjunctionSet) -> frozenset[int]:
        return frozenset(self._channel(conjunction).identity for conjunction in members)

    def _distinct(self, conjunctions: list[Conjunction]) -> ConjunctionSet:
        """Of conjunctions that are true at the same steps, the first."""
        first: dict[int, Conjunction] = {}
        for conjunction in conjunctions:
            first.setdefault(self._channel(conjunction).identity, conjunction)
        return tuple(sorted(first.values()))

    @staticmethod
    def _without(members: ConjunctionSet, dropped: Conjunction | None) -> ConjunctionSet:
        return tuple(conjunction for conjunction in members if conjunction != dropped)


def _size_rank(members: ConjunctionSet) -> tuple[int, ConjunctionSet]:
    return sum(map(len, members)), members
