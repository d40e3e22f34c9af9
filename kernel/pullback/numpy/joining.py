"""Arrays joined, split and repeated.

Builds on manipulation.py. Tested in tests/numpy/.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes, errors
from pullback.core.tracer import Tracer
from pullback.core.words import moves_elements
from pullback.numpy import promote
from pullback.numpy.creation import asarray, zeros
from pullback.numpy.fused import fused
from pullback.numpy.manipulation import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    lift,
    moveaxis,
    ravel,
    reshape,
    transpose,
)

# ---------------------------------------------------------------- joining


def _parts(name: str, arrays: Any, dtype: Any) -> list[Any]:
    if isinstance(arrays, (str, bytes)) or not hasattr(arrays, "__iter__"):
        raise TypeError(f"{name} needs a sequence of arrays, got {type(arrays)}")
    if promote.is_array(arrays):
        parts = list(unstack(arrays))
    elif isinstance(arrays, np.ndarray):
        parts = list(arrays)
    else:
        parts = list(arrays)
    if not parts:
        raise ValueError(f"Need at least one array to {name}.")
    if dtype is not None:
        dtype = dtypes.requested_dtype(dtype, name)
        for i, x in enumerate(parts):
            promote.aval_of(name, x, i)
        return [promote.cast(x, dtype) for x in parts]
    if len(parts) == 1:
        return [lift(name, parts[0])]
    return promote.promote(name, *parts)


@fused("axis", "mode")
def _join(parts: list[Any], axis: int, mode: str) -> Any:
    if mode == "stack":
        dims = promote.shape_of(parts[0])
        out = (*dims[:axis], 1, *dims[axis:])
        parts = [
            lax.broadcast_in_dim(x, out, tuple(i for i in range(len(out)) if i != axis))
            for x in parts
        ]
    return lax.concatenate(parts, axis)


@moves_elements(0)
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays joined along an axis that they have.

    Args:
        arrays: sequence of arrays whose shapes agree but for `axis`.
        axis: which axis; None joins the flattened arrays.
        dtype: of the result; None for the common one.

    Returns:
        The joined array.
    """
    if promote.is_array(arrays) and axis == 0 and dtype is None and arrays.ndim > 1:
        return lax.reshape(arrays, (arrays.shape[0] * arrays.shape[1], *arrays.shape[2:]))
    parts = _parts("concatenate", arrays, dtype)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    shapes = [promote.shape_of(x) for x in parts]
    if () in shapes:
        raise ValueError(
            "Zero-dimensional arrays cannot be concatenated.\nInstead: jnp.stack, or x[None]."
        )
    axis = promote.canonical_axis(axis, len(shapes[0]))
    first = shapes[0]
    for s in shapes[1:]:
        if len(s) != len(first):
            raise errors.shape_error(
                "Cannot concatenate arrays with different numbers of dimensions: "
                f"got {', '.join(map(str, shapes))}.",
                "x[None] adds an axis; jnp.stack joins along a new one.",
            )
        if s[:axis] + s[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise errors.shape_error(
                "Cannot concatenate arrays with shapes that differ in dimensions other than the "
                f"one being concatenated: concatenating along dimension {axis} for shapes "
                f"{', '.join(map(str, shapes))}.",
                "choose the axis in which they differ, axis=..., or pad them with jnp.pad.",
            )
    if len(parts) == 1:
        return lift("concatenate", parts[0])
    return _join(parts, axis, "concatenate")


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Arrays joined along an axis; the array API's name of `concatenate`."""
    return concatenate(arrays, axis)


@moves_elements(0)
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis.

    Args:
        arrays: sequence of arrays of one shape.
        axis: where the new axis stands in the result.
        out: not supported: arrays are immutable.
        dtype: of the result; None for the common one.

    Returns:
        The stacked array.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.stack is not supported.")
    if promote.is_array(arrays) and dtype is None:
        return moveaxis(arrays, 0, promote.canonical_axis(axis, arrays.ndim))
    parts = _parts("stack", arrays, dtype)
    shapes = [promote.shape_of(x) for x in parts]
    if builtins.any(s != shapes[0] for s in shapes):
        raise errors.shape_error(
            f"All input arrays must have the same shape, got {', '.join(map(str, shapes))}.",
            "jnp.concatenate joins arrays of other lengths along an axis; jnp.pad makes them equal.",
        )
    axis = promote.canonical_axis(axis, len(shapes[0]) + 1)
    return _join(parts, axis, "stack")


@moves_elements(0)
def vstack(tup: Any, dtype: Any = None) -> Any:
    """Rows (or arrays along the first axis) under each other."""
    parts = _parts("vstack", tup, dtype)
    return concatenate([atleast_2d(x) for x in parts], 0)


@moves_elements(0)
def hstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays beside each other: along the second axis, 1-D ones along the first."""
    parts = [atleast_1d(x) for x in _parts("hstack", tup, dtype)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


@moves_elements(0)
def dstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays behind each other, along the third axis."""
    parts = _parts("dstack", tup, dtype)
    return concatenate([atleast_3d(x) for x in parts], 2)


def column_stack(tup: Any) -> Any:
    """1-D arrays as the columns of a matrix."""
    parts = [lift("column_stack", x) for x in _parts("column_stack", tup, None)]
    parts = [x if x.ndim >= 2 else transpose(atleast_2d(x)) for x in parts]
    return concatenate(parts, 1)


def block(arrays: Any) -> Any:
    """A matrix of blocks, given as nested lists of arrays."""

    def depth(item: Any) -> int:
        if not isinstance(item, list):
            return 0
        if not item:
            raise ValueError("List at arrays[0] cannot be empty")
        return 1 + builtins.max(depth(i) for i in item)

    levels = depth(arrays)

    def widest(item: Any) -> int:
        return builtins.max(map(widest, item)) if isinstance(item, list) else np.ndim(item)

    rank = builtins.max(levels, widest(arrays))

    def build(item: Any, level: int) -> Any:
        if isinstance(item, list):
            return concatenate([build(i, level + 1) for i in item], level - levels)
        x = lift("block", item)
        return lax.reshape(x, (1,) * (rank - x.ndim) + x.shape)

    if isinstance(arrays, tuple):
        raise ValueError("Only lists can be used to arrange blocks, and got tuple")
    return build(arrays, 0)


@moves_elements(0, 1)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` joined to the end (both flattened if axis is None)."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)])
    return concatenate([arr, values], axis)


# ---------------------------------------------------------------- splitting


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, without it."""
    x = lift("unstack", x)
    if x.ndim == 0:
        raise ValueError(
            "Unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    axis = promote.canonical_axis(axis, x.ndim)
    return tuple(_unstack(x, axis)) if x.shape[axis] else ()


@fused("axis")
def _unstack(x: Any, axis: int) -> list[Any]:
    return [lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis])]


@fused("cuts", "axis")
def _cut(x: Any, cuts: tuple[int, ...], axis: int) -> list[Any]:
    pairs = list(zip(cuts, cuts[1:], strict=False))
    if all(a <= b for a, b in pairs):
        return lax.split(x, [b - a for a, b in pairs], axis)
    return [lax.slice_in_dim(x, a, builtins.max(a, b), axis=axis) for a, b in pairs]


def _split(name: str, ary: Any, sections: Any, axis: int, equal: bool) -> list[Any]:
    ary = lift(name, ary)
    axis = promote.canonical_axis(axis, ary.ndim)
    length = ary.shape[axis]
    if isinstance(sections, (list, tuple)) or np.ndim(sections) > 0:
        points = [promote.index_of(i, "split point") for i in sections]
        points = [builtins.min(builtins.max(p + length if p < 0 else p, 0), length) for p in points]
        cuts = (0, *points, length)
    else:
        n = promote.index_of(sections, "number of sections")
        part, rest = divmod(length, n)
        if equal and rest:
            raise ValueError(
                f"array split does not result in an equal division: {length} elements in {n} "
                f"parts leave {rest}.\nInstead: jnp.array_split, or positions: jnp.split(x, [2, 4])."
            )
        cuts = tuple(i * part + builtins.min(i, rest) for i in range(n + 1))
    return list(_cut(ary, cuts, axis))


@moves_elements(0)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array cut along an axis.

    Args:
        ary: array.
        indices_or_sections: how many equal parts, or where to cut.
        axis: which axis.

    Returns:
        The parts.

    Raises:
        ValueError: it does not divide into equal parts.
    """
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As `split`, but parts may differ by one in length."""
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array cut along its first axis."""
    return _split("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array cut along its second axis (the first of a 1-D array)."""
    return _split("hsplit", ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1, True)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """The array cut along its third axis."""
    return _split("dsplit", ary, indices_or_sections, 2, True)


# ---------------------------------------------------------------- repeating


@moves_elements(0)
def tile(A: Any, reps: Any) -> Any:
    """The array repeated as a whole, `reps` times along each axis."""
    A = lift("tile", A)
    if isinstance(reps, (int, np.integer)) or (promote.is_array(reps) and np.ndim(reps) == 0):
        reps = (reps,)
    counts = tuple(promote.index_of(r, "reps") for r in reps)
    return _tile(A, counts)


@fused("reps")
def _tile(a: Any, reps: tuple[int, ...]) -> Any:
    rank = builtins.max(a.ndim, len(reps))
    dims = (1,) * (rank - a.ndim) + a.shape
    reps = (1,) * (rank - len(reps)) + reps
    pairs = tuple(n for pair in zip(reps, dims, strict=True) for n in pair)
    x = lax.broadcast_in_dim(lax.reshape(a, dims), pairs, tuple(range(1, 2 * rank, 2)))
    return lax.reshape(x, tuple(r * d for r, d in zip(reps, dims, strict=True)))


@moves_elements(0)
def repeat(
    a: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """Each element repeated.

    Args:
        a: array.
        repeats: how often, one number or one per element along `axis`.
        axis: which axis; None for the flattened array.
        total_repeat_length: the length of the result; needed if `repeats` is traced.
        out_sharding: accepted for compatibility.

    Returns:
        The array.
    """
    del out_sharding
    a = lift("repeat", a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = promote.canonical_axis(axis, a.ndim) if a.ndim else 0
    a = atleast_1d(a)
    if total_repeat_length is None:
        if isinstance(repeats, Tracer) and repeats.concrete() is None:
            raise errors.ConcretizationTypeError(
                repeats,
                "jnp.repeat: the repeats give the length of the result, so they must be known.\n"
                "Instead: jnp.repeat(x, repeats, total_repeat_length=n).",
            )
        counts = np.asarray(repeats)
        if counts.size == 1:
            return _repeat(a, int(counts.reshape(())), axis)
        if counts.shape != (a.shape[axis],):
            raise ValueError(
                f"repeats has shape {counts.shape}; axis {axis} of {a.shape} needs "
                f"({a.shape[axis]},)"
            )
        from_ = np.repeat(np.arange(a.shape[axis]), counts)
        return _gather_rows(a, from_, axis)
    counts = lift("repeat", repeats)
    return _repeat_traced(a, counts, axis, promote.index_of(total_repeat_length, "length"))


@fused("n", "axis")
def _repeat(a: Any, n: int, axis: int) -> Any:
    dims = a.shape
    out = (*dims[: axis + 1], n, *dims[axis + 1 :])
    kept = tuple(i for i in range(len(out)) if i != axis + 1)
    x = lax.broadcast_in_dim(a, out, kept)
    return lax.reshape(x, (*dims[:axis], dims[axis] * n, *dims[axis + 1 :]))


def _gather_rows(a: Any, rows: Any, axis: int) -> Any:
    return a[(slice(None),) * axis + (asarray(rows, np.int32),)]


@fused("axis", "length")
def _repeat_traced(a: Any, counts: Any, axis: int, length: int) -> Any:
    n = a.shape[axis]
    if n == 0 or length == 0:
        return lax.full((*a.shape[:axis], length, *a.shape[axis + 1 :]), 0, a.dtype)
    counts = promote.broadcast_to(counts, (n,))
    ends = lax.cumsum(counts, 0)
    # Entry i of the result is the first element whose run ends after i.
    positions = lax.broadcasted_iota(ends.dtype, (length, n), 0)
    rows = lax.reduce_sum(lax.convert_element_type(positions >= ends[None, :], np.int32), (1,))
    rows = lax.min(rows, lax.full_like(rows, n - 1))
    return a[(slice(None),) * axis + (rows,)]


def resize(a: Any, new_shape: Any) -> Any:
    """The flattened elements, repeated as needed, in a new shape."""
    dims = promote.canonical_shape(new_shape)
    flat = ravel(lift("resize", a))
    n = math.prod(dims)
    if flat.size == 0:
        return zeros(dims, flat.dtype)
    times = -(-n // flat.size)
    return reshape(tile(flat, times)[:n], dims)


@moves_elements(0)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved along axes; those that fall off come in on the other side.

    Args:
        a: array.
        shift: how far, one number or one per axis; may be traced.
        axis: axis or axes; None rolls the flattened array.

    Returns:
        An array of a's shape.
    """
    a = lift("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(promote.canonical_axis(i, a.ndim) for i in axes)
    if isinstance(shift, (int, np.integer)):
        shifts: Any = (int(shift),) * len(axes)
    elif isinstance(shift, (tuple, list)) and builtins.all(
        isinstance(s, (int, np.integer)) for s in shift
    ):
        shifts = tuple(int(s) for s in shift)
        if len(shifts) == 1:
            shifts = shifts * len(axes)
        if len(axes) == 1:
            axes = axes * len(shifts)
        if len(shifts) != len(axes):
            raise ValueError("'shift' and 'axis' must have the same length")
    else:
        moved = promote.broadcast_to(lift("roll", asarray(shift)), (len(axes),))
        return _roll_traced(a, moved, axes)
    return _roll(a, shifts, axes)


@fused("shifts", "axes")
def _roll(a: Any, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    for shift, axis in zip(shifts, axes, strict=True):
        n = a.shape[axis]
        if n == 0 or shift % n == 0:
            continue
        cut = n - shift % n
        parts = [lax.slice_in_dim(a, cut, n, axis=axis), lax.slice_in_dim(a, 0, cut, axis=axis)]
        a = lax.concatenate(parts, axis)
    return a


@fused("axes")
def _roll_traced(a: Any, shifts: Any, axes: tuple[int, ...]) -> Any:
    for i, axis in enumerate(axes):
        n = a.shape[axis]
        if n == 0:
            continue
        start = (-shifts[i]) % n
        twice = lax.concatenate([a, a], axis)
        a = lax.dynamic_slice_in_dim(twice, start, n, axis)
    return a


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Without zeros at the front ("f") and back ("b") of a known array."""
    del axis
    filt = lift("trim_zeros", filt)
    nonzero = np.nonzero(np.asarray(filt))[0]
    if nonzero.size == 0:
        return filt[:0]
    first = int(nonzero[0]) if "f" in trim.lower() else 0
    last = int(nonzero[-1]) + 1 if "b" in trim.lower() else filt.shape[0]
    return filt[first:last]
