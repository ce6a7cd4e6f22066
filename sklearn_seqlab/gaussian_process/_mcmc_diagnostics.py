"""Whether Markov chains have mixed, and how many independent draws theirs are worth."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, rfft

__all__ = ["effective_sample_size", "split_rhat"]


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """Potential scale reduction between halves of chains.

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n_draws, n_quantities)

    Returns
    -------
    rhat : ndarray of shape (n_quantities,)
        Near 1 where all halves tell the same; nan with fewer than four draws, 1 for a constant.

    Notes
    -----
    Gelman, Carlin, Stern, Dunson, Vehtari and Rubin, "Bayesian Data Analysis", third edition, 11.4.
    """
    halves = _halves(draws)
    if halves.shape[1] < 2:
        return np.full(draws.shape[2], np.nan)
    within, total = _variances(halves)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, np.sqrt(total / within), 1.0)


def effective_sample_size(draws: np.ndarray) -> np.ndarray:
    """Number of independent draws whose mean would vary as much; of shape (n_quantities,).

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n_draws, n_quantities)

    Notes
    -----
    Autocorrelations over the halves of all chains, summed up to where sums of neighbouring pairs turn negative or
    would rise (Geyer's initial monotone sequence). nan with fewer than four draws, all of them for a constant.
    """
    halves = _halves(draws)
    n_chains, n_draws, n_quantities = halves.shape
    if n_draws < 2:
        return np.full(n_quantities, np.nan)
    within, total = _variances(halves)
    centred = halves - halves.mean(axis=1, keepdims=True)
    spectrum = np.abs(rfft(centred, n=2 * n_draws, axis=1)) ** 2
    covariance = irfft(spectrum, n=2 * n_draws, axis=1)[:, :n_draws].mean(axis=0) / n_draws
    size = np.full(n_quantities, float(n_chains * n_draws))
    for q in np.flatnonzero(total > 0):
        correlation = 1.0 - (within[q] - covariance[:, q] * n_draws / (n_draws - 1)) / total[q]
        correlation[0] = 1.0
        pairs = correlation[: n_draws // 2 * 2].reshape(-1, 2).sum(axis=1)
        negative = np.flatnonzero(pairs < 0)
        pairs = np.minimum.accumulate(pairs[: negative[0] if len(negative) else None])
        # antithetic chains may beat independence, but an estimate of that has no end
        time = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(max(n_chains * n_draws, 10)))
        size[q] /= time
    return size


def _halves(draws: np.ndarray) -> np.ndarray:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _variances(halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean variance within halves, and the estimate of the whole variance from within and between."""
    n_draws = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    return within, within * (n_draws - 1) / n_draws + between
