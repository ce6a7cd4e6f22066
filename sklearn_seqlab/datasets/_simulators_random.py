"""Randomness of the simulators: named streams of uniform doubles and inverse distribution functions.

Only ``random()`` is ever drawn from a stream; every other distribution is an inverse distribution function
of such a double. Simulated values therefore do not depend on NumPy's samplers, which may change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.random import PCG64, Generator, RandomState, SeedSequence
from scipy.special import gammaincinv, ndtri
from sklearn.utils import check_scalar

__all__ = [
    "check_count",
    "check_fraction",
    "check_seed",
    "cumulative",
    "gam",
    "integer",
    "normal",
    "pick",
    "stream",
]


def check_seed(random_state: int | RandomState | Generator | None) -> int:
    """Turn ``random_state`` into the one non-negative integer that all streams of a call derive from."""
    if random_state is None:
        return int(SeedSequence().entropy)  # type: ignore[arg-type]  # an int when none is given
    if isinstance(random_state, RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise ValueError(
        "random_state must be an int >= 0, a numpy RandomState or Generator, or None, "
        f"but is {random_state!r}."
    )


def check_count(value: int, name: str, *, least: int, most: int | None = None) -> None:
    """Check that `value` is an int, not a bool, from `least` to `most`."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an int, but is {value!r}.")
    check_scalar(value, name, Integral, min_val=least, max_val=most)


def check_fraction(value: float, name: str) -> float:
    """Return `value` as a float after checking that it is a share between 0 and 1."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = np.nan
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{name} must be a share between 0 and 1, but is {value!r}.")
    return share


def stream(seed: int, *key: int) -> Generator:
    """Independent generator named by `key` under `seed`."""
    return Generator(PCG64(SeedSequence(entropy=seed, spawn_key=key)))


def normal(u):
    """Standard normal quantile of the uniform `u`."""
    return ndtri(u)


def cumulative(p: Sequence[float]) -> list[float]:
    """Running sums of `p`, added from the left: the form in which `pick` wants its probabilities."""
    return np.cumsum(np.asarray(p, dtype=float)).tolist()


def pick(u: float, cumulative_p: list[float]) -> int:
    """First index whose running sum exceeds `u`; the last index if none does."""
    return min(bisect_right(cumulative_p, u), len(cumulative_p) - 1)


def gam(u: float, k: float, m: float, lo: int) -> int:
    """Duration in whole steps: the gamma quantile of `u` (shape `k`, mean `m`), rounded, at least `lo`."""
    return max(lo, int(m / k * gammaincinv(k, u) + 0.5))


def integer(u, n: int):
    """Integer in ``0 .. n - 1`` for the uniform `u` (a float or an array)."""
    return np.minimum(np.floor(n * np.asarray(u)).astype(np.intp), n - 1)
