"""Boosted conditional random field."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab import _parallel
from sklearn_seqlab._chain_labeler import ChainSource, LinearChainLabeler, ProbabilisticChainLabeler
from sklearn_seqlab._conjunctions import read_window
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags, input_names
from sklearn_seqlab.crf._boosting_steps import (
    STEP,
    boosted_steps,
    coefficients_of,
    joint_steps,
    names_of,
    summed,
)
from sklearn_seqlab.crf._held_out import held_out_split
from sklearn_seqlab.crf._staged import StagedPredictions
from sklearn_seqlab.crf._tree_boosting import HeldOutTrees, TreeOutcome, TreeParameters, boost_trees
from sklearn_seqlab.crf._trees import all_scores, tree_inputs, tree_names
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives import (
    FEATURE_SETS,
    ChainBoosting,
    HeldOutChains,
    KnownChains,
    SequenceLoss,
    framed_scores,
)
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    encode_training_labels,
    pack,
    read_weights,
    window_rows,
)
from sklearn_seqlab.solvers import SolverOutcome, boost, lbfgs, report

__all__ = ["BoostedCRF"]

_MOST_EDGE_ROWS = 2e8

# Parameters that say how features are chosen, and what each weak learner leaves behind.
_FEATURES_ONLY = (
    "beam_size", "feature_set", "fit_intercept", "update", "surrogate", "sigma", "corrective_every", "n_rescore",
    "solver",
)  # fmt: skip
_OF_FEATURES = ("coef_", "intercept_", "edge_coef_", "transition_features_", "steps_", "n_selected_")
_OF_TREES = ("trees_", "step_sizes_", "move_path_")


class BoostedCRF(StagedPredictions, LinearChainLabeler, ProbabilisticChainLabeler):
    """Linear-chain conditional random field that is boosted: feature by feature, and so with few of them.

    Each round changes the weights of the features that promise to lower the loss most. A feature is an input times the
    indicator of a label, or of a move from label to label; or the indicator of a move alone.

    Parameters
    ----------
    n_rounds : int, default=200
        Largest number of rounds.
    beam_size : int, default=1
        Features that change together in a round.
    feature_set : {"persistence", "bridge", "transition", "context"}, default="bridge"
        What there is to choose from:

        - "persistence": inputs by label, and for each label that it stays;
        - "bridge": inputs by label, and every move;
        - "transition": inputs at the step itself by the move into it;
        - "context": inputs of the window by the move into its step.
    window : tuple of (int, int), default=(0, 0)
        How many steps before and after each step its inputs are taken from; 0 beyond the ends of a sequence.
    fit_intercept : bool, default=False
        Whether there is also an input that is always 1.
    update : {"line_search", "newton", "bound"}, default="line_search"
        How far a feature goes: to the minimum along it; to that of the loss's second-order model; or to that of a
        convex upper bound, which takes the smallest steps. With ``beam_size`` S "newton" and "bound" take a share of
        1 / S of each step, "line_search" goes to the minimum along their common direction.
    surrogate : {"exact", "fixed_h"}, default="exact"
        How steps without a label enter the search: "exact" follows the probability of the visible labels; "fixed_h",
        as published, holds hidden labels where they are when it compares labellings. The same with complete labels.
    loss : {"auto", "exp", "log"}, default="auto"
        "exp" is the sum over sequences of the inverse probability of their labels; "log" that of minus its logarithm.
        "auto" is "exp" for features, as published, and "log" for trees.
    temperature : float or "length", default=1.0
        Power to which inverse probabilities are raised in "exp"; "length" is one over the number of steps of the
        sequence. With 1 the longest or worst of the sequences carries most of the weight.
    l2 : float, default=0.0
        ``l2 / 2`` times the squared norm of the weights is added to the loss, to its logarithm for "exp".
    sigma : float or None, default=None
        The published form of the penalty: the squared norm over ``2 sigma**2``, added to the loss before the logarithm.
    learning_rate : float or "auto", default="auto"
        Share of each step that is taken; "auto" is 1 for features and 0.3 for trees.
    corrective_every : int or None, default=None
        Every so many rounds the weights in use are optimised together.
    n_rescore : int, default=0
        Features are ranked by an estimated gain that takes time steps for independent. So many of the best are ranked
        again by their true gain, at a pass over the data each.
    solver : {"boost", "joint"}, default="boost"
        "joint" minimises the same loss over all weights at once by L-BFGS, in at most ``n_rounds`` iterations.
    validation_fraction : float or None, default=None
        Share of the sequences held out, by ``random_state``. The round of their largest likelihood is kept.
    n_iter_no_change : int or None, default=None
        Stop after so many rounds without a better likelihood of what is held out.
    weak_learner : {"feature", "tree"}, default="feature"
        "tree" grows regression trees on the window of inputs, in place of choosing features: scores that are no longer
        linear in the inputs. `beam_size`, `feature_set`, `fit_intercept`, `update`, `surrogate`, `sigma`,
        `corrective_every`, `n_rescore` and `solver` must then stay at their defaults.
    potentials : {"node", "edge"}, default="node"
        What trees score: labels; or labels given the label of the step before, which trees then see too. "edge" takes
        ``n_labels`` rows per step.
    tree_output : {"multi", "label"}, default="multi"
        One tree per round with a value per label, or a tree per label.
    max_leaf_nodes : int, default=8
    min_samples_leaf : int, default=20
        Steps in a leaf, sequences counted by their weight.
    leaf_update : {"newton", "mean"}, default="newton"
        Leaf values: the sum of residuals over that of variances and `leaf_l2`, or their mean, as published.
    leaf_l2 : float, default=1.0
    subsample : float, default=1.0
        Share of the sequences that the trees of a round are grown on.
    max_bins : int or None, default=255
        Inputs are cut at so many quantiles before trees are grown.
    transition_iter : int, default=2
        Iterations, before each round of trees, on the weights of moves and of first and last labels, which `l2`
        penalises.
    tol : float, default=1e-6
        A round has to lower the objective by this share of it. If that of the best feature does not, the next one is
        tried; the fit ends when 25 have failed. With trees, ten rounds together have to. For "joint", as in
        :class:`LinearChainCRF`.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable sequence, or at each step the most probable label.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last one, up to ``n_rounds`` in all, provided that labels and inputs are the
        same, and so are the parameters which say what is chosen from, by which loss, and what is held out.
    n_jobs : int or None, default=None
        Threads in ``fit`` and ``predict``. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Chooses the sequences that are held out or sampled, and settles ties between splits of trees.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Sorted labels.
    trees_ : list of lists of structured ndarray
        With trees: those of each round, with fields ``feature`` (-1 in a leaf), ``threshold``, ``left``, ``right`` and
        ``value``; shrunk already. Columns are those of :meth:`feature_names`. There are no attributes of features then:
        from `coef_` to `edge_coef_`, `transition_features_`, `steps_`, `selected_features_`, `n_selected_`.
    step_sizes_ : ndarray of shape (n_iter_,)
        With trees: how far each round went along its trees, before shrinkage.
    move_path_ : ndarray of shape (n_iter_ + 1, n_labels * (n_labels + 2))
        With trees: weights of moves, of first and of last labels before the first round and as of each.
    coef_ : ndarray of shape (n_labels, n_inputs)
        Weights of inputs by label. There are ``n_features_in_`` inputs per step of the window, earliest step first.
    intercept_ : ndarray of shape (n_labels,)
    transition_coef_ : ndarray of shape (n_labels, n_labels)
        Weights of moves from row to column.
    edge_coef_ : ndarray of shape (n_labels, n_labels, n_inputs)
        Weights of inputs by the move into their step ("transition" and "context"), else of no inputs.
    transition_features_ : ndarray of int
        The inputs that weigh moves.
    start_coef_, end_coef_ : ndarray of shape (n_labels,)
        Weights of first and last labels; zeros without trees.
    steps_ : structured ndarray with fields ``round``, ``feature``, ``amount``
        Every change of a weight, in order. Features are numbered as in :meth:`feature_names`.
    selected_features_ : list of lists of (str, float)
        The same by round, with the features' names.
    n_selected_ : int
        Number of features whose weight is not zero.
    n_boosting_features_ : int
        Number of features that there were to choose from; of columns that trees saw.
    feature_importances_ : ndarray of shape (n_boosting_features_,)
        By how much rounds lowered the loss on account of each feature; with "joint", the size of its weight. With
        trees, the share of each column in the decrease of squared errors.
    n_iter_ : int
        Number of rounds, or iterations of "joint".
    loss_curve_ : ndarray of shape (n_iter_ + 1,)
        Objective at the start and after each round, in nats; the logarithm of the exponential loss.
    validation_loss_ : ndarray of shape (n_iter_ + 1,)
        Mean of minus the log-likelihood per held-out sequence, in nats; empty if none is held out. Curves go on to the
        last round that was tried.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where ``X`` held data frames.

    Notes
    -----
    A round takes a pass forward and backward over the data, one product of the inputs with its residuals, and three to
    six passes forward; O(n_total * n_labels**2) exponentials each where inputs weigh moves, whose residuals take as
    much memory. The loss is held as its logarithm: that of a sequence of 300 steps and 10 labels is past the double
    range. With complete labels it is convex, and no accepted round raises it; with hidden labels a step that would is
    halved. Weights, and so curvature, of a feature ranked are estimates; where a step brings nothing the next is tried.

    References
    ----------
    Truyen, Phung, Bui and Venkatesh, "Boosted Markov networks for activity recognition", ISSNIP 2005. Altun, Hofmann
    and Johnson, "Discriminative learning for label sequences via boosting", NIPS 2002. Dietterich, Hao and Ashenfelter,
    "Gradient tree boosting for training conditional random fields", JMLR 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import BoostedCRF
    >>> X = [np.array([[-1.0, 0.3], [-0.8, 0.1], [0.9, 0.2]]), np.array([[1.0, 0.4], [0.8, 0.2]])]
    >>> y = [["off", "off", "on"], ["on", None]]
    >>> model = BoostedCRF(n_rounds=5).fit(X, y)
    >>> model.predict([[[-0.9, 0.1], [0.9, 0.2]]])[0]
    array(['off', 'on'], dtype='<U3')
    >>> model.selected_features_[0][0][0]
    'x0[t] & off'
    """

    _parameter_constraints: dict = {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "beam_size": [Interval(Integral, 1, None, closed="left")],
        "feature_set": [StrOptions(set(FEATURE_SETS))],
        "window": [tuple, list],
        "fit_intercept": ["boolean"],
        "update": [StrOptions({"line_search", "newton", "bound"})],
        "surrogate": [StrOptions({"exact", "fixed_h"})],
        "loss": [StrOptions({"auto", "exp", "log"})],
        "temperature": [Interval(Real, 0, None, closed="neither"), StrOptions({"length"})],
        "l2": [Interval(Real, 0, None, closed="left")],
        "sigma": [Interval(Real, 0, None, closed="neither"), None],
        "learning_rate": [Interval(Real, 0, 1, closed="right"), StrOptions({"auto"})],
        "corrective_every": [Interval(Integral, 1, None, closed="left"), None],
        "n_rescore": [Interval(Integral, 0, None, closed="left")],
        "solver": [StrOptions({"boost", "joint"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "weak_learner": [StrOptions({"feature", "tree"})],
        "potentials": [StrOptions({"node", "edge"})],
        "tree_output": [StrOptions({"multi", "label"})],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left")],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "leaf_update": [StrOptions({"newton", "mean"})],
        "leaf_l2": [Interval(Real, 0, None, closed="left")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "max_bins": [Interval(Integral, 2, None, closed="left"), None],
        "transition_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "decoding": [StrOptions({"map", "marginal"})],
        "warm_start": ["boolean"],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        n_rounds=200,
        beam_size=1,
        feature_set="bridge",
        window=(0, 0),
        fit_intercept=False,
        update="line_search",
        surrogate="exact",
        loss="auto",
        temperature=1.0,
        l2=0.0,
        sigma=None,
        learning_rate="auto",
        corrective_every=None,
        n_rescore=0,
        solver="boost",
        validation_fraction=None,
        n_iter_no_change=None,
        weak_learner="feature",
        potentials="node",
        tree_output="multi",
        max_leaf_nodes=8,
        min_samples_leaf=20,
        leaf_update="newton",
        leaf_l2=1.0,
        subsample=1.0,
        max_bins=255,
        transition_iter=2,
        tol=1e-6,
        decoding="map",
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_rounds = n_rounds
        self.beam_size = beam_size
        self.feature_set = feature_set
        self.window = window
        self.fit_intercept = fit_intercept
        self.update = update
        self.surrogate = surrogate
        self.loss = loss
        self.temperature = temperature
        self.l2 = l2
        self.sigma = sigma
        self.learning_rate = learning_rate
        self.corrective_every = corrective_every
        self.n_rescore = n_rescore
        self.solver = solver
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.weak_learner = weak_learner
        self.potentials = potentials
        self.tree_output = tree_output
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.leaf_update = leaf_update
        self.leaf_l2 = leaf_l2
        self.subsample = subsample
        self.max_bins = max_bins
        self.transition_iter = transition_iter
        self.tol = tol
        self.decoding = decoding
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.regularisation = "l2"
        tags.holds_out = self.validation_fraction is not None
        tags.non_deterministic = tags.holds_out or (self.weak_learner == "tree" and self.subsample < 1)
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> BoostedCRF:
        """Learn the weights from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence; it multiplies the sequence's loss.

        Returns
        -------
        self : BoostedCRF

        Raises
        ------
        ValueError
            If the input or a parameter is not as described; the estimator is then left as it was.
        """
        before, after = self._checked_window()
        self._check_parameters()
        batch = pack(X)
        labels = encode_training_labels(y, batch.offsets)
        weight = read_weights(sample_weight, batch.n_sequences)
        random = check_random_state(self.random_state)
        numbers, held_out = held_out_split(weight, labels, self.validation_fraction, random)
        with _parallel.one_blas_thread(), Progress(self.verbose, "BoostedCRF", self.n_rounds) as progress:
            data = batch, labels, weight
            if self.weak_learner == "tree":
                outcome = self._fit_trees(*data, numbers, held_out, (before, after), random, progress)
            else:
                outcome = self._fit_features(*data, numbers, held_out, (before, after), progress)
        if outcome.interrupted:
            raise KeyboardInterrupt
        report(outcome, "Raise n_rounds, loosen tol, or scale the features (StandardScaler).")
        return self

    def _fit_features(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        weight: np.ndarray,
        numbers: np.ndarray,
        held_out: np.ndarray,
        window: tuple[int, int],
        progress: Progress,
    ) -> SolverOutcome:
        """Choose features, and assign what was learnt."""
        inputs = self._inputs(batch, *window)
        part = inputs.take(numbers), labels.take(numbers)
        objective = ChainBoosting(
            *part,
            self._loss(weight[numbers], part[0].lengths),
            feature_set=self.feature_set,
            surrogate=self.surrogate,
            l2=self.l2,
            sigma=self.sigma,
            n_jobs=self.n_jobs,
        )
        earlier = self._earlier_steps(labels.classes, batch.n_features, objective.n_coef)
        start = summed(earlier, objective.n_coef)
        watch = None
        if len(held_out):
            rest = inputs.take(held_out), labels.take(held_out), weight[held_out]
            watch = HeldOutChains(*rest, feature_set=self.feature_set, n_jobs=self.n_jobs)
            watch(np.flatnonzero(start), start[np.flatnonzero(start)])
        first_round = int(earlier["round"].max(initial=-1)) + 1
        outcome: SolverOutcome
        watched: list[float] = []
        if self.solver == "joint":
            first_round = vars(self)["n_iter_"] if len(earlier) else 0
            n_left = max(0, self.n_rounds - first_round)
            outcome = lbfgs(objective, start, max_iter=n_left, tol=self.tol, callback=progress)
            steps, credit = joint_steps(start, outcome), np.abs(outcome.coef)
            kept, coef = first_round + outcome.n_iter, outcome.coef
        else:
            outcome = boost(
                objective,
                start,
                n_rounds=self.n_rounds,
                first_round=first_round,
                beam_size=self.beam_size,
                update=self.update,
                n_rescore=self.n_rescore,
                learning_rate=1.0 if self.learning_rate == "auto" else self.learning_rate,
                corrective_every=self.corrective_every,
                tol=self.tol,
                watch=watch,
                n_iter_no_change=self.n_iter_no_change,
                callback=progress,
            )
            steps, credit, watched = boosted_steps(outcome), outcome.credit, outcome.watched
            kept, coef = outcome.n_iter, outcome.coef
            if watched:
                kept = first_round + int(np.argmin(watched))
                steps = steps[steps["round"] < kept]
                coef = start + summed(steps, objective.n_coef)
        history = np.array(outcome.history)
        if len(earlier):
            past = vars(self)
            history = np.concatenate([past["loss_curve_"][: first_round + 1], history[1:]])
            watched = [*past["validation_loss_"][: first_round + 1], *watched[1:]] if watched else watched
            if self.solver == "boost":
                credit = credit + past["feature_importances_"]

        self._forget(_OF_TREES)
        self._set_input_attributes(batch)
        self._learnt_on = self._learns_on()
        self._set_weights(coef, labels.classes, inputs.n_features - self.fit_intercept)
        self.steps_ = np.concatenate([earlier, steps])
        self.n_selected_ = int(np.count_nonzero(coef))
        self._set_progress(objective.n_coef, credit, kept, history, watched)
        return outcome

    def _fit_trees(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        weight: np.ndarray,
        numbers: np.ndarray,
        held_out: np.ndarray,
        window: tuple[int, int],
        random: np.random.RandomState,
        progress: Progress,
    ) -> SolverOutcome:
        """Grow trees, and assign what was learnt."""
        n_labels, is_edge = labels.n_labels, self.potentials == "edge"
        if is_edge and batch.n_total * n_labels**2 > _MOST_EDGE_ROWS:
            raise ValueError(
                f"potentials='edge' scores {batch.n_total} steps times {n_labels} squared moves, more than "
                f"{_MOST_EDGE_ROWS:.0e}; use potentials='node', or fewer sequences."
            )
        inputs = tree_inputs(batch, *window)

        def part(chosen: np.ndarray) -> tuple[np.ndarray, KnownChains]:
            known = KnownChains(labels.take(chosen), n_labels**2 if is_edge else n_labels, self.n_jobs)
            rows = PackedBatch(inputs, batch.offsets).take(chosen).values
            return rows, known

        rows, known = part(numbers)
        watch = HeldOutTrees(*part(held_out), weight[held_out], is_edge) if len(held_out) else None
        params = TreeParameters(
            n_rounds=self.n_rounds,
            learning_rate=0.3 if self.learning_rate == "auto" else self.learning_rate,
            edge=is_edge,
            one_tree=self.tree_output == "multi",
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf,
            newton=self.leaf_update == "newton",
            leaf_l2=self.leaf_l2,
            subsample=self.subsample,
            max_bins=self.max_bins,
            transition_iter=self.transition_iter,
            l2=self.l2,
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change,
        )
        earlier = self._earlier_trees(labels.classes, batch.n_features)
        if earlier is not None and isinstance(self.random_state, Integral):
            random.set_state(self._random_after)  # the draws of later rounds are not those of the first
        outcome = boost_trees(
            rows,
            known,
            self._loss(weight[numbers], np.diff(known.offsets)),
            params,
            random=random,
            earlier=earlier,
            watch=watch,
            callback=progress,
        )
        kept = int(np.argmin(outcome.watched)) if outcome.watched else outcome.n_iter
        if not outcome.interrupted and all(len(tree) == 1 for trees in outcome.rounds for tree in trees):
            warnings.warn(
                f"No tree was split: no threshold has {self.min_samples_leaf} steps (min_samples_leaf, sequences "
                "counted by their weight) on both of its sides. Lower min_samples_leaf.",
                UserWarning,
                stacklevel=3,
            )

        self._forget(_OF_FEATURES)
        self._set_input_attributes(batch)
        self._learnt_on = self._learns_on()
        self.classes_ = labels.classes
        self.trees_, self.step_sizes_ = outcome.rounds[:kept], np.array(outcome.step_sizes[:kept])
        self.move_path_ = np.array(outcome.path[: kept + 1])
        self._set_moves(self.move_path_[-1])
        self._credit: np.ndarray = outcome.importances
        self._random_after: Any = random.get_state()
        importances = outcome.importances / max(outcome.importances.sum(), np.finfo(float).tiny)
        history = np.array(outcome.history)
        self._set_progress(len(importances), importances, kept, history, outcome.watched)
        return outcome

    def _set_progress(
        self, n_features: int, importances: np.ndarray, kept: int, history: np.ndarray, watched: list[float]
    ) -> None:
        self.n_boosting_features_, self.feature_importances_ = n_features, importances
        self.n_iter_, self.loss_curve_ = kept, history
        self.validation_loss_ = np.array(watched, dtype=np.float64)

    def _forget(self, names: tuple[str, ...]) -> None:
        """Drop what an earlier fit with the other weak learner set."""
        for name in names:
            if hasattr(self, name):
                delattr(self, name)

    def _set_moves(self, coef: np.ndarray) -> None:
        n_labels = len(self.classes_)
        moves, self.start_coef_, self.end_coef_ = np.split(coef.copy(), [n_labels**2, n_labels**2 + n_labels])
        self.transition_coef_ = moves.reshape(n_labels, n_labels)

    @property
    def selected_features_(self) -> list[list[tuple[str, float]]]:
        """By round, the features whose weights changed, and by how much."""
        check_is_fitted(self)
        names = self.feature_names(self.steps_["feature"])
        rounds: list[list[tuple[str, float]]] = [
            [] for _ in range(int(self.steps_["round"].max(initial=-1)) + 1)
        ]
        for (number, _, amount), name in zip(self.steps_.tolist(), names.tolist(), strict=True):
            rounds[number].append((name, amount))
        return rounds

    def feature_names(self, features: ArrayLike | None = None) -> np.ndarray:
        """What features stand for, such as ``speed[t-1] & walk`` or ``rest -> walk``.

        Parameters
        ----------
        features : array-like of int, default=None
            Their numbers; None for all. First come the inputs of each label (or move), label by label, then moves.

        Returns
        -------
        names : ndarray of str of shape (n_features,)
        """
        check_is_fitted(self)
        numbers = np.arange(self.n_boosting_features_) if features is None else np.asarray(features)
        if numbers.dtype.kind not in "iu" and numbers.size:
            raise TypeError(f"features holds {numbers.dtype}; expected numbers of features, integers.")
        wrong = numbers[(numbers < 0) | (numbers >= self.n_boosting_features_)]
        if wrong.size:
            raise ValueError(
                f"features holds {wrong.flat[0]}; expected numbers of at least 0 and below {self.n_boosting_features_}."
            )
        learnt = self._learnt_on
        before, after = learnt["window"]
        if learnt["weak_learner"] == "tree":
            return self._column_names(before, after)[numbers.astype(np.intp)]
        inputs = tree_names(input_names(self), before, after)[: self.n_features_in_ * (before + 1 + after)]
        numbers = numbers.astype(np.intp)
        return names_of(numbers, inputs, self.classes_, learnt["feature_set"], learnt["fit_intercept"])

    def _column_names(self, before: int, after: int) -> np.ndarray:
        is_edge = self._learnt_on["potentials"] == "edge"
        previous = [str(label) for label in self.classes_.tolist()] if is_edge else []
        return np.array(tree_names(input_names(self), before, after, previous), dtype=str)

    def _as_of_each_round(self) -> Iterator[BoostedCRF]:
        staged = copy(self)
        if self._learnt_on["weak_learner"] == "tree":
            for n_rounds in range(1, self.n_iter_ + 1):
                staged.trees_ = self.trees_[:n_rounds]
                staged._set_moves(self.move_path_[n_rounds])
                yield staged
            return
        coef = np.zeros(self.n_boosting_features_)
        n_inputs = self.coef_.shape[1]
        for number in range(int(self.steps_["round"].max(initial=-1)) + 1):
            of_round = self.steps_[self.steps_["round"] == number]
            coef[of_round["feature"]] += of_round["amount"]
            staged._set_weights(coef, self.classes_, n_inputs)
            yield staged

    def transition_graph(self, threshold: float = 0.0) -> np.ndarray:
        """Which label may follow which, by the weights of moves: impossible moves get large negative ones.

        Parameters
        ----------
        threshold : float, default=0.0
            In nats.

        Returns
        -------
        graph : bool ndarray of shape (n_labels, n_labels)
            Whether the weight of the move from row to column is at least `threshold`.
        """
        check_is_fitted(self)
        return self.transition_coef_ >= threshold

    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        before, after = self._learnt_on["window"]
        if self._learnt_on["weak_learner"] == "tree":
            return self._tree_source(batch, tree_inputs(batch, before, after))
        values = window_rows(batch, before, after)
        return super()._chain_source(PackedBatch(values, batch.offsets))

    def _tree_source(self, batch: PackedBatch, inputs: np.ndarray) -> ChainSource:
        n_labels, is_edge = len(self.classes_), self._learnt_on["potentials"] == "edge"
        coef = np.concatenate([self.transition_coef_.ravel(), self.start_coef_, self.end_coef_])

        def chains(first: int, last: int) -> PackedChains:
            start, stop = int(batch.offsets[first]), int(batch.offsets[last])
            offsets = batch.offsets[first : last + 1] - start
            base = all_scores(self.trees_, inputs[start:stop], offsets, n_labels, edge=is_edge)
            return PackedChains(*framed_scores(base, coef, offsets), offsets, first)

        return chains

    def _doubles_per_step(self) -> int:
        if self._learnt_on["weak_learner"] == "tree":
            return len(self.classes_) ** (2 if self._learnt_on["potentials"] == "edge" else 1)
        return super()._doubles_per_step()

    def _checked_window(self) -> tuple[int, int]:
        before, after = read_window(self.window)
        if self.feature_set == "transition" and before + after:
            raise ValueError(
                f"window is {self.window!r}, but feature_set='transition' takes inputs at the step itself; "
                "use feature_set='context'."
            )
        return before, after

    def _inputs(self, batch: PackedBatch, before: int, after: int) -> PackedBatch:
        values = window_rows(batch, before, after)
        if self.fit_intercept:
            ones = np.ones((batch.n_total, 1))
            values = (
                sparse.hstack([values, ones], format="csr") if batch.is_sparse else np.hstack([values, ones])
            )
        return PackedBatch(values, batch.offsets)

    def _loss(self, weight: np.ndarray, lengths: np.ndarray) -> SequenceLoss:
        if self.loss == "log" or (self.loss == "auto" and self.weak_learner == "tree"):
            return SequenceLoss(weight, None)
        temperature = 1 / lengths if self.temperature == "length" else np.full(len(weight), self.temperature)
        return SequenceLoss(weight, temperature)

    def _check_parameters(self) -> None:
        if self.sigma is not None and self.l2 > 0:
            raise ValueError("sigma and l2 are two forms of one penalty; give one of them.")
        for name in ("sigma", "temperature"):
            value = getattr(self, name)
            if isinstance(value, Real) and not 1e-100 <= float(value) <= 1e100:
                raise ValueError(f"{name} is {value!r}; expected a number between 1e-100 and 1e100.")
        if self.solver == "joint" and self.validation_fraction is not None:
            raise ValueError(
                "validation_fraction judges rounds, but solver='joint' makes none; leave it at None."
            )
        if self.weak_learner == "feature":
            return
        default = BoostedCRF().get_params(deep=False)
        for name in _FEATURES_ONLY:
            if getattr(self, name) != default[name]:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but weak_learner='tree' chooses no features; leave it at "
                    f"{default[name]!r}."
                )

    def _learns_on(self) -> dict[str, Any]:
        """Parameters that say what weights stand for and how they are judged: a warm start needs the same ones."""
        return {
            "window": self._checked_window(),
            "feature_set": self.feature_set,
            "weak_learner": self.weak_learner,
            "potentials": self.potentials,
            "fit_intercept": bool(self.fit_intercept),
            "solver": self.solver,
            "loss": (self.loss, self.temperature),
            "validation_fraction": self.validation_fraction,
        }

    def _earlier_steps(self, classes: np.ndarray, n_features: int, n_coef: int) -> np.ndarray:
        """Where a warm start goes on from: steps of earlier rounds."""
        same = (
            self.warm_start
            and hasattr(self, "steps_")
            and np.array_equal(self.classes_, classes)
            and self.n_features_in_ == n_features
            and self.n_boosting_features_ == n_coef
            and self._learnt_on == self._learns_on()
        )
        return self.steps_ if same else np.empty(0, dtype=STEP)

    def _earlier_trees(self, classes: np.ndarray, n_features: int) -> TreeOutcome | None:
        same = (
            self.warm_start
            and hasattr(self, "trees_")
            and np.array_equal(self.classes_, classes)
            and self.n_features_in_ == n_features
            and self._learnt_on == self._learns_on()
        )
        if not same:
            return None
        outcome = TreeOutcome(
            self.move_path_[-1],
            self.loss_curve_[self.n_iter_],
            self.n_iter_,
            False,
            "",
            self.loss_curve_[: self.n_iter_ + 1].tolist(),
        )
        outcome.rounds, outcome.step_sizes = list(self.trees_), self.step_sizes_.tolist()
        outcome.path, outcome.watched = (
            list(self.move_path_),
            self.validation_loss_[: self.n_iter_ + 1].tolist(),
        )
        outcome.importances = self._credit.copy()
        return outcome

    def _set_weights(self, coef: np.ndarray, classes: np.ndarray, n_inputs: int) -> None:
        """Assign a vector of weights under the names that users see."""
        learnt = self._learnt_on
        parts, columns = coefficients_of(
            coef, len(classes), n_inputs, learnt["feature_set"], learnt["fit_intercept"]
        )
        self._set_coefficients(parts, classes, columns)
