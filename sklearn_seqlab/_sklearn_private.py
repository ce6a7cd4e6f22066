"""The only file that imports scikit-learn's private names: what a new version breaks, breaks here."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, Options, StrOptions
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
]
