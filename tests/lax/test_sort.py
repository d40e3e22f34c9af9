"""Sorting by keys, and the largest elements."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(3, 4)).astype(np.float32)
Y = harness.rng(1).normal(size=(3, 4)).astype(np.float32)
I = np.array([[3, -1, 3, 2], [0, 0, -5, 7]], np.int32)
U = np.array([3, 200, 255, 0], np.uint8)
S = np.array([3, np.nan, -0.0, 0.0, -np.inf, -np.nan, np.inf], np.float32)
Z = np.array([1 + 2j, 1 - 2j, 0 + 5j, np.nan], np.complex64)


def by_keys(*xs: np.ndarray, n: int) -> list[np.ndarray]:
    out = [np.empty_like(x) for x in xs]
    for row in range(xs[0].shape[0]):
        order = np.lexsort([x[row] for x in xs[:n][::-1]])
        for x, o in zip(xs, out, strict=True):
            o[row] = x[row, order]
    return out


CASES = [
    Case("sort", lax.sort, (X,), lambda x: np.sort(x, -1)),
    Case("sort-axis", lambda x: lax.sort(x, 0), (X,), lambda x: np.sort(x, 0)),
    Case("sort-int", lax.sort, (I,), lambda x: np.sort(x, -1)),
    Case("sort-uint8", lax.sort, (U,), np.sort),
    Case("sort-bool", lax.sort, (X > 0,), lambda x: np.sort(x, -1)),
    Case("sort-bf16", lax.sort, (X.astype(ml_dtypes.bfloat16),), lambda x: np.sort(x, -1), order=0),
    Case("sort-special", lax.sort, (S,), np.sort, order=0),
    Case("sort-complex", lax.sort, (Z[:3],), np.sort, order=0),
    Case("sort-empty", lax.sort, (X[:, :0],), lambda x: x),
    Case(
        "sort-many",
        lambda x, y: lax.sort((x, y), 1),
        (X, Y),
        lambda x, y: by_keys(x, y, n=1),
    ),
    Case(
        "sort-keys",
        lambda x, y: lax.sort((x, y), num_keys=2),
        (I, I[:, ::-1].copy()),
        lambda x, y: by_keys(x, y, n=2),
    ),
    Case(
        "sort_key_val",
        lambda k, v: lax.sort_key_val(k, v)[1],
        (I, X[:2]),
        lambda k, v: by_keys(k, v, n=1)[1],
    ),
    Case("top_k", lambda x: lax.top_k(x, 2)[0], (X,), lambda x: -np.sort(-x, -1)[:, :2]),
    Case(
        "top_k-axis",
        lambda x: lax.top_k(x, 2, axis=0)[1],
        (X,),
        lambda x: np.argsort(-x, 0, kind="stable")[:2],
    ),
    Case(
        "top_k-ties",
        lambda x: lax.top_k(x, 3)[1],
        (I,),
        lambda x: np.argsort(-x, -1, kind="stable")[:, :3],
    ),
    Case("top_k-uint8", lambda x: lax.top_k(x, 2)[0], (U,), lambda x: np.array([255, 200])),
    Case("top_k-none", lambda x: lax.top_k(x, 0)[0], (X,), lambda x: x[:, :0]),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_stability() -> None:
    keys = np.array([1, 0, 1, 0, 1], np.int32)
    _, order = lax.sort((keys, np.arange(5)), is_stable=True)
    np.testing.assert_array_equal(order, [1, 3, 0, 2, 4])


def test_nan_is_last_and_largest() -> None:
    assert np.isnan(np.asarray(lax.sort(S))[-2:]).all()
    values, where = lax.top_k(S, 3)
    np.testing.assert_array_equal(values, [np.nan, np.nan, np.inf])
    np.testing.assert_array_equal(where, [1, 5, 6])
    assert np.isnan(np.asarray(lax.sort(Z))[-1])


def test_zeros_of_both_signs_are_equal() -> None:
    x = np.array([0.0, -0.0, 0.0], np.float32)
    np.testing.assert_array_equal(np.signbit(lax.sort(x)), [False, True, False])


def test_gradient_of_top_k() -> None:
    grad = pb.grad(lambda x: lax.reduce_sum(lax.top_k(x, 1)[0], (0, 1)))(X)
    np.testing.assert_array_equal(grad, X == X.max(1, keepdims=True))


def test_approximate_ones_are_exact() -> None:
    np.testing.assert_array_equal(lax.approx_max_k(X, 2)[0], -np.sort(-X, -1)[:, :2])
    values, where = lax.approx_min_k(X, 2, 0)
    np.testing.assert_array_equal(values, np.sort(X, 0)[:2])
    np.testing.assert_array_equal(where, np.argsort(X, 0)[:2])


ERRORS = [
    (lambda: lax.sort((X, Y[:2])), ["f32[3,4]", "f32[2,4]"]),
    (lambda: lax.sort((X, Y), num_keys=3), ["num_keys", "3"]),
    (lambda: lax.sort(X, 2), ["axis 2"]),
    (lambda: lax.sort(()), ["at least one"]),
    (lambda: lax.top_k(X, 5), ["size 4", "5"]),
    (lambda: lax.top_k(Z, 1), ["complex64"]),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_error_texts(index: int) -> None:
    fun, parts = ERRORS[index]
    harness.check_error((TypeError, ValueError), parts, fun)  # type: ignore[arg-type]
