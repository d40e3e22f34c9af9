"""Positions of elements, diagonals and index grids.

Builds on selection.py. Tested in tests/numpy/.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import dtypes, errors
from pullback.core.tracer import Tracer
from pullback.numpy import promote
from pullback.numpy.arithmetic import clip
from pullback.numpy.creation import asarray, constant, ones, zeros
from pullback.numpy.fused import fused
from pullback.numpy.index_plan import wrap_negative
from pullback.numpy.indexing import read
from pullback.numpy.manipulation import moveaxis, ravel
from pullback.numpy.reductions import sum as sum_

# ---------------------------------------------------------------- positions

lift = promote.lift
_BOOL = np.dtype(bool)


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The positions of the elements that are not 0, one array per axis.

    Args:
        a: array; must be known unless `size` is given.
        size: how many positions to give: more are left out, missing ones filled.
        fill_value: what stands behind the last one (0 if None); a number or one per axis.

    Returns:
        One integer array per axis.
    """
    a = lift("nonzero", a)
    if a.ndim == 0:
        a = a[None]
    int_type = dtypes.python_scalar_dtype(int)
    if size is None:
        known = a.concrete() if isinstance(a, Tracer) else a
        if known is None:
            raise errors.ConcretizationTypeError(
                a,
                "The size argument of jnp.nonzero must be given under a transformation: how many "
                "positions there are depends on the values.\n"
                "Instead: jnp.nonzero(x, size=n, fill_value=0); jnp.where(c, a, b) needs no size.",
            )
        return tuple(constant(i.astype(int_type)) for i in np.nonzero(np.asarray(known)))
    size = promote.index_of(size, "size")
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * a.ndim
    if isinstance(fill_value, tuple) and len(fills) != a.ndim:
        raise ValueError("fill_value must have one value per axis of the array")
    fills = tuple(0 if f is None else f for f in fills)
    return tuple(_nonzero(a, list(fills), size, int_type))


