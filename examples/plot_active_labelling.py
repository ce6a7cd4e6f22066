"""
Ask for the labels that teach most
==================================

Labels cost time. A model that knows what it does not know can say where one more would help: here single words of
news sentences are labelled, a few at a time, with the kind of phrase they stand in. A Gaussian process asks where the
mutual information of label and scores is largest ("BALD") or where it is least sure, a conditional random field asks
where the two best labels are closest, and chance asks anywhere. The sentences are those that come with CRF++, looked
up in the folder that SKLEARN_SEQLAB_DATA names, else downloaded.
"""

# %%
# Sentences, and features of each word and those around it. Half of the sentences are the pool from which single words
# are labelled, the rest tests.
import matplotlib.pyplot as plt
import numpy as np

from sklearn_seqlab import GPSequenceLabeler, LinearChainCRF
from sklearn_seqlab.datasets import fetch_crfpp
from sklearn_seqlab.feature_extraction import FeatureTemplates

task = fetch_crfpp("chunking")
X = FeatureTemplates(task.template).fit_transform(task.data)
pool, test = slice(0, 36), slice(36, None)
X_pool, y_pool, X_test, y_test = X[pool], task.target[pool], X[test], task.target[test]
lengths = [len(labels) for labels in y_pool]
print(f"{sum(lengths)} words to choose from, {sum(map(len, y_test))} to test on")

# %%
# What each way of asking takes for worth knowing, a number per word. The Gaussian process averages over draws of its
# scores: the entropy of the average is high where labels are ambiguous in themselves or not known yet; the mutual
# information leaves out the first.


def information(model, random):
    return np.concatenate(list(model.predict_information(X_pool)[1]))


def entropy(model, random):
    return np.concatenate(list(model.predict_information(X_pool)[0]))


def closeness(model, random):
    best = np.sort(np.concatenate(list(model.predict_proba(X_pool))), axis=1)
    return best[:, -2] - best[:, -1]


def chance(model, random):
    return random.uniform(size=sum(lengths))


# %%
# Two sentences are labelled to begin with. Then the words that are worth most are labelled, and the model learns anew.
# Steps without a label are left out by the Gaussian process and summed over by the random field.
gaussian = GPSequenceLabeler(dependencies=(-1,), missing="impute", inference="meanfield", n_samples=64)
field = LinearChainCRF(C=1.0, tol=1e-3)
CONTESTANTS = {
    "Gaussian process, information": (gaussian, information),
    "Gaussian process, entropy": (gaussian, entropy),
    "Gaussian process, chance": (gaussian, chance),
    "random field, margin": (field, closeness),
    "random field, chance": (field, chance),
}
N_ROUNDS, N_ASKED, N_FIRST = 8, 30, 2


def learning_curve(model, worth, seed):
    random = np.random.RandomState(seed)
    known = np.repeat(np.arange(len(lengths)) < N_FIRST, lengths)
    answers = np.concatenate(y_pool).astype(object)
    counts, accuracies = [], []
    for _ in range(N_ROUNDS):
        labels = np.split(np.where(known, answers, None), np.cumsum(lengths)[:-1])
        model.fit(X_pool, labels)
        counts.append(known.sum())
        accuracies.append(model.score(X_test, y_test))
        value = np.where(known, -np.inf, worth(model, random))
        known[np.argsort(-value, kind="stable")[:N_ASKED]] = True
    return counts, accuracies


# %%
# Accuracy on the test sentences by number of labels.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, (model, worth) in CONTESTANTS.items():
    counts, accuracies = learning_curve(model, worth, seed=0)
    line = "--" if worth is chance else "-"
    color = "tab:orange" if model is field else "tab:green" if worth is entropy else "tab:blue"
    ax.plot(counts, accuracies, line, marker="o", markersize=4, color=color, label=name)
    print(f"{name}: {100 * accuracies[-1]:.1f} % right with {counts[-1]} labels")
ax.set(xlabel="labelled words", ylabel="share of right words", title="Asking where it helps")
ax.grid(alpha=0.3)
ax.legend()
plt.show()
