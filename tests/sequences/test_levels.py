"""Labels of several levels: what is read from every form, and what of the ends follows from it."""

from functools import cache
from itertools import chain, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sklearn_seqlab.sequences import (
    CANDIDATES,
    MISSING,
    UNSEEN,
    cut_rows,
    encode_levels,
    segments_of,
)

X_OF_4 = np.array([0, 4])


# ---- the definition: all configurations of a tiny model -------------------------------------------------------


@cache
def configurations(n_timesteps, n_levels, n_labels, root, segment_bottom):
    """Every valid (x, e), each of shape (n_configurations, n_levels, n_timesteps), by the rules of the model.

    All levels end at the last step; an end of a level is one of all deeper ones; the root ends nowhere else;
    a bottom of single steps ends everywhere; and a label changes only where a segment ends.
    """
    found = []
    columns = [tuple(int(d >= k) for d in range(n_levels)) for k in range(n_levels + 1)]
    for inner in product(columns, repeat=n_timesteps - 1):
        e = np.array([*inner, (1,) * n_levels]).T
        if root and e[0, :-1].any():
            continue
        if not segment_bottom and not e[-1].all():
            continue
        for x in product(range(n_labels), repeat=n_levels * n_timesteps):
            x = np.reshape(x, (n_levels, n_timesteps))
            if not ((e[:, :-1] == 0) & (x[:, 1:] != x[:, :-1])).any():
                found.append((x, e))
    return np.array([x for x, _ in found]), np.array([e for _, e in found])


def has_self_transition(x, e, segment_bottom):
    """Whether neighbours share a label under one parent; bool (n_configurations, n_levels)."""
    parent = np.concatenate([np.zeros_like(e[:, :1, :-1]), e[:, :-1, :-1]], axis=1)
    repeats = (e[:, :, :-1] == 1) & (parent == 0) & (x[:, :, 1:] == x[:, :, :-1])
    if not segment_bottom:
        repeats[:, -1] = False  # a bottom of single steps is a chain: nothing is repeated
    return repeats.any(axis=2)


def agreeing(allowed, ends, n_labels, root, segment_bottom, may_repeat):
    """The configurations that fit what is known.

    ``allowed[d][t]`` is a set of labels, ``ends`` (n_levels, n_timesteps) in {1, 0, -1}.
    """
    n_levels, n_timesteps = ends.shape
    x, e = configurations(n_timesteps, n_levels, n_labels, root, segment_bottom)
    fits = np.ones(len(x), dtype=bool)
    for d, t in product(range(n_levels), range(n_timesteps)):
        fits &= np.isin(x[:, d, t], list(allowed[d][t]))
        if segment_bottom or d < n_levels - 1:
            fits &= (ends[d, t] < 0) | (e[:, d, t] == ends[d, t])
        elif ends[d, t] == 0:  # read as one of several single steps within a longer segment
            follows = x[:, d, t + 1] == x[:, d, t] if t < n_timesteps - 1 else False
            fits &= (e[:, :-1, t] == 0).all(axis=1) & follows
    if not may_repeat:
        fits &= ~has_self_transition(x, e, segment_bottom).any(axis=1)
    return x[fits], e[fits]


SIZES = [(4, 1, 3), (4, 2, 2), (3, 2, 3), (3, 3, 2)]


@st.composite
def observations(draw, sets=True):
    """A size, a model, and labels and ends of which any part is missing; not always free of contradictions."""
    n_timesteps, n_levels, n_labels = draw(st.sampled_from(SIZES))
    root = draw(st.booleans()) if n_levels > 1 else False
    segment_bottom = draw(st.booleans())
    x, e = configurations(n_timesteps, n_levels, n_labels, root, segment_bottom)
    k = draw(st.integers(0, len(x) - 1))
    everything = frozenset(range(n_labels))
    allowed = [[everything] * n_timesteps for _ in range(n_levels)]
    ends = np.full((n_levels, n_timesteps), -1)
    for d, t in product(range(n_levels), range(n_timesteps)):
        kind = draw(st.sampled_from(["known", "known", "missing", "any", "set"] if sets else ["known"]))
        if kind == "known":
            allowed[d][t] = frozenset([int(x[k, d, t])])
        elif kind == "any":
            allowed[d][t] = frozenset([draw(st.integers(0, n_labels - 1))])
        elif kind == "set":
            allowed[d][t] = frozenset([int(x[k, d, t]), draw(st.integers(0, n_labels - 1))])
        if draw(st.booleans()):
            ends[d, t] = e[k, d, t] if draw(st.integers(0, 4)) else draw(st.integers(0, 1))
    return n_labels, root, segment_bottom, allowed, ends


