"""
Boosted chains: few features, and a graph of moves
==================================================

A person walks through a kitchen; the camera gives place, velocity and speed. A boosted chain field chooses, round by
round, the feature that lowers its loss most. Few of those there are turn out to be needed, and the weights of moves
show which leg of a walk may follow which. Trees in place of features learn what is not linear in the inputs.
"""

# %%
# The tracks, and the labels of the legs. Half of the tracks are kept to test on.
import matplotlib.pyplot as plt
import numpy as np

from sklearn_seqlab import BoostedCRF
from sklearn_seqlab.datasets import make_kitchen_trajectories
from sklearn_seqlab.inspection import BoostingDisplay, SelectedFeaturesDisplay, TransitionMatrixDisplay

tracks = make_kitchen_trajectories(n_sequences=60, random_state=0)
legs = [table[:, 1] for table in tracks.target]
X, y, X_test, y_test = tracks.data[:30], legs[:30], tracks.data[30:], legs[30:]

# %%
# A feature is a channel times a label, or a move from label to label. With ``temperature="length"`` a long track counts
# no more than a short one; with 1, as published, the worst track would carry most of the weight. One feature at a time
# is slow where features depend on each other, as labels that last do: every ten rounds the weights in use are optimised
# together.
model = BoostedCRF(n_rounds=120, temperature="length", fit_intercept=True, corrective_every=10).fit(X, y)
share = model.n_selected_ / model.n_boosting_features_
print(f"{model.n_selected_} of {model.n_boosting_features_} features ({100 * share:.0f} %)")
print(f"right steps: {100 * model.score(X_test, y_test):.1f} %")
BoostingDisplay.from_estimator(model, X_test, y_test, name="test")
plt.show()

# %%
# What was chosen: bars are what a feature lowered the loss by, numbers are weights.
SelectedFeaturesDisplay.from_estimator(model, top=20)
plt.show()

# %%
# Moves that never happen get negative weights. Dots mark the moves that the simulator can make.
names = np.asarray(tracks.target_names[1], dtype=str)
possible = (np.asarray(tracks.transitions)[:, :, 1:] > 0).any(axis=0) | np.eye(12, dtype=bool)
order = np.argsort(names)
truth = possible[np.ix_(order, order)]
TransitionMatrixDisplay.from_estimator(model, truth=truth)
plt.show()
ruled_out = model.transition_coef_ < 0
print(f"moves with a negative weight: {ruled_out.sum()}, of which {(ruled_out & truth).sum()} are possible")

# %%
# Trees see a window of inputs, and need no features.
trees = BoostedCRF(weak_learner="tree", n_rounds=40, window=(2, 2), random_state=0).fit(X, y)
print(f"right steps with trees: {100 * trees.score(X_test, y_test):.1f} %")
BoostingDisplay.from_estimator(trees, X_test, y_test, name="test")
plt.show()
