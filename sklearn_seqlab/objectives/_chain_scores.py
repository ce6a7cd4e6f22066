"""From coefficients to the scores of chains: the one place, for training and for prediction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.sequences import check_sparse

__all__ = ["ChainCoefficients", "assemble_chains", "check_coefficients"]


class ChainCoefficients(NamedTuple):
    """The coefficients of a chain in the shapes that users see.

    Attributes
    ----------
    node : ndarray or csc_array of shape (n_labels, n_features)
    transition : ndarray of shape (n_labels, n_labels)
        From row to column; minus infinity where forbidden.
    edge : ndarray of shape (n_labels, n_labels, n_edge_features)
        What an edge feature at step ``t`` adds to the move into ``t``.
    start, end, intercept : ndarray of shape (n_labels,)
    """

    node: Any
    transition: np.ndarray
    edge: np.ndarray
    start: np.ndarray
    end: np.ndarray
    intercept: np.ndarray


def check_coefficients(coef: ChainCoefficients, n_features: int, n_edge_features: int) -> None:
    """Refuse coefficients that do not fit each other, as a damaged file may hold them.

    Raises
    ------
    ValueError
        Naming the first attribute whose shape does not fit ``transition``.
    """
    n_labels = len(coef.transition)
    wish: dict[str, tuple[int, ...]] = {
        "node": (n_labels, n_features),
        "transition": (n_labels, n_labels),
        "edge": (n_labels, n_labels, n_edge_features),
    }
    for name, part in coef._asdict().items():
        shape = wish.get(name, (n_labels,))
        if part.shape != shape:
            raise ValueError(f"The {name} coefficients have shape {part.shape}; expected {shape}.")
    if sparse.issparse(coef.node):
        check_sparse(coef.node, "coef_")


def assemble_chains(
    unary: np.ndarray, edge_inputs: Any, coef: ChainCoefficients, offsets: np.ndarray, first: int
) -> PackedChains:
    """Chains whose scores are linear in features.

    Parameters
    ----------
    unary : ndarray of shape (n_rows, n_labels)
        Products of the features with the node coefficients; the other scores are added in place.
    edge_inputs : ndarray or csr_array of shape (n_rows, n_edge_features), or None
        Features that weigh the move into their step.
    coef : ChainCoefficients
        ``node`` is not read.
    offsets : ndarray of shape (n_sequences + 1,)
        Of these rows.
    first : int
        Number of the first sequence, for messages.
    """
    unary += coef.intercept
    unary[offsets[:-1]] += coef.start
    unary[offsets[1:] - 1] += coef.end
    if edge_inputs is None:
        return PackedChains(unary, coef.transition, offsets, first)
    n_labels = unary.shape[1]
    moves = edge_inputs @ coef.edge.reshape(n_labels**2, -1).T
    return PackedChains(unary, moves.reshape(-1, n_labels, n_labels) + coef.transition, offsets, first)
