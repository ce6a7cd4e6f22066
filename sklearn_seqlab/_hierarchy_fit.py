"""The learning half of every estimator whose labels form segments or a hierarchy of segments."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sklearn_seqlab import _parallel
from sklearn_seqlab._progress import Progress
from sklearn_seqlab.objectives import (
    HierarchyLogLikelihood,
    HierarchyShape,
    KnownConfiguration,
    Level,
    check_known,
    choose_engine,
    hierarchy_doubles_per_step,
    narrow_by,
)
from sklearn_seqlab.sequences import LevelCodes, PackedBatch, cut_rows
from sklearn_seqlab.solvers import SolverOutcome, lbfgs, stochastic

# Relative gradient to which complete sequences are fitted before the others join in.
_ROUGHLY = 1e-2

__all__ = [
    "HierarchyFit",
    "allowed_children",
    "allowed_moves",
    "check_names",
    "explicit_length",
    "known_lengths",
    "make_levels",
    "per_level",
]

# What may be asked of a last level of single steps (of all levels at once: anything).
_OF_STEPS: dict[str, tuple[Any, ...]] = {
    "duration": ("none", "geometric"),
    "max_duration": (None, 1),
    "segment_features": (("sum",),),
    "edge_features": (),
}

_MUCH_MEMORY = 4e9  # bytes

# "observed" durations: up to so many steps all lengths are explicit, beyond it up to this quantile of the lengths,
# and never more than so many (of a level with others below it, half as many): time is linear in this number, and
# a long duration is seldom told from the next
_SHORT, _QUANTILE, _LONG = 50, 0.9, 120


@dataclass(frozen=True, eq=False)
class HierarchyFit:
    """What a fit found, ready to be assigned."""

    shape: HierarchyShape
    blocks: dict[str, Any]
    engine: str
    outcome: SolverOutcome
    n_redone: int

    @classmethod
    def run(
        cls,
        estimator: Any,
        batch: PackedBatch,
        codes: LevelCodes,
        weight: np.ndarray,
        shape: HierarchyShape,
        engine: str = "auto",
        start: dict[str, Any] | None = None,
    ) -> HierarchyFit:
        """Learn the coefficients of a shape with the estimator's ``C``, solver and tolerances.

        Raises
        ------
        ValueError
            If no sequence of positive weight says anything.
        InfeasibleSequenceError
            If the labels of a sequence fit no configuration.
        """
        complete = codes.is_complete()
        counts = np.flatnonzero((weight > 0) & codes.is_informative())
        if not len(counts):
            raise ValueError("y holds no label where sample_weight is positive: nothing to learn from.")
        order = counts[np.argsort(~complete[counts], kind="stable")]
        known = codes.take(order)
        check_known(known, shape, order)
        engine = choose_engine(shape, engine)
        _warn_if_huge(batch, shape, engine)
        name = type(estimator).__name__
        with _parallel.one_blas_thread(), Progress(estimator.verbose, name, estimator.max_iter) as progress:

            def loss(n_sequences: int) -> HierarchyLogLikelihood:
                """Of the first sequences of the order."""
                chosen = order[:n_sequences]
                return HierarchyLogLikelihood(
                    batch.take(chosen),
                    KnownConfiguration(narrow_by(known, shape), complete[chosen]),
                    shape,
                    weight=weight[chosen],
                    C=estimator.C,
                    engine=engine,
                    numerics=estimator.numerics,
                    numbers=chosen,
                    n_jobs=estimator.n_jobs,
                )

            objective = loss(len(order))
            coef = np.zeros(objective.n_coef)
            options = {"max_iter": estimator.max_iter, "tol": estimator.tol, "callback": progress}
            n_complete = int(complete[order].sum())
            first = None
            if start is not None:
                coef = _warm(objective, shape, start, batch.n_features)
            elif 0 < n_complete < len(order) and (most_first := estimator.max_iter // 2):
                # with hidden parts the objective has many minima: start at that of the complete sequences
                first = lbfgs(loss(n_complete), coef, **(options | {"tol": _ROUGHLY, "max_iter": most_first}))
                coef = first.coef
                options["max_iter"] -= first.n_iter
            if first is not None and first.interrupted:
                outcome = first
            elif estimator.solver == "lbfgs":
                outcome = lbfgs(objective, coef, **options)
            else:
                outcome = stochastic(
                    objective,
                    coef,
                    method=estimator.solver,
                    eta0=estimator.eta0,
                    batch_size=estimator.batch_size,
                    average=estimator.average,
                    random_state=estimator.random_state,
                    **options,
                )
        if first is not None and outcome is not first:
            outcome.n_iter += first.n_iter
        blocks = shape.blocks(*objective.split(outcome.coef))
        return cls(shape, blocks, engine, outcome, objective.n_redone)

    def structure(self, codes: LevelCodes) -> dict[str, Any]:
        """What prediction needs beside the public attributes, in plain types."""
        levels = [asdict(level) for _, level in self.shape.labelled()]
        for level in levels:
            level["segment_features"] = list(level["segment_features"])
            level["edge_features"] = list(level["edge_features"])
        return {
            "levels": levels,
            "persists": self.shape.persists,
            "has_root": self.shape.has_root,
            "is_flat": codes.is_flat,
            "self_transitions": [bool(may) for may in codes.self_transitions],
            "engine": self.engine,
        }


def _warn_if_huge(batch: PackedBatch, shape: HierarchyShape, engine: str) -> None:
    """Several levels of explicit durations without a limit need room that grows with the square of a sequence."""
    if engine != "aio":
        return
    longest = int(batch.lengths.max())
    doubles = longest * hierarchy_doubles_per_step(shape, longest)
    for d in range(1, shape.n_levels - 1):
        n_durations = shape.levels[d].durations_up_to(longest)
        doubles += longest * n_durations * shape.levels[d].n_states * shape.levels[d + 1].n_states
    if 8 * doubles > _MUCH_MEMORY:
        warnings.warn(
            f"The longest sequence has {longest} time steps: a pass over it takes about {8 * doubles / 1e9:.0f} GB, "
            "since segments of several levels may have any duration. A limit, max_duration, makes that linear.",
            UserWarning,
            stacklevel=5,
        )


def per_level(value: Any, n_levels: int, name: str, atoms: tuple[type, ...]) -> list[Any]:
    """One value per level: an atom counts for all, a list or tuple has one entry per level.

    Raises
    ------
    ValueError
        If the number of entries is not ``n_levels``.
    """
    if value is None or isinstance(value, atoms):
        return [value] * n_levels
    entries = list(value)
    if len(entries) != n_levels:
        raise ValueError(
            f"{name} has {len(entries)} entries, but there are {n_levels} levels below the root."
        )
    return entries


def known_lengths(codes: LevelCodes, level: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths in time steps, and sequences, of the segments of which both ends and the label are known.

    A stretch of one label that may be several segments counts as a whole: the longest that it can be.
    """
    ends, label = codes.ends[level], codes.levels[level].codes
    starts, stops = cut_rows(ends == 1)
    unknown = np.concatenate([[0], np.cumsum(ends < 0)])
    changed = np.concatenate([[0], np.cumsum(np.diff(label) != 0)])
    is_whole = (unknown[stops] == unknown[starts]) | (changed[stops - 1] == changed[starts])
    is_known = is_whole & (label[starts] >= 0)
    sequence = np.searchsorted(codes.offsets, starts[is_known], side="right") - 1
    return (stops - starts)[is_known], sequence


