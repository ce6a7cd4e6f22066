"""Reweighting on an active set of conjunctions, with a duality gap that holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sklearn_seqlab.hkl._inner import InnerPoint, LogProblem, MarginCuts
from sklearn_seqlab.hkl._lattice import Lattice, Nodes
from sklearn_seqlab.hkl._norm import HierarchicalNorm
from sklearn_seqlab.solvers import SolverOutcome

__all__ = ["HKLOutcome", "HKLSolver", "WarmStart"]

# A new node starts with this share of the median variance, and this share of the largest share of the simplex.
_NEW_SPREAD, _NEW_SHARE = 0.1, 0.2
# The first active sets are judged at a gap of a tenth: what is missing shows long before the optimum.
_FIRST_TOL = 0.1
_MAX_ROUNDS = 100
# Nodes that may enter at a time: so many, or half of those that are there.
_FEWEST = 50
# Objectives agree to this share of them with what they are compared with.
_ROUNDING = 1e-9
_GREATEST_POWER = 30.0
# How much more exactly problems are solved, at most, whose residuals are no combination of planes.
_STRICTEST = 1e-5


@dataclass
class WarmStart:
    """Where a fit on the same lattice ended."""

    nodes: Nodes
    active: np.ndarray
    delta: np.ndarray
    eta: np.ndarray


@dataclass
class HKLOutcome(SolverOutcome):
    """The best weights found, and what certifies them.

    Attributes
    ----------
    coef : ndarray of shape (n_nodes, n_labels)
        Weights of ``nodes``.
    transition : ndarray of shape (n_labels, n_labels)
    nodes : Nodes
    active : ndarray of shape (n_nodes, n_labels), dtype=bool
    dual : float
        Lower bound of the optimum over the whole lattice.
    gap_kind : str
        How the dual norm over the whole lattice was bounded.
    rounds : list of (iterations, objective, dual, size of the active set)
        Each time the active set was judged.
    start : WarmStart or None
    """

    transition: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    nodes: Nodes = None  # type: ignore[assignment]
    active: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    dual: float = -np.inf
    gap_kind: str = ""
    rounds: list[tuple[int, float, float, int]] = field(default_factory=list)
    start: WarmStart | None = None

    @property
    def gap(self) -> float:
        """Rounding is not reported as a negative gap; a dual value above the objective by more certifies nothing."""
        gap = self.value - self.dual
        return max(0.0, gap) if gap >= -_ROUNDING * abs(self.value) else np.inf


class HKLSolver:
    """Minimises ``1/2 Omega(f)**2 + 1/2 ||transition||**2 + C * mean loss`` over the weights of all conjunctions.

    Parameters
    ----------
    problem : MarginCuts or LogProblem
    lattice : Lattice
    n_labels : int
    tol : float
        Relative gap.
    max_active : int
        Largest number of pairs of conjunction and label in the active set.
    max_reweight : int
        Largest number of reweightings on one active set.
    solver : {"irls", "mirror"}

    Notes
    -----
    ``spec`` "structhkl" 4. For a fixed active set the squared norm is majorised by a weighted sum of squares that
    touches it at the current weights, and the weighted problem is solved; the objective never rises. The residuals of
    each solution are a point of the dual, whose norm over the whole lattice bounds the optimum from below; nodes that
    make it too large enter.
    """

    def __init__(
        self,
        problem: MarginCuts | LogProblem,
        lattice: Lattice,
        n_labels: int,
        *,
        tol: float,
        max_active: int,
        max_reweight: int,
        solver: str,
    ):
        self.problem, self.lattice, self.n_labels = problem, lattice, n_labels
        self.tol, self.max_active, self.max_reweight, self.solver = tol, max_active, max_reweight, solver

    def run(
        self,
        C: float,
        rho: float,
        beta: float,
        start: WarmStart | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> HKLOutcome:
        """Minimise for one setting; planes and, with ``start``, the active set of an earlier one are used again."""
        self.C, self.rho, self.beta = C, rho, beta
        self.callback = callback or (lambda iteration, value: None)
        self.problem.scale_to(C)
        if start is None:
            self._first_nodes()
        else:
            self.nodes, self.active = start.nodes, start.active
            self.delta, self.eta = start.delta, start.eta
        self.outcome = HKLOutcome(np.zeros(self.active.shape), np.inf, 0, False, "")
        self.whole_eta: np.ndarray | None = None
        self.whole_norm: HierarchicalNorm | None = None
        self._products: np.ndarray | None = None
        try:
            self._rounds()
        except KeyboardInterrupt:
            self.outcome.interrupted, self.outcome.message = True, "interrupted"
        self.outcome.start = WarmStart(self.nodes, self.active, self.delta, self.eta)
        return self.outcome

    def _first_nodes(self) -> None:
        self.nodes = self.lattice.smallest()
        self.active = np.ones((self.nodes.n_nodes, self.n_labels), dtype=bool)
        price = self.beta ** self.nodes.size.astype(float)[:, None]
        self.delta = np.where(self.active, 1.0 / (self.active.sum() * price**2), 0.0)
        self.eta = self.active / self.active.sum()

    def _rounds(self) -> None:
        outcome, allowed = self.outcome, max(0.5 * self.tol, _FIRST_TOL)
        for _ in range(_MAX_ROUNDS):
            self.norm = HierarchicalNorm(self.nodes, self.active, self.rho, self.beta)
            reduced = self._reduce(allowed)
            members, labels = self._certify(reduced)
            outcome.rounds.append((outcome.n_iter, outcome.value, outcome.dual, int(self.active.sum())))
            if outcome.gap <= self.tol * outcome.value:
                outcome.converged, outcome.message = True, "the duality gap closed"
                return
            if len(labels):
                room = self.max_active - int(self.active.sum())
                if room <= 0:
                    outcome.message = "max_active was reached"
                    return
                self._grow(members[:room], labels[:room])
                allowed = max(0.5 * self.tol, min(allowed, 0.25 * outcome.gap / outcome.value))
            elif not reduced.converged or allowed <= 0.1 * self.tol:
                break
            else:
                allowed = 0.5 * min(allowed, self.tol)
        outcome.message = "max_reweight was reached"

    def _reduce(self, allowed: float) -> _Reduced:
        """Reweight until the gap of the problem over the active set is at most ``allowed``."""
        reduced, outcome = _Reduced(), self.outcome
        shares, gap, path = self.eta, 1.0, _Extrapolation()
        strictness = 1.0
        for step in range(self.max_reweight):
            share = max(0.1 * allowed, min(0.05, 0.1 * gap))
            size = outcome.value if np.isfinite(outcome.value) else self.C
            point = self.problem.solve(self.nodes, self.active, self.delta, strictness * share * size)
            self.problem.drop_idle()
            value = 0.5 * self.norm.value(point.f) ** 2 + point.price_of_moves + point.loss
            outcome.n_iter += 1
            if value < outcome.value:
                outcome.value, outcome.coef, outcome.transition = value, point.f, point.transition
                outcome.nodes, outcome.active = self.nodes, self.active
            outcome.history.append(outcome.value)
            self.callback(outcome.n_iter, outcome.value)
            z = np.where(self.active, self.nodes.holds @ point.rows, 0.0)
            # at the optimum the shares that close the bracket are those of the weights
            own = self.norm.price * self.norm.group_sizes(point.f)
            self.eta = self.norm.better(z, own / max(own.sum(), np.finfo(float).tiny), self.eta)
            _, upper, self.eta, _ = self.norm.dual_squared(z, self.eta, 0.1 * allowed)
            before = reduced.gap if step else np.inf
            reduced.offer(value, point, upper)
            if not point.may_shrink and reduced.gap > 0.95 * before:
                # where the variance is small, residuals are far off at points that are near the optimum
                strictness = max(0.1 * strictness, _STRICTEST)
            gap = reduced.gap
            if gap <= allowed:
                reduced.converged = True
                break
            if not point.f.any():
                break
            if self.solver == "irls":
                self.delta = path.next(self.delta, self.norm.spread(point.f), point.f, value)
            else:
                shares = self.norm.descended(z, shares, step)
                self.delta = self.norm.spread_of_shares(point.f, shares)
        return reduced

    def _certify(self, reduced: _Reduced) -> tuple[np.ndarray, np.ndarray]:
        """Bound the optimum over the whole lattice; returns the atoms and labels of nodes that are missing."""
        point, outcome = reduced.point, self.outcome
        whole = self.lattice.nodes
        if whole is not None:
            extended, place = whole, whole.find(self.nodes)
        else:
            member = np.concatenate([self.nodes.member, self.lattice.children(self.nodes)])
            extended, place = self.lattice.of(member), np.arange(self.nodes.n_nodes)
        active = np.zeros((extended.n_nodes, self.n_labels), dtype=bool)
        active[place] = self.active
        sources = ~active & (_n_active_parents(extended, active) == extended.n_parents[:, None])
        bound = self._source_bounds(extended, sources, point.rows)
        worst = max(reduced.upper, float(bound.max(initial=0.0)))
        kind = "exact" if whole is not None else "product-of-sums"
        # the squared dual norm at which the gap is just small enough
        goal = 2.0 * (reduced.dual - outcome.value * (1 - self.tol)) + reduced.upper * reduced.factor**2
        if whole is not None and worst > reduced.upper:
            worst = min(worst, self._whole_dual(whole, place, active, point.rows, goal / reduced.factor**2))
        dual = reduced.dual - 0.5 * reduced.factor**2 * (worst - reduced.upper)
        if point.may_shrink:
            dual = max(dual, _dual(point, worst)[0])
        if dual > outcome.dual:
            outcome.dual, outcome.gap_kind = dual, kind
        node, label = np.nonzero(bound > max(reduced.upper, goal))
        order = np.argsort(-bound[node, label], kind="stable")
        most = max(_FEWEST, int(self.active.sum()) // 2)
        chosen = order[:most]
        return extended.member[node[chosen]], label[chosen]

    def _whole_dual(
        self, whole: Nodes, place: np.ndarray, active: np.ndarray, rows: np.ndarray, goal: float
    ) -> float:
        """Upper bound of the squared dual norm over all conjunctions."""
        if self.whole_norm is None:
            everything = np.ones(active.shape, dtype=bool)
            self.whole_norm = HierarchicalNorm(whole, everything, self.rho, self.beta)
        eta = np.full(active.shape, 0.1 / active.size)
        if self.whole_eta is not None:
            eta += 0.4 * self.whole_eta
        eta[place] += 0.5 * self.eta
        z = whole.holds @ rows
        _, upper, self.whole_eta, _ = self.whole_norm.dual_squared(z, eta, 0.05 * self.tol, goal)
        return upper

    def _source_bounds(self, nodes: Nodes, sources: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Bounds of the squared dual norm over everything that contains a source; zero elsewhere.

        Each entry of ``z`` is split among the nodes below it in proportion to their prices.
        """
        price = self.beta ** nodes.size.astype(float)[:, None]
        if self.lattice.nodes is not None:
            if not sources.any():
                return np.zeros(sources.shape)
            below = nodes.sum_below(price.copy())
            # a norm of lower exponent is larger: a bound still, where powers would leave the range of doubles
            power = min(self.norm.dual_rho, _GREATEST_POWER)
            ratio = np.abs(nodes.holds @ rows) / below
            top = max(float(ratio.max()), np.finfo(float).tiny)
            bound = (top * below / price) ** 2 * nodes.sum_above((ratio / top) ** power) ** (2.0 / power)
            return np.where(sources, bound, 0.0)
        base = 1.0 + (1.0 + self.beta) ** -2.0
        if self._products is None:
            ones = self.lattice.rows.astype(float)
            self._products = base ** (ones @ ones.T)
        bound = np.zeros(sources.shape)
        for u in np.flatnonzero(sources.any(axis=1)):
            where = nodes.holds.indices[nodes.holds.indptr[u] : nodes.holds.indptr[u + 1]]
            r, products = rows[where], self._products[np.ix_(where, where)]
            # the sum of all absolute terms says what rounding may have taken away
            exact = np.einsum("dc,dc->c", r, products @ r)
            lost = 1e-14 * np.einsum("dc,dc->c", np.abs(r), products @ np.abs(r))
            bound[u] = (np.maximum(exact, 0.0) + lost) / (price[u, 0] ** 2 * base ** nodes.size[u])
        return np.where(sources, bound, 0.0)

    def _grow(self, members: np.ndarray, labels: np.ndarray) -> None:
        """Take nodes into the active set."""
        member, inverse = np.unique(members, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        more = self.lattice.of(member)
        at = self.nodes.find(more)
        new = np.flatnonzero(at < 0)
        at[new] = self.nodes.n_nodes + np.arange(len(new))
        if len(new):
            self.nodes = self.lattice.of(np.concatenate([self.nodes.member, member[new]]))
        shape = (self.nodes.n_nodes, self.n_labels)
        active, delta, eta = np.zeros(shape, dtype=bool), np.zeros(shape), np.zeros(shape)
        n_old = len(self.active)
        active[:n_old], delta[:n_old], eta[:n_old] = self.active, self.delta, self.eta
        places = at[inverse], labels
        active[places] = True
        delta[places] = _NEW_SPREAD * np.median(self.delta[self.active])
        eta[places] = _NEW_SHARE * self.eta.max()
        self.active, self.delta, self.eta = active, delta, eta / eta.sum()


class _Extrapolation:
    """Squared extrapolation of the variances, which by themselves approach their limit by a constant factor a step.

    Every second reweighting jumps ahead along what the last two did to the logarithms; a jump after which the
    objective has risen is taken back. Varadhan and Roland, "Simple and globally convergent methods for accelerating
    the convergence of any EM algorithm", Scandinavian Journal of Statistics 2008.
    """

    def __init__(self) -> None:
        self.logs: list[np.ndarray] = []
        self.safe: np.ndarray | None = None
        self.best, self.longest = np.inf, 4.0

    def next(self, delta: np.ndarray, reweighted: np.ndarray, f: np.ndarray, value: float) -> np.ndarray:
        """Variances to go on with, after the problem at ``delta`` gave weights ``f`` and those ``reweighted``."""
        if self.safe is not None and value > self.best * (1 + 1e-3):
            safe, self.safe, self.logs = self.safe, None, []
            self.longest = max(1.0, self.longest / 4)
            return safe
        if self.safe is not None:
            self.safe, self.longest = None, min(2 * self.longest, 64.0)
        self.best = min(self.best, value)
        if not self.logs:
            with np.errstate(divide="ignore"):
                self.logs = [np.log(delta), np.log(reweighted)]
            return reweighted
        with np.errstate(divide="ignore", invalid="ignore"):
            start, first, second = *self.logs, np.log(reweighted)
            step, turn = first - start, second - 2 * first + start
            weight = np.where(delta > 0, f**2 / delta, 0.0)
            known = weight > 0
            size = np.sqrt((weight * step**2)[known].sum() / max((weight * turn**2)[known].sum(), 1e-300))
            size = min(max(size, 1.0), self.longest)
            jump = start + 2 * size * step + size**2 * turn
            jump = np.clip(jump, second - 5.0, second + 5.0)
        self.logs, self.safe = [], reweighted
        return np.where(delta > 0, np.exp(jump), 0.0)


@dataclass
class _Reduced:
    """Best primal and dual values of one active set."""

    value: float = np.inf
    dual: float = -np.inf
    upper: float = np.inf
    factor: float = 1.0
    point: InnerPoint = None  # type: ignore[assignment]
    converged: bool = False

    @property
    def gap(self) -> float:
        return (self.value - self.dual) / max(self.value, np.finfo(float).tiny)

    def offer(self, value: float, point: InnerPoint, upper: float) -> None:
        self.value = min(self.value, value)
        dual, factor = _dual(point, upper)
        if dual > self.dual:
            self.dual, self.point, self.upper, self.factor = dual, point, upper, factor


def _dual(point: InnerPoint, upper: float) -> tuple[float, float]:
    """Dual objective at the residuals times the best factor, and that factor."""
    square = float((point.moves**2).sum()) + upper
    factor = 1.0
    if point.may_shrink and square > point.linear > 0:
        factor = point.linear / square
    return factor * point.linear - 0.5 * factor**2 * square, factor


def _n_active_parents(nodes: Nodes, active: np.ndarray) -> np.ndarray:
    counts = np.zeros(active.shape)
    for label in range(active.shape[1]):
        counts[:, label] = np.bincount(nodes.upper, active[nodes.lower, label], nodes.n_nodes)
    return counts
