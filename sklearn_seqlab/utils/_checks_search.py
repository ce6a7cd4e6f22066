"""Checks with scikit-learn's tools around the estimator: searches, folds by group, pipelines."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from sklearn_seqlab.metrics import macro_accuracy, micro_accuracy, neg_hamming_loss
from sklearn_seqlab.preprocessing import make_sequence_pipeline
from sklearn_seqlab.utils._check_tools import assert_same, check, fresh, hide, make_check_data

_SCORERS = {"micro": micro_accuracy, "macro": macro_accuracy, "hamming": neg_hamming_loss}


def regularisation_grid(estimator: Any) -> dict[str, list[Any]]:
    """Two values of the parameter that the tag ``regularisation`` names; empty if there is none."""
    name = get_tags(estimator).regularisation
    if name is None:
        return {}
    value = estimator.get_params()[name]
    if isinstance(value, Integral) and not isinstance(value, bool):
        return {name: [max(1, int(value) // 2), int(value)]}
    return {name: [0.1 * float(value), value] if isinstance(value, Real) else [value]}


@check()
def check_grid_search(estimator: Any) -> None:
    _search(fresh(estimator), regularisation_grid(estimator))


@check(lambda estimator: not get_tags(estimator).input_tags.categorical)
def check_grid_search_in_a_pipeline(estimator: Any) -> None:
    pipeline = make_sequence_pipeline(StandardScaler(), fresh(estimator))
    name = pipeline.steps[-1][0]
    grid = {f"{name}__{key}": values for key, values in regularisation_grid(estimator).items()}
    _search(pipeline, grid)


def _search(estimator: BaseEstimator, grid: dict[str, list[Any]]) -> None:
    bare = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    X, y = make_check_data(bare, n_sequences=12)
    labels: list[Any] = list(y)
    if get_tags(bare).target_tags.missing_labels:
        labels = list(hide(y, every=4))
    days = np.repeat(np.arange(4), 3)
    search = GridSearchCV(
        estimator, grid, scoring=_SCORERS, refit="micro", cv=GroupKFold(2), n_jobs=2, error_score="raise"
    )
    search.fit(X, labels, groups=days)
    for scorer in _SCORERS:
        scores = search.cv_results_[f"mean_test_{scorer}"]
        assert np.isfinite(scores).all(), f"GridSearchCV gives {scores} for {scorer}."
    micro, hamming = (search.cv_results_[f"mean_test_{name}"] for name in ("micro", "hamming"))
    assert np.allclose(micro, 1 + hamming), "Micro accuracy and Hamming loss of a search do not sum to one."
    assert len(search.predict(X)) == len(X), "A search does not predict one labelling per sequence."
    score = search.score(X, labels)
    assert 0 <= score <= 1, f"A search scores {score}."


@check()
def check_cross_validation(estimator: Any) -> None:
    X, y = make_check_data(estimator, n_sequences=12)
    days = np.repeat(np.arange(4), 3)
    folds = GroupKFold(2)
    table = cross_validate(
        fresh(estimator), X, y, groups=days, cv=folds, scoring=_SCORERS, error_score="raise"
    )
    for scorer in _SCORERS:
        assert np.isfinite(table[f"test_{scorer}"]).all(), f"cross_validate gives no number for {scorer}."
    predicted = cross_val_predict(fresh(estimator), X, y, groups=days, cv=folds)
    for train, test in folds.split(X, y, days):
        model = fresh(estimator).fit([X[s] for s in train], [y[s] for s in train])
        expected = model.predict([X[s] for s in test])
        message = "cross_val_predict does not give the predictions of the fold's own model."
        assert_same([predicted[s] for s in test], expected, message)
