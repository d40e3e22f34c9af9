"""Reductions over axes by product, extremum and bits, argmax and argmin.

The sum stands in shape.py, reductions with a function of the user in reduce_generic.py.
Builds on shape.py. Tested in tests/lax/test_reduce.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData
from pullback.core.jvp import is_zero, zero_jvp, zero_of
from pullback.core.tracer import Primitive
from pullback.lax.compare_select import eq_p
from pullback.lax.convert import convert_element_type_p
from pullback.lax.cumulative import cumprod_p
from pullback.lax.elementwise import div_p, max_p, min_p, mul_p
from pullback.lax.families import BITS, NUMBER, check_kind, kind_of
from pullback.lax.limits import all_ones, highest, lowest, one_value, zero_value
from pullback.lax.operands import (
    canonical_axes,
    out_dim_after,
    refuse_sharding,
    shape_of,
    shifted,
    without,
)
from pullback.lax.shape import (
    broadcast_in_dim_p,
    check_reduce_axes,
    reshaped,
    sum_axes,
    transpose,
)
from pullback.lax.slice import pad_p


def _reduction(
    name: str,
    op: str,
    init: Callable[[Any], Any],
    accepts: Sequence[str],
    jvp: Callable[..., Any] | None,
    doc: str,
    combine: Callable[..., Any] | None = None,
) -> Primitive:
    """A primitive that reduces over axes with an associative operation.

    Args:
        name: its name.
        op: the StableHLO operation on two scalars.
        init: (dtype) -> the neutral element.
        accepts: the kinds of dtype.
        jvp: derivative rule; None for an operation on integers and bits.
        doc: what it computes.
        combine: the operation on complex scalars, which StableHLO's does not take.
    """

    def abstract(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
        check_kind(name, x, accepts)
        check_reduce_axes(name, x, axes)
        return make_aval(without(x.shape, axes), x.dtype, x.weak_type)

    def lower(ctx: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        dtype = ctx.aval_out.dtype
        start = ctx.const(init(dtype), make_aval((), dtype))
        out = ctx.hlo.ReduceOp([ctx.type(ctx.aval_out)], [x], [start], ctx.dims(sorted(axes)))
        if combine is not None and kind_of(dtype) == "complex":
            scalar = make_aval((), dtype)
            both = [scalar, scalar]
            ctx.region(out.regions[0], both, lambda inner, *xs: inner.fun(combine, xs, both))
        else:
            ctx.scalar_region(out.regions[0], getattr(ctx.hlo, op), dtype)
        return out.result

    def batch(axis: AxisData, args: Any, dims: Any, *, axes: tuple) -> tuple[Any, int]:
        new = shifted(axes, dims[0])
        return prim.bind(args[0], axes=new), out_dim_after(new, dims[0])

    prim = Primitive(
        name=name,
        abstract=abstract,
        lower=lower,
        jvp=jvp or zero_jvp(lambda: prim),
        batch=batch,
        label=lambda params: f"{name[7:]} {params['axes']}",
        doc=doc,
    )
    return prim


def _repeat_along(x: Any, shape: tuple[int, ...], axes: Sequence[int]) -> Any:
    """A reduced array repeated over the axes that are gone."""
    kept = without(range(len(shape)), axes)
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=kept)


def _extremum_jvp(prim: Callable[[], Primitive]) -> Callable[..., Any]:
    def rule(primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = prim().bind(x, axes=axes)
        if is_zero(t):
            return out, zero_of(out)
        shape, dtype = shape_of(x), typeof(x).dtype
        at = eq_p.bind(x, _repeat_along(out, shape, axes))
        hits = convert_element_type_p.bind(at, new_dtype=dtype, weak_type=False)
        count = _repeat_along(sum_axes(hits, axes), shape, axes)
        return out, sum_axes(mul_p.bind(t, div_p.bind(hits, count)), axes)

    return rule


def _prod_jvp(primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """d prod(x) = sum_i dx_i prod_{j != i} x_j, without division, so that zeros are no trouble."""
    (x,), (t,) = primals, tangents
    out = reduce_prod_p.bind(x, axes=axes)
    if is_zero(t):
        return out, zero_of(out)
    shape = shape_of(x)
    kept = without(range(len(shape)), axes)
    order = (*kept, *axes)
    flat = (*[shape[i] for i in kept], -1)
    n = int(np.prod([shape[i] for i in axes], dtype=np.int64))
    flat = (*flat[:-1], n)
    last = len(kept)
    x = reshaped(transpose(x, order), flat)
    others = mul_p.bind(_product_before(x, last, False), _product_before(x, last, True))
    t = reshaped(transpose(t, order), flat)
    return out, sum_axes(mul_p.bind(t, others), (last,))


def _product_before(x: Any, axis: int, reverse: bool) -> Any:
    """The product of the elements before (after) each one along an axis."""
    config: list[Any] = [(0, 0, 0)] * typeof(x).ndim
    if not shape_of(x)[axis]:
        return x
    config[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    moved = pad_p.bind(x, one_value(typeof(x).dtype), padding_config=tuple(config))
    return cumprod_p.bind(moved, axis=axis, reverse=reverse)


reduce_prod_p = _reduction(
    "reduce_prod",
    "multiply",
    one_value,
    NUMBER,
    _prod_jvp,
    "The product over axes; d prod = sum_i dx_i prod of the others.",
)
_ANY = (*NUMBER, "bool")
reduce_max_p: Primitive = _reduction(
    "reduce_max",
    "maximum",
    lowest,
    _ANY,
    _extremum_jvp(lambda: reduce_max_p),
    "The maximum over axes, NaN if any is; ties share the derivative equally.",
    lambda x, y: max_p.bind(x, y),
)
reduce_min_p: Primitive = _reduction(
    "reduce_min",
    "minimum",
    highest,
    _ANY,
    _extremum_jvp(lambda: reduce_min_p),
    "The minimum over axes, NaN if any is; ties share the derivative equally.",
    lambda x, y: min_p.bind(x, y),
)
reduce_and_p = _reduction("reduce_and", "and_", all_ones, BITS, None, "All bits: x & y over axes.")
reduce_or_p = _reduction("reduce_or", "or_", zero_value, BITS, None, "Any bit: x | y over axes.")
reduce_xor_p = _reduction("reduce_xor", "xor", zero_value, BITS, None, "Parity: x ^ y over axes.")


def _reduce(prim: Primitive, operand: Any, axes: Sequence[int]) -> Any:
    return prim.bind(operand, axes=canonical_axes(prim.name, axes, typeof(operand).ndim))


def reduce_prod(operand: Any, axes: Sequence[int]) -> Any:
    """The product of the elements over `axes`."""
    return _reduce(reduce_prod_p, operand, axes)


def reduce_max(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The maximum of the elements over `axes`; -inf (lowest number) over no elements."""
    refuse_sharding("reduce_max", out_sharding)
    return _reduce(reduce_max_p, operand, axes)


