"""Branch and bound for the best conjunctive rule: exact, by a bound on all that a rule may become."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sklearn_seqlab._conjunctions import Conjunction

__all__ = ["SCORES", "FoundRule", "RuleSearch"]


class Totals(NamedTuple):
    """Weights of all positive and negative steps at the start, and the parameter of the m-estimate."""

    positive: float
    negative: float
    m: float


# All rise in the positives p and fall in the negatives n and in the number of items k.
SCORES: dict[str, Callable] = {
    "compression": lambda p, n, k, totals: p - n - k + 1,
    "coverage": lambda p, n, k, totals: p - n,
    "wracc": lambda p, n, k, totals: (
        (p * totals.negative - n * totals.positive) / (totals.positive + totals.negative) ** 2
    ),
    "m_estimate": lambda p, n, k, totals: (
        (p + totals.m * totals.positive / (totals.positive + totals.negative)) / (p + n + totals.m)
    ),
}


@dataclass
class FoundRule:
    """The best rule of a search, and what the search took; ``conjunction`` is None if no rule is good enough."""

    conjunction: Conjunction | None = None
    score: float = -np.inf
    positives: float = 0.0
    negatives: float = 0.0
    certified: bool = True
    n_nodes: int = 0

    def yields_to(self, score: float, conjunction: Conjunction) -> bool:
        """Whether another rule is better: of larger score, or shorter, or smaller."""
        if self.conjunction is None or score != self.score:
            return score > self.score
        return (len(conjunction), conjunction) < (len(self.conjunction), self.conjunction)


@dataclass
class RuleSearch:
    """Best-first search over conjunctions of 1 to ``max_order`` items.

    Attributes
    ----------
    truth : ndarray of bool of shape (n_rows, n_items)
        Distinct rows.
    complements : ndarray of int of shape (n_items,)
        The item that a conjunction with an item must not hold; -1 for none.
    score : str
        A key of ``SCORES``.
    max_order, noise, min_pos, min_score, m, max_nodes
        See ``RuleHMM``.

    Notes
    -----
    Children of a node extend it by items larger than its last one, so each conjunction is made once. A
    descendant covers no more positives than the node, has more items, and covers all negatives that the node
    covers together with all of the items that may still come; which bounds its score from above.
    """

    truth: np.ndarray
    complements: np.ndarray
    score: str
    max_order: int
    noise: float
    min_pos: float
    min_score: float
    m: float
    max_nodes: int

    def best(
        self,
        positive: np.ndarray,
        negative: np.ndarray,
        totals: tuple[float, float],
        taken: list[np.ndarray],
    ) -> FoundRule:
        """The best legal rule for positive and negative weights (n_rows,) of the rows.

        Parameters
        ----------
        positive, negative : ndarray of shape (n_rows,)
        totals : tuple of float
            Weights of all positives and negatives before any rule was taken.
        taken : list of ndarray of bool of shape (n_rows,)
            Truth of rules that must not be found again.
        """
        rate, weights = SCORES[self.score], Totals(*totals, self.m)
        best = FoundRule()
        n_items = self.truth.shape[1]
        queue: list[tuple[float, int, Conjunction, np.ndarray]] = [(-np.inf, 0, (), np.arange(len(positive)))]
        while queue:
            bound, _, conjunction, rows = heapq.heappop(queue)
            if self._is_hopeless(-bound, best):
                break
            if best.n_nodes >= self.max_nodes:
                best.certified = False
                break
            first = conjunction[-1] + 1 if conjunction else 0
            items = np.arange(first, n_items)
            items = items[~np.isin(self.complements[items], conjunction)]
            if not len(items):
                continue
            held = self.truth[np.ix_(rows, items)]
            p, n = positive[rows] @ held, negative[rows] @ held
            # what a child covers together with all items after it
            least = negative[rows] @ np.logical_and.accumulate(held[:, ::-1], axis=1)[:, ::-1]
            k = len(conjunction) + 1
            best.n_nodes += len(items)
            for j in np.flatnonzero(p >= self.min_pos):
                child = (*conjunction, int(items[j]))
                if n[j] <= self.noise * (p[j] + n[j]):
                    score = float(rate(p[j], n[j], k, weights))
                    if score > self.min_score and best.yields_to(score, child):
                        covered = np.zeros(len(positive), dtype=bool)
                        covered[rows[held[:, j]]] = True
                        if not any(np.array_equal(covered, other) for other in taken):
                            best.conjunction, best.score = child, score
                            best.positives, best.negatives = float(p[j]), float(n[j])
                if k < self.max_order and j + 1 < len(items):
                    hope = float(rate(p[j], least[j], k + 1, weights))
                    if not self._is_hopeless(hope, best):
                        heapq.heappush(queue, (-hope, k, child, rows[held[:, j]]))
        return best

    def _is_hopeless(self, bound: float, best: FoundRule) -> bool:
        """Whether a bound excludes anything better; equal ones are opened, since ties go to shorter rules."""
        slack = 1e-12 * abs(bound) if np.isfinite(bound) else 0.0
        if bound + slack <= self.min_score:
            return True
        return best.conjunction is not None and bound + slack < best.score
