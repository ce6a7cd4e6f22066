"""Checks of single arguments, said in one way everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

__all__ = ["check_numerics", "one_of", "positive"]


def positive(value: Any, name: str) -> int:
    """An integer of at least 1 as a plain int.

    Raises
    ------
    ValueError
        For everything else; a bool is no integer.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; expected an integer of at least 1.")
    return int(value)


def one_of(value: Any, choices: Sequence[str], name: str) -> str:
    """``value``, which is one of two or more strings.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not isinstance(value, str) or value not in choices:
        *most, last = map(repr, choices)
        raise ValueError(f"{name} is {value!r}; expected {', '.join(most)} or {last}.")
    return value


def check_numerics(numerics: Any) -> None:
    """Raise ValueError unless ``numerics`` says how masses are summed."""
    one_of(numerics, ("auto", "scaled", "log"), "numerics")
