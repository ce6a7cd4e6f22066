"""Checks of what estimators take: containers, kinds of labels, and messages about bad input."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any
from unittest import SkipTest

import joblib
import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from sklearn_seqlab.utils._check_tools import (
    VERBS,
    assert_close,
    assert_raises,
    assert_same,
    assert_unchanged,
    check,
    fitted,
    fresh,
    has,
    make_check_data,
    object_array,
    only_classes,
    responses,
    snapshot,
)


def _frames(X: list[np.ndarray], columns: tuple[str, ...] = ("p", "q", "r")) -> list[Any]:
    try:
        import pandas
    except ImportError as error:
        raise SkipTest("pandas is not installed") from error
    return [pandas.DataFrame(values, columns=list(columns)) for values in X]


def _assert_container(estimator: Any, kind: str, X: Any, y: Any, *, exact: bool = True) -> None:
    """``fit`` and ``predict`` on this container give what they give on lists of arrays."""
    model, plain_X, _ = fitted(estimator)
    other = fresh(estimator).fit(X, y)
    message = f"Input given as {kind} gives other predictions than lists of arrays."
    assert_same(other.predict(X), model.predict(plain_X), message)
    if exact:
        assert_same(responses(other, X), responses(model, plain_X), message)
    else:
        assert_close(responses(other, X), responses(model, plain_X), message, tol=1e-3)


@check()
def check_tuples(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    _assert_container(estimator, "tuples", tuple(X), tuple(tuple(labels.tolist()) for labels in y))


@check()
def check_lists_of_lists(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    X, y = [values.tolist() for values in X], [labels.tolist() for labels in y]
    _assert_container(estimator, "lists of lists", X, y)


@check()
def check_object_arrays(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    labels = object_array([part.astype(object) for part in y])
    _assert_container(estimator, "1-D object arrays", object_array(X), labels)


@check()
def check_memory_maps(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        joblib.dump((X, y), f"{folder}/data")
        mapped_X, mapped_y = joblib.load(f"{folder}/data", mmap_mode="r")
        _assert_container(estimator, "read-only memory maps", mapped_X, mapped_y)


@check(lambda estimator: get_tags(estimator).input_tags.sparse)
def check_sparse_matrices(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    for make in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
        _assert_container(estimator, make.__name__, [make(values) for values in X], y, exact=False)


@check(lambda estimator: not get_tags(estimator).input_tags.sparse)
def check_sparse_matrices_are_refused(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    with assert_raises((TypeError, ValueError), "sparse", "fit with sparse X"):
        fresh(estimator).fit([sparse.csr_array(values) for values in X], y)


@check()
def check_memory_layouts_and_dtypes(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    _assert_container(estimator, "Fortran-ordered arrays", [np.asfortranarray(values) for values in X], y)
    padded = [np.repeat(values, 2, axis=0)[::2] for values in X]
    _assert_container(estimator, "strided arrays", padded, y)
    single = [values.astype(np.float32) for values in X]
    expected = fresh(estimator).fit([values.astype(float) for values in single], y).predict(single)
    message = "float32 input gives other predictions than the same numbers as float64."
    assert_same(fresh(estimator).fit(single, y).predict(single), expected, message)


@check()
def check_data_frames(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    frames = _frames(X)
    _assert_container(estimator, "data frames", frames, y)
    model = fresh(estimator).fit(frames, y)
    names = getattr(model, "feature_names_in_", None)
    assert names is not None and list(names) == ["p", "q", "r"], f"feature_names_in_ is {names} after frames."
    with assert_raises(ValueError, "feature names", "predict with columns in another order"):
        model.predict(_frames(X, ("q", "p", "r")))
    with assert_raises(ValueError, "column|feature names", "fit with frames of unlike columns"):
        fresh(estimator).fit([*frames[:-1], *_frames(X[-1:], ("q", "p", "r"))], y)
    model = fresh(estimator, warm_start=False).fit(frames, y).fit(X, y)
    assert not hasattr(model, "feature_names_in_"), "feature_names_in_ outlives a fit on plain arrays."


@check()
def check_equal_lengths(estimator: Any) -> None:
    X, y = make_check_data(estimator, lengths=[5] * 8)
    model = fresh(estimator).fit(X, y)
    expected = model.predict(X)
    _assert_is_object_array(expected, [5] * 8, "predict on equally long sequences")
    stacked = fresh(estimator).fit(np.stack(X), np.stack(y))
    message = "One 3-D array gives other predictions than a list of its matrices."
    assert_same(stacked.predict(np.stack(X)), expected, message)


@check()
def check_shape_of_predictions(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    lengths = [len(values) for values in X]
    _assert_is_object_array(model.predict(X), lengths, "predict")
    for tag in ("probabilities", "max_marginals"):
        if getattr(get_tags(estimator), tag):
            verb = VERBS[tag]
            answer = getattr(model, verb)(X)
            _assert_is_object_array(answer, lengths, verb)
            for part, length in zip(answer, lengths, strict=True):
                assert part.shape == (length, 3), (
                    f"{verb} has shape {part.shape} for {length} steps, 3 labels."
                )


def _assert_is_object_array(answer: Any, lengths: list[int], what: str) -> None:
    assert isinstance(answer, np.ndarray) and answer.dtype == object and answer.ndim == 1, (
        f"{what} returns a {type(answer).__name__}, not a 1-D object array with one array per sequence."
    )
    assert all(isinstance(part, np.ndarray) for part in answer), f"{what} holds something else than arrays."
    assert [len(part) for part in answer] == lengths, f"{what} returns sequences of other lengths than X."


@check()
def check_kinds_of_labels(estimator: Any) -> None:
    for labels in (["x", "yy", "zzz"], [-1, 3, 7], [False, True]):
        X, y = make_check_data(estimator, labels=labels)
        model = fresh(estimator).fit(X, y)
        kind = np.asarray(labels).dtype.kind
        classes = only_classes(model)
        assert classes.tolist() == labels, f"classes_ is {classes}, not {labels}."
        for part in model.predict(X):
            assert part.dtype.kind == kind, f"Labels {labels} come back as {part.dtype}."
            assert set(part.tolist()) <= set(labels), f"predict gives {set(part.tolist())}, not {labels}."
        as_list = fresh(estimator).fit(X, [part.tolist() for part in y])
        message = f"Labels {labels} given as lists are learnt differently."
        assert_same(as_list.predict(X), model.predict(X), message)


@check(lambda estimator: not get_tags(estimator).holds_out)
def check_single_sequence(estimator: Any) -> None:
    X, y = make_check_data(estimator, lengths=[9])
    model = fresh(estimator).fit(X, y)
    _assert_is_object_array(model.predict(X), [9], "predict on one sequence")


@check(has("holds_out"))
def check_single_sequence_cannot_be_held_out(estimator: Any) -> None:
    X, y = make_check_data(estimator, lengths=[9])
    with assert_raises(ValueError, "sequence", "fit on one sequence, of which none can be held out"):
        fresh(estimator).fit(X, y)


@check()
def check_length_one_sequences(estimator: Any) -> None:
    X, y = make_check_data(estimator, lengths=[1] * 9)
    y = [np.array([label]) for label in "abcabcabc"]
    model = fresh(estimator).fit(X, y)
    _assert_is_object_array(model.predict(X), [1] * 9, "predict on sequences of one step")
    if get_tags(estimator).pairwise:
        shapes = {part.shape for part in model.predict_pairwise(X)}
        assert shapes == {(0, 3, 3)}, f"predict_pairwise of one step has shapes {shapes}, not (0, 3, 3)."


@check()
def check_single_label(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    y = [np.full(len(labels), "only") for labels in y]
    model = fresh(estimator).fit(X, y)
    assert_same(model.predict(X), y, "After a fit on one label, predict gives something else.")
    if get_tags(estimator).probabilities:
        ones = [np.ones((len(labels), 1)) for labels in y]
        assert_close(list(model.predict_proba(X)), ones, "The probability of the only label is not 1")


def _bad_fits(X: list[Any], y: list[Any]) -> dict[str, tuple[Any, Any, Any, str]]:
    """Case -> (X, y, kinds of error, what the message must match)."""
    nan, inf, narrow = ([values.copy() for values in X] for _ in range(3))
    nan[3][1, 2], inf[3][1, 2] = np.nan, np.inf
    narrow[3] = narrow[3][:, :2]
    short, mixed = list(y), [labels.tolist() for labels in y]
    short[3] = short[3][:-1]
    mixed[4][-1] = 7
    n = len(X[3])
    lengths = rf"^y\[3\] has {n - 1} labels, but X\[3\] has {n} time steps\.$"
    empty = [*X[:-1], X[-1][:0]]
    place = r"X\[3\].*{} at time step 1, column 2"
    both = (ValueError, TypeError)
    return {
        "a flat X": (X[1], y[1], both, "X"),
        "a number for X": (1.0, y, both, "X"),
        "an empty X": ([], [], ValueError, "X"),
        "no y": (X, None, both, "y"),
        "an empty sequence": (empty, [*y[:-1], y[-1][:0]], ValueError, rf"X\[{len(X) - 1}\].*0 time steps"),
        "no features": ([values[:, :0] for values in X], y, ValueError, r"X\[0\].*0 feature"),
        "one sequence with fewer features": (narrow, y, ValueError, r"X\[3\] has 2 features.*3 features"),
        "text for numbers": ([[["one"]], [["two"]]], [["a"], ["b"]], both, r"X\[0\]"),
        "an infinite value": (inf, y, ValueError, place.format("infinity")),
        "NaN": (nan, y, ValueError, place.format("NaN")),
        "y shorter than X": (X, y[:-1], ValueError, "y has 9.*X has 10"),
        "a short label sequence": (X, short, ValueError, lengths),
        "mixed labels": (X, mixed, TypeError, "(str.*int|int.*str)"),
        "real numbers for labels": (X, [np.linspace(0.1, 0.9, len(v)) for v in X], both, r"y\[0\]"),
        "one label array for all": (X, np.concatenate(y), both, r"y"),
    }


@check()
def check_bad_input_to_fit(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    before = snapshot(model)
    for case, (bad_X, bad_y, kinds, match) in _bad_fits(X, y).items():
        if case == "NaN" and get_tags(estimator).input_tags.allow_nan:
            continue
        with assert_raises(kinds, match, f"fit with {case}"):
            model.fit(bad_X, bad_y)
        assert_unchanged(model, before, f"fit with {case}")


@check()
def check_failed_first_fit_leaves_no_trace(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    for case, (bad_X, bad_y, _, _) in _bad_fits(X, y).items():
        if case == "NaN" and get_tags(estimator).input_tags.allow_nan:
            continue
        model = fresh(estimator)
        before = snapshot(model)
        with assert_raises((ValueError, TypeError), "", f"fit with {case}"):
            model.fit(bad_X, bad_y)
        assert_unchanged(model, before, f"a first fit with {case}")


def _calls(model: Any, y: Any) -> dict[str, Callable[[Any], Any]]:
    """Every verb, as a function of X alone."""
    others = {"log_likelihood": (y,), "predict_n_best": (2,)}
    # streams take no X; check_streams has their bad input
    verbs = [verb for tag, verb in VERBS.items() if getattr(get_tags(model), tag) and tag != "online"]
    calls = {verb: _call(getattr(model, verb), others.get(verb, ())) for verb in ["predict", *verbs]}
    calls["score"] = _call(model.score, (y,))
    return calls


def _call(method: Callable[..., Any], others: tuple[Any, ...]) -> Callable[[Any], Any]:
    return lambda X: method(X, *others)


@check()
def check_bad_input_to_predict(estimator: Any) -> None:
    model, X, y = fitted(estimator)
    before = snapshot(model)
    narrow, nan = [values[:, :2] for values in X], [values.copy() for values in X]
    nan[3][1, 2] = np.nan
    cases = {
        "fewer features than at fit": (narrow, "2 features.*3 features"),
        "a flat X": (X[1], "X"),
        "an empty X": ([], "X"),
        "NaN": (nan, r"X\[3\].*NaN at time step 1, column 2"),
    }
    for verb, call in _calls(model, y).items():
        for case, (bad, match) in cases.items():
            if case == "NaN" and get_tags(estimator).input_tags.allow_nan:
                continue
            with assert_raises((ValueError, TypeError), match, f"{verb} with {case}"):
                call(bad)
        assert_unchanged(model, before, f"a failing {verb}")


@check()
def check_every_verb_needs_fit(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    for verb, call in _calls(fresh(estimator), y).items():
        with assert_raises(NotFittedError, "", f"{verb} before fit"):
            call(X)
