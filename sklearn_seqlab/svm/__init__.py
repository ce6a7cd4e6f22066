"""Margin-trained sequence labellers."""

from sklearn_seqlab.svm._perceptron import StructuredPerceptron
from sklearn_seqlab.svm._structured_svm import StructuredSVM

__all__ = ["StructuredPerceptron", "StructuredSVM"]
