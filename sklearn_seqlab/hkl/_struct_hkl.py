"""Optimal rules for sequence labelling: hierarchical kernel learning over structured outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab import _parallel
from sklearn_seqlab._chain_labeler import ChainSource, ProbabilisticChainLabeler
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags, input_names
from sklearn_seqlab.hkl._atoms import (
    atom_truth,
    binary_atoms,
    chains_of,
    literals,
    threshold_atoms,
)
from sklearn_seqlab.hkl._inner import LogProblem, MarginCuts
from sklearn_seqlab.hkl._lattice import Lattice, distinct_rows, truth_of
from sklearn_seqlab.hkl._rules import make_rules, member_matrix, rules_as_text
from sklearn_seqlab.hkl._solver import HKLOutcome, HKLSolver, WarmStart
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives import RowLikelihood, RowMargin, RowSequences
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    check_binary,
    encode_labels,
    encode_training_labels,
    known_runs,
    pack,
    raise_if_partial,
    read_weights,
)
from sklearn_seqlab.solvers import report

__all__ = ["StructHKLClassifier"]

# With slack rescaling, sequences up to this length are searched exactly where a search leaves more open than a share
# of the tolerance.
_EXACT_LENGTH = 2000
_SHARE_OF_TOL = 0.05


def _is_probabilistic(estimator: StructHKLClassifier) -> bool:
    return bool(estimator.loss == "log")


class StructHKLClassifier(ProbabilisticChainLabeler):
    """Labels sequences by rules: the optimal weights of all conjunctions of binary inputs.

    Every label has a weight for every conjunction of inputs, 2**n_features of them, and there is a weight for every
    move between labels. Minimises ``1/2 Omega(f)**2 + 1/2 ||transition||**2 + C / n_sequences * sum of losses``, where
    ``Omega(f) = sum_v beta**size(v) * ||f_D(v)||_rho`` runs over all conjunctions ``v`` of all labels and ``D(v)`` are
    those that contain ``v``. The norm leaves most conjunctions, with everything that contains them, without weight;
    the duality gap is certified over all of them.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the mean loss (weighted by ``sample_weight``), as in the paper. With ``error_cost="mean"`` one wrong
        step of a thousand costs a thousandth: useful values are then 10 to 1000.
    rho : float, default=1.5
        In (1, 2]. 2 spreads weight over conjunctions that contain each other, towards 1 it concentrates.
    beta : float, default=2.0
        Price of an input more: above 1 long conjunctions are dear, and even where the truth is one, its parts get more
        weight.
    rescaling : {"margin", "slack", "slack-approx"}, default="margin"
        See :class:`~sklearn_seqlab.StructuredSVM`. "slack" finds the most violated labelling within a bound that is a
        small share of ``tol``, exactly where need be; "slack-approx" leaves it at the bound of a search. The objective
        is computed from the upper bound. Not used with ``loss="log"``.
    loss : {"hinge", "log"}, default="hinge"
        "hinge": the slack of the margin. "log": the negative log-likelihood of the chain, which gives probabilities
        (``predict_proba`` and its kin exist with it alone).
    error_cost : {"mean", "sum"}, default="mean"
        Whether the cost of a labelling is the share of its wrong steps or their number; with ``loss="log"``, whether
        the loss of a sequence is divided by its length.
    tol : float, default=1e-2
        Stop where the certified duality gap is at most ``tol`` times the objective.
    solver : {"irls", "mirror"}, default="irls"
        "irls" reweights squares in closed form; "mirror" is the descent on the simplex of the paper, for comparison.
    n_slack_groups : int, default=8
        Sequences are dealt into so many groups, each with one slack; the optimum does not depend on it.
    max_active : int, default=5000
        Largest number of pairs of conjunction and label to work on.
    max_order : int or None, default=None
        Largest number of inputs of a conjunction; what is certified then refers to these.
    max_enumerate : int, default=2_000_000
        If the conjunctions that hold in the distinct rows are more, counted row by row, they are not enumerated, and
        sums over them are bounded by products of sums.
    max_reweight : int, default=60
        Largest number of reweightings on one active set.
    max_planes : int, default=2000
        Cutting planes to keep that have no multiplier.
    negations : bool, default=False
        Whether conjunctions may ask for an input to be off.
    n_thresholds : int or None, default=None
        None wants inputs of 0 and 1. A number takes numeric inputs and cuts each at so many quantiles of its distinct
        values at most; the thresholds of an input are a chain, each costs ``beta`` and needs those before it.
    missing : {"split", "error"}, default="split"
        What to do at steps without a known label. "split" learns from the stretches in between, each weighing its
        share of the sequence; a set of candidates counts as unknown.
    rule_threshold : float, default=1e-3
        ``rules_`` lists weights above this share of the largest. For ``rho > 1`` weights inside a selected part of the
        lattice are small rather than zero.
    decoding : {"map", "marginal"}, default="map"
        With ``loss="log"``, whether ``predict`` gives the most probable sequence or at each step the most probable
        label. Margins have no marginals: both are the best sequence.
    warm_start : bool, default=False
        Whether ``fit`` starts from the conjunctions and weights of the last one.
    n_jobs : int or None, default=None
        Threads that search sequences side by side. Results do not depend on it.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Sorted labels.
    rules_ : structured ndarray
        Fields ``label``, ``conjunction``, ``weight``, ``support``, ``accuracy``, ``category``. Conjunctions are
        tuples of numbers of ``atoms_``, by default columns of ``X``; steps of the training data on
        which they hold, and the share of those that bear the label; "SC" for a conjunction of inputs at one step, and
        "PF", "AF" or "CF" where names of inputs are relational patterns. Largest weights of a label first.
    conjunctions_ : list of tuple
        All conjunctions with a weight.
    coef_ : csr_array of shape (n_labels, n_conjunctions)
    transition_coef_ : ndarray of shape (n_labels, n_labels)
        Weights of moves from row to column.
    atoms_ : structured ndarray with fields ``column``, ``threshold``, ``negated``
        What numbers in conjunctions mean: the column is above the threshold, or is not.
    active_set_ : list of (label, tuple)
        The pairs worked on at the end.
    active_set_size_ : int
    n_conjunctions_ : int or None
        Conjunctions that hold in some row; None if they were not enumerated.
    n_distinct_rows_ : int
    objective_ : float
    duality_gap_ : float
        The objective is at most so much above its minimum over all conjunctions (up to ``max_order``). Never negative.
    gap_kind_ : {"exact", "product-of-sums"}
        How the dual norm over the lattice was bounded.
    converged_ : bool
    n_planes_, n_iter_, n_oracle_calls_ : int
        Cutting planes kept, problems at fixed weights solved, labellings searched for.
    loss_curve_ : ndarray of shape (n_iter_,)
        Best objective known after each.
    history_ : ndarray of shape (n_rounds, 4)
        Problems solved, objective, lower bound and size of the active set, each time the active set was judged.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where ``X`` held data frames.

    Notes
    -----
    Only subsets of rows that occur can have a weight, so that the lattice has thousands of nodes where 2**n_features
    are beyond counting, and cutting planes are tables over distinct rows. A round takes O(n_total * n_labels**2) time
    for the search and O(n_planes * n_active) for a plane. ``spec`` "structhkl".

    There are no weights at the first and last step. ``decision_function`` gives max-marginals.

    References
    ----------
    Nair, Saha, Ramakrishnan and Krishnaswamy, "Learning discriminative relational features for sequence labeling"
    (StructHKL). Jawanpuria, Nath and Ramakrishnan, "Generalized hierarchical kernel learning", JMLR 2015. Bach,
    "Exploring large feature spaces with hierarchical multiple kernel learning", NIPS 2008.

    Examples
    --------
    >>> from sklearn_seqlab import StructHKLClassifier
    >>> X = [[[1, 1], [1, 0], [0, 1], [1, 1]], [[0, 0], [1, 1]]]
    >>> y = [["busy", "free", "free", "busy"], ["free", "busy"]]
    >>> model = StructHKLClassifier(C=100.0, beta=0.5).fit(X, y)
    >>> model.predict([[[0, 1], [1, 1]]])[0]
    array(['free', 'busy'], dtype='<U4')
    >>> print(model.rules_text(top=1))
    busy(T) :- x1(T).  % w=+0.148 n=4 right=0.75
    free(T) :- x1(T).  % w=-0.148 n=4 right=0.25
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "rho": [Interval(Real, 1, 2, closed="right")],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "rescaling": [StrOptions({"margin", "slack", "slack-approx"})],
        "loss": [StrOptions({"hinge", "log"})],
        "error_cost": [StrOptions({"mean", "sum"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"irls", "mirror"})],
        "n_slack_groups": [Interval(Integral, 1, None, closed="left")],
        "max_active": [Interval(Integral, 1, None, closed="left")],
        "max_order": [None, Interval(Integral, 1, None, closed="left")],
        "max_enumerate": [Interval(Integral, 0, None, closed="left")],
        "max_reweight": [Interval(Integral, 1, None, closed="left")],
        "max_planes": [Interval(Integral, 1, None, closed="left")],
        "negations": ["boolean"],
        "n_thresholds": [None, Interval(Integral, 1, None, closed="left")],
        "missing": [StrOptions({"split", "error"})],
        "rule_threshold": [Interval(Real, 0, 1, closed="both")],
        "decoding": [StrOptions({"map", "marginal"})],
        "warm_start": ["boolean"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        C=10.0,
        rho=1.5,
        beta=2.0,
        rescaling="margin",
        loss="hinge",
        error_cost="mean",
        tol=1e-2,
        solver="irls",
        n_slack_groups=8,
        max_active=5000,
        max_order=None,
        max_enumerate=2_000_000,
        max_reweight=60,
        max_planes=2000,
        negations=False,
        n_thresholds=None,
        missing="split",
        rule_threshold=1e-3,
        decoding="map",
        warm_start=False,
        n_jobs=None,
        verbose=0,
    ):
        self.C = C
        self.rho = rho
        self.beta = beta
        self.rescaling = rescaling
        self.loss = loss
        self.error_cost = error_cost
        self.tol = tol
        self.solver = solver
        self.n_slack_groups = n_slack_groups
        self.max_active = max_active
        self.max_order = max_order
        self.max_enumerate = max_enumerate
        self.max_reweight = max_reweight
        self.max_planes = max_planes
        self.negations = negations
        self.n_thresholds = n_thresholds
        self.missing = missing
        self.rule_threshold = rule_threshold
        self.decoding = decoding
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.regularisation = "C"
        tags.input_tags.categorical = self.n_thresholds is None
        tags.probabilities = tags.pairwise = tags.likelihood = tags.sampling = _is_probabilistic(self)
        if self.missing == "error":
            tags.target_tags.missing_labels = tags.target_tags.candidate_sets = False
        return tags

    # verbs of probabilities exist with the log-likelihood only
    predict_proba = available_if(_is_probabilistic)(ProbabilisticChainLabeler.predict_proba)
    predict_pairwise = available_if(_is_probabilistic)(ProbabilisticChainLabeler.predict_pairwise)
    log_likelihood = available_if(_is_probabilistic)(ProbabilisticChainLabeler.log_likelihood)
    sample = available_if(_is_probabilistic)(ProbabilisticChainLabeler.sample)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> StructHKLClassifier:
        """Learn the weights of conjunctions from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
            Of 0 and 1, unless ``n_thresholds`` is set.
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of each sequence's loss, relative to the sum of weights.

        Returns
        -------
        self : StructHKLClassifier

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        """
        task = _Task(self, X, y, sample_weight)
        start = self._last_start(task) if self.warm_start else None
        return self._learn(task, start)

    def path(
        self,
        X: Any,
        y: Any,
        *,
        C: Iterable[float] | None = None,
        rho: Iterable[float] | None = None,
        beta: Iterable[float] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Iterator[StructHKLClassifier]:
        """Fit copies for several strengths, which share cutting planes and start where the one before ended.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        C, rho, beta : iterable of float, default=None
            Values to go through, ``C`` fastest; None for that of the estimator. Go from small to large ``C``.

        Yields
        ------
        model : StructHKLClassifier
            A fitted copy.
        """
        self._validate_params()
        task = _Task(self, X, y, sample_weight)
        start = None
        values = [
            [own] if given is None else list(given)
            for given, own in ((rho, self.rho), (beta, self.beta), (C, self.C))
        ]
        for one_rho, one_beta, one_C in product(*values):
            model = clone(self).set_params(C=one_C, rho=one_rho, beta=one_beta)
            model._validate_params()
            model._learn(task, start)
            start = task.outcome.start
            yield model

    def _learn(self, task: _Task, start: WarmStart | None) -> StructHKLClassifier:
        with (
            _parallel.one_blas_thread(),
            Progress(self.verbose, type(self).__name__, 10 * self.max_reweight) as progress,
            np.errstate(over="ignore", invalid="ignore"),  # what is not finite is refused by name
        ):
            outcome = task.run(self, start, progress)
        if not np.isfinite(outcome.value):
            raise KeyboardInterrupt  # before anything was learnt
        self._set_input_attributes(task.batch)
        self._set_weights(task, outcome)
        if outcome.interrupted:
            raise KeyboardInterrupt
        report(
            outcome,
            f"The certified duality gap is {outcome.gap:.3g} of an objective of {outcome.value:.3g}. "
            "Raise max_reweight or max_active, loosen tol, or lower C.",
        )
        return self

    def _set_weights(self, task: _Task, outcome: HKLOutcome) -> None:
        lattice, nodes = task.lattice, outcome.nodes
        conjunctions = nodes.conjunctions()
        kept = np.flatnonzero(outcome.coef.any(axis=1))
        self.classes_, self.atoms_ = task.labels.classes, task.atoms
        self.conjunctions_ = [conjunctions[k] for k in kept]
        self.coef_ = sparse.csr_array(outcome.coef[kept].T)
        self.transition_coef_ = outcome.transition
        counts = nodes.holds[kept] @ task.counts
        self.rules_ = make_rules(
            outcome.coef[kept].T,
            self.conjunctions_,
            self.classes_,
            counts,
            self.rule_threshold,
            self._literals(None),
        )
        pairs = np.argwhere(outcome.active)
        self.active_set_ = [(self.classes_[k].item(), conjunctions[u]) for u, k in pairs.tolist()]
        self.active_set_size_ = len(pairs)
        self.n_conjunctions_ = None if lattice.nodes is None else lattice.nodes.n_nodes
        self.n_distinct_rows_ = len(lattice.rows)
        self.objective_, self.duality_gap_ = float(outcome.value), float(outcome.gap)
        self.gap_kind_, self.converged_ = outcome.gap_kind, outcome.converged
        self.n_iter_, self.loss_curve_ = outcome.n_iter, np.array(outcome.history)
        self.n_planes_, self.n_oracle_calls_ = task.problem.n_planes, task.problem.n_oracle_calls
        self.history_ = np.array(outcome.rounds).reshape(-1, 4)
        self.__dict__.pop("_start", None)
        if self.warm_start and outcome.start is not None:
            start = outcome.start
            self._start = {
                "member": start.nodes.member, "active": start.active, "delta": start.delta, "eta": start.eta
            }  # fmt: skip

    def _last_start(self, task: _Task) -> WarmStart | None:
        kept = getattr(self, "_start", None)
        if kept is None or not (
            np.array_equal(self.classes_, task.labels.classes) and np.array_equal(self.atoms_, task.atoms)
        ):
            return None
        small = kept["member"].sum(axis=1) <= task.lattice.max_order
        usable = small & truth_of(task.lattice.rows, kept["member"]).any(axis=0)
        eta = kept["eta"][usable]
        nodes = task.lattice.of(kept["member"][usable])
        return WarmStart(nodes, kept["active"][usable], kept["delta"][usable], eta / eta.sum())

    @property
    def transition_(self) -> np.ndarray:
        """Another name of ``transition_coef_``."""
        return self.transition_coef_

    def rules_text(
        self,
        top: int | None = None,
        rules: np.ndarray | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> str:
        """The rules as clauses, with weight, support and share of right steps.

        Parameters
        ----------
        top : int or None, default=None
            Rules per label, by decreasing size of the weight; None for all.
        rules : structured ndarray, default=None
            What to print in place of ``rules_``, such as what :meth:`score_rules` returns.
        feature_names : sequence of str, default=None
            Names of the inputs, such as those of a transformer before; a name with a bracket is a body by itself.

        Returns
        -------
        text : str
            A line per rule. ``T`` is the time step.
        """
        check_is_fitted(self)
        return rules_as_text(self.rules_ if rules is None else rules, self._literals(feature_names), top)

    def _literals(self, names: Sequence[str] | None) -> list[str]:
        if names is None:
            names = input_names(self)
        return literals(self.atoms_, names, self.n_thresholds is None)

    def score_rules(self, X: Any, y: Any) -> np.ndarray:
        """The rules with their support and accuracy on other data.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Steps without a known label are left out.

        Returns
        -------
        rules : structured ndarray
            As ``rules_``; the accuracy of a rule that never holds is NaN.
        """
        batch = self._pack(X)
        labels = encode_labels(y, batch.offsets, classes=self.classes_, unseen="mark")
        known = np.flatnonzero((labels.codes >= 0) | (labels.codes == -3))
        rows, index = distinct_rows(self._truth(batch)[known])
        n_labels = len(self.classes_)
        # one column more for labels that fit did not see
        codes = np.where(labels.codes[known] >= 0, labels.codes[known], n_labels)
        table = np.zeros((len(rows), n_labels + 1))
        np.add.at(table, (index, codes), 1)
        rules = self.rules_.copy()
        member = member_matrix(rules["conjunction"].tolist(), len(self.atoms_))
        counts = truth_of(rows, member).T.astype(float) @ table
        place = np.searchsorted(self.classes_, rules["label"])
        rules["support"] = counts.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            rules["accuracy"] = counts[np.arange(len(rules)), place] / counts.sum(axis=1)
        return rules

    def _decode(self, chains: PackedChains) -> np.ndarray:
        return super()._decode(chains) if _is_probabilistic(self) else chains.viterbi()[0]

    def _truth(self, batch: PackedBatch) -> np.ndarray:
        if self.n_thresholds is None:
            check_binary(batch)
        return atom_truth(batch.values, self.atoms_)

    def _chain_source(self, batch: PackedBatch) -> ChainSource:
        rows, index = distinct_rows(self._truth(batch))
        holds = truth_of(rows, member_matrix(self.conjunctions_, len(self.atoms_)))
        # one product per row, so that a row has the same scores whatever it stands beside
        emission = np.ascontiguousarray(
            (self.coef_ @ sparse.csr_array(holds.T.astype(np.float64))).toarray().T
        )

        def chains(first: int, last: int) -> PackedChains:
            start, stop = int(batch.offsets[first]), int(batch.offsets[last])
            offsets = batch.offsets[first : last + 1] - start
            return PackedChains(emission[index[start:stop]], self.transition_coef_, offsets, first)

        return chains


class _Task:
    """What fits to the same data share: the lattice and the cutting planes."""

    def __init__(self, model: StructHKLClassifier, X: Any, y: Any, sample_weight: ArrayLike | None):
        self.batch = pack(X)
        self.labels: LabelCodes = encode_training_labels(y, self.batch.offsets)
        if model.missing == "error":
            raise_if_partial(self.labels, "Use missing='split', or leave the sequence out.")
        weight = read_weights(sample_weight, self.batch.n_sequences)
        pieces = known_runs(self.batch, self.labels, weight)
        if pieces is None:
            raise ValueError("y holds no known label where sample_weight is positive: nothing to learn from.")
        batch, labels, weight = pieces
        if model.n_thresholds is None:
            check_binary(self.batch)
            self.atoms = binary_atoms(batch.n_features, model.negations)
            needed = np.full(len(self.atoms), -1)
        else:
            self.atoms = threshold_atoms(batch, model.n_thresholds, model.negations)
            needed = chains_of(self.atoms)
        rows, index = distinct_rows(atom_truth(batch.values, self.atoms))
        self.lattice = Lattice(rows, needed, model.max_order, model.max_enumerate)
        if self.lattice.nodes is None and (needed >= 0).any():
            raise ValueError(
                f"The rows of X have {self.lattice.n_pairs} conjunctions of thresholds, more than max_enumerate="
                f"{model.max_enumerate}. Lower n_thresholds or max_order, or raise max_enumerate."
            )
        n_labels = labels.n_labels
        self.counts = np.zeros((len(rows), n_labels))
        np.add.at(self.counts, (index, labels.codes), 1)
        share = weight / weight.max()
        sequences = RowSequences(
            index,
            labels.codes,
            labels.offsets,
            len(rows),
            n_labels,
            share / share.sum(),
            1.0 / batch.lengths if model.error_cost == "mean" else np.ones(batch.n_sequences),
        )
        self.problem: MarginCuts | LogProblem
        if model.loss == "log":
            self.problem = LogProblem(RowLikelihood(sequences, n_jobs=model.n_jobs))
        else:
            margin = RowMargin(
                sequences,
                n_groups=model.n_slack_groups,
                rescaling="margin" if model.rescaling == "margin" else "slack",
                exact_length=_EXACT_LENGTH if model.rescaling == "slack" else 0,
                tol=_SHARE_OF_TOL * model.tol,
                n_jobs=model.n_jobs,
            )
            self.problem = MarginCuts(margin, max_planes=model.max_planes)

    def run(self, model: StructHKLClassifier, start: WarmStart | None, callback: Any) -> HKLOutcome:
        solver = HKLSolver(
            self.problem,
            self.lattice,
            self.labels.n_labels,
            tol=float(model.tol),
            max_active=model.max_active,
            max_reweight=model.max_reweight,
            solver=model.solver,
        )
        self.outcome = solver.run(float(model.C), float(model.rho), float(model.beta), start, callback)
        return self.outcome
