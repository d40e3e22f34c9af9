"""Shapes: reshape, transpose, joining, splitting, repeating, flipping, rolling.

Builds on promote.py and lax. Tested in tests/numpy/test_manipulation.py.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import errors
from pullback.core.tracer import Tracer
from pullback.core.words import has_words, moves_elements
from pullback.numpy import promote
from pullback.numpy.fused import fused

lift = promote.lift


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array (or of what NumPy makes of nested lists)."""
    if has_words(a):
        return a.shape
    return promote.aval_of("shape", a).shape if not isinstance(a, (list, tuple)) else np.shape(a)


def ndim(a: Any) -> int:
    """The number of axes."""
    return len(shape(a))


def size(a: Any, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, along axes or in all."""
    dims = shape(a)
    return math.prod(dims[i] for i in promote.canonical_axes(axis, len(dims)))


# ---------------------------------------------------------------- one array, same elements


def new_shape(a: Any, dims: Any) -> tuple[int, ...]:
    """The shape that `reshape` was asked for, with -1 worked out.

    Raises:
        TypeError: the number of elements does not fit.
    """
    if isinstance(dims, (int, np.integer)) or (promote.is_array(dims) and np.ndim(dims) == 0):
        dims = (dims,)
    try:
        sizes = [promote.index_of(d, "reshape dimension") for d in dims]
    except TypeError:
        if any(isinstance(d, Tracer) for d in dims):
            raise errors.traced_shape_error(dims) from None
        raise
    unknown = sizes.count(-1)
    if unknown > 1:
        raise errors.shape_error(
            f"can only specify one unknown axis size with a `-1` value, got {tuple(sizes)}.",
            "give all sizes but one.",
        )
    known = math.prod(d for d in sizes if d != -1)
    if unknown:
        if known == 0 or a.size % known:
            raise errors.shape_error(
                f"cannot reshape array of shape {a.shape} (size {a.size}) into shape "
                f"{tuple(sizes)}: the product of the given sizes, {known}, does not divide it.",
                "choose sizes whose product divides the number of elements.",
            )
        return tuple(a.size // known if d == -1 else d for d in sizes)
    if known != a.size or builtins.any(d < 0 for d in sizes):
        raise errors.shape_error(
            f"cannot reshape array of shape {a.shape} (size {a.size}) into shape "
            f"{tuple(sizes)} (size {known}).",
            "the number of elements must stay; one size may be -1, which is then worked out.",
        )
    return tuple(sizes)


@moves_elements(0)
def reshape(
    a: Any,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Any:
    """The elements in another shape.

    Args:
        a: array.
        shape: integer or sequence of integers; one may be -1, for what is left.
        order: "C", or "F" to read and write columns first.
        copy: False is refused: arrays on devices may be copied.
        out_sharding: accepted for compatibility.

    Returns:
        The array.

    Raises:
        TypeError: the number of elements does not fit.
    """
    del out_sharding
    if copy is False:
        raise NotImplementedError("jnp.reshape with copy=False: it may copy on a device.")
    a = lift("reshape", a)
    dims = new_shape(a, shape)
    if order == "F":
        return _reshape_f(a, dims)
    if order != "C":
        raise NotImplementedError(f"np.reshape order={order!r}: only 'C' and 'F' are known.")
    return a if dims == a.shape else lax.reshape(a, dims)


@fused("dims")
def _reshape_f(a: Any, dims: tuple[int, ...]) -> Any:
    reverse = lax.transpose(a, tuple(range(a.ndim))[::-1])
    return lax.transpose(lax.reshape(reverse, dims[::-1]), tuple(range(len(dims)))[::-1])


@moves_elements(0)
def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as a 1-D array."""
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    a = lift("ravel", a)
    return reshape(a, (a.size,), order)


@moves_elements(0)
def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order (reversed if None).

    Args:
        a: array.
        axes: a permutation of the axes.

    Returns:
        The array.
    """
    a = lift("transpose", a)
    rank = a.ndim
    if axes is None:
        perm = tuple(range(rank))[::-1]
    else:
        perm = tuple(promote.canonical_axis(i, rank) for i in axes)
        if sorted(perm) != list(range(rank)):
            raise ValueError(
                f"transpose permutation isn't a permutation of operand dimensions, "
                f"got permutation {tuple(axes)} for operand shape {a.shape}."
            )
    return a if perm == tuple(range(rank)) else lax.transpose(a, perm)


@moves_elements(0)
def permute_dims(a: Any, /, axes: tuple[int, ...]) -> Any:
    """The axes in another order; the array API's name of `transpose`."""
    return transpose(a, axes)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    x = lift("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={x.ndim}"
        )
    return swapaxes(x, -1, -2)


@moves_elements(0)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    a = lift("swapaxes", a)
    perm = list(range(a.ndim))
    i, j = promote.canonical_axis(axis1, a.ndim), promote.canonical_axis(axis2, a.ndim)
    perm[i], perm[j] = perm[j], perm[i]
    return a if i == j else lax.transpose(a, tuple(perm))


@moves_elements(0)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other positions; the others keep their order."""
    a = lift("moveaxis", a)
    sources = promote.canonical_axes(tuple(np.atleast_1d(source).tolist()), a.ndim)
    targets = promote.canonical_axes(tuple(np.atleast_1d(destination).tolist()), a.ndim)
    if len(sources) != len(targets):
        raise ValueError(f"Inconsistent number of elements: {len(sources)} vs {len(targets)}")
    perm = [i for i in range(a.ndim) if i not in sources]
    for target, source_axis in sorted(zip(targets, sources, strict=True)):
        perm.insert(target, source_axis)
    return a if perm == list(range(a.ndim)) else lax.transpose(a, tuple(perm))


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """An axis moved back until it lies before `start`."""
    a = lift("rollaxis", a)
    rank = a.ndim
    axis = promote.canonical_axis(axis, rank)
    if not -rank <= start <= rank:
        raise ValueError(f"start={start!r} must satisfy {-rank}<=start<={rank}")
    start = start + rank if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


@moves_elements(0)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Without axes of size 1 (all of them, or the given ones)."""
    a = lift("squeeze", a)
    if axis is None:
        axes = tuple(i for i, d in enumerate(a.shape) if d == 1)
    else:
        axes = promote.canonical_axes(axis, a.ndim)
        if builtins.any(a.shape[i] != 1 for i in axes):
            raise ValueError(
                "cannot select an axis to squeeze out which has size not equal to one, "
                f"got shape={a.shape} and dimensions={axes}"
            )
    return lax.squeeze(a, axes) if axes else a


@moves_elements(0)
def expand_dims(a: Any, axis: Any) -> Any:
    """With new axes of size 1 at the given positions of the result."""
    a = lift("expand_dims", a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = a.ndim + len(axes)
    axes = promote.canonical_axes(tuple(axes), rank)
    dims = iter(a.shape)
    out = tuple(1 if i in axes else next(dims) for i in range(rank))
    return lax.broadcast_in_dim(a, out, tuple(i for i in range(rank) if i not in axes))


@moves_elements(0)
def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """The array repeated to a shape, by NumPy's rules."""
    del out_sharding
    return promote.broadcast_to(lift("broadcast_to", array), promote.canonical_shape(shape))


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays repeated to their common shape."""
    return promote.broadcast("broadcast_arrays", *promote.lift_all("broadcast_arrays", *args))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""
    tuples = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return promote.check_shapes("broadcast_shapes", *tuples) if tuples else ()


@moves_elements(0)
def atleast_1d(*arys: Any) -> Any:
    """Arrays with at least one axis; one array gives an array, several a list."""
    out = []
    for x in arys:
        x = lift("atleast_1d", x)
        out.append(lax.reshape(x, (1,)) if x.ndim == 0 else x)
    return out[0] if len(arys) == 1 else out


def atleast_2d(*arys: Any) -> Any:
    """Arrays with at least two axes, new ones in front."""
    out = []
    for x in arys:
        x = lift("atleast_2d", x)
        out.append(x if x.ndim >= 2 else lax.reshape(x, (1,) * (2 - x.ndim) + x.shape))
    return out[0] if len(arys) == 1 else out


def atleast_3d(*arys: Any) -> Any:
    """Arrays with at least three axes, as NumPy puts them."""
    out = []
    for x in arys:
        x = lift("atleast_3d", x)
        if x.ndim == 0:
            x = lax.reshape(x, (1, 1, 1))
        elif x.ndim == 1:
            x = lax.reshape(x, (1, x.size, 1))
        elif x.ndim == 2:
            x = lax.reshape(x, (*x.shape, 1))
        out.append(x)
    return out[0] if len(arys) == 1 else out


# ---------------------------------------------------------------- turning


@moves_elements(0)
def flip(m: Any, axis: Any = None) -> Any:
    """The order of elements reversed along axes (all if None)."""
    m = lift("flip", m)
    return lax.rev(m, promote.canonical_axes(axis, m.ndim))


def fliplr(m: Any) -> Any:
    """The order along the second axis reversed."""
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """The order along the first axis reversed."""
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by k right angles in the plane of two axes, from the first towards the second."""
    m = lift("rot90", m)
    i, j = (promote.canonical_axis(x, m.ndim) for x in axes)
    if i == j:
        raise ValueError("Axes must be different")
    k = k % 4
    if k == 0:
        return m
    if k == 2:
        return flip(m, (i, j))
    return flip(swapaxes(m, i, j), i) if k == 1 else swapaxes(flip(m, i), i, j)
