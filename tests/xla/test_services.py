"""LAPACK and the profiler."""

from __future__ import annotations

import numpy as np

from pullback.core.aval import make_aval
from pullback.xla import client, compat
from pullback.xla.array import Array, array_from_numpy

CHOLESKY = """func.func public @main(%a: tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>) {
  %r:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {api_version=4:i32,
    backend_config={uplo=76:ui8}, operand_layouts=[dense<[0,1]>:tensor<2xindex>],
    result_layouts=[dense<[0,1]>:tensor<2xindex>, dense<>:tensor<0xindex>]}
    : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>)
  return %r#0, %r#1 : tensor<2x2xf64>, tensor<i32>
}"""


def run(text, x, avals):
    device = client.local_devices()[0]
    options = compat.compile_options([device])
    loaded = compat.compile_and_load(device.client, text, [device], options, ())
    sharding = compat.single_device_sharding(device)
    handlers = [compat.result_handler(a, sharding, False) for a in avals]
    return [Array(b) for b in loaded.execute_sharded([x._buf]).consume_with_handlers(handlers)]


def test_lapack_is_registered_once():
    names = compat.register_lapack()
    assert names is compat.register_lapack() and "lapack_dgesdd_ffi" in names and len(names) > 50
    a = np.array([[4.0, 2.0], [2.0, 3.0]])
    avals = [make_aval((2, 2), a.dtype, False), make_aval((), np.dtype(np.int32), False)]
    factor, info = run(CHOLESKY, array_from_numpy(a), avals)
    assert int(info) == 0 and np.allclose(np.tril(factor), np.linalg.cholesky(a))


def test_the_profiler_names_operations():
    n = 200
    text = f"""func.func public @main(%a: tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32> {{
      %0 = stablehlo.tanh %a : tensor<{n}x{n}xf32>
      %1 = "stablehlo.sort"(%0) ({{ ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1> }}) {{dimension=0:i64, is_stable=false}}
        : (tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
      return %1 : tensor<{n}x{n}xf32> }}"""
    x = array_from_numpy(np.ones((n, n), np.float32))
    session = compat.ProfilerSession()
    (out,) = run(text, x, [x.aval])
    out.block_until_ready()
    data = session.stop()
    names = {e.name for plane in data.planes for line in plane.lines for e in line.events}
    assert any(name.startswith("sort") for name in names)
