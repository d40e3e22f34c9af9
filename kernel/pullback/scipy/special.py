"""Special functions under SciPy's names.

Builds on lax, numpy and nn. Formulas without a source here are SciPy's definitions.
Tested in tests/scipy/test_special.py against SciPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.api.custom import custom_jvp
from pullback.core import dtypes
from pullback.nn.activations import log_softmax as _log_softmax
from pullback.nn.activations import logsumexp as _logsumexp
from pullback.nn.activations import softmax as _softmax
from pullback.numpy.fused import fused


def _floats(name: str, *args: Any) -> list[Any]:
    """The arguments as arrays of one inexact dtype.

    Raises:
        TypeError: an argument is not array-like.
    """
    arrays = [jnp.asarray(a) for a in args]
    dtype = dtypes.to_inexact_dtype(dtypes.result_type(*args))
    return [lax.convert_element_type(a, dtype) for a in jnp.broadcast_arrays(*arrays)]


@fused()
def expit(x: Any) -> Any:
    """The logistic function 1 / (1 + exp(-x))."""
    (x,) = _floats("expit", x)
    return lax.logistic(x)


@fused()
def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of `expit`."""
    (x,) = _floats("logit", x)
    return lax.log(x) - lax.log1p(-x)


@fused()
def erf(x: Any) -> Any:
    """The error function."""
    (x,) = _floats("erf", x)
    return lax.erf(x)


@fused()
def erfc(x: Any) -> Any:
    """1 - erf(x)."""
    (x,) = _floats("erfc", x)
    return lax.erfc(x)


@fused()
def erfinv(x: Any) -> Any:
    """The inverse of the error function."""
    (x,) = _floats("erfinv", x)
    return lax.erf_inv(x)


@fused()
def erfcinv(x: Any) -> Any:
    """The inverse of `erfc`."""
    (x,) = _floats("erfcinv", x)
    return lax.erf_inv(1 - x)


@fused()
def gammaln(x: Any) -> Any:
    """log(|gamma(x)|)."""
    (x,) = _floats("gammaln", x)
    return lax.lgamma(x)


@fused()
def loggamma(x: Any) -> Any:
    """log(gamma(x)) for real x; NaN for negative x, as the principal branch is complex there."""
    (x,) = _floats("loggamma", x)
    return jnp.where(x < 0, jnp.nan, lax.lgamma(x))


@fused()
def gammasgn(x: Any) -> Any:
    """The sign of gamma(x)."""
    (x,) = _floats("gammasgn", x)
    floor = lax.floor(x)
    negative = jnp.where(floor % 2 == 0, 1.0, -1.0)
    at_pole = jnp.where(x == floor, jnp.nan, negative)
    zero = lax.bitwise_or(x > 0, x == 0)
    sign0 = jnp.copysign(1.0, x)
    return jnp.where(x == 0, sign0, jnp.where(zero, 1.0, at_pole)).astype(x.dtype)


@fused()
def gamma(x: Any) -> Any:
    """The gamma function."""
    (x,) = _floats("gamma", x)
    return gammasgn(x) * lax.exp(lax.lgamma(x))


@fused()
def factorial(n: Any, exact: bool = False) -> Any:
    """n!, as a float; 0 for negative n.

    Raises:
        NotImplementedError: exact integers are asked for.
    """
    if exact:
        raise NotImplementedError(
            "factorial: exact=True needs integers of any size; use math.factorial"
        )
    (n,) = _floats("factorial", n)
    return jnp.where(n < 0, 0, lax.exp(lax.lgamma(n + 1)))


@fused()
def digamma(x: Any) -> Any:
    """The derivative of `gammaln`."""
    (x,) = _floats("digamma", x)
    return lax.digamma(x)


psi = digamma


@fused()
def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of `digamma`."""
    n, x = _floats("polygamma", n, x)
    return lax.polygamma(n, x)


@fused()
def zeta(x: Any, q: Any = None) -> Any:
    """The Hurwitz zeta function; Riemann's for q = 1."""
    x, q = _floats("zeta", x, 1.0 if q is None else q)
    return lax.zeta(x, q)


@fused()
def betaln(a: Any, b: Any) -> Any:
    """log(|beta(a, b)|)."""
    a, b = _floats("betaln", a, b)
    return lax.lgamma(a) + lax.lgamma(b) - lax.lgamma(a + b)


