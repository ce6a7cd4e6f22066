import sys
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_seqlab.datasets import fetch_kasteren

UBICOMP = {
    "idle": 4627,
    "leave house": 22617,
    "use toilet": 379,
    "take shower": 265,
    "go to bed": 11602,
    "prepare Breakfast": 109,
    "prepare Dinner": 348,
    "get drink": 59,
}
# In the order idle, leave, toilet, shower, brush teeth, bed, breakfast, dinner, drink.
TL2010 = {
    "A": [4586, 19743, 385, 264, 39, 11592, 93, 330, 55],
    "B": [1804, 12257, 79, 129, 41, 6059, 99, 97, 17],
    "C": [5683, 11986, 250, 199, 112, 7745, 165, 312, 35],
}


def whole(data_home, **options):
    """The whole stream as one matrix."""
    return np.concatenate(fetch_kasteren(data_home=data_home, **options).data)


def test_slices_sensors_and_classes(data_home):
    home = fetch_kasteren(data_home=data_home)
    assert sum(map(len, home.data)) == 40006
    assert len(home.feature_names) == 14 and home.feature_names[0] == "Microwave"
    y = np.concatenate(home.target)
    assert Counter(y.tolist()) == UBICOMP
    assert set(home.target_names) == set(UBICOMP)
    runs = np.flatnonzero(np.append(True, y[1:] != y[:-1]))
    length = np.diff(np.append(runs, len(y)))
    assert (len(runs), np.median(length), length.max()) == (425, 10, 2876)


def test_days(data_home):
    home = fetch_kasteren(data_home=data_home)
    assert len(home.data) == 28 and sum(len(x) == 1440 for x in home.data) == 26
    assert_array_equal(home.groups, np.arange(28))
    assert home.slices[0][0] == np.datetime64("2008-02-25T00:20:14")
    for x, y, at in zip(home.data, home.target, home.slices, strict=True):
        assert len(x) == len(y) == len(at)
        assert len(np.unique(at.astype("datetime64[D]"))) == 1
        assert x.dtype == np.float64 and y.dtype == object


def test_blocks_drop_what_is_left_over(data_home):
    blocks, days = (fetch_kasteren(data_home=data_home, split=s) for s in (1000, "day"))
    assert [len(x) for x in blocks.data] == [1000] * 40
    assert_array_equal(np.concatenate(blocks.data), np.concatenate(days.data)[:40000])
    assert_array_equal(np.concatenate(blocks.target), np.concatenate(days.target)[:40000])
    distinct = [len(set(y)) for y in blocks.target]
    assert (min(distinct), max(distinct)) == (1, 8)


def test_raw_statistics(data_home):
    raw = whole(data_home, encoding="raw")
    assert round(raw.sum(axis=1).mean(), 2) == 1.33
    assert (~raw.any(axis=1)).sum() == 9871
    assert len(np.unique(raw, axis=0)) == 207


def test_change_point_statistics(data_home):
    change = whole(data_home, encoding="change")
    assert change.sum() == 1911 and change.any(axis=1).sum() == 1220
    assert len(np.unique(change, axis=0)) == 119


def test_both_readings_of_last_fired(data_home):
    last, last_slice = (whole(data_home, encoding=name) for name in ("last", "last-slice"))
    assert round(last.sum(axis=1).mean(), 2) == 1.03
    assert (last.sum(axis=1) > 1).sum() == 798
    assert round(last_slice.sum(axis=1).mean(), 2) == 1.34
    assert (last != last_slice).any(axis=1).sum() == 9256


def test_several_encodings_stand_side_by_side(data_home):
    both = fetch_kasteren(data_home=data_home, encoding=("change", "last"))
    assert len(both.feature_names) == 28 and both.feature_names[14] == "last__Microwave"
    assert_array_equal(np.concatenate(both.data)[:, :14], whole(data_home, encoding="change"))


@pytest.mark.parametrize(("house", "sensors", "on"), [("A", 14, 1.4), ("B", 23, 5.7), ("C", 21, 9.9)])
def test_later_release(data_home, house, sensors, on):
    home = fetch_kasteren(house, release="tl2010", data_home=data_home)
    assert len(home.feature_names) == len(set(home.feature_names)) == sensors
    counts = Counter(np.concatenate(home.target).tolist())
    assert sorted(counts.values()) == sorted(TL2010[house])
    assert counts["idle"] == TL2010[house][0]
    assert len(home.target_names) == 9
    assert round(np.concatenate(home.data).sum(axis=1).mean(), 1) == on
    assert len(home.data) == {"A": 26, "B": 15, "C": 20}[house]


def test_labels_keep_the_names_of_the_table(data_home):
    y = np.concatenate(fetch_kasteren("C", release="tl2010", data_home=data_home).target)
    named = ["idle", "leave house", "use toilet downstairs", "take shower", "brush teeth", "go to bed"]
    named += ["prepare Breakfast", "prepare Dinner", "get drink"]
    assert [int((y == name).sum()) for name in named] == TL2010["C"]


def test_idle_as_missing(data_home):
    home = fetch_kasteren(data_home=data_home, idle="missing")
    y = np.concatenate(home.target)
    assert sum(label is None for label in y) == UBICOMP["idle"]
    assert "idle" not in home.target_names and len(home.target_names) == 7


def test_as_frame(data_home):
    pd = pytest.importorskip("pandas")
    frames = fetch_kasteren(data_home=data_home, as_frame=True)
    arrays = fetch_kasteren(data_home=data_home)
    assert isinstance(frames.data[0], pd.DataFrame) and isinstance(frames.target[0], pd.Series)
    assert frames.data[0].columns.tolist() == arrays.feature_names
    assert_array_equal(frames.data[3].index, arrays.slices[3])
    assert_array_equal(frames.data[3], arrays.data[3])
    assert_array_equal(frames.target[3], arrays.target[3])


def test_as_frame_without_pandas_names_the_extra(data_home, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"sklearn_seqlab\[frames\]"):
        fetch_kasteren(data_home=data_home, as_frame=True)


def test_longer_slices_and_return_X_y(data_home):
    X, y = fetch_kasteren(data_home=data_home, slice_length="10min", return_X_y=True)
    assert sum(map(len, X)) == 4001 + 1 and [len(x) for x in X] == [len(labels) for labels in y]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"house": "B"}, "house must be one of"),
        ({"house": "D", "release": "tl2010"}, "house must be one of"),
        ({"release": "2009"}, "release must be"),
        ({"idle": None}, "idle must be"),
        ({"split": 0}, "split must be"),
        ({"split": "week"}, "split must be"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        fetch_kasteren(**options)


def test_block_longer_than_the_stream(data_home):
    with pytest.raises(ValueError, match="split must be at most 40006"):
        fetch_kasteren(data_home=data_home, split=50000)


def test_data_home_that_is_no_path():
    with pytest.raises(TypeError, match="data_home must be a path or None, but is 5"):
        fetch_kasteren(data_home=5)
