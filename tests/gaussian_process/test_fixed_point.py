"""The lower bound, its gradients and its optimum, with full covariances and in weight space."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from worked_gaussian import (
    N_LABELS,
    OFFSETS,
    at_worked_state,
    codes,
    fixed_point,
    labelled_steps,
    rows,
    squared_exponential,
)

from sklearn_seqlab.gaussian_process._couplings import (
    CouplingForm,
    neighbour_codes,
    neighbour_rows,
    soft_neighbour_rows,
)
from sklearn_seqlab.gaussian_process._fixed_point import FixedPoint, LabelledSteps
from sklearn_seqlab.gaussian_process._full_covariance import FullCovariance, Scales
from sklearn_seqlab.gaussian_process._hyper_parameters import mackay, quasi_newton
from sklearn_seqlab.gaussian_process._kernels import distinct_rows, group_columns, merge_columns
from sklearn_seqlab.gaussian_process._mean_field import MeanField, MeanFieldAscent
from sklearn_seqlab.gaussian_process._priors import FeaturePrior, GramPrior
from sklearn_seqlab.gaussian_process._softmax_bounds import SoftmaxBound
from sklearn_seqlab.solvers import lbfgs

TIGHT = {"max_iter": 3000, "tol": 1e-15}


def solved(*args, **options):
    point = fixed_point(*args, **options)
    assert point.run(**TIGHT).converged
    return point


def full_covariance(joint=True, bound="tilted", kernels=None, scales=None, **options):
    steps, _ = labelled_steps()
    found = FullCovariance(rows(), steps, CouplingForm((-1, 1), N_LABELS), bound, joint=joint, **options)
    found.solve(kernels, scales or Scales(1.0, 1.0), **TIGHT)
    return found


def test_neighbours():
    expected = [[-1, 2], [0, 2], [2, 1], [2, -1], [-1, 0], [1, 0], [0, -1]]
    assert neighbour_codes(codes(), OFFSETS, (-1, 1)).tolist() == expected
    hard = neighbour_rows(codes(), OFFSETS, (-1, 1), 3)
    soft = soft_neighbour_rows(np.eye(3)[codes()], OFFSETS, (-1, 1))
    assert (hard != soft).nnz == 0
    # offsets beyond a sequence say nothing
    assert neighbour_rows(codes(), OFFSETS, (-9, 5), 3).nnz == 0
    assert soft_neighbour_rows(np.eye(3)[codes()], OFFSETS, (-9, 5)).nnz == 0


@pytest.mark.parametrize(
    "bound, value", [("jensen", -20.7638386575), ("tilted", -19.1496977719), ("bohning", -20.7124481150)]
)
def test_worked_bounds(bound, value):
    assert_allclose(at_worked_state(fixed_point(bound, "factored")).value, value, atol=1e-8)


def test_worked_gradients():
    point = at_worked_state(fixed_point("jensen", "factored"))
    by_mean = point.pull - point.state.dual
    factor = point.couplings
    by_table = factor.form.collect(point.steps.neighbours.T @ point.pull) - factor.mean
    curvature = factor.form.collect(point.steps.neighbours.power(2).T @ point.values.by_variance)
    by_spread = 0.5 * (1 / factor.variance - 1.0) - curvature
    norms = [np.linalg.norm(part) for part in (by_mean, by_table, by_spread)]
    assert_allclose(norms, [3.7728631515, 3.0280606869, 4.0165237609], atol=1e-8)
    assert_allclose(by_mean[0], [0.7073907048, -1.0833111872, 0.2996730166], atol=1e-8)
    assert_allclose(by_spread[0, 0], [-0.5666563724, 0.1412146155, 0.9254417569], atol=1e-8)


@pytest.mark.parametrize("bound", ["jensen", "tilted", "bohning"])
def test_gradients_by_duals_and_precisions(bound):
    """``dL/dal = K (Y - P - al)`` and ``dL/dlam = (V o V) (2Q - lam) / 2``, by differences."""
    point = at_worked_state(fixed_point(bound, "factored"))
    gram, state = point.prior.grams[0], point.state
    pull, curvature = point.pull.copy(), 2 * point.values.by_variance.copy()
    h = 1e-5
    for j in range(N_LABELS):
        lam = state.lam[:, j]
        covariance = np.linalg.inv(np.linalg.inv(gram) + np.diag(lam))
        assert_allclose(np.diag(covariance), state.variance[:, j], rtol=1e-9)
        by_dual = gram @ (pull - state.dual)[:, j]
        by_precision = 0.5 * covariance**2 @ (curvature[:, j] - lam)
        for i in range(7):
            step = np.zeros((7, N_LABELS))
            step[i, j] = h
            values = []
            for sign in (1, -1):
                point.state = point.at(state.dual + sign * step, state.lam)
                point._evaluate()
                values.append(point.value)
            assert_allclose((values[0] - values[1]) / (2 * h), by_dual[i], atol=1e-6)
            values = []
            for sign in (1, -1):
                point.state = point.at(state.dual, state.lam + sign * step)
                point._evaluate()
                values.append(point.value)
            assert_allclose((values[0] - values[1]) / (2 * h), by_precision[i], atol=1e-6)


OPTIMA = {
    ("jensen", "factored"): -11.7428648617,
    ("jensen", "joint"): -10.7500253750,
    ("tilted", "factored"): -9.5833357845,
    ("tilted", "joint"): -9.0919381887,
    ("bohning", "factored"): -11.9011421167,
    ("bohning", "joint"): -10.9566294019,
}


@pytest.mark.parametrize("bound, posterior", OPTIMA)
def test_worked_optima(bound, posterior):
    point = solved(bound, posterior)
    assert_allclose(point.value, OPTIMA[bound, posterior], atol=1e-8)
    assert (np.diff(point.history) >= -1e-8 * abs(point.value)).all()
    assert_allclose(point.state.dual, point.pull, atol=1e-5)
    assert_allclose(point.state.lam, 2 * point.values.by_variance, atol=1e-5)


def test_worked_optimum_in_detail():
    point = solved("jensen", "factored")
    assert_allclose(point.state.dual[0], [0.431844, -0.182148, -0.249696], atol=1e-6)
    assert_allclose(point.state.lam[0], [0.568156, 0.182148, 0.249696], atol=1e-6)
    assert_allclose(point.couplings.mean[0, 0], [0.115247, -0.310120, 0.194874], atol=1e-6)
    assert_allclose(point.couplings.variance[0, 0], [0.530573, 0.763289, 0.553978], atol=1e-6)


def test_other_worked_optima():
    assert_allclose(solved("jensen", "factored", lags=(-1,)).value, -10.1974723442, atol=1e-8)
    assert_allclose(solved("jensen", "factored", missing=[1, 5]).value, -6.6035443447, atol=1e-8)
    linear = rows() @ rows().T
    assert_allclose(solved("jensen", "joint", gram=linear).value, -10.3096506913, atol=1e-8)
    assert_allclose(solved("jensen", "factored", gram=linear).value, -11.0961835013, atol=1e-8)


def importance_sampled_evidence(missing=(), n_draws=100_000):
    """log of the pseudo-evidence and its standard error, by draws from the prior."""
    steps, known = labelled_steps(missing=missing)
    gram = squared_exponential(rows())[np.ix_(known, known)]
    root = np.linalg.cholesky(
        gram + (steps.neighbours @ steps.neighbours.T).toarray() + 1e-10 * np.eye(len(known))
    )
    random = np.random.default_rng(0)
    log_p = np.empty(n_draws)
    for start in range(0, n_draws, 50_000):
        scores = np.einsum("ab,sbj->saj", root, random.standard_normal((50_000, len(known), N_LABELS)))
        own = scores[:, np.arange(len(known)), steps.codes]
        log_p[start : start + 50_000] = (own - logsumexp(scores, axis=2)).sum(axis=1)
    log_z = logsumexp(log_p) - np.log(n_draws)
    return log_z, np.std(np.exp(log_p - log_z)) / np.sqrt(n_draws)


@pytest.mark.parametrize("missing, expected", [((), -8.277), ((1, 5), -5.258)])
def test_bounds_are_below_the_evidence(missing, expected):
    log_z, error = importance_sampled_evidence(missing)
    assert abs(log_z - expected) < 4 * (error + 0.0033)
    values = [
        solved(bound, posterior, missing=missing).value
        for bound in ("jensen", "tilted", "bohning")
        for posterior in ("factored", "joint")
    ]
    assert max(values) <= log_z + 4 * error
    assert values[1] >= values[0] and values[3] >= values[2] and values[5] >= values[4]
    assert values[2] >= values[0]


def test_concavity_in_means_and_covariances():
    """The bound at the middle of two random states is no lower than the mean of both."""
    gram = squared_exponential(rows())
    inverse = np.linalg.inv(gram)
    for bound in ("jensen", "tilted", "bohning"):
        random = np.random.default_rng(1)

        def value(means, covariances, bound=bound):
            point = fixed_point(bound, "factored", lags=())
            mu, nu = means, np.stack([np.diag(v) for v in covariances], axis=1)
            terms = [
                0.5 * (np.linalg.slogdet(v @ inverse)[1] - np.trace(v @ inverse) - m @ inverse @ m + 7)
                for m, v in zip(means.T, covariances, strict=True)
            ]
            own = mu[np.arange(7), codes()]
            return sum(terms) + float((own - point.bound(mu, nu).value).sum())

        for _ in range(20):
            ends = []
            for _ in range(2):
                a = random.normal(size=(3, 7, 7)) * random.uniform(0.1, 2)
                ends.append((2 * random.normal(size=(7, 3)), a @ a.transpose(0, 2, 1) + 0.1 * np.eye(7)))
            middle = [np.mean([end[k] for end in ends], axis=0) for k in range(2)]
            assert value(*middle) >= np.mean([value(*end) for end in ends]) - 1e-9


def test_duplicate_rows_are_one():
    """Steps with equal inputs and neighbours share a row; the bound and what it says of them stay."""
    X = np.vstack([rows(), rows()[[0, 2]], rows()[[0]]])
    y = np.concatenate([codes(), [0, 1], [2]])
    contexts = sparse.csr_array(np.zeros((10, 0)))
    steps = LabelledSteps(y, np.linspace(0.5, 2, 10), contexts, 3)
    apart = FixedPoint(GramPrior([squared_exponential(X)], 3), steps, "tilted", index=np.arange(10))
    apart.run(**TIGHT)
    distinct, index = distinct_rows(X)
    assert len(distinct) == 7
    together = FixedPoint(GramPrior([squared_exponential(distinct)], 3), steps, "tilted", index=index)
    together.run(**TIGHT)
    assert_allclose(together.value, apart.value, atol=1e-9)
    assert_allclose(together.state.mean[index], apart.state.mean, atol=1e-5)
    assert_allclose(together.state.variance[index], apart.state.variance, atol=1e-5)


def test_features_and_gram_are_one_prior(rng):
    """Also with fewer features than steps, where the Gram matrix is singular."""
    features = rng.normal(size=(7, 2))
    steps, _ = labelled_steps(())
    points = [
        FixedPoint(prior, steps, "tilted", index=np.arange(7))
        for prior in (GramPrior([features @ features.T], 3), FeaturePrior([features], 3))
    ]
    for point in points:
        point.run(**TIGHT)
    assert_allclose(points[0].value, points[1].value, atol=1e-9)
    assert_allclose(points[0].state.variance, points[1].state.variance, atol=1e-6)


def test_inducing_rows():
    exact = full_covariance(bound="jensen", kernels=[RBF()]).value
    assert_allclose(exact, -10.7500253750, atol=1e-8)
    everything = full_covariance(bound="jensen", kernels=[RBF()], inducing=rows()).value
    assert_allclose(everything, exact, atol=1e-6)
    some = [full_covariance(bound="jensen", kernels=[RBF()], inducing=rows()[:n]).value for n in (2, 4, 6)]
    assert_allclose(some, [-11.954486, -10.975433, -10.762305], atol=2e-6)


def test_linear_features_and_mean_field():
    by_column = full_covariance(bound="jensen", group=np.arange(2))
    assert_allclose(by_column.value, -10.3096506913, atol=1e-8)
    steps, _ = labelled_steps()
    field = MeanField(rows(), steps, CouplingForm((-1, 1), 3), "jensen", group=np.arange(2))
    field.solve(None, Scales(1.0, 1.0), 500, 1e-12)
    assert_allclose(field.value, -11.1380364, atol=1e-7)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    "values",
    [rows(), (rows() > 0).astype(float), sparse.csr_array(rows())],
    ids=["dense", "binary", "sparse"],
)
def test_mean_field_gradient(values, tied, rng):
    steps, _ = labelled_steps()
    weighted = LabelledSteps(steps.codes, np.linspace(0.5, 2, 7), steps.neighbours, 3)
    for bound in ("tilted", "jensen", "bohning"):
        form = CouplingForm((-1, 1), 3, tied)
        ascent = MeanFieldAscent(values, np.array([0.5, 2.0]), weighted, form, 0.7, bound)
        mean, log_variance = rng.normal(size=(2, len(ascent.mean)))

        def value(means, logs, ascent=ascent):
            ascent.at(means, np.exp(logs))
            return ascent.value

        h = 1e-5
        steps_of_h = h * np.eye(len(mean))
        by_mean = [value(mean + e, log_variance) - value(mean - e, log_variance) for e in steps_of_h]
        by_log = [value(mean, log_variance + e) - value(mean, log_variance - e) for e in steps_of_h]
        ascent.at(mean, np.exp(log_variance))
        gradient = ascent.gradient()
        assert_allclose(gradient[0], np.array(by_mean) / (2 * h), atol=1e-7)
        assert_allclose(gradient[1], np.array(by_log) / (2 * h), atol=1e-7)


class ByMeansAndVariances:
    """The bound of mean field for the general solvers: means, then logarithms of variances."""

    l1 = None

    def __init__(self, ascent):
        self.ascent, self.size = ascent, float(ascent.steps.weight.sum())
        self.n_coef = 2 * len(ascent.mean)
        self.scale = np.ones(self.n_coef)

    def value_and_gradient(self, coef):
        mean, log_variance = np.split(coef, 2)
        self.ascent.at(mean, np.exp(log_variance))
        return self.ascent.value, np.concatenate(self.ascent.gradient())


@pytest.mark.parametrize("bound", ["tilted", "jensen", "bohning", "gh"])
@pytest.mark.parametrize("tied", [False, True])
def test_mean_field_ascent_ends_where_lbfgs_does(bound, tied, rng):
    n_labels = 2 if bound == "gh" else 3
    X = rng.normal(size=(40, 5))
    codes = rng.integers(n_labels, size=40)
    contexts = neighbour_rows(codes, np.array([0, 15, 40]), (-1, 1), n_labels)
    steps = LabelledSteps(codes, rng.uniform(0.5, 2, size=40), contexts, n_labels)
    problem = X, np.full(5, 3.0), steps, CouplingForm((-1, 1), n_labels, tied), 2.0, bound
    ascent = MeanFieldAscent(*problem)
    values = []
    outcome = ascent.run(200, 1e-13, lambda _, value: values.append(value))
    assert outcome.converged and outcome.n_iter < 60
    assert (np.diff([outcome.history[0], *values]) >= -1e-12 * abs(values[-1])).all()
    other = lbfgs(ByMeansAndVariances(MeanFieldAscent(*problem)), np.zeros(2 * len(ascent.mean)), tol=1e-10)
    assert_allclose(outcome.value, other.value, atol=1e-8)
    mean, log_variance = np.split(other.coef, 2)
    assert_allclose(ascent.mean, mean, atol=1e-4)
    assert_allclose(np.log(ascent.variance), log_variance, atol=1e-4)


@pytest.mark.parametrize("size", [1.0, 30.0, 1e2, 1e4, 1e6])
def test_mean_field_of_separable_data_at_any_scale(size):
    """Means and variances grow together by orders of magnitude: neither crawls, and none stops on the way."""
    X = size * np.array([[-1.2], [-0.9], [0.8], [1.1], [1.0], [-1.0]])
    codes = np.array([0, 0, 1, 1, 1, 0])
    steps = LabelledSteps(codes, np.ones(6), sparse.csr_array((6, 0)), 2)
    ascent = MeanFieldAscent(X, np.ones(1), steps, CouplingForm((), 2), 1.0, "tilted")
    outcome = ascent.run(200, 1e-6)
    assert outcome.converged and outcome.n_iter < 60
    objective = ByMeansAndVariances(MeanFieldAscent(X, np.ones(1), steps, CouplingForm((), 2), 1.0, "tilted"))
    start = np.concatenate([ascent.mean, np.log(ascent.variance)])
    rng = np.random.default_rng(0)
    for _ in range(20):  # nothing near is better
        other = start + rng.normal(size=len(start)) * 10.0 ** -rng.integers(1, 4)
        assert objective.value_and_gradient(other)[0] > outcome.value - 1e-4
    # by hand along the valley, where the mean is some multiple of the variance
    for factor in np.geomspace(0.1, 10, 41):
        ascent.at(factor * ascent.mean, factor * ascent.variance)
        assert ascent.value > outcome.value - 1e-4
        ascent.at(start[:2], np.exp(start[2:]))


def test_curvature_of_bounds(rng):
    """Newton's steps know the second derivatives by means, of every bound."""
    for name, n_labels in (("tilted", 4), ("jensen", 4), ("bohning", 4), ("gh", 2)):
        mu, nu = rng.normal(size=(1, n_labels)), rng.uniform(0.5, 5, size=(1, n_labels))
        q, c = (part[0] for part in SoftmaxBound(name).curvature(SoftmaxBound(name)(mu, nu), nu))

        def derivatives(mu, nu, name=name):
            found = SoftmaxBound(name)(mu, nu)
            return np.concatenate([found.by_mean[0], found.by_variance[0]])

        h = 1e-5 * np.eye(n_labels)
        by_mu = [(derivatives(mu + e, nu) - derivatives(mu - e, nu)) / 2e-5 for e in h]
        by_nu = [(derivatives(mu, nu + e) - derivatives(mu, nu - e)) / 2e-5 for e in h]
        block = np.diag(q) - np.outer(q, q) / q.sum()
        whole = np.block([[block, block * c], [c[:, None] * block, c[:, None] * block * c]])
        if name == "gh":  # along means alone
            whole, by_mu, by_nu = block, np.array(by_mu)[:, :n_labels], np.empty((0, n_labels))
        assert_allclose(whole, np.vstack([by_mu, by_nu]), atol=1e-8)


