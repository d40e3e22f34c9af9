"""Dtypes: promotion against the table of the real jax's answers, canonical forms, kinds, limits."""

import json
import pathlib
import pickle
import timeit
import warnings

import numpy as np
import pytest

import pullback
from pullback.core import dtypes
from pullback.core.aval import make_aval
from pullback.core.config import Scope, config, enable_x64, numpy_dtype_promotion

TABLE = json.loads((pathlib.Path(__file__).parent / "data" / "promotion.json").read_text())
WEAK = {"int*": 1, "float*": 1.0, "complex*": 1j, "bool*": True}


def operand(name):
    return WEAK[name] if name in WEAK else dtypes.dtype(name)


def outcome(*names):
    try:
        dtype, weak = dtypes.result_type(*map(operand, names), return_weak_type_flag=True)
    except dtypes.TypePromotionError:
        return "TypePromotionError"
    return [dtype.name, weak]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("group", ["pairs", "triples"])
def test_promotion_is_jax(x64, group):
    with enable_x64(x64):
        wrong = [
            (names, expected, outcome(*names))
            for *names, expected in TABLE[f"x64={x64}"][group]
            if outcome(*names) != expected
        ]
    assert wrong == []


@pytest.mark.parametrize("x64", [False, True])
def test_strict_promotion_is_jax(x64):
    with enable_x64(x64), numpy_dtype_promotion("strict"):
        wrong = [
            (names, expected, outcome(*names))
            for *names, expected in TABLE[f"x64={x64}"]["strict"]
            if outcome(*names) != expected
        ]
    assert wrong == []


@pytest.mark.parametrize("x64", [False, True])
def test_common_type_of_avals_agrees_with_result_type(x64):
    with enable_x64(x64):
        for a in TABLE["names"]:
            for b in [*TABLE["names"], "int*", "float*", "complex*"]:
                avals = []
                for n in (a, b):
                    dtype, weak = dtypes.dtype_and_weak(operand(n))
                    avals.append(make_aval((), dtypes.canonicalize_dtype(dtype), weak))
                expected = outcome(a, b)
                if expected == "TypePromotionError":
                    with pytest.raises(dtypes.TypePromotionError):
                        dtypes.common_type(avals)
                else:
                    dtype, weak = dtypes.common_type(avals)
                    assert [dtype.name, weak] == expected, (a, b)


@pytest.mark.parametrize("x64", [False, True])
def test_canonical_dtype_is_jax(x64):
    with enable_x64(x64):
        for name, expected in TABLE[f"x64={x64}"]["canonical"]:
            assert dtypes.canonicalize_dtype(name).name == expected
            assert dtypes.canonicalize_dtype(dtypes.dtype(name)).name == expected
            assert dtypes.canonicalize_dtype(dtypes.dtype(name).type).name == expected


@pytest.mark.parametrize("x64", [False, True])
def test_inexact_dtype_is_jax(x64):
    # jax gives 2-bit integers back unchanged, and 64-bit floats even where they do not exist.
    with enable_x64(x64):
        for name, expected in TABLE[f"x64={x64}"]["inexact"]:
            if name not in ("int2", "uint2"):
                found = dtypes.to_inexact_dtype(dtypes.canonicalize_dtype(name))
                assert found == dtypes.canonicalize_dtype(expected)
        assert dtypes.to_inexact_dtype("int2") == np.float32


def test_kinds_are_jax():
    for name, kind, expected in TABLE["issubdtype"]:
        wanted = np.dtype("bool") if kind == "bool" else getattr(np, kind)
        assert dtypes.issubdtype(name, wanted) == expected, (name, kind)
    for name, kind, expected in TABLE["isdtype"]:
        assert dtypes.isdtype(dtypes.dtype(name), kind) == expected, (name, kind)


def test_limits_are_jax():
    for name, fields in TABLE["finfo"].items():
        info = dtypes.finfo(name)
        assert {k: str(getattr(info, k)) for k in fields} == fields
    for name, (low, high, bits) in TABLE["iinfo"].items():
        info = dtypes.iinfo(name)
        assert (int(info.min), int(info.max), int(info.bits)) == (low, high, bits)


def test_limits_of_the_wrong_kind_are_refused():
    with pytest.raises(ValueError, match=r"finfo: int32 .* Instead: iinfo"):
        dtypes.finfo("int32")
    with pytest.raises(ValueError, match=r"iinfo: float32 .* Instead: finfo"):
        dtypes.iinfo("float32")


def test_promote_types():
    assert dtypes.promote_types("int8", "uint8") == np.int16
    assert dtypes.promote_types("float64", "float32") == np.float64
    assert dtypes.promote_types(int, "int8") == np.int8
    assert dtypes.promote_types(float, int) == np.float64
    assert dtypes.promote_types(float, "int8") == np.float64
    f32 = np.dtype(np.float32)
    assert dtypes.promote_types(f32, f32) is f32


