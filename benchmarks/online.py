"""Time of one step of a stream: the median of many, in microseconds.

python benchmarks/online.py                       8 labels, 14 sensors
python benchmarks/online.py --labels 22 --sensors 40
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from sklearn_seqlab import HMMClassifier, LinearChainCRF


def simulated(n_labels: int, n_sensors: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    random = np.random.RandomState(0)
    rate = random.uniform(0.05, 0.6, size=(n_labels, n_sensors))
    y = [np.repeat(random.randint(n_labels, size=60), 10) for _ in range(4)]
    y[0][:n_labels] = np.arange(n_labels)
    return [(random.uniform(size=(len(codes), n_sensors)) < rate[codes]).astype(float) for codes in y], y


def median_microseconds(model, X: list[np.ndarray], lag: int, n_steps: int) -> float:
    stream = model.predict_online(lag=lag)
    rows = np.concatenate(X)
    spent = np.empty(n_steps)
    for n in range(-200, n_steps):
        row = rows[n % len(rows)]
        start = time.perf_counter()
        stream.step(row)
        spent[n] = time.perf_counter() - start
    return 1e6 * float(np.median(spent))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=int, default=8)
    parser.add_argument("--sensors", type=int, default=14)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    X, y = simulated(options.labels, options.sensors)
    mixed = ["gaussian", "bernoulli", *["bernoulli"] * (options.sensors - 2)]
    models = {
        "HMMClassifier, bernoulli": HMMClassifier(emission="bernoulli"),
        "HMMClassifier, gaussian": HMMClassifier(emission="gaussian", var_floor=0.01),
        "HMMClassifier, mixed": HMMClassifier(emission=mixed, var_floor=0.01),
        "LinearChainCRF": LinearChainCRF(max_iter=20, tol=1e-2),
        "LinearChainCRF, transition features": LinearChainCRF(transition_features="all", max_iter=5, tol=0.5),
    }
    print(
        f"{options.labels} labels, {options.sensors} sensors; median microseconds of a step, the least of rounds"
    )
    lags = (0, 5, 30)
    print(f"{'':38}" + "".join(f"{f'lag {lag}':>9}" for lag in lags))
    for model in models.values():
        model.fit(X, y)
    # all once per round: a shared machine changes its speed
    rounds = [
        [[median_microseconds(model, X, lag, options.steps) for lag in lags] for model in models.values()]
        for _ in range(options.rounds)
    ]
    for name, times in zip(models, np.min(rounds, axis=0), strict=True):
        print(f"{name:38}" + "".join(f"{microseconds:9.1f}" for microseconds in times))


if __name__ == "__main__":
    main()
