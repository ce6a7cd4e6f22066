"""Dictionaries or lists of names per step to CSR matrices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Real

import numpy as np

from sklearn_seqlab.feature_extraction._vocabulary import AttributeVectorizer

__all__ = ["SequenceDictVectorizer", "name_value_pairs"]


class SequenceDictVectorizer(AttributeVectorizer):
    """Named features of every step to one CSR matrix per sequence.

    Parameters
    ----------
    separator : str, default="="
        Stands between a feature's name and its text value.
    sort : bool, default=True
        Whether columns are in the order of their names; else in order of first sight.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column of each attribute.

    See Also
    --------
    SequenceHasher : The same without a vocabulary.
    sklearn.feature_extraction.DictVectorizer : For one dict per sample.

    Notes
    -----
    A sequence is a list of steps; a step is either a dict or a list of str, and both may occur in one
    sequence. In a dict a number is the value of the attribute that has the key's name, True is 1 and False
    0, a str `v` makes the attribute ``key=v`` with value 1, a list of str makes one such attribute for each,
    and None makes none. In a list each str is an attribute with value 1. What occurs several times in one
    step adds up, as in scikit-learn's vectorizers. Attributes unseen in `fit` are left out by `transform`.

    Examples
    --------
    >>> from sklearn_seqlab.feature_extraction import SequenceDictVectorizer
    >>> vectorizer = SequenceDictVectorizer()
    >>> (x,) = vectorizer.fit_transform([[{"word": "the", "length": 3}, {"word": "cat", "length": 3}]])
    >>> vectorizer.get_feature_names_out().tolist()
    ['length', 'word=cat', 'word=the']
    >>> x.toarray()
    array([[3., 0., 1.],
           [3., 1., 0.]])
    """

    _reads_names = True

    def __init__(self, *, separator="=", sort=True):
        self.separator = separator
        self.sort = sort

    def _plan(self) -> str:
        if not isinstance(self.separator, str):
            raise TypeError(f"separator must be a str, but is {self.separator!r}.")
        return self.separator

    def _attributes(self, sequence, s, plan, vocabulary):
        columns: list[int] = []
        values: list[float] = []
        counts: list[int] = []
        for t, step in enumerate(sequence):
            before = len(columns)
            for name, value in name_value_pairs(step, s, t, plan):
                columns.append(vocabulary[name])
                values.append(value)
            counts.append(len(columns) - before)
        return columns, values, counts


def name_value_pairs(step, s: int, t: int, separator: str) -> Iterator[tuple[str, float]]:
    """Names and values of the attributes of step `t` of sequence `s`."""
    if isinstance(step, Mapping):
        for name, value in step.items():
            if not isinstance(name, str):
                raise TypeError(f"X[{s}][{t}] must have keys that are str, but has the key {name!r}.")
            if isinstance(value, str):
                yield f"{name}{separator}{value}", 1.0
            elif isinstance(value, Real | np.bool_):
                try:
                    number = float(value)
                except OverflowError as error:
                    raise ValueError(
                        f"X[{s}][{t}] must have values in the range of float64, but {name!r} is beyond it."
                    ) from error
                if number - number != 0.0:  # infinite or NaN
                    raise ValueError(f"X[{s}][{t}] must have finite values, but {name!r} is {value!r}.")
                yield name, number
            elif isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
                for item in value:
                    if not isinstance(item, str):
                        raise TypeError(f"X[{s}][{t}][{name!r}] must list str, but holds {item!r}.")
                    yield f"{name}{separator}{item}", 1.0
            elif value is not None:
                raise TypeError(
                    f"X[{s}][{t}][{name!r}] must be a number, a str, a list of str or None, but is {value!r}."
                )
    elif isinstance(step, Iterable) and not isinstance(step, str | bytes):
        for name in step:
            if not isinstance(name, str):
                raise TypeError(f"X[{s}][{t}] must list str, but holds {name!r}.")
            yield name, 1.0
    else:
        raise TypeError(f"X[{s}][{t}] must be a dict or a list of str, but is {step!r}.")
