"""Arrays from other libraries' memory, by dlpack.

Builds on xla/array and xla/compat. Tested in tests/xla/test_array.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import dtypes
from pullback.core.aval import make_aval
from pullback.xla import client, compat
from pullback.xla.array import Array, DLDeviceType, array_from_numpy


def from_dlpack(x: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An Array over the memory of an object with `__dlpack__`, not copied where aligned.

    Args:
        x: torch tensor, NumPy array, other Array ... on a CPU or on a device of ours.
        device: where the result shall be (committed); None means the first CPU device.
        copy: True copies always, so that later writes by the owner are not seen; False refuses to.

    Raises:
        TypeError: `x` has no `__dlpack__`.
        BufferError: copy=False and the memory is not 64-byte aligned, or of a 64-bit type that
            becomes a 32-bit one.
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack takes an object with __dlpack__, not {type(x).__name__}; "
            "for others use asarray"
        )
    kind, _ = x.__dlpack_device__()
    if int(kind) != DLDeviceType.kDLCPU:
        raise TypeError(
            f"from_dlpack: memory on device type {kind!r} cannot be taken; copy it to the CPU first"
        )
    host = np.from_dlpack(x) if _numpy_knows(x) else None
    if host is not None and (dtype := dtypes.canonicalize_dtype(host.dtype)) != host.dtype:
        if copy is False:
            raise BufferError(
                f"from_dlpack: {host.dtype} becomes {dtype} without jax_enable_x64, so it must be copied"
            )
        host, copy = host.astype(dtype), None
    target = device or client.local_devices(backend="cpu")[0]
    if host is None:
        return _import_capsule(x, target, bool(copy))
    aligned = host.ctypes.data % 64 == 0 and host.flags.c_contiguous
    if copy is False and not aligned:
        raise BufferError(
            "from_dlpack: the memory is not contiguous and 64-byte aligned, so it must be copied"
        )
    return array_from_numpy(host, device=target, copy=bool(copy))


def _numpy_knows(x: Any) -> bool:
    name = str(getattr(x, "dtype", ""))
    return "bfloat16" not in name and "float8" not in name


def _import_capsule(x: Any, device: Any, copy: bool) -> Array:
    buf = compat.dlpack_import(x.__dlpack__(), device)
    dtype = compat.to_numpy(buf).dtype
    aval = make_aval(tuple(int(n) for n in x.shape), dtype, False)
    array = Array(compat.rewrap(buf, aval, compat.single_device_sharding(device)))
    return array.__copy__() if copy else array
