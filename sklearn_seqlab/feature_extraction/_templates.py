"""CRF++ feature templates."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sklearn_seqlab.feature_extraction._vocabulary import AttributeVectorizer

__all__ = ["FeatureTemplates"]

_MACRO = re.compile(r"%x\[\s*(-?\d+)\s*,\s*(\d+)\s*\]")


_FURTHEST_ROW = 1000


class _Template(NamedTuple):
    pattern: str  # the line with "%s" for each macro
    places: tuple[tuple[int, int], ...]  # (row, column) of each macro


class FeatureTemplates(AttributeVectorizer):
    """Binary features of tokens by a CRF++ template, as one CSR matrix per sequence.

    A line ``U05:%x[-1,0]/%x[0,0]`` makes an attribute of every step: the line with each ``%x[row,col]``
    replaced by column `col` of the token `row` steps away. Before the first token stand ``_B-1``, ``_B-2``
    and so on, after the last ``_B+1``, ``_B+2``. Rows go from -1000 to 1000. A line that starts with ``B``
    asks for features of label pairs: alone it stands for the model's transitions, with a macro `fit` warns,
    for these make no input. Empty lines and lines that start with ``#`` are skipped.

    Parameters
    ----------
    template : str, path-like or text file
        A path, or the template itself: a str with a line break or a macro is taken as text.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Column of each attribute, in sorted order.
    unigram_templates_, bigram_templates_ : list of str
        Lines that start with ``U`` and with ``B``.

    Notes
    -----
    Sequences are lists of tokens, tokens are tuples of str (the columns without the label) or a str (one
    column). Attributes unseen in `fit` are left out by `transform`. Where two lines give a step the same
    attribute, its value is 2. The syntax is that of CRF++ by Taku Kudo.

    A single sequence belongs in a list of its own. ``[("the", "DT"), ("cat", "NN")]`` is two sequences of
    one-column tokens; that is an error only where the template uses a further column.

    See Also
    --------
    sklearn_seqlab.datasets.fetch_crfpp : Tasks that come with templates.

    Examples
    --------
    >>> from sklearn_seqlab.feature_extraction import FeatureTemplates
    >>> templates = FeatureTemplates("U0:%x[0,0]\\nU1:%x[-1,1]/%x[0,1]\\nB")
    >>> (x,) = templates.fit_transform([[("the", "DT"), ("cat", "NN")]])
    >>> templates.get_feature_names_out().tolist()
    ['U0:cat', 'U0:the', 'U1:DT/NN', 'U1:_B-1/DT']
    >>> x.toarray()
    array([[0., 1., 0., 1.],
           [1., 0., 1., 0.]])
    """

    def __init__(self, template):
        self.template = template

    def _learn(self, X, plan=None):
        unigrams, bigrams = _read(self.template)
        flat = super()._learn(X, [_compile(line) for line in unigrams])
        self.unigram_templates_, self.bigram_templates_ = unigrams, bigrams
        lost = [line for line in bigrams if _MACRO.search(line)]
        if lost:
            warnings.warn(
                f"template has bigram lines with macros, which make no input feature: {lost!r}.",
                UserWarning,
                stacklevel=3,
            )
        return flat

    def _plan(self) -> list[_Template]:
        return [_compile(line) for line in self.unigram_templates_]

    def _attributes(self, sequence, s, plan, vocabulary):
        n_timesteps, n_templates = len(sequence), len(plan)
        reach = max((abs(row) for template in plan for row, _ in template.places), default=0)
        before = [f"_B-{k}" for k in range(reach, 0, -1)]
        after = [f"_B+{k}" for k in range(1, reach + 1)]
        padded = {
            column: [*before, *_read_column(sequence, s, column), *after]
            for column in {column for template in plan for _, column in template.places}
        }
        columns = [0] * (n_timesteps * n_templates)
        for k, template in enumerate(plan):
            shifted = [
                padded[column][reach + row : reach + row + n_timesteps] for row, column in template.places
            ]
            if len(shifted) == 1:
                names = [template.pattern % value for value in shifted[0]]
            elif shifted:
                names = [template.pattern % values for values in zip(*shifted, strict=True)]
            else:
                names = [template.pattern % ()] * n_timesteps
            columns[k::n_templates] = [vocabulary[name] for name in names]
        return columns, None, [n_templates] * n_timesteps


def _read(template) -> tuple[list[str], list[str]]:
    """Unigram and bigram lines of a template that is given as text, path or file."""
    if isinstance(template, str) and ("\n" in template or "%x[" in template):
        text = template
    elif template == "":
        raise ValueError("template must be a path or text with at least one line, but is ''.")
    elif isinstance(template, str | os.PathLike):
        if Path(template).is_dir():
            raise IsADirectoryError(
                f"template must be a file, or text with a line break or a macro, but {template!r} is a folder."
            )
        try:
            text = Path(template).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"template must be a file, or text with a line break or a macro, but is {template!r}."
            ) from error
    elif hasattr(template, "read"):
        if template.seekable():
            template.seek(0)  # a second fit reads the whole file again
        text = template.read()
        if not isinstance(text, str):
            raise TypeError(f"template must be a file opened as text, but reads as {type(text).__name__}.")
    else:
        raise TypeError(f"template must be a str, a path or a text file, but is {template!r}.")
    unigrams: list[str] = []
    bigrams: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line[0] not in "UB":
            raise ValueError(f"template line {number} must start with U, B or #, but is {line!r}.")
        if "%" in _MACRO.sub("", line):
            raise ValueError(f"template line {number} has a % that begins no %x[row,col]: {line!r}.")
        for row, _ in _MACRO.findall(line):
            if abs(int(row)) > _FURTHEST_ROW:
                raise ValueError(
                    f"template line {number} must have rows from {-_FURTHEST_ROW} to {_FURTHEST_ROW}, "
                    f"but has row {row}: {line!r}."
                )
        (unigrams if line[0] == "U" else bigrams).append(line)
    if not unigrams:
        raise ValueError("template must have at least one line that starts with U, but has none.")
    return unigrams, bigrams


def _compile(line: str) -> _Template:
    places = tuple((int(row), int(column)) for row, column in _MACRO.findall(line))
    return _Template(_MACRO.sub("%s", line), places)


def _read_column(sequence, s: int, column: int) -> list[str]:
    values = []
    for t, token in enumerate(sequence):
        columns = (token,) if isinstance(token, str) else token
        if not isinstance(columns, tuple | list | np.ndarray):
            raise TypeError(f"X[{s}][{t}] must be a str or a tuple of str, but is {token!r}.")
        if column >= len(columns):
            hint = ""
            if isinstance(token, str) and isinstance(sequence, tuple):
                hint = " X must be a list of sequences; a single sequence belongs in a list of its own."
            raise ValueError(
                f"X[{s}][{t}] has {len(columns)} columns, but the template uses column {column}.{hint}"
            )
        if not isinstance(columns[column], str):
            raise TypeError(f"X[{s}][{t}] must hold str, but column {column} is {columns[column]!r}.")
        values.append(columns[column])
    return values
