import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_seqlab.datasets import make_smart_home
from sklearn_seqlab.datasets._smart_home import BASE

LABELS = ["idle", "sleep", "toilet", "shower", "breakfast", "dinner", "relax", "study", "leave"]


@pytest.fixture(scope="module")
def home():
    return make_smart_home(random_state=0)


@pytest.fixture(scope="module")
def long_home():
    return make_smart_home(400, random_state=9)


@pytest.fixture(scope="module")
def long_label(long_home):
    return np.searchsorted(np.sort(LABELS), np.concatenate(long_home.target).astype(str))


def share(long_label, name):
    return long_label == sorted(LABELS).index(name)


def test_exact_labels_and_segments(home):
    y = np.concatenate(home.target)
    counts = [1055, 14288, 1154, 589, 2004, 3863, 6099, 4019, 7249]
    assert [int((y == name).sum()) for name in LABELS] == counts
    assert len(home.segments_) == 808
    first = [(LABELS[s["label"]], int(s["stop"])) for s in home.segments_[:4]]
    assert first == [("sleep", 164), ("toilet", 170), ("sleep", 314), ("idle", 318)]


def test_exact_sensors_and_events(home):
    X = np.concatenate(home.data)
    assert X.dtype == np.float64 and set(np.unique(X)) == {0.0, 1.0}
    counts = [1171, 1458, 4201, 6639, 478, 768, 1497, 462, 13235, 7173, 5149, 691, 675, 729, 725, 222, 225]
    counts += [1719, 1719, 1736, 459, 464, 780, 788, 797, 832]
    assert_array_equal(X.sum(axis=0), counts)
    assert len(home.events_) == 3297
    support = [(173, 71), (347, 36), (76, 9), (415, 55), (100, 52), (213, 85)]
    assert [rule["support"][:2] for rule in home.rules] == support


def test_support_counts_minutes_with_a_true_body(home):
    X, y = np.concatenate(home.data) > 0, np.concatenate(home.target)
    column = {name: j for j, name in enumerate(home.feature_names)}
    for rule in home.rules:
        body = np.zeros(len(X), dtype=bool)
        for t in range(len(X)):
            if rule["lag"] is None:
                body[t] = all(X[t, column[name]] for name in rule["sensors"])
            else:
                lo, hi = rule["lag"]
                first, second = (column[name] for name in rule["sensors"])
                body[t] = X[t, second] and X[max(t - hi, 0) : max(t - lo + 1, 0), first].any()
        inside, rival = (y == rule["label"]), (y == rule["rival"])
        counts = (body & inside).sum(), (body & rival).sum(), (body & ~inside & ~rival).sum()
        assert rule["support"] == counts


def test_label_shares(long_label):
    expected = [3.1, 33.9, 2.7, 1.4, 6.0, 9.4, 12.7, 12.1, 18.7]
    shares = [100 * share(long_label, name).mean() for name in LABELS]
    assert_allclose(shares, expected, atol=0.0501)


def test_segments_per_day(long_home):
    counts = np.bincount(long_home.segments_["label"]) / 400
    assert_allclose(counts, [5.00, 3.04, 4.89, 1.80, 2.55, 3.42, 3.33, 3.15, 2.22], atol=0.00501)


def test_segment_lengths(long_home):
    segments = long_home.segments_[:-1]  # the last one is cut at midnight
    duration = segments["stop"] - segments["start"]
    expected = [(8.97, 6.15), (160.8, 43.6), (8.06, 2.52), (10.98, 3.56), (33.9, 7.97), (39.4, 9.58)]
    expected += [(55.0, 19.2), (55.4, 20.3), (120.9, 66.1)]
    for label, (mean, sd) in enumerate(expected):
        mine = duration[segments["label"] == label]
        assert_allclose((mine.mean(), mine.std()), (mean, sd), rtol=2.7e-3)


def test_firing_rates(long_home):
    rates = 100 * np.mean([x.mean(axis=0) for x in long_home.data], axis=0)
    expected = [2.93, 3.50, 10.63, 16.25, 1.17, 1.90, 3.29, 1.08, 31.41, 17.62, 12.62, 1.80, 1.81, 1.80, 1.80]
    expected += [0.58, 0.59, 4.36, 4.36, 4.35, 1.23, 1.24, 1.88, 1.88, 1.99, 1.99]
    assert_allclose(rates, expected, atol=0.00501)


