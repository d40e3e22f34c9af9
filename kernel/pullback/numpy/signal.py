"""Padding, interpolation, convolution, differences, gradients, integration, windows.

Builds on lax. Tested in tests/numpy/test_signal.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.creation import asarray
from pullback.numpy.fused import fused
from pullback.numpy.manipulation import concatenate, moveaxis, ravel
from pullback.numpy.reductions import reduce_axes
from pullback.numpy.selection import where
from pullback.numpy.sorting import median, searchsorted
from pullback.numpy.vectorize import apply_along_axis

lift = promote.lift

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
    positions = np.pad(np.arange(n, dtype=np.int32), (low, high), mode=mode)
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
        x = apply_along_axis(lambda row, p=pair, a=axis: mode(row, p, a, kwargs), axis, x)  # type: ignore[misc]
    return x


# ---------------------------------------------------------------- interpolation


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear interpolation.

    Args:
        x: where to evaluate.
        xp: rising positions of the data, float[n].
        fp: values of the data, [n].
        left, right: values outside; None for the first and last, "extrapolate" to go on.
        period: of xp, whose order is then arbitrary.

    Returns:
        An array of x's shape.
    """
    if np.shape(xp) != np.shape(fp) or np.ndim(xp) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    x, xp = promote.lift_all("interp", *promote.promote_inexact("interp", x, xp))
    fp = lift("interp", promote.promote_inexact("interp", fp)[0])
    if xp.dtype.kind == "c":
        raise ValueError("jnp.interp: complex x values not supported.")
    words = tuple(v if isinstance(v, str) else None for v in (left, right))
    for word in words:
        if word not in (None, "extrapolate"):
            raise ValueError(
                f"the only valid string value of `left` and `right` is 'extrapolate', got {word!r}"
            )
    values = [None if isinstance(v, str) else v for v in (left, right)]
    return _interp(x, xp, fp, values[0], values[1], period, words)


@fused("words")
def _interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any, words: tuple) -> Any:
    if period is not None:
        period = lax.abs(lax.convert_element_type(period, x.dtype))
        x, xp = x % period, xp % period
        xp, fp = lax.sort((xp, fp), dimension=0, num_keys=1)
        xp = lax.concatenate([xp[-1:] - period, xp, xp[:1] + period], 0)
        fp = lax.concatenate([fp[-1:], fp, fp[:1]], 0)
    n = xp.shape[0]
    i = lax.clamp(
        np.int32(1), searchsorted(xp, x, "right").astype(np.int32), np.int32(max(n - 1, 1))
    )
    low, high = i - 1, lax.min(i, lax.full_like(i, n - 1))
    df, dx, delta = fp[high] - fp[low], xp[high] - xp[low], x - xp[low]
    tiny = np.asarray(np.spacing(np.finfo(xp.dtype).eps), xp.dtype)
    flat = lax.abs(dx) <= tiny
    safe = lax.select(flat, lax.full_like(dx, 1), dx)
    out = where(flat, fp[low], fp[low] + (delta / safe) * df)
    if period is None:
        if words[0] is None:
            out = where(x < xp[0], fp[0] if left is None else left, out)
        if words[1] is None:
            out = where(x > xp[-1], fp[-1] if right is None else right, out)
    return out


# ---------------------------------------------------------------- convolution


def _convolve(
    name: str, a: Any, v: Any, mode: str, precision: Any, preferred: Any, is_correlation: bool
) -> Any:
    a, v = promote.lift_all(name, *promote.promote_inexact(name, a, v))
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    if not a.size or not v.size:
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {a.shape} and {v.shape}")
    if mode not in ("full", "same", "valid"):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    if preferred is not None:
        preferred = dtypes.requested_dtype(preferred, name)
    return _convolve_1d(a, v, mode, precision, preferred, is_correlation)


@fused("mode", "precision", "preferred", "is_correlation")
def _convolve_1d(
    a: Any, v: Any, mode: str, precision: Any, preferred: Any, is_correlation: bool
) -> Any:
    swapped = a.shape[0] < v.shape[0]
    if is_correlation and v.dtype.kind == "c":
        v = lax.conj(v)
    if swapped:
        a, v = v, a
    m = v.shape[0]
    kernel = v if is_correlation else lax.rev(v, (0,))
    low, high = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}[mode]
    out = lax.conv_general_dilated(
        a[None, None, :],
        kernel[None, None, :],
        (1,),
        [(low, high)],
        precision=precision,
        preferred_element_type=preferred,
    )[0, 0]
    # corr(v, a) reversed is corr(a, v).
    return lax.rev(out, (0,)) if swapped and is_correlation else out


