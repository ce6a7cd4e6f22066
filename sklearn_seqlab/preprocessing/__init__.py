"""Per-step transformers lifted to sequences, windows and encodings of sensors."""

from sklearn_seqlab.preprocessing._events import EventDiscretizer, label_slices
from sklearn_seqlab.preprocessing._pipeline import SequencePipeline, make_sequence_pipeline
from sklearn_seqlab.preprocessing._sequence_transformer import SequenceTransformer
from sklearn_seqlab.preprocessing._window import SlidingWindow

__all__ = [
    "EventDiscretizer",
    "SequencePipeline",
    "SequenceTransformer",
    "SlidingWindow",
    "label_slices",
    "make_sequence_pipeline",
]
