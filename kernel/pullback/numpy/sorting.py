"""Sorting, searching in sorted arrays, order statistics.

Builds on lax.sort. Tested in tests/numpy/test_sorting.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.creation import asarray
from pullback.numpy.fused import fused
from pullback.numpy.index_plan import position_dtype
from pullback.numpy.manipulation import ravel
from pullback.numpy.reductions import reduce_axes

lift = promote.lift


def _sort_axis(name: str, a: Any, axis: int | None) -> tuple[Any, int]:
    a = lift(name, a)
    if axis is None:
        return ravel(a), 0
    if a.ndim == 0:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension 0")
    return a, promote.canonical_axis(axis, a.ndim)


def _check_kind(name: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise ValueError(
            f"'kind' argument to {name} is not supported. Only stable=True or stable=False."
        )
    if order is not None:
        raise ValueError(f"'order' argument to {name} is not supported.")


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """The elements in order along an axis, NaN last.

    Args:
        a: array.
        axis: which axis; None for the flattened array.
        kind, order: not supported.
        stable: keep the order of equal elements.
        descending: largest first.

    Returns:
        An array of a's shape (flat for axis None).
    """
    _check_kind("sort", kind, order)
    a, axis = _sort_axis("sort", a, axis)
    return _sort(a, axis, bool(stable), bool(descending))


@fused("axis", "stable", "descending")
def _sort(a: Any, axis: int, stable: bool, descending: bool) -> Any:
    result = lax.sort(a, dimension=axis, is_stable=stable)
    return lax.rev(result, (axis,)) if descending else result


def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Any:
    """The positions that sort an array along an axis. Arguments as in `sort`."""
    _check_kind("argsort", kind, order)
    a, axis = _sort_axis("argsort", a, axis)
    index = (
        dtypes.python_scalar_dtype(int)
        if dtype is None
        else dtypes.requested_dtype(dtype, "argsort")
    )
    return _argsort(a, axis, bool(stable), bool(descending), index)


@fused("axis", "stable", "descending", "index")
def _argsort(a: Any, axis: int, stable: bool, descending: bool, index: Any) -> Any:
    positions = lax.broadcasted_iota(index, a.shape, axis)
    if descending and stable:
        # Reversed before and after: equal elements keep their order.
        a, positions = lax.rev(a, (axis,)), lax.rev(positions, (axis,))
    _, order = lax.sort((a, positions), dimension=axis, is_stable=stable, num_keys=1)
    return lax.rev(order, (axis,)) if descending else order


def lexsort(keys: Any, axis: int = -1) -> Any:
    """The positions that sort by several keys; the last key counts first."""
    parts = [
        lift("lexsort", k)
        for k in (list(keys) if isinstance(keys, (list, tuple)) else lift("lexsort", keys))
    ]
    if not parts:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if any(p.shape != parts[0].shape for p in parts):
        raise ValueError("all keys need to be the same shape")
    if parts[0].ndim == 0:
        return asarray(np.zeros((), dtypes.python_scalar_dtype(int)))
    axis = promote.canonical_axis(axis, parts[0].ndim)
    return _lexsort(parts, axis, dtypes.python_scalar_dtype(int))


@fused("axis", "index")
def _lexsort(parts: list[Any], axis: int, index: Any) -> Any:
    positions = lax.broadcasted_iota(index, parts[0].shape, axis)
    operands = (*parts[::-1], positions)
    return lax.sort(operands, dimension=axis, num_keys=len(parts))[-1]


def sort_complex(a: Any) -> Any:
    """The elements of the first axis in order, as complex numbers."""
    a = lift("sort_complex", a)
    return sort(a.astype(dtypes.complex_dtype(dtypes.to_inexact_dtype(a.dtype))), -1)


def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """The kth element in its sorted place, smaller ones before it, larger ones after."""
    a, axis = _sort_axis("partition", a, axis)
    promote.canonical_axis(kth, a.shape[axis])
    return _sort(a, axis, False, False)


def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """The positions that partition an array. Arguments as in `partition`."""
    a, axis = _sort_axis("argpartition", a, axis)
    promote.canonical_axis(kth, a.shape[axis])
    return _argsort(a, axis, True, False, dtypes.python_scalar_dtype(int))


# ---------------------------------------------------------------- searching


def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Any:
    """Where elements belong in a sorted array, so that it stays sorted.

    Args:
        a: sorted 1-D array.
        v: elements to place.
        side: "left" before equal ones, "right" behind them.
        sorter: positions that sort `a`, if it is not sorted.
        method: "scan", "scan_unrolled", "sort" or "compare_all".

    Returns:
        An integer array of v's shape.
    """
    if side not in ("left", "right"):
        raise ValueError(
            f"{side!r} is an invalid value for keyword 'side'. Expected 'left' or 'right'."
        )
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"{method!r} is an invalid value for keyword 'method'. Expected one of "
            "'scan', 'scan_unrolled', 'sort', 'compare_all'."
        )
    if promote.aval_of("searchsorted", a).ndim != 1:
        raise ValueError("a should be 1-dimensional")
    a, v = promote.lift_all("searchsorted", *promote.promote("searchsorted", a, v))
    if sorter is not None:
        a = a[lift("searchsorted", sorter)]
    return _searchsorted(a, v, side, method, position_dtype(a.shape[0]))


@fused("side", "method", "index")
def _searchsorted(a: Any, v: Any, side: str, method: str, index: Any) -> Any:
    n = a.shape[0]
    if n == 0:
        return lax.full(v.shape, 0, index)
    floating = dtypes.is_inexact(a.dtype) and a.dtype.kind != "c"

    def is_before(x: Any, y: Any) -> Any:
        if not floating:
            return x < y if side == "left" else x <= y
        # NaN sorts last; -0.0 equals 0.0, as in NumPy.
        plain = x < y if side == "left" else x <= y
        y_nan = lax.ne_p.bind(y, y)
        x_nan = lax.ne_p.bind(x, x)
        return plain | (y_nan if side == "right" else y_nan & ~x_nan)

    if method == "compare_all":
        smaller = is_before(lax.broadcast_in_dim(a, (*(1,) * v.ndim, n), (v.ndim,)), v[..., None])
        return reduce_axes("sum", lax.convert_element_type(smaller, index), (v.ndim,))
    low = lax.full(v.shape, 0, index)
    high = lax.full(v.shape, n, index)
    rounds = max(1, math.ceil(math.log2(n + 1)))

    def step(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        lo, hi = state
        mid = lo + (hi - lo) // 2
        inside = lax.min(mid, n - 1)  # a search that has ended may stand behind the last
        here = a.at[inside].get(mode="promise_in_bounds", wrap_negative_indices=False)
        go_right = is_before(here, v) & (lo < hi)
        return lax.select(go_right, mid + 1, lo), lax.select(go_right | (lo >= hi), hi, mid)

    if rounds <= 16 and method == "scan_unrolled":
        state = (low, high)
        for i in range(rounds):
            state = step(i, state)
        return state[0]
    return lax.fori_loop(0, rounds, step, (low, high))[0]


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The number of the bin that each element lies in.

    Args:
        x: array.
        bins: rising or falling edges.
        right: whether a bin contains its right edge.
        method: as in `searchsorted`.

    Returns:
        An integer array of x's shape.
    """
    x, bins = promote.lift_all("digitize", x, bins)
    if bins.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got shape {bins.shape}")
    side = "right" if not right else "left"
    method = method or "scan"
    if bins.shape[0] == 0:
        return asarray(np.zeros(x.shape, np.int32))
    falling = bins[-1] < bins[0]
    rising_answer = searchsorted(bins, x, side, method=method)
    falling_answer = bins.shape[0] - searchsorted(bins[::-1], x, side, method=method)
    return _choose(falling, falling_answer, rising_answer)


