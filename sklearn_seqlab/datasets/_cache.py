"""The one way to public data: look on disk, else download; always check the bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from sklearn_seqlab.datasets._registry import FILES

__all__ = ["ENVIRONMENT_VARIABLE", "read_public_files", "user_cache"]

ENVIRONMENT_VARIABLE = "SKLEARN_SEQLAB_DATA"


def user_cache() -> Path:
    """Folder of the current user in which downloads are kept."""
    home = Path.home()
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        root = home / "Library" / "Caches"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(root) / "sklearn_seqlab"


def read_public_files(
    paths: Sequence[str], *, data_home: str | os.PathLike | None = None, download_if_missing: bool = True
) -> list[bytes]:
    """Uncompressed bytes of registered files.

    Parameters
    ----------
    paths : sequence of str
        Keys of the registry: paths below the data folder.
    data_home : path-like or None, default=None
        Folder to look in first; None: that of the environment variable SKLEARN_SEQLAB_DATA, if set. The
        user's cache is looked in last, and is where downloads go.
    download_if_missing : bool, default=True
        Whether files found in neither folder are downloaded.

    Returns
    -------
    contents : list of bytes

    Raises
    ------
    FileNotFoundError
        If a file is missing and is not to be downloaded, or cannot be.
    ImportError
        If a file is missing and pooch, which downloads it, is not installed.
    OSError
        If a file cannot be read or downloaded, or its bytes are not the published ones.
    """
    if not isinstance(data_home, str | os.PathLike | None):
        raise TypeError(f"data_home must be a path or None, but is {data_home!r}.")
    folders = [Path(data_home or os.environ.get(ENVIRONMENT_VARIABLE) or user_cache()).expanduser()]
    if user_cache() not in folders:
        folders.append(user_cache())
    contents = {path: _read_local(path, folders) for path in paths}
    missing = [path for path, content in contents.items() if content is None]
    if missing and (not download_if_missing or any(FILES[path].url is None for path in missing)):
        raise FileNotFoundError(_where_they_belong(missing, folders))
    for url in dict.fromkeys(url for path in missing if (url := FILES[path].url)):
        contents.update(_download(url, [path for path in missing if FILES[path].url == url], folders))
    return [content for path in paths if (content := contents[path]) is not None]


def _read_local(path: str, folders: list[Path]) -> bytes | None:
    for folder in folders:
        for name in (folder / path, folder / f"{path}.gz"):
            if not name.is_file():
                continue
            content = name.read_bytes()
            if name.suffix == ".gz":
                try:
                    content = gzip.decompress(content)
                except (EOFError, OSError) as error:
                    raise OSError(f"{name} is no complete gzip file ({error}); remove it.") from error
            _check(content, path, str(name))
            return content
    return None


def _check(content: bytes, path: str, where: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != FILES[path].sha256:
        raise OSError(
            f"{where} is not the published {path}: its bytes have sha256 {found}, "
            f"expected {FILES[path].sha256}. Remove or replace it."
        )


def _where_they_belong(paths: Sequence[str], folders: list[Path]) -> str:
    lines = [
        f"  {folders[0] / path}  (or {path}.gz; source: {FILES[path].url or 'none that can be downloaded'})"
        for path in paths
    ]
    looked = " and ".join(str(folder) for folder in folders)
    return "\n".join([f"Data files were not found in {looked}. They belong here:", *lines])


def _download(url: str, paths: list[str], folders: list[Path]) -> dict[str, bytes]:
    """Fetch `url`, keep every registered file that comes from it, and return those asked for."""
    try:
        import pooch  # optional dependency, needed only here
    except ImportError as error:
        raise ImportError(
            "Downloading needs pooch: install the extra with `pip install 'sklearn_seqlab[data]'`. "
            + _where_they_belong(paths, folders)
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        name = Path(folder) / "download"
        try:
            pooch.HTTPDownloader(timeout=60)(url, str(name), None)
        except OSError as error:  # errors of requests are OSErrors
            raise OSError(
                f"Could not download {url}: {error}. {_where_they_belong(paths, folders)}"
            ) from error
        fetched = name.read_bytes()

    # An archive holds more than was asked for; keeping it all saves the next download.
    siblings = [path for path, file in FILES.items() if file.url == url]
    contents = {path: _extract(fetched, path) for path in siblings}
    for path, content in contents.items():
        _check(content, path, url)
    for path, content in contents.items():
        _write_atomically(user_cache() / path, content)
    return {path: contents[path] for path in paths}


def _extract(fetched: bytes, path: str) -> bytes:
    file = FILES[path]
    if file.member is None:
        return fetched
    try:
        with zipfile.ZipFile(io.BytesIO(fetched)) as archive:
            return archive.read(file.member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise OSError(f"{file.url} is no zip archive with {file.member}: {error}.") from error


def _write_atomically(name: Path, content: bytes) -> None:
    """Write beside the goal, then rename: no reader ever sees half a file."""
    name.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=name.parent, prefix=f".{name.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(part, name)
    except BaseException:
        os.unlink(part)
        raise
