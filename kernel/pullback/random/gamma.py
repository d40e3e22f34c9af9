"""Gamma variates and what is made of them: beta, dirichlet, chi-squared, t, F.

By rejection (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000), with
the derivative in the shape parameter by implicit differentiation. The streams are JAX's.
Builds on samplers.py. Tested in tests/random/test_distributions.py against jax itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.api.custom import custom_jvp
from pullback.api.jit import jit
from pullback.api.vmap import vmap
from pullback.core import dtypes
from pullback.core.source import api_boundary
from pullback.random.keys import words_of
from pullback.random.samplers import (
    float_dtype,
    normal_words,
    parameter_shape,
    split_words,
    uniform_words,
)
from pullback.random.threefry import split_key

_SQUEEZE = 0.0331  # the paper's bound that saves a logarithm


def _gamma_one(words: Any, alpha: Any, log_space: bool) -> Any:
    """One variate of shape `alpha`: accepted cubes of shifted normals."""
    dtype = alpha.dtype
    boosted = alpha < 1  # drawn at alpha + 1, then scaled by u ** (1 / alpha)
    d = jnp.where(boosted, alpha + 1, alpha) - np.asarray(1 / 3, dtype)
    c = np.asarray(1 / 3, dtype) / lax.sqrt(d)

    def rejected(state: tuple[Any, ...]) -> Any:
        _, square, cube, u = state
        slow = lax.log(u) >= square * 0.5 + d * ((1 - cube) + lax.log(cube))
        return (u >= 1 - _SQUEEZE * (square * square)) & slow

    def positive(words: Any) -> tuple[Any, Any]:
        """A normal x with 1 + c x > 0, and that number."""

        def draw(state: tuple[Any, ...]) -> tuple[Any, ...]:
            words, sub = split_words(state[0])
            x = normal_words(sub, shape=(), dtype=dtype)
            return words, x, 1 + x * c

        start = (words, jnp.zeros((), dtype), -jnp.ones((), dtype))
        _, x, v = lax.while_loop(lambda s: s[2] <= 0, draw, start)
        return x, v

    def propose(state: tuple[Any, ...]) -> tuple[Any, ...]:
        words, x_words, u_words = split_words(state[0], 3)
        x, v = positive(x_words)
        u = uniform_words(u_words, 0.0, 1.0, shape=(), dtype=dtype)
        return words, x * x, v * v * v, u

    words, boost_words = split_words(words)
    start = (words, jnp.zeros((), dtype), jnp.ones((), dtype), jnp.full((), 2, dtype))
    _, _, cube, _ = lax.while_loop(rejected, propose, start)
    u = uniform_words(boost_words, 0.0, 1.0, shape=(), dtype=dtype)
    if log_space:
        log_u = lax.log1p(-u)
        keep = ~boosted | (log_u == 0)
        boost = jnp.where(keep, 0, log_u * (1 / alpha))
        return lax.log(d) + lax.log(cube) + boost
    boost = jnp.where(boosted, lax.pow(1 - u, 1 / alpha), 1)
    return d * cube * boost


def _gamma_flat(words: Any, alpha: Any, log_space: bool) -> Any:
    """Variates for every element of `alpha`, each with its own key."""
    n = math.prod(alpha.shape)
    keys = split_key(words, (n,))
    flat = alpha.reshape(n)
    # The loops of all elements run together until the last is accepted.
    return vmap(lambda k, a: _gamma_one(k, a, log_space))(keys, flat).reshape(alpha.shape)


def _make(log_space: bool) -> Any:
    @custom_jvp
    def sample(words: Any, alpha: Any) -> Any:
        return _gamma_flat(words, alpha, log_space)

    def rule(primals: Any, tangents: Any) -> Any:
        words, alpha = primals
        out = sample(words, alpha)
        value = lax.exp(out) if log_space else out
        slope = lax.random_gamma_grad(alpha, value)
        if log_space:
            tiny = np.asarray(np.finfo(np.float32).tiny, alpha.dtype)
            slope = slope / jnp.where(value == 0, tiny, value)
        return out, slope * tangents[1]

    sample.defjvp(rule)

    def words_sampler(words: Any, a: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
        alpha = jnp.broadcast_to(lax.convert_element_type(a, dtype), shape)
        return sample(words, alpha) if math.prod(shape) else jnp.zeros(shape, dtype)

    return words_sampler


gamma_words = _make(False)
loggamma_words = _make(True)
_gamma = jit(gamma_words, static_argnames=("shape", "dtype"))
_loggamma = jit(loggamma_words, static_argnames=("shape", "dtype"))


@api_boundary
def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Gamma variates of scale 1; differentiable in `a`.

    Args:
        key: a single random key.
        a: shape parameters, positive.
        shape: the result's; a's by default.
        dtype: a float dtype.
    """
    del out_sharding
    found = float_dtype("gamma", dtype)
    words, _ = words_of("gamma", key)
    return _gamma(words, a, shape=parameter_shape("gamma", shape, a), dtype=found)


@api_boundary
def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Logarithms of gamma variates, exact also where the variates underflow. As `gamma`."""
    del out_sharding
    found = float_dtype("loggamma", dtype)
    words, _ = words_of("loggamma", key)
    return _loggamma(words, a, shape=parameter_shape("loggamma", shape, a), dtype=found)


def _beta_words(words: Any, a: Any, b: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    k_a, k_b = split_words(words)
    log_a = loggamma_words(k_a, a, shape=shape, dtype=dtype)
    log_b = loggamma_words(k_b, b, shape=shape, dtype=dtype)
    top = lax.max(log_a, log_b)
    x, y = lax.exp(log_a - top), lax.exp(log_b - top)
    return x / (x + y)


_beta = jit(_beta_words, static_argnames=("shape", "dtype"))


@api_boundary
def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Beta variates: in [0, 1], of parameters a and b."""
    del out_sharding
    found = float_dtype("beta", dtype)
    words, _ = words_of("beta", key)
    return _beta(words, a, b, shape=parameter_shape("beta", shape, a, b), dtype=found)


