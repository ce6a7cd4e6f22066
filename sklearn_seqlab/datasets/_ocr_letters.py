"""Handwritten words: a binary picture and a letter per step."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils import Bunch

from sklearn_seqlab.datasets._cache import read_public_files

__all__ = ["fetch_ocr_letters"]

HEIGHT, WIDTH = 16, 8


def fetch_ocr_letters(
    *,
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
):
    """Letters of handwritten words (Taskar, Guestrin and Koller): 6,877 words, 52,152 letters, 10 folds.

    Parameters
    ----------
    data_home : path-like or None, default=None
        Folder that holds ``ocr_letters/letters.txt``. None: the folder named by the environment variable
        SKLEARN_SEQLAB_DATA, else the user's cache.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of ndarray of shape (n_letters, 128)
            Pixels, 0 or 1: 16 rows of 8, row by row.
        target : list of ndarray of shape (n_letters,), dtype=object
            Letters "a" to "z". The first letter of each word, a capital, is left out by the set's makers.
        groups : ndarray of shape (n_sequences,)
            Fold, 0 to 9. The usual small setting trains on one fold and tests on the other nine, as
            ``InverseKFold``-like splits do; the large one the other way round.
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError
        If the file is not there. It is a text form of the set, with tab-separated columns word, position,
        letter, fold and pixels, and is not downloaded: no public address holds it in this form.
    OSError
        If it is not the expected file.

    Notes
    -----
    Only 55 words are distinct, so random splits share words between training and test; use the folds. The
    data state no licence. Please cite Taskar, Guestrin and Koller, "Max-margin Markov networks", NIPS 2003.
    """
    (content,) = read_public_files(["ocr_letters/letters.txt"], data_home=data_home)
    rows = [line.split("\t") for line in content.decode("ascii").splitlines() if not line.startswith("#")]
    words = np.array([int(row[0]) for row in rows])
    letters = np.array([row[2] for row in rows], dtype=object)
    folds = np.array([int(row[3]) for row in rows])
    pixels = np.frombuffer("".join(row[4] for row in rows).encode("ascii"), dtype=np.uint8) - ord("0")
    X = pixels.reshape(len(rows), HEIGHT * WIDTH).astype(np.float64)
    starts = np.flatnonzero(np.diff(words, prepend=-1))
    data, target = np.split(X, starts[1:]), np.split(letters, starts[1:])
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        groups=folds[starts],
        feature_names=[f"pixel {row},{column}" for row in range(HEIGHT) for column in range(WIDTH)],
        target_names=np.unique(letters),
        DESCR=fetch_ocr_letters.__doc__,
    )