def test_mean_field_of_one_column_and_label_pair_is_exact():
    """One weight per label and nothing else: independence is no approximation."""
    X = np.linspace(-1, 2, 7)[:, None]
    steps, _ = labelled_steps(())
    form = CouplingForm((), 3)
    field = MeanField(X, steps, form, "tilted", group=np.zeros(1, dtype=int))
    field.solve(None, Scales(2.0, 1.0), 500, 1e-13)
    exact = FullCovariance(X, steps, form, "tilted", joint=True)
    exact.solve(None, Scales(2.0, 1.0), **TIGHT)
    assert_allclose(field.value, exact.value, atol=1e-8)


def test_tied_couplings_are_a_restriction():
    """With tables that are transposes of each other the tied bound is that of one table, seen from both sides."""
    form = CouplingForm((-1, 1), 3, True)
    free = np.arange(9.0).reshape(1, 3, 3)
    tables = form.expand(free).reshape(2, 3, 3)
    assert_allclose(tables[0], tables[1].T)
    assert_allclose(form.collect(form.expand(free)), 2 * free)
    point = solved("tilted", "factored", tied=True)
    assert point.value <= importance_sampled_evidence(n_draws=50_000)[0] + 5.0
    # by mean field on seven indicator columns, which are any function of the step
    field = MeanField(np.eye(7), labelled_steps()[0], form, "tilted", group=np.arange(7))
    field.solve(None, Scales(1.0, 1.0), 500, 1e-13)
    diagonal = solved("tilted", "factored", gram=np.eye(7), tied=True)
    assert_allclose(field.value, diagonal.value, atol=1e-8)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("inducing", [None, 4])
