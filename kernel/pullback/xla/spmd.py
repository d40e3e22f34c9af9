"""Programs that run on several devices at once: a jaxpr with a `shard_map` in it, over its mesh.

Inputs are laid out as the first `shard_map` that reads them wants them, results as XLA leaves them.
Builds on lowering.py, compile.py, transfer.py. Tested in tests/api/test_shard_map.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.aval import typeof
from pullback.core.config import config
from pullback.core.jaxpr import Jaxpr, Literal, inner_jaxprs
from pullback.xla import compat
from pullback.xla.array import Array
from pullback.xla.callbacks import run_to_end
from pullback.xla.compile import compile_module
from pullback.xla.lowering import lower_module
from pullback.xla.mesh import Mesh, P, PartitionSpec
from pullback.xla.sharding import GSPMDSharding, NamedSharding, Sharding, to_xla
from pullback.xla.transfer import device_put_sharded_array

SHARD_MAP = "shard_map"
MESH_SYMBOL = "mesh"


def find_mesh(jaxpr: Jaxpr) -> Mesh | None:
    """The mesh that a program's shard_maps run over; None if it has none.

    Raises:
        ValueError: there are two different meshes.
    """
    found = jaxpr.cache.get("mesh", False)
    if found is not False:
        return found
    found = None
    for eqn in jaxpr.eqns:
        meshes = [eqn.params["mesh"]] if eqn.primitive.name == SHARD_MAP else []
        meshes += [find_mesh(inner) for inner in inner_jaxprs(eqn.params)]
        for mesh in meshes:
            if mesh is None:
                continue
            if found is not None and mesh.flat_devices != found.flat_devices:
                raise ValueError(
                    f"one program runs over two sets of devices: {found} and {mesh}.\n"
                    "Instead: use one mesh, or call the parts outside of one jit."
                )
            found = found or mesh
    jaxpr.cache["mesh"] = found
    return found


def input_mesh(values: Sequence[Any]) -> Mesh | None:
    """The mesh that an argument is spread over; None if each lies on one device."""
    for x in values:
        if type(x) is Array and len(x._buf._sharding._internal_device_list) > 1:
            sharding = x.sharding
            if isinstance(sharding, NamedSharding):
                return sharding.mesh
    return None


def named_sharding(hlo: Any, mesh: Mesh, ndim: int) -> Sharding:
    """A layout that XLA chose, by the mesh's axis names where it can be said so."""
    choices = itertools.product((None, *range(ndim)), repeat=len(mesh.axis_names))
    for choice in itertools.islice(choices, 4096):
        axes = [
            tuple(n for n, at in zip(mesh.axis_names, choice, strict=True) if at == dim)
            for dim in range(ndim)
        ]
        candidate = NamedSharding(mesh, P(*[a or None for a in axes]))
        if candidate.hlo_sharding(ndim) == hlo:
            return candidate
    return GSPMDSharding(mesh.flat_devices, hlo)


def sharding_text(mesh: Mesh, spec: PartitionSpec, ndim: int, *, is_open: bool = False) -> str:
    """A spec as Shardy writes it; mesh axes are called by their numbers.

    Args:
        mesh: the devices.
        spec: which mesh axis cuts which array axis.
        ndim: rank of the array.
        is_open: whether the compiler may cut axes along further mesh axes.
    """
    names = list(mesh.axis_names)
    parts = NamedSharding(mesh, spec).axes_of(ndim)
    more = ["?"] if is_open else []
    texts = [", ".join([f'"a{names.index(n)}"' for n in axes] + more) for axes in parts]
    dims = ", ".join("{" + text + "}" for text in texts)
    return f"<@{MESH_SYMBOL}, [{dims}]>"


def mesh_text(mesh: Mesh) -> str:
    """A mesh as Shardy writes it."""
    axes = ", ".join(f'"a{i}"={n}' for i, n in enumerate(mesh.axis_sizes))
    return f"#sdy.mesh<[{axes}]>"


def _wanted_specs(jaxpr: Jaxpr) -> list[PartitionSpec]:
    """Per invar the spec of the first shard_map that reads it."""
    wanted: dict[Any, PartitionSpec] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == SHARD_MAP:
            for var, spec in zip(eqn.invars, eqn.params["in_specs"], strict=True):
                if type(var) is not Literal:
                    wanted.setdefault(var, spec)
    return [wanted.get(v, P()) for v in jaxpr.invars]


def _result_shardings(jaxpr: Jaxpr, mesh: Mesh) -> list[NamedSharding | None]:
    """Per outvar the sharding that a shard_map gives it; None where XLA decides."""
    given: dict[Any, PartitionSpec] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == SHARD_MAP:
            given.update(zip(eqn.outvars, eqn.params["out_specs"], strict=True))
    return [
        NamedSharding(mesh, given[v]) if type(v) is not Literal and v in given else None
        for v in jaxpr.outvars
    ]


