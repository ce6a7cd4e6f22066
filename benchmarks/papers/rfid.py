"""A kitchen with at most one sensor on at a time, in place of seed 001's recordings from Leuven.

Twenty simulated mornings (`make_kitchen_rfid`, random state 0), 19 activities, 25 objects; leave one morning out. No
two sensors are ever on in the same step, so that a conjunction of inputs is never true. The claim to test: relational
features do not help either. "on": the object that is touched; "last": the object that was touched last, in the same
number of columns; "both". The seed's recordings are harder; its figures are of them and are not compared.
"""

from __future__ import annotations

import numpy as np
from _seed001 import Table
from sklearn.model_selection import LeaveOneOut

from sklearn_seqlab.datasets import make_kitchen_rfid


def last_touched(x: np.ndarray) -> np.ndarray:
    """One-hot of the sensor that was on last; no column before the first."""
    steps = np.where(x.any(axis=1), np.arange(len(x)), -1)
    at = np.maximum.accumulate(steps)
    return np.where((at >= 0)[:, None], x[at], 0.0)


def _load(name):
    X, y = make_kitchen_rfid(random_state=0, return_X_y=True)
    last = [last_touched(x) for x in X]
    return {"on": X, "last": last, "both": [np.hstack(pair) for pair in zip(X, last, strict=True)]}[name], y


def _split(X, deal):
    return LeaveOneOut().split(X)


TABLE = Table(
    "rfid",
    "Kitchen objects (stand-in for seed 001's Leuven)",
    __doc__.split("\n", 1)[1].strip(),
    {name: lambda n=name: _load(n) for name in ("on", "last", "both")},
    _split,
)
run, write = TABLE.run, TABLE.write
