"""`checkpoint` (also called `remat`), its policies, and names for values.

Builds on lax/remat.py. Tested in tests/api/test_checkpoint.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.core import pytree
from pullback.core.aval import typeof
from pullback.core.source import api_boundary
from pullback.lax.inner import function_name, trace_function
from pullback.lax.remat import checkpoint_p, name_p
from pullback.lax.remat_policy import Either, Policy
from pullback.xla.client import default_backend


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, known by a name to the policies of `checkpoint`.

    Args:
        x: pytree of arrays.
        name: what policies call it.
    """
    return pytree.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


def _is_dot(prim: Any) -> bool:
    return prim.name == "dot_general"


def everything_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Save every value: nothing is recomputed."""
    return True


def nothing_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Save nothing: everything is recomputed from the inputs."""
    return False


def dots_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Save the results of matrix products."""
    return _is_dot(prim)


def dots_with_no_batch_dims_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Save the results of matrix products without batch dimensions."""
    if not _is_dot(prim):
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@dataclass(frozen=True, slots=True)
class _ByName:
    """A policy on names: those listed, or all but those; `others` is the verdict on the rest."""

    names: frozenset[str]
    listed: bool
    others: bool

    def __call__(self, prim: Any, *avals: Any, **params: Any) -> bool:
        if prim is not name_p:
            return self.others
        return (params["name"] in self.names) == self.listed


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Save only values with these names (see `checkpoint_name`)."""
    return _ByName(frozenset(names_which_can_be_saved), listed=True, others=False)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Save only named values, except those with these names."""
    return _ByName(frozenset(names_not_to_save), listed=False, others=False)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Save every value except those with these names."""
    return _ByName(frozenset(names_not_to_save), listed=False, others=True)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Save what either of two policies saves."""
    return Either(policy_1, policy_2)


def _check_places(offload_src: str, offload_dst: str) -> None:
    """Check that offloading means keeping: on the CPU both places are the host's memory.

    Raises:
        NotImplementedError: devices have a memory of their own.
        ValueError: a place has no known name.
    """
    for place in (offload_src, offload_dst):
        if place not in _PLACES:
            raise ValueError(
                f"checkpoint: unknown memory {place!r}; there are {', '.join(map(repr, _PLACES))}."
            )
    platform = default_backend()
    if platform != "cpu":
        raise NotImplementedError(
            f"checkpoint policies that offload are supported on the CPU only (its memory is the "
            f"host's), not on {platform!r}.\n"
            "Instead: save_only_these_names, or dots_with_no_batch_dims_saveable."
        )


_PLACES = ("device", "pinned_host", "unpinned_host")


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Save only values with these names, the second ones in another memory.

    Args:
        names_which_can_be_saved: names of values kept where they are.
        names_which_can_be_offloaded: names of values moved; on the CPU, the only device served,
            the host's memory is the device's and they stay where they are.
        offload_src: where they are, `device`.
        offload_dst: where they go, `pinned_host`.

    Raises:
        NotImplementedError: devices have a memory of their own.
        ValueError: a name is in both lists, or a place is unknown.
    """
    both = set(names_which_can_be_saved) & set(names_which_can_be_offloaded)
    if both:
        raise ValueError(
            f"checkpoint: {sorted(both)} are both to be saved and to be offloaded.\n"
            "Instead: list each name once."
        )
    if names_which_can_be_offloaded:
        _check_places(offload_src, offload_dst)
    return save_only_these_names(*names_which_can_be_saved, *names_which_can_be_offloaded)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Save the results of matrix products without batch dimensions, in another memory.

    Args:
        offload_src: where they are, `device`.
        offload_dst: where they go, `pinned_host`; on the CPU they stay where they are.

    Raises:
        NotImplementedError: devices have a memory of their own.
    """
    _check_places(offload_src, offload_dst)
    return dots_with_no_batch_dims_saveable


def _static_positions(fun: Any, argnums: Any, argnames: Any, n: int) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if any(not -n <= i < n for i in numbers):
        raise ValueError(
            f"checkpoint: static_argnums={numbers} must count positional arguments of "
            f"{function_name(fun)}, of which there are {n}.\n"
            "Instead: numbers from 0, or static_argnames for arguments passed by name."
        )
    if names:
        parameters = list(inspect.signature(fun).parameters)
        numbers += tuple(parameters.index(name) for name in names if name in parameters)
    return tuple(sorted({i % n if i < 0 else i for i in numbers if i < n})) if n else ()


@api_boundary
def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: bool | None = None,
) -> Any:
    """A function whose inner values are recomputed in the backward pass instead of being kept.

    Args:
        fun: function of pytrees of arrays; without it, a decorator is returned.
        prevent_cse: keep the compiler from merging the recomputation with the first computation;
            False is faster inside a scan, where it cannot happen.
        policy: (primitive, *types, **parameters) -> whether to keep the values of that operation;
            None keeps nothing but the arguments. See `checkpoint_policies`.
        static_argnums: positions of arguments that are constants.
        static_argnames: names of arguments that are constants.
        concrete: the older switch, no longer there.

    Returns:
        A function like `fun`.

    Example:
        >>> import pullback as jax
        >>> from pullback import numpy as jnp
        >>> f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
        >>> float(jax.grad(f)(0.0))
        1.0
    """
    if concrete is not None:
        raise NotImplementedError(
            "checkpoint: the option `concrete` has been removed.\n"
            "Instead: list the arguments whose values are needed in static_argnums."
        )
    options: dict[str, Any] = {
        "prevent_cse": prevent_cse,
        "policy": policy,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
    }
    if fun is None:
        return functools.partial(checkpoint, **options)
    if not callable(fun):
        raise TypeError(f"checkpoint: the first argument must be a function, got {fun!r:.60}.")
    static_names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)

    @functools.wraps(fun)
    @api_boundary
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        positions = _static_positions(fun, static_argnums, static_argnames, len(args))
        fixed = {i: args[i] for i in positions}
        fixed_named = {k: v for k, v in kwargs.items() if k in static_names}
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        named = {k: v for k, v in kwargs.items() if k not in fixed_named}

        def body(dynamic: tuple, named: dict) -> Any:
            rest = iter(dynamic)
            full = [fixed[i] if i in fixed else next(rest) for i in range(len(args))]
            return fun(*full, **named, **fixed_named)

        leaves, tree = pytree.tree_flatten((dynamic, named))
        traced = trace_function(body, tree, [typeof(x) for x in leaves], function_name(fun))
        outs = checkpoint_p.bind(
            *traced.consts,
            *leaves,
            jaxpr=traced.jaxpr,
            policy=policy,
            prevent_cse=prevent_cse,
            differentiated=False,
        )
        return pytree.tree_unflatten(traced.out_tree, outs)

    return wrapped


remat = checkpoint
