"""Collectives in StableHLO: groups of devices from the mesh that the program is lowered for.

Handed its context by xla/lowering.py, whose `axis_groups` say how mapped axes lie over the devices.
Tested in tests/lax/test_collective.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.aval import make_aval

_I32 = np.dtype(np.int32)


def device_groups(ctx: Any, names: Sequence[Any], index_groups: Any = None) -> list[list[int]]:
    """The groups of devices that differ only along the named axes.

    Raises:
        NameError: a name is not an axis of the mesh.
    """
    axes = ctx.module_context.axis_groups
    missing = [n for n in names if n not in axes]
    if missing:
        raise NameError(
            f"unbound axis name: {missing[0]!r}; the program is compiled for the axes "
            f"{list(axes)}.\nInstead: call the function under pmap or shard_map over that axis."
        )
    sizes = list(axes.values())
    positions = [list(axes).index(n) for n in names]
    grid = np.arange(int(np.prod(sizes))).reshape(sizes)
    rest = [i for i in range(len(sizes)) if i not in positions]
    rows = grid.transpose([*rest, *positions]).reshape(
        -1, int(np.prod([sizes[p] for p in positions]))
    )
    if index_groups is None:
        return rows.tolist()
    return [[row[i] for i in group] for row in rows.tolist() for group in index_groups]


def _channel(ctx: Any) -> dict[str, Any]:
    channel = ctx.hlo.ChannelHandle.get(ctx.module_context.new_channel(), 1)
    return {"channel_handle": channel, "use_global_device_ids": ctx.ir.BoolAttr.get(True)}


def _groups_attr(ctx: Any, names: Sequence[Any], index_groups: Any) -> tuple[Any, bool]:
    """The groups, and whether each is a single device (then there is nothing to do)."""
    groups = device_groups(ctx, names, index_groups)
    return ctx.i64_matrix(groups), len(groups[0]) == 1


def lower_reduce(op: str) -> Callable[..., list[Any]]:
    """The lowering of a reduction over devices by a StableHLO operation."""

    def rule(ctx: Any, *values: Any, axes: tuple, axis_index_groups: Any) -> list[Any]:
        groups, alone = _groups_attr(ctx, axes, axis_index_groups)
        if alone:
            return list(values)
        outs = []
        for x, aval in zip(values, ctx.avals_in, strict=True):
            node = ctx.hlo.AllReduceOp(
                [ctx.type(aval)], [x], replica_groups=groups, **_channel(ctx)
            )
            ctx.scalar_region(node.regions[0], getattr(ctx.hlo, op), aval.dtype)
            outs.append(node.results[0])
        return outs

    return rule


def lower_all_gather(
    ctx: Any,
    x: Any,
    *,
    axis_name: tuple,
    all_gather_dimension: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> Any:
    """The lowering of all_gather."""
    (aval,) = ctx.avals_in
    at = all_gather_dimension
    if not tiled:
        aval = make_aval((*aval.shape[:at], 1, *aval.shape[at:]), aval.dtype)
        x = ctx.hlo.reshape(ctx.type(aval), x)
    groups, alone = _groups_attr(ctx, axis_name, axis_index_groups)
    if alone:
        return x
    node = ctx.hlo.AllGatherOp(
        [ctx.type(ctx.aval_out)],
        [x],
        all_gather_dim=ctx.i64_attr(at),
        replica_groups=groups,
        **_channel(ctx),
    )
    return node.results[0]


def lower_reduce_scatter(
    ctx: Any,
    x: Any,
    *,
    axis_name: tuple,
    scatter_dimension: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> Any:
    """The lowering of psum_scatter."""
    (aval,) = ctx.avals_in
    at = scatter_dimension
    groups, alone = _groups_attr(ctx, axis_name, axis_index_groups)
    if not alone:
        shape = (*aval.shape[:at], aval.shape[at] // axis_size, *aval.shape[at + 1 :])
        node = ctx.hlo.ReduceScatterOp(
            ctx.type(make_aval(shape, aval.dtype)),
            x,
            scatter_dimension=ctx.i64_attr(at),
            replica_groups=groups,
            **_channel(ctx),
        )
        ctx.scalar_region(node.regions[0], ctx.hlo.add, aval.dtype)
        x = node.results[0]
    return x if tiled else ctx.hlo.reshape(ctx.type(ctx.aval_out), x)


def lower_all_to_all(
    ctx: Any,
    x: Any,
    *,
    axis_name: tuple,
    split_axis: int,
    concat_axis: int,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any,
) -> Any:
    """The lowering of all_to_all."""
    (aval,) = ctx.avals_in
    groups, alone = _groups_attr(ctx, axis_name, axis_index_groups)
    if not tiled:
        # The split axis is cut into single rows; put a new axis where the pieces are to go.
        shape = list(aval.shape)
        at = concat_axis if concat_axis < split_axis else concat_axis + 1
        shape.insert(at, 1)
        split = split_axis if at > split_axis else split_axis + 1
        x = ctx.hlo.reshape(ctx.type(make_aval(tuple(shape), aval.dtype)), x)
        concat = at
    else:
        split, concat = split_axis, concat_axis
    if not alone:
        channel = _channel(ctx)
        del channel["use_global_device_ids"]
        x = ctx.hlo.AllToAllOp(
            [x],
            split_dimension=ctx.i64_attr(split),
            concat_dimension=ctx.i64_attr(concat),
            split_count=ctx.i64_attr(axis_size),
            replica_groups=groups,
            **channel,
        ).results[0]
    return x if tiled else ctx.hlo.reshape(ctx.type(ctx.aval_out), x)


def lower_ppermute(ctx: Any, x: Any, *, axis_name: tuple, perm: tuple) -> Any:
    """The lowering of ppermute."""
    groups = device_groups(ctx, axis_name)
    n = len(groups[0])
    if any(not 0 <= i < n for pair in perm for i in pair):
        raise ValueError(f"ppermute: perm {list(perm)} names instances outside 0 to {n - 1}.")
    pairs = [[group[src], group[dst]] for group in groups for src, dst in perm]
    if not pairs:
        return ctx.const(np.zeros((), ctx.aval_out.dtype), ctx.aval_out)
    if n == 1:
        return x
    channel = _channel(ctx)["channel_handle"]
    return ctx.hlo.collective_permute(
        x, source_target_pairs=ctx.i64_matrix(pairs), channel_handle=channel
    )


def _index_by_sum(ctx: Any, axis_name: tuple, size: int) -> Any:
    """A device's coordinate where the compiler cuts along other axes, and so has no device number.

    Every device gets one element of the sum of 0, 1, 2 ... over all of them.
    """
    groups, alone = _groups_attr(ctx, axis_name, None)
    if alone:
        return ctx.const(np.int32(0))
    numbers = ctx.hlo.iota(ctx.type(make_aval((size,), _I32)), ctx.i64_attr(0))
    node = ctx.hlo.ReduceScatterOp(
        ctx.type(make_aval((1,), _I32)),
        numbers,
        scatter_dimension=ctx.i64_attr(0),
        replica_groups=groups,
        **_channel(ctx),
    )
    ctx.scalar_region(node.regions[0], ctx.hlo.add, _I32)
    total = ctx.hlo.reshape(ctx.type(make_aval((), _I32)), node.results[0])
    return ctx.hlo.divide(total, ctx.const(np.int32(size)))


def lower_axis_index(ctx: Any, *, axis_name: tuple) -> Any:
    """The lowering of axis_index: this device's coordinate along a mesh axis."""
    axes = ctx.module_context.axis_groups
    device_groups(ctx, axis_name)
    names = list(axes)
    at = names.index(axis_name[0])
    inner = int(np.prod([axes[n] for n in names[at + 1 :]], initial=1))
    size = axes[axis_name[0]]
    if int(np.prod(list(axes.values()))) == 1:
        return ctx.const(np.int32(0))
    if ctx.module_context.partly_manual:
        return _index_by_sum(ctx, axis_name, size)
    device = ctx.hlo.partition_id()
    u32 = make_aval((), np.dtype(np.uint32))
    index = ctx.hlo.divide(device, ctx.const(np.uint32(inner), u32))
    index = ctx.hlo.remainder(index, ctx.const(np.uint32(size), u32))
    return ctx.hlo.convert(ctx.type(make_aval((), _I32)), index)
