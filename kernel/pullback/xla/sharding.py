"""Shardings: which device holds which part of an array; ours in Python, mapped to C++ ones.

Builds on xla/compat, xla/client and xla/mesh. Tested in tests/xla/test_sharding.py.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.xla import client, compat
from pullback.xla.mesh import Mesh, P, PartitionSpec

__all__ = [
    "DuplicateSpecError",
    "GSPMDSharding",
    "IndivisibleError",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "from_xla",
    "leading_axis_sharding",
    "to_xla",
]


class IndivisibleError(ValueError):
    """An axis cannot be cut into equal parts over the devices.

    Failing: `NamedSharding(mesh_of_2, P("x")).shard_shape((5,))`; corrected: `shard_shape((6,))`.
    """


class DuplicateSpecError(ValueError):
    """A mesh axis is used for two axes of an array.

    Failing: `NamedSharding(mesh, P("x", "x"))`; corrected: `NamedSharding(mesh, P("x", None))`.
    """


class Sharding:
    """Says which part of an array each device holds. Immutable, hashable, compared by value."""

    __slots__ = ()

    @property
    def devices(self) -> tuple[Any, ...]:
        """The devices in the order in which C++ lists their shards."""
        raise NotImplementedError

    def hlo_sharding(self, ndim: int) -> Any:
        """XLA's HloSharding for an array with `ndim` axes."""
        raise NotImplementedError

    def _cuts(self, ndim: int) -> tuple[int, ...]:
        """Into how many parts each axis is cut."""
        raise NotImplementedError

    def _positions(self, ndim: int) -> np.ndarray:
        """int[devices, ndim]: which part along each axis each device holds."""
        raise NotImplementedError

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part."""
        return set(self.devices)

    @property
    def addressable_devices(self) -> set[Any]:
        """Those of them that belong to this process."""
        return {d for d in self.devices if d.process_index == d.client.process_index()}

    @property
    def num_devices(self) -> int:
        """How many devices hold a part."""
        return len(self.devices)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all the devices belong to this process."""
        return all(d.process_index == d.client.process_index() for d in self.devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError

    @property
    def memory_kind(self) -> str | None:
        """Which of the device's memories is used."""
        return "device"

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part that each device holds.

        Raises:
            IndivisibleError: an axis cannot be cut into equal parts.
        """
        shape = tuple(global_shape)
        cuts = self._cuts(len(shape))
        for axis, (length, n_cuts) in enumerate(zip(shape, cuts, strict=True)):
            if length % n_cuts:
                raise IndivisibleError(
                    f"{self} cuts axis {axis} into {n_cuts} parts, but its length is {length} "
                    f"(shape {shape}); pad the axis to a multiple of {n_cuts}, or shard another one"
                )
        return tuple(n // c for n, c in zip(shape, cuts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, tuple[slice, ...]]:
        """For each device the slice of the array that it holds."""
        shape = tuple(global_shape)
        parts = self.shard_shape(shape)
        cuts = self._cuts(len(shape))
        return {
            device: tuple(
                slice(None) if n_cuts == 1 else slice(int(i) * part, (int(i) + 1) * part)
                for i, part, n_cuts in zip(position, parts, cuts, strict=True)
            )
            for device, position in zip(self.devices, self._positions(len(shape)), strict=True)
        }

    def addressable_devices_indices_map(
        self, global_shape: Sequence[int]
    ) -> dict[Any, tuple[slice, ...]]:
        """`devices_indices_map` for this process's devices."""
        local = self.addressable_devices
        return {d: i for d, i in self.devices_indices_map(global_shape).items() if d in local}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether the same devices hold the same parts of every array with `ndim` axes."""
        if self == other:
            return True
        if self.devices != other.devices or self.memory_kind != other.memory_kind:
            return False
        return self._cuts(ndim) == other._cuts(ndim) and np.array_equal(
            self._positions(ndim), other._positions(ndim)
        )

    def with_memory_kind(self, kind: str) -> Sharding:
        """The same sharding in another memory of the devices; only "device" is served."""
        if kind != "device":
            raise ValueError(f"memory_kind {kind!r} is not served; the only one is 'device'")
        return self


class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    __slots__ = ("_device",)

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        if memory_kind not in (None, "device"):
            self.with_memory_kind(memory_kind)
        self._device = device

    @property
    def devices(self) -> tuple[Any, ...]:
        return (self._device,)

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def hlo_sharding(self, ndim: int) -> Any:
        return compat.HloSharding.replicate()

    def _cuts(self, ndim: int) -> tuple[int, ...]:
        return (1,) * ndim

    def _positions(self, ndim: int) -> np.ndarray:
        return np.zeros((1, ndim), int)

    def __eq__(self, other: object) -> bool:
        return type(other) is SingleDeviceSharding and other._device == self._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _device_sharding_by_id, (self._device.platform, self._device.id)


class NamedSharding(Sharding):
    """Axes of the array cut along named axes of a mesh of devices.

    Args:
        mesh: the devices.
        spec: for each leading axis of the array the mesh axis (or axes, major first) that cuts it,
            or None.

    Raises:
        DuplicateSpecError: a mesh axis stands twice in the spec.
        ValueError: the spec names an axis that the mesh does not have.

    Example:
        >>> mesh = Mesh(np.array(devices()).reshape(4, 2), ("data", "model"))
        >>> x = device_put(np.ones((8, 6)), NamedSharding(mesh, P("data", "model")))
    """

    __slots__ = ("_axes", "_hash", "mesh", "spec")

    def __init__(self, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(spec, PartitionSpec):
            raise TypeError(
                f"NamedSharding takes a PartitionSpec, not {type(spec).__name__}; write P({spec!r})"
            )
        if memory_kind not in (None, "device"):
            self.with_memory_kind(memory_kind)
        self.mesh = mesh
        self.spec = spec
        self._axes = spec.mesh_axes()
        self._hash = hash((NamedSharding, mesh, spec))
        seen: set[Any] = set()
        for name in (name for axes in self._axes for name in axes):
            if name not in mesh.axis_names:
                raise ValueError(
                    f"{spec} names {name!r}, but the mesh has the axes {mesh.axis_names}"
                )
            if name in seen:
                raise DuplicateSpecError(
                    f"{spec} uses the mesh axis {name!r} twice; each may cut one axis of the array"
                )
            seen.add(name)

    @property
    def devices(self) -> tuple[Any, ...]:
        return self.mesh.flat_devices

    @property
    def is_fully_replicated(self) -> bool:
        return all(self.mesh.shape[name] == 1 for axes in self._axes for name in axes)

    def with_spec(self, spec: PartitionSpec | Sequence[Any]) -> NamedSharding:
        """The same mesh with another spec."""
        return NamedSharding(self.mesh, spec if isinstance(spec, PartitionSpec) else P(*spec))

    def axes_of(self, ndim: int) -> tuple[tuple[str, ...], ...]:
        """For each of the array's axes the mesh axes that cut it, major first."""
        if len(self._axes) > ndim:
            raise ValueError(
                f"{self} is for arrays with at least {len(self._axes)} axes, "
                f"but this one has {ndim}"
            )
        return self._axes + ((),) * (ndim - len(self._axes))

    def _cuts(self, ndim: int) -> tuple[int, ...]:
        size = self.mesh.shape
        return tuple(int(np.prod([size[a] for a in axes])) for axes in self.axes_of(ndim))

    def _positions(self, ndim: int) -> np.ndarray:
        sizes = self.mesh.axis_sizes
        coordinates = np.indices(sizes).reshape(len(sizes), -1)  # [mesh axis, device]
        positions = np.zeros((coordinates.shape[1], ndim), int)
        for axis, names in enumerate(self.axes_of(ndim)):
            for name in names:
                k = self.mesh.axis_names.index(name)
                positions[:, axis] = positions[:, axis] * sizes[k] + coordinates[k]
        return positions

    def hlo_sharding(self, ndim: int) -> Any:
        if self.is_fully_replicated:
            return compat.HloSharding.replicate()
        names = self.mesh.axis_names
        order = [names.index(a) for axes in self.axes_of(ndim) for a in axes]
        rest = [k for k in range(len(names)) if k not in order]
        n_copies = int(np.prod([self.mesh.axis_sizes[k] for k in rest]))
        tile = list(self._cuts(ndim))
        return compat.iota_sharding(tile, n_copies, self.mesh.axis_sizes, order + rest)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is NamedSharding
            and self._hash == other._hash
            and self.mesh == other.mesh
            and self.spec == other.spec
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return (
            f"NamedSharding(mesh={self.mesh}, spec={self.spec!r}, memory_kind={self.memory_kind})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedSharding, (self.mesh, self.spec)


class GSPMDSharding(Sharding):
    """A sharding as XLA says it, for results whose layout the partitioner chose.

    Args:
        devices: in XLA's order.
        hlo_sharding: XLA's HloSharding.
    """

    __slots__ = ("_devices", "_hlo")

    def __init__(self, devices: Sequence[Any], hlo_sharding: Any) -> None:
        self._devices = tuple(devices)
        self._hlo = hlo_sharding

    @classmethod
    def get_replicated(cls, devices: Sequence[Any]) -> GSPMDSharding:
        """The whole array on each of the devices."""
        return cls(devices, compat.HloSharding.replicate())

    @property
    def devices(self) -> tuple[Any, ...]:
        return self._devices

    @property
    def is_fully_replicated(self) -> bool:
        return len(self._devices) == 1 or self._hlo.is_replicated()

    def hlo_sharding(self, ndim: int) -> Any:
        return self._hlo

    def _cuts(self, ndim: int) -> tuple[int, ...]:
        if self.is_fully_replicated:
            return (1,) * ndim
        return tuple(self._hlo.tile_assignment_dimensions()[:ndim])

    def _positions(self, ndim: int) -> np.ndarray:
        positions = np.zeros((len(self._devices), ndim), int)
        if self.is_fully_replicated:
            return positions
        dims = self._hlo.tile_assignment_dimensions()
        for place, device in enumerate(self._hlo.tile_assignment_devices()):
            positions[device] = np.unravel_index(place, dims)[:ndim]
        return positions

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is GSPMDSharding
            and self._devices == other._devices
            and self._hlo == other._hlo
        )

    def __hash__(self) -> int:
        return hash((GSPMDSharding, self._devices, str(self._hlo)))

    def __repr__(self) -> str:
        return f"GSPMDSharding({self._hlo!r}, {len(self._devices)} devices)"


def leading_axis_sharding(devices: Sequence[Any], axis: int = 0) -> NamedSharding:
    """The sharding of pmap's arguments and results: axis `axis` cut into one slice a device."""
    mesh = Mesh(np.array(devices, dtype=object), ("pmap",))
    return NamedSharding(mesh, P(*(None,) * axis, "pmap"))


# --------------------------------------------------------------------------- to C++ and back


@functools.lru_cache(maxsize=4096)
def to_xla(sharding: Sharding, ndim: int) -> Any:
    """The C++ sharding for arrays with `ndim` axes; it remembers ours."""
    if isinstance(sharding, SingleDeviceSharding):
        return compat.single_device_sharding(sharding._device)
    found = compat.gspmd_sharding(sharding.devices, sharding.hlo_sharding(ndim))
    found.pullback_sharding = sharding
    return found


def from_xla(xla_sharding: Any) -> Sharding:
    """Our sharding for one that an array carries."""
    try:
        return xla_sharding.pullback_sharding
    except AttributeError:
        ours: Sharding
        if isinstance(xla_sharding, compat.SingleDeviceSharding):
            ours = SingleDeviceSharding(xla_sharding._device)
        else:
            ours = GSPMDSharding(xla_sharding._devices, xla_sharding._hlo_sharding)
        xla_sharding.pullback_sharding = ours
        return ours


def _device_sharding_by_id(platform: str, device_id: int) -> SingleDeviceSharding:
    """What unpickling calls."""
    found = {d.id: d for d in client.devices(platform)}
    if device_id not in found:
        raise RuntimeError(f"device {device_id} of {platform} is not in this process")
    return SingleDeviceSharding(found[device_id])
