"""Steps of boosting as arrays, the weights that they sum to, and the names of the features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_seqlab.objectives import FEATURE_SETS, ChainCoefficients
from sklearn_seqlab.solvers import BoostingOutcome, SolverOutcome

__all__ = ["STEP", "boosted_steps", "coefficients_of", "joint_steps", "names_of", "summed"]

STEP = [("round", np.intp), ("feature", np.intp), ("amount", np.float64)]


def coefficients_of(
    coef: np.ndarray, n_labels: int, n_inputs: int, feature_set: str, fit_intercept: bool
) -> tuple[ChainCoefficients, np.ndarray]:
    """A vector of weights in the shapes that users see, and the inputs that weigh moves.

    Parameters
    ----------
    coef : ndarray of shape (n_features,)
        In the order of ``BoostingFeatures``; a constant input, if there is one, is the last.
    n_labels, n_inputs : int
        The constant input is not counted.
    feature_set : str
    fit_intercept : bool
    """
    weighed, moves = FEATURE_SETS[feature_set]
    n_columns = n_labels if weighed == "label" else n_labels**2
    products = coef[: n_columns * (n_inputs + fit_intercept)].reshape(n_columns, -1)
    transition = np.zeros((n_labels, n_labels))
    transition[moves(n_labels)] = coef[products.size :]
    constant = products[:, n_inputs] if fit_intercept else np.zeros(n_columns)
    node, edge = np.zeros((n_labels, n_inputs)), np.zeros((n_labels, n_labels, 0))
    intercept, columns = np.zeros(n_labels), np.arange(0)
    if weighed == "label":
        node, intercept = products[:, :n_inputs].copy(), constant.copy()
    else:
        edge = products[:, :n_inputs].reshape(n_labels, n_labels, n_inputs).copy()
        transition, columns = constant.reshape(n_labels, n_labels).copy(), np.arange(n_inputs)
    parts = ChainCoefficients(node, transition, edge, np.zeros(n_labels), np.zeros(n_labels), intercept)
    return parts, columns


def names_of(
    numbers: np.ndarray, inputs: Sequence[str], classes: np.ndarray, feature_set: str, fit_intercept: bool
) -> np.ndarray:
    """What features stand for: an input and a label or a move, or one of these alone."""
    weighed, moves = FEATURE_SETS[feature_set]
    labels = [str(label) for label in classes.tolist()]
    pairs = [f"{a} -> {b}" for a in labels for b in labels]
    columns = labels if weighed == "label" else pairs
    constant = np.flatnonzero(moves(len(labels)).ravel())
    n_inputs = len(inputs) + fit_intercept
    names = []
    for number in numbers.tolist():
        column, p = divmod(number, n_inputs)
        if column >= len(columns):
            names.append(pairs[constant[number - len(columns) * n_inputs]])
        else:
            names.append(columns[column] if p == len(inputs) else f"{inputs[p]} & {columns[column]}")
    return np.array(names, dtype=str)


def summed(steps: np.ndarray, n_coef: int) -> np.ndarray:
    """The weights after some steps."""
    coef = np.zeros(n_coef)
    np.add.at(coef, steps["feature"], steps["amount"])
    return coef


def boosted_steps(outcome: BoostingOutcome) -> np.ndarray:
    parts = [np.empty(0, dtype=STEP)]
    for number, chosen, amounts in outcome.steps:
        part = np.empty(len(chosen), dtype=STEP)
        part["round"], part["feature"], part["amount"] = number, chosen, amounts
        parts.append(part)
    return np.concatenate(parts)


def joint_steps(start: np.ndarray, outcome: SolverOutcome) -> np.ndarray:
    changed = np.flatnonzero(outcome.coef != start)
    steps = np.empty(len(changed), dtype=STEP)
    steps["round"], steps["feature"], steps["amount"] = 0, changed, (outcome.coef - start)[changed]
    return steps
