"""The level that the specification of the chain models gives for house A, 28 days dealt into 4 folds."""

import numpy as np
import pytest

from sklearn_seqlab import HMMClassifier
from sklearn_seqlab.datasets import fetch_kasteren
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score
from sklearn_seqlab.model_selection import InverseKFold

# micro accuracy, its deviation over folds, macro accuracy; one random deal of 4 folds
SPECIFIED = {
    "raw": (47.1, 10.2, 43.3),
    "change": (76.5, 5.5, 61.9),
    "last": (90.4, 1.5, 67.7),
    ("change", "last"): (93.6, 0.6, 76.7),
}


@pytest.mark.parametrize("encoding", SPECIFIED, ids=str)
def test_accuracy_on_house_a(data_home, encoding):
    data = fetch_kasteren("A", encoding=encoding, data_home=data_home, download_if_missing=False)
    found = []
    for deal in range(5):
        for train, test in InverseKFold(4, shuffle=True, random_state=deal).split(data.data):
            model = HMMClassifier().fit([data.data[i] for i in train], [data.target[i] for i in train])
            truth, predicted = [data.target[i] for i in test], model.predict([data.data[i] for i in test])
            scores = micro_accuracy_score(truth, predicted), macro_accuracy_score(truth, predicted)
            found.append(100 * np.array(scores))
    micro, deviation, macro = SPECIFIED[encoding]
    mean, own = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    # two standard errors of the difference: theirs over 4 trainings, ours over 20
    assert abs(mean[0] - micro) <= 2 * np.hypot(deviation / np.sqrt(4), own[0] / np.sqrt(20))
    assert abs(mean[1] - macro) <= 2 * np.hypot(own[1] / np.sqrt(4), own[1] / np.sqrt(20))
