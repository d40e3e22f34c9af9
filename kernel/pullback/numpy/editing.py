"""Elements taken out of an array or put between others.

Builds on joining.py and indexing. Tested in tests/numpy/test_golden.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core import errors
from pullback.core.tracer import Tracer
from pullback.core.words import moves_elements
from pullback.numpy import promote
from pullback.numpy.joining import concatenate
from pullback.numpy.manipulation import moveaxis, ravel
from pullback.numpy.sorting import argsort

lift = promote.lift


@moves_elements(0)
def delete(
    arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Any:
    """The array without some of its elements.

    Args:
        arr: array.
        obj: which: a position, a slice, positions, or a mask. Positions may be traced if they are
            a single number or promised to be unique.
        axis: which axis; None for the flattened array.
        assume_unique_indices: the promise that no position stands twice.

    Returns:
        The shorter array.
    """
    arr = lift("delete", arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = promote.canonical_axis(axis, arr.ndim)
    n = arr.shape[axis]
    if isinstance(obj, slice):
        keep = np.ones(n, bool)
        keep[obj] = False
        return _keep(arr, np.flatnonzero(keep), axis)
    known = obj.concrete() if isinstance(obj, Tracer) else obj
    if known is not None:
        keep = np.ones(n, bool)
        positions = np.asarray(known)
        if positions.dtype == np.bool_:
            if positions.shape != (n,):
                raise ValueError(
                    f"delete: the mask has shape {positions.shape}, the axis {n} elements"
                )
            keep = ~positions
        else:
            inside = positions[(positions >= -n) & (positions < n)]
            keep[inside.astype(int)] = False
        return _keep(arr, np.flatnonzero(keep), axis)
    if obj.dtype == np.bool_:
        raise errors.NonConcreteBooleanIndexError(obj)
    positions = ravel(obj)
    if positions.size != 1 and not assume_unique_indices:
        raise errors.ConcretizationTypeError(
            obj,
            "jnp.delete: how many elements are left depends on repeated positions.\n"
            "Instead: assume_unique_indices=True if there are none.",
        )
    order = argsort(positions)
    shift = np.arange(positions.size, dtype=np.int32)
    starts = (positions + n * (positions < 0))[order] - shift
    rows = np.arange(n - positions.size, dtype=np.int32)
    moved = (rows[:, None] >= starts[None, :]).sum(1)
    return _keep(arr, rows + moved, axis)


def _keep(arr: Any, rows: Any, axis: int) -> Any:
    rows = rows.astype(np.int32)
    return arr.at[(slice(None),) * axis + (rows,)].get(
        mode="promise_in_bounds", wrap_negative_indices=False
    )


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with elements put before given positions.

    Args:
        arr: array.
        obj: before which: a position, a slice, or positions (of the old array).
        values: what to put there.
        axis: which axis; None for the flattened array.

    Returns:
        The longer array.
    """
    arr, values = lift("insert", arr), lift("insert", values, 2)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = promote.canonical_axis(axis, arr.ndim)
    n = arr.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(n), dtype=np.int32)
    positions = lift("insert", np.asarray(obj) if isinstance(obj, (list, tuple)) else obj, 1)
    if positions.dtype == np.bool_:
        positions = lift("insert", np.flatnonzero(np.asarray(positions)))
    scalar = positions.ndim == 0
    positions = ravel(positions)
    if values.ndim > arr.ndim:
        raise ValueError(f"insert: values have {values.ndim} axes, the array {arr.ndim}")
    values = values.reshape((1,) * (arr.ndim - values.ndim) + values.shape)
    if scalar:
        values = moveaxis(values, 0, axis)
    count = values.shape[axis] if positions.size == 1 else positions.size
    shape = tuple(count if i == axis else d for i, d in enumerate(arr.shape))
    values = promote.broadcast_to(values, shape).astype(arr.dtype)
    positions = promote.broadcast_to(positions, (count,))
    positions = positions + n * (positions < 0)
    # Each new element counts as just before its position; a stable sort of the places does it.
    places = concatenate([2 * positions, 2 * np.arange(n, dtype=positions.dtype) + 1])
    return _keep(concatenate([values, arr], axis), argsort(places), axis)
