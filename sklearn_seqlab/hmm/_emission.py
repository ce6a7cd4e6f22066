"""What each label makes of the inputs: channels of three kinds, independent given the label, behind one set of verbs.

A kind is a module of functions on plain dicts: statistics of steps weighted by ``mass`` (n, n_labels), and
parameters estimated from them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab.hmm import _bernoulli, _categorical, _gaussian
from sklearn_seqlab.sequences import PackedBatch

__all__ = [
    "check_channels",
    "check_row",
    "estimate",
    "gather",
    "grow",
    "log_likelihood",
    "log_prior",
    "merge",
    "read_kinds",
    "row_scorer",
    "scores",
]

KINDS: dict[str, Any] = {"gaussian": _gaussian, "bernoulli": _bernoulli, "categorical": _categorical}

Emission = dict[str, dict[str, Any]]


def read_kinds(emission: Any, batch: PackedBatch) -> np.ndarray:
    """The kind of each column.

    Parameters
    ----------
    emission : "auto", name of a kind, or array-like of such of shape (n_features,)
        "auto" takes a column of zeros and ones as "bernoulli", any other as "gaussian".
    batch : PackedBatch

    Returns
    -------
    kinds : ndarray of str of shape (n_features,)

    Raises
    ------
    ValueError
        If a name is unknown or there is not one per column.
    """
    names = [emission] * batch.n_features if isinstance(emission, str) else list(emission)
    if len(names) != batch.n_features:
        raise ValueError(f"emission names {len(names)} kinds, but X has {batch.n_features} features.")
    for k, name in enumerate(names):
        if not isinstance(name, str) or name not in ("auto", *KINDS):
            raise ValueError(
                f"emission[{k}] is {name!r}; expected 'auto', 'gaussian', 'bernoulli' or 'categorical'."
            )
    kinds = np.array([str(name) for name in names], dtype=f"U{max(map(len, KINDS))}")
    automatic = np.flatnonzero(kinds == "auto")
    if len(automatic):
        kinds[automatic] = np.where(_is_binary(batch.values)[automatic], "bernoulli", "gaussian")
    return kinds


def columns_of(kinds: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of each kind that occurs."""
    return {kind: np.flatnonzero(kinds == kind) for kind in KINDS if (kinds == kind).any()}


def check_channels(kinds: np.ndarray, batch: PackedBatch, numbers: np.ndarray | None = None) -> None:
    """Refuse values that are none of their kind, naming the first; ``numbers`` are those of the sequences.

    Raises
    ------
    ValueError
    """
    wishes = {"bernoulli": (_not_binary, "0 or 1"), "categorical": (_not_integral, "an integer code")}
    for kind, columns in columns_of(kinds).items():
        if kind not in wishes:
            continue
        is_wrong, wish = wishes[kind]
        values = batch.values
        if sparse.issparse(values):
            entries = np.flatnonzero(is_wrong(values.data) & np.isin(values.indices, columns))
            rows = np.searchsorted(values.indptr, entries[:1], side="right") - 1
            found = list(zip(rows, values.indices[entries[:1]], values.data[entries[:1]], strict=True))
        else:
            places = np.argwhere(is_wrong(values[:, columns]))[:1]
            found = [(row, columns[k], values[row, columns[k]]) for row, k in places]
        for row, column, value in found:
            s = int(np.searchsorted(batch.offsets, row, side="right")) - 1
            number = s if numbers is None else numbers[s]
            raise ValueError(
                f"X[{number}] holds {value:g} at time step {row - batch.offsets[s]}, column {column}; "
                f"expected {wish} in a {kind} channel. Set emission, or transform the column."
            )


def check_row(kinds: np.ndarray, x: np.ndarray, step: int) -> None:
    """As ``check_channels`` for one time step (n_features,) of a stream."""
    for kind, is_wrong, wish in (
        ("bernoulli", _not_binary, "0 or 1"), ("categorical", _not_integral, "an integer code")
    ):  # fmt: skip
        wrong = np.flatnonzero((kinds == kind) & is_wrong(x))
        if len(wrong):
            raise ValueError(
                f"x holds {x[wrong[0]]:g} at time step {step}, column {wrong[0]}; expected {wish} in a {kind} channel."
            )


def gather(values: Any, columns: dict[str, np.ndarray], mass: np.ndarray) -> Emission:
    """Statistics of rows ``values`` whose labels have weights ``mass`` (n, n_labels)."""
    return {kind: KINDS[kind].gather(_pick(values, which, kind), mass) for kind, which in columns.items()}


