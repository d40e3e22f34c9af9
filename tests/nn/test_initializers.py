"""Initial values of weights: JAX's numbers."""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn, random


def test_orthogonal_of_a_square_shape_is_that_of_jax():
    """Values: jax 0.10.2, key 3."""
    want = [[-0.93506479, -0.35447708], [0.35447708, -0.93506467]]
    with pb.threefry_partitionable(False):
        key = random.key(3)
        square = nn.initializers.orthogonal()(key, (2, 2))
        kernel = nn.initializers.delta_orthogonal()(key, (3, 3, 2, 2))
        wide = nn.initializers.delta_orthogonal()(key, (1, 2, 3))
    np.testing.assert_allclose(square, want, rtol=1e-5)
    np.testing.assert_allclose(kernel[1, 1], want, rtol=1e-5)
    np.testing.assert_allclose(wide[0, 1], [0.1719058, 0.7979221, 0.5777274], rtol=1e-5)


def test_orthogonal_columns():
    for shape in ((2, 3), (3, 2), (3, 3)):
        w = np.asarray(nn.initializers.orthogonal(2.0)(random.key(0), shape))
        gram = w @ w.T if shape[0] < shape[1] else w.T @ w
        np.testing.assert_allclose(gram, 4 * np.eye(min(shape)), atol=1e-5)
