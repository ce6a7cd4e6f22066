"""Checks of partial knowledge: missing labels, sets of candidates, labels never seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from sklearn_seqlab.utils._check_tools import (
    assert_close,
    assert_raises,
    assert_same,
    assert_unchanged,
    check,
    fitted,
    fresh,
    has,
    has_target,
    hide,
    make_check_data,
    only_classes,
    responses,
    snapshot,
)


def _with_partial(
    X: list[np.ndarray], y: list[np.ndarray], partial: list[list[Any]]
) -> tuple[list[Any], list[Any]]:
    """Training data of complete sequences and the same ones with less known.

    The complete ones show every move, for models that allow only moves they have seen.
    """
    return [*X, *X], [*y, *partial]


def _candidates(y: list[np.ndarray]) -> list[list[Any]]:
    """Every second label replaced by a set of it and another."""
    other = {"a": "b", "b": "c", "c": "a"}
    return [
        [{label, other[label]} if t % 2 else label for t, label in enumerate(labels.tolist())] for labels in y
    ]


@check(has_target("missing_labels"))
def check_missing_labels_at_fit(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    rows, hidden = _with_partial(X, y, hide(y, every=3))
    expected = fresh(estimator).fit(rows, hidden)
    classes = only_classes(expected)
    assert classes.tolist() == ["a", "b", "c"], f"classes_ is {classes}."
    for s, labels in enumerate(expected.predict(X)):
        assert set(labels.tolist()) <= {"a", "b", "c"}, (
            f"predict gives {set(labels.tolist())} in sequence {s}."
        )
    spellings = {"NaN": float("nan"), "a NumPy NaN": np.float64("nan")}
    for name, missing in spellings.items():
        other = [[missing if label is None else label for label in labels] for labels in hidden]
        message = f"Labels missing as {name} are learnt differently from None."
        assert_same(responses(fresh(estimator).fit(rows, other), X), responses(expected, X), message)
    numbers = {"a": 0.0, "b": 1.0, "c": 2.0, None: np.nan}
    model = fresh(estimator).fit(rows, [[numbers[label] for label in labels] for labels in hidden])
    dtype = only_classes(model).dtype
    assert dtype.kind == "i", f"Integers beside NaN become labels of {dtype}."
    fresh(estimator).fit([*rows, X[0]], [*hidden, [None] * len(X[0])])


@check(has_target("missing_labels"))
def check_missing_labels_are_not_guessed_as_a_class(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    half = [labels.astype(object) for labels in y]
    for labels in half:
        labels[labels == "c"] = None
    model = fresh(estimator).fit(X, half)
    classes = only_classes(model)
    assert classes.tolist() == ["a", "b"], f"A label that is always missing is in {classes}."


@check()
def check_all_labels_missing_raises(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    before = snapshot(model)
    with assert_raises((ValueError, TypeError), "y", "fit with all labels missing"):
        model.fit(X, [[None] * len(labels) for labels in y])
    assert_unchanged(model, before, "fit with all labels missing")


@check(lambda estimator: not get_tags(estimator).target_tags.missing_labels)
def check_missing_labels_are_refused(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    with assert_raises((ValueError, TypeError), r"y", "fit with missing labels"):
        fresh(estimator).fit(X, hide(y))


@check(has_target("candidate_sets"))
def check_candidate_sets_at_fit(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    model = fresh(estimator).fit(*_with_partial(X, y, _candidates(y)))
    classes = only_classes(model)
    assert classes.tolist() == ["a", "b", "c"], f"classes_ is {classes} after sets of candidates."
    single = [[{label} for label in labels.tolist()] for labels in y]
    message = "A set of one candidate is learnt differently from a known label"
    expected = responses(fresh(estimator).fit(X, y), X)
    assert_close(responses(fresh(estimator).fit(X, single), X), expected, message, tol=1e-3)
    with assert_raises(ValueError, r"y\[0\]\[0\].*empty set", "fit with an empty set of candidates"):
        fresh(estimator).fit(X, [[set()] * len(labels) for labels in y])


@check(has_target("missing_labels"))
def check_known_labels_come_back(estimator: Any) -> None:
    for decoding in ("map", "marginal"):
        model, X, y = fitted(estimator, decoding=decoding)
        observed = [known if s else None for s, known in enumerate(hide(y))]
        plain = model.predict(X)
        wrong = sum(int((a != b).sum()) for a, b in zip(plain, y, strict=True))
        assert wrong, "The data of this check are too easy: known labels change nothing."
        for s, labels in enumerate(model.predict(X, y_observed=observed)):
            for t, known in enumerate(observed[s] or []):
                assert known is None or labels[t] == known, (
                    f"y_observed[{s}][{t}] is {known!r}, but {decoding} decoding gives {labels[t]!r}."
                )
        assert_same(
            model.predict(X, y_observed=y), y, "A wholly known labelling does not come back from predict."
        )
        free = model.predict(X, y_observed=[None] * len(X))
        assert_same(free, plain, "y_observed that knows nothing changes the prediction.")
        if "decoding" not in estimator.get_params(deep=False):
            return


@check(has_target("missing_labels"), has("probabilities"))
def check_known_labels_have_probability_one(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    observed = hide(y)
    classes = only_classes(model).tolist()
    for s, proba in enumerate(model.predict_proba(X, y_observed=observed)):
        assert np.allclose(proba.sum(axis=1), 1), "With y_observed, probabilities do not sum to one."
        for t, known in enumerate(observed[s]):
            if known is not None:
                value = proba[t, classes.index(known)]
                assert abs(value - 1) < 1e-9, f"A known label has probability {value}."


@check(has_target("candidate_sets"))
def check_candidate_sets_are_respected(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    observed = []
    for labels, free in zip(y, model.predict(X), strict=True):
        # the true label and, where predict is wrong, another that it does not give
        pairs = zip(labels.tolist(), free.tolist(), strict=True)
        observed.append([{true, min({"a", "b", "c"} - {true, wrong})} for true, wrong in pairs])
    for s, labels in enumerate(model.predict(X, y_observed=observed)):
        for t, fits in enumerate(observed[s]):
            assert labels[t] in fits, f"predict gives {labels[t]!r} where y_observed[{s}][{t}] allows {fits}."
    if get_tags(estimator).probabilities:
        for s, proba in enumerate(model.predict_proba(X, y_observed=observed)):
            for t, fits in enumerate(observed[s]):
                outside = [label not in fits for label in only_classes(model).tolist()]
                assert not proba[t, outside].any(), f"A label outside {fits} has a probability above zero."


@check(has_target("missing_labels"))
def check_bad_known_labels_are_refused(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    before = snapshot(model)
    unseen, short = [labels.tolist() for labels in y], [labels.tolist() for labels in y]
    unseen[3][1] = "never"
    short[3] = short[3][:-1]
    cases = {
        "a label never seen": (unseen, ValueError, r"y_observed\[3\]\[1\].*never"),
        "a sequence too few": (y[:-1], ValueError, "y_observed"),
        "a label too few": (short, ValueError, r"y_observed\[3\] has \d+ labels, but X\[3\] has \d+ time"),
        "labels of another kind": (
            [np.zeros(len(v), dtype=int) for v in X],
            (ValueError, TypeError),
            "y_obs",
        ),
    }
    for case, (observed, kinds, match) in cases.items():
        with assert_raises(kinds, match, f"predict with y_observed of {case}"):
            model.predict(X, y_observed=observed)
        assert_unchanged(model, before, f"predict with y_observed of {case}")


@check()
def check_unseen_label_is_wrong_in_score(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    right = model.predict(X)
    right[3] = np.array(["never"] * len(X[3]))
    n_total = sum(len(values) for values in X)
    expected = 1 - len(X[3]) / n_total
    score = model.score(X, right)
    assert abs(score - expected) < 1e-12, (
        f"A label never seen counts as right: score {score}, not {expected}."
    )


@check(has("likelihood"))
def check_unseen_label_has_no_likelihood(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    expected = model.log_likelihood(X, y)
    y[3] = y[3].astype(object)
    y[3][1] = "never"
    found = model.log_likelihood(X, y)
    assert found[3] == -np.inf, f"The log-likelihood of a label never seen is {found[3]}, not minus infinity."
    rest = np.arange(len(X)) != 3
    assert_close([found[rest]], [expected[rest]], "A label never seen changes other sequences")
