"""Whether branches of a conditional give results of the same types, and the message if not.

Builds on inner.py. Tested in tests/lax/test_control_flow.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray
from pullback.lax.inner import function_name, leaf_paths, type_difference


def _branch_name(where: str, position: int, fun: Callable[..., Any]) -> str:
    if where == "cond":
        return f"{('false_fun', 'true_fun')[position]} ({function_name(fun)})"
    return f"branch {position} ({function_name(fun)})"


def check_branches(
    where: str,
    funs: Sequence[Callable[..., Any]],
    outs: Sequence[tuple[Any, Sequence[ShapedArray]]],
) -> None:
    """Check that all branches give the same structure and types.

    Args:
        where: `cond` or `switch`.
        funs: the user's functions.
        outs: per branch, structure and leaf types of its result.

    Raises:
        TypeError: naming each leaf that differs by key path, with both types.
    """
    tree, avals = outs[0]
    first = _branch_name(where, 0, funs[0])
    for position, (other_tree, other_avals) in enumerate(outs[1:], 1):
        name = _branch_name(where, position, funs[position])
        head = f"{where} branches must have equal output types but they differ."
        if tree != other_tree:
            how = pytree.mismatch(
                pytree.tree_unflatten(tree, list(avals)),
                pytree.tree_unflatten(other_tree, list(other_avals)),
                exact=True,
            )
            raise TypeError(
                f"{head}\nThe results of {first} and {name} have different structures: "
                f"{how or f'{tree} against {other_tree}.'}\n"
                "Instead: return the same containers from every branch."
            )
        lines = []
        for path, a, b in zip(leaf_paths(tree), avals, other_avals, strict=True):
            how = type_difference(a, b)
            if how:
                at = f" at {path}" if path else ""
                lines.append(
                    f"The output of {name}{at} has type {b.str_short()} but that of {first} has "
                    f"type {a.str_short()}: {how}."
                )
        if lines:
            raise TypeError(
                "\n".join([head, *lines[:5]])
                + "\nInstead: make the branches agree, e.g. with astype or jnp.broadcast_to."
            )
