"""The four small tasks that come with CRF++."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils import Bunch

from sklearn_seqlab.datasets._cache import read_public_files
from sklearn_seqlab.datasets._columns import parse_columns

__all__ = ["fetch_crfpp"]

# task -> (encoding of its files, names of the columns before the label)
TASKS = {
    "basenp": ("ascii", ["word", "tag"]),
    "chunking": ("ascii", ["word", "tag"]),
    "JapaneseNE": ("euc_jp", ["word", "kind", "tag"]),
    "seg": ("utf-8", ["character", "kind"]),
}


def fetch_crfpp(
    task: str = "basenp",
    *,
    subset: str = "train",
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
):
    """Sequences and feature template of a task that comes with CRF++.

    ==========  ====================================  ==============  ==================  ==============
    task        what                                  columns         sequences           labels
    ==========  ====================================  ==============  ==================  ==============
    basenp      base noun phrases, English news       word, tag       77 train, 823 test  3
    chunking    phrases, the same sentences           word, tag       77 train, 823 test  14 train, 17 test
    JapaneseNE  named entities, Japanese news         word, kind, tag 216 train, 500 test 17 train, 18 test
    seg         words from characters, Japanese       character, kind 36 train, 19 test   2
    ==========  ====================================  ==============  ==================  ==============

    Parameters
    ----------
    task : {"basenp", "chunking", "JapaneseNE", "seg"}, default="basenp"
        The task.
    subset : {"train", "test"}, default="train"
        The training sets are the small ones. Test sets hold labels that are not in the training sets.
    data_home : path-like or None, default=None
        Folder that holds ``crfpp/<task>/train.data`` and so on. None: the folder named by the environment
        variable SKLEARN_SEQLAB_DATA, else the user's cache.
    download_if_missing : bool, default=True
        Whether to download missing files (needs the extra ``data``).
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of lists of tuple of str
            One list per sequence, one tuple of columns per step. The ideographic space (U+3000) is a token
            in the Japanese tasks.
        target : list of ndarray of shape (n_timesteps,), dtype=object
        template : str
            Text of the task's feature template, for `FeatureTemplates`.
        feature_names, target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError, ImportError, OSError
        If a file is missing, cannot be downloaded, or is not the published one.

    Notes
    -----
    From CRF++ by Taku Kudo (github.com/taku910/crfpp), which is under the BSD licence or the LGPL; for the
    texts no licence is stated. All 823 test sentences of basenp and chunking are also in the full CoNLL-2000
    files.
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {list(TASKS)}, but is {task!r}.")
    if subset not in ("train", "test"):
        raise ValueError(f"subset must be 'train' or 'test', but is {subset!r}.")
    encoding, columns = TASKS[task]
    paths = [f"crfpp/{task}/{subset}.data", f"crfpp/{task}/template"]
    rows, template = read_public_files(paths, data_home=data_home, download_if_missing=download_if_missing)
    data, target = parse_columns(rows.decode(encoding), what=paths[0])
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        template=template.decode("ascii"),
        feature_names=list(columns),
        target_names=np.unique(np.concatenate(target).astype(str)).astype(object),
        DESCR=fetch_crfpp.__doc__,
    )
