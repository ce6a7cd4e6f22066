"""What labels and ends say of the configurations of a hierarchy, in the terms of the engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.objectives._hierarchy_shape import HierarchyShape
from sklearn_seqlab.sequences import LevelCodes

__all__ = ["KnownConfiguration", "check_known", "narrow_by"]

Narrow = Callable[[int, int], tuple[np.ndarray | None, np.ndarray | None]]


@dataclass(frozen=True, eq=False)
class KnownConfiguration:
    """What is known of states and boundaries, by row.

    Attributes
    ----------
    narrow : callable
        ``narrow(start, stop)`` gives for a run of rows what is allowed, bool (n_rows, n_nodes), and the ends,
        int8 (n_levels, n_rows) of 1, 0 and -1 for unknown.
    complete : ndarray of bool of shape (n_sequences,)
        Whether a sequence leaves nothing open.
    """

    narrow: Narrow
    complete: np.ndarray


def narrow_by(
    known: LevelCodes, shape: HierarchyShape
) -> Callable[[int, int], tuple[np.ndarray, np.ndarray]]:
    """What is allowed and which ends are known in a run of rows, in the terms of the engines."""
    top = shape.top_level

    def narrow(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        allowed = np.ones((stop - start, shape.n_nodes), dtype=bool)
        for k, level in enumerate(known.levels):
            allowed[:, shape.nodes(top + k)] = level.allowed(start, stop)
        ends = np.full((shape.n_levels, stop - start), -1, dtype=np.int8)
        ends[top:] = known.ends[:, start:stop]
        return allowed, ends

    return narrow


def check_known(
    known: LevelCodes, shape: HierarchyShape, numbers: np.ndarray | None = None, name: str = "y"
) -> None:
    """Refuse labels and ends that break a rule by themselves, in words; the engines see the rest.

    Parameters
    ----------
    known : LevelCodes
    shape : HierarchyShape
    numbers : ndarray of shape (n_sequences,), default=None
        What the caller calls the sequences.
    name : str, default="y"
        What messages call the argument.

    Raises
    ------
    InfeasibleSequenceError
        At the first pair of labels, transition or length that the structure does not have.
    """
    numbers = np.arange(known.n_sequences) if numbers is None else numbers
    is_last = np.zeros(known.ends.shape[1], dtype=bool)
    is_last[known.offsets[1:] - 1] = True
    for k, own in enumerate(known.levels):
        d = shape.top_level + k
        if d == 0:
            continue
        level, ends, names = shape.levels[d], known.ends[k], own.classes
        above = np.zeros_like(own.codes) if k == 0 else known.levels[k - 1].codes
        stays = ~is_last if k == 0 else known.ends[k - 1] == 0
        parents = [""] if k == 0 else [f" under {name!r}" for name in known.levels[k - 1].classes.tolist()]
        rows = np.flatnonzero((own.codes >= 0) & (above >= 0))
        wrong = rows[~shape.children[d - 1][above[rows], own.codes[rows]]]
        if len(wrong):
            t = int(wrong[0])
            raise _infeasible(
                known,
                f"{name}[{{}}]",
                numbers,
                k,
                t,
                f"{names[own.codes[t]].item()!r} may not stand{parents[above[t]]}",
            )
        if level.max_duration is not None and not level.has_tail and not level.is_step:
            starts = np.flatnonzero(np.diff((ends == 0).astype(np.int8), prepend=0) == 1)
            stops = np.flatnonzero(np.diff((ends == 0).astype(np.int8), append=0) == -1) + 1
            long = np.flatnonzero(stops - starts >= level.max_duration)
            if len(long):
                n = int(stops[long[0]] - starts[long[0]]) + 1
                fact = f"the segment from here on has {n} steps or more, but max_duration is {level.max_duration}"
                raise _infeasible(known, f"{name}[{{}}]", numbers, k, int(starts[long[0]]), fact)
        rows = np.flatnonzero(
            (ends == 1)[:-1] & stays[:-1] & (own.codes[:-1] >= 0) & (own.codes[1:] >= 0) & (above[:-1] >= 0)
        )
        moves = above[rows], own.codes[rows], own.codes[rows + 1]
        wrong = rows[~shape.transitions[d - 1][moves]]
        if len(wrong):
            t = int(wrong[0])
            before, after = names[own.codes[t : t + 2]].tolist()
            fact = f"{after!r} may not follow {before!r}{parents[above[t]]}"
            raise _infeasible(known, f"{name}[{{}}]", numbers, k, t + 1, fact)


def _infeasible(
    known: LevelCodes, name: str, numbers: np.ndarray, level: int, row: int, fact: str
) -> InfeasibleSequenceError:
    s = int(np.searchsorted(known.offsets, row, side="right")) - 1
    place = f"level {level}, time step {row - known.offsets[s]}"
    return InfeasibleSequenceError(
        f"The labels of {name.format(numbers[s])} fit no segmentation: {place}: {fact}."
    )
