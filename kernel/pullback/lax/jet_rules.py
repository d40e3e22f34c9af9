"""Taylor rules with a recurrence of their own: products, quotients, and the elementary functions.

Each follows from the differential equation of its function, so that order k costs k products in
place of a sum over partitions. Terms are derivatives, not Taylor coefficients: the k-th derivative
of a product is sum_j C(k, j) a_j b_(k-j).

Builds on jet.py. Source: Griewank and Walther, Evaluating Derivatives, 2nd ed., section 13.2.
Tested in tests/api/test_jet.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.jvp import linear_ops
from pullback.core.tracer import Primitive
from pullback.lax.conv import conv_general_dilated_p
from pullback.lax.dot import dot_general_p
from pullback.lax.elementwise import div_p, neg_p, rsqrt_p, sqrt_p, square_p, sub_p
from pullback.lax.families import const_like, match_shape, mul_p
from pullback.lax.jet import Rule, Terms, by_derivative, jet_flat, rules, varies
from pullback.lax.operands import shape_of
from pullback.lax.transcendental import (
    cos_p,
    cosh_p,
    exp2_p,
    exp_p,
    expm1_p,
    log1p_p,
    log_p,
    logistic_p,
    pow_p,
    sin_p,
    sinh_p,
    tan_p,
    tanh_p,
)


def _scaled(x: Any, factor: float) -> Any:
    if x is None or factor == 1:
        return x
    return mul_p.bind(x, const_like(x, factor))


def _times(a: Any, b: Any) -> Any:
    return None if a is None or b is None else mul_p.bind(a, b)


def _plus(a: Any, b: Any) -> Any:
    if a is None:
        return b
    return a if b is None else linear_ops.add(a, b)


def _minus(a: Any, b: Any) -> Any:
    if b is None:
        return a
    return neg_p.bind(b) if a is None else sub_p.bind(a, b)


def _over(a: Any, b: Any) -> Any:
    return None if a is None else div_p.bind(a, b)


def _leibniz(
    n: int, a: Sequence[Any], b: Sequence[Any], low: int, high: int, shift: int = 0
) -> Any:
    """sum over low <= j < high of C(n, j) a[j] b[n + shift - j]; None where nothing is there."""
    total = None
    for j in range(low, high):
        part = _times(a[j], b[n + shift - j])
        total = _plus(total, _scaled(part, math.comb(n, j)))
    return total


def _fitted(terms: Sequence[Any], out: Any) -> Terms:
    """The terms in the result's shape."""
    shape = shape_of(out)
    return tuple([t if t is None else match_shape(t, shape) for t in terms])


