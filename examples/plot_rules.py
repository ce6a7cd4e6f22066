"""
Rules that were planted, and rules of a real home
=================================================

A simulated home has rules that are known: two or three sensors that are on together tell one activity from its
rival, while none of them does so alone. :class:`~sklearn_seqlab.RuleEnsembleHKL` and
:class:`~sklearn_seqlab.StructHKLClassifier` weigh all conjunctions of sensors and say by a duality gap how far from
the optimum they are. How many of the planted rules come back, and from how many days?

The second part is house A of van Kasteren and others, of which the fetcher looks for files in the folder that the
environment variable SKLEARN_SEQLAB_DATA names, else downloads them; without them it is left out.
"""

# %%
# Planted rules
# -------------
# A conjunction counts as found if it is among those of largest positive weight (here: above a fifth of the largest
# weight) and no longer one of the same label is. What contains a planted rule counts neither for nor against.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_seqlab import RuleEnsembleHKL, StructHKLClassifier
from sklearn_seqlab.datasets import fetch_kasteren, make_smart_home

home = make_smart_home(28, random_state=0)
names = list(home.feature_names)
planted = {
    (rule["label"], tuple(sorted(names.index(sensor) for sensor in rule["sensors"])))
    for rule in home.rules
    if rule["lag"] is None
}


def longest(rules, share=0.2):
    """Conjunctions of two sensors or more with a large positive weight, without parts of others."""
    least = share * np.abs(rules["weight"]).max()
    found = {
        (rule["label"], rule["conjunction"])
        for rule in rules
        if len(rule["conjunction"]) > 1 and rule["weight"] > least
    }
    return {
        (label, body)
        for label, body in found
        if not any(label == other and set(body) < set(longer) for other, longer in found)
    }


days, recall, precision = [3, 7, 14, 28], [], []
for n_days in days:
    model = RuleEnsembleHKL(C=1e5, rho=1.1, beta=0.5, tol=5e-2, max_order=4)
    model.fit(home.data[:n_days], home.target[:n_days])
    found = longest(model.rules_)
    judged = {
        (label, body)
        for label, body in found
        if not any(label == other and set(rule) < set(body) for other, rule in planted)
    }
    recall.append(len(found & planted) / len(planted))
    precision.append(len(judged & planted) / max(1, len(judged)))
    print(
        f"{n_days} days: {len(found & planted)} of {len(planted)} planted rules, {len(judged)} found in all"
    )

print(model.rules_text(top=4, feature_names=names))

# %%
# Rules of house A
# ----------------
# The regularisation path shares its cutting planes: each strength starts where the one before ended.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.plot(days, recall, "o-", label="planted rules that were found")
left.plot(days, precision, "s--", label="found rules that were planted")
left.set(xlabel="days", ylabel="share", ylim=(0, 1.05), title="Simulated home")
left.legend(loc="lower right")

try:
    house = fetch_kasteren(house="A", split=1000, encoding="raw")
except (OSError, ImportError) as error:
    print(f"House A is left out: {error}")
    right.axis("off")
else:
    X, y = house.data[::4], house.target[::4]
    strengths = [3.0, 10.0, 30.0, 100.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = list(StructHKLClassifier(tol=5e-2).path(X, y, C=strengths))
    last = models[-1]
    print(last.rules_text(top=3, feature_names=house.feature_names))
    label = "leave house"
    of_label = last.rules_[last.rules_["label"] == label][:6]
    for rule in of_label:
        weights = []
        for model in models:
            place = {body: k for k, body in enumerate(model.conjunctions_)}
            row = model.coef_[[model.classes_.tolist().index(label)]].toarray()[0]
            weights.append(row[place[rule["conjunction"]]] if rule["conjunction"] in place else 0.0)
        body = ", ".join(house.feature_names[k] for k in rule["conjunction"]) or "true"
        right.plot(strengths, weights, "o-", label=body)
    right.set(xscale="log", xlabel="C", ylabel="weight", title=f"House A: rules of '{label}'")
    right.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()
