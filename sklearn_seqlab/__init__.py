"""Sequence labelling with a scikit-learn interface: a label for every time step of every sequence."""

from sklearn_seqlab._version import __version__
from sklearn_seqlab.crf import BoostedCRF, CRFFeatureInduction, DynamicCRF, LinearChainCRF, SemiCRF
from sklearn_seqlab.gaussian_process import GPSequenceLabeler, GPStructLabeler
from sklearn_seqlab.hierarchical import HSCRFClassifier
from sklearn_seqlab.hkl import RuleEnsembleHKL, StructHKLClassifier
from sklearn_seqlab.hmm import GreedyInductionHMM, HMMClassifier, RuleHMM
from sklearn_seqlab.stepwise import StepwiseClassifier
from sklearn_seqlab.svm import StructuredPerceptron, StructuredSVM, SubsequenceKernel, SubsequenceKernelSVM

__all__ = [
    "BoostedCRF",
    "CRFFeatureInduction",
    "DynamicCRF",
    "GPSequenceLabeler",
    "GPStructLabeler",
    "GreedyInductionHMM",
    "HMMClassifier",
    "HSCRFClassifier",
    "LinearChainCRF",
    "RuleEnsembleHKL",
    "RuleHMM",
    "SemiCRF",
    "StepwiseClassifier",
    "StructHKLClassifier",
    "StructuredPerceptron",
    "StructuredSVM",
    "SubsequenceKernel",
    "SubsequenceKernelSVM",
    "__version__",
]
