"""Boosted chains (seed 003) on CAVIAR tracks and on the kitchen stand-in, and boosted trees beside windows.

CAVIAR: tracks of 50 frames or more, every 5th frame, channels x, y, their velocities and the speed; halves dealt by
`RandomState(0..9)`, one to train on. Kitchen: legs from the same five channels, 45 sequences to train, 45 to test,
random states 0 to 9. All rows of a set choose from, or fit, the same features, with no constant among them. "MLE" is
the penalised likelihood (l2 = 1) of all of them. "length": inverse probabilities to the power of one over the length.
"corrected": every ten rounds, or every five, the weights in use are optimised together.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, mean_and_deviation, versions, write_section
from scipy.stats import wilcoxon
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import BoostedCRF, LinearChainCRF
from sklearn_seqlab.datasets import (
    fetch_caviar,
    fetch_gesture_phase,
    fetch_kasteren,
    make_kitchen_trajectories,
)
from sklearn_seqlab.metrics import macro_accuracy_score, micro_accuracy_score
from sklearn_seqlab.model_selection import InverseKFold
from sklearn_seqlab.preprocessing import SlidingWindow, make_sequence_pipeline

Data = tuple[list[np.ndarray], list[Any], list[np.ndarray], list[Any]]

N_ROUNDS, STAGES = 120, (20, 40, 60, 80, 120)
SETS: dict[str, dict[str, Any]] = {
    "persistence": {"feature_set": "persistence"},
    "bridge": {"feature_set": "bridge"},
    "transition": {"feature_set": "transition"},
    "context": {"feature_set": "context", "window": (5, 5)},
}
LOSSES: dict[str, dict[str, Any]] = {
    "exp": {"loss": "exp"},
    "exp, length": {"loss": "exp", "temperature": "length"},
    "log": {"loss": "log"},
    "exp, length, corrected": {"loss": "exp", "temperature": "length", "corrective_every": 10},
    "log, corrected": {"loss": "log", "corrective_every": 10},
    "log, l2 = 1, corrected": {"loss": "log", "l2": 1.0, "corrective_every": 10},
    "log, l2 = 1, corrected by 5": {"loss": "log", "l2": 1.0, "corrective_every": 5},
}
BEAMS = (1, 2, 5, 20, 10**6)
PENALTIES: dict[str, dict[str, Any]] = {
    "none": {},
    **{f"l2 = {value:g}": {"l2": value} for value in (0.001, 0.01, 0.1, 1.0)},
    **{f"sigma = {value:g}": {"sigma": value} for value in (1.0, 5.0, 20.0)},
}
PARTS = ("sets", "tuned", "beam", "penalty", "partial", "graph", "trees", "time", "round")

# Strength of the penalty and number of rounds chosen inside the training half, by three folds of its sequences.
TUNED: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "MLE": (
        {"solver": "joint", "loss": "log", "n_rounds": 1000, "tol": 1e-3},
        {"l2": [0.1, 1.0, 10.0, 100.0]},
    ),
    "exp, length": (
        {"loss": "exp", "temperature": "length"},
        {"l2": [0.0, 0.001, 0.01], "n_rounds": [30, 60, 120]},
    ),
    "log": ({"loss": "log"}, {"l2": [0.0, 1.0, 10.0], "n_rounds": [30, 60, 120]}),
}


def caviar(deal: int) -> Data:
    tracks = fetch_caviar()
    X, y = [], []
    for x, labels in zip(tracks.data, tracks.target, strict=True):
        if len(x) < 50:
            continue
        place = x[:, :2].astype(float)
        velocity = np.zeros_like(place)
        velocity[5:] = place[5:] - place[:-5]
        speed = np.hypot(*velocity.T)
        channels = np.column_stack([place / 200 - 0.7, velocity / 10, speed / 10])
        X.append(channels[::5])
        y.append(np.asarray(labels)[::5])
    order = np.random.RandomState(deal).permutation(len(X))
    train, test = order[: len(X) // 2], order[len(X) // 2 :]
    return [X[s] for s in train], [y[s] for s in train], [X[s] for s in test], [y[s] for s in test]


def kitchen(deal: int) -> Data:
    tracks = make_kitchen_trajectories(random_state=deal)
    legs = [table[:, 1] for table in tracks.target]
    return tracks.data[:45], legs[:45], tracks.data[45:], legs[45:]


DATA: dict[str, Callable[[int], Data]] = {"caviar": caviar, "kitchen": kitchen}


def chosen_data(options: Any) -> dict[str, Callable[[int], Data]]:
    """``--inputs`` may name data, sets of features and losses."""
    named = [name for name in options.inputs or [] if name in DATA]
    return {name: DATA[name] for name in named or DATA}


def scores() -> FoldScores:
    return FoldScores(
        "boosting",
        ["part", "data", "set", "row", "deal"],
        ["micro", "macro", "features", "selected", "rounds", "loss", "seconds"],
    )


def accuracies(y: list[Any], predicted: Any) -> dict[str, float]:
    return {
        "micro": round(100 * micro_accuracy_score(y, predicted), 3),
        "macro": round(100 * macro_accuracy_score(y, predicted), 3),
    }


def fitted(model: Any, data: Data) -> tuple[Any, float]:
    start = time.process_time()
    model.fit(*data[:2])
    return model, round(time.process_time() - start, 2)


def add(store: FoldScores, place: dict[str, Any], model: BoostedCRF, data: Data, seconds: float) -> None:
    store.add(
        **place, **accuracies(data[3], model.predict(data[2])), features=model.n_boosting_features_,
        selected=model.n_selected_, rounds=model.n_iter_, loss=round(float(model.loss_curve_[-1]), 3), seconds=seconds,
    )  # fmt: skip


def mle(name: str) -> BoostedCRF:
    return BoostedCRF(**SETS[name], solver="joint", loss="log", l2=1.0, n_rounds=1000, tol=1e-3)


def run_sets(store: FoldScores, options: Any) -> None:
    """All sets: the MLE, and boosting one feature a round, at several numbers of rounds."""
    for name, load in chosen_data(options).items():
        for deal in range(options.deals):
            data = load(deal)
            for chosen in [name for name in options.inputs or [] if name in SETS] or SETS:
                place = {"part": "sets", "data": name, "set": chosen, "deal": deal}
                model, seconds = fitted(mle(chosen), data)
                add(store, place | {"row": "MLE"}, model, data, seconds)
                for loss in [name for name in options.inputs or [] if name in LOSSES] or LOSSES:
                    params = SETS[chosen] | LOSSES[loss]
                    model, seconds = fitted(BoostedCRF(n_rounds=N_ROUNDS, **params), data)
                    stages = list(model.staged_predict(data[2]))
                    for stage in STAGES:
                        made = min(stage, len(stages))  # a fit that ended early stays as it is
                        done = model.steps_[model.steps_["round"] < made]
                        store.add(
                            **place, row=f"{loss}, {stage} rounds", **accuracies(data[3], stages[made - 1]),
                            features=model.n_boosting_features_, selected=len(np.unique(done["feature"])),
                            rounds=made, loss=round(float(model.loss_curve_[made]), 3),
                            seconds=round(seconds * made / model.n_iter_, 2),
                        )  # fmt: skip
                store.save()
            print(f"sets, {name}: deal {deal} done", flush=True)


def run_tuned(store: FoldScores, options: Any) -> None:
    """The bridge set, with penalty and rounds chosen by grid search in the training half."""
    for name, load in chosen_data(options).items():
        for deal in range(options.deals):
            data = load(deal)
            folds = KFold(3, shuffle=True, random_state=deal)
            for row, (params, grid) in TUNED.items():
                model = BoostedCRF(**SETS["bridge"], **params)
                search, seconds = fitted(GridSearchCV(model, grid, cv=folds), data)
                place = {"part": "tuned", "data": name, "set": "bridge", "row": row, "deal": deal}
                add(store, place, search.best_estimator_, data, seconds)
            store.save()
            print(f"tuned, {name}: deal {deal} done", flush=True)


def run_beam(store: FoldScores, options: Any) -> None:
    for name, load in chosen_data(options).items():
        for deal in range(min(3, options.deals)):
            data = load(deal)
            for chosen in ("bridge", "context"):
                for beam in BEAMS:
                    params = {"beam_size": beam, "n_rounds": 60, **SETS[chosen], **LOSSES["exp, length"]}
                    model, seconds = fitted(BoostedCRF(**params), data)
                    row = f"S = {beam if beam < 10**6 else 'K'}"
                    place = {"part": "beam", "data": name, "set": chosen, "row": row, "deal": deal}
                    add(store, place, model, data, seconds)
                store.save()
            print(f"beam, {name}: deal {deal} done", flush=True)


def run_penalty(store: FoldScores, options: Any) -> None:
    for name, load in chosen_data(options).items():
        for deal in range(min(3, options.deals)):
            data = load(deal)
            for loss, params in list(LOSSES.items())[:3]:
                for penalty, extra in PENALTIES.items():
                    model = BoostedCRF(n_rounds=60, **SETS["bridge"], **params, **extra)
                    model, seconds = fitted(model, data)
                    place = {
                        "part": "penalty", "data": name, "set": "bridge", "row": f"{loss}; {penalty}", "deal": deal
                    }  # fmt: skip
                    add(store, place, model, data, seconds)
                store.save()
            print(f"penalty, {name}: deal {deal} done", flush=True)


def run_partial(store: FoldScores, options: Any) -> None:
    """Half of the labels hidden, steps drawn at random."""
    for name, load in chosen_data(options).items():
        for deal in range(options.deals):
            X, y, X_test, y_test = load(deal)
            random = np.random.RandomState(1000 + deal)
            hidden = [
                [None if random.uniform() < 0.5 else label for label in np.asarray(labels).tolist()]
                for labels in y
            ]
            for row, (labels, params) in {
                "complete": (y, {}),
                "half hidden, exact": (hidden, {"surrogate": "exact"}),
                "half hidden, fixed_h": (hidden, {"surrogate": "fixed_h"}),
            }.items():
                data = X, labels, X_test, y_test
                model = BoostedCRF(
                    n_rounds=80, **SETS["bridge"], **LOSSES["exp, length, corrected"], **params
                )
                model, seconds = fitted(model, data)
                add(store, {"part": "partial", "data": name, "set": "bridge", "row": row, "deal": deal}, model, data,
                    seconds)  # fmt: skip
            store.save()
        print(f"partial, {name} done", flush=True)


def true_moves(tracks: Any) -> np.ndarray:
    """Which leg may follow which, the same one included; legs in the order of their names in ``classes_``."""
    allowed = np.any([np.asarray(table)[:, 1:] > 0 for table in tracks.transitions], axis=0)
    allowed |= np.eye(12, dtype=bool)
    # an activity may follow another: its first leg comes after a last one, but never within these sequences
    return allowed


GRAPHS: dict[str, dict[str, Any]] = {
    "60 rounds": LOSSES["exp, length"] | {"n_rounds": 60},
    "150 rounds, corrected": LOSSES["exp, length, corrected"] | {"n_rounds": 150},
    "400 rounds, corrected": LOSSES["exp, length, corrected"] | {"n_rounds": 400},
    "log, 400 rounds, corrected": LOSSES["log, corrected"] | {"n_rounds": 400},
    "log, all weights at once, l2 = 0.1": {
        "solver": "joint", "loss": "log", "l2": 0.1, "n_rounds": 1000, "tol": 1e-3,
    },
}  # fmt: skip


def run_graph(store: FoldScores, options: Any) -> None:
    """Weights of moves on the kitchen tracks against the graph that the tracks were drawn from."""
    for deal in range(options.deals):
        tracks = make_kitchen_trajectories(random_state=deal)
        data = kitchen(deal)
        order = np.argsort(np.asarray(tracks.target_names[1], dtype=str), kind="stable")
        truth = true_moves(tracks)[np.ix_(order, order)]
        for row in [name for name in options.inputs or [] if name in GRAPHS] or GRAPHS:
            model, seconds = fitted(BoostedCRF(**SETS["bridge"], **GRAPHS[row]), data)
            off = ~np.eye(12, dtype=bool)
            weights = model.transition_coef_
            right = 100 * np.mean((weights >= 0)[off] == truth[off])
            best = max(np.mean((weights >= cut)[off] == truth[off]) for cut in np.unique(weights[off]))
            negative = 100 * np.mean(weights[off & ~truth] < 0)
            store.add(
                part="graph", data="kitchen", set="bridge", row=row, deal=deal, micro=round(right, 2),
                macro=round(100 * best, 2), features=round(negative, 2), selected=model.n_selected_,
                rounds=model.n_iter_, loss=round(float(np.mean(np.diag(weights) > 0)), 3), seconds=seconds,
            )  # fmt: skip
        store.save()
    print("graph done", flush=True)


def tree_data(n_deals: int) -> dict[str, list[tuple[Data, int]]]:
    """Folds of house A, trained on a quarter, and of the gesture videos, trained on three quarters of the stories."""
    homes = fetch_kasteren(house="A", split=1000)
    videos = fetch_gesture_phase()

    def part(bunch: Any, train: Any, test: Any) -> Data:
        return tuple(
            [rows[k] for k in chosen] for chosen in (train, test) for rows in (bunch.data, bunch.target)
        )

    found = {
        "house A, raw": [
            (part(homes, *fold), 10 * deal + k)
            for deal in range(n_deals)
            for k, fold in enumerate(InverseKFold(4, shuffle=True, random_state=deal).split(homes.data))
        ],
        "gesture phase": [
            (part(videos, *fold), k)
            for k, fold in enumerate(GroupKFold(4).split(videos.data, groups=videos.groups))
        ],
    }
    return found


WIDTHS = {"house A, raw": (2,), "gesture phase": (2,)}

TREES: dict[str, Callable[[int], Any]] = {
    **{f"LinearChainCRF, C = {C:g}": (lambda w, C=C: windowed(LinearChainCRF(C=C), w)) for C in (0.1, 1.0)},
    **{
        f"LinearChainCRF, inputs scaled, C = {C:g}": (
            lambda w, C=C: windowed(LinearChainCRF(C=C), w, StandardScaler())
        )
        for C in (0.01, 0.1, 1.0)
    },
    **{
        f"trees, {rounds} rounds": (
            lambda w, n_rounds=rounds: BoostedCRF(
                weak_learner="tree", window=(w, w), n_rounds=n_rounds, l2=1.0, random_state=0
            )
        )
        for rounds in (60, 120)
    },
}


def windowed(model: Any, width: int, *first: Any) -> Any:
    return make_sequence_pipeline(*first, SlidingWindow(before=width, after=width), model)


def run_trees(store: FoldScores, options: Any) -> None:
    for name, folds in tree_data(min(options.deals, 3)).items():
        for data, deal in folds:
            for width in WIDTHS[name]:
                for row, make in TREES.items():
                    model, seconds = fitted(make(width), data)
                    store.add(
                        part="trees", data=name, set=f"window {width}", row=row, deal=deal,
                        **accuracies(data[3], model.predict(data[2])), features="", selected="", rounds="", loss="",
                        seconds=seconds,
                    )  # fmt: skip
            store.save()
        print(f"trees, {name} done", flush=True)


def run_time(store: FoldScores, options: Any) -> None:
    """CPU seconds of 60 rounds of trees, beside scikit-learn's per-step classifier on the same rows."""
    for name, folds in tree_data(min(options.deals, 3)).items():
        data, _ = folds[0]
        for repeat in range(min(3, options.deals)):
            _, ours = fitted(TREES["trees, 60 rounds"](2), data)
            rows = np.vstack(SlidingWindow(before=2, after=2).fit_transform(data[0]))
            per_step = HistGradientBoostingClassifier(
                max_iter=60, max_leaf_nodes=8, learning_rate=0.3, early_stopping=False
            )
            start = time.process_time()
            per_step.fit(rows, np.concatenate(data[1]))
            theirs = time.process_time() - start
            store.add(
                part="time", data=name, set="window 2", row="trees", deal=repeat, micro="", macro="", features="",
                selected="", rounds=60, loss=round(theirs, 2), seconds=ours,
            )  # fmt: skip
        store.save()


