"""The lattice of conjunctions over the rows that occur.

A conjunction that holds in no row of the training data has no weight and no gradient, so the subsets of distinct
rows are all there is, and sums over everything above or below a node run over them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy import sparse

from sklearn_seqlab.hkl._lattice_kernels import sum_over_subsets, sum_over_supersets

__all__ = ["Lattice", "Nodes", "distinct_rows"]

_WORD = 64


def distinct_rows(truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of a bool matrix, and which of them each row is."""
    if not truth.shape[1]:
        return truth[:1], np.zeros(len(truth), dtype=np.intp)
    _, inverse = _keys(_pack_bits(truth))
    _, first = np.unique(inverse, return_index=True)
    return truth[first], inverse.astype(np.intp)


class Nodes:
    """Conjunctions, of which every part is among them too.

    Parameters
    ----------
    words : ndarray of shape (n_nodes, n_words), dtype=uint64
        Atoms of each conjunction as bits.
    holds : csr_array of shape (n_nodes, n_rows)
        Ones where a conjunction holds.
    needed : ndarray of shape (n_atoms,)
        See :func:`chains_of`.

    Attributes
    ----------
    size : ndarray of shape (n_nodes,)
    lower, upper : ndarray of shape (n_steps,)
        All pairs of a node and the same node with one atom more.
    """

    def __init__(self, words: np.ndarray, holds: sparse.csr_array, needed: np.ndarray):
        self.words, self.holds, self.needed = words, holds, needed
        self.member = _unpack_bits(words, len(needed))
        self.size = self.member.sum(axis=1)
        self.lower, self.upper = self._steps()

    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        index = _Index(self.words)
        lower, upper = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
        follower = np.full(len(self.needed), -1)
        follower[self.needed[self.needed >= 0]] = np.flatnonzero(self.needed >= 0)
        for atom in range(len(self.needed) - 1, -1, -1):
            has = self.member[:, atom]
            if follower[atom] >= 0:
                has = has & ~self.member[:, follower[atom]]
            nodes = np.flatnonzero(has)
            if len(nodes):
                words = self.words[nodes].copy()
                words[:, atom // _WORD] ^= np.uint64(1) << np.uint64(atom % _WORD)
                upper.append(nodes)
                lower.append(index.find(words))
        return np.concatenate(lower), np.concatenate(upper)

    @property
    def n_nodes(self) -> int:
        return len(self.words)

    @cached_property
    def n_parents(self) -> np.ndarray:
        return np.bincount(self.upper, minlength=self.n_nodes)

    def sum_above(self, values: np.ndarray) -> np.ndarray:
        """Sums over all conjunctions that contain each node, of ``values`` (n_nodes, n_columns), in place."""
        sum_over_supersets(self.lower, self.upper, values)
        return values

    def sum_below(self, values: np.ndarray) -> np.ndarray:
        """Sums over all parts of each node, in place."""
        sum_over_subsets(self.lower, self.upper, values)
        return values

    def take(self, nodes: np.ndarray) -> Nodes:
        """Some nodes, with all their parts among them."""
        return Nodes(self.words[nodes], self.holds[nodes], self.needed)

    def find(self, other: Nodes) -> np.ndarray:
        """Where the nodes of ``other`` stand among these; -1 for those that do not."""
        return _Index(self.words).find(other.words)

    def conjunctions(self) -> list[tuple[int, ...]]:
        """Atoms of each node as a sorted tuple."""
        return [tuple(np.flatnonzero(row).tolist()) for row in self.member]


class Lattice:
    """All conjunctions that hold in some row; enumerated if they are few enough.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_atoms), dtype=bool
        Distinct rows.
    needed : ndarray of shape (n_atoms,)
        The atom without which each atom cannot hold, or -1.
    max_order : int or None
        Largest number of atoms of a conjunction.
    max_enumerate : int
        Enumerate if the conjunctions of all rows, counted row by row, are no more.

    Attributes
    ----------
    nodes : Nodes or None
        All of them, if enumerated.
    """

    def __init__(self, rows: np.ndarray, needed: np.ndarray, max_order: int | None, max_enumerate: int):
        self.rows, self.needed = rows, needed
        self.max_order = len(needed) if max_order is None else min(max_order, len(needed))
        self.row_words = _pack_bits(rows)
        self.n_pairs = sum(self._count(row) for row in rows)
        self.nodes = self._enumerated() if self.n_pairs <= max_enumerate else None

    def _count(self, row: np.ndarray) -> int:
        """How many conjunctions hold in a row: choices of one length for each chain."""
        lengths: dict[int, int] = {}
        for atom in np.flatnonzero(row).tolist():
            start = atom
            while self.needed[start] >= 0:
                start = int(self.needed[start])
            lengths[start] = lengths.get(start, 0) + 1
        if self.max_order >= sum(lengths.values()):
            return int(np.prod([length + 1 for length in lengths.values()], dtype=object)) if lengths else 1
        ways = [1] + [0] * self.max_order  # by size
        for length in lengths.values():
            ways = [sum(ways[max(0, k - length) : k + 1]) for k in range(len(ways))]
        return sum(ways)

    def _enumerated(self) -> Nodes:
        parts, of_row = [], []
        for r, row in enumerate(self.rows):
            found = self._subsets(np.flatnonzero(row).tolist())
            parts.append(found)
            of_row.append(np.full(len(found), r))
        words = np.concatenate(parts)
        distinct, inverse = _keys(words)
        size = _unpack_bits(distinct, len(self.needed)).sum(axis=1)
        order = np.argsort(size, kind="stable")
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        pairs = place[inverse], np.concatenate(of_row)
        shape = (len(distinct), len(self.rows))
        holds = sparse.csr_array((np.ones(len(words)), pairs), shape=shape)
        return Nodes(distinct[order], holds, self.needed)

    def _subsets(self, atoms: Sequence[int]) -> np.ndarray:
        n_words = self.row_words.shape[1]
        found, size = np.zeros((1, n_words), dtype=np.uint64), np.zeros(1, dtype=np.intp)
        one = np.uint64(1)
        for atom in atoms:
            chosen = size < self.max_order
            needed = int(self.needed[atom])
            if needed >= 0:
                chosen &= (found[:, needed // _WORD] >> np.uint64(needed % _WORD) & one) == one
            more = found[chosen]
            more[:, atom // _WORD] |= one << np.uint64(atom % _WORD)
            found, size = np.concatenate([found, more]), np.concatenate([size, size[chosen] + 1])
        return found

    def smallest(self) -> Nodes:
        """The empty conjunction and all single atoms that hold somewhere and need no other."""
        seen = np.flatnonzero(self.rows.any(axis=0) & (self.needed < 0))
        member = np.zeros((1 + len(seen), len(self.needed)), dtype=bool)
        member[1 + np.arange(len(seen)), seen] = True
        if self.max_order < 1:
            member = member[:1]
        return self.of(member)

    def of(self, member: np.ndarray) -> Nodes:
        """Nodes from their atoms, bool of shape (n_nodes, n_atoms)."""
        return Nodes(_pack_bits(member), self.holds(member), self.needed)

    def holds(self, member: np.ndarray) -> sparse.csr_array:
        """Which conjunctions hold in which rows, (n_nodes, n_rows)."""
        return sparse.csr_array(truth_of(self.rows, member).T.astype(np.float64))

    def children(self, nodes: Nodes) -> np.ndarray:
        """Atoms (n_children, n_atoms) of the conjunctions one atom larger, each once, that hold somewhere."""
        grown = []
        for atom in range(len(self.needed)):
            chosen = ~nodes.member[:, atom] & (nodes.size < self.max_order)
            if self.needed[atom] >= 0:
                chosen &= nodes.member[:, self.needed[atom]]
            more = nodes.member[chosen]
            more[:, atom] = True
            grown.append(more)
        member = np.unique(np.concatenate(grown), axis=0)
        known = _Index(nodes.words).find(_pack_bits(member)) >= 0
        member = member[~known]
        return member[truth_of(self.rows, member).any(axis=0)]


def truth_of(rows: np.ndarray, member: np.ndarray) -> np.ndarray:
    """Whether each conjunction (n_nodes, n_atoms) holds in each row; bool of shape (n_rows, n_nodes)."""
    missing = (~rows).astype(np.float32) @ member.astype(np.float32).T
    return missing == 0


class _Index:
    """Finds rows of words."""

    def __init__(self, words: np.ndarray):
        self.values = [np.unique(column) for column in words.T]
        keys = self._keys(words)
        self.order = np.argsort(keys, kind="stable")
        self.sorted = keys[self.order]

    def _keys(self, words: np.ndarray) -> np.ndarray:
        """One number per row, as an object where 64 bits do not hold it; -1 where a word is new."""
        size = np.prod([len(values) for values in self.values], dtype=object) if self.values else 1
        keys = np.zeros(len(words), dtype=np.int64 if size < 2**62 else object)
        known = np.ones(len(words), dtype=bool)
        for values, column in zip(self.values, words.T, strict=True):
            at = np.minimum(np.searchsorted(values, column), len(values) - 1)
            known &= values[at] == column
            keys = keys * len(values) + at
        keys[~known] = -1
        return keys

    def find(self, words: np.ndarray) -> np.ndarray:
        keys = self._keys(words)
        at = np.minimum(np.searchsorted(self.sorted, keys), len(self.sorted) - 1)
        return np.where(self.sorted[at] == keys, self.order[at], -1)


def _keys(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of words, and which of them each row is."""
    index = _Index(words)
    _, first, inverse = np.unique(index._keys(words), return_index=True, return_inverse=True)
    return words[first], inverse.ravel()


def _pack_bits(bits: np.ndarray) -> np.ndarray:
    n_rows, n_bits = bits.shape
    padded = np.zeros((n_rows, max(1, -(-n_bits // _WORD)) * _WORD), dtype=bool)
    padded[:, :n_bits] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def _unpack_bits(words: np.ndarray, n_bits: int) -> np.ndarray:
    as_bytes = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, bitorder="little")[:, :n_bits].astype(bool)
