"""Two exact engines for the same cliques: one linear in time, one for several levels of explicit durations.

An engine is made for a chunk's scores and gives sums, probabilities by clique, best and random configurations.
Configurations are ``(x, e)``: states by level and whether a segment ends, both (n_levels, n_rows).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_seqlab.inference import PackedStacks
from sklearn_seqlab.objectives._columns import gather, scatter
from sklearn_seqlab.objectives._hierarchy_scores import CliqueScores, too_large
from sklearn_seqlab.objectives._hierarchy_shape import HierarchyShape
from sklearn_seqlab.objectives._nested_engine import NestedEngine

__all__ = ["StackEngine", "choose_engine", "make_engine"]


def choose_engine(shape: HierarchyShape, engine: str) -> str:
    """Resolve "auto": "chain" without explicit durations, "mixed" with one such level, else "aio".

    Raises
    ------
    ValueError
        If ``engine`` is "chain" but a level's score is no sum over its steps, or "mixed" with two such levels.
    """
    n_explicit = len(shape.explicit_levels)
    if engine == "chain" and n_explicit:
        raise ValueError(
            f"engine='chain' needs scores that are sums over time steps, but level {shape.explicit_levels[0]} "
            "(counted from the root) has explicit durations, a max_duration, or segment features other than 'sum'."
        )
    if engine == "mixed" and n_explicit > 1:
        raise ValueError("engine='mixed' takes one level of explicit durations; use 'auto' or 'aio'.")
    if engine != "auto":
        return engine
    return ("chain", "mixed")[n_explicit] if n_explicit < 2 else "aio"


# What a PackedStacks calls the scores by row, and what cliques call them.
_BY_ROW = {"enter": "enter", "leave": "leave", "first_child": "first", "last_child": "last"}


class StackEngine:
    """Time linear in the sequence: at most one level of explicit durations, all others Markov."""

    def __init__(self, cliques: CliqueScores, numerics: str = "auto"):
        self.cliques, self.numerics = cliques, numerics
        shape, layout = cliques.shape, cliques.shape.layout
        self.shape, self.layout = shape, layout
        self.nodes = layout.states + shape.first_node[:-1]
        level_of_prefix = np.searchsorted(layout.cut, np.arange(layout.n_prefixes), side="right") - 1
        self.node_of_prefix = np.ascontiguousarray(shape.first_node[level_of_prefix] + layout.state)
        below_root = layout.pair >= 0
        start, stop = np.zeros(layout.n_prefixes), np.zeros(layout.n_prefixes)
        start[below_root] = cliques.initialisation[layout.pair[below_root]]
        stop[below_root] = cliques.ending[layout.pair[below_root]]
        step = np.empty((len(cliques.step), layout.n_stacks))
        gather(cliques.step, self.nodes, step)
        m = shape.segment_level
        leaf_states = layout.state[layout.level_slice(m)]
        duration, tail = cliques.duration[m], cliques.tail[m]
        if duration is None:  # every level is Markov
            duration = np.zeros((1, 1, shape.levels[m].n_states))
            tail = np.zeros(shape.levels[m].n_states) if shape.persists else None
        edges = {}
        for name, clique in _BY_ROW.items():
            by_node = getattr(cliques, clique)
            if by_node is not None:
                width = layout.cut[shape.last_edge_level(clique) + 1]
                edges[name] = np.take(by_node, self.node_of_prefix[:width], axis=1)
        if tail is not None:
            edges["tail"] = tail[leaf_states]
        self.stacks = PackedStacks(
            layout,
            m,
            step,
            start[None],
            stop[None],
            cliques.move[None],
            np.ascontiguousarray(duration[:, :, leaf_states]),
            cliques.offsets,
            persists=shape.persists and m < shape.n_levels - 1,
            first=cliques.number,
            **edges,
        )

    def narrowed(self, allowed: np.ndarray | None, ends: np.ndarray | None) -> StackEngine:
        """The same with states (n_rows, n_nodes) forbidden and ends (n_levels, n_rows) known; see PackedStacks."""
        stacks = None
        if allowed is not None:
            stacks = np.ones(self.stacks.step.shape, dtype=bool)
            for d in range(self.shape.n_levels):
                stacks &= allowed[:, self.nodes[:, d]]
        return self._with(self.stacks.narrowed(stacks, ends))

    def log_partition(self) -> np.ndarray:
        """In nats, (n_sequences,); minus infinity where nothing is feasible."""
        return self.stacks.log_partition(self.numerics)

    def forward_backward(self, weight: np.ndarray | None = None) -> tuple[np.ndarray, CliqueScores, int]:
        """Log-partition, weighted probabilities by clique, and how many sequences were redone in the log domain."""
        log_z, shares, n_redone = self.stacks.forward_backward(weight, self.numerics)
        self._check_sums(log_z, shares.step, weight)
        shape, layout, m = self.shape, self.layout, self.shape.segment_level
        step = np.zeros(self.cliques.step.shape)
        scatter(shares.step, self.nodes, step)
        leaf_states = layout.state[layout.level_slice(m)]
        duration: list[np.ndarray | None] = [None] * shape.n_levels
        tail: list[np.ndarray | None] = [None] * shape.n_levels
        own, beyond = self.cliques.duration[m], self.cliques.tail[m]
        if own is not None:
            by_state = np.zeros(own.shape)
            for k, state in enumerate(leaf_states):  # prefixes of one state share its durations
                by_state[:, :, state] += shares.duration[:, :, k]
            duration[m] = by_state
        if beyond is not None:
            tail[m] = np.bincount(leaf_states, shares.tail, minlength=len(beyond))
        return (
            log_z,
            CliqueScores(
                shape=shape,
                offsets=self.cliques.offsets,
                step=step,
                first=self._by_node(shares.first_child, self.cliques.first),
                last=self._by_node(shares.last_child, self.cliques.last),
                enter=self._by_node(shares.enter, self.cliques.enter),
                leave=self._by_node(shares.leave, self.cliques.leave),
                duration=duration,
                tail=tail,
                initialisation=self._by_pair(shares.start),
                ending=self._by_pair(shares.stop),
                move=shares.move.sum(axis=0),
            ),
            n_redone,
        )

    def boundaries(self) -> np.ndarray:
        """Probability that a segment of each level ends with each step, (n_levels, n_rows)."""
        stacks = self.stacks
        if stacks.enter.shape[1] < self.layout.n_prefixes:
            # what leaves at each row is told apart only if rows have scores of their own
            enter, leave = np.zeros((2, len(stacks.step), self.layout.n_prefixes))
            if len(stacks.enter):
                enter[:, : stacks.enter.shape[1]] = stacks.enter
                leave[:, : stacks.leave.shape[1]] = stacks.leave
            stacks = replace(stacks, enter=enter, leave=leave)
        log_z, shares, _ = stacks.forward_backward(None, self.numerics)
        self._check_sums(log_z, shares.step, None)
        self.raise_if_infeasible(log_z)
        ends = np.zeros((self.shape.n_levels, len(stacks.step)))
        for d in range(1, self.shape.n_levels):
            ends[d] = shares.leave[:, self.layout.level_slice(d)].sum(axis=1)
        ends = np.cumsum(ends, axis=0)  # where a level ends those below it do
        ends[:, self.cliques.offsets[1:] - 1] = 1.0
        return np.minimum(ends, 1.0)

    def viterbi(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States and ends (n_levels, n_rows) of the best configurations, and their scores (n_sequences,)."""
        codes, highest, best = self.stacks.viterbi()
        return *self._configuration(codes, highest), best

    def sample(self, n_samples: int, random_state: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Independent draws of states and ends."""
        return [self._configuration(*draw) for draw in self.stacks.sample(n_samples, random_state)]

    def raise_if_infeasible(self, best: np.ndarray) -> None:
        if np.isnan(best).any():
            raise too_large(self.cliques.number + int(np.argmax(np.isnan(best))))
        self.stacks.raise_if_infeasible(best)

    def explain(self, s: int) -> str:
        """Why a sequence is infeasible."""
        return f"none that is allowed covers time step {self.stacks.first_unexplained(s)}"

    def _check_sums(self, log_z: np.ndarray, step: np.ndarray, weight: np.ndarray | None) -> None:
        """Set to NaN the sums of sequences whose probabilities do not sum to one: rounding of huge scores."""
        lengths = np.diff(self.cliques.offsets)
        expected = np.ones(len(log_z)) if weight is None else weight
        gap = np.abs(step.sum(axis=1) - np.repeat(expected, lengths))
        largest = np.maximum.reduceat(gap, self.cliques.offsets[:-1])
        log_z[(log_z > -np.inf) & ~(largest <= 1e-5 * expected)] = np.nan

    def _configuration(self, codes: np.ndarray, highest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.ascontiguousarray(self.layout.states[codes].T)
        e = (highest <= np.arange(self.shape.n_levels)[:, None]).astype(np.int8)
        return x, e

    def _by_node(self, shares: np.ndarray, scores: np.ndarray | None) -> np.ndarray | None:
        if scores is None:
            return None
        out = np.zeros(scores.shape)
        scatter(shares, self.node_of_prefix[: shares.shape[1], None], out)
        return out

    def _by_pair(self, shares: np.ndarray) -> np.ndarray:
        below_root = self.layout.pair >= 0
        total = shares.sum(axis=0)[below_root]
        return np.bincount(self.layout.pair[below_root], total, minlength=self.layout.pairs.shape[1])

    def _with(self, stacks: PackedStacks) -> StackEngine:
        other = object.__new__(StackEngine)
        other.__dict__.update(self.__dict__, stacks=stacks)
        return other


def make_engine(name: str, cliques: CliqueScores, numerics: str) -> Any:
    """The engine of a name, for the scores of a chunk."""
    return (NestedEngine if name == "aio" else StackEngine)(cliques, numerics)
