"""Complex numbers: parts, conjugate, modulus, sign.

Derivatives follow JAX's convention: jvp is the real-linear derivative; a transpose is the plain
(not conjugated) transpose, so the gradient of a real function f of z = x + iy is df/dx - i df/dy.

Builds on elementwise.py. Source: https://docs.jax.dev/en/latest/notebooks/autodiff_cookbook.html
(complex numbers and differentiation). Tested in tests/lax/test_complex.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jvp import Zero, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import is_undefined
from pullback.lax.compare_select import eq_p, ge_p, select_n_p
from pullback.lax.elementwise import div_p, neg_p
from pullback.lax.families import (
    COMPLEX,
    FLOAT,
    INEXACT,
    NUMBER,
    SIGNED,
    binary,
    check_kind,
    check_operand,
    const_like,
    describe,
    kind_of,
    mul_p,
    operands,
    unary,
    unary_batch,
    unbroadcast,
    zero_scalar,
)

_REAL_OF = {np.dtype("complex64"): np.dtype("float32"), np.dtype("complex128"): np.dtype("float64")}
_COMPLEX_OF = {real: cplx for cplx, real in _REAL_OF.items()}


def _real_dtype(dtype: Any) -> Any:
    return _REAL_OF.get(dtype, dtype)


def _real_transpose(ct: Any, x: Any) -> list[Any]:
    if is_zero(ct):
        return [Zero(x.aval)]
    return [complex_p.bind(ct, zero_scalar(typeof(ct)))]


def _imag_transpose(ct: Any, x: Any) -> list[Any]:
    if is_zero(ct):
        return [Zero(x.aval)]
    return [complex_p.bind(zero_scalar(typeof(ct)), neg_p.bind(ct))]


real_p = unary(
    "real", "real", COMPLEX, transpose=_real_transpose, out=_real_dtype, doc="Re x; linear"
)
imag_p = unary(
    "imag", "imag", COMPLEX, transpose=_imag_transpose, out=_real_dtype, doc="Im x; linear"
)


def _check_single(name: str, avals: Sequence[ShapedArray]) -> None:
    for position, aval in zip("xy", avals, strict=False):
        if aval.dtype not in _COMPLEX_OF:
            raise TypeError(
                f"{name} does not accept dtype {dtypes.name(aval.dtype)}: operand {position} is "
                f"{describe(aval)}. Accepted dtypes: float32, float64.\n"
                f"Instead: convert it first, {position}.astype('float32')."
            )


def _complex_check(avals: Sequence[ShapedArray]) -> None:
    _check_single("complex", avals)
    if avals[0].dtype != avals[1].dtype:
        raise TypeError(
            f"lax.complex requires arguments to have the same dtypes, got "
            f"{describe(avals[0])} and {describe(avals[1])}."
        )


def _complex_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    cts: list[Any] = []
    for part, operand in ((real_p, x), (imag_p, y)):
        if not is_undefined(operand):
            cts.append(None)
        elif is_zero(ct):
            cts.append(Zero(operand.aval))
        else:
            value = part.bind(ct)
            value = neg_p.bind(value) if part is imag_p else value
            cts.append(unbroadcast(value, operand.aval))
    return cts


complex_p = binary(
    "complex",
    "complex",
    FLOAT,
    linear=True,
    check=_complex_check,
    transpose=_complex_transpose,
    out=lambda dtype: _COMPLEX_OF[dtype],
    doc="x + iy; linear",
)


def _conj_abstract(x: ShapedArray) -> ShapedArray:
    if kind_of(x.dtype) != "complex":
        _check_single("conj", [x])
    return make_aval(x.shape, _COMPLEX_OF.get(x.dtype, x.dtype), x.weak_type)


def _conj_lower(ctx: Any, x: Any) -> Any:
    if kind_of(ctx.avals_in[0].dtype) == "complex":
        return ctx.chlo.conj(x)
    return ctx.hlo.complex(x, ctx.const(0, ctx.avals_in[0]))


def _conj_transpose(ct: Any, x: Any) -> list[Any]:
    if is_zero(ct):
        return [Zero(x.aval)]
    return [(conj_p if kind_of(x.aval.dtype) == "complex" else real_p).bind(ct)]


conj_p: Primitive = Primitive(
    name="conj",
    abstract=_conj_abstract,
    lower=_conj_lower,
    transpose=_conj_transpose,
    batch=unary_batch(lambda: conj_p),
    doc="the complex conjugate; real-linear",
)


def _abs_abstract(x: ShapedArray) -> ShapedArray:
    check_kind("abs", x, SIGNED + INEXACT)
    return make_aval(x.shape, _real_dtype(x.dtype), x.weak_type)


def _abs_lower(ctx: Any, x: Any) -> Any:
    return ctx.hlo.abs(x)


def _abs_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    out = abs_p.bind(x)
    if is_zero(t):
        return out, zero_of(out)
    if kind_of(typeof(x).dtype) != "complex":
        # The derivative at 0 is 1, as in JAX.
        one = const_like(x, 1)
        sign = select_n_p.bind(ge_p.bind(x, const_like(x, 0)), const_like(x, -1), one)
        return out, mul_p.bind(t, sign)
    # d|z| = Re(conj(z) dz) / |z|, and 0 at z = 0.
    modulus = select_n_p.bind(eq_p.bind(out, const_like(out, 0)), out, const_like(out, 1))
    direction = div_p.bind(conj_p.bind(x), complex_p.bind(modulus, const_like(out, 0)))
    return out, real_p.bind(mul_p.bind(t, direction))


abs_p: Primitive = Primitive(
    name="abs",
    abstract=_abs_abstract,
    lower=_abs_lower,
    jvp=_abs_jvp,
    batch=unary_batch(lambda: abs_p),
    doc="|x|; d = sign(x) dx (1 at 0), for complex x Re(conj(x) dx) / |x| (0 at 0)",
)


def _sign_lower(ctx: Any, x: Any) -> Any:
    aval = ctx.avals_in[0]
    if kind_of(aval.dtype) != "unsigned":
        return ctx.hlo.sign(x)
    zero = ctx.const(0, aval)
    nonzero = ctx.hlo.compare(
        x,
        zero,
        ctx.hlo.ComparisonDirectionAttr.get("NE"),
        compare_type=ctx.hlo.ComparisonTypeAttr.get("UNSIGNED"),
    )
    return ctx.hlo.select(nonzero, ctx.const(1, aval), zero)


sign_p = unary(
    "sign", _sign_lower, NUMBER, constant=True, doc="-1, -0, +0 or 1; x / |x| for complex x"
)


def real(x: Any) -> Any:
    """The real part of a complex array."""
    check_operand("real", x)
    return real_p.bind(x)


def imag(x: Any) -> Any:
    """The imaginary part of a complex array."""
    check_operand("imag", x)
    return imag_p.bind(x)


def complex(x: Any, y: Any) -> Any:
    """The complex array x + iy of two float32 or float64 arrays."""
    return complex_p.bind(*operands("complex", x, y))


def conj(x: Any) -> Any:
    """The complex conjugate; a real array becomes complex."""
    check_operand("conj", x)
    return conj_p.bind(x)


def abs(x: Any) -> Any:
    """The absolute value; the modulus of complex numbers, real.

    The most negative integer is its own absolute value (two's complement).
    """
    check_operand("abs", x)
    return abs_p.bind(x)


def sign(x: Any) -> Any:
    """The sign: -1, 0 (with its sign) or 1, NaN of NaN; x / abs(x) for complex x."""
    check_operand("sign", x)
    return sign_p.bind(x)
