"""Relational patterns: against enumeration, their names and categories, and rules made of them."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from sklearn_seqlab import StructHKLClassifier
from sklearn_seqlab._clauses import clause_categories, clause_category, join_bodies
from sklearn_seqlab.feature_extraction import RelationalPatternMiner

RELATIONS = {"before": (-3, -1), "around": (-1, 2)}


def holds(x, t, pattern, relations):
    """By trying all steps."""
    ranges = [range(t + relations[name][0], t + relations[name][1] + 1) for name, _ in pattern]
    for steps in product(*ranges):
        inside = all(0 <= u < len(x) for u in steps)
        in_order = all(a < b for a, b in pairwise(steps))
        if (
            inside
            and in_order
            and all(x[u, list(inputs)].all() for u, (_, inputs) in zip(steps, pattern, strict=True))
        ):
            return True
    return False


def all_patterns(n_inputs, relations, max_literals, max_vars):
    subsets = [c for k in range(1, max_literals + 1) for c in combinations(range(n_inputs), k)]
    variables = list(product(relations, subsets))
    for n in range(1, max_vars + 1):
        for pattern in product(variables, repeat=n):
            if sum(len(inputs) for _, inputs in pattern) <= max_literals:
                yield pattern


@pytest.fixture
def data(rng):
    X = [(rng.uniform(size=(n, 3)) < 0.35).astype(float) for n in (9, 1, 12)]
    y = [rng.choice(["a", "b"], size=len(x)) for x in X]
    return X, y


@pytest.mark.parametrize("support", ["label", "global"])
def test_miner_finds_what_enumeration_finds(support, data):
    X, y = data
    relations = {"before": (-3, -1), "around": (-1, 2), "after": (1, 2)}
    miner = RelationalPatternMiner(
        relations=relations, min_support=0.2, support=support, max_literals=3, max_vars=2, max_patterns=10**6
    ).fit(X, y)
    labels = np.concatenate(y)
    expected, by_truth = {}, {}
    for pattern in all_patterns(3, relations, 3, 2):
        if len(pattern) == 2 and relations[pattern[0][0]][1] < relations[pattern[1][0]][0]:
            continue  # the windows settle the order
        truth = np.array([holds(x, t, pattern, relations) for x in X for t in range(len(x))])
        shares = [truth[labels == k].mean() for k in "ab"] if support == "label" else [truth.mean()]
        if max(shares) >= 0.2:
            expected[pattern] = max(shares), truth
            size = sum(len(inputs) for _, inputs in pattern)
            key = truth.tobytes()
            by_truth[key] = min(by_truth.get(key, 99), size)
    found = dict(zip(miner.patterns_, miner.supports_.tolist(), strict=True))
    assert set(found) <= set(expected)
    assert len(found) == len(by_truth)
    table = np.concatenate(miner.transform(X))[:, 3:]
    for k, pattern in enumerate(miner.patterns_):
        assert_allclose(found[pattern], expected[pattern][0])
        assert_array_equal(table[:, k], expected[pattern][1])
        assert sum(len(inputs) for _, inputs in pattern) == by_truth[expected[pattern][1].tobytes()]
    assert (np.diff(miner.supports_) <= 0).all()
    fewer = clone(miner).set_params(max_patterns=5).fit(X, y)
    assert fewer.patterns_ == miner.patterns_[:5]


def test_names_and_kinds_of_output(data):
    X, y = data
    miner = RelationalPatternMiner(relations=RELATIONS, max_patterns=8, min_support=0.1).fit(X, y)
    assert miner.get_feature_names_out()[:3].tolist() == ["x0", "x1", "x2"]
    assert miner.get_feature_names_out(["tap", "pan", "bed"])[0] == "tap"
    dense = miner.transform(X)
    thin = clone(miner).set_params(output="sparse").fit([sparse.csr_array(x) for x in X], y).transform(X)
    for a, b in zip(dense, thin, strict=True):
        assert_array_equal(a, b.toarray())
    pytest.importorskip("pandas")
    frames = clone(miner).set_params(output="frame").fit(X, y).transform(X)
    assert list(frames[0].columns) == miner.get_feature_names_out().tolist()
    alone = clone(miner).set_params(include_inputs=False).fit(X, y).transform(X)
    assert alone[0].shape == (9, 8)


SEED_CLAUSES = [
    ("preparingDinner(T) :- microwave(T)", {"SC", "PF", "AF", "CF", "DF"}),
    ("preparingDinner(T) :- microwave(T), platesCupboard(T)", {"SC", "CF", "DF"}),
    ("preparingDinner(T1) :- prevNear(T1,T2), platesCupboard(T2)", {"PF", "AF", "CF", "DF"}),
    ("preparingDinner(T1) :- prevNear(T1,T2)", {"DF"}),
    ("preparingLunch(T1) :- prevNear(T1,T2), platesCupboard(T2), microwave(T2)", {"AF", "CF", "DF"}),
    (
        "preparingLunch(T1) :- prevNear(T1,T2), platesCupboard(T2), prevNear(T1,T3), microwave(T3), greater(T2,T3)",
        {"AF", "CF", "DF"},
    ),
    ("preparingDinner(T1) :- microwave(T1), prevNear(T1,T2), platesCupboard(T2)", {"CF", "DF"}),
]


@pytest.mark.parametrize(("clause", "categories"), SEED_CLAUSES)
def test_categories_of_the_papers_clauses(clause, categories):
    assert clause_categories(clause) == categories


def test_other_clauses():
    assert clause_category("a(T) :- true.") == "SC"
    assert clause_category("a(T) :- not hall door(T), tap(T).") == "SC"
    # a chain of variables of which the last has evidence
    assert clause_category("a(T) :- prev(T, T1), prev(T1, T2), tap(T2).") == "PF"
    assert clause_category("a(T) :- prev(T, T1), tap(T1), prev(T, T2).") == "DF"
    with pytest.raises(ValueError, match="expected text like"):
        clause_categories("no clause")
    assert (
        join_bodies(["p(T, T1), a(T1)", "b(T)", "n(T, T1), c(T1)"])
        == "p(T, T1), a(T1), b(T), n(T, T2), c(T2)"
    )


def planted(rng, n=8):
    """Busy lasts four steps after a tap."""
    X, y = [], []
    for _ in range(n):
        x = (rng.uniform(size=(60, 3)) < 0.1).astype(float)
        recent = np.array([x[max(0, t - 4) : t, 0].any() for t in range(60)])
        X.append(x)
        y.append(np.where(recent & (x[:, 1] == 0), "busy", "free"))
    return X, y


def test_rules_over_patterns(rng):
    pytest.importorskip("pandas")
    X, y = planted(rng)
    relations = {"soon": (-4, -1)}
    pipe = make_pipeline(
        RelationalPatternMiner(relations=relations, max_literals=1, output="frame"),
        StructHKLClassifier(C=300.0, negations=True),
    ).fit(X, y)
    text = pipe[-1].rules_text()
    assert "busy(T) :- soon(T, T1), x0(T1)." in text
    kinds = dict(
        zip(pipe[-1].rules_["conjunction"].tolist(), pipe[-1].rules_["category"].tolist(), strict=True)
    )
    names = pipe[0].get_feature_names_out().tolist()
    assert kinds[(names.index("soon(T, T1), x0(T1)"),)] == "PF"
    assert {kinds[c] for c in kinds if len(c) > 1} <= {"SC", "CF"}
    assert pipe.score(X, y) > 0.95
    plain = make_pipeline(clone(pipe[0]).set_params(output="dense"), clone(pipe[1])).fit(X, y)
    assert plain[-1].rules_text(feature_names=names) == text
    search = GridSearchCV(plain, {"structhklclassifier__C": [10.0, 100.0]}, cv=KFold(2)).fit(X, y)
    assert search.best_score_ > 0.8


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"relations": {"at": (0, 0)}}, "'at', which cannot be"),
        ({"relations": {"p": (2, 1)}}, r"relations\['p'\] is \(2, 1\); lo must not be above hi"),
        ({"relations": {"p": 3}}, "expected two integers"),
        ({"relations": {}}, "expected a dict"),
        ({"min_support": 2}, "min_support is 2"),
        ({"support": "local"}, "support is 'local'"),
        ({"max_vars": 0}, "max_vars is 0"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message, data):
    with pytest.raises(ValueError, match=message):
        RelationalPatternMiner(**parameters).fit(*data)


def test_bad_input_is_refused(data):
    X, _ = data
    with pytest.raises(ValueError, match="needs y"):
        RelationalPatternMiner().fit(X)
    with pytest.raises(ValueError, match=r"X\[0\] holds 0\.5"):
        RelationalPatternMiner().fit([np.full((2, 2), 0.5)], [["a", "b"]])


@pytest.mark.parametrize(("n_timesteps", "n_on"), [(6, 6), (7, 5), (13, 13), (19, 19)])
def test_a_pattern_of_just_the_least_support_is_found(n_timesteps, n_on):
    x = np.zeros((n_timesteps, 1), dtype=int)
    x[:n_on] = 1
    miner = RelationalPatternMiner(
        relations={"now": (0, 0)}, support="global", min_support=n_on / n_timesteps
    ).fit([x])
    assert len(miner.patterns_) == 1
