"""Gaussian channels: a mean and a variance for each label and channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Statistics = dict[str, Any]
Parameters = dict[str, Any]

_LOG_2_PI = np.log(2 * np.pi)


class TooFar(ValueError):
    """A value lies so far from a mean that its density is beyond double precision; its row and column."""

    def __init__(self, row: int, column: int):
        super().__init__(
            f"The value in column {column} lies so many standard deviations from a mean that its density is beyond "
            "double precision."
        )
        self.row, self.column = row, column


def gather(values: np.ndarray, mass: np.ndarray) -> Statistics:
    """Weight, mean and sum of squared deviations (n_labels, n_channels) of values (n, n_channels) with NaN."""
    shape = mass.shape[1], values.shape[1]
    weight, mean, spread = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for label in range(shape[0]):
        rows = np.flatnonzero(mass[:, label])
        part, share = values[rows], mass[rows, label]
        seen = ~np.isnan(part)
        weight[label] = share @ seen
        # deviations from the mean, not a difference of large squares
        mean[label] = share @ np.where(seen, part, 0.0) / np.where(weight[label] > 0, weight[label], 1.0)
        spread[label] = share @ np.where(seen, part - mean[label], 0.0) ** 2
        _check_spread(part, spread[label])
    return {"weight": weight, "mean": mean, "spread": spread}


def _check_spread(part: np.ndarray, spread: np.ndarray) -> None:
    """Refuse values that differ, but whose squared deviations have lost their digits."""
    for column in np.flatnonzero(spread < 100 * np.finfo(np.float64).tiny):
        values = part[~np.isnan(part[:, column]), column]
        if len(values) and values.max() - values.min() > 0:
            raise ValueError(
                f"The values of Gaussian channel {column} are so small that their variance is below double precision: "
                "scale them (StandardScaler)."
            )


def merge(a: Statistics, b: Statistics) -> Statistics:
    """Statistics of two sets of steps together (Chan, Golub and LeVeque, 1983)."""
    weight = a["weight"] + b["weight"]
    share = b["weight"] / np.where(weight > 0, weight, 1.0)
    step = b["mean"] - a["mean"]
    return {
        "weight": weight,
        "mean": a["mean"] + share * step,
        "spread": a["spread"] + b["spread"] + step**2 * share * a["weight"],
    }


def grow(stats: Statistics, place: np.ndarray, n_labels: int) -> Statistics:
    """The same with more labels: old label ``k`` becomes label ``place[k]``."""
    return {name: _spread_out(part, place, n_labels) for name, part in stats.items()}


def _spread_out(part: np.ndarray, place: np.ndarray, n_labels: int) -> np.ndarray:
    out = np.zeros((n_labels, *part.shape[1:]))
    out[place] = part
    return out


def estimate(stats: Statistics, alpha: float, var_floor: float) -> Parameters:
    """Mean and variance; a label that no step shows takes those of all labels together."""
    weight, mean, spread = stats["weight"], stats["mean"], stats["spread"]
    pooled: Statistics = {name: part[:1] for name, part in stats.items()}
    for label in range(1, len(weight)):
        pooled = merge(pooled, {name: part[label : label + 1] for name, part in stats.items()})
    has_steps = weight > 0
    safe = np.where(has_steps, weight, 1.0)
    overall = pooled["spread"] / np.where(pooled["weight"] > 0, pooled["weight"], 1.0)
    variance = np.where(has_steps, spread / safe, overall)
    floor = var_floor * variance.max(axis=0)
    # a channel that is constant tells labels apart by nothing: any variance will do
    variance = np.where(variance.max(axis=0) > 0, variance + floor, 1.0)
    mean = np.where(has_steps, mean, pooled["mean"])
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        column = int(np.argmin(np.isfinite(mean + variance).all(axis=0)))
        raise ValueError(
            f"The values of Gaussian channel {column} are so large that their variance is beyond double precision."
        )
    return {"mean": mean, "variance": variance}


def scores(values: np.ndarray, params: Parameters) -> np.ndarray:
    """Log-densities (n, n_labels), nats; a channel that is NaN adds nothing."""
    mean, deviation = params["mean"], np.sqrt(params["variance"])
    log_norm = -0.5 * _LOG_2_PI - np.log(deviation)
    out = np.empty((len(values), len(mean)))
    total = np.nansum if np.isnan(values).any() else np.sum
    for label in range(len(mean)):
        terms = log_norm[label] - 0.5 * ((values - mean[label]) / deviation[label]) ** 2
        out[:, label] = total(terms, axis=1)
    if (out == -np.inf).any():
        row, label = np.argwhere(out == -np.inf)[0]
        raise TooFar(int(row), _farthest(values[row], mean[label], deviation[label]))
    return out


def _farthest(x: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> int:
    return int(np.nanargmax(np.abs((x - mean) / deviation)))


def row_scorer(params: Parameters) -> Callable[[np.ndarray], np.ndarray]:
    """``scores`` of one step (n_channels,), with as few operations as can be."""
    mean, rate = params["mean"], 1.0 / np.sqrt(2.0 * params["variance"])
    log_norm = 0.5 * np.log(rate**2 / np.pi)
    constant = log_norm.sum(axis=1)

    def row(x: np.ndarray) -> np.ndarray:
        distance = (x - mean) * rate
        distance *= distance
        out = constant - distance.sum(axis=1)
        if out[0] != out[0]:
            out = np.nansum(log_norm - distance, axis=1)
        if out.min() == -np.inf:
            label = int(np.argmin(out))
            raise TooFar(0, _farthest(x, mean[label], 1.0 / rate[label]))
        return out

    return row


def log_likelihood(stats: Statistics, params: Parameters) -> float:
    """Log-density of all steps behind the statistics."""
    variance = params["variance"]
    squares = stats["spread"] + stats["weight"] * (stats["mean"] - params["mean"]) ** 2
    log_norm = _LOG_2_PI + np.log(variance)
    return -0.5 * float((stats["weight"] * log_norm + squares / variance).sum())


def log_prior(params: Parameters) -> float:
    """Smoothing counts do not touch means and variances."""
    return 0.0
