"""Stochastic gradient descent over sequences, plain and with AdaGrad steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.solvers._outcome import SolverOutcome
from sklearn_seqlab.solvers._stopping import check_start

__all__ = ["best_length", "stochastic"]

# Step sizes are tried on at most so many sequences, a factor of two apart.
_N_TRIAL, _N_DOUBLINGS = 64, 20

# One pass of small change may be chance, or a step size that shrinks: so many in a row are a sign.
_N_CALM = 5

Callback = Callable[[int, float], None]


def stochastic(
    objective: Any,
    start: np.ndarray,
    *,
    method: str = "adagrad",
    eta0: float | str = "auto",
    batch_size: int = 1,
    average: bool = True,
    max_iter: int = 200,
    tol: float = 1e-4,
    random_state: Any = None,
    callback: Callback | None = None,
) -> SolverOutcome:
    """Minimise a sum over sequences, a few sequences at a time.

    Parameters
    ----------
    objective : HierarchyLogLikelihood or alike
        With ``value_and_gradient``, ``sequence_value_and_gradient``, ``n_sequences``, ``scale``, and a ``penalty``
        that is half the squared norm of what it says is penalised.
    start : ndarray of shape (n_coef,)
    method : {"sgd", "adagrad"}, default="adagrad"
        "sgd" lowers the step size as ``eta0 / (1 + k / n_sequences)`` after ``k`` sequences; "adagrad" divides it by
        the root of the summed squared gradients of each coefficient.
    eta0 : float or "auto", default="auto"
        "auto" doubles or halves from 0.1 while that lowers the loss of a first pass over some sequences.
    batch_size : int, default=1
        Sequences per step.
    average : bool, default=True
        Whether the result is the mean of the iterates of the second half of each run of passes.
    max_iter : int, default=200
        Largest number of passes over the data.
    tol : float, default=1e-4
        Stop where five passes in a row changed the objective by less than this share each.
    random_state : int, RandomState instance or None
    callback : callable, default=None
        Called with the pass and the objective.

    Returns
    -------
    outcome : SolverOutcome

    Raises
    ------
    ValueError
        If the objective is not finite at the start.

    Notes
    -----
    Works on ``coef * scale``. Bottou, "Large-scale machine learning with stochastic gradient descent", 2010;
    Duchi, Hazan and Singer, "Adaptive subgradient methods", JMLR 2011.
    """
    random = check_random_state(random_state)
    callback = callback or (lambda iteration, value: None)
    value, gradient = objective.value_and_gradient(start)
    check_start(value, float(np.abs(gradient / objective.scale).max()))
    outcome = SolverOutcome(start.copy(), value, 0, False, "", [value])
    run = _Run(objective, start, method, batch_size)
    try:
        run.eta = _calibrate(objective, start, method, batch_size, random) if eta0 == "auto" else float(eta0)
        best, n_calm = start.copy(), 0
        while outcome.n_iter < max_iter:
            callback(outcome.n_iter, outcome.value)
            candidate = run.sweep(_batches(objective.n_sequences, batch_size, random), average)
            value = np.inf if candidate is None else objective.value_and_gradient(candidate)[0]
            outcome.n_iter += 1
            if candidate is None or not np.isfinite(
                value
            ):  # a step too long: start again from the best with half of it
                outcome.history.append(outcome.value)
                run = _Run(objective, best, method, batch_size, run.eta / 2)
                continue
            outcome.history.append(value)
            change = outcome.value - value
            if change > 0:
                best, outcome.value, outcome.coef = candidate.copy(), value, candidate.copy()
            n_calm = n_calm + 1 if abs(change) <= tol * max(abs(value), 1.0) else 0
            if n_calm == _N_CALM:
                outcome.converged = True
                outcome.message = f"{_N_CALM} passes changed the objective by less than tol each"
                break
        else:
            outcome.message = f"The largest number of passes, {max_iter}, was reached"
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
    return outcome


class _Run:
    """The iterate and its step sizes."""

    def __init__(self, objective: Any, start: np.ndarray, method: str, batch_size: int, eta: float = 0.1):
        self.objective, self.method, self.eta = objective, method, eta
        self.coef, self.n_seen = start.copy(), 0
        self.squares = np.full_like(start, 1e-8)

    def sweep(self, batches: list[np.ndarray], average: bool) -> np.ndarray | None:
        """A step per batch; the mean of the iterates, or the last of them, or None where they are lost."""
        total = np.zeros_like(self.coef)
        with np.errstate(over="ignore", invalid="ignore"):
            for batch in batches:
                if not np.isfinite(self.step(batch)):
                    return None
                total += self.coef
            candidate = total / len(batches) if average else self.coef
        return candidate if np.isfinite(candidate).all() else None

    def step(self, sequences: np.ndarray) -> float:
        """One step on some sequences; returns their loss before it."""
        objective, n = self.objective, self.objective.n_sequences
        loss, gradient = objective.sequence_value_and_gradient(self.coef, sequences)
        if not np.isfinite(loss):
            return loss
        # per sequence, in scaled variables; the penalty is shared out over the sequences
        slope = (gradient / len(sequences) + objective.penalty.penalised * self.coef / n) / objective.scale
        if self.method == "adagrad":
            self.squares += slope**2
            move = self.eta * slope / np.sqrt(self.squares)
        else:
            move = self.eta / (1 + self.n_seen / n) * slope
        self.coef -= move / objective.scale
        self.n_seen += len(sequences)
        return loss


def _batches(n_sequences: int, batch_size: int, random: Any) -> list[np.ndarray]:
    order = random.permutation(n_sequences)
    return [order[a : a + batch_size] for a in range(0, n_sequences, batch_size)]


def _calibrate(objective: Any, start: np.ndarray, method: str, batch_size: int, random: Any) -> float:
    """The step size, among powers of two times 0.1, with the least loss after a pass over a sample."""
    sample = random.permutation(objective.n_sequences)[:_N_TRIAL]

    def loss_after(eta: float) -> float:
        run = _Run(objective, start, method, batch_size, eta)
        parts = [sample[a : a + batch_size] for a in range(0, len(sample), batch_size)]
        if run.sweep(parts, False) is None:
            return np.inf
        loss = objective.sequence_value_and_gradient(run.coef, sample)[0]
        return loss if np.isfinite(loss) else np.inf

    return best_length(loss_after)


def best_length(loss_after: Callable[[float], float]) -> float:
    """The length of steps, 0.1 doubled or halved for as long as that lowers the loss."""
    eta, loss = 0.1, loss_after(0.1)
    for factor in (2.0, 0.5):
        for _ in range(_N_DOUBLINGS):
            other = loss_after(eta * factor)
            if not other < loss:
                break
            eta, loss = eta * factor, other
        if eta > 0.1:
            break
    return eta
