"""Incomplete gamma and beta functions, as programs of other operations.

P(a, x) comes from its power series where x <= a or x <= 1, and from Legendre's continued fraction
for Q = 1 - P elsewhere; both carry their derivative by a along. I_x(a, b) comes from its continued
fraction. Loops run until every element has converged.

Builds on gamma.py and while_loop.py. Sources: DLMF 8.11.4 and
8.9.2 (incomplete gamma), 8.17.22 (incomplete beta), 5.11.1 (Stirling); Thompson and Barnett,
J. Comput. Phys. 64 (1986) 490 (evaluating continued fractions).
Tested in tests/lax/test_special.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pullback.core.aval import typeof
from pullback.lax.compare_select import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    eq,
    ge,
    gt,
    is_finite,
    le,
    lt,
    ne,
    select,
)
from pullback.lax.complex import abs
from pullback.lax.elementwise import add, div, integer_pow, max, mul, neg, rsqrt, sub
from pullback.lax.fill import full_like
from pullback.lax.gamma import digamma, lgamma
from pullback.lax.reduce import reduce_or
from pullback.lax.transcendental import exp, log, log1p
from pullback.lax.while_loop import while_loop

_MAX_TERMS = 2000.0


def _eps(x: Any) -> float:
    return float(np.finfo(typeof(x).dtype).eps)


def _any(mask: Any) -> Any:
    return reduce_or(mask, tuple(range(typeof(mask).ndim)))


def _iterate(body: Callable[[tuple], tuple], start: tuple) -> tuple:
    """Apply `body` while any element of the state's first part holds; the others stay frozen."""

    def step(state: tuple) -> tuple:
        new, active = body(state), state[0]
        return (new[0], *[select(active, n, o) for n, o in zip(new[1:], state[1:], strict=True)])

    return while_loop(lambda state: _any(state[0]), step, start)


class _Sum(NamedTuple):
    """A series or fraction and its derivative by a."""

    value: Any
    slope: Any


# -- incomplete gamma -------------------------------------------------------------------------


