"""Linear algebra on stacks of matrices: `jnp.linalg`.

Decompositions are lax's; the rest is written on them. Builds on lax/linalg.py.
Tested in tests/numpy/test_linalg.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback import lax
from pullback.core import dtypes
from pullback.lax import linalg as lax_linalg
from pullback.numpy import positions, products, promote, selection
from pullback.numpy.creation import asarray
from pullback.numpy.fused import fused
from pullback.numpy.manipulation import matrix_transpose as _matrix_transpose
from pullback.numpy.ranges import eye
from pullback.numpy.reductions import reduce_axes

lift = promote.lift


class EighResult(NamedTuple):
    """Eigenvalues in rising order and eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """Left singular vectors, singular values in falling order, right ones (in rows)."""

    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant."""

    sign: Any
    logabsdet: Any


def _matrices(name: str, a: Any, square: bool = False) -> Any:
    a = lift(name, promote.promote_inexact(name, a)[0])
    if a.ndim < 2:
        raise ValueError(f"{name}: the argument must have at least 2 axes, got shape {a.shape}")
    if square and a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"{name}: the last two axes must be equal (square matrices), got {a.shape}"
        )
    return a


def _adjoint(x: Any) -> Any:
    x = lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return lax.conj(x) if x.dtype.kind == "c" else x


def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The Cholesky factor L (lower) with a = L @ L^H; NaN where a is not positive definite.

    Args:
        a: [..., n, n], Hermitian.
        upper: give U with a = U^H @ U.
        symmetrize_input: use (a + a^H) / 2.

    Returns:
        [..., n, n].
    """
    a = _matrices("cholesky", a, square=True)
    return _cholesky(a, bool(upper), bool(symmetrize_input))


@fused("upper", "symmetrize")
def _cholesky(a: Any, upper: bool, symmetrize: bool) -> Any:
    lower = lax_linalg.cholesky(a, symmetrize_input=symmetrize)
    return _adjoint(lower) if upper else lower


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """The singular value decomposition a = U @ diag(S) @ Vh.

    Args:
        a: [..., n, m].
        full_matrices: U and Vh square.
        compute_uv: False gives S alone.
        hermitian: promise that `a` is; then by eigenvalues.
        subset_by_index: only the singular values from the first to before the second number.

    Returns:
        SVDResult, or S.
    """
    a = _matrices("svd", a)
    if hermitian:
        return _svd_hermitian(a, compute_uv)
    out = lax_linalg.svd(
        a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
    )
    if not compute_uv:
        return out[0] if isinstance(out, (tuple, list)) else out
    return SVDResult(*out)


def _svd_hermitian(a: Any, compute_uv: bool) -> Any:
    w, v = eigh(a)
    s = abs(w)
    order = lax.rev(
        lax.sort((s, lax.broadcasted_iota(np.int32, s.shape, s.ndim - 1)), num_keys=1)[1],
        (s.ndim - 1,),
    )
    s_sorted = selection.take_along_axis(s, order, -1)
    if not compute_uv:
        return s_sorted
    sign = lax.sign(selection.take_along_axis(w, order, -1))
    sign = selection.where(sign == 0, 1, sign)
    u = selection.take_along_axis(v, order[..., None, :], -1)
    return SVDResult(u, s_sorted, _adjoint(u * sign[..., None, :].astype(u.dtype)))


