"""Linear algebra: factors reproduce their matrices, derivatives, batching, failures, edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax
from pullback.core.config import enable_x64

linalg = lax.linalg
R = harness.rng(0)
REAL = R.normal(size=(2, 3, 3)).astype(np.float32)
COMPLEX = (REAL + 1j * R.normal(size=(2, 3, 3))).astype(np.complex64)
TALL = R.normal(size=(2, 4, 3)).astype(np.float32)
WIDE = R.normal(size=(2, 3, 4)).astype(np.float32)
TALL_C = (TALL + 1j * R.normal(size=TALL.shape)).astype(np.complex64)
WIDE_C = (WIDE + 1j * R.normal(size=WIDE.shape)).astype(np.complex64)
BOTH = pytest.mark.parametrize("a", [REAL, COMPLEX], ids=["real", "complex"])
ALL = pytest.mark.parametrize(
    "a",
    [REAL, COMPLEX, TALL, WIDE, TALL_C, WIDE_C],
    ids=["real", "complex", "tall", "wide", "tall-complex", "wide-complex"],
)


def h(x: np.ndarray) -> np.ndarray:
    """The conjugate transpose."""
    return np.conj(np.swapaxes(x, -1, -2))


def positive(a: np.ndarray) -> np.ndarray:
    return a @ h(a) + np.eye(a.shape[-2], dtype=a.dtype)


def hermitian(a: np.ndarray) -> np.ndarray:
    return (a + h(a)) / 2


def close(x: Any, y: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), tolerance, tolerance)


def check(fun: Callable[..., Any], *args: np.ndarray, order: int = 2) -> None:
    """Derivatives, and vmap over both axes of the leading one."""
    harness.check_derivatives(Case("derivatives", fun, args, order=order, grad_rtol=1e-4))


def check_batch(fun: Callable[..., Any], a: np.ndarray) -> None:
    """vmap at any axis gives what leading axes give; so does jit."""
    want = harness.leaves(fun(a))
    got = harness.leaves(pb.vmap(fun, in_axes=1)(np.moveaxis(a, 0, 1)))
    compiled = harness.leaves(pb.jit(fun)(a))
    for w, g, c in zip(want, got, compiled, strict=True):
        close(g, w)
        close(c, w)


# --------------------------------------------------------------------------- cholesky, solves


@BOTH
def test_cholesky(a: np.ndarray) -> None:
    a = positive(a)
    close(linalg.cholesky(a), np.linalg.cholesky(a), 1e-4)
    check_batch(linalg.cholesky, a)
    check(linalg.cholesky, a[0])
    check(lambda x: linalg.cholesky(x, symmetrize_input=False), a[0], order=1)


def test_cholesky_of_indefinite_matrices_is_nan() -> None:
    out = np.asarray(linalg.cholesky(np.stack([np.eye(2), -np.eye(2)]).astype(np.float32)))
    np.testing.assert_array_equal(out[0], np.eye(2))
    np.testing.assert_array_equal(out[1], [[np.nan, 0], [np.nan, np.nan]])


def test_cholesky_update_and_symmetric_product() -> None:
    r = np.linalg.cholesky(positive(REAL[0])).T
    w = REAL[1, 0]
    close(linalg.cholesky_update(r, w).T, np.linalg.cholesky(r.T @ r + np.outer(w, w)), 1e-4)
    out = linalg.symmetric_product(
        TALL, positive(TALL), alpha=2.0, beta=0.5, symmetrize_output=True
    )
    close(out, 2 * TALL @ h(TALL) + 0.5 * positive(TALL), 1e-4)


FLAGS = [
    {"left_side": left, "lower": lower, "transpose_a": t, "conjugate_a": c, "unit_diagonal": u}
    for left, lower, t, c, u in (
        (1, 1, 0, 0, 0),
        (0, 0, 0, 0, 0),
        (1, 0, 1, 0, 1),
        (0, 1, 1, 1, 0),
        (1, 1, 0, 1, 1),
        (0, 0, 0, 1, 0),
    )
]


def solve_reference(a: np.ndarray, b: np.ndarray, flags: dict) -> np.ndarray:
    a = np.tril(a) if flags["lower"] else np.triu(a)
    n = a.shape[-1]
    a = np.where(np.eye(n, dtype=bool), 1, a) if flags["unit_diagonal"] else a
    a = np.swapaxes(a, -1, -2) if flags["transpose_a"] else a
    a = np.conj(a) if flags["conjugate_a"] else a
    return np.linalg.solve(a, b) if flags["left_side"] else h(np.linalg.solve(h(a), h(b)))


@BOTH
@pytest.mark.parametrize("flags", FLAGS, ids=[str(i) for i in range(len(FLAGS))])
def test_triangular_solve(a: np.ndarray, flags: dict) -> None:
    a = a + 3 * np.eye(3, dtype=a.dtype)
    b = (TALL if not flags["left_side"] else WIDE).astype(a.dtype)
    fun = lambda a, b: linalg.triangular_solve(a, b, **flags)  # noqa: E731
    close(fun(a, b), solve_reference(a, b, flags), 1e-4)
    harness.check_vmap(fun, (a[0], b[0]), ulps=64)
    check(fun, a[0], b[0], order=1)


def test_triangular_solve_of_vectors_and_mixed_dtypes() -> None:
    a = np.tril(REAL[0]) + 3 * np.eye(3, dtype=np.float32)
    close(
        linalg.triangular_solve(a, REAL[1, 0], left_side=True, lower=True),
        np.linalg.solve(a, REAL[1, 0]),
    )
    assert linalg.triangular_solve(a, COMPLEX[0], left_side=True).dtype == np.complex64
    assert linalg.triangular_solve(a[:0, :0], a[:0], left_side=True).shape == (0, 3)


# --------------------------------------------------------------------------- lu


@ALL
def test_lu(a: np.ndarray) -> None:
    packed, pivots, order = map(np.asarray, linalg.lu(a))
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = np.tril(packed, -1)[..., :k] + np.eye(m, k, dtype=a.dtype)
    close(lower @ np.triu(packed)[..., :k, :], np.take_along_axis(a, order[..., None], -2))
    for row in range(2):
        swapped = np.arange(m)
        for i, j in enumerate(pivots[row]):
            swapped[[i, j]] = swapped[[j, i]]
        np.testing.assert_array_equal(order[row], swapped)
    check_batch(linalg.lu, a)
    check(lambda x: linalg.lu(x)[0], a[0])


def test_permutation_of_pivots() -> None:
    out = linalg.lu_pivots_to_permutation(np.array([[2, 2], [1, 1]], np.int32), 4)
    np.testing.assert_array_equal(out, [[2, 0, 1, 3], [1, 0, 2, 3]])
    solved = linalg.lu_solve(linalg.lu(REAL), WIDE)
    close(REAL @ np.asarray(solved), WIDE, 1e-4)


# --------------------------------------------------------------------------- qr


@ALL
@pytest.mark.parametrize("full", [False, True], ids=["reduced", "full"])
@pytest.mark.parametrize("pivoting", [False, True], ids=["plain", "pivoting"])
def test_qr(a: np.ndarray, full: bool, pivoting: bool) -> None:
    fun = lambda x: linalg.qr(x, full_matrices=full, pivoting=pivoting)  # noqa: E731
    q, r, *order = map(np.asarray, fun(a))
    m, n = a.shape[-2:]
    k = m if full else min(m, n)
    assert q.shape == (2, m, k) and r.shape == (2, k, n)
    want = np.take_along_axis(a, order[0][:, None], -1) if pivoting else a
    close(q @ r, want)
    close(h(q) @ q, np.broadcast_to(np.eye(k), (2, k, k)))
    np.testing.assert_array_equal(np.tril(r, -1), np.zeros_like(r))
    if full and m > n:
        error = pb.grad(lambda x: lax.reduce_sum(lax.real(fun(x)[1]), (0, 1, 2)))
        harness.check_error(NotImplementedError, ["full_matrices=False", "4 > 3"], error, a)
    else:
        check(lambda x: fun(x)[:2], a[0], order=1 if pivoting else 2)
    if not full and not pivoting:
        check_batch(fun, a)


def test_reflectors() -> None:
    packed, taus = linalg.geqrf(TALL)
    q = np.asarray(linalg.householder_product(packed, taus))
    close(q, linalg.qr(TALL, full_matrices=False)[0])
    eye = np.broadcast_to(np.eye(4, dtype=np.float32), (2, 4, 4)).copy()
    close(np.asarray(linalg.ormqr(packed, taus, eye))[..., :3], q)
    close(
        linalg.ormqr(packed, taus, eye, left=False, transpose=True),
        h(np.asarray(linalg.ormqr(packed, taus, eye))),
    )
    _, pivots, _ = linalg.geqp3(TALL, np.zeros((2, 3), np.int32))
    np.testing.assert_array_equal(np.sort(pivots), [[1, 2, 3]] * 2)


# --------------------------------------------------------------------------- eigenvalues


@BOTH
def test_eigh(a: np.ndarray) -> None:
    a = hermitian(a)
    v, w = map(np.asarray, linalg.eigh(a))
    assert w.dtype == np.float32
    close(a @ v, v * w[:, None])
    close(w, np.linalg.eigvalsh(a))
    check_batch(lambda x: linalg.eigh(x)[1], a)
    check(lambda x: linalg.eigh(x)[1], a[0])
    modulus = lambda x: lax.mul(v := linalg.eigh(x)[0], lax.conj(v) if v.dtype.kind == "c" else v)  # noqa: E731
    check(modulus, a[0])
    for lower in (True, False):
        fun = lambda x, lower=lower: linalg.eigh(x, lower=lower, symmetrize_input=False)[1]  # noqa: E731
        close(fun(np.tril(a) if lower else np.triu(a)), w)
        check(fun, a[0], order=1)


def test_eigh_subset() -> None:
    a = hermitian(REAL)
    v, w = linalg.eigh(a, subset_by_index=(1, 3))
    close(w, np.linalg.eigvalsh(a)[:, 1:])
    assert v.shape == (2, 3, 2)


@BOTH
def test_eig(a: np.ndarray) -> None:
    w, vl, vr = map(np.asarray, linalg.eig(a))
    close(a @ vr, vr * w[:, None])
    close(h(vl) @ a, w[..., None] * h(vl))
    (only,) = linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    close(np.sort_complex(only), np.sort_complex(w))
    with enable_x64(True):
        check(lambda x: _symmetric(linalg.eig(x, **NO_VECTORS)[0]), a[0])


NO_VECTORS = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": False}


def _symmetric(w: Any) -> Any:
    """Functions of eigenvalues that do not depend on their order."""
    square = lax.mul(w, w)
    return lax.reduce_sum(square, (0,)), lax.reduce_sum(lax.mul(square, w), (0,))


@BOTH
def test_eigenvectors_have_derivatives_when_asked(a: np.ndarray) -> None:
    def moduli(x: Any) -> Any:
        """Moduli of entries of each vector, in the order of the eigenvalues' moduli."""
        w, *vectors = linalg.eig(x, enable_eigvec_derivs=True)
        parts = [lax.mul(v, lax.conj(v)) for v in vectors]
        weights = lax.mul(w, lax.conj(w))
        return [lax.dot(p, weights) for p in parts]

    check(moduli, a[0], order=1)
    plain = lambda x: lax.reduce_sum(lax.abs(linalg.eig(x)[1]), (0, 1))  # noqa: E731
    harness.check_error(NotImplementedError, ["enable_eigvec_derivs=True"], pb.grad(plain), a[0])


