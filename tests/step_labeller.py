"""A small labeller with the verbs of the real ones, for tests of what is built around them."""

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab.metrics import micro_accuracy_score
from sklearn_seqlab.sequences import encode_labels, pack, unpack


class StepLabeller(BaseEstimator):
    """Logistic regression over single time steps: labels of a sequence are independent given X."""

    def __init__(self, *, C=1.0):
        self.C = C

    def fit(self, X, y, sample_weight=None):
        batch = pack(X)
        labels = encode_labels(y, batch.offsets)
        classes = labels.classes
        known = labels.codes >= 0
        if not known.any():
            raise ValueError("y holds no label.")
        weight = np.ones(batch.n_sequences) if sample_weight is None else np.asarray(sample_weight)
        model = LogisticRegression(C=self.C)
        model.fit(
            batch.values[known],
            labels.codes[known],
            sample_weight=np.repeat(weight, batch.lengths)[known],
        )
        self.model_, self.classes_ = model, classes
        self.n_features_in_ = batch.n_features
        if batch.feature_names is not None:
            self.feature_names_in_ = batch.feature_names
        return self

    def predict(self, X, y_observed=None):
        batch = pack(X)
        log_p = np.concatenate(list(self._log_proba(X)))
        if y_observed is not None:
            labels = encode_labels(y_observed, batch.offsets, classes=self.classes_)
            log_p = np.where(labels.allowed(), log_p, -np.inf)
        return batch.unpack(self.classes_[log_p.argmax(axis=1)])

    def predict_proba(self, X, y_observed=None):
        parts = self._log_proba(X)
        for s in range(len(parts)):
            parts[s] = np.exp(parts[s])
        return parts

    def predict_pairwise(self, X):
        return [p[:-1, :, None] * p[1:, None, :] for p in self.predict_proba(X)]

    def predict_n_best(self, X, n):
        return [[(labels, 0.0)] * n for labels in self.predict(X)]

    def decision_function(self, X):
        return self._log_proba(X)

    def log_likelihood(self, X, y):
        batch = pack(X)
        labels = encode_labels(y, batch.offsets, classes=self.classes_, unseen="mark")
        log_p = np.where(labels.allowed(), np.concatenate(list(self._log_proba(X))), -np.inf)
        return np.add.reduceat(np.logaddexp.reduce(log_p, axis=1), batch.offsets[:-1])

    def sample(self, X, n_samples=1, random_state=None):
        return [self.predict(X) for _ in range(n_samples)]

    def score(self, X, y, sample_weight=None):
        return micro_accuracy_score(y, self.predict(X), sample_weight=sample_weight)

    def _log_proba(self, X):
        check_is_fitted(self)
        batch = pack(X, n_features=self.n_features_in_)
        scores = self.model_.decision_function(batch.values)
        if scores.ndim == 1:
            scores = np.column_stack([-scores / 2, scores / 2])
        return unpack(np.log(softmax(scores, axis=1)), batch.offsets)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def make_steps(n_sequences=12, n_features=3, seed=0, missing=0.0):
    """(X, y): sequences of unequal lengths whose labels follow the first two features."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        values = rng.normal(size=(rng.integers(3, 9), n_features))
        labels = np.array(["a", "b", "c"], dtype=object)[(values[:, :2] > 0).sum(axis=1)]
        labels[rng.random(len(labels)) < missing] = None
        X.append(values)
        y.append(labels)
    return X, y
