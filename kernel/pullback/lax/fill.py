"""Arrays made from nothing or from one number: iota, full, full_like, empty.

Builds on shape.py. Tested in tests/lax/test_shape.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.tracer import Primitive
from pullback.lax.convert import convert_element_type
from pullback.lax.operands import canonical_axis, canonical_shape, refuse_sharding, shape_of
from pullback.lax.shape import broadcast_in_dim_p

# --------------------------------------------------------------------------- iota


def _iota_abstract(*, dtype: Any, shape: tuple[int, ...], dimension: int) -> ShapedArray:
    return make_aval(shape, dtype)


def _iota_lower(ctx: Any, *, dimension: int, **params: Any) -> Any:
    i64 = ctx.ir.IntegerType.get_signless(64)
    return ctx.hlo.iota(ctx.type(ctx.aval_out), ctx.ir.IntegerAttr.get(i64, dimension))


def _no_operands(*args: Any, **params: Any) -> Any:
    raise TypeError("iota has no operands, so no rule of a transformation applies to it")


iota_p = Primitive(
    name="iota",
    abstract=_iota_abstract,
    lower=_iota_lower,
    nondifferentiable="it has no operands",
    batch=_no_operands,
    doc="Each element is its own position along one axis.",
)


def iota(dtype: Any, size: int) -> Any:
    """The numbers 0, 1, ..., size - 1 in this dtype."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None) -> Any:
    """An array of this shape whose elements are their positions along axis `dimension`.

    Raises:
        TypeError: a dtype that does not hold numbers.
        ValueError: no such axis.
    """
    refuse_sharding("broadcasted_iota", out_sharding)
    dtype = dtypes.canonicalize_dtype(dtype)
    if dtype == np.bool_:
        raise TypeError("iota does not accept dtype bool. Accepted dtypes are the numeric ones.")
    shape = canonical_shape("iota", shape)
    dimension = canonical_axis("iota", dimension, len(shape))
    return iota_p.bind(dtype=dtype, shape=shape, dimension=dimension)


# --------------------------------------------------------------------------- full


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array of this shape filled with one value.

    Args:
        shape: shape of the result.
        fill_value: scalar.
        dtype: dtype of the result; None is that of the value (weak if that is).

    Returns:
        The filled array.

    Raises:
        TypeError: the value is not a scalar.
    """
    refuse_sharding("full", sharding)
    shape = canonical_shape("full", shape)
    if shape_of(fill_value):
        raise errors.shape_error(
            f"full must be called with scalar fill_value, got fill_value.shape "
            f"{shape_of(fill_value)}.",
            "use jnp.broadcast_to or jnp.full.",
        )
    value = scalar_of(fill_value, dtype)
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=())


def scalar_of(value: Any, dtype: Any = None) -> Any:
    """A scalar operand of this dtype: Python and NumPy numbers are converted on the host."""
    if dtype is None:
        return value
    dtype = dtypes.canonicalize_dtype(dtype)
    if isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(dtype)[()]
    return convert_element_type(value, dtype)


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Any:
    """An array like `x` filled with one value.

    Args:
        x: gives shape, dtype and weak type (anything that has `shape` and `dtype`).
        fill_value: scalar.
        dtype, shape: what to take instead of those of `x`.
    """
    like = x if hasattr(x, "shape") and hasattr(x, "dtype") else typeof(x)
    out_shape = tuple(like.shape) if shape is None else canonical_shape("full_like", shape)
    weak = dtype is None and bool(getattr(like, "weak_type", False))
    if weak and isinstance(fill_value, (bool, int, float, complex, np.generic)):
        kind = weak_scalar(like.dtype)
        if dtypes.python_scalar_dtype(kind) == like.dtype:
            return full(out_shape, kind(fill_value), sharding=sharding)
    out = full(out_shape, fill_value, like.dtype if dtype is None else dtype, sharding=sharding)
    return convert_element_type(out, weak_scalar(typeof(out).dtype)) if weak else out


def weak_scalar(dtype: Any) -> type:
    """The Python type whose weak type has this kind."""
    return dtypes.weak_kind(dtype)


def zeros_like_array(x: Any) -> Any:
    """Zeros of the shape and dtype of `x`."""
    return full_like(x, 0)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array whose contents do not matter (zeros)."""
    return full(shape, 0, dtype, sharding=out_sharding)
