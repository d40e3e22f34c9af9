"""Sums, products, extremes and tests over axes; running sums; their NaN-skipping forms.

Builds on promote.py and lax. Tested in tests/numpy/test_reductions.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.numpy.promote import strong

Axis = int | tuple[int, ...] | None


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to jnp.{name} is not supported: arrays are immutable.\n"
            "Instead: use the result."
        )


def _limit(dtype: np.dtype, largest: bool) -> Any:
    """The neutral element of min (largest) or max."""
    if dtype.kind == "b":
        return np.bool_(largest)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(info.max if largest else info.min, dtype)
    return np.asarray(np.inf if largest else -np.inf).astype(dtype)


# name -> (lax reduction, combination with `initial`, neutral element by dtype)
_KINDS: dict[str, tuple[Callable, Callable, Callable[[np.dtype], Any]]] = {
    "sum": (lax.reduce_sum, lax.add_p.bind, lambda d: np.asarray(0, d)),
    "prod": (lax.reduce_prod, lax.mul_p.bind, lambda d: np.asarray(1, d)),
    "max": (lax.reduce_max, lax.max_p.bind, lambda d: _limit(d, False)),
    "min": (lax.reduce_min, lax.min_p.bind, lambda d: _limit(d, True)),
    "all": (lax.reduce_and, lax.and_p.bind, lambda d: np.bool_(True)),
    "any": (lax.reduce_or, lax.or_p.bind, lambda d: np.bool_(False)),
}


def sum_dtype(dtype: np.dtype, promote_integers: bool = True) -> np.dtype:
    """The dtype of a sum: small integers and booleans widen to the default integer."""
    if not promote_integers or dtype.kind not in "biu":
        return dtype
    wide = dtypes.python_scalar_dtype(int)
    if dtype.kind == "u":
        wide = np.dtype(f"uint{8 * wide.itemsize}")
    return wide if dtype.itemsize < wide.itemsize or dtype.kind == "b" else dtype


def reduce_axes(kind: str, x: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """The reduction of a tracer or array over canonical axes, half-precision sums in float32."""
    reducer = _KINDS[kind][0]
    dtype = x.dtype
    half = kind in ("sum", "prod") and dtype.kind in "fV" and dtype.itemsize < 4
    if half:
        x = lax.convert_element_type(x, np.float32)
    result = reducer(x, axes)
    if half:
        result = lax.convert_element_type(result, dtype)
    return keep(result, x.shape, axes) if keepdims else result


def keep(result: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """The result of a reduction with the reduced axes back, of size 1."""
    full = tuple(1 if i in axes else d for i, d in enumerate(shape))
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return lax.broadcast_in_dim(result, full, kept)


@fused("kind", "axes", "dtype", "keepdims")
def _reduce(
    x: Any, initial: Any, where: Any, kind: str, axes: Any, dtype: Any, keepdims: bool
) -> Any:
    _, combine, neutral = _KINDS[kind]
    x = promote.cast(x, dtype)
    if where is not None:
        where = promote.broadcast_to(promote.cast(where, np.dtype(bool)), x.shape)
        x = lax.select(where, x, lax.full_like(x, neutral(dtype)))
    result = reduce_axes(kind, x, axes, keepdims)
    if initial is not None:
        result = combine(result, promote.cast(initial, dtype))
    return result


def _reduction(
    kind: str, a: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    a = promote.lift(kind, a)
    shape = a.shape
    axes = tuple(range(len(shape))) if axis is None else promote.canonical_axes(axis, len(shape))
    if kind in ("max", "min") and initial is None:
        if 0 in shape and any_zero(shape, axes):
            raise ValueError(
                f"zero-size array to reduction operation {kind} which has no identity.\n"
                "Instead: give initial=..., the result for no elements."
            )
        if where is not None:
            raise ValueError(
                f"reduction operation {kind} does not have an identity, so to use a where mask "
                "one has to specify 'initial'"
            )
    if a.dtype == dtype and not keepdims and initial is None and where is None:
        if dtype.itemsize >= 4 or dtype.kind not in "fV":
            if not axes:
                return promote.cast(a, dtype)
            result = _KINDS[kind][0](a, axes)
            return strong(result)
    return strong(_reduce(a, initial, where, kind, axes, dtype, bool(keepdims)))


def any_zero(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether one of the axes is empty."""
    return builtins.any(shape[i] == 0 for i in axes)


