"""Hidden Markov models: labels that follow each other, and a distribution of the inputs of each."""

from sklearn_seqlab.hmm._greedy_hmm import GreedyInductionHMM
from sklearn_seqlab.hmm._hmm import HMMClassifier
from sklearn_seqlab.hmm._rule_hmm import RuleHMM

__all__ = ["GreedyInductionHMM", "HMMClassifier", "RuleHMM"]
