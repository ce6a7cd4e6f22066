"""Kitchen trajectories (stand-in for seed 000, section 9.1): activities over legs of a walk.

45 sequences to train, 45 to test, ten random states, step accuracy in percent. All models see the same inputs:
five channels (place, velocity, speed) or one-hot cells and headings. The hierarchy has gamma durations and weighs
the inputs at the first and last step of each leg once more. "cascade": a chain over legs whose cross-validated
probabilities are the inputs of a chain over activities. "partial": half of the activity segments have lost their
labels, and half their boundaries. "product": a chain over pairs of labels. "dynamic CRF": a chain per level,
coupled step by step.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _store import FoldScores, markdown_table, versions, write_section
from scipy.stats import wilcoxon
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from sklearn_seqlab import DynamicCRF, HSCRFClassifier, LinearChainCRF, SemiCRF
from sklearn_seqlab.datasets import make_kitchen_trajectories
from sklearn_seqlab.metrics import micro_accuracy_score
from sklearn_seqlab.preprocessing import SlidingWindow

N_TRAIN, SEEDS = 45, range(10)
INPUTS = ("channels", "cells")
HIDING = {"hide_labels": (0.5, 0.0), "hide_ends": (0.5, 0.0)}
SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
EDGES = ("start", "end")
PRUNE_BELOW = 0.05
EXTRAS = ("given", "pruned")


def hierarchy(**changes: Any) -> HSCRFClassifier:
    options = {
        "bottom_persist": True,
        "duration": ["geometric", "gamma"],
        "max_duration": [None, "observed"],
        "edge_features": [(), EDGES],
        "n_jobs": 2,
    }
    return HSCRFClassifier(**(options | changes))


def level(y: list[Any], d: int) -> list[np.ndarray]:
    return [rows[:, d] for rows in y]


def accuracy(y: list[Any], predicted: Any, d: int) -> float:
    return 100 * micro_accuracy_score(level(y, d), [p if p.ndim == 1 else p[:, d] for p in predicted])


def flat(
    data: Any, d: int, before: int = 0, model: Any = None, y: list[Any] | None = None
) -> dict[str, float]:
    X = SlidingWindow(before=before, after=before).fit_transform(data.data) if before else data.data
    model = LinearChainCRF() if model is None else model
    model.fit(X[:N_TRAIN], level(data.target[:N_TRAIN], d) if y is None else y)
    return {("activity", "leg")[d]: accuracy(data.target[N_TRAIN:], model.predict(X[N_TRAIN:]), d)}


def cascade(data: Any) -> dict[str, float]:
    X, y = data.data, data.target
    lower = level(y, 1)
    inputs: list[Any] = [None] * len(X)
    for train, test in KFold(5).split(range(N_TRAIN)):
        model = LinearChainCRF().fit([X[i] for i in train], [lower[i] for i in train])
        for i, proba in zip(test, model.predict_proba([X[i] for i in test]), strict=True):
            inputs[i] = np.hstack([X[i], proba])
    model = LinearChainCRF().fit(X[:N_TRAIN], lower[:N_TRAIN])
    legs = model.predict(X[N_TRAIN:])
    inputs[N_TRAIN:] = [
        np.hstack(pair) for pair in zip(X[N_TRAIN:], model.predict_proba(X[N_TRAIN:]), strict=True)
    ]
    upper = LinearChainCRF().fit(inputs[:N_TRAIN], level(y[:N_TRAIN], 0)).predict(inputs[N_TRAIN:])
    return {"activity": accuracy(y[N_TRAIN:], upper, 0), "leg": accuracy(y[N_TRAIN:], legs, 1)}


def product(data: Any) -> dict[str, float]:
    joint = [np.array([f"{a}|{b}" for a, b in rows]) for rows in data.target]
    model = LinearChainCRF(allowed_transitions="observed").fit(data.data[:N_TRAIN], joint[:N_TRAIN])
    found = [np.array([label.split("|") for label in rows]) for rows in model.predict(data.data[N_TRAIN:])]
    truth = [rows.astype(str) for rows in data.target[N_TRAIN:]]
    return {"activity": accuracy(truth, found, 0), "leg": accuracy(truth, found, 1)}


def grid(data: Any, before: int = 0) -> dict[str, float]:
    X = SlidingWindow(before=before, after=before).fit_transform(data.data) if before else data.data
    found = DynamicCRF().fit(X[:N_TRAIN], data.target[:N_TRAIN]).predict(X[N_TRAIN:])
    truth = data.target[N_TRAIN:]
    return {"activity": accuracy(truth, found, 0), "leg": accuracy(truth, found, 1)}


def nested(data: Any, y: list[Any] | None = None, **changes: Any) -> dict[str, float]:
    model = hierarchy(**changes).fit(data.data[:N_TRAIN], data.target[:N_TRAIN] if y is None else y)
    found = model.predict(data.data[N_TRAIN:])
    return {
        "activity": accuracy(data.target[N_TRAIN:], found, 0),
        "leg": accuracy(data.target[N_TRAIN:], found, 1),
    }


def partial_labels(data: Any, d: int) -> list[Any]:
    return [labels[:, d] for labels, _ in data.target_partial[:N_TRAIN]]


ROWS: dict[str, Any] = {
    "flat chain on legs": lambda data: flat(data, 1),
    "flat chain on legs, window -2..2": lambda data: flat(data, 1, before=2),
    "flat segments on legs, gamma": lambda data: flat(data, 1, model=SemiCRF(duration="gamma")),
    "flat segments on legs, gamma, edges": lambda data: flat(
        data, 1, model=SemiCRF(duration="gamma", edge_features=EDGES)
    ),
    "flat chain on activities": lambda data: flat(data, 0),
    "flat chain on activities, partial": lambda data: flat(data, 0, y=partial_labels(data, 0)),
    "cascade": cascade,
    "product": product,
    "dynamic CRF": grid,
    "dynamic CRF, window -2..2": lambda data: grid(data, before=2),
    "HSCRF, no edges": lambda data: nested(data, edge_features=()),
    "HSCRF": nested,
    "HSCRF, marginal decoding": lambda data: nested(data, decoding="marginal"),
    "HSCRF, partial": lambda data: nested(data, y=list(data.target_partial[:N_TRAIN])),
}


def scores() -> FoldScores:
    return FoldScores("kitchen", ["input", "row", "seed"], ["activity", "leg"])


def curves() -> FoldScores:
    return FoldScores("kitchen_given", ["input", "seed", "share"], ["activity", "leg"])


def topologies() -> FoldScores:
    return FoldScores("kitchen_pruned", ["seed", "what"], ["precision", "recall"])


def run(options: Any) -> None:
    rows = options.rows or [*ROWS, *EXTRAS]
    inputs, seeds = options.inputs or INPUTS, SEEDS
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in inputs:
        for seed in seeds:
            store = scores()
            data = make_kitchen_trajectories(representation=name, random_state=seed, **HIDING)
            for row in rows:
                if row in ROWS:
                    found = ROWS[row](data)
                    found = {"activity": "", "leg": ""} | {k: round(v, 3) for k, v in found.items()}
                    store.add(input=name, row=row, seed=seed, **found)
            store.save()
            if "given" in rows:
                run_given(name, seed, data)
            if "pruned" in rows and name == "channels":
                run_pruned(seed)
            print(f"{name}: random state {seed} done", flush=True)


def run_given(name: str, seed: int, data: Any) -> None:
    """Accuracy on the free steps as a growing share of both labels is given, after ten iterations of training."""
    store = curves()
    # all pairs: a test sequence may need one that the training sequences do not show
    model = hierarchy(max_iter=10, children="full").fit(data.data[:N_TRAIN], data.target[:N_TRAIN])
    random = np.random.default_rng(seed)
    draws = [random.random(rows.shape) for rows in data.target[N_TRAIN:]]
    for share in SHARES:
        known, free = [], []
        for rows, draw in zip(data.target[N_TRAIN:], draws, strict=True):
            given = draw < share
            known.append(np.where(given, rows.astype(object), None))
            free.append(np.where(given, None, rows.astype(object)))
        found = model.predict(data.data[N_TRAIN:], known)
        store.add(
            input=name, seed=seed, share=share,
            activity=round(accuracy(free, found, 0), 3), leg=round(accuracy(free, found, 1), 3),
        )  # fmt: skip
    store.save()


def run_pruned(seed: int) -> None:
    """Child pairs and transitions read from the weights of a model that was trained with all allowed."""
    store = topologies()
    data = make_kitchen_trajectories(representation="cells", random_state=seed)
    model = hierarchy(children="full").fit(data.data, data.target)
    pruned = model.prune(PRUNE_BELOW)
    children, moves = truth(data, model)
    for what, found, true in (
        ("children", pruned.children_[0], children),
        ("transitions", pruned.transition_mask_[1], moves),
    ):
        right = (found & true).sum()
        store.add(
            seed=seed, what=what, precision=round(right / found.sum(), 4), recall=round(right / true.sum(), 4)
        )
    store.save()


def truth(data: Any, model: HSCRFClassifier) -> tuple[np.ndarray, np.ndarray]:
    """Child pairs and transitions of the simulator, in the order of the model's classes."""
    activities, legs = (names.tolist() for names in model.classes_)
    children = np.zeros((len(activities), len(legs)), dtype=bool)
    moves = np.zeros((len(activities), len(legs), len(legs)), dtype=bool)
    order = [legs.index(leg) for leg in data.target_names[1]]
    for activity, table in zip(data.target_names[0], data.transitions, strict=True):
        a = activities.index(activity)
        children[a, [legs.index(leg) for leg in data.hierarchy[activity]]] = True
        before, after = np.nonzero(table[:, 1:] > 0)
        moves[a, [order[u] for u in before], [order[v] for v in after]] = True
    return children, moves


