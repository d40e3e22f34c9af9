"""Cutting and joining: slice, pad, concatenate, split, and what is written with them.

Builds on shape.py. Tested in tests/lax/test_slice.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front, to_dim
from pullback.core.jvp import Zero, is_zero, linear_jvp
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.compare_select import select_n_p
from pullback.lax.elementwise import sub_p
from pullback.lax.operands import (
    all_weak,
    canonical_axis,
    canonical_shape,
    describe,
    inserted,
    ints,
    same_dtype,
    shape_of,
)
from pullback.lax.shape import (
    broadcast_in_dim_p,
    squeeze,
    sum_axes,
    zeros,
)

# --------------------------------------------------------------------------- slice


def _slice_abstract(
    x: ShapedArray, *, start_indices: tuple, limit_indices: tuple, strides: tuple | None
) -> ShapedArray:
    steps = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        raise errors.shape_error(
            f"slice: start_indices {start_indices}, limit_indices {limit_indices} and strides "
            f"{strides} must have one entry per axis of the operand {x.str_short()}."
        )
    sizes = []
    for axis, (lo, hi, step, n) in enumerate(
        zip(start_indices, limit_indices, steps, x.shape, strict=True)
    ):
        if not 0 <= lo <= hi <= n or step < 1:
            raise errors.shape_error(
                f"slice: 0 <= start <= limit <= size and stride >= 1 do not hold on axis {axis}: "
                f"start {lo}, limit {hi}, stride {step} for operand {x.str_short()}.",
                "x[start:stop:step] cuts bounds to the array.",
            )
        sizes.append(-(-(hi - lo) // step))
    return make_aval(tuple(sizes), x.dtype, x.weak_type)


def _slice_lower(
    ctx: Any, x: Any, *, start_indices: tuple, limit_indices: tuple, strides: tuple | None
) -> Any:
    steps = strides or (1,) * len(start_indices)
    return ctx.hlo.slice(
        x, ctx.i64_array(start_indices), ctx.i64_array(limit_indices), ctx.i64_array(steps)
    )


def _slice_transpose(
    ct: Any, x: Any, *, start_indices: tuple, limit_indices: tuple, strides: tuple | None
) -> list[Any]:
    aval = cotangent_aval(x)
    if is_zero(ct):
        return [Zero(aval)]
    steps = strides or (1,) * aval.ndim
    config = []
    for lo, step, n, m in zip(start_indices, steps, aval.shape, shape_of(ct), strict=True):
        spread = (m - 1) * step + 1 if m else 0
        config.append((lo, n - lo - spread, step - 1))
    return [pad_p.bind(ct, _zero(aval.dtype), padding_config=tuple(config))]


def _slice_batch(
    axis: AxisData,
    args: Any,
    dims: Any,
    *,
    start_indices: tuple,
    limit_indices: tuple,
    strides: tuple | None,
) -> tuple[Any, int]:
    d = dims[0]
    out = slice_p.bind(
        args[0],
        start_indices=inserted(start_indices, d, 0),
        limit_indices=inserted(limit_indices, d, axis.size),
        strides=None if strides is None else inserted(strides, d, 1),
    )
    return out, d


slice_p = Primitive(
    name="slice",
    abstract=_slice_abstract,
    lower=_slice_lower,
    transpose=_slice_transpose,
    batch=_slice_batch,
    label=lambda params: f"slice {params['start_indices']}:{params['limit_indices']}",
    doc="The elements from start up to limit in steps, on each axis.",
)


def _zero(dtype: Any) -> Any:
    return np.zeros((), dtype)[()]


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """The part of the operand from start to limit (exclusive) in steps, with known bounds.

    Args:
        operand: array.
        start_indices, limit_indices: per axis, 0 <= start <= limit <= size.
        strides: per axis, at least 1; None is 1.

    Returns:
        An array of the operand's rank and dtype.

    Raises:
        TypeError: bounds outside the operand.
    """
    starts, limits = ints(start_indices), ints(limit_indices)
    steps = None if strides is None else ints(strides)
    if steps is not None and all(s == 1 for s in steps):
        steps = None
    if (
        steps is None
        and hasattr(operand, "aval")
        and limits == operand.shape
        and not any(starts)
        and len(starts) == len(limits)
    ):
        return operand
    return slice_p.bind(operand, start_indices=starts, limit_indices=limits, strides=steps)


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """`slice` along one axis; bounds may be negative (from the end) or None.

    Example:
        >>> from pullback import lax
        >>> import numpy as np
        >>> print(lax.slice_in_dim(np.arange(5), 1, -1))
        [1 2 3]
    """
    shape = shape_of(operand)
    axis = canonical_axis("slice_in_dim", axis, len(shape))
    n = shape[axis]
    start = 0 if start_index is None else operator.index(start_index)
    limit = n if limit_index is None else operator.index(limit_index)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + n if start < 0 else start
    limits[axis] = limit + n if limit < 0 else limit
    strides[axis] = operator.index(stride)
    return slice(operand, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """The operand at one known index of an axis, which stays with size 1 if `keepdims`.

    Raises:
        IndexError: out of bounds.
    """
    shape = shape_of(operand)
    axis = canonical_axis("index_in_dim", axis, len(shape))
    n, number = shape[axis], operator.index(index)
    if not -n <= number < n:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {n}")
    number += n if number < 0 else 0
    out = slice_in_dim(operand, number, number + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


# --------------------------------------------------------------------------- pad


def _pad_abstract(x: ShapedArray, value: ShapedArray, *, padding_config: tuple) -> ShapedArray:
    same_dtype("pad", x, value)
    if value.ndim:
        raise errors.shape_error(
            f"pad: the padding value must be a scalar, got {value.str_short()}."
        )
    if len(padding_config) != x.ndim:
        raise errors.shape_error(
            f"pad: padding_config must have one (low, high, interior) per axis of the operand "
            f"{x.str_short()}, got {len(padding_config)}: {padding_config}."
        )
    sizes = []
    for axis, (n, (lo, hi, inner)) in enumerate(zip(x.shape, padding_config, strict=True)):
        size = lo + hi + n + max(n - 1, 0) * inner
        if inner < 0 or size < 0:
            raise errors.shape_error(
                f"pad: (low, high, interior) {(lo, hi, inner)} on axis {axis} of "
                f"{x.str_short()} gives a negative size {size} or has negative interior.",
                "pad by less than the operand's size.",
            )
        sizes.append(size)
    return make_aval(tuple(sizes), x.dtype, all_weak(x, value))


def _pad_lower(ctx: Any, x: Any, value: Any, *, padding_config: tuple) -> Any:
    lo, hi, inner = zip(*padding_config, strict=True) if padding_config else ((), (), ())
    return ctx.hlo.pad(x, value, ctx.i64_array(lo), ctx.i64_array(hi), ctx.i64_array(inner))


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: tuple) -> list[Any]:
    if is_zero(ct):
        return [Zero(cotangent_aval(a)) if is_undefined(a) else None for a in (x, value)]
    inner = _unpad(ct, cotangent_aval(x).shape, padding_config)
    x_ct = inner if is_undefined(x) else None
    if not is_undefined(value):
        return [x_ct, None]
    all_axes = tuple(range(len(padding_config)))
    return [x_ct, sub_p.bind(sum_axes(ct, all_axes), sum_axes(inner, all_axes))]


def _unpad(ct: Any, shape: tuple[int, ...], padding_config: tuple) -> Any:
    """What of a padded array stands where the operand of `pad` was; zero where it was cut off."""
    whole = tuple([(-lo, -hi, 0) for lo, hi, _ in padding_config])
    spread = pad_p.bind(ct, _zero(typeof(ct).dtype), padding_config=whole)
    strides = tuple([inner + 1 for _, _, inner in padding_config])
    return slice(spread, (0,) * len(shape), shape_of(spread), strides)


def _pad_batch(axis: AxisData, args: Any, dims: Any, *, padding_config: tuple) -> Any:
    (x, value), (d, value_dim) = args, dims
    if value_dim is None:
        return pad_p.bind(x, value, padding_config=inserted(padding_config, d, (0, 0, 0))), d
    x = bdim_at_front(x, d, axis.size)
    config = ((0, 0, 0), *padding_config)
    dtype, shape = typeof(x).dtype, shape_of(x)
    padded = pad_p.bind(x, _zero(dtype), padding_config=config)
    inside = broadcast_in_dim_p.bind(np.True_, shape=shape, broadcast_dimensions=())
    mask = pad_p.bind(inside, np.False_, padding_config=config)
    fill = broadcast_in_dim_p.bind(value, shape=shape_of(padded), broadcast_dimensions=(0,))
    return select_n_p.bind(mask, fill, padded), 0


pad_p: Primitive = Primitive(
    name="pad",
    abstract=_pad_abstract,
    lower=_pad_lower,
    jvp=linear_jvp(lambda: pad_p),
    transpose=_pad_transpose,
    batch=_pad_batch,
    label=lambda params: f"pad {params['padding_config']}",
    doc="The operand with a value put around and between its elements; negative widths cut.",
)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """The operand with `padding_value` around and between its elements.

    Args:
        operand: array.
        padding_value: scalar of the operand's dtype.
        padding_config: per axis (low, high, interior); low and high may be negative, which cuts.

    Returns:
        An array of size low + high + n + (n - 1) * interior per axis.

    Raises:
        TypeError: the dtypes differ, or the value is no scalar.
        ValueError: a size would be negative.
    """
    config = tuple([ints(c) for c in padding_config])
    if type(padding_value) in (bool, int, float, complex):
        aval = typeof(operand)
        if not aval.weak_type:
            padding_value = np.asarray(padding_value).astype(aval.dtype)[()]
    return pad_p.bind(operand, padding_value, padding_config=config)


# --------------------------------------------------------------------------- concatenate


def _concatenate_abstract(*avals: ShapedArray, dimension: int) -> ShapedArray:
    first = avals[0]
    same_dtype("concatenate", *avals)
    if not 0 <= dimension < first.ndim:
        raise errors.shape_error(
            f"concatenate: dimension {dimension} is out of bounds for operands {describe(*avals)}."
        )
    rest = first.shape[:dimension] + first.shape[dimension + 1 :]
    for a in avals[1:]:
        if a.ndim != first.ndim or a.shape[:dimension] + a.shape[dimension + 1 :] != rest:
            raise errors.shape_error(
                f"Cannot concatenate arrays with shapes that differ in dimensions other than "
                f"the one being concatenated: concatenating along dimension {dimension} for "
                f"shapes {', '.join(str(a.shape) for a in avals)}.",
                "choose the dimension in which they differ, or pad them with lax.pad.",
            )
    size = sum([a.shape[dimension] for a in avals])
    shape = (*first.shape[:dimension], size, *first.shape[dimension + 1 :])
    return make_aval(shape, first.dtype, all_weak(*avals))


def _concatenate_lower(ctx: Any, *values: Any, dimension: int) -> Any:
    if len(values) == 1:
        return values[0]
    return ctx.hlo.concatenate(values, dimension)


def _concatenate_transpose(ct: Any, *args: Any, dimension: int) -> list[Any]:
    avals = [cotangent_aval(a) for a in args]
    if is_zero(ct):
        return [Zero(v) if is_undefined(a) else None for a, v in zip(args, avals, strict=True)]
    out, start = [], 0
    for arg, aval in zip(args, avals, strict=True):
        stop = start + aval.shape[dimension]
        out.append(slice_in_dim(ct, start, stop, 1, dimension) if is_undefined(arg) else None)
        start = stop
    return out


def _concatenate_batch(axis: AxisData, args: Any, dims: Any, *, dimension: int) -> tuple[Any, int]:
    d = next(d for d in dims if d is not None)
    args = [to_dim(x, b, axis.size, d) for x, b in zip(args, dims, strict=True)]
    return concatenate_p.bind(*args, dimension=dimension + (dimension >= d)), d


concatenate_p: Primitive = Primitive(
    name="concatenate",
    abstract=_concatenate_abstract,
    lower=_concatenate_lower,
    jvp=linear_jvp(lambda: concatenate_p),
    transpose=_concatenate_transpose,
    batch=_concatenate_batch,
    label=lambda params: f"concatenate axis {params['dimension']}",
    doc="The operands one after the other along an axis.",
)


def concatenate(operands: Any, dimension: int) -> Any:
    """The arrays joined along axis `dimension`; other sizes and dtypes must agree.

    Raises:
        ValueError: no operands.
        TypeError: shapes or dtypes differ.
    """
    operands = list(operands)
    if not operands:
        raise ValueError(
            "concatenate: the list of arrays is empty, so the result has no dtype.\n"
            "Instead: give at least one array, or make an empty one with lax.full."
        )
    if len(operands) == 1 and hasattr(operands[0], "aval"):
        return operands[0]
    dimension = canonical_axis("concatenate", dimension, typeof(operands[0]).ndim)
    return concatenate_p.bind(*operands, dimension=dimension)


# --------------------------------------------------------------------------- split


def _split_abstract(x: ShapedArray, *, sizes: tuple[int, ...], axis: int) -> list[ShapedArray]:
    if sum(sizes) != x.shape[axis] or any(s < 0 for s in sizes):
        raise errors.shape_error(
            f"split: sizes {sizes} add to {sum(sizes)}, but axis {axis} of {x.str_short()} has "
            f"size {x.shape[axis]}.",
            "give sizes that add to the size of the axis.",
        )
    return [
        make_aval((*x.shape[:axis], s, *x.shape[axis + 1 :]), x.dtype, x.weak_type) for s in sizes
    ]


def _split_lower(ctx: Any, x: Any, *, sizes: tuple[int, ...], axis: int) -> list[Any]:
    outs, start = [], 0
    shape = ctx.avals_in[0].shape
    for size in sizes:
        lo, hi = [0] * len(shape), list(shape)
        lo[axis], hi[axis] = start, start + size
        ones = ctx.i64_array((1,) * len(shape))
        outs.append(ctx.hlo.slice(x, ctx.i64_array(lo), ctx.i64_array(hi), ones))
        start += size
    return outs


def _split_jvp(primals: Any, tangents: Any, *, sizes: tuple, axis: int) -> tuple[list, list]:
    outs = split_p.bind(*primals, sizes=sizes, axis=axis)
    return outs, split_p.bind(*tangents, sizes=sizes, axis=axis)


def _split_transpose(cts: Any, x: Any, *, sizes: tuple, axis: int) -> list[Any]:
    if all(is_zero(ct) for ct in cts):
        return [Zero(cotangent_aval(x))]
    parts: list[Any] = []
    for ct in cts:
        if is_zero(ct) and parts and is_zero(parts[-1]):  # neighbours make one block of zeros
            shape = list(ct.aval.shape)
            shape[axis] += parts.pop().aval.shape[axis]
            ct = Zero(ct.aval.update(shape=tuple(shape)))
        parts.append(ct)
    parts = [zeros(ct.aval) if is_zero(ct) else ct for ct in parts]
    return [concatenate_p.bind(*parts, dimension=axis)]


def _split_batch(axis_data: AxisData, args: Any, dims: Any, *, sizes: tuple, axis: int) -> Any:
    outs = split_p.bind(args[0], sizes=sizes, axis=axis + (axis >= dims[0]))
    return outs, [dims[0]] * len(outs)


split_p = Primitive(
    name="split",
    abstract=_split_abstract,
    lower=_split_lower,
    jvp=_split_jvp,
    transpose=_split_transpose,
    batch=_split_batch,
    multiple_results=True,
    label=lambda params: f"split {params['sizes']}",
    doc="Consecutive parts along an axis.",
)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Consecutive parts of the operand, of these sizes along `axis`.

    Raises:
        ValueError: the sizes do not add up.
    """
    axis = canonical_axis("split", axis, typeof(operand).ndim)
    return split_p.bind(operand, sizes=canonical_shape("split", sizes), axis=axis)
