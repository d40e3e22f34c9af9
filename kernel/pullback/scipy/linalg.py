"""SciPy's linear algebra: factorisations, triangular systems, matrix functions, special matrices.

Builds on numpy/decompositions.py and lax.linalg. Tested in tests/scipy/test_linalg.py against SciPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.lax import linalg as lax_linalg
from pullback.numpy import linalg as np_linalg
from pullback.numpy import promote
from pullback.numpy.fused import fused


def _one(name: str, a: Any) -> Any:
    return promote.lift(name, promote.promote_inexact(name, a)[0])


def _two(name: str, a: Any, b: Any) -> list[Any]:
    return promote.lift_all(name, *promote.promote_inexact(name, a, b))


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Cholesky factor: U with a = U^H U, or (lower) L with a = L L^H."""
    del overwrite_a, check_finite
    return np_linalg.cholesky(a, upper=not lower)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """A Cholesky factor for `cho_solve`, and whether it is the lower one."""
    return cholesky(a, lower, overwrite_a, check_finite), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """x with a x = b, from the Cholesky factor of a."""
    del overwrite_b, check_finite
    c, lower = c_and_lower
    first = solve_triangular(c, b, trans=0 if lower else 2, lower=lower)
    return solve_triangular(c, first, trans=2 if lower else 0, lower=lower)


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """x with op(a) x = b for triangular a.

    Args:
        a: [..., n, n]; only one triangle is read.
        b: [n] or [..., n, k].
        trans: 0 or "N" for a, 1 or "T" for a^T, 2 or "C" for a^H.
        lower: which triangle.
        unit_diagonal: take the diagonal as ones.
        overwrite_b, debug, check_finite: accepted for SciPy's sake.
    """
    del overwrite_b, debug, check_finite
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ValueError(f"Invalid 'trans' value {trans}")
    a, b = _two("solve_triangular", a, b)
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = jnp.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = jnp.broadcast_to(b, (*batch, *b.shape[-2:]))
    x = lax_linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=lower,
        transpose_a=trans not in (0, "N"),
        conjugate_a=trans in (2, "C"),
        unit_diagonal=unit_diagonal,
    )
    return x[..., 0] if vector else x


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """x with a x = b; assume_a="pos" solves by Cholesky."""
    del overwrite_a, overwrite_b, debug, check_finite
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(
            f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got {assume_a!r}"
        )
    if assume_a != "pos":
        return np_linalg.solve(a, b)
    a, b = _two("solve", a, b)
    return cho_solve(cho_factor(a, lower=lower), b)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse of square matrices."""
    del overwrite_a, check_finite
    return np_linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant of square matrices."""
    del overwrite_a, check_finite
    return np_linalg.det(a)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The singular value decomposition; see `jnp.linalg.svd`."""
    del overwrite_a, check_finite, lapack_driver
    out = np_linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(out) if compute_uv else out


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: Any = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian matrix."""
    del overwrite_a, overwrite_b, turbo, check_finite
    if b is not None or type != 1 or eigvals is not None:
        raise NotImplementedError("eigh: only b=None, type=1 and eigvals=None are supported")
    w, v = np_linalg.eigh(a, UPLO="L" if lower else "U")
    return w if eigvals_only else (w, v)


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """The factors L and U in one matrix, and the row exchanges, for `lu_solve`."""
    del overwrite_a, check_finite
    factors, pivots, _ = lax_linalg.lu(_one("lu_factor", a))
    return factors, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """x with a x = b (trans 1: a^T, 2: a^H), from what `lu_factor` gave."""
    del overwrite_b, check_finite
    factors, pivots = lu_and_piv
    factors, b = _two("lu_solve", factors, b)
    order = lax_linalg.lu_pivots_to_permutation(pivots, factors.shape[-1])
    if trans == 0:
        y = solve_triangular(factors, b[order], lower=True, unit_diagonal=True)
        return solve_triangular(factors, y)
    y = solve_triangular(factors, b, trans=trans)
    x = solve_triangular(factors, y, trans=trans, lower=True, unit_diagonal=True)
    return jnp.zeros_like(x).at[order].set(x, unique_indices=True)


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The decomposition a = P L U; permute_l gives P L and U."""
    del overwrite_a, check_finite
    return _lu(_one("lu", a), bool(permute_l))


@fused("permute_l")
def _lu(a: Any, permute_l: bool) -> Any:
    factors, _, order = lax_linalg.lu(a)
    n, m = a.shape[-2:]
    k = min(n, m)
    rows = jnp.arange(n)
    p = (rows[:, None] == order[..., None, :]).astype(a.dtype)
    low = jnp.tril(factors, -1)[..., :, :k] + jnp.eye(n, k, dtype=a.dtype)
    up = jnp.triu(factors)[..., :k, :]
    return (jnp.matmul(p, low), up) if permute_l else (p, low, up)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """The decomposition a = Q R: mode "full", "economic" or "r"."""
    del overwrite_a, lwork, check_finite
    if pivoting:
        raise NotImplementedError("qr: pivoting=True is not supported; use svd for the rank")
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = lax_linalg.qr(_one("qr", a), full_matrices=mode == "full")
    return (r,) if mode == "r" else (q, r)


# ---------------------------------------------------------------- matrix functions

# Coefficients of the numerators of Pade approximants to exp, and the norms up to which each is
# exact. Source: Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
_PADE = {
    3: (120, 60, 12, 1),
    5: (30240, 15120, 3360, 420, 30, 1),
    7: (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1),
}
_MAX_NORM = 3.925724783138660


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The matrix exponential of square matrices, by scaling and squaring.

    Args:
        A: [..., n, n].
        upper_triangular: accepted for JAX's sake.
        max_squarings: how far to scale down; NaN where it is not enough.

    Returns:
        [..., n, n].
    """
    del upper_triangular
    A = _one("expm", A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"expm: A must be a stack of square matrices, got shape {A.shape}")
    if A.dtype.itemsize > (8 if A.dtype.kind == "c" else 4):
        return _expm_13(A, max_squarings)
    return _expm(A, max_squarings)


