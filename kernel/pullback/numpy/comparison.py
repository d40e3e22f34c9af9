"""Whether arrays are equal or close.

Builds on lax. Tested in tests/numpy/test_comparison.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.creation import asarray
from pullback.numpy.fused import fused
from pullback.numpy.reductions import all as all_

lift = promote.lift


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether abs(a - b) <= atol + rtol * abs(b), element by element.

    Args:
        a, b: arrays whose shapes broadcast.
        rtol, atol: relative and absolute tolerance.
        equal_nan: whether NaN is close to NaN.

    Returns:
        bool array.
    """
    a, b = promote.promote("isclose", a, b)
    shape = promote.check_shapes("isclose", promote.shape_of(a), promote.shape_of(b))
    a, b = (lift("isclose", promote.broadcast_to(x, shape)) for x in (a, b))
    if a.dtype == np.bool_:
        a, b = a.astype(np.int8), b.astype(np.int8)
    return _isclose(a, b, rtol, atol, bool(equal_nan))


@fused("equal_nan")
def _isclose(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    if not dtypes.is_inexact(a.dtype):
        a, b = (lax.convert_element_type(x, dtypes.to_inexact_dtype(a.dtype)) for x in (a, b))
    real = lax.abs(a).dtype
    rtol, atol = (lax.convert_element_type(t, real) for t in (rtol, atol))
    finite = _finite(a) & _finite(b)
    close = lax.le_p.bind(lax.abs(a - b), atol + rtol * lax.abs(b))
    same = a == b
    result = (finite & close) | (~finite & same)
    if equal_nan:
        result = result | (lax.ne_p.bind(a, a) & lax.ne_p.bind(b, b))
    return result


def _finite(x: Any) -> Any:
    if x.dtype.kind == "c":
        return lax.is_finite(lax.real(x)) & lax.is_finite(lax.imag(x))
    return lax.is_finite(x)


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are close. Arguments as in `isclose`."""
    return all_(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have the same shape and elements."""
    try:
        a1, a2 = (
            lift("array_equal", asarray(x) if isinstance(x, (list, tuple)) else x) for x in (a1, a2)
        )
    except TypeError:
        return asarray(False)
    if a1.shape != a2.shape:
        return asarray(False)
    a1, a2 = promote.promote("array_equal", a1, a2)
    return _array_equal(a1, a2, bool(equal_nan))


@fused("equal_nan")
def _array_equal(a: Any, b: Any, equal_nan: bool) -> Any:
    same = a == b
    if equal_nan and dtypes.is_inexact(a.dtype):
        same = same | (lax.ne_p.bind(a, a) & lax.ne_p.bind(b, b))
    return lax.reduce_and(same, tuple(range(same.ndim)))


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast against each other and have equal elements."""
    try:
        a1, a2 = (
            lift("array_equiv", asarray(x) if isinstance(x, (list, tuple)) else x) for x in (a1, a2)
        )
        np.broadcast_shapes(a1.shape, a2.shape)
    except (TypeError, ValueError):
        return asarray(False)
    return all_(a1 == a2)
