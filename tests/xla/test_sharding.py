"""Meshes, specs and shardings: values, errors, agreement with XLA's own reading."""

from __future__ import annotations

import itertools
import pickle
import threading

import numpy as np
import pytest

from pullback.core.aval import make_aval
from pullback.xla import client, compat
from pullback.xla.array import Array
from pullback.xla.mesh import AbstractMesh, AxisType, Mesh, current_mesh, make_mesh, set_mesh
from pullback.xla.sharding import (
    DuplicateSpecError,
    GSPMDSharding,
    IndivisibleError,
    NamedSharding,
    P,
    PartitionSpec,
    SingleDeviceSharding,
    from_xla,
    leading_axis_sharding,
    to_xla,
)
from pullback.xla.transfer import device_put_sharded_array


@pytest.fixture(scope="module")
def mesh():
    return make_mesh((4, 2), ("x", "y"))


# ------------------------------------------------------------------ specs


def test_spec_reads_like_a_sequence():
    spec = P("x", None, ("y", "z"))
    assert tuple(spec) == ("x", None, ("y", "z")) and len(spec) == 3 and spec[0] == "x"
    assert repr(spec) == "P('x', None, ('y', 'z'))" and repr(P()) == "P()"
    assert P("x") + ("y",) == P("x", "y") == ("x",) + P("y")
    assert spec.mesh_axes() == (("x",), (), ("y", "z"))
    assert P is PartitionSpec


def test_spec_is_compared_by_value():
    assert P("x") == P(("x",)) == P(["x"]) and hash(P("x")) == hash(P(("x",)))
    assert P("x") != P("x", None) and P("x") != ("x",)
    assert P(P.UNCONSTRAINED).mesh_axes() == ((),) and "UNCONSTRAINED" in repr(P(P.UNCONSTRAINED))
    for spec in (P("x", None), P(P.UNCONSTRAINED), P(("x", "y"))):
        assert pickle.loads(pickle.dumps(spec)) == spec


# ------------------------------------------------------------------ meshes


def test_mesh_is_compared_by_value(mesh):
    again = Mesh(np.array(client.devices()).reshape(4, 2), ("x", "y"))
    assert mesh == again and hash(mesh) == hash(again)
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    for other in (
        Mesh(mesh.devices.T, ("x", "y")),
        Mesh(mesh.devices, ("x", "z")),
        Mesh(mesh.devices, ("x", "y"), AxisType.Explicit),
    ):
        assert mesh != other


def test_mesh_says_what_it_is(mesh):
    assert dict(mesh.shape) == {"x": 4, "y": 2} and mesh.axis_sizes == (4, 2) and mesh.size == 8
    assert not mesh.empty and mesh.axis_types == (AxisType.Auto, AxisType.Auto)
    assert mesh.device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh.local_mesh is mesh and mesh.local_devices == client.devices()
    assert not mesh.is_multi_process
    assert repr(mesh) == "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
    assert str(mesh) == "Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"
    assert mesh.update(axis_names=("p", "q")).axis_names == ("p", "q")
    with pytest.raises(ValueError):
        mesh.devices[0, 0] = None


def test_abstract_mesh(mesh):
    abstract = mesh.abstract_mesh
    assert abstract == AbstractMesh((4, 2), ("x", "y")) and hash(abstract) == hash(abstract)
    assert dict(abstract.shape) == {"x": 4, "y": 2} and abstract.size == 8 and not abstract.empty
    assert repr(abstract) == "AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))"
    with pytest.raises(ValueError, match="equally many"):
        AbstractMesh((4,), ("x", "y"))


def test_mesh_errors():
    devices = client.devices()
    with pytest.raises(ValueError, match="1 axes .* 2 names"):
        Mesh(devices, ("x", "y"))
    with pytest.raises(ValueError, match="twice"):
        Mesh(np.array(devices).reshape(4, 2), ("x", "x"))
    with pytest.raises(ValueError, match="1 axis types"):
        Mesh(np.array(devices).reshape(4, 2), ("x", "y"), (AxisType.Auto,))
    with pytest.raises(ValueError, match=r"needs 16 devices, and there are 8.*device_count\(16\)"):
        make_mesh((16,), ("x",))
    assert make_mesh((3,), "x", devices=devices[2:]).device_ids.tolist() == [2, 3, 4]


