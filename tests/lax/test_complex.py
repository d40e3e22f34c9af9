"""Parts of complex numbers, conjugate, modulus and sign; JAX's conventions for derivatives."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax

X = np.array([0.3, -1.7, 2.4], np.float32)
Y = np.array([1.9, 0.6, -0.8], np.float32)
Z = np.array([1 + 2j, -3 + 0.5j, 0.2 - 1j], np.complex64)
CT = np.array([1 + 1j, 2 - 1j, 1j], np.complex64)
I = np.array([3, -7, 0], np.int32)

CASES = [
    Case("real", lax.real, (Z,), np.real),
    Case("imag", lax.imag, (Z,), np.imag),
    Case("complex", lax.complex, (X, Y), lambda x, y: (x + 1j * y).astype(np.complex64)),
    Case(
        "complex-broadcast",
        lax.complex_p.bind,
        (X, np.stack([X, Y])),
        lambda x, y: (x + 1j * y).astype(np.complex64),
    ),
    Case("conj", lax.conj, (Z,), np.conj),
    Case("conj-real", lax.conj, (X,), lambda x: x.astype(np.complex64)),
    Case("abs", lax.abs, (X,), np.abs),
    Case("abs-int", lax.abs, (I,), np.abs),
    Case("abs-complex", lax.abs, (Z,), np.abs),
    Case("sign", lax.sign, (X,), np.sign),
    Case("sign-int", lax.sign, (I,), np.sign),
    Case("sign-uint8", lax.sign, (np.array([0, 3, 255], np.uint8),), np.sign),
    Case("sign-complex", lax.sign, (Z,), lambda z: z / np.abs(z), order=0),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_operation(case: Case) -> None:
    harness.check_case(case)


@pytest.mark.parametrize(
    "fun,args",
    [(lax.real, [Z]), (lax.imag, [Z]), (lax.conj, [Z]), (lax.conj, [X]), (lax.complex, [X, Y])],
)
def test_transposes_by_inner_product(fun: object, args: list) -> None:
    harness.check_transpose(fun, args)


def test_tangent_of_one_part_has_the_shape_of_both() -> None:
    fun = lambda x: lax.complex_p.bind(x, np.stack([X, Y]))
    _, t = pb.jvp(fun, (X,), (np.ones(3, np.float32),))
    np.testing.assert_array_equal(t, np.ones((2, 3)))


# What JAX 0.10.2 gives (asked once, the numbers below are the definition of the convention).
def test_cotangents_follow_the_convention() -> None:
    ones = np.ones(3, np.float32)
    cases = [
        (lax.real, (Z,), ones, [np.ones(3)]),
        (lax.imag, (Z,), ones, [np.full(3, -1j)]),
        (lax.conj, (Z,), CT, [np.conj(CT)]),
        (lax.conj, (X,), CT, [np.real(CT)]),
        (lax.complex, (X, Y), CT, [np.real(CT), -np.imag(CT)]),
        (lax.abs, (Z,), ones, [np.conj(Z) / np.abs(Z)]),
        (lax.square, (Z,), CT, [2 * Z * CT]),
    ]
    for fun, args, ct, expected in cases:
        for got, want in zip(pb.vjp(fun, *args)[1](ct), expected, strict=True):
            np.testing.assert_allclose(got, want.astype(np.asarray(got).dtype), rtol=1e-6)


def test_modulus_at_zero_has_derivative_zero() -> None:
    zero = np.zeros((), np.complex64)
    assert complex(pb.vjp(lax.abs, zero)[1](np.float32(1))[0]) == 0


def test_absolute_value_at_zero_has_derivative_one() -> None:
    _, t = pb.jvp(lax.abs, (np.array([-1, 0, -0.0, 2], np.float32),), (np.ones(4, np.float32),))
    np.testing.assert_array_equal(t, [-1, 1, 1, 1])


def test_sign_of_zero_and_nan() -> None:
    out = np.asarray(lax.sign(np.array([-0.0, np.nan, -2], np.float32)))
    assert np.signbit(out[0]) and out[0] == 0
    assert np.isnan(out[1]) and out[2] == -1
    assert complex(lax.sign(np.zeros((), np.complex64))) == 0


def test_most_negative_integer_is_its_own_absolute_value() -> None:
    low = np.array([-128], np.int8)
    np.testing.assert_array_equal(lax.abs(low), low)


def test_holomorphic_gradient() -> None:
    cube = pb.grad(lambda z: lax.integer_pow(z, 3), holomorphic=True)(np.complex64(1 + 2j))
    np.testing.assert_allclose(complex(cube), 3 * (1 + 2j) ** 2, rtol=1e-6)


ERRORS = [
    (lax.real, (X,), TypeError, ["real does not accept dtype float32", "complex64"]),
    (lax.imag, (I,), TypeError, ["imag", "int32"]),
    (lax.conj, (I,), TypeError, ["conj does not accept dtype int32"]),
    (lax.complex, (I, I), TypeError, ["complex", "int32"]),
    (lax.complex, (X.astype(np.float16),) * 2, TypeError, ["float16", "float32, float64"]),
    (lax.abs, (X > 0,), TypeError, ["abs does not accept dtype bool"]),
    (lax.abs, (np.zeros(2, np.uint8),), TypeError, ["abs does not accept dtype uint8"]),
    (lax.sign, (X > 0,), TypeError, ["sign does not accept dtype bool"]),
]


@pytest.mark.parametrize("fun,args,error,parts", ERRORS)
def test_errors_name_the_operands(fun: object, args: tuple, error: type, parts: list) -> None:
    harness.check_error(error, parts, fun, *args)
