"""Padding in every mode of NumPy's.

Builds on signal.py. Tested in tests/numpy/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.numpy.reductions import reduce_axes
from pullback.numpy.signal import lift
from pullback.numpy.sorting import median
from pullback.numpy.vectorize import apply_along_axis

# ---------------------------------------------------------------- pad

_PAD_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "minimum": ("stat_length",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "edge": (),
    "wrap": (),
    "empty": (),
}


def _pairs(value: Any, rank: int, name: str) -> list[tuple[Any, Any]]:
    """Two values per axis, from a number, a pair, or one pair per axis."""
    if isinstance(value, dict):
        out = [(0, 0)] * rank
        for axis, item in value.items():
            out[promote.canonical_axis(axis, rank)] = (
                tuple(item) if isinstance(item, (tuple, list)) else (item, item)
            )
        return out
    if promote.is_array(value) or isinstance(value, np.ndarray):
        value = value.tolist() if not hasattr(value, "aval") else value
    if hasattr(value, "aval"):
        full = promote.broadcast_to(value, (rank, 2))
        return [(full[i, 0], full[i, 1]) for i in range(rank)]
    if not isinstance(value, (tuple, list)):
        return [(value, value)] * rank
    items = [tuple(v) if isinstance(v, (tuple, list)) else v for v in value]
    if len(items) == 1:
        item = items[0]
        pair = item if isinstance(item, tuple) else (item, item)
        return [(pair[0], pair[-1])] * rank
    if all(not isinstance(v, tuple) for v in items) and len(items) == 2:
        return [(items[0], items[1])] * rank
    if len(items) == rank:
        pairs = [v if isinstance(v, tuple) else (v, v) for v in items]
        return [(p[0], p[-1]) for p in pairs]
    raise ValueError(
        f"jnp.pad: {name} {value!r} does not fit an array with {rank} axes: give a number, one "
        "pair, or a pair per axis"
    )


def pad(
    array: Any, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any
) -> Any:
    """The array with more elements around it.

    Args:
        array: array.
        pad_width: how many before and after: a number, a pair, a pair per axis, or a dict by axis.
        mode: "constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum",
            "minimum", "mean", "median", "empty", or a function as in NumPy.
        kwargs: constant_values, end_values, stat_length or reflect_type, by mode.

    Returns:
        The larger array, in the array's dtype.
    """
    array = lift("pad", array)
    widths = [
        (promote.index_of(a, "pad_width"), promote.index_of(b, "pad_width"))
        for a, b in _pairs(pad_width, array.ndim, "pad_width")
    ]
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode):
        return _pad_function(array, widths, mode, kwargs)
    if mode not in _PAD_OPTIONS:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    unknown = set(kwargs) - set(_PAD_OPTIONS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {sorted(unknown)}")
    if mode == "constant":
        values = _pairs(kwargs.get("constant_values", 0), array.ndim, "constant_values")
        return _pad_constant(array, values, tuple(widths))
    options = tuple(sorted((k, _hashable(v)) for k, v in kwargs.items() if k != "end_values"))
    ends = _pairs(kwargs.get("end_values", 0), array.ndim, "end_values")
    return _pad_other(array, ends, tuple(widths), mode, options)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


@fused("widths")
def _pad_constant(array: Any, values: list[Any], widths: tuple) -> Any:
    pairs = [tuple(v) for v in values]
    uniform = all(
        v is pairs[0][0] or (type(v) is int and v == pairs[0][0]) for p in pairs for v in p
    )
    if uniform and pairs:
        value = _pad_value(pairs[0][0], array.dtype)
        return lax.pad(array, value, [(a, b, 0) for a, b in widths])
    for axis, ((before, after), (low, high)) in enumerate(zip(pairs, widths, strict=True)):
        for value, width in ((before, (low, 0)), (after, (0, high))):
            config = [(0, 0, 0)] * array.ndim
            config[axis] = (*width, 0)
            array = lax.pad(array, _pad_value(value, array.dtype), config)
    return array


def _pad_value(value: Any, dtype: np.dtype) -> Any:
    if type(value) in promote.PYTHON_SCALARS:
        return np.asarray(value).astype(dtype)
    return lax.convert_element_type(value, dtype)


@fused("widths", "mode", "options")
def _pad_other(array: Any, ends: list[Any], widths: tuple, mode: str, options: tuple) -> Any:
    settings = dict(options)
    for axis, (low, high) in enumerate(widths):
        n = array.shape[axis]
        if low == high == 0:
            continue
        if n == 0 and mode != "empty":
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )
        if mode in ("reflect", "symmetric", "wrap", "edge"):
            array = _pad_positions(
                array, axis, low, high, mode, settings.get("reflect_type", "even")
            )
        elif mode == "empty":
            config = [(0, 0, 0)] * array.ndim
            config[axis] = (low, high, 0)
            array = lax.pad(array, np.zeros((), array.dtype), config)
        elif mode == "linear_ramp":
            array = _pad_ramp(array, axis, low, high, ends[axis])
        else:
            array = _pad_statistic(array, axis, low, high, mode, settings.get("stat_length"))
    return array


def _pad_positions(x: Any, axis: int, low: int, high: int, mode: str, reflect_type: str) -> Any:
    """Modes that repeat elements: one read of known positions (NumPy finds them)."""
    n = x.shape[axis]
    if reflect_type == "odd" and mode in ("reflect", "symmetric"):
        return _pad_odd(x, axis, low, high, mode)
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    pad_host: Any = np.pad
    positions = pad_host(np.arange(n, dtype=np.int32), (low, high), mode=mode)
    index = (slice(None),) * axis + (positions,)
    return x.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _pad_odd(x: Any, axis: int, low: int, high: int, mode: str) -> Any:
    """Reflection through the edge element: 2 * edge - mirrored, repeated while there is need."""
    while low or high:
        n = x.shape[axis]
        skip = 1 if mode == "reflect" and n > 1 else 0
        room = n - skip if n > 1 or mode == "symmetric" else 1
        before, after = min(low, room), min(high, room)
        first = lax.slice_in_dim(x, 0, 1, axis=axis)
        last = lax.slice_in_dim(x, n - 1, n, axis=axis)
        parts = [x]
        if before:
            part = lax.rev(lax.slice_in_dim(x, skip, skip + before, axis=axis), (axis,))
            parts.insert(0, 2 * first - part)
        if after:
            part = lax.rev(lax.slice_in_dim(x, n - skip - after, n - skip, axis=axis), (axis,))
            parts.append(2 * last - part)
        x = lax.concatenate(parts, axis)
        low, high = low - before, high - after
    return x


def _pad_ramp(x: Any, axis: int, low: int, high: int, ends: Any) -> Any:
    n = x.shape[axis]
    compute = dtypes.to_inexact_dtype(x.dtype)
    parts = [x]
    for width, value, at, before in ((low, ends[0], 0, True), (high, ends[1], n - 1, False)):
        if not width:
            continue
        edge = lax.convert_element_type(lax.slice_in_dim(x, at, at + 1, axis=axis), compute)
        shape = [1] * x.ndim
        shape[axis] = width
        share = np.arange(width) / width if before else np.arange(1, width + 1) / width
        share = share.reshape(shape).astype(compute)
        value = lax.convert_element_type(value, compute)
        ramp = value + (edge - value) * share if before else edge + (value - edge) * share
        if x.dtype.kind in "iu":
            ramp = lax.round(ramp)
        ramp = lax.convert_element_type(ramp, x.dtype)
        parts.insert(0, ramp) if before else parts.append(ramp)
    return lax.concatenate(parts, axis)


def _pad_statistic(x: Any, axis: int, low: int, high: int, mode: str, length: Any) -> Any:
    n = x.shape[axis]
    pairs = [(n, n)] * x.ndim if length is None else _pairs(length, x.ndim, "stat_length")
    parts = [x]
    for width, count, before in ((low, pairs[axis][0], True), (high, pairs[axis][1], False)):
        if not width:
            continue
        count = min(count, n)
        if count < 1:
            raise ValueError("stat_length of 0 yields no value for padding")
        start = 0 if before else n - count
        part = lax.slice_in_dim(x, start, start + count, axis=axis)
        if mode in ("maximum", "minimum"):
            value = reduce_axes("max" if mode == "maximum" else "min", part, (axis,), True)
        elif mode == "mean":
            value = lax.convert_element_type(part, dtypes.to_inexact_dtype(x.dtype))
            value = reduce_axes("sum", value, (axis,), True) / count
        else:
            value = median(part, axis, keepdims=True)
        if x.dtype.kind in "iu" and value.dtype != x.dtype:
            value = lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN)
        value = lax.convert_element_type(value, x.dtype)
        shape = tuple(width if i == axis else d for i, d in enumerate(x.shape))
        parts.insert(0, promote.broadcast_to(value, shape)) if before else parts.append(
            promote.broadcast_to(value, shape)
        )
    return lax.concatenate(parts, axis)


def _pad_function(x: Any, widths: list[tuple[int, int]], mode: Any, kwargs: dict[str, Any]) -> Any:
    x = pad(x, widths)
    for axis, pair in enumerate(widths):
        x = apply_along_axis(lambda row, p=pair, a=axis: mode(row, p, a, kwargs), axis, x)
    return x
