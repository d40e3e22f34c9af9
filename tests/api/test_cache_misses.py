"""explain_cache_misses: the log says why a function was traced again."""

import logging

import pullback as jax
import pullback.numpy as jnp


def test_reasons(caplog):
    @jax.jit
    def f(x):
        return x + 1

    with caplog.at_level(logging.WARNING), jax.explain_cache_misses(True):
        f(jnp.ones(3))
        f(jnp.ones(3))
        f(jnp.ones(4))
    texts = [r.getMessage() for r in caplog.records if r.name == "pullback.cache_misses"]
    assert len(texts) == 2
    assert "f was traced: first call" in texts[0]
    assert "was f32[3], now f32[4]" in texts[1] and "test_cache_misses.py, line" in texts[1]


def test_silent_otherwise(caplog):
    with caplog.at_level(logging.WARNING):
        jax.jit(lambda x: x)(1.0)
    assert not [r for r in caplog.records if r.name == "pullback.cache_misses"]
