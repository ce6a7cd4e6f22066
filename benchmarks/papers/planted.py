"""Planted rules of simulated homes (seed 001): which come back, and what they are worth.

`make_smart_home` plants four rules of two or three sensors that are on in the same minute and two of a sensor that was
on one to three minutes before another. `StructHKLClassifier` sees the sensors of a minute, "enumAF" also what was on
in the three minutes before (`RelationalPatternMiner`); `RuleEnsembleHKL` takes minutes one by one. All have rho = 1.1
and beta = 0.5.

A rule is a conjunction of two inputs or more with a positive weight above a share of the largest weight of the model
("threshold"), such that no longer one of the same label is. It is right if its label and its body are those of a
planted rule; what contains a planted body under its label, or is a part of one, counts neither for nor against.
Same-time rules are asked of all models, relative ones of "enumAF" alone, whose conjunctions have two inputs at most, so
that it is not asked for the rule of three. A model that sees time also finds what planting brings with it:
where the rule's pattern is missing, its sensors go on one after the other, under the rival label more often; and a
minute after an event they were both on before. Rules of "enumAF" whose sensors are all of one planted rule and whose
label is that rule's or its rival are therefore counted apart ("brought along"); the column "strict precision" counts
them as wrong. "relative": how many of the two relative rules of each home were found. Wrong ones are also counted among
rules of objects alone ("of objects"): sensors of rooms, doors and furniture have patterns of their own, which nobody
planted.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, mean_and_deviation, versions, write_section
from scipy.stats import wilcoxon
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_seqlab import (
    CRFFeatureInduction,
    LinearChainCRF,
    RuleEnsembleHKL,
    StructHKLClassifier,
    StructuredSVM,
)
from sklearn_seqlab.datasets import make_smart_home
from sklearn_seqlab.feature_extraction import RelationalPatternMiner
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score

DAYS, N_STATES = (14, 28, 56, 84), 3
THRESHOLDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
STATED = {"StructHKLClassifier": 0.02, "RuleEnsembleHKL": 0.2, "enumAF": 0.02}
BEFORE = (-3, -1)
# Sensors before this one follow rooms and furniture, of which activities have patterns that nobody planted.
FIRST_OBJECT = 11
MODELS = {
    "StructHKLClassifier": StructHKLClassifier(C=2e5, rho=1.1, beta=0.5, loss="log", tol=3e-2, max_order=4),
    "RuleEnsembleHKL": RuleEnsembleHKL(C=1e5, rho=1.1, beta=0.5, tol=5e-2, max_order=4),
    "enumAF": StructHKLClassifier(C=2e5, rho=1.1, beta=0.5, loss="log", tol=3e-2, max_order=2),
}

# Days to train on, and as many after them to test; C of the mean share of wrong steps is that of a step times 20,160.
N_TRAIN = 14
COMPARED: dict[str, tuple[Any, dict[str, list[float]]]] = {
    "StructHKLClassifier": (
        StructHKLClassifier(rho=1.1, beta=0.5, loss="log", tol=5e-2, max_order=4),
        {"C": [2e5, 1e6]},
    ),
    "StructuredSVM": (
        StructuredSVM(loss="hamming_sum", tol=1e-2, max_iter=50, random_state=0),
        {"C": [1.0, 10.0]},
    ),
    "LinearChainCRF": (LinearChainCRF(), {"C": [1.0, 10.0]}),
    "CRFFeatureInduction": (CRFFeatureInduction(), {"C": [1.0, 10.0]}),
}

Rule = tuple[str, frozenset[tuple[int, bool]]]


def found_scores() -> FoldScores:
    return FoldScores(
        "planted_found",
        ["model", "days", "seed", "threshold"],
        [
            "planted",
            "right",
            "brought",
            "wrong",
            "wrong_objects",
            "right_relative",
            "gap",
            "rows",
            "conjunctions",
            "active",
            "seconds",
        ],
    )


def accuracy_scores() -> FoldScores:
    return FoldScores("planted_accuracy", ["model", "seed", "day"], ["micro", "macro", "chosen", "seconds"])


def run(options: Any) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.rows or ["found", "accuracy"]:
        {"found": run_found, "accuracy": run_accuracy}[name](options)


def run_found(options: Any) -> None:
    store = found_scores()
    for n_days in options.days or DAYS:
        for seed in range(options.first_deal, min(options.deals, N_STATES)):
            home = make_smart_home(n_days, random_state=seed)
            for name in options.inputs or MODELS:
                _find(store, home, name, {"model": name, "days": n_days, "seed": seed})
                store.save()
                print(f"{name}: {n_days} days, seed {seed} done", flush=True)


def _find(store: FoldScores, home: Any, name: str, place: dict[str, Any]) -> None:
    start = time.process_time()
    n_sensors = len(home.feature_names)
    atoms = [(sensor, False) for sensor in range(n_sensors)]
    X = home.data
    if name == "enumAF":
        miner = RelationalPatternMiner(relations={"before": BEFORE}, max_literals=1, min_support=0.0)
        X = miner.fit_transform(X, home.target)
        atoms += [(pattern[0][1][0], True) for pattern in miner.patterns_]
    model = clone(MODELS[name]).fit(X, home.target)
    seconds = time.process_time() - start
    planted = planted_rules(home, relative=name == "enumAF")
    planted = [(label, body) for label, body in planted if len(body) <= model.max_order]
    for threshold in THRESHOLDS:
        counts = judged(maximal_rules(model.rules_, atoms, threshold), planted, home)
        store.add(
            **place,
            threshold=threshold,
            planted=len(planted),
            **counts,
            gap=round(model.duality_gap_ / model.objective_, 4),
            rows=model.n_distinct_rows_,
            conjunctions=model.n_conjunctions_,
            active=getattr(model, "active_set_size_", ""),
            seconds=round(seconds, 1),
        )


def planted_rules(home: Any, relative: bool) -> list[Rule]:
    place = {name: k for k, name in enumerate(home.feature_names)}
    rules = []
    for rule in home.rules:
        sensors = [place[name] for name in rule["sensors"]]
        if rule["lag"] is None:
            rules.append((rule["label"], frozenset((sensor, False) for sensor in sensors)))
        elif relative:
            rules.append((rule["label"], frozenset([(sensors[0], True), (sensors[1], False)])))
    return rules


def maximal_rules(rules: np.ndarray, atoms: list[tuple[int, bool]], threshold: float) -> list[Rule]:
    """Rules of two inputs or more above a share of the largest weight, without those that others contain."""
    least = threshold * np.abs(rules["weight"]).max()
    large = [
        (rule["label"], frozenset(atoms[k] for k in rule["conjunction"]))
        for rule in rules
        if len(rule["conjunction"]) > 1 and rule["weight"] > least
    ]
    return [
        (label, body)
        for label, body in large
        if not any(label == other and body < more for other, more in large)
    ]


def judged(rules: list[Rule], planted: list[Rule], home: Any) -> dict[str, int]:
    counts = {"right": 0, "brought": 0, "wrong": 0, "wrong_objects": 0, "right_relative": 0}
    everything = planted_rules(home, relative=True)
    place = {name: k for k, name in enumerate(home.feature_names)}
    for label, body in rules:
        if (label, body) in planted:
            counts["right"] += 1
            counts["right_relative"] += any(when for _, when in body)
        elif any(label == other and (known < body or body < known) for other, known in everything):
            continue
        elif any(when for _, when in body) and any(
            label in (rule["label"], rule["rival"])
            and {sensor for sensor, _ in body} <= {place[name] for name in rule["sensors"]}
            for rule in home.rules
        ):
            counts["brought"] += 1
        else:
            counts["wrong"] += 1
            counts["wrong_objects"] += min(sensor for sensor, _ in body) >= FIRST_OBJECT
    return counts


def run_accuracy(options: Any) -> None:
    store = accuracy_scores()
    for seed in range(options.first_deal, options.deals):
        home = make_smart_home(2 * N_TRAIN, random_state=seed)
        X, y = home.data[:N_TRAIN], home.target[:N_TRAIN]
        for name in options.inputs or COMPARED:
            model, grid = COMPARED[name]
            start = time.process_time()
            search = GridSearchCV(clone(model), grid, cv=KFold(2)).fit(X, y)
            seconds = time.process_time() - start
            predicted = search.predict(home.data[N_TRAIN:])
            for day, (truth, found) in enumerate(zip(home.target[N_TRAIN:], predicted, strict=True)):
                store.add(
                    model=name,
                    seed=seed,
                    day=day,
                    micro=round(100 * micro_accuracy_score([truth], [found]), 3),
                    macro=round(100 * macro_accuracy_score([truth], [found]), 3),
                    chosen=f"{search.best_params_['C']:g}",
                    seconds=round(seconds, 1),
                )
            store.save()
            print(f"{name}: seed {seed} done", flush=True)


def write() -> None:
    found, accuracy = found_scores(), accuracy_scores()
    dates = sorted({r["date"] for store in (found, accuracy) for r in store.records.values()})
    text = [
        "## Planted rules of simulated homes\n",
        f"{dates[0]} to {dates[-1]}. {versions()}. `python benchmarks/papers/run.py planted`\n",
        __doc__.split("\n", 1)[1].strip() + "\n",
        "Sums over random states; gap: the largest; CPU seconds of mining and fit: mean.\n",
        markdown_table(
            ["model", "days", "states", "threshold", "recall", "precision", "strict precision", "right", "brought "
             "along", "relative", "wrong", "of objects", "gap", "s"],
            [row for name in MODELS for row in _found_rows(found, name)],
        ),
        f"\nAccuracy: {N_TRAIN} days to train on, the {N_TRAIN} days after them to test, C by three folds of the "
        "training days; all models see the sensors of the minute. Mean over days and random states, difference of "
        "StructHKLClassifier, and the paired Wilcoxon test over test days.\n",
        markdown_table(
            ["model", "states", "micro, %", "difference", "p", "chosen C", "search, s"], _accuracy_rows(accuracy)
        ),
    ]  # fmt: skip
    write_section("planted", "\n".join(text))


def _found_rows(store: FoldScores, name: str) -> list[list[str]]:
    rows = []
    for n_days in DAYS:
        for threshold in THRESHOLDS:
            records = store.select(model=name, days=n_days, threshold=threshold)
            if not records:
                continue
            planted, right, brought, wrong = (
                sum(int(record[key]) for record in records)
                for key in ("planted", "right", "brought", "wrong")
            )
            mark = " (stated)" if threshold == STATED[name] else ""
            rows.append(
                [
                    name,
                    str(n_days),
                    str(len(records)),
                    f"{threshold:g}{mark}",
                    f"{right / planted:.2f}",
                    f"{right / max(1, right + wrong):.2f}",
                    f"{right / max(1, right + brought + wrong):.2f}",
                    str(right),
                    str(brought),
                    _known(records, "right_relative") if name == "enumAF" else "",
                    str(wrong),
                    _known(records, "wrong_objects"),
                    f"{max(float(record['gap']) for record in records):.1%}",
                    f"{np.mean([float(record['seconds']) for record in records]):.0f}",
                ]
            )
    return rows


def _known(records: list[dict[str, str]], key: str) -> str:
    """A sum, where every record has it."""
    return str(sum(int(record[key]) for record in records)) if all(r.get(key) for r in records) else ""


def _accuracy_rows(store: FoldScores) -> list[list[str]]:
    rows = []
    ours = {(r["seed"], r["day"]): float(r["micro"]) for r in store.select(model="StructHKLClassifier")}
    for name in COMPARED:
        records = store.select(model=name)
        if not records:
            continue
        theirs = {(r["seed"], r["day"]): float(r["micro"]) for r in records}
        both = sorted(set(ours) & set(theirs))
        differences = np.array([ours[key] - theirs[key] for key in both])
        by_seed = {r["seed"]: r for r in records}.values()
        test = ["", ""]
        if name != "StructHKLClassifier" and len(both):
            test = [f"{differences.mean():+.2f}", f"{wilcoxon(differences).pvalue:.1g}"]
        rows.append(
            [
                name,
                str(len(by_seed)),
                mean_and_deviation(list(theirs.values()), 1),
                *test,
                f"{np.median([float(r['chosen']) for r in by_seed]):g}",
                f"{np.mean([float(r['seconds']) for r in by_seed]):.0f}",
            ]
        )
    return rows