def svdvals(x: Any, /) -> Any:
    """The singular values in falling order."""
    return svd(x, compute_uv=False)


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Args:
        a: [..., n, n].
        UPLO: which triangle to read, "L" (default) or "U".
        symmetrize_input: use (a + a^H) / 2.

    Returns:
        Eigenvalues [..., n] in rising order, eigenvectors [..., n, n] in columns.
    """
    a = _matrices("eigh", a, square=True)
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    v, w = lax_linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The eigenvalues of Hermitian matrices, in rising order."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: Any) -> EigResult:
    """Eigenvalues (complex) and eigenvectors of square matrices."""
    a = _matrices("eig", a, square=True)
    w, v = lax_linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: Any) -> Any:
    """The eigenvalues (complex) of square matrices."""
    a = _matrices("eigvals", a, square=True)
    return lax_linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def qr(a: Any, mode: str = "reduced") -> Any:
    """The decomposition a = Q @ R, Q with orthonormal columns, R upper triangular.

    Args:
        a: [..., n, m].
        mode: "reduced", "complete" (Q square), "r" (R alone) or "raw".

    Returns:
        QRResult, or R.
    """
    a = _matrices("qr", a)
    if mode == "raw":
        h, tau = lax_linalg.geqrf(a)
        return _matrix_transpose(h), tau
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = lax_linalg.qr(a, full_matrices=mode in ("full", "complete"))
    return r if mode == "r" else QRResult(q, r)


# ---------------------------------------------------------------- solving


def solve(a: Any, b: Any) -> Any:
    """x with a @ x = b.

    Args:
        a: [..., n, n].
        b: [n], or [..., n, k].

    Returns:
        An array of b's shape (batches broadcast).
    """
    a, b = promote.lift_all("solve", *promote.promote_inexact("solve", a, b))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"solve: a must be a stack of square matrices, got shape {a.shape}")
    if b.ndim == 0 or b.shape[-1 if b.ndim == 1 else -2] != a.shape[-1]:
        raise ValueError(f"solve: b of shape {b.shape} does not fit a of shape {a.shape}")
    return _solve(a, b)


@fused()
def _solve(a: Any, b: Any) -> Any:
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = promote.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = promote.broadcast_to(b, (*batch, *b.shape[-2:]))
    x = _lu_solve(a, b)
    return x[..., 0] if vector else x


def _lu_solve(a: Any, b: Any) -> Any:
    lu, _, permutation = lax_linalg.lu(a)
    rows = selection.take_along_axis(b, permutation[..., None], -2, mode="promise_in_bounds")
    y = lax_linalg.triangular_solve(lu, rows, left_side=True, lower=True, unit_diagonal=True)
    return lax_linalg.triangular_solve(lu, y, left_side=True, lower=False)


def inv(a: Any) -> Any:
    """The inverse of square matrices."""
    a = _matrices("inv", a, square=True)
    return _inv(a)


@fused()
def _inv(a: Any) -> Any:
    identity = promote.broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    return _lu_solve(a, identity)


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Sign and logarithm of the absolute value of the determinant.

    Args:
        a: [..., n, n].
        method: "lu" (default) or "qr".

    Returns:
        SlogdetResult.
    """
    a = _matrices("slogdet", a, square=True)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'."
        )
    return SlogdetResult(*_slogdet(a))


@fused()
def _slogdet(a: Any) -> tuple[Any, Any]:
    diagonal_, parity = _lu_diagonal(a)
    real = abs(diagonal_).dtype
    zero = reduce_axes("any", diagonal_ == 0, (a.ndim - 2,))
    sign = reduce_axes("prod", lax.sign(diagonal_), (a.ndim - 2,))
    sign = sign * parity.astype(a.dtype)
    safe = lax.select(diagonal_ == 0, lax.full_like(diagonal_, 1), diagonal_)
    logs = reduce_axes("sum", lax.log(lax.abs(safe)), (a.ndim - 2,))
    logs = lax.select(zero, lax.full(logs.shape, -np.inf, real), logs)
    return sign, logs


def _lu_diagonal(a: Any) -> tuple[Any, Any]:
    """The diagonal of U, and +1 or -1 by the parity of the permutation."""
    lu, pivots, _ = lax_linalg.lu(a)
    diagonal_ = positions.diagonal(lu, 0, -2, -1)
    places = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    swaps = reduce_axes("sum", lax.convert_element_type(pivots != places, np.int32), (a.ndim - 2,))
    return diagonal_, 1 - 2 * (swaps % 2)


def det(a: Any) -> Any:
    """The determinant of square matrices."""
    return _det(_matrices("det", a, square=True))


