"""Indexing: what an index means, and reading by it. `at.py` writes by the same plan.

An index is read once into a `Plan` (hashable, no arrays) and a list of index arrays. Outside of a
trace a read is one executable that is shared by all positions of the same kind and size.
Source: NumPy user guide, "Indexing on ndarrays". Tested in tests/numpy/test_indexing.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import lax
from pullback.core.tracer import eval_trace, state
from pullback.numpy import promote
from pullback.numpy.creation import staged
from pullback.numpy.fused import fused
from pullback.numpy.index_plan import Plan, index_vectors, insert_new, parse, wrap_negative
from pullback.xla.arguments import scalar_array
from pullback.xla.array import Array

# ---------------------------------------------------------------- reading


def read_static(x: Any, plan: Plan, positions: tuple[int, ...]) -> Any:
    """A read by slices and known integers: slice, reverse, squeeze."""
    starts, limits, strides, reverse, drop = [], [], [], [], []
    for axis, (entry, n) in enumerate(zip(plan.entries, x.shape, strict=True)):
        if entry[0] == "all":
            start, count, step = 0, n, 1
        elif entry[0] == "slice":
            _, start, count, step = entry
        else:
            start, count, step = min(max(positions[entry[1]], 0), n - 1), 1, 1
            drop.append(axis)
        if step < 0:
            start, step = start + (count - 1) * step, -step
            reverse.append(axis)
        starts.append(start)
        limits.append(start + (count - 1) * step + 1 if count else start)
        strides.append(step)
    if tuple(starts) != (0,) * x.ndim or tuple(limits) != x.shape or set(strides) != {1}:
        x = lax.slice(x, starts, limits, None if set(strides) <= {1} else strides)
    if reverse:
        x = lax.rev(x, tuple(reverse))
    if drop:
        x = lax.squeeze(x, tuple(drop))
    return insert_new(x, plan)


def _can_slide(plan: Plan) -> bool:
    return all(e[0] != "slice" or e[3] == 1 for e in plan.entries)


def _window(
    plan: Plan, arrays: list[Any], shape: tuple[int, ...]
) -> tuple[list[Any], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Starts, sizes, dropped axes, and axes whose start may be negative, of a contiguous part."""
    starts: list[Any] = []
    sizes, drop, wrap = [], [], []
    for axis, (entry, n) in enumerate(zip(plan.entries, shape, strict=True)):
        if entry[0] == "all":
            starts.append(_ZERO)
            sizes.append(n)
        elif entry[0] == "slice":
            starts.append(np.int32(entry[1]))
            sizes.append(entry[2])
        else:
            start = arrays[entry[1]]
            starts.append(start)
            sizes.append(1)
            drop.append(axis)
            if type(start) is not np.int32 or start < 0:
                wrap.append(axis)
    return starts, tuple(sizes), tuple(drop), tuple(wrap)


_ZERO = np.int32(0)


def wrapped_starts(starts: list[Any], shape: tuple[int, ...], wrap: tuple[int, ...]) -> list[Any]:
    """Start positions in one dtype, negative ones counted from the end."""
    starts = [wrap_negative(s, shape[i]) if i in wrap else s for i, s in enumerate(starts)]
    if len({promote.dtype_of(s) for s in starts}) > 1:
        wide = max((promote.dtype_of(s) for s in starts), key=lambda d: d.itemsize)
        starts = [promote.cast(s, wide) for s in starts]
    return starts


@fused("sizes", "drop", "wrap", "plan")
def _slide(x: Any, starts: list[Any], sizes: Any, drop: Any, wrap: Any, plan: Plan | None) -> Any:
    starts = wrapped_starts(starts, x.shape, wrap)
    x = lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)
    x = lax.squeeze(x, drop) if drop else x
    return x if plan is None else insert_new(x, plan)


def _read_window(x: Any, plan: Plan, arrays: list[Any]) -> Any:
    starts, sizes, drop, wrap = _window(plan, arrays, x.shape)
    if state.trace is eval_trace:
        starts = [scalar_array(s) if type(s) is np.int32 else s for s in starts]
    return _slide(x, starts, sizes, drop, wrap, plan if plan.new_axes else None)


