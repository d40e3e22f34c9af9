"""No path of the runtime imports jax; with the real one in the process both go on working."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pullback.xla import client

SPY = """
import sys, importlib.abc
attempts = []
class Spy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "jax" or name.startswith("jax."):
            attempts.append(name)
sys.meta_path.insert(0, Spy())
"""

EXERCISE = """
import copy, pickle
import ml_dtypes, numpy as np
from pullback.core.aval import make_aval
from pullback.xla import client, compat, compile, dispatch
from pullback.xla.array import Array, array_from_numpy
from pullback.xla.dlpack import from_dlpack
from pullback.xla.mesh import make_mesh
from pullback.xla.sharding import NamedSharding, P, SingleDeviceSharding
from pullback.xla.transfer import device_put_sharded_array as put

client.set_cpu_device_count(4)
for dtype in (np.float32, np.int64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4):
    for make in (
        lambda v: array_from_numpy(v),
        lambda v: array_from_numpy(v, device=client.devices()[1]),
        lambda v: put(v, NamedSharding(make_mesh((4,), "x"), P("x"))),
        lambda v: put(v, NamedSharding(make_mesh((2, 2), ("x", "y")), P("y"))),
        lambda v: put(array_from_numpy(v), NamedSharding(make_mesh((4,), "x"), P())),
        lambda v: copy.copy(array_from_numpy(v)),
    ):
        value = np.ones(4).astype(dtype)
        x = make(value)
        for use in (
            repr, str, np.asarray, list, pickle.dumps, copy.deepcopy, Array.tolist,
            Array.block_until_ready, Array.copy_to_host_async, Array.is_ready,
            Array.on_device_size_in_bytes,
            lambda x: (x.sharding, x.devices(), x.device, x.committed, x.is_fully_replicated),
            lambda x: [s.data.tolist() for s in x.addressable_shards],
            lambda x: put(x, SingleDeviceSharding(client.devices()[2])).tolist(),
            lambda x: put(x, NamedSharding(make_mesh((4,), "x"), P("x"))).tolist(),
            lambda x: make(value).delete(),
        ):
            use(make(value))
            use(x)
for value in (np.ones(4), np.ones(3, np.float32), np.arange(8)[::2]):
    from_dlpack(value).tolist()
x = array_from_numpy(np.ones(4, ml_dtypes.bfloat16))
from_dlpack(x, copy=True).tolist(), np.from_dlpack(array_from_numpy(np.ones(3)))
compat.buffer_pointer(x._buf)
assert compat.dispatch_self_test() is None
text = "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
for _ in range(2):
    e = compile.compile_module(text, name="f", devices=tuple(client.devices()[:1]))
    e.as_text(), e.cost_analysis(), e.memory_analysis()
    del e
session = compat.ProfilerSession()
session.stop()
"""


def run(code, python=sys.executable, paths=sys.path, **env):
    path = os.pathsep.join(str(p) for p in paths if p)
    full = {**os.environ, "PYTHONPATH": path, **env}
    args = [python, "-W", "ignore", "-c", code]
    done = subprocess.run(args, env=full, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return done.stdout.split()


def test_nothing_tries_to_import_jax(tmp_path):
    code = SPY + EXERCISE + "print('attempts', *attempts)\nassert 'jax' not in sys.modules"
    assert run(code, PULLBACK_CACHE_DIR=str(tmp_path)) == ["attempts"]


def test_an_alias_named_jax_is_not_taken_for_the_real_one(tmp_path):
    """Inside the kernel `jax` may name the engine: C++ must not pick avals from it."""
    alias = """
import sys, types
jax, core = types.ModuleType("jax"), types.ModuleType("jax.core")
jax.__path__, jax.core = [], core
class ShapedArray:
    def __init__(self, *args, **kwargs): raise AssertionError("C++ made an aval of the alias")
core.ShapedArray = ShapedArray
sys.modules["jax"], sys.modules["jax.core"] = jax, core
"""
    check = "\nassert sys.modules['jax.core'] is core and not compat.real_jax_loaded()\nprint('ok')"
    assert run(alias + EXERCISE + check, PULLBACK_CACHE_DIR=str(tmp_path)) == ["ok"]


JAX_USE = """
import jax, jax.numpy as jnp
def use_jax():
    f = jax.jit(lambda x: jnp.sin(x) * 2)
    assert abs(float(f(0.5)) - 0.958851) < 1e-5
    assert abs(float(jax.grad(lambda x: x ** 3)(2.0)) - 12) < 1e-5
    assert jax.vmap(lambda x: x + 1)(jnp.arange(3)).tolist() == [1, 2, 3]
    assert jnp.arange(3).dtype == "int32" and repr(jnp.ones(2)) == "Array([1., 1.], dtype=float32)"
    assert isinstance(jnp.ones(2), jax.Array)
"""

OUR_USE = """
import numpy as np
def use_ours():
    big = 2**40 + 1
    x = array_from_numpy(np.array([big, 1]))
    assert x.dtype == "int64" and x.tolist() == [big, 1]
    y = put(x, SingleDeviceSharding(client.devices()[1]))
    assert y.tolist() == [big, 1] and y.dtype == "int64"
    assert not isinstance(x, jax.Array) if "jax" in sys.modules else True
    assert compat.dispatch_self_test() is None
def exchange():
    x = array_from_numpy(np.arange(3, dtype=np.float32))
    assert jnp.asarray(x).tolist() == jax.dlpack.from_dlpack(x).tolist() == [0, 1, 2]
    assert from_dlpack(jnp.arange(3.)).tolist() == [0, 1, 2]
    assert array_from_numpy(np.asarray(jnp.arange(3))).tolist() == [0, 1, 2]
"""


REAL = os.environ.get("PULLBACK_JAX_PYTHON", "")


@pytest.mark.skipif(not REAL, reason="PULLBACK_JAX_PYTHON names no Python with the real jax")
@pytest.mark.parametrize("jax_first", [True, False])
def test_both_work_in_one_process(tmp_path, jax_first):
    ours = EXERCISE + OUR_USE + "\nuse_ours()\n"
    theirs = "import sys\n" + JAX_USE + "\nuse_jax()\n"
    first, second = (theirs, ours) if jax_first else ("import sys\n" + ours, theirs)
    code = first + second + "\nuse_ours()\nuse_jax()\nexchange()\nuse_ours()\nprint('ok')"
    kernel = Path(client.__file__).parents[2]
    env = {"PULLBACK_CACHE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    assert run(code, REAL, [kernel], **env) == ["ok"]
