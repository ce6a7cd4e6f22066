"""LinearChainCRF and HMMClassifier beside python-crfsuite, sklearn-crfsuite, chaine and hmmlearn.

    python benchmarks/chain_peers.py                                    all tables (hours)
    python benchmarks/chain_peers.py conll2000_train conll2000_predict  some of them
    python benchmarks/chain_peers.py --small                            all on small data (minutes); stores nothing

Needs the extra `benchmarks`; without one of sklearn-crfsuite, chaine and hmmlearn its lines are left out. Tables go
into CHAIN_PEERS.md and CHAIN_PEERS.csv, and replace those of earlier runs.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import pickle
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from datetime import date
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from _chain_contestants import DATA, as_dicts
from papers._store import markdown_table, versions

FOLDER = Path(__file__).parent
FIELDS = ["table", "setting", "quantity", "peer", "ours", "theirs", "ratio", "low", "high", "runs"]
FIELDS += ["date", "command", "versions"]
HEAD = """# Linear chains beside other packages

Written by `chain_peers.py`; not by hand.

Each number is the median of several runs, taken in turns (ours, peer, ours, peer), each in a process of its own. All
start from the same lists of lists of lists of strings (features of steps) and lists of labels. "ratio" is ours over the
peer's in the same turn: median, and least to largest. "s CPU" counts all threads. Objectives are CRFsuite's:
negative log-likelihood plus c2 times the squared norm; ours is C times as much, c2 = 1 / (2 C). CRFsuite has weights
for all transitions (`feature.possible_transitions`); ours has no intercepts, starts and ends here. "vectorise" makes
CSR matrices of strings; "pack" is what else comes before the first evaluation: checking, copying, encoding labels and
finding the observed pairs of feature and label (ours), `append` and feature generation (CRFsuite, whose fits also
write a model file). "peak" is the largest resident memory of the process with interpreter, libraries and data, "rise"
what the fit added to that.
"""
PEERS = {"crfsuite": "python-crfsuite", "sklearn-crfsuite": "sklearn-crfsuite", "chaine": "chaine"}
PEERS["hmmlearn"] = "hmmlearn"
Result = dict[str, Any]
Value = Callable[[Result], float | None]
Call = tuple[str, dict[str, Any]]  # contestant and options


class Bench:
    """Makes data, runs contestants in turns, collects lines of tables."""

    def __init__(self, folder: str, options: argparse.Namespace):
        self.folder, self.options, self.small = Path(folder), options, options.small
        self.repeats, self.table = options.repeats, ""
        self.records: list[dict[str, str]] = []
        self.past: dict[str, list[Result]] = {}
        self.faults: list[str] = []

    def data(self, name: str, **arguments: Any) -> Path:
        """Path of the pickled data, which are made on first use."""
        key = "-".join([name, *(str(value) for value in arguments.values())])
        path = self.folder / f"{key}.pickle"
        if not path.exists():
            with path.open("wb") as file:
                pickle.dump(DATA[name](**arguments), file, protocol=pickle.HIGHEST_PROTOCOL)
        return path

    def command(self) -> str:
        options = f"--repeats {self.repeats}" + (" --small" if self.small else "")
        if self.table == "synthetic" and not self.small:
            options += f" --tokens {self.options.tokens} --labels {self.options.labels}"
        return f"python benchmarks/chain_peers.py {self.table} {options}"

    def dicts(self, data: Path) -> Path:
        path = data.with_suffix(".dicts")
        if not path.exists():
            with data.open("rb") as old, path.open("wb") as new:
                pickle.dump(as_dicts(pickle.load(old)), new, protocol=pickle.HIGHEST_PROTOCOL)
        return path

    def run(self, contestant: str, data: Path, **options: Any) -> Result:
        text = json.dumps(options)
        if contestant == "chaine":
            data = self.dicts(data)
        script = str(FOLDER / "_chain_contestants.py")
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        done = subprocess.run(
            [sys.executable, script, contestant, str(data), text],
            stdout=subprocess.PIPE, text=True, check=True, env=os.environ | one_thread,
        )  # fmt: skip
        result = json.loads(done.stdout.splitlines()[-1])
        self.past.setdefault(f"{contestant} {text} {data.stem}", []).append(result)
        print(f"  {self.table}: {contestant} {text}", file=sys.stderr, flush=True)
        return result

    def run_or_recall(self, contestant: str, data: Path, **options: Any) -> list[Result]:
        """Runs of this command, where there were any already: for what does not depend on the time of day."""
        found = self.past.get(f"{contestant} {json.dumps(options)} {data.stem}")
        return found or [self.run(contestant, data, **options)]

    def in_turns(
        self, data: Path, contestants: dict[str, Call], repeats: int | None = None
    ) -> dict[str, list[Result]]:
        found: dict[str, list[Result]] = {name: [] for name in contestants}
        for _ in range(repeats or self.repeats):
            for name, (contestant, options) in contestants.items():
                found[name].append(self.run(contestant, data, **options))
        return found

    def add(self, setting: str, quantity: str, peer: str, ours: Iterable, theirs: Iterable) -> None:
        """A line: values of both, run by run; None where there is none."""
        pairs = list(zip(ours, theirs, strict=True))
        ratios = [a / b for a, b in pairs if a is not None and b]
        numbers = {
            "ours": _median(a for a, _ in pairs),
            "theirs": _median(b for _, b in pairs),
            "ratio": _median(ratios),
            "low": min(ratios, default=None),
            "high": max(ratios, default=None),
        }
        self.records.append(
            {"table": self.table, "setting": setting, "quantity": quantity, "peer": peer}
            | {name: "" if value is None else f"{value:.10g}" for name, value in numbers.items()}
            | {"runs": "; ".join(f"{_show(a)} / {_show(b)}" for a, b in pairs)}
            | {"date": date.today().isoformat(), "command": self.command(), "versions": all_versions()}
        )

    def compare(
        self, setting: str, peer: str, ours: list, theirs: list, quantities: dict[str, Value]
    ) -> None:
        for name, value in quantities.items():
            self.add(setting, name, peer, map(value, ours), map(value, theirs))


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _show(value: float | None) -> str:
    if value is None:
        return "–"
    if value == round(value) or abs(value) >= 1e5:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.4g}"


@cache
def installed(contestant: str) -> bool:
    try:
        version(PEERS[contestant])
    except PackageNotFoundError:
        print(f"{PEERS[contestant]} is not installed", file=sys.stderr)
        return False
    return True


@cache
def all_versions() -> str:
    return versions(*(PEERS[name] for name in PEERS if installed(name)))


def seconds(name: str, values: Callable[[Result], tuple[float, float] | None]) -> dict[str, Value]:
    """A quantity in wall and in CPU seconds."""

    def part(which: int) -> Value:
        def value(run: Result) -> float | None:
            both = values(run)
            return None if both is None else both[which]

        return value

    return {f"{name}, s wall": part(0), f"{name}, s CPU": part(1)}


def lap(*names: str) -> Callable[[Result], tuple[float, float]]:
    def total(run: Result) -> tuple[float, float]:
        found = [run["laps"].get(name, (0.0, 0.0)) for name in names]
        return sum(a for a, _ in found), sum(b for _, b in found)

    return total


def reach(target: float, *laps: str) -> Callable[[Result], tuple[float, float] | None]:
    """Seconds until the objective is no larger than the target; None if it never is."""

    def found(run: Result) -> tuple[float, float] | None:
        wall, cpu = lap(*laps)(run)
        return next(((wall + w, cpu + c) for w, c, value, _ in run["trace"] if value <= target), None)

    return found


WHOLE = seconds("whole fit from strings", lap("total"))
MEMORY: dict[str, Value] = {"peak, MiB": lambda run: run["peak"], "rise, MiB": lambda run: run["rise"]}


def last(run: Result) -> float:
    return run["trace"][-1][2]


def score(run: Result) -> float:
    return run["score"]


# Tables


def objectives(bench: Bench) -> None:
    """Optimum of both on 300 sentences of CoNLL-2000, to tight tolerances: they minimise the same function."""
    data = bench.data("conll2000", n_sequences=300)
    ours = bench.run("ours", data, parameters={"tol": 1e-7})
    strict = {"c2": 1, "epsilon": 1e-7, "delta": 1e-9, "max_iterations": 3000}
    theirs = bench.run("crfsuite", data, parameters=strict)
    bench.compare("300 sentences", "CRFsuite lbfgs", [ours], [theirs], {"optimum, nats": last})
    gap = abs(last(ours) / last(theirs) - 1)
    bench.add("300 sentences", "relative difference of optima", "CRFsuite lbfgs", [gap], [None])
    if gap > 1e-4:
        bench.faults.append(f"optima differ by {gap:.1e}: the objectives are not the same")


def conll(bench: Bench) -> Path:
    return bench.data("conll2000", n_sequences=300 if bench.small else None)


def conll2000_train(bench: Bench) -> None:
    """Weights for observed pairs, c2 = 1. "to 0.01 %": until the objective is that near to the least one that any run
    found, one of ours with tol=1e-7 among them. "whole fit" is by each one's own stopping rule."""
    data = conll(bench)
    fits: dict[str, Call] = {}
    best = last(bench.run("ours", data, parameters={"tol": 1e-7, "max_iter": 3000}))
    for n_jobs in (1, 2):
        fits[f"n_jobs={n_jobs}"] = "ours", {"parameters": {"n_jobs": n_jobs}, "score": "f1"}
    fits["peer"] = CRFSUITE
    runs = bench.in_turns(data, fits)
    best = min(best, *(value for found in runs.values() for run in found for _, _, value, _ in run["trace"]))
    target = 1.0001 * best
    slow = [name for name in runs if any(reach(target)(run) is None for run in runs[name])]
    tight = runs
    if slow:  # who stopped before that goes on under a stricter rule, again in turns with the others
        stricter = {"ours": {"tol": 1e-6}, "crfsuite": {"delta": 1e-7, "epsilon": 1e-7}}
        again: dict[str, Call] = {}
        for name, (contestant, options) in fits.items():
            more = stricter[contestant] if name in slow else {}
            again[name] = contestant, {"parameters": options["parameters"] | more}
        tight = bench.in_turns(data, again)
    for name in list(fits)[:-1]:
        of = name, "CRFsuite lbfgs"
        quantities = seconds("vectorise", lap("vectorise")) | seconds("pack", lap("pack"))
        bench.compare(*of, runs[name], runs["peer"], quantities)
        quantities = seconds("solve to 0.01 %", reach(target))
        quantities |= seconds("from strings to 0.01 %", reach(target, "vectorise", "pack"))
        bench.compare(*of, tight[name], tight["peer"], quantities)
        quantities = seconds("solve by own rule", lap("solve")) | WHOLE
        quantities |= {"iterations": lambda run: run["n_iter"], "objective, nats": last}
        quantities |= {"above the best, %": lambda run: 100 * (last(run) / best - 1), "test F1": score}
        bench.compare(*of, runs[name], runs["peer"], quantities | MEMORY)


