"""Rules of the source tree that no type checker sees: which way imports go, where they stand, sizes.

Read from the syntax trees of all source files; nothing is imported.
"""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "kernel").rglob("*.py"), *(ROOT / "magics").rglob("*.py")])

# Each layer may import from those to its left, and its own.
LAYERS = ("core", "xla", "lax", "api", "library", "views", "ipython", "pullback_magics")
LIBRARIES_ON_TOP = "library"
NOTEBOOK_PACKAGES = frozenset(
    {"IPython", "ipykernel", "ipywidgets", "anywidget", "matplotlib", "graphviz", "pygraphviz",
     "traitlets", "jupyter_client", "comm", "zmq"}
)  # fmt: skip
# The core has no layer below it; its pytrees are jaxlib's C++ registry, bound in this one file.
JAXLIB_OUTSIDE_XLA = frozenset({"pullback.core.pytree_nodes"})
NOTEBOOK_LAYERS = frozenset({"views", "ipython", "pullback_magics"})

# The heavy modules that a function may import when it is first called, because start-up would pay.
HEAVY = ("jaxlib", "pygraphviz", "graphviz", "matplotlib", "scipy", "IPython", "ipywidgets")

MAX_LINES, MAX_TABLE_LINES, MAX_MAGIC_LINES = 500, 600, 250


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    """The dotted module name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str | None:
    """The layer of one of our modules; None for the index and for other packages."""
    first, _, rest = module.partition(".")
    if first == "pullback_magics":
        return first
    if first != "pullback" or not rest:
        return None
    part = rest.split(".")[0]
    if part == "__main__":
        return "ipython"
    if part == "magics":
        return "pullback_magics"
    return part if part in LAYERS else LIBRARIES_ON_TOP


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        base = node.module or ""
        if base == "pullback":
            return [f"pullback.{alias.name}" for alias in node.names]
        return [base]
    return []


def all_imports(path: Path) -> list[tuple[int, str]]:
    return [(node.lineno, name) for node in ast.walk(tree(path)) for name in imported(node)]


def place(path: Path, line: int, name: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {name}"


def test_imports_go_one_way():
    wrong = []
    for path in SOURCES:
        own = layer_of(name_of(path))
        if own is None:
            continue
        for line, name in all_imports(path):
            other = layer_of(name)
            if other is not None and LAYERS.index(other) > LAYERS.index(own):
                wrong.append(place(path, line, f"{own} imports {name}"))
    assert not wrong, "\n".join(wrong)


def test_jaxlib_is_imported_in_xla_only():
    wrong = [
        place(path, line, name)
        for path in SOURCES
        if layer_of(name_of(path)) != "xla" and name_of(path) not in JAXLIB_OUTSIDE_XLA
        for line, name in all_imports(path)
        if name.split(".")[0] == "jaxlib"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_real_jax_is_imported_nowhere():
    wrong = [
        place(path, line, name)
        for path in SOURCES
        for line, name in all_imports(path)
        if name.split(".")[0] == "jax"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_engine_does_without_notebook_packages():
    wrong = [
        place(path, line, name)
        for path in SOURCES
        if layer_of(name_of(path)) not in NOTEBOOK_LAYERS
        for line, name in all_imports(path)
        if name.split(".")[0] in NOTEBOOK_PACKAGES
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_stands_in_a_function_but_those_of_heavy_modules():
    wrong = []
    for path in SOURCES:
        for function in ast.walk(tree(path)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            for node in ast.walk(function):
                wrong += [
                    place(path, node.lineno, name)
                    for name in imported(node)
                    if name.split(".")[0] not in HEAVY
                ]
    assert not wrong, "\n".join(sorted(set(wrong)))


def n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def limit(path: Path) -> int:
    layer = layer_of(name_of(path))
    if layer == "pullback_magics":
        return MAX_MAGIC_LINES
    return MAX_TABLE_LINES if layer == LIBRARIES_ON_TOP else MAX_LINES


def test_files_stay_short():
    long = [f"{n_lines(p)} > {limit(p)}: {p.relative_to(ROOT)}" for p in SOURCES
            if n_lines(p) > limit(p)]  # fmt: skip
    assert not long, "\n".join(long)


def test_every_module_says_which_question_it_answers():
    bare = [str(p.relative_to(ROOT)) for p in SOURCES if not ast.get_docstring(tree(p))]
    assert not bare, "\n".join(bare)


def test_source_roots_are_no_packages():
    assert not (ROOT / "kernel" / "__init__.py").exists()
    assert not (ROOT / "magics" / "__init__.py").exists()


def test_the_repository_names_no_machine_path():
    try:
        listed = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    forbidden = tuple(f"/{name}/" for name in ("work", "root", "farm"))
    wrong = []
    for name in listed:
        path = ROOT / name
        if path.suffix in (".png", ".npz") or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for text in forbidden:
                at = line.find(text)
                if at >= 0 and not (line[at - 1 : at].isalnum() or line[at - 1 : at] in "_.-/"):
                    wrong.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not wrong, "\n".join(wrong)
