"""The only file that imports scikit-learn's private names: what a new version breaks, breaks here."""

from collections.abc import Callable
from typing import Any

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, Options, RealNotInt, StrOptions
from sklearn.utils._set_output import _safe_set_output
from sklearn.utils.metadata_routing import _raise_for_params, _routing_enabled
from sklearn.utils.validation import _check_feature_names, _check_sample_weight, _num_samples

__all__ = [
    "HasMethods",
    "Hidden",
    "Interval",
    "Options",
    "RealNotInt",
    "StrOptions",
    "_check_feature_names",
    "_check_sample_weight",
    "_fit_context",
    "_num_samples",
    "_raise_for_params",
    "_routing_enabled",
    "_safe_set_output",
    "data_free_checks",
]


def data_free_checks() -> dict[str, Callable[[str, Any], None]]:
    """scikit-learn's own estimator checks that pass no data to ``fit``, or only data that it never reads.

    They are called as ``check(name, estimator)``. All of them exist from scikit-learn 1.6 to 1.9.
    """
    # here, since the module of checks imports half of scikit-learn
    from sklearn.utils.estimator_checks import (
        check_do_not_raise_errors_in_init_or_set_params,
        check_estimator_cloneable,
        check_estimator_repr,
        check_estimator_tags_renamed,
        check_get_params_invariance,
        check_mixin_order,
        check_no_attributes_set_in_init,
        check_param_validation,
        check_parameters_default_constructible,
        check_set_params,
        check_valid_tag_types,
    )

    checks = (
        check_estimator_cloneable,
        check_valid_tag_types,
        check_estimator_repr,
        check_no_attributes_set_in_init,
        check_parameters_default_constructible,
        check_mixin_order,
        check_get_params_invariance,
        check_set_params,
        check_do_not_raise_errors_in_init_or_set_params,
        check_param_validation,  # parameters are refused before the data is looked at
        check_estimator_tags_renamed,
    )
    return {check.__name__: check for check in checks}
