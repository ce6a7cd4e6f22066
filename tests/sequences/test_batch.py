"""pack: every check of the door, every container, and no trace left on the input."""

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_seqlab.sequences import pack, read_weights, unpack

A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
B = np.array([[7.0, 0.0]])


def object_array(items):
    out = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        out[k] = item
    return out


@st.composite
def sequences(draw):
    elements = st.floats(-1e300, 1e300)
    n_features = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    return [draw(hnp.arrays(np.float64, (n, n_features), elements=elements)) for n in lengths]


@settings(max_examples=60, deadline=None)
@given(sequences(), st.sampled_from(["dense", "sparse", "mixed"]))
def test_pack_and_unpack_give_the_sequences_back(X, kind):
    items = [
        sparse.csr_matrix(values) if kind == "sparse" or (kind == "mixed" and s == 0) else values
        for s, values in enumerate(X)
    ]
    batch = pack(items)
    assert batch.n_sequences == len(X) and batch.n_features == X[0].shape[1]
    assert batch.n_total == sum(map(len, X)) and batch.lengths.tolist() == [len(values) for values in X]
    assert batch.is_sparse == (kind != "dense")
    values = batch.values.toarray() if batch.is_sparse else batch.values
    parts = batch.unpack(values)
    assert parts.shape == (len(X),) and parts.dtype == object
    for part, original in zip(parts, X, strict=True):
        assert_array_equal(part, original)


@pytest.mark.parametrize("wrap", [list, tuple, object_array, lambda items: pd.Series(items)])
@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        lambda values: values.tolist(),
        np.asfortranarray,
        lambda values: values[::-1][::-1],
        lambda values: values.astype(np.float32),
        lambda values: values.astype(object),
        pd.DataFrame,
        sparse.csr_matrix,
        sparse.csr_array,
        sparse.csc_array,
        sparse.coo_matrix,
        sparse.bsr_array,
        sparse.dok_matrix,
        sparse.dia_matrix,
        sparse.lil_matrix,
    ],
)
def test_containers(wrap, convert):
    batch = pack(wrap([convert(A), convert(B)]))
    values = batch.values.toarray() if batch.is_sparse else batch.values
    assert_array_equal(values, np.vstack([A, B]))
    assert batch.values.dtype == np.float64 and batch.offsets.dtype == np.intp
    assert batch.offsets.tolist() == [0, 3, 4]
    assert batch.is_sparse or batch.values.flags.c_contiguous


def test_equal_lengths_stay_apart():
    cube = np.arange(12.0).reshape(2, 3, 2)
    batch = pack(cube)
    parts = unpack(batch.values, batch.offsets)
    assert parts.shape == (2,)
    assert_array_equal(parts[1], cube[1])


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, bool, np.float16, np.longdouble])
def test_numbers_become_float64(dtype):
    batch = pack([np.array([[0, 1], [1, 1]]).astype(dtype)])
    assert batch.values.dtype == np.float64
    assert_array_equal(batch.values, [[0, 1], [1, 1]])


def test_nothing_is_shared_or_written():
    for items in ([A.copy()], [sparse.csr_array(A)], [pd.DataFrame(A)]):
        batch = pack(items)
        (batch.values.data if batch.is_sparse else batch.values)[...] = -1
        values = items[0].toarray() if sparse.issparse(items[0]) else np.asarray(items[0])
        assert_array_equal(values, A)
    rows = np.zeros((2, 1))
    unpack(rows, np.array([0, 1, 2]))[0][:] = 5
    assert_array_equal(rows, np.zeros((2, 1)))


def test_read_only_and_memory_mapped(tmp_path):
    frozen = A.copy()
    frozen.setflags(write=False)
    assert_array_equal(pack([frozen]).values, A)
    joblib.dump([A, B], tmp_path / "X.joblib")
    mapped = joblib.load(tmp_path / "X.joblib", mmap_mode="r")
    assert isinstance(mapped[0], np.memmap)
    batch = pack(mapped)
    assert type(batch.values) is np.ndarray and batch.values.flags.writeable
    matrix = sparse.csr_matrix(A)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.setflags(write=False)
    assert_array_equal(pack([matrix]).values.toarray(), A)


def test_sparse_entries_are_sorted_and_summed_without_touching_the_input():
    messy = sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 3, 3])), shape=(2, 2)
    )
    batch = pack([messy])
    assert batch.values.has_canonical_format and batch.values.toarray().tolist() == [[2, 4], [0, 0]]
    assert messy.indices.tolist() == [1, 0, 1] and messy.data.tolist() == [1, 2, 3]
    assert batch.values.indices.dtype == np.int32