def as_pair(allowed, ends, n_labels):
    """What the observations look like as (labels, ends)."""
    labels = np.empty(ends.shape[::-1], dtype=object)
    for (d, t), _ in np.ndenumerate(ends):
        found = allowed[d][t]
        labels[t, d] = None if len(found) == n_labels else next(iter(found)) if len(found) == 1 else found
    return labels, np.where(ends < 0, np.nan, ends).T


def encode(observed, self_transitions):
    n_labels, root, segment_bottom, allowed, ends = observed
    return encode_levels(
        [as_pair(allowed, ends, n_labels)],
        classes=[np.arange(n_labels)] * len(ends),
        root=root,
        segment_bottom=segment_bottom,
        self_transitions=self_transitions,
    )


@given(observations())
def test_ends_that_are_concluded_hold_in_all_configurations_that_agree(observed):
    n_labels, root, segment_bottom, allowed, ends = observed
    _, possible = agreeing(allowed, ends, n_labels, root, segment_bottom, may_repeat=False)
    assume(len(possible))  # contradictions are the next test's
    found = encode(observed, False).ends
    for (d, t), value in np.ndenumerate(found):
        if value >= 0:
            assert (possible[:, d, t] == value).all()


@given(observations())
def test_a_contradiction_is_refused_exactly_where_no_configuration_agrees(observed):
    """With self transitions, where the rules of the model are all there is."""
    n_labels, root, segment_bottom, allowed, ends = observed
    _, possible = agreeing(allowed, ends, n_labels, root, segment_bottom, may_repeat=True)
    if len(possible):
        found = encode(observed, True)
        for (d, t), value in np.ndenumerate(found.ends):
            if value >= 0:
                assert (possible[:, d, t] == value).all()
    else:
        with pytest.raises(ValueError, match=r"y\[0\], level \d, time step \d"):
            encode(observed, True)


@given(observations(sets=False))
def test_full_labels_give_back_all_ends_where_no_neighbours_share_a_label(observed):
    n_labels, root, segment_bottom, allowed, ends = observed
    nothing = np.full_like(ends, -1)
    found = encode((n_labels, root, segment_bottom, allowed, nothing), "auto")
    x, e = agreeing(allowed, nothing, n_labels, root, segment_bottom, may_repeat=True)
    different = ~has_self_transition(x, e, segment_bottom).any(axis=1)
    assert different.sum() == 1 and found.is_complete().all()
    assert_array_equal(found.ends, e[different][0])
    unsure = encode((n_labels, root, segment_bottom, allowed, nothing), True).ends
    for d, t in product(*map(range, ends.shape)):
        agree = (e[:, d, t] == e[0, d, t]).all()
        assert unsure[d, t] == (e[0, d, t] if agree else -1)  # here everything that follows is concluded


@given(observations())
def test_ends_are_closed_over_levels_and_of_known_kind(observed):
    try:
        ends = encode(observed, "auto").ends
    except ValueError:
        return
    assert ends.dtype == np.int8 and (ends[:, -1] == 1).all()
    assert not ((ends[:-1] == 1) & (ends[1:] != 1)).any()
    assert observed[2] == 0 or not ((ends[1:] == 0) & (ends[:-1] != 0)).any()


# ---- forms ----------------------------------------------------------------------------------------------------