# --------------------------------------------------------------------------- svd


@ALL
@pytest.mark.parametrize("full", [False, True], ids=["reduced", "full"])
def test_svd(a: np.ndarray, full: bool) -> None:
    u, s, vh = map(np.asarray, linalg.svd(a, full_matrices=full))
    m, n = a.shape[-2:]
    k = min(m, n)
    assert u.shape == (2, m, m if full else k) and vh.shape == (2, n if full else k, n)
    close(u[..., :k] * s[:, None] @ vh[:, :k], a)
    only = lambda x: linalg.svd(x, full_matrices=full, compute_uv=False)  # noqa: E731
    close(only(a), s)
    if full:
        return
    check(only, a[0])
    check_batch(only, a)

    def polar(x: Any) -> Any:
        u, _, vh = linalg.svd(x, full_matrices=False)
        return lax.dot(u, vh)

    check(polar, a[0])


def test_svd_vectors_and_options() -> None:
    check(lambda x: linalg.svd(x, full_matrices=True), REAL[0], order=1)
    close(linalg.svd(REAL, algorithm=linalg.SvdAlgorithm.QR)[1], linalg.svd(REAL)[1])
    u, s, vh = linalg.svd(REAL, full_matrices=False, subset_by_index=(0, 2))
    assert (u.shape, s.shape, vh.shape) == ((2, 3, 2), (2, 2), (2, 2, 3))
    full = lambda x: lax.reduce_sum(linalg.svd(x)[0], (0, 1, 2))  # noqa: E731
    harness.check_error(NotImplementedError, ["full_matrices=False"], pb.grad(full), TALL)


