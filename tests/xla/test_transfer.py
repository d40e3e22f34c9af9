"""Moving arrays between devices and shardings keeps their values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pullback.core.aval import make_aval
from pullback.xla import client, compat
from pullback.xla.array import Array, array_from_numpy
from pullback.xla.mesh import Mesh, make_mesh
from pullback.xla.sharding import NamedSharding, P, SingleDeviceSharding, to_xla
from pullback.xla.transfer import commit, device_get, device_put_sharded_array, shard_arg

VALUE = np.arange(64, dtype=np.float32).reshape(8, 8)


def places():
    mesh = make_mesh((4, 2), ("x", "y"))
    half = Mesh(client.devices()[:4], "d")
    return {
        "first": SingleDeviceSharding(client.devices()[0]),
        "third": SingleDeviceSharding(client.devices()[2]),
        "replicated": NamedSharding(mesh, P()),
        "rows": NamedSharding(mesh, P("x")),
        "rows, spelled out": NamedSharding(mesh, P("x", None)),
        "columns": NamedSharding(mesh, P(None, "x")),
        "both": NamedSharding(mesh, P("x", "y")),
        "half": NamedSharding(half, P("d")),
        "other order": NamedSharding(Mesh(mesh.devices[::-1], ("x", "y")), P("x")),
    }


NAMES = list(places())


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("start", ["host", *NAMES])
def test_values_survive_every_move(start, to):
    value = VALUE if start == "host" else device_put_sharded_array(VALUE, places()[start])
    target = places()[to]
    moved = device_put_sharded_array(value, target)
    assert moved.sharding == target and moved.committed and moved.aval.shape == (8, 8)
    assert np.array_equal(np.asarray(moved), VALUE)
    for shard in moved.addressable_shards:
        assert np.array_equal(shard.data, VALUE[shard.index])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.int64, ml_dtypes.int4, bool])
def test_every_dtype_moves(dtype):
    value = np.arange(8).astype(dtype)
    sharding = NamedSharding(make_mesh((8,), "x"), P("x"))
    x = device_put_sharded_array(value, sharding)
    back = device_put_sharded_array(x, SingleDeviceSharding(client.devices()[1]))
    assert x.dtype == back.dtype == dtype
    assert np.asarray(x).tobytes() == np.asarray(back).tobytes() == value.tobytes()


def test_weak_type_is_kept():
    x = array_from_numpy(np.ones(8, np.float32), weak_type=True)
    moved = device_put_sharded_array(x, NamedSharding(make_mesh((8,), "x"), P("x")))
    assert moved.aval is x.aval
    assert device_put_sharded_array(moved, SingleDeviceSharding(client.devices()[3])).aval is x.aval


def test_no_copy_where_nothing_moves():
    here = SingleDeviceSharding(client.devices()[0])
    x = array_from_numpy(VALUE)
    committed = device_put_sharded_array(x, here)
    assert committed.committed and not x.committed and committed.aval is x.aval
    assert compat.buffer_pointer(committed._buf) == compat.buffer_pointer(x._buf)
    assert device_put_sharded_array(committed, here) is committed
    rows = device_put_sharded_array(VALUE, places()["rows"])
    assert device_put_sharded_array(rows, places()["rows"]) is rows
    assert commit(committed._buf)._committed


def test_deleted_arrays_do_not_move():
    for place in ("third", "rows"):
        x = array_from_numpy(VALUE)
        x.delete()
        with pytest.raises(RuntimeError, match="deleted"):
            device_put_sharded_array(x, places()[place])


def test_device_get():
    assert np.array_equal(device_get(array_from_numpy(VALUE)), VALUE) and device_get("a") == "a"


def test_dispatch_brings_arguments_where_the_program_wants_them():
    """A program on four devices called with an array that lies whole on one."""
    mesh = Mesh(client.devices()[:4], "x")
    sharding = to_xla(NamedSharding(mesh, P("x")), 1)
    text = """module @m attributes {mhlo.num_partitions=4:i32, mhlo.num_replicas=1:i32} {
      sdy.mesh @mesh = <["x"=4]>
      func.func public @main(%a: tensor<8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"}]>})
        -> (tensor<8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"}]>}) {
        %0 = stablehlo.add %a, %a : tensor<8xf32>
        return %0 : tensor<8xf32> } }"""
    devices = client.devices()[:4]
    options = compat.compile_options(devices, 1, 4)
    loaded = compat.compile_and_load(devices[0].client, text, devices, options, ())
    aval = make_aval((8,), np.dtype(np.float32), False)
    handler = compat.result_handler(aval, sharding, True)
    misses = []

    def miss(x):
        misses.append(1)
        buf = shard_arg(x._buf, sharding, None)
        out = Array(loaded.execute_sharded([buf]).consume_with_handlers([handler])[0])
        tree = compat.dispatch_registry.flatten(out)[1]
        fast = compat.FastData(
            loaded, tree, [sharding], [sharding], [aval], [True], [True], [None], []
        )
        return out, fast, False

    call = compat.make_pjit("twice", None, miss, shard_arg_fallback=shard_arg)
    x = array_from_numpy(np.arange(8, dtype=np.float32))
    for _ in range(3):
        y = call(x)
        assert np.array_equal(np.asarray(y), 2 * np.arange(8)) and y.sharding.mesh == mesh
    assert len(misses) == 1
    assert np.array_equal(np.asarray(call(y)), 4 * np.arange(8))
