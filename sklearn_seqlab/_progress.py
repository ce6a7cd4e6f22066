"""What a long fit shows: a bar if tqdm is installed, plain lines if not, nothing unless asked."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any


class Progress:
    """Progress of an iterative fit, written to standard error.

    Parameters
    ----------
    verbose : int
        0 prints nothing.
    title : str
    total : int
        Largest number of iterations.

    Notes
    -----
    Called with the iteration and the objective after each iteration; a context manager.
    """

    def __init__(self, verbose: int, title: str, total: int):
        self._bar: Any = None
        self._report: Callable[[int, float], None] = lambda iteration, value: None
        self._last = -float("inf")
        self._title, self._total = title, total
        if verbose:
            self._report = self._line
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, desc=title, file=sys.stderr, mininterval=0.2)
            self._report = self._advance

    def __call__(self, iteration: int, value: float) -> None:
        self._report(iteration, value)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _advance(self, iteration: int, value: float) -> None:
        self._bar.set_postfix_str(f"objective {value:.6g}", refresh=False)
        self._bar.update(iteration - self._bar.n)

    def _line(self, iteration: int, value: float) -> None:
        # a line a second at most: fits of a few milliseconds an iteration would flood the screen
        if time.monotonic() - self._last >= 1.0:
            self._last = time.monotonic()
            print(
                f"{self._title}: iteration {iteration} of {self._total}, objective {value:.6g}",
                file=sys.stderr,
            )
