import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sklearn_seqlab.preprocessing import EventDiscretizer, label_slices

ORIGIN = np.datetime64("2024-05-01T06:00:00", "ns")


def seconds(values):
    return ORIGIN + np.asarray(values, dtype="timedelta64[s]")


def table(*rows, **columns):
    start, end, sensor = zip(*rows, strict=True)
    return {"start": seconds(start), "end": seconds(end), "sensor": list(sensor), **columns}


SPAN = (seconds(0), seconds(540))  # ten slices of a minute


def encode(rows, encoding, **options):
    discretizer = EventDiscretizer("60s", encoding, **{"span": SPAN, **options})
    (matrix,) = discretizer.fit_transform(table(*rows))
    return matrix


def test_slices_from_floor_to_ceiling_both_included():
    rows = [(0, 0, "a"), (61, 119, "b"), (60, 120, "c"), (60, 121, "d")]
    matrix = encode(rows, "raw")
    assert matrix.shape == (10, 4) and matrix.dtype == np.float64
    covered = [np.flatnonzero(column).tolist() for column in matrix.T]
    assert covered == [[0], [1, 2], [1, 2], [1, 2, 3]]


def test_number_of_slices():
    for end, n in ((0, 1), (1, 2), (60, 2), (61, 3)):
        discretizer = EventDiscretizer().fit(table((0, end, "a")))
        assert len(discretizer.slices_[0]) == n


def test_change_marks_starts_and_stops():
    assert_array_equal(encode([(70, 250, "a")], "change")[:, 0], [0, 1, 0, 0, 0, 1, 0, 0, 0, 0])


