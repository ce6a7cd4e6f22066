"""Gaussian-process sequence labelling by pseudo-likelihood and variational inference."""

from __future__ import annotations

import warnings
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from sklearn_seqlab import _parallel
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.gaussian_process._couplings import (
    CouplingForm,
    neighbour_rows,
    soft_neighbour_rows,
)
from sklearn_seqlab.gaussian_process._fixed_point import LabelledSteps
from sklearn_seqlab.gaussian_process._full_covariance import FullCovariance, Scales
from sklearn_seqlab.gaussian_process._hyper_parameters import at_limit, learn
from sklearn_seqlab.gaussian_process._kernels import (
    Kernels,
    check_memory,
    distinct_rows,
    group_columns,
    inducing_rows,
    is_linear,
    read_kernels,
    squared_norms,
)
from sklearn_seqlab.gaussian_process._latent_models import (
    FeatureModel,
    LatentModel,
    MeanFieldModel,
    RowModel,
)
from sklearn_seqlab.gaussian_process._mean_field import MeanField, WeightMoments
from sklearn_seqlab.gaussian_process._neighbour_labeler import NeighbourLabeler
from sklearn_seqlab.gaussian_process._softmax_bounds import BOUNDS
from sklearn_seqlab.gaussian_process._training_steps import known_steps, only_seen_labels
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    encode_training_labels,
    pack,
    raise_if_partial,
    read_weights,
)
from sklearn_seqlab.solvers import report

__all__ = ["GPSequenceLabeler"]

# With "auto": the cube of the size of the smallest exact problem times the number of labels, up to which a fit takes
# seconds; beyond it mean field (linear) takes less, and inducing rows (other kernels).
_EXACT_LINEAR, _EXACT_KERNEL = 2e9, 2e10
_CURE = "use inference='meanfield' (linear kernel) or 'sparse'"
_FARTHEST = 10**9
_IMPUTE_ROUNDS, _STACK_FOLDS = 2, 4
# Of so many rows the prior variance is looked at, and below this it has collapsed.
_ROWS_LOOKED_AT, _COLLAPSED = 2000, 0.05


