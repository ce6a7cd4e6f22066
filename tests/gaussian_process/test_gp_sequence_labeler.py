"""GPSequenceLabeler: worked predictions, reductions, missing labels, decoders, probabilities, errors."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import EnumeratedChain
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct
from worked_gaussian import as_sequences, new_sequence

from sklearn_seqlab import GPSequenceLabeler
from sklearn_seqlab.datasets import fetch_gpstruct_nlp
from sklearn_seqlab.gaussian_process import _fixed_point, _mean_field
from sklearn_seqlab.utils._check_tools import hide, make_check_data

TIGHT = {"tol": 1e-15, "max_iter": 3000, "tol_predict": 1e-12, "max_iter_predict": 1000}


def worked(**options):
    options = {"bound": "jensen", "posterior": "factored", **TIGHT, **options}
    return GPSequenceLabeler(options.pop("kernel", RBF()), **options).fit(*as_sequences())


def data(n_sequences=25, seed=0):
    return make_check_data(GPSequenceLabeler(), n_sequences=n_sequences, seed=seed)


def test_worked_predictions():
    model = worked(damping=0.0)
    assert_allclose(model.lower_bound_, -11.7428648617, atol=1e-8)
    mean, variance = (part[0] for part in model.predict_latent([new_sequence()]))
    expected = [
        [0.468597, -0.253377, -0.215219],
        [0.023045, -0.414175, 0.391131],
        [-0.044023, -0.390112, 0.434137],
    ]
    assert_allclose(mean, expected, atol=2e-6)
    expected = [
        [0.500440, 0.681565, 0.603146],
        [0.654156, 0.783423, 0.557452],
        [0.669017, 0.757966, 0.580541],
    ]
    assert_allclose(variance, expected, atol=2e-6)
    proba = model.predict_proba([new_sequence()])[0]
    expected = [
        [0.502668, 0.235483, 0.261849],
        [0.336442, 0.170914, 0.492644],
        [0.278401, 0.215991, 0.505608],
    ]
    assert_allclose(proba, expected, atol=2e-6)
    assert model.predict([new_sequence()])[0].tolist() == [0, 2, 2]
    report = model.relaxation_report([new_sequence()])
    assert report.n_iter.tolist() == [17] and report.converged.all()
    for weight, first in ((0, [0.532581, 0.212428, 0.254991]), (1, [0.474076, 0.258834, 0.267090])):
        model.set_params(variance_weight=weight)
        assert_allclose(model.predict_proba([new_sequence()])[0][0], first, atol=2e-6)


def test_worked_viterbi():
    for decode in ("viterbi", "viterbi_mrf"):
        model = worked(dependencies=(-1,), decode=decode)
        assert_allclose(model.lower_bound_, -10.1974723442, atol=1e-8)
        assert model.predict([new_sequence()])[0].tolist() == [0, 2, 2]


def test_worked_missing_labels():
    X, y = as_sequences()
    y = [[0, None, 2, 1], [1, np.nan, 0]]
    model = GPSequenceLabeler(RBF(), bound="jensen", posterior="factored", **TIGHT).fit(X, y)
    assert_allclose(model.lower_bound_, -6.6035443447, atol=1e-8)


@pytest.mark.parametrize("decode", ["viterbi", "viterbi_mrf"])
def test_viterbi_is_the_best_of_all_labellings(decode, rng):
    """Also with couplings so strong that the two kinds differ."""
    model = worked(dependencies=(-1,), decode=decode)
    mean, variance = (part[0] for part in model.predict_latent([new_sequence()]))
    base = mean + 0.5 * variance

    def value(path, kind):
        total = 0.0
        for t, label in enumerate(path):
            score = base[t] + (table[path[t - 1]] if t else 0.0)
            total += score[label] - (np.logaddexp.reduce(score) if kind == "viterbi" else 0.0)
        return total

    paths, differ = list(product(range(3), repeat=3)), 0
    for _ in range(10):
        model.dependency_mean_ = 2 * rng.normal(size=(1, 3, 3))
        table = (model.dependency_mean_ + 0.5 * model.dependency_var_)[0]
        best = {kind: max(paths, key=lambda p: value(p, kind)) for kind in ("viterbi", "viterbi_mrf")}
        differ += best["viterbi"] != best["viterbi_mrf"]
        assert tuple(model.predict([new_sequence()])[0]) == best[decode]
        fixed = model.predict([new_sequence()], y_observed=[[None, 1, None]])[0]
        assert tuple(fixed) == max((p for p in paths if p[1] == 1), key=lambda p: value(p, decode))
    assert differ > 2


def test_chain_decoding_is_that_of_a_chain():
    model = worked(decode="chain")
    mean = model.predict_latent([new_sequence()])[0][0]
    moves = 0.5 * (model.dependency_mean_[0] + model.dependency_mean_[1].T)
    chain = EnumeratedChain(mean, moves)
    labellings = np.array(chain.labellings)
    expected = [[chain.probability[labellings[:, t] == k].sum() for k in range(3)] for t in range(3)]
    assert_allclose(model.predict_proba([new_sequence()])[0], expected, atol=1e-10)


def test_without_dependencies_steps_are_independent():
    """Cutting sequences into single steps changes nothing."""
    X, y = data(10)
    options = {"dependencies": (), **TIGHT}
    model = GPSequenceLabeler(**options).fit(X, y)
    cut = GPSequenceLabeler(**options).fit(
        [row[None] for values in X for row in values], [[label] for labels in y for label in labels]
    )
    assert_allclose(cut.lower_bound_, model.lower_bound_, rtol=1e-10)
    one = np.concatenate(list(model.predict_proba(X)))
    assert_allclose(np.concatenate(list(cut.predict_proba(X))), one, atol=1e-6)
    mean, variance = (np.concatenate(list(part)) for part in model.predict_latent(X))
    assert_allclose(one, softmax(mean + 0.5 * variance, axis=1), atol=1e-10)


def test_three_forms_of_exact_inference_agree():
    """Over steps, over columns, and with the linear kernel as an object: one model."""
    X, y = data(10)
    options = {"dependency_variance": 0.6, "scale": 1.7, **TIGHT}
    few = GPSequenceLabeler(inference="exact", dependencies=(-1,), **options).fit(X, y)
    assert hasattr(few, "weight_mean_")
    wide = [np.hstack([values, values**2, np.sin(values @ np.ones((3, 80)) * np.arange(80))]) for values in X]
    assert hasattr(GPSequenceLabeler(inference="exact", max_iter=500).fit(wide, y), "X_train_")
    for posterior in ("joint", "factored"):
        few.set_params(posterior=posterior).fit(X, y)
        by_kernel = GPSequenceLabeler(
            DotProduct(sigma_0=0.0, sigma_0_bounds="fixed"), (-1,), posterior=posterior, **options
        ).fit(X, y)
        assert_allclose(by_kernel.lower_bound_, few.lower_bound_, rtol=1e-9)
        for one, other in zip(by_kernel.predict_latent(X), few.predict_latent(X), strict=True):
            assert_allclose(np.concatenate(list(one)), np.concatenate(list(other)), atol=1e-5)
        assert_allclose(by_kernel.dependency_mean_, few.dependency_mean_, atol=1e-5)
        assert_allclose(by_kernel.dependency_var_, few.dependency_var_, atol=1e-5)


def test_exact_beats_mean_field_beats_nothing():
    X, y = data()
    bounds = [
        GPSequenceLabeler(inference=route, posterior=posterior, tol=1e-10, max_iter=2000)
        .fit(X, y)
        .lower_bound_
        for route, posterior in (("exact", "joint"), ("exact", "factored"), ("meanfield", "joint"))
    ]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("inference", ["exact", "meanfield"])
def test_equal_columns_are_one(inference):
    """What differs within a group only at prediction is as uncertain as the prior has it."""
    X, y = data()
    twice = [np.hstack([values, values[:, :1]]) for values in X]
    model = GPSequenceLabeler(inference=inference, scale=0.5, **TIGHT).fit(twice, y)
    # the sum of two weights of variance 0.5 is a weight of variance 1
    scaled = [values * [np.sqrt(2), 1, 1] for values in X]
    plain = GPSequenceLabeler(inference=inference, scale=0.5, **TIGHT).fit(scaled, y)
    assert_allclose(model.lower_bound_, plain.lower_bound_, rtol=1e-9)
    assert_allclose(model.coef_[:, 0], model.coef_[:, 3])
    new = np.array([[1.0, 0.5, 0.0, -1.0], [1.0, 0.5, 0.0, 1.0]])
    mean, variance = (part[0] for part in model.predict_latent([new]))
    assert_allclose(mean, new @ model.coef_.T, atol=1e-9)
    # of w0 - w3 nothing was learnt
    alone = model.predict_latent([[[0.0, 0.5, 0.0, 0.0]]])[1][0]
    assert_allclose(variance[0], 0.5 * 2 + alone[0], atol=1e-6)


def test_exact_variances_are_those_of_the_weights(rng):
    X, y = data()
    model = GPSequenceLabeler(inference="meanfield", scale=2.0).fit(X, y)
    new = rng.normal(size=(4, 3))
    assert_allclose(model.predict_latent([new])[1][0], new**2 @ model.coef_var_.T, atol=1e-10)
    assert_allclose(model.predict_latent([new])[0][0], new @ model.coef_.T, atol=1e-10)


def test_per_label_kernels():
    X, y = data(10)
    same = GPSequenceLabeler([RBF(1.3)] * 3, **TIGHT).fit(X, y)
    shared = GPSequenceLabeler(RBF(1.3), **TIGHT).fit(X, y)
    assert_allclose(same.lower_bound_, shared.lower_bound_, rtol=1e-10)
    for route in ("exact", "sparse"):
        options = {"inference": route, "n_inducing": 15, "random_state": 0, **TIGHT}
        kernels = [RBF(0.5), RBF(1.0), RBF(3.0)]
        model = GPSequenceLabeler(kernels, **options).fit(X, y)
        order = [2, 0, 1]  # labels renamed so that they sort the other way round
        names = dict(zip("abc", "bca", strict=True))
        moved = GPSequenceLabeler([kernels[k] for k in order], **options).fit(
            X, [[names[label] for label in labels] for labels in y]
        )
        assert_allclose(moved.lower_bound_, model.lower_bound_, rtol=1e-8)
        for one, other in zip(model.predict_proba(X), moved.predict_proba(X), strict=True):
            assert_allclose(other[:, [1, 2, 0]], one, atol=1e-6)
    with pytest.raises(ValueError, match="kernel has 2 entries, but y has 3 labels"):
        GPSequenceLabeler([RBF()] * 2).fit(X, y)
    with pytest.raises(TypeError, match=r"kernel\[1\] is 'rbf'; expected a kernel"):
        GPSequenceLabeler([RBF(), "rbf", RBF()]).fit(X, y)


def test_weights_count_like_copies():
    X, y = data(12)
    for options in ({}, {"inference": "meanfield"}, {"kernel": RBF()}):
        weighted = GPSequenceLabeler(**options, **TIGHT).fit(X, y, np.r_[2.0, np.ones(11)])
        copied = GPSequenceLabeler(**options, **TIGHT).fit([*X, X[0]], [*y, y[0]])
        assert_allclose(weighted.lower_bound_, copied.lower_bound_, rtol=1e-9)


def test_a_sequence_without_labels_is_no_sequence():
    X, y = data()
    y = [list(labels) for labels in y]
    y[4] = [None] * len(y[4])
    model = GPSequenceLabeler().fit(X, y)
    removed = GPSequenceLabeler().fit(X[:4] + X[5:], y[:4] + y[5:])
    assert_allclose(model.lower_bound_, removed.lower_bound_, rtol=1e-12)


def test_impute_uses_what_is_predicted():
    """With two of three labels hidden, neighbours that are guessed say more than absent ones."""
    X, y = data(60)
    hidden = [
        [label if (s + t) % 3 == 0 else None for t, label in enumerate(labels)] for s, labels in enumerate(y)
    ]
    drop = GPSequenceLabeler().fit(X, hidden)
    impute = GPSequenceLabeler(missing="impute").fit(X, hidden)
    # no step has a known neighbour: couplings are learnt from imputed ones alone
    assert np.abs(drop.dependency_mean_).max() < 1e-12
    assert np.abs(impute.dependency_mean_).max() > 0.1
    complete = GPSequenceLabeler(missing="impute").fit(X, y)
    assert complete.lower_bound_ == GPSequenceLabeler().fit(X, y).lower_bound_
    with pytest.raises(ValueError, match=r"y\[1\]\[0\] is not one known label"):
        GPSequenceLabeler(missing="raise").fit(X, hidden)


def test_labels_that_only_sets_name_are_no_classes():
    X, y = data()
    partial = [
        [{"a", "z"} if label == "a" and t % 2 else label for t, label in enumerate(labels)] for labels in y
    ]
    for missing in ("drop", "impute"):
        model = GPSequenceLabeler(missing=missing).fit(X, partial)
        assert model.classes_.tolist() == ["a", "b", "c"]


def test_known_labels_inform_their_neighbours():
    X, y = data(60)
    model = GPSequenceLabeler().fit(X, y)
    X_new, y_new = data(60, seed=3)
    known = hide(y_new)
    free = [[label is None for label in labels] for labels in known]

    def errors(answer):
        return sum(int(((a != b) & f).sum()) for a, b, f in zip(answer, y_new, free, strict=True))

    assert errors(model.predict(X_new, y_observed=known)) < errors(model.predict(X_new))
    for method in ("rns", "mc", "probit", "chain"):
        for proba, labels in zip(model.predict_proba(X_new, known, method=method), known, strict=True):
            assert_allclose(proba.sum(axis=1), 1)
            for row, label in zip(proba, labels, strict=True):
                assert label is None or abs(row["abc".index(label)] - 1.0) < 1e-12


def test_probabilities_against_many_draws(rng):
    model = worked(dependencies=())
    mean, variance = (part[0] for part in model.predict_latent([new_sequence()]))
    draws = mean[:, None] + np.sqrt(variance)[:, None] * rng.standard_normal((3, 200_000, 3))
    truth = softmax(draws, axis=2).mean(axis=1)
    model.set_params(n_samples=4096)
    assert_allclose(model.predict_proba([new_sequence()], method="mc")[0], truth, atol=0.01)
    assert_allclose(model.predict_proba([new_sequence()], method="probit")[0], truth, atol=0.03)
    entropy, information = (part[0] for part in model.predict_information([new_sequence()]))
    plain = -(softmax(draws, axis=2) * np.log(softmax(draws, axis=2))).sum(axis=2).mean(axis=1)
    assert_allclose(entropy, -(truth * np.log(truth)).sum(axis=1), atol=0.01)
    assert_allclose(information, entropy - plain, atol=0.01)
    assert (information > 0).all() and (information < entropy).all()


def test_information_is_zero_where_a_label_is_known():
    X, y = data()
    model = GPSequenceLabeler().fit(X, y)
    entropy, information = model.predict_information(X, y_observed=y)
    assert all((part == 0).all() for part in [*entropy, *information])
    # far from the data of a kernel nothing is known: there labels teach most
    model = GPSequenceLabeler(RBF(), scale=4.0).fit(X, y)
    near, far = (model.predict_information([values])[1][0].mean() for values in (X[1], X[1] + 50))
    assert far > 1.3 * near


def test_damping_converges_where_the_published_update_does_not():
    X, y = data()
    model = GPSequenceLabeler().fit(X, y)
    model.dependency_mean_ = np.array([np.eye(3)[[1, 2, 0]] * 40 - 20, np.eye(3)[[2, 0, 1]] * 40 - 20])
    plain = model.set_params(damping=0.0).relaxation_report(X)
    assert not plain.converged.all()
    with pytest.warns(ConvergenceWarning, match="decode='chain'"):
        model.predict(X)
    model.set_params(damping=0.8, max_iter_predict=2000)
    assert model.relaxation_report(X).converged.all()


def test_stacked_neighbours_take_one_pass():
    X, y = data(40)
    model = GPSequenceLabeler(neighbours="stacked").fit(X, y)
    base = model.base_labeler_
    assert base.dependencies_ == ()
    around = base.predict_proba(X[:2])
    mean, variance = model.predict_latent(X[:2])
    for s in range(2):
        weights = model.dependency_mean_ + 0.5 * model.dependency_var_
        score = mean[s] + 0.5 * variance[s]
        squared = 0.5 * model.dependency_var_
        for d, lag in enumerate((-1, 1)):
            for t in range(len(X[s])):
                if 0 <= t + lag < len(X[s]):
                    r = around[s][t + lag]
                    score[t] += r @ (weights[d] - squared[d]) + r**2 @ squared[d]
        assert_allclose(model.predict_proba(X[:2])[s], softmax(score, axis=1), atol=1e-10)
    with pytest.raises(ValueError, match="two or more"):
        clone(model).fit(X[1:2], y[1:2])


def test_warm_starts_end_where_they_began():
    X, y = data(12)
    wide = [np.hstack([values, np.sin(values @ np.ones((3, 90)) * np.arange(90))]) for values in X]
    for options in ({"inference": "meanfield"}, {"kernel": RBF()}, {"inference": "exact"}):
        model = GPSequenceLabeler(**options, warm_start=True, tol=1e-8, max_iter=2000).fit(wide, y)
        first, bound = model.n_iter_, model.lower_bound_
        model.fit(wide, y)
        assert model.n_iter_ < first / 2
        assert bound - 1e-6 <= model.lower_bound_ <= bound + 1e-3 * abs(bound)
        model.fit(X, y)  # other inputs: from nothing
    assert np.isfinite(model.lower_bound_)


def test_hyper_parameters_are_learnt():
    X, y = data(10)
    plain = GPSequenceLabeler(ConstantKernel() * RBF()).fit(X, y)
    learnt = GPSequenceLabeler(ConstantKernel() * RBF(), optimizer="fmin_l_bfgs_b").fit(X, y)
    assert learnt.lower_bound_ > plain.lower_bound_ + 0.5
    assert learnt.kernel_[0] != plain.kernel_[0] and learnt.scale_ == 1.0
    for inference in ("exact", "meanfield"):
        found = GPSequenceLabeler(inference=inference, optimizer="mackay").fit(X, y)
        assert found.lower_bound_ > GPSequenceLabeler(inference=inference).fit(X, y).lower_bound_
        assert found.scale_ != 1.0 and found.dependency_variance_ != 1.0


def test_jensen_learns_nothing_and_says_so(rng):
    """Many weak inputs: Jensen's bound falls with every bit of variance."""
    X = [(rng.uniform(size=(5, 400)) < 0.05).astype(float) for _ in range(12)]
    y = [rng.integers(2, size=5) for _ in X]
    with pytest.warns(UserWarning, match="learns nothing"):
        GPSequenceLabeler(bound="jensen", optimizer="mackay", inference="meanfield", dependencies=()).fit(
            X, y
        )


