"""Schur, Hessenberg, tridiagonal and polar forms, and tridiagonal systems.

Builds on linalg_qr.py. Source: Golub and Van Loan, Matrix Computations, 4th ed., chapters 7 and 8.
Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData
from pullback.core.jvp import Zero, add_tangents, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.lax.compare_select import eq_p
from pullback.lax.elementwise import neg_p
from pullback.lax.families import const_like
from pullback.lax.lapack import INT32, batch_leading, check_matrix, factorization, lapack
from pullback.lax.matrix import by_rows, nan_unless
from pullback.lax.shape import zeros
from pullback.lax.slice import pad_p

# --------------------------------------------------------------------------- schur


def _schur_abstract(x: ShapedArray, *, compute_schur_vectors: bool) -> list[ShapedArray]:
    check_matrix("schur", x, square=True)
    return [make_aval(x.shape, x.dtype)] * (1 + compute_schur_vectors)


def _schur(x: Any, *, compute_schur_vectors: bool) -> list[Any]:
    aval = typeof(x)
    if not aval.size:
        return [x] * (1 + compute_schur_vectors)
    n, dtype = aval.shape[-1], aval.dtype
    values = [((n,), dtype)] * (1 if np.dtype(dtype).kind == "c" else 2)
    outs = [((n, n), dtype), ((n, n), dtype), *values, ((), INT32), ((), INT32)]
    mode = "V" if compute_schur_vectors else "N"
    form, vectors, *_, info = lapack("gees", [x], outs, mode=mode, sort="N")
    ok = eq_p.bind(info, np.int32(0))
    found = [form, vectors] if compute_schur_vectors else [form]
    return [nan_unless(ok, y) for y in found]


schur_p = factorization(
    "schur",
    _schur_abstract,
    _schur,
    "A = Q T Q^H, T upper triangular (real: with 2 by 2 blocks).",
    nondifferentiable="the Schur form is not unique; use eig or eigh",
)


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> Any:
    """The Schur form x = Q T Q^H.

    Args:
        x: matrices [..., n, n].
        compute_schur_vectors: give Q too.
        sort_eig_vals, select_callable: not supported.

    Returns:
        (T, Q), or T alone.
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: sorting of eigenvalues is not supported.")
    outs = schur_p.bind(x, compute_schur_vectors=bool(compute_schur_vectors))
    return tuple(outs) if compute_schur_vectors else outs[0]


# --------------------------------------------------------------------------- hessenberg


