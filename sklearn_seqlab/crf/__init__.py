"""Conditional random fields over chains of labels or of segments."""

from sklearn_seqlab.crf._boosted import BoostedCRF
from sklearn_seqlab.crf._dynamic import DynamicCRF
from sklearn_seqlab.crf._feature_induction import CRFFeatureInduction
from sklearn_seqlab.crf._linear_chain import LinearChainCRF
from sklearn_seqlab.crf._semi_crf import SemiCRF

__all__ = ["BoostedCRF", "CRFFeatureInduction", "DynamicCRF", "LinearChainCRF", "SemiCRF"]