def run_round(store: FoldScores, options: Any) -> None:
    """CPU seconds of a round that chooses one of 3,520 features, on 9,000 steps of 8 labels."""
    random = np.random.RandomState(0)
    y = [np.repeat(random.randint(8, size=7), 10)[:68] for _ in range(132)]
    X = [random.normal(size=(68, 5)) + 0.5 * np.column_stack([k, k % 2, k % 3, k > 4, k > 2]) for k in y]
    for repeat in range(min(3, options.deals)):
        model, few = fitted(BoostedCRF(n_rounds=5, **SETS["context"]), (X, y, X, y))
        model, many = fitted(BoostedCRF(n_rounds=45, **SETS["context"]), (X, y, X, y))
        store.add(
            part="round", data="random", set="context", row="S = 1", deal=repeat, micro="", macro="",
            features=model.n_boosting_features_, selected=model.n_selected_, rounds=40, loss="",
            seconds=round((many - few) / 40, 4),
        )  # fmt: skip


def run(options: Any) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    options.deals = min(options.deals, 10)
    for part in options.rows or PARTS:
        store = scores()
        globals()[f"run_{part}"](store, options)
        store.save()


def column(records: list[dict[str, str]], name: str) -> list[float]:
    return [float(record[name]) for record in records]


def names_of(store: FoldScores, **wanted: Any) -> list[str]:
    found = [
        record["row"] for record in store.records.values() if all(record[k] == v for k, v in wanted.items())
    ]
    return list(dict.fromkeys(found))