CRFSUITE: Call = "crfsuite", {"parameters": {"c2": 1}, "score": "f1"}
OURS: Call = "ours", {"parameters": {"n_jobs": 1}, "score": "f1"}
DENSE = {"restrict_features": False, "C": 2.0, "fit_intercept": True, "start_end": True}


def conll2000_dense(bench: Bench) -> None:
    """Ours with weights for all pairs (and intercepts, starts, ends), C = 2: the fewest passes of solver="sgd" that
    reach F1 93.6 on the test sentences, beside the whole fit of CRFsuite with weights for observed pairs, c2 = 1; and
    one fit by solver="auto" to its own stopping rule."""
    data, goal = conll(bench), 80.0 if bench.small else 93.6
    for passes in (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20):
        parameters = DENSE | {"solver": "sgd", "max_iter": passes, "random_state": 0}
        first = bench.run("ours", data, parameters=parameters, score="f1")
        if reached := first["score"] >= goal:
            break
    setting = f"sgd, max_iter={passes}: " + (f"F1 {goal:g}" if reached else f"F1 {goal:g} not reached")
    fits: dict[str, Call] = {"ours": ("ours", {"parameters": parameters, "score": "f1"}), "peer": CRFSUITE}
    runs = bench.in_turns(data, fits)
    quantities = WHOLE | {"test F1": score, "passes or iterations": lambda run: run["n_iter"]} | MEMORY
    bench.compare(setting, "CRFsuite lbfgs", runs["ours"], runs["peer"], quantities)
    full = bench.run("ours", data, parameters=DENSE, score="f1")
    bench.compare("auto, whole fit", "CRFsuite lbfgs", [full], runs["peer"][:1], quantities)


