"""Elementwise arithmetic, integer powers and roots, rounding.

Each primitive is a row that states its formula; the families supply the rest. Below each group
stand the functions users call, strict about shapes and dtypes as in JAX.

Builds on families.py and compare_select.py. Source: StableHLO specification, section Ops.
Tested in tests/lax/test_elementwise.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, typeof
from pullback.core.jvp import Zero, is_zero, linear_ops, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import is_undefined
from pullback.lax.compare_select import eq_p, select_n_p
from pullback.lax.convert import convert_element_type
from pullback.lax.families import (
    ANY,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    binary,
    broadcast_operands,
    check_kind,
    check_operand,
    check_same_dtypes,
    const_like,
    describe,
    hlo_op,
    kind_of,
    match_shape,
    mul_p,
    operands,
    unary,
    unary_batch,
    unbroadcast,
)

# -- accuracy ---------------------------------------------------------------------------------


class AccuracyMode(Enum):
    """How exact a transcendental function is to be: the platform's default, or the best."""

    HIGHEST = 1
    DEFAULT = 2

    def attribute(self, ctx: Any) -> Any:
        """The StableHLO attribute."""
        return ctx.hlo.ResultAccuracyAttr.get(0.0, 0.0, 0, self.name)


class Tolerance:
    """The largest error wanted of a transcendental function.

    Args:
        atol: absolute error.
        rtol: relative error.
        ulps: units in the last place.

    Raises:
        ValueError: all are zero, or one is negative.
    """

    __slots__ = ("atol", "rtol", "ulps")

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        if atol < 0 or rtol < 0 or ulps < 0:
            raise ValueError(
                f"Tolerances must be non-negative, got atol={atol}, rtol={rtol}, ulps={ulps}."
            )
        if not (atol or rtol or ulps):
            raise ValueError("At least one of atol, rtol, or ulps must be set.")
        self.atol, self.rtol, self.ulps = atol, rtol, ulps

    def attribute(self, ctx: Any) -> Any:
        """The StableHLO attribute."""
        atol, rtol = float(self.atol), float(self.rtol)
        return ctx.hlo.ResultAccuracyAttr.get(atol, rtol, int(self.ulps), "TOLERANCE")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tolerance) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        return self.atol, self.rtol, self.ulps

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


Accuracy = Tolerance | AccuracyMode | None


def with_accuracy(prim: Primitive, x: Any, accuracy: Accuracy) -> Any:
    """Apply a primitive that can be told how exact to be.

    Raises:
        NotImplementedError: `accuracy` is neither a mode nor a tolerance.
    """
    check_operand(prim.name, x)
    if accuracy is None:
        return prim.bind(x)
    if not isinstance(accuracy, Tolerance | AccuracyMode):
        raise NotImplementedError(
            f"{prim.name}: accuracy {accuracy!r} is not supported.\n"
            f"Instead: pass lax.AccuracyMode.HIGHEST or lax.Tolerance(atol, rtol, ulps)."
        )
    return prim.bind(x, accuracy=accuracy)


# -- arithmetic -------------------------------------------------------------------------------


def _neg_transpose(ct: Any, x: Any) -> list[Any]:
    return [Zero(x.aval) if is_zero(ct) else neg_p.bind(ct)]


neg_p = unary(
    "neg",
    "negate",
    NUMBER,
    d=None,
    transpose=_neg_transpose,
    doc="-x; linear",
)


def _add_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(ct, a.aval) if is_undefined(a) else None for a in (x, y)]


def _sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    ct_x = unbroadcast(ct, x.aval) if is_undefined(x) else None
    if not is_undefined(y):
        return [ct_x, None]
    return [ct_x, unbroadcast(ct if is_zero(ct) else neg_p.bind(ct), y.aval)]


def _sum_jvp(prim: Primitive, primals: Any, tangents: Any, second: Any) -> tuple[Any, Any]:
    """Two tangents go through the operation itself, which broadcasts; one is fitted to the result."""
    out = prim.bind(*primals)
    shape = typeof(out).shape
    t_x, t_y = tangents
    if is_zero(t_y):
        return out, zero_of(out) if is_zero(t_x) else match_shape(t_x, shape)
    if is_zero(t_x):
        return out, second(t_y, shape)
    return out, match_shape(prim.bind(t_x, t_y), shape)


add_p: Primitive = binary(
    "add",
    "add",
    NUMBER,
    jvp=lambda xs, ts: _sum_jvp(add_p, xs, ts, match_shape),
    transpose=_add_transpose,
    promoting="add",
    doc="x + y; linear",
)

sub_p: Primitive = binary(
    "sub",
    "subtract",
    NUMBER,
    jvp=lambda xs, ts: _sum_jvp(sub_p, xs, ts, lambda t, s: neg_p.bind(match_shape(t, s))),
    transpose=_sub_transpose,
    promoting="subtract",
    doc="x - y; linear",
)

linear_ops.add = add_p.bind


def _div_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if is_undefined(y):
        raise TypeError(
            "div: cannot transpose with respect to the divisor; it is not linear in it."
        )
    return [Zero(x.aval) if is_zero(ct) else unbroadcast(div_p.bind(ct, y), x.aval), None]