def _gamma_prefix(a: Any, x: Any) -> Any:
    """x**a e**-x / gamma(a + 1), by Stirling's series where a is large, so that nothing cancels."""
    plain = exp(sub(sub(mul(a, log(x)), x), lgamma(add(a, 1.0))))
    large = max(a, 20.0)
    u = div(sub(x, large), large)
    r2 = integer_pow(large, -2)
    correction = full_like(a, 0.0)
    for c in (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        correction = add(mul(correction, r2), c)
    exponent = sub(mul(neg(large), sub(u, log1p(u))), div(correction, large))
    stirling = mul(exp(exponent), mul(rsqrt(large), 1 / math.sqrt(2 * math.pi)))
    return select(gt(a, 20.0), stirling, plain)


def _gamma_series(a: Any, x: Any, active: Any) -> Any:
    """S with P = x**a e**-x / gamma(a+1) S: the sum of x**n / ((a+1) ... (a+n))."""
    one, eps = full_like(a, 1.0), _eps(a)

    def body(state: tuple) -> tuple:
        active, r, term, total = state
        r = add(r, 1.0)
        term = mul(term, div(x, r))
        total = add(total, term)
        return bitwise_and(active, gt(term, mul(total, eps))), r, term, total

    return _iterate(body, (active, a, one, one))[3]


def _gamma_series_slope(a: Any, x: Any, active: Any) -> _Sum:
    """The same sum with its derivative by a, whose terms have the factor -sum of 1/(a+k)."""
    one, zero, eps = full_like(a, 1.0), full_like(a, 0.0), _eps(a)

    def body(state: tuple) -> tuple:
        active, r, term, total, dlog, slope = state
        r = add(r, 1.0)
        term = mul(term, div(x, r))
        dlog = sub(dlog, div(1.0, r))
        step = mul(term, dlog)
        total, slope = add(total, term), add(slope, step)
        small = bitwise_and(
            le(term, mul(total, eps)), le(abs(step), mul(add(abs(slope), total), eps))
        )
        return bitwise_and(active, bitwise_not(small)), r, term, total, dlog, slope

    state = _iterate(body, (active, a, one, one, zero, zero))
    return _Sum(state[3], state[5])


def _gamma_fraction(a: Any, x: Any, active: Any) -> Any:
    """C with Q = x**a e**-x / gamma(a) C: 1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...)))."""
    zero, one, eps = full_like(a, 0.0), full_like(a, 1.0), _eps(a)
    b1 = add(sub(x, a), 1.0)
    inverse = div(1.0, b1)

    def body(state: tuple) -> tuple:
        # Numerators a0, value and denominators b0, 1 of two convergents.
        active, n, value, a0, b0 = state
        bn, an = add(b1, mul(n, 2.0)), mul(n, sub(a, n))
        scale = div(1.0, add(bn, mul(an, b0)))
        new = mul(add(mul(bn, value), mul(an, a0)), scale)
        going = bitwise_and(gt(abs(sub(new, value)), mul(abs(new), eps)), lt(n, _MAX_TERMS))
        return bitwise_and(active, going), add(n, 1.0), new, mul(value, scale), scale

    return _iterate(body, (active, one, inverse, zero, inverse))[2]


def _gamma_fraction_slope(a: Any, x: Any, active: Any) -> _Sum:
    """The same fraction with its derivative by a."""
    zero, one, eps = full_like(a, 0.0), full_like(a, 1.0), _eps(a)
    b1 = add(sub(x, a), 1.0)
    inverse = div(1.0, b1)

    def body(state: tuple) -> tuple:
        # Numerators A and denominators B of two convergents, and their derivatives by a, scaled so
        # that the newer B is 1.
        active, n, value, slope, a0, a1, b0, da0, da1, db0, db1 = state
        bn, an = add(b1, mul(n, 2.0)), mul(n, sub(a, n))
        a2 = add(mul(bn, a1), mul(an, a0))
        b2 = add(bn, mul(an, b0))
        da2 = add(sub(add(mul(bn, da1), mul(an, da0)), a1), mul(n, a0))
        db2 = add(sub(add(mul(bn, db1), mul(an, db0)), 1.0), mul(n, b0))
        scale = div(1.0, b2)
        a1, b0, da1, db1 = (mul(v, scale) for v in (a1, one, da1, db1))
        a2, da2, db2 = (mul(v, scale) for v in (a2, da2, db2))
        d2 = sub(da2, mul(a2, db2))
        close = bitwise_and(
            le(abs(sub(a2, value)), mul(abs(a2), eps)),
            le(abs(sub(d2, slope)), mul(add(abs(d2), abs(a2)), eps)),
        )
        going = bitwise_and(active, bitwise_not(close))
        going = bitwise_and(going, lt(n, _MAX_TERMS))
        return going, add(n, 1.0), a2, d2, a1, a2, b0, da1, da2, db1, db2

    # After the first term: A = 1/b1, B = 1, dA = 0, dB = -1/b1 in the scale of B = 1.
    slope = mul(inverse, inverse)
    start = (active, one, inverse, slope, zero, inverse, inverse, zero, zero, zero, neg(inverse))
    state = _iterate(body, start)
    return _Sum(state[2], state[3])


class _GammaCase(NamedTuple):
    """Where the two methods hold, and elements that no method reaches."""

    by_series: Any
    by_fraction: Any
    regular: Any
    invalid: Any
    a: Any
    x: Any


def _gamma_case(a: Any, x: Any) -> _GammaCase:
    invalid = bitwise_or(bitwise_or(lt(x, 0.0), lt(a, 0.0)), bitwise_or(ne(x, x), ne(a, a)))
    invalid = bitwise_or(invalid, bitwise_and(eq(a, 0.0), eq(x, 0.0)))
    infinite = bitwise_and(bitwise_not(is_finite(a)), bitwise_not(is_finite(x)))
    invalid = bitwise_or(invalid, infinite)
    regular = bitwise_and(bitwise_and(gt(x, 0.0), gt(a, 0.0)), bitwise_not(invalid))
    regular = bitwise_and(regular, bitwise_and(is_finite(a), is_finite(x)))
    low = bitwise_or(le(x, 1.0), le(x, a))
    one = full_like(a, 1.0)
    return _GammaCase(
        by_series=bitwise_and(regular, low),
        by_fraction=bitwise_and(regular, bitwise_not(low)),
        regular=regular,
        invalid=invalid,
        a=select(regular, a, one),
        x=select(regular, x, one),
    )


def _gamma_tails(a: Any, x: Any) -> tuple[_GammaCase, Any, Any]:
    """The case, and the tail that each method gives: P by the series, Q by the fraction."""
    case = _gamma_case(a, x)
    prefix = _gamma_prefix(case.a, case.x)
    lower = mul(prefix, _gamma_series(case.a, case.x, case.by_series))
    upper = mul(mul(prefix, case.a), _gamma_fraction(case.a, case.x, case.by_fraction))
    return case, lower, upper


def igamma(a: Any, x: Any) -> Any:
    """P(a, x) of float32 or float64 arrays of one shape."""
    case, lower, upper = _gamma_tails(a, x)
    out = select(case.by_series, lower, sub(1.0, upper))
    # x = 0 or a infinite gives 0; a = 0 or x infinite gives 1.
    full = bitwise_or(eq(a, 0.0), bitwise_and(gt(x, 0.0), bitwise_not(is_finite(x))))
    limit = select(full, full_like(a, 1.0), full_like(a, 0.0))
    return select(case.invalid, full_like(a, math.nan), select(case.regular, out, limit))


def igammac(a: Any, x: Any) -> Any:
    """Q(a, x) of float32 or float64 arrays of one shape."""
    case, lower, upper = _gamma_tails(a, x)
    out = select(case.by_series, sub(1.0, lower), upper)
    empty = bitwise_or(eq(a, 0.0), bitwise_and(gt(x, 0.0), bitwise_not(is_finite(x))))
    limit = select(empty, full_like(a, 0.0), full_like(a, 1.0))
    return select(case.invalid, full_like(a, math.nan), select(case.regular, out, limit))


def _gamma_slopes(a: Any, x: Any) -> tuple[_GammaCase, Any, Any]:
    """d log-weighted tails by a: of P by the series over its prefix, of Q by the fraction."""
    case = _gamma_case(a, x)
    series = _gamma_series_slope(case.a, case.x, case.by_series)
    fraction = _gamma_fraction_slope(case.a, case.x, case.by_fraction)
    log_x = log(case.x)
    by_series = add(mul(series.value, sub(log_x, digamma(add(case.a, 1.0)))), series.slope)
    by_fraction = add(mul(fraction.value, sub(log_x, digamma(case.a))), fraction.slope)
    return case, by_series, by_fraction


def _zero_at_zero(a: Any, x: Any, case: _GammaCase, out: Any) -> Any:
    at_zero = bitwise_and(eq(x, 0.0), gt(a, 0.0))
    other = select(at_zero, full_like(a, 0.0), full_like(a, math.nan))
    return select(case.regular, out, other)


def igamma_grad_a(a: Any, x: Any) -> Any:
    """dP/da of float32 or float64 arrays of one shape."""
    case, by_series, by_fraction = _gamma_slopes(a, x)
    prefix = _gamma_prefix(case.a, case.x)
    out = mul(prefix, select(case.by_series, by_series, mul(neg(case.a), by_fraction)))
    return _zero_at_zero(a, x, case, out)


def random_gamma_grad(a: Any, x: Any) -> Any:
    """-(dP/da) / (dP/dx); the prefixes cancel, so nothing over- or underflows."""
    case, by_series, by_fraction = _gamma_slopes(a, x)
    out = mul(case.x, select(case.by_series, div(neg(by_series), case.a), by_fraction))
    return _zero_at_zero(a, x, case, out)


# -- incomplete beta --------------------------------------------------------------------------


def _beta_fraction(a: Any, b: Any, x: Any, active: Any) -> Any:
    """1/(1 + d1/(1 + d2/(1 + ...))) of DLMF 8.17.22, by Lentz's method."""
    one, eps = full_like(a, 1.0), _eps(a)
    tiny = float(np.finfo(typeof(a).dtype).tiny) / eps
    total = add(a, b)

    def guarded(v: Any) -> Any:
        return select(lt(abs(v), tiny), full_like(v, tiny), v)

    def step(c: Any, d: Any, coefficient: Any) -> tuple[Any, Any]:
        return (
            guarded(add(div(coefficient, c), 1.0)),
            div(1.0, guarded(add(mul(coefficient, d), 1.0))),
        )

    def body(state: tuple) -> tuple:
        active, m, c, d, h = state
        even = add(a, mul(m, 2.0))
        coefficient = div(mul(mul(m, sub(b, m)), x), mul(sub(even, 1.0), even))
        c, d = step(c, d, coefficient)
        h = mul(h, mul(c, d))
        odd = div(mul(add(a, m), mul(add(total, m), neg(x))), mul(even, add(even, 1.0)))
        c, d = step(c, d, odd)
        change = mul(c, d)
        going = bitwise_and(gt(abs(sub(change, 1.0)), eps), lt(m, _MAX_TERMS))
        return bitwise_and(active, going), add(m, 1.0), c, d, mul(h, change)

    first = div(1.0, guarded(sub(1.0, div(mul(total, x), add(a, 1.0)))))
    state = _iterate(body, (active, one, one, first, first))
    return state[4]


def betainc(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b) of float32 or float64 arrays of one shape."""
    zero, one = full_like(a, 0.0), full_like(a, 1.0)
    regular = bitwise_and(bitwise_and(gt(a, 0.0), gt(b, 0.0)), is_finite(add(a, b)))
    regular = bitwise_and(regular, bitwise_and(gt(x, 0.0), lt(x, 1.0)))
    a_, b_, x_ = (select(regular, v, w) for v, w in ((a, one), (b, one), (x, mul(one, 0.5))))
    # The fraction converges fast left of the mean; right of it, I_x(a, b) = 1 - I_{1-x}(b, a).
    swap = ge(mul(x_, add(add(a_, b_), 2.0)), add(a_, 1.0))
    p, q = select(swap, b_, a_), select(swap, a_, b_)
    y = select(swap, sub(1.0, x_), x_)
    log_y, log_z = (
        select(swap, v, w) for v, w in ((log1p(neg(x_)), log(x_)), (log(x_), log1p(neg(x_))))
    )
    log_beta = sub(add(lgamma(p), lgamma(q)), lgamma(add(p, q)))
    front = div(exp(sub(add(mul(p, log_y), mul(q, log_z)), log_beta)), p)
    tail = mul(front, _beta_fraction(p, q, y, regular))
    out = select(swap, sub(1.0, tail), tail)
    return select(regular, out, _beta_limits(a, b, x, zero, one))


def _beta_limits(a: Any, b: Any, x: Any, zero: Any, one: Any) -> Any:
    """Values on the edges of the domain, NaN outside."""
    a_low, b_low = eq(a, 0.0), eq(b, 0.0)
    a_high, b_high = gt(a, _largest(a)), gt(b, _largest(b))
    to_one = bitwise_or(bitwise_or(a_low, b_high), eq(x, 1.0))
    to_zero = bitwise_or(bitwise_or(b_low, a_high), eq(x, 0.0))
    # At x = 0 and 1 the function is 0 and 1 whatever a and b are.
    out = select(to_one, one, select(to_zero, zero, full_like(a, math.nan)))
    out = select(eq(x, 0.0), zero, out)
    out = select(eq(x, 1.0), one, out)
    outside = bitwise_or(bitwise_or(lt(a, 0.0), lt(b, 0.0)), bitwise_or(lt(x, 0.0), gt(x, 1.0)))
    undefined = bitwise_or(bitwise_and(a_low, b_low), bitwise_and(a_high, b_high))
    unknown = bitwise_or(ne(a, a), bitwise_or(ne(b, b), ne(x, x)))
    wrong = bitwise_or(outside, bitwise_or(undefined, unknown))
    return select(wrong, full_like(a, math.nan), out)


def _largest(x: Any) -> float:
    return float(np.finfo(typeof(x).dtype).max)