def conll2000_others(bench: Bench) -> None:
    """Whole fits by each one's own stopping rule: ours with weights for observed pairs, and what else there is."""
    ours: dict[str, Call] = {"ours": OURS}
    peers: dict[str, Call] = {
        "CRFsuite l2sgd": ("crfsuite", {"algorithm": "l2sgd"} | CRFSUITE[1]),
        "CRFsuite ap": ("crfsuite", {"algorithm": "ap", "score": "f1"}),
        "sklearn-crfsuite lbfgs": ("sklearn-crfsuite", {"score": "f1"}),
        "chaine lbfgs": ("chaine", {"score": "f1"}),
    }
    peers = {name: call for name, call in peers.items() if installed(call[0])}
    runs = bench.in_turns(conll(bench), ours | peers)
    for name in peers:
        bench.compare("c2 = 1", name, runs["ours"], runs[name], WHOLE | {"test F1": score} | MEMORY)


def conll2000_evaluation(bench: Bench) -> None:
    """CPU seconds of one value and gradient of ours, and of an iteration of CRFsuite's L-BFGS (25 less 5 iterations);
    as `conll2000.py cost`, in one process. An iteration may take more than one evaluation."""
    found = bench.run("evaluation", conll(bench), repeats=bench.repeats)
    bench.add("1 thread", "evaluation or iteration, s CPU", "CRFsuite lbfgs", found["ours"], found["theirs"])


