"""`x.at[index]`: arrays with some elements replaced, as new arrays.

Builds on indexing.py and lax's scatters. Tested in tests/numpy/test_at.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import lax
from pullback.core.tracer import eval_trace, state
from pullback.numpy import promote
from pullback.numpy.arithmetic import divide, power
from pullback.numpy.fused import fused
from pullback.numpy.index_plan import Plan, index_vectors, parse
from pullback.numpy.indexing import _can_slide, _window, read, wrapped_starts
from pullback.xla.arguments import scalar_array
from pullback.xla.array import Array


class IndexUpdateHelper:
    """What `x.at` gives: `x.at[index]` names elements to read or to replace."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "x.at[index] = y does not change x: arrays are immutable.\n"
            "Instead: x = x.at[index].set(y)."
        )

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class IndexUpdateRef:
    """Elements of an array, by index. Methods give a new array; the old one stays as it is.

    All take `indices_are_sorted` and `unique_indices` (promises that may make the program faster),
    `mode` (for positions out of bounds: None or "drop" leaves them out, "clip" takes the nearest,
    "promise_in_bounds" leaves it undefined) and `wrap_negative_indices`. With repeated positions
    every update counts, in no particular order (for `set`, one of them wins).
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The elements, `x[index]`; mode="fill" gives fill_value (NaN) for those out of bounds."""
        del out_sharding
        return read(
            self.array,
            self.index,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap=wrap_negative_indices,
        )

    def set(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with x[index] = values."""
        del out_sharding
        if (
            type(self.index) is int
            and mode is None
            and wrap_negative_indices
            and state.trace is eval_trace
        ):
            fast = _set_row_eager(self.array, self.index, values)
            if fast is not None:
                return fast
        return _update(
            "set",
            self.array,
            self.index,
            values,
            mode,
            indices_are_sorted,
            unique_indices,
            wrap_negative_indices,
        )

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """x with x[index] = func(x[index]); func is applied element by element."""
        plan, arrays, shape = parse(self.index, self.array.shape)
        x = self.array
        indices, numbers, _ = _scatter_plan(plan, arrays, shape, wrap_negative_indices)
        return lax.scatter_apply(
            x,
            indices,
            func,
            numbers,
            update_shape=plan.result_shape(shape),
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode="drop" if mode in (None, "fill") else mode,
        )


def _method(name: str, kind: str, formula: str) -> Callable[..., Any]:
    def method(
        self: IndexUpdateRef,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        del out_sharding
        return _update(
            kind,
            self.array,
            self.index,
            values,
            mode,
            indices_are_sorted,
            unique_indices,
            wrap_negative_indices,
        )

    method.__name__ = name
    method.__qualname__ = f"IndexUpdateRef.{name}"
    method.__doc__ = f"x with {formula}."
    return method


for _name, _kind, _formula in (
    ("add", "add", "x[index] += values"),
    ("subtract", "sub", "x[index] -= values"),
    ("multiply", "mul", "x[index] *= values"),
    ("mul", "mul", "x[index] *= values"),
    ("min", "min", "x[index] = minimum(x[index], values)"),
    ("max", "max", "x[index] = maximum(x[index], values)"),
):
    setattr(IndexUpdateRef, _name, _method(_name, _kind, _formula))


def _through_factor(
    name: str, combine: Callable[[Any, Any], Any], formula: str
) -> Callable[..., Any]:
    """divide and power: combine(x, ones.at[index].multiply(values))."""

    def method(self: IndexUpdateRef, values: Any, **options: Any) -> Any:
        x = self.array
        values = promote.lift(name, values)
        dtype = values.dtype if name == "power" else x.dtype
        ones = lax.full_like(x, 1, dtype=dtype)
        factor = IndexUpdateRef(ones, self.index).multiply(values, **options)  # type: ignore[attr-defined]
        return combine(x, factor)

    method.__name__ = name
    method.__qualname__ = f"IndexUpdateRef.{name}"
    method.__doc__ = f"x with {formula}."
    return method


IndexUpdateRef.divide = _through_factor("divide", divide, "x[index] /= values")  # type: ignore[attr-defined]
IndexUpdateRef.power = _through_factor("power", power, "x[index] **= values")  # type: ignore[attr-defined]


# ---------------------------------------------------------------- how


def _set_row_eager(x: Any, index: int, values: Any) -> Any:
    """The common `x.at[i].set(y)`; None where it is not that simple."""
    aval = getattr(x, "aval", None)
    if aval is None or not aval.shape or type(x) is not Array:
        return None
    n = aval.shape[0]
    if not -n <= index < n:
        return None
    kind = type(values)
    if kind in promote.PYTHON_SCALARS:
        values = promote.scalar_operand(values, aval)
        if values is None:
            return None
    else:
        other = getattr(values, "aval", None)
        if other is None or other.dtype is not aval.dtype:
            return None
    return _set_row(x, values, np.int32(index + n if index < 0 else index))


@fused()
def _set_row(x: Any, values: Any, i: Any) -> Any:
    row = _fit(values, x.shape[1:], x.shape[1:])
    return lax.dynamic_update_index_in_dim(x, row, i, 0)


def _fit(values: Any, shape: tuple[int, ...], named: tuple[int, ...]) -> Any:
    old = promote.shape_of(values)
    try:
        fits = np.broadcast_shapes(old, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"x.at[...]: values of shape {old} do not broadcast to the indexed part, of shape "
            f"{named}.\nInstead: give one value, or an array of that shape."
        )
    return promote.broadcast_to(values, shape)


def _to_dtype(values: Any, x: Any) -> Any:
    """Values in x's dtype; a warning where that may lose something."""
    aval = promote.aval_of("at", values)
    if aval.dtype == x.dtype:
        return values if hasattr(values, "aval") else promote.cast(values, x.dtype)
    common = promote.dtypes.common_type([x.aval, aval])[0]
    if common != x.dtype:
        warnings.warn(
            "scatter inputs have incompatible types: cannot safely cast value from "
            f"dtype={aval.dtype.name} to dtype={x.dtype.name}. In future this will be an error; "
            "convert the values first.",
            FutureWarning,
            stacklevel=5,
        )
    if aval.dtype.kind == "c" and x.dtype.kind != "c":
        values = lax.real(values)
    return promote.cast(values, x.dtype)


def _update(
    kind: str,
    x: Any,
    index: Any,
    values: Any,
    mode: Any,
    is_sorted: bool,
    unique: bool,
    wrap: bool,
) -> Any:
    if not hasattr(values, "aval") and type(values) not in promote.PYTHON_SCALARS:
        values = promote.lift("at", values)
    values = _to_dtype(values, x)
    plan, arrays, shape = parse(index, x.shape)
    if kind == "sub":
        kind, values = "add", -values if hasattr(values, "aval") else np.negative(values)
    if (
        kind == "set"
        and plan.is_basic
        and plan.in_bounds
        and _can_slide(plan)
        and shape == x.shape
        and all(type(a) is np.int32 for a in arrays)
    ):
        starts, sizes, drop, _ = _window(plan, arrays, shape)
        if state.trace is eval_trace:
            starts = [scalar_array(s) for s in starts]
        return _set_window(x, values, starts, sizes, drop, plan if plan.new_axes else None)
    if mode in (None, "fill"):
        mode = "drop"
    options = (mode, bool(is_sorted), bool(unique))
    if state.trace is eval_trace:
        arrays = [scalar_array(a) if type(a) is np.int32 else a for a in arrays]
    return _scatter(x, values, arrays, kind, plan, shape, bool(wrap), options)


def _match(values: Any, plan: Plan | None, part: tuple[int, ...]) -> Any:
    """Values broadcast to the indexed part, without the index's new axes."""
    if plan is None or not plan.new_axes:
        return _fit(values, part, part)
    dims = iter(part)
    full = tuple(
        1 if i in plan.new_axes else next(dims) for i in range(len(part) + len(plan.new_axes))
    )
    return lax.squeeze(_fit(values, full, full), plan.new_axes)


@fused("sizes", "drop", "plan")
def _set_window(x: Any, values: Any, starts: list[Any], sizes: Any, drop: Any, plan: Any) -> Any:
    part = tuple(n for i, n in enumerate(sizes) if i not in drop)
    values = _match(values, plan, part)
    if 0 in sizes:
        return x
    kept = tuple(i for i in range(len(sizes)) if i not in drop)
    values = lax.broadcast_in_dim(values, sizes, kept) if drop else values
    return lax.dynamic_update_slice(x, values, wrapped_starts(starts, x.shape, ()))


def _scatter_plan(
    plan: Plan, arrays: list[Any], shape: tuple[int, ...], wrap: bool
) -> tuple[Any, Any, tuple[int, ...]]:
    indices, map_axes, collapsed, windows, _ = index_vectors(plan, arrays, shape, wrap)
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=windows,
        inserted_window_dims=tuple(collapsed),
        scatter_dims_to_operand_dims=map_axes,
    )
    return indices, numbers, windows