def test_column_names():
    frames = [pd.DataFrame(A, columns=["p", "q"]), pd.DataFrame(B, columns=["p", "q"])]
    assert pack(frames).feature_names.tolist() == ["p", "q"]
    assert pack([pd.DataFrame(A)]).feature_names is None
    assert pack([A]).feature_names is None
    with pytest.raises(ValueError, match=r"X\[1\] has columns \['q', 'p'\], but X\[0\] has \['p', 'q'\]"):
        pack([frames[0], frames[1][["q", "p"]]])
    with pytest.raises(ValueError, match=r"X\[1\] and X\[0\] differ: one has column names"):
        pack([frames[0], B])
    with pytest.raises(TypeError, match="Feature names are only supported"):
        pack([pd.DataFrame(A, columns=["p", 1])])


@pytest.mark.parametrize(
    "convert", [np.asarray, sparse.csr_array, lambda v: pd.DataFrame(v, columns=["p", "q"])]
)
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_values_that_are_not_finite_are_placed(convert, value, word):
    bad = A.copy()
    bad[2, 1] = value
    title = r" \('q'\)" if hasattr(convert(A), "columns") else ""
    first = convert(B)
    message = rf"X\[1\] contains {word} at time step 2, column 1{title}; expected finite numbers"
    with pytest.raises(ValueError, match=message):
        pack([first, convert(bad)])
    if word == "NaN":
        batch = pack([first, convert(bad)], allow_nan=True)
        values = batch.values.toarray() if batch.is_sparse else batch.values
        assert np.isnan(values[3, 1])
    else:
        with pytest.raises(ValueError, match=f"contains {word}"):
            pack([first, convert(bad)], allow_nan=True)


def test_missing_values_of_objects():
    batch = pack([np.array([[1, pd.NA]], dtype=object)], allow_nan=True)
    assert batch.values[0, 0] == 1 and np.isnan(batch.values[0, 1])
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})
    assert np.isnan(pack([frame], allow_nan=True).values[1, 0])


def test_a_long_double_beyond_the_range_is_refused():
    if np.finfo(np.longdouble).max <= np.finfo(np.float64).max:
        pytest.skip("long double is double here")
    with pytest.raises(ValueError, match="infinity"):
        pack([np.array([[np.finfo(np.longdouble).max]])])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (None, ValueError, r"X is None; expected a list with one array of shape \(n_timesteps, n_features\)"),
        ("abc", TypeError, "X is a str; expected a list"),
        ({0: A}, TypeError, "X is a dict; expected a list"),
        ((values for values in [A]), TypeError, "X is a generator; expected a list"),
        (3.0, TypeError, "X is a float; expected a list"),
        (np.array(3.0), ValueError, "X is a scalar array"),
        (
            sparse.csr_array(A),
            ValueError,
            r"X is one csr_array of shape \(3, 2\); .* wrap a single one as \[X\]",
        ),
        (pd.DataFrame(A), ValueError, r"X is one DataFrame of shape \(3, 2\)"),
        ([], ValueError, r"X holds no sequences \(n_samples=0\)"),
        (np.empty((0, 3, 2)), ValueError, "X holds no sequences"),
        (A, ValueError, r"X\[0\] has 1 dimension\(s\) \(2,\); expected shape \(n_timesteps, n_features\)"),
        ([A, 3.0], ValueError, r"X\[1\] has 0 dimension\(s\)"),
        ([A, A[None]], ValueError, r"X\[1\] has 3 dimension\(s\) \(1, 3, 2\)"),
        ([A, A[:, :1]], ValueError, r"X\[1\] has 1 features, but X\[0\] has 2 features"),
        ([A, A[:0]], ValueError, r"X\[1\] has 0 time steps \(shape \(0, 2\)\)"),
        ([A[:, :0]], ValueError, r"X\[0\] has 0 feature\(s\)"),
        ([A, "ab"], TypeError, r"X\[1\] is a str"),
        ([A, {1, 2}], TypeError, r"X\[1\] is a set"),
        ([[[1.0], [1.0, 2.0]]], ValueError, r"X\[0\] is not a rectangular array"),
        ([A + 1j], ValueError, r"Complex data not supported: X\[0\] has dtype complex128"),
        ([[["a", "b"]]], ValueError, r"X\[0\] has dtype <U1; expected numbers"),
        ([np.array([[1, "b"]], dtype=object)], TypeError, r"X\[0\]\[0\]\[1\] is 'b'; expected a number"),
        ([np.array([[1, None]], dtype=object)], TypeError, r"X\[0\]\[0\]\[1\] is None"),
        ([np.array([[1, 2j]], dtype=object)], ValueError, "Complex data not supported"),
        ([np.array([["2020-01-01"]], dtype="M8[D]")], ValueError, r"X\[0\] has dtype datetime64"),
        ([[[10**400]]], TypeError, r"X\[0\]\[0\]\[0\] is 1000"),
    ],
)
def test_refusals(X, error, message):
    with pytest.raises(error, match=message):
        pack(X)


