"""Simulators with a known truth, and fetchers of public data."""

from sklearn_seqlab.datasets._conll2000 import fetch_conll2000
from sklearn_seqlab.datasets._crfpp import fetch_crfpp
from sklearn_seqlab.datasets._kasteren import fetch_kasteren
from sklearn_seqlab.datasets._kitchen_trajectories import make_kitchen_trajectories
from sklearn_seqlab.datasets._smart_home import make_smart_home

__all__ = [
    "fetch_conll2000",
    "fetch_crfpp",
    "fetch_kasteren",
    "make_kitchen_trajectories",
    "make_smart_home",
]
