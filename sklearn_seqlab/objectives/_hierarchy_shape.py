"""What a hierarchical or segment model scores: its levels, and where each coefficient stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sklearn_seqlab.inference.stack_layout import StackLayout

__all__ = ["HierarchyShape", "Level", "Tables"]

# Columns of the feature weights, by where their product with the input row counts.
SEGMENT_KINDS = ("sum", "mean", "any")
DURATIONS = ("none", "geometric", "gamma", "table")
EDGE_KINDS = ("start", "end", "initialisation", "transition", "ending")


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy.

    Attributes
    ----------
    n_states : int
    is_step : bool
        Every segment is one step long: the last level of a hierarchy that does not persist.
    duration : {"none", "geometric", "gamma", "table"}
    max_duration : int or None
        Longest explicit duration in time steps; None for as long as the sequence.
    has_tail : bool
        Whether segments may be longer than ``max_duration``, at a constant score per further step.
    segment_features : tuple of {"sum", "mean", "any"}
    edge_features : tuple of {"start", "end", "initialisation", "transition", "ending"}
    """

    n_states: int
    is_step: bool = False
    duration: str = "none"
    max_duration: int | None = None
    has_tail: bool = False
    segment_features: tuple[str, ...] = ("sum",)
    edge_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no level: a damaged file must not pass for another model."""
        longest, features = self.max_duration, (self.segment_features, self.edge_features)
        is_sound = (
            _is_size(self.n_states)
            and all(isinstance(flag, bool | np.bool_) for flag in (self.is_step, self.has_tail))
            and self.duration in DURATIONS
            and (longest is None or _is_size(longest))
            and not (self.has_tail and longest is None)
            and not (self.is_step and longest is not None)
            and all(
                set(own) <= set(kinds)
                for own, kinds in zip(features, (SEGMENT_KINDS, EDGE_KINDS), strict=True)
            )
        )
        if not is_sound:
            raise ValueError(f"{self} is no level of a model of segments.")

    @property
    def is_explicit(self) -> bool:
        """Whether a segment's score is more than a sum over its steps, so that its length must be known."""
        if self.is_step:
            return False
        return (
            self.duration in ("gamma", "table")
            or bool({"mean", "any"} & set(self.segment_features))
            or (self.max_duration is not None and not self.has_tail)
        )

    def durations_up_to(self, longest: int) -> int:
        """How many durations are explicit in sequences of ``longest`` steps."""
        return longest if self.max_duration is None else min(self.max_duration, longest)


class Tables(NamedTuple):
    """Coefficients that are no feature weights.

    Attributes
    ----------
    bias : ndarray of shape (n_nodes,)
        Score of every step in a state; zero where a level has none ("none"). Not penalised, as intercepts are not.
    segment : ndarray of shape (n_nodes,)
        Score of every segment of a state, likewise: the constant of a density of durations.
    durations : list of n_levels arrays of shape (n_states, .) or None
        Beside the bias. "gamma": the weight of ``log(n)``; "table": the scores of 1 to ``max_duration`` steps,
        then that of every further step.
    initialisation, ending : ndarray of shape (n_pairs,)
    move : ndarray of shape (n_moves,)
        Minus infinity where forbidden.
    """

    bias: np.ndarray
    segment: np.ndarray
    durations: list[np.ndarray | None]
    initialisation: np.ndarray
    ending: np.ndarray
    move: np.ndarray


class Part(NamedTuple):
    """A run of coefficients or of columns: what it is, of which level, where."""

    kind: str
    level: int
    place: slice


