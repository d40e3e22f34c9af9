"""Arrays along a new axis, the entries along an axis, and repeated arrays.

Builds on slice.py. Tested in tests/lax/test_slice.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, to_dim
from pullback.core.jvp import Zero, is_zero, linear_jvp
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.operands import (
    all_weak,
    canonical_axis,
    canonical_shape,
    describe,
    inserted,
    same_dtype,
    shape_of,
)
from pullback.lax.shape import reshaped, sum_axes, zeros

# --------------------------------------------------------------------------- stack


def _stack_abstract(*avals: ShapedArray, axis: int) -> ShapedArray:
    same_dtype("stack", *avals)
    first = avals[0]
    if any(a.shape != first.shape for a in avals):
        raise errors.shape_error(
            f"stack: arrays must have one shape, got {describe(*avals)}.",
            "join arrays of several sizes with concatenate, or pad them first.",
        )
    return make_aval(inserted(first.shape, axis, len(avals)), first.dtype, all_weak(*avals))


def _stack_lower(ctx: Any, *values: Any, axis: int) -> Any:
    aval = ctx.avals_in[0]
    part = ctx.type(aval.update(shape=inserted(aval.shape, axis, 1)))
    return ctx.hlo.concatenate([ctx.hlo.reshape(part, v) for v in values], axis)


def _stack_transpose(ct: Any, *args: Any, axis: int) -> list[Any]:
    if is_zero(ct):
        return [Zero(cotangent_aval(a)) if is_undefined(a) else None for a in args]
    parts = unstack_p.bind(ct, axis=axis)
    return [p if is_undefined(a) else None for p, a in zip(parts, args, strict=True)]


def _stack_batch(data: AxisData, args: Any, dims: Any, *, axis: int) -> tuple[Any, int]:
    d = next(d for d in dims if d is not None)
    args = [to_dim(x, b, data.size, d) for x, b in zip(args, dims, strict=True)]
    if axis <= d:
        return stack_p.bind(*args, axis=axis), d + 1
    return stack_p.bind(*args, axis=axis + 1), d


stack_p: Primitive = Primitive(
    name="stack",
    abstract=_stack_abstract,
    lower=_stack_lower,
    jvp=linear_jvp(lambda: stack_p),
    transpose=_stack_transpose,
    batch=_stack_batch,
    label=lambda params: f"stack axis {params['axis']}",
    doc="Arrays of one shape along a new axis.",
)


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """The arrays, of one shape, along a new axis.

    Raises:
        ValueError: no arrays, or of several shapes.
    """
    if not len(operands):
        raise errors.shape_error("stack requires at least one array.")
    axis = canonical_axis("stack", axis, typeof(operands[0]).ndim + 1)
    return stack_p.bind(*operands, axis=axis)


# --------------------------------------------------------------------------- unstack


def _unstack_abstract(x: ShapedArray, *, axis: int) -> list[ShapedArray]:
    part = make_aval((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype, x.weak_type)
    return [part] * x.shape[axis]


def _unstack_lower(ctx: Any, x: Any, *, axis: int) -> list[Any]:
    shape = ctx.avals_in[0].shape
    ones = ctx.dims((1,) * len(shape))
    outs = []
    for i, aval in enumerate(ctx.avals_out):
        low, high = [0] * len(shape), list(shape)
        low[axis], high[axis] = i, i + 1
        part = ctx.hlo.slice(x, ctx.dims(low), ctx.dims(high), ones)
        outs.append(ctx.hlo.reshape(ctx.type(aval), part))
    return outs


def _unstack_jvp(primals: Any, tangents: Any, *, axis: int) -> tuple[list, list]:
    return unstack_p.bind(*primals, axis=axis), unstack_p.bind(*tangents, axis=axis)


def _unstack_transpose(cts: Any, x: Any, *, axis: int) -> list[Any]:
    if all(is_zero(ct) for ct in cts):
        return [Zero(cotangent_aval(x))]
    return [stack_p.bind(*[zeros(ct.aval) if is_zero(ct) else ct for ct in cts], axis=axis)]


def _unstack_batch(data: AxisData, args: Any, dims: Any, *, axis: int) -> tuple[list, list]:
    d = dims[0]
    outs = unstack_p.bind(args[0], axis=axis + (axis >= d))
    return outs, [d - (axis < d)] * len(outs)


unstack_p = Primitive(
    name="unstack",
    abstract=_unstack_abstract,
    lower=_unstack_lower,
    jvp=_unstack_jvp,
    transpose=_unstack_transpose,
    batch=_unstack_batch,
    multiple_results=True,
    label=lambda params: f"unstack axis {params['axis']}",
    doc="The entries along an axis, which is dropped.",
)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The entries along an axis, which is dropped."""
    shape = shape_of(x)
    axis = canonical_axis("unstack", axis, len(shape))
    return tuple(unstack_p.bind(x, axis=axis)) if shape[axis] else ()


# --------------------------------------------------------------------------- tile


def _tile_abstract(x: ShapedArray, *, reps: tuple[int, ...]) -> ShapedArray:
    if len(reps) != x.ndim:
        raise errors.shape_error(
            f"tile: reps {reps} must have one entry per axis of shape {x.shape}.",
            "give 1 for axes that are not repeated.",
        )
    return make_aval(
        tuple([r * n for r, n in zip(reps, x.shape, strict=True)]), x.dtype, x.weak_type
    )


def _tile_lower(ctx: Any, x: Any, *, reps: tuple[int, ...]) -> Any:
    (aval,) = ctx.avals_in
    pairs = [n for pair in zip(reps, aval.shape, strict=True) for n in pair]
    wide = ctx.type(aval.update(shape=tuple(pairs)))
    wide = ctx.hlo.broadcast_in_dim(wide, x, ctx.dims(range(1, len(pairs), 2)))
    return ctx.hlo.reshape(ctx.type(ctx.aval_out), wide)


def _tile_transpose(ct: Any, x: Any, *, reps: tuple[int, ...]) -> list[Any]:
    aval = cotangent_aval(x)
    if is_zero(ct):
        return [Zero(aval)]
    pairs = [n for pair in zip(reps, aval.shape, strict=True) for n in pair]
    return [sum_axes(reshaped(ct, tuple(pairs)), range(0, len(pairs), 2))]


tile_p: Primitive = Primitive(
    name="tile",
    abstract=_tile_abstract,
    lower=_tile_lower,
    transpose=_tile_transpose,
    batch=lambda axis, args, dims, *, reps: (
        tile_p.bind(args[0], reps=inserted(reps, dims[0], 1)),
        dims[0],
    ),
    label=lambda params: f"tile {params['reps']}",
    doc="The operand repeated along each of its axes.",
)


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """The operand repeated `reps[i]` times along each axis i.

    Raises:
        ValueError: not one number per axis.
    """
    return tile_p.bind(operand, reps=canonical_shape("tile", reps))