def rate(name: str) -> dict[str, Value]:
    return {f"tokens/s {name}": lambda run: round(run["n_tokens"] / run[name.removesuffix(" input")][0])}


RATES = rate("ready input") | rate("from strings")


def predict(bench: Bench, data: Path, parameters: dict[str, Any]) -> dict[str, list[Result]]:
    passes = 3 if bench.small else 7
    return bench.in_turns(
        data,
        {
            "ours": ("ours", {"parameters": {"n_jobs": 1} | parameters, "predict": passes}),
            "peer": ("crfsuite", {"parameters": {"c2": 1, "max_iterations": 20}, "predict": passes}),
        },
    )


def conll2000_predict(bench: Bench) -> None:
    """Labels of the test sentences on one thread, from ready input (CSR matrices; ItemSequence) and from strings
    (SequenceDictVectorizer.transform and predict; Tagger.tag). Wall seconds, after fits of 20 iterations."""
    data = conll(bench)
    runs = predict(bench, data, {"max_iter": 20})
    bench.compare("weights for observed pairs", "CRFsuite", runs["ours"], runs["peer"], RATES)
    dense = DENSE | {"solver": "sgd", "max_iter": 3, "random_state": 0}
    runs = predict(bench, data, dense)
    bench.compare("weights for all pairs", "CRFsuite", runs["ours"], runs["peer"], RATES)


def conll2000_memory(bench: Bench) -> None:
    """Peak of the process of the whole fit; runs of the tables above serve, if the same command made them."""
    data, dense = conll(bench), DENSE | {"solver": "sgd", "max_iter": 3, "random_state": 0}
    ours: dict[str, Call] = {
        "observed pairs": OURS,
        "all pairs, 3 passes of sgd": ("ours", {"parameters": dense, "score": "f1"}),
    }
    peers: dict[str, Call] = {"CRFsuite lbfgs": CRFSUITE} | {
        f"{name} lbfgs": (name, {"score": "f1"}) for name in ("sklearn-crfsuite", "chaine") if installed(name)
    }
    for setting, our_call in ours.items():
        for peer, their_call in peers.items():
            found = [bench.run_or_recall(call[0], data, **call[1]) for call in (our_call, their_call)]
            n_runs = min(map(len, found))
            bench.compare(setting, peer, found[0][:n_runs], found[1][:n_runs], MEMORY)


def by_strings(bench: Bench, name: str, n_sequences: int) -> None:
    data = bench.data(name, n_sequences=n_sequences if bench.small else None)
    passes = 3 if bench.small else 7
    fits: dict[str, Call] = {
        "ours": ("ours", {"parameters": {"n_jobs": 1}, "score": "accuracy", "predict": passes}),
        "peer": ("crfsuite", {"parameters": {"c2": 1}, "score": "accuracy", "predict": passes}),
    }
    runs = bench.in_turns(data, fits)
    quantities = seconds("vectorise and pack", lap("vectorise", "pack")) | WHOLE
    quantities |= {"iterations": lambda run: run["n_iter"], "objective, nats": last}
    quantities |= {"held-out accuracy, %": score} | MEMORY | RATES
    bench.compare("LinearChainCRF", "CRFsuite lbfgs", runs["ours"], runs["peer"], quantities)
    if not installed("hmmlearn"):
        return
    both: dict[str, Call] = {
        "ours": ("our_hmm", {"predict": passes}),
        "peer": ("hmmlearn", {"predict": passes}),
    }
    runs = bench.in_turns(data, both)
    bench.compare(
        "HMMClassifier, same parameters", "hmmlearn", runs["ours"], runs["peer"],
        rate("ready input") | {"path score, nats": lambda run: run["path score"]},
    )  # fmt: skip


