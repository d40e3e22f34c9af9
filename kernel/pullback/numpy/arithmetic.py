"""Functions of two arrays, element by element: arithmetic, comparison, logic and bits.

Each binds one primitive, which broadcasts by itself; composite ones run as one executable.
Builds on promote.py and lax. Tested in tests/numpy/test_ufuncs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.core.config import Config, config
from pullback.core.tracer import Tracer
from pullback.numpy import promote, ranks
from pullback.numpy.elementwise import signbit
from pullback.numpy.fused import fused
from pullback.xla.array import Array

promote_pair: ranks.Pair = promote.promote_pair
promote_floating = ranks.promote_floating


def _follow_option(option: str) -> None:
    """From the first time that ranks are to be checked on, check them; before, it costs nothing."""
    global promote_pair
    if option == "jax_numpy_rank_promotion" and config.jax_numpy_rank_promotion != "allow":
        ranks.watching[:] = [option]
        promote_pair = ranks.checked(promote.promote_pair)


_follow_option("jax_numpy_rank_promotion")
Config.observers.append(_follow_option)


def _finish(fun: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    fun.__name__ = fun.__qualname__ = name
    fun.__module__ = "pullback.numpy"
    fun.__doc__ = (
        f"{doc}\n\nArgs:\n    x1, x2: arrays whose shapes broadcast.\n\n"
        "Returns:\n    An array of the broadcast shape and the common dtype."
    )
    return fun


def _promote_numbers(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Operands in one dtype of numbers: booleans count as 0 and 1 of the default integer type."""
    x1, x2 = promote_pair(name, x1, x2)
    if promote.dtype_of(x1) == np.bool_:
        integer = dtypes.python_scalar_dtype(int)
        return promote.cast(x1, integer), promote.cast(x2, integer)
    return x1, x2


def binary(name: str, prim: Any, doc: str, boolean: Any = None) -> Callable[[Any, Any], Any]:
    """A function that binds `prim` to operands of a common dtype (`boolean` for booleans)."""
    bind = prim.bind

    def fun(x1: Any, x2: Any, /) -> Any:
        x1, x2 = promote_pair(name, x1, x2)
        return bind(x1, x2)

    def fun_boolean(x1: Any, x2: Any, /) -> Any:
        x1, x2 = promote_pair(name, x1, x2)
        if promote.dtype_of(x1) == np.bool_:
            return boolean.bind(x1, x2)
        return bind(x1, x2)

    return _finish(fun if boolean is None else fun_boolean, name, doc)


