"""Hierarchies of segments: activities over sub-activities, phrases over parts of speech."""

from sklearn_seqlab.hierarchical._hscrf import HSCRFClassifier

__all__ = ["HSCRFClassifier"]
