"""Checks of ``fit``: what it returns, leaves alone and depends on."""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings
from copy import deepcopy
from typing import Any
from unittest import mock

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, cross_validate
from sklearn.utils import get_tags

from sklearn_seqlab import _parallel
from sklearn_seqlab.metrics import micro_accuracy_score
from sklearn_seqlab.utils._check_tools import (
    VERBS,
    assert_close,
    assert_raises,
    assert_same,
    assert_unchanged,
    check,
    first_difference,
    fitted,
    fresh,
    has_parameter,
    hide,
    make_check_data,
    only_classes,
    responses,
    snapshot,
    tight,
)


def _takes_weights(estimator: Any) -> bool:
    return "sample_weight" in inspect.signature(type(estimator).fit).parameters


@check()
def check_fit_returns_self(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    model = fresh(estimator)
    assert model.fit(X, y) is model, "fit does not return self."


@check()
def check_clone_and_params_round_trip(estimator: Any) -> None:
    params = estimator.get_params(deep=False)
    copy = clone(estimator)
    difference = first_difference(copy.get_params(deep=False), params, "params")
    assert difference is None, f"clone does not copy the parameters: {difference}"
    again = type(estimator)(**params)
    for name, value in params.items():
        assert again.get_params(deep=False)[name] is value, f"__init__ does not store {name} as it was given."
    model, _, _ = fitted(estimator)
    names = [name for name in vars(clone(model)) if name.endswith("_")]
    assert not names, f"clone of a fitted estimator keeps fitted attributes: {names}."


@check()
def check_verbs_are_those_of_the_tags(estimator: Any) -> None:
    tags = get_tags(estimator)
    for tag, verb in VERBS.items():
        promised, present = getattr(tags, tag), hasattr(estimator, verb)
        assert promised == present, (
            f"The tag {tag} is {promised}, but hasattr(estimator, {verb!r}) is {present}."
        )
    assert tags.estimator_type is None, (
        "The tag estimator_type must be None: scikit-learn treats y of tagged classifiers as one array."
    )
    assert not tags.input_tags.two_d_array, "The tag input_tags.two_d_array must be False: X is a list."
    assert tags.target_tags.required, "The tag target_tags.required must be True."


@check()
def check_fit_sets_the_common_attributes(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    assert model.n_features_in_ == X[0].shape[1], "n_features_in_ is not the number of columns of X."
    classes = only_classes(model)
    assert isinstance(classes, np.ndarray), "classes_ is not an array."
    assert classes.tolist() == ["a", "b", "c"], f"classes_ is {classes}, not the sorted labels."
    params = fresh(estimator).get_params(deep=False)
    for name, value in model.get_params(deep=False).items():
        difference = first_difference(value, params[name], name)
        assert difference is None, f"fit changes the parameter: {difference}"
    public = [n for n in vars(model) if not n.endswith("_") and not n.startswith("_") and n not in params]
    assert not public, f"fit sets public attributes without a trailing underscore: {public}."


@check()
def check_fit_is_idempotent(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    model = fresh(estimator, warm_start=False).fit(X, y)
    before = snapshot(model)
    assert_unchanged(model.fit(X, y), before, "fit for a second time on the same data")
    assert_unchanged(
        fresh(estimator, warm_start=False).fit(X, y), before, "fit of a second copy on the same data"
    )


@check()
def check_fit_forgets_earlier_data(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    other_X, other_y = make_check_data(estimator, labels=[0, 1], seed=1)
    other_X = [values[:, :2] for values in other_X]
    model = fresh(estimator, warm_start=False).fit(other_X, other_y)
    expected = fresh(estimator, warm_start=False).fit(X, y)
    assert_unchanged(model.fit(X, y), vars(expected), "an earlier fit on other data")


@check()
def check_inputs_are_not_written_to(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    if get_tags(estimator).target_tags.missing_labels:
        X = X + [values.copy() for values in X]
        y = y + [np.array(labels, dtype=object) for labels in hide(y, every=3)]
    weight = np.linspace(0.5, 2.0, len(X))
    given: dict[str, Any] = {"X": X, "y": y, "sample_weight": weight}
    before = deepcopy(given)
    model = fresh(estimator)
    model = model.fit(X, y, sample_weight=weight) if _takes_weights(estimator) else model.fit(X, y)
    model.predict(X)
    model.score(X, y)
    for tag in ("probabilities", "max_marginals"):
        if getattr(get_tags(estimator), tag):
            getattr(model, VERBS[tag])(X)
    if get_tags(estimator).target_tags.missing_labels:
        given["y_observed"] = hide(model.predict(X))
        before["y_observed"] = deepcopy(given["y_observed"])
        model.predict(X, y_observed=given["y_observed"])
    difference = first_difference(given, before, "given")
    assert difference is None, f"An input was written to: {difference}"


@check()
def check_read_only_input(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    weight = np.linspace(0.5, 2.0, len(X))
    expected = fresh(estimator).fit(X, y).predict(X)
    for array in (*X, *y, weight):
        array.flags.writeable = False
    assert_same(fresh(estimator).fit(X, y).predict(X), expected, "Read-only arrays give other predictions.")
    if _takes_weights(estimator):
        fresh(estimator).fit(X, y, sample_weight=weight)


@check()
def check_predictions_are_the_callers_own(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    before = snapshot(model)
    expected = model.predict(X)
    for part in model.predict(X):
        part[:] = part[0]
    for part in responses(model, X):
        part[...] = part.ravel()[0]
    assert_unchanged(model, before, "writing to a prediction")
    assert_same(model.predict(X), expected, "Writing to a prediction changes the next one.")


@check(has_parameter("n_jobs"))
def check_n_jobs_changes_no_bit(estimator: Any) -> None:
    X, y = make_check_data(estimator, n_sequences=12)
    with mock.patch.object(_parallel, "_CHUNK_SIZE", 30):
        one, two = (fresh(estimator, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
        expected = snapshot(one) | {"n_jobs": 2}
        assert_unchanged(two, expected, "n_jobs=2 in place of 1 at fit")
        assert_same(two.predict(X), one.predict(X), "predict depends on n_jobs.")
        assert_same(responses(two, X), responses(one, X), "Probabilities or scores depend on n_jobs.")
        if get_tags(estimator).sampling:
            draws = [model.sample(X, n_samples=2, random_state=3) for model in (one, two)]
            assert_same(draws[1], draws[0], "sample depends on n_jobs.")


@check()
def check_order_of_sequences_does_not_matter(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    order = np.random.RandomState(1).permutation(len(X))
    model = tight(estimator).fit(X, y)
    moved_X, moved_y = [X[s] for s in order], [y[s] for s in order]
    expected = model.predict(X)
    assert_same(model.predict(moved_X), expected[order], "Permuted sequences are not labelled alike.")
    one_by_one = [model.predict([values])[0] for values in X]
    assert_same(one_by_one, expected, "A sequence is labelled differently alone and among others.")
    if get_tags(estimator).non_deterministic:
        return
    moved = tight(estimator).fit(moved_X, moved_y)
    message = "fit depends on the order of the sequences"
    assert_close(responses(moved, X), responses(model, X), message, tol=1e-2)
    if isinstance(getattr(model, "coef_", None), np.ndarray):
        assert_close([moved.coef_], [model.coef_], f"{message}: coef_ differs", tol=1e-2)


# copies may fall on both sides of a random split, where weights cannot
@check(_takes_weights, lambda estimator: not get_tags(estimator).non_deterministic)
def check_sample_weight_counts_like_repetition(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    weight = np.ones(len(X))
    weight[:3] = 3
    model = tight(fresh(estimator, class_weight=None))
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X + 2 * X[:3], y + 2 * y[:3])
    message = "A weight of 3 is not the same as three copies"
    assert_close(responses(weighted, X), responses(repeated, X), message, tol=1e-2)


@check(_takes_weights)
def check_zero_weight_removes_a_sequence(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    # copies, so that what the data contains (labels, pairs, moves) is the same with and without them
    weight = np.r_[np.ones(len(X)), np.zeros(3)]
    model = tight(fresh(estimator, class_weight=None))
    weighted = clone(model).fit(X + X[-3:], y + y[-3:], sample_weight=weight)
    removed = clone(model).fit(X, y)
    message = "A weight of 0 is not the same as removal"
    assert_close(responses(weighted, X), responses(removed, X), message, tol=1e-2)


@check(_takes_weights)
def check_bad_sample_weight_is_refused(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    before = snapshot(model)
    ones = np.ones(len(X))
    cases = {
        "a negative weight": (np.r_[ones[:-1], -1.0], "sample_weight"),
        "a weight of NaN": (np.r_[ones[:-1], np.nan], "sample_weight"),
        "an infinite weight": (np.r_[ones[:-1], np.inf], "sample_weight"),
        "a weight too few": (ones[:-1], "sample_weight"),
        "one weight per time step": ([np.ones(len(labels)) for labels in y], ""),
        "weights that are all zero": (0 * ones, "sample_weight"),
    }
    for case, (weight, match) in cases.items():
        with assert_raises((ValueError, TypeError), match, f"fit with {case}"):
            model.fit(X, y, sample_weight=weight)
        assert_unchanged(model, before, f"fit with {case}")


@check(_takes_weights)
def check_sample_weight_is_routed(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    weight = np.linspace(0.1, 3.0, len(X))
    folds = KFold(2)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = fresh(estimator).set_fit_request(sample_weight=True)
        if "sample_weight" in inspect.signature(type(estimator).score).parameters:
            routed.set_score_request(sample_weight=False)
        found = cross_validate(
            routed, X, y, cv=folds, params={"sample_weight": weight}, return_estimator=True
        )["estimator"]
    for model, (train, _) in zip(found, folds.split(X), strict=True):
        part = [X[s] for s in train], [y[s] for s in train]
        expected = fresh(estimator).fit(*part, sample_weight=weight[train])
        message = "cross_validate does not route sample_weight to fit"
        assert_close(responses(model, X), responses(expected, X), message)


@check()
def check_score_is_micro_accuracy(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    expected = micro_accuracy_score(y, model.predict(X))
    assert model.score(X, y) == expected, "score is not the share of right steps."
    hidden = hide(y)
    expected = micro_accuracy_score(hidden, model.predict(X))
    assert model.score(X, hidden) == expected, "score counts steps without a label."


@check(lambda estimator: not (get_tags(estimator).input_tags.categorical or get_tags(estimator).fixed_units))
def check_scale_of_features_does_not_matter(estimator: Any) -> None:
    X, y = make_check_data(estimator, n_sequences=15)
    expected = fresh(estimator).fit(X, y).score(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        large = [1e3 * values for values in X]
        found = fresh(estimator).fit(large, y).score(large, y)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned or found >= expected - 0.05, (
        f"Features multiplied by 1000 give a training accuracy of {found:.2f} instead of {expected:.2f}, "
        "and no ConvergenceWarning."
    )


@check()
def check_learns_something(estimator: Any) -> None:
    X, y = make_check_data(estimator, n_sequences=20)
    if get_tags(estimator).target_tags.required:
        labels = np.concatenate(y)
        most_frequent = max(np.mean(labels == label) for label in np.unique(labels))
        score = fresh(estimator).fit(X, y).score(X, y)
        assert score >= most_frequent, (
            f"Training accuracy is {score:.2f}; the most frequent label alone reaches {most_frequent:.2f}."
        )


@check(has_parameter("verbose"))
def check_quiet_unless_verbose(estimator: Any) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        model, X, _ = fitted(estimator, verbose=0)
        model.predict(X)
    printed = out.getvalue() + err.getvalue()
    assert not printed, f"verbose=0 prints {printed!r:.80}."
