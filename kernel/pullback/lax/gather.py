"""Reading windows of an array at positions that are data: gather.

Builds on shape.py. Tested in tests/lax/test_gather.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, move_dim
from pullback.core.jvp import Zero, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval
from pullback.lax.compare_select import and_p, ge_p, le_p, select_n_p
from pullback.lax.convert import convert_element_type_p
from pullback.lax.elementwise import add_p
from pullback.lax.families import shape_ops
from pullback.lax.operands import canonical_axes, canonical_shape, ints, shape_of, without
from pullback.lax.reduce import reduce_and_p
from pullback.lax.shape import broadcast_in_dim_p, zeros
from pullback.lax.slice import concatenate


class GatherDimensionNumbers(NamedTuple):
    """Which axes of operand, indices and result correspond in a gather.

    Attributes:
        offset_dims: axes of the result that run over a window.
        collapsed_slice_dims: operand axes of window size 1 that the result does not have.
        start_index_map: per entry of an index vector, the operand axis that it indexes.
        operand_batching_dims: operand axes that go along with axes of the indices.
        start_indices_batching_dims: those axes of the indices.

    Source: StableHLO specification, gather.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(Enum):
    """What happens with windows that reach out of the operand.

    CLIP moves them inside; FILL_OR_DROP fills what a gather reads and drops what a scatter writes;
    PROMISE_IN_BOUNDS promises that there are none; ONE_HOT is a gather by matrix product.
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """The mode that a name or None (fill or drop) stands for.

        Raises:
            ValueError: an unknown mode.
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _MODES.get(mode) if mode is None or isinstance(mode, str) else None
        if found is None:
            raise ValueError(
                f"Unknown gather/scatter mode {mode!r}. Instead: use 'clip', 'fill', 'drop', "
                "'promise_in_bounds' or a lax.GatherScatterMode."
            )
        return found


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


def _window_axes(dims: GatherDimensionNumbers, ndim: int) -> tuple[int, ...]:
    """The operand axes that the result's offset axes run over."""
    return without(range(ndim), (*dims.collapsed_slice_dims, *dims.operand_batching_dims))


def _check(condition: bool, text: str, dims: Any, x: ShapedArray, indices: ShapedArray) -> None:
    if not condition:
        raise errors.shape_error(
            f"gather: {text}; got operand {x.str_short()}, "
            f"indices {indices.str_short()} and {dims}."
        )


def _gather_abstract(
    x: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    **params: Any,
) -> ShapedArray:
    d = dimension_numbers

    def check(condition: bool, text: str) -> None:
        _check(condition, text, (d, f"slice_sizes={slice_sizes}"), x, indices)

    check(dtypes.issubdtype(indices.dtype, np.integer), "indices must be integers")
    check(indices.ndim >= 1, "indices need a last axis of index vectors")
    check(len(slice_sizes) == x.ndim, "slice_sizes must have one entry per operand axis")
    check(
        all(0 <= s <= n for s, n in zip(slice_sizes, x.shape, strict=True)),
        "slice_sizes must be at most the operand's sizes",
    )
    check(
        len(d.start_index_map) == indices.shape[-1],
        "start_index_map must have one entry per entry of an index vector",
    )
    fixed = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    check(
        all(slice_sizes[i] <= 1 for i in fixed),
        "collapsed and batching axes must have slice size 1",
    )
    named = (*d.start_index_map, *d.operand_batching_dims)
    check(
        len(set(named)) == len(named) and all(0 <= i < x.ndim for i in named),
        "start_index_map and operand_batching_dims must be distinct operand axes",
    )
    check(
        len(d.operand_batching_dims) == len(d.start_indices_batching_dims)
        and all(
            x.shape[i] == indices.shape[j]
            for i, j in zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True)
        ),
        "batching axes of operand and indices must pair and have equal sizes",
    )
    window = [slice_sizes[i] for i in _window_axes(d, x.ndim)]
    ndim = len(window) + indices.ndim - 1
    check(
        len(window) == len(d.offset_dims)
        and tuple(sorted(set(d.offset_dims))) == d.offset_dims
        and all(0 <= i < ndim for i in d.offset_dims),
        "offset_dims must be increasing axes of the result, one per window axis that is kept",
    )
    windows, batch = iter(window), iter(indices.shape[:-1])
    shape = [next(windows) if i in d.offset_dims else next(batch) for i in range(ndim)]
    return make_aval(tuple(shape), x.dtype, x.weak_type)


