"""`Array`: an immutable array on a device; one slot around the C++ array.

Builds on xla/compat, xla/client, xla/sharding and core/aval. Operators, indexing and NumPy's
methods are attached by numpy/array_methods.py. Tested in tests/xla/test_array.py.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pullback.core.aval import make_aval
from pullback.xla import client, compat
from pullback.xla import sharding as sharding_lib
from pullback.xla.array_text import index_text, value_text
from pullback.xla.wait import wait


class Array:
    """An immutable array on one device, or split or repeated over several.

    Made by `pullback.numpy` functions and `device_put`; `Array(buf)` wraps a C++ array.
    """

    __slots__ = ("__weakref__", "_buf", "_npy")

    __array_priority__ = 100

    _npy: np.ndarray

    def __init__(self, buf: Any) -> None:
        self._buf = buf

    # ------------------------------------------------------------------ type

    @property
    def aval(self) -> Any:
        """The array's ShapedArray: shape, dtype, weak_type."""
        return self._buf.aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._buf.aval.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self._buf.aval.dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._buf.aval.ndim

    @property
    def size(self) -> int:
        """How many elements there are."""
        return self._buf.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to another operand's, as that of a Python number does."""
        return self._buf.aval.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self._buf.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes in all, shape times itemsize."""
        aval = self._buf.aval
        return aval.size * aval.dtype.itemsize

    # ------------------------------------------------------------------ place

    @property
    def sharding(self) -> sharding_lib.Sharding:
        """Where the array lies: a SingleDeviceSharding, NamedSharding or the like."""
        return sharding_lib.from_xla(self._buf._sharding)

    @property
    def committed(self) -> bool:
        """Whether the array was put where it is on purpose, so that programs follow it."""
        return self._buf._committed

    @property
    def device(self) -> Any:
        """The device, or the sharding when there are several."""
        sharding = self.sharding
        devices = sharding.devices
        return devices[0] if len(devices) == 1 else sharding

    def devices(self) -> set[Any]:
        """The set of devices that hold a part of the array."""
        return set(self.sharding.devices)

    @property
    def platform(self) -> str:
        """The platform of the devices, such as "cpu"."""
        return self.sharding.devices[0].platform

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return self.sharding.is_fully_replicated

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all of the array."""
        return self.sharding.is_fully_addressable

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts on this process's devices."""
        return [s for s in self.global_shards if s.data is not None]

    @property
    def global_shards(self) -> list[Shard]:
        """A Shard for every device; `data` is None for another process's."""
        return _shards(self)

    def addressable_data(self, index: int) -> Array:
        """The part on the index-th of this process's devices, as an Array there."""
        if self.is_fully_addressable and len(self.sharding.devices) == 1 and index == 0:
            return self
        return self.addressable_shards[index].data  # type: ignore[return-value]

    # ------------------------------------------------------------------ life

    def block_until_ready(self) -> Array:
        """Wait until the value is there; returns the array."""
        self._check_alive()
        wait(self._buf)
        return self

    def is_ready(self) -> bool:
        """Whether the value is there already."""
        self._check_alive()
        return self._buf.is_ready()

    def is_deleted(self) -> bool:
        """Whether the memory was given up, by `delete` or by donating the array to a program."""
        return self._buf.is_deleted()

    def delete(self) -> None:
        """Give up the memory now; later use raises RuntimeError."""
        self._drop_host_value()
        self._buf.delete()

    def copy_to_host_async(self) -> None:
        """Start the copy to the host, so that a later conversion to NumPy waits less."""
        self._check_alive()
        compat.copy_to_host_async(self._buf)

    def on_device_size_in_bytes(self) -> int:
        """Bytes of device memory over all devices."""
        self._check_alive()
        return self._buf.on_device_size_in_bytes()

    def _check_alive(self) -> None:
        if self._buf.is_deleted():
            raise _deleted_error(self._buf.aval)

    def _drop_host_value(self) -> None:
        try:
            del self._npy
        except AttributeError:
            pass  # never converted to NumPy

    # ------------------------------------------------------------------ NumPy

    @property
    def _value(self) -> np.ndarray:
        """The value as a read-only NumPy array; kept, so that a second conversion is free."""
        buf = self._buf
        if buf.is_deleted():
            raise _deleted_error(buf.aval)
        try:
            return self._npy
        except AttributeError:
            npy = self._npy = _to_numpy(buf)
            return npy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self._value
        if dtype is not None and value.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"cannot give the {self.dtype} array as {np.dtype(dtype)} without a copy; "
                    "leave out copy=False"
                )
            return value.astype(dtype)
        return value.copy() if copy else value

    def __dlpack_device__(self) -> tuple[enum.IntEnum, int]:
        device = self.sharding.devices[0]
        return _DLPACK_DEVICES[
            device.platform
        ], 0 if device.platform == "cpu" else device.local_hardware_id

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._check_alive()
        if len(self.sharding.devices) != 1:
            raise BufferError(
                f"dlpack: the array lies on {len(self.sharding.devices)} devices, and dlpack knows "
                "only one; gather it first: device_put(x, devices()[0])"
            )
        if dl_device is not None and tuple(dl_device) != tuple(self.__dlpack_device__()):
            raise BufferError(
                f"dlpack: the array is on {self.device}, not on {tuple(dl_device)}; use device_put"
            )
        source = self.__copy__() if copy else self
        wait(source._buf)
        try:
            return compat.dlpack_export(source._buf)
        except compat.XlaRuntimeError as e:
            raise BufferError(
                f"dlpack has no {self.dtype}; convert first: x.astype('int8'), or 'float32'"
            ) from e

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (np.array(self._value), self.weak_type)

    def __copy__(self) -> Array:
        self._check_alive()
        sharding = self._buf._sharding
        copied = compat.copy_to_devices(self._buf, sharding, self.sharding.devices, always=True)
        return Array(copied)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.__copy__()

    def item(self, *index: int) -> Any:
        """One element as a Python number (the only one, or the one at a flat or full index)."""
        return self._value.item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._value.tolist()

    def tobytes(self, order: Literal["C", "F", "A", "K"] = "C") -> bytes:
        """The elements' bytes."""
        return self._value.tobytes(order)

    # ------------------------------------------------------------------ Python's own conversions

    def __bool__(self) -> bool:
        aval = self._buf.aval
        if aval.size == 1:
            return bool(self._value)
        if aval.size == 0:
            raise ValueError(
                "the truth value of an empty array is ambiguous.\n"
                "Instead: ask array.size > 0 to see whether it is empty."
            )
        raise ValueError(
            f"the truth value of an array with {aval.size} elements is ambiguous: {aval}.\n"
            "Instead: a.any() or a.all(); jnp.where(a, x, y) chooses for each element."
        )

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        aval = self._buf.aval
        if aval.shape or aval.dtype.kind not in "iu" and "int" not in aval.dtype.name:
            raise TypeError(f"only an integer scalar array can be an index; this one is {aval}")
        return int(self._value)

    def _scalar(self, wanted: str) -> np.ndarray:
        aval = self._buf.aval
        if aval.shape:
            raise TypeError(
                f"only a scalar array converts to a Python {wanted}; this one has "
                f"ndim={aval.ndim}: {aval}.\n"
                "Instead: index it first, x[0]; x.item() takes the only element."
            )
        return self._value[()]

    def __len__(self) -> int:
        shape = self._buf.aval.shape
        if not shape:
            raise TypeError("len() of a scalar array: it has no axis 0")
        return shape[0]

    def __iter__(self) -> Iterator[Array]:
        aval = self._buf.aval
        if not aval.shape:
            raise TypeError("cannot iterate over a scalar array: it has no axis 0")
        return _rows(self, make_aval(aval.shape[1:], aval.dtype, False))

    __hash__ = None  # type: ignore[assignment]

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "arrays are immutable and do not support item assignment, x[{0}] = y.\n"
            "Instead: x = x.at[{0}].set(y), or x = x.at[{0}].add(y) for x[{0}] += y.".format(
                index_text(index)
            )
        )

    # ------------------------------------------------------------------ text

    def __repr__(self) -> str:
        aval = self._buf.aval
        weak = ", weak_type=True" if aval.weak_type else ""
        tail = f"dtype={aval.dtype.name}{weak})"
        if self._buf.is_deleted():
            return f"Array(<deleted>, shape={aval.shape}, {tail}"
        if not self.is_fully_addressable and not self.is_fully_replicated:
            return f"Array(<on several processes>, shape={aval.shape}, {tail}"
        return value_text(self._value, tail)

    def __str__(self) -> str:
        return str(self._value)

    def __format__(self, spec: str) -> str:
        return format(self._value[()] if not self.shape else self._value, spec)