def composite(name: str, doc: str, floating: bool = False) -> Callable[[Callable], Callable]:
    """A decorator for a function of several primitives: one executable at evaluation."""

    def decorate(body: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        run = fused()(body)

        def fun(x1: Any, x2: Any, /) -> Any:
            if floating:
                x1, x2 = promote_floating(name, x1, x2)
            else:
                x1, x2 = promote_pair(name, x1, x2)
            return run(x1, x2)

        return _finish(fun, name, doc)

    return decorate


add = binary("add", lax.add_p, "x1 + x2 (of booleans: or).", lax.or_p)
subtract = binary("subtract", lax.sub_p, "x1 - x2.")
multiply = binary("multiply", lax.mul_p, "x1 * x2 (of booleans: and).", lax.and_p)
bitwise_and = binary("bitwise_and", lax.and_p, "The bits set in both.")
bitwise_or = binary("bitwise_or", lax.or_p, "The bits set in either.")
bitwise_xor = binary("bitwise_xor", lax.xor_p, "The bits set in exactly one.")
equal = binary("equal", lax.eq_p, "Whether x1 == x2.")
not_equal = binary("not_equal", lax.ne_p, "Whether x1 != x2.")


def _lexicographic(name: str, prim: Any, doc: str) -> Callable[[Any, Any], Any]:
    """An order that compares complex numbers by real part, then by imaginary part."""
    bind = prim.bind

    @fused()
    def complex_order(x: Any, y: Any) -> Any:
        re_x, re_y = lax.real(x), lax.real(y)
        im_x, im_y = lax.imag(x), lax.imag(y)
        strict = bind(re_x, re_y) & (re_x != re_y)
        return strict | ((re_x == re_y) & bind(im_x, im_y))

    def fun(x1: Any, x2: Any, /) -> Any:
        x1, x2 = promote_pair(name, x1, x2)
        if promote.dtype_of(x1).kind == "c":
            return complex_order(x1, x2)
        return bind(x1, x2)

    return _finish(fun, name, doc)


greater = _lexicographic("greater", lax.gt_p, "Whether x1 > x2.")
greater_equal = _lexicographic("greater_equal", lax.ge_p, "Whether x1 >= x2.")
less = _lexicographic("less", lax.lt_p, "Whether x1 < x2.")
less_equal = _lexicographic("less_equal", lax.le_p, "Whether x1 <= x2.")
maximum = binary("maximum", lax.max_p, "The larger one; NaN if either is NaN.")
minimum = binary("minimum", lax.min_p, "The smaller one; NaN if either is NaN.")


def _inexact_binary(name: str, prim: Any, doc: str) -> Callable[[Any, Any], Any]:
    bind = prim.bind
    is_inexact = dtypes.is_inexact

    def fun(x1: Any, x2: Any, /) -> Any:
        x1, x2 = promote_pair(name, x1, x2)
        if not is_inexact(promote.dtype_of(x1)):
            x1, x2 = promote.promote_inexact(name, x1, x2)
        return bind(x1, x2)

    return _finish(fun, name, doc)


divide = true_divide = _inexact_binary("divide", lax.div_p, "x1 / x2, in floating numbers.")
arctan2 = _inexact_binary("arctan2", lax.atan2_p, "The angle of the point (x2, x1), in radians.")
atan2 = arctan2


@composite("nextafter", "The next number after x1 in the direction of x2.", floating=True)
def nextafter(x1: Any, x2: Any) -> Any:
    return lax.nextafter_p.bind(x1, x2)


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """The largest integer not above x1 / x2.

    Args:
        x1, x2: real arrays whose shapes broadcast.

    Returns:
        An array of the broadcast shape and common dtype.

    Raises:
        TypeError: complex numbers.
    """
    x1, x2 = _promote_numbers("floor_divide", x1, x2)
    _refuse_complex("floor_divide", x1)
    return _floor_divide(x1, x2)


def _refuse_complex(name: str, x: Any) -> None:
    if promote.dtype_of(x).kind == "c":
        raise TypeError(f"{name} does not support complex numbers")


@fused()
def _floor_divide(x: Any, y: Any) -> Any:
    dtype = promote.dtype_of(x)
    if dtype.kind == "u":
        return lax.div_p.bind(x, y)
    if dtype.kind == "i":
        quotient = lax.div_p.bind(x, y)
        inexact = lax.rem_p.bind(x, y) != 0
        down = lax.ne_p.bind(lax.sign(x), lax.sign(y)) & inexact
        return lax.select(down, quotient - 1, quotient)
    return _divmod_float(x, y)[0]


def _divmod_float(x: Any, y: Any) -> tuple[Any, Any]:
    remainder_ = lax.rem_p.bind(x, y)
    exact = lax.sub_p.bind(x, remainder_)
    shape = promote.shape_of(exact)
    by_zero = promote.broadcast_to((y == 0), shape)
    numerator = lax.select(by_zero, promote.broadcast_to(x, shape), exact)
    quotient = lax.div_p.bind(numerator, y)
    down = (remainder_ != 0) & lax.ne_p.bind(lax.sign(y), lax.sign(remainder_))
    quotient = lax.select(down, quotient - 1, quotient)
    return lax.round(quotient), _remainder(x, y)


@fused()
def _remainder(x: Any, y: Any) -> Any:
    if promote.dtype_of(x).kind in "iu":
        y = lax.select((y == 0), lax.full_like(y, 1), y)  # x % 0 is 0, as in NumPy
    rest = lax.rem_p.bind(x, y)
    wrong = lax.ne_p.bind((rest < 0), (y < 0)) & (rest != 0)
    return lax.select(wrong, lax.add_p.bind(rest, y), rest)


def remainder(x1: Any, x2: Any, /) -> Any:
    """x1 - floor_divide(x1, x2) * x2: what is left, with the divisor's sign.

    Args:
        x1, x2: real arrays whose shapes broadcast.

    Returns:
        An array of the broadcast shape and common dtype.
    """
    x1, x2 = _promote_numbers("remainder", x1, x2)
    _refuse_complex("remainder", x1)
    return _remainder(x1, x2)


mod = remainder


def fmod(x1: Any, x2: Any, /) -> Any:
    """What is left of x1 / x2 truncated: with the dividend's sign.

    Args:
        x1, x2: real arrays whose shapes broadcast.

    Returns:
        An array of the broadcast shape and common dtype.
    """
    return _fmod(*_promote_numbers("fmod", x1, x2))


@fused()
def _fmod(x1: Any, x2: Any) -> Any:
    if promote.dtype_of(x1).kind in "iu":
        x2 = lax.select((x2 == 0), lax.full_like(x2, 1), x2)
    return lax.rem_p.bind(x1, x2)


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """floor_divide and remainder together.

    Args:
        x1, x2: real arrays whose shapes broadcast.

    Returns:
        Quotient and remainder.
    """
    x1, x2 = _promote_numbers("divmod", x1, x2)
    _refuse_complex("divmod", x1)
    return _divmod(x1, x2)


@fused()
def _divmod(x: Any, y: Any) -> tuple[Any, Any]:
    if promote.dtype_of(x).kind in "iu":
        return _floor_divide(x, y), _remainder(x, y)
    return _divmod_float(x, y)


# Kinds of base and exponent where an exponent of a definite dtype makes that of the result definite.
_DEFINITE = frozenset({("f", "i"), ("f", "u"), ("c", "i"), ("c", "u"), ("i", "b")})


def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2.

    A known integer exponent is raised by multiplications; its derivative needs no logarithm.

    Args:
        x1, x2: arrays whose shapes broadcast.

    Returns:
        An array of the broadcast shape and common dtype.

    Raises:
        TypeError: integers to a known negative power.
    """
    exponent = _known_exponent(x2)
    base = promote.aval_of("power", x1)
    if exponent is not None:
        x1 = promote.lift("power", x1)
        if base.dtype.kind == "b":
            x1 = promote.cast(x1, dtypes.python_scalar_dtype(int))
        elif exponent < 0 and base.dtype.kind in "iu":
            raise TypeError(
                "Integers cannot be raised to negative powers, "
                f"got integer_pow({base.str_short()}, {exponent}).\n"
                "Instead: make the base floating, x.astype(float) ** n."
            )
        return lax.integer_pow_p.bind(x1, y=exponent)
    other = promote.aval_of("power", x2, 1)
    if base.weak_type and not other.weak_type and (base.dtype.kind, other.dtype.kind) in _DEFINITE:
        x1 = promote.strong(promote.lift("power", x1))
    x1, x2 = _promote_numbers("power", x1, x2)
    return _integer_power(x1, x2) if promote.dtype_of(x1).kind in "iu" else lax.pow_p.bind(x1, x2)


def pow(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2; the array API's name of `power`."""
    return power(x1, x2)


def _known_exponent(exponent: Any) -> int | None:
    """The exponent as a Python integer, where it is an integer scalar whose value is known."""
    kind = type(exponent)
    if kind is int or kind is bool:
        return int(exponent)
    if isinstance(exponent, Tracer) or kind in (float, complex):
        return None
    aval = promote.aval_of("power", exponent, 1)
    return None if aval.shape or aval.dtype.kind not in "biu" else int(exponent)


@fused()
def _integer_power(x: Any, n: Any) -> Any:
    """Square and multiply over the exponent's six lowest bits (larger powers overflow anyway)."""
    shape = np.broadcast_shapes(promote.shape_of(x), promote.shape_of(n))
    if x.weak_type and not n.weak_type:
        x = promote.strong(x)
    x, n = promote.broadcast_to(x, shape), promote.broadcast_to(n, shape)
    one = lax.full_like(x, 1)
    result = one
    for _ in range(6):
        result = lax.select((n & 1) != 0, result * x, result)
        x = x * x
        n = lax.shift_right_logical(n, lax.full_like(n, 1))
    return result


@composite("float_power", "x1 to the power x2, in floating numbers.", floating=True)
def float_power(x1: Any, x2: Any) -> Any:
    return lax.pow_p.bind(x1, x2)


def _logical(name: str, prim: Any, doc: str) -> Callable[[Any, Any], Any]:
    def fun(x1: Any, x2: Any, /) -> Any:
        return prim.bind(_truth(name, x1, 0), _truth(name, x2, 1))

    return _finish(fun, name, doc)


def _truth(name: str, x: Any, position: int) -> Any:
    aval = promote.aval_of(name, x, position)
    return (
        x if aval.dtype == np.bool_ and not isinstance(x, bool) else promote.cast(x, np.dtype(bool))
    )


logical_and = _logical("logical_and", lax.and_p, "Whether both are true.")
logical_or = _logical("logical_or", lax.or_p, "Whether either is true.")
logical_xor = _logical("logical_xor", lax.xor_p, "Whether exactly one is true.")


def logical_not(x: Any, /) -> Any:
    """Whether x is false (zero)."""
    return lax.not_p.bind(_truth("logical_not", x, 0))


def left_shift(x1: Any, x2: Any, /) -> Any:
    """The bits of x1 moved left by x2.

    Args:
        x1, x2: integer arrays whose shapes broadcast.

    Returns:
        An integer array of the broadcast shape.
    """
    return lax.shift_left_p.bind(*_promote_numbers("left_shift", x1, x2))


bitwise_left_shift = left_shift


def right_shift(x1: Any, x2: Any, /) -> Any:
    """The bits of x1 moved right by x2; the sign bit of signed integers is repeated.

    Args:
        x1, x2: integer arrays whose shapes broadcast.

    Returns:
        An integer array of the broadcast shape.
    """
    x1, x2 = _promote_numbers("right_shift", x1, x2)
    unsigned = promote.dtype_of(x1).kind == "u"
    prim = lax.shift_right_logical_p if unsigned else lax.shift_right_arithmetic_p
    return prim.bind(x1, x2)


bitwise_right_shift = right_shift


@fused()
def _fmax(x: Any, y: Any) -> Any:
    return _choose_number(x, y, lax.max_p.bind(x, y))


@fused()
def _fmin(x: Any, y: Any) -> Any:
    return _choose_number(x, y, lax.min_p.bind(x, y))


def _choose_number(x: Any, y: Any, both: Any) -> Any:
    if not dtypes.is_inexact(promote.dtype_of(x)):
        return both
    shape = promote.shape_of(both)
    x, y = promote.broadcast_to(x, shape), promote.broadcast_to(y, shape)
    return lax.select(lax.ne(x, x), y, lax.select(lax.ne(y, y), x, both))


def fmax(x1: Any, x2: Any) -> Any:
    """The larger one; a number wins over NaN."""
    return _fmax(*promote_pair("fmax", x1, x2))


def fmin(x1: Any, x2: Any) -> Any:
    """The smaller one; a number wins over NaN."""
    return _fmin(*promote_pair("fmin", x1, x2))


@composite("heaviside", "0 for x1 < 0, 1 for x1 > 0, x2 at 0.", floating=True)
def heaviside(x1: Any, x2: Any) -> Any:
    shape = np.broadcast_shapes(promote.shape_of(x1), promote.shape_of(x2))
    x1, x2 = promote.broadcast_to(x1, shape), promote.broadcast_to(x2, shape)
    step = lax.select(x1 < 0, lax.full_like(x1, 0), lax.full_like(x1, 1))
    step = lax.select(x1 == 0, x2, step)
    return lax.select(lax.ne(x1, x1), x1, step)


@composite("hypot", "sqrt(x1**2 + x2**2), without overflow in between.", floating=True)
def hypot(x1: Any, x2: Any) -> Any:
    shape = np.broadcast_shapes(promote.shape_of(x1), promote.shape_of(x2))
    x1, x2 = lax.abs(promote.broadcast_to(x1, shape)), lax.abs(promote.broadcast_to(x2, shape))
    infinite = (x1 == np.inf) | (x2 == np.inf)
    large, small = lax.max(x1, x2), lax.min(x1, x2)
    safe = lax.select(large == 0, lax.full_like(large, 1), large)
    ratio = small / safe
    result = lax.select(large == 0, large, safe * lax.sqrt(1 + ratio * ratio))
    return lax.select(infinite, lax.full_like(result, np.inf), result)


@composite("copysign", "The magnitude of x1 with the sign of x2.", floating=True)
def copysign(x1: Any, x2: Any) -> Any:
    size = lax.abs(x1)
    shape = np.broadcast_shapes(promote.shape_of(x1), promote.shape_of(x2))
    size = promote.broadcast_to(size, shape)
    return lax.select(promote.broadcast_to(signbit(x2), shape), -size, size)


def is_operand(x: Any) -> bool:
    """Whether an operator takes `x` as its other operand (else it gives NotImplemented)."""
    return isinstance(x, (Array, Tracer, np.ndarray, np.generic, int, float, complex)) or hasattr(
        x, "__jax_array__"
    )


def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """The elements moved into [min, max].

    Args:
        arr: array.
        min, max: bounds that broadcast with it; None for no bound.

    Returns:
        An array of the common dtype.
    """
    if arr is None:
        raise ValueError("At least one argument must be provided to clip.")
    parts = [x for x in (arr, min, max) if x is not None]
    if any(promote.aval_of("clip", x).dtype.kind == "c" for x in parts):
        raise ValueError("Clip received a complex value; clip is only defined for real values.")
    if len(parts) == 1:
        return promote.lift("clip", arr)
    aval = getattr(arr, "aval", None)
    bounds: list[Any] = [None]
    if aval is not None and aval.dtype.kind != "b":  # the common case: numbers as bounds
        bounds = [
            promote.scalar_operand(x, aval) if type(x) in promote.PYTHON_SCALARS else None
            for x in parts[1:]
        ]
    parts = promote.promote("clip", *parts) if any(b is None for b in bounds) else [arr, *bounds]
    return _clip(parts, min is not None, max is not None)


@fused("low", "high")
def _clip(parts: list[Any], low: bool, high: bool) -> Any:
    x, *rest = parts
    if low:
        x = lax.max_p.bind(rest.pop(0), x)
    return lax.min_p.bind(rest.pop(0), x) if high else x
