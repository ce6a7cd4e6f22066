"""DynamicCRF: gradients, reductions to chains, and what a known level is worth."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp
from sklearn.exceptions import DataDimensionalityWarning

from sklearn_seqlab import DynamicCRF, LinearChainCRF
from sklearn_seqlab.crf import _dynamic
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.objectives import GridLogLikelihood
from sklearn_seqlab.sequences import encode_levels, pack


def tracks(n_sequences=12, seed=0):
    """Two levels: a slow one that inputs hardly tell, and a fast one that goes with it."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n_sequences):
        n = rng.randint(8, 25)
        upper = np.cumsum(rng.uniform(size=n) < 0.15) % 2
        lower = np.where(rng.uniform(size=n) < 0.85, upper, rng.randint(3, size=n))
        X.append(
            np.column_stack([lower + rng.normal(size=n), upper + 2 * rng.normal(size=n), rng.normal(size=n)])
        )
        y.append(np.column_stack([upper, lower]))
    return X, y


def hidden(y, share=0.4, seed=0):
    rng = np.random.RandomState(seed)
    tables = []
    for table in y:
        rows = [[None if rng.uniform() < share else int(label) for label in row] for row in table]
        rows[0][0] = {0, 1}
        tables.append(rows)
    return tables


def objective(X, y, **changed):
    batch = pack(X)
    labels = encode_levels(y, batch.offsets, self_transitions=True).levels
    params = {
        "weight": np.linspace(0.5, 2, len(X)), "columns": [None] * len(labels), "coupled": True, "C": 1.7,
        "l1_ratio": 0.0, "fit_intercept": True, "start_end": True,
        "allowed_transitions": [np.ones((level.n_labels,) * 2, dtype=bool) for level in labels],
        "pairs": [None] * len(labels),
    } | changed  # fmt: skip
    return GridLogLikelihood(batch, labels, **params)


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize(
    "changed",
    [{}, {"coupled": False, "start_end": False}, {"columns": [np.array([1]), None], "l1_ratio": 0.3}],
)
def test_gradients_by_finite_differences(share, changed):
    X, y = tracks(5)
    loss = objective(X, hidden(y, share) if share else y, **changed)
    rng = np.random.RandomState(0)
    coef, direction = rng.normal(size=loss.n_coef), rng.normal(size=loss.n_coef)
    up, down = (loss.value_and_gradient(coef + sign * 1e-5 * direction)[0] for sign in (1, -1))
    assert_allclose(loss.value_and_gradient(coef)[1] @ direction, (up - down) / 2e-5, rtol=1e-7)
    again = loss.join(loss.split(coef))
    assert_allclose(again, coef)


def test_values_are_those_of_enumeration():
    X, y = tracks(3)
    X, y = [x[:3] for x in X], [table[:3] for table in y]
    y[0], y[1] = [[0, 0], [1, 1], [0, 2]], [[1, None], [None, 2], [None, None]]
    loss = objective(X, y, weight=np.ones(3))
    coef = np.random.RandomState(0).normal(size=loss.n_coef)
    parts = loss.split(coef)
    total = 0.0
    rows = list(product(range(2), range(3)))
    for x, table in zip(X, y, strict=True):
        scores, fits = [], []
        for labels in product(rows, repeat=3):
            score = 0.0
            for d, part in enumerate(parts.levels):
                own = [row[d] for row in labels]
                score += sum(part.node[k] @ x[t] + part.intercept[k] for t, k in enumerate(own))
                score += sum(part.transition[a, b] for a, b in pairwise(own))
                score += part.start[own[0]] + part.end[own[-1]]
            scores.append(score + sum(parts.coupling[0][row] for row in labels))
            known = np.array(table, dtype=object)
            fits.append(all(known[t, d] in (None, labels[t][d]) for t in range(3) for d in range(2)))
        scores = np.array(scores)
        total += logsumexp(scores) - logsumexp(scores[np.array(fits)])
    penalised = coef * loss.penalty.penalised
    assert_allclose(loss.value_and_gradient(coef)[0], 1.7 * total + 0.5 * penalised @ penalised, rtol=1e-12)


@pytest.mark.parametrize("params", [{}, {"l1_ratio": 0.5}, {"start_end": False, "fit_intercept": False}])
def test_one_level_is_a_linear_chain(params):
    X, y = tracks()
    flat = [table[:, 1] for table in y]
    grid = DynamicCRF(tol=1e-7, **params).fit(X, flat)
    chain = LinearChainCRF(tol=1e-7, **params).fit(X, flat)
    assert_allclose(grid.coef_[0], chain.coef_, atol=1e-4)
    assert_allclose(grid.transition_coef_[0], chain.transition_coef_, atol=1e-4)
    assert_allclose(np.concatenate(grid.predict_proba(X)), np.concatenate(chain.predict_proba(X)), atol=1e-4)
    assert_array_equal(np.concatenate(grid.predict(X)), np.concatenate(chain.predict(X)))
    partial = [[None if t % 3 else label for t, label in enumerate(labels.tolist())] for labels in flat]
    assert_allclose(grid.log_likelihood(X, partial), chain.log_likelihood(X, partial), atol=1e-3)