def test_a_curved_boundary_needs_a_kernel():
    """Two interleaved moons: the linear kernel cannot, others can, also through few rows."""
    points, labels = make_moons(300, noise=0.15, random_state=0)
    points = np.column_stack([points - points.mean(axis=0), np.ones(300)])
    X, y = list(points.reshape(30, 10, 3)), list(labels.reshape(30, 10))
    scores = {}
    for name, options in {
        "linear": {},
        "exact": {"kernel": RBF(0.5)},
        "sparse": {"kernel": RBF(0.5), "inference": "sparse", "n_inducing": 30},
    }.items():
        scores[name] = GPSequenceLabeler(dependencies=(), **options).fit(X[:20], y[:20]).score(X[20:], y[20:])
    assert scores["linear"] < 0.92 < 0.95 < min(scores["exact"], scores["sparse"])


@pytest.mark.parametrize("dependencies", [(), (-1, 1)])
def test_minibatches_start_near_the_optimum(dependencies):
    """The optimum is the same, and what the minibatches lead to is close to it."""
    X, y = data(60)
    options = {"inference": "sparse", "n_inducing": 20, "random_state": 0, "tol": 1e-8, "max_iter": 500}
    plain = GPSequenceLabeler(RBF(), dependencies, **options).fit(X, y)
    found = GPSequenceLabeler(RBF(), dependencies, batch_size=40, **options).fit(X, y)
    assert_allclose(found.lower_bound_, plain.lower_bound_, rtol=1e-5)
    assert found.lower_bound_history_[0] > plain.lower_bound_ - 0.005 * abs(plain.lower_bound_)
    with pytest.raises(ValueError, match="batch_size needs posterior='joint'"):
        GPSequenceLabeler(RBF(), batch_size=10, posterior="factored").fit(X, y)


