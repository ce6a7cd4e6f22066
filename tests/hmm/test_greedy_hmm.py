"""GreedyInductionHMM: worked numbers, the search against refitted models, and splits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy_rules import toy_rules

from sklearn_seqlab import GreedyInductionHMM, HMMClassifier
from sklearn_seqlab.hmm._conjunction_hmm import TrainingData
from sklearn_seqlab.hmm._set_search import SetSearch
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score


def search(X, y, splits, **options):
    defaults = {"scoring": "log_likelihood", "max_order": 3, "max_features": 30, "max_steps": 50}
    defaults |= {"init": "empty", "alpha": 1.0, "tol": 1e-6, "n_jobs": None}
    negations = options.pop("negations", False)
    data = TrainingData(X, y, options.pop("weight", None), (0, 0), negations)
    return SetSearch(data, splits, **(defaults | options))


def refitted_score(X, y, members, train, held_out, scoring, alpha=1.0):
    """The definition: a model on these channels, learnt from some sequences and judged on others."""
    if members:
        channels = [np.column_stack([x[:, list(c)].all(axis=1) for c in members]).astype(float) for x in X]
    else:
        channels = [np.zeros((len(x), 1)) for x in X]
    model = HMMClassifier(emission="bernoulli", alpha=alpha).fit(
        [channels[s] for s in train], [y[s] for s in train]
    )
    if not members:
        model.emission_["bernoulli"]["probability"][:] = 0.5  # says nothing
    X_out, y_out = [channels[s] for s in held_out], [y[s] for s in held_out]
    if scoring == "log_likelihood":
        return model.log_likelihood(X_out, y_out).sum()
    score = {"micro_accuracy": micro_accuracy_score, "macro_accuracy": macro_accuracy_score}[scoring]
    return score(y_out, model.predict(X_out))


@pytest.mark.parametrize(
    ("scoring", "n_steps", "members", "log_likelihood", "accuracy"),
    [
        ("log_likelihood", 2, ((0,), (0, 1)), -18.0031966, 0.7407407407),
        ("log_likelihood", 4, ((0,), (0, 1), (2,), (2, 3)), -10.23781428, 0.8888888889),
        ("log_likelihood", 5, ((0,), (0, 1), (2,), (2, 3), (3,)), -10.16198048, 0.8888888889),
        ("micro_accuracy", 3, ((0, 1), (2,)), -15.53566141, 0.8148148148),
        ("micro_accuracy", 4, ((0, 1), (2,), (2, 3)), -12.16406208, 0.8888888889),
    ],
)
def test_worked_numbers_i3(scoring, n_steps, members, log_likelihood, accuracy):
    X, y = toy_rules(range(7), 8, 4, 7)
    train, held_out = np.arange(4), np.arange(4, 7)
    steps = search(X, y, [(train, held_out)], scoring=scoring, max_steps=n_steps)
    assert steps.run() == members
    assert len(steps.path) == n_steps + 1
    found = log_likelihood if scoring == "log_likelihood" else accuracy
    assert_allclose(steps.path[-1], found, atol=1e-8)
    for name, value in (("log_likelihood", log_likelihood), ("micro_accuracy", accuracy)):
        assert_allclose(refitted_score(X, y, members, train, held_out, name), value, atol=1e-8)
    longer = search(X, y, [(train, held_out)], scoring=scoring)
    longer.run()
    assert len(longer.path) == {"log_likelihood": 6, "micro_accuracy": 5}[scoring]


def test_plain_inputs_of_i3():
    X, y = toy_rules(range(7), 8, 4, 7)
    atoms = tuple((p,) for p in range(4))
    for scoring, value in (("micro_accuracy", 0.7037037037), ("log_likelihood", -17.63608676)):
        assert_allclose(refitted_score(X, y, atoms, range(4), range(4, 7), scoring), value, atol=1e-8)
    start = search(X, y, [(np.arange(4), np.arange(4, 7))], init="atoms", max_steps=0)
    assert start.run() == atoms
    assert_allclose(start.path, [-17.63608676], atol=1e-8)


@pytest.mark.parametrize("scoring", ["log_likelihood", "micro_accuracy", "macro_accuracy"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_every_step_takes_the_best_neighbour(scoring, alpha):
    X, y = toy_rules(range(8), 8, 4, 7)
    train, held_out = np.arange(5), np.arange(5, 8)
    current = ()
    for n_steps in range(1, 4):
        one = search(X, y, [(train, held_out)], scoring=scoring, max_steps=n_steps, alpha=alpha)
        chosen = one.run()
        neighbours = {members for members, _, _ in one._neighbours(current).values()}
        if not neighbours or len(one.path) <= n_steps:
            break
        scores = {m: refitted_score(X, y, m, train, held_out, scoring, alpha) for m in neighbours}
        assert chosen in neighbours
        assert_allclose(one.path[-1], max(scores.values()), rtol=1e-9)
        current = chosen


def test_neighbours_add_grow_swap_and_drop():
    X, y = toy_rules(range(6), 8, 4, 7)
    found = search(X, y, [(np.arange(4), np.arange(4, 6))])
    assert {m for m, _, _ in found._neighbours(()).values()} == {((p,),) for p in range(4)}
    around = {m for m, _, _ in found._neighbours(((0,),)).values()}
    grown = {((0,), tuple(sorted((0, p)))) for p in range(1, 4)}
    swapped = {(tuple(sorted((0, p))),) for p in range(1, 4)}
    assert around == {((0,), (p,)) for p in range(1, 4)} | grown | swapped | {()}
    negated = search(X, y, [(np.arange(4), np.arange(4, 6))], negations=True)
    assert all(4 not in c for m, _, _ in negated._neighbours(((0,),)).values() for c in m if 0 in c)
    small = search(X, y, [(np.arange(4), np.arange(4, 6))], max_order=1, max_features=1)
    assert {m for m, _, _ in small._neighbours(((0,),)).values()} == {()}


def test_equal_columns_are_one():
    X, y = toy_rules(range(8), 8, 4, 7)
    doubled = [x[:, [0, 1, 2, 3, 1]] for x in X]
    split = [(np.arange(5), np.arange(5, 8))]
    twice = search(doubled, y, split)
    assert not any({(1,), (4,)} <= set(m) for m, _, _ in twice._neighbours(((1,),)).values())
    assert twice.run() == search(X, y, split).run()


def test_hidden_labels_and_weights():
    X, y = toy_rules(range(8), 8, 4, 7)
    split = [(np.arange(5), np.arange(5, 8))]
    plain = search(X, y, split)
    plain.run()
    double = search(X, y, split, weight=np.r_[np.ones(5), np.full(3, 2.0)])
    double.run()
    assert_allclose(double.path[0], 2 * plain.path[0])
    hidden = [labels.tolist() for labels in y]
    hidden[6] = [None] * len(hidden[6])
    rest = search(X, hidden, split, max_steps=0)
    rest.run()
    fewer = search(X, y, [(np.arange(5), np.array([5, 7]))], max_steps=0)
    fewer.run()
    assert_allclose(rest.path, fewer.path)
    model = GreedyInductionHMM(random_state=0).fit(X, hidden)
    assert model.n_iter_ > 0


def test_splits():
    X, y = toy_rules(range(8), 12, 5, 11)
    model = GreedyInductionHMM(validation_fraction=4, random_state=3).fit(X, y)
    order = np.random.RandomState(3).permutation(8)
    splits = [(np.setdiff1d(np.arange(8), part), np.sort(part)) for part in np.array_split(order, 4)]
    folds = search(X, y, splits, tol=1e-3)
    assert folds.run() == tuple(model.conjunctions_)
    assert_allclose(folds.path, model.score_path_)
    assert model.n_evaluations_ == folds.n_evaluations
    total = sum(refitted_score(X, y, folds.run(), *split, "log_likelihood") for split in splits)
    assert_allclose(model.score_path_[-1], total)
    with pytest.raises(ValueError, match=r"needs at least 2 sequences, but X has 1.*Cut a long stream"):
        GreedyInductionHMM().fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="needs at least 3 sequences, but X has 2 of positive weight"):
        GreedyInductionHMM(validation_fraction=3).fit(X[:3], y[:3], sample_weight=[1, 0, 1])
    alone = GreedyInductionHMM(validation_fraction=None, max_steps=2).fit(X[:1], y[:1])
    assert len(alone.score_path_) <= 3


def test_rules_say_where_a_conjunction_tells_most():
    X, y = toy_rules(range(12), 12, 5, 11)
    model = GreedyInductionHMM(random_state=0).fit(X, y)
    rows, labels = np.vstack(X), np.concatenate(y)
    for label, conjunction, weight, support in model.rules_.tolist():
        on = rows[:, list(conjunction)].all(axis=1)
        assert support == on.sum()
        telling = [
            np.log((on[labels == k].sum() + 1) / ((labels == k).sum() + 2))
            - np.log((on[labels != k].sum() + 1) / ((labels != k).sum() + 2))
            for k in range(3)
        ]
        assert label == np.argmax(telling)
        assert_allclose(weight, max(telling))
    lines = model.rules_text().splitlines()
    assert len(lines) == len(model.rules_)
    assert all(" :- x" in line and "(T)" in line and "  % " in line for line in lines)
    assert_array_equal(
        model.transform(X)[0].toarray()[:, 0], X[0][:, list(model.conjunctions_[0])].all(axis=1)
    )
    found = HMMClassifier(emission="bernoulli").fit([c.toarray() for c in model.transform(X)], y)
    assert_array_equal(found.predict(model.transform(X))[3], model.predict(X)[3])
