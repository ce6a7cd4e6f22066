import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_seqlab.datasets import make_kitchen_trajectories


@pytest.fixture(scope="module")
def many():
    return make_kitchen_trajectories(3000, random_state=1)


@pytest.fixture(scope="module")
def legs(many):
    return np.concatenate(many.segments_)


def within_four_errors(sample, expected, decimals):
    """Mean of `sample` equals a figure that was printed with so many decimals."""
    error = np.std(sample) / np.sqrt(len(sample))
    assert abs(np.mean(sample) - expected) <= 4 * error + 0.5 * 10.0**-decimals


def test_exact_structure():
    kitchen = make_kitchen_trajectories(random_state=0)
    lengths = [len(x) for x in kitchen.data]
    assert lengths[:6] == [51, 96, 88, 58, 35, 56]
    assert len(lengths) == 90 and sum(lengths) == 4988
    legs = [list(zip(s["leg"].tolist(), (s["stop"] - s["start"]).tolist(), strict=True))
            for s in kitchen.segments_[:2]]  # fmt: skip
    assert legs[0] == [(1, 8), (2, 11), (3, 23), (4, 9)]
    assert legs[1] == [(1, 9), (2, 9), (7, 22), (6, 13), (2, 7), (7, 27), (8, 9)]


def test_exact_observations():
    kitchen = make_kitchen_trajectories(random_state=0)
    expected = [(-1.796722, -0.981753, 0, 0, -1), (-1.709765, -0.903977, 0.217392, 0.194441, -0.708338)]
    assert_allclose(kitchen.data[0][:2], expected, atol=6e-7)
    rows = np.concatenate(kitchen.data)
    assert_allclose(rows.mean(axis=0), [-0.286, 0.291, -0.004, -0.005, 0.021], atol=6e-4)
    assert_allclose(rows.std(axis=0), [0.883, 0.825, 1.16, 1.056, 1.19], atol=6e-4)


def test_exact_cells():
    cells = make_kitchen_trajectories(2, representation="cells", random_state=0).data[0]
    assert cells.shape[1] == 57
    assert_array_equal(cells[:, :48].argmax(axis=1)[:6], [8, 8, 17, 24, 33, 41])
    assert_array_equal(cells[:, 48:].argmax(axis=1)[:6], [8, 8, 5, 7, 6, 5])
    assert_array_equal(cells[:, :48].sum(axis=1), 1)
    assert_array_equal(cells[:, 48:].sum(axis=1), 1)


def test_only_listed_transitions(many, legs):
    for table in many.segments_:
        activity, leg = table["activity"][0], table["leg"]
        following = np.append(leg[1:], 0)
        assert (many.transitions[activity, leg - 1, following] > 0).all()
        assert many.start[activity, leg[0]] > 0
        assert leg[-1] in (4, 8, 11)
    used = many.transitions.sum(axis=2)
    assert set(np.unique(used.round(12))) == {0.0, 1.0}
    assert_allclose(many.start.sum(axis=1), 1)


def test_lengths_and_leg_counts(many):
    within_four_errors([len(table) for table in many.segments_], 5.626, 3)
    lengths = np.array([len(x) for x in many.data])
    for activity, expected in enumerate([46.6, 59.1, 66.2]):
        within_four_errors(lengths[activity::3], expected, 1)
    assert (lengths.min(), lengths.max()) == (16, 239)


def test_shares_of_steps(many, legs):
    lengths = np.array([len(x) for x in many.data], dtype=float)

    def check(column, number, percent):
        steps = np.array([((t["stop"] - t["start"]) * (t[column] == number)).sum() for t in many.segments_])
        ratio = steps.sum() / lengths.sum()
        error = np.std(steps - ratio * lengths) / lengths.mean() / np.sqrt(len(lengths))
        assert abs(ratio - percent / 100) <= 4 * error + 0.0005

    for activity, percent in enumerate([27.1, 34.4, 38.5]):
        check("activity", activity, percent)
    by_leg = [10.9, 17.8, 12.7, 7.7, 3.2, 5.8, 11.9, 3.9, 8.4, 9.3, 2.6, 5.8]
    for leg, percent in enumerate(by_leg, start=1):
        check("leg", leg, percent)


@pytest.mark.parametrize(("leg", "mean", "variance"), [(2, 8.96, 6.72), (7, 16.08, 36.1), (12, 8.99, 9.39)])
def test_durations_are_gamma_not_geometric(legs, leg, mean, variance):
    duration = (legs["stop"] - legs["start"])[legs["leg"] == leg]
    within_four_errors(duration, mean, 2)
    within_four_errors((duration - duration.mean()) ** 2, variance, 1)


def test_leg_shares_share_of_wild_jumps_and_noise():
    kitchen = make_kitchen_trajectories(300, representation="positions", random_state=3)
    error = np.concatenate(kitchen.data) - np.concatenate(kitchen.places)
    far = np.hypot(*error.T) > 1.4  # five standard deviations of the camera's error
    assert 0.015 < far.mean() < 0.03
    assert_allclose(error[~far].std(), 0.27, rtol=0.03)


def test_noise_zero_shows_the_true_place():
    kitchen = make_kitchen_trajectories(6, representation="positions", noise=0, random_state=0)
    for seen, place in zip(kitchen.data, kitchen.places, strict=True):
        assert_allclose(seen, place)


