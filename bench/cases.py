"""The timed cases, run inside one engine's environment: `python cases.py ENGINE` prints JSON.

ENGINE is the package to import, `pullback` or `jax`. Each case gives the median microseconds a call
over repeats, after warming up; first-call cases give the seconds of fresh traces.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from measure import fresh, load, results, timed

start = time.perf_counter()
jax, jnp = load()
jnp.zeros(())
results["import and first array (ms)"] = (time.perf_counter() - start) * 1e3


x = jnp.asarray(np.float32(0.7))
v = jnp.asarray(np.linspace(0, 1, 10, dtype=np.float32))
rng = np.random.default_rng(0)


def mlp_params(sizes: list[int]) -> list[Any]:
    """Weights and biases of a perceptron."""
    return [
        (
            jnp.asarray(rng.normal(size=(m, n)).astype(np.float32) / np.sqrt(m)),
            jnp.zeros(n, jnp.float32),
        )
        for m, n in zip(sizes[:-1], sizes[1:], strict=True)
    ]


def mlp_loss(params: list[Any], inputs: Any, targets: Any) -> Any:
    """Mean squared error of a tanh perceptron."""
    h = inputs
    for w, b in params[:-1]:
        h = jnp.tanh(jnp.dot(h, w) + b)
    w, b = params[-1]
    return jnp.mean((jnp.dot(h, w) + b - targets) ** 2)


params4 = mlp_params([8, 16, 16, 16, 1])
inputs = jnp.asarray(rng.normal(size=(32, 8)).astype(np.float32))
targets = jnp.asarray(rng.normal(size=(32, 1)).astype(np.float32))

jitted = jax.jit(lambda a: a * 2 + 1)
timed("jitted scalar function", lambda: jitted(x), 2000)
timed("eager x + 1", lambda: x + 1, 1000)
timed("eager jnp.sin(v)", lambda: jnp.sin(v), 1000)
timed("eager v[3:7]", lambda: v[3:7])
timed("eager v.at[3].set(1.)", lambda: v.at[3].set(1.0))


def scalar(a: Any) -> Any:
    """A scalar function of a scalar."""
    return jnp.sin(a) * a + jnp.exp(a)


def vector(a: Any) -> Any:
    """An elementwise function of a vector."""
    return jnp.sin(a) * jnp.cos(a)


def summed(a: Any) -> Any:
    """A scalar function of a vector."""
    return jnp.sum(jnp.sin(a) * a)


scalar_grad, mlp_grad = jax.grad(scalar), jax.grad(mlp_loss)
scalar_vmap, vector_jacrev, sum_hessian = jax.vmap(scalar), jax.jacrev(vector), jax.hessian(summed)
timed("eager grad of a scalar function", lambda: scalar_grad(x), 100)
timed("eager grad of a 4-layer perceptron", lambda: mlp_grad(params4, inputs, targets), 20)
timed("eager vmap of a small function", lambda: scalar_vmap(v), 100)
timed("eager jacrev of a small function", lambda: vector_jacrev(v), 50)
timed("eager hessian of a small function", lambda: sum_hessian(v), 20)
params20 = mlp_params([8] + [16] * 19 + [1])


def lower_mlp20() -> Any:
    """Trace and lower value_and_grad of a 20-layer perceptron."""
    return jax.jit(jax.value_and_grad(lambda p, a, b: mlp_loss(p, a, b))).lower(
        params20, inputs, targets
    )


def unrolled(a: Any) -> Any:
    """500 steps written out."""
    for _ in range(500):
        a = jnp.sin(a) * 1.01
    return a


fresh("trace+lower value_and_grad of a 20-layer perceptron (ms)", lower_mlp20)
fresh(
    "trace+lower a 500-step unrolled loop (ms)",
    lambda: jax.jit(jax.value_and_grad(lambda a: unrolled(a))).lower(x),
    5,
)
big = mlp_params([256, 512, 512, 1])
big_in = jnp.asarray(rng.normal(size=(256, 256)).astype(np.float32))
big_out = jnp.asarray(rng.normal(size=(256, 1)).astype(np.float32))
step = jax.jit(jax.value_and_grad(mlp_loss))
timed("compiled perceptron step, 256x512x512", lambda: step(big, big_in, big_out), 10)
print(json.dumps(results))