@fused("fill", "plan", "shape", "wrap", "options")
def read_gather(
    x: Any,
    arrays: list[Any],
    fill: Any,
    plan: Plan,
    shape: tuple[int, ...],
    wrap: bool,
    options: tuple,
) -> Any:
    """A read by index arrays, as one gather."""
    mode, is_sorted, unique = options
    if x.shape != shape:
        x = lax.reshape(x, shape)
    indices, map_axes, collapsed, windows, sizes = index_vectors(plan, arrays, shape, wrap)
    result = plan.result_shape(shape)
    if 0 in result:
        return insert_new(lax.full(result, 0, x.dtype), plan)
    if 0 in shape:
        raise IndexError(f"index is out of bounds: an axis of the array of shape {shape} is empty")
    numbers = lax.GatherDimensionNumbers(
        offset_dims=windows, collapsed_slice_dims=tuple(collapsed), start_index_map=map_axes
    )
    out = lax.gather(
        x,
        indices,
        numbers,
        sizes,
        unique_indices=unique,
        indices_are_sorted=is_sorted,
        mode=mode,
        fill_value=fill,
    )
    return insert_new(out, plan)


def read(
    x: Any,
    index: Any,
    *,
    mode: Any = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap: bool = True,
) -> Any:
    """x[index], with the options of `x.at[index].get`."""
    if isinstance(mode, str) and mode not in ("fill", "drop", "clip", "promise_in_bounds"):
        raise ValueError(f'Unknown gather mode "{mode}"')
    plan, arrays, shape = parse(index, x.shape)
    default = mode is None and wrap
    if plan.is_basic and shape == x.shape and (default or not arrays or plan.in_bounds):
        # Known positions out of bounds stay in the program, where checkify finds them.
        static = (staged() and plan.in_bounds) or not _can_slide(plan)
        if static and all(type(a) is np.int32 for a in arrays):
            if not any(
                n == 0 and e[0] == "array" for e, n in zip(plan.entries, shape, strict=True)
            ):
                return read_static(x, plan, tuple(int(a) for a in arrays))
        elif _can_slide(plan) and 0 not in shape:
            return _read_window(x, plan, arrays)
    if mode is None:
        mode = "promise_in_bounds"
    return read_gather(
        x,
        arrays,
        _known_fill(fill_value),
        plan,
        shape,
        wrap,
        (mode, indices_are_sorted, unique_indices),
    )


def _known_fill(value: Any) -> Any:
    """The fill value as a Python number: it is a constant of the program."""
    if value is None or type(value) in promote.PYTHON_SCALARS:
        return value
    return value.item()


# ---------------------------------------------------------------- the brackets


@fused()
def _row(x: Any, i: Any) -> Any:
    return lax.dynamic_index_in_dim(x, i, 0, keepdims=False, allow_negative_indices=False)


@fused("size")
def _rows(x: Any, start: Any, size: int) -> Any:
    return lax.dynamic_slice_in_dim(x, start, size, 0, allow_negative_indices=False)


def getitem_array(x: Array, index: Any) -> Any:
    """`x[index]` for an array outside of a trace: the two common forms go straight through."""
    if state.trace is eval_trace:
        kind = type(index)
        if kind is int:
            shape = x.shape
            if shape and shape[0]:
                n = shape[0]
                return _row(x, np.int32(index + n if index < 0 else index))
        elif kind is slice and x.ndim:
            n = x.shape[0]
            try:
                start, stop, step = index.indices(n)
            except TypeError:
                return read(x, index)
            if step == 1 and n:
                size = stop - start
                if size == n:
                    return x
                if size > 0:
                    return _rows(x, np.int32(start), size)
    return read(x, index)


class IndexExpression:
    """Gives back what stands in its brackets, as `numpy.s_`."""

    def __init__(self, maketuple: bool) -> None:
        self.maketuple = maketuple

    def __getitem__(self, item: Any) -> Any:
        return (item,) if self.maketuple and not isinstance(item, tuple) else item


s_ = IndexExpression(False)
index_exp = IndexExpression(True)