def test_options_do_not_shift_other_draws():
    plain = make_kitchen_trajectories(6, n_activities=(1, 3), random_state=4)
    longer = make_kitchen_trajectories(9, n_activities=(1, 3), random_state=4)
    noisy = make_kitchen_trajectories(6, n_activities=(1, 3), noise=2.5, random_state=4)
    hidden = make_kitchen_trajectories(6, n_activities=(1, 3), hide_steps=(0.5, 0.5), random_state=4)
    for i in range(6):
        assert_array_equal(plain.data[i], longer.data[i])
        assert_array_equal(plain.data[i], hidden.data[i])
        assert_array_equal(plain.target[i], noisy.target[i])
        assert_array_equal(plain.target[i], hidden.target[i])
        assert not np.array_equal(plain.data[i], noisy.data[i])
    more_hidden = make_kitchen_trajectories(
        6, n_activities=(1, 3), hide_labels=(0.3, 0.3), hide_steps=(0.5, 0.5), random_state=4
    )
    for (few, _), (more, _) in zip(hidden.target_partial, more_hidden.target_partial, strict=True):
        assert ((few == None) <= (more == None)).all()  # noqa: E711


def test_several_activities():
    kitchen = make_kitchen_trajectories(60, n_activities=(1, 3), random_state=0)
    counts = []
    for table, y in zip(kitchen.segments_, kitchen.target, strict=True):
        runs = table["activity"][np.flatnonzero(np.diff(table["activity"], prepend=-1))]
        counts.append(len(runs))
        assert (np.diff(runs) != 0).all()
        assert y.shape == (table["stop"][-1], 2)
    assert set(counts) == {1, 2, 3}
    assert {s["activity"][0] for s in kitchen.segments_[::3]} == {0}
    assert 100 < np.mean([len(x) for x in kitchen.data]) < 130


def test_target_partial_complete_when_nothing_is_hidden():
    kitchen = make_kitchen_trajectories(9, n_activities=(2, 2), random_state=0)
    for y, (labels, ends), table in zip(
        kitchen.target, kitchen.target_partial, kitchen.segments_, strict=True
    ):
        assert_array_equal(labels, y)
        assert_array_equal(np.flatnonzero(ends[:, 1]), table["stop"] - 1)
        assert ends[:, 0].sum() == 2 and ends[-1, 0] == 1
        changes = np.flatnonzero(y[1:, 0] != y[:-1, 0])
        assert_array_equal(np.flatnonzero(ends[:-1, 0]), changes)


def test_hiding_whole_segments():
    kitchen = make_kitchen_trajectories(400, hide_labels=(0.5, 0), hide_ends=(0, 0.5), random_state=0)
    hidden_activities, hidden_ends = [], []
    for (labels, ends), table in zip(kitchen.target_partial, kitchen.segments_, strict=True):
        missing = labels[:, 0] == None  # noqa: E711
        assert missing.all() or not missing.any()
        hidden_activities.append(missing[0])
        assert not (labels[:, 1] == None).any()  # noqa: E711
        assert set(ends[:, 0]) <= {0, 1}
        assert tuple(ends[-1]) == (1, 1)
        unknown = ends[:, 1] == None  # noqa: E711
        for start, stop in zip(table["start"][:-1], table["stop"][:-1], strict=True):
            assert unknown[start:stop].all() or not unknown[start:stop].any()
            hidden_ends.append(unknown[start])
    within_four_errors(hidden_activities, 0.5, 3)
    within_four_errors(hidden_ends, 0.5, 3)


def test_hiding_single_steps():
    kitchen = make_kitchen_trajectories(100, hide_steps=(0, 0.5), random_state=0)
    labels = np.concatenate([pair[0] for pair in kitchen.target_partial])
    assert not (labels[:, 0] == None).any()  # noqa: E711
    within_four_errors(labels[:, 1] == None, 0.5, 3)  # noqa: E711


def test_representations_and_names():
    both = make_kitchen_trajectories(3, representation="both", random_state=0)
    channels = make_kitchen_trajectories(3, representation="channels", random_state=0)
    cells = make_kitchen_trajectories(3, representation="cells", random_state=0)
    for x, a, b in zip(both.data, channels.data, cells.data, strict=True):
        assert_array_equal(x, np.hstack([a, b]))
        assert x.dtype == np.float64
    assert both.feature_names == channels.feature_names + cells.feature_names
    assert len(both.feature_names) == 62
    assert [len(names) for names in both.target_names] == [3, 12]
    assert both.hierarchy["have_snack"][0] == "door>cupboard" and len(both.hierarchy["have_snack"]) == 7


def test_return_X_y_gives_the_pair():
    X, y = make_kitchen_trajectories(3, return_X_y=True, random_state=0)
    kitchen = make_kitchen_trajectories(3, random_state=0)
    for a, b in zip(X + y, kitchen.data + kitchen.target, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_sequences": 0}, "n_sequences"),
        ({"n_activities": (2, 1)}, "n_activities must be a pair"),
        ({"n_activities": 3}, "n_activities must be a pair of int with 1 <= low <= high, but is 3"),
        ({"n_activities": (1, 2, 3)}, "n_activities must be a pair"),
        ({"representation": "pixels"}, "representation must be one of"),
        ({"noise": -1}, "noise must be"),
        ({"hide_labels": (0.5, 2)}, r"hide_labels\[1\] must be a share"),
        ({"hide_ends": 0.5}, "hide_ends must be a pair"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_kitchen_trajectories(**options)


def test_a_bool_is_no_number_of_tracks():
    with pytest.raises(TypeError, match="n_sequences must be an int, but is True"):
        make_kitchen_trajectories(True)
