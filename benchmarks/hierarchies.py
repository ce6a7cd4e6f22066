"""Segment and hierarchy engines: cost against a bare loop, growth with length, and what known ends save.

    python benchmarks/hierarchies.py speed      scaled inside and full pass against a C loop of multiply-adds with
                                                the same trip counts
    python benchmarks/hierarchies.py growth     seconds and peak memory against the number of time steps
    python benchmarks/hierarchies.py known      seconds against the share of known ends
    python benchmarks/hierarchies.py kasteren   SemiCRF and a three-level HSCRF on house A by days

CPU seconds, the least of several runs; `speed` and `growth` give medians of ratios. `speed` needs a C compiler;
`kasteren` looks for data as the fetchers do.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import platform
import resource
import subprocess
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import HSCRFClassifier, SemiCRF
from sklearn_seqlab.datasets import fetch_kasteren
from sklearn_seqlab.inference import NestedSegments, PackedStacks, StackLayout, _stack_scaled


def best(function: Callable[[], object], repeats: int = 7) -> float:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def bare_loop(folder: str) -> Callable[[int, int, int], None]:
    library = Path(folder) / "bare_loop.so"
    source = Path(__file__).parent / "bare_loop.c"
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    multiply_adds = ctypes.CDLL(str(library)).multiply_adds
    pointer = np.ctypeslib.ndpointer(dtype=np.float64, flags="C_CONTIGUOUS")
    multiply_adds.argtypes = [pointer, pointer, pointer, ctypes.c_long, ctypes.c_long, ctypes.c_long]
    multiply_adds.restype = None

    def run(n_outer: int, n_rows: int, n: int) -> None:
        multiply_adds(np.zeros(n), np.full((n_rows, n), 1e-9), np.ones(n_rows), n_outer, n_rows, n)

    return run


def stacks(
    n_steps: int,
    sizes: tuple[int, ...],
    max_duration: int,
    tail: bool = False,
    segment_level: int | None = None,
) -> PackedStacks:
    """A random model; ``segment_level`` None takes the last."""
    random = np.random.default_rng(0)
    layout = StackLayout.of(sizes[0], [np.ones(pair, dtype=bool) for pair in itertools.pairwise(sizes)])
    level = len(sizes) - 1 if segment_level is None else segment_level
    part = layout.level_slice(level)
    n_leaves = part.stop - part.start
    return PackedStacks(
        layout,
        level,
        random.normal(size=(n_steps, layout.n_stacks)),
        random.normal(size=(1, layout.n_prefixes)),
        random.normal(size=(1, layout.n_prefixes)),
        random.normal(size=(1, layout.n_moves)),
        random.normal(size=(1, max_duration, n_leaves)),
        np.array([0, n_steps]),
        tail=random.normal(size=n_leaves) - 1 if tail else np.empty(0),
    )


def nested(n_steps: int, sizes: tuple[int, ...], lengths: tuple[int, ...]) -> NestedSegments:
    """A random model of several levels of explicit durations; ``lengths`` of the levels below the root."""
    random = np.random.default_rng(0)
    persistence: list[np.ndarray] = [random.normal(size=sizes[0])]
    for size, length in zip(sizes[1:], lengths, strict=True):
        band = random.normal(size=(n_steps, min(length, n_steps), size))
        starts, steps = np.arange(n_steps)[:, None], np.arange(1, band.shape[1] + 1)
        band[np.broadcast_to(starts + steps > n_steps, band.shape[:2])] = -np.inf
        persistence.append(band)
    pairs = list(itertools.pairwise(sizes))
    return NestedSegments(
        persistence,
        [random.normal(size=(n_steps, a, b)) for a, b in pairs],
        [random.normal(size=(n_steps, a, b, b)) for a, b in pairs],
        [random.normal(size=(n_steps, a, b)) for a, b in pairs],
    )


def scaled_inside(model: PackedStacks) -> Callable[[], None]:
    """The kernel: an exponential per step and stack, and the recursion."""
    scores, arrays, log_z = model._scores(np.exp), model._inside_arrays(), np.empty(1)
    return lambda: _stack_scaled.inside(model.offsets, model._everything(), *scores, *arrays, log_z)


def print_versions() -> None:
    names = ("sklearn_seqlab", "numpy", "scipy", "scikit-learn")
    found = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"CPython {platform.python_version()}, {platform.machine()}, {found}\n")


def speed() -> None:
    print("| model | T | S | L | inside, ms | inside / bare loop | all / inside | redone |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        bare = bare_loop(folder)
        for n_steps, n_states, length in ((1000, 10, 50), (1000, 30, 50), (1440, 8, 120)):
            model = stacks(n_steps, (1, n_states), length)
            row(
                "segments",
                (1, n_states),
                n_steps,
                length,
                model,
                bare,
                (n_steps, length + n_states, n_states),
            )
        model = stacks(1440, (1, 3, 8), 60)
        row("segments below a Markov level", (1, 3, 8), 1440, 60, model, bare, (1440, 60 + 8, 24))
        model = stacks(1440, (1, 3, 8), 60, segment_level=1)
        row("segments over a Markov level", (1, 3, 8), 1440, 60, model, bare, (1440 * (60 * 3 + 1), 8, 8))
        model = stacks(20_000, (1, 2, 5), 1)
        row("chain", (1, 2, 5), 20_000, 1, model, bare, (20_000, 14, 5))
        model = stacks(20_000, (1, 2, 44), 1)
        row("chain", (1, 2, 44), 20_000, 1, model, bare, (20_000, 90, 44))
        for n_steps, sizes, lengths in (
            (200, (1, 5, 8), (200, 1)),
            (400, (1, 5, 8), (50, 1)),
            (240, (1, 4, 4, 4), (60, 15, 1)),
        ):
            model = nested(n_steps, sizes, lengths)
            trips = n_steps * lengths[0] * sizes[1] * sizes[2] ** 2
            if len(sizes) == 4:
                trips = n_steps * (
                    lengths[0] * lengths[1] * sizes[1] * sizes[2]
                    + lengths[0] * sizes[1] * sizes[2] ** 2
                    + lengths[1] * sizes[2] * sizes[3] ** 2
                )
            row("aio", sizes, n_steps, lengths[0], model, bare, (trips // sizes[-1], 1, sizes[-1]))


def row(name, sizes, n_steps, length, model, bare, trips) -> None:
    """All three once per round, and the median of the ratios within rounds: a shared machine changes its speed."""
    if isinstance(model, NestedSegments):
        inside, everything = lambda: fresh(model)._scaled_inside(), lambda: fresh(model).forward_backward()
        redone = model.forward_backward()[1].redone
    else:
        inside, everything = scaled_inside(model), model.forward_backward
        redone = model.forward_backward()[2]
    rounds = np.array(
        [[best(lambda: bare(*trips), 3), best(inside, 3), best(everything, 3)] for _ in range(11)]
    )
    per_loop, per_inside = np.median(rounds[:, 1:] / rounds[:, :-1], axis=0)
    print(
        f"| {name} | {n_steps} | {sizes} | {length} | {1e3 * rounds[:, 1].min():.2f} | {per_loop:.2f} | "
        f"{per_inside:.2f} | {int(redone)} |",
        flush=True,
    )


def fresh(model: NestedSegments) -> NestedSegments:
    """Without what it has cached."""
    return NestedSegments(model.persistence, model.initialisation, model.transition, model.ending)


def growth() -> None:
    print("| engine | T | ms | slope | peak memory, MB |\n| --- | --- | --- | --- | --- |")
    cases: list[tuple[str, Callable[[int], object], tuple[int, ...]]] = [
        ("chain", lambda n: stacks(n, (1, 3, 8), 1), (2000, 4000, 8000)),
        ("segments, L = 60", lambda n: stacks(n, (1, 8), 60), (1000, 2000, 4000)),
        ("segments, L = 60 and tail", lambda n: stacks(n, (1, 8), 60, tail=True), (1000, 2000, 4000)),
        ("aio, D = 3, L = 50", lambda n: nested(n, (1, 5, 8), (50, 1)), (200, 400, 800)),
        ("aio, D = 3, no cap", lambda n: nested(n, (1, 5, 8), (n, 1)), (100, 200, 400)),
    ]
    for name, make, lengths in cases:
        models = [make(n_steps) for n_steps in lengths]
        passes = [
            lambda m=m: (fresh(m) if isinstance(m, NestedSegments) else m).forward_backward() for m in models
        ]
        # all lengths once per round, and the median of the ratios within rounds, as in `row`
        rounds = np.array([[best(one, 2) for one in passes] for _ in range(9)])
        slopes = np.median(np.log2(rounds[:, 1:] / rounds[:, :-1]), axis=0)
        for k, n_steps in enumerate(lengths):
            tracemalloc.start()
            passes[k]()
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            slope = f"{slopes[k - 1]:.2f}" if k else ""
            print(
                f"| {name} | {n_steps} | {1e3 * rounds[:, k].min():.1f} | {slope} | {peak:.1f} |", flush=True
            )


def known() -> None:
    """Ends of segments of ten steps at the segment level, known for a growing share of the time steps."""
    print("| engine | T | share of known ends | ms |\n| --- | --- | --- | --- |")
    random = np.random.default_rng(0)
    for name in ("segments, L = 60", "aio, D = 3, no cap"):
        for n_steps in (400, 800):
            for share in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0):
                given = random.random(n_steps) < share
                truth = (np.arange(n_steps) % 10 == 9).astype(np.int8)
                truth[-1] = 1
                own = np.where(given, truth, -1).astype(np.int8)
                if name.startswith("aio"):
                    ends = np.stack(
                        [np.full(n_steps, -1, dtype=np.int8), own, np.ones(n_steps, dtype=np.int8)]
                    )
                    model = nested(n_steps, (1, 5, 8), (n_steps, 1)).narrowed(None, ends)
                    seconds = best(lambda m=model: fresh(m).forward_backward(), 5)
                else:
                    ends = np.stack([np.full(n_steps, -1, dtype=np.int8), own])
                    model = stacks(n_steps, (1, 8), 60).narrowed(None, ends)
                    seconds = best(lambda m=model: m.forward_backward(), 5)
                print(f"| {name} | {n_steps} | {share:g} | {1e3 * seconds:.1f} |", flush=True)


def kasteren() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = fetch_kasteren(house="A", split="day", encoding="last")
    groups = {"leave house": "out", "go to bed": "bed", "use toilet": "bath", "take shower": "bath"}
    upper = [np.array([groups.get(label, "day") for label in labels.tolist()]) for labels in data.target]
    both = [np.column_stack(pair) for pair in zip(upper, data.target, strict=True)]
    models = {
        "SemiCRF, gamma, tail": (SemiCRF(duration="gamma", n_jobs=2), data.target),
        "HSCRF, D = 3, gamma with tail above": (
            HSCRFClassifier(duration=["gamma", "none"], max_duration="observed", n_jobs=2),
            both,
        ),
        "HSCRF, D = 3, gamma with tail below": (
            HSCRFClassifier(
                duration=["geometric", "gamma"],
                max_duration=[None, "observed"],
                bottom_persist=True,
                n_jobs=2,
            ),
            both,
        ),
    }
    print(
        "| model | engine | explicit | iterations | seconds | CPU s | redone | peak RSS so far, MB | accuracy |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (model, y) in models.items():
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit(data.data, y)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"| {name} | {model.engine_} | {model.max_duration_} | {model.n_iter_} | {wall:.0f} | {cpu:.0f} | "
            f"{model.n_log_fallbacks_} | {peak:.0f} | {model.score(data.data, y):.3f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = {"speed": speed, "growth": growth, "known": known, "kasteren": kasteren}
    parser.add_argument("what", choices=commands)
    options = parser.parse_args()
    print_versions()
    commands[options.what]()


if __name__ == "__main__":
    main()
