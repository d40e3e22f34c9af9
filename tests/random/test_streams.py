"""Every sampler against the real jax, bit for bit (a last-place tolerance where libm differs)."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import ask, needs_jax

import pullback as pb
from pullback import numpy as jnp
from pullback import random

# name -> (expression, exact); `r` is the random module and `k` a key
CASES = {
    "key0": ("r.PRNGKey(0)", True),
    "key_negative": ("r.PRNGKey(-5)", True),
    "key_large": ("r.PRNGKey(2**31 + 7)", True),
    "split": ("r.split(k)", True),
    "split5": ("r.split(k, 5)", True),
    "split_shape": ("r.split(k, (2, 3))", True),
    "fold_in": ("r.fold_in(k, 7)", True),
    "bits8": ("r.bits(k, (7,), 'uint8')", True),
    "bits16": ("r.bits(k, (3, 3), 'uint16')", True),
    "bits32": ("r.bits(k, (5,))", True),
    "bits_empty": ("r.bits(k, (0, 3))", True),
    "uniform": ("r.uniform(k, (3, 5))", True),
    "uniform_scalar": ("r.uniform(k)", True),
    "uniform_bounds": ("r.uniform(k, (4,), minval=-2., maxval=np.float32([1, 2, 3, 4]))", True),
    "uniform_f16": ("r.uniform(k, (4,), 'float16')", True),
    "uniform_bf16": ("r.uniform(k, (4,), 'bfloat16').astype('float32')", True),
    "normal": ("r.normal(k, (100,))", False),
    "normal_complex": ("r.normal(k, (10,), 'complex64')", False),
    "bernoulli": ("r.bernoulli(k, 0.3, (20,))", True),
    "bernoulli_p": ("r.bernoulli(k, np.float32([0.1, 0.9]))", True),
    "randint": ("r.randint(k, (50,), -3, 17)", True),
    "randint_u8": ("r.randint(k, (50,), 0, 256, 'uint8')", True),
    "randint_i8": ("r.randint(k, (50,), -128, 128, 'int8')", True),
    "randint_empty_range": ("r.randint(k, (5,), 4, 2)", True),
    "permutation": ("r.permutation(k, 20)", True),
    "permutation_rows": ("r.permutation(k, np.arange(12).reshape(4, 3))", True),
    "permutation_axis": ("r.permutation(k, np.arange(12).reshape(4, 3), 1)", True),
    "permutation_independent": (
        "r.permutation(k, np.arange(12).reshape(4, 3), 1, independent=True)",
        True,
    ),
    "choice": ("r.choice(k, 10, (6,))", True),
    "choice_no_replace": ("r.choice(k, 10, (6,), replace=False)", True),
    "choice_p": ("r.choice(k, 3, (9,), p=np.float32([0.2, 0.5, 0.3]))", True),
    "choice_p_no_replace": (
        "r.choice(k, np.arange(5) * 2, (3,), replace=False, p=np.float32([.1, .2, .3, .2, .2]))",
        True,
    ),
    "categorical": ("r.categorical(k, np.float32([[0.1, 2., 1.], [3., 0., 0.]]), axis=1)", True),
    "categorical_shape": ("r.categorical(k, np.float32([0.1, 2., 1.]), shape=(7,))", True),
    "gumbel": ("r.gumbel(k, (20,))", False),
    "exponential": ("r.exponential(k, (20,))", False),
    "laplace": ("r.laplace(k, (20,))", False),
    "cauchy": ("r.cauchy(k, (20,))", False),
    "logistic": ("r.logistic(k, (20,))", False),
    "truncated_normal": ("r.truncated_normal(k, -1., 2., (20,))", False),
    "rademacher": ("r.rademacher(k, (20,))", True),
    "gamma": ("r.gamma(k, np.float32([0.3, 1., 4.]), (2, 3))", False),
    "loggamma": ("r.loggamma(k, 0.1, (4,))", False),
    "beta": ("r.beta(k, 1., 2., (5,))", False),
    "dirichlet": ("r.dirichlet(k, np.float32([1., 2., 3.]), (2,))", False),
    "t": ("r.t(k, 3., (5,))", False),
    "chisquare": ("r.chisquare(k, 3., (5,))", False),
    "pareto": ("r.pareto(k, 3., (5,))", False),
    "lognormal": ("r.lognormal(k, 0.5, (5,))", False),
    "rayleigh": ("r.rayleigh(k, 2., (5,))", False),
    "weibull_min": ("r.weibull_min(k, 2., 3., (5,))", False),
    "maxwell": ("r.maxwell(k, (5,))", False),
    "geometric": ("r.geometric(k, 0.3, (9,))", True),
    "ball": ("r.ball(k, 3, shape=(2,))", False),
    "generalized_normal": ("r.generalized_normal(k, 1.5, (5,))", False),
    "orthogonal": ("r.orthogonal(k, 3)", False),
    "poisson": ("r.poisson(k, np.float32([0., 0.5, 3., 50.]), (3, 4))", True),
    "triangular": ("r.triangular(k, 0., 1., 3., (6,))", False),
    "typed_key": ("r.key_data(r.split(r.key(5), 3))", True),
    "vmapped": ("jax.vmap(lambda k: r.uniform(k, (3,)))(r.split(k, 4))", True),
    "jitted": ("jax.jit(lambda k: r.normal(r.split(k)[0], (3,)))(k)", False),
}


@pytest.mark.parametrize("partitionable", [False, True])
@pytest.mark.parametrize("name", CASES)
@needs_jax
def test_same_stream_as_jax(name, partitionable):
    lines = ["r = jax.random; k = r.PRNGKey(42)"]
    lines.append(f"jax.config.update('jax_threefry_partitionable', {partitionable})")
    lines += [f"answer[{n!r}] = {expression}" for n, (expression, _) in CASES.items()]
    want = ask("\n".join(lines))[name]
    expression, exact = CASES[name]
    with pb.threefry_partitionable(partitionable):
        names = {"r": random, "k": random.PRNGKey(42), "np": np, "jnp": jnp, "jax": pb}
        got = np.asarray(eval(expression, names))
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if exact:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-6)


@needs_jax
def test_wide_bits_under_x64():
    code = (
        "jax.config.update('jax_enable_x64', True)\n"
        "jax.config.update('jax_threefry_partitionable', False)\n"
        "k = jax.random.PRNGKey(2**40 + 3)\n"
        "answer.update(key=k, bits=jax.random.bits(k, (5,), 'uint64'),"
        "u=jax.random.uniform(k, (5,)), i=jax.random.randint(k, (5,), 0, 2**40))"
    )
    want = ask(code)
    with pb.enable_x64(True):
        k = random.PRNGKey(2**40 + 3)
        np.testing.assert_array_equal(k, want["key"])
        np.testing.assert_array_equal(random.bits(k, (5,), "uint64"), want["bits"])
        np.testing.assert_array_equal(random.uniform(k, (5,)), want["u"])
        np.testing.assert_array_equal(random.randint(k, (5,), 0, 2**40), want["i"])


def test_known_values():
    np.testing.assert_array_equal(random.PRNGKey(0), np.array([0, 0], np.uint32))
    np.testing.assert_allclose(
        random.normal(random.PRNGKey(0), (2,)), [-0.78476596, 0.85644484], rtol=1e-6
    )


def test_errors_name_the_sampler():
    key = random.PRNGKey(0)
    with pytest.raises(ValueError, match="float dtype"):
        random.uniform(key, (2,), "int32")
    with pytest.raises(TypeError, match="integer dtypes"):
        random.randint(key, (2,), 0, 3, "float32")
    with pytest.raises(ValueError, match="vmap"):
        random.normal(random.split(key, 3), (2,))
    with pytest.raises(TypeError, match="random key"):
        random.normal(jnp.ones(2), (2,))
    with pytest.raises(TypeError, match="must be an integer"):
        random.PRNGKey(1.5)
    with pytest.raises(ValueError, match="larger sample"):
        random.choice(key, 3, (5,), replace=False)


def test_typed_keys():
    key = random.key(3)
    assert key.shape == ()
    keys = random.split(key, (2, 3))
    assert keys.shape == (2, 3)
    assert keys[0].shape == (3,)
    assert random.normal(keys[1, 2]).shape == ()
    with pytest.raises(TypeError, match="not numbers"):
        key + 1
    np.testing.assert_array_equal(random.key_data(key), random.PRNGKey(3))
    assert random.wrap_key_data(random.PRNGKey(3)) == key


def test_normal_has_the_right_distribution():
    x = np.asarray(random.normal(random.key(1), (20000,)))
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.02
