"""Column files of tokens: one token a line, an empty line between sequences."""

from __future__ import annotations

import re

import numpy as np

__all__ = ["parse_columns"]

# Not str.split(): that also splits at the ideographic space, which is a token of its own in Japanese text.
_BLANKS = re.compile(r"[ \t]+")


def parse_columns(text: str, *, what: str) -> tuple[list[list[tuple[str, ...]]], list[np.ndarray]]:
    """Tokens (all columns but the last) and labels (the last column) of each sequence.

    Columns are parted by ASCII blanks or tabs. `what` names the text in errors.
    """
    data, target = [], []
    tokens: list[tuple[str, ...]] = []
    labels: list[str] = []
    # Not str.splitlines(), for the same reason: it splits at more than line feeds.
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        line = line.rstrip("\r").strip(" \t")
        if line:
            *token, label = _BLANKS.split(line)
            if not token:
                raise ValueError(f"{what} line {number} has one column, but tokens need two or more.")
            tokens.append(tuple(token))
            labels.append(label)
        elif tokens:
            data.append(tokens)
            y = np.empty(len(labels), dtype=object)
            y[:] = labels
            target.append(y)
            tokens, labels = [], []
    return data, target