def test_promotion_error_names_both_and_says_what_to_do():
    with pytest.raises(dtypes.TypePromotionError) as caught:
        dtypes.promote_types("bfloat16", "float8_e5m2")
    text = str(caught.value)
    assert "bfloat16" in text and "float8_e5m2" in text and "astype" in text
    with numpy_dtype_promotion("strict"), pytest.raises(dtypes.TypePromotionError, match="strict"):
        dtypes.promote_types("int32", "float32")


def test_result_type_of_what_has_no_array_dtype():
    with pytest.raises(TypeError, match="encode them as integers"):
        dtypes.result_type("S3")
    with pytest.raises(TypeError, match="convert to numbers"):
        dtypes.canonicalize_dtype(object)
    with pytest.raises(ValueError, match="at least one"):
        dtypes.result_type()


def test_other_byte_order_becomes_native():
    assert dtypes.canonicalize_dtype(np.dtype(">f4")) == np.float32
    assert dtypes.canonicalize_dtype(np.dtype(">f4")).isnative


def test_requested_64_bits_warn_and_are_shortened():
    with pytest.warns(UserWarning, match=r"zeros: dtype float64 .* float32 is used"):
        assert dtypes.requested_dtype("float64", "zeros") == np.float32
    with pytest.warns(UserWarning):
        assert dtypes.requested_dtype(np.int64, "zeros") == np.int32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dtypes.requested_dtype(float, "zeros") == np.float32
        assert dtypes.requested_dtype("float16", "zeros") == np.float16
        with enable_x64(True):
            assert dtypes.requested_dtype("float64", "zeros") == np.float64
    with Scope({"jax_explicit_x64_dtypes": "error"}), pytest.raises(ValueError, match="float64"):
        dtypes.requested_dtype("float64", "zeros")


def test_python_scalars_follow_x64():
    assert dtypes.python_scalar_dtype(float) == np.float32
    with enable_x64(True):
        assert dtypes.python_scalar_dtype(int) == np.int64
    assert dtypes.python_scalar_dtype(bool) == np.bool_


def test_weakness():
    assert dtypes.is_weakly_typed(1) and dtypes.is_weakly_typed(1.0)
    assert not dtypes.is_weakly_typed(True) and not dtypes.is_weakly_typed(np.float32(1))
    assert dtypes.is_weakly_typed(make_aval((), np.dtype("float32"), True))


def test_names():
    short = {"float32": "f32", "bfloat16": "bf16", "uint8": "u8", "int4": "i4", "bool": "bool"}
    short |= {"complex64": "c64", "float8_e4m3fn": "f8_e4m3fn"}
    assert {n: dtypes.short_name(dtypes.dtype(n)) for n in short} == short
    assert dtypes.name(dtypes.float0) == dtypes.short_name(dtypes.float0) == "float0"


def test_key_dtype():
    key = dtypes.KeyDType("threefry2x32", "fry", (2,))
    assert str(key) == "key<fry>" and key.itemsize == 8
    assert key == pickle.loads(pickle.dumps(key)) and hash(key) == hash(
        pickle.loads(pickle.dumps(key))
    )
    assert dtypes.issubdtype(key, dtypes.prng_key) and dtypes.issubdtype(key, dtypes.extended)
    assert not dtypes.issubdtype(key, np.number)
    assert not dtypes.issubdtype(np.float32, dtypes.prng_key)
    assert make_aval((), key).str_short() == "key<fry>[]"
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) is key


def test_bits_and_scalar_types():
    assert [dtypes.itemsize_bits(n) for n in ("int4", "float8_e5m2", "float32")] == [4, 8, 32]
    assert dtypes.scalar_type_of("bfloat16") is float
    assert dtypes.scalar_type_of(np.uint8(1)) is int
    assert dtypes.scalar_type_of(True) is bool


def test_real_and_complex_partners():
    assert dtypes.real_dtype("complex64") == np.float32
    assert dtypes.complex_dtype("bfloat16") == np.complex64
    with enable_x64(True):
        assert dtypes.complex_dtype("float64") == np.complex128


def test_equal_dtypes_promote_without_a_lookup_of_settings():
    f32, i32 = np.dtype("float32"), np.dtype("int32")
    once = min(timeit.repeat(lambda: dtypes.promote_types(f32, f32), number=2000, repeat=20))
    other = min(timeit.repeat(lambda: dtypes.promote_types(f32, i32), number=2000, repeat=20))
    assert once < other


def test_the_setting_is_read_each_time():
    assert not config.jax_enable_x64
    assert dtypes.result_type(1.0) == np.float32
    with enable_x64(True):
        assert dtypes.result_type(1.0) == np.float64
    assert dtypes.result_type(1.0) == np.float32


def test_text_of_a_type_of_an_array():
    aval = pullback.typeof(pullback.numpy.ones((2, 3)))
    assert (str(aval), repr(aval)) == ("float32[2,3]", "ShapedArray(float32[2,3])")
    assert str(pullback.typeof(1.0)) == "~float32[]"
