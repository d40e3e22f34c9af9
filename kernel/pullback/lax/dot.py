"""Products of arrays: dot_general and what is written with it.

Builds on shape.py. Tested in tests/lax/test_dot.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData
from pullback.core.jvp import Zero, add_tangents, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.convert import convert_element_type, convert_element_type_p
from pullback.lax.operands import (
    all_weak,
    ints,
    refuse_sharding,
    shape_of,
    shifted,
    without,
)
from pullback.lax.precision import algorithm_attribute, canonical_precision, precision_config
from pullback.lax.shape import inverse_permutation, transpose

DotDims = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


def _check_dims(lhs: ShapedArray, rhs: ShapedArray, dimension_numbers: DotDims) -> None:
    for what, (left, right) in zip(("contracting", "batch"), dimension_numbers, strict=True):
        if len(left) != len(right):
            raise errors.shape_error(
                f"dot_general: as many {what} dimensions of lhs as of rhs are needed, got "
                f"{left} and {right} for {lhs.str_short()} and {rhs.str_short()}.",
                "name as many axes of one operand as of the other.",
            )
        for i, j in zip(left, right, strict=True):
            if not (0 <= i < lhs.ndim and 0 <= j < rhs.ndim):
                raise errors.shape_error(
                    f"dot_general: {what} dimensions {left} and {right} must be axes of "
                    f"{lhs.str_short()} and {rhs.str_short()}."
                )
            if lhs.shape[i] != rhs.shape[j]:
                raise errors.shape_error(
                    f"dot_general requires {what} dimensions to have equal sizes: "
                    f"{lhs.shape[i]} (lhs axis {i}) and {rhs.shape[j]} (rhs axis {j}); "
                    f"operands {lhs.str_short()} and {rhs.str_short()}.",
                    "name other axes in dimension_numbers, or transpose an operand.",
                )
    (lc, rc), (lb, rb) = dimension_numbers
    if len({*lc, *lb}) != len(lc) + len(lb) or len({*rc, *rb}) != len(rc) + len(rb):
        raise errors.shape_error(
            f"dot_general: an axis is named twice in dimension_numbers {dimension_numbers}."
        )


def _dot_abstract(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: DotDims,
    precision: Any,
    preferred_element_type: Any,
) -> ShapedArray:
    _check_dims(lhs, rhs, dimension_numbers)
    (lc, rc), (lb, rb) = dimension_numbers
    batch = tuple([lhs.shape[i] for i in lb])
    shape = batch + without(lhs.shape, (*lc, *lb)) + without(rhs.shape, (*rc, *rb))
    natural = lhs.dtype if lhs.dtype == rhs.dtype else dtypes.promote_types(lhs.dtype, rhs.dtype)
    if preferred_element_type is None:
        return make_aval(shape, natural, all_weak(lhs, rhs))
    out = np.dtype(preferred_element_type)
    for kind in (np.integer, np.floating, np.complexfloating):
        if dtypes.issubdtype(natural, kind) and not dtypes.issubdtype(out, kind):
            if not (kind is np.integer and dtypes.issubdtype(out, np.floating)):
                raise TypeError(
                    f"dot_general: `preferred_element_type` {dtypes.name(out)} must be of the "
                    f"same kind as the operands' dtype {dtypes.name(natural)}."
                )
    return make_aval(shape, out)


def _dot_lower(
    ctx: Any,
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDims,
    precision: Any,
    preferred_element_type: Any,
) -> Any:
    hlo, (l_aval, r_aval) = ctx.hlo, ctx.avals_in
    (lc, rc), (lb, rb) = dimension_numbers
    out = ctx.aval_out
    if l_aval.dtype != r_aval.dtype and not _mixes_in_hlo(l_aval.dtype, r_aval.dtype):
        lhs = hlo.convert(ctx.type(l_aval.update(dtype=out.dtype)), lhs)
        rhs = hlo.convert(ctx.type(r_aval.update(dtype=out.dtype)), rhs)
    dims = hlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=list(lb),
        rhs_batching_dimensions=list(rb),
        lhs_contracting_dimensions=list(lc),
        rhs_contracting_dimensions=list(rc),
    )
    return hlo.dot_general(
        ctx.type(out),
        lhs,
        rhs,
        dims,
        precision_config=precision_config(ctx, precision),
        algorithm=algorithm_attribute(ctx, precision, l_aval.dtype, r_aval.dtype, out.dtype),
    )


def _mixes_in_hlo(a: Any, b: Any) -> bool:
    """Whether XLA multiplies these two dtypes itself: float8 kinds of different layout."""
    return dtypes.name(a).startswith("float8") and dtypes.name(b).startswith("float8")


def _dot_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    (x, y), (tx, ty) = primals, tangents
    out = dot_general_p.bind(x, y, **params)
    total: Any = zero_of(out)
    if not is_zero(tx):
        total = dot_general_p.bind(tx, y, **params)
    if not is_zero(ty):
        total = add_tangents(total, dot_general_p.bind(x, ty, **params))
    return out, total


def _dot_transpose(
    ct: Any,
    x: Any,
    y: Any,
    *,
    dimension_numbers: DotDims,
    precision: Any,
    preferred_element_type: Any,
) -> list[Any]:
    if is_undefined(x) and is_undefined(y):
        raise TypeError("dot_general: cannot transpose a product of two linear values.")
    left = is_undefined(x)
    aval = cotangent_aval(x if left else y)
    if is_zero(ct):
        return [Zero(aval) if left else None, None if left else Zero(aval)]
    (lc, rc), (lb, rb) = dimension_numbers
    if isinstance(precision, tuple):
        precision = precision if left else precision[::-1]
    if not left:
        x, y, (lc, rc), (lb, rb) = y, x, (rc, lc), (rb, lb)
    out = _transposed_left(ct, y, aval, ((lc, rc), (lb, rb)), left, precision)
    return [out, None] if left else [None, out]


def _transposed_left(
    ct: Any, y: Any, aval: ShapedArray, dims: DotDims, left: bool, precision: Any
) -> Any:
    """The cotangent of the operand `aval`; `dims` name its axes first, `left` if it stands so."""
    (xc, yc), (xb, yb) = dims
    y_shape, n_batch = shape_of(y), len(xb)
    x_free = without(range(aval.ndim), (*xc, *xb))
    y_free = without(range(len(y_shape)), (*yc, *yb))
    start = n_batch + len(x_free) if left else n_batch
    ct_y_axes = tuple(range(start, start + len(y_free)))
    batch = tuple(range(n_batch))
    dtype = typeof(ct).dtype
    if typeof(y).dtype != dtype:
        y = convert_element_type_p.bind(y, new_dtype=dtype, weak_type=False)
    out = dot_general_p.bind(
        ct,
        y,
        dimension_numbers=((ct_y_axes, y_free), (batch, tuple(yb))),
        precision=precision,
        preferred_element_type=None,
    )
    # `out` has axes: batch, free axes of x, contracted axes in the order they have in y.
    contracted = [i for _, i in sorted(zip(yc, xc, strict=True))]
    out = transpose(out, inverse_permutation((*xb, *x_free, *contracted)))
    if typeof(out).dtype != aval.dtype:
        out = convert_element_type_p.bind(out, new_dtype=aval.dtype, weak_type=False)
    return out


def _dot_batch(
    axis: AxisData, args: Any, dims: Any, *, dimension_numbers: DotDims, **params: Any
) -> tuple[Any, int]:
    (x, y), (dx, dy) = args, dims
    (lc, rc), (lb, rb) = dimension_numbers
    if dx is not None:
        lc, lb = shifted(lc, dx), shifted(lb, dx)
    if dy is not None:
        rc, rb = shifted(rc, dy), shifted(rb, dy)
    if dx is not None and dy is not None:
        out_dim, lb, rb = 0, (dx, *lb), (dy, *rb)
    elif dx is not None:
        out_dim = len(lb) + without(range(typeof(x).ndim), (*lc, *lb)).index(dx)
    else:
        free = typeof(x).ndim - len(lc) - len(lb)
        out_dim = len(lb) + free + without(range(typeof(y).ndim), (*rc, *rb)).index(dy)
    return dot_general_p.bind(x, y, dimension_numbers=((lc, rc), (lb, rb)), **params), out_dim


dot_general_p = Primitive(
    name="dot_general",
    abstract=_dot_abstract,
    lower=_dot_lower,
    jvp=_dot_jvp,
    transpose=_dot_transpose,
    batch=_dot_batch,
    label=lambda params: f"dot {params['dimension_numbers'][0]}",
    doc="Sums of products over contracting axes, one product per batch index.",
)


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Sums of products over contracting axes, for each index of the batch axes.

    Args:
        lhs, rhs: arrays.
        dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)) axes.
        precision: how exact, on hardware with a choice; see `Precision`.
        preferred_element_type: dtype of the sums and the result; None is the operands'.

    Returns:
        An array with the batch axes, the other axes of lhs, then those of rhs.

    Raises:
        TypeError: sizes or axes do not fit.

    Example:
        >>> from pullback import lax
        >>> import numpy as np
        >>> x = np.ones((2, 3), np.float32)
        >>> print(lax.dot_general(x, x, (((1,), (1,)), ((), ()))))
        [[3. 3.]
         [3. 3.]]
    """
    refuse_sharding("dot_general", out_sharding)
    (lc, rc), (lb, rb) = dimension_numbers
    dims = ((ints(lc), ints(rc)), (ints(lb), ints(rb)))
    if preferred_element_type is not None:
        preferred_element_type = dtypes.canonicalize_dtype(preferred_element_type)
    lhs, rhs = _numbers_converted(lhs, rhs)
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=dims,
        precision=canonical_precision(precision, "dot_general"),
        preferred_element_type=preferred_element_type,
    )


