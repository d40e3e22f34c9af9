"""Fourier transforms: `jnp.fft`.

Builds on lax/fft.py. Source: NumPy reference, `numpy.fft`. Tested in tests/numpy/test_fft.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.creation import constant, place
from pullback.numpy.fused import fused
from pullback.numpy.joining import roll
from pullback.numpy.manipulation import moveaxis

lift = promote.lift


def _scale(norm: str | None, n: int, inverse: bool) -> float:
    """The factor that the norm adds to the unscaled forward and the 1/n inverse transform."""
    if norm in (None, "backward"):
        return 1.0
    if norm == "ortho":
        return math.sqrt(n) if inverse else 1 / math.sqrt(n)
    if norm == "forward":
        return float(n) if inverse else 1 / n
    raise ValueError(f"jnp.fft: norm must be None, 'backward', 'ortho' or 'forward', got {norm!r}")


@fused("kind", "lengths", "axes", "factor")
def _transform(
    x: Any, kind: str, lengths: tuple[int, ...], axes: tuple[int, ...], factor: float
) -> Any:
    """The transform `kind` over (moved-last) axes whose input lengths are cut or padded."""
    real_in = kind == "RFFT"
    wanted = list(lengths)
    if kind == "IRFFT":
        wanted[-1] = lengths[-1] // 2 + 1
    x = moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    for offset, n in enumerate(wanted):
        axis = x.ndim - len(axes) + offset
        size = x.shape[axis]
        if n < size:
            x = lax.slice_in_dim(x, 0, n, axis=axis)
        elif n > size:
            config = [(0, 0, 0)] * x.ndim
            config[axis] = (0, n - size, 0)
            x = lax.pad(x, np.zeros((), x.dtype), config)
    if not real_in and x.dtype.kind != "c":
        x = lax.convert_element_type(x, dtypes.complex_dtype(x.dtype))
    if real_in and x.dtype.itemsize < 4:
        x = lax.convert_element_type(x, np.float32)
    for start in range(0, len(lengths), 3):
        x = _by_three(x, kind, lengths, start)
    if factor != 1.0:
        x = x * np.asarray(factor, x.dtype)
    return moveaxis(x, tuple(range(x.ndim - len(axes), x.ndim)), axes)


def _by_three(x: Any, kind: str, lengths: tuple[int, ...], start: int) -> Any:
    """XLA transforms at most three axes at once: longer lists go in parts, the last part first."""
    stop = len(lengths) - start
    first = max(stop - 3, 0)
    part = lengths[first:stop]
    name = kind if start == 0 or kind in ("FFT", "IFFT") else {"RFFT": "FFT", "IRFFT": "IFFT"}[kind]
    if stop == len(lengths):
        return lax.fft(x, name, part)
    axes = tuple(range(x.ndim - len(lengths) + first, x.ndim - len(lengths) + stop))
    last = tuple(range(x.ndim - len(axes), x.ndim))
    return moveaxis(lax.fft(moveaxis(x, axes, last), name, part), last, axes)


def _many(name: str, kind: str, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    a = lift(f"fft.{name}", promote.promote_inexact(f"fft.{name}", a)[0])
    if kind == "RFFT" and a.dtype.kind == "c":
        raise ValueError(
            f"jnp.fft.{name} only takes real input, got {a.dtype}. Instead: jnp.fft.fftn."
        )
    if axes is None:
        axes = tuple(range(a.ndim)) if s is None else tuple(range(a.ndim - len(s), a.ndim))
    axes = tuple(promote.canonical_axis(i, a.ndim) for i in axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"jnp.fft.{name} does not support repeated axes. Got axes {axes}.")
    if s is not None:
        lengths = tuple(promote.index_of(n, "length") for n in s)
        if len(lengths) != len(axes):
            raise ValueError("Shape and axes have different lengths.")
    else:
        lengths = tuple(a.shape[i] for i in axes)
        if kind == "IRFFT" and lengths:
            lengths = (*lengths[:-1], 2 * (lengths[-1] - 1))
    if any(n < 1 for n in lengths):
        raise ValueError(f"jnp.fft.{name}: invalid number of data points {lengths}")
    if not axes:
        return a
    factor = _scale(norm, math.prod(lengths), kind in ("IFFT", "IRFFT"))
    return _transform(a, kind, lengths, axes, factor)


def _one(name: str, kind: str, a: Any, n: int | None, axis: int, norm: str | None) -> Any:
    if isinstance(axis, (tuple, list)):
        raise ValueError(
            f"jnp.fft.{name} does not support multiple axes. Instead: jnp.fft.{name}n."
        )
    return _many(name, kind, a, None if n is None else (n,), (axis,), norm)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along an axis.

    Args:
        a: array.
        n: length to cut or pad the axis to.
        axis: which axis.
        norm: "backward" (default: the inverse divides by n), "ortho" or "forward".

    Returns:
        A complex array.
    """
    return _one("fft", "FFT", a, n, axis, norm)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft`."""
    return _one("ifft", "IFFT", a, n, axis, norm)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The transform of real input: the n // 2 + 1 frequencies that are not negative."""
    return _one("rfft", "RFFT", a, n, axis, norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `rfft`; n is the length of the (real) result."""
    return _one("irfft", "IRFFT", a, n, axis, norm)


def _swap_norm(norm: str | None) -> str:
    names = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
    if norm not in names:
        raise ValueError(
            f"jnp.fft: norm must be None, 'backward', 'ortho' or 'forward', got {norm!r}"
        )
    return names[norm]


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The transform of a signal that is Hermitian in time: real in frequency."""
    return irfft(lax.conj(_as_complex(a)), n, axis, _swap_norm(norm))


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`."""
    return lax.conj(rfft(a, n, axis, _swap_norm(norm)))


def _as_complex(a: Any) -> Any:
    a = lift("fft.hfft", promote.promote_inexact("fft.hfft", a)[0])
    return a if a.dtype.kind == "c" else lax.convert_element_type(a, dtypes.complex_dtype(a.dtype))


Lengths = Sequence[int] | None


def fftn(a: Any, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Any:
    """The transform over several axes (all if None); s are lengths to cut or pad them to."""
    return _many("fftn", "FFT", a, s, axes, norm)


def ifftn(a: Any, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Any:
    """The inverse of `fftn`."""
    return _many("ifftn", "IFFT", a, s, axes, norm)


def rfftn(a: Any, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Any:
    """The transform of real input over several axes; the last one keeps half the frequencies."""
    return _many("rfftn", "RFFT", a, s, axes, norm)


def irfftn(a: Any, s: Lengths = None, axes: Lengths = None, norm: str | None = None) -> Any:
    """The inverse of `rfftn`."""
    return _many("irfftn", "IRFFT", a, s, axes, norm)


def fft2(a: Any, s: Lengths = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The transform over two axes."""
    return _many("fft2", "FFT", a, s, axes, norm)


