"""Where arrays live: device_put, device_get, waiting, and clearing caches.

Builds on xla/transfer.py. Tested in tests/api/test_place.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import linearize, pytree, reverse
from pullback.core.aval import ShapedArray, typeof
from pullback.core.jvp import linear_jvp
from pullback.core.source import api_boundary
from pullback.core.tracer import Primitive, Tracer
from pullback.lax import jet
from pullback.xla import arguments, client, compat, compile, dispatch, transfer, transfer_guard
from pullback.xla.array import Array
from pullback.xla.sharding import SingleDeviceSharding, leading_axis_sharding


def _device_put_impl(x: Any, *, device: Any) -> Array:
    if device is None:
        return x if isinstance(x, Array) else Array(arguments.to_buffer(x, client.default_device()))
    value = x if isinstance(x, Array) else np.asarray(x, dtype=typeof(x).dtype)
    place = SingleDeviceSharding(device) if isinstance(device, client.Device) else device
    return transfer.device_put_sharded_array(value, place)


device_put_p: Primitive = Primitive(
    name="device_put",
    doc="the same array on a device",
    abstract=lambda aval, *, device: aval,
    impl=_device_put_impl,
    lower=lambda ctx, x, *, device: x,
    jvp=linear_jvp(lambda: device_put_p),
    transpose=lambda ct, x, *, device: [ct],
    batch=lambda axis, args, dims, *, device: (device_put_p.bind(*args, device=device), dims[0]),
)


@api_boundary
def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """The arrays of a pytree on a device or sharding.

    Args:
        x: arrays, NumPy arrays or numbers in any structure.
        device: a device, a sharding, or a pytree prefix of them; None keeps arrays where they are
            and puts other values on the default device.
        src: ignored; accepted as JAX does.
        donate, may_alias: hints that this function does not need.

    Returns:
        The same structure of Arrays. Inside a traced function the values are left where they are.
    """
    leaves, tree = pytree.tree_flatten(x)
    devices = pytree.flatten_prefix("device_put device", tree, device, is_leaf=_is_place)
    with transfer_guard.explicit_device_put():
        placed = [
            device_put_p.bind(leaf, device=place)
            for leaf, place in zip(leaves, devices, strict=True)
        ]
    return pytree.tree_unflatten(tree, placed)


def _is_place(x: Any) -> bool:
    return x is None or isinstance(x, client.Device) or hasattr(x, "device_set")


@api_boundary
def device_get(x: Any) -> Any:
    """The arrays of a pytree as NumPy arrays.

    Raises:
        TracerArrayConversionError: a leaf is being traced.
    """
    return pytree.tree_map(lambda leaf: np.asarray(leaf) if _is_array(leaf) else leaf, x)


def _is_array(x: Any) -> bool:
    return isinstance(x, Array | Tracer)


def block_until_ready(x: Any) -> Any:
    """Wait until every array of a pytree has its value; give the pytree."""
    for leaf in pytree.tree_leaves(x):
        if isinstance(leaf, Array):
            leaf.block_until_ready()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Start copying every array of a pytree to the host; give the pytree."""
    for leaf in pytree.tree_leaves(x):
        if isinstance(leaf, Array):
            leaf.copy_to_host_async()
    return x


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    """One array a leaf with a leading axis, its i-th slice on the i-th device."""
    if len(shards) != len(devices):
        raise ValueError(f"{len(shards)} shards for {len(devices)} devices; give one a device")
    sharding = leading_axis_sharding(devices)

    def put(*leaves: Any) -> Array:
        value = np.stack([np.asarray(x, dtype=typeof(x).dtype) for x in leaves])
        return transfer.device_put_sharded_array(value, sharding)

    return pytree.tree_map(put, *shards)


def device_put_replicated(x: Any, devices: Sequence[Any]) -> Any:
    """One array a leaf with a leading axis, the same slice on each device."""
    return device_put_sharded([x] * len(devices), devices)


def live_arrays(platform: str | None = None) -> list[Array]:
    """Every array that lives on a platform's devices."""
    return [Array(b) for b in client.get_client(platform).live_arrays() if _is_ours(b)]


def _is_ours(buf: Any) -> bool:
    return isinstance(getattr(buf, "aval", None), ShapedArray)


def clear_caches() -> None:
    """Forget all traces, templates and executables of this process."""
    dispatch.clear_caches()
    linearize.templates.clear()
    reverse.clear_caches()
    jet.clear_caches()
    compat.clear_dispatch_caches()
    compile.clear_memory()
