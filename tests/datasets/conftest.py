import pytest


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """A user without any data: an empty cache, no environment variable. Returns the cache's parent."""
    monkeypatch.delenv("SKLEARN_SEQLAB_DATA", raising=False)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "user"))
    return tmp_path / "user"
