"""pmap over the devices of this process."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

XS = jnp.arange(4.0)


def test_results_lie_on_the_devices():
    out = pb.pmap(lambda x: x + 1)(XS)
    np.testing.assert_array_equal(out, [1, 2, 3, 4])
    assert len(out.sharding.device_set) == 4
    again = pb.pmap(lambda x: 2 * x)(out)
    np.testing.assert_array_equal(again, [2, 4, 6, 8])


def test_in_and_out_axes():
    f = pb.pmap(lambda x, y: (x * y, y), in_axes=(1, None), out_axes=(1, None))
    x = jnp.arange(8.0).reshape(2, 4)
    out, y = f(x, 3.0)
    np.testing.assert_array_equal(out, 3 * x)
    assert y.shape == ()
    tree = pb.pmap(lambda p: p["a"] + p["b"], in_axes=({"a": 0, "b": None},))
    np.testing.assert_array_equal(tree({"a": XS, "b": 1.0}), XS + 1)


def test_static_arguments_and_keywords():
    f = pb.pmap(lambda n, x, y: x * n + y, static_broadcasted_argnums=0)
    np.testing.assert_array_equal(f(3, XS, y=XS), 4 * XS)


def test_devices_and_axis_size():
    devices = pb.devices()[2:4]
    out = pb.pmap(lambda x: x, devices=devices)(jnp.ones(2))
    assert out.sharding.device_set == set(devices)
    with pytest.raises(ValueError, match="Got axis size 3 and 2 devices"):
        pb.pmap(lambda x: x, devices=devices)(jnp.ones(3))
    out = pb.pmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)()
    np.testing.assert_array_equal(out, [0, 1, 2])


def test_too_few_devices():
    n = pb.device_count() + 1
    with pytest.raises(ValueError, match=f"requires {n} logical devices") as error:
        pb.pmap(lambda x: x)(jnp.ones(n))
    assert "Instead:" in str(error.value)


def test_errors():
    with pytest.raises(ValueError, match="inconsistent sizes"):
        pb.pmap(lambda x, y: x)(jnp.ones(2), jnp.ones(3))
    with pytest.raises(ValueError, match="at least one"):
        pb.pmap(lambda: 1)()
    with pytest.raises(ValueError, match="rank 0"):
        pb.pmap(lambda x: x)(1.0)
    with pytest.raises(ValueError, match="one entry per positional"):
        pb.pmap(lambda x: x, in_axes=(0, 0))(XS)


TRANSFORMS = {
    "grad of pmap": lambda f: pb.grad(lambda x: f(x).sum()),
    "jvp of pmap": lambda f: lambda x: pb.jvp(f, (x,), (jnp.ones_like(x),))[1],
    "hessian": lambda f: pb.hessian(lambda x: f(x).sum()),
    "jit of pmap": pb.jit,
    "jit of grad": lambda f: pb.jit(pb.grad(lambda x: f(x).sum())),
    "vmap of pmap": lambda f: lambda x: pb.vmap(f)(jnp.stack([x, 2 * x])),
    "scan over pmap": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformed_like_vmap(name):
    def body(x):
        return jnp.sin(x) * lax.pmean(x, "i")

    on_devices = TRANSFORMS[name](pb.pmap(body, axis_name="i"))
    mapped = TRANSFORMS[name](pb.vmap(body, axis_name="i"))
    np.testing.assert_allclose(on_devices(XS), mapped(XS), rtol=1e-5, atol=1e-6)


def test_transformations_inside():
    def loss(w, x):
        return (jnp.tanh(x @ w) ** 2).sum()

    w, x = jnp.ones((3, 2)) * 0.1, jnp.arange(24.0).reshape(4, 2, 3) / 24

    def step(w, x):
        return w - 0.1 * lax.pmean(pb.grad(loss)(w, x), "batch")

    new = pb.pmap(step, axis_name="batch", in_axes=(None, 0), out_axes=None)(w, x)
    expected = w - 0.1 * sum(pb.grad(loss)(w, xi) for xi in x) / 4
    np.testing.assert_allclose(new, expected, rtol=1e-5)


def test_traced_once_per_signature():
    calls = []
    f = pb.pmap(lambda x: calls.append(1) or x)
    f(XS)
    f(XS + 1)
    assert len(calls) == 1
