"""Which label may stand below which: given by the user, or read from the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sklearn_seqlab.sequences import check_label_names

__all__ = ["children_as_dict", "prunable", "read_children", "read_transitions", "transitions_as_dict"]


def read_children(wish: Any, above: np.ndarray, below: np.ndarray, level: int) -> np.ndarray:
    """Bool mask (n_labels above, n_labels below) of "full", a dict of labels or a mask.

    Raises
    ------
    ValueError
        If a mask does not fit the labels, or a label of ``above`` that occurs gets no child.
    """
    if isinstance(wish, str):
        if wish != "full":
            raise ValueError(
                f"children of level {level} is {wish!r}; expected 'observed', 'full', a dict or a mask."
            )
        return np.ones((len(above), len(below)), dtype=bool)
    if isinstance(wish, Mapping):
        name = f"children of level {level}"
        check_label_names(wish, above, name)
        mask = np.zeros((len(above), len(below)), dtype=bool)
        column = {label: k for k, label in enumerate(below.tolist())}
        for row, label in enumerate(above.tolist()):
            kids = wish.get(label, ())
            if isinstance(kids, str | bytes) or not hasattr(kids, "__iter__"):
                raise ValueError(f"{name}: {label!r} has {kids!r}; expected a collection of labels.")
            check_label_names(kids, below, f"{name}, {label!r}")
            mask[row, [column[kid] for kid in kids if kid in column]] = True
    else:
        mask = np.asarray(wish)
        if mask.shape != (len(above), len(below)) or mask.dtype != bool:
            raise ValueError(
                f"children of level {level} has shape {mask.shape} and dtype {mask.dtype}; expected bool, "
                f"{(len(above), len(below))}, for the labels of levels {level} and {level + 1}."
            )
        mask = mask.copy()
    if not mask.any(axis=1).all():
        label = above[int(np.argmin(mask.any(axis=1)))].item()
        raise ValueError(f"children of level {level} gives the label {label!r} no child that occurs in y.")
    return mask


def read_transitions(wish: Any, above: np.ndarray | None, own: np.ndarray, level: int) -> np.ndarray:
    """Bool mask (n_labels above, n_labels, n_labels) of a dict of labels or a mask.

    Parameters
    ----------
    wish : mapping ``{parent: {label: followers}}`` or bool array-like
    above : ndarray of shape (n_labels above,) or None
        Labels of the parents; None: there is one, without label.
    own : ndarray of shape (n_labels,)
    level : int

    Raises
    ------
    ValueError
        If a mask does not fit the labels, or a dict has no mappings of labels.
    """
    name = f"transitions of level {level}"
    parents = [None] if above is None else above.tolist()
    if not isinstance(wish, Mapping):
        mask = np.asarray(wish)
        if mask.shape != (len(parents), len(own), len(own)) or mask.dtype != bool:
            raise ValueError(
                f"{name} has shape {mask.shape} and dtype {mask.dtype}; expected 'all', 'observed', a dict, or bool "
                f"of shape {(len(parents), len(own), len(own))}."
            )
        return mask.copy()
    mask = np.zeros((len(parents), len(own), len(own)), dtype=bool)
    column = {label: k for k, label in enumerate(own.tolist())}
    if above is not None:
        check_label_names(wish, above, name)
    elif set(wish) - {None}:
        raise ValueError(f"{name} names {next(iter(set(wish) - {None}))!r}, but the only parent is None.")
    for p, parent in enumerate(parents):
        table = wish.get(parent, {})
        if not isinstance(table, Mapping):
            raise ValueError(f"{name}: {parent!r} has {table!r}; expected a dict of labels.")
        check_label_names(table, own, f"{name}, {parent!r}")
        for label, followers in table.items():
            if isinstance(followers, str | bytes) or not hasattr(followers, "__iter__"):
                raise ValueError(f"{name}: {label!r} has {followers!r}; expected a collection of labels.")
            check_label_names(followers, own, f"{name}, {label!r}")
            if label in column:
                mask[p, column[label], [column[one] for one in followers if one in column]] = True
    return mask


def children_as_dict(mask: np.ndarray, above: np.ndarray, below: np.ndarray) -> dict[Any, list[Any]]:
    """The inverse of ``read_children``."""
    return {label: below[row].tolist() for label, row in zip(above.tolist(), mask, strict=True)}


def transitions_as_dict(
    mask: np.ndarray, above: np.ndarray | None, own: np.ndarray
) -> dict[Any, dict[Any, list[Any]]]:
    """The inverse of ``read_transitions``."""
    parents = [None] if above is None else above.tolist()
    return {
        parent: {
            label: own[row].tolist() for label, row in zip(own.tolist(), table, strict=True) if row.any()
        }
        for parent, table in zip(parents, mask, strict=True)
    }


def prunable(
    coef: dict[str, Any], children: list[np.ndarray], moves: list[np.ndarray], threshold: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Children and transitions that are left where improbable ones are dropped.

    Parameters
    ----------
    coef : dict
        ``coef_`` of a model.
    children : list of bool ndarray of shape (n_labels, n_labels below)
    moves : list of bool ndarray of shape (n_labels above, n_labels, n_labels)
        One per level below the root; the last ``len(children)`` are those of levels with a labelled parent.
    threshold : float

    Returns
    -------
    children, moves
        Masks of the same shapes. A parent keeps the likeliest of its children if all are improbable, and the
        likeliest of the transitions between the children that it keeps if all of those are. Transitions under a root
        without label stay.
    """
    above = len(moves) - len(children)  # 1 under a dummy root, whose children stay
    n_blocks = len(coef["transition"])
    kept_children, kept_moves = [], []
    for k, mask in enumerate(moves):
        initialisation, transition = (
            coef[name][n_blocks - len(moves) + k] for name in ("initialisation", "transition")
        )
        heavy = mask & (transition > threshold)
        if k < above:
            kept_moves.append(mask.copy())
            continue
        below = children[k - above]
        weight = np.maximum(initialisation, np.where(mask, transition, -np.inf).max(axis=1))
        kept = below & (weight > threshold)
        _keep_likeliest(kept, below, weight)
        kept_children.append(kept)
        between = mask & kept[:, :, None] & kept[:, None, :]
        moves_left = heavy & between
        _keep_likeliest(moves_left, between, transition)
        kept_moves.append(moves_left)
    return kept_children, kept_moves


def _keep_likeliest(kept: np.ndarray, possible: np.ndarray, weight: np.ndarray) -> None:
    """Where a row of ``kept`` is empty, put the heaviest of what is possible into it, in place."""
    for row in np.flatnonzero(~kept.reshape(len(kept), -1).any(axis=1)):
        if possible[row].any():
            best = np.argmax(np.where(possible[row], weight[row], -np.inf))
            kept[row].reshape(-1)[best] = possible[row].reshape(-1)[best]
