"""The house and its rules, read from the source: who may import whom, and what lives where."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import sklearn_seqlab

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sklearn_seqlab"

# The picture of the house, from the ground up. A module imports from stages before its own and from its own
# room; "models" are rooms side by side, which know nothing of each other's private modules.
GROUND = {"exceptions", "_version", "_sklearn_private", "_progress", "_parallel", "_arguments", "_clauses"}
MODELS = {"stepwise", "crf", "hierarchical", "hkl", "svm", "gaussian_process", "hmm"}
STAGES = [
    GROUND,
    {"sequences"},  # lists in, packed batch out
    {"_conjunctions"},  # rules over binary inputs
    {"inference"},  # scores in, sums and best paths out
    {"objectives"},  # coefficients -> scores -> value and gradient
    {"solvers"},  # minimise an objective
    {"metrics"},  # scores over lists of label sequences
    {"base"},  # what every estimator is
    # streams, step by step and part by part; draws and probabilities by level; rules as text
    {"_online_labeler", "_chain_stream", "_level_labeler", "_conjunction_rules"},
    {"_chain_labeler", "_hierarchy_labeler"},  # what every estimator over chains, over segments predicts
    {"_hierarchy_fit"},  # how those over segments learn
    MODELS,
    {"preprocessing"},
    {"feature_extraction"},
    {"model_selection"},
    {"datasets"},
    {"inspection"},
    {"utils"},
    {"__init__"},
]
# Tools around the estimators need no estimator: they see sequences and each other.
TOOLS = {"preprocessing", "feature_extraction", "model_selection"}
SEEN_BY_TOOLS = GROUND | {"sequences", "metrics"} | TOOLS

MODULES = sorted(PACKAGE.rglob("*.py"))
KERNELS = sorted([*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd")])


def stage_of(room):
    for number, rooms in enumerate(STAGES):
        if room in rooms:
            return number
    raise AssertionError(f"{room} is in no stage: draw it into the picture of the house in {__file__}.")


def room_of(path, package=PACKAGE):
    """The folder or file directly under the package."""
    first = path.relative_to(package).parts[0]
    return first.removesuffix(".py").removesuffix(".pyx").removesuffix(".pxd")


def imports_of(source):
    """Every ``(module, name)`` that Python source imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            yield from ((node.module, alias.name) for alias in node.names)


def own_imports(source):
    """``(room, module path below the package)`` of every import from this library."""
    for module, name in imports_of(source):
        if module == "sklearn_seqlab":
            is_room = name is not None and any(name in rooms for rooms in STAGES)
            yield (name, name) if is_room else ("__init__", "__init__")
        elif module.startswith("sklearn_seqlab."):
            inner = module.removeprefix("sklearn_seqlab.")
            yield inner.split(".")[0], inner


def import_faults(room, source):
    """What is wrong with the imports of a module that lives in ``room``."""
    for other, module in own_imports(source):
        if other == room:
            continue
        if stage_of(other) > stage_of(room):
            yield f"{room} imports {module}, which is of a later stage"
        if room in MODELS and other in MODELS and "._" in module:
            yield f"{room} imports {module}, which is private to another model"
        if room in TOOLS and other not in SEEN_BY_TOOLS:
            yield f"{room} imports {module}, but tools see sequences and each other only"


def private_sklearn_imports(source):
    """Imports of what scikit-learn does not promise to keep."""
    for module, name in imports_of(source):
        if module.split(".")[0] == "sklearn":
            path = module if name is None else f"{module}.{name}"
            if any(part.startswith("_") for part in path.split(".")):
                yield path


def recursions_over_time(source):
    """Loops ``for t in range(...)`` in which an array is written at one step and read at its neighbour.

    A heuristic on the text, for Python and Cython alike: within the indented block some array is indexed
    both by ``t`` and by ``t - 1`` or ``t + 1``, and assigned to in one of the two ways.
    """
    lines = [line.split("#")[0].rstrip() for line in source.splitlines()]
    for number, line in enumerate(lines):
        loop = re.match(r"(\s*)for (\w+) in (?:range|reversed\(range)\(", line)
        if not loop or loop[2] == "s":  # s counts sequences and segments, time is called t
            continue
        indent, step = len(loop[1]), loop[2]
        block = []
        for inner in lines[number + 1 :]:
            if inner and len(inner) - len(inner.lstrip()) <= indent:
                break
            block.append(inner)
        text = "\n".join(block)
        shifted = rf"\b(\w+)\[(?:[^\]]*\W)?{step} *[-+] *1\b[^\]]*\]"
        plain = rf"\b(\w+)\[(?:[^\]:]*[^\w\]:])?{step}(?! *[-+]|\w)[^\]]*\]"
        assignment = r" *(?:[-+*/]|//)?=(?!=)"
        at_step, at_neighbour, writes = (
            set(re.findall(f"(?={pattern})", text))  # ahead, so that nested brackets count too
            for pattern in (plain, shifted, f"(?:{shifted}|{plain}){assignment}")
        )
        writes = {name for pair in writes for name in pair}
        for name in sorted(at_step & at_neighbour & writes):
            yield f"line {number + 1}: {name} over {step}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_from_earlier_stages(path):
    assert not list(import_faults(room_of(path), path.read_text()))