def test_without_coupling_levels_are_chains_of_their_own():
    X, y = tracks()
    grid = DynamicCRF(coupling="none", tol=1e-7, level_features=[[0, 1], None]).fit(X, y)
    for d, own in enumerate(([x[:, :2] for x in X], X)):
        chain = LinearChainCRF(tol=1e-7).fit(own, [table[:, d] for table in y])
        assert_allclose(grid.coef_[d], chain.coef_, atol=1e-4)
        found = np.concatenate([levels[d] for levels in grid.predict_marginals(X)])
        assert_allclose(found, np.concatenate(chain.predict_proba(own)), atol=1e-4)
    assert not grid.coupling_coef_[0].any()


def test_a_known_level_helps_the_other():
    X, y = tracks(40)
    test_X, test_y = tracks(40, seed=1)
    observed = [[[None, int(lower)] for _, lower in table] for table in test_y]
    coupled = DynamicCRF().fit(X, y)

    def right(found):
        return np.concatenate([a[:, 0] == b[:, 0] for a, b in zip(found, test_y, strict=True)]).mean()

    alone = right(coupled.predict(test_X))
    assert right(coupled.predict(test_X, observed)) > alone + 0.03
    independent = DynamicCRF(coupling="none").fit(X, y)
    assert right(independent.predict(test_X, observed)) == right(independent.predict(test_X))
    assert coupled.coupling_coef_[0][0, 0] > coupled.coupling_coef_[0][0, 1]


def test_partial_labels_at_fit():
    X, y = tracks(20)
    model = DynamicCRF().fit(X, hidden(y))
    assert model.score(X, y) > DynamicCRF().fit(X, y).score(X, y) - 0.03
    assert (np.diff(model.loss_curve_) <= 0).all()


def test_three_levels_and_sparse_inputs():
    X, y = tracks(3)
    y = [np.column_stack([table, table.sum(axis=1) % 2]) for table in y]
    X = [np.where(np.abs(x) < 0.4, 0.0, x) for x in X]
    dense = DynamicCRF(tol=1e-5).fit(X, y)
    stored = DynamicCRF(tol=1e-5).fit([sparse.csr_array(x) for x in X], y)
    for a, b in zip(dense.coef_, stored.coef_, strict=True):
        assert_allclose(a, b, atol=1e-3)
    assert [part.shape for part in dense.coupling_coef_] == [(2, 3), (3, 2)]
    assert dense.predict(X)[0].shape == y[0].shape
    restricted = DynamicCRF(restrict_features=True).fit([sparse.csr_array(x) for x in X], y)
    assert all(sparse.issparse(part) for part in restricted.coef_)
    assert restricted.score(X, y) > 0.5


def test_forbidden_moves():
    X, y = tracks()
    model = DynamicCRF(allowed_transitions=["observed", {0: [0, 1], 1: [1, 2, 0], 2: [0, 1, 2]}])
    with pytest.raises(InfeasibleSequenceError, match=r"y\[\d+\]"):
        model.fit(X, y)
    model = DynamicCRF(allowed_transitions=[None, "observed"]).fit(X, y)
    assert np.isfinite(model.transition_coef_[0]).all()
    sampled = model.sample(X, 3, random_state=0)
    for table in sampled[0]:
        moves = model.transition_coef_[1][table[:-1, 1], table[1:, 1]]
        assert (moves > -np.inf).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"level_features": [[0]]}, "level_features has 1 entries, but y has 2 level"),
        ({"level_features": [[0], [7]]}, r"level_features\[1\] holds 7..7"),
        ({"level_features": [[0], [0.5]]}, r"level_features\[1\] is \[0.5\]"),
        ({"allowed_transitions": [None]}, "allowed_transitions has 1 entries"),
        ({"solver": "lbfgs", "l1_ratio": 0.5}, "cannot take l1_ratio"),
    ],
)
def test_bad_parameters_are_refused(params, message):
    model = DynamicCRF(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(*tracks(3))
    assert not hasattr(model, "coef_")


def test_damaged_coefficients_are_refused():
    X, y = tracks(3)
    model = DynamicCRF().fit(X, y)
    model.coupling_coef_ = [np.zeros((3, 3))]
    with pytest.raises(ValueError, match="coupling_coef_ has shapes"):
        model.predict(X)


def test_many_tuples_deserve_a_word(monkeypatch):
    monkeypatch.setattr(_dynamic, "_MANY_TUPLES", 5)
    with pytest.warns(DataDimensionalityWarning, match="6 tuples of labels"):
        DynamicCRF(max_iter=1, tol=1.0).fit(*tracks(3))


def test_a_warm_start_begins_at_the_last_solution():
    X, y = tracks()
    model = DynamicCRF(warm_start=True).fit(X, y)
    before = model.loss_curve_[-1]
    assert_allclose(model.fit(X, y).loss_curve_[0], before, rtol=1e-10)