class GPSequenceLabeler(NeighbourLabeler):
    """Gaussian-process sequence labelling (GPSL).

    The score of a label at a step is a Gaussian process in the inputs of the step, plus a normal weight for each label
    at a few steps around it. Training maximises a lower bound on the pseudo-evidence, the integral of the product of
    the probabilities of each label given its inputs and the labels around it. Predictions come with the uncertainty of
    all that was learnt.

    Parameters
    ----------
    kernel : "linear", Kernel or list of Kernel, default="linear"
        Prior covariance of the latent function of each label: "linear" (dense or sparse ``X``), an object of
        :mod:`sklearn.gaussian_process.kernels` (dense ``X``), or one such object per label in the order of
        ``classes_``. There is no constant term: add a column of ones, or a kernel with a constant.
    dependencies : tuple of int, default=(-1, 1)
        Offsets of the steps whose labels count: -1 is the step before. () labels each step by itself.
    inference : {"auto", "exact", "meanfield", "sparse"}, default="auto"
        "exact" keeps a full covariance per label over the distinct time steps, or the distinct columns of a linear
        kernel if they are fewer. "meanfield" (linear) takes weights for independent: for wide sparse data. "sparse"
        (other kernels) sees the data through ``n_inducing`` rows. "auto" is exact where that takes seconds, else
        "meanfield" or "sparse".
    bound : {"tilted", "jensen", "bohning", "gh"}, default="tilted"
        Bound on the expected log-sum-exp of the scores. "jensen" is the published one, and loose where variances
        exceed 2; "tilted" costs the same and is always tighter; "bohning" has a constant curvature, so that labels and
        sweeps share one factor of a shared kernel; "gh" is quadrature, for two labels.
    posterior : {"joint", "factored"}, default="joint"
        Whether exact and sparse inference keep the covariance between latent functions and couplings; "factored" (the
        published form) takes them for independent, as mean field does.
    scale : float, default=1.0
        What the kernel is multiplied by: the prior variance of the weights of a linear kernel.
    dependency_variance : float, default=1.0
        Prior variance of the couplings.
    tied : bool, default=False
        Whether the couplings to both sides are one table, ``g[+k][a, b] = g[-k][b, a]``, as in a Markov random field.
        Needs both signs of each dependency; the posterior is then "factored". ``lower_bound_`` takes both sides for
        independent, which what they share is not: it may then lie a little above the log pseudo-evidence.
    neighbours : {"observed", "stacked"}, default="observed"
        What a step sees of the labels around it in training: the labels, or the out-of-fold probabilities (four folds)
        of a model without dependencies. With the latter, prediction is a single pass.
    optimizer : None or {"mackay", "fmin_l_bfgs_b"}, default=None
        Learn ``scale`` and ``dependency_variance`` by MacKay's updates of the bound, or by L-BFGS-B
        ``dependency_variance`` and either ``scale`` (linear) or the parameters of the kernel. The bound is biased to
        small variances, "jensen" until nothing is learnt at all; a search over ``scale`` is often better.
    n_inducing : int, default=256
        With sparse inference, how many rows (k-means++).
    batch_size : int or None, default=None
        With sparse inference, start with natural-gradient steps on so many time steps at a time, three passes or more.
        The bound is then within a few thousandths of its optimum: on long data ``batch_size=1000, max_iter=2`` takes a
        fraction of the time. Needs ``posterior="joint"`` and no ties.
    missing : {"drop", "impute", "raise"}, default="drop"
        A step without a label, or with a set of candidates, is not learnt from. As a neighbour it says nothing
        ("drop"), or what a first fit predicts for it ("impute", two rounds; the bound then is none).
    decode : {"rns", "chain", "viterbi", "viterbi_mrf"}, default="rns"
        "rns" relaxes the probabilities of all steps to a fixed point (Algorithm 2 of the paper) and takes the best
        label of each. "chain" takes the marginals of a chain with the mean scores, exactly; it needs -1 or 1 among
        ``dependencies``, of which it takes the mean of both tables, and reads no others. "viterbi" and
        "viterbi_mrf" need ``dependencies=(-1,)``: the best path of the model that is normalised step by step, and of
        the sum of scores.
    update_order : {"synchronous", "sequential"}, default="synchronous"
        Order of relaxation. Answers differ: sequential rounds keep what the first guess from the left decides.
    variance_weight : float, default=0.5
        How much of the variance of a score counts in decoding: 0.5 is ``log E exp(score)``. Far from all training
        inputs variances outweigh means, and the label that varies most wins with a probability of nearly one; with 0,
        or with ``predict_proba(X, method="mc")``, it does not.
    damping : float, default=0.5
        Share of its old probabilities that a step keeps in a round. 0 is the published update, which for dependencies
        to both sides often alternates between two states for ever.
    max_iter : int, default=200
        Largest number of sweeps; one of mean field is a Newton step and a fixed-point step of all variances.
    tol : float, default=1e-5
        Stop where the bound has less than this share of it left to rise, by the last two sweeps and by its gradient.
    max_iter_predict : int, default=100
        Largest number of rounds of relaxation; damped ones are followed by up to 200 more, and 200 each of damping 0.8
        and 0.95.
    tol_predict : float, default=1e-4
        A sequence has converged where no probability would change by more in a round without damping.
    n_samples : int, default=256
        Draws of ``predict_proba(method="mc")`` and ``predict_information``.
    random_state : int, RandomState instance or None, default=None
        Of inducing rows and minibatches, and of the draws (the same for all steps and calls; None is 0 for these).
    n_jobs : int or None, default=None
        Threads; results do not depend on it.
    warm_start : bool, default=False
        Whether exact inference over time steps and mean field start from the last solution, on the same inputs.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Labels that some step of the training data carries.
    inference_ : str
        "exact", "meanfield" or "sparse".
    kernel_ : "linear" or list of Kernel
    scale_, dependency_variance_ : float
    lower_bound_ : float
        Of the log pseudo-evidence, constants included, in nats.
    lower_bound_history_ : ndarray
        By sweep of the last fit of the variational distribution.
    n_iter_ : int
    converged_ : bool
    dependencies_ : tuple of int
    dependency_mean_, dependency_var_ : ndarray of shape (n_dependencies, n_labels, n_labels)
        Couplings from the label at the other step (rows) to the label at this one.
    coef_ : ndarray of shape (n_labels, n_features)
        Mean weights of a linear kernel.
    coef_var_ : ndarray of shape (n_labels, n_features)
        Their variances by mean field.
    X_train_, dual_coef_ : array or csr_array of shape (n_rows, n_features), ndarray of shape (n_rows, n_labels)
        With exact inference over time steps; ``n_rows`` are distinct.
    inducing_ : ndarray of shape (n_inducing, n_features)
        With sparse inference.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where ``X`` held data frames.

    Notes
    -----
    A sweep of exact inference takes a Cholesky factor of a matrix over all distinct steps (or columns) per label; one
    of mean field ten to fifty products of the stored values with n_labels columns; one of sparse inference
    O(n_labels * n_total * n_inducing**2). With "jensen", "tilted" and "bohning" the bound is jointly concave, so that
    the optimum does not depend on where a fit starts.

    Dependencies to both sides make the product of conditionals no distribution over labellings: the model has no
    likelihood and no samples, and decoding is a fixed point. Training sees true labels around a step, prediction
    guesses; where these are bad, ``dependencies=()``, ``decode="chain"`` or ``neighbours="stacked"`` may do better.

    References
    ----------
    Srijith, Balamurugan and Shevade, "Gaussian process pseudo-likelihood models for sequence labeling", ECML PKDD 2016.
    Khan, Mohamed, Marlin and Murphy, "A stick-breaking likelihood for categorical data analysis", AISTATS 2012.
    Knowles and Minka, "Non-conjugate variational message passing", NIPS 2011 (the tilted bound). MacKay, "Bayesian
    interpolation", 1992. Houlsby, Huszar, Ghahramani and Lengyel, "Bayesian active learning", 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import GPSequenceLabeler
    >>> X = [np.array([[1.0, -1.0], [1.0, 0.2], [1.0, 1.5]]), np.array([[1.0, 1.1], [1.0, 0.9]])]
    >>> y = [["off", "off", "on"], ["on", None]]
    >>> model = GPSequenceLabeler(scale=10.0).fit(X, y)
    >>> model.predict([[[1.0, -1.2], [1.0, 1.3], [1.0, 1.2]]])[0]
    array(['off', 'on', 'on'], dtype='<U3')
    """

    _parameter_constraints: dict = {
        "kernel": [StrOptions({"linear"}), Kernel, list, tuple],
        "dependencies": [tuple, list],
        "inference": [StrOptions({"auto", "exact", "meanfield", "sparse"})],
        "bound": [StrOptions(set(BOUNDS))],
        "posterior": [StrOptions({"joint", "factored"})],
        "scale": [Interval(Real, 0, None, closed="neither")],
        "dependency_variance": [Interval(Real, 0, 1e100, closed="neither")],
        "tied": ["boolean"],
        "neighbours": [StrOptions({"observed", "stacked"})],
        "optimizer": [None, StrOptions({"mackay", "fmin_l_bfgs_b"})],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "missing": [StrOptions({"drop", "impute", "raise"})],
        "decode": [StrOptions({"rns", "chain", "viterbi", "viterbi_mrf"})],
        "update_order": [StrOptions({"synchronous", "sequential"})],
        "variance_weight": [Interval(Real, 0, None, closed="left")],
        "damping": [Interval(Real, 0, 1, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter_predict": [Interval(Integral, 1, None, closed="left")],
        "tol_predict": [Interval(Real, 0, None, closed="left")],
        "n_samples": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel="linear",
        dependencies=(-1, 1),
        *,
        inference="auto",
        bound="tilted",
        posterior="joint",
        scale=1.0,
        dependency_variance=1.0,
        tied=False,
        neighbours="observed",
        optimizer=None,
        n_inducing=256,
        batch_size=None,
        missing="drop",
        decode="rns",
        update_order="synchronous",
        variance_weight=0.5,
        damping=0.5,
        max_iter=200,
        tol=1e-5,
        max_iter_predict=100,
        tol_predict=1e-4,
        n_samples=256,
        random_state=None,
        n_jobs=None,
        warm_start=False,
        verbose=0,
    ):
        self.kernel = kernel
        self.dependencies = dependencies
        self.inference = inference
        self.bound = bound
        self.posterior = posterior
        self.scale = scale
        self.dependency_variance = dependency_variance
        self.tied = tied
        self.neighbours = neighbours
        self.optimizer = optimizer
        self.n_inducing = n_inducing
        self.batch_size = batch_size
        self.missing = missing
        self.decode = decode
        self.update_order = update_order
        self.variance_weight = variance_weight
        self.damping = damping
        self.max_iter = max_iter
        self.tol = tol
        self.max_iter_predict = max_iter_predict
        self.tol_predict = tol_predict
        self.n_samples = n_samples
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.target_tags.missing_labels = tags.target_tags.candidate_sets = self.missing != "raise"
        tags.input_tags.sparse = is_linear(self.kernel)
        tags.probabilities = True
        tags.regularisation = "scale"
        tags.keeps_rows = not (is_linear(self.kernel) and self.inference == "meanfield")
        tags.fixed_units = not is_linear(self.kernel)
        tags.holds_out = self.neighbours == "stacked"
        tags.non_deterministic = self.neighbours == "stacked"  # folds follow the order of the sequences
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> GPSequenceLabeler:
        """Learn from labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of the log-probabilities of each sequence.

        Returns
        -------
        self : GPSequenceLabeler

        Raises
        ------
        ValueError
            If the input is not as described, parameters contradict each other, or exact inference would not fit into
            memory; the estimator is then left as it was.
        """
        lags = self._read_dependencies()
        batch = pack(X, accept_sparse=is_linear(self.kernel))
        labels = encode_training_labels(y, batch.offsets)
        if self.missing == "raise":
            raise_if_partial(labels, "Use missing='drop' or 'impute', or leave the sequence out.")
        weight = read_weights(sample_weight, batch.n_sequences)
        known = known_steps(labels, weight)
        labels = only_seen_labels(labels, known)
        if self.bound == "gh" and labels.n_labels != 2:
            raise ValueError(f"bound='gh' takes two labels, but y has {labels.n_labels}.")
        kernels = read_kernels(self.kernel, labels.n_labels)
        step_weight = np.repeat(weight, batch.lengths)[known]
        form = CouplingForm(lags, labels.n_labels, self.tied)
        values = batch.values[known]

        with _parallel.one_blas_thread(), np.errstate(over="ignore", under="ignore"):
            base = None
            if self.neighbours == "stacked" and lags:
                base, around = self._stack(batch, labels, weight)
                contexts = soft_neighbour_rows(around, batch.offsets, lags)
            else:
                contexts = neighbour_rows(labels.codes, batch.offsets, lags, labels.n_labels)

            def problem(contexts: Any) -> tuple[str, Any]:
                around = contexts[known]
                steps = LabelledSteps(labels.codes[known], step_weight, around, labels.n_labels)
                return self._inference(values, steps, form, kernels)

            with Progress(self.verbose, "GPSequenceLabeler", self.max_iter) as progress:
                route, inference = problem(contexts)
                if self.warm_start:
                    self._start_from_last(inference, route, labels.classes, batch)
                scales = Scales(float(self.scale), float(self.dependency_variance))
                kernels, scales, outcome = learn(
                    self.optimizer, inference, kernels, scales, self.max_iter, self.tol, progress
                )
                impute = self.missing == "impute" and lags and self.neighbours == "observed"
                for _ in range(_IMPUTE_ROUNDS if impute and not labels.is_complete().all() else 0):
                    if outcome.interrupted:
                        break
                    relaxed = self._relaxed_training(
                        inference.model(), inference.couplings(), lags, batch, labels.allowed()
                    )
                    last = inference
                    _, inference = problem(soft_neighbour_rows(relaxed, batch.offsets, lags))
                    if isinstance(inference, MeanField):
                        inference.moments = last.moments
                    outcome = inference.solve(kernels, scales, self.max_iter, self.tol, progress)
            model, couplings = inference.model(), inference.couplings()
        if not np.isfinite(inference.value):
            raise ValueError(
                "The lower bound left the range of doubles: features, kernel or scale are too large."
            )

        self._set_input_attributes(batch)
        self.classes_, self.dependencies_ = labels.classes, lags
        self.inference_ = route
        self.kernel_ = "linear" if kernels is None else kernels
        self.scale_, self.dependency_variance_ = scales.kernel, scales.coupling
        self.dependency_mean_, self.dependency_var_ = couplings
        self._set_model(model, inference)
        self.lower_bound_ = float(inference.value)
        self.lower_bound_history_ = np.array(inference.history)
        self.n_iter_, self.converged_ = outcome.n_iter, bool(outcome.converged)
        if hasattr(self, "base_labeler_"):
            del self.base_labeler_
        if base is not None:
            self.base_labeler_: GPSequenceLabeler = base
        if outcome.interrupted:
            raise KeyboardInterrupt
        self._warn_if_collapsed(batch)
        report(outcome, "Raise max_iter, loosen tol, lower scale, or scale the features (StandardScaler).")
        return self

    def _read_dependencies(self) -> tuple[int, ...]:
        lags = tuple(self.dependencies)
        for lag in lags:
            if isinstance(lag, bool) or not isinstance(lag, Integral) or lag == 0:
                raise ValueError(
                    f"dependencies is {self.dependencies!r}; expected distinct integers other than 0."
                )
        lags = tuple(int(lag) for lag in lags)
        if len(set(lags)) < len(lags):
            raise ValueError(
                f"dependencies is {self.dependencies!r}; expected distinct integers other than 0."
            )
        if any(abs(lag) > _FARTHEST for lag in lags):
            raise ValueError(f"dependencies is {lags}; expected integers of at most {_FARTHEST:,} steps.")
        if self.tied and not lags:
            raise ValueError("tied=True needs both signs of each dependency, but dependencies is empty.")
        if self.tied and set(lags) != {-lag for lag in lags}:
            raise ValueError(f"tied=True needs both signs of each dependency, but dependencies is {lags}.")
        if self.inference == "meanfield" and not is_linear(self.kernel):
            raise ValueError(
                "inference='meanfield' takes kernel='linear'; use 'sparse' or 'exact' with others."
            )
        if self.inference == "sparse" and is_linear(self.kernel):
            raise ValueError(
                "inference='sparse' takes a kernel object; use 'meanfield' with 'linear', or DotProduct."
            )
        if self.batch_size is not None and (self.posterior == "factored" or self.tied):
            raise ValueError("batch_size needs posterior='joint' and tied=False.")
        self._check_decoder(self.decode, lags)
        return lags

    def _inference(
        self, values: Any, steps: LabelledSteps, form: CouplingForm, kernels: Kernels
    ) -> tuple[str, FullCovariance | MeanField]:
        """The kind of inference, and the problem that it solves."""
        joint, n_jobs = self.posterior == "joint", self.n_jobs
        route = self.inference
        if kernels is None:
            group = group_columns(values)
            n_columns = int(group.max()) + 1 + (form.shape[0] * form.n_labels if joint else 0)
            size = min(len(steps.codes), n_columns)
            if route == "auto":
                route = "exact" if steps.n_labels * float(size) ** 3 <= _EXACT_LINEAR else "meanfield"
            if route == "meanfield":
                return route, MeanField(values, steps, form, self.bound, group=group, n_jobs=n_jobs)
            check_memory("inference='exact'", size, steps.n_labels + 3, _CURE)
            by_column = group if n_columns < len(steps.codes) else None
            found = FullCovariance(
                values, steps, form, self.bound, joint=joint, group=by_column, n_jobs=n_jobs
            )
            return route, found
        rows, _ = distinct_rows(values)
        if route == "auto":
            route = "exact" if steps.n_labels * float(len(rows)) ** 3 <= _EXACT_KERNEL else "sparse"
        if route == "exact":
            check_memory("inference='exact'", len(rows), steps.n_labels + 3, _CURE)
            return route, FullCovariance(values, steps, form, self.bound, joint=joint, n_jobs=n_jobs)
        random = check_random_state(self.random_state)
        found = FullCovariance(
            values,
            steps,
            form,
            self.bound,
            joint=joint,
            inducing=inducing_rows(rows, int(self.n_inducing), random),
            batch_size=self.batch_size,
            seed=0 if self.batch_size is None else int(random.randint(np.iinfo(np.int32).max)),
            n_jobs=n_jobs,
        )
        return route, found

    def _stack(
        self, batch: PackedBatch, labels: LabelCodes, weight: np.ndarray
    ) -> tuple[GPSequenceLabeler, np.ndarray]:
        """A model without dependencies, and what it says of sequences that it has not seen."""
        counted = np.flatnonzero(weight > 0)
        if len(counted) < 2:
            raise ValueError("neighbours='stacked' holds sequences out; two or more are needed.")
        X = list(batch.unpack(batch.values)) if not batch.is_sparse else _cut_sparse(batch)
        y = _as_objects(labels)
        plain = clone(self).set_params(
            dependencies=(),
            decode="rns",
            neighbours="observed",
            tied=False,
            warm_start=False,
            n_jobs=None,
            verbose=0,
        )
        around = np.full((batch.n_total, labels.n_labels), 1.0 / labels.n_labels)
        for train, test in KFold(min(_STACK_FOLDS, len(counted))).split(counted):
            train, test = counted[train], counted[test]
            if not any(label is not None for s in train for label in y[s]):
                continue
            model = self._for_labels(plain, labels, train)
            model.fit([X[s] for s in train], [y[s] for s in train], weight[train])
            columns = np.searchsorted(labels.classes, model.classes_)
            for s, proba in zip(test, model.predict_proba([X[s] for s in test]), strict=True):
                rows = slice(batch.offsets[s], batch.offsets[s + 1])
                around[rows] = 0.0
                around[rows, columns] = proba
        return plain.fit([X[s] for s in counted], [y[s] for s in counted], weight[counted]), around

    def _for_labels(
        self, plain: GPSequenceLabeler, labels: LabelCodes, sequences: np.ndarray
    ) -> GPSequenceLabeler:
        """An unfitted model of those labels alone that occur in some sequences."""
        codes = labels.take(sequences).codes
        occurring = np.unique(codes[codes >= 0])
        model = clone(plain)
        if isinstance(self.kernel, list | tuple):
            model.set_params(kernel=[self.kernel[j] for j in occurring])
        if len(occurring) < labels.n_labels and self.bound == "gh":
            model.set_params(bound="tilted")  # one label needs no bound
        return model

    def _start_from_last(
        self, inference: FullCovariance | MeanField, route: str, classes: np.ndarray, batch: PackedBatch
    ) -> None:
        """Continue where the last fit ended, if it saw the same inputs and labels."""
        same = getattr(self, "inference_", None) == route and np.array_equal(self.classes_, classes)
        if not same or self.n_features_in_ != batch.n_features or self.dependencies_ != inference.form.lags:
            return
        last = self._model()
        if isinstance(last, MeanFieldModel) and isinstance(inference, MeanField):
            if not self.tied and np.array_equal(last.group, inference.group):
                shape = inference.form.shape
                tables = self.dependency_mean_.reshape(shape), self.dependency_var_.reshape(shape)
                inference.moments = WeightMoments(last.mean, last.variance, *tables)
        elif isinstance(last, RowModel) and isinstance(inference, FullCovariance):
            if last.dual.shape[0] == inference.rows.shape[0] and inference.joint:
                difference = last.rows - inference.rows
                if (abs(difference).max() if difference.size else 0.0) == 0.0:
                    inference.start = last.dual, self.dual_precision_

    def _set_model(self, model: LatentModel, inference: FullCovariance | MeanField) -> None:
        """Keep what predicts under the names that users see."""
        for kind in (RowModel, FeatureModel, MeanFieldModel):
            for attribute in kind.names.values():
                if hasattr(self, attribute):
                    delattr(self, attribute)
        if hasattr(self, "dual_precision_"):
            del self.dual_precision_
        for field, attribute in model.names.items():
            setattr(self, attribute, getattr(model, field))
        if isinstance(model, RowModel) and isinstance(inference, FullCovariance):
            self.dual_precision_: np.ndarray = inference.precisions

    def _warn_if_collapsed(self, batch: PackedBatch) -> None:
        if self.optimizer is None:
            return
        rows = batch.values[:_ROWS_LOOKED_AT]
        kernels = None if isinstance(self.kernel_, str) else self.kernel_
        own = squared_norms(rows) if kernels is None else np.mean([one.diag(rows) for one in kernels], axis=0)
        variance = self.scale_ * float(own.mean())
        if variance < _COLLAPSED:
            which, cure = ("Jensen's", "bound='tilted', or ") if self.bound == "jensen" else ("the lower", "")
            warnings.warn(
                f"The learnt prior variance of the latent functions is {variance:.2g}: {which} bound prefers a "
                f"model that learns nothing. Use {cure}optimizer=None and a search over scale.",
                UserWarning,
                stacklevel=3,
            )
        elif at_limit(Scales(self.scale_, self.dependency_variance_)):
            warnings.warn(
                f"The learnt prior variances are {self.scale_:.1g} and {self.dependency_variance_:.1g}, the limit of "
                "the search. Use optimizer=None and a search over scale, or another kernel.",
                UserWarning,
                stacklevel=3,
            )


def _cut_sparse(batch: PackedBatch) -> list[Any]:
    return [batch.values[a:b] for a, b in pairwise(batch.offsets)]


def _as_objects(labels: LabelCodes) -> list[list[Any]]:
    """Known labels as users give them, None elsewhere."""
    names = labels.classes.tolist()
    codes = labels.codes.tolist()
    return [[names[c] if c >= 0 else None for c in codes[a:b]] for a, b in pairwise(labels.offsets)]
