"""Windows at one position that is data: dynamic_slice, dynamic_update_slice and their kin.

Builds on gather.py and scatter.py. Tested in tests/lax/test_dynamic_slice.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core import dtypes, errors
from pullback.core.aval import ShapedArray, make_aval, typeof
from pullback.core.batching import AxisData, bdim_at_front, move_dim
from pullback.core.jvp import Zero, instantiate, is_zero, zero_of
from pullback.core.tracer import Primitive
from pullback.core.transpose import cotangent_aval, is_undefined
from pullback.core.words import moves_elements
from pullback.lax.compare_select import lt_p, select_n_p
from pullback.lax.convert import convert_element_type_p
from pullback.lax.elementwise import add_p
from pullback.lax.families import kind_of
from pullback.lax.gather import GatherDimensionNumbers, GatherScatterMode, gather_p, up
from pullback.lax.operands import canonical_axis, canonical_shape, inserted, same_dtype, shape_of
from pullback.lax.scatter import ScatterDimensionNumbers, scatter_p
from pullback.lax.shape import expand_dims, reshaped, squeeze, zeros
from pullback.lax.slice import concatenate, index_in_dim


def _check_indices(name: str, x: ShapedArray, sizes: tuple, indices: Sequence[ShapedArray]) -> None:
    if len(sizes) != x.ndim or len(indices) != x.ndim:
        raise errors.shape_error(
            f"{name}: one window size and one start index per axis are needed; got sizes {sizes} "
            f"and {len(indices)} indices for {x.str_short()}."
        )
    if any(not 0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)):
        raise errors.shape_error(
            f"{name}: the window {sizes} does not fit into the operand {x.str_short()}.",
            "give slice sizes of at most the operand's.",
        )
    for i in indices:
        if i.ndim or not dtypes.issubdtype(i.dtype, np.integer):
            raise TypeError(f"{name}: start indices must be integer scalars, got {i.str_short()}.")
        if i.dtype != indices[0].dtype:
            raise TypeError(f"{name}: start indices must have one dtype.")


# --------------------------------------------------------------------------- dynamic_slice


def _dynamic_slice_abstract(
    x: ShapedArray, *indices: ShapedArray, slice_sizes: tuple[int, ...]
) -> ShapedArray:
    _check_indices("dynamic_slice", x, slice_sizes, indices)
    return make_aval(slice_sizes, x.dtype, x.weak_type)


def _dynamic_slice_jvp(primals: Any, tangents: Any, *, slice_sizes: tuple) -> tuple[Any, Any]:
    x, *indices = primals
    out = dynamic_slice_p.bind(x, *indices, slice_sizes=slice_sizes)
    if is_zero(tangents[0]):
        return out, zero_of(out)
    return out, dynamic_slice_p.bind(tangents[0], *indices, slice_sizes=slice_sizes)


def _dynamic_slice_transpose(ct: Any, x: Any, *indices: Any, slice_sizes: tuple) -> list[Any]:
    aval = cotangent_aval(x)
    none = [None] * len(indices)
    if is_zero(ct):
        return [Zero(aval), *none]
    return [dynamic_update_slice_p.bind(zeros(aval), ct, *indices), *none]


def _index_vectors(axis: AxisData, indices: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Batched start indices as an array [batch, n]."""
    columns = [
        reshaped(bdim_at_front(i, d, axis.size), (axis.size, 1))
        for i, d in zip(indices, dims, strict=True)
    ]
    return concatenate(columns, 1)


def _dynamic_slice_batch(
    axis: AxisData, args: Any, dims: Any, *, slice_sizes: tuple
) -> tuple[Any, int]:
    (x, *indices), (d, *index_dims) = args, dims
    if all(i is None for i in index_dims):
        zero = np.zeros((), typeof(indices[0]).dtype)[()] if indices else np.int32(0)
        new = inserted(indices, d, zero)
        return dynamic_slice_p.bind(x, *new, slice_sizes=inserted(slice_sizes, d, axis.size)), d
    n = len(indices)
    all_axes = tuple(range(n))
    if d is None:
        numbers = GatherDimensionNumbers(up(all_axes), (), all_axes)
    else:
        x = move_dim(x, d, 0)
        numbers = GatherDimensionNumbers(up(all_axes), (), up(all_axes), (0,), (0,))
        slice_sizes = (min(1, axis.size), *slice_sizes)
    out = gather_p.bind(
        x,
        _index_vectors(axis, indices, index_dims),
        dimension_numbers=numbers,
        slice_sizes=slice_sizes,
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )
    return out, 0