def test_a_rule_of_three_shows_only_in_the_triple(long_home, long_label):
    names = long_home.feature_names
    columns = [names.index(name) for name in ("lamp", "remote", "radio")]
    on = np.concatenate([x[:, columns] for x in long_home.data]) > 0
    relax, study = share(long_label, "relax"), share(long_label, "study")
    for j in range(3):
        assert_allclose([on[relax, j].mean(), on[study, j].mean()], [0.169, 0.170], atol=0.0015)
        pair = on[:, j] & on[:, (j + 1) % 3]
        assert_allclose([pair[relax].mean(), pair[study].mean()], [0.084, 0.084], atol=0.0015)
    triple = on.all(axis=1)
    assert_allclose([triple[relax].mean(), triple[study].mean()], [0.0666, 0.0177], atol=6e-5)


def test_joint_share_of_events(long_home):
    events = long_home.events_
    for k, rule in enumerate(long_home.rules):
        mine = events[events["rule"] == k]
        under = mine["label"] == LABELS.index(rule["label"])
        assert 0.785 <= mine["joint"][under].mean() <= 0.815
        assert 0.195 <= mine["joint"][~under].mean() <= 0.215
        assert (mine["label"][~under] == LABELS.index(rule["rival"])).all()


def test_habits_by_hour(long_label):
    hours = long_label.reshape(400, 24, 60)
    for hour, name, percent in ((3, "sleep", 94), (8, "breakfast", 29), (13, "leave", 37), (19, "relax", 27)):
        assert abs(100 * share(hours[:, hour], name).mean() - percent) <= 0.5


def test_no_forbidden_pair_of_activities(long_home):
    label = long_home.segments_["label"]
    assert (BASE[label[:-1], label[1:]] > 0).all()


def test_first_days_do_not_depend_on_their_number():
    options = dict(label_noise=0.2, boundary_jitter=20, missing=0.1, random_state=3)
    few, more = make_smart_home(3, **options), make_smart_home(5, **options)
    for name in ("data", "target", "target_clean", "target_sub", "rooms"):
        for a, b in zip(few[name], more[name][:3], strict=True):
            assert_array_equal(a, b)
    assert_array_equal(few.events_, more.events_[more.events_["step"] < 3 * 1440])


def test_streams_do_not_touch_each_other():
    plain = make_smart_home(4, random_state=1)
    spoilt = make_smart_home(4, label_noise=0.3, boundary_jitter=5, missing=0.2, random_state=1)
    noisy = make_smart_home(4, noise=0.5, random_state=1)
    wide = make_smart_home(4, 30, random_state=1)
    bare = make_smart_home(4, rules=(), random_state=1)
    for day in range(4):
        assert_array_equal(plain.data[day], spoilt.data[day])
        assert_array_equal(plain.target[day], spoilt.target_clean[day])
        assert_array_equal(plain.target[day], noisy.target[day])
        assert_array_equal(plain.data[day][:, :24], wide.data[day][:, :24])
        assert_array_equal(plain.target[day], bare.target[day])
        assert (bare.data[day] <= plain.data[day]).all()
    assert not np.array_equal(plain.data[0], noisy.data[0])
    assert wide.feature_names[24:] == [f"distractor_{i}" for i in range(6)]
    assert len(bare.events_) == 0 and bare.rules == []


def test_rooms_and_sub_activities_follow_the_label(home):
    y, sub = np.concatenate(home.target), np.concatenate(home.target_sub)
    rooms = np.concatenate(home.rooms)
    assert set(sub[y == "breakfast"]) == {"prepare", "eat", "tidy"}
    assert set(rooms[y == "dinner"]) == {"kitchen"}
    assert set(rooms[y == "leave"]) == {"outside"}
    assert set(rooms[y == "idle"]) >= {"kitchen", "living"}


def test_motion_reports_the_room():
    home = make_smart_home(6, rules=(), random_state=5)
    X, y, rooms = np.concatenate(home.data), np.concatenate(home.target), np.concatenate(home.rooms)
    kitchen = home.feature_names.index("motion_kitchen")
    assert_allclose(X[rooms == "kitchen", kitchen].mean(), 0.6, atol=0.04)
    assert_allclose(X[rooms != "kitchen", kitchen].mean(), 0.01, atol=0.005)
    assert_allclose(X[y == "sleep", home.feature_names.index("bed")].mean(), 0.92, atol=0.01)


def test_label_noise_changes_whole_activities():
    home = make_smart_home(60, label_noise=0.25, random_state=2)
    given, clean = np.concatenate(home.target), np.concatenate(home.target_clean)
    starts = home.segments_["start"]
    wrong = given[starts] != clean[starts]
    assert abs(wrong.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / len(wrong))
    for start, stop in zip(starts, home.segments_["stop"], strict=True):
        assert len(set(given[start:stop])) == 1


