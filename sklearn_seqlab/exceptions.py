"""Errors and warnings of this library; everything else is scikit-learn's own."""

from __future__ import annotations

__all__ = ["InfeasibleSequenceError"]


class InfeasibleSequenceError(ValueError):
    """No labelling of some sequence has a finite score.

    Raised where known labels, candidate sets, forbidden transitions or scores of minus infinity leave a
    sequence without a single possible labelling. The message names the sequence and the first time step
    that cannot be reached.
    """
