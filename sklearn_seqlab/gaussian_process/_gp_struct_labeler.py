"""Bayesian structured prediction with Gaussian processes, by sampling."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import cholesky, solve, solve_triangular
from scipy.special import entr, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state

from sklearn_seqlab import _parallel
from sklearn_seqlab._level_labeler import SamplingLabeler
from sklearn_seqlab._progress import Progress
from sklearn_seqlab._sklearn_private import Interval, StrOptions, _fit_context
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.gaussian_process._kernels import (
    check_memory,
    distinct_rows,
    group_columns,
    is_linear,
    merge_columns,
    read_kernels,
    squared_norms,
)
from sklearn_seqlab.gaussian_process._mcmc_diagnostics import effective_sample_size, split_rhat
from sklearn_seqlab.gaussian_process._posterior_draws import PosteriorDraws, averaged_marginals
from sklearn_seqlab.gaussian_process._slice_sampling import (
    ChainLikelihood,
    SampledChain,
    State,
    sample_chain,
)
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    encode_labels,
    encode_training_labels,
    pack,
    read_weights,
)

__all__ = ["GPStructLabeler"]

# A split R-hat above this says that halves of chains disagree.
_MIXED = 1.1


class GPStructLabeler(SamplingLabeler):
    """Chain conditional random field with Gaussian-process scores, sampled (GPstruct).

    The score of a label at a step is a Gaussian process in the inputs, transitions have a normal prior, and labellings
    have the probabilities of a chain. Elliptical slice sampling draws scores and transitions from their posterior;
    predictions average the chains of all kept draws.

    Parameters
    ----------
    kernel : "linear", Kernel or list of Kernel, default="linear"
        Prior covariance of the score of each label. "linear" (dense or sparse ``X``) samples weights, an object of
        :mod:`sklearn.gaussian_process.kernels`, or one per label in the order of ``classes_``, scores of the distinct
        training steps.
    scale : float, default=1.0
        What the kernel is multiplied by.
    transition_variance : float, default=1.0
        Prior variance of transition scores.
    n_samples : int, default=5000
        Steps of each Markov chain.
    burn_in : float, default=1/3
        Share of the steps that are thrown away.
    thin : int, default=10
        Keep a state every so many steps.
    jitter : float, default=1e-4
        Added to the diagonal of the kernel of training steps.
    n_chains : int, default=1
        Independent Markov chains, on ``n_jobs`` threads.
    latent : {"mean", "sample"}, default="mean"
        What a kept draw says of new steps: the mean given it (as the authors' code), or a draw given it.
    hyper : None or "slice", default=None
        "slice" samples the logarithms of ``scale`` and ``transition_variance`` too, with a normal prior of deviation
        one around those given.
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None
        Threads; results do not depend on it.
    verbose : int, default=0
        1 shows the progress of ``fit``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
    transition_samples_ : ndarray of shape (n_kept, n_labels, n_labels)
        Transition scores of the kept draws, chain after chain.
    weight_samples_ : ndarray of shape (n_kept, n_columns, n_labels)
        Sums of the weights of columns that were equal in training (linear; with ``latent="mean"`` their means given the
        scores of training steps), else multipliers of the kernel with ``X_train_``.
    variance_samples_ : ndarray of shape (n_kept, 2)
        ``scale`` and ``transition_variance`` of the kept draws.
    log_likelihood_trace_ : ndarray of shape (n_chains, n_samples)
        In nats; a trace that still rises has not mixed.
    rhat_ : float
        Largest split R-hat of log-likelihood and transition scores over the kept draws.
    n_effective_ : float
        Smallest effective sample size of these.
    n_likelihood_evals_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where ``X`` held data frames.

    Notes
    -----
    A step takes O(stored values * n_labels) for a linear kernel, O(n_rows**2 * n_labels) for others, and about nine
    likelihoods of O(n_total * n_labels**2). Missing labels are summed out. With known labels at prediction, draws are
    weighed by how probable they make them.

    References
    ----------
    Bratieres, Quadrianto and Ghahramani, "GPstruct: Bayesian structured prediction using Gaussian processes", IEEE
    TPAMI 2015. Murray, Adams and MacKay, "Elliptical slice sampling", AISTATS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_seqlab import GPStructLabeler
    >>> X = [np.array([[1.0, -1.0], [1.0, 0.2], [1.0, 1.5]]), np.array([[1.0, 1.1], [1.0, 0.9]])]
    >>> y = [["off", "off", "on"], ["on", None]]
    >>> model = GPStructLabeler(scale=10.0, n_samples=600, random_state=0).fit(X, y)
    >>> model.predict([[[1.0, -1.2], [1.0, 1.3], [1.0, 1.2]]])[0]
    array(['off', 'on', 'on'], dtype='<U3')
    """

    _parameter_constraints: dict = {
        "kernel": [StrOptions({"linear"}), Kernel, list, tuple],
        "scale": [Interval(Real, 0, None, closed="neither")],
        "transition_variance": [Interval(Real, 0, None, closed="neither")],
        "n_samples": [Interval(Integral, 2, None, closed="left")],
        "burn_in": [Interval(Real, 0, 1, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "jitter": [Interval(Real, 0, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "latent": [StrOptions({"mean", "sample"})],
        "hyper": [None, StrOptions({"slice"})],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel="linear",
        *,
        scale=1.0,
        transition_variance=1.0,
        n_samples=5000,
        burn_in=1 / 3,
        thin=10,
        jitter=1e-4,
        n_chains=1,
        latent="mean",
        hyper=None,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.scale = scale
        self.transition_variance = transition_variance
        self.n_samples = n_samples
        self.burn_in = burn_in
        self.thin = thin
        self.jitter = jitter
        self.n_chains = n_chains
        self.latent = latent
        self.hyper = hyper
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.target_tags.missing_labels = tags.target_tags.candidate_sets = True
        tags.input_tags.sparse = is_linear(self.kernel)
        tags.probabilities = tags.pairwise = tags.likelihood = True
        tags.regularisation = "scale"
        tags.keeps_rows = tags.fixed_units = not is_linear(self.kernel)
        tags.non_deterministic = True  # draws are dealt out in the order of the data
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> GPStructLabeler:
        """Draw scores and transitions given labelled sequences.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Labels (str, int or bool), None where missing, or a set of candidate labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Nonnegative weight of the log-likelihood of each sequence.

        Returns
        -------
        self : GPStructLabeler

        Warns
        -----
        ConvergenceWarning
            If the kept draws have not mixed (split R-hat above 1.1).

        Raises
        ------
        ValueError
            If the input is not as described; the estimator is then left as it was.
        """
        whole = pack(X, accept_sparse=is_linear(self.kernel))
        labels = encode_training_labels(y, whole.offsets)
        weight = read_weights(sample_weight, whole.n_sequences)
        chosen = np.flatnonzero((weight > 0) & labels.is_informative())
        if not len(chosen):
            raise ValueError("y holds no label where sample_weight is positive: nothing to learn from.")
        kernels = read_kernels(self.kernel, labels.n_labels)
        batch, labels, weight = whole.take(chosen), labels.take(chosen), weight[chosen]
        n_chains, n_steps = int(self.n_chains), int(self.n_samples)
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=n_chains)
        variances = float(self.scale), float(self.transition_variance)
        with (
            _parallel.one_blas_thread(),
            np.errstate(over="ignore", under="ignore"),
            Progress(self.verbose, "GPStructLabeler", n_steps) as progress,
        ):
            if kernels is None:
                if not np.isfinite(squared_norms(batch.values)).all():
                    raise ValueError(
                        "The features are too large for double precision: scale them (StandardScaler)."
                    )
                group = group_columns(batch.values)
                kept = {"feature_group_": group}
                draw, index = _weight_prior(batch.values, group, labels.n_labels), np.arange(batch.n_total)
                roots: list[np.ndarray] = []
            else:
                rows, index = distinct_rows(batch.values)
                check_memory("A kernel", len(rows), len(kernels) + 2, "use kernel='linear', or fewer steps")
                roots = [self._root(kernel(rows)) for kernel in kernels]
                draw = _score_prior(roots, labels.n_labels)
                kept = {"X_train_": rows, "gram_root_": np.array(roots)}
            likelihood = ChainLikelihood(
                labels.codes, labels.allowed(), labels.is_complete(), batch.offsets, weight, index
            )

            def run(k: int) -> SampledChain:
                return sample_chain(
                    draw,
                    likelihood,
                    variances,
                    n_steps=n_steps,
                    first_kept=min(int(np.ceil(float(self.burn_in) * n_steps)), n_steps - 1),
                    thin=int(self.thin),
                    learn_variances=self.hyper == "slice",
                    random=np.random.RandomState(seeds[k]),
                    callback=progress if k == 0 else None,
                )

            chains = _parallel.run(run, range(n_chains), self.n_jobs)
        interrupted = any(chain.interrupted for chain in chains)
        # of chains that were interrupted at different steps, what all of them have
        n_kept = min(len(chain.kept) for chain in chains)
        if not n_kept:
            raise KeyboardInterrupt
        n_done = min(len(chain.log_likelihood) for chain in chains)
        white = np.array([part for chain in chains for part in chain.white[:n_kept]])
        if kernels is None and self.latent == "mean":
            with _parallel.one_blas_thread():
                white = _seen_weights(batch.values, group, white, float(self.jitter))
        transition = np.array([part for chain in chains for part in chain.transition[:n_kept]])
        log_variances = np.array([part for chain in chains for part in chain.log_variances[:n_kept]])
        trace = np.array([chain.log_likelihood[:n_done] for chain in chains])
        monitored = np.concatenate(
            [
                trace[:, chains[0].kept[:n_kept], None],
                transition.reshape(n_chains, n_kept, -1),
            ],
            axis=2,
        )

        self._set_input_attributes(whole)
        self.classes_ = labels.classes
        self.kernel_ = "linear" if kernels is None else kernels
        for name in ("feature_group_", "X_train_", "gram_root_"):
            if hasattr(self, name):
                delattr(self, name)
        for name, value in kept.items():
            setattr(self, name, value)
        self.weight_samples_ = self._weights(white, roots)
        self.transition_samples_ = transition
        self.variance_samples_ = np.exp(log_variances)
        self.log_likelihood_trace_ = trace
        self.rhat_ = float(np.max(split_rhat(monitored)))
        self.n_effective_ = float(np.min(effective_sample_size(monitored)))
        self.n_likelihood_evals_ = sum(chain.n_evaluations for chain in chains)
        self._seed = int(seeds[0])
        if interrupted:
            raise KeyboardInterrupt
        if not self.rhat_ <= _MIXED:
            warnings.warn(
                f"The draws have not mixed: split R-hat is {self.rhat_:.2f} over {n_kept} kept of {n_chains} chains. "
                "Raise n_samples, or scale the features (StandardScaler).",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Label every time step by its most probable label.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y_observed : list of array-like of shape (n_timesteps,) or None, default=None
            What is known already: labels with None at free steps, or sets of candidates; None in place of a whole
            sequence if nothing is. Known labels come back exactly.

        Returns
        -------
        y : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps,) per sequence.
        """
        batch, known = self._pack_known(X, y_observed)
        proba = np.concatenate([part[0] for part in self._map(batch, known, averaged_marginals)])
        if known is not None:
            proba = np.where(known.allowed(), proba, -1.0)
        return batch.unpack(self.classes_[proba.argmax(axis=1)])

    def predict_proba(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Posterior probability of each label at each step.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps, n_labels) per sequence, columns in the order of ``classes_``.
        """
        batch, known = self._pack_known(X, y_observed)
        return batch.unpack(np.concatenate([part[0] for part in self._map(batch, known, averaged_marginals)]))

    def predict_information(self, X: Any, y_observed: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """How uncertain each step is, and how much of that a label there would teach the model.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        entropy, information : object ndarrays of shape (n_sequences,)
            Arrays of shape (n_timesteps,), in nats: the entropy of ``predict_proba``, and that less the mean entropy
            under the draws ("BALD").
        """
        batch, known = self._pack_known(X, y_observed)
        parts = self._map(batch, known, averaged_marginals)
        entropy = entr(np.concatenate([part[0] for part in parts])).sum(axis=1)
        information = np.maximum(entropy - np.concatenate([part[1] for part in parts]), 0.0)
        return batch.unpack(entropy), batch.unpack(information)

    def predict_pairwise(self, X: Any, y_observed: Any = None) -> np.ndarray:
        """Posterior probability of each pair of neighbouring labels.

        Parameters
        ----------
        X, y_observed
            As in :meth:`predict`.

        Returns
        -------
        pairwise : object ndarray of shape (n_sequences,)
            One array of shape (n_timesteps - 1, n_labels, n_labels) per sequence; entry ``[t, i, j]`` is the
            probability of label ``i`` at step ``t`` and ``j`` at step ``t + 1``.
        """
        batch, known = self._pack_known(X, y_observed)

        def work(draws: PosteriorDraws) -> np.ndarray:
            share = draws.shares()
            total = np.zeros((len(draws.index), draws.n_labels, draws.n_labels))
            for k, chains in draws.known_chains():
                _, _, edge = chains.with_moves_per_step().forward_backward()
                total += share[k][draws.index][:, None, None] * edge
            return total

        parts = np.concatenate(self._map(batch, known, work, len(self.classes_) ** 2))
        matrices = np.empty(batch.n_sequences, dtype=object)
        for s, (start, stop) in enumerate(pairwise(batch.offsets)):
            matrices[s] = parts[start + 1 : stop].copy()
        return matrices

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Log of the posterior predictive probability of the labels given the inputs, sequence by sequence.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,)
            Where labels are missing, or only sets of candidates are known, the probabilities of all labellings that
            fit are summed.

        Returns
        -------
        log_likelihood : ndarray of shape (n_sequences,)
            In nats; minus infinity where a label was not seen in ``fit``, 0 where nothing is known.
        """
        batch = self._pack(X)
        labels = encode_labels(y, batch.offsets, classes=self.classes_, unseen="mark")
        parts = self._map(batch, labels, lambda draws: draws.log_fits())
        log_p = np.concatenate([logsumexp(part, axis=0) - np.log(len(part)) for part in parts])
        return np.minimum(log_p, 0.0)

    def _draw(self, batch: PackedBatch, n_samples: int, seeds: np.ndarray) -> list[np.ndarray]:
        # all sequences of a sample share one draw of the model
        chosen = np.random.RandomState([seeds[0], 1]).randint(len(self.transition_samples_), size=n_samples)

        def work(draws: PosteriorDraws) -> np.ndarray:
            codes = np.empty((n_samples, len(draws.index)), dtype=np.intp)
            generator = np.random.RandomState(seeds[draws.first])
            for k, chains in draws.chains():
                wanted = np.flatnonzero(chosen == k)
                if len(wanted):
                    codes[wanted] = chains.sample(len(wanted), generator)
            return codes

        return list(self.classes_[np.concatenate(self._map(batch, None, work), axis=1)])

    def _root(self, gram: np.ndarray) -> np.ndarray:
        gram[np.diag_indices_from(gram)] += float(self.jitter)
        try:
            return cholesky(gram, lower=True)
        except ValueError as error:  # LinAlgError is one
            raise ValueError(
                f"The kernel of the training steps has no Cholesky factor with jitter={self.jitter:g}: it may be none "
                "that is positive definite; else raise jitter, or scale the features (StandardScaler)."
            ) from error

    @staticmethod
    def _weights(white: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
        """What kept coordinates multiply: features, or kernels with training rows."""
        if not roots:
            return white
        _n_kept, _n_rows, n_labels = white.shape
        weights = np.empty_like(white)
        for j in range(n_labels):
            root = roots[j if len(roots) > 1 else 0]
            weights[:, :, j] = solve_triangular(root, white[:, :, j].T, lower=True, trans="T").T
        return weights

    def _map(
        self,
        batch: PackedBatch,
        known: LabelCodes | None,
        work: Callable[[PosteriorDraws], Any],
        doubles_per_step: int = 0,
    ) -> list[Any]:
        """``work`` on the scores of each chunk of sequences under all draws, on ``n_jobs`` threads."""
        n_labels = len(self.classes_)
        allowed = None if known is None else known.allowed()

        def task(bound: tuple[int, int]) -> Any:
            first, last = bound
            start, stop = int(batch.offsets[first]), int(batch.offsets[last])
            fits = None if allowed is None else allowed[start:stop]
            offsets = batch.offsets[first : last + 1] - start
            return work(PosteriorDraws(self, batch.values[start:stop], offsets, first, fits))

        bounds = _parallel.chunk_bounds(batch.offsets, max(n_labels, doubles_per_step))
        with _parallel.one_blas_thread(), np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return _parallel.run(task, bounds, self.n_jobs)


def _weight_prior(values: Any, group: np.ndarray, n_labels: int) -> Callable[[np.random.RandomState], State]:
    """Independent normal weights; those of equal columns are drawn by their sum."""
    merged = merge_columns(values, group)
    roots = np.sqrt(np.bincount(group))[:, None]

    def draw(random: np.random.RandomState) -> State:
        weights = roots * random.standard_normal((len(roots), n_labels))
        return State(weights, merged @ weights, random.standard_normal((n_labels, n_labels)))

    return draw


def _seen_weights(values: Any, group: np.ndarray, weights: np.ndarray, jitter: float) -> np.ndarray:
    """Mean weights given the scores of training steps, for each draw of weights (n_kept, n_columns, n_labels).

    What a draw says of inputs that training steps do not have is noise: the mean leaves it out.
    """
    merged = merge_columns(values, group)
    merged = merged.toarray() if sparse.issparse(merged) else merged
    size = np.bincount(group)[:, None].astype(float)
    n_kept, n_columns, n_labels = weights.shape
    flat = weights.transpose(1, 0, 2).reshape(n_columns, -1)
    scores = merged @ flat
    least = max(jitter, 1e-10)
    if n_columns <= len(merged):
        precision = merged.T @ merged + least * np.diag(1.0 / size[:, 0])
        mean = solve(precision, merged.T @ scores, assume_a="pos")
    else:
        gram = (merged * size[:, 0]) @ merged.T
        gram[np.diag_indices_from(gram)] += least
        mean = size * (merged.T @ solve(gram, scores, assume_a="pos"))
    return np.ascontiguousarray(mean.reshape(n_columns, n_kept, n_labels).transpose(1, 0, 2))


def _score_prior(roots: list[np.ndarray], n_labels: int) -> Callable[[np.random.RandomState], State]:
    """Scores of distinct training steps."""

    def draw(random: np.random.RandomState) -> State:
        white = random.standard_normal((len(roots[0]), n_labels))
        if len(roots) == 1:
            unary = roots[0] @ white
        else:
            unary = np.column_stack([root @ white[:, j] for j, root in enumerate(roots)])
        return State(white, unary, random.standard_normal((n_labels, n_labels)))

    return draw
