"""Weight tables: the right features for the right labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.inspection import label_weights, label_weights_text
from sklearn_seqlab.preprocessing import make_sequence_pipeline


@pytest.fixture
def data(rng):
    """Feature k speaks for label k; feature 3 for none."""
    X = [(rng.random((40, 4)) < 0.1).astype(float) for _ in range(4)]
    y = [np.array(["a", "b", "c"])[np.argmax(x[:, :3] + [1e-3, 0, 0], axis=1)] for x in X]
    return X, y


@pytest.mark.parametrize("as_sparse", [False, True])
def test_table(data, as_sparse):
    X, y = data
    X = [sparse.csr_array(x) for x in X] if as_sparse else X
    table = label_weights(LinearChainCRF(restrict_features=as_sparse).fit(X, y), top=1)
    assert table["label"].tolist() == ["a", "b", "c"]
    assert table["feature"].tolist() == ["x0", "x1", "x2"]
    assert (table["weight"] > 0).all()


def test_all_weights_are_in_decreasing_order(data):
    model = LinearChainCRF().fit(*data)
    table = label_weights(model, top=None, feature_names=list("pqrs"))
    for k, label in enumerate(model.classes_):
        weights = table["weight"][table["label"] == label]
        assert (np.diff(weights) <= 0).all()
        assert len(weights) == np.count_nonzero(model.coef_[k] > 0)


def test_names_come_from_the_pipeline(data):
    frames = pytest.importorskip("pandas").DataFrame
    X, y = data
    pipe = make_sequence_pipeline(StandardScaler(), LinearChainCRF())
    pipe.fit([frames(x, columns=["kettle", "tap", "bed", "tv"]) for x in X], y)
    text = label_weights_text(pipe, top=1)
    assert [line.split()[:2] for line in text.splitlines()] == [["a", "kettle"], ["b", "tap"], ["c", "bed"]]


def test_errors(data):
    with pytest.raises(NotFittedError):
        label_weights(LinearChainCRF())
    with pytest.raises(ValueError, match="feature_names has 2 names, but coef_ has 4 columns"):
        label_weights(LinearChainCRF().fit(*data), feature_names=["p", "q"])


def test_searches_and_bad_tops(data):
    search = GridSearchCV(LinearChainCRF(), {"C": [1.0]}, cv=2).fit(*data)
    assert label_weights_text(search) == label_weights_text(search.best_estimator_)
    for top in (0, -1, 1.5, "a"):
        with pytest.raises(ValueError, match="expected an integer of at least 1"):
            label_weights(search, top=top)
