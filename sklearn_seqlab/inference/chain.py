"""Exact inference in linear chains: the verbs of the inference core for ``ChainScores``.

A labelling ``y`` of a sequence scores the sum of ``unary[t, y[t]]`` over its steps and of
``transition[y[t - 1], y[t]]`` over its moves (plus ``initial[y[0]]`` and ``final[y[-1]]``); its probability is
``exp(score - log_partition)``. Scores are in nats, and minus infinity forbids.

Sums run in scaled probabilities with a certificate; a sequence that fails it is redone in the log domain,
so every answer is right to rounding. ``partition``, ``forward_backward``, ``best_path`` and ``path_score``
are the trusted inner forms that estimators call on arrays of their own making; the public verbs check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy
from sklearn.utils import check_random_state

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import (
    _chain_log,
    _chain_n_best,
    _chain_sample,
    _chain_scaled,
    _chain_viterbi,
)

__all__ = [
    "ChainScores",
    "entropy",
    "log_partition",
    "marginals",
    "max_marginals",
    "n_best",
    "sample",
    "score_of",
    "viterbi",
]

# A message that underflowed was below exp(-700); moves that differ by less cannot bring it back.
_LARGEST_SAFE_RANGE = 300.0


@dataclass(frozen=True, eq=False)
class ChainScores:
    """Log-potentials of a batch of chains, or marginals in the same shapes.

    Parameters
    ----------
    unary : array-like of shape (n_total, n_labels)
        Score of each label at each step of the packed batch, in nats.
    transition : array-like of shape (n_labels, n_labels) or (n_total, n_labels, n_labels)
        Score of the move from row to column; entry ``t`` of the longer form is the move *into* step ``t``,
        and that of the first step of a sequence is ignored.
    initial, final : array-like of shape (n_labels,), default=None
        Scores of the first and of the last label; None counts as zeros.
    """

    unary: np.ndarray
    transition: np.ndarray
    initial: np.ndarray | None = None
    final: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("unary", "transition", "initial", "final"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, np.ascontiguousarray(value, dtype=np.float64))

    @property
    def n_labels(self) -> int:
        return self.unary.shape[1]


def log_partition(scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None = None) -> np.ndarray:
    """Log of the summed exponentiated scores of all labellings.

    Parameters
    ----------
    scores : ChainScores
        In nats.
    offsets : array-like of shape (n_sequences + 1,)
        Sequence ``s`` occupies rows ``offsets[s]:offsets[s + 1]``.
    allowed : array-like of bool of shape (n_total, n_labels), default=None
        Labels to sum over; None sums over all.

    Returns
    -------
    log_z : ndarray of shape (n_sequences,)
        Minus infinity for a sequence without a feasible labelling.

    Raises
    ------
    ValueError
        If a shape does not fit or a score is NaN or plus infinity.

    Notes
    -----
    Time O(n_total * n_labels**2), after ``spec`` "chain models" 2; a chain whose moves differ by more than
    300 nats (a forbidden one, say) is summed in the log domain.
    """
    return partition(*_folded(scores, offsets, allowed))


def marginals(
    scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None = None
) -> tuple[np.ndarray, ChainScores]:
    """Log-partition and the probability of every label and move.

    Parameters
    ----------
    scores, offsets, allowed
        As in :func:`log_partition`.

    Returns
    -------
    log_z : ndarray of shape (n_sequences,)
    marginals : ChainScores
        Probabilities in the shapes of ``scores``. What the scores share, the marginals sum: a
        (n_labels, n_labels) ``transition`` holds the expected numbers of moves of the whole batch. So they
        are the gradient of ``log_z.sum()`` with respect to the scores.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no labelling of finite score.
    """
    unary, transition, bounds = _folded(scores, offsets, allowed)
    log_z, node, edge = forward_backward(unary, transition, bounds)
    raise_if_infeasible(log_z, unary, transition, bounds)
    initial = None if scores.initial is None else node[bounds[:-1]].sum(axis=0)
    final = None if scores.final is None else node[bounds[1:] - 1].sum(axis=0)
    return log_z, ChainScores(node, edge, initial, final)


def viterbi(
    scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The labelling of largest score; ties go to the smallest label, at the last step first.

    Parameters
    ----------
    scores, offsets, allowed
        As in :func:`log_partition`.

    Returns
    -------
    codes : ndarray of shape (n_total,), dtype=intp
    best_score : ndarray of shape (n_sequences,)

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no labelling of finite score.
    """
    return best_path(*_folded(scores, offsets, allowed))


