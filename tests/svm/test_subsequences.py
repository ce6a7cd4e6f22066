"""Subsequence kernels against enumeration, and the machine on them against the kernel's dual."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from toy_conjunctions import toy_conjunctions

from sklearn_seqlab import SubsequenceKernel, SubsequenceKernelSVM
from sklearn_seqlab.svm import StructuredSVM

PLAIN = {"normalize": False, "bias": 0.0}


def subsequence_features(window, zones, max_length, decay, items):
    """Weight of every subsequence of items with their zones."""
    features = {}
    for length in range(1, max_length + 1):
        for places in combinations(range(len(window)), length):
            choices = []
            for p in places:
                on = np.flatnonzero(window[p]).tolist()
                sizes = range(1, len(on) + 1) if items == "subsets" else [1]
                choices.append([(zones[p], subset) for k in sizes for subset in combinations(on, k)])
            for pattern in product(*choices):
                span = places[-1] - places[0] + 1
                features[pattern] = features.get(pattern, 0.0) + decay**span
    return features


def product_of(a, b):
    return sum(weight * b.get(pattern, 0.0) for pattern, weight in a.items())


@pytest.mark.parametrize("items", ["subsets", "inputs"])
@pytest.mark.parametrize("pivot", ["zones", "none"])
def test_gram_is_that_of_enumerated_features(items, pivot, rng):
    X = [(rng.uniform(size=(n, 3)) < 0.4).astype(float) for n in (5, 1, 4)]
    kernel = SubsequenceKernel(before=2, after=1, max_length=3, decay=0.7, items=items, pivot=pivot, **PLAIN)
    features = []
    for x in X:
        for t in range(len(x)):
            steps = [u for u in range(t - 2, t + 2) if 0 <= u < len(x)]
            zones = [np.sign(u - t) if pivot == "zones" else 0 for u in steps]
            features.append(subsequence_features(x[steps], zones, 3, 0.7, items))
    expected = np.array([[product_of(a, b) for b in features] for a in features])
    found = kernel.gram(X)
    assert_allclose(found, expected, atol=1e-12)
    assert_allclose(kernel.gram(X[:1], X[1:]), expected[:5, 5:], atol=1e-12)
    assert np.linalg.eigvalsh(found).min() > -1e-10
    scaled = SubsequenceKernel(before=2, after=1, max_length=3, decay=0.7, items=items, pivot=pivot, bias=0.0)
    ones = np.diag(scaled.gram([sparse.csr_array(x) for x in X]))
    empty = np.diag(expected) == 0
    assert_allclose(ones[~empty], 1.0)
    assert_array_equal(ones[empty], 0.0)


def test_worked_kernels():
    s, t = np.array([[1, 0], [0, 1], [1, 1]]), np.array([[1, 1], [0, 1]])
    for items, expected in {"inputs": (1.5, 0.15625, 0.0), "subsets": (1.75, 0.15625, 0.0)}.items():
        total = 0.0
        for length, value in enumerate(expected, start=1):
            kernel = SubsequenceKernel(
                before=2, after=0, max_length=length, decay=0.5, items=items, pivot="none", **PLAIN
            )
            total += value
            assert_allclose(kernel.gram([s], [t])[2, 1], total)


def test_worked_optimum_of_the_machine():
    X, y = toy_conjunctions(3, 2, n_steps=3)
    options = {"C": 10.0, "before": 1, "after": 1, "max_length": 2, "decay": 0.5, "tol": 1e-7}
    model = SubsequenceKernelSVM(rescaling="slack", bias=0.0, items="inputs", **options).fit(X, y)
    assert_allclose(model.objective_, 1.6745884, atol=2e-6)
    assert 0 <= model.duality_gap_ <= 1e-6


def dual_of_kernels(X, y, kernel, C):
    """Optimum of the dual over all labellings of margin rescaling, by a general solver."""
    gram = kernel.gram(X)
    starts = np.cumsum([0] + [len(x) for x in X])
    planes, costs, owner = [], [], []
    for i, labels in enumerate(y):
        for other in product(range(2), repeat=len(labels)):
            table, moves = np.zeros((len(gram), 2)), np.zeros((2, 2))
            for t, (a, b) in enumerate(zip(labels, other, strict=True)):
                table[starts[i] + t, a] += 1
                table[starts[i] + t, b] -= 1
            for pair, sign in ((labels, 1), (other, -1)):
                np.add.at(moves, (list(pair[:-1]), list(pair[1:])), sign)
            planes.append((table, moves))
            costs.append(np.mean(np.array(other) != labels))
            owner.append(i)
    n = len(planes)
    big = np.array([[np.sum(p[0] * (gram @ q[0])) + np.sum(p[1] * q[1]) for q in planes] for p in planes])
    costs, owner = np.array(costs), np.array(owner)
    limits = [{"type": "ineq", "fun": lambda a, i=i: C / len(X) - a[owner == i].sum()} for i in range(len(X))]
    found = minimize(
        lambda a: 0.5 * a @ big @ a - costs @ a,
        np.zeros(n),
        jac=lambda a: big @ a - costs,
        bounds=[(0, None)] * n,
        constraints=limits,
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return -found.fun


def test_the_optimum_is_that_of_the_dual(rng):
    X = [rng.integers(0, 2, size=(3, 3)) for _ in range(2)]
    y = [x[:, 0] & x[:, 1] for x in X]
    y[0][0] = 1 - y[0][0]
    model = SubsequenceKernelSVM(C=5.0, before=1, after=1, tol=1e-7).fit(X, y)
    expected = dual_of_kernels(X, y, SubsequenceKernel(before=1, after=1), 5.0)
    assert_allclose(model.objective_, expected, rtol=1e-5)


def test_a_window_of_one_step_is_a_linear_machine(rng):
    """Single inputs, no gaps, no neighbours: the kernel is the product of rows."""
    X = [rng.integers(0, 2, size=(6, 4)) for _ in range(4)]
    y = [x[:, 0] | x[:, 1] for x in X]
    kernel = SubsequenceKernelSVM(
        C=20.0,
        before=0,
        after=0,
        max_length=1,
        decay=1.0,
        items="inputs",
        normalize=False,
        bias=1.0,
        tol=1e-7,
    ).fit(X, y)
    linear = StructuredSVM(C=20.0, start_end=False, tol=1e-7, max_iter=2000, random_state=0).fit(X, y)
    assert_allclose(kernel.objective_, linear.objective_, rtol=1e-5)
    for a, b in zip(kernel.decision_function(X), linear.decision_function(X), strict=True):
        assert_allclose(a, b, atol=2e-3)


def test_fewer_directions_and_threads(rng):
    X = [(rng.uniform(size=(30, 4)) < 0.3).astype(float) for _ in range(6)]
    y = [np.where(np.roll(x[:, 0], 1) > 0, "after", "else") for x in X]
    for labels in y:
        labels[0] = "else"
    whole = SubsequenceKernelSVM(C=200.0, before=2, after=0).fit(X, y)
    assert whole.score(X, y) > 0.95
    again = SubsequenceKernelSVM(C=200.0, before=2, after=0, n_jobs=2).fit(X, y)
    assert_array_equal(again.dual_coef_, whole.dual_coef_)
    few = SubsequenceKernelSVM(C=200.0, before=2, after=0, max_rank=10).fit(X, y)
    assert few.rank_ == 10 < whole.rank_ and few.objective_ >= whole.objective_ - whole.duality_gap_
    assert few.score(X, y) > 0.6


def test_windows_see_steps_without_labels(rng):
    X = [(rng.uniform(size=(30, 2)) < 0.3).astype(float) for _ in range(5)]
    y = [np.where(np.roll(x[:, 0], 1) > 0, "after", "else").astype(object) for x in X]
    for labels in y:
        labels[0] = "else"
        labels[::2] = None
    model = SubsequenceKernelSVM(C=500.0, before=1, after=0).fit(X, y)
    found = model.predict(X)
    for labels, known in zip(found, y, strict=True):
        assert_array_equal(labels[1::2], known[1::2].astype(str))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"decay": 0.0}, "decay is 0.0"),
        ({"max_length": 0}, "max_length is 0"),
        ({"before": -1}, "before is -1"),
        ({"items": "pairs"}, "items is 'pairs'"),
        ({"bias": -1.0}, "bias is -1.0"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        SubsequenceKernel(**parameters).gram([[[1]]])


@pytest.mark.parametrize("changed", [{"before": 0}, {"before": 50}, {"decay": 0.1}])
def test_the_kernel_of_a_fit_does_not_follow_parameters(changed):
    X, y = [[[1, 1], [1, 0], [0, 1], [1, 1]], [[0, 0], [1, 1]]], [["b", "f", "f", "b"], ["f", "b"]]
    machine = SubsequenceKernelSVM(before=1, after=1, C=100.0).fit(X, y)
    expected = machine.decision_function(X)
    for found, wish in zip(machine.set_params(**changed).decision_function(X), expected, strict=True):
        np.testing.assert_array_equal(found, wish)
