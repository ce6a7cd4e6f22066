"""The inputs of the worked numbers T1 and T2, whose results tests state beside their assertions."""

import numpy as np


def t1():
    """One chain: unary (5, 3), transition, initial, final, and transitions that vary with time."""
    t, p = np.arange(5)[:, None], np.arange(2)
    X = np.sin(0.7 * (t + 1) * (p + 1))
    coef = np.cos(1.1 * (np.arange(3)[:, None] + 1) + 0.5 * (p + 1))
    i, j = np.arange(3)[:, None], np.arange(3)
    transition = 0.3 * np.sin(1 + 2 * i + j)
    varying = np.array([transition + 0.2 * (i - j) * np.cos(step) for step in range(5)])
    return X @ coef.T, transition, 0.1 * np.arange(3), -0.2 * np.arange(3), varying


def t2():
    """Four sequences of 3 to 6 steps with two features and three labels."""
    X, y = [], []
    for n in range(4):
        t = np.arange(3 + n)
        X.append(np.sin(0.7 * (t[:, None] + 1) * (np.arange(2) + 1) + n))
        y.append((t + t * n // 2 + n) % 3)
    return X, y


def t2_partial():
    """T2 with every other label hidden."""
    X, y = t2()
    return X, [
        [None if (t + n) % 2 == 1 else int(label) for t, label in enumerate(labels)]
        for n, labels in enumerate(y)
    ]


def t3():
    """Two sequences of 4 and 3 steps with two channels and two labels."""
    X, y = [], []
    for n, n_timesteps in enumerate((4, 3)):
        t = np.arange(n_timesteps)
        X.append(np.column_stack([np.sin(t + 1 + n), np.cos(0.5 * (t + 1) * (n + 1))]))
        y.append(t * (n + 1) // 2 % 2)
    return X, y


def t3_partial():
    """T3 with the label of step 1 hidden."""
    X, y = t3()
    return X, [[None if t == 1 else int(label) for t, label in enumerate(labels)] for labels in y]


def i2():
    """Three sequences of 5 to 7 steps, with the transition weights that the trees of I2 are grown beside."""
    X, y = [], []
    for n in range(3):
        t = np.arange(5 + n)
        X.append(np.sin(0.7 * (t[:, None] + 1) * (np.arange(2) + 1) + n))
        y.append((t + t * n // 2 + n) % 3)
    i, j = np.arange(3)[:, None], np.arange(3)
    return X, y, 0.3 * np.sin(1 + 2 * i + j)


def t6():
    """A grid of two levels: unary scores, transitions, coupling."""
    unary = [np.sin(1 + np.arange(12)).reshape(4, 3), np.cos(1 + np.arange(8)).reshape(4, 2)]
    transition = [0.4 * np.cos(np.arange(9)).reshape(3, 3), 0.4 * np.sin(np.arange(4)).reshape(2, 2)]
    return unary, transition, [0.5 * np.sin(2 + np.arange(6)).reshape(3, 2)]
