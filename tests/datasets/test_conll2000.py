import pytest

from sklearn_seqlab.datasets import fetch_conll2000


@pytest.fixture(scope="module")
def subsets(data_home):
    return {name: fetch_conll2000(name, data_home=data_home) for name in ("train", "test")}


def test_counts(subsets):
    train, test = subsets["train"], subsets["test"]
    assert (len(train.data), len(test.data)) == (8936, 2012)
    assert (sum(map(len, train.data)), sum(map(len, test.data))) == (211727, 47377)
    assert (len(train.target_names), len(test.target_names)) == (22, 19)
    assert len({tag for x in train.data for _, tag in x}) == 44
    assert len({word for x in train.data for word, _ in x}) == 19122
    assert sum(len(x) > 1 for x in train.data) == 8926


def test_tokens_and_labels_line_up(subsets):
    train = subsets["train"]
    assert train.data[0][:3] == [("Confidence", "NN"), ("in", "IN"), ("the", "DT")]
    assert train.target[0][:3].tolist() == ["B-NP", "B-PP", "B-NP"]
    assert [len(x) for x in train.data] == [len(y) for y in train.target]


def test_labels_of_one_subset_only(subsets):
    train, test = (set(subsets[name].target_names) for name in ("train", "test"))
    assert test - train == {"I-LST"}
    assert train - test == {"B-UCP", "I-UCP", "I-INTJ", "I-PRT"}


def test_return_X_y(data_home, subsets):
    X, y = fetch_conll2000("test", data_home=data_home, return_X_y=True)
    assert X == subsets["test"].data and len(y) == 2012


def test_bad_subset():
    with pytest.raises(ValueError, match="subset must be"):
        fetch_conll2000("dev")
