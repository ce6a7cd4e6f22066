"""Features of words: neighbours, prefixes, suffixes, shapes."""

from __future__ import annotations

from itertools import groupby
from numbers import Integral

from sklearn.base import BaseEstimator, TransformerMixin

from sklearn_seqlab.feature_extraction._vocabulary import check_sequences

__all__ = ["TokenFeatures", "word_shape"]


class TokenFeatures(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Names of common features of words, for `SequenceDictVectorizer` or `SequenceHasher`.

    Parameters
    ----------
    window : int, default=2
        How many words before and after each word to name, as in ``w[-1]=the``.
    affixes : int, default=3
        Longest prefix and suffix, as in ``prefix=un`` and ``suffix=ing``.
    shape : bool, default=True
        Whether to name the shape of the word, as in ``shape=Xx-d`` for "Model-9".
    lowercase : bool, default=True
        Whether words, prefixes and suffixes are lowered first.

    Notes
    -----
    A sequence is a list of words, or of tuples that begin with the word and whose further columns are named
    as they are (``1[0]=NN``, within the same window).

    Examples
    --------
    >>> from sklearn_seqlab.feature_extraction import TokenFeatures
    >>> TokenFeatures(window=1, affixes=1).transform([["The", "cat"]])
    [[['w[0]=the', 'w[1]=cat', 'prefix=t', 'suffix=e', 'shape=Xx'], \
['w[-1]=the', 'w[0]=cat', 'prefix=c', 'suffix=t', 'shape=x']]]
    """

    _acts_on_sequences = True

    def __init__(self, *, window=2, affixes=3, shape=True, lowercase=True):
        self.window = window
        self.affixes = affixes
        self.shape = shape
        self.lowercase = lowercase

    def fit(self, X=None, y=None) -> TokenFeatures:
        """Check the parameters; nothing is learnt."""
        for name in ("window", "affixes"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be an int >= 0, but is {value!r}.")
        return self

    def transform(self, X) -> list[list[list[str]]]:
        """Lists of attribute names, one list per step.

        Parameters
        ----------
        X : list of lists of str, or of tuples of str

        Returns
        -------
        steps : list of lists of lists of str
        """
        self.fit()
        return [self._sequence(sequence, s) for s, sequence in check_sequences(X)]

    def _sequence(self, sequence, s: int) -> list[list[str]]:
        tokens = [(token,) if isinstance(token, str) else token for token in sequence]
        for t, token in enumerate(tokens):
            if not (isinstance(token, tuple | list) and token and all(isinstance(v, str) for v in token)):
                raise TypeError(f"X[{s}][{t}] must be a str or a tuple of str, but is {token!r}.")
        words = [token[0].lower() if self.lowercase else token[0] for token in tokens]
        steps = []
        for t, (whole, *_) in enumerate(tokens):
            near = range(max(t - self.window, 0), min(t + self.window + 1, len(tokens)))
            names = [f"w[{i - t}]={words[i]}" for i in near]
            names += [f"{j}[{i - t}]={value}" for i in near for j, value in enumerate(tokens[i][1:], start=1)]
            lengths = range(1, min(self.affixes, len(whole)) + 1)
            names += [f"prefix={words[t][:n]}" for n in lengths]
            names += [f"suffix={words[t][-n:]}" for n in lengths]
            if self.shape:
                names.append(f"shape={word_shape(whole)}")
            steps.append(names)
        return steps

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags


def word_shape(word: str) -> str:
    """Kinds of characters in a word, runs shortened: X upper case, x other letters, d digits.

    Examples
    --------
    >>> from sklearn_seqlab.feature_extraction import word_shape
    >>> word_shape("McDonald's-2000")
    "XxXx'x-d"
    """
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word)
    return "".join(kind for kind, _ in groupby(kinds))
