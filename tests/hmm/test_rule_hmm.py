"""RuleHMM: the search against enumeration, worked numbers, and what the model sees."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from toy_rules import toy_rules

from sklearn_seqlab import HMMClassifier, RuleHMM
from sklearn_seqlab._conjunctions import complements, item_truth, make_items
from sklearn_seqlab.hmm._rule_search import RuleSearch
from sklearn_seqlab.preprocessing import make_sequence_pipeline
from sklearn_seqlab.sequences import pack

RULE_SCORES = ["compression", "coverage", "wracc", "m_estimate"]


def score_by_definition(kind, p, n, k, positive, negative, m=2.0):
    total = positive + negative
    return {
        "compression": p - n - k + 1,
        "coverage": p - n,
        "wracc": (p * negative - n * positive) / total**2,
        "m_estimate": (p + m * positive / total) / (p + n + m),
    }[kind]


def exhaustive(truth, positive, negative, totals, kind, max_order, noise, min_pos, opposite):
    """The best rule by looking at all: larger score, then shorter, then smaller."""
    best = None
    for k in range(1, max_order + 1):
        for conjunction in combinations(range(truth.shape[1]), k):
            if any(opposite[item] in conjunction for item in conjunction):
                continue
            covered = truth[:, list(conjunction)].all(axis=1)
            p, n = positive[covered].sum(), negative[covered].sum()
            if p < min_pos or n > noise * (p + n):
                continue
            score = score_by_definition(kind, p, n, k, *totals)
            if score > 0 and (best is None or score > best[0]):
                best = score, conjunction, p, n
    return best


@pytest.mark.parametrize("negations", [False, True])
@pytest.mark.parametrize("kind", RULE_SCORES)
def test_branch_and_bound_is_exhaustive_search(rng, kind, negations):
    n_nodes, n_all = 0, 0
    for trial in range(60):
        n_items = 4 if negations else 7
        plain = rng.uniform(size=(40, n_items)) < rng.uniform(0.2, 0.8)
        truth = np.hstack([plain, ~plain]) if negations else plain
        opposite = complements(make_items(n_items, (0, 0), negations))
        planted = truth[:, :2].all(axis=1) ^ (rng.uniform(size=40) < 0.2)
        positive = planted * rng.choice([0.0, 0.5, 1.0, 1.0], size=40)  # some are taken already
        negative = (~planted) * rng.integers(1, 3, size=40)
        totals = float(planted.sum()), float(negative.sum())
        max_order, noise, min_pos = int(rng.integers(1, 6)), rng.choice([0.0, 0.2, 0.5, 1.0]), 1 + trial % 3
        search = RuleSearch(truth, opposite, kind, max_order, noise, min_pos, 0.0, 2.0, 10**6)
        found = search.best(positive, negative, totals, [])
        expected = exhaustive(truth, positive, negative, totals, kind, max_order, noise, min_pos, opposite)
        assert found.certified
        if expected is None:
            assert found.conjunction is None
        else:
            assert_allclose((found.score, found.positives, found.negatives), [expected[0], *expected[2:]])
            assert found.conjunction == expected[1]
        n_nodes += found.n_nodes
        n_all += sum(1 for k in range(1, max_order + 1) for _ in combinations(range(truth.shape[1]), k))
    assert n_nodes < 0.9 * n_all  # the bound does cut


def test_worked_numbers_i4():
    X, y = toy_rules(range(11), 12, 5, 11)
    train, held_out = slice(0, 7), slice(7, 11)
    assert np.bincount(np.concatenate(y[train])).tolist() == [62, 20, 11]
    options = {"max_order": 3, "noise": 0.5, "min_pos": 2}
    model = RuleHMM(**options).fit(X[train], y[train])
    assert model.rules_.tolist() == [
        (0, (4,), 22.0, 32.0, 10.0, True),
        (1, (0, 1), 13.0, 17.0, 3.0, True),
        (2, (2, 3), 1.0, 9.0, 7.0, True),
    ]
    assert_allclose(model.score(X[held_out], y[held_out]), 0.7962962963)
    assert_allclose(model.log_likelihood(X[held_out], y[held_out]).sum(), -31.51660775, atol=1e-7)
    atoms = HMMClassifier(emission="bernoulli").fit(X[train], y[train])
    assert_allclose(atoms.score(X[held_out], y[held_out]), 0.7592592593)
    assert_allclose(atoms.log_likelihood(X[held_out], y[held_out]).sum(), -48.0167776, atol=1e-7)
    for kind, score in (("wracc", 0.1365475778), ("m_estimate", 0.7922776149)):
        rules = RuleHMM(rule_score=kind, **options).fit(X[train], y[train]).rules_
        (rule,) = rules[rules["label"] == 1]
        assert rule["conjunction"] == (0, 1) and (rule["support"], rule["negatives"]) == (17, 3)
        assert_allclose(rule["weight"], score, atol=1e-9)


def test_the_model_sees_the_rules():
    X, y = toy_rules(range(8), 12, 5, 11)
    model = RuleHMM(max_order=3, noise=0.5, min_pos=2).fit(X, y)
    channels = model.transform(X)
    assert isinstance(channels[0], sparse.csr_array)
    for x, truth in zip(X, channels, strict=True):
        expected = np.column_stack([x[:, list(c)].all(axis=1) for c in model.conjunctions_])
        assert_array_equal(truth.toarray(), expected)
    plain = HMMClassifier(emission="bernoulli").fit([c.toarray() for c in channels], y)
    assert_array_equal(np.concatenate(model.predict_proba(X)), np.concatenate(plain.predict_proba(channels)))
    both = RuleHMM(max_order=3, noise=0.5, min_pos=2, emission="rules+inputs").fit(X, y)
    assert both.conjunctions_ == [(4,), (0, 1), (2, 3), (0,), (1,), (2,), (3,)]
    assert_array_equal(both.transform(X)[0].toarray(), channels[0].toarray())
    stepped = make_sequence_pipeline(RuleHMM(noise=0.5, min_pos=2, max_order=3)).fit(X, y)
    assert_array_equal(stepped.predict(X)[0], model.predict(X)[0])


def test_windows_and_negations():
    # "on" two steps after the input was on, and the input is off now; nothing is known beyond the start
    x = (np.arange(60) % 7 < 3).astype(float)
    before = np.r_[0.0, 0.0, x[:-2]]
    labels = np.where((before > 0) & (x == 0), "on", "off")
    X, y = [np.column_stack([x, np.arange(60) % 2])] * 2, [labels] * 2
    model = RuleHMM(window=(2, 0), negations=True, min_pos=2, noise=0.0).fit(X, y)
    (rule,) = model.rules_[model.rules_["label"] == "on"]
    assert [tuple(model.items_[i].tolist()) for i in rule["conjunction"]] == [(0, -2, False), (0, 0, True)]
    assert f"on(T) :- x0(T-2), not x0(T).  % {rule['support'] - 1:.2f}" in model.rules_text()
    assert model.score(X, y) == 1.0
    first = [tuple(i.tolist()) for i in model.items_[:6]]
    assert first == [
        (0, 0, False),
        (1, 0, False),
        (0, -1, False),
        (1, -1, False),
        (0, -2, False),
        (1, -2, False),
    ]
    # outside the sequence an item is false, negated or not
    item = int(np.flatnonzero((model.items_["offset"] == -1) & model.items_["negated"])[0])
    model.rules_ = model.rules_[:1].copy()
    model.rules_["conjunction"][0] = (item,)
    assert model.transform([[[0, 0], [0, 0]]])[0].toarray().ravel().tolist() == [0.0, 1.0]


def test_streams_remember_the_window():
    X, y = toy_rules(range(8), 12, 5, 11)
    model = RuleHMM(window=(2, 0), noise=0.5, negations=True).fit(X, y)
    stream = model.predict_online(lag=50)
    for x in X[:2]:
        for row in x:
            assert stream.step(row) is None
        assert_allclose(stream.finish(), model.predict_proba([x])[0], atol=1e-12)
    ahead = RuleHMM(window=(0, 1), noise=0.5).fit(X, y)
    with pytest.raises(ValueError, match="looks at steps to come"):
        ahead.predict_online()


def test_covering():
    X, y = toy_rules(range(8), 12, 5, 11)
    options = {"noise": 0.5, "min_pos": 2, "max_order": 3}
    for rules in (RuleHMM(cover_discount=d, **options).fit(X, y).rules_ for d in (0.0, 0.7, 1.0)):
        for label in range(3):
            found = rules["conjunction"][rules["label"] == label].tolist()
            assert len(set(found)) == len(found) <= 20
    few = RuleHMM(cover_discount=1.0, max_rules_per_label=2, **options).fit(X, y).rules_
    assert np.bincount(few["label"]).max() == 2
    counts = np.unique(np.concatenate(y), return_counts=True)[1]
    assert counts.argmax() == 0
    silent = RuleHMM(default_label="majority", **options).fit(X, y)
    assert 0 not in silent.rules_["label"] and silent.certified_[0]


def test_hidden_labels_take_no_part_in_the_search():
    X, y = toy_rules(range(8), 12, 5, 11)
    options = {"noise": 0.5, "min_pos": 2, "max_order": 3}
    known = RuleHMM(**options).fit(X, y)
    more = RuleHMM(**options).fit([*X, X[0], X[1]], [*y, [None] * len(X[0]), [{0, 1}] * len(X[1])])
    assert more.rules_.tolist() == known.rules_.tolist()
    assert more.n_iter_ > 0
    weighted = RuleHMM(**options).fit(X, y, sample_weight=np.full(8, 2.0))
    assert_allclose(weighted.rules_["support"], 2 * known.rules_["support"])


def test_warnings_and_errors():
    X, y = toy_rules(range(8), 12, 5, 11)
    with pytest.warns(UserWarning, match=r"No rule was found for: 0, 2\."):
        RuleHMM(noise=0.2, min_pos=3, max_order=3).fit(X, y)
    with pytest.warns(UserWarning, match="No label has a rule"):
        model = RuleHMM(noise=0.0, min_pos=40).fit(X, y)
    assert model.conjunctions_ == [] and model.rules_text() == "" and len(model.rules_) == 0
    assert_allclose(model.predict_proba([X[0][:1]])[0][0], model.start_prob_)
    assert_allclose(model.predict_online().step(X[0][0]), model.start_prob_)
    with pytest.warns(ConvergenceWarning, match="stopped at max_nodes for: 0, 1, 2"):
        model = RuleHMM(noise=0.5, min_pos=2, max_nodes=1).fit(X, y)
    assert model.certified_ == {0: False, 1: False, 2: False}
    third = [x.copy() for x in X]
    third[2][0, 3] = 0.5
    for bad in (third, [sparse.csr_array(x) for x in third]):
        with pytest.raises(ValueError, match=r"X\[2\] holds 0\.5 at time step 0, column 3; expected 0 or 1"):
            RuleHMM().fit(bad, y)
    for option in ({"noise": 1.5}, {"min_pos": 0}, {"max_order": 0}, {"rule_score": "gini"}):
        with pytest.raises(ValueError, match=next(iter(option))):
            RuleHMM(**option).fit(X, y)
    with pytest.raises(ValueError, match="window is"):
        RuleHMM(window=(1, -1)).fit(X, y)
    fitted = RuleHMM(noise=0.5, min_pos=2).fit(X, y)
    with pytest.raises(ValueError, match=r"X\[1\] holds 2 at time step 0, column \d; expected 0 or 1"):
        fitted.predict([X[0], 1 + X[1]])  # coded as 1 and 2: everything would be true
    stream = fitted.predict_online()
    with pytest.raises(ValueError, match="x holds 2 at time step 0"):
        stream.step(np.full(X[0].shape[1], 2.0))


def test_equal_bounds_are_opened():
    # (1, 2) is found first, below the node (1,) of the larger bound; (0, 1) scores the same and is smaller
    truth = np.array([[1, 1, 1, 1]] * 3 + [[0, 1, 0, 0]] + np.eye(4, dtype=int).tolist()) > 0
    positive, negative = np.r_[np.ones(4), np.zeros(4)], np.r_[np.zeros(4), np.full(4, 4.0)]
    search = RuleSearch(truth, np.full(4, -1), "coverage", 2, 0.4, 1, 0.0, 2.0, 1000)
    assert search.best(positive, negative, (4.0, 16.0), []).conjunction == (0, 1)


def test_windows_end_at_the_ends_of_a_sequence():
    batch, items = pack([[[1], [0]], [[0], [1]], [[1]]]), make_items(1, (1, 1), True)
    truth = dict(
        zip([tuple(item.tolist()) for item in items], item_truth(batch, items).T.tolist(), strict=True)
    )
    assert truth[0, -1, False] == [False, True, False, False, False]
    assert truth[0, -1, True] == [False, False, False, True, False]
    assert truth[0, 1, False] == [False, False, True, False, False]
    assert truth[0, 1, True] == [True, False, False, False, False]


def test_a_stream_knows_nothing_of_steps_before_it():
    x = (np.arange(40) % 5 < 3).astype(float)
    labels = np.where(np.r_[1.0, x[:-1]] == 0, "after", "other")
    model = RuleHMM(window=(1, 0), negations=True, noise=0.0).fit([x[:, None]] * 3, [labels] * 3)
    assert any(model.items_[i].tolist() == (0, -1, True) for c in model.conjunctions_ for i in c)
    stream = model.predict_online(lag=9)
    for _ in range(2):
        for value in x[:6]:
            stream.step([value])
        assert_allclose(stream.finish(), model.predict_proba([x[:6, None]])[0], atol=1e-12)


def test_sequences_without_weight_leave_no_trace():
    X, y = [[[0], [1]], [[0.5], [1]]], [[0, 1], [0, 1]]
    model = HMMClassifier().fit(X, y, sample_weight=[1, 0])
    assert model.emission_kinds_.tolist() == ["bernoulli"]
    with pytest.raises(ValueError, match=r"X\[1\] holds 0.5 at time step 0, column 0"):
        HMMClassifier(emission="bernoulli").fit([[[7.0]], *X[1:]], [[0], [0, 1]], sample_weight=[0, 1])
    rng = np.random.RandomState(11)
    X = [(rng.rand(12, 4) < 0.5).astype(float) for _ in range(3)]
    y = [(x[:, 0] * x[:, 1] > 0).astype(int) for x in X]
    options = {"min_pos": 1, "cover_discount": 0.5, "noise": 0.5, "max_rules_per_label": 6}
    weighted = RuleHMM(**options).fit(X, y, sample_weight=[1, 0, 0])
    assert weighted.rules_text() == RuleHMM(**options).fit(X[:1], y[:1]).rules_text()


def test_a_warning_that_raises_leaves_a_whole_model():
    rng = np.random.RandomState(0)
    X = [(rng.rand(20, 3) < 0.5).astype(float) for _ in range(5)]
    model = RuleHMM(min_pos=2).fit(X, [(x[:, 0] * x[:, 1] > 0).astype(int) for x in X])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="rule"):
            model.fit(X, [rng.randint(0, 2, 20) for _ in X])
    assert [len(p) for p in model.predict_proba(X)] == [20] * 5
