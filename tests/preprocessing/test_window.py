import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from sklearn_seqlab.preprocessing import SlidingWindow, make_sequence_pipeline


def windows_by_definition(x, before, after, fill):
    empty = np.full(x.shape[1], fill)
    return np.array(
        [
            np.concatenate([x[t + k] if 0 <= t + k < len(x) else empty for k in range(-before, after + 1)])
            for t in range(len(x))
        ]
    )


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from([0.0, -1.5]),
)
def test_against_the_definition(lengths, before, after, fill):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 3, size=(n, 2)).astype(float) for n in lengths]
    expected = [windows_by_definition(x, before, after, fill) for x in X]
    window = SlidingWindow(before=before, after=after, fill=fill)
    for got, wish in zip(window.fit_transform(X), expected, strict=True):
        assert got.dtype == np.float64
        assert_array_equal(got, wish)
    if fill == 0:
        for got, wish in zip(window.transform([sparse.csr_matrix(x) for x in X]), expected, strict=True):
            assert sparse.issparse(got) and got.format == "csr" and got.dtype == np.float64
            assert got.has_sorted_indices
            assert_array_equal(got.toarray(), wish)


def test_windows_do_not_reach_into_the_next_sequence():
    first, second = SlidingWindow().fit_transform([[[1], [2]], [[3]]])
    assert_array_equal(first, [[0, 1, 2], [1, 2, 0]])
    assert_array_equal(second, [[0, 3, 0]])


def test_window_longer_than_the_sequence_and_no_window():
    (wide,) = SlidingWindow(before=4, after=0, fill=np.nan).fit_transform([[[1.0], [2.0]]])
    assert_array_equal(wide, [[np.nan] * 4 + [1], [np.nan] * 3 + [1, 2]])
    (same,) = SlidingWindow(before=0, after=0).fit_transform([[[1.0, 5.0], [2.0, 6.0]]])
    assert_array_equal(same, [[1, 5], [2, 6]])


def test_input_is_left_alone_and_not_kept():
    x = np.ones((3, 2))
    x.flags.writeable = False
    (out,) = SlidingWindow(before=0, after=0).fit_transform([x])
    assert not np.shares_memory(out, x)


def test_names():
    window = SlidingWindow(before=1, after=2).fit([np.ones((3, 2))])
    names = window.get_feature_names_out()
    assert names[:4].tolist() == ["x0[t-1]", "x1[t-1]", "x0[t]", "x1[t]"]
    assert names[-1] == "x1[t+2]" and len(names) == 8
    assert window.get_feature_names_out(["a", "b"])[1] == "b[t-1]"
    with pytest.raises(ValueError, match="input_features has 1 names, but fit saw 2 columns"):
        window.get_feature_names_out(["a"])


def test_data_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"fridge": [0.0, 1.0], "cup": [1.0, 0.0]})
    window = SlidingWindow(before=1, after=0)
    (out,) = window.fit_transform([frame])
    assert_array_equal(out, [[0, 0, 0, 1], [0, 1, 1, 0]])
    assert window.feature_names_in_.tolist() == ["fridge", "cup"]
    assert window.get_feature_names_out().tolist() == ["fridge[t-1]", "cup[t-1]", "fridge[t]", "cup[t]"]
    with pytest.raises(ValueError, match=r"X has columns .*'cup', 'fridge'.* but fit saw"):
        window.transform([frame[["cup", "fridge"]]])
    window.fit([frame.to_numpy()])
    assert not hasattr(window, "feature_names_in_")


def test_in_pipelines_and_clones():
    X = [np.arange(6.0).reshape(3, 2), np.ones((2, 2))]
    expected = SlidingWindow(before=2, after=1).fit_transform(X)
    for make in (make_pipeline, make_sequence_pipeline):
        pipeline = make(SlidingWindow(before=2, after=1))
        for got, wish in zip(pipeline.fit_transform(X), expected, strict=True):
            assert_array_equal(got, wish)
        assert len(pipeline.get_feature_names_out()) == 8
    assert clone(SlidingWindow(before=2, fill=3.0)).get_params() == {"before": 2, "after": 1, "fill": 3.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"before": -1}, "before must be an int >= 0, but is -1"),
        ({"after": 1.5}, "after must be an int >= 0, but is 1.5"),
        ({"before": True}, "before must be an int >= 0"),
        ({"fill": "0"}, "fill must be a number"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        SlidingWindow(**options).fit([np.ones((3, 2))])


def test_fill_other_than_zero_and_sparse():
    with pytest.raises(ValueError, match=r"fill must be 0 for sparse sequences, but is 1\.0"):
        SlidingWindow(fill=1.0).fit([sparse.csr_matrix(np.eye(3))])


def test_wrong_width_and_unfitted():
    window = SlidingWindow()
    with pytest.raises(NotFittedError):
        window.transform([np.ones((3, 2))])
    window.fit([np.ones((3, 2))])
    with pytest.raises(ValueError, match=r"X\[0\] has 3 features, but .* expecting 2 features"):
        window.transform([np.ones((3, 3))])


def test_offsets_beyond_every_sequence_hardly_cost_time():
    X = [np.arange(1.0, 12)[:, None], np.arange(1.0, 12)[:, None]]
    begin = time.process_time()
    dense = SlidingWindow(before=10**5, after=10**5).fit_transform(X)
    thin = SlidingWindow(before=10**6, after=10**6).fit_transform([sparse.csr_array(x) for x in X])
    assert time.process_time() - begin < 1.0  # one pass over the rows per offset takes several seconds
    assert dense[0].shape == (11, 2 * 10**5 + 1) and thin[0].shape == (11, 2 * 10**6 + 1)
    assert_array_equal(dense[1][:, 10**5 - 10 : 10**5 + 11], thin[1][:, 10**6 - 10 : 10**6 + 11].toarray())
    assert dense[0].sum() == thin[0].sum() == 11 * X[0].sum()
