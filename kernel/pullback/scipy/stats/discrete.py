"""Probabilities of discrete distributions, as SciPy parametrises them.

The module of each distribution (poisson.py, ...) is an index of its functions here.
Builds on special.py. Tested in tests/scipy/test_stats.py against SciPy.
"""

from __future__ import annotations

import math
from typing import Any

from pullback import lax
from pullback import numpy as jnp
from pullback.numpy import promote
from pullback.numpy.fused import fused
from pullback.scipy import special


def _inputs(name: str, *args: Any) -> list[Any]:
    return promote.broadcast(name, *promote.lift_all(name, *promote.promote_inexact(name, *args)))


@fused()
def _bernoulli(k: Any, p: Any) -> Any:
    logs = special.xlogy(k, p) + special.xlog1py(1 - k, -p)
    return jnp.where((k == 0) | (k == 1), logs, -math.inf)


def bernoulli_logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k (0 or 1, moved by loc) with success probability p."""
    k, p, loc = _inputs("bernoulli.logpmf", k, p, loc)
    return _bernoulli(k - loc, p)


def bernoulli_pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k."""
    return lax.exp(bernoulli_logpmf(k, p, loc))


def bernoulli_cdf(k: Any, p: Any) -> Any:
    """The probability of at most k."""
    k, p = _inputs("bernoulli.cdf", k, p)
    return jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1)).astype(p.dtype)


def bernoulli_ppf(q: Any, p: Any) -> Any:
    """The smallest k with cdf(k) >= q; NaN for impossible q or p."""
    q, p = _inputs("bernoulli.ppf", q, p)
    good = (q >= 0) & (q <= 1) & (p >= 0) & (p <= 1)
    return jnp.where(good, jnp.where(q <= 1 - p, 0.0, 1.0), jnp.nan).astype(p.dtype)


@fused()
def _poisson(k: Any, mu: Any) -> Any:
    logs = special.xlogy(k, mu) - lax.lgamma(k + 1) - mu
    return jnp.where((k < 0) | (lax.floor(k) != k), -math.inf, logs)


def poisson_logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k (moved by loc) at rate mu."""
    k, mu, loc = _inputs("poisson.logpmf", k, mu, loc)
    return _poisson(k - loc, mu)


def poisson_pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of k."""
    return lax.exp(poisson_logpmf(k, mu, loc))


def poisson_cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """The probability of at most k."""
    k, mu, loc = _inputs("poisson.cdf", k, mu, loc)
    k = k - loc
    return jnp.where(k < 0, 0, special.gammaincc(lax.floor(jnp.maximum(k, 0)) + 1, mu))


@fused()
def _binom(k: Any, n: Any, p: Any) -> Any:
    ways = lax.lgamma(n + 1) - lax.lgamma(k + 1) - lax.lgamma(n - k + 1)
    logs = ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)
    return jnp.where((k < 0) | (k > n), -math.inf, logs)


def binom_logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability of k successes in n trials."""
    k, n, p, loc = _inputs("binom.logpmf", k, n, p, loc)
    return _binom(k - loc, n, p)


def binom_pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """The probability of k successes in n trials."""
    return lax.exp(binom_logpmf(k, n, p, loc))


@fused()
def _geom(k: Any, p: Any) -> Any:
    return jnp.where(k <= 0, -math.inf, special.xlog1py(k - 1, -p) + lax.log(p))


def geom_logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The logarithm of the probability that the first success is the k-th trial."""
    k, p, loc = _inputs("geom.logpmf", k, p, loc)
    return _geom(k - loc, p)


def geom_pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probability that the first success is the k-th trial."""
    return lax.exp(geom_logpmf(k, p, loc))
