"""Nested segments of one sequence as the kernels take them: the trusted form of ``inference.hierarchy``.

A hierarchical semi-Markov model has ``D`` levels of segments; those of a level tile the segments of the level
above, and the root is one segment over everything. Sums run in plain masses under a gauge, with a certificate;
a sequence that fails it is redone in the log domain. Levels are passed over one at a time, bottom up for masses
inside segments and top down for masses around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.inference import _nested_log, _nested_scaled, _nested_trace
from sklearn_seqlab.inference._estimated_gauge import estimated_gauge
from sklearn_seqlab.sequences import cut_rows

__all__ = ["NestedMarginals", "NestedSegments", "Numerics"]

Numerics = Literal["auto", "scaled", "log"]

# Scores beyond this have exponentials too close to the ends of the double range.
_LARGEST_SCORE = 600.0
# Products of two masses above this cannot vanish; what vanished is below 1e-308, so with surroundings of at
# most the second number it weighs less than 1e-28. Z itself has to lie well inside the range.
_SAFE_MASS, _LARGEST_MASS = 1e-100, 1e280
_SMALLEST_Z, _LARGEST_Z = 1e-250, 1e250
# States of a level must have probabilities that sum to one to this.
_SUM_TOLERANCE = 1e-8
# Sequences whose masses cannot leave exp(+-200) are in range without a gauge.
_SAFE_LOG_MASS = 200.0
# Sums of scores up to this size do not overflow, however many they are.
_LARGEST_SUMMABLE = 1e300
# Up to so many steps tell how fast a gauge drifts.
_N_TRIAL_STEPS = 64


class NestedMarginals(NamedTuple):
    """Probabilities of everything a score belongs to: the gradient of log Z with respect to the scores.

    ``persistence``, ``initialisation``, ``transition`` and ``ending`` are shaped as in ``NestedSegments``;
    ``state[d]`` (n_total, n_states[d]) are the probabilities of states, ``ends`` (n_levels, n_total) those of a
    segment's last step. ``redone`` says that the log domain was needed.
    """

    persistence: list[np.ndarray]
    initialisation: list[np.ndarray]
    transition: list[np.ndarray]
    ending: list[np.ndarray]
    state: list[np.ndarray]
    ends: np.ndarray
    redone: bool


class _Masses(NamedTuple):
    """Exponentiated scores, whole masses ``full`` of the segments by level, and what was taken off log Z."""

    weight: list[np.ndarray]
    initialisation: list[np.ndarray]
    transition: list[np.ndarray]
    ending: list[np.ndarray]
    full: list[np.ndarray]
    largest: list[float]  # by level the largest mass inside a segment, 0 if no weight can have vanished
    log_gauge: float
    kept: bool  # nothing can have vanished, whatever surrounds it

    @property
    def z(self) -> float:
        return float(self.full[0].sum())

    @property
    def log_z(self) -> float:
        return float(np.log(self.z) + self.log_gauge)


@dataclass(frozen=True, eq=False)
class NestedSegments:
    """Scores of one hierarchy of segments, in nats; minus infinity forbids. Trusted.

    Attributes
    ----------
    persistence : list of n_levels ndarrays, dtype=float64, C-contiguous
        ``persistence[0]`` (n_states[0],) scores the root segment, the others, (n_total, max_duration[d],
        n_states[d]), hold at ``[i, n - 1, s]`` the segment of ``n`` steps that starts at ``i``; minus infinity
        where it would leave the sequence.
    initialisation : list of n_levels - 1 ndarrays of shape (n_total, n_states[d], n_states[d + 1])
        ``[t, s, u]``: a segment of state s starts at t, with first child u.
    transition : list of n_levels - 1 ndarrays of shape (n_total, n_states[d], n_states[d + 1], n_states[d + 1])
        ``[t, s, u, v]``: below a segment of state s, child u ends and child v starts at t. Row 0 is no move.
    ending : list of n_levels - 1 ndarrays of shape (n_total, n_states[d], n_states[d + 1])
        ``[t, s, u]``: a segment of state s has its last step at t, and last child u.
    first : int
        Number of the sequence, for messages.
    gauge : ndarray of shape (n_total,), default=None
        Nats per time step that scaled sums take off. Any finite values are right; good ones keep masses in
        range. None estimates them.
    """

    persistence: Sequence[np.ndarray]
    initialisation: Sequence[np.ndarray]
    transition: Sequence[np.ndarray]
    ending: Sequence[np.ndarray]
    first: int = 0
    gauge: np.ndarray | None = None

    def __post_init__(self) -> None:
        # the kernels trust these shapes; a damaged estimator must not make them read elsewhere
        sizes, n_total = self.sizes, len(self.initialisation[0])
        pairs = list(pairwise(sizes))
        wanted = [(n_total, s, u) for s, u in pairs]
        shapes = [
            ("initialisation", self.initialisation, wanted),
            ("transition", self.transition, [(n_total, s, u, u) for s, u in pairs]),
            ("ending", self.ending, wanted),
            ("persistence", [p[:, 0] for p in self.persistence[1:]], [(n_total, u) for _, u in pairs]),
        ]
        for name, arrays, expected in shapes:
            found = [a.shape for a in arrays]
            if found != expected:
                raise ValueError(f"{name} scores have shapes {found}; expected {expected}.")
        if n_total == 0 or (self.gauge is not None and self.gauge.shape != (n_total,)):
            raise ValueError("A hierarchy has one or more time steps, and as many values in its gauge.")

    @property
    def n_levels(self) -> int:
        return len(self.persistence)

    @property
    def n_total(self) -> int:
        return len(self.initialisation[0])

    @property
    def sizes(self) -> list[int]:
        """Number of states of each level."""
        return [p.shape[-1] for p in self.persistence]

    def _shortest(self, d: int) -> int:
        return self.n_total if d == 0 else 1

    @cached_property
    def _bands(self) -> list[np.ndarray]:
        """Persistence with the root as a level of a single start and a single duration."""
        return [self.persistence[0][None, None, :], *self.persistence[1:]]

    @cached_property
    def _durations(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Shortest and longest duration of finite score by level, (n_starts, n_states); 0 where none starts."""
        durations = []
        for d, band in enumerate(self._bands):
            pair = np.empty((2, len(band), band.shape[2]), dtype=np.intp)
            _nested_scaled.live(band, self._shortest(d), self.n_total, pair[0], pair[1])
            durations.append((pair[0], pair[1]))
        return durations

    @cached_property
    def _spans(self) -> list[np.ndarray]:
        """Duration of the longest segment of finite score by level and start; 0 where none starts."""
        return [longest.max(axis=1) for _, longest in self._durations]

    def _workspace(self, d: int, *leading: int) -> np.ndarray:
        """Rows of the parents of level ``d``, as many as ``leading`` says."""
        return np.empty((*leading, int(self._spans[d].max()) + 1, self.sizes[d], self.sizes[d + 1]))

    # -- sums ------------------------------------------------------------------------------------------------

    def log_partition(self, numerics: Numerics = "auto") -> float:
        """Log of the summed exponentiated scores of all configurations; minus infinity if there is none."""
        if numerics != "log":
            masses = self._scaled_inside()
            if masses is not None and masses.kept and _SMALLEST_Z <= masses.z <= _LARGEST_Z:
                return masses.log_z
            if masses is not None:  # the masses around segments can still certify it
                found = self._scaled_forward_backward(masses)
                if found is not None:
                    return found[0]
        log_z = _log_sum(self._log_inside(False)[0])
        if numerics == "scaled" and log_z > -np.inf:
            self._raise_uncertified()
        return log_z

    def forward_backward(self, numerics: Numerics = "auto") -> tuple[float, NestedMarginals]:
        """Log-partition and all marginals.

        Raises
        ------
        InfeasibleSequenceError
            If no configuration has a finite score.
        FloatingPointError
            If ``numerics="scaled"`` and the certificate fails.
        """
        if numerics != "log":
            masses = self._scaled_inside()
            found = None if masses is None else self._scaled_forward_backward(masses)
            if found is not None:
                return found
        full = self._log_inside(False)
        log_z = _log_sum(full[0])
        self.raise_if_infeasible(log_z)
        if numerics == "scaled":
            self._raise_uncertified()
        return log_z, self._log_outside(full, log_z)

    def _scaled_inside(self) -> _Masses | None:
        """None if some score is too large or too small for its exponential."""
        tables = self.initialisation, self.transition, self.ending
        lowest = min(_smallest_finite(scores) for part in tables for scores in part)
        highest = max(scores.max() for part in tables for scores in part)
        if not (lowest >= -_LARGEST_SCORE and highest <= _LARGEST_SCORE):
            return None
        if not all(span.any() for span in self._spans):
            return None
        with np.errstate(all="ignore"):  # what leaves the range is seen by the certificate
            factors = [[np.exp(a) for a in part] for part in tables]
            gauges = self._gauges(*factors)
            masses = self._inside_under(gauges, factors, lowest)
            n = min(_N_TRIAL_STEPS, self.n_total // 2)
            if self.gauge is None and n and masses is not None and not _SMALLEST_Z <= masses.z <= _LARGEST_Z:
                # scores of durations made the gauge drift: see how fast, and try once more
                trial = self._first_steps(n)
                if trial._spans[0][0]:
                    drifted = trial._inside_under(
                        gauges[:, :n], [[a[:n] for a in part] for part in factors], lowest
                    )
                    drift = np.log(drifted.z) / n if drifted is not None else 0.0
                    if np.isfinite(drift):
                        gauges[-1] += drift
                        return self._inside_under(gauges, factors, lowest)
            return masses

    def _inside_under(
        self, gauges: np.ndarray, factors: list[list[np.ndarray]], lowest: float
    ) -> _Masses | None:
        """Masses under a gauge (n_levels, n_total); ``lowest`` is the smallest score whose factor is not zero."""
        spans = self._spans
        taken = np.zeros((self.n_levels, self.n_total + 1))
        np.cumsum(gauges, axis=1, out=taken[:, 1:])
        weight, extremes = [np.zeros(band.shape) for band in self._bands], np.zeros((self.n_levels, 2))
        for d, band in enumerate(self._bands):
            _nested_scaled.weigh(band, taken[d], spans[d], self._shortest(d), extremes[d], weight[d])
        if not extremes[:, 1].max() <= _LARGEST_SCORE:
            return None
        full = [np.zeros(w.shape) for w in weight[:-1]] + [weight[-1]]
        lows, largest = [], [0.0] * self.n_levels
        for d in reversed(range(self.n_levels - 1)):
            low, high = np.ones(self.sizes[d : d + 2]), np.zeros(self.sizes[d])
            _nested_scaled.inside(
                *(part[d] for part in factors), weight[d], spans[d], self._shortest(d),
                full[d + 1], spans[d + 1], *self._workspace(d, 2), low, high, full[d],
            )  # fmt: skip
            lows += [low.min(), np.min(full[d + 1], where=full[d + 1] > 0, initial=1.0)]
            if extremes[d, 0] < np.log(_SAFE_MASS):
                largest[d] = high.max()
        smallest = min(lowest, extremes[:, 0].min())
        kept = bool(min(lows) >= _SAFE_MASS and smallest >= np.log(_SAFE_MASS))
        initialisation, transition, ending = factors
        log_gauge = float(taken[:, -1].sum())
        return _Masses(weight, initialisation, transition, ending, full, largest, log_gauge, kept)

    def _first_steps(self, n: int) -> NestedSegments:
        """The model of the first ``n`` steps by themselves."""
        persistence = [self.persistence[0]]
        for band in self.persistence[1:]:
            part = band[:n, :n].copy()
            part[np.arange(n)[:, None] + np.arange(part.shape[1]) >= n] = -np.inf
            persistence.append(part)
        initialisation, transition, ending = (
            [a[:n] for a in part] for part in (self.initialisation, self.transition, self.ending)
        )
        return NestedSegments(persistence, initialisation, transition, ending, self.first)

    def _scaled_forward_backward(self, masses: _Masses) -> tuple[float, NestedMarginals] | None:
        """None without a certificate."""
        if not _SMALLEST_Z <= masses.z <= _LARGEST_Z:
            return None
        spans, full = self._spans, masses.full
        around = [np.full_like(full[0], 1.0 / masses.z)] + [np.zeros(f.shape) for f in full[1:]]
        starts, moves, stops = self._zeros()
        highest = []
        with np.errstate(all="ignore"):
            for d in range(self.n_levels - 1):
                own = around[d] * masses.weight[d]
                high = np.zeros(self.sizes[d : d + 2])
                alpha, zeta = self._workspace(d, 2, 4)
                transposed = np.ascontiguousarray(masses.transition[d].swapaxes(2, 3))
                _nested_scaled.outside(
                    masses.initialisation[d], masses.transition[d], transposed, masses.ending[d], own, spans[d],
                    self._shortest(d), full[d + 1], spans[d + 1], alpha, zeta, *self._workspace(d, 2), high,
                    around[d + 1], starts[d], moves[d], stops[d],
                )  # fmt: skip
                moves[d] *= masses.transition[d]
                highest += [high.max(), full[d].max(), masses.largest[d] * around[d].max()]
                highest += [part.max() for part in (around[d + 1], starts[d], moves[d], stops[d])]  # NaN too
            segment = [np.multiply(f, a, out=a) for f, a in zip(full, around, strict=True)]
            state, ends = self._covered(segment)
            off_by = np.max([np.abs(p.sum(axis=1) - 1.0).max() for p in state])
        if not (np.max(highest) <= _LARGEST_MASS and off_by <= _SUM_TOLERANCE):  # NaN too
            return None
        segment[0] = segment[0][0, 0]
        return masses.log_z, NestedMarginals(segment, starts, moves, stops, state, ends, False)

    def _log_inside(self, maximum: bool) -> list[np.ndarray]:
        """Log-mass, or best score, of every segment by level, its own persistence included."""
        self._raise_if_too_large()
        full = [np.full_like(p, -np.inf) for p in self._bands[:-1]] + [self._bands[-1]]
        for d in reversed(range(self.n_levels - 1)):
            _nested_log.inside(
                maximum, self.initialisation[d], self.transition[d], self.ending[d], self._bands[d],
                self._spans[d], self._shortest(d), full[d + 1], self._spans[d + 1],
                self._workspace(d, 3), np.empty(self.sizes[d + 1]), full[d],
            )  # fmt: skip
        return full

    def _log_outside(self, full: list[np.ndarray], log_z: float) -> NestedMarginals:
        around = [np.full_like(full[0], -log_z)] + [np.full_like(f, -np.inf) for f in full[1:]]
        starts, moves, stops = self._zeros()
        for d in range(self.n_levels - 1):
            terms = np.empty(max(*self.sizes[d : d + 2], full[d + 1].shape[1]))
            _nested_log.outside(
                self.initialisation[d], self.transition[d], self.ending[d], around[d] + self._bands[d],
                self._spans[d], self._shortest(d), full[d + 1], self._spans[d + 1],
                self._workspace(d, 5), terms, around[d + 1], starts[d], moves[d], stops[d],
            )  # fmt: skip
        segment = [np.exp(f + a) for f, a in zip(full, around, strict=True)]
        state, ends = self._covered(segment)
        segment[0] = segment[0][0, 0]
        return NestedMarginals(segment, starts, moves, stops, state, ends, True)

    def _zeros(self) -> tuple[list[np.ndarray], ...]:
        return tuple(
            [np.zeros(a.shape) for a in part] for part in (self.initialisation, self.transition, self.ending)
        )

    def _covered(self, segment: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """Probabilities of states and of ends, from those of segments."""
        state = [np.zeros((self.n_total, size)) for size in self.sizes]
        ends = np.zeros((self.n_levels, self.n_total))
        for d, p in enumerate(segment):
            _nested_scaled.cover(
                p, self._spans[d], self._shortest(d), np.empty(self.sizes[d]), state[d], ends[d]
            )
        return state, ends

    def _gauges(
        self, initialisation: list[np.ndarray], transition: list[np.ndarray], ending: list[np.ndarray]
    ) -> np.ndarray:
        """(n_levels, n_total): nats per step that are taken off the persistence of each level."""
        gauge = np.zeros((self.n_levels, self.n_total))
        if self.gauge is not None:
            gauge[-1] = self.gauge
        elif not self._is_small():
            gauge = estimated_gauge(self._bands, self._durations, [initialisation, transition, ending])
        return gauge if np.isfinite(gauge).all() else np.zeros_like(gauge)

    def _is_small(self) -> bool:
        """Whether no mass can leave the range even without a gauge."""
        n_terms, log_size = 4 * self.n_levels * self.n_total, np.log(max(self.sizes) + 1)
        if n_terms * log_size >= _SAFE_LOG_MASS:
            return False
        scores = (*self._bands, *self.initialisation, *self.transition, *self.ending)
        largest = max(max(a.max(), -_smallest_finite(a)) for a in scores)
        return n_terms * (largest + log_size) < _SAFE_LOG_MASS

    # -- configurations ----------------------------------------------------------------------------------------

    def viterbi(self) -> tuple[np.ndarray, np.ndarray, float]:
        """States (n_levels, n_total), ends (n_levels, n_total) int8 and score of the best configuration."""
        full = self._log_inside(True)
        best = float(full[0].max())
        self.raise_if_infeasible(best)
        x, e = self._trace(full, None)
        return x, e, best

    def sample(self, n_samples: int, random: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """``n_samples`` independent configurations ``(x, e)``, as in :meth:`viterbi`."""
        random = check_random_state(random)
        full = self._log_inside(False)
        self.raise_if_infeasible(_log_sum(full[0]))
        return [self._trace(full, random) for _ in range(n_samples)]

    def _trace(
        self, full: list[np.ndarray], random: np.random.RandomState | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best configuration, or one drawn at random."""
        x = np.empty((self.n_levels, self.n_total), dtype=np.intp)
        e = np.zeros((self.n_levels, self.n_total), dtype=np.int8)
        root, uniform = full[0][0, 0], np.zeros(2 * self.n_total)
        if random is None:
            x[0] = root.argmax()
        else:
            probability = np.exp(root - root.max())
            x[0] = random.choice(len(root), p=probability / probability.sum())
        e[0, -1] = 1
        for d in range(self.n_levels - 1):
            if random is not None:
                uniform = random.random_sample(2 * self.n_total)
            terms = np.empty(max(self.sizes[d + 1], full[d + 1].shape[1]))
            _nested_trace.trace(
                random is None, self.initialisation[d], self.transition[d], self.ending[d], full[d + 1],
                self._spans[d + 1], x[d], e[d], uniform, self._workspace(d, 3), terms, x[d + 1], e[d + 1],
            )  # fmt: skip
        return x, e

    def score_of(self, x: np.ndarray, e: np.ndarray) -> float:
        """Score of one valid configuration; minus infinity if something in it is forbidden."""
        terms = [self.persistence[0][x[0, :1]]]
        for d in range(self.n_levels - 1):
            child_start, child_stop = cut_rows(e[d + 1])
            band, n = self.persistence[d + 1], child_stop - child_start
            if n.max() > band.shape[1]:
                return -np.inf
            terms.append(band[child_start, n - 1, x[d + 1, child_start]])
            start, stop = cut_rows(e[d])
            last = stop - 1
            terms.append(self.initialisation[d][start, x[d, start], x[d + 1, start]])
            terms.append(self.ending[d][last, x[d, last], x[d + 1, last]])
            t = child_start[1:][e[d, child_start[1:] - 1] == 0]
            terms.append(self.transition[d][t, x[d, t], x[d + 1, t - 1], x[d + 1, t]])
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.concatenate(terms).sum()
        if not total < np.inf:
            raise ValueError(f"The scores of sequence {self.first} sum to more than double precision holds.")
        return float(total)

    # -- observations ------------------------------------------------------------------------------------------

    def narrowed(
        self, allowed: Sequence[np.ndarray | None] | None = None, ends: np.ndarray | None = None
    ) -> NestedSegments:
        """The same hierarchy over configurations that agree with what is known.

        Parameters
        ----------
        allowed : list of n_levels bool ndarrays of shape (n_total, n_states[d]) or None, default=None
        ends : ndarray of shape (n_levels, n_total), dtype=int8, default=None
            1 where a segment is known to have its last step, 0 where it is known not to, -1 elsewhere.

        Returns
        -------
        narrowed : NestedSegments
            Segments that disagree have a persistence of minus infinity; nothing else needs a mask, since the
            segments of a level cover every step once. Longest durations shrink to what is left.
        """
        n_total, steps = self.n_total, np.arange(self.n_total)
        is_end, is_no_end = np.zeros((2, self.n_levels, n_total), dtype=bool)
        if ends is not None:  # an end ends everything below, a segment that goes on is in segments that go on
            is_end = np.logical_or.accumulate(ends == 1, axis=0)
            is_no_end = np.logical_or.accumulate((ends == 0)[::-1], axis=0)[::-1]
        bands = []
        for d, band in enumerate(self._bands):
            n_starts, shortest = len(band), self._shortest(d)
            first_end = _next(is_end[d], steps) + 1
            limit = np.minimum(first_end, n_total)[:n_starts, None] - steps[:n_starts, None]
            limit = np.broadcast_to(limit, (n_starts, band.shape[2]))
            mask = None if allowed is None else allowed[d]
            if mask is not None:
                next_bad = _next(~mask, steps[:, None])
                limit = np.minimum(limit, next_bad[:n_starts] - steps[:n_starts, None])
            shut = np.zeros(n_starts, dtype=bool)
            shut[1:] = is_no_end[d, : n_starts - 1]
            limit = np.where(shut[:, None], 0, limit)
            longest = min(max(int(limit.max()), shortest), band.shape[1] + shortest - 1)
            kept = band[:, : longest - shortest + 1].copy()
            n = np.arange(shortest, longest + 1)
            kept[n[:, None] > limit[:, None, :]] = -np.inf
            last = np.minimum(steps[:n_starts, None] + n, n_total) - 1
            kept[is_no_end[d, last]] = -np.inf
            bands.append(kept)
        persistence = [bands[0][0, 0], *bands[1:]]
        return NestedSegments(
            persistence, self.initialisation, self.transition, self.ending, self.first, self.gauge
        )

    # -- errors --------------------------------------------------------------------------------------------------

    def raise_if_infeasible(self, best: float) -> None:
        """Raise if the sum or the best score is minus infinity, naming the level and step that cannot be."""
        if best > -np.inf:
            return
        full = self._log_inside(True)
        for d in reversed(range(1, self.n_levels)):
            n_levels_below = "" if d == self.n_levels - 1 else " with everything below it"
            stop = _furthest(full[d], self._shortest(d), self.n_total)
            if stop < self.n_total:
                raise InfeasibleSequenceError(
                    f"Sequence {self.first} has no feasible labelling: no segment of level {d}{n_levels_below} "
                    f"can cover time step {stop} after what comes before it."
                )
        if self.persistence[0].max() == -np.inf:
            why = "no root state is possible for the whole sequence"
        else:
            why = "its segments of level 1 can follow each other at no time step that is left"
        raise InfeasibleSequenceError(f"Sequence {self.first} has no feasible labelling: level 0: {why}.")

    def _raise_if_too_large(self) -> None:
        """Raise for scores whose sums could leave the double range."""
        scores = (*self._bands, *self.initialisation, *self.transition, *self.ending)
        highest, lowest = max(a.max() for a in scores), min(_smallest_finite(a) for a in scores)
        if not max(highest, -lowest) <= _LARGEST_SUMMABLE:  # NaN too
            raise ValueError(
                f"The scores of sequence {self.first} run from {lowest} to {highest}: their sums are beyond double "
                "precision."
            )

    def _raise_uncertified(self) -> None:
        raise FloatingPointError(
            f"The scaled sums of sequence {self.first} left the range in which they are certain; "
            'numerics="auto" or "log" has no such limit.'
        )


def _log_sum(values: np.ndarray) -> float:
    top = values.max()
    return float(top if top == -np.inf else top + np.log(np.exp(values - top).sum()))


def _smallest_finite(scores: np.ndarray) -> float:
    """The smallest score that is not minus infinity, 0 if there is none."""
    smallest = scores.min()
    if smallest == -np.inf:
        smallest = np.min(scores, where=scores > -np.inf, initial=np.inf)
    return float(smallest) if smallest < np.inf else 0.0


def _next(flags: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """First step from each step on at which a flag is set, the number of steps if none is."""
    at = np.where(flags, steps, len(flags))
    return np.minimum.accumulate(at[::-1], axis=0)[::-1]


def _furthest(full: np.ndarray, shortest: int, n_total: int) -> int:
    """Last boundary that is reached by tiling with segments of finite score, whatever states follow."""
    live = np.any(full > -np.inf, axis=2)
    reached = np.zeros(n_total + 1, dtype=bool)
    reached[0] = True
    for i in range(len(live)):
        if reached[i]:
            reached[i + shortest + np.flatnonzero(live[i, : n_total - i - shortest + 1])] = True
    return int(np.flatnonzero(reached)[-1])
