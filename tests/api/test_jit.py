"""jit: signatures, static and donated arguments, stages, nesting, errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp


def test_traced_once_per_signature():
    count = []

    @pb.jit
    def fun(x):
        count.append(1)
        return x * 2

    for _ in range(3):
        assert float(fun(np.float32(3))) == 6.0
    assert len(count) == 1
    fun(np.ones(2, np.float32))
    assert len(count) == 2
    fun(jnp.ones(2))
    assert len(count) == 2


def test_python_scalars_are_traced_as_weak_values():
    count = []

    @pb.jit
    def fun(x):
        count.append(1)
        return x + 1

    assert fun(1.5).weak_type
    assert float(fun(2.5)) == 3.5
    assert len(count) == 1
    assert fun(3).dtype == np.int32
    assert len(count) == 2


def test_static_arguments_by_number_and_name():
    @functools.partial(pb.jit, static_argnums=1)
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert float(power(2.0, 5)) == 32.0
    assert float(power(2.0, n=3)) == 8.0

    @functools.partial(pb.jit, static_argnames=("mode",))
    def fun(x, *, mode="double"):
        return x * 2 if mode == "double" else x

    assert float(fun(2.0)) == 4.0
    assert float(fun(2.0, mode="same")) == 2.0


def test_unhashable_static_argument():
    with pytest.raises(ValueError, match="hashable"):
        pb.jit(lambda x, n: x, static_argnums=1)(1.0, [1])


def test_wrong_argnums_and_names():
    with pytest.raises(ValueError, match="out of range"):
        pb.jit(lambda x: x, static_argnums=3)
    with pytest.raises(ValueError, match="not an argument"):
        pb.jit(lambda x: x, static_argnames="y")


def test_donation_deletes_the_input():
    fun = pb.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(64), jnp.ones(64)
    fun(x, y)
    assert x.is_deleted()
    assert not y.is_deleted()
    with pytest.raises(RuntimeError, match="delet"):
        np.asarray(x)


def test_donation_by_name_and_pytree():
    fun = pb.jit(lambda tree, z: {"a": tree["a"] + z, "b": tree["b"]}, donate_argnames="tree")
    tree = {"a": jnp.ones(64), "b": jnp.zeros(32)}
    fun(tree=tree, z=1.0)
    assert tree["a"].is_deleted()


def test_pytrees_and_keywords():
    @pb.jit
    def fun(tree, *, scale):
        return {"out": [t * scale for t in tree], "none": None}

    out = fun((1.0, np.float32(2)), scale=3.0)
    assert [float(x) for x in out["out"]] == [3.0, 6.0]
    assert out["none"] is None


def test_closed_over_arrays_are_inputs_of_the_program():
    big = jnp.arange(5000.0)
    fun = pb.jit(lambda x: x + big)
    text = fun.lower(np.float32(1)).as_text()
    assert "dense<" not in text
    np.testing.assert_allclose(fun(np.float32(1)), np.arange(5000.0) + 1)
    np.testing.assert_allclose(fun(jnp.float32(2)), np.arange(5000.0) + 2)
    np.testing.assert_allclose(fun(jnp.float32(3)), np.arange(5000.0) + 3)


def test_unused_arguments_are_not_passed():
    fun = pb.jit(lambda x, y, z: x * z)
    for _ in range(3):
        assert float(fun(jnp.float32(2), jnp.ones(3), jnp.float32(4))) == 8.0


def test_results_that_are_inputs_or_constants():
    fun = pb.jit(lambda x, y: (y, x, 3.0, x))
    for _ in range(2):
        assert [float(v) for v in fun(jnp.float32(1), jnp.float32(2))] == [2.0, 1.0, 3.0, 1.0]


def test_stages():
    fun = pb.jit(lambda x, y: jnp.dot(x, y) + 1)
    x = jnp.ones((4, 4))
    traced = fun.trace(x, x)
    assert traced.jaxpr.jaxpr.eqns
    assert traced.out_info.shape == (4, 4)
    lowered = traced.lower()
    assert "stablehlo" in lowered.as_text()
    assert "HloModule" in lowered.as_text("hlo")
    compiled = lowered.compile()
    assert "HloModule" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 100
    assert compiled.memory_analysis().output_size_in_bytes == 64
    np.testing.assert_allclose(compiled(x, x), np.full((4, 4), 5.0))
    with pytest.raises(TypeError, match=r"compiled for f32\[4,4\]"):
        compiled(jnp.ones(3), x)


def test_eval_shape():
    out = pb.eval_shape(lambda x: {"a": jnp.dot(x, x.T)}, pb.ShapeDtypeStruct((3, 2), np.float32))
    assert out["a"] == pb.ShapeDtypeStruct((3, 3), np.float32)


def test_non_array_argument_and_result():
    with pytest.raises(TypeError, match="x is not an array but a str"):
        pb.jit(lambda x: x)("text")
    with pytest.raises(TypeError, match="not a valid array type"):
        pb.jit(lambda x: "text")(1.0)


def test_disable_jit():
    seen = []
    with pb.disable_jit():
        pb.jit(lambda x: seen.append(type(x).__name__) or x)(jnp.float32(1))
    assert seen == ["Array"]


def test_decorated_methods():
    class Model:
        @functools.partial(pb.jit, static_argnums=0)
        def scale(self, x):
            return x * 3

    assert float(Model().scale(2.0)) == 6.0


def test_a_config_change_retraces():
    count = []

    @pb.jit
    def fun(x):
        count.append(1)
        return x

    fun(np.float32(1))
    with pb.enable_x64(True):
        fun(np.float64(1))
    assert len(count) == 2


def test_jit_inside_jit_is_one_equation():
    inner = pb.jit(jnp.sin)
    jaxpr = pb.make_jaxpr(lambda x: inner(x) + inner(x))(1.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["jit", "jit", "add"]
    inlined = pb.jit(jnp.sin, inline=True)
    jaxpr = pb.make_jaxpr(lambda x: inlined(x) * 2.0)(1.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["sin", "mul"]


def test_jit_on_constants_is_recorded_while_tracing():
    inner = pb.jit(jnp.sin)
    c = jnp.float32(0.5)
    inner(c)
    inner(c)
    jaxpr = pb.make_jaxpr(lambda x: x * inner(c))(1.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["jit", "mul"]
