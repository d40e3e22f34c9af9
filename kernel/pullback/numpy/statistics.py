"""Means, variances, covariances, averages; their NaN-skipping forms.

Builds on reductions.py. Tested in tests/numpy/test_statistics.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.numpy.promote import strong
from pullback.numpy.reductions import (
    Axis,
    _no_out,
    keep,
    reduce_axes,
)

_BOOL = np.dtype(bool)


def _mean_dtype(a: Any, dtype: Any, name: str) -> np.dtype:
    if dtype is not None:
        return dtypes.requested_dtype(dtype, name)
    return dtypes.to_inexact_dtype(promote.aval_of(name, a).dtype)


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype to add up in: half floats in float32."""
    return np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize < 4 else dtype


def mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Any:
    """The arithmetic mean over axes.

    Args:
        a: array.
        axis: axis or axes; None for all.
        dtype: of the result; None makes integers the default float.
        out: not supported: arrays are immutable.
        keepdims: keep the reduced axes with size 1.
        where: mask: which elements to take.

    Returns:
        A float or complex array; NaN where nothing is averaged.
    """
    _no_out("mean", out)
    dtype = _mean_dtype(a, dtype, "mean")
    a = promote.lift("mean", a)
    axes = promote.canonical_axes(axis, a.ndim)
    return strong(_mean(a, where, axes, dtype, bool(keepdims)))


def _count(shape: tuple[int, ...], axes: tuple[int, ...], where: Any, dtype: Any) -> Any:
    """How many elements are taken: a number, or an array with the axes kept."""
    if where is None:
        return np.asarray(np.prod([shape[i] for i in axes], dtype=np.int64)).astype(dtype)
    ones = lax.convert_element_type(where, dtype)
    return reduce_axes("sum", ones, axes, True)


@fused("axes", "dtype", "keepdims")
def _mean(a: Any, where: Any, axes: Any, dtype: Any, keepdims: bool) -> Any:
    wide = _wide(dtype)
    x = lax.convert_element_type(a, wide)
    if where is not None:
        where = promote.broadcast_to(promote.cast(where, _BOOL), x.shape)
        x = lax.select(where, x, lax.full_like(x, 0))
    total = reduce_axes("sum", x, axes, keepdims or where is not None)
    result = lax.div_p.bind(total, _count(x.shape, axes, where, wide))
    if where is not None and not keepdims:
        result = lax.squeeze(result, axes)
    return lax.convert_element_type(result, dtype)


def _check_ddof(correction: Any, ddof: Any) -> Any:
    if correction is None:
        return ddof
    if ddof != 0 if isinstance(ddof, (int, float)) else True:
        raise ValueError("ddof and correction cannot both be given")
    return correction


def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Any:
    """The variance over axes: the mean of abs(a - mean)**2.

    Args:
        a: array.
        axis: axis or axes; None for all.
        dtype: of the result; None makes integers the default float.
        out: not supported: arrays are immutable.
        ddof: divide by the number of elements less this.
        keepdims: keep the reduced axes with size 1.
        where: mask: which elements to take.
        mean: the mean, with the axes kept, if it is known already.
        correction: the array API's name for ddof.

    Returns:
        A real float array; NaN where ddof leaves nothing to divide by.
    """
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction, False)


def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: int | float | None = None,
) -> Any:
    """The standard deviation over axes, sqrt(var). Arguments as in `var`."""
    return _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction, True)


def _variance(
    name: str,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: Any,
    where: Any,
    mean: Any,
    correction: Any,
    root: bool,
) -> Any:
    _no_out(name, out)
    if dtype is not None:
        dtype = dtypes.requested_dtype(dtype, name)
        if not dtypes.is_inexact(dtype):
            raise ValueError(f"dtype argument to {name} must be inexact, got {dtype.name}")
    a = promote.lift(name, a)
    ddof = _check_ddof(correction, ddof)
    axes = promote.canonical_axes(axis, a.ndim)
    compute = dtypes.to_inexact_dtype(a.dtype)
    result_dtype = dtype or np.zeros(0, compute).real.dtype
    return _var(a, where, mean, ddof, axes, compute, result_dtype, bool(keepdims), root)


