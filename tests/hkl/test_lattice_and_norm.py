"""The lattice over observed rows, sums over it, and the hierarchical norm and its dual, by enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_seqlab.hkl._atoms import atom_truth, chains_of, threshold_atoms
from sklearn_seqlab.hkl._lattice import Lattice, distinct_rows
from sklearn_seqlab.hkl._norm import HierarchicalNorm
from sklearn_seqlab.sequences import pack


def random_rows(rng, n_rows=6, n_atoms=5):
    return distinct_rows(rng.uniform(size=(n_rows, n_atoms)) < 0.6)[0]


def no_chains(n_atoms):
    return np.full(n_atoms, -1)


def subsets_of_rows(rows, needed, max_order):
    found = set()
    for row in rows:
        on = np.flatnonzero(row)
        for size in range(max_order + 1):
            for subset in combinations(on.tolist(), size):
                if all(needed[atom] < 0 or needed[atom] in subset for atom in subset):
                    found.add(subset)
    return found


@pytest.mark.parametrize("max_order", [None, 2])
@pytest.mark.parametrize("n_atoms", [5, 70])
def test_nodes_are_the_subsets_of_rows(max_order, n_atoms, rng):
    rows = np.zeros((6, n_atoms), dtype=bool)
    rows[:, [0, 1, 2, n_atoms - 2, n_atoms - 1]] = rng.uniform(size=(6, 5)) < 0.6
    rows = distinct_rows(rows)[0]
    lattice = Lattice(rows, no_chains(n_atoms), max_order, 10**6)
    expected = subsets_of_rows(rows, no_chains(n_atoms), max_order or 5)
    found = lattice.nodes.conjunctions()
    assert set(found) == expected and len(found) == len(expected)
    assert lattice.n_pairs == lattice.nodes.holds.nnz
    for u, conjunction in enumerate(found):
        holds = rows[:, list(conjunction)].all(axis=1)
        assert_array_equal(lattice.nodes.holds[[u]].toarray()[0], holds)
    assert (lattice.nodes.find(lattice.nodes) == np.arange(len(found))).all()


def test_thresholds_are_chains(rng):
    batch = pack([rng.normal(size=(12, 2))])
    atoms = threshold_atoms(batch, 3, negations=True)
    needed = chains_of(atoms)
    truth = atom_truth(batch.values, atoms)
    for atom in np.flatnonzero(needed >= 0):
        assert (truth[:, needed[atom]] | ~truth[:, atom]).all()
    assert (needed < 0).sum() == 4  # two columns, above and not above
    rows, _ = distinct_rows(truth)
    lattice = Lattice(rows, needed, None, 10**6)
    expected = subsets_of_rows(rows, needed, len(atoms))
    assert set(lattice.nodes.conjunctions()) == expected
    assert lattice.n_pairs == sum(len(subsets_of_rows(row[None], needed, 20)) for row in rows)
    capped = Lattice(rows, needed, 3, 10**6)
    assert set(capped.nodes.conjunctions()) == subsets_of_rows(rows, needed, 3)
    assert capped.n_pairs == sum(len(subsets_of_rows(row[None], needed, 3)) for row in rows)


def cases(rng):
    rows = random_rows(rng)
    yield Lattice(rows, no_chains(5), None, 10**6).nodes
    batch = pack([rng.normal(size=(9, 2))])
    atoms = threshold_atoms(batch, 3, negations=False)
    rows = distinct_rows(atom_truth(batch.values, atoms))[0]
    yield Lattice(rows, chains_of(atoms), None, 10**6).nodes


def test_sums_over_the_lattice(rng):
    for nodes in cases(rng):
        sets = [set(c) for c in nodes.conjunctions()]
        contains = np.array([[b <= a for b in sets] for a in sets], dtype=float)  # a contains b
        values = rng.normal(size=(len(sets), 3))
        assert_allclose(nodes.sum_above(values.copy()), contains.T @ values, atol=1e-12)
        assert_allclose(nodes.sum_below(values.copy()), contains @ values, atol=1e-12)
        sizes = np.array([len(s) for s in sets])
        parents = (contains * (sizes[:, None] - sizes == 1)).sum(axis=1)
        assert_array_equal(nodes.n_parents, parents)


def norm_by_definition(nodes, f, rho, beta):
    sets = [set(c) for c in nodes.conjunctions()]
    total = 0.0
    for below in sets:
        above = [w for w, other in enumerate(sets) if below <= other]
        total += beta ** len(below) * (np.abs(f[above]) ** rho).sum(axis=0) ** (1 / rho)
    return total.sum()


@pytest.mark.parametrize("rho", [1.1, 1.5, 2.0])
@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_the_norm_and_its_majoriser(rho, beta, rng):
    for nodes in cases(rng):
        active = np.ones((nodes.n_nodes, 2), dtype=bool)
        norm = HierarchicalNorm(nodes, active, rho, beta)
        f = rng.normal(size=active.shape)
        assert_allclose(norm.value(f), norm_by_definition(nodes, f, rho, beta), rtol=1e-12)
        delta = norm.spread(f)
        assert_allclose((f**2 / delta).sum(), norm.value(f) ** 2, rtol=1e-10)
        for other in rng.normal(size=(20, *f.shape)):
            assert (other**2 / delta).sum() >= norm.value(other) ** 2 * (1 - 1e-12)


@pytest.mark.parametrize("rho", [1.2, 1.5, 2.0])
def test_the_dual_norm_is_bracketed(rho, rng):
    for nodes in cases(rng):
        active = np.ones((nodes.n_nodes, 2), dtype=bool)
        norm = HierarchicalNorm(nodes, active, rho, 0.7)
        z = rng.normal(size=active.shape)
        lower, upper, eta, gains = norm.dual_squared(z, active / active.sum(), 1e-7, max_iter=3000)
        assert 0 < lower <= upper <= lower * (1 + 1e-4)
        assert gains.max() == 1 and abs(eta.sum() - 1) < 1e-12
        for f in rng.normal(size=(30, *z.shape)):  # no direction does better
            assert (z * f).sum() <= np.sqrt(upper) * norm.value(f) * (1 + 1e-9)

        # and the weights of these shares do as well
        zeta = nodes.sum_below(norm.price**rho * eta ** (1 - rho)) ** (1 / (1 - rho))
        f = zeta * np.sign(z) * np.abs(z) ** (norm.dual_rho - 1)
        assert (z * f).sum() >= np.sqrt(lower) * norm.value(f) * (1 - 1e-4)
        few = norm.dual_squared(z, active / active.sum(), 1e-9, max_iter=2)
        assert few[0] <= upper * (1 + 1e-12) and few[1] >= lower * (1 - 1e-12)


def test_gains_are_the_slopes_of_the_weighted_norm(rng):
    rho = 1.5
    nodes = next(cases(rng))
    active = np.ones((nodes.n_nodes, 2), dtype=bool)
    norm = HierarchicalNorm(nodes, active, rho, 2.0)
    z, eta = rng.normal(size=active.shape), rng.uniform(0.5, 1.5, size=active.shape)

    def value(eta):
        curve = nodes.sum_below(norm.price**rho * eta ** (1 - rho))
        return (curve ** (1 / (1 - rho)) * np.abs(z) ** 3.0).sum()

    gains, scale = norm.gains(z, eta)
    gains *= np.exp(scale)
    for u, c in product(range(0, nodes.n_nodes, 4), range(2)):
        up, down = eta.copy(), eta.copy()
        up[u, c] += 1e-5
        down[u, c] -= 1e-5
        assert_allclose((value(up) - value(down)) / 2e-5, gains[u, c], rtol=1e-6, atol=1e-8 * gains.max())
