"""Conversions of dtype, bits, precision; copies and stop_gradient."""

from __future__ import annotations

import itertools
import warnings

import harness
import ml_dtypes
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax
from pullback.core.config import enable_x64

X = np.array([0.3, -1.7, 2.4], np.float32)
Z = np.array([1 + 2j, -3 + 0.5j, 0.2 - 1j], np.complex64)
I = np.array([3, -7, 100], np.int32)

DTYPES = [
    np.dtype(d)
    for d in (
        bool,
        np.int8,
        np.uint8,
        np.int32,
        np.uint16,
        np.float16,
        ml_dtypes.bfloat16,
        np.float32,
        np.complex64,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.int4,
    )
]


def to(dtype: object) -> object:
    return lambda x: lax.convert_element_type(x, dtype)


CASES = [
    Case("to-int32", to(np.int32), (X,), lambda x: np.trunc(x).astype(np.int32)),
    Case("to-float16", to(np.float16), (X,), lambda x: x, order=0),
    Case("to-bool", to(bool), (X,), lambda x: x != 0),
    Case("to-complex64", to(np.complex64), (X,), lambda x: x.astype(np.complex64), order=0),
    Case("int-to-float", to(np.float32), (I,), lambda x: x.astype(np.float32)),
    Case(
        "to-float64-and-back",
        lambda x: to(np.float32)(to(np.float64)(x)),
        (X,),
        lambda x: x,
        order=0,
        vmap=False,
    ),
    Case(
        "bitcast", lambda x: lax.bitcast_convert_type(x, np.int32), (X,), lambda x: x.view(np.int32)
    ),
    Case(
        "bitcast-narrower",
        lambda x: lax.bitcast_convert_type(x, np.int8),
        (X,),
        lambda x: x.view(np.int8).reshape(3, 4),
    ),
    Case(
        "bitcast-wider",
        lambda x: lax.bitcast_convert_type(x, np.int32),
        (np.arange(12, dtype=np.int8).reshape(3, 4),),
        lambda x: x.view(np.int32)[:, 0],
    ),
    Case(
        "reduce_precision",
        lambda x: lax.reduce_precision(x, 5, 10),
        (X,),
        lambda x: x.astype(np.float16).astype(np.float32),
        order=0,
    ),
    Case("copy", lax.copy_p.bind, (X,), lambda x: x),
]


@pytest.mark.filterwarnings("ignore:convert_element_type")
@pytest.mark.parametrize("case", harness.params(CASES))
def test_operation(case: Case) -> None:
    harness.check_case(case)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_dtype_converts_to_every_other(source: np.dtype) -> None:
    values = np.array([0, 1, 3], np.float32).astype(source)
    targets = [d for d in DTYPES if not (source.kind == "c" and d.kind != "c")]
    results = pb.jit(lambda x: [lax.convert_element_type(x, d) for d in targets])(values)
    for target, out in zip(targets, results, strict=True):
        assert out.dtype == target
        expected = (
            values.real.astype(np.float32).astype(target) if target.kind != "b" else values != 0
        )
        np.testing.assert_array_equal(
            harness.to_numpy(out).astype(np.complex64), expected.astype(np.complex64)
        )


def test_floats_become_integers_by_saturation() -> None:
    x = np.array([-0.5, 2.5, np.nan, np.inf, -np.inf, 1e20], np.float32)
    top, low = 2**31 - 1, -(2**31)
    np.testing.assert_array_equal(to(np.int32)(x), [0, 2, 0, top, low, top])
    y = np.array([-0.5, 2.5, np.nan, np.inf, 300, -3], np.float32)
    np.testing.assert_array_equal(to(np.uint8)(y), [0, 2, 0, 255, 255, 0])


def test_python_types_mean_the_default_dtypes() -> None:
    assert lax.convert_element_type(I, float).dtype == np.float32
    assert lax.convert_element_type(X, int).dtype == np.int32
    assert not lax.convert_element_type(1.0, np.float32).weak_type
    with enable_x64(True):
        assert lax.convert_element_type(I, float).dtype == np.float64


def test_large_python_integers_convert_straight() -> None:
    out = lax.convert_element_type(2**31, np.uint32)
    assert out.dtype == np.uint32 and int(out) == 2**31
    assert int(lax.convert_element_type(-1, np.uint8)) == 255
    with pytest.raises(OverflowError):
        lax.convert_element_type(2**40, np.uint8)


