"""shard_map over meshes of the devices of this process."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as jnp
from pullback.sharding import Mesh, NamedSharding
from pullback.sharding import PartitionSpec as P

XS = jnp.arange(8.0)
X2 = jnp.arange(16.0).reshape(4, 4)


def line(n=4):
    return Mesh(np.array(pb.devices()[:n], dtype=object), ("i",))


def square():
    return Mesh(np.array(pb.devices()[:4], dtype=object).reshape(2, 2), ("a", "b"))


def total(mesh):
    return pb.shard_map(
        lambda x: lax.psum((x**2).sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    )


def test_values_and_shardings():
    f = pb.shard_map(lambda x: 2 * x, mesh=line(), in_specs=P("i"), out_specs=P("i"))
    out = f(XS)
    np.testing.assert_array_equal(out, 2 * XS)
    assert out.sharding == NamedSharding(line(), P("i"))
    np.testing.assert_array_equal(total(line())(XS), 140.0)


def test_two_axes():
    f = pb.shard_map(
        lambda x: lax.psum(x, "a"), mesh=square(), in_specs=P("a", "b"), out_specs=P(None, "b")
    )
    np.testing.assert_array_equal(f(X2), X2[:2] + X2[2:])
    g = pb.shard_map(
        lambda x: 0 * x + lax.axis_index(("a", "b")),
        mesh=square(),
        in_specs=P("a", "b"),
        out_specs=P("a", "b"),
    )
    np.testing.assert_array_equal(g(X2)[::2, ::2], [[0, 1], [2, 3]])
    h = pb.shard_map(
        lambda x: lax.all_gather(x, "b", axis=1, tiled=True),
        mesh=square(),
        in_specs=P("a", "b"),
        out_specs=P("a", None),
    )
    np.testing.assert_array_equal(h(X2), X2)


def test_derivatives_taken_outside():
    f = total(line())
    np.testing.assert_allclose(pb.grad(f)(XS), 2 * XS)
    np.testing.assert_allclose(pb.jit(pb.grad(f))(XS), 2 * XS)
    np.testing.assert_allclose(pb.hessian(f)(XS), 2 * np.eye(8))
    np.testing.assert_allclose(pb.jvp(f, (XS,), (XS,))[1], 280.0)
    g = pb.shard_map(
        lambda x, w: jnp.sin(x * w), mesh=line(), in_specs=(P("i"), P()), out_specs=P("i")
    )
    by_devices = pb.grad(lambda w: g(XS, w).sum())(0.3)
    np.testing.assert_allclose(by_devices, (XS * np.cos(0.3 * XS)).sum(), rtol=1e-5)
    twice = pb.grad(pb.grad(lambda w: g(XS, w).sum()))(0.3)
    np.testing.assert_allclose(twice, -(XS**2 * np.sin(0.3 * XS)).sum(), rtol=1e-5)


def test_vmap_and_jit():
    f = pb.shard_map(lambda x: x * 2, mesh=line(), in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(pb.vmap(f)(jnp.stack([XS, XS])), np.stack([2 * XS, 2 * XS]))
    np.testing.assert_array_equal(pb.vmap(f, 1, 1)(jnp.stack([XS, XS], 1))[:, 0], 2 * XS)
    np.testing.assert_array_equal(pb.jit(lambda x: f(x + 1) - 1)(XS), 2 * XS + 1)


def test_one_device_and_closures():
    scale = jnp.float32(3)
    f = pb.shard_map(
        lambda x: lax.psum(x, "i") * scale, mesh=line(1), in_specs=P("i"), out_specs=P("i")
    )
    np.testing.assert_array_equal(f(XS), 3 * XS)
    g = lambda w: pb.shard_map(lambda x: x * w, mesh=line(), in_specs=P("i"), out_specs=P("i"))(
        XS
    ).sum()
    assert float(pb.grad(g)(2.0)) == 28.0


def test_decorator_and_pytrees():
    @pb.shard_map(mesh=line(), in_specs=({"x": P("i"), "w": P()},), out_specs=(P("i"), P()))
    def f(p):
        return p["x"] * p["w"], lax.pmax(p["x"].max(), "i")

    out, largest = f({"x": XS, "w": 2.0})
    np.testing.assert_array_equal(out, 2 * XS)
    assert float(largest) == 7.0


def test_ordinary_errors():
    with pytest.raises(ValueError, match="not divisible by the 4 devices"):
        pb.shard_map(lambda x: x, mesh=line(), in_specs=P("i"), out_specs=P("i"))(jnp.ones(6))
    with pytest.raises(ValueError, match="require replication"):
        pb.shard_map(lambda x: x, mesh=line(), in_specs=P("i"), out_specs=P())(XS)
    with pytest.raises(ValueError, match="names"):
        pb.shard_map(lambda x: x, mesh=line(), in_specs=P("z"), out_specs=P())
    with pytest.raises(ValueError, match="rank"):
        pb.shard_map(lambda x: x, mesh=line(), in_specs=P("i", None), out_specs=P("i"))(XS)
    with pytest.raises(TypeError, match="PartitionSpec"):
        pb.shard_map(lambda x: x, mesh=line(), in_specs="i", out_specs=P())
    unchecked = pb.shard_map(
        lambda x: x, mesh=line(), in_specs=P("i"), out_specs=P(), check_vma=False
    )
    assert unchecked(XS).shape == (2,)


def test_replication_is_inferred_through_loops():
    def f(x):
        total = lax.psum(x.sum(), "i")
        return lax.fori_loop(0, 3, lambda i, c: c + total, 0.0)

    g = pb.shard_map(f, mesh=line(), in_specs=P("i"), out_specs=P())
    assert float(g(XS)) == 84.0


# Over some axes of a mesh only: the compiler cuts along the others.


def partly(fun, in_specs, out_specs):
    return pb.shard_map(
        fun, mesh=square(), axis_names={"a"}, in_specs=in_specs, out_specs=out_specs
    )


def _summed_sines(x):
    return lax.psum(jnp.sin(x), "a") * 2


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit])
def test_some_axes_of_a_mesh(wrap):
    want = 2 * (np.sin(X2[:2]) + np.sin(X2[2:]))
    out = wrap(partly(_summed_sines, P("a"), P()))(X2)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


def test_derivatives_and_vmap_over_some_axes():
    mapped = partly(_summed_sines, P("a"), P())
    gradient = pb.grad(lambda x: mapped(x).sum())
    np.testing.assert_allclose(gradient(X2), 2 * np.cos(X2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pb.jit(gradient)(X2), 2 * np.cos(X2), rtol=1e-5, atol=1e-6)
    tangent = pb.jvp(mapped, (X2,), (X2,))[1]
    want = 2 * (X2 * np.cos(X2))
    np.testing.assert_allclose(tangent, want[:2] + want[2:], rtol=1e-4, atol=1e-5)
    several = pb.vmap(mapped)(jnp.stack([X2, X2 + 1]))
    np.testing.assert_allclose(several[1], mapped(X2 + 1), rtol=1e-5, atol=1e-6)


def test_arrays_cut_along_the_other_axes_go_in():
    x = pb.device_put(X2, NamedSharding(square(), P("b", "a")))
    product = partly(lambda x, w: lax.psum(x @ w, "a"), (P(None, "a"), P("a")), P())
    np.testing.assert_allclose(pb.jit(product)(x, X2), X2 @ X2)


def test_collectives_over_some_axes():
    def fun(x):
        return (
            x * 0 + lax.axis_index("a"),
            lax.ppermute(x, "a", [(0, 1), (1, 0)]),
            lax.psum_scatter(x, "a", tiled=True),
            lax.scan(lambda c, _: (c + lax.psum(x, "a"), None), x, None, length=2)[0],
        )

    index, turned, parts, looped = pb.jit(partly(fun, P("a"), P("a")))(X2)
    halves = np.asarray(X2[:2]), np.asarray(X2[2:])
    np.testing.assert_array_equal(index[:, 0], [0, 0, 1, 1])
    np.testing.assert_array_equal(turned, np.concatenate([halves[1], halves[0]]))
    np.testing.assert_array_equal(parts, halves[0] + halves[1])
    np.testing.assert_array_equal(looped[2:], halves[1] + 2 * (halves[0] + halves[1]))


def test_errors_of_partial_meshes():
    with pytest.raises(NameError, match="unbound axis name: 'b'"):
        partly(lambda x: lax.psum(x, "b"), P("a"), P("a"))(X2)
    with pytest.raises(ValueError, match="in_specs must name mapped axes only"):
        partly(lambda x: x, P("b"), P())
    with pytest.raises(ValueError, match="must be among the mesh's axes"):
        pb.shard_map(lambda x: x, mesh=square(), axis_names={"z"}, in_specs=P(), out_specs=P())
