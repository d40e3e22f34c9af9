"""Choosing elements: where, select, take, nonzero, clip, diagonals, index grids.

Builds on indexing.py. Tested in tests/numpy/test_selection.py.
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
from pullback.numpy.creation import asarray, constant, ones, zeros
from pullback.numpy.fused import fused
from pullback.numpy.indexing import read, wrap_negative
from pullback.numpy.manipulation import moveaxis, ravel, tile
from pullback.numpy.reductions import sum as sum_

lift = promote.lift
_BOOL = np.dtype(bool)


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Elements of x where the condition holds, of y elsewhere; alone, the positions where it holds.

    Args:
        condition: boolean array.
        x, y: arrays that broadcast with the condition.
        size: with the condition alone: how many positions to give.
        fill_value: with `size`: what stands behind the last one.

    Returns:
        An array of the common dtype; or a tuple of position arrays.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("Either both or neither of the x and y arguments should be provided")
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    aval = promote.aval_of("where", condition)
    x, y = promote.promote_pair("where", x, y)
    if aval.dtype != _BOOL:
        condition = lift("where", condition) != 0
    return _where(condition, x, y)


@fused()
def _where(condition: Any, x: Any, y: Any) -> Any:
    shapes = [promote.shape_of(v) for v in (condition, x, y)]
    out = promote.check_shapes("where", *shapes)
    if shapes[0]:
        condition = promote.broadcast_to(condition, out)
    return lax.select(condition, promote.broadcast_to(x, out), promote.broadcast_to(y, out))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """The element of the first choice whose condition holds, else the default."""
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not condlist:
        raise ValueError("condlist must be non-empty")
    values = promote.promote("select", *choicelist, default)
    return _select(list(condlist), values)


@fused()
def _select(conditions: list[Any], values: list[Any]) -> Any:
    result = values[-1]
    for condition, value in builtins.reversed(
        builtins.list(zip(conditions, values[:-1], strict=True))
    ):
        result = _where(condition, value, result)
    return result


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Functions (or numbers) by case: the function of the last condition that holds.

    Args:
        x: array.
        condlist: boolean arrays; later ones win.
        funclist: one function or number per condition, and maybe one more for elsewhere.
        args, kw: passed to the functions.

    Returns:
        An array of x's shape and dtype.
    """
    x = lift("piecewise", x)
    if promote.is_array(condlist) or isinstance(condlist, np.ndarray):
        conditions = list(condlist) if np.ndim(condlist) > x.ndim else [condlist]
    else:
        conditions = [asarray(c) for c in condlist]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        otherwise = functions.pop()
    elif len(functions) == len(conditions):
        otherwise = 0
    else:
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or "
            f"{len(conditions) + 1} functions are expected; got {len(functions)}"
        )

    def value(f: Any) -> Any:
        out = f(x, *args, **kw) if callable(f) else f
        return promote.broadcast_to(promote.cast(lift("piecewise", out), x.dtype), x.shape)

    result = value(otherwise)
    for condition, f in zip(conditions, functions, strict=True):
        result = where(condition, value(f), result)
    return result


def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """The elements moved into [min, max].

    Args:
        arr: array.
        min, max: bounds that broadcast with it; None for no bound.

    Returns:
        An array of the common dtype.
    """
    if arr is None:
        raise ValueError("At least one argument must be provided to clip.")
    parts = [x for x in (arr, min, max) if x is not None]
    if builtins.any(promote.aval_of("clip", x).dtype.kind == "c" for x in parts):
        raise ValueError("Clip received a complex value; clip is only defined for real values.")
    if len(parts) == 1:
        return lift("clip", arr)
    parts = promote.promote("clip", *parts)
    return _clip(parts, min is not None, max is not None)


@fused("low", "high")
def _clip(parts: list[Any], low: bool, high: bool) -> Any:
    x, rest = parts[0], parts[1:]
    if low:
        x = lax.max_p.bind(rest.pop(0), x)
    return lax.min_p.bind(rest.pop(0), x) if high else x


