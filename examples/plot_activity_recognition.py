"""
Recognise daily activities from home sensors
============================================

Binary sensors report, minute by minute, which doors, cupboards and appliances of a home are used; every
minute shall be labelled with what the person does. A classifier that looks at one minute at a time is
compared with a linear-chain conditional random field, which also learns how activities follow one another.
The strength of the regularisation of both is chosen by grid search, with whole days held out.

By default the home is simulated, so nothing is downloaded::

    python examples/plot_activity_recognition.py

With ``--data kasteren`` it is the real house A of van Kasteren et al. (2008), looked up in the folder that
the environment variable SKLEARN_SEQLAB_DATA names, else downloaded.
"""

# %%
# The days
# --------
# A data set is a list of matrices, one per day with a row per minute, and a list of label arrays.

import argparse
import sys
from collections import Counter

import matplotlib

if __name__ == "__main__" and "sphinx_gallery" not in sys.modules:
    matplotlib.use("Agg")
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold

from sklearn_seqlab import LinearChainCRF, StepwiseClassifier
from sklearn_seqlab.datasets import fetch_kasteren, make_smart_home
from sklearn_seqlab.inspection import TimelineDisplay, label_weights_text
from sklearn_seqlab.metrics import hamming_loss, macro_accuracy_score, micro_accuracy_score

parser = argparse.ArgumentParser(description="Activity recognition from home sensors.")
parser.add_argument("--data", choices=["simulated", "kasteren"], default="simulated")
parser.add_argument("--output", default="activity_recognition.png", help="where to save the picture")
parser.add_argument("--n-jobs", type=int, default=2)
options = parser.parse_args([] if "sphinx_gallery" in sys.modules else None)

if options.data == "kasteren":
    home = fetch_kasteren(house="A", encoding=("change", "last"), split="day")
else:
    home = make_smart_home(n_days=14, random_state=0)
X, y = home.data, home.target
days = np.arange(len(X))
n_minutes = sum(len(labels) for labels in y)
print(f"{len(X)} days, {n_minutes} minutes, {X[0].shape[1]} inputs")
print("minutes by activity:", dict(Counter(np.concatenate(y).tolist()).most_common()))

# %%
# Two models, four folds of held-out days
# ---------------------------------------
# In every fold the grid search splits the training days once more: the test days are never seen, not even to
# choose ``C``.

models = {
    "per-step logistic regression": GridSearchCV(
        StepwiseClassifier(LogisticRegression(max_iter=2000)),
        {"estimator__C": [0.1, 1.0, 10.0]},
        cv=GroupKFold(3),
        n_jobs=options.n_jobs,
    ),
    "LinearChainCRF": GridSearchCV(
        LinearChainCRF(tol=1e-3), {"C": [0.1, 1.0, 10.0]}, cv=GroupKFold(3), n_jobs=options.n_jobs
    ),
}
measures = {"micro": micro_accuracy_score, "macro": macro_accuracy_score, "Hamming": hamming_loss}

table = {name: [] for name in models}
fitted = {}
for fold, (train, test) in enumerate(GroupKFold(4).split(X, groups=days)):
    for name, search in models.items():
        print(f"fold {fold + 1} of 4: {name} ...", end=" ", flush=True)
        search.fit([X[i] for i in train], [y[i] for i in train], groups=train)
        y_pred = search.predict([X[i] for i in test])
        y_true = [y[i] for i in test]
        table[name].append([measure(y_true, y_pred) for measure in measures.values()])
        chosen = ", ".join(f"{value:g}" for value in search.best_params_.values())
        print(f"C = {chosen}, micro accuracy {table[name][-1][0]:.3f}", flush=True)
        fitted[name] = search.best_estimator_

# %%
# Scores
# ------

print(f"\n{'model':<30}{'fold':<6}" + "".join(f"{measure:>9}" for measure in measures))
for name, rows in table.items():
    for fold, row in enumerate(rows):
        print(f"{name:<30}{fold + 1:<6}" + "".join(f"{value:>9.3f}" for value in row))
    print(f"{name:<30}{'mean':<6}" + "".join(f"{value:>9.3f}" for value in np.mean(rows, axis=0)))

# %%
# A held-out day
# --------------
# The truth above what each model makes of the sensors of the last fold's most varied test day.

day = max(test, key=lambda i: len(set(y[i].tolist())))
rows = {"true": y[day]} | {name: model.predict([X[day]])[0] for name, model in fitted.items()}
display = TimelineDisplay(rows, classes=fitted["LinearChainCRF"].classes_).plot()
right = {
    name: f"{micro_accuracy_score([y[day]], [labels]):.0%}" for name, labels in rows.items() if name != "true"
}
display.ax_.set(
    xlabel="minute of the day",
    title=f"Day {day} of the {options.data} home, held out; minutes right: "
    + ", ".join(f"{name} {share}" for name, share in right.items()),
)
display.figure_.savefig(options.output, dpi=120)
print(f"\npicture of day {day} saved to {options.output}")

# %%
# What speaks for each activity
# -----------------------------
# The largest weights of the field, in nats per sensor that is on.

print("\nlargest weights:")
print(label_weights_text(fitted["LinearChainCRF"], top=5, feature_names=home.feature_names))
