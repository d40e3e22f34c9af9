"""Convolution of any rank, layout, stride, dilation and grouping.

Builds on shape.py and conv_shapes.py; shorter forms are in conv_public.py.
Tested in tests/lax/test_conv.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, move_dim
from pullback.core.jvp import Zero, add_tangents, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.complex import complex_p, imag_p, real_p
from pullback.lax.conv_shapes import (
    ConvDimensionNumbers,
    canonical_padding,
    conv_dimension_numbers,
    conv_shape_tuple,
    dilated,
    placed,
    positive,
)
from pullback.lax.convert import convert_element_type_p
from pullback.lax.elementwise import add_p, sub_p
from pullback.lax.operands import all_weak, refuse_sharding, same_dtype, shape_of
from pullback.lax.precision import canonical_precision, precision_config
from pullback.lax.shape import reshaped, rev, transpose

# Parameters of the primitive that its rules take together.
_Params = dict[str, Any]


def _check_groups(lhs: ShapedArray, rhs: ShapedArray, p: _Params) -> None:
    numbers = p["dimension_numbers"]
    n, c = (lhs.shape[i] for i in numbers.lhs_spec[:2])
    o, i = (rhs.shape[j] for j in numbers.rhs_spec[:2])
    features, batches = p["feature_group_count"], p["batch_group_count"]
    types = f"lhs {lhs.str_short()} and rhs {rhs.str_short()}"
    if features < 1 or batches < 1 or (features > 1 and batches > 1):
        raise errors.shape_error(
            f"conv_general_dilated: feature_group_count {features} and batch_group_count {batches} "
            "must be positive and at most one of them greater than 1."
        )
    if c != i * features:
        raise errors.shape_error(
            f"conv_general_dilated: lhs has {c} features, but rhs takes {i} in each of "
            f"{features} groups (feature_group_count): {types}, {numbers}.",
            "the kernel's input features times feature_group_count must be the input's features.",
        )
    if o % features or o % batches or n % batches:
        raise errors.shape_error(
            f"conv_general_dilated: {o} output features (and batch size {n}) must be multiples of "
            f"feature_group_count {features} and batch_group_count {batches}: {types}."
        )


def _conv_abstract(lhs: ShapedArray, rhs: ShapedArray, **p: Any) -> ShapedArray:
    same_dtype("conv_general_dilated", lhs, rhs)
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise errors.shape_error(
            "conv_general_dilated: lhs and rhs must have one rank of at least 2, got "
            f"{lhs.str_short()} and {rhs.str_short()}."
        )
    numbers = p["dimension_numbers"]
    _check_groups(lhs, rhs, p)
    l_sizes = [lhs.shape[i] for i in numbers.lhs_spec]
    r_sizes = [rhs.shape[i] for i in numbers.rhs_spec]
    l_sizes[2:] = map(dilated, l_sizes[2:], p["lhs_dilation"])
    r_sizes[2:] = map(dilated, r_sizes[2:], p["rhs_dilation"])
    sizes = conv_shape_tuple(
        l_sizes, r_sizes, p["window_strides"], p["padding"], p["batch_group_count"]
    )
    dtype = p["preferred_element_type"] or lhs.dtype
    weak = all_weak(lhs, rhs) and p["preferred_element_type"] is None
    return make_aval(placed(sizes, numbers.out_spec), np.dtype(dtype), weak)


def _conv_lower(ctx: Any, lhs: Any, rhs: Any, **p: Any) -> Any:
    if dtypes.issubdtype(ctx.avals_in[0].dtype, np.complexfloating):
        return ctx.fun(lambda x, y: _complex_conv(x, y, p), [lhs, rhs])[0]
    if not ctx.aval_out.size or not all(a.size for a in ctx.avals_in):
        return ctx.const(np.zeros((), ctx.aval_out.dtype), ctx.aval_out)
    hlo, numbers = ctx.hlo, p["dimension_numbers"]
    (lb, lf, *ls), (ro, ri, *rs), (ob, of, *os) = numbers
    layout = hlo.ConvDimensionNumbers.get(
        input_batch_dimension=lb,
        input_feature_dimension=lf,
        input_spatial_dimensions=ls,
        kernel_input_feature_dimension=ri,
        kernel_output_feature_dimension=ro,
        kernel_spatial_dimensions=rs,
        output_batch_dimension=ob,
        output_feature_dimension=of,
        output_spatial_dimensions=os,
    )
    return hlo.convolution(
        ctx.type(ctx.aval_out),
        lhs,
        rhs,
        layout,
        ctx.i64_attr(p["feature_group_count"]),
        ctx.i64_attr(p["batch_group_count"]),
        window_strides=ctx.dims(p["window_strides"]),
        padding=ctx.i64_matrix(p["padding"]),
        lhs_dilation=ctx.dims(p["lhs_dilation"]),
        rhs_dilation=ctx.dims(p["rhs_dilation"]),
        window_reversal=ctx.bool_array([False] * len(ls)),
        precision_config=precision_config(ctx, p["precision"]),
    )


def _complex_conv(x: Any, y: Any, p: _Params) -> Any:
    """A complex convolution as four real ones (XLA's CPU has real ones only)."""
    if p["preferred_element_type"] is not None:
        p = {**p, "preferred_element_type": dtypes.real_dtype(p["preferred_element_type"])}
    xr, xi, yr, yi = real_p.bind(x), imag_p.bind(x), real_p.bind(y), imag_p.bind(y)

    def conv(a: Any, b: Any) -> Any:
        return conv_general_dilated_p.bind(a, b, **p)

    real = sub_p.bind(conv(xr, yr), conv(xi, yi))
    return complex_p.bind(real, add_p.bind(conv(xr, yi), conv(xi, yr)))


def _conv_jvp(primals: Any, tangents: Any, **p: Any) -> tuple[Any, Any]:
    (x, y), (tx, ty) = primals, tangents
    out = conv_general_dilated_p.bind(x, y, **p)
    total: Any = zero_of(out)
    if not is_zero(tx):
        total = conv_general_dilated_p.bind(tx, y, **p)
    if not is_zero(ty):
        total = add_tangents(total, conv_general_dilated_p.bind(x, ty, **p))
    return out, total


# --------------------------------------------------------------------------- transposes


def _regrouped(x: Any, source: int, target: int, groups: int) -> Any:
    """The leading `groups` of axis `source` moved to the front of axis `target`."""
    if groups == 1:
        return x
    shape = list(shape_of(x))
    split = [*shape[:source], groups, shape[source] // groups, *shape[source + 1 :]]
    order = [i for i in range(len(split)) if i != source]
    at = target + (target > source)
    order.insert(order.index(at), source)
    shape[source] //= groups
    shape[target] *= groups
    return reshaped(transpose(reshaped(x, tuple(split)), order), tuple(shape))


def _sizes(p: _Params, lhs: tuple, rhs: tuple, out: tuple) -> list[tuple[int, ...]]:
    """Spatial sizes with their dilations: input, kernel, and result spread by the strides."""
    numbers = p["dimension_numbers"]
    pairs = zip((lhs, rhs, out), numbers, strict=True)
    raw = [[shape[i] for i in spec[2:]] for shape, spec in pairs]
    spread = (p["lhs_dilation"], p["rhs_dilation"], p["window_strides"])
    return [tuple(map(dilated, s, d)) for s, d in zip(raw, spread, strict=True)]


def _lhs_cotangent(ct: Any, aval: ShapedArray, rhs: Any, p: _Params) -> Any:
    """The result's cotangent convolved with the reversed kernel, features exchanged."""
    numbers = p["dimension_numbers"]
    (lb, lf, *ls), (ro, ri, *rs), _ = numbers
    features, batches = p["feature_group_count"], p["batch_group_count"]
    n_in, kernel, n_out = _sizes(p, aval.shape, shape_of(rhs), shape_of(ct))
    pads = []
    for n, k, m, (low, _) in zip(n_in, kernel, n_out, p["padding"], strict=True):
        lo = k - 1 - low
        pads.append((lo, n + k - 1 - lo - m))
    groups = features * batches
    out = _conv_like(
        ct,
        _regrouped(rev(rhs, rs), ro, ri, groups),
        p,
        dimension_numbers=ConvDimensionNumbers(numbers.out_spec, (ri, ro, *rs), numbers.lhs_spec),
        window_strides=p["lhs_dilation"],
        lhs_dilation=p["window_strides"],
        padding=tuple(pads),
        feature_group_count=groups,
        batch_group_count=1,
    )
    return _regrouped(out, lf, lb, batches)


def _rhs_cotangent(ct: Any, lhs: Any, aval: ShapedArray, p: _Params) -> Any:
    """The input convolved with the result's cotangent as kernel, batch taken as features."""
    numbers = p["dimension_numbers"]
    (lb, lf, *ls), (ro, ri, *rs), (ob, of, *os) = numbers
    n_in, kernel, n_out = _sizes(p, shape_of(lhs), aval.shape, shape_of(ct))
    pads = [
        (low, m + k - 1 - n - low)
        for n, k, m, (low, _) in zip(n_in, kernel, n_out, p["padding"], strict=True)
    ]
    return _conv_like(
        lhs,
        ct,
        p,
        dimension_numbers=ConvDimensionNumbers((lf, lb, *ls), (of, ob, *os), (ri, ro, *rs)),
        window_strides=p["rhs_dilation"],
        rhs_dilation=p["window_strides"],
        padding=tuple(pads),
        feature_group_count=p["batch_group_count"],
        batch_group_count=p["feature_group_count"],
    )


def _conv_like(x: Any, y: Any, p: _Params, **changes: Any) -> Any:
    """A convolution with some parameters changed, in the wider of the two dtypes."""
    dtype = dtypes.promote_types(typeof(x).dtype, typeof(y).dtype)
    x, y = (_cast(a, dtype) for a in (x, y))
    return conv_general_dilated_p.bind(x, y, **{**p, "preferred_element_type": None, **changes})


def _cast(x: Any, dtype: Any) -> Any:
    if typeof(x).dtype == dtype:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False)


def _conv_transpose(ct: Any, lhs: Any, rhs: Any, **p: Any) -> list[Any]:
    if is_undefined(lhs) and is_undefined(rhs):
        raise TypeError("conv_general_dilated: cannot transpose a product of two linear values.")
    left = is_undefined(lhs)
    aval = cotangent_aval(lhs if left else rhs)
    if is_zero(ct):
        out: Any = Zero(aval)
    else:
        out = _lhs_cotangent(ct, aval, rhs, p) if left else _rhs_cotangent(ct, lhs, aval, p)
        out = _cast(out, aval.dtype)
    return [out, None] if left else [None, out]


# --------------------------------------------------------------------------- batching


def _merged(x: Any, dim: int, axis: int, groups: int) -> Any:
    """The mapped axis made part of `axis` (counted without it), after its leading groups."""
    x = move_dim(x, dim, 0)
    size, *shape = shape_of(x)
    part = shape[axis] // groups
    x = reshaped(x, (size, *shape[:axis], groups, part, *shape[axis + 1 :]))
    order = [*range(1, axis + 2), 0, *range(axis + 2, len(shape) + 2)]
    shape[axis] *= size
    return reshaped(transpose(x, order), tuple(shape))


def _split(x: Any, axis: int, groups: int, size: int) -> Any:
    """Undo `_merged` on a result: the mapped axis comes first."""
    shape = list(shape_of(x))
    part = shape[axis] // (groups * size)
    x = reshaped(x, (*shape[:axis], groups, size, part, *shape[axis + 1 :]))
    at = axis + 1
    x = transpose(x, [at, *[i for i in range(len(shape) + 2) if i != at]])
    shape[axis] //= size
    return reshaped(x, (size, *shape))


def _conv_batch(axis: AxisData, args: Any, dims: Any, **p: Any) -> tuple[Any, int]:
    (lhs, rhs), (dl, dr) = args, dims
    (lb, lf, *_), (ro, *_), (ob, of, *_) = p["dimension_numbers"]
    features, batches, size = p["feature_group_count"], p["batch_group_count"], axis.size
    if dl is not None and dr is not None:
        if batches > 1:
            lhs, p = _merged(lhs, dl, lb, 1), {**p, "batch_group_count": batches * size}
        else:
            lhs, p = _merged(lhs, dl, lf, 1), {**p, "feature_group_count": features * size}
        rhs = _merged(rhs, dr, ro, 1)
        return _split(conv_general_dilated_p.bind(lhs, rhs, **p), of, 1, size), 0
    if dl is not None:
        lhs = _merged(lhs, dl, lb, batches)
        return _split(conv_general_dilated_p.bind(lhs, rhs, **p), ob, 1, size), 0
    groups = features * batches
    rhs = _merged(rhs, dr, ro, groups)
    return _split(conv_general_dilated_p.bind(lhs, rhs, **p), of, groups, size), 0


conv_general_dilated_p = Primitive(
    name="conv_general_dilated",
    abstract=_conv_abstract,
    lower=_conv_lower,
    jvp=_conv_jvp,
    transpose=_conv_transpose,
    batch=_conv_batch,
    label=lambda params: f"conv stride {params['window_strides']}",
    doc="out[n, o, x] = sum over i, k of lhs[n, i, x stride + k dilation] rhs[o, i, k].",
)


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The convolution (cross-correlation) of an input with a kernel.

    Args:
        lhs: input, with axes batch, features and n spatial ones.
        rhs: kernel, with axes output features, input features and n spatial ones.
        window_strides: steps between windows, n of them.
        padding: 'SAME', 'VALID', 'SAME_LOWER', or n (low, high) pairs, which may be negative.
        lhs_dilation, rhs_dilation: spacing of the elements of input and kernel.
        dimension_numbers: layouts, e.g. ('NHWC', 'HWIO', 'NHWC'); None is NC.., OI.., NC...
        feature_group_count: groups of features that do not mix.
        batch_group_count: groups of the batch, each with its own output features.
        precision: how exact, on hardware with a choice.
        preferred_element_type: dtype of sums and result.

    Returns:
        An array with axes as the third layout says.

    Raises:
        TypeError: ranks, dtypes or layouts do not fit.
        ValueError: numbers of features or groups do not fit.
    """
    refuse_sharding("conv_general_dilated", out_sharding)
    name = "conv_general_dilated"
    l_shape, r_shape = shape_of(lhs), shape_of(rhs)
    numbers = conv_dimension_numbers(l_shape, r_shape, dimension_numbers)
    numbers = ConvDimensionNumbers(*[tuple(spec) for spec in numbers])
    n = len(numbers.lhs_spec) - 2
    strides = positive(name, "window_strides", window_strides, n)
    lhs_dilation = positive(name, "lhs_dilation", lhs_dilation, n)
    rhs_dilation = positive(name, "rhs_dilation", rhs_dilation, n)
    if isinstance(padding, str) and padding.upper() != "VALID" and prod(lhs_dilation) != 1:
        raise errors.shape_error(
            f"{name}: padding {padding!r} is not defined with lhs_dilation {lhs_dilation}.\n"
            "Instead: give (low, high) pairs, or use conv_transpose."
        )
    space = [l_shape[i] for i in numbers.lhs_spec[2:]]
    window = [
        dilated(r_shape[i], d) for i, d in zip(numbers.rhs_spec[2:], rhs_dilation, strict=True)
    ]
    if preferred_element_type is not None:
        preferred_element_type = dtypes.canonicalize_dtype(preferred_element_type)
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=canonical_padding(name, padding, space, window, strides),
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=numbers,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        precision=canonical_precision(precision, name),
        preferred_element_type=preferred_element_type,
    )