def paired(found: list[dict[str, str]], other: list[dict[str, str]]) -> str:
    """Mean difference of micro accuracy on the same deals, and the p value of Wilcoxon's test."""
    deals = [record["deal"] for record in found]
    beside = {record["deal"]: float(record["micro"]) for record in other}
    gains = [
        float(record["micro"]) - beside[deal]
        for record, deal in zip(found, deals, strict=True)
        if deal in beside
    ]
    if len(gains) < 5 or not any(gains):
        return f"{np.mean(gains):+.2f}" if gains else ""
    return f"{np.mean(gains):+.2f} (p {wilcoxon(gains).pvalue:.2g})"


def table_of_sets(store: FoldScores) -> str:
    lines = []
    for name in DATA:
        for chosen in SETS:
            base = store.select(part="sets", data=name, set=chosen, row="MLE")
            rows = ["MLE", *(f"{loss}, {stage} rounds" for loss in LOSSES for stage in STAGES)]
            for row in rows:
                found = store.select(part="sets", data=name, set=chosen, row=row)
                if not found:
                    continue
                share = 100 * np.divide(column(found, "selected"), column(found, "features"))
                lines.append(
                    [
                        name, chosen, row, str(len(found)), mean_and_deviation(column(found, "micro"), 1),
                        mean_and_deviation(column(found, "macro"), 1), paired(found, base) if row != "MLE" else "",
                        f"{np.mean(column(found, 'selected')):.0f} of {found[0]['features']} ({np.mean(share):.1f} %)",
                        f"{np.mean(column(found, 'loss')):.1f}", f"{np.mean(column(found, 'seconds')):.1f}",
                    ]
                )  # fmt: skip
    header = [
        "data",
        "set",
        "row",
        "deals",
        "micro, %",
        "macro, %",
        "micro - MLE",
        "features used",
        "loss",
        "CPU s",
    ]
    return markdown_table(header, lines)


