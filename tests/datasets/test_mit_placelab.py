from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_seqlab.datasets import fetch_mit_placelab

HEADINGS = {
    1: {
        "idle": 18979,
        "Domestic work": 1965,
        "Personal needs": 1852,
        "Employment related": 90,
        "Leisure": 68,
        "Other": 66,
        "Purchasing goods and services": 11,
        "Entertainment and social life": 9,
    },
    2: {
        "idle": 17194,
        "Domestic work": 2681,
        "Leisure": 1613,
        "Personal needs": 992,
        "Entertainment and social life": 278,
        "Other": 148,
        "Educational": 96,
        "Purchasing goods and services": 38,
    },
}


@pytest.mark.parametrize(("subject", "n_sensors", "n_activities"), [(1, 72, 22), (2, 68, 24)])
def test_days_sensors_and_labels(data_home, subject, n_sensors, n_activities):
    home = fetch_mit_placelab(subject, level="both", data_home=data_home)
    assert [x.shape for x in home.data] == [(1440, n_sensors)] * 16
    assert [y.shape for y in home.target] == [(1440, 2)] * 16
    assert all(str(at[0].astype("datetime64[s]")).endswith("T00:00:00") for at in home.slices)
    heading, activity = np.concatenate(home.target).T
    assert Counter(heading.tolist()) == HEADINGS[subject]
    assert [len(names) for names in home.target_names] == [8, n_activities + 1]
    assert len(set(home.feature_names)) == n_sensors
    # Every activity stands under one heading.
    assert len(set(zip(heading, activity, strict=True))) == n_activities + 1


def test_levels_are_views_of_one_recording(data_home):
    both, heading, activity = (
        fetch_mit_placelab(level=level, data_home=data_home, idle="missing", split=1000)
        for level in ("both", "heading", "activity")
    )
    assert len(both.data) == 23
    assert_array_equal(np.concatenate(both.target)[:, 0], np.concatenate(heading.target))
    assert_array_equal(np.concatenate(both.target)[:, 1], np.concatenate(activity.target))
    assert heading.target_names.shape == (7,)


def test_a_record_as_it_stands_in_the_file(data_home):
    home = fetch_mit_placelab(1, data_home=data_home)
    day = 5  # 1 April; Bathing from 20:41:35 to 21:32:50, shower faucet (93) on from 20:53:43 to 20:58:42
    first = 20 * 60 + 41
    assert home.target[day][first] == "Bathing" and home.target[day][first - 1] == "idle"
    (shower,) = [k for k, name in enumerate(home.feature_names) if name == "Bathroom Shower faucet 93"]
    assert home.data[day][20 * 60 + 53 : 20 * 60 + 60, shower].tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert home.data[day][20 * 60 + 52, shower] == 0


def test_bad_arguments():
    with pytest.raises(ValueError, match="subject must be 1 or 2, but is 3"):
        fetch_mit_placelab(3)
    with pytest.raises(ValueError, match="level must be one of"):
        fetch_mit_placelab(level="category")
    with pytest.raises(ValueError, match="split must be"):
        fetch_mit_placelab(split="week")


def test_frames_of_two_levels(data_home):
    pytest.importorskip("pandas")
    X, y = fetch_mit_placelab(2, level="both", as_frame=True, return_X_y=True, data_home=data_home)
    assert y[0].columns.tolist() == ["heading", "activity"] and X[0].index.equals(y[0].index)