def explicit_length(lengths: np.ndarray, weight: np.ndarray, cap: int = _LONG) -> int:
    """How many durations to make explicit: the longest, or where that is long a weighted quantile, up to a cap."""
    if not len(lengths):
        return _SHORT
    longest = int(lengths.max())
    if longest <= _SHORT:
        return longest
    order = np.argsort(lengths)
    share = np.cumsum(weight[order])
    quantile = int(lengths[order][np.searchsorted(share, _QUANTILE * share[-1])])
    return min(max(_SHORT, quantile), cap)


def allowed_children(codes: LevelCodes, above: int, counts: np.ndarray | None = None) -> np.ndarray:
    """Pairs of a state and one below it that some time step may have, bool (n_states, n_states below).

    Only sequences that count have a say; of a state that they do not show, the others tell.
    """
    n_above, n_below = codes.levels[above].n_labels, codes.levels[above + 1].n_labels
    allowed, by_others = np.zeros((2, n_above, n_below), dtype=bool)
    counts = np.ones(codes.n_sequences, dtype=bool) if counts is None else counts
    for s, (upper, lower) in enumerate(_informative_masks(codes, [above, above + 1])):
        pairs = (upper.T.astype(np.float64) @ lower) > 0
        if counts[s]:
            allowed |= pairs
        else:
            by_others |= pairs
    orphans = ~allowed.any(axis=0)
    lonely = ~allowed.any(axis=1)
    allowed[lonely] = by_others[lonely]
    allowed[:, orphans] |= by_others[:, orphans]
    return allowed


