"""Operations that move elements and change none: broadcast, reshape, transpose, squeeze, rev.

The sum over axes stands here too, since it is the transpose of broadcasting.
Builds on core. Tested in tests/lax/test_shape.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, axis_ops, move_dim
from pullback.core.jvp import Zero, linear_ops
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval
from pullback.lax.families import shape_ops
from pullback.lax.operands import (
    canonical_axes,
    canonical_shape,
    inserted,
    ints,
    out_dim_after,
    refuse_sharding,
    shape_of,
    shifted,
    without,
)

# --------------------------------------------------------------------------- broadcast_in_dim


def _broadcast_abstract(
    x: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> ShapedArray:
    dims = broadcast_dimensions
    if len(dims) != x.ndim:
        raise errors.shape_error(
            f"broadcast_in_dim: broadcast_dimensions {dims} must name one axis of the result per "
            f"operand axis; the operand is {x.str_short()}.",
            "give as many broadcast_dimensions as the operand has axes.",
        )
    if any(not 0 <= d < len(shape) for d in dims) or any(
        a >= b for a, b in zip(dims, dims[1:], strict=False)
    ):
        raise errors.shape_error(
            f"broadcast_in_dim: broadcast_dimensions must be strictly increasing axes of the "
            f"result; got {dims} for operand {x.str_short()} and shape {shape}.",
            "name increasing axes; transpose the operand first for another order.",
        )
    for axis, (n, d) in enumerate(zip(x.shape, dims, strict=True)):
        if n not in (1, shape[d]):
            raise errors.shape_error(
                f"broadcast_in_dim: operand axis {axis} of size {n} cannot become result axis {d} "
                f"of size {shape[d]}: operand {x.str_short()}, shape {shape}, "
                f"broadcast_dimensions {dims}.",
                "sizes must be equal, or 1 in the operand.",
            )
    return make_aval(shape, x.dtype, x.weak_type)


def _broadcast_lower(ctx: Any, x: Any, *, broadcast_dimensions: tuple, **params: Any) -> Any:
    return ctx.hlo.broadcast_in_dim(ctx.type(ctx.aval_out), x, ctx.i64_array(broadcast_dimensions))


def _broadcast_transpose(
    ct: Any, x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> list[Any]:
    aval = cotangent_aval(x)
    if type(ct) is Zero:
        return [Zero(aval)]
    added = [a for a in range(len(shape)) if a not in broadcast_dimensions]
    stretched = [
        d for n, d in zip(aval.shape, broadcast_dimensions, strict=True) if n == 1 and shape[d] != 1
    ]
    return [reshaped(sum_axes(ct, (*added, *stretched)), aval.shape)]


def _broadcast_batch(
    axis: AxisData, args: Any, dims: Any, *, shape: tuple, broadcast_dimensions: tuple
) -> tuple[Any, int]:
    x = move_dim(args[0], dims[0], 0)
    out = broadcast_in_dim_p.bind(
        x,
        shape=(axis.size, *shape),
        broadcast_dimensions=(0, *[d + 1 for d in broadcast_dimensions]),
    )
    return out, 0


broadcast_in_dim_p = Primitive(
    name="broadcast_in_dim",
    abstract=_broadcast_abstract,
    lower=_broadcast_lower,
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
    label=lambda params: f"broadcast {params['shape']}",
    doc="The operand repeated along new axes and axes of size 1.",
)


def broadcast_in_dim(
    operand: Any, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Any:
    """The operand repeated to `shape`, its axes becoming the axes `broadcast_dimensions`.

    Args:
        operand: array; each axis has the size of its result axis, or 1.
        shape: shape of the result.
        broadcast_dimensions: per operand axis the axis of the result, increasing.

    Returns:
        An array of that shape and the operand's dtype.

    Raises:
        TypeError: sizes or axes do not fit.
    """
    refuse_sharding("broadcast_in_dim", out_sharding)
    shape = canonical_shape("broadcast_in_dim", shape)
    dims = ints(broadcast_dimensions)
    if shape_of(operand) == shape and dims == tuple(range(len(shape))) and hasattr(operand, "aval"):
        return operand
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The operand repeated along new leading axes of the given sizes."""
    lead = canonical_shape("broadcast", sizes)
    shape = shape_of(operand)
    dims = tuple(range(len(lead), len(lead) + len(shape)))
    return broadcast_in_dim(operand, lead + shape, dims, out_sharding=out_sharding)


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """The operand with axes of size 1 added in front until it has `rank` axes."""
    ndim = typeof(x).ndim
    if ndim == rank:
        return x
    return expand_dims(x, tuple(range(rank - ndim)))


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """The operand broadcast NumPy-style, from the right."""
    old = shape_of(x)
    if old == tuple(shape):
        return x
    lead = len(shape) - len(old)
    return broadcast_in_dim_p.bind(
        x, shape=tuple(shape), broadcast_dimensions=tuple(range(lead, len(shape)))
    )


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to, as in NumPy.

    Raises:
        ValueError: they do not broadcast.
    """
    known = [tuple(s) for s in shapes]
    try:
        return tuple(int(d) for d in np.broadcast_shapes(*known))
    except ValueError:
        raise errors.broadcast_error("broadcast_shapes", list(map(str, known)), known) from None


# --------------------------------------------------------------------------- reduce_sum


def _sum_abstract(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    check_reduce_axes("reduce_sum", x, axes)
    return make_aval(without(x.shape, axes), x.dtype, x.weak_type)


def check_reduce_axes(name: str, x: ShapedArray, axes: tuple[int, ...]) -> None:
    """Check the axes of a reduction.

    Raises:
        ValueError: out of bounds or named twice.
    """
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise errors.shape_error(
            f"{name}: axes must be distinct and in [0, {x.ndim}), got {axes} for {x.str_short()}",
            "name each axis once, counted from 0 or from the end (-1).",
        )


def _sum_lower(ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    aval = ctx.aval_out
    scalar = make_aval((), aval.dtype)
    zero = ctx.const(np.zeros((), aval.dtype), scalar)
    op = ctx.hlo.ReduceOp([ctx.type(aval)], [x], [zero], ctx.i64_array(sorted(axes)))
    ctx.region(op.regions[0], [scalar, scalar], lambda inner, a, b: [inner.hlo.add(a, b)])
    return op.result


def _sum_transpose(ct: Any, x: Any, *, axes: tuple[int, ...]) -> list[Any]:
    aval = cotangent_aval(x)
    if type(ct) is Zero:
        return [Zero(aval)]
    kept = without(range(aval.ndim), axes)
    return [broadcast_in_dim_p.bind(ct, shape=aval.shape, broadcast_dimensions=kept)]


def _sum_batch(axis: AxisData, args: Any, dims: Any, *, axes: tuple) -> tuple[Any, int]:
    new = shifted(axes, dims[0])
    return reduce_sum_p.bind(args[0], axes=new), out_dim_after(new, dims[0])


reduce_sum_p = Primitive(
    name="reduce_sum",
    abstract=_sum_abstract,
    lower=_sum_lower,
    transpose=_sum_transpose,
    batch=_sum_batch,
    label=lambda params: f"sum {params['axes']}",
    doc="The sum over axes.",
)


def sum_axes(x: Any, axes: Sequence[int]) -> Any:
    """The sum over non-negative axes; the operand itself if there are none."""
    return reduce_sum_p.bind(x, axes=tuple(sorted(axes))) if axes else x


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The sum of the elements over `axes`, in the operand's dtype.

    Example:
        >>> from pullback import lax
        >>> import numpy as np
        >>> print(lax.reduce_sum(np.ones((2, 3), np.float32), (1,)))
        [3. 3.]
    """
    refuse_sharding("reduce_sum", out_sharding)
    axes = canonical_axes("reduce_sum", axes, typeof(operand).ndim)
    return reduce_sum_p.bind(operand, axes=axes)


