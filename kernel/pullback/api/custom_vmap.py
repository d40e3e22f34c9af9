"""`custom_vmap`: functions with a rule of their own for vmap, and `sequential_vmap`.

Builds on lax/custom_vmap.py. Tested in tests/api/test_custom_vmap.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.custom_call import CallArguments, FlatCall, Rule, Structures, signature_of
from pullback.core import pytree
from pullback.core.source import api_boundary
from pullback.lax.custom_vmap import custom_vmap_call_p
from pullback.lax.inner import function_name
from pullback.lax.loops import map as loop_map


class _VmapRule(Rule):
    """A def_vmap rule on flat leaves."""

    def __call__(
        self, axis_size: int, mapped: Sequence[bool], leaves: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        tree = self.arguments.in_tree
        args = pytree.tree_unflatten(tree, leaves)
        flags = list(pytree.tree_unflatten(tree, mapped))
        what = f"custom_vmap rule for {function_name(self.owner.fun)}"
        result = self.owner.vmap_rule(axis_size, flags, *args)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TypeError(f"{what} must return a pair (result, which of it is mapped).")
        outs, out_tree = pytree.tree_flatten(result[0])
        out_mapped, flags_tree = pytree.tree_flatten(result[1])
        if out_tree != flags_tree:
            raise ValueError(
                f"structure of output value and output batching specification returned by the "
                f"{what} do not match: {out_tree} and {flags_tree}."
            )
        self.cells.out_tree = out_tree
        return outs, [bool(m) for m in out_mapped]


class custom_vmap:  # noqa: N801  (JAX's name)
    """A function whose vectorisation comes from a rule of its own.

    Its derivatives are the function's; the rule is used where vmap meets the function itself.

    Args:
        fun: function of pytrees of arrays.

    Example:
        >>> import pullback as jax
        >>> from pullback import numpy as jnp
        >>> @jax.custom_batching.custom_vmap
        ... def f(x, y):
        ...     return x + y
        >>> @f.def_vmap
        ... def rule(axis_size, in_batched, xs, ys):
        ...     return xs * ys, True
        >>> jax.vmap(f)(jnp.arange(3.0), jnp.ones(3))
        Array([0., 1., 2.], dtype=float32)
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self._signature = signature_of(fun)
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
        """Set the rule.

        Args:
            vmap_rule: (axis_size, in_batched, *args) -> (result, out_batched). `in_batched` says by
                argument (a pytree of bool) whether it has the mapped axis, which comes first;
                `out_batched` says the same of the result.

        Returns:
            The rule, so that this is a decorator.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {function_name(self.fun)} "
                "using def_vmap."
            )
        arguments = CallArguments(self.fun, self._signature, args, kwargs, ())
        leaves = arguments.take_leaves()
        cells = Structures()
        outs = custom_vmap_call_p.bind(
            *leaves,
            call=FlatCall(self, arguments, cells),
            rule=_VmapRule(self, arguments, cells),
            num_consts=0,
            name=function_name(self.fun),
        )
        return pytree.tree_unflatten(cells.out_tree, outs)


def sequential_vmap(fun: Callable[..., Any]) -> custom_vmap:
    """A function that under vmap runs for one element after another, in a loop.

    Args:
        fun: function of pytrees of arrays.
    """
    mapped = custom_vmap(fun)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        leaves, tree = pytree.tree_flatten(args)
        flags = pytree.tree_leaves(tuple(in_batched))
        moving = [x for x, m in zip(leaves, flags, strict=True) if m]

        def one(parts: Sequence[Any]) -> Any:
            rest = iter(parts)
            full = [next(rest) if m else x for x, m in zip(leaves, flags, strict=True)]
            return fun(*pytree.tree_unflatten(tree, full))

        out = loop_map(one, moving)
        return out, pytree.tree_map(lambda _: True, out)

    return mapped
