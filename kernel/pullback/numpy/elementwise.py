"""Functions of one array, element by element.

Builds on promote.py and lax. Tested in tests/numpy/test_ufuncs.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.numpy.promote import strong
from pullback.xla import quick


def _finish(fun: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    fun.__name__ = fun.__qualname__ = name
    fun.__module__ = "pullback.numpy"
    fun.__doc__ = (
        f"{doc}\n\nArgs:\n    x: array of any shape.\n\nReturns:\n    An array of that shape."
    )
    return fun


def inexact(name: str, prim: Any, doc: str) -> Callable[[Any], Any]:
    """A function that computes in floating or complex numbers (integers become floats)."""
    is_inexact = dtypes.is_inexact
    bind = prim.bind

    def fun(x: Any, /) -> Any:
        aval = getattr(x, "aval", None)
        if aval is None or not is_inexact(aval.dtype):
            x = promote.to_inexact(name, x)
        return bind(x)

    return _finish(quick.unary(prim, fun), name, doc)


def same(name: str, prim: Any, doc: str, counts: bool = False) -> Callable[[Any], Any]:
    """A function that keeps the dtype; one that `counts` takes booleans as 0 and 1."""
    bind = prim.bind

    def fun(x: Any, /) -> Any:
        if getattr(x, "aval", None) is None:
            (x,) = promote.promote(name, x)
        if counts and promote.dtype_of(x) == np.bool_:
            x = promote.cast(x, dtypes.python_scalar_dtype(int))
        return bind(x)

    return _finish(quick.unary(prim, fun), name, doc)


def composite(name: str, doc: str, floating: bool = True) -> Callable[[Callable], Callable]:
    """A decorator for a function of several primitives: one executable at evaluation."""

    def decorate(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
        run = fused()(body)

        def fun(x: Any, /) -> Any:
            return run(promote.to_inexact(name, x) if floating else promote.promote(name, x)[0])

        return _finish(fun, name, doc)

    return decorate


sin = inexact("sin", lax.sin_p, "The sine, in radians.")
cos = inexact("cos", lax.cos_p, "The cosine, in radians.")
tan = inexact("tan", lax.tan_p, "The tangent, in radians.")
arcsin = asin = inexact("arcsin", lax.asin_p, "The inverse sine.")
arccos = acos = inexact("arccos", lax.acos_p, "The inverse cosine.")
arctan = atan = inexact("arctan", lax.atan_p, "The inverse tangent.")
sinh = inexact("sinh", lax.sinh_p, "The hyperbolic sine.")
cosh = inexact("cosh", lax.cosh_p, "The hyperbolic cosine.")
tanh = inexact("tanh", lax.tanh_p, "The hyperbolic tangent.")
arcsinh = asinh = inexact("arcsinh", lax.asinh_p, "The inverse hyperbolic sine.")
arccosh = acosh = inexact("arccosh", lax.acosh_p, "The inverse hyperbolic cosine.")
arctanh = atanh = inexact("arctanh", lax.atanh_p, "The inverse hyperbolic tangent.")
exp = inexact("exp", lax.exp_p, "e to the power x.")
exp2 = inexact("exp2", lax.exp2_p, "2 to the power x.")
expm1 = inexact("expm1", lax.expm1_p, "exp(x) - 1, accurate near 0.")
log = inexact("log", lax.log_p, "The natural logarithm.")
log1p = inexact("log1p", lax.log1p_p, "log(1 + x), accurate near 0.")
sqrt = inexact("sqrt", lax.sqrt_p, "The square root.")
cbrt = inexact("cbrt", lax.cbrt_p, "The cube root.")
negative = same("negative", lax.neg_p, "The negative: -x.")
sign = same("sign", lax.sign_p, "-1, 0 or 1 (for complex x: x / abs(x)).")
square = same("square", lax.square_p, "The square: x * x (of booleans, as integers).", True)
bitwise_not = bitwise_invert = invert = same("invert", lax.not_p, "Every bit inverted.")
bitwise_count = same("bitwise_count", lax.population_count_p, "The number of 1 bits of abs(x).")


@composite("log2", "The logarithm to base 2.")
def log2(x: Any) -> Any:
    return lax.log(x) / np.asarray(math.log(2.0), promote.dtype_of(x))


@composite("log10", "The logarithm to base 10.")
def log10(x: Any) -> Any:
    return lax.log(x) * np.asarray(1 / math.log(10.0), promote.dtype_of(x))


def abs(x: Any, /) -> Any:
    """The absolute value (of unsigned integers and booleans: x itself).

    Args:
        x: array of any shape; complex values give their modulus.

    Returns:
        An array of that shape.
    """
    (x,) = promote.promote("abs", x)
    kind = promote.dtype_of(x).kind
    return promote.lift("abs", x) if kind in "bu" else lax.abs_p.bind(x)


absolute = abs


def fabs(x: Any, /) -> Any:
    """The absolute value as a floating number."""
    return lax.abs_p.bind(promote.to_inexact("fabs", x))


def _integral(name: str, prim: Any, doc: str, **params: Any) -> Callable[[Any], Any]:
    """Rounding to integers: integers are returned as they are."""

    def fun(x: Any, /) -> Any:
        aval = promote.aval_of(name, x)
        if aval.dtype.kind in "iub":
            return promote.lift(name, x)
        if aval.dtype.kind == "c":
            raise TypeError(f"{name} does not accept dtype {aval.dtype}: complex numbers")
        return prim.bind(
            x if hasattr(x, "aval") else promote.cast(x, aval.dtype, aval.weak_type), **params
        )

    return _finish(fun, name, doc)


floor = _integral("floor", lax.floor_p, "The largest integer not above x.")
ceil = _integral("ceil", lax.ceil_p, "The smallest integer not below x.")


def trunc(x: Any) -> Any:
    """The integer nearest to x in the direction of 0."""
    aval = promote.aval_of("trunc", x)
    return promote.lift("trunc", x) if aval.dtype.kind in "iub" else _trunc(x)


fix = trunc


@fused()
def _trunc(x: Any) -> Any:
    return lax.select(x < 0, lax.ceil(x), lax.floor(x))


def rint(x: Any, /) -> Any:
    """The nearest integer, halves to even."""
    whole = promote.aval_of("rint", x).dtype.kind in "iub"
    x = promote.to_inexact("rint", x)
    x = strong(promote.lift("rint", x)) if whole else x
    if promote.dtype_of(x).kind == "c":
        return _round_complex(x, 0)
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """The nearest number with so many decimals, halves to even.

    Args:
        a: array.
        decimals: number of decimals; negative rounds left of the point.
        out: not supported: arrays are immutable.

    Returns:
        An array of a's shape and dtype.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.round is not supported.")
    decimals = promote.index_of(decimals, "decimals")
    a = promote.lift("round", a)
    kind = a.dtype.kind
    if kind in "iub":
        if decimals < 0:
            raise NotImplementedError(
                "integer np.round not implemented for decimals < 0.\n"
                "Instead: round a.astype(float)."
            )
        return a
    if kind == "c":
        return _round_complex(a, decimals)
    if decimals == 0:
        return lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN)
    return _round(a, decimals)