div_p: Primitive = binary(
    "div",
    "divide",
    NUMBER,
    d=(
        lambda t, out, x, y: div_p.bind(t, y),
        lambda t, out, x, y: neg_p.bind(div_p.bind(mul_p.bind(t, out), y)),
    ),
    transpose=_div_transpose,
    promoting="divide",
    doc="x / y (integers round to zero); d(x/y) = dx/y - (x/y)/y dy",
)


def _rem_dy(t: Any, out: Any, x: Any, y: Any) -> Any:
    # x = y * trunc(x / y) + rem
    quotient = div_p.bind(sub_p.bind(x, out), y)
    return mul_p.bind(t, neg_p.bind(round_p.bind(quotient, rounding_method=1)))


rem_p = binary(
    "rem",
    "remainder",
    INTEGER + FLOAT,
    d=(lambda t, out, x, y: match_shape(t, typeof(out).shape), _rem_dy),
    promoting="remainder",
    doc="x - y trunc(x / y), of the sign of x; d = dx - trunc(x/y) dy",
)


def _extremum_weight(x: Any, other: Any, out: Any) -> Any:
    """1 where x is the extremum, 0.5 where both are, 0 elsewhere."""
    half = select_n_p.bind(eq_p.bind(other, out), const_like(out, 1), const_like(out, 0.5))
    return select_n_p.bind(eq_p.bind(x, out), const_like(out, 0), half)


def _extremum(name: str, op: str, promoting: str) -> Primitive:
    def lower(ctx: Any, x: Any, y: Any) -> Any:
        x, y = broadcast_operands(ctx, (x, y), ctx.aval_out.shape)
        if kind_of(ctx.aval_out.dtype) != "complex":
            return hlo_op(ctx, op)(x, y)
        # Complex numbers are ordered by their real, then their imaginary parts.
        hlo = ctx.hlo
        real, imag = (hlo.real(x), hlo.real(y)), (hlo.imag(x), hlo.imag(y))
        beats = hlo.ComparisonDirectionAttr.get("GT" if name == "max" else "LT")
        equal = hlo.compare(*real, hlo.ComparisonDirectionAttr.get("EQ"))
        first = hlo.select(equal, hlo.compare(*imag, beats), hlo.compare(*real, beats))
        return hlo.select(first, x, y)

    return binary(
        name,
        lower,
        ANY,
        d=(
            lambda t, out, x, y: mul_p.bind(t, _extremum_weight(x, y, out)),
            lambda t, out, x, y: mul_p.bind(t, _extremum_weight(y, x, out)),
        ),
        promoting=promoting,
        doc=f"the {name} of x and y, NaN if one is; at ties each has half of the derivative",
    )


max_p = _extremum("max", "maximum", "maximum")
min_p = _extremum("min", "minimum", "minimum")


def public_unary(prim: Primitive, x: Any) -> Any:
    """Apply a primitive of one operand to what a user passed."""
    check_operand(prim.name, x)
    return prim.bind(x)


def neg(x: Any) -> Any:
    """The negative: -x.

    Example:
        >>> from pullback import lax
        >>> float(lax.neg(2.0))
        -2.0
    """
    return public_unary(neg_p, x)


def add(x: Any, y: Any) -> Any:
    """The sum x + y of arrays of one dtype and shape (scalars and sizes 1 broadcast).

    Raises:
        TypeError: dtypes or ranks differ.
    """
    return add_p.bind(*operands("add", x, y))


def sub(x: Any, y: Any) -> Any:
    """The difference x - y of arrays of one dtype and shape."""
    return sub_p.bind(*operands("sub", x, y))


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """The product x * y of arrays of one dtype and shape.

    Args:
        x: array.
        y: array of that dtype.
        out_dtype: dtype to multiply in and to return.
    """
    x, y = operands("mul", x, y)
    if out_dtype is not None:
        check_same_dtypes("mul", [typeof(x), typeof(y)], "multiply")
        x, y = (convert_element_type(v, out_dtype) for v in (x, y))
    return mul_p.bind(x, y)


def div(x: Any, y: Any) -> Any:
    """The quotient x / y of arrays of one dtype and shape; integers round towards zero.

    Division of integers by zero gives -1 (all bits set), and never raises.
    Source: StableHLO `divide`; XLA's elemental integer division.
    """
    return div_p.bind(*operands("div", x, y))


def rem(x: Any, y: Any) -> Any:
    """The remainder of x / y, with the sign of x (C's fmod)."""
    return rem_p.bind(*operands("rem", x, y))


def max(x: Any, y: Any) -> Any:
    """The larger of x and y; complex numbers by real, then imaginary part."""
    return max_p.bind(*operands("max", x, y))


def min(x: Any, y: Any) -> Any:
    """The smaller of x and y; complex numbers by real, then imaginary part."""
    return min_p.bind(*operands("min", x, y))


# -- powers and roots -------------------------------------------------------------------------