@fused()
def beta(a: Any, b: Any) -> Any:
    """gamma(a) gamma(b) / gamma(a + b)."""
    a, b = _floats("beta", a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    return sign * lax.exp(betaln(a, b))


@fused()
def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function."""
    a, b, x = _floats("betainc", a, b, x)
    return lax.betainc(a, b, x)


@fused()
def gammainc(a: Any, x: Any) -> Any:
    """The regularized lower incomplete gamma function."""
    a, x = _floats("gammainc", a, x)
    return lax.igamma(a, x)


@fused()
def gammaincc(a: Any, x: Any) -> Any:
    """The regularized upper incomplete gamma function."""
    a, x = _floats("gammaincc", a, x)
    return lax.igammac(a, x)


@fused("d")
def multigammaln(a: Any, d: int) -> Any:
    """The log of the multivariate gamma function of dimension d."""
    (a,) = _floats("multigammaln", a)
    constant = 0.25 * d * (d - 1) * math.log(math.pi)
    halves = np.arange(d).astype(a.dtype) / 2
    return jnp.sum(lax.lgamma(jnp.expand_dims(a, -1) - halves), axis=-1) + constant


@fused()
def i0e(x: Any) -> Any:
    """exp(-|x|) times the modified Bessel function of order 0."""
    (x,) = _floats("i0e", x)
    return lax.bessel_i0e(x)


@custom_jvp
def _i0(x: Any) -> Any:
    return lax.exp(lax.abs(x)) * lax.bessel_i0e(x)


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _i0(x), (t * _i1(x)).astype(x.dtype)


@custom_jvp
def _i1(x: Any) -> Any:
    return lax.exp(lax.abs(x)) * lax.bessel_i1e(x)


@_i1.defjvp
def _i1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    zero = x == 0
    out = _i1(x)
    slope = jnp.where(zero, 0.5, _i0(x) - out / jnp.where(zero, 1.0, x))
    return out, (t * slope).astype(x.dtype)


@fused()
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    return _i0(*_floats("i0", x))


@fused()
def i1e(x: Any) -> Any:
    """exp(-|x|) times the modified Bessel function of order 1."""
    (x,) = _floats("i1e", x)
    return lax.bessel_i1e(x)


@fused()
def i1(x: Any) -> Any:
    """The modified Bessel function of order 1."""
    return _i1(*_floats("i1", x))


@custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    zero = x == 0
    return jnp.where(zero, 0.0, x * lax.log(jnp.where(zero, 1.0, y))).astype(x.dtype)


@_xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    return _xlogy(x, y), (tx * lax.log(y) + ty * (x / y)).astype(x.dtype)


@fused()
def xlogy(x: Any, y: Any) -> Any:
    """x log(y), which is 0 for x = 0."""
    return _xlogy(*_floats("xlogy", x, y))


@custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    zero = x == 0
    return jnp.where(zero, 0.0, x * lax.log1p(jnp.where(zero, 0.0, y))).astype(x.dtype)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    return _xlog1py(x, y), (tx * lax.log1p(y) + ty * (x / (1 + y))).astype(x.dtype)


@fused()
def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), which is 0 for x = 0."""
    return _xlog1py(*_floats("xlog1py", x, y))


@fused()
def entr(x: Any) -> Any:
    """-x log(x): 0 at 0, -inf for negative x."""
    (x,) = _floats("entr", x)
    safe = jnp.where(x > 0, x, 1.0)
    return jnp.where(x < 0, -jnp.inf, jnp.where(x == 0, 0.0, -safe * lax.log(safe))).astype(x.dtype)


@fused()
def rel_entr(p: Any, q: Any) -> Any:
    """p log(p / q): 0 for p = 0 and q >= 0, inf outside the domain."""
    p, q = _floats("rel_entr", p, q)
    both = lax.bitwise_and(p > 0, q > 0)
    at_zero = lax.bitwise_and(p == 0, q >= 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    log_ratio = lax.log(safe_p) - lax.log(safe_q)
    return jnp.where(both, safe_p * log_ratio, jnp.where(at_zero, 0.0, jnp.inf)).astype(p.dtype)


@fused()
def kl_div(p: Any, q: Any) -> Any:
    """p log(p / q) - p + q."""
    p, q = _floats("kl_div", p, q)
    return rel_entr(p, q) - p + q


@fused()
def boxcox(x: Any, lmbda: Any) -> Any:
    """(x**lmbda - 1) / lmbda, or log(x) for lmbda = 0."""
    x, lmbda = _floats("boxcox", x, lmbda)
    zero = lmbda == 0
    safe = jnp.where(zero, 1.0, lmbda)
    return jnp.where(zero, lax.log(x), jnp.expm1(safe * lax.log(x)) / safe)


@fused()
def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    (x,) = _floats("ndtr", x)
    scaled = x * np.array(math.sqrt(0.5), x.dtype)[()]
    z = lax.abs(scaled)
    tails = jnp.where(scaled > 0, 2.0 - lax.erfc(z), lax.erfc(z))
    return (0.5 * jnp.where(z < math.sqrt(0.5), 1.0 + lax.erf(scaled), tails)).astype(x.dtype)


@fused()
def ndtri(p: Any) -> Any:
    """The inverse of `ndtr`."""
    (p,) = _floats("ndtri", p)
    low = p < 0.5
    # Inverted from the nearer tail, so that small p keep their digits.
    tail = jnp.where(low, p, 1 - p)
    magnitude = math.sqrt(2) * lax.erf_inv(1 - 2 * tail)
    return jnp.where(low, -magnitude, magnitude).astype(p.dtype)


@custom_jvp
def _log_ndtr(x: Any) -> Any:
    middle = lax.log(ndtr(jnp.where(x > -5, x, 0.0)))
    upper = -ndtr(-jnp.where(x > 5, x, 5.0))
    low = jnp.where(x <= -5, x, -5.0)
    # Asymptotic series of Mills' ratio (Abramowitz and Stegun 26.2.12), 8 terms.
    square = 1 / (low * low)
    series, term = jnp.ones_like(low), jnp.ones_like(low)
    for k in range(1, 9):
        term = -term * (2 * k - 1) * square
        series = series + term
    lower = -0.5 * low * low - lax.log(-low) - 0.5 * math.log(2 * math.pi) + lax.log(series)
    return jnp.where(x > 5, upper, jnp.where(x > -5, middle, lower)).astype(x.dtype)


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = _log_ndtr(x)
    slope = lax.exp(-0.5 * x * x - 0.5 * math.log(2 * math.pi) - out)
    return out, (t * slope).astype(x.dtype)


def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """The log of the normal distribution function, accurate in the lower tail."""
    return _log_ndtr_fused(x)


@fused()
def _log_ndtr_fused(x: Any) -> Any:
    return _log_ndtr(*_floats("log_ndtr", x))


@fused()
def spence(x: Any) -> Any:
    """The dilogarithm in SciPy's convention: the integral of log(t) / (1 - t) from 1 to x."""
    (x,) = _floats("spence", x)
    # Reduced to y in [-1/2, 1/2], then the power series of the dilogarithm; Lewin 1981, ch. 1.
    pi2_6 = math.pi**2 / 6

    def series(y: Any) -> Any:
        total, power = jnp.zeros_like(y), jnp.ones_like(y)
        for k in range(1, 60):
            power = power * y
            total = total + power / (k * k)
        return total

    small = x < 0.5
    large = x > 1.5
    safe = jnp.where(x > 0, x, 1.0)
    y = jnp.where(small, safe, jnp.where(large, 1 - 1 / safe, 1 - safe))
    log_x = lax.log(safe)
    at_small = pi2_6 - log_x * lax.log1p(-jnp.where(small, safe, 0.0)) - series(y)
    at_large = -series(y) - 0.5 * log_x * log_x
    out = jnp.where(small, at_small, jnp.where(large, at_large, series(y)))
    return jnp.where(x == 0, pi2_6, jnp.where(x < 0, jnp.nan, out)).astype(x.dtype)


@fused()
def poch(z: Any, m: Any) -> Any:
    """The rising factorial gamma(z + m) / gamma(z)."""
    z, m = _floats("poch", z, m)
    log_value = lax.lgamma(z + m) - lax.lgamma(z)
    return jnp.where(m == 0, 1.0, gammasgn(z + m) * gammasgn(z) * lax.exp(log_value))


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))), computed without overflow."""
    return _logsumexp(a, axis, b, keepdims, return_sign, where)


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along axes; over all elements by default, as in SciPy."""
    return _softmax(x, tuple(range(np.ndim(x))) if axis is None else axis)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)) along axes; over all elements by default, as in SciPy."""
    return _log_softmax(x, tuple(range(np.ndim(x))) if axis is None else axis)
