"""The inputs of the worked numbers of hierarchical kernel learning, whose results tests state."""

import numpy as np


def toy_conjunctions(n_inputs, n_labels, n_sequences=2, n_steps=4):
    """Label 1 where x0 and x1 are on; with three labels, label 2 where x2 is on and x0 is off."""
    X, y = [], []
    for i in range(n_sequences):
        p, k = np.arange(n_steps)[:, None], np.arange(n_inputs)
        x = np.isin((2 * i + 3 * p + 5 * k + i * p + p * k) % 7, (0, 1, 3, 5)).astype(int)
        labels = x[:, 0] & x[:, 1]
        if n_labels > 2:
            labels = np.where((x[:, 2] == 1) & (x[:, 0] == 0), 2, labels)
        X.append(x)
        y.append(labels)
    return X, y