def test_refusals_of_arguments():
    with pytest.raises(ValueError, match=r"X\[0\] has 2 features, but the estimator is expecting 3 features"):
        pack([A], n_features=3)
    with pytest.raises(TypeError, match=r"X\[0\] is sparse, but dense data is required; use X\[0\].toarray"):
        pack([sparse.csr_array(A)], accept_sparse=False)
    with pytest.raises(ValueError, match="Z holds no sequences"):
        pack([], name="Z")


def corrupt(kind, changes):
    matrix = kind(np.eye(4))
    for name, values in changes.items():
        setattr(matrix, name, np.asarray(values, dtype=getattr(matrix, name).dtype))
    return matrix


@pytest.mark.parametrize(
    ("kinds", "changes"),
    [
        ((sparse.csr_array, sparse.csc_matrix), {"indices": [0, 1, 2, 9]}),
        ((sparse.csr_array, sparse.csc_matrix), {"indices": [0, 1, 2, -1]}),
        ((sparse.csr_array, sparse.csc_matrix), {"indptr": [0, 3, 1, 2, 4]}),
        ((sparse.csr_array, sparse.csc_matrix), {"indptr": [0, 1, 2, 3, 400]}),
        ((sparse.csr_array, sparse.csc_matrix), {"indptr": [2, 1, 2, 3, 4]}),
        ((sparse.csr_array, sparse.csc_matrix), {"indptr": [0, 1, 2, 3, -4]}),
        ((sparse.csr_array, sparse.csc_matrix), {"indptr": [0, 1, 2]}),
        ((sparse.csr_array, sparse.csc_matrix), {"data": [1.0]}),
        ((sparse.bsr_matrix,), {"indices": [0, 1, 2, 9]}),
        ((sparse.bsr_matrix,), {"indptr": [0, 1, 2, 3, -4]}),
        ((sparse.coo_matrix,), {"row": [0, 1, 2, 9]}),
        ((sparse.coo_matrix,), {"col": [0, 1, 2, -9]}),
        ((sparse.coo_matrix,), {"data": [1.0]}),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_corrupt_sparse_matrix_is_an_error_not_a_crash(kinds, changes, place):
    for kind in kinds:
        items = [np.eye(4), np.eye(4)]
        items[place] = corrupt(kind, changes)
        with pytest.raises(ValueError, match=rf"X\[{place}\] is no valid sparse matrix"):
            pack(items)


def test_weights_by_step_are_refused():
    with pytest.raises(ValueError, match="lists of different lengths; expected 2 numbers, one per sequence"):
        read_weights([[1.0, 2.0], [1.0]], 2)


def spoilt(kind, change):
    x = kind(sparse.csr_matrix(np.array([[0.0, 1, 2], [3, 0, 0]])))
    change(x)
    return x


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.indptr.__setitem__(0, 1),
        lambda x: x.indptr.__setitem__(1, 9),
        lambda x: x.indptr.__setitem__(1, -1),
        lambda x: x.indptr.__setitem__(2, 4),
        lambda x: x.indices.__setitem__(0, 3),
        lambda x: x.indices.__setitem__(0, -1),
        lambda x: setattr(x, "data", x.data[:2]),
        lambda x: setattr(x, "indices", x.indices[:2]),
        lambda x: setattr(x, "indptr", x.indptr[:2]),
    ],
)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_matrix_among_good_ones_is_named(change, kind, place):
    X = [sparse.csr_array(np.eye(3)) for _ in range(3)]
    X[place] = spoilt(kind, change)
    with pytest.raises(ValueError, match=rf"X\[{place}\] is no valid sparse matrix"):
        pack(X)


def test_csr_together_is_what_they_are_one_by_one(rng):
    dense = [rng.integers(0, 3, size=(rng.integers(1, 6), 5)).astype(float) for _ in range(20)]
    alike = [sparse.csr_array(x) for x in dense]
    for x in alike:
        for array in (x.data, x.indices, x.indptr):
            array.flags.writeable = False
    mixed = [alike[0].astype(np.float32), *alike[1:]]
    for X in (alike, mixed, [sparse.csr_matrix(x) for x in dense]):
        batch = pack(X)
        assert_array_equal(batch.values.toarray(), np.concatenate(dense))
        assert batch.values.indices.dtype == np.int32 and batch.values.has_canonical_format
        assert batch.offsets.dtype == np.intp
        assert not np.shares_memory(batch.values.data, X[0].data)
    unsorted = sparse.csr_array((np.ones(3), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 5))
    batch = pack([unsorted, alike[0]])
    assert_array_equal(batch.values.toarray()[0], [1, 0, 2, 0, 0])
    assert_array_equal(unsorted.indices, [2, 0, 2])
