"""Structured perceptron over linear chains."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_seqlab import _parallel
from sklearn_seqlab._chain_labeler import LinearChainLabeler
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, _fit_context
from sklearn_seqlab.objectives import ChainMargin
from sklearn_seqlab.sequences import encode_training_labels, pack, read_allowed_transitions, read_weights
from sklearn_seqlab.solvers import perceptron

__all__ = ["StructuredPerceptron"]

# Updates are not damped as those of a margin trainer are, so that stale ones do more harm.
_LONGEST_RUN = 16


class StructuredPerceptron(LinearChainLabeler):
    """Averaged structured perceptron: the cheapest learner of a linear chain.

    Wherever the best labelling is not the true one, the features of the true one are added to the weights and those
    of the other are taken off. There is nothing to tune but the number of passes.

    Parameters
    ----------
    max_iter : int, default=10
        Passes over the sequences; fewer where one makes no mistake.
    average : bool, default=True
        Whether the weights are the average over all steps of learning, which generalises better than the last.
    shuffle : bool, default=True
        Whether sequences are visited in random order.
    fit_intercept, start_end, transition_features, allowed_transitions, restrict_features, min_count
        As in :class:`~sklearn_seqlab.LinearChainCRF`.
    n_jobs : int or None, default=None
        Threads in ``predict``.
    random_state : int, RandomState instance or None, default=None
        For the order of the sequences.
    verbose : int, default=0

    Attributes
    ----------
    classes_, coef_, intercept_, transition_coef_, edge_coef_, transition_features_, start_coef_, end_coef_
        As in :class:`~sklearn_seqlab.LinearChainCRF`.
    n_features_in_, feature_names_in_
        As in :class:`~sklearn_seqlab.LinearChainCRF`.
    n_iter_ : int
    loss_curve_ : ndarray of shape (n_iter_,)
        Weighted number of sequences labelled wrongly in each pass, while learning.

    Notes
    -----
    A pass takes O(stored features * n_labels + n_total * n_labels**2) time. Sequences are looked at in runs of up to 16
    (one by one where there are fewer than a hundred), all of a run by the same weights. Partly labelled sequences are
    completed by the weights of the moment. Features are divided by their root mean square (over values other than 0),
    so that their units do not matter. Sequences are weighted by the size of their updates. Collins,
    "Discriminative training methods for hidden Markov models", EMNLP 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab.svm import StructuredPerceptron
    >>> X = [np.array([[0.0], [0.1], [0.9], [1.0]]), np.array([[1.0], [0.0], [0.2]])]
    >>> y = [["off", "off", "on", "on"], ["on", "off", "off"]]
    >>> StructuredPerceptron(max_iter=50, random_state=0).fit(X, y).predict(X)[0]
    array(['off', 'off', 'on', 'on'], dtype='<U3')
    """

    _parameter_constraints: dict = {
        **LinearChainLabeler._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "shuffle": ["boolean"],
    }

    def __init__(
        self,
        *,
        max_iter=10,
        average=True,
        shuffle=True,
        fit_intercept=True,
        start_end=True,
        transition_features="none",
        allowed_transitions=None,
        restrict_features=False,
        min_count=1,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.max_iter = max_iter
        self.average = average
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.start_end = start_end
        self.transition_features = transition_features
        self.allowed_transitions = allowed_transitions
        self.restrict_features = restrict_features
        self.min_count = min_count
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> StructuredPerceptron:
        """Learn the weights from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative size of the updates that a sequence makes.

        Returns
        -------
        self : StructuredPerceptron

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        InfeasibleSequenceError
            If labels contradict ``allowed_transitions``.
        """
        batch = pack(X)
        labels = encode_training_labels(y, batch.offsets)
        weight = read_weights(sample_weight, batch.n_sequences)
        columns = self._edge_columns(batch)
        with (
            _parallel.one_blas_thread(),
            Progress(self.verbose, "StructuredPerceptron", self.max_iter) as progress,
            np.errstate(over="ignore", invalid="ignore"),
        ):
            problem = ChainMargin(
                batch,
                labels,
                weight=weight,
                C=1.0,
                cost=np.zeros((labels.n_labels, labels.n_labels)),
                fit_intercept=self.fit_intercept,
                start_end=self.start_end,
                edge_columns=columns if len(columns) else None,
                allowed_transitions=read_allowed_transitions(self.allowed_transitions, labels),
                pairs=self._observed_pairs(batch, labels),
                longest_run=_LONGEST_RUN,
                recomplete=True,
                n_jobs=self.n_jobs,
            )
            self._warn_if_large(problem.n_coef)
            outcome = perceptron(
                problem,
                weights=problem.weight,
                scale=problem.layout.typical_sizes(problem.batch.values, columns if len(columns) else None),
                max_iter=self.max_iter,
                average=self.average,
                shuffle=self.shuffle,
                random_state=self.random_state,
                callback=progress,
            )
        self._set_input_attributes(batch)
        self._set_coefficients(problem.split(outcome.coef), labels.classes, columns)
        self.n_iter_, self.loss_curve_ = outcome.n_iter, np.array(outcome.history)
        if outcome.interrupted:
            raise KeyboardInterrupt
        return self
