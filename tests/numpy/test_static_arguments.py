"""Arguments that are part of the program: axes, counts and sizes that are traced are refused."""

from __future__ import annotations

import pytest

import pullback as pb
import pullback.numpy as jnp
from pullback import errors

X = jnp.ones((2, 3))


@pytest.mark.parametrize(
    ("fun", "text"),
    [
        (lambda n: jnp.linspace(0, 1, n), "the num must be known"),
        (lambda n: jnp.split(X, n, axis=1), "the number of sections must be known"),
        (lambda n: jnp.split(X, [n], axis=1), "the split point must be known"),
        (lambda n: jnp.sum(X, axis=n), "the axis must be known"),
        (lambda n: X.max(n), "the axis must be known"),
        (lambda n: jnp.concatenate([X, X], n), "the axis must be known"),
        (lambda n: jnp.tile(X, n), "the reps must be known"),
        (lambda n: jnp.tile(X, (n, 1)), "the reps must be known"),
        (lambda n: jnp.repeat(X, n), "total_repeat_length"),
    ],
)
def test_traced_static_arguments(fun, text):
    with pytest.raises(errors.ConcretizationTypeError, match=text) as caught:
        pb.jit(fun)(1)
    assert "static_argnames" in str(caught.value)
    fun(jnp.int32(1))
    pb.grad(lambda x: jnp.sum(fun(1)[0]) * x)(1.0)


def test_two_unknown_sizes():
    with pytest.raises(TypeError, match=r"one unknown axis size with a `-1` value, got \(-1, -1\)"):
        X.reshape(-1, -1)
