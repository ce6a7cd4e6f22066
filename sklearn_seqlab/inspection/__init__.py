"""Pictures and tables of what a fitted estimator learnt and does."""

from sklearn_seqlab.inspection._boosting import BoostingDisplay, SelectedFeaturesDisplay
from sklearn_seqlab.inspection._durations import DurationDisplay
from sklearn_seqlab.inspection._timeline import TimelineDisplay
from sklearn_seqlab.inspection._transition_matrix import TransitionMatrixDisplay
from sklearn_seqlab.inspection._transitions import TransitionGraphDisplay
from sklearn_seqlab.inspection._weights import label_weights, label_weights_text

__all__ = [
    "BoostingDisplay",
    "DurationDisplay",
    "SelectedFeaturesDisplay",
    "TimelineDisplay",
    "TransitionGraphDisplay",
    "TransitionMatrixDisplay",
    "label_weights",
    "label_weights_text",
]
