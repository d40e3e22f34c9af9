"""fwd_and_bwd, and pullbacks and pushforwards as pytrees."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

X = jnp.arange(6.0).reshape(2, 3)
W = jnp.arange(12.0).reshape(3, 4) / 10
CT = jnp.ones((2, 4))


def layer(x, w):
    return jnp.sin(x @ w)


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), (1, 0), [1]])
def test_as_vjp(argnums, jitted):
    fwd, bwd = pb.fwd_and_bwd(layer, argnums, jitted=jitted)
    value, kept = fwd(X, W)
    want, pull = pb.vjp(layer, X, W)
    np.testing.assert_allclose(value, want, rtol=1e-6)
    all_cts = pull(CT)
    got = bwd(kept, CT)
    if isinstance(argnums, int):
        np.testing.assert_allclose(got, all_cts[argnums], rtol=1e-5)
    else:
        assert isinstance(got, tuple)
        for ct, n in zip(got, argnums, strict=True):
            np.testing.assert_allclose(ct, all_cts[n], rtol=1e-5)


def test_aux_and_trees():
    f = lambda p, s: ({"b": p["a"] * s}, s + 1)
    fwd, bwd = pb.fwd_and_bwd(f, 0, has_aux=True)
    value, kept, aux = fwd({"a": X}, 2.0)
    np.testing.assert_array_equal(value["b"], X * 2)
    assert float(aux) == 3.0
    np.testing.assert_array_equal(bwd(kept, {"b": X})["a"], X * 2)


def test_each_is_traced_once():
    traced = []

    def f(x):
        traced.append(x)
        return lax.scan(lambda c, v: (c * v, c), 1.0, x)[0]

    fwd, bwd = pb.fwd_and_bwd(f, 0)
    for i in range(3):
        x = X[0] + 1 + i
        _, kept = fwd(x)
        np.testing.assert_allclose(bwd(kept, 1.0), pb.grad(jnp.prod)(x), rtol=1e-5)
    assert len(traced) == 1
    assert len(bwd._jit.traces) == 1


def test_under_other_transformations():
    fwd, bwd = pb.fwd_and_bwd(lambda x: jnp.sum(x**3), 0)
    both = lambda x: bwd(fwd(x)[1], 1.0)
    x = X[0]
    np.testing.assert_allclose(pb.jit(both)(x), 3 * x**2, rtol=1e-5)
    np.testing.assert_allclose(pb.grad(lambda x: both(x).sum())(x), 6 * x, rtol=1e-5)
    np.testing.assert_allclose(pb.vmap(both)(X), 3 * X**2, rtol=1e-5)


def test_errors():
    with pytest.raises(TypeError, match="expects a function"):
        pb.fwd_and_bwd(3, 0)
    fwd, _ = pb.fwd_and_bwd(layer, 5)
    with pytest.raises((TypeError, ValueError), match="argnums=5"):
        fwd(X, W)
    fwd, bwd = pb.fwd_and_bwd(layer, 0)
    with pytest.raises(ValueError, match="cotangent"):
        bwd(fwd(X, W)[1], X)


def test_pullbacks_pass_through_jit_and_vmap():
    f = lambda x: jnp.sin(jnp.exp(x))
    slope = lambda x: np.cos(np.exp(x)) * np.exp(x)
    _, pull = pb.jit(lambda x: pb.vjp(f, x))(1.0)
    np.testing.assert_allclose(pull(2.0)[0], 2 * slope(1.0), rtol=1e-5)
    np.testing.assert_allclose(pb.jit(lambda p: p(1.0))(pull)[0], slope(1.0), rtol=1e-5)
    assert len(pb.tree.leaves(pull)) == 2
    xs = np.arange(3, dtype=np.float32) / 2
    _, pulls = pb.vmap(lambda x: pb.vjp(f, x))(xs)
    np.testing.assert_allclose(pb.vmap(lambda p: p(1.0)[0])(pulls), slope(xs), rtol=1e-5)
    _, push = pb.jit(lambda x: pb.linearize(f, x))(1.0)
    np.testing.assert_allclose(push(1.0), slope(1.0), rtol=1e-5)
    np.testing.assert_allclose(pb.jit(lambda p: p(2.0))(push), 2 * slope(1.0), rtol=1e-5)
    np.testing.assert_allclose(pb.vmap(push)(xs), xs * slope(1.0), rtol=1e-5)
    with pytest.raises(ValueError, match="must have shape"):
        push(jnp.ones(2))


def test_rules_of_the_user_pass_through_jit():
    @pb.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (x * x, x), lambda r, ct: (10 * r * ct,))
    fwd, bwd = pb.fwd_and_bwd(f, 0)
    assert float(bwd(fwd(3.0)[1], 1.0)) == 30.0