def test_bound_of_other_sequences():
    X, y = data()
    model = GPSequenceLabeler(**TIGHT).fit(X, y)
    assert model.log_lower_bound() == model.lower_bound_
    found = model.log_lower_bound(X, y)
    assert found.shape == (len(X),) and (found < 0).all()
    proba = model.predict_proba(X, method="mc")
    assert found.sum() < 0 and len(proba) == len(found)
    assert model.log_lower_bound(X[:1], [[None] * len(X[0])])[0] == 0.0
    unseen = list(y[1])
    unseen[0] = "never"
    assert model.log_lower_bound(X[1:2], [unseen])[0] == -np.inf


def test_bad_arguments():
    X, y = data()
    for options, match in {
        "zero": ({"dependencies": (0,)}, "distinct integers other than 0"),
        "twice": ({"dependencies": (-1, -1)}, "distinct integers"),
        "real": ({"dependencies": (1.5,)}, "distinct integers"),
        "tied": ({"dependencies": (-1,), "tied": True}, "both signs"),
        "field": ({"kernel": RBF(), "inference": "meanfield"}, "takes kernel='linear'"),
        "sparse": ({"inference": "sparse"}, "takes a kernel object"),
        "path": ({"decode": "viterbi"}, r"needs dependencies=\(-1,\)"),
        "chain": ({"dependencies": (-2, 2), "decode": "chain"}, "needs -1 or 1"),
        "nodes": ({"bound": "gh"}, "two labels, but y has 3"),
    }.values():
        with pytest.raises(ValueError, match=match):
            GPSequenceLabeler(**options).fit(X, y)
    with pytest.raises(TypeError, match=r"X\[0\] is sparse, but dense data is required"):
        GPSequenceLabeler(RBF()).fit([sparse.csr_array(values) for values in X], y)
    model = GPSequenceLabeler(dependencies=()).fit(X, y)
    with pytest.raises(ValueError, match="needs -1 or 1"):
        model.predict_proba(X, method="chain")
    with pytest.raises(AttributeError, match="kernel='linear'"):
        _ = GPSequenceLabeler(RBF()).fit(X, y).coef_
    with pytest.raises(ValueError, match="beyond double precision"):
        model.predict([np.full((1, 3), 1e200)])


