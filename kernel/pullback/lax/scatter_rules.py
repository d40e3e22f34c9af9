"""What all scatters share: dimension numbers, checks, lowering, batching, reading back.

Builds on gather.py. Tested in tests/lax/test_scatter.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front
from pullback.core.tracer import Primitive
from pullback.lax.compare_select import clamp_p
from pullback.lax.families import shape_ops
from pullback.lax.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    gather_p,
    up,
    wide_indices,
)
from pullback.lax.operands import ints, shape_of, without


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and updates correspond in a scatter.

    Attributes:
        update_window_dims: axes of the updates that run over a window.
        inserted_window_dims: operand axes of window size 1 that the updates do not have.
        scatter_dims_to_operand_dims: per entry of an index vector, the operand axis it indexes.
        operand_batching_dims: operand axes that go along with axes of the indices.
        scatter_indices_batching_dims: those axes of the indices.

    Source: StableHLO specification, scatter.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def window_sizes(
    dims: ScatterDimensionNumbers, ndim: int, updates: tuple[int, ...]
) -> tuple[int, ...]:
    """The size of a window on each operand axis."""
    fixed = (*dims.inserted_window_dims, *dims.operand_batching_dims)
    sizes = iter([updates[i] for i in dims.update_window_dims])
    return tuple([1 if i in fixed else next(sizes) for i in range(ndim)])


def check_scatter(
    name: str,
    x: ShapedArray,
    indices: ShapedArray,
    updates: tuple[int, ...],
    d: ScatterDimensionNumbers,
) -> None:
    """Check that shapes and dimension numbers of a scatter fit.

    Raises:
        TypeError: they do not.
    """

    def check(condition: bool, text: str) -> None:
        if not condition:
            raise errors.shape_error(
                f"{name}: {text}; got operand {x.str_short()}, indices {indices.str_short()}, "
                f"updates of shape {updates} and {d}."
            )

    check(dtypes.issubdtype(indices.dtype, np.integer), "indices must be integers")
    check(indices.ndim >= 1, "indices need a last axis of index vectors")
    check(
        len(d.scatter_dims_to_operand_dims) == indices.shape[-1],
        "scatter_dims_to_operand_dims must have one entry per entry of an index vector",
    )
    fixed = (*d.inserted_window_dims, *d.operand_batching_dims)
    check(
        len(set(fixed)) == len(fixed) and all(0 <= i < x.ndim for i in fixed),
        "inserted_window_dims and operand_batching_dims must be distinct operand axes",
    )
    check(
        len(d.update_window_dims) == x.ndim - len(fixed)
        and tuple(sorted(set(d.update_window_dims))) == tuple(d.update_window_dims)
        and all(0 <= i < len(updates) for i in d.update_window_dims),
        "update_window_dims must be increasing axes of the updates, one per kept operand axis",
    )
    check(
        without(updates, d.update_window_dims) == indices.shape[:-1],
        "the updates' other axes must have the sizes of the indices",
    )
    sizes = window_sizes(d, x.ndim, updates)
    check(
        all(s <= n or i in fixed for i, (s, n) in enumerate(zip(sizes, x.shape, strict=True))),
        "windows must fit into the operand",
    )
    check(
        len(d.operand_batching_dims) == len(d.scatter_indices_batching_dims)
        and all(
            x.shape[i] == indices.shape[j]
            for i, j in zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True)
        ),
        "batching axes of operand and indices must pair and have equal sizes",
    )


def clipped(
    indices: Any, shape: tuple[int, ...], updates: tuple[int, ...], d: ScatterDimensionNumbers
) -> Any:
    """Indices moved so that each window lies in the operand."""
    indices = wide_indices(indices)
    dtype = typeof(indices).dtype
    sizes = window_sizes(d, len(shape), updates)
    limits = [shape[i] - sizes[i] for i in d.scatter_dims_to_operand_dims]
    high = shape_ops.broadcast_to(np.asarray(limits).astype(dtype), shape_of(indices))
    return clamp_p.bind(np.zeros((), dtype)[()], indices, high)


def lower_scatter(
    ctx: Any,
    x: Any,
    indices: Any,
    updates: Any,
    params: dict[str, Any],
    body: Callable[..., Sequence[Any]],
) -> Any:
    """Write a StableHLO scatter whose region `body(ctx, old, update)` combines two scalars."""
    x_aval, i_aval, u_aval = ctx.avals_in
    d, mode = params["dimension_numbers"], params["mode"]
    if not u_aval.size or not x_aval.size:
        return x
    if mode is GatherScatterMode.CLIP:
        (indices,) = ctx.fun(
            lambda i: clipped(i, x_aval.shape, u_aval.shape, d), [indices], [i_aval]
        )
    numbers = ctx.hlo.ScatterDimensionNumbers.get(
        update_window_dims=list(d.update_window_dims),
        inserted_window_dims=list(d.inserted_window_dims),
        input_batching_dims=list(d.operand_batching_dims),
        scatter_indices_batching_dims=list(d.scatter_indices_batching_dims),
        scattered_dims_to_operand_dims=list(d.scatter_dims_to_operand_dims),
        index_vector_dim=i_aval.ndim - 1,
    )
    op = ctx.hlo.ScatterOp(
        [ctx.type(ctx.aval_out)],
        [x],
        indices,
        [updates],
        numbers,
        indices_are_sorted=ctx.ir.BoolAttr.get(params["indices_are_sorted"]),
        unique_indices=ctx.ir.BoolAttr.get(
            params["unique_indices"] and mode is not GatherScatterMode.CLIP
        ),
    )
    scalar = make_aval((), x_aval.dtype)
    ctx.region(op.regions[0], [scalar, scalar], body)
    return op.results[0]


def batch_scatter(
    prim: Primitive, axis: AxisData, args: Any, batch_dims: Any, params: dict[str, Any]
) -> tuple[Any, int]:
    """The batching rule of all scatters."""
    x, indices, updates = args
    dx, di, du = batch_dims
    d = params["dimension_numbers"]
    x = bdim_at_front(x, dx, axis.size)
    updates = bdim_at_front(updates, du, axis.size)
    new = ScatterDimensionNumbers(
        update_window_dims=up(d.update_window_dims),
        inserted_window_dims=up(d.inserted_window_dims),
        scatter_dims_to_operand_dims=up(d.scatter_dims_to_operand_dims),
        operand_batching_dims=up(d.operand_batching_dims),
        scatter_indices_batching_dims=tuple(d.scatter_indices_batching_dims),
    )
    if di is None:
        new = new._replace(update_window_dims=(0, *new.update_window_dims))
    else:
        indices = bdim_at_front(indices, di, axis.size)
        new = new._replace(
            operand_batching_dims=(0, *new.operand_batching_dims),
            scatter_indices_batching_dims=(0, *up(new.scatter_indices_batching_dims)),
        )
    return prim.bind(x, indices, updates, **{**params, "dimension_numbers": new}), 0


def read_updates(x: Any, indices: Any, updates_shape: tuple[int, ...], params: dict) -> Any:
    """What stands in `x` where a scatter of such updates writes; 0 where it is dropped."""
    d = params["dimension_numbers"]
    sizes = window_sizes(d, typeof(x).ndim, updates_shape)
    dims = GatherDimensionNumbers(
        offset_dims=tuple(d.update_window_dims),
        collapsed_slice_dims=tuple(d.inserted_window_dims),
        start_index_map=tuple(d.scatter_dims_to_operand_dims),
        operand_batching_dims=tuple(d.operand_batching_dims),
        start_indices_batching_dims=tuple(d.scatter_indices_batching_dims),
    )
    return gather_p.bind(
        x,
        indices,
        dimension_numbers=dims,
        slice_sizes=tuple([min(w, n) for w, n in zip(sizes, shape_of(x), strict=True)]),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode=params["mode"],
        fill_value=0,
    )


def scatter_params(
    name: str,
    dimension_numbers: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> dict[str, Any]:
    """The parameters of a scatter primitive out of what users write.

    Raises:
        ValueError: an unknown mode.
    """
    mode = GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.ONE_HOT:
        raise NotImplementedError(f"{name}: mode one_hot is not supported; use 'clip' or 'drop'.")
    return {
        "dimension_numbers": ScatterDimensionNumbers(*[ints(d) for d in dimension_numbers]),
        "indices_are_sorted": bool(indices_are_sorted),
        "unique_indices": bool(unique_indices),
        "mode": mode,
    }