def _bilinear(prim: Primitive) -> Rule:
    """Products of every kind: linear in each of two operands."""

    def rule(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
        a, b = ([p, *ts] for p, ts in zip(primals, series, strict=True))
        terms = []
        for k in range(1, order + 1):
            total = None
            for j in range(k + 1):
                if a[j] is not None and b[k - j] is not None:
                    part = prim.bind(a[j], b[k - j], **params)
                    total = _plus(total, _scaled(part, math.comb(k, j)))
            terms.append(total)
        return prim.bind(*primals, **params), tuple(terms)

    return rule


def _square(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
    """y = x x: each pair of terms once."""
    x = [primals[0], *series[0]]
    terms = []
    for k in range(1, order + 1):
        total = _scaled(_leibniz(k, x, x, 0, (k + 1) // 2), 2)
        if k % 2 == 0:
            middle = _times(x[k // 2], x[k // 2])
            total = _plus(total, _scaled(middle, math.comb(k, k // 2)))
        terms.append(total)
    return square_p.bind(*primals, **params), tuple(terms)


def _div(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
    """z y = x."""
    x, y = ([p, *ts] for p, ts in zip(primals, series, strict=True))
    z = [div_p.bind(*primals, **params)]
    for k in range(1, order + 1):
        z.append(_over(_minus(x[k], _leibniz(k, z, y, 0, k)), y[0]))
    return z[0], _fitted(z[1:], z[0])


def _exponential(prim: Primitive, h: Callable[[int, list[Any]], Any]) -> Rule:
    """y' = h(y) x', where `h(k, y)` gives term k of h from those of y."""

    def rule(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
        x = [primals[0], *series[0]]
        y = [prim.bind(*primals, **params)]
        slope: list[Any] = []
        for k in range(1, order + 1):
            slope.append(h(k - 1, y))
            y.append(_leibniz(k - 1, slope, x, 0, k, 1))
        return y[0], tuple(y[1:])

    return rule


def _one_plus(k: int, y: list[Any]) -> Any:
    return linear_ops.add(y[0], const_like(y[0], 1)) if k == 0 else y[k]


def _tanh_slope(k: int, y: list[Any]) -> Any:
    if k == 0:  # as a product: 1 - y**2 would cancel for large x
        one = const_like(y[0], 1)
        return mul_p.bind(sub_p.bind(one, y[0]), linear_ops.add(one, y[0]))
    return _minus(None, _leibniz(k, y, y, 0, k + 1))


def _tan_slope(k: int, y: list[Any]) -> Any:
    squared = _leibniz(k, y, y, 0, k + 1)
    return linear_ops.add(squared, const_like(y[0], 1)) if k == 0 else squared


def _logistic_slope(k: int, y: list[Any]) -> Any:
    if k == 0:
        return mul_p.bind(y[0], sub_p.bind(const_like(y[0], 1), y[0]))
    return _minus(y[k], _leibniz(k, y, y, 0, k + 1))


def _logarithm(prim: Primitive, offset: int) -> Rule:
    """(x + offset) y' = x'."""

    def rule(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
        x = [primals[0], *series[0]]
        y = [prim.bind(*primals, **params)]
        base = linear_ops.add(x[0], const_like(x[0], offset)) if offset else x[0]
        for k in range(1, order + 1):
            y.append(_over(_minus(x[k], _leibniz(k - 1, x, y, 1, k, 1)), base))
        return y[0], tuple(y[1:])

    return rule


def _pair(prim: Primitive, other: Primitive, sign: int, first: bool) -> Rule:
    """Two functions that are each other's derivative: s' = c x', c' = sign s x'."""

    def rule(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
        x = [primals[0], *series[0]]
        own, partner = [prim.bind(*primals, **params)], [other.bind(*primals, **params)]
        s, c = (own, partner) if first else (partner, own)
        for k in range(1, order + 1):
            new_s = _leibniz(k - 1, c, x, 0, k, 1)
            new_c = _leibniz(k - 1, s, x, 0, k, 1)
            s.append(new_s)
            c.append(_minus(None, new_c) if sign < 0 else new_c)
        return own[0], tuple(own[1:])

    return rule


def _sqrt(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
    """y y = x."""
    x = [primals[0], *series[0]]
    y = [sqrt_p.bind(*primals, **params)]
    twice = _scaled(y[0], 2)
    for k in range(1, order + 1):
        y.append(_over(_minus(x[k], _leibniz(k, y, y, 1, k)), twice))
    return y[0], tuple(y[1:])


def _rsqrt(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
    """x y' = -1/2 y x'."""
    x = [primals[0], *series[0]]
    y = [rsqrt_p.bind(*primals, **params)]
    for k in range(1, order + 1):
        driven = _scaled(_leibniz(k - 1, y, x, 0, k, 1), -0.5)
        y.append(_over(_minus(driven, _leibniz(k - 1, x, y, 1, k, 1)), x[0]))
    return y[0], tuple(y[1:])


def _pow(order: int, primals: Any, series: Any, **params: Any) -> tuple[Any, Terms]:
    """z' = z (y log x)'; by its derivative where the exponent is constant (or x is negative)."""
    if not varies(series[1]):
        return by_derivative(pow_p, order, primals, series, params)
    z = [pow_p.bind(*primals, **params)]

    def exponent(x: Any, y: Any) -> list[Any]:
        return [mul_p.bind(y, log_p.bind(x))]

    _, (w,) = jet_flat(exponent, order, primals, series)
    driver = [None, *w]
    for k in range(1, order + 1):
        z.append(_leibniz(k - 1, z, driver, 0, k, 1))
    return z[0], _fitted(z[1:], z[0])


rules.update(
    {
        **{p: _bilinear(p) for p in (mul_p, dot_general_p, conv_general_dilated_p)},
        square_p: _square,
        div_p: _div,
        exp_p: _exponential(exp_p, lambda k, y: y[k]),
        exp2_p: _exponential(exp2_p, lambda k, y: _scaled(y[k], math.log(2))),
        expm1_p: _exponential(expm1_p, _one_plus),
        tanh_p: _exponential(tanh_p, _tanh_slope),
        tan_p: _exponential(tan_p, _tan_slope),
        logistic_p: _exponential(logistic_p, _logistic_slope),
        log_p: _logarithm(log_p, 0),
        log1p_p: _logarithm(log1p_p, 1),
        sin_p: _pair(sin_p, cos_p, -1, True),
        cos_p: _pair(cos_p, sin_p, -1, False),
        sinh_p: _pair(sinh_p, cosh_p, 1, True),
        cosh_p: _pair(cosh_p, sinh_p, 1, False),
        sqrt_p: _sqrt,
        rsqrt_p: _rsqrt,
        pow_p: _pow,
    }
)