def kasteren(bench: Bench) -> None:
    """House A by days, sensors that changed or were the last to (and a bias) as features; every fourth day is held out.
    Hidden Markov models decode all days, a code for each set of sensors (hmmlearn's CategoricalHMM)."""
    by_strings(bench, "kasteren", 8)


def ocr_letters(bench: Bench) -> None:
    """Handwritten words, set pixels (and a bias) as features; fold 0 is held out. Hidden Markov models decode all
    words, a Gaussian for each pixel (hmmlearn's GaussianHMM, "diag")."""
    by_strings(bench, "ocr_letters", 300)


def iterations(data: Path, bench: Bench, n_iter: int) -> dict[str, list[Result]]:
    ours = {"solver": "lbfgs", "tol": 0.0, "max_iter": n_iter, "n_jobs": 1}
    theirs = {"c2": 1, "max_iterations": n_iter}
    calls: dict[str, Call] = {
        "ours": ("ours", {"parameters": ours}),
        "peer": ("crfsuite", {"parameters": theirs}),
    }
    return bench.in_turns(data, calls)


def pace(n_last: int, per: str, which: int) -> Value:
    """Wall (0) or CPU (1) seconds of an iteration or an evaluation over the last iterations of a run."""

    def value(run: Result) -> float | None:
        first, final = run["trace"][-1 - n_last], run["trace"][-1]
        count = n_last if per == "iteration" else final[3] - first[3]
        return (final[which] - first[which]) / count

    return value


def synthetic(bench: Bench) -> None:
    """Random sequences of 25 tokens, ten features of 10,000 a token; six iterations of L-BFGS from zero, c2 = 1, of
    which the last four count. An iteration takes one evaluation or more."""
    n_tokens, n_labels, n_features = (
        (5_000, 20, 1_000) if bench.small else (bench.options.tokens, bench.options.labels, 10_000)
    )
    data = bench.data("synthetic", n_tokens=n_tokens, n_labels=n_labels, n_features=n_features)
    runs = iterations(data, bench, 6)
    quantities = seconds("vectorise and pack", lap("vectorise", "pack"))
    quantities |= {
        "an iteration, s wall": pace(4, "iteration", 0),
        "an iteration, s CPU": pace(4, "iteration", 1),
    }
    each = pace(4, "evaluation", 1)
    quantities |= {"an evaluation, s CPU": each}
    quantities |= {"an evaluation and token, µs CPU": lambda run: 1e6 * each(run) / n_tokens}  # type: ignore[operator]
    setting = f"{n_tokens:,} tokens, {n_labels} labels"
    bench.compare(setting, "CRFsuite lbfgs", runs["ours"], runs["peer"], quantities | MEMORY)


def growth(bench: Bench) -> None:
    """CPU seconds of an evaluation on such sequences, with one size changed at a time (20 labels, 2,000 features and
    40,000 tokens otherwise; 80,000 tokens for the features), and the slopes of log seconds on log size."""
    base = {"n_tokens": 40_000, "n_labels": 20, "n_features": 2_000}
    axes = {
        "n_tokens": [40_000, 80_000, 160_000, 320_000],
        "n_labels": [10, 20, 50, 100, 200],
        "n_features": [2_000, 8_000, 32_000, 128_000],
    }
    if bench.small:
        base = {"n_tokens": 2_000, "n_labels": 10, "n_features": 500}
        axes = {"n_tokens": [2_000, 4_000], "n_labels": [10, 20], "n_features": [500, 1_000]}
    each = pace(6, "evaluation", 1)
    for axis, sizes in axes.items():
        found: dict[str, list[list[float]]] = {"ours": [], "peer": []}
        name = axis.removeprefix("n_")
        for size in sizes:
            shape = base | ({"n_tokens": 2 * base["n_tokens"]} if axis == "n_features" else {}) | {axis: size}
            runs = iterations(bench.data("synthetic", **shape), bench, 9)
            bench.compare(
                f"{size:,} {name}",
                "CRFsuite lbfgs",
                runs["ours"],
                runs["peer"],
                {"an evaluation, s CPU": each},
            )
            for side in found:
                found[side].append([each(run) or math.nan for run in runs[side]])
        slopes = {
            side: [slope(sizes, turn) for turn in zip(*values, strict=True)] for side, values in found.items()
        }
        bench.add(f"slope in {name}", "log s over log size", "CRFsuite lbfgs", slopes["ours"], slopes["peer"])


