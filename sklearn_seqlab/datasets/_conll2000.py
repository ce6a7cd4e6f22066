"""CoNLL-2000: noun, verb and other phrases in English news."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils import Bunch

from sklearn_seqlab.datasets._cache import read_public_files
from sklearn_seqlab.datasets._columns import parse_columns

__all__ = ["fetch_conll2000"]


def fetch_conll2000(
    subset: str = "train",
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
):
    """Sentences of the CoNLL-2000 chunking task: words and part-of-speech tags, labelled by chunk.

    ============  =======  =======
    subset        train    test
    ============  =======  =======
    sentences     8,936    2,012
    tokens        211,727  47,377
    chunk tags    22       19
    ============  =======  =======

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Sections 15 to 18 or section 20 of the Wall Street Journal corpus.
    data_home : path-like or None, default=None
        Folder that holds ``conll2000/train.txt`` or ``.gz``. None: the folder named by the environment
        variable SKLEARN_SEQLAB_DATA, else the user's cache.
    download_if_missing : bool, default=True
        Whether to download a missing file (needs the extra ``data``).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of lists of tuple (word, tag)
            One list per sentence. The tags are the output of Brill's tagger, not corrected by hand.
        target : list of ndarray of shape (n_timesteps,), dtype=object
            Chunk tags in IOB2 form, such as "B-NP". Some occur in one subset only.
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError, ImportError, OSError
        If the file is missing, cannot be downloaded, or is not the published one.

    Notes
    -----
    From the data packages of NLTK (github.com/nltk/nltk_data). The copy states no licence; the text is from
    the Wall Street Journal. Cite Tjong Kim Sang and Buchholz, "Introduction to the CoNLL-2000 shared task:
    chunking", CoNLL 2000.
    """
    if subset not in ("train", "test"):
        raise ValueError(f"subset must be 'train' or 'test', but is {subset!r}.")
    path = f"conll2000/{subset}.txt"
    (content,) = read_public_files([path], data_home=data_home, download_if_missing=download_if_missing)
    data, target = parse_columns(content.decode("ascii"), what=path)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=["word", "tag"],
        target_names=np.unique(np.concatenate(target).astype(str)).astype(object),
        DESCR=fetch_conll2000.__doc__,
    )