def reduce_min(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Any:
    """The minimum of the elements over `axes`; +inf (highest number) over no elements."""
    refuse_sharding("reduce_min", out_sharding)
    return _reduce(reduce_min_p, operand, axes)


def reduce_and(operand: Any, axes: Sequence[int]) -> Any:
    """The bitwise and of booleans or integers over `axes`."""
    return _reduce(reduce_and_p, operand, axes)


def reduce_or(operand: Any, axes: Sequence[int]) -> Any:
    """The bitwise or of booleans or integers over `axes`."""
    return _reduce(reduce_or_p, operand, axes)


def reduce_xor(operand: Any, axes: Sequence[int]) -> Any:
    """The bitwise exclusive or of booleans or integers over `axes`."""
    return _reduce(reduce_xor_p, operand, axes)


# --------------------------------------------------------------------------- argmax, argmin


def _arg_extremum(name: str, direction: str, init: Callable[[Any], Any], doc: str) -> Primitive:
    def abstract(x: ShapedArray, *, axes: tuple[int], index_dtype: Any) -> ShapedArray:
        check_kind(name, x, ("bool", "signed", "unsigned", "float"))
        (axis,) = axes
        if not 0 <= axis < x.ndim:
            raise errors.shape_error(f"{name}: axis {axis} is out of bounds for {x.str_short()}.")
        if x.shape[axis] < 1:
            raise errors.shape_error(
                f"{name} require non-empty reduced dimension, but axis {axis} of "
                f"{x.str_short()} has size 0.",
                "check the size first: an empty axis has no extremum.",
            )
        return make_aval(without(x.shape, axes), np.dtype(index_dtype))

    def lower(ctx: Any, x: Any, *, axes: tuple[int], index_dtype: Any) -> Any:
        (aval,) = ctx.avals_in
        index_dtype = np.dtype(index_dtype)
        scalar, index = make_aval((), aval.dtype), make_aval((), index_dtype)
        positions = ctx.hlo.iota(
            ctx.type(make_aval(aval.shape, index_dtype)), ctx.i64_attr(axes[0])
        )
        op = ctx.hlo.ReduceOp(
            [ctx.type(aval.update(shape=ctx.aval_out.shape)), ctx.type(ctx.aval_out)],
            [x, positions],
            [ctx.const(init(aval.dtype), scalar), ctx.const(0, index)],
            ctx.dims(axes),
        )
        ctx.region(op.regions[0], [scalar, index, scalar, index], body)
        return op.results[1]

    def body(ctx: Any, x: Any, i: Any, y: Any, j: Any) -> list[Any]:
        hlo, (value, index) = ctx.hlo, ctx.avals_in[:2]
        better = _compare(ctx, x, y, direction, value.dtype)
        if dtypes.is_inexact(value.dtype):
            better = hlo.or_(better, _compare(ctx, x, x, "NE", value.dtype))
        tie = _compare(ctx, x, y, "EQ", value.dtype)
        earlier = _compare(ctx, i, j, "LT", index.dtype)
        first = hlo.or_(better, hlo.and_(tie, earlier))
        return [hlo.select(better, x, y), hlo.select(first, i, j)]

    def batch(axis: AxisData, args: Any, dims: Any, *, axes: tuple, index_dtype: Any) -> Any:
        new = shifted(axes, dims[0])
        return prim.bind(args[0], axes=new, index_dtype=index_dtype), out_dim_after(new, dims[0])

    prim = Primitive(
        name=name, abstract=abstract, lower=lower, jvp=zero_jvp(lambda: prim), batch=batch, doc=doc
    )
    return prim


def _compare(ctx: Any, x: Any, y: Any, direction: str, dtype: Any) -> Any:
    if dtypes.is_inexact(dtype):
        kind = "FLOAT"
    else:
        kind = "SIGNED" if dtypes.issubdtype(dtype, np.signedinteger) else "UNSIGNED"
    hlo = ctx.hlo
    return hlo.compare(
        x,
        y,
        hlo.ComparisonDirectionAttr.get(direction),
        compare_type=hlo.ComparisonTypeAttr.get(kind),
    )


argmax_p = _arg_extremum(
    "argmax", "GT", lowest, "The first position of the maximum along an axis, or of a NaN."
)
argmin_p = _arg_extremum(
    "argmin", "LT", highest, "The first position of the minimum along an axis, or of a NaN."
)


def _arg(prim: Primitive, operand: Any, axis: int, index_dtype: Any) -> Any:
    (axis,) = canonical_axes(prim.name, (operator.index(axis),), typeof(operand).ndim)
    dtype = dtypes.canonicalize_dtype(index_dtype)
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(f"{prim.name}: index_dtype must be an integer dtype, got {dtype}.")
    return prim.bind(operand, axes=(axis,), index_dtype=dtype)


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The position of the first maximum along `axis` (of the first NaN, if there is one).

    Raises:
        ValueError: the axis is empty.
    """
    return _arg(argmax_p, operand, axis, index_dtype)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The position of the first minimum along `axis` (of the first NaN, if there is one).

    Raises:
        ValueError: the axis is empty.
    """
    return _arg(argmin_p, operand, axis, index_dtype)
