"""From coefficients to the scores of a hierarchy's cliques, and from their probabilities back to gradients.

The one place for training and for prediction. ``CliqueScores`` are in terms of states by level, and know nothing
of the engine that sums them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.inference.packed_chains import shared_scores
from sklearn_seqlab.objectives._hierarchy_shape import HierarchyShape, Tables
from sklearn_seqlab.objectives._segment_any import add_any_gradient, add_any_scores

__all__ = [
    "CliqueScores",
    "Occurrences",
    "add_column_shares",
    "assemble_cliques",
    "table_shares",
    "too_large",
]


# Sums below this leave room for products and differences of a few of them.
_LARGEST_SUM = 1e307

# Sums below this are right to a thousandth.
_LARGEST_EXACT_SUM = 1e-3 / np.finfo(float).eps


@dataclass(frozen=True, eq=False)
class CliqueScores:
    """Scores of a chunk of sequences by clique, in nats; or weighted probabilities in the same shapes.

    Attributes
    ----------
    shape : HierarchyShape
    offsets : ndarray of shape (n_sequences + 1,)
    step : ndarray of shape (n_rows, n_nodes)
        Of every state at every step that it covers.
    first, last : ndarray of shape (n_rows, n_nodes) or None
        A state starts at a row as first child of its parent; ends with it as last child.
    enter, leave : ndarray of shape (n_rows, n_nodes) or None
        A state follows a sibling at a row; is followed by one after it.
    duration : list of n_levels arrays of shape (1 or n_rows, n_durations, n_states), or None
        Of explicit levels: a segment of so many steps starts at a row.
    tail : list of n_levels arrays of shape (n_states,), or None
        Every step beyond the explicit durations.
    initialisation, ending : ndarray of shape (n_pairs,)
    move : ndarray of shape (n_moves,)
    number : int
        Number of the first sequence, for messages.
    """

    shape: HierarchyShape
    offsets: np.ndarray
    step: np.ndarray
    first: np.ndarray | None
    last: np.ndarray | None
    enter: np.ndarray | None
    leave: np.ndarray | None
    duration: list[np.ndarray | None]
    tail: list[np.ndarray | None]
    initialisation: np.ndarray
    ending: np.ndarray
    move: np.ndarray
    number: int = 0

    def levelled(self) -> CliqueScores:
        """The same distribution, without what all states of a level share at a step where that would cost digits."""
        step = self.step
        for d in range(self.shape.n_levels):
            nodes = self.shape.nodes(d)
            shared = shared_scores(step[:, nodes].max(axis=1))
            if shared.any():
                step = step.copy() if step is self.step else step
                step[:, nodes] -= shared[:, None]
        return self if step is self.step else replace(self, step=step)

    def raise_if_overflown(self, keep_digits: bool = False) -> None:
        """Raise for scores that double precision cannot hold, or whose sums it cannot, naming the sequence.

        With ``keep_digits`` also for scores whose sums may be off by a thousandth or more.
        """
        bound = np.zeros(len(self.step))  # what the cliques of a row may add to a sum
        for part in (self.step, self.first, self.last, self.enter, self.leave):
            if part is not None:
                bound += self.shape.n_levels * _largest(part)
        for part, tail in zip(self.duration, self.tail, strict=True):
            if part is not None:
                bound += _largest(part.reshape(len(part), -1))
            if tail is not None:
                bound += _largest(tail[None])
        for part in (self.initialisation, self.ending, self.move):
            bound += 2 * _largest(np.where(part == -np.inf, 0.0, part)[None])
        if not bound.max() < np.inf:
            row = int(np.argmin(bound < np.inf))
            s = int(np.searchsorted(self.offsets, row, side="right")) - 1
            raise ValueError(
                f"The scores of sequence {self.number + s} at time step {row - self.offsets[s]} are beyond double "
                "precision: features are too large for their coefficients."
            )
        sums = np.add.reduceat(bound, self.offsets[:-1])
        if not sums.max() < _LARGEST_SUM:
            s = int(np.argmin(sums < _LARGEST_SUM))
            raise ValueError(
                f"The scores of sequence {self.number + s} sum to more than double precision holds: features are too "
                "large for their coefficients."
            )
        lost = sums > _LARGEST_EXACT_SUM
        if keep_digits and lost.any():
            raise too_large(self.number + int(np.argmax(lost)))


def too_large(sequence: int) -> ValueError:
    """What to raise where rounding leaves nothing of probabilities."""
    return ValueError(
        f"The scores of sequence {sequence} are so large that their sums lose their digits: features are too large for "
        "their coefficients."
    )


class Occurrences:
    """Where each column occurred before, for features of what is in a segment at least once.

    Parameters
    ----------
    values : ndarray or csr_array of shape (n_rows, n_features)
        An entry that is not zero is an occurrence.
    offsets : ndarray of shape (n_sequences + 1,)
    """

    def __init__(self, values: Any, offsets: np.ndarray):
        present = sparse.csr_array(values)
        present.eliminate_zeros()
        self.indices = present.indices.astype(np.intc)
        self.indptr = present.indptr.astype(np.intc)
        row = np.repeat(np.arange(len(offsets) and present.shape[0]), np.diff(present.indptr))
        start = np.repeat(offsets[:-1], np.diff(offsets))
        self.stops = np.repeat(offsets[1:], np.diff(offsets)).astype(np.intp)
        order = np.lexsort((row, present.indices))
        before = np.full(len(row), -1, dtype=np.intp)
        same = present.indices[order][1:] == present.indices[order][:-1]
        before[order[1:][same]] = row[order[:-1][same]]
        before[before < start[row]] = -1
        self.before = before

    def add_scores(self, coef: np.ndarray, out: np.ndarray) -> None:
        """Add to ``out`` (n_rows, max_duration, n_states) for ``coef`` (n_features, n_states)."""
        coef = np.ascontiguousarray(coef)
        running = np.empty(coef.shape[1])
        add_any_scores(self.indices, self.indptr, self.before, self.stops, coef, running, out)

    def add_gradient(self, share: np.ndarray, out: np.ndarray) -> None:
        """The transposed sum, into ``out`` (n_features, n_states)."""
        running = np.empty(out.shape[1])
        add_any_gradient(self.indices, self.indptr, self.before, self.stops, share, running, out)


@dataclass(frozen=True, eq=False)
class Chunk:
    """A run of sequences: what is known of their inputs beside the products with the weights."""

    values: Any
    offsets: np.ndarray
    number: int = 0

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def longest(self) -> int:
        return int(np.diff(self.offsets).max())

    @cached_property
    def occurrences(self) -> Occurrences:
        return Occurrences(self.values, self.offsets)

    @cached_property
    def remaining(self) -> np.ndarray:
        """Steps from each row to the end of its sequence; (n_rows,)."""
        lengths = np.diff(self.offsets)
        return np.repeat(self.offsets[1:], lengths) - np.arange(self.n_rows)


def assemble_cliques(
    shape: HierarchyShape, scores: np.ndarray, any_coef: dict[int, np.ndarray], tables: Tables, chunk: Chunk
) -> CliqueScores:
    """Scores of every clique.

    Parameters
    ----------
    shape : HierarchyShape
    scores : ndarray of shape (n_rows, n_columns)
        Products of the inputs with the feature weights.
    any_coef : dict of ndarray of shape (n_features, n_states)
        By level, the weights of what occurs in a segment.
    tables : Tables
    chunk : Chunk
    """
    step = np.empty((chunk.n_rows, shape.n_nodes))
    step[:] = tables.bias
    _add(shape, scores, step, "sum")
    start, end, initialisation, transition, ending = (
        _edge(shape, scores, kind) for kind in ("start", "end", "initialisation", "transition", "ending")
    )
    enter, leave = _sum_of(start, transition), end
    if (enter is None) != (leave is None):  # the engines take both or none
        zeros = np.zeros((chunk.n_rows, shape.n_nodes))
        enter, leave = (zeros if enter is None else enter), (zeros if leave is None else leave)
    duration: list[np.ndarray | None] = [None] * shape.n_levels
    tail: list[np.ndarray | None] = [None] * shape.n_levels
    for d in shape.explicit_levels:
        duration[d], tail[d] = _duration_scores(shape, d, scores, any_coef.get(d), tables, chunk)
    return CliqueScores(
        shape=shape,
        offsets=chunk.offsets,
        step=step,
        first=_sum_of(start, initialisation),
        last=_sum_of(end, ending),
        enter=enter,
        leave=leave,
        duration=duration,
        tail=tail,
        initialisation=tables.initialisation + tables.segment[shape.pair_child],
        ending=tables.ending,
        move=tables.move + tables.segment[shape.move_child],
        number=chunk.number,
    )


def add_column_shares(
    shares: CliqueScores, chunk: Chunk, out: np.ndarray, any_out: dict[int, np.ndarray]
) -> None:
    """Add probabilities to what multiplies the inputs in the gradient: the transpose of ``assemble_cliques``.

    Parameters
    ----------
    shares : CliqueScores
    chunk : Chunk
    out : ndarray of shape (n_rows, n_columns)
    any_out : dict of ndarray of shape (n_features, n_states)
    """
    shape = shares.shape
    sources: dict[str, list[np.ndarray | None]] = {
        "sum": [shares.step],
        "start": [shares.first, shares.enter],
        "end": [shares.last, shares.leave],
        "initialisation": [shares.first],
        "transition": [shares.enter],
        "ending": [shares.last],
    }
    for name, cliques in sources.items():
        columns, nodes = shape.columns_of(name)
        for clique in cliques:
            if len(columns) and clique is not None:
                out[:, columns] += clique[:, nodes]
    for kind, level, place in shape.columns:
        share = shares.duration[level]
        if kind == "mean" and share is not None:
            out[:, place] += _spread_means(share, chunk)
        elif kind == "any" and share is not None:
            chunk.occurrences.add_gradient(share, any_out[level])


def table_shares(shares: CliqueScores, chunk: Chunk) -> np.ndarray:
    """The gradient of the coefficients that are no feature weights, (n_table,)."""
    shape = shares.shape
    durations: list[np.ndarray | None] = [None] * shape.n_levels
    for d, level in enumerate(shape.levels):
        share = shares.duration[d]
        if share is None or level.duration not in ("gamma", "table"):
            continue
        by_length = share.sum(axis=0)  # (n_durations, n_states)
        lengths = np.arange(1, len(by_length) + 1)
        beyond = shares.tail[d]
        if level.duration == "gamma":
            log = np.log(lengths) @ by_length
            if beyond is not None:
                log += beyond / len(by_length)
            durations[d] = log[:, None]
        else:
            table = np.zeros((level.n_states, int(level.max_duration or 0) + level.has_tail))
            table[:, : len(by_length)] = by_length.T
            if beyond is not None:
                table[:, -1] = beyond
            durations[d] = table
    segment = np.bincount(shape.pair_child, shares.initialisation, minlength=shape.n_nodes)
    segment += np.bincount(shape.move_child, shares.move, minlength=shape.n_nodes)
    tables = Tables(
        shares.step.sum(axis=0), segment, durations, shares.initialisation, shares.ending, shares.move
    )
    return shape.write_tables(tables)


def duration_curve(level: Any, weights: np.ndarray | None, n_durations: int) -> np.ndarray:
    """Scores of 1 to ``n_durations`` steps by the duration weights of a level, bias apart, (n_durations, n_states)."""
    if weights is None:
        return np.zeros((n_durations, level.n_states))
    lengths = np.arange(1, n_durations + 1)
    if level.duration == "gamma":
        return np.outer(np.log(lengths), weights[:, 0])
    explicit = weights[:, : level.max_duration].T
    beyond = np.maximum(lengths - level.max_duration, 0)[:, None] * weights[:, -1] if level.has_tail else 0.0
    return explicit[np.minimum(lengths, level.max_duration) - 1] + beyond


def _duration_scores(
    shape: HierarchyShape, d: int, scores: np.ndarray, any_coef: Any, tables: Tables, chunk: Chunk
) -> tuple[np.ndarray, np.ndarray | None]:
    """Explicit durations of a level, and what a step beyond them scores."""
    level, weights = shape.levels[d], tables.durations[d]
    n_durations = level.durations_up_to(chunk.longest)
    duration = duration_curve(level, weights, n_durations)[None]
    columns = {kind: place for kind, part_level, place in shape.columns if part_level == d}
    if "mean" in columns or any_coef is not None:
        duration = np.repeat(duration, chunk.n_rows, axis=0)
        if "mean" in columns:
            _add_means(duration, scores[:, columns["mean"]])
        if any_coef is not None:
            chunk.occurrences.add_scores(any_coef, duration)
    tail = None
    if level.has_tail and n_durations < chunk.longest:
        tail = np.zeros(level.n_states)
        if weights is not None and level.duration == "gamma":
            tail = weights[:, 0] / n_durations  # the tangent of the logarithm
        elif weights is not None:
            tail = weights[:, -1].copy()
    return np.ascontiguousarray(duration), tail


def _add_means(duration: np.ndarray, scores: np.ndarray) -> None:
    """Add the mean of ``scores`` over each segment; segments that leave their sequence get anything finite."""
    total = np.zeros_like(scores)
    for n in range(1, min(duration.shape[1], len(scores)) + 1):
        total[: len(scores) - n + 1] += scores[n - 1 :]
        duration[: len(scores) - n + 1, n - 1] += total[: len(scores) - n + 1] / n


def _spread_means(share: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Per step the sum of the shares of the segments that cover it, each divided by its length."""
    change = np.zeros((chunk.n_rows + 1, share.shape[2]))
    for n in range(1, share.shape[1] + 1):
        part = share[:, n - 1] / n
        change[:-1] += part
        inside = chunk.n_rows - n + 1
        change[n:] -= part[:inside] if inside > 0 else 0.0
    return np.cumsum(change, axis=0)[:-1]


def _largest(part: np.ndarray) -> np.ndarray:
    """Largest absolute value of each row; NaN where there is one."""
    if not part.shape[1]:
        return np.zeros(len(part))
    return np.maximum(part.max(axis=1), -part.min(axis=1))


def _add(shape: HierarchyShape, scores: np.ndarray, out: np.ndarray, kind: str) -> None:
    columns, nodes = shape.columns_of(kind)
    if len(columns):
        out[:, nodes] += scores[:, columns]


def _edge(shape: HierarchyShape, scores: np.ndarray, kind: str) -> np.ndarray | None:
    if not len(shape.columns_of(kind)[0]):
        return None
    out = np.zeros((len(scores), shape.n_nodes))
    _add(shape, scores, out, kind)
    return out


def _sum_of(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b
