"""Exact inference in linear chains: the verbs of the inference core for ``ChainScores``.

A labelling ``y`` of a sequence scores the sum of ``unary[t, y[t]]`` over its steps and of
``transition[y[t - 1], y[t]]`` over its moves (plus ``initial[y[0]]`` and ``final[y[-1]]``); its probability is
``exp(score - log_partition)``. Scores are in nats, and minus infinity forbids. Arguments are checked here;
the work is done by ``PackedChains``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab._arguments import positive
from sklearn_seqlab.inference._checks import (
    check_ends_of_sequences,
    check_transition,
    check_values,
    checked_allowed,
    checked_labels,
    checked_offsets,
    store_scores,
)
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
        store_scores(self, "unary", "transition", "initial", "final")

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
    return chains.score_of(checked_labels(codes, len(chains.unary), scores.n_labels))


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
    return _checked(scores, offsets, allowed).n_best(positive(n, "n"))


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
    return chains.sample(positive(n_samples, "n_samples"), random_state)


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


def _checked(scores: ChainScores, offsets: ArrayLike, allowed: ArrayLike | None) -> PackedChains:
    """Checked copies with initial, final and allowed worked into the unary scores."""
    if not isinstance(scores, ChainScores):
        raise TypeError(f"scores is a {type(scores).__name__}; expected ChainScores(unary, transition).")
    unary, transition = scores.unary, scores.transition
    if unary.ndim != 2 or not unary.size:
        raise ValueError(f"unary has shape {unary.shape}; expected (n_total, n_labels), both at least 1.")
    n_total, n_labels = unary.shape
    check_transition(transition, n_total, n_labels)
    bounds = checked_offsets(offsets, n_total)
    if transition.ndim == 3:
        transition = transition.copy()
        transition[bounds[:-1]] = 0.0
    check_values("unary", unary)
    check_values("transition", transition)
    check_ends_of_sequences(n_labels, initial=scores.initial, final=scores.final)
    folded = unary.copy()
    for rows, values in ((bounds[:-1], scores.initial), (bounds[1:] - 1, scores.final)):
        if values is not None:
            folded[rows] += values
    if allowed is not None:
        folded[~checked_allowed(allowed, unary.shape)] = -np.inf
    chains = PackedChains(folded, transition, bounds)
    chains.raise_if_overflown()
    return chains