def _integer_pow_abstract(x: ShapedArray, *, y: int) -> ShapedArray:
    check_kind("integer_pow", x, NUMBER)
    if y < 0 and kind_of(x.dtype) in INTEGER:
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({describe(x)}, {y}).\n"
            f"Instead: convert first, x.astype('float32')."
        )
    return x


def _integer_pow_lower(ctx: Any, x: Any, *, y: int) -> Any:
    aval = ctx.aval_out
    if y == 0:
        return ctx.const(1, aval)
    power, result, n = x, None, -y if y < 0 else y
    while n:
        if n & 1:
            result = power if result is None else ctx.hlo.multiply(result, power)
        n >>= 1
        if n:
            power = ctx.hlo.multiply(power, power)
    return ctx.hlo.divide(ctx.const(1, aval), result) if y < 0 else result


def _integer_pow_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, y: int) -> Any:
    (x,), (t,) = primals, tangents
    out = integer_pow_p.bind(x, y=y)
    if is_zero(t) or y == 0:
        return out, zero_of(out)
    if y == 1:
        return out, t
    power = x if y == 2 else integer_pow_p.bind(x, y=y - 1)
    return out, mul_p.bind(t, mul_p.bind(power, const_like(x, y)))


integer_pow_p: Primitive = Primitive(
    name="integer_pow",
    abstract=_integer_pow_abstract,
    lower=_integer_pow_lower,
    jvp=_integer_pow_jvp,
    batch=unary_batch(lambda: integer_pow_p),
    label=lambda params: f"pow {params['y']}",
    doc="x to the power of the integer y, by repeated squaring; d = y x**(y-1) dx",
)


def _square_lower(ctx: Any, x: Any) -> Any:
    inexact = kind_of(ctx.avals_in[0].dtype) in INEXACT
    return ctx.chlo.square(x) if inexact else ctx.hlo.multiply(x, x)


square_p = unary(
    "square",
    _square_lower,
    NUMBER,
    d=lambda out, x: mul_p.bind(x, const_like(x, 2)),
    doc="x * x; d = 2 x dx",
)
sqrt_p = unary(
    "sqrt",
    "sqrt",
    INEXACT,
    d=lambda out, x: div_p.bind(const_like(x, 0.5), out),
    doc="the square root; d = dx / (2 sqrt(x))",
)
rsqrt_p = unary(
    "rsqrt",
    "rsqrt",
    INEXACT,
    d=lambda out, x: mul_p.bind(div_p.bind(out, x), const_like(x, -0.5)),
    doc="1 / sqrt(x); d = -x**-1.5 / 2 dx",
)
cbrt_p = unary(
    "cbrt",
    "cbrt",
    FLOAT,
    d=lambda out, x: mul_p.bind(integer_pow_p.bind(out, y=-2), const_like(x, 1 / 3)),
    doc="the cube root, also of negative x; d = x**(-2/3) / 3 dx",
)


def integer_pow(x: Any, y: int) -> Any:
    """x to the power of a Python integer.

    Args:
        x: array.
        y: exponent, known before tracing; negative ones for floating and complex x only.

    Raises:
        TypeError: `y` is not an integer, or x holds integers and y < 0.
    """
    check_operand("integer_pow", x)
    if not isinstance(y, int | np.integer):
        raise TypeError(f"integer_pow: y must be an integer, got {y!r}.\nInstead: lax.pow(x, y).")
    return integer_pow_p.bind(x, y=int(y))


def square(x: Any) -> Any:
    """The square x * x."""
    return public_unary(square_p, x)


def reciprocal(x: Any) -> Any:
    """The reciprocal 1 / x of floating or complex x."""
    return integer_pow(x, -1)


def sqrt(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The square root; of negative real numbers NaN, of complex ones with real part >= 0."""
    return with_accuracy(sqrt_p, x, accuracy)


def rsqrt(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The reciprocal square root 1 / sqrt(x)."""
    return with_accuracy(rsqrt_p, x, accuracy)


def cbrt(x: Any, *, accuracy: Accuracy = None) -> Any:
    """The real cube root of real x."""
    return with_accuracy(cbrt_p, x, accuracy)


# -- rounding ---------------------------------------------------------------------------------


class RoundingMethod(IntEnum):
    """Where halves go: away from zero, or to the even neighbour."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _round_lower(ctx: Any, x: Any, *, rounding_method: int) -> Any:
    even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return ctx.hlo.round_nearest_even(x) if even else ctx.hlo.round_nearest_afz(x)


floor_p = unary("floor", "floor", FLOAT, constant=True, doc="the largest integer <= x")
ceil_p = unary("ceil", "ceil", FLOAT, constant=True, doc="the smallest integer >= x")
round_p = unary("round", _round_lower, FLOAT, constant=True, doc="the nearest integer to x")


def floor(x: Any) -> Any:
    """The largest integer not above floating x, in the dtype of x."""
    return public_unary(floor_p, x)


def ceil(x: Any) -> Any:
    """The smallest integer not below floating x, in the dtype of x."""
    return public_unary(ceil_p, x)


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The integer nearest to floating x, in the dtype of x.

    Args:
        x: array.
        rounding_method: where halves go.
    """
    check_operand("round", x)
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))