def score_of(scores: ChainScores, offsets: ArrayLike, codes: ArrayLike) -> np.ndarray:
    """Score of one labelling of each sequence.

    Parameters
    ----------
    scores, offsets
        As in :func:`log_partition`.
    codes : array-like of int of shape (n_total,)

    Returns
    -------
    score : ndarray of shape (n_sequences,)
        In nats; minus infinity for a forbidden labelling.
    """
    unary, transition, bounds = _folded(scores, offsets, None)
    codes = np.asarray(codes)
    if codes.shape != (len(unary),) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"codes has shape {codes.shape} and dtype {codes.dtype}; expected int, ({len(unary)},)."
        )
    if codes.min() < 0 or codes.max() >= scores.n_labels:
        raise ValueError(f"codes holds labels outside 0..{scores.n_labels - 1}.")
    return path_score(unary, transition, bounds, codes)


def max_marginals(scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None = None) -> np.ndarray:
    """Score of the best labelling through each label of each step.

    Parameters
    ----------
    scores, offsets, allowed
        As in :func:`log_partition`.

    Returns
    -------
    best_through : ndarray of shape (n_total, n_labels)
        In nats; the margin of a decision is the best of a row less its second best.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no labelling of finite score.
    """
    unary, transition, bounds = _folded(scores, offsets, allowed)
    n_labels = unary.shape[1]
    best_through = np.empty_like(unary)
    work = np.empty(n_labels, dtype=np.intp), np.empty((2, n_labels))
    _chain_viterbi.max_marginals(unary, _stacked(transition), bounds, *work, best_through)
    raise_if_infeasible(best_through[bounds[:-1]].max(axis=1), unary, transition, bounds)
    return best_through


