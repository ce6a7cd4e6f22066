"""Work cut into chunks of whole sequences; the cut depends on the data alone, never on ``n_jobs``.

So partial results are the same for any number of threads, and adding them in a fixed order gives the same
bits. Kernels release the interpreter lock, so threads suffice and nothing is copied or pickled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import scipy.linalg  # noqa: F401  (loads the second BLAS, so that the controller below knows it)
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController  # a dependency of scikit-learn

Result = TypeVar("Result")

# Enough for the threads of a large machine.
_N_PIECES = 8

# Doubles in one score array of a chunk: about a mebibyte, so that the arrays of a chunk stay in cache.
_CHUNK_SIZE = 2**17


def chunk_bounds(offsets: np.ndarray, doubles_per_step: int) -> list[tuple[int, int]]:
    """Runs ``first:last`` of whole sequences whose score arrays hold about ``_CHUNK_SIZE`` doubles."""
    steps = max(1, _CHUNK_SIZE // doubles_per_step)
    bounds, first = [], 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + steps, side="right")) - 1
        last = max(first + 1, last)
        bounds.append((first, last))
        first = last
    return bounds


def pieces(chunks: Sequence[Result], n_pieces: int) -> list[Sequence[Result]]:
    """Chunks as at most so many (and ``_N_PIECES``) runs of them: a partial sum each, so no more than are worth it."""
    n_pieces = max(1, min(n_pieces, _N_PIECES, len(chunks)))
    edges = [k * len(chunks) // n_pieces for k in range(n_pieces + 1)]
    return [chunks[a:b] for a, b in pairwise(edges)]


def run(function: Callable[[Any], Result], tasks: Sequence[Any], n_jobs: int | None) -> list[Result]:
    """``[function(task) for task in tasks]`` on ``n_jobs`` threads, results in the order of the tasks."""
    if effective_n_jobs(n_jobs) == 1 or len(tasks) < 2:
        return [function(task) for task in tasks]
    # sharedmem: threads also where the caller chose another backend, since tasks write into shared arrays
    return Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(function)(task) for task in tasks)


_blas_lock = threading.Lock()
_blas_controller = ThreadpoolController()
_blas_users = 0
_blas_limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, so that products have the same bits wherever they are computed.

    The limit belongs to the process: the first of several threads to enter sets it and the last to leave
    lifts it. Separate limits would restore each other's values in the wrong order.
    """
    global _blas_users, _blas_limits
    with _blas_lock:
        if _blas_users == 0:
            _blas_limits = _blas_controller.limit(limits=1, user_api="blas")
            _disown_blas()
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limits.restore_original_limits()
                _disown_blas()


def _disown_blas() -> None:
    """Let any thread change the limit: threadpoolctl (seen in 3.8) leaves it to the one that set it."""
    for library in _blas_controller.lib_controllers:
        getattr(library, "clear_controlling_thread", lambda: None)()
