"""Arguments of a program: values to C++ arrays, where they lie, and moving them together.

Builds on client.py, array.py. Tested in tests/xla/test_dispatch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.aval import ShapedArray, register_typeof, typeof
from pullback.core.config import config
from pullback.core.tracer import Tracer
from pullback.xla import client, compat
from pullback.xla.array import Array

register_typeof(Array, lambda x: x._buf.aval)

_scalar_buffers: dict[tuple, Any] = {}


_SCALAR_LIMIT = 4096


def to_buffer(x: Any, device: Any, committed: bool = False) -> Any:
    """The C++ array of a value that is not an Array: a NumPy array or a number, copied.

    Raises:
        UnexpectedTracerError: `x` is a tracer that has left its function.
        TypeError: `x` is nothing that a program can take.
    """
    if isinstance(x, Tracer):
        raise errors.UnexpectedTracerError(x)
    if not isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        if hasattr(x, "__jax_array__"):
            return to_buffer(x.__jax_array__(), device, committed)
        if isinstance(x, Array):
            return x._buf
    aval = typeof(x)
    if isinstance(x, int) and not isinstance(x, bool):
        _check_int_range(x, aval)
    value = np.asarray(x, dtype=aval.dtype)
    if value.ndim == 0 and not committed:
        key = (value.tobytes(), aval, device)
        buf = _scalar_buffers.get(key)
        if buf is None or buf.is_deleted():
            if len(_scalar_buffers) >= _SCALAR_LIMIT:
                _scalar_buffers.clear()
            buf = compat.device_put_buffer(value, aval, device, committed=False)
            _scalar_buffers[key] = buf
        return buf
    return compat.device_put_buffer(value, aval, device, committed=committed)


def _check_int_range(x: int, aval: ShapedArray) -> None:
    info = np.iinfo(aval.dtype)
    if not info.min <= x <= info.max:
        raise OverflowError(f"Python integer {x} too large to convert to {aval.dtype}")


def placement(bufs: Sequence[Any]) -> tuple[Any, bool]:
    """The device that a call on these buffers runs on, and whether one of them is committed to it.

    Raises:
        ValueError: two arguments are committed to different devices.
    """
    chosen = None
    for buf in bufs:
        if buf._committed:
            sharding = buf._sharding
            if chosen is None:
                chosen = sharding
            elif sharding is not chosen and sharding != chosen:
                raise ValueError(
                    "arguments are committed to different devices: "
                    f"{_devices_text(chosen)} and {_devices_text(sharding)}\n"
                    "Instead: move one of them first: x = device_put(x, device)."
                )
    if chosen is None:
        return client.default_device(), False
    return chosen, True


def _devices_text(sharding: Any) -> str:
    return ", ".join(sorted(str(d) for d in sharding._internal_device_list))


def refuse_deleted(bufs: Sequence[Any]) -> None:
    """Say which operand was deleted, if one was; the runtime only counts its shards.

    Raises:
        RuntimeError: one of the C++ arrays was deleted or donated.
    """
    for buf in bufs:
        if buf.is_deleted():
            try:
                Array(buf)._check_alive()
            except RuntimeError as error:
                raise error from None  # the runtime's own words say less


# Small scalars by type and value: NumPy and Python ones (never zeros, whose sign a key would lose).
fast_scalars: dict[tuple, Any] = {}


HASHED_SCALARS = frozenset({int, float, np.float32, np.float64, np.int32, np.int64})


def home_buffers(values: Sequence[Any]) -> list[Any] | None:
    """The buffers of concrete values on the default device; None if one is traced or elsewhere."""
    device = client.default_device()
    home = compat.single_device_sharding(device)
    bufs = []
    for x in values:
        kind = type(x)
        if kind is Array:
            buf = x._buf
            if buf._sharding is not home or buf.is_deleted():
                return None
        elif isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
            buf = buffer_of(x, device)
        else:
            return None
        bufs.append(buf)
    return bufs


def buffer_of(x: Any, device: Any) -> Any:
    """The C++ array of a value that is not an Array; that of a number is found by its value."""
    kind = type(x)
    if kind not in HASHED_SCALARS or x == 0:
        return to_buffer(x, device)
    key = (kind, x, device, config.jax_enable_x64)
    buf = fast_scalars.get(key)
    if buf is None:
        if len(fast_scalars) >= _SCALAR_LIMIT:
            fast_scalars.clear()
        buf = fast_scalars[key] = to_buffer(x, device)
    return buf


_scalar_arrays: dict[tuple, Array] = {}


def scalar_array(x: Any) -> Array:
    """A value that is not an Array as one; numbers are kept, as they come back."""
    kind = type(x)
    device = client.default_device()
    if kind not in HASHED_SCALARS or x != x:
        return Array(to_buffer(x, device))
    # 0.0 and -0.0 are equal, but other numbers.
    key = (kind, x if x else str(x), device, config.jax_enable_x64)
    found = _scalar_arrays.get(key)
    if found is None or found._buf.is_deleted():
        if len(_scalar_arrays) >= _SCALAR_LIMIT:
            _scalar_arrays.clear()
        found = _scalar_arrays[key] = Array(to_buffer(x, device))
    return found


def move_together(bufs: Sequence[Any]) -> tuple[Any, list[Any], bool]:
    """The buffers on one device: the one that a committed buffer is on, else the default.

    An array spread over several devices is gathered onto its first one.
    """
    place, committed = placement(bufs)
    device = place if not committed else first_device(place)
    return device, [on_device(b, device, committed) for b in bufs], committed


def first_device(sharding: Any) -> Any:
    """The first device of a C++ sharding."""
    return next(iter(sharding._internal_device_list))


def on_device(buf: Any, device: Any, committed: bool) -> Any:
    """The buffer on one device, moved there if it is elsewhere."""
    target = compat.single_device_sharding(device)
    if buf._sharding is target or buf._sharding == target:
        return buf
    devices = list(buf._sharding._internal_device_list)
    if len(devices) == 1:
        return compat.copy_to_devices(buf, target, [device], False)
    value = np.asarray(Array(buf))
    return compat.device_put_buffer(value, buf.aval, device, committed=committed)


def clear_scalars() -> None:
    """Forget the buffers of numbers."""
    _scalar_buffers.clear()
    fast_scalars.clear()
    _scalar_arrays.clear()


def n_scalars() -> int:
    """How many buffers of numbers are kept."""
    return len(_scalar_buffers)
