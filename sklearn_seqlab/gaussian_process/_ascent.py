"""Sweeps of a lower bound until little is left to gain, with longer steps for those that crawl.

Three points of a run tell where it goes, and how far it has to go.

Varadhan and Roland, "Simple and globally convergent methods for accelerating the convergence of any EM algorithm",
Scandinavian Journal of Statistics 2008 (scheme S3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sklearn_seqlab.solvers import SolverOutcome

__all__ = ["Ascent", "ascend"]

# A value that rises by no more than this share has not risen.
_ROUNDING = 1e-14
_MAX_WAIT = 16


class Ascent(Protocol):
    """A state with a bound, and what raises it."""

    @property
    def lower_bound(self) -> float:
        """The lower bound, in nats."""
        ...

    def sweep(self) -> bool:
        """One step that does not lower the bound; whether there was one."""
        ...

    def point(self) -> np.ndarray:
        """The state as a vector, in units in which entries are alike."""
        ...

    def try_point(self, point: np.ndarray) -> bool:
        """Move there if the bound is higher; whether it was."""
        ...

    def settles(self, tol: float) -> bool:
        """Whether the gradient promises no more than about ``tol`` of the bound; to find out, a step may be made."""
        ...


def ascend(
    ascent: Ascent,
    outcome: SolverOutcome,
    max_iter: int,
    tol: float,
    callback: Callable[[int, float], None] | None = None,
) -> SolverOutcome:
    """Sweep until what is left to rise, by the last two sweeps, is less than ``tol`` of the bound.

    A geometric series of rises tells what is left. Every two sweeps a step further is tried, and where these steps
    fail, more rarely.
    """
    rises: list[float] = []
    wait = waited = 0
    points = [ascent.point()]
    try:
        while outcome.n_iter < max_iter:
            before = ascent.lower_bound
            moved = ascent.sweep()
            outcome.n_iter += 1
            outcome.history.append(ascent.lower_bound)
            if callback is not None:
                callback(outcome.n_iter, ascent.lower_bound)
            rises.append(ascent.lower_bound - before)
            enough = max(tol, _ROUNDING) * abs(ascent.lower_bound)
            if not moved or (len(rises) > 1 and _left(rises) <= enough):
                settled = ascent.settles(tol)
                outcome.history[-1] = ascent.lower_bound
                if settled or not moved:
                    outcome.converged, outcome.message = settled, "the lower bound no longer rose"
                    break
            points.append(ascent.point())
            if len(points) == 3:
                waited += 1
                further = _further(*points) if waited > wait else None
                if further is not None:
                    waited = 0
                    if ascent.try_point(further):
                        rises, wait = [], 0
                    else:
                        wait = min(_MAX_WAIT, 2 * wait + 1)
                points = [ascent.point()]
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
    return outcome


def _left(rises: list[float]) -> float:
    """What the series of rises still adds up to."""
    last, before = rises[-1], rises[-2]
    if last <= 0:
        return 0.0
    return last * last / (before - last) if before > last else np.inf


def _further(start: np.ndarray, middle: np.ndarray, end: np.ndarray) -> np.ndarray | None:
    step = middle - start
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        change = end - middle
        change -= step
        ratio: Any = np.linalg.norm(step) / np.linalg.norm(change)
        if not 1.0 < ratio < np.inf:
            return None
        change *= ratio**2
        change += (2.0 * ratio) * step
        change += start
    return change if np.isfinite(change).all() else None
