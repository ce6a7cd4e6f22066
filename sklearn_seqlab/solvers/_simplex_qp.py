"""The quadratic programme over multipliers in groups of bounded sum: the dual on a working set of planes."""

from __future__ import annotations

import numpy as np

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
    Primal active-set method: planes with a multiplier, and groups whose sum is at its cap, are active; the problem on
    them is a linear system. A step goes to its solution or to the first bound on the
    way, and then the plane or group of largest gain enters. O(n_active**3) time for each change; exact where pairwise
    steps would creep, as they do for planes of large counts. Nocedal and Wright, "Numerical Optimization", 2006, 16.5.
    """
    n = len(linear)
    multiplier = np.zeros(n) if start is None else np.array(start, dtype=np.float64)
    if not n:
        return multiplier
    ridge = _RIDGE * max(float(np.trace(gram)) / n, np.finfo(float).tiny)
    allowance = tol * max(float(np.abs(linear).max()), np.finfo(float).tiny)
    active = multiplier > 0
    tight = np.bincount(group, weights=multiplier, minlength=len(caps)) >= caps * (1 - 1e-12)
    for _ in range(50 + 10 * n if max_iter is None else max_iter):
        if active.any():
            goal, price = _on_active_set(gram, linear, group, caps, active, tight, ridge)
            step, blocking = _longest_step(multiplier, goal, active, group, caps, tight)
            multiplier = np.where(active, multiplier + step * (goal - multiplier), 0.0)
            if blocking is not None:
                kind, which = blocking
                if kind == "plane":
                    multiplier[which], active[which] = 0.0, False
                    if tight[group[which]] and not active[group == group[which]].any():
                        tight[group[which]] = False
                else:
                    tight[which] = True
                continue
        else:
            price = np.zeros(len(caps))
        # optimal on the active set: whom would it pay to set free?
        gain = linear - gram @ multiplier - price[group]
        gain[active] = -np.inf
        entering, cheapest = int(np.argmax(gain)), int(np.argmin(price))
        if gain[entering] >= -price[cheapest] and gain[entering] > allowance:
            active[entering] = True
        elif -price[cheapest] > allowance:
            tight[cheapest] = False
        else:
            break
    return multiplier


def _on_active_set(
    gram: np.ndarray, linear: np.ndarray, group: np.ndarray, caps: np.ndarray, active: np.ndarray,
    tight: np.ndarray, ridge: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Optimum over the active multipliers with the sums of tight groups fixed, and the price of each cap."""
    rows, groups = np.flatnonzero(active), np.flatnonzero(tight)
    n = len(rows)
    # one symmetric system: eliminating the multipliers first would divide by what the sums alone determine
    system = np.zeros((n + len(groups), n + len(groups)))
    system[:n, :n] = gram[np.ix_(rows, rows)]
    system[np.arange(n), np.arange(n)] += ridge
    member = (group[rows][:, None] == groups).astype(np.float64)
    system[:n, n:], system[n:, :n] = member, member.T
    found = np.linalg.solve(system, np.concatenate([linear[rows], caps[groups]]))
    goal, price = np.zeros(len(linear)), np.zeros(len(caps))
    goal[rows], price[groups] = found[:n], found[n:]
    return goal, price


def _longest_step(
    multiplier: np.ndarray, goal: np.ndarray, active: np.ndarray, group: np.ndarray, caps: np.ndarray,
    tight: np.ndarray,
) -> tuple[float, tuple[str, int] | None]:  # fmt: skip
    """How far the way to ``goal`` is feasible, and the plane or group that blocks it."""
    move = np.where(active, goal - multiplier, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        until_zero = np.where(active & (move < 0) & (goal < 0), multiplier / -move, np.inf)
        total = np.bincount(group, weights=multiplier, minlength=len(caps))
        rise = np.bincount(group, weights=move, minlength=len(caps))
        beyond = ~tight & (rise > 0) & (total + rise > caps)
        until_cap = np.where(beyond, np.maximum(caps - total, 0.0) / rise, np.inf)
    plane, full = int(np.argmin(until_zero)), int(np.argmin(until_cap))
    if min(until_zero[plane], until_cap[full]) >= 1.0:
        return 1.0, None
    if until_zero[plane] <= until_cap[full]:
        return float(until_zero[plane]), ("plane", plane)
    return float(until_cap[full]), ("group", full)
