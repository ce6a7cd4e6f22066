"""The definitions, written slowly: what the compiled kernels are compared with."""

from functools import cache
from itertools import product

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
