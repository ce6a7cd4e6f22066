"""A run of steps along the average of remembered gradients of the likelihood of chains."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.objectives import _chain_average_steps
from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood
from sklearn_seqlab.objectives._chain_run import ChainRun

__all__ = ["ChainAverages"]

# Of the picks so many go by the curvatures, the rest are uniform.
_SHARE = 0.5


class ChainAverages(ChainRun):
    """Stochastic average gradient on ``objective / C``, from ``coef`` on.

    Each step replaces the remembered gradient of one sequence, and goes along the mean of those of all. Its length is
    the mean of the inverse of the largest curvature of a sequence and of that of their mean, as they are estimated on
    the way, in scaled variables.

    Parameters
    ----------
    objective : ChainLogLikelihood
        All labels known, no features on moves, without absolute values.
    coef : ndarray of shape (n_coef,)
        Where the run starts, and where the first gradients and curvatures are found.
    factor : float, default=1.0
        Multiplies the lengths of the steps.

    Notes
    -----
    A step takes the time of O(stored features * n_labels + n_steps * n_labels**2), without any work per coefficient;
    remembered are n_total * n_labels + n_sequences * n_labels**2 numbers and the summed gradients. Schmidt, Babanezhad,
    Ahmed, Defazio, Clifton and Sarkar, "Non-uniform stochastic average gradient method for training conditional random
    fields", AISTATS 2015; spec "chain models" 3.4. The penalty is a proximal step.
    """

    def __init__(self, objective: ChainLogLikelihood, coef: np.ndarray, factor: float = 1.0):
        if not objective.is_convex:
            raise ValueError("Gradients are remembered for sequences of known labels.")
        super().__init__(objective, coef)
        self.factor, self._rate = factor, 1.0 / (objective.C * self.n_sequences)
        self._length, self._seen = np.zeros(1), np.zeros(len(self._units[0]))
        self._node_sum, self._move_sum = np.zeros_like(self.node), np.zeros((self.n_labels, self.n_labels))
        self._row_sums = np.zeros((3, self.n_labels))
        self.losses = np.zeros(self.n_sequences)
        n_leaves = 1 << (self.n_sequences - 1).bit_length()
        self._memory = [
            np.zeros((objective.batch.n_total, self.n_labels)),
            np.zeros((self.n_sequences, self.n_labels, self.n_labels)),
            self.losses,
            np.zeros(2 * n_leaves),
            np.repeat(np.array([[0, 1]], dtype=np.intc), self.n_sequences, axis=0),
        ]
        self._work = [
            *self._rows(7),
            self._square(1),
            self._square(),
            *(self._square(1) for _ in range(3)),
            self._square(),
            np.empty(1),
            np.empty(3 * self.n_labels),
            *self._sums(),
        ]
        self.is_lost = not self._run(np.empty(0), True)

    def draw(self, draws: np.ndarray) -> None:
        """Steps on sequences picked by numbers from [0, 1); ``is_lost`` where a loss left the range of doubles."""
        self.is_lost = self.is_lost or not self._run(draws, False)

    def value_and_gradient(self) -> tuple[float, np.ndarray]:
        """Of the objective at the iterate, by the losses and gradients as they were when last seen."""
        objective = self.objective
        layout = objective.layout
        gradient = np.concatenate(
            [
                self._node_sum,
                self._move_sum[layout.allowed_transitions],
                self._row_sums[0, : len(self.start)],
                self._row_sums[1, : len(self.end)],
                self._row_sums[2, : len(self.intercept)],
            ]
        )
        gradient *= objective.C
        value = objective.C * float(self.losses.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            return objective.penalty.add_smooth(self.coef(), value, gradient), gradient

    def _run(self, draws: np.ndarray, is_still: bool) -> bool:
        objective = self.objective
        return _chain_average_steps.sweep(
            draws, _SHARE, is_still, self.factor, objective.batch.offsets, objective.weight, *self._inputs,
            objective.labels.codes, self._cost, *self._pairs, *self._units, self._rate, self._length, self._seen,
            self.node, self.transition, self.start, self.end, self.intercept, self._node_sum, self._move_sum,
            self._row_sums, *self._memory, *self._work,
        )  # fmt: skip

    def _caught_up(self) -> np.ndarray:
        passed = self._units[0] * (self._length[0] - self._seen)
        kept, pulled = 1.0 / (1.0 + self._rate * passed), passed / self.n_sequences
        return (self.node - np.repeat(pulled, self._n_pairs) * self._node_sum) * np.repeat(
            kept, self._n_pairs
        )
