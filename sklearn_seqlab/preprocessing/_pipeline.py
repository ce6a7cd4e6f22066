"""A pipeline over lists of sequences that holds plain scikit-learn transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._sklearn_private import _routing_enabled
from sklearn_seqlab.preprocessing._sequence_transformer import SequenceTransformer, acts_on_sequences

__all__ = ["SequencePipeline", "make_sequence_pipeline"]

_FORWARDED = (
    "joint_log_likelihood",
    "log_likelihood",
    "predict_boundary_proba",
    "predict_marginals",
    "predict_n_best",
    "predict_pairwise",
    "predict_segments",
    "sample",
    "score_samples",
    "staged_predict",
)
"""Methods (X, ...) of sequence labellers that scikit-learn's pipeline does not know, or would run on bare steps."""


def _last_step_has(name: str) -> Callable[[Any], bool]:
    def check(self: SequencePipeline) -> bool:
        getattr(self._final_estimator, name)  # its own AttributeError
        return True

    return check


def _with_known(y_observed: Any, params: dict[str, Any]) -> dict[str, Any]:
    return params if y_observed is None else {**params, "y_observed": y_observed}


def _can_transform(self: SequencePipeline) -> bool:
    return self._final_estimator == "passthrough" or hasattr(self._final_estimator, "transform")


def _can_fit_transform(self: SequencePipeline) -> bool:
    return _can_transform(self) or hasattr(self._final_estimator, "fit_transform")


def _can_inverse_transform(self: SequencePipeline) -> bool:
    return all(hasattr(step, "inverse_transform") for _, _, step in self._iter())


