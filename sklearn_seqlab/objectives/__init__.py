"""Stage 3: coefficients -> scores -> value and gradient; penalties."""

from sklearn_seqlab.objectives._boosting_features import FEATURE_SETS
from sklearn_seqlab.objectives._chain_ascent import ChainAscent
from sklearn_seqlab.objectives._chain_averages import ChainAverages
from sklearn_seqlab.objectives._chain_boosting import ChainBoosting, HeldOutChains
from sklearn_seqlab.objectives._chain_descent import ChainDescent
from sklearn_seqlab.objectives._chain_likelihood import ChainLogLikelihood
from sklearn_seqlab.objectives._chain_margin import ChainMargin
from sklearn_seqlab.objectives._chain_marginals import ChainMarginalLikelihood
from sklearn_seqlab.objectives._chain_scores import ChainCoefficients, assemble_chains, check_coefficients
from sklearn_seqlab.objectives._conjunction_gains import ConjunctionGains
from sklearn_seqlab.objectives._grid_likelihood import (
    GridCoefficients,
    GridLogLikelihood,
    grid_doubles_per_step,
)
from sklearn_seqlab.objectives._hierarchy_engines import StackEngine, choose_engine, make_engine
from sklearn_seqlab.objectives._hierarchy_knowledge import KnownConfiguration, check_known, narrow_by
from sklearn_seqlab.objectives._hierarchy_likelihood import (
    HierarchyLogLikelihood,
    hierarchy_doubles_per_step,
)
from sklearn_seqlab.objectives._hierarchy_scores import Chunk, assemble_cliques, duration_curve, too_large
from sklearn_seqlab.objectives._hierarchy_shape import HierarchyShape, Level
from sklearn_seqlab.objectives._known_chains import KnownChains, ScoreLine, Scores, SequenceLoss
from sklearn_seqlab.objectives._linear import linear_scores, make_features, observed_pairs
from sklearn_seqlab.objectives._move_weights import MoveWeights, framed_scores
from sklearn_seqlab.objectives._penalties import ElasticNet
from sklearn_seqlab.objectives._planes import Planes
from sklearn_seqlab.objectives._row_losses import GroupPlanes, RowLikelihood, RowMargin, RowSequences
from sklearn_seqlab.objectives._shards import ShardedObjective, dask_client

__all__ = [
    "FEATURE_SETS",
    "ChainAscent",
    "ChainAverages",
    "ChainBoosting",
    "ChainCoefficients",
    "ChainDescent",
    "ChainLogLikelihood",
    "ChainMargin",
    "ChainMarginalLikelihood",
    "Chunk",
    "ConjunctionGains",
    "ElasticNet",
    "GridCoefficients",
    "GridLogLikelihood",
    "GroupPlanes",
    "HeldOutChains",
    "HierarchyLogLikelihood",
    "HierarchyShape",
    "KnownChains",
    "KnownConfiguration",
    "Level",
    "MoveWeights",
    "Planes",
    "RowLikelihood",
    "RowMargin",
    "RowSequences",
    "ScoreLine",
    "Scores",
    "SequenceLoss",
    "ShardedObjective",
    "StackEngine",
    "assemble_chains",
    "assemble_cliques",
    "check_coefficients",
    "check_known",
    "choose_engine",
    "dask_client",
    "duration_curve",
    "framed_scores",
    "grid_doubles_per_step",
    "hierarchy_doubles_per_step",
    "linear_scores",
    "make_engine",
    "make_features",
    "narrow_by",
    "observed_pairs",
    "too_large",
]