compat.register_array_class(Array)


class DLDeviceType(enum.IntEnum):
    """dlpack's device numbers."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLROCM = 10


_DLPACK_DEVICES = {
    "cpu": DLDeviceType.kDLCPU,
    "cuda": DLDeviceType.kDLCUDA,
    "gpu": DLDeviceType.kDLCUDA,
    "rocm": DLDeviceType.kDLROCM,
}


@dataclass(frozen=True, slots=True, repr=False)
class Shard:
    """One device's part of an Array: its slice `index`, and which copy of that slice it is."""

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: Array | None

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


def array_from_numpy(
    value: np.ndarray, weak_type: bool = False, device: Any = None, *, copy: bool = True
) -> Array:
    """An Array holding `value`, on `device` (committed) or the default device (uncommitted).

    Args:
        value: NumPy array or scalar of a dtype that XLA has.
        weak_type: whether its dtype gives way to others.
        device: where to; None leaves it to the default device.
        copy: False lets the CPU use the buffer itself: only for one that nobody writes to again.
    """
    aval = make_aval(value.shape, value.dtype, weak_type)
    place = client.default_device() if device is None else device
    return Array(compat.device_put_buffer(value, aval, place, device is not None, copy))


def _rebuild(value: np.ndarray, weak_type: bool) -> Array:
    """What unpickling calls."""
    return array_from_numpy(value, weak_type)


