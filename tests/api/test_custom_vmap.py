"""custom_vmap and sequential_vmap."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.custom_batching import custom_vmap, sequential_vmap

XS = jnp.arange(3.0)


def marked():
    @custom_vmap
    def f(x, y):
        return {"out": x * y}

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        assert axis_size == 3 and in_batched == [True, False]
        return {"out": 100 + x * y}, {"out": True}

    return f


def test_rule_is_used_under_vmap():
    f = marked()
    assert float(f(2.0, 3.0)["out"]) == 6.0
    np.testing.assert_array_equal(pb.vmap(f, (0, None))(XS, 2.0)["out"], 100 + 2 * XS)
    np.testing.assert_array_equal(pb.jit(pb.vmap(f, (0, None)))(XS, 2.0)["out"], 100 + 2 * XS)
    np.testing.assert_array_equal(pb.vmap(pb.jit(f), (0, None))(XS, 2.0)["out"], 100 + 2 * XS)
    np.testing.assert_array_equal(
        pb.vmap(lambda x: lax.map(lambda y: f(x, y)["out"], jnp.ones(2)))(XS)[:, 0], 100 + XS
    )


def test_derivatives():
    f = marked()
    assert float(pb.grad(lambda x: f(x, 3.0)["out"])(2.0)) == 3.0
    g = pb.grad(lambda x: pb.vmap(f, (0, None))(x, 2.0)["out"].sum())(XS)
    np.testing.assert_array_equal(g, [2, 2, 2])
    assert float(pb.jvp(lambda x: f(x, 3.0)["out"], (2.0,), (1.0,))[1]) == 3.0


def test_sequential_vmap():
    seen = []

    @sequential_vmap
    def f(x, y):
        pb.debug.callback(lambda v: seen.append(v.shape), x)
        return x + y

    np.testing.assert_array_equal(pb.vmap(f, (0, None))(XS, 1.0), XS + 1)
    assert seen == [(), (), ()]


def test_errors():
    with pytest.raises(AttributeError, match="No batching rule"):
        custom_vmap(lambda x: x)(1.0)
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda n, b, x: x)
    with pytest.raises(TypeError, match="pair"):
        pb.vmap(f)(XS)
    f.def_vmap(lambda n, b, x: ((x, x), True))
    with pytest.raises(ValueError, match="do not match"):
        pb.vmap(f)(XS)
