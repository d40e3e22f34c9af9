"""All that touches a private name of jaxlib; elsewhere only this package's names are used.

jaxlib 0.10.2 up to 0.12. Tested in tests/xla/test_compat.py, one test a fact. An index:
state (version, settings), registry, buffers, programs, dispatcher, mlir_modules, services.
"""

from __future__ import annotations

# state comes first: it sets what jaxlib reads when it is loaded.
from pullback.xla.compat.state import (
    ArrayImpl,
    Device,
    DeviceList,
    GSPMDSharding,
    HloSharding,
    LoadedExecutable,
    SingleDeviceSharding,
    XlaRuntimeError,
    jaxlib_version,
    make_config,
    no_jax_import,
    real_jax_loaded,
    xla_version,
)

# isort: split
from pullback.xla.compat.buffers import (
    assemble_shards,
    buffer_pointer,
    copy_to_devices,
    copy_to_host_async,
    device_put_buffer,
    device_put_shards,
    dlpack_export,
    dlpack_import,
    gspmd_sharding,
    iota_sharding,
    result_handler,
    rewrap,
    shards_of,
    single_device_sharding,
    to_numpy,
)
from pullback.xla.compat.dispatcher import (
    FastData,
    clear_dispatch_caches,
    dispatch_self_test,
    fast_dispatch_works,
    make_pjit,
)
from pullback.xla.compat.mlir_modules import Mlir, mlir, mlir_context
from pullback.xla.compat.programs import (
    SEPARATE_OPERATIONS,
    compile_and_load,
    compile_options,
    deserialize_executable,
    make_cpu_client,
    module_to_hlo_text,
    quick_compile_overrides,
    serialize_executable,
)
from pullback.xla.compat.registry import (
    PyTreeDef,
    PyTreeRegistry,
    dispatch_registry,
    register_array_class,
)
from pullback.xla.compat.services import ProfilerSession, register_lapack

__all__ = [
    "ArrayImpl",
    "Device",
    "DeviceList",
    "FastData",
    "GSPMDSharding",
    "HloSharding",
    "LoadedExecutable",
    "Mlir",
    "ProfilerSession",
    "PyTreeDef",
    "PyTreeRegistry",
    "SEPARATE_OPERATIONS",
    "SingleDeviceSharding",
    "XlaRuntimeError",
    "assemble_shards",
    "buffer_pointer",
    "clear_dispatch_caches",
    "compile_and_load",
    "compile_options",
    "copy_to_devices",
    "copy_to_host_async",
    "deserialize_executable",
    "device_put_buffer",
    "device_put_shards",
    "dispatch_registry",
    "dispatch_self_test",
    "dlpack_export",
    "dlpack_import",
    "fast_dispatch_works",
    "gspmd_sharding",
    "iota_sharding",
    "jaxlib_version",
    "make_config",
    "make_cpu_client",
    "make_pjit",
    "mlir",
    "mlir_context",
    "module_to_hlo_text",
    "no_jax_import",
    "quick_compile_overrides",
    "real_jax_loaded",
    "register_array_class",
    "register_lapack",
    "result_handler",
    "rewrap",
    "serialize_executable",
    "shards_of",
    "single_device_sharding",
    "to_numpy",
    "xla_version",
]
