"""Counts: binomial and multinomial variates.

Builds on samplers.py. Sources: for small means, waiting times between successes (Devroye,
Non-Uniform Random Variate Generation, 1986, X.4.3); for others, transformed rejection with squeeze
(Hoermann, The generation of binomial random variates, 1993, algorithm BTRS).
Tested in tests/random/test_binomial.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback import numpy as jnp
from pullback.api.jit import jit
from pullback.core import dtypes
from pullback.core.source import api_boundary
from pullback.random.keys import KeyArray, split, words_of
from pullback.random.samplers import float_dtype, parameter_shape, split_words, uniform_words

# log(k!) less Stirling's formula, for k = 0 .. 9.
_TAILS = (
    0.08106146679532726,
    0.0413406959554093,
    0.02767792568499834,
    0.02079067210376509,
    0.01664469118982119,
    0.01387612882307075,
    0.01189670994589177,
    0.01041126526197209,
    0.009255462182712733,
    0.008330563433362871,
)
_SMALL_MEAN = 10


def _stirling_tail(k: Any) -> Any:
    table = jnp.asarray(_TAILS, k.dtype)[jnp.clip(k, 0, 9).astype(np.int32)]
    x = 1 / (k + 1)
    square = x * x
    return jnp.where(k <= 9, table, (1 / 12 - (1 / 360 - square / 1260) * square) * x)


def _by_waiting(words: Any, n: Any, p: Any) -> Any:
    """The number of geometric waiting times that fit into n trials."""
    log_failure = -jnp.abs(lax.log1p(-p))  # -0 for p = 0: the first success never comes

    def step(carry: Any) -> Any:
        count, trials, words = carry
        own, words = split_words(words)
        count = jnp.where(trials <= n, count + 1, count)
        u = uniform_words(own, 0.0, 1.0, shape=n.shape, dtype=n.dtype)
        return count, trials + lax.ceil(lax.log(u) / log_failure), words

    zero = lax.full_like(n, 0)
    count, _, _ = lax.while_loop(lambda c: (c[1] <= n).any(), step, (zero, zero, words))
    return count - 1


def _by_rejection(words: Any, n: Any, p: Any) -> Any:
    deviation = lax.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    squeeze = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = lax.floor((n + 1) * p)

    def log_density(k: Any) -> Any:
        """The density at k, relative to that at the mode."""
        return (
            (mode + 0.5) * lax.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * lax.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * lax.log(odds * (n - k + 1) / (k + 1))
            + _stirling_tail(mode)
            + _stirling_tail(n - mode)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )

    def step(carry: Any) -> Any:
        words, found, done = carry
        words, first, second = split_words(words, 3)
        u = uniform_words(first, 0.0, 1.0, shape=n.shape, dtype=n.dtype) - 0.5
        v = uniform_words(second, 0.0, 1.0, shape=n.shape, dtype=n.dtype)
        us = 0.5 - jnp.abs(u)
        k = lax.floor((2 * a / us + b) * u + centre)
        inside = (us >= 0.07) & (v <= squeeze)
        outside = (k < 0) | (k > n)
        taken = inside | (~outside & (lax.log(v * alpha / (a / (us * us) + b)) <= log_density(k)))
        return words, jnp.where(taken, k, found), done | taken

    start = (words, lax.full_like(n, -1), lax.full_like(n, False, bool))
    return lax.while_loop(lambda c: ~c[2].all(), step, start)[1]


def _binomial_words(words: Any, n: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    working = dtypes.to_inexact_dtype(dtypes.result_type(n, p))
    n = jnp.broadcast_to(lax.convert_element_type(n, working), shape)
    p = jnp.broadcast_to(lax.convert_element_type(p, working), shape)
    undefined = jnp.isnan(n) | (n < 0) | jnp.isnan(p) | (p < 0) | (p > 1)
    rare = p < 0.5
    q = jnp.where(undefined, 0.5, jnp.where(rare, p, 1 - p))
    waiting = undefined | (n * q <= _SMALL_MEAN)
    small = _by_waiting(words, jnp.where(waiting & ~undefined, n, 0), q)
    large = _by_rejection(words, jnp.where(waiting, 1e4, n), jnp.where(waiting, 0.5, q))
    drawn = jnp.where(waiting, small, large)
    drawn = jnp.where(undefined, np.nan, jnp.where(rare, drawn, n - drawn))
    return drawn.astype(dtype)


_binomial = jit(_binomial_words, static_argnames=("shape", "dtype"))


@api_boundary
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """How many of n trials succeed, each with probability p.

    Args:
        key: a single random key.
        n: numbers of trials.
        p: probabilities of success.
        shape: the result's; that of n and p together by default.
        dtype: a floating dtype.

    Returns:
        Whole numbers in a floating dtype; NaN where n is negative or p outside of [0, 1].
    """
    found = float_dtype("binomial", dtype)
    words, _ = words_of("binomial", key)
    shape = parameter_shape("binomial", shape, n, p)
    return _binomial(words, n, p, shape=shape, dtype=found)


@api_boundary
def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1
) -> Any:
    """How often each of k outcomes occurs in n trials.

    Args:
        key: a single random key.
        n: numbers of trials, [...].
        p: probabilities of the outcomes, [..., k]; they are scaled to sum to 1.
        shape: the result's, its last axis the outcomes; that of n and p together by default.
        dtype: a floating dtype.
        unroll: how many outcomes to write out per turn of the loop.

    Returns:
        Counts that sum to n along the last axis, in a floating dtype.
    """
    found = float_dtype("multinomial", dtype)
    words, _ = words_of("multinomial", key)
    n, p = jnp.asarray(n, found), jnp.asarray(p, found)
    wanted = np.broadcast_shapes(n.shape, p.shape[:-1]) + p.shape[-1:] if shape is None else shape
    n = jnp.broadcast_to(n, wanted[:-1])
    p = jnp.moveaxis(jnp.broadcast_to(p, wanted), -1, 0)
    left = lax.cumsum(p, 0, reverse=True)
    shares = p / jnp.where(left == 0, 1, left)

    def draw(rest: Any, given: Any) -> tuple[Any, Any]:
        share, key = given
        count = binomial(key, rest, jnp.clip(share, 0, 1), dtype=found)
        return rest - count, count

    keys = split(KeyArray(words), p.shape[0])
    return jnp.moveaxis(lax.scan(draw, n, (shares, keys), unroll=unroll)[1], 0, -1)