def _result_dtype(a: Any, dtype: Any, name: str, promote_integers: bool = True) -> np.dtype:
    if dtype is not None:
        return dtypes.requested_dtype(dtype, name)
    return sum_dtype(promote.aval_of(name, a).dtype, promote_integers)


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The sum over axes.

    Args:
        a: array.
        axis: axis or axes; None for all.
        dtype: dtype to sum in and to return; None widens small integers (half floats are
            summed in float32 and returned as they were).
        out: not supported: arrays are immutable.
        keepdims: keep the reduced axes with size 1.
        initial: a number to add.
        where: mask, broadcast against `a`: which elements to take.
        promote_integers: whether small integers widen.

    Returns:
        The array of sums.
    """
    _no_out("sum", out)
    return _reduction(
        "sum", a, axis, _result_dtype(a, dtype, "sum", promote_integers), keepdims, initial, where
    )


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """The product over axes; arguments as in `sum`, `initial` is multiplied."""
    _no_out("prod", out)
    return _reduction(
        "prod", a, axis, _result_dtype(a, dtype, "prod", promote_integers), keepdims, initial, where
    )


def max(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The largest element over axes; NaN if there is one.

    Args:
        a: array.
        axis: axis or axes; None for all.
        out: not supported: arrays are immutable.
        keepdims: keep the reduced axes with size 1.
        initial: the least the result can be; needed for empty arrays and with `where`.
        where: mask: which elements to take.

    Returns:
        The array of maxima, in a's dtype.
    """
    _no_out("max", out)
    dtype = promote.aval_of("max", a).dtype
    return _reduction("max", a, axis, dtype, keepdims, initial, where)


