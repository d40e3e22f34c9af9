"""`shard_map`: a function run by every device of a mesh on its part of the arguments.

Builds on lax/spmd.py. Tested in tests/api/test_shard_map.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from pullback.core import pytree
from pullback.core.aval import ShapedArray, typeof
from pullback.core.config import config
from pullback.core.source import api_boundary
from pullback.core.tracer import state
from pullback.lax.inner import TracedFunction, function_name, is_traced, leaf_paths, trace_function
from pullback.lax.spmd import local_aval, mesh_axes, shard_map_p, spec_axes
from pullback.lax.varying import varying_axes
from pullback.xla.mesh import Mesh, P, PartitionSpec, current_mesh

_TRACE_LIMIT = 256


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec)


def _check_specs(specs: Any, what: str, mesh: Mesh, manual: tuple[Any, ...]) -> None:
    for spec in pytree.tree_leaves(specs, is_leaf=lambda x: _is_spec(x) or x is None):
        if not _is_spec(spec):
            raise TypeError(
                f"shard_map: {what} must be a pytree of PartitionSpec, but it holds {spec!r:.60}.\n"
                "Instead: write P('axis'), or P() for a value that every device has whole."
            )
        unknown = spec_axes(spec) - set(mesh.axis_names)
        if unknown:
            raise ValueError(
                f"shard_map: {what} names {sorted(map(str, unknown))}, but the mesh has the axes "
                f"{mesh.axis_names}."
            )
        automatic = spec_axes(spec) - set(manual)
        if automatic:
            raise ValueError(
                f"shard_map: {what} must name mapped axes only ({', '.join(map(repr, manual))}), "
                f"but {spec} names {sorted(map(str, automatic))}, which the compiler cuts.\n"
                "Instead: add them to axis_names, or leave them out of the spec."
            )


def spread(prefix: Any, tree: Any, what: str) -> list[Any]:
    """A tree prefix (of specs or axes) as one entry per leaf of a structure."""
    try:
        return pytree.flatten_prefix(what, tree, prefix, lambda x: x is None or _is_spec(x))
    except ValueError as error:
        raise ValueError(
            f"{what} must be a pytree prefix of the corresponding values: got {prefix}, and values "
            f"of structure {tree}."
        ) from error


def _check_part(path: str, aval: ShapedArray, mesh: Mesh, spec: PartitionSpec) -> None:
    if len(spec) > aval.ndim:
        raise ValueError(
            f"shard_map: {path} has rank {aval.ndim} ({aval.str_short()}) but its spec {spec} has "
            f"{len(spec)} entries."
        )
    for i, axes in enumerate(spec.mesh_axes()):
        n = prod(mesh.shape[a] for a in axes)
        if aval.shape[i] % n:
            raise ValueError(
                f"shard_map: axis {i} of {path} ({aval.str_short()}) has size {aval.shape[i]}, "
                f"which is not divisible by the {n} devices of mesh axis {axes}."
            )


class ShardMapped:
    """What `shard_map` gives."""

    def __init__(
        self,
        fun: Callable[..., Any],
        mesh: Mesh,
        manual: tuple[Any, ...],
        in_specs: Any,
        out_specs: Any,
        check: bool,
    ) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.mesh = mesh
        self.manual = manual
        self.in_specs = in_specs
        self.out_specs = out_specs
        self.check = check
        self._traces: dict[Any, tuple[TracedFunction, tuple]] = {}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @api_boundary
    def __call__(self, *args: Any) -> Any:
        leaves, tree = pytree.tree_flatten(args)
        avals = [typeof(x) for x in leaves]
        key = (tree, tuple(avals), state.axis_env, config.trace_key())
        entry = self._traces.get(key)
        if entry is None:
            entry = self._trace(tree, avals)
            if not is_traced(entry[0].consts) and len(self._traces) < _TRACE_LIMIT:
                self._traces[key] = entry
        traced, (in_specs, out_specs) = entry
        outs = shard_map_p.bind(
            *traced.consts,
            *leaves,
            jaxpr=traced.jaxpr,
            mesh=self.mesh,
            manual=self.manual,
            in_specs=(P(),) * len(traced.consts) + in_specs,
            out_specs=out_specs,
            check_vma=self.check,
        )
        return pytree.tree_unflatten(traced.out_tree, outs)

    def _trace(self, tree: Any, avals: Sequence[ShapedArray]) -> tuple[TracedFunction, tuple]:
        mesh = self.mesh
        in_specs = spread(self.in_specs, tree, "shard_map: in_specs")
        for path, aval, spec in zip(leaf_paths(tree, "args"), avals, in_specs, strict=True):
            _check_part(path, aval, mesh, spec)
        parts = [local_aval(a, mesh, s) for a, s in zip(avals, in_specs, strict=True)]
        with mesh_axes(mesh, self.manual):
            traced = trace_function(self.fun, tree, parts)
        out_specs = spread(self.out_specs, traced.out_tree, "shard_map: out_specs")
        paths = leaf_paths(traced.out_tree, "result")
        for path, aval, spec in zip(paths, traced.out_avals, out_specs, strict=True):
            if len(spec) > aval.ndim:
                raise ValueError(
                    f"shard_map: {path} of {function_name(self.fun)} has rank {aval.ndim} "
                    f"({aval.str_short()}) but its spec {spec} has {len(spec)} entries."
                )
        if self.check:
            self._check_replication(traced, in_specs, out_specs, paths)
        return traced, (tuple(in_specs), tuple(out_specs))

    def _check_replication(
        self, traced: TracedFunction, in_specs: Any, out_specs: Any, paths: list[str]
    ) -> None:
        given = [frozenset()] * len(traced.consts) + [frozenset(spec_axes(s)) for s in in_specs]
        found = varying_axes(traced.jaxpr, given)
        for path, axes, spec in zip(paths, found, out_specs, strict=True):
            extra = sorted(map(str, axes - spec_axes(spec)))
            if extra:
                raise ValueError(
                    f"shard_map applied to the function {function_name(self.fun)!r} was given "
                    f"out_specs which require replication which can't be statically inferred: "
                    f"{path} has the spec {spec}, but may differ along the mesh axes {extra}.\n"
                    f"Instead: name them in the spec, reduce over them (lax.psum, lax.pmean), or "
                    "pass check_vma=False if the values are known to agree."
                )


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    mesh: Mesh | None = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
    check_rep: bool | None = None,
) -> Any:
    """A function run by every device of a mesh on its part of the arguments.

    Inside, the mesh's axis names serve collectives such as `lax.psum`. A derivative taken inside is
    of the sum over all devices' results, as under pmap; one taken outside is the ordinary one.

    Args:
        f: function of one device's parts; without it, a decorator is returned.
        mesh: the devices; the current mesh by default.
        in_specs: pytree prefix of the arguments: which mesh axis cuts which array axis.
        out_specs: the same for the results, whose parts are put together so.
        axis_names: mesh axes to map over; all of them if it is empty. Along the others the
            function sees whole arrays, which the compiler cuts as it likes (under jit).
        check_vma: refuse specs that call a result the same on devices where it may differ.
        check_rep: the older name of `check_vma`.

    Returns:
        A function of whole arrays.

    Raises:
        ValueError: an axis cannot be cut into equal parts, or a spec does not fit.

    Example:
        >>> import pullback as jax
        >>> from pullback import lax, numpy as jnp
        >>> mesh = jax.make_mesh((1,), ("i",))
        >>> f = jax.shard_map(lambda x: lax.psum(x, "i"), mesh, jax.P("i"), jax.P())
        >>> f(jnp.arange(3.0))
        Array([0., 1., 2.], dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=axis_names,
            check_vma=check_vma,
            check_rep=check_rep,
        )
    if not callable(f):
        raise TypeError(f"shard_map: the first argument must be a function, got {f!r:.60}.")
    mesh = mesh if mesh is not None else current_mesh()
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"shard_map: mesh must be a Mesh, got {mesh!r:.60}.\n"
            "Instead: pass mesh=jax.make_mesh(...), or call it inside `with jax.set_mesh(mesh):`."
        )
    wanted = {axis_names} if isinstance(axis_names, str) else set(axis_names)
    if wanted - set(mesh.axis_names):
        raise ValueError(
            f"shard_map: axis_names={wanted} must be among the mesh's axes {mesh.axis_names}."
        )
    manual = tuple([n for n in mesh.axis_names if not wanted or n in wanted])
    _check_specs(in_specs, "in_specs", mesh, manual)
    _check_specs(out_specs, "out_specs", mesh, manual)
    check = check_vma if check_rep is None else check_rep
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    return ShardMapped(f, mesh, manual, in_specs, out_specs, check)