def table_of(store: FoldScores, part: str, extra: list[tuple[str, str]]) -> str:
    lines = []
    keys = [
        (record["data"], record["set"], record["row"])
        for record in store.records.values()
        if record["part"] == part
    ]
    for data, chosen, row in dict.fromkeys(keys):
        found = store.select(part=part, data=data, set=chosen, row=row)
        line = [data, chosen, row, str(len(found)), mean_and_deviation(column(found, "micro"), 1)]
        line += [mean_and_deviation(column(found, "macro"), 1)]
        lines.append(line + [f"{np.mean(column(found, name)):.1f}" for name, _ in extra])
    return markdown_table(
        ["data", "set", "row", "deals", "micro, %", "macro, %", *(title for _, title in extra)], lines
    )


def table_of_trees(store: FoldScores) -> str:
    lines = []
    for data, widths in WIDTHS.items():
        for width in (f"window {w}" for w in widths):
            trees = store.select(part="trees", data=data, set=width, row="trees, 120 rounds")
            for row in names_of(store, part="trees", data=data):
                found = store.select(part="trees", data=data, set=width, row=row)
                if found:
                    lines.append(
                        [data, width, row, str(len(found)), mean_and_deviation(column(found, "micro"), 1),
                         mean_and_deviation(column(found, "macro"), 1), paired(trees, found) if row[0] == "L" else "",
                         f"{np.mean(column(found, 'seconds')):.1f}"]
                    )  # fmt: skip
    return markdown_table(
        ["data", "inputs", "row", "folds", "micro, %", "macro, %", "trees, 120 rounds - row", "CPU s"], lines
    )