class SequencePipeline(Pipeline):
    """Transformers of time steps or of sequences, and a sequence labeller at the end.

    A ``Pipeline`` of scikit-learn whose transformers of rows (scalers, decompositions, ``ColumnTransformer``,
    ...) see the time steps of all sequences as one table. It holds the transformers as they were given, so
    parameters are named as usual (``pca__n_components``) and ``pipe["pca"].components_`` can be read; each is
    wrapped in a :class:`SequenceTransformer` only while it runs. Steps that take sequences by themselves
    (:class:`SequenceTransformer`, windows, the vectorisers of ``feature_extraction``, classes of your own
    with ``_acts_on_sequences = True``) run unwrapped.

    Whatever the last step can do the pipeline can: besides the methods listed here ``predict(X,
    y_observed=...)``, ``predict_pairwise``, ``predict_segments``, ``predict_n_best``, ``log_likelihood``,
    ``sample`` and others exist exactly if the last step has them.

    Parameters
    ----------
    steps : list of tuples
        (name, estimator) pairs.
    transform_input : list of str, default=None
        As in :class:`sklearn.pipeline.Pipeline`.
    memory : str or object with the joblib.Memory interface, default=None
        Where to cache fitted transformers.
    verbose : bool, default=False
        Whether to print the time that each step takes.

    Attributes
    ----------
    named_steps : Bunch
        The steps by name. After :meth:`fit` the transformers are fitted clones of those given.
    classes_ : ndarray of shape (n_labels,)
        The labels that the last step knows.
    n_features_in_ : int
        Number of features that the first step saw.

    See Also
    --------
    make_sequence_pipeline : The same with names made from the classes.
    SequenceTransformer : One transformer, for use in any pipeline.

    Notes
    -----
    A fit that fails leaves the transformers as they were, and so the last step if it keeps this promise.
    Fitted pipelines may predict from several threads at once. The parameters of ``fit`` are those of
    :class:`sklearn.pipeline.Pipeline`: ``name__sample_weight`` or metadata routing, one weight per sequence.
    """

    _acts_on_sequences = True
    steps: list[tuple[str, Any]]

    def fit(self, X: Iterable[Any], y: Any = None, **params: Any) -> SequencePipeline:
        """Fit the transformers one after the other, then the last step.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
            What the first step takes.
        y : list of array-like of shape (n_timesteps,), default=None
            Labels, some of which may be missing.
        **params : dict
            ``step__parameter``, or metadata that the steps request where routing is enabled.

        Returns
        -------
        self : SequencePipeline

        Raises
        ------
        ValueError, TypeError
            What the steps raise, or if ``steps`` are not such that a pipeline can be made of them.
        """
        running = self._to_fit()
        running.fit(X, y, **params)
        self._adopt(running)
        return self

    @available_if(_can_fit_transform)
    def fit_transform(self, X: Iterable[Any], y: Any = None, **params: Any) -> list[Any]:
        """Fit all steps, the last of which is a transformer too, and transform the same sequences.

        Parameters
        ----------
        X, y, **params
            As in :meth:`fit`.

        Returns
        -------
        Xt : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features_out)
        """
        running = self._to_fit()
        transformed = running.fit_transform(X, y, **params)
        self._adopt(running)
        return transformed

    @available_if(_last_step_has("fit_predict"))
    def fit_predict(self, X: Iterable[Any], y: Any = None, **params: Any) -> Any:
        """Fit the transformers and call ``fit_predict`` of the last step.

        Parameters
        ----------
        X, y, **params
            As in :meth:`fit`.

        Returns
        -------
        y_pred : object array of n_sequences arrays
        """
        running = self._to_fit()
        y_pred = running.fit_predict(X, y, **params)
        self._adopt(running)
        return y_pred

    @available_if(_can_transform)
    def transform(self, X: Iterable[Any], **params: Any) -> list[Any]:
        """Transform sequences by all steps.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
        **params : dict
            Metadata that the steps request, where routing is enabled.

        Returns
        -------
        Xt : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features_out)
        """
        return self._fitted().transform(X, **params)

    @available_if(_can_inverse_transform)
    def inverse_transform(self, X: Iterable[Any], **params: Any) -> list[Any]:
        """Undo all steps in reverse order.

        Parameters
        ----------
        X : list of array-like of shape (n_timesteps, n_features_out)
        **params : dict
            Metadata that the steps request, where routing is enabled.

        Returns
        -------
        X_original : list of array-like of shape (n_timesteps, n_features)
        """
        return self._fitted().inverse_transform(X, **params)

    @available_if(_last_step_has("predict"))
    def predict(self, X: Iterable[Any], y_observed: Any = None, **params: Any) -> Any:
        """Labels of the transformed sequences, by the last step.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
        y_observed : list of array-like of shape (n_timesteps,) or None, default=None
            What is known of the labels already, as the last step takes it; it needs no routing request.
        **params : dict
            Whatever else the last step's ``predict`` takes, or metadata that the steps request where
            routing is enabled.

        Returns
        -------
        y_pred : object array of n_sequences arrays
        """
        return self._predict("predict", X, _with_known(y_observed, params))

    @available_if(_last_step_has("predict_proba"))
    def predict_proba(self, X: Iterable[Any], y_observed: Any = None, **params: Any) -> Any:
        """Probabilities of the labels at every time step, by the last step.

        Parameters
        ----------
        X, y_observed, **params
            As in :meth:`predict`.

        Returns
        -------
        y_proba : object array of n_sequences arrays of shape (n_timesteps, n_labels)
        """
        return self._predict("predict_proba", X, _with_known(y_observed, params))

    @available_if(_last_step_has("predict_log_proba"))
    def predict_log_proba(self, X: Iterable[Any], **params: Any) -> Any:
        """Log-probabilities of the labels at every time step, by the last step.

        Parameters
        ----------
        X, **params
            As in :meth:`predict`.

        Returns
        -------
        y_log_proba : object array of n_sequences arrays of shape (n_timesteps, n_labels)
        """
        return self._predict("predict_log_proba", X, params)

    @available_if(_last_step_has("decision_function"))
    def decision_function(self, X: Iterable[Any], y_observed: Any = None, **params: Any) -> Any:
        """Scores of the labels at every time step, by the last step.

        Parameters
        ----------
        X, y_observed, **params
            As in :meth:`predict`.

        Returns
        -------
        y_score : object array of n_sequences arrays of shape (n_timesteps, n_labels)
        """
        return self._predict("decision_function", X, _with_known(y_observed, params))

    @available_if(_last_step_has("predict_online"))
    def predict_online(self, lag: int = 0) -> Any:
        """Label a stream one time step at a time.

        Parameters
        ----------
        lag : int, default=0
            As in the ``predict_online`` of the last step.

        Returns
        -------
        stream : object
            ``step(x)`` takes the features of one time step, shape (n_features,), as they are before the first
            transformer, and ``finish()`` ends the stream, as in the last step.

        Raises
        ------
        ValueError
            If a transformer takes whole sequences, which a stream never is.
        """
        for name, step in self.steps[:-1]:
            if acts_on_sequences(step):
                raise ValueError(
                    f"Step {name!r} transforms whole sequences; predict_online sees single steps."
                )
        running = self._fitted()
        stream = running.steps[-1][1].predict_online(lag=lag)
        return _TransformedStream(running[:-1], stream) if len(running) > 1 else stream

    @available_if(_last_step_has("score"))
    def score(self, X: Iterable[Any], y: Any = None, sample_weight: Any = None, **params: Any) -> float:
        """Score of the last step on the transformed sequences.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
        y : list of array-like of shape (n_timesteps,), default=None
        sample_weight : array-like of shape (n_sequences,), default=None
        **params : dict
            Metadata that the steps request, where routing is enabled.

        Returns
        -------
        score : float
        """
        if sample_weight is None and not params:
            # scikit-learn routes even a weight of None, which a last step that declines weights refuses
            return self._run("score", X, (y,), {})
        return self._fitted().score(X, y, sample_weight=sample_weight, **params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        try:
            tags.target_tags = deepcopy(get_tags(self.steps[-1][1]).target_tags)
        except (IndexError, ValueError, AttributeError, TypeError):
            pass  # steps that are no steps: fit says so
        return tags

    def _to_fit(self) -> Pipeline:
        """A plain pipeline of wrapped, unfitted copies of the transformers, and the last step itself."""
        if not self.steps:
            raise ValueError("The pipeline is empty. Please add steps.")
        self._validate_steps()
        last = len(self.steps) - 1
        steps = []
        for k, (name, step) in enumerate(self.steps):
            if step is None or isinstance(step, str):
                steps.append((name, step))
            elif _is_wrapped(step, is_last=k == last):
                steps.append((name, SequenceTransformer(step)))
            else:
                # a copy, so that a failure further on leaves the fitted one in place
                steps.append((name, step if k == last else clone(step)))
        return self._plain(steps)

    def _adopt(self, running: Pipeline) -> None:
        """Take the fitted transformers out of their wrappers."""
        steps = []
        for (name, own), (_, step) in zip(self.steps, running.steps, strict=True):
            is_unwrapped = step is not own and isinstance(step, SequenceTransformer)
            if is_unwrapped and not isinstance(own, SequenceTransformer):
                step = step.transformer_
            steps.append((name, step))
        self.steps = steps

    def _fitted(self) -> Pipeline:
        """A plain pipeline around the fitted steps; this one is not changed, so threads may share it."""
        check_is_fitted(self)
        last = len(self.steps) - 1
        steps = []
        for k, (name, step) in enumerate(self.steps):
            if step is not None and not isinstance(step, str) and _is_wrapped(step, is_last=k == last):
                wrapped = SequenceTransformer(step)
                wrapped.transformer_ = step
                step = wrapped
            steps.append((name, step))
        return self._plain(steps)

    def _plain(self, steps: list[tuple[str, Any]]) -> Pipeline:
        running = Pipeline(
            steps, transform_input=self.transform_input, memory=self.memory, verbose=self.verbose
        )
        if "_skl_callbacks" in vars(self):  # set_callbacks of scikit-learn 1.9
            running._skl_callbacks = self._skl_callbacks
        return running

    def _predict(self, verb: str, X: Iterable[Any], params: dict[str, Any]) -> Any:
        if not _routing_enabled() or "y_observed" in params:
            # known labels are data of the call, for the last step alone: nothing to be routed
            return self._run(verb, X, (), params)
        return getattr(self._fitted(), verb)(X, **params)

    def _run(self, verb: str, X: Iterable[Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method that scikit-learn's pipeline does not know, on transformed sequences."""
        running = self._fitted()
        if len(running) > 1 and X is not None:
            X = running[:-1].transform(X)
        return getattr(running.steps[-1][1], verb)(X, *args, **kwargs)


def _forward(verb: str) -> Callable[..., Any]:
    def method(self: SequencePipeline, X: Iterable[Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        return self._run(verb, X, args, kwargs)

    method.__name__ = verb
    method.__qualname__ = f"SequencePipeline.{verb}"
    method.__doc__ = f"""Call ``{verb}`` of the last step on the transformed sequences.

        Parameters
        ----------
        X : list of array-like, sparse matrix or data frame of shape (n_timesteps, n_features)
        *args, **kwargs
            Passed to the last step.

        Returns
        -------
        result : object
            What ``{verb}`` of the last step returns.

        Raises
        ------
        NotFittedError
            Before :meth:`fit`.
        """
    return method


for _verb in _FORWARDED:
    setattr(SequencePipeline, _verb, available_if(_last_step_has(_verb))(_forward(_verb)))


class _TransformedStream:
    """A stream of the last step that gets transformed time steps."""

    def __init__(self, transformers: Pipeline, stream: Any):
        self._transformers = transformers
        self._stream = stream

    def step(self, x: Any, y_observed: Any = None) -> Any:
        """Transform the features of one time step, shape (n_features,), and pass them on with its known label."""
        (row,) = self._transformers.transform([np.asarray(x)[np.newaxis]])
        if sparse.issparse(row):
            row = row.toarray()
        known = () if y_observed is None else (y_observed,)
        return self._stream.step(np.asarray(row)[0], *known)

    def finish(self) -> Any:
        """End the stream."""
        return self._stream.finish()


def _is_wrapped(step: Any, *, is_last: bool) -> bool:
    """Whether a step is a transformer of rows; a last step without ``transform`` is the labeller."""
    return (not is_last or hasattr(step, "transform")) and not acts_on_sequences(step)


def make_sequence_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> SequencePipeline:
    """Make a pipeline over lists of sequences, its steps named after their classes.

    Parameters
    ----------
    *steps : estimators
        Transformers of rows or of sequences, then a sequence labeller (or one more transformer).
    memory : str or object with the joblib.Memory interface, default=None
        Where to cache fitted transformers.
    verbose : bool, default=False
        Whether to print the time that each step takes.

    Returns
    -------
    pipeline : SequencePipeline

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.preprocessing import StandardScaler
    >>> pipe = make_sequence_pipeline(StandardScaler(), PCA(n_components=1))
    >>> [values.shape for values in pipe.fit_transform([[[0.0, 1.0], [4.0, 2.0]], [[1.0, 5.0]]])]
    [(2, 1), (1, 1)]
    >>> pipe.get_params()["pca__n_components"]
    1
    """
    return SequencePipeline(make_pipeline(*steps).steps, memory=memory, verbose=verbose)
