"""The programs whose transformations are compared: each a function of (params, data) to a scalar.

They are written once, on the package given, which is `pullback` or `jax`. Used by transform_cases.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = tuple[Callable[..., Any], tuple]


def recurrent(jax: Any, jnp: Any, rng: np.random.Generator) -> Program:
    """A tanh network over 50 steps by scan, [batch, hidden] = [8, 16]."""
    params = {
        "w": rng.normal(size=(16, 16)) * 0.2,
        "u": rng.normal(size=(4, 16)),
        "b": np.zeros(16),
    }
    xs = rng.normal(size=(50, 8, 4))

    def loss(params: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> tuple:
            h = jnp.tanh(h @ params["w"] + x @ params["u"] + params["b"])
            return h, h

        return jax.lax.scan(step, jnp.zeros((8, 16)), xs)[1].mean()

    return loss, (params, xs)


def lstm(jax: Any, jnp: Any, rng: np.random.Generator) -> Program:
    """A long short-term memory over 50 steps by scan, [batch, hidden] = [8, 16]."""
    params = {
        "w": rng.normal(size=(16, 64)) * 0.2,
        "u": rng.normal(size=(4, 64)),
        "b": np.zeros(64),
    }
    xs = rng.normal(size=(50, 8, 4))

    def loss(params: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> tuple:
            h, c = state
            i, f, g, o = jnp.split(h @ params["w"] + x @ params["u"] + params["b"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((8, 16))
        return jax.lax.scan(step, (start, start), xs)[1].mean()

    return loss, (params, xs)


def ode(jax: Any, jnp: Any, rng: np.random.Generator) -> Program:
    """100 Runge-Kutta steps of a neural differential equation by scan, state [8, 4]."""
    params = {"w": rng.normal(size=(4, 16)), "v": rng.normal(size=(16, 4)) * 0.2}
    start = rng.normal(size=(8, 4))

    def loss(params: Any, y: Any) -> Any:
        def field(y: Any) -> Any:
            return jnp.sin(y @ params["w"]) @ params["v"] - 0.1 * y**3

        def step(y: Any, _: Any) -> tuple:
            dt = 0.05
            k1 = field(y)
            k2 = field(y + dt / 2 * k1)
            k3 = field(y + dt / 2 * k2)
            k4 = field(y + dt * k3)
            return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return jax.lax.scan(step, y, None, length=100)[0].sum()

    return loss, (params, start)


def _layer_params(rng: np.random.Generator, width: int) -> dict[str, Any]:
    def normal(*shape: int) -> Any:
        return rng.normal(size=shape) / np.sqrt(shape[0])

    return {
        "qkv": normal(width, 3 * width),
        "out": normal(width, width),
        "up": normal(width, 4 * width),
        "down": normal(4 * width, width),
        "scale": np.ones((2, width)),
        "shift": np.zeros((2, width)),
    }


def _layer(jax: Any, jnp: Any, n_heads: int) -> Callable[..., Any]:
    """A transformer block on x: float[time, width], causal, normalised before each half."""

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift

    def attention(p: Any, x: Any) -> Any:
        time, width = x.shape
        parts = (x @ p["qkv"]).reshape(time, 3, n_heads, width // n_heads)
        q, k, v = parts[:, 0], parts[:, 1], parts[:, 2]
        scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(width // n_heads).astype(np.float32)
        scores = jnp.where(np.tri(time, dtype=bool), scores, -1e9)
        mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, axis=-1), v)
        return mixed.reshape(time, width) @ p["out"]

    def layer(p: Any, x: Any) -> Any:
        x = x + attention(p, normalised(x, p["scale"][0], p["shift"][0]))
        h = jax.nn.gelu(normalised(x, p["scale"][1], p["shift"][1]) @ p["up"])
        return x + h @ p["down"]

    return layer


def transformer(
    jax: Any,
    jnp: Any,
    rng: np.random.Generator,
    n_layers: int = 12,
    *,
    remat: bool = False,
    time: int = 16,
) -> Program:
    """A stack of transformer blocks in a Python loop, [time, width] = [16, 32], four heads."""
    params = [_layer_params(rng, 32) for _ in range(n_layers)]
    layer = _layer(jax, jnp, 4)
    if remat:
        layer = jax.checkpoint(layer)

    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = layer(p, x)
        return (x**2).mean()

    return loss, (params, rng.normal(size=(time, 32)))


def scanned_transformer(
    jax: Any, jnp: Any, rng: np.random.Generator, *, remat: bool = False, time: int = 16
) -> Program:
    """The same stack by scan over stacked parameters."""
    layers = [_layer_params(rng, 32) for _ in range(12)]
    params = {name: np.stack([p[name] for p in layers]) for name in layers[0]}
    layer = _layer(jax, jnp, 4)
    if remat:
        layer = jax.checkpoint(layer)

    def loss(params: Any, x: Any) -> Any:
        return (jax.lax.scan(lambda x, p: (layer(p, x), None), x, params)[0] ** 2).mean()

    return loss, (params, rng.normal(size=(time, 32)))


def net(jax: Any, jnp: Any, rng: np.random.Generator) -> Program:
    """A perceptron 3-8-8-1 on 10 rows."""
    sizes = [3, 8, 8, 1]
    params = [(rng.normal(size=s), np.zeros(s[1])) for s in zip(sizes, sizes[1:], strict=False)]

    def loss(params: Any, x: Any) -> Any:
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        return ((x @ w + b) ** 2).mean()

    return loss, (params, rng.normal(size=(10, 3)))


def newton(jax: Any, jnp: Any, rng: np.random.Generator) -> Program:
    """Newton's iteration for a root, a fixed number of steps by fori_loop: float[] to float[]."""

    def root(a: Any, start: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            return y - (y * jnp.exp(y) - a) / (jnp.exp(y) * (1.0 + y))

        return jax.lax.fori_loop(0, 8, step, start)

    return root, (rng.uniform(0.5, 2.0, size=6), rng.uniform(0.5, 1.0, size=6))


def newton_while(jax: Any, jnp: Any, rng: np.random.Generator) -> Program:
    """The same until it has converged, by while_loop, whose derivative goes forward only."""

    def root(a: Any, start: Any) -> Any:
        def unfinished(state: Any) -> Any:
            return (jnp.abs(state[1]) > 1e-6) & (state[2] < 50)

        def step(state: Any) -> Any:
            y, _, i = state
            move = (y * jnp.exp(y) - a) / (jnp.exp(y) * (1.0 + y))
            return y - move, move, i + 1

        return jax.lax.while_loop(unfinished, step, (start, jnp.ones_like(start), 0))[0]

    return root, (rng.uniform(0.5, 2.0, size=6), rng.uniform(0.5, 1.0, size=6))
