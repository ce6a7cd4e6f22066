"""The definitions, written slowly: what the compiled kernels are compared with."""

from functools import cache
from itertools import pairwise, product

import numpy as np
from scipy.special import logsumexp


def all_labellings(n_timesteps, n_labels):
    """Every labelling, in the order in which ties are broken: the last step varies slowest."""
    return [labels[::-1] for labels in product(range(n_labels), repeat=n_timesteps)]


def chain_score(unary, transition, labels, initial=None, final=None):
    """Score of one labelling; ``transition`` (n_labels, n_labels), or per step with entry t into step t."""
    score = sum(unary[t, label] for t, label in enumerate(labels))
    for t in range(1, len(labels)):
        move = transition[t] if np.ndim(transition) == 3 else transition
        score += move[labels[t - 1], labels[t]]
    score += 0 if initial is None else initial[labels[0]]
    score += 0 if final is None else final[labels[-1]]
    return score


class EnumeratedChain:
    """Every quantity of one chain by summing over all of its labellings."""

    def __init__(self, unary, transition, initial=None, final=None, allowed=None):
        self.unary, self.transition = np.asarray(unary), np.asarray(transition)
        self.labellings = all_labellings(*self.unary.shape)
        self.scores = np.array(
            [chain_score(self.unary, self.transition, y, initial, final) for y in self.labellings]
        )
        if allowed is not None:
            fits = [all(allowed[t][label] for t, label in enumerate(y)) for y in self.labellings]
            self.scores[~np.array(fits)] = -np.inf

    @property
    def log_partition(self):
        return logsumexp(self.scores)

    @property
    def probability(self):
        return np.exp(self.scores - self.log_partition)

    def node_marginals(self):
        node = np.zeros(self.unary.shape)
        for labels, p in zip(self.labellings, self.probability, strict=True):
            node[np.arange(len(labels)), labels] += p
        return node

    def edge_marginals(self):
        """(n_timesteps, n_labels, n_labels), entry t for the move into step t; zero at step 0."""
        n_timesteps, n_labels = self.unary.shape
        edge = np.zeros((n_timesteps, n_labels, n_labels))
        for labels, p in zip(self.labellings, self.probability, strict=True):
            for t in range(1, n_timesteps):
                edge[t, labels[t - 1], labels[t]] += p
        return edge

    def ranked(self):
        """Feasible labellings by decreasing score; equal scores in the order of the tie rule."""
        order = sorted(range(len(self.scores)), key=lambda k: -self.scores[k])
        return [(self.labellings[k], self.scores[k]) for k in order if self.scores[k] > -np.inf]

    def max_marginals(self):
        best = np.full(self.unary.shape, -np.inf)
        for labels, score in zip(self.labellings, self.scores, strict=True):
            for t, label in enumerate(labels):
                best[t, label] = max(best[t, label], score)
        return best

    def entropy(self):
        p = self.probability[self.probability > 0]
        return -(p * np.log(p)).sum()


@cache
def all_below(sizes, longest, n_steps):
    """States and ends ``(n, n_levels, n_steps)`` of every way to fill a segment of ``n_steps`` steps.

    ``sizes`` and ``longest`` are numbers of states and longest durations of the levels below the segment. In the
    order in which ties are broken: the last child, its start, then what comes before it; children by themselves
    come last.
    """
    n_levels = len(sizes)
    if n_levels == 0 or n_steps == 0:
        return np.zeros((2, 1, n_levels, n_steps), dtype=int)
    found = [np.zeros((2, 0, n_levels, n_steps), dtype=int)]
    for state in range(sizes[0]):
        for start in range(max(0, n_steps - longest[0]), n_steps):
            before = all_below(sizes, longest, start)
            inner = all_below(sizes[1:], longest[1:], n_steps - start)
            filled = np.zeros((2, before.shape[1], inner.shape[1], n_levels, n_steps), dtype=int)
            filled[..., :start] = before[:, :, None]
            filled[..., 1:, start:] = inner[:, None]
            filled[0, ..., 0, start:] = state
            filled[1, ..., 0, n_steps - 1] = 1
            found.append(filled.reshape(2, -1, n_levels, n_steps))
    return np.concatenate(found, axis=1)


