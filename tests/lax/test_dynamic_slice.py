"""Windows at positions that are data."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(4, 3)).astype(np.float32)
U = harness.rng(1).normal(size=(2, 2)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
E = np.zeros((0, 3), np.float32)


def window(x: np.ndarray, i: int, j: int) -> np.ndarray:
    i, j = (k + n if k < 0 else k for k, n in ((int(i), 4), (int(j), 3)))
    i, j = min(max(i, 0), 2), min(max(j, 0), 1)
    return x[i : i + 2, j : j + 2]


def updated(x: np.ndarray, u: np.ndarray, i: int, j: int) -> np.ndarray:
    x = x.copy()
    window(x, i, j)[:] = u
    return x


def read(x: object, i: object, j: object) -> object:
    return lax.dynamic_slice(x, (i, j), (2, 2))


def write(x: object, u: object, i: object, j: object) -> object:
    return lax.dynamic_update_slice(x, u, (i, j))


ONE, TWO, FAR = np.int32(1), np.int32(-2), np.int32(9)
CASES = [
    Case("slice", read, (X, ONE, ONE), window),
    Case("slice-negative", read, (X, TWO, ONE), window, vmap=False),
    Case("slice-clipped", read, (X, FAR, np.int32(-9)), window, vmap=False),
    Case("slice-complex", read, (C, ONE, ONE), window, vmap=False),
    Case("slice-int8", read, (X, np.int8(1), np.int8(-3)), window, vmap=False),
    Case("slice-uint8", read, (X, np.uint8(1), np.uint8(200)), window, vmap=False),
    Case("slice-bf16", read, (X.astype(ml_dtypes.bfloat16), ONE, ONE), window, order=0, vmap=False),
    Case("update", write, (X, U, ONE, ONE), updated),
    Case("update-clipped", write, (X, U, FAR, TWO), updated, vmap=False),
    Case("update-complex", write, (C, C[:2, :2], ONE, ONE), updated, vmap=False),
    Case("update-int", write, (X.astype("i4"), U.astype("i4"), ONE, ONE), updated, vmap=False),
    Case(
        "slice_in_dim",
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, -1),
        (X, ONE),
        lambda x, i: x[:, 1:3],
    ),
    Case(
        "index_in_dim",
        lambda x, i: lax.dynamic_index_in_dim(x, i, 1, keepdims=False),
        (X, TWO),
        lambda x, i: x[:, -2],
    ),
    Case(
        "update_slice_in_dim",
        lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0),
        (X, X[:2] * 2, ONE),
        lambda x, u, i: np.r_[x[:1], u, x[3:]],
    ),
    Case(
        "update_index_in_dim",
        lambda x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 1),
        (X, X[:, 0] * 2, ONE),
        lambda x, u, i: np.c_[x[:, 0], u, x[:, 2]],
    ),
    Case(
        "empty", lambda x, i: lax.dynamic_slice(x, (i, 0), (0, 2)), (E, ONE), lambda x, i: x[:, :2]
    ),
    Case(
        "scalar",
        lambda x: lax.dynamic_update_slice(lax.dynamic_slice(x, (), ()), np.float32(2), ()),
        (np.float32(1),),
        lambda x: x + 1,
        order=0,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_indices_as_one_vector() -> None:
    at = np.array([1, -2])
    np.testing.assert_array_equal(lax.dynamic_slice(X, at, (2, 2)), window(X, 1, -2))
    out = pb.jit(lambda x, at: lax.dynamic_slice(x, at, (2, 2)))(X, at)
    np.testing.assert_array_equal(out, window(X, 1, -2))


def test_without_negative_indices() -> None:
    out = pb.jit(lambda i: lax.dynamic_slice(X, (i, 0), (2, 3), allow_negative_indices=False))(-1)
    np.testing.assert_array_equal(out, X[:2])
    out = lax.dynamic_slice(X, (-1, -1), (1, 1), allow_negative_indices=(False, True))
    np.testing.assert_array_equal(out, X[:1, 2:])


def test_gradient_of_a_written_window() -> None:
    dx, du = pb.grad(lambda x, u: lax.reduce_sum(write(x, u, 1, 0), (0, 1)), (0, 1))(X, U)
    np.testing.assert_array_equal(du, np.ones((2, 2)))
    np.testing.assert_array_equal(dx, updated(np.ones((4, 3)), np.zeros((2, 2)), 1, 0))


ERRORS = [
    (lambda: lax.dynamic_slice(X, (0, 0), (5, 1)), ["(5, 1)", "f32[4,3]"]),
    (lambda: lax.dynamic_slice(X, (0,), (1, 1)), ["one start index per axis", "(4, 3)"]),
    (lambda: lax.dynamic_slice(X, (0.0, 0), (1, 1)), ["integer scalars", "f32[]"]),
    (lambda: lax.dynamic_update_slice(X, U[0], (0, 0)), ["f32[2]", "f32[4,3]"]),
    (lambda: lax.dynamic_update_slice(X, U.astype("i4"), (0, 0)), ["i32[2,2]"]),
    (lambda: lax.dynamic_index_in_dim(X, 0, 2), ["axis 2"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
