"""Hierarchical kernel learning: optimal rules over all conjunctions of inputs."""

from sklearn_seqlab.hkl._rule_ensemble import RuleEnsembleHKL
from sklearn_seqlab.hkl._struct_hkl import StructHKLClassifier

__all__ = ["RuleEnsembleHKL", "StructHKLClassifier"]
