"""Noun phrases of CoNLL-2000 over groups of parts of speech (seed 000, section 9.2).

Levels: {NP, other} over groups of parts of speech. Words are lower-cased; features are words and bigrams in a
window of five, the shape of the word, suffixes of two and three letters, those that occur more than three times.
The upper level also weighs the inputs at the first and last token of its segments. DynamicCRF has the 22 chunk tags
as its upper level, and noun phrases are read off these. F1 of exact noun phrases on the test set. "given": the
parts of speech are known at test time (as labels, or as inputs of the flat model); "hidden": they are not, though
the hierarchy has seen them in training.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, versions, write_section
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import DynamicCRF, HSCRFClassifier
from sklearn_seqlab.datasets import fetch_conll2000
from sklearn_seqlab.feature_extraction import SequenceDictVectorizer
from sklearn_seqlab.sequences import bio_to_segments

GROUPS = {"N": "noun", "V": "verb", "J": "adjective", "R": "adverb"}
MORE_THAN = 3
C, MAX_ITER = 2.0, 100

# Weights of observed pairs alone, and fewer iterations: a step of this model costs 968 tuples of labels.
GRID_ITER = 40

# Row -> (level of parts of speech, or "chunks" for chunk tags over parts of speech; parts of speech as inputs; known at
# test time)
ROWS: dict[str, tuple[str | None, str | None, bool]] = {
    "HSCRF, 5 groups, given": ("groups", None, True),
    "HSCRF, 5 groups, hidden": ("groups", None, False),
    "HSCRF, 44 tags, given": ("tags", None, True),
    "HSCRF, 44 tags, hidden": ("tags", None, False),
    "DynamicCRF, 44 tags, given": ("chunks", None, True),
    "DynamicCRF, 44 tags, hidden": ("chunks", None, False),
    "flat segments, 5 groups as inputs": (None, "groups", False),
    "flat segments, 44 tags as inputs": (None, "tags", False),
    "flat segments, no parts of speech": (None, None, False),
}


def group(tag: str) -> str:
    return GROUPS.get(tag[0], "other") if tag not in ("RP", "NNPOS") else "other"


def attributes(tokens: list[Any], tags: list[str] | None) -> list[list[str]]:
    """Names of what holds at each token."""
    words = [token[0].lower() for token in tokens]
    pad = ["<", "<<"]
    around = [pad[1], pad[0], *words, ">", ">>"]
    found = []
    for t, token in enumerate(tokens):
        word = token[0]
        names = [f"w{k}={around[t + 2 + k]}" for k in range(-2, 3)]
        names += [f"b{k}={around[t + 2 + k]}|{around[t + 3 + k]}" for k in range(-2, 2)]
        names += [f"s2={word[-2:].lower()}", f"s3={word[-3:].lower()}"]
        names += [f"shape{k}" for k, holds in enumerate(shape(word)) if holds]
        if tags is not None:
            padded = ["<<", "<", *tags, ">", ">>"]
            names += [f"p{k}={padded[t + 2 + k]}" for k in range(-2, 3)]
            names += [f"q{k}={padded[t + 2 + k]}|{padded[t + 3 + k]}" for k in range(-2, 2)]
        found.append([*names, "bias"])
    return found


def shape(word: str) -> tuple[bool, ...]:
    return (
        word[0].isupper(),
        word.isupper(),
        any(c.isdigit() for c in word),
        "-" in word,
        not any(c.isalnum() for c in word),
    )


def inputs(bunch: Any, parts: str | None) -> list[list[list[str]]]:
    tags = [[token[1] for token in tokens] for tokens in bunch.data]
    if parts == "groups":
        tags = [[group(tag) for tag in sequence] for sequence in tags]
    return [
        attributes(tokens, sequence if parts else None)
        for tokens, sequence in zip(bunch.data, tags, strict=True)
    ]


def features(parts: str | None) -> tuple[list[Any], list[Any]]:
    train, test = (inputs(fetch_conll2000(subset=name), parts) for name in ("train", "test"))
    vectorizer = SequenceDictVectorizer().fit(train)
    X, X_test = vectorizer.transform(train), vectorizer.transform(test)
    counts = sum(np.asarray(x.sum(axis=0)).ravel() for x in X)
    kept = np.flatnonzero(counts > MORE_THAN)
    return [[sparse.csr_array(x)[:, kept] for x in batch] for batch in (X, X_test)]


def noun_phrases(tags: list[str]) -> list[tuple[int, int, str]]:
    return [segment for segment in bio_to_segments(tags) if segment[2] == "NP"]


def labels(bunch: Any, level: str | None) -> list[Any]:
    """Labels and ends by token: neighbouring noun phrases are told apart by the ends alone, or by chunk tags."""
    made: list[Any] = []
    if level == "chunks":
        for tokens, chunks in zip(bunch.data, bunch.target, strict=True):
            made.append([[str(chunk), token[1]] for token, chunk in zip(tokens, chunks, strict=True)])
        return made
    for tokens, chunks in zip(bunch.data, bunch.target, strict=True):
        upper, ends = np.full(len(tokens), "other", dtype="U5"), np.zeros(len(tokens), dtype=int)
        for start, stop, _ in noun_phrases(list(chunks)):
            upper[start:stop] = "NP"
            ends[stop - 1] = 1
            ends[max(start - 1, 0)] = 1 if start else ends[0]
        ends[-1] = 1
        if level is None:
            made.append((upper, ends))
            continue
        tags = [token[1] if level == "tags" else group(token[1]) for token in tokens]
        table = np.column_stack([upper.astype(object), np.array(tags, dtype=object)])
        made.append((table, np.column_stack([ends, np.ones(len(tokens), dtype=int)])))
    return made


def observed(bunch: Any, level: str) -> list[np.ndarray]:
    known = []
    for tokens in bunch.data:
        table = np.full((len(tokens), 2), None, dtype=object)
        table[:, 1] = [group(token[1]) if level == "groups" else token[1] for token in tokens]
        known.append(table)
    return known


def counts(predicted: list[Any], bunch: Any) -> np.ndarray:
    """Per sentence: noun phrases found right, found, true."""
    rows = []
    for segments, chunks in zip(predicted, bunch.target, strict=True):
        found = {(s[-3], s[-2]) for s in segments if s[-1] == "NP" and (len(s) == 3 or s[0] == 0)}
        true = {(start, stop) for start, stop, _ in noun_phrases(list(chunks))}
        rows.append((len(found & true), len(found), len(true)))
    return np.array(rows)


def f1(rows: np.ndarray) -> float:
    right, found, true = rows.sum(axis=0)
    return 200 * right / (found + true)


def bootstrap(a: np.ndarray, b: np.ndarray, n_draws: int = 2000) -> tuple[float, float, float]:
    """Difference of F1 and its 95 % interval, paired over sentences."""
    random = np.random.default_rng(0)
    draws = random.integers(len(a), size=(n_draws, len(a)))
    gains = [f1(a[draw]) - f1(b[draw]) for draw in draws]
    return f1(a) - f1(b), *np.percentile(gains, [2.5, 97.5])


def model(level: str | None) -> Any:
    if level == "chunks":
        return DynamicCRF(C=C, restrict_features=True, max_iter=GRID_ITER, n_jobs=2)
    edges = [("start", "end")] if level is None else [("start", "end"), ()]
    return HSCRFClassifier(
        bottom_persist=level is None, edge_features=edges, C=C, max_iter=MAX_ITER, n_jobs=2
    )


def scores() -> FoldScores:
    return FoldScores(
        "noun_phrases", ["row", "sentence"], ["right", "found", "true", "iterations", "seconds"]
    )


def run(options: Any) -> None:
    rows = options.rows or list(ROWS)
    warnings.simplefilter("ignore", ConvergenceWarning)
    store = scores()
    train, test = fetch_conll2000(subset="train"), fetch_conll2000(subset="test")
    made: dict[Any, Any] = {}  # the features of the last inputs
    fits: dict[Any, Any] = {}
    for row in rows:
        level, parts, given = ROWS[row]
        if parts not in made:
            made = {parts: features(parts)}
        X, X_test = made[parts]
        if (level, parts) not in fits:
            start = time.perf_counter()
            fits[level, parts] = model(level).fit(X, labels(train, level)), time.perf_counter() - start
        fitted, seconds = fits[level, parts]
        known = observed(test, level) if given else None
        if level == "chunks":
            predicted = [
                noun_phrases([str(tag) for tag in table[:, 0]]) for table in fitted.predict(X_test, known)
            ]
        else:
            predicted = fitted.predict_segments(X_test, known)
        found = counts(predicted, test)
        print(f"{row}: F1 {f1(found):.2f}, {fitted.n_iter_} iterations, {seconds:.1f} s", flush=True)
        for s, (right, n_found, true) in enumerate(found):
            store.add(
                row=row, sentence=f"{s:04d}", right=right, found=n_found, true=true,
                iterations=fitted.n_iter_, seconds=round(seconds, 1),
            )  # fmt: skip
        store.save()


def write() -> None:
    store = scores()
    found = {row: counts_of(store, row) for row in ROWS}
    lines = []
    for row, table in found.items():
        if len(table):
            record = store.select(row=row)[0]
            lines.append([row, f"{f1(table):.2f}", record["iterations"], record["seconds"]])
    pairs = [
        ("HSCRF, 5 groups, hidden", "flat segments, no parts of speech"),
        ("HSCRF, 44 tags, hidden", "flat segments, no parts of speech"),
        ("HSCRF, 5 groups, given", "flat segments, 5 groups as inputs"),
        ("HSCRF, 44 tags, given", "flat segments, 44 tags as inputs"),
        ("DynamicCRF, 44 tags, given", "HSCRF, 44 tags, given"),
    ]
    gains = []
    for a, b in pairs:
        if len(found[a]) and len(found[b]):
            gain, low, high = bootstrap(found[a], found[b])
            gains.append([a, b, f"{gain:+.2f}", f"{low:+.2f} to {high:+.2f}"])
    found_dates = sorted({record["date"] for record in store.records.values()})
    write_section(
        "noun_phrases",
        "## Noun phrases over parts of speech (seed 000, 9.2)\n\n"
        f"{found_dates[0]} to {found_dates[-1]}. {versions()}. `python benchmarks/papers/run.py noun_phrases`\n\n"
        f"{__doc__.split(chr(10), 1)[1].strip()}\n\nC = {C:g}, at most {MAX_ITER} iterations ({GRID_ITER} for "
        "DynamicCRF). Seconds of training on "
        "two threads of a shared machine.\n\n"
        + markdown_table(["model", "NP F1", "iterations", "training, s"], lines)
        + "\n\nDifferences of F1, with 95 % intervals of a bootstrap over test sentences (2,000 draws).\n\n"
        + markdown_table(["model", "less", "F1", "95 %"], gains),
    )


def counts_of(store: FoldScores, row: str) -> np.ndarray:
    records = store.select(row=row)
    return np.array([[int(record[name]) for name in ("right", "found", "true")] for record in records])
