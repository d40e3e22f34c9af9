"""Evenly spaced values and matrices by rule: arange, linspace, eye, tri.

Builds on creation.py. Tested in tests/numpy/.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes, errors
from pullback.core.tracer import Tracer
from pullback.numpy import promote
from pullback.numpy.creation import (
    _HOST_LIMIT,
    asarray,
    constant,
    convert,
    place,
    staged,
)
from pullback.numpy.fused import fused
from pullback.xla.array import Array

# ---------------------------------------------------------------- ranges


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Evenly spaced values in the half-open interval [start, stop).

    Args:
        start: the first value; the end if it is the only argument (then 0 is the start).
        stop: the end, not included.
        step: the distance; default 1.
        dtype: None for the common dtype of the arguments.
        device, out_sharding: where to.

    Returns:
        A 1-D array.

    Raises:
        ConcretizationTypeError: an argument is traced: the length would be unknown.
    """
    known = [_known_number(x, "arange") for x in (start, stop, step)]
    if dtype is None:
        dtype = dtypes.result_type(*(x for x in known if x is not None))
    else:
        dtype = dtypes.requested_dtype(dtype, "arange")
    first, last, by = known
    if last is None:
        first, last = 0, first
    by = 1 if by is None else by
    if by == 0:
        raise ValueError("arange: the step is 0")
    if staged() and first == 0 and by == 1 and dtype.kind in "iuf":
        return place(lax.iota(dtype, max(0, math.ceil(last))), device or out_sharding)
    values: Any = np.arange(first, last, by)
    if values.dtype != dtype:
        length = len(values)
        whole = dtype.kind in "iu"
        values = np.arange(first, last, by).astype(dtype) if whole else values.astype(dtype)
        if len(values) != length:
            values = np.arange(first, last, by).astype(dtype)
    return constant(values, False, device or out_sharding)


def _known_number(x: Any, name: str) -> Any:
    """`x` as a Python or NumPy number; a tracer must have a value beneath."""
    if x is None or type(x) in promote.PYTHON_SCALARS:
        return x
    if isinstance(x, Tracer):
        if x.concrete() is None:
            raise errors.ConcretizationTypeError(
                x,
                f"jnp.{name}: start, stop and step give the length of the result, so they must be "
                f"known.\nInstead: jnp.{name} of a size taken from x.shape.",
            )
        return x.item()
    if isinstance(x, (Array, np.ndarray)):
        if x.ndim:
            raise ValueError(f"{name} arguments must be scalars, got an array of shape {x.shape}")
        return np.asarray(x)[()]
    if isinstance(x, np.generic):
        return x
    try:
        return x.__index__()
    except AttributeError:
        raise TypeError(f"{name} needs numbers, got {x!r} of type {type(x)}") from None


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Evenly spaced values from start to stop.

    Args:
        start, stop: the ends, numbers or arrays that broadcast.
        num: how many values.
        endpoint: whether `stop` is the last one.
        retstep: return the distance too.
        dtype: None for the common floating dtype.
        axis: where the new axis stands if the ends are arrays.
        device: where to.

    Returns:
        The array, or array and distance.
    """
    num = promote.index_of(num, "num")
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    avals = [promote.aval_of("linspace", x, i) for i, x in enumerate((start, stop))]
    compute = dtypes.to_inexact_dtype(dtypes.common_type(avals)[0])
    dtype = compute if dtype is None else dtypes.requested_dtype(dtype, "linspace")
    result, step = _linspace(start, stop, num, builtins.bool(endpoint), compute, dtype, axis)
    result = place(result, device)
    return (result, step) if retstep else result


@fused("num", "endpoint", "compute", "dtype", "axis")
def _linspace(
    start: Any, stop: Any, num: int, endpoint: bool, compute: Any, dtype: Any, axis: int
) -> tuple[Any, Any]:
    start, stop = (lax.convert_element_type(x, compute) for x in (start, stop))
    start, stop = promote.broadcast("linspace", start, stop)
    shape = promote.shape_of(start)
    div = num - 1 if endpoint else num
    delta = (stop - start) / div if div > 0 else lax.full(shape, math.nan, compute)
    if num == 0:
        out = lax.full((0, *shape), 0, compute)
    elif num == 1:
        out = lax.reshape(start, (1, *shape))
    else:
        real = dtypes.finfo(compute).dtype
        steps = lax.iota(real, num - 1 if endpoint else num) / np.asarray(div, real)
        steps = lax.reshape(
            lax.convert_element_type(steps, compute),
            (-1 + num if endpoint else num,) + (1,) * len(shape),
        )
        low, high = (lax.reshape(x, (1, *shape)) for x in (start, stop))
        out = low * (1 - steps) + high * steps
        if endpoint:
            out = lax.concatenate([out, high], 0)
    if dtype.kind in "iu" and compute.kind == "f":
        out = lax.floor(out)
    out = lax.convert_element_type(out, dtype)
    if axis != 0:
        axis = promote.canonical_axis(axis, out.ndim)
        out = lax.transpose(out, (*range(1, axis + 1), 0, *range(axis + 1, out.ndim)))
    return out, delta


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """base to the power of evenly spaced exponents. Arguments as in `linspace`."""
    target = None if dtype is None else dtypes.requested_dtype(dtype, "logspace")
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    base_dtype = dtypes.common_type([exponents.aval, promote.aval_of("logspace", base)])[0]
    result = _power_of(base, promote.cast(exponents, base_dtype))
    return result if target is None else convert(result, target)


@fused()
def _power_of(base: Any, exponents: Any) -> Any:
    return lax.pow_p.bind(lax.convert_element_type(base, exponents.dtype), exponents)


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Values whose logarithms are evenly spaced, from start to stop. Arguments as in `linspace`."""
    avals = [promote.aval_of("geomspace", x, i) for i, x in enumerate((start, stop))]
    compute = dtypes.to_inexact_dtype(dtypes.common_type(avals)[0])
    target = compute if dtype is None else dtypes.requested_dtype(dtype, "geomspace")
    start, stop = (promote.lift("geomspace", promote.cast(x, compute)) for x in (start, stop))
    return _geomspace(start, stop, num, builtins.bool(endpoint), target, axis)


