"""Cholesky factors and triangular systems.

Builds on lapack.py. Sources: Murray, Differentiation of the Cholesky decomposition, 2016; Giles,
Collected matrix derivative results, 2008. Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front, move_dim
from pullback.core.jvp import Zero, add_tangents, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.compare_select import eq_p, select_n_p
from pullback.lax.convert import convert_element_type
from pullback.lax.elementwise import add_p, mul_p, neg_p
from pullback.lax.lapack import INT32, batch_leading, check_matrix, lapack
from pullback.lax.matrix import (
    conj,
    diagonal_mask,
    hermitian,
    hermitian_from,
    is_complex,
    lower_mask,
    mm,
    mt,
    nan_unless,
    scalar,
    tril,
    triu,
)
from pullback.lax.operands import same_dtype, shape_of
from pullback.lax.shape import reshaped

# --------------------------------------------------------------------------- cholesky


def _cholesky_abstract(x: ShapedArray) -> ShapedArray:
    check_matrix("cholesky", x, square=True)
    return make_aval(x.shape, x.dtype)


def _cholesky_lower(ctx: Any, x: Any) -> Any:
    (aval,) = ctx.avals_in
    if not aval.size:
        return x
    if ctx.platform != "cpu":
        out = ctx.hlo.cholesky(x, lower=ctx.ir.BoolAttr.get(True))
        return ctx.fun(tril, [out])[0]

    def compute(a: Any) -> Any:
        out, info = lapack("potrf", [a], [(aval.shape[-2:], aval.dtype), ((), INT32)], uplo="L")
        return tril(nan_unless(eq_p.bind(info, np.int32(0)), out))

    return ctx.fun(compute, [x])[0]


def _cholesky_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """dL = L phi(L^-1 dA L^-H), where phi takes the lower triangle with half the diagonal."""
    factor = cholesky_p.bind(*primals)
    (t,) = tangents
    if is_zero(t):
        return factor, zero_of(factor)
    t = hermitian_from(t, lower=True)
    inner = _solve(factor, _solve(factor, t, left_side=False, transpose_a=True, conjugate_a=True))
    n = shape_of(factor)[-1]
    half = select_n_p.bind(diagonal_mask(n, n), scalar(factor, 1), scalar(factor, 0.5))
    weights = select_n_p.bind(lower_mask(n, n), scalar(factor, 0), half)
    return factor, mm(factor, mul_p.bind(inner, weights))


cholesky_p: Primitive = Primitive(
    name="cholesky",
    abstract=_cholesky_abstract,
    lower=_cholesky_lower,
    jvp=_cholesky_jvp,
    batch=lambda axis, args, dims: batch_leading(cholesky_p, axis, args, dims, {}),
    doc="The lower triangular L with A = L L^H.",
)


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular factor L of positive definite matrices A = L L^H.

    Args:
        x: matrices [..., n, n].
        symmetrize_input: factor (x + x^H) / 2; False reads the lower triangle only.

    Returns:
        Matrices [..., n, n]; the triangle is NaN where a matrix is not positive definite.
    """
    check_matrix("cholesky", typeof(x), square=True)
    return cholesky_p.bind(hermitian(x) if symmetrize_input else x)


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The upper triangular factor of R^T R + w w^T.

    Args:
        r_matrix: upper triangular [n, n].
        w_vector: [n].
    """
    check_matrix("cholesky_update", typeof(r_matrix), square=True)
    w = reshaped(w_vector, (*shape_of(w_vector), 1))
    total = add_p.bind(mm(mt(r_matrix), r_matrix), mm(w, mt(w)))
    return mt(cholesky_p.bind(total))


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """alpha A A^T + beta C for matrices A [..., m, n] and symmetric C [..., m, m]."""
    product = mul_p.bind(mm(a_matrix, mt(a_matrix)), scalar(a_matrix, alpha))
    out = add_p.bind(product, mul_p.bind(c_matrix, scalar(c_matrix, beta)))
    return add_p.bind(tril(out), mt(tril(out, -1))) if symmetrize_output else out


# --------------------------------------------------------------------------- triangular_solve


def _solve_abstract(a: ShapedArray, b: ShapedArray, *, left_side: bool, **p: bool) -> ShapedArray:
    check_matrix("triangular_solve", a, square=True)
    check_matrix("triangular_solve", b)
    same_dtype("triangular_solve", a, b)
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2 if left_side else -1]:
        raise errors.shape_error(
            f"triangular_solve: leading axes must be equal, and a as large as the "
            f"{'rows' if left_side else 'columns'} of b; got a {a.str_short()} and "
            f"b {b.str_short()}."
        )
    return make_aval(b.shape, b.dtype)


def _solve_lower(
    ctx: Any,
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    a_aval, b_aval = ctx.avals_in
    if not b_aval.size:
        return b
    conjugated = conjugate_a and is_complex_dtype(a_aval.dtype)
    if conjugated and not transpose_a:
        (a,) = ctx.fun(conj, [a], [a_aval])
        conjugated = False
    if ctx.platform == "cpu":
        trans = "C" if conjugated else "T" if transpose_a else "N"
        options = {
            "side": "L" if left_side else "R",
            "uplo": "L" if lower else "U",
            "trans_x": trans,
            "diag": "U" if unit_diagonal else "N",
        }
        return ctx.fun(
            lambda x, y: lapack("trsm", [x, y], [(b_aval.shape[-2:], b_aval.dtype)], **options),
            [a, b],
        )[0]
    kind = "ADJOINT" if conjugated else "TRANSPOSE" if transpose_a else "NO_TRANSPOSE"
    flag = ctx.ir.BoolAttr.get
    return ctx.hlo.triangular_solve(
        a,
        b,
        flag(left_side),
        flag(lower),
        flag(unit_diagonal),
        ctx.hlo.TransposeAttr.get(kind),
    )


def is_complex_dtype(dtype: Any) -> bool:
    """Whether a dtype is complex."""
    return np.dtype(dtype).kind == "c"


def _solve_jvp(primals: Any, tangents: Any, **p: bool) -> tuple[Any, Any]:
    """op(A) dX = dB - op(dA) X, with the triangle of dA that is read."""
    (a, b), (ta, tb) = primals, tangents
    x = triangular_solve_p.bind(a, b, **p)
    if is_zero(ta) and is_zero(tb):
        return x, zero_of(x)
    total = tb
    if not is_zero(ta):
        k = int(p["unit_diagonal"])
        ta = tril(ta, -k) if p["lower"] else triu(ta, k)
        ta = mt(ta) if p["transpose_a"] else ta
        ta = conj(ta) if p["conjugate_a"] else ta
        moved = mm(ta, x) if p["left_side"] else mm(x, ta)
        total = add_tangents(total, neg_p.bind(moved))
    return x, triangular_solve_p.bind(a, total, **p)


def _solve_transpose(ct: Any, a: Any, b: Any, **p: bool) -> list[Any]:
    if is_undefined(a):
        raise TypeError("triangular_solve is not linear in its matrix.")
    if is_zero(ct):
        return [None, Zero(cotangent_aval(b))]
    return [None, triangular_solve_p.bind(a, ct, **{**p, "transpose_a": not p["transpose_a"]})]


def _solve_batch(axis: AxisData, args: Any, dims: Any, **p: bool) -> tuple[Any, int]:
    (a, b), (da, db) = args, dims
    if da is not None:
        a, b = move_dim(a, da, 0), bdim_at_front(b, db, axis.size)
        return triangular_solve_p.bind(a, b, **p), 0
    # One matrix for all: the mapped axis becomes part of the columns (rows) of b.
    ndim = typeof(b).ndim
    at = ndim - 1 if p["left_side"] else ndim - 3
    b = move_dim(b, db, ndim - 2 if p["left_side"] else at)
    shape = shape_of(b)
    if p["left_side"]:
        flat = (*shape[:-2], shape[-2] * shape[-1])
        out = triangular_solve_p.bind(a, reshaped(b, flat), **p)
        return reshaped(out, shape), ndim - 2
    flat = (*shape[: ndim - 3], shape[-3] * shape[-2], shape[-1])
    return reshaped(triangular_solve_p.bind(a, reshaped(b, flat), **p), shape), at


triangular_solve_p = Primitive(
    name="triangular_solve",
    abstract=_solve_abstract,
    lower=_solve_lower,
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
    doc="X with op(A) X = B, or X op(A) = B, for triangular A.",
)


def _solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = True,
    lower: bool = True,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    return triangular_solve_p.bind(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )


solve_triangular = _solve


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """The X with op(a) X = b, or X op(a) = b, for triangular a.

    Args:
        a: triangular matrices [..., n, n]; the other triangle is not read.
        b: right-hand sides [..., n, k], or [..., k, n] on the right side; or vectors [..., n].
        left_side: which of the two equations.
        lower: which triangle.
        transpose_a, conjugate_a: what `op` does to a.
        unit_diagonal: take the diagonal as ones.

    Returns:
        An array of the shape of b.

    Raises:
        TypeError: shapes or dtypes do not fit.
    """
    vector = typeof(b).ndim == typeof(a).ndim - 1
    if vector:
        shape = shape_of(b)
        b = reshaped(b, (*shape, 1) if left_side else (*shape[:-1], 1, shape[-1]))
    if typeof(a).dtype != typeof(b).dtype:
        a, b = _one_dtype(a, b)
    out = _solve(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and is_complex(a),
        unit_diagonal=bool(unit_diagonal),
    )
    return reshaped(out, shape) if vector else out


def _one_dtype(a: Any, b: Any) -> tuple[Any, Any]:
    dtype = np.promote_types(typeof(a).dtype, typeof(b).dtype)
    return convert_element_type(a, dtype), convert_element_type(b, dtype)