around = round


@fused("decimals")
def _round(a: Any, decimals: int) -> Any:
    if decimals == 0:
        return lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN)
    dtype = a.dtype
    wide = a.astype(np.float32) if dtype.itemsize < 4 else a
    factor = np.asarray(10.0**decimals, wide.dtype)
    rounded = lax.round(wide * factor, lax.RoundingMethod.TO_NEAREST_EVEN) / factor
    return rounded.astype(dtype)


@fused("decimals")
def _round_complex(a: Any, decimals: int) -> Any:
    return lax.complex(_round(lax.real(a), decimals), _round(lax.imag(a), decimals))


def positive(x: Any, /) -> Any:
    """x itself."""
    return promote.lift("positive", x)


@composite("reciprocal", "1 / x.")
def reciprocal(x: Any) -> Any:
    return lax.integer_pow(x, -1)


@composite("deg2rad", "Degrees to radians: x * pi / 180.")
def deg2rad(x: Any) -> Any:
    return x * (math.pi / 180)


@composite("rad2deg", "Radians to degrees: x * 180 / pi.")
def rad2deg(x: Any) -> Any:
    return x * (180 / math.pi)


radians = deg2rad
degrees = rad2deg


def _predicate(name: str, test: Callable[[Any], Any], doc: str, exact: bool) -> Callable:
    """A test that is the same for all integers."""
    run = fused()(test)

    def fun(x: Any, /) -> Any:
        aval = promote.aval_of(name, x)
        if not dtypes.is_inexact(aval.dtype):
            return lax.full(aval.shape, exact, np.bool_)
        return run(x)

    return _finish(fun, name, doc)


