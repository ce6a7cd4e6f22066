"""A run of coordinate ascent on the dual of the likelihood of chains."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.objectives import _chain_ascent_steps
from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood
from sklearn_seqlab.objectives._chain_run import ChainRun

__all__ = ["ChainAscent"]

# Of the picks so many go by the gaps, the rest are uniform.
_SHARE = 0.8


class ChainAscent(ChainRun):
    """Marginals of a distribution over the labellings of each sequence, and the weights that they stand for.

    The dual of ``ChainLogLikelihood`` with a squared penalty on all weights is, over distributions ``mu_s``,

        D(mu) = C * sum_s weight_s * (H(mu_s) + expected cost) - ||w(mu)||**2 / 2
        w(mu) = C * sum_s weight_s * (features of y_s - those that mu_s expects).

    What the objective at ``w(mu)`` exceeds ``D(mu)`` by, the duality gap, is ``C * sum_s weight_s * KL(mu_s || p_s)``
    with ``p_s`` the distribution of the model. A step goes from ``mu_s`` towards ``p_s``, as far as the dual rises.
    The run starts where ``mu_s`` is sure of ``y_s``: all weights are zero, and so is the dual.

    Parameters
    ----------
    objective : ChainLogLikelihood
        All labels known, no intercept, no features on moves, without absolute values.

    Attributes
    ----------
    dual_node : ndarray of shape (n_total, n_labels)
    dual_edge : ndarray of shape (n_total, n_labels, n_labels)
        Of the move into each step; zero at the first of a sequence.
    entropy : ndarray of shape (n_sequences,)
        Of the distributions, in nats.

    Notes
    -----
    A step takes the time of O(stored features * n_labels + n_steps * n_labels**2), with two or three logarithms for
    each move of each step; memory is that of the marginals. Le Priol, Piché and Lacoste-Julien, "Adaptive stochastic
    dual coordinate ascent for conditional random fields", UAI 2018; spec "chain models" 3.4.
    """

    def __init__(self, objective: ChainLogLikelihood):
        if not objective.is_convex or objective.layout.cuts[-1] < objective.n_coef:
            raise ValueError("The dual is that of known labels and of weights that are all penalised.")
        super().__init__(objective, np.zeros(objective.n_coef))
        codes, n_total = objective.labels.codes, objective.batch.n_total
        self.dual_node = np.zeros((n_total, self.n_labels))
        self.dual_node[np.arange(n_total), codes] = 1.0
        self.dual_edge = np.zeros((n_total, self.n_labels, self.n_labels))
        into = np.setdiff1d(np.arange(n_total), objective.batch.offsets[:-1], assume_unique=True)
        self.dual_edge[into, codes[into - 1], codes[into]] = 1.0
        self.entropy = np.zeros(self.n_sequences)
        self._n_leaves = 1 << (self.n_sequences - 1).bit_length()
        self._tree = np.zeros(2 * self._n_leaves)
        at_once = max(self.longest, 2)
        self._work = [
            *self._rows(4),
            self._square(1),
            self._square(),
            self._square(at_once),
            self._square(at_once),
            self._square(),
            np.empty(1),
            np.empty(3 * self.n_labels),
            *self._sums(),
        ]

    @property
    def gaps(self) -> np.ndarray:
        """Share of each sequence in the duality gap when it was last looked at, (n_sequences,), in nats."""
        return self._tree[self._n_leaves : self._n_leaves + self.n_sequences]

    def sweep(self, order: np.ndarray) -> float:
        """A step on each of some sequences; the sum of their losses, each before its step (NaN if one is lost)."""
        return self._run(order, np.empty(0), False)

    def draw(self, draws: np.ndarray) -> float:
        """Steps on sequences picked by numbers from [0, 1), mostly those of large gaps."""
        return self._run(np.empty(0, dtype=np.intp), draws, False)

    def measure(self) -> tuple[float, float]:
        """The objective at the weights, and the duality gap, from one look at every sequence."""
        loss = self._run(np.arange(self.n_sequences), np.empty(0), True)
        with np.errstate(over="ignore", invalid="ignore"):
            coef = self.coef()
            return self.objective.C * loss + 0.5 * float(coef @ coef), float(self.gaps.sum())

    def _run(self, order: np.ndarray, draws: np.ndarray, is_still: bool) -> float:
        objective = self.objective
        return _chain_ascent_steps.sweep(
            order, draws, _SHARE, is_still, objective.C, objective.batch.offsets, objective.weight, *self._inputs,
            objective.labels.codes, self._cost, *self._pairs, self.node, self.transition, self.start, self.end,
            self.dual_node, self.dual_edge, self.entropy, self._tree, *self._work,
        )  # fmt: skip
