import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_seqlab.datasets import make_kitchen_rfid
from sklearn_seqlab.datasets._kitchen_rfid import ACTIVITIES, OBJECTS


@pytest.fixture(scope="module")
def many():
    return make_kitchen_rfid(2000, random_state=1)


def test_exact_figures():
    kitchen = make_kitchen_rfid(random_state=0)
    lengths = [len(x) for x in kitchen.data]
    assert lengths[:6] == [324, 253, 252, 338, 235, 260]
    assert len(lengths) == 20 and sum(lengths) == 5308
    assert sum(x.sum() for x in kitchen.data) == 2172
    runs = "0 1 4 11 5 7 2 8 9 6 10 3 12 14 13 15 18 17 16"
    assert kitchen.segments_[0]["label"].tolist() == [int(label) for label in runs.split()]


def within_four_errors(values, expected, half_unit):
    values = np.asarray(values, dtype=float)
    error = 4 * values.std(ddof=1) / np.sqrt(len(values)) + half_unit
    assert abs(values.mean() - expected) < error


def test_lengths_and_rates(many):
    lengths = np.array([len(x) for x in many.data])
    within_four_errors(lengths, 247.7, 0.05)
    assert abs(lengths.std(ddof=1) - 28.9) < 4 * 28.9 / np.sqrt(2 * 2000) + 0.05
    within_four_errors([len(table) for table in many.segments_], 18.12, 0.005)
    steps = np.concatenate(many.data)
    assert set(np.unique(steps.sum(axis=1))) == {0.0, 1.0}
    within_four_errors(steps.sum(axis=1), 0.4003, 0.00005)
    for name, percent in {"plate": 4.41, "newspaper": 4.22, "tap": 2.53, "fridge": 0.51}.items():
        # objects come in runs of an activity, so that sequences are the units
        counts = [x[:, OBJECTS.index(name)].sum() for x in many.data]
        within_four_errors(counts, percent / 100 * lengths.mean(), 0.00005 * lengths.mean())


def test_shares_of_activities(many):
    expected = "2.5 3.8 5.4 5.4 3.1 6.1 5.4 4.7 3.8 5.3 3.1 7.7 10.0 5.4 8.4 6.1 4.5 7.0 2.3"
    mean_length = np.mean([len(x) for x in many.data])
    for label, percent in enumerate(expected.split()):
        steps = [(table["stop"] - table["start"])[table["label"] == label].sum() for table in many.segments_]
        within_four_errors(steps, float(percent) / 100 * mean_length, 0.0005 * mean_length)


def test_phases_never_go_back_and_no_activity_comes_twice(many):
    phase = np.array([row[1] for row in ACTIVITIES])
    for table in many.segments_:
        assert (np.diff(phase[table["label"]]) >= 0).all()
        assert len(set(table["label"].tolist())) == len(table)
        assert table["start"][0] == 0 and (table["start"][1:] == table["stop"][:-1]).all()


def test_streams_are_separate():
    plain = make_kitchen_rfid(3, random_state=5)
    noisy = make_kitchen_rfid(5, on=0.8, wrong=0.5, random_state=5)
    for k in range(3):
        assert_array_equal(plain.target[k], noisy.target[k])
        assert (plain.data[k].any(axis=1) <= noisy.data[k].any(axis=1)).all()
    X, y = make_kitchen_rfid(3, return_X_y=True, random_state=5)
    assert_array_equal(X[2], plain.data[2])
    assert_array_equal(y[2], plain.target[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_sequences": 0}, "n_sequences"),
        ({"on": 1.5}, "on must be a share between 0 and 1, but is 1.5"),
        ({"wrong": "much"}, "wrong must be a share between 0 and 1, but is 'much'"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        make_kitchen_rfid(**options)