@fused("kind", "plan", "shape", "wrap", "options")
def _scatter(
    x: Any,
    values: Any,
    arrays: list[Any],
    kind: str,
    plan: Plan,
    shape: tuple[int, ...],
    wrap: bool,
    options: tuple,
) -> Any:
    mode, is_sorted, unique = options
    part = plan.result_shape(shape)
    values = _match(values, plan, part)
    if 0 in part or 0 in shape:
        return x
    operand = lax.reshape(x, shape) if x.shape != shape else x
    indices, numbers, _ = _scatter_plan(plan, arrays, shape, wrap)
    alone = plan.is_basic and len(promote.shape_of(indices)) == 1
    scatter = _SCATTERS[kind]
    boolean = x.dtype == np.bool_ and kind in ("add", "mul")
    if boolean:
        operand, values = (lax.convert_element_type(v, np.int8) for v in (operand, values))
        scatter = _SCATTERS["max" if kind == "add" else "min"]
    out = scatter(
        operand,
        indices,
        values,
        numbers,
        indices_are_sorted=is_sorted or alone,
        unique_indices=unique or alone,
        mode=mode,
    )
    if boolean:
        out = lax.convert_element_type(out, np.bool_)
    return lax.reshape(out, x.shape) if x.shape != shape else out


_SCATTERS: dict[str, Callable[..., Any]] = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "mul": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}