def write() -> None:
    store = scores()
    lines = []
    for name in INPUTS:
        baselines = {
            "leg": store.select(input=name, row="flat chain on legs"),
            "activity": store.select(input=name, row="flat chain on activities"),
        }
        for row in ROWS:
            found = store.select(input=name, row=row)
            if found:
                cells = [cell(found, what, baselines[what]) for what in ("leg", "activity")]
                lines.append([name, row, *(c for pair in cells for c in pair)])
    header = ["input", "model", "leg, %", "p", "activity, %", "p"]
    text = [
        "## Kitchen trajectories (stand-in for seed 000, 9.1)\n",
        f"{dates(store)}. {versions()}. `python benchmarks/papers/run.py kitchen`\n",
        __doc__.split("\n", 1)[1].strip() + "\n",
        "Mean and standard deviation over random states. p: paired Wilcoxon test over random states, of legs against "
        "the flat chain on legs, of activities against the flat chain on activities.\n",
        markdown_table(header, lines),
    ]
    given, lines = curves(), []
    for name in INPUTS:
        for share in SHARES:
            found = given.select(input=name, share=share)
            if found:
                lines.append([name, f"{share:g}", cell(found, "leg", [])[0], cell(found, "activity", [])[0]])
    text += [
        "\nAccuracy on the steps whose labels are not given, by share of labels given (of both levels, step by "
        "step); model stopped after ten iterations.\n",
        markdown_table(["input", "share given", "leg, %", "activity, %"], lines),
    ]
    pruned, lines = topologies(), []
    for what in ("children", "transitions"):
        found = pruned.select(what=what)
        if found:
            means = [np.mean([float(record[k]) for record in found]) for k in ("precision", "recall")]
            least = [min(float(record[k]) for record in found) for k in ("precision", "recall")]
            lines.append([what, *(f"{a:.3f} ({b:.3f})" for a, b in zip(means, least, strict=True))])
    text += [
        f"\n`prune({PRUNE_BELOW})` of a model trained on 90 sequences of cells with all pairs and transitions allowed, "
        "against the simulator's topology: mean (least) over random states.\n",
        markdown_table(["what", "precision", "recall"], lines),
    ]
    write_section("kitchen", "\n".join(text))


def cell(found: list[dict[str, str]], what: str, baseline: list[dict[str, str]]) -> tuple[str, str]:
    values = np.array([float(record[what]) for record in found if record[what]])
    if not len(values):
        return "", ""
    shown = f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else f"{values[0]:.1f}"
    others = np.array([float(record[what]) for record in baseline if record[what]])
    if len(others) != len(values) or np.array_equal(values, others):
        return shown, ""
    return shown, f"{wilcoxon(values, others).pvalue:.2g}"


def dates(store: FoldScores) -> str:
    found = sorted({record["date"] for record in store.records.values()})
    return f"{found[0]} to {found[-1]}"
