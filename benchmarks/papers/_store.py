"""Scores by fold, kept in CSV files, and the tables in RESULTS.md that are made of them."""

from __future__ import annotations

import csv
import platform
import re
from datetime import date
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"


class FoldScores:
    """Rows of one table: a dict per (setting, row, deal, fold); a new run of a row replaces the old one."""

    def __init__(self, table: str, keys: list[str], values: list[str]):
        self.path = FOLDER / "results" / f"{table}.csv"
        self.keys, self.values = keys, values
        self.records = self._read()
        self.added: dict[tuple[str, ...], dict[str, str]] = {}

    def _read(self) -> dict[tuple[str, ...], dict[str, str]]:
        if not self.path.exists():
            return {}
        with self.path.open(newline="") as file:
            return {self._key(record): record for record in csv.DictReader(file)}

    def _key(self, record: dict) -> tuple[str, ...]:
        return tuple(str(record[key]) for key in self.keys)

    def add(self, **record) -> None:
        record = {key: str(value) for key, value in record.items()} | {"date": date.today().isoformat()}
        self.records[self._key(record)] = record
        self.added[self._key(record)] = record

    def save(self) -> None:
        """Write what this run added into the file as it is now: runs of other rows may go on beside it."""
        self.records = self._read() | self.added
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*self.keys, *self.values, "date"])
            writer.writeheader()
            writer.writerows(self.records[key] for key in sorted(self.records))

    def select(self, **wanted) -> list[dict[str, str]]:
        """Records that agree with ``wanted``, in the order of their keys (so that folds pair up)."""
        return [
            self.records[key]
            for key in sorted(self.records)
            if all(self.records[key][name] == str(value) for name, value in wanted.items())
        ]


def versions(*more: str) -> str:
    names = ["sklearn_seqlab", "numpy", "scipy", "scikit-learn", *more]
    found = ", ".join(f"{name} {version(name)}" for name in names)
    return f"CPython {platform.python_version()}, {found}"


def mean_and_deviation(values, digits: int = 2, sign: str = "") -> str:
    """Of several numbers; of a single one the number alone."""
    mean, count = sum(values) / len(values), len(values)
    if count < 2:
        return f"{mean:{sign}.{digits}f}"
    deviation = (sum((value - mean) ** 2 for value in values) / (count - 1)) ** 0.5
    return f"{mean:{sign}.{digits}f} ± {deviation:.{digits}f}"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def write_section(name: str, text: str) -> None:
    """Replace (or append) the section of a table in RESULTS.md."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    old = (
        RESULTS.read_text()
        if RESULTS.exists()
        else "# Tables of the papers\n\nWritten by `run.py`; not by hand.\n"
    )
    section = f"{begin}\n{text}\n{end}\n"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end) + r"\n", re.DOTALL)
    if pattern.search(old):
        RESULTS.write_text(pattern.sub(lambda match: section, old))
    else:
        RESULTS.write_text(old + "\n" + section)