@fused("axes", "compute", "dtype", "keepdims", "root")
def _var(
    a: Any,
    where: Any,
    mean: Any,
    ddof: Any,
    axes: Any,
    compute: Any,
    dtype: Any,
    keepdims: bool,
    root: bool,
) -> Any:
    wide = _wide(compute)
    x = lax.convert_element_type(a, wide)
    if where is not None:
        where = promote.broadcast_to(promote.cast(where, _BOOL), x.shape)
    center = (
        _mean(x, where, axes, wide, True) if mean is None else lax.convert_element_type(mean, wide)
    )
    apart = lax.sub_p.bind(x, center)
    if wide.kind == "c":
        square = lax.real(lax.mul(apart, lax.conj(apart)))
    else:
        square = lax.square(apart)
    real = square.dtype
    if where is not None:
        square = lax.select(where, square, lax.full_like(square, 0))
    total = reduce_axes("sum", square, axes, keepdims or where is not None)
    count = lax.sub_p.bind(_count(x.shape, axes, where, real), lax.convert_element_type(ddof, real))
    result = lax.div_p.bind(total, count)
    valid = promote.broadcast_to((count > 0), result.shape)
    result = lax.select(valid, result, lax.full_like(result, np.nan))
    if where is not None and not keepdims:
        result = lax.squeeze(result, axes)
    if root:
        result = lax.sqrt(result)
    return lax.convert_element_type(result, dtype)


