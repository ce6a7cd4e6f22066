"""Negative conditional log-likelihood of hierarchies and segmentations, fully or partly labelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_seqlab import _parallel
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.objectives._hierarchy_engines import make_engine
from sklearn_seqlab.objectives._hierarchy_knowledge import KnownConfiguration
from sklearn_seqlab.objectives._hierarchy_scores import (
    Chunk,
    CliqueScores,
    add_column_shares,
    assemble_cliques,
    table_shares,
)
from sklearn_seqlab.objectives._hierarchy_shape import HierarchyShape, Tables
from sklearn_seqlab.objectives._linear import make_features, typical_sizes
from sklearn_seqlab.objectives._penalties import ElasticNet
from sklearn_seqlab.sequences import PackedBatch

__all__ = ["HierarchyLogLikelihood", "hierarchy_doubles_per_step"]


@dataclass(frozen=True, eq=False)
class _Part:
    """Sequences ``first:last`` of the objective's order."""

    first: int
    last: int
    rows: slice
    chunk: Chunk
    partial: bool


class HierarchyLogLikelihood:
    """``C * sum_s weight[s] * (log Z(X[s]) - log Z(X[s], what is known)) + penalty``, in nats.

    Parameters
    ----------
    batch : PackedBatch
        Complete sequences first, then those with unknown parts.
    known : KnownConfiguration
        Of the same sequences.
    shape : HierarchyShape
    weight : ndarray of shape (n_sequences,)
    C : float
    engine : {"chain", "mixed", "aio"}
    numerics : {"auto", "scaled", "log"}
    numbers : ndarray of shape (n_sequences,)
        What the caller calls the sequences, for messages.
    n_jobs : int or None

    Raises
    ------
    InfeasibleSequenceError
        If the labels of a complete sequence fit no configuration; on evaluation, if those of another do not.

    Notes
    -----
    Complete sequences are summed over once, when the objective is made: what they say about the coefficients
    is a vector. Others cost a second, narrowed sum in every evaluation. ``spec`` "hscrf" 5, 14 and 15.
    """

    l1: np.ndarray | None = None

    def __init__(
        self,
        batch: PackedBatch,
        known: KnownConfiguration,
        shape: HierarchyShape,
        *,
        weight: np.ndarray,
        C: float = 1.0,
        engine: str = "chain",
        numerics: str = "auto",
        numbers: np.ndarray | None = None,
        n_jobs: int | None = None,
    ):
        self.batch, self.known, self.shape, self.weight, self.C = batch, known, shape, weight, C
        self.engine, self.numerics, self.n_jobs = engine, numerics, n_jobs
        self.numbers = np.arange(batch.n_sequences) if numbers is None else numbers
        self.features = make_features(batch.values, shape.n_columns)
        self.n_coef = self.features.n_coef + shape.n_table
        penalised = np.ones(self.n_coef)
        for kind, _, place in shape.table_parts:
            if kind in ("bias", "segment"):  # intercepts
                penalised[self.features.n_coef :][place] = 0.0
        self.penalty = ElasticNet(penalised, 0.0)
        self.size = C * float(weight @ batch.lengths)
        self.scale = self._scale()
        self.n_redone = 0
        self.parts = self._cut()
        # the solver refuses to start from what is not finite
        with np.errstate(over="ignore", invalid="ignore"):
            self._known_gradient = self._sum_known()

    @property
    def n_sequences(self) -> int:
        return self.batch.n_sequences

    def split(self, coef: np.ndarray) -> tuple[np.ndarray, Tables]:
        """Feature weights (n_columns, n_features) and tables of a coefficient vector."""
        node, tables = np.split(coef, [self.features.n_coef])
        return self.features.matrix(node), self.shape.read_tables(tables)

    def join(self, node: np.ndarray, tables: Tables) -> np.ndarray:
        """The inverse of ``split``."""
        return np.concatenate([self.features.vector(node), self.shape.write_tables(tables)])

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; the known parts of complete sequences enter as one product."""
        value, gradient = self._loss(coef, self.parts)
        with np.errstate(over="ignore", invalid="ignore"):  # the solver backs off from what is not finite
            value -= float(coef @ self._known_gradient)
            gradient -= self._known_gradient
            gradient *= self.C
            return self.penalty.add_smooth(coef, self.C * value, gradient), gradient

    def sequence_value_and_gradient(
        self, coef: np.ndarray, sequences: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Loss of some sequences alone and its gradient, without penalty, times ``C``; for stochastic solvers."""
        batch = self.batch.take(sequences)
        rows = np.concatenate([np.arange(*self.batch.offsets[s : s + 2]) for s in sequences])
        allowed, ends = zip(
            *(self.known.narrow(*self.batch.offsets[s : s + 2]) for s in sequences), strict=True
        )
        one = object.__new__(HierarchyLogLikelihood)
        one.__dict__.update(self.__dict__)
        one.batch, one.weight, one.numbers = batch, self.weight[sequences], self.numbers[sequences]
        one.known = _fixed(allowed, ends, rows)
        one.features = make_features(batch.values, self.shape.n_columns)
        chunk = Chunk(batch.values, batch.offsets)
        part = _Part(0, len(sequences), slice(0, batch.n_total), chunk, True)
        value, gradient = one._loss(coef, [part])
        return self.C * value, self.C * gradient

    def _loss(self, coef: np.ndarray, parts: list[_Part]) -> tuple[float, np.ndarray]:
        node, tables = np.split(coef, [self.features.n_coef])
        read = self.shape.read_tables(tables)
        any_coef = self._any_coef(node)
        residual = np.empty((self.batch.n_total, self.shape.n_columns))
        with np.errstate(over="ignore", invalid="ignore"):  # the solver backs off from what is not finite
            results = self._run(lambda part: self._part_loss(part, node, read, any_coef, residual), parts)
            value, table, any_gradient, n_redone = results[0]
            for more in results[1:]:
                value, table, n_redone = value + more[0], table + more[1], n_redone + more[3]
                any_gradient = {d: g + more[2][d] for d, g in any_gradient.items()}
            gradient = np.concatenate([self._feature_gradient(residual, any_gradient), table])
        self.n_redone = n_redone
        return value, gradient

    def _part_loss(
        self,
        part: _Part,
        node: np.ndarray,
        tables: Tables,
        any_coef: dict[int, np.ndarray],
        residual: np.ndarray,
    ) -> tuple[float, np.ndarray, dict[int, np.ndarray], int]:
        """Weighted loss of a part, gradients of tables and of "any" weights, sequences redone; fills residuals."""
        out = residual[part.rows]
        out[:] = 0.0
        scores = self.features.scores(self.features.weights(node), part.rows.start, part.rows.stop)
        cliques = assemble_cliques(self.shape, scores, any_coef, tables, part.chunk)
        engine = make_engine(self.engine, cliques, self.numerics)
        weight = self.weight[part.first : part.last]
        log_z, shares, n_redone = engine.forward_backward(weight)
        if log_z.min() == -np.inf:
            self._raise_if_infeasible(part, False)
            log_z = np.full_like(log_z, np.inf)  # beyond the range of numbers: the solver backs off
        value = float(weight @ log_z)
        table, any_gradient = self._gradient_parts(shares, part, out)
        if part.partial:
            narrow = engine.narrowed(*self._narrow(part))
            fit_log_z, fit_shares, n_more = narrow.forward_backward(weight)
            if fit_log_z.min() == -np.inf:
                self._raise_if_infeasible(part, True)
            value -= float(weight @ fit_log_z)
            fits = np.zeros(out.shape)
            fit_table, fit_any = self._gradient_parts(fit_shares, part, fits)
            out -= fits
            table = table - fit_table
            any_gradient = {d: g - fit_any[d] for d, g in any_gradient.items()}
            n_redone += n_more
        return value, table, any_gradient, n_redone

    def _gradient_parts(
        self, shares: CliqueScores, part: _Part, out: np.ndarray
    ) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        any_out = {d: np.zeros((self.batch.n_features, n)) for d, n in self._any_levels()}
        add_column_shares(shares, part.chunk, out, any_out)
        return table_shares(shares, part.chunk), any_out

    def _sum_known(self) -> np.ndarray:
        """Clique counts of complete sequences as a vector: their known score is its product with the coefficients."""
        parts = [part for part in self.parts if not part.partial]
        residual = np.zeros((self.batch.n_total, self.shape.n_columns))

        def count(part: _Part) -> tuple[np.ndarray, dict[int, np.ndarray]]:
            engine = self._blank_engine(part).narrowed(*self._narrow(part))
            log_z, shares, _ = engine.forward_backward(self.weight[part.first : part.last])
            if log_z.min() == -np.inf:
                self._raise_infeasible(part, engine, log_z, "The labels of y[{}] fit no segmentation")
            return self._gradient_parts(shares, part, residual[part.rows])

        results = self._run(count, parts)
        table = np.zeros(self.shape.n_table)
        any_gradient = {d: np.zeros((self.batch.n_features, n)) for d, n in self._any_levels()}
        for more_table, more_any in results:
            table += more_table
            for d in any_gradient:
                any_gradient[d] += more_any[d]
        return np.concatenate([self._feature_gradient(residual, any_gradient), table])

    def _blank_engine(self, part: _Part) -> Any:
        """The engine where all scores are zero: what it rules out is ruled out by the structure."""
        scores = np.zeros((part.chunk.n_rows, self.shape.n_columns))
        tables = self.shape.read_tables(np.zeros(self.shape.n_table))
        any_coef = {d: np.zeros((self.batch.n_features, n)) for d, n in self._any_levels()}
        cliques = assemble_cliques(self.shape, scores, any_coef, tables, part.chunk)
        return make_engine(self.engine, cliques, "auto")

    def _feature_gradient(self, residual: np.ndarray, any_gradient: dict[int, np.ndarray]) -> np.ndarray:
        if not self.shape.n_columns:
            return np.empty(0)
        gradient = self.features.gradient(residual, self._run)
        if any_gradient:
            matrix = gradient.reshape(self.batch.n_features, self.shape.n_columns)
            for kind, level, place in self.shape.columns:
                if kind == "any":
                    matrix[:, place] += any_gradient[level]
        return gradient

    def _any_levels(self) -> list[tuple[int, int]]:
        return [
            (level, place.stop - place.start) for kind, level, place in self.shape.columns if kind == "any"
        ]

    def _any_coef(self, node: np.ndarray) -> dict[int, np.ndarray]:
        matrix = node.reshape(self.batch.n_features, self.shape.n_columns)
        return {level: matrix[:, place] for kind, level, place in self.shape.columns if kind == "any"}

    def _narrow(self, part: _Part) -> tuple[np.ndarray | None, np.ndarray | None]:
        return self.known.narrow(part.rows.start, part.rows.stop)

    def _cut(self) -> list[_Part]:
        """Chunks of whole sequences, none with both complete and other ones."""
        n_complete = int(self.known.complete.sum())
        assert self.known.complete[:n_complete].all(), "complete sequences come first"
        offsets = self.batch.offsets
        per_step = hierarchy_doubles_per_step(self.shape, int(self.batch.lengths.max()))
        parts = []
        for start, stop, partial in ((0, n_complete, False), (n_complete, self.batch.n_sequences, True)):
            if start == stop:
                continue
            for first, last in _parallel.chunk_bounds(offsets[start : stop + 1] - offsets[start], per_step):
                a, b = start + first, start + last
                rows = slice(int(offsets[a]), int(offsets[b]))
                values = self.batch.values[rows] if self._any_levels() else None
                chunk = Chunk(values, offsets[a : b + 1] - offsets[a])
                parts.append(_Part(a, b, rows, chunk, partial))
        return parts

    def _raise_if_infeasible(self, part: _Part, narrow: bool) -> None:
        """Tell what no score can make possible from what coefficients beyond all bounds have ruled out."""
        engine = self._blank_engine(part)
        if narrow:
            engine = engine.narrowed(*self._narrow(part))
        log_z = engine.forward_backward(self.weight[part.first : part.last])[0]
        if log_z.min() == -np.inf:
            what = (
                "The labels of y[{}] fit no segmentation" if narrow else "X[{}] has no possible segmentation"
            )
            self._raise_infeasible(part, engine, log_z, what)

    def _raise_infeasible(self, part: _Part, engine: Any, log_z: np.ndarray, what: str) -> None:
        s = int(np.argmin(log_z))
        raise InfeasibleSequenceError(
            f"{what.format(self.numbers[part.first + s])}: {engine.explain(s)}. A segment is longer than "
            "max_duration, a child or a transition is not allowed, or labels and ends contradict each other."
        )

    def _scale(self) -> np.ndarray:
        """Unit of each coefficient: the root mean square of the nonzero values of its feature."""
        scale = np.ones(self.n_coef)
        scale[: self.features.n_coef] = self.features.repeat(typical_sizes(self.batch.values))
        for unit in self._any_coef(scale[: self.features.n_coef]).values():
            unit[:] = 1.0  # whether an input occurs has no unit
        return np.maximum(
            np.hypot(scale, np.sqrt(self.penalty.penalised / self.size)), np.finfo(float).tiny ** 0.25
        )

    def _run(self, function: Any, tasks: Any) -> list[Any]:
        return _parallel.run(function, tasks, self.n_jobs)


def hierarchy_doubles_per_step(shape: HierarchyShape, longest: int) -> int:
    """Size of what a time step brings along, by which batches are cut into chunks."""
    size = shape.layout.n_stacks + shape.n_columns
    for d in shape.explicit_levels:
        level = shape.levels[d]
        if {"mean", "any"} & set(level.segment_features):
            size += level.durations_up_to(longest) * level.n_states
    return size


def _fixed(allowed: Any, ends: Any, rows: np.ndarray) -> KnownConfiguration:
    """What is known of sequences that were taken out of a batch."""
    joined_allowed = None if allowed[0] is None else np.concatenate(allowed)
    joined_ends = None if ends[0] is None else np.concatenate(ends, axis=1)
    return KnownConfiguration(
        lambda start, stop: (joined_allowed, joined_ends), np.zeros(len(allowed), dtype=bool)
    )
