"""The only file that imports scikit-learn's private names: what a new version breaks, breaks here."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, Options, StrOptions
from sklearn.utils._set_output import _safe_set_output
from sklearn.utils.metadata_routing import _raise_for_params, _routing_enabled
from sklearn.utils.validation import _check_feature_names, _num_samples

__all__ = [
    "HasMethods",
    "Hidden",
    "Interval",
    "Options",
    "StrOptions",
    "_check_feature_names",
    "_fit_context",
    "_num_samples",
    "_raise_for_params",
    "_routing_enabled",
    "_safe_set_output",
]
