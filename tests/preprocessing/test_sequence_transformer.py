"""SequenceTransformer: the transformer sees one table, the caller sees sequences."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils import get_tags
from step_labeller import StepLabeller, make_steps

from sklearn_seqlab.preprocessing import SequenceTransformer
from sklearn_seqlab.preprocessing._rows import cut_rows, stack_rows
from sklearn_seqlab.sequences import pack

X, Y = make_steps()
STACKED = np.concatenate(X)
LABELS = np.concatenate(Y).astype(str)


class Recorder(TransformerMixin, BaseEstimator):
    """Remembers what it was given."""

    def __init__(self, required=False):
        self.required = required

    def fit(self, X, y=None, sample_weight=None):
        self.X_, self.y_, self.sample_weight_ = X, y, sample_weight
        return self

    def transform(self, X):
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.required
        return tags


class DropsARow(Recorder):
    def transform(self, X):
        return X[1:]


def as_frames(sequences, columns=("p", "q", "r")):
    return [
        pd.DataFrame(values, columns=list(columns), index=np.arange(len(values)) + 7) for values in sequences
    ]


@pytest.mark.parametrize("inner", [StandardScaler(), PCA(n_components=2), FunctionTransformer(np.tanh)])
@pytest.mark.parametrize("wrap", [list, tuple, lambda x: np.array([*x, None], dtype=object)[:-1]])
def test_same_as_the_transformer_on_all_rows(inner, wrap):
    expected = clone(inner).fit_transform(STACKED)
    before = [values.copy() for values in X]
    lifted = SequenceTransformer(inner)
    for found in (lifted.fit_transform(wrap(X)), lifted.fit(wrap(X)).transform(wrap(X))):
        assert isinstance(found, list) and [len(part) for part in found] == [len(values) for values in X]
        assert_allclose(np.concatenate(found), expected)
    assert_array_equal(np.concatenate(before), STACKED)
    assert not hasattr(inner, "n_features_in_")  # only the clone is fitted


def test_sparse_in_and_out_is_csr_per_sequence():
    items = [sparse.csr_matrix(values * (values > 0)) for values in X]
    found = SequenceTransformer(MaxAbsScaler()).fit_transform(items)
    expected = MaxAbsScaler().fit_transform(sparse.vstack(items)).toarray()
    for part, values in zip(found, X, strict=True):
        assert sparse.issparse(part) and part.format == "csr" and part.shape == values.shape
        part.check_format(full_check=True)
    assert_allclose(np.vstack([part.toarray() for part in found]), expected)
    assert_allclose(pack(found).values.toarray(), expected)
    mixed = SequenceTransformer(MaxAbsScaler()).fit_transform([items[0].toarray(), *items[1:]])
    assert_allclose(pack(mixed).values.toarray(), expected)


def test_column_transformer_with_names_on_frames():
    frames = as_frames(X)
    columns = ColumnTransformer([("scaled", StandardScaler(), ["r"]), ("kept", "passthrough", ["p"])])
    lifted = SequenceTransformer(columns).fit(frames)
    found = lifted.transform(frames)
    scaled = (STACKED[:, 2] - STACKED[:, 2].mean()) / STACKED[:, 2].std()
    assert_allclose(np.concatenate(found), np.column_stack([scaled, STACKED[:, 0]]))
    assert lifted.feature_names_in_.tolist() == ["p", "q", "r"] and lifted.n_features_in_ == 3
    assert lifted.get_feature_names_out().tolist() == ["scaled__r", "kept__p"]
    assert frames[0].index[0] == 7  # the caller's frames are as they were


def test_text_columns_of_frames():
    frames = [
        pd.DataFrame({"room": ["hall", "bath"], "t": [1.0, 2.0]}),
        pd.DataFrame({"room": ["hall"], "t": [3.0]}),
    ]
    columns = ColumnTransformer(
        [("room", OneHotEncoder(), ["room"]), ("t", "passthrough", ["t"])], sparse_threshold=0
    )
    found = SequenceTransformer(columns).fit_transform(frames)
    assert_allclose(np.concatenate(found), [[0, 1, 1], [1, 0, 2], [0, 1, 3]])


def test_rows_of_text_and_dicts():
    found = SequenceTransformer(CountVectorizer()).fit_transform([["a dog", "a cat dog"], ("dog",)])
    assert [part.toarray().tolist() for part in found] == [[[0, 1], [1, 1]], [[0, 1]]]
    dicts = [[{"a": 1.0}, {"b": 2.0}], [{"a": 3.0}]]
    found = SequenceTransformer(DictVectorizer(sparse=False)).fit_transform(dicts)
    assert [part.tolist() for part in found] == [[[1, 0], [0, 2]], [[3, 0]]]


def test_missing_values_and_unions():
    gappy = [values.copy() for values in X]
    gappy[0][0, 0] = np.nan
    found = SequenceTransformer(SimpleImputer()).fit_transform(gappy)
    assert_allclose(found[0][0, 0], np.nanmean(np.concatenate(gappy)[:, 0]))
    union = FeatureUnion([("pca", PCA(n_components=1)), ("best", SelectKBest(k=1))])
    found = SequenceTransformer(union).fit_transform(X, Y)
    assert_allclose(np.concatenate(found), clone(union).fit_transform(STACKED, LABELS))


def partly(y):
    y = [labels.copy() for labels in y]
    y[0][0], y[1][:] = None, None
    y[2][1] = {"a", "b"}
    return y


def test_labels_reach_the_transformer():
    lifted = SequenceTransformer(Recorder()).fit(X, Y)
    assert lifted.transformer_.y_.tolist() == LABELS.tolist()
    assert SequenceTransformer(Recorder()).fit(X).transformer_.y_ is None


def test_partial_labels_are_not_passed_unless_required():
    y = partly(Y)
    known = np.array([isinstance(label, str) for label in np.concatenate(y)])
    lifted = SequenceTransformer(Recorder()).fit(X, y)
    assert lifted.transformer_.y_ is None and len(lifted.transformer_.X_) == len(STACKED)
    lifted = SequenceTransformer(Recorder(required=True)).fit(X, y)
    assert lifted.transformer_.y_.tolist() == LABELS[known].tolist()
    assert_array_equal(lifted.transformer_.X_, STACKED[known])
    assert_array_equal(np.concatenate(lifted.fit_transform(X, y)), STACKED)
    assert_array_equal(lifted.transformer_.X_, STACKED[known])
    with pytest.raises(ValueError, match="y holds no known label, but Recorder requires labels"):
        SequenceTransformer(Recorder(required=True)).fit(X, [[None] * len(values) for values in X])


def test_levels_are_passed_to_nothing():
    segments = [[(0, 0, len(labels), "a")] for labels in Y]
    with_ends = [(labels, [0] * len(labels)) for labels in Y]
    nested = [[[label, label] for label in labels] for labels in Y]
    y = [np.column_stack([labels, labels]) for labels in Y]
    for form in (segments, with_ends, nested, y):
        assert SequenceTransformer(Recorder()).fit(X, form).transformer_.y_ is None
    with pytest.raises(ValueError, match=r"y\[0\] has 2 dimension"):
        SequenceTransformer(Recorder(required=True)).fit(X, y)


@pytest.mark.parametrize(
    "inner",
    [
        SelectKBest(k=1),
        FeatureUnion([("best", SelectKBest(k=1))]),
        make_pipeline(StandardScaler(), SelectKBest(k=1)),
        SelectFromModel(LogisticRegression()),
    ],
)
def test_selection_learns_from_labelled_steps_alone(inner):
    y = partly(Y)
    known = np.array([isinstance(label, str) for label in np.concatenate(y)])
    expected = clone(inner).fit(STACKED[known], LABELS[known]).transform(STACKED)
    lifted = SequenceTransformer(inner)
    assert_allclose(np.concatenate(lifted.fit(X, y).transform(X)), expected)
    assert_allclose(np.concatenate(lifted.fit_transform(X, y)), expected)


@pytest.mark.filterwarnings("ignore:.*shuffle:FutureWarning")
def test_own_fit_transform_is_used_where_steps_are_labelled():
    """TargetEncoder's fit_transform cross-fits, so that labels do not leak into the inputs of training."""
    rooms = [
        np.array([["hall", "bath"][k % 2] for k in range(len(values))], dtype=object)[:, None] for values in X
    ]
    inner = TargetEncoder(target_type="multiclass", cv=3, shuffle=False)
    y = partly(Y)
    known = np.array([isinstance(label, str) for label in np.concatenate(y)])
    stacked = np.concatenate(rooms)
    found = np.concatenate(SequenceTransformer(inner).fit_transform(rooms, y))
    crossed = clone(inner).fit_transform(stacked[known], LABELS[known])
    plain = clone(inner).fit(stacked[known], LABELS[known]).transform(stacked)
    assert_allclose(found[known], crossed)
    assert_allclose(found[~known], plain[~known])
    assert not np.allclose(crossed, plain[known])