TABLE = [["a", "x"], ["a", "y"], ["b", None], ["b", "x"]]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rows: rows,
        lambda rows: [tuple(row) for row in rows],
        tuple,
        lambda rows: np.array(rows, dtype=object),
        lambda rows: np.array(rows, dtype=object, order="F"),
        pd.DataFrame,
        lambda rows: pd.DataFrame(rows, dtype="string"),
        lambda rows: (rows, None),
        lambda rows: (rows, [[None, np.nan]] * 4),
    ],
)
def test_tables_of_any_container(wrap):
    codes = encode_levels([wrap(TABLE)], segment_bottom=True)
    assert [classes.tolist() for classes in codes.classes] == [["a", "b"], ["x", "y"]]
    assert codes.levels[0].codes.tolist() == [0, 0, 1, 1]
    assert codes.levels[1].codes.tolist() == [0, 1, MISSING, 0]
    assert codes.ends.tolist() == [[0, 1, 0, 1], [1, 1, -1, 1]]
    assert not codes.is_flat


def test_one_dimension_is_one_level():
    for y in (["a", "a", "b", None], ("a", "a", "b", None), np.array(["a", "a", "b", None], dtype=object)):
        codes = encode_levels([y], segment_bottom=True)
        assert codes.is_flat and codes.n_levels == 1
        assert codes.ends.tolist() == [[0, 1, -1, 1]]
    assert not encode_levels([[["a"], ["b"]]]).is_flat
    assert encode_levels([["a"], None, [(0, 0, 2, "a")]], np.array([0, 1, 3, 5])).is_flat
    assert not encode_levels([["a"], [["a"]]]).is_flat


def test_a_tuple_of_two_labels_is_a_sequence_of_two_steps():
    codes = encode_levels([("a", "b"), ({"a", "b"}, "c"), (None, "a")])
    assert codes.levels[0].codes.tolist() == [0, 1, CANDIDATES, 2, MISSING, 0]


def test_pairs_of_labels_and_ends():
    ends = [1, 0, None, True]
    for wrap in (list, lambda v: np.array(v, dtype=object), lambda v: pd.array(v, dtype="Int8"), tuple):
        codes = encode_levels([(["a", "a", "a", "a"], wrap(ends))], segment_bottom=True)
        assert codes.ends.tolist() == [[1, 0, -1, 1]]
        assert codes.explicit_self.tolist() == [True] and codes.self_transitions == (True,)
        assert codes.is_flat
    masked = np.ma.array([1, 0, 5, 1], mask=[0, 0, 1, 0])
    assert encode_levels([(["a"] * 4, masked)], segment_bottom=True).ends.tolist() == [[1, 0, -1, 1]]
    codes = encode_levels([(("a", "a"), (np.True_, 1.0)), ["a"]], segment_bottom=True)
    assert codes.ends.tolist() == [[1, 1, 1]]
    codes = encode_levels([(None, [[0, 0], [1, 1]]), [["a", "b"]]], segment_bottom=True)
    assert codes.ends.tolist() == [[0, 1, 1], [0, 1, 1]]
    assert codes.levels[0].codes.tolist() == [MISSING, MISSING, 0]


def test_segments():
    y = [(1, 1, 2, "y"), (0, 2, 4, "b"), (1, 3, 4, {"x", "y"}), (0, 0, 1, "a"), (1, 2, 3, None)]
    codes = encode_levels([y], X_OF_4, segment_bottom=True)
    assert codes.levels[0].codes.tolist() == [0, MISSING, 1, 1]
    assert codes.levels[1].codes.tolist() == [MISSING, 1, MISSING, CANDIDATES]
    assert codes.ends.tolist() == [[1, 1, 0, 1], [1, 1, 1, 1]]  # what begins ends what was before it
    assert not codes.is_flat
    codes = encode_levels([[(0, 0, 2, "a"), (0, 3, 4, "b")]], X_OF_4, segment_bottom=True)
    assert codes.ends.tolist() == [[0, 1, 1, 1]]
    codes = encode_levels([[(np.int64(0), 0, np.int32(2), "a")]], X_OF_4, classes=[np.array(["a"])] * 2)
    assert codes.n_levels == 2 and codes.levels[1].codes.tolist() == [MISSING] * 4


