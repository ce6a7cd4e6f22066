"""Stage 1: lists of sequences in, packed batches and label codes out."""

from sklearn_seqlab.sequences._batch import PackedBatch, pack, unpack
from sklearn_seqlab.sequences._labels import CANDIDATES, MISSING, UNSEEN, LabelCodes, encode_labels

__all__ = [
    "CANDIDATES",
    "MISSING",
    "UNSEEN",
    "LabelCodes",
    "PackedBatch",
    "encode_labels",
    "pack",
    "unpack",
]
