"""Negative conditional log-likelihood of grids: chains of several levels, coupled at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sklearn_seqlab import _parallel
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import PackedGrids
from sklearn_seqlab.objectives._chain_layout import ChainLayout
from sklearn_seqlab.objectives._chain_scores import ChainCoefficients
from sklearn_seqlab.objectives._penalties import ElasticNet
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, raise_if_forbidden

__all__ = ["GridCoefficients", "GridLogLikelihood", "grid_doubles_per_step"]


def grid_doubles_per_step(sizes: Sequence[int]) -> int:
    """By what batches of grids are cut into chunks: some dozens of sequences at once make matrix products worth it."""
    return max(1, int(np.prod([float(size) for size in sizes])) // 16)


class GridCoefficients(NamedTuple):
    """The coefficients of a grid in the shapes that users see.

    Attributes
    ----------
    levels : list of n_levels ChainCoefficients
    coupling : list of n_levels - 1 ndarray of shape (n_labels, n_labels below)
    """

    levels: list[ChainCoefficients]
    coupling: list[np.ndarray]


class GridLogLikelihood:
    """``C * sum_s weight_s * (log Z_s - log Z_s(labels that fit y_s))`` plus an elastic-net penalty.

    Parameters
    ----------
    batch : PackedBatch
    labels : list of n_levels LabelCodes
    weight : ndarray of shape (n_sequences,)
        Nonnegative. Sequences of weight zero, and those of which nothing is known, are left out.
    columns : list of n_levels ndarray of int, or None
        The features that each level sees; None for all.
    coupled : bool
        Whether labels of neighbouring levels at one step have a weight.
    C, l1_ratio, fit_intercept, start_end, n_jobs
        As in :class:`ChainLogLikelihood`.
    allowed_transitions : list of n_levels ndarray of bool
    pairs : list of n_levels csr_array or None
        The (feature, label) pairs of each level that have a weight.

    Raises
    ------
    ValueError
        If no sequence of positive weight has a label.
    InfeasibleSequenceError
        Also on evaluation, if labels contradict ``allowed_transitions``.

    Notes
    -----
    Sequences are sorted by length: those side by side then end at about the same time.
    """

    def __init__(
        self,
        batch: PackedBatch,
        labels: Sequence[LabelCodes],
        *,
        weight: np.ndarray,
        columns: Sequence[np.ndarray | None],
        coupled: bool,
        C: float,
        l1_ratio: float,
        fit_intercept: bool,
        start_end: bool,
        allowed_transitions: Sequence[np.ndarray],
        pairs: Sequence[Any],
        n_jobs: int | None = None,
    ):
        informative = np.logical_or.reduce([level.is_informative() for level in labels])
        numbers = np.flatnonzero((weight > 0) & informative)
        if not len(numbers):
            raise ValueError("y holds no label where sample_weight is positive: nothing to learn from.")
        # the caller's numbers of the sequences that count, for messages
        self._numbers = numbers[np.argsort(batch.lengths[numbers], kind="stable")]
        self.batch = batch.take(self._numbers)
        self.labels = [level.take(self._numbers) for level in labels]
        self.weight, self.C, self.n_jobs = weight[self._numbers], C, n_jobs
        self.sizes = tuple(level.n_labels for level in self.labels)
        self.layouts = []
        for own, size, allowed, pair in zip(columns, self.sizes, allowed_transitions, pairs, strict=True):
            values = self.batch.values if own is None else self.batch.values[:, own]
            self.layouts.append(
                ChainLayout(
                    PackedBatch(values, self.batch.offsets),
                    size,
                    fit_intercept=fit_intercept,
                    start_end=start_end,
                    edge_columns=None,
                    allowed_transitions=allowed,
                    pairs=pair,
                )
            )
        n_pairs = [a * b for a, b in zip(self.sizes[:-1], self.sizes[1:], strict=True)] if coupled else []
        self.coupled = coupled
        self.cuts = np.cumsum([*(layout.n_coef for layout in self.layouts), *n_pairs])[:-1]
        self.n_coef = sum(layout.n_coef for layout in self.layouts) + sum(n_pairs)
        penalised = np.ones(self.n_coef)
        for layout, part in zip(self.layouts, np.split(penalised, self.cuts), strict=False):
            part[layout.cuts[-1] :] = 0.0
        self.penalty = ElasticNet(penalised, l1_ratio)
        self.l1 = self.penalty.l1
        self._row_weight = np.repeat(self.weight, self.batch.lengths)
        self.complete = np.logical_and.reduce([level.is_complete() for level in self.labels])
        for level, allowed in zip(self.labels, allowed_transitions, strict=True):
            raise_if_forbidden(level, allowed, self._numbers)
        self.bounds = _parallel.chunk_bounds(self.batch.offsets, grid_doubles_per_step(self.sizes))
        self.size = C * float(self._row_weight.sum())
        scale = [
            layout.typical_sizes(self.batch.values if own is None else self.batch.values[:, own], None)
            for layout, own in zip(self.layouts, columns, strict=True)
        ]
        scale.append(np.ones(sum(n_pairs)))
        least = np.sqrt((1 - l1_ratio) * penalised / self.size)
        self.scale = np.maximum(np.hypot(np.concatenate(scale), least), np.finfo(float).tiny ** 0.25)

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of everything but the absolute values."""
        parts, coupling = self._parts(coef)
        residuals = [np.empty((self.batch.n_total, size)) for size in self.sizes]
        with np.errstate(over="ignore", invalid="ignore"):  # the solver backs off from what is not finite
            results = _parallel.run(
                lambda bound: self._chunk(bound, parts, coupling, residuals), self.bounds, self.n_jobs
            )
            loss, edges, pairs = results[0]
            for more_loss, more_edges, more_pairs in results[1:]:
                loss += more_loss
                edges = [a + b for a, b in zip(edges, more_edges, strict=True)]
                pairs = [a + b for a, b in zip(pairs, more_pairs, strict=True)]
            gradient = np.empty(self.n_coef)
            own = np.split(gradient, self.cuts)
            for d, (layout, residual) in enumerate(zip(self.layouts, residuals, strict=True)):
                node, moves, _, start, end, intercept = np.split(own[d], layout.cuts)
                node[:] = layout.features.gradient(
                    residual, lambda f, tasks: _parallel.run(f, tasks, self.n_jobs)
                )
                moves[:] = edges[d][layout.allowed_transitions]
                if len(start):
                    start[:] = residual[self.batch.offsets[:-1]].sum(axis=0)
                    end[:] = residual[self.batch.offsets[1:] - 1].sum(axis=0)
                if len(intercept):
                    intercept[:] = residual.sum(axis=0)
            for part, pair in zip(own[len(self.layouts) :], pairs, strict=False):
                part[:] = pair.ravel()
            gradient *= self.C
            return self.penalty.add_smooth(coef, self.C * loss, gradient), gradient

    def split(self, coef: np.ndarray) -> GridCoefficients:
        """Cut a coefficient vector into the shapes that users see."""
        own, (_, coupling) = np.split(coef, self.cuts), self._parts(coef)
        return GridCoefficients(
            [layout.split(part) for layout, part in zip(self.layouts, own, strict=False)], coupling
        )

    def join(self, parts: GridCoefficients) -> np.ndarray:
        """The inverse of ``split``."""
        levels = [layout.join(part) for layout, part in zip(self.layouts, parts.levels, strict=True)]
        return np.concatenate([*levels, *(part.ravel() for part in parts.coupling if self.coupled)])

    def _parts(self, coef: np.ndarray) -> tuple[list[ChainCoefficients], list[np.ndarray]]:
        own = np.split(coef, self.cuts)
        levels = [layout.parts(part) for layout, part in zip(self.layouts, own, strict=False)]
        shapes = list(zip(self.sizes[:-1], self.sizes[1:], strict=True))
        if not self.coupled:
            return levels, [np.zeros(shape) for shape in shapes]
        rest = own[len(self.layouts) :]
        return levels, [part.reshape(shape).copy() for part, shape in zip(rest, shapes, strict=True)]

    def _chunk(
        self,
        bound: tuple[int, int],
        parts: Sequence[ChainCoefficients],
        coupling: list[np.ndarray],
        residuals: list[np.ndarray],
    ) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
        """Weighted loss of some sequences and summed residuals of moves and pairs; those of steps are written."""
        first, last = bound
        offsets = self.batch.offsets
        rows = slice(offsets[first], offsets[last])
        chains = [layout.chains(part, first, last) for layout, part in zip(self.layouts, parts, strict=True)]
        grids = PackedGrids(
            [chain.unary for chain in chains],
            [chain.transition for chain in chains],
            coupling,
            offsets[first : last + 1] - offsets[first],
            first,
        )
        weight = self.weight[first:last]
        found = grids.forward_backward(weight)
        if found.log_z.min() == -np.inf:
            s = self._numbers[first + int(np.argmin(found.log_z))]
            raise InfeasibleSequenceError(
                f"X[{s}] has no possible labelling: allowed_transitions lets no sequence of its length through."
            )
        loss = float(weight @ found.log_z)
        for residual, node in zip(residuals, found.nodes, strict=True):
            residual[rows] = node
        complete = self.complete[first:last]
        if complete.any():
            loss -= self._subtract_known(grids, rows, complete, weight, found, residuals)
        if not complete.all():
            loss -= self._subtract_partial(grids, rows, np.flatnonzero(~complete), weight, found, residuals)
        return loss, found.edges, found.pairs

    def _subtract_known(
        self,
        grids: PackedGrids,
        rows: slice,
        complete: np.ndarray,
        weight: np.ndarray,
        found: Any,
        residuals: Any,
    ) -> float:
        codes = [np.where(level.codes[rows] >= 0, level.codes[rows], 0) for level in self.labels]
        within = np.flatnonzero(np.repeat(complete, np.diff(grids.offsets)))
        into = np.setdiff1d(within, grids.offsets[:-1], assume_unique=True)
        row_weight = self._row_weight[rows]
        for d, own in enumerate(codes):
            residuals[d][rows.start + within, own[within]] -= row_weight[within]
            np.subtract.at(found.edges[d], (own[into - 1], own[into]), row_weight[into])
            if d:
                np.subtract.at(found.pairs[d - 1], (codes[d - 1][within], own[within]), row_weight[within])
        with np.errstate(invalid="ignore"):  # codes of incomplete sequences are no codes
            return float(weight[complete] @ grids.score_of(codes)[complete])

    def _subtract_partial(
        self,
        grids: PackedGrids,
        rows: slice,
        partial: np.ndarray,
        weight: np.ndarray,
        found: Any,
        residuals: Any,
    ) -> float:
        allowed = [level.allowed(rows.start, rows.stop) for level in self.labels]
        fitting = grids.narrowed(allowed).take(partial)
        fits = fitting.forward_backward(weight[partial])
        if fits.log_z.min() == -np.inf:
            s = self._numbers[grids.first + int(partial[np.argmin(fits.log_z)])]
            raise InfeasibleSequenceError(
                f"The labels of y[{s}] fit no labelling: a move that they need is not in allowed_transitions."
            )
        lengths = np.diff(grids.offsets)
        within = np.flatnonzero(np.repeat(np.isin(np.arange(len(lengths)), partial), lengths))
        for residual, node in zip(residuals, fits.nodes, strict=True):
            residual[rows.start + within] -= node
        for sums, more in zip([*found.edges, *found.pairs], [*fits.edges, *fits.pairs], strict=True):
            sums -= more
        return float(weight[partial] @ fits.log_z)
