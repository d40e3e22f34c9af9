"""The laws of transformations, and their nesting: grad, jvp, vmap and jit in any order."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import lax
from pullback.core import errors
from pullback.core.jaxpr import check_jaxpr


def f(x):
    return lax.sin(x) * x + lax.exp(-x)


def numeric(fun, x, eps=1e-3):
    """Central difference in float64 arithmetic of the results."""
    return (float(fun(x + eps)) - float(fun(x - eps))) / (2 * eps)


def f_np(x):
    return np.sin(x) * x + np.exp(-x)


def df_np(x):
    return np.cos(x) * x + np.sin(x) - np.exp(-x)


def d2f_np(x):
    return -np.sin(x) * x + 2 * np.cos(x) + np.exp(-x)


WRAP = {
    "jit": pb.jit,
    "grad": pb.grad,
    "jvp": lambda g: lambda x: pb.jvp(g, (x,), (np.float32(1),))[1],
}


@pytest.mark.parametrize("names", list(itertools.product(WRAP, repeat=3)), ids="-".join)
def test_nesting_of_scalar_transformations(names):
    order = sum(n != "jit" for n in names)
    fun = f
    for name in names:
        fun = WRAP[name](fun)
    x = np.float32(0.7)
    third = -3 * np.sin(x) - np.cos(x) * x - np.exp(-x)
    want = [f_np(x), df_np(x), d2f_np(x), third][order]
    np.testing.assert_allclose(np.asarray(fun(x)), want, rtol=2e-5)


@pytest.mark.parametrize("inner", [("grad",), ("grad", "jit"), ("jit", "grad"), ("jvp", "grad")])
@pytest.mark.parametrize("outer", ["", "jit"])
def test_vmap_of_transformations_is_a_loop(inner, outer):
    fun = f
    for name in inner:
        fun = WRAP[name](fun)
    mapped = pb.vmap(fun)
    if outer:
        mapped = pb.jit(mapped)
    xs = np.linspace(0.1, 1, 4).astype(np.float32)
    np.testing.assert_allclose(mapped(xs), [float(fun(x)) for x in xs], rtol=1e-5)


def test_grad_of_vmap():
    xs = np.linspace(0.1, 1, 4).astype(np.float32)
    g = pb.grad(lambda v: lax.reduce_sum(pb.vmap(f)(v), axes=(0,)))(xs)
    np.testing.assert_allclose(g, df_np(xs), rtol=1e-5)


def test_perturbation_confusion():
    g = pb.grad(lambda x: x * pb.grad(lambda y: x * y)(2.0))(3.0)
    assert float(g) == 6.0


def test_grad_of_python_control_flow():
    def loop(x):
        while x > 0.1:
            x = x * 0.5 if x > 1 else x * x * 0.7
        return x

    x = np.float32(3.0)
    np.testing.assert_allclose(pb.grad(loop)(x), numeric(loop, x), rtol=1e-2)
    second = pb.grad(pb.grad(loop))(x)
    np.testing.assert_allclose(second, numeric(pb.grad(loop), x), rtol=1e-2)


def test_jit_closes_over_an_outer_tracer():
    def outer(x):
        return pb.grad(pb.jit(lambda y: lax.sin(y) * x))(x)

    np.testing.assert_allclose(
        pb.grad(outer)(np.float32(0.7)), np.cos(0.7) - 0.7 * np.sin(0.7), rtol=1e-5
    )


def test_first_and_later_gradients_agree():
    def fun(x):
        return lax.sin(x) * lax.tanh(x) * 1.7

    g = pb.grad(fun)
    first = np.asarray(g(np.float32(0.3)))
    for _ in range(3):
        np.testing.assert_allclose(g(np.float32(0.3)), first, rtol=1e-6)
    np.testing.assert_allclose(g(np.float32(0.9)), numeric(fun, np.float32(0.9)), rtol=1e-3)


def test_gradient_depends_on_residual_values_not_only_structure():
    g = pb.grad(lambda x, c: lax.sin(x) * c)
    for c in (1.0, 2.0, 5.0):
        np.testing.assert_allclose(
            g(np.float32(0.3), np.float32(c)), np.cos(np.float32(0.3)) * c, rtol=1e-6
        )


def test_pullback_may_be_called_twice():
    _, pull = pb.vjp(lambda x, y: x * y, np.float32(2), np.float32(3))
    for scale in (1.0, 2.0, 1.0):
        assert [float(c) for c in pull(np.float32(scale))] == [3 * scale, 2 * scale]


def test_dot_product_of_jvp_and_vjp():
    rng = np.random.default_rng(0)
    x, t, ct = rng.normal(size=(3, 5)).astype(np.float32)

    def fun(v):
        return lax.sin(v) * lax.rev(v, (0,))

    _, tangent = pb.jvp(fun, (x,), (t,))
    _, pull = pb.vjp(fun, x)
    np.testing.assert_allclose(
        np.dot(ct, np.asarray(tangent)), np.dot(np.asarray(pull(ct)[0]), t), rtol=1e-5
    )


def test_jacobians_and_hessian():
    x = np.linspace(0.1, 1, 3).astype(np.float32)
    want = np.diag(df_np(x))
    np.testing.assert_allclose(pb.jacrev(f)(x), want, rtol=1e-5)
    np.testing.assert_allclose(pb.jacfwd(f)(x), want, rtol=1e-5)
    h = pb.hessian(lambda v: lax.reduce_sum(f(v), axes=(0,)))(x)
    np.testing.assert_allclose(h, np.diag(d2f_np(x)), rtol=1e-5, atol=1e-6)


def test_a_hessian_of_many_leaves_is_one_pass():
    def f(parts):
        y = sum(lax.reduce_sum(x * x, axes=(0,)) for x in parts.values())
        for _ in range(30):
            y = lax.sin(y)
        return y

    def n_equations(n):
        parts = {str(i): np.ones(2, np.float32) for i in range(n)}
        return len(pb.make_jaxpr(pb.hessian(f))(parts).jaxpr.eqns)

    # A further leaf adds its own operations and blocks, but no pass of the whole program.
    assert n_equations(4) - n_equations(3) < 60


def test_jacobians_of_pytrees():
    def fun(tree):
        return {"s": tree["a"] * tree["b"], "a2": lax.sin(tree["a"])}

    tree = {"a": np.float32([0.1, 0.2]), "b": np.float32(3.0)}
    for jac in (pb.jacrev, pb.jacfwd):
        out = jac(fun)(tree)
        np.testing.assert_allclose(out["s"]["a"], 3 * np.eye(2), rtol=1e-6)
        np.testing.assert_allclose(out["s"]["b"], tree["a"], rtol=1e-6)
        np.testing.assert_allclose(out["a2"]["b"], np.zeros(2))


def test_linearize_and_linear_transpose():
    y, f_jvp = pb.linearize(f, np.float32(0.7))
    np.testing.assert_allclose(f_jvp(np.float32(2.0)), 2 * df_np(0.7), rtol=1e-5)
    np.testing.assert_allclose(y, f_np(0.7), rtol=1e-6)
    transposed = pb.linear_transpose(lambda x: x * 3.0, np.float32(1))
    assert float(transposed(np.float32(2))[0]) == 6.0


def test_integer_inputs_have_float0_cotangents():
    _, pull = pb.vjp(lambda x, n: x * lax.convert_element_type(n, np.float32), 2.0, 3)
    ct_x, ct_n = pull(np.float32(1))
    assert float(ct_x) == 3.0
    assert ct_n.dtype == pb.float0


def test_value_and_grad_with_aux():
    (value, aux), g = pb.value_and_grad(lambda x: (x * x, {"x": x}), has_aux=True)(3.0)
    assert (float(value), float(aux["x"]), float(g)) == (9.0, 3.0, 6.0)
    g, aux = pb.grad(lambda x: (x * x, 7), has_aux=True)(3.0)
    assert float(g) == 6.0
    assert aux == 7


def test_grad_argnums():
    def fun(a, b, c):
        return a * b * c

    assert [float(x) for x in pb.grad(fun, argnums=(0, 2))(2.0, 3.0, 4.0)] == [12.0, 6.0]
    assert float(pb.grad(fun, argnums=-1)(2.0, 3.0, 4.0)) == 6.0


def test_leaked_tracer_raises_at_first_use():
    leaked = []

    def fun(x):
        leaked.append(x)
        return x * x

    for transform in (pb.grad, pb.jit, lambda g: pb.vmap(g, in_axes=0)):
        leaked.clear()
        transform(fun)(np.ones(2, np.float32) if transform not in (pb.grad, pb.jit) else 1.0)
        with pytest.raises(errors.UnexpectedTracerError):
            lax.sin(leaked[0])


def test_bool_of_a_traced_value():
    with pytest.raises(errors.TracerBoolConversionError):
        pb.jit(lambda x: x if x > 0 else -x)(1.0)


def test_another_thread_starts_at_evaluation():
    results = []

    def work():
        results.append(float(pb.grad(f)(np.float32(0.7))))

    def fun(x):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * x

    pb.grad(fun)(1.0)
    np.testing.assert_allclose(results, [df_np(0.7)], rtol=1e-5)


def test_trace_is_restored_after_an_error():
    def bad(x):
        raise ValueError("inside")

    for transform in (pb.grad, pb.jit, pb.vmap):
        with pytest.raises(ValueError, match="inside"):
            transform(bad)(np.ones(2, np.float32))
    assert float(lax.exp(np.float32(0.0))) == 1.0


@pytest.mark.parametrize(
    "fun",
    [f, pb.grad(f), pb.jit(f), pb.grad(pb.jit(f)), lambda x: pb.jvp(pb.jit(f), (x,), (x,))],
)
def test_traced_programs_are_well_formed(fun):
    check_jaxpr(pb.make_jaxpr(fun)(0.7).jaxpr)


def test_residuals_die_with_the_pullback():
    x = pb.device_put(np.ones(4, np.float32))
    y, pull = pb.vjp(lambda v: lax.sin(v) * lax.exp(v), x)
    reference = weakref.ref(pull._linear.residuals[0])
    del pull, y, x
    gc.collect()
    assert reference() is None


def test_nested_jit_is_traced_once_per_signature():
    count = []

    @pb.jit
    def inner(x):
        count.append(1)
        return lax.sin(x)

    pb.jit(lambda x: inner(inner(inner(x))))(np.float32(1))
    assert len(count) == 1


def test_dead_code_does_not_reach_the_program():
    lowered = pb.jit(lambda x, y: (lax.sin(x), lax.cos(y))[0]).lower(1.0, 2.0)
    text = lowered.as_text()
    assert "sine" in text
    assert "cosine" not in text
    assert text.count("%arg") - text.count("%arg0") == 0


def test_no_field_of_a_tracer_hides_an_array_method():
    import pullback.numpy  # noqa: F401  (attaches the methods)
    from pullback.core.tracer import Tracer
    from pullback.xla.array import Array

    def subclasses(cls):
        for sub in cls.__subclasses__():
            yield sub
            yield from subclasses(sub)

    public = {n for n in dir(Array) if not n.startswith("_")}
    found = list(subclasses(Tracer))
    assert len(found) >= 5
    for cls in found:
        assert not public & set(cls.__dict__.get("__slots__", ())), cls


def test_a_tracer_with_a_known_value_shows_it():
    seen = []
    pb.grad(lambda x: (seen.append(repr(x * 2)), x)[1])(3.0)
    pb.jvp(lambda x: seen.append(repr(x)) or x, (jnp.arange(3.0),), (jnp.ones(3),))
    pb.jit(lambda x: seen.append(repr(x)) or x)(1.0)
    pb.grad(lambda x: (seen.append(repr(x)), jnp.sum(x))[1])(jnp.zeros((10, 10)))
    assert seen == [
        "LinTracer<f32[]> with value 6.0",
        "JVPTracer<f32[3]> with value [0. 1. 2.]",
        "JaxprTracer<f32[]>",
        "LinTracer<f32[10,10]>",
    ]
