import numpy as np
import pytest

from sklearn_seqlab.datasets import fetch_crfpp

# task, subset, sequences, steps, labels, columns, longest
FACTS = [
    ("basenp", "train", 77, 1896, 3, 2, 50),
    ("basenp", "test", 823, 19172, 3, 2, 63),
    ("chunking", "train", 77, 1896, 14, 2, 50),
    ("chunking", "test", 823, 19172, 17, 2, 63),
    ("JapaneseNE", "train", 216, 4772, 17, 3, 93),
    ("JapaneseNE", "test", 500, 12678, 18, 3, 117),
    ("seg", "train", 36, 965, 2, 2, 115),
    ("seg", "test", 19, 981, 2, 2, 109),
]


@pytest.mark.parametrize(("task", "subset", "sequences", "steps", "labels", "columns", "longest"), FACTS)
def test_counts(data_home, task, subset, sequences, steps, labels, columns, longest):
    found = fetch_crfpp(task, subset=subset, data_home=data_home)
    assert len(found.data) == len(found.target) == sequences
    assert sum(map(len, found.data)) == sum(map(len, found.target)) == steps
    assert max(map(len, found.data)) == longest
    assert len(found.target_names) == labels
    assert {len(token) for x in found.data for token in x} == {columns}
    assert len(found.feature_names) == columns
    assert found.target[0].dtype == object


@pytest.mark.parametrize(
    ("task", "subset", "count"),
    [("JapaneseNE", "train", 253), ("JapaneseNE", "test", 393), ("seg", "train", 11), ("seg", "test", 9)],
)
def test_the_ideographic_space_is_a_token(data_home, task, subset, count):
    data, _ = fetch_crfpp(task, subset=subset, data_home=data_home, return_X_y=True)
    assert sum(token[0] == "\u3000" for x in data for token in x) == count


def test_japanese_is_decoded(data_home):
    text = "".join(token[0] for x in fetch_crfpp("JapaneseNE", data_home=data_home).data for token in x)
    assert any("\u3040" <= character <= "\u309f" for character in text)  # hiragana
    assert "\ufffd" not in text


def test_labels_unseen_in_training(data_home):
    train, test = (fetch_crfpp("chunking", subset=s, data_home=data_home) for s in ("train", "test"))
    assert set(test.target_names) - set(train.target_names) == {"I-CONJP", "B-CONJP", "B-INTJ"}


def test_one_token_differs_between_the_english_tasks(data_home):
    basenp, chunking = (
        fetch_crfpp(t, subset="test", data_home=data_home).data for t in ("basenp", "chunking")
    )
    differing = [
        (s, t)
        for s, (a, b) in enumerate(zip(basenp, chunking, strict=True))
        for t in range(len(a))
        if a[t] != b[t]
    ]
    assert differing == [(62, 10)]


def test_templates_come_with_the_task(data_home):
    for task, unigrams in (("basenp", 20), ("chunking", 19), ("JapaneseNE", 32), ("seg", 10)):
        lines = fetch_crfpp(task, data_home=data_home).template.splitlines()
        assert sum(line.startswith("U") for line in lines) == unigrams
        assert "B" in lines


@pytest.mark.parametrize(
    ("options", "message"), [({"task": "ner"}, "task must be"), ({"subset": "x"}, "subset")]
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        fetch_crfpp(**options)


def test_return_X_y(data_home):
    X, y = fetch_crfpp("seg", data_home=data_home, return_X_y=True)
    assert len(X[0]) == len(y[0]) and set(np.concatenate(y)) == {"B", "I"}
