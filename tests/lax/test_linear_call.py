"""Linear functions whose transpose is given."""

import functools

import numpy as np
import pytest

import pullback as jax
from pullback import lax
from pullback import numpy as jnp
from pullback.custom_derivatives import linear_call

X = np.array([1.0, 2.0, 3.0], np.float32)


def _scaled(r, x):
    """x / r, whose given transpose is wrong by a factor, so that its use shows."""
    return linear_call(lambda r, x: x / r, lambda r, ct: 10 * ct / r, r, x)


def test_value_and_forward_mode_are_those_of_the_function():
    assert float(_scaled(2.0, 3.0)) == 1.5
    assert float(jax.jvp(functools.partial(_scaled, 2.0), (3.0,), (4.0,))[1]) == 2.0


def test_reverse_mode_and_linear_transpose_use_the_given_transpose():
    assert float(jax.grad(_scaled, 1)(2.0, 3.0)) == 5.0
    assert float(jax.linear_transpose(functools.partial(_scaled, 2.0), 3.0)(1.0)[0]) == 5.0
    assert float(jax.jit(jax.grad(_scaled, 1))(2.0, 3.0)) == 5.0


def test_the_transpose_of_the_transpose_is_the_function():
    def transposed(f):
        return lambda y: jax.linear_transpose(f, 1.0)(y)[0]

    f = functools.partial(_scaled, 2.0)
    assert float(transposed(transposed(f))(1.0)) == 0.5
    assert float(transposed(transposed(transposed(f)))(1.0)) == 5.0


def test_residuals_are_differentiated_through_the_function():
    np.testing.assert_allclose(jax.grad(_scaled)(2.0, 3.0), -3 / 4)
    np.testing.assert_allclose(jax.jvp(_scaled, (2.0, 3.0), (1.0, 1.0))[1], -3 / 4 + 1 / 2)
    np.testing.assert_allclose(jax.jit(jax.grad(_scaled))(2.0, 3.0), -3 / 4)


def test_closed_over_values():
    def fun(z):
        return linear_call(lambda r, x: x * z, lambda r, ct: ct * z, (), 2.0)

    assert float(jax.grad(fun)(3.0)) == 2.0


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_vmap(axes):
    args = [X if a == 0 else 2.0 for a in axes]
    np.testing.assert_allclose(jax.vmap(_scaled, axes)(*args), args[1] / args[0])
    mapped = jax.vmap(jax.grad(_scaled, 1), axes)(*args)
    np.testing.assert_allclose(mapped, np.broadcast_to(10 / np.asarray(args[0]), 3), rtol=1e-6)
    summed = jax.grad(lambda x: jax.vmap(_scaled, axes)(args[0], x).sum())(args[1])
    want = 10 / np.asarray(args[0])
    want = (
        want.sum() if axes[1] is None and axes[0] == 0 else np.broadcast_to(want, np.shape(args[1]))
    )
    np.testing.assert_allclose(summed, want, rtol=1e-6)


def test_in_a_scan():
    def fun(x):
        step = lambda c, _: (linear_call(lambda r, a: a * r, lambda r, b: b * 7, 2.0, c), None)  # noqa: E731
        return lax.scan(step, x, None, length=2)[0]

    assert (float(fun(1.0)), float(jax.grad(fun)(1.0))) == (4.0, 49.0)


def test_pytrees():
    def fun(p):
        return linear_call(
            lambda r, a: {"o": a[0] * r + a[1]}, lambda r, b: (b["o"] * r, b["o"]), 2.0, p
        )

    assert [float(v) for v in jax.linear_transpose(fun, (1.0, 1.0))({"o": 1.0})[0]] == [2.0, 1.0]


def test_errors():
    with pytest.raises(TypeError, match="structure must match that of linear inputs"):
        linear_call(lambda r, a: a[0] + a[1], lambda r, b: (b,), (), (1.0, 2.0))
    with pytest.raises(TypeError, match="f32\\[3\\].*shapes do not match"):
        linear_call(lambda r, a: a, lambda r, b: jnp.ones(3), (), 1.0)
