"""Sparse Gaussian processes on long sensor data, beside GPflow's.

    python benchmarks/inducing_points.py                       GPSequenceLabeler alone
    python benchmarks/inducing_points.py --peer                and GPflow's SVGP with a softmax, without dependencies
    python benchmarks/inducing_points.py --steps 20000 --inducing 50

Simulated tracks of a person in a kitchen (place and velocity, scaled), labels of twelve legs; every fifth track is
tested. The kernel is a squared exponential of length scale and variance one for all, held; inducing rows are the same.
GPflow takes natural-gradient steps on minibatches (the faster of its ways where the kernel is held); its accuracy is
told as it grows. CPU seconds of one thread. `--peer` needs `pip install gpflow tensorflow-cpu`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import GPSequenceLabeler
from sklearn_seqlab.datasets import make_kitchen_trajectories


def tracks(n_steps: int) -> tuple[list[np.ndarray], ...]:
    data = make_kitchen_trajectories(n_sequences=n_steps // 57 * 5 // 4 + 40, random_state=0)
    scaler = StandardScaler().fit(np.concatenate(data.data)[:, :4])
    X = [scaler.transform(values[:, :4]) for values in data.data]
    y = [table[:, 1] for table in data.target]
    test = np.arange(len(X)) % 5 == 4
    train = np.flatnonzero(~test)
    train = train[np.cumsum([len(X[s]) for s in train]) <= n_steps]
    test = np.flatnonzero(test)
    return [X[s] for s in train], [y[s] for s in train], [X[s] for s in test], [y[s] for s in test]


def ours(data: tuple[list[np.ndarray], ...], options: Any) -> np.ndarray:
    X, y, X_test, y_test = data
    rows: dict[str, dict[str, Any]] = {
        "minibatches": {"dependencies": (), "batch_size": 1000, "max_iter": 2},
    }
    if not options.minibatches:
        rows["whole sweeps"] = {"dependencies": ()}
    if options.dependencies:
        rows["stacked"] = {"dependencies": (-4, -2, -1, 1, 2, 4), "neighbours": "stacked"}
    inducing = np.empty((0, 0))
    for name, settings in rows.items():
        model = GPSequenceLabeler(
            RBF(1.0),
            inference="sparse",
            n_inducing=options.inducing,
            random_state=0,
            n_jobs=options.n_jobs,
            **settings,
        )
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        seconds = time.process_time() - start
        print(
            f"GPSequenceLabeler, {name}: {seconds:.0f} CPU s, {model.n_iter_} sweeps, bound "
            f"{model.lower_bound_:.0f} nats, {100 * model.score(X_test, y_test):.2f} % right",
            flush=True,
        )
        inducing = model.inducing_
    return inducing


def peer(data: tuple[list[np.ndarray], ...], inducing: np.ndarray, options: Any) -> None:
    import gpflow
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    X, X_test = np.concatenate(data[0]), np.concatenate(data[2])
    classes, codes = np.unique(np.concatenate(data[1]), return_inverse=True)
    truth = np.searchsorted(classes, np.concatenate(data[3]))
    model = gpflow.models.SVGP(
        kernel=gpflow.kernels.SquaredExponential(),
        likelihood=gpflow.likelihoods.Softmax(len(classes)),
        inducing_variable=inducing,
        num_latent_gps=len(classes),
        num_data=len(X),
        whiten=True,
    )
    for part in (model.q_mu, model.q_sqrt, model.kernel, model.inducing_variable):
        gpflow.set_trainable(part, False)
    natural = gpflow.optimizers.NaturalGradient(gamma=0.05)
    batches = iter(
        tf.data.Dataset.from_tensor_slices((X, codes[:, None].astype(np.int64)))
        .repeat()
        .shuffle(10_000)
        .batch(512)
    )
    loss = model.training_loss_closure(batches, compile=True)
    step = tf.function(lambda: natural.minimize(loss, [(model.q_mu, model.q_sqrt)]))
    step()  # traced
    used, done, target = 0.0, 0, options.seconds
    while used < target:
        start = time.process_time()
        for _ in range(25):
            step()
        used, done = used + time.process_time() - start, done + 25
        mean, _ = model.predict_f(X_test)
        right = 100 * np.mean(np.argmax(mean.numpy(), axis=1) == truth)
        print(f"GPflow: {used:.0f} CPU s, {done * 512 / len(X):.1f} passes, {right:.2f} % right", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--inducing", type=int, default=100)
    parser.add_argument("--dependencies", action="store_true", help="with stacked neighbours as well")
    parser.add_argument("--minibatches", action="store_true", help="with minibatches alone")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--seconds", type=float, default=300.0, help="CPU seconds that the peer may take")
    parser.add_argument("--n-jobs", type=int, default=1)
    options = parser.parse_args()
    data = tracks(options.steps)
    print(f"{sum(map(len, data[0]))} steps to train on, {sum(map(len, data[2]))} to test", flush=True)
    inducing = ours(data, options)
    if options.peer:
        peer(data, inducing, options)


if __name__ == "__main__":
    main()
