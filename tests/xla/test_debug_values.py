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


def in_scan(x):
    def body(c, t):
        d = jnp.log(t)
        return c, d

    return jax.lax.scan(body, 0.0, x)[1]


def in_while(x):
    def body(c):
        d = jnp.log(c[1])
        return c[0] + 1, d

    return jax.lax.while_loop(lambda c: c[0] < 3, body, (0, x[0] - 1.0))


def in_cond(x):
    def branch():
        d = jnp.log(x)
        return d

    return jax.lax.cond(x[0] < 0, branch, lambda: x)


def in_both(x):
    return jax.lax.fori_loop(0, 2, lambda i, c: in_scan(c), x)


@pytest.mark.parametrize("program", [in_scan, in_while, in_cond, in_both])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: lambda x: jax.vjp(f, x)[0]])
def test_loops_and_branches_name_operation_and_line(program, wrap):
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match=r"encountered in log(.|\n)*d = jnp\.log"):
            wrap(program)(-jnp.ones(2))
    assert np.isnan(np.asarray(jax.tree.leaves(program(-jnp.ones(2)))[-1])).all()


def test_loops_under_vmap():
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match=r"encountered in log(.|\n)*d = jnp\.log"):
            jax.vmap(in_scan)(-jnp.ones((1, 2)))
        with pytest.raises(FloatingPointError, match="encountered in while"):
            jax.vmap(lambda x: jax.lax.while_loop(lambda c: c > 0, lambda c: jnp.log(c - 2), x))(
                jnp.ones(2)
            )


def test_gradients_of_loops_name_an_operation_of_the_body():
    def f(x):
        def body(c, t):
            r = jnp.sqrt(t)
            return c + r * 0.0, None

        return jax.lax.scan(body, 0.0, x)[0]

    for g in (jax.grad(f), jax.jit(jax.grad(f))):
        with jax.debug_nans(True), pytest.raises(FloatingPointError) as caught:
            g(jnp.zeros(2))
        assert "r = jnp.sqrt(t)" in str(caught.value) or "return c + r" in str(caught.value)
