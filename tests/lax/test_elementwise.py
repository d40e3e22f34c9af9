"""Arithmetic, powers and rounding, elementwise."""

from __future__ import annotations

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = np.array([0.3, -1.7, 2.4], np.float32)
Y = np.array([1.9, 0.6, -0.8], np.float32)
P = np.array([0.3, 1.7, 2.4], np.float32)
Z = np.array([0.3 + 1j, -1.7 - 0.4j, 2.4 + 0.1j], np.complex64)
W = np.array([1.9 - 0.2j, 0.6 + 1.1j, -0.8 + 2j], np.complex64)
I = np.array([3, -7, 100], np.int32)
J = np.array([2, 3, -9], np.int32)
U8 = np.array([3, 200, 255], np.uint8)
BF = X.astype(ml_dtypes.bfloat16)
HALF = X.astype(np.float16)


def trunc_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)


CASES = [
    Case("neg", lax.neg, (X,), np.negative),
    Case("neg-complex", lax.neg, (Z,), np.negative),
    Case("neg-uint8", lax.neg, (U8,), np.negative),
    Case("neg-bfloat16", lax.neg, (BF,), np.negative, order=0, vmap=False),
    Case("add", lax.add, (X, Y), np.add),
    Case("add-complex", lax.add, (Z, W), np.add),
    Case("add-int32", lax.add, (I, J), np.add),
    Case("add-uint8", lax.add, (U8, U8), np.add, vmap=False),
    Case("add-bfloat16", lax.add, (BF, BF), np.add, order=0, vmap=False),
    Case("add-float16", lax.add, (HALF, HALF), np.add, order=0, vmap=False),
    Case("add-scalar", lax.add, (X, np.float32(2)), np.add),
    Case("sub", lax.sub, (X, Y), np.subtract),
    Case("sub-scalar", lax.sub, (np.float32(2), X), np.subtract),
    Case("sub-int32", lax.sub, (I, J), np.subtract, vmap=False),
    Case("mul", lax.mul, (X, Y), np.multiply),
    Case("mul-complex", lax.mul, (Z, W), np.multiply),
    Case("mul-int32", lax.mul, (I, J), np.multiply, vmap=False),
    Case("mul-scalar", lax.mul, (X, np.float32(2)), np.multiply),
    Case("div", lax.div, (X, Y), np.divide),
    Case("div-complex", lax.div, (Z, W), np.divide),
    Case("div-int32", lax.div, (I, J), trunc_div),
    Case("rem", lax.rem, (np.array([1.2, -6.8, 3.7], np.float32), Y), np.fmod),
    Case("rem-int32", lax.rem, (I, J), np.fmod),
    Case("max", lax.max, (X, Y), np.maximum),
    Case("max-int32", lax.max, (I, J), np.maximum, vmap=False),
    Case("min", lax.min, (X, Y), np.minimum),
    Case("min-bool", lax.min, (X > 0, Y > 0), np.minimum, vmap=False),
    Case("integer_pow-2", lambda x: lax.integer_pow(x, 2), (X,), lambda x: x**2),
    Case("integer_pow-7", lambda x: lax.integer_pow(x, 7), (X,), lambda x: x**7),
    Case("integer_pow-minus-3", lambda x: lax.integer_pow(x, -3), (X,), lambda x: x**-3),
    Case("integer_pow-0", lambda x: lax.integer_pow(x, 0), (X,), np.ones_like),
    Case("integer_pow-1", lambda x: lax.integer_pow(x, 1), (X,), lambda x: x),
    Case("integer_pow-int32", lambda x: lax.integer_pow(x, 3), (I,), lambda x: x**3),
    Case("integer_pow-complex", lambda x: lax.integer_pow(x, 3), (Z,), lambda x: x**3),
    Case("square", lax.square, (X,), np.square),
    Case("square-complex", lax.square, (Z,), np.square),
    Case("square-int32", lax.square, (I,), np.square, vmap=False),
    Case("reciprocal", lax.reciprocal, (X,), np.reciprocal),
    Case("sqrt", lax.sqrt, (P,), np.sqrt),
    Case("sqrt-complex", lax.sqrt, (Z,), np.sqrt),
    Case("rsqrt", lax.rsqrt, (P,), lambda x: 1 / np.sqrt(x)),
    Case("rsqrt-complex", lax.rsqrt, (Z,), lambda x: 1 / np.sqrt(x)),
    Case("cbrt", lax.cbrt, (X,), np.cbrt),
    Case("floor", lax.floor, (X,), np.floor),
    Case("ceil", lax.ceil, (X,), np.ceil),
    Case(
        "round-to-even",
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        (np.array([0.5, 1.5, -2.5], np.float32),),
        np.round,
        order=0,
    ),
    Case(
        "round-away",
        lax.round,
        (np.array([0.5, 1.5, -2.5], np.float32),),
        lambda x: np.trunc(x + np.copysign(0.5, x)),
        order=0,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_operation(case: Case) -> None:
    harness.check_case(case)


BROADCAST = [
    Case("add", lax.add_p.bind, (np.stack([X, Y]), X), np.add),
    Case("add-stretch", lax.add_p.bind, (X[:, None], Y[None, :2]), np.add),
    Case("sub", lax.sub_p.bind, (X, np.stack([X, Y])), np.subtract),
    Case("mul", lax.mul_p.bind, (np.stack([X, Y]), X), np.multiply),
    Case("mul-scalar", lax.mul_p.bind, (np.float32(2), X), np.multiply),
    Case("div", lax.div_p.bind, (np.stack([X, Y]), P), np.divide),
    Case("max", lax.max_p.bind, (np.stack([X, Y]), P - 1), np.maximum),
]


@pytest.mark.parametrize("case", harness.params(BROADCAST))
def test_primitives_broadcast(case: Case) -> None:
    harness.check_case(case)


def test_broadcast_sum_is_one_equation() -> None:
    jaxpr = pb.make_jaxpr(lax.add_p.bind)(np.zeros((2, 3), np.float32), X)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["add"]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalars_and_empty_arrays(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 2, np.float32)
    assert lax.mul(x, x).shape == shape
    assert pb.grad(lambda v: lax.reduce_sum(lax.mul(v, v), range(len(shape))))(x).shape == shape


@pytest.mark.parametrize("fun", [lax.neg, lax.sub, lax.div])
def test_linear_in_the_first_operand(fun: object) -> None:
    first = fun if fun is lax.neg else lambda x: fun(x, Y)
    harness.check_transpose(first if fun is not lax.sub else lambda x: lax.sub(x, x), [X])


def test_derivative_at_ties_is_shared() -> None:
    x = np.array([1, 2, np.nan, np.nan], np.float32)
    y = np.array([1, 1, 1, np.nan], np.float32)
    for fun, expected in ((lax.max, [2, 1, 0, 0]), (lax.min, [2, 3, 0, 0])):
        _, t = pb.jvp(fun, (x, y), (np.full(4, 1, np.float32), np.full(4, 3, np.float32)))
        np.testing.assert_array_equal(t, expected)


def test_maximum_propagates_nan() -> None:
    x = np.array([np.nan, 1], np.float32)
    np.testing.assert_array_equal(lax.max(x, x[::-1].copy()), [np.nan, np.nan])


def test_integer_division_rounds_to_zero_and_by_zero_is_all_ones() -> None:
    np.testing.assert_array_equal(lax.div(np.array([-7, 7, 5], np.int32), 2), [-3, 3, 2])
    np.testing.assert_array_equal(lax.div(np.array([3], np.int32), 0), [-1])
    np.testing.assert_array_equal(lax.rem(np.array([3], np.int32), 0), [3])


def test_power_zero_has_no_derivative_and_no_nan() -> None:
    fun = lambda x: lax.integer_pow(x, 0)
    assert float(pb.grad(fun)(0.0)) == 0.0
    assert float(pb.grad(lambda x: lax.integer_pow(x, 1))(0.0)) == 1.0


def test_python_numbers_take_the_dtype_beside_them() -> None:
    assert lax.add(HALF, 1.0).dtype == np.float16
    assert lax.mul(2.0, BF).dtype == ml_dtypes.bfloat16
    assert lax.add(U8, 1).dtype == np.uint8
    assert lax.add(Z, 1.0).dtype == np.complex64
    assert lax.add(1.0, 2.0).weak_type
    assert not lax.add(1.0, np.float32(2)).weak_type


def test_product_in_another_dtype() -> None:
    out = lax.mul(np.full(2, 200, np.uint8), np.full(2, 200, np.uint8), out_dtype=np.int32)
    np.testing.assert_array_equal(out, [40000, 40000])
    assert out.dtype == np.int32


def test_complex_numbers_are_ordered_by_parts() -> None:
    z = np.array([1 + 2j, 1 - 2j, 3], np.complex64)
    w = np.array([1 + 3j, 0, 3 - 1j], np.complex64)
    np.testing.assert_array_equal(lax.max(z, w), [1 + 3j, 1 - 2j, 3])
    np.testing.assert_array_equal(lax.min(z, w), [1 + 2j, 0, 3 - 1j])


ERRORS = [
    (lax.add, (X, I), TypeError, ["add", "same dtypes", "float32[3]", "int32[3]", "jnp.add"]),
    (lax.add, (X, 1), TypeError, ["same dtypes", "float32, int32"]),
    (lax.add, (X, np.zeros((3, 3), np.float32)), TypeError, ["number of dimensions", "[3,3]"]),
    (lax.add, (X, X[:2]), TypeError, ["incompatible shapes", "float32[3]", "float32[2]"]),
    (lax.add, (X > 0, X > 0), TypeError, ["add does not accept dtype bool", "astype"]),
    (lax.add, ([1.0], X), TypeError, ["add", "argument 0", "jnp.asarray"]),
    (lax.neg, (X > 0,), TypeError, ["neg does not accept dtype bool"]),
    (lax.rem, (Z, W), TypeError, ["rem does not accept dtype complex64"]),
    (lax.floor, (I,), TypeError, ["floor does not accept dtype int32", "floating"]),
    (lax.sqrt, (I,), TypeError, ["sqrt does not accept dtype int32"]),
    (lax.cbrt, (Z,), TypeError, ["cbrt does not accept dtype complex64"]),
    (lax.integer_pow, (I, -2), TypeError, ["negative powers", "int32[3]"]),
    (lax.integer_pow, (X, 2.5), TypeError, ["2.5", "lax.pow"]),
    (lax.integer_pow, (X > 0, 2), TypeError, ["bool"]),
    (lax.round, (X, 7), ValueError, ["7", "RoundingMethod"]),
    (lax.sqrt, ("a",), TypeError, ["sqrt", "'a'", "str"]),
    (lax.sqrt, (None,), TypeError, ["sqrt", "NoneType"]),
    (lax.Tolerance, (), ValueError, ["At least one"]),
    (lax.Tolerance, (1.0, 2.0, -3), ValueError, ["non-negative"]),
    (lambda: lax.sqrt(X, accuracy="best"), (), NotImplementedError, ["accuracy", "'best'"]),
]


@pytest.mark.parametrize("fun,args,error,parts", ERRORS)
def test_errors_name_the_operands(fun: object, args: tuple, error: type, parts: list) -> None:
    harness.check_error(error, parts, fun, *args)


@pytest.mark.parametrize("accuracy", [lax.AccuracyMode.HIGHEST, lax.Tolerance(rtol=1e-6)])
def test_accuracy_is_a_parameter(accuracy: object) -> None:
    out = lax.sqrt(P, accuracy=accuracy)
    np.testing.assert_allclose(out, np.sqrt(P), 1e-6)
    grad = pb.grad(lambda x: lax.sqrt(x, accuracy=accuracy))(4.0)
    assert float(grad) == 0.25
    assert lax.Tolerance(rtol=1e-6) == lax.Tolerance(rtol=1e-6)