@fused()
def _choose(pick: Any, x: Any, y: Any) -> Any:
    return lax.select(promote.broadcast_to(pick, x.shape), x, y)


# ---------------------------------------------------------------- order statistics

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile_call(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool, weights: Any
) -> Any:
    if weights is not None:
        raise NotImplementedError(f"{name}: weights are not supported; use method='linear' without")
    if method not in _METHODS:
        raise ValueError(f"method can only be {', '.join(map(repr, _METHODS))}, got {method!r}")
    (a,) = promote.promote_inexact(name, a)
    a, q = promote.lift_all(name, *promote.promote_inexact(name, a, q))
    if a.dtype.kind == "c":
        raise ValueError(
            f"{name} does not support complex input, as the operation is poorly defined."
        )
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    if isinstance(axis, list):
        axis = tuple(axis)
    axes = promote.canonical_axes(axis, a.ndim)
    return _quantile(a, q, axes, method, bool(keepdims), skip_nan)


@fused("axes", "method", "keepdims", "skip_nan")
def _quantile(a: Any, q: Any, axes: Any, method: str, keepdims: bool, skip_nan: bool) -> Any:
    dtype = a.dtype
    shape = a.shape
    rest = tuple(i for i in range(a.ndim) if i not in axes)
    kept = tuple(shape[i] for i in rest)
    flat = lax.transpose(a, (*rest, *axes))
    n = int(np.prod([shape[i] for i in axes]))
    flat = lax.reshape(flat, (*kept, n))
    last = len(kept)
    compute = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    q = lax.convert_element_type(q, compute)
    if n == 0:
        raise ValueError("quantile of an empty array is not defined")
    is_nan = lax.ne_p.bind(flat, flat)
    ordered = lax.sort(flat, dimension=last)
    if skip_nan:
        counts = reduce_axes("sum", lax.convert_element_type(~is_nan, compute), (last,))
        top = lax.max(counts - 1, lax.full_like(counts, 0))
        position = q[..., None] * lax.reshape(top, (1,) * q.ndim + (math.prod(kept),))
        position = lax.reshape(position, (*q.shape, *kept))
    else:
        bad = reduce_axes("any", is_nan, (last,), True)
        ordered = lax.select(
            promote.broadcast_to(bad, ordered.shape), lax.full_like(ordered, np.nan), ordered
        )
        position = promote.broadcast_to(
            lax.reshape(q * (n - 1), (*q.shape, *(1,) * len(kept))), (*q.shape, *kept)
        )
    low, high = lax.floor(position), lax.ceil(position)
    weight = position - low
    low_value, high_value = (_pick(ordered, i) for i in (low, high))
    low_value, high_value = (lax.convert_element_type(v, compute) for v in (low_value, high_value))
    if method == "linear":
        result = low_value * (1 - weight) + high_value * weight
        # Equal neighbours (infinities too) are not interpolated.
        result = lax.select(low_value == high_value, low_value, result)
    elif method == "lower":
        result = low_value
    elif method == "higher":
        result = high_value
    elif method == "nearest":
        result = lax.select(weight <= 0.5, low_value, high_value)
    else:
        result = (low_value + high_value) * 0.5
    result = lax.convert_element_type(result, dtype)
    if keepdims:
        full = (*q.shape, *(1 if i in axes else d for i, d in enumerate(shape)))
        result = lax.reshape(result, full)
    return result