def slope(sizes: Iterable[float], values: Iterable[float]) -> float:
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope


TABLES: dict[str, tuple[Callable[[Bench], None], str]] = {
    "objectives": (objectives, "Same objective"),
    "conll2000_train": (conll2000_train, "CoNLL-2000, training"),
    "conll2000_dense": (conll2000_dense, "CoNLL-2000, weights for all pairs"),
    "conll2000_others": (conll2000_others, "CoNLL-2000, other trainers"),
    "conll2000_evaluation": (conll2000_evaluation, "CoNLL-2000, one evaluation"),
    "conll2000_predict": (conll2000_predict, "CoNLL-2000, prediction"),
    "conll2000_memory": (conll2000_memory, "CoNLL-2000, memory"),
    "kasteren": (kasteren, "Van Kasteren's house A"),
    "ocr_letters": (ocr_letters, "Handwritten letters"),
    "synthetic": (synthetic, "Many labels"),
    "growth": (growth, "Growth"),
}


# Storing


def report(records: list[dict[str, str]]) -> str:
    parts = [HEAD]
    for name, (function, title) in TABLES.items():
        lines = [record for record in records if record["table"] == name]
        if not lines:
            continue
        about = " ".join((function.__doc__ or "").split())
        rows = [
            [line["setting"], line["quantity"], line["peer"]]
            + [_show(float(line[field])) if line[field] else "" for field in ("ours", "theirs")]
            + [_ratio(line)]
            for line in lines
        ]
        parts.append(
            f"## {title}\n\n{lines[0]['date']}. {lines[0]['versions']}. {platform.machine()}. "
            f"`{lines[0]['command']}`\n\n{about}\n\n"
            + markdown_table(
                ["setting", "quantity", "peer", "ours", "peer's", "ratio (least to largest)"], rows
            )
            + "\n"
        )
    return "\n".join(parts)


def _ratio(line: dict[str, str]) -> str:
    if not line["ratio"]:
        return ""
    ratio, low, high = (float(line[name]) for name in ("ratio", "low", "high"))
    digits = 6 if line["quantity"].endswith(", nats") else 3
    if "; " not in line["runs"]:
        return f"{ratio:.{digits}f}"
    return f"{ratio:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def store(folder: Path, table: str, records: list[dict[str, str]]) -> None:
    """Replace the lines of a table in the CSV, and write all tables."""
    folder.mkdir(exist_ok=True)
    path = folder / "CHAIN_PEERS.csv"
    kept: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [record for record in csv.DictReader(file) if record["table"] != table]
    kept = [*kept, *records]
    kept.sort(key=lambda record: list(TABLES).index(record["table"]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(kept)
    (folder / "CHAIN_PEERS.md").write_text(report(kept))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="table", help=f"of {', '.join(TABLES)} (all)")
    parser.add_argument("--repeats", type=int, help="runs of each contestant (3; 1 with --small)")
    parser.add_argument("--small", action="store_true", help="small data, for a look whether all works")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="of synthetic")
    parser.add_argument("--labels", type=int, default=100, help="of synthetic")
    parser.add_argument("--output", type=Path, help="folder of the tables (this one; none with --small)")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"no such table: {', '.join(sorted(unknown))}")
    options.repeats = options.repeats or (1 if options.small else 3)
    output = options.output or (None if options.small else FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, options)
        for name in options.tables or TABLES:
            bench.table, first = name, len(bench.records)
            try:
                TABLES[name][0](bench)
            except subprocess.CalledProcessError as error:
                bench.faults.append(f"{name} failed: {error}")
                continue
            found = bench.records[first:]
            print(report(found).removeprefix(HEAD), flush=True)
            if output is not None:
                store(output, name, found)
    if bench.faults:
        raise SystemExit("; ".join(bench.faults))


if __name__ == "__main__":
    main()
