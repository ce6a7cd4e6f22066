"""Margin-trained sequence labellers, and kernels of windows."""

from sklearn_seqlab.svm._perceptron import StructuredPerceptron
from sklearn_seqlab.svm._structured_svm import StructuredSVM
from sklearn_seqlab.svm._subsequence_kernel import SubsequenceKernel
from sklearn_seqlab.svm._subsequence_svm import SubsequenceKernelSVM

__all__ = ["StructuredPerceptron", "StructuredSVM", "SubsequenceKernel", "SubsequenceKernelSVM"]
