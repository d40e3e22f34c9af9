"""Dtypes as callables: `jnp.float32(x)` makes an array, `jnp.float32` names the dtype.

Builds on creation.py. Tested in tests/numpy/test_dtypes.py.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pullback.core import dtypes
from pullback.numpy.creation import asarray


class _ScalarMeta(type):
    """Scalar types compare equal to the NumPy types that they stand for."""

    dtype: np.dtype

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        if cls is other:
            return True
        own = getattr(other, "dtype", None)
        return cls.dtype.type == other or (isinstance(own, np.dtype) and cls.dtype == own)

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __call__(cls, x: Any) -> Any:
        """An array of `x` with this dtype."""
        return asarray(x, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'jax.numpy.{cls.__name__}'>"


def _make(name: str, scalar: Any) -> Any:
    kind = _ScalarMeta(name, (), {"dtype": np.dtype(scalar)})
    kind.__module__ = "pullback.numpy"
    kind.__doc__ = f"The dtype {np.dtype(scalar).name}; called, it makes arrays of it."
    return kind


bool_ = _make("bool", np.bool_)
int8 = _make("int8", np.int8)
int16 = _make("int16", np.int16)
int32 = _make("int32", np.int32)
int64 = _make("int64", np.int64)
uint8 = _make("uint8", np.uint8)
uint16 = _make("uint16", np.uint16)
uint32 = _make("uint32", np.uint32)
uint64 = _make("uint64", np.uint64)
float16 = _make("float16", np.float16)
float32 = _make("float32", np.float32)
float64 = _make("float64", np.float64)
complex64 = _make("complex64", np.complex64)
complex128 = _make("complex128", np.complex128)
single, double, csingle, cdouble = float32, float64, complex64, complex128
int2 = _make("int2", ml_dtypes.int2)
int4 = _make("int4", ml_dtypes.int4)
uint2 = _make("uint2", ml_dtypes.uint2)
uint4 = _make("uint4", ml_dtypes.uint4)
bfloat16 = _make("bfloat16", ml_dtypes.bfloat16)
float4_e2m1fn = _make("float4_e2m1fn", ml_dtypes.float4_e2m1fn)
float6_e2m3fn = _make("float6_e2m3fn", ml_dtypes.float6_e2m3fn)
float6_e3m2fn = _make("float6_e3m2fn", ml_dtypes.float6_e3m2fn)
float8_e3m4 = _make("float8_e3m4", ml_dtypes.float8_e3m4)
float8_e4m3 = _make("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = _make("float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _make("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = _make("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = _make("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e5m2fnuz = _make("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _make("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
int_, uint, float_, complex_ = int64, uint64, float64, complex128

promote_types = dtypes.promote_types


def finfo(dtype: Any) -> Any:
    """Limits of a floating dtype: eps, max, min, tiny, bits ..."""
    return dtypes.finfo(dtype)


def iinfo(int_type: Any) -> Any:
    """Limits of an integer dtype: min, max, bits."""
    return dtypes.iinfo(int_type)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a name of the array API, or a tuple of them."""
    return dtypes.isdtype(dtype, kind)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether dtype `arg1` is `arg2` or lies in that abstract kind (such as jnp.floating)."""
    return dtypes.issubdtype(arg1, arg2)


def result_type(*args: Any) -> np.dtype:
    """The dtype that an operation on the arguments gives.

    Args:
        args: arrays, Python numbers, dtypes.

    Returns:
        The dtype, canonical under the current x64 setting.
    """
    return dtypes.result_type(*args)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether values of one dtype may be cast to another, as `numpy.can_cast`."""
    return np.can_cast(dtypes.dtype(from_), dtypes.dtype(to), casting)  # type: ignore[arg-type]


def isscalar(element: Any) -> bool:
    """Whether `element` is a number: a Python or NumPy scalar, or an array without axes."""
    if np.isscalar(element):
        return True
    return hasattr(element, "aval") and element.ndim == 0


def iterable(y: Any) -> bool:
    """Whether `y` can be iterated over."""
    try:
        iter(y)
    except TypeError:
        return False
    return True
