"""Natural-gradient steps on minibatches: a start for the fixed point that costs a few passes over the data.

Hoffman, Blei, Wang and Paisley, "Stochastic variational inference", JMLR 2013; Hensman, Matthews and Ghahramani,
"Scalable variational Gaussian process classification", AISTATS 2015.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_seqlab import _parallel
from sklearn_seqlab.gaussian_process._fixed_point import LabelledSteps
from sklearn_seqlab.gaussian_process._priors import FeaturePrior, lower_inverse
from sklearn_seqlab.gaussian_process._softmax_bounds import SoftmaxBound

__all__ = ["stochastic_start"]

_N_EPOCHS, _FEWEST_STEPS, _RATE = 3, 60, 0.1


def stochastic_start(
    prior: FeaturePrior,
    steps: LabelledSteps,
    index: np.ndarray,
    residual: np.ndarray,
    bound: str,
    *,
    batch_size: int,
    random: np.random.RandomState,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Duals and precisions of rows, (n_rows, n_labels), near the optimum.

    Parameters
    ----------
    prior : FeaturePrior
    steps : LabelledSteps
    index : ndarray of shape (n_steps,)
        The row of the prior that each step has.
    residual : ndarray of shape (n_rows, 1) or (n_rows, n_labels)
        Prior variance that the features leave out.
    bound : str
    batch_size : int
    random : RandomState
        Deals the batches of three passes, or of as many as make sixty steps.
    n_jobs : int or None
        Threads over labels.

    Notes
    -----
    A pass takes O(n_labels * n_steps * n_columns**2), and O(n_labels * n_columns**3) a batch. Steps go a tenth of the
    way: of batches each step is an average over the last ten or so.
    """
    n_steps, n_labels = len(steps.codes), steps.n_labels
    batch_size = min(batch_size, n_steps)
    n_columns = prior.columns(0).shape[1]
    precisions = [np.eye(n_columns) for _ in range(n_labels)]
    targets = np.zeros((n_columns, n_labels))
    indicators = steps.indicators()

    def moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def one(j: int) -> tuple[np.ndarray, np.ndarray]:
            root, _ = lower_inverse(np.array(precisions[j], order="F"))
            features = prior.columns(j)[rows]
            seen = features @ root.T
            return seen @ (root @ targets[:, j]), np.einsum("ik,ik->i", seen, seen)

        found = _parallel.run(one, range(n_labels), n_jobs)
        mean, variance = (np.column_stack([part[k] for part in found]) for k in range(2))
        return mean, variance + residual[rows]

    def factors(chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        """Mean, pull and precision of each chosen step."""
        mean, variance = moments(index[chosen])
        values, weight = SoftmaxBound(bound)(mean, variance), steps.weight[chosen, None]
        return mean, weight * (indicators[chosen] - values.by_mean), 2.0 * weight * values.by_variance

    for _ in range(max(_N_EPOCHS, -(-_FEWEST_STEPS * batch_size // n_steps))):
        order = random.permutation(n_steps)
        for start in range(0, n_steps, batch_size):
            chosen = order[start : start + batch_size]
            mean, pull, lam = factors(chosen)
            share = n_steps / len(chosen)

            def move(j: int, parts: Any = (chosen, mean, pull, lam, share)) -> None:
                rows, mean, pull, lam, share = parts
                features = prior.columns(j)[index[rows]]
                scaled = np.sqrt(share * lam[:, j])[:, None] * features
                fresh = scaled.T @ scaled
                fresh[np.diag_indices_from(fresh)] += 1.0
                precisions[j] = (1.0 - _RATE) * precisions[j] + _RATE * fresh
                own = share * (features.T @ (lam[:, j] * mean[:, j] + pull[:, j]))
                targets[:, j] = (1.0 - _RATE) * targets[:, j] + _RATE * own

            _parallel.run(move, range(n_labels), n_jobs)
    b, precision = (np.zeros((prior.n_rows, n_labels)) for _ in range(2))
    for start in range(0, n_steps, batch_size):
        chosen = np.arange(start, min(start + batch_size, n_steps))
        mean, pull, lam = factors(chosen)
        np.add.at(b, index[chosen], lam * mean + pull)
        np.add.at(precision, index[chosen], lam)
    # a whole step from here: duals of weights that no step has made would be far off

    def dual(j: int) -> np.ndarray:
        found = prior.posterior(j, precision[:, j], b[:, j]).dual
        assert found is not None
        return found

    return np.column_stack(_parallel.run(dual, range(n_labels), n_jobs)), precision
