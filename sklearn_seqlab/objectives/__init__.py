"""Stage 3: coefficients -> scores -> value and gradient; penalties."""

from sklearn_seqlab.objectives._chain_likelihood import ChainCoefficients, ChainLogLikelihood
from sklearn_seqlab.objectives._linear import linear_scores
from sklearn_seqlab.objectives._penalties import ElasticNet

__all__ = ["ChainCoefficients", "ChainLogLikelihood", "ElasticNet", "linear_scores"]
