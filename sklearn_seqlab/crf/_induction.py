"""Rounds of feature induction: candidate conjunctions, their gains, and a model that grows by the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sklearn_seqlab._conjunctions import Conjunction, complements
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives import (
    ChainCoefficients,
    ChainLogLikelihood,
    ConjunctionGains,
    KnownChains,
    ScoreLine,
    SequenceLoss,
)
from sklearn_seqlab.sequences import LabelCodes, PackedBatch
from sklearn_seqlab.solvers import SolverOutcome, lbfgs, minimise_along

__all__ = ["Candidate", "Feature", "Induction", "InductionParameters", "Stage"]

# Truth of candidates is worked out for so many (step, candidate) entries at once.
_ENTRIES_AT_ONCE = 2**22

# Candidates whose bounds are largest are weighed first, so many at a time: most are never weighed.
_CANDIDATES_AT_ONCE = 512

_LINE_PRECISION = 1e-9


class Feature(NamedTuple):
    """A conjunction and a label that has a weight for it."""

    conjunction: Conjunction
    label: int
    gain: float
    round: int


class Candidate(NamedTuple):
    """A feature that might be added, with its best weight and what that gains."""

    gain: float
    weight: float
    conjunction: Conjunction
    label: int


class Stage(NamedTuple):
    """The model after a round: number of features, of distinct conjunctions, and coefficients."""

    n_features: int
    n_conjunctions: int
    parts: ChainCoefficients


@dataclass(frozen=True)
class InductionParameters:
    """See :class:`CRFFeatureInduction`."""

    C: float
    max_rounds: int
    batch_size: int
    max_order: int
    steps: str
    certainty: float
    exhaustive: bool
    min_gain: float
    min_count: int
    n_rescore: int
    refit_iter: int
    max_iter: int
    tol: float
    n_iter_no_change: int
    fit_intercept: bool = True
    start_end: bool = True


@dataclass
class Induction:
    """Grows a chain CRF by conjunctions.

    Parameters
    ----------
    truth : ndarray of bool of shape (n_total, n_items)
        Whether each item holds at each step.
    items : structured ndarray
        As ``make_items`` gives them.
    labels : LabelCodes
    weight : ndarray of shape (n_sequences,)
    allowed_transitions : ndarray of bool of shape (n_labels, n_labels)
    params : InductionParameters
    n_jobs : int or None

    Attributes
    ----------
    features : list of Feature
        In the order in which they came.
    conjunctions : list of Conjunction
        Distinct ones, in the order in which they came.
    stages : list of Stage
        Before the first round, and after each.
    losses : list of float
        Objective of each stage, in nats times ``C``; the first is that of the model without conjunctions.
    watched : list of float
        What ``watch`` said of each stage.
    gains : list of float
        Sum of the gains of what each round added.
    n_candidates : list of int
        How many pairs of conjunction and label each round looked at.
    """

    truth: np.ndarray
    items: np.ndarray
    labels: LabelCodes
    weight: np.ndarray
    allowed_transitions: np.ndarray
    params: InductionParameters
    n_jobs: int | None = None
    features: list[Feature] = field(default_factory=list)
    conjunctions: list[Conjunction] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    n_candidates: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.offsets = self.labels.offsets
        self.opposite = complements(self.items)
        self.known = KnownChains(self.labels, self.labels.n_labels, self.n_jobs)
        self.row_weight = np.repeat(self.weight, np.diff(self.offsets))
        self.columns: list[np.ndarray] = []  # truth of the distinct conjunctions
        self.taken: set[tuple[bytes, int]] = set()

    def run(
        self,
        watch: Callable[[Induction], float] | None = None,
        callback: Callable[[int, float], None] | None = None,
    ) -> SolverOutcome:
        """All rounds; the model is then the last stage, refitted to ``tol``, or with a ``watch`` the best one."""
        callback = callback or (lambda iteration, value: None)
        params = self.params
        outcome = self._fit(None, params.max_iter)
        self._keep(outcome, watch)
        message, interrupted = "max_rounds were made", outcome.interrupted
        try:
            for number in range(params.max_rounds if not interrupted else 0):
                callback(number, self.losses[-1])
                chosen = self.choose()
                if not chosen:
                    message = "no feature gains min_gain or more"
                    break
                outcome = self.add(chosen, number)
                self._keep(outcome, watch)
                if outcome.interrupted:
                    interrupted = True
                    break
                if (
                    watch is not None
                    and len(self.watched) - 1 - int(np.argmin(self.watched)) >= params.n_iter_no_change
                ):
                    message = "held-out sequences got no better"
                    break
                if self.losses[-2] - self.losses[-1] < params.tol * max(1.0, abs(self.losses[-1])):
                    message = "the objective no longer decreased"
                    break
            else:
                callback(params.max_rounds, self.losses[-1])
            if (
                self.watched
            ):  # the weights of the best round are kept as well, since it is they that were judged
                self.restore(int(np.argmin(self.watched)))
            elif not interrupted and self.features:
                outcome = self._fit(self.stages[-1].parts, params.max_iter)
                self.stages[-1] = self.stages[-1]._replace(parts=self._parts(outcome))
                self.losses[-1] = outcome.value
                interrupted = outcome.interrupted
        except KeyboardInterrupt:
            interrupted = True
        outcome.interrupted = interrupted
        if self.watched:
            outcome.converged = True
        outcome.message = message if outcome.converged else outcome.message
        return outcome

    # ---- choosing ---------------------------------------------------------------------------------------------

    def choose(self) -> list[Candidate]:
        """The features of largest gain, at most ``batch_size`` of them, the best first."""
        params = self.params
        chains = self._chains()
        rows = self._steps_in_use(chains)
        free, known = self._marginals(chains)
        gains = ConjunctionGains(free[rows], known[rows], self.row_weight[rows], params.C)
        n_wanted = max(params.batch_size, params.n_rescore)
        found: list[Candidate] = []
        counted = 0
        for conjunctions in self._candidate_groups(gains, rows, found, n_wanted):
            if not conjunctions:
                continue
            counted += len(conjunctions) * self.labels.n_labels
            self._weigh(conjunctions, gains, rows, found, n_wanted)
        self.n_candidates.append(counted)
        ranked = sorted(found, key=_rank)
        if params.n_rescore:
            head = [self._rescored(chains, one) for one in ranked[: params.n_rescore]]
            ranked = sorted(head, key=_rank) + ranked[params.n_rescore :]
        chosen: list[Candidate] = []
        seen: set[tuple[bytes, int]] = set()
        for one in ranked:
            if len(chosen) == params.batch_size or one.gain <= params.min_gain:
                break
            held = self._truth_of(one.conjunction)
            key, in_use = (_signature(held), one.label), (_signature(held[rows]), one.label)
            if key in self.taken or in_use in seen:
                continue
            seen.add(in_use)
            chosen.append(one)
        return chosen

    def _candidate_groups(
        self, gains: ConjunctionGains, rows: np.ndarray, found: list[Candidate], n_wanted: int
    ) -> Iterator[list[Conjunction]]:
        """Candidates; with an exhaustive search length by length, grown from those that may still lead somewhere."""
        items: list[Conjunction] = [(k,) for k in range(len(self.items))]
        if not self.params.exhaustive:
            grown: set[Conjunction] = {
                pair for pair in combinations(range(len(items)), 2) if self._is_legal(pair)
            }
            for conjunction in self.conjunctions:
                for k in range(len(items)):
                    grown.add(tuple(sorted({*conjunction, k})))
            grown = {one for one in grown if 1 < len(one) <= self.params.max_order and self._is_legal(one)}
            yield [*items, *sorted(grown, key=lambda one: (len(one), one))]
            return
        level: list[Conjunction] = items
        while level:
            yield level
            worst = _threshold(found, n_wanted, self.params.min_gain)
            alive = [
                one
                for part, truth in self._truths(level, rows)
                for one in self._alive(part, truth, gains, worst)
            ]
            if len(level[0]) >= self.params.max_order:
                break
            level = [
                (*one, k)
                for one in alive
                for k in range(one[-1] + 1, len(items))
                if self._is_legal((*one, k))
            ]

    def _alive(
        self, part: list[Conjunction], truth: sparse.csc_array, gains: ConjunctionGains, worst: float
    ) -> Iterable[Conjunction]:
        often = np.diff(truth.indptr) >= self.params.min_count
        best = gains.bounds(truth).max(axis=1)
        return [part[k] for k in np.flatnonzero(often & (best > worst))]

    def _is_legal(self, conjunction: Conjunction) -> bool:
        return not any(self.opposite[item] in conjunction for item in conjunction)

    def _truths(
        self, conjunctions: Sequence[Conjunction], rows: np.ndarray
    ) -> Iterator[tuple[list[Conjunction], sparse.csc_array]]:
        """Conjunctions in groups, with their truth at some steps."""
        size = max(1, _ENTRIES_AT_ONCE // max(1, len(rows)))
        truth = self.truth[rows]
        for first in range(0, len(conjunctions), size):
            part = list(conjunctions[first : first + size])
            held = np.ones((len(rows), len(part)), dtype=bool, order="F")
            for k, conjunction in enumerate(part):
                for item in conjunction:
                    held[:, k] &= truth[:, item]
            yield part, sparse.csc_array(held.astype(np.float64))

    def _weigh(
        self,
        conjunctions: list[Conjunction],
        gains: ConjunctionGains,
        rows: np.ndarray,
        found: list[Candidate],
        n_wanted: int,
    ) -> None:
        """Add candidates with their gains, those excepted whose bounds show that they are not among the best."""
        for part, truth in self._truths(conjunctions, rows):
            often = np.diff(truth.indptr) >= self.params.min_count
            bounds = np.where(often[:, None], gains.bounds(truth), 0.0)
            order = np.argsort(-bounds, axis=None, kind="stable")
            for first in range(0, len(order), _CANDIDATES_AT_ONCE):
                taken = order[first : first + _CANDIDATES_AT_ONCE]
                worst = _threshold(found, n_wanted, self.params.min_gain)
                taken = taken[bounds.flat[taken] > worst]
                if not len(taken):
                    break
                place, label = np.unravel_index(taken, bounds.shape)
                weights, values = gains.best(truth[:, place], label)
                for k in np.flatnonzero(values > self.params.min_gain):
                    one = Candidate(float(values[k]), float(weights[k]), part[place[k]], int(label[k]))
                    if (_signature(self._truth_of(one.conjunction)), one.label) not in self.taken:
                        found.append(one)

    def _rescored(self, chains: PackedChains, one: Candidate) -> Candidate:
        """The candidate with its true gain, at passes over the data."""
        loss = SequenceLoss(self.weight, None)
        step = np.zeros(chains.unary.shape)
        step[:, one.label] = self._truth_of(one.conjunction)
        scores = chains.unary, chains.transition
        known_value = self.known.residuals(scores).known
        line = ScoreLine(self.known, loss, scores, known_value, (step, np.zeros_like(chains.transition)))

        def penalised(mu: float) -> tuple[float, float, float]:
            value, slope, curve = line(mu)
            return value + mu**2 / (2 * self.params.C), slope + mu / self.params.C, curve + 1 / self.params.C

        start = penalised(0.0)
        mu, value = minimise_along(penalised, start, -start[1] / start[2], rtol=_LINE_PRECISION)
        return one._replace(gain=start[0] - value, weight=mu)

    # ---- growing ----------------------------------------------------------------------------------------------

    def add(self, chosen: Sequence[Candidate], number: int) -> SolverOutcome:
        """Give the chosen features weights, and take some steps on all weights."""
        before = self.stages[-1].parts
        old, n_old = before.node, len(self.conjunctions)
        places = []
        for one in chosen:
            if one.conjunction not in self.conjunctions:
                self.conjunctions.append(one.conjunction)
                self.columns.append(self._truth_of(one.conjunction))
            places.append((one.label, self.conjunctions.index(one.conjunction)))
            self.features.append(Feature(one.conjunction, one.label, one.gain, number))
            self.taken.add((_signature(self._truth_of(one.conjunction)), one.label))
        node = np.zeros((self.labels.n_labels, len(self.conjunctions)))
        node[:, :n_old] = old
        self.gains.append(float(sum(one.gain for one in chosen)))
        starts = []
        for share in (1.0, 1.0 / len(chosen), 0.0):
            trial = node.copy()
            for place, one in zip(places, chosen, strict=True):
                trial[place] = share * one.weight
            starts.append(before._replace(node=trial))
        return self._fit(starts, self.params.refit_iter)

    def restore(self, number: int) -> None:
        """Go back to a stage."""
        stage = self.stages[number]
        del self.stages[number + 1 :]
        del self.features[stage.n_features :], self.conjunctions[stage.n_conjunctions :]
        del self.columns[stage.n_conjunctions :], self.gains[number:]

    def _fit(self, start: Any, max_iter: int) -> SolverOutcome:
        """Minimise over all weights, from the first of several starts that is lower than the last of them."""
        objective = self._objective()
        if start is None:
            coef = np.zeros(objective.n_coef)
        elif isinstance(start, ChainCoefficients):
            coef = objective.join(start)
        else:
            coefs = [objective.join(one) for one in start]
            stay = objective.value_and_gradient(coefs[-1])[0]
            coef = next((one for one in coefs[:-1] if objective.value_and_gradient(one)[0] < stay), coefs[-1])
        outcome = lbfgs(objective, coef, max_iter=max_iter, tol=self.params.tol)
        self._split = objective.split
        return outcome

    def _objective(self) -> ChainLogLikelihood:
        pairs = np.zeros((len(self.conjunctions), self.labels.n_labels))
        for one in self.features:
            pairs[self.conjunctions.index(one.conjunction), one.label] = 1.0
        return ChainLogLikelihood(
            PackedBatch(self.values(), self.offsets),
            self.labels,
            weight=self.weight,
            C=self.params.C,
            fit_intercept=self.params.fit_intercept,
            start_end=self.params.start_end,
            allowed_transitions=self.allowed_transitions,
            pairs=sparse.csr_array(pairs),
            n_jobs=self.n_jobs,
        )

    def values(self) -> sparse.csr_array:
        """Truth of the conjunctions in use, (n_total, n_conjunctions)."""
        if not self.columns:
            return sparse.csr_array((int(self.offsets[-1]), 0))
        return sparse.csr_array(np.column_stack(self.columns).astype(np.float64))

    def _keep(self, outcome: SolverOutcome, watch: Callable[[Induction], float] | None) -> None:
        self.stages.append(Stage(len(self.features), len(self.conjunctions), self._parts(outcome)))
        self.losses.append(outcome.value)
        if watch is not None:
            self.watched.append(watch(self))

    def _parts(self, outcome: SolverOutcome) -> ChainCoefficients:
        parts = self._split(outcome.coef)
        return parts._replace(node=parts.node.toarray())

    def _chains(self) -> PackedChains:
        parts = self.stages[-1].parts
        unary = self.values() @ parts.node.T + parts.intercept
        unary[self.offsets[:-1]] += parts.start
        unary[self.offsets[1:] - 1] += parts.end
        return PackedChains(np.ascontiguousarray(unary), parts.transition, self.offsets)

    def _marginals(self, chains: PackedChains) -> tuple[np.ndarray, np.ndarray]:
        """Of labels, and of labels given what is known."""
        free = chains.forward_backward()[1]
        known = chains.narrowed(self.labels.allowed()).forward_backward()[1]
        return np.clip(free, 0.0, 1.0), np.clip(known, 0.0, 1.0)

    def _steps_in_use(self, chains: PackedChains) -> np.ndarray:
        counts = self.row_weight > 0
        if self.params.steps == "errors":
            allowed = self.labels.allowed()
            wrong = ~allowed[np.arange(len(allowed)), chains.viterbi()[0]]
            return np.flatnonzero(counts & wrong)
        if self.params.steps == "uncertain":
            free, known = self._marginals(chains)
            return np.flatnonzero(counts & ((free * known).sum(axis=1) < self.params.certainty))
        return np.flatnonzero(counts)

    def _truth_of(self, conjunction: Conjunction) -> np.ndarray:
        held = np.ones(len(self.truth), dtype=bool)
        for item in conjunction:
            held &= self.truth[:, item]
        return held


def _rank(one: Candidate) -> tuple[float, int, Conjunction, int]:
    # equal up to rounding counts as equal, so that ties are broken by what is simpler
    return -float(f"{one.gain:.11g}"), len(one.conjunction), one.conjunction, one.label


def _threshold(found: list[Candidate], n_wanted: int, least: float) -> float:
    """A gain that a candidate has to exceed to be of use."""
    if len(found) < n_wanted:
        return least
    # of each label and truth one is taken: those equal in gain may be one feature
    distinct = sorted({(float(f"{one.gain:.11g}"), one.label) for one in found}, reverse=True)
    return max(least, distinct[n_wanted - 1][0]) if len(distinct) >= n_wanted else least


def _signature(held: np.ndarray) -> bytes:
    return np.packbits(held).tobytes()
