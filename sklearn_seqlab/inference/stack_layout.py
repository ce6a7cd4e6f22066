"""The admissible stacks of a hierarchy of states, numbered for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["StackLayout"]


@dataclass(frozen=True, eq=False)
class StackLayout:
    """Prefixes ``(s_0 .. s_q)`` of admissible stacks, level by level, the children of a prefix in a row.

    Attributes
    ----------
    children : list of n_levels - 1 ndarrays of bool
        Entry ``d`` of shape (n_states[d], n_states[d + 1]): which states may stand below which.
    cut : ndarray of shape (n_levels + 1,)
        Prefixes of level ``q`` are ``cut[q]:cut[q + 1]``.
    prefixes : ndarray of shape (4, n_prefixes)
        Parent (itself at the top), first child, end of the children, and where the moves among the children
        begin in the table of moves.
    state : ndarray of shape (n_prefixes,)
        The last state of each prefix.
    pair : ndarray of shape (n_prefixes,)
        Number of (state above, last state) in ``pairs``; -1 at the top.
    pairs : ndarray of shape (3, n_pairs)
        Level of the parent, parent state, child state.
    moves : ndarray of shape (4, n_moves)
        Level of the parent, parent state, child before, child after. Prefixes with the same last state share
        the moves of their children.
    states : ndarray of shape (n_stacks, n_levels)
    """

    children: list[np.ndarray]
    cut: np.ndarray
    prefixes: np.ndarray
    state: np.ndarray
    pair: np.ndarray
    pairs: np.ndarray
    moves: np.ndarray
    states: np.ndarray

    @classmethod
    def of(cls, n_roots: int, children: Sequence[np.ndarray]) -> StackLayout:
        """Number the stacks of ``n_roots`` root states; a state without children has no stack."""
        masks = [np.asarray(mask, dtype=bool) for mask in children]
        pairs = [np.argwhere(mask) for mask in masks]
        moves, first_move, n_moves = [], [], 0
        for d, mask in enumerate(masks):
            first_move.append(np.zeros(len(mask), dtype=np.intp))
            for s, kids_of in enumerate(mask):
                u = np.flatnonzero(kids_of)
                first_move[d][s] = n_moves
                n_moves += len(u) ** 2
                under = np.full((len(u) ** 2, 2), (d, s))
                moves.append(np.column_stack([under, np.repeat(u, len(u)), np.tile(u, len(u))]))
        state, parent, begin, end, block, pair, cut = [], [], [], [], [], [], [0]
        level: list[tuple[int, ...]] = [(s,) for s in range(n_roots)]
        parents = list(range(n_roots))
        first_pair = np.cumsum([0, *(len(p) for p in pairs)])
        for d in range(len(masks) + 1):
            offset = cut[-1] + len(level)
            below: list[tuple[int, ...]] = []
            below_parents: list[int] = []
            for k, stack in enumerate(level):
                s = stack[-1]
                kids = np.flatnonzero(masks[d][s]).tolist() if d < len(masks) else []
                state.append(s)
                parent.append(parents[k])
                begin.append(offset + len(below))
                end.append(offset + len(below) + len(kids))
                block.append(first_move[d][s] if d < len(masks) else 0)
                if d == 0:
                    pair.append(-1)
                else:
                    above = int(stack[d - 1])
                    pair.append(
                        first_pair[d - 1] + int(masks[d - 1][:above].sum() + masks[d - 1][above, :s].sum())
                    )
                below.extend((*stack, u) for u in kids)
                below_parents.extend([cut[-1] + k] * len(kids))
            cut.append(offset)
            if d < len(masks):
                level, parents = below, below_parents
        pair_table = [np.column_stack([np.full(len(p), d), p]) for d, p in enumerate(pairs)]
        return cls(
            children=masks,
            cut=np.array(cut, dtype=np.intp),
            prefixes=np.array([parent, begin, end, block], dtype=np.intp),
            state=np.array(state, dtype=np.intp),
            pair=np.array(pair, dtype=np.intp),
            pairs=np.concatenate([*pair_table, np.empty((0, 3), dtype=np.intp)]).T.astype(np.intp),
            moves=np.concatenate([*moves, np.empty((0, 4), dtype=np.intp)]).T.astype(np.intp),
            states=np.array(level, dtype=np.intp).reshape(-1, len(masks) + 1),
        )

    @property
    def n_levels(self) -> int:
        return len(self.cut) - 1

    @property
    def n_prefixes(self) -> int:
        return int(self.cut[-1])

    @property
    def n_stacks(self) -> int:
        return len(self.states)

    @property
    def n_moves(self) -> int:
        return self.moves.shape[1]

    def level_slice(self, level: int) -> slice:
        """The prefixes of a level."""
        return slice(int(self.cut[level]), int(self.cut[level + 1]))

    def ancestor(self, level: int) -> np.ndarray:
        """Of every stack its prefix of a level, counted from the first of that level; (n_stacks,)."""
        prefix = np.arange(self.cut[-2], self.cut[-1])
        for _ in range(self.n_levels - 1 - level):
            prefix = self.prefixes[0][prefix]
        return prefix - self.cut[level]
