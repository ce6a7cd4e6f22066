"""Scores over lists of label sequences, and scorers for ``scoring=``."""

from sklearn_seqlab.metrics._scorers import (
    SequenceScorer,
    get_sequence_scorer,
    get_sequence_scorer_names,
    log_likelihood,
    macro_accuracy,
    make_sequence_scorer,
    micro_accuracy,
    neg_hamming_loss,
    neg_sequence_hamming_loss,
    segment_f1,
    step_f1_macro,
)
from sklearn_seqlab.metrics._segments import (
    segment_classification_report,
    segment_f1_score,
    segment_precision_score,
    segment_recall_score,
)
from sklearn_seqlab.metrics._steps import (
    confusion_matrix,
    hamming_loss,
    macro_accuracy_score,
    micro_accuracy_score,
    step_f1_score,
    step_precision_score,
    step_recall_score,
)

__all__ = [
    "SequenceScorer",
    "confusion_matrix",
    "get_sequence_scorer",
    "get_sequence_scorer_names",
    "hamming_loss",
    "log_likelihood",
    "macro_accuracy",
    "macro_accuracy_score",
    "make_sequence_scorer",
    "micro_accuracy",
    "micro_accuracy_score",
    "neg_hamming_loss",
    "neg_sequence_hamming_loss",
    "segment_classification_report",
    "segment_f1",
    "segment_f1_score",
    "segment_precision_score",
    "segment_recall_score",
    "step_f1_macro",
    "step_f1_score",
    "step_precision_score",
    "step_recall_score",
]
