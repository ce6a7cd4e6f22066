"""Rules learnt label by label, and a hidden Markov model that sees them."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import _parallel
from sklearn_seqlab._conjunctions import complements, item_truth
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.hmm._conjunction_hmm import ConjunctionHMM, TrainingData
from sklearn_seqlab.hmm._rule_search import SCORES, FoundRule, RuleSearch

__all__ = ["RuleHMM"]


class RuleHMM(ConjunctionHMM):
    """Hidden Markov model on the best conjunctive rules of each label.

    For each label in turn the best rule is found by branch and bound, the steps that it covers are taken out,
    and so on until no good rule is left. The truth of the rules is then the input of a hidden Markov model. It
    stands in for rules of an inductive logic programmer in front of an HMM.

    Parameters
    ----------
    rule_score : {"compression", "coverage", "wracc", "m_estimate"}, default="compression"
        What the best rule has most of, with ``p`` steps of the label and ``n`` of others that a rule of ``k`` items
        covers, of P and N in all: ``p - n - k + 1``; ``p - n``; ``(p N - n P) / (P + N)**2``;
        ``(p + m P / (P + N)) / (p + n + m)``.
    max_order : int, default=4
        Largest number of items of a rule.
    noise : float, default=0.3
        Largest share of other labels among the labelled steps that a rule covers.
    min_pos : int, default=5
        Fewest steps of the label that a rule covers (weighted, of those that are left).
    min_score : float, default=0.0
        Rules must score more.
    m : float, default=2.0
        Parameter of the m-estimate.
    cover_discount : float, default=0.0
        What becomes of the weight of steps that a rule covers; 0 takes them out.
    max_rules_per_label : int, default=20
    max_nodes : int, default=100_000
        Conjunctions to look at in one search; if that is not enough, the best so far is taken and a warning given.
    emission : {"rules", "rules+inputs"}, default="rules"
        Whether the model sees the plain inputs beside the rules.
    default_label : None or "majority", default=None
        "majority" learns no rules for the commonest label.
    window : tuple of int, default=(0, 0)
        How many steps before and after a step its rules may look. Outside the sequence everything is false.
    negations : bool, default=False
        Whether rules may ask for an input to be off.
    alpha : float, default=1.0
        Added to every count of the hidden Markov model.
    decoding : {"map", "marginal"}, default="map"
        Whether ``predict`` gives the most probable sequence, or at each step the most probable label.
    n_jobs : int or None, default=None
        Threads; labels are searched side by side. Results do not depend on it.
    verbose : int, default=0
        1 shows the progress of EM.

    Attributes
    ----------
    rules_ : structured ndarray
        Fields ``label``, ``conjunction``, ``weight``, ``support``, ``negatives``, ``certified``. The rules in
        the order in which they were found: numbers of items, score, positives and negatives covered when it was
        found, and whether no other rule was better for certain.
    items_ : structured ndarray with fields ``column``, ``offset``, ``negated``
        What the numbers in conjunctions mean; without window and negations they are columns of ``X``.
    conjunctions_ : list of tuple
        The channels of the model.
    certified_ : dict of label to bool
        Whether every search of the label came to its end.
    n_nodes_ : int
        Conjunctions looked at.
    classes_, start_prob_, transition_prob_, end_prob_, emission_, n_features_in_, n_iter_, loss_curve_
        As in :class:`HMMClassifier`; the columns of ``emission_`` are ``conjunctions_``.

    Notes
    -----
    ``X`` holds zeros and ones. Steps without a label, or with a set of candidates,
    take no part in the search for rules; the model then learns from them by EM. Looking at the children of a
    conjunction takes O(distinct rows that it covers * items). Where no input is on, no rule without negations
    holds.

    References
    ----------
    ``spec`` "induction" 4.

    Examples
    --------
    >>> from sklearn_seqlab import RuleHMM
    >>> X = [[[1, 1], [1, 0], [0, 1], [1, 1]]]
    >>> model = RuleHMM(min_pos=2).fit(X, [["busy", "free", "free", "busy"]])
    >>> print(model.rules_text())
    busy(T) :- x0(T), x1(T).  % 1.00
    """

    _parameter_constraints: dict = {
        "rule_score": [StrOptions(set(SCORES))],
        "max_order": [Interval(Integral, 1, None, closed="left")],
        "noise": [Interval(Real, 0, 1, closed="both")],
        "min_pos": [Interval(Real, 1, None, closed="left")],
        "min_score": [Interval(Real, None, None, closed="neither")],
        "m": [Interval(Real, 0, None, closed="neither")],
        "cover_discount": [Interval(Real, 0, 1, closed="both")],
        "max_rules_per_label": [Interval(Integral, 1, None, closed="left")],
        "max_nodes": [Interval(Integral, 1, None, closed="left")],
        "emission": [StrOptions({"rules", "rules+inputs"})],
        "default_label": [None, StrOptions({"majority"})],
        "window": ["array-like"],
        "negations": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "decoding": [StrOptions({"map", "marginal"})],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        rule_score="compression",
        max_order=4,
        noise=0.3,
        min_pos=5,
        min_score=0.0,
        m=2.0,
        cover_discount=0.0,
        max_rules_per_label=20,
        max_nodes=100_000,
        emission="rules",
        default_label=None,
        window=(0, 0),
        negations=False,
        alpha=1.0,
        decoding="map",
        n_jobs=None,
        verbose=0,
    ):
        self.rule_score = rule_score
        self.max_order = max_order
        self.noise = noise
        self.min_pos = min_pos
        self.min_score = min_score
        self.m = m
        self.cover_discount = cover_discount
        self.max_rules_per_label = max_rules_per_label
        self.max_nodes = max_nodes
        self.emission = emission
        self.default_label = default_label
        self.window = window
        self.negations = negations
        self.alpha = alpha
        self.decoding = decoding
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> RuleHMM:
        """Find the rules, and learn the model on them.

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
        self : RuleHMM

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.

        Warns
        -----
        UserWarning
            Names the labels for which no rule was found.
        ConvergenceWarning
            If a search stopped at ``max_nodes``.
        """
        data = TrainingData(X, y, sample_weight, self.window, self.negations)
        found = self._find_rules(data)
        classes = data.labels.classes.tolist()
        rules = np.array(
            [
                (classes[k], rule.conjunction, rule.score, rule.positives, rule.negatives, rule.certified)
                for k, searches in enumerate(found)
                for rule in searches
                if rule.conjunction is not None
            ],
            dtype=[
                ("label", data.labels.classes.dtype), ("conjunction", object), ("weight", np.float64),
                ("support", np.float64), ("negatives", np.float64), ("certified", np.bool_),
            ],
        )  # fmt: skip
        channels = dict.fromkeys(rules["conjunction"].tolist())
        if self.emission == "rules+inputs":
            channels |= dict.fromkeys((column,) for column in range(data.batch.n_features))
        learnt = self._learn_channels(data, list(channels))
        self._set_input_attributes(data.batch)
        self.items_, self.conjunctions_, self.rules_ = data.items, list(channels), rules
        self.certified_ = {
            label: all(rule.certified for rule in searches)
            for label, searches in zip(classes, found, strict=True)
        }
        self.n_nodes_ = sum(rule.n_nodes for searches in found for rule in searches)
        self._adopt(learnt, data.labels.classes)
        self._warn(found, data.labels.classes)
        return self

    def _find_rules(self, data: TrainingData) -> list[list[FoundRule]]:
        """By label all searches, the last of which may have found nothing."""
        labels, n_labels = data.labels, data.labels.n_labels
        truth = item_truth(data.batch, data.items)
        known = np.flatnonzero(labels.codes >= 0)
        _, first, row = np.unique(
            np.packbits(truth[known], axis=1), axis=0, return_index=True, return_inverse=True
        )
        weight = np.repeat(data.weight, data.batch.lengths)[known]
        counts = np.bincount(
            row.ravel() * n_labels + labels.codes[known], weights=weight, minlength=len(first) * n_labels
        ).reshape(-1, n_labels)
        search = RuleSearch(
            np.asarray(truth[known[first]]), complements(data.items), self.rule_score, self.max_order,
            self.noise, self.min_pos, self.min_score, self.m, self.max_nodes,
        )  # fmt: skip
        default = int(counts.sum(axis=0).argmax()) if self.default_label == "majority" else -1

        def task(label: int) -> list[FoundRule]:
            return [] if label == default else self._cover(search, counts, label)

        with _parallel.one_blas_thread():
            return _parallel.run(task, range(n_labels), self.n_jobs)

    def _cover(self, search: RuleSearch, counts: np.ndarray, label: int) -> list[FoundRule]:
        """Rule after rule, each for the positives that the rules before have left."""
        positive = counts[:, label].copy()
        negative = counts.sum(axis=1) - positive
        totals = float(positive.sum()), float(negative.sum())
        searches: list[FoundRule] = []
        taken: list[np.ndarray] = []
        while len(taken) < self.max_rules_per_label and positive.sum() >= self.min_pos:
            found = search.best(positive, negative, totals, taken)
            searches.append(found)
            if found.conjunction is None:
                break
            covered: np.ndarray = np.all(search.truth[:, list(found.conjunction)], axis=1)
            positive[covered] *= self.cover_discount
            taken.append(covered)
        return searches

    def _warn(self, found: list[list[FoundRule]], classes: np.ndarray) -> None:
        without = [
            str(label)
            for label, searches in zip(classes, found, strict=True)
            if not any(rule.conjunction is not None for rule in searches)
        ]
        if len(without) == len(classes):
            warnings.warn(
                "No label has a rule: the model predicts from starts and moves alone. Raise noise, lower min_pos, or "
                "allow negations.",
                UserWarning,
                stacklevel=3,
            )
        elif without and not (self.default_label == "majority" and len(without) == 1):
            warnings.warn(f"No rule was found for: {', '.join(without)}.", UserWarning, stacklevel=3)
        stopped = [str(label) for label, certified in self.certified_.items() if not certified]
        if stopped:
            warnings.warn(
                f"The search for the best rule stopped at max_nodes for: {', '.join(stopped)}. "
                "The rules are the best of those looked at.",
                ConvergenceWarning,
                stacklevel=3,
            )
