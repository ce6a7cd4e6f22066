import gzip
import hashlib
import io
import sys
import threading
import types
import urllib.request
import zipfile
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest

from sklearn_seqlab.datasets import (
    _cache,
    fetch_caviar,
    fetch_conll2000,
    fetch_crfpp,
    fetch_gesture_phase,
    fetch_kasteren,
    fetch_mit_placelab,
)
from sklearn_seqlab.datasets._cache import read_public_files, user_cache
from sklearn_seqlab.datasets._registry import FILES, PublicFile

CONTENT = b"one two\nthree four\n"


def register(monkeypatch, path, content=CONTENT, url="http://localhost:9/nothing", member=None):
    monkeypatch.setitem(FILES, path, PublicFile(hashlib.sha256(content).hexdigest(), url, member))


def put(folder, path, content=CONTENT):
    name = folder / path
    name.parent.mkdir(parents=True, exist_ok=True)
    name.write_bytes(gzip.compress(content) if name.suffix == ".gz" else content)


@pytest.fixture
def small(monkeypatch, no_data):
    register(monkeypatch, "toy/rows.txt")
    return no_data


@pytest.fixture
def server(tmp_path):
    """A loopback server for the files in a folder; yields (folder, address, list of requests)."""
    folder = tmp_path / "served"
    folder.mkdir()
    requests = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            requests.append(self.path)

    httpd = HTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{httpd.server_port}", requests
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture(params=["pooch", "stand-in"])
def downloader(request, monkeypatch):
    if request.param == "pooch":
        return pytest.importorskip("pooch")

    class HTTPDownloader:
        def __init__(self, timeout):
            self.timeout = timeout

        def __call__(self, url, output_file, pooch):
            urllib.request.urlretrieve(url, output_file)

    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(HTTPDownloader=HTTPDownloader))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_plain_and_gzip_files_from_data_home(small, tmp_path, suffix):
    put(tmp_path / "home", f"toy/rows.txt{suffix}")
    assert read_public_files(["toy/rows.txt"], data_home=tmp_path / "home") == [CONTENT]


def test_environment_variable_then_user_cache(small, tmp_path, monkeypatch):
    put(user_cache(), "toy/rows.txt")
    monkeypatch.setenv("SKLEARN_SEQLAB_DATA", str(tmp_path / "elsewhere"))
    assert read_public_files(["toy/rows.txt"]) == [CONTENT]
    assert str(user_cache()).startswith(str(small))
    put(tmp_path / "elsewhere", "toy/rows.txt", b"other")
    with pytest.raises(OSError, match=r"elsewhere.* is not the published toy/rows\.txt"):
        read_public_files(["toy/rows.txt"])
    # The argument goes before the variable.
    put(tmp_path / "argument", "toy/rows.txt")
    assert read_public_files(["toy/rows.txt"], data_home=str(tmp_path / "argument")) == [CONTENT]


