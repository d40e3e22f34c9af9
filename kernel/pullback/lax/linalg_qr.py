"""Orthogonal factors: QR, with and without column pivoting, and Householder reflectors.

Builds on linalg_lu.py. Source: Walter, Lehmann and Lamour, On evaluating higher-order derivatives
of the QR decomposition, 2012. Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.lax.elementwise import add_p, sub_p
from pullback.lax.fill import iota_p
from pullback.lax.lapack import INT32, check_matrix, factorization, lapack
from pullback.lax.linalg_lu import permute_rows
from pullback.lax.linalg_triangular import solve_triangular
from pullback.lax.matrix import (
    cut,
    eye,
    imag_times_i,
    is_complex,
    mh,
    mm,
    mt,
    only_diagonal,
    scalar,
    tril,
    triu,
)
from pullback.lax.operands import shape_of
from pullback.lax.shape import zeros
from pullback.lax.slice import concatenate, pad_p, slice_in_dim

_REFLECTORS = "reflectors are an intermediate form; differentiate qr instead"


def _geqrf_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("geqrf", x)
    *batch, m, n = x.shape
    return [make_aval(x.shape, x.dtype), make_aval((*batch, min(m, n)), x.dtype)]


def _geqrf(x: Any) -> list[Any]:
    *_, m, n = shape_of(x)
    dtype = typeof(x).dtype
    if not typeof(x).size:
        return [x, zeros(_geqrf_abstract(typeof(x))[1])]
    return lapack("geqrf", [x], [((m, n), dtype), ((min(m, n),), dtype)])


geqrf_p = factorization(
    "geqrf",
    _geqrf_abstract,
    _geqrf,
    "R in the upper triangle, Householder reflectors below, and their factors.",
    nondifferentiable=_REFLECTORS,
)


def geqrf(x: Any) -> tuple[Any, Any]:
    """R and Householder reflectors packed [..., m, n], and factors [..., min(m, n)]."""
    return tuple(geqrf_p.bind(x))


def _geqp3_abstract(x: ShapedArray, pivots: ShapedArray) -> list[ShapedArray]:
    packed, taus = _geqrf_abstract(x)
    return [packed, make_aval(pivots.shape, INT32), taus]


def _geqp3(x: Any, pivots: Any) -> list[Any]:
    *_, m, n = shape_of(x)
    dtype = typeof(x).dtype
    if not typeof(x).size:
        order = iota_p.bind(dtype=INT32, shape=shape_of(pivots), dimension=typeof(pivots).ndim - 1)
        return [x, add_p.bind(order, np.int32(1)), zeros(_geqrf_abstract(typeof(x))[1])]
    outs = [((m, n), dtype), ((n,), INT32), ((min(m, n),), dtype)]
    return lapack("geqp3", [x, pivots], outs)


geqp3_p = factorization(
    "geqp3",
    _geqp3_abstract,
    _geqp3,
    "geqrf with column pivoting.",
    nondifferentiable=_REFLECTORS,
)


def geqp3(x: Any, pivots: Any) -> tuple[Any, Any, Any]:
    """`geqrf` with column pivoting: packed, pivots from 1, factors.

    Args:
        x: matrices [..., m, n].
        pivots: int32 [..., n]; columns with a nonzero entry are moved to the front.
    """
    return tuple(geqp3_p.bind(x, pivots))


# --------------------------------------------------------------------------- reflectors


def _householder_abstract(a: ShapedArray, taus: ShapedArray) -> list[ShapedArray]:
    check_matrix("householder_product", a)
    *batch, m, n = a.shape
    if m < n or taus.shape[:-1] != tuple(batch) or taus.shape[-1] > n or taus.dtype != a.dtype:
        raise errors.shape_error(
            "householder_product: a must have at least as many rows as columns, and taus at most "
            f"one factor per column, of its dtype; got {a.str_short()} and {taus.str_short()}."
        )
    return [make_aval(a.shape, a.dtype)]


def _householder(a: Any, taus: Any) -> list[Any]:
    aval = typeof(a)
    if not aval.size or not typeof(taus).size:
        return [eye(aval.shape, aval.dtype)]
    return lapack("orgqr", [a, taus], [(aval.shape[-2:], aval.dtype)])


householder_product_p = factorization(
    "householder_product",
    _householder_abstract,
    _householder,
    "The product of Householder reflectors.",
    nondifferentiable=_REFLECTORS,
)


def householder_product(a: Any, taus: Any) -> Any:
    """The unitary matrices [..., m, n] that reflectors below the diagonal of `a` multiply to.

    Args:
        a: reflectors [..., m, n], m >= n, as `geqrf` gives them.
        taus: their factors [..., k], k <= n.
    """
    (out,) = householder_product_p.bind(a, taus)
    return out


def _ormqr_abstract(
    a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
) -> list[ShapedArray]:
    check_matrix("ormqr", a)
    check_matrix("ormqr", c)
    if c.shape[-2 if left else -1] != a.shape[-2] or a.dtype != c.dtype:
        raise errors.shape_error(
            f"ormqr: the {'rows' if left else 'columns'} of c must be as many as the rows of a, "
            f"in one dtype; got a {a.str_short()} and c {c.str_short()}."
        )
    return [make_aval(c.shape, c.dtype)]


def _ormqr(a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> list[Any]:
    aval = typeof(c)
    if not aval.size or not typeof(taus).size:
        return [c]
    outs = [(aval.shape[-2:], aval.dtype)]
    return lapack("ormqr", [a, taus, c], outs, left=left, transpose=transpose)


ormqr_p = factorization(
    "ormqr",
    _ormqr_abstract,
    _ormqr,
    "Q C or C Q, with Q given by reflectors.",
    nondifferentiable=_REFLECTORS,
)


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Q c, Q^H c (`transpose`), or on the right c Q, c Q^H, without making Q.

    Args:
        a, taus: reflectors and factors, as `geqrf` gives them.
        c: matrices.
    """
    (out,) = ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))
    return out