def convolve(
    a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The convolution of two 1-D arrays.

    Args:
        a, v: 1-D arrays.
        mode: "full", "same" (the longer one's length) or "valid" (only complete overlap).
        precision, preferred_element_type: of the multiplications.

    Returns:
        A 1-D array.
    """
    return _convolve("convolve", a, v, mode, precision, preferred_element_type, False)


def correlate(
    a: Any,
    v: Any,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The correlation of two 1-D arrays; v is conjugated. Arguments as in `convolve`."""
    return _convolve("correlate", a, v, mode, precision, preferred_element_type, True)


# ---------------------------------------------------------------- differences and integrals


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours, taken n times.

    Args:
        a: array.
        n: how often.
        axis: which axis.
        prepend, append: values to put before and after first.

    Returns:
        The array, shorter by n along the axis.
    """
    a = lift("diff", a)
    n = promote.index_of(n, "n")
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    if n == 0:
        return a
    axis = promote.canonical_axis(axis, a.ndim)
    parts = []
    for value in (prepend, None, append):
        if value is None:
            continue
        value = lift("diff", value)
        if value.ndim == 0:
            value = promote.broadcast_to(
                value, tuple(1 if i == axis else d for i, d in enumerate(a.shape))
            )
        parts.append(value)
    if parts:
        before = parts[:1] if prepend is not None else []
        after = parts[len(before) :]
        a = concatenate([*before, a, *after], axis)
    return _diff(a, n, axis)


@fused("n", "axis")
def _diff(a: Any, n: int, axis: int) -> Any:
    for _ in range(n):
        size = a.shape[axis]
        high = lax.slice_in_dim(a, min(1, size), size, axis=axis)
        low = lax.slice_in_dim(a, 0, max(size - 1, 0), axis=axis)
        a = high ^ low if a.dtype == np.bool_ else high - low
    return a


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, with values around them."""
    flat = ravel(lift("ediff1d", ary))
    parts = [diff(flat)]
    if to_begin is not None:
        parts.insert(0, ravel(lift("ediff1d", to_begin)).astype(flat.dtype))
    if to_end is not None:
        parts.append(ravel(lift("ediff1d", to_end)).astype(flat.dtype))
    return concatenate(parts)


def gradient(
    f: Any, *varargs: Any, axis: int | Sequence[int] | None = None, edge_order: int | None = None
) -> Any:
    """Central differences, one-sided at the edges.

    Args:
        f: array.
        varargs: spacing: one number, one per axis, or positions per axis.
        axis: axis or axes; None for all.
        edge_order: only 1.

    Returns:
        An array of f's shape, or one per axis.
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    f = lift("gradient", promote.promote_inexact("gradient", f)[0])
    axes = promote.canonical_axes(
        axis if axis is None or isinstance(axis, int) else tuple(axis), f.ndim
    )
    if len(varargs) == 0:
        spacings: list[Any] = [1.0] * len(axes)
    elif len(varargs) == 1:
        spacings = [varargs[0]] * len(axes)
    elif len(varargs) == len(axes):
        spacings = list(varargs)
    else:
        raise TypeError(f"Invalid number of spacing arguments {len(varargs)} for axis={axis}")
    if any(f.shape[i] < 2 for i in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are required."
        )
    spacings = [s if np.ndim(s) == 0 else asarray(s, f.dtype) for s in spacings]
    out = _gradient(f, spacings, axes)
    return out[0] if isinstance(axis, int) or len(out) == 1 else out


@fused("axes")
def _gradient(f: Any, spacings: list[Any], axes: tuple[int, ...]) -> list[Any]:
    out = []
    for axis, h in zip(axes, spacings, strict=True):
        n = f.shape[axis]

        def part(a: int, b: int, axis: int = axis) -> Any:
            return lax.slice_in_dim(f, a, b, axis=axis)

        if np.ndim(h) == 0:
            inside = (part(2, n) - part(0, n - 2)) / (2 * h)
            first, last = (part(1, 2) - part(0, 1)) / h, (part(n - 1, n) - part(n - 2, n - 1)) / h
        else:
            steps = lax.reshape(
                h[1:] - h[:-1], tuple(n - 1 if i == axis else 1 for i in range(f.ndim))
            )

            def gap(a: int, b: int, axis: int = axis, steps: Any = steps) -> Any:
                return lax.slice_in_dim(steps, a, b, axis=axis)

            d1, d2 = gap(0, n - 2), gap(1, n - 1)
            low, mid, high = part(0, n - 2), part(1, n - 1), part(2, n)
            inside = -d2 / (d1 * (d1 + d2)) * low + (d2 - d1) / (d1 * d2) * mid
            inside = inside + d1 / (d2 * (d1 + d2)) * high
            first = (part(1, 2) - part(0, 1)) / gap(0, 1)
            last = (part(n - 1, n) - part(n - 2, n - 1)) / gap(n - 2, n - 1)
        out.append(lax.concatenate([first, inside, last], axis))
    return out


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral by the trapezoidal rule.

    Args:
        y: values.
        x: their positions; None for even spacing dx.
        dx: the spacing.
        axis: which axis.

    Returns:
        The array without the axis.
    """
    if x is None:
        y = lift("trapezoid", promote.promote_inexact("trapezoid", y)[0])
    else:
        y, x = promote.lift_all("trapezoid", *promote.promote_inexact("trapezoid", y, x))
    axis = promote.canonical_axis(axis, y.ndim)
    y = moveaxis(y, axis, -1)
    if x is not None and x.ndim > 1:
        x = moveaxis(x, axis, -1)
    return _trapezoid(y, x, dx)


@fused()
def _trapezoid(y: Any, x: Any, dx: Any) -> Any:
    step = dx if x is None else x[..., 1:] - x[..., :-1]
    return 0.5 * reduce_axes("sum", step * (y[..., 1:] + y[..., :-1]), (y.ndim - 1,))


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    """Angles without jumps: multiples of the period added where neighbours differ by more than half."""
    p = lift("unwrap", p)
    if p.dtype.kind == "c":
        raise ValueError("jnp.unwrap does not support complex inputs.")
    if p.shape[axis] == 0:
        return p.astype(dtypes.to_inexact_dtype(p.dtype))
    if type(period) is float:
        p = lift("unwrap", promote.promote_inexact("unwrap", p)[0])
    axis = promote.canonical_axis(axis, p.ndim)
    return _unwrap(p, period / 2 if discont is None else discont, period, axis)


@fused("axis")
def _unwrap(p: Any, discont: Any, period: Any, axis: int) -> Any:
    steps = _diff(p, 1, axis)
    interval = period / 2 if dtypes.is_inexact(p.dtype) else period // 2
    wrapped = (steps + interval) % period - interval
    wrapped = where((wrapped == -interval) & (steps > 0), interval, wrapped)
    fix = where(abs(steps) < discont, 0, wrapped - steps)
    first = lax.slice_in_dim(p, 0, 1, axis=axis)
    rest = lax.slice_in_dim(p, 1, p.shape[axis], axis=axis)
    moved = rest + lax.cumsum(fix.astype(p.dtype), axis)
    return lax.concatenate([first, moved], axis)


# ---------------------------------------------------------------- windows


def _window(M: int, formula: Callable[[np.ndarray, int], np.ndarray]) -> Any:
    dtype = dtypes.python_scalar_dtype(float)
    n = promote.index_of(M, "M")
    if n <= 1:
        return asarray(np.ones(max(n, 0)), dtype)
    return asarray(formula(np.arange(n), n), dtype)


def bartlett(M: int) -> Any:
    """The triangular window of length M."""
    return _window(M, lambda k, n: 1 - np.abs(2 * k + 1 - n) / (n - 1))


def blackman(M: int) -> Any:
    """The Blackman window of length M."""
    return _window(
        M,
        lambda k, n: (
            0.42 - 0.5 * np.cos(2 * np.pi * k / (n - 1)) + 0.08 * np.cos(4 * np.pi * k / (n - 1))
        ),
    )


def hamming(M: int) -> Any:
    """The Hamming window of length M."""
    return _window(M, lambda k, n: 0.54 - 0.46 * np.cos(2 * np.pi * k / (n - 1)))


def hanning(M: int) -> Any:
    """The Hann window of length M."""
    return _window(M, lambda k, n: 0.5 * (1 - np.cos(2 * np.pi * k / (n - 1))))


def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window of length M; beta trades the main lobe's width for the side lobes."""
    dtype = dtypes.python_scalar_dtype(float)
    n = promote.index_of(M, "M")
    if n <= 1:
        return asarray(np.ones(max(n, 0)), dtype)
    k = np.arange(n)
    root = np.sqrt(np.maximum(0, 1 - (2 * k / (n - 1) - 1) ** 2)).astype(dtype)
    beta = lift("kaiser", promote.promote_inexact("kaiser", beta)[0])
    return i0(beta * root) / i0(beta)


def i0(x: Any) -> Any:
    """The modified Bessel function of the first kind of order 0."""
    x = lift("i0", promote.promote_inexact("i0", x)[0])
    if x.dtype.kind == "c":
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {x.dtype}")
    return _i0(x)


@fused()
def _i0(x: Any) -> Any:
    size = lax.abs(x)
    return lax.exp(size) * lax.bessel_i0e(size)
