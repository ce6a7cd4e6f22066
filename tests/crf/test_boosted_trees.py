"""BoostedCRF with trees: worked numbers, finite differences, and what it learns that lines cannot."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.tree import DecisionTreeRegressor
from worked_numbers import i2

from sklearn_seqlab import BoostedCRF, LinearChainCRF
from sklearn_seqlab.crf import _boosted, _tree_boosting, _trees
from sklearn_seqlab.objectives import KnownChains, MoveWeights, SequenceLoss
from sklearn_seqlab.sequences import encode_labels, pack


def growing(X, y, *, weight=None, temperature=None, **changed):
    """A round in the making, stumps unless said otherwise."""
    batch = pack(X)
    known = KnownChains(encode_labels(y, batch.offsets), 3, None)
    params = {
        "n_rounds": 10, "learning_rate": 1.0, "edge": False, "one_tree": True, "max_leaf_nodes": 2,
        "min_samples_leaf": 1, "newton": True, "leaf_l2": 1.0, "subsample": 1.0, "max_bins": None,
        "transition_iter": 0, "l2": 0.0, "tol": 0.0, "n_iter_no_change": None,
    } | changed  # fmt: skip
    weight = np.ones(len(X)) if weight is None else weight
    loss = SequenceLoss(weight, None if temperature is None else np.full(len(X), temperature))
    inputs = _trees.tree_inputs(batch, 0, 0)
    return _tree_boosting._Rounds(
        inputs, known, loss, _tree_boosting.TreeParameters(**params), np.random.RandomState(0)
    )


def test_worked_residuals():
    X, y, moves = i2()
    coef = np.concatenate([moves.ravel(), np.zeros(6)])
    full = growing(X, y)
    found = full.known.residuals(full.frame.scores(coef))
    assert_allclose(-found.node[1], [-0.4051592594, 0.7120155383, -0.3068562789], rtol=1e-8)
    assert_allclose(found.nll.sum(), 21.0499822305, rtol=1e-10)
    edge = growing(X, y, edge=True)
    expected = [
        -0.1692975824, 0.8751517794, -0.1063150534, -0.1372155046, -0.07573714961, -0.07643139974, -0.09864617236,
        -0.08739909143, -0.1241098257,
    ]  # fmt: skip
    assert_allclose(-edge.known.residuals(edge.frame.scores(coef)).edge[1].ravel(), expected, rtol=1e-8)
    hidden = [
        [None if (t + n) % 2 else int(label) for t, label in enumerate(labels)] for n, labels in enumerate(y)
    ]
    partial = growing(X, hidden)
    found = partial.known.residuals(partial.frame.scores(coef))
    assert_allclose(-found.node[1], [-0.03200415855, -0.01420338382, 0.04620754237], rtol=1e-8)
    assert_allclose(found.nll.sum(), 11.0921022545, rtol=1e-10)


def test_worked_rounds(monkeypatch):
    X, y, moves = i2()
    coef = np.concatenate([moves.ravel(), np.zeros(6)])
    monkeypatch.setattr(_tree_boosting, "_LINE_PRECISION", 1e-10)
    rounds = growing(X, y)
    targets = rounds._table(rounds.known.residuals(rounds.frame.scores(coef)))[1]
    first, second, third = (rounds.step(coef) for _ in range(3))
    (tree,) = first.trees
    assert tree["feature"].tolist() == [1, -1, -1]
    assert_allclose(
        tree["threshold"][0], 0.3232647568, atol=3e-8
    )  # half-way between values in single precision
    spread = ((targets - targets.mean(axis=0)) ** 2).sum() / 3  # scikit-learn takes the mean over outputs
    assert_allclose(3 * (spread - first.importances.sum()), 9.604074143, rtol=1e-6)
    expected = [
        [-0.3642689038, -0.3799416042, 0.7631896013], [-0.6594053309, 1.200104403, -0.4727145864]
    ]  # fmt: skip
    assert_allclose(tree["value"][1:] / first.step_size, expected, rtol=1e-8)
    assert_allclose([first.step_size, first.value], [0.9295603388, 17.212325], rtol=1e-8)
    assert second.trees[0]["feature"][0] == 1
    expected = [
        [-0.3151941295, 1.328758657, -0.862199257], [0.1945446282, -0.3010523977, 0.1088259898]
    ]  # fmt: skip
    assert_allclose(second.trees[0]["value"][1:] / second.step_size, expected, rtol=1e-7)
    assert_allclose([second.step_size, second.value], [1.840031186, 13.73304582], rtol=1e-7)
    assert_allclose([third.step_size, third.value], [1.309847299, 12.51488129], rtol=1e-7)


@pytest.mark.parametrize("edge", [False, True])
@pytest.mark.parametrize("temperature", [None, 1.0])
def test_weights_of_moves_by_finite_differences(edge, temperature):
    X, y, _ = i2()
    y = [[None if t == 2 else int(label) for t, label in enumerate(labels)] for labels in y]
    rounds = growing(X, y, edge=edge, temperature=temperature, weight=np.array([1.0, 2.0, 0.5]), l2=0.3)
    rng = np.random.RandomState(0)
    base = rounds.frame.base
    base = rng.normal(size=base[0].shape), rng.normal(size=base[1].shape)
    frame = MoveWeights(rounds.known, rounds.loss, base, 0.3)
    coef, direction = rng.normal(size=15), rng.normal(size=15)
    up, down = (frame.value_and_gradient(coef + sign * 1e-5 * direction)[0] for sign in (1, -1))
    assert_allclose(frame.value_and_gradient(coef)[1] @ direction, (up - down) / 2e-5, rtol=1e-7)


def switches(n_sequences=10, n_timesteps=40, seed=0):
    """Labels that follow the sign of a product of two inputs: nothing linear tells them."""
    rng = np.random.RandomState(seed)
    X = [rng.uniform(-1, 1, size=(n_timesteps, 3)) for _ in range(n_sequences)]
    return X, [np.where(x[:, 0] * x[:, 1] > 0, "same", "other") for x in X]


@pytest.mark.parametrize(
    "params", [{}, {"tree_output": "label"}, {"leaf_update": "mean"}, {"subsample": 0.5}]
)
def test_products_of_inputs_are_learnt(params):
    X, y = switches(20)
    test_X, test_y = switches(20, seed=1)
    model = BoostedCRF(weak_learner="tree", n_rounds=40, min_samples_leaf=5, random_state=0, **params).fit(
        X, y
    )
    assert model.score(test_X, test_y) > 0.9
    assert LinearChainCRF().fit(X, y).score(test_X, test_y) < 0.65
    assert model.feature_importances_[:2].min() > 4 * model.feature_importances_[2]
    assert_allclose(model.feature_importances_.sum(), 1)


def test_moves_that_depend_on_inputs_are_learnt():
    """The label changes where an input is on: only scores of moves can say so."""
    rng = np.random.RandomState(0)

    def draw(n):
        X = [(rng.uniform(size=(30, 1)) < 0.3).astype(float) for _ in range(n)]
        return X, [np.cumsum(x[:, 0]).astype(int) % 2 for x in X]

    X, y = draw(20)
    test_X, test_y = draw(20)
    params = {"weak_learner": "tree", "n_rounds": 20, "min_samples_leaf": 2}
    model = BoostedCRF(potentials="edge", **params).fit(X, y)
    assert model.score(test_X, test_y) == 1
    assert BoostedCRF(**params).fit(X, y).score(test_X, test_y) < 0.8
    assert model.feature_names().tolist() == ["x0[t]", "y[t-1] = 0", "y[t-1] = 1"]


@pytest.mark.parametrize("potentials", ["node", "edge"])
@pytest.mark.parametrize("loss", ["log", "exp"])
def test_rounds_lower_the_loss_and_it_is_that_of_the_model(potentials, loss):
    X, y = switches(6)
    y = [[None if t % 5 == 0 else label for t, label in enumerate(labels)] for labels in y]
    model = BoostedCRF(
        weak_learner="tree", potentials=potentials, loss=loss, n_rounds=8, window=(1, 1), min_samples_leaf=5
    ).fit(X, y)
    assert (np.diff(model.loss_curve_) < 0).all()
    nll = -model.log_likelihood(X, y)
    expected = nll.sum() if loss == "log" else np.logaddexp.reduce(nll)
    assert_allclose(model.loss_curve_[-1], expected, rtol=1e-9)
    assert model.feature_names().tolist()[9:11] == ["outside[t-1]", "outside[t+1]"]
    assert model.n_boosting_features_ == len(model.feature_names()) == 11 + 2 * (potentials == "edge")


def test_stages_and_warm_start():
    X, y = switches()
    params = {"weak_learner": "tree", "min_samples_leaf": 5, "random_state": 0}
    model = BoostedCRF(n_rounds=4, warm_start=True, **params).fit(X, y)
    expected = BoostedCRF(n_rounds=9, **params).fit(X, y)
    stages = list(expected.staged_predict(X))
    assert_array_equal(np.concatenate(stages[3]), np.concatenate(model.predict(X)))
    assert_array_equal(np.concatenate(stages[-1]), np.concatenate(expected.predict(X)))
    model.set_params(n_rounds=9).fit(X, y)
    assert len(model.trees_) == model.n_iter_ == 9 and len(model.loss_curve_) == 10
    assert_allclose(model.loss_curve_, expected.loss_curve_, rtol=1e-6)


def test_the_best_round_is_kept():
    X, y = switches(12, 15)
    model = BoostedCRF(
        weak_learner="tree", n_rounds=150, learning_rate=1.0, min_samples_leaf=1, validation_fraction=0.4,
        n_iter_no_change=5, random_state=0,
    ).fit(X, y)  # fmt: skip
    best = int(np.argmin(model.validation_loss_))
    assert model.n_iter_ == len(model.trees_) == len(model.step_sizes_) == best < 150
    held_out = np.sort(np.random.RandomState(0).permutation(12)[:5])
    likelihood = model.log_likelihood([X[s] for s in held_out], [y[s] for s in held_out])
    assert_allclose(-likelihood.mean(), model.validation_loss_[best], rtol=1e-10)


@pytest.mark.parametrize("max_bins", [2, 7, 255, None])
def test_stored_trees_are_those_that_were_grown(max_bins):
    rng = np.random.RandomState(0)
    inputs = np.round(rng.normal(size=(300, 3)), 2).astype(np.float32)
    target = rng.normal(size=(300, 2)) + inputs[:, :1] * inputs[:, 1:2]
    bins = _trees.Bins(inputs, max_bins)
    codes = bins.codes(inputs)
    if max_bins is not None:
        assert max(len(np.unique(column)) for column in codes.T) <= max_bins
    tree = DecisionTreeRegressor(max_leaf_nodes=12).fit(codes, target)
    nodes = _trees.tree_array(tree, bins, tree.tree_.value[:, :, 0])
    assert_array_equal(_trees.leaves_of(nodes, inputs), tree.apply(codes))
    assert_allclose(_trees.tree_scores([nodes], inputs), tree.predict(codes))


def test_rare_values_keep_a_bin():
    column = np.repeat(np.arange(100.0), [1] * 99 + [10_000]).astype(np.float32)[:, None]
    edges = _trees.Bins(column, 10).edges[0]
    assert 1 <= len(edges) <= 9 and edges.max() < 99


def test_sparse_sequences_give_the_same():
    X, y = switches(5)
    X = [np.where(np.abs(x) < 0.3, 0.0, x) for x in X]
    model = BoostedCRF(weak_learner="tree", n_rounds=3, window=(1, 0), random_state=0)
    dense = model.fit(X, y).predict_proba(X)
    stored = [sparse.csr_array(x) for x in X]
    assert_allclose(np.concatenate(model.fit(stored, y).predict_proba(stored)), np.concatenate(dense))


def test_the_other_weak_learner_leaves_nothing_behind():
    X, y = switches(4)
    model = BoostedCRF(n_rounds=2).fit(X, y)
    model.set_params(weak_learner="tree").fit(X, y)
    assert not hasattr(model, "coef_") and not hasattr(model, "selected_features_")
    model.set_params(weak_learner="feature").fit(X, y)
    assert not hasattr(model, "trees_") and model.coef_.shape == (2, 3)


def test_bad_parameters_are_refused(monkeypatch):
    X, y = switches(2)
    for params in ({"beam_size": 2}, {"solver": "joint"}, {"surrogate": "fixed_h"}, {"sigma": 1.0}):
        with pytest.raises(
            ValueError, match=f"{next(iter(params))} is .*weak_learner='tree' chooses no features"
        ):
            BoostedCRF(weak_learner="tree", **params).fit(X, y)
    monkeypatch.setattr(_boosted, "_MOST_EDGE_ROWS", 100)
    with pytest.raises(ValueError, match="use potentials='node'"):
        BoostedCRF(weak_learner="tree", potentials="edge").fit(X, y)
    with pytest.raises(ValueError, match="single precision"):
        BoostedCRF(weak_learner="tree").fit([1e200 * x for x in X], y)


def noisy_data(n_sequences=12):
    rng = np.random.RandomState(0)
    X = [rng.randn(12, 3) for _ in range(n_sequences)]
    return X, [np.where(x[:, 0] + 0.8 * rng.randn(12) > 0, "a", "b") for x in X]


@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_rounds_in_two_fits_are_those_of_one(subsample):
    X, y = noisy_data()
    params = {"weak_learner": "tree", "min_samples_leaf": 3, "random_state": 0, "subsample": subsample}
    once = BoostedCRF(n_rounds=10, **params).fit(X, y)
    twice = BoostedCRF(n_rounds=5, warm_start=True, **params).fit(X, y).set_params(n_rounds=10).fit(X, y)
    assert_allclose(twice.loss_curve_, once.loss_curve_)
    assert_allclose(twice.feature_importances_, once.feature_importances_)
    held = {"validation_fraction": 0.25, "warm_start": True}
    model = BoostedCRF(n_rounds=10, **params, **held).fit(X, y)
    kept = model.n_iter_
    model.set_params(n_rounds=kept + 2).fit(X, y)
    assert len(model.loss_curve_) == len(model.validation_loss_) == kept + 3


@pytest.mark.parametrize("change", [{"validation_fraction": 0.25}, {"loss": "exp"}])
def test_another_way_to_judge_starts_anew(change):
    X, y = noisy_data()
    model = BoostedCRF(n_rounds=12, weak_learner="tree", min_samples_leaf=3, random_state=0, warm_start=True)
    model.fit(X, y).set_params(**change).fit(X, y)
    fresh = BoostedCRF(n_rounds=12, weak_learner="tree", min_samples_leaf=3, random_state=0, **change).fit(
        X, y
    )
    assert model.n_iter_ == fresh.n_iter_
    assert_allclose(model.loss_curve_, fresh.loss_curve_)


def test_trees_that_cannot_split_are_told_of():
    X, y = noisy_data()
    with pytest.warns(UserWarning, match="No tree was split"):
        BoostedCRF(weak_learner="tree").fit(X, y, sample_weight=np.full(12, 1 / 12))


@pytest.mark.parametrize("learner", ["feature", "tree"])
def test_what_was_fitted_predicts_whatever_is_set_later(learner):
    X, y = noisy_data()
    model = BoostedCRF(n_rounds=5, window=(1, 0), weak_learner=learner, min_samples_leaf=3).fit(X, y)
    before, names = model.predict_proba(X), model.feature_names().tolist()
    model.set_params(
        window=(0, 1), weak_learner="tree" if learner == "feature" else "feature", potentials="edge"
    )
    model.set_params(feature_set="context", fit_intercept=True)
    for one, other in zip(model.predict_proba(X), before, strict=True):
        assert_array_equal(one, other)
    assert model.feature_names().tolist() == names
    assert len(list(model.staged_predict(X))) >= model.n_iter_
