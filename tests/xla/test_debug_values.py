"""debug_nans and debug_infs: the first bad value stops the program, and is named."""

import threading

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback.core.config import config
from pullback.xla import dispatch


def test_an_eager_operation():
    with jax.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        jnp.log(-jnp.ones(3))
    text = str(caught.value)
    assert "invalid value (nan) encountered in log: 3 of 3 elements" in text
    assert "At test_debug_values.py, line" in text and "jnp.log(-jnp.ones(3))" in text
    assert "Instead:" in text


def test_a_compiled_function_names_operation_and_line():
    @jax.jit
    def f(x):
        y = jnp.sqrt(x)
        return jnp.sum(y) + 1

    assert np.isnan(f(-jnp.ones(2)))
    assert np.isnan(f(-jnp.ones(2)))  # from C++ by now
    with jax.debug_nans(True):
        assert f(jnp.ones(2)) == 3
        with pytest.raises(FloatingPointError, match=r"encountered in sqrt(.|\n)*y = jnp\.sqrt"):
            f(-jnp.ones(2))
    assert np.isnan(f(-jnp.ones(2)))


def test_a_nested_compiled_function():
    inner = jax.jit(lambda x: jnp.log(x))
    outer = jax.jit(lambda x: inner(x) + 1)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="encountered in log"):
        outer(-1.0)


@pytest.mark.parametrize("repeat", [1, 3])  # later gradients run a compiled backward pass
def test_the_backward_pass(repeat):
    def f(x):
        return jnp.sum(jnp.sqrt(x)) * 0.0

    for _ in range(repeat - 1):
        jax.grad(f)(jnp.zeros(2))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        jax.grad(f)(jnp.zeros(2))


def test_infinities_are_another_option():
    with jax.debug_nans(True):
        assert np.isinf(1 / jnp.zeros(2)).all()
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match=r"\(inf\)"):
        1 / jnp.zeros(2)


def test_small_floats_and_complex():
    with jax.debug_nans(True):
        for dtype in ("bfloat16", "float16", "complex64"):
            with pytest.raises(FloatingPointError):
                jnp.zeros(2, dtype) / jnp.zeros(2, dtype)


def test_donated_arguments():
    f = jax.jit(lambda x: jnp.log(x), donate_argnums=0)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="in log|donated"):
        f(-jnp.ones(3))


def test_nothing_is_observed_when_off():
    before = len(dispatch.after_run), len(dispatch.after_program)
    with jax.debug_nans(True), jax.debug_infs(True):
        assert len(dispatch.after_run) == before[0] + 1
    config.update("jax_debug_nans", True)
    try:
        with jax.debug_nans(False):
            assert np.isnan(jnp.log(-1.0))
        with pytest.raises(FloatingPointError):
            jnp.log(-1.0)
    finally:
        config.update("jax_debug_nans", False)
    assert (len(dispatch.after_run), len(dispatch.after_program)) == before


def test_a_thread_that_switched_it_on_for_all_may_end():
    before = len(dispatch.after_run)
    thread = threading.Thread(target=lambda: config.update("jax_debug_nans", True))
    thread.start()
    thread.join()
    with pytest.raises(FloatingPointError):
        jnp.log(-1.0)
    config.update("jax_debug_nans", False)
    assert len(dispatch.after_run) == before
