"""Hidden Markov models: labels that follow each other, and a distribution of the inputs of each."""

from sklearn_seqlab.hmm._hmm import HMMClassifier

__all__ = ["HMMClassifier"]