@fused("size", "int_type")
def _nonzero(a: Any, fills: list[Any], size: int, int_type: Any) -> list[Any]:
    if a.size == 0 or size == 0:
        return [promote.broadcast_to(promote.cast(f, int_type), (size,)) for f in fills]
    flat = lax.convert_element_type(lax.reshape(a, (a.size,)) != 0, int_type)
    # Entry n of `found` is how many positions come before the n-th true element.
    ranks = lax.cumsum(flat, 0)
    counts = lax.full((size,), 0, int_type).at[ranks].add(np.ones((), int_type), mode="drop")
    found = lax.cumsum(counts, 0)
    total = ranks[-1]
    valid = lax.iota(int_type, size) < total
    out = []
    stride = a.size
    for n, fill in zip(a.shape, fills, strict=True):
        stride //= n
        position = (found // stride) % n
        filler = promote.broadcast_to(promote.cast(fill, int_type), (size,))
        out.append(lax.select(valid, position, filler))
    return out


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions, in the flattened array, of the elements that are not 0."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions of the elements that are not 0, one per row."""
    a = lift("argwhere", a)
    found = nonzero(a, size=size, fill_value=fill_value)
    if a.ndim == 0:
        return zeros((found[0].size, 0), found[0].dtype)
    return lax.concatenate([i[:, None] for i in found], 1)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Positions in the flattened array as positions per axis.

    Args:
        indices: integer array; those out of bounds are moved to the ends.
        shape: the array's shape.

    Returns:
        One array per axis.
    """
    indices = lift("unravel_index", indices)
    dims = promote.canonical_shape(shape)
    return tuple(_unravel(indices, dims))


@fused("dims")
def _unravel(indices: Any, dims: tuple[int, ...]) -> list[Any]:
    total = math.prod(dims)
    dtype = indices.dtype
    index = wrap_negative(indices, total)
    index = lax.clamp(
        np.asarray(0, index.dtype), index, np.asarray(builtins.max(total - 1, 0), index.dtype)
    )
    out = []
    stride = total
    for n in dims:
        stride = stride // n if n else 1
        out.append(
            lax.convert_element_type((index // builtins.max(stride, 1)) % builtins.max(n, 1), dtype)
        )
    return out


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Any:
    """Positions per axis as positions in the flattened array.

    Args:
        multi_index: one integer array per axis.
        dims: the array's shape.
        mode: for positions out of bounds: "raise" (they must be known), "wrap" or "clip".
        order: "C" or "F".
        dtype: of the result.

    Returns:
        An integer array.
    """
    dims = promote.canonical_shape(dims)
    parts = promote.lift_all("ravel_multi_index", *multi_index)
    if len(parts) != len(dims):
        raise ValueError("len(multi_index) must equal len(dims)")
    if builtins.any(p.dtype.kind not in "iu" for p in parts):
        raise TypeError("only int indices permitted")
    fixed = []
    for part, n in zip(parts, dims, strict=True):
        if mode == "raise":
            known = np.asarray(part)
            if (known < 0).any() or (known >= n).any():
                raise ValueError("invalid entry in coordinates array")
        elif mode == "clip":
            part = clip(part, 0, n - 1)
        elif mode == "wrap":
            part = part % n
        else:
            raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', or 'clip'")
        fixed.append(part)
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    strides = np.cumprod((1, *(dims[:0:-1] if order == "C" else dims[:-1])))
    strides = strides[::-1] if order == "C" else strides
    int_type = (
        dtypes.python_scalar_dtype(int)
        if dtype is None
        else dtypes.requested_dtype(dtype, "ravel_multi_index")
    )
    result = zeros((), int_type)
    for part, stride in zip(fixed, strides.tolist(), strict=True):
        result = result + part.astype(int_type) * stride
    return result


# ---------------------------------------------------------------- diagonals and grids


def diag(v: Any, k: int = 0) -> Any:
    """The k-th diagonal of a matrix, or the matrix with a vector on it."""
    v = lift("diag", v)
    if v.ndim == 1:
        return _diag_matrix(v, promote.index_of(k, "k"))
    if v.ndim == 2:
        return diagonal(v, k)
    raise ValueError("diag input must be 1d or 2d")


@fused("k")
def _diag_matrix(v: Any, k: int) -> Any:
    n = v.shape[0] + builtins.abs(k)
    rows = lax.broadcasted_iota(np.int32, (n, n), 0)
    columns = lax.broadcasted_iota(np.int32, (n, n), 1)
    padded = lax.pad(v, np.zeros((), v.dtype), [(builtins.max(0, k), builtins.max(0, -k), 0)])
    values = lax.broadcast_in_dim(padded, (n, n), (1,))
    return lax.select(rows + k == columns, values, lax.full_like(values, 0))


def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the flattened elements on its k-th diagonal."""
    return diag(ravel(lift("diagflat", v)), k)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, as the last axis of the result.

    Args:
        a: array with at least two axes.
        offset: which diagonal: above the main one if positive.
        axis1, axis2: the axes of the matrices.

    Returns:
        The array without the two axes and with the diagonal last.
    """
    a = lift("diagonal", a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    i, j = promote.canonical_axis(axis1, a.ndim), promote.canonical_axis(axis2, a.ndim)
    return _diagonal(moveaxis(a, (i, j), (-2, -1)), promote.index_of(offset, "offset"))


@fused("offset")
def _diagonal(a: Any, offset: int) -> Any:
    n, m = a.shape[-2:]
    size = builtins.max(0, builtins.min(n + builtins.min(offset, 0), m - builtins.max(offset, 0)))
    i = np.arange(size, dtype=np.int32)
    rows, columns = i - builtins.min(0, offset), i + builtins.max(0, offset)
    return read(a, (Ellipsis, rows, columns), mode="promise_in_bounds", wrap=False)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Any:
    """The sum of a diagonal of two axes. Arguments as in `diagonal`."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.trace is not supported.")
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """A copy of `a` with its main diagonal replaced (inplace must be False)."""
    if inplace:
        raise NotImplementedError(
            "JAX arrays are immutable, must use inplace=False.\n"
            "Instead: a = jnp.fill_diagonal(a, val, inplace=False)"
        )
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a, val = promote.lift_all("fill_diagonal", a, val)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    n = builtins.min(a.shape)
    i = np.arange(n, dtype=np.int32)
    values = promote.broadcast_to(val, (n,)) if val.ndim == 0 else _cycle(ravel(val), n)
    return a.at[(i,) * a.ndim].set(values)


