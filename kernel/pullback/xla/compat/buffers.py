"""C++ arrays: made from NumPy values, moved, taken apart, read back, passed by dlpack.

Builds on state. Tested in tests/xla/test_compat.py.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc

from pullback.xla.compat import guards
from pullback.xla.compat.state import (
    ArrayImpl,
    DeviceList,
    GSPMDSharding,
    HloSharding,
    SingleDeviceSharding,
    no_jax_import,
)


def result_handler(aval: Any, sharding: Any, committed: bool) -> Any:
    """What turns one output of an executable into an ArrayImpl with this aval and C++ sharding."""
    return _RESULT_HANDLER(aval, sharding, committed)


def _result_handler_skipping_checks(aval: Any, sharding: Any, committed: bool) -> Any:
    return xc.array_result_handler(aval, sharding, committed, _skip_checks=True)


# jaxlib < 0.11 checks through a Python method that only jax defines; the argument is gone in 0.11.
_RESULT_HANDLER = (
    _result_handler_skipping_checks
    if "_skip_checks" in (xc.array_result_handler.__doc__ or "")
    else xc.array_result_handler
)

_COPY_IN = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ZERO_COPY_IN = xc.HostBufferSemantics.ZERO_COPY


@functools.lru_cache(maxsize=4096)
def single_device_sharding(device: Any) -> Any:
    """The C++ sharding that puts a whole array on one device (one object a device)."""
    return SingleDeviceSharding(device)


@functools.lru_cache(maxsize=4096)
def _device_list(devices: tuple[Any, ...]) -> Any:
    return DeviceList(devices)


def gspmd_sharding(devices: Sequence[Any], hlo_sharding: Any) -> Any:
    """The C++ sharding of an array over several devices; attributes may be set on it."""
    return GSPMDSharding(_device_list(tuple(devices)), hlo_sharding)


def iota_sharding(
    tile: Sequence[int], n_copies: int, mesh_sizes: Sequence[int], axis_order: Sequence[int]
) -> Any:
    """The HloSharding that cuts axis k into tile[k] parts, each n_copies times.

    The parts go to the devices of a mesh of these sizes, its axes read in `axis_order`.
    """
    if n_copies == 1:
        return HloSharding.iota_tile(tuple(tile), tuple(mesh_sizes), tuple(axis_order))
    replicated = [xc.OpSharding.Type.REPLICATED]
    dims = (*tile, n_copies)
    return HloSharding.iota_tile(dims, tuple(mesh_sizes), tuple(axis_order), replicated)


def device_put_buffer(
    value: np.ndarray, aval: Any, device: Any, committed: bool = True, copy: bool = True
) -> Any:
    """An ArrayImpl on `device` holding a copy of `value`.

    Args:
        value: NumPy array with exactly the aval's shape and dtype.
        aval: the type that the array reports.
        device: where to.
        committed: whether the program must follow this array's device.
        copy: False lets the CPU alias the buffer (where 64-byte aligned): only for one that nobody
            writes to again.
    """
    if guards.watchers:
        guards.tell_watchers("host_to_device", aval)
    return xc.batched_device_put(
        aval,
        single_device_sharding(device),
        [value],
        [device],
        committed,
        host_buffer_semantics=_COPY_IN if copy else _ZERO_COPY_IN,
        enable_x64=True,
    )


def device_put_shards(
    shards: Sequence[np.ndarray], aval: Any, xla_sharding: Any, devices: Sequence[Any]
) -> Any:
    """One ArrayImpl over several devices from one host array (copied) a device.

    Copied here, because jaxlib's copying transfer fails over several devices
    ('bad_function_call', 0.10.2 to 0.12).
    """
    copies = [np.array(s, order="C") for s in shards]
    devices = list(devices)
    return xc.batched_device_put(aval, xla_sharding, copies, devices, True, enable_x64=True)


def assemble_shards(bufs: Sequence[Any], aval: Any, xla_sharding: Any) -> Any:
    """One ArrayImpl over several devices from single-device ArrayImpls that are there already."""
    return ArrayImpl(aval, xla_sharding, list(bufs), True, _skip_checks=True)


def copy_to_devices(buf: Any, xla_sharding: Any, devices: Sequence[Any], always: bool) -> Any:
    """The array on as many other devices, shard by shard; `always`: a copy even where it is."""
    semantics = _jax.ArrayCopySemantics
    how = semantics.ALWAYS_COPY if always else semantics.REUSE_INPUT
    if guards.watchers:
        guards.tell_watchers("device_to_device", buf.aval)
    return xc.batched_copy_array_to_devices_with_sharding(
        [buf], [DeviceList(tuple(devices))], [xla_sharding], [how]
    )[0]


def rewrap(buf: Any, aval: Any, xla_sharding: Any) -> Any:
    """The same device memory under another aval (same shape and dtype) and sharding."""
    return buf._rewrap_with_aval_and_sharding(aval, xla_sharding)


def shards_of(buf: Any, shard_aval: Any) -> list[Any]:
    """The single-device ArrayImpls of a multi-device array, in device order."""
    with no_jax_import():
        pieces = buf._arrays
    return [rewrap(p, shard_aval, p._sharding) for p in pieces]


def to_numpy(buf: Any) -> np.ndarray:
    """A single-device array as a read-only NumPy array; waits for the value.

    Zero-copy on the CPU for NumPy's own dtypes. bfloat16, float8 and int4 take jaxlib's own
    conversion (a copy for packed types).
    """
    try:
        return np.asarray(memoryview(buf))
    except BufferError:
        return _to_numpy_slow(buf)


def _to_numpy_slow(buf: Any) -> np.ndarray:
    if hasattr(buf, "_to_np_array_did_copy"):  # from 0.11 on, and free of imports
        value, _ = buf._to_np_array_did_copy()
    else:
        with no_jax_import():
            value, _ = buf._single_device_array_to_np_array_did_copy()
    value.flags.writeable = False
    return value


def copy_to_host_async(buf: Any) -> None:
    """Start the copy to host memory; nothing to do on the CPU, or over several devices."""
    sharding = buf._sharding
    if not isinstance(sharding, SingleDeviceSharding) or sharding._device.platform == "cpu":
        return
    with no_jax_import():
        buf._copy_single_device_array_to_host_async()


def buffer_pointer(buf: Any) -> int:
    """The address of a single-device array's memory, after waiting for it."""
    buf.block_until_ready()
    with no_jax_import():
        return buf.unsafe_buffer_pointer()


def dlpack_export(buf: Any, **kwargs: Any) -> Any:
    """A dlpack capsule of the array (zero-copy)."""
    return _jax.buffer_to_dlpack_managed_tensor(buf, **kwargs)


def dlpack_import(capsule: Any, device: Any) -> Any:
    """The ArrayImpl over a dlpack capsule's memory; give it an aval by `rewrap` before use."""
    with no_jax_import():
        return _jax.dlpack_managed_tensor_to_buffer(capsule, device, None)
