"""CRFFeatureInduction: worked numbers, gains against brute force, and the rules that it finds."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from toy_rules import toy_rules

from sklearn_seqlab import CRFFeatureInduction
from sklearn_seqlab._conjunctions import conjunction_truth, item_truth, make_items
from sklearn_seqlab.crf import _feature_induction
from sklearn_seqlab.crf._induction import Candidate, Feature, Induction, InductionParameters
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.objectives import ConjunctionGains
from sklearn_seqlab.sequences import encode_labels, pack


class Toy:
    """I1: a chain of given weights on four inputs, its marginals and what is known."""

    def __init__(self):
        X, y = toy_rules(range(4), 8, 4, 7)
        self.X, self.y, self.batch = X, y, pack(X)
        self.labels = encode_labels(y, self.batch.offsets)
        coef = 0.5 * np.cos(1 + np.arange(3)[:, None] + 2 * np.arange(4))
        self.chains = PackedChains(self.batch.values @ coef.T, 0.6 * np.eye(3), self.batch.offsets)
        self.free = self.chains.forward_backward()[1]
        self.known = np.eye(3)[self.labels.codes]
        self.wrong = self.chains.viterbi()[0] != self.labels.codes
        self.items = make_items(4, (0, 0), False)

    def truth(self, conjunction, rows):
        held = conjunction_truth(self.batch, self.items, [conjunction])
        return sparse.csc_array(held[rows].astype(float))

    def gains(self, rows):
        return ConjunctionGains(self.free[rows], self.known[rows], np.ones(rows.sum()), 2.0)

    def everything(self):
        return np.ones(self.batch.n_total, dtype=bool)

    def induction(self, **changed):
        """Rounds that begin with penalised biases: the empty conjunction."""
        params = {
            "C": 2.0, "max_rounds": 3, "batch_size": 2, "max_order": 3, "steps": "all", "certainty": 0.95,
            "exhaustive": False, "min_gain": 0.0, "min_count": 1, "n_rescore": 0, "refit_iter": 500, "max_iter": 500,
            "tol": 1e-9, "n_iter_no_change": 3, "fit_intercept": False, "start_end": False,
        } | changed  # fmt: skip
        truth = item_truth(self.batch, self.items)
        allowed = np.ones((3, 3), dtype=bool)
        made = Induction(truth, self.items, self.labels, np.ones(4), allowed, InductionParameters(**params))
        made.conjunctions, made.columns = [()], [np.ones(len(truth), dtype=bool)]
        made.features = [Feature((), label, 0.0, -1) for label in range(3)]
        return made


@pytest.fixture(scope="module")
def toy():
    return Toy()


def test_worked_chain(toy):
    assert_array_equal(toy.y[0], [2, 0, 2, 1, 0, 0, 0, 0])
    assert [len(toy.wrong), toy.wrong.sum()] == [38, 21]
    nll = toy.chains.log_partition() - toy.chains.score_of(toy.labels.codes)
    assert_allclose(nll.sum(), 42.8932098517, rtol=1e-11)
    assert_allclose(toy.free[2], [0.3251067441, 0.3412780569, 0.333615199], rtol=1e-8)


WORKED = {
    ((0, 1), 1, "all"): (1.848043341, 3.623769742, 7.392436588),
    ((0, 1), 1, "errors"): (1.68081829, 2.712578003, 6.11485576),
    ((2, 3), 2, "all"): (0.9318083595, 1.00444964, 5.288064301),
    ((0,), 1, "all"): (0.8106436596, 1.254970532, 8.815685273),
    ((0,), 1, "errors"): (1.870157022, 3.708838075, 7.538104445),
}


@pytest.mark.parametrize(("conjunction", "label", "steps"), WORKED)
def test_worked_gains(toy, conjunction, label, steps):
    rows = toy.everything() if steps == "all" else toy.wrong
    gains, truth = toy.gains(rows), toy.truth(conjunction, rows)
    weight, gain = gains.best(truth, np.array([label]))
    found = weight[0], gain[0], gains.bounds(truth)[0, label]
    assert_allclose(found, WORKED[conjunction, label, steps], rtol=1e-8)


@pytest.mark.parametrize(
    ("conjunction", "label", "weight", "gain"),
    [
        ((0, 1), 1, 1.764071982, 3.443400338),
        ((2, 3), 2, 0.8848395143, 0.9565425685),
        ((0,), 1, 0.6703980575, 1.044025769),
    ],
)
def test_worked_exact_gains(toy, conjunction, label, weight, gain):
    induction = toy.induction()
    approximate = toy.gains(toy.everything()).best(
        toy.truth(conjunction, toy.everything()), np.array([label])
    )
    candidate = Candidate(float(approximate[1][0]), float(approximate[0][0]), conjunction, label)
    found = induction._rescored(toy.chains, candidate)
    assert_allclose([found.weight, found.gain], [weight, gain], rtol=1e-7)


def test_worked_rankings(toy):
    conjunctions = [(k,) for k in range(4)] + list(combinations(range(4), 2))

    def best(rows):
        gains = toy.gains(rows)
        found = []
        for conjunction in conjunctions:
            values = gains.best(toy.truth(conjunction, rows)[:, [0, 0, 0]], np.arange(3))[1]
            found += [(-value, len(conjunction), conjunction, label) for label, value in enumerate(values)]
        return [(conjunction, label) for _, _, conjunction, label in sorted(found)[:5]]

    assert best(toy.wrong) == [((0, 3), 1), ((0,), 1), ((2, 3), 0), ((0,), 0), ((0, 1), 1)]
    assert best(toy.everything()) == [((0, 1), 1), ((2, 3), 0), ((0, 1), 0), ((0, 3), 1), ((0,), 1)]


@pytest.mark.parametrize("exhaustive", [False, True])
def test_worked_rounds(toy, exhaustive):
    induction = toy.induction(exhaustive=exhaustive)
    induction.run()
    added = [(one.conjunction, one.label) for one in induction.features[3:]]
    assert added == [((2, 3), 0), ((0, 1), 0), ((0, 3), 1), ((0, 1), 1), ((2, 3), 2), ((2,), 1)]
    assert_allclose(induction.losses, [57.07153107, 39.25016055, 34.5900113, 30.75839171], rtol=1e-7)


def test_worked_rounds_on_errors(toy):
    induction = toy.induction(steps="errors")
    induction.run()
    assert_allclose(induction.losses, [57.07153107, 46.57340657, 40.49463444, 38.06939878], rtol=1e-7)


def test_gains_are_maxima_and_bounds_hold():
    rng = np.random.RandomState(0)
    for trial in range(20):
        free = rng.dirichlet(np.ones(3), size=25)
        known = np.eye(3)[rng.randint(3, size=25)]
        hidden = rng.uniform(size=25) < 0.3
        known[hidden] = rng.dirichlet(np.ones(3), size=hidden.sum())
        weight, C = rng.uniform(0.1, 3, size=25), 10.0 ** rng.uniform(-2, 4)
        held = rng.uniform(size=(25, 6)) < 0.5
        held[:, 5] = held[:, 0] & held[:, 1]
        truth, labels = sparse.csc_array(held.astype(float)), rng.randint(3, size=6)
        gains = ConjunctionGains(free, known, weight, C)
        found, values = gains.best(truth, labels)
        bounds = gains.bounds(truth)
        for k, label in enumerate(labels):
            rows = held[:, k]
            p, h, s = free[rows, label], known[rows, label], weight[rows]

            def loss(mu, p=p, h=h, s=s, C=C):
                return -(s * (mu * h - np.log1p(p * np.expm1(mu)))).sum() + mu**2 / (2 * C)

            least = minimize_scalar(loss, bracket=(0, found[k] or 1e-3), options={"xtol": 1e-12})
            assert_allclose(values[k], -least.fun, rtol=1e-9, atol=1e-10)
            assert_allclose(found[k], least.x, rtol=1e-5, atol=1e-6)
            assert -1e-12 <= values[k] <= bounds[k, label] * (1 + 1e-9)
        assert (bounds[5] <= np.minimum(bounds[0], bounds[1]) * (1 + 1e-12)).all(), trial


def test_certain_steps_give_no_gain():
    free = np.array([[1.0, 0.0], [0.0, 1.0]])
    gains = ConjunctionGains(free, free, np.ones(2), 1.0)
    truth = sparse.csc_array(np.ones((2, 1)))
    assert_array_equal(np.concatenate(gains.best(truth, np.array([0]))), [0, 0])
    assert_array_equal(gains.bounds(truth), [[0, 0]])
    never = sparse.csc_array((2, 1))
    assert_array_equal(np.concatenate(gains.best(never, np.array([0]))), [0, 0])


def planted(n_sequences=15, n_timesteps=40, n_inputs=6, seed=0):
    rng = np.random.RandomState(seed)
    X = [(rng.uniform(size=(n_timesteps, n_inputs)) < 0.5).astype(float) for _ in range(n_sequences)]
    y = []
    for x in X:
        labels = np.where(
            (x[:, 0] > 0) & (x[:, 1] > 0), "cook", np.where((x[:, 2] > 0) & (x[:, 3] > 0), "eat", "idle")
        )
        wrong = rng.uniform(size=n_timesteps) < 0.1
        labels[wrong] = rng.choice(["cook", "eat", "idle"], size=wrong.sum())
        y.append(labels)
    return X, y


@pytest.mark.parametrize(
    "params", [{}, {"candidates": "exhaustive"}, {"n_rescore": 5}, {"steps": "uncertain"}]
)
def test_planted_rules_are_found(params):
    X, y = planted()
    model = CRFFeatureInduction(max_rounds=2, batch_size=2, **params).fit(X, y)
    found = {(label, conjunction) for label, conjunction in model.rules_[["label", "conjunction"]].tolist()}
    assert ("cook", (0, 1)) in found
    assert {conjunction for _, conjunction in found} & {(2, 3)}
    assert model.score(*planted(seed=1)) > 0.9


def test_exhaustive_search_finds_the_largest_gains():
    X, y = planted()
    models = [
        CRFFeatureInduction(max_rounds=1, batch_size=6, max_order=3, candidates=candidates, min_count=1).fit(
            X, y
        )
        for candidates in ("grow", "exhaustive")
    ]
    grown, all_of_them = (np.sort(model.rules_["gain"])[::-1] for model in models)
    assert len(all_of_them) == 6 and (all_of_them >= grown - 1e-9).all()
    # every conjunction of three by hand, on the marginals of the first model
    first = CRFFeatureInduction(max_rounds=0).fit(X, y)
    batch = pack(X)
    free = np.concatenate(first.predict_proba(X))
    known = np.eye(3)[encode_labels(y, batch.offsets).codes]
    conjunctions = [one for size in (1, 2, 3) for one in combinations(range(6), size)]
    held = sparse.csc_array(
        conjunction_truth(batch, make_items(6, (0, 0), False), conjunctions).astype(float)
    )
    gains = ConjunctionGains(free, known, np.ones(batch.n_total), 1.0)
    values = np.column_stack([gains.best(held, np.full(held.shape[1], label))[1] for label in range(3)])
    assert_allclose(all_of_them, np.sort(values.ravel())[::-1][:6], rtol=1e-6)


def test_rules_transform_and_text():
    X, y = planted(6)
    model = CRFFeatureInduction(max_rounds=2, batch_size=3, window=(1, 0), negations=True).fit(X, y)
    truth = model.transform(X)
    expected = conjunction_truth(pack(X), model.items_, model.conjunctions_)
    assert_array_equal(sparse.vstack(truth).toarray(), expected)
    for label, conjunction, weight, support, gain, number in model.rules_.tolist():
        column = model.conjunctions_.index(conjunction)
        assert model.coef_[model.classes_.tolist().index(label), column] == weight
        assert expected[:, column].sum() == support
        assert gain > 0.01 and number in (0, 1)
    assert len(model.rules_text().splitlines()) == len(model.rules_) == 6
    assert "cook(T) :- x0(T), x1(T).  %" in model.rules_text()
    assert len(model.rules_text(top=1).splitlines()) == len(set(model.rules_["label"].tolist()))


def test_stages_and_curves():
    X, y = planted(8)
    model = CRFFeatureInduction(max_rounds=3, batch_size=2).fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == len(model.loss_curve_) == model.n_iter_ + 1 == 4
    assert len(model.gain_curve_) == len(model.n_candidates_) == 3
    assert (np.diff(model.loss_curve_) < 0).all()
    assert_array_equal(np.concatenate(stages[-1]), np.concatenate(model.predict(X)))
    plain = CRFFeatureInduction(max_rounds=0).fit(X, y)
    assert_array_equal(np.concatenate(stages[0]), np.concatenate(plain.predict(X)))
    value = -model.log_likelihood(X, y).sum() + 0.5 * sum(
        np.sum(part**2) for part in (model.coef_, model.transition_coef_, model.start_coef_, model.end_coef_)
    )
    assert_allclose(model.loss_curve_[-1], value, rtol=1e-9)


def test_the_best_round_is_kept():
    X, y = planted(10, 12)
    model = CRFFeatureInduction(
        C=100,
        max_rounds=15,
        batch_size=5,
        min_count=1,
        validation_fraction=0.4,
        n_iter_no_change=2,
        random_state=0,
    ).fit(X, y)
    best = int(np.argmin(model.validation_loss_))
    assert model.n_iter_ == best == len(model.loss_curve_) - 1 < 15
    assert model.rules_["round"].max(initial=-1) == best - 1
    held_out = np.sort(np.random.RandomState(0).permutation(10)[:4])
    likelihood = -model.log_likelihood([X[s] for s in held_out], [y[s] for s in held_out]).mean()
    assert_allclose(likelihood, model.validation_loss_[best], rtol=1e-10)


def test_nothing_to_find_is_told():
    X, y = planted(3, 10)
    with pytest.warns(ConvergenceWarning, match="No feature gains more than min_gain"):
        model = CRFFeatureInduction(min_gain=1e6).fit(X, y)
    assert not len(model.rules_) and not model.rules_text()
    assert model.transform(X)[0].shape == (10, 0)
    assert {len(labels) for labels in model.predict(X)} == {10}


def test_bad_input_is_refused():
    X, y = planted(3, 10)
    with pytest.raises(ValueError, match=r"X\[0\] holds 0.5 at time step \d+, column 1; expected 0 or 1"):
        CRFFeatureInduction().fit([x * np.array([1, 0.5 + t, 1, 1, 1, 1]) for t, x in enumerate(X)], y)
    with pytest.raises(ValueError, match="window is"):
        CRFFeatureInduction(window=(1, -1)).fit(X, y)


def test_an_interrupted_fit_keeps_its_rounds(monkeypatch):
    X, y = planted(5)

    class Stops(_feature_induction.Progress):
        def __call__(self, iteration, value):
            if iteration == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(_feature_induction, "Progress", Stops)
    model = CRFFeatureInduction(batch_size=1, max_rounds=8)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 2 and len(model.rules_) == 2
