"""Random hierarchies of several levels of explicit durations."""

from itertools import pairwise

import numpy as np

from sklearn_seqlab.inference import NestedSegments

INF = np.inf


def additive(rng, sizes, n_timesteps, longest, scale, duration=None, offset=0.0):
    """``NestedSegments`` whose persistence adds up over the steps, but for a score of the duration.

    ``offset`` is added at every step to level 1 and taken off the bottom.
    """
    persistence = [scale * rng.normal(size=sizes[0])]
    for d, (size, limit) in enumerate(zip(sizes[1:], longest, strict=True), start=1):
        steps = scale * rng.normal(size=(n_timesteps, size)) + offset * ((d == 1) - (d == len(sizes) - 1))
        total = np.cumsum(np.vstack([np.zeros(size), steps]), axis=0)
        band = np.full((n_timesteps, limit, size), -INF)
        for n in range(1, limit + 1):
            band[: n_timesteps - n + 1, n - 1] = total[n:] - total[: n_timesteps - n + 1]
            if duration is not None and limit > 1:
                band[:, n - 1] += duration(n)
        persistence.append(band)
    pairs = list(pairwise(sizes))
    initialisation, ending = ([rng.normal(size=(n_timesteps, n, m)) for n, m in pairs] for _ in range(2))
    transition = [rng.normal(size=(n_timesteps, n, m, m)) for n, m in pairs]
    return NestedSegments(persistence, initialisation, transition, ending)
