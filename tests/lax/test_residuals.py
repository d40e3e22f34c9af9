"""What the reverse pass of loops saves, and how long its programs are, against jax 0.10.2.

The numbers were printed by the same functions run on jax 0.10.2 on the CPU (December 2026).
"""

from __future__ import annotations

from math import prod

import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

W = jnp.ones((8, 8))
U = jnp.ones((8, 8))
XS = jnp.ones((20, 8))
H = jnp.zeros(8)


def rnn(w, u):
    def body(h, x):
        h = jnp.tanh(w @ h + u @ x)
        return h, h

    return lax.scan(body, H, XS)[1].sum()


def lstm(w, u):
    def body(carry, x):
        h, s = carry
        z = w @ h + u @ x
        i, f, o = pb.nn.sigmoid(z), pb.nn.sigmoid(z + 1), pb.nn.sigmoid(z - 1)
        s = f * s + i * jnp.tanh(z)
        h = o * jnp.tanh(s)
        return (h, s), h

    return lax.scan(body, (H, H), XS)[1].sum()


def ode(w, u):
    def f(y):
        return jnp.sin(w @ y) * jnp.exp(-y)

    def rk4(y, _):
        dt = 0.1
        k1 = f(y)
        k2 = f(y + dt / 2 * k1)
        k3 = f(y + dt / 2 * k2)
        k4 = f(y + dt * k3)
        return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lax.scan(rk4, u[0], None, length=20)[0].sum()


def block(w, u):
    def body(x, p):
        w, u = p
        q = x @ w
        x = x + pb.nn.softmax(q @ x.T / 3.0, axis=-1) @ x
        x = x + pb.nn.gelu(x @ u)
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return (x - m) / jnp.sqrt(v + 1e-5), None

    return lax.scan(body, u, (jnp.ones((4, 8, 8)) * w, jnp.ones((4, 8, 8)) * u))[0].sum()


def fori(w, u):
    return lax.fori_loop(0, 5, lambda i, c: jnp.tanh(c @ w) * u, u).sum()


def checkpointed(w, u):
    f = pb.checkpoint(lambda c, _: (jnp.tanh(c @ w) * u, None))
    return lax.scan(f, u, None, length=5)[0].sum()


def count(jaxpr):
    total = 0
    for eqn in jaxpr.eqns:
        total += 1
        for value in eqn.params.values():
            for item in value if isinstance(value, tuple) else (value,):
                if hasattr(item, "eqns"):
                    total += count(item)
    return total


def stacked_bytes(jaxpr):
    forward = next(e for e in jaxpr.eqns if e.primitive.name == "scan")
    stacked = forward.outvars[forward.params["num_carry"] :]
    return sum(prod(v.aval.shape) * v.aval.dtype.itemsize for v in stacked)


# program: bytes stacked by the forward scan, equations of grad by both arguments, and of
# vmap(grad) by the first
JAX = {
    rnn: (2560, 22, 24),
    lstm: (8320, 57, 61),
    ode: (10240, 95, 97),
    block: (13952, None, None),
    fori: (3840, 22, 24),
    checkpointed: (1280, 24, 26),
}


@pytest.mark.parametrize("f", JAX, ids=lambda f: f.__name__)
def test_no_more_than_jax(f):
    n_bytes, n_grad, n_vmap = JAX[f]
    gradient = pb.grad(f, (0, 1))
    jaxpr = pb.make_jaxpr(gradient)(W, U).jaxpr
    assert stacked_bytes(jaxpr) <= n_bytes
    if n_grad is not None:
        assert count(jaxpr) <= n_grad
        mapped = pb.make_jaxpr(pb.vmap(pb.grad(f), (0, None)))(jnp.stack([W, W]), U).jaxpr
        assert count(mapped) <= n_vmap


def test_stopped_gradients_leave_no_residuals():
    """The maximum in a softmax is under stop_gradient: its mask is not kept."""

    def f(x):
        return lax.scan(lambda c, _: (pb.nn.softmax(c), None), x, None, length=3)[0][0]

    jaxpr = pb.make_jaxpr(pb.grad(f))(jnp.ones(5)).jaxpr
    assert stacked_bytes(jaxpr) <= 3 * (5 + 1) * 4 * 2


def test_the_zero_tangent_of_an_initial_state_is_not_kept():
    kept = pb.tree.leaves(pb.vjp(lambda w: rnn(w, U), W)[1])
    assert (8,) not in [x.shape for x in kept]
    assert pb.linearize(lambda w: rnn(w, U), W)[1](W).shape == ()
