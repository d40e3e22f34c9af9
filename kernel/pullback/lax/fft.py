"""Discrete Fourier transforms over the last one to three axes.

Builds on elementwise.py and slice.py. Tested in tests/lax/test_fft.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, move_dim
from pullback.core.jvp import Zero, is_zero
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval
from pullback.lax.complex import conj_p, real_p
from pullback.lax.convert import convert_element_type
from pullback.lax.elementwise import mul_p
from pullback.lax.families import shape_ops
from pullback.lax.operands import canonical_shape, shape_of
from pullback.lax.slice import pad_p


class FftType(IntEnum):
    """The kind of a Fourier transform: complex, inverse, of real numbers, to real numbers."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_PARTS = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
_WHOLE = {part: whole for whole, part in _PARTS.items()}


def _fft_abstract(
    x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> ShapedArray:
    n = len(fft_lengths)
    real = fft_type is FftType.RFFT
    if x.dtype not in (_WHOLE if real else _PARTS):
        kinds = ", ".join(map(str, _WHOLE if real else _PARTS))
        raise TypeError(f"fft {fft_type.name}: the operand must be {kinds}, got {x.str_short()}.")
    if x.ndim < n or n > 3:
        raise errors.shape_error(
            f"fft: 1 to 3 lengths and as many axes are needed, got lengths {fft_lengths} for "
            f"{x.str_short()}."
        )
    wanted = list(fft_lengths)
    if fft_type is FftType.IRFFT:
        wanted[-1] = fft_lengths[-1] // 2 + 1
    if x.shape[x.ndim - n :] != tuple(wanted):
        raise errors.shape_error(
            f"fft {fft_type.name}: fft_lengths {fft_lengths} need an operand whose last axes are "
            f"{tuple(wanted)}, got {x.str_short()}.",
            "pad or cut it first.",
        )
    shape, dtype = list(x.shape), x.dtype
    if real:
        shape[-1], dtype = shape[-1] // 2 + 1, _WHOLE[dtype]
    elif fft_type is FftType.IRFFT:
        shape[-1], dtype = fft_lengths[-1], _PARTS[dtype]
    return make_aval(tuple(shape), dtype)


def _fft_lower(ctx: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    if not ctx.aval_out.size or not ctx.avals_in[0].size:
        return ctx.const(np.zeros((), ctx.aval_out.dtype), ctx.aval_out)
    return ctx.hlo.fft(x, ctx.hlo.FftTypeAttr.get(fft_type.name), ctx.dims(fft_lengths))


def _fft_transpose(ct: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple) -> list[Any]:
    aval = cotangent_aval(x)
    if is_zero(ct):
        return [Zero(aval)]
    if fft_type is FftType.RFFT:
        return [_rfft_transpose(ct, fft_lengths)]
    if fft_type is FftType.IRFFT:
        return [_irfft_transpose(ct, fft_lengths)]
    return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]


def _rfft_transpose(ct: Any, lengths: tuple[int, ...]) -> Any:
    """The real part of the full transform of the cotangent with zeros for the missing half."""
    config = [(0, 0, 0)] * typeof(ct).ndim
    config[-1] = (0, lengths[-1] - shape_of(ct)[-1], 0)
    zero = np.zeros((), typeof(ct).dtype)[()]
    full = pad_p.bind(ct, zero, padding_config=tuple(config))
    return real_p.bind(fft_p.bind(full, fft_type=FftType.FFT, fft_lengths=lengths))


def _irfft_transpose(ct: Any, lengths: tuple[int, ...]) -> Any:
    """The conjugate transform, inner frequencies twice, since each stands for two."""
    out = fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=lengths)
    n, size = lengths[-1], shape_of(out)[-1]
    weights = np.full(size, 2.0)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    scale = (weights / prod(lengths)).astype(typeof(out).dtype)
    return conj_p.bind(mul_p.bind(out, shape_ops.broadcast_to(scale, shape_of(out))))


def _fft_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
    return fft_p.bind(move_dim(args[0], dims[0], 0), **params), 0


fft_p = Primitive(
    name="fft",
    abstract=_fft_abstract,
    lower=_fft_lower,
    transpose=_fft_transpose,
    batch=_fft_batch,
    label=lambda params: f"{FftType(params['fft_type']).name} {params['fft_lengths']}",
    doc="y[k] = sum_j x[j] exp(-2 pi i j k / n); the inverse divides by n.",
)


def fft(x: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Any:
    """The Fourier transform over the last `len(fft_lengths)` axes.

    Args:
        x: array, complex for FFT, IFFT and IRFFT, real for RFFT.
        fft_type: an `FftType` or its name.
        fft_lengths: lengths of those axes (for IRFFT: of the result).

    Returns:
        A complex array; real for IRFFT.

    Raises:
        TypeError: the dtype does not fit the kind.
        ValueError: lengths do not fit the shape, or an unknown kind.
    """
    kind = _kind(fft_type)
    lengths = canonical_shape("fft", fft_lengths)
    dtype = typeof(x).dtype
    if kind is FftType.RFFT:
        if dtypes.issubdtype(dtype, np.complexfloating):
            raise ValueError(
                f"fft RFFT: only real inputs are allowed, got {typeof(x).str_short()}."
            )
        part = np.float64 if dtype == np.float64 else np.float32
        x = x if dtype == part else convert_element_type(x, part)
    else:
        whole = np.complex128 if dtype in (np.float64, np.complex128) else np.complex64
        x = x if dtype == whole else convert_element_type(x, whole)
    if not lengths:
        return x
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths)


def _kind(fft_type: Any) -> FftType:
    if isinstance(fft_type, str):
        name = fft_type.upper()
        if name in FftType.__members__:
            return FftType[name]
    elif fft_type in list(FftType):
        return FftType(fft_type)
    raise ValueError(f"Unknown FFT type {fft_type!r}; use 'fft', 'ifft', 'rfft' or 'irfft'.")
