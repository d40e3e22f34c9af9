"""Shardings and meshes: an index."""

# ruff: noqa: F401

from pullback.xla.mesh import AbstractMesh, AxisType, Mesh, PartitionSpec, set_mesh
from pullback.xla.sharding import (
    GSPMDSharding,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
)
