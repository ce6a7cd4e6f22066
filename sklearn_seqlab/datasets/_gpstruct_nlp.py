"""The four CRF++ tasks as the authors of GPstruct used them: features extracted, splits fixed."""

from __future__ import annotations

import io
import os
import tarfile

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from sklearn_seqlab.datasets._cache import read_public_files

__all__ = ["fetch_gpstruct_nlp"]

# task -> (number of labels of CRF++, by which its feature numbers step; sequences in the splits; training sequences)
TASKS = {
    "basenp": (3, 300, 150),
    "chunking": (14, 100, 50),
    "segmentation": (2, 36, 20),
    "japanesene": (17, 100, 50),
}


def fetch_gpstruct_nlp(
    task: str = "basenp",
    *,
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
):
    """Sequences of sparse binary features, and five splits into training and test.

    ============  ====================================  =========  ================  ======  ==================
    task          what                                  sequences  in splits         labels  features
    ============  ====================================  =========  ================  ======  ==================
    basenp        base noun phrases, English news       823        150 / 150         3       2,146
    chunking      phrases, the same sentences           823        50 / 50           14 + 1  2,126
    segmentation  words from characters, Japanese       36         20 / 16           2       693
    japanesene    named entities, Japanese news         500        50 / 50           17 + 1  6,047
    ============  ====================================  =========  ================  ======  ==================

    Parameters
    ----------
    task : {"basenp", "chunking", "segmentation", "japanesene"}, default="basenp"
    data_home : path-like or None, default=None
        Folder that holds ``gpstruct_nlp/<task>.tar.gz`` and so on. None: the folder named by the environment variable
        SKLEARN_SEQLAB_DATA, else the user's cache.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        data : list of csr_array of shape (n_timesteps, n_features)
        target : list of ndarray of shape (n_timesteps,), dtype=int
            Numbers of labels; -1 stands for rare ones that CRF++ had not seen.
        splits : list of 5 tuples (train, test) of ndarray of int
            Places in ``data``. Not all sequences are in a split.
        target_names, DESCR
    (data, target) : tuple if `return_X_y` is True

    Raises
    ------
    FileNotFoundError
        If a file is not there; they are not downloaded.
    OSError
        If a file is not the published one.

    Notes
    -----
    From github.com/sebastien-bratieres/pygpstruct (Apache-2.0). Please cite Bratieres, Quadrianto and Ghahramani,
    "GPstruct: Bayesian structured prediction using Gaussian processes", IEEE TPAMI 2015. Only features of the CRF++
    model are kept, far fewer than the templates give. :func:`fetch_crfpp` has the text of the same sequences.
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {list(TASKS)}, but is {task!r}.")
    step, n_split, n_train = TASKS[task]
    paths = [f"gpstruct_nlp/{task}.tar", f"gpstruct_nlp/datasplit.n_data={n_split}.txt"]
    archive, splits = read_public_files(paths, data_home=data_home, download_if_missing=False)
    data, target = _read_archive(archive, task, step)
    if return_X_y:
        return data, target
    orders = [np.array(line.split(), dtype=np.intp) - 1 for line in splits.decode("ascii").splitlines()]
    return Bunch(
        data=data,
        target=target,
        splits=[(order[:n_train], order[n_train:]) for order in orders],
        target_names=np.unique(np.concatenate(target)),
        DESCR=fetch_gpstruct_nlp.__doc__,
    )


def _read_archive(content: bytes, task: str, step: int) -> tuple[list[sparse.csr_array], list[np.ndarray]]:
    inputs: dict[int, np.ndarray] = {}
    labels: dict[int, np.ndarray] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            stem, _, kind = member.name.rpartition("/")[2].partition(".")
            file = archive.extractfile(member) if kind in ("x", "y") else None
            if file is None:
                continue
            numbers = np.array(file.read().split(), dtype=np.intp)
            if kind == "x":
                inputs[int(stem)] = numbers.reshape(-1, 3)
            else:
                labels[int(stem)] = numbers
    # feature numbers were dealt out by CRF++, one for each label
    n_features = 1 + max(int(rows[:, 1].max()) for rows in inputs.values() if len(rows)) // step
    data, target = [], []
    for key in sorted(labels):
        place, feature, value = inputs[key].T
        shape = (len(labels[key]), n_features)
        data.append(sparse.csr_array((value.astype(np.float64), (place - 1, feature // step)), shape=shape))
        target.append(labels[key].astype(np.int64))
    return data, target