# --------------------------------------------------------------------------- other forms


@BOTH
def test_schur_hessenberg_tridiagonal(a: np.ndarray) -> None:
    t, q = map(np.asarray, linalg.schur(a))
    close(q @ t @ h(q), a)
    close(linalg.schur(a, compute_schur_vectors=False), t)
    packed, taus = linalg.hessenberg(a)
    assert packed.shape == a.shape and taus.shape == (2, 2)
    _, d, e, _ = map(np.asarray, linalg.tridiagonal(hermitian(a)))
    middle = [np.diag(x) + np.diag(y, 1) + np.diag(y, -1) for x, y in zip(d, e, strict=True)]
    close(np.linalg.eigvalsh(middle), np.linalg.eigvalsh(hermitian(a)), 1e-4)


@BOTH
def test_tridiagonal_solve(a: np.ndarray) -> None:
    dl, d, du, b = a[..., 0], a[..., 1] + 4, a[..., 2], WIDE.astype(a.dtype)
    matrix = np.zeros_like(a)
    for i in range(3):
        matrix[:, i, i] = d[:, i]
        if i:
            matrix[:, i, i - 1], matrix[:, i - 1, i] = dl[:, i], du[:, i - 1]
    close(matrix @ np.asarray(linalg.tridiagonal_solve(dl, d, du, b)), b, 1e-4)
    check(linalg.tridiagonal_solve, dl[0], d[0], du[0], b[0], order=1)
    harness.check_vmap(linalg.tridiagonal_solve, (dl[0], d[0], du[0], b[0]), axes=(0,), ulps=64)