def min(
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The smallest element over axes; NaN if there is one. Arguments as in `max`."""
    _no_out("min", out)
    dtype = promote.aval_of("min", a).dtype
    return _reduction("min", a, axis, dtype, keepdims, initial, where)


amax = max
amin = min
_BOOL = np.dtype(bool)


def all(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether all elements over axes are true (not 0)."""
    _no_out("all", out)
    promote.aval_of("all", a)
    return _reduction("all", a, axis, _BOOL, keepdims, None, where)


def any(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Whether any element over axes is true (not 0)."""
    _no_out("any", out)
    promote.aval_of("any", a)
    return _reduction("any", a, axis, _BOOL, keepdims, None, where)


def ptp(a: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Any:
    """The largest element minus the smallest one."""
    _no_out("ptp", out)
    a = promote.lift("ptp", a)
    return _ptp(a, promote.canonical_axes(axis, a.ndim), bool(keepdims))


@fused("axes", "keepdims")
def _ptp(a: Any, axes: Any, keepdims: bool) -> Any:
    return reduce_axes("max", a, axes, keepdims) - reduce_axes("min", a, axes, keepdims)


def count_nonzero(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not 0, as the default integer."""
    a = promote.lift("count_nonzero", a)
    axes = promote.canonical_axes(axis, a.ndim)
    return _count_nonzero(a, axes, dtypes.python_scalar_dtype(int), bool(keepdims))


@fused("axes", "dtype", "keepdims")
def _count_nonzero(a: Any, axes: Any, dtype: Any, keepdims: bool) -> Any:
    ones = lax.convert_element_type(promote.cast(a, _BOOL), dtype)
    return reduce_axes("sum", ones, axes, keepdims)


# ---------------------------------------------------------------- positions


def _arg_extreme(name: str, prim: Callable, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    _no_out(name, out)
    a = promote.lift(name, a)
    index_dtype = dtypes.python_scalar_dtype(int)
    ndim = a.ndim
    if axis is None:
        flat, where = True, 0
        size = a.size
    else:
        where = promote.canonical_axis(axis, ndim)
        flat = False
        size = a.shape[where]
    if size == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    return _arg(a, name, flat, where, index_dtype, bool(keepdims))


@fused("name", "flat", "axis", "dtype", "keepdims")
def _arg(a: Any, name: str, flat: bool, axis: int, dtype: Any, keepdims: bool) -> Any:
    fun = lax.argmax if name == "argmax" else lax.argmin
    x = lax.reshape(a, (a.size,)) if flat else a
    if x.dtype == np.bool_:
        x = lax.convert_element_type(x, np.int8)
    result = fun(x, axis, dtype)
    if keepdims:
        shape = (
            (1,) * a.ndim if flat else tuple(1 if i == axis else d for i, d in enumerate(a.shape))
        )
        result = lax.reshape(result, shape)
    return result


def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The position of the (first) largest element.

    Args:
        a: array.
        axis: the axis to search; None searches the flattened array.
        out: not supported: arrays are immutable.
        keepdims: keep the axis with size 1.

    Returns:
        An integer array.
    """
    return _arg_extreme("argmax", lax.argmax, a, axis, out, keepdims)


def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Any:
    """The position of the (first) smallest element. Arguments as in `argmax`."""
    return _arg_extreme("argmin", lax.argmin, a, axis, out, keepdims)


# ---------------------------------------------------------------- running results


@fused("kind", "axis", "dtype", "skip_nan", "initial")
def _running(a: Any, kind: str, axis: int | None, dtype: Any, skip_nan: bool, initial: bool) -> Any:
    if axis is None:
        a, axis = lax.reshape(a, (a.size,)), 0
    neutral = 0 if kind == "sum" else 1
    if skip_nan and dtypes.is_inexact(a.dtype):
        a = lax.select(lax.ne(a, a), lax.full_like(a, neutral), a)
    a = promote.cast(a, dtype)
    result = (lax.cumsum if kind == "sum" else lax.cumprod)(a, axis)
    if initial:
        shape = tuple(1 if i == axis else d for i, d in enumerate(a.shape))
        result = lax.concatenate([lax.full(shape, neutral, dtype), result], axis)
    return result


def _cumulative(
    name: str, kind: str, a: Any, axis: Any, dtype: Any, out: Any, skip_nan: bool, initial: bool
) -> Any:
    _no_out(name, out)
    a = promote.lift(name, a)
    if axis is not None:
        axis = promote.canonical_axis(axis, a.ndim)
    if dtype is not None:
        dtype = dtypes.requested_dtype(dtype, name)
    elif name.startswith("cumulative"):
        dtype = sum_dtype(a.dtype)
    else:
        dtype = dtypes.python_scalar_dtype(int) if a.dtype == np.bool_ else a.dtype
    return strong(_running(a, kind, axis, dtype, skip_nan, initial))


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running sums.

    Args:
        a: array.
        axis: the axis to sum along; None for the flattened array.
        dtype: of the result; None keeps a's (booleans count as integers).
        out: not supported: arrays are immutable.

    Returns:
        An array of a's shape (flat for axis None).
    """
    return _cumulative("cumsum", "sum", a, axis, dtype, out, False, False)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running products. Arguments as in `cumsum`."""
    return _cumulative("cumprod", "prod", a, axis, dtype, out, False, False)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running sums, NaN counted as 0. Arguments as in `cumsum`."""
    return _cumulative("nancumsum", "sum", a, axis, dtype, out, True, False)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Running products, NaN counted as 1. Arguments as in `cumsum`."""
    return _cumulative("nancumprod", "prod", a, axis, dtype, out, True, False)


def _array_api_axis(name: str, x: Any, axis: int | None) -> int:
    ndim = np.ndim(x)
    if ndim == 0:
        raise ValueError(f"The input must be non-scalar to take the cumulative of {name}.")
    if axis is None:
        if ndim != 1:
            raise ValueError(f"The input array has rank {ndim}, however axis was not set: {name}")
        return 0
    return axis


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Running sums by the array API: small integers widen, `include_initial` starts with 0."""
    promote.aval_of("cumulative_sum", x)
    axis = _array_api_axis("cumulative_sum", x, axis)
    return _cumulative("cumulative_sum", "sum", x, axis, dtype, None, False, bool(include_initial))


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Running products by the array API: small integers widen, may start with 1."""
    promote.aval_of("cumulative_prod", x)
    axis = _array_api_axis("cumulative_prod", x, axis)
    return _cumulative(
        "cumulative_prod", "prod", x, axis, dtype, None, False, bool(include_initial)
    )
