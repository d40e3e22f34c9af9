"""Eigenvalues and eigenvectors of Hermitian and of general matrices.

Builds on linalg_lu.py. Source: Giles, Collected matrix derivative results, 2008, section 3.1;
Magnus, On differentiating eigenvalues and eigenvectors, 1985. Tested in tests/lax/test_linalg.py.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.jvp import is_zero, zero_of
from pullback.lax.compare_select import eq_p
from pullback.lax.complex import abs_p, complex_p, imag_p, real_p
from pullback.lax.elementwise import add_p, div_p, mul_p, neg_p, sub_p
from pullback.lax.lapack import INT32, check_matrix, factorization, lapack
from pullback.lax.linalg_lu import lu_p, lu_solve
from pullback.lax.matrix import (
    as_complex,
    by_columns,
    column,
    conj,
    diagonal,
    eye,
    hermitian,
    hermitian_from,
    is_complex,
    mh,
    mm,
    nan_unless,
    off_diagonal,
    real,
    row,
    scalar,
)
from pullback.lax.operands import shape_of
from pullback.lax.reduce import argmax_p
from pullback.lax.shape import sum_axes, zeros
from pullback.lax.slice import slice_in_dim
from pullback.lax.sort import take_along


class EighImplementation(Enum):
    """How Hermitian eigenproblems are solved; the CPU uses QR (LAPACK's syevd)."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(Enum):
    """Whose code solves general eigenproblems; the CPU uses LAPACK."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def _reciprocal_gaps(w: Any) -> Any:
    """1 / (w[j] - w[i]), zero on the diagonal."""
    gaps = sub_p.bind(row(w), column(w))
    n = shape_of(w)[-1]
    diagonal_ones = eye((n, n), typeof(w).dtype)
    return off_diagonal(div_p.bind(scalar(w, 1), add_p.bind(gaps, diagonal_ones)))


# --------------------------------------------------------------------------- eigh


def _eigh_abstract(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    check_matrix("eigh", x, square=True)
    return [make_aval(x.shape, x.dtype), make_aval(x.shape[:-1], dtypes.real_dtype(x.dtype))]


def _eigh(x: Any, *, lower: bool) -> list[Any]:
    aval = typeof(x)
    real_dtype = dtypes.real_dtype(aval.dtype)
    n = aval.shape[-1]
    if not aval.size:
        return [x, zeros(make_aval(aval.shape[:-1], real_dtype))]
    outs = [((n, n), aval.dtype), ((n,), real_dtype), ((), INT32)]
    v, w, info = lapack("syevd", [x], outs, mode="V", uplo="L" if lower else "U")
    ok = eq_p.bind(info, np.int32(0))
    return [nan_unless(ok, v), nan_unless(ok, w)]


def _eigh_jvp(outs: Any, primals: Any, tangents: Any, *, lower: bool) -> list[Any]:
    """With K = V^H dA V: dw = diag(K), dV = V (K / (w[j] - w[i]) off the diagonal)."""
    v, w = outs
    inner = mm(mm(mh(v), hermitian_from(tangents[0], lower)), v)
    gaps = _reciprocal_gaps(w)
    gaps = as_complex(gaps) if is_complex(v) else gaps
    return [mm(v, mul_p.bind(inner, gaps)), real(diagonal(inner))]


eigh_p = factorization("eigh", _eigh_abstract, _eigh, "A V = V diag(w), Hermitian A.", _eigh_jvp)


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues of Hermitian matrices.

    Args:
        x: matrices [..., n, n].
        lower: which triangle is read if `symmetrize_input` is False.
        symmetrize_input: decompose (x + x^H) / 2.
        sort_eigenvalues: they are in increasing order in any case.
        subset_by_index: the range (start, stop) of eigenvalues wanted.
        implementation: QR or None.

    Returns:
        (v, w): vectors in the columns of v [..., n, n], and values w [..., n].

    Raises:
        NotImplementedError: another implementation.
    """
    if implementation not in (None, EighImplementation.QR):
        raise NotImplementedError(
            f"eigh: {implementation} is not available on the CPU; use None or QR."
        )
    check_matrix("eigh", typeof(x), square=True)
    v, w = eigh_p.bind(hermitian(x) if symmetrize_input else x, lower=bool(lower))
    if subset_by_index is not None:
        start, stop = subset_by_index
        if not 0 <= start <= stop <= shape_of(x)[-1]:
            raise errors.shape_error(
                f"eigh: subset_by_index {subset_by_index} must lie in (0, {shape_of(x)[-1]})."
            )
        v = slice_in_dim(v, start, stop, 1, -1)
        w = slice_in_dim(w, start, stop, 1, -1)
    return v, w


# --------------------------------------------------------------------------- eig


def _eig_abstract(
    x: ShapedArray, *, left: bool, right: bool, enable_eigvec_derivs: bool
) -> list[ShapedArray]:
    check_matrix("eig", x, square=True)
    dtype = dtypes.complex_dtype(x.dtype)
    vectors = [make_aval(x.shape, dtype)] * (left + right)
    return [make_aval(x.shape[:-1], dtype), *vectors]


def _eig(x: Any, *, left: bool, right: bool, enable_eigvec_derivs: bool) -> list[Any]:
    aval = typeof(x)
    dtype = dtypes.complex_dtype(aval.dtype)
    n = aval.shape[-1]
    if not aval.size:
        vectors = [zeros(make_aval(aval.shape, dtype))] * (left + right)
        return [zeros(make_aval(aval.shape[:-1], dtype)), *vectors]
    values = [((n,), dtype)] if is_complex(x) else [((n,), aval.dtype)] * 2
    outs = [*values, ((n, n), dtype), ((n, n), dtype), ((), INT32)]
    options = {"compute_left": "V" if left else "N", "compute_right": "V" if right else "N"}
    *parts, vl, vr, info = lapack("geev", [x], outs, **options)
    w = parts[0] if is_complex(x) else complex_p.bind(*parts)
    ok = eq_p.bind(info, np.int32(0))
    found = [w, *([vl] if left else []), *([vr] if right else [])]
    return [nan_unless(ok, y) for y in found]


def _eig_jvp(
    outs: Any, primals: Any, tangents: Any, *, left: bool, right: bool, enable_eigvec_derivs: bool
) -> list[Any]:
    if (left or right) and not enable_eigvec_derivs:
        raise NotImplementedError(
            "eig: derivatives of eigenvectors are off, since they need distinct eigenvalues and a "
            "normalisation.\nInstead: use eigenvalues only (jnp.linalg.eigvals), or pass "
            "enable_eigvec_derivs=True."
        )
    (t,) = tangents
    t = as_complex(t)
    w = outs[0]
    if right:
        vr = outs[-1]
    else:  # A = VL^-H diag(w) VL^H
        n = shape_of(w)[-1]
        identity = eye((*shape_of(w)[:-1], n, n), typeof(w).dtype)
        vr = lu_solve(tuple(lu_p.bind(mh(outs[1]))), identity)
    inner = lu_solve(tuple(lu_p.bind(vr)), mm(t, vr))
    result = [diagonal(inner)]
    if left:
        vl = outs[1]
        adjoint = lu_solve(tuple(lu_p.bind(vl)), mm(mh(t), vl))
        result.append(_vector_tangents(vl, conj(w), adjoint))
    if right:
        result.append(_vector_tangents(vr, w, inner))
    return result


def _vector_tangents(v: Any, w: Any, inner: Any) -> Any:
    """V (K / (w[j] - w[i])) with each column kept of norm 1 and real in its largest entry."""
    raw = mm(v, mul_p.bind(inner, _reciprocal_gaps(w)))
    rows = typeof(v).ndim - 2
    along = real_p.bind(sum_axes(mul_p.bind(conj(v), raw), (rows,)))
    largest = row(argmax_p.bind(abs_p.bind(v), axes=(rows,), index_dtype=np.dtype(np.int32)))
    at_raw = sum_axes(imag_p.bind(take_along(raw, largest, rows)), (rows,))
    at_v = sum_axes(real_p.bind(take_along(v, largest, rows)), (rows,))
    turn = div_p.bind(at_raw, at_v)
    factor = complex_p.bind(neg_p.bind(along), neg_p.bind(turn))
    return add_p.bind(raw, by_columns(v, factor))


def _eig_rule(primals: Any, tangents: Any, **params: Any) -> tuple[list, list]:
    """Values and vectors come from one call, since LAPACK may order values alone differently."""
    if not (params["left"] or params["right"]) and not is_zero(tangents[0]):
        with_vectors = {**params, "right": True, "enable_eigvec_derivs": True}
        w, v = eig_p.bind(*primals, **with_vectors)
        return [w], [_eig_jvp([w, v], primals, tangents, **with_vectors)[0]]
    outs = eig_p.bind(*primals, **params)
    if is_zero(tangents[0]):
        return outs, [zero_of(o) for o in outs]
    return outs, _eig_jvp(outs, primals, tangents, **params)


eig_p = factorization("eig", _eig_abstract, _eig, "A V = V diag(w), general A.", rule=_eig_rule)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """Eigenvalues and eigenvectors of general matrices, in no particular order.

    Args:
        x: matrices [..., n, n].
        compute_left_eigenvectors, compute_right_eigenvectors: which vectors to give.
        enable_eigvec_derivs: let derivatives go through the vectors: right if eigenvalues are
            distinct, with norm 1 and a real largest entry as the normalisation.
        implementation: LAPACK or None.
        use_magma: of no use on the CPU.

    Returns:
        [w, vl, vr] (those asked for): complex values [..., n] and vectors in columns [..., n, n].
    """
    if implementation not in (None, EigImplementation.LAPACK):
        raise NotImplementedError(f"eig: {implementation} is not available; use None or LAPACK.")
    return eig_p.bind(
        x,
        left=bool(compute_left_eigenvectors),
        right=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs),
    )
