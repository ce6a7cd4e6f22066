"""SequencePipeline: bare transformers outside, sequences inside."""

import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.utils import get_tags
from step_labeller import StepLabeller, make_steps

from sklearn_seqlab import LinearChainCRF, metrics
from sklearn_seqlab.preprocessing import SequencePipeline, SequenceTransformer, make_sequence_pipeline
from sklearn_seqlab.preprocessing._sequence_transformer import acts_on_sequences

X, Y = make_steps()


class Doubling(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """A transformer of whole sequences, which appends a copy of the features."""

    _acts_on_sequences = True

    def fit(self, X, y=None):
        assert isinstance(X, list)
        self.n_fitted_ = len(X)
        return self

    def transform(self, X):
        return [np.hstack([values, values]) for values in X]


class Stream:
    def __init__(self, model):
        self.model = model

    def step(self, x):
        return self.model.predict_proba([x[np.newaxis]])[0][0]

    def finish(self):
        return []


class OnlineLabeller(StepLabeller):
    def predict_online(self, lag=0):
        return Stream(self)


class FailingLabeller(StepLabeller):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("no fit today")


def by_hand(pipe_steps, model, y=Y, **fit_params):
    """The same model on sequences transformed one step after the other."""
    sequences = X
    for step in pipe_steps:
        sequences = SequenceTransformer(step).fit(sequences, y).transform(sequences)
    return model.fit(sequences, y, **fit_params), sequences


def as_function(method):
    """The function behind ``available_if``."""
    return getattr(method, "fn", method)


def same(a, b):
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        assert_array_equal(one, other)


def test_same_as_transforming_by_hand():
    pipe = make_sequence_pipeline(StandardScaler(), PCA(n_components=2), StepLabeller()).fit(X, Y)
    model, sequences = by_hand([StandardScaler(), PCA(n_components=2)], StepLabeller())
    same(pipe.predict(X), model.predict(sequences))
    same(pipe.predict_proba(X), model.predict_proba(sequences))
    same(pipe.decision_function(X), model.decision_function(sequences))
    same(pipe.predict_pairwise(X), model.predict_pairwise(sequences))
    same(pipe[:-1].transform(X), sequences)
    assert_allclose(pipe.log_likelihood(X, Y), model.log_likelihood(sequences, Y))
    assert len(pipe.sample(X, n_samples=3, random_state=0)) == 3
    assert len(pipe.predict_n_best(X, 2)[0]) == 2 and len(pipe.predict_n_best(X, n=2)[0]) == 2
    assert pipe.score(X, Y) == model.score(sequences, Y)
    weight = np.arange(len(X))
    assert pipe.score(X, Y, sample_weight=weight) == model.score(sequences, Y, sample_weight=weight)
    assert pipe.classes_.tolist() == ["a", "b", "c"] and pipe.n_features_in_ == 3


def test_known_labels_reach_the_last_step():
    pipe = make_sequence_pipeline(StandardScaler(), StepLabeller()).fit(X, Y)
    observed = [None] * len(X)
    observed[1] = ["c"] + [None] * (len(X[1]) - 1)
    free, bound = pipe.predict(X), pipe.predict(X, y_observed=observed)
    assert bound[1][0] == "c"
    same(free[2:], bound[2:])
    with sklearn.config_context(enable_metadata_routing=True):
        same(pipe.predict(X, y_observed=observed), bound)


def test_the_bare_transformers_are_held():
    scaler = StandardScaler()
    pipe = make_sequence_pipeline(scaler, PCA(n_components=2), StepLabeller())
    assert list(pipe.named_steps) == ["standardscaler", "pca", "steplabeller"]
    assert pipe.get_params()["pca__n_components"] == 2
    pipe.set_params(pca__n_components=1).fit(X, Y)
    assert pipe["pca"].components_.shape == (1, 3)
    assert_allclose(pipe[0].mean_, np.concatenate(X).mean(axis=0))
    assert not hasattr(scaler, "mean_")  # clones are fitted
    assert pipe.steps[0][1] is not scaler
    assert isinstance(pipe[:-1], SequencePipeline) and isinstance(pipe[-1], StepLabeller)
    assert pipe[:-1].get_feature_names_out().tolist() == ["pca0"]


def test_verbs_exist_exactly_where_the_last_step_has_them():
    pipe = make_sequence_pipeline(StandardScaler(), StepLabeller())
    for verb in ("predict_n_best", "log_likelihood", "sample", "predict_pairwise", "predict_proba"):
        assert hasattr(pipe, verb)
    for verb in ("predict_segments", "predict_online", "staged_predict", "fit_predict", "transform"):
        assert not hasattr(pipe, verb)
    assert not hasattr(pipe[:-1], "predict") and hasattr(pipe[:-1], "transform")
    with pytest.raises(AttributeError, match="predict_segments"):
        pipe.predict_segments(X)


def test_no_method_of_the_plain_pipeline_sees_bare_transformers():
    """Those that take data must be our own: inherited ones would give lists to transformers of rows."""
    taking_data = {
        name
        for name, method in vars(Pipeline).items()
        if not name.startswith("_")
        and "X" in getattr(inspect.unwrap(as_function(method)), "__code__", same.__code__).co_varnames
    }
    assert {"predict", "transform", "score_samples", "decision_function"} <= taking_data
    assert taking_data <= set(vars(SequencePipeline))


def test_transformers_of_sequences_run_unwrapped():
    pipe = make_sequence_pipeline(Doubling(), SequenceTransformer(PCA(n_components=4)), StepLabeller())
    pipe.fit(X, Y)
    assert pipe["doubling"].n_fitted_ == len(X) and pipe[-1].n_features_in_ == 4
    assert isinstance(pipe["sequencetransformer"], SequenceTransformer)
    assert pipe["sequencetransformer"].transformer_.n_components_ == 4
    nested = make_sequence_pipeline(
        make_sequence_pipeline(StandardScaler(), Doubling()), PCA(), StepLabeller()
    )
    same(nested.fit(X, Y)[:-1].transform(X), nested[:-1].transform(X))
    assert nested[-1].n_features_in_ == 6


def test_what_acts_on_sequences():
    assert acts_on_sequences(Doubling()) and acts_on_sequences(SequenceTransformer(PCA()))
    assert acts_on_sequences(make_sequence_pipeline(PCA())) and acts_on_sequences(StepLabeller())
    assert acts_on_sequences(make_pipeline(Doubling(), SequenceTransformer(PCA())))
    for step in (PCA(), make_pipeline(PCA()), FeatureUnion([("pca", PCA())]), FunctionTransformer()):
        assert not acts_on_sequences(step)


def test_pipelines_and_unions_of_row_transformers_are_one_step():
    inner = make_pipeline(StandardScaler(), FeatureUnion([("pca", PCA(1)), ("best", SelectKBest(k=1))]))
    pipe = make_sequence_pipeline(inner, StepLabeller()).fit(X, Y)
    assert pipe[-1].n_features_in_ == 2 and pipe["pipeline"][0].n_features_in_ == 3


def test_passthrough_none_and_a_last_transformer():
    pipe = SequencePipeline([("a", "passthrough"), ("b", None), ("model", StepLabeller())]).fit(X, Y)
    same(pipe.predict(X), StepLabeller().fit(X, Y).predict(X))
    features = make_sequence_pipeline(StandardScaler(), PCA(n_components=2))
    same(features.fit_transform(X), features.transform(X))
    assert features[-1].n_components_ == 2
    back = make_sequence_pipeline(StandardScaler(), MinMaxScaler()).fit(X)
    assert_allclose(np.concatenate(back.inverse_transform(back.transform(X))), np.concatenate(X))
    assert not hasattr(make_sequence_pipeline(SelectKBest(), Doubling()), "inverse_transform")
    last = SequencePipeline([("scale", StandardScaler()), ("end", "passthrough")]).fit(X)
    same(last.transform(X), SequenceTransformer(StandardScaler()).fit_transform(X))


def test_a_failing_fit_leaves_the_pipeline_as_it_was():
    pipe = make_sequence_pipeline(StandardScaler(), Doubling(), StepLabeller()).fit(X, Y)
    before, steps = pipe.predict(X), list(pipe.steps)
    with pytest.raises(ValueError, match="y holds no label"):
        pipe.fit([10 * values for values in X[:3]], [[None] * len(values) for values in X[:3]])
    assert pipe.steps == steps and pipe["doubling"].n_fitted_ == len(X)
    same(pipe.predict(X), before)
    fresh = make_sequence_pipeline(StandardScaler(), FailingLabeller())
    with pytest.raises(ValueError, match="no fit today"):
        fresh.fit(X, Y)
    assert not hasattr(fresh[0], "mean_")


def test_sample_weight_by_name():
    weight = np.linspace(0, 3, len(X))
    pipe = make_sequence_pipeline(StandardScaler(), StepLabeller())
    pipe.fit(X, Y, steplabeller__sample_weight=weight)
    model, sequences = by_hand([StandardScaler()], StepLabeller(), sample_weight=weight)
    same(pipe.predict_proba(X), model.predict_proba(sequences))
    pipe.fit(X, Y, standardscaler__sample_weight=weight)
    rows = np.repeat(weight, [len(values) for values in X])
    assert_allclose(pipe[0].mean_, np.average(np.concatenate(X), axis=0, weights=rows))
    with pytest.raises(ValueError, match="does not accept the sample_weight parameter"):
        pipe.fit(X, Y, sample_weight=weight)


def test_sample_weight_by_routing():
    weight = np.linspace(0.5, 3, len(X))
    rows = np.repeat(weight, [len(values) for values in X])
    with sklearn.config_context(enable_metadata_routing=True):
        model = StepLabeller().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        pipe = make_sequence_pipeline(scaler, model).fit(X, Y, sample_weight=weight)
        assert_allclose(pipe[0].mean_, np.average(np.concatenate(X), axis=0, weights=rows))
        plain = make_sequence_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        plain.fit(X, Y, sample_weight=weight)
        expected, sequences = by_hand([StandardScaler()], StepLabeller(), sample_weight=weight)
        same(plain.predict_proba(X), expected.predict_proba(sequences))
        assert plain.score(X, Y) == expected.score(sequences, Y)
        search = GridSearchCV(pipe, {"steplabeller__C": [0.1, 1.0]}, scoring=metrics.micro_accuracy, cv=3)
        search.fit(X, Y, sample_weight=weight)
        refused = make_sequence_pipeline(StandardScaler(), StepLabeller())
        with pytest.raises(ValueError, match="sample_weight"):
            refused.fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_in_searches(n_jobs):
    pipe = make_sequence_pipeline(StandardScaler(), PCA(), StepLabeller())
    grid = {
        "pca__n_components": [1, 2],
        "steplabeller__C": [0.1, 1.0],
        "standardscaler": [MinMaxScaler(), None],
    }
    search = GridSearchCV(
        pipe,
        grid,
        cv=KFold(3),
        scoring={"accuracy": metrics.micro_accuracy, "likelihood": metrics.log_likelihood},
        refit="likelihood",
        n_jobs=n_jobs,
    ).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_likelihood"]).all()
    observed = [["c"] + [None] * (len(values) - 1) for values in X]
    assert search.best_estimator_.predict(X, y_observed=observed)[0][0] == "c"
    table = cross_validate(pipe, X, Y, cv=KFold(3), n_jobs=n_jobs)
    assert np.isfinite(table["test_score"]).all()


def test_scorer_sees_the_same_through_both_kinds_of_pipeline():
    ours = make_sequence_pipeline(StandardScaler(), StepLabeller()).fit(X, Y)
    plain = make_pipeline(SequenceTransformer(StandardScaler()), StepLabeller()).fit(X, Y)
    assert metrics.log_likelihood(ours, X, Y) == metrics.log_likelihood(plain, X, Y)


def test_partial_labels():
    y = [labels.copy() for labels in Y]
    y[0][:2] = None
    pipe = make_sequence_pipeline(SelectKBest(k=2), StepLabeller()).fit(X, y)
    assert pipe["selectkbest"].get_support().tolist() == [True, True, False]


def test_frames_and_output():
    frames = [pd.DataFrame(values, columns=["p", "q", "r"]) for values in X]
    columns = ColumnTransformer([("scaled", StandardScaler(), ["p", "q"])], verbose_feature_names_out=False)
    pipe = make_sequence_pipeline(columns, StepLabeller()).set_output(transform="pandas").fit(frames, Y)
    assert pipe.feature_names_in_.tolist() == ["p", "q", "r"]
    assert pipe[-1].feature_names_in_.tolist() == ["p", "q"]
    assert isinstance(pipe[:-1].transform(frames)[0], pd.DataFrame)
    with sklearn.config_context(transform_output="pandas"):
        again = clone(make_sequence_pipeline(StandardScaler(), StepLabeller())).fit(frames, Y)
        assert again[-1].feature_names_in_.tolist() == ["p", "q", "r"]
        assert len(again.predict(frames)) == len(X)


def test_memory(tmp_path):
    pipe = make_sequence_pipeline(StandardScaler(), Doubling(), StepLabeller(), memory=str(tmp_path))
    expected = make_sequence_pipeline(StandardScaler(), Doubling(), StepLabeller()).fit(X, Y).predict_proba(X)
    for _ in range(2):  # the second time from the cache
        same(pipe.fit(X, Y).predict_proba(X), expected)
        assert_allclose(pipe[0].mean_, np.concatenate(X).mean(axis=0))
    assert any(tmp_path.rglob("output.pkl"))


def test_verbose(capsys):
    make_sequence_pipeline(StandardScaler(), StepLabeller(), verbose=True).fit(X, Y)
    assert "(step 1 of 2) Processing standardscaler" in capsys.readouterr().out
    make_sequence_pipeline(StandardScaler(), StepLabeller()).fit(X, Y)
    assert capsys.readouterr().out == ""


def test_clone_pickle_repr_and_tags():
    pipe = make_sequence_pipeline(StandardScaler(), StepLabeller()).fit(X, Y)
    same(pickle.loads(pickle.dumps(pipe)).predict(X), pipe.predict(X))
    fresh = clone(pipe)
    assert isinstance(fresh, SequencePipeline) and not hasattr(fresh[0], "mean_")
    assert "StandardScaler" in pipe._repr_html_() and "SequencePipeline" in repr(pipe)
    assert "SequenceTransformer" not in pipe._repr_html_()
    tags = get_tags(pipe)
    assert tags.estimator_type is None and not tags.input_tags.two_d_array and tags.target_tags.required
    with pytest.raises(NotFittedError, match="SequencePipeline"):
        fresh.predict(X)
    with pytest.raises(NotFittedError, match="SequencePipeline"):
        fresh.log_likelihood(X, Y)


def test_prediction_changes_nothing_and_may_run_in_threads():
    pipe = make_sequence_pipeline(StandardScaler(), PCA(), StepLabeller()).fit(X, Y)
    before = pickle.dumps(pipe)
    expected = pipe.predict_proba(X)
    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(lambda _: pipe.predict_proba(X), range(6)):
            same(found, expected)
    assert pickle.dumps(pipe) == before


def test_refusals():
    with pytest.raises(ValueError, match="empty"):
        SequencePipeline([]).fit(X, Y)
    with pytest.raises(TypeError, match="intermediate steps should be transformers"):
        make_sequence_pipeline(StepLabeller(), StepLabeller()).fit(X, Y)
    with pytest.raises(ValueError, match="not unique"):
        SequencePipeline([("a", PCA()), ("a", StepLabeller())]).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but StandardScaler is expecting 3"):
        make_sequence_pipeline(StandardScaler(), StepLabeller()).fit(X, Y).predict([np.zeros((2, 2))])


def test_online():
    pipe = make_sequence_pipeline(StandardScaler(), PCA(n_components=2), OnlineLabeller()).fit(X, Y)
    stream = pipe.predict_online(lag=0)
    found = np.array([stream.step(x) for x in X[0]])
    assert_allclose(found, pipe.predict_proba(X[:1])[0])
    assert stream.finish() == []
    windowed = make_sequence_pipeline(Doubling(), OnlineLabeller()).fit(X, Y)
    with pytest.raises(ValueError, match="Step 'doubling' transforms whole sequences"):
        windowed.predict_online()
    alone = make_sequence_pipeline(OnlineLabeller()).fit(X, Y)
    assert isinstance(alone.predict_online(), Stream)


def test_a_plain_pipeline_around_a_sequence_pipeline():
    outer = Pipeline(
        [("features", make_sequence_pipeline(StandardScaler(), PCA(2))), ("model", StepLabeller())]
    )
    inner = make_sequence_pipeline(StandardScaler(), PCA(2), StepLabeller()).fit(X, Y)
    same(outer.fit(X, Y).predict(X), inner.predict(X))


def test_callbacks_are_passed_on():
    callback = pytest.importorskip("sklearn.callback")  # scikit-learn 1.9

    class Counter:
        """The least a callback must have."""

        def __init__(self):
            self.names = []

        def setup(self, estimator, context):
            self.names.append("setup")

        def on_fit_task_begin(self, estimator, context, **kwargs):
            self.names.append("begin")

        def on_fit_task_end(self, estimator, context, **kwargs):
            self.names.append("end")

        def teardown(self, estimator, context):
            self.names.append("teardown")

    assert callback is not None
    counter = Counter()
    make_sequence_pipeline(StandardScaler(), StepLabeller()).set_callbacks(counter).fit(X, Y)
    assert counter.names[0] == "setup" and counter.names[-1] == "teardown" and "begin" in counter.names


def test_known_labels_may_be_given_by_position(rng):
    X = [rng.normal(size=(5, 2)) for _ in range(3)]
    y = [np.where(x[:, 0] > 0, "on", "off") for x in X]
    pipe = make_sequence_pipeline(StandardScaler(), LinearChainCRF()).fit(X, y)
    known = [["on", None, None, None, "off"]] * 3
    for verb in ("predict", "predict_proba", "decision_function"):
        by_position, by_name = getattr(pipe, verb)(X, known), getattr(pipe, verb)(X, y_observed=known)
        np.testing.assert_array_equal(np.concatenate(by_position), np.concatenate(by_name))
    assert all(labels[0] == "on" and labels[-1] == "off" for labels in pipe.predict(X, known))
