"""Stage 1: lists of sequences in, packed batches and codes of labels and levels out; segments, tag schemes."""

from sklearn_seqlab.sequences._batch import (
    PackedBatch,
    as_csr,
    blocks,
    check_sparse,
    pack,
    rows_of_csr,
    unpack,
)
from sklearn_seqlab.sequences._binary import check_binary
from sklearn_seqlab.sequences._bio import bio_to_segments, segments_to_bio
from sklearn_seqlab.sequences._label_pairs import (
    raise_if_forbidden,
    read_allowed_transitions,
    read_cost,
    step_costs,
)
from sklearn_seqlab.sequences._labels import (
    CANDIDATES,
    MISSING,
    UNSEEN,
    LabelCodes,
    check_label_names,
    encode_labels,
    encode_training_labels,
)
from sklearn_seqlab.sequences._level_forms import (
    pick_level,
    read_forms,
    shown_offsets,
    split_both,
    split_levels,
)
from sklearn_seqlab.sequences._levels import LevelCodes, encode_levels, label_table
from sklearn_seqlab.sequences._partial import known_runs, raise_if_partial
from sklearn_seqlab.sequences._segments import (
    PackedSegments,
    cut_rows,
    labels_to_segments,
    segments_of,
    segments_to_labels,
)
from sklearn_seqlab.sequences._stored import StoredSequences, write_sequences
from sklearn_seqlab.sequences._weights import class_weights, class_weights_of_steps, read_weights
from sklearn_seqlab.sequences._window import window_rows

__all__ = [
    "CANDIDATES",
    "MISSING",
    "UNSEEN",
    "LabelCodes",
    "LevelCodes",
    "PackedBatch",
    "PackedSegments",
    "StoredSequences",
    "as_csr",
    "bio_to_segments",
    "blocks",
    "check_binary",
    "check_label_names",
    "check_sparse",
    "class_weights",
    "class_weights_of_steps",
    "cut_rows",
    "encode_labels",
    "encode_levels",
    "encode_training_labels",
    "known_runs",
    "label_table",
    "labels_to_segments",
    "pack",
    "pick_level",
    "raise_if_forbidden",
    "raise_if_partial",
    "read_allowed_transitions",
    "read_cost",
    "read_forms",
    "read_weights",
    "rows_of_csr",
    "segments_of",
    "segments_to_bio",
    "segments_to_labels",
    "shown_offsets",
    "split_both",
    "split_levels",
    "step_costs",
    "unpack",
    "window_rows",
    "write_sequences",
]
