"""Special functions: error functions, incomplete gamma and beta, Bessel.

Where there is no CHLO operation, the series of incomplete.py and bessel.py are lowered in place,
computed in float32 at least.

Builds on gamma.py, incomplete.py and bessel.py. Source: NIST Digital Library of Mathematical
Functions (DLMF), https://dlmf.nist.gov. Tested in tests/lax/test_special.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.core.aval import ShapedArray, typeof
from pullback.core.call import closed_jaxpr, jit_p
from pullback.core.jaxpr import Jaxpr
from pullback.core.jvp import zero_of
from pullback.core.tracer import Primitive, eval_context
from pullback.lax import incomplete
from pullback.lax.bessel import bessel_i0e_series
from pullback.lax.compare_select import gt_p, select_n_p
from pullback.lax.complex import abs_p, sign_p
from pullback.lax.convert import convert_element_type
from pullback.lax.elementwise import (
    add_p,
    integer_pow_p,
    neg_p,
    public_unary,
    square_p,
    sub_p,
)
from pullback.lax.families import (
    FLOAT,
    binary,
    broadcast_shapes,
    const_like,
    match_shape,
    mul_p,
    nary,
    operands,
    unary,
)
from pullback.lax.gamma import lgamma_p
from pullback.lax.transcendental import exp_p, log1p_p, log_p

# -- error functions --------------------------------------------------------------------------


def _gaussian(x: Any, factor: float) -> Any:
    return mul_p.bind(exp_p.bind(neg_p.bind(square_p.bind(x))), const_like(x, factor))


erf_p = unary(
    "erf",
    "chlo.erf",
    FLOAT,
    d=lambda out, x: _gaussian(x, 2 / math.sqrt(math.pi)),
    doc="the error function; d = 2/sqrt(pi) exp(-x**2) dx",
)
erfc_p = unary(
    "erfc",
    "chlo.erfc",
    FLOAT,
    d=lambda out, x: _gaussian(x, -2 / math.sqrt(math.pi)),
    doc="1 - erf(x), without cancellation; d = -2/sqrt(pi) exp(-x**2) dx",
)
erf_inv_p = unary(
    "erf_inv",
    "chlo.erf_inv",
    FLOAT,
    d=lambda out, x: mul_p.bind(
        exp_p.bind(square_p.bind(out)), const_like(x, math.sqrt(math.pi) / 2)
    ),
    doc="the inverse of erf; d = sqrt(pi)/2 exp(erf_inv(x)**2) dx",
)

# -- incomplete gamma and beta ------------------------------------------------------------------


def _widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function computed in float32 at least, on operands broadcast to one shape."""

    def wide_function(*args: Any) -> Any:
        avals = [typeof(x) for x in args]
        shape, dtype = broadcast_shapes(function.__name__, avals), avals[0].dtype
        wide = dtype if np.dtype(dtype).itemsize >= 4 else np.dtype(np.float32)
        out = function(*[convert_element_type(match_shape(x, shape), wide) for x in args])
        return convert_element_type(out, dtype)

    return wide_function


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """A lowering that traces `function` at the operands' types."""
    wide_function = _widened(function)

    def lower(ctx: Any, *values: Any) -> Any:
        return ctx.fun(wide_function, values, ctx.avals_in)[0]

    return lower


def _rule_of_program(
    function: Callable[..., Any], rule: Callable[..., tuple[list, list]]
) -> Callable[..., Any]:
    """The derivative rule that `jit_p` has for `function` as a program: it goes through its loops."""
    wide_function = _widened(function)

    @lru_cache(maxsize=64)
    def staged(avals: tuple[ShapedArray, ...]) -> tuple[Jaxpr, list[Any]]:
        with eval_context():
            return closed_jaxpr(lambda *xs: [wide_function(*xs)], avals, function.__name__)

    def derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        jaxpr, consts = staged(tuple(typeof(x) for x in primals))
        zeros = [zero_of(c) for c in consts]
        outs, t_outs = rule(
            (*consts, *primals), (*zeros, *tangents), jaxpr=jaxpr, name=function.__name__
        )
        return outs[0], t_outs[0]

    return derivative


def _derivative_series(function: Callable[..., Any], doc: str) -> Primitive:
    """A primitive that is a derivative itself, and is differentiated through its loops."""
    return binary(
        function.__name__,
        _in_place(function),
        FLOAT,
        jvp=_rule_of_program(function, jit_p.jvp),  # type: ignore[arg-type]
        linearize=_rule_of_program(function, jit_p.linearize),  # type: ignore[arg-type]
        doc=doc,
    )


def _gamma_density(a: Any, x: Any) -> Any:
    """x**(a-1) e**-x / gamma(a), the derivative of igamma by x."""
    power = mul_p.bind(sub_p.bind(a, const_like(a, 1)), log_p.bind(x))
    return exp_p.bind(sub_p.bind(sub_p.bind(power, x), lgamma_p.bind(a)))