def _isfinite(x: Any) -> Any:
    if promote.dtype_of(x).kind == "c":
        return lax.is_finite(lax.real(x)) & lax.is_finite(lax.imag(x))
    return lax.is_finite(x)


def _isinf(x: Any) -> Any:
    if promote.dtype_of(x).kind == "c":
        return _isinf(lax.real(x)) | _isinf(lax.imag(x))
    return lax.abs(x) == np.asarray(np.inf, promote.dtype_of(x))


isfinite = _predicate("isfinite", _isfinite, "Whether x is neither infinite nor NaN.", True)
isinf = _predicate("isinf", _isinf, "Whether x is infinite.", False)


def isposinf(x: Any, /, out: None = None) -> Any:
    """Whether x is +infinity."""
    return _is_infinity("isposinf", x, np.inf, out)


def isneginf(x: Any, /, out: None = None) -> Any:
    """Whether x is -infinity."""
    return _is_infinity("isneginf", x, -np.inf, out)


def _is_infinity(name: str, x: Any, value: float, out: None) -> Any:
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")
    aval = promote.aval_of(name, x)
    if aval.dtype.kind == "c":
        raise ValueError(f"{name} is not well defined for complex type {aval.dtype}")
    if not dtypes.is_inexact(aval.dtype):
        return lax.full(aval.shape, False, np.bool_)
    return promote.lift(name, x) == value


def isnan(x: Any, /) -> Any:
    """Whether x is not a number.

    Args:
        x: array of any shape.

    Returns:
        bool array of that shape.
    """
    aval = promote.aval_of("isnan", x)
    if not dtypes.is_inexact(aval.dtype):
        return lax.full(aval.shape, False, np.bool_)
    return lax.ne_p.bind(x, x)