@fused("num", "endpoint", "dtype", "axis")
def _geomspace(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Any:
    start, stop = promote.broadcast("geomspace", start, stop)
    sign = lax.sign(start)
    low, high = lax.log(start / sign), lax.log(stop / sign)
    compute = start.dtype
    exponents = _linspace(low, high, num, endpoint, compute, compute, 0)[0]
    result = sign * lax.exp(exponents)
    if num > 0:
        parts = [start[None]]
        if endpoint and num > 1:
            parts += [result[1:-1], stop[None]]
        else:
            parts += [result[1:]]
        result = lax.concatenate(parts, 0)
    result = lax.convert_element_type(result, dtype)
    if axis != 0:
        axis = promote.canonical_axis(axis, result.ndim)
        result = lax.transpose(result, (*range(1, axis + 1), 0, *range(axis + 1, result.ndim)))
    return result


# ---------------------------------------------------------------- matrices


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Any:
    """Ones on a diagonal, zeros elsewhere.

    Args:
        N: number of rows.
        M: number of columns; None for N.
        k: which diagonal: above the main one if positive.
        dtype: None for the default float.
        device: where to.

    Returns:
        An array of shape [N, M].
    """
    dtype = dtypes.requested_dtype(float if dtype is None else dtype, "eye")
    n = promote.canonical_shape(N)[0]
    m = n if M is None else promote.canonical_shape(M)[0]
    if isinstance(k, Tracer) or staged() or n * m > _HOST_LIMIT:
        rows = lax.broadcasted_iota(np.int32, (n, m), 0)
        columns = lax.broadcasted_iota(np.int32, (n, m), 1)
        return place(lax.convert_element_type(rows + k == columns, dtype), device)
    return constant(np.eye(n, m, int(k), dtype), False, device)


def identity(n: int, dtype: Any = None) -> Any:
    """The identity matrix of shape [n, n]."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones at and below a diagonal, zeros above. Arguments as in `eye`."""
    dtype = dtypes.requested_dtype(np.float32 if dtype is None else dtype, "tri")
    n, m = int(N), int(N if M is None else M)
    if staged() or n * m > _HOST_LIMIT:
        return lax.convert_element_type(triangle((n, m), k), dtype)
    return constant(np.tri(n, m, int(k), dtype))


def triangle(shape: tuple[int, int], k: Any) -> Any:
    """bool[n, m]: whether column <= row + k."""
    rows = lax.broadcasted_iota(np.int32, shape, 0)
    columns = lax.broadcasted_iota(np.int32, shape, 1)
    return rows + k >= columns


def tril(m: Any, k: int = 0) -> Any:
    """The lower triangle of the last two axes, zeros above the k-th diagonal."""
    m = promote.lift("tril", m)
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.tril must be at least 2D, got shape {m.shape}")
    return _tril(m, promote.index_of(k, "k"), True)


def triu(m: Any, k: int = 0) -> Any:
    """The upper triangle of the last two axes, zeros below the k-th diagonal."""
    m = promote.lift("triu", m)
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.triu must be at least 2D, got shape {m.shape}")
    return _tril(m, promote.index_of(k, "k") - 1, False)


@fused("k", "lower")
def _tril(m: Any, k: int, lower: bool) -> Any:
    mask = promote.broadcast_to(triangle(m.shape[-2:], k), m.shape)
    zero = lax.full_like(m, 0)
    return lax.select(mask, m, zero) if lower else lax.select(mask, zero, m)


def fromfunction(
    function: Callable[..., Any], shape: Sequence[int], *, dtype: Any = float, **kwargs: Any
) -> Any:
    """The function of the coordinates: entry [i, j] is function(i, j).

    Args:
        function: of one index array per axis.
        shape: shape of the result.
        dtype: of the index arrays.
        kwargs: passed on.

    Returns:
        What the function gives.
    """
    shape = promote.canonical_shape(shape)
    grid = np.indices(shape)
    return function(*[asarray(g, dtype) for g in grid], **kwargs)
