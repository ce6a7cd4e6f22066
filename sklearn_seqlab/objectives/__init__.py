"""Stage 3: coefficients -> scores -> value and gradient; penalties."""

from sklearn_seqlab.objectives._chain_likelihood import ChainCoefficients, ChainLogLikelihood
from sklearn_seqlab.objectives._linear import make_features
from sklearn_seqlab.objectives._penalties import ElasticNet

__all__ = ["ChainCoefficients", "ChainLogLikelihood", "ElasticNet", "make_features"]