def _gather_lower(
    ctx: Any,
    x: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> Any:
    if mode is GatherScatterMode.FILL_OR_DROP:
        return ctx.fun(
            lambda a, i: _filled(a, i, dimension_numbers, slice_sizes, fill_value),
            [x, indices],
        )[0]
    d = dimension_numbers
    numbers = ctx.hlo.GatherDimensionNumbers.get(
        offset_dims=list(d.offset_dims),
        collapsed_slice_dims=list(d.collapsed_slice_dims),
        operand_batching_dims=list(d.operand_batching_dims),
        start_indices_batching_dims=list(d.start_indices_batching_dims),
        start_index_map=list(d.start_index_map),
        index_vector_dim=ctx.avals_in[1].ndim - 1,
    )
    if not ctx.aval_out.size:
        return ctx.const(np.zeros((), ctx.aval_out.dtype), ctx.aval_out)
    return ctx.hlo.gather(
        x, indices, numbers, ctx.dims(slice_sizes), indices_are_sorted=indices_are_sorted
    )


def wide_indices(indices: Any) -> Any:
    """Indices of at least 32 bits, so that sizes can be compared with them."""
    dtype = typeof(indices).dtype
    if dtypes.itemsize_bits(dtype) < 32:
        return convert_element_type_p.bind(indices, new_dtype=np.dtype(np.int32), weak_type=False)
    return indices


def in_bounds(indices: Any, limits: Sequence[int]) -> Any:
    """Per index vector, whether each entry is between 0 and its limit."""
    indices = wide_indices(indices)
    dtype = typeof(indices).dtype
    low = np.zeros(len(limits), dtype)
    high = np.asarray(limits).astype(dtype)
    inside = and_p.bind(ge_p.bind(indices, low), le_p.bind(indices, high))
    return reduce_and_p.bind(inside, axes=(typeof(indices).ndim - 1,))


def _default_fill(dtype: Any) -> Any:
    if dtypes.is_inexact(dtype):
        return np.asarray(np.nan).astype(dtype)[()]
    if dtype == np.bool_:
        return np.True_
    info = dtypes.iinfo(dtype)
    low = dtypes.issubdtype(dtype, np.signedinteger)
    return np.asarray(info.min if low else info.max).astype(dtype)[()]


def _filled(
    x: Any, indices: Any, dims: GatherDimensionNumbers, slice_sizes: tuple, fill_value: Any
) -> Any:
    """A gather whose windows that reach out read the fill value."""
    shape, dtype = shape_of(x), typeof(x).dtype
    limits = [shape[i] - slice_sizes[i] for i in dims.start_index_map]
    read = gather_p.bind(
        x,
        indices,
        dimension_numbers=dims,
        slice_sizes=slice_sizes,
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )
    out_shape = shape_of(read)
    batch = without(range(len(out_shape)), dims.offset_dims)
    mask = broadcast_in_dim_p.bind(
        in_bounds(indices, limits), shape=out_shape, broadcast_dimensions=batch
    )
    value = _default_fill(dtype) if fill_value is None else np.asarray(fill_value).astype(dtype)
    return select_n_p.bind(mask, shape_ops.broadcast_to(value[()], out_shape), read)


def _gather_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    (x, indices), (t, _) = primals, tangents
    out = gather_p.bind(x, indices, **params)
    if is_zero(t):
        return out, zero_of(out)
    return out, gather_p.bind(t, indices, **{**params, "fill_value": 0})


def _gather_transpose(
    ct: Any,
    x: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> list[Any]:
    aval = cotangent_aval(x)
    if is_zero(ct):
        return [Zero(aval), None]
    out = gather_transposed.scatter_add(
        zeros(aval), indices, ct, dimension_numbers, indices_are_sorted, unique_indices, mode
    )
    return [out, None]


class _GatherTransposed:
    """The transpose of gather, provided by scatter.py (which is built on this file)."""

    scatter_add: Any


gather_transposed = _GatherTransposed()


def _gather_batch(
    axis: AxisData,
    args: Any,
    batch_dims: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    **params: Any,
) -> tuple[Any, int]:
    (x, indices), (dx, di) = args, batch_dims
    d = dimension_numbers
    if dx is not None:
        x = move_dim(x, dx, 0)
        d = d._replace(
            collapsed_slice_dims=up(d.collapsed_slice_dims),
            start_index_map=up(d.start_index_map),
            operand_batching_dims=up(d.operand_batching_dims),
        )
    d = d._replace(offset_dims=up(d.offset_dims))
    if di is not None:
        indices = move_dim(indices, di, 0)
        d = d._replace(start_indices_batching_dims=up(d.start_indices_batching_dims))
    if dx is not None and di is not None:
        d = d._replace(
            operand_batching_dims=(0, *d.operand_batching_dims),
            start_indices_batching_dims=(0, *d.start_indices_batching_dims),
        )
        slice_sizes = (min(1, axis.size), *slice_sizes)
    elif dx is not None:
        d = d._replace(offset_dims=(0, *d.offset_dims))
        slice_sizes = (axis.size, *slice_sizes)
    out = gather_p.bind(x, indices, dimension_numbers=d, slice_sizes=slice_sizes, **params)
    return out, 0


def up(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes of an array as axes of the array with one more axis in front."""
    return tuple([a + 1 for a in axes])


gather_p = Primitive(
    name="gather",
    abstract=_gather_abstract,
    lower=_gather_lower,
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    label=lambda params: f"gather {params['slice_sizes']}",
    doc="The windows of the operand that start at the given index vectors.",
)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """The windows of the operand that start at the given index vectors.

    Args:
        operand: array to read.
        start_indices: integers; the last axis holds index vectors.
        dimension_numbers: which axes correspond.
        slice_sizes: size of a window on each operand axis.
        unique_indices: a promise that windows do not overlap.
        indices_are_sorted: a promise that the index vectors are sorted.
        mode: what windows that reach out read; None promises that there are none (the CPU moves
            them inside). See `GatherScatterMode`.
        fill_value: what they read in fill mode; None is NaN, for integers the lowest (unsigned:
            highest) number.

    Returns:
        An array with the windows on the axes `offset_dims` and the shape of the indices on others.

    Raises:
        TypeError: sizes or axes do not fit.
    """
    dims = GatherDimensionNumbers(*[ints(d) for d in dimension_numbers])
    promise = GatherScatterMode.PROMISE_IN_BOUNDS
    mode = promise if mode is None else GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.ONE_HOT:
        raise NotImplementedError(
            "gather: mode one_hot is not supported. Instead: use mode 'clip' or 'fill', or "
            "multiply with nn.one_hot(indices)."
        )
    if fill_value is not None:
        fill_value = np.asarray(fill_value).item()
        if fill_value != fill_value:
            fill_value = np.nan
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=dims,
        slice_sizes=canonical_shape("gather", slice_sizes),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=mode,
        fill_value=fill_value,
    )


def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> Any:
    """The entries of `src` at one index array per axis of `axes`, negative ones from the end.

    Args:
        src: array.
        idxs: sequence of one-dimensional integer arrays, one per axis.
        axes: the axes to index.

    Returns:
        An array whose first axis runs over the indices, then the axes of `src` with size 1 at
        `axes` taken out.
    """
    shape = shape_of(src)
    axes = canonical_axes("index_take", axes, len(shape))
    columns = [_from_start(i, shape[a]) for i, a in zip(idxs, axes, strict=True)]
    indices = concatenate(columns, 1)
    sizes = [1 if a in axes else n for a, n in enumerate(shape)]
    dims = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape) - len(axes) + 1)),
        collapsed_slice_dims=tuple(sorted(axes)),
        start_index_map=axes,
    )
    return gather(src, indices, dims, sizes)


def _from_start(index: Any, n: int) -> Any:
    index = wide_indices(index)
    column = broadcast_in_dim_p.bind(index, shape=(*shape_of(index), 1), broadcast_dimensions=(0,))
    if not dtypes.issubdtype(typeof(index).dtype, np.signedinteger):
        return column
    size = np.asarray(n).astype(typeof(index).dtype)[()]
    zero = np.zeros((), typeof(index).dtype)[()]
    return select_n_p.bind(ge_p.bind(column, zero), add_p.bind(column, size), column)
