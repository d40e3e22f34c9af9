"""Indexing: what an index means, and reading by it. `at.py` writes by the same plan.

An index is read once into a `Plan` (hashable, no arrays) and a list of index arrays. Outside of a
trace a read is one executable that is shared by all positions of the same kind and size.
Source: NumPy user guide, "Indexing on ndarrays". Tested in tests/numpy/test_indexing.py.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import errors
from pullback.core.tracer import Tracer, eval_trace, state
from pullback.numpy import promote
from pullback.numpy.creation import asarray, staged
from pullback.numpy.fused import fused, scalar_array
from pullback.xla.array import Array

_ARRAYS = (Array, Tracer, np.ndarray, np.generic)


@dataclass(frozen=True, slots=True)
class Plan:
    """An index without its arrays.

    Attributes:
        entries: per axis of the operand ("all",), ("slice", start, size, step) or ("array", n),
            which refers to the n-th index array.
        new_axes: positions of new axes in the result.
        index_shape: the shape that the index arrays broadcast to.
        index_at: where those axes stand in the result (before new axes are inserted).
        in_bounds: whether all positions are known to lie in the array.
    """

    entries: tuple[tuple, ...]
    new_axes: tuple[int, ...]
    index_shape: tuple[int, ...]
    index_at: int
    in_bounds: bool

    @property
    def is_basic(self) -> bool:
        """Whether there are no index arrays but scalars."""
        return not self.index_shape

    def result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a read, before new axes are inserted."""
        rest = [
            n if e[0] == "all" else e[2]
            for e, n in zip(self.entries, shape, strict=True)
            if e[0] != "array"
        ]
        return (*rest[: self.index_at], *self.index_shape, *rest[self.index_at :])


def _is_bool(item: Any) -> bool:
    return isinstance(item, (bool, np.bool_)) or (
        isinstance(item, _ARRAYS) and item.dtype == np.bool_
    )


def _as_tuple(index: Any) -> tuple:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list):
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed.\n"
            f"Instead: x[jnp.array({index!r:.40})]"
        )
    return (index,)


def _check_item(item: Any, position: int) -> Any:
    """An entry of an index as None, Ellipsis, slice, Python integer or array."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (list, tuple)):
        item = np.asarray(item, np.int32) if len(item) == 0 else _array_of(item)
    if isinstance(item, str):
        raise TypeError(f"string indexing is not supported; got idx={item!r}")
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, _ARRAYS):
        if item.dtype.kind not in "iub":
            raise TypeError(
                f"Indexer must have integer or boolean type, got indexer with type {item.dtype} "
                f"at position {position}"
            )
        if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
            return int(item)
        return item
    if hasattr(item, "__jax_array__"):
        return _check_item(item.__jax_array__(), position)
    if isinstance(item, float):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type float at position "
            f"{position}: {item!r}.\nInstead: int({item!r}), or x // n for a whole quotient."
        )
    try:
        return operator.index(item)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or "
            f"boolean arrays are valid indices. Got {item!r} at position {position}"
        ) from None


def _array_of(item: Any) -> Any:
    flat = list(item)
    if any(isinstance(i, (Array, Tracer)) for i in flat):
        return asarray(item)
    return np.asarray(item)


def _expand_masks(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Boolean arrays replaced by the positions of their true elements."""
    out: list[Any] = []
    axis = 0
    for item in items:
        if item is None:
            out.append(item)
            continue
        if not _is_bool(item):
            axis += 1
            out.append(item)
            continue
        rank = np.ndim(item)
        known = item.concrete() if isinstance(item, Tracer) else item
        if known is None:
            raise errors.NonConcreteBooleanIndexError(item)
        if rank == 0:
            # A new axis, kept or dropped as a whole.
            out.append(("new", bool(known)))
            continue
        mask = np.asarray(known)
        expected = shape[axis : axis + rank]
        for i, (got, want) in enumerate(zip(mask.shape, expected, strict=False)):
            if got != want and not (got == 0 and want == 0):
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {axis + i}: "
                    f"got {mask.shape}, expected {list(expected)}"
                )
        out.extend(np.nonzero(mask))
        axis += rank
    return out


def _count(items: list[Any]) -> int:
    """How many axes of the operand the entries take."""
    total = 0
    for item in items:
        if item is None or item is Ellipsis:
            continue
        total += np.ndim(item) if _is_bool(item) else 1
    return total


def parse(index: Any, shape: tuple[int, ...]) -> tuple[Plan, list[Any], tuple[int, ...]]:
    """Read an index.

    Args:
        index: what stood in the brackets.
        shape: the operand's shape.

    Returns:
        The plan, the index arrays (negative positions not wrapped yet), and the shape of the
        operand with the axes that scalar booleans add.

    Raises:
        IndexError: too many entries, two ellipses, or a mask of another shape.
        TypeError: an entry that is no index.
        NonConcreteBooleanIndexError: a traced mask.
    """
    items = [_check_item(item, i) for i, item in enumerate(_as_tuple(index))]
    n_ellipses = sum(item is Ellipsis for item in items)
    if n_ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    taken = _count(items)
    if taken > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {taken} were indexed "
            f"(shape {shape}).\n"
            "Instead: at most one index for each axis; ... stands for all that are not named."
        )
    fill: list[Any] = [slice(None)] * (len(shape) - taken)
    if n_ellipses:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = fill
    else:
        items += fill
    if any(_is_bool(item) for item in items):
        items = _expand_masks(items, shape)
        if any(isinstance(item, tuple) for item in items):
            items, shape = _scalar_masks(items, shape)
    return (*_plan(items, shape), shape)