def test_last_keeps_a_cell_until_the_slice_of_the_next():
    rows = [(60, 60, "a"), (190, 235, "b")]
    matrix = encode(rows, "last")
    assert_array_equal(matrix[:, 0], [0, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    assert_array_equal(matrix[:, 1], [0, 0, 0, 1, 1, 1, 1, 1, 1, 1])


def test_last_within_a_slice_goes_by_column():
    rows = [(60, 60, "b"), (60, 60, "a"), (240, 240, "a")]
    assert_array_equal(encode(rows, "last")[:, 0], [0, 1, 0, 0, 1, 1, 1, 1, 1, 1])
    assert_array_equal(encode(rows, "last")[:, 1], [0, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    turned = encode(rows, "last", sensors=["b", "a"])
    assert_array_equal(turned[:, 0], [0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    assert_array_equal(turned[:, 1], [0, 1, 1, 1, 1, 1, 1, 1, 1, 1])


def test_last_slice_keeps_all_sensors_of_a_slice():
    rows = [(60, 60, "b"), (60, 60, "a"), (240, 240, "a")]
    assert_array_equal(encode(rows, "last-slice").T, [[0] + [1] * 9, [0, 1, 1, 1, 0, 0, 0, 0, 0, 0]])


@given(
    st.lists(st.tuples(st.integers(-100, 650), st.integers(0, 300), st.sampled_from("abc")), min_size=1),
)
def test_encodings_follow_their_definitions(drawn):
    rows = [(start, start + length, sensor) for start, length, sensor in drawn]
    raw, change, last = np.zeros((10, 3)), np.zeros((10, 3)), np.zeros((10, 3))
    for start, end, sensor in rows:
        first, final = start // 60, -(-end // 60)
        if end < 0:
            continue
        for t in range(10):
            raw[t, "abc".index(sensor)] += first <= t <= final
            change[t, "abc".index(sensor)] += t in (first, final)
    raw, change = np.minimum(raw, 1), np.minimum(change, 1)
    cells = [(t, j) for t in range(10) for j in range(3) if change[t, j]]
    for (t, j), (after, _) in zip(cells, [*cells[1:], (9, 0)], strict=False):
        last[t : after + 1, j] = 1
    last_slice = np.array([change[max([s for s, _ in cells if s <= t], default=t)] for t in range(10)])
    matrix = encode(rows, ("raw", "change", "last", "last-slice"), sensors=list("abc"))
    assert_array_equal(matrix, np.hstack([raw, change, last, last_slice]))


def test_firings_are_cut_at_the_span():
    rows = [(-90, 30, "a"), (500, 900, "a"), (-90, -30, "b"), (700, 720, "b")]
    assert_array_equal(encode(rows, "raw")[:, 0], [1, 1, 0, 0, 0, 0, 0, 0, 1, 1])
    assert not encode(rows, "raw")[:, 1].any()
    # Reaching over an edge is no change there.
    assert_array_equal(encode(rows, "change")[:, 0], [0, 1, 0, 0, 0, 0, 0, 0, 1, 0])


def test_one_column_group_per_encoding_and_its_names():
    rows = [(60, 130, "a"), (200, 260, "b")]
    both = encode(rows, ("last", "raw"))
    assert_array_equal(both, np.hstack([encode(rows, "last"), encode(rows, "raw")]))
    discretizer = EventDiscretizer(encoding=("last", "raw")).fit(table(*rows))
    assert discretizer.get_feature_names_out().tolist() == ["last__a", "last__b", "raw__a", "raw__b"]
    assert EventDiscretizer().fit(table(*rows)).get_feature_names_out().tolist() == ["a", "b"]


def test_several_tables_share_the_sensors():
    tables = [table((0, 60, "b")), table((3600, 3720, "a"))]
    discretizer = EventDiscretizer()
    first, second = discretizer.fit_transform(tables)
    assert discretizer.sensors_ == ["a", "b"]
    assert first.shape == (2, 2) and second.shape == (3, 2)
    assert_array_equal(discretizer.slices_[1], seconds([3600, 3660, 3720]))
    assert [len(stamps) for stamps in discretizer.get_slices(tables)] == [2, 3]


def test_unseen_sensors_are_left_out():
    discretizer = EventDiscretizer().fit(table((0, 60, "a")))
    (matrix,) = discretizer.transform(table((0, 0, "z"), (60, 120, "a")))
    assert_array_equal(matrix, [[0], [1], [1]])
    (matrix,) = discretizer.transform(table((0, 60, "z")))
    assert_array_equal(matrix, [[0], [0]])


def test_values():
    rows = [(0, 60, "a"), (60, 120, "a"), (180, 180, "a"), (240, 240, "a")]
    options = {"value": [2.0, 3.0, 0.0, -1.5]}
    discretizer = EventDiscretizer(span=SPAN, encoding=("raw", "change"))
    (matrix,) = discretizer.fit_transform(table(*rows, **options))
    assert_array_equal(matrix[:5, 0], [2, 3, 3, 0, -1.5])
    assert_array_equal(matrix[:5, 1], [1, 1, 1, 0, 1])


def test_sensors_may_be_numbers():
    discretizer = EventDiscretizer().fit(table((0, 0, 24), (0, 0, 5)))
    assert discretizer.get_feature_names_out().tolist() == ["5", "24"]


@pytest.mark.parametrize(
    "length",
    ["60s", "1min", "60000ms", 60, 60.0, dt.timedelta(minutes=1), np.timedelta64(1, "m"), " 1 MIN "],
)
def test_ways_to_say_a_minute(length):
    discretizer = EventDiscretizer(length).fit(table((0, 120, "a")))
    assert_array_equal(discretizer.slices_[0], seconds([0, 60, 120]))


@pytest.mark.parametrize(
    "length",
    [
        *("0s", "-5s", "minute", 0, -1, np.nan, None, True, 1e30, 10**400, np.inf, "99999999999d"),
        *(np.timedelta64(10**12, "D"), np.timedelta64("NaT", "s"), dt.timedelta.max, "9" * 400 + "s"),
    ],
)
def test_bad_slice_lengths(length):
    with pytest.raises(ValueError, match="slice_length must be positive"):
        EventDiscretizer(length).fit(table((0, 120, "a")))


def test_times_as_datetimes_text_structured_array_and_frame():
    start = [dt.datetime(2024, 5, 1, 6, 0), dt.datetime(2024, 5, 1, 6, 2)]
    end = [moment + dt.timedelta(seconds=30) for moment in start]
    expected = EventDiscretizer().fit_transform({"start": start, "end": end, "sensor": ["a", "b"]})[0]
    assert_array_equal(expected, [[1, 0], [1, 0], [0, 1], [0, 1]])
    text = {
        name: [moment.isoformat() for moment in times] for name, times in (("start", start), ("end", end))
    }
    assert_array_equal(EventDiscretizer().fit_transform({**text, "sensor": ["a", "b"]})[0], expected)
    records = np.array(
        list(zip(start, end, "ab", strict=True)),
        dtype=[("start", "M8[s]"), ("end", "M8[s]"), ("sensor", "U1")],
    )
    assert_array_equal(EventDiscretizer().fit_transform(records)[0], expected)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"start": start, "end": end, "sensor": ["a", "b"]}, index=[7, 9])
    assert_array_equal(EventDiscretizer().fit_transform(frame)[0], expected)
    assert_array_equal(EventDiscretizer().fit_transform([frame, frame])[1], expected)


def test_more_slices_than_anyone_wants():
    rows = [(0, 60, "a"), (-120, 0, "b"), (60, 120, "a")]
    typo = table(*rows, value=[0.0, 1.0, 1.0])
    typo["end"] = np.where(np.arange(3) == 2, np.datetime64("2120-01-01", "ns"), typo["end"])
    wish = (
        r"X\[0\] needs 50,\d{3},\d{3} slices of '60s' from the start of row 1 \(2024-05-01T05:58.*\) "
        r"to the end of row 2 \(2120-01-01"
    )
    with pytest.raises(ValueError, match=wish):
        EventDiscretizer().fit([typo])
    with pytest.raises(ValueError, match=r"slices of '1ms' from the start of span .* to its end"):
        EventDiscretizer("1ms", span=("2024-01-01", "2025-01-01")).fit(table((0, 60, "a")))


def test_rows_far_beyond_the_span():
    rows = {"start": ["1678-01-01", "2024-05-01"], "end": ["2262-01-01", "2024-05-01"], "sensor": ["a", "b"]}
    discretizer = EventDiscretizer("1d", ("raw", "change"), span=("2024-04-30", "2024-05-02"))
    (matrix,) = discretizer.fit_transform(rows)
    assert_array_equal(matrix.T, [[1, 1, 1], [0, 1, 0], [0, 0, 0], [0, 1, 0]])


def test_dates_alone_and_bytes_are_times():
    rows = {"start": ["2024-05-01", "2024-05"], "end": [b"2024-05-01 01:00", b"2024-05-01"]}
    rows["sensor"] = ["a", "b"]
    (matrix,) = EventDiscretizer("1h").fit_transform(rows)
    assert_array_equal(matrix, [[1, 1], [1, 0]])


def test_two_columns_of_one_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table((0, 60, "a")))
    double = pd.concat([frame, frame[["sensor"]]], axis=1)
    with pytest.raises(ValueError, match=r"X column 'sensor' must be one column, but has shape \(1, 2\)"):
        EventDiscretizer().fit(double)


def test_row_that_ends_before_it_starts():
    with pytest.raises(ValueError, match=r"X row 1 ends before it starts: start 2024-05-01T06:02"):
        EventDiscretizer().fit(table((0, 60, "a"), (120, 60, "a")))
    with pytest.raises(ValueError, match=r"X\[1\] row 0 ends before it starts"):
        EventDiscretizer().fit([table((0, 60, "a")), table((120, 60, "a"))])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": None}, r"X must be a table with a column 'start'"),
        ({"end": [1, 2]}, r"X column 'end' must hold dates with times, but holds int64"),
        ({"end": ["now", "later"]}, r"X column 'end' must hold dates with times: "),
        ({"start": np.array(["NaT", "2024-05-01"], dtype="M8[s]")}, r"X column 'start' has no time in row 0"),
        ({"sensor": ["a"]}, r"X has 2 starts, 2 ends and 1 sensors"),
        ({"value": [1.0]}, r"X has 2 starts, but 1 values"),
        ({"value": [1.0, np.inf]}, r"X row 1 has the value inf"),
        ({"value": ["on", "off"]}, r"X has values that are no numbers"),
        ({"start": [dt.datetime(2024, 5, 1, tzinfo=dt.UTC)] * 2}, r"X column 'start' has a time zone"),
        (
            {"end": ["2024-05-01T08:00", "2024-05-01T08:00Z"]},
            r"X column 'end' has a time zone in row 1 \('2024-05-01T08:00Z'\); .* local wall-clock time",
        ),
        ({"end": ["2024-05-01 08:00:00+02:00", "2024-05-01"]}, "time zone in row 0"),
        ({"end": [b"2024-05-01T08:00-0200", b"2024-05-01"]}, "time zone in row 0"),
        ({"end": np.array([1, 2], dtype=object)}, r"X column 'end' must hold dates .* row 0 is 1"),
        (
            {"end": ["2024-05-02", "3000-01-01"]},
            r"X column 'end' must lie in .*1678 to 2262, but row 1 is 3000",
        ),
        ({"start": np.array(["2024-05-01", "1500-01-01"], "M8[D]")}, "but row 1 is 1500-01-01"),
        ({"end": [dt.datetime(2400, 1, 1)] * 2}, "but row 0 is 2400-01-01"),
        ({"end": [["2024-05-02"], ["2024-05-02"]]}, r"X column 'end' must be one-dimensional.*\(2, 1\)"),
        ({"end": [dt.datetime(2024, 5, 2), None]}, r"X column 'end' has no time in row 1"),
        ({"end": np.array(["2024-05-02", np.nan], dtype=object)}, r"X column 'end' has no time in row 1"),
        ({"sensor": "ab"}, r"X column 'sensor' must be a list or an array, but is 'ab'"),
        ({"sensor": 5}, r"X column 'sensor' must be a list or an array, but is 5"),
        ({"sensor": ["a", None]}, r"X row 1 must name a sensor, but has None"),
        ({"sensor": ["a", np.nan]}, r"X row 1 must name a sensor, but has nan"),
        ({"sensor": ["a", ["b"]]}, r"X row 1 must name a sensor, but has \['b'\]"),
    ],
)
def test_bad_tables(change, message):
    bad = {**table((0, 60, "a"), (60, 60, "b")), **change}
    bad = {name: column for name, column in bad.items() if column is not None}
    with pytest.raises(ValueError, match=message):
        EventDiscretizer().fit(bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "first"}, "encoding must be one of"),
        ({"encoding": ()}, "encoding must be one of"),
        ({"encoding": ("raw", "first")}, "encoding must be one of"),
        ({"sensors": ["a", "a"]}, "sensors must differ"),
        ({"encoding": 5}, "encoding must be one of .* but is 5"),
        ({"encoding": (["raw"],)}, "encoding must be one of"),
        ({"encoding": ("raw", "raw")}, "encoding must name each encoding once"),
        ({"sensors": [[1]]}, r"sensors\[0\] must be a name or a number, but is \[1\]"),
        ({"sensors": ["a", None]}, r"sensors\[1\] must be a name or a number, but is None"),
        ({"sensors": "s"}, "sensors must be a list of sensors or None, but is 's'"),
        ({"span": "2020"}, r"span must be a pair \(start, end\) or None, but is '2020'"),
        ({"span": (*SPAN, SPAN[1])}, r"span must be a pair \(start, end\)"),
        ({"span": 5}, r"span must be a pair \(start, end\)"),
        ({"slice_length": "30000d", "span": ("2200-01-01", "2261-12-31")}, "leave the years 1678 to 2262"),
        ({"sensors": []}, "no firing to learn sensors from"),
        ({"span": SPAN[::-1]}, "span must end after it starts"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        EventDiscretizer(**options).fit(table((0, 60, "a")))


def test_empty_tables():
    empty = {"start": [], "end": [], "sensor": []}
    with pytest.raises(ValueError, match="no firing to tell the recording's span from"):
        EventDiscretizer(sensors=["a"]).fit(empty)
    (matrix,) = EventDiscretizer(sensors=["a"], span=SPAN).fit_transform(empty)
    assert_array_equal(matrix, np.zeros((10, 1)))
    with pytest.raises(ValueError, match="X must hold at least one table"):
        EventDiscretizer().fit([])


def test_sensors_of_two_kinds():
    with pytest.raises(TypeError, match="values of one kind"):
        EventDiscretizer().fit(table((0, 0, "a"), (0, 0, 1)))


def test_failed_fit_leaves_no_trace_and_clone_keeps_parameters():
    discretizer = EventDiscretizer(encoding=("raw", "last"), span=SPAN)
    with pytest.raises(ValueError, match="ends before"):
        discretizer.fit(table((60, 0, "a")))
    assert not hasattr(discretizer, "sensors_")
    assert clone(discretizer).get_params() == discretizer.get_params()


def activities(*rows):
    start, end, label = zip(*rows, strict=True)
    return {"start": seconds(start), "end": seconds(end), "label": list(label)}


SLICES = seconds(60 * np.arange(6))


def test_later_activities_overwrite_earlier_ones():
    rows = [(30, 200, "sleep"), (60, 100, "toilet"), (-50, 0, "out"), (320, 900, "eat"), (-90, -10, "lost")]
    y = label_slices(activities(*rows), SLICES)
    assert y.dtype == object
    assert y.tolist() == ["out", "toilet", "toilet", "sleep", "sleep", "eat"]


def test_idle_as_class_or_missing():
    table = activities((60, 60, "eat"))
    assert label_slices(table, SLICES[:3]).tolist() == ["idle", "eat", "idle"]
    assert label_slices(table, SLICES[:3], idle=None).tolist() == [None, "eat", None]
    assert label_slices(table, SLICES[:3], idle="none").tolist() == ["none", "eat", "none"]


def test_slices_must_be_regular():
    with pytest.raises(ValueError, match="each 60s after the one before"):
        label_slices(activities((0, 0, "eat")), SLICES[::2])
    with pytest.raises(ValueError, match="each 60s after the one before"):
        label_slices(activities((0, 0, "eat")), SLICES[:0])
    assert len(label_slices(activities((0, 0, "eat")), SLICES[::2], slice_length="2min")) == 3


@pytest.mark.parametrize("slices", [SLICES[None], SLICES[0], SLICES[:, None]])
def test_slices_must_be_one_dimensional(slices):
    with pytest.raises(ValueError, match="slices must be one-dimensional, but has shape"):
        label_slices(activities((0, 0, "eat")), slices)


def test_bad_idle_and_times_of_activities():
    with pytest.raises(ValueError, match=r"idle must be a label .* but is \['idle'\]"):
        label_slices(activities((0, 0, "eat")), SLICES, idle=["idle"])
    far = {"start": ["3000-01-01"], "end": ["3000-01-02"], "label": ["eat"]}
    with pytest.raises(ValueError, match=r"table column 'start' must lie in .* but row 0 is 3000-01-01"):
        label_slices(far, SLICES)


def test_activity_that_ends_before_it_starts():
    with pytest.raises(ValueError, match="table row 0 ends before it starts"):
        label_slices(activities((60, 0, "eat")), SLICES)
