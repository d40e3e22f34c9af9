"""Where results lie: committed arrays keep their device, spread ones their mesh."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as jnp
from pullback.sharding import NamedSharding
from pullback.sharding import PartitionSpec as P

TRANSFORMS = {
    "eager": lambda f: f,
    "jit": pb.jit,
    "grad": lambda f: pb.grad(lambda x: jnp.sum(f(x))),
    "jit of grad": lambda f: pb.jit(pb.grad(lambda x: jnp.sum(f(x)))),
    "vmap": pb.vmap,
}


def double_sine(x):
    return jnp.sin(x) * 2


@pytest.mark.parametrize("name", TRANSFORMS)
def test_results_stay_on_the_committed_device(name):
    device = pb.devices()[1]
    x = pb.device_put(jnp.arange(4.0), device)
    fun = TRANSFORMS[name](double_sine)
    for _ in range(3):
        out = fun(x)
        assert out.device == device
        assert out.committed
    np.testing.assert_allclose(out, fun(np.arange(4.0)), rtol=1e-6)


def test_uncommitted_arguments_follow_a_committed_one():
    device = pb.devices()[2]
    x = pb.device_put(1.0, device)
    assert (x + jnp.ones(3)).device == device
    assert pb.jit(jnp.add)(jnp.ones(3), x).device == device


def test_two_committed_devices_are_refused():
    first, second = (pb.device_put(jnp.ones(3), d) for d in pb.devices()[:2])
    for add in (jnp.add, pb.jit(jnp.add)):
        with pytest.raises(ValueError, match="different devices"):
            add(first, second)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_spread_arrays_stay_spread(name):
    mesh = pb.make_mesh((4, 2), ("x", "y"))
    sharding = NamedSharding(mesh, P("x", "y"))
    x = pb.device_put(np.arange(32.0, dtype=np.float32).reshape(8, 4), sharding)
    fun = TRANSFORMS[name](double_sine)
    for _ in range(3):
        out = fun(x)
        assert out.sharding == sharding
    np.testing.assert_allclose(out, fun(np.asarray(x)), rtol=1e-6)


def test_reduction_of_a_spread_array():
    mesh = pb.make_mesh((8,), ("x",))
    x = pb.device_put(np.arange(16.0, dtype=np.float32), NamedSharding(mesh, P("x")))
    total = jnp.sum(x)
    assert float(total) == 120.0
    assert total.sharding.is_fully_replicated
    np.testing.assert_allclose(x[3:5], [3, 4])
    np.testing.assert_allclose(x @ x, np.sum(np.arange(16.0) ** 2))


def test_default_device_of_a_block():
    device = pb.devices()[3]
    with pb.default_device(device):
        assert (jnp.ones(3) + 1).device == device
        assert pb.jit(jnp.sin)(1.0).device == device
    assert (jnp.ones(3) + 1).device == pb.devices()[0]
