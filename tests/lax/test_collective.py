"""Collectives under vmap, and the same under pmap: values and derivatives agree."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp

Z = jnp.arange(64.0).reshape(4, 4, 4)
C = np.cos(np.arange(256.0, dtype=np.float32))

OPERATIONS = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmean": lambda x: lax.pmean(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmin": lambda x: lax.pmin(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i", axis=1),
    "all_gather tiled": lambda x: lax.all_gather(x, "i", tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i"),
    "psum_scatter tiled": lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 1),
    "all_to_all tiled": lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0)]),
    "pshuffle": lambda x: lax.pshuffle(x, "i", [1, 0, 3, 2]),
    "pswapaxes": lambda x: lax.pswapaxes(x, "i", 1),
    "axis_index": lambda x: x * lax.axis_index("i"),
}

REFERENCES = {
    "psum": lambda z: np.broadcast_to(z.sum(0), z.shape),
    "pmean": lambda z: np.broadcast_to(z.mean(0), z.shape),
    "pmax": lambda z: np.broadcast_to(z.max(0), z.shape),
    "pmin": lambda z: np.broadcast_to(z.min(0), z.shape),
    "all_gather": lambda z: np.stack([np.moveaxis(z, 0, 1)] * 4),
    "all_gather tiled": lambda z: np.stack([z.reshape(16, 4)] * 4),
    "psum_scatter": lambda z: z.sum(0),
    "psum_scatter tiled": lambda z: np.moveaxis(z.sum(0)[..., None], 1, 0),
    "all_to_all": lambda z: np.moveaxis(z.swapaxes(0, 1), 1, 2),
    "ppermute": lambda z: np.stack([z[3], z[0], z[1], 0 * z[0]]),
    "pshuffle": lambda z: z[[1, 0, 3, 2]],
    "axis_index": lambda z: z * np.arange(4)[:, None, None],
}


@pytest.mark.parametrize("name", REFERENCES)
def test_values_under_vmap(name):
    out = pb.vmap(OPERATIONS[name], axis_name="i")(Z)
    np.testing.assert_allclose(out, REFERENCES[name](np.asarray(Z)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_devices_agree_with_vmap(name):
    f = OPERATIONS[name]
    on_devices, mapped = pb.pmap(f, axis_name="i"), pb.vmap(f, axis_name="i")
    out = on_devices(Z)
    np.testing.assert_allclose(out, mapped(Z))
    if name in ("pmax", "pmin"):
        return
    weights = C[: out.size].reshape(out.shape)
    grads = [pb.grad(lambda z, g=g: (g(z) * weights).sum())(Z) for g in (on_devices, mapped)]
    np.testing.assert_allclose(*grads, rtol=1e-5, atol=1e-5)
    t = jnp.sin(Z)
    tangents = [pb.jvp(g, (Z,), (t,))[1] for g in (on_devices, mapped)]
    np.testing.assert_allclose(*tangents, rtol=1e-5, atol=1e-5)
    # transposes are adjoint
    a = np.vdot(tangents[0], weights)
    np.testing.assert_allclose(a, np.vdot(t, grads[0]), rtol=2e-4, atol=1e-2)


def test_sum_of_a_constant_is_the_number_of_instances():
    sizes = pb.vmap(lambda x: x + lax.psum(1, "i") + lax.axis_size("i"), axis_name="i")
    np.testing.assert_array_equal(sizes(jnp.zeros(3, int)), [6, 6, 6])


def test_gradient_inside_is_of_the_sum_over_instances():
    xs = jnp.arange(4.0)
    inside = pb.vmap(pb.grad(lambda x: lax.psum(x**2, "i")), axis_name="i")
    np.testing.assert_allclose(inside(xs), 8 * xs)


def test_nested_names():
    f = pb.vmap(pb.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")
    np.testing.assert_allclose(f(jnp.ones((2, 3))), np.full((2, 3), 6.0))
    inner = pb.vmap(pb.vmap(lambda x: lax.psum(x, "i"), axis_name="j"), axis_name="i")
    np.testing.assert_allclose(inner(jnp.arange(6.0).reshape(2, 3)), [[3, 5, 7], [3, 5, 7]])


@pytest.mark.parametrize("wrap", ["jit", "scan", "cond", "checkpoint"])
def test_inside_other_structures_without_mapped_operands(wrap):
    f = {
        "jit": pb.jit(lambda: lax.axis_index("i")),
        "scan": lambda: lax.scan(lambda c, _: (lax.axis_index("i"), None), 0, None, length=2)[0],
        "cond": lambda: lax.cond(True, lambda: lax.axis_index("i"), lambda: 0),
        "checkpoint": pb.checkpoint(lambda: lax.axis_index("i")),
    }[wrap]
    out = pb.vmap(lambda x: f(), axis_name="i")(jnp.zeros(3))
    np.testing.assert_array_equal(out, [0, 1, 2])


def test_pytrees():
    out = pb.vmap(lambda t: lax.psum(t, "i"), axis_name="i")({"a": Z[:, 0, 0], "b": Z[:, 0, 1]})
    np.testing.assert_allclose(out["b"], np.full(4, Z[:, 0, 1].sum()))


def test_errors():
    with pytest.raises(NameError, match="unbound axis name: 'i'"):
        lax.psum(jnp.ones(3), "i")
    with pytest.raises(ValueError, match="unique"):
        pb.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), axis_name="i")(jnp.ones(3))
    with pytest.raises(ValueError, match="permutation"):
        pb.vmap(lambda x: lax.pshuffle(x, "i", [0, 0]), axis_name="i")(jnp.ones(2))
    with pytest.raises(NotImplementedError, match="no derivative"):
        pb.pmap(pb.grad(lambda x: lax.pmax(x, "i")), axis_name="i")(jnp.ones(3))
    with pytest.raises(ValueError, match="psum_scatter"):
        pb.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(jnp.ones((4, 3)))


def test_booleans_are_counted_by_psum():
    out = pb.vmap(lambda a: lax.psum(a > 0, "i"), axis_name="i")(jnp.arange(3))
    assert (out.dtype, out.tolist()) == (np.int32, [2, 2, 2])
