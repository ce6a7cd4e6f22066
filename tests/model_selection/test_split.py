import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold, check_cv, cross_validate

from sklearn_seqlab.model_selection import InverseKFold


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "random_state": 3}])
def test_folds_of_kfold_the_other_way_round(options):
    X = [np.ones((t + 1, 2)) for t in range(11)]
    turned = list(InverseKFold(3, **options).split(X))
    straight = list(KFold(3, **options).split(X))
    assert len(turned) == 3
    for (train, test), (rest, fold) in zip(turned, straight, strict=True):
        assert_array_equal(train, fold)
        assert_array_equal(test, rest)
    assert_array_equal(np.sort(np.concatenate([train for train, _ in turned])), np.arange(11))


def test_defaults_and_counts():
    splitter = InverseKFold()
    assert splitter.get_n_splits() == 4 and check_cv(splitter) is splitter
    assert [len(train) for train, _ in splitter.split(range(40))] == [10] * 4
    assert repr(splitter) == "InverseKFold(n_splits=4, random_state=None, shuffle=False)"


class Counter(BaseEstimator):
    def fit(self, X, y):
        self.n_ = len(X)
        return self

    def score(self, X, y):
        return self.n_ / len(X)


def test_in_cross_validate():
    X = [np.ones((t + 1, 2)) for t in range(8)]
    y = [["a"] * len(x) for x in X]
    scores = cross_validate(Counter(), X, y, cv=InverseKFold(4))["test_score"]
    assert_array_equal(scores, [2 / 6] * 4)


def test_bad_parameters():
    with pytest.raises(ValueError, match="n_splits"):
        InverseKFold(1)
    with pytest.raises(ValueError, match="random_state"):
        InverseKFold(random_state=0)
    with pytest.raises(ValueError, match="number of splits n_splits=4"):
        list(InverseKFold().split(range(3)))
