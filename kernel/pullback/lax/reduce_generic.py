"""Reduction over axes with a function of the user.

Builds on reduce.py and reducer.py. Tested in tests/lax/test_reduce_generic.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from pullback.core import errors, pytree
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, batch_flat, bdim_at_front
from pullback.core.jaxpr import Jaxpr
from pullback.core.tracer import Primitive
from pullback.lax.compare_select import and_p, or_p, xor_p
from pullback.lax.elementwise import add_p, max_p, min_p, mul_p
from pullback.lax.fill import scalar_of
from pullback.lax.limits import all_ones, highest, lowest, one_value, zero_value
from pullback.lax.operands import canonical_axes, jvp_by, refuse_sharding, shape_of, without
from pullback.lax.reduce import (
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from pullback.lax.reducer import (
    check_reducer,
    fill_region,
    is_value,
    known_monoid,
    map_scalars,
    scalar_jaxpr,
)
from pullback.lax.shape import broadcast_to, reduce_sum_p, reshaped, transpose
from pullback.lax.slice import concatenate, slice_in_dim

# Name of an associative operation -> the reduction, the operation, its neutral element.
MONOIDS: dict[str, tuple[Primitive, Primitive, Callable[[Any], Any]]] = {
    "add": (reduce_sum_p, add_p, zero_value),
    "mul": (reduce_prod_p, mul_p, one_value),
    "max": (reduce_max_p, max_p, lowest),
    "min": (reduce_min_p, min_p, highest),
    "and": (reduce_and_p, and_p, all_ones),
    "or": (reduce_or_p, or_p, zero_value),
    "xor": (reduce_xor_p, xor_p, zero_value),
}


def _abstract(*avals: ShapedArray, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[ShapedArray]:
    n = len(avals) // 2
    operands, inits = avals[:n], avals[n:]
    for x, init in zip(operands, inits, strict=True):
        if x.shape != operands[0].shape or init.shape or init.dtype != x.dtype:
            raise errors.shape_error(
                "reduce: operands must have one shape and each initial value must be a scalar of "
                f"its operand's dtype; got {', '.join(a.str_short() for a in avals)}."
            )
    return [make_aval(without(x.shape, dimensions), x.dtype) for x in operands]


def _lower(ctx: Any, *values: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[Any]:
    n = len(values) // 2
    op = ctx.hlo.ReduceOp(
        [ctx.type(a) for a in ctx.avals_out], values[:n], values[n:], ctx.dims(sorted(dimensions))
    )
    fill_region(ctx, op.regions[0], jaxpr)
    return list(op.results)


def _by_pairs(*args: Any, jaxpr: Jaxpr, dimensions: tuple[int, ...]) -> list[Any]:
    """The same reduction by combining neighbours until one element is left."""
    k = len(args) // 2
    operands, inits = args[:k], args[k:]
    shape = shape_of(operands[0])
    kept = without(range(len(shape)), dimensions)
    rest = tuple([shape[i] for i in kept])
    n = prod([shape[i] for i in dimensions])
    xs = [reshaped(transpose(x, (*dimensions, *kept)), (n, *rest)) for x in operands]
    while n > 1:
        even = [slice_in_dim(x, 0, n - n % 2, 2) for x in xs]
        odd = [slice_in_dim(x, 1, n, 2) for x in xs]
        last = [slice_in_dim(x, n - 1, n) for x in xs]
        pairs = map_scalars(jaxpr, *even, *odd)
        xs = [concatenate([p, x], 0) if n % 2 else p for p, x in zip(pairs, last, strict=True)]
        n = (n + 1) // 2
    starts = [broadcast_to(i, rest) for i in inits]
    if n == 0:
        return starts
    return map_scalars(jaxpr, *starts, *[reshaped(x, rest) for x in xs])


def _batch(
    axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, dimensions: tuple[int, ...]
) -> tuple[list[Any], list[int | None]]:
    n = len(args) // 2
    if any(d is not None for d in dims[n:]):
        return batch_flat(
            lambda *xs: _by_pairs(*xs, jaxpr=jaxpr, dimensions=dimensions), axis, args, dims
        )
    operands = [bdim_at_front(x, d, axis.size) for x, d in zip(args[:n], dims, strict=False)]
    new = tuple([d + 1 for d in dimensions])
    outs = reduce_p.bind(*operands, *args[n:], jaxpr=jaxpr, dimensions=new)
    return outs, [0] * n


reduce_p = Primitive(
    name="reduce",
    abstract=_abstract,
    lower=_lower,
    jvp=jvp_by(_by_pairs, multiple=True),
    batch=_batch,
    multiple_results=True,
    doc="Operands combined over axes by an associative function, from initial values.",
)


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """The operands combined over axes by an associative function.

    Args:
        operands: pytree of arrays of one shape.
        init_values: pytree of scalars of that structure: neutral elements of the function.
        computation: takes two pytrees of scalars, gives one; used in any order.
        dimensions: axes to reduce.

    Returns:
        A pytree of arrays without those axes.

    Raises:
        TypeError: structures, shapes or dtypes do not fit.

    Example:
        >>> from pullback import lax
        >>> import numpy as np
        >>> print(lax.reduce(np.arange(4), 0, lambda a, b: a + b, (0,)))
        6
    """
    refuse_sharding("reduce", out_sharding)
    leaves, tree = pytree.tree_flatten(operands)
    inits, init_tree = pytree.tree_flatten(init_values)
    if tree != init_tree:
        raise errors.shape_error(
            f"reduce: operands and init_values must have one structure, got {tree} and {init_tree}."
        )
    avals = [typeof(x) for x in leaves]
    inits = [
        scalar_of(i, a.dtype) if not shape_of(i) else i for i, a in zip(inits, avals, strict=True)
    ]
    jaxpr = tree_reducer("reduce", computation, tree, avals)
    axes = canonical_axes("reduce", dimensions, avals[0].ndim)
    monoid = known_monoid(jaxpr)
    if monoid is not None and not shape_of(inits[0]):
        prim, combine, neutral = MONOIDS[monoid]
        out = prim.bind(leaves[0], axes=axes)
        if not is_value(inits[0], neutral(avals[0].dtype)):
            out = combine.bind(out, inits[0])
        return pytree.tree_unflatten(tree, [out])
    return pytree.tree_unflatten(tree, reduce_p.bind(*leaves, *inits, jaxpr=jaxpr, dimensions=axes))


def tree_reducer(
    name: str, computation: Callable[[Any, Any], Any], tree: Any, avals: Sequence[ShapedArray]
) -> Jaxpr:
    """A function of two pytrees of scalars as a jaxpr of their leaves, checked."""
    n = len(avals)

    def flat(*xs: Any) -> Sequence[Any]:
        out = computation(pytree.tree_unflatten(tree, xs[:n]), pytree.tree_unflatten(tree, xs[n:]))
        found, out_tree = pytree.tree_flatten(out)
        if out_tree != tree:
            raise errors.shape_error(
                f"{name}: the function must give the structure of the operands, {tree}; it gives "
                f"{out_tree}."
            )
        return found

    jaxpr = scalar_jaxpr(name, flat, [*avals, *avals])
    check_reducer(name, jaxpr, avals)
    return jaxpr
