"""Optimal rule ensembles for single rows: hierarchical kernel learning without moves between labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_seqlab import _parallel
from sklearn_seqlab._sklearn_private import (
    Interval,
    StrOptions,
    _check_feature_names,
    _check_sample_weight,
    _fit_context,
)
from sklearn_seqlab.base import input_names
from sklearn_seqlab.hkl._atoms import atom_truth, binary_atoms, literals
from sklearn_seqlab.hkl._binary import BinaryCuts, SignedMargin, SignedRows
from sklearn_seqlab.hkl._inner import MarginCuts
from sklearn_seqlab.hkl._lattice import Lattice, distinct_rows, truth_of
from sklearn_seqlab.hkl._rules import make_rules, member_matrix, rules_as_text
from sklearn_seqlab.hkl._solver import HKLOutcome, HKLSolver
from sklearn_seqlab.metrics import micro_accuracy_score
from sklearn_seqlab.objectives import RowMargin, RowSequences
from sklearn_seqlab.sequences import PackedBatch, check_binary, encode_labels, pack
from sklearn_seqlab.solvers import report

__all__ = ["RuleEnsembleHKL"]

_N_GROUPS = 8


class RuleEnsembleHKL(TransformerMixin, ClassifierMixin, BaseEstimator):
    """Classifies rows by rules: the optimal weights of all conjunctions of binary inputs (RELHKL).

    The norm over conjunctions is that of :class:`~sklearn_seqlab.StructHKLClassifier`; every row stands by itself.
    Takes tables of rows as other classifiers of scikit-learn do, or lists of sequences, whose time steps are then the
    rows and whose steps without a label are left out. Its rules make inputs for a sequence labeller
    (:meth:`transform`).

    Parameters
    ----------
    C : float, default=10.0
        Weight of the mean loss (weighted by ``sample_weight``).
    rho : float, default=1.5
        In (1, 2].
    beta : float, default=2.0
        Price of an input more in a conjunction.
    multi_class : {"crammer_singer", "ovr"}, default="crammer_singer"
        "crammer_singer" has a lattice for each label in one problem, whose empty conjunctions are biases that cost
        like all others. "ovr" has a problem of hinge losses for each label against the others, one for two labels.
    fit_intercept : bool, default=True
        Whether problems of "ovr" have a bias, which costs nothing.
    binarize : float or None, default=None
        None wants inputs of 0 and 1; with a number they are whether each input is above it.
    tol : float, default=1e-2
        Stop where the certified duality gap is at most ``tol`` times the objective.
    max_active : int, default=5000
    max_order : int or None, default=None
    max_enumerate : int, default=2_000_000
    max_reweight : int, default=60
    negations : bool, default=False
        As in :class:`~sklearn_seqlab.StructHKLClassifier`.
    rule_threshold : float, default=1e-3
        Rules have weights above this share of the largest.
    verbose : int, default=0

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
    rules_ : structured ndarray
        As in :class:`~sklearn_seqlab.StructHKLClassifier`. In the one problem of two labels of "ovr", weights are for
        the second label.
    conjunctions_ : list of tuple
    coef_ : csr_array of shape (n_problems or n_labels, n_conjunctions)
    intercept_ : ndarray of shape (n_problems or n_labels,)
    objective_, duality_gap_ : float
        Sums over the problems of "ovr".
    gap_kind_ : str
    n_iter_ : int
        Largest number of problems at fixed weights.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Notes
    -----
    Equal rows with equal labels are one term of the loss. ``spec`` "structhkl" 5.

    Being a classifier of rows, it makes ``GridSearchCV`` and ``cross_val_score`` stratify by default, which lists of
    label sequences do not allow: with sequences give them ``cv=KFold(...)``, or wrap the ensemble in
    :class:`~sklearn_seqlab.StepwiseClassifier`.

    References
    ----------
    Jawanpuria, Nath and Ramakrishnan, "Efficient rule ensemble learning using hierarchical kernels", ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import RuleEnsembleHKL
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = RuleEnsembleHKL(C=100.0, beta=0.5).fit(X, [0, 0, 0, 1])
    >>> model.predict(X)
    array([0, 0, 0, 1])
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "rho": [Interval(Real, 1, 2, closed="right")],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "multi_class": [StrOptions({"crammer_singer", "ovr"})],
        "fit_intercept": ["boolean"],
        "binarize": [None, Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_active": [Interval(Integral, 1, None, closed="left")],
        "max_order": [None, Interval(Integral, 1, None, closed="left")],
        "max_enumerate": [Interval(Integral, 0, None, closed="left")],
        "max_reweight": [Interval(Integral, 1, None, closed="left")],
        "negations": ["boolean"],
        "rule_threshold": [Interval(Real, 0, 1, closed="both")],
        "verbose": ["verbose"],
    }

    _acts_on_sequences = True  # fit and transform take whole sequences too

    def __init__(
        self,
        *,
        C=10.0,
        rho=1.5,
        beta=2.0,
        multi_class="crammer_singer",
        fit_intercept=True,
        binarize=None,
        tol=1e-2,
        max_active=5000,
        max_order=None,
        max_enumerate=2_000_000,
        max_reweight=60,
        negations=False,
        rule_threshold=1e-3,
        verbose=0,
    ):
        self.C = C
        self.rho = rho
        self.beta = beta
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.binarize = binarize
        self.tol = tol
        self.max_active = max_active
        self.max_order = max_order
        self.max_enumerate = max_enumerate
        self.max_reweight = max_reweight
        self.negations = negations
        self.rule_threshold = rule_threshold
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = self.binarize is None
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> RuleEnsembleHKL:
        """Learn the weights of conjunctions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or list of such sequences
        y : array-like of shape (n_samples,), or list of label sequences
        sample_weight : array-like of shape (n_samples,) or, for sequences, (n_sequences,), default=None

        Returns
        -------
        self : RuleEnsembleHKL

        Raises
        ------
        ValueError
            If the input is not as described.
        """
        values, codes, weight, classes, names = self._read(X, y, sample_weight)
        atoms = self._atoms(values.shape[1])
        rows, index = distinct_rows(atom_truth(values, atoms))
        n_labels = len(classes)
        table = np.zeros((len(rows), n_labels))
        np.add.at(table, (index, codes), weight)
        counts = np.zeros_like(table)
        np.add.at(counts, (index, codes), 1)
        lattice = Lattice(rows, np.full(len(atoms), -1), self.max_order, self.max_enumerate)
        with _parallel.one_blas_thread():
            outcomes = self._solve(lattice, table / table.sum())
        self.n_features_in_ = values.shape[1]
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._set_rules(lattice, outcomes, classes, atoms, counts)
        if any(outcome.interrupted for outcome in outcomes):
            raise KeyboardInterrupt
        for outcome in outcomes:
            report(
                outcome,
                f"The certified duality gap is {outcome.gap:.3g} of an objective of {outcome.value:.3g}. "
                "Raise max_reweight or max_active, loosen tol, or lower C.",
            )
        return self

    def _read(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Any]:
        """Rows, their labels as codes, their weights, the labels, and the names of columns."""
        if _is_list_of_sequences(X):
            batch = pack(X)
            labels = encode_labels(y, batch.offsets)
            weight = np.ones(batch.n_sequences) if sample_weight is None else np.asarray(sample_weight, float)
            if weight.shape != (batch.n_sequences,) or not (np.isfinite(weight) & (weight >= 0)).all():
                raise ValueError(
                    f"sample_weight has shape {weight.shape}; expected ({batch.n_sequences},) nonnegative numbers, "
                    "one per sequence."
                )
            weight = np.repeat(weight, batch.lengths)
            kept = np.flatnonzero((labels.codes >= 0) & (weight > 0))
            if not len(kept):
                raise ValueError(
                    "y holds no known label where sample_weight is positive: nothing to learn from."
                )
            self._check_values(batch)
            seen, codes = np.unique(labels.codes[kept], return_inverse=True)
            return batch.values[kept], codes, weight[kept], labels.classes[seen], batch.feature_names
        seen_by = clone(self)  # what is wrong with X or y is to leave this estimator as it is
        values, target = validate_data(seen_by, X, y, accept_sparse="csr", dtype=np.float64, reset=True)
        check_classification_targets(target)
        self._check_values(PackedBatch(values, np.array([0, values.shape[0]])))
        weight = _check_sample_weight(sample_weight, values, ensure_non_negative=True)
        kept = np.flatnonzero(weight > 0)
        if not len(kept):
            raise ValueError("sample_weight is zero everywhere: nothing to learn from.")
        classes, codes = np.unique(target[kept], return_inverse=True)
        return values[kept], codes, weight[kept], classes, getattr(seen_by, "feature_names_in_", None)

    def _check_values(self, batch: PackedBatch) -> None:
        if self.binarize is None:
            check_binary(batch)

    def _atoms(self, n_features: int) -> np.ndarray:
        atoms = binary_atoms(n_features, self.negations)
        if self.binarize is not None:
            atoms["threshold"] = self.binarize
        return atoms

    def _solve(self, lattice: Lattice, share: np.ndarray) -> list[HKLOutcome]:
        n_rows, n_labels = share.shape
        row, label = np.nonzero(share)
        weight = share[row, label]
        options = {
            "tol": float(self.tol),
            "max_active": self.max_active,
            "max_reweight": self.max_reweight,
            "solver": "irls",
        }
        strength = float(self.C), float(self.rho), float(self.beta)
        if self.multi_class == "crammer_singer" or n_labels == 1:
            steps = np.arange(len(row) + 1)
            pairs = RowSequences(row, label, steps, n_rows, n_labels, weight, np.ones(len(row)))
            cuts = MarginCuts(RowMargin(pairs, n_groups=_N_GROUPS), with_moves=False)
            return [HKLSolver(cuts, lattice, n_labels, **options).run(*strength)]
        outcomes = []
        for positive in [1] if n_labels == 2 else range(n_labels):
            signed = SignedRows(row, np.where(label == positive, 1.0, -1.0), weight, n_rows)
            binary = BinaryCuts(SignedMargin(signed, _N_GROUPS, self.fit_intercept))
            outcomes.append(HKLSolver(binary, lattice, 1, **options).run(*strength))
        return outcomes

    def _set_rules(
        self,
        lattice: Lattice,
        outcomes: list[HKLOutcome],
        classes: np.ndarray,
        atoms: np.ndarray,
        counts: np.ndarray,
    ) -> None:
        weights: dict[tuple[int, ...], np.ndarray] = {}
        n_outputs = sum(outcome.coef.shape[1] for outcome in outcomes)
        first = 0
        for outcome in outcomes:
            width = outcome.coef.shape[1]
            for conjunction, own in zip(outcome.nodes.conjunctions(), outcome.coef, strict=True):
                if own.any():
                    weights.setdefault(conjunction, np.zeros(n_outputs))[first : first + width] = own
            first += width
        self.classes_, self.atoms_ = classes, atoms
        self.conjunctions_ = sorted(weights, key=lambda conjunction: (len(conjunction), conjunction))
        coef = np.array([weights[conjunction] for conjunction in self.conjunctions_]).reshape(-1, n_outputs).T
        self.coef_ = sparse.csr_array(coef)
        is_ovr = self.multi_class == "ovr" and len(classes) > 1
        self.intercept_ = (
            np.array([outcome.transition[0, 0] for outcome in outcomes]) if is_ovr else np.zeros(n_outputs)
        )
        member = member_matrix(self.conjunctions_, len(atoms))
        by_label = truth_of(lattice.rows, member).T.astype(float) @ counts
        labels, columns = (
            (classes, by_label) if n_outputs == len(classes) else (classes[1:], by_label[:, ::-1])
        )
        self.rules_ = make_rules(
            coef, self.conjunctions_, labels, columns, self.rule_threshold, self._literals(None)
        )
        self.objective_ = float(sum(outcome.value for outcome in outcomes))
        self.duality_gap_ = float(sum(outcome.gap for outcome in outcomes))
        self.gap_kind_, self.n_iter_ = outcomes[0].gap_kind, max(outcome.n_iter for outcome in outcomes)
        self.n_conjunctions_ = None if lattice.nodes is None else lattice.nodes.n_nodes
        self.n_distinct_rows_ = len(lattice.rows)

    def _truth(self, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Truth of the atoms in each row, and where sequences begin if there are any."""
        check_is_fitted(self)
        if _is_list_of_sequences(X):
            batch, offsets = pack(X, n_features=self.n_features_in_), True
            _check_feature_names(self, next(iter(X)), reset=False)
        else:
            values = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
            batch, offsets = PackedBatch(values, np.array([0, values.shape[0]])), False
        self._check_values(batch)
        return atom_truth(batch.values, self.atoms_), batch.offsets if offsets else None

    def _scores(self, truth: np.ndarray) -> np.ndarray:
        rows, index = distinct_rows(truth)
        holds = truth_of(rows, member_matrix(self.conjunctions_, len(self.atoms_))).astype(float)
        return ((self.coef_ @ sparse.csr_array(holds.T)).toarray().T + self.intercept_)[index]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Share of right labels: of rows, or of the labelled steps of sequences.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        score : float
        """
        if _is_list_of_sequences(X):
            return micro_accuracy_score(y, self.predict(X), sample_weight=sample_weight)
        return super().score(X, y, sample_weight)

    def decision_function(self, X: Any) -> Any:
        """Scores of the labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or list of such sequences

        Returns
        -------
        scores : ndarray of shape (n_samples, n_labels), or (n_samples,) for two labels
            For sequences, an object ndarray of them.
        """
        truth, offsets = self._truth(X)
        scores = self._scores(truth)
        if scores.shape[1] == 2:
            scores = scores[:, 1:] - scores[:, :1]
        if scores.shape[1] == 1:
            scores = scores[:, 0] if len(self.classes_) > 1 else np.ones(len(scores))
        return scores if offsets is None else PackedBatch(scores, offsets).unpack(scores)

    def predict(self, X: Any) -> Any:
        """The label of largest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or list of such sequences

        Returns
        -------
        y : ndarray of shape (n_samples,)
            For sequences, an object ndarray of them.
        """
        truth, offsets = self._truth(X)
        scores = self._scores(truth)
        codes = scores.argmax(axis=1)
        if scores.shape[1] == 1 and len(self.classes_) == 2:
            codes = (scores[:, 0] > 0).astype(np.intp)
        labels = self.classes_[codes]
        return labels if offsets is None else PackedBatch(labels, offsets).unpack(labels)

    def _rule_bodies(self) -> list[tuple[int, ...]]:
        """The distinct conjunctions of the rules, without the empty one."""
        return [body for body in dict.fromkeys(self.rules_["conjunction"].tolist()) if body]

    def transform(self, X: Any) -> Any:
        """Truth of the rules' conjunctions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or list of such sequences

        Returns
        -------
        truth : csr_array of shape (n_samples, n_rules), or list of them
            Columns in the order of the distinct conjunctions of ``rules_``, without the empty one.
        """
        truth, offsets = self._truth(X)
        member = member_matrix(self._rule_bodies(), len(self.atoms_))
        holds = sparse.csr_array(truth_of(truth, member).astype(float))
        if offsets is None:
            return holds
        return [holds[start:stop] for start, stop in pairwise(offsets.tolist())]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Conjunctions as text, in the order of :meth:`transform`."""
        check_is_fitted(self)
        texts = self._literals(input_features)
        return np.array([", ".join(texts[a] for a in body) for body in self._rule_bodies()], dtype=object)

    def rules_text(self, top: int | None = None, feature_names: Sequence[str] | None = None) -> str:
        """The rules as clauses, with weight, support and share of right rows.

        Parameters
        ----------
        top : int or None, default=None
            Rules per label, by decreasing size of the weight; None for all.
        feature_names : sequence of str, default=None
            Names of the inputs.

        Returns
        -------
        text : str
            A line per rule.
        """
        check_is_fitted(self)
        return rules_as_text(self.rules_, self._literals(feature_names), top)

    def _literals(self, names: Any) -> list[str]:
        if names is None:
            names = input_names(self)
        return literals(self.atoms_, names, self.binarize is None)


def _is_list_of_sequences(X: Any) -> bool:
    """Whether X is a list of tables rather than one table."""
    if sparse.issparse(X) or hasattr(X, "columns") or not hasattr(X, "__len__") or not len(X):
        return False
    if isinstance(X, np.ndarray) and (X.dtype != object or X.ndim != 1):
        return X.ndim == 3
    first = next(iter(X))
    if sparse.issparse(first) or hasattr(first, "columns"):
        return True
    if isinstance(first, np.ndarray):
        return first.ndim == 2
    return (
        isinstance(first, list | tuple)
        and len(first) > 0
        and hasattr(first[0], "__len__")
        and not isinstance(first[0], str)
    )
