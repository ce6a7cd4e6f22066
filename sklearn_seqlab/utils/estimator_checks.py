"""Whether an estimator keeps the contract of this library; for estimators of your own too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import SkipTest

from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning

from sklearn_seqlab._sklearn_private import data_free_checks
from sklearn_seqlab.base import SequenceTags, SequenceTargetTags
from sklearn_seqlab.utils import (
    _checks_fit,
    _checks_input,
    _checks_labels,
    _checks_levels,
    _checks_search,
    _checks_state,
    _checks_verbs,
)
from sklearn_seqlab.utils._check_tools import all_checks

__all__ = ["check_sequence_estimator", "sequence_estimator_checks"]

_IN_ORDER = (
    _checks_fit,
    _checks_input,
    _checks_labels,
    _checks_verbs,
    _checks_levels,
    _checks_state,
    _checks_search,
)


def check_sequence_estimator(estimator: Any) -> None:
    """Run every check that applies to an estimator, and stop at the first that fails.

    Parameters
    ----------
    estimator : estimator
        An instance, whose parameters the checks keep; it is cloned, never fitted itself.

    Raises
    ------
    AssertionError, Exception
        From the check that fails.

    Warns
    -----
    SkipTestWarning
        Where a check needs a package that is not installed.

    See Also
    --------
    sequence_estimator_checks : The same checks one by one, for parametrised tests.

    Notes
    -----
    A check applies by the tags of the estimator (:class:`~sklearn_seqlab.base.SequenceTags`): what they do
    not promise is not asked for, and must not be there. A run takes seconds to a minute, two of its checks
    start worker processes.

    Examples
    --------
    >>> from sklearn_seqlab import LinearChainCRF
    >>> check_sequence_estimator(LinearChainCRF())  # doctest: +SKIP
    """
    for name, check in sequence_estimator_checks(estimator):
        try:
            check(clone(estimator))
        except SkipTest as reason:
            warnings.warn(f"{name} was skipped: {reason}", SkipTestWarning, stacklevel=2)


def sequence_estimator_checks(estimator: Any) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Checks that apply to an estimator: scikit-learn's that need no data, then those of this library.

    Parameters
    ----------
    estimator : estimator
        An instance; its tags decide.

    Yields
    ------
    name : str
    check : callable
        Called with an estimator, which it leaves as it is; raises where something is wrong.

    Raises
    ------
    TypeError
        If the estimator is a class, or has no tags of this library.

    Examples
    --------
    >>> import pytest
    >>> from sklearn_seqlab import LinearChainCRF
    >>> cases = list(sequence_estimator_checks(LinearChainCRF()))
    >>> @pytest.mark.parametrize("name, check", cases, ids=[name for name, _ in cases])
    ... def test_contract(name, check):
    ...     check(LinearChainCRF())
    """
    if isinstance(estimator, type):
        raise TypeError(f"estimator is the class {estimator.__name__}; expected an instance.")
    if not hasattr(estimator, "__sklearn_tags__"):
        raise TypeError(f"estimator is {estimator!r:.60}; expected an instance of a sequence estimator.")
    tags = estimator.__sklearn_tags__()
    if not isinstance(tags, SequenceTags) or not isinstance(tags.target_tags, SequenceTargetTags):
        raise TypeError(
            f"The tags of {type(estimator).__name__} are no SequenceTags; derive it from SequenceLabeler."
        )
    for name, check in data_free_checks().items():
        yield name, _NamedCheck(check)
    for module in _IN_ORDER:
        for own in all_checks:
            if own.function.__module__ == module.__name__ and own.applies(estimator):
                yield own.name, own


class _NamedCheck:
    """A check of scikit-learn's, which wants the name of the class too."""

    def __init__(self, check: Callable[[str, Any], None]):
        self.check = check

    def __call__(self, estimator: Any) -> None:
        self.check(type(estimator).__name__, estimator)
