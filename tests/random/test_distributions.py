"""Gamma, Poisson and other variates: JAX's numbers (recorded from 0.10.2), moments, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import ask, needs_jax

import pullback as pb
from pullback import numpy as jnp
from pullback import random

CASES = {
    "f": "r.f(k, 3., 4., (3,))",
    "wald": "r.wald(k, 2., (3,))",
    "double_sided_maxwell": "r.double_sided_maxwell(k, 1., 2., (3,))",
    "gamma_grad": "jax.grad(lambda a: r.gamma(k, a, (3,)).sum())(2.)",
    "loggamma_grad": "jax.grad(lambda a: r.loggamma(k, a, (3,)).sum())(0.7)",
    "gamma_vmap": "jax.vmap(lambda q: r.gamma(q, 2.))(r.split(k, 3))",
    "poisson": "r.poisson(k, jnp.float32([0., 1., 20., 300.]))",
    "orthogonal_wide": "r.orthogonal(k, 2, (2,), m=3)",
}


@needs_jax
@pytest.mark.parametrize("partitionable", [False, True])
def test_same_numbers_as_jax(partitionable: bool) -> None:
    lines = [f"jax.config.update('jax_threefry_partitionable', {partitionable})"]
    lines += ["r = jax.random; k = r.PRNGKey(3)"]
    want = ask("\n".join(lines + [f"answer[{n!r}] = {e}" for n, e in CASES.items()]))
    with pb.threefry_partitionable(partitionable):
        scope: dict[str, Any] = {"r": random, "k": random.PRNGKey(3), "jnp": jnp, "jax": pb}
        for name, expression in CASES.items():
            got = np.asarray(eval(expression, scope))
            np.testing.assert_allclose(got, want[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_recorded_numbers() -> None:
    key = random.PRNGKey(3)
    np.testing.assert_allclose(
        random.f(key, 3.0, 4.0, (3,)), [0.42269105, 1.0301307, 0.8231597], rtol=1e-5
    )


MOMENTS = [
    (lambda k: random.gamma(k, 2.5, (4000,)), 2.5, 2.5),
    (lambda k: random.gamma(k, 0.4, (4000,)), 0.4, 0.4),
    (lambda k: jnp.exp(random.loggamma(k, 3.0, (4000,))), 3.0, 3.0),
    (lambda k: random.beta(k, 2.0, 3.0, (4000,)), 0.4, 0.04),
    (lambda k: random.poisson(k, 4.0, (4000,)), 4.0, 4.0),
    (lambda k: random.poisson(k, 40.0, (4000,)), 40.0, 40.0),
    (lambda k: random.geometric(k, 0.25, (4000,)), 4.0, 12.0),
    (lambda k: random.rayleigh(k, 2.0, (4000,)), 2 * np.sqrt(np.pi / 2), 4 * (2 - np.pi / 2)),
    (lambda k: random.triangular(k, 0.0, 1.0, 2.0, (4000,)), 1.0, 1 / 6),
]


@pytest.mark.parametrize("sampler, mean, variance", MOMENTS)
def test_moments(sampler: Any, mean: float, variance: float) -> None:
    x = np.asarray(sampler(random.PRNGKey(0)), float)
    spread = np.sqrt(variance / x.size)
    assert abs(x.mean() - mean) < 4.5 * spread
    assert x.var() == pytest.approx(variance, rel=0.2)


def test_shapes_and_laws() -> None:
    key = random.PRNGKey(1)
    assert random.dirichlet(key, jnp.ones(4), (2,)).sum(-1).tolist() == pytest.approx([1, 1])
    q = random.orthogonal(key, 3)
    np.testing.assert_allclose(q @ q.T, np.eye(3), atol=1e-5)
    inside = random.ball(key, 3, shape=(50,))
    assert inside.shape == (50, 3) and float(jnp.linalg.norm(inside, axis=1).max()) <= 1
    assert random.gamma(key, jnp.ones((0,))).shape == (0,)
    with pytest.raises(ValueError, match="broadcast-compatible"):
        random.gamma(key, jnp.ones(3), (2,))
    with pytest.raises(ValueError, match="int dtype"):
        random.poisson(key, 1.0, (), "float32")


def test_signs_under_x64_are_those_of_jax():
    """They are drawn in the default float type. Values: jax 0.10.2, key 0."""
    with pb.enable_x64(True), pb.threefry_partitionable(False):
        key = random.key(0)
        np.testing.assert_allclose(
            random.double_sided_maxwell(key, 0.0, 1.0, (4,)),
            [-1.66769231, 1.44589297, -1.11739578, -0.89599346],
            rtol=1e-8,
        )
        np.testing.assert_allclose(
            random.generalized_normal(key, 2.0, (4,)),
            [-0.50080343, 0.44501407, -0.29561371, -0.42204147],
            rtol=1e-7,
        )
        found = random.categorical(key, jnp.zeros(4), replace=False, shape=(2,))
        assert found.dtype == np.int32
