"""Exponentials, logarithms, trigonometric and hyperbolic functions, powers."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = np.array([0.3, -0.7, 0.9], np.float32)
P = np.array([0.3, 1.7, 2.4], np.float32)
Z = np.array([0.3 + 0.5j, -0.7 - 0.4j, 0.9 + 0.1j], np.complex64)
I = np.array([2, 3, -1], np.int32)
LARGE = np.array([-90, 90, 20], np.float32)


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


REAL_AND_COMPLEX = [
    ("exp", np.exp),
    ("exp2", np.exp2),
    ("expm1", np.expm1),
    ("log1p", np.log1p),
    ("logistic", logistic),
    ("sin", np.sin),
    ("cos", np.cos),
    ("tan", np.tan),
    ("sinh", np.sinh),
    ("cosh", np.cosh),
    ("tanh", np.tanh),
    ("asin", np.arcsin),
    ("acos", np.arccos),
    ("atan", np.arctan),
    ("asinh", np.arcsinh),
    ("atanh", np.arctanh),
]

CASES = [
    *[Case(name, getattr(lax, name), (X,), ref) for name, ref in REAL_AND_COMPLEX],
    *[
        Case(f"{name}-complex", getattr(lax, name), (Z,), ref, ulps=16, order=1, vmap=False)
        for name, ref in REAL_AND_COMPLEX
    ],
    *[
        Case(
            f"{name}-bfloat16",
            getattr(lax, name),
            (X.astype(ml_dtypes.bfloat16),),
            ref,
            order=0,
            vmap=False,
        )
        for name, ref in REAL_AND_COMPLEX
    ],
    Case("log", lax.log, (P,), np.log),
    Case("log-complex", lax.log, (Z,), np.log),
    Case("acosh", lax.acosh, (P + 1,), np.arccosh),
    Case("acosh-complex", lax.acosh, (Z,), np.arccosh, ulps=16, order=1, vmap=False),
    Case("atan2", lax.atan2, (X, P), np.arctan2),
    Case("atan2-quadrants", lax.atan2, (X, -P), np.arctan2),
    Case("pow", lax.pow, (P, X), np.power),
    Case("pow-scalar", lax.pow, (P, np.float32(1.5)), np.power),
    Case("pow-integers", lax.pow, (X, I), np.power),
    Case("pow-complex", lax.pow, (Z, Z), np.power, ulps=32, order=1, vmap=False),
    Case("pow-broadcast", lax.pow_p.bind, (np.stack([P, P]), X), np.power),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_operation(case: Case) -> None:
    harness.check_case(case)


@pytest.mark.parametrize("name", ["exp", "tanh", "logistic", "expm1", "log1p", "asinh"])
def test_no_nan_far_out(name: str) -> None:
    fun = getattr(lax, name)
    x = np.abs(LARGE) if name == "log1p" else LARGE
    out, t = pb.jvp(fun, (x,), (np.ones_like(x),))
    assert not np.isnan(out).any()
    assert not np.isnan(t).any()


def test_exp2_of_integers_is_exact() -> None:
    x = np.arange(-20, 21, dtype=np.float32)
    np.testing.assert_array_equal(lax.exp2(x), np.exp2(x))


@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "acos", "atanh", "acosh", "rsqrt"])
def test_branch_of_complex_functions(name: str) -> None:
    z = np.array([-2, 2 + 1e-3j, -0.5 + 1e-3j, 1j, 3 - 2j, -2 - 1e-3j], np.complex64)
    numpy_name = {"asin": "arcsin", "acos": "arccos", "atanh": "arctanh", "acosh": "arccosh"}
    if name == "rsqrt":
        expected = 1 / np.sqrt(z)
    else:
        expected = getattr(np, numpy_name.get(name, name))(z)
    np.testing.assert_allclose(getattr(lax, name)(z), expected, rtol=2e-5, atol=2e-6)


def test_power_at_zero() -> None:
    x = np.array([0, 0, 0, 2, -2], np.float32)
    y = np.array([-1, 0, 1, 0, 2], np.float32)
    np.testing.assert_array_equal(lax.pow(x, y), [np.inf, 1, 0, 1, 4])
    ones = np.ones_like(x)
    _, by_x = pb.jvp(lambda v: lax.pow(v, y), (x,), (ones,))
    np.testing.assert_array_equal(np.asarray(by_x)[1:], [0, 1, 0, -4])
    _, by_y = pb.jvp(lambda v: lax.pow(x, v), (y,), (ones,))
    np.testing.assert_array_equal(np.asarray(by_y)[1:4], [0, 0, np.log(np.float32(2))])


def test_power_by_zero_is_differentiable_twice_in_the_exponent() -> None:
    mixed = pb.grad(lambda y: pb.grad(lambda x: lax.pow(x, y))(2.0))(0.0)
    np.testing.assert_allclose(mixed, 0.5, rtol=1e-6)


def test_sine_and_cosine_on_the_imaginary_axis() -> None:
    z = np.array([complex(0, np.inf), 1j], np.complex64)
    sine, cosine = np.asarray(lax.sin(z)), np.asarray(lax.cos(z))
    assert sine[0].real == 0 and sine[0].imag == np.inf
    assert cosine[0].real == np.inf and cosine[0].imag == 0
    np.testing.assert_allclose([sine[1], cosine[1]], [np.sin(1j), np.cos(1j)], rtol=1e-6)


ERRORS = [
    (lax.sin, (1,), TypeError, ["sin does not accept dtype int32", "float32"]),
    (lax.exp, (X > 0,), TypeError, ["exp does not accept dtype bool"]),
    (lax.atan2, (X, X.astype(np.float16)), TypeError, ["same dtypes", "arctan2"]),
    (lax.pow, (I, X), TypeError, ["pow does not accept dtype int32", "operand x"]),
    (lax.pow, (X, X > 0), TypeError, ["operand y", "bool"]),
    (lax.pow, (X, X.astype(np.float16)), TypeError, ["same dtypes", "float16"]),
    (lax.sin, ([1.0],), TypeError, ["sin", "list"]),
]


@pytest.mark.parametrize("fun,args,error,parts", ERRORS)
def test_errors_name_the_operands(fun: object, args: tuple, error: type, parts: list) -> None:
    harness.check_error(error, parts, fun, *args)
