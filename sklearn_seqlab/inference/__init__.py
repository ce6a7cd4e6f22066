"""Stage 2: the compiled inference core, one module per structure.

Every structure offers the same verbs: ``log_partition``, ``marginals``, ``viterbi``, ``score_of``, ``sample``.
"""

try:
    from sklearn_seqlab.inference import chain, hierarchy, segment
except ImportError as error:  # the compiled kernels are missing, or were built for another interpreter
    raise ImportError(
        "The compiled kernels of sklearn_seqlab are missing. In a source tree run "
        "`pip install -e .` (it needs a C compiler) and try again."
    ) from error

from sklearn_seqlab.inference._subsequence import subsequence_kernel
from sklearn_seqlab.inference.chain import ChainScores
from sklearn_seqlab.inference.hierarchy import HierarchyScores
from sklearn_seqlab.inference.neighbour_relaxation import NeighbourScores, Relaxation
from sklearn_seqlab.inference.online_chain import OnlineChain
from sklearn_seqlab.inference.packed_chains import PackedChains
from sklearn_seqlab.inference.packed_grids import PackedGrids
from sklearn_seqlab.inference.packed_hierarchies import NestedSegments
from sklearn_seqlab.inference.packed_stacks import PackedStacks
from sklearn_seqlab.inference.segment import SegmentScores
from sklearn_seqlab.inference.stack_layout import StackLayout
from sklearn_seqlab.inference.violations import (
    Violations,
    best_by_errors,
    margin_violations,
    slack_violations,
)

__all__ = [
    "ChainScores",
    "HierarchyScores",
    "NeighbourScores",
    "NestedSegments",
    "OnlineChain",
    "PackedChains",
    "PackedGrids",
    "PackedStacks",
    "Relaxation",
    "SegmentScores",
    "StackLayout",
    "Violations",
    "best_by_errors",
    "chain",
    "hierarchy",
    "margin_violations",
    "segment",
    "slack_violations",
    "subsequence_kernel",
]