def _dirichlet_words(words: Any, alpha: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    n = alpha.shape[-1]
    logs = loggamma_words(words, alpha, shape=(*shape, n), dtype=dtype)
    top = lax.stop_gradient(logs.max(-1, keepdims=True))
    parts = lax.exp(logs - top)
    return parts / parts.sum(-1, keepdims=True)


_dirichlet = jit(_dirichlet_words, static_argnames=("shape", "dtype"))


@api_boundary
def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Dirichlet variates: vectors that add up to 1.

    Args:
        key: a single random key.
        alpha: float[..., n]: concentrations.
        shape: the result's without its last axis; alpha.shape[:-1] by default.
        dtype: a float dtype.
    """
    del out_sharding
    found = float_dtype("dirichlet", dtype)
    alpha = jnp.asarray(alpha)
    if alpha.ndim < 1:
        raise ValueError(f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {alpha.ndim}")
    words, _ = words_of("dirichlet", key)
    batch = np.empty(alpha.shape[:-1])
    shape = parameter_shape("dirichlet", shape, batch)
    return _dirichlet(words, alpha, shape=shape, dtype=found)


def chisquare_words(words: Any, df: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Chi-squared variates: gamma variates of half the shape and scale 2."""
    half = lax.convert_element_type(df, dtype) * 0.5
    return 2 * lax.exp(loggamma_words(words, half, shape=shape, dtype=dtype))


_chisquare = jit(chisquare_words, static_argnames=("shape", "dtype"))


@api_boundary
def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Chi-squared variates with `df` degrees of freedom."""
    del out_sharding
    found = float_dtype("chisquare", dtype)
    words, _ = words_of("chisquare", key)
    return _chisquare(words, df, shape=parameter_shape("chisquare", shape, df), dtype=found)


def _t_words(words: Any, df: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    k_n, k_g = split_words(words)
    n = normal_words(k_n, shape=shape, dtype=dtype)
    half = lax.convert_element_type(df, dtype) / 2
    g = gamma_words(k_g, half, shape=shape, dtype=dtype)
    return n * lax.sqrt(half / g)


_t = jit(_t_words, static_argnames=("shape", "dtype"))


@api_boundary
def t(key: Any, df: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Student's t variates with `df` degrees of freedom."""
    del out_sharding
    found = float_dtype("t", dtype)
    words, _ = words_of("t", key)
    return _t(words, df, shape=parameter_shape("t", shape, df), dtype=found)


def _f_words(words: Any, num: Any, den: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    k_den, k_num = split_words(words)
    top = chisquare_words(k_num, num, shape=shape, dtype=dtype)
    bottom = chisquare_words(k_den, den, shape=shape, dtype=dtype)
    num, den = (lax.convert_element_type(x, dtype) for x in (num, den))
    return (top / num) / (bottom / den)


_f = jit(_f_words, static_argnames=("shape", "dtype"))


@api_boundary
def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """F variates: the ratio of two chi-squared variates over their degrees of freedom."""
    del out_sharding
    found = float_dtype("f", dtype)
    words, _ = words_of("f", key)
    return _f(words, dfnum, dfden, shape=parameter_shape("f", shape, dfnum, dfden), dtype=found)


def generalized_normal_words(words: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Variates with density proportional to exp(-abs(x) ** p)."""
    k_size, k_sign = split_words(words)
    p = lax.convert_element_type(p, dtype)
    size = gamma_words(k_size, 1 / p, shape=shape, dtype=dtype)
    default = dtypes.python_scalar_dtype(float)
    u = uniform_words(k_sign, 0.0, 1.0, shape=shape, dtype=default)
    sign = (2 * (u < 0.5).astype(dtype)) - 1
    return sign * lax.pow(size, jnp.broadcast_to(1 / p, shape))


_generalized_normal = jit(generalized_normal_words, static_argnames=("shape", "dtype"))


@api_boundary
def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Variates with density proportional to exp(-abs(x) ** p)."""
    del out_sharding
    found = float_dtype("generalized_normal", dtype)
    words, _ = words_of("generalized_normal", key)
    shape = parameter_shape("generalized_normal", shape, p)
    return _generalized_normal(words, p, shape=shape, dtype=found)


def _ball_words(words: Any, p: Any, *, d: int, shape: tuple[int, ...], dtype: Any) -> Any:
    k_direction, k_radius = split_words(words)
    x = generalized_normal_words(k_direction, p, shape=(*shape, d), dtype=dtype)
    u = uniform_words(k_radius, 0.0, 1.0, shape=shape, dtype=dtype)
    extra = -lax.log1p(-u)
    p = lax.convert_element_type(p, dtype)
    return x / (((jnp.abs(x) ** p).sum(-1) + extra) ** (1 / p))[..., None]


_ball = jit(_ball_words, static_argnames=("d", "shape", "dtype"))


@api_boundary
def ball(
    key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Points uniform in the unit ball of the p-norm in d dimensions: shape (*shape, d)."""
    del out_sharding
    found = float_dtype("ball", dtype)
    words, _ = words_of("ball", key)
    return _ball(words, p, d=int(d), shape=parameter_shape("ball", shape, p), dtype=found)
