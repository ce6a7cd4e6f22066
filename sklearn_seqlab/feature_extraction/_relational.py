"""Frequent relational patterns of binary inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._arguments import one_of, positive
from sklearn_seqlab._clauses import clause_category
from sklearn_seqlab.sequences import PackedBatch, check_binary, encode_labels, pack

__all__ = ["RelationalPatternMiner"]

# Supports are sums of shares, which miss a share of the steps by their rounding.
_ROUNDING = 1e-9

# A variable: the number of its relation, and the inputs that are on at its step.
Variable = tuple[int, tuple[int, ...]]
Pattern = tuple[Variable, ...]


class RelationalPatternMiner(TransformerMixin, BaseEstimator):
    """Inputs of other time steps that often hold together, as new binary inputs (the role of Warmr).

    A pattern says that there are steps in given windows around a step ``T``, each later than the one before it, at
    which given inputs are on: ``prevNear(T, T1), plates(T1)`` is true at ``T`` where plates were on 1 to 5 steps
    before. With a :class:`~sklearn_seqlab.StructHKLClassifier` behind it, conjunctions of patterns are learnt (enumAF).

    Parameters
    ----------
    relations : dict of str to (lo, hi), default=None
        Windows of offsets, in time steps, both ends included; None takes ``{"prevNear": (-5, -1), "nextNear": (1,
        5)}``.
    min_support : float, default=0.01
        Patterns hold at so large a share of the steps at least.
    support : {"label", "global"}, default="label"
        Whether the share is that of the steps of some label (the largest one; needs ``y``), or of all steps.
    max_literals : int, default=3
        Largest number of inputs of a pattern.
    max_vars : int, default=2
        Largest number of steps of a pattern.
    max_patterns : int, default=60
        How many to keep: those of largest support, short ones before long ones.
    include_inputs : bool, default=True
        Whether the inputs themselves come first, which do not count among ``max_patterns``.
    output : {"dense", "sparse", "frame"}, default="dense"
        What ``transform`` makes; frames (needs pandas) carry the names of patterns to rules.

    Attributes
    ----------
    patterns_ : list of tuple
        ``((relation, inputs), ...)`` in order of time; relations by name, inputs as numbers.
    supports_ : ndarray of shape (n_patterns,)
    categories_ : ndarray of shape (n_patterns,)
        "PF" or "AF" (seed 001, section 3).
    n_evaluated_ : int
        Patterns whose support was computed.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Notes
    -----
    Support falls as inputs are added, so the search by number of inputs is complete: it finds every pattern of at least
    ``min_support``. Of patterns that hold at the same training steps the shortest is kept. Several inputs at ``T``
    itself, or steps whose windows settle their order, are no patterns of their own but conjunctions of patterns, which
    the learner behind makes. Evaluating a pattern takes O(n_total) time for each of its steps.

    References
    ----------
    Dehaspe and Toivonen, "Discovery of frequent Datalog patterns", Data Mining and Knowledge Discovery 1999.

    Examples
    --------
    >>> from sklearn_seqlab.feature_extraction import RelationalPatternMiner
    >>> X = [[[1, 0], [0, 0], [0, 1], [0, 0]]]
    >>> miner = RelationalPatternMiner(relations={"before": (-2, -1)}, max_literals=1, support="global").fit(X)
    >>> miner.get_feature_names_out().tolist()
    ['x0', 'x1', 'before(T, T1), x0(T1)', 'before(T, T1), x1(T1)']
    >>> miner.transform(X)[0][:, 2].tolist()
    [0.0, 1.0, 1.0, 0.0]
    """

    _acts_on_sequences = True

    def __init__(
        self,
        *,
        relations=None,
        min_support=0.01,
        support="label",
        max_literals=3,
        max_vars=2,
        max_patterns=60,
        include_inputs=True,
        output="dense",
    ):
        self.relations = relations
        self.min_support = min_support
        self.support = support
        self.max_literals = max_literals
        self.max_vars = max_vars
        self.max_patterns = max_patterns
        self.include_inputs = include_inputs
        self.output = output

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = tags.input_tags.categorical = True
        tags.target_tags.required = self.support == "label"
        return tags

    def fit(self, X: Any, y: Any = None) -> RelationalPatternMiner:
        """Find the frequent patterns.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)
            Of 0 and 1.
        y : list of array-like of shape (n_timesteps,), default=None
            Labels, None where missing; needed with ``support="label"``.

        Returns
        -------
        self : RelationalPatternMiner

        Raises
        ------
        ValueError
            If the input is not as described.
        """
        names, windows = self._windows()
        if not (isinstance(self.min_support, Real) and 0 <= float(self.min_support) <= 1):
            raise ValueError(f"min_support is {self.min_support!r}; expected a number from 0 to 1.")
        one_of(self.support, ("label", "global"), "support")
        one_of(self.output, ("dense", "sparse", "frame"), "output")
        batch = pack(X)
        check_binary(batch)
        weight = self._weights(batch, y)
        search = _Search(_Truth(batch), windows, weight, float(self.min_support))
        found = search.run(positive(self.max_literals, "max_literals"), positive(self.max_vars, "max_vars"))
        order = sorted(found, key=lambda p: (-found[p][0], _n_literals(p), p))
        chosen = self._distinct(order, found)[: positive(self.max_patterns, "max_patterns")]
        self._names, self._bounds = names, windows
        self.n_features_in_, self.n_evaluated_ = batch.n_features, search.n_evaluated
        self.__dict__.pop("feature_names_in_", None)
        if batch.feature_names is not None:
            self.feature_names_in_ = batch.feature_names
        self.patterns_ = [tuple((names[r], inputs) for r, inputs in pattern) for pattern in chosen]
        self.supports_ = np.array([found[pattern][0] for pattern in chosen])
        bodies = self._bodies(self._input_names(None))
        self.categories_ = np.array([clause_category(f"head(T) :- {body}.") for body in bodies], dtype="U2")
        return self

    def transform(self, X: Any) -> list[Any]:
        """Truth of inputs and patterns at every step.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)

        Returns
        -------
        truth : list of ndarray, csr_array or DataFrame of shape (n_timesteps, n_features_out)
        """
        check_is_fitted(self)
        batch = pack(X, n_features=self.n_features_in_)
        check_binary(batch)
        truth = _Truth(batch)
        place = {name: r for r, name in enumerate(self._names)}
        columns = [truth.inputs] if self.include_inputs else []
        for pattern in self.patterns_:
            variables = tuple((place[name], inputs) for name, inputs in pattern)
            columns.append(truth.of(variables, self._bounds)[:, None])
        values = np.column_stack(columns).astype(np.float64) if columns else np.zeros((batch.n_total, 0))
        bounds = list(pairwise(batch.offsets.tolist()))
        if self.output == "sparse":
            table = sparse.csr_array(values)
            return [table[a:b] for a, b in bounds]
        parts = [values[a:b].copy() for a, b in bounds]
        if self.output == "frame":
            import pandas as pd  # optional dependency, needed only here

            return [pd.DataFrame(part, columns=self.get_feature_names_out()) for part in parts]
        return parts

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """Names of the inputs, and the bodies of patterns as clauses in which ``T`` is the step."""
        check_is_fitted(self)
        names = self._input_names(input_features)
        return np.array([*(names if self.include_inputs else []), *self._bodies(names)], dtype=object)

    def _input_names(self, input_features: Sequence[str] | None) -> list[str]:
        if input_features is not None:
            return list(input_features)
        return list(getattr(self, "feature_names_in_", [f"x{p}" for p in range(self.n_features_in_)]))

    def _bodies(self, names: Sequence[str]) -> list[str]:
        bodies = []
        for pattern in self.patterns_:
            literals = []
            for k, (relation, inputs) in enumerate(pattern, start=1):
                literals.append(f"{relation}(T, T{k})")
                literals += [f"{names[p]}(T{k})" for p in inputs]
                if k > 1:
                    literals.append(f"greater(T{k}, T{k - 1})")
            bodies.append(", ".join(literals))
        return bodies

    def _windows(self) -> tuple[list[str], list[tuple[int, int]]]:
        relations = self.relations
        if relations is None:
            relations = {"prevNear": (-5, -1), "nextNear": (1, 5)}
        if not isinstance(relations, Mapping) or not relations:
            raise ValueError(f"relations is {relations!r}; expected a dict of names to (lo, hi).")
        for name, window in relations.items():
            if not isinstance(name, str) or name in ("at", "greater", "not") or not name.isidentifier():
                raise ValueError(f"relations has the name {name!r}, which cannot be that of a relation.")
            is_pair = isinstance(window, Sequence) and len(window) == 2
            if not is_pair or not all(
                isinstance(end, Integral) and not isinstance(end, bool) for end in window
            ):
                raise ValueError(f"relations[{name!r}] is {window!r}; expected two integers (lo, hi).")
            if window[0] > window[1]:
                raise ValueError(f"relations[{name!r}] is {window!r}; lo must not be above hi.")
        return list(relations), [(int(lo), int(hi)) for lo, hi in relations.values()]

    def _weights(self, batch: PackedBatch, y: Any) -> np.ndarray:
        """What each step adds to the support of each label, (n_total, n_labels)."""
        if self.support == "global":
            return np.full((batch.n_total, 1), 1.0 / batch.n_total)
        if y is None:
            raise ValueError("support='label' needs y; without labels use support='global'.")
        labels = encode_labels(y, batch.offsets)
        known = np.flatnonzero(labels.codes >= 0)
        if not len(known):
            raise ValueError("y holds no known label: nothing to measure support by.")
        weight = np.zeros((batch.n_total, labels.n_labels))
        weight[known, labels.codes[known]] = 1.0
        return weight / np.maximum(weight.sum(axis=0), 1.0)

    def _distinct(self, patterns: list[Pattern], found: dict[Pattern, tuple[float, bytes]]) -> list[Pattern]:
        """Without patterns that hold at the same steps as a shorter one; the order stays."""
        first: dict[bytes, Pattern] = {}
        for pattern in sorted(patterns, key=lambda p: (_n_literals(p), len(p), p)):
            first.setdefault(found[pattern][1], pattern)
        kept = set(first.values())
        return [pattern for pattern in patterns if pattern in kept]


class _Truth:
    """Where patterns hold in a batch."""

    def __init__(self, batch: PackedBatch):
        values = batch.values.toarray() if batch.is_sparse else batch.values
        self.inputs = values > 0
        rows = np.arange(batch.n_total)
        self.rows = rows
        self.first = np.repeat(batch.offsets[:-1], batch.lengths)
        self.last = np.repeat(batch.offsets[1:] - 1, batch.lengths)
        self.next: dict[tuple[int, ...], np.ndarray] = {}

    def _next(self, inputs: tuple[int, ...]) -> np.ndarray:
        """The next row, from each on, at which all inputs are on; one row more, which has none."""
        if inputs not in self.next:
            n = len(self.rows)
            on = self.inputs[:, list(inputs)].all(axis=1)
            ahead = np.append(np.where(on, self.rows, n), n)
            self.next[inputs] = np.minimum.accumulate(ahead[::-1])[::-1]
        return self.next[inputs]

    def of(self, pattern: Pattern, windows: Sequence[tuple[int, int]]) -> np.ndarray:
        """Whether a pattern holds at each step: the earliest match of each step in turn finds one if there is one."""
        found = np.ones(len(self.rows), dtype=bool)
        place = self.first - 1
        for relation, inputs in pattern:
            lo, hi = windows[relation]
            start = np.maximum(np.maximum(self.rows + lo, self.first), place + 1)
            end = np.minimum(self.rows + hi, self.last)
            place = self._next(inputs)[np.minimum(start, len(self.rows))]
            found &= place <= end
        return found


class _Search:
    """Level-wise search for all frequent patterns."""

    def __init__(self, truth: _Truth, windows: list[tuple[int, int]], weight: np.ndarray, min_support: float):
        self.truth, self.windows, self.weight, self.min_support = truth, windows, weight, min_support
        self.n_inputs = truth.inputs.shape[1]
        self.n_evaluated = 0

    def run(self, max_literals: int, max_vars: int) -> dict[Pattern, tuple[float, bytes]]:
        """Support, and the steps at which it holds as packed bits, of each frequent pattern."""
        level: list[Pattern] = [((r, (p,)),) for r in range(len(self.windows)) for p in range(self.n_inputs)]
        found: dict[Pattern, tuple[float, bytes]] = {}
        for size in range(1, max_literals + 1):
            frequent = []
            for pattern in level:
                holds = self.truth.of(pattern, self.windows)
                self.n_evaluated += 1
                support = float(self.weight[holds].sum(axis=0).max(initial=0.0))
                if support >= self.min_support * (1 - _ROUNDING) and holds.any():
                    found[pattern] = support, np.packbits(holds).tobytes()
                    frequent.append(pattern)
            if size < max_literals:
                level = sorted(
                    {
                        more
                        for p in frequent
                        for more in self._grown(p, max_vars)
                        if self._may_hold(more, found)
                    }
                )
        # windows that settle the order of their steps make a conjunction of smaller patterns
        return {pattern: value for pattern, value in found.items() if not self._splits(pattern)}

    def _grown(self, pattern: Pattern, max_vars: int) -> list[Pattern]:
        """All patterns with one input more, at a step that is there or at a new one."""
        grown = []
        for k, (relation, inputs) in enumerate(pattern):
            for p in range(self.n_inputs):
                if p not in inputs:
                    grown.append((*pattern[:k], (relation, tuple(sorted((*inputs, p)))), *pattern[k + 1 :]))
        if len(pattern) < max_vars:
            for k in range(len(pattern) + 1):
                for r in range(len(self.windows)):
                    grown += [(*pattern[:k], (r, (p,)), *pattern[k:]) for p in range(self.n_inputs)]
        return grown

    def _may_hold(self, pattern: Pattern, found: dict[Pattern, Any]) -> bool:
        """Whether all patterns with one input less are frequent."""
        for k, (relation, inputs) in enumerate(pattern):
            if len(inputs) == 1:
                if (*pattern[:k], *pattern[k + 1 :]) not in found:
                    return False
                continue
            for p in inputs:
                rest = tuple(q for q in inputs if q != p)
                if (*pattern[:k], (relation, rest), *pattern[k + 1 :]) not in found:
                    return False
        return True

    def _splits(self, pattern: Pattern) -> bool:
        return any(self.windows[a][1] < self.windows[b][0] for (a, _), (b, _) in pairwise(pattern))


def _n_literals(pattern: Pattern) -> int:
    return sum(len(inputs) for _, inputs in pattern)