def test_gradients_by_hyper_parameters(joint, inducing):
    options = {} if inducing is None else {"inducing": rows()[:inducing]}
    found = full_covariance(
        joint, kernels=[RBF(0.8) + WhiteKernel(0.1)] if inducing is None else [RBF(0.8)], **options
    )
    by_scale, by_theta = found.gradient()
    h = 1e-4

    def value(theta, log_scales):
        kernel = found.kernels[0].clone_with_theta(theta)
        scales = Scales(*np.exp(log_scales))
        return full_covariance(joint, kernels=[kernel], scales=scales, **options).value

    theta = found.kernels[0].theta
    numeric = [
        (value(theta + step, [0, 0]) - value(theta - step, [0, 0])) / (2 * h)
        for step in h * np.eye(len(theta))
    ]
    assert_allclose(by_theta, numeric, atol=1e-6)
    numeric = [(value(theta, step) - value(theta, -step)) / (2 * h) for step in h * np.eye(2)]
    assert_allclose(by_scale, numeric, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"inducing": rows()[:4]}], ids=["rows", "inducing"])
def test_couplings_of_a_joint_prior(options):
    """Means and variances are those of normal couplings given the factors, by inverses."""
    scales = Scales(1.7, 0.6)
    found = full_covariance(kernels=[RBF()], scales=scales, **options)
    mean, variance = (part.reshape(-1, N_LABELS) for part in found.couplings())
    prior, contexts = found.point.prior, found.contexts.toarray()
    for j in range(N_LABELS):
        dual, lam = found.point.state.dual[:, j], found.point.state.lam[:, j]
        gram = prior.gram(j) if isinstance(prior, GramPrior) else prior.columns(j) @ prior.columns(j).T
        known = np.linalg.inv(gram + np.diag(1 / lam))
        assert_allclose(mean[:, j], 0.6 * contexts.T @ dual, atol=1e-9)
        expected = 0.6 - 0.36 * np.diag(contexts.T @ known @ contexts)
        assert_allclose(variance[:, j], expected, atol=1e-8)


