"""Definite clauses as text: what they are made of, and the kinds of features that they are.

A clause is ``label(T) :- tap(T), prevNear(T, T1), pan(T1).``: evidence of one variable, relations of two. Variables
other than that of the head are local.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["CATEGORIES", "clause_categories", "clause_category", "join_bodies"]

CATEGORIES = ("SC", "PF", "AF", "CF", "DF")
"""Kinds of features, those that say most about a clause first."""

_LITERAL = re.compile(r"(?:not\s+)?([^\s,()]+(?:\s[^\s,()]+)*)\s*\(([^()]*)\)")
_LOCAL = re.compile(r"\bT(\d+)\b")


def clause_categories(clause: str) -> frozenset[str]:
    """All categories of a clause, after seed 001, section 3.

    Parameters
    ----------
    clause : str
        ``head(T) :- body.``; predicates of one variable are evidence, those of two are relations. The order of two
        variables is a relation like any other.

    Returns
    -------
    categories : frozenset of str
        "SC", simple conjunction: evidence of the head's variable alone. "AF", absolute feature: minimal, that is, not
        made of clauses that share no local variable, and all local variables lead to evidence. "PF", primary feature:
        an absolute feature whose local variables are used once after they are introduced. "CF", composite feature: a
        conjunction of absolute features. "DF", definite feature: any clause.

    Raises
    ------
    ValueError
        If the text is no such clause.

    Examples
    --------
    >>> sorted(clause_categories("dinner(T) :- prevNear(T, T1), plates(T1)."))
    ['AF', 'CF', 'DF', 'PF']
    """
    head, arrow, body = clause.partition(":-")
    heads = _literals(head)
    if not arrow or len(heads) != 1 or len(heads[0]) != 1:
        raise ValueError(
            f"clause is {clause!r}; expected text like 'label(T) :- tap(T), prevNear(T, T1), pan(T1).'"
        )
    own = heads[0][0]
    literals = [] if body.strip().rstrip(".").strip() == "true" else _literals(body)
    local = {variable for literal in literals for variable in literal} - {own}
    parts = _connected(literals, local)
    absolute = [_is_consumed(part, local) for part in parts]
    found = {"DF"}
    if not local:
        found.add("SC")
    if all(absolute):
        found.add("CF")
    if len(parts) == 1 and absolute[0]:
        found.add("AF")
        # once where it is introduced, and once more
        if all(sum(variable in literal for literal in literals) == 2 for variable in local):
            found.add("PF")
    return frozenset(found)


def clause_category(clause: str) -> str:
    """The first of ``CATEGORIES`` that a clause is of."""
    found = clause_categories(clause)
    return next(category for category in CATEGORIES if category in found)


def join_bodies(bodies: Iterable[str]) -> str:
    """A conjunction of bodies whose local variables are not the same ones, however they are called."""
    texts, n_used = [], 0
    for body in bodies:
        names = sorted({int(number) for number in _LOCAL.findall(body)})
        place = {number: n_used + k + 1 for k, number in enumerate(names)}
        texts.append(_renamed(body, place))
        n_used += len(names)
    return ", ".join(texts) or "true"


def _renamed(body: str, place: dict[int, int]) -> str:
    return _LOCAL.sub(lambda match: f"T{place[int(match[1])]}", body)


def _literals(text: str) -> list[tuple[str, ...]]:
    """The variables of each literal."""
    return [tuple(part.strip() for part in match[2].split(",")) for match in _LITERAL.finditer(text)]


def _connected(literals: list[tuple[str, ...]], local: set[str]) -> list[list[tuple[str, ...]]]:
    """Literals that hang together by local variables."""
    parts: list[tuple[set[str], list[tuple[str, ...]]]] = []
    for literal in literals:
        variables, members = set(literal) & local, [literal]
        rest = []
        for other, found in parts:
            if other & variables:
                variables, members = variables | other, found + members
            else:
                rest.append((other, found))
        parts = [*rest, (variables, members)]
    return [members for _, members in parts]


def _is_consumed(literals: list[tuple[str, ...]], local: set[str]) -> bool:
    """Whether every local variable has evidence, or introduces one that has."""
    used = {literal[0] for literal in literals if len(literal) == 1}
    wanted = {variable for literal in literals for variable in literal} & local
    while True:
        more = {first for first, *rest in literals if rest and set(rest) & used} | used
        if more == used:
            return wanted <= used
        used = more
