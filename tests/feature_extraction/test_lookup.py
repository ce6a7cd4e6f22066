"""The kernel against the definition in Python, and what it leaves to Python."""

import gc
import pickle
import sys
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn_seqlab.feature_extraction._lookup import NameTable

from sklearn_seqlab.feature_extraction import SequenceDictVectorizer
from sklearn_seqlab.feature_extraction._dict import name_value_pairs


class Text(str):
    pass


def by_definition(X, vocabulary, separator="="):
    matrices = []
    for s, sequence in enumerate(X):
        matrix = np.zeros((len(sequence), len(vocabulary)))
        for t, step in enumerate(sequence):
            for name, value in name_value_pairs(step, s, t, separator):
                if name in vocabulary:
                    matrix[t, vocabulary[name]] += value
        matrices.append(matrix)
    return matrices


def random_step(rng, n_names):
    names = [f"n{'é' * (j % 3)}{'語' * (j % 5)}{j}" for j in rng.integers(n_names, size=rng.integers(0, 12))]
    kind = rng.integers(9)
    if kind < 3:
        return [list, tuple, set][kind](names)
    if kind == 3:
        return [np.str_(name) for name in names]
    if kind == 4:
        return [Text(name) for name in names]
    if kind == 5:
        return np.array(names, dtype=object)
    if kind == 6:
        return frozenset(names)
    values = [1, 2.5, True, False, "x", "é", None, np.float64(0.5), np.float32(2), np.int8(3), np.True_]
    values += [["a", "b", "a"], ("c",), [], np.str_("y"), Text("z"), -(2**60), 0]
    return {name: values[rng.integers(len(values))] for name in names}


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_the_definition(seed, sort):
    rng = np.random.default_rng(seed)
    X, Z = (
        [[random_step(rng, n) for _ in range(rng.integers(1, 30))] for _ in range(rng.integers(1, 12))]
        for n in (40, 80)
    )
    X.append(tuple(X[0]))
    vectorizer = SequenceDictVectorizer(sort=sort)
    fitted = vectorizer.fit_transform(X)
    names = [
        n for s, x in enumerate(X) for t, step in enumerate(x) for n, _ in name_value_pairs(step, s, t, "=")
    ]
    expected = sorted(set(names)) if sort else list(dict.fromkeys(names))
    assert list(vectorizer.vocabulary_) == expected
    for found, sequences in ((fitted, X), (vectorizer.transform(X), X), (vectorizer.transform(Z), Z)):
        for matrix, wish in zip(found, by_definition(sequences, vectorizer.vocabulary_), strict=True):
            matrix.check_format(full_check=True)
            assert matrix.has_canonical_format and matrix.indices.dtype == np.int32
            assert_array_equal(matrix.toarray(), wish)


def test_long_rows_and_repetitions():
    X = [[[f"n{j % 700}" for j in range(2000)], []]]
    (matrix,) = SequenceDictVectorizer().fit(X).transform(X)
    assert matrix.nnz == 700 and matrix.sum() == 2000 and matrix.has_canonical_format


def test_another_vocabulary_is_seen():
    vectorizer = SequenceDictVectorizer().fit([[["a", "b"]]])
    vectorizer.transform([[["a"]]])
    vectorizer.vocabulary_ = {"b": 0, "a": 1, "c": 2}
    assert_array_equal(vectorizer.transform([[["a", "c"]]])[0].toarray(), [[0, 1, 1]])
    vectorizer.vocabulary_["d"] = 3
    assert_array_equal(vectorizer.transform([[["d"]]])[0].toarray(), [[0, 0, 0, 1]])


def test_the_table_is_no_part_of_a_pickle():
    vectorizer = SequenceDictVectorizer().fit([[["a", "b"]]])
    size = len(pickle.dumps(vectorizer))
    vectorizer.transform([[["a"]]])
    assert len(pickle.dumps(vectorizer)) == size
    again = pickle.loads(pickle.dumps(vectorizer))
    assert_array_equal(again.transform([[["b"]]])[0].toarray(), [[0, 1]])
    assert not hasattr(clone(vectorizer), "vocabulary_")


def test_a_late_error_names_its_step():
    vectorizer = SequenceDictVectorizer().fit([[["a"]]])
    with pytest.raises(TypeError, match=r"X\[1\]\[700\] must list str, but holds 5"):
        vectorizer.transform([[["a"]], [["a", "b"]] * 700 + [["a", 5]]])


def test_unusual_vocabularies_are_no_table():
    for vocabulary in ({Text("a"): 0}, {"a": 1}, {"a": -1}, {"a": 0.0}, {1: 0}, {"a": True}):
        with pytest.raises(ValueError):
            NameTable(vocabulary)
    NameTable({})


def test_a_column_out_of_range_is_refused():
    vectorizer = SequenceDictVectorizer().fit([[["a", "b"]]])
    vectorizer.vocabulary_ = {"a": 0, "b": 7}
    with pytest.raises(ValueError, match="'b' in column 7"):
        vectorizer.transform([[["b"]]])


def test_nothing_is_kept():
    word, step = "".join(["long ", "word"]), {"key": "".join(["val", "ue"]), "list": ["x"]}
    X = [[[word, "b"], step, {word: 2}]] * 3 + [[[word], {word: np.float32(2)}]]
    vectorizer = SequenceDictVectorizer().fit(X)
    vectorizer.transform(X)
    before = (
        sys.getrefcount(word),
        sys.getrefcount(step),
        sys.getrefcount(step["key"]),
        sys.getrefcount("list"),
    )
    tracemalloc.start()
    for _ in range(20):
        vectorizer.transform(X)
    gc.collect()
    small = tracemalloc.get_traced_memory()[0]
    for _ in range(300):
        vectorizer.transform(X)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - small
    tracemalloc.stop()
    after = (
        sys.getrefcount(word),
        sys.getrefcount(step),
        sys.getrefcount(step["key"]),
        sys.getrefcount("list"),
    )
    assert before == after and grown < 20_000
