"""ravel_pytree, and the names of the package's index."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp
from pullback import ops
from pullback.flatten_util import ravel_pytree


def test_there_and_back():
    tree = {"a": jnp.arange(3), "b": [1.5, np.ones((2, 2), np.float32)]}
    vector, back = ravel_pytree(tree)
    assert vector.shape == (8,)
    again = back(vector)
    assert again["a"].dtype == np.int32
    np.testing.assert_array_equal(again["b"][1], np.ones((2, 2)))
    with pytest.raises(ValueError, match="8 elements"):
        back(vector[:3])


def test_gradient_through_it():
    params = {"w": jnp.ones(3), "b": 2.0}
    vector, back = ravel_pytree(params)
    g = pb.grad(lambda v: jnp.sum(back(v)["w"] ** 2) * back(v)["b"])(vector)
    np.testing.assert_allclose(g, [3.0, 4.0, 4.0, 4.0])


def test_empty():
    vector, back = ravel_pytree({})
    assert vector.shape == (0,)
    assert back(vector) == {}


@pytest.mark.parametrize("name", pb.__all__)
def test_every_name_of_the_index_is_there(name):
    assert getattr(pb, name) is not None


def test_segment_reductions():
    data, ids = np.float32([1, 2, 3, 4]), np.array([0, 2, 0, 5])
    np.testing.assert_array_equal(ops.segment_sum(data, ids, 3), [4, 0, 2])
    np.testing.assert_array_equal(ops.segment_max(data, ids, 3), [3, -np.inf, 2])
    np.testing.assert_array_equal(ops.segment_min(data, ids)[:3], [1, np.inf, 2])
    np.testing.assert_array_equal(ops.segment_prod(data, ids, 1), [3])
    g = pb.grad(lambda d: jnp.sum(ops.segment_sum(d, ids, 3) ** 2))(data)
    np.testing.assert_array_equal(g, [8, 4, 8, 0])