def _deleted_error(aval: Any) -> RuntimeError:
    return RuntimeError(
        f"Array has been deleted with shape={aval}: its memory was given up, by .delete() or "
        "because it was donated to a compiled function (donate_argnums).\n"
        "Instead: use that function's result, or do not donate the array."
    )


def _to_numpy(buf: Any) -> np.ndarray:
    if not buf.is_ready():
        wait(buf)
    if isinstance(buf._sharding, compat.SingleDeviceSharding):
        return compat.to_numpy(buf)
    aval = buf.aval
    sharding = sharding_lib.from_xla(buf._sharding)
    if len(sharding.devices) == 1:
        return compat.to_numpy(buf)
    shard_aval = make_aval(sharding.shard_shape(aval.shape), aval.dtype, aval.weak_type)
    if not sharding.is_fully_addressable and not sharding.is_fully_replicated:
        raise RuntimeError(
            f"the array {aval} lies on devices of several processes, and this one has only a part; "
            "use addressable_shards, or replicate it first"
        )
    shards = compat.shards_of(buf, shard_aval)
    if sharding.is_fully_replicated:
        return compat.to_numpy(shards[0])
    whole = np.empty(aval.shape, aval.dtype)
    places = sharding.devices_indices_map(aval.shape)
    for device, shard in zip(sharding.devices, shards, strict=True):
        whole[places[device]] = compat.to_numpy(shard)
    whole.flags.writeable = False
    return whole


def _shards(array: Array) -> list[Shard]:
    array._check_alive()
    sharding = array.sharding
    aval = array.aval
    places = sharding.devices_indices_map(aval.shape)
    shard_aval = make_aval(sharding.shard_shape(aval.shape), aval.dtype, aval.weak_type)
    data: Sequence[Any] = [array._buf]
    if len(sharding.devices) > 1:
        data = compat.shards_of(array._buf, shard_aval)
    local = {b._sharding._device: Array(b) for b in data}
    seen: dict[Any, int] = {}
    found = []
    for device in sharding.devices:
        place = places[device]
        key = tuple((s.start, s.stop) for s in place)
        replica = seen[key] = seen.get(key, -1) + 1
        found.append(Shard(device, place, replica, local.get(device)))
    return found


def _rows(array: Array, aval: Any) -> Iterator[Array]:
    device = client.default_device()
    committed = array.committed and len(array.sharding.devices) == 1
    if committed:
        device = array.device
    for row in array._value:
        yield Array(compat.device_put_buffer(np.asarray(row, aval.dtype), aval, device, committed))
