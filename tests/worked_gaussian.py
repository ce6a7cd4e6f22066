"""The inputs of the worked numbers of Gaussian-process labelling, whose results tests state beside their assertions."""

import numpy as np

from sklearn_seqlab.gaussian_process._couplings import CouplingForm, neighbour_rows
from sklearn_seqlab.gaussian_process._fixed_point import CouplingFactor, FixedPoint, LabelledSteps
from sklearn_seqlab.gaussian_process._priors import GramPrior

OFFSETS = np.array([0, 4, 7])
N_LABELS = 3


def rows():
    """Seven steps with two features."""
    i = np.arange(7)
    return np.column_stack([np.sin(i + 1), np.cos(2 * i)])


def codes():
    i = np.arange(7)
    return (2 * i + i // 2) % 3


def as_sequences():
    """Both sequences, as estimators take them."""
    X, y = rows(), codes()
    return [X[:4], X[4:]], [y[:4], y[4:]]


def new_sequence():
    k = np.arange(3)
    return np.column_stack([np.sin(0.5 + k), np.cos(1 + k)])


def squared_exponential(X):
    return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def labelled_steps(lags=(-1, 1), missing=()):
    """The steps that carry a label, and which rows these are."""
    y = codes()
    y[list(missing)] = -1
    known = np.flatnonzero(y >= 0)
    contexts = neighbour_rows(y, OFFSETS, lags, N_LABELS)[known]
    return LabelledSteps(y[known], np.ones(len(known)), contexts, N_LABELS), known


def fixed_point(bound, posterior, *, lags=(-1, 1), gram=None, missing=(), tied=False):
    """The unsolved problem for a Gram matrix of all seven steps."""
    steps, known = labelled_steps(lags, missing)
    gram = squared_exponential(rows()) if gram is None else gram
    gram = gram[np.ix_(known, known)]
    couplings = CouplingFactor.at_prior(CouplingForm(lags, N_LABELS, tied), 1.0)
    if posterior == "joint":
        gram, couplings = gram + (steps.neighbours @ steps.neighbours.T).toarray(), None
    prior = GramPrior([gram], N_LABELS)
    return FixedPoint(prior, steps, bound, index=np.arange(len(known)), couplings=couplings)


def at_worked_state(point):
    """Move a factored problem to the state of the worked numbers."""
    i, j = np.arange(7)[:, None], np.arange(3)
    d, a, b = np.arange(2)[:, None, None], np.arange(3)[:, None], np.arange(3)
    mean, variance = np.cos(a + 2 * b + 3 * d) / 3, 1.0 / (1 + a + b) + 0.0 * d
    point.couplings = CouplingFactor(point.couplings.form, 1.0, mean, variance)
    point.state = point.at(np.sin(i + 2 * j) / 2, (1 + (i + j) % 3) / 4)
    point._evaluate()
    return point
