"""Parts of a stream that ``partial_fit`` of a linear chain takes: the same labels, features and weights every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    encode_labels,
    encode_training_labels,
    pack,
    read_allowed_transitions,
)

__all__ = ["StreamPart", "next_part"]


class StreamPart(NamedTuple):
    """Sequences that have come, and what their weights depend on.

    Attributes
    ----------
    batch : PackedBatch
    labels : LabelCodes
    columns : ndarray of int
        Columns of the transition features.
    allowed : bool ndarray of shape (n_labels, n_labels)
    layout : dict
        Parameters that must stay what they are, by name.
    """

    batch: PackedBatch
    labels: LabelCodes
    columns: np.ndarray
    allowed: np.ndarray
    layout: dict[str, Any]


def next_part(
    estimator: Any, X: Any, y: Any, classes: Any, stream: Mapping[str, Any] | None, more: Mapping[str, Any]
) -> StreamPart:
    """Check sequences of a stream.

    Parameters
    ----------
    estimator : LinearChainLabeler
    X, y, classes
        As in ``partial_fit``.
    stream : dict or None
        What the call before has left, with its ``layout``; None at the first call.
    more : dict
        Further parameters that must stay what they are, by name.

    Raises
    ------
    ValueError
        If a label, the number of features or a parameter on which the weights depend is not that of the first call, or
        if a parameter needs all the data.
    """
    if estimator.restrict_features is True or isinstance(estimator.allowed_transitions, str):
        raise ValueError(
            "partial_fit takes neither restrict_features nor allowed_transitions='observed', "
            "which need all the data."
        )
    batch = pack(X) if stream is None else estimator._pack(X)
    if stream is not None:
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), estimator.classes_):
            raise ValueError(f"classes is {classes!r}, but the first call had {estimator.classes_.tolist()}.")
        known: np.ndarray | None = estimator.classes_
    else:
        known = None if classes is None else encode_labels([list(classes)], name="classes").classes
    if known is None:
        labels = encode_training_labels(y, batch.offsets)
    else:
        labels = encode_labels(y, batch.offsets, classes=known)
    columns = estimator._edge_columns(batch)
    allowed = read_allowed_transitions(estimator.allowed_transitions, labels)
    layout = {
        "fit_intercept": estimator.fit_intercept,
        "start_end": estimator.start_end,
        "transition_features": columns.tolist(),
        "allowed_transitions": allowed.tolist(),
        **more,
    }
    for name, now in layout.items():
        if stream is not None and stream["layout"][name] != now:
            raise ValueError(f"{name} is no longer what it was in the first call of partial_fit.")
    return StreamPart(batch, labels, columns, allowed, layout)
