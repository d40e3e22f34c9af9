"""The CPU client, compile options, executables and their bytes.

Builds on state. Tested in tests/xla/test_compat.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc

from pullback.xla.compat.state import DeviceList, jaxlib_version


def make_cpu_client(n_devices: int, asynchronous: bool = True, **kwargs: Any) -> Any:
    """A new CPU client; `asynchronous`: calls return before the CPU is done."""
    return xc.make_cpu_client(asynchronous=asynchronous, num_devices=n_devices, **kwargs)


# XLA's ExecutionOptions.EffortLevel
_EFFORT_LEVELS = {"UNKNOWN": 0, "O0": 9, "O1": 19, "O2": 29, "O3": 39}


# With these options, and barriers between the operations (lower_module's `separately`), each one
# computes the bits that it computes alone. Fusing contracts a product and a sum into one rounding;
# across operations XLA folds transposes into products and shares what stops a division from
# becoming a product with the reciprocal.
SEPARATE_OPERATIONS = {"xla_disable_hlo_passes": "fusion"}


def compile_options(
    devices: Sequence[Any],
    num_replicas: int = 1,
    num_partitions: int = 1,
    overrides: Sequence[tuple[str, Any]] = (),
    level: str = "UNKNOWN",
) -> Any:
    """XLA's compile options for these devices (Shardy where the program is partitioned).

    Args:
        devices: num_replicas * num_partitions devices, row by row.
        overrides: (flag, value) of XLA's debug options; an unknown one is an error of the compiler.
        level: XLA's effort, O0 to O3; UNKNOWN leaves it to XLA.
    """
    options = xc.CompileOptions()
    build = options.executable_build_options
    assignment = xc.DeviceAssignment.create(
        np.array([d.id for d in devices], np.int32).reshape(num_replicas, num_partitions)
    )
    for target in (options, build):
        target.num_replicas = num_replicas
        target.num_partitions = num_partitions
        target.device_assignment = assignment
    build.use_spmd_partitioning = num_partitions > 1
    build.use_shardy_partitioner = num_partitions > 1
    build.optimization_level = _EFFORT_LEVELS[level]
    if overrides:
        options.env_option_overrides = list(overrides)
    return options


def quick_compile_overrides() -> dict[str, Any]:
    """XLA options that compile a tiny exact program sooner.

    25 to 8 ms on jaxlib 0.10.2, 22 to 16 on 0.12 (an addition, 2 x86 cores, December 2026). The
    code is not vectorised, and contracts no multiply with an add: not for large arrays, nor where
    rounding may differ from the normal pipeline (`compile.is_tiny_and_exact` decides).
    """
    options: dict[str, Any] = {"xla_backend_optimization_level": 0}
    if jaxlib_version.startswith("0.10."):  # the flag is gone from 0.11 on
        options["xla_cpu_use_fusion_emitters"] = False
    return options


def compile_and_load(
    client: Any, module: Any, devices: Sequence[Any], options: Any, callbacks: Sequence[Any]
) -> Any:
    """Compile an MLIR module (object, text or bytecode) and load it on the devices."""
    args = (module, DeviceList(tuple(devices)), options)
    if callbacks:
        return client.compile_and_load(*args, list(callbacks))
    return client.compile_and_load(*args)


def serialize_executable(client: Any, loaded: Any) -> bytes:
    """The executable as bytes, for this jaxlib and this kind of CPU only."""
    return client.serialize_executable(loaded)


def deserialize_executable(client: Any, blob: bytes, devices: Sequence[Any], options: Any) -> Any:
    """The executable that `serialize_executable` wrote. Machine code: only from a trusted place."""
    return client.deserialize_executable(blob, DeviceList(tuple(devices)), options)


def module_to_hlo_text(module: Any) -> str:
    """An MLIR module as XLA reads it: HLO text before any optimisation."""
    text = module.operation.get_asm(enable_debug_info=False)
    return _jax.mlir.mlir_module_to_xla_computation(text).as_hlo_text()
