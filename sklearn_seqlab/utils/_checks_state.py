"""Checks of the fitted state: what it holds, how it travels, and that threads may share it."""

from __future__ import annotations

import pickle
import sys
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import get_tags

from sklearn_seqlab._version import __version__
from sklearn_seqlab.utils._check_tools import (
    assert_same,
    assert_unchanged,
    check,
    fitted,
    fresh,
    make_check_data,
    responses,
    snapshot,
)

_PLAIN = (str, bytes, bool, int, float, complex, type(None), np.generic)


@check()
def check_pickle(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    again = pickle.loads(pickle.dumps(model))
    assert_unchanged(again, vars(model), "a pickle round trip")
    assert_same(again.predict(X), model.predict(X), "A pickled estimator predicts differently.")
    assert_same(responses(again, X), responses(model, X), "A pickled estimator answers differently.")


@check()
def check_pickle_names_its_version(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    state = model.__getstate__()
    stamp = state.get("_sklearn_seqlab_version")
    assert stamp == __version__, (
        f"The pickled state has _sklearn_seqlab_version {stamp!r}, not {__version__!r}."
    )
    for version in ("0.0.0-other", None):
        other = {key: value for key, value in state.items() if key != "_sklearn_seqlab_version"}
        if version is not None:
            other["_sklearn_seqlab_version"] = version
        copy = object.__new__(type(model))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            copy.__setstate__(other)
        assert any(issubclass(w.category, InconsistentVersionWarning) for w in caught), (
            f"Loading a state of version {version} does not warn."
        )
        assert_same(copy.predict(X), model.predict(X), "A state of another version predicts differently.")


@check()
def check_joblib_memory_map(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        joblib.dump(model, f"{folder}/model")
        mapped = joblib.load(f"{folder}/model", mmap_mode="r")
        message = "An estimator whose arrays are read-only memory maps answers differently."
        assert_same(mapped.predict(X), model.predict(X), message)
        assert_same(responses(mapped, X), responses(model, X), message)
        del mapped


@check()
def check_repr(estimator: Any) -> None:
    model, _, _ = fitted(estimator)
    for one in (model, fresh(estimator)):
        assert type(estimator).__name__ in repr(one), f"repr is {repr(one)!r:.60}."
        assert type(estimator).__name__ in one._repr_html_(), "The HTML repr does not name the class."


@check()
def check_fitted_attributes_are_plain(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    model = fresh(estimator).fit(X, y)
    params = model.get_params(deep=False)
    for name, value in vars(model).items():
        if name not in params:
            strange = next(_strange(value, name), None)
            assert strange is None, (
                f"{strange}: fitted attributes hold arrays, sparse matrices, text and numbers only."
            )


def _strange(value: Any, path: str) -> Iterator[str]:
    """Parts of a fitted attribute that could not be loaded without trusting code."""
    if isinstance(value, list | tuple | set | frozenset):
        for k, item in enumerate(value):
            yield from _strange(item, f"{path}[{k}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strange(key, f"a key of {path}")
            yield from _strange(item, f"{path}[{key!r}]")
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            for item in value.ravel():
                yield from _strange(item.tolist() if isinstance(item, np.void) else item, f"{path}[...]")
    elif isinstance(value, BaseEstimator) or type(value).__module__.startswith("sklearn.gaussian_process."):
        for name, item in vars(value).items():
            yield from _strange(item, f"{path}.{name}")
    elif not (isinstance(value, _PLAIN) or sparse.issparse(value)):
        yield f"{path} is a {type(value).__name__}"


@check(lambda estimator: not get_tags(estimator).keeps_rows)
def check_training_rows_are_not_kept(estimator: Any) -> None:
    X, y = make_check_data(estimator)
    n_copies = 30
    small = len(pickle.dumps(fresh(estimator).fit(X, y)))
    large = len(pickle.dumps(fresh(estimator).fit(X * n_copies, y * n_copies)))
    # eight bytes per row and label sequence would show; a longer loss curve or rule list would not
    n_rows = (n_copies - 1) * sum(len(values) for values in X)
    assert large - small < 4 * n_rows, (
        f"The pickle grows by {large - small} bytes with {n_rows} more training rows: does it hold the data? "
        "(Kernel models say so by the tag keeps_rows.)"
    )


@check()
def check_predict_changes_nothing(estimator: Any) -> None:
    model, X, _ = fitted(estimator)
    before = snapshot(model)
    model.predict(X)
    responses(model, X)
    assert_unchanged(model, before, "predict")


@check()
def check_threads_may_share_a_fitted_estimator(estimator: Any) -> None:
    model, _, _ = fitted(estimator)
    jobs = [make_check_data(estimator, n_sequences=3 + k, seed=k)[0] for k in range(8)]
    expected = [(model.predict(X), responses(model, X)) for X in jobs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns as often as possible
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda X: (model.predict(X), responses(model, X)), jobs * 5))
    finally:
        sys.setswitchinterval(interval)
    for k, (labels, values) in enumerate(found):
        message = "Several threads that predict at the same time get other answers than one."
        assert_same(labels, expected[k % 8][0], message)
        assert_same(values, expected[k % 8][1], message)