dynamic_slice_p = Primitive(
    name="dynamic_slice",
    abstract=_dynamic_slice_abstract,
    lower=lambda ctx, x, *indices, slice_sizes: ctx.hlo.dynamic_slice(
        x, indices, ctx.dims(slice_sizes)
    ),
    jvp=_dynamic_slice_jvp,
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
    label=lambda params: f"dynamic_slice {params['slice_sizes']}",
    doc="The window of known size at a position that is data, moved inside if it reaches out.",
)


# --------------------------------------------------------------------------- dynamic_update_slice


def _update_abstract(x: ShapedArray, update: ShapedArray, *indices: ShapedArray) -> ShapedArray:
    same_dtype("dynamic_update_slice", x, update)
    if x.ndim != update.ndim:
        raise errors.shape_error(
            f"dynamic_update_slice: update must have the operand's rank, got "
            f"{update.str_short()} for {x.str_short()}."
        )
    _check_indices("dynamic_update_slice", x, update.shape, indices)
    return make_aval(x.shape, x.dtype, x.weak_type)


def _update_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    x, update, *indices = primals
    tx, tu, *_ = tangents
    out = dynamic_update_slice_p.bind(x, update, *indices)
    if is_zero(tx) and is_zero(tu):
        return out, zero_of(out)
    return out, dynamic_update_slice_p.bind(instantiate(tx), instantiate(tu), *indices)


def _update_transpose(ct: Any, x: Any, update: Any, *indices: Any) -> list[Any]:
    x_aval, u_aval = cotangent_aval(x), cotangent_aval(update)
    x_ct, u_ct = None, None
    if is_undefined(x):
        x_ct = ct if is_zero(ct) else dynamic_update_slice_p.bind(ct, zeros(u_aval), *indices)
    if is_undefined(update):
        u_ct = Zero(u_aval)
        if not is_zero(ct):
            u_ct = dynamic_slice_p.bind(ct, *indices, slice_sizes=u_aval.shape)
    return [Zero(x_aval) if is_zero(x_ct) else x_ct, u_ct, *[None] * len(indices)]


