"""The types of what a loop carries: promotion of weak types, and messages on mismatch.

Builds on inner.py and convert.py. Tested in tests/lax/test_scan.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core import dtypes, pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.lax.convert import convert
from pullback.lax.inner import function_name, leaf_paths, type_difference


def promote_carry(
    leaves: list[Any],
    trace: Callable[[list[ShapedArray]], Any],
    carry_out: Callable[[Any], Sequence[ShapedArray]],
) -> tuple[list[Any], Any]:
    """Trace a body; where a weakly typed initial value comes out otherwise, convert it and retrace.

    Args:
        leaves: the initial carry.
        trace: the types of the carry -> traced body.
        carry_out: traced body -> the types of the carry that comes out.

    Returns:
        The initial carry, and the body traced at its types.
    """
    for _ in range(3):
        avals = [typeof(x) for x in leaves]
        traced = trace(avals)
        outs = list(carry_out(traced))
        if len(outs) != len(avals):
            return leaves, traced
        new = [_promoted(x, a, o) for x, a, o in zip(leaves, avals, outs, strict=True)]
        if all(n is x for n, x in zip(new, leaves, strict=True)):
            return leaves, traced
        leaves = new
    return leaves, traced


def _promoted(x: Any, aval: ShapedArray, out: ShapedArray) -> Any:
    if not aval.weak_type or (aval.dtype == out.dtype and out.weak_type):
        return x
    if aval.dtype == out.dtype or dtypes.common_type([aval, out])[0] == out.dtype:
        return convert(x, out.dtype, False)
    return x


def argument_name(fun: Callable[..., Any], position: int = 0, default: str = "carry") -> str:
    """The name of a function's parameter."""
    try:
        return list(inspect.signature(fun).parameters)[position]
    except (TypeError, ValueError, IndexError):
        return default


@dataclass(frozen=True, slots=True, eq=False)
class FoldedBody:
    """The body of a loop that carries more than its user knows of: counters, before the value.

    Attributes:
        run: what the loop calls.
        original: the user's function, of a counter and the value.
        where: the loop that the user called.
        n_counters: how many leaves the carry has before the user's value.
    """

    run: Callable[..., Any]
    original: Callable[..., Any]
    where: str
    n_counters: int

    @property
    def __name__(self) -> str:
        return function_name(self.original)

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)


def check_carry(
    where: str,
    body: Callable[..., Any],
    in_tree: Any,
    in_avals: Sequence[ShapedArray],
    out_tree: Any,
    out_avals: Sequence[ShapedArray],
) -> None:
    """Check that a loop body gives back what it takes.

    Args:
        where: the loop, for the message.
        body: the user's function.
        in_tree: structure of the carry that goes in.
        in_avals: its leaves' types.
        out_tree: structure of the carry that comes out.
        out_avals: its leaves' types.

    Raises:
        TypeError: naming each leaf that differs by key path, with both types.
    """
    position = 0
    if isinstance(body, FoldedBody):
        n = body.n_counters
        where, body, position = body.where, body.original, 1
        in_tree, out_tree = (pytree.treedef_children(t)[n] for t in (in_tree, out_tree))
        in_avals, out_avals = in_avals[n:], out_avals[n:]
    head = (
        f"{where} body function ({function_name(body)}) carry input and carry output must have "
        "equal types, but they differ:"
    )
    root = argument_name(body, position)
    if in_tree != out_tree:
        first = pytree.tree_unflatten(in_tree, list(in_avals))
        second = pytree.tree_unflatten(out_tree, list(out_avals))
        how = pytree.mismatch(first, second, exact=True) or f"{in_tree} against {out_tree}."
        raise TypeError(
            f"{head}\nThe carry {root} (first) and the result (second) have different structures: "
            f"{how}\nInput:  {in_tree}\nOutput: {out_tree}\n"
            "Instead: return the carry in the structure in which it was given."
        )
    lines = []
    for path, a, b in zip(leaf_paths(in_tree, root), in_avals, out_avals, strict=True):
        how = type_difference(a, b)
        if how:
            lines.append(
                f"  {path} has type {a.str_short()} going in but {b.str_short()} coming out: {how}"
            )
    if lines:
        rest = [f"  ... and {len(lines) - 5} more"] if len(lines) > 5 else []
        raise TypeError(
            "\n".join([head, *lines[:5], *rest])
            + "\nInstead: convert the initial value or the result (astype, reshape, broadcast) so "
            "that both types match."
        )
