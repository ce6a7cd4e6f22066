"""Functional gradient boosting of the scores of a chain: each round grows trees on the residuals of its marginals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sklearn_seqlab.crf._trees import Bins, all_scores, grow_tree, tree_array
from sklearn_seqlab.objectives import KnownChains, MoveWeights, ScoreLine, Scores, SequenceLoss, framed_scores
from sklearn_seqlab.solvers import SolverOutcome, lbfgs, minimise_along

__all__ = ["HeldOutTrees", "TreeOutcome", "TreeParameters", "boost_trees"]

# No round may change a score by more nats than this: leaves that separate have no finite optimum.
_LARGEST_CHANGE = 10.0

_LINE_PRECISION = 1e-3

# So many rounds in a row that point uphill (a subsample may) end the fit, and so does so long a stretch of no progress.
_MAX_FAILURES, _PERIOD = 3, 10


@dataclass(frozen=True)
class TreeParameters:
    """See :class:`BoostedCRF`."""

    n_rounds: int
    learning_rate: float
    edge: bool
    one_tree: bool
    max_leaf_nodes: int
    min_samples_leaf: int
    newton: bool
    leaf_l2: float
    subsample: float
    max_bins: int | None
    transition_iter: int
    l2: float
    tol: float
    n_iter_no_change: int | None


@dataclass
class TreeOutcome(SolverOutcome):
    """The rounds made.

    Attributes
    ----------
    rounds : list of list of structured ndarray
        Trees by round, shrunk already.
    step_sizes : list of float
        Of each round, before shrinkage.
    path : list of ndarray of shape (n_labels * (n_labels + 2),)
        Weights of moves, starts and ends: before the first round and as of each.
    importances : ndarray of shape (n_columns,)
        Decrease of squared errors by the splits on each column.
    watched : list of float
        Mean loss of held-out sequences before the first round and after each.
    """

    rounds: list[list[np.ndarray]] = field(default_factory=list)
    step_sizes: list[float] = field(default_factory=list)
    path: list[np.ndarray] = field(default_factory=list)
    importances: np.ndarray = field(default_factory=lambda: np.empty(0))
    watched: list[float] = field(default_factory=list)


class HeldOutTrees:
    """Mean loss of sequences that trees are not grown on.

    Parameters
    ----------
    inputs : ndarray of shape (n_total, n_columns)
    known : KnownChains
    weight : ndarray of shape (n_sequences,)
    edge : bool
    """

    def __init__(self, inputs: np.ndarray, known: KnownChains, weight: np.ndarray, edge: bool):
        self.inputs, self.known, self.weight, self.edge = inputs, known, weight / weight.sum(), edge
        self.base = all_scores([], inputs, known.offsets, known.labels.n_labels, edge=edge)

    def __call__(self, rounds: list[list[np.ndarray]], coef: np.ndarray) -> float:
        """Add trees; minus the mean log-likelihood of a sequence, in nats."""
        more = all_scores(rounds, self.inputs, self.known.offsets, self.known.labels.n_labels, edge=self.edge)
        self.base = self.base[0] + more[0], self.base[1] + more[1]
        scores = framed_scores(self.base, coef, self.known.offsets)
        return float(self.weight @ self.known.losses(scores))


def boost_trees(
    inputs: np.ndarray,
    known: KnownChains,
    loss: SequenceLoss,
    params: TreeParameters,
    *,
    random: np.random.RandomState,
    earlier: TreeOutcome | None = None,
    watch: HeldOutTrees | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> TreeOutcome:
    """Make rounds of trees.

    Parameters
    ----------
    inputs : ndarray of shape (n_total, n_columns), dtype=float32
    known : KnownChains
    loss : SequenceLoss
    params : TreeParameters
    random : RandomState
        Draws subsamples, and settles ties between splits.
    earlier : TreeOutcome, default=None
        Rounds to go on from.
    watch : HeldOutTrees, default=None
    callback : callable, default=None

    Returns
    -------
    outcome : TreeOutcome
    """
    callback = callback or (lambda iteration, value: None)
    rounds = _Rounds(inputs, known, loss, params, random)
    if earlier is None:
        first = lbfgs(rounds.frame, np.zeros(rounds.frame.n_coef), max_iter=200, tol=1e-4)
        outcome = TreeOutcome(first.coef, first.value, 0, False, "", [first.value], path=[first.coef])
        outcome.importances = np.zeros(rounds.n_columns)
        if first.interrupted:
            outcome.interrupted = True
            return outcome
    else:
        outcome = earlier
        outcome.converged, outcome.message = False, ""
        rounds.add(all_scores(outcome.rounds, inputs, known.offsets, known.labels.n_labels, edge=params.edge))
    if watch is not None:
        outcome.watched = outcome.watched or [watch([], outcome.path[0])]
        if outcome.rounds:
            watch(outcome.rounds, outcome.coef)
    try:
        n_failures = 0
        while outcome.n_iter < params.n_rounds:
            callback(outcome.n_iter, outcome.value)
            made = rounds.step(outcome.coef)
            if made is None:
                n_failures += 1
                if n_failures < _MAX_FAILURES:
                    continue
                outcome.converged, outcome.message = True, "no tree lowers the objective any further"
                break
            n_failures = 0
            outcome.rounds.append(made.trees)
            outcome.step_sizes.append(made.step_size)
            outcome.path.append(made.coef)
            outcome.importances += made.importances
            outcome.coef, outcome.value = made.coef, made.value
            outcome.history.append(made.value)
            outcome.n_iter += 1
            if watch is not None:
                outcome.watched.append(watch([made.trees], made.coef))
                since = len(outcome.watched) - 1 - int(np.argmin(outcome.watched))
                if params.n_iter_no_change is not None and since >= params.n_iter_no_change:
                    outcome.converged, outcome.message = True, "held-out sequences got no better"
                    break
            if len(outcome.history) > _PERIOD:
                fall = outcome.history[-1 - _PERIOD] - outcome.value
                room = min(1.0, outcome.history[0] - loss.floor)
                if fall < params.tol * max(room, abs(outcome.value)):
                    outcome.converged, outcome.message = True, "the objective no longer decreased"
                    break
        else:
            outcome.converged, outcome.message = True, "n_rounds were made"
    except KeyboardInterrupt:
        outcome.interrupted, outcome.message = True, "interrupted"
    return outcome


@dataclass
class _Made:
    """One round."""

    trees: list[np.ndarray]
    step_size: float
    coef: np.ndarray
    value: float
    importances: np.ndarray


class _Rounds:
    """The scores so far, and how a round changes them."""

    def __init__(
        self,
        inputs: np.ndarray,
        known: KnownChains,
        loss: SequenceLoss,
        params: TreeParameters,
        random: np.random.RandomState,
    ):
        self.inputs, self.known, self.loss, self.params, self.random = inputs, known, loss, params, random
        self.n_labels = known.labels.n_labels
        self.bins = Bins(inputs, params.max_bins)
        self.codes = self.bins.codes(inputs)
        self.n_columns = inputs.shape[1]
        if params.edge:
            # a row per step and label before it; for first steps one row, without such a label, counts
            self.codes = np.hstack(
                [
                    np.repeat(self.codes, self.n_labels, axis=0),
                    np.tile(np.eye(self.n_labels, dtype=np.float32), (len(inputs), 1)),
                ]
            )
            first = (known.offsets[:-1, None] * self.n_labels + np.arange(self.n_labels)).ravel()
            self.codes[first, self.n_columns :] = 0.0
            self.n_columns += self.n_labels
        base = all_scores([], inputs, known.offsets, self.n_labels, edge=params.edge)
        self.frame = MoveWeights(known, loss, base, params.l2)

    def add(self, scores: Scores) -> None:
        base = self.frame.base
        self.frame.base = base[0] + scores[0], base[1] + scores[1]

    def step(self, coef: np.ndarray) -> _Made | None:
        """A round; None where its trees point uphill."""
        params, known = self.params, self.known
        if params.transition_iter:
            moved = lbfgs(self.frame, coef, max_iter=params.transition_iter, tol=1e-6)
            if moved.interrupted:
                raise KeyboardInterrupt
            coef = moved.coef
        scores = self.frame.scores(coef)
        found = known.residuals(scores)
        rows, target, spread, weight, share = self._table(found)
        trees, values, gain_rows = [], [], []
        outputs = [slice(None)] if params.one_tree else [slice(j, j + 1) for j in range(self.n_labels)]
        importances = np.zeros(self.n_columns)
        for output in outputs:
            tree = grow_tree(
                self.codes[rows],
                target[rows, output],
                weight[rows],
                max_leaf_nodes=params.max_leaf_nodes,
                min_samples_leaf=params.min_samples_leaf,
                random_state=self.random.randint(2**31 - 1),
            )
            leaves = tree.apply(self.codes)
            value = self._leaf_values(
                leaves[rows],
                tree.tree_.node_count,
                weight[rows, None] * target[rows, output],
                spread[rows, output],
                share[rows],
            )
            trees.append(tree)
            values.append(value)
            gain_rows.append(value[leaves])
            root = tree.tree_.weighted_n_node_samples[0]
            importances += root * tree.tree_.compute_feature_importances(normalize=False)
        gain = self._as_scores(np.hstack(gain_rows))
        largest = max(float(np.abs(part).max(initial=0.0)) for part in gain)
        line = ScoreLine(known, self.loss, scores, found.known, gain)
        start = line(0.0)
        if not (start[1] < 0 and largest > 0):
            return None
        guess = -start[1] / start[2] if start[2] > 0 else 1.0
        guess = min(guess, _LARGEST_CHANGE / largest)
        step_size, _ = minimise_along(line, start, guess, rtol=_LINE_PRECISION)
        step_size = min(step_size, _LARGEST_CHANGE / largest)
        if not step_size > 0:
            return None
        factor = params.learning_rate * step_size
        kept = [tree_array(tree, self.bins, factor * own) for tree, own in zip(trees, values, strict=True)]
        self.add((factor * gain[0], factor * gain[1]))
        nll = known.losses(self.frame.scores(coef))
        return _Made(kept, step_size, coef, self.frame.value(nll, coef), importances)

    def _table(self, found: Any) -> tuple[np.ndarray, ...]:
        """Rows drawn; and of all rows targets, variances, weights for growing, and shares for leaf values.

        Variances are those of known labels, ``|r| (1 - |r|)``; where labels are hidden this is small where nothing is
        known, as the curvature is.
        """
        known = self.known
        share = self.loss.share(found.nll)
        share = share * (self.loss.weight.sum() / share.sum())  # leaf_l2 means the same for both losses
        sequences = np.arange(known.n_sequences)
        if self.params.subsample < 1:
            n_drawn = max(1, round(self.params.subsample * known.n_sequences))
            sequences = np.sort(self.random.permutation(known.n_sequences)[:n_drawn])
        drawn = np.flatnonzero(np.isin(known.sequence, sequences))
        residual, sequence = -found.node, known.sequence
        if self.params.edge:
            residual = -found.edge
            residual[known.offsets[:-1]] = 0.0
            residual[known.offsets[:-1], 0] = -found.node[known.offsets[:-1]]
            residual = residual.reshape(-1, self.n_labels)
            sequence = np.repeat(sequence, self.n_labels)
            drawn = np.repeat(drawn, self.n_labels) * self.n_labels + np.tile(
                np.arange(self.n_labels), len(drawn)
            )
            first = np.isin(drawn // self.n_labels, known.offsets[:-1])
            drawn = drawn[~(first & (drawn % self.n_labels > 0))]
        absolute = np.abs(residual)
        ratio = (share / self.loss.weight)[sequence]
        return (
            drawn,
            residual * ratio[:, None],
            absolute * (1 - absolute),
            self.loss.weight[sequence],
            share[sequence],
        )

    def _leaf_values(
        self, leaves: np.ndarray, n_nodes: int, pull: np.ndarray, spread: np.ndarray, share: np.ndarray
    ) -> np.ndarray:
        """Values of all nodes, (n_nodes, n_outputs); of use in leaves."""
        values = np.zeros((n_nodes, pull.shape[1]))
        size: np.ndarray = np.bincount(leaves, share, minlength=n_nodes)
        for j in range(pull.shape[1]):
            total = np.bincount(leaves, pull[:, j], minlength=n_nodes)
            if self.params.newton:
                size = self.params.leaf_l2 + np.bincount(leaves, share * spread[:, j], minlength=n_nodes)
            values[:, j] = np.divide(total, size, out=np.zeros(n_nodes), where=size > 0)
        return values

    def _as_scores(self, rows: np.ndarray) -> Scores:
        if not self.params.edge:
            return rows, np.zeros((self.n_labels, self.n_labels))
        moves = rows.reshape(-1, self.n_labels, self.n_labels)
        unary = np.zeros((len(moves), self.n_labels))
        first = self.known.offsets[:-1]
        unary[first] = moves[first, 0]
        return unary, moves
