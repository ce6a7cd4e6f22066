"""Learning prior variances and parameters of kernels by the lower bound.

At the optimum of the variational distribution the bound's derivative by a hyper-parameter may be taken with the duals
and precisions held; that path needs no inverse of the kernel matrix, and takes long steps.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize

from sklearn_seqlab.gaussian_process._full_covariance import Scales
from sklearn_seqlab.gaussian_process._kernels import Kernels
from sklearn_seqlab.solvers import SolverOutcome

__all__ = ["Inference", "at_limit", "learn", "mackay", "quasi_newton"]

_MAX_UPDATES, _LARGEST_STEP, _SMALL_STEP = 60, 3.0, 0.02
_SCALE_BOUNDS = (np.log(1e-5), np.log(1e5))


class Inference(Protocol):
    """What solves a model for given hyper-parameters."""

    history: Any
    value: Any

    def solve(
        self, kernels: Any, scales: Scales, max_iter: int, tol: float, callback: Any = None
    ) -> SolverOutcome: ...

    def learnt_scales(self) -> tuple[float, float]: ...

    def gradient(self) -> tuple[np.ndarray, np.ndarray]: ...


def learn(
    optimizer: str | None,
    inference: Any,
    kernels: Kernels,
    scales: Scales,
    max_iter: int,
    tol: float,
    callback: Any = None,
) -> tuple[Kernels, Scales, SolverOutcome]:
    """Solve, and learn hyper-parameters if there is an optimizer: kernels, scales and the last outcome."""
    if optimizer is None:
        return kernels, scales, inference.solve(kernels, scales, max_iter, tol, callback)
    rule = mackay if optimizer == "mackay" else quasi_newton
    return rule(inference, kernels, scales, max_iter, tol, callback)


def at_limit(scales: Scales) -> bool:
    """Whether a learnt variance stands where the search ends."""
    limits = np.exp(_SCALE_BOUNDS)
    return bool(np.isclose(np.array([[scales.kernel], [scales.coupling]]), limits, rtol=1e-6).any())


def mackay(
    inference: Any, kernels: Kernels, scales: Scales, max_iter: int, tol: float, callback: Any = None
) -> tuple[Kernels, Scales, SolverOutcome]:
    """MacKay's updates of the two prior variances until none changes by more than two hundredths.

    The updates raise the bound where the approximation is exact. Where one lowers it, the variances before are kept.
    """
    best: tuple[float, Scales] | None = None
    outcome = SolverOutcome(np.empty(0), np.nan, 0, False, "")
    for _ in range(_MAX_UPDATES):
        try:
            outcome = inference.solve(kernels, scales, max_iter, tol, callback)
        except KeyboardInterrupt:
            if best is None:
                raise
            scales, outcome.interrupted = best[1], True
        if outcome.interrupted:
            break
        if best is not None and inference.value < best[0]:
            scales = best[1]
            outcome = inference.solve(kernels, scales, max_iter, tol, callback)
            break
        best = inference.value, scales
        with np.errstate(divide="ignore"):
            steps = np.clip(inference.learnt_scales(), 1.0 / _LARGEST_STEP, _LARGEST_STEP)
        old = np.array([scales.kernel, scales.coupling])
        new = np.clip(old * steps, *np.exp(_SCALE_BOUNDS))
        if np.abs(np.log(new / old)).max() < _SMALL_STEP:
            break
        scales = Scales(float(new[0]), float(new[1]))
    else:
        outcome = inference.solve(kernels, scales, max_iter, tol, callback)
    return kernels, scales, outcome


def quasi_newton(
    inference: Any, kernels: Kernels, scales: Scales, max_iter: int, tol: float, callback: Any = None
) -> tuple[Kernels, Scales, SolverOutcome]:
    """L-BFGS-B on the logarithms of all hyper-parameters, the bound maximised anew for each.

    The scale of a kernel that has parameters of its own is one of them, or should be: ``scale`` is held.
    """
    learn_scale = kernels is None
    theta = np.concatenate([kernel.theta for kernel in kernels or []] or [np.empty(0)])
    own_bounds = np.concatenate([kernel.bounds for kernel in kernels or []] or [np.empty((0, 2))])
    start = np.log([scales.kernel, scales.coupling]) if learn_scale else np.log([scales.coupling])
    start = np.concatenate([start, theta])
    bounds = [_SCALE_BOUNDS] * (len(start) - len(theta)) + list(map(tuple, own_bounds))
    best: dict[str, Any] = {}

    def unpack(point: np.ndarray) -> tuple[Kernels, Scales]:
        if learn_scale:
            return None, Scales(float(np.exp(point[0])), float(np.exp(point[1])))
        parts, place = [], 1
        for kernel in kernels or []:
            parts.append(kernel.clone_with_theta(point[place : place + len(kernel.theta)]))
            place += len(kernel.theta)
        return parts, Scales(scales.kernel, float(np.exp(point[0])))

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        outcome = inference.solve(*unpack(point), max_iter, tol, callback)
        if not best or inference.value > best["value"]:
            best.update(value=inference.value, point=point.copy())
        if outcome.interrupted:
            raise KeyboardInterrupt
        by_scale, by_theta = inference.gradient()
        gradient = np.concatenate([by_scale if learn_scale else by_scale[1:], by_theta])
        return -inference.value, -gradient

    interrupted = False
    try:
        minimize(loss, np.clip(start, *np.array(bounds).T), jac=True, method="L-BFGS-B", bounds=bounds)
    except KeyboardInterrupt:
        interrupted = True
        if not best:
            raise
    kernels, scales = unpack(best["point"])
    outcome = inference.solve(kernels, scales, max_iter, tol, callback)
    outcome.interrupted = outcome.interrupted or interrupted
    return kernels, scales, outcome
