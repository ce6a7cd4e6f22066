"""Pipelines and scorers around the library's own estimators and transformers of sequences."""

import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from step_labeller import make_steps

from sklearn_seqlab import metrics
from sklearn_seqlab.crf import LinearChainCRF
from sklearn_seqlab.feature_extraction import SequenceDictVectorizer
from sklearn_seqlab.preprocessing import SequenceTransformer, SlidingWindow, make_sequence_pipeline

X, Y = make_steps(n_sequences=15, seed=3)


@pytest.fixture(scope="module")
def fitted():
    return make_sequence_pipeline(StandardScaler(), PCA(n_components=2), LinearChainCRF()).fit(X, Y)


def test_same_as_the_crf_on_transformed_sequences(fitted):
    sequences = X
    for step in (StandardScaler(), PCA(n_components=2)):
        sequences = SequenceTransformer(step).fit_transform(sequences, Y)
    model = LinearChainCRF().fit(sequences, Y)
    for verb in ("predict", "predict_proba", "predict_pairwise"):
        found, expected = getattr(fitted, verb)(X), getattr(model, verb)(sequences)
        for a, b in zip(found, expected, strict=True):
            assert_array_equal(a, b)
    assert_array_equal(fitted.log_likelihood(X, Y), model.log_likelihood(sequences, Y))
    assert fitted.score(X, Y) == model.score(sequences, Y)
    assert fitted.classes_.tolist() == model.classes_.tolist()


def test_known_labels_come_back(fitted):
    observed = [None] * len(X)
    observed[2] = ["c", *[None] * (len(X[2]) - 1)]
    assert fitted.predict(X, y_observed=observed)[2][0] == "c"
    assert fitted.predict_proba(X, y_observed=observed)[2][0, 2] == 1.0
    ((labels, _), *_) = fitted.predict_n_best(X[2:3], 2, y_observed=observed[2:3])[0]
    assert labels[0] == "c"


def test_sampling_and_pickle(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.log_likelihood(X, Y), fitted.log_likelihood(X, Y))
    assert len(fitted.sample(X, n_samples=2, random_state=0)) > 0


def test_search_with_several_scorers():
    pipe = make_sequence_pipeline(StandardScaler(), PCA(), LinearChainCRF(max_iter=30))
    names = metrics.get_sequence_scorer_names()
    search = GridSearchCV(
        pipe,
        {"pca__n_components": [1, 3], "linearchaincrf__C": [0.1, 1.0]},
        scoring={name: metrics.get_sequence_scorer(name) for name in names},
        refit="log_likelihood",
        cv=KFold(3),
    )
    search.fit(X, Y)
    for name in names:
        assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()
    best = search.best_estimator_
    likelihood = best.log_likelihood(X, Y).sum() / sum(map(len, Y))
    assert_allclose(search.score(X, Y), likelihood)
    assert_allclose(metrics.log_likelihood(search, X, Y), likelihood)


def test_likelihood_through_a_plain_pipeline(fitted):
    plain = make_pipeline(
        SequenceTransformer(StandardScaler()), SequenceTransformer(PCA(n_components=2)), LinearChainCRF()
    ).fit(X, Y)
    assert_allclose(metrics.log_likelihood(plain, X, Y), metrics.log_likelihood(fitted, X, Y))


def test_weights_by_name_and_by_routing():
    weight = np.linspace(0.5, 2, len(X))
    by_name = make_sequence_pipeline(StandardScaler(), LinearChainCRF())
    by_name.fit(X, Y, linearchaincrf__sample_weight=weight)
    unweighted = clone(by_name).fit(X, Y)
    assert not np.allclose(by_name[-1].coef_, unweighted[-1].coef_)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_sequence_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LinearChainCRF().set_fit_request(sample_weight=True),
        ).fit(X, Y, sample_weight=weight)
        assert_array_equal(routed[-1].coef_, by_name[-1].coef_)
        scorer = metrics.log_likelihood.set_score_request(sample_weight=True)
        table = cross_validate(
            clone(routed), X, Y, scoring=scorer, cv=KFold(3), params={"sample_weight": weight}
        )
    assert np.isfinite(table["test_score"]).all()


def test_windows_and_vectorisers_run_unwrapped():
    pipe = make_sequence_pipeline(StandardScaler(), SlidingWindow(), SelectKBest(k=4), LinearChainCRF())
    assert pipe.fit(X, Y).score(X, Y) > 0.6 and pipe[-1].n_features_in_ == 4
    dicts = [[{"positive": float(row[0] > 0), "value": row[1]} for row in values] for values in X]
    pipe = make_sequence_pipeline(SequenceDictVectorizer(), SelectKBest(k=1), LinearChainCRF()).fit(dicts, Y)
    assert pipe[-1].n_features_in_ == 1 and len(pipe.predict(dicts)) == len(X)


def test_frames_reach_the_crf_by_name():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(values, columns=["p", "q", "r"]) for values in X]
    columns = ColumnTransformer([("s", StandardScaler(), ["p", "q"])], verbose_feature_names_out=False)
    pipe = make_sequence_pipeline(columns, LinearChainCRF()).set_output(transform="pandas").fit(frames, Y)
    assert pipe[-1].feature_names_in_.tolist() == ["p", "q"]
    assert pipe.score(frames, Y) > 0.6


def test_a_failing_fit_leaves_all_as_it_was(fitted):
    pipe = pickle.loads(pickle.dumps(fitted))
    before = pipe.predict_proba(X)
    with pytest.raises(ValueError, match="y"):
        pipe.fit(X, [[None] * len(labels) for labels in Y])
    for a, b in zip(pipe.predict_proba(X), before, strict=True):
        assert_array_equal(a, b)