# --------------------------------------------------------------------------- reshape


def _reshape_abstract(
    x: ShapedArray, *, new_sizes: tuple[int, ...], dimensions: None
) -> ShapedArray:
    if prod(new_sizes) != x.size:
        raise errors.shape_error(
            f"reshape: total size must be unchanged, got {x.str_short()} of {x.size} elements "
            f"for new shape {new_sizes} of {prod(new_sizes)}.",
            "choose sizes with the same product; jnp.reshape works one out, given as -1.",
        )
    return make_aval(new_sizes, x.dtype, x.weak_type)


def _reshape_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    aval = cotangent_aval(x)
    return [Zero(aval) if type(ct) is Zero else reshaped(ct, aval.shape)]


def _reshape_batch(
    axis: AxisData, args: Any, dims: Any, *, new_sizes: tuple, dimensions: None
) -> tuple[Any, int]:
    x = move_dim(args[0], dims[0], 0)
    return reshape_p.bind(x, new_sizes=(axis.size, *new_sizes), dimensions=None), 0


reshape_p = Primitive(
    name="reshape",
    abstract=_reshape_abstract,
    lower=lambda ctx, x, **params: ctx.hlo.reshape(ctx.type(ctx.aval_out), x),
    transpose=_reshape_transpose,
    batch=_reshape_batch,
    label=lambda params: f"reshape {params['new_sizes']}",
    doc="The elements in the same row-major order under another shape.",
)


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    if shape_of(x) == shape:
        return x
    return reshape_p.bind(x, new_sizes=shape, dimensions=None)


