"""`vmap`: a function of arrays made a function of arrays with one more axis.

Builds on core/batching.py. Tested in tests/api/test_vmap.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.api.float0 import is_float0
from pullback.api.float0 import mapped as mapped_float0
from pullback.core import errors, pytree
from pullback.core.aval import is_arraylike, typeof
from pullback.core.batching import AxisData, batch_flat, to_dim
from pullback.core.source import api_boundary


@api_boundary
def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """A function that applies `fun` along an axis of its arguments, all at once.

    Args:
        fun: a function of arrays and pytrees.
        in_axes: which axis of each argument is mapped: an int, None (not mapped), or a pytree of
            them that is a prefix of the arguments.
        out_axes: where the mapped axis goes in each result.
        axis_name: a name by which collectives in `fun` refer to the axis.
        axis_size: its size, needed where no argument is mapped.
        spmd_axis_name: mesh axis over which the mapped axis is sharded.

    Returns:
        The vectorised function.

    Raises:
        ValueError: the arguments do not have mapped axes of one size, or in_axes does not fit.

    Example:
        >>> import pullback.numpy as jnp
        >>> vmap(jnp.dot)(jnp.ones((3, 2)), jnp.ones((3, 2)))
        Array([2., 2., 2.], dtype=float32)
    """
    if not callable(fun):
        raise errors.not_a_function("vmap", fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not isinstance(in_axes, int | tuple | dict | type(None)) or isinstance(in_axes, bool):
        if not pytree.tree_leaves(in_axes):
            raise TypeError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments, got {in_axes!r}"
            )
    name = getattr(fun, "__name__", type(fun).__name__)

    @functools.wraps(fun)
    @api_boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap in_axes must have one entry per positional argument of {name}: "
                f"{len(in_axes)} entries {in_axes!r} for {len(args)} arguments.\n"
                "Instead: give None for arguments that are not mapped, "
                f"in_axes={_example_axes(in_axes, len(args))}."
            )
        leaves, tree = pytree.tree_flatten((args, kwargs))
        dims = _in_dims(in_axes, args, kwargs, name)
        size = _axis_size(leaves, dims, tree, axis_size, name)
        dims = [
            d if d is None or d >= 0 else d + typeof(x).ndim
            for x, d in zip(leaves, dims, strict=True)
        ]
        out_tree = None

        def flat(*new: Any) -> list[Any]:
            nonlocal out_tree
            new_args, new_kwargs = pytree.tree_unflatten(tree, new)
            outs, out_tree = pytree.tree_flatten(fun(*new_args, **new_kwargs))
            for i, o in enumerate(outs):
                if not is_arraylike(o):
                    raise _output_error(name, o, pytree.leaf_path(out_tree, i))
            return outs

        outs, found = batch_flat(flat, AxisData(axis_name, size, spmd_axis_name), leaves, dims)
        wanted = pytree.flatten_prefix("vmap out_axes", out_tree, out_axes, root="result")
        results = [
            _place(o, d, size, want, name) for o, d, want in zip(outs, found, wanted, strict=True)
        ]
        return pytree.tree_unflatten(out_tree, results)

    return mapped


def _in_dims(in_axes: Any, args: tuple, kwargs: dict, name: str) -> list[int | None]:
    if in_axes == 0 and type(in_axes) is int:
        return [0] * len(pytree.tree_leaves((args, kwargs)))
    dims = pytree.flatten_prefix("vmap in_axes", pytree.tree_structure(args), in_axes, root="args")
    for d in dims:
        if d is not None and (not isinstance(d, int) or isinstance(d, bool)):
            raise TypeError(
                f"vmap in_axes of {name} must hold ints or None, got {d!r}.\n"
                "Instead: in_axes=0 maps the first axis of every argument."
            )
    return [*dims, *[0] * len(pytree.tree_leaves(kwargs))]


def _axis_size(
    leaves: list[Any], dims: list[int | None], tree: Any, given: int | None, name: str
) -> int:
    sizes: dict[int, list[int]] = {}
    for i, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is None:
            continue
        shape = typeof(x).shape
        if not -len(shape) <= d < len(shape):
            raise ValueError(
                f"vmap of {name}: {pytree.leaf_path(tree, i)} has shape {shape}, "
                f"so it has no axis {d} to map over.\n"
                "Instead: pass in_axes=None for arguments that are not mapped."
            )
        sizes.setdefault(shape[d], []).append(i)
    if given is not None:
        sizes.setdefault(given, [])
    if len(sizes) == 1:
        return next(iter(sizes))
    if not sizes:
        raise ValueError(
            f"vmap of {name}: no argument is mapped, so the size of the axis is not known.\n"
            "Instead: give axis_size=..., or map at least one argument in in_axes."
        )
    lines = []
    for size, owners in sizes.items():
        for i in owners[:3]:
            where = pytree.leaf_path(tree, i)
            lines.append(
                f"  size {size}: axis {dims[i]} of {where}, shape {typeof(leaves[i]).shape}"
            )
        if not owners:
            lines.append(f"  size {size}: axis_size")
    raise ValueError(
        f"vmap of {name} got inconsistent sizes for the mapped axis:\n"
        + "\n".join(lines[:6])
        + "\nInstead: pass arrays of one size along the mapped axis; in_axes says which axis that is, "
        "None for arguments that are not mapped."
    )


def _example_axes(in_axes: tuple, n_args: int) -> tuple:
    return (*in_axes[:n_args], *[None] * (n_args - len(in_axes)))


def _output_error(name: str, x: Any, path: str) -> TypeError:
    at = f" at {path}" if path else ""
    return TypeError(
        f"vmap of {name}: the function returned a {type(x).__name__}{at}, which is not a valid "
        f"array type: {x!r:.60}\n"
        "Instead: return arrays, numbers, None, or containers of them."
    )


def _place(x: Any, dim: int | None, size: int, want: int | None, name: str) -> Any:
    if is_float0(x) and dim is None and want is not None:
        return mapped_float0(x, size, want)
    if want is None:
        if dim is not None:
            raise ValueError(
                f"vmap of {name} has a mapped result, but its out_axes is None.\n"
                "Instead: give the axis where the mapped axis goes, such as out_axes=0."
            )
        return x
    ndim = typeof(x).ndim + (dim is None)
    if not -ndim <= want < ndim:
        raise ValueError(
            f"vmap of {name}: out_axes={want} is out of range for a result with {ndim} axes.\n"
            f"Instead: a number from {-ndim} to {ndim - 1}."
        )
    return to_dim(x, dim, size, want % ndim)
