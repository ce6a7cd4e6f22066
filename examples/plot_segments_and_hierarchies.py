"""
Segments, durations and two levels of labels
============================================

A person walks through a kitchen. Every step of the track belongs to a leg of the walk, from cupboard to fridge
say, and the legs make up an activity: a short meal, a snack, a normal meal. A chain labels step by step; a
semi-Markov CRF labels whole legs, and knows how long they last; a hierarchical one labels both levels at once.

The tracks are simulated, with a known truth::

    python examples/plot_segments_and_hierarchies.py
"""

# %%
# Tracks
# ------
# Inputs are the place, the velocity and the speed at each step; labels have two columns.

import sys
import warnings

import matplotlib

if __name__ == "__main__" and "sphinx_gallery" not in sys.modules:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import HSCRFClassifier, LinearChainCRF, SemiCRF
from sklearn_seqlab.datasets import make_kitchen_trajectories
from sklearn_seqlab.inspection import DurationDisplay, TimelineDisplay, TransitionGraphDisplay
from sklearn_seqlab.metrics import micro_accuracy_score

data = make_kitchen_trajectories(n_sequences=60, hide_labels=(0.5, 0.0), hide_ends=(0.5, 0.0), random_state=1)
train, test = slice(0, 40), slice(40, 60)
X, y = data.data, data.target
legs = [rows[:, 1] for rows in y]
print(X[0].shape, y[0][0])

# %%
# A chain, segments, a hierarchy
# ------------------------------
# The inputs at the first and the last step of a leg say where it goes. Only a model of segments can weigh them.

edges = ("start", "end")
chain = LinearChainCRF().fit(X[train], legs[train])
semi = SemiCRF(duration="gamma", edge_features=edges).fit(X[train], legs[train])
hierarchy = HSCRFClassifier(
    bottom_persist=True,  # legs last longer than one step
    duration=["geometric", "gamma"],  # of activities, of legs
    max_duration=[None, "observed"],
    edge_features=[(), edges],
).fit(X[train], y[train])

print(f"legs: chain {chain.score(X[test], legs[test]):.3f}, segments {semi.score(X[test], legs[test]):.3f}")
found = hierarchy.predict(X[test])
for level, name in enumerate(("activities", "legs")):
    print(f"hierarchy, {name}: {micro_accuracy_score(y[test], found, level=level):.3f}")

# %%
# Known durations, learnt durations
# ---------------------------------

DurationDisplay.from_estimator(semi, X[train], legs[train], labels=list(semi.classes_[:4]))
plt.gcf().savefig("durations.png", dpi=120)

# %%
# A track, level by level
# -----------------------

TimelineDisplay.from_estimator(hierarchy, X[41], y[41])
plt.gcf().savefig("levels.png", dpi=120)

# %%
# Which leg follows which
# -----------------------

plt.figure(figsize=(7, 7))
TransitionGraphDisplay.from_estimator(semi, top=20, ax=plt.gca())
plt.gcf().savefig("transitions.png", dpi=120)

# %%
# Half of the activities unknown
# ------------------------------
# ``target_partial`` has lost the labels of half the activities and half of their boundaries. What is not known is
# summed over.

partial = HSCRFClassifier(**hierarchy.get_params()).fit(X[train], data.target_partial[train])
found = partial.predict(X[test])
for level, name in enumerate(("activities", "legs")):
    print(f"half the activities hidden, {name}: {micro_accuracy_score(y[test], found, level=level):.3f}")

# %%
# A user confirms some labels
# ---------------------------
# A known label also helps the steps around it: accuracy is counted on those that were *not* given. The model is
# stopped after ten iterations, as in the paper (Truyen et al., arXiv 1009.2009): a poorly estimated one has mistakes
# left that known labels can correct.

hasty = HSCRFClassifier(**(hierarchy.get_params() | {"max_iter": 10, "children": "full"}))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    hasty.fit(X[train], y[train])
random = np.random.default_rng(0)
for share in (0.0, 0.1, 0.3, 0.6):
    known, free = [], []
    for rows in y[test]:
        given = random.random(rows.shape) < share
        known.append(np.where(given, rows.astype(object), None))
        free.append(np.where(given, None, rows.astype(object)))
    accuracy = micro_accuracy_score(free, hasty.predict(X[test], known), level=1)
    print(f"{share:.0%} of the labels given: {accuracy:.3f} of the other legs right")
