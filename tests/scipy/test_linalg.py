"""SciPy's linear algebra against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as reference

import pullback as pb
from pullback import numpy as jnp
from pullback.scipy import linalg

A = np.array([[2.0, 0.5, 0.1], [0.3, 1.5, -0.2], [0.0, 0.4, 1.0]], np.float32)
P = (A @ A.T).astype(np.float32)
B = np.array([1.0, -2.0, 0.5], np.float32)


def _close(got: object, want: object) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-5)


def test_solving() -> None:
    _close(linalg.solve(A, B), reference.solve(A, B))
    _close(linalg.solve(P, B, assume_a="pos"), reference.solve(P, B))
    for trans in (0, 1):
        _close(
            linalg.lu_solve(linalg.lu_factor(A), B, trans), reference.solve(A.T if trans else A, B)
        )
        for lower in (False, True):
            got = linalg.solve_triangular(A, B, trans=trans, lower=lower)
            _close(got, reference.solve_triangular(A, B, trans=trans, lower=lower))
    for lower in (False, True):
        _close(linalg.cho_solve(linalg.cho_factor(P, lower=lower), B), reference.solve(P, B))


def test_factorisations() -> None:
    _close(linalg.cholesky(P), reference.cholesky(P))
    p, low, up = linalg.lu(A)
    _close(p @ low @ up, A)
    for got, want in zip((p, low, up), reference.lu(A), strict=True):
        _close(got, want)
    q, r = linalg.qr(A[:, :2])
    _close(q @ r, A[:, :2])
    assert q.shape == (3, 3) and linalg.qr(A[:, :2], mode="economic")[0].shape == (3, 2)
    w, v = linalg.eigh(P)
    _close(P @ v, v * w)
    _close(linalg.svd(A, compute_uv=False), reference.svd(A, compute_uv=False))
    _close(linalg.inv(A) @ A, np.eye(3))
    _close(linalg.det(A), reference.det(A))


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_expm(scale: float) -> None:
    want = reference.expm(scale * A.astype(float))
    np.testing.assert_allclose(linalg.expm(scale * A), want, rtol=5e-4)
    with pb.enable_x64():
        np.testing.assert_allclose(linalg.expm(scale * A.astype(float)), want, rtol=1e-12)


def test_derivative_of_expm() -> None:
    gradient = pb.grad(lambda t: linalg.expm(t * A).sum())(0.7)
    want = (A.astype(float) @ reference.expm(0.7 * A.astype(float))).sum()
    assert float(gradient) == pytest.approx(want, rel=1e-4)


def test_special_matrices() -> None:
    _close(linalg.block_diag(A, B), reference.block_diag(A, B))
    _close(linalg.toeplitz(B, jnp.arange(4.0)), reference.toeplitz(B, np.arange(4.0)))
    _close(linalg.toeplitz(B), reference.toeplitz(B))
    _close(linalg.circulant(B), reference.circulant(B))
    _close(linalg.hilbert(3), reference.hilbert(3))