def test_missing_file_names_file_and_place(small, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        read_public_files(["toy/rows.txt"], data_home=tmp_path / "home", download_if_missing=False)
    message = str(caught.value)
    assert str(tmp_path / "home" / "toy" / "rows.txt") in message
    assert str(user_cache()) in message
    assert "http://localhost:9/nothing" in message


def test_damaged_gzip_file(small, tmp_path):
    put(tmp_path, "toy/rows.txt.gz")
    name = tmp_path / "toy/rows.txt.gz"
    name.write_bytes(name.read_bytes()[:-9])
    with pytest.raises(OSError, match=r"rows\.txt\.gz is no complete gzip file"):
        read_public_files(["toy/rows.txt"], data_home=tmp_path)


def test_without_pooch_the_error_names_the_extra(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"sklearn_seqlab\[data\]") as caught:
        read_public_files(["toy/rows.txt"])
    assert str(user_cache() / "toy" / "rows.txt") in str(caught.value)


def test_download_once_into_the_user_cache(small, server, downloader, monkeypatch, tmp_path):
    folder, address, requests = server
    put(folder, "sub dir/rows.txt")
    register(monkeypatch, "toy/rows.txt", url=f"{address}/sub%20dir/rows.txt")
    for _ in range(2):
        assert read_public_files(["toy/rows.txt"], data_home=tmp_path / "home") == [CONTENT]
    assert len(requests) == 1
    assert [name.name for name in (user_cache() / "toy").iterdir()] == ["rows.txt"]
    assert not (tmp_path / "home").exists()


def test_download_with_wrong_bytes_leaves_nothing(small, server, downloader, monkeypatch):
    folder, address, _ = server
    put(folder, "rows.txt", CONTENT[:-1])
    register(monkeypatch, "toy/rows.txt", url=f"{address}/rows.txt")
    with pytest.raises(OSError, match=r"is not the published toy/rows\.txt"):
        read_public_files(["toy/rows.txt"])
    assert not user_cache().exists()


def test_download_that_fails_says_where_files_belong(small, server, downloader, monkeypatch):
    _, address, _ = server
    register(monkeypatch, "toy/rows.txt", url=f"{address}/absent.txt")
    with pytest.raises(OSError, match=r"Could not download .*absent\.txt.*They belong here") as caught:
        read_public_files(["toy/rows.txt"])
    assert str(user_cache() / "toy" / "rows.txt") in str(caught.value)
    assert not user_cache().exists()


def test_zip_archive_is_fetched_once_for_all_its_files(small, server, downloader, monkeypatch):
    folder, address, requests = server
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("set/a.txt", b"aaa")
        archive.writestr("set/b.txt", b"bbb")
    put(folder, "set.zip", packed.getvalue())
    for letter in "ab":
        register(monkeypatch, f"toy/{letter}", letter.encode() * 3, f"{address}/set.zip", f"set/{letter}.txt")
    assert read_public_files(["toy/a"]) == [b"aaa"]
    assert read_public_files(["toy/b", "toy/a"]) == [b"bbb", b"aaa"]
    assert len(requests) == 1


def test_archive_without_the_member(small, server, downloader, monkeypatch):
    folder, address, _ = server
    put(folder, "set.zip", b"no archive")
    register(monkeypatch, "toy/a", b"aaa", f"{address}/set.zip", "set/a.txt")
    with pytest.raises(OSError, match=r"is no zip archive with set/a\.txt"):
        read_public_files(["toy/a"])


def test_interrupted_write_leaves_no_half_file(small, monkeypatch):
    def fail(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_cache.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        _cache._write_atomically(user_cache() / "toy" / "rows.txt", CONTENT)
    assert list((user_cache() / "toy").iterdir()) == []


def test_registry_is_well_formed():
    for path, file in FILES.items():
        assert len(file.sha256) == 64 and int(file.sha256, 16) >= 0
        if file.url is None:
            continue
        assert file.url.startswith("https://raw.githubusercontent.com/")
        assert (file.member is None) != file.url.endswith(".zip"), path
    assert len({file.sha256 for file in FILES.values()}) == len(FILES)


def test_registry_matches_the_real_files(data_home):
    for path, content in zip(FILES, read_public_files(list(FILES), data_home=data_home), strict=True):
        assert hashlib.sha256(content).hexdigest() == FILES[path].sha256


@pytest.mark.parametrize(
    "fetch",
    [
        fetch_caviar,
        fetch_conll2000,
        fetch_crfpp,
        fetch_gesture_phase,
        fetch_kasteren,
        fetch_mit_placelab,
    ],
)
def test_fetchers_pass_their_switches_on(no_data, tmp_path, fetch):
    with pytest.raises(FileNotFoundError, match="They belong here") as caught:
        fetch(data_home=tmp_path / "home", download_if_missing=False)
    assert str(tmp_path / "home") in str(caught.value)