def average(
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean over axes.

    Args:
        a: array.
        axis: axis or axes; None for all.
        weights: of a's shape, or of the length of one axis.
        returned: return the sum of the weights too.
        keepdims: keep the reduced axes with size 1.

    Returns:
        The averages, or averages and sums of weights.
    """
    a = promote.lift("average", a)
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        count = np.prod([a.shape[i] for i in promote.canonical_axes(axis, a.ndim)])
        total = lax.full_like(result, float(count))
        return (result, total) if returned else result
    a, weights = promote.promote_inexact("average", a, weights)
    a, weights = promote.lift_all("average", a, weights)
    if axis is not None and not isinstance(axis, tuple):
        axis = promote.canonical_axis(axis, a.ndim)
    if weights.shape != a.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if isinstance(axis, tuple):
            axes = promote.canonical_axes(axis, a.ndim)
            if weights.shape != tuple(a.shape[i] for i in axes):
                raise ValueError("Shape of weights must be consistent with shape of a along axis.")
            order = sorted(range(len(axes)), key=lambda i: axes[i])
            full = tuple(d if i in axes else 1 for i, d in enumerate(a.shape))
            weights = lax.reshape(lax.transpose(weights, order), full)
        else:
            if weights.ndim != 1:
                raise TypeError("1D weights expected when shapes of a and weights differ.")
            if weights.shape[0] != a.shape[axis]:
                raise ValueError("Length of weights not compatible with specified axis.")
            weights = lax.reshape(
                weights, tuple(d if i == axis else 1 for i, d in enumerate(a.shape))
            )
    result, total = _average(a, weights, promote.canonical_axes(axis, a.ndim), bool(keepdims))
    return (result, total) if returned else result


@fused("axes", "keepdims")
def _average(a: Any, weights: Any, axes: Any, keepdims: bool) -> tuple[Any, Any]:
    weights = promote.broadcast_to(weights, a.shape)
    total = reduce_axes("sum", weights, axes, keepdims)
    return lax.div_p.bind(reduce_axes("sum", a * weights, axes, keepdims), total), total


# ---------------------------------------------------------------- covariance


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Any:
    """The covariance matrix of variables.

    Args:
        m: float[v, n]: a variable a row, an observation a column.
        y: more variables, in the same form.
        rowvar: False when the variables are the columns.
        bias: divide by n instead of n - 1.
        ddof: overrides bias: divide by n - ddof.
        fweights: integer repeats of each observation.
        aweights: weights of the observations.
        dtype: of the result.

    Returns:
        float[v, v].
    """
    args = [m] if y is None else [m, y]
    args = promote.promote_inexact("cov", *args)
    if dtype is not None:
        args = [promote.cast(a, dtypes.requested_dtype(dtype, "cov")) for a in args]
    args = promote.lift_all("cov", *args)
    if any(a.ndim > 2 for a in args):
        raise ValueError("cov: m and y must have at most 2 dimensions")
    if ddof is None:
        ddof = 0 if bias else 1
    if ddof != int(ddof):
        raise ValueError("ddof must be integer")
    if fweights is not None and promote.aval_of("cov", fweights).dtype.kind not in "iu":
        raise TypeError("fweights must be integer.")
    for label, w in (("fweights", fweights), ("aweights", aweights)):
        if w is not None and np.ndim(w) != 1:
            raise RuntimeError(f"cannot handle multidimensional {label}")
    return _cov(args, fweights, aweights, bool(rowvar), int(ddof))


@fused("rowvar", "ddof")
def _cov(args: list[Any], fweights: Any, aweights: Any, rowvar: bool, ddof: int) -> Any:
    rows = []
    for i, x in enumerate(args):
        if x.ndim < 2:
            x = lax.reshape(x, (1, x.size))
        elif not rowvar and (x.shape[0] != 1 or i > 0):
            x = lax.transpose(x, (1, 0))
        rows.append(x)
    x = rows[0] if len(rows) == 1 else lax.concatenate(rows, 0)
    n = x.shape[1]
    weights = None
    for w in (fweights, aweights):
        if w is not None:
            w = lax.convert_element_type(w, x.dtype)
            weights = w if weights is None else weights * w
    if weights is None:
        total = np.asarray(n).astype(x.dtype)
        center = x - keep(reduce_axes("sum", x, (1,)) / total, x.shape, (1,))
        scale = np.asarray(n - ddof).astype(x.dtype)
        weighted = center
    else:
        total = reduce_axes("sum", weights, (0,))
        mean_ = keep(reduce_axes("sum", x * weights, (1,)) / total, x.shape, (1,))
        center = x - mean_
        weighted = center * weights
        if ddof == 0:
            scale = total
        elif aweights is None:
            scale = total - ddof
        else:
            a = lax.convert_element_type(aweights, x.dtype)
            scale = total - ddof * reduce_axes("sum", weights * a, (0,)) / total
    other = lax.conj(weighted) if x.dtype.kind == "c" else weighted
    result = lax.dot_general(center, other, (((1,), (1,)), ((), ()))) / scale
    return (
        lax.squeeze(result, tuple(i for i in (0, 1) if result.shape[i] == 1))
        if result.size == 1
        else result
    )


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """The correlation coefficients of variables, in [-1, 1]. Arguments as in `cov`."""
    c = cov(x, y, rowvar, dtype=dtype)
    return _corrcoef(c)


@fused()
def _corrcoef(c: Any) -> Any:
    if c.ndim == 0:
        return c / c
    n = c.shape[0]
    eye = lax.broadcasted_iota(np.int32, (n, n), 0) == lax.broadcasted_iota(np.int32, (n, n), 1)
    real = lax.real(c) if c.dtype.kind == "c" else c
    d = lax.sqrt(reduce_axes("sum", lax.select(eye, real, lax.full_like(real, 0)), (1,)))
    if c.dtype.kind == "c":
        d_c = lax.convert_element_type(d, c.dtype)
        c = c / d_c[:, None] / d_c[None, :]
        return lax.complex(_unit(lax.real(c)), _unit(lax.imag(c)))
    return _unit(c / d[:, None] / d[None, :])


def _unit(x: Any) -> Any:
    return lax.clamp(np.asarray(-1, x.dtype), x, np.asarray(1, x.dtype))
