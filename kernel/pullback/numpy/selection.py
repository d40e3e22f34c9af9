"""Choosing elements: where, select, take, nonzero, clip, diagonals, index grids.

Builds on indexing.py. Tested in tests/numpy/test_selection.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import lax
from pullback.core import errors
from pullback.core.tracer import Tracer
from pullback.core.words import moves_elements
from pullback.numpy import promote
from pullback.numpy.arithmetic import clip
from pullback.numpy.creation import asarray
from pullback.numpy.fused import fused
from pullback.numpy.indexing import read
from pullback.numpy.joining import tile
from pullback.numpy.manipulation import moveaxis, ravel
from pullback.numpy.positions import flatnonzero, nonzero

lift = promote.lift
_BOOL = np.dtype(bool)


@moves_elements(1, 2)
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


# ---------------------------------------------------------------- take


@moves_elements(0)
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


@moves_elements(0)
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
                a,
                "jnp.choose: whether the choices are in range is not known.\n"
                "Instead: mode='clip' or mode='wrap'.",
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