def test_conversion_to_the_same_dtype_is_the_same_array() -> None:
    x = lax.neg(X)
    assert lax.convert_element_type(x, np.float32) is x
    assert not lax.convert_element_type(lax.neg(1.0), np.float32).weak_type


def test_complex_to_real_warns() -> None:
    with pytest.warns(np.exceptions.ComplexWarning):
        out = lax.convert_element_type(Z, np.float32)
    np.testing.assert_array_equal(out, Z.real)


def test_derivative_of_conversions() -> None:
    half = pb.grad(lambda x: to(np.float32)(to(np.float16)(x)))(1.3)
    assert half.dtype == np.float32 and float(half) == 1.0
    through_int = pb.grad(lambda x: to(np.float32)(to(np.int32)(x)))(1.3)
    assert float(through_int) == 0.0
    (ct,) = pb.vjp(to(np.complex64), np.float32(1.3))[1](np.complex64(1 + 2j))
    assert ct.dtype == np.float32 and float(ct) == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (ct,) = pb.vjp(to(np.float32), np.complex64(1.3 + 1j))[1](np.float32(3))
    assert ct.dtype == np.complex64 and complex(ct) == 3


def test_bits_have_no_derivative() -> None:
    def same(x: object) -> object:
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, np.int32), np.float32)

    assert float(same(1.5)) == 1.5
    assert float(pb.grad(same)(1.5)) == 0.0


def test_reduce_precision_passes_tangents_on() -> None:
    out, t = pb.jvp(lambda x: lax.reduce_precision(x, 5, 3), (1.3,), (1.3,))
    assert float(out) == 1.25 and float(t) == 1.25


def test_stop_gradient() -> None:
    assert float(pb.grad(lambda x: lax.mul(lax.stop_gradient(x), x))(3.0)) == 3.0
    tree = lax.stop_gradient({"a": X, "b": (I, None)})
    assert set(tree) == {"a", "b"} and tree["b"][1] is None
    np.testing.assert_array_equal(tree["a"], X)
    assert float(pb.jit(pb.grad(lambda x: lax.mul(lax.stop_gradient(x), x)))(3.0)) == 3.0
    mapped = pb.vmap(pb.grad(lambda x: lax.mul(lax.stop_gradient(x), x)))(X)
    np.testing.assert_array_equal(mapped, X)


def test_stop_gradient_stops_every_order() -> None:
    grad = pb.grad(pb.grad(lambda x: lax.mul(lax.stop_gradient(lax.mul(x, x)), x)))
    assert float(grad(3.0)) == 0.0


@pytest.mark.parametrize("pair", itertools.permutations([np.int32, np.uint32, np.float32], 2))
def test_bitcast_round_trip(pair: tuple) -> None:
    bits = np.array([0, 1, 0x3F800000], np.uint32).view(pair[0])
    back = lax.bitcast_convert_type(lax.bitcast_convert_type(bits, pair[1]), pair[0])
    np.testing.assert_array_equal(back, bits)


ERRORS = [
    (lambda: lax.convert_element_type(X, None), ValueError, ["new_dtype", "None"]),
    (lambda: lax.convert_element_type([1, 2], "float32"), TypeError, ["list", "jnp.asarray"]),
    (lambda: lax.convert_element_type(X, "str"), TypeError, ["dtype"]),
    (lambda: lax.bitcast_convert_type(X, bool), TypeError, ["float32[3]", "bool", "view"]),
    (lambda: lax.bitcast_convert_type(Z, np.float32), TypeError, ["complex64[3]"]),
    (
        lambda: lax.bitcast_convert_type(np.ones((3, 3), np.int16), np.float32),
        ValueError,
        ["int16[3,3]", "float32", "size 2"],
    ),
    (lambda: lax.reduce_precision(X, 0, 3), ValueError, ["exponent_bits", "0"]),
    (lambda: lax.reduce_precision(X, 5, -1), ValueError, ["mantissa_bits", "-1"]),
    (lambda: lax.reduce_precision(I, 5, 3), TypeError, ["reduce_precision", "int32"]),
    (lambda: lax.stop_gradient("x"), TypeError, ["stop_gradient", "'x'"]),
]


@pytest.mark.parametrize("call,error,parts", ERRORS)
def test_errors_say_what_is_wrong(call: object, error: type, parts: list) -> None:
    harness.check_error(error, parts, call)
