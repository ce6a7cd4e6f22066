"""Seven videos of people telling stories: Kinect tracks, labelled by phase of gesture."""

from __future__ import annotations

import itertools
import os

import numpy as np
from sklearn.utils import Bunch

from sklearn_seqlab.datasets._cache import read_public_files

__all__ = ["fetch_gesture_phase"]

VIDEOS = ("a1", "a2", "a3", "b1", "b3", "c1", "c3")
OFFSET = 4  # the first processed row is this frame of the raw file
LONGEST_GAP = 1000  # milliseconds
POINTS = ("left hand", "right hand", "head", "spine", "left wrist", "right wrist")
MOVING = ("left hand", "right hand", "left wrist", "right wrist")
# One frame of b1 carries the Portuguese word.
PHASES = {"Preparação": "Preparation"}


def fetch_gesture_phase(
    *,
    inputs: str = "processed",
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
):
    """Gesture phases of three people telling stories: 12 sequences of seven videos, 9,873 frames, 5 phases.

    Parameters
    ----------
    inputs : {"processed", "raw", "both"}, default="processed"
        "processed": 32 velocities and accelerations of hands and wrists. "raw": 18 coordinates of hands,
        head, spine and wrists. "both": 50 columns, the processed ones first.
    data_home : path-like or None, default=None
        Folder that holds the folder ``gesture_phase``. None: the folder named by the environment variable
        SKLEARN_SEQLAB_DATA, else the user's cache.
    download_if_missing : bool, default=True
        Whether to download missing files (needs the extra ``data``).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (n_timesteps, n_features)
            One per stretch without a gap; five videos have a gap of 40 s.
        target : list of ndarray of shape (n_timesteps,), dtype=object
            "Hold", "Preparation", "Rest", "Retraction" or "Stroke".
        groups : ndarray of shape (n_sequences,)
            Video, as "a1"; the letter is the person.
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError, ImportError, OSError
        If a file is missing, cannot be downloaded, or is not the published one.

    Notes
    -----
    About 30 ms a frame. The four raw frames at the start of a video that have no processed row are left out.
    The copy states no licence. Please cite Madeo, Lima and Peres, "Gesture unit segmentation using support
    vector machines", SAC 2013. Copy: github.com/Fmelle/Gesture-Phase-Segmentation.
    """
    if inputs not in ("processed", "raw", "both"):
        raise ValueError(f"inputs must be 'processed', 'raw' or 'both', but is {inputs!r}.")
    paths = [f"gesture_phase/{video}_{kind}.csv" for kind in ("raw", "va3") for video in VIDEOS]
    contents = read_public_files(paths, data_home=data_home, download_if_missing=download_if_missing)
    tables = [_rows(content) for content in contents]
    data, target, groups = [], [], []
    for video, raw, processed in zip(VIDEOS, tables[: len(VIDEOS)], tables[len(VIDEOS) :], strict=True):
        raw = raw[OFFSET:]
        coordinates = np.array([row[:-2] for row in raw], dtype=np.float64)
        motion = np.array([row[:-1] for row in processed], dtype=np.float64)
        X = {"processed": motion, "raw": coordinates, "both": np.hstack([motion, coordinates])}[inputs]
        y = np.array([PHASES.get(row[-1], row[-1]) for row in raw], dtype=object)
        stamps = np.array([row[-2] for row in raw], dtype=np.int64)
        edges = [0, *(np.flatnonzero(np.diff(stamps) > LONGEST_GAP) + 1).tolist(), len(raw)]
        for a, b in itertools.pairwise(edges):
            data.append(X[a:b])
            target.append(y[a:b])
            groups.append(video)
    if return_X_y:
        return data, target
    velocities = [
        f"{what} of {point} {axis}"
        for what in ("velocity", "acceleration")
        for point in MOVING
        for axis in "xyz"
    ]
    scalars = [f"{what} of {point}" for what in ("speed", "scalar acceleration") for point in MOVING]
    names = {
        "processed": velocities + scalars,
        "raw": [f"{point} {axis}" for point in POINTS for axis in "xyz"],
    }
    names["both"] = names["processed"] + names["raw"]
    return Bunch(
        data=data,
        target=target,
        groups=np.array(groups),
        feature_names=names[inputs],
        target_names=np.unique(np.concatenate(target)),
        DESCR=fetch_gesture_phase.__doc__,
    )


def _rows(content: bytes) -> list[list[str]]:
    """Cells below the header; one file starts with a byte-order mark."""
    lines = content.decode("utf-8-sig").splitlines()
    return [line.split(",") for line in lines[1:] if line]
