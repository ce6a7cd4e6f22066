"""Splitters that know sequences."""

from sklearn_seqlab.model_selection._split import InverseKFold

__all__ = ["InverseKFold"]