def _scalar_masks(items: list[Any], shape: tuple[int, ...]) -> tuple[list[Any], tuple[int, ...]]:
    out, dims, axis = [], [], 0
    for item in items:
        if isinstance(item, tuple):
            dims.append(1)
            out.append(np.zeros(1 if item[1] else 0, np.int32))
            continue
        out.append(item)
        if item is not None:
            dims.append(shape[axis])
            axis += 1
    return out, tuple(dims)


def _slice_entry(item: slice, size: int, position: int) -> tuple:
    try:
        start, stop, step = item.indices(size)
    except TypeError:
        for bound in (item.start, item.stop, item.step):
            if isinstance(bound, Tracer):
                raise IndexError(
                    f"Slice entries must be static integers. Got {item} at position {position}.\n"
                    "Instead: lax.dynamic_slice(x, start, sizes) for a start that is traced "
                    "(the size must be known)."
                ) from None
        raise TypeError(
            f"Slice entries must be integers. Got {item} at position {position}"
        ) from None
    count = len(range(start, stop, step))
    if count == size and step == 1:
        return ("all",)
    return ("slice", start if count else 0, count, step if count > 1 else 1)


def _plan(items: list[Any], shape: tuple[int, ...]) -> tuple[Plan, list[Any]]:
    entries: list[tuple] = []
    arrays: list[Any] = []
    new_after: list[int] = []
    places: list[int] = []  # positions, among items, of index arrays
    in_bounds = True
    axis = 0
    for position, item in enumerate(items):
        if item is None:
            new_after.append(position)
            continue
        size = shape[axis]
        if isinstance(item, slice):
            entries.append(_slice_entry(item, size, position))
        else:
            if type(item) is int:
                if -size <= item < size:
                    item = item + size if item < 0 else item
                else:
                    in_bounds = False
                    item = _checked_int(item)
                item = np.int32(item)
            else:
                in_bounds = in_bounds and size > 0 and _known_in_bounds(item, size)
            entries.append(("array", len(arrays)))
            arrays.append(item)
            places.append(position)
        axis += 1
    index_shape = _index_shape(arrays)
    adjacent = bool(places) and places[-1] - places[0] + 1 == len(places)
    index_at = 0
    if adjacent:
        index_at = sum(isinstance(i, slice) for i in items[: places[0]])
    return (
        Plan(
            tuple(entries),
            _new_positions(items, new_after, places, adjacent, len(index_shape)),
            index_shape,
            index_at,
            in_bounds,
        ),
        arrays,
    )


def _checked_int(item: int) -> int:
    if not -(2**31) <= item < 2**31:
        raise OverflowError(f"Python int {item} too large to convert to int32")
    return item


def _known_in_bounds(item: Any, size: int) -> bool:
    if not isinstance(item, (np.ndarray, np.generic)) or item.size > 16:
        return False
    return bool(item.size == 0 or (item.min() >= 0 and item.max() < size))


def _index_shape(arrays: list[Any]) -> tuple[int, ...]:
    shapes = [promote.shape_of(a) for a in arrays]
    if not shapes:
        return ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing arrays could not be broadcast together with shapes "
            f"{', '.join(map(str, shapes))}"
        ) from None


def _new_positions(
    items: list[Any], new: list[int], places: list[int], adjacent: bool, n_index: int
) -> tuple[int, ...]:
    """Where new axes stand in the result."""
    if not new:
        return ()
    out: list[int] = []
    position = 0 if adjacent or not places else n_index
    done = not adjacent
    for item in items:
        if item is None:
            out.append(position)
            position += 1
        elif isinstance(item, slice):
            position += 1
        elif adjacent and not done:
            position += n_index
            done = True
    return tuple(out)


# ---------------------------------------------------------------- positions as arrays


def position_dtype(size: int) -> np.dtype:
    """The integer type that indexes an axis of this size."""
    return np.dtype(np.int64 if size >= 2**31 else np.int32)


def wrap_negative(index: Any, size: int) -> Any:
    """Positions with negative ones counted from the end."""
    dtype = promote.dtype_of(index)
    target = position_dtype(size)
    if dtype.kind == "u":
        if dtype.itemsize < target.itemsize:
            return promote.cast(index, target)
        limit = np.asarray(np.iinfo(target).max, dtype)
        return lax.convert_element_type(lax.min(index, lax.full_like(index, limit)), target)
    if dtype.itemsize < target.itemsize:
        index, dtype = promote.cast(index, target), target
    if isinstance(index, (np.ndarray, np.generic)):
        return np.where(index < 0, index + size, index).astype(index.dtype)
    return lax.select(index < 0, index + np.asarray(size, dtype), index)


