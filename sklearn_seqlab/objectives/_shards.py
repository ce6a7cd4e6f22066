"""An objective whose data lies on the workers of a Dask cluster: shards are sent once, coefficients each iteration."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from joblib.parallel import get_active_backend

from sklearn_seqlab import _parallel

__all__ = ["ShardedObjective", "dask_client"]


def dask_client() -> Any:
    """The client of ``joblib.parallel_config("dask")``, or None.

    Inside a task of the cluster (a grid search runs there) there is none either: its fits are whole on one worker.
    """
    client = getattr(get_active_backend()[0], "client", None)
    if client is None:
        return None
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return client
    return None


class ShardedObjective:
    """The sum of the losses of shards, each on a worker, and the penalty, which stays here.

    Parameters
    ----------
    objective : ChainLogLikelihood
        Of all sequences. Its data is not sent again with each iteration.
    client : distributed.Client

    Notes
    -----
    There are as many shards as workers, runs of whole sequences with about as many time steps each. Their losses are
    added in the order of the sequences, so results do not depend on which worker has which. Where a worker is lost,
    the cluster makes its shards, and the evaluation, again on those that are left.
    """

    def __init__(self, objective: Any, client: Any):
        self.objective, self.client = objective, client
        self.n_coef, self.size, self.l1 = objective.n_coef, objective.size, objective.l1
        self.scale, self.preconditioner = objective.scale, objective.preconditioner
        n_shards = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        goals = np.arange(1, n_shards) * objective.batch.n_total / n_shards
        cuts = np.searchsorted(objective.batch.offsets, goals).tolist()
        edges = sorted({0, *cuts, objective.batch.n_sequences})
        self._shards = [objective.restricted_to(np.arange(a, b)) for a, b in pairwise(edges)]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            self._sent = [client.submit(_keep, shard, pure=False) for shard in self._shards]

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of everything but the absolute values."""
        parts = self._gather(coef)
        loss, gradient = parts[0]
        gradient = gradient.copy()
        for more_loss, more_gradient in parts[1:]:
            loss += more_loss
            gradient += more_gradient
        return self.objective.penalty.add_smooth(coef, loss, gradient), gradient

    def _gather(self, coef: np.ndarray) -> list[tuple[float, np.ndarray]]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.gather(
                [self.client.submit(_evaluate, shard, coef, pure=False) for shard in self._sent]
            )


def _keep(shard: Any) -> Any:
    """A task whose result stays on its worker; the scheduler has its input, and makes it again where it is lost."""
    return shard


def _evaluate(shard: Any, coef: np.ndarray) -> tuple[float, np.ndarray]:
    with _parallel.one_blas_thread():
        return shard.data_value_and_gradient(coef)
