"""What estimators share whose rules are conjunctions of items."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_seqlab._conjunctions import clause
from sklearn_seqlab.base import input_names

__all__ = ["ConjunctionRules"]


class ConjunctionRules:
    """Rules as text, for estimators with ``rules_``, ``classes_`` and ``items_``."""

    rules_: np.ndarray
    items_: np.ndarray
    classes_: np.ndarray

    def rules_text(self, top: int | None = None) -> str:
        """The rules as clauses, with their weights.

        Parameters
        ----------
        top : int or None, default=None
            Rules per label, by decreasing weight; None for all.

        Returns
        -------
        text : str
            A line per rule. ``T`` is the time step.
        """
        check_is_fitted(self)
        names = input_names(self)
        lines = []
        for label in self.classes_:
            own = self.rules_[self.rules_["label"] == label]
            for rule in own[np.argsort(-own["weight"], kind="stable")[:top]]:
                lines.append(
                    f"{clause(label, rule['conjunction'], self.items_, names)}  % {rule['weight']:.2f}"
                )
        return "\n".join(lines)