def _cycle(v: Any, n: int) -> Any:
    return v[:n] if v.size >= n else v[np.arange(n, dtype=np.int32) % v.size]


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Positions of the main diagonal of an array with `ndim` axes of length n."""
    n, ndim = promote.index_of(n, "n"), promote.index_of(ndim, "ndim")
    if n < 0 or ndim < 0:
        raise ValueError(f"n and ndim must not be negative, got {n} and {ndim}")
    return (constant(np.arange(n, dtype=dtypes.python_scalar_dtype(int))),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Positions of the main diagonal of an array with equal axes."""
    dims = lift("diag_indices_from", arr).shape
    if len(dims) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(dims)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(dims[0], len(dims))


def _positions(mask: np.ndarray) -> tuple[Any, ...]:
    return tuple(constant(i.astype(dtypes.python_scalar_dtype(int))) for i in np.nonzero(mask))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Positions at and below the k-th diagonal of an [n, m] matrix."""
    return _positions(np.tri(n, n if m is None else m, k, dtype=bool))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Positions at and above the k-th diagonal of an [n, m] matrix."""
    return _positions(~np.tri(n, n if m is None else m, k - 1, dtype=bool))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Positions at and below the k-th diagonal of a matrix."""
    n, m = lift("tril_indices_from", arr).shape
    return tril_indices(n, k, m)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Positions at and above the k-th diagonal of a matrix."""
    n, m = lift("triu_indices_from", arr).shape
    return triu_indices(n, k, m)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Any, Any]:
    """Positions where mask_func(ones((n, n)), k) is not 0."""
    return nonzero(mask_func(ones((n, n)), k), size=size)


def ix_(*args: Any) -> tuple[Any, ...]:
    """1-D arrays shaped so that together they index an open mesh."""
    n = len(args)
    out = []
    for i, x in enumerate(args):
        x = lift("ix_", asarray(x) if isinstance(x, (list, tuple)) else x)
        if x.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {x.shape}"
            )
        if x.dtype == _BOOL:
            x = nonzero(x)[0]
        out.append(lax.reshape(x, tuple(x.size if j == i else 1 for j in range(n))))
    return tuple(out)


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The position of every element of a grid: entry [i] holds the positions along axis i."""
    dims = promote.canonical_shape(tuple(dimensions))
    int_type = (
        dtypes.python_scalar_dtype(int)
        if dtype is None
        else dtypes.requested_dtype(dtype, "indices")
    )
    if sparse:
        return tuple(
            constant(np.ascontiguousarray(g)) for g in np.indices(dims, int_type, sparse=True)
        )
    return constant(np.ascontiguousarray(np.indices(dims, int_type)))


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Coordinate arrays of a grid, from its axes.

    Args:
        xi: 1-D arrays.
        copy: True only: arrays are immutable.
        sparse: leave axes of size 1, to broadcast later.
        indexing: "xy" (the second axis first, as for pictures) or "ij".

    Returns:
        One array per axis.
    """
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    arrays = promote.lift_all("meshgrid", *xi)
    if builtins.any(x.ndim > 1 for x in arrays):
        raise ValueError(
            "Arguments to jax.numpy.meshgrid must be at most 1D, got shapes "
            f"{', '.join(str(x.shape) for x in arrays)}"
        )
    arrays = [lax.reshape(x, (x.size,)) for x in arrays]
    return list(_meshgrid(arrays, sparse, indexing)) if arrays else []


@fused("sparse", "indexing")
def _meshgrid(arrays: list[Any], sparse: bool, indexing: str) -> list[Any]:
    rank = len(arrays)
    order = list(range(rank))
    if indexing == "xy" and rank >= 2:
        order[0], order[1] = 1, 0
    sizes = [0] * rank
    for x, axis in zip(arrays, order, strict=True):
        sizes[axis] = x.size
    out = []
    for x, axis in zip(arrays, order, strict=True):
        dims = tuple(x.size if i == axis else 1 for i in range(rank)) if sparse else tuple(sizes)
        out.append(lax.broadcast_in_dim(x, dims, (axis,)))
    return out
