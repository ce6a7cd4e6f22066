"""Hierarchies of segments: activities over sub-activities, phrases over parts of speech."""

from sklearn_seqlab.hierarchical._hscrf import HSCRFClassifier
from sklearn_seqlab.hierarchical._pruning import rule_out_ends

__all__ = ["HSCRFClassifier", "rule_out_ends"]
