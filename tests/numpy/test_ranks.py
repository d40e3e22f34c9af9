"""jax_numpy_rank_promotion: what operands of different rank do."""

import warnings

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback import errors

MATRIX, VECTOR = jnp.ones((3, 3)), jnp.ones(3)


@pytest.mark.parametrize(
    "function", [jnp.add, jnp.maximum, jnp.divide, jnp.less, jnp.logaddexp, jnp.power]
)
def test_raise(function):
    with jax.numpy_rank_promotion("raise"):
        with pytest.raises(errors.ShapeError, match=r"\(3, 3\) and \(3,\) differ in rank"):
            function(MATRIX, VECTOR)
        assert function(MATRIX, MATRIX).shape == (3, 3)
        assert function(MATRIX, 1.0).shape == (3, 3)
        assert function(MATRIX, VECTOR[None]).shape == (3, 3)


def test_operators_and_traced_values():
    with jax.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="add"):
            MATRIX + VECTOR
        with pytest.raises(ValueError, match="multiply"):
            jax.jit(lambda x, y: x * y)(MATRIX, VECTOR)


def test_products_and_broadcast_to_are_free():
    with jax.numpy_rank_promotion("raise"):
        np.testing.assert_array_equal(MATRIX @ VECTOR, 3 * np.ones(3))
        assert jnp.broadcast_to(VECTOR, (3, 3)).shape == (3, 3)


def test_warn():
    with jax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="differ in rank"):
        assert (MATRIX + VECTOR).shape == (3, 3)


def test_allow():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (MATRIX + VECTOR).shape == (3, 3)
