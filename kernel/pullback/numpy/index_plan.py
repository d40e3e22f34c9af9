"""What an index means: its plan, and its positions as gather and scatter want them.

Builds on indexing.py. Tested in tests/numpy/.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import errors
from pullback.core.tracer import Tracer
from pullback.numpy import promote
from pullback.numpy.creation import asarray
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


def parse_new(index: Any, shape: tuple[int, ...]) -> tuple[Plan, list[Any], tuple[int, ...]]:
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


# (index in hashable form, shape) -> what `parse` gave, for indices without arrays.
_parsed: dict[tuple, tuple[Plan, list[Any], tuple[int, ...]]] = {}
_PARSED_LIMIT = 4096


def static_key(index: Any) -> Any:
    """An index of integers, slices, None and ellipses in hashable form; None if it has arrays."""
    if type(index) is not tuple:
        index = (index,)
    key: list[Any] = []
    for item in index:
        kind = type(item)
        if kind is int or item is None or item is Ellipsis:
            key.append(item)
        elif kind is slice:
            bounds = (item.start, item.stop, item.step)
            for bound in bounds:
                if bound is not None and type(bound) is not int:
                    return None
            key.append(bounds)
        else:
            return None
    return tuple(key)


def parse(index: Any, shape: tuple[int, ...]) -> tuple[Plan, list[Any], tuple[int, ...]]:
    """Read an index; those without arrays are remembered. See `parse_new`."""
    key = static_key(index)
    if key is None:
        return parse_new(index, shape)
    found = _parsed.get((key, shape))
    if found is None:
        if len(_parsed) >= _PARSED_LIMIT:
            _parsed.clear()
        found = _parsed[key, shape] = parse_new(index, shape)
    return found


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
        host: Any = index
        return np.where(host < 0, host + size, host).astype(host.dtype)
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
            values = np.arange(start, start + count * step, step).astype(np.int32)
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
