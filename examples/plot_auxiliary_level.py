"""
A level of labels that only the training data have
==================================================

Parts of speech help to find noun phrases, and corpora carry both. A new text carries neither: a tagger would have
to run first. A hierarchical CRF needs none. Parts of speech are its lower level: seen in training, summed over at
prediction. It is compared with segments of the same inputs that never saw a part of speech, sentence by sentence.

The data are those of CoNLL-2000 (news text, downloaded on first use with the extra ``data``); 1,000 sentences to
train, so that all of it runs in a minute (the gain shrinks as sentences are added, to half a point at 8,936)::

    python examples/plot_auxiliary_level.py
"""

# %%
# Inputs and labels
# -----------------
# Words around the token, its suffixes and its shape; no part of speech. Neighbouring noun phrases can only be told
# apart by where they end, so labels come with a matrix of ends: 1 where a segment of that level ends.

import sys
import warnings

import matplotlib

if __name__ == "__main__" and "sphinx_gallery" not in sys.modules:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import HSCRFClassifier
from sklearn_seqlab.datasets import fetch_conll2000
from sklearn_seqlab.feature_extraction import SequenceDictVectorizer
from sklearn_seqlab.sequences import bio_to_segments

N_TRAIN = 1000


def attributes(tokens):
    words = ["<", *(word.lower() for word, _ in tokens), ">"]
    return [
        [
            *(f"word {k} {words[t + 1 + k]}" for k in (-1, 0, 1)),
            *(f"pair {k} {words[t + k]} {words[t + k + 1]}" for k in (0, 1)),
            *(f"suffix {word[-n:].lower()}" for n in (2, 3)),
            f"capital {word[0].isupper()} {word.isupper()}",
            f"digit {any(c.isdigit() for c in word)}",
        ]
        for t, (word, _) in enumerate(tokens)
    ]


def noun_phrases(tags):
    return [(start, stop) for start, stop, kind in bio_to_segments(tags) if kind == "NP"]


def labels(tokens, tags):
    phrase = np.full(len(tokens), "other", dtype=object)
    ends = np.zeros(len(tokens), dtype=int)
    ends[-1] = 1
    for start, stop in noun_phrases(tags):
        phrase[start:stop] = "NP"
        ends[stop - 1] = 1
        if start:
            ends[start - 1] = 1
    part = np.array([tag[:2] for _, tag in tokens], dtype=object)  # nouns of all kinds are "NN"
    return np.column_stack([phrase, part]), np.column_stack([ends, np.ones_like(ends)])


train, test = (fetch_conll2000(name) for name in ("train", "test"))
tokens = train.data[:N_TRAIN]
y = [labels(*pair) for pair in zip(tokens, train.target, strict=False)]
vectorizer = SequenceDictVectorizer().fit([attributes(sentence) for sentence in tokens])
X, X_test = (
    vectorizer.transform([attributes(sentence) for sentence in sentences])
    for sentences in (tokens, test.data)
)
print(f"{X[0].shape[1]:,} attributes; first sentence:")
print(y[0][0][:5])

# %%
# Two models
# ----------
# Both weigh the inputs at the first and the last token of a phrase. The first has one level, the second two.

options = {"C": 2.0, "max_iter": 60, "n_jobs": 2}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    flat = HSCRFClassifier(bottom_persist=True, edge_features=[("start", "end")], **options)
    flat.fit(X, [(rows[:, 0], ends[:, 0]) for rows, ends in y])
    hierarchy = HSCRFClassifier(edge_features=[("start", "end"), ()], **options).fit(X, y)

# %%
# Exact noun phrases of the test set
# ----------------------------------
# Right, found and true phrases of each sentence give the F1 of the whole set, and a bootstrap over sentences says
# how far the difference could be chance.


def counts(segments):
    rows = []
    for found, tags in zip(segments, test.target, strict=True):
        found, true = {(s[-3], s[-2]) for s in found if s[-1] == "NP"}, set(noun_phrases(tags))
        rows.append((len(found & true), len(found), len(true)))
    return np.array(rows)


def f1(rows):
    right, found, true = rows.sum(axis=0)
    return 200 * right / (found + true)


results = {
    "segments, no parts of speech": counts(flat.predict_segments(X_test)),
    "hierarchy, parts of speech in training only": counts(hierarchy.predict_segments(X_test)),
}
for name, rows in results.items():
    print(f"F1 {f1(rows):.2f}  {name}")

random = np.random.default_rng(0)
without, auxiliary = results.values()
draws = random.integers(len(test.data), size=(1000, len(test.data)))
gains = np.array([f1(auxiliary[draw]) - f1(without[draw]) for draw in draws])
low, high = np.percentile(gains, [2.5, 97.5])
print(f"gain {f1(auxiliary) - f1(without):+.2f}, 95 % of draws between {low:+.2f} and {high:+.2f}")

fig, ax = plt.subplots(figsize=(6, 3))
ax.hist(gains, bins=40)
ax.axvline(0, color="k", lw=1)
ax.set(xlabel="gain in F1 (points)", ylabel="draws of sentences", title="What the auxiliary level adds")
fig.tight_layout()
fig.savefig("auxiliary_level.png", dpi=120)
