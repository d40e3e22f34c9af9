"""Sorting by one or several keys, and the largest elements.

Builds on gather.py. Tested in tests/lax/test_sort.py.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front
from pullback.core.jvp import is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.lax.elementwise import neg_p
from pullback.lax.families import check_kind
from pullback.lax.fill import iota_p
from pullback.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather_p
from pullback.lax.operands import canonical_axis, shape_of, without
from pullback.lax.shape import reshaped

# --------------------------------------------------------------------------- sort


def _sort_abstract(
    *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
) -> list[ShapedArray]:
    if any(a.shape != avals[0].shape for a in avals):
        raise errors.shape_error(
            f"sort: operands must have one shape, got {', '.join(a.str_short() for a in avals)}."
        )
    if not 1 <= num_keys <= len(avals):
        raise errors.shape_error(
            f"sort: num_keys must be between 1 and the number of operands {len(avals)}, "
            f"got {num_keys}."
        )
    return list(avals)


def _sort_lower(
    ctx: Any, *values: Any, dimension: int, is_stable: bool, num_keys: int
) -> list[Any]:
    if not ctx.avals_in[0].size:
        return list(values)
    op = ctx.hlo.SortOp(
        [ctx.type(a) for a in ctx.avals_in],
        list(values),
        dimension=ctx.i64_attr(dimension),
        is_stable=ctx.ir.BoolAttr.get(is_stable),
    )
    scalars = [make_aval((), a.dtype) for a in ctx.avals_in for _ in range(2)]

    def body(inner: Any, *xs: Any) -> list[Any]:
        keys = [part for i in range(num_keys) for part in _key_parts(inner, scalars, xs, i)]
        less = None
        for x, y, kind in reversed(keys):
            this = _compare(inner, x, y, "LT", kind)
            if less is not None:
                tie = _compare(inner, x, y, "EQ", kind)
                this = inner.hlo.or_(this, inner.hlo.and_(tie, less))
            less = this
        return [less]

    ctx.region(op.regions[0], scalars, body)
    return list(op.results)


def _key_parts(ctx: Any, scalars: Any, xs: Any, i: int) -> list[tuple[Any, Any, str]]:
    """The pairs to compare for key i: a complex key counts as real part, then imaginary part."""
    x, y, dtype = xs[2 * i], xs[2 * i + 1], scalars[2 * i].dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        aval = make_aval((), dtypes.real_dtype(dtype))
        parts = [(ctx.hlo.real(x), ctx.hlo.real(y)), (ctx.hlo.imag(x), ctx.hlo.imag(y))]
        return [(_ordered(ctx, a, aval), _ordered(ctx, b, aval), "TOTALORDER") for a, b in parts]
    if dtypes.is_inexact(dtype):
        aval = scalars[2 * i]
        return [(_ordered(ctx, x, aval), _ordered(ctx, y, aval), "TOTALORDER")]
    signed = dtypes.issubdtype(dtype, np.signedinteger)
    return [(x, y, "SIGNED" if signed else "UNSIGNED")]


def _ordered(ctx: Any, x: Any, aval: ShapedArray) -> Any:
    """A float for the total order with the two zeros made one, and all NaN one, which is last."""
    zero, nan = ctx.const(0, aval), ctx.const(np.nan, aval)
    x = ctx.hlo.select(_compare(ctx, x, zero, "EQ", "FLOAT"), zero, x)
    return ctx.hlo.select(_compare(ctx, x, x, "NE", "FLOAT"), nan, x)


def _compare(ctx: Any, x: Any, y: Any, direction: str, kind: str) -> Any:
    hlo = ctx.hlo
    return hlo.compare(
        x,
        y,
        hlo.ComparisonDirectionAttr.get(direction),
        compare_type=hlo.ComparisonTypeAttr.get(kind),
    )


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """The elements of `x` at distinct positions along an axis, one index per result element."""
    shape = shape_of(indices)
    others = without(range(len(shape)), (axis,))
    return gather_p.bind(
        x,
        reshaped(indices, (*shape, 1)),
        dimension_numbers=GatherDimensionNumbers(
            offset_dims=(),
            collapsed_slice_dims=(axis,),
            start_index_map=(axis,),
            operand_batching_dims=others,
            start_indices_batching_dims=others,
        ),
        slice_sizes=tuple([min(1, n) for n in shape_of(x)]),
        indices_are_sorted=False,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )


def _sort_jvp(
    primals: Any, tangents: Any, *, dimension: int, is_stable: bool, num_keys: int
) -> tuple[list, list]:
    """Tangents are moved like their elements."""
    params = {"dimension": dimension, "is_stable": is_stable, "num_keys": num_keys}
    if all(is_zero(t) for t in tangents):
        outs = sort_p.bind(*primals, **params)
        return outs, [zero_of(o) for o in outs]
    position = iota_p.bind(
        dtype=np.dtype(np.int32), shape=shape_of(primals[0]), dimension=dimension
    )
    *outs, order = sort_p.bind(*primals, position, **params)
    return outs, [
        zero_of(o) if is_zero(t) else take_along(t, order, dimension)
        for o, t in zip(outs, tangents, strict=True)
    ]


def _sort_batch(
    axis: AxisData, args: Any, dims: Any, *, dimension: int, **params: Any
) -> tuple[list, list]:
    args = [bdim_at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
    outs = sort_p.bind(*args, dimension=dimension + 1, **params)
    return outs, [0] * len(outs)


sort_p = Primitive(
    name="sort",
    abstract=_sort_abstract,
    lower=_sort_lower,
    jvp=_sort_jvp,
    batch=_sort_batch,
    multiple_results=True,
    label=lambda params: f"sort axis {params['dimension']}",
    doc="Operands in the increasing order of the first ones along an axis.",
)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """The operand (or several arrays alike) in increasing order along an axis.

    Args:
        operand: array, or a sequence of arrays of one shape, the first ones being keys.
        dimension: the axis.
        is_stable: keep the order of equal keys.
        num_keys: how many of the arrays are keys; later ones decide ties.

    Returns:
        An array, or a tuple of arrays all moved alike. NaN comes last; complex numbers are ordered
        by real part, then imaginary part.

    Raises:
        TypeError: shapes differ.
        ValueError: num_keys is out of range, or there is no such axis.
    """
    several = isinstance(operand, (list, tuple))
    arrays = list(operand) if several else [operand]
    if not arrays:
        raise errors.shape_error("sort requires at least one operand")
    dimension = canonical_axis("sort", dimension, typeof(arrays[0]).ndim)
    outs = sort_p.bind(
        *arrays,
        dimension=dimension,
        is_stable=bool(is_stable),
        num_keys=operator.index(num_keys),
    )
    return tuple(outs) if several else outs[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """Keys in increasing order along an axis, and values moved alike."""
    dimension = canonical_axis("sort_key_val", dimension, typeof(keys).ndim)
    sorted_keys, moved = sort_p.bind(
        keys, values, dimension=dimension, is_stable=bool(is_stable), num_keys=1
    )
    return sorted_keys, moved


# --------------------------------------------------------------------------- top_k


def _top_k_abstract(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    check_kind("top_k", x, ("bool", "signed", "unsigned", "float"))
    if not 0 <= axis < x.ndim:
        raise errors.shape_error(f"top_k: the operand needs an axis {axis}, got {x.str_short()}.")
    if not 0 <= k <= x.shape[axis]:
        raise errors.shape_error(
            f"top_k: k must be between 0 and the size {x.shape[axis]} of axis {axis}, got {k}.",
            "choose a smaller k.",
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [make_aval(shape, x.dtype, x.weak_type), make_aval(shape, np.dtype(np.int32))]


def _top_k_lower(ctx: Any, x: Any, *, k: int, axis: int) -> list[Any]:
    """A stable sort of the elements from the largest down, with their positions."""
    (aval,) = ctx.avals_in
    values, index = ctx.avals_out
    if not values.size:
        return [ctx.const(0, a) for a in ctx.avals_out]
    whole = index.update(shape=aval.shape)
    positions = ctx.hlo.iota(ctx.type(whole), ctx.i64_attr(axis))
    op = ctx.hlo.SortOp(
        [ctx.type(aval), ctx.type(whole)],
        [x, positions],
        dimension=ctx.i64_attr(axis),
        is_stable=ctx.ir.BoolAttr.get(True),
    )
    scalars = [make_aval((), a.dtype) for a in (aval, aval, whole, whole)]

    def body(inner: Any, *xs: Any) -> list[Any]:
        ((a, b, kind),) = _key_parts(inner, scalars, xs, 0)
        return [_compare(inner, a, b, "GT", kind)]

    ctx.region(op.regions[0], scalars, body)
    zeros, ones = ctx.dims((0,) * aval.ndim), ctx.dims((1,) * aval.ndim)
    return [ctx.hlo.slice(r, zeros, ctx.dims(values.shape), ones) for r in op.results]


def _top_k_jvp(primals: Any, tangents: Any, *, k: int, axis: int) -> tuple[list, list]:
    values, indices = top_k_p.bind(*primals, k=k, axis=axis)
    (t,) = tangents
    t_values = zero_of(values) if is_zero(t) else take_along(t, indices, axis)
    return [values, indices], [t_values, zero_of(indices)]


def _top_k_batch(axis_data: AxisData, args: Any, dims: Any, *, k: int, axis: int) -> Any:
    d = dims[0]
    return top_k_p.bind(args[0], k=k, axis=axis + (axis >= d)), [d, d]


top_k_p = Primitive(
    name="top_k",
    abstract=_top_k_abstract,
    lower=_top_k_lower,
    jvp=_top_k_jvp,
    batch=_top_k_batch,
    multiple_results=True,
    label=lambda params: f"top {params['k']}",
    doc="The k largest elements along an axis, in decreasing order, and where they are.",
)


def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Any, Any]:
    """The k largest elements along an axis in decreasing order, and their positions.

    Args:
        operand: array of ordered numbers.
        k: how many.
        axis: the axis.

    Returns:
        Values, and positions in int32; of equal elements the first come first, NaN is largest.

    Raises:
        ValueError: k is negative or larger than the axis.
    """
    axis = canonical_axis("top_k", axis, typeof(operand).ndim)
    values, indices = top_k_p.bind(operand, k=operator.index(k), axis=axis)
    return values, indices


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The k largest elements along an axis, as `top_k`: all of them, whatever the recall asked for.

    Args:
        operand: array of floating numbers.
        k: how many.
        reduction_dimension: the axis.
        recall_target: the share of the true ones that is enough.
        reduction_input_size_override: of no use on one device.
        aggregate_to_topk: False (more candidates than k) is not supported.

    Returns:
        Values and int32 positions.
    """
    _check_approximate("approx_max_k", operand, aggregate_to_topk)
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The k smallest elements along an axis and their positions; see `approx_max_k`."""
    _check_approximate("approx_min_k", operand, aggregate_to_topk)
    values, positions = top_k(neg_p.bind(operand), k, axis=reduction_dimension)
    return neg_p.bind(values), positions


def _check_approximate(name: str, operand: Any, aggregate_to_topk: bool) -> None:
    check_kind(name, typeof(operand), ("float",))
    if not aggregate_to_topk:
        raise NotImplementedError(
            f"{name}: aggregate_to_topk=False is not supported.\nInstead: use the default."
        )
