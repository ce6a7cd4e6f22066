"""Hierarchical semi-Markov conditional random field."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._hierarchy_fit import (
    HierarchyFit,
    allowed_children,
    allowed_moves,
    check_names,
    make_levels,
    per_level,
)
from sklearn_seqlab._hierarchy_labeler import HierarchyLabeler, duration_scores
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.hierarchical._topology import (
    children_as_dict,
    prunable,
    read_children,
    read_transitions,
    transitions_as_dict,
)
from sklearn_seqlab.objectives import HierarchyShape, Level
from sklearn_seqlab.sequences import LevelCodes, PackedBatch, encode_levels, pack, read_weights
from sklearn_seqlab.solvers import report

__all__ = ["HSCRFClassifier"]

SEGMENT_FEATURES = ("sum", "mean", "any")
EDGE_FEATURES = ("start", "end", "initialisation", "transition", "ending")
DURATIONS = ("none", "geometric", "gamma", "table")


class HSCRFClassifier(HierarchyLabeler):
    """Hierarchical semi-Markov conditional random field.

    (Not the *hybrid* semi-Markov CRF, which shares the abbreviation.) Labels have several levels: a segment of
    one level, an activity say, is made up of segments of the level below, its sub-activities. Each level has
    weights for the inputs that its segments cover, for how long they last, for which child a parent begins and
    ends with, and for which child follows which under the same parent.

    Parameters
    ----------
    max_duration : None, int, "observed" or a list of these, default=None
        Longest segment in time steps, for all levels below the root or one by one. An int is a hard limit, None
        sets none (with "table": the longest of the training data, and a constant score for every step beyond).
        "observed" scores durations one by one up to those of the training data and every step beyond
        at a constant score; see :class:`SemiCRF`.
    duration : {"none", "geometric", "gamma", "table"} or a list of these, default="geometric"
        Score of the duration of a segment; see :class:`SemiCRF`. Levels of "none" and "geometric" alone are
        summed over in time linear in the sequence.
    segment_features : tuple of {"sum", "mean", "any"} or a list of tuples, default=("sum",)
        What of the inputs a segment weighs; see :class:`SemiCRF`.
    edge_features : tuple of {"start", "end", "initialisation", "transition", "ending"} or a list of tuples, \
            default=()
        Where inputs are weighed once more: "start" and "end" at the first and the last step of every segment;
        "initialisation" at the first step of a parent for its first child, "ending" at the last step for its
        last child, "transition" at the first step of every other child (the seed paper's cliques).
    bottom_persist : bool, default=False
        Whether segments of the last level may be longer than one time step. If not, every step is a segment of that
        level: segments and ends given for it are read as labels of their steps, whatever ends they name.
    root : bool, default=False
        Whether the first level of ``y`` is a label of the whole sequence.
    children : {"observed", "full"}, dict, bool array-like or a list of these, default="observed"
        Which label may stand below which: pairs that some time step of the training data has (where a label is
        missing: may have), all, or by label of the parent, ``{parent: [children]}``. A list has an entry per
        pair of neighbouring levels.
    transitions : {"all", "observed"} or a list, default="all"
        Which child may follow which under a parent: any, or those pairs that neighbouring steps of the training
        data have (where a label is missing: may have). A list has an entry per level below the root: one of these
        two, a bool array of shape (n_labels above, n_labels, n_labels), or a dict ``{parent: {label:
        [followers]}}``; labels at the top have the one parent None. What a dict does not name is not allowed.
    self_transitions : bool or "auto", default="auto"
        Whether a segment may follow one of the same label under the same parent. "auto" allows it at levels
        where ends or segments given to ``fit`` show it. At a last level of single steps it always may.
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
    engine : {"auto", "chain", "mixed", "aio"}, default="auto"
        How sums over all configurations are computed: "chain" where every score is a sum over time steps,
        "mixed" with one level of explicit durations (both linear in time), "aio" (the asymmetric inside-outside
        algorithm) with several.
    numerics : {"auto", "scaled", "log"}, default="auto"
        "scaled" sums scaled masses, and raises where they do not certify their result; "log" sums in the log
        domain; "auto" redoes there what is not certified.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable configuration, or at each step and level the most probable
        label.
    score_level : "all" or int, default="all"
        The level that ``score`` looks at.
    n_jobs : int or None, default=None
        Threads in ``fit`` and ``predict``. Results do not depend on it.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, provided labels, features and topology are the same.
    random_state : int, RandomState instance or None, default=None
        Order of the sequences for stochastic solvers.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : list of ndarray
        Sorted labels of each level, from the top.
    n_levels_ : int
    children_ : list of bool ndarray of shape (n_labels, n_labels below)
        Which label may stand below which.
    transition_mask_ : list of bool ndarray of shape (n_labels above, n_labels, n_labels)
        Under which parent a label may follow which; one parent for the top level, unless that is the root.
    coef_ : dict
        Weights by name, each a list with an array per level (None where a level has none): "unary", "mean",
        "any", "edge_..." of shape (n_labels, n_features); "bias", "duration" as in :class:`SemiCRF`;
        "initialisation" and "ending" (n_labels above, n_labels); "transition" (n_labels above, n_labels,
        n_labels), minus infinity where forbidden.
    transition_coef_ : list of ndarray of shape (n_labels above, n_labels, n_labels)
        ``coef_["transition"]``.
    max_duration_ : list of int or None
        Longest explicit duration per level.
    duration_scores_ : list of ndarray of shape (n_durations, n_labels) or None
        Per level the score of each duration from one step up, in nats, without what the inputs add; None for levels
        whose durations are not explicit: the root, single steps, and "none" and "geometric" unless there are a hard
        limit, means or "any".
    engine_ : str
    n_log_fallbacks_ : int
        Sequences that the last evaluation redid in the log domain.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    n_iter_ : int
    loss_curve_ : ndarray

    Notes
    -----
    With full labels the objective is convex. Missing labels, candidate sets, ends and segments are taken at any
    level, and summed over; the objective is then not convex. One level with ``bottom_persist=False`` is a
    linear-chain CRF, with ``bottom_persist=True`` a semi-Markov CRF. Time by engine: "chain" O(n_total times
    moves of a step), "mixed" that times ``max_duration``, "aio" up to quadratic in the sequence, cubic for
    nested explicit durations.

    References
    ----------
    Truyen, Phung, Bui and Venkatesh, "Hierarchical semi-Markov conditional random fields for recursive
    sequential data", NIPS 2008, and "Probabilistic models over nested segments", arXiv 1009.2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import HSCRFClassifier
    >>> X = [np.array([[0.1], [0.9], [0.2], [0.8], [0.1], [0.0]])]
    >>> y = [[["cook", "idle"], ["cook", "chop"], ["cook", "idle"], ["cook", "chop"], ["rest", "sit"], ["rest", "sit"]]]
    >>> HSCRFClassifier(C=10.0).fit(X, y).predict([[[0.9], [0.1], [0.1]]])[0].tolist()
    [['cook', 'chop'], ['rest', 'sit'], ['rest', 'sit']]
    """

    classes_: list[np.ndarray]
    coef_: dict[str, Any]

    _parameter_constraints: dict = {
        "max_duration": [
            None, Interval(Integral, 1, None, closed="left"), StrOptions({"observed"}), list, tuple,
        ],
        "duration": [StrOptions(set(DURATIONS)), list, tuple],
        "segment_features": [list, tuple, StrOptions(set(SEGMENT_FEATURES))],
        "edge_features": [list, tuple, StrOptions(set(EDGE_FEATURES))],
        "bottom_persist": ["boolean"],
        "root": ["boolean"],
        "children": [StrOptions({"observed", "full"}), dict, "array-like"],
        "transitions": [StrOptions({"all", "observed"}), list, tuple],
        "self_transitions": ["boolean", StrOptions({"auto"})],
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"lbfgs", "sgd", "adagrad"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "eta0": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "engine": [StrOptions({"auto", "chain", "mixed", "aio"})],
        "numerics": [StrOptions({"auto", "scaled", "log"})],
        "decoding": [StrOptions({"map", "marginal"})],
        "score_level": [StrOptions({"all"}), Integral],
        "n_jobs": [None, Integral],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }  # fmt: skip

    def __init__(
        self,
        *,
        max_duration=None,
        duration="geometric",
        segment_features=("sum",),
        edge_features=(),
        bottom_persist=False,
        root=False,
        children="observed",
        transitions="all",
        self_transitions="auto",
        C=1.0,
        solver="lbfgs",
        max_iter=1000,
        tol=1e-4,
        eta0="auto",
        batch_size=1,
        average=True,
        engine="auto",
        numerics="auto",
        decoding="map",
        score_level="all",
        n_jobs=None,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.max_duration = max_duration
        self.duration = duration
        self.segment_features = segment_features
        self.edge_features = edge_features
        self.bottom_persist = bottom_persist
        self.root = root
        self.children = children
        self.transitions = transitions
        self.self_transitions = self_transitions
        self.C = C
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.eta0 = eta0
        self.batch_size = batch_size
        self.average = average
        self.engine = engine
        self.numerics = numerics
        self.decoding = decoding
        self.score_level = score_level
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_level = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> HSCRFClassifier:
        """Learn the weights from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list
            Per sequence: labels of shape (n_timesteps, n_levels), from the top, or (n_timesteps,) for one level,
            None where missing, or a set of candidates; a tuple ``(labels, ends)`` of two such arrays, ends being
            1 at the last step of a segment, 0 elsewhere, None where not known; a list of segments
            ``(level, start, stop, label)``, half open, nothing being known of uncovered steps; or None.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence.

        Returns
        -------
        self : HSCRFClassifier

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        InfeasibleSequenceError
            If the labels of a sequence fit no configuration, as a segment longer than ``max_duration`` or a pair
            that is not in ``children``.
        """
        batch = pack(X)
        weight = read_weights(sample_weight, batch.n_sequences)
        codes = encode_levels(
            y,
            batch.offsets,
            root=self.root,
            segment_bottom=self.bottom_persist,
            self_transitions=self.self_transitions,
            counts=weight > 0,
        )
        if self.score_level != "all" and not 0 <= self.score_level < codes.n_levels:
            raise ValueError(
                f"score_level is {self.score_level}, but the levels are numbered 0 to {codes.n_levels - 1}."
            )
        return self._learn(batch, codes, weight, self._make_shape(codes, weight))

    def _learn(
        self, batch: PackedBatch, codes: LevelCodes, weight: np.ndarray, shape: HierarchyShape
    ) -> HSCRFClassifier:
        start = None
        if self.warm_start and hasattr(self, "classes_") and len(self.classes_) == codes.n_levels:
            if all(np.array_equal(a, b) for a, b in zip(self.classes_, codes.classes, strict=True)):
                start = self.coef_
        found = HierarchyFit.run(self, batch, codes, weight, shape, self.engine, start)

        self._set_input_attributes(batch)
        self._structure = found.structure(codes)
        self.classes_, self.n_levels_ = list(codes.classes), codes.n_levels
        self.children_ = shape.children[shape.top_level :]
        self.transition_mask_ = shape.transitions
        self.coef_ = found.blocks
        self.transition_coef_ = found.blocks["transition"]
        self.max_duration_ = [level.max_duration for _, level in shape.labelled()]
        longest = int(batch.lengths.max())
        self.duration_scores_ = [
            duration_scores(level, found.blocks, k, longest) if level.is_explicit else None
            for k, (_, level) in enumerate(shape.labelled())
        ]
        self.engine_, self.n_log_fallbacks_ = found.engine, found.n_redone
        self.n_iter_, self.loss_curve_ = found.outcome.n_iter, np.array(found.outcome.history)
        if found.outcome.interrupted:
            raise KeyboardInterrupt
        report(found.outcome, "Raise max_iter, loosen tol, lower C, or scale the features (StandardScaler).")
        return self

    def prune(
        self, threshold: float = 0.0, X: Any = None, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> HSCRFClassifier:
        """A copy without improbable children, and transitions between them.

        Parameters
        ----------
        threshold : float, default=0.0
            A pair of parent and child is improbable if neither its initialisation weight nor the weight of a
            transition into it is above this; of the pairs that are left, a transition is if its own weight is not.
            Weights of what training data does not show are small, and not always negative: a little above 0
            prunes them too. The likeliest child of each parent stays, and the likeliest of the transitions between
            its children; so do transitions at the top, where labels have no parent.
        X, y, sample_weight
            As in ``fit``. If given, the copy is fitted anew within the topology that is left, to which what complete
            labels show is added; else it keeps the weights that are left, and transitions that the training data
            show, though seldom, may be gone.

        Returns
        -------
        pruned : HSCRFClassifier
            Its parameters ``children`` and ``transitions`` are the topology that is left, by label, so that a
            later ``fit`` keeps it.

        Raises
        ------
        InfeasibleSequenceError
            If the labels of ``y`` need what was pruned.

        Notes
        -----
        After the seed paper, section 9.1, which reads the topology from the signs of the transition weights of a
        model that was trained with all pairs allowed (``children="full"``).
        """
        check_is_fitted(self)
        if isinstance(threshold, bool) or not isinstance(threshold, Real) or np.isnan(threshold):
            raise ValueError(f"threshold is {threshold!r}; expected a number.")
        if (X is None) != (y is None):
            raise ValueError("prune takes X and y both, or neither.")
        children, moves = prunable(self.coef_, self.children_, self.transition_mask_, float(threshold))
        shape = self._shape()
        if X is None:
            pruned = deepcopy(self)
            pruned.children_, pruned.transition_mask_ = children, moves
            for name, masks in (("initialisation", children), ("ending", children), ("transition", moves)):
                tables = pruned.coef_[name]
                first = len(tables) - len(masks)
                tables[first:] = [
                    np.where(mask, table, -np.inf) for mask, table in zip(masks, tables[first:], strict=True)
                ]
            pruned.transition_coef_ = pruned.coef_["transition"]
            return self._with_topology(pruned, children, moves)
        batch = self._pack(X)
        codes = self._encode(y, batch.offsets, name="y")
        self._keep_what_is_shown(codes, children, moves)
        top = [] if shape.has_root else [shape.children[0]]
        narrowed = HierarchyShape(shape.levels, top + children, moves, shape.persists, shape.has_root)
        weight = read_weights(sample_weight, batch.n_sequences)
        return self._with_topology(clone(self), children, moves)._learn(batch, codes, weight, narrowed)

    def _with_topology(
        self, pruned: HSCRFClassifier, children: list[np.ndarray], moves: list[np.ndarray]
    ) -> HSCRFClassifier:
        """Make a topology the parameters of a copy, by label, so that clones and later fits keep it."""
        classes, first = self.classes_, self.n_levels_ - len(moves)
        below = [children_as_dict(mask, *classes[d : d + 2]) for d, mask in enumerate(children)]
        following = []
        for k, mask in enumerate(moves):
            parent = None if first + k == 0 else classes[first + k - 1]
            following.append(transitions_as_dict(mask, parent, classes[first + k]))
        return pruned.set_params(children=below or "observed", transitions=following)

    def _keep_what_is_shown(
        self, codes: LevelCodes, children: list[np.ndarray], moves: list[np.ndarray]
    ) -> None:
        """Put back what complete labels show, in place: it may be rare, but it is possible."""
        complete = np.flatnonzero(codes.is_complete())
        if not len(complete):
            return
        shown = codes.take(complete)
        for d, mask in enumerate(children):
            mask |= allowed_children(shown, d) & self.children_[d]
        first = codes.n_levels - len(moves)
        for k, mask in enumerate(moves):
            parent = first + k - 1 if first + k else None
            mask |= allowed_moves(shown, first + k, parent) & self.transition_mask_[k]

    def _make_shape(self, codes: LevelCodes, weight: np.ndarray) -> HierarchyShape:
        n_below = codes.n_levels - self.root
        options = {
            "duration": per_level(self.duration, n_below, "duration", (str,)),
            "max_duration": per_level(self.max_duration, n_below, "max_duration", (str, Integral)),
            "segment_features": _tuples_per_level(self.segment_features, n_below, "segment_features"),
            "edge_features": _tuples_per_level(self.edge_features, n_below, "edge_features"),
        }
        for duration in options["duration"]:
            check_names(duration, DURATIONS, "duration", least=1)
        for wish in options["max_duration"]:
            is_int = isinstance(wish, int | np.integer) and not isinstance(wish, bool)
            if not (wish is None or (isinstance(wish, str) and wish == "observed") or (is_int and wish >= 1)):
                raise ValueError(
                    f"max_duration holds {wish!r}; expected None, 'observed' or an int of at least 1."
                )
        for names in options["segment_features"]:
            check_names(names, SEGMENT_FEATURES, "segment_features", least=1)
        for names in options["edge_features"]:
            check_names(names, EDGE_FEATURES, "edge_features")
        levels = make_levels(codes, options, weight, self.bottom_persist, self.root)
        counts = weight > 0
        children = self._read_children(codes, counts)
        transitions = []
        first = 1 if self.root else 0
        wishes = (
            self.transitions if isinstance(self.transitions, list | tuple) else [self.transitions] * n_below
        )
        if len(wishes) != n_below:
            raise ValueError(
                f"transitions has {len(wishes)} entries, but there are {n_below} levels below the root."
            )
        for d in range(first, codes.n_levels):
            parent = d - 1 if d > 0 else None
            n_parents = 1 if parent is None else codes.levels[parent].n_labels
            n_own = codes.levels[d].n_labels
            mask = np.ones((n_parents, n_own, n_own), dtype=bool)
            wish = wishes[d - first]
            if isinstance(wish, str) and wish == "observed":
                mask = allowed_moves(codes, d, parent, counts)
            elif not (isinstance(wish, str) and wish == "all"):
                above = None if parent is None else codes.classes[parent]
                mask = read_transitions(wish, above, codes.classes[d], d)
            if not codes.self_transitions[d]:
                mask[:, np.arange(n_own), np.arange(n_own)] = False
            if parent is not None:
                below = children[parent]
                mask &= below[:, :, None] & below[:, None, :]
            transitions.append(mask)
        if not self.root:
            levels = [Level(1), *levels]
            children = [np.ones((1, codes.levels[0].n_labels), dtype=bool), *children]
        return HierarchyShape(tuple(levels), children, transitions, self.bottom_persist, self.root)

    def _read_children(self, codes: LevelCodes, counts: np.ndarray) -> list[np.ndarray]:
        n_pairs = codes.n_levels - 1
        given = self.children
        is_list = isinstance(given, list | tuple)
        if is_list and len(given) == n_pairs:
            wishes = list(given)
        elif isinstance(given, str | Mapping) or (
            n_pairs == 1 and not (is_list and any(isinstance(wish, str | Mapping) for wish in given))
        ):
            wishes = [given] * n_pairs
        else:
            raise ValueError(f"children has {len(given)} entries, but there are {n_pairs} pairs of levels.")
        masks = []
        for d, wish in enumerate(wishes):
            if isinstance(wish, str) and wish == "observed":
                masks.append(allowed_children(codes, d, counts))
            else:
                masks.append(read_children(wish, codes.classes[d], codes.classes[d + 1], d))
        return masks


def _tuples_per_level(value: Any, n_levels: int, name: str) -> list[tuple[str, ...]]:
    """A tuple of names for all levels, or a list of such tuples."""
    if isinstance(value, str):
        return [(value,)] * n_levels
    if all(isinstance(entry, str) for entry in value):
        return [tuple(value)] * n_levels
    wrong = [entry for entry in value if not isinstance(entry, str | list | tuple)]
    if wrong:
        raise ValueError(f"{name} holds {wrong[0]!r}; expected names or tuples of names.")
    return [
        (entry,) if isinstance(entry, str) else tuple(entry) for entry in per_level(value, n_levels, name, ())
    ]