def ifft2(
    a: Any, s: Lengths = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Any:
    """The inverse of `fft2`."""
    return _many("ifft2", "IFFT", a, s, axes, norm)


def rfft2(
    a: Any, s: Lengths = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Any:
    """The transform of real input over two axes."""
    return _many("rfft2", "RFFT", a, s, axes, norm)


def irfft2(
    a: Any, s: Lengths = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Any:
    """The inverse of `rfft2`."""
    return _many("irfft2", "IRFFT", a, s, axes, norm)


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `fft`'s entries, for n samples at spacing d."""
    dtype = dtypes.requested_dtype(float if dtype is None else dtype, "fftfreq")
    if isinstance(n, (list, tuple)) or isinstance(d, (list, tuple)):
        raise ValueError("fftfreq: n and d must be scalars")
    numbers = np.fft.ifftshift(np.arange(-(n // 2), (n + 1) // 2))
    return place(constant(numbers.astype(dtype)) / (d * n), device)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `rfft`'s entries, for n samples at spacing d."""
    dtype = dtypes.requested_dtype(float if dtype is None else dtype, "rfftfreq")
    if isinstance(n, (list, tuple)) or isinstance(d, (list, tuple)):
        raise ValueError("rfftfreq: n and d must be scalars")
    return place(constant(np.arange(0, n // 2 + 1).astype(dtype)) / (d * n), device)


def fftshift(x: Any, axes: Any = None) -> Any:
    """The zero frequency moved to the middle of axes (all if None)."""
    x = lift("fft.fftshift", x)
    axes = promote.canonical_axes(axes, x.ndim)
    return roll(x, tuple(x.shape[i] // 2 for i in axes), axes)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    x = lift("fft.ifftshift", x)
    axes = promote.canonical_axes(axes, x.ndim)
    return roll(x, tuple(-(x.shape[i] // 2) for i in axes), axes)