def _numbers_converted(lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """Python numbers take the other operand's dtype."""
    if type(lhs) in (int, float, complex):
        lhs = convert_element_type(lhs, typeof(rhs).dtype)
    if type(rhs) in (int, float, complex):
        rhs = convert_element_type(rhs, typeof(lhs).dtype)
    return lhs, rhs


def dot(
    lhs: Any,
    rhs: Any,
    *args: Any,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Vector and matrix products; with `dimension_numbers`, `dot_general`.

    Raises:
        TypeError: an operand has more than two axes, or sizes do not fit.
    """
    if args:
        if len(args) > 2:
            raise TypeError(f"dot takes 2 to 4 positional arguments, got {2 + len(args)}")
        precision, preferred_element_type = (*args, preferred_element_type)[:2]
    if dimension_numbers is None:
        l_shape, r_shape = shape_of(lhs), shape_of(rhs)
        fits = 1 <= len(l_shape) <= 2 and 1 <= len(r_shape) <= 2 and l_shape[-1] == r_shape[0]
        if not fits:
            raise errors.shape_error(
                f"Incompatible shapes for dot: got {l_shape} and {r_shape}.",
                "both must be vectors or matrices, the last axis of the left as long as the first "
                "of the right; or give dimension_numbers.",
            )
        dimension_numbers = (((len(l_shape) - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Matrix products over the last two axes, one per index of the leading axes.

    Raises:
        ValueError: an operand has fewer than two axes, or the ranks differ.
    """
    n = typeof(lhs).ndim
    if n < 2 or typeof(rhs).ndim != n:
        raise errors.shape_error(
            f"batch_matmul: arguments must be at least 2D and of one rank, got {shape_of(lhs)} "
            f"and {shape_of(rhs)}."
        )
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), precision)