def _hessenberg_abstract(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("hessenberg", x, square=True)
    taus = max(x.shape[-1] - 1, 0)
    return [make_aval(x.shape, x.dtype), make_aval((*x.shape[:-2], taus), x.dtype)]


def _hessenberg(x: Any) -> list[Any]:
    aval = typeof(x)
    n = aval.shape[-1]
    if n < 2 or not aval.size:
        return [x, zeros(_hessenberg_abstract(aval)[1])]
    outs = [((n, n), aval.dtype), ((n - 1,), aval.dtype), ((), INT32)]
    packed, taus, info = lapack("gehrd", [x], outs, low=1, high=n)
    ok = eq_p.bind(info, np.int32(0))
    return [nan_unless(ok, packed), nan_unless(ok, taus)]


hessenberg_p = factorization(
    "hessenberg",
    _hessenberg_abstract,
    _hessenberg,
    "A reduced to upper Hessenberg form by reflectors.",
    nondifferentiable="reflectors are an intermediate form",
)


def hessenberg(a: Any) -> tuple[Any, Any]:
    """The Hessenberg form of matrices [..., n, n] with reflectors below, and their factors."""
    return tuple(hessenberg_p.bind(a))


# --------------------------------------------------------------------------- tridiagonal


def _tridiagonal_abstract(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    check_matrix("tridiagonal", x, square=True)
    *batch, n, _ = x.shape
    if n == 0:
        raise errors.shape_error(f"tridiagonal: matrices must not be empty, got {x.str_short()}.")
    part = dtypes.real_dtype(x.dtype)
    return [
        make_aval(x.shape, x.dtype),
        make_aval((*batch, n), part),
        make_aval((*batch, n - 1), part),
        make_aval((*batch, n - 1), x.dtype),
    ]


def _tridiagonal(x: Any, *, lower: bool) -> list[Any]:
    aval = typeof(x)
    n = aval.shape[-1]
    part = dtypes.real_dtype(aval.dtype)
    if not aval.size:
        return [zeros(a) for a in _tridiagonal_abstract(aval, lower=lower)]
    outs = [
        ((n, n), aval.dtype),
        ((n,), part),
        ((n - 1,), part),
        ((n - 1,), aval.dtype),
        ((), INT32),
    ]
    *found, info = lapack("sytrd", [x], outs, uplo="L" if lower else "U")
    ok = eq_p.bind(info, np.int32(0))
    return [nan_unless(ok, y) for y in found]


tridiagonal_p = factorization(
    "tridiagonal",
    _tridiagonal_abstract,
    _tridiagonal,
    "A Hermitian matrix reduced to tridiagonal form by reflectors.",
    nondifferentiable="reflectors are an intermediate form",
)


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """The tridiagonal form of Hermitian matrices [..., n, n].

    Args:
        a: matrices, of which one triangle is read.
        lower: which triangle.

    Returns:
        Reflectors with the form in the middle, the diagonal [..., n], the other diagonal
        [..., n - 1], and the factors of the reflectors [..., n - 1].
    """
    return tuple(tridiagonal_p.bind(a, lower=bool(lower)))


# --------------------------------------------------------------------------- tridiagonal_solve


def _tridiagonal_solve_abstract(
    dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray
) -> ShapedArray:
    check_matrix("tridiagonal_solve", b)
    if (
        not dl.shape == d.shape == du.shape == b.shape[:-1]
        or len({dl.dtype, d.dtype, du.dtype, b.dtype}) != 1
    ):
        raise errors.shape_error(
            "tridiagonal_solve: diagonals must be [..., m] and b [..., m, n], of one dtype; got "
            f"{', '.join(a.str_short() for a in (dl, d, du, b))}."
        )
    return make_aval(b.shape, b.dtype)


def _solve_by_lapack(dl: Any, d: Any, du: Any, b: Any) -> Any:
    aval = typeof(b)
    m, n = aval.shape[-2:]
    if not aval.size:
        return b
    vector = ((m,), aval.dtype)
    outs = [vector, vector, vector, ((m, n), aval.dtype), ((), INT32)]
    *_, x, info = lapack("gtsv", [dl, d, du, b], outs)
    return nan_unless(eq_p.bind(info, np.int32(0)), x)


def _shifted(x: Any, by: int) -> Any:
    """Vectors moved by one place, with zero where nothing comes from."""
    config = [(0, 0, 0)] * typeof(x).ndim
    config[-1] = (1, -1, 0) if by > 0 else (-1, 1, 0)
    return pad_p.bind(x, const_like(x, 0), padding_config=tuple(config))


def _rows_shifted(x: Any, by: int) -> Any:
    config = [(0, 0, 0)] * typeof(x).ndim
    config[-2] = (1, -1, 0) if by > 0 else (-1, 1, 0)
    return pad_p.bind(x, const_like(x, 0), padding_config=tuple(config))


def _tridiagonal_solve_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """A dX = dB - dA X."""
    dl, d, du, _ = primals
    t_dl, t_d, t_du, t_b = tangents
    x = tridiagonal_solve_p.bind(*primals)
    if all(is_zero(t) for t in tangents):
        return x, zero_of(x)
    total = t_b
    moves = ((t_dl, _rows_shifted(x, 1)), (t_d, x), (t_du, _rows_shifted(x, -1)))
    for t, moved in moves:
        if not is_zero(t):
            total = add_tangents(total, neg_p.bind(by_rows(moved, t)))
    return x, tridiagonal_solve_p.bind(dl, d, du, total)


def _tridiagonal_solve_transpose(ct: Any, dl: Any, d: Any, du: Any, b: Any) -> list[Any]:
    if any(is_undefined(x) for x in (dl, d, du)):
        raise TypeError("tridiagonal_solve is linear in b only.")
    if is_zero(ct):
        return [None, None, None, Zero(cotangent_aval(b))]
    below, above = _shifted(du, 1), _shifted(dl, -1)
    return [None, None, None, tridiagonal_solve_p.bind(below, d, above, ct)]


def _tridiagonal_solve_batch(axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
    return batch_leading(tridiagonal_solve_p, axis, args, dims, {})


tridiagonal_solve_p = Primitive(
    name="tridiagonal_solve",
    abstract=_tridiagonal_solve_abstract,
    lower=lambda ctx, *values: ctx.fun(_solve_by_lapack, values)[0],
    jvp=_tridiagonal_solve_jvp,
    transpose=_tridiagonal_solve_transpose,
    batch=_tridiagonal_solve_batch,
    doc="X with A X = B for tridiagonal A.",
)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """The X with A X = b, for tridiagonal A.

    Args:
        dl: below the diagonal, dl[i] = A[i, i - 1], [..., m] with dl[0] unused.
        d: the diagonal [..., m].
        du: above the diagonal, du[i] = A[i, i + 1], [..., m] with du[m - 1] unused.
        b: right-hand sides [..., m, n].
        perturb_singular: not supported.

    Returns:
        An array of the shape of b; NaN where A is singular.
    """
    if perturb_singular:
        raise NotImplementedError(
            "tridiagonal_solve: perturb_singular=True is not supported.\nInstead: add a small "
            "multiple of the largest entry to d."
        )
    return tridiagonal_solve_p.bind(dl, d, du, b)
