"""Seed 001's table of house A ("UA"): 40 blocks of 1,000 minutes, trained on a quarter, tested on the rest.

The 40 blocks are dealt at random into 4 folds; a model is trained on one fold (10 blocks) and tested on the
other three (30 blocks), for each fold and each of several deals. Whatever strength of regularisation a model
has is chosen by grid search inside the training blocks. All models see the same inputs: one encoding of the
sensors, plain or in a window of the steps two before to two after. Minutes without an activity (19 %) are a class, or
with "dropped" are taken out of the blocks, which leaves 7 activities.
"""

from __future__ import annotations

from _seed001 import Table, without_idle

from sklearn_seqlab.datasets import fetch_kasteren
from sklearn_seqlab.model_selection import InverseKFold

ENCODINGS = {"raw": "raw", "change": "change", "last": "last", "change+last": ("change", "last")}


def _load(encoding, dropped):
    X, y = fetch_kasteren(house="A", split=1000, encoding=encoding, return_X_y=True)
    return without_idle(X, y) if dropped else (X, y)


def _split(X, deal):
    return InverseKFold(4, shuffle=True, random_state=deal).split(X)


TABLE = Table(
    "ua",
    "House A (seed 001's UA)",
    __doc__.split("\n", 1)[1].strip(),
    {
        name + (", dropped" if dropped else ""): lambda e=encoding, d=dropped: _load(e, d)
        for dropped in (False, True)
        for name, encoding in ENCODINGS.items()
    },
    _split,
    {
        "raw": {
            "HMMClassifier": "25.4 / 21.8",
            "RuleHMM": "29.5 / 16.4",
            "GreedyInductionHMM": "58.1 / 26.8",
            "StructuredSVM": "58.0 / 35.0",
            "LinearChainCRF": "48.5 / 20.7",
            "CRFFeatureInduction": "59.5 / 33.6",
            "RuleEnsembleHKL": "46.3 / 23.1",
            "RuleEnsembleHKL, StructuredSVM": "55.7 / 38.6",
            "StructHKLClassifier": "64.0 / 32.0",
            "BoostedCRF, trees of patterns": "56.2 / 35.4",
            "StructHKLClassifier, patterns (enumAF)": "60.4 / 30.4",
            "SubsequenceKernelSVM": "65.3 / 29.3",
        }
    },
    ("plain", "window"),
)
run, write = TABLE.run, TABLE.write
