"""What goes into a cell's program: arrays are traced, the rest is constant; and what changed.

Builds on cells.py and captured.py. Tested in tests/magics/test_jit.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.xla.arguments import first_device, placement
from pullback.xla.array import Array
from pullback_magics.captured import Snapshot, captured_names, difference
from pullback_magics.cells import Cell
from pullback_magics.targets import has_arrays, has_leaves, is_array, path_text
from pullback_magics.tokens import Token, token


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The values that a cell reads, split into what is traced and what is constant.

    Attributes:
        names: of the inputs: arrays, containers with one, and dicts and lists, which may change.
        leaves: the arrays among the inputs' leaves.
        trees: the structure of each input.
        fixed: the other leaves, each with its number among all leaves.
        avals: of the arrays.
        constants: names that the cell binds or deletes, and reads before: given as they are.
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
        total = len(self.avals) + len(self.fixed)
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
        return [name for i, name in enumerate(self.all_leaf_names()) if i not in fixed]

    def all_leaf_names(self) -> list[str]:
        """A name for each leaf, traced or fixed."""
        names = []
        for name, tree in zip(self.names, self.trees, strict=True):
            marks = pytree.tree_unflatten(tree, range(tree.num_leaves))
            names += [f"{name}{path_text(p)}" for p, _ in pytree.tree_flatten_with_path(marks)[0]]
        return names

    def committed_device(self) -> Any:
        """The device that an input has been put on; None if they may be anywhere."""
        placed, committed = placement([x._buf for x in self.leaves if isinstance(x, Array)])
        return first_device(placed) if committed else None

    def without_values(self) -> Inputs:
        """The same with no arrays, which would be kept alive."""
        return replace(self, leaves=())


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
        value = namespace[name]
        if name not in static and (
            has_arrays(value) or (type(value) in (dict, list) and has_leaves(value))
        ):
            names.append(name)
        elif name in cell.binds or name in cell.deletes:
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
    fixed = tuple((i, token(v).key) for i, v in inputs.fixed)
    return inputs.names, inputs.trees, inputs.avals, fixed, inputs.committed_device()


def mutated(inputs: Inputs, given: dict[str, Any], leaves: Sequence[Any]) -> list[str]:
    """Names of inputs whose containers were changed in place while the cell was traced.

    Args:
        given: the inputs by name, as `rebuild` made them from `leaves`.
        leaves: what stood for the arrays.
    """
    found = []
    for name, value in inputs.rebuild(leaves).items():
        before, tree = pytree.tree_flatten(value)
        now, tree_now = pytree.tree_flatten(given[name])
        if tree != tree_now or any(a is not b for a, b in zip(before, now, strict=True)):
            found.append(name)
    return found


def donated_numbers(inputs: Inputs, donate: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the leaves of donated inputs."""
    return tuple(
        i
        for i, name in enumerate(inputs.leaf_names())
        if any(name == d or name.startswith((f"{d}[", f"{d}.")) for d in donate)
    )


def why(
    old: Inputs,
    fixed: Sequence[Token],
    device: Any,
    new: Inputs,
    taken: Snapshot,
    changed: list[tuple[str, str]],
) -> str:
    """Why a version does not serve, in words.

    Args:
        old: the version's inputs.
        fixed: tokens of their fixed leaves.
        device: the device that they had been put on.
        new: the inputs now.
        taken: the constants of the version.
        changed: those that changed.
    """
    for name, text in changed:
        reader = taken.readers.get(name, "the cell")
        return text + ("" if reader == "the cell" else f" (read by {reader})")
    for name in new.names:
        if name not in old.names:
            return f"{name} is {'an array' if name in new.leaf_names() else 'a container'} now"
    for name in old.names:
        if name not in new.names:
            return f"{name} is no {'array' if name in old.leaf_names() else 'container'} any more"
    for name, before, now in zip(new.names, old.trees, new.trees, strict=True):
        if before != now:
            return f"the structure of {name} changed"
    for name, before, now in zip(new.leaf_names(), old.avals, new.avals, strict=True):
        if before != now:
            weak = " (weak type)" if before.str_short() == now.str_short() else ""
            return f"{name} was {before.str_short()}, now {now.str_short()}{weak}"
    if device != new.committed_device():
        return f"the inputs are on {new.committed_device() or 'no device of their own'} now"
    names = new.all_leaf_names()
    for (i, value), part in zip(new.fixed, fixed, strict=True):
        now = token(value)
        if now.key != part.key:
            return difference(names[i], part, now)
    raise AssertionError("the versions do not differ")
