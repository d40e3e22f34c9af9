"""The gamma function's logarithm and its derivatives, and the Hurwitz zeta function.

Builds on elementwise.py. Source: NIST Digital Library of Mathematical Functions (DLMF), chapters 5
and 25, https://dlmf.nist.gov. Tested in tests/lax/test_special.py.
"""

from __future__ import annotations

from typing import Any

from pullback.core.tracer import Primitive
from pullback.lax.elementwise import add_p, neg_p, public_unary
from pullback.lax.families import FLOAT, binary, const_like, mul_p, operands, unary

lgamma_p = unary(
    "lgamma",
    "chlo.lgamma",
    FLOAT,
    d=lambda out, x: digamma_p.bind(x),
    doc="log |gamma(x)|; d = digamma(x) dx",
)
digamma_p: Primitive = unary(
    "digamma",
    "chlo.digamma",
    FLOAT,
    d=lambda out, x: polygamma_p.bind(const_like(x, 1), x),
    doc="the derivative of lgamma; d = polygamma(1, x) dx",
)
polygamma_p: Primitive = binary(
    "polygamma",
    "chlo.polygamma",
    FLOAT,
    d=(
        None,
        lambda t, out, m, x: mul_p.bind(t, polygamma_p.bind(add_p.bind(m, const_like(m, 1)), x)),
    ),
    doc="the m-th derivative of digamma; d = polygamma(m + 1, x) dx",
)
zeta_p: Primitive = binary(
    "zeta",
    "chlo.zeta",
    FLOAT,
    d=(
        None,
        lambda t, out, x, q: mul_p.bind(
            t, mul_p.bind(neg_p.bind(x), zeta_p.bind(add_p.bind(x, const_like(x, 1)), q))
        ),
    ),
    doc="the Hurwitz zeta function, sum of (q + k)**-x; d = -x zeta(x + 1, q) dq",
)


def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function."""
    return public_unary(lgamma_p, x)


def digamma(x: Any) -> Any:
    """The derivative of lgamma."""
    return public_unary(digamma_p, x)


def polygamma(m: Any, x: Any) -> Any:
    """The m-th derivative of digamma; m is an array of x's dtype that holds integers."""
    return polygamma_p.bind(*operands("polygamma", m, x))


def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function, the sum over k of (q + k)**-x, for x > 1."""
    return zeta_p.bind(*operands("zeta", x, q))
