"""The smallest estimators that keep the contract; here, so that worker processes can import them."""

import numpy as np

from sklearn_seqlab.base import SequenceLabeler
from sklearn_seqlab.sequences import encode_labels, pack, read_weights


class NearestMean(SequenceLabeler):
    """As little as an estimator can be: fit and predict, no missing labels, dense input."""

    _parameter_constraints: dict = {}

    def fit(self, X, y, sample_weight=None):
        batch = pack(X, accept_sparse=False)
        labels = encode_labels(y, batch.offsets)
        classes = labels.classes
        if (labels.codes < 0).any():
            raise ValueError("y has missing labels, which NearestMean cannot learn from.")
        weight = np.repeat(read_weights(sample_weight, batch.n_sequences), batch.lengths)
        if not weight.any():
            raise ValueError("sample_weight is zero for every sequence.")
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


class NearestMeanLevels(NearestMean):
    """The same for labels of one or several levels, each learnt by itself."""

    def fit(self, X, y, sample_weight=None):
        if not (isinstance(y, list) and y and np.ndim(y[0]) >= 2):
            super().fit(X, y, sample_weight)
            self.levels_ = []
            return self
        if len({np.shape(labels)[1:] for labels in y}) > 1 or np.ndim(y[0]) > 2 or np.shape(y[0])[1] == 0:
            s = int(np.argmax([np.shape(labels)[1:] != np.shape(y[0])[1:] for labels in y]))
            raise ValueError(f"y[{s}] has another number of levels than y[0].")
        columns = [
            [np.asarray(labels, dtype=object)[:, level] for labels in y] for level in range(np.shape(y[0])[1])
        ]
        self.levels_ = [NearestMean().fit(X, column, sample_weight) for column in columns]
        self._set_input_attributes(pack(X))
        self.classes_ = [model.classes_ for model in self.levels_]
        return self

    def predict(self, X):
        if not getattr(self, "levels_", None):
            return super().predict(X)
        columns = zip(*(model.predict(X) for model in self.levels_), strict=True)
        parts = np.empty(len(X), dtype=object)
        for s, levels in enumerate(columns):
            kinds = {level.dtype.kind for level in levels}
            parts[s] = np.column_stack(
                levels if len(kinds) == 1 else [level.astype(object) for level in levels]
            )
        return parts

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_level = True
        return tags