def _scaled(A: Any, limit: float, max_squarings: int) -> tuple[Any, Any, Any]:
    size = jnp.abs(A).sum(-2).max(-1)
    ratio = jnp.maximum(size / limit, 1e-30)
    squarings = jnp.clip(jnp.ceil(jnp.log2(ratio)), 0, None)
    scale = lax.exp2(jnp.minimum(squarings, max_squarings))
    return A / scale[..., None, None].astype(A.dtype), squarings, squarings > max_squarings


def _square(R: Any, squarings: Any, bad: Any, max_squarings: int) -> Any:
    def body(i: Any, R: Any) -> Any:
        again = (i < squarings)[..., None, None]
        return jnp.where(again, jnp.matmul(R, R), R)

    R = lax.fori_loop(0, max_squarings, body, R)
    return jnp.where(bad[..., None, None], jnp.nan, R)


@fused("max_squarings")
def _expm(A: Any, max_squarings: int) -> Any:
    A, squarings, bad = _scaled(A, _MAX_NORM, max_squarings)
    squarings, bad = lax.stop_gradient(squarings), lax.stop_gradient(bad)
    b = _PADE[7]
    eye = jnp.eye(A.shape[-1], dtype=A.dtype)
    A2 = jnp.matmul(A, A)
    A4 = jnp.matmul(A2, A2)
    A6 = jnp.matmul(A4, A2)
    U = jnp.matmul(A, b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * eye)
    V = b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * eye
    return _square(np_linalg.solve(V - U, V + U), squarings, bad, max_squarings)


_PADE_13 = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000),
    *(10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1),
)


@fused("max_squarings")
def _expm_13(A: Any, max_squarings: int) -> Any:
    A, squarings, bad = _scaled(A, 5.371920351148152, max_squarings)
    squarings, bad = lax.stop_gradient(squarings), lax.stop_gradient(bad)
    b = [float(x) for x in _PADE_13]
    eye = jnp.eye(A.shape[-1], dtype=A.dtype)
    A2 = jnp.matmul(A, A)
    A4 = jnp.matmul(A2, A2)
    A6 = jnp.matmul(A4, A2)
    U = jnp.matmul(A6, b[13] * A6 + b[11] * A4 + b[9] * A2)
    U = jnp.matmul(A, U + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * eye)
    V = jnp.matmul(A6, b[12] * A6 + b[10] * A4 + b[8] * A2)
    V = V + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * eye
    return _square(np_linalg.solve(V - U, V + U), squarings, bad, max_squarings)


# ---------------------------------------------------------------- special matrices


def block_diag(*arrs: Any) -> Any:
    """Matrices along the diagonal of a larger one, zeros elsewhere."""
    arrays = [jnp.atleast_2d(a) for a in (arrs or (jnp.zeros((1, 0)),))]
    for a in arrays:
        if a.ndim != 2:
            raise ValueError(
                f"Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got {a.shape}"
            )
    arrays = promote.lift_all("block_diag", *promote.promote("block_diag", *arrays))
    return _block_diag(arrays)


@fused()
def _block_diag(arrays: list[Any]) -> Any:
    width = sum(a.shape[1] for a in arrays)
    rows, left = [], 0
    for a in arrays:
        right = width - left - a.shape[1]
        rows.append(lax.pad(a, np.zeros((), a.dtype), [(0, 0, 0), (left, right, 0)]))
        left += a.shape[1]
    return lax.concatenate(rows, 0)


def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals: first column c, first row r (the conjugate of c if None)."""
    c = jnp.ravel(promote.lift("toeplitz", c))
    r = jnp.conj(c) if r is None else jnp.ravel(promote.lift("toeplitz", r))
    n, m = c.shape[0], r.shape[0]
    line = jnp.concatenate([c[::-1], r[1:]])
    places = np.arange(n)[::-1, None] + np.arange(m)[None, :]
    return line[places.astype(np.int32)]


def circulant(c: Any) -> Any:
    """The square matrix whose columns are c rolled by 0, 1, 2 ..."""
    c = jnp.ravel(promote.lift("circulant", c))
    n = c.shape[0]
    places = (np.arange(n)[:, None] - np.arange(n)[None, :]) % n
    return c[places.astype(np.int32)]


def hilbert(n: int) -> Any:
    """The Hilbert matrix 1 / (i + j + 1)."""
    i = jnp.arange(n)
    return 1 / (i[:, None] + i[None, :] + 1)