def n_best(
    scores: ChainScores, offsets: ArrayLike, n: int, allowed: ArrayLike | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The n labellings of largest score of each sequence, best first.

    Parameters
    ----------
    scores, offsets, allowed
        As in :func:`log_partition`.
    n : int
        How many labellings; at least 1.

    Returns
    -------
    labellings : list of (codes, score)
        Per sequence ``codes`` of shape (n_found, n_timesteps) and ``score`` of shape (n_found,), in nats.
        Fewer than ``n`` are found where fewer are feasible.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no labelling of finite score.

    Notes
    -----
    Time O(n_total * n_labels**2 * n), memory O(longest sequence * n_labels * n).
    """
    if n < 1:
        raise ValueError(f"n is {n}; expected at least 1.")
    unary, transition, bounds = _folded(scores, offsets, allowed)
    n_labels, varying = unary.shape[1], transition.ndim == 3
    found = []
    for s in range(len(bounds) - 1):
        start, stop = bounds[s], bounds[s + 1]
        moves = transition[start:stop] if varying else transition[None]
        shape = (stop - start, n_labels, n)
        codes, best = np.empty((n, stop - start), dtype=np.intp), np.empty(n)
        work = np.empty(n_labels, dtype=np.intp), np.empty(shape), np.empty(shape, dtype=np.intp)
        _chain_n_best.n_best(unary[start:stop], moves, *work, codes, best)
        if best[0] == -np.inf:
            raise_if_infeasible(
                np.where(np.arange(len(bounds) - 1) == s, -np.inf, 0), unary, transition, bounds
            )
        n_found = np.count_nonzero(best > -np.inf)
        found.append((codes[:n_found], best[:n_found]))
    return found


def sample(
    scores: ChainScores,
    offsets: ArrayLike,
    n_samples: int = 1,
    random_state: Any = None,
    allowed: ArrayLike | None = None,
) -> list[np.ndarray]:
    """Independent draws from the distribution of labellings.

    Parameters
    ----------
    scores, offsets, allowed
        As in :func:`log_partition`.
    n_samples : int, default=1
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    draws : list of n_samples ndarrays of shape (n_total,), dtype=intp

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no labelling of finite score.
    """
    unary, transition, bounds = _folded(scores, offsets, allowed)
    random = check_random_state(random_state)
    log_alpha, log_z, row = np.empty_like(unary), np.empty(len(bounds) - 1), np.empty(unary.shape[1])
    everything = np.arange(len(log_z))
    _chain_log.forward(unary, _stacked(transition), bounds, everything, row, log_alpha, log_z)
    raise_if_infeasible(log_z, unary, transition, bounds)
    draws = []
    for _ in range(n_samples):
        codes = np.empty(len(unary), dtype=np.intp)
        uniform = random.random_sample(len(unary))
        _chain_sample.sample_backward(log_alpha, _stacked(transition), bounds, uniform, row, codes)
        draws.append(codes)
    return draws


def entropy(scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None = None) -> np.ndarray:
    """Entropy of the distribution of labellings.

    Parameters
    ----------
    scores, offsets, allowed
        As in :func:`log_partition`.

    Returns
    -------
    entropy : ndarray of shape (n_sequences,)
        In nats, never negative.

    Raises
    ------
    InfeasibleSequenceError
        If some sequence has no labelling of finite score.

    Notes
    -----
    By the chain rule: the entropy of the first label plus those of each label given the one before. Unlike
    ``log_partition - expected score`` nothing cancels, so small entropies keep their digits. Memory
    O(longest sequence * n_labels**2).
    """
    unary, transition, bounds = _folded(scores, offsets, allowed)
    result = np.empty(len(bounds) - 1)
    for s in range(len(result)):
        start, stop = bounds[s], bounds[s + 1]
        moves = transition[start:stop] if transition.ndim == 3 else transition
        moves = np.array(np.broadcast_to(moves, (stop - start, *transition.shape[-2:])), order="C")
        log_z, node, edge = forward_backward(unary[start:stop], moves, np.array([0, stop - start]))
        if log_z[0] == -np.inf:
            raise_if_infeasible(np.where(np.arange(len(result)) == s, -np.inf, 0), unary, transition, bounds)
        moved = edge[1:].reshape(-1, unary.shape[1])
        result[s] = _row_entropy(node[:1])[0] + moved.sum(axis=1) @ _row_entropy(moved)
    return result


def _row_entropy(mass: np.ndarray) -> np.ndarray:
    """Entropy of each row of unnormalised probabilities; 0 for a row of zeros.

    The largest entry enters through the sum of the others: close to certainty ``log(p)`` would be all rounding.
    """
    total = mass.sum(axis=1, keepdims=True)
    rest = mass / np.where(total > 0, total, 1.0)
    rest[np.arange(len(rest)), rest.argmax(axis=1)] = 0.0
    others = rest.sum(axis=1)
    return -xlogy(rest, rest).sum(axis=1) - (1 - others) * np.log1p(-others)


def forward_backward(
    unary: np.ndarray, transition: np.ndarray, offsets: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-partition and weighted marginals of trusted arrays.

    Parameters
    ----------
    unary : ndarray of shape (n_total, n_labels), dtype=float64, C-contiguous
        Initial and final scores folded in; read only.
    transition : ndarray of shape (n_labels, n_labels) or (n_total, n_labels, n_labels)
        The rows of first steps, which are ignored, hold finite numbers.
    offsets : ndarray of shape (n_sequences + 1,), dtype=intp
    weight : ndarray of shape (n_sequences,), default=None
        Multiplies the marginals of a sequence; None for ones.

    Returns
    -------
    log_z : ndarray of shape (n_sequences,)
        Minus infinity for an infeasible sequence, whose marginals are zero.
    node : ndarray of shape (n_total, n_labels)
    edge : ndarray
        Of the shape of ``transition``: summed over the batch, or one per step (zero at first steps).
    """
    n_total, n_labels = unary.shape
    weight = np.ones(len(offsets) - 1) if weight is None else weight
    varying = transition.ndim == 3
    factors, log_factors = _factors(transition)
    transposed = np.empty((0, 0)) if varying else np.ascontiguousarray(factors[0].T)
    node, left, right = (np.empty((n_total, n_labels)) for _ in range(3))
    log_z = np.empty(len(offsets) - 1)
    certified = np.empty(len(log_z), dtype=np.uint8)
    work = np.empty((2, n_labels))
    _chain_scaled.forward_backward(
        unary, factors, transposed, log_factors, offsets, weight, work, node, left, right, log_z, certified
    )
    if varying:
        edge = factors
        edge[:1] = 0.0
        edge[1:] *= left[:-1, :, None]
        edge[1:] *= right[1:, None, :]
    else:
        edge = factors * (left[:-1].T @ right[1:])
    redo = np.flatnonzero(certified == 0)
    if len(redo):
        work = np.empty((4, n_labels))
        _chain_log.forward_backward(
            unary, _stacked(transition), offsets, redo, weight, work, node, edge, log_z
        )
    return log_z, node, edge if varying else edge[0]


def partition(unary: np.ndarray, transition: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Log-partition of trusted arrays; see :func:`log_partition` and :func:`forward_backward`."""
    log_z = np.empty(len(offsets) - 1)
    n_labels = unary.shape[1]
    if _widest_range(transition) <= _LARGEST_SAFE_RANGE:
        factors, log_factors = _factors(transition)
        _chain_scaled.forward(unary, factors, log_factors, offsets, np.empty((3, n_labels)), log_z)
        redo = np.flatnonzero(log_z == -np.inf)
    else:
        redo = np.arange(len(log_z))
    if len(redo):
        row, log_alpha = np.empty(n_labels), np.empty_like(unary)
        _chain_log.forward(unary, _stacked(transition), offsets, redo, row, log_alpha, log_z)
    return log_z


def best_path(
    unary: np.ndarray, transition: np.ndarray, offsets: np.ndarray, first: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Best labelling of trusted arrays; see :func:`viterbi` and :func:`forward_backward`."""
    n_labels, longest = unary.shape[1], int(np.diff(offsets).max())
    codes, best = np.empty(len(unary), dtype=np.intp), np.empty(len(offsets) - 1)
    delta, previous = np.empty((2, n_labels)), np.empty((longest, n_labels), dtype=np.intp)
    _chain_viterbi.viterbi(unary, _stacked(transition), offsets, delta, previous, codes, best)
    raise_if_infeasible(best, unary, transition, offsets, first)
    return codes, best


def path_score(
    unary: np.ndarray, transition: np.ndarray, offsets: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """Score of one labelling per sequence of trusted arrays; see :func:`score_of`."""
    steps = np.arange(len(codes))
    gain = unary[steps, codes]
    moves = np.ones(len(codes), dtype=bool)
    moves[offsets[:-1]] = False
    into = steps[moves]
    if transition.ndim == 3:
        gain[into] += transition[into, codes[into - 1], codes[into]]
    else:
        gain[into] += transition[codes[into - 1], codes[into]]
    return np.add.reduceat(gain, offsets[:-1])


def fold(unary: np.ndarray, offsets: np.ndarray, initial: np.ndarray, final: np.ndarray) -> None:
    """Add initial and final scores to the first and last rows of each sequence, in place."""
    unary[offsets[:-1]] += initial
    unary[offsets[1:] - 1] += final


def raise_if_infeasible(
    best: np.ndarray, unary: np.ndarray, transition: np.ndarray, offsets: np.ndarray, first: int = 0
) -> None:
    """Raise for the first sequence whose best score is minus infinity, naming the step that is cut off.

    ``first`` is the number of the first sequence, for messages about a chunk of a larger batch.
    """
    failed = np.flatnonzero(best == -np.inf)
    if not len(failed):
        return
    s = int(failed[0])
    start, stop = offsets[s], offsets[s + 1]
    reached = unary[start] > -np.inf
    step = 0
    while reached.any() and step + 1 < stop - start:
        step += 1
        move = transition[start + step] if transition.ndim == 3 else transition
        reached = (reached[:, None] & (move > -np.inf)).any(axis=0) & (unary[start + step] > -np.inf)
    raise InfeasibleSequenceError(
        f"Sequence {first + s} has no feasible labelling: no allowed label can be reached at time step {step}."
    )


def _folded(
    scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Checked copies with initial, final and allowed worked into the unary scores."""
    unary, transition = scores.unary, scores.transition
    if unary.ndim != 2 or not unary.size:
        raise ValueError(f"unary has shape {unary.shape}; expected (n_total, n_labels), both at least 1.")
    n_total, n_labels = unary.shape
    if transition.shape not in ((n_labels, n_labels), (n_total, n_labels, n_labels)):
        raise ValueError(
            f"transition has shape {transition.shape}; expected {(n_labels, n_labels)} "
            f"or {(n_total, n_labels, n_labels)}."
        )
    bounds = _checked_offsets(offsets, n_total)
    if transition.ndim == 3:
        transition = transition.copy()
        transition[bounds[:-1]] = 0.0
    for name, values in (("unary", unary), ("transition", transition), ("initial", scores.initial),
                         ("final", scores.final)):  # fmt: skip
        if values is None:
            continue
        if name in ("initial", "final") and values.shape != (n_labels,):
            raise ValueError(f"{name} has shape {values.shape}; expected ({n_labels},).")
        if not values.max() < np.inf:  # NaN too
            place = tuple(int(i) for i in np.argwhere(~(values < np.inf))[0])
            raise ValueError(f"{name}{list(place)} is {values[place]}; expected a number or minus infinity.")
    folded = unary.copy()
    for rows, values in ((bounds[:-1], scores.initial), (bounds[1:] - 1, scores.final)):
        if values is not None:
            folded[rows] += values
    if allowed is not None:
        mask = np.asarray(allowed)
        if mask.shape != unary.shape or mask.dtype != bool:
            raise ValueError(
                f"allowed has shape {mask.shape} and dtype {mask.dtype}; expected bool, {unary.shape}."
            )
        folded[~mask] = -np.inf
    return folded, transition, bounds


def _checked_offsets(offsets: ArrayLike, n_total: int) -> np.ndarray:
    bounds = np.ascontiguousarray(offsets, dtype=np.intp)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != n_total:
        raise ValueError(f"offsets must be one-dimensional and run from 0 to {n_total}.")
    if (np.diff(bounds) < 1).any():
        raise ValueError(f"Sequence {int(np.argmax(np.diff(bounds) < 1))} has no time steps.")
    return bounds


def _stacked(transition: np.ndarray) -> np.ndarray:
    return transition if transition.ndim == 3 else transition[None]


def _widest_range(transition: np.ndarray) -> float:
    """Largest difference between two moves into the same step, in nats; infinite if one is forbidden."""
    moves = _stacked(transition)
    lowest, highest = moves.min(axis=(1, 2)), moves.max(axis=(1, 2))
    return (highest - lowest).max() if lowest.min() > -np.inf else np.inf


def _factors(transition: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``exp`` of the transition scores, each matrix divided by its largest entry, and the log of that."""
    moves = _stacked(transition)
    top = moves.max(axis=(1, 2))
    finite = np.where(np.isfinite(top), top, 0.0)
    factors = moves - finite[:, None, None]
    return np.exp(factors, out=factors), np.where(np.isfinite(top), top, -np.inf)
