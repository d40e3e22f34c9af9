"""Meshes of devices with named axes, and the specs that name them.

Builds on xla/client and xla/compat. Tested in tests/xla/test_sharding.py.
"""

from __future__ import annotations

import collections
import enum
import functools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.xla import client, compat


class AxisType(enum.Enum):
    """Who decides how arrays lie along a mesh axis: compiler, types, or the program itself."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class _Unconstrained:
    """The entry of a spec that leaves an axis to the compiler."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """For each leading axis of an array the mesh axis that cuts it: name, names, or None.

    Example:
        >>> P("data", None, ("x", "y"))
        P('data', None, ('x', 'y'))
    """

    __slots__ = ("_parts",)

    UNCONSTRAINED = UNCONSTRAINED

    def __init__(self, *parts: Any) -> None:
        self._parts = tuple(_canonical_part(p) for p in parts)

    def mesh_axes(self) -> tuple[tuple[Any, ...], ...]:
        """For each entry the mesh axes in it, major first."""
        return tuple(
            p if isinstance(p, tuple) else () if p is None or p is UNCONSTRAINED else (p,)
            for p in self._parts
        )

    def __iter__(self) -> Any:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, i: Any) -> Any:
        return self._parts[i]

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self._parts, *other)

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash((PartitionSpec, self._parts))

    def __repr__(self) -> str:
        return f"P{self._parts!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionSpec, self._parts


P = PartitionSpec


def _canonical_part(part: Any) -> Any:
    if isinstance(part, list | tuple):
        parts = tuple(part)
        return parts[0] if len(parts) == 1 else parts or None
    return part


def _types_for(types: AxisType | Sequence[AxisType] | None, n_axes: int) -> tuple[AxisType, ...]:
    """One type an axis; all Auto for None."""
    if types is None or isinstance(types, AxisType):
        return (types or AxisType.Auto,) * n_axes
    return tuple(types)


class Mesh:
    """Devices in a grid whose axes have names; compared by value; `with mesh:` makes it current.

    Args:
        devices: array (or nested list) of devices.
        axis_names: one name an axis.
        axis_types: one AxisType an axis; Auto where left out.

    Raises:
        ValueError: as many names as axes are needed, each once.
    """

    __slots__ = ("_hash", "axis_names", "axis_types", "devices", "flat_devices", "shape")

    def __init__(
        self,
        devices: Any,
        axis_names: str | Sequence[Any],
        axis_types: AxisType | Sequence[AxisType] | None = None,
    ) -> None:
        grid = np.array(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if grid.ndim != len(names):
            raise ValueError(
                f"Mesh: the devices have {grid.ndim} axes (shape {grid.shape}) but there are "
                f"{len(names)} names {names}"
            )
        if len(set(names)) != len(names):
            raise ValueError(f"Mesh: an axis name stands twice in {names}")
        types = _types_for(axis_types, len(names))
        if len(types) != len(names):
            raise ValueError(f"Mesh: {len(types)} axis types for the {len(names)} axes {names}")
        grid.flags.writeable = False
        self.devices = grid
        self.axis_names = names
        self.axis_types = types
        self.shape = collections.OrderedDict(zip(names, grid.shape, strict=True))
        self.flat_devices = tuple(grid.flat)
        self._hash = hash((self.flat_devices, names, grid.shape, types))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.devices.shape

    @property
    def size(self) -> int:
        """How many devices there are."""
        return len(self.flat_devices)

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return not self.flat_devices

    @property
    def device_ids(self) -> np.ndarray:
        """The devices' ids in the grid."""
        return np.vectorize(lambda d: d.id, otypes=[int])(self.devices)

    @property
    def local_devices(self) -> list[Any]:
        """Those of this process."""
        return [d for d in self.flat_devices if d.process_index == d.client.process_index()]

    @property
    def local_mesh(self) -> Mesh:
        """The mesh of this process's devices (itself, where one process works alone)."""
        mine = np.vectorize(lambda d: d.process_index == d.client.process_index(), otypes=[bool])
        own = mine(self.devices)
        if own.all():
            return self
        corners = [
            np.flatnonzero(own.any(tuple(set(range(own.ndim)) - {k}))) for k in range(own.ndim)
        ]
        return Mesh(self.devices[np.ix_(*corners)], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether devices of another process are in it."""
        return len(self.local_devices) != self.size

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """Its shape and names without the devices."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    def update(self, **changes: Any) -> Mesh:
        """The mesh with some of devices, axis_names, axis_types replaced."""
        get = changes.get
        return Mesh(
            get("devices", self.devices),
            get("axis_names", self.axis_names),
            get("axis_types", self.axis_types),
        )

    def __enter__(self) -> Mesh:
        stack = _mesh_stack()
        stack.append(_current_mesh.swap_local(self))
        return self

    def __exit__(self, *exc: Any) -> None:
        _current_mesh.set_local(_mesh_stack().pop())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Mesh)
            and self._hash == other._hash
            and self.shape == other.shape
            and self.axis_names == other.axis_names
            and self.axis_types == other.axis_types
            and self.flat_devices == other.flat_devices
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape.items())
        return f"Mesh({sizes}, axis_types={self.axis_types})"

    def __repr__(self) -> str:
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        platform = self.flat_devices[0].platform if self.flat_devices else "cpu"
        return _mesh_by_ids, (platform, self.device_ids, self.axis_names, self.axis_types)


