"""Labels of a stream: what ``predict_online`` of an estimator gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sklearn_seqlab.inference import OnlineChain
from sklearn_seqlab.sequences import encode_labels

__all__ = ["OnlineLabeler", "OnlineScores"]


class OnlineScores(NamedTuple):
    """How a fitted model scores a stream, in nats.

    Attributes
    ----------
    row : callable
        Scores (n_labels,) of the labels of one step, given its inputs (n_features,).
    moves : callable or None
        Scores (n_labels, n_labels) of the moves into a step, given its inputs; None where they are always
        ``transition``.
    transition : ndarray of shape (n_labels, n_labels)
    initial, final : ndarray of shape (n_labels,)
    """

    row: Callable[[np.ndarray], np.ndarray]
    moves: Callable[[np.ndarray], np.ndarray] | None
    transition: np.ndarray
    initial: np.ndarray
    final: np.ndarray


class OnlineLabeler:
    """A stream of time steps in, label probabilities out; made by ``predict_online`` of a fitted estimator.

    It holds what it needs of the estimator at the time it was made. One object is for one stream and one thread.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Labels in the order of the probabilities.
    lag : int
    n_steps_ : int
        Steps taken since the stream began.

    Examples
    --------
    >>> from sklearn_seqlab import HMMClassifier
    >>> model = HMMClassifier().fit([[[0], [0], [1], [1]]], [["off", "off", "on", "on"]])
    >>> stream = model.predict_online(lag=1)
    >>> stream.step([0]) is None
    True
    >>> proba = stream.step([1])  # of the first step, given both
    >>> stream.classes_[proba.argmax()]
    np.str_('off')
    >>> stream.finish().shape
    (1, 2)
    """

    def __init__(
        self,
        make_scores: Callable[[], OnlineScores],
        classes: np.ndarray,
        n_features: int,
        lag: int,
        allow_nan: bool,
    ):
        self.classes_, self.lag = classes.copy(), lag
        self._make_scores, self._shape, self._allow_nan = make_scores, (n_features,), allow_nan
        self._begin()

    @property
    def n_steps_(self) -> int:
        return self._chain.n_steps

    def _begin(self) -> None:
        self._scores = self._make_scores()
        _, moves, transition, initial, final = self._scores
        self._chain = OnlineChain(transition, initial, final, self.lag, moves is not None)

    def step(self, x: Any, y_observed: Any = None) -> np.ndarray | None:
        """Take one time step.

        Parameters
        ----------
        x : array-like of shape (n_features,), or sparse matrix of shape (1, n_features)
        y_observed : str, int, bool or set, default=None
            The label of this step where it is known already, or a set of candidates; None where it is not.

        Returns
        -------
        proba : ndarray of shape (n_labels,), or None
            Probabilities of the labels of the step ``lag`` back, given this step and all before it; None for the
            first ``lag`` steps.

        Raises
        ------
        ValueError
            If ``x`` has another shape or is not finite, or the label is unknown; the stream may then go on with
            another step.
        InfeasibleSequenceError
            If the steps so far have no possible labelling; so will all steps until ``finish``.
        """
        if sparse.issparse(x):
            x = x.toarray()[0] if x.ndim == 2 and x.shape[0] == 1 else x
        row = np.asarray(x)
        if row.shape != self._shape or row.dtype.kind not in "biuf":
            raise ValueError(
                f"x has shape {row.shape} and dtype {row.dtype}; expected numbers of shape {self._shape}, the features "
                f"of time step {self.n_steps_}."
            )
        if row.dtype != np.float64:
            row = row.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by name
            total = row @ row  # finite for finite rows of usual size: one pass in place of two
            if not total < np.inf:
                self._check(row)
            return self._step(row, y_observed)

    def _step(self, row: np.ndarray, y_observed: Any) -> np.ndarray | None:
        allowed = None if y_observed is None else self._allowed(y_observed)
        scores = self._scores
        unary = scores.row(row)
        if allowed is not None:
            unary = np.where(allowed, unary, -np.inf)
        return self._chain.step(unary, None if scores.moves is None else scores.moves(row))

    def finish(self) -> np.ndarray:
        """End the stream, and give the steps that are still due.

        Returns
        -------
        proba : ndarray of shape (min(lag, n_steps), n_labels)
            Probabilities of the labels of the last steps, given the whole stream. The next ``step`` begins a new
            stream.

        Raises
        ------
        InfeasibleSequenceError
            If the stream has no possible labelling; the next ``step`` begins a new one all the same.
        """
        try:
            return self._chain.finish()
        finally:
            self._begin()

    def _allowed(self, y_observed: Any) -> np.ndarray:
        labels = np.empty(1, dtype=object)
        labels[0] = y_observed
        try:
            return encode_labels([labels], classes=self.classes_, name="y_observed").allowed()[0]
        except ValueError as error:
            place = f"y_observed at time step {self.n_steps_}"
            raise ValueError(str(error).replace("y_observed[0][0]", place)) from None

    def _check(self, row: np.ndarray) -> None:
        wrong = np.isinf(row) if self._allow_nan else ~np.isfinite(row)
        if wrong.any():
            column = int(np.argmax(wrong))
            what = "NaN" if np.isnan(row[column]) else "infinity"
            raise ValueError(f"x contains {what} at time step {self.n_steps_}, column {column}.")
