"""The quadratic programme over multipliers in groups of bounded sum: the dual on a working set of planes."""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.solvers._simplex_kernels import ascend

__all__ = ["simplex_qp"]

# Planes of one sequence are often nearly equal: a small share of the mean square keeps systems solvable.
_RIDGE = 1e-12


def simplex_qp(
    gram: np.ndarray,
    linear: np.ndarray,
    group: np.ndarray,
    caps: np.ndarray,
    start: np.ndarray | None = None,
    *,
    tol: float = 1e-10,
    max_iter: int | None = None,
) -> np.ndarray:
    """Maximise ``a @ linear - 1/2 a @ gram @ a`` over ``a >= 0`` whose sum in each group is at most its cap.

    Parameters
    ----------
    gram : ndarray of shape (n_planes, n_planes)
        Products of planes, positive semidefinite.
    linear : ndarray of shape (n_planes,)
        Offsets of the planes.
    group : ndarray of int of shape (n_planes,)
    caps : ndarray of shape (n_groups,)
        Positive.
    start : ndarray of shape (n_planes,), default=None
        A feasible point: the solution on fewer planes, with zeros for the new ones.
    tol : float, default=1e-10
        Largest gain, per unit of a multiplier, that is given away, relative to the largest entry of ``linear``.
    max_iter : int, default=None
        Largest number of changes of the active set; None takes 50 plus ten times the number of planes.

    Returns
    -------
    multiplier : ndarray of shape (n_planes,)
        Feasible; optimal to ``tol``, or the best point after ``max_iter`` changes.

    Notes
    -----
    Primal active-set method: the problem on the planes that have a multiplier is a linear system; a step goes to its
    solution or to the first bound on the way, and then the plane of largest gain enters. Its Cholesky factor is
    updated with the active set, so that a change takes O(n_active**2 + n_planes * n_active) time; exact where
    pairwise steps would creep, as they do for planes of large counts. Nocedal and Wright, "Numerical Optimization",
    2006, 16.5.
    """
    n, n_groups = len(linear), len(caps)
    if not n:
        return np.zeros(0)
    typical = max(float(np.trace(gram)) / n, np.finfo(float).tiny)
    allowance = tol * max(float(np.abs(linear).max()), np.finfo(float).tiny)
    total = n + n_groups
    multiplier = np.zeros(total)
    if start is not None:
        multiplier[:n] = start
    spent = np.bincount(group, weights=multiplier[:n], minlength=n_groups)
    # what a group does not spend goes to its plane of zeros
    multiplier[n:] = np.where(spent < caps * (1 - 1e-12), caps - spent, 0.0)
    ascend(
        np.ascontiguousarray(gram),
        np.ascontiguousarray(linear, dtype=np.float64),
        np.concatenate([group, np.arange(n_groups)]).astype(np.intp),
        np.ascontiguousarray(caps, dtype=np.float64),
        typical,
        _RIDGE * typical,
        allowance,
        50 + 10 * n if max_iter is None else max_iter,
        multiplier,
        np.empty((total, total)),
        np.empty((total, n_groups + 1)),
        np.empty((n_groups, n_groups + 1)),
        np.empty((4, total)),
        np.empty(total, dtype=np.intp),
        np.empty(total, dtype=np.uint8),
        np.empty(n_groups),
    )
    return multiplier[:n]
