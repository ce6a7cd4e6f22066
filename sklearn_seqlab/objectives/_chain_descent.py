"""A run of stochastic steps on the likelihood of chains: the iterate, and the arrays that its kernel works in."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.objectives import _chain_steps
from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood
from sklearn_seqlab.objectives._chain_run import ChainRun

__all__ = ["ChainDescent"]

# Steps on a stream have half their length after three times so many.
_STREAM_SCALE = 300


class ChainDescent(ChainRun):
    """Steps on single sequences of ``objective / C``, from ``coef`` on.

    The length of step ``k`` is ``eta / (1 + k * eta / (C * n_sequences))``, in scaled variables: of the gradient of one
    sequence's loss, and of its share of the penalty. In a stream, whose end nobody knows, it is
    ``eta / sqrt(1 + k / 300)``.

    Parameters
    ----------
    objective : ChainLogLikelihood
        Without features on moves and without absolute values.
    coef : ndarray of shape (n_coef,)
        Where the run starts; copied.
    eta : float
    n_before : int, default=None
        In a stream, the sequences that came before; all that have come share the penalty.

    Notes
    -----
    A sweep takes the time of O(stored features * n_labels + n_total * n_labels**2) without any work per coefficient.
    Bottou, "Large-scale machine learning with stochastic gradient descent", 2010; spec "chain models" 3.4.
    """

    def __init__(
        self,
        objective: ChainLogLikelihood,
        coef: np.ndarray,
        eta: float,
        n_before: int | None = None,
    ):
        super().__init__(objective, coef)
        self.eta = eta
        labels, n_labels = objective.labels, self.n_labels
        self._is_stream = n_before is not None
        self.n_steps, self._length = n_before or 0, np.zeros(1)
        self._rate = 1.0 / (objective.C * (self.n_steps + objective.batch.n_sequences))
        self._decay = (self._rate * eta, 1.0) if n_before is None else (1 / _STREAM_SCALE, 0.5)
        self._seen = np.zeros(len(self._units[0]))
        known = (labels.codes >= 0).all()
        nothing = np.empty((0, n_labels), dtype=np.uint8)
        self._fits = nothing if known else labels.allowed().astype(np.uint8)
        self._work = [
            *self._rows(5),
            self._square(1),
            self._square(),
            self._square(1),
            self._square(1),
            np.empty(1),
            np.empty(3 * n_labels),
        ]

    def sweep(self, order: np.ndarray) -> float:
        """A step on each of some sequences; the sum of their losses, each before its step (NaN if one is lost)."""
        objective = self.objective
        loss = _chain_steps.sweep(
            order, objective.batch.offsets, objective.weight, *self._inputs, objective.labels.codes, self._fits,
            self._cost, *self._pairs, *self._units, self._rate, self.eta,
            *self._decay, self.n_steps, self._length, self._seen, self.node, self.transition, self.start,
            self.end, self.intercept, *self._work,
        )  # fmt: skip
        self.n_steps += len(order)
        return loss

    def objective_of(self, loss: float, n_sequences: int | None = None) -> float:
        """The objective where the summed loss of some sequences (all) is ``loss``, with their share of the penalty.

        Without a penalty in a stream, where the share of a sequence is not known before the end.
        """
        if self._is_stream:
            return self.objective.C * loss
        objective, coef = self.objective, self.coef()
        share = 1.0 if n_sequences is None else n_sequences / self.n_sequences
        with np.errstate(over="ignore", invalid="ignore"):
            return objective.C * loss + share * objective.penalty.add_smooth(coef, 0.0, np.zeros_like(coef))

    def _caught_up(self) -> np.ndarray:
        kept = 1.0 / (1.0 + self._rate * self._units[0] * (self._length[0] - self._seen))
        return self.node * np.repeat(kept, self._n_pairs)
