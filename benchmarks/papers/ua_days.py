"""House A by days: the hidden Markov model on the reference protocol, and how much one deal of days says.

The 28 days are dealt at random into 4 folds; an HMM with Bernoulli emissions and one smoothing count is trained on
one fold (7 days) and tested on the other three. A deal is the mean of its 4 trainings. The reference figures come
without a random state or a number of deals; their spreads (5.5 points where 20 trainings here have 14.6) are taken
for those of one deal. So each is compared with what deals give: "standard deviations off" is its distance from the
mean of deals, "deals at or above" the share of deals whose mean is not below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, versions, write_section
from sklearn.metrics import recall_score

from sklearn_seqlab import HMMClassifier
from sklearn_seqlab.datasets import fetch_kasteren
from sklearn_seqlab.model_selection import InverseKFold

ENCODINGS = {"raw": "raw", "change": "change", "last": "last", "change+last": ("change", "last")}
REFERENCE = {"raw": (47.1, 43.3), "change": (76.5, 61.9), "last": (90.4, 67.7), "change+last": (93.6, 76.7)}
FEW = 5


def scores() -> FoldScores:
    return FoldScores("ua_days", ["input", "deal", "fold"], ["micro", "macro"])


def run(options: Any) -> None:
    for name in options.inputs or ENCODINGS:
        X, y = fetch_kasteren(house="A", split="day", encoding=ENCODINGS[name], return_X_y=True)
        store = scores()
        for deal in range(options.first_deal, options.deals):
            folds = InverseKFold(4, shuffle=True, random_state=deal).split(X)
            for fold, (train, test) in enumerate(folds):
                model = HMMClassifier(emission="bernoulli").fit([X[i] for i in train], [y[i] for i in train])
                true = np.concatenate([y[i] for i in test]).astype(str)
                found = np.concatenate(model.predict([X[i] for i in test])).astype(str)
                micro = 100 * (true == found).mean()
                macro = 100 * recall_score(true, found, labels=np.unique(true), average="macro")
                store.add(input=name, deal=deal, fold=fold, micro=round(micro, 3), macro=round(macro, 3))
        store.save()
        print(f"{name} done", flush=True)


def write() -> None:
    store, lines = scores(), []
    for name in ENCODINGS:
        for what, reference in zip(("micro", "macro"), REFERENCE[name], strict=True):
            found: dict[int, list[float]] = {}
            for record in store.select(input=name):
                found.setdefault(int(record["deal"]), []).append(float(record[what]))
            if not found:
                continue
            means = np.array([np.mean(found[deal]) for deal in sorted(found)])
            within = np.concatenate([found[deal] for deal in range(min(FEW, len(found)))])
            center, spread = means.mean(), means.std(ddof=1)
            lines.append(
                [
                    name,
                    what,
                    f"{within.mean():.1f} ± {within.std(ddof=1):.1f}",
                    f"{center:.1f} ± {spread:.1f}",
                    f"{reference:.1f}",
                    f"{(reference - center) / spread:+.1f}",
                    f"{100 * (means >= reference).mean():.0f} %",
                ]
            )
    if not lines:
        return
    dates = sorted({record["date"] for record in store.records.values()})
    n_deals = len({record["deal"] for record in store.records.values()})
    header = [
        "input",
        "accuracy, %",
        f"{4 * FEW} trainings of deals 0 to {FEW - 1}",
        f"means of {n_deals} deals",
    ]
    header += ["reference, one deal", "standard deviations off", "deals at or above"]
    write_section(
        "ua_days",
        "## House A by days, hidden Markov model\n\n"
        f"{dates[-1]}. {versions()}. `python benchmarks/papers/run.py ua_days --deals {n_deals}`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\n" + markdown_table(header, lines),
    )
