"""Binary channels: a probability for each label and channel. CSR input is never made dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import xlog1py, xlogy

from sklearn_seqlab.hmm._gaussian import Parameters, Statistics, grow

__all__ = ["estimate", "gather", "grow", "log_likelihood", "log_prior", "merge", "row_scorer", "scores"]


def gather(values: Any, mass: np.ndarray) -> Statistics:
    """Weight of the steps that show a channel, and of those that show it on, (n_labels, n_channels)."""
    on, hidden = _parts(values)
    weight = np.repeat(mass.sum(axis=0)[:, None], values.shape[1], axis=1)
    if hidden is not None:
        weight -= (hidden.T @ mass).T
    return {"weight": weight, "on": np.ascontiguousarray((on.T @ mass).T)}


def merge(a: Statistics, b: Statistics) -> Statistics:
    """Statistics of two sets of steps together."""
    return {name: a[name] + b[name] for name in a}


def estimate(stats: Statistics, alpha: float, var_floor: float) -> Parameters:
    """Smoothed shares of on; one half where nothing was seen."""
    total = stats["weight"] + 2 * alpha
    probability = np.where(total > 0, (stats["on"] + alpha) / np.where(total > 0, total, 1.0), 0.5)
    return {"probability": np.clip(probability, 0.0, 1.0)}


def scores(values: Any, params: Parameters) -> np.ndarray:
    """Log-probabilities (n, n_labels), nats; a channel that is NaN adds nothing."""
    weight, log_off, never, always = _tables(params)
    on, hidden = _parts(values)
    out = np.asarray(on @ weight.T) + log_off.sum(axis=1)
    if hidden is not None:
        out -= hidden @ log_off.T
    if never.any() or always.any():
        broken = on @ (never - always).T + always.sum(axis=1)
        if hidden is not None:
            broken -= hidden @ always.T
        out[broken > 0.5] = -np.inf
    return out


def row_scorer(params: Parameters) -> Callable[[np.ndarray], np.ndarray]:
    """``scores`` of one step (n_channels,), with as few operations as can be."""
    weight, log_off, never, always = _tables(params)
    constant = log_off.sum(axis=1)
    if never.any() or always.any():
        return lambda x: scores(x[None], params)[0]

    def row(x: np.ndarray) -> np.ndarray:
        out = weight @ x + constant
        return out if out[0] == out[0] else scores(x[None], params)[0]

    return row


def log_likelihood(stats: Statistics, params: Parameters) -> float:
    """Log-probability of all steps behind the statistics."""
    off = np.maximum(stats["weight"] - stats["on"], 0.0)
    p = params["probability"]
    return float((xlogy(stats["on"], p) + xlog1py(off, -p)).sum())


def log_prior(params: Parameters) -> float:
    """What one smoothing count adds to the log of the objective."""
    p = params["probability"]
    return float((np.log(p) + np.log1p(-p)).sum())


def _parts(values: Any) -> tuple[Any, Any]:
    """Which entries are on, and which are not known (None if all are), as matrices of 0 and 1."""
    data = values.data if sparse.issparse(values) else values
    hidden = np.isnan(data)
    if not hidden.any():
        return values, None
    parts = np.where(hidden, 0.0, data), hidden.astype(float)
    if not sparse.issparse(values):
        return parts
    return tuple(sparse.csr_array((part, values.indices, values.indptr), values.shape) for part in parts)


def _tables(params: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``log p - log(1 - p)``, ``log(1 - p)``, and which values are impossible; those logs are 0 here."""
    p = params["probability"]
    never, always = p == 0.0, p == 1.0
    log_on, log_off = np.log(np.where(never, 1.0, p)), np.log1p(-np.where(always, 0.0, p))
    return log_on - log_off, log_off, never.astype(float), always.astype(float)
