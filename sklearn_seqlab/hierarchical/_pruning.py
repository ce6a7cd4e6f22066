"""Segments that a cheap model all but rules out, kept from a dear one."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

__all__ = ["rule_out_ends"]


def rule_out_ends(
    boundary_proba: Sequence[Any], threshold: float = 1e-4
) -> tuple[list[tuple[None, np.ndarray]], np.ndarray]:
    """Time steps at which, says a model, no segment ends; as known ends for another.

    A model of explicit durations at several levels costs time and memory that grow with the square of a
    sequence. A linear one (durations "geometric") on the same labels tells nearly all ends that are out of the
    question; the dear one, told so, sums over the rest alone, exactly, in a fraction of the time.

    Parameters
    ----------
    boundary_proba : list of array-like of shape (n_timesteps,) or (n_timesteps, n_levels)
        What ``predict_boundary_proba`` of the cheap model returns.
    threshold : float, default=1e-4
        Ends less probable than this are ruled out.

    Returns
    -------
    known : list of tuples (None, ends)
        As ``y_observed`` of ``predict``, ``predict_marginals`` and others: ``ends`` has the shape of the
        probabilities, 0 where an end is ruled out, None elsewhere.
    lost : ndarray of shape (n_sequences,)
        Upper bound on the probability, under the cheap model, of all configurations that were ruled out: the
        sum of the probabilities of the ends.

    Raises
    ------
    ValueError
        If the threshold is not in [0, 1), or an array holds no probabilities.

    Notes
    -----
    The bound speaks of the cheap model's distribution; how far the dear one agrees is for the user to check
    (``log_likelihood(X, known)`` is the logarithm of the mass that is left, at the full cost). ``spec`` "hscrf"
    20 (7).

    Examples
    --------
    >>> from sklearn_seqlab.hierarchical import rule_out_ends
    >>> known, lost = rule_out_ends([[0.2, 1e-5, 0.8, 1.0]])
    >>> known[0][1].tolist(), lost.tolist()
    ([None, 0, None, None], [1e-05])
    """
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 <= threshold < 1:
        raise ValueError(f"threshold is {threshold!r}; expected a number of at least 0 and below 1.")
    known: list[tuple[None, np.ndarray]] = []
    lost = np.zeros(len(boundary_proba))
    for s, sequence in enumerate(boundary_proba):
        proba = np.asarray(sequence, dtype=np.float64)
        if proba.ndim not in (1, 2) or not len(proba) or not ((proba >= 0) & (proba <= 1)).all():
            raise ValueError(
                f"boundary_proba[{s}] has shape {proba.shape}; expected probabilities of shape (n_timesteps,) or "
                "(n_timesteps, n_levels)."
            )
        unlikely = proba < threshold
        unlikely[-1] = False  # every segment ends with the sequence
        ends = np.full(proba.shape, None, dtype=object)
        ends[unlikely] = 0
        known.append((None, ends))
        lost[s] = min(1.0, float(proba[unlikely].sum()))
    return known, lost
