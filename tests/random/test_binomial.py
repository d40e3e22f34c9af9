"""Binomial and multinomial variates: JAX's numbers (0.10.2), moments, edges."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp
from pullback import random


@pytest.fixture(autouse=True)
def _original_threefry():
    with pb.threefry_partitionable(False):
        yield


@pytest.mark.parametrize(
    ("seed", "small", "large", "mixed"),
    [
        (0, [7, 4, 2, 5], [72, 68, 70, 71], [0, 28, 0]),
        (1, [2, 4, 6, 4], [70, 70, 65, 66], [0, 20, 0]),
        (2, [2, 2, 1, 3], [61, 74, 65, 64], [0, 27, 0]),
    ],
)
def test_numbers_of_jax(seed, small, large, mixed):
    key = random.key(seed)
    assert random.binomial(key, 10, 0.3, (4,)).tolist() == small
    assert random.binomial(key, 100, 0.7, (4,)).tolist() == large
    n, p = jnp.array([3.0, 50.0, 0.0]), jnp.array([0.1, 0.5, 0.5])
    assert random.binomial(key, n, p).tolist() == mixed


@pytest.mark.parametrize(
    ("seed", "want"), [(0, [[1, 2, 2], [0, 0, 7]]), (1, [[3, 1, 1], [0, 0, 7]])]
)
def test_multinomial_numbers_of_jax(seed, want):
    n, p = jnp.array([5.0, 7.0]), jnp.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    assert random.multinomial(random.key(seed), n, p).tolist() == want


def test_moments():
    for n, p in ((10, 0.3), (200, 0.6)):
        x = np.asarray(random.binomial(random.key(3), n, p, (4000,)))
        assert abs(x.mean() - n * p) < 0.05 * np.sqrt(n)
        assert abs(x.var() / (n * p * (1 - p)) - 1) < 0.1


def test_edges():
    key = random.key(0)
    assert random.binomial(key, 7.0, jnp.array([0.0, 1.0])).tolist() == [0, 7]
    for n, p in ((5.0, 1.5), (5.0, -0.1), (-1.0, 0.5), (np.nan, 0.5), (5.0, np.nan)):
        assert np.isnan(random.binomial(key, n, p))
    assert random.binomial(key, 7.0, 0.5, dtype="float16").dtype == np.float16
    assert random.multinomial(key, 30, jnp.array([1.0, 2.0, 0.0])).sum() == 30
    with pytest.raises(ValueError, match="must be a float dtype"):
        random.binomial(key, 5, 0.5, dtype=int)
