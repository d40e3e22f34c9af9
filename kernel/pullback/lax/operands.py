"""Checks of arguments that the families of operations share: axes, shapes, dtypes.

Builds on core only. Tested in tests/lax/test_operands.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core import errors
from pullback.core.aval import ShapedArray, typeof
from pullback.core.jvp import jvp_flat
from pullback.core.tracer import Tracer


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of an operand."""
    return typeof(x).shape


def dtype_of(x: Any) -> Any:
    """The dtype of an operand."""
    return typeof(x).dtype


def describe(*avals: ShapedArray) -> str:
    """The types of operands for an error message: `f32[2,3], f32[3]`."""
    return ", ".join(a.str_short() for a in avals)


def canonical_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of Python integers.

    Raises:
        TypeError: an entry is traced, not an integer, or negative.
    """
    try:
        result = tuple([operator.index(d) for d in shape])
    except TypeError as error:
        entries = shape if isinstance(shape, (tuple, list)) else (shape,)
        if any(isinstance(d, Tracer) for d in entries):
            raise errors.traced_shape_error(shape, name) from error
        raise TypeError(
            f"{name}: Shapes must be 1D sequences of concrete values of integer type, "
            f"got {shape!r}: an entry is not an integer."
        ) from error
    if any(d < 0 for d in result):
        raise TypeError(f"{name}: a shape must have nonnegative entries, got {result}")
    return result


def canonical_axis(name: str, axis: Any, ndim: int) -> int:
    """A non-negative axis of an array of `ndim` dimensions.

    Raises:
        ValueError: out of bounds.
    """
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise ValueError(f"{name}: {errors.axis_text(number, ndim)}")
    return number + ndim if number < 0 else number


def canonical_axes(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Distinct non-negative axes, in the order given.

    Raises:
        ValueError: out of bounds, or named twice.
    """
    result = tuple([canonical_axis(name, a, ndim) for a in axes])
    if len(set(result)) != len(result):
        raise ValueError(f"{name}: an axis is named twice in {tuple(axes)}")
    return result


def ints(xs: Sequence[Any]) -> tuple[int, ...]:
    """Python integers out of a sequence of integers."""
    return tuple([operator.index(x) for x in xs])


def same_dtype(name: str, *avals: ShapedArray) -> None:
    """Check that operands have one dtype.

    Raises:
        TypeError: they differ.
    """
    first = avals[0].dtype
    if any(a.dtype != first for a in avals[1:]):
        raise TypeError(
            f"{name} requires arguments to have the same dtypes, got {describe(*avals)}.\n"
            "Instead: convert one with x.astype(...)."
        )


def all_weak(*avals: ShapedArray) -> bool:
    """Whether a result of these operands has a weak type: all of them have."""
    return all(a.weak_type for a in avals)


def without(items: Sequence[Any], drop: Sequence[int]) -> tuple[Any, ...]:
    """The items whose positions are not in `drop`."""
    return tuple([x for i, x in enumerate(items) if i not in drop])


def inserted(items: Sequence[Any], at: int, item: Any) -> tuple[Any, ...]:
    """The items with one more before position `at`."""
    return (*items[:at], item, *items[at:])


def shifted(axes: Sequence[int], dim: int) -> tuple[int, ...]:
    """Axes of an array as axes of the array that has one more axis at `dim`."""
    return tuple([a + (a >= dim) for a in axes])


def out_dim_after(drop: Sequence[int], dim: int) -> int:
    """Where axis `dim` is after the axes in `drop` (not `dim`) are removed."""
    return dim - sum(a < dim for a in drop)


def refuse_sharding(name: str, sharding: Any) -> None:
    """Refuse an explicit output sharding.

    Raises:
        NotImplementedError: one was given.
    """
    if sharding is not None:
        raise NotImplementedError(
            f"{name}: an explicit output sharding is not supported here: {sharding}\n"
            "Instead: apply lax.with_sharding_constraint to the result."
        )


def jvp_by(fun: Callable[..., Any], multiple: bool = False) -> Callable[..., Any]:
    """The derivative rule of an operation that `fun` expresses by other operations.

    Args:
        fun: takes the operands and the parameters; gives the result (a list if `multiple`).
        multiple: whether the operation has several results.
    """

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        def flat(*xs: Any) -> Sequence[Any]:
            out = fun(*xs, **params)
            return out if multiple else [out]

        outs, t_outs = jvp_flat(flat, primals, tangents)
        return (outs, t_outs) if multiple else (outs[0], t_outs[0])

    return rule
