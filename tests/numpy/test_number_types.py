"""Booleans as numbers, powers of every pair of dtypes, and Python numbers that a dtype cannot hold."""

from __future__ import annotations

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import nn

MASK = jnp.array([True, False])


@pytest.mark.parametrize(
    ("fun", "want"),
    [
        (lambda b: b % True, [0, 0]),
        (lambda b: True % b, [0, 0]),
        (lambda b: b // True, [1, 0]),
        (lambda b: jnp.divmod(b, True)[0], [1, 0]),
        (lambda b: jnp.divmod(b, True)[1], [0, 0]),
        (lambda b: jnp.fmod(b, b), [0, 0]),
        (lambda b: b << b, [2, 0]),
        (lambda b: b << True, [2, 0]),
        (lambda b: b >> b, [0, 0]),
        (lambda b: b**b, [1, 1]),
        (lambda b: b**2, [1, 0]),
        (lambda b: 2**b, [2, 1]),
        (jnp.square, [1, 0]),
    ],
)
def test_booleans_count_as_integers_of_the_default_type(fun, want):
    for got in (fun(MASK), pullback.jit(fun)(MASK)):
        assert (got.dtype, got.weak_type) == (np.int32, False)
        assert got.tolist() == want


def test_outer_product_of_booleans():
    assert jnp.outer(MASK, MASK).tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("base", ["int8", "uint8", "int32", "uint32", "float16", "float32"])
@pytest.mark.parametrize("exponent", [True, 2, np.int8(2), np.uint8(2), np.int32(2), np.int64(2)])
def test_a_known_integer_exponent_leaves_the_dtype_of_the_base(base, exponent):
    x = jnp.array([3, 1]).astype(base)
    for n in (exponent, jnp.asarray(exponent)):
        got = x**n
        assert (got.dtype, got.weak_type) == (x.dtype, False)
        assert got.tolist() == [3 ** int(exponent), 1]


@pytest.mark.parametrize("exponent", ["int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize(("base", "dtype"), [(2.0, "float32"), (2j, "complex64")])
def test_an_integer_array_as_exponent_makes_the_dtype_definite(base, dtype, exponent):
    n = jnp.array([1, 0]).astype(exponent)
    for b in (base, jnp.asarray(base)):
        for got in (b**n, pullback.jit(jnp.power)(b, n)):
            assert (got.dtype, got.weak_type) == (np.dtype(dtype), False)
            np.testing.assert_allclose(got, [base, 1.0], atol=1e-6)
    assert (base ** jnp.asarray(3)).weak_type


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(-1, "uint8"), (300, "uint8"), (200, "int8"), (1e10, "int32"), (2**32, "uint32")],
)
def test_a_number_that_an_integer_dtype_does_not_hold(value, dtype):
    for make in (jnp.array, jnp.asarray):
        with pytest.raises(OverflowError, match="out of bounds for u?int"):
            make(value, dtype)
    with pytest.raises(OverflowError, match="out of bounds for u?int"):
        getattr(jnp, dtype)(value)


def test_a_number_at_the_edges_of_an_integer_dtype():
    assert jnp.uint32(2**32 - 1).item() == 2**32 - 1
    assert jnp.array(-128, "int8").item() == -128
    assert jnp.array(1.7, "int8").item() == 1
    with pytest.raises(ValueError, match="NaN"):
        jnp.array(float("nan"), int)


def test_filling_wraps_around():
    assert jnp.full(2, 300, "uint8").tolist() == [44, 44]
    assert jnp.full_like(jnp.ones(2, "uint8"), -1).tolist() == [255, 255]
    assert pullback.jit(lambda: jnp.full(2, -1, "uint8"))().tolist() == [255, 255]


def test_a_complex_number_for_a_real_dtype():
    for call in (
        lambda: jnp.array(2j, float),
        lambda: jnp.float32(2j),
        lambda: jnp.full(2, 2j, "float32"),
        lambda: jnp.full_like(jnp.ones(2), 2j),
        lambda: jnp.full_like(jnp.ones(2, int), 2j),
    ):
        with pytest.raises(TypeError):
            call()


def test_softplus_of_integers_has_a_definite_dtype():
    assert not nn.softplus(jnp.array(3, "int8")).weak_type
