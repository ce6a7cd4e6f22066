"""Stacks of states as the kernels take them: hierarchies with at most one level of explicit durations.

Everything that costs time linear in the length of a sequence goes through here: segment models, nested segment
models, collapsed chains. Sums run in scaled masses with a certificate; a sequence that fails it is redone in
the log domain, so every answer is right to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import _segment_n_best, _stack_best, _stack_log, _stack_scaled
from sklearn_seqlab.inference.stack_layout import StackLayout

__all__ = ["PackedStacks", "StackShares"]

# exp of a larger score is too near the end of the double range for scaled masses
_LARGEST_SAFE_SCORE = 600.0
# and of a smaller one too near zero
_LOWEST_SAFE_SCORE = -690.0
# durations whose scores stay within are left alone by `levelled`; whole numbers up to the other have exact sums
_NEAR_SCORE, _LARGEST_EXACT_SUM = 100.0, 2.0**50


@dataclass(frozen=True, eq=False)
class StackShares:
    """Weighted probabilities in the shapes of the scores of a ``PackedStacks``: what rows share, they sum."""

    step: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    move: np.ndarray
    enter: np.ndarray
    leave: np.ndarray
    first_child: np.ndarray
    last_child: np.ndarray
    duration: np.ndarray
    tail: np.ndarray


_NAMES = tuple(field.name for field in fields(StackShares))


@dataclass(frozen=True, eq=False)
class PackedStacks:
    """Scores of a batch of hierarchies, in nats; trusted.

    A configuration scores the sum of ``step`` over time steps, of ``start`` and ``stop`` for first and last
    children, of ``move`` (with ``enter`` and ``leave``) for siblings that follow each other, and of ``duration``
    for the segments of one level. Minus infinity forbids.

    Attributes
    ----------
    layout : StackLayout
    segment_level : int
        The level whose segments have explicit durations; the last one if none has.
    step : ndarray of shape (n_rows, n_stacks)
        Score of each stack at each step, all levels together.
    start, stop : ndarray of shape (1 or n_rows, n_prefixes)
        That a prefix starts at a row as first child of its parent, or ends with it as last child. The starts of
        root states count at the first row.
    move : ndarray of shape (1 or n_rows, n_moves)
        At the boundary before a row; columns as ``layout.moves``.
    duration : ndarray of shape (1 or n_rows, max_duration, n_leaves)
        Entry ``[i, n - 1]`` scores a segment of ``n`` steps that starts at row ``i``, by prefix of the segment
        level.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    enter, leave : ndarray of shape (0 or n_rows, .)
        Beside ``move``: the prefix is moved into at this row, moved out of after this row. For the prefixes of
        the first few levels, or of all.
    first_child, last_child : ndarray of shape (0 or n_rows, .)
        Beside ``start`` and ``stop``, by row, likewise for the first few levels.
    tail : ndarray of shape (0 or n_leaves,)
        Score of every step beyond ``max_duration``; empty if none may follow.
    persists : bool
        Below the segment level, whether a state of the last level may go on without a boundary.
    movers : ndarray of int8 of shape (2, 0 or n_rows)
        Lowest and highest level that may be the highest to end at the boundary before a row; ``n_levels``
        stands for none.
    first : int
        Number of the first sequence, for messages.
    """

    layout: StackLayout
    segment_level: int
    step: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    move: np.ndarray
    duration: np.ndarray
    offsets: np.ndarray
    enter: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    leave: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    first_child: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    last_child: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    tail: np.ndarray = field(default_factory=lambda: np.empty(0))
    persists: bool = False
    movers: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int8))
    first: int = 0

    def __post_init__(self) -> None:
        # the kernels trust these shapes; a damaged estimator must not make them read elsewhere
        n_rows, n_prefixes = len(self.step), self.layout.n_prefixes
        n_leaves = self.layout.level_slice(self.segment_level)
        wish = {
            "step": ((n_rows, self.layout.n_stacks),),
            "start": ((1, n_prefixes), (n_rows, n_prefixes)),
            "stop": ((1, n_prefixes), (n_rows, n_prefixes)),
            "move": ((1, self.layout.n_moves), (n_rows, self.layout.n_moves)),
            "enter": ((0, 0), *((n_rows, int(cut)) for cut in self.layout.cut)),
            "leave": (self.enter.shape,),
            "first_child": ((0, 0), *((n_rows, int(cut)) for cut in self.layout.cut)),
            "last_child": ((0, 0), *((n_rows, int(cut)) for cut in self.layout.cut)),
            "duration": tuple((k, self.max_duration, n_leaves.stop - n_leaves.start) for k in (1, n_rows)),
            "tail": ((0,), (n_leaves.stop - n_leaves.start,)),
            "movers": ((2, 0), (2, n_rows)),
        }
        for name, shapes in wish.items():
            if getattr(self, name).shape not in shapes:
                raise ValueError(
                    f"{name} scores have shape {getattr(self, name).shape}; expected one of {shapes}."
                )
        if self.offsets[-1] != n_rows:
            raise ValueError(f"offsets end at {self.offsets[-1]}, but there are {n_rows} rows of scores.")

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_levels(self) -> int:
        return self.layout.n_levels

    @property
    def max_duration(self) -> int:
        return self.duration.shape[1]

    def log_partition(self, numerics: str = "auto") -> np.ndarray:
        """Log of the summed masses (n_sequences,), minus infinity where nothing is feasible."""
        if numerics == "log":
            log_z = np.empty(self.n_sequences)
            _stack_log.inside(
                self.offsets, self._everything(), *self._scores(), *self._inside_arrays(), log_z
            )
            return log_z
        # forward masses alone carry no certificate
        return self.forward_backward(numerics=numerics)[0]

    def forward_backward(
        self, weight: np.ndarray | None = None, numerics: str = "auto"
    ) -> tuple[np.ndarray, StackShares, int]:
        """Log-partition, probabilities times the weights of their sequences, and how many were redone.

        Returns
        -------
        log_z : ndarray of shape (n_sequences,)
            Minus infinity for an infeasible sequence, whose probabilities are zero.
        shares : StackShares
        n_redone : int
            Sequences that the scaled masses did not certify, and that ran in the log domain.

        Raises
        ------
        FloatingPointError
            With ``numerics="scaled"``, if a sequence is not certified.
        """
        weight = np.ones(self.n_sequences) if weight is None else weight
        log_z, certified = np.full(self.n_sequences, -np.inf), np.zeros(self.n_sequences, dtype=np.uint8)
        shares = self._zero_shares()
        if numerics != "log" and self._is_moderate():
            self._add_shares(_stack_scaled, self._everything(), weight, log_z, certified, shares)
            if not certified.all():
                # what uncertified sequences have added is wrong: once more without them
                shares = self._zero_shares()
                chosen = np.flatnonzero(certified)
                self._add_shares(_stack_scaled, chosen, weight, log_z, certified, shares)
        redo = np.flatnonzero(certified == 0)
        if len(redo):
            if numerics == "scaled":
                raise FloatingPointError(
                    f"Sequence {self.first + redo[0]} leaves the range of scaled masses."
                )
            self._add_shares(_stack_log, redo, weight, log_z, certified, shares)
        return log_z, shares, len(redo)

    def viterbi(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Best configurations: stacks (n_rows,), highest levels that end (n_rows,), scores (n_sequences,).

        The level is ``n_levels`` where nothing ends. Of equal ones, the segment that starts first.
        """
        arrays = self._inside_arrays()
        best = np.empty(self.n_sequences)
        _stack_best.inside(self.offsets, self._everything(), *self._scores(), *arrays, best)
        self.raise_if_infeasible(best)
        codes, ends = self._trace(_stack_best, arrays, np.zeros(self.n_sequences, dtype=np.uint64))
        return codes, ends, best

    def n_best(self, n: int, distinct: bool = False) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The best segmentations of each sequence, in a layout of one root and one level of segments.

        Parameters
        ----------
        n : int
        distinct : bool, default=False
            Whether to rank labellings, each by its best segmentation, in place of segmentations.

        Returns
        -------
        found : list of n_sequences tuples (labels, ends, scores)
            ``labels`` and ``ends`` (bool) of shape (n_found, n_timesteps), ``scores`` of shape (n_found,), best
            first; fewer than ``n`` where fewer are feasible.

        Raises
        ------
        InfeasibleSequenceError
            If some sequence has no segmentation of finite score.

        Notes
        -----
        Time O(n_rows * n_labels * (max_duration + n_labels) * n), memory O(longest sequence * n_labels * n).
        """
        if self.n_levels != 2 or self.layout.cut[1] != 1:
            raise ValueError("n_best takes one level of segments under one root.")
        found = []
        for s in range(self.n_sequences):
            labels, ends, best = self._n_best_of(s, n, distinct)
            if not -np.inf < best[0] < np.inf:
                infeasible = np.zeros(self.n_sequences)
                infeasible[s] = best[0]
                self.raise_if_infeasible(infeasible)
            n_found = np.count_nonzero(best > -np.inf)
            found.append((labels[:n_found], ends[:n_found].astype(bool), best[:n_found]))
        return found

    def _n_best_of(self, s: int, n: int, distinct: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = slice(int(self.offsets[s]), int(self.offsets[s + 1]))
        n_steps, n_labels = rows.stop - rows.start, self.layout.n_stacks
        # no more than there are segmentations: what a user means by "all" should not fill the memory
        if n_steps * np.log(n_labels + 1) <= 40:
            n = min(n, n_labels * (n_labels + 1) ** (n_steps - 1))

        def own(scores: np.ndarray) -> np.ndarray:
            return scores[rows] if len(scores) == len(self.step) else scores

        def labels_of(scores: np.ndarray) -> np.ndarray:
            """The columns of labels; scores by row may be of the root alone."""
            return (
                np.ascontiguousarray(own(scores)[:, 1:]) if scores.shape[1] > 1 else np.empty((0, n_labels))
            )

        start, stop = own(self.start)[0, 1:] + own(self.start)[0, 0], own(self.stop)[-1, 1:]
        if self.first_child.shape[1] > 1:
            start = start + own(self.first_child)[0, 1:]
        if self.last_child.shape[1] > 1:
            stop = stop + own(self.last_child)[-1, 1:]
        cells = (n_steps, n_labels, n)
        best, labels = np.empty(n), np.empty((n, n_steps), dtype=np.intp)
        ends = np.empty((n, n_steps), dtype=np.uint8)
        _segment_n_best.n_best(
            self.step[rows], start, stop, own(self.move), labels_of(self.enter), labels_of(self.leave),
            own(self.duration), self.tail, np.ascontiguousarray(self.movers[:, rows]), distinct,
            np.empty((n_steps, n_labels)), np.empty((n_steps + 1, n_labels), dtype=np.uint64),
            np.empty(cells), np.empty(cells),
            np.empty(cells, dtype=np.intp), np.empty(cells, dtype=np.intp),
            np.empty(cells, dtype=np.uint64), np.empty(cells, dtype=np.uint64),
            np.empty(cells[1:]), np.empty(cells[1:], dtype=np.intp), np.empty(cells[1:], dtype=np.uint64),
            best, np.empty(n, dtype=np.intp), np.empty(n, dtype=np.uint64), labels, ends,
        )  # fmt: skip
        return labels, ends, best

    def sample(self, n_samples: int, random_state: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """``n_samples`` times (stacks, highest levels that end), as :meth:`viterbi` gives them."""
        random = check_random_state(random_state)
        arrays, log_z = self._inside_arrays(), np.empty(self.n_sequences)
        _stack_log.inside(self.offsets, self._everything(), *self._scores(), *arrays, log_z)
        self.raise_if_infeasible(log_z)
        draws = []
        for _ in range(n_samples):
            seeds = random.randint(np.iinfo(np.int64).max, size=self.n_sequences, dtype=np.int64)
            draws.append(self._trace(_stack_log, arrays, seeds.astype(np.uint64)))
        return draws

    def score_of(self, codes: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Score (n_sequences,) of one configuration of each sequence, given as :meth:`viterbi` gives it."""
        allowed = np.zeros(self.step.shape, dtype=bool)
        allowed[np.arange(len(codes)), codes] = True
        movers = np.zeros((2, len(codes)), dtype=np.int8)
        movers[:, 1:] = ends[:-1]
        one = replace(self, step=np.where(allowed, self.step, -np.inf), movers=movers)
        return one.log_partition("log")

    def narrowed(self, allowed: np.ndarray | None, ends: np.ndarray | None) -> PackedStacks:
        """The same with some stacks forbidden and some boundaries known.

        Parameters
        ----------
        allowed : ndarray of bool of shape (n_rows, n_stacks), or None
        ends : ndarray of int8 of shape (n_levels, n_rows), or None
            1 where a segment of a level ends with a step, 0 where none does, -1 where unknown; the last steps
            of sequences are not looked at.
        """
        step = self.step if allowed is None else np.where(allowed, self.step, -np.inf)
        movers = self.movers
        if ends is not None:
            levels = np.arange(self.n_levels, dtype=np.int8)[:, None]
            movers = np.empty((2, len(step)), dtype=np.int8)
            movers[0, 1:] = np.where(ends == 0, levels + 1, 1).max(axis=0)[:-1]
            movers[1, 1:] = np.where(ends == 1, levels, self.n_levels).min(axis=0)[:-1]
            movers[:, self.offsets[:-1]] = [[1], [self.n_levels]]
            if self.movers.shape[1]:
                np.maximum(movers[0], self.movers[0], out=movers[0])
                np.minimum(movers[1], self.movers[1], out=movers[1])
        return replace(self, step=step, movers=movers)

    def levelled(self) -> PackedStacks:
        """The same sums and probabilities, with scores of durations that scaled masses can hold.

        Durations with scores of their own at every row may carry what belongs to steps, and then drift away with
        their length. Here every step takes the gain of the best beginnings that end around it, so that segments
        of good segmentations are left with scores near zero. Gains are whole nats: adding them is exact.
        """
        finite = self.duration[self.duration > -np.inf]
        if len(self.duration) < len(self.step) or np.abs(finite).max(initial=0.0) <= _NEAR_SCORE:
            return self
        best = self._best_ended(np.arange(self.n_sequences)).max(axis=1)
        if np.abs(best[np.isfinite(best)]).max(initial=0.0) > _LARGEST_EXACT_SUM:
            return self
        reached = np.zeros(len(best) + self.n_sequences)  # at every boundary of every sequence
        place = np.arange(len(best)) + np.repeat(np.arange(1, self.n_sequences + 1), np.diff(self.offsets))
        for s in range(self.n_sequences):
            rows = slice(self.offsets[s], self.offsets[s + 1])
            known = np.flatnonzero(np.isfinite(best[rows]))
            boundaries = np.arange(1, rows.stop - rows.start + 1)
            reached[place[rows]] = np.interp(
                boundaries, np.append(0, known + 1), np.append(0.0, best[rows][known])
            )
        reached = np.rint(reached)
        last = np.repeat(place[self.offsets[1:] - 1], np.diff(self.offsets))
        stop = np.minimum(place[:, None] + np.arange(self.max_duration), last[:, None])
        drift = reached[stop] - reached[place - 1][:, None]
        step = self.step + (reached[place] - reached[place - 1])[:, None]
        return replace(self, step=step, duration=self.duration - drift[:, :, None])

    def raise_if_too_large(self, sums: np.ndarray) -> None:
        """Raise for the first sequence whose sum of scores (n_sequences,) left the double range."""
        if not (sums < np.inf).all():
            s = self.first + int(np.argmin(sums < np.inf))
            raise ValueError(f"The scores of sequence {s} sum to more than double precision holds.")

    def raise_if_infeasible(self, best: np.ndarray) -> None:
        """Raise for the first sequence whose best score or log-partition (n_sequences,) is minus infinity."""
        self.raise_if_too_large(best)
        if (best == -np.inf).any():
            s = int(np.argmax(best == -np.inf))
            raise InfeasibleSequenceError(
                f"Sequence {self.first + s} has no feasible segmentation: none that is allowed covers time step "
                f"{self.first_unexplained(s)}."
            )

    def first_unexplained(self, s: int) -> int:
        """The first time step of sequence ``s`` that no feasible beginning of a configuration covers."""
        start, stop = self.offsets[s], self.offsets[s + 1]
        reached = np.flatnonzero((self._best_ended(np.array([s]))[start:stop] > -np.inf).any(axis=1))
        return min(int(reached[-1]) + 1 if len(reached) else 0, int(stop - start) - 1)

    def _best_ended(self, chosen: np.ndarray) -> np.ndarray:
        """Score (n_rows, n_leaves) of the best beginnings whose last segment ends with a row."""
        arrays = self._inside_arrays()
        _stack_best.inside(self.offsets, chosen, *self._scores(), *arrays, np.empty(self.n_sequences))
        return arrays[2][:, self.layout.level_slice(self.segment_level)]

    def _is_moderate(self) -> bool:
        """Whether no factor leaves the double range; those of durations may fall below it, see ``_duration_up``."""
        for name in _NAMES[1:]:
            scores = getattr(self, name)
            if scores.max(initial=0.0) > _LARGEST_SAFE_SCORE:
                return False
            if name != "duration" and ((scores < _LOWEST_SAFE_SCORE) & (scores > -np.inf)).any():
                return False
        return True

    def _duration_up(self, lifted: np.ndarray, scaled: bool) -> np.ndarray:
        """Lifted durations for the outside pass of scaled masses: what is not forbidden is not nothing."""
        if not scaled:
            return lifted
        lost = (self.duration < _LOWEST_SAFE_SCORE) & (self.duration > -np.inf)
        lowest = np.exp(_LOWEST_SAFE_SCORE)
        return np.where(lost, lowest, lifted) if lost.any() else lifted

    def _add_shares(
        self,
        kernel: Any,
        chosen: np.ndarray,
        weight: np.ndarray,
        log_z: np.ndarray,
        certified: np.ndarray,
        shares: StackShares,
    ) -> None:
        lift = np.exp if kernel is _stack_scaled else None
        scores = self._scores(lift)
        longest = int(np.diff(self.offsets).max())
        n_stacks, n_prefixes = self.layout.n_stacks, self.layout.n_prefixes
        n_leaves = self.duration.shape[2]
        kernel.inside_outside(
            self.offsets, chosen, weight, *scores, *self._inside_arrays(),
            self._duration_up(scores[13], lift is not None),
            np.empty((longest + 1, n_leaves)),
            np.empty((longest + 1 if len(self.tail) else 1, n_stacks)),
            np.empty((self.max_duration, n_prefixes)),
            np.empty((self.max_duration, n_prefixes)),
            np.empty(self.layout.n_moves if len(self.move) == 1 else 0),
            np.empty((2, longest + 1)),
            log_z, certified,
            *(getattr(shares, name) for name in _NAMES),
        )  # fmt: skip

    def _trace(
        self, kernel: Any, arrays: list[np.ndarray], seeds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        longest = int(np.diff(self.offsets).max())
        n_prefixes = self.layout.n_prefixes
        codes, ends = np.empty(len(self.step), dtype=np.intp), np.empty(len(self.step), dtype=np.int8)
        kernel.trace_back(
            self.offsets, *self._scores(), *arrays, np.empty(longest + n_prefixes + 1 + self.layout.n_moves),
            np.empty((longest, n_prefixes)), seeds, codes, ends,
        )  # fmt: skip
        return codes, ends

    def _everything(self) -> np.ndarray:
        return np.arange(self.n_sequences)

    def _scores(self, lift: Any = None) -> list[Any]:
        """The arguments of the kernels that say what is scored; all but ``step`` lifted."""
        layout = self.layout
        parts = [getattr(self, name) for name in _NAMES[1:]]
        if lift is not None:
            parts = [lift(part) for part in parts]
        leaf = layout.ancestor(self.segment_level)
        return [
            layout.prefixes, layout.cut, leaf, self.segment_level, self.persists, self.step, *parts, self.movers,
        ]  # fmt: skip

    def _inside_arrays(self) -> list[np.ndarray]:
        """What the inside pass fills and works in."""
        n_rows, n_stacks, n_prefixes = len(self.step), self.layout.n_stacks, self.layout.n_prefixes
        n_upper = int(self.layout.cut[self.segment_level + 1])
        return [
            np.empty((n_rows, n_stacks)),
            np.empty((n_rows, n_upper)),
            np.empty((n_rows, n_upper)),
            np.empty((n_rows if len(self.tail) else 0, n_stacks)),
            np.empty((self.max_duration, n_prefixes)),
            np.empty(self.max_duration, dtype=np.intp),
            np.empty((10, n_prefixes)),
        ]

    def _zero_shares(self) -> StackShares:
        return StackShares(*(np.zeros(getattr(self, name).shape) for name in _NAMES))
