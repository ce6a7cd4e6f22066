"""A chain that arrives one step at a time: filtering, and smoothing with a fixed lag. Trusted, as ``PackedChains``."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import _chain_online

__all__ = ["OnlineChain"]


class OnlineChain:
    """Messages of the last ``lag + 1`` steps of a stream.

    Parameters
    ----------
    transition : ndarray of shape (n_labels, n_labels), dtype=float64, C-contiguous
        Scores of moves from row to column, nats; not read where steps bring moves of their own.
    initial, final : ndarray of shape (n_labels,)
        Added at the first step, and at the last one by ``finish``.
    lag : int
    moves_vary : bool, default=False
        Whether each step brings the scores of the moves into it.

    Notes
    -----
    A step takes O((lag + 1) * n_labels**2) time, and memory stays O((lag + 1) * n_labels), however long the stream is
    (``n_labels**2`` for ``n_labels`` where moves vary).
    """

    def __init__(
        self,
        transition: np.ndarray,
        initial: np.ndarray,
        final: np.ndarray,
        lag: int,
        moves_vary: bool = False,
    ):
        n_labels = len(initial)
        self.n_steps, self.lag = 0, lag
        self._infeasible = False
        self._initial, self._final, self._none = initial, np.ascontiguousarray(final), np.zeros(n_labels)
        self._moves_vary = moves_vary
        self._moves = np.zeros((lag + 1, n_labels, n_labels)) if moves_vary else transition[None]
        self._log_alpha, self._ring = np.zeros((lag + 1, n_labels)), np.zeros((lag + 1, n_labels))
        self._row = np.empty(3 * n_labels)

    def step(self, unary: np.ndarray, moves: np.ndarray | None = None) -> np.ndarray | None:
        """Take the scores (n_labels,) of one step; probabilities (n_labels,) of the step ``lag`` back.

        Raises
        ------
        InfeasibleSequenceError
            If no labelling of the steps so far is possible.
        ValueError
            If scores are NaN or plus infinity.
        """
        if self._infeasible:
            self._raise(-np.inf)
        n = self.n_steps
        if n == 0:
            top = unary.max()
            unary = (unary - top if np.isfinite(top) else unary) + self._initial
        if self._moves_vary:
            self._moves[n % (self.lag + 1)] = moves
        proba = np.empty(len(unary))
        size = _chain_online.forward_step(
            unary, self._moves, n, self._row, self._log_alpha, self._ring, proba
        )
        if size - size != 0.0:
            self._raise(size)
        self.n_steps = n + 1
        if self.lag == 0:
            return proba
        return self._smoothed(self._none, self.lag, 1)[0] if n >= self.lag else None

    def finish(self) -> np.ndarray:
        """Probabilities (min(lag, n_steps), n_labels) of the last steps, now that the stream has ended."""
        if self._infeasible:
            self._raise(-np.inf)
        n_last = min(self.lag, self.n_steps)
        if n_last == 0:
            return np.empty((0, len(self._none)))
        return self._smoothed(self._final, n_last - 1, n_last)

    def _smoothed(self, final: np.ndarray, n_back: int, n_out: int) -> np.ndarray:
        proba = np.empty((n_out, len(final)))
        size = _chain_online.backward_steps(
            self._ring, self._moves, self._log_alpha, final, self.n_steps - 1, n_back, self._row, proba
        )
        if size - size != 0.0:
            self._raise(size)
        return proba

    def _raise(self, size: float) -> None:
        if size == -np.inf:
            self._infeasible = True
            raise InfeasibleSequenceError(
                f"The stream has no feasible labelling: no allowed label can be reached at time step {self.n_steps}."
            )
        raise ValueError(
            f"The scores of the stream at time step {self.n_steps} are beyond double precision: features are too "
            "large for their coefficients."
        )