def test_exact_inference_says_what_it_would_take():
    n = 20_001
    X = [sparse.csr_array(sparse.eye_array(n))]
    with pytest.raises(ValueError, match=r"exact.*20,001 distinct time steps takes about \d+ GiB"):
        GPSequenceLabeler(inference="exact").fit(X, [np.arange(n) % 2])


def test_mean_field_memory_does_not_grow_with_the_square():
    """Of 40,000 steps the square alone would be 12 GB."""
    n = 40_000
    rows = np.arange(n)
    values = sparse.csr_array((np.ones(n), (rows, rows % 50)), shape=(n, 50))
    X = [values[k : k + 100] for k in range(0, n, 100)]
    y = [(rows[k : k + 100] % 50) // 25 for k in range(0, n, 100)]
    model = GPSequenceLabeler(inference="meanfield", max_iter=30, tol=1e-3).fit(X, y)
    assert model.score(X, y) == 1.0


def test_interrupt_keeps_the_best(monkeypatch):
    X, y = data()
    calls = []
    sweep = _fixed_point.FixedPoint.sweep

    def interrupted(self):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return sweep(self)

    monkeypatch.setattr(_fixed_point.FixedPoint, "sweep", interrupted)
    model = GPSequenceLabeler()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 2 and len(model.predict(X)) == len(X)


def test_interrupt_while_a_solution_is_prepared_keeps_the_one_before(monkeypatch):
    X, y = data()
    calls, start = [], _mean_field.MeanFieldAscent.__init__

    def interrupted(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        start(self, *args, **kwargs)

    monkeypatch.setattr(_mean_field.MeanFieldAscent, "__init__", interrupted)
    model = GPSequenceLabeler(inference="meanfield", optimizer="mackay")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.scale_ == 1.0 and len(model.predict(X)) == len(X)


def test_not_converged_is_said():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        model = GPSequenceLabeler(max_iter=1, tol=0.0).fit(X, y)
    assert not model.converged_


def test_a_dead_end_is_no_success():
    """Where no step raises the bound, a large gradient is said to be one."""
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="StandardScaler"):
        GPSequenceLabeler(inference="exact").fit([1e8 * values for values in X], y)


def test_base_noun_phrases(data_home):
    """One of the authors' splits: all sequences settle, and the error is that of the published tables."""
    task = fetch_gpstruct_nlp("basenp", data_home=data_home)
    train, test = task.splits[0]
    X, y = [task.data[i] for i in train], [task.target[i] for i in train]
    X_test, y_test = [task.data[i] for i in test], [task.target[i] for i in test]
    model = GPSequenceLabeler(dependencies=(-1,)).fit(X, y)
    assert model.inference_ == "meanfield"
    assert model.relaxation_report(X_test).converged.all()
    assert model.score(X_test, y_test) > 0.945
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = model.predict_proba(X_test, method="mc")
    assert max(abs(part.sum(axis=1) - 1).max() for part in plain) < 1e-9
