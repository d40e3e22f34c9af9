"""Moving values between host and devices: `device_put_sharded_array`, `device_get`, `shard_arg`.

Builds on xla/array and xla/sharding. Tested in tests/xla/test_transfer.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.aval import make_aval
from pullback.xla import compat
from pullback.xla.array import Array, array_from_numpy
from pullback.xla.sharding import Sharding, SingleDeviceSharding, from_xla, to_xla


def device_put_sharded_array(value: np.ndarray | Array, sharding: Sharding) -> Array:
    """`value` laid out as `sharding` says, committed.

    Args:
        value: NumPy array of a dtype that XLA has, or an Array anywhere.
        sharding: where each part goes.

    Raises:
        IndivisibleError: an axis cannot be cut into equal parts.
    """
    if isinstance(sharding, SingleDeviceSharding):
        return _to_device(value, sharding.devices[0])
    if isinstance(value, Array):
        return _reshard(value, sharding)
    aval = make_aval(value.shape, value.dtype, False)
    return _put_shards(value, aval, sharding)


def _put_shards(value: np.ndarray, aval: Any, sharding: Sharding) -> Array:
    places = sharding.devices_indices_map(aval.shape)
    local = [d for d in sharding.devices if d.process_index == d.client.process_index()]
    shards = [value[places[d]] for d in local]
    return Array(compat.device_put_shards(shards, aval, to_xla(sharding, len(aval.shape)), local))


def _to_device(value: np.ndarray | Array, device: Any) -> Array:
    if not isinstance(value, Array):
        return array_from_numpy(value, device=device)
    devices = value.sharding.devices
    target = compat.single_device_sharding(device)
    if devices == (device,):
        return value if value.committed else Array(commit(value._buf))
    if len(devices) == 1 and device.client is devices[0].client:
        value._check_alive()
        moved = compat.copy_to_devices(value._buf, target, (device,), always=False)
        return Array(moved if moved._committed else commit(moved))
    return Array(compat.device_put_buffer(value._value, value.aval, device, True))


def commit(buf: Any) -> Any:
    """The same C++ array, committed to where it is."""
    sharding = buf._sharding
    return compat.assemble_shards([buf], buf.aval, sharding)


def _reshard(value: Array, sharding: Sharding) -> Array:
    now = value.sharding
    aval = value.aval
    value._check_alive()
    if now == sharding and value.committed:
        return value
    if now.devices == sharding.devices and now.is_equivalent_to(sharding, aval.ndim):
        return Array(compat.rewrap(value._buf, aval, to_xla(sharding, aval.ndim)))
    pieces = _matching_pieces(value, sharding)
    if pieces is not None:
        return Array(compat.assemble_shards(pieces, aval, to_xla(sharding, aval.ndim)))
    return _put_shards(value._value, aval, sharding)


def _matching_pieces(value: Array, sharding: Sharding) -> list[Any] | None:
    """The new parts copied between devices, if each lies whole on some device now; else None."""
    wanted = sharding.devices_indices_map(value.shape)
    holders: dict[tuple[tuple[int, int], ...], Array] = {}
    for shard in value.addressable_shards:
        holders.setdefault(_span(shard.index, value.shape), shard.data)  # type: ignore[arg-type]
    pieces = []
    for device in sharding.devices:
        holder = holders.get(_span(wanted[device], value.shape))
        if holder is None or device.client is not holder.sharding.devices[0].client:
            return None
        pieces.append(_to_device(holder, device)._buf)
    return pieces


def _span(index: tuple[slice, ...], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(s.indices(n)[:2] for s, n in zip(index, shape, strict=True))


def device_get(value: Any) -> Any:
    """One Array as a read-only NumPy array; anything else as it is. Waits for the value."""
    return value._value if isinstance(value, Array) else value


def shard_arg(value: Any, xla_sharding: Any, layout: Any) -> Any:
    """What the dispatcher calls for an argument that lies elsewhere than the program wants it.

    An uncommitted array (or a host value) follows the program.
    """
    array = Array(value) if isinstance(value, compat.ArrayImpl) else np.asarray(value)
    return device_put_sharded_array(array, from_xla(xla_sharding))._buf