def write() -> None:
    store = scores()
    text = [
        "## Boosted chains (seed 003)\n",
        f"{versions()}. `python benchmarks/papers/run.py boosting --deals 10`\n",
        __doc__.split("\n", 1)[1].strip() + "\n",
        "`loss`: the objective at the end; the logarithm of the exponential loss. p: Wilcoxon's test, paired over "
        "deals.\n",
        table_of_sets(store) + "\n",
    ]
    lines = []
    for name in DATA:
        base = store.select(part="tuned", data=name, row="MLE")
        for row in names_of(store, part="tuned", data=name):
            found = store.select(part="tuned", data=name, row=row)
            lines.append(
                [name, row, str(len(found)), mean_and_deviation(column(found, "micro"), 1),
                 mean_and_deviation(column(found, "macro"), 1), paired(found, base) if row != "MLE" else "",
                 f"{np.mean(column(found, 'selected')):.0f}", f"{np.median(column(found, 'rounds')):.0f}",
                 f"{np.mean(column(found, 'seconds')):.0f}"]
            )  # fmt: skip
    if lines:
        header = ["data", "row", "deals", "micro, %", "macro, %", "micro - MLE", "features used", "rounds (median)",
                  "search, CPU s"]  # fmt: skip
        text += [
            "### Bridge set, penalty and rounds chosen by grid search in the training half\n",
            markdown_table(header, lines) + "\n",
        ]
    counted = [("selected", "features used"), ("rounds", "rounds"), ("loss", "loss"), ("seconds", "CPU s")]
    titles = {
        "beam": "Features that change together (S), 60 rounds, exponential loss with length temperature",
        "penalty": "Penalties, bridge set, 60 rounds",
        "partial": "Half of the labels hidden, bridge set, 80 rounds, exponential loss, length temperature, corrected",
    }
    for part, title in titles.items():
        if names_of(store, part=part):
            text += [f"### {title}\n", table_of(store, part, counted) + "\n"]
    lines = []
    for row in names_of(store, part="graph"):
        found = store.select(part="graph", row=row)
        lines.append(
            [row, str(len(found)), mean_and_deviation(column(found, "micro"), 1),
             mean_and_deviation(column(found, "macro"), 1), mean_and_deviation(column(found, "features"), 1),
             f"{100 * np.mean(column(found, 'loss')):.0f}"]
        )  # fmt: skip
    if lines:
        header = [
            "row", "deals", "moves whose sign is right, %", "at the best threshold, %",
            "impossible moves below zero, %", "labels that attract themselves, %",
        ]  # fmt: skip
        text += [
            "### Weights of moves against the graph of the kitchen\n",
            markdown_table(header, lines) + "\n",
        ]
    if names_of(store, part="trees"):
        text += ["### Trees beside windows\n", table_of_trees(store) + "\n"]
    lines = []
    for data in ("house A, raw", "gesture phase"):
        found = store.select(part="time", data=data)
        if found:
            ours, theirs = np.median(column(found, "seconds")), np.median(column(found, "loss"))
            lines.append([data, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.1f}"])
    if lines:
        header = ["data", "trees, CPU s", "HistGradientBoostingClassifier, CPU s", "ratio"]
        text += ["### 60 rounds of trees of 8 leaves\n", markdown_table(header, lines) + "\n"]
    found = store.select(part="round")
    if found:
        text.append(
            f"A round with S = 1 among {found[0]['features']} features, 8,976 steps and 8 labels takes "
            f"{np.median(column(found, 'seconds')):.3f} s of CPU (median of {len(found)}).\n"
        )
    write_section("boosting", "\n".join(text))
