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


def reasons(caplog, *calls):
    caplog.clear()
    with caplog.at_level(logging.WARNING), jax.explain_cache_misses(True):
        for call in calls:
            call()
    texts = [r.getMessage() for r in caplog.records if r.name == "pullback.cache_misses"]
    return [t.partition(" was traced: ")[2].partition(". At ")[0] for t in texts]


def test_arguments_are_called_by_their_names(caplog):
    f = jax.jit(lambda x, params, scale=1: x * params["w"] * scale)
    one, two = {"w": jnp.ones(2)}, {"w": jnp.ones(2, int)}
    said = reasons(
        caplog,
        lambda: f(jnp.ones(2), one),
        lambda: f(jnp.ones(2), two),
        lambda: f(jnp.float32(2), one),
        lambda: f(2.0, one),
        lambda: f(2.0, {"v": 1, **one}),
        lambda: f(2.0, {"v": 1, **one}, scale=2),
    )
    assert said == [
        "first call",
        "params['w'] was f32[2], now i32[2]",
        "x was f32[2], now f32[]",
        "x was f32[], now f32[] of a Python number",
        said[4],
        "scale was not given by name, now it is",
    ]
    assert said[4].startswith("the structure of the arguments changed: ")
    assert "'v'" in said[4]


def test_the_closest_trace_is_compared(caplog):
    f = jax.jit(lambda x, y: x + y)
    big, small = jnp.ones((2, 3)), jnp.ones(3)
    said = reasons(caplog, lambda: f(big, big), lambda: f(small, small), lambda: f(big, small))
    assert said[1] == "x was f32[2,3], now f32[3]; y was f32[2,3], now f32[3]"
    assert said[2] == "x was f32[3], now f32[2,3]"


def test_other_reasons(caplog):
    f = jax.jit(lambda x, n, mode="a": x * n, static_argnums=1, static_argnames="mode")
    x = jnp.ones(2)

    def strict():
        with jax.numpy_rank_promotion("raise"):
            f(x, 2)

    said = reasons(
        caplog,
        lambda: f(x, 2),
        lambda: f(x, 3),
        lambda: f(x, 3, mode="b"),
        strict,
        lambda: jax.vmap(f, in_axes=(0, None), axis_name="i")(x, 2),
    )
    assert said[1] == "static argument 1 was 2, now 3"
    assert said[2] == "static mode was not given, now 'b'"
    assert said[3] == "option jax_numpy_rank_promotion was 'allow', now 'raise'"
    assert "x was f32[2], now f32[]" in said[4]
    assert "axes around it were none, now 'i' of size 2" in said[4]


def test_a_function_that_is_made_anew(caplog):
    def call():
        jax.jit(lambda x: x + 1)(1.0)

    said = reasons(caplog, call, call)
    assert said[0] == "first call"
    assert said[1].startswith("first call of this function, but another one made at the same place")


def test_log_compiles_says_what_takes_time(caplog):
    with caplog.at_level(logging.WARNING), jax.log_compiles(True):
        jax.jit(lambda x: x * 3.25 - 1)(1.0)
    texts = [r.getMessage() for r in caplog.records]
    steps = ("traced in", "lowered to StableHLO in", " in ")
    assert all(step in text for step, text in zip(steps, texts, strict=True))


def test_silent_otherwise(caplog):
    with caplog.at_level(logging.WARNING):
        jax.jit(lambda x: x)(1.0)
    assert not [r for r in caplog.records if r.name == "pullback.cache_misses"]