def _update_batch(axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
    (x, update, *indices), (dx, du, *index_dims) = args, dims
    x = bdim_at_front(x, dx, axis.size)
    update = bdim_at_front(update, du, axis.size)
    if all(i is None for i in index_dims):
        zero = np.zeros((), typeof(indices[0]).dtype)[()] if indices else np.int32(0)
        return dynamic_update_slice_p.bind(x, update, zero, *indices), 0
    all_axes = up(range(len(indices)))
    out = scatter_p.bind(
        x,
        _index_vectors(axis, indices, index_dims),
        update,
        dimension_numbers=ScatterDimensionNumbers(all_axes, (), all_axes, (0,), (0,)),
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
    )
    return out, 0


dynamic_update_slice_p = Primitive(
    name="dynamic_update_slice",
    abstract=_update_abstract,
    lower=lambda ctx, x, update, *indices: ctx.hlo.dynamic_update_slice(x, update, indices),
    jvp=_update_jvp,
    transpose=_update_transpose,
    batch=_update_batch,
    doc="The operand with a window replaced, at a position that is data.",
)

# --------------------------------------------------------------------------- what users call


def _start_indices(name: str, shape: tuple[int, ...], indices: Any, negative: Any) -> list[Any]:
    """One integer scalar per axis, of one dtype; negative ones counted from the end."""
    if typeof_or_none(indices) is not None and shape_of(indices) != ():
        n = shape_of(indices)[0]
        parts = [index_in_dim(indices, i, 0, keepdims=False) for i in range(n)]
    else:
        parts = list(indices)
    if len(parts) != len(shape):
        raise errors.shape_error(
            f"{name}: one start index per axis is needed, got {len(parts)} for shape {shape}."
        )
    flags = [negative] * len(shape) if isinstance(negative, bool) else list(negative)
    if len(flags) != len(shape):
        raise errors.shape_error(
            f"{name}: allow_negative_indices must be one bool or one per axis, got {flags}."
        )
    dtype = _index_dtype(name, parts)
    return [
        _index_scalar(part, size, flag, dtype)
        for part, size, flag in zip(parts, shape, flags, strict=True)
    ]


def typeof_or_none(x: Any) -> ShapedArray | None:
    """The type of an array; None for a Python sequence."""
    return None if isinstance(x, (list, tuple)) else typeof(x)


def _index_dtype(name: str, parts: Sequence[Any]) -> Any:
    avals = [typeof(p) for p in parts]
    for a in avals:
        if a.ndim or kind_of(a.dtype) not in ("signed", "unsigned", "bool"):
            raise TypeError(f"{name}: start indices must be integer scalars, got {a.str_short()}.")
    strong = [a.dtype for a in avals if not a.weak_type]
    if not strong or any(d == np.bool_ for d in strong):
        return np.dtype(np.int32)
    dtype = strong[0]
    for d in strong[1:]:
        dtype = dtypes.promote_types(dtype, d)
    return dtype if dtypes.issubdtype(dtype, np.integer) else np.dtype(np.int64)


def _index_scalar(index: Any, size: int, negative: bool, dtype: Any) -> Any:
    signed = dtypes.issubdtype(dtype, np.signedinteger)
    if isinstance(index, (int, np.integer)):
        number = int(index)
        number += size if negative and number < 0 else 0
        info = dtypes.iinfo(dtype)
        return np.asarray(min(max(number, int(info.min)), int(info.max))).astype(dtype)[()]
    if typeof(index).dtype != dtype:
        index = convert_element_type_p.bind(index, new_dtype=dtype, weak_type=False)
    if not (negative and signed) or size > int(dtypes.iinfo(dtype).max):
        return index
    n = np.asarray(size).astype(dtype)[()]
    zero = np.zeros((), dtype)[()]
    return select_n_p.bind(lt_p.bind(index, zero), index, add_p.bind(index, n))


@moves_elements(0)
def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The window of size `slice_sizes` at a position that may be data.

    Args:
        operand: array.
        start_indices: one integer scalar per axis, or a vector of them; a window that reaches out
            is moved inside.
        slice_sizes: known size of the window per axis.
        allow_negative_indices: whether negative indices count from the end (False saves a select).

    Returns:
        An array of shape `slice_sizes`.

    Raises:
        TypeError: the window does not fit, or indices are not integer scalars.
    """
    sizes = canonical_shape("dynamic_slice", slice_sizes)
    shape = shape_of(operand)
    indices = _start_indices("dynamic_slice", shape, start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *indices, slice_sizes=sizes)


@moves_elements(0, 1)
def dynamic_update_slice(
    operand: Any,
    update: Any,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Any:
    """The operand with the window at a position that may be data replaced by `update`.

    Args:
        operand, update: arrays of one rank and dtype.
        start_indices, allow_negative_indices: as in `dynamic_slice`.

    Raises:
        TypeError: the window does not fit, or dtypes differ.
    """
    shape = shape_of(operand)
    indices = _start_indices("dynamic_update_slice", shape, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind(operand, update, *indices)


def _along(operand: Any, index: Any, axis: int, name: str) -> tuple[list[Any], int]:
    """Start indices that are zero but on one axis."""
    ndim = typeof(operand).ndim
    axis = canonical_axis(name, axis, ndim)
    starts: list[Any] = [0] * ndim
    starts[axis] = index
    return starts, axis


@moves_elements(0)
def dynamic_slice_in_dim(
    operand: Any,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_slice` along one axis."""
    starts, axis = _along(operand, start_index, axis, "dynamic_slice_in_dim")
    sizes = list(shape_of(operand))
    sizes[axis] = slice_size
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


@moves_elements(0)
def dynamic_index_in_dim(
    operand: Any,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """The operand at one index of an axis, which stays with size 1 if `keepdims`."""
    out = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    axis = canonical_axis("dynamic_index_in_dim", axis, typeof(operand).ndim)
    return out if keepdims else squeeze(out, (axis,))


@moves_elements(0, 1)
def dynamic_update_slice_in_dim(
    operand: Any,
    update: Any,
    start_index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """`dynamic_update_slice` along one axis."""
    starts, _ = _along(operand, start_index, axis, "dynamic_update_slice_in_dim")
    return dynamic_update_slice(
        operand, update, starts, allow_negative_indices=allow_negative_indices
    )


@moves_elements(0, 1)
def dynamic_update_index_in_dim(
    operand: Any,
    update: Any,
    index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Any:
    """The operand with its entry at one index of an axis replaced.

    Args:
        update: of the operand's rank with size 1 on the axis, or without the axis.
    """
    ndim = typeof(operand).ndim
    axis = canonical_axis("dynamic_update_index_in_dim", axis, ndim)
    if typeof(update).ndim != ndim:
        if typeof(update).ndim + 1 != ndim:
            raise errors.shape_error(
                f"dynamic_update_index_in_dim: update must have the operand's rank or one axis "
                f"less, got shapes {shape_of(update)} and {shape_of(operand)}."
            )
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )
