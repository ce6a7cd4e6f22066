"""Linear-chain conditional random field."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import DataDimensionalityWarning
from sklearn.utils import check_random_state

from sklearn_seqlab import _parallel
from sklearn_seqlab._chain_labeler import LinearChainLabeler, OnlineChainLabeler, OnlineScores
from sklearn_seqlab._chain_stream import next_part
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.crf._held_out import HeldOut, held_out_split
from sklearn_seqlab.objectives import (
    ChainAscent,
    ChainAverages,
    ChainDescent,
    ChainLogLikelihood,
    ChainMarginalLikelihood,
    ShardedObjective,
    check_coefficients,
    dask_client,
)
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    class_weights,
    class_weights_of_steps,
    encode_training_labels,
    pack,
    read_allowed_transitions,
    read_cost,
    read_weights,
)
from sklearn_seqlab.solvers import (
    CertifiedOutcome,
    SolverOutcome,
    average_gradient,
    calibrate,
    dual_ascent,
    lbfgs,
    owlqn,
    passes,
    report,
    step_through,
    warm_up,
)

__all__ = ["LinearChainCRF"]


# With solver="sag", and with "auto" where there are so many sequences, so many passes of plain steps come first.
_N_FIRST_PASSES, _MANY_SEQUENCES = 5, 1_000

_OF_KNOWN_LABELS = ("sag", "sdca")
_STOCHASTIC = ("sgd", *_OF_KNOWN_LABELS)

# Dual variables of so many GiB are worth a warning.
_LARGE_GIB = 2.0


class LinearChainCRF(LinearChainLabeler, OnlineChainLabeler):
    """Linear-chain conditional random field.

    The probability of a labelling is proportional to the exponential of the sum, over time steps, of the
    weights of its labels for the inputs and of the weights of its moves from label to label.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty; it multiplies the summed loss, as in
        :class:`~sklearn.linear_model.LogisticRegression`. In CRFsuite's terms ``c2 = (1 - l1_ratio) / (2 C)``
        and ``c1 = l1_ratio / C``; CRF++'s ``-c`` is ``C``.
    l1_ratio : float, default=0.0
        Share of the l1 norm in the elastic-net penalty; 1 is the lasso.
    loss : {"log", "softmax_margin", "marginal"}, default="log"
        "log" is the negative conditional log-likelihood. "softmax_margin" adds the ``cost`` of wrong labels
        inside the partition function, a convex bound on the expected cost. "marginal" is minus the log-probability of
        each label by itself, whatever the labels around it are: nearer to the share of right steps, best with
        ``decoding="marginal"``, and not convex.
    cost : float, dict or array-like of shape (n_labels, n_labels), default=1.0
        For "softmax_margin", in nats: the cost of any wrong step; or by (true, predicted) labels, 1 for
        pairs that the dict does not name; or ``cost[true, predicted]`` in the order of ``classes_``, with a
        zero diagonal.
    solver : {"auto", "lbfgs", "owlqn", "sgd", "sag", "sdca"}, default="auto"
        "lbfgs" takes ``l1_ratio=0``; "owlqn" any: quasi-Newton steps within an orthant of signs, as L-BFGS-B
        on the positive and negative parts of the coefficients. "sgd" steps on one sequence at a time, and takes
        ``l1_ratio=0`` and no transition features: fastest to an objective a few per cent above the optimum, slow from
        there on. "sag" and "sdca" step in the same way and come to the optimum, where all labels are known and the loss
        is not "marginal". "sag" remembers a gradient of each sequence and picks those of large curvature more often.
        "sdca" ascends the dual, picks sequences of large duality gap more often, and tells how far the optimum can be
        (``duality_gap_``); it needs ``fit_intercept=False``, and is good with few labels, features of like sizes and a
        ``C`` that is not large. "auto" takes "owlqn" where ``l1_ratio > 0``, else "lbfgs", which starts after five
        passes of "sgd" where there are 1,000 sequences or more, all labels are known and
        ``transition_features="none"``.
    fit_intercept : bool, default=True
        Whether each label has a constant score; it is not penalised.
    start_end : bool, default=True
        Whether each label has a weight at the first and one at the last step of a sequence.
    transition_features : {"none", "all"} or array-like of int, default="none"
        Columns of ``X`` that also weigh moves: their value at step ``t`` counts for the move from ``t - 1``
        into ``t``.
    allowed_transitions : None, "observed", dict or bool array-like of shape (n_labels, n_labels), default=None
        Moves that may happen: from each label of a dict to any of a collection of labels (a label that is no
        key has no successor, and labels that do not occur are passed over, so folds may lack one); or from
        row to column in the order of ``classes_``. None allows all, "observed" those between neighbouring
        labels of ``y``. All others have probability zero.
    restrict_features : bool or "auto", default=False
        Whether only those pairs of feature and label have a weight that occur together in the training
        data. It saves memory and time on wide sparse data, and loses the weights that speak against a
        label. "auto" restricts sparse data of more than a million pairs. A step whose label is hidden
        counts for all labels that it may have.
    min_count : int, default=1
        With restricted features, how often a pair must occur.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable sequence, or at each step the most probable label.
    class_weight : None, "balanced" or dict, default=None
        Weights of labels. The likelihood of a sequence does not split over its steps, so a sequence weighs
        the mean of the weights of its labels; with ``loss="marginal"`` each step weighs that of its own.
        "balanced" is inversely proportional to label frequencies.
    max_iter : int, default=1000
        Largest number of iterations of the solver; passes of "sgd", "sag" and "sdca", which are as many steps as there
        are sequences.
    tol : float, default=1e-4
        "sgd" stops where three passes in a row lowered their summed loss by less than ``tol`` of it each; "sdca" where
        the duality gap, found by a look at all sequences after each pass, is at most ``tol`` times the objective. The
        others stop where the largest entry of the gradient, in scaled variables, is below ``tol`` times that at zero
        coefficients; or, but for "sag", where ten iterations lowered the objective by less than ``tol / 10`` of its
        value and the gradient is small as well.
    validation_fraction : float or None, default=None
        Share of the sequences held out, by ``random_state``. The iteration with the least loss on them is kept.
    n_iter_no_change : int or None, default=None
        Stop after so many iterations without a lower loss on what is held out.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, provided labels and features are the same. "sdca" starts anew all
        the same: coefficients do not tell the dual variables.
    n_jobs : int or None, default=None
        Threads in ``fit`` and ``predict``. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Chooses the sequences that are held out; draws the length of the first step and the order of the sequences in
        passes of "sgd", and picks the sequences of "sag" and "sdca"; for the passes of "auto" None is 0.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Sorted labels.
    coef_ : ndarray or csc_array of shape (n_labels, n_features)
        Weights of the features; sparse if restricted.
    intercept_ : ndarray of shape (n_labels,)
    transition_coef_ : ndarray of shape (n_labels, n_labels)
        Weights of moves from row to column; minus infinity where forbidden.
    edge_coef_ : ndarray of shape (n_labels, n_labels, n_transition_features)
        Weights of the transition features.
    transition_features_ : ndarray of int of shape (n_transition_features,)
    start_coef_, end_coef_ : ndarray of shape (n_labels,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where ``X`` held data frames.
    n_iter_ : int
        Iterations, or passes, up to the one that is kept.
    validation_loss_ : ndarray of shape (n_iter_ + 1,)
        Mean loss of a held-out sequence at the start and after each iteration, in nats; empty if none is held out.
        Curves go on to the last iteration.
    loss_curve_ : ndarray of shape (n_iter_ + 1,)
        Objective at the start (after the passes, if any, with which "auto" and "sag" begin) and after each iteration,
        in nats; with "sgd", by the losses of each pass as they were before its steps; with "sag", when last seen.
    duality_gap_ : float
        With "sdca": what the least possible objective is below that of the coefficients at most, in nats.

    Notes
    -----
    An iteration takes O(stored features * n_labels + n_total * n_labels**2) time. With complete labels the
    objective is convex and the optimum unique (for ``l1_ratio < 1``); with partial labels or ``loss="marginal"`` it is
    not, and the solver, started at zero, finds a stationary point.

    A pass of "sgd" takes the same time as an iteration without its work per weight, and is one thread. "sag" does a few
    times as much and remembers n_total * n_labels + n_sequences * n_labels**2 numbers; it begins with five passes of
    "sgd", unless it starts from the last solution. "sdca" takes two or three logarithms for each move of each step, and
    remembers n_total * (n_labels + n_labels**2) numbers.

    Under ``joblib.parallel_config("dask")`` each worker of the cluster gets a share of the sequences once, and the
    coefficients with each iteration of "lbfgs" or "owlqn". A worker that is lost is done without.

    References
    ----------
    Lafferty, McCallum and Pereira, "Conditional random fields", ICML 2001. Andrew and Gao, "Scalable
    training of L1-regularized log-linear models", ICML 2007. Gimpel and Smith, "Softmax-margin CRFs",
    NAACL 2010. Kakade, Teh and Roweis, "An alternate objective function for Markovian fields", ICML 2002.
    Bottou, "Large-scale machine learning with stochastic gradient descent", COMPSTAT 2010. Schmidt, Babanezhad, Ahmed,
    Defazio, Clifton and Sarkar, "Non-uniform stochastic average gradient method for training conditional random
    fields", AISTATS 2015. Le Priol, Piché and Lacoste-Julien, "Adaptive stochastic dual coordinate ascent for
    conditional random fields", UAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import LinearChainCRF
    >>> X = [np.array([[0.0], [0.2], [0.9]]), np.array([[1.0], [0.8]])]
    >>> y = [["off", "off", "on"], ["on", None]]
    >>> LinearChainCRF(C=10.0).fit(X, y).predict([[[0.1], [0.9], [1.0]]])[0]
    array(['off', 'on', 'on'], dtype='<U3')
    """

    _reads_stored = True

    _parameter_constraints: dict = {
        **LinearChainLabeler._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "loss": [StrOptions({"log", "softmax_margin", "marginal"})],
        "cost": [Interval(Real, 0, None, closed="left"), dict, "array-like"],
        "solver": [StrOptions({"auto", "lbfgs", "owlqn", "sgd", "sag", "sdca"})],
        "decoding": [StrOptions({"map", "marginal"})],
        "class_weight": [None, StrOptions({"balanced"}), dict],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        *,
        C=1.0,
        l1_ratio=0.0,
        loss="log",
        cost=1.0,
        solver="auto",
        fit_intercept=True,
        start_end=True,
        transition_features="none",
        allowed_transitions=None,
        restrict_features=False,
        min_count=1,
        decoding="map",
        class_weight=None,
        max_iter=1000,
        tol=1e-4,
        validation_fraction=None,
        n_iter_no_change=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.l1_ratio = l1_ratio
        self.loss = loss
        self.cost = cost
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.start_end = start_end
        self.transition_features = transition_features
        self.allowed_transitions = allowed_transitions
        self.restrict_features = restrict_features
        self.min_count = min_count
        self.decoding = decoding
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.regularisation = "C"
        tags.holds_out = self.validation_fraction is not None
        if self.solver in _OF_KNOWN_LABELS:
            tags.target_tags.missing_labels = tags.target_tags.candidate_sets = False
        tags.non_deterministic = self.solver in _STOCHASTIC or tags.holds_out
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> LinearChainCRF:
        """Learn the weights from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence.

        Returns
        -------
        self : LinearChainCRF

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        InfeasibleSequenceError
            If labels contradict ``allowed_transitions``.
        """
        if self.solver == "sdca" and self.fit_intercept:
            raise ValueError(
                "solver='sdca' needs a penalty on every weight, and intercepts have none: set fit_intercept=False, "
                "and add a column of ones to X if labels are to have a constant score."
            )
        if self.solver in ("lbfgs", *_STOCHASTIC) and self.l1_ratio > 0:
            raise ValueError(
                f"solver={self.solver!r} cannot take l1_ratio > 0; use solver='owlqn' or 'auto'."
            )
        batch = pack(X, as_stored=True)
        labels = encode_training_labels(y, batch.offsets)
        weight = read_weights(sample_weight, batch.n_sequences)
        columns = self._edge_columns(batch)
        if self.solver in _STOCHASTIC and (len(columns) or self.loss == "marginal"):
            what = "transition_features" if len(columns) else "loss='marginal'"
            raise ValueError(f"solver={self.solver!r} takes no {what}; use solver='lbfgs' or 'auto'.")
        random = check_random_state(self.random_state)
        chosen, held_out = held_out_split(weight, labels, self.validation_fraction, random)
        layout = {
            "edge_columns": columns if len(columns) else None,
            "allowed_transitions": read_allowed_transitions(self.allowed_transitions, labels),
            "pairs": self._observed_pairs(batch, labels),
        }

        def part(sequences: np.ndarray, **options: Any) -> ChainLogLikelihood:
            # sequences of weight zero are left out by the objective, which names others as the caller numbers them
            own = np.where(np.isin(np.arange(len(weight)), sequences), weight, 0.0)
            return self._objective(batch, labels, own, **layout, **options)

        with _parallel.one_blas_thread(), Progress(self.verbose, "LinearChainCRF", self.max_iter) as progress:
            objective, watch = part(chosen), None
            if len(held_out):
                watch = HeldOut(part(held_out, order=objective.layout.order), self.n_iter_no_change)
            self._warn_if_large(objective.n_coef)
            if self.solver in _OF_KNOWN_LABELS:
                self._check_memory_of_sequences(objective)
            start = self._start(objective, labels.classes, columns)
            outcome = self._solve(objective, start, progress, watch)
        coef = watch.coef if watch is not None and watch.losses else outcome.coef
        parts, gap = objective.split(coef), None
        if isinstance(outcome, CertifiedOutcome):
            value = outcome.value if coef is outcome.coef else objective.value_and_gradient(coef)[0]
            gap = max(0.0, value - outcome.dual)

        self._set_input_attributes(batch)
        self._set_coefficients(parts, labels.classes, columns)
        self.n_iter_, self.loss_curve_ = outcome.n_iter, np.array(outcome.history)
        self.validation_loss_ = np.array([] if watch is None else watch.losses)
        if watch is not None and watch.losses:
            self.n_iter_ = watch.best
        self._forget("_stream", "duality_gap_")
        if gap is not None:
            self.duality_gap_ = gap
        if outcome.interrupted:
            raise KeyboardInterrupt
        report(outcome, "Raise max_iter, loosen tol, lower C, or scale the features (StandardScaler).")
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: ArrayLike | None = None
    ) -> LinearChainCRF:
        """One stochastic step on each of some sequences of a stream, in their order, whatever ``solver`` is.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        classes : array-like of shape (n_labels,), default=None
            All labels that may come; needed at the first call, unless ``y`` has them all.

        Returns
        -------
        self : LinearChainCRF

        Raises
        ------
        ValueError
            If a label, the number of features or a parameter on which the weights depend is not that of the first
            call; with ``l1_ratio > 0`` or transition features, which these steps do not take; or with
            ``restrict_features``, ``allowed_transitions="observed"`` or ``class_weight="balanced"``, which need all the
            data. The estimator is then left as it was.

        Notes
        -----
        The length of the first step is found on the sequences of the first call; it falls with the root of their
        number. Each sequence has an equal share, among those that have come, of the penalty. ``loss_curve_`` holds
        the mean loss of a sequence at each call, before the steps, in nats.
        """
        if self.l1_ratio > 0:
            raise ValueError("partial_fit cannot take l1_ratio > 0.")
        if self.loss == "marginal":
            raise ValueError("partial_fit cannot take loss='marginal'.")
        if isinstance(self.class_weight, str):
            raise ValueError("partial_fit cannot take class_weight='balanced', which needs all the data.")
        stream = getattr(self, "_stream", None)
        batch, labels, columns, allowed, layout = next_part(self, X, y, classes, stream, {})
        if len(columns):
            raise ValueError("partial_fit takes no transition_features.")
        weight = read_weights(sample_weight, batch.n_sequences)
        with _parallel.one_blas_thread():
            objective = self._objective(batch, labels, weight, allowed_transitions=allowed)
            n_new = objective.batch.n_sequences
            start = np.zeros(objective.n_coef) if stream is None else objective.join(self._coefficients())
            n_before = 0 if stream is None else stream["n_steps"]
            descent = partial(ChainDescent, objective, n_before=n_before)
            eta = calibrate(descent, start, n_new, self.random_state) if stream is None else stream["eta"]
            coef, loss, eta = step_through(descent, start, n_new, eta)
        losses = np.empty(0) if stream is None else self.loss_curve_
        if stream is None:
            self._set_input_attributes(batch)
        self._set_coefficients(objective.split(coef), labels.classes, columns)
        self._forget("duality_gap_")
        self._stream = {"layout": layout, "n_steps": n_before + n_new, "eta": eta}
        self.loss_curve_ = np.append(losses, loss / n_new)
        self.n_iter_ = len(self.loss_curve_)
        return self

    def _objective(
        self, batch: PackedBatch, labels: LabelCodes, weight: np.ndarray, **layout: Any
    ) -> ChainLogLikelihood:
        layout |= {
            "C": self.C,
            "l1_ratio": self.l1_ratio,
            "fit_intercept": self.fit_intercept,
            "start_end": self.start_end,
            "n_jobs": self.n_jobs,
        }
        if self.loss == "marginal":
            step_weight = class_weights_of_steps(self.class_weight, labels)
            return ChainMarginalLikelihood(batch, labels, weight=weight, step_weight=step_weight, **layout)
        cost = None if self.loss == "log" else read_cost(self.cost, labels.classes)
        weight = weight * class_weights(self.class_weight, labels)
        return ChainLogLikelihood(batch, labels, weight=weight, cost=cost, **layout)

    def _solve(
        self, objective: ChainLogLikelihood, start: np.ndarray, callback: Progress, watch: HeldOut | None
    ) -> SolverOutcome:
        options: dict[str, Any] = {
            "max_iter": self.max_iter,
            "tol": self.tol,
            "callback": callback,
            "watch": watch,
        }
        descent, n_sequences = partial(ChainDescent, objective), objective.batch.n_sequences
        if self.solver == "sgd":
            return passes(objective, descent, start, n_sequences, random_state=self.random_state, **options)
        if self.solver == "sdca":
            return dual_ascent(objective, ChainAscent(objective), random_state=self.random_state, **options)
        if self.solver == "sag":
            random = check_random_state(self.random_state)
            if not start.any():
                start = warm_up(objective, descent, start, n_sequences, _N_FIRST_PASSES, self.tol, random)
            averages = partial(ChainAverages, objective)
            return average_gradient(objective, averages, start, n_sequences, random_state=random, **options)
        long = n_sequences >= _MANY_SEQUENCES and objective.is_convex and not objective.layout.n_edge
        if self.solver == "auto" and long and objective.l1 is None:
            if not start.any():
                random_state = 0 if self.random_state is None else self.random_state
                start = warm_up(
                    objective, descent, start, n_sequences, _N_FIRST_PASSES, self.tol, random_state
                )
            # sparse features may be rare; and not at zero, where curvatures tell little
            if objective.batch.is_sparse and not objective.batch.is_mapped and start.any():
                objective.precondition(start)
        client = dask_client()
        spread = objective if client is None else ShardedObjective(objective, client)
        return (lbfgs if objective.l1 is None else owlqn)(spread, start, **options)

    def _forget(self, *names: str) -> None:
        """What an earlier fit left and this one has not."""
        for name in names:
            if hasattr(self, name):
                delattr(self, name)

    def _check_memory_of_sequences(self, objective: ChainLogLikelihood) -> None:
        """Hidden labels are an error where something is remembered of each sequence; warns where that is large."""
        if not objective.is_convex:
            s, t = objective.first_hidden()
            raise ValueError(
                f"solver={self.solver!r} needs all labels, but that of y[{s}] at step {t} is hidden; "
                "use solver='lbfgs' or 'auto'."
            )
        n_labels, n_total = objective.n_labels, objective.batch.n_total
        n_squares = n_total if self.solver == "sdca" else objective.batch.n_sequences
        size = 8 * (n_total * n_labels + n_squares * n_labels**2) / 2**30
        if size > _LARGE_GIB:
            warnings.warn(
                f"solver={self.solver!r} remembers about {size:.1f} GiB of all sequences; solver='lbfgs' does not.",
                DataDimensionalityWarning,
                stacklevel=3,
            )

    def _online_scores(self) -> OnlineScores:
        parts = self._coefficients()
        columns = self.transition_features_
        check_coefficients(parts, self.n_features_in_, len(columns))
        node, intercept, transition = parts.node, parts.intercept, np.ascontiguousarray(parts.transition)

        def row(x: np.ndarray) -> np.ndarray:
            return node @ x + intercept

        def moves(x: np.ndarray) -> np.ndarray:
            return parts.edge @ x[columns] + transition

        return OnlineScores(row, moves if len(columns) else None, transition, parts.start, parts.end)

    def _start(self, objective: ChainLogLikelihood, classes: np.ndarray, columns: np.ndarray) -> np.ndarray:
        same = self.warm_start and self._learnt_same_weights(classes, objective.batch.n_features, columns)
        return objective.join(self._coefficients()) if same else np.zeros(objective.n_coef)
