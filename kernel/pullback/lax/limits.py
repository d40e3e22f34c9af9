"""The scalars that reductions start from: zero, one, the lowest and the highest value of a dtype.

Builds on core/dtypes.py. Tested in tests/lax/test_reduce.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import dtypes


def lowest(dtype: Any) -> Any:
    """The neutral element of the maximum."""
    if dtype == np.bool_:
        return np.False_
    if dtypes.issubdtype(dtype, np.complexfloating):
        return np.asarray(complex(-np.inf, -np.inf)).astype(dtype)[()]
    if dtypes.is_inexact(dtype):
        return _infinity(dtype, -1)
    return np.asarray(dtypes.iinfo(dtype).min).astype(dtype)[()]


def highest(dtype: Any) -> Any:
    """The neutral element of the minimum."""
    if dtype == np.bool_:
        return np.True_
    if dtypes.issubdtype(dtype, np.complexfloating):
        return np.asarray(complex(np.inf, np.inf)).astype(dtype)[()]
    if dtypes.is_inexact(dtype):
        return _infinity(dtype, 1)
    return np.asarray(dtypes.iinfo(dtype).max).astype(dtype)[()]


def _infinity(dtype: Any, sign: int) -> Any:
    """The infinity of a float dtype, or its largest number where it has no infinity."""
    with np.errstate(all="ignore"):
        value = np.asarray(sign * np.inf).astype(dtype)[()]
    if np.isinf(np.float64(value)):
        return value
    info = dtypes.finfo(dtype)
    return np.asarray(info.max if sign > 0 else info.min).astype(dtype)[()]


def zero_value(dtype: Any) -> Any:
    """The scalar zero of a dtype."""
    return np.zeros((), dtype)[()]


def one_value(dtype: Any) -> Any:
    """The scalar one of a dtype."""
    return np.ones((), dtype)[()]


def all_ones(dtype: Any) -> Any:
    """The neutral element of the bitwise and."""
    return np.True_ if dtype == np.bool_ else np.asarray(~np.zeros((), dtype))[()]