def test_boundary_jitter_moves_starts_and_loses_no_activity():
    home = make_smart_home(30, boundary_jitter=4, random_state=2)
    given, clean = np.concatenate(home.target), np.concatenate(home.target_clean)
    runs = np.flatnonzero(given[1:] != given[:-1]) + 1
    true = home.segments_["start"][1:]
    assert len(runs) == len(true)
    moved = runs - true
    assert np.abs(moved).max() == 4 and set(moved) == set(range(-4, 5))
    assert_array_equal(given[runs], clean[true])


def test_boundary_jitter_of_an_hour_keeps_order():
    home = make_smart_home(30, boundary_jitter=60, random_state=2)
    given = np.concatenate(home.target)
    runs = np.concatenate([[0], np.flatnonzero(given[1:] != given[:-1]) + 1])
    label = home.segments_["label"]
    assert [LABELS.index(name) for name in given[runs]] == label[: len(runs)].tolist()
    assert len(label) - len(runs) <= 1  # the start of the last one may have left the stream


def test_missing_labels():
    home = make_smart_home(60, missing=0.3, random_state=2)
    given = np.concatenate(home.target)[home.segments_["start"]]
    hidden = np.array([label is None for label in given])
    assert abs(hidden.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / len(hidden))
    idle = make_smart_home(2, idle="missing", random_state=0)
    plain = make_smart_home(2, random_state=0)
    for a, b in zip(idle.target, plain.target, strict=True):
        assert_array_equal(a == None, b == "idle")  # noqa: E711
    assert "idle" not in idle.target_names and "idle" in plain.target_names
    assert_array_equal(idle.target_clean[0], plain.target[0])


def test_homes_differ_but_the_first_is_the_same():
    one, two = make_smart_home(3, random_state=0), make_smart_home(3, n_homes=2, random_state=0)
    assert_array_equal(two.home, [0, 0, 0, 1, 1, 1])
    for day in range(3):
        assert_array_equal(one.data[day], two.data[day])
    assert not np.array_equal(two.target[0], two.target[3])
    assert set(two.segments_["home"]) == set(two.events_["home"]) == {0, 1}
    assert sum(map(len, two.target)) == 6 * 1440


def test_own_rules_by_name_and_number():
    by_name = make_smart_home(3, rules=[("relax", ("lamp", "distractor_0"), None, "study")], random_state=0)
    by_number = make_smart_home(3, rules=[(6, (17, 24), None, 7)], random_state=0)
    assert by_name.rules == by_number.rules
    assert_array_equal(by_name.data, by_number.data)
    assert by_name.rules[0]["support"][0] > 3 * by_name.rules[0]["support"][1]


def test_return_X_y_gives_the_pair(home):
    X, y = make_smart_home(return_X_y=True, random_state=0)
    assert_array_equal(X, home.data)
    assert_array_equal(y, home.target)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_days": 0}, "n_days"),
        ({"n_sensors": 23}, "n_sensors"),
        ({"boundary_jitter": 61}, "boundary_jitter"),
        ({"noise": 1.5}, "noise must be a share"),
        ({"idle": "none"}, "idle must be"),
        ({"rules": [("relax", ("lamp",), None, "study")]}, r"rules\[0\] needs two or three"),
        ({"rules": [("relax", ("lamp", "tv", "pan"), (1, 2), "study")]}, r"rules\[0\] needs exactly two"),
        ({"rules": [("relax", ("lamp", "tv"), (0, 2), "study")]}, "needs a lag"),
        ({"rules": [("relax", ("lamp", "tv"), None, "relax")]}, "needs a rival other"),
        ({"rules": [("relax", ("lamp", "sofa"), None, "study")]}, r"rules\[0\] sensor must be one of"),
        ({"rules": 5}, "rules must be 'default' or a list of rules, but is 5"),
        ({"rules": "none"}, "rules must be 'default' or a list of rules, but is 'none'"),
        ({"rules": [5]}, r"rules\[0\] must be \(label, sensors, lag, rival\), but is 5"),
        ({"rules": [("relax", 3, None, "study")]}, r"rules\[0\] needs a tuple of sensors, but has 3"),
        ({"rules": [("relax", ("lamp", "tv"), 5, "study")]}, r"rules\[0\] needs a lag .* but has 5"),
        ({"rules": ["relax"]}, r"rules\[0\] must be \(label, sensors, lag, rival\)"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_smart_home(**options)


@pytest.mark.parametrize("name", ["n_days", "n_sensors", "n_homes", "boundary_jitter"])
def test_a_bool_is_no_number(name):
    with pytest.raises(TypeError, match=f"{name} must be an int, but is True"):
        make_smart_home(**{name: True})
