"""Grids: several chains side by side, the labels of neighbouring chains coupled at every step; trusted.

A grid is a chain on tuples of labels, but its messages are tensors with an axis per level, and a move contracts one
axis after the other: ``prod(L) * sum(L)`` products per step in place of ``prod(L) ** 2``. Sequences run side by side,
longest first, so that contractions are matrix products; the last axis of every tensor counts them.

Sums run in scaled probabilities with the same certificate as those of chains: the forward pass rounds what underflows
down, the backward pass rounds it up. A sequence in which they differ is redone as a chain on tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.inference.packed_chains import PackedChains

__all__ = ["GridMarginals", "PackedGrids"]

# As in the kernels of chains.
_TRUSTED, _TINY, _DEVIATION, _SMALLEST_FACTOR = 1e-100, 1e-300, 1e-9, 1e-290


class GridMarginals(NamedTuple):
    """Log-partition and marginals by level, those of a sequence multiplied by its weight.

    Attributes
    ----------
    log_z : ndarray of shape (n_sequences,)
        Minus infinity for an infeasible sequence, whose marginals are zero.
    nodes : list of ndarray of shape (n_total, n_labels)
    edges : list of ndarray of shape (n_labels, n_labels)
        Of moves, summed over the batch.
    pairs : list of n_levels - 1 ndarray of shape (n_labels, n_labels below)
        Of the labels of a level and of the next at the same step, summed over the batch.
    """

    log_z: np.ndarray
    nodes: list[np.ndarray]
    edges: list[np.ndarray]
    pairs: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class PackedGrids:
    """Scores of a batch of grids, in nats; trusted.

    Attributes
    ----------
    unary : list of n_levels ndarray of shape (n_total, n_labels)
        Below plus infinity, never NaN; minus infinity forbids.
    transition : list of n_levels ndarray of shape (n_labels, n_labels)
    coupling : list of n_levels - 1 ndarray of shape (n_labels, n_labels below)
        Scores of the labels of neighbouring levels at one step.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    first : int
        Number of the first sequence in the batch that this is a chunk of, for messages.
    """

    unary: list[np.ndarray]
    transition: list[np.ndarray]
    coupling: list[np.ndarray]
    offsets: np.ndarray
    first: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of labels by level."""
        return tuple(scores.shape[1] for scores in self.unary)

    @property
    def n_levels(self) -> int:
        return len(self.unary)

    @property
    def n_total(self) -> int:
        return len(self.unary[0])

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    def narrowed(self, allowed: Sequence[np.ndarray]) -> PackedGrids:
        """The same grids over ``allowed`` labels alone; bool of shape (n_total, n_labels) by level."""
        unary = [np.where(mask, scores, -np.inf) for mask, scores in zip(allowed, self.unary, strict=True)]
        return PackedGrids(unary, self.transition, self.coupling, self.offsets, self.first)

    def take(self, sequences: np.ndarray) -> PackedGrids:
        """Some of the sequences."""
        lengths = np.diff(self.offsets)[sequences]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
        rows = np.repeat(self.offsets[:-1][sequences] - offsets[:-1], lengths) + np.arange(offsets[-1])
        unary = [scores[rows] for scores in self.unary]
        return PackedGrids(unary, self.transition, self.coupling, offsets, self.first)

    def collapsed(self) -> PackedChains:
        """The same as chains on tuples of labels, the last level varying fastest."""
        unary = np.zeros((self.n_total, 1))
        moves = np.zeros((1, 1))
        for scores, own in zip(self.unary, self.transition, strict=True):
            unary = (unary[:, :, None] + scores[:, None, :]).reshape(self.n_total, -1)
            n = len(moves)
            moves = (moves[:, None, :, None] + own[None, :, None, :]).reshape(n * len(own), -1)
        unary += self._coupled(self.coupling, np.add, 0.0).ravel()
        return PackedChains(unary, moves, self.offsets, self.first)

    def log_partition(self) -> np.ndarray:
        """(n_sequences,); minus infinity for an infeasible sequence."""
        return self.forward_backward(only_log_z=True).log_z

    def forward_backward(
        self, weight: np.ndarray | None = None, *, only_log_z: bool = False
    ) -> GridMarginals:
        """Log-partition and weighted marginals; see the class for the cost.

        Parameters
        ----------
        weight : ndarray of shape (n_sequences,), default=None
        only_log_z : bool, default=False
            Leaves the marginals of moves and pairs out; the backward pass, which certifies, is made all the same.
        """
        weight = np.ones(self.n_sequences) if weight is None else weight
        sweep = _Sweep(self)
        found = sweep.run(weight, only_log_z)
        failed = np.flatnonzero(sweep.failed)
        if only_log_z:
            for s in failed:
                found.log_z[s] = self.take(np.array([s])).collapsed().log_partition()[0]
            return found
        if len(failed):
            found = self._without(sweep.failed, weight, found)
        for s in failed:
            self._add_collapsed(int(s), float(weight[s]), found)
        return found

    def _without(self, failed: np.ndarray, weight: np.ndarray, found: GridMarginals) -> GridMarginals:
        """The sums without sequences that have no certificate: what these added is worthless."""
        edges, pairs = ([np.zeros_like(part) for part in parts] for parts in (found.edges, found.pairs))
        fine = np.flatnonzero(~failed)
        if len(fine):
            again = self.take(fine).forward_backward(weight[fine])
            edges, pairs = again.edges, again.pairs
        return found._replace(edges=edges, pairs=pairs)

    def viterbi(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Codes (n_total,) by level and scores (n_sequences,) of the best labellings; ties: smallest label."""
        return _best(self)

    def sample(self, n_samples: int, random_state: Any) -> list[list[np.ndarray]]:
        """``n_samples`` codes, (n_total,) by level each."""
        random = check_random_state(random_state)
        sweep = _Sweep(self)
        log_z = sweep.run(np.ones(self.n_sequences), True).log_z
        chains = self.collapsed() if sweep.failed.any() else None
        if chains is not None:
            for s in np.flatnonzero(sweep.failed):
                log_z[s] = chains.one(int(s)).log_partition()[0]
        self.raise_if_infeasible(log_z)
        draws = []
        for _ in range(n_samples):
            codes = sweep.draw(random.random_sample(self.n_total))
            if chains is not None:
                for s in np.flatnonzero(sweep.failed):
                    rows = slice(self.offsets[s], self.offsets[s + 1])
                    codes[rows] = chains.one(int(s)).sample(1, random.randint(2**31 - 1))[0]
            draws.append([level.astype(np.intp) for level in np.unravel_index(codes, self.sizes)])
        return draws

    def score_of(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Score (n_sequences,) of one labelling of each sequence."""
        rows = np.arange(self.n_total)
        into = np.delete(rows, self.offsets[:-1])
        gain = np.zeros(self.n_total)
        for scores, moves, own in zip(self.unary, self.transition, codes, strict=True):
            gain += scores[rows, own]
            gain[into] += moves[own[into - 1], own[into]]
        for scores, upper, lower in zip(self.coupling, codes[:-1], codes[1:], strict=True):
            gain += scores[upper, lower]
        return np.add.reduceat(gain, self.offsets[:-1])

    def raise_if_infeasible(self, log_z: np.ndarray) -> None:
        """Raise for the first sequence without a feasible labelling, or whose sums left the double range."""
        for s in np.flatnonzero(~np.isfinite(log_z)):
            alone = PackedGrids(self.unary, self.transition, self.coupling, self.offsets, 0).take(
                np.array([s])
            )
            chain = alone.collapsed()
            PackedChains(
                chain.unary, chain.transition, chain.offsets, self.first + int(s)
            ).raise_if_infeasible(log_z[[s]])

    def raise_if_overflown(self) -> None:
        """Raise for a score that is NaN or plus infinity, naming its sequence and step."""
        for scores, moves in zip(self.unary, self.transition, strict=True):
            PackedChains(scores, moves, self.offsets, self.first).raise_if_overflown()

    def _coupled(self, parts: Sequence[np.ndarray], join: Any, neutral: float) -> np.ndarray:
        """Coupling scores (or factors) of all tuples, of shape ``sizes``."""
        out = np.full(self.sizes, neutral)
        for d, part in enumerate(parts):
            shape = [1] * self.n_levels
            shape[d], shape[d + 1] = part.shape
            join(out, part.reshape(shape), out=out)
        return out

    def _add_collapsed(self, s: int, weight: float, found: GridMarginals) -> None:
        """The marginals of one sequence, by its chain on tuples."""
        rows = slice(self.offsets[s], self.offsets[s + 1])
        log_z, node, edge = self.take(np.array([s])).collapsed().forward_backward(np.array([weight]))
        found.log_z[s] = log_z[0]
        tuples = node.reshape(-1, *self.sizes)
        moves = edge.reshape(*self.sizes, *self.sizes)
        n = self.n_levels
        for d in range(n):
            found.nodes[d][rows] = tuples.sum(axis=tuple(k + 1 for k in range(n) if k != d))
            found.edges[d] += moves.sum(axis=tuple(k for k in range(2 * n) if k % n != d))
        for d in range(n - 1):
            found.pairs[d] += tuples.sum(axis=(0, *(k + 1 for k in range(n) if k not in (d, d + 1))))


def _contract(tensor: np.ndarray, axis: int, matrix: np.ndarray) -> np.ndarray:
    """``sum_i tensor[.., i, ..] * matrix[i, j]``: one matrix product, or one per outer index."""
    shape = tensor.shape
    outer, size = int(np.prod(shape[:axis])), shape[axis]
    return np.matmul(matrix.T, np.ascontiguousarray(tensor).reshape(outer, size, -1)).reshape(shape)


class _Sweep:
    """Forward and backward messages of a batch of grids, all sequences at one time step at once."""

    def __init__(self, grids: PackedGrids):
        self.grids, self.sizes, self.n_levels = grids, grids.sizes, grids.n_levels
        lengths = np.diff(grids.offsets)
        self.order = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self.order]
        self.starts = grids.offsets[:-1][self.order]
        self.log_z = np.zeros(len(lengths))
        self.ok = np.ones(len(lengths), dtype=bool)
        self.factors, log_factor = [], 0.0
        with np.errstate(under="ignore"):
            for moves in grids.transition:
                top = float(moves.max())
                top = top if np.isfinite(top) else 0.0
                self.factors.append(np.exp(moves - top))
                log_factor += top
                if ((self.factors[-1] < _SMALLEST_FACTOR) & (moves > -np.inf)).any():
                    self.ok[:] = False  # a move that is allowed has become one that is not
            coupling = grids._coupled(grids.coupling, np.add, 0.0)
            self.top_coupling = float(coupling.max())
            self.coupled = np.exp(coupling - self.top_coupling)[..., None]
        self.log_factor = log_factor
        self.can_move = [(factor > 0).any(axis=1) for factor in self.factors]
        self.messages: list[np.ndarray] = []
        self.locals: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def failed(self) -> np.ndarray:
        """Sequences without a certificate, in the order of the batch."""
        failed = np.empty(len(self.ok), dtype=bool)
        failed[self.order] = ~self.ok
        return failed

    def steps(self) -> Iterator[tuple[int, np.ndarray]]:
        """Time steps, and the rows of the sequences that have them."""
        for t in range(int(self.lengths[0])):
            yield t, self.starts[: np.searchsorted(-self.lengths, -t, side="left")] + t

    def local(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Factors of steps, with an axis per level and one of rows; and the logs of what was divided out."""
        shift = np.full(len(rows), self.top_coupling)
        out = self.coupled
        for d, scores in enumerate(self.grids.unary):
            own = scores[rows]
            top = own.max(axis=1)
            shift += top
            shape = [1] * self.n_levels + [len(rows)]
            shape[d] = self.sizes[d]
            out = out * np.exp(own - np.where(top > -np.inf, top, 0.0)[:, None]).T.reshape(shape)
        return out, shift

    def run(self, weight: np.ndarray, only_log_z: bool) -> GridMarginals:
        with np.errstate(all="ignore"):
            sizes_of_steps = self._forward()
            return self._backward(weight[self.order], sizes_of_steps, only_log_z)

    def _forward(self) -> list[np.ndarray]:
        states = tuple(range(self.n_levels))
        grown = []
        for t, rows in self.steps():
            n = len(rows)
            message, shift = self.local(rows)
            self.locals.append((message, shift))
            if t:
                moved = self.messages[-1][..., :n]
                for d in states:
                    moved = _contract(moved, d, self.factors[d])
                message = message * moved
                shift = shift + self.log_factor
            size = message.max(axis=states)
            self.ok[:n] &= size >= _TRUSTED
            message = message * np.where(self.ok[:n], 1 / size, 0.0)
            if not self.ok[:n].all():
                message[..., ~self.ok[:n]] = 0.0
            self.log_z[:n] += shift + np.log(size)
            self.messages.append(message)
            grown.append(size)
            ends = np.flatnonzero(self.lengths[:n] == t + 1)
            self.log_z[ends] += np.log(message[..., ends].sum(axis=states))
        return grown

    def _backward(self, weight: np.ndarray, grown: list[np.ndarray], only_log_z: bool) -> GridMarginals:
        grids, states = self.grids, tuple(range(self.n_levels))
        nodes = [np.zeros((grids.n_total, size)) for size in (() if only_log_z else self.sizes)]
        edges = [np.zeros((size, size)) for size in self.sizes]
        pairs = [np.zeros(part.shape) for part in grids.coupling]
        upper = np.zeros(len(self.lengths))
        beta = np.ones((*self.sizes, 0))
        for t, rows in reversed(list(self.steps())):
            n = len(rows)
            message = self.messages[t]
            if beta.shape[-1] < n:
                beta = np.concatenate([beta, np.ones((*self.sizes, n - beta.shape[-1]))], axis=-1)
            joint = message * beta
            mass = joint.sum(axis=states)
            self.ok[:n] &= (mass >= _TRUSTED) & (mass * grown[t] >= _TRUSTED)
            local, shift = self.locals[t]
            upper[:n] += shift + (self.log_factor if t else 0.0)
            pulled = local * beta
            if pulled.min(initial=1.0) < _TINY:
                pulled = np.where((pulled < _TINY) & self._allowed(rows) & (beta > 0), _TINY, pulled)
            if not only_log_z:
                joint *= np.where(self.ok[:n], weight[:n] / mass, 0.0)
                self._add_nodes(joint, rows, nodes, pairs)
            if t == 0:
                upper[:n] += np.log(pulled.sum(axis=states))
                break
            if not only_log_z:
                share = np.where(self.ok[:n], weight[:n] / (mass * grown[t]), 0.0)
                self._add_edges(self.messages[t - 1][..., :n], pulled * share, edges)
            beta = pulled
            for d in states:
                beta = _contract(beta, d, self.factors[d].T)
            size = beta.max(axis=states)
            self.ok[:n] &= size >= _TRUSTED
            beta *= np.where(size > 0, 1 / size, 1.0)
            if beta.min() < _TINY:
                beta = np.where((beta < _TINY) & self._may_leave(), _TINY, beta)
            upper[:n] += np.log(size)
        gap = upper - self.log_z
        self.ok &= np.abs(gap) <= _DEVIATION * np.maximum(1.0, np.abs(upper))
        log_z = np.empty_like(self.log_z)
        log_z[self.order] = self.log_z
        return GridMarginals(log_z, nodes, edges, pairs)

    def _add_nodes(
        self, joint: np.ndarray, rows: np.ndarray, nodes: list[np.ndarray], pairs: list[np.ndarray]
    ) -> None:
        levels = range(self.n_levels)
        for d in levels:
            nodes[d][rows] = joint.sum(axis=tuple(k for k in levels if k != d)).T
        if pairs:
            summed = joint.sum(axis=-1)
            for d in levels[:-1]:
                pairs[d] += summed.sum(axis=tuple(k for k in levels if k not in (d, d + 1)))

    def _add_edges(self, message: np.ndarray, pulled: np.ndarray, edges: list[np.ndarray]) -> None:
        levels = range(self.n_levels)
        for d in levels:
            others = [k for k in levels if k != d]
            moved = message
            for k in others:
                moved = _contract(moved, k, self.factors[k])
            axes = [*others, self.n_levels]
            edges[d] += self.factors[d] * np.tensordot(moved, pulled, axes=(axes, axes))

    def _allowed(self, rows: np.ndarray) -> np.ndarray:
        out = np.ones((*self.sizes, len(rows)), dtype=bool)
        for d, scores in enumerate(self.grids.unary):
            shape = [1] * self.n_levels + [len(rows)]
            shape[d] = self.sizes[d]
            out &= (scores[rows] > -np.inf).T.reshape(shape)
        return out

    def _may_leave(self) -> np.ndarray:
        """Tuples from which some move is allowed; one to where nothing can follow counts, on the safe side."""
        out = np.ones((*self.sizes, 1), dtype=bool)
        for d, can in enumerate(self.can_move):
            shape = [1] * (self.n_levels + 1)
            shape[d] = self.sizes[d]
            out &= can.reshape(shape)
        return out

    def draw(self, uniform: np.ndarray) -> np.ndarray:
        """Numbers of tuples (n_total,), last level fastest, from a uniform number per row."""
        codes = np.zeros(self.grids.n_total, dtype=np.intp)
        following = np.empty(0, dtype=np.intp)
        for t, rows in reversed(list(self.steps())):
            weights = self.messages[t].copy()
            n_on = len(following)
            if n_on:
                for d, label in enumerate(np.unravel_index(following, self.sizes)):
                    shape = [1] * self.n_levels + [n_on]
                    shape[d] = self.sizes[d]
                    weights[..., :n_on] *= self.factors[d][:, label].reshape(shape)
            total = np.cumsum(weights.reshape(-1, len(rows)), axis=0)
            following = (total < uniform[rows] * total[-1]).sum(axis=0)
            following = np.minimum(following, len(total) - 1)
            codes[rows] = following
        return codes


def _best(grids: PackedGrids) -> tuple[list[np.ndarray], np.ndarray]:
    """Viterbi: the maximum is taken over the label before of one level after the other."""
    sweep = _Sweep(grids)
    sizes, n_levels = grids.sizes, grids.n_levels
    coupling = grids._coupled(grids.coupling, np.add, 0.0)[..., None]
    message = np.empty((*sizes, 0))
    origins: list[list[np.ndarray]] = []
    found = np.empty(grids.n_sequences)
    last = np.empty(grids.n_sequences, dtype=np.intp)
    dtype = np.int16 if max(sizes) < 2**15 else np.intp
    for t, rows in sweep.steps():
        n = len(rows)
        local = np.broadcast_to(coupling, (*sizes, n)).copy()
        for d, scores in enumerate(grids.unary):
            shape = [1] * n_levels + [n]
            shape[d] = sizes[d]
            local += scores[rows].T.reshape(shape)
        if t:
            message = message[..., :n]
            own = []
            for d in range(n_levels):
                message, origin = _best_move(message, d, grids.transition[d], dtype)
                own.append(origin)
            origins.append(own)
            local += message
        message = local
        ends = np.flatnonzero(sweep.lengths[:n] == t + 1)
        flat = message[..., ends].reshape(int(np.prod(sizes)), len(ends))
        last[ends] = flat.argmax(axis=0)
        found[ends] = flat[last[ends], np.arange(len(ends))]
    codes = [np.empty(grids.n_total, dtype=np.intp) for _ in sizes]
    labels = [np.empty(0, dtype=np.intp) for _ in sizes]
    for t, rows in reversed(list(sweep.steps())):
        n, n_on = len(rows), len(labels[0])
        if n_on:
            column = np.arange(n_on)
            for d in reversed(range(n_levels)):
                # origins of level d stand where levels up to it have moved, and later ones have not
                labels[d] = origins[t][d][(*labels, column)].astype(np.intp)
        new = np.unravel_index(last[n_on:n], sizes)
        labels = [np.concatenate([own, more]) for own, more in zip(labels, new, strict=True)]
        for d in range(n_levels):
            codes[d][rows] = labels[d]
    best = np.empty(grids.n_sequences)
    best[sweep.order] = found
    grids.raise_if_infeasible(best)
    return codes, best


def _best_move(
    message: np.ndarray, axis: int, moves: np.ndarray, dtype: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Maximum over ``i`` of ``message[.., i, ..] + moves[i, j]`` and the smallest ``i`` that attains it."""
    shape = [1] * message.ndim
    shape[axis] = len(moves)
    best = np.full(message.shape, -np.inf)
    origin = np.zeros(message.shape, dtype=dtype)
    for i in range(len(moves)):
        candidate = np.take(message, [i], axis=axis) + moves[i].reshape(shape)
        better = candidate > best
        np.copyto(best, candidate, where=better)
        origin[better] = i
    return best, origin
