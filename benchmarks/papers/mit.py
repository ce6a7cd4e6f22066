"""Seed 001's tables of the MIT apartments: 16 days of 1,440 minutes, trained on a quarter, tested on the rest.

The days are dealt at random into 4 folds; a model is trained on one (4 days) and tested on the other three. Labels are
the 7 headings and, three quarters of the time and more, none: idle is a class, or with "dropped" is taken out. Look at
the majority before anything else.
"""

from __future__ import annotations

from _seed001 import Table, without_idle

from sklearn_seqlab.datasets import fetch_mit_placelab
from sklearn_seqlab.model_selection import InverseKFold


def _load(subject, encoding, dropped):
    X, y = fetch_mit_placelab(subject, level="heading", encoding=encoding, return_X_y=True)
    return without_idle(X, y) if dropped else (X, y)


def _split(X, deal):
    return InverseKFold(4, shuffle=True, random_state=deal).split(X)


TABLE = Table(
    "mit",
    "MIT apartments (seed 001's MIT 1 and 2)",
    __doc__.split("\n", 1)[1].strip(),
    {
        f"subject {subject}, {encoding}" + (", dropped" if dropped else ""): (
            lambda s=subject, e=encoding, d=dropped: _load(s, e, d)
        )
        for subject in (1, 2)
        for encoding in ("change", "raw")
        for dropped in (False, True)
    },
    _split,
    {
        "subject 1, change": {
            "StructuredSVM": "75.0 / 27.0",
            "LinearChainCRF": "65.5 / 31.2",
            "CRFFeatureInduction": "68.5 / 29.8",
            "StructHKLClassifier": "82.9 / 28.9",
        },
        "subject 2, change": {
            "StructuredSVM": "63.5 / 25.3",
            "LinearChainCRF": "50.2 / 27.4",
            "CRFFeatureInduction": "51.9 / 26.1",
            "StructHKLClassifier": "67.2 / 24.3",
        },
    },
)
run, write = TABLE.run, TABLE.write