def allowed_moves(
    codes: LevelCodes, level: int, parents: int | None, counts: np.ndarray | None = None
) -> np.ndarray:
    """Moves at a level that some pair of neighbouring steps may have, bool (n_parents, n_states, n_states).

    Only sequences that count have a say.
    """
    if counts is not None and not counts.all():
        codes = codes.take(np.flatnonzero(counts))
    n_states = codes.levels[level].n_labels
    n_parents = 1 if parents is None else codes.levels[parents].n_labels
    allowed = np.zeros((n_parents, n_states, n_states), dtype=bool)
    levels = [level] if parents is None else [level, parents]
    inner = np.ones(len(codes.ends[level]), dtype=bool)
    inner[codes.offsets[1:] - 1] = False
    may_move = inner & (codes.ends[level] != 0)
    if parents is not None:
        may_move &= codes.ends[parents] != 1
    rows = 0
    for masks in _informative_masks(codes, levels):
        own = masks[0].astype(np.float64)
        here = may_move[rows : rows + len(own)]
        before, after = np.flatnonzero(here[:-1]), np.flatnonzero(here[:-1]) + 1
        rows += len(own)
        for p in range(n_parents):
            under = np.ones(len(before)) if parents is None else masks[1][before, p] * masks[1][after, p]
            allowed[p] |= ((own[before] * under[:, None]).T @ own[after]) > 0
    return allowed


def _informative_masks(codes: LevelCodes, levels: Sequence[int]) -> Any:
    """Allowed labels of some levels, sequence by sequence; all False where nothing is known of a sequence."""
    informative = codes.is_informative()
    for s in range(codes.n_sequences):
        start, stop = int(codes.offsets[s]), int(codes.offsets[s + 1])
        masks = [codes.levels[d].allowed(start, stop) for d in levels]
        yield masks if informative[s] else [np.zeros_like(mask) for mask in masks]


def _warm(
    objective: HierarchyLogLikelihood, shape: HierarchyShape, start: dict[str, Any], n_features: int
) -> np.ndarray:
    """The last solution as a start, provided that it has the same blocks; forbidden moves count as zero."""
    try:
        coef = objective.join(*shape.unblock(start, n_features))
    except ValueError:
        return np.zeros(objective.n_coef)
    return np.where(np.isfinite(coef), coef, 0.0)


def make_levels(
    codes: LevelCodes, options: dict[str, list[Any]], weight: np.ndarray, segment_bottom: bool, root: bool
) -> list[Level]:
    """The levels that carry labels, with durations resolved against the known segments.

    Parameters
    ----------
    codes : LevelCodes
    options : dict
        "duration", "max_duration", "segment_features" and "edge_features", each a list with an entry per level
        below the root.
    weight : ndarray of shape (n_sequences,)
        A segment counts for durations as its sequence does.
    segment_bottom : bool
    root : bool
        Whether the first labelled level is the root.
    """
    levels = []
    for d, own in enumerate(codes.levels):
        if root and d == 0:
            levels.append(Level(own.n_labels))
            continue
        k = d - root
        is_step = d == codes.n_levels - 1 and not segment_bottom
        if is_step:
            _check_step(options, k, d)
        lengths, sequence = known_lengths(codes, d)
        counts = weight[sequence] > 0
        lengths, share = lengths[counts], weight[sequence][counts]
        duration, wish = options["duration"][k], options["max_duration"][k]
        max_duration, has_tail = wish, False
        if is_step:
            max_duration = None
        elif wish == "observed":
            is_last = d == codes.n_levels - 1
            max_duration, has_tail = explicit_length(lengths, share, _LONG if is_last else _LONG // 2), True
        elif wish is None and duration == "table":
            max_duration, has_tail = int(lengths.max(initial=1)), True
        levels.append(
            Level(
                n_states=own.n_labels,
                is_step=is_step,
                duration=duration,
                max_duration=None if max_duration is None else int(max_duration),
                has_tail=has_tail,
                segment_features=("sum",) if is_step else tuple(options["segment_features"][k]),
                # a segment of one step weighs its only input once: more of the same would change the penalty alone
                edge_features=tuple(
                    kind for kind in options["edge_features"][k] if not (is_step and kind in ("start", "end"))
                ),
            )
        )
    return levels


def _check_step(options: dict[str, list[Any]], k: int, level: int) -> None:
    """Refuse what is asked of single steps in particular and only segments have."""
    for name, neutral in _OF_STEPS.items():
        wish = options[name][k]
        differs = wish not in neutral if name != "edge_features" else {"start", "end"} & set(wish)
        if differs and any(other != wish for other in options[name]):
            raise ValueError(
                f"{name} of level {level} is {wish!r}, but its segments are single time steps: set "
                "bottom_persist=True, or leave that to the levels above."
            )


def check_names(names: Any, known: tuple[str, ...], parameter: str, least: int = 0) -> tuple[str, ...]:
    """Names out of a known set, each once, in any list-like.

    Raises
    ------
    ValueError
        For another name, a repeated one, or too few.
    """
    given = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else (names,)
    if (
        not all(isinstance(one, str) for one in given)
        or len(given) < least
        or len(set(given)) < len(given)
        or not set(given) <= set(known)
    ):
        raise ValueError(
            f"{parameter} is {names!r}; expected {'some' if least else 'any'} of {', '.join(map(repr, known))}."
        )
    return given
