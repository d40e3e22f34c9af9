"""checking_leaks: what outlives its trace is found, with what holds it."""

import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback import errors


class Holder:
    pass


def test_no_leak_no_error():
    with jax.checking_leaks():
        assert jax.jit(jnp.sin)(0.0) == 0.0
        assert jax.grad(lambda x: jnp.sum(x**2))(jnp.ones(2)).shape == (2,)
        assert jax.vmap(jax.jit(jax.grad(lambda x: x * x)))(jnp.ones(2)).shape == (2,)
        out, pull = jax.vjp(jnp.sin, 1.0)
        assert pull(out)[0].shape == ()


def leak_into(kind, holder):
    def f(x):
        y = x * 2
        if kind == "list":
            holder.append(y)
        elif kind == "dict":
            holder["key"] = y
        else:
            holder.attribute = y
        return y

    return f


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap])
@pytest.mark.parametrize(
    "kind, holder, text",
    [
        ("list", [], "a list"),
        ("dict", {}, "a dict, under 'key'"),
        ("attribute", Holder(), "Holder"),
    ],
)
def test_a_leak_is_found_with_its_holder(transform, kind, holder, text):
    argument = jnp.ones(2) if transform is jax.vmap else 1.0
    with jax.checking_leaks(), pytest.raises(errors.LeakedTracerError, match=text):
        transform(leak_into(kind, holder))(argument)


def test_an_older_leak_is_not_blamed_on_a_later_call():
    kept = []
    jax.jit(leak_into("list", kept))(1.0)
    with jax.checking_leaks():
        jax.jit(jnp.cos)(1.0)


def test_it_is_off_otherwise():
    kept = []
    jax.jit(leak_into("list", kept))(1.0)
    assert len(kept) == 1


@pytest.mark.parametrize(
    "loop",
    [
        lambda keep: jax.lax.scan(lambda c, x: (keep(c), x), 0.0, jnp.ones(2)),
        lambda keep: jax.lax.while_loop(lambda c: c < 2, lambda c: keep(c) + 1, 0.0),
        lambda keep: jax.lax.fori_loop(0, 2, lambda i, c: keep(c), 0.0),
        lambda keep: jax.lax.cond(True, keep, lambda x: x, 1.0),
        lambda keep: jax.lax.switch(0, [keep, lambda x: x], 1.0),
        lambda keep: jax.lax.map(keep, jnp.ones(2)),
    ],
)
def test_leaks_from_loops_and_branches(loop):
    kept = []

    def keep(x):
        kept.append(x)
        return x

    with jax.checking_leaks(), pytest.raises(errors.LeakedTracerError):
        loop(keep)
    with jax.checking_leaks():
        loop(lambda x: x)
