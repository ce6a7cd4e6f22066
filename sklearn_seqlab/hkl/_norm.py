"""The hierarchical norm, its dual norm, and the weights of the squares that majorise it.

With ``d`` the price of a node and ``D(v)`` the nodes that contain ``v``, the norm is ``sum_v d_v ||f_D(v)||_rho``, one
sum over the lattices of all labels.
"""

from __future__ import annotations

import numpy as np

from sklearn_seqlab.hkl._lattice import Nodes

__all__ = ["HierarchicalNorm"]

# What counts as nothing: sizes relative to the largest, and shares of the simplex.
_FLOOR, _LEAST_SHARE = 1e-8, 1e-14


class HierarchicalNorm:
    """The norm over some nodes of the lattice of each label.

    Parameters
    ----------
    nodes : Nodes
    active : ndarray of shape (n_nodes, n_labels), dtype=bool
        Nodes that count; with each of them all its parts.
    rho : float
        In (1, 2].
    beta : float
        A node of ``k`` atoms has the price ``beta**k``.

    Notes
    -----
    For positive shares ``eta`` that sum to one, ``zeta_w**(1 - rho)`` being the sum of ``d_v**rho * eta_v**(1 - rho)``
    over the parts ``v`` of ``w`` and ``G_v = d_v**rho * eta_v**-rho * sum_{w in D(v)} zeta_w**rho * |z_w|**rho_star``,
    the dual norm to the power ``rho_star`` lies between ``sum_v eta_v G_v`` and ``max_v G_v``. Multiplying the shares
    by ``G**(1 / rho)`` closes that bracket.
    """

    def __init__(self, nodes: Nodes, active: np.ndarray, rho: float, beta: float):
        self.nodes, self.active, self.rho = nodes, active, rho
        self.dual_rho = rho / (rho - 1.0)
        self.price = beta ** nodes.size.astype(np.float64)[:, None]

    def group_sizes(self, f: np.ndarray) -> np.ndarray:
        """``||f_D(v)||_rho`` of every node, (n_nodes, n_labels)."""
        top = np.abs(f).max(initial=0.0)
        if top == 0.0:
            return np.zeros_like(f)
        return top * self.nodes.sum_above((np.abs(f) / top) ** self.rho) ** (1.0 / self.rho)

    def value(self, f: np.ndarray) -> float:
        return float((self.price * self.group_sizes(f)).sum())

    def spread(self, f: np.ndarray) -> np.ndarray:
        """Variances ``delta`` such that ``sum f**2 / delta`` touches the squared norm at ``f`` from above."""
        size = self.group_sizes(f)
        value = float((self.price * size)[self.active].sum())
        size = np.maximum(size, _FLOOR * value)
        inner = self.nodes.sum_below(np.where(self.active, self.price * size ** (1.0 - self.rho), 0.0))
        least = np.maximum(np.abs(f), _FLOOR * np.abs(f).max())
        with np.errstate(divide="ignore"):
            delta = 1.0 / (value * least ** (self.rho - 2.0) * inner)
        return np.where(self.active, delta, 0.0)

    def spread_of_shares(self, f: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The same for the weighted norm ``N_eta``, of which the squared norm is the minimum over ``eta``."""
        curve = self.nodes.sum_below(self._terms(eta))  # zeta ** (1 - rho)
        if self.rho == 2.0:
            return np.where(self.active, 1.0 / curve, 0.0)
        least = np.maximum(np.abs(f), _FLOOR * np.abs(f).max())
        norm = float((curve * least**self.rho)[self.active].sum()) ** (1.0 / self.rho)
        return np.where(
            self.active, 1.0 / (norm ** (2.0 - self.rho) * curve * least ** (self.rho - 2.0)), 0.0
        )

    def _terms(self, eta: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            terms = self.price**self.rho * eta ** (1.0 - self.rho)
        return np.where(self.active, terms, 0.0)

    def gains(self, z: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, float]:
        """``G`` at ``z`` (n_nodes, n_labels), and the logarithm of what it is divided by.

        The exponent of ``z`` grows without bound as ``rho`` comes near one: powers are taken in logarithms, relative to
        the largest.
        """
        curve = self.nodes.sum_below(self._terms(eta))
        # zeta**rho * |z|**rho_star, with zeta = curve**(1 / (1 - rho))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.active, self.dual_rho * (np.log(np.abs(z)) - np.log(curve)), -np.inf)
        top = float(logs.max())
        top = top if np.isfinite(top) else 0.0
        above = self.nodes.sum_above(np.exp(logs - top))
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = (self.price / eta) ** self.rho * above
        return np.where(self.active, gains, 0.0), top

    def descended(self, z: np.ndarray, eta: np.ndarray, step: int) -> np.ndarray:
        """Shares after a step of entropic mirror descent: the gains are minus the slopes, up to a factor."""
        top = float(np.abs(z).max())
        gains, _ = self.gains(z / top, eta)
        length = np.sqrt(np.log(max(2, int(self.active.sum()))) / (1.0 + step)) / float(gains.max())
        return self._shares(eta * np.exp(length * gains))

    def better(self, z: np.ndarray, *choices: np.ndarray) -> np.ndarray:
        """Those shares that give the least upper bound of the dual norm."""
        top = max(float(np.abs(z[self.active]).max(initial=0.0)), np.finfo(float).tiny)
        tried = [
            self._shares(eta) if eta.any() else self._shares(self.active.astype(float)) for eta in choices
        ]

        def log_bound(eta: np.ndarray) -> float:
            gains, scale = self.gains(z / top, eta)
            most = float(gains.max())
            return scale + np.log(most) if most > 0 else -np.inf

        return min(tried, key=log_bound)

    def dual_squared(
        self, z: np.ndarray, eta: np.ndarray, tol: float, target: float = np.nan, max_iter: int = 300
    ) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Bounds of the squared dual norm of ``z``.

        Parameters
        ----------
        z : ndarray of shape (n_nodes, n_labels)
        eta : ndarray of shape (n_nodes, n_labels)
            Shares to start from, positive where active.
        tol : float
            Stop where the bounds differ by this share of the upper one.
        target : float
            Stop also where the upper bound is at most this, or the lower one above it.
        max_iter : int, default=300

        Returns
        -------
        lower, upper : float
        eta : ndarray of shape (n_nodes, n_labels)
            The shares at which the upper bound was found.
        gains : ndarray of shape (n_nodes, n_labels)
            ``G`` there, relative to its largest entry.
        """
        top = float(np.abs(z[self.active]).max(initial=0.0))
        if top == 0.0:
            return 0.0, 0.0, eta, np.zeros_like(z)
        scaled, target = z / top, target / top**2
        power = 2.0 / self.dual_rho
        lower, upper = 0.0, np.inf
        best = eta, eta
        eta = self._shares(eta)
        for _ in range(max_iter):
            gains, scale = self.gains(scaled, eta)
            mean, most = float((eta * gains)[self.active].sum()), float(gains[self.active].max())
            lower = max(lower, mean**power * np.exp(power * scale))
            bound = most**power * np.exp(power * scale)
            if bound < upper:
                upper, best = bound, (eta, gains / most)
            if upper - lower <= tol * upper or upper <= target or lower > target:
                break
            eta = self._shares(eta * (gains / most) ** (1.0 / self.rho))
        return lower * top * top, upper * top * top, *best

    def _shares(self, eta: np.ndarray) -> np.ndarray:
        eta = np.where(self.active, eta, 0.0)
        eta = np.where(self.active, np.maximum(eta, _LEAST_SHARE * eta.max()), 0.0)
        return eta / eta.sum()