class EnumeratedHierarchy:
    """Every quantity of one hierarchy of segments by summing over all of its configurations.

    ``longest`` are the durations up to which segments are tried, by level below the root; None tries all. Lists of
    potentials are those of ``HierarchyScores``.
    """

    def __init__(
        self, persistence, initialisation, transition, ending, allowed=None, ends=None, longest=None
    ):
        self.potentials = persistence, initialisation, transition, ending
        n_timesteps, sizes = len(persistence[0]), tuple(p.shape[-1] for p in persistence)
        longest = (n_timesteps,) * (len(sizes) - 1) if longest is None else tuple(longest)
        below = all_below(sizes[1:], longest, n_timesteps)
        self.x, self.e = np.zeros((2, sizes[0], below.shape[1], len(sizes), n_timesteps), dtype=int)
        self.x[:, :, 1:], self.e[:, :, 1:] = below
        self.x[:, :, 0] = np.arange(sizes[0])[:, None, None]
        self.e[:, :, 0, -1] = 1
        shape = (-1, len(sizes), n_timesteps)
        self.x, self.e = self.x.reshape(shape), self.e.reshape(shape)
        self.scores = np.zeros(len(self.x))
        for part, d, config, index in self.cliques():
            np.add.at(self.scores, config, self.potentials[part][d][index])
        for d in range(len(sizes)):
            if allowed is not None and allowed[d] is not None:
                fits = allowed[d][np.arange(n_timesteps), self.x[:, d]].all(axis=1)
                self.scores[~fits] = -np.inf
            if ends is not None:
                fits = ((ends[d] == self.e[:, d]) | (ends[d] == -1)).all(axis=1)
                self.scores[~fits] = -np.inf

    def cliques(self):
        """``(potential, level, configurations, index)`` of everything that has a score."""
        n_levels, n_timesteps = self.x.shape[1:]
        before = np.ones_like(self.e)  # an end right before the step
        before[:, :, 1:] = self.e[:, :, :-1]
        start = np.maximum.accumulate(np.where(before == 1, np.arange(n_timesteps), 0), axis=2)
        for d in range(n_levels):
            config, t = np.nonzero(self.e[:, d])
            yield 0, d, config, (start[config, d, t], t + 1, self.x[config, d, t])
            if d + 1 == n_levels:
                break
            yield 3, d, config, (t, self.x[config, d, t], self.x[config, d + 1, t])
            config, t = np.nonzero(before[:, d])
            yield 1, d, config, (t, self.x[config, d, t], self.x[config, d + 1, t])
            config, t = np.nonzero((before[:, d + 1] == 1) & (before[:, d] == 0))
            children = self.x[config, d + 1, t - 1], self.x[config, d + 1, t]
            yield 2, d, config, (t, self.x[config, d, t], *children)

    @property
    def log_partition(self):
        return logsumexp(self.scores)

    @property
    def probability(self):
        return np.exp(self.scores - self.log_partition)

    def marginals(self):
        """Probabilities in the shapes of the potentials, as four lists."""
        found = tuple([np.zeros(values.shape) for values in part] for part in self.potentials)
        probability = self.probability
        for part, d, config, index in self.cliques():
            np.add.at(found[part][d], index, probability[config])
        return found

    def best(self):
        """The first best configuration and its score."""
        k = int(np.argmax(self.scores))
        return self.x[k], self.e[k], self.scores[k]


def numerical_gradient(function, point, step=1e-6):
    """Central differences."""
    gradient = np.empty_like(point)
    for k in range(len(point)):
        move = np.zeros_like(point)
        move[k] = step
        gradient[k] = (function(point + move) - function(point - move)) / (2 * step)
    return gradient


