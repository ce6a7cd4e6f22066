"""The likelihood of hierarchies and segment models: finite differences, layouts, engines, worked numbers."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import numerical_gradient
from scipy import sparse

from sklearn_seqlab.exceptions import InfeasibleSequenceError
from sklearn_seqlab.objectives import (
    Chunk,
    HierarchyLogLikelihood,
    HierarchyShape,
    KnownConfiguration,
    Level,
    assemble_cliques,
    choose_engine,
    make_engine,
)
from sklearn_seqlab.sequences import pack

EDGES = ("start", "end", "initialisation", "transition", "ending")


def shape_of(*levels, persists=False, has_root=False, forbidden=False):
    sizes = [level.n_states for level in levels]
    children = [np.ones((a, b), dtype=bool) for a, b in pairwise(sizes)]
    transitions = [np.ones((a, b, b), dtype=bool) for a, b in pairwise(sizes)]
    if forbidden:
        transitions[-1][:, 0, 0] = False
    return HierarchyShape(tuple(levels), children, transitions, persists, has_root)


SHAPES = {
    "chain": shape_of(Level(1), Level(3, is_step=True, edge_features=("transition",))),
    "three levels": shape_of(
        Level(1), Level(2, duration="geometric", edge_features=EDGES), Level(3, is_step=True)
    ),
    "a root with labels": shape_of(
        Level(2), Level(2, duration="geometric"), Level(2, duration="geometric"), persists=True, has_root=True
    ),
    "segments, gamma": shape_of(
        Level(1),
        Level(2, duration="gamma", max_duration=3, has_tail=True,
              segment_features=("sum", "mean", "any"), edge_features=("start", "end")),
        persists=True,
    ),
    "segments, table": shape_of(
        Level(1), Level(2, duration="table", max_duration=3, has_tail=True), persists=True
    ),
    "explicit middle": shape_of(
        Level(1),
        Level(2, duration="gamma", max_duration=2, has_tail=True, edge_features=EDGES),
        Level(2, is_step=True, edge_features=("transition", "initialisation")),
    ),
    "explicit bottom, forbidden moves": shape_of(
        Level(1),
        Level(2, duration="geometric", edge_features=EDGES),
        Level(2, duration="table", max_duration=6, edge_features=("start",)),
        persists=True,
        forbidden=True,
    ),
    "four levels": shape_of(
        Level(1),
        Level(2, duration="gamma", max_duration=2, has_tail=True),
        Level(2, duration="geometric"),
        Level(2, duration="geometric"),
        persists=True,
    ),
}  # fmt: skip


def inputs(rng, as_sparse=False):
    X = [rng.normal(size=(n, 2)) * (rng.random((n, 2)) < 0.7) for n in (5, 4, 6)]
    return pack([sparse.csr_array(x) for x in X] if as_sparse else X)


def random_labels(shape, batch, rng, partial):
    """Allowed nodes (n_total, n_nodes) and ends (n_levels, n_total) of configurations that have no score."""
    any_coef = {level: np.zeros((2, p.stop - p.start)) for kind, level, p in shape.columns if kind == "any"}
    cliques = assemble_cliques(
        shape,
        np.zeros((batch.n_total, shape.n_columns)),
        any_coef,
        shape.read_tables(np.zeros(shape.n_table)),
        Chunk(batch.values, batch.offsets),
    )
    ((states, ends),) = make_engine(choose_engine(shape, "auto"), cliques, "auto").sample(1, 0)
    rows, ends = np.arange(batch.n_total), ends.astype(np.int8)
    allowed = np.zeros((batch.n_total, shape.n_nodes), dtype=bool)
    for d in range(shape.n_levels):
        allowed[rows, shape.first_node[d] + states[d]] = True
    if partial:  # the first sequence stays as it is
        later = rows >= batch.offsets[1]
        for d in range(shape.n_levels):
            free = later & (rng.random(batch.n_total) < 0.5)
            allowed[np.ix_(free, np.arange(*shape.first_node[d : d + 2]))] = True
        ends[(rng.random(ends.shape) < 0.6) & later] = -1
    return allowed, ends


def objective_of(shape, batch, rng, partial, engine="auto", **options):
    allowed, ends = random_labels(shape, batch, rng, partial)
    complete = np.array([True, not partial, not partial])
    known = KnownConfiguration(lambda a, b: (allowed[a:b], ends[:, a:b]), complete)
    engine = choose_engine(shape, engine)
    return HierarchyLogLikelihood(
        batch, known, shape, weight=np.array([1.0, 2.0, 0.5]), C=1.3, engine=engine, **options
    )


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_gradient_is_that_of_the_value(name, partial, as_sparse, rng):
    objective = objective_of(SHAPES[name], inputs(rng, as_sparse), rng, partial)
    coef = 0.5 * rng.normal(size=objective.n_coef)
    value, gradient = objective.value_and_gradient(coef)
    assert value > 0
    numeric = numerical_gradient(lambda w: objective.value_and_gradient(w)[0], coef, step=1e-5)
    assert_allclose(gradient, numeric, atol=1e-7)


@pytest.mark.parametrize("name", SHAPES)
def test_split_and_blocks_have_inverses(name, rng):
    shape = SHAPES[name]
    objective = objective_of(shape, inputs(rng), rng, False)
    coef = rng.normal(size=objective.n_coef)
    node, tables = objective.split(coef)
    assert_allclose(objective.join(node, tables), coef, rtol=0)
    blocks = shape.blocks(node, tables)
    assert_allclose(objective.join(*shape.unblock(blocks, 2)), coef, rtol=0)
    named = [block for levels in blocks.values() for block in levels if block is not None]
    assert sum(np.isfinite(block).sum() for block in named) == len(coef)
    with pytest.raises(ValueError, match=r"coef_ has no block|has shape"):
        shape.unblock({**blocks, "transition": [np.zeros((1, 1, 1))] * 4}, 2)


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_sequences_sum_to_the_whole(name, partial, rng):
    objective = objective_of(SHAPES[name], inputs(rng), rng, partial)
    coef = 0.5 * rng.normal(size=objective.n_coef)
    value, gradient = objective.value_and_gradient(coef)
    parts = [objective.sequence_value_and_gradient(coef, np.array(s)) for s in ([1], [2, 0])]
    penalised = np.where(objective.penalty.penalised, coef, 0.0)
    assert_allclose(sum(part[0] for part in parts) + 0.5 * penalised @ penalised, value, rtol=1e-10)
    assert_allclose(sum(part[1] for part in parts) + penalised, gradient, atol=1e-9)


@pytest.mark.parametrize("numerics", ["scaled", "log"])
@pytest.mark.parametrize("name", SHAPES)
def test_modes_and_engines_agree(name, numerics, rng):
    shape, batch, state = SHAPES[name], inputs(rng), rng.bit_generator.state
    objective = objective_of(shape, batch, rng, True)
    coef = 0.5 * rng.normal(size=objective.n_coef)
    value, gradient = objective.value_and_gradient(coef)
    for engine in ("auto", "aio"):
        rng.bit_generator.state = state
        other = objective_of(shape, batch, rng, True, engine, numerics=numerics, n_jobs=2)
        found_value, found_gradient = other.value_and_gradient(coef)
        assert_allclose(found_value, value, rtol=1e-10)
        assert_allclose(found_gradient, gradient, atol=1e-9)


def test_labels_that_fit_nothing_are_named(rng):
    shape, batch = SHAPES["segments, table"], inputs(rng)
    allowed, ends = random_labels(shape, batch, rng, False)
    allowed[6] = False
    known = KnownConfiguration(lambda a, b: (allowed[a:b], ends[:, a:b]), np.ones(3, dtype=bool))
    with pytest.raises(
        InfeasibleSequenceError, match=r"labels of y\[7\] fit no segmentation: .* time step [01]\."
    ):
        HierarchyLogLikelihood(
            batch, known, shape, weight=np.ones(3), engine="mixed", numbers=np.array([3, 7, 5])
        )


# Order and shapes of the worked model's weights, and their blocks: (name, level below the root, shape)
WORKED_BLOCKS = [
    ("unary", 0, (2, 2)), ("mean", 0, (2, 2)), ("duration", 0, (2, 2)), ("transition", 0, (1, 2, 2)),
    ("edge_transition", 0, (2, 2)), ("initialisation", 0, (1, 2)), ("edge_initialisation", 0, (2, 2)),
    ("ending", 0, (1, 2)), ("edge_ending", 0, (2, 2)), ("unary", 1, (3, 2)), ("transition", 1, (2, 3, 3)),
    ("edge_transition", 1, (3, 2)), ("initialisation", 1, (2, 3)), ("edge_initialisation", 1, (3, 2)),
    ("ending", 1, (2, 3)), ("edge_ending", 1, (3, 2)),
]  # fmt: skip
WORKED = {
    "full": (-11.958881180516, 6.7210969816, -2.3537230113, {
        ("unary", 0): [1.8615194941, -1.8779712263, -1.8435318865, 1.9207628446],
        ("mean", 0): [0.6979350713, -0.7137635990, -1.0280696822, 1.0095376732],
        ("duration", 0): [-0.0911339407, 0.8120708594, 0.1274021233, 0.2484676998],
        ("transition", 0): [-1.4181531918, 0.4595252105, -0.5653627729, -0.2480613363],
        ("ending", 1): [-1.1810987796, 0.0693301381, -0.5865846382, 0.7630437839, -0.2822909250, -0.5754160570],
    }),
    "partial": (-2.833292093274, 4.9330092738, 0.2306576668, {
        ("unary", 0): [1.5130848789, -1.5451586515, -1.4950972713, 1.5879502698],
        ("mean", 0): [1.1885191526, -1.2735164429, -1.1464417512, 1.1246546824],
        ("duration", 0): [0.1399008001, 0.0977264707, -0.1036326176, -0.1287085996],
        ("transition", 0): [0.1488364196, 0.5329467887, -0.4919411947, -0.0083672787],
        ("ending", 1): [0.1147607764, 0.0382137469, -0.2109166132, -0.0652968421, -0.0410044607, 0.3247537406],
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKED)
def test_worked_numbers(name):
    value, norm, total, parts = WORKED[name]
    edges = ("initialisation", "transition", "ending")
    middle = Level(2, duration="gamma", segment_features=("sum", "mean"), edge_features=edges)
    shape = shape_of(Level(1), middle, Level(3, is_step=True, edge_features=edges))
    batch = pack([np.sin(1 + np.arange(5)[:, None] + 3 * np.arange(2))])
    weights, blocks = iter(0.4 * np.cos(1 + np.arange(86))), {}
    for block, level, size in WORKED_BLOCKS:
        values = [next(weights) for _ in range(np.prod(size))]
        blocks.setdefault(block, [None, None])[level] = np.reshape(values, size)
    # the weight of n is the bias of a step here
    blocks["bias"], blocks["duration"][0] = [blocks["duration"][0][:, 0], None], blocks["duration"][0][:, 1:]
    blocks["segment_bias"] = [np.zeros(2), None]
    ends = np.array([[0, 0, 0, 0, 1], [0, 0, 1, 0, 1], [1] * 5], dtype=np.int8)
    allowed = np.zeros((5, 6), dtype=bool)
    allowed[:, 0] = True
    allowed[np.arange(5), 1 + np.array([0, 0, 0, 1, 1])] = True
    allowed[np.arange(5), 3 + np.array([0, 1, 1, 2, 0])] = True
    if name == "partial":
        allowed[2:4, 1:3] = allowed[:, 3:] = True
        ends[1:, [0, 1, 3, 4]] = ends[2] = -1
    known = KnownConfiguration(lambda a, b: (allowed[a:b], ends[:, a:b]), np.array([name == "full"]))
    # the worked objective is the log-likelihood less 0.05 times the squared norm, ours minus ten times that
    objective = HierarchyLogLikelihood(batch, known, shape, weight=np.ones(1), C=10.0, engine="mixed")
    coef = objective.join(*shape.unblock(blocks, 2))
    assert len(coef) == 86 + 2
    found, gradient = objective.value_and_gradient(coef)
    # the worked model has no bias of a segment, and its penalty leaves nothing out
    free = objective.join(*shape.unblock(blocks | {"segment_bias": [np.ones(2), None]}, 2)) != coef
    unpenalised = np.where(objective.penalty.penalised, 0.0, coef)
    found, gradient = found + 0.5 * unpenalised @ unpenalised, np.where(free, 0.0, gradient + unpenalised)
    assert_allclose(found, -10 * value, atol=1e-8)
    assert_allclose(np.linalg.norm(gradient), 10 * norm, atol=1e-8)
    assert_allclose(gradient.sum(), -10 * total, atol=1e-8)
    by_block = shape.blocks(*objective.split(gradient))
    by_block["duration"][0] = np.column_stack([by_block["bias"][0], by_block["duration"][0]])
    for (block, level), expected in parts.items():
        assert_allclose(by_block[block][level].ravel(), -10 * np.array(expected), atol=1e-8)
