"""Exponentials, logarithms, trigonometric and hyperbolic functions, and powers.

Builds on elementwise.py. Sources: StableHLO and CHLO operations; branch cuts of the complex
functions as in C99 Annex G and NumPy. Tested in tests/lax/test_transcendental.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.core import dtypes
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jvp import Zero
from pullback.core.tracer import Primitive
from pullback.lax.compare_select import and_p, eq_p, select_n_p
from pullback.lax.convert import convert_element_type
from pullback.lax.elementwise import (
    Accuracy,
    add_p,
    div_p,
    neg_p,
    public_unary,
    rsqrt_p,
    square_p,
    sub_p,
    with_accuracy,
)
from pullback.lax.families import (
    INEXACT,
    INTEGER,
    NUMBER,
    binary,
    check_operand,
    check_same_dtypes,
    const_like,
    hlo_op,
    kind_of,
    mul_p,
    nary,
    operands,
    unary,
)

# -- exponentials and logarithms --------------------------------------------------------------


def _exp2_lower(ctx: Any, x: Any, accuracy: Any = None) -> Any:
    aval = ctx.avals_in[0]
    if accuracy is None and kind_of(aval.dtype) == "float":
        return ctx.hlo.power(ctx.const(2, aval), x)
    scaled = ctx.hlo.multiply(x, ctx.const(math.log(2), aval))
    if accuracy is None:
        return ctx.hlo.exponential(scaled)
    return ctx.hlo.exponential(scaled, result_accuracy=accuracy.attribute(ctx))


exp_p = unary("exp", "exponential", INEXACT, d=lambda out, x: out, doc="e**x; d = e**x dx")
exp2_p = unary(
    "exp2",
    _exp2_lower,
    INEXACT,
    d=lambda out, x: mul_p.bind(out, const_like(x, math.log(2))),
    doc="2**x; d = log(2) 2**x dx",
)
expm1_p = unary(
    "expm1",
    "exponential_minus_one",
    INEXACT,
    d=lambda out, x: add_p.bind(out, const_like(x, 1)),
    doc="e**x - 1, exact near 0; d = e**x dx",
)
log_p = unary("log", "log", INEXACT, dt=lambda t, out, x: div_p.bind(t, x), doc="log(x); d = dx/x")
log1p_p = unary(
    "log1p",
    "log_plus_one",
    INEXACT,
    dt=lambda t, out, x: div_p.bind(t, add_p.bind(x, const_like(x, 1))),
    doc="log(1 + x), exact near 0; d = dx / (1 + x)",
)
logistic_p = unary(
    "logistic",
    "logistic",
    INEXACT,
    d=lambda out, x: mul_p.bind(out, sub_p.bind(const_like(x, 1), out)),
    doc="s = 1 / (1 + e**-x); d = s (1 - s) dx",
)

# -- trigonometric and hyperbolic -------------------------------------------------------------


def _one_plus_square(x: Any) -> Any:
    return add_p.bind(square_p.bind(x), const_like(x, 1))


def _one_minus_square(x: Any) -> Any:
    return sub_p.bind(const_like(x, 1), square_p.bind(x))


def _acosh_d(out: Any, x: Any) -> Any:
    one = const_like(x, 1)
    if kind_of(typeof(x).dtype) == "complex":
        # Two roots: the root of the product has the wrong sign left of the imaginary axis.
        return mul_p.bind(rsqrt_p.bind(sub_p.bind(x, one)), rsqrt_p.bind(add_p.bind(x, one)))
    return rsqrt_p.bind(sub_p.bind(square_p.bind(x), one))


def _sin_lower(ctx: Any, x: Any, accuracy: Any = None) -> Any:
    return _circular_lower(ctx, x, accuracy, "sine")


def _cos_lower(ctx: Any, x: Any, accuracy: Any = None) -> Any:
    return _circular_lower(ctx, x, accuracy, "cosine")


def _circular_lower(ctx: Any, z: Any, accuracy: Any, op: str) -> Any:
    """Sine or cosine; on the imaginary axis i sinh y and cosh y, where XLA has 0 * inf = NaN."""
    hlo = ctx.hlo
    options = {} if accuracy is None else {"result_accuracy": accuracy.attribute(ctx)}
    out = hlo_op(ctx, op)(z, **options)
    aval = ctx.avals_in[0]
    if kind_of(aval.dtype) != "complex":
        return out
    x, y = hlo.real(z), hlo.imag(z)
    if op == "sine":
        on_axis = hlo.complex(x, ctx.chlo.sinh(y))
    else:
        on_axis = hlo.complex(ctx.chlo.cosh(y), hlo.multiply(hlo.negate(x), hlo.sign(y)))
    zero = ctx.const(0, make_aval(aval.shape, dtypes.real_dtype(aval.dtype)))
    return hlo.select(hlo.compare(x, zero, hlo.ComparisonDirectionAttr.get("EQ")), on_axis, out)


sin_p = unary(
    "sin", _sin_lower, INEXACT, d=lambda out, x: cos_p.bind(x), doc="sin x; d = cos(x) dx"
)
cos_p: Primitive = unary(
    "cos",
    _cos_lower,
    INEXACT,
    d=lambda out, x: neg_p.bind(sin_p.bind(x)),
    doc="cos x; d = -sin(x) dx",
)
tan_p = unary(
    "tan",
    "tan",
    INEXACT,
    d=lambda out, x: _one_plus_square(out),
    doc="tan x; d = (1 + tan(x)**2) dx",
)
asin_p = unary(
    "asin",
    "chlo.asin",
    INEXACT,
    d=lambda out, x: rsqrt_p.bind(_one_minus_square(x)),
    doc="the inverse sine; d = dx / sqrt(1 - x**2)",
)
acos_p = unary(
    "acos",
    "chlo.acos",
    INEXACT,
    d=lambda out, x: neg_p.bind(rsqrt_p.bind(_one_minus_square(x))),
    doc="the inverse cosine; d = -dx / sqrt(1 - x**2)",
)
atan_p = unary(
    "atan",
    "chlo.atan",
    INEXACT,
    dt=lambda t, out, x: div_p.bind(t, _one_plus_square(x)),
    doc="the inverse tangent; d = dx / (1 + x**2)",
)
sinh_p = unary(
    "sinh", "chlo.sinh", INEXACT, d=lambda out, x: cosh_p.bind(x), doc="sinh x; d = cosh(x) dx"
)
cosh_p: Primitive = unary(
    "cosh", "chlo.cosh", INEXACT, d=lambda out, x: sinh_p.bind(x), doc="cosh x; d = sinh(x) dx"
)
tanh_p = unary(
    "tanh",
    "tanh",
    INEXACT,
    # As a product: 1 - tanh(x)**2 would cancel for large x.
    d=lambda out, x: mul_p.bind(
        sub_p.bind(const_like(x, 1), out), add_p.bind(const_like(x, 1), out)
    ),
    doc="tanh x; d = (1 - tanh(x)**2) dx",
)
asinh_p = unary(
    "asinh",
    "chlo.asinh",
    INEXACT,
    d=lambda out, x: rsqrt_p.bind(_one_plus_square(x)),
    doc="the inverse hyperbolic sine; d = dx / sqrt(1 + x**2)",
)
acosh_p = unary(
    "acosh",
    "chlo.acosh",
    INEXACT,
    d=_acosh_d,
    doc="the inverse hyperbolic cosine; d = dx / (sqrt(x - 1) sqrt(x + 1))",
)
atanh_p = unary(
    "atanh",
    "chlo.atanh",
    INEXACT,
    dt=lambda t, out, x: div_p.bind(t, _one_minus_square(x)),
    doc="the inverse hyperbolic tangent; d = dx / (1 - x**2)",
)


def _norm_squared(x: Any, y: Any) -> Any:
    return add_p.bind(square_p.bind(x), square_p.bind(y))


atan2_p = binary(
    "atan2",
    "atan2",
    INEXACT,
    d=(
        lambda t, out, x, y: mul_p.bind(t, div_p.bind(y, _norm_squared(x, y))),
        lambda t, out, x, y: mul_p.bind(t, div_p.bind(neg_p.bind(x), _norm_squared(x, y))),
    ),
    promoting="arctan2",
    doc="the angle of the point (y, x) to the x axis; d = (y dx - x dy) / (x**2 + y**2)",
)

# -- powers -----------------------------------------------------------------------------------


def _pow_check(avals: Sequence[ShapedArray]) -> None:
    if kind_of(avals[1].dtype) not in INTEGER:
        check_same_dtypes("pow", avals, "power")


def _pow_lower(ctx: Any, x: Any, y: Any) -> Any:
    x_aval, y_aval = ctx.avals_in
    if y_aval.dtype != x_aval.dtype:
        real = ctx.fun(lambda v: _float_exponent_of(v, x_aval.dtype), [y], [y_aval])
        (y,) = real
    out = ctx.aval_out.shape
    x, y = (
        ctx.broadcast_to(v, make_aval(a.shape, x_aval.dtype), make_aval(out, x_aval.dtype))
        for v, a in ((x, x_aval), (y, y_aval))
    )
    return ctx.hlo.power(x, y)


def _float_exponent_of(y: Any, dtype: Any) -> Any:
    return y if typeof(y).dtype == dtype else convert_element_type(y, dtype)


def _pow_dx(t: Any, out: Any, x: Any, y: Any) -> Any:
    y = _float_exponent_of(y, typeof(x).dtype)
    lower = pow_p.bind(x, sub_p.bind(y, const_like(y, 1)))
    # 0**0 is constantly 1 in this direction, where y x**(y-1) reads 0 * inf.
    undefined = and_p.bind(eq_p.bind(y, const_like(y, 0)), eq_p.bind(x, const_like(x, 0)))
    return mul_p.bind(t, mul_p.bind(y, select_n_p.bind(undefined, lower, const_like(x, 0))))


def _pow_dy(t: Any, out: Any, x: Any, y: Any) -> Any:
    if kind_of(typeof(y).dtype) in INTEGER:
        return Zero(typeof(out))
    # log(x) x**y; at x = 0 the limit for y > 0 is 0, which log(1) = 0 gives.
    base = select_n_p.bind(eq_p.bind(x, const_like(x, 0)), x, const_like(x, 1))
    return mul_p.bind(t, mul_p.bind(log_p.bind(base), out))


pow_p = nary(
    "pow",
    _pow_lower,
    (INEXACT, NUMBER),
    d=(_pow_dx, _pow_dy),
    check=_pow_check,
    promoting="power",
    doc="x**y; d = y x**(y-1) dx + log(x) x**y dy",
)


def exp(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The exponential e**x."""
    return with_accuracy(exp_p, x, accuracy)