# ---------------------------------------------------------------- take


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """Elements by position along an axis.

    Args:
        a: array.
        indices: integer array of positions.
        axis: which axis; None takes from the flattened array.
        out: not supported: arrays are immutable.
        mode: for positions out of bounds: None or "fill" gives fill_value (NaN, or the smallest
            integer), "clip" the nearest, "wrap" counts around.
        unique_indices, indices_are_sorted: promises that may make the program faster.
        fill_value: see mode.

    Returns:
        An array with the axis replaced by the indices' shape.
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.take is not supported.")
    a, indices = promote.lift_all("take", a, indices)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"take indices must be integers, got {indices.dtype}")
    if axis is None:
        a, axis = ravel(a), 0
    axis = promote.canonical_axis(axis, a.ndim)
    n = a.shape[axis]
    wrap = mode != "clip"
    if mode in (None, "fill"):
        mode = "fill"
    elif mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    elif mode == "wrap":
        indices, mode = indices % n, "promise_in_bounds"
    elif mode not in ("clip", "promise_in_bounds"):
        raise ValueError(f"Invalid mode '{mode}' for np.take")
    return read(
        a,
        (slice(None),) * axis + (indices,),
        mode=mode,
        fill_value=fill_value,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        wrap=wrap,
    )


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Any:
    """Elements by position along an axis, with an own position for each place of the others.

    Args:
        arr: array.
        indices: integer array of arr's rank; other axes broadcast.
        axis: which axis; None flattens arr.
        mode, fill_value: for positions out of bounds, as in `take`.
        wrap_negative_indices: whether negative positions count from the end.

    Returns:
        An array of the indices' shape, broadcast.
    """
    arr, indices = promote.lift_all("take_along_axis", arr, indices)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"take_along_axis indices must be of integer type, got {indices.dtype}")
    if axis is None:
        if indices.ndim != 1:
            raise ValueError(f"when axis is None, indices must be 1-D, got {indices.ndim}-D")
        arr, axis = ravel(arr), 0
    if arr.ndim != indices.ndim:
        raise ValueError(
            f"indices and arr must have the same number of dimensions; {indices.ndim} vs. {arr.ndim}"
        )
    axis = promote.canonical_axis(axis, arr.ndim)
    wrap = wrap_negative_indices
    if wrap is None:
        wrap = mode not in ("clip", "promise_in_bounds")
    return _take_along(arr, indices, fill_value, axis, mode or "fill", wrap)


@fused("axis", "mode", "wrap")
def _take_along(arr: Any, indices: Any, fill: Any, axis: int, mode: str, wrap: bool) -> Any:
    rank = arr.ndim
    out = tuple(
        indices.shape[i] if i == axis else np.broadcast_shapes((a,), (b,))[0]
        for i, (a, b) in enumerate(zip(arr.shape, indices.shape, strict=True))
    )
    index: list[Any] = []
    for i in range(rank):
        if i == axis:
            index.append(indices)
        elif arr.shape[i] == 1:
            index.append(np.zeros((1,) * rank, np.int32))
        else:
            shape = [1] * rank
            shape[i] = arr.shape[i]
            index.append(np.arange(arr.shape[i], dtype=np.int32).reshape(shape))
    result = read(arr, tuple(index), mode=mode, fill_value=fill, wrap=wrap)
    return promote.broadcast_to(result, out)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """A copy of `a` with elements of the flattened array replaced (inplace must be False)."""
    if inplace:
        raise ValueError(
            "jnp.put cannot modify arrays in-place, because JAX arrays are immutable.\n"
            "Instead: a = jnp.put(a, ind, v, inplace=False)"
        )
    a, ind, v = lift("put", a), lift("put", ind, 1), lift("put", v, 2)
    ind, v = ravel(ind), ravel(v)
    if not a.size or not ind.size or not v.size:
        return a
    if ind.size > v.size:
        v = tile(v, -(-ind.size // v.size))
    v = v[: ind.size]
    if mode == "wrap":
        ind, mode = ind % a.size, "promise_in_bounds"
    elif mode == "clip":
        ind, mode = clip(ind, 0, a.size - 1), "promise_in_bounds"
    elif mode not in (None, "drop", "promise_in_bounds"):
        raise ValueError(f"put: mode must be None, 'clip' or 'wrap', got {mode!r}")
    return ravel(a).at[ind].set(v, mode=mode).reshape(a.shape)


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: Any = None
) -> Any:
    """A copy of `arr` with elements replaced at positions along an axis (inplace must be False)."""
    if inplace:
        raise ValueError(
            "jnp.put_along_axis cannot modify arrays in-place, because JAX arrays are immutable.\n"
            "Instead: arr = jnp.put_along_axis(arr, indices, values, axis, inplace=False)"
        )
    arr, indices, values = promote.lift_all("put_along_axis", arr, indices, values)
    shape = arr.shape
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = promote.canonical_axis(axis, arr.ndim)
    index = []
    for i in range(arr.ndim):
        if i == axis:
            index.append(indices)
        else:
            dims = [1] * arr.ndim
            dims[i] = arr.shape[i]
            index.append(np.arange(arr.shape[i], dtype=np.int32).reshape(dims))
    return arr.at[tuple(index)].set(values, mode=mode).reshape(shape)


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """The element of the choice that `a` names, place by place."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.choose is not supported.")
    a = lift("choose", a)
    if a.dtype.kind not in "iu":
        raise ValueError("`a` array must be integer typed")
    values = list(choices)
    n = len(values)
    if mode == "raise":
        if isinstance(a, Tracer) and a.concrete() is None:
            raise errors.ConcretizationTypeError(
                a, "The error arose in jnp.choose. Use mode='clip' or 'wrap' instead."
            )
        known = np.asarray(a)
        if (known < 0).any() or (known >= n).any():
            raise ValueError("invalid entry in choice array")
    elif mode == "clip":
        a = clip(a, 0, n - 1)
    elif mode == "wrap":
        a = a % n
    else:
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    values = promote.lift_all("choose", *promote.promote("choose", *values))
    arrays = promote.broadcast("choose", a, *values)
    stacked = lax.concatenate([x[None] for x in arrays[1:]], 0)
    return take_along_axis(stacked, arrays[0][None], 0)[0]