class SpmdProgram:
    """A jaxpr compiled for the devices of a mesh, with where its inputs and results lie."""

    __slots__ = ("executable", "handlers", "in_shardings", "to_end")

    def __init__(self, jaxpr: Jaxpr, mesh: Mesh, in_shardings: list[Sharding], name: str) -> None:
        lowered = lower_module(
            jaxpr, name, platform=mesh.flat_devices[0].platform, num_partitions=mesh.size
        )
        out_shardings = _result_shardings(jaxpr, mesh)
        _annotate(lowered.module, jaxpr, mesh, in_shardings, out_shardings)
        self.in_shardings = in_shardings
        # Devices of the CPU share one pool of threads: several programs with collectives in flight
        # can wait for each other's threads for ever (XLA then ends the process), so each run is
        # waited for. Seen with jax 0.10.2 and 200 calls in a row on 2 cores, December 2026.
        shared_threads = mesh.size > 1 and mesh.flat_devices[0].platform == "cpu"
        self.to_end = bool(lowered.callbacks) or shared_threads
        self.executable = compile_module(
            lowered.module,
            name=name,
            devices=mesh.flat_devices,
            num_partitions=mesh.size,
            callbacks=lowered.callbacks,
        )
        found = self.executable.loaded.get_output_shardings()
        self.handlers = []
        for i, aval in enumerate(jaxpr.out_avals):
            sharding: Sharding | None = out_shardings[i]
            if sharding is None:
                hlo = found[i] if found else compat.HloSharding.replicate()
                if not isinstance(hlo, compat.HloSharding):
                    hlo = compat.HloSharding.from_proto(hlo)
                sharding = named_sharding(hlo, mesh, aval.ndim)
            self.handlers.append(compat.result_handler(aval, to_xla(sharding, aval.ndim), True))

    def __call__(self, values: Sequence[Any]) -> list[Array]:
        bufs = []
        for x, sharding in zip(values, self.in_shardings, strict=True):
            array = x if isinstance(x, Array) else np.asarray(x, typeof(x).dtype)
            bufs.append(device_put_sharded_array(array, sharding)._buf)
        if self.to_end:
            outs = run_to_end(self.executable.loaded.execute_sharded, bufs, self.handlers)
        else:
            outs = self.executable.execute(bufs, self.handlers)
        return [Array(b) for b in outs]


def _annotate(
    module: Any,
    jaxpr: Jaxpr,
    mesh: Mesh,
    in_shardings: Sequence[Sharding],
    out_shardings: Sequence[NamedSharding | None],
) -> None:
    """Write how inputs and results lie onto the module's main function."""
    if mesh.size == 1:
        return
    ir = compat.mlir().ir
    with compat.mlir_context(), ir.Location.unknown():
        ensure_mesh(module, mesh)
        main = next(
            op
            for op in module.body.operations
            if "sym_name" in op.attributes and op.attributes["sym_name"].value == "main"
        )

        def attribute(sharding: Any, ndim: int) -> Any:
            text = "#sdy.sharding" + sharding_text(mesh, sharding.spec, ndim)
            return ir.DictAttr.get({"sdy.sharding": ir.Attribute.parse(text)})

        main.arg_attrs = ir.ArrayAttr.get(
            [attribute(s, v.aval.ndim) for s, v in zip(in_shardings, jaxpr.invars, strict=True)]
        )
        main.attributes["res_attrs"] = ir.ArrayAttr.get(
            [
                ir.DictAttr.get({}) if s is None else attribute(s, a.ndim)
                for s, a in zip(out_shardings, jaxpr.out_avals, strict=True)
            ]
        )
        module.operation.verify()


def ensure_mesh(module: Any, mesh: Mesh) -> None:
    """Declare the mesh at the head of a module, once."""
    m = compat.mlir()
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            return
    with m.ir.InsertionPoint.at_block_begin(module.body):
        m.sdy.MeshOp(MESH_SYMBOL, m.ir.Attribute.parse(mesh_text(mesh)))


def run_spmd(jaxpr: Jaxpr, values: Sequence[Any], mesh: Mesh, name: str = "") -> list[Array]:
    """Run a jaxpr (without constvars) over the devices of its mesh.

    Args:
        jaxpr: the program.
        values: arrays; those that do not lie on the mesh are put there.
        mesh: its devices.
        name: for reports.
    """
    wanted = jaxpr.cache.get("wanted_specs")
    if wanted is None:
        wanted = [NamedSharding(mesh, s) for s in _wanted_specs(jaxpr)]
        jaxpr.cache["wanted_specs"] = wanted
    shardings: list[Sharding] = []
    for x, want in zip(values, wanted, strict=True):
        now = x.sharding if isinstance(x, Array) else None
        keep = isinstance(now, NamedSharding) and now.mesh == mesh and x.committed
        shardings.append(now if keep else want)  # type: ignore[arg-type]
    key = ("spmd", tuple(shardings), config.trace_key())
    program = jaxpr.cache.get(key)
    if program is None:
        label = name or jaxpr.debug_name or SHARD_MAP
        program = jaxpr.cache[key] = SpmdProgram(jaxpr, mesh, shardings, label)
    return program(values)
