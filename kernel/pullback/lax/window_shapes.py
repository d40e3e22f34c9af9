"""What operations on sliding windows share: shapes, checks, lowering, one more axis.

Builds on conv_shapes.py. Tested in tests/lax/test_window.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core import errors
from pullback.core.aval import ShapedArray
from pullback.lax.conv_shapes import dilated, n_windows
from pullback.lax.operands import inserted


def padded_size(n: int, axis: int, p: dict[str, Any]) -> int:
    """The size of an axis with dilation and padding."""
    return dilated(n, p["base_dilation"][axis]) + sum(p["padding"][axis])


def result_shape(shape: Sequence[int], p: dict[str, Any]) -> tuple[int, ...]:
    """How many windows there are on each axis."""
    out = []
    for axis, n in enumerate(shape):
        window = dilated(p["window_dimensions"][axis], p["window_dilation"][axis])
        out.append(n_windows(padded_size(n, axis, p), window, p["window_strides"][axis]))
    return tuple(out)


def check_windows(name: str, x: ShapedArray, p: dict[str, Any]) -> None:
    """Check that there is one positive number of each kind per axis.

    Raises:
        TypeError: there is not.
    """
    for what, values in p.items():
        if what in _PER_AXIS and len(values) != x.ndim:
            raise errors.shape_error(
                f"{name}: {what} must have one entry per axis of {x.str_short()}, got {values}."
            )
    if any(w < 1 for w in p["window_dimensions"]):
        raise errors.shape_error(
            f"{name}: window_dimensions must be positive: {p['window_dimensions']}."
        )


_PER_AXIS = frozenset(
    ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
)


def lower_window(ctx: Any, values: Sequence[Any], inits: Sequence[Any], p: dict[str, Any]) -> Any:
    """A StableHLO reduce_window without its region; a list of constants if there is nothing."""
    if not ctx.aval_out.size:
        return [ctx.const(0, a) for a in ctx.avals_out]
    if not ctx.avals_in[0].size:
        return [
            ctx.hlo.broadcast_in_dim(ctx.type(a), i, ctx.dims(()))
            for a, i in zip(ctx.avals_out, inits, strict=True)
        ]
    return ctx.hlo.ReduceWindowOp(
        [ctx.type(a) for a in ctx.avals_out],
        list(values),
        list(inits),
        ctx.dims(p["window_dimensions"]),
        window_strides=ctx.dims(p["window_strides"]),
        base_dilations=ctx.dims(p["base_dilation"]),
        window_dilations=ctx.dims(p["window_dilation"]),
        padding=ctx.i64_matrix(p["padding"]),
    )


def insert_axis(p: dict[str, Any], dim: int) -> dict[str, Any]:
    """The parameters for one more axis, on which windows have size 1."""
    new = dict(p)
    for what in _PER_AXIS & p.keys():
        new[what] = inserted(p[what], dim, (0, 0) if what == "padding" else 1)
    return new