def exp2(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The exponential 2**x."""
    return with_accuracy(exp2_p, x, accuracy)


def expm1(x: Any, *, accuracy: Accuracy = None) -> Any:
    """e**x - 1, without cancellation near 0."""
    return with_accuracy(expm1_p, x, accuracy)


def log(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The natural logarithm; NaN for negative real x."""
    return with_accuracy(log_p, x, accuracy)


def log1p(x: Any, *, accuracy: Accuracy = None) -> Any:
    """log(1 + x), without cancellation near 0."""
    return with_accuracy(log1p_p, x, accuracy)


def logistic(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The logistic function 1 / (1 + e**-x)."""
    return with_accuracy(logistic_p, x, accuracy)


def sin(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The sine of an angle in radians."""
    return with_accuracy(sin_p, x, accuracy)


def cos(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The cosine of an angle in radians."""
    return with_accuracy(cos_p, x, accuracy)


def tan(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The tangent of an angle in radians."""
    return with_accuracy(tan_p, x, accuracy)


def tanh(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The hyperbolic tangent."""
    return with_accuracy(tanh_p, x, accuracy)


def asin(x: Any) -> Any:
    """The inverse sine, from -pi/2 to pi/2."""
    return public_unary(asin_p, x)


def acos(x: Any) -> Any:
    """The inverse cosine, from 0 to pi."""
    return public_unary(acos_p, x)


def atan(x: Any) -> Any:
    """The inverse tangent, from -pi/2 to pi/2."""
    return public_unary(atan_p, x)


def atan2(x: Any, y: Any) -> Any:
    """The angle, from -pi to pi, whose sine is proportional to x and cosine to y."""
    return atan2_p.bind(*operands("atan2", x, y))


def sinh(x: Any) -> Any:
    """The hyperbolic sine."""
    return public_unary(sinh_p, x)


def cosh(x: Any) -> Any:
    """The hyperbolic cosine."""
    return public_unary(cosh_p, x)


def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine."""
    return public_unary(asinh_p, x)


def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine; NaN for real x < 1."""
    return public_unary(acosh_p, x)


def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent; NaN for real x outside [-1, 1]."""
    return public_unary(atanh_p, x)


def pow(x: Any, y: Any) -> Any:
    """x to the power y, elementwise.

    Args:
        x: floating or complex array.
        y: array of the same dtype, or integers; of x's shape, or a scalar.

    Raises:
        TypeError: x holds integers (use `integer_pow` or `jnp.power`), or dtypes differ.
    """
    check_operand("pow", x)
    check_operand("pow", y, 1)
    both = typeof(x), typeof(y)
    if kind_of(both[0].dtype) in INEXACT and kind_of(both[1].dtype) in INTEGER:
        return pow_p.bind(x, y)
    return pow_p.bind(*operands("pow", x, y))
