"""Structured support vector machine over linear chains."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_seqlab import _parallel
from sklearn_seqlab._chain_labeler import LinearChainLabeler
from sklearn_seqlab._chain_stream import next_part
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.objectives import ChainMargin
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    encode_training_labels,
    known_runs,
    pack,
    raise_if_partial,
    read_allowed_transitions,
    read_cost,
    read_weights,
)
from sklearn_seqlab.solvers import (
    DualSolution,
    MarginOutcome,
    SubgradientRun,
    frank_wolfe,
    one_slack,
    report,
    subgradient,
    working_set,
)

__all__ = ["StructuredSVM"]

_CURE = "Use partial='latent', or LinearChainCRF, or leave the sequence out."

# Rounds in which hidden labels are completed anew, at most.
_MAX_COMPLETIONS = 20


class StructuredSVM(LinearChainLabeler):
    """Structured support vector machine (max-margin Markov network) over linear chains.

    Minimises ``1/2 ||w||^2 + C / n_sequences * sum of slacks``: every labelling is to score less than the true one by
    a margin that grows with its cost. The objective is that of the papers, so ``C`` is divided by the number of
    sequences (by their summed weights), unlike in :class:`~sklearn_seqlab.LinearChainCRF`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the mean slack.
    rescaling : {"margin", "slack"}, default="margin"
        With ``F`` the score of a labelling: "margin" asks for ``F(true) - F(other) >= cost - slack``, "slack" for
        ``F(true) - F(other) >= 1 - slack / cost``, which leaves labellings of small cost less to say. "slack" needs a
        Hamming loss.
    loss : {"hamming", "hamming_sum"}, dict or array-like of shape (n_labels, n_labels), default="hamming"
        Cost of a labelling: "hamming" is the share of wrong steps, "hamming_sum" their number. The margins that the
        share asks for shrink with the length of a sequence, so that the same ``C`` penalises weights less the longer
        sequences are (sequences of 1,000 steps want a ``C`` a thousand times smaller); with the number, ``C`` means
        the same for short and long ones. Else a sum over the steps of costs by (true, predicted) labels, 1 for pairs
        that a dict does not name, or of ``loss[true, predicted]`` in the order of ``classes_``. Steps whose label is
        hidden cost nothing, and a set of candidates the least cost among them.
    solver : {"working_set", "bcfw", "one_slack", "subgradient"}, default="working_set"
        "working_set" ascends the dual sequence by sequence and keeps what it has found; "bcfw" (block-coordinate
        Frank-Wolfe) keeps one vector per sequence; "one_slack" adds one cut per pass over all sequences, which
        ``n_jobs`` threads share; "subgradient" is for first looks and streams, see :meth:`partial_fit`. All stop at
        the same duality gap.
    fit_intercept : bool, default=True
        Whether each label has a constant score.
    intercept_scaling : float, default=1.0
        The constant that is multiplied by a label's weight to give its intercept. That weight is penalised like all
        others, so the larger the constant, the freer the intercept (and the more passes are needed).
    start_end : bool, default=True
        Whether each label has a weight at the first and one at the last step of a sequence.
    transition_features : {"none", "all"} or array-like of int, default="none"
        Columns of ``X`` that also weigh moves, see :class:`~sklearn_seqlab.LinearChainCRF`.
    allowed_transitions : None, "observed", dict or bool array-like of shape (n_labels, n_labels), default=None
        Moves that may happen, see :class:`~sklearn_seqlab.LinearChainCRF`.
    restrict_features : bool or "auto", default=False
        Whether only pairs of feature and label have a weight that occur together in the training data.
    min_count : int, default=1
        With restricted features, how often a pair must occur.
    partial : {"latent", "error"}, default="latent"
        What to do with sequences that are not completely labelled: "latent" compares wrong labellings with the best
        completion and takes turns in fitting and completing (the concave-convex procedure; it finds a stationary
        point), "error" refuses them. Sequences without any label are passed over.
    exact_length : int, default=500
        With slack rescaling, the longest sequence, in time steps, whose most violated labelling is found exactly where
        a search does not find it. Beyond, the slack is known within bounds, and the gap is computed from the upper one.
    average : bool or "auto", default="auto"
        Whether averages of the iterates are candidates for the solution as well as the last ones; the better is kept.
        "auto": with "bcfw" and "subgradient".
    n_inner : int, default=10
        For "working_set", passes over the cached labellings after each pass that looks for new ones.
    max_iter : int, default=100
        Largest number of passes over the sequences.
    tol : float, default=1e-3
        Stop where the duality gap is at most ``tol`` times the objective.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the dual solution of the last one if data and loss are the same (``C`` may differ;
        go from small to large), not with "subgradient". The dual solution is kept with the estimator.
    n_jobs : int or None, default=None
        Threads in passes that look at all sequences, and in ``predict``. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the order in which sequences are visited.
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
    transition_features_ : ndarray of int of shape (n_transition_features,)
    start_coef_, end_coef_ : ndarray of shape (n_labels,)
    objective_ : float
        Primal objective of the solution; an upper bound of it where slacks are known within bounds.
    duality_gap_ : float
        The objective is at most so much above its minimum (with partial labels: that for their last completion).
        Never negative; NaN after :meth:`partial_fit`, which has no end.
    slack_bounds_ : ndarray of shape (n_learnt, 2)
        With slack rescaling, lower and upper bounds of the slacks of the sequences learnt from.
    n_iter_ : int
        Passes, over all completions.
    n_oracle_calls_ : int
        How many most violated labellings were searched for.
    loss_curve_ : ndarray of shape (n_iter_ + 1,)
        Best objective known after each pass; it is evaluated every tenth pass, and where the gap seems to have closed.
        The last entry is that of the solution: larger where a run ended before any weights were better than none.
    dual_curve_ : ndarray of shape (n_iter_ + 1,)
        Dual objective after each pass.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where ``X`` held data frames.

    Notes
    -----
    A pass takes O(stored features * n_labels + n_total * n_labels**2) time with margin rescaling. ``spec`` "chain
    models" 6. The margin has no probabilities: ``decision_function`` gives max-marginals, in units of the cost.

    References
    ----------
    Taskar, Guestrin and Koller, "Max-margin Markov networks", NIPS 2003. Tsochantaridis, Joachims, Hofmann and Altun,
    "Large margin methods for structured and interdependent output variables", JMLR 2005. Lacoste-Julien, Jaggi, Schmidt
    and Pletscher, "Block-coordinate Frank-Wolfe optimization for structural SVMs", ICML 2013. Joachims, Finley and Yu,
    "Cutting-plane training of structural SVMs", Machine Learning 2009. Yu and Joachims, "Learning structural SVMs with
    latent variables", ICML 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import StructuredSVM
    >>> X = [np.array([[0.0], [0.2], [0.9]]), np.array([[1.0], [0.8]])]
    >>> y = [["off", "off", "on"], ["on", "on"]]
    >>> model = StructuredSVM(C=100.0, random_state=0).fit(X, y)
    >>> model.predict([[[0.1], [0.9], [1.0]]])[0]
    array(['off', 'on', 'on'], dtype='<U3')
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    _parameter_constraints: dict = {
        **LinearChainLabeler._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "rescaling": [StrOptions({"margin", "slack"})],
        "loss": [StrOptions({"hamming", "hamming_sum"}), dict, "array-like"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"working_set", "bcfw", "one_slack", "subgradient"})],
        "partial": [StrOptions({"latent", "error"})],
        "exact_length": [Interval(Integral, 0, None, closed="left")],
        "average": ["boolean", StrOptions({"auto"})],
        "n_inner": [Interval(Integral, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        *,
        C=1.0,
        rescaling="margin",
        loss="hamming",
        solver="working_set",
        fit_intercept=True,
        intercept_scaling=1.0,
        start_end=True,
        transition_features="none",
        allowed_transitions=None,
        restrict_features=False,
        min_count=1,
        partial="latent",
        exact_length=500,
        average="auto",
        n_inner=10,
        max_iter=100,
        tol=1e-3,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.rescaling = rescaling
        self.loss = loss
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.start_end = start_end
        self.transition_features = transition_features
        self.allowed_transitions = allowed_transitions
        self.restrict_features = restrict_features
        self.min_count = min_count
        self.partial = partial
        self.exact_length = exact_length
        self.average = average
        self.n_inner = n_inner
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.regularisation = "C"
        tags.keeps_rows = self.warm_start  # the dual solution is made of differences of training rows
        if self.partial == "error":
            tags.target_tags.missing_labels = tags.target_tags.candidate_sets = False
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> StructuredSVM:
        """Learn the weights from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence's slack, relative to the sum of weights.

        Returns
        -------
        self : StructuredSVM

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        InfeasibleSequenceError
            If labels contradict ``allowed_transitions``.
        """
        batch = pack(X)
        labels = encode_training_labels(y, batch.offsets)
        if self.partial == "error":
            raise_if_partial(labels, _CURE)
        weight = read_weights(sample_weight, batch.n_sequences)
        columns = self._edge_columns(batch)
        pairs = self._observed_pairs(batch, labels)
        random = check_random_state(self.random_state)
        options: dict[str, Any] = {
            "edge_columns": columns if len(columns) else None,
            "allowed_transitions": read_allowed_transitions(self.allowed_transitions, labels),
            "pairs": pairs,
        }
        with (
            _parallel.one_blas_thread(),
            Progress(self.verbose, "StructuredSVM", self.max_iter) as progress,
            np.errstate(over="ignore", invalid="ignore"),  # what is not finite is refused by name
        ):
            problem = self._problem(batch, labels, weight, **options)
            self._warn_if_large(problem.n_coef)
            if len(problem.partial):
                problem.complete(self._first_guess(batch, labels, weight, options, random))
            fingerprint = problem.fingerprint() if self.warm_start else ""
            outcome = self._solve(problem, random, self._last_solution(fingerprint), progress)
            outcome = self._take_turns(problem, outcome, random, progress)
            bounds = problem.slack_bounds(outcome.coef) if self.rescaling == "slack" else None
            if self.warm_start:
                fingerprint = problem.fingerprint()
        self._set_input_attributes(batch)
        self._set_coefficients(problem.split(outcome.coef), labels.classes, columns)
        self._forget("_stream", "_dual", "slack_bounds_")
        self.objective_, self.duality_gap_ = outcome.value, outcome.gap
        self.n_iter_, self.n_oracle_calls_ = outcome.n_iter, outcome.n_oracle_calls
        self.loss_curve_, self.dual_curve_ = np.array(outcome.history), np.array(outcome.dual_history)
        if bounds is not None:
            self.slack_bounds_ = bounds
        if self.warm_start and outcome.solution is not None:
            self._dual = {"C": float(self.C), "data": fingerprint, **outcome.solution._asdict()}
        if outcome.interrupted:
            raise KeyboardInterrupt
        report(outcome, "Raise max_iter, loosen tol, lower C, or scale the features (StandardScaler).")
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: ArrayLike | None = None
    ) -> StructuredSVM:
        """One pass of subgradient steps over some sequences of a stream, whatever ``solver`` is.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        classes : array-like of shape (n_labels,), default=None
            All labels that may come; needed at the first call, unless ``y`` has them all.

        Returns
        -------
        self : StructuredSVM

        Raises
        ------
        ValueError
            If a label, the number of features or a parameter on which the weights depend is not that of the first call,
            or with ``restrict_features`` or
            ``allowed_transitions="observed"``, which need all the data.

        Notes
        -----
        The step after sequences of total weight ``t`` has length ``C / t``, which minimises ``1/2 ||w||^2 + C`` times
        the mean slack of the stream. With ``average`` (also "auto") the coefficients are averages of the iterates.
        Partly labelled sequences are completed by the model as it is when they come.
        """
        stream = getattr(self, "_stream", None)
        more = {"intercept_scaling": float(self.intercept_scaling)}
        batch, labels, columns, allowed, layout = next_part(self, X, y, classes, stream, more)
        if self.partial == "error":
            raise_if_partial(labels, _CURE)
        with _parallel.one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            problem = self._problem(
                batch,
                labels,
                read_weights(sample_weight, batch.n_sequences),
                edge_columns=columns if len(columns) else None,
                allowed_transitions=allowed,
                recomplete=True,
            )
            if stream is None:
                run = SubgradientRun(np.zeros(problem.n_coef), 0.0, float(self.C))
            else:
                run = SubgradientRun(stream["total"].copy(), float(stream["weight"]), float(self.C))
                run.mean.missing = stream["missing"].copy()
                run.mean.n_steps, run.mean.weight = int(stream["n_steps"]), float(stream["n_steps"])
            for first, last in problem.runs:
                run.visit(problem, first, last, problem.weight[first:last])
            coef = run.averaged if self.average else run.coef
        if stream is None:
            self._set_input_attributes(batch)
        self._set_coefficients(problem.split(coef), labels.classes, columns)
        self._forget("_dual", "slack_bounds_")
        self._stream = {
            "total": run.total, "weight": run.weight, "missing": run.mean.missing, "n_steps": run.mean.n_steps,
            "layout": layout,
        }  # fmt: skip
        self.objective_ = self.duality_gap_ = float("nan")
        self.n_iter_ = 1 if stream is None else self.n_iter_ + 1
        before = 0 if stream is None else self.n_oracle_calls_
        self.n_oracle_calls_ = before + problem.batch.n_sequences
        self.loss_curve_ = self.dual_curve_ = np.full(self.n_iter_ + 1, np.nan)
        return self

    def _problem(
        self, batch: PackedBatch, labels: LabelCodes, weight: np.ndarray, **options: Any
    ) -> ChainMargin:
        named = isinstance(self.loss, str)
        if not named and self.rescaling == "slack":
            raise ValueError("rescaling='slack' needs loss='hamming' or 'hamming_sum', not costs by label.")
        matrix = self.loss if isinstance(self.loss, Mapping) else np.asarray(self.loss)
        return ChainMargin(
            batch,
            labels,
            weight=weight,
            C=float(self.C),
            cost=read_cost(1.0 if named else matrix, labels.classes, "loss"),
            mean=named and self.loss == "hamming",
            rescaling=self.rescaling,
            fit_intercept=self.fit_intercept,
            intercept_scaling=float(self.intercept_scaling),
            start_end=self.start_end,
            exact_length=self.exact_length,
            n_jobs=self.n_jobs,
            **options,
        )

    def _solve(
        self,
        problem: ChainMargin,
        random: np.random.RandomState,
        start: DualSolution | None,
        callback: Any,
        tol: float | None = None,
    ) -> MarginOutcome:
        options: dict[str, Any] = {
            "max_iter": self.max_iter, "tol": self.tol if tol is None else tol, "callback": callback
        }  # fmt: skip
        if self.solver == "one_slack":
            return one_slack(problem, start=start, **options)
        stochastic = {"random_state": random, "average": self.average is True, **options}
        if self.solver == "working_set":
            return working_set(problem, n_inner=self.n_inner, start=start, **stochastic)
        stochastic["average"] = bool(self.average)
        if self.solver == "bcfw":
            return frank_wolfe(problem, start=start, **stochastic)
        return subgradient(problem, C=float(self.C), **stochastic)

    def _first_guess(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        weight: np.ndarray,
        options: dict[str, Any],
        random: np.random.RandomState,
    ) -> np.ndarray:
        """Coefficients to complete hidden labels by: those learnt on the stretches whose labels are known."""
        pieces = known_runs(batch, labels, weight)
        if pieces is None:
            return np.zeros(self._problem(batch, labels, weight, **options).n_coef)
        problem = self._problem(*pieces, **options)
        outcome = self._solve(problem, random, None, None, tol=max(self.tol, 1e-2))
        if outcome.interrupted:
            raise KeyboardInterrupt  # nothing is learnt yet
        return outcome.coef

    def _take_turns(
        self, problem: ChainMargin, outcome: MarginOutcome, random: np.random.RandomState, callback: Any
    ) -> MarginOutcome:
        """Complete hidden labels anew and fit again, until nothing changes."""
        for _ in range(_MAX_COMPLETIONS):
            if outcome.interrupted or not len(problem.partial):
                break
            value = 0.5 * outcome.coef @ outcome.coef + problem.caps @ problem.slacks(outcome.coef)
            completed = problem.true.copy()
            changed = problem.complete(outcome.coef)
            better = 0.5 * outcome.coef @ outcome.coef + problem.caps @ problem.slacks(outcome.coef)
            if not len(changed) or value - better <= self.tol * value:
                problem.true = completed  # what was learnt is certified for these
                break
            start = outcome.solution.without(changed) if outcome.solution is not None else None
            if self.solver == "one_slack":
                start = None  # its cuts sum over all sequences
            following = self._solve(problem, random, start, callback)
            following.n_iter += outcome.n_iter
            following.n_oracle_calls += outcome.n_oracle_calls + 2 * problem.batch.n_sequences
            following.history = outcome.history + following.history[1:]
            following.dual_history = outcome.dual_history + following.dual_history[1:]
            outcome = following
        return outcome

    def _last_solution(self, fingerprint: str) -> DualSolution | None:
        kept = getattr(self, "_dual", None)
        if not self.warm_start or kept is None or kept["data"] != fingerprint:
            return None
        solution = DualSolution(**{name: kept[name] for name in DualSolution._fields})
        return solution.scaled(self.C / kept["C"])

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)
