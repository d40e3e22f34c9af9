"""Conversion of dtypes, reinterpretation of bits, rounding to fewer bits, copies, stop_gradient.

Builds on families.py. Source: StableHLO specification: convert, bitcast_convert,
reduce_precision. Tested in tests/lax/test_convert.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, pytree
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import move_dim
from pullback.core.jvp import Zero, is_zero, zero_jvp, zero_of
from pullback.core.tracer import Primitive
from pullback.lax.families import (
    FLOAT,
    check_kind,
    check_operand,
    describe,
    kind_of,
    unary_batch,
)

# -- convert_element_type ---------------------------------------------------------------------


def _convert_abstract(x: ShapedArray, *, new_dtype: Any, weak_type: bool) -> ShapedArray:
    if kind_of(x.dtype) == "float0":
        raise TypeError(
            "convert_element_type does not accept dtype float0, the tangent type of integers.\n"
            "Instead: make zeros of the dtype wanted, jnp.zeros(x.shape)."
        )
    return make_aval(x.shape, new_dtype, weak_type)


def _convert_lower(ctx: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    aval, out = ctx.avals_in[0], ctx.aval_out
    if aval.dtype == out.dtype:
        return x
    to_kind, from_kind = kind_of(out.dtype), kind_of(aval.dtype)
    if to_kind == "bool":
        return ctx.hlo.compare(
            x,
            ctx.const(0, aval),
            ctx.hlo.ComparisonDirectionAttr.get("NE"),
            compare_type=ctx.hlo.ComparisonTypeAttr.get(_compare_type(from_kind)),
        )
    if from_kind == "complex" and to_kind != "complex":
        x = ctx.hlo.real(x)
    return ctx.hlo.convert(ctx.type(out), x)


def _compare_type(kind: str) -> str:
    return "FLOAT" if kind in ("float", "complex") else "SIGNED" if kind == "signed" else "UNSIGNED"


def _convert_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, new_dtype: Any, weak_type: bool
) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    out = convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    if is_zero(t) or not dtypes.is_inexact(new_dtype):
        return out, zero_of(out)
    if typeof(t).dtype == new_dtype:
        return out, t
    return out, convert_element_type_p.bind(t, new_dtype=new_dtype, weak_type=False)


def _convert_transpose(ct: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> list[Any]:
    if is_zero(ct):
        return [Zero(x.aval)]
    return [convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=False)]


convert_element_type_p: Primitive = Primitive(
    name="convert_element_type",
    abstract=_convert_abstract,
    lower=_convert_lower,
    jvp=_convert_jvp,
    transpose=_convert_transpose,
    batch=unary_batch(lambda: convert_element_type_p),
    label=lambda params: f"to {dtypes.short_name(params['new_dtype'])}",
    doc="x as another dtype; linear between floating and complex dtypes",
)


def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """The array converted to a dtype, as XLA converts.

    Floats become integers by truncation (saturating, NaN to 0), complex numbers lose their
    imaginary part, and anything but 0 becomes True.

    Args:
        operand: array or number.
        new_dtype: a dtype; `float`, `int` and the like mean JAX's default of that kind.

    Returns:
        An array of the operand's shape, with a strong dtype.
    """
    if new_dtype is None:
        raise ValueError("convert_element_type: new_dtype must be specified, got None.")
    check_operand("convert_element_type", operand)
    return convert(operand, dtypes.requested_dtype(new_dtype, "convert_element_type"), False)


def convert(x: Any, dtype: Any, weak_type: bool) -> Any:
    """The array with a canonical dtype and the given weak type, itself if it has them already."""
    if type(x) is int and kind_of(dtype) in ("signed", "unsigned"):
        # Straight to the dtype, which may hold what the default integer does not.
        limits = dtypes.iinfo(dtype)
        x = np.asarray(x, dtype)[()] if limits.min <= x <= limits.max else x
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak_type and hasattr(x, "aval"):
        return x
    if kind_of(aval.dtype) == "complex" and kind_of(dtype) not in ("complex", "bool"):
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=3,
        )
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


# -- bitcast_convert_type ---------------------------------------------------------------------


def _bit_width(dtype: Any) -> int:
    name = dtypes.name(dtype)
    if "int4" in name or "float4" in name:
        return 4
    return 2 if "int2" in name else np.dtype(dtype).itemsize * 8


def _bitcast_abstract(x: ShapedArray, *, new_dtype: Any) -> ShapedArray:
    special = ("bool", "complex")
    if x.dtype != new_dtype and (kind_of(x.dtype) in special or kind_of(new_dtype) in special):
        raise TypeError(
            f"bitcast_convert_type: {describe(x)} to {dtypes.name(new_dtype)}: bool and complex "
            f"values have no defined bits.\nInstead: x.view(dtype), or x.astype(dtype)."
        )
    old, new = _bit_width(x.dtype), _bit_width(new_dtype)
    if old == new:
        return make_aval(x.shape, new_dtype)
    if old > new:
        return make_aval((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] * old != new:
        last = x.shape[-1] if x.shape else "none"
        raise ValueError(
            f"bitcast_convert_type: {describe(x)} ({old} bits an element) to "
            f"{dtypes.name(new_dtype)} ({new} bits): the last axis must have size {new // old}, "
            f"it has {last}."
        )
    return make_aval(x.shape[:-1], new_dtype)


def _bitcast_lower(ctx: Any, x: Any, *, new_dtype: Any) -> Any:
    return ctx.hlo.bitcast_convert(ctx.type(ctx.aval_out), x)


def _bitcast_batch(axis: Any, args: Sequence[Any], dims: Sequence[int], *, new_dtype: Any) -> Any:
    (x,), (dim,) = args, dims
    x = move_dim(x, dim, 0)
    return bitcast_convert_type_p.bind(x, new_dtype=new_dtype), 0


bitcast_convert_type_p: Primitive = Primitive(
    name="bitcast_convert_type",
    abstract=_bitcast_abstract,
    lower=_bitcast_lower,
    jvp=zero_jvp(lambda: bitcast_convert_type_p),
    batch=_bitcast_batch,
    doc="the bits of x read as another dtype; no derivative",
)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of an array read as another dtype.

    Args:
        operand: array of numbers, neither bool nor complex.
        new_dtype: a dtype. A narrower one adds a last axis, least significant part first; for a
            wider one the last axis must hold exactly one element's parts.

    Raises:
        TypeError: bool or complex dtypes. ValueError: the last axis does not fit.
    """
    check_operand("bitcast_convert_type", operand)
    return bitcast_convert_type_p.bind(
        operand, new_dtype=dtypes.requested_dtype(new_dtype, "bitcast_convert_type")
    )


