"""Training on a real cluster of Dask workers, each a process of its own on this machine."""

import os
import signal

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.model_selection import GridSearchCV

from sklearn_seqlab import LinearChainCRF
from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.objectives import ShardedObjective

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(host="127.0.0.1", **options) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def make_data(n_sequences=40):
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, size=n).tolist() for n in rng.integers(1, 30, size=n_sequences)]
    X = [rng.normal(size=(len(labels), 4)) + np.array(labels)[:, None] for labels in y]
    y[3][0], y[5] = None, [{0, 1}] * len(y[5])
    return X, y


@pytest.mark.parametrize(
    "options",
    [{}, {"l1_ratio": 0.5}, {"transition_features": "all"}, {"loss": "marginal", "class_weight": "balanced"}],
    ids=["l2", "l1", "moves", "marginals"],
)
def test_two_processes_learn_what_one_does(client, options):
    X, y = make_data()
    weight = np.linspace(0, 2, len(X))
    model = LinearChainCRF(tol=1e-10, **options)
    alone = model.fit(X, y, weight).coef_
    with joblib.parallel_config("dask"):
        assert_allclose(model.fit(X, y, weight).coef_, alone, rtol=1e-6, atol=1e-7)


def test_shards_add_up(client):
    """The objective itself agrees to rounding, on restricted sparse features."""
    X, y = make_data()
    X = [sparse.csr_array(np.where(x > 0.5, x, 0)) for x in X]
    found = []

    class Looked(Exception):
        pass

    def look(objective, start, **_):
        coef = np.random.default_rng(1).normal(size=objective.n_coef)
        found.append((objective, *objective.value_and_gradient(coef)))
        raise Looked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_seqlab.crf._linear_chain.lbfgs", look)
        for backend in ("threading", "dask"):
            with joblib.parallel_config(backend), pytest.raises(Looked):
                LinearChainCRF(restrict_features=True).fit(X, y)
    (_, value, gradient), (sharded, other_value, other_gradient) = found
    assert isinstance(sharded, ShardedObjective) and len(sharded._shards) == 2
    assert_allclose(other_value, value, rtol=1e-13)
    assert_allclose(other_gradient, gradient, rtol=1e-10, atol=1e-12)


def test_a_killed_worker_does_not_lose_the_fit(client, monkeypatch):
    X, y = make_data()
    alone = LinearChainCRF(tol=1e-8).fit(X, y)
    calls, gather = [], ShardedObjective._gather

    def watched(self, coef):
        calls.append(len(calls))
        if len(calls) == 4:
            os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)
        return gather(self, coef)

    monkeypatch.setattr(ShardedObjective, "_gather", watched)
    with joblib.parallel_config("dask"):
        model = LinearChainCRF(tol=1e-8).fit(X, y)
    assert len(calls) > 4
    assert_allclose(model.coef_, alone.coef_, rtol=1e-5, atol=1e-6)


def test_errors_name_the_callers_sequence(client):
    X, y = make_data()
    y[30] = [0, None, 1]
    X[30] = np.zeros((3, 4))
    moves = {0: [0, 2], 1: [0, 1, 2], 2: [2, 0]}
    y = [labels if s == 30 else [0] * len(labels) for s, labels in enumerate(y)]
    y[0], y[1] = [1] * len(y[0]), [2] * len(y[1])
    with joblib.parallel_config("dask"), pytest.raises(InfeasibleSequenceError, match=r"y\[30\]"):
        LinearChainCRF(allowed_transitions=moves).fit(X, y)


def test_grid_search_on_workers(client):
    """Candidates are the tasks; a fit inside of one is not cut up again."""
    X, y = make_data(20)
    search = GridSearchCV(LinearChainCRF(), {"C": [0.01, 1.0]}, cv=2, refit=False)
    alone = search.fit(X, y).cv_results_["mean_test_score"]
    with joblib.parallel_config("dask"):
        assert_allclose(search.fit(X, y).cv_results_["mean_test_score"], alone)
