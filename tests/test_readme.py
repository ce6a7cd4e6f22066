"""The README's snippets run as they stand, one after the other."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_snippets_run():
    plt = pytest.importorskip("matplotlib.pyplot")
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(snippets) == 5
    names: dict = {}
    for snippet in snippets:
        exec(compile(snippet, str(README), "exec"), names)
    assert names["labels"][0].shape == (1440,)
    assert names["table"].shape[1] == 2
    plt.close("all")
