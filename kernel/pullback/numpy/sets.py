"""Sets in 1-D arrays: unique, intersection, union, membership.

The size of a set depends on values: under a trace it must be given. Builds on sorting.py.
Tested in tests/numpy/test_sets.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pullback import lax
from pullback.core import dtypes, errors
from pullback.core.tracer import Tracer
from pullback.numpy import promote
from pullback.numpy.creation import asarray, constant
from pullback.numpy.fused import fused
from pullback.numpy.joining import concatenate
from pullback.numpy.manipulation import moveaxis, ravel
from pullback.numpy.positions import nonzero
from pullback.numpy.reductions import argmax
from pullback.numpy.selection import take, where
from pullback.numpy.sorting import sort

lift = promote.lift


def _known(name: str, x: Any) -> np.ndarray:
    """The values of an array that must be known."""
    value = x.concrete() if isinstance(x, Tracer) else x
    if value is None:
        raise errors.ConcretizationTypeError(
            x,
            f"The size argument of jnp.{name} must be given under a transformation: how many "
            "elements the result has depends on the values.\n"
            f"Instead: jnp.{name}(..., size=n, fill_value=0) gives n elements.",
        )
    return np.asarray(value)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The different elements, in order.

    Args:
        ar: array; must be known unless `size` is given.
        return_index: also where each first stands.
        return_inverse: also which of them each element is.
        return_counts: also how often each stands.
        axis: compare slices along this axis; None the flattened elements.
        equal_nan: whether all NaN are one element.
        size: how many to give: more are left out, missing ones filled.
        fill_value: what stands behind the last one; None for the smallest element.
        sorted: accepted for compatibility; the result is always in order.

    Returns:
        The elements, or a tuple with what was asked for.
    """
    ar = lift("unique", ar)
    if axis is None:
        shape = ar.shape
        flat, at = ravel(ar), 0
    else:
        at = promote.canonical_axis(axis, ar.ndim)
        flat, shape = moveaxis(ar, at, 0), (ar.shape[at],)
    int_type = dtypes.python_scalar_dtype(int)
    if size is None:
        values = _known("unique", flat)
        out = np.unique(
            values,
            return_index=True,
            return_inverse=True,
            return_counts=True,
            axis=None if flat.ndim == 1 else 0,
            equal_nan=equal_nan,
        )
        found, index, inverse, counts = out
        parts: list[Any] = [constant(np.ascontiguousarray(found).astype(flat.dtype))]
        extra = [(return_index, index), (return_inverse, inverse), (return_counts, counts)]
        parts += [constant(p.astype(int_type)) for wanted, p in extra if wanted]
    else:
        size = promote.index_of(size, "size")
        first, index, inverse, counts = _unique(flat, fill_value, size, bool(equal_nan), int_type)
        parts = [first]
        parts += [
            p
            for wanted, p in (
                (return_index, index),
                (return_inverse, inverse),
                (return_counts, counts),
            )
            if wanted
        ]
    if at:
        parts[0] = moveaxis(parts[0], 0, at)
    if return_inverse:
        n = 1 + bool(return_index)
        parts[n] = parts[n].reshape(shape)
    return parts[0] if len(parts) == 1 else tuple(parts)


@fused("size", "equal_nan", "int_type")
def _unique(flat: Any, fill: Any, size: int, equal_nan: bool, int_type: Any) -> tuple[Any, ...]:
    n = flat.shape[0]
    rows = lax.reshape(flat, (n, int(np.prod(flat.shape[1:]))))
    columns = [rows[:, i] for i in range(rows.shape[1])]
    positions = lax.iota(int_type, n)
    if n == 0:
        fill_row = lax.full((size, *flat.shape[1:]), 0 if fill is None else fill, flat.dtype)
        zero = lax.full((size,), 0, int_type)
        return fill_row, zero, lax.full((0,), 0, int_type), zero
    ordered = lax.sort((*columns, positions), dimension=0, num_keys=len(columns))
    order = ordered[-1]
    differs = lax.full((n,), False, np.bool_)
    for column in ordered[:-1]:
        before = lax.concatenate([column[:1], column[:-1]], 0)
        new = column != before
        if equal_nan and dtypes.is_inexact(column.dtype):
            new = new & ~((column != column) & (before != before))
        differs = differs | new
    starts = lax.select(positions == 0, lax.full_like(differs, True), differs)
    rank = lax.cumsum(lax.convert_element_type(starts, int_type), 0) - 1
    total = rank[-1] + 1
    slots = lax.full((size,), 0, int_type)
    first_at = slots.at[lax.select(starts, rank, lax.full_like(rank, size))].set(
        positions, mode="drop"
    )
    index = order[first_at]
    counts = slots.at[rank].add(np.ones((), int_type), mode="drop")
    inverse = lax.full((n,), 0, int_type).at[order].set(rank)
    valid = lax.iota(int_type, size) < total
    found = flat[index]
    low = (
        flat[order[0]]
        if fill is None
        else promote.broadcast_to(promote.cast(fill, flat.dtype), flat.shape[1:])
    )
    mask = lax.broadcast_in_dim(valid, found.shape, (0,))
    found = lax.select(mask, found, promote.broadcast_to(low, found.shape))
    index = lax.select(valid, index, promote.broadcast_to(index[0], index.shape))
    return found, index, inverse, counts


