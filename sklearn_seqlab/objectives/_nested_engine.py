"""The engine for several levels of explicit durations: one sequence at a time, by ``NestedSegments``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import NestedSegments
from sklearn_seqlab.objectives._hierarchy_scores import CliqueScores, too_large
from sklearn_seqlab.objectives._hierarchy_shape import HierarchyShape

__all__ = ["NestedEngine"]


class NestedEngine:
    """Any combination of levels; time up to cubic in the sequence. The verbs are those of ``StackEngine``."""

    def __init__(self, cliques: CliqueScores, numerics: Any = "auto"):
        self.cliques, self.numerics, self.shape = cliques, numerics, cliques.shape
        offsets = cliques.offsets
        # every configuration has one state per step and level: what all states share only costs digits
        top_scores = [
            cliques.step[:, cliques.shape.nodes(d)].max(axis=1) for d in range(cliques.shape.n_levels)
        ]
        shared = np.add.reduce(top_scores)
        cliques = replace(
            cliques, step=cliques.step - np.repeat(np.transpose(top_scores), _sizes(cliques.shape), axis=1)
        )
        self.shifts = np.add.reduceat(shared, offsets[:-1])
        self.hierarchies = [
            _hierarchy(cliques, int(offsets[s]), int(offsets[s + 1]), cliques.number + s)
            for s in range(len(offsets) - 1)
        ]

    def narrowed(self, allowed: np.ndarray | None, ends: np.ndarray | None) -> NestedEngine:
        other = object.__new__(NestedEngine)
        other.__dict__.update(self.__dict__)
        other.hierarchies = []
        for hierarchy, rows in self._each():
            masks = None
            if allowed is not None:
                masks = [allowed[rows, self.shape.nodes(d)] for d in range(self.shape.n_levels)]
            other.hierarchies.append(hierarchy.narrowed(masks, None if ends is None else ends[:, rows]))
        return other

    def log_partition(self) -> np.ndarray:
        sums = [hierarchy.log_partition(self.numerics) for hierarchy in self.hierarchies]
        return self.shifts + np.array(sums)

    def forward_backward(self, weight: np.ndarray | None = None) -> tuple[np.ndarray, CliqueScores, int]:
        log_z, n_redone = np.full(len(self.hierarchies), -np.inf), 0
        shares = _zero_shares(self.cliques)
        for s, (hierarchy, rows) in enumerate(self._each()):
            try:
                log_z[s], found = hierarchy.forward_backward(self.numerics)
            except InfeasibleSequenceError:
                continue
            if not _is_normalised(found):
                log_z[s] = np.nan
                continue
            n_redone += found.redone
            _add_shares(shares, found, rows, 1.0 if weight is None else float(weight[s]))
        return self.shifts + log_z, shares, n_redone

    def boundaries(self) -> np.ndarray:
        """Probability that a segment of each level ends with each step, (n_levels, n_rows)."""
        ends = []
        for hierarchy in self.hierarchies:
            _, found = self._named(hierarchy.forward_backward, self.numerics)
            if not _is_normalised(found):
                raise too_large(hierarchy.first)
            ends.append(found.ends)
        return np.concatenate(ends, axis=1)

    def viterbi(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = [self._named(hierarchy.viterbi) for hierarchy in self.hierarchies]
        x, e = (np.concatenate([f[k] for f in found], axis=1) for k in (0, 1))
        return x, e, self.shifts + np.array([f[2] for f in found])

    def sample(self, n_samples: int, random_state: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        random = check_random_state(random_state)
        draws = [self._named(hierarchy.sample, n_samples, random) for hierarchy in self.hierarchies]
        return [
            (
                np.concatenate([draw[k][0] for draw in draws], axis=1),
                np.concatenate([draw[k][1] for draw in draws], axis=1),
            )
            for k in range(n_samples)
        ]

    def raise_if_infeasible(self, best: np.ndarray) -> None:
        for hierarchy, value in zip(self.hierarchies, best, strict=True):
            if np.isnan(value):
                raise too_large(hierarchy.first)
            self._named(hierarchy.raise_if_infeasible, float(value))

    def explain(self, s: int) -> str:
        """Why a sequence is infeasible."""
        try:
            self.hierarchies[s].raise_if_infeasible(-np.inf)
        except InfeasibleSequenceError as error:
            return self._in_terms_of_labels(str(error).split(": ", 1)[-1].rstrip("."))
        return "its parts contradict each other"

    def _named(self, function: Any, *arguments: Any) -> Any:
        """Call, and tell an infeasible sequence in terms of labels."""
        try:
            return function(*arguments)
        except InfeasibleSequenceError as error:
            raise InfeasibleSequenceError(self._in_terms_of_labels(str(error))) from None

    def _in_terms_of_labels(self, message: str) -> str:
        """Levels as users count them, without a dummy root."""
        top = self.shape.top_level
        return re.sub(
            r"level (\d+)", lambda found: f"level {int(found[1]) - top}", message.replace("level 0: ", "")
        )

    def _each(self) -> Any:
        offsets = self.cliques.offsets
        for s, hierarchy in enumerate(self.hierarchies):
            yield hierarchy, slice(int(offsets[s]), int(offsets[s + 1]))


def _is_normalised(found: Any) -> bool:
    """Whether the probabilities of the states of each step sum to one, which rounding of huge scores breaks."""
    return all(bool((np.abs(state.sum(axis=1) - 1.0) < 1e-5).all()) for state in found.state)


def _sizes(shape: HierarchyShape) -> list[int]:
    """Numbers of states by level."""
    return [level.n_states for level in shape.levels]


def _hierarchy(cliques: CliqueScores, start: int, stop: int, number: int) -> NestedSegments:
    shape, rows, n_steps = cliques.shape, slice(start, stop), stop - start
    persistence = [cliques.step[rows, shape.nodes(0)].sum(axis=0)]
    initialisation, transition, ending = [], [], []
    for d in range(1, shape.n_levels):
        persistence.append(_band(cliques, d, start, n_steps))
        own, above = shape.nodes(d), shape.levels[d - 1].n_states
        n_own = own.stop - own.start
        tables = []
        for values in (cliques.initialisation, cliques.ending):
            table = np.full((above, n_own), -np.inf)
            pairs = shape.layout.pairs[0] == d - 1
            table[shape.layout.pairs[1, pairs], shape.layout.pairs[2, pairs]] = values[pairs]
            tables.append(table)
        table = np.full((above, n_own, n_own), -np.inf)
        moves = shape.layout.moves[0] == d - 1
        table[tuple(shape.layout.moves[1:, moves])] = cliques.move[moves]
        initialisation.append(_per_step(tables[0], cliques.first, rows, own, n_steps))
        ending.append(_per_step(tables[1], cliques.last, rows, own, n_steps))
        move = np.repeat(table[None], n_steps, axis=0)
        if cliques.enter is not None and cliques.leave is not None:
            move += cliques.enter[rows, own][:, None, None, :]
            move[1:] += cliques.leave[rows, own][:-1, None, :, None]
        transition.append(move)
    return NestedSegments(persistence, initialisation, transition, ending, first=number)


def _band(cliques: CliqueScores, d: int, start: int, n_steps: int) -> np.ndarray:
    """Score of every segment of a level, (n_steps, longest, n_states)."""
    level, step = cliques.shape.levels[d], cliques.step[start : start + n_steps, cliques.shape.nodes(d)]
    duration, tail = cliques.duration[d], cliques.tail[d]
    longest = n_steps
    if level.is_step or (d == cliques.shape.n_levels - 1 and not cliques.shape.persists):
        longest = 1
    elif duration is not None and tail is None:
        longest = min(n_steps, duration.shape[1])
    band = np.full((n_steps, longest, level.n_states), -np.inf)
    total = np.zeros_like(step)
    for n in range(1, longest + 1):
        inside = n_steps - n + 1
        total[:inside] += step[n - 1 :]
        band[:inside, n - 1] = total[:inside]
        if duration is not None:
            explicit = min(n, duration.shape[1])
            own = duration[start : start + inside] if len(duration) > 1 else duration
            band[:inside, n - 1] += own[:, explicit - 1]
            if n > explicit:
                band[:inside, n - 1] += (n - explicit) * tail
    return band


def _per_step(
    table: np.ndarray, by_node: np.ndarray | None, rows: slice, own: slice, n_steps: int
) -> np.ndarray:
    scores = np.repeat(table[None], n_steps, axis=0)
    if by_node is not None:
        scores += by_node[rows, own][:, None, :]
    return scores


def _zero_shares(cliques: CliqueScores) -> CliqueScores:
    def like(part: Any) -> Any:
        return None if part is None else np.zeros(part.shape)

    names = ("step", "first", "last", "enter", "leave", "initialisation", "ending", "move")
    parts = {name: like(getattr(cliques, name)) for name in names}
    return CliqueScores(
        shape=cliques.shape,
        offsets=cliques.offsets,
        duration=[like(part) for part in cliques.duration],
        tail=[like(part) for part in cliques.tail],
        **parts,
    )


def _add_shares(shares: CliqueScores, found: Any, rows: slice, weight: float) -> None:
    """Add the probabilities of one sequence."""
    shape: HierarchyShape = shares.shape
    for d in range(shape.n_levels):
        shares.step[rows, shape.nodes(d)] += weight * found.state[d]
    for d in range(1, shape.n_levels):
        own = shape.nodes(d)
        pairs, moves = shape.layout.pairs[0] == d - 1, shape.layout.moves[0] == d - 1
        place = shape.layout.pairs[1, pairs], shape.layout.pairs[2, pairs]
        first, move, last = found.initialisation[d - 1], found.transition[d - 1].copy(), found.ending[d - 1]
        move[0] = 0.0
        shares.initialisation[pairs] += weight * first.sum(axis=0)[place]
        shares.ending[pairs] += weight * last.sum(axis=0)[place]
        shares.move[moves] += weight * move.sum(axis=0)[tuple(shape.layout.moves[1:, moves])]
        if shares.first is not None:
            shares.first[rows, own] += weight * first.sum(axis=1)
        if shares.last is not None:
            shares.last[rows, own] += weight * last.sum(axis=1)
        if shares.enter is not None and shares.leave is not None:
            shares.enter[rows, own] += weight * move.sum(axis=(1, 2))
            shares.leave[rows, own][:-1] += weight * move[1:].sum(axis=(1, 3))
        _add_durations(shares, d, found.persistence[d], rows, weight)


def _add_durations(shares: CliqueScores, d: int, segment: np.ndarray, rows: slice, weight: float) -> None:
    duration, tail = shares.duration[d], shares.tail[d]
    if duration is None:
        return
    explicit = min(segment.shape[1], duration.shape[1])
    out = duration[rows] if len(duration) > 1 else duration
    own = segment if len(duration) > 1 else segment.sum(axis=0, keepdims=True)
    out[:, :explicit] += weight * own[:, :explicit]
    beyond = own[:, duration.shape[1] :]
    if tail is not None and beyond.shape[1]:
        out[:, -1] += weight * beyond.sum(axis=1)
        steps = np.arange(1, beyond.shape[1] + 1)
        tail += weight * np.einsum("ins,n->s", beyond, steps)