# ---------------------------------------------------------------- positions


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
                "The size argument of jnp.nonzero must be statically specified to use jnp.nonzero "
                "within JAX transformations.",
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


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements where the condition holds, as a 1-D array."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Any:
    """The slices along an axis where a 1-D condition holds."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.compress is not supported.")
    condition, a = promote.lift_all("compress", condition, a)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1D array")
    if axis is None:
        a, axis = ravel(a), 0
    a = moveaxis(a, axis, 0)
    condition = condition[: a.shape[0]]
    index = flatnonzero(condition, size=size, fill_value=a.shape[0] if size is not None else None)
    mode = "fill" if size is not None else None
    return moveaxis(a.at[index].get(mode=mode, fill_value=fill_value), 0, axis)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """A copy of `arr` with masked elements replaced by `vals` in turn (inplace must be False)."""
    if inplace:
        raise ValueError(
            "jnp.place cannot modify arrays in-place, because JAX arrays are immutable.\n"
            "Instead: arr = jnp.place(arr, mask, vals, inplace=False)"
        )
    arr, mask, vals = promote.lift_all("place", arr, mask, vals)
    flat_mask, vals = ravel(mask) != 0, ravel(vals)
    if not vals.size:
        raise ValueError("Cannot place values from an empty array")
    position = lax.cumsum(lax.convert_element_type(flat_mask, np.int32), 0) - 1
    chosen = take(vals, position % vals.size, mode="clip")
    return where(flat_mask, chosen.astype(arr.dtype), ravel(arr)).reshape(arr.shape)


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
    return _positions(np.tri(n, n if m is None else m, k, dtype=bool))  # type: ignore[return-value]


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Positions at and above the k-th diagonal of an [n, m] matrix."""
    return _positions(~np.tri(n, n if m is None else m, k - 1, dtype=bool))  # type: ignore[return-value]


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
    return nonzero(mask_func(ones((n, n)), k), size=size)  # type: ignore[return-value]


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