class EnumeratedStacks:
    """Every configuration of the stacks of one sequence: the definition of what ``PackedStacks`` scores.

    A configuration is a stack per step and, per step, the highest level that ends with it (``n_levels``: none).
    What it scores is kept as places in the arrays of scores, so that one enumeration serves many scores.
    """

    def __init__(self, layout, segment_level, n_steps, max_duration, has_tail=False, persists=False):
        self.layout, self.m, self.n_steps = layout, segment_level, n_steps
        self.max_duration, self.has_tail, self.persists = max_duration, has_tail, persists
        self.stacks = [tuple(states) for states in layout.states.tolist()]
        self.prefix = {}
        for q in range(layout.n_levels):
            for stack, n in zip(self.stacks, layout.ancestor(q) + layout.cut[q], strict=True):
                self.prefix[stack[: q + 1]] = int(n)
        self.move = {tuple(column): k for k, column in enumerate(layout.moves.T.tolist())}
        self.configurations, places = [], []
        for first in range(len(self.stacks)):
            for codes, ends in self._continued([first], []):
                segments = list(self._segments(ends))
                if has_tail or all(stop - start <= max_duration for start, stop in segments):
                    places.append(list(self._places(codes, ends, segments)))
                    self.configurations.append((tuple(codes), tuple(ends)))
        flat = [(name, k, *place) for k, found in enumerate(places) for name, *place in found]
        of_name = {
            name: np.array([f[1:] for f in flat if f[0] == name], dtype=int) for name in {f[0] for f in flat}
        }
        # scores by row beside those that rows share stand at the same places
        for name, other in (
            ("first_child", "start"),
            ("last_child", "stop"),
            ("leave", "left"),
            ("enter", "entered"),
        ):
            of_name[name] = of_name.get(other, np.empty((0, 3), dtype=int))
        of_name["first_child"] = of_name["first_child"][of_name["first_child"][:, 2] >= layout.cut[1]]
        names = ("step", "start", "stop", "move", "duration", "tail")
        names += ("enter", "leave", "first_child", "last_child")
        self.places = {name: of_name.get(name, np.empty((0, 4), dtype=int)).T for name in names}

    def _continued(self, codes, ends):
        n_levels = self.layout.n_levels
        if len(codes) == self.n_steps:
            yield codes, [*ends, 0]
            return
        before = self.stacks[codes[-1]]
        goes_on = self.persists or (self.m == n_levels - 1 and (self.max_duration > 1 or self.has_tail))
        for k, after in enumerate(self.stacks):
            for q in range(1, n_levels):  # level q moves: what is above stays, what is below ends and starts
                if after[:q] == before[:q]:
                    yield from self._continued([*codes, k], [*ends, q])
            if goes_on and after == before:
                yield from self._continued([*codes, k], [*ends, n_levels])

    def _segments(self, ends):
        start = 0
        for t, highest in enumerate(ends):
            if highest <= self.m:
                yield start, t + 1
                start = t + 1

    def _places(self, codes, ends, segments):
        """(name of the scores, row, column, ...) of all that a configuration scores."""
        n_levels = self.layout.n_levels
        path = [[self.prefix[self.stacks[k][: q + 1]] for q in range(n_levels)] for k in codes]
        for t, k in enumerate(codes):
            yield "step", t, k
        for q in range(n_levels):
            yield "start", 0, path[0][q]
            if q > 0:
                yield "stop", self.n_steps - 1, path[-1][q]
        for t in range(1, self.n_steps):
            q = ends[t - 1]
            if q == n_levels:
                continue
            before, after = self.stacks[codes[t - 1]], self.stacks[codes[t]]
            yield "move", t, self.move[q - 1, before[q - 1], before[q], after[q]]
            yield "left", t - 1, path[t - 1][q]
            yield "entered", t, path[t][q]
            for below in range(q + 1, n_levels):
                yield "stop", t - 1, path[t - 1][below]
                yield "start", t, path[t][below]
        for start, stop in segments:
            leaf = path[start][self.m] - int(self.layout.cut[self.m])
            yield "duration", start, min(stop - start, self.max_duration) - 1, leaf
            for _ in range(self.max_duration, stop - start):
                yield "tail", leaf

    def _entries(self, name, scores):
        """Configurations and the entries of ``scores`` that they score; rows may share, and columns may end early."""
        k, *index = self.places[name]
        index = index[: scores.ndim]
        if name != "tail" and len(scores) == 1:
            index[0] = np.zeros_like(index[0])
        within = index[-1] < scores.shape[-1]
        return k[within], tuple(place[within] for place in index)

    def scores(self, stacks):
        """Score of each configuration; ``stacks`` holds one sequence."""
        total = np.zeros(len(self.configurations))
        for name in self.places:
            values = getattr(stacks, name)
            if values.size:
                k, index = self._entries(name, values)
                total += np.bincount(k, values[index], minlength=len(total))
        if stacks.movers.shape[1]:
            highest = np.array([ends[:-1] for _, ends in self.configurations])
            lowest_may, highest_may = stacks.movers[:, 1:]
            total[((highest < lowest_may) | (highest > highest_may)).any(axis=1)] = -np.inf
        return total

    def shares(self, stacks, weight=1.0):
        """Probabilities in the shapes of the scores: the gradient of ``weight * log_partition``, as a dict."""
        scores = self.scores(stacks)
        probability = weight * np.exp(scores - logsumexp(scores))
        shares = {}
        for name in self.places:
            shares[name] = np.zeros(getattr(stacks, name).shape)
            if shares[name].size:
                k, index = self._entries(name, shares[name])
                np.add.at(shares[name], index, probability[k])
        return shares


