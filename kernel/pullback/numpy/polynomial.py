"""Polynomials by their coefficients, highest power first.

Builds on lax and linalg.py. Tested in tests/numpy/test_polynomial.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.core.tracer import Tracer
from pullback.numpy import linalg, promote
from pullback.numpy.creation import asarray, zeros
from pullback.numpy.fused import fused
from pullback.numpy.joining import concatenate
from pullback.numpy.manipulation import atleast_1d
from pullback.numpy.positions import diag
from pullback.numpy.products import dot, outer
from pullback.numpy.signal import convolve

lift = promote.lift


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The polynomial's value: p[0] * x**(n-1) + ... + p[n-1].

    Args:
        p: coefficients, [n] (more axes are batches that broadcast with x).
        x: where to evaluate.
        unroll: how many steps of Horner's scheme to write out.

    Returns:
        An array of x's shape.
    """
    p, x = promote.lift_all("polyval", *promote.promote("polyval", p, x))
    return _polyval(p, x, unroll)


@fused("unroll")
def _polyval(p: Any, x: Any, unroll: int) -> Any:
    shape = promote.check_shapes("polyval", p.shape[1:], x.shape)
    x = promote.broadcast_to(x, shape)
    y = lax.full(shape, 0, x.dtype)
    n = p.shape[0]
    if n <= unroll:
        for i in range(n):
            y = y * x + p[i]
        return y
    return lax.scan(lambda total, c: (total * x + c, None), y, p, unroll=unroll)[0]


def _pair(name: str, a1: Any, a2: Any) -> tuple[Any, Any]:
    a1, a2 = promote.lift_all(name, *promote.promote(name, a1, a2))
    return a1, a2


def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    return _polyadd(*_pair("polyadd", a1, a2))


@fused()
def _polyadd(a1: Any, a2: Any) -> Any:
    n = max(a1.shape[0], a2.shape[0])
    zero = np.zeros((), a1.dtype)
    a1, a2 = (lax.pad(a, zero, [(n - a.shape[0], 0, 0)]) for a in (a1, a2))
    return a1 + a2


def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    a1, a2 = _pair("polysub", a1, a2)
    return _polyadd(a1, -a2)


def _trim(p: Any) -> Any:
    """Without leading zeros, of a known polynomial."""
    values = np.asarray(p)
    nonzero = np.flatnonzero(values)
    return p[int(nonzero[0]) :] if nonzero.size else p[-1:]


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """The product of two polynomials.

    Args:
        a1, a2: coefficients.
        trim_leading_zeros: drop them first (the arrays must be known).

    Returns:
        The product's coefficients.
    """
    a1, a2 = _pair("polymul", a1, a2)
    if trim_leading_zeros and (len(a1) > 1 or len(a2) > 1):
        a1, a2 = _trim(a1), _trim(a2)
    if len(a1) == 0:
        a1 = zeros(1, a2.dtype)
    if len(a2) == 0:
        a2 = zeros(1, a1.dtype)
    return convolve(a1, a2, mode="full")


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """Quotient and remainder of two polynomials.

    Args:
        u, v: coefficients of dividend and divisor.
        trim_leading_zeros: drop the remainder's (it must be known).

    Returns:
        Their coefficients.
    """
    u, v = promote.lift_all("polydiv", *promote.promote_inexact("polydiv", u, v))
    m, n = len(u) - 1, len(v) - 1
    q = zeros(max(m - n + 1, 1), u.dtype)
    for k in range(m - n + 1):
        d = u[k] / v[0]
        q = q.at[k].set(d)
        u = u.at[k : k + n + 1].add(-d * v)
    return q, _trim(u) if trim_leading_zeros else u


def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative of a polynomial."""
    p = lift("polyder", promote.promote_inexact("polyder", p)[0])
    m = promote.index_of(m, "m")
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    n = p.shape[0]
    powers = np.arange(n - 1, -1, -1)
    factor = np.prod([powers - i for i in range(m)], axis=0)[: max(n - m, 0)]
    return p[: max(n - m, 0)] * asarray(factor, p.dtype)


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th integral of a polynomial; k are the constants of integration."""
    m = promote.index_of(m, "m")
    p = lift("polyint", promote.promote_inexact("polyint", p)[0])
    if m < 0:
        raise ValueError("Order of integral must be positive")
    if m == 0:
        return p
    constants = atleast_1d(asarray(0 if k is None else k))
    if len(constants) == 1:
        constants = promote.broadcast_to(constants, (m,))
    if constants.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    full = concatenate([p, constants.astype(p.dtype)])
    powers = np.arange(len(full) - 1, -1, -1)
    divisor = np.ones(len(full))
    for i in range(m):
        divisor = divisor * np.maximum(powers - i, 1)
    return full / asarray(divisor, p.dtype)