# --------------------------------------------------------------------------- qr


def _qr_abstract(x: ShapedArray, *, pivoting: bool, full_matrices: bool) -> list[ShapedArray]:
    check_matrix("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    outs = [make_aval((*batch, m, k), x.dtype), make_aval((*batch, k, n), x.dtype)]
    return [*outs, make_aval((*batch, n), INT32)] if pivoting else outs


def _qr(x: Any, *, pivoting: bool, full_matrices: bool) -> list[Any]:
    *batch, m, n = shape_of(x)
    k = min(m, n)
    order: list[Any] = []
    if pivoting:
        packed, pivots, taus = _geqp3(x, zeros(make_aval((*batch, n), INT32)))
        order = [sub_p.bind(pivots, np.int32(1))]
    else:
        packed, taus = _geqrf(x)
    if full_matrices and m > n:
        config = [(0, 0, 0)] * (len(batch) + 1) + [(0, m - n, 0)]
        reflectors = pad_p.bind(packed, scalar(x, 0), padding_config=tuple(config))
        (q,) = _householder(reflectors, taus)
        return [q, triu(packed), *order]
    (q,) = _householder(cut(packed, m, k), taus)
    return [q, triu(cut(packed, k, n)), *order]


def _qr_jvp(
    outs: Any, primals: Any, tangents: Any, *, pivoting: bool, full_matrices: bool
) -> list[Any]:
    """With X = dA R^-1, K = Q^H X and W skew-Hermitian of K's lower triangle (and imaginary
    diagonal): dQ = X + Q (W - K), dR = (K - W) R. Further columns of R follow from Q^H A."""
    q, r, *order = outs
    m, n = shape_of(primals[0])[-2:]
    if full_matrices and m > n:
        raise NotImplementedError(
            f"qr: no derivative for full_matrices=True and more rows than columns ({m} > {n}): "
            "the added columns of Q are not determined.\nInstead: use full_matrices=False "
            "(jnp.linalg.qr's mode='reduced')."
        )
    (t,) = tangents
    x = primals[0]
    if pivoting:
        t, x = (mt(permute_rows(mt(a), order[0])) for a in (t, x))
    k = min(m, n)
    axis = typeof(t).ndim - 1
    dx = solve_triangular(
        cut(r, k, k), slice_in_dim(t, 0, k, 1, axis), left_side=False, lower=False
    )
    inner = mm(mh(q), dx)
    low = tril(inner, -1)
    skew = sub_p.bind(low, mh(low))
    if is_complex(inner):
        skew = add_p.bind(skew, imag_times_i(only_diagonal(inner)))
    dq = add_p.bind(dx, mm(q, sub_p.bind(skew, inner)))
    dr = mm(sub_p.bind(inner, skew), cut(r, k, k))
    if n > k:
        rest = mm(mh(dq), slice_in_dim(x, k, n, 1, axis))
        rest = add_p.bind(rest, mm(mh(q), slice_in_dim(t, k, n, 1, axis)))
        dr = concatenate([dr, rest], axis)
    return [dq, dr, *[None for _ in order]]


qr_p = factorization("qr", _qr_abstract, _qr, "A = Q R, Q unitary, R upper triangular.", _qr_jvp)


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: Any = None
) -> tuple[Any, ...]:
    """The factors of x = Q R, with Q unitary and R upper triangular.

    Args:
        x: matrices [..., m, n].
        pivoting: permute columns so that the diagonal of R decreases: x[:, p] = Q R.
        full_matrices: Q [..., m, m] and R [..., m, n] rather than Q [..., m, k], R [..., k, n].
        use_magma: of no use on the CPU.

    Returns:
        (q, r), with pivoting (q, r, p), p int32 [..., n].
    """
    return tuple(qr_p.bind(x, pivoting=bool(pivoting), full_matrices=bool(full_matrices)))
