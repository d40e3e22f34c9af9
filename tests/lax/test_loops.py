"""fori_loop, map and associative_scan."""

from __future__ import annotations

import harness
import numpy as np
import pytest
from harness import Case

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

X = np.array([0.3, -0.7, 1.1, 0.5, 2.0], np.float32)


def poly(x):
    return lax.fori_loop(1, 4, lambda i, c: c * x + i, x)


def poly_numpy(x):
    c = x
    for i in range(1, 4):
        c = c * x + np.float32(i)
    return c


CASES = [
    Case("fori_loop", poly, (np.float32(0.6),), poly_numpy, ulps=16),
    Case("map", lambda x: lax.map(jnp.sin, x), (X,), np.sin),
    Case("map in batches", lambda x: lax.map(jnp.sin, x, batch_size=2), (X,), np.sin),
    Case(
        "associative_scan",
        lambda x: lax.associative_scan(jnp.multiply, x),
        (X,),
        np.cumprod,
        ulps=16,
    ),
    Case(
        "associative_scan reversed",
        lambda x: lax.associative_scan(jnp.add, x, reverse=True),
        (X,),
        lambda x: np.cumsum(x[::-1])[::-1],
        ulps=16,
    ),
]


@pytest.mark.parametrize("case", harness.params(CASES))
def test_laws(case):
    harness.check_case(case)


def test_fori_loop_with_known_bounds_is_a_scan():
    jaxpr = pb.make_jaxpr(poly)(1.0).jaxpr
    assert [e.primitive.name for e in jaxpr.eqns] == ["scan"]


def test_fori_loop_with_traced_bounds_is_a_while_loop():
    f = pb.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * x, 1.0))
    assert float(f(3, 2.0)) == 8.0
    with pytest.raises(ValueError, match="Reverse-mode"):
        pb.grad(f, 1)(3, 2.0)
    with pytest.raises(ValueError, match="unroll"):
        pb.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 1.0, unroll=3))(3)


def test_fori_loop_bounds():
    assert int(lax.fori_loop(5, 3, lambda i, c: c + 1, 0)) == 0
    assert int(lax.fori_loop(-2, 3, lambda i, c: c + i, 0)) == 0
    with pytest.raises(TypeError, match="integer"):
        lax.fori_loop(0.0, 3, lambda i, c: c, 0)


def test_map_over_pytrees():
    out = lax.map(lambda p: {"s": p["a"] + p["b"]}, {"a": jnp.arange(3), "b": jnp.ones(3, int)})
    np.testing.assert_array_equal(out["s"], [1, 2, 3])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_associative_scan_sizes(n):
    a = np.arange(1, n + 1, dtype=np.float32)
    np.testing.assert_allclose(lax.associative_scan(jnp.add, a), np.cumsum(a))


def test_associative_scan_keeps_the_order():
    """Affine maps do not commute."""

    def combine(f, g):
        return f[0] * g[0], f[1] * g[0] + g[1]

    a, b = jnp.array([2.0, 3, 4, 5, 6]), jnp.array([1.0, 2, 3, 4, 5])
    forward = lax.associative_scan(combine, (a, b))
    np.testing.assert_allclose(forward[1], [1, 5, 23, 119, 719])
    backward = lax.associative_scan(combine, (a, b), reverse=True)
    np.testing.assert_allclose(backward[1], [719, 359, 119, 29, 5])


def test_associative_scan_along_another_axis():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(lax.associative_scan(jnp.add, x, axis=1), np.cumsum(x, 1))
    with pytest.raises(ValueError, match="same first dimension"):
        lax.associative_scan(lambda a, b: a, (x, x[:1]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bfloat16", "float16", "float32"])
def test_the_index_leaves_the_dtypes_of_the_values(dtype):
    """It has the weak type of Python integers, so int8 + index is int8."""
    zero = jnp.zeros((), dtype)
    for n in (4, np.int64(4), jnp.int32(4)):
        got = lax.fori_loop(0, n, lambda i, total: total + i, zero)
        assert (got.dtype, float(got)) == (zero.dtype, 6.0)
        got = pb.jit(lambda n: lax.fori_loop(0, n, lambda i, total: total + i, zero))(n)
        assert (got.dtype, float(got)) == (zero.dtype, 6.0)
        with pb.disable_jit():
            assert lax.fori_loop(0, n, lambda i, total: total + i, zero).dtype == zero.dtype
    assert lax.fori_loop(0, 4, lambda i, total: total + i, 0).weak_type
    bounds = jnp.int8(0), jnp.int8(4)
    assert pb.jit(lambda a, b: lax.fori_loop(a, b, lambda i, c: c + i, 0))(*bounds).dtype == np.int8


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "int32", "float32"])
def test_a_number_as_the_first_carry_takes_the_dtype_of_what_comes_back(dtype):
    xs = jnp.ones(3, dtype)
    for got in (
        lax.scan(lambda c, x: (c + x, None), 0, xs)[0],
        lax.while_loop(lambda c: c < 3, lambda c: c + xs[0], 0),
        lax.fori_loop(0, 3, lambda i, c: c + xs[0], 0),
    ):
        assert (got.dtype, got.weak_type, float(got)) == (xs.dtype, False, 3.0)


@pytest.mark.parametrize("stop", [3, np.int32(3)])
def test_a_mismatch_in_fori_loop_names_its_body_and_value(stop):
    def body(i, val):
        return {"a": val["a"] > 0}

    run = pb.jit(lambda n: lax.fori_loop(0, n, body, {"a": 0.0}))
    static = lambda n: lax.fori_loop(0, n, body, {"a": 0.0})  # noqa: E731
    for call in (run, static):
        with pytest.raises(TypeError) as caught:
            call(stop)
        text = str(caught.value)
        assert text.startswith("fori_loop body function (body)")
        assert "  val['a'] has type f32[] going in but bool[] coming out" in text


def test_a_leaf_that_becomes_a_container_is_named():
    with pytest.raises(TypeError, match=r"carry c \(first\).*at the root, a leaf .* a tuple of 2"):
        lax.fori_loop(0, 3, lambda i, c: (c, c), 0.0)
    with pytest.raises(TypeError, match=r"at \[1\], a leaf .* against a tuple of 2"):
        lax.scan(lambda c, _: ((c[0], (c[1], c[1])), None), (0.0, 1.0), None, length=2)
    with pytest.raises(TypeError, match=r"at the root, a leaf .* against a tuple of 2"):
        lax.cond(True, lambda v: (v, v), lambda v: v, 1.0)


def test_map_with_batch_size_zero_is_unbatched():
    assert lax.map(lambda v: 2 * v, np.arange(3.0), batch_size=0).tolist() == [0.0, 2.0, 4.0]
