"""BoostedCRF: what it learns, keeps and says."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from worked_numbers import t3, t3_partial

from sklearn_seqlab import BoostedCRF, LinearChainCRF
from sklearn_seqlab.crf import _boosted
from sklearn_seqlab.metrics import micro_accuracy_score


def walks(n_sequences=12, n_timesteps=30, seed=0):
    """Labels 0 -> 1 -> 2 -> 0 that stay a while; two channels that tell them, and three of noise."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n_sequences):
        label, labels = rng.randint(3), []
        for _ in range(n_timesteps):
            label = (label + (rng.uniform() < 0.2)) % 3
            labels.append(label)
        labels = np.array(labels)
        told = np.column_stack([labels == 0, labels == 1]) * 2.0 - 1
        X.append(np.hstack([told + rng.normal(size=told.shape), rng.normal(size=(n_timesteps, 3))]))
        y.append(labels)
    return X, y


def test_worked_rounds():
    model = BoostedCRF(n_rounds=6, update="newton", n_rescore=8, tol=0.0).fit(*t3())
    expected = [3.17805383, 2.854782255, 2.726370713, 2.653137144, 2.622753045, 2.602913648, 2.588439971]
    assert_allclose(model.loss_curve_, expected, atol=1e-8)
    assert_array_equal(model.steps_["feature"], [0, 5, 0, 4, 0, 6])
    names = [name for ((name, _),) in model.selected_features_]
    assert names == ["x0[t] & 0", "0 -> 1", "x0[t] & 0", "0 -> 0", "x0[t] & 0", "1 -> 0"]
    partial = BoostedCRF(n_rounds=6, update="newton", surrogate="fixed_h", n_rescore=8, tol=0.0).fit(
        *t3_partial()
    )
    assert_array_equal(partial.steps_["feature"], [0, 6, 1, 6, 1, 0])


