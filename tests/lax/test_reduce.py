"""Reductions by product, extremum and bits; argmax and argmin."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(3, 4)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
T = np.array([[1, 5, 5, 2], [3, 3, 3, 3]], np.float32)
N = np.array([[1, np.nan, 5, np.nan], [3, 3, -np.inf, 3]], np.float32)
I = np.array([[3, -7, 5], [5, 5, -7]], np.int32)
U = np.array([[3, 200, 255], [0, 7, 9]], np.uint8)
B = np.array([[True, False, True], [True, True, True]])
BF = X.astype(ml_dtypes.bfloat16)
E = np.zeros((0, 3), np.float32)
Z = np.array([[2, 0, 3], [0, 0, 4]], np.float32)

CASES = [
    Case("prod", lambda x: lax.reduce_prod(x, (1,)), (X,), lambda x: x.prod(1)),
    Case("prod-axes", lambda x: lax.reduce_prod(x, (0, -1)), (X,), np.prod, vmap=False),
    Case("prod-complex", lambda x: lax.reduce_prod(x, (0,)), (C,), lambda x: x.prod(0)),
    Case("prod-zeros", lambda x: lax.reduce_prod(x, (1,)), (Z,), lambda x: x.prod(1)),
    Case("prod-int", lambda x: lax.reduce_prod(x, (0,)), (I,), lambda x: x.prod(0), vmap=False),
    Case("prod-empty", lambda x: lax.reduce_prod(x, (0,)), (E,), lambda x: x.prod(0)),
    Case("max", lambda x: lax.reduce_max(x, (0,)), (X,), lambda x: x.max(0)),
    Case("max-axes", lambda x: lax.reduce_max(x, (0, 1)), (X,), np.max),
    Case("max-ties", lambda x: lax.reduce_max(x, (1,)), (T,), lambda x: x.max(1), order=0),
    Case("max-nan", lambda x: lax.reduce_max(x, (1,)), (N,), lambda x: x.max(1), order=0),
    Case("max-int", lambda x: lax.reduce_max(x, (1,)), (I,), lambda x: x.max(1)),
    Case("max-uint8", lambda x: lax.reduce_max(x, (1,)), (U,), lambda x: x.max(1)),
    Case("max-bool", lambda x: lax.reduce_max(x, (1,)), (B,), lambda x: x.max(1)),
    Case("max-bf16", lambda x: lax.reduce_max(x, (1,)), (BF,), lambda x: x.max(1), order=0),
    Case("max-complex", lambda x: lax.reduce_max(x, (1,)), (C,), lambda x: x.max(1), order=1),
    Case("min-complex", lambda x: lax.reduce_min(x, (0,)), (C,), lambda x: x.min(0), order=1),
    Case("min", lambda x: lax.reduce_min(x, (-1,)), (X,), lambda x: x.min(1)),
    Case("min-nan", lambda x: lax.reduce_min(x, (0,)), (N,), lambda x: x.min(0), order=0),
    Case("min-int", lambda x: lax.reduce_min(x, (0,)), (I,), lambda x: x.min(0)),
    Case("and", lambda x: lax.reduce_and(x, (0,)), (B,), lambda x: x.all(0)),
    Case("and-int", lambda x: lax.reduce_and(x, (0,)), (I,), np.bitwise_and.reduce),
    Case("or", lambda x: lax.reduce_or(x, (0,)), (~B,), lambda x: x.any(0)),
    Case("xor", lambda x: lax.reduce_xor(x, (0,)), (U,), np.bitwise_xor.reduce),
    Case("argmax", lambda x: lax.argmax(x, 1, np.int32), (X,), lambda x: x.argmax(1).astype("i4")),
    Case("argmax-ties", lambda x: lax.argmax(x, -1, np.int32), (T,), lambda x: x.argmax(1)),
    Case("argmax-nan", lambda x: lax.argmax(x, 1, np.int8), (N,), lambda x: x.argmax(1)),
    Case("argmax-uint8", lambda x: lax.argmax(x, 0, np.uint32), (U,), lambda x: x.argmax(0)),
    Case("argmax-bool", lambda x: lax.argmax(x, 1, np.int32), (B,), lambda x: x.argmax(1)),
    Case("argmin", lambda x: lax.argmin(x, 0, np.int32), (X,), lambda x: x.argmin(0)),
    Case("argmin-nan", lambda x: lax.argmin(x, 1, np.int32), (N,), lambda x: x.argmin(1)),
    Case("argmin-int", lambda x: lax.argmin(x, 1, np.int32), (I,), lambda x: x.argmin(1)),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_ties_share_the_derivative() -> None:
    grad = pb.grad(lambda x: lax.reduce_sum(lax.reduce_max(x, (1,)), (0,)))(T)
    np.testing.assert_allclose(grad, [[0, 0.5, 0.5, 0], [0.25] * 4])


def test_extrema_of_nothing_are_the_limits() -> None:
    assert np.all(np.asarray(lax.reduce_max(E, (0,))) == -np.inf)
    assert np.asarray(lax.reduce_min(I[:0], (0,)))[0] == np.iinfo(np.int32).max


def test_float8_has_limits() -> None:
    x = np.array([1, -2], ml_dtypes.float8_e4m3fn)
    assert np.asarray(lax.reduce_max(x, (0,))).astype(np.float32) == 1


def test_derivative_of_an_index_is_nothing() -> None:
    _, t = pb.jvp(lambda x: lax.argmax(x, 0, np.int32), (X,), (X,))
    assert np.asarray(t).dtype == pb.dtypes.float0


ERRORS = [
    (lambda: lax.reduce_max(X, (2,)), ["axis 2", "dimension 2"]),
    (lambda: lax.reduce_or(X, (0,)), ["float32", "reduce_or"]),
    (lambda: lax.argmax(E, 0, np.int32), ["size 0", "f32[0,3]"]),
    (lambda: lax.argmax(C, 0, np.int32), ["complex64"]),
    (lambda: lax.argmax(X, 0, np.float32), ["index_dtype", "float32"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