def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with these roots (of a square matrix: its eigenvalues)."""
    roots_ = lift("poly", promote.promote_inexact("poly", seq_of_zeros)[0])
    if roots_.ndim == 2:
        if roots_.shape[0] != roots_.shape[1]:
            raise ValueError("input must be 1d or square 2d array.")
        roots_ = linalg.eigvals(roots_)
    if roots_.ndim != 1:
        raise ValueError("input must be 1d or square 2d array.")
    out = asarray(np.ones(1), roots_.dtype)
    for i in range(len(roots_)):
        out = convolve(out, concatenate([asarray(np.ones(1), roots_.dtype), -roots_[i : i + 1]]))
    return out


def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The roots of a polynomial, as eigenvalues of its companion matrix.

    Args:
        p: coefficients, [n].
        strip_zeros: drop leading and trailing zeros first (then they must be known).

    Returns:
        complex[n - 1].
    """
    p = lift("roots", promote.promote_inexact("roots", p)[0])
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    if p.size < 2:
        return zeros(0, dtypes.complex_dtype(p.dtype))
    trailing = 0
    if strip_zeros:
        values = np.asarray(p)
        nonzero = np.flatnonzero(values)
        if nonzero.size == 0:
            return zeros(0, dtypes.complex_dtype(p.dtype))
        trailing = len(values) - 1 - int(nonzero[-1])
        p = p[int(nonzero[0]) : int(nonzero[-1]) + 1]
    if p.size < 2:
        found = zeros(0, dtypes.complex_dtype(p.dtype))
    else:
        companion = diag(asarray(np.ones(p.size - 2), p.dtype), -1)
        companion = companion.at[0, :].set(-p[1:] / p[0])
        found = linalg.eigvals(companion)
    return concatenate([found, zeros(trailing, found.dtype)]) if trailing else found


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix of powers of x: columns x**(N-1), ..., x, 1 (or the other way round)."""
    x = lift("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    n = x.shape[0] if N is None else promote.index_of(N, "N")
    if n < 0:
        raise ValueError("N must be nonnegative")
    return _vander(x, n, bool(increasing))


@fused("n", "increasing")
def _vander(x: Any, n: int, increasing: bool) -> Any:
    if n == 0:
        return lax.full((x.shape[0], 0), 0, x.dtype)
    powers = [lax.full_like(x, 1)]
    for _ in range(n - 1):
        powers.append(powers[-1] * x)
    columns = powers if increasing else powers[::-1]
    return lax.concatenate([c[:, None] for c in columns], 1)


def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of a degree that fits data best, in the sense of least squares.

    Args:
        x: positions, [n].
        y: values, [n] or [n, k].
        deg: the degree.
        rcond: singular values below rcond times the largest count as 0.
        full: also residuals, rank, singular values and rcond.
        w: weights of the points (of their distances, not squares).
        cov: also the covariance matrix of the coefficients ("unscaled": not scaled by chi**2).

    Returns:
        The coefficients, or a tuple.
    """
    if isinstance(deg, Tracer):
        raise ValueError("The degree must be known: mark it static.")
    deg = int(deg)
    if deg < 0:
        raise ValueError("expected deg >= 0")
    x, y = promote.lift_all("polyfit", *promote.promote_inexact("polyfit", x, y))
    if x.ndim != 1 or x.size == 0:
        raise TypeError("expected non-empty 1D vector for x")
    if y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise TypeError("expected 1D or 2D array for y, as long as x")
    if rcond is None:
        rcond = len(x) * float(dtypes.finfo(x.dtype).eps)
    lhs, rhs = vander(x, deg + 1), y
    if w is not None:
        w = lift("polyfit", promote.promote("polyfit", w, x)[0])
        if w.shape != (x.shape[0],):
            raise TypeError("expected w and y to have the same length")
        lhs = lhs * w[:, None]
        rhs = rhs * (w if rhs.ndim == 1 else w[:, None])
    scale = (lhs * lhs).sum(0) ** 0.5
    lhs = lhs / scale
    c, residuals, rank, s = linalg.lstsq(lhs, rhs, rcond)
    c = (c.T / scale).T
    if full:
        return c, residuals, rank, s, asarray(rcond)
    if cov:
        base = linalg.inv(dot(lhs.T, lhs)) / outer(scale, scale)
        factor: Any = 1
        if cov != "unscaled":
            if len(x) <= deg + 1:
                raise ValueError(
                    "the number of data points must exceed order to scale the covariance matrix"
                )
            factor = residuals / (len(x) - deg - 1)
            factor = factor[0] if y.ndim == 1 else factor
        return c, base * factor if y.ndim == 1 else base[:, :, None] * factor
    return c