def merge(a: Emission, b: Emission) -> Emission:
    """Statistics of two sets of rows together."""
    return {kind: KINDS[kind].merge(a[kind], b[kind]) for kind in a}


def grow(stats: Emission, place: np.ndarray, n_labels: int) -> Emission:
    """Statistics with more labels: old label ``k`` becomes label ``place[k]``."""
    return {kind: KINDS[kind].grow(part, place, n_labels) for kind, part in stats.items()}


def estimate(stats: Emission, columns: dict[str, np.ndarray], alpha: float, var_floor: float) -> Emission:
    """Parameters by kind, with the ``columns`` that they belong to."""
    return {
        kind: {"columns": which, **KINDS[kind].estimate(stats[kind], alpha, var_floor)}
        for kind, which in columns.items()
    }


def scores(values: Any, params: Emission, n_labels: int) -> np.ndarray:
    """Log-probability (or density) of rows given each label, (n, n_labels) in nats."""
    out = np.zeros((values.shape[0], n_labels))
    for kind, part in params.items():
        try:
            out += KINDS[kind].scores(_pick(values, part["columns"], kind), part)
        except _gaussian.TooFar as far:
            raise _gaussian.TooFar(far.row, part["columns"][far.column]) from None
    return out


def row_scorer(params: Emission, n_features: int, n_labels: int) -> Callable[[np.ndarray], np.ndarray]:
    """``scores`` of one step (n_features,), for streams."""
    parts = [(part["columns"], KINDS[kind].row_scorer(part)) for kind, part in params.items()]
    if len(parts) == 1 and len(parts[0][0]) == n_features:
        return parts[0][1]

    def row(x: np.ndarray) -> np.ndarray:
        out = np.zeros(n_labels)
        for columns, scorer in parts:
            out = out + scorer(x[columns])
        return out

    return row


def log_likelihood(stats: Emission, params: Emission) -> float:
    """Log-probability of all steps behind the statistics, in nats."""
    return sum(KINDS[kind].log_likelihood(part, params[kind]) for kind, part in stats.items())


def log_prior(params: Emission) -> float:
    """What one smoothing count adds to the log of the objective."""
    return sum(KINDS[kind].log_prior(part) for kind, part in params.items())


def report_unseen(batch: PackedBatch, params: Emission, handle_unknown: str, step: int | None = None) -> None:
    """Warn of codes that ``fit`` did not see, or raise if ``handle_unknown`` is "error".

    ``step`` is the number of the time step where the batch is one of a stream.
    """
    if "categorical" not in params:
        return
    part = params["categorical"]
    values = _pick(batch.values, part["columns"], "categorical")
    places = np.argwhere(_categorical.is_unseen(values, part))
    if not len(places):
        return
    row, k = places[0]
    s = int(np.searchsorted(batch.offsets, row, side="right")) - 1
    name, t = (f"X[{s}]", row - batch.offsets[s]) if step is None else ("x", step)
    message = (
        f"{name} holds {values[row, k]:g} at time step {t}, column {part['columns'][k]}, "
        "a code that fit did not see"
    )
    if handle_unknown == "error":
        raise ValueError(f"{message}.")
    warnings.warn(f"{message}; such values tell nothing of the label.", UserWarning, stacklevel=5)


def _pick(values: Any, columns: np.ndarray, kind: str) -> Any:
    """Some columns; dense unless they are of zeros and ones, whose products take CSR."""
    if len(columns) < values.shape[1]:
        values = values[:, columns]
    if sparse.issparse(values):
        return values.tocsr() if kind == "bernoulli" else values.toarray()
    return values


def _not_binary(values: np.ndarray) -> np.ndarray:
    return (values != 0) & (values != 1) & ~np.isnan(values)


def _not_integral(values: np.ndarray) -> np.ndarray:
    return (values != np.floor(values)) & ~np.isnan(values)


def _is_binary(values: Any) -> np.ndarray:
    """Whether each column holds zeros and ones (at least one of them) beside NaN."""
    if sparse.issparse(values):
        wrong = np.bincount(values.indices, weights=_not_binary(values.data), minlength=values.shape[1])
        hidden = np.bincount(values.indices, weights=np.isnan(values.data), minlength=values.shape[1])
        return (wrong == 0) & (hidden < values.shape[0])
    return ~_not_binary(values).any(axis=0) & ~np.isnan(values).all(axis=0)
