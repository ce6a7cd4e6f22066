"""Stage 1: lists of sequences in, packed batches and label codes out; segments and tag schemes."""

from sklearn_seqlab.sequences._batch import PackedBatch, as_csr, pack, unpack
from sklearn_seqlab.sequences._bio import bio_to_segments, segments_to_bio
from sklearn_seqlab.sequences._labels import (
    CANDIDATES,
    MISSING,
    UNSEEN,
    LabelCodes,
    check_label_names,
    encode_labels,
)
from sklearn_seqlab.sequences._segments import labels_to_segments, segments_to_labels
from sklearn_seqlab.sequences._weights import class_weights, read_weights

__all__ = [
    "CANDIDATES",
    "MISSING",
    "UNSEEN",
    "LabelCodes",
    "PackedBatch",
    "as_csr",
    "bio_to_segments",
    "check_label_names",
    "class_weights",
    "encode_labels",
    "labels_to_segments",
    "pack",
    "read_weights",
    "segments_to_bio",
    "segments_to_labels",
    "unpack",
]