def test_current_mesh(mesh):
    other = make_mesh((8,), "d")
    assert current_mesh() is None
    with mesh:
        assert current_mesh() is mesh
        with other, mesh:
            assert current_mesh() is mesh
        assert current_mesh() is mesh
        with set_mesh(other):
            assert current_mesh() is other
        seen = []
        thread = threading.Thread(target=lambda: seen.append(current_mesh()))
        thread.start()
        thread.join()
        assert seen == [None]
    assert current_mesh() is None
    set_mesh(other)
    assert current_mesh() is other
    set_mesh(None)
    assert current_mesh() is None


# ------------------------------------------------------------------ shardings

SPECS = [
    P(),
    P("x"),
    P("y"),
    P("x", "y"),
    P("y", "x"),
    P(None, "x"),
    P(("x", "y")),
    P(("y", "x")),
    P(None, ("y", "x")),
]


def positions(map_):
    return {d: tuple(s.indices(100)[:2] for s in index) for d, index in map_.items()}


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_our_reading_is_xlas(mesh, spec):
    ours = NamedSharding(mesh, spec)
    xlas = GSPMDSharding(ours.devices, ours.hlo_sharding(2))
    assert xlas.devices_indices_map((8, 16)) == ours.devices_indices_map((8, 16))
    assert xlas.shard_shape((8, 16)) == ours.shard_shape((8, 16))
    assert xlas.is_fully_replicated == ours.is_fully_replicated == (spec == P())
    assert xlas.is_equivalent_to(ours, 2) and ours.is_equivalent_to(xlas, 2) and ours != xlas


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_arrays_are_cut_and_put_together(mesh, spec):
    value = np.arange(128, dtype=np.float32).reshape(8, 16)
    sharding = NamedSharding(mesh, spec)
    x = device_put_sharded_array(value, sharding)
    assert x.sharding == sharding and x.committed and x.shape == (8, 16)
    assert np.array_equal(np.asarray(x), value) and repr(x).startswith("Array([[  0.,")
    assert x.devices() == set(client.devices()) and x.device == sharding
    shards = x.addressable_shards
    assert [s.device for s in shards] == list(sharding.devices)
    for shard in shards:
        assert shard.data.shape == sharding.shard_shape((8, 16))
        assert np.array_equal(shard.data, value[shard.index]) and shard.data.device == shard.device
    n_copies = 8 // len({str(s.index) for s in shards})
    assert sorted(s.replica_id for s in shards) == sorted([*range(n_copies)] * (8 // n_copies))


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_the_partitioner_agrees(mesh, spec):
    """A program whose result we declare to lie as `spec` says gives the parts where we expect."""
    ours = NamedSharding(mesh, spec)
    axes = ", ".join("{" + ", ".join(f'"{a}"' for a in axes) + "}" for axes in ours.axes_of(2))
    text = f"""module @m attributes {{mhlo.num_partitions=8:i32, mhlo.num_replicas=1:i32}} {{
      sdy.mesh @mesh = <["x"=4, "y"=2]>
      func.func public @main(%a: tensor<8x16xf32> {{sdy.sharding=#sdy.sharding<@mesh,[{{}}, {{}}]>}})
        -> (tensor<8x16xf32> {{sdy.sharding=#sdy.sharding<@mesh,[{axes}]>}}) {{
        %0 = stablehlo.add %a, %a : tensor<8x16xf32>
        return %0 : tensor<8x16xf32> }} }}"""
    device = client.devices()[0]
    options = compat.compile_options(client.devices(), 1, 8)
    loaded = compat.compile_and_load(device.client, text, client.devices(), options, ())
    value = np.arange(128, dtype=np.float32).reshape(8, 16)
    x = device_put_sharded_array(value, NamedSharding(mesh, P()))
    handler = compat.result_handler(make_aval((8, 16), value.dtype, False), to_xla(ours, 2), True)
    out = Array(loaded.execute_sharded([x._buf]).consume_with_handlers([handler])[0])
    assert np.array_equal(np.asarray(out), 2 * value)
    assert all(np.array_equal(s.data, 2 * value[s.index]) for s in out.addressable_shards)


def test_named_sharding_is_compared_by_value(mesh):
    s = NamedSharding(mesh, P("x"))
    assert s == NamedSharding(make_mesh((4, 2), ("x", "y")), P("x")) and s != NamedSharding(
        mesh, P("y")
    )
    assert s != NamedSharding(mesh, P("x", None)) and s.is_equivalent_to(
        NamedSharding(mesh, P("x", None)), 2
    )
    assert len({s, NamedSharding(mesh, P("x"))}) == 1 and pickle.loads(pickle.dumps(s)) == s
    assert s.with_spec(P("y")).spec == s.with_spec(["y"]).spec == P("y")
    assert repr(s) == (
        "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), spec=P('x',), "
        "memory_kind=device)"
    )
    assert s.num_devices == 8 and s.device_set == s.addressable_devices == set(client.devices())
    assert s.is_fully_addressable and s.memory_kind == "device"
    assert s.addressable_devices_indices_map((8,)) == s.devices_indices_map((8,))


def test_sharding_errors(mesh):
    with pytest.raises(ValueError, match="names 'z', but the mesh has the axes"):
        NamedSharding(mesh, P("z"))
    with pytest.raises(DuplicateSpecError, match="uses the mesh axis 'x' twice"):
        NamedSharding(mesh, P("x", ("y", "x")))
    with pytest.raises(TypeError, match=r"write P\('x'\)"):
        NamedSharding(mesh, "x")
    s = NamedSharding(mesh, P("x"))
    with pytest.raises(IndivisibleError, match=r"axis 0 into 4 parts, but its length is 6"):
        s.shard_shape((6, 3))
    with pytest.raises(ValueError, match="at least 1 axes, but this one has 0"):
        s.shard_shape(())
    with pytest.raises(ValueError, match="'pinned_host' is not served"):
        NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    with pytest.raises(ValueError, match="is not served"):
        SingleDeviceSharding(client.devices()[0], memory_kind="other")
    assert s.with_memory_kind("device") == s


def test_single_device_sharding():
    a, b = client.devices()[:2]
    s = SingleDeviceSharding(a)
    assert s == SingleDeviceSharding(a) != SingleDeviceSharding(b)
    assert hash(s) == hash(SingleDeviceSharding(a)) and pickle.loads(pickle.dumps(s)) == s
    assert repr(s) == "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
    assert s.devices == (a,) and s.is_fully_replicated and s.shard_shape((3, 4)) == (3, 4)
    assert s.devices_indices_map((3,)) == {a: (slice(None),)}
    one = NamedSharding(Mesh([a], "x"), P("x"))
    assert s.is_equivalent_to(one, 1) and not s.is_equivalent_to(SingleDeviceSharding(b), 1)


def test_pmap_sharding():
    s = leading_axis_sharding(client.devices()[:4])
    assert s.shard_shape((4, 3)) == (1, 3) and s.devices == tuple(client.devices()[:4])
    assert leading_axis_sharding(client.devices()[:2], axis=1).shard_shape((3, 2)) == (3, 1)


def test_cpp_shardings_are_cached_and_remember_ours(mesh):
    s = NamedSharding(mesh, P("x"))
    assert to_xla(s, 2) is to_xla(NamedSharding(mesh, P("x")), 2)
    assert from_xla(to_xla(s, 2)) == s
    foreign = compat.gspmd_sharding(s.devices, s.hlo_sharding(2))
    ours = from_xla(foreign)
    assert isinstance(ours, GSPMDSharding) and from_xla(foreign) is ours
    assert ours == GSPMDSharding(s.devices, s.hlo_sharding(2)) and hash(ours) == hash(
        from_xla(foreign)
    )
    assert "8 devices" in repr(ours)
    replicated = GSPMDSharding.get_replicated(client.devices())
    assert replicated.is_fully_replicated and replicated.shard_shape((3,)) == (3,)


def test_bits_of_the_mesh_order_matter():
    devices = client.devices()
    value = np.arange(8.0)
    for order in itertools.islice(itertools.permutations(range(8)), 0, 40000, 9999):
        mesh = Mesh([devices[i] for i in order], "x")
        x = device_put_sharded_array(value, NamedSharding(mesh, P("x")))
        assert [s.device.id for s in x.addressable_shards] == list(order)
        assert np.array_equal(np.asarray(x), value)
