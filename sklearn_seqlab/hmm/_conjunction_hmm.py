"""Hidden Markov models whose channels are conjunctions of binary inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_seqlab._conjunction_rules import ConjunctionRules
from sklearn_seqlab._conjunctions import (
    Conjunction,
    conjunction_truth,
    make_items,
    read_window,
)
from sklearn_seqlab.base import SequenceTags
from sklearn_seqlab.hmm import _emission
from sklearn_seqlab.hmm._base import BaseHMM, of_positive_weight
from sklearn_seqlab.hmm._learning import Learnt
from sklearn_seqlab.sequences import (
    LabelCodes,
    PackedBatch,
    check_binary,
    encode_training_labels,
    pack,
    read_weights,
)

__all__ = ["ConjunctionHMM", "TrainingData"]

# EM for hidden labels, once the conjunctions are chosen.
_MAX_ITER, _TOL = 50, 1e-4


class TrainingData:
    """Checked input of ``fit``: a batch, its labels and weights, and the items that conjunctions are made of."""

    def __init__(self, X: Any, y: Any, sample_weight: Any, window: Any, negations: bool):
        width = read_window(window)
        self.batch: PackedBatch = pack(X)
        check_binary(self.batch)
        self.labels: LabelCodes = encode_training_labels(y, self.batch.offsets)
        self.weight: np.ndarray = read_weights(sample_weight, self.batch.n_sequences)
        if not (self.weight > 0).any():
            raise ValueError("sample_weight is zero for every sequence: nothing to learn from.")
        self.batch, self.labels, self.weight, _ = of_positive_weight(self.batch, self.labels, self.weight)
        self.items = make_items(self.batch.n_features, width, negations)


class ConjunctionHMM(ConjunctionRules, BaseHMM):
    """Adds channels that are conjunctions, and rules; a subclass chooses them.

    A subclass has the parameters ``window`` and ``negations`` beside those of ``BaseHMM``.
    """

    _acts_on_sequences = True  # transform takes whole sequences, also as the last step of a pipeline

    def __sklearn_tags__(self) -> SequenceTags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def transform(self, X: Any) -> list[sparse.csr_array]:
        """Truth of the conjunctions of the rules.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_timesteps, n_features)

        Returns
        -------
        truth : list of csr_array of shape (n_timesteps, n_conjunctions)
            Ones where a conjunction holds; columns in the order of the distinct conjunctions of ``rules_``.
        """
        batch = self._pack(X)
        distinct = list(dict.fromkeys(self.rules_["conjunction"].tolist()))
        truth = sparse.csr_array(conjunction_truth(batch, self.items_, distinct).astype(float))
        return [truth[a:b] for a, b in pairwise(batch.offsets.tolist())]

    def _channels(self, batch: PackedBatch) -> PackedBatch:
        return _channels_of(batch, self.items_, self.conjunctions_)

    def _row_scorer(self) -> Callable[[np.ndarray], np.ndarray]:
        before, after = read_window(self.window)
        if after:
            raise ValueError(f"window={self.window!r} looks at steps to come, which a stream cannot.")
        used = sorted({item for conjunction in self.conjunctions_ for item in conjunction})
        member = np.zeros((len(self.conjunctions_), len(used)))
        for k, conjunction in enumerate(self.conjunctions_):
            member[k, np.searchsorted(used, conjunction)] = 1.0
        length = member.sum(axis=1)
        column, back, negated = (self.items_[used][name] for name in ("column", "offset", "negated"))
        scorer = _emission.row_scorer(self.emission_, len(self.conjunctions_), len(self.classes_))
        recent = np.zeros((before + 1, self.n_features_in_), dtype=bool)
        n_steps, back = 0, -back
        kinds = np.full(self.n_features_in_, "bernoulli")

        def row(x: np.ndarray) -> np.ndarray:
            nonlocal n_steps
            _emission.check_row(kinds, x, n_steps)
            recent[1:] = recent[:-1].copy()
            recent[0] = x > 0
            held = (recent[back, column] != negated) & (back <= n_steps)
            n_steps += 1
            return scorer((member @ held == length).astype(float))

        return row

    def _learn_channels(self, data: TrainingData, conjunctions: Sequence[Conjunction]) -> Learnt:
        kinds = np.full(len(conjunctions), "bernoulli")
        channels = _channels_of(data.batch, data.items, conjunctions)
        return self._learn(channels, data.labels, data.weight, kinds, max_iter=_MAX_ITER, tol=_TOL)


def _channels_of(batch: PackedBatch, items: np.ndarray, conjunctions: Sequence[Conjunction]) -> PackedBatch:
    return PackedBatch(conjunction_truth(batch, items, conjunctions).astype(float), batch.offsets)