def test_rows_that_are_lists_are_no_segments():
    rows = [[0, 0, 1, 5], [0, 1, 2, 6]]
    assert encode_levels([rows], np.array([0, 2])).n_levels == 4
    codes = encode_levels([[tuple(row) for row in rows]], np.array([0, 2]))
    assert codes.n_levels == 1 and codes.classes[0].tolist() == [5, 6]
    assert encode_levels([[("0", 0, 1, 5), ("0", 1, 2, 6)]]).n_levels == 4
    assert encode_levels([[(True, 0, 1, 5), (False, 1, 2, 6)]]).n_levels == 4


def test_segments_without_a_level():
    triples, offsets = [(0, 2, "a"), (2, 4, "a")], np.array([0, 4, 8])
    fours = [(0, *segment) for segment in triples]
    codes = encode_levels([triples, fours], offsets, flat_segments=True, segment_bottom=True)
    assert codes.ends.tolist() == [[0, 1, 0, 1] * 2] and codes.is_flat
    table = encode_levels([[(0, 2, 5), (2, 4, 6)]])
    assert table.n_levels == 3


def test_forms_are_mixed_freely():
    offsets = np.array([0, 2, 4, 6, 8])
    y = [[["a", "x"], ["b", "x"]], ([["a", "y"], ["a", "y"]], [[0, 1], [1, 1]]), [(0, 0, 2, "b")], None]
    codes = encode_levels(y, offsets, segment_bottom=True)
    assert codes.ends.tolist() == [[1, 1, 0, 1, 0, 1, -1, 1], [1, 1, 1, 1, -1, 1, -1, 1]]
    assert codes.explicit_self.tolist() == [False, True]
    assert codes.is_complete().tolist() == [True, True, False, False]
    assert codes.is_informative().tolist() == [True, True, True, False]
    taken = codes.take(np.array([2, 0]))
    assert taken.ends.tolist() == [[0, 1, 1, 1], [-1, 1, 1, 1]] and taken.offsets.tolist() == [0, 2, 4]
    assert taken.levels[0].codes.tolist() == [1, 1, 0, 1]
    assert taken.self_transitions == codes.self_transitions == (False, True)


def test_complete_means_all_labels_and_all_ends():
    y = [["a", "b"], ["a", None], (["a", "a"], [1, 1]), ["a", "a"], (["a", {"a", "b"}], [0, 1])]
    codes = encode_levels(y, segment_bottom=True)
    assert codes.is_complete().tolist() == [True, False, True, False, False]
    assert encode_levels(y).is_complete().tolist() == [True, False, True, True, False]


# ---- conclusions ----------------------------------------------------------------------------------------------


def test_an_end_alone_informs_and_what_the_structure_implies_does_not():
    offsets = np.array([0, 2, 4, 6])
    classes = [np.array(["a", "b"])] * 2
    y = [(None, [[None, None], [1, 1]]), (None, [[0, None], [None, None]]), (None, [[None, 1], [None, None]])]

    def informative(**model):
        return encode_levels(y, offsets, classes=classes, **model).is_informative().tolist()

    assert informative(segment_bottom=True) == [False, True, True]
    assert informative(segment_bottom=False) == [False, True, False]
    assert informative(root=True, segment_bottom=True) == [False, False, True]
    assert encode_levels([[{"a", "b"}], [None]], classes=classes[:1]).is_informative().tolist() == [
        True,
        False,
    ]


def test_the_bottom_of_single_steps_ends_everywhere_and_its_denied_ends_speak_for_the_levels_above():
    y = [([["a", "x"], [None, "x"], ["a", "y"]], [[None, 0], [None, 1], [None, 1]])]
    codes = encode_levels(y, self_transitions=True)
    assert codes.ends.tolist() == [[0, -1, 1], [1, 1, 1]]
    assert codes.self_transitions == (True, True) and not codes.explicit_self.any()
    assert encode_levels(y, self_transitions=False).self_transitions == (False, True)


