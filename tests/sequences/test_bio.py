"""Tag schemes: as seqeval reads them, and every segmentation can be written and read back."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_seqlab.sequences import bio_to_segments, segments_to_bio
from sklearn_seqlab.sequences._bio import find_bio_segments, split_tags

PREFIXES = {
    "IOB1": "OIB",
    "IOB2": "OIB",
    "IOE1": "OIE",
    "IOE2": "OIE",
    "IOBES": "OIBES",
    "BILOU": "OBILU",
    "conll": "OIBES",
}
SCHEMES = list(PREFIXES)


def tag_lists(scheme):
    tags = [prefix if prefix == "O" else f"{prefix}-{label}" for prefix in PREFIXES[scheme] for label in "XY"]
    return st.lists(st.sampled_from(tags), min_size=1, max_size=12)


def read_by_seqeval(tags, scheme):
    if scheme == "conll":
        from seqeval.metrics.sequence_labeling import get_entities

        return [(start, last + 1, label) for label, start, last in get_entities(list(tags))]
    import seqeval.scheme

    entities = seqeval.scheme.Tokens(list(tags), getattr(seqeval.scheme, scheme)).entities
    return [(entity.start, entity.end, entity.tag) for entity in entities]


def starts_with_e(tags):
    """Whether an E follows O or another label: what seqeval's IOE1 does not read."""
    before = ["O", *tags[:-1]]
    return any(b.startswith("E") and a[1:] != b[1:] for a, b in zip(before, tags, strict=True))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_reads_as_seqeval_does(scheme):
    pytest.importorskip("seqeval")

    @settings(max_examples=400, deadline=None)
    @given(tag_lists(scheme))
    def check(tags):
        if scheme == "IOE1" and starts_with_e(tags):
            return
        assert bio_to_segments(tags, scheme) == read_by_seqeval(tags, scheme)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()


def test_seqeval_does_not_read_what_ioe1_must():
    """The one place we part: two segments of one step each have no other spelling in IOE1."""
    tags = segments_to_bio([(0, 1, "X"), (1, 2, "X")], 2, scheme="IOE1")
    assert tags.tolist() == ["E-X", "I-X"]
    assert bio_to_segments(tags, "IOE1") == [(0, 1, "X"), (1, 2, "X")]


@st.composite
def segmentations(draw):
    segments, t = [], 0
    label = st.one_of(st.sampled_from(["X", "Y", "_"]), st.text(min_size=1, max_size=3))
    for _ in range(draw(st.integers(0, 6))):
        t += draw(st.integers(0, 2))
        length = draw(st.integers(1, 3))
        segments.append((t, t + length, draw(label.filter(lambda text: not text.endswith("\0")))))
        t += length
    return segments, max(t + draw(st.integers(0, 2)), 1)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=150, deadline=None)
@given(data=segmentations())
def test_writing_then_reading_is_the_identity(scheme, data):
    segments, n_timesteps = data
    tags = segments_to_bio(segments, n_timesteps, scheme=scheme)
    assert tags.shape == (n_timesteps,) and tags.dtype.kind == "U"
    assert {tag[0] for tag in tags} <= set(PREFIXES[scheme])
    assert bio_to_segments(tags, scheme=scheme) == segments
    assert bio_to_segments(segments_to_bio(segments[::-1], n_timesteps, scheme), scheme) == segments


SEGMENTS = [(0, 1, "X"), (1, 3, "X"), (3, 4, "Y"), (5, 8, "X")]


@pytest.mark.parametrize(
    ("scheme", "spelt"),
    [
        ("IOB1", "I-X B-X I-X I-Y O I-X I-X I-X"),
        ("IOB2", "B-X B-X I-X B-Y O B-X I-X I-X"),
        ("IOE1", "E-X I-X I-X I-Y O I-X I-X I-X"),
        ("IOE2", "E-X I-X E-X E-Y O I-X I-X E-X"),
        ("IOBES", "S-X B-X E-X S-Y O B-X I-X E-X"),
        ("BILOU", "U-X B-X L-X U-Y O B-X I-X L-X"),
        ("conll", "B-X B-X I-X B-Y O B-X I-X I-X"),
    ],
)
def test_spelling(scheme, spelt):
    assert segments_to_bio(SEGMENTS, 8, scheme).tolist() == spelt.split()
    assert bio_to_segments(spelt.split(), scheme) == SEGMENTS


def test_defaults_missing_tags_and_bare_prefixes():
    assert bio_to_segments(["B-X", "I-X"]) == [(0, 2, "X")]
    assert segments_to_bio([(0, 1, "X")], 2).tolist() == ["B-X", "O"]
    assert bio_to_segments(["B-X", None, "I-X"], "conll") == [(0, 1, "X"), (2, 3, "X")]
    assert bio_to_segments(["B", "I", "O"]) == [(0, 2, "_")]
    assert bio_to_segments(["B-a-b", "I-a-b"]) == [(0, 2, "a-b")]
    assert bio_to_segments([None, None]) == []


def test_packed_sequences_do_not_run_into_each_other():
    classes = np.array(["B-X", "I-X", "O"])
    prefix_of, label_of, labels = split_tags(classes, "conll", name="y")
    starts, stops, found = find_bio_segments(
        np.array([0, 1, 1, 2, 1]), np.array([0, 2, 3, 5]), prefix_of, label_of, "conll"
    )
    assert starts.tolist() == [0, 2, 4] and stops.tolist() == [2, 3, 5]
    assert [labels[k] for k in found] == ["X"] * 3


@pytest.mark.parametrize(
    ("tags", "scheme", "error", "message"),
    [
        (["B-X"], "BIO", ValueError, "scheme is 'BIO'; expected one of 'IOB1', 'IOB2', 'IOE1'"),
        (["B-X"], None, ValueError, "scheme is None"),
        (
            ["E-X"],
            "IOB2",
            ValueError,
            """tags holds 'E-X'; the tags of scheme 'IOB2' are "O", "I-...", "B-...\"""",
        ),
        (["Breakfast"], "IOB2", ValueError, "tags holds 'Breakfast'"),
        (["O-X"], "IOB2", ValueError, "tags holds 'O-X'"),
        (["O", "cook"], "IOB2", ValueError, "tags holds 'cook'"),
        ([""], "IOB2", ValueError, "tags holds ''"),
        (["L-X"], "conll", ValueError, "tags holds 'L-X'"),
        ([1, 2], "IOB2", TypeError, "tags holds 1; the tags of scheme 'IOB2' are str"),
        ([], "IOB2", ValueError, "tags has 0 labels"),
    ],
)
def test_refusals_of_tags(tags, scheme, error, message):
    with pytest.raises(error, match=message):
        bio_to_segments(tags, scheme)


@pytest.mark.parametrize(
    ("segments", "n_timesteps", "error", "message"),
    [
        ([(0, 2, "X"), (1, 3, "X")], 3, ValueError, "overlap"),
        ([(0, 4, "X")], 3, ValueError, r"segments\[0\] covers 0:4"),
        ([(0, 1, 3)], 3, TypeError, "segments hold the label 3 at 0:1; expected a str"),
        ([(0, 1, "")], 3, ValueError, "segments hold the label '' at 0:1"),
        ([], 0, ValueError, "n_timesteps is 0"),
    ],
)
def test_refusals_of_segments(segments, n_timesteps, error, message):
    with pytest.raises(error, match=message):
        segments_to_bio(segments, n_timesteps)
    with pytest.raises(ValueError, match="scheme is 'BIO'"):
        segments_to_bio([], 1, scheme="BIO")
