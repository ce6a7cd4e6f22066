"""Rules: conjunctions with a weight, how often they hold and how often they are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sklearn_seqlab._clauses import clause_category, join_bodies

__all__ = ["RULE_FIELDS", "make_rules", "member_matrix", "rules_as_text"]

RULE_FIELDS = ["label", "conjunction", "weight", "support", "accuracy", "category"]


def member_matrix(conjunctions: Sequence[tuple[int, ...]], n_atoms: int) -> np.ndarray:
    """Atoms of conjunctions as bool (n_conjunctions, n_atoms)."""
    member = np.zeros((len(conjunctions), n_atoms), dtype=bool)
    for k, conjunction in enumerate(conjunctions):
        member[k, list(conjunction)] = True
    return member


def make_rules(
    coef: np.ndarray,
    conjunctions: Sequence[tuple[int, ...]],
    classes: np.ndarray,
    counts: np.ndarray,
    threshold: float,
    literals: Sequence[str],
) -> np.ndarray:
    """Conjunctions whose weight is above ``threshold`` times the largest, by label and decreasing size of the weight.

    Parameters
    ----------
    coef : ndarray of shape (n_labels, n_conjunctions)
    conjunctions : list of n_conjunctions tuples of int
    classes : ndarray of shape (n_labels,)
    counts : ndarray of shape (n_conjunctions, n_labels)
        Steps of each label on which each conjunction holds.
    threshold : float
    literals : list of n_atoms str
        How atoms read, which tells the category of a rule.
    """
    rows: list[tuple[Any, ...]] = []
    least = threshold * float(np.abs(coef).max(initial=0.0))
    support = counts.sum(axis=1)
    for k, label in enumerate(classes):
        chosen = np.flatnonzero((np.abs(coef[k]) > least) & (coef[k] != 0))
        for j in chosen[np.argsort(-np.abs(coef[k, chosen]), kind="stable")]:
            accuracy = counts[j, k] / support[j] if support[j] else np.nan
            category = clause_category(f"head(T) :- {join_bodies(literals[a] for a in conjunctions[j])}.")
            rows.append((label, conjunctions[j], coef[k, j], int(support[j]), accuracy, category))
    kinds = [classes.dtype, object, np.float64, np.intp, np.float64, "U2"]
    rules = np.empty(len(rows), dtype=list(zip(RULE_FIELDS, kinds, strict=True)))
    for k, row in enumerate(rows):
        rules[k] = row
    return rules


def rules_as_text(rules: np.ndarray, literals: Sequence[str], top: int | None) -> str:
    """A clause a line; per label the ``top`` largest weights."""
    lines = []
    for label in dict.fromkeys(rules["label"].tolist()):
        of_label = rules[rules["label"] == label]
        order = np.argsort(-np.abs(of_label["weight"]), kind="stable")[:top]
        for rule in of_label[order]:
            body = join_bodies(literals[atom] for atom in rule["conjunction"])
            text = f"{label}(T) :- {body}.  % w={rule['weight']:+.3f} n={rule['support']}"
            lines.append(text if np.isnan(rule["accuracy"]) else f"{text} right={rule['accuracy']:.2f}")
    return "\n".join(lines)
