"""Minimisation along a line whose first two derivatives are known: Newton steps within a bracket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["minimise_along"]

_MAX_EVALUATIONS = 40

# The bracket is searched geometrically between these multiples of the first guess.
_SMALLEST, _LARGEST = 1e-6, 64.0

LineFunction = Callable[[float], tuple[float, float, float]]


def minimise_along(
    function: LineFunction, start: tuple[float, float, float], guess: float, *, rtol: float = 1e-2
) -> tuple[float, float]:
    """Lower a function of one variable, starting at 0; its minimum, if the function is convex.

    Parameters
    ----------
    function : callable
        Gives value, slope and curvature at a step.
    start : tuple of float
        Those at 0.
    guess : float
        First step tried, in the direction in which the function falls.
    rtol : float, default=1e-2
        Stop where the slope is below this share of that at 0.

    Returns
    -------
    step, value : float
        The best step tried; 0 where none was better.

    Notes
    -----
    Steps double up to 64 times the guess and shrink geometrically, not by halves of an interval around it, to a
    millionth: where curvature was guessed, the right step may be a hundredth of the first. Where the minimum lies at
    infinity the largest step is taken.
    """
    value, slope, _ = start
    best, lowest = 0.0, value
    if not (np.isfinite(guess) and guess * slope < 0):
        return best, lowest
    unit = abs(guess)
    sign = np.sign(guess)
    low, high, step = 0.0, np.inf, unit  # lengths; the function falls at low, and has risen or turned at high
    steepness = abs(slope)
    for _ in range(_MAX_EVALUATIONS):
        found, descent, curve = function(sign * step)
        descent *= sign
        if np.isfinite(found) and found < lowest:
            best, lowest = sign * step, found
        if np.isfinite(descent) and abs(descent) <= rtol * steepness and found <= value:
            break
        if np.isfinite(found) and descent < 0 and found <= lowest:
            low = step
        else:
            high = step
        if (high == np.inf and step >= _LARGEST * unit) or high <= _SMALLEST * unit:
            break
        newton = step - descent / curve if np.isfinite(descent) and curve > 0 else np.nan
        if high == np.inf:
            step = min(newton if newton > step else 2 * step, 4 * step, _LARGEST * unit)
        elif low < newton < high:
            step = newton
        else:
            step = 0.5 * (low + high) if low > 0 else 0.125 * high
        if high < np.inf and high - low <= 1e-12 * high:
            break
    return float(best), float(lowest)
