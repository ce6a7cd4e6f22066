"""HMMClassifier: worked numbers, the joint distribution by enumeration, EM, missing channels, partial_fit."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import EnumeratedChain
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from worked_numbers import t2

from sklearn_seqlab import HMMClassifier
from sklearn_seqlab.hmm import _emission
from sklearn_seqlab.hmm._learning import visible_mass
from sklearn_seqlab.inference import PackedChains
from sklearn_seqlab.sequences import encode_labels

MIXED = ["gaussian", "bernoulli", "categorical", "bernoulli"]


def mixed_data(rng, n_sequences=12, n_labels=3, longest=8):
    """Labels that persist, and a channel of every kind that follows them."""
    X, y = [], []
    for _ in range(n_sequences):
        n = rng.integers(2, longest + 1)
        codes = np.repeat(rng.integers(0, n_labels, n), 2)[:n]
        columns = [
            rng.normal(size=n) + codes,
            rng.uniform(size=n) < 0.2 + 0.3 * codes,
            (codes + (rng.uniform(size=n) < 0.3)) % 4 + 10,
            rng.uniform(size=n) < 0.5,
        ]
        X.append(np.column_stack(columns).astype(float))
        y.append(np.array(["a", "b", "c"])[codes])
    y[0][:2], y[1][:2] = ["a", "b"], ["c", "a"]
    return X, y


def hidden(y, rng, share=0.5):
    return [[None if rng.uniform() < share else label for label in labels.tolist()] for labels in y]


def emission_by_definition(model, x):
    """Log-probability (n, n_labels) of rows given the labels, channel by channel and step by step."""
    out = np.zeros((len(x), len(model.classes_)))
    for kind, part in model.emission_.items():
        for k, column in enumerate(part["columns"]):
            for t, value in enumerate(x[:, column]):
                for label in range(out.shape[1]):
                    if np.isnan(value):
                        continue
                    if kind == "gaussian":
                        scale = np.sqrt(part["variance"][label, k])
                        out[t, label] += norm.logpdf(value, part["mean"][label, k], scale)
                    elif kind == "bernoulli":
                        p = part["probability"][label, k]
                        with np.errstate(divide="ignore"):
                            out[t, label] += np.log(p if value else 1 - p)
                    elif value in part["categories"][k]:
                        place = part["categories"][k].tolist().index(value)
                        with np.errstate(divide="ignore"):
                            out[t, label] += np.log(part["probability"][k][label, place])
    return out


def enumerated(model, x, allowed=None):
    with np.errstate(divide="ignore"):
        start, moves, end = map(np.log, (model.start_prob_, model.transition_prob_, model.end_prob_))
    return EnumeratedChain(emission_by_definition(model, x), moves, start, end, allowed)


# worked numbers


def test_worked_numbers_t5():
    X, y = t2()
    binary = [(x > 0).astype(float) for x in X]
    codes = [((np.arange(len(x)) ** 2 + n) % 4)[:, None] for n, x in enumerate(X)]
    model = HMMClassifier(emission="bernoulli").fit(binary, y)
    assert_allclose(model.joint_log_likelihood(binary)[3], -8.1517354887, atol=1e-8)
    model = HMMClassifier(emission="categorical").fit(codes, y)
    assert_allclose(model.joint_log_likelihood(codes)[3], -8.02014502455, atol=1e-8)
    model = HMMClassifier(emission="gaussian", var_floor=1e-15).fit(X, y)
    model.emission_["gaussian"]["variance"] += 1e-3  # there the floor is a number, not a share
    assert_allclose(model.joint_log_likelihood(X)[3], -13.0582931971, atol=1e-8)


def test_parameters_are_smoothed_shares():
    X = [[[0], [1], [1]], [[1], [0]]]
    model = HMMClassifier(alpha=0.5, use_end=True).fit(X, [["a", "a", "b"], ["b", "b"]])
    assert_allclose(model.start_prob_, [0.5, 0.5])
    # moves a->a, a->b, b->b, and two ends after b
    assert_allclose(model.transition_prob_, [[1.5 / 3.5, 1.5 / 3.5], [0.5 / 4.5, 1.5 / 4.5]])
    assert_allclose(model.end_prob_, [0.5 / 3.5, 2.5 / 4.5])
    assert_allclose(model.emission_["bernoulli"]["probability"], [[0.5], [2.5 / 4]])
    assert_allclose(np.exp(model.transition_coef_), model.transition_prob_)
    assert model.n_iter_ == 0 and len(model.loss_curve_) == 1
    assert HMMClassifier().fit(X, [["a", "a", "b"], ["b", "b"]]).end_prob_.tolist() == [1, 1]


def test_gaussian_channels_are_those_of_each_label(rng):
    X, y = mixed_data(rng)
    model = HMMClassifier(emission="gaussian", var_floor=0.01).fit(X, y)
    rows, labels = np.vstack(X), np.concatenate(y)
    variance = np.array([rows[labels == k].var(axis=0) for k in "abc"])
    part = model.emission_["gaussian"]
    assert_allclose(part["mean"], [rows[labels == k].mean(axis=0) for k in "abc"])
    assert_allclose(part["variance"], variance + 0.01 * variance.max(axis=0))
    far = HMMClassifier(emission="gaussian", var_floor=0.01).fit([x + 1e7 for x in X], y)
    assert_allclose(far.emission_["gaussian"]["variance"], part["variance"], rtol=1e-6)


# the joint distribution


@pytest.mark.parametrize("use_end", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_verbs_are_those_of_the_enumerated_joint(rng, use_end, alpha):
    X, y = mixed_data(rng)
    model = HMMClassifier(emission=MIXED, alpha=alpha, use_end=use_end, var_floor=1e-3).fit(X, y)
    x = X[5][:4]
    x[1, 0] = x[2, 1] = x[2, 2] = x[3, 3] = np.nan
    truth = enumerated(model, x)
    assert_allclose(model.joint_log_likelihood([x]), truth.log_partition)
    assert_allclose(model.predict_proba([x])[0], truth.node_marginals(), atol=1e-12)
    assert_allclose(model.predict_pairwise([x])[0], truth.edge_marginals()[1:], atol=1e-12)
    assert_array_equal(model.predict([x])[0], model.classes_[list(truth.ranked()[0][0])])
    labels = model.classes_[list(truth.ranked()[0][0])].tolist()
    assert_allclose(model.joint_log_likelihood([x], [labels]), truth.scores.max())
    partial = [None, {"a", "b"}, None, labels[3]][: len(x)]
    allowed = [[p is None or k in p for k in "abc"] for p in partial]
    narrow = enumerated(model, x, allowed)
    assert_allclose(model.joint_log_likelihood([x], [partial]), narrow.log_partition)
    assert_allclose(model.log_likelihood([x], [partial]), narrow.log_partition - truth.log_partition)


@pytest.mark.parametrize("emission", ["bernoulli", "categorical"])
def test_probabilities_of_inputs_sum_to_one(rng, emission):
    X, y = mixed_data(rng)
    X = [x[:, [1]] for x in X]
    model = HMMClassifier(emission=emission).fit(X, y)
    everything = [np.array(values, dtype=float)[:, None] for values in product([0, 1], repeat=4)]
    assert_allclose(np.exp(model.joint_log_likelihood(everything)).sum(), 1)
    model = HMMClassifier(emission=emission, use_end=True).fit(X, y)
    # over all lengths, with every input summed out
    lengths = [np.full((n, 1), np.nan) for n in range(1, 300)]
    assert_allclose(np.exp(model.joint_log_likelihood(lengths)).sum(), 1)


def test_a_missing_channel_is_summed_out(rng):
    X, y = mixed_data(rng)
    model = HMMClassifier(emission="categorical").fit([x[:, 1:] for x in X], y)
    x = X[3][:3, 1:]
    x[1, 1] = np.nan
    versions = []
    for code in model.emission_["categorical"]["categories"][1]:
        versions.append(x.copy())
        versions[-1][1, 1] = code
    assert_allclose(
        model.joint_log_likelihood([x]), logsumexp(model.joint_log_likelihood(versions)), rtol=1e-12
    )


def test_missing_channels_at_fit_are_left_out(rng):
    X, y = mixed_data(rng)
    for x in X:
        x[rng.uniform(size=x.shape) < 0.3] = np.nan
    model = HMMClassifier(emission=MIXED, alpha=0.5).fit(X, y)
    rows, labels = np.vstack(X), np.concatenate(y)
    for k, label in enumerate("abc"):
        part = rows[labels == label]
        seen = part[~np.isnan(part[:, 0]), 0]
        assert_allclose(model.emission_["gaussian"]["mean"][k, 0], seen.mean())
        assert_allclose(model.emission_["gaussian"]["variance"][k, 0], seen.var(), rtol=1e-7)
        on = part[~np.isnan(part[:, 1]), 1]
        assert_allclose(model.emission_["bernoulli"]["probability"][k, 0], (on.sum() + 0.5) / (len(on) + 1))
        codes = part[~np.isnan(part[:, 2]), 2]
        table = model.emission_["categorical"]
        n_codes = len(table["categories"][0])
        expected = [(np.sum(codes == c) + 0.5) / (len(codes) + n_codes / 2) for c in table["categories"][0]]
        assert_allclose(table["probability"][0][k], expected)
    flat = HMMClassifier().fit([np.full((len(x), 2), np.nan) for x in X], y)
    assert_allclose(flat.predict_proba([np.full((1, 2), np.nan)])[0][0], flat.start_prob_)


def test_sparse_input_is_never_made_dense(rng, monkeypatch):
    X, y = mixed_data(rng)
    X = [x[:, [1, 3]] for x in X]
    X[2][1, 0] = np.nan
    dense = HMMClassifier(alpha=0.0).fit(X, y)
    rows = [sparse.csr_array(x) for x in X]

    def refuse(*args, **kwargs):
        raise AssertionError("made dense")

    for name in ("toarray", "todense"):
        for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array):
            monkeypatch.setattr(kind, name, refuse)
    model = HMMClassifier(alpha=0.0).fit(rows, y)
    assert_array_equal(
        model.emission_["bernoulli"]["probability"], dense.emission_["bernoulli"]["probability"]
    )
    assert_allclose(np.concatenate(model.predict_proba(rows)), np.concatenate(dense.predict_proba(X)))


def test_what_was_not_seen_is_impossible_without_smoothing():
    model = HMMClassifier(alpha=0.0).fit([[[0], [0], [1]]], [["a", "a", "b"]])
    assert model.joint_log_likelihood([[[1], [1]]]).tolist() == [-np.inf]
    assert model.joint_log_likelihood([[[0], [1]]], [["a", "b"]]) == np.log(0.5)
    assert model.transition_prob_[1].tolist() == [0.5, 0.5]  # never left: nothing is known
    assert model.predict([[[0], [0], [0], [1]]])[0].tolist() == ["a", "a", "a", "b"]


# hidden labels


def test_em_on_known_labels_is_counting(rng):
    X, y = mixed_data(rng)
    options = {"emission": MIXED, "alpha": 0.5}
    model = HMMClassifier(**options).fit(X, y)
    # one more sequence of weight next to nothing makes it iterate
    weight = np.r_[np.ones(len(X)), 1e-13]
    again = HMMClassifier(**options).fit([*X, X[0]], [*y, [None] * len(X[0])], sample_weight=weight)
    assert again.n_iter_ >= 1
    assert_allclose(again.transition_prob_, model.transition_prob_)
    assert_allclose(again.emission_["gaussian"]["variance"], model.emission_["gaussian"]["variance"])
    assert_allclose(again.emission_["bernoulli"]["probability"], model.emission_["bernoulli"]["probability"])


@pytest.mark.parametrize("use_end", [False, True])
def test_an_iteration_of_em_is_its_definition(rng, use_end):
    """Expected counts by enumerating all labellings that fit, from the parameters of the labelled steps."""
    X, y = mixed_data(rng, n_sequences=5, longest=4)
    partial = hidden(y, rng)
    partial[1][0] = {"a", "c"}
    weight = rng.uniform(0.5, 2, len(X))
    options = {"emission": MIXED, "use_end": use_end, "var_floor": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = HMMClassifier(max_iter=1, tol=0, **options).fit(X, partial, sample_weight=weight)
        second = HMMClassifier(max_iter=2, tol=0, **options).fit(X, partial, sample_weight=weight)
    start, moves, end = np.zeros(3), np.zeros((3, 3)), np.zeros(3)
    on, total, sums = np.zeros(3), np.zeros(3), np.zeros(3)
    log_p = 0.0
    for x, labels, w in zip(X, partial, weight, strict=True):
        allowed = [[p is None or k == p or (isinstance(p, set) and k in p) for k in "abc"] for p in labels]
        truth = enumerated(first, x, allowed)
        log_p += w * truth.log_partition
        node = w * truth.node_marginals()
        start, end = start + node[0], end + node[-1]
        moves += w * truth.edge_marginals().sum(axis=0)
        on, total, sums = on + x[:, 1] @ node, total + node.sum(axis=0), sums + x[:, 0] @ node
    assert_allclose(second.start_prob_, (start + 1) / (start.sum() + 3))
    table = np.column_stack([moves, end]) + 1 if use_end else moves + 1
    table /= table.sum(axis=1, keepdims=True)
    assert_allclose(second.transition_prob_, table[:, :3])
    assert_allclose(second.emission_["bernoulli"]["probability"][:, 0], (on + 1) / (total + 2))
    assert_allclose(second.emission_["gaussian"]["mean"][:, 0], sums / total)
    prior = np.log(first.start_prob_).sum() + np.log(first.transition_prob_).sum()
    prior += np.log(first.end_prob_).sum() + _emission.log_prior(first.emission_)
    assert_allclose(first.loss_curve_[1], -(log_p + prior))


def test_em_lowers_its_objective(rng):
    X, y = mixed_data(rng, n_sequences=20)
    for alpha in (0.0, 1.0):
        model = HMMClassifier(emission=MIXED, alpha=alpha, tol=1e-10, max_iter=2000)
        curve = model.fit(X, hidden(y, rng, 0.8)).loss_curve_
        assert len(curve) == model.n_iter_ + 1 > 3
        # alpha=0 starts from smoothed parameters, on which no prior is counted
        assert (np.diff(curve) <= 1e-7 * np.abs(curve[1:])).all()


def test_unlabelled_sequences_help(rng):
    states = [np.repeat(rng.integers(0, 2, 10), 6) for _ in range(30)]
    X = [s[:, None] * 1.5 + rng.normal(size=(len(s), 1)) for s in states]
    few = HMMClassifier().fit(X[:1], [[0, *[None] * 30, *states[0][31:40].tolist(), *[None] * 20]])
    y = [None] * 29
    more = HMMClassifier(max_iter=500).fit(
        X, [[*states[0][:2].tolist(), *[None] * 29, *states[0][31:40].tolist(), *[None] * 20], *y]
    )
    assert more.score(X, states) >= few.score(X, states)


def test_em_starts_from_what_steps_say_by_themselves():
    labels = encode_labels([["a", None, {"a", "b"}], ["c", "b"]])
    expected = [[1, 0, 0], [0, 0, 0], [0.5, 0.5, 0], [0, 0, 1], [0, 1, 0]]
    assert visible_mass(labels).tolist() == expected
    assert visible_mass(labels, 1, 3).tolist() == expected[1:3]


def test_candidates_alone_have_parameters():
    X = [[[0.0], [1.0], [2.0]], [[0.1], [1.1], [2.2]]]
    model = HMMClassifier(max_iter=200).fit(X, [["a", {"b", "c"}, None], ["a", {"b", "c"}, "a"]])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert np.isfinite(model.emission_["gaussian"]["mean"]).all()
    assert_allclose(model.transition_prob_.sum(axis=1), 1)


def test_em_tells_that_it_has_not_converged(rng):
    X, y = mixed_data(rng)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        HMMClassifier(max_iter=1, tol=0).fit(X, hidden(y, rng))


def test_an_interrupted_fit_keeps_what_it_has(rng, monkeypatch):
    X, y = mixed_data(rng)
    calls = []
    plain = PackedChains.forward_backward

    def interrupt(self, weight=None):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(self, weight)

    monkeypatch.setattr(PackedChains, "forward_backward", interrupt)
    model = HMMClassifier(tol=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, hidden(y, rng))
    assert model.n_iter_ == 1 and len(model.predict(X)) == len(X)


# pieces


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_partial_fit_in_pieces_is_fit(rng, order):
    X, y = mixed_data(rng)
    weight = rng.uniform(0.5, 2, len(X))
    whole = HMMClassifier(emission=MIXED, use_end=True).fit(X, y, sample_weight=weight)
    model = HMMClassifier(emission=MIXED, use_end=True)
    for piece in order:
        rows = slice(4 * piece, 4 * piece + 4)
        model.partial_fit(X[rows], y[rows], sample_weight=weight[rows])
    for name in ("start_prob_", "transition_prob_", "end_prob_"):
        assert_allclose(getattr(model, name), getattr(whole, name), rtol=1e-12)
    for kind, name in [("gaussian", "mean"), ("gaussian", "variance"), ("bernoulli", "probability")]:
        assert_allclose(model.emission_[kind][name], whole.emission_[kind][name], rtol=1e-10)
    codes, expected = model.emission_["categorical"], whole.emission_["categorical"]
    assert_array_equal(codes["categories"][0], expected["categories"][0])
    assert_allclose(codes["probability"][0], expected["probability"][0], rtol=1e-12)
    assert_allclose(np.concatenate(model.predict_proba(X)), np.concatenate(whole.predict_proba(X)))


def test_labels_may_come_later(rng):
    X, y = mixed_data(rng)
    model = HMMClassifier(emission=MIXED).partial_fit(X[:1], [["b"] * len(X[0])])
    assert model.classes_.tolist() == ["b"]
    model.partial_fit(X[1:], y[1:])
    expected = HMMClassifier(emission=MIXED).fit(X, [["b"] * len(X[0]), *y[1:]])
    assert_allclose(model.transition_prob_, expected.transition_prob_)
    named = HMMClassifier(emission=MIXED).partial_fit(X[:1], [["b"] * len(X[0])], classes=["a", "b", "z"])
    assert named.classes_.tolist() == ["a", "b", "z"]
    with pytest.raises(TypeError, match="kind"):
        named.partial_fit(X[1:2], [[1] * len(X[1])])
    with pytest.raises(ValueError, match="X\\[0\\] has 2 features"):
        named.partial_fit([[[0, 1]]], [["a"]])
    assert named.classes_.tolist() == ["a", "b", "z"]


def test_partial_fit_with_hidden_labels(rng):
    X, y = mixed_data(rng)
    model = HMMClassifier(emission=MIXED, max_iter=500).partial_fit(X[:6], y[:6])
    before = model.score(X, y)
    model.partial_fit(X[6:], [None] * 6)
    assert model.n_iter_ > 0 and model.score(X, y) > before - 0.1


# errors


def test_errors(rng):
    X, y = mixed_data(rng)
    with pytest.raises(ValueError, match=r"emission\[1\] is 'poisson'"):
        HMMClassifier(emission=["gaussian", "poisson", "auto", "auto"]).fit(X, y)
    with pytest.raises(ValueError, match="emission names 2 kinds, but X has 4 features"):
        HMMClassifier(emission=["gaussian", "auto"]).fit(X, y)
    message = r"X\[\d+\] holds .* at time step 0, column 0; expected {} in a {} channel"
    with pytest.raises(ValueError, match=message.format("0 or 1", "bernoulli")):
        HMMClassifier(emission="bernoulli").fit(X, y)
    with pytest.raises(ValueError, match=message.format("an integer code", "categorical")):
        HMMClassifier(emission="categorical").fit([sparse.csr_array(x) for x in X], y)
    model = HMMClassifier().fit([x[:, [1]] for x in X], y)
    with pytest.raises(ValueError, match=r"X\[1\] holds 0.5 at time step 2, column 0; expected 0 or 1"):
        model.predict([[[0]], [[0], [1], [0.5]]])
    with pytest.raises(ValueError, match="beyond double precision"):
        HMMClassifier(emission="gaussian").fit([[[1e300], [-1e300]]], [["a", "a"]])
    with pytest.raises(ValueError, match="beyond double precision"):
        HMMClassifier().fit([[[0.1], [0.2], [0.3]]], [["a", "a", "b"]]).predict([[[1e200]]])


def test_unknown_codes(rng):
    X, y = mixed_data(rng)
    X = [x[:, [2]] for x in X]
    model = HMMClassifier(emission="categorical").fit(X, y)
    with pytest.warns(
        UserWarning, match=r"X\[1\] holds 99 at time step 1, column 0, a code that fit did not"
    ):
        proba = model.predict_proba([X[0], [[10], [99]]])[1]
    assert_allclose(proba, model.predict_proba([[[10], [np.nan]]])[0])
    model.set_params(handle_unknown="error")
    with pytest.raises(ValueError, match="a code that fit did not see"):
        model.predict([[[99]]])


# a peer


def test_agrees_with_hmmlearn(rng):
    peer = pytest.importorskip("hmmlearn.hmm")
    X, y = mixed_data(rng)
    X = [x[:, [0]] for x in X]
    model = HMMClassifier().fit(X, y)
    other = peer.GaussianHMM(3, covariance_type="diag")
    other.startprob_, other.transmat_ = model.start_prob_, model.transition_prob_
    part = model.emission_["gaussian"]
    other.n_features, other.means_, other.covars_ = 1, part["mean"], part["variance"]
    assert_allclose(model.joint_log_likelihood(X), [other.score(x) for x in X])
    assert_allclose(model.predict_proba(X)[4], other.predict_proba(X[4]), atol=1e-10)


def test_features_whose_variance_is_lost_are_refused(rng):
    X = [rng.normal(size=(40, 2)) for _ in range(3)]
    y = [np.where(x[:, 0] > 0, "a", "b") for x in X]
    expected = HMMClassifier().fit(X, y).score(X, y)
    small = [1e-150 * x for x in X]
    assert HMMClassifier().fit(small, y).score(small, y) == expected
    for size in (1e-158, 1e-200):
        with pytest.raises(ValueError, match="channel 0 are so small"):
            HMMClassifier().fit([size * x for x in X], y)
    constant = [np.column_stack([x[:, :1], np.ones(40)]) for x in X]
    HMMClassifier(emission="gaussian").fit(constant, y)
