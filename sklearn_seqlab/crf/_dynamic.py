"""Dynamic conditional random field: several label chains over one sequence of inputs, coupled at every step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import DataDimensionalityWarning

from sklearn_seqlab import _parallel
from sklearn_seqlab._arguments import one_of
from sklearn_seqlab._level_labeler import LevelLabeler
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.inference import PackedGrids
from sklearn_seqlab.objectives import (
    ChainCoefficients,
    GridCoefficients,
    GridLogLikelihood,
    assemble_chains,
    check_coefficients,
    grid_doubles_per_step,
    linear_scores,
    observed_pairs,
)
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    encode_levels,
    label_table,
    pack,
    read_allowed_transitions,
    read_weights,
)
from sklearn_seqlab.solvers import lbfgs, owlqn, report

__all__ = ["DynamicCRF"]

# With "auto", weights are restricted to observed pairs where all pairs would be more than this.
_MANY_WEIGHTS = 1_000_000

# Tuples of labels beyond which memory and time deserve a word.
_MANY_TUPLES = 4096


class DynamicCRF(LevelLabeler):
    """Dynamic (factorial) conditional random field: a chain of labels per level, coupled at every time step.

    The score of a labelling is that of a linear chain for each level, and a weight for each pair of labels that
    neighbouring levels bear at one step. Inference is exact.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty; it multiplies the summed loss.
    l1_ratio : float, default=0.0
        Share of the l1 norm in the elastic-net penalty.
    coupling : {"label", "none"}, default="label"
        Whether pairs of labels of neighbouring levels have a weight. "none" makes the levels independent chains.
    level_features : None or list of n_levels array-like of int or None, default=None
        Columns of ``X`` that each level sees; None for all.
    solver : {"auto", "lbfgs", "owlqn"}, default="auto"
        As in :class:`LinearChainCRF`.
    fit_intercept : bool, default=True
        Whether each label has a constant score; it is not penalised.
    start_end : bool, default=True
        Whether each label has a weight at the first and one at the last step of a sequence.
    allowed_transitions : None, "observed" or list of n_levels of these, dicts or arrays, default=None
        Moves that may happen at each level, as in :class:`LinearChainCRF`.
    restrict_features : bool or "auto", default=False
        As in :class:`LinearChainCRF`, level by level.
    min_count : int, default=1
        With restricted features, how often a pair must occur.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable labelling, or at each step and level the most probable label.
    max_iter : int, default=1000
        Largest number of iterations of the solver.
    tol : float, default=1e-4
        As in :class:`LinearChainCRF`.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, provided labels and features are the same.
    n_jobs : int or None, default=None
        Threads in ``fit`` and ``predict``. Results do not depend on it.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    n_levels_ : int
    classes_ : list of n_levels ndarray of shape (n_labels,)
        Sorted labels, level by level.
    coef_ : list of n_levels ndarray or csc_array of shape (n_labels, n_level_features)
    intercept_, start_coef_, end_coef_ : list of n_levels ndarray of shape (n_labels,)
    transition_coef_ : list of n_levels ndarray of shape (n_labels, n_labels)
        Weights of moves from row to column; minus infinity where forbidden.
    coupling_coef_ : list of n_levels - 1 ndarray of shape (n_labels, n_labels below)
        Weights of the labels of a level and of the next at the same step.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where ``X`` held data frames.
    n_iter_ : int
    loss_curve_ : ndarray of shape (n_iter_ + 1,)
        Objective at the start and after each iteration, in nats.

    Notes
    -----
    With S tuples of labels, the product of the numbers of labels of the levels, a step takes time in proportion to S
    times the sum of these numbers (a chain on tuples would take S squared), and S doubles, for some dozens of sequences
    at once. Labels are read as tables (n_timesteps, n_levels), or 1-D for one level; where segments or pairs with ends
    are given, their labels count and their ends do not.

    A level that is known at test time, as tags of words may be when phrases are sought, goes into ``y_observed`` with
    None at the other levels. With complete labels the objective is convex; with partial labels it is not.

    References
    ----------
    Sutton, Rohanimanesh and McCallum, "Dynamic conditional random fields", ICML 2004. Truyen, Phung, Bui and Venkatesh,
    "Hierarchical semi-Markov conditional random fields for recursive sequential data", NIPS 2008, compares with it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import DynamicCRF
    >>> X = [np.array([[0.0], [0.2], [0.9]]), np.array([[1.0], [0.8]])]
    >>> y = [[["out", 0], ["out", 0], ["in", 1]], [["in", 1], ["in", None]]]
    >>> model = DynamicCRF(C=10.0).fit(X, y)
    >>> model.predict([[[0.1], [0.9]]])[0].tolist()
    [['out', 0], ['in', 1]]
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "coupling": [StrOptions({"label", "none"})],
        "level_features": [None, list, tuple],
        "solver": [StrOptions({"auto", "lbfgs", "owlqn"})],
        "fit_intercept": ["boolean"],
        "start_end": ["boolean"],
        "allowed_transitions": [None, StrOptions({"observed"}), list, tuple],
        "restrict_features": ["boolean", StrOptions({"auto"})],
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "decoding": [StrOptions({"map", "marginal"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        C=1.0,
        l1_ratio=0.0,
        coupling="label",
        level_features=None,
        solver="auto",
        fit_intercept=True,
        start_end=True,
        allowed_transitions=None,
        restrict_features=False,
        min_count=1,
        decoding="map",
        max_iter=1000,
        tol=1e-4,
        warm_start=False,
        n_jobs=None,
        verbose=0,
    ):
        self.C = C
        self.l1_ratio = l1_ratio
        self.coupling = coupling
        self.level_features = level_features
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.start_end = start_end
        self.allowed_transitions = allowed_transitions
        self.restrict_features = restrict_features
        self.min_count = min_count
        self.decoding = decoding
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.target_tags.missing_labels = tags.target_tags.candidate_sets = True
        tags.target_tags.multi_level = True
        tags.likelihood = True
        tags.regularisation = "C"
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> DynamicCRF:
        """Learn the weights from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps, n_levels), or (n_timesteps,) for one level
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence.

        Returns
        -------
        self : DynamicCRF

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        InfeasibleSequenceError
            If labels contradict ``allowed_transitions``.
        """
        if self.solver == "lbfgs" and self.l1_ratio > 0:
            raise ValueError("solver='lbfgs' cannot take l1_ratio > 0; use solver='owlqn' or 'auto'.")
        batch = pack(X)
        encoded = encode_levels(y, batch.offsets, self_transitions=True)
        labels = encoded.levels
        weight = read_weights(sample_weight, batch.n_sequences)
        columns = self._columns(batch.n_features, len(labels))
        n_tuples = float(np.prod([float(level.n_labels) for level in labels]))
        if n_tuples > _MANY_TUPLES:
            warnings.warn(
                f"The levels have {n_tuples:,.0f} tuples of labels together; each time step takes as many numbers, for "
                "some dozens of sequences at once.",
                DataDimensionalityWarning,
                stacklevel=2,
            )
        with _parallel.one_blas_thread(), Progress(self.verbose, "DynamicCRF", self.max_iter) as progress:
            objective = GridLogLikelihood(
                batch,
                labels,
                weight=weight,
                columns=columns,
                coupled=self.coupling == "label",
                C=self.C,
                l1_ratio=self.l1_ratio,
                fit_intercept=self.fit_intercept,
                start_end=self.start_end,
                allowed_transitions=self._allowed(labels),
                pairs=[self._pairs(batch, own, level) for own, level in zip(columns, labels, strict=True)],
                n_jobs=self.n_jobs,
            )
            solve = lbfgs if objective.l1 is None else owlqn
            start = np.zeros(objective.n_coef)
            if self._learnt_same_weights(labels, batch.n_features, columns):
                start = objective.join(self._coefficients())
            outcome = solve(objective, start, max_iter=self.max_iter, tol=self.tol, callback=progress)
        parts = objective.split(outcome.coef)

        self._set_input_attributes(batch)
        self.n_levels_ = len(labels)
        self.classes_ = [level.classes for level in labels]
        self.coef_ = [part.node for part in parts.levels]
        self.intercept_ = [part.intercept for part in parts.levels]
        self.transition_coef_ = [part.transition for part in parts.levels]
        self.start_coef_ = [part.start for part in parts.levels]
        self.end_coef_ = [part.end for part in parts.levels]
        self.coupling_coef_ = parts.coupling
        self._is_flat = encoded.is_flat
        self._level_columns = columns
        self.n_iter_, self.loss_curve_ = outcome.n_iter, np.array(outcome.history)
        if outcome.interrupted:
            raise KeyboardInterrupt
        report(outcome, "Raise max_iter, loosen tol, lower C, or scale the features (StandardScaler).")
        return self

    def predict(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Label every time step at every level.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y_observed : list or None, default=None
            What is known already, as tables (n_timesteps, n_levels) with None where nothing is, or sets of candidates;
            None in place of a whole sequence. Known labels come back exactly, and the rest is the best completion.

        Returns
        -------
        y : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps, n_levels) per sequence, or (n_timesteps,) if ``fit`` saw labels of that
            shape.

        Raises
        ------
        InfeasibleSequenceError
            If no labelling fits what is known.
        ValueError
            If ``X`` is not as in ``fit``, or ``y_observed`` holds an unknown label.
        """
        decoding = one_of(self.decoding, ("map", "marginal"), "decoding")
        batch, known = self._pack_levels(X, y_observed)
        if decoding == "map":
            parts = self._map_chunks(batch, known, lambda grids: grids.viterbi()[0])
        else:
            parts = self._map_chunks(
                batch, known, lambda grids: [p.argmax(axis=1) for p in _marginals(grids)]
            )
        return batch.unpack(self._stacked([np.concatenate(level) for level in zip(*parts, strict=True)]))

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of what is known of the labels given the inputs.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list
            As in ``fit``; the probabilities of all labellings that fit are summed.

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,)
            In nats; minus infinity where a label was not seen in ``fit`` or a move is forbidden, 0 where nothing is
            known.
        """
        batch = self._pack(X)
        labels = self._encode(y, batch, name="y", unseen="mark")

        def work(grids: PackedGrids) -> np.ndarray:
            start = int(batch.offsets[grids.first])
            log_z = grids.log_partition()
            grids.raise_if_infeasible(log_z)
            fits = [level.allowed(start, start + grids.n_total) for level in labels]
            return grids.narrowed(fits).log_partition() - log_z

        # rounding may leave a difference of equal sums above zero
        return np.minimum(np.concatenate(self._map_chunks(batch, None, work)), 0.0)

    def _level_marginals(self, X: Any, y_observed: Any) -> list[np.ndarray]:
        batch, known = self._pack_levels(X, y_observed)
        parts = self._map_chunks(batch, known, _marginals)
        return [batch.unpack(np.concatenate(level)) for level in zip(*parts, strict=True)]

    def _draw(self, batch: PackedBatch, n_samples: int, seeds: np.ndarray) -> list[np.ndarray]:
        parts = self._map_chunks(batch, None, lambda grids: grids.sample(n_samples, int(seeds[grids.first])))
        draws = []
        for k in range(n_samples):
            levels = zip(*(part[k] for part in parts), strict=True)
            draws.append(self._stacked([np.concatenate(level) for level in levels]))
        return draws

    def _columns(self, n_features: int, n_levels: int) -> list[np.ndarray | None]:
        chosen = self.level_features
        if chosen is None:
            return [None] * n_levels
        if len(chosen) != n_levels:
            raise ValueError(f"level_features has {len(chosen)} entries, but y has {n_levels} level(s).")
        columns: list[np.ndarray | None] = []
        for d, own in enumerate(chosen):
            if own is None:
                columns.append(None)
                continue
            array = np.asarray(own)
            if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
                raise ValueError(f"level_features[{d}] is {own!r}; expected column numbers of X.")
            if not 0 <= array.min() <= array.max() < n_features:
                raise ValueError(
                    f"level_features[{d}] holds {array.min()}..{array.max()}, but the columns of X are "
                    f"0..{n_features - 1}."
                )
            columns.append(array.astype(np.intp))
        return columns

    def _allowed(self, labels: list[LabelCodes]) -> list[np.ndarray]:
        allowed = self.allowed_transitions
        by_level = list(allowed) if isinstance(allowed, list | tuple) else [allowed] * len(labels)
        if len(by_level) != len(labels):
            raise ValueError(
                f"allowed_transitions has {len(by_level)} entries, but y has {len(labels)} level(s)."
            )
        return [read_allowed_transitions(own, level) for own, level in zip(by_level, labels, strict=True)]

    def _pairs(self, batch: PackedBatch, columns: np.ndarray | None, labels: LabelCodes) -> Any:
        values = batch.values if columns is None else batch.values[:, columns]
        restrict = self.restrict_features
        if restrict == "auto":
            restrict = batch.is_sparse and values.shape[1] * labels.n_labels > _MANY_WEIGHTS
        return (
            observed_pairs(PackedBatch(values, batch.offsets), labels, self.min_count) if restrict else None
        )

    def _learnt_same_weights(
        self, labels: list[LabelCodes], n_features: int, columns: list[np.ndarray | None]
    ) -> bool:
        def same(a: Any, b: Any) -> bool:
            return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

        return (
            self.warm_start
            and hasattr(self, "coef_")
            and self.n_features_in_ == n_features
            and same(self.classes_, [level.classes for level in labels])
            and same(self._level_columns, columns)
        )

    def _coefficients(self) -> GridCoefficients:
        levels = [
            ChainCoefficients(
                self.coef_[d],
                self.transition_coef_[d],
                np.zeros((*self.transition_coef_[d].shape, 0)),
                self.start_coef_[d],
                self.end_coef_[d],
                self.intercept_[d],
            )
            for d in range(self.n_levels_)
        ]
        return GridCoefficients(levels, list(self.coupling_coef_))

    def _checked_coefficients(self) -> GridCoefficients:
        """Refuse coefficients that do not fit each other, as a damaged file may hold them."""
        parts = self._coefficients()
        for d, (own, part) in enumerate(zip(self._level_columns, parts.levels, strict=True)):
            check_coefficients(part, self.n_features_in_ if own is None else len(own), 0)
            if len(part.transition) != len(self.classes_[d]):
                raise ValueError(
                    f"classes_[{d}] has {len(self.classes_[d])} labels, but there are coefficients for "
                    f"{len(part.transition)}."
                )
        shapes = [(len(a), len(b)) for a, b in zip(self.classes_[:-1], self.classes_[1:], strict=True)]
        found = [part.shape for part in parts.coupling]
        if found != shapes:
            raise ValueError(f"coupling_coef_ has shapes {found}; expected {shapes}.")
        return parts

    def _encode(self, y: Any, batch: PackedBatch, **options: Any) -> list[LabelCodes]:
        return encode_levels(y, batch.offsets, classes=self.classes_, self_transitions=True, **options).levels

    def _pack_levels(self, X: Any, y_observed: Any) -> tuple[PackedBatch, list[LabelCodes] | None]:
        batch = self._pack(X)
        return batch, None if y_observed is None else self._encode(y_observed, batch, name="y_observed")

    def _stacked(self, codes: list[np.ndarray]) -> np.ndarray:
        """Codes by level as labels, (n_total,) or (n_total, n_levels)."""
        columns = [own[level] for own, level in zip(self.classes_, codes, strict=True)]
        return columns[0] if self._is_flat else label_table(columns)

    def _map_chunks(
        self, batch: PackedBatch, known: list[LabelCodes] | None, work: Callable[[PackedGrids], Any]
    ) -> list[Any]:
        """``work`` on the grids of each chunk of sequences, on ``n_jobs`` threads."""
        parts = self._checked_coefficients()
        values = [batch.values if own is None else batch.values[:, own] for own in self._level_columns]
        by_feature = [
            sparse.csr_array(part.node.T) if sparse.issparse(part.node) else part.node.T
            for part in parts.levels
        ]

        def task(bound: tuple[int, int]) -> Any:
            first, last = bound
            start, stop = int(batch.offsets[first]), int(batch.offsets[last])
            offsets = batch.offsets[first : last + 1] - start
            chains = [
                assemble_chains(linear_scores(own, coef, start, stop), None, part, offsets, first).levelled()
                for own, coef, part in zip(values, by_feature, parts.levels, strict=True)
            ]
            grids = PackedGrids(
                [chain.unary for chain in chains],
                [chain.transition for chain in chains],
                parts.coupling,
                offsets,
                first,
            )
            grids.raise_if_overflown()
            if known is not None:
                grids = grids.narrowed([level.allowed(start, stop) for level in known])
            return work(grids)

        bounds = _parallel.chunk_bounds(
            batch.offsets, grid_doubles_per_step([len(own) for own in self.classes_])
        )
        with _parallel.one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            return _parallel.run(task, bounds, self.n_jobs)


def _marginals(grids: PackedGrids) -> list[np.ndarray]:
    found = grids.forward_backward()
    grids.raise_if_infeasible(found.log_z)
    return [np.clip(node, 0.0, 1.0) for node in found.nodes]
