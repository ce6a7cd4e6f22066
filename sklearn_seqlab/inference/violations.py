"""The labelling that violates a margin most: what every margin trainer over chains asks for.

With ``F`` the score of a labelling, ``F_true`` that of the true one and ``cost`` what a wrong labelling costs:

* margin rescaling: the labelling of largest ``cost + F - F_true``;
* slack rescaling: the labelling of largest ``cost * (1 + F - F_true)``.

The first is a best labelling of chains with raised scores. The second is found exactly, for costs that count
errors, by an error-counting recursion, and within a certified bound by a search over Lagrangian multipliers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sklearn_seqlab.inference import _chain_errors
from sklearn_seqlab.inference.packed_chains import PackedChains

__all__ = ["Violations", "best_by_errors", "margin_violations", "slack_violations"]

# The error-counting recursion takes as many times the work of a plain one as there are steps: below so many it
# is the cheaper, above the search is tried first.
_SHORT = 32

# Largest number of multipliers that the search tries on one sequence.
_MAX_SEARCH = 60


class Violations(NamedTuple):
    """Most violated constraints of a batch of chains.

    Attributes
    ----------
    codes : ndarray of shape (n_total,), dtype=intp
    value : ndarray of shape (n_sequences,)
        What is maximised, at ``codes``; in nats, times a cost under slack rescaling.
    bound : ndarray of shape (n_sequences,)
        No labelling has a larger value; equal to ``value`` where the maximum is exact.
    """

    codes: np.ndarray
    value: np.ndarray
    bound: np.ndarray


def margin_violations(chains: PackedChains, cost: np.ndarray, true_score: np.ndarray) -> Violations:
    """Loss-augmented Viterbi: the labelling of largest cost plus score.

    Parameters
    ----------
    chains : PackedChains
    cost : ndarray of shape (n_total, n_labels)
        Cost of each label at each step, nonnegative.
    true_score : ndarray of shape (n_sequences,)
        Score of the true labelling, in nats.

    Notes
    -----
    Time O(n_total * n_labels**2). Taskar, Guestrin and Koller, "Max-margin Markov networks", NIPS 2003.
    """
    raised = PackedChains(chains.unary + cost, chains.transition, chains.offsets, chains.first)
    codes, best = raised.viterbi()
    value = best - true_score
    return Violations(codes, value, value)


def slack_violations(
    chains: PackedChains,
    is_error: np.ndarray,
    unit: np.ndarray,
    true_score: np.ndarray,
    *,
    exact_length: int = 500,
    tol: float = 1e-9,
) -> Violations:
    """The labelling of largest ``cost * (1 + F - F_true)``, its cost being the number of its errors times a unit.

    Parameters
    ----------
    chains : PackedChains
    is_error : ndarray of shape (n_total, n_labels), dtype=bool
        Which labels are errors at which steps; none at a step whose true label is not known.
    unit : ndarray of shape (n_sequences,)
        Cost of one error.
    true_score : ndarray of shape (n_sequences,)
        Score of the true labelling, which has no errors, in nats.
    exact_length : int, default=500
        Longest sequence, in time steps, for which a search that did not close is followed by the recursion.
    tol : float, default=1e-9
        The search ends where bound and value agree to ``tol`` times one plus the bound.

    Returns
    -------
    violations : Violations
        ``bound`` exceeds ``value`` by more than ``tol`` only for sequences longer than ``exact_length``.

    Notes
    -----
    Recursion: O(n_timesteps**2 * n_labels**2) time and ``2 * n_timesteps**2 * n_labels`` bytes, less where the search
    has ruled out large numbers of errors. Search: a Viterbi
    pass for each multiplier, some ten of them. Every multiplier ``lam`` gives the bound
    ``F <= s(lam) - lam * d`` for all labellings with ``d`` errors, ``s(lam)`` being the best of ``F + lam * d``; the
    next multiplier is that of the edge of the hull of (errors, best score) on which the bound is attained. Where
    the best labelling lies inside a gap of the hull, value and bound never meet. ``spec`` "chain models" 6.
    """
    codes = np.empty(len(chains.unary), dtype=np.intp)
    value, bound = np.empty(chains.n_sequences), np.empty(chains.n_sequences)
    for s in range(chains.n_sequences):
        rows = slice(chains.offsets[s], chains.offsets[s + 1])
        chain, errors = chains.one(s), is_error[rows]
        n_timesteps = len(errors)
        arguments = chain, errors, float(unit[s]), float(true_score[s])
        if n_timesteps > min(_SHORT, exact_length):
            codes[rows], value[s], bound[s], most = _search(*arguments, tol)
            if n_timesteps > exact_length or bound[s] - value[s] <= tol * (1 + abs(bound[s])):
                continue
            exact, best = _by_recursion(*arguments, most)
            if best > value[s]:
                codes[rows], value[s] = exact, best
        else:
            codes[rows], value[s] = _by_recursion(*arguments)
        bound[s] = value[s]
    return Violations(codes, value, bound)


def best_by_errors(
    chain: PackedChains, is_error: np.ndarray, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the best labellings of one chain by their number of errors.

    Parameters
    ----------
    chain : PackedChains
        Of one sequence.
    is_error : ndarray of shape (n_timesteps, n_labels), dtype=bool
    most : int, default=None
        Largest number of errors to look at.

    Returns
    -------
    best : ndarray of shape (n_counts,)
        Entry ``d`` for exactly ``d`` errors; minus infinity where there is no such labelling.
    previous : ndarray
        Back pointers, for the recursion's own ``trace``.
    """
    errors = np.ascontiguousarray(is_error, dtype=np.uint8)
    n_counts = 1 + int(errors.any(axis=1).sum())
    if most is not None:
        n_counts = min(n_counts, 1 + most)
    n_timesteps, n_labels = chain.unary.shape
    delta = np.empty((2, n_counts, n_labels))
    previous = np.empty((n_timesteps, n_counts, n_labels), dtype=np.int16)
    best = np.empty(n_counts)
    _chain_errors.best_by_errors(chain.unary, chain._moves, errors, delta, previous, best)
    return best, previous


