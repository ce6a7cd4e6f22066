"""Exact inference in linear chains: the verbs of the inference core for ``ChainScores``.

A labelling ``y`` of a sequence scores the sum of ``unary[t, y[t]]`` over its steps and of
``transition[y[t - 1], y[t]]`` over its moves (plus ``initial[y[0]]`` and ``final[y[-1]]``); its probability is
``exp(score - log_partition)``. Scores are in nats, and minus infinity forbids. Arguments are checked here;
the work is done by ``PackedChains``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab.inference.packed_chains import PackedChains

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
            if np.iscomplexobj(value):
                raise TypeError(f"{name} holds complex numbers; expected real scores.")
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
    Time O(n_total * n_labels**2).
    """
    return _checked(scores, offsets, allowed).log_partition()


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
    chains = _checked(scores, offsets, allowed)
    log_z, node, edge = chains.forward_backward()
    chains.raise_if_infeasible(log_z)
    initial = None if scores.initial is None else node[chains.offsets[:-1]].sum(axis=0)
    final = None if scores.final is None else node[chains.offsets[1:] - 1].sum(axis=0)
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
    return _checked(scores, offsets, allowed).viterbi()


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
    chains = _checked(scores, offsets, None)
    codes = np.asarray(codes)
    n_total = len(chains.unary)
    if codes.shape != (n_total,) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"codes has shape {codes.shape} and dtype {codes.dtype}; expected int, ({n_total},)."
        )
    if codes.min() < 0 or codes.max() >= scores.n_labels:
        raise ValueError(f"codes holds labels outside 0..{scores.n_labels - 1}.")
    return chains.score_of(codes)


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
    return _checked(scores, offsets, allowed).max_marginals()


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
    return _checked(scores, offsets, allowed).n_best(_positive(n, "n"))


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
    chains = _checked(scores, offsets, allowed)
    return chains.sample(_positive(n_samples, "n_samples"), random_state)


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
    return _checked(scores, offsets, allowed).entropy()


def _positive(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; expected an integer of at least 1.")
    return int(value)


def _checked(scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None) -> PackedChains:
    """Checked copies with initial, final and allowed worked into the unary scores."""
    if not isinstance(scores, ChainScores):
        raise TypeError(f"scores is a {type(scores).__name__}; expected ChainScores(unary, transition).")
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
    chains = PackedChains(folded, transition, bounds)
    chains.raise_if_overflown()
    return chains


def _checked_offsets(offsets: ArrayLike, n_total: int) -> np.ndarray:
    given = np.asarray(offsets)
    if given.dtype.kind not in "iu":
        raise ValueError(f"offsets has dtype {given.dtype}; expected integers.")
    bounds = np.ascontiguousarray(given, dtype=np.intp)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != n_total:
        raise ValueError(f"offsets must be one-dimensional and run from 0 to {n_total}.")
    if (np.diff(bounds) < 1).any():
        raise ValueError(f"Sequence {int(np.argmax(np.diff(bounds) < 1))} has no time steps.")
    return bounds
