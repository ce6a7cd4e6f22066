"""Simulators with a known truth, and fetchers of public data."""

from sklearn_seqlab.datasets._kitchen_trajectories import make_kitchen_trajectories
from sklearn_seqlab.datasets._smart_home import make_smart_home

__all__ = ["make_kitchen_trajectories", "make_smart_home"]
