"""Likelihoods of forty random chains in every layout of features."""

import numpy as np
from scipy import sparse

from sklearn_seqlab.objectives import ChainLogLikelihood, observed_pairs
from sklearn_seqlab.sequences import encode_training_labels, pack

LAYOUTS = ["dense", "sparse", "sparse of ones", "restricted"]


def make_objective(rng, layout="dense", partial=False, cost=False, scale=1.0, **options):
    X, y = [], []
    for _ in range(40):
        n_steps = rng.integers(1, 9)
        codes = rng.integers(0, 3, n_steps)
        values = scale * (rng.normal(size=(n_steps, 4)) + np.eye(4)[codes])
        X.append(np.where(np.abs(values) > 0.5 * scale, values, 0.0))
        labels = codes.astype(object)
        if partial:
            labels[rng.random(n_steps) < 0.3] = None
            if n_steps > 2:
                labels[1] = {0, 2}
        y.append(labels)
    if layout == "sparse of ones":
        X = [(values > 0).astype(float) for values in X]
    if layout != "dense":
        X = [sparse.csr_array(values) for values in X]
    batch = pack(X)
    labels = encode_training_labels(y, batch.offsets)
    return ChainLogLikelihood(
        batch,
        labels,
        weight=rng.random(40) + 0.5,
        C=2.0,
        allowed_transitions=options.pop("allowed_transitions", np.ones((3, 3), dtype=bool)),
        pairs=observed_pairs(batch, labels, 1) if layout == "restricted" else None,
        cost=1.0 - np.eye(3) if cost else None,
        **options,
    )
