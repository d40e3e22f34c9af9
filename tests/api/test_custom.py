"""custom_jvp, custom_vjp, custom_gradient and closure_convert as users call them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp


def test_python_control_flow_on_concrete_values():
    @pb.custom_jvp
    def f(x):
        return x if x > 0 else -x

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 7 * t if x > 0 else -7 * t

    assert float(pb.grad(f)(2.0)) == 7.0
    assert float(pb.grad(f)(-2.0)) == -7.0


def test_python_control_flow_in_bwd_every_time():
    @pb.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, x), lambda x, ct: (ct if x > 0 else 0 * ct,))
    for _ in range(4):
        assert float(pb.grad(f)(1.0)) == 1.0
        assert float(pb.grad(f)(-1.0)) == 0.0


def test_nondiff_arguments():
    @pb.custom_jvp
    def reference(f, x):
        return f(x)

    def apply(f, x, n):
        return f(x) * n

    by_jvp = pb.custom_jvp(apply, nondiff_argnums=(0, 2))
    by_jvp.defjvp(lambda f, n, p, t: (f(p[0]) * n, n * t[0]))
    assert float(pb.grad(by_jvp, 1)(jnp.sin, 0.5, 3)) == 3.0
    assert float(pb.grad(lambda x: by_jvp(jnp.sin, x, n=3))(0.5)) == 3.0
    by_vjp = pb.custom_vjp(apply, nondiff_argnums=(0, 2))
    by_vjp.defvjp(lambda f, x, n: (f(x) * n, None), lambda f, n, res, ct: (n * ct,))
    assert float(pb.grad(by_vjp, 1)(jnp.sin, 0.5, 3)) == 3.0
    with pytest.raises(pb.errors.UnexpectedTracerError, match="nondiff_argnums"):
        pb.jit(lambda n: by_vjp(jnp.sin, 0.5, n))(3)
    named = pb.custom_jvp(apply, nondiff_argnames=("f", "n"))
    assert named.nondiff_argnums == (0, 2)
    assert reference.nondiff_argnums == ()


def test_defjvps():
    f = pb.custom_jvp(lambda x, y: x * jnp.sin(y))
    f.defjvps(lambda t, out, x, y: jnp.sin(y) * t, lambda t, out, x, y: 100 * t)
    gx, gy = pb.grad(f, (0, 1))(2.0, 0.5)
    np.testing.assert_allclose((gx, gy), (np.sin(0.5), 100.0), rtol=1e-6)
    g = pb.custom_jvp(lambda x, y: x * y)
    g.defjvps(None, lambda t, out, x, y: x * t)
    assert tuple(map(float, pb.grad(g, (0, 1))(2.0, 3.0))) == (0.0, 2.0)


def test_pytrees_keywords_and_defaults():
    @pb.custom_vjp
    def f(p, scale=2.0):
        return {"out": p["a"] * p["b"] * scale}

    f.defvjp(
        lambda p, scale: (f(p, scale), (p, scale)),
        lambda res, ct: ({"a": 10 * ct["out"], "b": None}, None),
    )
    grads = pb.grad(lambda p: f(p, scale=3.0)["out"])({"a": 1.0, "b": 2.0})
    assert float(grads["a"]) == 10.0 and float(grads["b"]) == 0.0
    assert float(f({"a": 1.0, "b": 2.0})["out"]) == 4.0


def test_integer_arguments_have_float0_tangents():
    seen = []

    @pb.custom_jvp
    def f(x, n):
        return x * n

    @f.defjvp
    def f_jvp(primals, tangents):
        seen.append(tangents[1].dtype)
        return f(*primals), primals[1] * tangents[0]

    assert float(pb.grad(f)(2.0, 3)) == 3.0
    assert seen == [pb.float0]


def test_symbolic_zeros_in_jvp_and_vjp():
    zeros = []

    @pb.custom_jvp
    def f(x, y):
        return x + y

    def f_jvp(primals, tangents):
        zeros.append([type(t).__name__ == "SymbolicZero" for t in tangents])
        return f(*primals), tangents[0]

    f.defjvp(f_jvp, symbolic_zeros=True)
    assert float(pb.grad(f)(1.0, 2.0)) == 1.0
    assert zeros == [[False, True]]

    perturbed, cts = [], []

    @pb.custom_vjp
    def g(x, y):
        return x, y

    def fwd(x, y):
        perturbed.append((x.perturbed, y.perturbed))
        return (x.value, y.value), None

    def bwd(_, ct):
        cts.append([type(c).__name__ == "SymbolicZero" for c in ct])
        return ct

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    assert float(pb.grad(lambda x: g(x, 2.0)[0])(1.0)) == 1.0
    assert perturbed == [(True, False)] and cts == [[False, True]]


def test_methods_can_be_decorated():
    class Model:
        scale = 3.0

        @pb.custom_jvp
        def f(self, x):
            return x * self.scale

    with pytest.raises((TypeError, AttributeError)):
        Model().f(1.0)  # no rule yet


def test_missing_rules():
    with pytest.raises(AttributeError, match="No JVP defined"):
        pb.custom_jvp(lambda x: x)(1.0)
    with pytest.raises(AttributeError, match="No VJP defined"):
        pb.custom_vjp(lambda x: x)(1.0)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda p, t: p[0], "must produce a pair"),
        (lambda p, t: (p[0], (t[0], t[0])), "equal container"),
        (lambda p, t: (p[0], jnp.ones(3)), "corresponding shapes and dtypes"),
    ],
)
def test_wrong_jvp_rules(rule, message):
    f = pb.custom_jvp(lambda x: x)
    f.defjvp(rule)
    with pytest.raises(TypeError, match=message):
        pb.jvp(f, (jnp.float32(1),), (jnp.float32(1),))


@pytest.mark.parametrize(
    ("bwd", "message"),
    [
        (lambda r, ct: ct, "must produce a tuple"),
        (lambda r, ct: (ct, ct), "tuple of length 2"),
        (lambda r, ct: (jnp.ones(3),), "shapes of the arguments"),
        (lambda r, ct: ((ct, ct),), "structure of the arguments"),
    ],
)
def test_wrong_bwd_rules(bwd, message):
    f = pb.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), bwd)
    with pytest.raises((TypeError, ValueError), match=message):
        pb.grad(f)(1.0)


def test_custom_gradient():
    f = pb.custom_gradient(lambda x: (x**2, lambda ct: 10 * ct * x))
    assert float(f(3.0)) == 9.0 and float(pb.grad(f)(3.0)) == 30.0
    np.testing.assert_allclose(pb.vmap(pb.grad(f))(jnp.arange(3.0)), [0.0, 10.0, 20.0])
    assert float(pb.jit(pb.grad(f))(3.0)) == 30.0
    g = pb.custom_gradient(lambda x, y: (x * y, lambda ct: (y * ct, 5 * ct)))
    assert tuple(map(float, pb.grad(g, (0, 1))(2.0, 3.0))) == (3.0, 5.0)


def test_closure_convert():
    def outer(w):
        f, captured = pb.closure_convert(lambda x: w * x, 1.0)
        assert len(captured) == 1
        return f(2.0, *captured)

    assert float(pb.grad(outer)(3.0)) == 2.0
    f, captured = pb.closure_convert(lambda x: x + np.ones(2), 1.0)
    assert captured == []


def test_rules_keep_no_arrays_alive():
    @pb.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))
    x = jnp.ones(5) * 2
    pb.grad(lambda x: f(x).sum())(x)
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("kind", ["jit", "scan", "jitted rule", "loop in a rule"])
def test_a_jvp_rule_may_compute_value_and_tangent_together(kind):
    def cubes(x):
        return pb.lax.scan(lambda c, _: (c * x, None), jnp.ones_like(x), None, 3)[0]

    inner = {"jit": pb.jit(lambda x: x**3), "scan": cubes}.get(kind, lambda x: x**3)

    @pb.custom_jvp
    def f(x):
        return x**3

    def both(x, t):
        return x**3, 3 * x**2 * t

    def looped(x, t):
        def step(carry, _):
            y, dy = carry
            return (y * x, dy * x + y * t), None

        return pb.lax.scan(step, (jnp.ones_like(x), jnp.zeros_like(t)), None, 3)[0]

    def rule(primals, tangents):
        if kind == "jitted rule":
            return pb.jit(both)(*primals, *tangents)
        if kind == "loop in a rule":
            return looped(*primals, *tangents)
        return pb.jvp(inner, primals, tangents)

    f.defjvp(rule)
    x = jnp.float32(1.5)
    value, pull = pb.vjp(lambda x: f(x) * x, x)
    np.testing.assert_allclose(value, 1.5**4, rtol=1e-6)
    np.testing.assert_allclose(pb.jvp(f, (x,), (x,))[1], 3 * 1.5**3, rtol=1e-6)
    if kind != "loop in a rule":
        np.testing.assert_allclose(pull(jnp.float32(1.0))[0], 4 * 1.5**3, rtol=1e-6)
        np.testing.assert_allclose(pb.grad(pb.grad(f))(x), 9.0, rtol=1e-6)
        np.testing.assert_allclose(pb.jit(pb.grad(f))(x), 6.75, rtol=1e-6)
        np.testing.assert_allclose(pb.vmap(pb.grad(f))(jnp.ones(3)), [3.0] * 3, rtol=1e-6)


def test_rules_see_cotangents_and_tangents_as_arrays():
    seen = []

    @pb.custom_vjp
    def f(x):
        return x * x, x

    def bwd(x, cts):
        seen.extend(cts)
        return (cts[0].clip(-1, 1) * x,)

    f.defvjp(lambda x: ((x * x, x), x), bwd)
    assert float(pb.grad(lambda x: f(x)[0])(3.0)) == 3.0
    assert float(pb.vjp(f, np.float32(3))[1]((1.0, 2.0))[0]) == 3.0

    @pb.custom_jvp
    def g(x, y):
        return x * y

    @g.defjvp
    def g_jvp(primals, tangents):
        seen.extend(tangents)
        return g(*primals), tangents[0].reshape(())

    assert float(pb.jvp(lambda x: g(x, 2.0), (1.0,), (3.0,))[1]) == 3.0
    assert all(isinstance(x, pb.Array) for x in seen)


def test_forward_rules_with_symbolic_zeros_strip_what_says_whether_arguments_vary():
    from pullback.custom_derivatives import custom_vjp_primal_tree_values

    @pb.custom_vjp
    def f(d):
        return d["a"] * d["b"]

    def fwd(d):
        assert (d["a"].perturbed, d["b"].perturbed) == (True, False)
        values = custom_vjp_primal_tree_values(d)
        return f(values), values

    f.defvjp(fwd, lambda r, ct: ({"a": ct * r["b"], "b": None},), symbolic_zeros=True)
    assert float(pb.grad(lambda a: f({"a": a, "b": 2.0}))(3.0)) == 2.0
    with pytest.raises(TypeError, match="CustomVJPPrimal"):
        custom_vjp_primal_tree_values({"a": 1.0})


def test_zero_tangents_of_values():
    from pullback.custom_derivatives import SymbolicZero, zero_from_primal

    assert zero_from_primal(jnp.ones(2)).tolist() == [0.0, 0.0]
    assert zero_from_primal(3).dtype == pb.float0
    zero = zero_from_primal(jnp.ones(2), symbolic_zeros=True)
    assert type(zero) is SymbolicZero
    assert (zero.shape, zero.dtype) == ((2,), np.float32)
