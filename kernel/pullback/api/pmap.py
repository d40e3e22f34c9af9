"""`pmap`: a function run on several devices at once, each with one slice of the arguments.

A shard_map over a mesh with one axis, around the function on single slices.
Builds on lax/spmd.py. Tested in tests/api/test_pmap.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.shard_map import spread
from pullback.core import pytree
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.config import config
from pullback.core.jaxpr import Jaxpr, close
from pullback.core.source import api_boundary
from pullback.core.stage import trace_to_jaxpr
from pullback.core.tracer import state
from pullback.lax.inner import function_name, intern_jaxpr, is_traced, leaf_paths
from pullback.lax.shape import expand_dims, squeeze
from pullback.lax.spmd import mesh_axes, shard_map_p
from pullback.xla import client
from pullback.xla.mesh import Mesh, P

_TRACE_LIMIT = 256


class _Unnamed:
    """The mesh axis of a pmap without axis_name."""

    def __repr__(self) -> str:
        return "pmap_axis"


_UNNAMED = _Unnamed()


def _spec(name: Any, axis: int | None) -> P:
    return P() if axis is None else P(*(None,) * axis, name)


class PmapFunction:
    """What `pmap` gives."""

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.name = options["axis_name"] if options["axis_name"] is not None else _UNNAMED
        self.in_axes = options["in_axes"]
        self.out_axes = options["out_axes"]
        self.static = options["static"]
        self.devices = options["devices"]
        self.backend = options["backend"]
        self.axis_size = options["axis_size"]
        self._traces: dict[Any, Any] = {}
        self._meshes: dict[tuple, Mesh] = {}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        static = {i % len(args): args[i] for i in self.static} if args else {}
        dynamic = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, tree = pytree.tree_flatten((dynamic, kwargs))
        avals = tuple([typeof(x) for x in leaves])
        axes = self._in_axes(args, static, kwargs, tree, avals)
        size = self._size(tree, avals, axes)
        mesh = self._mesh(size)
        key = (tree, avals, axes, tuple(static.items()), mesh, state.axis_env, config.trace_key())
        entry = self._traces.get(key)
        if entry is None:
            entry = self._trace(tree, avals, axes, static, mesh)
            if not is_traced(entry[1]) and len(self._traces) < _TRACE_LIMIT:
                self._traces[key] = entry
        jaxpr, consts, out_tree, out_axes = entry
        outs = shard_map_p.bind(
            *consts,
            *leaves,
            jaxpr=jaxpr,
            mesh=mesh,
            manual=mesh.axis_names,
            in_specs=(P(),) * len(consts) + tuple([_spec(self.name, a) for a in axes]),
            out_specs=tuple([_spec(self.name, a) for a in out_axes]),
            check_vma=False,
        )
        return pytree.tree_unflatten(out_tree, outs)

    def _in_axes(
        self, args: tuple, static: dict, kwargs: dict, tree: Any, avals: Sequence[ShapedArray]
    ) -> tuple[int | None, ...]:
        in_axes = self.in_axes
        if isinstance(in_axes, tuple | list):
            if len(in_axes) != len(args):
                raise ValueError(
                    f"pmap in_axes must be an int, None, or a tuple of one entry per positional "
                    f"argument: got {len(in_axes)} entries for {len(args)} arguments."
                )
            in_axes = tuple(a for i, a in enumerate(in_axes) if i not in static)
        args_tree, kwargs_tree = pytree.treedef_children(tree)
        found = spread(in_axes, args_tree, "pmap in_axes") + [0] * kwargs_tree.num_leaves
        axes = []
        for path, aval, axis in zip(leaf_paths(tree), avals, found, strict=True):
            if axis is not None and not -aval.ndim <= axis < aval.ndim:
                raise ValueError(
                    f"pmap was requested to map argument {path} ({aval.str_short()}) along axis "
                    f"{axis}, but it has rank {aval.ndim}.\nInstead: pass in_axes=None for values "
                    "that every device gets whole."
                )
            axes.append(None if axis is None else axis % aval.ndim)
        return tuple(axes)

    def _size(self, tree: Any, avals: Sequence[ShapedArray], axes: Sequence[int | None]) -> int:
        sizes = {
            path: aval.shape[axis]
            for path, aval, axis in zip(leaf_paths(tree), avals, axes, strict=True)
            if axis is not None
        }
        if not sizes and self.axis_size is None:
            raise ValueError(
                f"pmap wrapped function {function_name(self.fun)} must be passed at least one "
                "argument with an axis to map, or axis_size."
            )
        distinct = set(sizes.values()) | ({self.axis_size} if self.axis_size else set())
        if len(distinct) > 1:
            found = ", ".join(f"{path} has {n}" for path, n in list(sizes.items())[:6])
            raise ValueError(
                f"pmap got inconsistent sizes for array axes to be mapped: {found}"
                + (f"; axis_size is {self.axis_size}" if self.axis_size else "")
            )
        return distinct.pop()

    def _mesh(self, size: int) -> Mesh:
        devices = self.devices or client.local_devices(backend=self.backend)
        if self.devices and size != len(self.devices):
            raise ValueError(
                f"Leading axis size of input to pmapped function must equal the number of devices "
                f"passed to pmap. Got axis size {size} and {len(self.devices)} devices."
            )
        if size > len(devices):
            raise ValueError(
                f"compiling computation that requires {size} logical devices, but only "
                f"{len(devices)} XLA devices are available: the mapped axis has size {size}.\n"
                f"Instead: use vmap, map slices of at most {len(devices)}, or let the CPU show "
                f"more devices: jax.config.update('jax_num_cpu_devices', {size}) before first use."
            )
        chosen = tuple(devices[:size])
        mesh = self._meshes.get(chosen)
        if mesh is None:
            mesh = self._meshes[chosen] = Mesh(np.array(chosen, dtype=object), (self.name,))
        return mesh

    def _trace(
        self,
        tree: Any,
        avals: Sequence[ShapedArray],
        axes: Sequence[int | None],
        static: dict,
        mesh: Mesh,
    ) -> tuple[Jaxpr, list[Any], Any, tuple]:
        parts = [
            a if axis is None else make_aval(_one_row(a.shape, axis), a.dtype, a.weak_type)
            for a, axis in zip(avals, axes, strict=True)
        ]
        found: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            rows = [
                x if axis is None else squeeze(x, (axis,))
                for x, axis in zip(leaves, axes, strict=True)
            ]
            dynamic, kwargs = pytree.tree_unflatten(tree, rows)
            rest = iter(dynamic)
            n = len(dynamic) + len(static)
            full = [static[i] if i in static else next(rest) for i in range(n)]
            outs, out_tree = pytree.tree_flatten(self.fun(*full, **kwargs))
            out_axes = spread(self.out_axes, out_tree, "pmap out_axes")
            out_axes = [
                None if a is None else a % (typeof(o).ndim + 1)
                for a, o in zip(out_axes, outs, strict=True)
            ]
            found[:] = [out_tree, tuple(out_axes)]
            return [
                o if a is None else expand_dims(o, (a,))
                for o, a in zip(outs, out_axes, strict=True)
            ]

        with mesh_axes(mesh, mesh.axis_names):
            jaxpr, consts = trace_to_jaxpr(flat, parts, name=function_name(self.fun))
        return intern_jaxpr(close(jaxpr)), consts, found[0], found[1]


def _one_row(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
    global_arg_shapes: Any = None,
) -> Any:
    """A function run on several devices at once, each with one slice of the arguments.

    Args:
        fun: function of single slices.
        axis_name: a name of the mapped axis, for collectives.
        in_axes: per argument (a pytree prefix) the axis to map, None for what every device gets.
        out_axes: per result the axis along which the devices' results are stacked.
        static_broadcasted_argnums: positions of arguments that are constants, compared by value.
        devices: which devices to use, one a slice; the first local ones by default.
        backend: the platform whose devices are used.
        axis_size: the size of the mapped axis, if no argument tells.
        donate_argnums: accepted for compatibility; the memory of arguments is not reused.
        global_arg_shapes: no longer meaningful; must be None.

    Returns:
        A function whose results lie on the devices.

    Raises:
        ValueError: there are fewer devices than slices, or mapped sizes differ.

    Example:
        >>> import pullback as jax
        >>> from pullback import numpy as jnp
        >>> jax.pmap(lambda x: x + 1)(jnp.zeros((1, 2)))
        Array([[1., 1.]], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"pmap: the first argument must be a function, got {fun!r:.60}.")
    if global_arg_shapes is not None:
        raise ValueError("global_arg_shapes only makes sense with pmap over jagged hosts: omit it.")
    numbers = static_broadcasted_argnums
    return PmapFunction(
        fun,
        {
            "axis_name": axis_name,
            "in_axes": in_axes,
            "out_axes": out_axes,
            "static": (numbers,) if isinstance(numbers, int) else tuple(numbers),
            "devices": None if devices is None else list(devices),
            "backend": backend,
            "axis_size": axis_size,
        },
    )
