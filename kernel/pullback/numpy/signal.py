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
from pullback.numpy.joining import concatenate
from pullback.numpy.manipulation import moveaxis, ravel
from pullback.numpy.reductions import reduce_axes
from pullback.numpy.selection import where
from pullback.numpy.sorting import searchsorted

lift = promote.lift


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