def _pick(ordered: Any, position: Any) -> Any:
    """The elements at (whole) positions along the last axis: position [*q, *kept]."""
    n = ordered.shape[-1]
    index = lax.clamp(np.int32(0), lax.convert_element_type(position, np.int32), np.int32(n - 1))
    kept = ordered.shape[:-1]
    grid = [
        np.arange(d, dtype=np.int32).reshape([d if j == i else 1 for j in range(len(kept))])
        for i, d in enumerate(kept)
    ]
    return ordered.at[(*grid, index)].get(mode="promise_in_bounds", wrap_negative_indices=False)


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """The value below which the share q of the elements lies.

    Args:
        a: array.
        q: a share in [0, 1], or several.
        axis: axis or axes; None for all.
        out, overwrite_input: not supported: arrays are immutable.
        method: between neighbours: "linear", "lower", "higher", "midpoint" or "nearest".
        keepdims: keep the reduced axes with size 1.
        weights: not supported.

    Returns:
        A float array; axes of q come first.
    """
    _refuse(out, overwrite_input, "quantile")
    return _quantile_call("quantile", a, q, axis, method, keepdims, False, weights)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """As `quantile`, of the elements that are not NaN."""
    _refuse(out, overwrite_input, "nanquantile")
    return _quantile_call("nanquantile", a, q, axis, method, keepdims, True, weights)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Any:
    """As `quantile`, with q in percent."""
    del out_sharding
    _refuse(out, overwrite_input, "percentile")
    a, q = promote.promote_inexact("percentile", a, q)
    return _quantile_call(
        "percentile", a, lift("percentile", q) / 100, axis, method, keepdims, False, weights
    )


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """As `percentile`, of the elements that are not NaN."""
    _refuse(out, overwrite_input, "nanpercentile")
    a, q = promote.promote_inexact("nanpercentile", a, q)
    return _quantile_call(
        "nanpercentile", a, lift("nanpercentile", q) / 100, axis, method, keepdims, True, weights
    )


def median(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """The middle value (the mean of the two middle ones). Arguments as in `quantile`."""
    _refuse(out, overwrite_input, "median")
    return _quantile_call("median", a, 0.5, axis, "midpoint", keepdims, False, None)


def nanmedian(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """As `median`, of the elements that are not NaN."""
    _refuse(out, overwrite_input, "nanmedian")
    return _quantile_call("nanmedian", a, 0.5, axis, "midpoint", keepdims, True, None)


def _refuse(out: Any, overwrite: Any, name: str) -> None:
    if out is not None or overwrite:
        raise ValueError(
            f"jnp.{name} does not support out or overwrite_input: arrays are immutable."
        )
