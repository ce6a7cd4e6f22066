"""What every solver takes and what it returns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

__all__ = ["CertifiedOutcome", "Objective", "SolverOutcome", "report"]


class Objective(Protocol):
    """A function to minimise; a solver knows no more of a model than this.

    Attributes
    ----------
    n_coef : int
    scale : ndarray of shape (n_coef,)
        Typical size of what each coefficient multiplies. Solvers work on ``coef * scale``, so that neither
        steps nor stopping rules depend on the units of the features.
    size : float
        What the gradient of an unscaled coefficient may amount to (weight of all time steps times ``C``):
        rounding is measured against it.
    preconditioner : ndarray of shape (n_coef,) or None, optional
        What quasi-Newton methods multiply coefficients by in place of ``scale``, which still says what is small.
    l1 : ndarray of shape (n_coef,) or None
        Weight of the absolute value of each coefficient; ``value_and_gradient`` leaves this term out.
    """

    n_coef: int
    scale: np.ndarray
    size: float
    l1: np.ndarray | None

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of the smooth part at ``coef``."""
        ...


@dataclass
class SolverOutcome:
    """The best point found.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
    value : float
        Of the whole objective, absolute values included.
    n_iter : int
    converged : bool
    message : str
        Why the solver stopped.
    history : list of float
        Objective at the start and after each iteration.
    interrupted : bool
        Whether the user pressed Ctrl-C.
    """

    coef: np.ndarray
    value: float
    n_iter: int
    converged: bool
    message: str
    history: list[float] = field(default_factory=list)
    interrupted: bool = False


@dataclass
class CertifiedOutcome(SolverOutcome):
    """The best point found, and a bound of what the optimum is.

    Attributes
    ----------
    dual : float
        Best lower bound of the optimum.
    """

    dual: float = 0.0

    @property
    def gap(self) -> float:
        """Upper less lower bound of the optimum; rounding is not reported as a negative gap."""
        return max(0.0, self.value - self.dual)


def report(outcome: SolverOutcome, cure: str) -> None:
    """Warn, in one place for all estimators, where a solver has not converged."""
    if not outcome.converged and not outcome.interrupted:
        warnings.warn(
            f"The solver stopped after {outcome.n_iter} iterations: {outcome.message}. {cure}",
            ConvergenceWarning,
            stacklevel=3,
        )
