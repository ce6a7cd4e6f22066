"""Supervised hidden Markov model."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab._chain_labeler import ChainSource
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _check_feature_names, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.hmm import _emission
from sklearn_seqlab.hmm._base import BaseHMM, of_positive_weight
from sklearn_seqlab.hmm._learning import Learnt, grow_statistics
from sklearn_seqlab.sequences import LabelCodes, PackedBatch, encode_labels, pack, read_weights

__all__ = ["HMMClassifier"]


class HMMClassifier(BaseHMM):
    """Hidden Markov model whose states are the labels.

    Labels follow each other as in a Markov chain, and each label has a distribution of the inputs of its steps, in
    which the channels (columns of ``X``) are independent. Learning is counting; where labels are hidden, counts are
    expected ones, by EM.

    Parameters
    ----------
    emission : {"auto", "gaussian", "bernoulli", "categorical"} or array-like of shape (n_features,), default="auto"
        Distribution of the channels, one name for all or one per column. "gaussian": a mean and a variance per
        label. "bernoulli": zeros and ones. "categorical": integer codes. "auto" takes columns of zeros and ones
        as "bernoulli" and all others as "gaussian".
    alpha : float, default=1.0
        Added to every count of starts, moves, zeros and ones, and codes. With 0 what was not seen is impossible.
    var_floor : float, default=1e-9
        Added to every variance, as a share of the channel's largest variance among the labels.
    use_end : bool, default=False
        Whether a sequence ends with a probability that depends on its last label.
    handle_unknown : {"flat", "error"}, default="flat"
        What becomes of codes that ``fit`` did not see: "flat" takes them to tell nothing of the label, and warns.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable sequence, or at each step the most probable label.
    max_iter : int, default=50
        Largest number of iterations of EM.
    tol : float, default=1e-4
        EM stops where an iteration changes the objective by less than this share of it.
    n_jobs : int or None, default=None
        Threads in ``fit`` and ``predict``. Results do not depend on it.
    verbose : int, default=0
        1 shows the progress of EM.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Sorted labels.
    start_prob_ : ndarray of shape (n_labels,)
    transition_prob_ : ndarray of shape (n_labels, n_labels)
        Probabilities of moves from row to column. With ``use_end`` a row sums to one together with ``end_prob_``.
    end_prob_ : ndarray of shape (n_labels,)
        Probability that a sequence ends after a step of a label; ones without ``use_end``.
    emission_ : dict of str to dict
        By kind of channel: ``columns``, and ``mean`` and ``variance``, or ``probability`` (of a one), each of shape
        (n_labels, n_columns); or, of codes, lists by column of ``categories`` (n_codes,) and ``probability``
        (n_labels, n_codes).
    emission_kinds_ : ndarray of str of shape (n_features,)
    transition_coef_ : ndarray of shape (n_labels, n_labels)
        Log-probabilities of moves.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where ``X`` held data frames.
    n_iter_ : int
        Iterations of EM; 0 where all labels were known.
    loss_curve_ : ndarray of shape (n_iter_ + 1,)
        Negative log-probability of inputs, known labels and (by ``alpha``) parameters, in nats.

    Notes
    -----
    Counting takes O(stored features + n_total * n_labels) time, an iteration of EM O(stored features * n_labels +
    n_total * n_labels**2). An input that is NaN was not observed: its channel is left out at that step,
    exactly. CSR input of bernoulli channels is never made dense; other channels are, chunk by chunk. EM finds a
    stationary point, from the labelled steps by themselves; sequences without any label count too. A label of
    which no step is known takes the mean and the variance of all labels together. Channels are seldom
    independent, so probabilities are closer to 0 and 1 than they should be.

    References
    ----------
    Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition", Proc. IEEE 1989.
    Neal and Hinton, "A view of the EM algorithm that justifies incremental, sparse, and other variants", 1998, for
    ``partial_fit``. ``spec`` "chain models" 7.

    Examples
    --------
    >>> from sklearn_seqlab import HMMClassifier
    >>> X = [[[0, 0], [0, 1], [1, 1]], [[1, 1], [1, 0]]]
    >>> y = [["off", "off", "on"], ["on", None]]
    >>> HMMClassifier().fit(X, y).predict([[[0, 0], [1, 1], [1, 0]]])[0]
    array(['off', 'on', 'on'], dtype='<U3')
    """

    _parameter_constraints: dict = {
        "emission": [StrOptions({"auto", "gaussian", "bernoulli", "categorical"}), "array-like"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "var_floor": [Interval(Real, 0, None, closed="neither")],
        "use_end": ["boolean"],
        "handle_unknown": [StrOptions({"flat", "error"})],
        "decoding": [StrOptions({"map", "marginal"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        emission="auto",
        alpha=1.0,
        var_floor=1e-9,
        use_end=False,
        handle_unknown="flat",
        decoding="map",
        max_iter=50,
        tol=1e-4,
        n_jobs=None,
        verbose=0,
    ):
        self.emission = emission
        self.alpha = alpha
        self.var_floor = var_floor
        self.use_end = use_end
        self.handle_unknown = handle_unknown
        self.decoding = decoding
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        kinds = [self.emission] if isinstance(self.emission, str) else list(self.emission)
        tags.input_tags.categorical = any(kind in ("bernoulli", "categorical") for kind in kinds)
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> HMMClassifier:
        """Learn the probabilities from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
            NaN where a channel was not observed.
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence.

        Returns
        -------
        self : HMMClassifier

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.

        Warns
        -----
        ConvergenceWarning
            If EM stopped at ``max_iter``.
        """
        batch = pack(X, allow_nan=True)
        labels = encode_labels(y, batch.offsets)
        weight = read_weights(sample_weight, batch.n_sequences)
        batch, labels, weight, numbers = of_positive_weight(batch, labels, weight)
        kinds = _emission.read_kinds(self.emission, batch)
        learnt = self._learn_checked(batch, labels, weight, kinds, None, numbers)
        self._set_input_attributes(batch)
        self._finish(learnt, labels.classes, kinds)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> HMMClassifier:
        """Learn from more sequences; for complete labels the same as one ``fit`` on all of them.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            As in :meth:`fit`. Hidden labels are filled in by EM on these sequences, while the expected counts of
            earlier ones stay as they are.
        classes : array-like of shape (n_labels,), default=None
            All labels that may come. Others are added when they come.
        sample_weight : array-like of shape (n_sequences,), default=None

        Returns
        -------
        self : HMMClassifier

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.

        Notes
        -----
        Memory does not grow with the sequences seen. ``emission="auto"`` decides on the first ones.
        """
        is_first = not hasattr(self, "_statistics")
        batch = pack(X, n_features=None if is_first else self.n_features_in_, allow_nan=True)
        if not is_first:
            _check_feature_names(self, next(iter(X)), reset=False)
        labels = encode_labels(y, batch.offsets)
        weight = read_weights(sample_weight, batch.n_sequences)
        known = [labels.classes] if labels.n_labels else []
        if classes is not None:
            known.append(encode_labels([classes], name="classes").classes)
        if not is_first:
            known.append(self.classes_)
        if known:
            # read again: codes are positions among all labels, and kinds of labels must agree
            everything = np.unique(np.concatenate(known))
            if {part.dtype.kind for part in known} != {everything.dtype.kind}:
                raise TypeError("The labels of y, of classes and of earlier calls are not all of one kind.")
            labels = encode_labels(y, batch.offsets, classes=everything)
        batch, labels, weight, numbers = of_positive_weight(batch, labels, weight)
        kinds = _emission.read_kinds(self.emission, batch) if is_first else self.emission_kinds_
        earlier = None if is_first else grow_statistics(self._statistics, self.classes_, labels.classes)
        learnt = self._learn_checked(batch, labels, weight, kinds, earlier, numbers)
        if is_first:
            self._set_input_attributes(batch)
        self._finish(learnt, labels.classes, kinds)
        return self

    def _learn_checked(
        self,
        batch: PackedBatch,
        labels: LabelCodes,
        weight: np.ndarray,
        kinds: np.ndarray,
        earlier: dict[str, Any] | None,
        numbers: np.ndarray,
    ) -> Learnt:
        _emission.check_channels(kinds, batch, numbers)
        return self._learn(
            batch, labels, weight, kinds,
            earlier=earlier, var_floor=self.var_floor, use_end=self.use_end,
            max_iter=self.max_iter, tol=self.tol, verbose=self.verbose,
        )  # fmt: skip

    def _finish(self, learnt: Learnt, classes: np.ndarray, kinds: np.ndarray) -> None:
        self.emission_kinds_, self._statistics = kinds, learnt.statistics
        self._adopt(learnt, classes)

    def _row_scorer(self) -> Callable[[np.ndarray], np.ndarray]:
        scorer, kinds, n_steps = super()._row_scorer(), self.emission_kinds_, 0
        if (kinds == "gaussian").all():
            return scorer
        is_coded, has_codes = kinds != "gaussian", (kinds == "categorical").any()
        one_step = np.array([0, 1])

        def row(x: np.ndarray) -> np.ndarray:
            nonlocal n_steps
            coded = x[is_coded]
            if has_codes or not ((coded == 0) | (coded == 1)).all():
                _emission.check_row(kinds, x, n_steps)
                _emission.report_unseen(
                    PackedBatch(x[None], one_step), self.emission_, self.handle_unknown, n_steps
                )
            n_steps += 1
            return scorer(x)

        return row

    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        _emission.check_channels(self.emission_kinds_, batch)
        _emission.report_unseen(batch, self.emission_, self.handle_unknown)
        return super()._chain_source(batch)