def test_self_transitions_are_decided_per_level_and_may_be_prescribed():
    y = [([["a", "x"]] * 3, [[0, 1], [0, 0], [1, 1]]), [["a", "x"]] * 2]
    auto = encode_levels(y, segment_bottom=True)
    assert auto.self_transitions == (False, True)
    assert auto.ends.tolist() == [[0, 0, 1, 0, 1], [1, 0, 1, -1, 1]]
    told = encode_levels(y, segment_bottom=True, self_transitions=(True, False))
    assert told.self_transitions == (True, False) and told.explicit_self.tolist() == [False, True]
    assert told.ends.tolist() == [[0, 0, 1, -1, 1], [1, 0, 1, -1, 1]]
    # the lower level ends with the upper one: equal labels across it are no self transition
    crossing = encode_levels([([["a", "x"], ["b", "x"]], [[1, 1], [1, 1]])], segment_bottom=True)
    assert not crossing.explicit_self.any() and crossing.self_transitions == (False, False)


def test_sets_of_candidates():
    y = [[{"a", "b"}, {"c"}, {"a", "c"}, {"b", "d"}, "a", {"a", "b"}, "a", None]]
    codes = encode_levels(y, segment_bottom=True)
    assert codes.ends.tolist() == [[1, -1, 1, 1, -1, -1, -1, 1]]


def test_labels_unseen_in_training():
    classes = [np.array(["a", "b"])]
    with pytest.raises(ValueError, match=r"y\[0\]\[0\] is 'z', which is not among"):
        encode_levels([["z"]], classes=classes)
    codes = encode_levels([["z", "z", "a", {"z"}, "a"]], classes=classes, unseen="mark", segment_bottom=True)
    assert codes.levels[0].codes.tolist() == [UNSEEN, UNSEEN, 0, CANDIDATES, 0]
    assert codes.ends.tolist() == [[-1, 1, -1, -1, 1]]
    codes = encode_levels([(["z", "y"], [0, 1])], classes=classes, unseen="mark", segment_bottom=True)
    assert codes.ends.tolist() == [[0, 1]]


def test_nothing_is_written_and_memory_may_be_read_only():
    labels, ends = np.array([["a", "x"], ["b", "x"]]), np.array([[1, 1], [1, 1]], dtype=np.int8)
    labels.flags.writeable = ends.flags.writeable = False
    codes = encode_levels([(labels, ends)])
    codes.ends[:] = 0
    assert ends.all()