def index_vectors(
    plan: Plan, arrays: list[Any], shape: tuple[int, ...], wrap: bool = True
) -> tuple[Any, tuple[int, ...], list[int], tuple[int, ...], tuple[int, ...]]:
    """The index as gather and scatter want it.

    Returns:
        indices [*batch, k]; the operand axis of each component; the operand axes that the result
        lacks; the result axes that are windows; the window sizes of every operand axis.
    """
    result = plan.result_shape(shape)
    n_index = len(plan.index_shape)
    rest = 0  # counts result axes that are not from index arrays
    batch_axes = list(range(plan.index_at, plan.index_at + n_index))
    parts: list[tuple[Any, tuple[int, ...]]] = []  # (values, result axes they lie along)
    map_axes: list[int] = []
    collapsed: list[int] = []
    windows: list[int] = []
    sizes: list[int] = []
    for axis, entry in enumerate(plan.entries):
        kind = entry[0]
        if kind == "array":
            value = arrays[entry[1]]
            value = (
                wrap_negative(value, shape[axis])
                if wrap
                else promote.cast(value, position_dtype(shape[axis]))
            )
            lies = tuple(batch_axes[n_index - np.ndim(value) :])
            parts.append((value, lies))
            map_axes.append(axis)
            collapsed.append(axis)
            sizes.append(1 if shape[axis] else 0)
            continue
        place = rest if rest < plan.index_at else rest + n_index
        rest += 1
        if kind == "all":
            windows.append(place)
            sizes.append(shape[axis])
        elif entry[3] == 1:
            windows.append(place)
            sizes.append(entry[2])
            parts.append((np.int32(entry[1]), ()))
            map_axes.append(axis)
        else:
            _, start, count, step = entry
            values = np.arange(start, start + count * step, step, np.int32)
            parts.append((values, (place,)))
            map_axes.append(axis)
            collapsed.append(axis)
            sizes.append(1)
    scatter_axes = [i for i in range(len(result)) if i not in windows]
    batch = tuple(result[i] for i in scatter_axes)
    return (
        _join(parts, scatter_axes, batch),
        tuple(map_axes),
        collapsed,
        tuple(windows),
        tuple(sizes),
    )


def _join(parts: list[tuple[Any, tuple[int, ...]]], axes: list[int], batch: tuple[int, ...]) -> Any:
    """Index components broadcast to the batch shape, stacked along a last axis."""
    if not parts:
        return np.zeros((*batch, 0), np.int32)
    dtype = max((promote.dtype_of(v) for v, _ in parts), key=lambda d: d.itemsize)
    columns = []
    host = all(isinstance(v, (np.ndarray, np.generic)) for v, _ in parts)
    for value, lies in parts:
        value = promote.cast(value, dtype)
        where = tuple(axes.index(i) for i in lies)
        if host:
            full = [1] * len(axes)
            for w, n in zip(where, np.shape(value), strict=True):
                full[w] = n
            columns.append(np.broadcast_to(np.reshape(value, full), batch)[..., None])
            continue
        dims = promote.shape_of(value)
        keep = [i for i, w in enumerate(where) if dims[i] == batch[w]]
        if len(keep) != len(dims):
            value = lax.reshape(value, tuple(dims[i] for i in keep))
        columns.append(lax.broadcast_in_dim(value, (*batch, 1), tuple(where[i] for i in keep)))
    if host:
        return np.ascontiguousarray(np.concatenate(columns, -1))
    return columns[0] if len(columns) == 1 else lax.concatenate(columns, len(batch))


def insert_new(x: Any, plan: Plan) -> Any:
    """The result with the new axes of the index."""
    if not plan.new_axes:
        return x
    dims = iter(x.shape)
    rank = x.ndim + len(plan.new_axes)
    out = tuple(1 if i in plan.new_axes else next(dims) for i in range(rank))
    return lax.broadcast_in_dim(x, out, tuple(i for i in range(rank) if i not in plan.new_axes))


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
    x = lax.dynamic_slice(x, wrapped_starts(starts, x.shape, wrap), sizes)
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
    plan, arrays, shape = parse(index, x.shape)
    default = mode is None and wrap
    if plan.is_basic and shape == x.shape and (default or not arrays or plan.in_bounds):
        if all(type(a) is np.int32 for a in arrays) and (staged() or not _can_slide(plan)):
            if not any(
                n == 0 and e[0] == "array" for e, n in zip(plan.entries, shape, strict=True)
            ):
                return read_static(x, plan, tuple(int(a) for a in arrays))
        elif _can_slide(plan) and 0 not in shape:
            return _read_window(x, plan, arrays)
    if mode is None:
        mode = "promise_in_bounds"
    if isinstance(mode, str) and mode not in ("fill", "drop", "clip", "promise_in_bounds"):
        raise ValueError(f'Unknown gather mode "{mode}"')
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
    return lax.dynamic_index_in_dim(x, i, 0, keepdims=False)


@fused("size")
def _rows(x: Any, start: Any, size: int) -> Any:
    return lax.dynamic_slice_in_dim(x, start, size, 0)


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
