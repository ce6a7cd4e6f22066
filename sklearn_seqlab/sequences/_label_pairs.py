"""Parameters that speak of labels, turned into matrices in the order of the classes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.sequences._labels import LabelCodes, check_label_names

__all__ = ["raise_if_forbidden", "read_allowed_transitions", "read_cost", "step_costs"]


def read_allowed_transitions(value: Any, labels: LabelCodes) -> np.ndarray:
    """Allowed moves as bool (n_labels, n_labels), from row to column.

    Parameters
    ----------
    value : None, "observed", mapping of label to collection of labels, or bool array-like
        See ``LinearChainCRF``.
    labels : LabelCodes

    Raises
    ------
    ValueError
        If the matrix does not fit the labels.
    """
    n_labels = labels.n_labels
    if value is None:
        return np.ones((n_labels, n_labels), dtype=bool)
    mask = np.zeros((n_labels, n_labels), dtype=bool)
    if isinstance(value, Mapping):
        place = {label: k for k, label in enumerate(labels.classes.tolist())}
        check_label_names(value, labels.classes, "allowed_transitions")
        for label, successors in value.items():
            if isinstance(successors, str | bytes) or not hasattr(successors, "__iter__"):
                raise ValueError(
                    f"allowed_transitions[{label!r}] is {successors!r}; expected a collection of labels."
                )
            check_label_names(successors, labels.classes, f"allowed_transitions[{label!r}]")
            to = [place[successor] for successor in successors if successor in place]
            if label in place:
                mask[place[label], to] = True
        return mask
    if isinstance(value, str):  # "observed"
        codes = labels.codes
        into = np.ones(len(codes), dtype=bool)
        into[labels.offsets[:-1]] = False
        into[1:] &= (codes[1:] >= 0) & (codes[:-1] >= 0)
        into = np.flatnonzero(into)
        mask[codes[into - 1], codes[into]] = True
        return mask
    mask = np.asarray(value)
    if mask.shape != (n_labels, n_labels) or mask.dtype != bool:
        raise ValueError(
            f"allowed_transitions has shape {mask.shape} and dtype {mask.dtype}; expected bool, "
            f"{(n_labels, n_labels)}, for the {n_labels} labels of y. A dict of labels fits any fold."
        )
    return mask


def read_cost(value: Any, classes: np.ndarray, name: str = "cost") -> np.ndarray:
    """Cost (n_labels, n_labels) of predicting the label of the column where that of the row is true.

    Parameters
    ----------
    value : float, mapping of (true, predicted) to float, or array-like
        See ``LinearChainCRF``.
    classes : ndarray of shape (n_labels,)
    name : str, default="cost"
        What messages call it.

    Raises
    ------
    ValueError
        If a cost is negative or not finite, a right label costs something, or the shape does not fit.
    """
    n_labels = len(classes)
    cost = 1.0 - np.eye(n_labels)
    if isinstance(value, Real):
        cost *= float(value)
    elif isinstance(value, Mapping):
        place = {label: k for k, label in enumerate(classes.tolist())}
        for pair, amount in value.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(amount, Real):
                raise ValueError(f"{name}[{pair!r}] is {amount!r}; expected a number for a pair of labels.")
            check_label_names(pair, classes, name)
            if pair[0] in place and pair[1] in place:
                cost[place[pair[0]], place[pair[1]]] = amount
    else:
        cost = np.asarray(value, dtype=np.float64)
        if cost.shape != (n_labels, n_labels):
            raise ValueError(
                f"{name} has shape {cost.shape}; expected {(n_labels, n_labels)} for the labels of y. "
                "A dict of pairs of labels fits any fold."
            )
    if not (np.isfinite(cost).all() and cost.min() >= 0 and not np.diag(cost).any()):
        raise ValueError(
            f"{name} must be finite and nonnegative, with zeros on its diagonal (right labels cost nothing)."
        )
    return cost


def step_costs(labels: LabelCodes, cost: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Cost (stop - start, n_labels) of each label at rows ``start:stop``: the least over the true labels possible.

    ``cost`` is (n_labels, n_labels), of predicting the column where the row is true. Nothing costs where no label is
    known.
    """
    codes = labels.codes[start:stop]
    known = codes >= 0
    costs = np.where(known[:, None], cost[np.where(known, codes, 0)], 0.0)
    for k in range(*np.searchsorted(labels.candidate_rows, [start, stop])):
        costs[labels.candidate_rows[k] - start] = cost[labels.candidate_masks[k]].min(axis=0)
    return costs


def raise_if_forbidden(
    labels: LabelCodes, allowed_transitions: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Refuse complete sequences with a forbidden move; returns the rows into which complete sequences move.

    Parameters
    ----------
    labels : LabelCodes
    allowed_transitions : ndarray of bool of shape (n_labels, n_labels)
    numbers : ndarray of shape (n_sequences,)
        What the caller calls the sequences.

    Raises
    ------
    InfeasibleSequenceError
        Naming the sequence, the step and the two labels.
    """
    codes, offsets = labels.codes, labels.offsets
    into = np.repeat(labels.is_complete(), np.diff(offsets))
    into[offsets[:-1]] = False
    into = np.flatnonzero(into)
    forbidden = ~allowed_transitions[codes[into - 1], codes[into]]
    if forbidden.any():
        row = int(into[np.argmax(forbidden)])
        s = int(np.searchsorted(offsets, row, side="right")) - 1
        before, after = labels.classes[codes[[row - 1, row]]].tolist()
        raise InfeasibleSequenceError(
            f"y[{numbers[s]}] moves from {before!r} to {after!r} at time step {row - offsets[s]}, "
            "which allowed_transitions forbids."
        )
    return into
