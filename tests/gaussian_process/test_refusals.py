"""What a hostile user tries: parameters set after fit, sizes without limit, folds without a label."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, PairwiseKernel

from sklearn_seqlab import GPSequenceLabeler, GPStructLabeler


@pytest.fixture
def data(rng):
    X = [rng.normal(size=(20, 3)) for _ in range(8)]
    return X, [np.where(x[:, 0] > 0, "a", "b") for x in X]


def test_mackay_keeps_the_best_variances(data):
    options = {"inference": "sparse", "n_inducing": 60, "random_state": 0}
    plain = GPSequenceLabeler(RBF(0.5), **options).fit(*data)
    learnt = GPSequenceLabeler(RBF(0.5), optimizer="mackay", **options).fit(*data)
    assert learnt.lower_bound_ >= plain.lower_bound_


def test_a_model_that_learns_nothing_is_told():
    # labels that have nothing to do with the inputs
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(12, 2)) for _ in range(4)]
    y = [np.tile(["a", "b"], 6) for _ in X]
    with pytest.warns(UserWarning, match="the lower bound prefers a model that learns nothing"):
        GPSequenceLabeler(dependencies=(), optimizer="mackay").fit(X, y)


@pytest.mark.parametrize("size", [50, 10**6])
def test_batches_are_no_larger_than_the_data(size, data):
    X, y = data
    options = {"inference": "sparse", "n_inducing": 20, "random_state": 0}
    model = GPSequenceLabeler(RBF(), batch_size=size, **options).fit(X, y)
    assert model.lower_bound_ == pytest.approx(
        GPSequenceLabeler(RBF(), **options).fit(X, y).lower_bound_, rel=0.01
    )


def test_kernels_over_too_many_steps_are_refused():
    X = [np.arange(20_001.0)[:, None]]
    y = [np.arange(20_001) % 2]
    with pytest.raises(ValueError, match="20,001 distinct time steps takes about"):
        GPStructLabeler(RBF(), n_samples=4).fit(X, y)
    with pytest.raises(ValueError, match="20,001 distinct time steps takes about"):
        GPSequenceLabeler(RBF(), inference="exact").fit(X, y)


def test_stacked_folds_may_lack_a_label(rng):
    X = [rng.normal(size=(4, 2)) for _ in range(4)]
    y = [["a"] * 4, list("bcbc"), list("bcbc"), list("cbcb")]
    for options in ({"kernel": [RBF(), RBF(2.0), RBF(3.0)]}, {"kernel": RBF()}, {}):
        model = GPSequenceLabeler(neighbours="stacked", **options).fit(X, y)
        assert model.classes_.tolist() == ["a", "b", "c"]
    two = [["a", "b"] * 2, *[["b"] * 4] * 3]
    assert GPSequenceLabeler(bound="gh", neighbours="stacked").fit(X, two).classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "value"), [("damping", 1.5), ("damping", np.nan), ("variance_weight", -5), ("n_samples", 0)]
)
def test_parameters_are_checked_at_predict_too(name, value, data):
    X, y = data
    model = GPSequenceLabeler().fit(X, y).set_params(**{name: value})
    with pytest.raises(ValueError, match=name):
        model.predict_proba(X)


def test_a_set_of_which_one_label_was_seen_says_nothing(rng):
    X = [rng.normal(size=(4, 2)) for _ in range(4)]
    rest = [list("abca"), list("cbcb"), list("bbca")]
    models = [GPSequenceLabeler().fit(X, [[first, "b", "c", "b"], *rest]) for first in ({"a", "q"}, None)]
    assert models[0].lower_bound_ == models[1].lower_bound_
    assert_array_equal(models[0].coef_, models[1].coef_)


def test_inducing_rows_of_large_features_are_spread(data):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GPSequenceLabeler(RBF(), inference="sparse", n_inducing=20, random_state=0).fit(
            [1e200 * x for x in X], y
        )
    assert len(np.unique(model.inducing_, axis=0)) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tied": True, "dependencies": ()}, "dependencies is empty"),
        ({"dependencies": (10**20,)}, "at most 1,000,000,000 steps"),
        ({"dependency_variance": 1e300}, "dependency_variance"),
        ({"kernel": ConstantKernel(-1.0)}, "no covariance"),
        ({"kernel": PairwiseKernel(metric="sigmoid"), "dependencies": ()}, "no covariance"),
    ],
)
def test_what_cannot_be_is_named(options, message, data):
    with pytest.raises((ValueError, np.linalg.LinAlgError), match=message):
        GPSequenceLabeler(**options).fit(*data)


def test_features_beyond_double_precision_are_refused_by_the_sampler(data):
    X, y = data
    with pytest.raises(ValueError, match="too large for double precision"):
        GPStructLabeler(n_samples=4).fit([1e200 * x for x in X], y)