igamma_grad_a_p = _derivative_series(incomplete.igamma_grad_a, "the derivative of igamma by a")
igamma_p = binary(
    "igamma",
    _in_place(incomplete.igamma),
    FLOAT,
    d=(
        lambda t, out, a, x: mul_p.bind(t, igamma_grad_a_p.bind(a, x)),
        lambda t, out, a, x: mul_p.bind(t, _gamma_density(a, x)),
    ),
    doc="the lower incomplete gamma function, regularised; dP/dx = x**(a-1) e**-x / gamma(a)",
)
igammac_p = binary(
    "igammac",
    _in_place(incomplete.igammac),
    FLOAT,
    d=(
        lambda t, out, a, x: mul_p.bind(t, neg_p.bind(igamma_grad_a_p.bind(a, x))),
        lambda t, out, a, x: mul_p.bind(t, neg_p.bind(_gamma_density(a, x))),
    ),
    doc="the upper one, Q(a, x) = 1 - P(a, x)",
)
random_gamma_grad_p = _derivative_series(
    incomplete.random_gamma_grad,
    "dx/da of a sample x of the gamma distribution: -(dP/da) / (dP/dx)",
)


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """x**(a-1) (1-x)**(b-1) / B(a, b), the derivative of betainc by x."""
    one = const_like(x, 1)
    powers = add_p.bind(
        mul_p.bind(sub_p.bind(a, one), log_p.bind(x)),
        mul_p.bind(sub_p.bind(b, one), log1p_p.bind(neg_p.bind(x))),
    )
    log_beta = sub_p.bind(
        add_p.bind(lgamma_p.bind(a), lgamma_p.bind(b)), lgamma_p.bind(add_p.bind(a, b))
    )
    return exp_p.bind(sub_p.bind(powers, log_beta))


regularized_incomplete_beta_p = nary(
    "regularized_incomplete_beta",
    _in_place(incomplete.betainc),
    (FLOAT, FLOAT, FLOAT),
    d=(None, None, lambda t, out, a, b, x: mul_p.bind(t, _beta_density(a, b, x))),
    doc="I_x(a, b); dI/dx = x**(a-1) (1-x)**(b-1) / B(a, b)",
)

# -- Bessel -----------------------------------------------------------------------------------


def _i1e_d(out: Any, x: Any) -> Any:
    # i1e' = i0e - i1e (sign(x) + 1/x), and 1/2 at 0, where 1/x is replaced before it is taken.
    eps = const_like(x, np.finfo(np.float32).eps)
    far = gt_p.bind(abs_p.bind(x), eps)
    safe = select_n_p.bind(far, eps, x)
    inner = add_p.bind(sign_p.bind(safe), integer_pow_p.bind(safe, y=-1))
    slope = sub_p.bind(bessel_i0e_p.bind(safe), mul_p.bind(out, inner))
    return select_n_p.bind(far, const_like(x, 0.5), slope)


bessel_i0e_p = unary(
    "bessel_i0e",
    _in_place(bessel_i0e_series),
    FLOAT,
    d=lambda out, x: sub_p.bind(bessel_i1e_p.bind(x), mul_p.bind(sign_p.bind(x), out)),
    doc="e**-|x| I0(x); d = (i1e(x) - sign(x) i0e(x)) dx",
)
bessel_i1e_p: Primitive = unary(
    "bessel_i1e",
    "chlo.bessel_i1e",
    FLOAT,
    d=_i1e_d,
    doc="e**-|x| I1(x); d = (i0e(x) - i1e(x) (sign(x) + 1/x)) dx",
)


# -- what users call --------------------------------------------------------------------------


def erf(x: Any) -> Any:
    """The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    return public_unary(erf_p, x)


def erfc(x: Any) -> Any:
    """1 - erf(x), exact also for large x."""
    return public_unary(erfc_p, x)


def erf_inv(x: Any) -> Any:
    """The inverse of erf on (-1, 1); infinite at its ends, NaN outside."""
    return public_unary(erf_inv_p, x)


def igamma(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function P(a, x), for a > 0 and x >= 0."""
    return igamma_p.bind(*operands("igamma", a, x))


def igammac(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return igammac_p.bind(*operands("igammac", a, x))


def igamma_grad_a(a: Any, x: Any) -> Any:
    """The derivative of igamma(a, x) by a."""
    return igamma_grad_a_p.bind(*operands("igamma_grad_a", a, x))


def random_gamma_grad(a: Any, x: Any) -> Any:
    """The derivative by a of a sample x from the gamma distribution of shape a.

    Source: Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, NeurIPS 2018.
    """
    return random_gamma_grad_p.bind(*operands("random_gamma_grad", a, x))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function I_x(a, b), for a, b > 0 and 0 <= x <= 1."""
    return regularized_incomplete_beta_p.bind(*operands("betainc", a, b, x))


def bessel_i0e(x: Any) -> Any:
    """The modified Bessel function of order 0, scaled: e**-|x| I0(x)."""
    return public_unary(bessel_i0e_p, x)


def bessel_i1e(x: Any) -> Any:
    """The modified Bessel function of order 1, scaled: e**-|x| I1(x)."""
    return public_unary(bessel_i1e_p, x)
