"""The inputs of the worked numbers I3 and I4: binary inputs, two planted rules, and labels that are sometimes wrong."""

import numpy as np


def toy_rules(numbers, n_first, n_inputs, modulus):
    """Sequences ``numbers`` of ``n_first`` steps or up to three more; label 1 where x0 and x1, 2 where x2 and x3."""
    X, y = [], []
    for n in numbers:
        t, p = np.arange(n_first + n % 4)[:, None], np.arange(n_inputs)
        x = ((t + 1) * (2 * p + 3) + 5 * n * (p + 1) + t**2 // 3) % modulus < modulus // 2
        labels = np.where(x[:, 0] & x[:, 1], 1, np.where(x[:, 2] & x[:, 3], 2, 0))
        wrong = (t[:, 0] + 3 * n + 1) % 11 == 0
        labels[wrong] = (labels[wrong] + 1) % 3
        X.append(x.astype(float))
        y.append(labels)
    return X, y