def all_segmentations(n_timesteps, n_labels, max_duration):
    """Every list of segments ``(start, stop, label)`` that tiles ``range(n_timesteps)``."""
    if n_timesteps == 0:
        return [[]]
    return [
        [*before, (start, n_timesteps, label)]
        for start in range(max(0, n_timesteps - max_duration), n_timesteps)
        for before in all_segmentations(start, n_labels, max_duration)
        for label in range(n_labels)
    ]


class EnumeratedSegments:
    """Every quantity of one segment model by summing over all segmentations."""

    def __init__(self, segment, transition, initial=None, final=None, allowed=None, ends=None):
        self.segment, self.transition = np.asarray(segment), np.asarray(transition)
        n_timesteps, max_duration, n_labels = self.segment.shape
        self.segmentations = all_segmentations(n_timesteps, n_labels, max_duration)
        self.scores = np.array([self._score(segments, initial, final) for segments in self.segmentations])
        for k, segments in enumerate(self.segmentations):
            labels, own_ends = self.codes(segments)
            if allowed is not None and not all(allowed[t][u] for t, u in enumerate(labels)):
                self.scores[k] = -np.inf
            if ends is not None and any(
                known not in (-1, own) for known, own in zip(ends, own_ends, strict=True)
            ):
                self.scores[k] = -np.inf

    def _score(self, segments, initial, final):
        score = sum(self.segment[start, stop - start - 1, u] for start, stop, u in segments)
        for (_, _, u), (start, _, v) in pairwise(segments):
            score += (self.transition[start] if self.transition.ndim == 3 else self.transition)[u, v]
        score += 0 if initial is None else initial[segments[0][2]]
        return score + (0 if final is None else final[segments[-1][2]])

    @staticmethod
    def codes(segments):
        """Label of each step and whether a segment ends with it."""
        labels = tuple(u for start, stop, u in segments for _ in range(start, stop))
        ends = tuple(t == stop - 1 for start, stop, _ in segments for t in range(start, stop))
        return labels, ends

    @property
    def log_partition(self):
        return logsumexp(self.scores)

    @property
    def probability(self):
        return np.exp(self.scores - self.log_partition)

    def marginals(self):
        """Probability of every segment, and of every move at every boundary (n_timesteps, n_labels, n_labels)."""
        segment, move = (
            np.zeros(self.segment.shape),
            np.zeros((len(self.segment), *[self.segment.shape[2]] * 2)),
        )
        for segments, p in zip(self.segmentations, self.probability, strict=True):
            for start, stop, u in segments:
                segment[start, stop - start - 1, u] += p
            for (_, _, u), (start, _, v) in pairwise(segments):
                move[start, u, v] += p
        return segment, move

    def ranked(self, distinct=False):
        """Codes and scores of feasible segmentations by decreasing score; or of labellings, each by its best."""
        found = {}
        for k in sorted(range(len(self.scores)), key=lambda k: -self.scores[k]):
            if self.scores[k] > -np.inf:
                codes = self.codes(self.segmentations[k])
                found.setdefault(codes[0] if distinct else codes, (codes, self.scores[k]))
        return list(found.values())