class AbstractMesh:
    """A mesh's axis sizes and names, without devices; enough to trace and to write a spec."""

    __slots__ = ("axis_names", "axis_sizes", "axis_types")

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: Sequence[Any],
        axis_types: AxisType | Sequence[AxisType] | None = None,
    ) -> None:
        self.axis_sizes = tuple(axis_sizes)
        self.axis_names = tuple(axis_names)
        self.axis_types = _types_for(axis_types, len(self.axis_names))
        if not len(self.axis_sizes) == len(self.axis_names) == len(self.axis_types):
            raise ValueError(
                f"AbstractMesh: sizes {self.axis_sizes}, names {self.axis_names} and types "
                f"{self.axis_types} must be equally many"
            )

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        """Axis name to size."""
        return collections.OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """How many devices it stands for."""
        return int(np.prod(self.axis_sizes))

    @property
    def empty(self) -> bool:
        """Whether it has no axis."""
        return not self.axis_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.axis_sizes, self.axis_names, self.axis_types

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape.items())
        return f"AbstractMesh({sizes}, axis_types={self.axis_types})"


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any],
    *,
    devices: Iterable[Any] | None = None,
    axis_types: AxisType | Sequence[AxisType] | None = None,
) -> Mesh:
    """A mesh of this shape from the first devices there are (or from `devices`).

    Raises:
        ValueError: fewer devices than the shape needs.
    """
    shape = tuple(axis_shapes)
    n_wanted = int(np.prod(shape, dtype=int))
    found = list(client.devices() if devices is None else devices)
    if len(found) < n_wanted:
        raise ValueError(
            f"a mesh of shape {shape} needs {n_wanted} devices, and there are {len(found)}; "
            f"on the CPU ask for more before the first array: set_cpu_device_count({n_wanted})"
        )
    grid = np.empty(n_wanted, dtype=object)
    grid[:] = found[:n_wanted]
    return Mesh(grid.reshape(shape), axis_names, axis_types)


# --------------------------------------------------------------------------- the current mesh

# In the dispatcher's key: under another mesh the same call may compile to another program.
_current_mesh = compat.make_config("pullback_mesh", None, in_jit_key=True)
_thread = threading.local()


def _mesh_stack() -> list[Any]:
    try:
        return _thread.stack
    except AttributeError:
        _thread.stack = []
        return _thread.stack


def current_mesh() -> Mesh | None:
    """The mesh of the innermost `with mesh:` (or of `set_mesh`), or None."""
    return _current_mesh.value


class set_mesh:  # noqa: N801 (JAX's name; function and context manager in one)
    """Make a mesh current in this thread: for good, or as `with set_mesh(mesh):` for a block."""

    __slots__ = ("_before",)

    def __init__(self, mesh: Mesh | None) -> None:
        self._before = _current_mesh.swap_local(mesh)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        _current_mesh.set_local(self._before)


@functools.cache
def _devices_by_id(platform: str) -> dict[int, Any]:
    return {d.id: d for d in client.devices(platform)}


def _mesh_by_ids(platform: str, ids: np.ndarray, names: Any, types: Any) -> Mesh:
    """What unpickling calls."""
    known = _devices_by_id(platform)
    missing = [int(i) for i in ids.flat if int(i) not in known]
    if missing:
        raise RuntimeError(
            f"the mesh has devices {missing} of {platform}, which are not in this process"
        )
    grid = np.empty(ids.shape, dtype=object)
    for place, i in np.ndenumerate(ids):
        grid[place] = known[int(i)]
    return Mesh(grid, names, types)