def test_weights_are_repeated_for_every_step():
    weight = np.arange(1.0, len(X) + 1)
    rows = np.repeat(weight, [len(values) for values in X])
    assert_array_equal(
        SequenceTransformer(Recorder()).fit(X, sample_weight=weight).transformer_.sample_weight_, rows
    )
    with pytest.raises(ValueError, match=r"sample_weight has shape \(2,\); expected \(12,\)"):
        SequenceTransformer(Recorder()).fit(X, sample_weight=[1, 2])
    y = partly(Y)
    known = np.array([isinstance(label, str) for label in np.concatenate(y)])
    lifted = SequenceTransformer(Recorder(required=True)).fit(X, y, sample_weight=weight)
    assert_array_equal(lifted.transformer_.sample_weight_, rows[known])
    with sklearn.config_context(enable_metadata_routing=True):
        lifted = SequenceTransformer(StandardScaler().set_fit_request(sample_weight=True))
        lifted.fit(X, sample_weight=weight)
    assert_allclose(lifted.transformer_.mean_, np.average(STACKED, axis=0, weights=rows))
    lifted = SequenceTransformer(StandardScaler())
    assert_allclose(
        np.concatenate(lifted.fit_transform(X, sample_weight=weight)),
        (STACKED - lifted.transformer_.mean_) / lifted.transformer_.scale_,
    )