def test_wrong_imports_are_seen():
    late = "def f():\n    from sklearn_seqlab.crf import LinearChainCRF\n"
    assert list(import_faults("inference", late)) == ["inference imports crf, which is of a later stage"]
    assert list(import_faults("solvers", "from sklearn_seqlab import base"))
    assert list(import_faults("crf", "from sklearn_seqlab import LinearChainCRF"))
    assert list(import_faults("crf", "from sklearn_seqlab.svm._cutting import cut"))
    assert list(import_faults("preprocessing", "import sklearn_seqlab.base"))
    assert not list(import_faults("crf", "from sklearn_seqlab.svm import StructuredSVM"))
    assert not list(import_faults("crf", "from sklearn_seqlab import _parallel"))
    with pytest.raises(AssertionError, match="attic is in no stage"):
        list(import_faults("crf", "from sklearn_seqlab.attic import old"))


def test_one_file_imports_private_names_of_scikit_learn():
    found = {path.name for path in MODULES if list(private_sklearn_imports(path.read_text()))}
    assert found == {"_sklearn_private.py"}
    assert list(private_sklearn_imports("from sklearn.base import _fit_context, clone")) == [
        "sklearn.base._fit_context"
    ]
    assert list(private_sklearn_imports("from sklearn.utils._param_validation import Interval"))


def declared_kernels():
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return metadata["tool"]["setuptools"]["ext-modules"]


def test_every_kernel_is_declared():
    declared = declared_kernels()
    sources = sorted(source for module in declared for source in module["sources"])
    assert sources == sorted(str(p.relative_to(ROOT).as_posix()) for p in PACKAGE.rglob("*.pyx"))
    for module in declared:
        assert module["sources"] == [module["name"].replace(".", "/") + ".pyx"]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_kernel_headers(path):
    header = [line for line in path.read_text().splitlines()[:5] if line.startswith("# cython:")]
    if path.suffix == ".pyx":
        assert "freethreading_compatible=True" in " ".join(header)
        assert "language_level=3" in " ".join(header)
    text = path.read_text()
    assert not re.search(r"cimport numpy|cython_blas", text), "a kernel needs no headers of others"


@pytest.mark.parametrize(
    "path",
    [path for path in [*MODULES, *KERNELS] if room_of(path) != "inference"],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_recursions_over_time_live_in_inference(path):
    assert not list(recursions_over_time(path.read_text()))


PLANTED = {
    "forward.py": "for t in range(1, n):\n    alpha[t] = score[t] + lse(alpha[t - 1] + moves)\n",
    "pushed.py": "for t in range(n - 1):\n    alpha[t + 1] += alpha[t] @ moves\n",
    "backward.py": "for t in reversed(range(n - 1)):\n\n    beta[t, :] = moves @ beta[t+1, :]\nprint(beta)\n",
    "kernel.pyx": (
        "    for s in range(n_sequences):\n        for t in range(offsets[s] + 1, offsets[s + 1]):\n"
        "            for j in range(L):\n                best[t, j] = row[j] + best[t - 1, i]\n"
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_recursions_are_seen(tmp_path, name):
    (tmp_path / name).write_text(PLANTED[name])
    assert list(recursions_over_time((tmp_path / name).read_text()))


@pytest.mark.parametrize(
    "source",
    [
        "for t in range(n):\n    score[t] = rows[t] @ coef\n",
        "for s in range(n):\n    parts[s] = rows[offsets[s] : offsets[s + 1]]\n",
        "for t in range(1, n):\n    counts[codes[t - 1], codes[t]] += 1\n",
        "for t in range(n):\n    a[t] = 0\nb[t] = b[t - 1]\n",
    ],
)
def test_other_loops_are_left_alone(source):
    assert not list(recursions_over_time(source))


def test_inference_does_hold_recursions():
    kernels = [path for path in KERNELS if room_of(path) == "inference"]
    assert sum(bool(list(recursions_over_time(path.read_text()))) for path in kernels) >= 3


def public_modules():
    for path in MODULES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if not any(part.startswith("_") and part != "__init__" for part in parts):
            yield ".".join(part for part in parts if part != "__init__")


@pytest.mark.parametrize("name", list(public_modules()))
def test_public_modules_say_what_is_public(name):
    module = importlib.import_module(name)
    assert module.__doc__
    missing = [public for public in module.__all__ if not hasattr(module, public)]
    assert not missing and list(module.__all__) == sorted(set(module.__all__), key=list(module.__all__).index)


def test_names_in_all_are_documented():
    for name in sklearn_seqlab.__all__:
        public = getattr(sklearn_seqlab, name)
        assert not callable(public) or public.__doc__
