"""Laws on programs put together at random from operations, control flow and transformations."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.core.jaxpr import check_jaxpr

ALPHA = jnp.array([0.3, -0.7, 0.5])


@pb.custom_jvp
def soft(x):
    return jnp.tanh(x)


soft.defjvp(lambda p, t: (soft(p[0]), t[0] * (1 - jnp.tanh(p[0]) ** 2)))


@pb.custom_vjp
def scaled(x):
    return jnp.sin(x)


scaled.defvjp(lambda x: (scaled(x), x), lambda x, ct: (ct * jnp.cos(x),))


def leaf(rng):
    """A function float[3] -> float[3] of one or two operations."""
    return [
        jnp.sin,
        lambda x: x * ALPHA + 0.1,
        lambda x: jnp.exp(-x * x),
        lambda x: jnp.cumsum(x) / 2,
        lambda x: x[::-1] * x,
        lambda x: jnp.where(x > 0, x, 0.3 * x),
        lambda x: jnp.outer(x, ALPHA) @ x,
        soft,
    ][rng.integers(8)]


def program(rng, depth, reverse_only=True):
    """A function float[3] -> float[3]; with `reverse_only` it may hold custom_vjp functions."""
    if depth == 0:
        return leaf(rng)
    f, g = (program(rng, depth - 1, reverse_only) for _ in range(2))
    kinds = [
        lambda x: f(g(x)),
        lambda x: 0.5 * f(x) + g(x),
        lambda x: lax.scan(lambda c, a: (f(c) * a + g(x), c), x, ALPHA)[0],
        lambda x: lax.scan(lambda c, a: (c, f(c + a)), x, jnp.stack([ALPHA, x]))[1].sum(0),
        lambda x: lax.fori_loop(0, 2, lambda i, c: f(c) + 0.1 * i, g(x)),
        lambda x: lax.cond(jnp.sum(x) > 0, f, g, x),
        lambda x: lax.switch((x[0] > 0).astype(int) + 1, [f, g, lambda x: x], x),
        lambda x: pb.jit(f)(pb.checkpoint(g)(x)),
        lambda x: pb.vmap(lambda y: f(y * ALPHA) + g(x))(jnp.stack([x, 2 * x])).sum(0),
        lambda x: pb.jvp(f, (x,), (g(x),))[1] if not reverse_only else f(x),
        lambda x: lax.map(lambda a: jnp.sum(f(x * a)), ALPHA),
        lambda x: f(scaled(g(x))) if reverse_only else g(f(x)),
    ]
    return kinds[rng.integers(len(kinds))]


X = jnp.array([0.4, -0.9, 1.3])
V = jnp.array([0.7, 0.2, -0.5])
C = jnp.array([1.0, -2.0, 0.5])
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


@pytest.mark.parametrize("seed", range(8))
def test_laws_in_both_modes(seed):
    f = program(np.random.default_rng(seed), 1 + seed % 4, reverse_only=False)
    y = f(X)
    check_jaxpr(pb.make_jaxpr(f)(X).jaxpr)
    np.testing.assert_allclose(pb.jit(f)(X), y, **CLOSE)
    xs = jnp.stack([X, -X])
    np.testing.assert_allclose(pb.vmap(f)(xs), np.stack([f(x) for x in xs]), **CLOSE)
    primal, tangent = pb.jvp(f, (X,), (V,))
    np.testing.assert_allclose(primal, y, **CLOSE)
    _, pull = pb.vjp(f, X)
    (ct,) = pull(C)
    np.testing.assert_allclose(np.vdot(ct, V), np.vdot(C, tangent), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(pb.jit(lambda x: pb.vjp(f, x)[1](C)[0])(X), ct, **CLOSE)
    loss = lambda x: jnp.vdot(C, f(x))
    check_jaxpr(pb.make_jaxpr(pb.grad(loss))(X).jaxpr)
    both_ways = [
        pb.jit(h)(X)
        for h in (
            lambda x: pb.jvp(pb.grad(loss), (x,), (V,))[1],
            pb.grad(lambda x: jnp.vdot(pb.grad(loss)(x), V)),
            pb.grad(lambda x: pb.jvp(loss, (x,), (V,))[1]),
        )
    ]
    scale = 1 + np.abs(both_ways[0]).max()
    np.testing.assert_allclose(both_ways[1] / scale, both_ways[0] / scale, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(both_ways[2] / scale, both_ways[0] / scale, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(100, 106))
def test_reverse_mode_with_custom_vjp(seed):
    f = program(np.random.default_rng(seed), 1 + seed % 4)
    loss = lambda x: jnp.vdot(C, f(x))
    gradient = pb.grad(loss)(X)
    with pb.enable_x64():
        x, h = np.asarray(X, np.float64), 1e-5
        slopes = [(loss(x + h * e) - loss(x - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, slopes, rtol=2e-3, atol=2e-4)
    xs = jnp.stack([X, -X])
    np.testing.assert_allclose(pb.vmap(pb.grad(loss))(xs)[0], gradient, **CLOSE)
    whole = pb.jit(pb.grad(lambda xs: pb.vmap(loss)(xs).sum()))(xs)
    np.testing.assert_allclose(whole[0], gradient, **CLOSE)