def test_worked_gradients_by_length_scale():
    for bound, expected in (("jensen", -0.3730654), ("tilted", -0.7891459)):
        _, by_theta = full_covariance(False, bound, [RBF()]).gradient()
        assert_allclose(by_theta, [expected], atol=1e-7)


def test_learning_reaches_a_stationary_point(rng):
    """MacKay's rule and L-BFGS-B agree where the bound has an inner maximum."""
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
    steps = LabelledSteps(y, np.ones(60), sparse.csr_array(np.zeros((60, 0))), 2)
    form = CouplingForm((), 2)
    found = []
    for rule in (mackay, quasi_newton):
        problem = FullCovariance(X, steps, form, "tilted", joint=True, group=np.arange(2))
        _, scales, _ = rule(problem, None, Scales(1.0, 1.0), 500, 1e-12)
        found.append(scales.kernel)
        assert abs(problem.gradient()[0][0]) < 0.05
    assert_allclose(np.log(found[0]), np.log(found[1]), atol=0.1)
    field = MeanField(X, steps, form, "tilted", group=np.arange(2))
    _, scales, _ = quasi_newton(field, None, Scales(1.0, 1.0), 500, 1e-12)
    assert abs(field.gradient()[0][0]) < 1e-2
    start = MeanField(X, steps, form, "tilted", group=np.arange(2))
    start.solve(None, Scales(1.0, 1.0), 500, 1e-12)
    assert field.value > start.value


def test_columns_are_grouped_by_their_values():
    X = np.array([[1.0, 0, 1, 0, 2], [0, 1, 0, 0, 0], [1, 1, 1, 0, 2]])
    for values in (X, sparse.csr_array(X)):
        group = group_columns(values)
        assert group.tolist() == [0, 1, 0, 3, 2]
        merged = merge_columns(values, group)
        merged = merged.toarray() if sparse.issparse(merged) else merged
        assert_allclose(merged, X[:, [0, 1, 4, 3]])
