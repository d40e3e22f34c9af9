"""Products: dot_general in every arrangement, dtypes, precisions, and its shorter forms."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

R = harness.rng(0)
A = R.normal(size=(2, 3)).astype(np.float32)
B = R.normal(size=(3, 4)).astype(np.float32)
V = R.normal(size=3).astype(np.float32)
L = R.normal(size=(3, 2, 4, 2)).astype(np.float32)
K = R.normal(size=(4, 2, 3, 2)).astype(np.float32)
C = (A + 1j * A[::-1]).astype(np.complex64)
D = (B + 1j * B[::-1]).astype(np.complex64)
I = np.arange(6, dtype=np.int32).reshape(2, 3)
BF = A.astype(ml_dtypes.bfloat16)
E = np.zeros((0, 3), np.float32)

# Two contracting axes out of order, one batch axis: L[c1, b, c0, n], K[c0, m, c1, b].
MIXED = (((2, 0), (0, 2)), ((1,), (3,)))
# Two batch axes out of order, one contracting axis.
BATCHES = (((2,), (0,)), ((3, 0), (1, 2)))


def dot(dims: tuple) -> object:
    return lambda x, y: lax.dot_general(x, y, dims)


CASES = [
    Case("matrix", dot((((1,), (0,)), ((), ()))), (A, B), lambda x, y: x @ y),
    Case("outer", dot((((), ()), ((), ()))), (A, V), np.multiply.outer),
    Case("vectors", lax.dot, (V, V), np.dot),
    Case("matrix-vector", lax.dot, (A, V), np.dot),
    Case("vector-matrix", lax.dot, (V, B), np.dot),
    Case("mixed", dot(MIXED), (L, K), lambda x, y: np.einsum("cbdn,dmcb->bnm", x, y), ulps=64),
    Case("batches", dot(BATCHES), (L, K), lambda x, y: np.einsum("bnka,kabm->abnm", x, y), ulps=64),
    Case("complex", lax.dot, (C, D), np.dot),
    Case("int", lax.dot, (I, I.T), np.dot),
    Case("bool", lax.dot, (I > 2, I.T > 2), np.dot, vmap=False),
    Case("bf16", lax.dot, (BF, BF.T), np.dot, order=0, ulps=8),
    Case("f16", lax.dot, (A.astype("f2"), B.astype("f2")), np.dot, order=0, ulps=8),
    Case("empty-rows", lax.dot, (E, B), np.dot),
    Case("empty-sum", lax.dot, (E.T, E), np.dot),
    Case(
        "batch_matmul",
        lax.batch_matmul,
        (L[:, :, :, 0], L[:, :, :, 1].swapaxes(1, 2)),
        np.matmul,
        ulps=32,
    ),
    Case(
        "preferred",
        lambda x, y: lax.dot(x, y, preferred_element_type=np.float32),
        (BF, BF.T),
        np.dot,
        order=0,
    ),
    Case(
        "preferred-int",
        lambda x, y: lax.dot(x, y, preferred_element_type=np.int32),
        (I.astype(np.int8), I.T.astype(np.int8)),
        lambda x, y: x.astype("i4") @ y.astype("i4"),
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


@pytest.mark.parametrize("dims", [MIXED, BATCHES], ids=["mixed", "batches"])
@pytest.mark.parametrize("axes", [(1, None), (None, 2), (3, 1), (-1, 0)])
def test_vmap_of_inner_axes(dims: tuple, axes: tuple) -> None:
    args = [x if a is None else np.stack([x, 2 * x], a) for x, a in zip((L, K), axes, strict=True)]
    out = pb.vmap(dot(dims), axes)(*args)
    whole = np.asarray(dot(dims)(L, K))
    factor = 4 if None not in axes else 2
    np.testing.assert_allclose(out, np.stack([whole, factor * whole]), rtol=1e-5, atol=1e-5)


def test_gradients_of_low_precision_keep_the_operand_dtype() -> None:
    fun = lambda x, y: lax.reduce_sum(lax.dot(x, y, preferred_element_type=np.float32), (0, 1))  # noqa: E731
    dx, dy = pb.grad(fun, (0, 1))(BF, BF.T)
    assert dx.dtype == BF.dtype and dy.dtype == BF.dtype
    np.testing.assert_allclose(
        harness.to_numpy(dx), np.tile(harness.to_numpy(BF).sum(0), (2, 1)), 0.01
    )


def test_python_number_times_array() -> None:
    assert lax.dot_general(2, I, (((), ()), ((), ()))).dtype == np.int32


@pytest.mark.parametrize(
    "precision", ["highest", "bfloat16_3x", lax.Precision.HIGH, ("default", "highest")]
)
def test_precisions(precision: object) -> None:
    np.testing.assert_allclose(lax.dot(A, B, precision=precision), A @ B, rtol=1e-5)


def test_precision_is_a_parameter() -> None:
    (eqn,) = pb.make_jaxpr(lambda x, y: lax.dot(x, y, precision="highest"))(A, B).eqns
    assert eqn.params["precision"] == (lax.Precision.HIGHEST, lax.Precision.HIGHEST)
    with pb.default_matmul_precision("float32"):
        (eqn,) = pb.make_jaxpr(lax.dot)(A, B).eqns
    assert eqn.params["precision"] == (lax.Precision.HIGHEST, lax.Precision.HIGHEST)


@pytest.mark.parametrize("preset", ["F32_F32_F32", "BF16_BF16_F32", "BF16_BF16_F32_X3"])
def test_algorithms(preset: str) -> None:
    out = lax.dot(A, B, precision=lax.DotAlgorithmPreset[preset])
    np.testing.assert_allclose(out, A @ B, rtol=0.05, atol=0.05)


ERRORS = [
    (lambda: lax.dot(A, A), ["(2, 3)"]),
    (lambda: lax.dot_general(A, A, (((1,), (0,)), ((), ()))), ["3 (lhs axis 1)", "2 (rhs axis 0)"]),
    (lambda: lax.dot_general(A, A, (((1,), ()), ((), ()))), ["(1,) and ()", "f32[2,3]"]),
    (lambda: lax.dot_general(A, A, (((2,), (0,)), ((), ()))), ["axes of f32[2,3]"]),
    (lambda: lax.dot_general(A, A, (((0,), (0,)), ((0,), (0,)))), ["twice"]),
    (lambda: lax.batch_matmul(A, V), ["(2, 3)", "(3,)"]),
    (lambda: lax.dot(A, B, precision="exact"), ["'exact'", "'highest'"]),
    (lambda: lax.dot(C, D, preferred_element_type=np.float32), ["complex64", "float32"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
