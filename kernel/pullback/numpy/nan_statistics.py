"""Reductions that skip NaN.

Builds on statistics.py. Tested in tests/numpy/.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote, reductions
from pullback.numpy.fused import fused
from pullback.numpy.reductions import (
    Axis,
    _no_out,
    _reduction,
    reduce_axes,
    sum_dtype,
)
from pullback.numpy.statistics import _BOOL, mean, std, var

# ---------------------------------------------------------------- NaN-skipping


def _is_float(a: Any, name: str) -> bool:
    return dtypes.is_inexact(promote.aval_of(name, a).dtype)


def _replace_nan(a: Any, value: Any) -> Any:
    return lax.select(lax.ne(a, a), lax.full_like(a, value), a)


def _nan_reduction(
    kind: str, a: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    name = "nan" + kind
    a = promote.lift(name, a)
    if not _is_float(a, name):
        target = dtype
        if target is None:
            target = sum_dtype(a.dtype) if kind in ("sum", "prod") else a.dtype
        return _reduction(kind, a, axis, target, keepdims, initial, where)
    neutral = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}[kind]
    axes = promote.canonical_axes(axis, a.ndim)
    if kind in ("sum", "prod"):
        return _reduction(
            kind, _fill_nan(a, neutral), axis, dtype or a.dtype, keepdims, initial, where
        )
    result = _reduction(kind, _fill_nan(a, neutral), axis, a.dtype, keepdims, initial, where)
    if initial is not None:
        return result
    return _all_nan(a, result, axes, bool(keepdims))


@fused("value")
def _fill_nan(a: Any, value: Any) -> Any:
    return _replace_nan(a, value)


@fused("axes", "keepdims")
def _all_nan(a: Any, result: Any, axes: Any, keepdims: bool) -> Any:
    missing = reduce_axes("all", lax.ne(a, a), axes, keepdims)
    return lax.select(missing, lax.full_like(result, np.nan), result)


def nansum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The sum over axes, NaN counted as 0. Arguments as in `sum`."""
    _no_out("nansum", out)
    dtype = None if dtype is None else dtypes.requested_dtype(dtype, "nansum")
    return _nan_reduction("sum", a, axis, dtype, keepdims, initial, where)


def nanprod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The product over axes, NaN counted as 1. Arguments as in `sum`."""
    _no_out("nanprod", out)
    dtype = None if dtype is None else dtypes.requested_dtype(dtype, "nanprod")
    return _nan_reduction("prod", a, axis, dtype, keepdims, initial, where)


def nanmax(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element over axes that is not NaN; NaN if all are. Arguments as in `max`."""
    _no_out("nanmax", out)
    return _nan_reduction("max", a, axis, None, keepdims, initial, where)


def nanmin(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element over axes that is not NaN; NaN if all are. Arguments as in `max`."""
    _no_out("nanmin", out)
    return _nan_reduction("min", a, axis, None, keepdims, initial, where)


def nanmean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The mean over axes of what is not NaN. Arguments as in `mean`."""
    _no_out("nanmean", out)
    a = promote.lift("nanmean", a)
    if not _is_float(a, "nanmean"):
        return mean(a, axis, dtype, None, keepdims, where=where)
    return mean(a, axis, dtype, None, keepdims, where=_not_nan(a, where))


@fused()
def _not_nan(a: Any, where: Any) -> Any:
    valid = lax.eq(a, a)
    if where is None:
        return valid
    return valid & promote.broadcast_to(promote.cast(where, _BOOL), a.shape)


def nanvar(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The variance over axes of what is not NaN. Arguments as in `var`."""
    a = promote.lift("nanvar", a)
    if _is_float(a, "nanvar"):
        where = _not_nan(a, where)
    return var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean)


def nanstd(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Any:
    """The standard deviation over axes of what is not NaN. Arguments as in `var`."""
    a = promote.lift("nanstd", a)
    if _is_float(a, "nanstd"):
        where = _not_nan(a, where)
    return std(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean)


def _nan_arg(name: str, a: Any, axis: Any, out: Any, keepdims: Any, fill: float) -> Any:
    _no_out(name, out)
    a = promote.lift(name, a)
    find = getattr(reductions, name[3:])
    if not _is_float(a, name):
        return find(a, axis, None, keepdims)
    result = find(_fill_nan(a, fill), axis, None, keepdims)
    axes = promote.canonical_axes(axis, a.ndim)
    return _mark_all_nan(a, result, axes, bool(keepdims))


@fused("axes", "keepdims")
def _mark_all_nan(a: Any, result: Any, axes: Any, keepdims: bool) -> Any:
    missing = reduce_axes("all", lax.ne(a, a), axes, keepdims)
    return lax.select(missing, lax.full_like(result, -1), result)


def nanargmax(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """The position of the largest element that is not NaN; -1 if all are."""
    return _nan_arg("nanargmax", a, axis, out, keepdims, -np.inf)


def nanargmin(
    a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """The position of the smallest element that is not NaN; -1 if all are."""
    return _nan_arg("nanargmin", a, axis, out, keepdims, np.inf)
