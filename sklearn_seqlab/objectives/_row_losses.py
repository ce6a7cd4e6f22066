"""Losses of chains whose emission scores depend on which of a few distinct rows stands at each step.

Everything that such a loss has to say about the emission scores fits into tables (n_rows, n_labels), however long the
sequences are and whatever features of a row the scores are made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sklearn_seqlab import _parallel
from sklearn_seqlab.inference import PackedChains, margin_violations, slack_violations

__all__ = ["GroupPlanes", "RowLikelihood", "RowMargin", "RowSequences"]

# Chunks of sequences hold about so many steps; they depend on the data alone.
_STEPS_PER_TASK = 2**13


@dataclass(frozen=True, eq=False)
class RowSequences:
    """Completely labelled sequences of numbered rows.

    Attributes
    ----------
    index : ndarray of shape (n_total,), dtype=intp
        Row at each step.
    codes : ndarray of shape (n_total,), dtype=intp
        Labels.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    n_rows, n_labels : int
    share : ndarray of shape (n_sequences,)
        Weight of each sequence; they sum to one.
    unit : ndarray of shape (n_sequences,)
        Cost of one wrong step.
    """

    index: np.ndarray
    codes: np.ndarray
    offsets: np.ndarray
    n_rows: int
    n_labels: int
    share: np.ndarray
    unit: np.ndarray

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    def chunks(self) -> list[tuple[int, int]]:
        """Runs of sequences to work on one by one."""
        # chunk_bounds thinks in doubles per step
        return _parallel.chunk_bounds(self.offsets, 2**17 // _STEPS_PER_TASK)


@dataclass(frozen=True, eq=False)
class GroupPlanes:
    """The most violated plane of each group of sequences: ``slack >= offset - rows . emission - moves . transition``.

    Attributes
    ----------
    rows : ndarray of shape (n_groups, n_rows * n_labels)
    moves : ndarray of shape (n_groups, n_labels**2)
    offset : ndarray of shape (n_groups,)
    slack : ndarray of shape (n_groups,)
        Value of each plane where it was found: the group's slack, or a lower bound of it.
    bound : float
        Upper bound of the slack of all groups together.
    """

    rows: np.ndarray
    moves: np.ndarray
    offset: np.ndarray
    slack: np.ndarray
    bound: float


class RowMargin:
    """Mean slack of sequences, cut into groups whose planes are sums over their sequences.

    Parameters
    ----------
    sequences : RowSequences
    n_groups : int
        Sequence ``i`` is in group ``i mod n_groups``.
    rescaling : {"margin", "slack"}
    exact_length, tol
        See :func:`~sklearn_seqlab.inference.slack_violations`.
    n_jobs : int or None
    """

    def __init__(
        self,
        sequences: RowSequences,
        *,
        n_groups: int,
        rescaling: str = "margin",
        exact_length: int = 0,
        tol: float = 1e-9,
        n_jobs: int | None = None,
    ):
        self.sequences, self.rescaling = sequences, rescaling
        self.n_groups = min(n_groups, sequences.n_sequences)
        self.exact_length, self.tol, self.n_jobs = exact_length, tol, n_jobs
        self.may_be_quick = rescaling == "slack" and exact_length > 0
        self.chunks = sequences.chunks()

    def planes(self, emission: np.ndarray, transition: np.ndarray, quick: bool = False) -> GroupPlanes:
        """The most violated planes at scores (n_rows, n_labels) of rows and (n_labels, n_labels) of moves.

        With ``quick``, for which there is a choice where ``may_be_quick``, labellings are those of the search alone.
        """
        exact_length = 0 if quick else self.exact_length
        tasks = _parallel.run(
            lambda run: self._chunk(emission, transition, exact_length, *run), self.chunks, self.n_jobs
        )
        rows, moves, offset, slack, bound = tasks[0]
        for more in tasks[1:]:  # in the order of the chunks, whoever took them
            rows, moves, offset, slack = rows + more[0], moves + more[1], offset + more[2], slack + more[3]
            bound += more[4]
        return GroupPlanes(rows, moves, offset, slack, bound)

    def _chunk(
        self, emission: np.ndarray, transition: np.ndarray, exact_length: int, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        data, n_labels, n_groups = self.sequences, self.sequences.n_labels, self.n_groups
        start, stop = int(data.offsets[first]), int(data.offsets[last])
        index, true = data.index[start:stop], data.codes[start:stop]
        lengths = np.diff(data.offsets[first : last + 1])
        owner = np.repeat(np.arange(last - first), lengths)
        chains = PackedChains(emission[index], transition, data.offsets[first : last + 1] - start, first)
        chains.raise_if_overflown()
        true_score = chains.score_of(true)
        unit = data.unit[first:last]
        steps = np.arange(stop - start)
        if self.rescaling == "margin":
            cost = np.repeat(unit, lengths)[:, None] * np.ones(n_labels)
            cost[steps, true] = 0.0
            found = margin_violations(chains, cost, true_score)
        else:
            is_error = np.ones((stop - start, n_labels), dtype=bool)
            is_error[steps, true] = False
            found = slack_violations(
                chains, is_error, unit, true_score, exact_length=exact_length, tol=self.tol
            )
        is_wrong = found.codes != true
        cost_of = unit * np.bincount(owner[is_wrong], minlength=last - first)
        share = np.where(found.value > 0, data.share[first:last], 0.0)
        # a plane of slack rescaling is one of margin rescaling times its cost
        weight = share if self.rescaling == "margin" else share * cost_of
        group = (first + np.arange(last - first)) % n_groups
        at = np.flatnonzero(is_wrong)
        key = (group[owner[at]] * data.n_rows + index[at]) * n_labels
        weights, size = weight[owner[at]], n_groups * data.n_rows * n_labels
        rows = np.bincount(key + true[at], weights, size) - np.bincount(key + found.codes[at], weights, size)
        into = np.flatnonzero(owner[1:] == owner[:-1]) + 1
        into = into[is_wrong[into] | is_wrong[into - 1]]
        key, weights = group[owner[into]] * n_labels, weight[owner[into]]
        size = n_groups * n_labels**2

        def moves_of(codes: np.ndarray) -> np.ndarray:
            return np.bincount((key + codes[into - 1]) * n_labels + codes[into], weights, size)

        moves = moves_of(true) - moves_of(found.codes)
        return (
            rows.reshape(n_groups, -1),
            moves.reshape(n_groups, -1),
            np.bincount(group, share * cost_of, n_groups),
            np.bincount(group, share * np.maximum(found.value, 0.0), n_groups),
            float(data.share[first:last] @ np.maximum(found.bound, 0.0)),
        )


class RowLikelihood:
    """Mean negative log-likelihood of sequences, each times its unit of cost.

    Parameters
    ----------
    sequences : RowSequences
    n_jobs : int or None
    """

    def __init__(self, sequences: RowSequences, *, n_jobs: int | None = None):
        self.sequences, self.n_jobs = sequences, n_jobs
        self.weight = sequences.share * sequences.unit
        self.chunks = sequences.chunks()
        # what is known of rows and moves is the same at all scores
        data, n_labels = sequences, sequences.n_labels
        per_step = np.repeat(self.weight, np.diff(data.offsets))
        key = data.index * n_labels + data.codes
        self.known_rows = np.bincount(key, per_step, data.n_rows * n_labels).reshape(data.n_rows, n_labels)
        into = np.delete(np.arange(len(data.codes)), data.offsets[:-1])
        key = data.codes[into - 1] * n_labels + data.codes[into]
        self.known_moves = np.bincount(key, per_step[into], n_labels**2).reshape(n_labels, n_labels)
        self.stands = [self._stands(first, last) for first, last in self.chunks]

    def _stands(self, first: int, last: int) -> sparse.csr_array:
        """Ones where a row stands at a step of a chunk, (n_rows, n_steps)."""
        data = self.sequences
        index = data.index[data.offsets[first] : data.offsets[last]]
        order = np.argsort(index, kind="stable")
        start = np.concatenate([[0], np.bincount(index, minlength=data.n_rows).cumsum()])
        return sparse.csr_array((np.ones(len(index)), order, start), shape=(data.n_rows, len(index)))

    def value_and_gradient(
        self, emission: np.ndarray, transition: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, and its gradient with respect to the scores (n_rows, n_labels) of rows and those of moves."""
        numbers = range(len(self.chunks))
        tasks = _parallel.run(lambda k: self._chunk(emission, transition, k), numbers, self.n_jobs)
        value, rows, moves = tasks[0]
        for more in tasks[1:]:  # in the order of the chunks
            value, rows, moves = value + more[0], rows + more[1], moves + more[2]
        value -= float((self.known_rows * emission).sum() + (self.known_moves * transition).sum())
        return value, rows - self.known_rows, moves - self.known_moves

    def _chunk(
        self, emission: np.ndarray, transition: np.ndarray, k: int
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Weighted log-partition of a chunk, and what is expected of rows and moves."""
        data, (first, last) = self.sequences, self.chunks[k]
        start, stop = int(data.offsets[first]), int(data.offsets[last])
        offsets = data.offsets[first : last + 1] - start
        chains = PackedChains(emission[data.index[start:stop]], transition, offsets, first)
        chains.raise_if_overflown()
        log_z, node, edge = chains.forward_backward(self.weight[first:last])
        return float(self.weight[first:last] @ log_z), self.stands[k] @ node, edge