# ---- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "options", "error", "message"),
    [
        (None, {}, ValueError, "y is None"),
        ([], {}, ValueError, "y holds no sequences"),
        ([["a"] * 4] * 2, {}, ValueError, "y has 2 label sequences, but X has 1 sequences"),
        ([["a", "b"]], {}, ValueError, r"y\[0\] has 2 labels, but X\[0\] has 4 time steps"),
        ([[]], {}, ValueError, r"y\[0\] has 0 labels; .*None stands for a sequence of which nothing"),
        ([np.empty((4, 0))], {}, ValueError, r"y\[0\] has 0 levels"),
        (["abcd"], {}, TypeError, r"y\[0\] is 'abcd'; expected labels"),
        ([np.zeros((2, 2, 2))], {}, ValueError, r"y\[0\] has 3 dimension\(s\) \(2, 2, 2\)"),
        ([[["a", "b"], ["a"]]], {}, ValueError, r"y\[0\] has rows of \[1, 2\] labels"),
        ([[[1, "b"]] * 3 + [["a", "b"]]], {}, TypeError, r"y mixes int and str .*y\[0\]\[0\].*\(level 0\)"),
        ([[["a", 0.5]] * 4], {}, ValueError, r"y\[0\]\[0\] is 0.5.*\(level 1\)"),
        ([[["a", None]] * 4], {}, ValueError, "y holds no label of level 1: every step"),
        ([[None] * 4], {}, ValueError, "y holds no label at all"),
        ([["a"] * 4], {"root": True}, ValueError, "y has 1 level, but root=True needs one below"),
        ([["a"] * 4], {"n_levels": 2}, ValueError, r"y\[0\] has 1 level\(s\), but 2 level\(s\) are expected"),
        ([["a"] * 4], {"self_transitions": "no"}, ValueError, "self_transitions is 'no'"),
        ([["a"] * 4], {"self_transitions": (True, False)}, ValueError, "one bool per level"),
        (
            [(["a"] * 4, [1, 2, 0, 1])],
            {},
            ValueError,
            r"y\[0\], level 0, time step 1: the end indicator is 2",
        ),
        ([(["a"] * 4, [1, 0.5, 0, 1])], {}, ValueError, "time step 1: the end indicator is 0.5"),
        ([(["a"] * 4, [1, 10**400, 0, 1])], {}, ValueError, "time step 1: the end indicator is 1000"),
        ([(["a"] * 4, np.array([1, 0, 3, 1]))], {}, ValueError, "time step 2: the end indicator is 3"),
        ([(["a"] * 4, ["1", 0, 0, 1])], {}, ValueError, "time step 0: the end indicator is '1'"),
        ([(["a", "b"], ["a", "b"])], {}, ValueError, "a tuple of two array-likes is read as labels and ends"),
        ([(["a"] * 4, [1, 1])], {}, ValueError, r"y\[0\] has 4 labels, but 2 end indicators"),
        ([(["a"] * 4, [[1, 1]] * 4)], {}, ValueError, r"y\[0\] has labels of 1 level\(s\), but ends of 2"),
        ([(["a"] * 4, np.ones((4, 1, 1)))], {}, ValueError, r"ends of 3 dimensions \(4, 1, 1\)"),
        ([(None, [1, 1])], {}, ValueError, r"y\[0\] has 2 end indicators, but X\[0\] has 4"),
        ([(["a"] * 4, [1, 0, 0, 0])], {}, ValueError, r"y\[0\], level 0, time step 3: no segment is said to"),
        (
            [([["a", "b"]] * 4, [[None, None], [1, 0], [None, None], [1, 1]])],
            {},
            ValueError,
            r"y\[0\], level 1, time step 1: no segment is said to end, but one of level 0 does",
        ),
        (
            [(list("aabb"), [0, 0, 0, 1])],
            {},
            ValueError,
            r"y\[0\], level 0, time step 2: the label is 'b', but at time step 1 it is 'a', and no segment",
        ),
        (
            [(["a", None, None, "b"], [0, 0, 0, 1])],
            {},
            ValueError,
            r"time step 3: the label is 'b', but at time step 0 it is 'a'",
        ),
        (
            [(["a", {"a", "c"}, {"c", "b"}, "b"], [1, 0, None, 1])],
            {"classes": [np.array(["a", "b", "c", "d"])]},
            None,
            "",
        ),
        (
            [(["a", {"a", "c"}, {"d", "b"}, "b"], [1, 0, None, 1])],
            {},
            ValueError,
            r"level 0, time step 1: no label is common to this step and those that follow, and no segment",
        ),
        (
            [[["a", "x"], ["a", "y"], [None, "y"], ["b", "x"]]],
            {"root": True},
            ValueError,
            r"level 0, time step 3: the label is 'b', but at time step 1 it is 'a', and the root is the label",
        ),
        (
            [([["a", "x"]] * 4, [[1, 1], [0, 0], [0, 0], [1, 1]])],
            {"root": True},
            ValueError,
            r"y\[0\], level 0, time step 0: the root ends, but",
        ),
        (
            [[(0, 0, 2, "a"), (0, 1, 4, "b")]],
            {},
            ValueError,
            r"y\[0\]\[0\] \(0:2\) and y\[0\]\[1\] \(1:4\) over",
        ),
        ([[(0, 0, 2, "a"), (0, 0, 4, "a")]], {}, ValueError, "overlap at level 0"),
        ([[(0, 0, 5, "a")]], {}, ValueError, r"y\[0\]\[0\] covers 0:5; expected 0 <= start < stop <= 4"),
        ([[(0, 2, 2, "a")]], {}, ValueError, "covers 2:2"),
        ([[(0, -1, 2, "a")]], {}, ValueError, "covers -1:2"),
        ([[(-1, 0, 2, "a")]], {}, ValueError, r"is a segment of level -1"),
        ([[(2, 0, 2, "a")]], {"n_levels": 2}, ValueError, r"level 2; expected 0 <= level < 2"),
        (
            [[(0, 0, 2, "a"), (0, 2, 4, "b"), (1, 1, 3, "x")]],
            {"segment_bottom": True},
            ValueError,
            r"y\[0\], level 1, time step 1: no segment is said to end, but one of level 0 does.*cross",
        ),
        (
            [[(0, 0, 2, "a"), (0, 2, 4, "b"), (1, 1, 3, "x")]],
            {},
            ValueError,
            "level 1, time step 1: no segment",
        ),
        (
            [([["a", "x"], ["a", "y"], ["a", "y"], ["a", "y"]], [[None, 0]] + [[None, 1]] * 3)],
            {"segment_bottom": False},
            ValueError,
            r"level 1, time step 1: the label is 'y', but at time step 0 it is 'x'",
        ),
        ([("a", [1, 0], "a", "b")], {}, TypeError, r"y\[0\]\[1\] is \[1, 0\].*must be a set or frozenset"),
        ([("a", ["b", "c"])], {}, ValueError, r"y\[0\] has 2 labels, but X\[0\] has 4"),
        ([[(0, 0, 2, ["a"])]], {}, TypeError, r"y\[0\]\[0\] is \['a'\]"),
    ],
)
def test_refusals(y, options, error, message):
    options = {"segment_bottom": True} | options
    if error is None:
        encode_levels(y, X_OF_4, **options)
        return
    with pytest.raises(error, match=message):
        encode_levels(y, X_OF_4, **options)


