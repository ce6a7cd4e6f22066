"""The definitions, written slowly: what the compiled kernels are compared with."""

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


def numerical_gradient(function, point, step=1e-6):
    """Central differences."""
    gradient = np.empty_like(point)
    for k in range(len(point)):
        move = np.zeros_like(point)
        move[k] = step
        gradient[k] = (function(point + move) - function(point - move)) / (2 * step)
    return gradient
