"""Running sums, products, extrema and log-sum-exps."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = harness.rng(0).normal(size=(5, 2)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)
I = np.array([3, -7, 5, 5, 8], np.int32)
BF = X.astype(ml_dtypes.bfloat16)
E = np.zeros((0, 3), np.float32)
INF = np.array([-np.inf, -np.inf, 1.0, -np.inf, 2.0], np.float32)


def backwards(ufunc: np.ufunc) -> object:
    return lambda x: ufunc.accumulate(x[::-1], 0)[::-1]


ROWS = [
    ("cumsum", lax.cumsum, np.add),
    ("cumprod", lax.cumprod, np.multiply),
    ("cummax", lax.cummax, np.maximum),
    ("cummin", lax.cummin, np.minimum),
    ("cumlogsumexp", lax.cumlogsumexp, np.logaddexp),
]
CASES = [
    case
    for name, fun, ufunc in ROWS
    for case in (
        Case(name, fun, (X,), ufunc.accumulate),
        Case(f"{name}-reverse", lambda x, f=fun: f(x, 0, True), (X,), backwards(ufunc), vmap=False),
        Case(
            f"{name}-axis",
            lambda x, f=fun: f(x, -1),
            (X,),
            lambda x, u=ufunc: u.accumulate(x, 1),
            vmap=False,
        ),
        Case(f"{name}-empty", fun, (E,), lambda x: x, vmap=False, order=1),
        Case(f"{name}-bf16", fun, (BF,), ufunc.accumulate, order=0, vmap=False),
    )
] + [
    Case("cumsum-complex", lax.cumsum, (C,), lambda x: np.cumsum(x, 0)),
    Case("cumprod-complex", lax.cumprod, (C,), lambda x: np.cumprod(x, 0)),
    Case("cumsum-int", lax.cumsum, (I,), lambda x: np.cumsum(x, dtype=x.dtype)),
    Case("cummax-int", lax.cummax, (I,), np.maximum.accumulate),
    Case(
        "cumprod-zeros",
        lax.cumprod,
        (np.array([2, 0, 3, 0, 4], np.float32),),
        lambda x: np.cumprod(x),
    ),
    Case("cumlogsumexp-inf", lax.cumlogsumexp, (INF,), np.logaddexp.accumulate, order=0),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_case(case: Case) -> None:
    harness.check_case(case)


def test_log_sum_exp_has_finite_slopes_at_infinity() -> None:
    grad = np.asarray(pb.grad(lambda x: lax.cumlogsumexp(x)[-1])(INF))
    weights = np.exp(INF - np.logaddexp.reduce(INF))
    np.testing.assert_allclose(grad, weights, rtol=1e-6)


def test_long_axis() -> None:
    x = harness.rng(3).normal(size=1000).astype(np.float32)
    np.testing.assert_allclose(lax.cumsum(x), np.cumsum(x), rtol=1e-4, atol=1e-4)
    slope = pb.grad(lambda x: lax.reduce_sum(lax.cumsum(x), (0,)))(x)
    np.testing.assert_array_equal(slope, np.arange(1000, 0, -1))


def test_errors() -> None:
    harness.check_error(ValueError, ["axis 2", "dimension 2"], lax.cumsum, X, 2)
    harness.check_error(TypeError, ["cummax", "complex64"], lax.cummax, C)
