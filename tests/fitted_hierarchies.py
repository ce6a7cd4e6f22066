"""What the coefficients of a fitted SemiCRF or HSCRFClassifier say, written slowly: potentials of one sequence."""

from itertools import groupby

import numpy as np
from oracles import EnumeratedHierarchy


def block(model, name, d):
    """Weights of a labelled level, or None where it has none."""
    return model.coef_[name][d] if name in model.coef_ else None


def duration_score(model, d, n, state):
    """What a segment of ``n`` steps of a labelled level scores by its length alone."""
    level = model._structure["levels"][d]
    weights, longest = block(model, "duration", d), level["max_duration"]
    if longest is not None and n > longest and not level["has_tail"]:
        return -np.inf
    if weights is None:
        return 0.0
    beyond = 0 if longest is None else max(0, n - longest)
    explicit = n - beyond
    if level["duration"] == "gamma":
        (log,) = weights[state]
        return log * (np.log(explicit) + beyond / explicit)  # beyond, along the tangent
    return weights[state, explicit - 1] + beyond * weights[state, -1] * level["has_tail"]


def segment_score(model, d, x, i, j, state):
    """Everything that a segment ``[i, j)`` of a labelled level scores by itself."""
    score, seen = duration_score(model, d, j - i, state), x[i:j]
    if block(model, "unary", d) is not None:
        score += (seen @ block(model, "unary", d)[state]).sum()
    if block(model, "bias", d) is not None:
        score += (j - i) * block(model, "bias", d)[state]
    if block(model, "segment_bias", d) is not None:
        score += block(model, "segment_bias", d)[state]
    longest = model._structure["levels"][d]["max_duration"]
    if block(model, "mean", d) is not None:
        score += seen[:longest].mean(axis=0) @ block(model, "mean", d)[state]
    if block(model, "any", d) is not None:
        score += (seen[:longest] != 0).any(axis=0) @ block(model, "any", d)[state]
    if block(model, "edge_start", d) is not None:
        score += x[i] @ block(model, "edge_start", d)[state]
    if block(model, "edge_end", d) is not None:
        score += x[j - 1] @ block(model, "edge_end", d)[state]
    return score


def enumerated(model, x, allowed=None, ends=None):
    """All configurations of a sequence. Levels count from the root, which is a dummy unless the model has one."""
    x, T = np.asarray(x, dtype=float), len(x)
    classes = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
    has_root, persists = model._structure["has_root"], model._structure["persists"]
    sizes = [len(own) for own in classes] if has_root else [1, *(len(own) for own in classes)]
    top = 0 if has_root else 1
    persistence, initialisation, transition, ending = [], [], [], []
    for level, size in enumerate(sizes):
        d = level - top
        scores = np.full((T, T + 1, size), -np.inf)
        for i in range(T):
            for j in range(i + 1, T + 1):
                is_step = level == len(sizes) - 1 and not persists
                if (level == 0 and j - i < T) or (is_step and j - i > 1):
                    continue
                for state in range(size):
                    scores[i, j, state] = 0.0 if d < 0 else segment_score(model, d, x, i, j, state)
        persistence.append(scores)
        if level == 0:
            continue
        first, last = (
            np.repeat(block(model, name, d)[None], T, axis=0) for name in ("initialisation", "ending")
        )
        move = np.repeat(block(model, "transition", d)[None], T, axis=0)
        if level > 1 or has_root:
            forbidden = ~model.children_[d - 1]
            first[:, forbidden] = last[:, forbidden] = -np.inf
        move[:, ~model.transition_mask_[level - 1]] = -np.inf
        for name, table in (("initialisation", first), ("ending", last)):
            if block(model, f"edge_{name}", d) is not None:
                table += (x @ block(model, f"edge_{name}", d).T)[:, None, :]
        if block(model, "edge_transition", d) is not None:
            move += (x @ block(model, "edge_transition", d).T)[:, None, None, :]
        initialisation.append(first)
        transition.append(move)
        ending.append(last)
    return EnumeratedHierarchy(persistence, initialisation, transition, ending, allowed, ends)


def labels_of(model, found):
    """Labels (n_configurations, n_levels, n_timesteps) and ends of labelled levels."""
    classes = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
    top = 0 if model._structure["has_root"] else 1
    x = np.stack([own.astype(object)[found.x[:, top + d]] for d, own in enumerate(classes)], axis=1)
    return x, found.e[:, top:]


def segments_of(labels, ends):
    """(level, start, stop, label) of labels and ends (n_levels, n_timesteps)."""
    segments = []
    for d, (own, stops) in enumerate(zip(labels, ends, strict=True)):
        number = np.concatenate([[0], np.cumsum(stops)[:-1]])
        for _, run in groupby(range(len(own)), key=number.__getitem__):
            steps = list(run)
            segments.append((d, steps[0], steps[-1] + 1, own[steps[0]]))
    return segments


def shaken(model, rng, size=0.7):
    """The same model with random weights where it has any."""
    model.coef_ = {
        name: [
            None
            if table is None
            else np.where(np.isfinite(table), size * rng.normal(size=table.shape), table)
            for table in tables
        ]
        for name, tables in model.coef_.items()
    }
    return model


def objective(model, X, y, weight=None):
    """The objective at the model's weights, by its public verbs and attributes."""
    weight = np.ones(len(X)) if weight is None else weight
    penalised = [tables for name, tables in model.coef_.items() if name not in ("bias", "segment_bias")]
    tables = [table for tables in penalised for table in tables if table is not None]
    penalty = sum(0.5 * (table[np.isfinite(table)] ** 2).sum() for table in tables)
    return penalty - model.C * float(weight @ model.log_likelihood(X, y))


def slopes(model, X, y, rng, step=1e-4):
    """Slope of the objective in a random direction within each block, by central differences."""
    found = {}
    for name, tables in model.coef_.items():
        for d, table in enumerate(tables):
            if table is None or not np.isfinite(table).any():
                continue
            direction = np.where(np.isfinite(table), rng.normal(size=table.shape), 0.0)
            direction /= np.linalg.norm(direction)
            values = []
            for sign in (1, -1):
                tables[d] = table + sign * step * direction
                values.append(objective(model, X, y))
            tables[d] = table
            found[name, d] = (values[0] - values[1]) / (2 * step)
    return found