@pytest.mark.parametrize("feature_set", ["persistence", "bridge", "transition", "context"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_names_and_weights_are_those_of_the_steps(feature_set, fit_intercept):
    X, y = walks(4)
    window = (0, 0) if feature_set == "transition" else (1, 0)
    model = BoostedCRF(n_rounds=12, feature_set=feature_set, window=window, fit_intercept=fit_intercept).fit(
        X, y
    )
    weights = {}
    for name, amount in [pair for of_round in model.selected_features_ for pair in of_round]:
        weights[name] = weights.get(name, 0.0) + amount
    assert model.n_selected_ == len(weights)
    offsets = ["[t-1]", "[t]"] if window[0] else ["[t]"]
    columns = [f"x{p}{offset}" for offset in offsets for p in range(5)]
    for name, weight in weights.items():
        inputs, _, target = name.rpartition(" & ")
        place = [int(label) for label in target.split(" -> ")]
        if not inputs:  # a constant: of a label, or of a move
            found = (model.intercept_ if len(place) == 1 else model.transition_coef_)[tuple(place)]
        else:
            found = (model.coef_ if len(place) == 1 else model.edge_coef_)[(*place, columns.index(inputs))]
        assert_allclose(found, weight, rtol=1e-12)
    names = model.feature_names()
    assert len(set(names)) == len(names) == model.n_boosting_features_ == len(model.feature_importances_)
    assert_allclose(model.feature_importances_.sum(), model.loss_curve_[0] - model.loss_curve_[-1], rtol=1e-9)


def test_numbers_of_features_of_the_published_sets():
    rng = np.random.RandomState(0)
    X, y = [rng.normal(size=(40, 5))], [np.arange(40) % 8]
    sizes = {"persistence": 48, "bridge": 104, "transition": 320}
    for feature_set, size in sizes.items():
        assert BoostedCRF(n_rounds=1, feature_set=feature_set).fit(X, y).n_boosting_features_ == size
    model = BoostedCRF(n_rounds=1, feature_set="context", window=(5, 5)).fit(X, y)
    assert model.n_boosting_features_ == 3520


def test_inputs_of_a_window_are_those_of_the_neighbours():
    X, y = walks(6)
    model = BoostedCRF(n_rounds=10, window=(1, 2)).fit(X, y)
    padded = [np.vstack([np.zeros((1, 5)), x, np.zeros((2, 5))]) for x in X]
    wide = [np.hstack([p[k : k + len(x)] for k in range(4)]) for p, x in zip(padded, X, strict=True)]
    expected = BoostedCRF(n_rounds=10).fit(wide, y)
    assert_allclose(model.coef_, expected.coef_)
    assert_array_equal(np.concatenate(model.predict(X)), np.concatenate(expected.predict(wide)))


@pytest.mark.parametrize(
    "params", [{}, {"corrective_every": 3}, {"beam_size": 3}, {"feature_set": "transition"}]
)
def test_stages(params):
    X, y = walks()
    model = BoostedCRF(n_rounds=8, **params).fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == model.n_iter_ == 8
    assert_array_equal(np.concatenate(stages[-1]), np.concatenate(model.predict(X)))
    earlier = BoostedCRF(n_rounds=4, **params).fit(X, y)
    assert_array_equal(np.concatenate(stages[3]), np.concatenate(earlier.predict(X)))
    assert list(model.staged_score(X, y)) == [micro_accuracy_score(y, stage) for stage in stages]


def test_a_warm_start_goes_on():
    X, y = walks()
    model = BoostedCRF(n_rounds=5, warm_start=True).fit(X, y)
    model.set_params(n_rounds=12).fit(X, y)
    expected = BoostedCRF(n_rounds=12).fit(X, y)
    assert_array_equal(model.steps_["feature"], expected.steps_["feature"])
    assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert_allclose(model.loss_curve_, expected.loss_curve_, rtol=1e-12)
    assert_allclose(model.feature_importances_, expected.feature_importances_, rtol=1e-8)
    model.set_params(feature_set="persistence").fit(X, y)
    assert len(model.loss_curve_) == 13 and model.n_iter_ == 12  # another feature set: from the start


def test_the_best_round_is_kept():
    X, y = walks(10, 12)
    rng = np.random.RandomState(0)
    X = [np.hstack([x, rng.normal(size=(len(x), 20))]) for x in X]  # noise to overfit
    model = BoostedCRF(n_rounds=80, validation_fraction=0.4, n_iter_no_change=10, random_state=0).fit(X, y)
    best = int(np.argmin(model.validation_loss_))
    assert model.n_iter_ == best < 80
    assert len(model.validation_loss_) == len(model.loss_curve_) == best + 11
    assert len(model.selected_features_) == best
    held_out = np.sort(np.random.RandomState(0).permutation(10)[:4])
    likelihood = model.log_likelihood([X[s] for s in held_out], [y[s] for s in held_out])
    assert_allclose(-likelihood.mean(), model.validation_loss_[best], rtol=1e-10)


def test_joint_minimisation_and_boosting_meet():
    X, y = walks(6)
    for params in ({"l2": 0.05}, {"loss": "log", "l2": 0.5}, {"temperature": "length", "l2": 0.01}):
        joint = BoostedCRF(solver="joint", n_rounds=500, tol=1e-6, **params).fit(X, y)
        boosted = BoostedCRF(n_rounds=500, corrective_every=5, tol=1e-9, **params).fit(X, y)
        assert joint.loss_curve_[-1] <= boosted.loss_curve_[-1] + 1e-6
        assert_allclose(boosted.loss_curve_[-1], joint.loss_curve_[-1], rtol=1e-5)
        assert_allclose(boosted.coef_, joint.coef_, atol=0.02)


def test_the_log_loss_is_that_of_a_linear_chain():
    X, y = walks(6)
    boosted = BoostedCRF(solver="joint", loss="log", l2=0.5, n_rounds=500, tol=1e-7).fit(X, y)
    chain = LinearChainCRF(C=2.0, fit_intercept=False, start_end=False, tol=1e-7).fit(X, y)
    assert_allclose(boosted.coef_, chain.coef_, atol=1e-4)
    assert_allclose(boosted.transition_coef_, chain.transition_coef_, atol=1e-4)
    assert_allclose(2 * boosted.loss_curve_[-1], chain.loss_curve_[-1], rtol=1e-8)


def test_corrections_follow_the_true_loss_whatever_the_surrogate():
    X, y = walks(5)
    partial = [[None if t % 2 else int(label) for t, label in enumerate(labels)] for labels in y]
    params = {"solver": "joint", "l2": 0.1, "n_rounds": 500, "tol": 1e-6}
    held, exact = (
        BoostedCRF(surrogate=surrogate, **params).fit(X, partial) for surrogate in ("fixed_h", "exact")
    )
    assert_allclose(held.coef_, exact.coef_)
    boosted = BoostedCRF(surrogate="fixed_h", l2=0.1, n_rounds=12, corrective_every=3).fit(X, partial)
    assert (np.diff(boosted.loss_curve_) < 0).all()


def test_noise_is_selected_last():
    X, y = walks(20)
    model = BoostedCRF(n_rounds=10).fit(X, y)
    per_input = np.abs(model.coef_).sum(axis=0)
    assert per_input[:2].min() > 3 * per_input[2:].max()


def test_the_graph_of_moves_is_learnt():
    X, y = walks(20)
    model = BoostedCRF(n_rounds=60, temperature="length").fit(X, y)
    cycle = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
    assert_array_equal(model.transition_graph(threshold=-1.0), cycle)


def test_half_of_the_labels_will_do():
    X, y = walks(30)
    rng = np.random.RandomState(1)
    partial = [[None if rng.uniform() < 0.5 else label for label in labels] for labels in y]
    test_X, test_y = walks(20, seed=5)
    full = BoostedCRF(n_rounds=30).fit(X, y).score(test_X, test_y)
    for surrogate in ("exact", "fixed_h"):
        assert (
            BoostedCRF(n_rounds=30, surrogate=surrogate).fit(X, partial).score(test_X, test_y) > full - 0.03
        )


def test_sparse_sequences_give_the_same():
    X, y = walks(5)
    X = [np.where(np.abs(x) < 0.7, 0.0, x) for x in X]
    stored = [sparse.csr_matrix(x) for x in X]
    for params in ({"window": (1, 1)}, {"feature_set": "context", "window": (0, 1)}):
        model = BoostedCRF(n_rounds=8, fit_intercept=True, **params)
        expected = model.fit(X, y).coef_.copy(), model.edge_coef_.copy()
        found = model.fit(stored, y)
        assert_allclose(found.coef_, expected[0], atol=1e-9)
        assert_allclose(found.edge_coef_, expected[1], atol=1e-9)


def test_lengths_temper_the_weight_of_long_sequences():
    X, y = walks(8, 10)
    long_X, long_y = walks(1, 400, seed=9)
    objective = {}
    for temperature in (1.0, "length"):
        model = BoostedCRF(n_rounds=1, temperature=temperature).fit(X + long_X, y + long_y)
        objective[temperature] = model.loss_curve_[0]
    assert_allclose(objective[1.0], 400 * np.log(3), rtol=1e-6)
    assert_allclose(objective["length"], np.log(9 * 3), rtol=1e-12)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"window": (1, 1), "feature_set": "transition"}, "use feature_set='context'"),
        ({"window": (1, -1)}, "window is"),
        ({"l2": 0.1, "sigma": 3.0}, "two forms of one penalty"),
        ({"solver": "joint", "validation_fraction": 0.5}, "solver='joint' makes none"),
    ],
)
def test_bad_parameters_are_refused(params, message):
    model = BoostedCRF(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(*walks(2))
    assert not hasattr(model, "coef_")


def test_a_single_label_and_nothing_to_gain():
    X, _ = walks(2)
    model = BoostedCRF().fit(X, [[1] * len(x) for x in X])
    assert model.n_iter_ == 0 and not model.steps_.size
    assert_array_equal(model.predict(X)[0], np.ones(len(X[0])))
    assert not list(model.staged_predict(X))


def test_joint_says_when_it_has_not_converged():
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        BoostedCRF(solver="joint", n_rounds=2, l2=1e-3).fit(*walks(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BoostedCRF(n_rounds=2).fit(*walks(4))


def test_an_interrupted_fit_keeps_its_rounds(monkeypatch):
    X, y = walks(4)

    class Stops(_boosted.Progress):
        def __call__(self, iteration, value):
            if iteration == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(_boosted, "Progress", Stops)
    model = BoostedCRF(n_rounds=50)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 3
    monkeypatch.undo()
    assert_allclose(model.coef_, BoostedCRF(n_rounds=3).fit(X, y).coef_)


@pytest.mark.parametrize("size", [1e200, 1e-200])
@pytest.mark.parametrize("options", [{}, {"solver": "joint"}, {"weak_learner": "tree"}])
def test_features_beyond_range_are_refused(size, options):
    X, y = walks(3)
    with pytest.raises(ValueError, match=r"[Ss]cale the features"):
        BoostedCRF(n_rounds=2, **options).fit([size * x for x in X], y)


@pytest.mark.parametrize("options", [{}, {"weak_learner": "tree", "min_samples_leaf": 1}])
def test_a_warm_start_needs_the_same_window(options):
    X, y = walks(4)
    model = BoostedCRF(n_rounds=4, window=(1, 0), warm_start=True, random_state=0, **options).fit(X, y)
    model.set_params(window=(0, 1)).fit(X, y)
    fresh = BoostedCRF(n_rounds=4, window=(0, 1), random_state=0, **options).fit(X, y)
    assert_allclose(model.log_likelihood(X, y), fresh.log_likelihood(X, y))


@pytest.mark.filterwarnings("ignore:The solver stopped")
def test_joint_goes_on_where_it_ended():
    rng = np.random.RandomState(0)
    X = [rng.randn(12, 3) for _ in range(12)]
    y = [np.where(x[:, 0] + 0.8 * rng.randn(12) > 0, "a", "b") for x in X]
    model = BoostedCRF(n_rounds=5, solver="joint", warm_start=True).fit(X, y)
    first = model.loss_curve_
    model.set_params(n_rounds=9).fit(X, y)
    assert model.n_iter_ == 9 and len(model.loss_curve_) == 10
    assert_array_equal(model.loss_curve_[:6], first)
    assert (np.diff(model.loss_curve_) <= 0).all()
    assert_allclose(
        model.feature_importances_.sum(), np.abs(model.coef_).sum() + np.abs(model.transition_coef_).sum()
    )


def test_small_weights_choose_as_many_features():
    rng = np.random.RandomState(0)
    X = [rng.randn(12, 3) for _ in range(12)]
    y = [np.where(x[:, 0] + 0.8 * rng.randn(12) > 0, "a", "b") for x in X]
    assert BoostedCRF(n_rounds=8, loss="log").fit(X, y, np.full(12, 1e-6)).n_iter_ == 8


def test_features_that_are_not_there():
    model = BoostedCRF(n_rounds=2).fit([[[0.0], [1.0]]], [["a", "b"]])
    for wrong, error in (([-1], ValueError), ([99], ValueError), ([1.5], TypeError)):
        with pytest.raises(error, match="features holds"):
            model.feature_names(wrong)
    with pytest.raises(ValueError, match="sigma is 1e-200"):
        BoostedCRF(sigma=1e-200).fit([[[0.0], [1.0]]], [["a", "b"]])


def test_all_labels_for_candidates_say_nothing():
    X, y = [[[1.0], [2.0]], [[0.0], [1.0]]], [[{"a", "b"}, {"a", "b"}], ["a", "b"]]
    weighed = BoostedCRF(n_rounds=3, l2=0.1).fit(X, y)
    assert_allclose(weighed.coef_, BoostedCRF(n_rounds=3, l2=0.1).fit(X, [[None, None], y[1]]).coef_)
    with pytest.raises(ValueError, match="nothing to learn from"):
        BoostedCRF().fit(X[:1], y[:1])
