"""Per-step transformers lifted to sequences, windows and encodings of sensors."""

from sklearn_seqlab.preprocessing._events import EventDiscretizer, label_slices

__all__ = ["EventDiscretizer", "label_slices"]
