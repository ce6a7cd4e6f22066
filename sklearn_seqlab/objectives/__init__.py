"""Stage 3: coefficients -> scores -> value and gradient; penalties."""

from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood
from sklearn_seqlab.objectives._chain_scores import ChainCoefficients, assemble_chains, check_coefficients
from sklearn_seqlab.objectives._linear import linear_scores, make_features, observed_pairs
from sklearn_seqlab.objectives._penalties import ElasticNet

__all__ = [
    "ChainCoefficients",
    "ChainLogLikelihood",
    "ElasticNet",
    "assemble_chains",
    "check_coefficients",
    "linear_scores",
    "make_features",
    "observed_pairs",
]
