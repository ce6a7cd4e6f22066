"""A hidden Markov model whose binary channels are chosen greedily by what they are worth on held-out sequences."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_seqlab import _parallel
from sklearn_seqlab._sklearn_private import Interval, RealNotInt, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.hmm._conjunction_hmm import ConjunctionHMM, TrainingData
from sklearn_seqlab.hmm._learning import Learnt
from sklearn_seqlab.hmm._set_search import ConjunctionSet, SetSearch

__all__ = ["GreedyInductionHMM"]


class GreedyInductionHMM(ConjunctionHMM):
    """Hidden Markov model on conjunctions of binary inputs, which a greedy search puts together.

    The model sees a set of conjunctions, independent given the label. The search starts from none, and adds an
    item, grows or swaps a conjunction by an item, or drops one, whichever makes the model best on sequences
    that were held out.

    Parameters
    ----------
    scoring : {"log_likelihood", "micro_accuracy", "macro_accuracy"}, default="log_likelihood"
        Score on the held-out sequences; "log_likelihood" is that of the labels given the inputs.
    validation_fraction : float, int or None, default=0.25
        Share of the sequences that are held out, drawn at random; or the number of folds, over which scores are
        summed; or None to score on the training sequences themselves, which overfits.
    max_order : int, default=3
        Largest number of items of a conjunction.
    max_features : int, default=30
        Largest number of conjunctions.
    max_steps : int, default=50
    init : {"empty", "atoms"}, default="empty"
        What the search starts from: nothing, or all items.
    window : tuple of int, default=(0, 0)
        How many steps before and after a step its items may look. Outside the sequence everything is false.
    negations : bool, default=False
        Whether items may say that an input is off.
    alpha : float, default=1.0
        Added to every count of the hidden Markov model.
    tol : float, default=1e-3
        The search stops where no neighbour is better by this much.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable sequence, or at each step the most probable label.
    n_jobs : int or None, default=None
        Threads; neighbours are scored side by side. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Draws the held-out sequences.
    verbose : int, default=0
        1 shows the progress of EM.

    Attributes
    ----------
    rules_ : structured ndarray with fields ``label``, ``conjunction``, ``weight``, ``support``
        The conjunctions, numbers of items; the label of which each tells most, the log of how much likelier it
        is at steps of that label than at others, and the weight of the steps at which it holds.
    items_ : structured ndarray with fields ``column``, ``offset``, ``negated``
        What the numbers in conjunctions mean; without window and negations they are columns of ``X``.
    conjunctions_ : list of tuple
    score_path_ : ndarray of shape (n_steps + 1,)
        Held-out score at the start and after each step.
    n_evaluations_ : int
        Sets that were scored.
    classes_, start_prob_, transition_prob_, end_prob_, emission_, n_features_in_, n_iter_, loss_curve_
        As in :class:`HMMClassifier`; the columns of ``emission_`` are ``conjunctions_``.

    Notes
    -----
    ``X`` holds zeros and ones. In the search, steps whose label is hidden are not
    counted; the final model learns from them by EM. A neighbour costs a forward-backward pass over the held-out
    sequences; there are about ``n_items * (1 + 2 * n_conjunctions)``. Accuracies move in steps, so that the
    search may stop on a plateau; conjunctions that share items are counted twice, so that probabilities are too
    close to 0 and 1, which the log-likelihood sees.

    References
    ----------
    ``spec`` "induction" 3, for the role of the model that seed 001 calls Greedy FIHMM.

    Examples
    --------
    >>> from sklearn_seqlab import GreedyInductionHMM
    >>> X, y = [[[1, 1], [1, 0], [0, 1], [1, 1]]] * 4, [["busy", "free", "free", "busy"]] * 4
    >>> model = GreedyInductionHMM(max_steps=1, random_state=0).fit(X, y)
    >>> print(model.rules_text())
    busy(T) :- x0(T).  % 0.59
    """

    _parameter_constraints: dict = {
        "scoring": [StrOptions({"log_likelihood", "micro_accuracy", "macro_accuracy"})],
        "validation_fraction": [
            None,
            Interval(Integral, 2, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
        ],
        "max_order": [Interval(Integral, 1, None, closed="left")],
        "max_features": [Interval(Integral, 1, None, closed="left")],
        "max_steps": [Interval(Integral, 0, None, closed="left")],
        "init": [StrOptions({"empty", "atoms"})],
        "window": ["array-like"],
        "negations": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "decoding": [StrOptions({"map", "marginal"})],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        scoring="log_likelihood",
        validation_fraction=0.25,
        max_order=3,
        max_features=30,
        max_steps=50,
        init="empty",
        window=(0, 0),
        negations=False,
        alpha=1.0,
        tol=1e-3,
        decoding="map",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.scoring = scoring
        self.validation_fraction = validation_fraction
        self.max_order = max_order
        self.max_features = max_features
        self.max_steps = max_steps
        self.init = init
        self.window = window
        self.negations = negations
        self.alpha = alpha
        self.tol = tol
        self.decoding = decoding
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        # the draw depends on the order of the sequences
        tags.non_deterministic = tags.holds_out = self.validation_fraction is not None
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> GreedyInductionHMM:
        """Choose the conjunctions, and learn the model on all sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
            Two values per column; above zero is true.
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence.

        Returns
        -------
        self : GreedyInductionHMM

        Raises
        ------
        ValueError
            If the input is not as described, or there are not enough sequences to hold any out; the estimator
            is then left as it was.
        """
        data = TrainingData(X, y, sample_weight, self.window, self.negations)
        search = SetSearch(
            data, self._splits(data),
            scoring=self.scoring, max_order=self.max_order, max_features=self.max_features,
            max_steps=self.max_steps, init=self.init, alpha=self.alpha, tol=self.tol, n_jobs=self.n_jobs,
        )  # fmt: skip
        with _parallel.one_blas_thread():
            chosen = search.run()
        learnt = self._learn_channels(data, chosen)
        rules = self._rules(chosen, learnt, data.labels.classes)
        self._set_input_attributes(data.batch)
        self.items_, self.conjunctions_, self.rules_ = data.items, list(chosen), rules
        self.score_path_, self.n_evaluations_ = np.array(search.path), search.n_evaluations
        self._adopt(learnt, data.labels.classes)
        return self

    def _splits(self, data: TrainingData) -> list[tuple[np.ndarray, np.ndarray]]:
        """(train, held out) numbers of sequences; those of weight zero are in neither."""
        usable = np.flatnonzero(data.weight > 0)
        share = self.validation_fraction
        if share is None:
            return [(usable, usable)]
        is_folds = isinstance(share, Integral)
        if len(usable) < (share if is_folds else 2):
            raise ValueError(
                f"validation_fraction={share!r} needs at least {share if is_folds else 2} sequences, but X has "
                f"{len(usable)} of positive weight. Cut a long stream into several sequences, days for instance."
            )
        order = check_random_state(self.random_state).permutation(usable)
        if is_folds:
            held_out = np.array_split(order, share)
        else:
            held_out = [order[: min(max(1, round(share * len(order))), len(order) - 1)]]
        return [(np.setdiff1d(usable, part), np.sort(part)) for part in held_out]

    def _rules(self, chosen: ConjunctionSet, learnt: Learnt, classes: np.ndarray) -> np.ndarray:
        fields = [
            ("label", classes.dtype), ("conjunction", object), ("weight", np.float64), ("support", np.float64)
        ]  # fmt: skip
        if not chosen:
            return np.empty(0, dtype=fields)
        counts = learnt.statistics["emission"]["bernoulli"]
        on, total = counts["on"], counts["weight"]
        rest_on, rest_total = on.sum(axis=0) - on, total.sum(axis=0) - total
        smoothing = max(self.alpha, 1e-10)  # a conjunction of one label alone tells much, but no infinity
        log_p, log_rest = (
            np.log((a + smoothing) / (b + 2 * smoothing)) for a, b in ((on, total), (rest_on, rest_total))
        )
        telling = log_p - log_rest
        best = telling.argmax(axis=0)
        rows = [
            (classes[label], conjunction, telling[label, k], on[:, k].sum())
            for k, (conjunction, label) in enumerate(zip(chosen, best, strict=True))
        ]
        return np.array(rows, dtype=fields)