# -- reduce_precision, copy, stop_gradient ----------------------------------------------------


def _reduce_precision_abstract(
    x: ShapedArray, *, exponent_bits: int, mantissa_bits: int
) -> ShapedArray:
    check_kind("reduce_precision", x, FLOAT)
    return x


def _reduce_precision_lower(ctx: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    return ctx.hlo.reduce_precision(x, exponent_bits, mantissa_bits)


def _reduce_precision_transpose(ct: Any, x: Any, **params: int) -> list[Any]:
    return [Zero(x.aval) if is_zero(ct) else reduce_precision_p.bind(ct, **params)]


reduce_precision_p: Primitive = Primitive(
    name="reduce_precision",
    abstract=_reduce_precision_abstract,
    lower=_reduce_precision_lower,
    transpose=_reduce_precision_transpose,
    batch=unary_batch(lambda: reduce_precision_p),
    doc="x rounded to a float format of fewer bits; tangents are rounded alike",
)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """The array rounded as if to a narrower floating format, its dtype unchanged.

    Args:
        operand: floating array.
        exponent_bits: bits of the exponent, at least 1.
        mantissa_bits: bits of the mantissa, at least 0.

    Raises:
        ValueError: a number of bits is out of range.
    """
    check_operand("reduce_precision", operand)
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(
            f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}"
        )
    return reduce_precision_p.bind(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


def _identity_abstract(x: ShapedArray) -> ShapedArray:
    return x


def _identity_lower(ctx: Any, x: Any) -> Any:
    return x


def _copy_transpose(ct: Any, x: Any) -> list[Any]:
    return [ct]


copy_p: Primitive = Primitive(
    name="copy",
    abstract=_identity_abstract,
    lower=_identity_lower,
    transpose=_copy_transpose,
    batch=unary_batch(lambda: copy_p),
    doc="x in a buffer of its own; linear",
)

stop_gradient_p: Primitive = Primitive(
    name="stop_gradient",
    abstract=_identity_abstract,
    lower=_identity_lower,
    impl=lambda x: x,
    jvp=zero_jvp(lambda: stop_gradient_p),
    batch=unary_batch(lambda: stop_gradient_p),
    doc="x, seen as a constant by differentiation",
)


def stop_gradient(x: Any) -> Any:
    """The same values, treated as constants by differentiation.

    Args:
        x: array or pytree of arrays.

    Returns:
        A pytree of the same structure.

    Example:
        >>> import pullback as pb
        >>> float(pb.grad(lambda x: x * pb.lax.stop_gradient(x))(3.0))
        3.0
    """

    def stop(leaf: Any) -> Any:
        check_operand("stop_gradient", leaf)
        return stop_gradient_p.bind(leaf) if dtypes.is_inexact(typeof(leaf).dtype) else leaf

    return pytree.tree_map(stop, x)