@pytest.mark.parametrize("how", ["set_output", "config"])
@pytest.mark.parametrize("source", ["arrays", "frames"])
def test_pandas_output(how, source):
    sequences = X if source == "arrays" else as_frames(X)
    lifted = SequenceTransformer(StandardScaler())
    if how == "set_output":
        found = clone(lifted.set_output(transform="pandas")).fit(sequences).transform(sequences)
    else:
        with sklearn.config_context(transform_output="pandas"):
            found = lifted.fit_transform(sequences)
    names = ["x0", "x1", "x2"] if source == "arrays" else ["p", "q", "r"]
    for part, values in zip(found, X, strict=True):
        assert isinstance(part, pd.DataFrame) and part.columns.tolist() == names
        assert part.index.tolist() == list(range(len(values)))
    assert pack(found).feature_names.tolist() == names
    assert isinstance(lifted.set_output(transform="default").fit(X).transform(X)[0], np.ndarray)


def test_set_output_reaches_a_fitted_transformer_and_pipelines():
    lifted = SequenceTransformer(StandardScaler()).fit(X)
    assert isinstance(lifted.set_output(transform="pandas").transform(X)[0], pd.DataFrame)
    pipe = make_pipeline(SequenceTransformer(StandardScaler()), StepLabeller()).set_output(transform="pandas")
    assert pipe.fit(X, Y)[-1].feature_names_in_.tolist() == ["x0", "x1", "x2"]


def test_round_trip_clone_pickle_and_state():
    lifted = SequenceTransformer(StandardScaler()).fit(X)
    back = pickle.loads(pickle.dumps(lifted)).inverse_transform(lifted.transform(X))
    assert_allclose(np.concatenate(back), STACKED)
    assert not hasattr(SequenceTransformer(SelectKBest()), "transformer_")
    assert not hasattr(SequenceTransformer(Recorder()), "inverse_transform")
    assert not hasattr(SequenceTransformer(Recorder()), "get_feature_names_out")
    assert not hasattr(clone(lifted), "transformer_") and not hasattr(clone(lifted), "n_features_in_")
    assert "SequenceTransformer" in lifted._repr_html_()
    tags = get_tags(SequenceTransformer(MaxAbsScaler()))
    assert tags.input_tags.sparse == get_tags(MaxAbsScaler()).input_tags.sparse
    assert not tags.input_tags.two_d_array and not tags.target_tags.required
    assert get_tags(SequenceTransformer(TargetEncoder())).target_tags.required


