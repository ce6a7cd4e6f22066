"""Weight tables: the right features for the right labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import HSCRFClassifier, LinearChainCRF, SemiCRF
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


def test_weights_of_segments(data):
    X, y = data
    model = SemiCRF(segment_features=("sum", "any"), edge_features=("start",), tol=1e-3).fit(X, y)
    table = label_weights(model, top=1)
    assert table.dtype.names == ("label", "feature", "weight") and table["label"].tolist() == ["a", "b", "c"]
    assert table["feature"].tolist() == ["x0", "x1", "x2"]
    assert table["weight"].tolist() == model.coef_["unary"][0].max(axis=1).tolist()
    for block in ("any", "edge_start"):
        table = label_weights(model, top=None, block=block)
        assert sorted(table["weight"]) == sorted(w for w in model.coef_[block][0].ravel() if w > 0)
    assert label_weights_text(model, top=1).splitlines()[0].startswith("a  x0 +")
    with pytest.raises(
        ValueError, match="block is 'bias', but the blocks of weights of inputs are 'unary', 'any'"
    ):
        label_weights(model, block="bias")
    means = SemiCRF(segment_features=("mean",), tol=1e-3).fit(X, y)
    assert label_weights(means, top=1)["weight"].tolist() == means.coef_["mean"][0].max(axis=1).tolist()


@pytest.mark.parametrize("as_numbers", [False, True])
def test_weights_of_a_hierarchy_are_told_by_level(data, as_numbers):
    X, y = data
    upper = [np.where(labels == "a", "c", "d") for labels in y]  # "c" is a label of both levels
    y = [np.column_stack(pair) for pair in zip(upper, y, strict=True)]
    if as_numbers:
        y = [[[{"c": 0, "d": 1}[a], b] for a, b in rows.tolist()] for rows in y]
    pipe = make_sequence_pipeline(StandardScaler(), HSCRFClassifier(tol=1e-3)).fit(X, y)
    model = pipe[-1]
    table = label_weights(pipe, top=1)
    above = [0, 1] if as_numbers else ["c", "d"]
    assert table["level"].tolist() == [0, 0, 1, 1, 1] and table["label"].tolist() == [*above, "a", "b", "c"]
    expected = [weight for level in model.coef_["unary"] for weight in level.max(axis=1)]
    assert table["weight"].tolist() == expected
    lines = label_weights_text(pipe, top=1).splitlines()
    assert [line.split()[0] for line in lines] == ["level", *map(str, above), "level", "a", "b", "c"]
    assert len(lines[2].split()) == len(lines[6].split()) == 3


def test_a_level_without_the_block(data):
    X, y = data
    y = [np.column_stack([labels, labels]) for labels in y]
    model = HSCRFClassifier(segment_features=[("mean",), ("sum",)], bottom_persist=True, tol=1e-1).fit(X, y)
    assert set(label_weights(model)["level"]) == {1}
    assert label_weights_text(model).splitlines()[0] == "level 0: no weights of inputs"
    assert set(label_weights(model, block="mean")["level"]) == {0}


def test_other_coefficients_are_refused():
    class Kernel(BaseEstimator):
        def fit(self, X, y):
            self.coef_, self.classes_ = np.zeros(5), np.array(["a", "b"])
            return self

    with pytest.raises(TypeError, match="coef_ of Kernel holds no weight per label and feature"):
        label_weights(Kernel().fit(None, None))


def test_errors(data):
    with pytest.raises(NotFittedError):
        label_weights(LinearChainCRF())
    with pytest.raises(ValueError, match="block is 'mean', but LinearChainCRF has one table of weights"):
        label_weights(LinearChainCRF().fit(*data), block="mean")
    with pytest.raises(ValueError, match="feature_names has 2 names, but coef_ has 4 columns"):
        label_weights(LinearChainCRF().fit(*data), feature_names=["p", "q"])


def test_searches_and_bad_tops(data):
    search = GridSearchCV(LinearChainCRF(), {"C": [1.0]}, cv=2).fit(*data)
    assert label_weights_text(search) == label_weights_text(search.best_estimator_)
    for top in (0, -1, 1.5, "a"):
        with pytest.raises(ValueError, match="expected an integer of at least 1"):
            label_weights(search, top=top)
