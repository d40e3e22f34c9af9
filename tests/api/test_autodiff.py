"""What the transformations of differentiation give back to their callers."""

from __future__ import annotations

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import lax, nn


@pullback.custom_vjp
def scaled(x):
    return x * 2.0


scaled.defvjp(lambda x: (x * 2.0, None), lambda residual, ct: (ct * 100.0,))


@pullback.custom_vjp
def stopped(x):
    return x * 2.0


stopped.defvjp(lambda x: (x * 2.0, None), lambda residual, ct: (None,))


@pytest.mark.parametrize(
    ("fun", "want"),
    [
        (lambda x: x, 1.0),
        (lambda x: 3.0, 0.0),
        (jnp.sign, 0.0),
        (jnp.round, 0.0),
        (lambda x: x if x > 2 else -x, -1.0),
        (lambda x: jnp.asarray(x, int) * 1.0, 0.0),
        (scaled, 100.0),
        (stopped, 0.0),
    ],
)
@pytest.mark.parametrize("x", [1.0, np.float32(1.0), np.float64(1.0)])
def test_gradients_are_arrays_of_the_dtype_of_the_argument(fun, want, x):
    """Also where no operation touched them: they have `.at`, `.devices()` and `.block_until_ready()`."""
    for got in (
        pullback.grad(fun)(x),
        pullback.value_and_grad(fun)(x)[1],
        pullback.grad(lambda p: fun(p["x"]))({"x": x, "unused": x})["x"],
        pullback.grad(lambda x: (fun(x), "aux"), has_aux=True)(x)[0],
    ):
        assert isinstance(got, pullback.Array)
        assert (got.dtype, got.shape, float(got)) == (np.float32, (), want)


def test_tangents_and_cotangents_are_arrays():
    value, tangent = pullback.jvp(lambda x: (x, 3.0), (2.0,), (1.0,))
    _, pull = pullback.vjp(lambda x, y: x, 2.0, np.ones(2, np.float32))
    _, push = pullback.linearize(lambda x: (x, 3.0), 2.0)
    for leaf in pullback.tree.leaves((value, tangent, pull(1.0), push(1.0))):
        assert isinstance(leaf, pullback.Array)


def test_gradients_of_integers_are_float0():
    got = pullback.grad(lambda p: p["w"] * 2.0, allow_int=True)({"w": 2.0, "n": 3})
    assert isinstance(got["w"], pullback.Array)
    assert got["n"].dtype == pullback.float0


def test_an_argument_that_was_not_passed_by_position_is_a_type_error():
    with pytest.raises(TypeError, match="requires at least 3 positional arguments"):
        pullback.grad(lambda x, y: x * y, argnums=2)(2.0, 3.0)
    with pytest.raises(TypeError, match="not by name"):
        pullback.grad(lambda x: x * 2)(x=2.0)


@pytest.mark.parametrize("tangent", [1, True, 1.0])
def test_tangents_have_the_dtype_of_their_primals(tangent):
    primal = np.float16(1) if tangent == 1.0 and isinstance(tangent, float) else 1.0
    with pytest.raises(TypeError, match="must have dtype float"):
        pullback.jvp(lambda x: x * x, (primal,), (tangent,))
    with pytest.raises(TypeError, match="must have dtype float"):
        pullback.linearize(lambda x: x * x, primal)[1](tangent)


def test_jacrev_by_integers_gives_zeros():
    jac = pullback.jacrev(lambda d: d["a"] * d["n"], allow_int=True)({"a": 2.0, "n": jnp.arange(2)})
    assert jac["a"].tolist() == [0.0, 1.0]
    assert (jac["n"].dtype, jac["n"].tolist()) == (np.int32, [[0, 0], [0, 0]])
    assert pullback.jacrev(lambda n: n * 2.0, allow_int=True)(3).tolist() == 0


@pytest.mark.parametrize("x64", [False, True])
def test_gradients_of_numbers_have_their_weak_type(x64):
    with pullback.enable_x64(x64):
        assert pullback.grad(lambda x: x * x)(3.0).weak_type
        assert pullback.grad(lambda x: x * x, holomorphic=True)(3.0 + 1j).weak_type
        assert not pullback.grad(lambda x: x * x)(jnp.float32(3.0)).weak_type


@pytest.mark.parametrize("argument", [0.5, np.float32(0.5)])
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x,
        lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0),
        lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x),
        lambda x: lax.scan(lambda c, y: (jnp.sin(c) * y, c), x, jnp.arange(3.0))[0],
        lambda x: jnp.sum(pullback.vmap(pullback.jit(lambda y: jnp.sin(y) * x))(jnp.arange(3.0))),
        nn.relu,
    ],
)
def test_gradients_have_the_weak_type_of_the_argument(fun, argument):
    weak = type(argument) is float
    for _ in range(3):  # from the third call on, eager gradients run as one program
        assert pullback.grad(fun)(argument).weak_type == weak
    assert pullback.jit(pullback.grad(fun))(argument).weak_type == weak
    assert pullback.vjp(fun, argument)[1](fun(argument))[0].weak_type == weak