@fused()
def _det(a: Any) -> Any:
    n = a.shape[-1]
    if n == 0:
        return lax.full(a.shape[:-2], 1, a.dtype)
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if n == 3:
        return (
            a[..., 0, 0] * (a[..., 1, 1] * a[..., 2, 2] - a[..., 1, 2] * a[..., 2, 1])
            - a[..., 0, 1] * (a[..., 1, 0] * a[..., 2, 2] - a[..., 1, 2] * a[..., 2, 0])
            + a[..., 0, 2] * (a[..., 1, 0] * a[..., 2, 1] - a[..., 1, 1] * a[..., 2, 0])
        )
    diagonal_, parity = _lu_diagonal(a)
    return reduce_axes("prod", diagonal_, (a.ndim - 2,)) * parity.astype(a.dtype)


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The Moore-Penrose pseudo-inverse, by singular values.

    Args:
        a: [..., n, m].
        rtol: singular values below rtol times the largest count as 0; None for 10 max(n, m) eps.
        hermitian: promise that `a` is.
        rcond: NumPy's name of rtol.

    Returns:
        [..., m, n].
    """
    a = _matrices("pinv", a)
    rtol = rcond if rtol is None else rtol
    if rtol is None:
        rtol = 10.0 * max(a.shape[-2:]) * float(dtypes.finfo(a.dtype).eps)
    if 0 in a.shape[-2:]:
        return lax.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), 0, a.dtype)
    return _pinv(a, rtol, bool(hermitian))


@fused("hermitian")
def _pinv(a: Any, rtol: Any, hermitian: bool) -> Any:
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    cutoff = lax.convert_element_type(rtol, s.dtype)
    cutoff = cutoff[..., None] if np.ndim(cutoff) else cutoff
    large = s > cutoff * s[..., :1]
    safe = lax.select(large, s, lax.full_like(s, 1))
    inverse = lax.select(large, 1 / safe, lax.full_like(s, 0)).astype(a.dtype)
    return products.matmul(_adjoint(vh), inverse[..., None] * _adjoint(u))


def lstsq(
    a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False
) -> tuple[Any, Any, Any, Any]:
    """The x for which the norm of a @ x - b is least.

    Args:
        a: [n, m].
        b: [n] or [n, k].
        rcond: singular values below rcond times the largest count as 0.
        numpy_resid: residuals as NumPy gives them (none for rank-deficient `a`); not traceable.

    Returns:
        x, residuals, rank of a, singular values of a.
    """
    a, b = promote.lift_all("lstsq", *promote.promote_inexact("lstsq", a, b))
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise ValueError(
            f"lstsq: a must be [n, m] and b [n] or [n, k], got {a.shape} and {b.shape}"
        )
    if rcond is None:
        rcond = float(dtypes.finfo(a.dtype).eps) * max(a.shape)
    x, residuals, rank, s = _lstsq(a, b, rcond)
    if numpy_resid and (int(rank) < a.shape[1] or a.shape[0] <= a.shape[1]):
        residuals = asarray(np.zeros(0), residuals.dtype)
    return x, residuals, rank, s


@fused()
def _lstsq(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    vector = b.ndim == 1
    b = b[:, None] if vector else b
    u, s, vh = svd(a, full_matrices=False)
    mask = s >= lax.convert_element_type(rcond, s.dtype) * s[0]
    rank = reduce_axes("sum", lax.convert_element_type(mask, np.int32), (0,))
    safe = lax.select(mask, s, lax.full_like(s, 1))
    inverse = lax.select(mask, 1 / safe, lax.full_like(s, 0)).astype(a.dtype)
    projected = products.matmul(_adjoint(u), b)
    x = products.matmul(_adjoint(vh), inverse[:, None] * projected)
    distance = lax.abs(b - products.matmul(a, x))
    residuals = reduce_axes("sum", distance * distance, (0,))
    return (x[:, 0] if vector else x), residuals, rank, s


def matmul(
    x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The matrix product; see `jnp.matmul`."""
    return products.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    return _matrix_transpose(x)


def tensordot(
    x1: Any,
    x2: Any,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Products summed over pairs of axes; see `jnp.tensordot`."""
    del out_sharding
    return products.tensordot(
        x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Scalar products along an axis; see `jnp.vecdot`."""
    return products.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes."""
    return positions.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes."""
    return positions.trace(x, offset, -2, -1, dtype)
