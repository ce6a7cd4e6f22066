"""The pre-extracted CRF++ tasks, on the real files where they are."""

import numpy as np
import pytest

from sklearn_seqlab.datasets import fetch_crfpp, fetch_gpstruct_nlp


@pytest.mark.parametrize(
    ("task", "n_sequences", "n_total", "n_labels", "n_features"),
    [
        ("basenp", 823, 19172, 3, 2146),
        ("chunking", 823, 19172, 15, 2126),
        ("segmentation", 36, 1623, 2, 693),
        ("japanesene", 500, 12678, 18, 6047),
    ],
)
def test_sizes_are_those_of_the_data_description(task, n_sequences, n_total, n_labels, n_features, data_home):
    data = fetch_gpstruct_nlp(task, data_home=data_home)
    assert len(data.data) == len(data.target) == n_sequences
    assert sum(map(len, data.target)) == n_total == sum(x.shape[0] for x in data.data)
    assert len(data.target_names) == n_labels
    assert {x.shape[1] for x in data.data} <= {n_features, n_features - 1}  # the last may not occur
    assert len(data.splits) == 5
    for train, test in data.splits:
        assert not set(train) & set(test) and max(*train, *test) < n_sequences
        assert len(np.unique(np.concatenate([train, test]))) == len(train) + len(test)
    assert all((x.data == 1).all() for x in data.data)


def test_sequences_are_those_of_the_texts(data_home):
    lengths = [len(tokens) for tokens in fetch_crfpp("basenp", subset="test", data_home=data_home).data]
    X, y = fetch_gpstruct_nlp("basenp", data_home=data_home, return_X_y=True)
    assert [len(labels) for labels in y] == lengths
    assert np.mean([x.nnz / x.shape[0] for x in X]) == pytest.approx(12.8, abs=0.3)


def test_unknown_tasks_and_missing_files(tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn_seqlab.datasets._cache.user_cache", lambda: tmp_path)
    with pytest.raises(ValueError, match="task must be one of"):
        fetch_gpstruct_nlp("seg")
    with pytest.raises(FileNotFoundError, match="basenp"):
        fetch_gpstruct_nlp(data_home=tmp_path)
