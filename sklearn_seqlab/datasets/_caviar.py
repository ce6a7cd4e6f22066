"""People in surveillance video: tracks labelled by short-term activity."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils import Bunch

from sklearn_seqlab.datasets._cache import read_public_files

__all__ = ["fetch_caviar"]

FRAME = 40  # milliseconds


def fetch_caviar(
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
):
    """Short-term activities of people in the CAVIAR videos: 145 tracks, 45,626 frames, 5 labels.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder that holds the folder ``caviar_rtec``. None: the folder named by the environment variable
        SKLEARN_SEQLAB_DATA, else the user's cache.
    download_if_missing : bool, default=True
        Whether to download missing files (needs the extra ``data``).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (n_timesteps, 3)
            Position x and y (pixels) and orientation (degrees), 25 frames a second. A track ends where its
            person is out of sight.
        target : list of ndarray of shape (n_timesteps,), dtype=object
            "abrupt", "active", "inactive", "running" or "walking".
        groups : ndarray of shape (n_sequences,)
            Number of the scene: tracks that overlap in time, directly or through others, are of one scene.
            Keep a scene on one side of a split.
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError, ImportError, OSError
        If a file is missing, cannot be downloaded, or is not the published one.

    Notes
    -----
    The repository that holds the files is under the LGPL-3; the data state no licence. Please cite Artikis,
    Sergot and Paliouras, "An event calculus for event recognition", IEEE TKDE 27(4), 2015. Copy:
    github.com/aartikis/RTEC.
    """
    paths = [f"caviar_rtec/{name}.csv" for name in ("movementB", "appearance")]
    contents = read_public_files(paths, data_home=data_home, download_if_missing=download_if_missing)
    movement, appearance = (content.decode("ascii").splitlines() for content in contents)
    labels, places, turns = {}, {}, {}
    for line in movement:
        what, _, time, _, person, *place = line.split("|")
        if what == "coord":
            places[person, int(time)] = tuple(map(float, place))
        else:
            labels[person, int(time)] = what
    for line in appearance:
        what, _, time, *rest = line.split("|")
        if what == "orientation":
            degrees, person = rest
            turns[person, int(time)] = float(degrees)

    keys = sorted(labels)  # by person, then time
    starts = [
        k
        for k, (person, time) in enumerate(keys)
        if k == 0 or keys[k - 1] != (person, time - FRAME)
    ]  # fmt: skip
    tracks = [keys[a:b] for a, b in zip(starts, [*starts[1:], len(keys)], strict=True)]
    tracks.sort(key=lambda track: (track[0][1], track[0][0]))  # by time
    data = [np.array([(*places[key], turns[key]) for key in track]) for track in tracks]
    target = [np.array([labels[key] for key in track], dtype=object) for track in tracks]
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        groups=_scenes([(track[0][1], track[-1][1]) for track in tracks]),
        feature_names=["x", "y", "orientation"],
        target_names=np.unique(np.concatenate(target)),
        DESCR=fetch_caviar.__doc__,
    )


def _scenes(spans: list[tuple[int, int]]) -> np.ndarray:
    """Number of the scene of each span; spans are ordered by start."""
    scene, latest, found = -1, -1, []
    for start, end in spans:
        if start > latest:
            scene += 1
        latest = max(latest, end)
        found.append(scene)
    return np.array(found)
