"""
Gaussian processes: curved boundaries, and doubt where it is due
================================================================

A person walks through a kitchen, and a camera gives place and velocity. Which leg of the walk a step belongs to depends
on where the person is: regions of the floor, which no linear score can tell apart. With a kernel of the inputs the
scores are smooth functions of them instead, and each comes with a variance, which is large where no walk of the
training data has been.
"""

# %%
# Tracks in units of standard deviations, and the labels of the legs. A column of ones is the constant of the linear
# kernel.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import StandardScaler

from sklearn_seqlab import GPSequenceLabeler, LinearChainCRF
from sklearn_seqlab.datasets import make_kitchen_trajectories
from sklearn_seqlab.inspection import TimelineDisplay
from sklearn_seqlab.preprocessing import SequenceTransformer

tracks = make_kitchen_trajectories(n_sequences=60, random_state=0)
scaler = SequenceTransformer(StandardScaler()).fit([values[:, :4] for values in tracks.data[:25]])
X = scaler.transform([values[:, :4] for values in tracks.data])
X = [np.column_stack([values, np.ones(len(values))]) for values in X]
y = [table[:, 1] for table in tracks.target]
X, X_test, y, y_test = X[:25], X[25:], y[:25], y[25:]

# %%
# Step by step first: a linear kernel, and a squared-exponential one that sees the tracks through 80 rows spread over
# them. Legs last for many steps, so that true labels around a step would tell everything in training, and guesses
# little in prediction. ``neighbours="stacked"`` trains on guesses of held-out tracks instead.
around = (-4, -2, -1, 1, 2, 4)
rows = {"inference": "sparse", "n_inducing": 80, "random_state": 0, "scale": 10.0}
models = {
    "random field, linear": LinearChainCRF(C=1.0, decoding="marginal"),
    "single steps, linear": GPSequenceLabeler("linear", (), scale=10.0),
    "single steps, RBF": GPSequenceLabeler(RBF(1.0), (), **rows),
    "stacked, linear": GPSequenceLabeler("linear", around, scale=10.0, neighbours="stacked"),
    "stacked, RBF": GPSequenceLabeler(RBF(1.0), around, neighbours="stacked", **rows),
}
for name, model in models.items():
    model.fit(X, y)
    print(f"{name}: {100 * model.score(X_test, y_test):.1f} % of the steps right")
curved = models["stacked, RBF"]

# %%
# One track, its legs, and what the model makes of it.
TimelineDisplay.from_estimator(curved, X_test[1], y_test[1])
plt.show()

# %%
# How much a label would teach the model, for a person who stands still at each place of the floor: little where the
# tracks of the training data run, much where nobody has been.
side = np.linspace(-2.5, 2.5, 45)
places = np.array([[x, z, 0.0, 0.0, 1.0] for z in side for x in side])
information = np.concatenate(list(curved.predict_information(list(places[:, None]))[1]))
walked = np.concatenate(X)

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
shades = ax.pcolormesh(side, side, information.reshape(len(side), -1), cmap="viridis", shading="nearest")
ax.plot(walked[:, 0], walked[:, 1], ".", color="white", markersize=1.5)
ax.set(
    xlabel="x, standard deviations", ylabel="y, standard deviations", xlim=side[[0, -1]], ylim=side[[0, -1]]
)
figure.colorbar(shades, label="mutual information, nats")
plt.show()

# %%
# Reliability of the probabilities of all labels: of the steps to which a model gives a label with a probability of 0.8,
# four of five should carry it. Averaging over draws of the scores ("mc") keeps the posterior's doubt.
truth = (np.concatenate(y_test)[:, None] == curved.classes_).astype(int).ravel()
figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
answers = {
    "random field": models["random field, linear"].predict_proba(X_test),
    "GP, normalised scores": curved.predict_proba(X_test, method="rns"),
    "GP, averaged over draws": curved.predict_proba(X_test, method="mc"),
}
for name, proba in answers.items():
    p = np.concatenate(list(proba))
    own = p[np.arange(len(p)), truth.reshape(p.shape).argmax(axis=1)]
    print(f"{name}: log-loss {-np.log(own).mean():.3f} nats per step")
    CalibrationDisplay.from_predictions(truth, np.clip(p.ravel(), 0, 1), n_bins=8, ax=ax, name=name)
ax.set(xlabel="probability given", ylabel="share that carries the label")
plt.show()
