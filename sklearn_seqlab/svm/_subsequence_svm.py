"""Structured support vector machine on subsequence kernels of windows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab import _parallel
from sklearn_seqlab._chain_labeler import ChainLabeler, ChainSource
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives import RowMargin, RowSequences
from sklearn_seqlab.sequences import (
    PackedBatch,
    check_binary,
    encode_training_labels,
    known_runs,
    pack,
    raise_if_partial,
    read_weights,
)
from sklearn_seqlab.solvers import CutSolution, GroupCuts, SolverOutcome, report
from sklearn_seqlab.svm._subsequence_kernel import SubsequenceKernel, Windows

__all__ = ["SubsequenceKernelSVM"]

_EXACT_LENGTH, _SHARE_OF_TOL, _N_GROUPS = 2000, 0.05, 20
# Directions of the kernel matrix that are rounding, relative to the largest.
_ROUNDING = 1e-12


class SubsequenceKernelSVM(ChainLabeler):
    """Structured SVM whose emission scores are kernel expansions over windows of binary inputs.

    Minimises ``1/2 ||w||**2 + C / n_sequences * sum of slacks`` with ``w`` in the space of the
    :class:`SubsequenceKernel` and of moves. The kernel matrix of the distinct windows is factored once, and a linear
    problem on the factor has the same optimum as the dual over all time steps.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the mean slack; the cost of a labelling is the share of its wrong steps.
    before, after, max_length, decay, items, pivot, normalize, bias
        See :class:`SubsequenceKernel`.
    rescaling : {"margin", "slack", "slack-approx"}, default="margin"
        See :class:`~sklearn_seqlab.StructHKLClassifier`.
    tol : float, default=1e-2
        Stop where the duality gap is at most ``tol`` times the objective.
    max_rank : int or None, default=None
        Keep so many directions of the kernel matrix, those of largest eigenvalues; None for all.
    max_iter : int, default=1000
        Largest number of rounds of cutting planes.
    missing : {"split", "error"}, default="split"
        See :class:`~sklearn_seqlab.StructHKLClassifier`; windows see inputs at unlabelled steps.
    n_jobs : int or None, default=None
        Threads; results do not depend on it.
    verbose : int, default=0

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
    support_windows_ : ndarray of shape (n_windows, before + 1 + after)
        Distinct training windows as numbers of ``support_rows_``; -1 where nothing is on, or outside.
    support_rows_ : ndarray of shape (n_rows, n_features), dtype=bool
    dual_coef_ : ndarray of shape (n_windows, n_labels)
        What kernels with these windows are multiplied by.
    transition_coef_ : ndarray of shape (n_labels, n_labels)
    kernel_ : SubsequenceKernel
        That of the fit, whatever the parameters are now.
    rank_ : int
    objective_, duality_gap_ : float
    n_iter_ : int
        Rounds.
    n_features_in_ : int

    Notes
    -----
    Fit takes O(n_windows**2) kernels and O(n_windows**3) time for the factor; prediction the kernels of new distinct
    windows with those that have a coefficient.

    Examples
    --------
    >>> from sklearn_seqlab.svm import SubsequenceKernelSVM
    >>> X = [[[1, 0], [0, 1], [0, 0], [0, 1]]]
    >>> model = SubsequenceKernelSVM(C=100.0, before=1, after=0).fit(X, [["a", "b", "a", "c"]])
    >>> model.predict(X)[0].tolist()
    ['a', 'b', 'a', 'c']
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "before": [Interval(Integral, 0, None, closed="left")],
        "after": [Interval(Integral, 0, None, closed="left")],
        "max_length": [Interval(Integral, 1, None, closed="left")],
        "decay": [Interval(Real, 0, 1, closed="right")],
        "items": [StrOptions({"subsets", "inputs"})],
        "pivot": [StrOptions({"zones", "none"})],
        "normalize": ["boolean"],
        "bias": [Interval(Real, 0, None, closed="left")],
        "rescaling": [StrOptions({"margin", "slack", "slack-approx"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_rank": [None, Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "missing": [StrOptions({"split", "error"})],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        C=10.0,
        before=5,
        after=5,
        max_length=2,
        decay=0.5,
        items="subsets",
        pivot="zones",
        normalize=True,
        bias=1.0,
        rescaling="margin",
        tol=1e-2,
        max_rank=None,
        max_iter=1000,
        missing="split",
        n_jobs=None,
        verbose=0,
    ):
        self.C = C
        self.before = before
        self.after = after
        self.max_length = max_length
        self.decay = decay
        self.items = items
        self.pivot = pivot
        self.normalize = normalize
        self.bias = bias
        self.rescaling = rescaling
        self.tol = tol
        self.max_rank = max_rank
        self.max_iter = max_iter
        self.missing = missing
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.regularisation = "C"
        tags.input_tags.categorical = True
        tags.keeps_rows = True
        if self.missing == "error":
            tags.target_tags.missing_labels = tags.target_tags.candidate_sets = False
        return tags

    def _kernel(self) -> SubsequenceKernel:
        names = SubsequenceKernel().get_params()
        return SubsequenceKernel(**{name: getattr(self, name) for name in names})

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> SubsequenceKernelSVM:
        """Learn from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
            Of zeros and ones.
        y : list of array-like of shape (n_timesteps,)
            Labels, None where missing.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence's slack, relative to the sum of weights.

        Returns
        -------
        self : SubsequenceKernelSVM

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        """
        batch = pack(X)
        labels = encode_training_labels(y, batch.offsets)
        if self.missing == "error":
            raise_if_partial(labels, "Use missing='split', or leave the sequence out.")
        weight = read_weights(sample_weight, batch.n_sequences)
        check_binary(batch)
        found = Windows(batch, self.before, self.after)
        numbers = PackedBatch(found.index[:, None], batch.offsets)
        pieces = known_runs(numbers, labels, weight)
        if pieces is None:
            raise ValueError("y holds no known label where sample_weight is positive: nothing to learn from.")
        steps, codes, weight = pieces
        # windows of unlabelled steps, and of sequences without weight, are no use
        counted = np.repeat(weight > 0, np.diff(steps.offsets))
        used = np.unique(steps.values[counted, 0])
        place = np.zeros(len(found.windows), dtype=np.intp)
        place[used] = np.arange(len(used))
        found.windows = np.ascontiguousarray(found.windows[used])
        share = weight / weight.max()
        sequences = RowSequences(
            place[steps.values[:, 0]],
            codes.codes,
            codes.offsets,
            len(used),
            labels.n_labels,
            share / share.sum(),
            1.0 / np.diff(codes.offsets),
        )
        kernel = self._kernel()
        with (
            _parallel.one_blas_thread(),
            Progress(self.verbose, type(self).__name__, self.max_iter) as progress,
            np.errstate(over="ignore", invalid="ignore"),
        ):
            factor, back = self._factor(kernel.between(found, n_jobs=self.n_jobs))
            outcome, dual, coef, transition = self._solve(sequences, factor, back, progress)
        kept = np.flatnonzero(coef.any(axis=1))
        self._set_input_attributes(batch)
        self.classes_ = labels.classes
        self.support_rows_, self.support_windows_ = found.rows, found.windows[kept]
        self.dual_coef_, self.transition_coef_ = coef[kept], transition
        self.kernel_, self.rank_ = kernel, factor.shape[1]
        self.objective_, self.duality_gap_ = outcome.value, max(0.0, outcome.value - dual)
        self.n_iter_ = outcome.n_iter
        self.loss_curve_ = np.array(outcome.history)
        if outcome.interrupted:
            raise KeyboardInterrupt
        report(outcome, "Raise max_iter, loosen tol, or lower C.")
        return self

    def _factor(self, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """``L`` with ``gram = L L'``, and what turns weights into multipliers of kernels if directions were dropped."""
        values, vectors = np.linalg.eigh(gram)
        kept = np.flatnonzero(values > _ROUNDING * max(values[-1], 0.0))
        dropped = self.max_rank is not None and len(kept) > self.max_rank
        if dropped:
            kept = kept[-self.max_rank :]
        root = np.sqrt(values[kept])
        return vectors[:, kept] * root, vectors[:, kept] / root if dropped else None

    def _solve(
        self, sequences: RowSequences, factor: np.ndarray, back: np.ndarray | None, callback: Any
    ) -> tuple[SolverOutcome, float, np.ndarray, np.ndarray]:
        """Outcome, dual value, multipliers of kernels (n_windows, n_labels) and moves."""
        margin = RowMargin(
            sequences,
            n_groups=_N_GROUPS,
            rescaling="margin" if self.rescaling == "margin" else "slack",
            exact_length=_EXACT_LENGTH if self.rescaling == "slack" else 0,
            tol=_SHARE_OF_TOL * self.tol,
            n_jobs=self.n_jobs,
        )
        cuts = GroupCuts(margin)
        cuts.scale_to(float(self.C))
        n_labels, rank = sequences.n_labels, factor.shape[1]

        def lift(planes: np.ndarray) -> np.ndarray:
            n_planes = len(planes)
            tables = planes.transpose(1, 0, 2).reshape(len(factor), n_planes * n_labels)
            weights = (factor.T @ tables).reshape(rank, n_planes, n_labels)
            return weights.transpose(1, 0, 2).reshape(n_planes, rank * n_labels)

        def emission(weights: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(factor @ weights.reshape(rank, n_labels))

        outcome = SolverOutcome(np.zeros(0), np.inf, 0, False, "max_iter was reached")
        best: list[CutSolution] = []
        dual = 0.0

        def watch(found: CutSolution) -> bool:
            nonlocal dual
            outcome.n_iter += 1
            half = 0.5 * float(found.weights @ found.weights) + 0.5 * float((found.transition**2).sum())
            dual = max(dual, found.linear - half)
            if half + found.loss < outcome.value:
                outcome.value = half + found.loss
                best[:] = [found]
            outcome.history.append(outcome.value)
            callback(outcome.n_iter, outcome.value)
            outcome.converged = outcome.value - dual <= self.tol * outcome.value
            return outcome.converged

        try:
            cuts.minimise(lift, emission, 0.0, self.max_iter, watch)
        except KeyboardInterrupt:
            if not best:
                raise
            outcome.interrupted, outcome.message = True, "interrupted"
        found = best[0]
        # where nothing was dropped the residuals are multipliers themselves
        coef = found.rows if back is None else back @ found.weights.reshape(rank, n_labels)
        return outcome, dual, coef, found.transition

    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        check_binary(batch)
        kernel = self.kernel_
        new = kernel.windows(batch)
        emission = np.zeros((len(new.windows), len(self.classes_)))
        if len(self.dual_coef_):
            known = Windows.__new__(Windows)
            known.rows, known.windows = self.support_rows_, self.support_windows_
            emission = kernel.between(new, known, self.n_jobs) @ self.dual_coef_

        def chains(first: int, last: int) -> PackedChains:
            start, stop = int(batch.offsets[first]), int(batch.offsets[last])
            offsets = batch.offsets[first : last + 1] - start
            return PackedChains(emission[new.index[start:stop]], self.transition_coef_, offsets, first)

        return chains
