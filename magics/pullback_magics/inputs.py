"""What goes into a cell's program: arrays are traced, the rest is constant; and what changed.

Builds on cells.py and captured.py. Tested in tests/magics/test_jit.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray, typeof
from pullback_magics.captured import Snapshot, captured_names
from pullback_magics.cells import Cell
from pullback_magics.targets import has_arrays, is_array, path_text


@dataclass(frozen=True, slots=True)
class Inputs:
    """The values that a cell reads, split into what is traced and what is constant.

    Attributes:
        names: of the inputs, each an array or a container with one.
        leaves: the arrays among the inputs' leaves.
        spec: per input its tree, and per leaf the aval or the constant's text.
        constants: names that are bound in the cell and read before: given as they are.
        watched: constant names with who reads them.
    """

    names: tuple[str, ...]
    leaves: tuple[Any, ...]
    trees: tuple[Any, ...]
    fixed: tuple[tuple[int, Any], ...]
    avals: tuple[ShapedArray, ...]
    constants: tuple[str, ...]
    watched: dict[str, str]

    def rebuild(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """The inputs by name, with these leaves for the arrays."""
        fixed = dict(self.fixed)
        given = iter(leaves)
        total = len(self.leaves) + len(self.fixed)
        every = [fixed[i] if i in fixed else next(given) for i in range(total)]
        out = {}
        at = 0
        for name, tree in zip(self.names, self.trees, strict=True):
            out[name] = pytree.tree_unflatten(tree, every[at : at + tree.num_leaves])
            at += tree.num_leaves
        return out

    def leaf_names(self) -> list[str]:
        """A name for each traced leaf."""
        fixed = dict(self.fixed)
        names = []
        index = 0
        for name, tree in zip(self.names, self.trees, strict=True):
            marks = pytree.tree_unflatten(tree, range(index, index + tree.num_leaves))
            for path, position in pytree.tree_flatten_with_path(marks)[0]:
                if position not in fixed:
                    names.append(f"{name}{path_text(path)}")
            index += tree.num_leaves
        return names


def gather_inputs(cell: Cell, namespace: dict[str, Any], static: Sequence[str]) -> Inputs:
    """Sort what a cell reads.

    Args:
        cell: the cell.
        namespace: the user's names.
        static: names to keep constant even if they hold arrays.
    """
    names, constants, plain = [], [], []
    for name in cell.reads:
        if name not in namespace:
            continue  # a builtin, or a NameError when it runs
        if name not in static and has_arrays(namespace[name]):
            names.append(name)
        elif name in cell.binds:
            constants.append(name)
        else:
            plain.append(name)
    leaves, trees, avals = [], [], []
    fixed: list[tuple[int, Any]] = []
    for name in names:
        flat, tree = pytree.tree_flatten(namespace[name])
        trees.append(tree)
        for leaf in flat:
            if is_array(leaf):
                leaves.append(leaf)
                avals.append(typeof(leaf))
            else:
                fixed.append((len(leaves) + len(fixed), leaf))
    watched = dict.fromkeys([*constants, *plain], "the cell")
    functions = [namespace[n] for n in plain]
    for name, reader in captured_names(functions, namespace).items():
        watched.setdefault(name, reader)
    return Inputs(
        tuple(names),
        tuple(leaves),
        tuple(trees),
        tuple(fixed),
        tuple(avals),
        tuple(constants),
        watched,
    )


def signature(inputs: Inputs) -> tuple[Any, ...]:
    """Names, structures and types of the inputs, and the constants among their leaves."""
    fixed = tuple((i, type(v), repr(v)) for i, v in inputs.fixed)
    return inputs.names, inputs.trees, inputs.avals, fixed


def donated_numbers(inputs: Inputs, donate: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the leaves of donated inputs."""
    return tuple(
        i
        for i, name in enumerate(inputs.leaf_names())
        if any(name == d or name.startswith((f"{d}[", f"{d}.")) for d in donate)
    )


def why(old: Inputs, new: Inputs, taken: Snapshot, changed: list[tuple[str, str]]) -> str:
    """Why a version does not serve, in words."""
    for name, text in changed:
        reader = taken.readers.get(name, "the cell")
        return text + ("" if reader == "the cell" else f" (read by {reader})")
    for name in new.names:
        if name not in old.names:
            return f"{name} is an array now"
    for name in old.names:
        if name not in new.names:
            return f"{name} is no array any more"
    for name, before, now in zip(new.names, old.trees, new.trees, strict=True):
        if before != now:
            return f"the structure of {name} changed"
    for name, before, now in zip(new.leaf_names(), old.avals, new.avals, strict=True):
        if before != now:
            weak = " (weak type)" if before.str_short() == now.str_short() else ""
            return f"{name} was {before.str_short()}, now {now.str_short()}{weak}"
    return "a number inside an input changed"