def test_refusals_without_lengths():
    for y in ([None], [[(0, 0, 2, "a")]]):
        with pytest.raises(ValueError, match=r"y\[0\] is .*, and without X its number of time steps is not"):
            encode_levels(y)


def test_levels_that_differ_between_sequences():
    with pytest.raises(ValueError, match=r"y\[2\] has 1 level\(s\), but y\[0\] has 2"):
        encode_levels([[["a", "b"]], None, ["a"]], np.array([0, 1, 2, 3]))
    with pytest.raises(ValueError, match=r"y\[1\] has 2 level\(s\), but y\[0\] has 1"):
        encode_levels([(None, [1]), [["a", "b"]]])
    with pytest.raises(ValueError, match=r"y\[1\]\[0\] is a segment of level 1; expected 0 <= level < 1"):
        encode_levels([["a"], [(1, 0, 1, "b")]], np.array([0, 1, 2]))


def test_messages_count_from_the_start_of_the_sequence():
    y = [["a", "b"], (["a", "b", "a"], [1, 0, 1])]
    with pytest.raises(ValueError, match=r"y_observed\[1\], level 0, time step 2: the label is 'a'"):
        encode_levels(y, segment_bottom=True, name="y_observed")


# ---- segments -------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1), min_size=1, max_size=4)
)
def test_segments_of(sequences):
    lengths = [sum(duration for duration, _ in segments) for segments in sequences]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    codes = np.array([code for segments in sequences for duration, code in segments for _ in range(duration)])
    ends = np.array([k == d - 1 for segments in sequences for d, _ in segments for k in range(d)])
    cut = segments_of(codes, ends, offsets)
    assert list(zip((cut.stop - cut.start).tolist(), cut.code.tolist(), strict=True)) == [*chain(*sequences)]
    for s, segments in enumerate(sequences):
        own = cut.sequence == s
        assert own.sum() == len(segments) and cut.start[own][0] == 0 and cut.stop[own][-1] == lengths[s]
    starts, stops = cut_rows(ends)
    assert_array_equal(starts - offsets[cut.sequence], cut.start)
    assert_array_equal(stops - offsets[cut.sequence], cut.stop)


def test_segments_of_refuses_what_is_not_complete():
    for codes, ends in ([[0, -1], [0, 1]], [[0, 0], [-1, 1]]):
        with pytest.raises(ValueError, match="some are not known"):
            segments_of(np.array(codes), np.array(ends), np.array([0, 2]))
    with pytest.raises(ValueError, match="no segment ends at the last time step"):
        segments_of(np.array([0, 0]), np.array([1, 0]), np.array([0, 2]))
