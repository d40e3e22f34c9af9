"""Singular values and vectors.

Builds on lapack.py. Source: Townsend, Differentiating the singular value decomposition, 2016.
Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.lax.compare_select import eq_p, select_n_p
from pullback.lax.elementwise import add_p, div_p, mul_p, sub_p
from pullback.lax.lapack import INT32, check_matrix, factorization, lapack
from pullback.lax.matrix import (
    as_complex,
    by_columns,
    by_rows,
    column,
    diagonal,
    eye,
    imag_times_i,
    is_complex,
    mh,
    mm,
    nan_unless,
    off_diagonal,
    only_diagonal,
    real,
    row,
    scalar,
)
from pullback.lax.operands import shape_of
from pullback.lax.shape import zeros
from pullback.lax.slice import slice_in_dim


class SvdAlgorithm(Enum):
    """How singular values are found; on the CPU by QR iteration or divide and conquer (default)."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _svd_abstract(
    x: ShapedArray, *, full_matrices: bool, compute_uv: bool, algorithm: SvdAlgorithm | None
) -> list[ShapedArray]:
    check_matrix("svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    s = make_aval((*batch, k), dtypes.real_dtype(x.dtype))
    if not compute_uv:
        return [s]
    rows, columns = (m, n) if full_matrices else (k, k)
    return [
        s,
        make_aval((*batch, m, rows), x.dtype),
        make_aval((*batch, columns, n), x.dtype),
    ]


def _svd(
    x: Any, *, full_matrices: bool, compute_uv: bool, algorithm: SvdAlgorithm | None
) -> list[Any]:
    aval = typeof(x)
    *_, m, n = aval.shape
    k = min(m, n)
    avals = _svd_abstract(
        aval, full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm
    )
    if not aval.size:
        return [zeros(avals[0]), *[eye(a.shape, a.dtype) for a in avals[1:]]]
    rows, columns = (m, n) if full_matrices else (k, k)
    mode = "N" if not compute_uv else "A" if full_matrices else "S"
    routine = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    dtype = aval.dtype
    outs = [
        ((m, n), dtype),
        ((k,), avals[0].dtype),
        ((m, rows), dtype),
        ((columns, n), dtype),
        ((), INT32),
    ]
    _, s, u, vh, info = lapack(routine, [x], outs, mode=mode)
    ok = eq_p.bind(info, np.int32(0))
    found = [s, u, vh] if compute_uv else [s]
    return [nan_unless(ok, y) for y in found]


def _svd_jvp(
    outs: Any,
    primals: Any,
    tangents: Any,
    *,
    full_matrices: bool,
    compute_uv: bool,
    algorithm: SvdAlgorithm | None,
) -> list[Any]:
    """With P = U^H dA V: ds = diag(P); dU and dV by the gaps of the squared singular values."""
    (x,), (t,) = primals, tangents
    m, n = shape_of(x)[-2:]
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError(
            f"svd: no derivative of full matrices for {m} rows and {n} columns: the added vectors "
            "are not determined.\nInstead: use full_matrices=False."
        )
    if compute_uv:
        s, u, vh = outs
    else:
        s, u, vh = svd_p.bind(x, full_matrices=False, compute_uv=True, algorithm=algorithm)
    inner = mm(mm(mh(u), t), mh(vh))
    ds = real(diagonal(inner))
    if not compute_uv:
        return [ds]
    return [ds, *_vectors(s, u, vh, t, inner, m, n)]


def _vectors(s: Any, u: Any, vh: Any, t: Any, inner: Any, m: int, n: int) -> list[Any]:
    k = shape_of(s)[-1]
    gaps = mul_p.bind(add_p.bind(row(s), column(s)), sub_p.bind(row(s), column(s)))
    gaps = off_diagonal(div_p.bind(scalar(s, 1), add_p.bind(gaps, eye((k, k), typeof(s).dtype))))
    zero = eq_p.bind(s, scalar(s, 0))
    inverse = select_n_p.bind(zero, div_p.bind(scalar(s, 1), s), scalar(s, 0))
    complex_input = is_complex(u)
    values, gaps, inverse = (as_complex(y) if complex_input else y for y in (s, gaps, inverse))
    right, left = by_columns(inner, values), by_rows(inner, values)
    turn_u = mul_p.bind(gaps, add_p.bind(right, mh(right)))
    turn_v = mul_p.bind(gaps, add_p.bind(left, mh(left)))
    if complex_input:
        phase = by_columns(imag_times_i(only_diagonal(inner)), inverse)
        turn_u = add_p.bind(turn_u, phase)
    v = mh(vh)
    du, dv = mm(u, turn_u), mm(v, turn_v)
    if m > n:
        outside = mm(t, v)
        outside = sub_p.bind(outside, mm(u, mm(mh(u), outside)))
        du = add_p.bind(du, by_columns(outside, inverse))
    if n > m:
        outside = mm(mh(t), u)
        outside = sub_p.bind(outside, mm(v, mm(vh, outside)))
        dv = add_p.bind(dv, by_columns(outside, inverse))
    return [du, mh(dv)]


svd_p = factorization("svd", _svd_abstract, _svd, "A = U diag(s) V^H.", _svd_jvp)


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """The singular value decomposition x = U diag(s) V^H.

    Args:
        x: matrices [..., m, n].
        full_matrices: U [..., m, m] and V^H [..., n, n] rather than [..., m, k] and [..., k, n].
        compute_uv: give the vectors too.
        subset_by_index: the range (start, stop) of singular values wanted.
        algorithm: QR, divide and conquer, or None for the default.

    Returns:
        (u, s, vh), or s alone: s [..., k] in decreasing order.

    Raises:
        NotImplementedError: an algorithm that the CPU does not have.
        ValueError: the subset lies outside.
    """
    known = (None, SvdAlgorithm.DEFAULT, SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER)
    if algorithm not in known:
        raise NotImplementedError(f"svd: {algorithm} is not available on the CPU; use None or QR.")
    check_matrix("svd", typeof(x))
    k = min(shape_of(x)[-2:])
    if subset_by_index is not None:
        start, stop = subset_by_index
        if not 0 <= start <= stop <= k:
            raise errors.shape_error(
                f"svd: subset_by_index {subset_by_index} must lie in (0, {k})."
            )
        if full_matrices and (start, stop) != (0, k):
            raise errors.shape_error("svd: full_matrices and subset_by_index cannot both be given.")
    outs = svd_p.bind(
        x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), algorithm=algorithm
    )
    if subset_by_index is not None and (start, stop) != (0, k):
        axes = (-1, -1, -2)
        outs = [slice_in_dim(y, start, stop, 1, a) for y, a in zip(outs, axes, strict=False)]
    if not compute_uv:
        return outs[0]
    s, u, vh = outs
    return u, s, vh
