"""Sequences in files: the same models from them, one sequence in memory to write them, and refusals."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from sklearn_seqlab import HMMClassifier, LinearChainCRF
from sklearn_seqlab.sequences import StoredSequences, _stored, pack, write_sequences


def corpus(kind, n_sequences=40):
    random = np.random.RandomState(0)
    X, y = [], []
    for _ in range(n_sequences):
        n_timesteps = random.randint(1, 9)
        x = random.normal(size=(n_timesteps, 6)).astype(np.float32)
        y.append(random.choice(list("abc"), n_timesteps))
        if "csr" in kind:
            x = sparse.csr_array(np.where(random.rand(n_timesteps, 6) < 0.5, np.abs(x).round(1), 0.0))
            if "binary" in kind:
                x = sparse.csr_array((x != 0).astype(np.float64))
        X.append(x.astype(np.float32) if "32" in kind else x.astype(np.float64))
    return X, y


KINDS = ["dense", "dense32", "csr", "csr32", "binary csr"]
OPTIONS = [
    {},
    {"restrict_features": True},
    {"l1_ratio": 0.5},
    {"transition_features": [0]},
    {"loss": "marginal"},
    {"solver": "sgd", "max_iter": 3, "random_state": 0},
    {"solver": "sgd", "max_iter": 3, "random_state": 0, "restrict_features": True},
    {"solver": "sag", "max_iter": 3, "random_state": 0},
    {"solver": "sdca", "fit_intercept": False, "max_iter": 3, "random_state": 0},
]


def coefficients(model):
    return model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_models_are_those_of_doubles_in_memory(tmp_path, kind, options):
    X, y = corpus(kind)
    stored = write_sequences(tmp_path, iter(X))
    assert pack(stored, as_stored=True).values.dtype == (np.float32 if "32" in kind else np.float64)
    doubles = [x.astype(np.float64) for x in X]
    expected = LinearChainCRF(C=2.0, **options).fit(doubles, y)
    for data in (X, stored):
        model = clone(expected).fit(data, y)
        np.testing.assert_allclose(coefficients(model), coefficients(expected), rtol=1e-9, atol=1e-12)
        for found, wish in zip(model.predict_proba(data), expected.predict_proba(doubles), strict=True):
            np.testing.assert_allclose(found, wish, rtol=1e-9, atol=1e-12)
        assert [list(labels) for labels in model.predict(data)] == [
            list(p) for p in expected.predict(doubles)
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_list_of_its_sequences(tmp_path, kind):
    X, _ = corpus(kind)
    stored = write_sequences(tmp_path, X)
    assert len(stored) == len(X) and stored.n_features == 6 and stored.is_sparse == ("csr" in kind)
    again = pickle.loads(pickle.dumps(stored))
    for found in (list(stored), stored[:], [stored[s - len(X)] for s in range(len(X))], list(again)):
        for one, other in zip(found, X, strict=True):
            assert one.dtype == other.dtype
            difference = one - other
            assert not (difference.count_nonzero() if sparse.issparse(difference) else difference.any())
    with pytest.raises(IndexError, match="no number of 40 sequences"):
        stored[40]


def test_searches_and_other_estimators_take_it_too(tmp_path):
    X, y = corpus("dense")
    stored = write_sequences(tmp_path, X)
    expected = cross_val_score(LinearChainCRF(), X, y, cv=3)
    np.testing.assert_array_equal(cross_val_score(LinearChainCRF(), stored, y, cv=3), expected)
    np.testing.assert_array_equal(
        np.concatenate(HMMClassifier(emission="gaussian").fit(stored, y).predict_proba(stored)),
        np.concatenate(HMMClassifier(emission="gaussian").fit(X, y).predict_proba(X)),
    )


def test_sequences_that_are_left_out(tmp_path):
    X, y = corpus("csr")
    stored, weight = write_sequences(tmp_path, X), np.arange(40) % 3
    expected = LinearChainCRF().fit(X, y, sample_weight=weight)
    found = LinearChainCRF().fit(stored, y, sample_weight=weight)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-12)


def test_duplicates_are_summed_and_columns_sorted(tmp_path):
    x = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([3, 1, 3]), np.array([0, 3, 3])), shape=(2, 4))
    stored = write_sequences(tmp_path, [x])
    assert stored[0].toarray().tolist() == [[0.0, 2.0, 0.0, 5.0], [0.0] * 4]
    assert stored[0].indices.tolist() == [1, 3] and x.nnz == 3


def test_more_values_than_32_bits_number(tmp_path, monkeypatch):
    X, y = corpus("csr")
    monkeypatch.setattr(_stored, "_LARGEST_INDEX", 20)
    stored = write_sequences(tmp_path, X)
    assert stored.packed().values.indices.dtype == np.int64
    expected = LinearChainCRF(restrict_features=True).fit(X, y)
    found = LinearChainCRF(restrict_features=True).fit(stored, y)
    np.testing.assert_allclose(coefficients(found), coefficients(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (
            [np.ones((2, 3)), np.array([[1.0, np.nan, 0.0]])],
            ValueError,
            r"X\[1\] contains NaN at time step 0, column 1",
        ),
        ([np.ones((2, 3)), np.ones((2, 4))], ValueError, r"X\[1\] has 4 features, but X\[0\] has 3"),
        (
            [np.ones((2, 3)), sparse.csr_array(np.ones((2, 3)))],
            TypeError,
            r"X\[1\] is sparse, but X\[0\] is not",
        ),
        (
            [np.ones((2, 3), np.float32), np.ones((2, 3))],
            TypeError,
            r"X\[1\] has values of float64, but X\[0\] of float32",
        ),
        ([np.ones(3)], ValueError, r"X\[0\] has 1 dimension"),
        ([], ValueError, "X holds no sequences"),
    ],
)
def test_what_cannot_be_written(tmp_path, X, error, message):
    write_sequences(tmp_path, [np.ones((2, 3))])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=message):
        write_sequences(tmp_path, X)
    assert sorted(tmp_path.iterdir()) == before and StoredSequences(tmp_path)[0].tolist() == [[1.0] * 3] * 2


def test_a_corpus_may_be_written_over_itself(tmp_path):
    X, _ = corpus("dense")
    stored = write_sequences(tmp_path, X)
    doubled = write_sequences(tmp_path, (2 * x for x in stored))
    np.testing.assert_array_equal(stored[39], X[39])  # the old map still holds
    np.testing.assert_array_equal(doubled[39], 2 * X[39])


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_damaged_files_are_refused(tmp_path, kind):
    write_sequences(tmp_path, corpus(kind)[0])
    name = "values" if kind == "dense" else "indices"
    whole = np.load(tmp_path / f"{name}.npy")
    damaged = (
        [whole[:-1]] if kind == "dense" else [whole[:-1], whole + 6, whole - 7, whole.astype(np.float64)]
    )
    for values in damaged:
        np.save(tmp_path / f"{name}.npy", values)
        with pytest.raises(ValueError, match="contradict each other"):
            StoredSequences(tmp_path)
    np.save(tmp_path / f"{name}.npy", whole)
    offsets = np.load(tmp_path / "offsets.npy")
    for values in (offsets[::-1], offsets[:1], offsets + 1, offsets[:, None], offsets[0]):
        np.save(tmp_path / "offsets.npy", values)
        with pytest.raises(ValueError, match=r"contradict each other|does not hold where"):
            StoredSequences(tmp_path)
    about = json.loads((tmp_path / "sequences.json").read_text())
    (tmp_path / "sequences.json").write_text(json.dumps(about | {"version": 99}))
    with pytest.raises(ValueError, match="format 99"):
        StoredSequences(tmp_path)
    (tmp_path / "sequences.json").write_text("{")
    with pytest.raises(ValueError, match="does not describe sequences"):
        StoredSequences(tmp_path)


def test_values_changed_since_are_looked_at_again(tmp_path):
    X, y = corpus("dense")
    stored = write_sequences(tmp_path, X)
    values = np.load(tmp_path / "values.npy", mmap_mode="r+")
    values[len(X[0]), 2] = np.inf
    values.flush()
    with pytest.raises(ValueError, match=r"X\[1\] contains infinity at time step 0, column 2"):
        LinearChainCRF().fit(stored, y)


LARGER_THAN_MEMORY = """
    import resource, sys, warnings
    import numpy as np
    from scipy import sparse
    from sklearn_seqlab import LinearChainCRF
    from sklearn_seqlab.sequences import write_sequences

    folder, kind = sys.argv[1:]
    random = np.random.RandomState(0)
    LinearChainCRF(max_iter=1).fit([np.eye(2)] * 2, [["a", "b"]] * 2).predict([np.eye(2)])  # everything imported
    used = int(next(r for r in open("/proc/self/status") if r.startswith("VmData")).split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + 60 * 2**20,) * 2)
    states = [random.randint(0, 3, 50) for _ in range(1600)]

    def inputs():
        for s in states:
            if kind == "csr":
                columns = np.sort(random.randint(0, 100, (50, 100)) + 100 * np.arange(100))
                values = random.normal(size=5000) + (columns.ravel() % 3 == np.repeat(s, 100))
                yield sparse.csr_array((values, columns.ravel(), np.arange(0, 5001, 100)), shape=(50, 10_000))
            else:
                yield (random.normal(size=(50, 400)) + s[:, None]).astype(np.float32)

    X = write_sequences(folder, inputs())
    size = sum(file.stat().st_size for file in X.folder.iterdir())
    assert size > 80 * 2**20, size
    try:
        np.concatenate([np.asarray(x.data if kind == "csr" else x, dtype=float) for x in X])
    except MemoryError:
        pass
    else:
        raise AssertionError("the limit lets a copy through")
    warnings.simplefilter("ignore")
    for options in ({}, {"solver": "sgd"}, {"restrict_features": kind == "csr"}):
        model = LinearChainCRF(max_iter=2, random_state=0, **options).fit(X, states)
        assert np.mean(np.concatenate(model.predict(X)) == np.concatenate(states)) > 0.6, options
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux has them")
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_corpus_larger_than_the_memory(tmp_path, kind):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(LARGER_THAN_MEMORY))
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "corpus"), kind],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
