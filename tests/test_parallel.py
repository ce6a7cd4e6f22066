"""Chunks, threads and the BLAS limit."""

import threading

import numpy as np
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info

from sklearn_seqlab import _parallel
from sklearn_seqlab._progress import Progress


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_chunks_cover_all_sequences_in_order(rng):
    lengths = rng.integers(1, 5000, 200)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    bounds = _parallel.chunk_bounds(offsets, doubles_per_step=30)
    assert_array_equal([first for first, _ in bounds[1:]], [last for _, last in bounds[:-1]])
    assert bounds[0][0] == 0 and bounds[-1][1] == 200 and len(bounds) > 10
    steps = [offsets[last] - offsets[first] for first, last in bounds]
    assert max(steps) <= max(lengths.max(), _parallel._CHUNK_SIZE // 30)


def test_a_sequence_longer_than_a_chunk_is_one_chunk():
    assert _parallel.chunk_bounds(np.array([0, 10, 10**7, 10**7 + 1]), 8) == [(0, 1), (1, 2), (2, 3)]


def test_results_keep_the_order_of_the_tasks():
    for n_jobs in (None, 1, 2):
        assert _parallel.run(lambda k: k * k, range(20), n_jobs) == [k * k for k in range(20)]


def test_blas_limit_is_shared_by_threads_and_lifted_by_the_last():
    """Set from the main thread: OpenBLAS does not always heed other threads."""
    before = blas_threads()
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with _parallel.one_blas_thread():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold, daemon=True)
    try:
        with _parallel.one_blas_thread():
            assert blas_threads() == {1}
            thread.start()
            inside.wait()
        assert blas_threads() == {1}  # the other thread still needs it
    finally:
        leave.set()
        thread.join()
    with _parallel.one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_progress_shows_a_bar_or_lines_or_nothing(capsys, monkeypatch):
    with Progress(0, "Model", 3) as progress:
        progress(1, 2.0)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with Progress(1, "Model", 3) as progress:
        progress(1, 2.5)
        progress(2, 2.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "Model: iteration 1 of 3, objective 2.5\n"  # at most a line a second