def isreal(x: Any) -> Any:
    """Whether the imaginary part is 0."""
    return imag(x) == 0


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not 0."""
    return imag(x) != 0


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return (
        x is not None
        and promote.aval_of(
            "iscomplexobj", np.asarray(x) if isinstance(x, (list, tuple)) else x
        ).dtype.kind
        == "c"
    )


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def real(val: Any, /) -> Any:
    """The real part; a real array itself."""
    val = promote.lift("real", val)
    return lax.real_p.bind(val) if val.dtype.kind == "c" else val


def imag(val: Any, /) -> Any:
    """The imaginary part; zeros for a real array."""
    val = promote.lift("imag", val)
    return lax.imag_p.bind(val) if val.dtype.kind == "c" else lax.full_like(val, 0)


def conjugate(x: Any, /) -> Any:
    """The complex conjugate; a real array itself."""
    x = promote.lift("conjugate", x)
    return lax.conj(x) if x.dtype.kind == "c" else x


conj = conjugate


def angle(z: Any, deg: bool = False) -> Any:
    """The argument of complex numbers, in radians.

    Args:
        z: array.
        deg: give degrees.

    Returns:
        float array of z's shape.
    """
    return strong(_angle(promote.lift("angle", z), bool(deg)))


@fused("deg")
def _angle(z: Any, deg: bool) -> Any:
    z = promote.to_inexact("angle", z)
    result = lax.atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


@composite("sinc", "sin(pi x) / (pi x), and 1 at 0.")
def sinc(x: Any) -> Any:
    # By the series near 0, so that every derivative there is right.
    px = x * math.pi
    small = lax.abs(px) < 1e-2
    square_ = px * px
    series = 1 - square_ / 6 * (1 - square_ / 20 * (1 - square_ / 42))
    safe = lax.select(small, lax.full_like(px, 1), px)
    return lax.select(small, series, lax.sin(safe) / safe)


@composite("signbit", "Whether the sign bit is set (-0.0 included).", floating=False)
def signbit(x: Any) -> Any:
    dtype = promote.dtype_of(x)
    if dtype.kind in "ub":
        return lax.full_like(x, False, dtype=np.bool_)
    if dtype.kind == "i":
        return x < 0
    if dtype.kind == "c":
        raise TypeError("signbit does not accept complex numbers")
    bits = np.dtype(f"int{8 * dtype.itemsize}")
    return lax.bitcast_convert_type(x, bits) < 0


@composite("spacing", "The distance to the next number away from 0.")
def spacing(x: Any) -> Any:
    magnitude = lax.abs(x)
    # Strongly typed, like JAX's result.
    high = np.asarray(np.inf, promote.dtype_of(x))
    gap = lax.nextafter_p.bind(magnitude, high) - magnitude
    return lax.select(x < 0, -gap, gap)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """NaN and infinities replaced.

    Args:
        x: array.
        copy: accepted for NumPy's sake; the argument is never changed.
        nan: instead of NaN.
        posinf, neginf: instead of infinities; None for the largest and smallest finite number.

    Returns:
        An array of x's shape and dtype.
    """
    del copy
    x = promote.lift("nan_to_num", x)
    if not dtypes.is_inexact(x.dtype):
        return x
    return _nan_to_num(x, nan, posinf, neginf)


@fused()
def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if x.dtype.kind == "c":
        parts = [_nan_to_num(p, nan, posinf, neginf) for p in (lax.real(x), lax.imag(x))]
        return lax.complex(*parts)
    info = dtypes.finfo(x.dtype)
    high = info.max if posinf is None else posinf
    low = info.min if neginf is None else neginf
    for test, value in ((lax.ne(x, x), nan), (x == np.inf, high), (x == -np.inf, low)):
        x = lax.select(test, promote.broadcast_to(promote.cast(value, x.dtype), x.shape), x)
    return x


def frexp(x: Any, /) -> tuple[Any, Any]:
    """Mantissa in [0.5, 1) and exponent: x = mantissa * 2**exponent.

    Args:
        x: float array.

    Returns:
        The mantissa (float) and the exponent (int32), each of x's shape.
    """
    return _frexp(promote.to_inexact("frexp", x))


@fused()
def _frexp(x: Any) -> tuple[Any, Any]:
    dtype = x.dtype
    wide = x.astype(np.float32) if dtype.itemsize < 4 else x
    info = dtypes.finfo(wide.dtype)
    bits_type = np.dtype(f"int{8 * wide.dtype.itemsize}")
    n_mantissa = int(info.nmant)
    mask = 2 ** (8 * wide.dtype.itemsize - 1 - n_mantissa) - 1
    # Subnormals are scaled into the normal range first.
    tiny = lax.abs(wide) < np.asarray(info.tiny, wide.dtype)
    scale = np.asarray(2.0 ** (n_mantissa + 2), wide.dtype)
    scaled = lax.select(tiny, wide * scale, wide)
    bits = lax.bitcast_convert_type(scaled, bits_type)
    field = lax.shift_right_arithmetic(bits, np.asarray(n_mantissa, bits_type))
    bias = mask // 2 - 1
    exponent = (field & np.asarray(mask, bits_type)) - np.asarray(bias, bits_type)
    exponent = exponent.astype(np.int32)
    exponent = lax.select(tiny, exponent - (n_mantissa + 2), exponent)
    kept = np.asarray(~(mask << n_mantissa), bits_type)
    half = np.asarray(bias << n_mantissa, bits_type)
    mantissa = lax.bitcast_convert_type((bits & kept) | half, wide.dtype)
    special = (wide == 0) | ~lax.is_finite(wide)
    mantissa = lax.select(special, wide, mantissa)
    exponent = lax.select(special, lax.full_like(exponent, 0), exponent)
    return mantissa.astype(dtype), exponent


def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """Fractional and integral part, both with x's sign.

    Args:
        x: array.
        out: not supported: arrays are immutable.

    Returns:
        Two float arrays of x's shape.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.modf is not supported.")
    return _modf(promote.to_inexact("modf", x))


@fused()
def _modf(x: Any) -> tuple[Any, Any]:
    whole = lax.select(x >= 0, lax.floor(x), lax.ceil(x))
    rest = lax.select(lax.abs(x) == np.inf, lax.full_like(x, 0), x - whole)
    return rest, whole
