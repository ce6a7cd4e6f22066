"""The smallest estimator that keeps the contract; here, so that worker processes can import it."""

import numpy as np

from sklearn_seqlab.base import SequenceLabeler, check_sequence_weight
from sklearn_seqlab.sequences import encode_labels, pack


class NearestMean(SequenceLabeler):
    """As little as an estimator can be: fit and predict, no missing labels, dense input."""

    _parameter_constraints: dict = {}

    def fit(self, X, y, sample_weight=None):
        batch = pack(X, accept_sparse=False)
        labels, classes = encode_labels(y, batch.offsets)
        if (labels.codes < 0).any():
            raise ValueError("y has missing labels, which NearestMean cannot learn from.")
        weight = np.repeat(check_sequence_weight(sample_weight, batch.n_sequences), batch.lengths)
        counts = np.bincount(labels.codes, weight, minlength=len(classes))
        sums = [
            np.bincount(labels.codes, weight * column, minlength=len(classes)) for column in batch.values.T
        ]
        self._set_input_attributes(batch)
        self.classes_, self.means_ = classes, np.transpose(sums) / counts[:, None]
        return self

    def predict(self, X):
        batch = self._pack(X)
        distances = ((batch.values[:, None, :] - self.means_) ** 2).sum(axis=2)
        return batch.unpack(self.classes_[distances.argmin(axis=1)])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