def test_nested_keys_in_a_grid_search():
    pipe = Pipeline([("pca", SequenceTransformer(PCA())), ("model", StepLabeller())])
    grid = {"pca__transformer__n_components": [1, 2]}
    search = GridSearchCV(pipe, grid, cv=KFold(3)).fit(X, Y)
    assert search.best_estimator_["pca"].transformer_.n_components_ in (1, 2)
    whole = {"pca__transformer": [StandardScaler(), PCA(n_components=1)]}
    assert len(GridSearchCV(pipe, whole, cv=KFold(3)).fit(X, Y).cv_results_["params"]) == 2


def test_refusals():
    with pytest.raises(NotFittedError):
        SequenceTransformer(StandardScaler()).transform(X)
    with pytest.raises(ValueError, match="DropsARow made 4 rows of 5 time steps"):
        SequenceTransformer(DropsARow()).fit_transform([np.zeros((3, 1)), np.zeros((2, 1))])
    for fault in ("passthrough", StandardScaler, LogisticRegression(), None):
        with pytest.raises(TypeError, match="transformer is "):
            SequenceTransformer(fault).fit(X)
    with pytest.raises(ValueError, match=r"y\[1\] has 1 labels, but X\[1\] has 2 time steps"):
        SequenceTransformer(StandardScaler()).fit([[[0.0]], [[0.0], [1.0]]], [["a"], ["a"]])
    with pytest.raises(ValueError, match=r"X has 2 features, but StandardScaler is expecting 3"):
        SequenceTransformer(StandardScaler()).fit(X).transform([np.zeros((2, 2))])


def test_a_failed_fit_changes_nothing():
    lifted = SequenceTransformer(StandardScaler()).fit(X)
    before = lifted.transformer_
    with pytest.raises(ValueError, match="infinity"):
        lifted.fit([[[np.inf]]])
    assert lifted.transformer_ is before


@pytest.mark.parametrize(
    ("sequences", "error", "message"),
    [
        ([], ValueError, "X holds no sequences"),
        (np.zeros((3, 2)), ValueError, r"X\[0\] has 1 dimension"),
        (pd.DataFrame({"a": [1]}), ValueError, "X is one DataFrame"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], ValueError, r"X\[1\] has 3 features, but X\[0\] has 2"),
        ([np.zeros((0, 2))], ValueError, r"X\[0\] has 0 time steps"),
        ([[[1], [1, 2]]], ValueError, r"X\[0\] is not a rectangular array"),
        ([pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})], ValueError, r"X\[1\] has columns \['b'\]"),
        ([pd.DataFrame({"a": [1]}), [[1]]], TypeError, r"X\[1\] is a dense of rows, but X\[0\] is a frame"),
        ([["a b"], [[1.0]]], TypeError, r"X\[1\] is a dense of rows, but X\[0\] is a list"),
        ([np.array([["a"]]), np.array([[1.0]])], TypeError, r"X\[1\] has dtype float64, but X\[0\] has"),
        (["ab"], TypeError, r"X\[0\] is a str"),
    ],
)
def test_sequences_that_cannot_be_joined(sequences, error, message):
    with pytest.raises(error, match=message):
        SequenceTransformer(StandardScaler()).fit(sequences)


def test_sparse_rows_are_cut_as_slicing_would():
    rows = sparse.random(11, 4, density=0.4, format="csr", random_state=0)
    offsets = np.array([0, 3, 4, 11])
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix):
        parts = cut_rows(kind(rows), offsets)
        for part, start, stop in zip(parts, offsets[:-1], offsets[1:], strict=True):
            assert_array_equal(part.toarray(), rows[start:stop].toarray())


def test_stacked_rows_are_a_copy():
    rows, _ = stack_rows(X)
    rows[:] = 0
    assert_array_equal(np.concatenate(X), STACKED)
    single, _ = stack_rows([X[0]])
    assert not np.shares_memory(single, X[0])