def _by_recursion(
    chain: PackedChains, is_error: np.ndarray, unit: float, true_score: float, most: int | None = None
) -> tuple[np.ndarray, float]:
    best, previous = best_by_errors(chain, is_error, most)
    chain.raise_if_infeasible(best.max(keepdims=True))
    # no errors cost nothing, whatever the score; a count without a labelling is no candidate
    feasible = np.flatnonzero(best > -np.inf)
    value = unit * feasible * (1.0 + best[feasible] - true_score)
    k = int(np.argmax(value))
    codes = np.empty(len(is_error), dtype=np.intp)
    _chain_errors.trace(previous, np.ascontiguousarray(is_error, dtype=np.uint8), int(feasible[k]), codes)
    return codes, float(value[k])


def _search(
    chain: PackedChains, is_error: np.ndarray, unit: float, true_score: float, tol: float
) -> tuple[np.ndarray, float, float, int]:
    """As the recursion, and the largest number of errors at which there may be something better."""
    counts = np.arange(1 + int(is_error.any(axis=1).sum()))
    rows = np.arange(len(is_error))

    def ask(chains: PackedChains) -> tuple[np.ndarray, int, float]:
        codes = chains.viterbi()[0]
        # the score anew: what is left of it after a large multiplier is rounding
        return codes, int(is_error[rows, codes].sum()), float(chain.score_of(codes)[0])

    # the end of the hull at no errors is known to be feasible: the true labelling is there
    known = {0: ask(chain.narrowed(~is_error))}
    ceiling = np.full(len(counts), np.inf)
    ceiling[0] = known[0][2]
    multiplier, tried = 0.0, set()
    while True:
        tried.add(multiplier)
        raised = chain.unary + multiplier * is_error
        found = ask(PackedChains(raised, chain.transition, chain.offsets, chain.first))
        if found[1] not in known or found[2] > known[found[1]][2]:
            known[found[1]] = found
        np.minimum(ceiling, found[2] + multiplier * (found[1] - counts), out=ceiling)
        value = {d: unit * d * (1.0 + score - true_score) for d, (_, _, score) in known.items()}
        best = max(value, key=lambda d: (value[d], -d))
        with np.errstate(invalid="ignore"):
            upper = unit * counts * (1.0 + ceiling - true_score)
        upper[0] = 0.0
        at = int(np.argmax(upper))
        bound = max(float(upper[at]), value[best])
        if bound - value[best] <= tol * (1 + abs(bound)) or len(tried) > _MAX_SEARCH:
            break
        below, above = max(d for d in known if d <= at), min((d for d in known if d >= at), default=None)
        if above is None:  # beyond the last known end of the hull: push harder
            multiplier = max(2 * max(tried), 1.0 + abs(float(true_score)))
        elif below == above:  # a score of rounding's making stands in the way
            break
        else:
            multiplier = (known[below][2] - known[above][2]) / (above - below)
        if multiplier in tried:
            break
    return known[best][0], value[best], bound, int(np.flatnonzero(upper >= value[best]).max(initial=0))
