"""More distributions by formulas on uniform, normal and exponential variates; Poisson counts.

The streams are JAX's. Builds on samplers.py. Tested in tests/random/test_distributions.py against
jax itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.api.jit import jit
from pullback.core import dtypes
from pullback.core.source import api_boundary
from pullback.numpy import linalg
from pullback.random.keys import shape_tuple, words_of
from pullback.random.samplers import (
    float_dtype,
    normal_words,
    parameter_shape,
    split_words,
    uniform_words,
)

_ONE = np.float32(1.0)


def _unit(words: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return uniform_words(words, 0.0, 1.0, shape=shape, dtype=dtype)


def _run(
    name: str,
    words_sampler: Callable[..., Any],
    key: Any,
    shape: Any,
    dtype: Any,
    *params: Any,
) -> Any:
    """Check the arguments, and call the compiled sampler with parameters of the result's dtype."""
    found = float_dtype(name, dtype)
    words, _ = words_of(name, key)
    return words_sampler(words, *params, shape=parameter_shape(name, shape, *params), dtype=found)


def _compiled(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A sampler on words whose parameters are converted and broadcast first."""

    def words_sampler(words: Any, *params: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        params = tuple(jnp.broadcast_to(lax.convert_element_type(p, dtype), shape) for p in params)
        return fun(words, *params, shape, dtype)

    words_sampler.__name__ = fun.__name__
    return jit(words_sampler, static_argnames=("shape", "dtype"))


@_compiled
def _lognormal(words: Any, sigma: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return lax.exp(normal_words(words, shape=shape, dtype=dtype) * sigma)


@api_boundary
def lognormal(
    key: Any,
    sigma: Any = _ONE,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """exp of normal variates with standard deviation `sigma`."""
    del out_sharding
    return _run("lognormal", _lognormal, key, shape, dtype, sigma)


@_compiled
def _pareto(words: Any, b: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return lax.exp(-lax.log1p(-_unit(words, shape, dtype)) / b)


@api_boundary
def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Pareto variates of shape `b`: above 1, with a tail x ** -b."""
    del out_sharding
    return _run("pareto", _pareto, key, shape, dtype, b)


@_compiled
def _rayleigh(words: Any, scale: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return scale * lax.sqrt(lax.log(_unit(words, shape, dtype)) * -2.0)


@api_boundary
def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Rayleigh variates: the length of 2-D normal vectors of deviation `scale`."""
    del out_sharding
    return _run("rayleigh", _rayleigh, key, shape, dtype, scale)


@_compiled
def _weibull(words: Any, scale: Any, power: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return lax.pow(-lax.log1p(-_unit(words, shape, dtype)), 1.0 / power) * scale


@api_boundary
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Any:
    """Weibull variates of a scale and a concentration (shape) parameter."""
    return _run("weibull_min", _weibull, key, shape, dtype, scale, concentration)


@_compiled
def _maxwell(words: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return linalg.norm(normal_words(words, shape=(*shape, 3), dtype=dtype), axis=-1)


@api_boundary
def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Maxwell variates: the length of 3-D standard normal vectors."""
    del out_sharding
    found = float_dtype("maxwell", dtype)
    words, _ = words_of("maxwell", key)
    return _maxwell(words, shape=shape_tuple(shape), dtype=found)


@_compiled
def _double_maxwell(words: Any, loc: Any, scale: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    k_size, k_sign = split_words(words)
    size = linalg.norm(normal_words(k_size, shape=(*shape, 3), dtype=dtype), axis=-1)
    coin = _unit(k_sign, shape, dtypes.python_scalar_dtype(float))
    sign = 2 * (coin < 0.5).astype(dtype) - 1
    return size * sign * scale + loc


@api_boundary
def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Maxwell variates with a random sign, scaled and moved."""
    found = float_dtype("double_sided_maxwell", dtype)
    words, _ = words_of("double_sided_maxwell", key)
    shape = shape_tuple(shape) + np.broadcast_shapes(np.shape(loc), np.shape(scale))
    return _double_maxwell(words, loc, scale, shape=shape, dtype=found)


@_compiled
def _triangular(
    words: Any, left: Any, mode: Any, right: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    share = (mode - left) / (right - left)
    u = _unit(words, shape, dtype)
    low = left + lax.sqrt(u * (right - left) * (mode - left))
    high = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return jnp.where(u < share, low, high)


@api_boundary
def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Triangular variates between left and right, densest at the mode."""
    del out_sharding
    return _run("triangular", _triangular, key, shape, dtype, left, mode, right)


@_compiled
def _wald(words: Any, mean: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    k_normal, k_uniform = split_words(words)
    v = normal_words(k_normal, shape=shape, dtype=dtype)
    z = _unit(k_uniform, shape, dtype)
    y = v * v
    y_square, mean_square = y * y, mean * mean
    root = lax.sqrt(4 * mean * y + mean_square * y_square)
    w = mean + mean_square * y / 2 - mean / 2 * root
    return jnp.where(z <= mean / (mean + w), w, mean_square / w)


@api_boundary
def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Wald (inverse Gaussian) variates of scale 1."""
    del out_sharding
    return _run("wald", _wald, key, shape, dtype, mean)


def _geometric_words(words: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    p = lax.convert_element_type(p, dtypes.to_inexact_dtype(jnp.result_type(p)))
    u = _unit(words, shape, p.dtype)
    u = jnp.where(u == 0, 1, u)
    count = lax.floor(lax.log(u) / jnp.broadcast_to(lax.log1p(-p), shape)) + 1
    return lax.convert_element_type(count, dtype)


_geometric = jit(_geometric_words, static_argnames=("shape", "dtype"))


def _count_dtype(name: str, dtype: Any) -> Any:
    found = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    if not dtypes.issubdtype(found, np.integer):
        raise ValueError(f"dtype argument to `{name}` must be an int dtype, got {found}")
    return found


@api_boundary
def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """How many trials of success probability `p` until the first success, from 1."""
    del out_sharding
    found = _count_dtype("geometric", dtype)
    words, _ = words_of("geometric", key)
    return _geometric(words, p, shape=parameter_shape("geometric", shape, p), dtype=found)


# ---------------------------------------------------------------- Poisson


def _poisson_small(words: Any, lam: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """By counting uniform factors until their product is below exp(-lam) (Knuth, TAOCP 3.4.1)."""

    def more(state: tuple[Any, ...]) -> Any:
        return (state[2] > -lam).any()

    def multiply(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, words, log_product = state
        words, sub = split_words(words)
        count = jnp.where(log_product > -lam, count + 1, count)
        u = _unit(sub, shape, np.dtype(np.float32))
        return count, words, log_product + lax.log(u)

    start = (jnp.zeros(shape, dtype), words, jnp.zeros(shape, np.float32))
    return lax.while_loop(more, multiply, start)[0] - 1


def _poisson_large(words: Any, lam: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """By transformed rejection (Hoermann, "The transformed rejection method for generating Poisson
    random variables", 1993, algorithm PTRS)."""
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_accept = 0.9277 - 3.6224 / (b - 2)

    def propose(state: tuple[Any, ...]) -> tuple[Any, ...]:
        found, accepted, words = state
        words, k_u, k_v = split_words(words, 3)
        u = _unit(k_u, shape, lam.dtype) - 0.5
        v = _unit(k_v, shape, lam.dtype)
        us = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / us + b) * u + lam + 0.43)
        s = lax.log(v * inverse_alpha / (a / (us * us) + b))
        limit = -lam + k * log_lam - lax.lgamma(k + 1)
        quick = (us >= 0.07) & (v <= v_accept)
        reject = (k < 0) | ((us < 0.013) & (v > us))
        accept = quick | (~reject & (s <= limit))
        return jnp.where(accept, k, found), accepted | accept, words

    start = (jnp.full(shape, -1, lam.dtype), jnp.zeros(shape, bool), words)
    found = lax.while_loop(lambda s: (~s[1]).any(), propose, start)[0]
    return lax.convert_element_type(found, dtype)


def _poisson_words(words: Any, lam: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    lam = jnp.broadcast_to(lax.convert_element_type(lam, np.float32), shape)
    small = (lam != lam) | (lam < 10)
    few = _poisson_small(words, jnp.where(small, lam, 0), shape, dtype)
    many = _poisson_large(words, jnp.where(small, 1e5, lam), shape, dtype)
    return jnp.where(lam == 0, 0, jnp.where(small, few, many)).astype(dtype)


_poisson = jit(_poisson_words, static_argnames=("shape", "dtype"))


@api_boundary
def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Poisson counts of rate `lam`.

    Args:
        key: a single random key.
        lam: rates.
        shape: the result's; lam's by default.
        dtype: an integer dtype.
    """
    del out_sharding
    found = _count_dtype("poisson", dtype)
    words, _ = words_of("poisson", key)
    return _poisson(words, lam, shape=parameter_shape("poisson", shape, lam), dtype=found)


# ---------------------------------------------------------------- matrices


def _orthogonal_words(words: Any, *, n: int, m: int, shape: tuple[int, ...], dtype: Any) -> Any:
    z = normal_words(words, shape=(*shape, max(n, m), min(n, m)), dtype=dtype)
    q, r = linalg.qr(z)
    d = linalg.diagonal(r)
    x = q * (d / jnp.abs(d))[..., None, :]
    return x if n >= m else jnp.conj(jnp.swapaxes(x, -1, -2))


_orthogonal = jit(_orthogonal_words, static_argnames=("n", "m", "shape", "dtype"))


@api_boundary
def orthogonal(
    key: Any,
    n: int,
    shape: Any = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Uniform orthogonal matrices of shape (*shape, n, m), m = n by default.

    Args:
        key: a single random key.
        n, m: numbers of rows and columns.
        shape: of the stack of matrices.
        dtype: a float or complex dtype.
    """
    del out_sharding
    found = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    if not dtypes.issubdtype(found, np.inexact):
        raise ValueError(f"orthogonal: dtype must be floating or complex, got {found}")
    words, _ = words_of("orthogonal", key)
    return _orthogonal(
        words, n=int(n), m=int(n if m is None else m), shape=shape_tuple(shape), dtype=found
    )
