"""Chain conditional random field that finds its own features: conjunctions of binary inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sklearn_seqlab import _parallel
from sklearn_seqlab._chain_labeler import ChainSource, LinearChainLabeler, ProbabilisticChainLabeler
from sklearn_seqlab._conjunction_rules import ConjunctionRules
from sklearn_seqlab._conjunctions import (
    conjunction_truth,
    item_truth,
    make_items,
    read_window,
)
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.crf._held_out import held_out_split
from sklearn_seqlab.crf._induction import Induction, InductionParameters, Stage
from sklearn_seqlab.crf._staged import StagedPredictions
from sklearn_seqlab.objectives import ChainCoefficients, KnownChains
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    encode_training_labels,
    pack,
    read_allowed_transitions,
    read_weights,
)
from sklearn_seqlab.solvers import report

__all__ = ["CRFFeatureInduction"]


class CRFFeatureInduction(StagedPredictions, ConjunctionRules, LinearChainLabeler, ProbabilisticChainLabeler):
    """Linear-chain conditional random field on conjunctions of binary inputs that are found by their gain.

    It begins with the transitions and a bias per label. Each round looks at candidates, pairs of a conjunction and a
    label, gives weights to those that would raise the likelihood most, and takes some steps on all weights.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty; variance of the Gaussian prior of the weights.
    max_rounds : int, default=20
    batch_size : int, default=20
        Features per round. What they gain together is less than the sum where they overlap.
    max_order : int, default=3
        Largest number of items in a conjunction.
    steps : {"all", "errors", "uncertain"}, default="all"
        Steps that gains are summed over. "errors", as published, takes those that are labelled wrong, and does not see
        what a feature spoils elsewhere; "uncertain" those whose label has a probability below `certainty`.
    certainty : float, default=0.95
    candidates : {"grow", "exhaustive"}, default="grow"
        "grow": all items, all pairs of them, and conjunctions in use with one more item. "exhaustive": all conjunctions
        up to `max_order`, passed over only where a bound shows that neither they nor any that contain them are among
        the best.
    min_gain : float, default=1e-2
        A feature has to gain more than so many nats, on all data together, its penalty taken off.
    min_count : int, default=3
        Steps in use on which a conjunction has to hold.
    n_rescore : int, default=0
        So many of the best candidates are ranked again by their true gain, at some passes over the data each.
    window : tuple of (int, int), default=(0, 0)
        How many steps before and after each step items may look.
    negations : bool, default=False
        Whether there are also items that say that an input is off.
    refit_iter : int, default=10
        Iterations on all weights after each round; after the last they are learnt to `tol`, unless sequences are held
        out: the best round is then kept as it was judged.
    allowed_transitions : None, "observed", dict or array-like, default=None
        As in :class:`LinearChainCRF`.
    validation_fraction : float or None, default=None
        Share of the sequences held out, by ``random_state``. The round of their largest likelihood is kept.
    n_iter_no_change : int, default=3
        With sequences held out, stop after so many rounds without a larger likelihood of them.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable sequence, or at each step the most probable label.
    max_iter : int, default=200
        Largest number of iterations on the first and on the last model.
    tol : float, default=1e-4
        As in :class:`LinearChainCRF`; rounds also end when one lowers the objective by less than this share of it.
    n_jobs : int or None, default=None
        Threads in ``fit`` and ``predict``. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Chooses the sequences that are held out.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Sorted labels.
    rules_ : structured ndarray with fields ``label``, ``conjunction``, ``weight``, ``support``, ``gain``, ``round``
        The features in the order in which they came. A conjunction is a tuple of numbers of items, ``support`` the
        weighted number of steps on which it holds, ``gain`` what it promised, in nats.
    items_ : structured ndarray with fields ``column``, ``offset``, ``negated``
    conjunctions_ : list of tuple of int
        Distinct conjunctions: the columns of ``transform``.
    coef_ : ndarray of shape (n_labels, n_conjunctions)
    intercept_, start_coef_, end_coef_ : ndarray of shape (n_labels,)
    transition_coef_ : ndarray of shape (n_labels, n_labels)
    edge_coef_, transition_features_ : ndarray
        Empty: no input weighs moves.
    gain_curve_ : ndarray of shape (n_iter_,)
        Sum of the gains of what each round added, in nats.
    loss_curve_ : ndarray of shape (n_iter_ + 1,)
        Objective without conjunctions and after each round: `C` times minus the log-likelihood, and the penalty.
    validation_loss_ : ndarray
        Mean of minus the log-likelihood per held-out sequence without conjunctions and after each round tried; empty if
        none is held out.
    n_candidates_ : ndarray of int
        Pairs of conjunction and label looked at by each round.
    n_iter_ : int
        Number of rounds.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where ``X`` held data frames.

    Notes
    -----
    The gain of a weight is that of the likelihood with all other weights, and the marginals of neighbouring steps,
    held. Its slope is exact; where neighbouring labels attract each other it promises somewhat too much. The best
    weight is found by Newton's method for all candidates at once that a bound does not rule out.

    References
    ----------
    McCallum, "Efficiently inducing features of conditional random fields", UAI 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import CRFFeatureInduction
    >>> rng = np.random.RandomState(0)
    >>> X = [(rng.uniform(size=(30, 3)) < 0.5).astype(float) for _ in range(5)]
    >>> y = [np.where((x[:, 0] > 0) & (x[:, 1] > 0), "cook", "idle") for x in X]
    >>> model = CRFFeatureInduction(max_rounds=1, batch_size=1).fit(X, y)
    >>> print(model.rules_text())  # doctest: +ELLIPSIS
    cook(T) :- x0(T), x1(T).  % ...
    """

    _acts_on_sequences = True  # transform takes whole sequences, also as the last step of a pipeline

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "max_rounds": [Interval(Integral, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_order": [Interval(Integral, 1, None, closed="left")],
        "steps": [StrOptions({"all", "errors", "uncertain"})],
        "certainty": [Interval(Real, 0, 1, closed="both")],
        "candidates": [StrOptions({"grow", "exhaustive"})],
        "min_gain": [Interval(Real, 0, None, closed="left")],
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "n_rescore": [Interval(Integral, 0, None, closed="left")],
        "window": [tuple, list],
        "negations": ["boolean"],
        "refit_iter": [Interval(Integral, 1, None, closed="left")],
        "allowed_transitions": [None, StrOptions({"observed"}), dict, "array-like"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "decoding": [StrOptions({"map", "marginal"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        C=1.0,
        max_rounds=20,
        batch_size=20,
        max_order=3,
        steps="all",
        certainty=0.95,
        candidates="grow",
        min_gain=1e-2,
        min_count=3,
        n_rescore=0,
        window=(0, 0),
        negations=False,
        refit_iter=10,
        allowed_transitions=None,
        validation_fraction=None,
        n_iter_no_change=3,
        decoding="map",
        max_iter=200,
        tol=1e-4,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.max_rounds = max_rounds
        self.batch_size = batch_size
        self.max_order = max_order
        self.steps = steps
        self.certainty = certainty
        self.candidates = candidates
        self.min_gain = min_gain
        self.min_count = min_count
        self.n_rescore = n_rescore
        self.window = window
        self.negations = negations
        self.refit_iter = refit_iter
        self.allowed_transitions = allowed_transitions
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.decoding = decoding
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.regularisation = "C"
        tags.input_tags.categorical = True
        tags.non_deterministic = tags.holds_out = self.validation_fraction is not None
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> CRFFeatureInduction:
        """Find features and learn their weights.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
            Zeros and ones.
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence.

        Returns
        -------
        self : CRFFeatureInduction

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        InfeasibleSequenceError
            If labels contradict ``allowed_transitions``.
        """
        width = read_window(self.window)
        batch = pack(X)
        labels = encode_training_labels(y, batch.offsets)
        weight = read_weights(sample_weight, batch.n_sequences)
        items = make_items(batch.n_features, width, self.negations)
        random = check_random_state(self.random_state)
        numbers, held_out = held_out_split(weight, labels, self.validation_fraction, random)
        allowed = read_allowed_transitions(self.allowed_transitions, labels)
        truth = item_truth(batch, items)

        def rows_of(chosen: np.ndarray) -> np.ndarray:
            return np.isin(np.repeat(np.arange(batch.n_sequences), batch.lengths), chosen)

        with (
            _parallel.one_blas_thread(),
            Progress(self.verbose, "CRFFeatureInduction", self.max_rounds) as progress,
        ):
            induction = Induction(
                np.asfortranarray(truth[rows_of(numbers)]),
                items,
                labels.take(numbers),
                weight[numbers],
                allowed,
                self._parameters(),
                self.n_jobs,
            )
            watch = None
            if len(held_out):
                watch = _HeldOut(
                    truth[rows_of(held_out)], labels.take(held_out), weight[held_out], self.n_jobs
                )
            outcome = induction.run(watch, progress)

        self._set_input_attributes(batch)
        self.items_, self.conjunctions_ = items, list(induction.conjunctions)
        self._set_stage(induction.stages[-1], labels.classes)
        self.rules_ = self._rules(induction, labels.classes)
        self._stages = [tuple(stage.parts) for stage in induction.stages]
        self.n_iter_ = len(induction.stages) - 1
        self.gain_curve_ = np.array(induction.gains, dtype=np.float64)
        self.loss_curve_ = np.array(induction.losses[: self.n_iter_ + 1])
        self.validation_loss_ = np.array(induction.watched, dtype=np.float64)
        self.n_candidates_ = np.array(induction.n_candidates, dtype=np.intp)
        if outcome.interrupted:
            raise KeyboardInterrupt
        if not induction.features and self.max_rounds and labels.n_labels > 1:
            warnings.warn(
                "No feature gains more than min_gain: the model has biases and transitions only. Lower min_gain or "
                "min_count, or raise C.",
                ConvergenceWarning,
                stacklevel=2,
            )
        report(outcome, "Raise max_iter, loosen tol, or lower C.")
        return self

    def transform(self, X: Any) -> list[sparse.csr_array]:
        """Truth of the conjunctions that were found.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)

        Returns
        -------
        truth : list of csr_array of shape (n_timesteps, n_conjunctions)
            Ones where a conjunction holds; columns in the order of ``conjunctions_``.
        """
        batch = self._pack(X)
        truth = self._truth(batch)
        return [truth[a:b] for a, b in pairwise(batch.offsets.tolist())]

    def _as_of_each_round(self) -> Iterator[CRFFeatureInduction]:
        staged = copy(self)
        for stage in self._stages:
            parts = ChainCoefficients(*stage)
            staged.conjunctions_ = self.conjunctions_[: parts.node.shape[1]]
            staged._set_coefficients(parts, self.classes_, self.transition_features_)
            yield staged

    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        return super()._chain_source(PackedBatch(self._truth(batch), batch.offsets))

    def _truth(self, batch: PackedBatch) -> sparse.csr_array:
        return sparse.csr_array(conjunction_truth(batch, self.items_, self.conjunctions_).astype(np.float64))

    def _parameters(self) -> InductionParameters:
        return InductionParameters(
            C=self.C,
            max_rounds=self.max_rounds,
            batch_size=self.batch_size,
            max_order=self.max_order,
            steps=self.steps,
            certainty=self.certainty,
            exhaustive=self.candidates == "exhaustive",
            min_gain=self.min_gain,
            min_count=self.min_count,
            n_rescore=self.n_rescore,
            refit_iter=self.refit_iter,
            max_iter=self.max_iter,
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change,
        )

    def _set_stage(self, stage: Stage, classes: np.ndarray) -> None:
        self._set_coefficients(stage.parts, classes, np.arange(0))

    def _rules(self, induction: Induction, classes: np.ndarray) -> np.ndarray:
        fields = [
            ("label", classes.dtype), ("conjunction", object), ("weight", np.float64), ("support", np.float64),
            ("gain", np.float64), ("round", np.intp),
        ]  # fmt: skip
        rules = np.empty(len(induction.features), dtype=fields)
        for k, one in enumerate(induction.features):
            column = induction.conjunctions.index(one.conjunction)
            support = float(induction.row_weight @ induction.columns[column])
            weight = self.coef_[one.label, column]
            rules[k] = (classes[one.label], one.conjunction, weight, support, one.gain, one.round)
        return rules


class _HeldOut:
    """Mean loss of sequences that are not learnt from."""

    def __init__(self, truth: np.ndarray, labels: LabelCodes, weight: np.ndarray, n_jobs: int | None):
        self.truth, self.weight = truth, weight / weight.sum()
        self.known = KnownChains(labels, labels.n_labels, n_jobs)

    def __call__(self, induction: Induction) -> float:
        parts, offsets = induction.stages[-1].parts, self.known.offsets
        unary = np.tile(parts.intercept, (len(self.truth), 1))
        for k, conjunction in enumerate(induction.conjunctions):
            held = self.truth[:, list(conjunction)].all(axis=1)
            unary[held] += parts.node[:, k]
        unary[offsets[:-1]] += parts.start
        unary[offsets[1:] - 1] += parts.end
        return float(self.weight @ self.known.losses((unary, parts.transition)))