class UniqueAllResult(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The different elements, where each first stands, which each element is, and how often."""
    return UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCountsResult:
    """The different elements and how often each stands."""
    return UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """The different elements and which of them each element is."""
    return UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Any:
    """Which elements stand among the test elements.

    Args:
        element: array.
        test_elements: array.
        assume_unique: accepted for compatibility.
        invert: give the others.
        method: accepted for compatibility.

    Returns:
        bool array of element's shape.
    """
    del assume_unique, method
    element, tests = promote.lift_all("isin", *promote.promote("isin", element, test_elements))
    return _isin(element, tests, bool(invert))


@fused("invert")
def _isin(element: Any, tests: Any, invert: bool) -> Any:
    if element.size == 0 or tests.size == 0:
        return lax.full(element.shape, invert, np.bool_)
    tests = lax.reshape(tests, (tests.size,))
    equal = lax.eq_p.bind(element[..., None], tests)
    found = lax.reduce_or(equal, (element.ndim,))
    return ~found if invert else found


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements of ar1 that are not in ar2."""
    ar1, ar2 = promote.lift_all("setdiff1d", ar1, ar2)
    if size is None:
        values = np.setdiff1d(_known("setdiff1d", ar1), _known("setdiff1d", ar2), assume_unique)
        return asarray(values, ar1.dtype)
    flat = ravel(ar1) if assume_unique else unique(ar1, size=ar1.size, fill_value=None)
    new = ~isin(flat, ar2)
    if not assume_unique:
        new = new & (lax.concatenate([_true(), flat[1:] != flat[:-1]], 0) if flat.size else new)
    return _pick(flat, new, size, fill_value)


def _true() -> Any:
    return lax.full((1,), True, np.bool_)


def _pick(flat: Any, chosen: Any, size: int, fill_value: Any) -> Any:
    index = nonzero(chosen, size=size, fill_value=flat.size)[0]
    fill = fill_value if fill_value is not None else 0
    return take(flat, index, mode="fill", fill_value=fill)


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements of both arrays, in order."""
    both = concatenate([ravel(lift("union1d", ar1)), ravel(lift("union1d", ar2, 1))])
    if size is None:
        _known("union1d", both)
    return unique(both, size=size, fill_value=fill_value)


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements that both arrays have, in order.

    Args:
        ar1, ar2: arrays.
        assume_unique: promise that neither has an element twice.
        return_indices: also where each first stands in ar1 and in ar2.
        size: how many to give; needed under a transformation.
        fill_value: what stands behind the last one.

    Returns:
        The elements, or elements and two position arrays.
    """
    ar1, ar2 = promote.lift_all("intersect1d", *promote.promote("intersect1d", ar1, ar2))
    int_type = dtypes.python_scalar_dtype(int)
    if size is None:
        found, i, j = np.intersect1d(
            _known("intersect1d", ar1), _known("intersect1d", ar2), assume_unique, True
        )
        parts = (constant(found), constant(i.astype(int_type)), constant(j.astype(int_type)))
        return parts if return_indices else parts[0]
    flat1, flat2 = ravel(ar1), ravel(ar2)
    values, index = unique(flat1, return_index=True, size=flat1.size)
    distinct = lax.concatenate([_true(), values[1:] != values[:-1]], 0)
    shared = isin(values, flat2) & distinct
    where_ = nonzero(shared, size=size, fill_value=values.size)[0]
    fill = values[0] if fill_value is None else fill_value
    found = where(where_ < values.size, values.at[where_].get(mode="clip"), fill)
    if not return_indices:
        return found
    in1 = where(where_ < values.size, index.at[where_].get(mode="clip"), flat1.size)
    in2 = where(where_ < values.size, argmax(found[:, None] == flat2[None, :], 1), flat2.size)
    return found, in1, in2


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements that only one of the arrays has, in order."""
    ar1, ar2 = promote.lift_all("setxor1d", *promote.promote("setxor1d", ar1, ar2))
    if size is None:
        values = np.setxor1d(_known("setxor1d", ar1), _known("setxor1d", ar2), assume_unique)
        return constant(values)
    flat1, flat2 = ravel(ar1), ravel(ar2)
    one = sort(concatenate([flat1, flat2]))
    only = isin(one, flat1) ^ isin(one, flat2)
    distinct = lax.concatenate([_true(), one[1:] != one[:-1]], 0)
    return _pick(one, only & distinct, size, fill_value)
