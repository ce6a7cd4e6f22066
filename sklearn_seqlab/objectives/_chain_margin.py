"""Margins of linear chains: coefficients -> most violated labellings -> cutting planes and slacks."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab import _parallel
from sklearn_seqlab.inference import PackedChains, Violations, margin_violations, slack_violations
from sklearn_seqlab.objectives._chain_layout import ChainLayout
from sklearn_seqlab.objectives._chain_scores import ChainCoefficients
from sklearn_seqlab.objectives._linear import stored_values
from sklearn_seqlab.objectives._planes import Planes
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, raise_if_forbidden, step_costs

__all__ = ["ChainMargin"]

# Planes of a run of sequences are found at the same coefficients, which saves overhead and costs freshness: a
# fiftieth of the data at a time, if that is not more than the longest run allowed.
_RUNS_PER_PASS = 50


class ChainMargin:
    """Slacks of sequences: how far wrong labellings come within their cost of the true one.

    Parameters
    ----------
    batch : PackedBatch
    labels : LabelCodes
        A sequence that is not completely labelled is compared with a completion (see :meth:`complete`); hidden steps
        cost nothing, and a set of candidates the least cost among them.
    weight : ndarray of shape (n_sequences,)
        Nonnegative. Sequences of weight zero, and those of which nothing is known, are left out.
    C : float
        The slack of a sequence counts ``C`` times its share of the weight.
    cost : ndarray of shape (n_labels, n_labels)
        Of predicting the label of the column where that of the row is true.
    mean : bool
        Whether costs are divided by the number of time steps.
    rescaling : {"margin", "slack"}
        "slack" needs costs of zero and one.
    fit_intercept, start_end, edge_columns, allowed_transitions, pairs, intercept_scaling
        See :class:`ChainLayout`.
    exact_length : int
        See :func:`~sklearn_seqlab.inference.slack_violations`.
    longest_run : int
        Most sequences whose planes are found at the same coefficients.
    recomplete : bool
        Whether partial labels are completed anew each time that planes are asked for.
    n_jobs : int or None

    Attributes
    ----------
    caps : ndarray of shape (n_sequences,)
    runs : list of (first, last)
    numbers : ndarray of int of shape (n_sequences,)
        Place of the sequences that count among those given.
    partial : ndarray of int
        Sequences whose labels are not all known.

    Raises
    ------
    ValueError
        If no sequence of positive weight has a label.
    InfeasibleSequenceError
        If labels contradict ``allowed_transitions``.

    Notes
    -----
    ``spec`` "chain models" 6: margin rescaling after Taskar et al. (NIPS 2003), slack rescaling after Tsochantaridis
    et al. (JMLR 2005). Sequences are the blocks of a margin trainer's problem.
    """

    def __init__(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        *,
        weight: np.ndarray,
        C: float,
        cost: np.ndarray,
        mean: bool = True,
        rescaling: str = "margin",
        fit_intercept: bool = True,
        start_end: bool = True,
        edge_columns: np.ndarray | None = None,
        allowed_transitions: np.ndarray,
        pairs: Any = None,
        intercept_scaling: float = 1.0,
        exact_length: int = 500,
        longest_run: int = 64,
        recomplete: bool = False,
        n_jobs: int | None = None,
    ):
        self.numbers = np.flatnonzero((weight > 0) & labels.is_informative())
        if not len(self.numbers):
            raise ValueError("y holds no label where sample_weight is positive: nothing to learn from.")
        if len(self.numbers) < batch.n_sequences:
            batch, labels = batch.take(self.numbers), labels.take(self.numbers)
        weight = weight[self.numbers]
        self.batch, self.labels, self.weight, self.C, self.n_jobs = batch, labels, weight, C, n_jobs
        with np.errstate(over="ignore"):
            self.caps = C * (weight / weight.max()) / (weight / weight.max()).sum()
        self.cost, self.rescaling = cost, rescaling
        self.unit = 1.0 / batch.lengths if mean else np.ones(batch.n_sequences)
        self.exact_length, self.recomplete = exact_length, recomplete
        self.layout = ChainLayout(
            batch,
            labels.n_labels,
            fit_intercept=fit_intercept,
            start_end=start_end,
            edge_columns=edge_columns,
            allowed_transitions=allowed_transitions,
            pairs=pairs,
            intercept_scaling=intercept_scaling,
        )
        self.n_coef = self.layout.n_coef
        self.split, self.join = self.layout.split, self.layout.join
        self._move_number = np.cumsum(allowed_transitions).reshape(allowed_transitions.shape) - 1
        length = max(1, min(longest_run, batch.n_sequences // _RUNS_PER_PASS))
        edges = [*range(0, batch.n_sequences, length), batch.n_sequences]
        self.runs = list(pairwise(edges))
        raise_if_forbidden(labels, allowed_transitions, self.numbers)
        self.partial = np.flatnonzero(~labels.is_complete())
        self.true = labels.codes.copy()
        self.complete(np.zeros(self.n_coef))

    def complete(self, coef: np.ndarray, first: int = 0, last: int | None = None) -> np.ndarray:
        """Give partly labelled sequences their best labelling that fits; returns those that changed."""
        last = self.batch.n_sequences if last is None else last
        chosen = self.partial[(self.partial >= first) & (self.partial < last)]
        changed: list[int] = []
        if not len(chosen):
            return np.array(changed, dtype=np.intp)
        parts = self.layout.parts(coef)
        for s in chosen:
            rows = slice(self.batch.offsets[s], self.batch.offsets[s + 1])
            chains = self.layout.chains(parts, s, s + 1)
            chains.raise_if_overflown()
            fits = self.labels.allowed(rows.start, rows.stop)
            unary = np.where(fits, chains.unary, -np.inf)
            number = int(self.numbers[s])
            codes, _ = PackedChains(unary, chains.transition, chains.offsets, number).viterbi()
            if (codes != self.true[rows]).any():
                self.true[rows] = codes
                changed.append(s)
        return np.array(changed, dtype=np.intp)

    def planes(self, coef: np.ndarray, first: int, last: int, scale: float = 1.0) -> Planes:
        """The most violated plane of each of the sequences ``first:last`` at ``scale * coef``."""
        if self.recomplete:
            self.complete(coef, first, last)
        return self._planes(self.layout.parts(coef), first, last, scale)

    def all_planes(self, coef: np.ndarray) -> tuple[list[Planes], np.ndarray]:
        """Planes of all sequences, run by run, and upper bounds (n_sequences,) of the slacks."""
        parts = self.layout.parts(coef)

        def task(run: tuple[int, int]) -> tuple[Planes, np.ndarray]:
            found = self._violations(parts, *run, 1.0)
            return self._as_planes(found, *run), np.maximum(found.bound, 0.0)

        results = _parallel.run(task, self.runs, self.n_jobs)
        return [planes for planes, _ in results], np.concatenate([slacks for _, slacks in results])

    def slacks(self, coef: np.ndarray) -> np.ndarray:
        """Upper bounds (n_sequences,) of the slacks at ``coef``; the slacks themselves where they are exact."""
        return self.slack_bounds(coef)[:, 1]

    def slack_bounds(self, coef: np.ndarray) -> np.ndarray:
        """Lower and upper bounds (n_sequences, 2) of the slacks."""
        parts = self.layout.parts(coef)

        def task(bound: tuple[int, int]) -> np.ndarray:
            found = self._violations(parts, *bound, 1.0)
            return np.maximum(np.stack([found.value, found.bound], axis=1), 0.0)

        bounds = _parallel.chunk_bounds(self.batch.offsets, self.layout.doubles_per_step)
        return np.concatenate(_parallel.run(task, bounds, self.n_jobs))

    def fingerprint(self) -> str:
        """Tells whether planes of an earlier problem are planes of this one too."""
        values = self.batch.values
        arrays = [values.data, values.indices, values.indptr] if sparse.issparse(values) else [values]
        arrays += [self.batch.offsets, self.true, self.labels.allowed(), self.unit, self.cost]
        arrays += [self.caps / self.C, self.layout.allowed_transitions, self.layout.cuts]
        if self.layout.edge_inputs is not None:
            inputs = self.layout.edge_inputs
            arrays.append(inputs.toarray() if sparse.issparse(inputs) else inputs)
        digest = hashlib.sha256(f"{self.rescaling} {self.n_coef} {self.layout.intercept_scaling}".encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _violations(self, parts: ChainCoefficients, first: int, last: int, scale: float) -> Violations:
        chains = self.layout.chains(parts, first, last)
        if scale not in (0.0, 1.0):  # nought only before the first plane, where the coefficients are zero
            moves = chains.transition * scale
            chains = PackedChains(chains.unary * scale, moves, chains.offsets, chains.first)
        chains.raise_if_overflown()
        start, stop = int(self.batch.offsets[first]), int(self.batch.offsets[last])
        costs = step_costs(self.labels, self.cost, start, stop)
        true_score = chains.score_of(self.true[start:stop])
        if self.rescaling == "margin":
            costs *= np.repeat(self.unit[first:last], self.batch.lengths[first:last])[:, None]
            return margin_violations(chains, costs, true_score)
        return slack_violations(
            chains, costs > 0, self.unit[first:last], true_score, exact_length=self.exact_length
        )

    def _planes(self, parts: ChainCoefficients, first: int, last: int, scale: float) -> Planes:
        return self._as_planes(self._violations(parts, first, last, scale), first, last)

    def _as_planes(self, found: Violations, first: int, last: int) -> Planes:
        """Features of the true labellings less those of others, in one sorted sparse batch."""
        start, stop = int(self.batch.offsets[first]), int(self.batch.offsets[last])
        n_sequences, lengths = last - first, self.batch.lengths[first:last]
        owner = np.repeat(np.arange(n_sequences), lengths)
        true, other = self.true[start:stop], found.codes
        rows = np.arange(start, stop)
        key, value = self._difference(rows, owner, true, other, n_sequences)
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order]
        firsts = np.flatnonzero(np.diff(key, prepend=-1))
        total = np.add.reduceat(value, firsts) if len(firsts) else value
        key = key[firsts]
        key, total = key[total != 0], total[total != 0]

        costs = step_costs(self.labels, self.cost, start, stop)[rows - start, other]
        offset = self.unit[first:last] * np.add.reduceat(costs, self.batch.offsets[first:last] - start)
        counts = np.bincount(key // self.n_coef, minlength=n_sequences)
        if self.rescaling == "slack":  # a plane of slack rescaling is one of margin rescaling times its cost
            total = total * np.repeat(offset, counts)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        return Planes(indptr, (key % self.n_coef).astype(np.intp), total, offset, found.value)

    def _difference(
        self, rows: np.ndarray, owner: np.ndarray, true: np.ndarray, other: np.ndarray, n_sequences: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Terms of true labellings less others, keyed by sequence and coefficient."""
        layout, wrong = self.layout, np.flatnonzero(true != other)
        node, moves, edge, start, end, intercept = [0, *layout.cuts]
        keys, values = [], []

        def add(of: np.ndarray, number: np.ndarray, value: Any) -> None:
            keys.append(of.astype(np.int64) * self.n_coef + number)
            values.append(np.broadcast_to(np.asarray(value, dtype=np.float64), of.shape))

        is_first = np.diff(owner, prepend=-1) > 0
        is_last = np.diff(owner, append=n_sequences) > 0
        into = np.flatnonzero(~is_first & ((true != other) | (np.roll(true, 1) != np.roll(other, 1))))
        for codes, sign in ((true, 1.0), (other, -1.0)):
            entry, number, value = layout.features.terms(rows[wrong], codes[wrong])
            add(owner[wrong][entry], node + number, sign * value)
            move = self._move_number[codes[into - 1], codes[into]]
            add(owner[into], moves + move, sign)
            if layout.edge_inputs is not None:
                entry, column, value = stored_values(layout.edge_inputs, rows[into])
                add(owner[into][entry], edge + move[entry] * layout.n_edge + column, sign * value)
            if end > start:
                for place, at in ((start, is_first), (end, is_last)):
                    chosen = wrong[at[wrong]]
                    add(owner[chosen], place + codes[chosen], sign)
            if self.n_coef > intercept:
                add(owner[wrong], intercept + codes[wrong], sign * layout.intercept_scaling)
        return np.concatenate(keys), np.concatenate(values)
