"""Compile-time evaluation, and names of scopes."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

TRANSFORMS = [
    lambda f: f(2.0),
    lambda f: pb.jit(f)(2.0),
    lambda f: pb.vmap(f)(jnp.array([2.0]))[0],
    lambda f: pb.jvp(f, (2.0,), (1.0,))[0],
    lambda f: pb.jit(pb.value_and_grad(f))(2.0)[0],
    lambda f: lax.scan(lambda c, x: (c, f(x)), 0, jnp.array([2.0]))[1][0],
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_known_values_are_computed_at_once(transform):
    def f(x):
        with pb.ensure_compile_time_eval():
            n = int(jnp.arange(3).sum())
            slope = float(pb.grad(lambda y: y * y)(3.0))
            total = int(lax.fori_loop(0, 3, lambda i, c: c + i, 0))
            inner = int(pb.jit(lambda: jnp.arange(2))()[1])
        return x * n + slope + total + inner

    assert float(transform(f)) == 2 * 3 + 6 + 3 + 1


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_traced_values_stay_traced(transform):
    @pb.custom_jvp
    def own(y, z):
        return y * z

    own.defjvp(lambda p, t: (own(*p), t[0] * p[1] + t[1] * p[0]))

    def f(x):
        with pb.ensure_compile_time_eval():
            y = x + 1
            return own(y, jnp.sin(0.0) + 2.0) + lax.cond(True, lambda: x, lambda: 0.0)

    assert float(transform(f)) == 8.0


def test_a_jaxpr_holds_no_operation_on_known_values():
    def f(x):
        with pb.ensure_compile_time_eval():
            table = jnp.sin(jnp.arange(3.0))
        return x * table[1]

    names = [e.primitive.name for e in pb.make_jaxpr(f)(1.0).eqns]
    assert "sin" not in names
    np.testing.assert_allclose(pb.jit(f)(2.0), 2 * np.sin(1.0), rtol=1e-6)


def test_errors_of_named_scopes():
    with pytest.raises(TypeError, match="named_scope expects a string"):
        with pb.named_scope(3):
            pass
    assert float(pb.jit(pb.named_call(jnp.sin, name="s"))(0.0)) == 0.0