def reshape(
    operand: Any,
    new_sizes: Any,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """The elements in row-major order under another shape.

    Args:
        operand: array.
        new_sizes: the shape of the result (no -1: that is `jnp.reshape`).
        dimensions: order in which the operand's axes are read; None is 0, 1, 2...

    Returns:
        An array of shape `new_sizes`.

    Raises:
        TypeError: another number of elements.
    """
    refuse_sharding("reshape", out_sharding)
    new_sizes = canonical_shape("reshape", new_sizes)
    ndim = typeof(operand).ndim
    if dimensions is not None:
        order = canonical_axes("reshape", dimensions, ndim)
        if len(order) != ndim:
            raise errors.shape_error(
                f"reshape: dimensions must name each of the operand's {ndim} axes once, "
                f"got {tuple(dimensions)}."
            )
        operand = transpose(operand, order)
    if hasattr(operand, "aval"):
        return reshaped(operand, new_sizes)
    return reshape_p.bind(operand, new_sizes=new_sizes, dimensions=None)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """The axes from `start_dimension` up to (not with) `stop_dimension` made one axis."""
    shape = shape_of(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        raise errors.shape_error(
            f"collapse: stop_dimension {stop_dimension} lies before start_dimension "
            f"{start_dimension} in shape {shape}."
        )
    return reshape(operand, (*shape[:start], prod(shape[start:stop]), *shape[stop:]))


# --------------------------------------------------------------------------- transpose


def _transpose_abstract(x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise errors.shape_error(
            f"transpose: permutation {permutation} is not a permutation of the {x.ndim} axes of "
            f"{x.str_short()}.",
            "name each axis once, such as (1, 0).",
        )
    return make_aval(tuple([x.shape[i] for i in permutation]), x.dtype, x.weak_type)


def _transpose_transpose(ct: Any, x: Any, *, permutation: tuple[int, ...]) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(cotangent_aval(x))]
    return [transpose_p.bind(ct, permutation=inverse_permutation(permutation))]


def _transpose_batch(axis: AxisData, args: Any, dims: Any, *, permutation: tuple) -> Any:
    dim = dims[0]
    return transpose_p.bind(args[0], permutation=(dim, *shifted(permutation, dim))), 0


transpose_p = Primitive(
    name="transpose",
    abstract=_transpose_abstract,
    lower=lambda ctx, x, *, permutation: ctx.hlo.transpose(x, ctx.i64_array(permutation)),
    transpose=_transpose_transpose,
    batch=_transpose_batch,
    label=lambda params: f"transpose {params['permutation']}",
    doc="The axes in another order: result axis i is operand axis permutation[i].",
)


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes this one."""
    inverse = [0] * len(permutation)
    for i, p in enumerate(permutation):
        inverse[p] = i
    return tuple(inverse)


def transpose(operand: Any, permutation: Any) -> Any:
    """The operand with axis `permutation[i]` at place i."""
    order = ints(permutation)
    if order == tuple(range(typeof(operand).ndim)) and hasattr(operand, "aval"):
        return operand
    return transpose_p.bind(operand, permutation=order)


def moved(x: Any, source: int, target: int) -> Any:
    """The operand with one axis moved (non-negative axes)."""
    order = [i for i in range(typeof(x).ndim) if i != source]
    order.insert(target, source)
    return transpose_p.bind(x, permutation=tuple(order))


def _repeated(x: Any, size: int, at: int) -> Any:
    shape = shape_of(x)
    dims = tuple([i for i in range(len(shape) + 1) if i != at])
    return broadcast_in_dim_p.bind(x, shape=inserted(shape, at, size), broadcast_dimensions=dims)


axis_ops.moveaxis = moved
axis_ops.broadcast = _repeated


# --------------------------------------------------------------------------- squeeze, expand_dims


def _squeeze_abstract(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    for d in dimensions:
        if x.shape[d] != 1:
            raise errors.shape_error(
                f"squeeze: cannot select an axis to squeeze out which has size not equal to one, "
                f"got shape={x.shape} and dimensions={dimensions}.",
                "name axes of size 1 only, or index the axis: x[0].",
            )
    return make_aval(without(x.shape, dimensions), x.dtype, x.weak_type)


def _squeeze_batch(axis: AxisData, args: Any, dims: Any, *, dimensions: tuple) -> Any:
    new = shifted(dimensions, dims[0])
    return squeeze_p.bind(args[0], dimensions=new), out_dim_after(new, dims[0])


squeeze_p = Primitive(
    name="squeeze",
    abstract=_squeeze_abstract,
    lower=lambda ctx, x, **params: ctx.hlo.reshape(ctx.type(ctx.aval_out), x),
    transpose=_reshape_transpose,
    batch=_squeeze_batch,
    doc="The operand without the given axes, each of size 1.",
)


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """The operand without the axes `dimensions`, each of size 1.

    Raises:
        ValueError: an axis has another size.
    """
    dims = canonical_axes("squeeze", dimensions, typeof(array).ndim)
    if not dims and hasattr(array, "aval"):
        return array
    return squeeze_p.bind(array, dimensions=dims)


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """The operand with axes of size 1 inserted so that they are at `dimensions` of the result."""
    shape = shape_of(array)
    if not dimensions:
        return array
    ndim = len(shape) + len(dimensions)
    new = canonical_axes("expand_dims", dimensions, ndim)
    kept = without(range(ndim), new)
    sizes = iter(shape)
    out = tuple([1 if i in new else next(sizes) for i in range(ndim)])
    return broadcast_in_dim_p.bind(array, shape=out, broadcast_dimensions=kept)


# --------------------------------------------------------------------------- rev


def _rev_abstract(x: ShapedArray, *, dimensions: tuple[int, ...]) -> ShapedArray:
    check_reduce_axes("rev", x, dimensions)
    return x


def _rev_transpose(ct: Any, x: Any, *, dimensions: tuple[int, ...]) -> list[Any]:
    return [ct if type(ct) is Zero else rev_p.bind(ct, dimensions=dimensions)]


rev_p: Primitive = Primitive(
    name="rev",
    abstract=_rev_abstract,
    lower=lambda ctx, x, *, dimensions: ctx.hlo.reverse(x, ctx.i64_array(dimensions)),
    transpose=_rev_transpose,
    batch=lambda axis, args, dims, *, dimensions: (
        rev_p.bind(args[0], dimensions=shifted(dimensions, dims[0])),
        dims[0],
    ),
    label=lambda params: f"reverse {params['dimensions']}",
    doc="The elements in reverse order along the given axes.",
)


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """The operand with its order reversed along `dimensions`."""
    return rev_p.bind(operand, dimensions=ints(dimensions))


def zeros(aval: ShapedArray) -> Any:
    """The zero of a vector space of arrays, strong dtype."""
    zero = np.zeros((), aval.dtype)[()]
    if not aval.shape:
        return zero
    return broadcast_in_dim_p.bind(zero, shape=aval.shape, broadcast_dimensions=())


linear_ops.zeros = zeros
shape_ops.reshape = reshaped
shape_ops.broadcast_to = broadcast_to
shape_ops.sum = sum_axes
