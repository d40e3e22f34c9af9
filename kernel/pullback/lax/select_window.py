"""Reading and adding at the extremum of each window: the derivatives of window extrema.

Builds on window_shapes.py. Tested in tests/lax/test_window.py.
"""

from __future__ import annotations

from typing import Any

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval
from pullback.core.batching import AxisData, to_dim
from pullback.core.jvp import Zero, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.limits import highest, lowest
from pullback.lax.operands import same_dtype
from pullback.lax.window_shapes import check_windows, insert_axis, lower_window, result_shape

_Select = str  # 'ge' picks the first maximum of a window, 'le' the first minimum


def _compare(ctx: Any, select: _Select, x: Any, y: Any) -> Any:
    direction = ctx.hlo.ComparisonDirectionAttr.get(select.upper())
    return ctx.hlo.compare(x, y, direction)


# --------------------------------------------------------------------------- gather


def _gather_abstract(t: ShapedArray, x: ShapedArray, *, select: _Select, **p: Any) -> ShapedArray:
    same_dtype("select_and_gather_add", t, x)
    check_windows("select_and_gather_add", x, p)
    return make_aval(result_shape(x.shape, p), t.dtype)


def _gather_lower(ctx: Any, t: Any, x: Any, *, select: _Select, **p: Any) -> Any:
    dtype = ctx.aval_out.dtype
    scalar = make_aval((), dtype)
    edge = lowest(dtype) if select == "ge" else highest(dtype)
    inits = [ctx.const(edge, scalar), ctx.const(0, scalar)]
    inner_ctx = _two_results(ctx)
    op = lower_window(inner_ctx, [x, t], inits, p)
    if isinstance(op, list):
        return op[1]

    def body(inner: Any, x1: Any, t1: Any, x2: Any, t2: Any) -> list[Any]:
        first = _compare(inner, select, x1, x2)
        return [inner.hlo.select(first, x1, x2), inner.hlo.select(first, t1, t2)]

    ctx.region(op.regions[0], [scalar] * 4, body)
    return op.results[1]


def _two_results(ctx: Any) -> Any:
    """The context of the same operation with the selected value as a further result."""
    return type(ctx)(ctx.module_context, ctx.avals_in, [ctx.aval_out, ctx.aval_out], ctx.eqn)


def _gather_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    (t, x), (dt, _) = primals, tangents
    out = select_and_gather_add_p.bind(t, x, **params)
    if is_zero(dt):
        return out, zero_of(out)
    return out, select_and_gather_add_p.bind(dt, x, **params)


def _gather_transpose(ct: Any, t: Any, x: Any, **params: Any) -> list[Any]:
    if is_undefined(x):
        raise TypeError("select_and_gather_add is not linear in the array that selects.")
    if is_zero(ct):
        return [Zero(cotangent_aval(t)), None]
    return [select_and_scatter_add_p.bind(ct, x, **params), None]


def _gather_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
    d = dims[1] if dims[1] is not None else dims[0]
    args = [to_dim(a, b, axis.size, d) for a, b in zip(args, dims, strict=True)]
    return select_and_gather_add_p.bind(*args, **insert_axis(params, d)), d


select_and_gather_add_p = Primitive(
    name="select_and_gather_add",
    abstract=_gather_abstract,
    lower=_gather_lower,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    doc="What the first operand holds where the second has the extremum of each window.",
)


# --------------------------------------------------------------------------- scatter


def _scatter_abstract(s: ShapedArray, x: ShapedArray, *, select: _Select, **p: Any) -> ShapedArray:
    same_dtype("select_and_scatter_add", s, x)
    check_windows("select_and_scatter_add", x, p)
    if s.shape != result_shape(x.shape, p):
        raise errors.shape_error(
            f"select_and_scatter_add: one source element per window is needed, shape "
            f"{result_shape(x.shape, p)}; got {s.str_short()} for operand {x.str_short()}."
        )
    return make_aval(x.shape, s.dtype)


def _scatter_lower(ctx: Any, s: Any, x: Any, *, select: _Select, **p: Any) -> Any:
    dtype = ctx.aval_out.dtype
    scalar = make_aval((), dtype)
    if not ctx.avals_in[0].size or not ctx.aval_out.size:
        return ctx.const(0, ctx.aval_out)
    op = ctx.hlo.SelectAndScatterOp(
        ctx.type(ctx.aval_out),
        x,
        s,
        ctx.const(0, scalar),
        window_dimensions=ctx.dims(p["window_dimensions"]),
        window_strides=ctx.dims(p["window_strides"]),
        padding=ctx.i64_matrix(p["padding"]),
    )
    bits = [scalar, scalar]
    ctx.region(op.select, bits, lambda inner, a, b: [_compare(inner, select, a, b)])
    ctx.region(op.scatter, bits, lambda inner, a, b: [inner.hlo.add(a, b)])
    return op.result


def _scatter_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    (s, x), (ds, _) = primals, tangents
    out = select_and_scatter_add_p.bind(s, x, **params)
    if is_zero(ds):
        return out, zero_of(out)
    return out, select_and_scatter_add_p.bind(ds, x, **params)


def _scatter_transpose(ct: Any, s: Any, x: Any, **params: Any) -> list[Any]:
    if is_undefined(x):
        raise TypeError("select_and_scatter_add is not linear in the array that selects.")
    if is_zero(ct):
        return [Zero(cotangent_aval(s)), None]
    return [select_and_gather_add_p.bind(ct, x, **params), None]


def _scatter_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
    d = dims[1] if dims[1] is not None else dims[0]
    args = [to_dim(a, b, axis.size, d) for a, b in zip(args, dims, strict=True)]
    return select_and_scatter_add_p.bind(*args, **insert_axis(params, d)), d


select_and_scatter_add_p = Primitive(
    name="select_and_scatter_add",
    abstract=_scatter_abstract,
    lower=_scatter_lower,
    jvp=_scatter_jvp,
    transpose=_scatter_transpose,
    batch=_scatter_batch,
    doc="The source's elements added where the operand has the extremum of each window.",
)
