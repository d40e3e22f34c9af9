"""Activations against formulas in NumPy and the real jax, with gradients at the kinks."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import ask, needs_jax

import pullback as pb
from pullback import nn
from pullback import numpy as jnp

UNARY = [
    "relu", "relu6", "sigmoid", "softplus", "sparse_plus", "soft_sign", "sparse_sigmoid", "silu",
    "mish", "log_sigmoid", "elu", "leaky_relu", "hard_tanh", "celu", "selu", "gelu", "squareplus",
    "hard_sigmoid", "hard_silu", "softmax", "log_softmax", "standardize", "glu", "identity",
    "logsumexp",
]  # fmt: skip
X = np.array([-7.0, -1.0, -0.5, 0.0, 0.3, 2.0, 6.5, 20.0], np.float32)


@needs_jax
@pytest.mark.parametrize("name", UNARY)
def test_values_and_gradients_are_jaxs(name):
    lines = [f"from jax import nn\nX = np.array({X.tolist()}, np.float32)"]
    for n in UNARY:
        lines.append(f"y = nn.{n}(X); answer['{n}'] = y")
        lines.append(f"c = np.cos(np.arange(y.size or 1)); f = lambda x: jnp.sum(nn.{n}(x) * c)")
        lines.append(f"answer['d_{n}'] = jax.grad(f)(X)")
    code = "\n".join(lines)
    want = ask(code)
    fun = getattr(nn, name)
    value = fun(X)
    np.testing.assert_allclose(value, want[name], rtol=2e-6, atol=1e-6)
    weights = np.cos(np.arange(value.size or 1))
    got = pb.grad(lambda x: jnp.sum(fun(x) * weights))(X)
    np.testing.assert_allclose(got, want[f"d_{name}"], rtol=1e-4, atol=1e-5)


def test_relu_at_zero():
    assert float(pb.grad(nn.relu)(0.0)) == 0.0
    assert nn.relu(np.array([-3, 4], np.int32)).dtype == np.int32


def test_one_hot():
    got = nn.one_hot(np.array([[0, 2], [1, 5]]), 3)
    want = np.eye(3, dtype=np.float32)[[[0, 2], [1, 0]]] * [[[1], [1]], [[1], [0]]]
    np.testing.assert_array_equal(got, want)
    assert nn.one_hot(np.array([0, 1]), 4, axis=0).shape == (4, 2)
    assert nn.one_hot(1, 3, dtype=np.int32).dtype == np.int32


def test_softmax_of_masked_rows():
    x = np.array([1.0, 2.0, 3.0], np.float32)
    got = nn.softmax(x, where=np.array([True, False, True]))
    small = np.exp(-2) / (1 + np.exp(-2))
    np.testing.assert_allclose(got, [small, 0, 1 - small], rtol=1e-6)


def test_second_derivatives():
    second = pb.grad(pb.grad(nn.softplus))(np.float32(0.3))
    s = 1 / (1 + np.exp(-0.3))
    np.testing.assert_allclose(second, s * (1 - s), rtol=1e-5)
