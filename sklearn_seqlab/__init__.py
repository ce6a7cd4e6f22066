"""Sequence labelling with a scikit-learn interface: a label for every time step of every sequence."""

from sklearn_seqlab._version import __version__

__all__ = ["__version__"]