@dataclass(frozen=True, eq=False)
class HierarchyShape:
    """Levels, admissible children and transitions; the layout of all coefficients follows.

    Attributes
    ----------
    levels : tuple of Level
        From the root down.
    children : list of n_levels - 1 bool ndarrays of shape (n_states[d], n_states[d + 1])
    transitions : list of n_levels - 1 bool ndarrays of shape (n_states[d], n_states[d + 1], n_states[d + 1])
        Under which parent a child may follow which sibling.
    persists : bool
        Whether segments of the last level may be longer than a step.
    has_root : bool
        Whether the root is a label of the whole sequence; else it is a dummy.
    """

    levels: tuple[Level, ...]
    children: list[np.ndarray]
    transitions: list[np.ndarray]
    persists: bool = False
    has_root: bool = False

    def __post_init__(self) -> None:
        """Refuse masks that do not fit the levels: a damaged file must not pass for another model."""
        n_levels, sizes = len(self.levels), [level.n_states for level in self.levels]
        if n_levels < 2 or (not self.has_root and sizes[0] != 1):
            raise ValueError(f"Levels of {sizes} states are no hierarchy below a root.")
        if [level.is_step for level in self.levels] != [False] * (n_levels - 1) + [not self.persists]:
            raise ValueError(
                "Only the last level has segments of one step each, and unless it persists all are so."
            )
        for name, masks, shapes in (
            ("children", self.children, [(n, m) for n, m in pairwise(sizes)]),
            ("transitions", self.transitions, [(n, m, m) for n, m in pairwise(sizes)]),
        ):
            found = [(np.shape(mask), np.asarray(mask).dtype) for mask in masks]
            if found != [(shape, np.dtype(bool)) for shape in shapes]:
                raise ValueError(f"The masks of {name} are {found}; expected bool of shapes {shapes}.")

    @property
    def n_levels(self) -> int:
        return len(self.levels)

    @cached_property
    def layout(self) -> StackLayout:
        return StackLayout.of(self.levels[0].n_states, self.children)

    @cached_property
    def first_node(self) -> np.ndarray:
        """States of all levels are numbered one after the other: the nodes; (n_levels + 1,)."""
        return np.cumsum([0, *(level.n_states for level in self.levels)])

    @property
    def n_nodes(self) -> int:
        return int(self.first_node[-1])

    def nodes(self, level: int) -> slice:
        return slice(int(self.first_node[level]), int(self.first_node[level + 1]))

    @cached_property
    def explicit_levels(self) -> list[int]:
        return [d for d, level in enumerate(self.levels) if level.is_explicit]

    @property
    def segment_level(self) -> int:
        """The level whose segments the stack engine scores by their length; the last if none needs it."""
        return self.explicit_levels[0] if self.explicit_levels else self.n_levels - 1

    @cached_property
    def allowed_moves(self) -> np.ndarray:
        """Bool (n_moves,): which columns of the layout's moves are allowed."""
        masks = [self.transitions[d][s, u, v] for d, s, u, v in self.layout.moves.T]
        return np.array(masks, dtype=bool)

    @cached_property
    def columns(self) -> list[Part]:
        """Columns of the feature weights."""
        parts, n = [], 0
        for d, level in enumerate(self.levels):
            if d == 0 and not self.has_root:
                continue
            kinds = [kind for kind in SEGMENT_KINDS if kind in level.segment_features]
            kinds += [kind for kind in EDGE_KINDS if d > 0 and kind in level.edge_features]
            for kind in kinds:
                parts.append(Part(kind, d, slice(n, n + level.n_states)))
                n += level.n_states
        return parts

    @property
    def n_columns(self) -> int:
        return self.columns[-1].place.stop if self.columns else 0

    def columns_of(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Columns of a kind and the nodes that they belong to."""
        parts = [part for part in self.columns if part.kind == kind]
        empty = [np.empty(0, dtype=np.intp)]
        columns = [np.arange(part.place.start, part.place.stop) for part in parts]
        nodes = [np.arange(self.first_node[part.level], self.first_node[part.level + 1]) for part in parts]
        return np.concatenate(empty + columns), np.concatenate(empty + nodes)

    def last_edge_level(self, clique: str) -> int:
        """The lowest level with inputs at a clique: "first", "last", or "enter" and "leave" together."""
        kinds = {"first": {"start", "initialisation"}, "last": {"end", "ending"}}
        wanted = kinds.get(clique, {"start", "end", "transition"})
        return max((part.level for part in self.columns if part.kind in wanted), default=0)

    @cached_property
    def table_parts(self) -> list[Part]:
        """Runs of the coefficients that are no feature weights, in order."""
        sizes: list[tuple[str, int, int]] = []
        for d, level in enumerate(self.levels):
            if d == 0:
                continue
            if level.duration != "none":
                sizes.append(("bias", d, level.n_states))
                if not level.is_step:
                    sizes.append(("segment", d, level.n_states))
            if level.duration == "gamma" and not level.is_step:
                sizes.append(("gamma", d, level.n_states))
            elif level.duration == "table" and not level.is_step:
                assert level.max_duration is not None
                sizes.append(("table", d, (level.max_duration + level.has_tail) * level.n_states))
        pairs = self.layout.pairs
        for d in range(self.n_levels - 1):
            sizes.append(("initialisation", d + 1, int((pairs[0] == d).sum())))
            sizes.append(("transition", d + 1, int((self.layout.moves[0] == d)[self.allowed_moves].sum())))
            sizes.append(("ending", d + 1, int((pairs[0] == d).sum())))
        parts, n = [], 0
        for kind, level_number, size in sizes:
            parts.append(Part(kind, level_number, slice(n, n + size)))
            n += size
        return parts

    @property
    def n_table(self) -> int:
        return self.table_parts[-1].place.stop

    def read_tables(self, vector: np.ndarray) -> Tables:
        """The tables of a run of ``n_table`` coefficients."""
        bias, segment = np.zeros((2, self.n_nodes))
        durations: list[np.ndarray | None] = [None] * self.n_levels
        initialisation, ending = np.empty(self.layout.pairs.shape[1]), np.empty(self.layout.pairs.shape[1])
        move = np.full(self.layout.n_moves, -np.inf)
        for kind, level, place in self.table_parts:
            values = vector[place]
            if kind in ("bias", "segment"):
                (bias if kind == "bias" else segment)[self.nodes(level)] = values
            elif kind in ("gamma", "table"):
                durations[level] = values.reshape(self.levels[level].n_states, -1)
            elif kind == "transition":
                move[self._moves(level)] = values
            else:
                (initialisation if kind == "initialisation" else ending)[self._pairs(level)] = values
        return Tables(bias, segment, durations, initialisation, ending, move)

    def write_tables(self, tables: Tables) -> np.ndarray:
        """The inverse of ``read_tables``; also adds gradients by table up to one of coefficients."""
        vector = np.empty(self.n_table)
        for kind, level, place in self.table_parts:
            if kind in ("bias", "segment"):
                vector[place] = (tables.bias if kind == "bias" else tables.segment)[self.nodes(level)]
            elif kind in ("gamma", "table"):
                vector[place] = tables.durations[level].ravel()  # type: ignore[union-attr]
            elif kind == "transition":
                vector[place] = tables.move[self._moves(level)]
            else:
                source = tables.initialisation if kind == "initialisation" else tables.ending
                vector[place] = source[self._pairs(level)]
        return vector

    def blocks(self, node: np.ndarray, tables: Tables) -> dict[str, Any]:
        """Coefficients as users see them.

        Parameters
        ----------
        node : ndarray of shape (n_columns, n_features)
        tables : Tables

        Returns
        -------
        blocks : dict
            By name a list with an array (or None) per level below a dummy root: "unary", "mean", "any" and
            "edge_..." of shape (n_states, n_features); "bias" and "segment_bias" (n_states,); "duration" (n_states, .);
            "initialisation", "ending" (n_states above, n_states); "transition" (n_states above, n_states,
            n_states), minus infinity where forbidden. The top level has no parent: its last three are None
            for a true root, and have one row for a dummy one.
        """
        top = self.top_level
        blocks: dict[str, Any] = {}
        for part in self.columns:
            name = block_name(part.kind)
            blocks.setdefault(name, [None] * (self.n_levels - top))[part.level - top] = node[part.place]
        for d, level in enumerate(self.levels):
            parts = {"duration": tables.durations[d]}
            if level.duration != "none" and d > 0:
                parts["bias"] = tables.bias[self.nodes(d)]
                parts["segment_bias"] = None if level.is_step else tables.segment[self.nodes(d)]
            for name, values in parts.items():
                if values is not None:
                    blocks.setdefault(name, [None] * (self.n_levels - top))[d - top] = values
        for d in range(1, self.n_levels):
            above, own = self.levels[d - 1].n_states, self.levels[d].n_states
            pairs, moves = self._pairs(d), self.layout.moves[0] == d - 1
            for name, scores in (("initialisation", tables.initialisation), ("ending", tables.ending)):
                table = np.full((above, own), -np.inf)
                table[self.layout.pairs[1, pairs], self.layout.pairs[2, pairs]] = scores[pairs]
                blocks.setdefault(name, [None] * (self.n_levels - top))[d - top] = table
            table = np.full((above, own, own), -np.inf)
            table[tuple(self.layout.moves[1:, moves])] = tables.move[moves]
            blocks.setdefault("transition", [None] * (self.n_levels - top))[d - top] = table
        return blocks

    def unblock(self, blocks: dict[str, Any], n_features: int) -> tuple[np.ndarray, Tables]:
        """The inverse of ``blocks``.

        Raises
        ------
        ValueError
            If a block is missing or has another shape, as in a damaged file.
        """
        top = self.top_level
        kinds = [block_name(part.kind) for part in self.columns]
        table_blocks = {"gamma": "duration", "table": "duration", "segment": "segment_bias"}
        kinds += [table_blocks.get(part.kind, part.kind) for part in self.table_parts]
        if strange := sorted(set(blocks) - set(kinds)):
            raise ValueError(f"coef_ has a block {strange[0]!r}, which the model has no use for.")
        node = np.empty((self.n_columns, n_features))
        for part in self.columns:
            shape = (self.levels[part.level].n_states, n_features)
            node[part.place] = _block(blocks, block_name(part.kind), part.level - top, shape)
        bias, segment = np.zeros((2, self.n_nodes))
        durations: list[np.ndarray | None] = [None] * self.n_levels
        initialisation, ending = np.empty(self.layout.pairs.shape[1]), np.empty(self.layout.pairs.shape[1])
        move = np.empty(self.layout.n_moves)
        for kind, d, place in self.table_parts:
            own, above = self.levels[d].n_states, self.levels[d - 1].n_states
            if kind == "bias":
                bias[self.nodes(d)] = _block(blocks, "bias", d - top, (own,))
            elif kind == "segment":
                segment[self.nodes(d)] = _block(blocks, "segment_bias", d - top, (own,))
            elif kind in ("gamma", "table"):
                durations[d] = _block(blocks, "duration", d - top, (own, (place.stop - place.start) // own))
            elif kind == "transition":
                moves = self.layout.moves[0] == d - 1
                table = _block(blocks, kind, d - top, (above, own, own))
                move[moves] = table[tuple(self.layout.moves[1:, moves])]
            else:
                pairs = self._pairs(d)
                values = initialisation if kind == "initialisation" else ending
                table = _block(blocks, kind, d - top, (above, own))
                values[pairs] = table[self.layout.pairs[1, pairs], self.layout.pairs[2, pairs]]
        move[~self.allowed_moves] = -np.inf
        return node, Tables(bias, segment, durations, initialisation, ending, move)

    @property
    def top_level(self) -> int:
        """The first level that carries labels: 1 under a dummy root."""
        return 0 if self.has_root else 1

    def labelled(self) -> Iterator[tuple[int, Level]]:
        """Levels that carry labels."""
        yield from list(enumerate(self.levels))[self.top_level :]

    @cached_property
    def pair_child(self) -> np.ndarray:
        """Node of the child of each pair, (n_pairs,)."""
        return self.first_node[self.layout.pairs[0] + 1] + self.layout.pairs[2]

    @cached_property
    def move_child(self) -> np.ndarray:
        """Node of the child that each move enters, (n_moves,)."""
        return self.first_node[self.layout.moves[0] + 1] + self.layout.moves[3]

    def _pairs(self, level: int) -> np.ndarray:
        return np.flatnonzero(self.layout.pairs[0] == level - 1)

    def _moves(self, level: int) -> np.ndarray:
        return np.flatnonzero((self.layout.moves[0] == level - 1) & self.allowed_moves)


def _is_size(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def block_name(kind: str) -> str:
    """The name of a block of feature weights, by the kind of its columns."""
    return {"sum": "unary"}.get(kind, kind if kind in SEGMENT_KINDS else f"edge_{kind}")


def _block(blocks: dict[str, Any], name: str, level: int, shape: tuple[int, ...]) -> np.ndarray:
    try:
        block = np.asarray(blocks[name][level], dtype=np.float64)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"coef_ has no block {name!r} of level {level}.") from error
    if block.shape != shape:
        raise ValueError(f"coef_[{name!r}][{level}] has shape {block.shape}; expected {shape}.")
    return block
