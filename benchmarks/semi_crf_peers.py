"""Loss and gradient of one semi-Markov CRF beside packages for PyTorch, on the CPU.

    pip install flash-semicrf torch-struct
    python benchmarks/semi_crf_peers.py

Twenty sequences; scores of steps, transitions and durations. All compute the log partition function and its
gradient in all scores, in float64; it must agree to 1e-8. Wall seconds, the least of several runs, one thread each
("threads" for ours is 1). A peer that is not installed is left out. torch-struct takes a table of all segments,
which it is given ready-made: the time to fill it is not counted.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from sklearn_seqlab.inference import PackedStacks, StackLayout

N_SEQUENCES = 20
SHAPES = ((50, 4, 8), (200, 8, 30), (500, 8, 60))  # time steps, labels, longest segment
MOST_TERMS = 100_000_000  # torch-struct multiplies matrices of (longest x labels) rows at every step


class Model:
    """Scores drawn at random."""

    def __init__(self, n_steps: int, n_labels: int, longest: int):
        random = np.random.default_rng(0)
        self.steps = random.normal(size=(N_SEQUENCES, n_steps, n_labels))
        self.transition = random.normal(size=(n_labels, n_labels))
        self.duration = random.normal(size=(longest, n_labels))
        # flash-semicrf moves into the first segment from a label before it, any of them.
        self.start = np.logaddexp.reduce(self.transition, axis=0)


def ours(model: Model) -> Callable[[], float]:
    n_sequences, n_steps, n_labels = model.steps.shape
    layout = StackLayout.of(1, [np.ones((1, n_labels), dtype=bool)])
    start = np.zeros((1, layout.n_prefixes))
    start[:, layout.level_slice(1)] = model.start
    packed = PackedStacks(
        layout,
        1,
        model.steps.reshape(-1, n_labels),
        start,
        np.zeros((1, layout.n_prefixes)),
        model.transition.reshape(1, -1),
        model.duration[None],
        np.arange(n_sequences + 1) * n_steps,
    )
    return lambda: float(packed.forward_backward()[0].sum())


def flash_semicrf(model: Model) -> Callable[[], float]:
    import torch
    from flash_semicrf.streaming import semi_crf_streaming_forward

    n_sequences, n_steps, _ = model.steps.shape
    longest = len(model.duration)
    leaves = [torch.tensor(a) for a in (model.steps, model.transition, model.duration)]
    lengths = torch.full((n_sequences,), n_steps)

    def run() -> float:
        steps, transition, duration = (leaf.clone().requires_grad_() for leaf in leaves)
        sums = torch.nn.functional.pad(torch.cumsum(steps, 1), (0, 0, 1, 0))
        log_z = semi_crf_streaming_forward(
            sums, transition, duration, lengths, longest, use_triton=False
        ).sum()
        log_z.backward()
        return float(log_z)

    return run


def torch_struct(model: Model) -> Callable[[], float]:
    import torch
    from torch_struct import SemiMarkovCRF

    n_sequences, n_steps, n_labels = model.steps.shape
    longest = len(model.duration)
    sums = np.concatenate([np.zeros((n_sequences, 1, n_labels)), model.steps.cumsum(1)], axis=1)
    table = np.full((n_sequences, n_steps, longest + 1, n_labels, n_labels), -1e9)
    for k in range(1, longest + 1):
        content = sums[:, k:] - sums[:, :-k] + model.duration[k - 1]
        table[:, : n_steps - k + 1, k] = content[..., None] + model.transition.T
    potentials = torch.tensor(table)

    def run() -> float:
        leaf = potentials.clone().requires_grad_()
        log_z = SemiMarkovCRF(leaf).partition.sum()
        log_z.backward()
        return float(log_z)

    return run


def best(function: Callable[[], float], repeats: int = 5) -> tuple[float, float]:
    value, found = function(), []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return value, min(found)


def main() -> None:
    peers: dict[str, Any] = {"flash-semicrf": flash_semicrf, "torch-struct": torch_struct}
    names = ["sklearn_seqlab", "numpy", "torch"]
    for name in list(peers):
        try:
            version(name)
            names.append(name)
        except PackageNotFoundError:
            print(f"{name} is not installed")
            del peers[name]
    if peers:
        import torch

        torch.set_num_threads(1)
    found = ", ".join(f"{name} {version(name)}" for name in names if peers or name != "torch")
    print(f"CPython {platform.python_version()}, {platform.machine()}, {found}\n")
    print("| T | labels | longest | package | ms | against ours | log Z differs by |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for shape in SHAPES:
        model = Model(*shape)
        value, seconds = best(ours(model))
        row = f"| {shape[0]} | {shape[1]} | {shape[2]} |"
        print(f"{row} sklearn_seqlab | {1e3 * seconds:.1f} | 1.0 | |", flush=True)
        for name, build in peers.items():
            if name == "torch-struct" and N_SEQUENCES * shape[0] * (shape[1] * shape[2]) ** 3 > MOST_TERMS:
                print(f"{row} {name} | | | would take too long |")
                continue
            other, taken = best(build(model), 3)
            gap = abs(other - value) / abs(value)
            print(f"{row} {name} | {1e3 * taken:.1f} | {taken / seconds:.1f} | {gap:.1e} |", flush=True)


if __name__ == "__main__":
    main()
