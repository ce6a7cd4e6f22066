"""Checks at the public door of the inference core, shared by the structures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def store_scores(container: Any, *names: str) -> None:
    """Turn fields of a frozen container into contiguous arrays of doubles; None stays.

    Raises
    ------
    TypeError
        If one holds complex numbers.
    """
    for name in names:
        value = getattr(container, name)
        if np.iscomplexobj(value):
            raise TypeError(f"{name} holds complex numbers; expected real scores.")
        if value is not None:
            object.__setattr__(container, name, np.ascontiguousarray(value, dtype=np.float64))


def check_values(name: str, values: np.ndarray) -> None:
    """Raise for a score that is NaN or plus infinity, naming its place."""
    if not values.max() < np.inf:  # NaN too
        place = tuple(int(i) for i in np.argwhere(~(values < np.inf))[0])
        raise ValueError(f"{name}{list(place)} is {values[place]}; expected a number or minus infinity.")


def check_transition(transition: np.ndarray, n_total: int, n_labels: int) -> None:
    """Raise unless there is a matrix for all steps or one for each."""
    if transition.shape not in ((n_labels, n_labels), (n_total, n_labels, n_labels)):
        raise ValueError(
            f"transition has shape {transition.shape}; expected {(n_labels, n_labels)} "
            f"or {(n_total, n_labels, n_labels)}."
        )


def check_ends_of_sequences(n_labels: int, **scores: np.ndarray | None) -> None:
    """Raise unless ``initial`` and ``final`` are None or have a number for every label."""
    for name, values in scores.items():
        if values is None:
            continue
        if values.shape != (n_labels,):
            raise ValueError(f"{name} has shape {values.shape}; expected ({n_labels},).")
        check_values(name, values)


def checked_offsets(offsets: ArrayLike, n_total: int) -> np.ndarray:
    given = np.asarray(offsets)
    if given.dtype.kind not in "iu":
        raise ValueError(f"offsets has dtype {given.dtype}; expected integers.")
    bounds = np.ascontiguousarray(given, dtype=np.intp)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != n_total:
        raise ValueError(f"offsets must be one-dimensional and run from 0 to {n_total}.")
    if (np.diff(bounds) < 1).any():
        raise ValueError(f"Sequence {int(np.argmax(np.diff(bounds) < 1))} has no time steps.")
    return bounds


def checked_allowed(allowed: ArrayLike, shape: tuple[int, int]) -> np.ndarray:
    mask = np.asarray(allowed)
    if mask.shape != shape or mask.dtype != bool:
        raise ValueError(f"allowed has shape {mask.shape} and dtype {mask.dtype}; expected bool, {shape}.")
    return mask


def checked_labels(codes: ArrayLike, n_total: int, n_labels: int, name: str = "codes") -> np.ndarray:
    labels = np.asarray(codes)
    if labels.shape != (n_total,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"{name} has shape {labels.shape} and dtype {labels.dtype}; expected int, ({n_total},)."
        )
    if labels.min() < 0 or labels.max() >= n_labels:
        raise ValueError(f"{name} holds labels outside 0..{n_labels - 1}.")
    return labels
