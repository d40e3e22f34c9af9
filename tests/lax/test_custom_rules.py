"""Custom rules under every nesting, inside loops, and closing over mapped values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.core import errors
from pullback.core.jaxpr import check_jaxpr

X = jnp.array([0.3, -0.8])


@pb.custom_jvp
def wave(x):
    return jnp.sin(x)


@wave.defjvp
def _wave_jvp(primals, tangents):
    return wave(primals[0]), jnp.cos(primals[0]) * tangents[0]


@pb.custom_vjp
def product(x, y):
    return jnp.sin(x) * y


def _product_fwd(x, y):
    return product(x, y), (x, y)


def _product_bwd(residuals, ct):
    x, y = residuals
    return jnp.cos(x) * y * ct, jnp.sin(x) * ct


product.defvjp(_product_fwd, _product_bwd)

TRANSFORMS = {
    "grad": lambda f: pb.grad(lambda x: jnp.sum(f(x))),
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (jnp.ones_like(x),))[1],
    "vmap": lambda f: lambda x: pb.vmap(f)(jnp.stack([x, -x])).sum(0),
    "jit": lambda f: pb.jit(f),
}


@pytest.mark.parametrize("names", itertools.product(TRANSFORMS, repeat=3), ids="-".join)
def test_custom_jvp_nesting(names):
    ours, reference = (lambda x: wave(x) * x), (lambda x: jnp.sin(x) * x)
    for name in names:
        ours, reference = TRANSFORMS[name](ours), TRANSFORMS[name](reference)
    np.testing.assert_allclose(ours(X), pb.jit(reference)(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "names",
    list(itertools.product(["grad", "vmap", "jit"], repeat=3)),
    ids="-".join,
)
def test_custom_vjp_nesting(names):
    ours, reference = (lambda x: product(x, x * x)), (lambda x: jnp.sin(x) * x * x)
    for name in names:
        ours, reference = TRANSFORMS[name](ours), TRANSFORMS[name](reference)
    np.testing.assert_allclose(ours(X), pb.jit(reference)(X), rtol=1e-5, atol=1e-6)


LOOPS = {
    "scan": lambda f, x: lax.scan(lambda c, _: (f(c, x), c), x, None, length=3)[0],
    "fori": lambda f, x: lax.fori_loop(0, 3, lambda i, c: f(c, x), x),
    "cond": lambda f, x: lax.cond(jnp.sum(x) < 9, lambda x: f(f(x, x), x), lambda x: x, x),
    "checkpoint": lambda f, x: pb.checkpoint(lambda x: f(f(x, x), x))(x),
    "map": lambda f, x: lax.map(lambda x: f(x, x), x),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("names", [("grad",), ("vmap", "grad"), ("grad", "vmap"), ("grad", "grad")])
def test_custom_rules_inside_control_flow(loop, names):
    plain = lambda x, y: jnp.sin(x) * y
    jvp_rule = lambda x, y: wave(x) * y
    fs = [lambda x, g=g: LOOPS[loop](g, x) for g in (product, jvp_rule, plain)]
    for name in names:
        fs = [TRANSFORMS[name](f) for f in fs]
    by_vjp, by_jvp, expected = [f(X) for f in fs]
    np.testing.assert_allclose(by_vjp, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_jvp, expected, rtol=1e-4, atol=1e-5)


def test_rules_know_mapped_values_that_they_close_over():
    """bwd runs after the vmap's function has returned, under another trace."""

    def f(x, scale):
        @pb.custom_vjp
        def g(y):
            return y * scale

        g.defvjp(lambda y: (g(y), None), lambda _, ct: (ct * scale * 10,))
        return g(x)

    xs, scales = jnp.arange(3.0), jnp.array([1.0, 2.0, 3.0])
    inner = pb.vmap(pb.grad(f))(xs, scales)
    np.testing.assert_allclose(inner, 10 * scales)
    outer = pb.grad(lambda xs: pb.vmap(f)(xs, scales).sum())(xs)
    np.testing.assert_allclose(outer, 10 * scales)
    twice = pb.grad(lambda xs: pb.vmap(lambda x, s: pb.vmap(f)(x, s))(xs, s2).sum())(
        x2 := jnp.ones((2, 3))
    )
    np.testing.assert_allclose(twice, 10 * s2)
    assert x2.shape == s2.shape


s2 = jnp.arange(6.0).reshape(2, 3)


def test_jvp_rule_closes_over_mapped_value():
    def f(x, scale):
        @pb.custom_jvp
        def g(y):
            return y * scale

        g.defjvp(lambda p, t: (g(p[0]), t[0] * scale * 10))
        return g(x)

    xs, scales = jnp.arange(3.0), jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(pb.vmap(pb.grad(f))(xs, scales), 10 * scales)
    outer = pb.grad(lambda xs: pb.vmap(f)(xs, scales).sum())(xs)
    np.testing.assert_allclose(outer, 10 * scales)


def test_differentiating_a_closed_over_value_is_refused():
    def f(w):
        g = pb.custom_jvp(lambda x: x * w)
        g.defjvp(lambda p, t: (g(p[0]), t[0]))
        return pb.jit(g)(2.0)

    with pytest.raises(errors.CustomRuleClosureError, match="closes over") as error:
        pb.grad(f)(3.0)
    assert "Instead:" in str(error.value)


def test_unmapped_argument_gets_the_sum():
    f = lambda x, y: pb.vmap(product, (0, None))(x, y).sum()
    gx, gy = pb.grad(f, (0, 1))(X, 2.0)
    np.testing.assert_allclose(gx, 2 * np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(gy, np.sin(X).sum(), rtol=1e-6)


def test_jaxpr_holds_one_call():
    jaxpr = pb.make_jaxpr(pb.vmap(wave))(X).jaxpr
    check_jaxpr(jaxpr)
    assert [e.primitive.name for e in jaxpr.eqns] == ["custom_jvp_call"]
    jaxpr = pb.make_jaxpr(lambda x: product(x, x))(X).jaxpr
    assert [e.primitive.name for e in jaxpr.eqns] == ["custom_vjp_call"]


def test_forward_mode_of_custom_vjp_is_refused():
    with pytest.raises(TypeError, match="can't apply forward-mode") as error:
        pb.jvp(lambda x: product(x, x), (1.0,), (1.0,))
    assert "custom_jvp" in str(error.value)


def test_collective_inside_a_rule():
    @pb.custom_vjp
    def f(x):
        return lax.psum(x, "i")

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (lax.pmean(ct, "i"),))
    out = pb.vmap(pb.grad(f), axis_name="i")(jnp.arange(3.0))
    np.testing.assert_allclose(out, np.ones(3))


def test_rule_that_calls_a_custom_function_on_tangents():
    twice = pb.custom_jvp(lambda x: 2 * x)
    twice.defjvp(lambda p, t: (twice(p[0]), 2 * t[0]))
    f = pb.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (f(p[0]), twice(t[0])))
    assert float(pb.grad(f)(1.0)) == 2.0
    assert float(pb.jit(pb.grad(f))(1.0)) == 2.0
    np.testing.assert_array_equal(pb.vmap(pb.grad(f))(X), [2, 2])
