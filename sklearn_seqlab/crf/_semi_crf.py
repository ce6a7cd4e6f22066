"""Semi-Markov conditional random field: labels whole segments, and scores how long they last."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab._arguments import positive
from sklearn_seqlab._hierarchy_fit import HierarchyFit, allowed_moves, check_names, make_levels
from sklearn_seqlab._hierarchy_labeler import HierarchyLabeler, duration_scores
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.objectives import HierarchyShape, Level
from sklearn_seqlab.sequences import encode_levels, pack, read_allowed_transitions, read_weights
from sklearn_seqlab.solvers import report

__all__ = ["SemiCRF"]

SEGMENT_FEATURES = ("sum", "mean", "any")
EDGE_FEATURES = ("start", "end", "transition")


class SemiCRF(HierarchyLabeler):
    """Semi-Markov conditional random field.

    A sequence is cut into segments of one label each. The probability of a segmentation is proportional to the
    exponential of the sum, over segments, of the weights of its label for the inputs that it covers, of the
    score of its duration, and of the weight of the move from the label before.

    Parameters
    ----------
    max_duration : int, None or "observed", default="observed"
        Longest segment in time steps. An int is a hard limit. "observed" scores durations one by one up to the longest
        segment of the training data (where that is longer than 50 steps: up to the 90 % quantile of their lengths, and
        at most up to 120), and every step beyond at a constant score, so that no segment is impossible and time stays
        linear. None sets no limit: with ``duration="gamma"``, or with means or "any", the time of a fit is then
        quadratic in the length of the sequences; with "table" durations are scored one by one up to the longest of the
        training data, however long that is, and every step beyond at a constant score.
    duration : {"none", "geometric", "gamma", "table"}, default="table"
        Score of a duration of ``n`` steps: "geometric" a constant and a weight times ``n``, which as intercepts
        are not penalised; "gamma" also one times ``log(n)``: together the log-density of a gamma distribution;
        "table" the first two and a weight for each ``n``.
    segment_features : tuple of {"sum", "mean", "any"}, default=("sum",)
        What of the inputs a segment's label weighs: their sum over its steps, their mean, and whether an input
        differs from zero at any step. Beyond ``max_duration`` the latter two see the first steps alone.
    edge_features : tuple of {"start", "end", "transition"}, default=()
        Where inputs are weighed once more: at the first step of each segment, at its last, and at the first
        step of each segment but the first of the sequence.
    self_transitions : bool or "auto", default="auto"
        Whether a segment may follow one of the same label. "auto" allows it if ends or segments given to
        ``fit`` show it.
    allowed_transitions : None, "observed", dict or bool array-like of shape (n_labels, n_labels), default=None
        Moves between segments that may happen; see :class:`LinearChainCRF`. The diagonal is what
        ``self_transitions`` says.
    C : float, default=1.0
        Inverse strength of the squared penalty on all weights; it multiplies the summed loss.
    solver : {"lbfgs", "sgd", "adagrad"}, default="lbfgs"
        Quasi-Newton steps on all sequences, or stochastic ones on ``batch_size`` of them.
    max_iter : int, default=1000
        Largest number of iterations, or of passes over the data.
    tol : float, default=1e-4
        For "lbfgs" as in :class:`LinearChainCRF`; for the others the relative change by a pass.
    eta0 : float or "auto", default="auto"
        Step size of "sgd" and "adagrad"; "auto" tries powers of two on some sequences.
    batch_size : int, default=1
        Sequences per stochastic step.
    average : bool, default=True
        Whether stochastic solvers return the mean of the iterates of the last pass.
    numerics : {"auto", "scaled", "log"}, default="auto"
        "scaled" sums scaled masses, and raises where they do not certify their result; "log" sums in the log
        domain; "auto" redoes there what is not certified.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable segmentation, or at each step the most probable label.
    n_jobs : int or None, default=None
        Threads in ``fit`` and ``predict``. Results do not depend on it.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, provided labels, features and durations are the same.
    random_state : int, RandomState instance or None, default=None
        Order of the sequences for stochastic solvers.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Sorted labels.
    coef_ : dict
        Weights by name, each a list with one array: "unary", "mean", "any", "edge_start", "edge_end",
        "edge_transition" of shape (n_labels, n_features); "bias" and "segment_bias" (n_labels,) of each step and
        of each segment, not penalised; "duration"
        (n_labels, .): for "gamma" the weight of ``log(n)``, for "table" those of 1 to ``max_duration_`` steps and
        of a step beyond; "initialisation" and "ending" (1, n_labels) of the first and last segment;
        "transition" (1, n_labels, n_labels).
    transition_coef_ : ndarray of shape (n_labels, n_labels)
        Weights of moves from row to column; minus infinity where forbidden.
    transition_mask_ : bool ndarray of shape (n_labels, n_labels)
        Which label may follow which.
    start_coef_, end_coef_ : ndarray of shape (n_labels,)
        Weights of the label of the first and of the last segment.
    max_duration_ : int or None
        Longest explicit duration.
    duration_scores_ : ndarray of shape (n_durations, n_labels)
        Score of each duration from one step up, without what the inputs add.
    engine_ : str
    n_log_fallbacks_ : int
        Sequences that the last evaluation redid in the log domain.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    n_iter_ : int
    loss_curve_ : ndarray

    Notes
    -----
    The model is a hierarchy of a root without labels and one level of segments, computed by the engines of
    :class:`HSCRFClassifier`; ``sklearn_seqlab.inference.segment`` is not used.

    An iteration takes O(n_total * max_duration * n_labels + n_total * n_labels**2) time, without an exponential
    per segment unless means or "any" are used. Labels may be missing, sets of candidates, or segments
    ``(start, stop, label)``; ends may be given beside labels, ``(labels, ends)``, 1 at the last step of a
    segment. The objective is convex if all labels and ends are known.

    References
    ----------
    Sarawagi and Cohen, "Semi-Markov conditional random fields for information extraction", NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import SemiCRF
    >>> X = [np.array([[0.1], [0.0], [0.9], [1.0], [0.8], [0.1]])]
    >>> y = [["off", "off", "on", "on", "on", "off"]]
    >>> SemiCRF(C=10.0).fit(X, y).predict_segments([[[0.0], [0.2], [1.0], [0.7], [1.0], [0.1]]])[0]
    [(0, 2, 'off'), (2, 5, 'on'), (5, 6, 'off')]
    """

    classes_: np.ndarray
    coef_: dict[str, Any]

    _parameter_constraints: dict = {
        "max_duration": [None, Interval(Integral, 1, None, closed="left"), StrOptions({"observed"})],
        "duration": [StrOptions({"none", "geometric", "gamma", "table"})],
        "segment_features": [list, tuple, StrOptions(set(SEGMENT_FEATURES))],
        "edge_features": [list, tuple, StrOptions(set(EDGE_FEATURES))],
        "self_transitions": ["boolean", StrOptions({"auto"})],
        "allowed_transitions": [None, StrOptions({"observed"}), dict, "array-like"],
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"lbfgs", "sgd", "adagrad"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "eta0": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "numerics": [StrOptions({"auto", "scaled", "log"})],
        "decoding": [StrOptions({"map", "marginal"})],
        "n_jobs": [None, Integral],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        max_duration="observed",
        duration="table",
        segment_features=("sum",),
        edge_features=(),
        self_transitions="auto",
        allowed_transitions=None,
        C=1.0,
        solver="lbfgs",
        max_iter=1000,
        tol=1e-4,
        eta0="auto",
        batch_size=1,
        average=True,
        numerics="auto",
        decoding="map",
        n_jobs=None,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.max_duration = max_duration
        self.duration = duration
        self.segment_features = segment_features
        self.edge_features = edge_features
        self.self_transitions = self_transitions
        self.allowed_transitions = allowed_transitions
        self.C = C
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.eta0 = eta0
        self.batch_size = batch_size
        self.average = average
        self.numerics = numerics
        self.decoding = decoding
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> SemiCRF:
        """Learn the weights from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list
            Per sequence: labels (n_timesteps,), None where missing, or a set of candidates; a tuple
            ``(labels, ends)``; a list of segments ``(start, stop, label)``, half open, nothing being known of
            uncovered steps; or None.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence.

        Returns
        -------
        self : SemiCRF

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        InfeasibleSequenceError
            If labels fit no segmentation, as a segment longer than ``max_duration``.
        """
        segment_features = check_names(self.segment_features, SEGMENT_FEATURES, "segment_features", least=1)
        edge_features = check_names(self.edge_features, EDGE_FEATURES, "edge_features")
        batch = pack(X)
        weight = read_weights(sample_weight, batch.n_sequences)
        codes = encode_levels(
            y,
            batch.offsets,
            n_levels=1,
            segment_bottom=True,
            flat_segments=True,
            self_transitions=self.self_transitions,
            counts=weight > 0,
        )
        options = {
            "duration": [self.duration],
            "max_duration": [self.max_duration],
            "segment_features": [segment_features],
            "edge_features": [edge_features],
        }
        (level,) = make_levels(codes, options, weight, segment_bottom=True, root=False)
        if isinstance(self.allowed_transitions, str):  # "observed", where labels may be missing
            moves = allowed_moves(codes, 0, None, weight > 0)[0]
        else:
            moves = read_allowed_transitions(self.allowed_transitions, codes.levels[0]).copy()
        np.fill_diagonal(moves, codes.self_transitions[0])
        children = [np.ones((1, level.n_states), dtype=bool)]
        shape = HierarchyShape((Level(1), level), children, [moves[None]], persists=True)
        start = None
        if self.warm_start and hasattr(self, "classes_") and np.array_equal(self.classes_, codes.classes[0]):
            start = self.coef_
        found = HierarchyFit.run(self, batch, codes, weight, shape, start=start)

        self._set_input_attributes(batch)
        self._structure = found.structure(codes)
        self.classes_ = codes.classes[0]
        self.coef_ = found.blocks
        self.transition_mask_ = moves
        self.transition_coef_ = found.blocks["transition"][0][0]
        self.start_coef_, self.end_coef_ = (found.blocks[name][0][0] for name in ("initialisation", "ending"))
        self.max_duration_ = level.max_duration
        self.duration_scores_ = duration_scores(level, found.blocks, 0, int(batch.lengths.max()))
        self.engine_, self.n_log_fallbacks_ = found.engine, found.n_redone
        self.n_iter_, self.loss_curve_ = found.outcome.n_iter, np.array(found.outcome.history)
        if found.outcome.interrupted:
            raise KeyboardInterrupt
        report(found.outcome, "Raise max_iter, loosen tol, lower C, or scale the features (StandardScaler).")
        return self

    def predict_n_best(
        self, X: Any, n: int = 5, y_observed: Any = None
    ) -> list[list[tuple[np.ndarray, float]]]:
        """The ``n`` labellings whose best segmentations have the largest scores.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.
        n : int, default=5

        Returns
        -------
        labellings : list of n_sequences lists of (labels, score)
            Best first, scores in nats; fewer than ``n`` where fewer are feasible. A score is that of the best
            segmentation with these labels, and ``exp(score - log_partition)`` the probability of that segmentation;
            the labels have no other one unless a segment may follow one of the same label.

        Notes
        -----
        Time O(n_total * n_labels * (max_duration + n_labels) * n); past some hundred labellings with ``n**2``, as
        each of the lists of ``n`` is kept in order by insertion.
        """
        n = positive(n, "n")
        batch, known = self._pack_known(X, y_observed)
        parts = self._map_chunks(batch, known, lambda engine: engine.stacks.n_best(n, distinct=True))
        return [
            [(self.classes_[codes], float(score)) for codes, score in zip(labels, scores, strict=True)]
            for part in parts
            for labels, _, scores in part
        ]

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.n_best = True
        return tags

    @property
    def _is_single(self) -> bool:
        return True

    @property
    def _is_flat(self) -> bool:
        return True

    @property
    def children_(self) -> list[np.ndarray]:
        return []

    def _level_classes(self) -> list[np.ndarray]:
        return [self.classes_]

    def _transition_masks(self) -> list[np.ndarray]:
        return [np.asarray(self.transition_mask_)[None]]