def test_polar() -> None:
    for a in (TALL[0], TALL_C[0]):
        u, p, steps, converged = linalg.qdwh(a)
        u, p = np.asarray(u), np.asarray(p)
        close(u @ p, a)
        close(h(u) @ u, np.eye(3))
        assert bool(converged) and 0 < int(steps) <= 10


def test_empty_matrices() -> None:
    none = np.zeros((2, 0, 3), np.float32)
    square = np.zeros((0, 0), np.float32)
    assert linalg.qr(none)[1].shape == (2, 0, 3)
    q, r = linalg.qr(np.swapaxes(none, 1, 2))
    np.testing.assert_array_equal(q[0], np.eye(3))
    assert r.shape == (2, 3, 0)
    u, s, vh = linalg.svd(none)
    assert (u.shape, s.shape) == ((2, 0, 0), (2, 0))
    np.testing.assert_array_equal(vh[1], np.eye(3))
    np.testing.assert_array_equal(linalg.lu(np.swapaxes(none, 1, 2))[2], [[0, 1, 2]] * 2)
    assert linalg.cholesky(square).shape == (0, 0)
    assert linalg.eigh(square)[1].shape == (0,)
    assert linalg.eig(square)[0].shape == (0,)
    assert linalg.schur(square)[0].shape == (0, 0)


ERRORS = [
    (lambda: linalg.cholesky(TALL), ["square", "f32[2,4,3]"]),
    (lambda: linalg.cholesky(REAL[0, 0]), ["2 axes", "f32[3]"]),
    (lambda: linalg.lu(REAL.astype("f2")), ["float32", "f16[2,3,3]"]),
    (lambda: linalg.qr(REAL.astype("i4")), ["i32[2,3,3]"]),
    (lambda: linalg.triangular_solve(REAL, TALL, left_side=True), ["f32[2,3,3]", "f32[2,4,3]"]),
    (lambda: linalg.eigh(REAL, subset_by_index=(1, 5)), ["(1, 5)"]),
    (lambda: linalg.svd(REAL, algorithm=linalg.SvdAlgorithm.JACOBI), ["JACOBI"]),
    (lambda: linalg.eig(REAL, implementation=linalg.EigImplementation.MAGMA), ["MAGMA"]),
    (lambda: linalg.tridiagonal_solve(REAL[0], REAL[0], REAL[0], WIDE), ["f32[2,3,4]"]),
    (lambda: linalg.qdwh(WIDE[0]), ["(3, 4)"]),
    (lambda: linalg.lu_pivots_to_permutation(np.arange(3), 2), ["permutation_size 2"]),
    (lambda: pb.grad(lambda x: linalg.schur(x)[0][0, 0])(REAL[0]), ["schur", "not unique"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError, NotImplementedError), parts, fun)  # type: ignore[arg-type]
